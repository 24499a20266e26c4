//! Arguments of commands and values of options: what is taken means the same when it is said again, and what is
//! refused is refused in one line.

use crate::commands;
use crate::tape::Tape;
use bloom::call::args::{Word, whole};
use bloom::call::combination::Combination;
use bloom::call::error::CommandError;
use bloom::call::given::Verb;
use bloom::call::request::{Items, Request};
use bloom::call::target::Creation;
use bloom::call::words::Words;
use bloom::commands::existspacked::PackedQuery;
use bloom::commands::info::Selection;
use bloom::commands::intersect;
use bloom::commands::merge::MergeRequest;
use bloom::options::values::{Config, ConfigOption};
use bloom::rivals::read_relayed;
use bloom::rivals::redisbloom::Release;
use bloom::work::{packed, propagation};
use libbloom::chain::{Rules as _, at_most};
use libbloom::packed::Packed;
use libbloom::params::Seed;
use libbloom::spec::Spec;
use libbloom::{Error, Filter};

/// Items that could be taken for something else.
const ITEMS: [&[u8]; 3] = [b"", b"ITEMS", b"NOCREATE"];

/// Small: most specs are only parsed for.
const LIMIT: u64 = 1 << 16;

/// Bytes that RedisBloom and valkey-bloom count for a filter of one layer besides its bits.
const OF_OTHERS: u64 = 300;

/// Panics where that does not hold.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape(bytes);
    let (kind, config) = (tape.u8(), tape.u8());
    let words = commands::decode(&mut tape);
    let config = configuration(config);
    match kind % 6 {
        0 => {
            answer(reserve(&words, &config).map(|made| makes(made, &words, &config)));
            for release in [Release::Two, Release::Eight] {
                let obeyed = relayed(Verb::Reserve, &words, &config, release);
                answer(
                    obeyed
                        .and_then(|request| created(&request, &config))
                        .map(is_told_empty),
                );
            }
        }
        1 => {
            answer(Request::parse(Verb::Insert, &words).map(|request| {
                let items = listed_items(&request);
                assert!(
                    items.is_none_or(|items| !items.is_empty() && follow_their_word(items, &words)),
                    "other items than were given"
                );
                answer(created(&request, &config).map(makes_one));
            }));
            for release in [Release::Two, Release::Eight] {
                let obeyed = relayed(Verb::Insert, &words, &config, release);
                answer(obeyed.map(|request| {
                    assert!(listed_items(&request).is_none_or(|items| !items.is_empty()));
                    answer(created(&request, &config).map(is_told));
                }));
            }
        }
        2 => words.iter().for_each(|word| {
            answer(Selection::parse(word.0).map(|_| ()));
            if let Some(number) = whole(word.0) {
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
            answer(PackedQuery::parse(&words).map(|query| is_packed(query.items)));
            answer(Request::parse(Verb::AddPacked, &words).map(|request| {
                let items = packed_items(&request);
                is_packed(items);
                answer(created(&request, &config).map(|made| is_told_packed(made, items)));
            }));
        }
        _ => {
            answer(MergeRequest::parse(&words).map(|merge| names_its_keys(merge.keys, &words)));
            answer(intersect::parse(&words).map(|keys| {
                names_its_keys(keys, &words);
                assert_eq!(keys.positions().last(), Some(words.len()), "a word was ignored");
                let merge = MergeRequest::parse(&words).expect("the same words, and no option");
                assert!(merge.keys.positions().eq(keys.positions()));
                assert!(merge.rate.is_none() && !merge.overrides);
            }));
        }
    }
}

/// A clock, in milliseconds.
const NOW: i64 = 1_800_000_000_000;

/// The filter that a command makes for a missing key.
fn created(request: &Request<'_, Word<'_>>, config: &Config) -> Result<Creation, CommandError> {
    request.given.creation(config, || NOW)
}

/// A command that comes from a primary or a file.
fn relayed<'a>(
    verb: Verb,
    words: &'a [Word<'a>],
    config: &Config,
    release: Release,
) -> Result<Request<'a, Word<'a>>, CommandError> {
    read_relayed(verb, words, || (config.clone(), release))
}

/// The filter that a client's BF.RESERVE makes.
fn reserve(words: &[Word<'_>], config: &Config) -> Result<Creation, CommandError> {
    created(&Request::parse(Verb::Reserve, words)?, config)
}

/// The items of a BF.INSERT, if it has ITEMS.
fn listed_items<'a>(request: &Request<'a, Word<'a>>) -> Option<&'a [Word<'a>]> {
    match request.items {
        Items::List(items) => Some(items),
        Items::None => None,
        Items::Packed { .. } => panic!("packed items of BF.INSERT"),
    }
}

/// The items of a BF.ADDPACKED.
fn packed_items<'a>(request: &Request<'a, Word<'a>>) -> Packed<'a> {
    match request.items {
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

/// Whether `items` are what comes after some word ITEMS, or after a token.
fn follow_their_word(items: &[Word<'_>], words: &[Word<'_>]) -> bool {
    let Some(before) = words.len().checked_sub(items.len()) else {
        return false;
    };
    let same = words[before..].iter().zip(items).all(|(a, b)| a.0 == b.0);
    let follow = |word: &Word<'_>| word.0.eq_ignore_ascii_case(b"ITEMS") || word.0.starts_with(b"SPEC1:");
    same && words[..before].last().is_some_and(follow)
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
    let words = packed::words(made.into(), items.form());
    let told = line(&words, &[&data]);
    for byte in 0..CONFIGURATIONS {
        let config = configuration(byte);
        let request = relayed(Verb::AddPacked, &told, &config, Release::Eight);
        let request = request.expect("what a primary sends");
        let again = packed_items(&request);
        assert_eq!((again.form(), listed(again)), (items.form(), listed(items)));
        assert_eq!(
            created(&request, &config),
            Ok(made),
            "a replica makes another one"
        );
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
        .chain(words.list().map(|word| word.bytes()))
        .chain(items.iter().copied());
    line.map(Word).collect()
}

/// A replica makes this filter, and no other, when it is told of it without items.
fn is_told_empty(made: Creation) {
    let words = propagation::command(made.into(), false);
    let verb = if words.command == c"BF.RESERVE" {
        Verb::Reserve
    } else {
        Verb::Insert
    };
    let told = line(&words, &[]);
    for byte in 0..CONFIGURATIONS {
        let config = configuration(byte);
        for release in [Release::Two, Release::Eight] {
            let request = relayed(verb, &told, &config, release).expect("what a primary sends");
            assert!(matches!(request.items, Items::None), "a replica adds items");
            assert_eq!(
                created(&request, &config),
                Ok(made),
                "a replica makes another one"
            );
        }
    }
}

/// A replica makes this filter, and no other, when it is told of it with items.
fn is_told(made: Creation) {
    let words = propagation::command(made.into(), true);
    let told = line(&words, &ITEMS);
    for byte in 0..CONFIGURATIONS {
        let config = configuration(byte);
        for release in [Release::Two, Release::Eight] {
            let request = relayed(Verb::Insert, &told, &config, release).unwrap();
            assert_eq!(
                listed_items(&request),
                Some(&ITEMS.map(Word)[..]),
                "a replica adds other items"
            );
            assert_eq!(
                created(&request, &config),
                Ok(made),
                "a replica makes another one of items"
            );
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
        let _ = (config.error_rate(), config.max_filter_bytes());
    }
}
