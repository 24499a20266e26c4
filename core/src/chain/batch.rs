//! Probing a chain of layers for one item or many, in any layout.
//!
//! A probe of a large filter waits for memory. The items of a batch are processed in blocks of [`BLOCK`]:
//! hashed, their memory prefetched, then probed, so that the waits within a block overlap. Lookups go from
//! the newest layer to the oldest, because most items are in the newest.

use super::list::List;
use crate::bits::array::OutOfRange;
use crate::bits::kernel::{self, Kernel, Portable, Vector, Work};
use crate::bits::memory::{Allocation, Mover};
use crate::error::Error;
use crate::item::{Item, ItemHash};

/// Items that are hashed and prefetched together: as many as a word has bits, so that a word is a set of them.
pub const BLOCK: usize = u64::BITS as usize;

/// A layer: how it is made, what it holds, and what it does with items.
pub trait Layer: Sized {
    /// What defines a layer, apart from its items and bits.
    type Shape: Copy + PartialEq;
    /// Allocates a layer without items.
    fn make(shape: Self::Shape) -> Result<Self, Error>;
    /// The shape that the layer was made from.
    fn shape(&self) -> Self::Shape;
    /// Items that the layer is made for.
    fn capacity(&self) -> u64;
    /// Items that changed the layer.
    fn items(&self) -> u64;
    /// Set bits.
    fn ones(&self) -> u64;
    /// Bytes of the layer's bits.
    fn bytes(&self) -> u64;
    /// Bytes of the bits of all `layers`; saturating.
    fn bytes_of_all(layers: &[Self]) -> u64 {
        layers.iter().map(Self::bytes).fold(0, u64::saturating_add)
    }
    /// The layer's bits.
    fn array(&self) -> &[u8];
    /// Sets the bits that are set in `bytes`, starting at byte `offset` of the layer's bits.
    fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange>;
    /// Tells the layer how many bytes of bits precede it in its chain, if its layout needs that.
    fn start_at(&mut self, _bytes: u64) {}
    /// Calls [`Self::start_at`] for all `layers`, of which the first is preceded by `bytes` bytes.
    fn start_all_at(layers: &mut [Self], mut bytes: u64) {
        for layer in layers {
            layer.start_at(bytes);
            bytes += layer.bytes();
        }
    }
    /// The layer's block of memory; `None` if it has none.
    fn allocation(&self) -> Option<Allocation>;
    /// Lets `mover` move the layer's memory.
    fn relocate(&mut self, mover: &mut impl Mover);
    /// A prefetcher for all the memory that [`Self::contains`] and [`Self::insert`] read.
    fn prefetcher(&self) -> impl Prefetch;
    /// A prefetcher for looking up a block. If the layer `is_only`, the lookup is [`Self::contains_block`];
    /// if it is the newest of several, [`Self::any_contains_block`] with [`Prefetched::Yes`].
    fn lookup_prefetcher(&self, is_only: bool) -> impl Prefetch;
    /// Whether the item is (probably) in the layer.
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool;
    /// [`Self::contains`] in a filter's only layer, as most are; `None` if it has no faster way for a single item.
    fn contains_in_only_layer(&self, hasher: &impl Hasher, item: &[u8]) -> Option<bool>;
    /// The items of a block that are (probably) in the layer. Their memory has been prefetched.
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Subset) -> Subset;
    /// Whether any of `layers`, newest first, contains the item.
    fn any_contains<'a, K: Kernel>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        kernel: K,
        hash: ItemHash,
    ) -> bool
    where
        Self: 'a;
    /// The items of a block that any of `layers`, newest first, contains. `newest`: whether that layer was prefetched.
    fn any_contains_block<'a, K: Kernel>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        kernel: K,
        hashes: &Hashes,
        items: Subset,
        newest: Prefetched,
    ) -> Subset
    where
        Self: 'a;
    /// Inserts the item. If that changes the layer, counts the item and returns true.
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool;
    /// [`Self::insert`] in a filter's only layer; `None` if the layer has no faster way for a single item.
    fn insert_into_only_layer(&mut self, hasher: &impl Hasher, item: &[u8]) -> Option<bool>;
    /// Inserts the items of a block in order. Counts and returns the items that changed the layer.
    #[inline(always)]
    fn insert_block<K: Kernel>(&mut self, kernel: K, hashes: &Hashes, items: Subset) -> Subset {
        let mut new = Subset::NONE;
        for at in items {
            new.put_if(at, self.insert(kernel, hashes[at]));
        }
        new
    }
}

/// Prefetches the memory that items will read. It holds what it needs by value, so that a loop keeps it in
/// registers. It is not a closure, because one that is not inlined costs a call for each item.
pub trait Prefetch: Copy {
    /// Prefetches an item's memory.
    fn prefetch(self, hash: ItemHash);
}

/// Whether the memory that a block of items will read in a layer has been prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetched {
    /// The memory has been prefetched with [`Layer::lookup_prefetcher`].
    Yes,
    /// The memory has not been prefetched.
    No,
}

