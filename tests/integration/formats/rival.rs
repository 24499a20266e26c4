//! Beside RedisBloom: replicas of each other, and each other's files.
//!
//! `BLOOM_TEST_REDISBLOOM=path.so` names a RedisBloom that the server loads; `make test-redisbloom` does. Without one,
//! recorded streams of one are replayed: see `tests/fixtures/redisbloom/record.py`.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use libbloom::codec::chunks;
use libbloom::{Filter, StoredLayout};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Reply, array, ok};
use crate::server::{Server, Setup, sample, seed, skip, until};
use crate::support::aof::rewrite;
use crate::support::chunks::{load, scandump};
use crate::support::items::numbered;
use crate::support::link::in_step;
use crate::support::payload::rdb_file;
use crate::support::stored::fixture;

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

/// Questions over all keys, when two servers are compared.
const QUESTIONS: usize = 100_000;

/// Different items that a stream has.
const ITEMS: usize = 4000;

/// Commands of a stream.
const STEPS: usize = 1500;

/// The RedisBloom to compare with.
fn rival() -> Option<PathBuf> {
    let path = std::env::var_os("BLOOM_TEST_REDISBLOOM")?;
    let path = fs::canonicalize(&path);
    Some(path.unwrap_or_else(|why| panic!("BLOOM_TEST_REDISBLOOM: {why}")))
}

/// A server to be set up with RedisBloom, if there is one, and if the server lets the other one follow it.
macro_rules! rival {
    () => {{
        if !Server::version().at_least(7, 0) {
            skip!("this server cannot be told to make classic filters while it runs, or keeps one file only");
        }
        let Some(path) = rival() else {
            skip!("BLOOM_TEST_REDISBLOOM names no RedisBloom");
        };
        Rival {
            setup: Server::with().module_at(&path),
        }
    }};
}

/// A server with RedisBloom, to be set up.
struct Rival {
    setup: Setup,
}

impl Rival {
    fn with(&self) -> Setup {
        self.setup.clone()
    }
}

/// Whether the server has RedisBloom 8 or later.
fn is_8(client: &mut Client) -> bool {
    let modules = client.run("MODULE LIST");
    let bf = modules
        .elements()
        .iter()
        .find(|module| module.field("name").text() == "bf");
    bf.unwrap().field("ver").int() >= 80_000
}

/// What a filter says of itself: BF.DEBUG, and the header of its chunks, which has what is stored and not used.
fn described(client: &mut Client, key: &str) -> (Vec<String>, Vec<u8>) {
    let lines = client.call(&["BF.DEBUG", key]);
    let header = client.call(&["BF.SCANDUMP", key, "0"]);
    (
        lines.elements().iter().map(Reply::text).collect(),
        header.elements()[1].bytes().to_vec(),
    )
}

fn keys(client: &mut Client) -> Vec<String> {
    let mut keys: Vec<_> = client.run("KEYS *").elements().iter().map(Reply::text).collect();
    keys.sort();
    keys
}

