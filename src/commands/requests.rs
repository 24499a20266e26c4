//! The requests without a server, for tests and fuzzing: arguments in, the filter that they describe out. A
//! client's server has another clock than who is told later.
//!
//! A fuzzer builds with `--cfg fuzzing`; the module that servers load has none of this.

use std::ffi::CStr;

use super::adding::Target;
use super::args::{self, Argument};
pub use super::creation::{Creation, FilterSpec};
use super::error::CommandError;
use super::propagation;
pub use super::propagation::Words;
pub use super::redisbloom::Release;
pub use super::sources::Combination;
use super::{addpacked, existspacked, info, insert, intersect, merge, packed, reserve};
use crate::bloom::packed::{Form, Packed};
use crate::bloom::params::ErrorRate;
use crate::options::values::Config;

/// An argument that no server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The clock of a client's server, in milliseconds.
const NOW: i64 = 1_800_000_000_000;
/// That of who is told by a primary or a file.
const LATER: i64 = NOW + 123_456_789;

/// The filter that BF.RESERVE of these arguments makes.
///
/// # Errors
/// What the command answers.
pub fn reserve(arguments: &[Word<'_>], config: &Config) -> Result<Creation, CommandError> {
    let request = reserve::Request::parse(arguments)?;
    request.check_goal(config)?;
    request.creation(config, Release::Eight, NOW)
}

/// The same when they come from a primary or a file.
///
/// # Errors
/// What the command answers.
pub fn obey_reserve(
    arguments: &[Word<'_>],
    config: &Config,
    release: Release,
) -> Result<Creation, CommandError> {
    reserve::Request::obey(arguments)?.creation(config, release, LATER)
}

/// The items of a BF.INSERT, if it has ITEMS, and the filter that it makes of a missing key.
pub type Inserted<'a> = (Option<&'a [Word<'a>]>, Result<Creation, CommandError>);

/// What BF.INSERT of these arguments adds, and the filter that it makes of a missing key.
///
/// # Errors
/// What the command answers for any key; the inner error is for a missing one only.
pub fn insert<'a>(arguments: &'a [Word<'a>], config: &Config) -> Result<Inserted<'a>, CommandError> {
    let request = insert::Request::parse(arguments)?;
    if request.items().is_none() {
        request.may_lack_items(|| false, config)?;
    }
    request.check_goal(|| config.clone())?;
    inserted(&request, config, Release::Eight, NOW)
}

/// The same when they come from a primary or a file.
///
/// # Errors
/// What the command answers for any key; the inner error is for a missing one only.
pub fn obey_insert<'a>(
    arguments: &'a [Word<'a>],
    config: &Config,
    release: Release,
) -> Result<Inserted<'a>, CommandError> {
    inserted(&insert::Request::obey(arguments)?, config, release, LATER)
}

fn inserted<'a>(
    request: &insert::Request<'a, Word<'a>>,
    config: &Config,
    release: Release,
    now: i64,
) -> Result<Inserted<'a>, CommandError> {
    if request.items().is_none() {
        request.may_lack_items(|| false, config)?;
    }
    Ok((request.items(), request.creation(config, release, now)))
}

/// The items that BF.EXISTSPACKED of these arguments asks for.
///
/// # Errors
/// What the command answers.
pub fn exists_packed<'a>(arguments: &'a [Word<'a>]) -> Result<Packed<'a>, CommandError> {
    existspacked::Request::parse(arguments).map(|request| request.items)
}

/// The items of a BF.ADDPACKED, and the filter that it makes of a missing key.
pub type AddedPacked<'a> = (Packed<'a>, Result<Creation, CommandError>);

/// The items that BF.ADDPACKED of these arguments adds, and the filter that it makes of a missing key.
///
/// # Errors
/// What the command answers for any key; the inner error is for a missing one only.
pub fn add_packed<'a>(arguments: &'a [Word<'a>], config: &Config) -> Result<AddedPacked<'a>, CommandError> {
    let request = addpacked::Request::parse(arguments)?;
    request.missing.check_goal(|| config.clone())?;
    Ok((request.items, request.missing.creation(config, NOW)))
}

/// The same when they come from a primary or a file.
///
/// # Errors
/// What the command answers for any key; the inner error is for a missing one only.
pub fn obey_add_packed<'a>(
    arguments: &'a [Word<'a>],
    config: &Config,
) -> Result<AddedPacked<'a>, CommandError> {
    let request = addpacked::Request::parse(arguments)?;
    Ok((request.items, request.missing.creation(config, LATER)))
}

/// The keys of a BF.MERGE, the error rate of the result if it was said, and whether what the destination holds goes.
pub type Merged<'a> = (Combination<'a, Word<'a>>, Option<ErrorRate>, bool);

