//! A storm: commands of every kind at random, valid, nearly valid and garbage, in long pipelines over RESP2 and
//! RESP3. Each gets one reply, the server lives, and when all is deleted its memory is where it was.
//!
//! A storm has rounds. After each the server is calmed: everything is deleted, no client is left but the one that
//! asks, nothing is at work in the background. What it holds then after the first rounds, which warm it up, is what
//! it may hold after each other one. A leak grows from round to round.
//!
//! `make storm` is a long one; it leaves its record in `.build/storm`. `BLOOM_TEST_SEED` repeats the commands of a
//! run. (Not their outcome to the last bit: what expires does so by the clock.)

mod commands;
mod record;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use crate::client::{Client, Reply, ok, wire};
use crate::server::{Server, Version, sample, seed, until};
use crate::support::aof::is_idle;
pub use commands::load_data;
use commands::{Command, Commands};
use record::Record;

/// Commands of a short storm, in each of its rounds.
const SHORT: usize = 15_000;
/// Commands of a long one, unless `BLOOM_TEST_COMMANDS` says otherwise.
const LONG: usize = 10_000_000;
/// So many are on their way at once on a connection.
const PIPELINE: usize = 100;
/// How much more than after the warm-up the server may hold.
const TOLERANCE: f64 = 1.02;
/// How much more resident memory the server may have than after the warm-up. It includes the allocator's tables of
/// all addresses that it was ever given, and these grow by the server's own doing: for a string of a damaged payload
/// it first requests as much as the payload claims, up to 15 TB in a storm. 65 such payloads made a server without
/// modules 2.2 % larger; as many other commands made it 0.6 % larger. Memory outside of these tables is compared with
/// [`TOLERANCE`].
const RESIDENT_TOLERANCE: f64 = 1.05;
/// More than the filters of all keys may take together, and what the server needs besides. Memory for a string as above
/// counts as used, but is given back before the payload is refused.
const MOST: i64 = 1 << 30;
/// How often a long storm is recorded in each round.
const SAMPLES: usize = 50;

/// The size of a storm: its rounds and commands.
struct Plan {
    rounds: usize,
    /// The first rounds, as many as this, warm the server up.
    warm_up: usize,
    /// Commands of each round.
    commands: usize,
    /// Whether what the system counts as resident must be back too. A short storm is no measure of that.
    resident: bool,
    /// Where its record goes.
    record: Option<PathBuf>,
}

/// What the server holds when it is calm.
#[derive(Clone, Copy, Debug)]
struct Held {
    used: i64,
    resident: u64,
    /// In pages that hold something, as jemalloc tells: what was freed in pieces is in it too. No other allocator does.
    active: Option<u64>,
}

impl Held {
    /// The more of each.
    fn most(self, other: Self) -> Self {
        Self {
            used: self.used.max(other.used),
            resident: self.resident.max(other.resident),
            active: self.active.max(other.active),
        }
    }
}

/// A server in a storm.
struct Storm {
    server: Server,
    commands: Commands,
    record: Record,
    /// How often each command of the module came alone, outside of transactions and scripts, and how often it was no
    /// error.
    taken: BTreeMap<Vec<u8>, (usize, usize)>,
}

/// Somebody who may send commands could take the server down, or take its memory bit by bit.
#[test]
fn a_storm_of_commands_leaves_nothing_behind() {
    storm(&Plan {
        rounds: 3,
        warm_up: 1,
        commands: sample(SHORT),
        resident: false,
        record: None,
    });
}

/// A server that runs for long could be taken down, or lose its memory bit by bit.
#[test]
#[ignore = "it takes minutes: make storm"]
fn a_long_storm_leaves_nothing_behind() {
    let commands = std::env::var("BLOOM_TEST_COMMANDS").map_or(LONG, |text| text.parse().unwrap());
    let (rounds, warm_up) = (10, 3);
    storm(&Plan {
        rounds: warm_up + rounds,
        warm_up,
        commands: commands / rounds,
        resident: true,
        record: std::env::var_os("BLOOM_TEST_RECORD").map(PathBuf::from),
    });
}

