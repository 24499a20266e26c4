//! Tests of the core as a whole.
//!
//! [`failing`] is an allocator that fails on demand; [`oracle`] is a naive filter to compare with; [`stored`] and
//! [`stored_valkey`] have filters that RedisBloom and valkey-bloom wrote, and [`valkey`] compares with the crate behind
//! the latter. [`laws`] hold for any filter and any items, those of [`window`] for filters that forget; [`sets`],
//! [`shrinking`] and [`exceptions`] have their own. [`sharing`] is about threads, [`moving`] and [`scarcity`] about
//! memory that moves or runs out. [`protocol`] is what replicas repeat. [`crafted`] counts, by means of [`work`], what
//! malicious headers cost. [`checks`] breaks each invariant, and [`torture`] measures rates and sizes.

pub mod failing;
pub mod oracle;
pub mod stored;
pub mod work;

mod checks;
mod crafted;
mod exceptions;
mod laws;
mod moving;
mod protocol;
mod scarcity;
mod sets;
mod sharing;
mod shrinking;
mod stored_valkey;
mod torture;
mod valkey;
mod window;
