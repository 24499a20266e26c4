//! Probing a chain of layers, one item or many at a time, whatever the layers' layout is.
//!
//! A probe of a large filter waits for memory. Items of a batch are taken in blocks of [`BLOCK`]: hashed,
//! their lines prefetched, then probed, so that the waits of a block overlap. Lookups go from the newest
//! layer to the oldest, because most items sit in the newest.

use crate::bloom::bits::kernel::{Kernel, Work};
use crate::bloom::bits::memory::{Allocation, Mover};
use crate::bloom::error::Error;
use crate::bloom::item::{Item, ItemHash};

/// Items that are hashed and prefetched together: as many as a word has bits, one for each in a mask.
pub const BLOCK: usize = u64::BITS as usize;

/// What a chain asks of its layers.
pub trait Layer {
    /// Bytes of the units that the bit array is made of, and aligned to.
    const UNIT: usize;
    /// Bytes that the array has before its bits.
    const HEAD: u64 = 0;
    /// Items that the layer is made for.
    fn capacity(&self) -> u64;
    /// Items that changed the layer.
    fn items(&self) -> u64;
    /// Bytes of the layer's bit array.
    fn bytes(&self) -> u64;
    /// Bytes of the bit arrays of `layers`; saturating.
    fn bytes_of_all(layers: &[Self]) -> u64
    where
        Self: Sized,
    {
        layers.iter().map(Self::bytes).fold(0, u64::saturating_add)
    }
    /// Of the bit arrays of `layers`, end to end: which has byte `offset`, and the bytes before it.
    fn place_of(layers: &[Self], offset: u64) -> Option<(usize, u64)>
    where
        Self: Sized,
    {
        let mut end = 0;
        let index = layers.iter().position(|layer| {
            end += layer.bytes();
            offset < end
        })?;
        Some((index, end - layers[index].bytes()))
    }
    /// Takes note of the bytes of the bit arrays before it in its chain.
    fn start_at(&mut self, _bytes: u64) {}
    /// Tells `layers` where they start, the first of them behind so many bytes.
    fn start_all_at(layers: &mut [Self], mut bytes: u64)
    where
        Self: Sized,
    {
        for layer in layers {
            layer.start_at(bytes);
            bytes += layer.bytes();
        }
    }
    /// The memory of the layer's bit array.
    fn allocation(&self) -> Option<Allocation>;
    /// Lets `mover` choose another place for the bit array.
    fn relocate(&mut self, mover: &mut impl Mover);
    /// Whether an item's bits are in so many places that also an item alone asks for memory before it reads any.
    const SCATTERED: bool;
    /// What asks for all memory that [`Self::contains`] and [`Self::insert`] will read.
    fn prefetcher(&self) -> impl Prefetch;
    /// Asks for the memory that [`Self::contains`] reads first.
    fn prefetch_first(&self, hash: ItemHash);
    /// What asks for the memory that a lookup of a block then takes as [`Memory::AskedFor`]: of the only layer,
    /// for [`Self::contains_block`], or of the newest of some, for [`Self::any_contains_block`].
    fn prefetcher_to_ask(&self, is_only: bool) -> impl Prefetch;
    /// Whether the item is (probably) in the layer.
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool;
    /// Those of a block's items that are (probably) in the layer. Their memory was asked for.
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Items) -> Items;
    /// Whether any of `layers`, oldest first, contains the item.
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool
    where
        Self: Sized;
    /// Those of a block's items that any of `layers`, oldest first, contains. `newest` is what is known of the
    /// memory that they will read in the newest.
    fn any_contains_block<K: Kernel>(
        layers: &[Self],
        kernel: K,
        hashes: &Hashes,
        items: Items,
        newest: Memory,
    ) -> Items
    where
        Self: Sized;
    /// Puts the item in; counts it and gives true if that changed the layer.
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool;
    /// Puts a block's items in, in their order; counts and gives those that changed the layer.
    #[inline(always)]
    fn insert_block<K: Kernel>(&mut self, kernel: K, hashes: &Hashes, items: Items) -> Items {
        let mut new = Items::NONE;
        for at in items {
            new.put_if(at, self.insert(kernel, hashes[at]));
        }
        new
    }
}

/// Asks for the memory of items. It holds what it needs, so that a loop keeps it in registers; it is no
/// closure, because a closure that is not inlined is a call for each item.
pub trait Prefetch: Copy {
    /// Asks for an item's memory.
    fn prefetch(self, hash: ItemHash);
}

/// Where there may be nobody to ask, nothing is asked for.
impl<P: Prefetch> Prefetch for Option<P> {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        if let Some(prefetcher) = self {
            prefetcher.prefetch(hash);
        }
    }
}

