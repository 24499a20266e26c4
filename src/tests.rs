//! Commands without a server, for unit tests: arguments in, the described filter out. The clock of a client's server
//! differs from that of a replica, which runs the command later.

use crate::call::args::Word;
use crate::call::error::CommandError;
use crate::call::given::Verb;
use crate::call::request::{Items, Request};
use crate::call::target::{Creation, Target};
use crate::call::words::Words;
use crate::options::values::{Config, ConfigOption};
use crate::rivals::read_relayed;
use crate::rivals::redisbloom::Release;
use crate::work::{packed, propagation};
use libbloom::error::ParamError;
use libbloom::packed::Form;
use libbloom::params::{Seed, SipSeed, Tightening};
use libbloom::spec::{Spec, ValkeySpec};

/// The clock of the server that a client talks to, in milliseconds.
pub const NOW: i64 = 1_800_000_000_000;
/// The clock of a server that runs the command of a primary or a file, in milliseconds.
const LATER: i64 = NOW + 123_456_789;

/// The filter that a client's command creates for a missing key.
pub fn asked(verb: Verb, arguments: &[Word<'_>], config: &Config) -> Result<Creation, CommandError> {
    Request::parse(verb, arguments)?.given.creation(config, || NOW)
}

/// What a command of a primary or a file says.
pub fn relayed<'a>(
    verb: Verb,
    arguments: &'a [Word<'a>],
    config: &Config,
    release: Release,
) -> Result<Request<'a, Word<'a>>, CommandError> {
    read_relayed(verb, arguments, || (config.clone(), release))
}

/// The filter that a command of a primary or a file creates for a missing key.
pub fn obeyed(
    verb: Verb,
    arguments: &[Word<'_>],
    config: &Config,
    release: Release,
) -> Result<Creation, CommandError> {
    let request = relayed(verb, arguments, config, release)?;
    request.given.creation(config, || LATER)
}

/// The items that are arguments.
pub fn listed<'a>(request: &Request<'a, Word<'a>>) -> Option<&'a [Word<'a>]> {
    match request.items {
        Items::List(items) => Some(items),
        Items::None | Items::Packed { .. } => None,
    }
}

/// The arguments in a line.
pub fn words(line: &str) -> Vec<Word<'_>> {
    line.split(' ').map(|word| Word(word.as_bytes())).collect()
}

/// A configuration that makes other filters than the default one.
pub fn elsewhere() -> Config {
    let mut there = Config::new(Seed(8));
    there.set(ConfigOption::Layout, "classic").unwrap();
    there.set(ConfigOption::ExpansionFactor, "0").unwrap();
    there
}

/// Asserts that a receiver of the propagated creation makes the same filter: without items, with items, and with packed
/// ones.
#[track_caller]
pub fn is_propagated(key: &str, made: Creation, there: &Config) {
    let said = propagation::command(made.into(), false);
    let verb = if said.command == c"BF.RESERVE" {
        Verb::Reserve
    } else {
        Verb::Insert
    };
    is_made(verb, key, &said, &[], made, there);
    is_propagated_with_items(key, made, there);
    let said = packed::words(Target::from(made), Form::Lines);
    is_made(Verb::AddPacked, key, &said, &[Word(b"a\nb")], made, there);
}

/// Asserts that a receiver of the creation with items makes the same filter.
#[track_caller]
pub fn is_propagated_with_items(key: &str, made: Creation, there: &Config) {
    let said = propagation::command(made.into(), true);
    assert_eq!(said.command, c"BF.INSERT");
    is_made(
        Verb::Insert,
        key,
        &said,
        &[Word(b"a"), Word(b"ITEMS")],
        made,
        there,
    );
}

#[track_caller]
fn is_made(verb: Verb, key: &str, said: &Words, items: &[Word<'_>], made: Creation, there: &Config) {
    let key = Word(key.as_bytes());
    let arguments = std::iter::once(key).chain(said.list().map(|word| Word(word.bytes())));
    let arguments: Vec<_> = arguments.chain(items.iter().copied()).collect();
    for release in [Release::Two, Release::Eight] {
        let request = relayed(verb, &arguments, there, release).unwrap();
        match request.items {
            Items::None => assert_eq!(items, []),
            Items::List(list) => assert_eq!(list, items),
            Items::Packed { items, .. } => assert_eq!((items.form(), items.count()), (Form::Lines, 2)),
        }
        assert_eq!(request.given.creation(there, || LATER), Ok(made));
    }
}

/// Seeds whose bytes separate words, end texts, or look like words.
pub const SEEDS: [&[u8; 32]; 6] = [
    b"                                ",
    b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r",
    b"00000000000000000000000000000007",
    b"ITEMS LAYOUT CLASSIC  NONSCALING",
    b"\xff\xfe\x80 \0\t\n\r\xc3\x28\xa0\xa1\xe2\x28\xa1\xf0\x28\x8c\xbc\xf8\xa1\xa1\xa1\xa1\xfc\xa1\xa1\xa1\xa1\xa1\xff\xff",
];

/// A filter in valkey-bloom's layout.
pub fn valkey(
    rate: f64,
    capacity: u64,
    expansion: u32,
    tightening: f64,
    seed: [u8; 32],
) -> Result<Spec, ParamError> {
    let tightening = Tightening::new(tightening)?;
    ValkeySpec::new(rate, capacity, expansion, tightening, SipSeed(seed)).map(Spec::Valkey)
}
