//! A blocked layer: each item has `g` lines of 64 bytes, one in each of `g` partitions, and sets `k` bits
//! in each. See [`sizing`](super::sizing) for the rates, [`kernel`](super::kernel) for the bits of a line.
//!
//! With `(a, b)` the low and high half of the item's hash and `c = a · LINE[j]` (mod 2^64), line `j` is
//! number `high half of c · lines` of partition `j`, and its word of probes is `(c + b) · PROBES[j]` (mod
//! 2^64). The multipliers are odd; `LINE[0]` is 1.
//!
//! Given the line, `b` makes the word uniform. That `c` is part of it matters in small layers, whose lines
//! choose little: there, two items share the bits of *all* lines only if they share the sums for every `j`,
//! which takes both halves of the hash. (With `b` alone, and with probes taken from its low bits, a layer
//! of a few lines at 1e-20 had a rate of 3e-17.)

use std::cell::Cell;
use std::sync::Arc;

use super::batch::{self, BLOCK, Hasher, Hashes, Items, Memory};
use super::bits::BitArray;
use super::chain::{Plan, Rules};
use super::error::Error;
use super::hash::{ItemHash, Secret};
use super::kernel::{Kernel, Line, prefetch};
use super::memory::{Allocation, Mover};
use super::params::{Capacity, ErrorRate, Growth, Seed};
use super::sizing::{Geometry, MAX_LINES_PER_ITEM};

/// For each line of an item: the multiplier that chooses the line, and the one that chooses its bits.
///
/// They are outputs 1 to 31 of SplitMix64 (Steele, Lea, Flood 2014) from state 0, made odd: nothing up the
/// sleeve, and part of the format.
const MULTIPLIERS: [(u64, u64); MAX_LINES_PER_ITEM as usize] = [
    (1, 0xe220a8397b1dcdaf),
    (0x6e789e6aa1b965f5, 0x06c45d188009454f),
    (0xf88bb8a8724c81ed, 0x1b39896a51a8749b),
    (0x53cb9f0c747ea2eb, 0x2c829abe1f4532e1),
    (0xc584133ac916ab3d, 0x3ee5789041c98ac3),
    (0xf3b8488c368cb0a7, 0x657eecdd3cb13d09),
    (0xc2d326e0055bdef7, 0x8621a03fe0bbdb7b),
    (0x8e1f7555983aa92f, 0xb54e0f1600cc4d19),
    (0x84bb3f97971d80ab, 0x7d29825c75521255),
    (0xc3cf17102b7f7f87, 0x3466e9a083914f65),
    (0xd81a8d2b5a4485ad, 0xdb01602b100b9ed7),
    (0xa9038a921825f10d, 0xedf5f1d90dca2f6b),
    (0x54496ad67bd2634d, 0xdd7c01d4f5407269),
    (0x935e82f1db4c4f7b, 0x69b82ebc92233301),
    (0x40d29eb57de1d511, 0xa2f09dabb45c6317),
    (0xee521d7a0f4d3873, 0xf16952ee72f3454f),
];

/// What a layer is made from, and what storage keeps of it besides its items and bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The shape of its bit array.
    pub geometry: Geometry,
    /// Items that it is made for.
    pub capacity: u64,
    /// The rate that it has once it counts that many.
    pub rate: f64,
}

impl Shape {
    /// The layer for `capacity` items at `rate` or less.
    pub fn sized(capacity: u64, rate: f64) -> Self {
        thread_local! {
            /// The last answer. Sizing takes some 50 microseconds, and filters come in like kinds.
            static LAST: Cell<Option<(u64, f64, Shape)>> = const { Cell::new(None) };
        }
        if let Some((last_capacity, last_rate, shape)) = LAST.get()
            && last_capacity == capacity
            && last_rate.to_bits() == rate.to_bits()
        {
            return shape;
        }
        let geometry = Geometry::for_layer(capacity, rate);
        let shape = Self {
            geometry,
            capacity,
            rate: geometry.rate(capacity),
        };
        LAST.set(Some((capacity, rate, shape)));
        shape
    }
}

