//! Layers in which an item's probes are single bits anywhere in the array, each in a cache line of its own.
//!
//! Which bits those are, and how many, is up to the layout ([`Scattered`]). The [`Layer`], and prefetching, testing and
//! setting its bits, are the same for all such layouts.

pub mod ln;
pub mod modulus;

use std::marker::PhantomData;

use crate::bits::array::{BitArray, OutOfRange};
use crate::bits::kernel::{Kernel, Portable, prefetch_address};
use crate::bits::memory::{Allocation, Mover};
use crate::chain::batch::{self, Hasher, Hashes, Layer as _, Prefetch, Prefetched, Subset};
use crate::chain::compound;
use crate::error::{Error, require};
use crate::item::ItemHash;
use crate::layouts::power::power;
use modulus::Modulus;

/// Probes that are tested first. In a full layer half of the bits are set, and an eighth of the absent items pass.
const FIRST: u16 = 3;
/// The newest layers in which the first words of a single item are prefetched.
const PREFETCHED_LAYERS: usize = 4;
/// The most probes of an item that are prefetched; rates below 1e-4 have more.
const PREFETCHED: u16 = 16;

/// The relative difference that is tolerated between sizes, because libms differ in the last bits of a logarithm.
pub const LOGARITHM_TOLERANCE: f64 = 1e-12;

/// A layout with such layers: where an item's probes are, and what a layer of it keeps besides.
pub trait Scattered: Copy {
    /// Bytes of the array before the bits.
    const HEAD: u64;
    /// What defines a layer, apart from its items and bits.
    type Shape: Copy + PartialEq;

    /// The number whose remainder by the modulus of the layer is the bit of an item's probe.
    fn place(hash: ItemHash, probe: u64) -> u64;
    fn shape_of(layer: &Layer<Self>) -> Self::Shape;
    fn make(shape: Self::Shape) -> Result<Layer<Self>, Error>;
}

/// A layer whose probes are scattered.
pub struct Layer<S> {
    /// Whole words: the head, the bits, and padding that is never set.
    pub(crate) words: BitArray<u64>,
    /// The number of bits that probes can be.
    pub(crate) modulus: Modulus,
    pub(crate) items: u64,
    pub(crate) capacity: u64,
    pub(crate) error_rate: f64,
    /// The number of an item's probes. The lowest rate that a double can hold has 1076.
    pub(crate) probes: u16,
    /// Bytes of the array after the bits.
    pub(crate) padding: u8,
    pub(crate) own: S,
}

impl<S: Scattered> Layer<S> {
    /// The head and the bits.
    pub fn stored_bytes(&self) -> &[u8] {
        let bytes = self.words.bytes();
        &bytes[..bytes.len() - usize::from(self.padding)]
    }
}

/// The false positive rate of layers: for each, the share of its bits that are set, to the power of an item's probes.
pub(crate) fn present_rate<'a, S: Scattered + 'a>(layers: impl Iterator<Item = &'a Layer<S>>) -> f64 {
    compound(layers.map(|layer| {
        let fill = layer.ones() as f64 / layer.modulus.value() as f64;
        power(fill.min(1.0), layer.probes.into())
    }))
}

/// An item's first `count` probes: for each the index of a word, and a mask with one bit.
#[inline(always)]
fn probes<S: Scattered>(modulus: Modulus, count: u16, hash: ItemHash) -> impl Iterator<Item = (usize, u64)> {
    (0..u64::from(count)).map(move |probe| {
        let bit = 8 * S::HEAD + modulus.remainder(S::place(hash, probe));
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

/// Whether the layer has an item's first `count` probes, or all if it has fewer.
#[inline(always)]
fn has_first<S: Scattered>(layer: &Layer<S>, count: u16, hash: ItemHash) -> bool {
    let words = layer.words.units();
    let mut probes = probes::<S>(layer.modulus, count.min(layer.probes), hash);
    probes.all(|(word, mask)| words[word] & mask != 0)
}

/// Prefetches the words of items' first `count` probes.
#[derive(Clone, Copy)]
struct Words<'a, S> {
    array: &'a [u64],
    modulus: Modulus,
    count: u16,
    layout: PhantomData<S>,
}

impl<S: Scattered> Prefetch for Words<'_, S> {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        for (word, _) in probes::<S>(self.modulus, self.count, hash) {
            prefetch_address(&self.array[word]);
        }
    }
}

#[inline(always)]
fn first_words<S: Scattered>(layer: &Layer<S>, count: u16) -> Words<'_, S> {
    Words {
        array: layer.words.units(),
        modulus: layer.modulus,
        count: count.min(layer.probes),
        layout: PhantomData,
    }
}

impl<S: Scattered> batch::Layer for Layer<S> {
    type Shape = S::Shape;

    fn make(shape: S::Shape) -> Result<Self, Error> {
        S::make(shape)
    }

    fn shape(&self) -> S::Shape {
        S::shape_of(self)
    }

    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn items(&self) -> u64 {
        self.items
    }

    fn ones(&self) -> u64 {
        let head = &self.words.bytes()[..S::HEAD as usize];
        let of_head: u32 = head.iter().map(|byte| byte.count_ones()).sum();
        self.words.ones() - u64::from(of_head)
    }

    fn bytes(&self) -> u64 {
        self.array().len() as u64
    }

    fn array(&self) -> &[u8] {
        &self.stored_bytes()[S::HEAD as usize..]
    }

    fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(OutOfRange)?;
        require(end <= self.bytes(), OutOfRange)?;
        self.words.merge(S::HEAD + offset, bytes)
    }

    fn allocation(&self) -> Option<Allocation> {
        self.words.allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.words.relocate(mover);
    }

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        first_words(self, PREFETCHED)
    }

    #[inline(always)]
    fn lookup_prefetcher(&self, _: bool) -> impl Prefetch {
        first_words(self, FIRST)
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, _: K, hash: ItemHash) -> bool {
        has_first(self, u16::MAX, hash)
    }

    fn contains_in_only_layer(&self, hasher: &impl Hasher, item: &[u8]) -> Option<bool> {
        let hash = hasher.hash(item.into());
        // An item has so many probes that prefetching pays off even for one item.
        first_words(self, FIRST).prefetch(hash);
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
            first_words(layer, FIRST).prefetch(hash);
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
                    first_words(layer, FIRST).prefetch(hashes[at]);
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
        for (word, mask) in probes::<S>(self.modulus, self.probes, hash) {
            // Only words that change are written to: pages that are only read stay shared with a forked child.
            if self.words.units()[word] & mask == 0 {
                self.words.units_mut()[word] |= mask;
                newly_set += 1;
            }
        }
        self.words.count_set(newly_set);
        self.items += u64::from(newly_set > 0);
        newly_set > 0
    }

    fn insert_into_only_layer(&mut self, hasher: &impl Hasher, item: &[u8]) -> Option<bool> {
        let hash = hasher.hash(item.into());
        self.prefetcher().prefetch(hash);
        Some(self.insert(Portable, hash))
    }
}
