//! Beside a module that others use: replicas of each other, and each other's files. The tests are the same for each of
//! them; what differs is in its [`Rival`].
//!
//! `BLOOM_TEST_REDISBLOOM=path.so` names a RedisBloom that the server loads, `BLOOM_TEST_VALKEY_BLOOM=path.so` a
//! valkey-bloom; `make test-redisbloom` and `make test-valkey-bloom` do. What they have recorded is compared without them,
//! in `recorded.rs`.

use std::fs;

use libbloom::codec::chunks;
use libbloom::{Filter, Layout};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::client::{Client, Reply, array, error, ok};
use crate::server::{Server, Setup, sample, seed, skip, until};
use crate::support::aof::{copied, rewrite};
use crate::support::chunks::{load, scandump};
use crate::support::items::{answers, numbered};
use crate::support::link::{follow, in_step, is_content};
use crate::support::payload::BAD_FORMAT;
use crate::support::stored_valkey::{FORETOLD, STORED};

// ---- For any of them -------------------------------------------------------------------------------

/// Commands of a stream, and its different items.
const STEPS: usize = 1500;
const ITEMS: usize = 4000;

/// Questions to each key, when two servers are compared.
const QUESTIONS: usize = 20_000;

/// The fewest keys that are worth comparing.
const LEAST: usize = 8;

/// A server with the module that a variable names, to be set up, if it names one.
fn named(variable: &str) -> Option<Setup> {
    let path = fs::canonicalize(std::env::var_os(variable)?);
    let path = path.unwrap_or_else(|why| panic!("{variable}: {why}"));
    Some(Server::with().module_at(&path))
}

/// The modules to compare with, if there are any, and if the server lets them follow.
macro_rules! rivals {
    () => {{
        let redisbloom = redisbloom().map(|rival| Box::new(rival) as Box<dyn Rival>);
        let valkey_bloom = valkey_bloom().map(|rival| Box::new(rival) as Box<dyn Rival>);
        let rivals: Vec<_> = redisbloom.into_iter().chain(valkey_bloom).collect();
        if rivals.is_empty() {
            skip!("no variable names a module that this server loads");
        }
        rivals
    }};
}

/// The server that a write is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Theirs,
    Ours,
}

/// Another module.
trait Rival {
    /// A server with it, to be set up.
    fn theirs(&self) -> Setup;

    /// A server with this project's module, whose new filters are of the other one's layout, to be set up.
    fn ours(&self) -> Setup;

    /// Sends one of many writes, at random.
    fn write(&self, traffic: &mut Traffic, to: Side);

    /// Asserts that both servers say the same of a key. Whether it is a filter.
    fn is_same(&self, one: &mut Client, other: &mut Client, key: &[u8]) -> bool;

    /// Changes what the servers with it disagree about, but for their clients' commands.
    fn reconfigure(&self, _first: &Server) {}

    /// Makes filters of its layout on a server whose own would be of another one. How many.
    fn make(&self, client: &mut Client) -> usize;

    /// How tools copy single filters.
    fn ways(&self) -> [Way; 2];

    /// The layouts that it must refuse, and what it logs then.
    fn others(&self) -> (&'static [&'static str], &'static [&'static str]);
}

/// Random writes to one server.
struct Traffic {
    random: StdRng,
    client: Client,
}

impl Traffic {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.random).unwrap()
    }

    fn items(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.random.random_range(1..=most);
        let items = (0..count).map(|_| self.random.random_range(0..ITEMS).to_string().into_bytes());
        items.collect()
    }

    fn send(&mut self, head: &[&[u8]], more: &[Vec<Vec<u8>>]) -> Reply {
        let words = head.iter().map(|word| word.to_vec());
        let words: Vec<_> = words.chain(more.concat()).collect();
        self.client.call(&words)
    }
}

/// A stream of writes, another one for each number.
fn write(rival: &dyn Rival, server: &Server, to: Side, number: u64) {
    let mut traffic = Traffic {
        random: StdRng::seed_from_u64(seed() + number),
        client: server.client(),
    };
    (0..sample(STEPS)).for_each(|_| rival.write(&mut traffic, to));
}

fn keys(client: &mut Client) -> Vec<Vec<u8>> {
    let keys = client.run("KEYS *");
    let mut keys: Vec<_> = keys.elements().iter().map(|key| key.bytes().to_vec()).collect();
    keys.sort();
    keys
}

