//! Combining bit arrays of the same length bit by bit.
//!
//! The arrays are read tile by tile. A tile of the result stays in a near cache while that tile of each array
//! is read, so every array is read from memory once and the result is written once, however many arrays there
//! are.

use super::array::{BitArray, all_zero};
use super::kernel::{self, CountOnes, Kernel, Work};
use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

/// Bytes combined at a time. A tile of the result and one of an array together fit into a first-level cache
/// of 48 KiB.
const TILE: usize = 16 << 10;

/// The fewest bytes that a tile takes from a [`ReadBudget`], however short the tile is.
const LEAST_TAKEN: usize = 1 << 10;

/// Bytes compared before [`is_within`] checks the result, about as many as are read at once anyway.
const PIECE: usize = 512;

/// Once this many bytes of a union were read, their set bits predict those of the whole to within a
/// hundredth: hashes are uniform, and the bits are millions.
const SAMPLE: usize = 1 << 20;

/// How two bits are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Or,
    And,
}

/// Combines `bytes` into `place`.
struct Combine<'a> {
    operation: Operation,
    place: &'a mut [u8],
    bytes: &'a [u8],
}

impl Work for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self, _: K) {
        // Arrays and tiles consist of whole words.
        let (words, _) = self.place.as_chunks_mut::<8>();
        let (new_words, _) = self.bytes.as_chunks::<8>();
        let pairs = words.iter_mut().zip(new_words);
        match self.operation {
            Operation::Or => pairs.for_each(|(word, new)| {
                *word = (u64::from_ne_bytes(*word) | u64::from_ne_bytes(*new)).to_ne_bytes();
            }),
            Operation::And => pairs.for_each(|(word, new)| {
                *word = (u64::from_ne_bytes(*word) & u64::from_ne_bytes(*new)).to_ne_bytes();
            }),
        }
    }
}

