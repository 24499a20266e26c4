//! Beside valkey-bloom: its files and payloads, and replicas of each other.
//!
//! What valkey-bloom 1.0.1 stored and sent is in `tests/fixtures/valkey-bloom`, with all that it said of it.
//! `BLOOM_TEST_VALKEY_BLOOM=path.so` names a valkey-bloom that the server loads; `make test-valkey-bloom` does.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Reply, array, error, ok};
use crate::formats::rival::{Primary, copied, follow, is_content, started_on_commands, unzipped};
use crate::server::{Server, Setup, sample, seed, skip, until};
use crate::support::aof::{paths, rewrite};
use crate::support::items::numbered;
use crate::support::link::in_step;
use crate::support::payload::{FOOTER, rdb_file, sealed};
use crate::support::stored::fixture;

/// The size limit of a filter that was set when the fixtures were recorded.
const LIMIT: &str = "bf-max-filter-bytes 134217728";

/// New filters are valkey-bloom's.
const LAYOUT: &str = "bf-layout valkey bf-max-filter-bytes 134217728";

/// The version of the RDB format that the fixtures are in.
const VERSION: u16 = 11;

/// A text of the characters U+0000 to U+00FF, one for each byte.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(letter).unwrap()).collect()
}

fn base64(json: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// Runs a command of words of different kinds.
fn call(client: &mut Client, words: &[&[u8]]) -> Reply {
    client.call(words)
}

/// A filter as valkey-bloom had it.
struct Stored {
    key: String,
    /// The command that made the filter; empty if an add did.
    words: Vec<Vec<u8>>,
    /// The items that were added, in this order.
    items: Vec<Vec<u8>>,
    /// All figures of the filter that valkey-bloom reported.
    said: Value,
    /// Which probes are present, though none was added.
    answers: Vec<bool>,
    /// What DUMP gives, without its footer.
    body: Vec<u8>,
    /// The whole of it.
    payload: Vec<u8>,
    /// What BF.LOAD takes.
    load: Vec<u8>,
}

static STORED: LazyLock<Vec<Stored>> = LazyLock::new(|| {
    let json = json("valkey-bloom/filters.json");
    let filters = json["filters"].as_object().unwrap();
    assert_eq!((filters.len(), &json["probes"]), (11, &Value::from(PROBES.len())));
    filters.iter().map(|(key, said)| Stored::new(key, said)).collect()
});

static PROBES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| numbered("probe:", 0, 20_000));

impl Stored {
    fn new(key: &str, said: &Value) -> Self {
        let texts = |json: &Value| -> Vec<_> {
            let texts = json.as_array().into_iter().flatten();
            texts.map(|text| bytes(text.as_str().unwrap())).collect()
        };
        let (items, payload) = (&said["items"], base64(&said["dump"]));
        Self {
            key: key.to_owned(),
            words: texts(&said["words"]),
            items: match items["prefix"].as_str() {
                Some(prefix) => numbered(prefix, 0, items["count"].as_u64().unwrap() as usize),
                None => texts(&items["list"]),
            },
            answers: bits(&base64(&said["answers"])),
            body: payload[..payload.len() - FOOTER].to_vec(),
            payload,
            load: base64(&said["load"]),
            said: said.clone(),
        }
    }

    /// The seed, which is behind 13 bytes of the first layer's head.
    fn seed(&self) -> &[u8] {
        &self.load[51..83]
    }

    /// Makes it anew, with `more` words; by its own, where it has some.
    fn make(&self, client: &mut Client, more: &[&str]) {
        let default = [&b"BF.INSERT"[..], self.key.as_bytes()];
        let mut words: Vec<_> = self.words.iter().map(Vec::as_slice).collect();
        if words.is_empty() {
            words.extend(default);
        }
        words.extend(more.iter().map(|word| word.as_bytes()));
        if !words.contains(&&b"SEED"[..]) {
            words.extend([&b"SEED"[..], self.seed()]);
        }
        let made = if words[0] == b"BF.RESERVE" {
            ok()
        } else {
            Reply::Array(Vec::new())
        };
        assert_eq!(client.call(&words), made, "{}", self.key);
        for item in &self.items {
            assert!(
                matches!(
                    call(client, &[b"BF.ADD", self.key.as_bytes(), item]),
                    Reply::Int(_)
                ),
                "{}",
                self.key
            );
        }
    }

