//! Probing a chain of layers, one item or many at a time, whatever the layers' layout is.
//!
//! A probe of a large filter waits for memory. Items of a batch are taken in blocks of [`BLOCK`]: hashed,
//! their lines prefetched, then probed, so that the waits of a block overlap. Lookups go from the newest
//! layer to the oldest, because most items sit in the newest: a block goes through the newest few layer by
//! layer, and with each item that was not found there through all of the others.

use super::error::Error;
use super::hash::ItemHash;
use super::kernel::{Kernel, Work};
use super::memory::{Allocation, Mover};

/// Items that are hashed and prefetched together: as many as a word has bits, one for each in a mask.
pub const BLOCK: usize = u64::BITS as usize;
/// Layers that a block goes through one by one: they hold most items, so that few are left for the others.
const NEWEST: usize = 3;
/// Items whose lines in the older layers are prefetched together.
const GROUP: usize = 16;
/// Bytes from which on a layer's lines are prefetched: smaller ones stay in a near cache.
const PREFETCH_FROM: u64 = 128 << 10;

/// What a chain asks of its layers.
pub trait Layer {
    /// Items that the layer is made for.
    fn capacity(&self) -> u64;
    /// Items that changed the layer.
    fn items(&self) -> u64;
    /// Bytes of the layer's bit array.
    fn bytes(&self) -> u64;
    /// The memory of the layer's bit array.
    fn allocation(&self) -> Option<Allocation>;
    /// Lets `mover` choose another place for the bit array.
    fn relocate(&mut self, mover: &mut impl Mover);
    /// Asks for all memory that [`Self::contains`] and [`Self::insert`] will read.
    fn prefetch(&self, hash: ItemHash);
    /// Asks for the memory that [`Self::contains`] reads first.
    fn prefetch_first(&self, hash: ItemHash);
    /// Whether that memory leaves it open that the layer contains the item. A layout whose items take many
    /// lines says so, and the rest of its lines is asked for only then.
    fn may_contain(&self, hash: ItemHash) -> bool {
        let _ = hash;
        true
    }
    /// Whether [`Self::may_contain`] is worth a pass over a block of items.
    const STAGED: bool = false;
    /// Whether the item is (probably) in the layer.
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool;
    /// Whether any of `layers`, oldest first, contains the item.
    #[inline(always)]
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool
    where
        Self: Sized,
    {
        layers.iter().rev().any(|layer| layer.contains(kernel, hash))
    }
    /// Puts the item in; counts it and gives true if that changed the layer.
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool;
}

/// The hash function of a chain.
pub trait Hasher {
    /// The hash of `item`.
    fn hash(&self, item: &[u8]) -> ItemHash;
}

/// Whether any of `layers` contains one item.
pub struct ContainsOne<'a, L> {
    /// Oldest first.
    pub layers: &'a [L],
    /// The item's hash.
    pub hash: ItemHash,
}

impl<L: Layer> Work for ContainsOne<'_, L> {
    type Output = bool;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> bool {
        if L::STAGED {
            for layer in self.layers.iter().rev().take(4) {
                layer.prefetch_first(self.hash);
            }
        }
        L::any_contains(self.layers, kernel, self.hash)
    }
}

/// Whether any of `layers` contains each of `items`, told in their order.
pub struct ContainsMany<'a, L, H, I, F> {
    /// Oldest first.
    pub layers: &'a [L],
    /// The chain's hash function.
    pub hasher: &'a H,
    /// The items.
    pub items: I,
    /// Takes the answers.
    pub found: F,
}

impl<'a, L: Layer, H: Hasher, I: Iterator<Item = &'a [u8]>, F: FnMut(bool)> Work
    for ContainsMany<'_, L, H, I, F>
{
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) {
        let mut block = Block::new();
        while block.fill(self.hasher, &mut self.items) {
            let found = contains_block(kernel, self.layers, block.hashes());
            for at in 0..block.count {
                (self.found)(found >> at & 1 == 1);
            }
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
            newest.prefetch(self.hash);
        }
        add_one(kernel, self.layers, 0, self.hash, &mut self.grow)
    }
}

