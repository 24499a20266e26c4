//! The requests without a server, for tests and fuzzing: arguments in, the filter that they describe out. A
//! client's server has another clock than who is told later.
//!
//! A fuzzer builds with `--cfg fuzzing`; the module that servers load has none of this.

use super::adding::Target;
use super::args::{self, Argument};
pub use super::creation::{Creation, FilterSpec};
use super::error::CommandError;
use super::propagation::{self, Words};
pub use super::redisbloom::Release;
pub use super::sources::Combination;
use super::{addpacked, existspacked, info, insert, intersect, merge, packed, reserve};
use crate::bloom::packed::{Form, Packed};
use crate::bloom::params::ErrorRate;
use crate::options::values::Config;

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

/// The clock of a client's server, in milliseconds.
const NOW: i64 = 1_800_000_000_000;
/// That of who is told by a primary or a file.
const LATER: i64 = NOW + 123_456_789;

/// The filter that BF.RESERVE of these arguments makes.
///
/// # Errors
/// What the command answers.
pub fn reserve(arguments: &[Word<'_>], config: &Config) -> Result<Creation, CommandError> {
    reserve::Request::parse(arguments)?.creation(config, Release::Eight, NOW)
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

/// The items of a BF.INSERT, and the filter that it makes of a missing key.
pub type Inserted<'a> = (&'a [Word<'a>], Result<Creation, CommandError>);

/// What BF.INSERT of these arguments adds, and the filter that it makes of a missing key.
///
/// # Errors
/// What the command answers for any key; the inner error is for a missing one only.
pub fn insert<'a>(arguments: &'a [Word<'a>], config: &Config) -> Result<Inserted<'a>, CommandError> {
    let request = insert::Request::parse(arguments)?;
    Ok((request.items(), request.creation(config, Release::Eight, NOW)))
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
    let request = insert::Request::obey(arguments)?;
    Ok((request.items(), request.creation(config, release, LATER)))
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

/// The words after the key in the BF.RESERVE that a primary sends for this filter.
pub fn replicated(creation: Creation) -> Words {
    propagation::reserve_words(creation)
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
    use crate::bloom::params::Seed;
    use crate::options::values::ConfigOption;

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
        let mut there = Config::new(Seed(8));
        there.set(ConfigOption::Layout, "classic").unwrap();
        there.set(ConfigOption::ExpansionFactor, "0").unwrap();
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
            let (alone, inserted) = (replicated(made), replicated_with_items(made));
            for release in [Release::Two, Release::Eight] {
                let alone = told(key, &alone, &[]);
                assert_eq!(obey_reserve(&alone, &there, release), Ok(made), "{line}");
                let arguments = told(key, &inserted, &["a", "b"]);
                let (items, created) = obey_insert(&arguments, &there, release).unwrap();
                assert_eq!(items.iter().map(|item| item.0).collect::<Vec<_>>(), [b"a", b"b"]);
                assert_eq!(created, Ok(made), "{line}");
            }
            for (form, data) in [(Form::Lines, "a\nb"), (Form::Prefixed, "\x01\0\0\0a\x01\0\0\0b")] {
                let packed = replicated_packed(Some(made), form);
                let arguments = told(key, &packed, &[data]);
                let (items, created) = obey_add_packed(&arguments, &there).unwrap();
                assert_eq!((items.form(), items.count()), (form, 2));
                assert_eq!(created, Ok(made), "{line}");
            }
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
                obey_reserve(&arguments, &config, release).map(|made| (&[][..], Ok(made)))
            } else {
                obey_insert(&arguments, &config, release)
            };
            if made.get("error").is_none() {
                made_of += 1;
                let (items, creation) = obeyed.unwrap();
                assert_eq!(described(creation.unwrap(), items), made, "{version}: {line}");
            } else if made["error"] == "ERR not found" {
                let outcome = obeyed.map(|(_, creation)| creation);
                assert_eq!(outcome, Ok(Err(CommandError::NotFound)), "{version}: {line}");
            }
        }
        assert_eq!(made_of, 196, "the recording is another one");
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
                "BF.RESERVE" => reserve(&arguments, &config).map(|made| (&[][..], Ok(made))),
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
                    assert_eq!(described(creation, items), made, "{line}");
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
                let again = replicated(made);
                let again = told("key", &again, &[]);
                for later in [Release::Two, Release::Eight] {
                    assert_eq!(obey_reserve(&again, &there, later), Ok(made), "{rest}");
                }
            }
        }
    }
}
