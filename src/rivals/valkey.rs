//! valkey-bloom's grammar of BF.INSERT, for commands that come from a primary or a file.
//!
//! valkey-bloom propagates each creation as a BF.INSERT with everything that describes the filter, and additions in
//! its clients' words. Words may be in upper or lower case, and a repeated word overrides the earlier one. ITEMS may
//! be missing; the filter is then created without any.
//!
//! This module propagates the creation of such a filter in the same words, so that valkey-bloom can follow. Its own
//! words are `LAYOUT VALKEY` and `PXAT`, which come together when the key has an expiry.

#[cfg(test)]
mod tests;

use crate::call::args::{Argument, Cursor, Words, iterator};
use crate::call::error::CommandError;
use crate::call::spec::Creation;
use crate::options::values::Config;
use libbloom::params::{SipSeed, Tightening};
use libbloom::spec::{Spec, ValkeySpec};

/// The length of the longest word, VALIDATESCALETO.
const LONGEST: usize = 15;

/// A BF.INSERT in valkey-bloom's words.
#[derive(Clone, Debug)]
pub struct ValkeyInsert<'a, A> {
    /// The key.
    pub key: A,
    /// What to do with a missing key.
    pub options: ValkeyOptions,
    /// The items; `None` without ITEMS.
    pub items: Option<&'a [A]>,
    /// Whether the command cannot be RedisBloom's: it has words that RedisBloom does not know, or no items.
    pub is_unmistakable: bool,
}

/// What valkey-bloom's words say of the filter to create; they may leave fields open.
#[derive(Clone, Debug, Default)]
pub struct ValkeyOptions {
    no_create: bool,
    rate: Option<f64>,
    capacity: Option<u64>,
    /// 0 where the filter does not grow.
    expansion: Option<u32>,
    tightening: Option<Tightening>,
    seed: Option<SipSeed>,
    expires: Option<i64>,
}

impl<'a, A: Argument<'a>> ValkeyInsert<'a, A> {
    /// Reads the arguments of a BF.INSERT; `None` if valkey-bloom refuses them too.
    pub fn read(arguments: &'a [A]) -> Option<Self> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take_if_any()?;
        let mut options = ValkeyOptions::default();
        let (mut is_own, mut has_goal, mut items) = (false, false, None);
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            let mut capitals = [0; LONGEST];
            let capitals = capitals.get_mut(..word.len())?;
            capitals.copy_from_slice(word);
            capitals.make_ascii_uppercase();
            match &*capitals {
                b"CAPACITY" => options.capacity = Some(items_of(cursor.take_if_any()?)?),
                b"ERROR" => options.rate = Some(share_of(cursor.take_if_any()?)?),
                b"EXPANSION" => {
                    let factor: u32 = parsed(cursor.take_if_any()?)?;
                    options.expansion = Some(factor).filter(|&factor| factor > 0);
                    options.expansion?;
                }
                b"NONSCALING" => options.expansion = Some(0),
                b"NOCREATE" => options.no_create = true,
                b"TIGHTENING" => {
                    let ratio = share_of(cursor.take_if_any()?)?;
                    options.tightening = Some(Tightening::new(ratio).ok()?);
                    is_own = true;
                }
                b"SEED" => {
                    let seed = cursor.take_if_any()?.bytes().try_into().ok()?;
                    options.seed = Some(SipSeed(seed));
                    is_own = true;
                }
                b"VALIDATESCALETO" => {
                    // The primary has checked it.
                    items_of(cursor.take_if_any()?)?;
                    (is_own, has_goal) = (true, true);
                }
                b"LAYOUT" => {
                    let layout = cursor.take_if_any()?.bytes();
                    layout.eq_ignore_ascii_case(b"VALKEY").then_some(())?;
                    is_own = true;
                }
                b"PXAT" => {
                    let at = iterator(cursor.take_if_any()?.bytes());
                    options.expires = Some(at.filter(|&at| at > 0)?);
                }
                b"ITEMS" => {
                    items = Some(cursor.at_least_one().ok()?);
                    break;
                }
                _ => return None,
            }
        }
        if has_goal && options.expansion == Some(0) {
            return None;
        }
        Some(Self {
            key,
            options,
            items,
            is_unmistakable: is_own || items.is_none(),
        })
    }
}

impl ValkeyOptions {
    /// The filter to create, with the configuration for the open fields.
    ///
    /// # Errors
    /// The command has NOCREATE.
    pub fn creation(&self, config: &Config) -> Result<Creation, CommandError> {
        if self.no_create {
            return Err(CommandError::NotFound);
        }
        let filter = ValkeySpec::new(
            self.rate.unwrap_or(config.requested_error_rate()),
            self.capacity.unwrap_or(config.initial_size().items()),
            self.expansion.unwrap_or(config.expansion_factor()),
            self.tightening.unwrap_or(Tightening::DEFAULT),
            self.seed.unwrap_or(config.seed().into()),
        );
        Ok(Creation {
            // All values were checked when they were read.
            filter: Spec::Valkey(filter.map_err(|_| CommandError::ErrorRateRange)?),
            expires: self.expires,
        })
    }
}

/// The words with which valkey-bloom propagates this filter, to the letter.
pub fn words(spec: ValkeySpec) -> Words {
    let rules = spec.rules();
    let words = Words::default()
        .with("CAPACITY")
        .with_number(spec.capacity())
        .with("ERROR")
        .with_number(rules.error_rate())
        .with("TIGHTENING")
        .with_number(rules.tightening().value())
        .with("SEED")
        .with(rules.seed().0);
    match rules.expansion() {
        0 => words.with("NONSCALING"),
        factor => words.with("EXPANSION").with_number(factor),
    }
}

/// Parses a number with Rust's standard library, as valkey-bloom does: `+5` is one.
fn parsed<'a, T: std::str::FromStr>(value: impl Argument<'a>) -> Option<T> {
    str::from_utf8(value.bytes()).ok()?.parse().ok()
}

/// Parses a number of items, 1 or more.
fn items_of<'a>(value: impl Argument<'a>) -> Option<u64> {
    let items: i64 = parsed(value)?;
    u64::try_from(items).ok().filter(|&items| items > 0)
}

/// Parses a number strictly between 0 and 1.
fn share_of<'a>(value: impl Argument<'a>) -> Option<f64> {
    parsed(value).filter(|&share| share > 0.0 && share < 1.0)
}
