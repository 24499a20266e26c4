//! What can go wrong with a filter, with the data a caller needs to say so. No wire text lives here.

/// A parameter outside of what a filter can be made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// The error rate is not a number strictly between 0 and 1.
    ErrorRate,
    /// The capacity is not in `1..=Capacity::MAX`.
    Capacity,
    /// The expansion is not in `1..=Expansion::MAX`.
    Expansion,
    /// The number of slices is not one of `Window::SLICES`.
    Slices,
    /// The tightening ratio is not a number strictly between 0 and 1.
    Tightening,
}

/// A filter that could not be made, or could not take another item. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The filter may not grow, and holds as many items as it was made for.
    Full {
        /// Items that the filter was made for.
        capacity: u64,
    },
    /// The filter would take more bytes than the caller allows.
    OverLimit {
        /// Bytes that the filter would take.
        bytes: u64,
        /// Bytes that it may take.
        limit: u64,
    },
    /// The allocator had no room for a bit array.
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
    },
}
