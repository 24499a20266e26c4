//! Beside valkey-bloom, by the tests in `rival.rs`.
//!
//! `BLOOM_TEST_VALKEY_BLOOM=path.so` names a valkey-bloom that the server loads; `make test-valkey-bloom` does. What one
//! has recorded is compared without it, in `recorded.rs`.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};

use super::rival::{
    Rival, Side, Traffic, a_replica_equals_it_and_takes_its_place, by_migration, by_payload,
    files_are_read_by_the_other_one, it_follows, it_follows_an_end_that_is_said_afterwards,
    it_refuses_filters_of_other_layouts, named, single_filters_go_both_ways,
};
use crate::client::{Client, Reply, ok};
use crate::server::{Server, Setup, skip};
use crate::support::stored_valkey::{FORETOLD, STORED};

/// Keys of a stream.
const KEYS: [&[u8]; 12] = [
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

/// The valkey-bloom to compare with, if there is one, and if the server can load it.
macro_rules! valkey_bloom {
    () => {{
        if !Server::version().valkey {
            skip!("valkey-bloom is for Valkey");
        }
        let Some(path) = named("BLOOM_TEST_VALKEY_BLOOM") else {
            skip!("BLOOM_TEST_VALKEY_BLOOM names no valkey-bloom");
        };
        ValkeyBloom {
            setup: Server::with().module_at(&path),
        }
    }};
}

/// One write that both modules understand: to this module also with BF.LOAD, which valkey-bloom 1.0 does not send to its
/// replicas as it came, and in the words that its clients may use.
struct Step<'a> {
    traffic: &'a mut Traffic,
    to_ours: bool,
}

impl Step<'_> {
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
        let (key, other) = (self.traffic.pick(&KEYS), self.traffic.pick(&KEYS));
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
        Step { traffic, to_ours }.run();
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

/// A switch from valkey-bloom would lose what its clients wrote, and the way back would be closed.
#[test]
fn a_replica_of_valkey_bloom_equals_it_and_takes_its_place() {
    a_replica_equals_it_and_takes_its_place(&valkey_bloom!());
}

/// The way back to valkey-bloom would be closed, or need a pause.
#[test]
fn valkey_bloom_follows_filters_of_its_layout() {
    it_follows(&valkey_bloom!(), |client| {
        for stored in STORED.iter() {
            stored.make(client, &["LAYOUT", "VALKEY"]);
        }
        client.answers(&[
            ("BF.RESERVE reserved 0.3 70 LAYOUT VALKEY EXPANSION 32768", ok()),
            ("BF.RESERVE least 1e-300 1 TIGHTENING 0.0001", ok()),
        ]);
        STORED.len() + 2
    });
}

/// Who keeps the way back to valkey-bloom open would lose filters that are to expire, or keep them there for ever.
#[test]
fn valkey_bloom_follows_an_end_that_is_said_afterwards() {
    it_follows_an_end_that_is_said_afterwards(&valkey_bloom!());
}

/// Who stops one server and starts the other on its files would lose filters, or get others.
#[test]
fn files_of_valkey_bloom_are_read_and_read_by_it() {
    files_are_read_by_the_other_one(&valkey_bloom!());
}

/// Tools that move single filters would alter them.
#[test]
fn single_filters_go_to_valkey_bloom_and_back() {
    single_filters_go_both_ways(&valkey_bloom!(), &[by_payload, by_migration]);
}

/// valkey-bloom would misread a filter of another layout, and answer at random.
#[test]
fn valkey_bloom_refuses_filters_of_other_layouts() {
    it_refuses_filters_of_other_layouts(&valkey_bloom!(), &["BLOCKED", "CLASSIC"], &["MBbloom--"]);
}
