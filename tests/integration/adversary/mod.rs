//! Hostile input.

mod advisories;
pub mod forged;
pub mod garbage;
mod sanitizers;
