//! What commands that change a filter with a window share: its time.
//!
//! Time is the primary's. What it propagates carries the time of the change, so that a replica, or a file that is
//! loaded on another day, makes the same slices of the same items.

use std::ffi::CStr;

use super::args::{Argument, Cursor, integer};
use super::creation::once;
use super::error::CommandError;
use super::propagation::Words;
use crate::bloom::Filter;
use crate::bloom::params::{LATEST, Time};
use crate::server::Ctx;

/// The event of a window that let layers go, or whose slice was ended.
pub const EVENT: &CStr = c"bf.rotate";

/// Takes `word`, and its value from `cursor`, if it is AT.
///
/// # Errors
/// What is wrong with it.
pub fn take_time<'a, A: Argument<'a>>(
    at: &mut Option<Time>,
    word: &[u8],
    cursor: &mut Cursor<'a, A>,
) -> Result<bool, CommandError> {
    if !word.eq_ignore_ascii_case(b"AT") {
        return Ok(false);
    }
    let value = cursor.take_if_any().ok_or(CommandError::NoValue("AT"))?;
    let time = integer(value.bytes()).ok_or(CommandError::BadTime)?;
    let time = Time::try_from(time).ok().filter(|&time| time <= LATEST);
    once(at, time.ok_or(CommandError::TimeRange)?, "AT")?;
    Ok(true)
}

/// Tells a filter the time that a command says. A primary's word, or a file's, is that of the clock that is obeyed: it
/// may say that an earlier one was wrong. A client's may be a mistake, which must not make a filter forget.
pub fn tell_time(ctx: Ctx<'_>, filter: &Filter, at: Option<Time>) {
    match at {
        Some(at) if ctx.is_relayed() => filter.set_clock(|| at),
        Some(at) => filter.set_clock_by_hearsay(at),
        None => {}
    }
}

/// The words that say when a change happened.
pub fn words(at: Option<Time>) -> Words {
    let words = Words::default();
    match at {
        Some(at) => words.with("AT").with(at.to_string()),
        None => words,
    }
}
