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
//! [`Filter::builder`] makes filters: [`insert`](Filter::insert), [`insert_many`](Filter::insert_many),
//! [`contains`](Filter::contains), [`contains_many`](Filter::contains_many), [`union_with`](Filter::union_with),
//! [`save`](Filter::save) and [`load`](Filter::load) are what most programs need. The crate `libbloom-rdb` reads
//! and writes the filters of servers.
//!
//! Bytes from outside are hostile: reading them gives a filter or an error, without a panic, and with no more memory
//! than the limit that is passed.
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
//! | [`layouts`] | a folder for each layout, and the layers of a filter in any of them |
//! | [`spec`] | what a new filter is made from, in any layout |
//! | [`exceptions`] | items that a filter leaves out |
//! | [`filter`] | a filter of any layout, and its figures |
//! | [`sets`], [`shrinking`] | filters combined; filters folded to the size that their items need |
//! | [`packed`] | many items in one run of bytes, many answers in one bitmap |
//! | [`plan`], [`ahead`] | what a filter will take; a guess where the next item goes |
//! | [`codec`] | filters as bytes, and back: a file for the formats of each layout, and the pieces of a dump |
//! | [`saving`], [`mod@file`] | a file that is replaced as a whole; a filter as a file, `.bloom` |
//! | [`builder`] | what programs without a server call |
//! | `checks` | what only tests and fuzzing call; with the feature of that name |
//!
//! A layout is described by four traits. [`chain::Rules`]: how its filters hash and grow. [`chain::batch::Layer`]: how a
//! layer is made, and what it does with items. [`chain::layered::Layered`]: what any filter's layers offer besides, which
//! chains have from the first two. [`layouts::scattered::Scattered`]: what RedisBloom's and valkey-bloom's layouts do not
//! share of their layers.
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
#[cfg_attr(docsrs, doc(hidden))]
pub mod builder;
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
pub mod layouts;
#[cfg_attr(docsrs, doc(hidden))]
pub mod packed;
#[cfg_attr(docsrs, doc(hidden))]
pub mod params;
#[cfg_attr(docsrs, doc(hidden))]
pub mod plan;
#[cfg_attr(docsrs, doc(hidden))]
pub mod saving;
#[cfg_attr(docsrs, doc(hidden))]
pub mod sets;
#[cfg_attr(docsrs, doc(hidden))]
pub mod shrinking;
#[cfg_attr(docsrs, doc(hidden))]
pub mod spec;

#[cfg(test)]
pub(crate) mod tests;

#[doc(inline)]
pub use builder::Builder;
#[cfg_attr(docsrs, doc(hidden))]
pub use chain::{Allowance, Demand, Limit, UNLIMITED};
#[doc(inline)]
pub use codec::DecodeError;
#[doc(inline)]
pub use error::{BuildError, Error, ParamError};
pub use file::FileError;
#[doc(inline)]
pub use filter::{Filter, Totals};
#[doc(inline)]
pub use item::Item;
#[doc(inline)]
pub use params::{ErrorRate, Seed, StoredLayout, Time};
#[doc(inline)]
pub use plan::{Plan, Stage};
#[doc(inline)]
pub use sets::{Mismatch, SetError};
#[doc(inline)]
pub use shrinking::ShrinkError;