/// The two servers have the same keys: in what they say of them, and in what they answer.
#[track_caller]
fn are_equal(rival: &dyn Rival, one: &Server, other: &Server, least: usize) {
    let (mut one, mut other) = (one.client(), other.client());
    let names = keys(&mut one);
    assert_eq!(keys(&mut other), names);
    assert!(names.len() >= least, "too little to compare: {names:?}");
    let items = numbered("", 0, QUESTIONS);
    for key in &names {
        let ends = [&mut one, &mut other].map(|client| client.call(&[b"PEXPIRETIME", &key[..]]));
        assert_eq!(ends[0], ends[1], "{}", key.escape_ascii());
        if rival.is_same(&mut one, &mut other, key) {
            let found = [&mut one, &mut other].map(|client| answers(client, key, &items));
            assert!(found[0] == found[1], "{}: other answers", key.escape_ascii());
        }
    }
}

/// A switch to this module would lose what clients wrote in words that only the other one takes; and the way back would
/// be closed.
#[test]
fn a_replica_equals_it_and_takes_its_place() {
    for rival in rivals!() {
        let rival = &*rival;
        let first = rival.theirs().append_only().start();
        // Whatever its own clients' filters are to be.
        let mut early = Server::with()
            .module_args("bf-max-filter-bytes 134217728")
            .append_only()
            .replica_of(&first)
            .start();
        in_step(&first, &early);
        write(rival, &first, Side::Theirs, 0);
        in_step(&first, &early);
        are_equal(rival, &first, &early, LEAST);
        let late = rival.ours().replica_of(&first).start();
        in_step(&first, &late);
        rival.reconfigure(&first);
        write(rival, &first, Side::Theirs, 1);
        for replica in [&early, &late] {
            in_step(&first, replica);
            are_equal(rival, &first, replica, LEAST);
            is_content(replica);
        }

        // What it wrote of that into its own file means the same.
        early.client().answers(&[("REPLICAOF NO ONE", ok())]);
        early.restart();
        early.client().answers(&[("REPLICAOF NO ONE", ok())]);
        are_equal(rival, &late, &early, LEAST);

        // The places are changed.
        late.client().answers(&[("REPLICAOF NO ONE", ok())]);
        follow(&first, &late);
        write(rival, &late, Side::Ours, 2);
        in_step(&late, &first);
        are_equal(rival, &late, &first, LEAST);
        is_content(&first);
    }
}

/// The way back would be closed, or need a pause.
#[test]
fn it_follows_filters_of_its_layout() {
    for rival in rivals!() {
        let rival = &*rival;
        let primary = rival.ours().start();
        let first = rival.theirs().replica_of(&primary).start();
        in_step(&primary, &first);
        write(rival, &primary, Side::Ours, 3);
        let second = rival.theirs().replica_of(&primary).start();
        write(rival, &primary, Side::Ours, 4);
        for replica in [&first, &second] {
            in_step(&primary, replica);
            are_equal(rival, &primary, replica, LEAST);
            is_content(replica);
        }

        // Said with each filter, instead of once.
        let primary = Server::start();
        let replica = rival.theirs().replica_of(&primary).start();
        in_step(&primary, &replica);
        let made = rival.make(&mut primary.client());
        in_step(&primary, &replica);
        are_equal(rival, &primary, &replica, made);
        is_content(&replica);
    }
}

/// Who keeps the way back open would lose filters that are to expire, or keep them there for ever.
#[test]
fn it_follows_an_end_that_is_said_afterwards() {
    for rival in rivals!() {
        let rival = &*rival;
        let primary = rival.ours().start();
        let replica = rival.theirs().replica_of(&primary).start();
        in_step(&primary, &replica);
        let (mut client, mut follower) = (primary.client(), replica.client());
        client.answers(&[
            ("BF.RESERVE kept 0.001 70", ok()),
            ("EXPIRE kept 1000", 1.into()),
            ("BF.INSERT kept EX 5 ITEMS a b", array([1, 1])),
        ]);
        in_step(&primary, &replica);
        are_equal(rival, &primary, &replica, 1);
        is_content(&replica);

        // In one command it is not understood. What is made of an add instead goes with the original.
        client.answers(&[
            ("BF.RESERVE reserved 0.001 70 EX 1000", ok()),
            ("BF.RESERVE fixed 0.001 70 NONSCALING EX 1000", ok()),
            ("BF.INSERT inserted EX 1000 ITEMS a", array([1])),
        ]);
        in_step(&primary, &replica);
        follower.answers(&[("EXISTS reserved fixed inserted", 0.into())]);
        client.answers(&[("BF.MADD reserved a", array([1]))]);
        in_step(&primary, &replica);
        assert_eq!(follower.info("reserved", "Capacity"), 100);
        client.answers(&[("PEXPIRE reserved 1", 1.into())]);
        until("it expires", || follower.run("DBSIZE") == 1.into());
    }
}

