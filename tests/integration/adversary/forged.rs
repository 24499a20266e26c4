//! Stored bytes that nobody stored: payloads of RESTORE and chunks of BF.LOADCHUNK, mutated at random, under right
//! checksums. Each is refused and leaves nothing behind, or makes a filter that works like any other.
//!
//! `BLOOM_TEST_SEED` repeats a run that failed.

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use crate::client::clock;
use crate::client::{Client, Reply, error, ok};
use crate::filters;
use crate::server::{Server, sample, seed, until};
use crate::support::chunks::scandump;
use crate::support::payload::{BAD_FORMAT, body, put_length, sealed};
use crate::support::stored::STORED;

/// How many payloads are restored.
const PAYLOADS: usize = 40_000;
/// How many dumps are loaded in chunks.
const DUMPS: usize = 10_000;
/// How many of either are on their way at once.
const BATCH: usize = 100;
/// The most bytes of a filter here.
const LIMIT: usize = 1_000_000;
/// Larger filters would only make the test slow.
const LARGEST: usize = 6_000;
/// Bytes that the server may keep after all payloads, besides its clients' buffers: some, but none for each
/// payload.
const KEPT: i64 = 300_000;

/// The items that are added to each filter that loads.
const ITEMS: [&str; 4] = ["one", "two", "", "one"];
/// The answers to an item that does not fit.
const NO_ROOM: [&str; 3] = [
    "ERR non scaling filter is full",
    "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity",
    "ERR Insufficient memory to grow filter",
];

fn random() -> StdRng {
    StdRng::seed_from_u64(seed())
}

// ---- What is mutated -----------------------------------------------------------------------------

/// A value in a module's part of a payload.
#[derive(Clone, Debug)]
enum Token {
    Unsigned(u64),
    Double(f64),
    Text(Vec<u8>),
}

/// A payload, taken apart.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The data type's name, and the encoding version in the lowest ten bits.
    id: u64,
    tokens: Vec<Token>,
}

impl Payload {
    /// Takes a body apart that a server wrote without compression.
    pub fn parse(body: &[u8]) -> Self {
        let mut rest = &body[1..];
        let (id, mut tokens) = (length(&mut rest), Vec::new());
        loop {
            tokens.push(match length(&mut rest) {
                0 => break,
                2 => Token::Unsigned(length(&mut rest)),
                4 => {
                    let (bytes, after) = rest.split_first_chunk().unwrap();
                    rest = after;
                    Token::Double(f64::from_le_bytes(*bytes))
                }
                5 => {
                    let length = length(&mut rest) as usize;
                    let (text, after) = rest.split_at(length);
                    rest = after;
                    Token::Text(text.to_vec())
                }
                other => panic!("no value starts with {other}"),
            });
        }
        assert!(rest.is_empty());
        Self { id, tokens }
    }

    pub fn body(&self) -> Vec<u8> {
        let mut body = vec![7, 0x81];
        body.extend(self.id.to_be_bytes());
        for token in &self.tokens {
            match token {
                Token::Unsigned(number) => {
                    body.push(2);
                    put_length(&mut body, *number);
                }
                Token::Double(number) => {
                    body.push(4);
                    body.extend(number.to_le_bytes());
                }
                Token::Text(text) => {
                    body.push(5);
                    put_length(&mut body, text.len() as u64);
                    body.extend(text);
                }
            }
        }
        body.push(0);
        body
    }
}

