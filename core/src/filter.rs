//! A filter of any layout, with or without a window, and its figures.

use std::sync::Arc;

use crate::bits::memory::{Allocation, Mover};
pub use crate::chain::LayerShape;
use crate::chain::batch::{self, Block, BlockOutcome, Subset};
use crate::chain::demand::FILTER_BYTES;
pub use crate::chain::layered::LayerStats;
use crate::chain::{self, Allowance, Chain};
use crate::codec::chunks;
use crate::codec::fields::or_abort;
use crate::error::Error;
use crate::exceptions::{self, ExceptError, Exceptions};
use crate::item::{Item, ItemHash};
use crate::layers::Layers;
pub use crate::layouts::blocked::MOST_ESTIMATED;
use crate::layouts::blocked::secret::Secret;
use crate::layouts::blocked::window::{Slice, Windowed};
use crate::layouts::blocked::{self, Blocked};
use crate::layouts::valkey::{Unreached, Valkey};
use crate::params::{Growth, Layout, Seed, Time, Window};
use crate::spec::Spec;

/// The items of a call, in the crate's own tests: each call with another type would be compiled anew for all layouts
/// and kernels, which took most of the time that the tests took to build.
#[cfg(test)]
type Items<'i, T> = &'i mut dyn Iterator<Item = T>;

/// A Bloom filter: layers of one layout, and the items that are excepted from them.
///
/// ```
/// use libbloom::Filter;
///
/// let mut seen = Filter::builder(1000, 0.01).build()?;
/// assert!(seen.insert("ann")?);
/// assert!(seen.contains("ann"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Filter {
    pub(crate) layers: Layers,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (layout, layers, items) = (self.layout(), self.layers(), self.items());
        write!(
            f,
            "Filter({layout:?}, {layers} layers, {items} items, {} bytes)",
            self.bytes()
        )
    }
}

// Small filters are many; which layout it is must hide in a value that the largest one never has.
const _: () = assert!(size_of::<Filter>() as u64 == FILTER_BYTES);

/// The figures of a filter over all of its layers that have not expired.
///
/// ```
/// # use libbloom::Filter;
/// let mut filter = Filter::builder(1000, 0.01).build()?;
/// filter.insert_many((0..1000_u32).map(u32::to_le_bytes))?;
/// let totals = filter.totals();
/// assert_eq!((totals.layers, totals.capacity), (1, 1000));
/// assert!(totals.items > 980 && totals.bits_set < totals.bits);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// The number of layers.
    pub layers: usize,
    /// Items that the layers are made for, saturating; with a window, the items that are expected in it.
    pub capacity: u64,
    /// Items that were new when they were added.
    pub items: u64,
    /// The number of bits in all bit arrays.
    pub bits: u64,
    /// The number of set bits.
    pub bits_set: u64,
}

impl Totals {
    /// The share of the bits that are set; 0 if there are no bits, as in an empty window.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let filter = Filter::builder(1000, 0.01).build()?;
    /// assert_eq!(filter.totals().fill_ratio(), 0.0);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn fill_ratio(&self) -> f64 {
        self.bits_set as f64 / self.bits.max(1) as f64
    }
}

/// The counts of a filter, including expired layers of a window, which use memory until they are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The number of layers.
    pub layers: u64,
    /// See [`Filter::bytes`].
    pub bytes: u64,
    /// Items that changed the layers, saturating.
    pub items: u64,
    /// The number of exceptions.
    pub exceptions: u64,
}

impl<L> From<L> for Filter
where
    Layers: From<L>,
{
    /// A filter of these layers, without exceptions.
    fn from(layers: L) -> Self {
        let layers = layers.into();
        Self { layers }
    }
}

