//! Scalable Bloom filters whose items lie within a few cache lines, in the bytes that Redis and Valkey modules store.
//!
//! ```
//! use libbloom::Filter;
//!
//! let mut seen = Filter::builder(1_000_000, 0.001).build()?;
//! assert!(seen.insert("https://example.com/")?); // true: it was new
//! assert!(seen.contains("https://example.com/"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Fast**: down to a false positive rate of 0.004 a query reads one cache line. A batch waits once for the memory
//!   of many items.
//! - **Right**: never a false negative, and the rate holds at any number of items, as the filter grows, for up to 2^40
//!   items. Seeds keep strangers from making items that collide.
//! - **Small**: 10.5 bits an item at 0.01. What is not written to takes no memory.
//! - **Everywhere the same**: the bytes are those of the server module, the Python and the npm package, on x86-64 and
//!   arm64, with vector instructions and without.
//!
//! # Usage
//!
//! Items are whatever is `AsRef<[u8]>`: `&str`, `String`, `&[u8]`, arrays, `Vec<u8>`.
//!
//! ```
//! use std::time::Duration;
//! use libbloom::Filter;
//!
//! // Batches are several times faster than one by one, if the filter is larger than the caches.
//! let mut seen = Filter::builder(1000, 0.01).build()?;
//! assert_eq!(seen.insert_many(["ann", "bob", "ann"])?, 2);
//! seen.extend(vec![String::from("eve")]);
//! assert_eq!(seen.contains_many(["ann", "eve"]), [true, true]);
//!
//! // It grows when it is full, unless it is `fixed`. For a list of unknown length: `growing`.
//! let mut growing = Filter::builder(100, 0.01).growing().build()?;
//! growing.insert_many((0..10_000_u32).map(u32::to_le_bytes))?;
//!
//! // It forgets, if it has a window.
//! let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(60)).build()?;
//! events.insert_at("event 17", 0)?; // milliseconds
//! assert!(events.contains_at("event 17", 60_000) && !events.contains_at("event 17", 120_000));
//!
//! // Filters with one seed are united and intersected.
//! let mut other = Filter::builder(1000, 0.01).build()?;
//! other.insert("joe")?;
//! other.union_with(&seen)?;
//! assert!(other.contains("bob"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`save`](Filter::save) and [`load`](Filter::load), [`write_to`](Filter::write_to) and
//! [`read_from`](Filter::read_from), [`to_bytes`](Filter::to_bytes) and [`from_bytes`](Filter::from_bytes) keep filters.
//! [`open`](Filter::open) maps a file, answers at once, and shares its memory with other processes. The feature `serde`
//! adds `Serialize` and `Deserialize`. The crate `libbloom-rdb` reads and writes the filters of servers.
//!
//! Bytes from outside are hostile: reading them gives a filter or an error, without a panic. The filter takes no more
//! memory than the limit that is passed; [`Filter::read_from`] says what reading takes besides.
//!
//! # How it is built
//!
//! The core knows no server, no configuration and, but for files, no I/O. A [`Filter`] is a chain of layers of one
//! layout. Each part knows those above it in this table, and no other. Parts without a link are public only
//! for this project's server module: any release may change them.
//!
//! | part | what it is |
//! |---|---|
//! | [`params`], [`error`], [`item`] | the values of parameters, what can go wrong, and what goes in |
//! | [`bits`] | the bit array, its memory, and the instructions that test and set bits |
//! | [`chain`] | layers that are added as a filter grows, and the walk over them for one item or many |
//! | [`layouts`] | a folder for each layout |
//! | [`spec`] | what a new filter is made from, in any layout |
//! | [`exceptions`] | items that a filter leaves out |
//! | [`layers`] | the layers of a filter in any layout |
//! | [`filter`] | a filter of any layout, and its figures |
//! | [`sets`], `shrinking` | filters combined; filters folded to the size that their items need |
//! | [`packed`] | many items in one run of bytes, many answers in one bitmap |
//! | [`plan`], [`ahead`] | what a filter will take; a guess where the next item goes |
//! | [`codec`] | filters as bytes, and back: a file for the formats of each layout, and the pieces of a dump |
//! | [`saving`], [`mod@file`], [`mapped`] | a file that is replaced as a whole; a filter as a file, `.bloom`, that is read or mapped |
//! | `builder` | what programs without a server call |
//! | `checks` | what only tests and fuzzing call; with the feature of that name |
//!
//! What fails leaves nothing behind: after an error a filter, a list or an array is as it was before, unless its function
//! says otherwise.
//!
//! Filters share some state, which never changes an answer: the secrets, the last sizes that were computed, the
//! kernel that was detected, and the guess of [`ahead`].
//!
//! Units, everywhere: capacities and counts in items, sizes in bytes or bits as named, rates as shares
//! between 0 and 1.

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

#[cfg_attr(docsrs, doc(hidden))]
pub mod ahead;
#[cfg_attr(docsrs, doc(hidden))]
pub mod bits;
mod builder;
#[cfg_attr(docsrs, doc(hidden))]
pub mod chain;
#[cfg(any(test, feature = "checks"))]
pub mod checks;
#[cfg_attr(docsrs, doc(hidden))]
pub mod codec;
#[cfg_attr(docsrs, doc(hidden))]
pub mod error;
#[cfg_attr(docsrs, doc(hidden))]
pub mod exceptions;
pub mod file;
#[cfg_attr(docsrs, doc(hidden))]
pub mod filter;
#[cfg_attr(docsrs, doc(hidden))]
pub mod item;
#[cfg_attr(docsrs, doc(hidden))]
pub mod layers;
#[cfg_attr(docsrs, doc(hidden))]
pub mod layouts;
pub mod mapped;
#[cfg_attr(docsrs, doc(hidden))]
pub mod packed;
#[cfg_attr(docsrs, doc(hidden))]
pub mod params;
#[cfg_attr(docsrs, doc(hidden))]
pub mod plan;
#[cfg_attr(docsrs, doc(hidden))]
pub mod saving;
#[cfg(feature = "serde")]
mod serde;
#[cfg_attr(docsrs, doc(hidden))]
pub mod sets;
mod shrinking;
#[cfg_attr(docsrs, doc(hidden))]
pub mod spec;

#[cfg(test)]
pub(crate) mod tests;

#[cfg_attr(docsrs, doc(hidden))]
pub use chain::{Allowance, Demand, Limit, UNLIMITED};
pub use file::FileError;
pub use mapped::MappedFilter;
#[doc(inline)]
pub use {
    builder::Builder,
    codec::DecodeError,
    error::{BuildError, Error, ParamError},
    filter::{Filter, Totals},
    item::Item,
    params::{ErrorRate, Layout, Seed, Time},
    plan::{Plan, Stage},
    sets::{Mismatch, SetError},
    shrinking::ShrinkError,
};
