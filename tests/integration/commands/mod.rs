//! What each command answers, and refuses.

mod add;
mod card;
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
mod rates;
mod reserve;
mod sets;
mod shrink;
mod window;
