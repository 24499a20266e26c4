//! How creations are propagated, and other commands that are not propagated in the client's words.
//!
//! The server that created a filter propagates every property of it. A blocked filter is described in the words of
//! [`grammar`], with LAYOUT and SEED. A classic filter is described in RedisBloom's words ([`redisbloom`]), and one
//! in valkey-bloom's layout in valkey-bloom's ([`valkey`]), so that replicas with these modules can follow. PXAT
//! tells when the key expires. Neither of the other modules reads that, so the layout is added too.

use std::ffi::CStr;

use super::args::Words;
use super::grammar::{self, Verb};
use super::spec::{Creation, FilterSpec, Target};
use super::{redisbloom, valkey};
use crate::server::{Arg, Ctx, OwnedString, few};

/// Propagates the creation of an empty filter. Every option is resolved: the receiver's own configuration plays no
/// part.
pub fn replicate(ctx: Ctx<'_>, key: Arg<'_>, creation: Creation) {
    let (command, words) = creating(creation);
    propagate(ctx, command, key, &words, &[]);
}

/// Propagates the creation of a filter with its first `items`, or items that changed a window, with their time.
///
/// A creation is one command. Two would make a transaction: if its end is cut off from an append-only file, servers
/// up to Redis 7.0 and Valkey 8 lose whatever is appended later.
pub fn replicate_with(ctx: Ctx<'_>, key: Arg<'_>, to: Target, items: &[Arg<'_>]) {
    propagate(ctx, c"BF.INSERT", key, &insert_words(to), items);
}

/// The command that creates exactly this filter without items, and the words after its key.
pub fn creating(creation: Creation) -> (&'static CStr, Words) {
    let to = Target {
        created: Some(creation),
        at: None,
    };
    match creation.filter {
        FilterSpec::Own(_) | FilterSpec::Classic(_) => (c"BF.RESERVE", words(Verb::Reserve, to)),
        // valkey-bloom's BF.RESERVE has neither the seed nor the tightening ratio.
        FilterSpec::Valkey(_) => (c"BF.INSERT", words(Verb::Insert, to)),
    }
}

/// The words between the key and the items of the BF.INSERT that creates exactly this filter, or changes an existing
/// one.
pub fn insert_words(to: Target) -> Words {
    words(Verb::Insert, to).with("ITEMS")
}

/// The words of a command between its key and its items.
pub fn words(verb: Verb, to: Target) -> Words {
    let filter = match to.created.map(|created| created.filter) {
        Some(FilterSpec::Classic(spec)) => redisbloom::words(verb == Verb::Reserve, spec),
        Some(FilterSpec::Valkey(spec)) => valkey::words(spec),
        Some(FilterSpec::Own(spec)) if verb == Verb::Reserve => {
            Words::sized(spec.error_rate.value(), spec.capacity.items())
        }
        Some(FilterSpec::Own(_)) | None => Words::default(),
    };
    filter.and(grammar::sent(verb, to))
}

/// Propagates a command with `words` and then `items` after the key.
pub fn propagate(ctx: Ctx<'_>, command: &CStr, key: Arg<'_>, words: &Words, items: &[Arg<'_>]) {
    let words = few(words.list().map(OwnedString::new));
    let head = few(std::iter::once(key).chain(words.iter().map(OwnedString::arg)));
    ctx.replicate(command, &head, items);
}