impl Plan<Layer> for Shape {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn bytes(&self) -> u64 {
        self.geometry.bytes()
    }

    fn make(self) -> Result<Layer, Error> {
        let Geometry {
            lines_per_item,
            probes,
            lines,
        } = self.geometry;
        Ok(Layer {
            bits: BitArray::zeroed(self.geometry.total_lines())?,
            lines,
            capacity: self.capacity,
            items: 0,
            rate: self.rate,
            lines_per_item,
            probes,
        })
    }
}

/// One layer of a blocked filter. Its struct has 64 bytes: filters are many, and small ones mostly this.
#[derive(Debug)]
pub struct Layer {
    bits: BitArray<Line>,
    lines: u64,
    capacity: u64,
    items: u64,
    rate: f64,
    lines_per_item: u8,
    probes: u8,
}

impl Layer {
    /// What the layer was made from.
    pub fn shape(&self) -> Shape {
        Shape {
            geometry: self.geometry(),
            capacity: self.capacity,
            rate: self.rate,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            lines_per_item: self.lines_per_item,
            probes: self.probes,
            lines: self.lines,
        }
    }

    /// Takes over the count of a stored layer.
    pub(super) fn restore(&mut self, items: u64) {
        self.items = items;
    }

    /// The bit array.
    pub fn bits(&self) -> &BitArray<Line> {
        &self.bits
    }

    /// The bit array, for loading.
    pub(super) fn bits_mut(&mut self) -> &mut BitArray<Line> {
        &mut self.bits
    }

    /// What probing needs.
    #[inline(always)]
    fn places(&self) -> Places {
        Places {
            lines: self.lines,
            lines_per_item: usize::from(self.lines_per_item).min(MULTIPLIERS.len()),
        }
    }

    /// Whether the item's lines from number `first` on cover it.
    #[inline(always)]
    fn covers_from<K: Kernel>(&self, first: usize, kernel: K, hash: ItemHash) -> bool {
        let (units, probes) = (self.bits.units(), kernel.count(self.probes));
        covers_from(units, self.places(), first, kernel, probes, hash)
    }
}

/// Where a layer's items are. A copy of it stays in registers while a block is probed; lines per item, when they
/// are known to be 1, as they are down to a rate of 0.004, leave no loop over them.
#[derive(Clone, Copy, Debug)]
struct Places {
    lines: u64,
    lines_per_item: usize,
}

impl Places {
    /// Where line `j` of an item is, and its word of probes.
    #[inline(always)]
    fn line(self, hash: ItemHash, j: usize) -> (usize, u64) {
        let (choose_line, choose_bits) = MULTIPLIERS[j];
        let choice = hash.low.wrapping_mul(choose_line);
        let chosen = (u128::from(choice) * u128::from(self.lines)) >> 64;
        let partition = j as u64 * self.lines;
        let word = choice.wrapping_add(hash.high).wrapping_mul(choose_bits);
        ((partition + chosen as u64) as usize, word)
    }

    /// As many lines as `count` of an item.
    #[inline(always)]
    fn only(self, count: usize) -> Self {
        Self {
            lines_per_item: count,
            ..self
        }
    }
}

/// Asks for lines `0..places.lines_per_item` of each item.
#[inline(always)]
fn prefetch_lines(units: &[Line], places: Places, hashes: &Hashes, items: Items) {
    for at in items {
        for j in 0..places.lines_per_item {
            prefetch(&units[places.line(hashes[at], j).0]);
        }
    }
}

/// Whether the item's lines from number `first` on cover it.
#[inline(always)]
fn covers_from<K: Kernel>(
    units: &[Line],
    places: Places,
    first: usize,
    kernel: K,
    probes: K::Count,
    hash: ItemHash,
) -> bool {
    // No closure: one is compiled without the kernel's instructions if it is not inlined.
    for j in first..places.lines_per_item {
        let (line, word) = places.line(hash, j);
        if !kernel.covers(&units[line], kernel.mask(word, probes)) {
            return false;
        }
    }
    true
}

