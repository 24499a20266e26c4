//! The bit array: a fallible allocation, zeroed by the allocator on demand, and a count of its set bits.
//!
//! A unit is what a layout addresses: a 64-byte line in a blocked layer, a 64-bit word in a layer whose
//! probes are scattered. As bytes, bit `x` is bit `x & 7` of byte `x >> 3`; the bytes are those of
//! little-endian words, in memory and in every format.

use std::ptr::NonNull;

use bitvec::order::Lsb0;
use bitvec::slice::BitSlice;
use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use super::kernel::{self, CountOnes, SetOnes};
use super::memory::{Allocation, Mover};
use super::units::Units;
use crate::error::{Error, require};

/// Bytes that are skipped together if none of their bits has to be set: an untouched page needs no memory.
const PAGE: usize = 4096;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("libbloom needs a 64-bit processor: filters may be larger than 32-bit pointers reach");
#[cfg(target_endian = "big")]
compile_error!(
    "bit arrays are little-endian in memory and in every format; a big-endian port must convert them"
);

/// A fixed number of bits, all unset at first.
pub struct BitArray<U> {
    units: Units<U>,
    ones: u64,
}

impl<U: Zeroable + NoUninit + AnyBitPattern> BitArray<U> {
    /// `units` units of unset bits. The pages of a large array take up memory only once they are written.
    pub fn zeroed(units: u64) -> Result<Self, Error> {
        let (units, out_of_memory) = checked_length::<U>(units)?;
        let units = Units::zeroed(units).ok_or(out_of_memory)?;
        Ok(Self { units, ones: 0 })
    }

    /// The units of a mapped file, of which `ones` bits are said to be set.
    ///
    /// # Safety
    /// What [`Units::of_file`] asks for.
    #[expect(unsafe_code, reason = "the caller vouches for the mapping")]
    pub unsafe fn of_file(units: NonNull<[U]>, ones: u64) -> Self {
        // SAFETY: the caller guarantees it.
        let units = unsafe { Units::of_file(units.cast(), units.len()) };
        Self { units, ones }
    }

    /// The units of the array.
    #[inline]
    pub fn units(&self) -> &[U] {
        &self.units
    }

    /// The units, for setting bits. The caller reports newly set bits to [`Self::count_set`].
    #[inline]
    pub fn units_mut(&mut self) -> &mut [U] {
        &mut self.units
    }

    /// Adds `bits` newly set bits to the count.
    #[inline]
    pub fn count_set(&mut self, bits: u64) {
        self.ones += bits;
    }

    /// Number of set bits. It is counted as bits are set, not recounted.
    pub fn ones(&self) -> u64 {
        self.ones
    }

    /// The bits, for counting, iterating and comparing. The kernels work on whole units instead.
    pub fn bits(&self) -> &BitSlice<u64, Lsb0> {
        BitSlice::from_slice(bytemuck::cast_slice(&self.units))
    }

    /// The bytes of the array.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.units)
    }

    /// The bytes, for setting bits. The caller reports newly set bits to [`Self::count_set`].
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.units)
    }

    /// The array's block of memory; `None` if the array is empty.
    pub fn allocation(&self) -> Option<Allocation> {
        self.units.allocation()
    }

    /// Lets `mover` move the array.
    pub fn relocate(&mut self, mover: &mut impl Mover) {
        self.units.relocate(mover);
    }

    /// Sets the bits of `bytes` from byte `offset` on, and clears none. Pages where `bytes` are zero stay unwritten.
    pub fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.units);
        let start = usize::try_from(offset).map_err(|_| OutOfRange)?;
        let end = start.checked_add(bytes.len()).ok_or(OutOfRange)?;
        let place = all.get_mut(start..end).ok_or(OutOfRange)?;
        // An array without set bits is not read: that would map pages of zeros, which the write would replace.
        let unset = self.ones == 0;
        for (place, bytes) in place.chunks_mut(PAGE).zip(bytes.chunks(PAGE)) {
            if all_zero(bytes) {
                continue;
            }
            self.ones += if unset {
                place.copy_from_slice(bytes);
                kernel::run(CountOnes(bytes))
            } else {
                kernel::run(SetOnes { place, bytes })
            };
        }
        Ok(())
    }

    /// Makes an array of these units and counts their set bits.
    pub fn of(units: Box<[U]>) -> Self {
        let ones = kernel::run(CountOnes(bytemuck::cast_slice(&units)));
        let units = units.into();
        Self { units, ones }
    }
}