impl Filter {
    /// Whether `item` is (probably) in the filter. Never false for an item that was added, unless it has expired or was
    /// excepted (`BF.EXCEPT` in a server). In a filter with a window it is so at the time when the newest layer was
    /// made, at most a slice before the newest new item: [`Self::contains_at`] has the time as an argument.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 1e-9).build()?;
    /// filter.insert("ann")?;
    /// assert!(filter.contains("ann") && filter.contains(b"ann"));
    /// assert!(!filter.contains("bob"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn contains<'a>(&self, item: impl Into<Item<'a>>) -> bool {
        let item = item.into();
        match self.plain() {
            Some(chain) => chain.contains(item),
            None => self.contains_otherwise(item.bytes(), item.known, None),
        }
    }

    /// Whether `item` is (probably) in the filter at `now`, in milliseconds since the moment that additions count from.
    /// Filters without a window ignore the time.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(3600)).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert!(events.contains_at("event 17", 3_600_000));
    /// assert!(!events.contains_at("event 17", 2 * 3_600_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn contains_at<'a>(&self, item: impl Into<Item<'a>>, now: Time) -> bool {
        let item = item.into();
        match self.plain() {
            Some(chain) => chain.contains(item),
            None => self.contains_otherwise(item.bytes(), item.known, Some(now)),
        }
    }

    /// Items that were new when they were added; with [`Builder::refresh`](crate::Builder::refresh) an item that was
    /// added again counts once in each slice that has it. With a window, those of slices that had not expired when the
    /// newest layer was made.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 1e-9).build()?;
    /// filter.insert_many(["ann", "bob", "ann"])?;
    /// assert_eq!(filter.items(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn items(&self) -> u64 {
        self.items_at(self.newest_stamp())
    }

    /// [`Self::items`], as collections call it.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 1e-9).build()?;
    /// filter.extend(["ann", "bob"]);
    /// assert_eq!(filter.len(), 2);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.items()
    }

    /// Whether the filter has no items.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert!(Filter::builder(1000, 0.01).build()?.is_empty());
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.items() == 0
    }

    /// [`Self::items`], without the slices of a window that have expired at `now`.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(3600)).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert_eq!((events.items_at(0), events.items_at(2 * 3_600_000)), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn items_at(&self, now: Time) -> u64 {
        self.layers.as_layered().items(self.expired_layers(now))
    }

    /// The number of layers, including expired ones.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert_eq!(Filter::builder(1000, 0.01).build()?.layers(), 1);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    #[inline]
    pub fn layers(&self) -> usize {
        match &self.layers {
            Layers::Blocked(chain, _) => chain.layers().len(),
            others => others.as_layered().count(),
        }
    }

    /// The number of exceptions.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert_eq!(Filter::builder(1000, 0.01).build()?.exceptions(), 0); // BF.EXCEPT in a server makes them
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn exceptions(&self) -> u64 {
        self.excepted().map_or(0, |exceptions| exceptions.len() as u64)
    }

    /// Bytes of the filter: its structs, bit arrays and exceptions, without what it shares with other filters. For a
    /// classic filter, the bytes that RedisBloom would report.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let filter = Filter::builder(1_000_000, 0.01).build()?;
    /// assert_eq!(filter.bytes(), 1_309_536); // 10.5 bits an item
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn bytes(&self) -> u64 {
        self.bytes_with(self.layers())
    }

    /// The figures of the whole filter, in O(layers). With a window they leave out the slices that had
    /// expired when the newest layer was made.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let filter = Filter::builder(1000, 0.01).build()?;
    /// assert_eq!(filter.totals().capacity, 1000);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn totals(&self) -> Totals {
        self.totals_at(self.newest_stamp())
    }

    /// [`Self::totals`], without the slices of a window that have expired at `now`.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(3600)).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert_eq!(events.totals_at(2 * 3_600_000).layers, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn totals_at(&self, now: Time) -> Totals {
        let mut totals = Totals {
            layers: 0,
            capacity: 0,
            items: 0,
            bits: 0,
            bits_set: 0,
        };
        for layer in self.layer_stats().skip(self.expired_layers(now)) {
            totals.layers += 1;
            totals.capacity = totals.capacity.saturating_add(layer.shape.capacity);
            totals.items = totals.items.saturating_add(layer.items);
            totals.bits = totals.bits.saturating_add(layer.shape.bits);
            totals.bits_set += layer.bits_set;
        }
        if let Some(windowed) = self.windowed() {
            totals.capacity = windowed.capacity.items();
        }
        totals
    }

    /// The false positive rate that the filter was made for. A blocked filter keeps it. A classic one can have slightly
    /// more, because of double hashing; one in valkey-bloom's layout up to twice that, once it has grown.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert_eq!(Filter::builder(1000, 0.01).build()?.error_rate(), 0.01);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn error_rate(&self) -> f64 {
        self.layers.as_layered().error_rate()
    }

    /// The false positive rate that the filter has now, from the rates of its layers. The rate of a blocked layer
    /// that is not full takes some ten microseconds to compute. That is done for the newest [`MOST_ESTIMATED`] such
    /// layers; older ones, which only merged filters and windows of very many slices have, count as if they were full.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// assert_eq!(filter.estimated_error_rate(), 0.0);
    /// filter.insert("ann")?;
    /// assert!((0.0..0.01).contains(&filter.estimated_error_rate()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn estimated_error_rate(&self) -> f64 {
        self.estimated_error_rate_at(self.newest_stamp())
    }

    /// [`Self::estimated_error_rate`], without the slices of a window that have expired at `now`.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(3600)).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert_eq!(events.estimated_error_rate_at(2 * 3_600_000), 0.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn estimated_error_rate_at(&self, now: Time) -> f64 {
        self.layers.as_layered().estimated_error_rate(now)
    }

    /// The capacity of a new layer divided by that of the layer before it; `None` if the filter does not grow. With a
    /// window, the largest such ratio within a slice.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert_eq!(Filter::builder(1000, 0.01).build()?.expansion(), Some(2));
    /// assert_eq!(Filter::builder(1000, 0.01).fixed().build()?.expansion(), None);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn expansion(&self) -> Option<u32> {
        self.layers.as_layered().expansion()
    }

    /// The seed of the hash; `None` in the layouts of RedisBloom, which has no seed, and of valkey-bloom, whose seed
    /// has 32 bytes.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let monday = Filter::builder(1000, 0.01).build()?;
    /// let tuesday = Filter::builder(1000, 0.01).build()?;
    /// assert_eq!(monday.seed(), tuesday.seed()); // so the two can be united
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn seed(&self) -> Option<Seed> {
        self.layers.blocked().map(|rules| rules.secret().seed())
    }
}

