//! The arguments of a command, read one by one, and the words of a command that is propagated.

use std::fmt::{self, Display};
use std::io::Write as _;

use crate::call::error::CommandError;
use crate::number;
use crate::server::Arg;

/// An argument of a command: any bytes.
pub trait Argument<'a>: Copy {
    /// The bytes of the argument.
    fn bytes(self) -> &'a [u8];
    /// The argument as a double, by the server's own parser.
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

/// A word that is no argument of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a>(pub &'a [u8]);

impl<'a> Argument<'a> for Word<'a> {
    fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Uses the standard library's parser, which accepts what the server's accepts, except hexadecimal forms.
    fn double(self) -> Option<f64> {
        str::from_utf8(self.0).ok()?.parse().ok()
    }
}

/// The arguments that were not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a, A> {
    rest: &'a [A],
}

impl<'a, A: Argument<'a>> Cursor<'a, A> {
    /// Starts at the first of `arguments`.
    pub fn new(arguments: &'a [A]) -> Self {
        Self { rest: arguments }
    }

    /// The arguments that were not read yet.
    pub fn rest(&self) -> &'a [A] {
        self.rest
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

    /// Takes the last of the arguments that were not read yet.
    ///
    /// # Errors
    /// [`CommandError::Arity`] when there is none.
    pub fn take_last(&mut self) -> Result<A, CommandError> {
        let (last, rest) = self.rest.split_last().ok_or(CommandError::Arity)?;
        self.rest = rest;
        Ok(*last)
    }

    /// The next `count` arguments; `None` if there are fewer.
    pub fn take_many(&mut self, count: usize) -> Option<&'a [A]> {
        let (many, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(many)
    }

    /// All remaining arguments.
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

    /// Checks that no argument is left over.
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

/// Sets an option's value.
///
/// # Errors
/// [`CommandError::Twice`] if it was set before.
pub fn once<T>(option: &mut Option<T>, value: T, name: &'static str) -> Result<(), CommandError> {
    if option.replace(value).is_some() {
        Err(CommandError::Twice(name))
    } else {
        Ok(())
    }
}

/// Sets an option that has no value.
///
/// # Errors
/// [`CommandError::Twice`] if it was set before.
pub fn flag(option: &mut bool, name: &'static str) -> Result<(), CommandError> {
    if std::mem::replace(option, true) {
        Err(CommandError::Twice(name))
    } else {
        Ok(())
    }
}

/// Parses an iterator or a time in decimal form. For RedisBloom and SET a number beyond 64 bits is no number.
pub fn iterator(bytes: &[u8]) -> Option<i64> {
    i64::try_from(number::whole(bytes)?).ok()
}

/// Parses an integer in the form of [`number::whole`]. One beyond 64 bits is replaced by the nearest that fits, which
/// is outside of every range that a command accepts.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    number::whole(bytes).map(|value| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// Words of a command that is propagated, end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Default for Words {
    fn default() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "as long as a sentence, which most commands fit into"
        )]
        Self {
            text: Vec::with_capacity(128),
            ends: Vec::with_capacity(16),
        }
    }
}

impl Words {
    /// An error rate and a capacity as people type them: the fewest digits that mean exactly this rate.
    pub fn sized(rate: f64, capacity: u64) -> Self {
        Self::default().with_rate(rate).with_number(capacity)
    }

    /// An error rate and a capacity, each after its word.
    pub fn named(rate: f64, capacity: u64) -> Self {
        let words = Self::default().with("ERROR").with_rate(rate);
        words.with("CAPACITY").with_number(capacity)
    }

    /// Appends a word.
    #[must_use]
    pub fn with(mut self, word: impl AsRef<[u8]>) -> Self {
        self.text.extend_from_slice(word.as_ref());
        self.ends.push(self.text.len());
        self
    }

    /// Appends a blank and a word to the last argument.
    #[must_use]
    pub fn with_more(mut self, word: impl AsRef<[u8]>) -> Self {
        self.ends.pop();
        self.text.push(b' ');
        self.with(word)
    }

    /// Appends a number.
    #[must_use]
    pub fn with_number(self, number: impl Display) -> Self {
        self.with_shown(format_args!("{number}"))
    }

    /// Appends an error rate in the fewest digits that mean exactly this rate.
    #[must_use]
    pub fn with_rate(self, rate: f64) -> Self {
        self.with_shown(format_args!("{rate:e}"))
    }

    fn with_shown(mut self, shown: fmt::Arguments<'_>) -> Self {
        // A list takes all that is written.
        let _ = self.text.write_fmt(shown);
        self.with("")
    }

    /// The words.
    pub fn list(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(&start, &end)| &self.text[start..end])
    }
}
