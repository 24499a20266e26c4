//! Combining bit arrays of the same length bit by bit.
//!
//! The arrays are read tile by tile. A tile of the result stays in a near cache while that tile of each array is read.
//! So every array is read from memory once, and the result is written once.

use super::array::{BitArray, all_zero};
use super::kernel::{self, CountOnes, Kernel, Work};
use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

/// Bytes combined at a time. A tile of the result and one of an array fit into a first-level cache of 48 KiB.
const TILE: usize = 16 << 10;

/// Bytes that [`is_within`] compares before it looks at the result, about as many as are read at once anyway.
pub(crate) const PIECE: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Or,
    And,
}

struct Combine<'a> {
    operation: Operation,
    place: &'a mut [u8],
    bytes: &'a [u8],
}

impl Work for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self, _: K) {
        let pairs = self.place.iter_mut().zip(self.bytes);
        match self.operation {
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::And => pairs.for_each(|(byte, other)| *byte &= other),
        }
    }
}

/// Combines `bytes` into the first bytes of `place`.
pub(super) fn combine(operation: Operation, place: &mut [u8], bytes: &[u8]) {
    kernel::run(Combine {
        operation,
        place,
        bytes,
    });
}

fn count(bytes: &[u8]) -> u64 {
    kernel::run(CountOnes(bytes))
}

/// The tile of `bytes` that begins at `start`.
fn tile(bytes: &[u8], start: usize) -> &[u8] {
    let rest = bytes.get(start..).unwrap_or_default();
    &rest[..rest.len().min(TILE)]
}

/// Counts the set bits of the union of `arrays`, which have the same length.
pub fn union_ones(arrays: &[&[u8]]) -> u64 {
    let length = arrays.first().map_or(0, |array| array.len());
    let (mut union, mut ones) = ([0; TILE], 0);
    for start in (0..length).step_by(TILE) {
        let place = &mut union[..TILE.min(length - start)];
        place.fill(0);
        for array in arrays {
            combine(Operation::Or, place, tile(array, start));
        }
        ones += count(place);
    }
    ones
}

/// Whether every bit of `part` is set in `whole`, which is as long. If not, mostly the first bytes lack one.
pub fn is_within(part: &[u8], whole: &[u8]) -> bool {
    let mut pieces = part.chunks(PIECE).zip(whole.chunks(PIECE));
    pieces.all(|(part, whole)| {
        let bytes = part.iter().zip(whole);
        bytes.fold(0, |missing, (part, whole)| missing | (part & !whole)) == 0
    })
}

impl<U: Zeroable + NoUninit + AnyBitPattern> BitArray<U> {
    /// Sets the bits of `others`, which are as long or shorter, and returns whether that changed any bit.
    /// Tiles in which they have no bits are not written to.
    pub fn unite(&mut self, others: &[&[u8]]) -> bool {
        let before = self.ones();
        let mut newly_set = 0;
        for (index, place) in self.bytes_mut().chunks_mut(TILE).enumerate() {
            let start = index * TILE;
            let has_bits = |other: &&&[u8]| !all_zero(tile(other, start));
            let mut of_tile = None;
            for other in others.iter().filter(has_bits) {
                of_tile.get_or_insert_with(|| count(place));
                combine(Operation::Or, place, tile(other, start));
            }
            if let Some(before) = of_tile {
                newly_set += count(place) - before;
            }
        }
        self.count_set(newly_set);
        self.ones() > before
    }

    /// Sets the bits that all of `arrays` have in common, in an array without set bits.
    pub fn set_common(&mut self, arrays: &[&[u8]]) {
        self.fill_tiles(|start, common| {
            common.fill(0xff);
            for array in arrays {
                let bytes = tile(array, start);
                combine(Operation::And, common, bytes);
                // Beyond its end, an array has no bits.
                let end = bytes.len().min(common.len());
                common[end..].fill(0);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn array(bytes: &[u8], units: usize) -> BitArray<u64> {
        let mut array = BitArray::zeroed(units as u64).unwrap();
        array.merge(0, bytes).unwrap();
        array
    }

    proptest! {
        /// A union would forget items, or an intersection find items that one of the filters never had.
        #[test]
        fn combining_is_by_bit(
            units in 1..5000usize,
            seeds in prop::collection::vec(any::<u64>(), 1..5),
            sparse in prop::collection::vec(any::<bool>(), 4),
        ) {
            let arrays: Vec<Vec<u8>> = seeds.iter().zip(&sparse).map(|(&seed, &sparse)| {
                let mut state = seed | 1;
                (0..units * 8).map(|at| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Whole tiles without a set bit.
                    if sparse && (at / TILE).is_multiple_of(2) { 0 } else { (state >> 56) as u8 & (state >> 40) as u8 }
                }).collect()
            }).collect();
            let views: Vec<&[u8]> = arrays.iter().map(Vec::as_slice).collect();
            let by_byte = |operation: fn(u8, u8) -> u8| -> Vec<u8> {
                (0..units * 8)
                    .map(|at| arrays.iter().map(|array| array[at]).reduce(operation).unwrap())
                    .collect()
            };
            let (or, and) = (by_byte(|a, b| a | b), by_byte(|a, b| a & b));
            let ones = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();

            let mut union = array(views[0], units);
            let changed = union.unite(&views[1..]);
            prop_assert_eq!(union.bytes(), &or[..]);
            prop_assert_eq!(union.ones(), ones(&or));
            prop_assert_eq!(changed, ones(&or) > ones(views[0]));
            prop_assert!(!union.unite(&views));

            let mut common = BitArray::<u64>::zeroed(units as u64).unwrap();
            common.set_common(&views);
            prop_assert_eq!(common.bytes(), &and[..]);
            prop_assert_eq!(common.ones(), ones(&and));

            for view in &views {
                prop_assert!(is_within(view, &or) && is_within(&and, view));
                prop_assert_eq!(is_within(&or, view), *view == or);
            }
            prop_assert_eq!(union_ones(&views), ones(&or));
        }
    }
}