/// Those of a block's items whose lines cover them.
#[inline(always)]
fn covered<K: Kernel>(
    units: &[Line],
    places: Places,
    kernel: K,
    probes: K::Count,
    hashes: &Hashes,
    items: Items,
) -> Items {
    let mut covered = Items::NONE;
    for at in items {
        covered.put_if(at, covers_from(units, places, 0, kernel, probes, hashes[at]));
    }
    covered
}

/// Sets the bits of an item's lines; how many were unset.
#[inline(always)]
fn set_lines<K: Kernel>(
    units: &mut [Line],
    places: Places,
    kernel: K,
    probes: K::Count,
    hash: ItemHash,
) -> u32 {
    let mut newly_set = 0;
    for j in 0..places.lines_per_item {
        let (line, word) = places.line(hash, j);
        let (line, mask) = (&mut units[line], kernel.mask(word, probes));
        // A page that is only read stays shared with a forked child that saves the filter.
        if !kernel.covers(line, mask) {
            newly_set += kernel.set(line, mask);
        }
    }
    newly_set
}

/// Sets the bits of each item's lines; gives the items that changed one, and how many bits were unset.
#[inline(always)]
fn set_all<K: Kernel>(
    units: &mut [Line],
    places: Places,
    kernel: K,
    probes: K::Count,
    hashes: &Hashes,
    items: Items,
) -> (Items, u32) {
    let (mut changed, mut all_set) = (Items::NONE, 0);
    for at in items {
        let newly_set = set_lines(units, places, kernel, probes, hashes[at]);
        changed.put_if(at, newly_set > 0);
        all_set += newly_set;
    }
    (changed, all_set)
}

/// [`set_all`] for items of one line. Which items are new cannot be predicted, so all of them are asked first.
#[inline(always)]
fn set_one_line<K: Kernel>(
    units: &mut [Line],
    places: Places,
    kernel: K,
    probes: K::Count,
    hashes: &Hashes,
    items: Items,
) -> (Items, u32) {
    let (mut lines, mut words) = ([0; BLOCK], [0; BLOCK]);
    let mut missing = Items::NONE;
    for at in items {
        let (line, word) = places.line(hashes[at], 0);
        (lines[at], words[at]) = (line, word);
        missing.put_if(at, !kernel.covers(&units[line], kernel.mask(word, probes)));
    }
    let (mut changed, mut all_set) = (Items::NONE, 0);
    for at in missing {
        // Covered by now it is only by an item of the same block, which has written to the line.
        let newly_set = kernel.set(&mut units[lines[at]], kernel.mask(words[at], probes));
        changed.put_if(at, newly_set > 0);
        all_set += newly_set;
    }
    (changed, all_set)
}

impl batch::Layer for Layer {
    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn items(&self) -> u64 {
        self.items
    }

    fn bytes(&self) -> u64 {
        self.geometry().bytes()
    }

    fn allocation(&self) -> Option<Allocation> {
        self.bits.allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.bits.relocate(mover);
    }

    const ONE_BY_ONE: usize = 2;

    #[inline(always)]
    fn prefetcher(&self) -> impl Fn(ItemHash) {
        let (units, places) = (self.bits.units(), self.places());
        move |hash| {
            for j in 0..places.lines_per_item {
                prefetch(&units[places.line(hash, j).0]);
            }
        }
    }

