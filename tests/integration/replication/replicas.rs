//! Replicas of another configuration stay bit for bit equal through everything that a primary does.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::client::{Client, Reply, ok};
use crate::server::{Server, Setup, sample, seed, skip, until};
use crate::support::aof::{rewrite, settled};
use crate::support::chunks::scandump;
use crate::support::link::in_step;
use crate::support::packed::Form;

/// Commands, or groups of them, that a test sends.
const STEPS: usize = 2400;

/// Steps between two events in the life of the replicas.
const EVENT_EVERY: usize = 100;

/// Few enough that every command meets keys that others made.
const KEYS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// How filters are made, apart from their items.
const SHAPES: [&str; 10] = [
    "0.01 50",
    "0.001 20 EXPANSION 1",
    "1e-9 100 GROWING SEED 7",
    "0.1 30 LAYOUT CLASSIC",
    "0.05 60 NONSCALING",
    "0.25 5 EXPANSION 4 LAYOUT CLASSIC",
    "0.5 1000",
    "0.01 8 NONSCALING LAYOUT CLASSIC",
    "0.01 30 LAYOUT VALKEY",
    "0.9 10 TIGHTENING 0.25 EXPANSION 3 SEED 7",
];

/// What KEYS[1] gets from a script: two additions; those to KEYS[2] may fail.
const SCRIPT: &str = "redis.call('BF.ADD',KEYS[1],ARGV[1]);redis.pcall('BF.MADD',KEYS[2],ARGV[1],ARGV[2]);\
                      redis.pcall('BF.ADDPACKED',KEYS[2],'LINES',ARGV[2]..'\\n'..ARGV[3]);\
                      return redis.call('BF.INSERT',KEYS[1],'ITEMS',ARGV[2],ARGV[3])";

/// A library with a function that does what the script does.
const LIBRARY: &str = "#!lua name=lib\nredis.register_function('add_all',function(KEYS,ARGV) \
                       redis.call('BF.ADD',KEYS[1],ARGV[1]);redis.pcall('BF.MADD',KEYS[2],ARGV[1],ARGV[2]) \
                       return redis.call('BF.CARD',KEYS[1]) end)";

/// Writes of every kind, at random.
struct Traffic {
    random: StdRng,
    client: Client,
}