/// A length of the RDB format.
fn length(bytes: &mut &[u8]) -> u64 {
    let (first, rest) = bytes.split_first().unwrap();
    let width = match first {
        0..0x40 => 0,
        0x40..0x80 => 1,
        0x80 => 4,
        0x81 => 8,
        other => panic!("no length starts with {other:#x}"),
    };
    let (number, rest) = rest.split_at(width);
    *bytes = rest;
    let own = if *first < 0x80 { u64::from(first & 0x3f) } else { 0 };
    number.iter().fold(own, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Numbers at which something may go wrong.
fn extreme(random: &mut StdRng, own: u64) -> u64 {
    let near = [
        own ^ 1,
        own.wrapping_add(1),
        own.wrapping_sub(1),
        own.wrapping_mul(2),
    ];
    let far = [
        0,
        1,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        1 << 32,
        1 << 40,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ];
    match random.random_range(0..4) {
        0 => *near.choose(random).unwrap(),
        1 => 1 << random.random_range(0..64),
        2 => own ^ 1 << random.random_range(0..64),
        _ => *far.choose(random).unwrap(),
    }
}

fn extreme_double(random: &mut StdRng, own: f64) -> f64 {
    let known = [
        0.0,
        -0.0,
        1.0,
        0.25,
        0.5,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::MIN_POSITIVE,
        5e-324,
        1e-30,
        f64::MAX,
    ];
    match random.random_range(0..3) {
        0 => own * [0.5, 2.0, -1.0, 1.0 + f64::EPSILON].choose(random).unwrap(),
        1 => f64::from_bits(extreme(random, own.to_bits())),
        _ => *known.choose(random).unwrap(),
    }
}

/// Damages bytes in one of the ways in which bytes are damaged; `other` is what may be spliced in.
pub fn damage(random: &mut StdRng, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        return bytes.extend_from_slice(&other[..other.len().min(9)]);
    }
    let at = random.random_range(0..bytes.len());
    match random.random_range(0..9) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2 => bytes.truncate(at),
        3 => drop(bytes.remove(at)),
        4 => bytes.insert(at, random.random()),
        5 => bytes.splice(at.., other.iter().skip(at).copied()).for_each(drop),
        6 => {
            let end = (at + random.random_range(1..64)).min(bytes.len());
            bytes[at..end].fill(*[0, 0xff].choose(random).unwrap());
        }
        _ => {
            // A field of a header, where they are: at multiples of four bytes.
            let (at, width) = (at & !3, *[4, 8].choose(random).unwrap());
            if let Some(field) = bytes.get_mut(at..at + width) {
                let mut number = [0; 8];
                number[..width].copy_from_slice(field);
                let number = if random.random_bool(0.3) && width == 8 {
                    extreme_double(random, f64::from_le_bytes(number)).to_bits()
                } else {
                    extreme(random, u64::from_le_bytes(number))
                };
                field.copy_from_slice(&number.to_le_bytes()[..width]);
            }
        }
    }
}

/// Damages the values of a payload, one to three times.
pub fn mutate(random: &mut StdRng, payload: &mut Payload, other: &Payload) {
    for _ in 0..random.random_range(1..4) {
        if payload.tokens.is_empty() {
            return;
        }
        let at = random.random_range(0..payload.tokens.len());
        match random.random_range(0..12) {
            0 => drop(payload.tokens.remove(at)),
            1 => {
                let again = payload.tokens[at].clone();
                payload.tokens.insert(at, again);
            }
            2 => payload.tokens.truncate(at),
            3 => {
                // The rest of another filter, from some value on: layers of other sizes, rates, layouts.
                let from = random.random_range(0..other.tokens.len());
                payload.tokens.splice(at.., other.tokens[from..].iter().cloned());
            }
            4 => payload.tokens[at] = other.tokens.choose(random).unwrap().clone(),
            5 => {
                let with = random.random_range(0..payload.tokens.len());
                payload.tokens.swap(at, with);
            }
            6 => {
                payload.id =
                    *[payload.id, other.id].choose(random).unwrap() & !0x3ff | random.random_range(0..7)
            }
            _ => {
                let spliced = other.tokens.iter().find_map(|token| match token {
                    Token::Text(text) => Some(&text[..]),
                    _ => None,
                });
                match &mut payload.tokens[at] {
                    Token::Unsigned(number) => *number = extreme(random, *number),
                    Token::Double(number) => *number = extreme_double(random, *number),
                    Token::Text(text) => damage(random, text, spliced.unwrap_or_default()),
                }
            }
        }
    }
    if random.random_bool(0.5) {
        count_bits(payload);
    }
}

