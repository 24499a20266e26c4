//! The module as a guest of the server: how it is loaded and configured, what it tells, and its keys among others.

mod acl;
mod callbacks;
mod config;
mod keys;
mod loading;
mod reports;
mod watching;
