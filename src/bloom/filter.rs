//! A filter of any layout, with or without a window, and its figures.

use std::sync::Arc;

use crate::bloom::bits::memory::{Allocation, Mover};
use crate::bloom::blocked::secret::{Secret, Unshared};
use crate::bloom::blocked::sizing::power;
use crate::bloom::blocked::{self, Blocked};
use crate::bloom::chain::batch::{Added, Items, Layer as _};
use crate::bloom::chain::demand::{self, FILTER, Frame};
use crate::bloom::chain::window::slices::Span;
use crate::bloom::chain::window::{MOST_SLICES, Ring};
use crate::bloom::chain::{Allowance, Chain};
use crate::bloom::classic::{self, Classic};
use crate::bloom::error::Error;
use crate::bloom::item::Item;
use crate::bloom::params::{ClassicSpec, Growth, Layout, Seed, Spec, Time, Window};

/// A Bloom filter: a chain of layers of one layout, or a ring of them.
#[derive(Debug)]
pub enum Filter {
    /// Lines of 64 bytes; see [`blocked`].
    Blocked(Chain<Blocked>),
    /// RedisBloom's bits; see [`classic`].
    Classic(Chain<Classic>),
    /// Lines of 64 bytes in layers that come and go; see [`window`](crate::bloom::chain::window).
    Windowed(Box<Ring<Blocked>>),
}

// Small filters are many; which variant it is must hide in a value that the other never has.
const _: () = assert!(size_of::<Filter>() as u64 == FILTER.bytes && align_of::<Filter>() == FILTER.align);

/// What RedisBloom says that a classic filter without layers takes, in bytes.
const CLASSIC_BYTES: u64 = 32;
/// What RedisBloom says that a classic layer takes besides its bit array, in bytes.
const CLASSIC_LAYER_BYTES: u64 = 64;

/// What a filter holds, over all of its layers that are not over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Layers.
    pub layers: usize,
    /// Items that they are made for; saturating. Of a window, the items that are expected in it.
    pub capacity: u64,
    /// Items that were new when they were added.
    pub items: u64,
    /// Bits of all bit arrays.
    pub bits: u64,
    /// Set bits.
    pub bits_set: u64,
}

impl Totals {
    /// The share of the bits that is set; 0 of none, as a window has them where nothing is in it.
    pub fn fill_ratio(&self) -> f64 {
        self.bits_set as f64 / self.bits.max(1) as f64
    }
}

/// What a filter counts, with the layers of a window that are over: they take memory as long as they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Layers.
    pub layers: u64,
    /// See [`Filter::bytes`].
    pub bytes: u64,
    /// Items that changed them; saturating.
    pub items: u64,
}

/// What one layer holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStats {
    /// What it was made from.
    pub shape: LayerShape,
    /// Items that changed it.
    pub items: u64,
    /// Set bits.
    pub bits_set: u64,
}

/// What a layer was made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LayerShape {
    /// A blocked layer.
    Blocked(blocked::Shape),
    /// A classic layer.
    Classic {
        /// What it was made from.
        shape: classic::Shape,
        /// Bits of each of an item's two hashes: 64, or 32 in filters of early versions.
        hash_width: u32,
    },
}

impl Filter {
    /// An empty filter.
    ///
    /// # Errors
    /// [`Error::OverLimit`] or [`Error::OutOfMemory`]; nothing is left behind.
    pub fn new(spec: Spec, allowance: Allowance<'_>) -> Result<Self, Error> {
        match spec.layout {
            Layout::Blocked { seed } => {
                let rules = Blocked::new(spec.error_rate, spec.growth, seed);
                if let Some(window) = spec.window {
                    let ring = Ring::new(rules, spec.capacity, window, allowance)?;
                    return Ok(Self::Windowed(Box::new(ring)));
                }
                let first = rules.first(spec.capacity);
                Chain::new(rules, first, allowance).map(Self::Blocked)
            }
            Layout::Classic => Self::classic(spec.into(), allowance),
        }
    }