/// Copies the filter, as [`Filter::try_clone`] does. Without memory the process ends, as for other collections.
impl Clone for Filter {
    fn clone(&self) -> Self {
        or_abort(self.try_clone())
    }
}

/// Filters are equal if they have the same parameters, bits and counts. Then they answer alike, and grow alike.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        // The headers are their first chunks.
        chunks::chunks(self).eq(chunks::chunks(other))
    }
}

/// Adds all items, as [`Filter::insert_many`] does.
///
/// # Panics
/// If the filter is full and may not grow, or there is no memory: an item that is left out would be denied.
impl<T: AsRef<[u8]>> Extend<T> for Filter {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        #[expect(
            clippy::panic,
            reason = "the trait has no errors, and to go on would lose items"
        )]
        if let Err(error) = self.insert_many(items) {
            panic!("{error}");
        }
    }
}

/// What only this project's server module calls. The pages on docs.rs leave it out.
#[cfg_attr(docsrs, doc(hidden))]
impl Filter {
    /// Makes an empty filter. Programs have [`Filter::builder`].
    #[doc(hidden)]
    pub fn new(spec: Spec, allowance: Allowance<'_>) -> Result<Self, Error> {
        match spec {
            Spec::Blocked(spec) => match spec.window {
                Some(window) => Windowed::new(spec.rules(), spec.capacity, window, allowance).map(Self::from),
                None => Chain::new(spec.start(), allowance).map(Self::from),
            },
            Spec::Classic(spec) => Chain::new(spec.start(), allowance).map(Self::from),
            Spec::Valkey(spec) => Chain::new(spec.start(), allowance).map(Self::from),
        }
    }

    /// The layers of a filter of the blocked layout without a window and without exceptions, as most are.
    #[inline(always)]
    fn plain(&self) -> Option<&Chain<Blocked>> {
        match &self.layers {
            Layers::Blocked(chain, None) => Some(chain),
            _ => None,
        }
    }

    /// [`Self::contains_at`] for all other filters, of an item's parts; without a time, at their newest stamp.
    #[inline(never)]
    fn contains_otherwise(&self, bytes: &[u8], known: Option<(Seed, ItemHash)>, now: Option<Time>) -> bool {
        let item = Item::new(bytes, known);
        let now = now.unwrap_or_else(|| self.newest_stamp());
        match &self.layers {
            Layers::Blocked(chain, exceptions) => exceptions::contains(chain, exceptions.as_deref(), item),
            Layers::Windowed(windowed) => windowed.contains(item, now),
            Layers::Valkey(chain) => chain.contains(item),
            Layers::Classic(chain) => chain.contains(item),
        }
    }

    /// Queries each of `items` at `now`, and passes the answers to `found` in order.
    #[inline]
    pub fn contains_all(
        &self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        now: Time,
        mut found: impl FnMut(bool),
    ) {
        self.contains_blocks(items, now, |present, count| {
            (0..count).for_each(|at| found(present.has(at)));
        });
    }