fn combine(operation: Operation, place: &mut [u8], bytes: &[u8]) {
    debug_assert!(place.len().is_multiple_of(8) && bytes.len().is_multiple_of(8));
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

/// A budget of bytes that may still be read.
#[derive(Clone, Copy, Debug)]
pub struct ReadBudget(u64);

impl ReadBudget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Spends `bytes` of the budget. Returns false, and spends nothing, if less is left.
    pub fn take(&mut self, bytes: u64) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

/// Counts the set bits of the union of `arrays`, which have the same length. `None` if the count exceeds
/// `most`, if the part that was read predicts that it will by more than a fiftieth, or if `reading` is used
/// up. A tile takes at least 1 KiB from `reading`, because starting one has a cost too.
pub fn union_ones(arrays: &[&[u8]], most: u64, reading: &mut ReadBudget) -> Option<u64> {
    let length = arrays.first().map_or(0, |array| array.len());
    let (mut tile_of_union, mut ones) = ([0; TILE], 0);
    for start in (0..length).step_by(TILE) {
        let bytes = (length - start).clamp(LEAST_TAKEN, TILE) * arrays.len();
        if !reading.take(bytes as u64) {
            return None;
        }
        let mut place = &mut tile_of_union[..];
        for (index, array) in arrays.iter().enumerate() {
            let bytes = tile(array, start);
            if index == 0 {
                place = &mut tile_of_union[..bytes.len()];
                place.copy_from_slice(bytes);
            } else {
                combine(Operation::Or, place, bytes);
            }
        }
        ones += count(place);
        let end = start + place.len();
        let expected_by_now = most as f64 * (end as f64 / length as f64);
        if ones > most || end >= SAMPLE && ones as f64 > expected_by_now * 1.02 {
            return None;
        }
    }
    Some(ones)
}

/// Whether every bit of `part` is set in `whole`, which has the same length. Also false if `reading` is used
/// up. If bits are missing, the first bytes mostly lack one.
pub fn is_within(part: &[u8], whole: &[u8], reading: &mut ReadBudget) -> bool {
    let pieces = part.chunks(PIECE).zip(whole.chunks(PIECE));
    for (part, whole) in pieces {
        if !reading.take(2 * part.len() as u64) {
            return false;
        }
        let missing = part
            .iter()
            .zip(whole)
            .fold(0, |missing, (part, whole)| missing | (part & !whole));
        if missing > 0 {
            return false;
        }
    }
    true
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
        let mut common = [0; TILE];
        let mut ones = 0;
        for (index, place) in self.bytes_mut().chunks_mut(TILE).enumerate() {
            let start = index * TILE;
            let common = &mut common[..place.len()];
            common.fill(0xff);
            for array in arrays {
                let bytes = tile(array, start);
                combine(Operation::And, common, bytes);
                // Beyond its end, an array has no bits.
                common[bytes.len()..].fill(0);
            }
            if !all_zero(common) {
                place.copy_from_slice(common);
                ones += count(common);
            }
        }
        self.count_set(ones);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> ReadBudget {
        ReadBudget::new(u64::MAX)
    }

    fn array(bytes: &[u8], units: usize) -> BitArray<u64> {
        let mut array = BitArray::zeroed(units as u64).unwrap();
        array.merge(0, bytes).unwrap();
        array
    }

    proptest! {
        /// If this failed, a union would forget items, or an intersection would find items that one of the
        /// filters never had.
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
                prop_assert!(is_within(view, &or, &mut all()) && is_within(&and, view, &mut all()));
                prop_assert_eq!(is_within(&or, view, &mut all()), *view == or);
            }
            prop_assert!(!is_within(&and, &or, &mut ReadBudget::new(2 * and.len().min(PIECE) as u64 - 1)));
            prop_assert_eq!(union_ones(&views, u64::MAX, &mut all()), Some(ones(&or)));
            prop_assert_eq!(union_ones(&views, ones(&or), &mut all()), Some(ones(&or)));
            if ones(&or) > 0 {
                prop_assert_eq!(union_ones(&views, ones(&or) - 1, &mut all()), None);
            }
        }
    }

    /// If this failed, merging would read layers of 100 MB to their end, for each pair of them, although the
    /// union is much too full.
    #[test]
    fn a_part_tells_that_a_union_is_too_large() {
        let half = vec![0x55; 2 * SAMPLE];
        let other = [vec![0x2a; SAMPLE], vec![0; SAMPLE]].concat();
        let whole = union_ones(&[&half, &other], u64::MAX, &mut all()).unwrap();
        assert_eq!(whole, (SAMPLE * (4 + 3) + SAMPLE * 4) as u64);
        // The first half predicts more bits than the whole has.
        assert_eq!(union_ones(&[&half, &other], whole + 1000, &mut all()), None);
        assert_eq!(
            union_ones(&[&half, &half], whole, &mut all()),
            Some((2 * SAMPLE * 4) as u64)
        );
        assert_eq!(union_ones(&[], 0, &mut all()), Some(0));
        // By chance, one part has a few more bits than another.
        let mut uneven = half.clone();
        uneven[..SAMPLE]
            .iter_mut()
            .step_by(64)
            .for_each(|byte| *byte = 0x57);
        let whole_of_uneven = (2 * SAMPLE * 4 + SAMPLE / 64) as u64;
        assert_eq!(
            union_ones(&[&uneven, &half], whole_of_uneven, &mut all()),
            Some(whole_of_uneven)
        );
        let mut too_little = ReadBudget::new(4 * SAMPLE as u64 - 1);
        assert_eq!(union_ones(&[&half, &half], whole, &mut too_little), None);
        let mut some = ReadBudget::new(4 * SAMPLE as u64);
        assert_eq!(
            union_ones(&[&half, &half], whole, &mut some),
            Some((2 * SAMPLE * 4) as u64)
        );
        assert_eq!(
            union_ones(&[&half, &half], whole, &mut some),
            None,
            "nothing more may be read"
        );
        // A short tile at the end takes its own bytes.
        let odd = vec![0x55; TILE + LEAST_TAKEN];
        let mut exact = ReadBudget::new(2 * odd.len() as u64);
        assert!(union_ones(&[&odd, &odd], u64::MAX, &mut exact).is_some());
    }
}
