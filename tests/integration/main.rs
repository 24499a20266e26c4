//! The module as its users meet it: a real server loads it, and clients speak to it.
//!
//! One file for each subject; [`server`] starts the servers, [`client`] reads replies byte by byte, and
//! [`filters`] makes filters of every kind. Every test says what its failure would cost a user.
//!
//! Tests that ask for gigabytes, or measure what is resident, are `#[serial(memory)]`: one at a time, because a
//! kernel that keeps count of the memory it promises would refuse their sum, and one that runs short would push
//! out pages that they count.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod accounts;
mod acl;
mod add;
mod advisories;
mod aof;
mod callbacks;
mod card;
mod chunks;
mod client;
mod cluster;
mod commands;
mod complexity;
mod config;
mod counts;
mod crash;
mod docs;
mod exceptions;
mod exists;
mod expiry;
mod failover;
mod filters;
mod forged;
mod freeing;
mod histories;
mod hostile;
mod info;
mod insert;
mod keys;
mod layout;
mod limits;
mod load;
mod loading;
mod memory;
mod packed;
mod packed_replication;
mod persistence;
mod plan;
mod redisbloom;
mod replicas;
mod replication;
mod reserve;
mod rival;
mod sanitizers;
mod server;
mod sets;
mod slots;
mod statistics;
mod storm;
mod urls;
mod valkey;
mod valkey_rival;
mod valkey_words;
mod watching;
mod window;
mod window_replication;
