//! The layouts: how a hash becomes bits, one folder each.
//!
//! A new layout is a folder of its own, its name in [`params`](crate::params), its parameters in [`spec`](crate::spec),
//! its formats in [`codec`](crate::codec), and an arm in each match of the [`layers`](crate::layers).

pub mod blocked;
pub mod classic;
pub(crate) mod power;
pub(crate) mod scattered;
pub mod valkey;
