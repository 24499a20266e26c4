//! The arguments of a command, taken one by one.

use super::error::CommandError;
use crate::number;
use crate::server::Arg;

/// An argument: any bytes.
pub trait Argument<'a>: Copy {
    /// Its bytes.
    fn bytes(self) -> &'a [u8];
    /// As a double, by the server's own parser.
    fn double(self) -> Option<f64>;
}

impl<'a> Argument<'a> for Arg<'a> {
    fn bytes(self) -> &'a [u8] {
        Arg::bytes(self)
    }

    fn double(self) -> Option<f64> {
        Arg::double(self)
    }
}

/// Arguments not taken yet.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a, A> {
    rest: &'a [A],
}

impl<'a, A: Argument<'a>> Cursor<'a, A> {
    /// All of `arguments`.
    pub fn new(arguments: &'a [A]) -> Self {
        Self { rest: arguments }
    }

    /// The next argument, if there is one.
    pub fn take_if_any(&mut self) -> Option<A> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next argument.
    ///
    /// # Errors
    /// [`CommandError::Arity`] when there is none.
    pub fn take(&mut self) -> Result<A, CommandError> {
        self.take_if_any().ok_or(CommandError::Arity)
    }

    /// So many further arguments, if there are.
    pub fn take_many(&mut self, count: usize) -> Option<&'a [A]> {
        let (many, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(many)
    }

    /// All further arguments.
    ///
    /// # Errors
    /// [`CommandError::Arity`] when there are none.
    pub fn at_least_one(self) -> Result<&'a [A], CommandError> {
        if self.rest.is_empty() {
            Err(CommandError::Arity)
        } else {
            Ok(self.rest)
        }
    }

    /// Nothing may be left over.
    ///
    /// # Errors
    /// [`CommandError::Arity`] when something is.
    pub fn finish(self) -> Result<(), CommandError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(CommandError::Arity)
        }
    }
}

/// The iterator, or the time, that `bytes` are the decimal form of; RedisBloom and SET call one beyond 64
/// bits no number.
pub fn iterator(bytes: &[u8]) -> Option<i64> {
    i64::try_from(number::whole(bytes)?).ok()
}

/// The integer that `bytes` are the decimal form of, as [`number::whole`] reads it; one beyond 64 bits counts as the
/// nearest that has them, which is in no range that a command has.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    number::whole(bytes).map(|value| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}
