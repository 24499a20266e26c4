//! The bit array: allocated fallibly, zeroed on demand by the allocator, with its set bits counted.
//!
//! A unit is what the layout above addresses: a 64-byte line of a blocked layer, a 64-bit word of a classic
//! one. In bytes, bit `x` is bit `x & 7` of byte `x >> 3`; the bytes are those of little-endian words, in
//! memory and in every format.

use bitvec::order::Lsb0;
use bitvec::slice::BitSlice;
use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use super::error::Error;
use super::memory::{Allocation, Mover};

#[cfg(target_endian = "big")]
compile_error!(
    "bit arrays are little-endian in memory and in every format; a big-endian port must convert them"
);

/// A fixed number of bits, all unset at first.
#[derive(Debug)]
pub struct BitArray<U> {
    units: Box<[U]>,
    ones: u64,
}

impl<U: Zeroable + NoUninit + AnyBitPattern> BitArray<U> {
    /// `units` units of unset bits. The memory is the allocator's zeroed memory: pages of a large array are
    /// taken when they are first written.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], with nothing allocated.
    pub fn zeroed(units: u64) -> Result<Self, Error> {
        let bytes = units.saturating_mul(size_of::<U>() as u64);
        let out_of_memory = Error::OutOfMemory { bytes };
        if isize::try_from(bytes).is_err() {
            return Err(out_of_memory);
        }
        let units = usize::try_from(units).map_err(|_| out_of_memory)?;
        let units = bytemuck::allocation::try_zeroed_slice_box(units).map_err(|()| out_of_memory)?;
        Ok(Self { units, ones: 0 })
    }

    /// The units.
    #[inline]
    pub fn units(&self) -> &[U] {
        &self.units
    }

    /// The units, for setting bits; tell [`Self::count_set`] how many.
    #[inline]
    pub fn units_mut(&mut self) -> &mut [U] {
        &mut self.units
    }

    /// Takes note of `bits` bits that were unset and are now set.
    #[inline]
    pub fn count_set(&mut self, bits: u32) {
        self.ones += u64::from(bits);
    }

    /// Set bits, counted as they were set.
    pub fn ones(&self) -> u64 {
        self.ones
    }

    /// The bits, for counting, iterating and comparing. The kernels work on whole units instead.
    pub fn bits(&self) -> &BitSlice<u64, Lsb0> {
        BitSlice::from_slice(bytemuck::cast_slice(&self.units))
    }

    /// The array's bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.units)
    }

    /// The array's memory.
    pub fn allocation(&self) -> Option<Allocation> {
        Allocation::of_array(&self.units)
    }

    /// Lets `mover` choose another place for the array.
    pub fn relocate(&mut self, mover: &mut impl Mover) {
        self.units = mover.array(std::mem::take(&mut self.units));
    }

    /// Sets, from byte `offset` on, the bits that are set in `bytes`; none is ever unset. Places where
    /// `bytes` are zero are not written to: their pages stay untouched.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not fit; nothing changed.
    pub fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.units);
        let start = usize::try_from(offset).map_err(|_| OutOfRange)?;
        let end = start.checked_add(bytes.len()).ok_or(OutOfRange)?;
        let place = all.get_mut(start..end).ok_or(OutOfRange)?;
        for (place, bytes) in place.chunks_mut(MERGED_AT_ONCE).zip(bytes.chunks(MERGED_AT_ONCE)) {
            if !all_zero(bytes) {
                self.ones -= count_ones(place);
                place
                    .iter_mut()
                    .zip(bytes)
                    .for_each(|(place, byte)| *place |= byte);
                self.ones += count_ones(place);
            }
        }
        Ok(())
    }
}

/// Bytes that are left untouched together when there is nothing to set in them.
const MERGED_AT_ONCE: usize = 4096;

/// Bytes that lie beyond the end of a bit array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// Set bits in `bytes`.
fn count_ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: u64 = words
        .iter()
        .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()))
        .sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Whether all of `bytes` are zero.
pub fn all_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_too_large_for_any_machine_are_refused() {
        for units in [1 << 57, u64::MAX / 8, u64::MAX] {
            // An array that nobody sees may never be allocated.
            let refused =
                BitArray::<u64>::zeroed(units).map(|array| std::hint::black_box(array).units().len());
            assert!(
                matches!(refused, Err(Error::OutOfMemory { .. })),
                "{units} units: {refused:?}"
            );
        }
    }

    /// If byte order or bit order moved, every stored filter would lose its items.
    #[test]
    fn bits_bytes_and_words_are_one_layout() -> Result<(), Error> {
        let mut array = BitArray::<u64>::zeroed(4)?;
        for bit in [0, 7, 8, 63, 64, 130, 255] {
            array.units_mut()[bit / 64] |= 1 << (bit % 64);
            array.count_set(1);
            assert_eq!(array.bytes()[bit / 8] >> (bit % 8) & 1, 1, "bit {bit}");
        }
        assert_eq!(
            array.bits().iter_ones().collect::<Vec<_>>(),
            [0, 7, 8, 63, 64, 130, 255]
        );
        assert_eq!(array.bits().count_ones() as u64, array.ones());
        Ok(())
    }

    #[test]
    fn merging_keeps_the_count_and_refuses_what_does_not_fit() -> Result<(), Error> {
        let mut array = BitArray::<u64>::zeroed(2)?;
        assert_eq!(array.merge(3, &[0x0f; 9]), Ok(()));
        assert_eq!(array.ones(), 36);
        assert_eq!(array.merge(4, &[0x11; 3]), Ok(()));
        assert_eq!(array.ones(), 36 + 3);
        assert_eq!(array.merge(0, &[0; 16]), Ok(()), "merging zeros unsets nothing");
        assert_eq!(array.ones(), 36 + 3);
        for (offset, length) in [(0, 17), (16, 1), (15, 2), (u64::MAX, 1), (1 << 40, 0)] {
            assert_eq!(
                array.merge(offset, &vec![0xff; length]),
                Err(OutOfRange),
                "{offset} + {length}"
            );
        }
        assert_eq!(array.ones(), array.bits().count_ones() as u64);
        Ok(())
    }

    #[test]
    fn zero_is_told_from_almost_zero() {
        for length in [0, 1, 63, 64, 65, 200] {
            let mut bytes = vec![0; length];
            assert!(all_zero(&bytes));
            for at in 0..length {
                bytes[at] = 0x80;
                assert!(!all_zero(&bytes), "{length} bytes, one at {at}");
                bytes[at] = 0;
            }
        }
    }
}
