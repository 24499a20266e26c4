//! The memory that a filter requests before it allocates, and lists that can fail.

use crate::error::{Error, require};

/// Up to this many values a list is exactly as long as needed, because there are many small filters.
const EXACT: usize = 16;

/// Bytes of a filter's own struct. It is defined here because the struct is in a module above this one.
pub const FILTER_BYTES: u64 = 96;

/// The memory that a filter requests, in bytes as [`Filter::bytes`](crate::Filter::bytes) counts them. What an
/// allocator adds to a block is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes to be allocated now.
    pub new: u64,
    /// Bytes of the filter afterwards, with the new ones, and without what they replace.
    pub total: u64,
    /// The number of layers afterwards, if the filter grows. One that is loaded or copied does not grow.
    pub grows_to: Option<usize>,
}

/// The limit that forbids a [`Demand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many bytes.
    Bytes(u64),
    /// At most this many layers.
    Layers(usize),
}

/// Decides whether a filter may have the memory of a [`Demand`], of which nothing new is allocated yet. An error is the
/// limit that forbids it.
///
/// ```
/// use libbloom::{Demand, Error, Filter, Limit};
///
/// let mut filter = Filter::builder(100, 0.01).build()?;
/// let one_layer = |demand: Demand| match demand.grows_to {
///     Some(layers) if layers > 1 => Err(Limit::Layers(1)),
///     _ => Ok(()),
/// };
/// let numbers: Vec<_> = (0u32..1000).map(u32::to_be_bytes).collect();
/// let items = numbers.iter().map(|number| &number[..]);
/// let end = filter.add_all(items, 0, &one_layer, |_| ());
/// assert_eq!(end, Err(Error::TooManyLayers { most: 1 }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
pub type Allowance<'a> = &'a dyn Fn(Demand) -> Result<(), Limit>;

/// No limit but the allocator's.
pub const UNLIMITED: Allowance<'static> = &|_: Demand| Ok(());

/// At most `limit` bytes for a filter as a whole.
pub fn at_most(limit: u64) -> impl Fn(Demand) -> Result<(), Limit> {
    move |demand: Demand| require(demand.total <= limit, Limit::Bytes(limit))
}

/// Requests memory for a filter of `total` bytes, of which it keeps `held`. It `grows_to` so many layers, if it grows.
pub(crate) fn ask(
    held: u64,
    total: u64,
    grows_to: Option<usize>,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    let new = total.saturating_sub(held);
    allowance(Demand { new, total, grows_to }).map_err(|limit| match limit {
        Limit::Bytes(limit) => Error::OverLimit { bytes: total, limit },
        Limit::Layers(most) => Error::TooManyLayers { most },
    })
}

/// An empty list with room for `count` values. Every list whose length a caller can choose gets its room from here.
pub fn reserved<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    Ok(list)
}

/// Makes room for `more` values. The error contains the size of the whole list.
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), Error> {
    let bytes = (list.len().saturating_add(more)).saturating_mul(size_of::<T>()) as u64;
    let reserved = list.try_reserve_exact(more);
    reserved.map_err(|_| Error::OutOfMemory { bytes })
}

/// A list of all `values`.
pub fn listed<T>(values: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) -> Result<Vec<T>, Error> {
    let values = values.into_iter();
    let mut list = reserved(values.len())?;
    list.extend(values);
    Ok(list)
}

/// Appends `value` to a list whose final length is unknown.
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), Error> {
    reserve_one(list)?;
    list.push(value);
    Ok(())
}

/// Makes room for another value. A long list grows by a part of its length, so that it is not copied for every value.
pub(crate) fn reserve_one<T>(list: &mut Vec<T>) -> Result<(), Error> {
    let more = room_for(list.len() + 1, list.capacity()) - list.len();
    reserve(list, more)
}

/// The room of a list that must hold `count` values and has room for `room`.
fn room_for(count: usize, room: usize) -> usize {
    if count <= room {
        room
    } else if count <= EXACT {
        count
    } else {
        count + (count - 1) / 8 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter of many layers would use more memory than its figures say, or its list would be copied for every
    /// layer.
    #[test]
    fn a_long_list_grows_by_an_eighth() {
        for held in 0..1000 {
            let more = if held < EXACT { 1 } else { held / 8 };
            assert_eq!(room_for(held + 1, held), held + more);
            assert_eq!(room_for(held, held), held);
        }
    }

    /// The log would name another number of bytes than the one that could not be allocated.
    #[test]
    fn the_error_tells_what_the_list_would_take() {
        use crate::tests::failing::{self, Shortage};
        let mut list = vec![1u64, 2, 3];
        let refused = failing::after(0, Shortage::Lasting, || reserve(&mut list, 7));
        assert_eq!(refused, Err(Error::OutOfMemory { bytes: 80 }));
        assert_eq!(reserve(&mut list, 7), Ok(()));
        assert!(list.capacity() >= 10);
    }
}