/// Who stops one server and starts the other on its files would lose filters, or get others; there and back.
#[test]
fn files_are_read_by_the_other_one() {
    for rival in rivals!() {
        let rival = &*rival;
        for preamble in ["yes", "no"] {
            let on = |setup: Setup, dir: &TempDir| {
                let setup = setup.append_only().config("aof-use-rdb-preamble", preamble);
                setup.dir(dir.path()).start()
            };
            let dir = TempDir::new().unwrap();
            let theirs = on(rival.theirs(), &dir);
            write(rival, &theirs, Side::Theirs, 5);
            // Commands as clients sent them, then what they were rewritten to.
            let copy = copied(&theirs);
            are_equal(rival, &theirs, &on(rival.ours(), &copy), LEAST);
            rewrite(&mut theirs.client());
            let copy = copied(&theirs);
            let ours = on(rival.ours(), &copy);
            are_equal(rival, &theirs, &ours, LEAST);

            write(rival, &ours, Side::Ours, 6);
            let copy = copied(&ours);
            are_equal(rival, &ours, &on(rival.theirs(), &copy), LEAST);
            rewrite(&mut ours.client());
            let copy = copied(&ours);
            are_equal(rival, &ours, &on(rival.theirs(), &copy), LEAST);
        }
        let theirs = rival.theirs().start();
        write(rival, &theirs, Side::Theirs, 7);
        theirs.client().answers(&[("SAVE", ok())]);
        let ours = rival.ours().dir(theirs.dir()).start();
        are_equal(rival, &theirs, &ours, LEAST);
        write(rival, &ours, Side::Ours, 8);
        ours.client().answers(&[("SAVE", ok())]);
        let again = rival.theirs().dir(ours.dir()).start();
        are_equal(rival, &ours, &again, LEAST);
    }
}

/// Copies a filter under its name.
type Way = fn(&Server, &Server, &[u8]);

fn by_payload(from: &Server, to: &Server, key: &[u8]) {
    let payload = from.client().call(&[b"DUMP", key]);
    let restored = to.client().call(&[b"RESTORE", key, b"0", payload.bytes()]);
    assert_eq!(restored, ok(), "{}", key.escape_ascii());
}

fn by_chunks(from: &Server, to: &Server, key: &[u8]) {
    let key = str::from_utf8(key).unwrap();
    let chunks = scandump(&mut from.client(), key);
    load(&mut to.client(), key, &chunks);
}

fn by_migration(from: &Server, to: &Server, key: &[u8]) {
    let port = to.port().to_string();
    let head = [
        &b"MIGRATE"[..],
        b"127.0.0.1",
        port.as_bytes(),
        b"",
        b"0",
        b"10000",
    ];
    let words = [&head[..], &[b"COPY", b"KEYS", key]].concat();
    assert_eq!(from.client().call(&words), ok(), "{}", key.escape_ascii());
}

/// Tools that copy single filters would alter them, in either direction.
#[test]
fn single_filters_go_both_ways() {
    for rival in rivals!() {
        let rival = &*rival;
        let (theirs, ours) = (rival.theirs().start(), rival.ours().start());
        for (round, way) in (0..).zip(rival.ways()) {
            for (from, to, side) in [(&theirs, &ours, Side::Theirs), (&ours, &theirs, Side::Ours)] {
                write(rival, from, side, 9 + 2 * round + u64::from(side == Side::Ours));
                let names = keys(&mut from.client());
                for key in &names {
                    from.client().call(&[b"PERSIST", &key[..]]);
                }
                to.client().answers(&[("FLUSHALL", ok())]);
                names.iter().for_each(|key| way(from, to, key));
                are_equal(rival, from, to, LEAST);
            }
        }
    }
}

/// The other module would misread a filter of another layout, and answer at random.
#[test]
fn it_refuses_filters_of_other_layouts() {
    for rival in rivals!() {
        let rival = &*rival;
        let (layouts, texts) = rival.others();
        for layout in layouts {
            let (theirs, ours) = (rival.theirs().start(), Server::start());
            let (mut to, mut from) = (theirs.client(), ours.client());
            from.answers(&[
                (&format!("BF.RESERVE key 0.01 100 LAYOUT {layout}"), ok()),
                ("BF.ADD key a", 1.into()),
            ]);
            let payload = from.dump("key");
            let restored = to.call(&[b"RESTORE", &b"key"[..], b"0", payload.bytes()]);
            assert_eq!(restored, error(BAD_FORMAT), "{layout}");
            let header = from.run("BF.SCANDUMP key 0");
            let load = [&b"BF.LOADCHUNK"[..], b"key", b"1", header.elements()[1].bytes()];
            assert!(matches!(to.call(&load), Reply::Error(_)), "{layout}");
            to.answers(&[("EXISTS key", 0.into())]);
            from.answers(&[("SAVE", ok())]);
            let refused = rival.theirs().dir(ours.dir()).try_start().err();
            let log = refused.unwrap_or_else(|| panic!("it reads a filter in {layout}"));
            assert!(texts.iter().any(|text| log.contains(text)), "{log}");
        }
    }
}