fn storm(plan: &Plan) {
    let seed = seed();
    let server = Server::with()
        .module_args("bf-max-filter-bytes 1mb")
        .config("appendonly", "yes")
        .config("appendfsync", "no")
        .config("auto-aof-rewrite-percentage", 0)
        .config("rdbcompression", "no")
        .config("slowlog-log-slower-than", 5000)
        // Freed memory that a thread keeps for itself counts as used, and grows for a million commands. (The servers' own
        // jemalloc has a prefix before its names.)
        .environment("JE_MALLOC_CONF", "tcache:false")
        .environment("MALLOC_CONF", "tcache:false")
        .start();
    let mut client = server.client();
    let commands = Commands::new(seed, &mut client);
    let record = Record::begin(&mut client, plan.warm_up);
    if plan.record.is_none() {
        // For each command that is called for the first time, in whichever round, it would keep 24 KiB. Servers before
        // 7.0 have none of that, and answer with an error. A record tells of latencies, and has a longer warm-up.
        client.run("CONFIG SET latency-tracking no");
    }
    drop(client);
    let mut storm = Storm {
        server,
        commands,
        record,
        taken: BTreeMap::new(),
    };
    let mut warm: Option<Held> = None;
    let mut last = Vec::new();
    for round in 0..plan.rounds {
        storm.commands.reloads = round % 2 == 1;
        storm.rage(plan);
        let limit = warm.filter(|_| round >= plan.warm_up);
        let held = storm.calm(limit.map(|warm| (warm.used as f64 * TOLERANCE) as i64));
        storm.record.calm(round, held);
        if round < plan.warm_up {
            warm = Some(warm.map_or(held, |warm| warm.most(held)));
        } else {
            last.push(held);
        }
    }
    let Storm {
        server,
        record,
        taken,
        ..
    } = storm;
    assert_eq!(taken.len(), 20, "not every command came: {:?}", taken.keys());
    for (command, (calls, taken)) in taken {
        let of = match &command[..] {
            b"BF.MERGE" | b"BF.INTERSECT" => 5,
            _ => 50,
        };
        assert!(
            calls < 100 || taken * of > calls,
            "hardly any {} did anything: {taken} of {calls}",
            command.escape_ascii()
        );
    }
    let version = server.client().stat("server", "redis_version");
    let text = record.end(&mut server.client(), &version, seed, plan.record.as_deref());
    eprintln!("{text}");
    assert!(server.is_alive());
    assert!(!server.log().contains("BUG REPORT"));
    // Redis 7.4 forgets a script engine at each DEBUG RELOAD, also without modules: 270 KB that it does not count as
    // used.
    let forgets = matches!(
        Server::version(),
        Version {
            valkey: false,
            major: 7,
            minor: 4,
            ..
        }
    );
    // Allocators other than jemalloc give back only what they have at the end.
    if let Some(warm) = warm.filter(|warm| plan.resident && !forgets && warm.active.is_some()) {
        let active = |held: &Held| held.active.unwrap();
        stays("in pages in use", active(&warm), TOLERANCE, &last, active);
        stays("resident", warm.resident, RESIDENT_TOLERANCE, &last, |held| {
            held.resident
        });
    }
}

/// Pages of an allocator come and go: what was never less in the last rounds than the most in the warm-up is a leak.
fn stays(what: &str, early: u64, tolerance: f64, rounds: &[Held], of: impl Fn(&Held) -> u64) {
    let late = rounds.iter().rev().take(3).map(of).min().unwrap();
    assert!(
        late as f64 <= early as f64 * tolerance,
        "{what}: {early} bytes at first, then {late}"
    );
}

impl Storm {
    /// One round.
    fn rage(&mut self, plan: &Plan) {
        let connect = [Server::client, Server::client3];
        let mut clients: VecDeque<Client> = (0..4).map(|number| connect[number % 2](&self.server)).collect();
        let every = (plan.commands / SAMPLES).max(PIPELINE);
        let (mut sent, mut next) = (0, every);
        let mut batch = self.batch();
        while sent < plan.commands {
            let mut client = clients.pop_front().unwrap();
            let bytes: Vec<_> = batch.iter().flat_map(|command| wire(command)).collect();
            let echo = format!("after {sent}");
            let sending = client
                .send_bytes(&bytes)
                .and_then(|()| client.send(&["ECHO", &echo]))
                .and_then(|()| client.send(&["INFO", "memory"]));
            // While the server works.
            let following = self.batch();
            let answers: Result<Vec<_>, _> = sending.and_then(|()| {
                let replies = batch.iter().map(|_| client.receive());
                replies.collect()
            });
            let answers = answers.unwrap_or_else(|why| panic!("{why}, to one of\n{}", shown(&batch)));
            for (command, answer) in batch.iter().zip(&answers) {
                let is_queued = matches!(answer, Reply::Simple(text) if text == "QUEUED");
                if command[0].starts_with(b"BF.") && !is_queued {
                    let (calls, taken) = self.taken.entry(command[0].clone()).or_default();
                    *calls += 1;
                    *taken += usize::from(!matches!(answer, Reply::Error(_)));
                }
                if let Reply::Error(text) = answer {
                    assert!(!text.contains("internal error"), "{text} to {}", shown([command]));
                }
            }
            let echoed = client.receive().unwrap();
            let is_echo = matches!(&echoed, Reply::Bulk(text) if *text == echo.as_bytes());
            assert!(
                is_echo,
                "one reply too many, or too few: {echoed:?} for {echo:?} after\n{}",
                shown(&batch)
            );
            // At once: what was too large may be gone soon.
            let memory = client.receive().unwrap().text();
            let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
            let used: i64 = used.unwrap().parse().unwrap();
            assert!(
                used < MOST,
                "{used} bytes: a filter was above the limit after\n{}",
                shown(&batch)
            );
            sent += batch.len();
            batch = following;
            clients.push_back(client);
            if sent >= next {
                self.record.sample(&self.server, sent);
                next += every;
            }
        }
        self.record.commands += sent;
    }

    fn batch(&mut self) -> Vec<Command> {
        let mut batch = Vec::with_capacity(PIPELINE + 8);
        while batch.len() < PIPELINE {
            batch.append(&mut self.commands.next());
        }
        batch
    }

