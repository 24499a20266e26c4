//! A blocked layer: each item has `g` lines of 64 bytes, one in each of `g` partitions, and sets `k` bits
//! in each. See [`sizing`](super::sizing) for the rates, [`kernel`](crate::bloom::bits::kernel) for the bits of a
//! line.
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

use bytemuck::Zeroable;

use super::search;
use super::sizing::{Geometry, MAX_LINES_PER_ITEM};
use crate::bloom::bits::array::BitArray;
use crate::bloom::bits::kernel::{Kernel, LINE_BYTES, Line, prefetch_address};
use crate::bloom::bits::memory::{Allocation, Mover};
use crate::bloom::chain::Plan;
use crate::bloom::chain::batch::{self, Hashes, Items, Memory, Prefetch};
use crate::bloom::error::Error;
use crate::bloom::item::ItemHash;

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

/// From this rate on a layer's rate is taken from its geometry, not from what was stored. Few layers of a chain
/// have it, as their rates sum up to 0.25 at most.
const LOOSE: f64 = 0.05;

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

    /// The rate of the full layer. In filters of early files the stored rate of a loose layer is short by up to
    /// 0.4 % of itself.
    pub fn full_rate(&self) -> f64 {
        if self.rate < LOOSE {
            return self.rate;
        }
        self.rate.max(self.geometry.rate(self.capacity))
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
        let bits = BitArray::zeroed(self.geometry.total_lines())?;
        Ok(Layer::stored(self, bits, 0))
    }
}

/// Lines before a layer's in its chain: in 48 bits, which are more than fit into an address space.
#[derive(Clone, Copy, Debug, Default)]
struct Start([u16; 3]);

impl Start {
    fn of_lines(lines: u64) -> Self {
        Self([0, 16, 32].map(|shift| (lines >> shift) as u16))
    }

    fn lines(self) -> u64 {
        self.0
            .iter()
            .rev()
            .fold(0, |lines, &part| lines << 16 | u64::from(part))
    }
}

// Filters are many, and small ones mostly this.
const _: () = assert!(size_of::<Layer>() == 64);

/// One layer of a blocked filter.
#[derive(Debug)]
pub struct Layer {
    bits: BitArray<Line>,
    lines: u64,
    capacity: u64,
    items: u64,
    rate: f64,
    lines_per_item: u8,
    probes: u8,
    start: Start,
}

impl Layer {
    /// A layer of that shape, which counts `items` and has that bit array. The caller has checked that they suit.
    pub(in crate::bloom) fn stored(shape: Shape, bits: BitArray<Line>, items: u64) -> Self {
        let Geometry {
            lines_per_item,
            probes,
            lines,
        } = shape.geometry;
        Self {
            bits,
            lines,
            capacity: shape.capacity,
            items,
            rate: shape.rate,
            lines_per_item,
            probes,
            start: Start::default(),
        }
    }

    /// Bytes of the bit arrays before it in its chain.
    pub(in crate::bloom) fn start(&self) -> u64 {
        self.start.lines() * LINE_BYTES
    }

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

    /// Bits that an item has in each of its lines.
    #[inline(always)]
    pub(super) fn probes(&self) -> u8 {
        self.probes
    }

    /// The bit array.
    pub fn bits(&self) -> &BitArray<Line> {
        &self.bits
    }

    /// The bit array, for loading.
    pub(in crate::bloom) fn bits_mut(&mut self) -> &mut BitArray<Line> {
        &mut self.bits
    }

    /// Counts so many items from now on.
    pub(in crate::bloom) fn restore(&mut self, items: u64) {
        self.items = items;
    }

    /// What asks for the lines of items, also when the layer is there no more.
    #[inline(always)]
    pub fn lines(&self) -> Lines {
        Lines {
            start: self.bits.units().as_ptr(),
            places: self.places(),
        }
    }

    /// Where the layer's items are.
    #[inline(always)]
    fn places(&self) -> Places {
        Places {
            lines: self.lines,
            lines_per_item: self.lines_per_item.into(),
        }
    }

    /// What finds items in the layer's lines.
    #[inline(always)]
    pub(super) fn probing<K: Kernel>(&self, kernel: K) -> Probing<K> {
        Probing {
            kernel,
            places: self.places(),
            probes: kernel.count(self.probes),
        }
    }
}

/// Makes the compiler believe that `spare` is read. It would see that nobody does, leave out what is written
/// there, and branch to do so.
#[inline(always)]
fn kept_in_memory(spare: &Line) {
    std::hint::black_box(spare);
}

/// One line of an item.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its number.
    line: usize,
    /// Its word of probes.
    word: u64,
}

/// Where a layer's items are.
#[derive(Clone, Copy, Debug)]
struct Places {
    lines: u64,
    lines_per_item: usize,
}

