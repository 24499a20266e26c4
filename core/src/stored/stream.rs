//! The operations that an RDB stream offers, and a stream in memory.

use super::{DecodeError, list_for};

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
#[derive(Debug)]
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

/// One value of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned integer.
    Unsigned(u64),
    /// A double.
    Double(f64),
    /// A string of bytes.
    String(Vec<u8>),
}

/// A stream in memory, for tests, fuzzing and benchmarks. Values are written at the end and read from the
/// front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStream {
    /// The values that have not been read yet.
    pub values: std::collections::VecDeque<Value>,
}

impl Sink for MemoryStream {
    fn put_unsigned(&mut self, value: u64) {
        self.values.push_back(Value::Unsigned(value));
    }

    fn put_double(&mut self, value: f64) {
        self.values.push_back(Value::Double(value));
    }

    #[expect(clippy::disallowed_methods, reason = "a stream in memory is for tests")]
    fn put_string(&mut self, bytes: &[u8]) {
        self.values.push_back(Value::String(bytes.to_vec()));
    }
}

impl Source for MemoryStream {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        match self.values.pop_front() {
            Some(Value::Unsigned(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.values.pop_front() {
            Some(Value::Double(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError> {
        match self.values.pop_front() {
            Some(Value::String(bytes)) => Ok(take(&bytes)),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn array(&mut self) -> Result<Array, DecodeError> {
        self.string(|bytes| match bytes.as_chunks::<8>() {
            (words, []) => {
                let mut array = list_for(words.len())?;
                array.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
                Ok(Array::Words(array.into_boxed_slice()))
            }
            _ => {
                let mut array = list_for(bytes.len())?;
                array.extend_from_slice(bytes);
                Ok(Array::Bytes(array.into_boxed_slice()))
            }
        })?
    }
}
