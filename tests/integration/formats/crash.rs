//! What was answered is there after the process was killed at any moment, and damaged files are named as such.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::client::{Client, Reply, end, ok};
use crate::server::{Server, sample, seed, until};
use crate::support::aof;
use crate::support::chunks::scandump;
use crate::support::items::{numbered, present};

/// How often the server is killed.
const ROUNDS: usize = 30;

/// Clients that add at the same time, each to filters of its own.
const WRITERS: usize = 2;

/// What a writer's filters are; the last one is made by its first item.
const KINDS: [&str; 4] = [
    "BF.RESERVE {key} 0.01 100 EXPANSION 1",
    "BF.RESERVE {key} 1e-6 50",
    "BF.RESERVE {key} 0.01 20 LAYOUT CLASSIC",
    "",
];

/// A client that adds items until the server is gone, and remembers what was answered.
struct Writer {
    name: String,
    random: StdRng,
    next: usize,
    /// The items of each key that a reply was read for.
    answered: BTreeMap<String, Vec<Vec<u8>>>,
    /// How many of them were said to be new.
    new: BTreeMap<String, i64>,
}

impl Writer {
    fn new(number: usize, seed: u64) -> Self {
        Self {
            name: format!("writer{number}"),
            random: StdRng::seed_from_u64(seed.wrapping_add(number as u64)),
            next: 0,
            answered: BTreeMap::new(),
            new: BTreeMap::new(),
        }
    }

    fn key(&self, kind: usize) -> String {
        format!("{}:{kind}", self.name)
    }

    fn reserve(&self, client: &mut Client) {
        for (kind, line) in KINDS.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            client.answers(&[(&line.replace("{key}", &self.key(kind)), ok())]);
        }
    }

    /// Adds until there is no more answer; `progress` counts the answers.
    fn add_until_it_ends(&mut self, client: &mut Client, progress: &AtomicUsize) {
        while self.add_some(client).is_ok() {
            progress.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One command, or some in one go.
    fn add_some(&mut self, client: &mut Client) -> io::Result<()> {
        let kind = self.random.random_range(0..KINDS.len());
        // From time to time a filter that nobody made before.
        let key = match self.random.random_range(0..10) {
            0 => format!("{}:new:{}", self.name, self.next),
            _ => self.key(kind),
        };
        let (command, items, pipelined) = match self.random.random_range(0..4) {
            0 => ("BF.ADD", 1, 1),
            1 => ("BF.MADD", self.random.random_range(1..60), 1),
            2 => ("BF.INSERT", self.random.random_range(1..60), 1),
            _ => ("BF.ADD", 1, self.random.random_range(2..40)),
        };
        let batches: Vec<_> = (0..pipelined).map(|_| self.take(items)).collect();
        for batch in &batches {
            let mut words = vec![command.as_bytes(), key.as_bytes()];
            if command == "BF.INSERT" {
                words.push(b"ITEMS");
            }
            words.extend(batch.iter().map(Vec::as_slice));
            client.send(&words)?;
        }
        for batch in batches {
            let reply = client.receive()?;
            let added = match &reply {
                Reply::Int(added) => *added,
                several => several.elements().iter().map(Reply::int).sum(),
            };
            self.answered.entry(key.clone()).or_default().extend(batch);
            *self.new.entry(key.clone()).or_default() += added;
        }
        Ok(())
    }

    /// Items that were never tried before.
    fn take(&mut self, count: usize) -> Vec<Vec<u8>> {
        let items = numbered("item:", self.next, self.next + count);
        self.next += count;
        items
    }

    /// Every answer was the truth, and still is.
    fn check(&self, client: &mut Client, when: &str) {
        for (key, items) in &self.answered {
            let found = present(client, key, items).len();
            assert_eq!(found, items.len(), "{key} {when}");
            let items = client.call(&["BF.CARD", key]).int();
            assert!(
                items >= self.new[key],
                "{key} {when}: {items} items, and {} were new",
                self.new[key]
            );
        }
    }
}

/// What the server is doing besides when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Idle,
    Within(Task),
    After(Task),
}

