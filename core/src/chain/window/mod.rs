//! Filters with a window: a chain whose oldest layers are dropped when they expire.
//!
//! A window is divided into [`slices`]. Each slice has layers of its own, which are dropped together once the newest
//! item in them is older than the window. So an item is found for at least the window, and for at most a slice longer.
//! [`budget`] sizes the next layer, and gives it a part of the error budget.
//!
//! A query changes nothing: it leaves out the layers that have expired by the caller's clock. An addition changes
//! something only if the item is not there. Then expired layers are dropped, and a slice begins if none is open. So a
//! replica that gets only these items, with their times, has equal layers.

pub mod budget;
pub mod slices;

use super::batch::{
    AnyContains, BLOCK, Block, BlockOutcome, ContainsMany, Hasher as _, Layer, Prefetched, Subset,
};
use super::demand::{ask_to_grow, reserve_one, reserved};
use super::{Allowance, Chain, MOST_ITEMS, NewLayer, Rules, capacity, sum};
use crate::bits::kernel::{self, Kernel, Work};
use crate::bits::memory::{Allocation, Mover};
use crate::error::Error;
use crate::item::Item;
use crate::params::{Capacity, Time, Window};
use budget::{Held, Wanted};
use slices::{Slices, Span};

/// How a layout sizes the layers of a filter with a window.
pub trait Sizing: Rules {
    /// The rate of the whole filter.
    fn budget(&self) -> f64;

    /// The largest ratio of a further layer's capacity to that of the layer before it in the slice.
    fn factor(&self) -> u32;

    /// The shape of a layer for `capacity` items at the error rate `rate` or less.
    fn sized(capacity: u64, rate: f64) -> Self::Shape;

    /// The error rate of a full layer of this shape.
    fn rate(shape: &Self::Shape) -> f64;
}

/// The most slices that have not expired. A filter has more of them than its window says only if some were ended early.
pub const MOST_SLICES: usize = 256;

/// A filter with a window.
#[derive(Debug)]
pub struct Ring<R: Rules> {
    /// All layers, including expired ones. There may be none.
    chain: Chain<R>,
    slices: Slices,
    /// Bytes of the bit arrays of all layers that were dropped.
    dropped_bytes: u64,
    /// The layers that were dropped last, until the caller takes them.
    dropped: Vec<R::Layer>,
}

/// Where items can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// Into the newest layer, which has room for this many.
    Open(u64),
    /// Nowhere, until [`Ring::make_room`] has made room.
    Closed,
}

impl<R: Sizing> Ring<R> {
    /// Bytes of a filter with this number of layers, whose bit arrays have `arrays` bytes.
    pub(crate) fn bytes(layers: usize, arrays: u64) -> u64 {
        let besides = size_of::<Self>() + layers * size_of::<Span>();
        R::bytes(layers, arrays).saturating_add(besides as u64)
    }

