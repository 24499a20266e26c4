//! Commands of every kind: right, nearly right, and garbage.

use std::rc::Rc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::adversary::forged::{self, Payload, damage, make_windows, mutate, mutated_dump};
use crate::adversary::garbage::argument;
use crate::client::Client;
use crate::client::clock;
use crate::filters;
use crate::server::Server;
use crate::support::chunks::{Chunk, scandump};
use crate::support::packed::Form;
use crate::support::payload::sealed;

/// A command, word by word.
pub type Command = Vec<Vec<u8>>;

/// Keys of filters. Their number says what most of them are reserved with; anything else may come to stand there.
const KEYS: usize = 48;
/// One of each layout, and one with a window.
const FAMILIES: [&str; 4] = [
    "0.01 1000 EXPANSION 2 LAYOUT BLOCKED SEED 1",
    "0.01 100 EXPANSION 2 LAYOUT CLASSIC",
    "0.01 200 EXPANSION 2 LAYOUT VALKEY SEED 5",
    "0.01 400 EXPANSION 2 LAYOUT BLOCKED SEED 1 WINDOW 60 SLICES 4",
];
/// Keys of filters that can be united: those of one kind are reserved alike, and few commands put anything else there.
const KIN: usize = 12;
/// The options with which the filters of a storm are reserved.
const KINDS: [&str; 2] = [
    "0.01 2000 EXPANSION 2 LAYOUT BLOCKED SEED 1",
    "0.01 2000 EXPANSION 2 LAYOUT CLASSIC",
];
/// Items that are met again and again are so many.
const ITEMS: u32 = 5000;

/// Every command of the module, as often as its number says.
const NAMES: [(&str, u32); 20] = [
    ("BF.RESERVE", 9),
    ("BF.ADD", 12),
    ("BF.MADD", 12),
    ("BF.INSERT", 10),
    ("BF.ADDPACKED", 8),
    ("BF.EXISTS", 12),
    ("BF.MEXISTS", 10),
    ("BF.EXISTSPACKED", 7),
    ("BF.INFO", 5),
    ("BF.CARD", 3),
    ("BF.DEBUG", 2),
    ("BF.SCANDUMP", 4),
    ("BF.LOADCHUNK", 6),
    ("BF.LOAD", 4),
    ("BF.EXCEPT", 5),
    ("BF.RESET", 2),
    ("BF.SHRINK", 3),
    ("BF.MERGE", 5),
    ("BF.INTERSECT", 4),
    ("BF.PLAN", 2),
];

/// Values for the module's options, good and bad ones.
const OPTIONS: [(&str, &[&str]); 6] = [
    ("error-rate", &["0.01", "0.001", "0.4", "1e-40", "nan", "1", ""]),
    (
        "initial-size",
        &["100", "1", "5000", "0", "1099511627777", "many"],
    ),
    ("expansion-factor", &["2", "1", "0", "32768", "32769", "-1"]),
    ("layout", &["blocked", "classic", "valkey", "dense"]),
    ("seed", &["1", "5", "random", "18446744073709551615", "x"]),
    (
        "max-filter-bytes",
        &["1mb", "100kb", "10000", "4mb", "-1", "9223372036854775808"],
    ),
];

/// Makes the random commands of a storm.
pub struct Commands {
    random: StdRng,
    /// Payloads of DUMP, taken apart, and the server's bytes after a payload.
    payloads: Rc<[Payload]>,
    version: Vec<u8>,
    /// Whole filters as BF.SCANDUMP gives them.
    dumps: Rc<[Vec<Chunk>]>,
    /// Filters as BF.LOAD takes them.
    loads: Rc<[Vec<u8>]>,
    /// The clock when it all began.
    now: i64,
    /// Whether the server is to load its data anew now and then. It leaves out what has expired then, of which its
    /// append-only file knows nothing.
    pub reloads: bool,
}

