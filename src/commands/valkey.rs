//! valkey-bloom's grammar of BF.INSERT, for what comes from a primary or a file.
//!
//! A valkey-bloom tells its replicas, and writes to its file, of every filter that is made by a BF.INSERT with all that
//! describes it, and of items in the words of its clients. Words may be in any case, and of words given again the last
//! one counts; ITEMS may be missing, and then the filter is made without any.
//!
//! This module says in the same words how such a filter is made, so that a valkey-bloom can follow it. Its own are
//! `LAYOUT VALKEY` and `PXAT`, which come together, where the key is to expire.

use super::args::{Argument, Cursor, iterator};
use super::creation::{Creation, FilterSpec};
use super::error::CommandError;
use crate::bloom::params::{SipSeed, Tightening, ValkeySpec};
use crate::options::values::Config;

/// The length of the longest word, VALIDATESCALETO.
const LONGEST: usize = 15;

/// A BF.INSERT.
#[derive(Clone, Debug)]
pub struct Insert<'a, A> {
    /// The key.
    pub key: A,
    /// What is to become of a missing key.
    pub missing: Missing,
    /// The items, unless there is no ITEMS.
    pub items: Option<&'a [A]>,
    /// Whether it is not to be taken for one of RedisBloom's: it has words that only such filters have, or no items.
    pub is_unmistakable: bool,
}

/// What was said of a missing key, as far as anything was.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    no_create: bool,
    rate: Option<f64>,
    capacity: Option<u64>,
    /// 0 where the filter does not grow.
    expansion: Option<u32>,
    tightening: Option<Tightening>,
    seed: Option<SipSeed>,
    expires: Option<i64>,
}

impl<'a, A: Argument<'a>> Insert<'a, A> {
    /// Reads what follows the name of the command; `None` for what a valkey-bloom refuses too.
    pub fn read(arguments: &'a [A]) -> Option<Self> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take_if_any()?;
        let mut missing = Missing::default();
        let (mut is_own, mut has_goal, mut items) = (false, false, None);
        while let Some(word) = cursor.take_if_any() {
            // A word of any length may come, and is not copied for being none of these.
            let word = word.bytes();
            if word.len() > LONGEST {
                return None;
            }
            match &word.to_ascii_uppercase()[..] {
                b"CAPACITY" => missing.capacity = Some(items_of(cursor.take_if_any()?)?),
                b"ERROR" => missing.rate = Some(share_of(cursor.take_if_any()?)?),
                b"EXPANSION" => {
                    let factor: u32 = parsed(cursor.take_if_any()?)?;
                    missing.expansion = Some(factor).filter(|&factor| factor > 0);
                    missing.expansion?;
                }
                b"NONSCALING" => missing.expansion = Some(0),
                b"NOCREATE" => missing.no_create = true,
                b"TIGHTENING" => {
                    let ratio = share_of(cursor.take_if_any()?)?;
                    missing.tightening = Some(Tightening::new(ratio).ok()?);
                    is_own = true;
                }
                b"SEED" => {
                    let seed = cursor.take_if_any()?.bytes().try_into().ok()?;
                    missing.seed = Some(SipSeed(seed));
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
                    missing.expires = Some(at.filter(|&at| at > 0)?);
                }
                b"ITEMS" => {
                    items = Some(cursor.at_least_one().ok()?);
                    break;
                }
                _ => return None,
            }
        }
        if has_goal && missing.expansion == Some(0) {
            return None;
        }
        Some(Self {
            key,
            missing,
            items,
            is_unmistakable: is_own || items.is_none(),
        })
    }
}

impl Missing {
    /// The filter to be made, with the configuration for what was not said.
    ///
    /// # Errors
    /// NOCREATE.
    pub fn creation(&self, config: &Config) -> Result<Creation, CommandError> {
        if self.no_create {
            return Err(CommandError::NotFound);
        }
        let filter = ValkeySpec::new(
            self.rate.unwrap_or(config.asked_error_rate()),
            self.capacity.unwrap_or(config.initial_size().items()),
            self.expansion.unwrap_or(config.expansion_factor()),
            self.tightening.unwrap_or(Tightening::DEFAULT),
            self.seed.unwrap_or(config.seed().into()),
        );
        Ok(Creation {
            // What was read is in its range.
            filter: FilterSpec::Valkey(filter.map_err(|_| CommandError::ErrorRateRange)?),
            expires: self.expires,
        })
    }
}

/// A number as Rust's standard library reads it, in which valkey-bloom is written: `+5` is one.
fn parsed<'a, T: std::str::FromStr>(value: impl Argument<'a>) -> Option<T> {
    str::from_utf8(value.bytes()).ok()?.parse().ok()
}

/// A number of items.
fn items_of<'a>(value: impl Argument<'a>) -> Option<u64> {
    let items: i64 = parsed(value)?;
    u64::try_from(items).ok().filter(|&items| items > 0)
}

/// A number strictly between 0 and 1.
fn share_of<'a>(value: impl Argument<'a>) -> Option<f64> {
    parsed(value).filter(|&share| share > 0.0 && share < 1.0)
}