/// What a second process does, with the filters as they were when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Save,
    Rewrite,
}

/// The moments of ten rounds, whose order is left to chance.
const MOMENTS: [Moment; 10] = [
    Moment::Idle,
    Moment::Within(Task::Save),
    Moment::Within(Task::Save),
    Moment::Within(Task::Save),
    Moment::Within(Task::Rewrite),
    Moment::Within(Task::Rewrite),
    Moment::Within(Task::Rewrite),
    Moment::After(Task::Save),
    Moment::After(Task::Rewrite),
    Moment::After(Task::Rewrite),
];

/// Milliseconds that a task takes at least when it is not to be done before the kill.
const SLOW: u64 = 400;

impl Task {
    fn start(self, client: &mut Client) {
        let (line, answer) = match self {
            Self::Save => ("BGSAVE", "Background saving started"),
            Self::Rewrite => ("BGREWRITEAOF", "Background append only file rewriting started"),
        };
        client.answers(&[(line, Reply::Simple(answer.into()))]);
    }

    fn is_running(self, client: &mut Client) -> bool {
        let name = match self {
            Self::Save => "rdb_bgsave_in_progress",
            Self::Rewrite => "aof_rewrite_in_progress",
        };
        client.stat("persistence", name) == "1"
    }

    /// Whether this process of the server has done it, and well.
    fn is_done(self, client: &mut Client) -> bool {
        let (status, seconds) = match self {
            Self::Save => ("rdb_last_bgsave_status", "rdb_last_bgsave_time_sec"),
            Self::Rewrite => ("aof_last_bgrewrite_status", "aof_last_rewrite_time_sec"),
        };
        !self.is_running(client)
            && client.stat("persistence", status) == "ok"
            && client.stat("persistence", seconds) != "-1"
    }
}

impl Moment {
    /// Brings the server there, and tells where it is then: on a busy machine a task may be done too early.
    fn reach(self, client: &mut Client, random: &mut StdRng) -> Self {
        match self {
            Self::Idle => self,
            Self::Within(task) => {
                // The server can be told to take its time over each key.
                let keys = client.run("DBSIZE").int().unsigned_abs();
                let delay = SLOW * 1000 / keys + 1;
                client.answers(&[(&format!("CONFIG SET rdb-key-save-delay {delay}"), ok())]);
                task.start(client);
                thread::sleep(Duration::from_millis(random.random_range(0..SLOW / 4)));
                if task.is_running(client) {
                    self
                } else {
                    Self::After(task)
                }
            }
            Self::After(task) => {
                task.start(client);
                until("it is written", || task.is_done(client));
                self
            }
        }
    }
}

/// Connections of other threads. They end with this value, so that no thread waits for an answer any more.
struct Lines(Vec<TcpStream>);

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.iter().for_each(end);
    }
}

/// Items would be gone that a client was told of, after a crash of the process while it added, rewrote its
/// append-only file, or saved.
#[test]
fn nothing_answered_is_lost_when_the_process_is_killed() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut server = Server::with().append_only().start();
    let mut writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(number, seed)).collect();
    for writer in &writers {
        writer.reserve(&mut server.client());
    }
    let mut moments = Vec::new();
    let mut observed = BTreeMap::<_, usize>::new();
    for round in 0..sample(ROUNDS) {
        let wanted = moments.pop().unwrap_or_else(|| {
            moments = MOMENTS.to_vec();
            moments.shuffle(&mut random);
            moments.remove(0)
        });
        let preamble = if random.random() { "yes" } else { "no" };
        let setting = format!("CONFIG SET aof-use-rdb-preamble {preamble}");
        server.client().answers(&[(&setting, ok())]);
        let progress = AtomicUsize::new(0);
        let (least, pause) = (random.random_range(1..50), random.random_range(0..40));
        let moment = thread::scope(|scope| {
            // A process that was saving has inherited the connections, and keeps them open for some time.
            let mut lines = Lines(Vec::new());
            for writer in &mut writers {
                let (mut client, progress) = (server.client(), &progress);
                lines.0.push(client.line());
                scope.spawn(move || writer.add_until_it_ends(&mut client, progress));
            }
            until("something is answered", || {
                progress.load(Ordering::Relaxed) >= least
            });
            thread::sleep(Duration::from_millis(pause));
            let moment = wanted.reach(&mut server.client(), &mut random);
            server.kill9();
            moment
        });
        *observed.entry(moment).or_default() += 1;
        server.revive();
        for writer in &writers {
            writer.check(
                &mut server.client(),
                &format!("after round {round}, killed {moment:?}, preamble {preamble}"),
            );
        }
    }
    eprintln!("killed: {observed:?}");
    for (moment, least) in [
        (Moment::Within(Task::Save), 3),
        (Moment::Within(Task::Rewrite), 3),
        (Moment::After(Task::Rewrite), 3),
    ] {
        let times = observed.get(&moment).copied().unwrap_or_default();
        assert!(times >= least, "killed {moment:?} {times} times only");
    }
}