    /// An empty classic filter, with all that RedisBloom takes.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn classic(spec: ClassicSpec, allowance: Allowance<'_>) -> Result<Self, Error> {
        let rules = Classic::new(spec);
        Chain::new(rules, rules.first(spec), allowance).map(Self::Classic)
    }

    /// Whether `item` is (probably) in the filter. Never false for an item that was added.
    #[inline]
    pub fn contains<'a>(&self, item: impl Into<Item<'a>>) -> bool {
        if let Self::Blocked(chain) = self {
            return chain.contains(item);
        }
        self.contains_otherwise(item.into())
    }

    /// The same for a filter of another kind. Apart, it costs the usual kind one comparison.
    #[inline(never)]
    fn contains_otherwise(&self, item: Item<'_>) -> bool {
        match self {
            Self::Blocked(chain) => chain.contains(item),
            Self::Classic(chain) => chain.contains(item),
            Self::Windowed(ring) => ring.contains(item),
        }
    }

    /// [`Self::contains`] for each of `items`; `found` takes the answers in their order.
    #[inline]
    pub fn contains_all<'a>(&self, items: impl Iterator<Item = &'a [u8]>, mut found: impl FnMut(bool)) {
        self.contains_blocks(items, |present, count| {
            (0..count).for_each(|at| found(present.has(at)));
        });
    }

    /// [`Self::contains`] for each of `items`; `found` takes those that are present in a block of
    /// [`BLOCK`](crate::bloom::chain::batch::BLOCK), and how many there are in the block: fewer in the last one only.
    #[inline]
    pub fn contains_blocks<'a>(
        &self,
        items: impl Iterator<Item = &'a [u8]>,
        found: impl FnMut(Items, usize),
    ) {
        match self {
            Self::Blocked(chain) => chain.contains_blocks(items, found),
            Self::Classic(chain) => chain.contains_blocks(items, found),
            Self::Windowed(ring) => ring.contains_blocks(items, found),
        }
    }

    /// Adds `item`; true if it was not (probably) in the filter before.
    ///
    /// # Errors
    /// Those of growth; the filter is as it was. An item that is there already needs no growth.
    #[inline]
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, allowance: Allowance<'_>) -> Result<bool, Error> {
        match self {
            Self::Blocked(chain) => chain.add(item, allowance),
            Self::Classic(chain) => chain.add(item, allowance),
            Self::Windowed(ring) => {
                let mut is_new = false;
                let item = item.into();
                ring.add_blocks(std::iter::once(item.bytes()), allowance, |added| {
                    is_new = added.new.has(0);
                })?;
                Ok(is_new)
            }
        }
    }

    /// [`Self::add`] for each of `items` in their order; `added` takes the answers.
    ///
    /// # Errors
    /// At the first item that needs a growth that fails. The items before it are in, and were answered.
    #[inline]
    pub fn add_all<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        mut added: impl FnMut(bool),
    ) -> Result<(), Error> {
        self.add_blocks(items, allowance, |block| {
            (0..block.count).for_each(|at| added(block.new.has(at)));
        })
    }

    /// [`Self::add_all`], with what became of the items told block by block.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        added: impl FnMut(Added),
    ) -> Result<(), Error> {
        match self {
            Self::Blocked(chain) => chain.add_blocks(items, allowance, added),
            Self::Classic(chain) => chain.add_blocks(items, allowance, added),
            Self::Windowed(ring) => ring.add_blocks(items, allowance, added),
        }
    }

    /// Tells a filter with a window what time it is. Questions then leave out what is over, and additions are
    /// stamped with it.
    #[inline]
    pub fn set_clock(&self, now: impl FnOnce() -> Time) {
        if let Self::Windowed(ring) = self {
            ring.set_clock(now());
        }
    }

    /// Tells a filter with a window when something happened, by the word of somebody whose clock nobody knows: if that
    /// is before its newest stamp, it counts as of then.
    pub fn set_clock_by_hearsay(&self, time: Time) {
        if let Self::Windowed(ring) = self {
            ring.set_clock(time.max(ring.slices().newest_stamp()));
        }
    }

    /// What a change of a filter with a window is stamped with: the time that it was told, but never one before its
    /// newest stamp.
    pub fn time(&self) -> Option<Time> {
        match self {
            Self::Windowed(ring) => Some(ring.time()),
            Self::Blocked(_) | Self::Classic(_) => None,
        }
    }

    /// Ends the newest slice of a window now, and lets go what is over; whether that changed anything.
    ///
    /// # Errors
    /// [`Error::Full`] when there are as many slices as there can be, and [`Error::OutOfMemory`]; nothing changed.
    pub fn rotate(&mut self) -> Result<bool, Error> {
        match self {
            Self::Windowed(ring) if !ring.may_rotate() => Err(Error::Full {
                capacity: MOST_SLICES as u64,
            }),
            Self::Windowed(ring) => ring.rotate(),
            Self::Blocked(_) | Self::Classic(_) => Ok(false),
        }
    }

    /// The layers that a window let go last, which may take long to free, and how many went since this was last
    /// asked.
    pub fn take_leaving(&mut self) -> (Vec<blocked::Layer>, u64) {
        match self {
            Self::Windowed(ring) => ring.take_leaving(),
            Self::Blocked(_) | Self::Classic(_) => (Vec::new(), 0),
        }
    }

    /// What the filter counts in the accounts of whoever holds it.
    pub fn account(&self) -> Account {
        Account {
            layers: self.layers() as u64,
            bytes: self.bytes(),
            items: self
                .layer_stats()
                .fold(0, |items, layer| items.saturating_add(layer.items)),
        }
    }

    /// Items that were new when they were added, in layers that are not over.
    pub fn items(&self) -> u64 {
        self.layer_stats()
            .skip(self.over())
            .fold(0, |items, layer| items.saturating_add(layer.items))
    }

    /// How many of the layers, which are the oldest, are over: those that a window forgot, and still has.
    pub fn over(&self) -> usize {
        match self {
            Self::Windowed(ring) => ring.over(),
            Self::Blocked(_) | Self::Classic(_) => 0,
        }
    }

    /// Bytes of the filter: its structs and its bit arrays, without what other filters share. For a classic
    /// filter, what RedisBloom would say.
    pub fn bytes(&self) -> u64 {
        self.bytes_with(self.layers())
    }

    /// The same of the filter as it was when it had only its first `layers` layers.
    pub fn bytes_with(&self, layers: usize) -> u64 {
        let layers = layers.min(self.layers());
        let arrays = match self {
            Self::Blocked(chain) => chain.array_bytes(layers),
            Self::Classic(chain) => chain.array_bytes(layers),
            Self::Windowed(ring) => ring.array_bytes(layers),
        };
        match self {
            Self::Windowed(_) => windowed_bytes(layers, arrays),
            Self::Blocked(_) | Self::Classic(_) => bytes(self.layout(), layers, arrays),
        }
    }

    /// Memory that the filter keeps alive and no other filter uses, besides its own blocks.
    pub fn unshared(&self) -> Option<Unshared> {
        let rules = self.blocked_rules()?;
        (Arc::strong_count(rules.secret()) == 1).then_some(Secret::UNSHARED)
    }

    /// Hands every block of memory of the filter to `visit`, in O(layers). The filter's own struct is its
    /// owner's.
    pub fn each_allocation(&self, visit: impl FnMut(Allocation)) {
        match self {
            Self::Blocked(chain) => chain.each_allocation(visit),
            Self::Classic(chain) => chain.each_allocation(visit),
            Self::Windowed(ring) => ring.each_allocation(visit),
        }
    }

    /// Lets `mover`, which must not panic, choose other places for the filter's memory, from layer `first`
    /// on, and with `first` = 0 for the list of layers too. When it wants to pause, the layer to go on with;
    /// each call moves one at least. Between calls the filter may change in any way.
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        match self {
            Self::Blocked(chain) => chain.relocate(first, mover),
            Self::Classic(chain) => chain.relocate(first, mover),
            Self::Windowed(ring) => {
                if first == 0 {
                    mover.boxed(ring);
                }
                ring.relocate(first, mover)
            }
        }
    }

    /// The figures of the whole filter, in O(layers).
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            layers: 0,
            capacity: 0,
            items: 0,
            bits: 0,
            bits_set: 0,
        };
        for layer in self.layer_stats().skip(self.over()) {
            totals.layers += 1;
            totals.capacity = totals.capacity.saturating_add(layer.capacity());
            totals.items = totals.items.saturating_add(layer.items);
            totals.bits = totals.bits.saturating_add(layer.bits());
            totals.bits_set += layer.bits_set;
        }
        if let Self::Windowed(ring) = self {
            totals.capacity = ring.capacity().items();
        }
        totals
    }

    /// The false positive rate that the filter has now, from its layers' rates. This takes some microseconds for
    /// the newest layer of a blocked filter, and nanoseconds for the others: their rates are known, as they are full.
    /// (Of a window, for each layer that is not full.)
    pub fn estimated_error_rate(&self) -> f64 {
        let alive = self.layer_stats().skip(self.over());
        compound(alive.map(|layer| layer.estimated_error_rate()))
    }

    /// Number of layers, with those that are over.
    pub fn layers(&self) -> usize {
        match self {
            Self::Blocked(chain) => chain.layers().len(),
            Self::Classic(chain) => chain.layers().len(),
            Self::Windowed(ring) => ring.layers().len(),
        }
    }

    /// The figures of each layer, oldest first, with those that are over.
    pub fn layer_stats(&self) -> impl ExactSizeIterator<Item = LayerStats> {
        let of_blocked = |layer: &blocked::Layer| LayerStats {
            shape: LayerShape::Blocked(layer.shape()),
            items: layer.items(),
            bits_set: layer.bits().ones(),
        };
        (0..self.layers()).map(move |index| match self {
            Self::Blocked(chain) => of_blocked(&chain.layers()[index]),
            Self::Windowed(ring) => of_blocked(&ring.layers()[index]),
            Self::Classic(chain) => {
                let layer = &chain.layers()[index];
                LayerStats {
                    shape: LayerShape::Classic {
                        shape: layer.shape(),
                        hash_width: chain.rules().options().hash_width(),
                    },
                    items: layer.items(),
                    bits_set: layer.bits().ones(),
                }
            }
        })
    }

    /// The false positive rate that the filter was made for: a blocked filter keeps it, a classic one as
    /// well as double hashing can.
    pub fn error_rate(&self) -> f64 {
        match self {
            Self::Blocked(chain) => chain.rules().error_rate().value(),
            Self::Windowed(ring) => ring.rules().error_rate().value(),
            Self::Classic(chain) => {
                let first = chain
                    .layers()
                    .first()
                    .map_or(0.0, |layer| layer.shape().error_rate);
                (first / chain.rules().first_share()).min(1.0)
            }
        }
    }

    /// How many times the newest layer's capacity the next one has, unless the filter does not grow; of a window, what
    /// a further layer of a slice has at most.
    pub fn expansion(&self) -> Option<u32> {
        match self {
            Self::Classic(chain) => chain.rules().scales().then_some(chain.rules().expansion()),
            Self::Blocked(_) | Self::Windowed(_) => Some(self.growth()?.expansion()?.factor()),
        }
    }

    /// What a blocked filter does when it is full. A classic one grows, or does not, as
    /// [`Self::expansion`] says.
    pub fn growth(&self) -> Option<Growth> {
        Some(self.blocked_rules()?.growth())
    }

    /// The window, if the filter has one.
    pub fn window(&self) -> Option<Window> {
        match self {
            Self::Windowed(ring) => Some(ring.slices().window()),
            Self::Blocked(_) | Self::Classic(_) => None,
        }
    }

    /// When items go into each layer of a window, oldest first; nothing for a filter without one.
    pub fn spans(&self) -> &[Span] {
        match self {
            Self::Windowed(ring) => ring.slices().spans(),
            Self::Blocked(_) | Self::Classic(_) => &[],
        }
    }

    /// The layout, and what only that layout has.
    pub fn layout(&self) -> Layout {
        self.blocked_rules()
            .map_or(Layout::Classic, |rules| Layout::Blocked {
                seed: rules.secret().seed(),
            })
    }

    fn blocked_rules(&self) -> Option<&Blocked> {
        match self {
            Self::Blocked(chain) => Some(chain.rules()),
            Self::Windowed(ring) => Some(ring.rules()),
            Self::Classic(_) => None,
        }
    }

    /// The hash and the layers of a blocked filter.
    pub(super) fn as_blocked(&self) -> Option<(&Arc<Secret>, &[blocked::Layer])> {
        match self {
            Self::Blocked(chain) => Some((chain.rules().secret(), chain.layers())),
            Self::Windowed(ring) => Some((ring.rules().secret(), ring.layers())),
            Self::Classic(_) => None,
        }
    }

    /// The key of its hash, if that has one.
    pub fn seed(&self) -> Option<Seed> {
        match self.layout() {
            Layout::Blocked { seed } => Some(seed),
            Layout::Classic => None,
        }
    }
}

