//! The arguments of a command, read one by one.

use std::ops::RangeInclusive;

use crate::call::error::CommandError;
use crate::number;
use crate::server::Arg;
use libbloom::params::Capacity;

/// An argument of a command: any bytes.
pub trait Argument<'a>: Copy {
    /// The bytes of the argument.
    fn bytes(self) -> &'a [u8];
    /// The argument as a double; one that a double cannot tell from 0 or an infinity is that.
    fn double(self) -> Option<f64>;
}

impl<'a> Argument<'a> for Arg<'a> {
    fn bytes(self) -> &'a [u8] {
        Arg::bytes(self)
    }

    /// The standard library's parser is faster than the server's, which also reads hexadecimal forms.
    fn double(self) -> Option<f64> {
        decimal(self.bytes()).or_else(|| Arg::double(self))
    }
}

fn decimal(bytes: &[u8]) -> Option<f64> {
    str::from_utf8(bytes).ok()?.parse().ok()
}

/// An argument without a server, for tests and fuzzing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a>(pub &'a [u8]);

impl<'a> Argument<'a> for Word<'a> {
    fn bytes(self) -> &'a [u8] {
        self.0
    }

    fn double(self) -> Option<f64> {
        decimal(self.0)
    }
}

/// The arguments that were not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a, A> {
    rest: &'a [A],
}

impl<'a, A: Argument<'a>> Cursor<'a, A> {
    pub(crate) fn new(arguments: &'a [A]) -> Self {
        Self { rest: arguments }
    }

    pub(crate) fn rest(&self) -> &'a [A] {
        self.rest
    }

    pub(crate) fn take_if_any(&mut self) -> Option<A> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(crate) fn take(&mut self) -> Result<A, CommandError> {
        self.take_if_any().ok_or(CommandError::Arity)
    }

    pub(crate) fn take_last(&mut self) -> Result<A, CommandError> {
        let (last, rest) = self.rest.split_last().ok_or(CommandError::Arity)?;
        self.rest = rest;
        Ok(*last)
    }

    /// The next `count` arguments; `None` if there are fewer.
    pub(crate) fn take_many(&mut self, count: usize) -> Option<&'a [A]> {
        let (many, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(many)
    }

    /// All remaining arguments.
    pub(crate) fn at_least_one(self) -> Result<&'a [A], CommandError> {
        if self.rest.is_empty() {
            Err(CommandError::Arity)
        } else {
            Ok(self.rest)
        }
    }
}

/// The arguments of a command that has as many.
pub(crate) fn exactly<A: Copy, const N: usize>(arguments: &[A]) -> Result<[A; N], CommandError> {
    arguments.try_into().map_err(|_| CommandError::Arity)
}

/// Sets an option's value.
pub(crate) fn once<T>(option: &mut Option<T>, value: T, name: &'static str) -> Result<(), CommandError> {
    if option.replace(value).is_some() {
        Err(CommandError::Twice(name))
    } else {
        Ok(())
    }
}

/// Sets an option that has no value.
pub(crate) fn flag(option: &mut bool, name: &'static str) -> Result<(), CommandError> {
    let was_set = std::mem::replace(option, true);
    if was_set {
        Err(CommandError::Twice(name))
    } else {
        Ok(())
    }
}

/// Parses an iterator or a time in decimal form. For RedisBloom and SET a number beyond 64 bits is no number.
pub fn whole(bytes: &[u8]) -> Option<i64> {
    i64::try_from(number::whole(bytes)?).ok()
}

pub(crate) fn number<'a, T: TryFrom<i128> + Into<u64> + PartialOrd + Copy>(
    value: impl Argument<'a>,
    what: &'static str,
    range: RangeInclusive<T>,
) -> Result<T, CommandError> {
    let number = T::try_from(number::whole(value.bytes()).ok_or(CommandError::Bad(what))?).ok();
    let number = number.filter(|number| range.contains(number));
    let (least, most) = (*range.start(), *range.end());
    number.ok_or_else(|| CommandError::Range {
        what,
        least: least.into(),
        most: most.into(),
    })
}

pub(crate) fn capacity_of<'a>(value: impl Argument<'a>) -> Result<Capacity, CommandError> {
    let items = number(value, "capacity", 1..=Capacity::MAX)?;
    Capacity::new(items).map_err(|_| CommandError::Bad("capacity"))
}

/// The length of the longest word of any command, VALIDATESCALETO.
const LONGEST: usize = 15;

/// A word in capitals, to be compared with those that a command knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capitals {
    letters: [u8; LONGEST],
    /// 0 for a word that is longer than any that commands know.
    length: usize,
}

impl Capitals {
    pub(crate) fn of(word: &[u8]) -> Self {
        let mut letters = [0; LONGEST];
        let length = if word.len() <= LONGEST { word.len() } else { 0 };
        letters[..length].copy_from_slice(&word[..length]);
        letters.make_ascii_uppercase();
        Self { letters, length }
    }

    pub(crate) fn word(&self) -> &[u8] {
        &self.letters[..self.length]
    }
}