    /// Deletes everything and waits until nothing is at work; what the server holds then. It must come to hold no more
    /// than `limit`.
    fn calm(&mut self, limit: Option<i64>) -> Held {
        let server = &self.server;
        let mut client = server.client();
        client.answers(&[
            ("CONFIG SET maxmemory 0", ok()),
            ("CONFIG SET maxmemory-policy noeviction", ok()),
        ]);
        // Redis 6.2 cannot set a module's options.
        if Server::version().at_least(7, 0) {
            set_options(&mut client);
        }
        // Where the server cannot defragment this is an error.
        client.run("CONFIG SET activedefrag no");
        idle(&mut client);
        if self.commands.reloads {
            // What was appended is no whole account of such a round, and is replaced: here by commands alone.
            client.answers(&[("CONFIG SET aof-use-rdb-preamble no", ok())]);
            client.run("BGREWRITEAOF");
            idle(&mut client);
            client.answers(&[("CONFIG SET aof-use-rdb-preamble yes", ok())]);
        }
        replays(&mut client);
        client.answers(&[("FLUSHALL", ok()), ("SCRIPT FLUSH", ok())]);
        // The file that it appends to begins anew.
        client.run("BGREWRITEAOF");
        idle(&mut client);
        drop(client);

        let mut client = server.client();
        until("the server is calm", || {
            client.stat("clients", "connected_clients") == "1"
                && client.stat("memory", "lazyfree_pending_objects") == "0"
                && client.stat("bf", "bf_filters") == "0"
        });
        for figure in ["bf_layers", "bf_bytes", "bf_items", "bf_exceptions", "bf_windows"] {
            assert_eq!(client.stat("bf", figure), "0", "{figure} of no filter");
        }
        client.answers(&[("SLOWLOG RESET", ok()), ("MEMORY PURGE", ok())]);
        // The server's own buffers shrink little by little.
        let (mut used, mut rest) = (i64::MAX, 40);
        until(&format!("the server holds no more than {limit:?} bytes"), || {
            used = used.min(client.used_memory());
            rest -= i32::from(rest > 0);
            rest == 0 && limit.is_none_or(|limit| used <= limit)
        });
        client.answers(&[("MEMORY PURGE", ok())]);
        let statistics = client.run("MEMORY MALLOC-STATS").text();
        let sums = statistics.lines().find(|line| line.starts_with("Allocated: "));
        let active = sums.and_then(|sums| sums.split(", ").find_map(|sum| sum.strip_prefix("active: ")));
        let active = active.map(|bytes| bytes.parse().unwrap());
        Held {
            used,
            resident: server.resident(),
            active,
        }
    }
}

/// Sets the module's options as they are at first.
fn set_options(client: &mut Client) {
    for (option, value) in [
        ("error-rate", "0.01"),
        ("initial-size", "100"),
        ("expansion-factor", "2"),
        ("layout", "blocked"),
        ("seed", "1"),
        ("max-filter-bytes", "1mb"),
    ] {
        client.answers(&[(&format!("CONFIG SET {} {value}", Server::option(option)), ok())]);
    }
}

/// Waits until no child of the server is at work, or about to be.
fn idle(client: &mut Client) {
    until("no child is at work", || is_idle(client));
}

/// What the server appended to its file makes the data that it has.
fn replays(client: &mut Client) {
    let before = contents(client);
    client.answers(&[("SELECT 0", ok()), ("DEBUG LOADAOF", ok())]);
    let after = contents(client);
    let changed = before.iter().filter(|value| !after.contains(value));
    let changed: Vec<_> = changed
        .chain(after.iter().filter(|value| !before.contains(value)))
        .collect();
    assert!(
        changed.is_empty(),
        "the append-only file makes other data: {changed:#?}"
    );
}

/// Every key, which then has no end, with its database, its digest, and what BF.DEBUG says of it.
fn contents(client: &mut Client) -> Vec<(u32, Reply, Reply, Reply)> {
    let mut contents = Vec::new();
    for database in 0..3 {
        client.answers(&[(&format!("SELECT {database}"), ok())]);
        for key in client.run("KEYS *").elements() {
            client.call(&[b"PERSIST", key.bytes()]);
        }
        // Asked again: the end of a key may have come before it was its turn.
        let mut keys = client.run("KEYS *").elements().to_vec();
        keys.sort_by(|one, other| one.bytes().cmp(other.bytes()));
        for key in keys {
            let digest = client.call(&[&b"DEBUG"[..], b"DIGEST-VALUE", key.bytes()]);
            let layers = client.call(&[b"BF.DEBUG", key.bytes()]);
            contents.push((database, key, digest, layers));
        }
    }
    contents
}

/// Commands for a person, each a line.
fn shown<'a>(commands: impl IntoIterator<Item = &'a Command>) -> String {
    let mut text = String::new();
    for command in commands {
        for word in command.iter().take(20) {
            let beginning = &word[..word.len().min(100)];
            text += &format!("\"{}\" ", beginning.escape_ascii());
        }
        text += "\n";
    }
    text
}