impl Places {
    /// Where line `j` of an item is, and its word of probes.
    #[inline(always)]
    fn line(self, hash: ItemHash, j: usize, (choose_line, choose_bits): (u64, u64)) -> Place {
        let choice = hash.low.wrapping_mul(choose_line);
        let chosen = (u128::from(choice) * u128::from(self.lines)) >> 64;
        let partition = j as u64 * self.lines;
        Place {
            line: (partition + chosen as u64) as usize,
            word: choice.wrapping_add(hash.high).wrapping_mul(choose_bits),
        }
    }

    /// The first line of an item.
    #[inline(always)]
    fn first(self, hash: ItemHash) -> Place {
        self.line(hash, 0, MULTIPLIERS[0])
    }

    /// The lines of an item from number `first` on.
    #[inline(always)]
    fn from(self, first: usize, hash: ItemHash) -> impl Iterator<Item = Place> {
        let multipliers = MULTIPLIERS.iter().enumerate().take(self.lines_per_item);
        let lines = multipliers.skip(first);
        lines.map(move |(j, &multipliers)| self.line(hash, j, multipliers))
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

/// Asks for the lines of items. It reads none, so the layer may have changed, moved or gone.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    start: *const Line,
    places: Places,
}

impl Lines {
    /// Those of no layer.
    pub const NOWHERE: Self = Self {
        start: std::ptr::null(),
        places: Places {
            lines: 0,
            lines_per_item: 0,
        },
    };

    /// The same, for the first lines alone.
    #[inline(always)]
    fn only_first(self) -> Self {
        Self {
            places: self.places.only(1),
            ..self
        }
    }

    /// Asks for the first line of an item.
    #[inline(always)]
    pub fn prefetch_first(self, hash: ItemHash) {
        prefetch_address(self.start.wrapping_add(self.places.first(hash).line));
    }
}

impl Prefetch for Lines {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        for place in self.places.from(0, hash) {
            prefetch_address(self.start.wrapping_add(place.line));
        }
    }
}

/// Tests and sets the lines of items. It is copied, so that a loop keeps it in registers; a closure would be
/// compiled without the kernel's instructions where it is not inlined.
#[derive(Clone, Copy)]
pub(super) struct Probing<K: Kernel> {
    kernel: K,
    places: Places,
    probes: K::Count,
}

impl<K: Kernel> Probing<K> {
    /// Where the first line of an item is.
    #[inline(always)]
    pub(super) fn first_line(self, hash: ItemHash) -> usize {
        self.places.first(hash).line
    }

    /// The bits of an item in its first line: the same in all layers of as many probes.
    #[inline(always)]
    pub(super) fn first_mask(self, hash: ItemHash) -> K::Mask {
        self.kernel.mask(self.places.first(hash).word, self.probes)
    }

    /// The same, for items that are known to have so many lines. One line is what they have down to a rate of
    /// 0.004, and with that known there is no loop over lines.
    #[inline(always)]
    fn only(self, lines_per_item: usize) -> Self {
        Self {
            places: self.places.only(lines_per_item),
            ..self
        }
    }

    /// Whether a line has all bits of the item.
    #[inline(always)]
    fn covers(self, units: &[Line], place: Place) -> bool {
        let mask = self.kernel.mask(place.word, self.probes);
        self.kernel.covers(&units[place.line], mask)
    }

    /// Whether the item's lines from number `first` on cover it.
    #[inline(always)]
    pub(super) fn covers_from(self, first: usize, units: &[Line], hash: ItemHash) -> bool {
        for place in self.places.from(first, hash) {
            if !self.covers(units, place) {
                return false;
            }
        }
        true
    }

    /// Those of a block's items whose lines cover them.
    #[inline(always)]
    fn covered(self, units: &[Line], hashes: &Hashes, items: Items) -> Items {
        let mut covered = Items::NONE;
        for at in items {
            covered.put_if(at, self.covers_from(0, units, hashes[at]));
        }
        covered
    }

    /// Sets the bits of the item in a line; how many were unset.
    #[inline(always)]
    fn set(self, units: &mut [Line], place: Place, spare: &mut Line) -> u32 {
        let mask = self.kernel.mask(place.word, self.probes);
        self.kernel.set(&mut units[place.line], mask, spare)
    }

    /// Sets the bits of an item in all of its lines; how many were unset.
    #[inline(always)]
    fn set_all(self, units: &mut [Line], hash: ItemHash, spare: &mut Line) -> u32 {
        let mut newly_set = 0;
        for place in self.places.from(0, hash) {
            newly_set += self.set(units, place, spare);
        }
        newly_set
    }