    /// The filter in `key` is this one, in all that it answers, says and is stored as.
    #[track_caller]
    fn is(&self, server: &Server, key: &str) {
        let client = &mut server.client();
        assert_eq!(client.call(&["TYPE", key]), Reply::Simple("bloomfltr".into()));
        let members = found(client, key.as_bytes(), &self.items);
        assert!(members.iter().all(|&is_there| is_there), "{key}: members");
        assert!(
            found(client, key.as_bytes(), &PROBES) == self.answers,
            "{key}: other answers"
        );
        let info = client.call(&["BF.INFO", key]);
        assert!(is_described_like(&info, &self.said["info"]), "{key}: {info:?}");
        // Where modules have no RESP3, a client gets the forms of RESP2.
        let info3 = if Server::version().modules_have_resp3() {
            "info3"
        } else {
            "info"
        };
        let info = server.client3().call(&["BF.INFO", key]);
        assert!(is_described_like(&info, &self.said[info3]), "{key}: {info:?}");
        for (field, value) in self.said["fields"].as_object().unwrap() {
            let reply = client.call(&["BF.INFO", key, field]);
            let is_foretold = field == "MAXSCALEDCAPACITY" && matches!(reply, Reply::Int(1..));
            assert!(is_foretold || is_like(&reply, value), "{key}: {field}: {reply:?}");
        }
        assert_eq!(digest(client, key.as_bytes()), self.said["digest"], "{key}");
        let payload = client.dump(key);
        let (body, _) = payload.bytes().split_at(payload.bytes().len() - FOOTER);
        assert!(body == self.body, "{key}: another DUMP");
    }
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |at| byte >> at & 1 == 1));
    bits.collect()
}

/// Which of the items a filter says that it has.
fn found(client: &mut Client, key: &[u8], items: &[Vec<u8>]) -> Vec<bool> {
    let mut found = Vec::new();
    for batch in items.chunks(5000) {
        let head = [&b"BF.MEXISTS"[..], key];
        let words: Vec<_> = head.into_iter().chain(batch.iter().map(Vec::as_slice)).collect();
        found.extend(
            client
                .call(&words)
                .elements()
                .iter()
                .map(|answer| answer.int() == 1),
        );
    }
    found
}

fn digest(client: &mut Client, key: &[u8]) -> String {
    call(client, &[b"DEBUG", b"DIGEST-VALUE", key]).elements()[0].text()
}

/// Whether a reply of BF.INFO is the recorded one. How far a filter can grow follows from the server's own limit, and
/// from what its allocator takes.
fn is_described_like(info: &Reply, said: &Value) -> bool {
    let (info, said) = (info.elements(), said.as_array().unwrap());
    let foretold = said.iter().position(|name| name == FORETOLD).map(|at| at + 1);
    info.len() == said.len()
        && info.iter().zip(said).enumerate().all(|(at, (reply, said))| {
            let may_differ = Some(at) == foretold && matches!(reply, Reply::Int(1..));
            may_differ || is_like(reply, said)
        })
}

/// The field of valkey-bloom's BF.INFO for the capacity that a filter can grow to, as it was recorded.
const FORETOLD: &str = "+Max scaled capacity";

/// Whether a reply is the recorded one. In which digits a double is written is the server's matter.
fn is_like(reply: &Reply, said: &Value) -> bool {
    let is_double = |text: &str| text.parse() == Ok(reply.number());
    match said {
        Value::Null => *reply == Reply::Null,
        Value::Number(number) => *reply == number.as_i64().unwrap().into(),
        Value::Array(all) => {
            let elements = reply.elements();
            all.len() == elements.len() && elements.iter().zip(all).all(|(reply, said)| is_like(reply, said))
        }
        Value::String(text) => match (text.split_at(1), reply) {
            (("+", text), Reply::Simple(is)) => text == is,
            (("$", text), Reply::Bulk(_)) | ((",", text), Reply::Double(_)) => is_double(text),
            _ => false,
        },
        other => panic!("{other}"),
    }
}

