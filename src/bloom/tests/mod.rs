//! Tests of the core as a whole.
//!
//! [`oracle`] has what most of them compare with, and [`stored`] filters that RedisBloom wrote; [`laws`] hold for any
//! filter and any items, [`scarcity`] is about memory that runs out, and [`statistics`] measures rates.

pub mod oracle;
pub mod stored;

mod laws;
mod scarcity;
mod statistics;
