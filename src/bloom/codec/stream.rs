//! What an RDB stream offers, and the same in memory.

use super::DecodeError;

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
}