/// The append-only file that is written to.
fn open_file(server: &Server) -> PathBuf {
    let mut files = aof::paths(server);
    files.retain(|path| !path.to_string_lossy().ends_with(".base.rdb"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Cuts a file to `length` bytes.
fn cut(path: &PathBuf, length: u64) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(length)
        .unwrap();
}

fn file_length(path: &PathBuf) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// A file that a power failure cut off would keep the server from starting, or give half of a command's items,
/// or a filter with none of the items that created it.
#[test]
fn a_cut_append_only_file_gives_what_is_whole_in_it() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut server = Server::with().append_only().start();
    let file = open_file(&server);
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 20 SEED 1", ok())]);
    // Where the file ends after each command, and what the filters are then.
    let state = |client: &mut Client| [client.dump("key"), client.dump("made")];
    let mut states = vec![(file_length(&file), state(&mut client))];
    for batch in 0..20 {
        client.over("BF.MADD key", &numbered("item", 3 * batch, 3 * batch + 3));
        states.push((file_length(&file), state(&mut client)));
    }
    client.over("BF.MADD made", &numbered("item", 0, 500));
    states.push((file_length(&file), state(&mut client)));
    server.kill9();
    let whole = fs::read(&file).unwrap();
    assert_eq!(whole.len() as u64, states[states.len() - 1].0);

    let middle_of = |range: Range<u64>, random: &mut StdRng| random.random_range(range.start + 1..range.end);
    let mut cuts: Vec<_> = (0..sample(4))
        .map(|_| {
            let last = random.random_range(1..states.len() - 1);
            middle_of(states[last - 1].0..states[last].0, &mut random)
        })
        .collect();
    // A creation with its items.
    let (before, after) = (states[states.len() - 2].0, states[states.len() - 1].0);
    cuts.extend((0..sample(4)).map(|_| middle_of(before..after, &mut random)));
    cuts.extend([before + 1, after - 1]);
    for length in cuts {
        fs::write(&file, &whole).unwrap();
        cut(&file, length);
        let refusing = Server::with()
            .append_only()
            .config("aof-load-truncated", "no")
            .dir(server.dir());
        let log = refusing
            .try_start()
            .err()
            .expect("it starts on a file that was cut");
        for text in [
            "Unexpected end of file reading the append only file",
            "Alternatively you can set the 'aof-load-truncated' configuration option to yes and restart the server.",
        ] {
            assert!(
                log.contains(text),
                "{text:?} is missing after {length} bytes:\n{log}"
            );
        }
        assert_no_crash(&log);

        let earlier = server.log().len();
        let mut loading = Server::with().append_only().dir(server.dir()).start();
        let (whole_commands, expected) = states.iter().rev().find(|(end, _)| *end <= length).unwrap();
        assert_eq!(&state(&mut loading.client()), expected, "after {length} bytes");
        // Redis 6.2 makes a transaction of everything that a module replicates, and keeps the beginning of it.
        let offset = file_length(&file);
        let cut_in_transaction = !Server::version().at_least(7, 0) && offset > *whole_commands;
        assert!(
            offset == *whole_commands || cut_in_transaction,
            "{offset} of {length} bytes are left"
        );
        let log = loading.log().split_off(earlier);
        let name = file.file_name().unwrap().to_string_lossy();
        let named = if Server::version().at_least(7, 0) {
            format!(" {name}")
        } else {
            String::new()
        };
        for text in [
            "!!! Warning: short read while loading the AOF file",
            &format!("!!! Truncating the AOF{named} at offset {offset} !!!"),
            &format!("AOF{named} loaded anyway because aof-load-truncated is enabled"),
        ] {
            assert!(
                log.contains(text),
                "{text:?} is missing after {length} bytes:\n{log}"
            );
        }

        // What is answered from then on is as safe as ever.
        if !cut_in_transaction {
            loading.client().answers(&[("BF.ADD later item", 1.into())]);
            loading.kill9();
            loading.revive();
            loading.client().answers(&[("BF.EXISTS later item", 1.into())]);
            assert_eq!(&state(&mut loading.client()), expected, "after {length} bytes");
        }
    }
}

/// The server ended by itself.
fn assert_no_crash(log: &str) {
    for text in ["BUG REPORT", "crashed by signal", "panicked", "Assertion"] {
        assert!(!log.contains(text), "{text:?}:\n{log}");
    }
}

/// A disk that alters bytes would bring back a filter that has forgotten items, or crash the server each time
/// that it starts, with no word about why.
#[test]
fn a_damaged_rdb_file_is_refused_by_name() {
    let mut random = StdRng::seed_from_u64(seed());
    for (layout, compression) in [
        ("BLOCKED", "no"),
        ("CLASSIC", "no"),
        ("BLOCKED", "yes"),
        ("CLASSIC", "yes"),
    ] {
        let setup = |checksum| {
            Server::with()
                .config("rdbcompression", compression)
                .config("rdbchecksum", checksum)
        };
        let mut server = setup("yes").start();
        let mut client = server.client();
        client.run(&format!("BF.RESERVE key 0.01 1000 LAYOUT {layout}"));
        client.over("BF.MADD key", &numbered("item", 0, 1500));
        client.answers(&[("SAVE", ok())]);
        let chunks = scandump(&mut client, "key");
        server.kill9();
        let file = server.dir().join("dump.rdb");
        let whole = fs::read(&file).unwrap();
        let start = whole.windows(3).position(|bytes| bytes == b"key").unwrap();
        let refused = |damaged: &[u8], checksum| {
            fs::write(&file, damaged).unwrap();
            let log = setup(checksum).dir(server.dir()).try_start().err();
            let log = log.expect("it starts on a damaged file");
            assert_no_crash(&log);
            log
        };
        // Anywhere in the filter: the checksum of the file, when nothing else, finds it.
        for _ in 0..sample(4) {
            let at = random.random_range(start + 3..whole.len() - 9);
            let mut damaged = whole.clone();
            damaged[at] ^= random.random_range(1..=255);
            refused(&damaged, "yes");
        }
        if compression == "yes" {
            continue;
        }
        // In the bits, where a blocked filter knows how many are set, so that no checksum is needed.
        let bits = &chunks[1].1;
        let start = whole
            .windows(bits.len())
            .position(|bytes| bytes == &bits[..])
            .unwrap();
        for _ in 0..sample(2) {
            let at = start + random.random_range(0..bits.len());
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << random.random_range(0..8);
            if layout == "CLASSIC" {
                let log = refused(&damaged, "yes");
                assert!(log.contains("Wrong RDB checksum expected"), "{log}");
                continue;
            }
            let log = refused(&damaged, "no");
            for text in [
                "a Bloom filter was not loaded: bad field: set bits",
                "The RDB file contains module data for the module ",
            ] {
                assert!(log.contains(text), "{text:?} is missing:\n{log}");
            }
        }
    }
}
