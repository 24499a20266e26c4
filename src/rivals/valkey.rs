//! valkey-bloom's words in commands that come from a primary or a file.
//!
//! valkey-bloom propagates each creation as a BF.INSERT with everything that describes the filter, and additions in
//! its clients' words. Words may be in upper or lower case, and a repeated word overrides the earlier one. ITEMS may
//! be missing; the filter is then created without any.
//!
//! This module propagates the creation of such a filter in the same words, so that valkey-bloom can follow.

use crate::call::args::{Argument, Capitals, Cursor};
use crate::call::given::Given;
use crate::call::request::{Items, Request};
use crate::call::words::{Words, constant};
use crate::options::values::Config;
use libbloom::params::{SipSeed, Tightening};
use libbloom::spec::{Spec, ValkeySpec};

/// Reads the arguments of a BF.INSERT, with the configuration for open fields; `None` if valkey-bloom refuses them too.
pub fn insert<'a, A: Argument<'a>>(arguments: &'a [A], config: &Config) -> Option<Request<'a, A>> {
    let mut cursor = Cursor::new(arguments);
    let key = cursor.take_if_any()?;
    let (mut rate, mut capacity) = (config.requested_error_rate, config.initial_size.items());
    let (mut expansion, mut seed) = (None, config.seed().into());
    let (mut tightening, mut no_create) = (Tightening::DEFAULT, false);
    let (mut has_goal, mut items) = (false, Items::None);
    while let Some(word) = cursor.take_if_any() {
        match Capitals::of(word.bytes()).word() {
            b"CAPACITY" => capacity = items_of(cursor.take_if_any()?)?,
            b"ERROR" => rate = share_of(cursor.take_if_any()?)?,
            b"EXPANSION" => {
                expansion = Some(parsed(cursor.take_if_any()?).filter(|&factor: &u32| factor > 0)?)
            }
            b"NONSCALING" => expansion = Some(0),
            b"NOCREATE" => no_create = true,
            b"TIGHTENING" => {
                tightening = Tightening::new(share_of(cursor.take_if_any()?)?).ok()?;
            }
            b"SEED" => {
                seed = SipSeed(cursor.take_if_any()?.bytes().try_into().ok()?);
            }
            b"VALIDATESCALETO" => {
                // The primary has checked it.
                items_of(cursor.take_if_any()?)?;
                has_goal = true;
            }
            b"ITEMS" => {
                items = Items::List(cursor.at_least_one().ok()?);
                break;
            }
            _ => return None,
        }
    }
    if has_goal && expansion == Some(0) {
        return None;
    }
    let expansion = expansion.unwrap_or(config.expansion_factor);
    let filter = ValkeySpec::new(rate, capacity, expansion, tightening, seed).ok()?;
    let given = Given {
        no_create,
        told: Some(Spec::Valkey(filter).into()),
        ..Given::default()
    };
    Some(Request { key, given, items })
}

/// The words with which valkey-bloom propagates this filter, to the letter.
pub fn words(spec: ValkeySpec, has_items: bool) -> Words {
    let rules = spec.rules();
    let mut words = Words::of(c"BF.INSERT");
    words.with(constant!("CAPACITY")).word().number(spec.capacity());
    words.with(constant!("ERROR")).word().share(rules.error_rate());
    words
        .with(constant!("TIGHTENING"))
        .word()
        .share(rules.tightening().value());
    words.with(constant!("SEED")).word().bytes(&rules.seed().0);
    match rules.expansion() {
        0 => words.with(constant!("NONSCALING")),
        factor => words.with(constant!("EXPANSION")).word().number(factor.into()),
    };
    if has_items {
        words.with(constant!("ITEMS"));
    }
    words
}

/// Parses a number with Rust's standard library, as valkey-bloom does: `+5` is one.
fn parsed<'a, T: std::str::FromStr>(value: impl Argument<'a>) -> Option<T> {
    str::from_utf8(value.bytes()).ok()?.parse().ok()
}

fn items_of<'a>(value: impl Argument<'a>) -> Option<u64> {
    let items: i64 = parsed(value)?;
    u64::try_from(items).ok().filter(|&items| items > 0)
}

fn share_of<'a>(value: impl Argument<'a>) -> Option<f64> {
    parsed(value).filter(|&share| share > 0.0 && share < 1.0)
}

#[cfg(test)]
mod tests;
