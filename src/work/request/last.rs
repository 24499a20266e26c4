//! The description that was read last. A replica gets the same one for each filter that its primary makes, as does a
//! server whose client makes many filters alike, and reads it once.

use std::sync::{Mutex, PoisonError};

use super::{Description, Items, Request, Verb};
use crate::call::args::Argument;
use crate::rivals::redisbloom;

/// More words, or longer ones, are read anew each time.
const MOST_WORDS: usize = 16;
const MOST_BYTES: usize = 192;

/// Words between a key and the items, and what they say.
struct Last {
    verb: Verb,
    relayed: bool,
    /// Whether items follow. The words before them say the same whatever they are.
    has_items: bool,
    count: usize,
    /// The length of each word.
    lengths: [u8; MOST_WORDS],
    /// The words, one after the other.
    text: [u8; MOST_BYTES],
    description: Description,
}

static LAST: Mutex<Option<Last>> = Mutex::new(None);

/// The request in these arguments, if its description was read last.
#[inline(never)]
pub fn read<'a, A: Argument<'a>>(verb: Verb, relayed: bool, arguments: &'a [A]) -> Option<Request<'a, A>> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let last = last
        .as_ref()
        .filter(|last| (last.verb, last.relayed) == (verb, relayed))?;
    let (&key, words) = arguments.split_first()?;
    let (words, items) = words.split_at_checked(last.count)?;
    if items.is_empty() == last.has_items || redisbloom::is_word(key) {
        return None;
    }
    let mut text = &last.text[..];
    for (word, &length) in words.iter().zip(&last.lengths) {
        let (expected, rest) = text.split_at(length.into());
        if word.bytes() != expected {
            return None;
        }
        text = rest;
    }
    Some(Request {
        key,
        description: last.description.clone(),
        items: if last.has_items {
            Items::List(items)
        } else {
            Items::None
        },
    })
}

/// Keeps the description of a request that was read from these arguments.
#[cold]
#[inline(never)]
pub fn keep<'a, A: Argument<'a>>(verb: Verb, relayed: bool, arguments: &[A], request: &Request<'_, A>) {
    let items = match request.items {
        Items::None => 0,
        Items::List(items) => items.len(),
        Items::Packed { .. } => return,
    };
    let words = &arguments[1..arguments.len() - items];
    if redisbloom::is_word(request.key) {
        return;
    }
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
        relayed,
        has_items: items > 0,
        count: words.len(),
        lengths,
        text,
        description: request.description.clone(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::args::Word;

    /// A filter would be made with options of the command before.
    #[test]
    fn options_mean_the_same_whatever_was_read_before() {
        let long = format!("key CAPACITY 100 LAYOUT {}", "x".repeat(300));
        let many = format!("key {}ITEMS a", "NONSCALING ".repeat(17));
        let lines = [
            "",
            "key",
            "key CAPACITY 100",
            "key CAPACITY 100 ITEMS a",
            "other CAPACITY 100 ITEMS b c",
            "key CAPACITY 100 ERROR 0.1 ITEMS a",
            "key CAPACITY 1 00 ITEMS a",
            "key CAPACITY 100 CAPACITY 100 ITEMS a",
            "key capacity 100 ITEMS a",
            "key CAPACITY 100 ITEMS",
            "key CAPACITY 100 ITEMS a CAPACITY 5",
            "key CAPACITY ITEMS a",
            "key ITEMS a",
            "key ITEMS ITEMS",
            "key I a",
            "key I ITEMS a",
            "key C 100 ER 0.1 NON ITEMS a",
            "key TIGHTENING 0.5 ITEMS a",
            "key LAYOUT VALKEY",
            "key LAYOUT VALKEY ITEMS a",
            "key LAYOUT_BLOCKED_SEED_9_ITEMS a",
            "key LAYOUT_BLOCKED_SEED_9 ITEMS a",
            "key LAYOUT_BLOCKED_SEED_9 AT 5 ITEMS a",
            "key LAYOUT_BLOCKED_SEED_8_ITEMS a",
            "key 0.1 100",
            "NONSCALING 0.1 100",
            "key 0.1 100 EX 10",
            "key 0.1 100 EX 11",
            "key 0.1 100 PXAT 11",
            "key 0.1 100 LAYOUT_BLOCKED_SEED_9",
            "key 0.1 100 NX SEED 7 LAYOUT BLOCKED",
            "key 0.1 100 NX SEED 7 LAYOUT CLASSIC",
            "key 0.1 1 00",
            &long,
            &many,
        ];
        let read = |verb: Verb, relayed: bool, line: &str| {
            let words: Vec<_> = line
                .split_whitespace()
                .map(|word| word.replace('_', " "))
                .collect();
            let words: Vec<_> = words.iter().map(|word| Word(word.as_bytes())).collect();
            format!("{:?}", Request::read(verb, relayed, &words))
        };
        let kinds = [Verb::Insert, Verb::Reserve].map(|verb| [(verb, false), (verb, true)]);
        for (verb, relayed) in kinds.concat() {
            for line in lines {
                // A command of two words, of which no line has the first.
                read(Verb::Insert, false, "key LAYOUT BLOCKED ITEMS a");
                let alone = read(verb, relayed, line);
                for before in lines {
                    for (other, from_other) in kinds.concat() {
                        read(other, from_other, before);
                        let now = read(verb, relayed, line);
                        assert_eq!(now, alone, "{verb:?} {line} after {other:?} {before}");
                    }
                }
                assert_eq!(read(verb, relayed, line), alone, "{verb:?} {line} again");
            }
        }
    }
}