/// Writes into a blocked filter's header how many bits are set in each of its layers: else nearly every damaged
/// bit would be found by that count alone.
fn count_bits(payload: &mut Payload) {
    let head = payload.tokens.len().min(3);
    let (head, arrays) = payload.tokens.split_at_mut(head);
    let Some(Token::Text(header)) = head.get_mut(2) else {
        return;
    };
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    // In the header of a window, slices come before the layers.
    let begin = match number(44) {
        Some(0) | None => 48,
        Some(_) => 80 + 24 * number(60).unwrap_or(0),
    };
    let layers = header
        .get_mut(begin..)
        .into_iter()
        .flat_map(|layers| layers.chunks_exact_mut(48));
    // All of these filters have layers of one piece.
    for (layer, array) in layers.zip(arrays) {
        let Token::Text(array) = array else { return };
        let ones: u64 = array.iter().map(|byte| u64::from(byte.count_ones())).sum();
        layer[16..24].copy_from_slice(&ones.to_le_bytes());
    }
}

// ---- What becomes of it --------------------------------------------------------------------------

/// A server with filters that nobody touches, and a client.
struct Target {
    server: Server,
    client: Client,
    untouched: Vec<(&'static str, Reply)>,
}

impl Target {
    /// `sanitize` says whether the server is to look at payloads itself, before the module does.
    fn start(sanitize: &str) -> Self {
        let server = Server::with()
            .module_args(&format!("bf-max-filter-bytes {LIMIT} bf-seed 7"))
            .config("rdbcompression", "no")
            .config("lazyfree-lazy-server-del", "no")
            .config("sanitize-dump-payload", sanitize)
            .start();
        let mut client = server.client();
        filters::make(&mut client);
        let untouched = filters::snapshot(&mut client);
        Self {
            server,
            client,
            untouched,
        }
    }

    /// Bytes that the server uses when it has nothing to do, and no client but the one that asks.
    fn used(&self) -> i64 {
        self.server.client().used_memory()
    }

    /// Uses the filters of these keys, which are then gone: they take items and find them again, can be described,
    /// and are the same after a DUMP and RESTORE. `source` is what made each.
    fn use_up(&mut self, made: &[(String, &Vec<Vec<u8>>)]) {
        let mut commands: Vec<Vec<&[u8]>> = Vec::new();
        let items = ITEMS.map(str::as_bytes);
        for (key, _) in made {
            let key = key.as_bytes();
            commands.push(vec![b"BF.EXISTS", key, items[0]]);
            commands.push([&[b"BF.MADD", key], &items[..]].concat());
            commands.push([&[b"BF.MEXISTS", key], &items[..]].concat());
            commands.push(vec![b"BF.INFO", key, b"FULL"]);
            commands.push(vec![b"BF.DEBUG", key]);
            commands.push(vec![b"BF.SCANDUMP", key, b"0"]);
            commands.push(vec![b"DUMP", key]);
        }
        let replies = self.client.calls(&commands);
        for ((key, source), replies) in made.iter().zip(replies.chunks(7)) {
            let shown = || {
                source
                    .iter()
                    .map(|bytes| bytes.escape_ascii().to_string())
                    .collect::<Vec<_>>()
            };
            let [exists, added, found, info, debug, scanned, _] = replies else {
                unreachable!()
            };
            assert!(matches!(exists, Reply::Int(0 | 1)), "{exists:?} {:?}", shown());
            let mut answered = added
                .elements()
                .iter()
                .take_while(|new| matches!(new, Reply::Int(0 | 1)))
                .count();
            if let Some(refused) = added.elements().get(answered) {
                let known = NO_ROOM.iter().any(|text| *refused == error(text));
                assert!(
                    known && added.elements().len() == answered + 1,
                    "{refused:?} {:?}",
                    shown()
                );
            } else {
                assert_eq!(answered, ITEMS.len(), "{:?}", shown());
                answered = ITEMS.len();
            }
            let found = &found.elements()[..answered];
            assert!(
                found.iter().all(|found| *found == 1.into()),
                "an item is lost: {key} {:?}",
                shown()
            );
            let rate = info.field("Estimated error rate").number();
            assert!(
                (0.0..=1.0).contains(&rate),
                "an estimate of {rate}: {:?}",
                shown()
            );
            let layers = info.field("Number of filters").int();
            assert_eq!(
                info.field("Layers").elements().len() as i64,
                layers,
                "{:?}",
                shown()
            );
            // Of a window also those that have expired.
            assert!(debug.elements().len() as i64 > layers, "{:?}", shown());
            assert_eq!(scanned.elements()[0].int(), 1, "{:?}", shown());
        }
        let dumped: Vec<_> = replies.chunks(7).map(|replies| replies[6].bytes()).collect();
        let mut commands: Vec<Vec<&[u8]>> = Vec::new();
        for ((key, _), dumped) in made.iter().zip(&dumped) {
            commands.push(vec![b"RESTORE", b"again", b"0", dumped]);
            commands.push(vec![b"DUMP", b"again"]);
            commands.push(vec![b"DEL", b"again", key.as_bytes()]);
        }
        let replies = self.client.calls(&commands);
        for (((_, source), dumped), replies) in made.iter().zip(dumped).zip(replies.chunks(3)) {
            let shown = || {
                source
                    .iter()
                    .map(|bytes| bytes.escape_ascii().to_string())
                    .collect::<Vec<_>>()
            };
            assert_eq!(replies[0], ok(), "it cannot be moved: {:?}", shown());
            assert!(
                replies[1].bytes() == dumped,
                "it is moved as another one: {:?}",
                shown()
            );
            assert_eq!(replies[2], 2.into(), "{:?}", shown());
        }
    }

