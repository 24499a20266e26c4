//! Filters with a window on replicas, in files, and after a failover: the same bits, whatever was written
//! how, and whatever the clocks say.

use std::fs;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::client::clock;
use crate::client::{Client, Reply, array, ok};
use crate::filters::{contents, same};
use crate::server::{Server, Setup, sample, seed, until};
use crate::support::aof::{as_commands, paths, propagated, rewrite, settled};
use crate::support::link::{UNUSUAL, in_step};
use crate::support::packed::Form;
use crate::support::windows::{SLICE, WINDOW, slices};

/// A replica that would make other filters by itself, or none.
fn other_settings() -> Setup {
    Server::with().module_args(
        "bf-layout classic bf-initial-size 9 bf-error-rate 0.2 bf-expansion-factor 0 bf-seed 5 \
         bf-max-filter-bytes 300",
    )
}

fn follow(replica: &Server, primary: &Server) {
    let line = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    replica.client().answers(&[(&line, ok())]);
}

fn count(server: &Server, stat: &str) -> u64 {
    server.client().stat("stats", stat).parse().unwrap()
}

// ---- One command ---------------------------------------------------------------------------------

/// A stream that repeats itself would fill the disk and the replicas' links; a replica with other settings or
/// another clock would make other slices; a transaction that is cut off at a file's end would cost what was
/// written later.
#[test]
fn one_command_says_what_changed_and_when() {
    let server = Server::with().module_args(UNUSUAL).append_only().start();
    let mut client = server.client();
    let begin = clock(&mut client) - 500_000;
    // `@5` is 5 ms after the beginning; `...` is the time of the server, or for an expiry a thousand seconds later.
    let table = [
        // Creations, with everything resolved.
        (
            "BF.RESERVE key 0.1 90 WINDOW 1000",
            "BF.INSERT key SPEC1:w:1e-1:90:3:77:0:1000:8:0",
        ),
        (
            "BF.RESERVE live 0.1 90 REFRESH SLICES 3 WINDOW 5 SEED 4 EXPANSION 2 EX 1000",
            "BF.INSERT live SPEC1:w:1e-1:90:2:4:...:5:3:1",
        ),
        ("BF.RESERVE key 0.1 90 WINDOW 1000 NX", ""),
        (
            "BF.INSERT made WINDOW 1000 ITEMS a b a",
            "BF.INSERT made {sized}:0:1000:8:0:... a b",
        ),
        (
            "BF.INSERT timed WINDOW 1000 PX 1000000 AT @0 ITEMS a",
            "BF.INSERT timed {sized}:...:1000:8:0:@0 a",
        ),
        (
            "BF.ADDPACKED packed WINDOW 5000 SLICES 4 ERROR 0.5 COUNT WIDTH 1 aba",
            "BF.ADDPACKED packed SPEC1:w:2.5e-1:50:3:77:0:5000:4:0:... WIDTH 1 ab",
        ),
        (
            "BF.ADDPACKED stamped WINDOW 1000 EXAT 4000000000 AT @0 LINES x\ny",
            "BF.ADDPACKED stamped {sized}:4000000000000:1000:8:0:@0 LINES x\ny",
        ),
        ("BF.INSERT none NOCREATE WINDOW 5 ITEMS a", ""),
        ("BF.ADDPACKED none WINDOW 5 LINES ''", ""),
        // Additions: what changed something, and the time of it.
        (
            "BF.INSERT key AT @0 ITEMS a b",
            "BF.INSERT key NOCREATE AT @0 ITEMS a b",
        ),
        (
            "BF.INSERT key CAPACITY 9 WINDOW 9 AT @5 ITEMS a c b c",
            "BF.INSERT key NOCREATE AT @5 ITEMS c",
        ),
        // Time does not go back before a slice's first item.
        (
            "BF.INSERT key AT @-50 ITEMS d",
            "BF.INSERT key NOCREATE AT @0 ITEMS d",
        ),
        ("BF.INSERT key AT @70 ITEMS a b c d", ""),
        (
            "BF.ADDPACKED key AT @80 LINES a\ne\nb\nf",
            "BF.ADDPACKED key NOCREATE AT @80 LINES e\nf",
        ),
        (
            "BF.ADDPACKED key PREFIXED COUNT AT @80 \u{1}\0\0\0g",
            "BF.ADDPACKED key NOCREATE AT @80 PREFIXED \u{1}\0\0\0g",
        ),
        ("BF.ADDPACKED key AT @90 WIDTH 1 abc", ""),
        ("BF.ADD key a", ""),
        ("BF.MADD key a b", ""),
        ("BF.ADD key h", "BF.INSERT key NOCREATE AT ... ITEMS h"),
        ("BF.MADD key a i b j i", "BF.INSERT key NOCREATE AT ... ITEMS i j"),
        (
            "BF.ADDPACKED key WIDTH 1 klm",
            "BF.ADDPACKED key NOCREATE AT ... WIDTH 1 klm",
        ),
        // Items that live on change something, although they are not new.
        (
            "BF.INSERT live AT @0 ITEMS a b",
            "BF.INSERT live NOCREATE AT @0 ITEMS a b",
        ),
        ("BF.INSERT live AT @0 ITEMS b a", ""),
        (
            "BF.INSERT live AT @2000 ITEMS a x a",
            "BF.INSERT live NOCREATE AT @2000 ITEMS a x",
        ),
        (
            "BF.ADDPACKED live COUNT AT @2000 LINES b\na",
            "BF.ADDPACKED live NOCREATE AT @2000 LINES b\n",
        ),
    ];
    let at = |word: &str| match word.strip_prefix('@') {
        Some(more) => (begin + more.parse::<i64>().unwrap()).to_string(),
        None => word.to_owned(),
    };
    let whole = |text: &str| {
        let text = text.replace("{sized}", "SPEC1:w:1.23456789e-2:50:3:77");
        text.split([' ', ':']).map(at).collect::<Vec<_>>()
    };
    let mut sent = 0;
    for (line, expected) in table {
        let dirty = client.stat("persistence", "rdb_changes_since_last_save");
        let from = clock(&mut client);
        client.run(&whole(line).join(" "));
        let to = clock(&mut client);
        let is_dirty = client.stat("persistence", "rdb_changes_since_last_save") != dirty;
        let commands = propagated(&server);
        assert_eq!(is_dirty, !expected.is_empty(), "{line}");
        assert_eq!(
            commands.len(),
            sent + usize::from(is_dirty),
            "{line}: {commands:?}"
        );
        if !is_dirty {
            continue;
        }
        let words = commands[sent].iter().flat_map(|word| word.split([' ', ':']));
        let mut words: Vec<_> = words.map(str::to_owned).collect();
        let expected = whole(expected);
        for (word, _) in words
            .iter_mut()
            .zip(&expected)
            .filter(|(_, expected)| *expected == "...")
        {
            let time: i64 = word.parse().unwrap();
            let is_now = [time, time - 1_000_000]
                .iter()
                .any(|time| (from..=to).contains(time));
            assert!(is_now, "{line}: {time}");
            *word = "...".to_owned();
        }
        assert_eq!(words, expected, "{line}");
        sent += 1;
    }
    if Server::version().at_least(7, 0) {
        let files = paths(&server).into_iter().map(|path| fs::read(path).unwrap());
        let file = String::from_utf8_lossy(&files.collect::<Vec<_>>().concat()).to_uppercase();
        assert!(!file.contains("MULTI") && !file.contains("EXPIRE"), "{file}");
    }
}