// ---- RedisBloom --------------------------------------------------------------------------------------

/// Keys of a stream. RedisBloom looks for options among them too.
const KEYS: [&str; 12] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "NONSCALING",
    "nonscaling",
    "EXPANSION",
    "ITEMS",
    "",
];

struct RedisBloom {
    setup: Setup,
    rates: Vec<&'static str>,
    /// What it takes, and what both take.
    expansions: [Vec<&'static str>; 2],
}

/// The RedisBloom to compare with, if the server tells when a key expires and keeps more than one file.
fn redisbloom() -> Option<RedisBloom> {
    let is_known = Server::version().at_least(7, 0);
    named("BLOOM_TEST_REDISBLOOM")
        .filter(|_| is_known)
        .map(RedisBloom::new)
}

impl RedisBloom {
    fn new(setup: Setup) -> Self {
        let modules = setup.clone().start().client().run("MODULE LIST");
        let is_bf = |module: &&Reply| module.field("name").text() == "bf";
        let bf = modules.elements().iter().find(is_bf).unwrap();
        let is_8 = bf.field("ver").int() >= 80_000;
        let mut rates = vec!["0.2", "0.1", "0.25", "1e-2", "0.0123456789", "0.15", "1e-7"];
        // What RedisBloom 2 and 8 make of a rate above 0.25 is not the same, and only older servers rule out one.
        if is_8 || !Server::version().at_least(8, 0) {
            rates.extend(["0.3", "0.99"]);
        }
        let mut both = vec!["1", "2", "3", "7"];
        both.extend(is_8.then_some("0"));
        let mut its = both.clone();
        if !is_8 {
            its.extend(["40000", "4294967298", "4294967296"]);
        }
        Self {
            setup,
            rates,
            expansions: [its, both],
        }
    }
}

/// One write in RedisBloom's grammar, or in that of this module's clients.
struct Step<'a> {
    rival: &'a RedisBloom,
    traffic: &'a mut Traffic,
    /// Abbreviations, unknown words, options given twice.
    is_lax: bool,
}