/// Which of the items a filter with any name says that it has.
fn found(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Vec<bool> {
    let mut found = Vec::new();
    for batch in items.chunks(5000) {
        let words = [&b"BF.MEXISTS"[..], key.as_bytes()];
        let words: Vec<_> = words.into_iter().chain(batch.iter().map(Vec::as_slice)).collect();
        let answers = client.call(&words);
        found.extend(answers.elements().iter().map(|answer| answer.int() == 1));
    }
    found
}

/// The two servers have the same filters: in what these say of themselves, and in what they answer.
#[track_caller]
fn are_equal(one: &Server, other: &Server, least: usize) {
    let (mut one, mut other) = (one.client(), other.client());
    let names = keys(&mut one);
    assert_eq!(keys(&mut other), names);
    assert!(names.len() >= least, "too little to compare: {names:?}");
    let items = numbered("", 0, QUESTIONS.div_ceil(names.len()).max(2 * ITEMS));
    for key in &names {
        assert_eq!(described(&mut one, key), described(&mut other, key), "{key:?}");
        let answers = found(&mut one, key, &items);
        assert!(
            answers == found(&mut other, key, &items),
            "{key:?}: other answers"
        );
    }
}

/// The replica did everything that its primary sent, without a word.
#[track_caller]
pub fn is_content(replica: &Server) {
    let log = replica.log();
    for complaint in [
        "sending an error to its",
        "was missing when its primary",
        "and not here:",
        "is not loaded",
    ] {
        assert!(!log.contains(complaint), "{log}");
    }
}

/// Writes of every kind, at random, in RedisBloom's grammar or in that of this module's clients.
struct Traffic {
    random: StdRng,
    client: Client,
    /// Abbreviations, unknown words, options given twice.
    lax: bool,
    rates: Vec<&'static str>,
    expansions: Vec<&'static str>,
}

impl Traffic {
    fn new(server: &Server, seed: u64, lax: bool) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            client: server.client(),
            lax,
            rates: vec!["0.2", "0.1", "0.25", "1e-2", "0.0123456789", "0.15", "1e-7"],
            expansions: vec!["1", "2", "3", "7"],
        }
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.random).unwrap()
    }

    fn items(&mut self, most: usize) -> Vec<String> {
        let count = self.random.random_range(1..=most);
        let items = (0..count).map(|_| self.random.random_range(0..ITEMS).to_string());
        items.collect()
    }

    /// An option's word: as it is known, or, where RedisBloom asks, any that it takes for the same.
    fn word(&mut self, known: &[&'static str]) -> String {
        let known = if self.lax { known } else { &known[..1] };
        self.pick(known).to_owned()
    }

    fn rate(&mut self) -> String {
        let rates = self.rates.clone();
        self.pick(&rates).to_owned()
    }

    fn expansion(&mut self) -> String {
        let expansions = self.expansions.clone();
        self.pick(&expansions).to_owned()
    }

    fn size(&mut self) -> String {
        self.pick(&["1", "3", "10", "50", "100", "400"]).to_owned()
    }

    fn insert_options(&mut self) -> Vec<String> {
        let mut options = vec![
            vec![self.word(&["CAPACITY", "CAP", "c"]), self.size()],
            vec![self.word(&["ERROR", "err", "Er"]), self.rate()],
            vec![self.word(&["EXPANSION", "EXP", "e"]), self.expansion()],
            vec![self.word(&["NONSCALING", "no", "NOpe"])],
            vec![self.word(&["NOCREATE", "nxC"])],
        ];
        if self.lax {
            options.extend(options.clone());
        }
        options.retain(|_| self.random.random_ratio(1, 4));
        options.concat()
    }

    fn reserve_options(&mut self) -> Vec<String> {
        let factor = self.expansion();
        let factor = factor.as_str();
        let all: [&[&str]; 9] = [
            &[],
            &["NONSCALING"],
            &["EXPANSION", factor],
            &["expansion", factor],
            &["EXP", factor],
            &["scaling", "EXPANSION", factor],
            &["expansion", factor, "EXPANSION"],
            &["NONSCALING", "nonscaling"],
            &["what", "ever"],
        ];
        let options = self.pick(if self.lax { &all[..] } else { &all[..4] });
        options.iter().map(|&word| word.to_owned()).collect()
    }

    fn send(&mut self, head: &[&str], more: &[Vec<String>]) {
        let words = head.iter().map(|&word| word.to_owned());
        let words: Vec<_> = words.chain(more.concat()).collect();
        self.client.call(&words);
    }

    fn step(&mut self) {
        let (key, other) = (self.pick(&KEYS), self.pick(&KEYS));
        match self.random.random_range(0..60) {
            0..12 => {
                let item = self.items(1);
                self.send(&["BF.ADD", key], &[item]);
            }
            12..27 => {
                let items = self.items(40);
                self.send(&["BF.MADD", key], &[items]);
            }
            27..42 => {
                let (options, word, items) =
                    (self.insert_options(), self.word(&["ITEMS", "i"]), self.items(40));
                self.send(&["BF.INSERT", key], &[options, vec![word], items]);
            }
            // RedisBloom takes the key for the option, and refuses what this module propagates.
            42..54 if !self.lax && ["NONSCALING", "EXPANSION"].contains(&&*key.to_uppercase()) => {}
            42..54 => {
                let (size, options) = (vec![self.rate(), self.size()], self.reserve_options());
                self.send(&["BF.RESERVE", key], &[size, options]);
            }
            54..57 => {
                let items = self.items(500);
                self.send(&["BF.MADD", key], &[items]);
            }
            57 => self.send(&["DEL", key], &[]),
            58 => {
                let item = self.items(1);
                self.send(&["MULTI"], &[]);
                self.send(&["BF.ADD", key], std::slice::from_ref(&item));
                self.send(&["BF.MADD", other], &[item.clone(), item]);
                self.send(&["EXEC"], &[]);
            }
            _ => self.copy(key, other),
        }
    }

    fn copy(&mut self, source: &str, target: &str) {
        if source == target || self.client.call(&["EXISTS", source]) != 1.into() {
            return;
        }
        let chunks = scandump(&mut self.client, source);
        self.client.call(&["DEL", target]);
        load(&mut self.client, target, &chunks);
    }
}

