//! A filter of any layout, with or without a window, and its figures.

use std::sync::Arc;

use crate::bloom::bits::memory::{Allocation, Mover};
use crate::bloom::blocked::secret::{Secret, Unshared};
use crate::bloom::blocked::sizing::power;
use crate::bloom::blocked::{self, Blocked};
use crate::bloom::chain::batch::{self, Added, Block, Items, Layer as _};
use crate::bloom::chain::demand::{self, FILTER, Frame};
use crate::bloom::chain::window::slices::Span;
use crate::bloom::chain::window::{MOST_SLICES, Ring};
use crate::bloom::chain::{Allowance, Chain};
use crate::bloom::classic::{self, Classic};
use crate::bloom::error::Error;
use crate::bloom::exceptions::table::Table;
use crate::bloom::exceptions::{self, ExceptError, Excepting, Layers};
use crate::bloom::item::{Item, ItemHash};
use crate::bloom::params::{ClassicSpec, Growth, Layout, Seed, Spec, Time, ValkeySpec, Window};
use crate::bloom::valkey::{self, Unreached, Valkey};

/// A Bloom filter: a chain of layers of one layout, or a ring of them.
#[derive(Debug)]
pub enum Filter {
    /// Lines of 64 bytes; see [`blocked`].
    Blocked(Chain<Blocked>),
    /// RedisBloom's bits; see [`classic`].
    Classic(Chain<Classic>),
    /// valkey-bloom's bits; see [`valkey`].
    Valkey(Box<Chain<Valkey>>),
    /// Lines of 64 bytes in layers that come and go; see [`window`](crate::bloom::chain::window).
    Windowed(Box<Ring<Blocked>>),
    /// One of this module's own with items that are excepted; see [`exceptions`].
    Excepting(Box<Excepting>),
}