impl Step<'_> {
    /// An option's word: as it is known, or, where RedisBloom asks, any that it takes for the same.
    fn word(&mut self, known: &[&str]) -> Vec<u8> {
        let known = if self.is_lax { known } else { &known[..1] };
        self.traffic.pick(known).into()
    }

    fn rate(&mut self) -> Vec<u8> {
        // A filter of this module's clients has at most 0.25.
        let most = if self.is_lax { self.rival.rates.len() } else { 7 };
        self.traffic.pick(&self.rival.rates[..most]).into()
    }

    fn expansion(&mut self) -> Vec<u8> {
        self.traffic
            .pick(&self.rival.expansions[usize::from(!self.is_lax)])
            .into()
    }

    fn size(&mut self) -> Vec<u8> {
        self.traffic.pick(&["1", "3", "10", "50", "100", "400"]).into()
    }

    fn insert_options(&mut self) -> Vec<Vec<u8>> {
        let mut options = vec![
            vec![self.word(&["CAPACITY", "CAP", "c"]), self.size()],
            vec![self.word(&["ERROR", "err", "Er"]), self.rate()],
            vec![self.word(&["EXPANSION", "EXP", "e"]), self.expansion()],
            vec![self.word(&["NONSCALING", "no", "NOpe"])],
            vec![self.word(&["NOCREATE", "nxC"])],
        ];
        if self.is_lax {
            options.extend(options.clone());
        }
        options.retain(|_| self.traffic.random.random_ratio(1, 4));
        options.concat()
    }

    fn reserve_options(&mut self) -> Vec<Vec<u8>> {
        let all = [
            "",
            "NONSCALING",
            "EXPANSION FACTOR",
            "expansion FACTOR",
            "EXP FACTOR",
            "scaling EXPANSION FACTOR",
            "expansion FACTOR EXPANSION",
            "NONSCALING nonscaling",
            "what ever",
        ];
        let factor = self.expansion();
        let options = self.traffic.pick(if self.is_lax { &all[..] } else { &all[..4] });
        let words = options.split_whitespace();
        let words = words.map(|word| {
            if word == "FACTOR" {
                factor.clone()
            } else {
                word.into()
            }
        });
        words.collect()
    }

    fn run(&mut self) {
        let (key, other) = (self.traffic.pick(&KEYS), self.traffic.pick(&KEYS));
        let name = key.as_bytes();
        match self.traffic.random.random_range(0..60) {
            0..12 => {
                let item = self.traffic.items(1);
                self.traffic.send(&[b"BF.ADD", name], &[item]);
            }
            12..27 => {
                let items = self.traffic.items(40);
                self.traffic.send(&[b"BF.MADD", name], &[items]);
            }
            27..42 => {
                let (options, word) = (self.insert_options(), self.word(&["ITEMS", "i"]));
                let items = self.traffic.items(40);
                self.traffic
                    .send(&[b"BF.INSERT", name], &[options, vec![word], items]);
            }
            // RedisBloom takes the key for the option, and refuses what this module propagates.
            42..54 if !self.is_lax && ["NONSCALING", "EXPANSION"].contains(&&*key.to_uppercase()) => {}
            42..54 => {
                let (size, options) = (vec![self.rate(), self.size()], self.reserve_options());
                self.traffic.send(&[b"BF.RESERVE", name], &[size, options]);
            }
            54..57 => {
                let items = self.traffic.items(500);
                self.traffic.send(&[b"BF.MADD", name], &[items]);
            }
            57 => drop(self.traffic.send(&[b"DEL", name], &[])),
            58 => {
                let item = self.traffic.items(1);
                self.traffic.send(&[b"MULTI"], &[]);
                self.traffic.send(&[b"BF.ADD", name], std::slice::from_ref(&item));
                self.traffic
                    .send(&[b"BF.MADD", other.as_bytes()], &[item.clone(), item]);
                self.traffic.send(&[b"EXEC"], &[]);
            }
            _ => {
                let client = &mut self.traffic.client;
                if key != other && client.call(&["EXISTS", key]) == 1.into() {
                    let chunks = scandump(client, key);
                    client.call(&["DEL", other]);
                    load(client, other, &chunks);
                }
            }
        }
    }
}

impl Rival for RedisBloom {
    fn theirs(&self) -> Setup {
        self.setup.clone()
    }

    fn ours(&self) -> Setup {
        Server::with().module_args("bf-layout classic")
    }

    fn write(&self, traffic: &mut Traffic, to: Side) {
        let is_lax = to == Side::Theirs;
        Step {
            rival: self,
            traffic,
            is_lax,
        }
        .run();
    }

    fn is_same(&self, one: &mut Client, other: &mut Client, key: &[u8]) -> bool {
        // The header of the chunks has what is stored and not used.
        for words in [&[&b"BF.DEBUG"[..], key][..], &[b"BF.SCANDUMP", key, b"0"]] {
            // RedisBloom's lines are simple strings.
            let said = [&mut *one, other].map(|client| {
                let reply = client.call(words);
                let said = reply.elements().iter().map(|part| match part {
                    Reply::Simple(text) => Reply::Bulk(text.clone().into_bytes()),
                    other => other.clone(),
                });
                said.collect::<Vec<_>>()
            });
            assert_eq!(said[0], said[1], "{}", key.escape_ascii());
        }
        true
    }

    fn make(&self, client: &mut Client) -> usize {
        client.answers(&[
            (
                "BF.RESERVE grown 0.0123456789 10 EXPANSION 3 LAYOUT CLASSIC",
                ok(),
            ),
            ("BF.RESERVE fixed 1e-30 70 LAYOUT CLASSIC NONSCALING", ok()),
            (
                "BF.INSERT made LAYOUT CLASSIC CAPACITY 7 ERROR 0.1 EXPANSION 5 NONSCALING ITEMS a b",
                array([1, 1]),
            ),
            ("BF.INSERT default LAYOUT CLASSIC ITEMS a", array([1])),
        ]);
        for key in ["grown", "default"] {
            client.over(&format!("BF.MADD {key}"), &numbered("", 0, 3000));
        }
        4
    }

    fn ways(&self) -> [Way; 2] {
        [by_chunks, by_payload]
    }

    fn others(&self) -> (&'static [&'static str], &'static [&'static str]) {
        (
            &["BLOCKED"],
            &["Error loading data from RDB", "error in RDB reading"],
        )
    }
}