/// What is known of the memory that a block of items will read in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It was asked for with [`Layer::prefetcher_to_ask`].
    AskedFor,
    /// It was not.
    Unasked,
}

/// The hashes of a block's items; what lies behind the last item is of no meaning.
pub type Hashes = [ItemHash; BLOCK];

/// Some of a block's items: a bit for each. As an iterator it gives their positions, all below [`BLOCK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items(u64);

impl Items {
    /// No item.
    pub const NONE: Self = Self(0);

    /// The first `count`, at most [`BLOCK`].
    #[inline(always)]
    pub fn first(count: usize) -> Self {
        Self(u64::MAX.unbounded_shr(u64::BITS.saturating_sub(count as u32)))
    }

    /// Takes one in if it `belongs`; no branch, for what a processor cannot predict.
    #[inline(always)]
    pub fn put_if(&mut self, at: usize, belongs: bool) {
        self.0 |= u64::from(belongs) << at;
    }

    /// Takes all of `others` in.
    #[inline(always)]
    pub fn put_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// These without `others`.
    #[inline(always)]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those that are also among `others`.
    #[inline(always)]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// The items that come `count` positions later; those beyond a block are none.
    #[inline(always)]
    pub fn later_by(self, count: usize) -> Self {
        Self(self.0.unbounded_shl(count as u32))
    }

    /// Those at position `at` and behind it.
    #[inline(always)]
    pub fn from(self, at: usize) -> Self {
        Self(self.0 & u64::MAX.unbounded_shl(at as u32))
    }

    /// The first `count` of them.
    pub fn lowest(self, count: u64) -> Self {
        if self.count_ones() <= count {
            return self;
        }
        let mut rest = self;
        rest.by_ref()
            .take(usize::try_from(count).unwrap_or(BLOCK))
            .for_each(drop);
        self.without(rest)
    }

    /// The position after the last one's.
    #[inline(always)]
    pub fn end(self) -> usize {
        (u64::BITS - self.0.leading_zeros()) as usize
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As a word: the item at position `n` is bit `n`.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// How many they are.
    #[inline(always)]
    pub fn count_ones(self) -> u64 {
        u64::from(self.0.count_ones())
    }

    /// Whether the one at this position is among them.
    #[inline(always)]
    pub fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}

impl Iterator for Items {
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

/// What became of a block's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Those that were new.
    pub new: Items,
    /// Those that changed the filter: the new ones, and in a window that refreshes also those that live on.
    pub changed: Items,
    /// How many were added: [`BLOCK`], but for the last ones.
    pub count: usize,
}

impl Added {
    /// Where only new items change anything.
    #[inline(always)]
    pub(in crate::bloom) fn of_new(new: Items, count: usize) -> Self {
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
}

/// Whether a layer contains one item. Work for one layer alone, as for [`InsertOne`], is what most filters
/// need, and short.
pub struct ContainsOne<'a, L> {
    /// The only layer.
    pub layer: &'a L,
    /// The item's hash.
    pub hash: ItemHash,
}

impl<L: Layer> Work for ContainsOne<'_, L> {
    type Output = bool;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> bool {
        if L::SCATTERED {
            self.layer.prefetch_first(self.hash);
        }
        self.layer.contains(kernel, self.hash)
    }
}

/// Puts one item into a layer that has room for it; true if it is new.
pub struct InsertOne<'a, L> {
    /// The only layer.
    pub layer: &'a mut L,
    /// The item's hash.
    pub hash: ItemHash,
}

impl<L: Layer> Work for InsertOne<'_, L> {
    type Output = bool;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> bool {
        if L::SCATTERED {
            self.layer.prefetcher().prefetch(self.hash);
        }
        self.layer.insert(kernel, self.hash)
    }
}

/// Whether any of `layers` contains one item.
pub struct AnyContains<'a, L> {
    /// Oldest first.
    pub layers: &'a [L],
    /// The item's hash.
    pub hash: ItemHash,
}

impl<L: Layer> Work for AnyContains<'_, L> {
    type Output = bool;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> bool {
        L::any_contains(self.layers, kernel, self.hash)
    }
}

/// Which of `items` any of `layers` contains, told block by block.
pub struct ContainsMany<'a, L, H, I, F> {
    /// Oldest first.
    pub layers: &'a [L],
    /// The chain's hash function.
    pub hasher: &'a H,
    /// The items.
    pub items: I,
    /// Takes those of a block that were found, and the block.
    pub found: F,
}

