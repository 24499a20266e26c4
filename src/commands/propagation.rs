//! How creations are propagated, and other commands that are not propagated in the client's words.
//!
//! The server that created a filter propagates every property of it. A blocked filter is described in a bundle: the
//! words of [`grammar`](super::grammar), with LAYOUT and SEED, in one argument. A classic filter is described in
//! RedisBloom's words ([`redisbloom`]), and one in valkey-bloom's layout in valkey-bloom's ([`valkey`]), so that
//! replicas with these modules can follow. PXAT says when the key expires. Neither of the other modules reads that, so
//! LAYOUT is added too.

use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use super::args::Words;
use super::grammar::Verb;
use super::spec::{Creation, Target};
use super::{redisbloom, valkey};
use crate::server::{Arg, Ctx, OwnedString, short_list};
use libbloom::params::{Capacity, ErrorRate, Expansion, Growth};
use libbloom::spec::{BlockedSpec, Spec};

/// What was sent, and the command and the words between key and items that said it.
struct Sent {
    to: Target,
    has_items: bool,
    command: &'static CStr,
    words: Vec<OwnedString>,
}

/// What was sent last. Filters are often made alike, and ten thousand that are made in a row are described once.
static LAST: Mutex<Option<Sent>> = Mutex::new(None);

/// Propagates the creation of a filter with its first `items`, if any, or items that changed a window, with their time.
/// Neither server's configuration plays a part.
///
/// A creation is one command. Two would make a transaction: if its end is cut off from an append-only file, servers
/// up to Redis 7.0 and Valkey 8 lose whatever is appended later.
pub fn send(ctx: Ctx<'_>, key: Arg<'_>, to: Target, items: &[Arg<'_>]) {
    let has_items = !items.is_empty();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let sent = match &mut *last {
        Some(sent) if (sent.to, sent.has_items) == (to, has_items) => sent,
        last => {
            let (command, words) = match to.created {
                Some(creation) if !has_items => creating(creation),
                _ => (c"BF.INSERT", insert_words(to)),
            };
            last.insert(Sent {
                to,
                has_items,
                command,
                words: strings(&words),
            })
        }
    };
    ctx.replicate(sent.command, key, &sent.words, items);
}

fn strings(words: &Words) -> Vec<OwnedString> {
    short_list(words.list().map(OwnedString::new))
}

/// The command that creates exactly this filter without items, and the words after its key.
pub fn creating(creation: Creation) -> (&'static CStr, Words) {
    let to = creation.into();
    match creation.filter {
        Spec::Blocked(_) | Spec::Classic(_) => (c"BF.RESERVE", words(Verb::Reserve, to)),
        // valkey-bloom's BF.RESERVE has neither the seed nor the tightening ratio.
        Spec::Valkey(_) => (c"BF.INSERT", words(Verb::Insert, to)),
    }
}

/// The words between the key and the items of the BF.INSERT that creates exactly this filter, or changes an existing
/// one.
pub fn insert_words(to: Target) -> Words {
    let words = words(Verb::Insert, to);
    match to {
        Target {
            created:
                Some(Creation {
                    filter: Spec::Blocked(_),
                    expires: None,
                }),
            at: None,
        } => words.with_more("ITEMS"),
        _ => words.with("ITEMS"),
    }
}

/// The words of a command between its key and its items. The receiver's configuration plays no part.
pub fn words(verb: Verb, to: Target) -> Words {
    let Target { created, at } = to;
    let words = match created {
        Some(creation) => description(verb, creation),
        None => Words::default().with("NOCREATE"),
    };
    match at {
        Some(at) => words.with("AT").with_number(at),
        None => words,
    }
}

/// The words for a filter that was created, and for its key's expiry.
fn description(verb: Verb, creation: Creation) -> Words {
    let Creation { filter, expires } = creation;
    let reserves = verb == Verb::Reserve;
    let names_layout = expires.is_some() || verb == Verb::AddPacked;
    let words = match filter {
        Spec::Blocked(spec) => bundle(reserves, spec),
        // LAYOUT also keeps an error rate that RedisBloom's versions treat differently; no client's command creates
        // such a filter.
        Spec::Classic(spec) if names_layout || spec.error_rate() > ErrorRate::HIGHEST_USED => {
            redisbloom::words(reserves, spec).with("LAYOUT").with("CLASSIC")
        }
        Spec::Classic(spec) => redisbloom::words(reserves, spec),
        Spec::Valkey(spec) if names_layout => valkey::words(spec).with("LAYOUT").with("VALKEY"),
        Spec::Valkey(spec) => valkey::words(spec),
    };
    match expires {
        Some(at) => words.with("PXAT").with_number(at),
        None => words,
    }
}

/// The words for a filter that only this module reads, in one argument: servers take longer over each argument than the
/// module takes over all of these words. What is this module's default is left out, except for the seed, and
/// [`GivenOptions::take_bundle`](super::grammar::GivenOptions::take_bundle) adds it. A growing filter of the default
/// size has no word for either, as its capacity would otherwise mean that it is reserved.
fn bundle(reserves: bool, spec: BlockedSpec) -> Words {
    let BlockedSpec {
        error_rate,
        capacity,
        growth,
        seed,
        window,
    } = spec;
    let (rate, items) = (error_rate.value(), capacity.items());
    let mut words = Words::default().with("BLOCKED").with("SEED").with_number(seed.0);
    let is_growing = matches!(growth, Growth::Growing(_));
    let has_size = reserves || !is_growing || capacity != Capacity::DEFAULT;
    if !reserves && error_rate != ErrorRate::DEFAULT {
        words = words.with("ERROR").with_rate(rate);
    }
    if !reserves && has_size {
        words = words.with("CAPACITY").with_number(items);
    }
    if is_growing && has_size {
        words = words.with("GROWING");
    }
    words = match growth.expansion() {
        Some(Expansion::DEFAULT) => words,
        Some(expansion) => words.with("EXPANSION").with_number(expansion.factor()),
        None => words.with("NONSCALING"),
    };
    if let Some(window) = window {
        words = words.with("WINDOW").with_number(window.seconds());
        words = words.with("SLICES").with_number(window.slices());
        if window.refresh() {
            words = words.with("REFRESH");
        }
    }
    let before = if reserves {
        Words::sized(rate, items)
    } else {
        Words::default()
    };
    words.list().fold(before.with("LAYOUT"), Words::with_more)
}

/// Propagates a command with `words` and then `items` after the key.
pub fn propagate(ctx: Ctx<'_>, command: &CStr, key: Arg<'_>, words: &Words, items: &[Arg<'_>]) {
    ctx.replicate(command, key, &strings(words), items);
}
