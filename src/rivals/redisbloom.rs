//! RedisBloom's grammar of the commands that create filters, for commands that come from a primary or a file.
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
//! This module propagates the creation of a classic filter in the same words, so that RedisBloom can follow. The
//! words `LAYOUT CLASSIC` are its own; RedisBloom's BF.RESERVE ignores them. They say that the error rate is to be
//! used unchanged, whatever a [`Release`] makes of it.

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use crate::call::args::{Argument, Cursor, Words, integer};
use crate::call::error::CommandError;
use crate::options::values::Config;
use crate::server::Ctx;
use libbloom::error::ParamError;
use libbloom::params::ErrorRate;
use libbloom::spec::ClassicSpec;

/// A release of RedisBloom, by how it treats an error rate above 0.25. No command tells which release sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Versions 2.6 and 2.8 use it unchanged.
    Two,
    /// Version 8 and later use 0.25 instead.
    Eight,
}

impl Release {
    /// The newest release that this server could follow: RedisBloom 8 does not load in Redis before 8 and Valkey
    /// before 9.
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

    fn used(self, rate: f64) -> f64 {
        match self {
            Self::Two => rate,
            Self::Eight => rate.min(ErrorRate::HIGHEST_USED),
        }
    }
}

/// What RedisBloom's words say of a filter; they may leave fields open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RedisBloomOptions {
    rate: Option<f64>,
    capacity: Option<i64>,
    expansion: Option<i64>,
    nonscaling: bool,
    /// Whether the rate is used unchanged, whatever the [`Release`].
    exact: bool,
}

impl RedisBloomOptions {
    /// Reads the arguments of a BF.RESERVE: the key, and the filter.
    ///
    /// # Errors
    /// Arguments that RedisBloom refuses too.
    pub fn reserve<'a, A: Argument<'a>>(arguments: &'a [A]) -> Result<(A, Self), CommandError> {
        let [key, rate, capacity, words @ ..] = arguments else {
            return Err(CommandError::Arity);
        };
        let is = |word: &A, name: &str| word.bytes().eq_ignore_ascii_case(name.as_bytes());
        let expansion = match words.iter().position(|word| is(word, "EXPANSION")) {
            Some(at) => {
                let value = words.get(at + 1).ok_or(CommandError::NoExpansion)?;
                Some(integer(value.bytes()).ok_or(CommandError::BadExpansion)?)
            }
            None => None,
        };
        let nonscaling =
            words.iter().any(|word| is(word, "NONSCALING")) || (is_word(*key) && expansion.is_none());
        if nonscaling && expansion.is_some_and(|factor| factor > 0) {
            return Err(CommandError::NonScalingExpansion);
        }
        let filter = Self {
            rate: Some(rate.double().ok_or(CommandError::BadErrorRate)?),
            capacity: Some(integer(capacity.bytes()).ok_or(CommandError::BadCapacity)?),
            expansion,
            nonscaling,
            exact: words
                .windows(2)
                .any(|pair| is(&pair[0], "LAYOUT") && is(&pair[1], "CLASSIC")),
        };
        filter.check()?;
        Ok((*key, filter))
    }

    /// Reads the arguments of a BF.INSERT.
    ///
    /// # Errors
    /// Arguments that RedisBloom refuses too.
    pub fn insert<'a, A: Argument<'a>>(arguments: &'a [A]) -> Result<RedisBloomInsert<'a, A>, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let (mut filter, mut no_create) = (Self::default(), false);
        loop {
            let word = cursor.take()?.bytes();
            let letter = |at: usize| word.get(at).map(u8::to_ascii_lowercase);
            match letter(0) {
                Some(b'i') => break,
                Some(b'e') if letter(1) == Some(b'r') => {
                    let rate = cursor.take()?.double();
                    filter.rate = Some(rate.ok_or(CommandError::BadInsertErrorRate)?);
                }
                Some(b'e') => {
                    let factor = integer(cursor.take()?.bytes());
                    filter.expansion = Some(factor.ok_or(CommandError::BadInsertExpansion)?);
                }
                Some(b'c') => {
                    let items = integer(cursor.take()?.bytes());
                    filter.capacity = Some(items.ok_or(CommandError::BadInsertCapacity)?);
                }
                Some(b'n') if letter(2) == Some(b'c') => no_create = true,
                Some(b'n') => filter.nonscaling = true,
                Some(b'l') if word.eq_ignore_ascii_case(b"LAYOUT") => {
                    if !cursor.take()?.bytes().eq_ignore_ascii_case(b"CLASSIC") {
                        return Err(CommandError::unknown(word));
                    }
                    filter.exact = true;
                }
                _ => return Err(CommandError::unknown(word)),
            }
        }
        let items = cursor.at_least_one()?;
        filter.check()?;
        Ok(RedisBloomInsert {
            key,
            no_create,
            filter,
            items,
        })
    }