/// A client that looks for RedisBloom's error about a refused chunk would not find it.
#[test]
fn texts_are_redisbloom_s() {
    let Some(rival) = redisbloom() else {
        skip!("BLOOM_TEST_REDISBLOOM names no RedisBloom for this server");
    };
    let (theirs, ours) = (rival.theirs().start(), rival.ours().start());
    let (mut theirs, mut ours) = (theirs.client(), ours.client());
    theirs.answers(&[("BF.RESERVE key 0.01 100", ok())]);
    ours.answers(&[("BF.RESERVE key 0.01 100", ok())]);
    for (iterator, data) in [
        ("-9223372036854775808", ""),
        ("-1", "a"),
        ("-1", ""),
        ("0", ""),
        ("0", "a"),
        ("1", ""),
        ("1", "a"),
        ("1", "ab"),
        ("2", "abc"),
        ("3", "abc"),
        ("144", "a"),
        ("145", "ab"),
        ("146", "ab"),
        ("147", "a"),
        ("1000", "a"),
        ("9223372036854775807", "a"),
        ("x", "a"),
    ] {
        for key in ["key", "missing"] {
            let line = ["BF.LOADCHUNK", key, iterator, data];
            assert_eq!(ours.call(&line), theirs.call(&line), "{line:?}");
        }
    }
}

/// Who fills filters in a program, for a server with RedisBloom, would get other answers there, or none; and who reads
/// RedisBloom's would get other filters.
#[test]
fn filters_go_to_and_fro_between_the_crate_and_a_redisbloom() {
    let Some(rival) = redisbloom() else {
        skip!("BLOOM_TEST_REDISBLOOM names no RedisBloom for this server");
    };
    let server = rival.theirs().start();
    let mut client = server.client();
    let items = numbered("item:", 0, 12_000);
    for (key, capacity, rate, is_fixed) in [
        ("grown", 100, 0.01, false),
        ("large", 10_000, 0.001, false),
        ("fixed", 5000, 1e-6, true),
    ] {
        let builder = Filter::builder(capacity, rate).layout(Layout::Classic);
        let mut filter = if is_fixed { builder.fixed() } else { builder }.build().unwrap();
        filter
            .insert_many(items[..3000].iter().map(Vec::as_slice))
            .unwrap();
        let mut payload = Vec::new();
        libbloom_rdb::write_payload(&filter, &mut payload).unwrap();
        let restored = client.call(&[b"RESTORE", key.as_bytes(), b"0", &payload]);
        assert_eq!(restored, ok(), "{key}");
        let here = filter.contains_many(items.iter().map(Vec::as_slice));
        assert_eq!(answers(&mut client, key.as_bytes(), &items), here, "{key}");
        assert!(here.iter().filter(|answer| !**answer).count() > 8000, "{key}");

        // The server adds to the filter, which comes back as if the items had been added here.
        let more = &items[2000..4000];
        let added = client.over(&format!("BF.MADD {key}"), more);
        let here: Vec<_> = more
            .iter()
            .map(|item| filter.insert(item).unwrap())
            .map(|is_new| Reply::Int(is_new.into()))
            .collect();
        let new = |answers: &[Reply]| answers.iter().filter(|answer| answer.int() == 1).count();
        assert_eq!(new(added.elements()), new(&here), "{key}");
        let back = libbloom_rdb::read_payload(client.dump(key).bytes(), u64::MAX).unwrap();
        let header = |filter: &Filter| chunks::chunks(filter).next().unwrap().bytes.into_owned();
        assert_eq!(header(&back), header(&filter), "{key}");
        assert!(chunks::chunks(&back).eq(chunks::chunks(&filter)), "{key}");
    }
}

// ---- valkey-bloom ------------------------------------------------------------------------------------

/// Keys of a stream.
const VALKEY_KEYS: [&[u8]; 12] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"g",
    b"SEED",
    b"ITEMS",
    b"nonscaling",
    b"",
    b"\0 \xff\r\n",
];

struct ValkeyBloom {
    setup: Setup,
}

/// The valkey-bloom to compare with, if the server can load it.
fn valkey_bloom() -> Option<ValkeyBloom> {
    let setup = named("BLOOM_TEST_VALKEY_BLOOM").filter(|_| Server::version().valkey)?;
    Some(ValkeyBloom { setup })
}

/// One write that both modules understand: to this module also with BF.LOAD, which valkey-bloom 1.0 does not send to its
/// replicas as it came, and in the words that its clients may use.
struct ValkeyStep<'a> {
    traffic: &'a mut Traffic,
    to_ours: bool,
}

