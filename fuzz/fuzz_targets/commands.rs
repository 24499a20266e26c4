//! Arguments of commands and values of options: what is taken means the same when it is said again, and what is
//! refused is refused in one line.
#![no_main]

use bloom::commands::error::CommandError;
use bloom::commands::requests::{self, Combination, Creation, Items, Parsed, Release, Verb, Word, Words};
use bloom::options::values::{Config, ConfigOption};
use bloom_fuzz::commands;
use bloom_fuzz::tape::Tape;
use libbloom::chain::at_most;
use libbloom::packed::Packed;
use libbloom::params::Seed;
use libbloom::spec::Spec;
use libbloom::{Error, Filter};
use libfuzzer_sys::fuzz_target;

/// Items that could be taken for something else.
const ITEMS: [&[u8]; 3] = [b"", b"ITEMS", b"NOCREATE"];

/// Small: most specs are only parsed for.
const LIMIT: u64 = 1 << 16;

/// Bytes that RedisBloom and valkey-bloom count for a filter of one layer besides its bits.
const OF_OTHERS: u64 = 300;

fuzz_target!(|bytes: &[u8]| {
    let mut tape = Tape(bytes);
    let (kind, config) = (tape.u8(), tape.u8());
    let words = commands::decode(&mut tape);
    let config = configuration(config);
    match kind % 6 {
        0 => {
            answer(reserve(&words, &config).map(|made| makes(made, &words, &config)));
            for release in [Release::Two, Release::Eight] {
                let obeyed = requests::obey(Verb::Reserve, &words, &config, release);
                answer(obeyed.and_then(|parsed| parsed.creation).map(is_told_empty));
            }
        }
        1 => {
            answer(requests::ask(Verb::Insert, &words, &config).map(|parsed| {
                let items = listed_items(&parsed);
                assert!(
                    items.is_none_or(|items| !items.is_empty() && follow_their_word(items, &words)),
                    "other items than were given"
                );
                answer(parsed.creation.map(makes_one));
            }));
            for release in [Release::Two, Release::Eight] {
                let obeyed = requests::obey(Verb::Insert, &words, &config, release);
                answer(obeyed.map(|parsed| {
                    assert!(listed_items(&parsed).is_none_or(|items| !items.is_empty()));
                    answer(parsed.creation.map(is_told));
                }));
            }
        }
        2 => words.iter().for_each(|word| {
            answer(requests::info(word.0));
            if let Some(number) = requests::iterator(word.0) {
                assert_eq!(
                    number.to_string().as_bytes(),
                    word.0,
                    "another number than was given"
                );
            }
        }),
        3 => words
            .chunks_exact(2)
            .for_each(|pair| set(&config, pair[0].0, pair[1].0)),
        4 => {
            answer(requests::exists_packed(&words).map(is_packed));
            answer(requests::ask(Verb::AddPacked, &words, &config).map(|parsed| {
                let items = packed_items(&parsed);
                is_packed(items);
                answer(parsed.creation.map(|made| is_told_packed(made, items)));
            }));
        }
        _ => {
            answer(requests::merge(&words).map(|(keys, ..)| names_its_keys(keys, &words)));
            answer(requests::intersect(&words).map(|keys| {
                names_its_keys(keys, &words);
                assert_eq!(keys.positions().last(), Some(words.len()), "a word was ignored");
                let (same, rate, overrides) = requests::merge(&words).expect("the same words, and no option");
                assert!(same.positions().eq(keys.positions()) && rate.is_none() && !overrides);
            }));
        }
    }
});

/// The filter that a client's BF.RESERVE makes.
fn reserve(words: &[Word<'_>], config: &Config) -> Result<Creation, CommandError> {
    requests::ask(Verb::Reserve, words, config)?.creation
}

/// The items of a BF.INSERT, if it has ITEMS.
fn listed_items<'a>(parsed: &Parsed<'a>) -> Option<&'a [Word<'a>]> {
    match parsed.items {
        Items::List(items) => Some(items),
        Items::None => None,
        Items::Packed { .. } => panic!("packed items of BF.INSERT"),
    }
}