/// The server follows the other one, and has all that this one has.
pub fn follow(replica: &Server, primary: &Server) {
    let line = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    replica.client().answers(&[(&line, ok())]);
    in_step(primary, replica);
}

/// New filters are RedisBloom's.
fn make_classic(server: &Server) {
    let line = format!("CONFIG SET {} classic", Server::option("layout"));
    server.client().answers(&[(&line, ok())]);
}

/// A switch from RedisBloom would lose what its clients wrote in words that only RedisBloom takes; and the way back
/// would be closed.
#[test]
fn a_replica_of_redisbloom_equals_it_and_takes_its_place() {
    let rival = rival!();
    let first = rival.with().append_only().start();
    let early = Server::with().append_only().replica_of(&first).start();
    in_step(&first, &early);
    let mut traffic = Traffic::new(&first, seed(), true);
    // What RedisBloom 2 and 8 make of a rate above 0.25 is not the same, and only older servers rule out one.
    if is_8(&mut first.client()) || !Server::version().at_least(8, 0) {
        traffic.rates.extend(["0.3", "0.99"]);
    }
    if is_8(&mut first.client()) {
        traffic.expansions.push("0");
    } else {
        traffic.expansions.extend(["40000", "4294967298", "4294967296"]);
    }
    traffic.run(sample(STEPS));
    in_step(&first, &early);
    are_equal(&first, &early, 8);
    let late = Server::with().replica_of(&first).start();
    in_step(&first, &late);
    traffic.run(sample(STEPS));
    for replica in [&early, &late] {
        in_step(&first, replica);
        are_equal(&first, replica, 8);
        is_content(replica);
    }

    // What it wrote of that into its own file means the same.
    early.client().answers(&[("REPLICAOF NO ONE", ok())]);
    let mut early = early;
    early.restart();
    early.client().answers(&[("REPLICAOF NO ONE", ok())]);
    are_equal(&late, &early, 8);

    // The places are changed: nothing is sent to a blocked filter, which RedisBloom could not follow.
    late.client().answers(&[("REPLICAOF NO ONE", ok())]);
    make_classic(&late);
    follow(&first, &late);
    Traffic::new(&late, seed() + 1, false).run(sample(STEPS));
    in_step(&late, &first);
    are_equal(&late, &first, 8);
}

/// The way back to RedisBloom would be closed, or need a pause.
#[test]
fn redisbloom_follows_classic_filters() {
    let rival = rival!();
    let primary = Server::with().module_args("bf-layout classic").start();
    let first = rival.with().replica_of(&primary).start();
    in_step(&primary, &first);
    let mut traffic = Traffic::new(&primary, seed() + 2, false);
    if is_8(&mut first.client()) {
        traffic.expansions.push("0");
    }
    traffic.run(sample(STEPS));
    let second = rival.with().replica_of(&primary).start();
    traffic.run(sample(STEPS));
    for replica in [&first, &second] {
        in_step(&primary, replica);
        are_equal(&primary, replica, 8);
        is_content(replica);
    }

    // Said with each filter, instead of once.
    let primary = Server::start();
    let replica = rival.with().replica_of(&primary).start();
    in_step(&primary, &replica);
    let mut client = primary.client();
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
    in_step(&primary, &replica);
    are_equal(&primary, &replica, 4);
    is_content(&replica);
}