    /// Sets the bits of a block's items; gives the items that changed one, and how many bits were unset.
    #[inline(always)]
    fn set_block(self, units: &mut [Line], hashes: &Hashes, items: Items) -> (Items, u32) {
        let (mut changed, mut all_set, mut spare) = (Items::NONE, 0, Line::zeroed());
        for at in items {
            let newly_set = self.set_all(units, hashes[at], &mut spare);
            changed.put_if(at, newly_set > 0);
            all_set += newly_set;
        }
        kept_in_memory(&spare);
        (changed, all_set)
    }
}

impl batch::Layer for Layer {
    const UNIT: usize = size_of::<Line>();

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

    fn bytes_of_all(layers: &[Self]) -> u64 {
        let end = |newest: &Self| newest.start().saturating_add(newest.bytes());
        match layers {
            [oldest, .., newest] => end(newest).saturating_sub(oldest.start()),
            [only] => only.bytes(),
            [] => 0,
        }
    }

    fn place_of(layers: &[Self], offset: u64) -> Option<(usize, u64)> {
        let index = layers
            .partition_point(|layer| layer.start() <= offset)
            .checked_sub(1)?;
        let start = layers[index].start();
        (offset - start < layers[index].bytes()).then_some((index, start))
    }

    fn start_at(&mut self, bytes: u64) {
        self.start = Start::of_lines(bytes / LINE_BYTES);
    }

    fn allocation(&self) -> Option<Allocation> {
        self.bits.allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.bits.relocate(mover);
    }

    const SCATTERED: bool = false;

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        self.lines()
    }

    #[inline(always)]
    fn prefetcher_to_ask(&self, is_only: bool) -> impl Prefetch {
        // Of many layers, even the newest one mostly does not hold an item, and says so with the first line.
        if is_only {
            self.lines()
        } else {
            self.lines().only_first()
        }
    }

    #[inline(always)]
    fn prefetch_first(&self, hash: ItemHash) {
        self.lines().prefetch_first(hash);
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool {
        let (units, probing) = (self.bits.units(), self.probing(kernel));
        if self.lines_per_item == 1 {
            probing.covers(units, probing.places.first(hash))
        } else {
            probing.covers_from(0, units, hash)
        }
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Items) -> Items {
        let (units, probing) = (self.bits.units(), self.probing(kernel));
        if probing.places.lines_per_item == 1 {
            probing.only(1).covered(units, hashes, items)
        } else {
            probing.covered(units, hashes, items)
        }
    }

    #[inline(always)]
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool {
        // An item's first line has the same bits in every layer of as many probes, and in most layers it
        // is the only one that is looked at.
        let Some(newest) = layers.last() else {
            return false;
        };
        let word = newest.places().first(hash).word;
        let (mut probes, mut mask) = (0, kernel.mask(word, kernel.count(0)));
        for layer in layers.iter().rev() {
            if layer.probes != probes {
                probes = layer.probes;
                mask = kernel.mask(word, kernel.count(probes));
            }
            let (units, probing) = (layer.bits.units(), layer.probing(kernel));
            let place = probing.places.first(hash);
            if kernel.covers(&units[place.line], mask) && probing.covers_from(1, units, hash) {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn any_contains_block<K: Kernel>(
        layers: &[Self],
        kernel: K,
        hashes: &Hashes,
        items: Items,
        newest: Memory,
    ) -> Items {
        search::any_contains(layers, kernel, hashes, items, newest)
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool {
        let probing = self.probing(kernel);
        let units = self.bits.units_mut();
        // Memory may be slow to say whether the item is new. A branch lets the processor guess and go on,
        // while a store whose place is not known yet would hold up what comes after it.
        let newly_set = if self.lines_per_item == 1 {
            let place = probing.places.first(hash);
            if probing.covers(units, place) {
                0
            } else {
                probing.set(units, place, &mut Line::zeroed())
            }
        } else if probing.covers_from(0, units, hash) {
            0
        } else {
            probing.set_all(units, hash, &mut Line::zeroed())
        };
        self.bits.count_set(newly_set);
        self.items += u64::from(newly_set > 0);
        newly_set > 0
    }

    #[inline(always)]
    fn insert_block<K: Kernel>(&mut self, kernel: K, hashes: &Hashes, items: Items) -> Items {
        let probing = self.probing(kernel);
        let units = self.bits.units_mut();
        let (changed, newly_set) = if probing.places.lines_per_item == 1 {
            probing.only(1).set_block(units, hashes, items)
        } else {
            probing.set_block(units, hashes, items)
        };
        self.bits.count_set(newly_set);
        self.items += changed.count_ones();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of more lines than 32 bits count would load its chunks into wrong layers.
    #[test]
    fn starts_are_kept_whole() {
        for lines in [0, 1, 0xffff, 0x10000, 0x1_2345_6789, (1 << 48) - 1] {
            assert_eq!(Start::of_lines(lines).lines(), lines);
        }
    }
}
