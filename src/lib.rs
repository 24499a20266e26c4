//! Bloom filters for Redis and Valkey: a module with the `BF.*` commands on a native data type.
//!
//! | file | what it is |
//! |---|---|
//! | [`bloom`] | the filter core, which knows no server |
//! | [`commands`] | one file a command: request, outcome, reply |
//! | [`datatype`] | the types `MBbloom--` and `bloomfltr`, and their callbacks |
//! | [`keyspace`] | keys opened with their type checked |
//! | [`options`] | the module's options: their values, and their place in the server |
//! | [`limits`] | what memory a client's command may have |
//! | [`stats`] | the module's figures in INFO |
//! | [`number`] | numbers as people type and read them |
//! | [`server`] | the server's calls, one safe function each; the allocator, and lines for the log |
//! | `module` | what happens while the server loads the module |
//!
//! A command's way: borrowed arguments, a request that parses itself, the key opened, the filter changed in
//! the core, the change propagated and told once, the reply.

pub mod bloom;
pub mod commands;
pub mod datatype;
pub mod keyspace;
pub mod limits;
pub mod number;
pub mod options;
pub mod server;
pub mod stats;

mod module;