/// Who keeps the way back open would lose filters that are to expire, or keep them there for ever.
#[test]
fn redisbloom_follows_an_end_that_is_said_afterwards() {
    let rival = rival!();
    let primary = Server::with().module_args("bf-layout classic").start();
    let replica = rival.with().replica_of(&primary).start();
    in_step(&primary, &replica);
    let (mut client, mut follower) = (primary.client(), replica.client());
    client.answers(&[
        ("BF.RESERVE kept 0.001 70", ok()),
        ("EXPIRE kept 1000", 1.into()),
        ("BF.INSERT kept EX 5 ITEMS a b", array([1, 1])),
    ]);
    in_step(&primary, &replica);
    are_equal(&primary, &replica, 1);
    is_content(&replica);
    assert_eq!(follower.run("PEXPIRETIME kept"), client.run("PEXPIRETIME kept"));

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

/// A directory with an append-only file in it, for another server.
pub fn copied(server: &Server) -> TempDir {
    let copy = TempDir::new().unwrap();
    let files = server.dir().join("appendonlydir");
    fs::create_dir(copy.path().join("appendonlydir")).unwrap();
    for file in fs::read_dir(files).unwrap() {
        let path = file.unwrap().path();
        let to = copy.path().join("appendonlydir").join(path.file_name().unwrap());
        fs::copy(&path, to).unwrap();
    }
    copy
}

/// Who stops one server and starts the other on its files would lose filters, or get others; there and back.
#[test]
fn files_are_read_by_the_other_one() {
    let rival = rival!();
    for preamble in ["yes", "no"] {
        let on = |setup: Setup, dir: &Path| {
            let setup = setup.append_only().config("aof-use-rdb-preamble", preamble);
            setup.module_args("").dir(dir).start()
        };
        let dir = TempDir::new().unwrap();
        let theirs = on(rival.with(), dir.path());
        Traffic::new(&theirs, seed() + 3, true).run(sample(STEPS));
        // Commands only, as RedisBloom's clients sent them.
        let copy = copied(&theirs);
        let ours = on(Server::with(), copy.path());
        are_equal(&theirs, &ours, 8);
        rewrite(&mut theirs.client());
        let copy = copied(&theirs);
        let ours = on(Server::with(), copy.path());
        are_equal(&theirs, &ours, 8);

        make_classic(&ours);
        Traffic::new(&ours, seed() + 4, false).run(sample(STEPS));
        let copy = copied(&ours);
        let theirs = on(rival.with(), copy.path());
        are_equal(&ours, &theirs, 8);
        rewrite(&mut ours.client());
        let copy = copied(&ours);
        let theirs = on(rival.with(), copy.path());
        are_equal(&ours, &theirs, 8);
    }
    let theirs = rival.with().start();
    Traffic::new(&theirs, seed() + 5, true).run(sample(STEPS));
    theirs.client().answers(&[("SAVE", ok())]);
    let ours = Server::with().dir(theirs.dir()).start();
    are_equal(&theirs, &ours, 8);
    make_classic(&ours);
    Traffic::new(&ours, seed() + 6, false).run(sample(STEPS));
    ours.client().answers(&[("SAVE", ok())]);
    let again = rival.with().dir(ours.dir()).start();
    are_equal(&ours, &again, 8);
}

/// Tools that copy single filters would alter them, in either direction.
#[test]
fn chunks_and_payloads_go_both_ways() {
    /// Copies a filter under its name.
    type Way<'a> = &'a dyn Fn(&mut Client, &mut Client, &str);
    let rival = rival!();
    let (theirs, ours) = (rival.with().start(), Server::with().start());
    Traffic::new(&theirs, seed() + 7, true).run(sample(STEPS));
    let by_chunks = |from: &mut Client, to: &mut Client, key: &str| {
        let chunks = scandump(from, key);
        load(to, key, &chunks);
    };
    let by_payload = |from: &mut Client, to: &mut Client, key: &str| {
        let payload = from.dump(key);
        let restored = to.call(&[b"RESTORE", key.as_bytes(), b"0", payload.bytes()]);
        assert_eq!(restored, ok(), "{key:?}");
    };
    let ways: [Way<'_>; 2] = [&by_chunks, &by_payload];
    for (round, copy) in ways.into_iter().enumerate() {
        let (mut from, mut to) = (theirs.client(), ours.client());
        to.answers(&[("FLUSHALL", ok())]);
        for key in keys(&mut from) {
            copy(&mut from, &mut to, &key);
        }
        are_equal(&theirs, &ours, 8);
        make_classic(&ours);
        Traffic::new(&ours, seed() + 8 + round as u64, false).run(sample(STEPS));
        from.answers(&[("FLUSHALL", ok())]);
        for key in keys(&mut to) {
            copy(&mut to, &mut from, &key);
        }
        are_equal(&ours, &theirs, 8);
    }
}

/// RedisBloom would misread a filter of the other layout, and answer at random.
#[test]
fn redisbloom_refuses_a_blocked_filter() {
    let rival = rival!();
    let (theirs, ours) = (rival.with().start(), Server::start());
    let (mut from, mut to) = (ours.client(), theirs.client());
    from.answers(&[("BF.RESERVE key 0.01 100", ok()), ("BF.ADD key a", 1.into())]);
    let payload = from.dump("key");
    let restored = to.call(&[b"RESTORE", &b"key"[..], b"0", payload.bytes()]);
    assert_eq!(restored, Reply::Error("ERR Bad data format".into()));
    let header = from.run("BF.SCANDUMP key 0");
    let header = header.elements()[1].bytes();
    let loaded = to.call(&[b"BF.LOADCHUNK", &b"key"[..], b"1", header]);
    assert_eq!(loaded, Reply::Error("ERR received bad data".into()));
    to.answers(&[("EXISTS key", 0.into())]);
    from.answers(&[("SAVE", ok())]);
    let refused = rival.with().dir(ours.dir()).try_start();
    let log = refused.err().expect("RedisBloom reads a blocked filter");
    assert!(
        log.contains("Error loading data from RDB") || log.contains("error in RDB reading"),
        "{log}"
    );
}

/// A client that looks for RedisBloom's error about a refused chunk would not find it.
#[test]
fn texts_are_redisbloom_s() {
    let rival = rival!();
    let (theirs, ours) = (rival.with().start(), Server::start());
    let (mut theirs, mut ours) = (theirs.client(), ours.client());
    theirs.answers(&[("BF.RESERVE key 0.01 100", ok())]);
    ours.answers(&[("BF.RESERVE key 0.01 100 LAYOUT CLASSIC", ok())]);
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
        let line = ["BF.LOADCHUNK", "key", iterator, data];
        assert_eq!(ours.call(&line), theirs.call(&line), "{line:?}");
        let line = ["BF.LOADCHUNK", "missing", iterator, data];
        assert_eq!(ours.call(&line), theirs.call(&line), "{line:?}");
    }
}

/// A compressed fixture.
pub fn unzipped(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = File::open(fixture(name)).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// What a RedisBloom 8 recorded, and 2.6.28 and 2.8.20 to the letter the same.
struct Recording {
    /// The commands that it sent to its replicas.
    commands: Vec<u8>,
    said: Value,
}

impl Recording {
    fn read() -> Self {
        let commands = unzipped("redisbloom/stream-8.aof.gz");
        let said = fs::read(fixture("redisbloom/stream-8.json")).unwrap();
        Self {
            commands,
            said: serde_json::from_slice(&said).unwrap(),
        }
    }

    /// The server has the filters that the RedisBloom had.
    #[track_caller]
    fn is_in(&self, server: &Server) {
        let mut client = server.client();
        let bytes = |json: &Value| BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap();
        let all = self.said["keys"].as_object().unwrap();
        assert_eq!(all.len(), 12, "the fixture is another one");
        assert_eq!(client.run("DBSIZE"), 12.into());
        let questions = self.said["questions"].as_u64().unwrap() as usize;
        let items = numbered("", 0, questions);
        for (key, said) in all {
            let (lines, header) = described(&mut client, key);
            let expected = said["debug"].as_array().unwrap().iter();
            assert!(
                expected.map(|line| line.as_str().unwrap()).eq(&lines),
                "{key:?}: {lines:?}"
            );
            assert_eq!(header, bytes(&said["header"]), "{key:?}");
            let answers = bytes(&said["answers"]);
            let answers = (0..questions).map(|at| answers[at / 8] >> (at % 8) & 1 == 1);
            assert!(
                answers.eq(found(&mut client, key, &items)),
                "{key:?}: other answers"
            );
        }
    }
}

/// A server that finds the commands as its append-only file.
pub fn started_on_commands(commands: &[u8], setup: Setup) -> (Server, TempDir) {
    let dir = TempDir::new().unwrap();
    if Server::version().at_least(7, 0) {
        let files = dir.path().join("appendonlydir");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("appendonly.aof.1.incr.aof"), commands).unwrap();
        let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
        fs::write(files.join("appendonly.aof.manifest"), manifest).unwrap();
    } else {
        fs::write(dir.path().join("appendonly.aof"), commands).unwrap();
    }
    (setup.append_only().dir(dir.path()).start(), dir)
}

/// A server that is started on a RedisBloom's append-only file would have other filters, and lose what it was told
/// in words that only RedisBloom takes.
#[test]
fn a_recorded_file_makes_what_redisbloom_made() {
    let recording = Recording::read();
    let (mut server, _dir) = started_on_commands(&recording.commands, Server::with());
    recording.is_in(&server);
    assert!(
        !server.log().contains("sending an error to its"),
        "{}",
        server.log()
    );
    server.restart();
    recording.is_in(&server);
}

/// A primary that is played.
pub struct Primary {
    pub port: u16,
    /// Bytes that it sends.
    pub sent: usize,
}

impl Primary {
    /// Sends these commands to whoever follows it.
    pub fn of(commands: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let primary = Self {
            port: listener.local_addr().unwrap().port(),
            sent: commands.len(),
        };
        thread::spawn(move || {
            for line in listener.incoming() {
                // A replica that has all it wants closes the connection.
                let _closed = Self::serve(&mut line.unwrap(), &commands);
            }
        });
        primary
    }

    fn serve(line: &mut TcpStream, commands: &[u8]) -> std::io::Result<()> {
        let mut requests = BufReader::new(line.try_clone()?);
        while let Some(request) = Reply::read(&mut requests)? {
            match &*request.elements()[0].text().to_uppercase() {
                "PING" => line.write_all(b"+PONG\r\n")?,
                "PSYNC" => {
                    let file = rdb_file([]);
                    write!(line, "+FULLRESYNC {} 0\r\n${}\r\n", "e".repeat(40), file.len())?;
                    line.write_all(&file)?;
                    line.write_all(commands)?;
                }
                // What it confirms is not answered.
                _ if request.elements()[1].text().eq_ignore_ascii_case("ACK") => {}
                _ => line.write_all(b"+OK\r\n")?,
            }
        }
        Ok(())
    }
}

/// A replica would go its own way in silence, and after the switch its clients miss what they added.
#[test]
fn a_recorded_primary_is_followed() {
    let recording = Recording::read();
    let primary = Primary::of(recording.commands.clone());
    let mut server = Server::with().append_only().start();
    let mut client = server.client();
    // Not in its configuration, which would make it follow again when it is started again.
    client.answers(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.port), ok())]);
    until("the replica has the stream", || {
        client.stat("replication", "slave_repl_offset") == primary.sent.to_string()
    });
    recording.is_in(&server);
    is_content(&server);
    let told = server.log().matches("as RedisBloom does").count();
    assert_eq!(told, 1, "{}", server.log());
    client.answers(&[("REPLICAOF NO ONE", ok())]);

    // The module's own file has the filters too, in its own words.
    server.restart();
    recording.is_in(&server);
}

