//! What the fuzz targets share: how the fuzzer's bytes are read, and what must hold for every filter.
//!
//! | target | what its bytes are |
//! |---|---|
//! | `stream` | the values of an RDB stream, of any encoding version |
//! | `chunks` | a chunk header, then chunks, items and questions in any order |
//! | `commands` | the arguments of a command, and values of options |
//! | `rdb` | an RDB file, or a payload of DUMP |
//! | `operations` | what is done to a filter, which is compared with a set |
//!
//! A target fails by panicking. All memory that a filter asks for is held against [`LIMIT`], and the fuzzer
//! itself refuses any larger allocation.

pub mod check;
pub mod commands;
pub mod stream;
pub mod tape;
pub mod targets;

/// The most bytes that a filter may take: a layer of more than one piece of a stream just fits.
pub const LIMIT: u64 = (1 << 20) + (1 << 16);
