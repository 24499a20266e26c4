//! The memory of a chain: what it uses, and what it requests before it allocates.

use std::ops::{Add, Sub};

use super::batch::Layer;
use crate::bits::memory::BlockSize;
use crate::error::Error;

/// Up to this many layers the list of layers is exactly as long as needed, because there are many small filters.
const EXACT_LAYERS: usize = 16;

/// The block of a filter's own struct. It is defined here because the struct is in a module above this one.
pub const FILTER: BlockSize = BlockSize { bytes: 56, align: 8 };

/// What filters of a layout allocate besides the bits of their layers.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Blocks of the filter itself.
    own: &'static [BlockSize],
    /// The entry of a layer in the list of layers.
    entry: BlockSize,
    /// Bytes for each layer in a second list next to the list of layers; 0 if there is none.
    beside: usize,
    /// Bytes of a layer's array before its bits.
    head: u64,
    /// Bytes of a unit of a layer's array.
    unit: usize,
    /// From a number of layers, the bytes that are reported for a filter, without its bits. `None` if the bytes that the
    /// filter requests are reported.
    reported: Option<fn(usize) -> u64>,
}

impl Frame {
    /// The frame of filters with layers `L`, these blocks of their own, and a second list of `beside` bytes for each
    /// layer.
    pub const fn new<L: Layer>(own: &'static [BlockSize], beside: usize) -> Self {
        Self {
            own,
            entry: BlockSize::of::<L>(),
            beside,
            head: L::HEAD,
            unit: L::UNIT,
            reported: None,
        }
    }

    /// This frame, with `bytes` to report what another module would: from a number of layers, the bytes of a
    /// filter without its bits.
    pub const fn reporting(self, bytes: fn(usize) -> u64) -> Self {
        Self {
            reported: Some(bytes),
            ..self
        }
    }

    /// The bytes that are reported for a filter with `layers` layers and `arrays` bytes of bits. In a list of more than
    /// `EXACT_LAYERS` layers the spare room, an eighth at most, is not counted, so that a filter is as large as its
    /// copy on a replica, whose list may have grown in other steps.
    pub fn bytes(self, layers: usize, arrays: u64) -> u64 {
        let structs = self.reported.map_or_else(
            || {
                let own: u64 = self.own.iter().map(|block| block.bytes).sum();
                own + layers as u64 * (self.head + self.entry.bytes + self.beside as u64)
            },
            |reported| reported(layers),
        );
        arrays.saturating_add(structs)
    }

    /// The number of layers with bit arrays of these sizes, and their cost. It leaves out how the allocator rounds the
    /// list of layers, because that depends on the room in the list.
    fn layers(self, arrays: impl Iterator<Item = u64>, rounding: Rounding<'_>) -> (usize, Cost) {
        let entry = Cost {
            asked: self.entry.bytes + self.beside as u64,
            taken: 0,
        };
        arrays.fold((0, Cost::NONE), |(layers, cost), bytes| {
            let asked = bytes.saturating_add(self.head);
            let taken = rounding(BlockSize::of_array(asked, self.unit));
            (layers + 1, cost + entry + Cost { asked, taken })
        })
    }

    /// The cost of the lists of layers with the allocator's rounding. The requested bytes are counted for each layer,
    /// without spare room, as [`Self::bytes`] explains.
    fn lists(self, room: usize, rounding: Rounding<'_>) -> Cost {
        let list = |entry: u64, align| BlockSize {
            bytes: (room as u64).saturating_mul(entry),
            align,
        };
        let lists = [
            list(self.entry.bytes, self.entry.align),
            list(self.beside as u64, align_of::<u64>()),
        ];
        let taken = lists.into_iter().filter(|block| block.bytes > 0).map(rounding);
        Cost {
            asked: 0,
            taken: taken.fold(0, u64::saturating_add),
        }
    }
}

/// A function that returns the bytes which an allocator uses for a block.
pub type Rounding<'a> = &'a dyn Fn(BlockSize) -> u64;

/// An amount of memory. The costs of its blocks add up to the cost of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that the filter requests.
    pub asked: u64,
    /// Bytes that the allocator uses for them, as it rounds up each block.
    pub taken: u64,
}

impl Cost {
    /// No memory.
    pub const NONE: Self = Self { asked: 0, taken: 0 };