/// The hashes of a block's items; entries after the last item are meaningless.
pub type Hashes = [ItemHash; BLOCK];

/// A set of a block's items, one bit each. As an iterator it yields their positions, all below [`BLOCK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subset(u64);

impl Subset {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The first `count` items of a block; `count` is at most [`BLOCK`].
    #[inline(always)]
    pub fn first(count: usize) -> Self {
        Self(u64::MAX.unbounded_shr(u64::BITS.saturating_sub(count as u32)))
    }

    /// Adds the item at position `at` if it `belongs`. There is no branch, as the outcome is unpredictable.
    #[inline(always)]
    pub fn put_if(&mut self, at: usize, belongs: bool) {
        self.0 |= u64::from(belongs) << at;
    }

    /// Adds all of `others`.
    #[inline(always)]
    pub fn put_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// The items that are not among `others`.
    #[inline(always)]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The items that are also among `others`.
    #[inline(always)]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Moves the items up by `count` positions; those that leave the block are dropped.
    #[inline(always)]
    pub fn later_by(self, count: usize) -> Self {
        Self(self.0.unbounded_shl(count as u32))
    }

    /// The position after the last item, 0 if there is none.
    #[inline(always)]
    pub fn end(self) -> usize {
        (u64::BITS - self.0.leading_zeros()) as usize
    }

    /// Whether the set is empty.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set as a word; bit `n` is the item at position `n`.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Number of items.
    #[inline(always)]
    pub fn count_ones(self) -> u64 {
        u64::from(self.0.count_ones())
    }

    /// Whether the item at position `at` is in the set.
    #[inline(always)]
    pub fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}

impl Iterator for Subset {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let at = self.0.trailing_zeros() as usize % BLOCK;
        self.0 &= self.0 - 1;
        Some(at)
    }
}

/// The outcome of adding a block of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOutcome {
    /// The items that were new.
    pub new: Subset,
    /// The items that changed the filter: the new ones and, in a window that refreshes, those whose time began anew.
    pub changed: Subset,
    /// Number of items that were processed: [`BLOCK`], except at the end of a batch.
    pub count: usize,
}

impl BlockOutcome {
    /// The outcome if only new items changed the filter.
    #[inline(always)]
    pub(crate) fn of_new(new: Subset, count: usize) -> Self {
        Self {
            new,
            changed: new,
            count,
        }
    }
}

/// The hash function of a chain.
pub trait Hasher {
    /// The hash of `item`.
    fn hash(&self, item: Item<'_>) -> ItemHash;

    /// The hash of `item`, if it was computed ahead.
    #[inline(always)]
    fn known(&self, _: Item<'_>) -> Option<ItemHash> {
        None
    }
}

/// Stands for the hash function where an item's hash is known.
impl Hasher for ItemHash {
    #[inline(always)]
    fn hash(&self, _: Item<'_>) -> ItemHash {
        *self
    }
}

/// Whether any of `layers`, newest first, contains the item.
#[inline]
pub fn any_contains<'a, L: Layer + 'a>(layers: impl Iterator<Item = &'a L> + Clone, hash: ItemHash) -> bool {
    kernel::run_on_one(
        L::any_contains::<Vector>,
        L::any_contains::<Portable>,
        layers,
        hash,
    )
}

/// Tests which of `items` any of several layers contains, and reports the answers block by block.
pub(crate) struct ContainsMany<'h, L, H, I, F> {
    /// The layers, newest first.
    pub layers: L,
    pub hasher: &'h H,
    pub items: I,
    /// Called for each block with the items that were found.
    pub found: F,
}

impl<'l, L, S, H, I, F> Work for ContainsMany<'_, S, H, I, F>
where
    L: Layer + 'l,
    S: Iterator<Item = &'l L> + Clone,
    H: Hasher,
    I: Iterator<Item: AsRef<[u8]>>,
    F: FnMut(Subset, &Block),
{
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) {
        let mut block = Block::new();
        let mut layers = self.layers.clone();
        let (newest, older) = (layers.next(), layers.next());
        let Some(newest) = newest else { return };
        if older.is_none() {
            while block.fill(self.hasher, &mut self.items, newest.lookup_prefetcher(true)) {
                let found = newest.contains_block(kernel, &block.hashes, block.items());
                (self.found)(found, &block);
            }
            return;
        }
        while block.fill(self.hasher, &mut self.items, newest.lookup_prefetcher(false)) {
            let (layers, items) = (self.layers.clone(), block.items());
            let found = L::any_contains_block(layers, kernel, &block.hashes, items, Prefetched::Yes);
            (self.found)(found, &block);
        }
    }
}

/// Adds one item to a chain; true if it is new.
pub(crate) struct AddOne<'a, L, G> {
    /// All layers, oldest first; never empty.
    pub layers: &'a mut List<L>,
    pub hash: ItemHash,
    pub grow: G,
}