impl Traffic {
    fn key(&mut self) -> &'static str {
        KEYS.choose(&mut self.random).unwrap()
    }

    /// Some items; most of them were added before.
    fn items(&mut self) -> Vec<String> {
        let count = self.random.random_range(1..40);
        (0..count)
            .map(|_| self.random.random_range(0..3000).to_string())
            .collect()
    }

    fn over(&mut self, head: &str) -> Reply {
        let items = self.items();
        self.client.over(head, &items)
    }

    fn step(&mut self) {
        let (key, other) = (self.key(), self.key());
        let shape = *SHAPES.choose(&mut self.random).unwrap();
        let number = self.random.random_range(0..3000);
        match self.random.random_range(0..30) {
            0..=3 => drop(self.client.run(&format!("BF.ADD {key} {number}"))),
            4..=8 => drop(self.over(&format!("BF.MADD {key}"))),
            9 => drop(self.over(&format!("BF.INSERT {key} ITEMS"))),
            10 => {
                let (rate, options) = shape.split_once(' ').unwrap();
                drop(self.over(&format!("BF.INSERT {key} ERROR {rate} CAPACITY {options} ITEMS")));
            }
            11..=12 => drop(self.client.run(&format!("BF.RESERVE {key} {shape}"))),
            13 => drop(self.client.run(&format!("DEL {key}"))),
            14 => drop(self.client.run(&format!("UNLINK {key}"))),
            15 => drop(self.client.run(&format!("PEXPIRE {key} {}", number / 30))),
            16 => drop(self.client.run(&format!("EXPIRE {key} {}", number % 3))),
            17 => drop(self.client.run(&format!("PERSIST {key}"))),
            18 => self.transaction(key, other),
            19 => {
                let items = [number, number + 1, number + 2].map(|item| item.to_string());
                let [a, b, c] = &items;
                self.client.call(&["EVAL", SCRIPT, "2", key, other, a, b, c]);
            }
            20 if Server::version().at_least(7, 0) => {
                let items = [number, number + 1].map(|item| item.to_string());
                self.client
                    .call(&["FCALL", "add_all", "2", key, other, &items[0], &items[1]]);
            }
            20 => drop(self.client.run(&format!("SET {key} text"))),
            21 => drop(self.client.run(&format!("COPY {key} {other} REPLACE"))),
            22 => drop(self.client.run(&format!("RENAME {key} {other}"))),
            23 => self.restore(key, other, number / 10),
            24 => self.copy_in_chunks(key, other),
            25..=27 => {
                let words = [
                    "",
                    "",
                    "COUNT ",
                    "NOCREATE ",
                    "GROWING SEED 9 ",
                    "NONSCALING CAPACITY 300 ",
                    "LAYOUT CLASSIC NONSCALING CAPACITY 99 COUNT ",
                ];
                let words = *words.choose(&mut self.random).unwrap();
                self.packed(key, words);
            }
            28 => {
                let (rate, options) = shape.split_once(' ').unwrap();
                self.packed(key, &format!("ERROR {rate} CAPACITY {options} "));
            }
            _ => self.fill_up(key),
        }
    }

    fn packed(&mut self, key: &str, options: &str) {
        let items = self.items();
        let form = *Form::ALL.choose(&mut self.random).unwrap();
        let items: Vec<_> = items.iter().map(|item| form.fit(item.as_bytes())).collect();
        let head = format!("BF.ADDPACKED {key} {options}{}", form.words());
        self.client.over(&head, &[form.pack(&items)]);
    }

    fn transaction(&mut self, key: &str, other: &str) {
        self.client.answers(&[("MULTI", ok())]);
        for head in [
            format!("BF.MADD {key}"),
            format!("BF.MADD {other}"),
            format!("BF.INSERT {key} ITEMS"),
        ] {
            assert_eq!(self.over(&head), Reply::Simple("QUEUED".into()));
        }
        assert_eq!(self.client.run("EXEC").elements().len(), 3);
    }

    fn restore(&mut self, from: &str, to: &str, ttl: usize) {
        let Reply::Bulk(payload) = self.client.dump(from) else {
            return;
        };
        let ttl = ttl.to_string();
        let restored = self.client.call(&[
            &b"RESTORE"[..],
            to.as_bytes(),
            ttl.as_bytes(),
            &payload,
            b"REPLACE",
        ]);
        assert_eq!(restored, ok());
    }

    /// A copy by chunks, of which some never arrive.
    fn copy_in_chunks(&mut self, from: &str, to: &str) {
        // Else it could expire between two questions.
        self.client.run(&format!("PERSIST {from}"));
        let kind = self.client.run(&format!("TYPE {from}")).text();
        if !["MBbloom--", "bloomfltr"].contains(&&*kind) || from == to {
            return;
        }
        let chunks = scandump(&mut self.client, from);
        self.client.run(&format!("DEL {to}"));
        for (at, (iterator, bytes)) in chunks.iter().enumerate() {
            if at > 0 && self.random.random_ratio(1, 4) {
                continue;
            }
            let iterator = iterator.to_string();
            let words = [&b"BF.LOADCHUNK"[..], to.as_bytes(), iterator.as_bytes(), bytes];
            assert_eq!(self.client.call(&words), ok());
        }
    }

    /// More items than a filter takes that does not grow: the reply ends with an error.
    fn fill_up(&mut self, key: &str) {
        self.client.run(&format!("DEL {key}"));
        self.client
            .answers(&[(&format!("BF.RESERVE {key} 0.01 5 NONSCALING"), ok())]);
        let items: Vec<_> = (0..9).map(|item| item.to_string()).collect();
        let reply = self.client.over(&format!("BF.MADD {key}"), &items);
        let last = &reply.elements()[reply.elements().len() - 1];
        assert_eq!(last, &Reply::Error("ERR non scaling filter is full".into()));
    }

    fn keep_everything(&mut self) {
        for key in KEYS {
            self.client.run(&format!("PERSIST {key}"));
            // Most keys may have expired by now. A key that is no filter stays what it is.
            self.client.run(&format!("BF.ADD {key} last"));
        }
    }
}

/// What a server has: each key with its type, digest and bytes.
fn contents(client: &mut Client) -> Vec<(&'static str, Reply, Reply, Reply)> {
    KEYS.map(|key| {
        let kind = client.run(&format!("TYPE {key}"));
        (
            key,
            kind,
            client.run(&format!("DEBUG DIGEST-VALUE {key}")),
            client.dump(key),
        )
    })
    .into()
}

/// Replicas whose own settings would make other filters, or none.
fn replica(number: usize, primary: &Server) -> Server {
    let setup = match number % 4 {
        0 => Server::with()
            .config("repl-diskless-load", "swapdb")
            .module_args("bf-initial-size 999 bf-seed 5"),
        1 => Server::with()
            .config("repl-diskless-load", "disabled")
            .config("appendonly", "yes")
            .module_args("bf-layout classic bf-error-rate 0.2"),
        2 => Server::with()
            .config("repl-diskless-load", "on-empty-db")
            .module_args("bf-max-filter-bytes 300 bf-expansion-factor 0"),
        _ => Server::with()
            .config("repl-diskless-load", "swapdb")
            .config("maxmemory", "2mb"),
    };
    setup.replica_of(primary).start()
}

/// How often something has happened to the primary's replicas.
fn count(primary: &Server, what: &str) -> u64 {
    primary.client().stat("stats", what).parse().unwrap()
}

fn linked(replica: &Server) {
    until("the replica has its primary's data", || {
        replica.client().stat("replication", "master_link_status") == "up"
    });
}

