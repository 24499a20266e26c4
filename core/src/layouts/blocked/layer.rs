//! A blocked layer: each item has `g` lines of 64 bytes, one in each of `g` partitions, and sets `k` bits in each line.
//! See [`sizing`](super::sizing) for the rates and [`kernel`](crate::bits::kernel) for the bits of a line.
//!
//! With `(a, b)` the low and high half of the item's hash, `(A[j], B[j])` the `MULTIPLIERS` and `c = a · A[j]` (mod
//! 2^64), line `j` is number `high half of c · lines` of partition `j`. Its word of probes is `c · B[0]` (mod 2^64) if
//! `j` is 0, and `(c + b) · B[j]` if not. The multipliers are odd; `A[0]` is 1.
//!
//! So the first line needs half of the hash, and most filters have one line an item: the line is chosen by the high
//! bits of `a`, and its bits by all of them. With more lines, the rate is so low that 64 bits are too few to tell items
//! apart, and `b` makes the words of the others uniform. That `c` is part of these matters in small layers, where
//! choosing among few lines distinguishes little: there, two items share the bits of *all* lines only if they share `a`
//! and the sums for every `j`, which takes both halves of the hash. (With `b` alone, and with probes taken from its low
//! bits, a layer of a few lines at 1e-20 had a rate of 3e-17.)

mod items;

use std::cell::Cell;

use bytemuck::Zeroable;

use super::sizing::{Geometry, MAX_LINES_PER_ITEM, PROBES};
use crate::bits::array::BitArray;
use crate::bits::kernel::{Kernel, LINE_BYTES, Line, Vector, prefetch_address};
use crate::chain::batch::{Hashes, Prefetch, Subset};
use crate::item::ItemHash;

/// For each line of an item, the multiplier that chooses the line and the one that chooses its bits.
///
/// They are outputs 1 to 31 of SplitMix64 (Steele, Lea, Flood 2014) from state 0, made odd, and part of the format.
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

/// From this rate on, a layer's rate is computed from its geometry, and the stored one is not used. A chain has few
/// such layers, because its rates add up to at most 0.25.
const LOOSE: f64 = 0.05;

/// What defines a layer, apart from its items and bits. All of it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The lines and probes of the bit array.
    pub geometry: Geometry,
    /// Items that the layer is made for.
    pub capacity: u64,
    /// The false positive rate once the layer counts `capacity` items.
    pub rate: f64,
}

impl Shape {
    /// The smallest shape known for `capacity` items at `rate` or less.
    pub fn sized(capacity: u64, rate: f64) -> Self {
        thread_local! {
            /// The shape that was computed last: that takes some 50 microseconds, and filters are often made alike.
            static LAST_SHAPE: Cell<Option<(u64, f64, Shape)>> = const { Cell::new(None) };
        }
        if let Some((last_capacity, last_rate, shape)) = LAST_SHAPE.get()
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
        LAST_SHAPE.set(Some((capacity, rate, shape)));
        shape
    }

    /// Bytes of the layer's bit array.
    pub fn bytes(&self) -> u64 {
        self.geometry.bytes()
    }

    /// The rate of a full layer. From `LOOSE` on it is computed: early files understate it there by up to 0.4 %.
    pub fn full_rate(&self) -> f64 {
        if self.rate < LOOSE {
            return self.rate;
        }
        self.rate.max(self.geometry.rate(self.capacity))
    }
}

/// Number of lines before a layer in its chain. 48 bits count more lines than an address space can hold.
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

/// An item's lines, 1 to 16, and the probes in each, at most 8, in four bits each.
#[derive(Clone, Copy, Debug)]
struct PerItem(u8);

impl PerItem {
    fn new(lines: u8, probes: u8) -> Self {
        Self(lines.saturating_sub(1) << 4 | probes)
    }

    #[inline(always)]
    fn lines(self) -> u8 {
        (self.0 >> 4) + 1
    }

    #[inline(always)]
    fn probes(self) -> u8 {
        self.0 & 15
    }
}

const _: () = assert!(MAX_LINES_PER_ITEM <= 16 && *PROBES.end() <= 15);

// Filters can be very many, and a small one is little more than this struct.
const _: () = assert!(size_of::<Layer>() == 64);

/// One layer of a blocked filter.
pub struct Layer {
    pub(crate) bits: BitArray<Line>,
    lines: u64,
    capacity: u64,
    pub(crate) items: u64,
    rate: f64,
    per_item: PerItem,
    /// The kernel, if an item has one line here and this processor has vector instructions. It is chosen once, so that
    /// the short ways of single items need not ask for both.
    for_one_line: Option<Vector>,
    start: Start,
}

