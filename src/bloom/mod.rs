//! The filter core. It knows no server, no configuration and no I/O.
//!
//! A [`Filter`] is a chain of layers. A *blocked* layer keeps each of an item's probes inside few cache
//! lines; the theory and the sizes are in [`sizing`], the bits of a line in [`kernel`], the choice of lines
//! and the error budget of a chain in [`blocked`]. A [`classic`] layer has RedisBloom's bits, exactly.
//! [`hash`] makes an item into the 128 bits that all blocked layers use ([`murmur`] does it for classic
//! ones), [`batch`] walks over layers for one item or many, [`ahead`] guesses where the next one goes, and
//! [`codec`] turns filters into bytes and back.
//!
//! What state there is changes no answer: the keys that filters share, the last sizes that were computed,
//! the kernel that was detected, and the guess.
//!
//! Units, everywhere: capacities and counts in items, sizes in bytes or bits as named, rates as shares
//! between 0 and 1.

pub mod ahead;
pub mod batch;
pub mod bits;
pub mod blocked;
pub mod chain;
pub mod classic;
pub mod codec;
pub mod error;
pub mod filter;
pub mod hash;
pub mod kernel;
pub mod ln;
pub mod memory;
pub mod modulus;
pub mod murmur;
pub mod params;
pub mod plan;
pub mod sizing;
pub mod validate;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod proptests;
#[cfg(test)]
mod scarcity;
#[cfg(test)]
mod statistics;

pub use chain::{Allowance, Demand, Taken, UNLIMITED};
pub use error::Error;
pub use filter::Filter;
