//! How creations are propagated, and other commands that are not propagated in the client's words.
//!
//! The server that created a filter propagates every property of it, so that no receiver's configuration plays a part: in
//! RedisBloom's or valkey-bloom's words where these can say the filter, so that replicas with these modules can follow, and
//! otherwise in [a token](target::spec), which they refuse.

use std::ffi::CStr;

use crate::call::target::{self, Creation, Target};
use crate::call::words::{MOST_WORDS, Words};
use crate::rivals::{redisbloom, valkey};
use crate::server::{Arg, Ctx, OwnedString};
use libbloom::params::{ErrorRate, Time};
use libbloom::spec::Spec;

/// Propagates the creation of a filter with its first `items`, if any, or items that changed a window, with their time.
///
/// A creation is one command. Two would make a transaction: if its end is cut off from an append-only file, servers
/// up to Redis 7.0 and Valkey 8 lose whatever is appended later.
pub fn send(ctx: Ctx<'_>, key: Arg<'_>, to: Target, items: &[Arg<'_>]) {
    let (command, words) = command(to, !items.is_empty());
    propagate(ctx, command, key, &words, items);
}

/// The command for a filter that was created, or for items that changed an existing one, and the words between its key
/// and its items.
pub fn command(to: Target, has_items: bool) -> (&'static CStr, Words) {
    const INSERT: &CStr = c"BF.INSERT";
    let Some(created) = to.created else {
        let mut words = words_at(to.at);
        words.with("ITEMS");
        return (INSERT, words);
    };
    match created {
        // RedisBloom's releases make different filters of a higher rate. Of a client's command there is none.
        Creation {
            filter: Spec::Classic(spec),
            expires: None,
        } if spec.error_rate() <= ErrorRate::HIGHEST_USED => {
            let name = if has_items { INSERT } else { c"BF.RESERVE" };
            (name, redisbloom::words(spec, has_items))
        }
        Creation {
            filter: Spec::Valkey(spec),
            expires: None,
        } => (INSERT, valkey::words(spec, has_items)),
        // The arity of BF.RESERVE asks for another word.
        _ => (INSERT, target::spec(created, to.at)),
    }
}

/// The words that say when an existing filter with a window was changed; none for another filter.
pub fn words_at(at: Option<Time>) -> Words {
    let mut words = Words::NONE;
    if let Some(at) = at {
        words.with("NOCREATE").with("AT").with_number(at);
    }
    words
}

/// Propagates a command with `words` and then `items` after the key.
pub fn propagate(ctx: Ctx<'_>, command: &CStr, key: Arg<'_>, words: &Words, items: &[Arg<'_>]) {
    let mut strings = [const { None }; MOST_WORDS];
    for (string, word) in strings.iter_mut().zip(words.list()) {
        *string = Some(OwnedString::new(word));
    }
    let words = strings.iter().flatten().map(OwnedString::arg);
    ctx.replicate(command, key, words, items);
}