impl Layer {
    /// A layer with this shape, bit array and number of items. The caller has checked that they fit together.
    pub(crate) fn stored(shape: Shape, bits: BitArray<Line>, items: u64) -> Self {
        let geometry = shape.geometry;
        Self {
            bits,
            lines: geometry.lines,
            capacity: shape.capacity,
            items,
            rate: shape.rate,
            per_item: PerItem::new(geometry.lines_per_item, geometry.probes),
            for_one_line: Vector::detected().filter(|_| geometry.lines_per_item == 1),
            start: Start::default(),
        }
    }

    /// Bytes of the bit arrays before this layer's in its chain.
    pub(crate) fn start(&self) -> u64 {
        self.start.lines() * LINE_BYTES
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            lines_per_item: self.per_item.lines(),
            probes: self.per_item.probes(),
            lines: self.lines,
        }
    }

    /// Bits that an item sets in each of its lines.
    #[inline(always)]
    pub(super) fn probes(&self) -> u8 {
        self.per_item.probes()
    }

    /// The bit array.
    pub fn bits(&self) -> &BitArray<Line> {
        &self.bits
    }

    /// Counts an item and the bits that it set; true if it set any.
    #[inline(always)]
    fn count(&mut self, newly_set: u32) -> bool {
        self.bits.count_set(newly_set.into());
        self.items += u64::from(newly_set > 0);
        newly_set > 0
    }

    /// A prefetcher for the lines of items. It may be used even after the layer is gone.
    #[inline(always)]
    pub fn line_prefetcher(&self) -> LinePrefetcher {
        LinePrefetcher {
            start: self.bits.units().as_ptr(),
            placement: self.placement(),
        }
    }

    #[inline(always)]
    fn placement(&self) -> Placement {
        Placement {
            lines: self.lines,
            lines_per_item: self.per_item.lines().into(),
        }
    }

    #[inline(always)]
    pub(super) fn prober<K: Kernel>(&self, kernel: K) -> Prober<K> {
        Prober {
            kernel,
            placement: self.placement(),
            probes: kernel.count(self.per_item.probes()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct ItemLine {
    /// Index of the line in the bit array.
    line: usize,
    /// The item's word of probes for this line.
    word: u64,
}

/// The numbers that decide in which lines of a layer an item is.
#[derive(Clone, Copy, Debug)]
struct Placement {
    lines: u64,
    lines_per_item: usize,
}

impl Placement {
    /// The line of an item in a layer of these lines in which each item has one.
    #[inline(always)]
    fn in_one_line(units: &[Line], low: u64) -> ItemLine {
        let lines = units.len() as u64;
        let one = Self {
            lines,
            lines_per_item: 1,
        };
        one.first(ItemHash { low, high: 0 })
    }

    /// Number `⌊choice · lines / 2^64⌋` of a partition's lines.
    #[inline(always)]
    fn chosen(self, choice: u64) -> u64 {
        ((u128::from(choice) * u128::from(self.lines)) >> 64) as u64
    }

    #[inline(always)]
    fn first(self, ItemHash { low, .. }: ItemHash) -> ItemLine {
        ItemLine {
            line: self.chosen(low) as usize,
            word: low.wrapping_mul(MULTIPLIERS[0].1),
        }
    }

    /// The lines of an item after the first one.
    #[inline(always)]
    fn others(self, hash: ItemHash) -> impl Iterator<Item = ItemLine> {
        let multipliers = (1..self.lines_per_item).zip(&MULTIPLIERS[1..]);
        multipliers.map(move |(j, &(choose_line, choose_bits))| {
            let choice = hash.low.wrapping_mul(choose_line);
            ItemLine {
                line: (j as u64 * self.lines + self.chosen(choice)) as usize,
                word: choice.wrapping_add(hash.high).wrapping_mul(choose_bits),
            }
        })
    }

    /// Limits each item to its first `count` lines.
    #[inline(always)]
    fn only(self, count: usize) -> Self {
        Self {
            lines_per_item: count,
            ..self
        }
    }
}

/// Prefetches the lines of items. It only computes addresses, so the layer may have changed, moved or been freed.
#[derive(Clone, Copy, Debug)]
pub struct LinePrefetcher {
    start: *const Line,
    placement: Placement,
}

impl LinePrefetcher {
    /// Stands for no layer.
    pub const NOWHERE: Self = Self {
        start: std::ptr::null(),
        placement: Placement {
            lines: 0,
            lines_per_item: 0,
        },
    };

    /// Limits prefetching to the first line of each item.
    #[inline(always)]
    fn only_first(self) -> Self {
        Self {
            placement: self.placement.only(1),
            ..self
        }
    }

    /// Prefetches the first line of an item.
    #[inline(always)]
    pub fn prefetch_first(self, hash: ItemHash) {
        prefetch_address(self.start.wrapping_add(self.placement.first(hash).line));
    }
}

impl Prefetch for LinePrefetcher {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        self.prefetch_first(hash);
        for place in self.placement.others(hash) {
            prefetch_address(self.start.wrapping_add(place.line));
        }
    }
}

/// Tests and sets items in a layer's lines. It is copied, so that a loop keeps it in registers. It is no closure,
/// because one that is not inlined would be compiled without the kernel's instructions.
#[derive(Clone, Copy)]
pub(super) struct Prober<K: Kernel> {
    kernel: K,
    placement: Placement,
    probes: K::Count,
}

impl<K: Kernel> Prober<K> {
    /// Index of an item's first line.
    #[inline(always)]
    pub(super) fn first_line(self, hash: ItemHash) -> usize {
        self.placement.first(hash).line
    }

    /// The bits of an item in its first line. They are the same in all layers with as many probes.
    #[inline(always)]
    pub(super) fn first_mask(self, hash: ItemHash) -> K::Mask {
        self.kernel.mask(self.placement.first(hash).word, self.probes)
    }

    /// Fixes the number of lines per item, 1 down to a rate of 0.004: known at compile time, it needs no loop.
    #[inline(always)]
    fn only(self, lines_per_item: usize) -> Self {
        Self {
            placement: self.placement.only(lines_per_item),
            ..self
        }
    }

    /// Whether a line has all bits of the item set.
    #[inline(always)]
    fn covers(self, units: &[Line], place: ItemLine) -> bool {
        self.kernel.has(&units[place.line], place.word, self.probes)
    }

    /// Whether all lines of the item have all its bits set.
    #[inline(always)]
    fn covers_all(self, units: &[Line], hash: ItemHash) -> bool {
        self.covers(units, self.placement.first(hash)) && self.covers_others(units, hash)
    }

    /// Whether the item's lines after the first one have all its bits set.
    #[inline(always)]
    pub(super) fn covers_others(self, units: &[Line], hash: ItemHash) -> bool {
        for place in self.placement.others(hash) {
            if !self.covers(units, place) {
                return false;
            }
        }
        true
    }

    /// The items of a block whose lines have all their bits set.
    #[inline(always)]
    fn covered(self, units: &[Line], hashes: &Hashes, items: Subset) -> Subset {
        let mut covered = Subset::NONE;
        for at in items {
            covered.put_if(at, self.covers_all(units, hashes[at]));
        }
        covered
    }

    /// Sets the item's bits in one line and returns how many were unset.
    #[inline(always)]
    fn set(self, units: &mut [Line], place: ItemLine, spare: &mut Line) -> u32 {
        let mask = self.kernel.mask(place.word, self.probes);
        self.kernel.set(&mut units[place.line], mask, spare)
    }

    /// Sets the item's bits in all its lines and returns how many were unset.
    #[inline(always)]
    fn set_all(self, units: &mut [Line], hash: ItemHash, spare: &mut Line) -> u32 {
        let mut newly_set = self.set(units, self.placement.first(hash), spare);
        for place in self.placement.others(hash) {
            newly_set += self.set(units, place, spare);
        }
        newly_set
    }

    /// Sets the bits of a block's items. Returns the items that changed a bit, and how many bits were unset.
    #[inline(always)]
    fn set_block(self, units: &mut [Line], hashes: &Hashes, items: Subset) -> (Subset, u32) {
        let (mut changed, mut all_set, mut spare) = (Subset::NONE, 0, Line::zeroed());
        for at in items {
            let newly_set = self.set_all(units, hashes[at], &mut spare);
            changed.put_if(at, newly_set > 0);
            all_set += newly_set;
        }
        // If the line were not read, the compiler would drop the writes to it, and branch to skip them.
        std::hint::black_box(&spare);
        (changed, all_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chunks of a chain with more lines than 32 bits can count go into the right layers.
    #[test]
    fn starts_are_kept_whole() {
        for lines in [0, 1, 0xffff, 0x10000, 0x1_2345_6789, (1 << 48) - 1] {
            assert_eq!(Start::of_lines(lines).lines(), lines);
        }
    }
}
