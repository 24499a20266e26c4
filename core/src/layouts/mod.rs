//! The layouts: how a hash becomes bits, one folder each.

pub mod blocked;
pub mod classic;
pub(crate) mod power;
pub(crate) mod scattered;
pub mod valkey;