// ---- Everything at random ------------------------------------------------------------------------

/// The filters: a window, one that ends while the test runs, and one whose items live on.
const KINDS: [(&str, &str); 5] = [
    ("timed", "BF.RESERVE timed 0.01 200 WINDOW 1000 SLICES 10"),
    ("short", "BF.RESERVE short 0.001 100 WINDOW 1 SLICES 4 SEED 3"),
    ("live", "BF.RESERVE live 0.01 200 WINDOW 1000 SLICES 5 REFRESH"),
    ("long", "BF.RESERVE long 1e-6 1000 WINDOW 4294967295 SLICES 64"),
    ("plain", "BF.RESERVE plain 0.01 500"),
];
/// Keys that come and go.
const PASSING: [&str; 3] = ["p", "q", "r"];

/// Writes in a script or a function, some of which may fail.
const SCRIPT: &str = "redis.call('BF.ADD',KEYS[1],ARGV[1]);\
                      redis.pcall('BF.INSERT',KEYS[2],'WINDOW','9','CAPACITY','9','AT',ARGV[2],\
                      'ITEMS',ARGV[1],'x','y');\
                      redis.pcall('BF.ADDPACKED',KEYS[1],'LINES',ARGV[3]);\
                      return redis.call('BF.EXISTS',KEYS[1],ARGV[1])";

