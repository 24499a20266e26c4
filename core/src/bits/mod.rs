//! What every layout is built from: the bit array, its memory, and the instructions that test and set bits.
//! Nothing here knows of layouts, chains or filters.

pub mod array;
pub(crate) mod combine;
pub(crate) mod fold;
pub mod kernel;
pub mod memory;
pub mod units;