    /// The server lives, holds what it held, and no more than that.
    fn stays_as_it_was(mut self, used: i64) {
        assert_eq!(self.client.run("DBSIZE"), (filters::keys().count() as i64).into());
        assert!(
            filters::snapshot(&mut self.client) == self.untouched,
            "other filters changed"
        );
        drop(self.client);
        let server = &self.server;
        until("the memory is given back", || {
            server.client().used_memory() <= used + KEPT
        });
        assert!(server.is_alive());
        assert!(!server.log().contains("BUG REPORT"));
    }
}

/// A window with a slice that has expired, and one with a burst; and one whose items live on.
pub const WINDOWS: [&str; 2] = ["window", "live"];

pub fn make_windows(client: &mut Client) {
    let now = clock(client);
    client.run("BF.RESERVE window 0.01 40 SEED 1 WINDOW 100000 SLICES 4");
    client.run("BF.RESERVE live 0.1 20 SEED 7 WINDOW 4294967295 SLICES 2 REFRESH");
    for key in WINDOWS {
        for (before, items) in [(160_000_000, 5), (70_000_000, 30), (20_000_000, 12)] {
            let items: Vec<_> = (0..items).map(|item| format!("{before}:{item}")).collect();
            client.over(&format!("BF.INSERT {key} AT {} ITEMS", now - before), &items);
        }
    }
}

/// The bodies of small filters of every kind: made here, and made by RedisBloom.
pub fn bodies(client: &mut Client) -> Vec<Vec<u8>> {
    make_windows(client);
    client.run("BF.RESERVE small 0.01 4 EXPANSION 1 SEED 1");
    filters::fill(client, "small", 0, 10);
    client.run("BF.RESERVE old 0.1 4 EXPANSION 1 LAYOUT CLASSIC");
    filters::fill(client, "old", 0, 10);
    client.run("BF.RESERVE odd 0.1 4 EXPANSION 1 LAYOUT VALKEY TIGHTENING 0.9");
    filters::fill(client, "odd", 0, 10);
    let small = ["small", "old", "odd"];
    let keys: Vec<_> = filters::keys().chain(small).chain(WINDOWS).collect();
    let mut bodies: Vec<_> = keys.iter().map(|key| body(&client.dump(key)).to_vec()).collect();
    // What RedisBloom recorded may be compressed; this server writes it plainly.
    for stored in STORED.iter().filter(|stored| stored.body.len() <= LARGEST) {
        let version = &client.dump("small").bytes().last_chunk::<10>().unwrap()[..2].to_vec();
        let payload = sealed(&stored.body, version);
        assert_eq!(client.call(&[&b"RESTORE"[..], b"recorded", b"0", &payload]), ok());
        bodies.push(body(&client.dump("recorded")).to_vec());
        client.run("DEL recorded");
    }
    client.run("DEL small old odd window live");
    bodies.retain(|body| body.len() <= LARGEST);
    assert!(bodies.len() >= 19, "{}", bodies.len());
    bodies
}

/// Whoever may send RESTORE, or can change a file or a stream on its way, could take the server down, take its
/// memory, or leave a filter that does so later.
#[test]
fn mutated_payloads_are_refused_or_make_filters_that_work() {
    let mut random = random();
    for sanitize in ["no", "yes"] {
        restores(&mut random, Target::start(sanitize), sample(PAYLOADS) / 2);
    }
}

/// Restores that many mutated payloads, and uses up what they make.
fn restores(random: &mut StdRng, mut target: Target, count: usize) {
    let bodies = bodies(&mut target.client);
    let version = target.client.dump("empty").bytes().last_chunk::<10>().unwrap()[..2].to_vec();
    let parsed: Vec<_> = bodies.iter().map(|body| Payload::parse(body)).collect();
    for (payload, body) in parsed.iter().zip(&bodies) {
        let restored = target.client.call(&[
            &b"RESTORE"[..],
            b"whole",
            b"0",
            &sealed(&payload.body(), &version),
        ]);
        assert_eq!(restored, ok(), "the forger is no good");
        assert!(
            target.client.dump("whole").bytes().starts_with(body),
            "the forger is no good"
        );
        target.client.run("DEL whole");
    }

    let (mut used, mut taken) = (0, 0);
    for number in 0..count / BATCH {
        if number == 2 {
            // By now all buffers are as large as they get.
            used = target.used();
        }
        let forged: Vec<Vec<Vec<u8>>> = (0..BATCH)
            .map(|_| {
                let (payload, other) = (parsed.choose(random).unwrap(), parsed.choose(random).unwrap());
                let mut payload = payload.clone();
                let body = if random.random_bool(0.7) {
                    mutate(random, &mut payload, other);
                    payload.body()
                } else {
                    // The first byte is the server's: the kind of the value, of which only one is the module's.
                    let (mut body, other) = (payload.body().split_off(1), other.body().split_off(1));
                    damage(random, &mut body, &other);
                    [&[7], &body[..]].concat()
                };
                vec![sealed(&body, &version)]
            })
            .collect();
        let keys: Vec<_> = (0..BATCH).map(|number| format!("forged:{number}")).collect();
        let restores = keys.iter().zip(&forged);
        let restores: Vec<_> = restores
            .map(|(key, payload)| vec![&b"RESTORE"[..], key.as_bytes(), b"0", &payload[0]])
            .collect();
        let replies = target.client.calls(&restores);
        let mut made = Vec::new();
        for ((key, forged), reply) in keys.into_iter().zip(&forged).zip(replies) {
            if reply == ok() {
                made.push((key, forged));
            } else {
                assert_eq!(reply, error(BAD_FORMAT), "{:?}", forged[0].escape_ascii());
            }
        }
        taken += made.len();
        target.use_up(&made);
        let left = target.client.run("DBSIZE");
        assert_eq!(
            left,
            (filters::keys().count() as i64).into(),
            "something is left behind"
        );
    }
    eprintln!("{taken} of {} payloads made filters", count);
    assert!(
        taken * 50 > count,
        "hardly any payload got past the checks: only {taken}"
    );
    target.stays_as_it_was(used);
}

/// A client that may send BF.LOADCHUNK, or sits between two servers that a filter is copied between, could stop the
/// server or plant a filter that does not work.
#[test]
fn mutated_chunks_are_refused_or_make_filters_that_work() {
    let mut random = random();
    let mut target = Target::start("no");
    make_windows(&mut target.client);
    let keys: Vec<_> = filters::keys().chain(WINDOWS).collect();
    let mut dumps: Vec<_> = keys.iter().map(|key| scandump(&mut target.client, key)).collect();
    target.client.answers(&[("DEL window live", 2.into())]);
    dumps.extend(STORED.iter().map(|stored| stored.chunks.clone()));
    dumps.retain(|dump| {
        !dump.is_empty() && dump.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= LARGEST
    });
    assert!(dumps.len() >= 14, "{}", dumps.len());
    let refusals = [
        "ERR received bad data",
        "ERR invalid offset - no link found",
        "ERR invalid chunk - Too big for current filter",
        "ERR not found",
        "ERR Insufficient memory to create filter",
    ]
    .map(error);

    let (mut used, mut taken) = (0, 0);
    for number in 0..sample(DUMPS) / BATCH {
        if number == 2 {
            used = target.used();
        }
        let mut forged = Vec::new();
        for number in 0..BATCH {
            let dump = dumps.choose(&mut random).unwrap().clone();
            let other = dumps.choose(&mut random).unwrap();
            let dump = mutated_dump(&mut random, dump, other);
            forged.push((format!("forged:{number}"), dump));
        }
        let loads: Vec<Vec<Vec<u8>>> = forged
            .iter()
            .flat_map(|(key, dump)| {
                let load = move |(iterator, bytes): &(i64, Vec<u8>)| {
                    let iterator = iterator.to_string().into_bytes();
                    vec![
                        b"BF.LOADCHUNK".to_vec(),
                        key.clone().into_bytes(),
                        iterator,
                        bytes.clone(),
                    ]
                };
                dump.iter().map(load)
            })
            .collect();
        let loads: Vec<_> = loads
            .iter()
            .map(|load| load.iter().map(Vec::as_slice).collect())
            .collect();
        let replies = target.client.calls(&loads);
        let exists: Vec<_> = forged
            .iter()
            .map(|(key, _)| vec![&b"EXISTS"[..], key.as_bytes()])
            .collect();
        let exists = target.client.calls(&exists);
        let (mut made, mut at) = (Vec::new(), 0);
        for ((key, dump), exists) in forged.into_iter().zip(exists) {
            let replies = &replies[at..at + dump.len()];
            at += dump.len();
            let known = |reply: &Reply| *reply == ok() || refusals.contains(reply);
            assert!(replies.iter().all(known), "{replies:?} to {dump:?}");
            // A key is there if and only if a header was taken.
            assert_eq!(
                exists,
                i64::from(replies.contains(&ok())).into(),
                "{replies:?} to {dump:?}"
            );
            if exists == 1.into() {
                made.push((key, dump.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>()));
            }
        }
        taken += made.len();
        let made: Vec<_> = made.iter().map(|(key, source)| (key.clone(), source)).collect();
        target.use_up(&made);
        let left = target.client.run("DBSIZE");
        assert_eq!(
            left,
            (filters::keys().count() as i64).into(),
            "something is left behind"
        );
    }
    eprintln!("{taken} of {} dumps made filters", sample(DUMPS));
    assert!(
        taken * 10 > sample(DUMPS),
        "hardly any dump got past the checks: only {taken}"
    );
    target.stays_as_it_was(used);
}

/// A payload that ends early would end the server with it, where the server was not told that the module bears that; and a
/// string that claims to be longer than any would take all memory there is.
#[test]
fn payloads_that_end_early_or_claim_any_length_are_refused() {
    for sanitize in ["no", "yes"] {
        let mut target = Target::start(sanitize);
        let mut bodies = bodies(&mut target.client);
        bodies.retain(|body| body.len() < 700);
        assert!(bodies.len() >= 5, "{}", bodies.len());
        let version = target.client.dump("empty").bytes().last_chunk::<10>().unwrap()[..2].to_vec();
        let used = target.used();
        for body in bodies {
            // Without its end, or with one right after what is left of it.
            let cut = (10..body.len()).map(|end| body[..end].to_vec());
            let ended = (10..body.len() - 1).map(|end| [&body[..end], &[0]].concat());
            let Payload { id, tokens } = Payload::parse(&body);
            let lengths = [20, 31, 32, 62, 63].map(|bits| 1 << bits);
            let claiming = tokens.iter().enumerate().flat_map(|(at, token)| {
                let Token::Text(text) = token else {
                    return Vec::new();
                };
                let before = Payload {
                    id,
                    tokens: tokens[..at].to_vec(),
                };
                let claim = |length| {
                    let mut claiming = before.body();
                    *claiming.last_mut().unwrap() = 5;
                    put_length(&mut claiming, length);
                    [&claiming[..], text].concat()
                };
                lengths
                    .into_iter()
                    .chain([u64::MAX - 1, u64::MAX])
                    .map(claim)
                    .collect()
            });
            // For the last bytes the footer may stand that follows them, now and then with the same number of bits.
            let short = cut.chain(ended).filter(|short| short.len() + 12 < body.len());
            let forged = short.chain(claiming);
            let forged: Vec<_> = forged.map(|body| sealed(&body, &version)).collect();
            let restores: Vec<_> = forged
                .iter()
                .map(|payload| vec![&b"RESTORE"[..], b"key", b"0", payload])
                .collect();
            for (reply, payload) in target.client.calls(&restores).iter().zip(&forged) {
                assert_eq!(*reply, error(BAD_FORMAT), "{}", payload.escape_ascii());
            }
        }
        target.stays_as_it_was(used);
    }
}

/// A dump, cut into other chunks, of which some are damaged, swapped, doubled, lost, or of another filter.
pub fn mutated_dump(
    random: &mut StdRng,
    dump: Vec<(i64, Vec<u8>)>,
    other: &[(i64, Vec<u8>)],
) -> Vec<(i64, Vec<u8>)> {
    let mut pieces = vec![dump[0].clone()];
    for (iterator, bytes) in &dump[1..] {
        let cut = random.random_range(1..=bytes.len());
        let start = iterator - bytes.len() as i64;
        pieces.push((start + cut as i64, bytes[..cut].to_vec()));
        pieces.push((*iterator, bytes[cut..].to_vec()));
    }
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..pieces.len());
        let spliced = other.choose(random).unwrap();
        match random.random_range(0..9) {
            0 => drop(pieces.remove(at)),
            1 => pieces.insert(at, pieces[at].clone()),
            2 => pieces[at] = spliced.clone(),
            3 => pieces[at].1.clone_from(&spliced.1),
            4 => pieces[at].0 = extreme(random, pieces[at].0.cast_unsigned()).cast_signed(),
            5 => pieces[1..].shuffle(random),
            _ => damage(random, &mut pieces[at].1, &spliced.1),
        }
        if pieces.is_empty() {
            return dump;
        }
    }
    pieces
}