fn words(line: &str) -> Command {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// What BF.LOAD takes, from the chunks of a filter in valkey-bloom's layout.
pub fn load_data(dump: &[Chunk]) -> Vec<u8> {
    let ((_, header), arrays) = dump.split_first().unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let layers: Vec<_> = header[68..].chunks_exact(24).collect();
    let mut data = vec![1];
    data.extend(&header[32..36]);
    data.extend(&header[16..32]);
    data.push(1);
    data.extend((layers.len() as u64).to_le_bytes());
    // None of these layers is larger than a chunk.
    assert_eq!(layers.len(), arrays.len());
    for (layer, (_, bits)) in layers.into_iter().zip(arrays) {
        let per_item = 8.0 * bits.len() as f64 / number(&layer[..8]) as f64;
        let probes = (per_item * std::f64::consts::LN_2).round().max(1.0) as u32;
        data.extend((45 + bits.len() as u64).to_le_bytes());
        data.push(1);
        data.extend((bits.len() as u64).to_le_bytes());
        data.extend(probes.to_le_bytes());
        data.extend(&header[36..68]);
        data.extend(bits);
        data.extend(&layer[8..16]);
        data.extend(&layer[..8]);
    }
    data
}

impl Commands {
    /// The commands of this seed. What they are made of is made in `server`, and stays in it.
    pub fn new(seed: u64, client: &mut Client) -> Self {
        filters::make(client);
        let bodies = forged::bodies(client);
        let version = client.dump("empty").bytes().last_chunk::<10>().unwrap()[..2].to_vec();
        make_windows(client);
        client.run("BF.RESERVE excepted 0.01 100 SEED 1");
        filters::fill(client, "excepted", 0, 100);
        client.run("BF.EXCEPT excepted excepted:1 excepted:5 excepted:50");
        let keys: Vec<_> = filters::keys()
            .chain(forged::WINDOWS)
            .chain(["excepted"])
            .collect();
        let dumps = keys.iter().map(|key| scandump(client, key)).collect();
        let loads: Vec<_> = filters::VALKEY
            .iter()
            .map(|key| load_data(&scandump(client, key)))
            .collect();
        for data in &loads {
            let loaded = client.call(&[&b"BF.LOAD"[..], b"loaded", data]);
            assert_eq!(loaded, crate::client::ok(), "what is loaded is no good");
            client.run("DEL loaded");
        }
        Self {
            random: StdRng::seed_from_u64(seed),
            payloads: bodies.iter().map(|body| Payload::parse(body)).collect(),
            version,
            dumps,
            loads: loads.into(),
            now: clock(client),
            reloads: false,
        }
    }

    /// One command, or some that belong together.
    pub fn next(&mut self) -> Vec<Command> {
        match self.random.random_range(0..1000) {
            0..15 => self.transaction(),
            15..30 => vec![self.script()],
            30..45 => self.copy_in_chunks(),
            45..46 => vec![self.rare()],
            46..116 => self.anew(),
            _ => vec![self.simple()],
        }
    }

    fn chance(&mut self, chance: f64) -> bool {
        self.random.random_bool(chance)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from.choose(&mut self.random).unwrap().clone()
    }

    fn below(&mut self, end: u32) -> u32 {
        self.random.random_range(0..end)
    }

    // ---- Words -----------------------------------------------------------------------------------

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.random_range(0..KEYS);
        self.key_like(number)
    }

    /// A key of those that are reserved as this one is, or another one.
    fn key_like(&mut self, number: usize) -> Vec<u8> {
        match self.below(100) {
            0..2 => self.pick(&[&b""[..], b"text", b"list", b"\0\xff\r\n"]).to_vec(),
            2..5 => {
                let kind = self.random.random_range(0..KINDS.len());
                self.kin(kind)
            }
            5..20 => format!("key{}", self.random.random_range(0..KEYS)).into_bytes(),
            _ => {
                let of_family = self.random.random_range(0..KEYS / FAMILIES.len());
                format!("key{}", of_family * FAMILIES.len() + number % FAMILIES.len()).into_bytes()
            }
        }
    }

    /// A key of a filter that can be united with the others of its kind.
    fn kin(&mut self, kind: usize) -> Vec<u8> {
        let of_kind = self.random.random_range(0..KIN / KINDS.len());
        format!("kin{}", of_kind * KINDS.len() + kind).into_bytes()
    }

    fn item(&mut self) -> Vec<u8> {
        match self.below(1000) {
            0..900 => format!("item:{}", self.below(ITEMS)).into_bytes(),
            900..998 => (0..self.random.random_range(0..40))
                .map(|_| self.random.random())
                .collect(),
            998 => vec![b'x'; self.random.random_range(0..5000)],
            _ => vec![b'y'; self.random.random_range(0..200_000)],
        }
    }

    /// So many items that a filter grows now and then.
    fn items(&mut self) -> Vec<Vec<u8>> {
        let most = if self.chance(0.03) { 1500 } else { 12 };
        (0..self.random.random_range(1..=most))
            .map(|_| self.item())
            .collect()
    }

    fn rate(&mut self) -> String {
        let rates = [
            "0.01", "0.001", "0.1", "0.25", "0.5", "0.999", "1e-6", "1e-12", "1e-30", "1e-300",
        ];
        self.pick(&rates).to_owned()
    }

    fn capacity(&mut self) -> String {
        let magnitude = if self.chance(0.02) { 63.0 } else { 16.0 };
        let capacity = self.random.random_range(0.0..magnitude);
        (f64::exp2(capacity) as u64).to_string()
    }

    fn time(&mut self) -> i64 {
        match self.below(10) {
            0 => self.random.random_range(0..=1 << 62),
            1 => self.now + self.random.random_range(-1_000_000..10_000_000),
            _ => self.now + self.random.random_range(-100_000..100_000),
        }
    }

    /// The options that make a filter; most go together.
    fn options(&mut self) -> Vec<Vec<u8>> {
        let mut options = String::new();
        let mut add = |option: &str| {
            options += " ";
            options += option;
        };
        match self.below(10) {
            0 => add("NONSCALING"),
            1 => add("EXPANSION 0"),
            2..5 => add(&format!("EXPANSION {}", 1 + self.below(5))),
            _ => {}
        }
        match self.below(8) {
            0 => add("LAYOUT CLASSIC"),
            1 => add("LAYOUT VALKEY TIGHTENING 0.7"),
            2 => add(&format!(
                "LAYOUT VALKEY VALIDATESCALETO {}",
                self.below(1_000_000)
            )),
            3 => add(&format!("SEED {} GROWING", self.below(3))),
            4 => add(&format!(
                "WINDOW {} SLICES {}",
                1 + self.below(2),
                2 + self.below(63)
            )),
            5 => add("WINDOW 60 REFRESH SEED 1"),
            6 => add("LAYOUT BLOCKED SEED 1"),
            _ => {}
        }
        match self.below(20) {
            0 => add("NX"),
            1 => add(&format!("PX {}", 1 + self.below(5000))),
            2 => add("EX 4"),
            3 => add(&format!("PXAT {}", self.now + i64::from(self.below(600_000)))),
            _ => {}
        }
        words(&options).split_off(1)
    }

    /// Items in one argument, after the word for how they stand in it.
    fn packed(&mut self) -> Vec<Vec<u8>> {
        let form = self.pick(&Form::ALL);
        let items: Vec<_> = self.items().iter().map(|item| form.fit(item)).collect();
        let mut packed = words(&form.words());
        if self.chance(0.4) {
            packed.push(b"COUNT".to_vec());
        }
        packed.push(form.pack(&items));
        packed
    }

    /// A whole payload of RESTORE, or one that is damaged under a right checksum.
    fn payload(&mut self) -> Vec<u8> {
        let payloads = Rc::clone(&self.payloads);
        let (mut payload, other) = (self.pick(&payloads), self.pick(&payloads));
        if self.chance(0.5) {
            mutate(&mut self.random, &mut payload, &other);
        }
        let mut body = payload.body();
        if self.chance(0.1) {
            damage(&mut self.random, &mut body, &other.body());
        }
        sealed(&body, &self.version)
    }

    // ---- Commands --------------------------------------------------------------------------------

    /// A command that may stand anywhere.
    fn simple(&mut self) -> Command {
        let mut command = match self.below(100) {
            0..78 => self.of_the_module(),
            78..80 => return self.garbage(),
            80..97 => self.of_keys(),
            _ => return self.of_the_server(),
        };
        if self.chance(0.15) {
            self.spoil(&mut command);
        }
        command
    }

    /// A command of the module in a right form.
    fn of_the_module(&mut self) -> Command {
        let (name, _) = *NAMES
            .choose_weighted(&mut self.random, |(_, weight)| *weight)
            .unwrap();
        let number = self.random.random_range(0..KEYS);
        let mut command = vec![name.as_bytes().to_vec()];
        if name != "BF.PLAN" {
            command.push(self.key_like(number));
        }
        match name {
            "BF.RESERVE" | "BF.PLAN" if self.chance(0.6) => {
                command.extend(words(FAMILIES[number % FAMILIES.len()]));
            }
            "BF.RESERVE" | "BF.PLAN" => {
                command.push(self.rate().into_bytes());
                command.push(self.capacity().into_bytes());
                command.extend(self.options());
            }
            "BF.ADD" | "BF.EXISTS" => command.push(self.item()),
            "BF.MADD" | "BF.MEXISTS" | "BF.EXCEPT" => command.extend(self.items()),
            "BF.INSERT" | "BF.ADDPACKED" => {
                match self.below(6) {
                    0 => {
                        let line = format!("CAPACITY {} ERROR {}", self.capacity(), self.rate());
                        command.extend(words(&line));
                        command.extend(self.options());
                    }
                    1 => command.extend(words(&format!("AT {}", self.time()))),
                    2 => command.push(b"NOCREATE".to_vec()),
                    _ => {}
                }
                if name == "BF.ADDPACKED" {
                    command.extend(self.packed());
                } else if self.chance(0.97) {
                    command.push(b"ITEMS".to_vec());
                    command.extend(self.items());
                }
            }
            "BF.EXISTSPACKED" => command.extend(self.packed()),
            "BF.INFO" => {
                let fields = [
                    "CAPACITY",
                    "SIZE",
                    "FILTERS",
                    "ITEMS",
                    "EXPANSION",
                    "ERROR",
                    "TIGHTENING",
                    "FULL",
                    "MAXSCALEDCAPACITY",
                ];
                if self.chance(0.7) {
                    command.push(self.pick(&fields).as_bytes().to_vec());
                }
            }
            "BF.SCANDUMP" => {
                let iterator = if self.chance(0.6) { 0 } else { self.below(10_000) };
                command.push(iterator.to_string().into_bytes());
            }
            "BF.LOADCHUNK" => {
                let dump = self.dump();
                let (iterator, bytes) = self.pick(&dump);
                command.push(iterator.to_string().into_bytes());
                command.push(bytes);
            }
            "BF.LOAD" => {
                let loads = Rc::clone(&self.loads);
                let mut data = self.pick(&loads);
                if self.chance(0.5) {
                    damage(&mut self.random, &mut data, &loads[0]);
                }
                command.push(data);
            }
            "BF.MERGE" | "BF.INTERSECT" => {
                let sources = 1 + self.below(4);
                command.push(sources.to_string().into_bytes());
                // Those of the classic kind are refused.
                let kind = usize::from(self.chance(0.2));
                if self.chance(0.1) {
                    command.extend((0..sources).map(|_| self.key_like(number)));
                } else {
                    if self.chance(0.8) {
                        command[1] = self.kin(kind);
                    }
                    command.extend((0..sources).map(|_| self.kin(kind)));
                }
                if name == "BF.MERGE" {
                    match self.below(12) {
                        0 => command.extend(words(&format!("ERROR {}", self.rate()))),
                        1..5 => command.push(b"OVERRIDE".to_vec()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        command
    }

    /// A command of the server that works on keys.
    fn of_keys(&mut self) -> Command {
        let mut command = Vec::new();
        let mut name = |words: &str| command.extend(words.split(' ').map(|word| word.as_bytes().to_vec()));
        match self.below(40) {
            0..8 => {
                name("RESTORE");
                command.push(self.key());
                command.push(self.pick(&["0", "0", "0", "900", "100000"]).into());
                command.push(self.payload());
                if self.chance(0.7) {
                    command.push(b"REPLACE".to_vec());
                }
            }
            8..11 => {
                name("COPY");
                command.extend([self.key(), self.key()]);
                if self.chance(0.3) {
                    command.extend(words(&format!("DB {}", self.below(2))));
                }
                if self.chance(0.7) {
                    command.push(b"REPLACE".to_vec());
                }
            }
            11..13 => {
                name(self.pick(&["RENAME", "RENAMENX"]));
                command.extend([self.key(), self.key()]);
            }
            13 => {
                name("MOVE");
                command.extend([self.key(), self.below(2).to_string().into_bytes()]);
            }
            14..20 => {
                name(self.pick(&["DEL", "UNLINK", "EXISTS", "TOUCH"]));
                command.push(self.key());
            }
            20..23 => {
                name(self.pick(&["EXPIRE", "PEXPIRE"]));
                command.push(self.key());
                command.push(self.pick(&["1", "100", "5", "2000", "-1"]).into());
            }
            23..25 => {
                name(self.pick(&["PERSIST", "TTL", "TYPE", "DUMP", "DUMP"]));
                command.push(self.key());
            }
            25..29 => {
                name(self.pick(&[
                    "OBJECT ENCODING",
                    "OBJECT IDLETIME",
                    "MEMORY USAGE",
                    "MEMORY USAGE",
                ]));
                command.push(self.key());
            }
            29..31 => {
                name("DEBUG DIGEST-VALUE");
                command.push(self.key());
            }
            31 => {
                name("DEBUG OBJECT");
                command.push(self.key());
            }
            32 => {
                name("SET");
                command.push(self.key());
                command.push(b"text".to_vec());
            }
            33 => name("SET text value"),
            34 => name("LPUSH list element"),
            35 => {
                name(self.pick(&["GET", "LLEN", "STRLEN", "LPOP"]));
                command.push(self.key());
            }
            36 => name("SCAN 0"),
            37 => name("RANDOMKEY"),
            38 => {
                name("WATCH");
                command.push(self.key());
            }
            _ => name("UNWATCH"),
        }
        command
    }

    /// A command to the server itself, which is never spoiled.
    fn of_the_server(&mut self) -> Command {
        match self.below(100) {
            0..25 => {
                let (option, values) = self.pick(&OPTIONS);
                let mut command = words(&format!("CONFIG SET {}", Server::option(option)));
                command.push(self.pick(values).into());
                command
            }
            25..28 => words(&format!("CONFIG GET {}", Server::option("*"))),
            28..48 => words(&format!("SELECT {}", self.below(2))),
            48..56 => words(self.pick(&["INFO bf", "INFO memory", "INFO", "INFO commandstats"])),
            56..66 => words(self.pick(&["HELLO 2", "HELLO 3"])),
            66..70 => words(self.pick(&["COMMAND INFO BF.ADD BF.MERGE", "COMMAND COUNT", "MODULE LIST"])),
            70..73 => words("COMMAND GETKEYS BF.MERGE a 2 b c"),
            73..78 => words(self.pick(&["MEMORY STATS", "MEMORY DOCTOR", "MEMORY PURGE"])),
            78..80 => words("SWAPDB 0 1"),
            80..84 => words(self.pick(&["CLIENT LIST", "CLIENT ID", "DBSIZE", "LASTSAVE"])),
            84..87 => words(self.pick(&["CONFIG SET activedefrag yes", "CONFIG SET activedefrag no"])),
            87..89 => words("SLOWLOG GET 5"),
            89..92 => {
                // Half of the time there is no limit.
                let limits = ["0", "0", "0", "10mb", "3mb", "1"];
                let policies = ["noeviction", "allkeys-lru", "volatile-ttl", "allkeys-random"];
                let (limit, policy) = (self.pick(&limits), self.pick(&policies));
                words(self.pick(&[
                    &format!("CONFIG SET maxmemory {limit}")[..],
                    &format!("CONFIG SET maxmemory-policy {policy}"),
                    "CONFIG SET maxmemory 0",
                ]))
            }
            _ => words("CONFIG SET maxmemory 0"),
        }
    }

    /// A command that takes the server a while. One command in a thousand is of this kind.
    fn rare(&mut self) -> Command {
        words(match self.below(24) {
            0..3 if self.reloads => "DEBUG RELOAD",
            0..4 => "BGSAVE",
            4..6 => "BGREWRITEAOF",
            6 => "FLUSHALL ASYNC",
            7 => "FLUSHALL",
            8 => "FLUSHDB ASYNC",
            9 => "SCRIPT FLUSH",
            10..12 => "SAVE",
            12 => "CONFIG SET maxmemory 1",
            _ => "DEBUG DIGEST",
        })
    }

    /// Some commands, done at once or not at all.
    fn transaction(&mut self) -> Vec<Command> {
        let mut commands = vec![words("MULTI")];
        for _ in 0..self.below(6) {
            let command = if self.chance(0.2) {
                self.script()
            } else {
                self.simple()
            };
            // Not all servers take these two there.
            if !command[0].eq_ignore_ascii_case(b"HELLO") && !command[0].eq_ignore_ascii_case(b"WATCH") {
                commands.push(command);
            }
        }
        commands.push(words(if self.chance(0.9) { "EXEC" } else { "DISCARD" }));
        commands
    }

    /// A command that a script gives; there are two scripts only, since a server keeps all.
    fn script(&mut self) -> Command {
        let mut command = words("EVAL");
        let scripts = [
            "return redis.pcall(unpack(ARGV))",
            "local r = redis.call(unpack(ARGV)); redis.pcall(unpack(ARGV)); return type(r)",
        ];
        command.push(self.pick(&scripts).into());
        command.push(b"1".to_vec());
        command.push(self.key());
        let mut asked = if self.chance(0.9) {
            self.of_the_module()
        } else {
            self.of_keys()
        };
        // A script's stack has room for some thousand values.
        asked.truncate(1000);
        command.extend(asked);
        command
    }

    fn dump(&mut self) -> Vec<Chunk> {
        let dumps = Rc::clone(&self.dumps);
        let (dump, other) = (self.pick(&dumps), self.pick(&dumps));
        if self.chance(0.5) {
            return dump;
        }
        mutated_dump(&mut self.random, dump, &other)
    }

    /// A filter in the place of what was there.
    fn anew(&mut self) -> Vec<Command> {
        let number = self.random.random_range(0..KEYS);
        let (key, with) = if self.chance(0.5) {
            let kind = number % KINDS.len();
            (self.kin(kind), KINDS[kind])
        } else {
            let key = format!("key{number}").into_bytes();
            (key, FAMILIES[number % FAMILIES.len()])
        };
        let name = self.pick(&["DEL", "UNLINK"]);
        let (mut reserve, mut fill) = (
            vec![b"BF.RESERVE".to_vec(), key.clone()],
            vec![b"BF.MADD".to_vec(), key.clone()],
        );
        reserve.extend(words(with));
        fill.extend(self.items());
        let mut commands = vec![vec![name.into(), key.clone()], reserve, fill];
        if self.chance(0.1) {
            let excepted = self.pick(&commands[2][2..]);
            commands.push(vec![b"BF.EXCEPT".to_vec(), key, excepted]);
        }
        commands
    }

    /// A filter as a tool brings it.
    fn copy_in_chunks(&mut self) -> Vec<Command> {
        let key = self.key();
        let mut commands = vec![vec![b"DEL".to_vec(), key.clone()]];
        commands.extend(self.dump().into_iter().map(|(iterator, bytes)| {
            vec![
                b"BF.LOADCHUNK".to_vec(),
                key.clone(),
                iterator.to_string().into_bytes(),
                bytes,
            ]
        }));
        commands
    }

    /// A name of the module, and anything after it.
    fn garbage(&mut self) -> Command {
        let mut command = vec![self.pick(&NAMES).0.as_bytes().to_vec()];
        if self.chance(0.95) {
            command.push(self.key());
        }
        let most = if self.chance(0.05) { 300 } else { 8 };
        command.extend((0..self.random.random_range(0..most)).map(|_| argument(&mut self.random)));
        command
    }

    /// Makes a right command nearly right. Its name stays, and what DEBUG is to do: it can end the server.
    fn spoil(&mut self, command: &mut Command) {
        let first = if command[0].eq_ignore_ascii_case(b"DEBUG") {
            2
        } else {
            1
        };
        for _ in 0..self.random.random_range(1..3) {
            if command.len() <= first {
                return;
            }
            let at = self.random.random_range(first..command.len());
            match self.below(8) {
                0..2 => command[at] = argument(&mut self.random),
                2 => drop(command.remove(at)),
                3 => command.insert(at, argument(&mut self.random)),
                4 => command.insert(at, command[at].clone()),
                5 => command.truncate(at),
                6 => {
                    let with = self.random.random_range(first..command.len());
                    command.swap(at, with);
                }
                _ => {
                    let mut word = std::mem::take(&mut command[at]);
                    damage(&mut self.random, &mut word, b"ITEMS\0\xff");
                    command[at] = word;
                }
            }
        }
        if self.chance(0.1) {
            command[0].make_ascii_lowercase();
        }
    }
}