fn keys() -> Vec<&'static str> {
    KINDS.iter().map(|(key, _)| *key).chain(PASSING).collect()
}

struct Traffic {
    random: StdRng,
    client: Client,
}

impl Traffic {
    /// On a primary, which gets the filters.
    fn on(primary: &Server) -> Self {
        let mut client = primary.client();
        for (_, line) in KINDS {
            client.answers(&[(line, ok())]);
        }
        if Server::version().at_least(7, 0) {
            let library = format!(
                "#!lua name=lib\nredis.register_function('windows',function(KEYS,ARGV) {SCRIPT} end)"
            );
            assert_eq!(
                client.call(&["FUNCTION", "LOAD", "REPLACE", &library]).text(),
                "lib"
            );
        }
        let random = StdRng::seed_from_u64(seed());
        Self { random, client }
    }

    fn key(&mut self) -> &'static str {
        keys().choose(&mut self.random).unwrap()
    }

    /// When something is said to have happened: mostly nothing is said.
    fn at(&mut self) -> String {
        let now = clock(&mut self.client);
        let day = 86_400_000;
        match self.random.random_range(0..40) {
            0 => format!(" AT {}", now + self.random.random_range(-day..day)),
            1 => format!(
                " AT {}",
                [0, 1 << 62, now + 4_000_000][self.random.random_range(0..3)]
            ),
            2..10 => format!(" AT {}", now + self.random.random_range(-2 * WINDOW..0)),
            10..14 => format!(" AT {}", now + self.random.random_range(0..WINDOW)),
            _ => String::new(),
        }
    }

    fn items(&mut self) -> Vec<String> {
        let count = match self.random.random_range(0..10) {
            0 => 300,
            _ => self.random.random_range(1..20),
        };
        let range = if self.random.random_bool(0.5) { 60 } else { 20_000 };
        (0..count)
            .map(|_| self.random.random_range(0..range).to_string())
            .collect()
    }

    fn write(&mut self) -> Reply {
        let (key, at, items) = (self.key(), self.at(), self.items());
        let creation = [
            "",
            "",
            "",
            " NOCREATE",
            " WINDOW 1000 CAPACITY 90",
            " WINDOW 60 CAPACITY 12 SLICES 3 REFRESH",
            " WINDOW 2 REFRESH ERROR 0.001 EX 1000",
            " CAPACITY 50",
        ];
        let words = format!("{key}{}{at}", creation.choose(&mut self.random).unwrap());
        match self.random.random_range(0..12) {
            10..12 => self.client.over(&format!("BF.EXCEPT {key}"), &items),
            0 => self.client.run(&format!("BF.ADD {key} {}", items[0])),
            1 => self.client.over(&format!("BF.MADD {key}"), &items),
            2..7 => self.client.over(&format!("BF.INSERT {words} ITEMS"), &items),
            _ => {
                let form = [Form::Lines, Form::Prefixed, Form::Width(4)][self.random.random_range(0..3)];
                let items: Vec<_> = items.iter().map(|item| form.fit(item.as_bytes())).collect();
                let count = if self.random.random_bool(0.5) {
                    " COUNT"
                } else {
                    ""
                };
                let head = format!("BF.ADDPACKED {words} {}{count}", form.words());
                self.client.over(&head, &[form.pack(&items)])
            }
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..32) {
            30..32 => {
                let key = self.key();
                self.client.run(&format!("BF.RESET {key}"));
            }
            0 => {
                let passing = PASSING.choose(&mut self.random).unwrap();
                self.client.call(&["DEL", passing]);
            }
            1 => {
                let from = KINDS.choose(&mut self.random).unwrap().0;
                let to = PASSING.choose(&mut self.random).unwrap();
                self.client.call(&["COPY", from, to, "REPLACE"]);
            }
            2 => {
                let from = KINDS.choose(&mut self.random).unwrap().0;
                let payload = self.client.dump(from);
                let to = PASSING.choose(&mut self.random).unwrap();
                let restore = [&b"RESTORE"[..], to.as_bytes(), b"0", payload.bytes(), b"REPLACE"];
                assert_eq!(self.client.call(&restore), ok());
            }
            3 => {
                // A dump in chunks, with an addition in the middle.
                let from = KINDS.choose(&mut self.random).unwrap().0;
                let chunks = crate::support::chunks::scandump(&mut self.client, from);
                self.client.run("DEL p");
                for (iterator, bytes) in chunks {
                    let iterator = iterator.to_string();
                    self.client
                        .call(&[&b"BF.LOADCHUNK"[..], b"p", iterator.as_bytes(), &bytes]);
                    if self.random.random_bool(0.3) {
                        self.client.run("BF.MADD p in the middle");
                    }
                }
            }
            4..=5 => {
                self.client.answers(&[("MULTI", ok())]);
                let count = self.random.random_range(1..6);
                let at = self.key();
                for _ in 0..count {
                    let item = self.random.random_range(0..500);
                    self.client.run(&format!("BF.ADD {at} {item}"));
                }
                assert_eq!(self.client.run("EXEC").elements().len(), count);
            }
            6..=7 => {
                let is_function = Server::version().at_least(7, 0) && self.random.random_bool(0.5);
                let head = if is_function {
                    ["FCALL", "windows"]
                } else {
                    ["EVAL", SCRIPT]
                };
                let (one, other) = (self.key(), self.key());
                let (item, lines) = (self.items().swap_remove(0), self.items().join("\n"));
                let at = clock(&mut self.client) - self.random.random_range(0..WINDOW);
                let at = at.to_string();
                self.client
                    .call(&[&head[..], &["2", one, other, &item, &at, &lines]].concat());
            }
            _ => {
                self.write();
            }
        }
    }

    fn steps(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }
}