/// The last bytes of the server's payloads but the checksum: the version of its RDB format.
fn rdb_version(client: &mut Client) -> u16 {
    client.run("SET version 1");
    let payload = client.dump("version");
    client.run("DEL version");
    let footer = payload.bytes().last_chunk::<FOOTER>().unwrap();
    u16::from_le_bytes([footer[0], footer[1]])
}

/// The server has all stored filters, and nothing else.
#[track_caller]
fn has_all(server: &Server) {
    STORED.iter().for_each(|stored| stored.is(server, &stored.key));
    server
        .client()
        .answers(&[("DBSIZE", (STORED.len() as i64).into())]);
}

/// Who changes from valkey-bloom by its RDB file would lose filters, or get other answers.
#[test]
fn a_server_starts_on_a_file_of_valkey_bloom() {
    let version = rdb_version(&mut Server::with().without_module().start().client());
    let recorded = fs::read(fixture("valkey-bloom/filters.rdb")).unwrap();
    // Of the age that every server reads.
    let older = rdb_file(STORED.iter().map(|stored| (&*stored.key, &stored.body[..])));
    let files = [recorded, older];
    for file in &files[usize::from(version < VERSION)..] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("dump.rdb"), file).unwrap();
        let mut server = Server::with().module_args(LIMIT).dir(dir.path()).start();
        has_all(&server);
        server.client().answers(&[("SAVE", ok())]);
        server.restart();
        has_all(&server);
    }
}

/// Filters that are moved key by key, by DUMP and RESTORE or by what BF.LOAD takes, would be altered.
#[test]
fn single_filters_are_taken() {
    let server = Server::with().module_args(LIMIT).start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    for stored in STORED.iter() {
        // A server that is older than the payloads gets what they have with a footer of its own.
        let own = sealed(&stored.body, &version.to_le_bytes());
        let payload = if version < VERSION { &own } else { &stored.payload };
        assert_eq!(
            call(&mut client, &[b"RESTORE", stored.key.as_bytes(), b"0", payload]),
            ok(),
            "{}",
            stored.key
        );
    }
    has_all(&server);
    client.answers(&[("FLUSHALL", ok())]);
    for stored in STORED.iter() {
        let loaded = call(&mut client, &[b"BF.LOAD", stored.key.as_bytes(), &stored.load]);
        assert_eq!(loaded, ok(), "{}", stored.key);
    }
    has_all(&server);
}

/// What a server writes for valkey-bloom in a file of readable commands would be another filter there.
#[test]
fn a_rewritten_file_has_what_valkey_bloom_writes() {
    let setup = Server::with().append_only().config("aof-use-rdb-preamble", "no");
    let server = setup.module_args(LIMIT).start();
    let mut client = server.client();
    for stored in STORED.iter() {
        let loaded = call(&mut client, &[b"BF.LOAD", stored.key.as_bytes(), &stored.load]);
        assert_eq!(loaded, ok(), "{}", stored.key);
    }
    rewrite(&mut client);
    let mut written = Vec::new();
    for path in paths(&server) {
        let mut file = std::io::BufReader::new(fs::File::open(path).unwrap());
        written.extend(std::iter::from_fn(|| Reply::read(&mut file).unwrap()));
    }
    written.retain(|command| command.elements()[0].text() == "BF.LOAD");
    assert_eq!(written.len(), STORED.len());
    for stored in STORED.iter() {
        let is_of_it = |command: &&Reply| command.elements()[1].text() == stored.key;
        let command = written.iter().find(is_of_it).unwrap();
        assert!(command.elements()[2].bytes() == stored.load, "{}", stored.key);
    }
}

/// What a user makes here for valkey-bloom would be another filter there, and the way back would be closed.
#[test]
fn filters_made_here_are_valkey_bloom_s() {
    let said = Server::with().module_args(LIMIT).start();
    let configured = Server::with().module_args(LAYOUT).start();
    for stored in STORED.iter() {
        stored.make(&mut said.client(), &["LAYOUT", "VALKEY"]);
        stored.make(&mut configured.client(), &[]);
    }
    has_all(&said);
    has_all(&configured);
}

