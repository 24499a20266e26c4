//! What every layout is made of: the bit array, its memory, and the instructions that test and set bits. Nothing here
//! knows a layout, a chain or a filter.

pub mod array;
pub mod combine;
pub mod kernel;
pub mod memory;