impl ValkeyStep<'_> {
    /// A word in any case.
    fn word(&mut self, word: &str) -> Vec<u8> {
        match self.traffic.random.random_range(0..3) {
            0 => word.to_lowercase().into_bytes(),
            1 => word[..1]
                .to_owned()
                .into_bytes()
                .into_iter()
                .chain(word[1..].to_lowercase().bytes())
                .collect(),
            _ => word.into(),
        }
    }

    fn rate(&mut self) -> Vec<u8> {
        let rates = ["0.2", "0.1", "0.3", "1e-2", "0.0123456789", "0.75", "1e-7"];
        self.traffic.pick(&rates).into()
    }

    fn size(&mut self) -> Vec<u8> {
        let sizes = ["1", "3", "10", "50", "100", "400"];
        self.traffic.pick(&sizes).into()
    }

    fn insert_options(&mut self) -> Vec<Vec<u8>> {
        let mut seed = vec![0; 32];
        self.traffic.random.fill(&mut seed[..]);
        let expansion = self.traffic.pick(&["1", "2", "3", "7"]);
        let tightening = self.traffic.pick(&["0.5", "0.25", "0.9", "1e-3"]);
        let goal = self.traffic.pick(&["1", "100", "1000"]);
        let mut options = vec![
            vec![self.word("CAPACITY"), self.size()],
            vec![self.word("ERROR"), self.rate()],
            vec![self.word("EXPANSION"), expansion.into()],
            vec![self.word("TIGHTENING"), tightening.into()],
            vec![self.word("SEED"), seed],
            vec![self.word("VALIDATESCALETO"), goal.into()],
            vec![self.word("NONSCALING")],
            vec![self.word("NOCREATE")],
        ];
        if self.to_ours {
            options.push(vec![self.word("SEED"), b"77".to_vec()]);
            options.push(vec![self.word("LAYOUT"), self.word("VALKEY")]);
        } else {
            // Of words given twice the later one counts.
            options.extend(options.clone());
        }
        options.shuffle(&mut self.traffic.random);
        options.retain(|_| self.traffic.random.random_ratio(1, 6));
        options.concat()
    }

    fn reserve_options(&mut self) -> Vec<Vec<u8>> {
        let factor = self.traffic.pick(&["1", "2", "4"]);
        match self.traffic.random.random_range(0..3) {
            0 => Vec::new(),
            1 => vec![self.word("NONSCALING")],
            _ => vec![self.word("EXPANSION"), factor.into()],
        }
    }

    fn insert(&mut self, key: &[u8]) {
        let (options, word, items) = (self.insert_options(), self.word("ITEMS"), self.traffic.items(40));
        self.traffic
            .send(&[b"BF.INSERT", key], &[options, vec![word], items]);
    }

    fn reserve(&mut self, key: &[u8]) {
        let (size, options) = (vec![self.rate(), self.size()], self.reserve_options());
        self.traffic.send(&[b"BF.RESERVE", key], &[size, options]);
    }

    fn run(&mut self) {
        let (key, other) = (self.traffic.pick(&VALKEY_KEYS), self.traffic.pick(&VALKEY_KEYS));
        let replaces = self.traffic.random.random_bool(0.5);
        let replace: Vec<_> = replaces.then(|| b"REPLACE".to_vec()).into_iter().collect();
        match self.traffic.random.random_range(0..100) {
            0..20 => {
                let item = self.traffic.items(1);
                self.traffic.send(&[b"BF.ADD", key], &[item]);
            }
            20..42 => {
                let items = self.traffic.items(40);
                self.traffic.send(&[b"BF.MADD", key], &[items]);
            }
            42..62 => self.insert(key),
            62..66 => {
                let options = self.insert_options();
                self.traffic.send(&[b"BF.INSERT", key], &[options]);
            }
            66..70 => self.reserve(key),
            70..75 => {
                self.traffic.send(&[b"DEL", key], &[]);
                self.reserve(key);
            }
            75..79 => {
                let items = self.traffic.items(500);
                self.traffic.send(&[b"BF.MADD", key], &[items]);
            }
            79..82 => {
                let name = self.traffic.pick(&[&b"DEL"[..], b"UNLINK"]);
                self.traffic.send(&[name, key], &[]);
            }
            82..84 => {
                self.traffic.send(&[b"COPY", key, other], &[replace]);
            }
            84 => {
                let name = self.traffic.pick(&[&b"RENAME"[..], b"RENAMENX"]);
                self.traffic.send(&[name, key, other], &[]);
            }
            85..88 => {
                if let Reply::Bulk(payload) = self.traffic.send(&[b"DUMP", key], &[]) {
                    self.traffic
                        .send(&[b"RESTORE", other, b"0", &payload], &[replace]);
                }
            }
            88..90 => {
                self.traffic.send(&[b"EXPIRE", key, b"3000000000"], &[]);
            }
            90 => {
                self.traffic.send(&[b"PERSIST", key], &[]);
            }
            91 => {
                self.traffic.send(&[b"EXPIRE", key, b"-1"], &[]);
            }
            92..95 => {
                let item = self.traffic.items(1);
                self.traffic.send(&[b"MULTI"], &[]);
                self.traffic.send(&[b"BF.ADD", key], &[item]);
                self.insert(other);
                self.traffic.send(&[b"DEL", key], &[]);
                self.reserve(key);
                self.traffic.send(&[b"EXEC"], &[]);
            }
            95..97 => {
                let script = b"redis.call('BF.ADD', KEYS[1], ARGV[1]) \
                               return redis.call('BF.MADD', KEYS[2], unpack(ARGV))";
                let items = self.traffic.items(20);
                self.traffic.send(&[b"EVAL", script, b"2", key, other], &[items]);
            }
            97 => {
                self.traffic.send(&[b"SET", key, b"text"], &[]);
            }
            _ if self.to_ours => {
                let stored = STORED.choose(&mut self.traffic.random).unwrap();
                self.traffic.send(&[b"BF.LOAD", key, &stored.load], &[]);
            }
            _ => self.insert(key),
        }
    }
}

