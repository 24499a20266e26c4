//! The operations that an RDB stream offers.

use super::DecodeError;

/// An RDB stream that is being written.
pub trait Sink {
    /// Writes an unsigned integer.
    fn put_unsigned(&mut self, value: u64);
    /// Writes a double.
    fn put_double(&mut self, value: f64);
    /// Writes a string of bytes.
    fn put_string(&mut self, bytes: &[u8]);
}

/// An RDB stream that is being read. Every failure is [`DecodeError::Truncated`].
pub trait Source {
    /// Reads an unsigned integer.
    fn unsigned(&mut self) -> Result<u64, DecodeError>;
    /// Reads a double.
    fn double(&mut self) -> Result<f64, DecodeError>;
    /// Reads a string and passes it to `take`.
    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError>;
    /// Reads a string into memory that the caller keeps.
    fn array(&mut self) -> Result<Array, DecodeError>;
}

/// A string that was read, in memory of its own.
pub enum Array {
    /// Whole words, little-endian.
    Words(Box<[u64]>),
    /// Any number of bytes.
    Bytes(Box<[u8]>),
}

impl Array {
    /// The bytes of the string.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Bytes(bytes) => bytes,
        }
    }
}
