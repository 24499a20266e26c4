//! Layers in which an item's probes are single bits anywhere in the array, each in a cache line of its own.
//!
//! Which bits those are, and how many, is up to the layout ([`Scattered::place`]). Prefetching, testing and setting
//! them is the same for all such layouts, and is done here.

pub mod ln;
pub mod modulus;

use std::marker::PhantomData;

use crate::bits::array::{BitArray, OutOfRange};
use crate::bits::kernel::{Kernel, Portable, prefetch_address};
use crate::bits::memory::{Allocation, Mover};
use crate::chain::batch::{Hasher, Hashes, Layer, Prefetch, Prefetched, Subset};
use crate::item::ItemHash;
use modulus::Modulus;

/// Probes that are tested first. In a full layer half of the bits are set, so only an eighth of the absent
/// items pass them.
const FIRST: u16 = 3;
/// The newest layers in which the first words of a single item are prefetched.
const PREFETCHED_LAYERS: usize = 4;
/// The most probes of an item that are prefetched; rates below 1e-4 have more.
const PREFETCHED: u16 = 16;

/// The relative difference that is tolerated between sizes computed here and by others, because the last bits
/// of a logarithm differ between libms.
pub const LOGARITHM_TOLERANCE: f64 = 1e-12;

/// A layer whose probes are scattered.
pub trait Scattered {
    /// Bytes of the array before the bits.
    const HEAD: u64;

    /// The number whose remainder by [`Self::modulus`] is the bit of an item's probe.
    fn place(hash: ItemHash, probe: u64) -> u64;
    /// The number of bits that probes can be.
    fn modulus(&self) -> Modulus;
    /// The number of an item's probes.
    fn probes(&self) -> u16;
    /// The array, in words.
    fn words(&self) -> &BitArray<u64>;
    /// The array, for changing it.
    fn words_mut(&mut self) -> &mut BitArray<u64>;
    /// Bytes of the layer's bits.
    fn array_bytes(&self) -> u64;
    /// Items that the layer is made for.
    fn capacity(&self) -> u64;
    /// Items that changed the layer.
    fn items(&self) -> u64;
    /// Counts an item that changed the layer.
    fn count(&mut self);
}

/// An item's first `count` probes: for each the index of a word, and a mask with one bit.
#[inline(always)]
fn probes<L: Scattered>(modulus: Modulus, count: u16, hash: ItemHash) -> impl Iterator<Item = (usize, u64)> {
    (0..u64::from(count)).map(move |probe| {
        let bit = 8 * L::HEAD + modulus.remainder(L::place(hash, probe));
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

/// Whether the layer has an item's first `count` probes, or all if it has fewer.
#[inline(always)]
fn has_first<L: Scattered>(layer: &L, count: u16, hash: ItemHash) -> bool {
    let words = layer.words().units();
    let mut probes = probes::<L>(layer.modulus(), count.min(layer.probes()), hash);
    probes.all(|(word, mask)| words[word] & mask != 0)
}

/// Prefetches the words of items' first `count` probes.
struct Words<'a, L> {
    array: &'a [u64],
    modulus: Modulus,
    count: u16,
    layer: PhantomData<&'a L>,
}

impl<L> Clone for Words<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Words<'_, L> {}

impl<L: Scattered> Prefetch for Words<'_, L> {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        for (word, _) in probes::<L>(self.modulus, self.count, hash) {
            prefetch_address(&self.array[word]);
        }
    }
}

/// A prefetcher for the words of items' first `count` probes.
#[inline(always)]
fn first_words<L: Scattered>(layer: &L, count: u16) -> Words<'_, L> {
    Words {
        array: layer.words().units(),
        modulus: layer.modulus(),
        count: count.min(layer.probes()),
        layer: PhantomData,
    }
}

impl<L: Scattered> Layer for L {
    #[inline(always)]
    fn capacity(&self) -> u64 {
        Scattered::capacity(self)
    }

    #[inline(always)]
    fn items(&self) -> u64 {
        Scattered::items(self)
    }

    fn bytes(&self) -> u64 {
        self.array_bytes()
    }

    fn array(&self) -> &[u8] {
        &self.words().bytes()[L::HEAD as usize..][..self.array_bytes() as usize]
    }

    fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(OutOfRange)?;
        if end > self.array_bytes() {
            return Err(OutOfRange);
        }
        self.words_mut().merge(L::HEAD + offset, bytes)
    }

    fn allocation(&self) -> Option<Allocation> {
        self.words().allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.words_mut().relocate(mover);
    }

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        first_words(self, PREFETCHED)
    }

    #[inline(always)]
    fn prefetch_first(&self, hash: ItemHash) {
        first_words(self, FIRST).prefetch(hash);
    }

    #[inline(always)]
    fn lookup_prefetcher(&self, _: bool) -> impl Prefetch {
        first_words(self, FIRST)
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, _: K, hash: ItemHash) -> bool {
        has_first(self, u16::MAX, hash)
    }

    fn contains_alone(&self, hasher: &impl Hasher, item: &[u8]) -> Option<bool> {
        let hash = hasher.hash(item.into());
        // An item has so many probes that prefetching pays off even for one item.
        self.prefetch_first(hash);
        Some(self.contains(Portable, hash))
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Subset) -> Subset {
        // Prefetches an item's other words only if its first probes are set.
        let (mut possible, mut found) = (Subset::NONE, Subset::NONE);
        for at in items {
            let is_possible = has_first(self, FIRST, hashes[at]);
            if is_possible {
                self.prefetcher().prefetch(hashes[at]);
            }
            possible.put_if(at, is_possible);
        }
        for at in possible {
            found.put_if(at, self.contains(kernel, hashes[at]));
        }
        found
    }

    #[inline(always)]
    fn any_contains<'a, K: Kernel>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        kernel: K,
        hash: ItemHash,
    ) -> bool
    where
        Self: 'a,
    {
        for layer in layers.clone().take(PREFETCHED_LAYERS) {
            layer.prefetch_first(hash);
        }
        { layers }.any(|layer| layer.contains(kernel, hash))
    }

    #[inline(always)]
    fn any_contains_block<'a, K: Kernel>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        kernel: K,
        hashes: &Hashes,
        items: Subset,
        newest: Prefetched,
    ) -> Subset
    where
        Self: 'a,
    {
        let (mut found, mut memory) = (Subset::NONE, newest);
        for layer in layers {
            let pending = items.without(found);
            if pending.is_empty() {
                break;
            }
            if memory == Prefetched::No {
                for at in pending {
                    layer.prefetch_first(hashes[at]);
                }
            }
            found.put_all(layer.contains_block(kernel, hashes, pending));
            memory = Prefetched::No;
        }
        found
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, _: K, hash: ItemHash) -> bool {
        let mut newly_set = 0;
        for (word, mask) in probes::<L>(self.modulus(), self.probes(), hash) {
            // Only words that change are written to: a page that is only read stays shared with a forked
            // child that saves the filter.
            if self.words().units()[word] & mask == 0 {
                self.words_mut().units_mut()[word] |= mask;
                newly_set += 1;
            }
        }
        self.words_mut().count_set(newly_set);
        if newly_set > 0 {
            self.count();
        }
        newly_set > 0
    }

    fn insert_alone(&mut self, hasher: &impl Hasher, item: &[u8]) -> Option<bool> {
        let hash = hasher.hash(item.into());
        self.prefetcher().prefetch(hash);
        Some(self.insert(Portable, hash))
    }
}