/// A replica would answer otherwise than its primary did after a failover, and so would a server that starts
/// on its own file: with false negatives, or with items that should be forgotten.
#[test]
fn replicas_and_files_follow_windows() {
    let mut primary = as_commands()
        .module_args(UNUSUAL)
        .config("repl-backlog-size", "64mb")
        .start();
    let early = other_settings().replica_of(&primary).start();
    let chained = other_settings().replica_of(&early).start();
    in_step(&primary, &early);
    in_step(&early, &chained);
    let mut traffic = Traffic::on(&primary);
    let steps = sample(250);
    traffic.steps(steps);
    // A link that is cut, and taken up again where it was.
    let (full, partial) = (count(&primary, "sync_full"), count(&primary, "sync_partial_ok"));
    traffic.client.run("CLIENT KILL TYPE replica");
    traffic.steps(steps);
    until("the link is taken up", || {
        count(&primary, "sync_partial_ok") > partial
    });
    assert_eq!(count(&primary, "sync_full"), full, "it does not start over");
    // A full copy in the middle, to a replica with a file of its own.
    let mut late = as_commands()
        .module_args("bf-layout classic")
        .replica_of(&primary)
        .start();
    in_step(&primary, &late);
    settled(&late);
    traffic.steps(steps);
    let keys = keys();
    for (replica, above, what) in [
        (&early, &primary, "a replica"),
        (&chained, &early, "a replica's replica"),
        (&late, &primary, "a late replica"),
    ] {
        in_step(above, replica);
        same(&primary, replica, &keys, what);
        for text in ["and not here:", "it was missing when", "sending an error"] {
            assert!(!replica.log().contains(text), "{what}: {}", replica.log());
        }
    }

    // Every file.
    let expected = contents(&mut traffic.client, &keys);
    let is_same = |server: &Server, what: &str| {
        for (one, other) in contents(&mut server.client(), &keys).iter().zip(&expected) {
            assert!(one == other, "{what}: {one:?} and {other:?}");
        }
    };
    late.client().answers(&[("DEBUG LOADAOF", ok())]);
    is_same(&late, "a replica's file, loaded again");
    late.kill9();
    is_same(&as_commands().dir(late.dir()).start(), "a replica's file");
    primary.client().answers(&[("DEBUG LOADAOF", ok())]);
    is_same(&primary, "its file, loaded again");
    primary.kill9();
    primary.revive();
    is_same(&primary, "its file");
    rewrite(&mut primary.client());
    primary.kill9();
    primary.revive();
    is_same(&primary, "its rewritten file");
    primary.client().answers(&[("SAVE", ok())]);
    primary.kill9();
    is_same(&Server::with().dir(primary.dir()).start(), "its RDB file");
}

