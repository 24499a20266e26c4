//! RedisBloom's words in commands that come from a primary or a file.
//!
//! RedisBloom sends its clients' words to its replicas and writes them to its file. So everything that it accepts
//! must mean the same here. It accepts more than this module accepts from a client:
//!
//! | command | what RedisBloom looks at |
//! |---|---|
//! | BF.RESERVE | whole words, wherever they stand, the key among them; the first EXPANSION; it ignores all others |
//! | BF.INSERT | letters: `I…` ends the options, `ER…` is ERROR, other `E…` EXPANSION, `C…` CAPACITY, `N.C…` NOCREATE, other `N…` NONSCALING; of options given again the last |
//!
//! This covers every version from 2.6 on. Words that all of them refuse are refused here too, whoever sent them, and
//! are then read as a client's command of this module.
//!
//! This module propagates the creation of a classic filter in the same words, so that RedisBloom can follow.

use std::sync::OnceLock;

use crate::call::args::{Argument, Cursor};
use crate::call::given::{Given, RequestedRate};
use crate::call::request::{Items, Request};
use crate::call::words::{Words, constant};
use crate::number;
use crate::options::values::Config;
use crate::server::Ctx;
use libbloom::params::ErrorRate;
use libbloom::spec::{ClassicSpec, Spec};

/// A release of RedisBloom, by how it treats an error rate above 0.25. No command tells which release sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Versions 2.6 and 2.8 use it unchanged.
    Two,
    /// Version 8 and later use 0.25 instead.
    Eight,
}

impl Release {
    /// The newest that this server could follow: RedisBloom 8 does not load in Redis before 8 and Valkey before 9.
    pub fn of_server(ctx: Ctx<'_>) -> Self {
        static RELEASE: OnceLock<Release> = OnceLock::new();
        *RELEASE.get_or_init(|| {
            let has = |field, first| Some(ctx.major_version(field)? >= first);
            match has(c"valkey_version", 9).or_else(|| has(c"redis_version", 8)) {
                Some(true) => Self::Eight,
                Some(false) | None => Self::Two,
            }
        })
    }
}

/// What RedisBloom's words say of a filter; they may leave fields open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    rate: Option<f64>,
    capacity: Option<i64>,
    expansion: Option<i64>,
    nonscaling: bool,
}

/// Reads the arguments of a BF.RESERVE; `None` if RedisBloom refuses them too.
pub fn reserve<'a, A: Argument<'a>>(
    arguments: &'a [A],
    config: &Config,
    release: Release,
) -> Option<Request<'a, A>> {
    let [key, rate, capacity, words @ ..] = arguments else {
        return None;
    };
    let is = |word: &A, name: &[u8]| word.bytes().eq_ignore_ascii_case(name);
    let expansion = match words.iter().position(|word| is(word, b"EXPANSION")) {
        Some(at) => Some(integer(words.get(at + 1)?.bytes())?),
        None => None,
    };
    // RedisBloom takes a key of that name for the word, unless an expansion is given.
    let of_key = is(key, b"NONSCALING") && expansion.is_none();
    let nonscaling = of_key || words.iter().any(|word| is(word, b"NONSCALING"));
    if nonscaling && expansion.is_some_and(|factor| factor > 0) {
        return None;
    }
    let said = Said {
        rate: Some(rate.double()?),
        capacity: Some(integer(capacity.bytes())?),
        expansion,
        nonscaling,
    };
    Some(Request {
        key: *key,
        given: said.given(config, release)?,
        items: Items::None,
    })
}

/// Reads the arguments of a BF.INSERT; `None` if RedisBloom refuses them too.
pub fn insert<'a, A: Argument<'a>>(
    arguments: &'a [A],
    config: &Config,
    release: Release,
) -> Option<Request<'a, A>> {
    let mut cursor = Cursor::new(arguments);
    let key = cursor.take_if_any()?;
    let (mut said, mut no_create) = (Said::default(), false);
    loop {
        let word = cursor.take_if_any()?.bytes();
        let letter = |at: usize| word.get(at).map_or(0, u8::to_ascii_lowercase);
        match [letter(0), letter(1), letter(2)] {
            [b'i', ..] => break,
            [b'e', b'r', _] => said.rate = Some(cursor.take_if_any()?.double()?),
            [b'e', ..] => said.expansion = Some(integer(cursor.take_if_any()?.bytes())?),
            [b'c', ..] => said.capacity = Some(integer(cursor.take_if_any()?.bytes())?),
            [b'n', _, b'c'] => no_create = true,
            [b'n', ..] => said.nonscaling = true,
            _ => return None,
        }
    }
    let items = Items::List(cursor.at_least_one().ok()?);
    let given = Given {
        no_create,
        ..said.given(config, release)?
    };
    Some(Request { key, given, items })
}

/// Parses an integer; the nearest that fits stands for one beyond 64 bits, and is outside of every range.
fn integer(bytes: &[u8]) -> Option<i64> {
    number::whole(bytes).map(|value| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

impl Said {
    /// The filter, with the configuration for the open fields; `None` if RedisBloom refuses it too.
    pub fn given(self, config: &Config, release: Release) -> Option<Given> {
        let requested = self.rate.unwrap_or(config.requested_error_rate);
        let rate = match release {
            Release::Two => requested,
            Release::Eight => requested.min(ErrorRate::HIGHEST_USED),
        };
        let capacity = match self.capacity {
            Some(capacity) => u64::try_from(capacity).ok()?,
            None => config.initial_size.items(),
        };
        let open = if self.nonscaling {
            ClassicSpec::UNUSED_EXPANSION
        } else {
            config.expansion_factor
        };
        let factor = u64::try_from(self.expansion.unwrap_or(open.into())).ok()?;
        let scales = !self.nonscaling && factor != 0;
        // RedisBloom keeps only the lower 32 bits.
        let spec = ClassicSpec::new(rate, capacity, factor as u32, scales).ok()?;
        let used = ErrorRate::new(requested).ok()?;
        Some(Given {
            rate: Some(RequestedRate { requested, used }),
            told: Some(Spec::Classic(spec).into()),
            ..Given::default()
        })
    }
}

/// The command that creates this filter: a BF.RESERVE or, with items, a BF.INSERT.
pub fn words(spec: ClassicSpec, has_items: bool) -> Words {
    let (rate, capacity, rules) = (spec.error_rate(), spec.capacity(), spec.rules());
    let is_fixed = !rules.scales() && rules.expansion() > 0;
    // RedisBloom keeps the lower 32 bits of an expansion: one that grows may have 0. A given 0 makes one that does not.
    let cut = if rules.scales() && rules.expansion() == 0 {
        1 << 32
    } else {
        0
    };
    let factor = cut + u64::from(rules.expansion());
    let mut words = Words::of(if has_items { c"BF.INSERT" } else { c"BF.RESERVE" });
    if has_items {
        words.with(constant!("ERROR")).word().rate(rate);
        words.with(constant!("CAPACITY")).word().number(capacity);
        words.with(constant!("EXPANSION")).word().number(factor);
    } else {
        words.word().rate(rate).word().number(capacity);
        // RedisBloom's BF.RESERVE accepts no expansion together with NONSCALING, and stores the usual one.
        if !is_fixed {
            words.with(constant!("EXPANSION")).word().number(factor);
        }
    }
    if is_fixed {
        words.with(constant!("NONSCALING"));
    }
    if has_items {
        words.with(constant!("ITEMS"));
    }
    words
}

#[cfg(test)]
mod tests;
