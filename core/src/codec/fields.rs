//! What the formats of all layouts have in common. Numbers are little-endian, and whatever is read is hostile.

use super::stream::Array;
use crate::bits::array::{BitArray, is_sparse};
use crate::error::{self, Error};

/// Why stored bytes are no filter. Nothing is left behind.
///
/// ```
/// # use libbloom::{DecodeError, FileError, Filter};
/// let refused = Filter::of_chunks([(1, &b"cut off"[..])]).err();
/// assert!(matches!(refused, Some(FileError::Header(DecodeError::Truncated))), "{refused:?}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end early, or the stream failed.
    Truncated,
    /// The format or encoding version is not one that this version reads.
    Version(u64),
    /// The named field contradicts the format or another field.
    Field(&'static str),
    /// The filter does not fit into memory.
    OutOfMemory {
        /// Bytes that were requested.
        bytes: u64,
    },
}

/// Makes a bit array of a string. One of whole words is copied only if the copy leaves many pages untouched.
pub(crate) fn restored(array: Array) -> Result<BitArray<u64>, DecodeError> {
    let copied = |bytes: &[u8]| {
        let mut bits = BitArray::zeroed(bytes.len().div_ceil(8) as u64)?;
        bits.merge(0, bytes)
            .map_err(|_| DecodeError::Field("bit array length"))?;
        Ok(bits)
    };
    let whole = match array {
        Array::Words(words) => BitArray::of(words),
        Array::Bytes(bytes) => return copied(&bytes),
    };
    match is_sparse(whole.ones(), whole.bytes().len() as u64) {
        true => copied(whole.bytes()),
        false => Ok(whole),
    }
}

/// What was made, such as the header of a filter that is being saved. Without memory for it the process ends, as the server's own allocations
/// do: a save cannot report an error, and must not leave a filter out. Mostly the process is a forked child.
pub(crate) fn or_abort<T>(made: Result<T, Error>) -> T {
    made.unwrap_or_else(|_| std::alloc::handle_alloc_error(std::alloc::Layout::new::<T>()))
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => write!(f, "the stream ends early"),
            Self::Version(version) => write!(f, "format version {version} is not known"),
            Self::Field(field) => write!(f, "bad field: {field}"),
            Self::OutOfMemory { bytes } => write!(f, "{bytes} bytes do not fit into memory"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<Error> for DecodeError {
    fn from(error: Error) -> Self {
        match error {
            Error::OverLimit { bytes, .. } | Error::OutOfMemory { bytes } => Self::OutOfMemory { bytes },
            Error::Full { .. } => Self::Field("capacity"),
            Error::TooManyLayers { .. } => Self::Field("layers"),
        }
    }
}

/// Refuses the named field, unless it `is_right`.
pub(crate) fn require(is_right: bool, field: &'static str) -> Result<(), DecodeError> {
    error::require(is_right, DecodeError::Field(field))
}

/// Appends little-endian fields to a list that has room for them.
macro_rules! put {
    ($bytes:expr, $($field:expr),+ $(,)?) => {
        $($bytes.extend_from_slice(&$field.to_le_bytes());)+
    };
}
pub(crate) use put;

/// Reads little-endian fields, one after another.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, DecodeError> {
        self.take().map(f64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load would need the memory of each array twice, or fill the pages of empty ones.
    #[test]
    fn an_array_stays_where_it_was_read_unless_it_has_fewer_bits_than_pages() {
        // 128 pages, and about as many set bits.
        for (bits, stays) in [(128, true), (127, false)] {
            let mut words = vec![0u64; 1 << 16].into_boxed_slice();
            words.iter_mut().take(bits).for_each(|word| *word = 1);
            let (place, read) = (words.as_ptr(), words.clone());
            let array = restored(Array::Words(words)).unwrap();
            assert_eq!(array.units(), &*read);
            assert_eq!(array.units().as_ptr() == place, stays, "{bits} bits");
        }
    }
}