    /// Queries each of `items` at `now`, in blocks of [`BLOCK`](crate::chain::batch::BLOCK). `found` gets the items of
    /// a block that are present, and how many items the block has: only the last one may have fewer.
    #[inline]
    pub fn contains_blocks(
        &self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        now: Time,
        found: impl FnMut(Subset, usize),
    ) {
        #[cfg(test)]
        let (items, found): (Items<'_, _>, &mut dyn FnMut(Subset, usize)) = (&mut { items }, &mut { found });
        let found = without_excepted(self.excepted(), found);
        match &self.layers {
            Layers::Blocked(chain, _) => chain.contains_blocks(items, found),
            Layers::Windowed(windowed) => windowed.contains_blocks(items, now, found),
            Layers::Valkey(chain) => chain.contains_blocks(items, found),
            Layers::Classic(chain) => chain.contains_blocks(items, found),
        }
    }

    /// Adds `item` at `now`; true if it was not (probably) in the filter before. An item that is there needs no growth.
    #[inline]
    pub fn add<'a>(
        &mut self,
        item: impl Into<Item<'a>>,
        now: Time,
        allowance: Allowance<'_>,
    ) -> Result<bool, Error> {
        let item = item.into();
        match self.plain_mut() {
            Some(chain) => chain.add(item, allowance),
            None => self.add_otherwise(item.bytes(), item.known, now, allowance),
        }
    }

    /// What [`Self::plain`] returns, to be changed.
    #[inline(always)]
    pub(crate) fn plain_mut(&mut self) -> Option<&mut Chain<Blocked>> {
        match &mut self.layers {
            Layers::Blocked(chain, None) => Some(chain),
            _ => None,
        }
    }

    /// [`Self::add`] for all other filters. It takes the parts of an item, as [`Self::contains_otherwise`] does.
    #[inline(never)]
    fn add_otherwise(
        &mut self,
        bytes: &[u8],
        known: Option<(Seed, ItemHash)>,
        now: Time,
        allowance: Allowance<'_>,
    ) -> Result<bool, Error> {
        let item = Item::new(bytes, known);
        match &mut self.layers {
            Layers::Blocked(..) | Layers::Windowed(_) => {
                let mut is_new = false;
                let one = std::iter::once(item.bytes());
                self.add_blocks(one, now, allowance, |added| is_new = added.new.has(0))?;
                Ok(is_new)
            }
            Layers::Valkey(chain) => chain.add(item, allowance),
            Layers::Classic(chain) => chain.add(item, allowance),
        }
    }

    /// Adds each of `items` in order at `now`, and passes to `added` whether it was new.
    #[inline]
    pub fn add_all(
        &mut self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        now: Time,
        allowance: Allowance<'_>,
        mut added: impl FnMut(bool),
    ) -> Result<(), Error> {
        self.add_blocks(items, now, allowance, |block| {
            (0..block.count).for_each(|at| added(block.new.has(at)));
        })
    }

