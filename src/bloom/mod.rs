//! The filter core. It knows no server, no configuration and no I/O.
//!
//! A [`Filter`] is a [`chain`] of layers of one layout. Each room knows those above it in this table, and no other:
//!
//! | room | what it is |
//! |---|---|
//! | [`params`], [`error`], [`item`] | what a filter is made from, what can go wrong, and what goes in |
//! | [`bits`] | the bit array, its memory, and the instructions that test and set bits |
//! | [`chain`] | layers that are added as a filter grows, and the walk over them for one item or many |
//! | [`blocked`] | this project's layout: an item's probes lie within a few cache lines |
//! | [`scattered`] | layers whose probes are single bits anywhere in the array |
//! | [`classic`] | RedisBloom's layout, bit for bit |
//! | [`valkey`] | valkey-bloom's layout, bit for bit |
//! | [`exceptions`] | items that a filter leaves out |
//! | [`filter`] | a filter of any layout, and its figures |
//! | [`sets`] | filters combined: unions, intersections |
//! | [`packed`] | many items in one run of bytes, many answers in one bitmap |
//! | [`plan`], [`ahead`] | what a filter will take; a guess where the next item goes |
//! | [`codec`] | filters as bytes, and back |
//!
//! What state there is changes no answer: the keys that filters share, the last sizes that were computed,
//! the kernel that was detected, and the guess.
//!
//! Units, everywhere: capacities and counts in items, sizes in bytes or bits as named, rates as shares
//! between 0 and 1.

pub mod ahead;
pub mod bits;
pub mod blocked;
pub mod chain;
pub mod classic;
pub mod codec;
pub mod error;
pub mod exceptions;
pub mod filter;
pub mod item;
pub mod packed;
pub mod params;
pub mod plan;
pub mod scattered;
pub mod sets;
pub mod valkey;

#[cfg(test)]
pub(crate) mod tests;

pub use chain::{Allowance, Demand, Taken, UNLIMITED};
pub use error::Error;
pub use filter::Filter;