/// Adds `items` to a chain in their order, and tells of each whether it is new. Ends at the first item
/// that it has no room for: those before it are in.
pub struct AddMany<'a, L, H, I, F, G> {
    /// Oldest first; never empty.
    pub layers: &'a mut Vec<L>,
    /// The chain's hash function.
    pub hasher: &'a H,
    /// The items.
    pub items: I,
    /// Takes the answers.
    pub added: F,
    /// Appends a layer.
    pub grow: G,
}

impl<'a, L, H, I, F, G> Work for AddMany<'_, L, H, I, F, G>
where
    L: Layer,
    H: Hasher,
    I: Iterator<Item = &'a [u8]>,
    F: FnMut(bool),
    G: FnMut(&mut Vec<L>) -> Result<(), Error>,
{
    type Output = Result<(), Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<(), Error> {
        let mut block = Block::new();
        while block.fill(self.hasher, &mut self.items) {
            // Only the newest layer changes, so the block's answers for the older ones can come first.
            let older = self.layers.len() - 1;
            for &hash in block.hashes() {
                self.layers[older].prefetch(hash);
            }
            let known = contains_block(kernel, &self.layers[..older], block.hashes());
            for (at, &hash) in block.hashes().iter().enumerate() {
                let new = known >> at & 1 == 0 && add_one(kernel, self.layers, older, hash, &mut self.grow)?;
                (self.added)(new);
            }
        }
        Ok(())
    }
}

/// The hashes of up to [`BLOCK`] items.
struct Block {
    hashes: [ItemHash; BLOCK],
    count: usize,
}

impl Block {
    #[inline(always)]
    fn new() -> Self {
        Self {
            hashes: [ItemHash::default(); BLOCK],
            count: 0,
        }
    }

    /// Takes the next items; false when there are none.
    #[inline(always)]
    fn fill<'a>(&mut self, hasher: &impl Hasher, items: &mut impl Iterator<Item = &'a [u8]>) -> bool {
        self.count = 0;
        for (hash, item) in self.hashes.iter_mut().zip(items) {
            *hash = hasher.hash(item);
            self.count += 1;
        }
        self.count > 0
    }

    #[inline(always)]
    fn hashes(&self) -> &[ItemHash] {
        &self.hashes[..self.count]
    }
}

/// For each of up to [`BLOCK`] hashes, whether any of `layers` contains it: bit `i` for hash `i`.
#[inline(always)]
fn contains_block<K: Kernel, L: Layer>(kernel: K, layers: &[L], hashes: &[ItemHash]) -> u64 {
    let (mut found, mut pending) = (0, u64::MAX >> (BLOCK - hashes.len()));
    let one_by_one = if L::STAGED { layers.len() } else { NEWEST };
    let (older, newest) = layers.split_at(layers.len().saturating_sub(one_by_one));
    for (age, layer) in newest.iter().rev().enumerate() {
        let mut possible = pending;
        for at in ones(pending) {
            // A layer that does not hold an item mostly says so with the first line.
            if age < 2 && !L::STAGED {
                layer.prefetch(hashes[at]);
            } else {
                layer.prefetch_first(hashes[at]);
            }
        }
        if L::STAGED {
            for at in ones(pending) {
                if layer.may_contain(hashes[at]) {
                    layer.prefetch(hashes[at]);
                } else {
                    possible &= !(1 << at);
                }
            }
        }
        for at in ones(possible) {
            found |= u64::from(layer.contains(kernel, hashes[at])) << at;
        }
        pending &= !found;
        if pending == 0 {
            break;
        }
    }
    if older.is_empty() {
        return found;
    }
    while pending != 0 {
        let group = lowest(GROUP, pending);
        for layer in older.iter().rev() {
            if layer.bytes() >= PREFETCH_FROM {
                for at in ones(group) {
                    layer.prefetch_first(hashes[at]);
                }
            }
        }
        for at in ones(group) {
            found |= u64::from(L::any_contains(older, kernel, hashes[at])) << at;
        }
        pending &= !group;
    }
    found
}

/// The lowest `count` set bits of `mask`, or all.
#[inline(always)]
fn lowest(count: usize, mask: u64) -> u64 {
    mask & !(0..count).fold(mask, |rest, _| rest & rest.wrapping_sub(1))
}

/// The positions of the set bits of `mask`.
#[inline(always)]
fn ones(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (at < BLOCK).then_some(at)
    })
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
