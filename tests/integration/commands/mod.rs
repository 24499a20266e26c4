//! What each command answers, and refuses.

mod add;
mod crawl;
mod declared;
mod docs;
mod exceptions;
mod exists;
mod expiry;
mod info;
mod insert;
mod missing;
mod packed;
mod plan;
mod refused;
mod reserve;
mod sets;
mod shrink;
mod window;
