//! What unions and intersections need of a layout, and why filters cannot be combined. [`sets`](crate::sets) combines
//! them.

use std::fmt;

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use crate::bits::array::BitArray;
use crate::chain::{Rules, batch};
use crate::error::Error;
use crate::params::ErrorRate;

/// Why filters cannot be combined. Nothing changed.
///
/// ```
/// # use libbloom::{Filter, Mismatch, SetError};
/// let mut monday = Filter::builder(1000, 0.01).seed(1).build()?;
/// let tuesday = Filter::builder(1000, 0.01).seed(2).build()?;
/// let refused = monday.union_with(&tuesday);
/// assert_eq!(refused, Err(SetError::Source { index: 0, why: Mismatch::Seed }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetError {
    /// A source cannot be combined with the first filter.
    Source {
        /// The index of the source.
        index: usize,
        /// The reason.
        why: Mismatch,
    },
    /// The destination cannot be combined with any filter.
    Destination {
        /// The reason.
        why: Mismatch,
    },
    /// The rates of the layers sum to more than the result may have.
    Rate {
        /// The sum of the rates.
        sum: f64,
        /// A rate for the result that would be high enough, if there is one.
        enough: Option<ErrorRate>,
    },
    /// The rates of the layers of classic filters sum to more than the result may have, which follows from the rate of
    /// its first layer.
    ClassicRate {
        /// The sum of the layers' rates, with those that later growth may add.
        sum: f64,
        /// The filter's rate.
        rate: f64,
    },
    /// A rate was given for classic filters.
    RateOfClassic,
    /// The result would have more exceptions than a filter can have.
    TooManyExceptions {
        /// The most exceptions that a filter can have.
        exceptions: u64,
    },
    /// Looking up all exceptions in all layers would take too long: the product of their numbers is above
    /// [`MOST_ASKED`](crate::sets::MOST_ASKED).
    TooManyToAsk {
        /// Exceptions of all filters.
        exceptions: u64,
        /// Layers of all filters.
        layers: u64,
    },
    /// There is no memory for the result.
    Memory(Error),
}

impl From<Error> for SetError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

/// Why a source cannot be combined with the first filter.
///
/// ```
/// # use libbloom::{Filter, Mismatch, SetError, StoredLayout};
/// let mut own = Filter::builder(1000, 0.01).build()?;
/// let classic = Filter::builder(1000, 0.01).layout(StoredLayout::Classic).build()?;
/// let refused = own.union_with(&classic);
/// assert_eq!(refused, Err(SetError::Source { index: 0, why: Mismatch::Layout }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The filter has another seed.
    Seed,
    /// The filter has another layout.
    Layout,
    /// The filter has a layout whose filters are never combined.
    Never,
    /// The hashes of one have 64 bits, those of the other 32.
    HashWidth,
    /// The filter has a window.
    Window,
    /// The filter has layers of another shape.
    Shape,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { index, why } => write!(f, "filter {index} does not fit: {why}"),
            Self::Destination { why } => write!(f, "the filter cannot be merged into: {why}"),
            Self::Rate { sum, enough } => {
                write!(f, "the error rates of the layers sum to {sum}")?;
                match enough {
                    Some(rate) => write!(f, ": use an error rate of {} or more", rate.value()),
                    None => f.write_str(": no error rate is enough"),
                }
            }
            Self::ClassicRate { sum, rate } => {
                write!(f, "the error rates of the layers sum to {sum}, above {rate}")
            }
            Self::RateOfClassic => f.write_str("filters of RedisBloom's layout keep their error rate"),
            Self::TooManyExceptions { exceptions } => {
                write!(f, "the result would have more than {exceptions} exceptions")
            }
            Self::TooManyToAsk { exceptions, layers } => {
                write!(
                    f,
                    "{exceptions} exceptions in {layers} layers are too many to look up"
                )
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed => "it has another seed",
            Self::Layout => "it has another layout",
            Self::Never => "filters of valkey-bloom's layout are never combined",
            Self::HashWidth => "its hashes have another width",
            Self::Window => "it has a window",
            Self::Shape => "it has another capacity or error rate, or has grown",
        })
    }
}

impl std::error::Error for SetError {}

/// A layer that may be combined with others of its shape.
pub(crate) trait Mergeable: batch::Layer + Sized {
    /// The shape, in a form that can be compared and sorted.
    type ShapeKey: Copy + Ord;
    /// The unit of the layer's bit array.
    type Unit: Zeroable + NoUninit + AnyBitPattern;

    /// The layer's shape.
    fn shape_key(&self) -> Self::ShapeKey;

    /// The bit array.
    fn bits(&self) -> &BitArray<Self::Unit>;

    /// The bit array, to be changed.
    fn bits_mut(&mut self) -> &mut BitArray<Self::Unit>;

    /// Sets the number of counted items.
    fn set_items(&mut self, items: u64);

    /// The mean number of set bits of a full layer of this shape.
    fn ones_when_full(&self) -> u64;

    /// The mean number of items that a layer of this shape counts when `ones` bits are set.
    fn items_behind(&self, ones: u64) -> u64;

    /// The most bits that one item sets.
    fn bits_of_item(&self) -> u64;

    /// The rate that the layer was made for, as it is stored: at most [`Self::full_rate`].
    fn made_rate(&self) -> f64;

    /// The rate of the layer when it is full.
    fn full_rate(&self) -> f64;

    /// Set bits.
    fn ones(&self) -> u64 {
        self.bits().ones()
    }
}

/// What merging needs of a layout's rules.
pub(crate) trait MergeRules: Rules<Layer: Mergeable> {
    /// Checks that filters of these and of other rules have the same hash.
    ///
    /// # Errors
    /// [`Mismatch::Seed`] or [`Mismatch::HashWidth`].
    fn check_hash(&self, other: &Self) -> Result<(), Mismatch>;

    /// Checks that the caller may choose the rate of a filter of these rules, if one is given.
    ///
    /// # Errors
    /// [`SetError::RateOfClassic`].
    fn check_rate(&self, rate: Option<ErrorRate>) -> Result<(), SetError>;

    /// A copy of these rules, with another rate if one is given and the layout has a rate to choose.
    fn with_rate(&self, rate: Option<ErrorRate>) -> Self;

    /// Whether both keep the same rate, where the layout has a rate to choose.
    fn has_same_rate(&self, other: &Self) -> bool;

    /// Checks that a filter with these rules can have layers with these rates, oldest first.
    ///
    /// # Errors
    /// [`SetError::Rate`] or [`SetError::ClassicRate`].
    fn check_rates(&self, rates: &[f64]) -> Result<(), SetError>;

    /// Sorts merged layers, so that items go into the last one. It allocates nothing. The caller must set the layers'
    /// offsets afterwards.
    fn order(&self, layers: &mut [Self::Layer]);
}
