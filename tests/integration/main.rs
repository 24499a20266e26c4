//! The module as its users meet it: a real server loads it, and clients speak to it.
//!
//! A folder for each field, and a file in it for each subject; [`support`] has what they share. [`torture`] stands
//! apart, since it takes long, and is compiled with the others so that it shares their helpers.
//!
//! Tests that ask for gigabytes, or measure what is resident, are `#[serial(memory)]`: one at a time, because a
//! kernel that keeps count of the memory it promises would refuse their sum, and one that runs short would push
//! out pages that they count.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod adversary;
mod commands;
mod formats;
mod memory;
mod module;
mod replication;
mod states;
mod support;
#[path = "../torture/mod.rs"]
mod torture;
mod transcripts;

use support::{client, filters, server};
