//! The requests without a server, for tests and fuzzing: arguments in, the filter that they describe out.
//!
//! A fuzzer builds with `--cfg fuzzing`; the module that servers load has none of this.

use super::args::{self, Argument};
use super::error::CommandError;
use super::{creation, info, insert, reserve};
use crate::bloom::params::Spec;
use crate::config::Config;

/// An argument that no server holds.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a>(pub &'a [u8]);

impl<'a> Argument<'a> for Word<'a> {
    fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// By the standard library's parser, which takes what the server's takes but for hexadecimal forms.
    fn double(self) -> Option<f64> {
        str::from_utf8(self.0).ok()?.parse().ok()
    }
}

/// The filter that BF.RESERVE of these arguments makes.
///
/// # Errors
/// What the command answers.
pub fn reserve(arguments: &[Word<'_>], config: &Config) -> Result<Spec, CommandError> {
    reserve::Request::parse(arguments)?.spec(config)
}

/// What BF.INSERT of these arguments adds, and the filter that it makes of a missing key.
///
/// # Errors
/// What the command answers for any key; the inner error is for a missing one only.
pub fn insert<'a>(
    arguments: &'a [Word<'a>],
    config: &Config,
) -> Result<(&'a [Word<'a>], Result<Spec, CommandError>), CommandError> {
    let request = insert::Request::parse(arguments)?;
    Ok((request.items(), request.spec(config)))
}

/// Whether BF.INFO knows this word.
///
/// # Errors
/// What the command answers.
pub fn info(word: &[u8]) -> Result<(), CommandError> {
    info::Selection::parse(word).map(|_| ())
}

/// The iterator that this argument of BF.SCANDUMP or BF.LOADCHUNK is.
pub fn iterator(word: &[u8]) -> Option<i64> {
    args::iterator(word)
}

/// The words after the key in the BF.RESERVE that a primary sends for this filter.
pub fn replicated(spec: Spec) -> Vec<String> {
    creation::reserve_words(spec)
}

/// The words between the key and the items in the BF.INSERT that a primary sends for this filter when it was
/// created with items.
pub fn replicated_with_items(spec: Spec) -> Vec<String> {
    creation::insert_words(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::params::Seed;
    use crate::config::ConfigOption;

    fn words(line: &str) -> Vec<Word<'_>> {
        line.split(' ').map(|word| Word(word.as_bytes())).collect()
    }

    /// A replica with other options would make another filter than its primary.
    #[test]
    fn what_is_replicated_means_the_same_under_any_configuration() {
        let here = Config::new(Seed(7));
        let mut there = Config::new(Seed(8));
        there.set(ConfigOption::Layout, "classic").unwrap();
        there.set(ConfigOption::ExpansionFactor, "0").unwrap();
        for line in [
            "key 0.01 100",
            "key 0.9 1099511627776 EXPANSION 32768",
            "key 1e-300 1 NONSCALING",
            "key 0.3333333333333333 12345 GROWING SEED 18446744073709551615",
            "key 0.1 10 LAYOUT CLASSIC EXPANSION 0",
        ] {
            let spec = reserve(&words(line), &here).unwrap();
            let replicated = format!("key {}", replicated(spec).join(" "));
            assert_eq!(reserve(&words(&replicated), &there), Ok(spec), "{line}");
            let replicated = format!("key {} a b", replicated_with_items(spec).join(" "));
            let arguments = words(&replicated);
            let (items, inserted) = insert(&arguments, &there).unwrap();
            assert_eq!(items.iter().map(|item| item.0).collect::<Vec<_>>(), [b"a", b"b"]);
            assert_eq!(inserted, Ok(spec), "{line}");
        }
    }
}