    /// Makes a filter with a window. It has no layer before its first item. The memory of a full window is requested
    /// now, so that a lack of memory is reported early.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub fn new(
        rules: R,
        capacity: Capacity,
        window: Window,
        allowance: Allowance<'_>,
    ) -> Result<Self, Error> {
        let layers = planned(&rules, capacity, window, capacity.items());
        let bytes = Self::bytes(layers.len(), sum(layers.iter().map(NewLayer::bytes)));
        ask_to_grow(0, bytes, layers.len(), allowance)?;
        Ok(Self::empty(rules, window, capacity))
    }

    /// An empty filter, whose first layer is not allocated yet.
    pub(crate) fn empty(rules: R, window: Window, capacity: Capacity) -> Self {
        Self::stored(rules, Vec::new(), Slices::new(window, capacity), 0)
    }

    /// A stored filter: its layers, oldest first, and the bytes of the bit arrays that it had before these. The caller
    /// has checked that the arguments suit each other.
    pub(crate) fn stored(rules: R, layers: Vec<R::Layer>, slices: Slices, dropped_bytes: u64) -> Self {
        let mut chain = Chain { layers, rules };
        Layer::start_all_at(&mut chain.layers, dropped_bytes);
        Self {
            chain,
            slices,
            dropped_bytes,
            dropped: Vec::new(),
        }
    }

    /// The rules, and all layers, including expired ones.
    pub fn chain(&self) -> &Chain<R> {
        &self.chain
    }

    /// The layers, for loading.
    pub(crate) fn layers_mut(&mut self) -> &mut [R::Layer] {
        &mut self.chain.layers
    }

    /// The slices of the layers.
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// The number of items that is expected in a window.
    pub fn capacity(&self) -> Capacity {
        self.slices.capacity()
    }

    /// Bytes of the bit arrays of all layers that were dropped.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    fn alive(&self, now: Time) -> &[R::Layer] {
        &self.chain.layers[self.slices.expired(now)..]
    }

    /// See [`Filter::each_allocation`](crate::Filter::each_allocation).
    pub fn each_allocation(&self, mut visit: impl FnMut(Allocation)) {
        let own = Allocation::of_array(std::slice::from_ref(self));
        let spans = Allocation::of_list(self.slices.held());
        own.into_iter().chain(spans).for_each(&mut visit);
        self.chain.each_allocation(visit);
    }

    /// See [`Filter::contains`](crate::Filter::contains).
    pub fn contains(&self, item: Item<'_>, now: Time) -> bool {
        let hash = self.chain.rules.hasher().hash(item);
        let layers = self.alive(now);
        kernel::run(AnyContains { layers, hash })
    }

    /// See [`Filter::contains_blocks`](crate::Filter::contains_blocks).
    pub fn contains_blocks<'a>(
        &self,
        mut items: impl Iterator<Item = &'a [u8]>,
        now: Time,
        mut found: impl FnMut(Subset, &Block),
    ) {
        let layers = self.alive(now);
        if layers.is_empty() {
            let mut block = Block::new();
            loop {
                block.count = items.by_ref().take(BLOCK).count();
                if block.count == 0 {
                    return;
                }
                found(Subset::NONE, &block);
            }
        }
        kernel::run(ContainsMany {
            layers,
            hasher: self.chain.rules.hasher(),
            items,
            found,
        });
    }

    /// See [`Filter::add`](crate::Filter::add).
    pub fn add(&mut self, item: Item<'_>, now: Time, allowance: Allowance<'_>) -> Result<bool, Error> {
        let mut is_new = false;
        let one = std::iter::once(item.bytes());
        self.add_blocks(one, now, allowance, |added, _| is_new = added.new.has(0))?;
        Ok(is_new)
    }

    /// See [`Filter::add_blocks`](crate::Filter::add_blocks).
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome, &Block),
    ) -> Result<(), Error> {
        kernel::run(AddMany {
            ring: self,
            now,
            items,
            allowance,
            added,
        })
    }

    /// Ends the newest slice at `now`, and drops what has expired. Returns whether that changed anything.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub fn rotate(&mut self, now: Time) -> Result<bool, Error> {
        let time = self.slices.time(now);
        let is_wrong = self.slices.is_wrong_at(time);
        let expired = self.slices.expired(time);
        // A slice that takes items has not expired, so it stays when those that have are dropped.
        let ends = is_wrong || self.slices.is_open(time);
        self.drop_layers(expired)?;
        if is_wrong {
            self.slices.correct_stamps(time);
        } else if ends {
            self.slices.end_at(time);
        }
        Ok(expired > 0 || ends)
    }

    /// Whether [`Self::rotate`] leaves room for another slice.
    pub fn may_rotate(&self, now: Time) -> bool {
        let expired = self.slices.expired(self.slices.time(now));
        let begins = self
            .slices
            .spans()
            .iter()
            .skip(expired)
            .filter(|span| span.begins);
        begins.count() < MOST_SLICES
    }

    /// Returns the layers that were dropped last, which may take long to free, and how many were dropped since the last
    /// call.
    pub fn take_dropped(&mut self) -> (Vec<R::Layer>, u64) {
        (std::mem::take(&mut self.dropped), self.slices.take_dropped())
    }

    /// Drops the `count` oldest layers.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    fn drop_layers(&mut self, count: usize) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        self.dropped = reserved(count)?;
        self.take_out(count);
        Ok(())
    }

    fn take_out(&mut self, count: usize) {
        self.dropped_bytes = self.dropped_bytes.saturating_add(self.chain.array_bytes(count));
        self.dropped.extend(self.chain.layers.drain(..count));
        self.slices.drop_oldest(count);
        if self.dropped_bytes > MOST_DROPPED_BYTES {
            self.dropped_bytes = 0;
            Layer::start_all_at(&mut self.chain.layers, self.dropped_bytes);
        }
    }

    /// Where an item can go at `time`.
    #[inline]
    fn door(&self, time: Time) -> Door {
        let Some(newest) = self.chain.layers.last() else {
            return Door::Closed;
        };
        let is_open =
            self.slices.is_open(time) && self.slices.expired(time) == 0 && !self.slices.is_wrong_at(time);
        let room = newest.capacity().saturating_sub(newest.items());
        match room {
            1.. if is_open => Door::Open(room),
            _ => Door::Closed,
        }
    }

    /// The oldest layer that an addition at `time` asks: an item that is in it, or in a newer layer, changes
    /// nothing. With `refresh` only the layers of the newest slice are asked, because an item in an older slice
    /// is added again.
    #[inline]
    fn settled_from(&self, time: Time, refresh: bool) -> usize {
        if !refresh {
            self.slices.expired(time)
        } else if self.begins_slice(time) {
            self.chain.layers.len()
        } else {
            self.slices.newest()
        }
    }

    /// Whether an item that is added at `time`, and changes the filter, begins a slice.
    fn begins_slice(&self, time: Time) -> bool {
        !self.slices.is_open(time) || self.slices.is_wrong_at(time)
    }

    /// Makes room for an item that no layer contains, at `time`: drops what has expired, and begins a slice if none is
    /// open, or adds a layer to the newest slice if that is full.
    ///
    /// # Errors
    /// [`Error::OverLimit`] or [`Error::OutOfMemory`]; nothing changed.
    #[cold]
    fn make_room(&mut self, time: Time, allowance: Allowance<'_>) -> Result<(), Error> {
        let is_wrong = self.slices.is_wrong_at(time);
        let begins = self.begins_slice(time);
        let dropped = self.slices.expired(time);
        let newest = self
            .chain
            .layers
            .last()
            .map_or((0, 0), |layer| (layer.items(), layer.capacity()));
        if !begins && newest.0 < newest.1 {
            return self.drop_layers(dropped);
        }
        let wanted = self.next(time, begins, dropped, newest)?;
        let shape = R::sized(wanted.capacity, wanted.rate);
        let (layers, made) = (
            &self.chain.layers[dropped..],
            capacity(&self.chain.layers[dropped..]),
        );
        if made.saturating_add(shape.capacity()) > MOST_ITEMS {
            return Err(Error::Full { capacity: made });
        }
        let (count, arrays) = (layers.len(), R::Layer::bytes_of_all(layers));
        let after = Self::bytes(count + 1, arrays.saturating_add(shape.bytes()));
        ask_to_grow(Self::bytes(count, arrays), after, count + 1, allowance)?;
        let layer = shape.make()?;
        if dropped == 0 {
            reserve_one(&mut self.chain.layers)?;
            self.slices.reserve_one()?;
        }
        self.drop_layers(dropped)?;
        if is_wrong {
            self.slices.correct_stamps(time);
        }
        self.slices.push(time, begins, wanted.spare);
        self.chain.layers.push(layer);
        let start =
            self.dropped_bytes + R::Layer::bytes_of_all(&self.chain.layers[..self.chain.layers.len() - 1]);
        if let Some(layer) = self.chain.layers.last_mut() {
            layer.start_at(start);
        }
        Ok(())
    }

    fn next(&self, time: Time, begins: bool, dropped: usize, newest: (u64, u64)) -> Result<Wanted, Error> {
        let budget = self.chain.rules.budget();
        let layer = |index: usize| {
            let layer: &R::Layer = &self.chain.layers[index];
            Held {
                items: layer.items(),
                rate: R::rate(&R::shape_of(layer)),
            }
        };
        match self.slices.progress(time) {
            Some(progress) if !begins => {
                let factor = self.chain.rules.factor();
                let slices = &self.slices;
                Ok(budget::of_burst(
                    budget, progress, newest, factor, slices, dropped, layer,
                ))
            }
            _ => budget::of_slice(budget, &self.slices, dropped, layer),
        }
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0 {
            let spans = self.slices.list();
            *spans = mover.list(std::mem::take(spans));
        }
        self.chain.relocate(first, mover)
    }
}

