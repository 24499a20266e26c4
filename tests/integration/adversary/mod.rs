//! Hostile input, crowds of clients, and what commands cost.

mod advisories;
mod complexity;
mod crowds;
mod forged;
mod garbage;
mod sanitizers;
mod storm;