    /// Whether the options can describe a filter, whatever the configuration says.
    fn check(&self) -> Result<(), CommandError> {
        if self.expansion.is_some_and(|factor| factor < 0) {
            return Err(CommandError::ExpansionRange);
        }
        let rate = self.rate.unwrap_or(ErrorRate::DEFAULT.value());
        self.made(rate, self.capacity.unwrap_or(1), 1).map(|_| ())
    }

    /// The filter, with the configuration for the open fields.
    ///
    /// # Errors
    /// Never for a filter that was read without an error.
    pub fn spec(&self, config: &Config, release: Release) -> Result<ClassicSpec, CommandError> {
        let requested = self.requested_rate(config);
        let rate = if self.exact {
            requested
        } else {
            release.used(requested)
        };
        let capacity = self
            .capacity
            .unwrap_or(config.initial_size().items().cast_signed());
        let factor = if self.nonscaling {
            ClassicSpec::UNUSED_EXPANSION
        } else {
            config.expansion_factor()
        };
        self.made(rate, capacity, factor)
    }

    /// The error rate before a [`Release`] changes it.
    pub fn requested_rate(&self, config: &Config) -> f64 {
        self.rate.unwrap_or(config.requested_error_rate())
    }

    fn made(&self, rate: f64, capacity: i64, factor: u32) -> Result<ClassicSpec, CommandError> {
        let factor = self.expansion.unwrap_or(factor.into());
        let scales = !self.nonscaling && factor != 0;
        // RedisBloom keeps only the lower 32 bits.
        let expansion = factor as u32;
        let capacity = u64::try_from(capacity).unwrap_or(0);
        ClassicSpec::new(rate, capacity, expansion, scales).map_err(|error| match error {
            ParamError::ErrorRate => CommandError::ErrorRateRange,
            ParamError::Capacity
            | ParamError::Expansion
            | ParamError::Window
            | ParamError::Slices
            | ParamError::Tightening => CommandError::CapacityRange,
        })
    }
}

/// A BF.INSERT in RedisBloom's words.
#[derive(Clone, Debug)]
pub struct RedisBloomInsert<'a, A> {
    /// The key.
    pub key: A,
    /// Whether a missing key stays missing.
    pub no_create: bool,
    /// The filter to create for a missing key.
    pub filter: RedisBloomOptions,
    /// The items.
    pub items: &'a [A],
}

/// The words that create this filter, after the key of a BF.RESERVE or, if `reserves` is false, of a BF.INSERT.
pub fn words(reserves: bool, spec: ClassicSpec) -> Words {
    let (rate, capacity, rules) = (spec.error_rate(), spec.capacity(), spec.rules());
    let is_fixed = !rules.scales() && rules.expansion() > 0;
    // RedisBloom keeps only the lower 32 bits of an expansion. They may be 0 in a filter that grows, while a given 0
    // would make one that does not.
    let cut = if rules.scales() && rules.expansion() == 0 {
        1 << 32
    } else {
        0
    };
    let factor = cut + u64::from(rules.expansion());
    if reserves {
        let words = Words::sized(rate, capacity);
        // RedisBloom accepts no expansion together with NONSCALING, and stores the usual one.
        return if is_fixed {
            words.with("NONSCALING")
        } else {
            words.with("EXPANSION").with_number(factor)
        };
    }
    let words = Words::named(rate, capacity).with("EXPANSION").with_number(factor);
    if is_fixed { words.with("NONSCALING") } else { words }
}

/// The most words that RedisBloom accepts after the capacity of a BF.RESERVE.
pub const MOST_WORDS: usize = 3;

/// Whether RedisBloom takes this key of a BF.RESERVE for a word. For a key named NONSCALING it makes a filter that does
/// not grow, or none if an expansion is given.
pub fn is_word<'a>(key: impl Argument<'a>) -> bool {
    key.bytes().eq_ignore_ascii_case(b"NONSCALING")
}
