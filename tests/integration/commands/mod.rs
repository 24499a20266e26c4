//! What each command does. What it refuses is in `tests/transcripts`.

mod add;
mod crawl;
mod declared;
mod docs;
mod exceptions;
mod expiry;
mod info;
mod insert;
mod missing;
mod packed;
mod plan;
mod reserve;
mod sets;
mod shrink;
mod window;