/// Who fills filters in a program, for a server with RedisBloom, would get other answers there, or none; and who reads
/// RedisBloom's would get other filters.
#[test]
fn filters_go_to_and_fro_between_the_crate_and_a_redisbloom() {
    let rival = rival!();
    let server = rival.with().start();
    let mut client = server.client();
    let items = numbered("item:", 0, 12_000);
    for (key, capacity, rate, is_fixed) in [
        ("grown", 100, 0.01, false),
        ("large", 10_000, 0.001, false),
        ("fixed", 5000, 1e-6, true),
    ] {
        let builder = Filter::builder(capacity, rate).layout(StoredLayout::Classic);
        let mut filter = if is_fixed { builder.fixed() } else { builder }.build().unwrap();
        filter
            .insert_many(items[..3000].iter().map(Vec::as_slice))
            .unwrap();
        let mut payload = Vec::new();
        libbloom_rdb::write_payload(&filter, &mut payload).unwrap();
        let restored = client.call(&[b"RESTORE", key.as_bytes(), b"0", &payload]);
        assert_eq!(restored, ok(), "{key}");
        let answers = filter.contains_many(items.iter().map(Vec::as_slice));
        assert_eq!(found(&mut client, key, &items), answers, "{key}");
        assert!(answers.iter().filter(|answer| !**answer).count() > 8000, "{key}");

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