/// Bytes of a filter of that layout and so many layers, whose bit arrays have these bytes: see
/// [`Filter::bytes`].
pub(super) fn bytes(layout: Layout, layers: usize, arrays: u64) -> u64 {
    match layout {
        Layout::Blocked { .. } => demand::bytes::<blocked::Layer>(Frame::CHAIN, layers, arrays),
        Layout::Classic => arrays.saturating_add(CLASSIC_BYTES + CLASSIC_LAYER_BYTES * layers as u64),
    }
}

/// The same of a filter with a window.
pub(super) fn windowed_bytes(layers: usize, arrays: u64) -> u64 {
    demand::bytes::<blocked::Layer>(Ring::<Blocked>::FRAME, layers, arrays)
}

/// The rate of layers that have these rates: what one layer lets through the next one adds to. It is exact for
/// rates far below rounding of 1.
pub(super) fn compound(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |all, rate| all + rate * (1.0 - all))
}

impl LayerShape {
    /// Items that the layer is made for.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Blocked(shape) => shape.capacity,
            Self::Classic { shape, .. } => shape.capacity,
        }
    }

    /// Bytes of its bit array.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Blocked(shape) => shape.geometry.bytes(),
            Self::Classic { shape, .. } => shape.bytes,
        }
    }

    /// The rate that the layer is made for.
    pub fn error_rate(&self) -> f64 {
        match self {
            Self::Blocked(shape) => shape.rate,
            Self::Classic { shape, .. } => shape.error_rate,
        }
    }

    /// Lines of an item; the classic layout has none.
    pub fn lines(&self) -> Option<u64> {
        match self {
            Self::Blocked(shape) => Some(shape.geometry.lines_per_item.into()),
            Self::Classic { .. } => None,
        }
    }

    /// Bits that an item sets: in each of its lines, or in the whole layer.
    pub fn probes(&self) -> u64 {
        match self {
            Self::Blocked(shape) => shape.geometry.probes.into(),
            Self::Classic { shape, .. } => shape.hashes.into(),
        }
    }
}

impl LayerStats {
    /// Items that the layer is made for.
    pub fn capacity(&self) -> u64 {
        self.shape.capacity()
    }

    /// Bytes of its bit array.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes()
    }

    /// Bits of its bit array.
    pub fn bits(&self) -> u64 {
        match self.shape {
            LayerShape::Blocked(shape) => shape.geometry.bytes().saturating_mul(8),
            LayerShape::Classic { shape, .. } => shape.bits,
        }
    }

    /// The rate that the layer is made for.
    pub fn error_rate(&self) -> f64 {
        self.shape.error_rate()
    }

    /// The rate that the layer has with what it holds now.
    pub fn estimated_error_rate(&self) -> f64 {
        match self.shape {
            LayerShape::Blocked(shape) if self.items >= shape.capacity => shape.full_rate(),
            LayerShape::Blocked(shape) => shape.geometry.rate(self.items),
            LayerShape::Classic { shape, .. } => {
                let fill = self.bits_set as f64 / shape.modulus() as f64;
                power(fill.min(1.0), u64::from(shape.hashes))
            }
        }
    }
}