/// The server has what the recorded valkey-bloom had at the end of its stream.
#[track_caller]
fn has_the_stream(server: &Server) {
    let json = json("valkey-bloom/stream.json");
    let all = json["keys"].as_object().unwrap();
    let client = &mut server.client();
    assert_eq!(client.run("DBSIZE"), (all.len() as i64).into());
    for (name, said) in all {
        let key = &bytes(name)[..];
        assert_eq!(call(client, &[b"TYPE", key]).text(), said["type"], "{name:?}");
        assert_eq!(digest(client, key), said["digest"], "{name:?}");
        assert_eq!(
            call(client, &[b"PEXPIRETIME", key]).int(),
            said["end"],
            "{name:?}"
        );
        if said["type"] == "bloomfltr" {
            assert_eq!(call(client, &[b"BF.CARD", key]).int(), said["card"], "{name:?}");
            let info = call(client, &[b"BF.INFO", key]);
            assert!(is_like(&info, &said["info"]), "{name:?}: {info:?}");
        }
    }
}

/// What a valkey-bloom sent to its replicas, if the server reads the payloads in it.
macro_rules! stream {
    () => {{
        if rdb_version(&mut Server::with().without_module().start().client()) < VERSION {
            skip!("the stream has payloads in version {VERSION} of the RDB format, which this server does not read");
        }
        unzipped("valkey-bloom/stream.aof.gz")
    }};
}

/// A server that is started on valkey-bloom's append-only file would have other filters.
#[test]
fn a_recorded_file_makes_what_valkey_bloom_made() {
    let commands = stream!();
    let (mut server, _dir) = started_on_commands(&commands, Server::with().module_args(LIMIT));
    has_the_stream(&server);
    // A refused command would be one that the recorded server had obeyed.
    let log = server.log();
    assert!(!log.contains("sending an error to its"), "{log}");
    server.restart();
    has_the_stream(&server);
}

/// A replica would go its own way in silence, and after the switch its clients miss what they added.
#[test]
fn a_recorded_primary_is_followed() {
    let commands = stream!();
    let primary = Primary::of(commands);
    let mut server = Server::with().append_only().module_args(LIMIT).start();
    let mut client = server.client();
    // Not in its configuration, which would make it follow again when it is started again.
    client.answers(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.port), ok())]);
    until("the replica has the stream", || {
        client.stat("replication", "slave_repl_offset") == primary.sent.to_string()
    });
    has_the_stream(&server);
    is_content(&server);
    assert!(!server.log().contains("RedisBloom"), "{}", server.log());
    client.answers(&[("REPLICAOF NO ONE", ok())]);

    // The module's own file has the filters too, in its own words.
    server.restart();
    has_the_stream(&server);
}

/// Keys of a random stream.
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

/// Different items that a stream has.
const ITEMS: usize = 2000;

/// Questions to each key, when two servers are compared.
const QUESTIONS: usize = 20_000;

/// Commands of a stream.
const STEPS: usize = 1500;

/// The valkey-bloom to compare with.
fn valkey_bloom() -> Option<PathBuf> {
    let path = std::env::var_os("BLOOM_TEST_VALKEY_BLOOM")?;
    let path = fs::canonicalize(&path);
    Some(path.unwrap_or_else(|why| panic!("BLOOM_TEST_VALKEY_BLOOM: {why}")))
}

/// A server to be set up with valkey-bloom, if there is one, and if the server can load it.
macro_rules! rival {
    () => {{
        if !Server::version().valkey {
            skip!("valkey-bloom is for Valkey");
        }
        let Some(path) = valkey_bloom() else {
            skip!("BLOOM_TEST_VALKEY_BLOOM names no valkey-bloom");
        };
        Server::with().module_at(&path)
    }};
}

/// A server whose new filters are valkey-bloom's, to be set up.
fn ours() -> Setup {
    Server::with().module_args(LAYOUT)
}

fn keys(client: &mut Client) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = client
        .run("KEYS *")
        .elements()
        .iter()
        .map(|key| key.bytes().to_vec())
        .collect();
    keys.sort();
    keys
}