/// After a failover the new primary would make slices that its replicas have not, or forget what the old one
/// took.
#[test]
fn a_replica_that_is_promoted_goes_on() {
    let mut primary = Server::with().module_args(UNUSUAL).start();
    let mut replica = Server::with().module_args(UNUSUAL).start();
    follow(&replica, &primary);
    in_step(&primary, &replica);
    let keys = keys();
    Traffic::on(&primary).steps(100);
    for round in 0..3 {
        in_step(&primary, &replica);
        let before = contents(&mut primary.client(), &keys);
        // Once by agreement, once by the death of the primary.
        if round == 1 {
            primary.kill9();
        }
        replica.client().answers(&[("REPLICAOF NO ONE", ok())]);
        assert!(contents(&mut replica.client(), &keys) == before, "round {round}");
        let mut traffic = Traffic {
            random: StdRng::seed_from_u64(seed() + round),
            client: replica.client(),
        };
        traffic.steps(40);
        if round == 1 {
            primary.revive();
        }
        follow(&primary, &replica);
        traffic.steps(40);
        in_step(&replica, &primary);
        same(&replica, &primary, &keys, "the old primary");
        std::mem::swap(&mut primary, &mut replica);
    }
}

// ---- Clocks --------------------------------------------------------------------------------------

/// Machines differ in time, by minutes if nobody looks: after a failover items would be lost, or the old
/// primary would have another filter than the new one.
#[test]
fn a_failover_to_another_clock_loses_nothing() {
    const HOUR: i64 = 3_600_000;
    let mut primary = Server::start();
    let mut replica = Server::with().replica_of(&primary).start();
    in_step(&primary, &replica);
    // Of windows that are longer than the clocks are apart, and of shorter ones.
    for (seconds, ahead) in [(7200, HOUR), (7200, -HOUR), (600, HOUR)] {
        let mut client = primary.client();
        let now = clock(&mut client);
        client.answers(&[
            ("FLUSHALL SYNC", ok()),
            (
                &format!("BF.RESERVE key 1e-9 1000 WINDOW {seconds} SLICES 8 SEED 1"),
                ok(),
            ),
        ]);
        // What the primary with that clock wrote in the last minutes.
        for minutes in [8, 5, 2, 0] {
            let line = format!(
                "BF.INSERT key AT {} ITEMS m{minutes}",
                now + ahead - minutes * 60_000
            );
            client.answers(&[(&line, array([1]))]);
        }
        in_step(&primary, &replica);
        same(&primary, &replica, &["key"], "before the failover");
        let context = format!("a window of {seconds} s, {ahead} ms ahead");
        let mut heir = replica.client();
        let found = array([1, 1, 1, 1]);
        assert_eq!(heir.run("BF.MEXISTS key m8 m5 m2 m0"), found, "{context}");
        heir.answers(&[("REPLICAOF NO ONE", ok()), ("BF.ADD key new", 1.into())]);
        assert_eq!(heir.run("BF.MEXISTS key m8 m5 m2 m0"), found, "{context}");
        heir.answers(&[("BF.MADD key new m0", array([0, 0])), ("BF.ADD key n2", 1.into())]);
        follow(&primary, &replica);
        in_step(&replica, &primary);
        same(&replica, &primary, &["key"], &context);
        heir.answers(&[("BF.ADD key n3", 1.into())]);
        in_step(&replica, &primary);
        same(&replica, &primary, &["key"], &context);
        if seconds == 600 {
            // The clock that was an hour ahead was wrong: all of it is of now.
            let now = clock(&mut heir);
            assert!(
                slices(&mut heir, "key").iter().all(|slice| slice.opens <= now),
                "{context}"
            );
        }
        std::mem::swap(&mut primary, &mut replica);
    }
}