    #[inline(always)]
    fn prefetch_first(&self, hash: ItemHash) {
        prefetch(&self.bits.units()[self.places().line(hash, 0).0]);
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool {
        self.covers_from(0, kernel, hash)
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Items, memory: Memory) -> Items {
        let (units, places, probes) = (self.bits.units(), self.places(), kernel.count(self.probes));
        match memory {
            Memory::AskedFor => (),
            Memory::Likely => prefetch_lines(units, places, hashes, items),
            // A layer that does not hold an item mostly says so with the first line.
            Memory::Unlikely => prefetch_lines(units, places.only(1), hashes, items),
        }
        if places.lines_per_item == 1 {
            covered(units, places.only(1), kernel, probes, hashes, items)
        } else {
            covered(units, places, kernel, probes, hashes, items)
        }
    }

    #[inline(always)]
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool {
        // An item's first line has the same bits in every layer of as many probes, and in most layers it
        // is the only one that is looked at.
        let word = hash.low.wrapping_add(hash.high).wrapping_mul(MULTIPLIERS[0].1);
        let (mut probes, mut mask) = (0, kernel.mask(word, kernel.count(0)));
        // No closure: one is compiled without the kernel's instructions if it is not inlined.
        for layer in layers.iter().rev() {
            if layer.probes != probes {
                probes = layer.probes;
                mask = kernel.mask(word, kernel.count(probes));
            }
            let (line, _) = layer.places().line(hash, 0);
            if kernel.covers(&layer.bits.units()[line], mask) && layer.covers_from(1, kernel, hash) {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool {
        let (places, probes) = (self.places(), kernel.count(self.probes));
        let newly_set = set_lines(self.bits.units_mut(), places, kernel, probes, hash);
        self.bits.count_set(newly_set);
        self.items += u64::from(newly_set > 0);
        newly_set > 0
    }

    #[inline(always)]
    fn insert_block<K: Kernel>(&mut self, kernel: K, hashes: &Hashes, items: Items) -> Items {
        let (places, probes) = (self.places(), kernel.count(self.probes));
        let units = self.bits.units_mut();
        let (changed, newly_set) = if places.lines_per_item == 1 {
            set_one_line(units, places, kernel, probes, hashes, items)
        } else {
            set_all(units, places, kernel, probes, hashes, items)
        };
        self.bits.count_set(newly_set);
        self.items += changed.count_ones();
        changed
    }
}

/// The rules of blocked filters: one error rate for the whole chain, at any length.
///
/// A layer takes a share of what is left of the error budget (see [`Growth::share`]), and the rate that it
/// then really has at its capacity, after rounding up to whole lines, is taken off the budget. The sum of
/// the layers' rates, and so the rate of the chain, can never exceed what was asked for. (Almeida,
/// Baquero, Preguiça, Hutchison, "Scalable Bloom Filters", 2007, shrink the rates geometrically instead,
/// which takes more bits in every further layer.)
#[derive(Debug)]
pub struct Blocked {
    secret: Arc<Secret>,
    error_rate: ErrorRate,
    growth: Growth,
}

impl Blocked {
    /// Rules with the hash of `seed`.
    pub fn new(error_rate: ErrorRate, growth: Growth, seed: Seed) -> Self {
        Self {
            secret: Secret::of(seed),
            error_rate,
            growth,
        }
    }

    /// The first layer, for `capacity` items.
    pub fn first(&self, capacity: Capacity) -> Shape {
        self.nth(0, capacity.items(), self.error_rate.value())
    }

    /// The rate that the filter keeps.
    pub fn error_rate(&self) -> ErrorRate {
        self.error_rate
    }

    /// What the filter does when it is full.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// The key of the hash.
    pub fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    fn nth(&self, index: usize, capacity: u64, budget: f64) -> Shape {
        Shape::sized(capacity, self.growth.share(index) * budget)
    }
}

impl Rules for Blocked {
    type Layer = Layer;
    type Plan = Shape;
    type Hasher = Secret;

    #[inline(always)]
    fn hasher(&self) -> &Secret {
        &self.secret
    }

    fn plan_of(layer: &Layer) -> Shape {
        layer.shape()
    }

    fn next(&self, layers: impl ExactSizeIterator<Item = Shape>) -> Result<Shape, Error> {
        let index = layers.len();
        let (full, budget) = layers.fold((0, self.error_rate.value()), |(_, budget), layer| {
            (layer.capacity, budget - layer.rate)
        });
        let expansion = self.growth.expansion().ok_or(Error::Full { capacity: full })?;
        let capacity = full.saturating_mul(u64::from(expansion.factor()));
        Ok(self.nth(index, capacity, budget.max(0.0)))
    }
}

impl Hasher for Secret {
    #[inline(always)]
    fn hash(&self, item: &[u8]) -> ItemHash {
        Self::hash(self, item)
    }
}