/// The layers of a filter, whether or not items are excepted from them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    Blocked(&'a Chain<Blocked>),
    Classic(&'a Chain<Classic>),
    Valkey(&'a Chain<Valkey>),
    Windowed(&'a Ring<Blocked>),
}

/// The same, to be changed.
#[derive(Debug)]
pub(super) enum BodyMut<'a> {
    Blocked(&'a mut Chain<Blocked>),
    Classic(&'a mut Chain<Classic>),
    Valkey(&'a mut Box<Chain<Valkey>>),
    Windowed(&'a mut Box<Ring<Blocked>>),
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
    /// Items that are excepted.
    pub exceptions: u64,
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
    /// A layer of valkey-bloom's.
    Valkey(valkey::Shape),
}

impl From<Layers> for Filter {
    fn from(layers: Layers) -> Self {
        match layers {
            Layers::Chain(chain) => Self::Blocked(chain),
            Layers::Ring(ring) => Self::Windowed(ring),
        }
    }
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
            Layout::Valkey { seed, tightening } => {
                Self::valkey(ValkeySpec::of(spec, tightening, seed), allowance)
            }
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

    /// An empty filter in valkey-bloom's layout, with all that valkey-bloom takes.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn valkey(spec: ValkeySpec, allowance: Allowance<'_>) -> Result<Self, Error> {
        let rules = Valkey::new(spec);
        let chain = Chain::new(rules, rules.first(spec.capacity()), allowance)?;
        Ok(Self::Valkey(Box::new(chain)))
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
            Self::Valkey(chain) => chain.contains(item),
            Self::Windowed(ring) => ring.contains(item),
            Self::Excepting(filter) => filter.contains(item),
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
        mut found: impl FnMut(Items, usize),
    ) {
        let found = |present: Items, block: &Block| found(present, block.count);
        match self {
            Self::Blocked(chain) => chain.contains_blocks(items, found),
            Self::Classic(chain) => chain.contains_blocks(items, found),
            Self::Valkey(chain) => chain.contains_blocks(items, found),
            Self::Windowed(ring) => ring.contains_blocks(items, found),
            Self::Excepting(filter) => filter.contains_blocks(items, found),
        }
    }

    /// Adds `item`; true if it was not (probably) in the filter before.
    ///
    /// # Errors
    /// Those of growth; the filter is as it was. An item that is there already needs no growth.
    #[inline]
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, allowance: Allowance<'_>) -> Result<bool, Error> {
        if let Self::Blocked(chain) = self {
            return chain.add(item, allowance);
        }
        self.add_otherwise(item.into(), allowance)
    }

    /// The same for a filter of another kind; see [`Self::contains_otherwise`].
    #[inline(never)]
    fn add_otherwise(&mut self, item: Item<'_>, allowance: Allowance<'_>) -> Result<bool, Error> {
        match self {
            Self::Blocked(chain) => chain.add(item, allowance),
            Self::Classic(chain) => chain.add(item, allowance),
            Self::Valkey(chain) => chain.add(item, allowance),
            Self::Windowed(_) | Self::Excepting(_) => {
                let mut is_new = false;
                self.add_blocks(std::iter::once(item.bytes()), allowance, |added| {
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
        mut added: impl FnMut(Added),
    ) -> Result<(), Error> {
        let told = |told: Added, _: &Block| added(told);
        match self {
            Self::Blocked(chain) => chain.add_blocks(items, allowance, told),
            Self::Classic(chain) => chain.add_blocks(items, allowance, told),
            Self::Valkey(chain) => chain.add_blocks(items, allowance, told),
            Self::Windowed(ring) => ring.add_blocks(items, allowance, told),
            Self::Excepting(filter) => {
                let result = filter.add_blocks(items, allowance, added);
                self.settle();
                result
            }
        }
    }

    /// Excepts `items`: from now on they are not in the filter, until they are added again. `excepted` takes, block by
    /// block, for each whether it was (probably) there and is no more. No other item's answer changes.
    ///
    /// # Errors
    /// [`ExceptError`]; nothing changed.
    pub fn except<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]> + Clone,
        allowance: Allowance<'_>,
        excepted: impl FnMut(Items, usize),
    ) -> Result<(), ExceptError> {
        self.except_if(true, items, allowance, excepted)
    }

    /// The same without asking whether they are there, for who is told by somebody who asked: a clock may differ.
    ///
    /// # Errors
    /// As there.
    pub fn except_unasked<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]> + Clone,
        allowance: Allowance<'_>,
        excepted: impl FnMut(Items, usize),
    ) -> Result<(), ExceptError> {
        self.except_if(false, items, allowance, excepted)
    }

    fn except_if<'a>(
        &mut self,
        is_asked: bool,
        items: impl Iterator<Item = &'a [u8]> + Clone,
        allowance: Allowance<'_>,
        excepted: impl FnMut(Items, usize),
    ) -> Result<(), ExceptError> {
        let layers = match std::mem::replace(self, Self::nothing()) {
            Self::Blocked(chain) => Layers::Chain(chain),
            Self::Windowed(ring) => Layers::Ring(ring),
            Self::Excepting(mut filter) => {
                let result = filter.except(items, is_asked, allowance, excepted);
                *self = Self::Excepting(filter);
                return result;
            }
            foreign @ (Self::Classic(_) | Self::Valkey(_)) => {
                *self = foreign;
                return Err(ExceptError::Foreign);
            }
        };
        let mut filter = Box::new(Excepting::new(layers, Table::default()));
        let result = filter.except(items, is_asked, allowance, excepted);
        *self = Self::Excepting(filter);
        self.settle();
        result
    }

    /// What is in a filter's place for a moment.
    fn nothing() -> Self {
        Self::Classic(Chain::of_layers(Classic::NONE, Vec::new()))
    }

    /// A filter of which the last exception has gone is one without exceptions.
    fn settle(&mut self) {
        let Self::Excepting(filter) = self else { return };
        filter.settle();
        if filter.exceptions().is_empty() {
            self.set_exceptions(Table::default());
        }
    }

    /// Has those exceptions from now on, and no others. A filter of another's layout has none.
    pub(super) fn set_exceptions(&mut self, exceptions: Table) {
        let layers = match std::mem::replace(self, Self::nothing()) {
            Self::Blocked(chain) => Layers::Chain(chain),
            Self::Windowed(ring) => Layers::Ring(ring),
            Self::Excepting(filter) => filter.into_layers(),
            foreign @ (Self::Classic(_) | Self::Valkey(_)) => {
                *self = foreign;
                return;
            }
        };
        *self = if exceptions.is_empty() {
            layers.into()
        } else {
            Self::Excepting(Box::new(Excepting::new(layers, exceptions)))
        };
    }

    /// [`Self::contains`] for an item of which the hash is known; false for a filter of another's layout.
    pub(super) fn contains_hash(&self, hash: ItemHash) -> bool {
        let seed = self.seed();
        seed.is_some_and(|seed| self.contains(Item::hashed(&[], seed, hash)))
    }

    /// Whether the layers contain an item of that hash, excepted or not; false for a filter of another's layout.
    pub(super) fn holds_hash(&self, hash: ItemHash) -> bool {
        let layers = self.as_blocked();
        layers.is_some_and(|(_, layers)| exceptions::holds(layers, hash))
    }

    /// How many items are excepted.
    pub fn exceptions(&self) -> u64 {
        self.excepted().map_or(0, |exceptions| exceptions.len() as u64)
    }

    /// The exceptions, if there are any.
    pub(super) fn excepted(&self) -> Option<&Table> {
        match self {
            Self::Excepting(filter) => Some(filter.exceptions()),
            Self::Blocked(_) | Self::Classic(_) | Self::Valkey(_) | Self::Windowed(_) => None,
        }
    }

    /// Whether what an addition changes is told by its new items and the number of layers: not so where there is a
    /// window, or exceptions.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Blocked(_) | Self::Classic(_) | Self::Valkey(_))
    }

    /// The layers.
    pub(super) fn body(&self) -> Body<'_> {
        match self {
            Self::Blocked(chain) => Body::Blocked(chain),
            Self::Classic(chain) => Body::Classic(chain),
            Self::Valkey(chain) => Body::Valkey(chain),
            Self::Windowed(ring) => Body::Windowed(ring),
            Self::Excepting(filter) => match filter.layers() {
                Layers::Chain(chain) => Body::Blocked(chain),
                Layers::Ring(ring) => Body::Windowed(ring),
            },
        }
    }

    /// The layers, to be changed.
    pub(super) fn body_mut(&mut self) -> BodyMut<'_> {
        match self {
            Self::Blocked(chain) => BodyMut::Blocked(chain),
            Self::Classic(chain) => BodyMut::Classic(chain),
            Self::Valkey(chain) => BodyMut::Valkey(chain),
            Self::Windowed(ring) => BodyMut::Windowed(ring),
            Self::Excepting(filter) => match filter.layers_mut() {
                Layers::Chain(chain) => BodyMut::Blocked(chain),
                Layers::Ring(ring) => BodyMut::Windowed(ring),
            },
        }
    }

    /// The window.
    fn ring(&self) -> Option<&Ring<Blocked>> {
        match self.body() {
            Body::Windowed(ring) => Some(ring),
            Body::Blocked(_) | Body::Classic(_) | Body::Valkey(_) => None,
        }
    }

    /// Tells a filter with a window what time it is. Questions then leave out what is over, and additions are
    /// stamped with it.
    #[inline]
    pub fn set_clock(&self, now: impl FnOnce() -> Time) {
        if !self.is_plain()
            && let Some(ring) = self.ring()
        {
            ring.set_clock(now());
        }
    }

    /// Tells a filter with a window when something happened, by the word of somebody whose clock nobody knows: if that
    /// is before its newest stamp, it counts as of then.
    pub fn set_clock_by_hearsay(&self, time: Time) {
        if let Some(ring) = self.ring() {
            ring.set_clock(time.max(ring.slices().newest_stamp()));
        }
    }

    /// What a change of a filter with a window is stamped with: the time that it was told, but never one before its
    /// newest stamp.
    pub fn time(&self) -> Option<Time> {
        self.ring().map(Ring::time)
    }

    /// Ends the newest slice of a window now, and lets go what is over; whether that changed anything.
    ///
    /// # Errors
    /// [`Error::Full`] when there are as many slices as there can be, and [`Error::OutOfMemory`]; nothing changed.
    pub fn rotate(&mut self) -> Result<bool, Error> {
        if self.ring().is_some_and(|ring| !ring.may_rotate()) {
            return Err(Error::Full {
                capacity: MOST_SLICES as u64,
            });
        }
        match self {
            Self::Windowed(ring) => ring.rotate(&mut |_, _| ()),
            Self::Excepting(filter) => {
                let changed = filter.rotate()?;
                self.settle();
                Ok(changed)
            }
            Self::Blocked(_) | Self::Classic(_) | Self::Valkey(_) => Ok(false),
        }
    }

    /// The layers that a window let go last, which may take long to free, and how many went since this was last
    /// asked.
    pub fn take_leaving(&mut self) -> (Vec<blocked::Layer>, u64) {
        match self.body_mut() {
            BodyMut::Windowed(ring) => ring.take_leaving(),
            BodyMut::Blocked(_) | BodyMut::Classic(_) | BodyMut::Valkey(_) => (Vec::new(), 0),
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
            exceptions: self.exceptions(),
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
        self.ring().map_or(0, Ring::over)
    }

    /// Bytes of the filter: its structs, its bit arrays and its exceptions, without what other filters share. For a
    /// classic filter, what RedisBloom would say.
    pub fn bytes(&self) -> u64 {
        self.bytes_with(self.layers())
    }

    /// The same of the filter as it was when it had only its first `layers` layers.
    pub fn bytes_with(&self, layers: usize) -> u64 {
        let layers = layers.min(self.layers());
        let of_layers = match self.body() {
            Body::Blocked(chain) => bytes(self.layout(), layers, chain.array_bytes(layers)),
            Body::Classic(chain) => bytes(self.layout(), layers, chain.array_bytes(layers)),
            Body::Valkey(chain) => valkey::bytes(layers, chain.array_bytes(layers)),
            Body::Windowed(ring) => windowed_bytes(layers, ring.array_bytes(layers)),
        };
        match self.excepted() {
            Some(exceptions) => of_layers.saturating_add(exceptions::bytes(exceptions.len())),
            None => of_layers,
        }
    }

    /// Memory that the filter keeps alive and no other filter uses, besides its own blocks.
    pub fn unshared(&self) -> Option<Unshared> {
        let rules = self.blocked_rules()?;
        (Arc::strong_count(rules.secret()) == 1).then_some(Secret::UNSHARED)
    }

    /// Hands every block of memory of the filter to `visit`, in O(layers). The filter's own struct is its
    /// owner's.
    pub fn each_allocation(&self, mut visit: impl FnMut(Allocation)) {
        if let Self::Excepting(filter) = self {
            let table = filter.exceptions().allocations();
            let own = [filter.allocation()].into_iter().chain(table);
            own.flatten().for_each(&mut visit);
        }
        match self.body() {
            Body::Blocked(chain) => chain.each_allocation(visit),
            Body::Classic(chain) => chain.each_allocation(visit),
            Body::Valkey(chain) => {
                let own = Allocation::of_array(std::slice::from_ref(chain));
                own.into_iter().for_each(&mut visit);
                chain.each_allocation(visit);
            }
            Body::Windowed(ring) => ring.each_allocation(visit),
        }
    }

    /// Lets `mover`, which must not panic, choose other places for the filter's memory, from layer `first`
    /// on, and with `first` = 0 for the list of layers too. When it wants to pause, the layer to go on with;
    /// each call moves one at least. Between calls the filter may change in any way.
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if let Self::Excepting(filter) = self
            && first == 0
        {
            mover.boxed(filter);
            filter.exceptions_mut().relocate(mover);
        }
        match self.body_mut() {
            BodyMut::Blocked(chain) => chain.relocate(first, mover),
            BodyMut::Classic(chain) => chain.relocate(first, mover),
            BodyMut::Valkey(chain) => {
                if first == 0 {
                    mover.boxed(chain);
                }
                chain.relocate(first, mover)
            }
            BodyMut::Windowed(ring) => {
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
        if let Some(ring) = self.ring() {
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
        match self.body() {
            Body::Blocked(chain) => chain.layers().len(),
            Body::Classic(chain) => chain.layers().len(),
            Body::Valkey(chain) => chain.layers().len(),
            Body::Windowed(ring) => ring.layers().len(),
        }
    }

    /// The figures of each layer, oldest first, with those that are over.
    pub fn layer_stats(&self) -> impl ExactSizeIterator<Item = LayerStats> {
        let of_blocked = |layer: &blocked::Layer| LayerStats {
            shape: LayerShape::Blocked(layer.shape()),
            items: layer.items(),
            bits_set: layer.bits().ones(),
        };
        (0..self.layers()).map(move |index| match self.body() {
            Body::Blocked(chain) => of_blocked(&chain.layers()[index]),
            Body::Windowed(ring) => of_blocked(&ring.layers()[index]),
            Body::Classic(chain) => {
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
            Body::Valkey(chain) => {
                let layer = &chain.layers()[index];
                LayerStats {
                    shape: LayerShape::Valkey(layer.shape()),
                    items: layer.items(),
                    bits_set: layer.ones(),
                }
            }
        })
    }

    /// The false positive rate that the filter was made for: a blocked filter keeps it, a classic one as
    /// well as double hashing can.
    pub fn error_rate(&self) -> f64 {
        match self.body() {
            Body::Blocked(chain) => chain.rules().error_rate().value(),
            Body::Windowed(ring) => ring.rules().error_rate().value(),
            Body::Classic(chain) => {
                let first = chain
                    .layers()
                    .first()
                    .map_or(0.0, |layer| layer.shape().error_rate);
                (first / chain.rules().first_share()).min(1.0)
            }
            Body::Valkey(chain) => chain.rules().error_rate(),
        }
    }

    /// How many times the newest layer's capacity the next one has, unless the filter does not grow; of a window, what
    /// a further layer of a slice has at most.
    pub fn expansion(&self) -> Option<u32> {
        match self.body() {
            Body::Classic(chain) => chain.rules().scales().then_some(chain.rules().expansion()),
            Body::Valkey(chain) => Some(chain.rules().expansion()).filter(|&expansion| expansion > 0),
            Body::Blocked(_) | Body::Windowed(_) => Some(self.growth()?.expansion()?.factor()),
        }
    }

    /// What a blocked filter does when it is full. A classic one grows, or does not, as
    /// [`Self::expansion`] says.
    pub fn growth(&self) -> Option<Growth> {
        Some(self.blocked_rules()?.growth())
    }

    /// The window, if the filter has one.
    pub fn window(&self) -> Option<Window> {
        self.ring().map(|ring| ring.slices().window())
    }

    /// When items go into each layer of a window, oldest first; nothing for a filter without one.
    pub fn spans(&self) -> &[Span] {
        self.ring().map_or(&[], |ring| ring.slices().spans())
    }

    /// The layout, and what only that layout has.
    pub fn layout(&self) -> Layout {
        let of_blocked = |rules: &Blocked| Layout::Blocked {
            seed: rules.secret().seed(),
        };
        match self.body() {
            Body::Blocked(chain) => of_blocked(chain.rules()),
            Body::Windowed(ring) => of_blocked(ring.rules()),
            Body::Classic(_) => Layout::Classic,
            Body::Valkey(chain) => Layout::Valkey {
                seed: chain.rules().seed(),
                tightening: chain.rules().tightening(),
            },
        }
    }

    /// What a filter in valkey-bloom's layout was made with.
    pub fn valkey_rules(&self) -> Option<&Valkey> {
        match self {
            Self::Valkey(chain) => Some(chain.rules()),
            _ => None,
        }
    }

    /// The capacity that a filter in valkey-bloom's layout can grow to within `limit`, if it grows.
    pub fn scaled_capacity(&self, limit: Option<valkey::Limit<'_>>) -> Option<u64> {
        let Self::Valkey(chain) = self else { return None };
        let first = batch::Layer::capacity(chain.layers().first()?);
        let reached = chain.rules().scaled_capacity(first, u64::MAX, limit);
        let reached = reached.unwrap_or_else(Unreached::capacity);
        // It may have more layers than is foretold, or have come from where there is another limit.
        let reached = reached.max(chain.capacity());
        (chain.rules().expansion() > 0).then_some(reached)
    }

    fn blocked_rules(&self) -> Option<&Blocked> {
        match self.body() {
            Body::Blocked(chain) => Some(chain.rules()),
            Body::Windowed(ring) => Some(ring.rules()),
            Body::Classic(_) | Body::Valkey(_) => None,
        }
    }

    /// The hash and the layers of a blocked filter.
    pub(super) fn as_blocked(&self) -> Option<(&Arc<Secret>, &[blocked::Layer])> {
        match self.body() {
            Body::Blocked(chain) => Some((chain.rules().secret(), chain.layers())),
            Body::Windowed(ring) => Some((ring.rules().secret(), ring.layers())),
            Body::Classic(_) | Body::Valkey(_) => None,
        }
    }

    /// The key of its hash, if that has one.
    pub fn seed(&self) -> Option<Seed> {
        match self.layout() {
            Layout::Blocked { seed } => Some(seed),
            Layout::Classic | Layout::Valkey { .. } => None,
        }
    }
}

/// Bytes of a filter of that layout and so many layers, whose bit arrays have these bytes: see
/// [`Filter::bytes`].
pub(super) fn bytes(layout: Layout, layers: usize, arrays: u64) -> u64 {
    match layout {
        Layout::Blocked { .. } => demand::bytes::<blocked::Layer>(Frame::CHAIN, layers, arrays),
        Layout::Classic => arrays.saturating_add(CLASSIC_BYTES + CLASSIC_LAYER_BYTES * layers as u64),
        Layout::Valkey { .. } => valkey::bytes(layers, arrays),
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
            Self::Valkey(shape) => shape.capacity,
        }
    }

    /// Bytes of its bit array.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Blocked(shape) => shape.geometry.bytes(),
            Self::Classic { shape, .. } => shape.bytes,
            Self::Valkey(shape) => shape.bytes,
        }
    }

    /// The rate that the layer is made for.
    pub fn error_rate(&self) -> f64 {
        match self {
            Self::Blocked(shape) => shape.rate,
            Self::Classic { shape, .. } => shape.error_rate,
            Self::Valkey(shape) => shape.error_rate,
        }
    }

    /// Lines of an item; the classic layout has none.
    pub fn lines(&self) -> Option<u64> {
        match self {
            Self::Blocked(shape) => Some(shape.geometry.lines_per_item.into()),
            Self::Classic { .. } | Self::Valkey(_) => None,
        }
    }

    /// Bits that an item sets: in each of its lines, or in the whole layer.
    pub fn probes(&self) -> u64 {
        match self {
            Self::Blocked(shape) => shape.geometry.probes.into(),
            Self::Classic { shape, .. } => shape.hashes.into(),
            Self::Valkey(shape) => shape.probes.into(),
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
            LayerShape::Valkey(shape) => shape.bits(),
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
            LayerShape::Valkey(shape) => {
                let fill = self.bits_set as f64 / shape.bits() as f64;
                power(fill.min(1.0), u64::from(shape.probes))
            }
        }
    }
}