/// What BF.MERGE of these arguments does.
///
/// # Errors
/// What the command answers.
pub fn merge<'a>(arguments: &'a [Word<'a>]) -> Result<Merged<'a>, CommandError> {
    let request = merge::Request::parse(arguments)?;
    Ok((request.keys, request.used_rate(), request.overrides))
}

/// The keys of a BF.INTERSECT of these arguments.
///
/// # Errors
/// What the command answers.
pub fn intersect<'a>(arguments: &'a [Word<'a>]) -> Result<Combination<'a, Word<'a>>, CommandError> {
    intersect::parse(arguments)
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

/// The filter that this command of these arguments makes, when it comes from a primary or a file: of what
/// [`replicated`] says.
///
/// # Errors
/// What the command answers.
pub fn obey_creating(
    command: &CStr,
    arguments: &[Word<'_>],
    config: &Config,
    release: Release,
) -> Result<Creation, CommandError> {
    if command == c"BF.RESERVE" {
        return obey_reserve(arguments, config, release);
    }
    let (items, creation) = obey_insert(arguments, config, release)?;
    assert_eq!(items, None, "a filter without items has some");
    creation
}

/// The command that a primary sends for this filter, and the words after its key.
pub fn replicated(creation: Creation) -> (&'static CStr, Words) {
    propagation::creating(creation)
}

/// The words between the key and the items in the BF.INSERT that a primary sends for this filter when it was
/// created with items.
pub fn replicated_with_items(creation: Creation) -> Words {
    propagation::insert_words(Target {
        created: Some(creation),
        at: None,
    })
}

/// The words between the key and the data in the BF.ADDPACKED that a primary sends: items in this form, and the filter
/// if it was created with them.
pub fn replicated_packed(created: Option<Creation>, form: Form) -> Words {
    packed::words(Target { created, at: None }, form)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::debug;
    use super::*;
    use crate::bloom::UNLIMITED;
    use crate::bloom::error::ParamError;
    use crate::bloom::params::{Seed, SipSeed, Tightening, ValkeySpec};
    use crate::options::values::{ConfigOption, LayoutName};

    fn words(line: &str) -> Vec<Word<'_>> {
        line.split(' ').map(|word| Word(word.as_bytes())).collect()
    }

    /// What is told of a key: the words that are propagated, then items.
    fn told<'a>(key: &'a str, words: &'a Words, items: &[&'a str]) -> Vec<Word<'a>> {
        let items = items.iter().map(|item| item.as_bytes());
        let all = std::iter::once(key.as_bytes()).chain(words.list()).chain(items);
        all.map(Word).collect()
    }

    /// A replica with other options would make another filter than its primary.
    #[test]
    fn what_is_replicated_means_the_same_under_any_configuration() {
        let here = Config::new(Seed(7));
        let there = elsewhere();
        for line in [
            "NONSCALING 0.01 100",
            "EXPANSION 0.01 100 LAYOUT CLASSIC",
            "NONSCALING 0.01 100 LAYOUT CLASSIC",
            "key 0.1 10 LAYOUT CLASSIC NONSCALING",
            "key 0.1 10 LAYOUT CLASSIC EXPANSION 32768",
            "key 0.01 100",
            "key 0.9 1099511627776 EXPANSION 32768",
            "key 1e-300 1 NONSCALING",
            "key 0.3333333333333333 12345 GROWING SEED 18446744073709551615",
            "key 0.1 10 LAYOUT CLASSIC EXPANSION 0",
            "key 0.01 100 EX 1",
            "key 0.01 100 NX PX 9000000000000000000 SEED 1",
            "EXPANSION 0.9 100 EXAT 1 LAYOUT CLASSIC",
            "NONSCALING 0.5 100 PXAT 9223372036854775807 NONSCALING LAYOUT CLASSIC",
            "key 0.1 10 LAYOUT CLASSIC EXPANSION 0 EXAT 9223372036854775",
            "key 0.1 10 PXAT 1 EXPANSION 32768",
        ] {
            let key = line.split(' ').next().unwrap();
            let made = reserve(&words(line), &here).unwrap();
            is_told(key, made, &there);
            is_told_packed(key, made, &there);
        }
    }

    /// A configuration that makes other filters.
    fn elsewhere() -> Config {
        let mut there = Config::new(Seed(8));
        there.set(ConfigOption::Layout, "classic").unwrap();
        there.set(ConfigOption::ExpansionFactor, "0").unwrap();
        there
    }

    /// Whoever is told of this filter makes the same one, with and without items.
    #[track_caller]
    fn is_told(key: &str, made: Creation, there: &Config) {
        let ((command, alone), inserted) = (replicated(made), replicated_with_items(made));
        for release in [Release::Two, Release::Eight] {
            let alone = told(key, &alone, &[]);
            assert_eq!(obey_creating(command, &alone, there, release), Ok(made));
            let arguments = told(key, &inserted, &["a", "ITEMS"]);
            let (items, created) = obey_insert(&arguments, there, release).unwrap();
            assert_eq!(items, Some(&[Word(b"a"), Word(b"ITEMS")][..]));
            assert_eq!(created, Ok(made));
        }
    }

    /// The same with packed items.
    #[track_caller]
    fn is_told_packed(key: &str, made: Creation, there: &Config) {
        for (form, data) in [(Form::Lines, "a\nb"), (Form::Prefixed, "\x01\0\0\0a\x01\0\0\0b")] {
            let packed = replicated_packed(Some(made), form);
            let arguments = told(key, &packed, &[data]);
            let (items, created) = obey_add_packed(&arguments, there).unwrap();
            assert_eq!((items.form(), items.count()), (form, 2));
            assert_eq!(created, Ok(made));
        }
    }

    /// Seeds whose bytes are what separates words, ends texts, or looks like one.
    const SEEDS: [&[u8; 32]; 6] = [
        b"                                ",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r",
        b"00000000000000000000000000000007",
        b"ITEMS LAYOUT CLASSIC  NONSCALING",
        b"\xff\xfe\x80 \0\t\n\r\xc3\x28\xa0\xa1\xe2\x28\xa1\xf0\x28\x8c\xbc\xf8\xa1\xa1\xa1\xa1\xfc\xa1\xa1\xa1\xa1\xa1\xff\xff",
    ];

    fn valkey(
        rate: f64,
        capacity: u64,
        expansion: u32,
        tightening: f64,
        seed: [u8; 32],
    ) -> Result<FilterSpec, ParamError> {
        let tightening = Tightening::new(tightening)?;
        ValkeySpec::new(rate, capacity, expansion, tightening, SipSeed(seed)).map(FilterSpec::Valkey)
    }

    /// A replica of a filter in valkey-bloom's layout would have other bits than its primary, and say of items that
    /// they are missing.
    #[test]
    fn every_filter_of_valkey_bloom_is_replicated_as_it_is() {
        let there = elsewhere();
        let rates = [
            5e-324,
            1e-310,
            1e-300,
            1e-17,
            0.01,
            0.3333333333333333,
            0.9999,
            1.0 - f64::EPSILON / 2.0,
        ];
        let mut tried = 0;
        for (rate, ratio) in rates.iter().zip(rates.iter().rev()) {
            for (capacity, expansion) in [(1, 0), (100, 2), (i64::MAX as u64, u32::MAX), (1 << 41, 32_769)] {
                for (seed, expires) in SEEDS
                    .iter()
                    .zip([None, Some(1), Some(i64::MAX)].into_iter().cycle())
                {
                    let filter = valkey(*rate, capacity, expansion, *ratio, **seed).unwrap();
                    let made = Creation { filter, expires };
                    is_told("key", made, &there);
                    is_told("ITEMS", made, &there);
                    tried += 1;
                }
            }
        }
        assert_eq!(tried, 8 * 4 * 6);
    }

    /// What a valkey-bloom that follows this server is told would be refused by it, or be another filter there.
    #[test]
    fn valkey_bloom_is_told_in_its_own_words() {
        let seed = SEEDS[3];
        let said = |rate, expansion, expires| {
            let filter = valkey(rate, 100, expansion, 0.5, *seed).unwrap();
            let (command, words) = replicated(Creation { filter, expires });
            assert_eq!(command, c"BF.INSERT");
            let words: Vec<_> = words
                .list()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            words.join(" ").replace(str::from_utf8(seed).unwrap(), "(seed)")
        };
        assert_eq!(
            said(0.01, 2, None),
            "CAPACITY 100 ERROR 0.01 TIGHTENING 0.5 SEED (seed) EXPANSION 2"
        );
        assert_eq!(
            said(1e-7, 0, None),
            "CAPACITY 100 ERROR 0.0000001 TIGHTENING 0.5 SEED (seed) NONSCALING"
        );
        assert_eq!(
            said(0.9, 7, Some(5)),
            "CAPACITY 100 ERROR 0.9 TIGHTENING 0.5 SEED (seed) EXPANSION 7 LAYOUT VALKEY PXAT 5"
        );
    }

    /// A replica would make another filter of valkey-bloom's layout than a client asked for, or a filter of another
    /// layout.
    #[test]
    fn what_a_client_makes_in_valkey_bloom_s_layout_is_replicated_as_it_is() {
        let here = Config::new(Seed(7));
        let mut by_option = here.clone();
        by_option.set(ConfigOption::Layout, "valkey").unwrap();
        by_option.set(ConfigOption::ErrorRate, "0.7").unwrap();
        let there = elsewhere();
        let made_of = |line: &str, config: &Config| {
            let reserved = format!("0.9 1000 {line}");
            let inserted = format!("ERROR 0.9 CAPACITY 1000 {line} ITEMS a");
            let packed = format!("ERROR 0.9 CAPACITY 1000 {line} LINES a");
            let key = [Word(b"key")];
            let arguments = |line| [&key[..], &words(line)].concat();
            let made = reserve(&arguments(&reserved), config).unwrap();
            assert_eq!(
                insert(&arguments(&inserted), config).unwrap().1,
                Ok(made),
                "{line}"
            );
            assert_eq!(
                add_packed(&arguments(&packed), config).unwrap().1,
                Ok(made),
                "{line}"
            );
            is_told("key", made, &there);
            is_told_packed("key", made, &there);
            made
        };
        let numbered = SipSeed::from(Seed(7)).0;
        let usual = valkey(0.9, 1000, 2, 0.5, numbered).unwrap().into();
        for line in [
            "LAYOUT VALKEY",
            "layout valkey Seed 7",
            "VALIDATESCALETO 1000000",
            "TIGHTENING 0.5",
            "TightenING 5e-1 SEED 7 EXPANSION 2",
        ] {
            assert_eq!(made_of(line, &here), usual, "{line}");
        }
        assert_eq!(made_of("EXPANSION 2", &by_option), usual);
        let other = valkey(0.9, 1000, 32_768, 1e-300, SipSeed::from(Seed(u64::MAX)).0).unwrap();
        assert_eq!(
            made_of(
                "TIGHTENING 1e-300 EXPANSION 32768 SEED 18446744073709551615",
                &here
            ),
            other.into()
        );
        let fixed = valkey(0.9, 1000, 0, 0.25, numbered).unwrap();
        for line in [
            "NONSCALING TIGHTENING 0.25",
            "EXPANSION 0 TIGHTENING 0.25 LAYOUT VALKEY",
        ] {
            assert_eq!(made_of(line, &here), fixed.into(), "{line}");
        }
        for seed in SEEDS {
            let arguments = [&b"key"[..], b"0.01", b"100", b"SEED", seed].map(Word);
            let made = reserve(&arguments, &here).unwrap();
            assert_eq!(made, valkey(0.01, 100, 2, 0.5, *seed).unwrap().into());
            is_told("key", made, &there);
        }
        // Nothing was said: the options say it, and the rate is the one that was asked for.
        let default = valkey(0.7, 100, 2, 0.5, numbered).unwrap();
        for line in ["key ITEMS a", "key"] {
            let made = insert(&words(line), &by_option).unwrap().1;
            assert_eq!(made, Ok(default.into()), "{line}");
        }
    }

    /// A user would look for the mistake in the wrong place, or get a filter that he did not mean.
    #[test]
    fn words_for_valkey_bloom_s_layout_are_refused_where_they_contradict() {
        let config = Config::new(Seed(7));
        let refused = |options: &str, config: &Config| {
            let packed = format!("key {options} LINES a");
            let inserted = format!("key {options} ITEMS a");
            let (packed, inserted) = (words(&packed), words(&inserted));
            let [reserved, inserted, packed] = [
                reserve(&words(&format!("key 0.01 100 {options}")), config).map(|_| ()),
                insert(&inserted, config).and_then(|(_, made)| made.map(|_| ())),
                add_packed(&packed, config).and_then(|(_, made)| made.map(|_| ())),
            ];
            let error = reserved.unwrap_err().to_string();
            assert_eq!(inserted.unwrap_err().to_string(), error, "{options}");
            assert_eq!(packed.unwrap_err().to_string(), error, "{options}");
            error
        };
        for (options, error) in [
            ("TIGHTENING x", "ERR bad tightening ratio"),
            ("TIGHTENING nan", "ERR bad tightening ratio"),
            ("TIGHTENING 0", "ERR tightening ratio must be in the range (0, 1)"),
            ("TIGHTENING 1", "ERR tightening ratio must be in the range (0, 1)"),
            (
                "TIGHTENING -0.5",
                "ERR tightening ratio must be in the range (0, 1)",
            ),
            (
                "TIGHTENING 1e-400",
                "ERR tightening ratio must be in the range (0, 1)",
            ),
            (
                "TIGHTENING inf",
                "ERR tightening ratio must be in the range (0, 1)",
            ),
            ("TIGHTENING 0.5 TIGHTENING 0.5", "ERR TIGHTENING was given twice"),
            (
                "TIGHTENING 0.5 LAYOUT BLOCKED",
                "ERR TIGHTENING is for LAYOUT VALKEY only",
            ),
            (
                "LAYOUT CLASSIC TIGHTENING 0.5",
                "ERR TIGHTENING is for LAYOUT VALKEY only",
            ),
            ("VALIDATESCALETO many", "ERR bad VALIDATESCALETO"),
            ("VALIDATESCALETO 1e3", "ERR bad VALIDATESCALETO"),
            (
                "VALIDATESCALETO 0",
                "ERR VALIDATESCALETO must be in the range [1, 9223372036854775807]",
            ),
            (
                "VALIDATESCALETO 9223372036854775808",
                "ERR VALIDATESCALETO must be in the range [1, 9223372036854775807]",
            ),
            (
                "VALIDATESCALETO 5 VALIDATESCALETO 5",
                "ERR VALIDATESCALETO was given twice",
            ),
            (
                "VALIDATESCALETO 5 LAYOUT BLOCKED",
                "ERR VALIDATESCALETO is for LAYOUT VALKEY only",
            ),
            (
                "VALIDATESCALETO 5 NONSCALING",
                "ERR VALIDATESCALETO and NONSCALING exclude each other",
            ),
            (
                "EXPANSION 0 VALIDATESCALETO 5",
                "ERR VALIDATESCALETO and EXPANSION 0 exclude each other",
            ),
            (
                "VALIDATESCALETO 9223372036854775807",
                "ERR the filter cannot grow to VALIDATESCALETO: its capacity would be above 9223372036854775807",
            ),
            (
                "VALIDATESCALETO 1000000 TIGHTENING 1e-200",
                "ERR the filter cannot grow to VALIDATESCALETO: its error rate would be 0",
            ),
            (
                "SEED aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa LAYOUT BLOCKED",
                "ERR SEED of 32 bytes is for LAYOUT VALKEY only",
            ),
            (
                "LAYOUT CLASSIC SEED 00000000000000000000000000000001",
                "ERR SEED of 32 bytes is for LAYOUT VALKEY only",
            ),
            ("SEED aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ERR bad seed"),
            (
                "SEED aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa LAYOUT VALKEY",
                "ERR bad seed",
            ),
            (
                "LAYOUT CLASSIC SEED 1",
                "ERR SEED is for LAYOUT BLOCKED or VALKEY only",
            ),
            ("LAYOUT VALKEY GROWING", "ERR GROWING is for LAYOUT BLOCKED only"),
            (
                "TIGHTENING 0.5 WINDOW 10",
                "ERR WINDOW is for LAYOUT BLOCKED only",
            ),
            (
                "LAYOUT VALKEY SLICES 4",
                "ERR SLICES is for filters with a WINDOW only",
            ),
            (
                "LAYOUT VALKEY REFRESH",
                "ERR REFRESH is for filters with a WINDOW only",
            ),
            (
                "LAYOUT VALKEYS",
                "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY",
            ),
        ] {
            assert_eq!(refused(options, &config), error, "{options}");
        }
        let mut by_option = config.clone();
        by_option.set(ConfigOption::Layout, "valkey").unwrap();
        by_option.set(ConfigOption::ExpansionFactor, "0").unwrap();
        for (options, error) in [
            (
                "GROWING",
                "ERR GROWING is for LAYOUT BLOCKED only, and bf-layout is valkey",
            ),
            (
                "WINDOW 10",
                "ERR WINDOW is for LAYOUT BLOCKED only, and bf-layout is valkey",
            ),
            (
                "LAYOUT CLASSIC SEED 1",
                "ERR SEED is for LAYOUT BLOCKED or VALKEY only",
            ),
            (
                "VALIDATESCALETO 5",
                "ERR VALIDATESCALETO needs an EXPANSION above 0: bf-expansion-factor is 0",
            ),
        ] {
            assert_eq!(refused(options, &by_option), error, "{options}");
        }
        by_option.set(ConfigOption::Layout, "classic").unwrap();
        assert_eq!(
            refused("SEED 1", &by_option),
            "ERR SEED is for LAYOUT BLOCKED or VALKEY only, and bf-layout is classic"
        );
    }

    /// A filter that was meant to hold items would be made without them and nobody told; or a client of valkey-bloom be
    /// refused.
    #[test]
    fn only_filters_of_valkey_bloom_s_layout_are_inserted_without_items() {
        let mut config = Config::new(Seed(7));
        let outcome = |line: &str, config: &Config| {
            let arguments = words(line);
            insert(&arguments, config).map(|(items, made)| (items.map(<[_]>::len), made.is_ok()))
        };
        for line in [
            "key",
            "key CAPACITY 7",
            "key LAYOUT BLOCKED",
            "key TIGHTENING 0.5 LAYOUT CLASSIC",
        ] {
            assert_eq!(outcome(line, &config), Err(CommandError::Arity), "{line}");
        }
        for line in [
            "key LAYOUT VALKEY",
            "key TIGHTENING 0.5",
            "key VALIDATESCALETO 1000 NX EX 5",
        ] {
            assert_eq!(outcome(line, &config), Ok((None, true)), "{line}");
        }
        assert_eq!(outcome("key NOCREATE LAYOUT VALKEY", &config), Ok((None, false)));
        config.set(ConfigOption::Layout, "valkey").unwrap();
        assert_eq!(outcome("key", &config), Ok((None, true)));
        assert_eq!(outcome("key ERROR 0.1", &config), Ok((None, true)));
        for line in [
            "key ITEMS",
            "key LAYOUT VALKEY ITEMS",
            "key LAYOUT BLOCKED",
            "key LAYOUT CLASSIC",
        ] {
            assert_eq!(outcome(line, &config), Err(CommandError::Arity), "{line}");
        }
        let growing = outcome("key GROWING", &config).map(|(items, _)| items);
        assert_eq!(growing, Ok(None));
        let growing = outcome("key LAYOUT VALKEY GROWING", &config);
        assert_eq!(
            growing,
            Err(CommandError::OnlyFor("GROWING", &[LayoutName::Blocked]))
        );
    }

    /// A replica of a valkey-bloom would go its own way in silence, or one of a RedisBloom make a filter of another
    /// layout.
    #[test]
    fn a_primary_s_words_are_taken_for_those_of_who_may_have_said_them() {
        let config = Config::new(Seed(7));
        let numbered = SipSeed::from(Seed(7)).0;
        let made_of = |line: &str| {
            let mut all = Vec::new();
            for release in [Release::Two, Release::Eight] {
                let arguments = words(line);
                all.push(
                    obey_insert(&arguments, &config, release)
                        .map(|(items, made)| (items.map(<[_]>::len), made)),
                );
            }
            assert_eq!(all[0], all[1], "{line}");
            all.remove(0)
        };
        let seeded =
            |rate, capacity, expansion, ratio| valkey(rate, capacity, expansion, ratio, numbered).unwrap();
        let seed = *b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        for (line, items, filter) in [
            ("key", None, seeded(0.01, 100, 2, 0.5)),
            ("key CAPACITY 7", None, seeded(0.01, 7, 2, 0.5)),
            (
                "key capacity 7 CAPACITY +8 Error 0.5",
                None,
                seeded(0.5, 8, 2, 0.5),
            ),
            (
                "key NONSCALING EXPANSION 4294967295",
                None,
                seeded(0.01, 100, u32::MAX, 0.5),
            ),
            (
                "key EXPANSION 7 NONSCALING TIGHTENING .25 ITEMS a",
                Some(1),
                seeded(0.01, 100, 0, 0.25),
            ),
            (
                "key VALIDATESCALETO 9223372036854775807 ITEMS a b",
                Some(2),
                seeded(0.01, 100, 2, 0.5),
            ),
            (
                "key layout Valkey ITEMS ITEMS",
                Some(1),
                seeded(0.01, 100, 2, 0.5),
            ),
            (
                "key CAPACITY 9223372036854775807 SEED aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ITEMS a",
                Some(1),
                valkey(0.01, i64::MAX as u64, 2, 0.5, seed).unwrap(),
            ),
            // RedisBloom reads no plus sign, and no other layout has such an expansion.
            ("key CAPACITY +5 ITEMS a", Some(1), seeded(0.01, 5, 2, 0.5)),
            ("key EXPANSION +5 ITEMS a", Some(1), seeded(0.01, 100, 5, 0.5)),
        ] {
            assert_eq!(made_of(line), Ok((items, Ok(filter.into()))), "{line}");
        }
        for line in [
            "key CAPACITY 7 ITEMS a",
            "key NONSCALING EXPANSION 5 ITEMS a",
            "key I TIGHTENING 0.5",
            "key I LAYOUT VALKEY",
            "key C 7 I ITEMS",
            "key LAYOUT CLASSIC ITEMS a",
        ] {
            let made = made_of(line).unwrap().1;
            assert!(
                matches!(made.map(|made| made.filter), Ok(FilterSpec::Classic(_))),
                "{line}"
            );
        }
        for line in [
            "key LAYOUT BLOCKED SEED 1 ITEMS a",
            "key GROWING ITEMS a",
            "key SEED 1 ITEMS a",
        ] {
            let made = made_of(line).unwrap().1;
            assert!(
                matches!(made.map(|made| made.filter), Ok(FilterSpec::Blocked(_))),
                "{line}"
            );
        }
        let not_found = Err(CommandError::NotFound);
        assert_eq!(made_of("key NOCREATE"), Ok((None, not_found.clone())));
        assert_eq!(
            made_of("key NOCREATE TIGHTENING 0.5 ITEMS a"),
            Ok((Some(1), not_found))
        );
        for (line, error) in [
            ("key LAYOUT VALKEY ITEMS", CommandError::Arity),
            ("key ERROR 1 TIGHTENING 0.5", CommandError::BadInsertErrorRate),
            ("key TIGHTENING 1", CommandError::TighteningRange),
            ("key CAPACITY 0 TIGHTENING 0.5", CommandError::BadInsertCapacity),
            (
                "key EXPANSION 4294967296 LAYOUT VALKEY",
                CommandError::BadInsertExpansion,
            ),
            ("key CAPACITY +0 ITEMS a", CommandError::BadInsertCapacity),
        ] {
            assert_eq!(made_of(line), Err(error), "{line}");
        }
    }

    /// Users would be told of something else than what they mistyped; and what is refused must change nothing.
    #[test]
    fn packed_commands_say_what_is_wrong() {
        let config = Config::new(Seed(7));
        for (line, error) in [
            ("key data", CommandError::OneForm),
            ("key COUNT data", CommandError::OneForm),
            ("key LINES PREFIXED data", CommandError::OneForm),
            ("key WIDTH 1 WIDTH 2 data", CommandError::OneForm),
            ("key WIDTH data", CommandError::NoValue("WIDTH")),
            ("key WIDTH one data", CommandError::BadWidth),
            ("key WIDTH 01 data", CommandError::BadWidth),
            ("key WIDTH 0 data", CommandError::WidthRange),
            ("key WIDTH -1 data", CommandError::WidthRange),
            ("key WIDTH 4294967296 data", CommandError::WidthRange),
            ("key WIDTH 99999999999999999999 data", CommandError::WidthRange),
            ("key LINES COUNT COUNT data", CommandError::Twice("COUNT")),
            ("key LINES ITEMS data", CommandError::Unknown("ITEMS".to_owned())),
            ("key", CommandError::Arity),
        ] {
            let arguments = words(line);
            assert_eq!(
                exists_packed(&arguments).map(|_| ()),
                Err(error.clone()),
                "{line}"
            );
            assert_eq!(add_packed(&arguments, &config).map(|_| ()), Err(error), "{line}");
        }
        for (line, error) in [
            (
                "key WIDTH 3 data",
                "ERR 4 bytes of data are no multiple of WIDTH 3",
            ),
            (
                "key WIDTH 4294967295 data",
                "ERR 4 bytes of data are no multiple of WIDTH 4294967295",
            ),
            (
                "key PREFIXED data",
                "ERR there is no whole item at byte 0 of the data",
            ),
            (
                "key PREFIXED \x01\0\0\0aone",
                "ERR there is no whole item at byte 5 of the data",
            ),
        ] {
            let arguments = words(line);
            assert_eq!(
                exists_packed(&arguments).unwrap_err().to_string(),
                error,
                "{line}"
            );
            assert_eq!(
                add_packed(&arguments, &config).unwrap_err().to_string(),
                error,
                "{line}"
            );
        }
        for option in ["CAPACITY", "ERROR", "EXPANSION", "SEED", "LAYOUT"] {
            let line = format!("key LINES {option} data");
            let no_value = add_packed(&words(&line), &config).map(|_| ());
            assert_eq!(no_value, Err(CommandError::NoValue(option)), "{line}");
        }
        let arguments = words("key GROWING lines NonScaling data");
        let excluded = add_packed(&arguments, &config).map(|_| ());
        assert_eq!(excluded, Err(CommandError::Exclusive("NONSCALING", "GROWING")));
        let arguments = words("key count NOCREATE width 2 CAPACITY 7 data");
        let (items, creation) = add_packed(&arguments, &config).unwrap();
        assert_eq!((items.count(), creation), (2, Err(CommandError::NotFound)));
    }

    /// Filters of others would be read or written: a number that is misread makes a key of an option, or an option of
    /// a key.
    #[test]
    fn sources_are_as_many_as_their_number_says() {
        for (line, keys, rate, overrides) in [
            ("to 1 a", "to a", None, false),
            ("to 2 a to", "to a to", None, false),
            ("to 3 a a ERROR", "to a a ERROR", None, false),
            ("1 1 1", "1 1", None, false),
            ("to 1 OVERRIDE override", "to OVERRIDE", None, true),
            ("to 1 a error 0.001", "to a", Some(0.001), false),
            ("to 1 a ERROR 0.9 OverRide", "to a", Some(0.25), true),
            ("to 1 a OVERRIDE ERROR 1e-300", "to a", Some(1e-30), true),
        ] {
            let arguments = words(line);
            let (combination, used, replaces) = merge(&arguments).unwrap();
            let told: Vec<_> = combination.places().map(|place| arguments[place - 1].0).collect();
            let keys: Vec<_> = words(keys).iter().map(|word| word.0).collect();
            assert_eq!(told, keys, "{line}");
            let read: Vec<_> = std::iter::once(&combination.destination)
                .chain(combination.sources)
                .map(|word| word.0)
                .collect();
            assert_eq!(read, keys, "{line}");
            assert_eq!(
                (used.map(|rate| rate.value()), replaces),
                (rate, overrides),
                "{line}"
            );
            if rate.is_none() && !overrides {
                let same = intersect(&arguments).unwrap();
                assert!(same.places().eq(combination.places()), "{line}");
            }
        }
    }

    /// A user would look for the mistake in the wrong place; and a huge number would cost memory before it is found
    /// to be wrong.
    #[test]
    fn numbers_of_sources_and_words_that_are_wrong_are_named() {
        let range = CommandError::NumkeysRange;
        let (few, bad) = (CommandError::FewerSources, CommandError::BadNumkeys);
        for (line, error) in [
            ("to", CommandError::Arity),
            ("to 0 a", range.clone()),
            ("to -1 a", range.clone()),
            ("to -9223372036854775809 a", range.clone()),
            ("to -99999999999999999999999999999999999999999 a", range),
            ("to x a", bad.clone()),
            ("to 1.0 a", bad.clone()),
            ("to 01 a", bad.clone()),
            ("to +1 a", bad.clone()),
            ("to -0 a", bad.clone()),
            ("to  a", bad),
            ("to 1", few.clone()),
            ("to 2 a", few.clone()),
            ("to 2147483647 a", few.clone()),
            ("to 4294967297 a", few.clone()),
            ("to 9223372036854775807 a b", few.clone()),
            ("to 18446744073709551617 a", few.clone()),
            ("to 340282366920938463463374607431768211457 a", few),
            ("to 1 a b", CommandError::Unknown("b".to_owned())),
            ("to 1 a ", CommandError::Unknown("''".to_owned())),
        ] {
            let arguments = words(line);
            assert_eq!(merge(&arguments).map(|_| ()), Err(error.clone()), "{line}");
            assert_eq!(intersect(&arguments).map(|_| ()), Err(error), "{line}");
        }
        let unknown = |word: &str| CommandError::Unknown(word.to_owned());
        for (line, error) in [
            ("to 1 a ERROR", CommandError::NoValue("ERROR")),
            ("to 1 a ERROR low", CommandError::BadInsertErrorRate),
            ("to 1 a ERROR 0", CommandError::BadInsertErrorRate),
            ("to 1 a ERROR 1", CommandError::BadInsertErrorRate),
            ("to 1 a ERROR 1e-400", CommandError::BadInsertErrorRate),
            ("to 1 a ERROR nan", CommandError::BadInsertErrorRate),
            ("to 1 a ERROR OVERRIDE", CommandError::BadInsertErrorRate),
            ("to 1 a ERROR 0.1 ERROR 0.1", CommandError::Twice("ERROR")),
            ("to 1 a OVERRIDE OVERRIDE", CommandError::Twice("OVERRIDE")),
            ("to 1 a OVERRIDE b", unknown("b")),
            ("to 1 a CAPACITY 10", unknown("CAPACITY")),
        ] {
            assert_eq!(merge(&words(line)).map(|_| ()), Err(error), "{line}");
        }
        for line in ["to 1 a ERROR 0.1", "to 1 a OVERRIDE"] {
            let word = line.split(' ').nth(3).unwrap();
            assert_eq!(intersect(&words(line)).map(|_| ()), Err(unknown(word)), "{line}");
        }
    }

    /// A filter would stay for ever, or be gone at once; or a client that moves from SET to these commands
    /// would read other errors.
    #[test]
    fn times_are_those_of_set() {
        let config = Config::new(Seed(7));
        for (words, expires) in [
            ("", None),
            ("NX", None),
            ("EX 1", Some(NOW + 1000)),
            ("px 1 nx", Some(NOW + 1)),
            ("NX ExAt 1", Some(1000)),
            ("PXAT 1", Some(1)),
            ("EX 9000000000000000", Some(NOW + 9_000_000_000_000_000_000)),
            ("PXAT 9223372036854775807", Some(i64::MAX)),
            ("EXAT 9223372036854775", Some(9_223_372_036_854_775_000)),
        ] {
            for made in expiring(words, &config) {
                assert_eq!(made.unwrap().expires, expires, "{words}");
            }
        }
        let no_integer = "ERR value is not an integer or out of range";
        for (words, error) in [
            ("EX 0", "ERR invalid expire time in '...' command"),
            ("PX -1", "ERR invalid expire time in '...' command"),
            ("EXAT 0", "ERR invalid expire time in '...' command"),
            (
                "PXAT -9223372036854775808",
                "ERR invalid expire time in '...' command",
            ),
            (
                "EX 9223372036854775807",
                "ERR invalid expire time in '...' command",
            ),
            ("EX 9223372036854775", "ERR invalid expire time in '...' command"),
            (
                "PX 9223372036854775807",
                "ERR invalid expire time in '...' command",
            ),
            (
                "EXAT 9223372036854776",
                "ERR invalid expire time in '...' command",
            ),
            ("PXAT 9223372036854775808", no_integer),
            ("EX -9223372036854775809", no_integer),
            ("EX abc", no_integer),
            ("PX 1.5", no_integer),
            ("EXAT 01", no_integer),
            ("EX NX", no_integer),
            ("EX 1 EX 1", "ERR EX was given twice"),
            ("EX 1 PX 1", "ERR EX and PX exclude each other"),
            ("PXAT 1 EXAT 1", "ERR PXAT and EXAT exclude each other"),
            ("NX NX", "ERR NX was given twice"),
            ("KEEPTTL", "ERR Unknown argument received: KEEPTTL"),
            ("XX", "ERR Unknown argument received: XX"),
        ] {
            let refused = expiring(words, &config).map(|made| made.unwrap_err().to_string());
            let commands = ["bf.reserve", "bf.insert", "bf.addpacked"];
            assert_eq!(
                refused,
                commands.map(|command| error.replace("...", command)),
                "{words}"
            );
        }
        let last = [
            reserve(&words("key 0.01 100 EX"), &config).map(|_| ()),
            insert(&words("key EX"), &config).map(|_| ()),
            add_packed(&words("key LINES EX data"), &config).map(|_| ()),
        ];
        assert_eq!(last, [const { Err(CommandError::NoValue("EX")) }; 3]);
    }

    /// What the three commands make of these words.
    fn expiring(options: &str, config: &Config) -> [Result<Creation, CommandError>; 3] {
        let line = |line: String| line.replace("  ", " ");
        let inserted = line(format!("key {options} ITEMS a"));
        let packed = line(format!("key {options} LINES a"));
        [
            reserve(&words(line(format!("key 0.01 100 {options}")).trim_end()), config),
            insert(&words(&inserted), config).and_then(|(_, made)| made),
            add_packed(&words(&packed), config).and_then(|(_, made)| made),
        ]
    }

    /// A filter of a RedisBloom's would expire, or be another one: it reads letters, and ignores words.
    #[test]
    fn only_pxat_is_told_and_read_as_a_time() {
        let config = Config::new(Seed(7));
        let release = Release::Eight;
        for (line, expansion, grows) in [
            ("key EX 9 ITEMS a", 9, true),
            ("key EXAT 5 ITEMS a", 5, true),
            ("key NX ITEMS a", 2, false),
        ] {
            let arguments = words(line);
            let made = obey_insert(&arguments, &config, release).unwrap().1.unwrap();
            let FilterSpec::Classic(spec) = made.filter else {
                panic!("{made:?}")
            };
            assert_eq!(
                (spec.expansion(), spec.scales(), made.expires),
                (expansion, grows, None)
            );
        }
        for line in ["key 0.01 100 EX 9", "key 0.01 100 NX", "key 0.01 100 PX 9 EXAT 1"] {
            let made = obey_reserve(&words(line), &config, release).unwrap();
            assert!(matches!(made.filter, FilterSpec::Classic(_)), "{made:?}");
            assert_eq!(made.expires, None, "{line}");
        }
        let made = obey_reserve(&words("key 0.01 100 pxat 9"), &config, release).unwrap();
        assert!(matches!(made.filter, FilterSpec::Blocked(_)), "{made:?}");
        assert_eq!(made.expires, Some(9));
    }

    /// A replica that is older than its primary would have a filter of RedisBloom's layout in the place of one that it
    /// does not know, in silence, and other answers from then on.
    #[test]
    fn a_creation_in_words_of_a_later_version_is_refused() {
        let config = Config::new(Seed(7));
        let unknown = || Err::<Creation, _>(CommandError::Unknown("LATER".to_owned()));
        for release in [Release::Two, Release::Eight] {
            let options = "EXPANSION 2 LATER LAYOUT BLOCKED SEED 9";
            let reserved = format!("key 0.01 100 {options}");
            assert_eq!(obey_reserve(&words(&reserved), &config, release), unknown());
            let inserted = format!("key ERROR 0.01 CAPACITY 100 {options} ITEMS a");
            let made = obey_insert(&words(&inserted), &config, release).map(drop);
            assert_eq!(made, unknown().map(drop));
            let packed = format!("key ERROR 0.01 CAPACITY 100 {options} LINES a");
            let made = obey_add_packed(&words(&packed), &config).map(drop);
            assert_eq!(made, unknown().map(drop));
            // RedisBloom ignores such words of its own clients, as long as they are few.
            for ignored in ["LATER", "EXPANSION 2 SEED", "LAYOUT BLOCKED LATER"] {
                let made =
                    obey_reserve(&words(&format!("key 0.01 100 {ignored}")), &config, release).unwrap();
                assert!(matches!(made.filter, FilterSpec::Classic(_)), "{made:?}");
            }
        }
    }

    /// What RedisBloom made of a command, by its version: `tests/fixtures/redisbloom/record.py` asked it.
    fn recorded() -> Vec<(String, Release, String, Json)> {
        let json = include_str!("../../tests/fixtures/redisbloom/grammar.json");
        let json: Json = serde_json::from_str(json).unwrap();
        let versions = json.as_object().unwrap();
        assert_eq!(versions.keys().collect::<Vec<_>>(), ["2.6.28", "2.8.20", "8"]);
        let cases = versions.iter().flat_map(|(version, made)| {
            let release = if version == "8" {
                Release::Eight
            } else {
                Release::Two
            };
            let made = made.as_object().unwrap().iter();
            made.map(move |(line, made)| (version.clone(), release, line.clone(), made.clone()))
        });
        cases.collect()
    }

    /// What is stored of a filter that has these items, as the recording has it.
    fn described(creation: Creation, items: &[Word<'_>]) -> Json {
        let FilterSpec::Classic(spec) = creation.filter else {
            panic!("not RedisBloom's: {creation:?}")
        };
        let mut filter = creation.filter.make(UNLIMITED).unwrap();
        let items = items.iter().map(|item| item.0);
        filter.add_all(items, UNLIMITED, |_| ()).unwrap();
        let layers = filter.layer_stats().map(|layer| debug::line(&layer));
        let lines: Vec<_> = std::iter::once(format!("size:{}", filter.items()))
            .chain(layers)
            .collect();
        let options = if spec.scales() { 5 } else { 13 };
        json!({"options": options, "expansion": spec.expansion(), "debug": lines})
    }

    /// A replica of a RedisBloom would go its own way in silence, and a server started on its file have other
    /// filters.
    #[test]
    fn what_redisbloom_made_of_a_command_is_made_of_it_here() {
        let config = Config::new(Seed(7));
        let mut made_of = 0;
        for (version, release, line, made) in recorded() {
            let Some((command @ ("BF.RESERVE" | "BF.INSERT"), rest)) = line.split_once(' ') else {
                continue;
            };
            let arguments = words(rest);
            let obeyed = if command == "BF.RESERVE" {
                obey_reserve(&arguments, &config, release).map(|made| (None, Ok(made)))
            } else {
                obey_insert(&arguments, &config, release)
            };
            if made.get("error").is_none() {
                made_of += 1;
                let (items, creation) = obeyed.unwrap();
                let items = items.unwrap_or_default();
                assert_eq!(described(creation.unwrap(), items), made, "{version}: {line}");
            } else if made["error"] == "ERR not found" {
                let outcome = obeyed.map(|(_, creation)| creation);
                assert_eq!(outcome, Ok(Err(CommandError::NotFound)), "{version}: {line}");
            }
        }
        assert_eq!(made_of, 196, "the recording is another one");
    }

    /// A replica would take a word that nobody knows for one of this module's own, and make a filter that its primary
    /// did not.
    #[test]
    fn only_the_whole_word_is_layout() {
        let config = Config::new(Seed(7));
        for word in ["LAYOU", "LAYOUTS", "L"] {
            let line = format!("key {word} CLASSIC ITEMS a");
            let made = obey_insert(&words(&line), &config, Release::Two).map(drop);
            assert_eq!(made, Err(CommandError::unknown(word.as_bytes())));
        }
    }

    /// A client of RedisBloom that moves here would get another filter of RedisBloom's layout than it had.
    #[test]
    fn what_a_client_may_say_here_means_the_same_there() {
        let mut config = Config::new(Seed(7));
        config.set(ConfigOption::Layout, "classic").unwrap();
        let (mut same, mut refused) = (0, Vec::new());
        for (version, _, line, made) in recorded() {
            let (command, rest) = line.split_once(' ').unwrap();
            let arguments = words(rest);
            let asked = match command {
                "BF.RESERVE" => reserve(&arguments, &config).map(|made| (None, Ok(made))),
                "BF.INSERT" => insert(&arguments, &config),
                _ => continue,
            };
            // Named for an option, or with one whose letters are an option there, or too tight to be told
            // from tighter: see the documentation.
            let is_other = rest.contains(" EX ")
                || rest.to_uppercase().starts_with("NONSCALING 0")
                || rest.contains("e-40")
                || rest.contains("e-324");
            if version != "8" || is_other {
                continue;
            }
            match (asked, made.get("error")) {
                (Ok((items, Ok(creation))), None) => {
                    same += 1;
                    assert_eq!(described(creation, items.unwrap_or_default()), made, "{line}");
                }
                (_, None) => refused.push(line),
                (_, Some(_)) => {}
            }
        }
        assert_eq!(same, 27);
        // Typing mistakes, one and all.
        let mistakes = [
            "BF.INSERT key CAP 77 ITEMS a",
            "BF.INSERT key CAPACITY 77 CAPACITY 78 ITEMS a",
            "BF.INSERT key CREATE 77 ITEMS a",
            "BF.INSERT key E 3 ITEMS a",
            "BF.INSERT key EQUAL 3 ITEMS a",
            "BF.INSERT key ERR 0.001 ITEMS a",
            "BF.INSERT key ERROR 0.001 ERROR 0.002 ITEMS a",
            "BF.INSERT key EXPANSION 0 EXPANSION 4 ITEMS a",
            "BF.INSERT key EXPANSION 3 EXPANSION 4 ITEMS a",
            "BF.INSERT key EXPANSION 4 EXPANSION 0 ITEMS a",
            "BF.INSERT key I a",
            "BF.INSERT key ITEM a",
            "BF.INSERT key Indeed a ITEMS",
            "BF.INSERT key N CAP 5 ER 0.1 E 7 I I N",
            "BF.INSERT key NO ITEMS a",
            "BF.INSERT key NONSENSE ITEMS a",
            "BF.INSERT key NOSCALE ITEMS a",
            "BF.INSERT key c 77 ITEMS a",
            "BF.INSERT key er 0.001 ITEMS a",
            "BF.RESERVE key 0.01 100 CAPACITY 7",
            "BF.RESERVE key 0.01 100 EXP 3",
            "BF.RESERVE key 0.01 100 EXPANSION 3 EXPANSION",
            "BF.RESERVE key 0.01 100 EXPANSION 3 X",
            "BF.RESERVE key 0.01 100 EXPANSIONS 3",
            "BF.RESERVE key 0.01 100 NONSCALE",
            "BF.RESERVE key 0.01 100 NONSCALING NONSCALING NONSCALING",
            "BF.RESERVE key 0.01 100 SCALING",
            "BF.RESERVE key 0.01 100 X",
            "BF.RESERVE key 0.01 100 X EXPANSION 3",
            "BF.RESERVE key 0.01 100 X Y Z",
        ];
        assert_eq!(refused, mistakes);
    }

    /// What a replica was told by a RedisBloom it writes into its own file, which another server may read, at a
    /// time when the replica's options are others.
    #[test]
    fn what_redisbloom_takes_is_written_so_that_it_means_the_same_again() {
        let here = Config::new(Seed(7));
        let mut there = Config::new(Seed(8));
        there.set(ConfigOption::ExpansionFactor, "0").unwrap();
        for release in [Release::Two, Release::Eight] {
            for options in [
                "",
                "C 7",
                "ER 0.9",
                "ERR 1e-40 N",
                "E 40000",
                "E 4294967296",
                "E 4294967296 N",
                "EXP 0",
                "EX 0 NONS",
                "NO CAP 9223372036854775807 EXP 5",
                "ER 0.26 E 65536 CAP 3",
            ] {
                let line = format!("key {options} ITEMS a").replace("  ", " ");
                let made = obey_insert(&words(&line), &here, release).unwrap().1.unwrap();
                let again = replicated_with_items(made);
                let again = told("key", &again, &["a"]);
                for later in [Release::Two, Release::Eight] {
                    let again = obey_insert(&again, &there, later).unwrap().1;
                    assert_eq!(again, Ok(made), "{line}");
                }
            }
            for rest in [
                "0.9 5",
                "1e-40 9223372036854775807 EXP 3",
                "0.5 7 X EXPANSION 4294967296",
                "0.4 1 NONSCALING",
            ] {
                let made = obey_reserve(&words(&format!("key {rest}")), &here, release).unwrap();
                let (command, again) = replicated(made);
                let again = told("key", &again, &[]);
                for later in [Release::Two, Release::Eight] {
                    let again = obey_creating(command, &again, &there, later);
                    assert_eq!(again, Ok(made), "{rest}");
                }
            }
        }
    }
}
