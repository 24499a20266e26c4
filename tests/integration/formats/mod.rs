//! What is stored and sent in bytes, of this module and of others: it comes back as it was.

mod aof;
mod chunks;
mod crash;
mod layout;
mod moves;
mod persistence;
mod redisbloom;
pub mod rival;
mod valkey;
mod valkey_rival;
mod valkey_words;