/// The length of an array of `units` units, and the error to return if its memory cannot be allocated.
fn checked_length<U>(units: u64) -> Result<(usize, Error), Error> {
    let bytes = units.saturating_mul(size_of::<U>() as u64);
    let out_of_memory = Error::OutOfMemory { bytes };
    require(bytes <= isize::MAX as u64, out_of_memory)?;
    Ok((units as usize, out_of_memory))
}

/// Whether so few bits are set that many pages of the array need no memory.
pub fn is_sparse(ones: u64, bytes: u64) -> bool {
    ones < bytes / PAGE as u64
}

/// A bit array that is filled from its first byte on, as pieces of it arrive.
pub struct ArrayLoader<U> {
    room: Room<U>,
    missing: usize,
    /// Bytes received through [`Self::append`].
    received: usize,
    /// Bytes received through [`Self::append_zeros`].
    zeros: usize,
}

/// The memory that the pieces of an array go into.
enum Room<U> {
    /// A zeroed array into which bytes are merged: most pages stay untouched.
    Sparse(BitArray<U>),
    /// Memory that is written from start to end, so nothing is zeroed first.
    Dense { units: Vec<U>, ones: u64 },
}

impl<U: Zeroable + NoUninit + AnyBitPattern> ArrayLoader<U> {
    /// Allocates `units` units, of which about `ones` bits will be set.
    pub fn new(units: u64, ones: u64) -> Result<Self, Error> {
        let (length, out_of_memory) = checked_length::<U>(units)?;
        let missing = length * size_of::<U>();
        let room = if is_sparse(ones, missing as u64) {
            Room::Sparse(BitArray::zeroed(units)?)
        } else {
            let mut units = Vec::new();
            units.try_reserve_exact(length).map_err(|_| out_of_memory)?;
            Room::Dense { units, ones: 0 }
        };
        Ok(Self {
            room,
            missing,
            received: 0,
            zeros: 0,
        })
    }

    /// Bytes still missing.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Appends bytes, which must be whole units.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), OutOfRange> {
        let missing = self.missing_after(bytes.len())?;
        match &mut self.room {
            Room::Sparse(array) => {
                let offset = array.bytes().len() - self.missing;
                array.merge(offset as u64, bytes)?;
            }
            Room::Dense { units, ones } => {
                // The bits of a page are counted while it is still in the nearest cache.
                for part in bytes.chunks(PAGE) {
                    let part_units = part.chunks_exact(size_of::<U>());
                    units.extend(part_units.map(bytemuck::pod_read_unaligned::<U>));
                    *ones += kernel::run(CountOnes(part));
                }
            }
        }
        self.missing = missing;
        self.received += bytes.len();
        Ok(())
    }

    /// Appends `bytes` zero bytes, which must be whole units.
    pub fn append_zeros(&mut self, bytes: usize) -> Result<(), OutOfRange> {
        let missing = self.missing_after(bytes)?;
        self.zeros += bytes;
        if let Room::Dense { units, ones } = &mut self.room {
            let length = units.len() + self.missing / size_of::<U>();
            // Zeros are written only up to as many bytes as were received otherwise. Without that limit, a
            // payload of a few bytes could make the server write all the memory that it may use.
            let sparse = (self.zeros > self.received).then(|| BitArray::zeroed(length as u64));
            if let Some(Ok(mut array)) = sparse {
                array.units_mut()[..units.len()].copy_from_slice(units);
                array.ones = *ones;
                self.room = Room::Sparse(array);
            } else {
                units.extend(std::iter::repeat_n(U::zeroed(), bytes / size_of::<U>()));
            }
        }
        self.missing = missing;
        Ok(())
    }

    fn missing_after(&self, bytes: usize) -> Result<usize, OutOfRange> {
        let whole = bytes.is_multiple_of(size_of::<U>());
        self.missing
            .checked_sub(bytes)
            .filter(|_| whole)
            .ok_or(OutOfRange)
    }

    /// The complete array.
    pub fn finish(self) -> Result<BitArray<U>, OutOfRange> {
        match self.room {
            _ if self.missing > 0 => Err(OutOfRange),
            Room::Sparse(array) => Ok(array),
            Room::Dense { units, ones } => Ok(BitArray {
                units: units.into_boxed_slice().into(),
                ones,
            }),
        }
    }
}

