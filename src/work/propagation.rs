//! How creations are propagated, and other commands that are not propagated in the client's words.
//!
//! The server that created a filter propagates every property of it, so that no receiver's configuration plays a part: in
//! RedisBloom's or valkey-bloom's words where these can say the filter, so that replicas with these modules can follow, and
//! otherwise in a token, which they refuse.

use std::ffi::CStr;

use crate::call::target::{self, Target};
use crate::call::words::{MOST_WRITTEN, Word, Words, constant};
use crate::rivals::{redisbloom, valkey};
use crate::server::{Arg, Ctx, OwnedString};
use libbloom::params::{ErrorRate, Time};
use libbloom::spec::Spec;

/// The command for a filter that was created, or for items that changed one, with the words between key and items.
///
/// A creation is one command. Two would make a transaction: if its end is cut off from an append-only file, servers
/// up to Redis 7.0 and Valkey 8 lose whatever is appended later.
pub fn command(to: Target, has_items: bool) -> Words {
    const INSERT: &CStr = c"BF.INSERT";
    let Some(created) = to.created else {
        let mut words = at(INSERT, to.at);
        words.with(constant!("ITEMS"));
        return words;
    };
    match (created.filter, created.expires) {
        // RedisBloom's releases make different filters of a higher rate. Of a client's command there is none.
        (Spec::Classic(spec), None) if spec.error_rate() <= ErrorRate::HIGHEST_USED => {
            redisbloom::words(spec, has_items)
        }
        (Spec::Valkey(spec), None) => valkey::words(spec, has_items),
        // The arity of BF.RESERVE asks for another word.
        _ => target::spec(INSERT, created, to.at),
    }
}

/// A command whose words say when an existing filter with a window was changed; it has none for another filter.
pub fn at(command: &'static CStr, at: Option<Time>) -> Words {
    let mut words = Words::of(command);
    if let Some(at) = at {
        words.with(constant!("NOCREATE")).with(constant!("AT"));
        words.word().number(at);
    }
    words
}

/// Propagates a command with its words and then `items` after the key.
pub fn propagate(ctx: Ctx<'_>, key: Arg<'_>, words: &Words, items: &[Arg<'_>]) {
    let mut written = [const { None }; MOST_WRITTEN];
    let mut places = written.iter_mut();
    let arguments = words.list().filter_map(|word| match word {
        Word::Constant(constant) => Some(constant.arg()),
        Word::Written(bytes) => Some(places.next()?.insert(OwnedString::new(bytes)).arg()),
    });
    ctx.replicate(words.command, key, arguments, items);
}