/// The most bytes of dropped layers that are counted; above that the count starts again from 0. A layer has 54 bits for
/// its start.
pub const MOST_DROPPED_BYTES: u64 = 1 << 52;

/// The layers of a filter with a window once `items` items have come steadily in each window.
pub(crate) fn planned<R: Sizing>(rules: &R, capacity: Capacity, window: Window, items: u64) -> Vec<R::Shape> {
    let usual = window.slice_capacity(capacity);
    let slice = items.div_ceil(window.slices().into());
    let capacity = if slice > usual {
        budget::with_margin(slice)
    } else {
        usual
    };
    let shape = R::sized(capacity, budget::slice_rate(rules.budget(), window.slices()));
    let layers = std::iter::repeat_n(shape, usize::from(window.slices()) + 1);
    #[expect(clippy::disallowed_methods, reason = "a window has 65 layers at most")]
    layers.collect()
}

/// Adds items to a ring in order. Stops at the first item for which there is no room; the items before it were added.
struct AddMany<'r, 'l, R: Sizing, I, F> {
    ring: &'r mut Ring<R>,
    now: Time,
    items: I,
    allowance: Allowance<'l>,
    added: F,
}

impl<'a, R, I, F> Work for AddMany<'_, '_, R, I, F>
where
    R: Sizing,
    I: Iterator<Item = &'a [u8]>,
    F: FnMut(BlockOutcome, &Block),
{
    type Output = Result<(), Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<(), Error> {
        let ring = self.ring;
        let refresh = ring.slices.window().refresh();
        let mut block = Block::new();
        loop {
            let newest = ring.chain.layers.last().map(Layer::prefetcher);
            if !block.fill(ring.chain.rules.hasher(), &mut self.items, newest) {
                return Ok(());
            }
            let (hashes, mut pending) = (&block.hashes, block.items());
            let mut told = BlockOutcome::of_new(Subset::NONE, block.count);
            // The items that any of these layers contains.
            let within = |layers: &[R::Layer], items: Subset| {
                R::Layer::any_contains_block(layers, kernel, hashes, items, Prefetched::No)
            };
            while !pending.is_empty() {
                let time = ring.slices.time(self.now);
                let from = ring.settled_from(time, refresh);
                let Door::Open(room) = ring.door(time) else {
                    // An item that changes nothing needs no room.
                    let settled = within(&ring.chain.layers[from..], pending);
                    let Some(at) = pending.without(settled).next() else {
                        break;
                    };
                    pending = pending.from(at);
                    if let Err(error) = ring.make_room(time, self.allowance) {
                        told.count = at;
                        (self.added)(told, &block);
                        return Err(error);
                    }
                    continue;
                };
                let Some((newest, older)) = ring.chain.layers.split_last_mut() else {
                    break;
                };
                let unknown = pending.without(within(&older[from..], pending));
                let fitting = unknown.lowest(room);
                let changed = newest.insert_block(kernel, hashes, fitting);
                let known = if from == 0 {
                    Subset::NONE
                } else {
                    within(&older[..from], changed)
                };
                let new = changed.without(known);
                told.changed.put_all(changed);
                told.new.put_all(new);
                // After the last item for which there was room a slice may expire; later items may then be new.
                if fitting.count_ones() < room {
                    break;
                }
                pending = pending.from(fitting.end());
            }
            (self.added)(told, &block);
        }
    }
}
