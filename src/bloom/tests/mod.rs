//! Tests of the core as a whole.
//!
//! [`oracle`] has what most of them compare with, [`stored`] filters that RedisBloom wrote, and [`stored_valkey`] those
//! of valkey-bloom; [`laws`] hold for any filter and any items, those of [`window`] for filters that forget, [`moving`]
//! and [`scarcity`] are about memory that moves or runs out, and [`statistics`] measures rates.

pub mod oracle;
pub mod stored;

mod exceptions;
mod laws;
mod moving;
mod scarcity;
mod sets;
mod sharing;
mod statistics;
mod stored_valkey;
mod valkey;
mod window;