/// Two replies of BF.INFO are the same, but for how far the filter can grow: only this module asks the allocator. And of
/// a filter that BF.LOAD made it has a list of layers with another room, of 8 bytes a layer: what it reads has room for
/// no more, and that doubles when it grows.
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

/// The two servers have the same keys: in what these say of themselves, and in what they answer.
#[track_caller]
fn are_equal(one: &Server, other: &Server, least: usize) {
    let (mut one, mut other) = (one.client(), other.client());
    let names = keys(&mut one);
    assert_eq!(keys(&mut other), names);
    assert!(names.len() >= least, "too little to compare: {names:?}");
    let items = numbered("", 0, QUESTIONS);
    let is_filter = |said: &[Reply]| said[0].text() == "bloomfltr";
    for key in &names {
        let shown = key.escape_ascii();
        let [of_one, of_other] = [&mut one, &mut other].map(|client| {
            let mut said = vec![
                call(client, &[b"TYPE", key]),
                call(client, &[b"DEBUG", b"DIGEST-VALUE", key]),
                call(client, &[b"PEXPIRETIME", key]),
            ];
            said.extend(is_filter(&said).then(|| call(client, &[b"BF.CARD", key])));
            said
        });
        assert_eq!(of_one, of_other, "{shown}");
        if is_filter(&of_one) {
            let info = [&mut one, &mut other].map(|client| call(client, &[b"BF.INFO", key]));
            are_described_alike(&info);
            let answers = found(&mut one, key, &items);
            assert!(
                answers == found(&mut other, key, &items),
                "{shown}: other answers"
            );
        }
    }
}

/// Writes of every kind, at random, that both modules understand.
struct Traffic {
    random: StdRng,
    client: Client,
    /// To this module: with BF.LOAD, which valkey-bloom 1.0 does not send to its replicas as it came, and in the words
    /// that its clients may use.
    to_ours: bool,
}

impl Traffic {
    fn to_theirs(server: &Server, seed: u64) -> Self {
        Self::new(server, seed, false)
    }

    fn to_ours(server: &Server, seed: u64) -> Self {
        Self::new(server, seed, true)
    }

