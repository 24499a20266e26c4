//! Helpers for tests of the commands' words.

use super::{
    Creation, Items, Parsed, Release, Word, Words, ask, obey, obey_creating, replicated, replicated_packed,
    replicated_with_items,
};
use crate::call::error::CommandError;
use crate::call::grammar::Verb;
use crate::options::values::{Config, ConfigOption};
use libbloom::error::ParamError;
use libbloom::packed::{Form, Packed};
use libbloom::params::{Seed, SipSeed, Tightening};
use libbloom::spec::{Spec, ValkeySpec};

/// The filter that a client's BF.RESERVE creates.
pub(crate) fn reserve(arguments: &[Word<'_>], config: &Config) -> Result<Creation, CommandError> {
    ask(Verb::Reserve, arguments, config)?.creation
}

/// The filter that a primary's BF.RESERVE creates.
pub(crate) fn obey_reserve(
    arguments: &[Word<'_>],
    config: &Config,
    release: Release,
) -> Result<Creation, CommandError> {
    obey(Verb::Reserve, arguments, config, release)?.creation
}

/// The items of a BF.INSERT, if it has ITEMS, and the filter that it creates for a missing key.
pub(crate) type Inserted<'a> = (Option<&'a [Word<'a>]>, Result<Creation, CommandError>);

/// What a client's BF.INSERT adds and creates.
pub(crate) fn insert<'a>(arguments: &'a [Word<'a>], config: &Config) -> Result<Inserted<'a>, CommandError> {
    ask(Verb::Insert, arguments, config).map(inserted)
}

/// What a primary's BF.INSERT adds and creates.
pub(crate) fn obey_insert<'a>(
    arguments: &'a [Word<'a>],
    config: &Config,
    release: Release,
) -> Result<Inserted<'a>, CommandError> {
    obey(Verb::Insert, arguments, config, release).map(inserted)
}

fn inserted(parsed: Parsed<'_>) -> Inserted<'_> {
    match parsed.items {
        Items::List(items) => (Some(items), parsed.creation),
        Items::None | Items::Packed { .. } => (None, parsed.creation),
    }
}

/// The items of a BF.ADDPACKED, and the filter that it creates for a missing key.
pub(crate) type AddedPacked<'a> = (Packed<'a>, Result<Creation, CommandError>);

/// What a client's BF.ADDPACKED adds and creates.
pub(crate) fn add_packed<'a>(
    arguments: &'a [Word<'a>],
    config: &Config,
) -> Result<AddedPacked<'a>, CommandError> {
    packed(ask(Verb::AddPacked, arguments, config)?)
}

/// What a primary's BF.ADDPACKED adds and creates.
pub(crate) fn obey_add_packed<'a>(
    arguments: &'a [Word<'a>],
    config: &Config,
) -> Result<AddedPacked<'a>, CommandError> {
    packed(obey(Verb::AddPacked, arguments, config, Release::Eight)?)
}

fn packed(parsed: Parsed<'_>) -> Result<AddedPacked<'_>, CommandError> {
    match parsed.items {
        Items::Packed { items, .. } => Ok((items, parsed.creation)),
        Items::None | Items::List(_) => Err(CommandError::OneForm),
    }
}

pub(crate) fn words(line: &str) -> Vec<Word<'_>> {
    line.split(' ').map(|word| Word(word.as_bytes())).collect()
}

/// The arguments of a propagated command: key, words, items.
pub(crate) fn propagated<'a>(key: &'a str, words: &'a Words, items: &[&'a str]) -> Vec<Word<'a>> {
    let items = items.iter().map(|item| item.as_bytes());
    let all = std::iter::once(key.as_bytes()).chain(words.list()).chain(items);
    all.map(Word).collect()
}

/// A configuration that makes other filters than the default one.
pub(crate) fn elsewhere() -> Config {
    let mut there = Config::new(Seed(8));
    there.set(ConfigOption::Layout, "classic").unwrap();
    there.set(ConfigOption::ExpansionFactor, "0").unwrap();
    there
}

/// Asserts that a receiver of the propagated creation makes the same filter, with and without items.
#[track_caller]
pub(crate) fn is_propagated(key: &str, made: Creation, there: &Config) {
    let ((command, alone), inserted) = (replicated(made), replicated_with_items(made));
    for release in [Release::Two, Release::Eight] {
        let alone = propagated(key, &alone, &[]);
        assert_eq!(obey_creating(command, &alone, there, release), Ok(made));
        let arguments = propagated(key, &inserted, &["a", "ITEMS"]);
        let (items, created) = obey_insert(&arguments, there, release).unwrap();
        assert_eq!(items, Some(&[Word(b"a"), Word(b"ITEMS")][..]));
        assert_eq!(created, Ok(made));
    }
}

/// Asserts that a receiver of the propagated creation with packed items makes the same filter.
#[track_caller]
pub(crate) fn is_propagated_packed(key: &str, made: Creation, there: &Config) {
    for (form, data) in [(Form::Lines, "a\nb"), (Form::Prefixed, "\x01\0\0\0a\x01\0\0\0b")] {
        let packed = replicated_packed(Some(made), form);
        let arguments = propagated(key, &packed, &[data]);
        let (items, created) = obey_add_packed(&arguments, there).unwrap();
        assert_eq!((items.form(), items.count()), (form, 2));
        assert_eq!(created, Ok(made));
    }
}

/// Seeds whose bytes separate words, end texts, or look like words.
pub(crate) const SEEDS: [&[u8; 32]; 6] = [
    b"                                ",
    b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r",
    b"00000000000000000000000000000007",
    b"ITEMS LAYOUT CLASSIC  NONSCALING",
    b"\xff\xfe\x80 \0\t\n\r\xc3\x28\xa0\xa1\xe2\x28\xa1\xf0\x28\x8c\xbc\xf8\xa1\xa1\xa1\xa1\xfc\xa1\xa1\xa1\xa1\xa1\xff\xff",
];

pub(crate) fn valkey(
    rate: f64,
    capacity: u64,
    expansion: u32,
    tightening: f64,
    seed: [u8; 32],
) -> Result<Spec, ParamError> {
    let tightening = Tightening::new(tightening)?;
    ValkeySpec::new(rate, capacity, expansion, tightening, SipSeed(seed)).map(Spec::Valkey)
}