/// Whoever may send RESTORE could take more memory than the server's owner allows.
#[test]
fn a_payload_above_the_limit_is_refused_and_leaves_nothing() {
    let source = Server::start();
    let server = Server::with().module_args("bf-max-filter-bytes 200000").start();
    let (mut source, mut client) = (source.client(), server.client());
    for layout in ["BLOCKED", "CLASSIC", "VALKEY"] {
        for (capacity, reply) in [(100_000, ok()), (200_000, error(BAD_FORMAT))] {
            source.run("DEL key");
            let line = format!("BF.RESERVE key 0.01 {capacity} LAYOUT {layout}");
            assert_eq!(source.run(&line), ok());
            let payload = source.dump("key");
            let restore = [&b"RESTORE"[..], b"key", b"0", payload.bytes()];
            assert_eq!(client.call(&restore), reply, "{layout} {capacity}");
            let is_there = i64::from(reply == ok());
            client.answers(&[("EXISTS key", is_there.into()), ("DBSIZE", is_there.into())]);
            client.run("BF.RESERVE key 0.01 10");
            let before = client.dump("key");
            assert_eq!(
                client.call(&[&restore[..], &[b"REPLACE"]].concat()),
                reply,
                "{layout} {capacity}"
            );
            // A refused payload replaces nothing.
            let after = if is_there == 1 { payload } else { before };
            assert!(client.dump("key") == after, "{layout} {capacity}");
            client.run("DEL key");
        }
    }
    assert!(server.log().contains("a Bloom filter was not loaded: "));
}