    fn new(server: &Server, seed: u64, to_ours: bool) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            client: server.client(),
            to_ours,
        }
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.random).unwrap()
    }

    fn items(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.random.random_range(1..=most);
        let items = (0..count).map(|_| self.random.random_range(0..ITEMS).to_string().into_bytes());
        items.collect()
    }

    /// A word in any case.
    fn word(&mut self, word: &str) -> Vec<u8> {
        match self.random.random_range(0..3) {
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
        self.pick(&rates).into()
    }

    fn size(&mut self) -> Vec<u8> {
        let sizes = ["1", "3", "10", "50", "100", "400"];
        self.pick(&sizes).into()
    }

    fn insert_options(&mut self) -> Vec<Vec<u8>> {
        let mut seed = vec![0; 32];
        self.random.fill(&mut seed[..]);
        let expansion = self.pick(&["1", "2", "3", "7"]);
        let tightening = self.pick(&["0.5", "0.25", "0.9", "1e-3"]);
        let goal = self.pick(&["1", "100", "1000"]);
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
        options.shuffle(&mut self.random);
        options.retain(|_| self.random.random_ratio(1, 6));
        options.concat()
    }

    fn reserve_options(&mut self) -> Vec<Vec<u8>> {
        let factor = self.pick(&["1", "2", "4"]);
        match self.random.random_range(0..3) {
            0 => Vec::new(),
            1 => vec![self.word("NONSCALING")],
            _ => vec![self.word("EXPANSION"), factor.into()],
        }
    }

    fn send(&mut self, head: &[&[u8]], more: &[Vec<Vec<u8>>]) -> Reply {
        let words = head.iter().map(|word| word.to_vec());
        let words: Vec<_> = words.chain(more.concat()).collect();
        self.client.call(&words)
    }

    fn insert(&mut self, key: &[u8]) {
        let (options, word, items) = (self.insert_options(), self.word("ITEMS"), self.items(40));
        self.send(&[b"BF.INSERT", key], &[options, vec![word], items]);
    }

    fn reserve(&mut self, key: &[u8]) {
        let (size, options) = (vec![self.rate(), self.size()], self.reserve_options());
        self.send(&[b"BF.RESERVE", key], &[size, options]);
    }

    fn step(&mut self) {
        let (key, other) = (self.pick(&KEYS), self.pick(&KEYS));
        let replace = self.pick(&[&b""[..], b"REPLACE"]);
        let replace: Vec<_> = [replace.to_vec()]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        match self.random.random_range(0..100) {
            0..20 => {
                let item = self.items(1);
                self.send(&[b"BF.ADD", key], &[item]);
            }
            20..42 => {
                let items = self.items(40);
                self.send(&[b"BF.MADD", key], &[items]);
            }
            42..62 => self.insert(key),
            62..66 => {
                let options = self.insert_options();
                self.send(&[b"BF.INSERT", key], &[options]);
            }
            66..70 => self.reserve(key),
            70..75 => {
                self.send(&[b"DEL", key], &[]);
                self.reserve(key);
            }
            75..79 => {
                let items = self.items(500);
                self.send(&[b"BF.MADD", key], &[items]);
            }
            79..82 => {
                let name = self.pick(&[&b"DEL"[..], b"UNLINK"]);
                self.send(&[name, key], &[]);
            }
            82..84 => {
                self.send(&[b"COPY", key, other], &[replace]);
            }
            84 => {
                let name = self.pick(&[&b"RENAME"[..], b"RENAMENX"]);
                self.send(&[name, key, other], &[]);
            }
            85..88 => {
                if let Reply::Bulk(payload) = self.send(&[b"DUMP", key], &[]) {
                    self.send(&[b"RESTORE", other, b"0", &payload], &[replace]);
                }
            }
            88..90 => {
                self.send(&[b"EXPIRE", key, b"3000000000"], &[]);
            }
            90 => {
                self.send(&[b"PERSIST", key], &[]);
            }
            91 => {
                self.send(&[b"EXPIRE", key, b"-1"], &[]);
            }
            92..95 => {
                let item = self.items(1);
                self.send(&[b"MULTI"], &[]);
                self.send(&[b"BF.ADD", key], &[item]);
                self.insert(other);
                self.send(&[b"DEL", key], &[]);
                self.reserve(key);
                self.send(&[b"EXEC"], &[]);
            }
            95..97 => {
                let script = b"redis.call('BF.ADD', KEYS[1], ARGV[1]) \
                               return redis.call('BF.MADD', KEYS[2], unpack(ARGV))";
                let items = self.items(20);
                self.send(&[b"EVAL", script, b"2", key, other], &[items]);
            }
            97 => {
                self.send(&[b"SET", key, b"text"], &[]);
            }
            _ if self.to_ours => {
                let stored = STORED.choose(&mut self.random).unwrap();
                self.send(&[b"BF.LOAD", key, &stored.load], &[]);
            }
            _ => self.insert(key),
        }
    }
}

/// A switch from valkey-bloom would lose what its clients wrote; and the way back would be closed.
#[test]
fn a_replica_of_valkey_bloom_equals_it_and_takes_its_place() {
    let theirs = rival!();
    let first = theirs.clone().append_only().start();
    // Whatever its own clients' filters are to be.
    let early = Server::with()
        .module_args(LIMIT)
        .append_only()
        .replica_of(&first)
        .start();
    in_step(&first, &early);
    let mut traffic = Traffic::to_theirs(&first, seed());
    traffic.run(sample(STEPS));
    in_step(&first, &early);
    are_equal(&first, &early, 8);
    let late = ours().replica_of(&first).start();
    in_step(&first, &late);
    first.client().run("DEL a b");
    first.client().answers(&[
        ("BF.RESERVE a 0.3 2 EXPANSION 4294967295", ok()),
        ("BF.RESERVE b 1e-300 1 EXPANSION 1", ok()),
    ]);
    // What every replica is to know, however its primary is set.
    first.client().answers(&[
        ("CONFIG SET bf.bloom-use-random-seed no", ok()),
        ("CONFIG SET bf.bloom-capacity 30", ok()),
        ("CONFIG SET bf.bloom-expansion 3", ok()),
        ("CONFIG SET bf.bloom-fp-rate 0.07", ok()),
        ("CONFIG SET bf.bloom-tightening-ratio 0.6", ok()),
    ]);
    traffic.run(sample(STEPS));
    for replica in [&early, &late] {
        in_step(&first, replica);
        are_equal(&first, replica, 8);
        is_content(replica);
        assert!(!replica.log().contains("RedisBloom"), "{}", replica.log());
    }

    // What it wrote of that into its own file means the same.
    early.client().answers(&[("REPLICAOF NO ONE", ok())]);
    let mut early = early;
    early.restart();
    early.client().answers(&[("REPLICAOF NO ONE", ok())]);
    are_equal(&late, &early, 8);

    // The places are changed.
    late.client().answers(&[("REPLICAOF NO ONE", ok())]);
    follow(&first, &late);
    in_step(&late, &first);
    Traffic::to_ours(&late, seed() + 1).run(sample(STEPS));
    in_step(&late, &first);
    are_equal(&late, &first, 8);
    is_content(&first);
}

