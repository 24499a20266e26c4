//! Helpers of the tests: servers, clients, and filters of every kind.

pub mod aof;
pub mod chunks;
pub mod client;
pub mod filters;
pub mod items;
pub mod link;
pub mod packed;
pub mod payload;
pub mod primary;
pub mod server;
pub mod stored;
pub mod stored_valkey;
pub mod table;
pub mod windows;