/// The items of a BF.ADDPACKED.
fn packed_items<'a>(parsed: &Parsed<'a>) -> Packed<'a> {
    match parsed.items {
        Items::Packed { items, .. } => items,
        Items::None | Items::List(_) => panic!("no packed items of BF.ADDPACKED"),
    }
}

/// The sources are as many as their number says, and the server is told of the keys that are used.
fn names_its_keys(keys: Combination<'_, Word<'_>>, words: &[Word<'_>]) {
    assert!(!keys.sources.is_empty());
    assert_eq!(keys.sources.len().to_string().as_bytes(), words[1].0);
    let used = std::iter::once(&keys.destination).chain(keys.sources);
    let told = keys.positions().map(|place| words[place - 1].0);
    assert!(
        used.map(|word| word.0).eq(told),
        "the server is told of other keys"
    );
}

/// Whether `items` are what comes after some word ITEMS, which may be the last of a bundle.
fn follow_their_word(items: &[Word<'_>], words: &[Word<'_>]) -> bool {
    let Some(before) = words.len().checked_sub(items.len()) else {
        return false;
    };
    let same = words[before..].iter().zip(items).all(|(a, b)| a.0 == b.0);
    let word = words[..before].last();
    let word = word.and_then(|word| word.0.rsplit(|&byte| byte == b' ').next());
    same && word.is_some_and(|word| word.eq_ignore_ascii_case(b"ITEMS"))
}

/// Packed items are as many as their count, and give the same bytes when they are packed again.
fn is_packed(items: Packed<'_>) {
    let mut again = Vec::new();
    items.for_each(|item| items.form().push(item, &mut again));
    let again = Packed::new(&again, items.form()).expect("what was packed");
    assert_eq!(items.count(), listed(items).len(), "items were miscounted");
    assert_eq!(listed(again), listed(items), "items changed by packing");
}

fn listed(items: Packed<'_>) -> Vec<&[u8]> {
    let mut list = Vec::new();
    items.for_each(|item| list.push(item));
    list
}

/// A replica makes this filter of the items that it is told of.
fn is_told_packed(made: Creation, items: Packed<'_>) {
    let mut data = Vec::new();
    items.for_each(|item| items.form().push(item, &mut data));
    let words = requests::replicated_packed(Some(made), items.form());
    let told = line(&words, &[&data]);
    for byte in 0..CONFIGURATIONS {
        let parsed = requests::obey(Verb::AddPacked, &told, &configuration(byte), Release::Eight);
        let parsed = parsed.expect("what a primary sends");
        let again = packed_items(&parsed);
        assert_eq!((again.form(), listed(again)), (items.form(), listed(items)));
        assert_eq!(parsed.creation, Ok(made), "a replica makes another one");
    }
}

/// How many configurations there are.
const CONFIGURATIONS: u8 = 16;

/// The configuration with this number.
fn configuration(byte: u8) -> Config {
    let mut config = Config::new(Seed(byte.into()));
    if byte & 1 != 0 {
        config.set(ConfigOption::Layout, "classic").unwrap();
    }
    if byte & 2 != 0 {
        config.set(ConfigOption::ExpansionFactor, "0").unwrap();
    }
    if byte & 4 != 0 {
        config.set(ConfigOption::ErrorRate, "0.9").unwrap();
        config.set(ConfigOption::InitialSize, "1099511627776").unwrap();
    }
    if byte & 8 != 0 {
        config.set(ConfigOption::Layout, "valkey").unwrap();
    }
    config
}

/// What is refused is one line that a client can read.
fn answer(outcome: Result<(), CommandError>) {
    if let Err(error) = outcome {
        let text = error.to_string();
        assert!(!text.is_empty() && text.len() < 400, "{text}");
        assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
    }
}

/// The creation makes a filter within the limit or none, and a replica makes the same one from what it is told.
fn makes(made: Creation, words: &[Word<'_>], config: &Config) {
    makes_one(made);
    is_told_empty(made);
    // The words of options may be in any case; the bytes of a seed may not.
    let lower = words.iter().map(|word| match word.0.len() {
        32 => word.0.to_vec(),
        _ => word.0.to_ascii_lowercase(),
    });
    let lower: Vec<_> = lower.collect();
    let lower: Vec<_> = lower.iter().map(|word| Word(word)).collect();
    assert_eq!(reserve(&lower, config), Ok(made));
}

/// What a primary sends after the name of a command.
fn line<'a>(words: &'a Words, items: &[&'a [u8]]) -> Vec<Word<'a>> {
    let line = std::iter::once(&b"key"[..])
        .chain(words.list())
        .chain(items.iter().copied());
    line.map(Word).collect()
}

/// A replica makes this filter, and no other, when it is told of it without items.
fn is_told_empty(made: Creation) {
    let (command, words) = requests::replicated(made);
    let told = line(&words, &[]);
    for byte in 0..CONFIGURATIONS {
        let config = configuration(byte);
        for release in [Release::Two, Release::Eight] {
            let again = requests::obey_creating(command, &told, &config, release);
            assert_eq!(again, Ok(made), "a replica makes another one");
        }
    }
}

/// A replica makes this filter, and no other, when it is told of it with items.
fn is_told(made: Creation) {
    let words = requests::replicated_with_items(made);
    let told = line(&words, &ITEMS);
    for byte in 0..CONFIGURATIONS {
        let config = configuration(byte);
        for release in [Release::Two, Release::Eight] {
            let parsed = requests::obey(Verb::Insert, &told, &config, release).unwrap();
            assert_eq!(
                listed_items(&parsed),
                Some(&ITEMS.map(Word)[..]),
                "a replica adds other items"
            );
            assert_eq!(parsed.creation, Ok(made), "a replica makes another one of items");
        }
    }
}

fn makes_one(made: Creation) {
    is_told(made);
    match Filter::new(made.filter, &at_most(LIMIT)) {
        Ok(filter) => {
            assert_eq!(filter.validate(), Ok(()));
            // What another module counts of its own for a filter is not what this one takes.
            assert!(filter.bytes() <= LIMIT + OF_OTHERS);
            let capacity = filter.totals().capacity;
            match made.filter {
                Spec::Blocked(spec) => {
                    assert_eq!(
                        (filter.seed(), filter.growth()),
                        (Some(spec.seed), Some(spec.growth))
                    );
                    assert!(capacity >= spec.capacity.items());
                }
                Spec::Classic(spec) => assert_eq!(
                    (capacity, filter.expansion()),
                    (spec.capacity(), spec.rules().growth_factor())
                ),
                Spec::Valkey(spec) => assert_eq!(
                    (capacity, filter.valkey_rules()),
                    (spec.capacity(), Some(&spec.rules()))
                ),
            }
        }
        Err(error) => assert!(matches!(error, Error::OverLimit { .. }), "{error:?}"),
    }
}

/// An option keeps what it was set to, and a refused value changes nothing.
fn set(before: &Config, name: &[u8], value: &[u8]) {
    let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    let options = ConfigOption::named(&name).map_or(ConfigOption::ALL.to_vec(), |option| vec![option]);
    for option in options {
        let mut config = before.clone();
        if config.set(option, &value).is_err() {
            assert_eq!(&config, before);
            continue;
        }
        let mut again = before.clone();
        assert_eq!(
            again.set(option, &config.get(option)),
            Ok(()),
            "CONFIG REWRITE writes what is refused"
        );
        assert_eq!(again, config);
        let _ = (config.error_rate(), config.expansion(), config.max_filter_bytes());
    }
}