impl<'a, L: Layer, H: Hasher, I: Iterator<Item = &'a [u8]>, F: FnMut(Items, &Block)> Work
    for ContainsMany<'_, L, H, I, F>
{
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) {
        let mut block = Block::new();
        let [older @ .., newest] = self.layers else { return };
        let is_only = older.is_empty();
        while block.fill(self.hasher, &mut self.items, newest.prefetcher_to_ask(is_only)) {
            let (hashes, items) = (&block.hashes, block.items());
            let found = if is_only {
                newest.contains_block(kernel, hashes, items)
            } else {
                L::any_contains_block(self.layers, kernel, hashes, items, Memory::AskedFor)
            };
            (self.found)(found, &block);
        }
    }
}

/// Adds one item to a chain; true if it is new.
pub struct AddOne<'a, L, G> {
    /// Oldest first; never empty.
    pub layers: &'a mut Vec<L>,
    /// The item's hash.
    pub hash: ItemHash,
    /// Appends a layer.
    pub grow: G,
}

impl<L: Layer, G: FnMut(&mut Vec<L>) -> Result<(), Error>> Work for AddOne<'_, L, G> {
    type Output = Result<bool, Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<bool, Error> {
        if let [.., newest] = &self.layers[..] {
            newest.prefetcher().prefetch(self.hash);
        }
        add_one(kernel, self.layers, 0, self.hash, &mut self.grow)
    }
}

/// Adds `items` to a chain in their order, and tells block by block which are new. Ends at the first item
/// that it has no room for: those before it are in.
pub struct AddMany<'a, L, H, I, F, G> {
    /// Oldest first; never empty.
    pub layers: &'a mut Vec<L>,
    /// The chain's hash function.
    pub hasher: &'a H,
    /// The items.
    pub items: I,
    /// Takes what became of a block, and the block.
    pub added: F,
    /// Appends a layer.
    pub grow: G,
}

impl<'a, L, H, I, F, G> Work for AddMany<'_, L, H, I, F, G>
where
    L: Layer,
    H: Hasher,
    I: Iterator<Item = &'a [u8]>,
    F: FnMut(Added, &Block),
    G: FnMut(&mut Vec<L>) -> Result<(), Error>,
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
            // Only the newest layer changes, so the block's answers for the older ones can come first.
            let (hashes, items) = (&block.hashes, block.items());
            let known = match &self.layers[..older] {
                [] => Items::NONE,
                layers => L::any_contains_block(layers, kernel, hashes, items, Memory::Unasked),
            };
            let unknown = items.without(known);
            let newest = &mut self.layers[older];
            let room = newest.capacity().saturating_sub(newest.items());
            if unknown.count_ones() <= room {
                let new = newest.insert_block(kernel, hashes, unknown);
                (self.added)(Added::of_new(new, block.count), &block);
                continue;
            }
            let mut new = Items::NONE;
            for at in unknown {
                match add_one(kernel, self.layers, older, hashes[at], &mut self.grow) {
                    Ok(is_new) => new.put_if(at, is_new),
                    Err(error) => {
                        (self.added)(Added::of_new(new, at), &block);
                        return Err(error);
                    }
                }
            }
            (self.added)(Added::of_new(new, block.count), &block);
        }
    }
}

/// The hashes of up to [`BLOCK`] items.
pub struct Block {
    /// The hashes.
    pub hashes: Hashes,
    /// How many there are: [`BLOCK`], but for the last block of a batch.
    pub count: usize,
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

impl Block {
    /// No items.
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            hashes: [ItemHash::default(); BLOCK],
            count: 0,
        }
    }

    /// Takes the next items, and asks with `prefetcher` for what each will read; false when there are none.
    #[inline(always)]
    pub fn fill<'a>(
        &mut self,
        hasher: &impl Hasher,
        items: &mut impl Iterator<Item = &'a [u8]>,
        prefetcher: impl Prefetch,
    ) -> bool {
        let mut count = 0;
        for (hash, item) in self.hashes.iter_mut().zip(items) {
            *hash = hasher.hash(item.into());
            prefetcher.prefetch(*hash);
            count += 1;
        }
        self.count = count;
        self.count > 0
    }

    /// All of its items.
    #[inline(always)]
    pub fn items(&self) -> Items {
        Items::first(self.count)
    }
}

/// Adds an item that none of the layers before `unknown` contains; true if it is new.
#[inline(always)]
fn add_one<K: Kernel, L: Layer>(
    kernel: K,
    layers: &mut Vec<L>,
    unknown: usize,
    hash: ItemHash,
    grow: &mut impl FnMut(&mut Vec<L>) -> Result<(), Error>,
) -> Result<bool, Error> {
    let older = layers.len() - 1;
    if L::any_contains(&layers[unknown..older], kernel, hash) {
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