/// The way back to valkey-bloom would be closed, or need a pause.
#[test]
fn valkey_bloom_follows_filters_of_its_layout() {
    let theirs = rival!();
    let primary = ours().start();
    let first = theirs.clone().replica_of(&primary).start();
    in_step(&primary, &first);
    let mut traffic = Traffic::to_ours(&primary, seed() + 2);
    traffic.run(sample(STEPS));
    let second = theirs.clone().replica_of(&primary).start();
    traffic.run(sample(STEPS));
    for replica in [&first, &second] {
        in_step(&primary, replica);
        are_equal(&primary, replica, 8);
        is_content(replica);
    }

    // Said with each filter, instead of once.
    let primary = Server::with().module_args(LIMIT).start();
    let replica = theirs.replica_of(&primary).start();
    in_step(&primary, &replica);
    let mut client = primary.client();
    for stored in STORED.iter() {
        stored.make(&mut client, &["LAYOUT", "VALKEY"]);
    }
    client.answers(&[("BF.RESERVE reserved 0.3 70 LAYOUT VALKEY EXPANSION 32768", ok())]);
    client.answers(&[("BF.RESERVE least 1e-300 1 TIGHTENING 0.0001", ok())]);
    in_step(&primary, &replica);
    are_equal(&primary, &replica, STORED.len() + 2);
    is_content(&replica);
}

/// Who stops one server and starts the other on its files would lose filters, or get others; there and back.
#[test]
fn files_are_read_by_the_other_one() {
    let theirs = rival!();
    for preamble in ["yes", "no"] {
        let on = |setup: Setup, dir: &TempDir| {
            let setup = setup.append_only().config("aof-use-rdb-preamble", preamble);
            setup.dir(dir.path()).start()
        };
        let dir = TempDir::new().unwrap();
        let from = on(theirs.clone(), &dir);
        Traffic::to_theirs(&from, seed() + 3).run(sample(STEPS));
        // Commands only, then what they were rewritten to.
        let copy = copied(&from);
        are_equal(&from, &on(ours(), &copy), 8);
        rewrite(&mut from.client());
        let copy = copied(&from);
        let back = on(ours(), &copy);
        are_equal(&from, &back, 8);

        Traffic::to_ours(&back, seed() + 4).run(sample(STEPS));
        let copy = copied(&back);
        are_equal(&back, &on(theirs.clone(), &copy), 8);
        rewrite(&mut back.client());
        let copy = copied(&back);
        are_equal(&back, &on(theirs.clone(), &copy), 8);
    }
    let from = theirs.clone().start();
    Traffic::to_theirs(&from, seed() + 5).run(sample(STEPS));
    from.client().answers(&[("SAVE", ok())]);
    let back = ours().dir(from.dir()).start();
    are_equal(&from, &back, 8);
    Traffic::to_ours(&back, seed() + 6).run(sample(STEPS));
    back.client().answers(&[("SAVE", ok())]);
    let again = theirs.dir(back.dir()).start();
    are_equal(&back, &again, 8);
}

