//! The errors of filters, with the data that a message needs. The texts here are for programs; the messages that a
//! server sends to clients are its own.

use std::fmt;

/// A parameter outside of its range.
///
/// ```
/// # use libbloom::{ErrorRate, ParamError};
/// assert_eq!(ErrorRate::new(0.0), Err(ParamError::ErrorRate));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// The error rate is not a number strictly between 0 and 1.
    ErrorRate,
    /// The capacity is not in `1..=Capacity::MAX`.
    Capacity,
    /// The expansion is not in `1..=Expansion::MAX`.
    Expansion,
    /// The window is not of whole seconds, or not of 1 to 2^32 - 1 of them.
    Window,
    /// The number of slices is not one of `Window::SLICES`.
    Slices,
    /// The tightening ratio is not a number strictly between 0 and 1.
    Tightening,
}

/// Why a filter could not be made, or another item not be added. Nothing changed.
///
/// ```
/// # use libbloom::{Error, Filter};
/// let mut filter = Filter::builder(1, 0.01).fixed().build()?;
/// filter.insert("ann")?;
/// assert_eq!(filter.insert("bob"), Err(Error::Full { capacity: 1 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The filter is full, and may not grow or can have no further layer: its rate would be 0, or its capacity above
    /// 2^63 - 1.
    Full {
        /// Items that its newest layer, or all of its layers, are made for.
        capacity: u64,
    },
    /// The filter would need more bytes than the caller allows.
    OverLimit {
        /// Bytes that the filter would need.
        bytes: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// The filter would have more layers than the caller allows.
    TooManyLayers {
        /// Layers that it may have.
        most: usize,
    },
    /// The allocator had no memory: for a bit array, a list or exceptions.
    OutOfMemory {
        /// Bytes that were requested.
        bytes: u64,
    },
}

/// A filter that a [`Builder`](crate::Builder) could not make.
///
/// ```
/// # use libbloom::{BuildError, Filter, ParamError};
/// let refused = Filter::builder(0, 0.01).build().err();
/// assert_eq!(refused, Some(BuildError::Param(ParamError::Capacity)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A parameter is out of its range.
    Param(ParamError),
    /// Two options exclude each other, as `fixed` and `expansion`, or one needs another. The sentence names both.
    Conflict(&'static str),
    /// There is no room for the filter.
    Filter(Error),
}

impl From<ParamError> for BuildError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl From<Error> for BuildError {
    fn from(error: Error) -> Self {
        Self::Filter(error)
    }
}

/// Refuses with `error`, unless what is asked `is_right`.
pub(crate) fn require<E>(is_right: bool, error: E) -> Result<(), E> {
    if is_right { Ok(()) } else { Err(error) }
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ErrorRate => "the error rate must be above 0 and below 1",
            Self::Capacity => "the capacity must be between 1 and 2^40 items",
            Self::Expansion => "the expansion must be between 1 and 32768",
            Self::Window => "a window must be of 1 to 2^32 - 1 whole seconds",
            Self::Slices => "a window must have 2 to 64 slices",
            Self::Tightening => "the tightening ratio must be above 0 and below 1",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { capacity } => {
                write!(f, "the filter is full with {capacity} items, and may not grow")
            }
            Self::OverLimit { bytes, limit } => {
                write!(f, "the filter would need {bytes} bytes, and may have {limit}")
            }
            Self::TooManyLayers { most } => write!(f, "the filter may have {most} layers, and needs more"),
            Self::OutOfMemory { bytes } => write!(f, "there is no memory for {bytes} bytes"),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param(error) => error.fmt(f),
            Self::Conflict(what) => f.write_str(what),
            Self::Filter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ParamError {}
impl std::error::Error for Error {}
impl std::error::Error for BuildError {}
