//! The words NX, EX, PX, EXAT and PXAT of the commands that make filters: as SET has them, but for its forms
//! of errors in the words themselves.
//!
//! They act only where a filter is made. A time is resolved once, by the clock of the server that the client
//! spoke to, and is propagated as PXAT: whoever is told later lets the filter expire at the same moment. Of
//! all the words only this one is propagated, since RedisBloom's BF.INSERT reads letters: `EX…` is its
//! EXPANSION and `N…` its NONSCALING, but it knows no word with P.

use std::ffi::CStr;

use super::args::{Argument, Cursor, iterator};
use super::creation::flag;
use super::error::CommandError;
use super::propagation::Words;

/// What was said of the key of a filter to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyOptions {
    /// A key that holds a filter is left as it is, and that is no error.
    pub only_new: bool,
    expiry: Option<Expiry>,
}

/// When a key is to expire.
#[derive(Clone, Copy, Debug)]
struct Expiry {
    unit: &'static Unit,
    /// From 1 on; added to a clock before the year 9999 it fits too.
    milliseconds: i64,
}

/// A word for a time.
#[derive(Debug)]
struct Unit {
    word: &'static str,
    milliseconds: i64,
    /// From now on, and not from the beginning of the Unix clock.
    from_now: bool,
}

const UNITS: [Unit; 4] = [
    Unit::new("EX", 1000, true),
    Unit::new("PX", 1, true),
    Unit::new("EXAT", 1000, false),
    Unit::new("PXAT", 1, false),
];

/// The end of the year 9999 in milliseconds of the Unix clock.
const LAST_DAY: i64 = 253_402_300_800_000;

impl KeyOptions {
    /// Takes `word`, and its value from `cursor`, if it is one of these options. `command` is named in
    /// errors.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take<'a, A: Argument<'a>>(
        &mut self,
        word: &[u8],
        cursor: &mut Cursor<'a, A>,
        command: &'static CStr,
    ) -> Result<bool, CommandError> {
        if word.eq_ignore_ascii_case(b"NX") {
            flag(&mut self.only_new, "NX")?;
            return Ok(true);
        }
        let is_word = |unit: &&Unit| word.eq_ignore_ascii_case(unit.word.as_bytes());
        let Some(unit) = UNITS.iter().find(is_word) else {
            return Ok(false);
        };
        let value = cursor.take_if_any().ok_or(CommandError::NoValue(unit.word))?;
        let number = iterator(value.bytes()).ok_or(CommandError::NoInteger)?;
        let milliseconds = unit.time(number).ok_or(CommandError::ExpireTime(command))?;
        match self.expiry.replace(Expiry { unit, milliseconds }) {
            None => Ok(true),
            Some(earlier) if earlier.unit.word == unit.word => Err(CommandError::Twice(unit.word)),
            Some(earlier) => Err(CommandError::Exclusive(earlier.unit.word, unit.word)),
        }
    }

    /// When the key of a filter that is made `now` expires, if ever: both in milliseconds of the Unix clock.
    pub fn expires(&self, now: i64) -> Option<i64> {
        let Expiry { unit, milliseconds } = self.expiry?;
        let start = if unit.from_now { now } else { 0 };
        Some(start.saturating_add(milliseconds))
    }
}

impl Unit {
    const fn new(word: &'static str, milliseconds: i64, from_now: bool) -> Self {
        Self {
            word,
            milliseconds,
            from_now,
        }
    }

    /// So many of it in milliseconds; `None` for what is no time.
    fn time(&self, number: i64) -> Option<i64> {
        let farthest = i64::MAX - if self.from_now { LAST_DAY } else { 0 };
        let time = number.checked_mul(self.milliseconds)?;
        (1..=farthest).contains(&time).then_some(time)
    }
}

/// The end of a key, in milliseconds of the Unix clock, as it is propagated.
pub fn words(expires: Option<i64>) -> Words {
    let words = Words::default();
    match expires {
        Some(at) => words.with("PXAT").with(at.to_string()),
        None => words,
    }
}
