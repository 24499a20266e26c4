//! Bloom filters for Redis and Valkey.
pub mod bloom;
