//! The options that were read last. A replica gets the same ones for each filter that its primary makes, as does a
//! server whose client makes many filters alike, and reads them once.

use std::sync::{Mutex, PoisonError};

use super::{Given, Verb};
use crate::commands::args::{Argument, Cursor};

/// More words, or longer ones, are read anew each time.
const MOST_WORDS: usize = 16;
const MOST_BYTES: usize = 192;

/// Words, and what they say.
struct Last {
    verb: Verb,
    count: usize,
    /// The length of each word.
    lengths: [u8; MOST_WORDS],
    /// The words, one after the other.
    text: [u8; MOST_BYTES],
    given: Given,
}

static LAST: Mutex<Option<Last>> = Mutex::new(None);

/// Reads what the first of these words say into `given`, if they were read last, and moves the cursor behind them.
/// Returns whether it did.
#[inline(never)]
pub fn read<'a, A: Argument<'a>>(verb: Verb, cursor: &mut Cursor<'a, A>, given: &mut Given) -> bool {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(last) = last.as_ref().filter(|last| last.verb == verb) else {
        return false;
    };
    let mut after = *cursor;
    let Some(words) = after.take_many(last.count) else {
        return false;
    };
    let mut text = &last.text[..];
    for (word, &length) in words.iter().zip(&last.lengths) {
        let (expected, rest) = text.split_at(length.into());
        if word.bytes() != expected {
            return false;
        }
        text = rest;
    }
    *cursor = after;
    given.clone_from(&last.given);
    true
}

/// Keeps what these words say.
#[cold]
#[inline(never)]
pub fn keep<'a, A: Argument<'a>>(verb: Verb, words: &[A], given: &Given) {
    let (mut lengths, mut text) = ([0; MOST_WORDS], [0; MOST_BYTES]);
    let mut end = 0;
    for (at, word) in words.iter().enumerate() {
        let word = word.bytes();
        let place = text.get_mut(end..end + word.len());
        let (Some(place), Some(length), Ok(bytes)) = (place, lengths.get_mut(at), word.len().try_into())
        else {
            return;
        };
        place.copy_from_slice(word);
        *length = bytes;
        end += word.len();
    }
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last {
        verb,
        count: words.len(),
        lengths,
        text,
        given: given.clone(),
    });
}