/// Random writes, while replicas come, lose their links, are left behind, and start over.
fn replicas_follow(setup: Setup) {
    let mut random = StdRng::seed_from_u64(seed());
    let mut primary = setup.config("repl-backlog-size", "64mb").start();
    let mut replicas: Vec<Server> = Vec::new();
    let mut traffic = Traffic {
        random: StdRng::seed_from_u64(random.random()),
        client: primary.client(),
    };
    if Server::version().at_least(7, 0) {
        let loaded = traffic.client.call(&["FUNCTION", "LOAD", LIBRARY]);
        assert_eq!(loaded.text(), "lib");
    }
    let steps = sample(STEPS);
    for step in 0..steps {
        traffic.step();
        if step % EVENT_EVERY > 0 {
            continue;
        }
        match step / EVENT_EVERY % 3 {
            0 if replicas.len() < 4 => replicas.push(replica(replicas.len(), &primary)),
            // A full synchronisation of a replica that has data of its own.
            0 => {
                let replica = &replicas[random.random_range(0..replicas.len())];
                linked(replica);
                let full = count(&primary, "sync_full");
                let mut client = replica.client();
                client.answers(&[("REPLICAOF NO ONE", ok())]);
                client.run("BF.MADD only-here a b c");
                client.answers(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.port()), ok())]);
                for _ in 0..EVENT_EVERY {
                    traffic.step();
                }
                until("a full synchronisation", || count(&primary, "sync_full") > full);
            }
            // Links that are cut, and taken up again where they were.
            1 => {
                replicas.iter().for_each(linked);
                let (full, partial) = (count(&primary, "sync_full"), count(&primary, "sync_partial_ok"));
                traffic.client.run("CLIENT KILL TYPE replica");
                for _ in 0..EVENT_EVERY {
                    traffic.step();
                }
                let expected = partial + replicas.len() as u64;
                until("the replicas take up their links", || {
                    count(&primary, "sync_partial_ok") >= expected
                });
                assert_eq!(count(&primary, "sync_full"), full, "no replica starts over");
            }
            // A replica that crashes and comes back empty, or with what its file had.
            _ => {
                let at = random.random_range(0..replicas.len());
                replicas[at].kill9();
                for _ in 0..EVENT_EVERY {
                    traffic.step();
                }
                replicas[at].revive();
            }
        }
    }
    traffic.keep_everything();
    let mut client = primary.client();
    let expected = contents(&mut client);
    let filters = expected
        .iter()
        .filter(|(_, kind, ..)| kind.text() == "MBbloom--")
        .count();
    assert!(filters > 1, "{filters} filters are left");
    for replica in &replicas {
        in_step(&primary, replica);
        assert!(contents(&mut replica.client()) == expected, "a replica differs");
        assert_eq!(replica.client().run("DBSIZE"), client.run("DBSIZE"));
        assert!(!replica.log().contains("and not here:"), "{}", replica.log());
    }
    assert_eq!(replicas.len(), 4);
    // The files that they wrote of it have the same.
    for server in replicas.iter_mut().chain([&mut primary]) {
        if server.client().stat("persistence", "aof_enabled") == "1" {
            settled(server);
            server.kill9();
            let mut alone = Server::with().append_only().dir(server.dir()).start();
            for what in ["a file", "a rewritten file"] {
                assert!(
                    contents(&mut alone.client()) == expected,
                    "{what} has other filters"
                );
                rewrite(&mut alone.client());
                alone.kill9();
                alone.revive();
            }
        }
    }
}

/// A replica would answer otherwise than its primary did, after whatever happened to the keys and the link.
#[test]
fn replicas_that_load_from_the_link_follow_everything() {
    replicas_follow(Server::with().config("repl-diskless-sync", "yes"));
}

/// A replica that loads its primary's data from a file would answer otherwise than its primary did.
#[test]
fn replicas_that_load_from_a_file_follow_everything() {
    replicas_follow(
        Server::with()
            .config("repl-diskless-sync", "no")
            .config("appendonly", "yes"),
    );
}

/// A replica that takes writes of its own, and answers while it loads, would never again have its primary's data: a
/// filter above its own limit would end each synchronisation, and the next one would begin.
#[test]
fn a_replica_that_answers_while_it_loads_has_no_limits() {
    if !Server::version().at_least(7, 0) {
        skip!("this server does not answer while it loads");
    }
    let primary = Server::with()
        .config("repl-diskless-sync", "yes")
        .config("repl-diskless-sync-delay", 0)
        .config("repl-backlog-size", "16kb")
        .start();
    let replica = Server::with()
        .config("repl-diskless-load", "swapdb")
        .config("replica-read-only", "no")
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    linked(&replica);
    let full = count(&primary, "sync_full");
    let mut client = primary.client();
    // All at once: before the replica comes back, what it has missed must be more than the primary keeps.
    client.run("MULTI");
    client.run("CLIENT KILL TYPE replica");
    client.run("BF.INSERT key CAPACITY 10000 ITEMS a b c");
    for _ in 0..10 {
        client.call(&["SET", "missed", &"x".repeat(100_000)]);
    }
    client.run("EXEC").elements();
    until("a full synchronisation", || count(&primary, "sync_full") > full);
    in_step(&primary, &replica);
    replica.client().answers(&[("BF.CARD key", 3.into())]);
    assert_eq!(contents(&mut replica.client()), contents(&mut client));
    let log = replica.log();
    assert!(!log.contains("was not loaded"), "{log}");
}