/// Tools that move single filters would alter them, in either direction.
#[test]
fn single_filters_go_both_ways() {
    /// Copies a filter under its name.
    type Way<'a> = &'a dyn Fn(&Server, &Server, &[u8]);
    let theirs = rival!();
    let (theirs, ours) = (theirs.start(), ours().start());
    let by_payload = |from: &Server, to: &Server, key: &[u8]| {
        let payload = call(&mut from.client(), &[b"DUMP", key]);
        let restored = call(&mut to.client(), &[b"RESTORE", key, b"0", payload.bytes()]);
        assert_eq!(restored, ok(), "{}", key.escape_ascii());
    };
    let by_migration = |from: &Server, to: &Server, key: &[u8]| {
        let port = to.port().to_string();
        let words = [
            &b"MIGRATE"[..],
            b"127.0.0.1",
            port.as_bytes(),
            b"",
            b"0",
            b"10000",
            b"COPY",
            b"KEYS",
            key,
        ];
        assert_eq!(from.client().call(&words), ok(), "{}", key.escape_ascii());
    };
    let ways: [Way<'_>; 2] = [&by_payload, &by_migration];
    for (round, copy) in ways.into_iter().enumerate() {
        let (mut there, mut here) = (theirs.client(), ours.client());
        let round = 2 * round as u64;
        Traffic::to_theirs(&theirs, seed() + 7 + round).run(sample(STEPS));
        KEYS.iter().for_each(|key| {
            call(&mut there, &[b"PERSIST", key]);
        });
        here.answers(&[("FLUSHALL", ok())]);
        for key in keys(&mut there) {
            copy(&theirs, &ours, &key);
        }
        are_equal(&theirs, &ours, 8);
        Traffic::to_ours(&ours, seed() + 8 + round).run(sample(STEPS));
        KEYS.iter().for_each(|key| {
            call(&mut here, &[b"PERSIST", key]);
        });
        there.answers(&[("FLUSHALL", ok())]);
        for key in keys(&mut here) {
            copy(&ours, &theirs, &key);
        }
        are_equal(&ours, &theirs, 8);
    }
}

/// Who keeps the way back open would lose filters that are to expire, or keep them there for ever.
#[test]
fn valkey_bloom_follows_an_end_that_is_said_afterwards() {
    let theirs = rival!();
    let primary = ours().start();
    let replica = theirs.replica_of(&primary).start();
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

    // In one command it is not understood. What is made of an add instead goes with the original.
    client.answers(&[
        ("BF.RESERVE reserved 0.001 70 EX 1000", ok()),
        ("BF.INSERT inserted EX 1000 ITEMS a", array([1])),
    ]);
    in_step(&primary, &replica);
    follower.answers(&[("EXISTS reserved inserted", 0.into())]);
    client.answers(&[("BF.MADD reserved a", array([1]))]);
    in_step(&primary, &replica);
    assert_eq!(follower.info("reserved", "Capacity"), 100);
    client.answers(&[("PEXPIRE reserved 1", 1.into())]);
    until("it expires", || follower.run("DBSIZE") == 1.into());
}

/// valkey-bloom would misread a filter of another layout, and answer at random.
#[test]
fn valkey_bloom_refuses_filters_of_other_layouts() {
    let theirs = rival!();
    for layout in ["BLOCKED", "CLASSIC"] {
        let (to, from) = (theirs.clone().start(), Server::start());
        let (mut to, mut client) = (to.client(), from.client());
        client.answers(&[(&format!("BF.RESERVE key 0.01 100 LAYOUT {layout}"), ok())]);
        let payload = client.dump("key");
        let restored = call(&mut to, &[b"RESTORE", b"key", b"0", payload.bytes()]);
        assert_eq!(restored, error("ERR Bad data format"), "{layout}");
        to.answers(&[("EXISTS key", 0.into())]);
        client.answers(&[("SAVE", ok())]);
        let refused = theirs.clone().dir(from.dir()).try_start();
        let log = refused
            .err()
            .expect("valkey-bloom reads a filter of another layout");
        assert!(log.contains("MBbloom--"), "{log}");
    }
}