/// A replica would answer what has expired until its primary gets a new item; or it would drop slices by itself,
/// and differ.
#[test]
fn a_replica_answers_by_its_own_clock_and_changes_nothing() {
    let primary = Server::start();
    let replica = Server::with().replica_of(&primary).start();
    in_step(&primary, &replica);
    let (mut client, mut follower) = (primary.client(), replica.client());
    let now = clock(&mut client);
    client.answers(&[
        ("BF.RESERVE key 1e-9 100 WINDOW 1000 SLICES 10 SEED 1", ok()),
        (
            &format!("BF.INSERT key AT {} ITEMS over", now - WINDOW - 2 * SLICE),
            array([1]),
        ),
        (
            &format!("BF.INSERT key AT {} ITEMS here", now - WINDOW / 2),
            array([1]),
        ),
    ]);
    in_step(&primary, &replica);
    let before = contents(&mut client, &["key"]);
    for client in [&mut client, &mut follower] {
        client.answers(&[
            ("BF.MEXISTS key over here", array([0, 1])),
            ("BF.EXISTSPACKED key LINES COUNT over\nhere", 1.into()),
            ("BF.CARD key", 1.into()),
        ]);
        assert_eq!(client.info("key", "Number of filters"), 1);
        assert_eq!(slices(client, "key").len(), 2);
        assert!(contents(client, &["key"]) == before);
    }
    client.answers(&[("BF.ADD key new", 1.into())]);
    in_step(&primary, &replica);
    same(&primary, &replica, &["key"], "after the next item");
    assert_eq!(slices(&mut follower, "key").len(), 2);
    let figures = |client: &mut Client| {
        ["filters", "windows", "layers", "bytes", "items", "layers_dropped"]
            .map(|name| client.stat("bf", &format!("bf_{name}")))
    };
    assert_eq!(figures(&mut follower), figures(&mut client));
    // A new copy of all brings no layer that is gone.
    let other = Server::with().replica_of(&primary).start();
    in_step(&primary, &other);
    same(&primary, &other, &["key"], "a full copy");
}

