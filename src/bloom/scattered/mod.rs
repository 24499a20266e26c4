//! Layers of which an item's probes are single bits anywhere in the array: a cache line each.
//!
//! Which bits those are, and how many, is the layout's [`Probes`]; asking for their memory ahead, testing and setting
//! them is here, once for all such layouts.

pub mod ln;
pub mod modulus;

use crate::bloom::bits::array::BitArray;
use crate::bloom::bits::kernel::{Kernel, prefetch};
use crate::bloom::bits::memory::{Allocation, Mover};
use crate::bloom::chain::batch::{Hashes, Items, Layer, Memory, Prefetch};
use crate::bloom::item::ItemHash;

/// The probes that tell most absent items: half of the bits of a full layer are set, so an eighth of them
/// has more to read.
const FIRST: usize = 3;
/// The newest layers whose first words are fetched ahead for one item.
const PREFETCHED_LAYERS: usize = 4;
/// The most probes of an item that are fetched ahead; rates tighter than 1e-4 have more.
const PREFETCHED: usize = 16;

/// How far apart, relatively, the logarithms of a rate may be in sizes that others made: one libm's last bits differ
/// from another's.
pub const LOGARITHM_TOLERANCE: f64 = 1e-12;

/// Where an item's bits are in a layer.
pub trait Probes: Copy {
    /// The item's probes: the index of a word, and a mask of one bit.
    fn probes(self, hash: ItemHash) -> impl Iterator<Item = (usize, u64)>;
}

/// A layer of such a layout.
pub trait Scattered {
    /// Where items' bits are.
    type Probes: Probes;

    /// Bytes that the array has before its bits.
    const HEAD: u64;

    /// Where items' bits are.
    fn probes(&self) -> Self::Probes;
    /// The array, in words.
    fn words(&self) -> &BitArray<u64>;
    /// The same, to be changed.
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

/// Asks for the first words of items.
#[derive(Clone, Copy)]
struct Words<'a, P> {
    array: &'a [u64],
    probes: P,
    words: usize,
}

impl<P: Probes> Prefetch for Words<'_, P> {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        for (word, _) in self.probes.probes(hash).take(self.words) {
            prefetch(&self.array[word]);
        }
    }
}

/// What asks for the first `words` words of items.
#[inline(always)]
fn first_words<L: Scattered>(layer: &L, words: usize) -> Words<'_, L::Probes> {
    Words {
        array: layer.words().units(),
        probes: layer.probes(),
        words,
    }
}

/// Whether the first words of an item leave it open that the layer contains it.
#[inline(always)]
fn may_contain(layer: &impl Scattered, hash: ItemHash) -> bool {
    let mut probes = layer.probes().probes(hash).take(FIRST);
    probes.all(|(word, mask)| layer.words().units()[word] & mask != 0)
}

impl<L: Scattered> Layer for L {
    const UNIT: usize = size_of::<u64>();
    const HEAD: u64 = <L as Scattered>::HEAD;

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

    fn allocation(&self) -> Option<Allocation> {
        self.words().allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.words_mut().relocate(mover);
    }

    const SCATTERED: bool = true;

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        first_words(self, PREFETCHED)
    }

    #[inline(always)]
    fn prefetch_first(&self, hash: ItemHash) {
        first_words(self, FIRST).prefetch(hash);
    }

    #[inline(always)]
    fn prefetcher_to_ask(&self, _: bool) -> impl Prefetch {
        first_words(self, FIRST)
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, _: K, hash: ItemHash) -> bool {
        let mut probes = self.probes().probes(hash);
        probes.all(|(word, mask)| self.words().units()[word] & mask != 0)
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Items) -> Items {
        // The rest of an item's many words is asked for only where the first ones leave it open.
        let (mut possible, mut found) = (Items::NONE, Items::NONE);
        for at in items {
            let is_possible = may_contain(self, hashes[at]);
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
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool {
        for layer in layers.iter().rev().take(PREFETCHED_LAYERS) {
            layer.prefetch_first(hash);
        }
        layers.iter().rev().any(|layer| layer.contains(kernel, hash))
    }

    #[inline(always)]
    fn any_contains_block<K: Kernel>(
        layers: &[Self],
        kernel: K,
        hashes: &Hashes,
        items: Items,
        newest: Memory,
    ) -> Items {
        let (mut found, mut memory) = (Items::NONE, newest);
        for layer in layers.iter().rev() {
            let pending = items.without(found);
            if pending.is_empty() {
                break;
            }
            if memory == Memory::Unasked {
                for at in pending {
                    layer.prefetch_first(hashes[at]);
                }
            }
            found.put_all(layer.contains_block(kernel, hashes, pending));
            memory = Memory::Unasked;
        }
        found
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, _: K, hash: ItemHash) -> bool {
        let mut newly_set = 0;
        for (word, mask) in self.probes().probes(hash) {
            // A page that is only read stays shared with a forked child that saves the filter.
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
}