    /// Adds each of `items` in order at `now`, and reports the outcome to `added` block by block. After an error the items
    /// before the one that failed are in, and were reported.
    #[inline]
    pub fn add_blocks(
        &mut self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome),
    ) -> Result<(), Error> {
        #[cfg(test)]
        let (items, added): (Items<'_, _>, &mut dyn FnMut(BlockOutcome)) = (&mut { items }, &mut { added });
        if let Layers::Blocked(chain, Some(exceptions)) = &mut self.layers {
            let result = exceptions::add_blocks(chain, exceptions, items, allowance, added);
            self.drop_unneeded_exceptions();
            return result;
        }
        let added = without_hashes(added);
        match &mut self.layers {
            Layers::Blocked(chain, _) => chain.add_blocks(items, allowance, added),
            Layers::Windowed(windowed) => windowed.add_blocks(items, now, allowance, added),
            Layers::Valkey(chain) => chain.add_blocks(items, allowance, added),
            Layers::Classic(chain) => chain.add_blocks(items, allowance, added),
        }
    }

    /// Excepts `items`: the filter denies them until they are added again. `excepted` gets, block by block, the items
    /// that were (probably) there and are not any more. No other item's answer changes.
    pub fn except<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]> + Clone,
        allowance: Allowance<'_>,
        excepted: impl FnMut(Subset, usize),
    ) -> Result<(), ExceptError> {
        let result = match &mut self.layers {
            Layers::Blocked(chain, exceptions) => exceptions::except(
                chain,
                exceptions.get_or_insert_default(),
                items,
                allowance,
                excepted,
            ),
            Layers::Windowed(_) => return Err(ExceptError::Window),
            Layers::Valkey(_) | Layers::Classic(_) => return Err(ExceptError::Foreign),
        };
        self.drop_unneeded_exceptions();
        result
    }

    /// Gives back memory that the exceptions do not need any more.
    fn drop_unneeded_exceptions(&mut self) {
        if let Layers::Blocked(_, exceptions) = &mut self.layers {
            if let Some(exceptions) = exceptions {
                exceptions.shrink_to_need();
            }
            exceptions.take_if(|exceptions| exceptions.is_empty());
        }
    }

    /// Replaces all exceptions. Layers that can have none stay as they are.
    pub(super) fn set_exceptions(&mut self, exceptions: Exceptions) {
        if let Layers::Blocked(_, held) = &mut self.layers {
            *held = (!exceptions.is_empty()).then(|| Box::new(exceptions));
        }
    }

    /// [`Self::contains`] for an item whose hash is known; false for a filter in another module's layout.
    pub(super) fn contains_hash(&self, hash: ItemHash) -> bool {
        let seed = self.seed();
        seed.is_some_and(|seed| self.contains(Item::new(&[], Some((seed, hash)))))
    }

    /// Whether the layers contain an item with this hash, excepted or not; false for a filter that has no exceptions.
    pub(super) fn holds_hash(&self, hash: ItemHash) -> bool {
        matches!(&self.layers, Layers::Blocked(chain, _) if exceptions::any_layer_contains(chain.layers(), hash))
    }

    pub(super) fn excepted(&self) -> Option<&Exceptions> {
        match &self.layers {
            Layers::Blocked(_, exceptions) => exceptions.as_deref(),
            _ => None,
        }
    }

    /// Whether the filter has a window, or exceptions. If it has neither, an addition changes only the number of items,
    /// their bits, and the number of layers.
    #[inline]
    pub fn has_window_or_exceptions(&self) -> bool {
        matches!(&self.layers, Layers::Windowed(_) | Layers::Blocked(_, Some(_)))
    }

    #[inline]
    fn windowed(&self) -> Option<&Windowed> {
        match &self.layers {
            Layers::Windowed(windowed) => Some(windowed),
            _ => None,
        }
    }

    /// The time when a window's newest layer was made; 0 without a window.
    #[inline]
    pub fn newest_stamp(&self) -> Time {
        self.windowed().map_or(0, |windowed| windowed.newest_stamp)
    }

    /// The time that a change at `now` is stamped with, in a filter with a window: never before its
    /// [newest stamp](Self::newest_stamp), unless a wrong clock set that.
    pub fn stamp(&self, now: Time) -> Option<Time> {
        self.windowed().map(|windowed| windowed.stamp(now))
    }

    /// The time of an addition at a time that a caller named: see [`Filter::insert_at`].
    pub fn named_time(&mut self, now: Time) -> Time {
        match &mut self.layers {
            Layers::Windowed(windowed) => windowed.named_time(now),
            _ => now,
        }
    }

    /// Returns the slices that a window dropped last, which may take long to free, and how many layers it dropped since
    /// the last call.
    pub fn take_dropped(&mut self) -> (Vec<Slice>, u64) {
        match &mut self.layers {
            Layers::Windowed(windowed) => windowed.take_dropped(),
            _ => Default::default(),
        }
    }

    /// The counts of the filter, for the figures of its owner.
    pub fn account(&self) -> Account {
        Account {
            layers: self.layers() as u64,
            bytes: self.bytes(),
            items: self.layers.as_layered().items(0),
            exceptions: self.exceptions(),
        }
    }

    /// The number of layers that a window has and that have expired at `now`; they are the oldest.
    pub fn expired_layers(&self, now: Time) -> usize {
        self.windowed().map_or(0, |windowed| windowed.expired_layers(now))
    }

    /// [`Self::bytes`] of the filter as it was with only its first `layers` layers.
    pub fn bytes_with(&self, layers: usize) -> u64 {
        let of_layers = self.layers.as_layered().bytes(layers.min(self.layers()));
        let of_exceptions = self
            .excepted()
            .map_or(0, |excepted| exceptions::bytes(excepted.len()));
        of_layers.saturating_add(of_exceptions)
    }

    /// Bytes outside of the filter's own blocks that it keeps alive and no other filter uses.
    pub fn unshared(&self) -> u64 {
        // Each slice of a window has a reference of its own.
        let own = 1 + self.slices().len();
        let secret = self.layers.blocked().map(Blocked::secret);
        match secret {
            Some(secret) if Arc::strong_count(secret) == own => Secret::BYTES,
            _ => 0,
        }
    }

    /// Bytes of the set of exceptions. [`Self::each_allocation`] cannot report it, because its address is not known.
    pub fn set_of_exceptions(&self) -> u64 {
        self.excepted().map_or(0, Exceptions::allocated)
    }

    /// Passes every block of memory to `visit`, in O(layers). The filter's own struct belongs to its owner.
    pub fn each_allocation(&self, mut visit: impl FnMut(Allocation)) {
        if let Some(exceptions) = self.excepted() {
            let own = Allocation::of_array(std::slice::from_ref(exceptions));
            own.into_iter().for_each(&mut visit);
        }
        self.layers.each_allocation(visit);
    }

    /// Lets `mover`, which must not panic, move the filter's memory, from layer `first` on; if `first` is 0, the list
    /// of layers too. If `mover` wants to pause, returns the layer to continue with. Each call moves at least one
    /// layer. The filter may change in any way between calls.
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0
            && let Layers::Blocked(_, Some(exceptions)) = &mut self.layers
        {
            mover.boxed(exceptions);
        }
        self.layers.relocate(first, mover)
    }

    /// The figures of each layer, oldest first, including expired ones.
    pub fn layer_stats(&self) -> impl ExactSizeIterator<Item = LayerStats> + DoubleEndedIterator {
        let layers = self.layers.as_layered();
        (0..layers.count()).map(move |index| layers.stats(index))
    }

    /// What a blocked filter does when it is full. A classic one grows, or does not, as [`Self::expansion`] says.
    pub fn growth(&self) -> Option<Growth> {
        self.layers.blocked().map(Blocked::growth)
    }

    /// The window, if the filter has one.
    pub fn window(&self) -> Option<Window> {
        self.windowed().map(|windowed| windowed.window)
    }

    /// The slices of a window, oldest first, including expired ones; empty without a window.
    pub fn slices(&self) -> &[Slice] {
        self.windowed().map_or(&[], |windowed| &windowed.slices)
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layers.as_layered().layout()
    }

    /// The layers of a filter in valkey-bloom's layout.
    pub fn as_valkey(&self) -> Option<&Chain<Valkey>> {
        match &self.layers {
            Layers::Valkey(chain) => Some(chain),
            _ => None,
        }
    }

    /// The rules of a filter in valkey-bloom's layout.
    pub fn valkey_rules(&self) -> Option<&Valkey> {
        self.as_valkey().map(Chain::rules)
    }

    /// The capacity that a filter in valkey-bloom's layout can grow to within `limit`, if it grows.
    pub fn scaled_capacity(&self, limit: Option<u64>) -> Option<u64> {
        let chain = self.as_valkey()?;
        let first = batch::Layer::capacity(chain.layers().first()?);
        let reached = chain.rules().scaled_capacity(first, u64::MAX, limit);
        let reached = reached.unwrap_or_else(Unreached::capacity);
        // The filter may have more layers than a forecast has, or come from a server with another limit.
        let reached = reached.max(chain::capacity(chain.layers()));
        (chain.rules().expansion() > 0).then_some(reached)
    }

    /// The hash of a blocked filter, and the layers to which items are added: in a window the newest slice's.
    pub(super) fn as_blocked(&self) -> Option<(&Arc<Secret>, &[blocked::Layer])> {
        let layers = match &self.layers {
            Layers::Blocked(chain, _) => chain.layers(),
            Layers::Windowed(windowed) => windowed.slices.last().map_or(&[][..], Slice::layers),
            _ => return None,
        };
        Some((self.layers.blocked()?.secret(), layers))
    }
}

/// Passes the items of a block on to `found`, without those that are excepted.
#[inline]
fn without_excepted(
    exceptions: Option<&Exceptions>,
    mut found: impl FnMut(Subset, usize),
) -> impl FnMut(Subset, &Block) {
    move |present, block| {
        let excepted = exceptions.map_or(Subset::NONE, |set| set.among(&block.hashes, present));
        found(present.without(excepted), block.count);
    }
}

/// Passes the outcome of a block on to `added`, which does not need the hashes.
#[inline]
fn without_hashes(mut added: impl FnMut(BlockOutcome)) -> impl FnMut(BlockOutcome, &Block) {
    move |outcome, _| added(outcome)
}
