//! The module as its users meet it: a real server loads it, and clients speak to it.
//!
//! One file for each subject; [`server`] starts the servers, [`client`] reads replies byte by byte, and
//! [`filters`] makes filters of every kind. Every test says what its failure would cost a user.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod add;
mod card;
mod client;
mod commands;
mod config;
mod exists;
mod filters;
mod hostile;
mod info;
mod insert;
mod persistence;
mod replication;
mod reserve;
mod server;
mod statistics;
mod urls;