impl Rival for ValkeyBloom {
    fn theirs(&self) -> Setup {
        self.setup.clone()
    }

    fn ours(&self) -> Setup {
        Server::with().module_args("bf-layout valkey bf-max-filter-bytes 134217728")
    }

    fn write(&self, traffic: &mut Traffic, to: Side) {
        let to_ours = to == Side::Ours;
        ValkeyStep { traffic, to_ours }.run();
    }

    fn is_same(&self, one: &mut Client, other: &mut Client, key: &[u8]) -> bool {
        let said = [&mut *one, &mut *other].map(|client| {
            [&[&b"TYPE"[..], key][..], &[b"DEBUG", b"DIGEST-VALUE", key]].map(|words| client.call(words))
        });
        assert_eq!(said[0], said[1], "{}", key.escape_ascii());
        let is_filter = said[0][0].text() == "bloomfltr";
        if is_filter {
            are_described_alike(&[one, other].map(|client| client.call(&[b"BF.INFO", key])));
        }
        is_filter
    }

    fn reconfigure(&self, first: &Server) {
        let mut client = first.client();
        client.run("DEL a b");
        client.answers(&[
            ("BF.RESERVE a 0.3 2 EXPANSION 4294967295", ok()),
            ("BF.RESERVE b 1e-300 1 EXPANSION 1", ok()),
            // What every replica is to know, however its primary is set.
            ("CONFIG SET bf.bloom-use-random-seed no", ok()),
            ("CONFIG SET bf.bloom-capacity 30", ok()),
            ("CONFIG SET bf.bloom-expansion 3", ok()),
            ("CONFIG SET bf.bloom-fp-rate 0.07", ok()),
            ("CONFIG SET bf.bloom-tightening-ratio 0.6", ok()),
        ]);
    }

    fn make(&self, client: &mut Client) -> usize {
        for stored in STORED.iter() {
            stored.make(client, &["LAYOUT", "VALKEY"]);
        }
        client.answers(&[
            ("BF.RESERVE reserved 0.3 70 LAYOUT VALKEY EXPANSION 32768", ok()),
            ("BF.RESERVE least 1e-300 1 TIGHTENING 0.0001", ok()),
        ]);
        STORED.len() + 2
    }

    fn ways(&self) -> [Way; 2] {
        [by_payload, by_migration]
    }

    fn others(&self) -> (&'static [&'static str], &'static [&'static str]) {
        (&["BLOCKED", "CLASSIC"], &["MBbloom--"])
    }
}

/// Two replies of BF.INFO are the same, but for how far the filter can grow, which follows from the server's own limit.
/// And of a filter that BF.LOAD made valkey-bloom has a list of layers with another room, of 8 bytes a layer: what it
/// reads has room for no more, and that doubles when it grows.
#[track_caller]
fn are_described_alike(info: &[Reply; 2]) {
    let [one, other] = info.each_ref().map(|info| {
        let mut fields = info.fields();
        let number = |name| info.field(name).int();
        let layers = number("Number of filters");
        fields.retain(|(name, _)| name != "Size" && FORETOLD[1..] != *name);
        (number("Size"), layers, fields)
    });
    assert_eq!(one.2, other.2);
    let room = (one.0 - other.0).abs();
    assert!(room % 8 == 0 && room <= 8 * one.1, "{info:?}");
}