impl<L: Layer, G: FnMut(&mut List<L>) -> Result<(), Error>> Work for AddOne<'_, L, G> {
    type Output = Result<bool, Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<bool, Error> {
        if let [.., newest] = &self.layers[..] {
            newest.prefetcher().prefetch(self.hash);
        }
        add_one(kernel, self.layers, 0, self.hash, &mut self.grow)
    }
}

/// Adds `items` to a chain in order, and reports block by block which are new. Stops at the first item for
/// which the chain has no room and cannot grow; the items before it have been added.
pub(crate) struct AddMany<'a, L, H, I, F, G> {
    /// All layers, oldest first; never empty.
    pub layers: &'a mut List<L>,
    pub hasher: &'a H,
    pub items: I,
    /// Called for each block with the outcome.
    pub added: F,
    pub grow: G,
}

impl<L, H, I, F, G> Work for AddMany<'_, L, H, I, F, G>
where
    L: Layer,
    H: Hasher,
    I: Iterator<Item: AsRef<[u8]>>,
    F: FnMut(BlockOutcome, &Block),
    G: FnMut(&mut List<L>) -> Result<(), Error>,
{
    type Output = Result<(), Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<(), Error> {
        let mut block = Block::new();
        loop {
            let older = self.layers.len() - 1;
            if !block.fill(self.hasher, &mut self.items, self.layers[older].prefetcher()) {
                return Ok(());
            }
            // Only the newest layer changes, so the whole block can be looked up in the older layers first.
            let (hashes, items) = (&block.hashes, block.items());
            let known = match &self.layers[..older] {
                [] => Subset::NONE,
                layers => L::any_contains_block(layers.iter().rev(), kernel, hashes, items, Prefetched::No),
            };
            let unknown = items.without(known);
            let (new, end) = insert_unknown(kernel, self.layers, hashes, unknown, &mut self.grow);
            let count = end.map_or_else(|(at, _)| at, |()| block.count);
            (self.added)(BlockOutcome::of_new(new, count), &block);
            end.map_err(|(_, error)| error)?;
        }
    }
}

/// The hashes of up to [`BLOCK`] items.
pub struct Block {
    /// The hashes, in order.
    pub hashes: Hashes,
    /// Number of items: [`BLOCK`], except in the last block of a batch.
    pub count: usize,
}

impl Block {
    /// A block without items.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            hashes: [ItemHash::default(); BLOCK],
            count: 0,
        }
    }

    /// Hashes the next items and prefetches what they will read. Returns false if there are none.
    #[inline(always)]
    pub fn fill(
        &mut self,
        hasher: &impl Hasher,
        items: &mut impl Iterator<Item: AsRef<[u8]>>,
        prefetcher: impl Prefetch,
    ) -> bool {
        let mut count = 0;
        for (hash, item) in self.hashes.iter_mut().zip(items) {
            *hash = hasher.hash((&item).into());
            prefetcher.prefetch(*hash);
            count += 1;
        }
        self.count = count;
        self.count > 0
    }

    /// All items of the block, as a set.
    #[inline(always)]
    pub fn items(&self) -> Subset {
        Subset::first(self.count)
    }
}

/// Inserts items of a block that no layer contains but perhaps the newest. If that has no room for all of them, they
/// are inserted one by one, and `grow` appends layers. Returns the items that were new and, if one found no room, its
/// position and the error.
#[inline(always)]
pub fn insert_unknown<K: Kernel, L: Layer>(
    kernel: K,
    layers: &mut List<L>,
    hashes: &Hashes,
    unknown: Subset,
    grow: &mut impl FnMut(&mut List<L>) -> Result<(), Error>,
) -> (Subset, Result<(), (usize, Error)>) {
    let Some(newest) = layers.last_mut() else {
        return (Subset::NONE, Ok(()));
    };
    let room = newest.capacity().saturating_sub(newest.items());
    if unknown.count_ones() <= room {
        return (newest.insert_block(kernel, hashes, unknown), Ok(()));
    }
    let (mut new, older) = (Subset::NONE, layers.len() - 1);
    for at in unknown {
        match add_one(kernel, layers, older, hashes[at], grow) {
            Ok(is_new) => new.put_if(at, is_new),
            Err(error) => return (new, Err((at, error))),
        }
    }
    (new, Ok(()))
}

/// Adds an item that none of the first `searched` layers contains; true if the item is new.
#[inline(always)]
fn add_one<K: Kernel, L: Layer>(
    kernel: K,
    layers: &mut List<L>,
    searched: usize,
    hash: ItemHash,
    grow: &mut impl FnMut(&mut List<L>) -> Result<(), Error>,
) -> Result<bool, Error> {
    let older = layers.len() - 1;
    if L::any_contains(layers[searched..older].iter().rev(), kernel, hash) {
        return Ok(false);
    }
    let newest = &mut layers[older];
    if newest.items() < newest.capacity() {
        return Ok(newest.insert(kernel, hash));
    }
    if newest.contains(kernel, hash) {
        return Ok(false);
    }
    grow(layers)?;
    Ok(layers.last_mut().is_some_and(|layer| layer.insert(kernel, hash)))
}