/// A server that was off for a day would answer what it should have forgotten; or it would have forgotten
/// everything, or count what it loads as of today.
#[test]
fn a_file_of_yesterday_is_of_yesterday() {
    const HOUR: i64 = 3_600_000;
    let mut server = as_commands().start();
    let mut client = server.client();
    let now = clock(&mut client);
    client.answers(&[
        ("BF.RESERVE day 1e-9 1000 WINDOW 86400 SLICES 24 SEED 1", ok()),
        (
            "BF.RESERVE live 1e-9 1000 WINDOW 86400 SLICES 24 REFRESH SEED 1",
            ok(),
        ),
    ]);
    let hours: Vec<i64> = (0..=50).rev().collect();
    for hour in &hours {
        let at = now - hour * HOUR - HOUR / 2;
        client.answers(&[
            (&format!("BF.INSERT day AT {at} ITEMS h{hour}"), array([1])),
            (&format!("BF.INSERT live AT {at} ITEMS h{hour}"), array([1])),
            (
                &format!("BF.INSERT live AT {at} ITEMS h50"),
                array([i64::from(*hour == 999)]),
            ),
        ]);
    }
    let check = |client: &mut Client, what: &str| {
        for hour in &hours {
            // A slice is an hour.
            let is_found = i64::from(*hour <= 24);
            if *hour != 24 {
                assert_eq!(
                    client.run(&format!("BF.EXISTS day h{hour}")),
                    is_found.into(),
                    "{what}: {hour} h"
                );
            }
        }
        client.answers(&[("BF.EXISTS live h50", 1.into()), ("BF.EXISTS live h49", 0.into())]);
    };
    let keys = ["day", "live"];
    let before = contents(&mut client, &keys);
    check(&mut client, "as it was written");
    for way in ["AOF", "rewritten AOF", "RDB"] {
        if way == "rewritten AOF" {
            rewrite(&mut server.client());
        }
        if way == "RDB" {
            server.client().answers(&[("SAVE", ok())]);
            let dir = server.dir().to_owned();
            server.kill9();
            let saved = Server::with().dir(&dir).start();
            assert!(contents(&mut saved.client(), &keys) == before, "{way}");
            check(&mut saved.client(), way);
            continue;
        }
        server.kill9();
        server.revive();
        assert!(contents(&mut server.client(), &keys) == before, "{way}");
        check(&mut server.client(), way);
    }
}

/// An RDB file that is loaded after a slice ended would bring back what was forgotten, or lose the rest.
#[test]
fn a_slice_ends_while_its_server_is_off() {
    let mut server = Server::start();
    let mut client = server.client();
    let now = clock(&mut client);
    // Over 700 ms from now.
    let end = now + 700;
    client.answers(&[
        ("BF.RESERVE key 1e-9 100 WINDOW 1000 SLICES 10 SEED 1", ok()),
        (
            &format!("BF.INSERT key AT {} ITEMS old", end - WINDOW - SLICE),
            array([1]),
        ),
        (
            &format!("BF.INSERT key AT {} ITEMS new", now - WINDOW / 2),
            array([1]),
        ),
        ("SAVE", ok()),
    ]);
    let before = contents(&mut client, &["key"]);
    server.kill9();
    server.revive();
    let mut client = server.client();
    assert!(contents(&mut client, &["key"]) == before);
    until("it is over", || {
        let from = clock(&mut client);
        let found = client.run("BF.MEXISTS key old new");
        let to = clock(&mut client);
        assert!(
            to >= end || found == array([1, 1]),
            "{from}..{to} and {end}: {found:?}"
        );
        assert!(
            from < end || found == array([0, 1]),
            "{from}..{to} and {end}: {found:?}"
        );
        from >= end
    });
    server.kill9();
    server.revive();
    let mut client = server.client();
    assert!(
        contents(&mut client, &["key"]) == before,
        "it is there, but is not found"
    );
    client.answers(&[
        ("BF.MEXISTS key old new", array([0, 1])),
        ("BF.CARD key", 1.into()),
        ("BF.ADD key more", 1.into()),
    ]);
    assert_eq!(slices(&mut client, "key").len(), 2, "it is gone");
}
