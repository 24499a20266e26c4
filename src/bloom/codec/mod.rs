//! Filters as stored bytes. All integers and floats are little-endian; whatever is read is hostile.

pub mod chunks;
pub mod composed;
pub mod native;
pub mod redisbloom;
pub mod stream;
pub mod validate;
pub mod valkey;
pub mod windowed;

use crate::bloom::bits::array::{BitArray, is_sparse};
use crate::bloom::chain::Allowance;
use crate::bloom::chain::batch::Layer;
use crate::bloom::chain::demand::{self, Frame, Refused};
use crate::bloom::filter::{Body, Filter};
use stream::{Array, Sink, Source};

/// The newest encoding version of the stored type, which every save has but those of [`valkey`].
pub const ENCODING_VERSION: i32 = 4;

/// Why stored bytes are no filter. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end early, or the stream failed.
    Truncated,
    /// The format or encoding version is not one that this version reads.
    Version(u64),
    /// That field contradicts the format or another field.
    Field(&'static str),
    /// The filter does not fit into memory.
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
    },
}

/// Writes `filter` to an RDB stream of its type.
pub fn save(filter: &Filter, sink: &mut impl Sink) {
    match filter.body() {
        _ if composed::is_needed(filter) => composed::save(filter, sink),
        Body::Blocked(chain) => native::save(chain, sink),
        Body::Classic(chain) => redisbloom::save(chain, sink),
        Body::Valkey(chain) => valkey::save(chain, sink),
        Body::Windowed(ring) => windowed::save(ring, sink),
    }
}

/// Writes what two filters have in common if and only if they are equal.
pub fn save_for_digest(filter: &Filter, sink: &mut impl Sink) {
    match filter.body() {
        Body::Valkey(chain) => valkey::save_for_digest(chain, sink),
        Body::Blocked(_) | Body::Classic(_) | Body::Windowed(_) => save(filter, sink),
    }
}

/// Reads a filter from an RDB stream of that encoding version; those of [`valkey`] have a type of their own.
///
/// # Errors
/// [`DecodeError`] unless the whole stream is one valid filter.
pub fn load(
    source: &mut impl Source,
    encoding_version: i32,
    allowance: Allowance<'_>,
) -> Result<Filter, DecodeError> {
    let unknown = DecodeError::Version(u64::from(encoding_version.unsigned_abs()));
    let encoding_version = u8::try_from(encoding_version).map_err(|_| unknown)?;
    if encoding_version > ENCODING_VERSION as u8 {
        return Err(unknown);
    }
    let first = source.unsigned()?;
    match source.unsigned()? {
        0 if i32::from(encoding_version) == ENCODING_VERSION => match first {
            composed::VERSION => composed::load(source, allowance),
            windowed::VERSION => {
                windowed::load(source, allowance).map(|ring| Filter::Windowed(Box::new(ring)))
            }
            _ => native::load(first, source, allowance).map(Filter::Blocked),
        },
        layers => redisbloom::load(first, layers, source, encoding_version, allowance).map(Filter::Classic),
    }
}

/// Asks for a stored filter with bit arrays of these sizes, all of which are new.
fn ask_for<L: Layer>(
    frame: Frame,
    arrays: impl Iterator<Item = u64> + Clone,
    allowance: Allowance<'_>,
) -> Result<(), DecodeError> {
    let asked = demand::ask::<L>(frame, arrays, 0, 0, allowance);
    asked.map_err(|Refused { bytes, .. }| DecodeError::OutOfMemory { bytes })
}

/// The bit array that was saved: the very memory that the server read it into, unless a copy leaves many pages
/// untouched.
fn restored(array: Array) -> Result<BitArray<u64>, DecodeError> {
    let array = match array {
        Array::Words(words) => {
            let whole = BitArray::of(words);
            if !is_sparse(whole.ones(), whole.bytes().len() as u64) {
                return Ok(whole);
            }
            Array::Words(whole.into_units())
        }
        bytes @ Array::Bytes(_) => bytes,
    };
    let bytes = array.bytes();
    let mut bits = BitArray::zeroed(bytes.len().div_ceil(8) as u64)?;
    bits.merge(0, bytes)
        .map_err(|_| DecodeError::Field("bit array length"))?;
    Ok(bits)
}

/// An empty list with room for `length` values, which the stored bytes call for.
fn list_for<T>(length: usize) -> Result<Vec<T>, DecodeError> {
    Ok(demand::reserved(length)?)
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