/// Bytes that do not fit into a bit array, or do not fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// Whether all of `bytes` are zero.
pub fn all_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::failing::{self, Shortage};

    /// A filter that was reserved and hardly used would take up all of its memory after a
    /// restart.
    #[test]
    fn an_array_with_few_bits_is_loaded_without_touching_its_pages() {
        let is_sparse = |ones| {
            matches!(
                ArrayLoader::<u64>::new(1 << 17, ones).unwrap().room,
                Room::Sparse(_)
            )
        };
        assert_eq!([0, 255, 256, 1 << 23].map(is_sparse), [true, true, false, false]);
    }

    /// A request for an absurd size would crash the server.
    #[test]
    fn arrays_too_large_for_any_machine_are_refused() {
        for units in [1 << 57, u64::MAX / 8, u64::MAX] {
            // The compiler may drop an allocation that nobody uses.
            let refused =
                BitArray::<u64>::zeroed(units).map(|array| std::hint::black_box(array).units().len());
            assert!(
                matches!(refused, Err(Error::OutOfMemory { .. })),
                "{units} units: {refused:?}"
            );
        }
    }

    /// The byte or bit order would have changed, and every stored filter would lose its
    /// items.
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

    /// Chunks that do not fit would damage a filter, or its set bits would be miscounted.
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

    /// A stored filter would lose items, or not load.
    #[test]
    fn bytes_that_come_in_are_the_array() {
        const UNITS: usize = 3000;
        for every in [1, 50, 10_000, usize::MAX] {
            let bytes: Vec<u8> = (0..8 * UNITS).map(|at| u8::from(at % every == 7)).collect();
            let ones = bytes.iter().map(|&byte| u64::from(byte)).sum();
            // The expected number of set bits only decides where the bytes go first, never what the array
            // contains.
            for expected in [0, ones, u64::MAX] {
                let mut incoming = ArrayLoader::<u64>::new(UNITS as u64, expected).unwrap();
                for piece in bytes.chunks(5000) {
                    assert_eq!(incoming.append(&[0; 7]), Err(OutOfRange), "no whole unit");
                    match all_zero(piece) {
                        true => incoming.append_zeros(piece.len()).unwrap(),
                        false => incoming.append(piece).unwrap(),
                    }
                }
                assert_eq!(incoming.missing(), 0);
                assert_eq!(incoming.append(&[0; 8]), Err(OutOfRange));
                assert_eq!(incoming.append_zeros(8), Err(OutOfRange));
                let array = incoming.finish().unwrap();
                assert_eq!(array.bytes(), bytes);
                assert_eq!(array.ones(), ones);
                let whole = BitArray::of(array.units().into());
                assert_eq!((whole.bytes(), whole.ones()), (&bytes[..], ones));
            }
        }
        let short = ArrayLoader::<u64>::new(2, 128).unwrap();
        assert!(matches!(short.finish(), Err(OutOfRange)));
        for units in [1 << 57, u64::MAX] {
            for ones in [0, u64::MAX] {
                let refused = ArrayLoader::<u64>::new(units, ones).map(|_| ());
                assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{units}");
            }
        }
    }

    /// A payload of a few bytes that claims a full filter but contains only markers for zeros
    /// would block the server while it writes all the memory it may use. And a full filter that ends in zeros
    /// would be copied, which doubles its memory.
    #[test]
    fn zeros_beyond_what_came_in_are_not_written() {
        let mut incoming = ArrayLoader::<u64>::new(1000, 64_000).unwrap();
        incoming.append(&[1; 8 * 10]).unwrap();
        incoming.append_zeros(8 * 10).unwrap();
        assert!(matches!(incoming.room, Room::Dense { .. }));
        incoming.append_zeros(8 * 979).unwrap();
        assert!(matches!(incoming.room, Room::Sparse(_)));
        incoming.append(&[1; 8]).unwrap();
        let array = incoming.finish().unwrap();
        let ones: Vec<_> = (0..1000).filter(|&at| array.units()[at] != 0).collect();
        assert_eq!(ones, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 999]);
        assert_eq!(array.ones(), 11 * 8);

        // If there is no memory for a sparse array, the zeros are written after all.
        let mut incoming = ArrayLoader::<u64>::new(100, 6400).unwrap();
        failing::after(0, Shortage::Lasting, || incoming.append_zeros(8 * 100)).unwrap();
        assert!(matches!(incoming.room, Room::Dense { .. }));
        assert_eq!(incoming.finish().unwrap().units(), [0; 100]);
    }

    /// A save would lose bits: pieces that look all zero are not written.
    #[test]
    fn zero_is_not_taken_for_almost_zero() {
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