    /// The cost of all `blocks`.
    pub fn of(blocks: &[BlockSize], rounding: Rounding<'_>) -> Self {
        let each = blocks.iter().map(|&block| Self {
            asked: block.bytes,
            taken: rounding(block),
        });
        each.fold(Self::NONE, Self::add)
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            asked: self.asked.saturating_add(more.asked),
            taken: self.taken.saturating_add(more.taken),
        }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self {
            asked: self.asked.saturating_sub(less.asked),
            taken: self.taken.saturating_sub(less.taken),
        }
    }
}

/// The memory that a filter requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The memory to be allocated now.
    pub new: Cost,
    /// The memory of the filter afterwards, with the new memory, and without what that replaces.
    pub total: Cost,
    /// The number of layers afterwards, if the filter grows. A stored filter does not grow when it is loaded or
    /// copied.
    pub grows_to: Option<usize>,
}

impl Demand {
    /// The memory that the filter has already and keeps.
    pub fn kept(&self) -> Cost {
        self.total - self.new
    }
}

/// The limit that forbids a [`Demand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many bytes.
    Bytes(u64),
    /// At most this many layers.
    Layers(usize),
}

/// Decides what memory a filter may have. Closures are allowances too, of an allocator that rounds nothing up:
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
pub trait Allow {
    /// Decides whether a filter may have the memory of `demand`, of which nothing new is allocated yet.
    ///
    /// # Errors
    /// The limit that forbids it.
    fn allow(&self, demand: Demand) -> Result<(), Limit>;

    /// Bytes that the allocator uses for a block, from which [`Cost::taken`] is summed.
    fn taken(&self, block: BlockSize) -> u64 {
        block.bytes
    }
}

impl<F: Fn(Demand) -> Result<(), Limit>> Allow for F {
    fn allow(&self, demand: Demand) -> Result<(), Limit> {
        self(demand)
    }
}

/// A reference to an allowance.
pub type Allowance<'a> = &'a dyn Allow;

/// No limit but the allocator's.
pub const UNLIMITED: Allowance<'static> = &|_: Demand| Ok(());

/// At most `limit` bytes for a filter as a whole.
pub fn at_most(limit: u64) -> impl Fn(Demand) -> Result<(), Limit> {
    move |demand: Demand| {
        if demand.total.asked <= limit {
            Ok(())
        } else {
            Err(Limit::Bytes(limit))
        }
    }
}

/// An allowance for the layers of a filter, which adds the filter's other `blocks` to each demand.
pub(crate) struct Besides<'a> {
    pub blocks: &'a [BlockSize],
    pub allowance: Allowance<'a>,
}

impl Allow for Besides<'_> {
    fn allow(&self, demand: Demand) -> Result<(), Limit> {
        let total = demand.total + Cost::of(self.blocks, &|block| self.taken(block));
        self.allowance.allow(Demand { total, ..demand })
    }

    fn taken(&self, block: BlockSize) -> u64 {
        self.allowance.taken(block)
    }
}

/// The refusal of a filter's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Bytes that the filter would have.
    pub bytes: u64,
    /// The limit that forbids it.
    pub limit: Limit,
}

impl From<Refused> for Error {
    fn from(Refused { bytes, limit }: Refused) -> Self {
        match limit {
            Limit::Bytes(limit) => Self::OverLimit { bytes, limit },
            Limit::Layers(most) => Self::TooManyLayers { most },
        }
    }
}

/// The memory of a filter, or of the part of it that was read so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    frame: Frame,
    pub cost: Cost,
    layers: usize,
    /// The number of layers that the list of layers has room for.
    room: usize,
}

impl Footprint {
    /// The memory of a filter that is still to be allocated.
    pub fn none(frame: Frame) -> Self {
        Self {
            frame,
            cost: Cost::NONE,
            layers: 0,
            room: 0,
        }
    }

    /// The memory of a filter whose layers have bit arrays of these sizes, in a list with room for `room` layers, or
    /// for all of them if that is more.
    pub fn of(frame: Frame, arrays: impl Iterator<Item = u64>, room: usize, rounding: Rounding<'_>) -> Self {
        let (layers, cost) = frame.layers(arrays, rounding);
        let room = room_for(layers, room);
        let cost = cost + Cost::of(frame.own, rounding) + frame.lists(room, rounding);
        Self {
            frame,
            cost,
            layers,
            room,
        }
    }

