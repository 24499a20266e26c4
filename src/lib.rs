//! Bloom filters for Redis and Valkey: a module with the `BF.*` commands on a native data type.
//!
//! | file | what it is |
//! |---|---|
//! | [`libbloom`] | the filter core, a crate of its own in `core/`, which knows no server |
//! | [`commands`] | one file a command: request, outcome, reply |
//! | [`work`] | what commands do to a key: making its filter, changing it, propagating that |
//! | [`rivals`] | the words of RedisBloom and valkey-bloom |
//! | [`call`] | what a call of a command is made of: arguments, options, replies, errors |
//! | `datatype` | the types `MBbloom--` and `bloomfltr`, and their callbacks |
//! | `keyspace` | keys opened with their type checked |
//! | [`options`] | the module's options: their values, and their place in the server |
//! | `limits` | what memory a client's command may have |
//! | `stats` | the module's figures in INFO |
//! | `number` | numbers as people type and read them |
//! | `server` | the server's calls, one safe function each; the allocator, and lines for the log |
//! | `module` | what happens while the server loads the module |

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

// The fuzz targets use what is public.
pub mod call;
pub mod commands;
pub mod options;
pub mod rivals;
pub mod work;

mod datatype;
mod keyspace;
mod limits;
mod module;
mod number;
mod server;
mod stats;
#[cfg(test)]
mod tests;
