//! Folding a bit array: the result has a `d`th of the bits, and each of its bits is the OR of `d` bits of the array.
//!
//! Pages of the result that would have no set bit are not written to, so that they need no memory.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use super::array::{BitArray, all_zero};
use super::combine::{Operation, combine};
use super::kernel::{self, CountOnes, Kernel, Work};

/// Bytes of the result that are made at a time.
const TILE: usize = 4096;

/// Sets in each unit of `place` the bits of a group of consecutive units of `bytes`. All groups have one length.
struct OrNeighbours<'a> {
    place: &'a mut [u8],
    bytes: &'a [u8],
    unit: usize,
}

impl Work for OrNeighbours<'_> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self, _: K) {
        let group = self.unit * (self.bytes.len() / self.place.len());
        let places = self.place.chunks_exact_mut(self.unit);
        for (place, group) in places.zip(self.bytes.chunks_exact(group)) {
            for unit in group.chunks_exact(self.unit) {
                for (word, other) in place
                    .as_chunks_mut::<8>()
                    .0
                    .iter_mut()
                    .zip(unit.as_chunks::<8>().0)
                {
                    *word = (u64::from_ne_bytes(*word) | u64::from_ne_bytes(*other)).to_ne_bytes();
                }
            }
        }
    }
}

impl<U: Zeroable + NoUninit + AnyBitPattern> BitArray<U> {
    /// Sets the bits of `longer` in this array, which has no set bits: unit `i` becomes the OR of units `d · i` to
    /// `d · i + d - 1`, where `longer` has `d` times as many units.
    pub fn fold_neighbours(&mut self, longer: &Self) {
        let times = longer.units().len() / self.units().len().max(1);
        debug_assert_eq!(longer.units().len(), times * self.units().len());
        let parts = longer.bytes().chunks(TILE * times.max(1));
        self.fill_tiles(|start, tile| {
            debug_assert!(start.is_multiple_of(TILE));
            if let Some(bytes) = parts.clone().nth(start / TILE) {
                let unit = size_of::<U>();
                kernel::run(OrNeighbours {
                    place: tile,
                    bytes,
                    unit,
                });
            }
        });
    }

    /// Sets the bits of `longer` in this array, which has no set bits: its first `length` bytes become the OR of the
    /// parts of `length` bytes that `longer` consists of.
    pub fn fold_parts(&mut self, longer: &[u8], length: usize) {
        debug_assert!(length > 0 && longer.len().is_multiple_of(length) && length <= self.bytes().len());
        self.fill_tiles(|start, tile| {
            for part in longer.chunks_exact(length) {
                combine(Operation::Or, tile, &part[start..length.min(start + tile.len())]);
            }
        });
    }

    /// Fills the array tile by tile: `fill` gets the offset of a tile, and the tile without set bits.
    pub(super) fn fill_tiles(&mut self, fill: impl Fn(usize, &mut [u8])) {
        let mut ones = 0;
        for (index, place) in self.bytes_mut().chunks_mut(TILE).enumerate() {
            let tile = &mut [0; TILE][..place.len()];
            fill(index * TILE, tile);
            if !all_zero(tile) {
                place.copy_from_slice(tile);
                ones += kernel::run(CountOnes(tile));
            }
        }
        self.count_set(ones);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bits::kernel::{LINE_WORDS, Line};

    fn words(count: usize, seed: u64) -> Vec<u64> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state & state.rotate_left(23) & state.rotate_left(41)
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    proptest! {
        /// A folded filter would forget items.
        #[test]
        fn neighbours_are_joined(units in 1..300usize, times in 1..9usize, seed: u64) {
            let words = words(units * times * LINE_WORDS, seed);
            let mut long = BitArray::<Line>::zeroed((units * times) as u64).unwrap();
            long.merge(0, bytemuck::cast_slice(&words)).unwrap();
            let mut short = BitArray::<Line>::zeroed(units as u64).unwrap();
            short.fold_neighbours(&long);
            let mut expected = vec![[0; LINE_WORDS]; units];
            for (at, word) in words.iter().enumerate() {
                expected[at / LINE_WORDS / times][at % LINE_WORDS] |= word;
            }
            let folded: Vec<_> = short.units().iter().map(|line| line.0).collect();
            prop_assert_eq!(folded, expected);
            prop_assert_eq!(short.ones(), short.bits().count_ones() as u64);
        }

        /// A folded filter of RedisBloom's layout would forget items.
        #[test]
        fn parts_are_joined(length in 1..9000usize, times in 1..9usize, seed: u64) {
            let words = words((length * times).div_ceil(8), seed);
            let long = &bytemuck::cast_slice::<u64, u8>(&words)[..length * times];
            let mut short = BitArray::<u64>::zeroed(length.div_ceil(8) as u64).unwrap();
            short.fold_parts(long, length);
            let mut expected = vec![0; length.next_multiple_of(8)];
            for (at, byte) in long.iter().enumerate() {
                expected[at % length] |= byte;
            }
            prop_assert_eq!(short.bytes(), expected);
            prop_assert_eq!(short.ones(), short.bits().count_ones() as u64);
        }
    }
}