    /// The memory of the filter with further layers, and the new part of it; in O(1) for each layer.
    pub fn with(self, arrays: impl Iterator<Item = u64>, rounding: Rounding<'_>) -> (Self, Cost) {
        let frame = self.frame;
        if self.cost == Cost::NONE {
            let first = Self::of(frame, arrays, 0, rounding);
            return (first, first.cost);
        }
        let (more, mut new) = frame.layers(arrays, rounding);
        let layers = self.layers + more;
        let room = room_for(layers, self.room);
        let mut kept = self.cost;
        if room > self.room {
            kept = kept - frame.lists(self.room, rounding);
            new = new + frame.lists(room, rounding);
        }
        let after = Self {
            frame,
            cost: kept + new,
            layers,
            room,
        };
        (after, new)
    }

    /// Requests new layers with bit arrays of these sizes. Returns the memory of the filter with them.
    pub fn ask(self, arrays: impl Iterator<Item = u64>, allowance: Allowance<'_>) -> Result<Self, Refused> {
        let (after, new) = self.with(arrays, &|block| allowance.taken(block));
        let grows_to = (after.layers > self.layers).then_some(after.layers);
        ask(after.cost, new, grows_to, allowance)?;
        Ok(after)
    }

    /// Requests layers that are loaded, which is no growth. Returns the memory of the filter with them.
    pub fn ask_stored(
        self,
        arrays: impl Iterator<Item = u64>,
        allowance: Allowance<'_>,
    ) -> Result<Self, Refused> {
        let (after, new) = self.with(arrays, &|block| allowance.taken(block));
        ask(after.cost, new, None, allowance)?;
        Ok(after)
    }
}

/// Requests `total` memory for a filter, of which `new` is to be allocated.
pub(crate) fn ask(
    total: Cost,
    new: Cost,
    grows_to: Option<usize>,
    allowance: Allowance<'_>,
) -> Result<(), Refused> {
    let demand = Demand { new, total, grows_to };
    let bytes = total.asked;
    allowance.allow(demand).map_err(|limit| Refused { bytes, limit })
}

/// An empty list with room for `count` values.
///
/// # Errors
/// [`Error::OutOfMemory`]. Every list whose length a caller can choose gets its room from here.
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
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn listed<T>(values: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) -> Result<Vec<T>, Error> {
    let values = values.into_iter();
    let mut list = reserved(values.len())?;
    list.extend(values);
    Ok(list)
}

/// Appends `value` to a list whose final length is unknown. The list doubles when it is full.
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), Error> {
    if list.len() == list.capacity() {
        reserve(list, list.len().max(4))?;
    }
    list.push(value);
    Ok(())
}

/// Makes room for another layer. A long list grows by a part of its length, so that a long chain is not copied for
/// every layer.
pub(crate) fn reserve_one<L>(layers: &mut Vec<L>) -> Result<(), Error> {
    let room = room_for(layers.len() + 1, layers.capacity());
    let more = room - layers.len();
    reserve(layers, more)
}

/// The room of a list that must hold `layers` layers and has room for `room`.
pub(crate) fn room_for(layers: usize, room: usize) -> usize {
    if layers <= room {
        room
    } else if layers <= EXACT_LAYERS {
        layers
    } else {
        layers + (layers - 1) / 8 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocked;

    /// A filter would be refused memory that it does not use, or exceed the limit: a list with spare room is not
    /// allocated again, and a full one is replaced.
    #[test]
    fn a_list_with_room_is_no_new_one() {
        let rounding: Rounding<'_> = &|block| block.bytes.next_power_of_two();
        let frame = Frame::new::<blocked::Layer>(&[FILTER], 0);
        let list = |room| {
            BlockSize::of_list::<blocked::Layer>(room)
                .bytes
                .next_power_of_two()
        };
        for (room, is_new) in [(2, true), (3, false), (4, false)] {
            let held = Footprint::of(frame, [64; 2].into_iter(), room, rounding);
            let (after, new) = held.with([64].into_iter(), rounding);
            assert_eq!(new.taken, 64 + if is_new { list(3) } else { 0 }, "{room}");
            let total = FILTER.bytes.next_power_of_two() + 3 * 64 + list(room.max(3));
            assert_eq!(after.cost.taken, total, "{room}");
            assert_eq!(after.cost.asked, frame.bytes(3, 3 * 64), "{room}");
        }
    }

    /// A filter of many layers would use more memory than its figures say, or its list would be copied for every
    /// layer.
    #[test]
    fn a_long_list_grows_by_an_eighth() {
        for held in 0..1000 {
            let more = if held < EXACT_LAYERS { 1 } else { held / 8 };
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
