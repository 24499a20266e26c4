//! What an RDB stream offers, and the same in memory.

use super::{DecodeError, list_for};

/// An RDB stream that is written.
pub trait Sink {
    /// Writes an unsigned integer.
    fn put_unsigned(&mut self, value: u64);
    /// Writes a double.
    fn put_double(&mut self, value: f64);
    /// Writes a string of bytes.
    fn put_string(&mut self, bytes: &[u8]);
}

/// An RDB stream that is read. Every failure is [`DecodeError::Truncated`].
pub trait Source {
    /// Reads an unsigned integer.
    fn unsigned(&mut self) -> Result<u64, DecodeError>;
    /// Reads a double.
    fn double(&mut self) -> Result<f64, DecodeError>;
    /// Reads a string and gives it to `take`.
    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError>;
    /// Reads a string, to keep its memory.
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
    /// Its bytes.
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

/// A stream in memory, for tests, fuzzing and benchmarks: written at the end, read from the front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The values not read yet.
    pub values: std::collections::VecDeque<Value>,
}

impl Sink for Memory {
    fn put_unsigned(&mut self, value: u64) {
        self.values.push_back(Value::Unsigned(value));
    }

    fn put_double(&mut self, value: f64) {
        self.values.push_back(Value::Double(value));
    }

    fn put_string(&mut self, bytes: &[u8]) {
        self.values.push_back(Value::String(bytes.to_vec()));
    }
}

impl Source for Memory {
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
