//! Filters for a time: NX, EX, PX, EXAT and PXAT, which a creation takes as SET does.

use std::fs;

use crate::client::clock;
use crate::client::{Client, Reply, WRONG_TYPE, array, error, ok};
use crate::server::{Server, Setup, until};
use crate::support::aof::{paths, propagated};
use crate::support::link::{UNUSUAL, in_step};

const MEMORY: &str = "ERR Insufficient memory to create filter";

/// A time that no test lives to see, in milliseconds.
const FAR: i64 = 4_000_000_000_123;

/// The three commands with options, the reply to each when it makes its filter, and how errors call it.
fn creations(key: &str, options: &str) -> [(String, Reply, &'static str); 3] {
    [
        (format!("BF.RESERVE {key} 0.01 100 {options}"), ok(), "bf.reserve"),
        (
            format!("BF.INSERT {key} {options} ITEMS a b"),
            array([1, 1]),
            "bf.insert",
        ),
        (
            format!("BF.ADDPACKED {key} {options} LINES COUNT a\nb"),
            2.into(),
            "bf.addpacked",
        ),
    ]
}

/// When the key expires: the earliest and the latest moment, which are one where the server tells it.
fn end(client: &mut Client, key: &str) -> (i64, i64) {
    if Server::version().at_least(7, 0) {
        let at = client.run(&format!("PEXPIRETIME {key}")).int();
        return (at, at);
    }
    let before = clock(client);
    let left = client.run(&format!("PTTL {key}")).int();
    // Without an end there is no time left.
    if left < 0 {
        return (left, left);
    }
    (before + left, clock(client) + left + 1)
}

/// Whether both keys may expire at the same moment.
fn end_alike(one: (i64, i64), other: (i64, i64)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

/// Everything that a client can learn about a filter but for its end.
fn contents(client: &mut Client, key: &str) -> [Reply; 3] {
    ["DEBUG DIGEST-VALUE", "DUMP", "BF.INFO"].map(|command| client.run(&format!("{command} {key}")))
}

/// Filters would stay for ever and fill the memory, or be gone while they are needed.
#[test]
fn a_filter_lives_as_long_as_was_asked() {
    let server = Server::start();
    let mut client = server.client();
    for (options, least) in [
        ("EX 1000", 1_000_000),
        ("ex 9000000000", 9_000_000_000_000),
        ("PX 1000500", 1_000_500),
        ("LAYOUT CLASSIC EX 1000 EXPANSION 4", 1_000_000),
        ("LAYOUT VALKEY EX 1000 TIGHTENING 0.25", 1_000_000),
        ("EXPANSION 0 SEED 7 EX 1000", 1_000_000),
    ] {
        for (line, reply, _) in creations("key", options) {
            let before = clock(&mut client);
            assert_eq!(client.run(&line), reply, "{line}");
            let after = clock(&mut client);
            let end = end(&mut client, "key");
            assert!(
                end_alike(end, (before + least, after + least)),
                "{line}: {end:?} and not {least} after {before}"
            );
            client.run("DEL key");
        }
    }
    for (options, expected) in [
        ("EXAT 4000000000", 4_000_000_000_000),
        ("PXAT 4000000000123", FAR),
        ("pxat 4000000000123 LAYOUT CLASSIC", FAR),
        ("EXAT 4000000000 LAYOUT VALKEY", 4_000_000_000_000),
        ("GROWING Exat 4000000000", 4_000_000_000_000),
        ("PXAT 9223372036854775807", i64::MAX),
    ] {
        for (line, reply, _) in creations("key", options) {
            assert_eq!(client.run(&line), reply, "{line}");
            if expected < i64::MAX {
                let end = end(&mut client, "key");
                assert!(end_alike(end, (expected, expected)), "{line}: {end:?}");
            }
            client.answers(&[("BF.ADD key c", 1.into()), ("DEL key", 1.into())]);
        }
    }
    for (line, end) in [
        ("BF.RESERVE key 0.01 100 NX", -1),
        ("BF.RESERVE key 0.01 100 NX Exat 4000000000", 4_000_000_000_000),
    ] {
        client.answers(&[(line, ok())]);
        assert!(end_alike(self::end(&mut client, "key"), (end, end)), "{line}");
        client.answers(&[("DEL key", 1.into())]);
    }
}

/// Two programs that make the same filter would have to tell an error from a failure; or one of them would
/// lose what the other one added.
#[test]
fn a_filter_is_made_once() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        client.answers(&[
            ("FLUSHALL", ok()),
            ("SET text value", ok()),
            ("BF.RESERVE key 0.01 100 NX", ok()),
        ]);
        client.run("BF.ADD key a");
        let before = contents(&mut client, "key");
        client.answers(&[
            ("BF.RESERVE key 0.5 7 NX", Reply::Null),
            ("BF.RESERVE key 0.5 7 nx EX 100 LAYOUT CLASSIC", Reply::Null),
            ("BF.RESERVE key 0.01 100 PXAT 1 NX", Reply::Null),
            ("BF.RESERVE key 0.01 100 EX 100", error("ERR item exists")),
            ("BF.RESERVE text 0.01 100 NX", error(WRONG_TYPE)),
            ("BF.RESERVE text 0.01 100 NX EX 5", error(WRONG_TYPE)),
            ("BF.INSERT text EX 5 ITEMS a", error(WRONG_TYPE)),
            ("BF.ADDPACKED text EX 5 LINES a", error(WRONG_TYPE)),
            ("PTTL key", (-1).into()),
            ("PTTL text", (-1).into()),
            ("GET text", Reply::Bulk(b"value".into())),
        ]);
        assert_eq!(contents(&mut client, "key"), before);
        // What is wrong is wrong, whether the key exists or not.
        client.refuses(
            "key",
            &[
                (
                    "BF.RESERVE key 0.01 0 NX",
                    "ERR capacity must be in the range [1, 1099511627776]",
                ),
                ("BF.RESERVE key 0.01 100 NX EX 1 nx", "ERR NX was given twice"),
                (
                    "BF.RESERVE key 0.01 100 NX EX 0",
                    "ERR invalid expire time in 'bf.reserve' command",
                ),
            ],
        );
    }
}

/// A filter in use would get another end with every add, or lose the one it has.
#[test]
fn a_filter_that_exists_keeps_its_end() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE lasting 0.01 100", ok()),
        ("BF.RESERVE ending 0.01 100 PXAT 4000000000123", ok()),
    ]);
    let (mut item, before) = (0, propagated(&server).len());
    for options in [
        "EX 5",
        "PX 5",
        "EXAT 1",
        "PXAT 1",
        "NOCREATE EX 5",
        "NOCREATE PXAT 1",
        "CAPACITY 7 EX 5 LAYOUT CLASSIC",
    ] {
        for key in ["lasting", "ending"] {
            item += 2;
            client.answers(&[
                (&format!("BF.INSERT {key} {options} ITEMS {item}"), array([1])),
                (
                    &format!("BF.ADDPACKED {key} COUNT {options} LINES {}", item + 1),
                    1.into(),
                ),
            ]);
        }
        client.answers(&[("PTTL lasting", (-1).into())]);
        let end = end(&mut client, "ending");
        assert!(end_alike(end, (FAR, FAR)), "{options}: {end:?}");
    }
    // Of these words nobody is told.
    for command in &propagated(&server)[before..] {
        let kept = ["BF.MADD", "BF.ADDPACKED"].contains(&&*command[0]) && command.len() <= 4;
        assert!(kept, "{command:?}");
    }
    for (line, ..) in &creations("missing", "NOCREATE EX 5")[1..] {
        client.answers(&[(line, error("ERR not found")), ("EXISTS missing", 0.into())]);
    }
    client.answers(&[
        ("BF.ADDPACKED missing EX 5 LINES ''", Reply::Bulk(Vec::new())),
        ("EXISTS missing", 0.into()),
    ]);
}

/// A replica, or a later start, would let the filter expire at another time than its primary, or would make
/// another one; a transaction that is cut off at the end of an append-only file would cost what was written
/// later.
#[test]
fn a_creation_with_its_end_is_one_command() {
    for layout in ["blocked", "classic"] {
        let server = Server::with()
            .module_args(&format!("bf-layout {layout} {UNUSUAL}"))
            .append_only()
            .start();
        let mut client = server.client();
        let [reserved, fixed, growing, seed] = match layout {
            "blocked" => ["r", "f", "g", "77"],
            _ => ["c", "n", "c", "0"],
        };
        // What RedisBloom stores for a filter that does not grow.
        let unused = if layout == "blocked" { 0 } else { 2 };
        let by_option = format!("SPEC1:{growing}:1.23456789e-2:50:3:{seed}:");
        let sized = format!("SPEC1:{reserved}:2.5e-1:70:3:{seed}:");
        for (line, expected) in [
            (
                "BF.RESERVE key 0.1 90 EX 1000",
                format!("BF.INSERT key SPEC1:{reserved}:1e-1:90:3:{seed}:"),
            ),
            (
                "BF.RESERVE key 0.1 90 PX 1000000 NX NONSCALING",
                format!("BF.INSERT key SPEC1:{fixed}:1e-1:90:{unused}:{seed}:"),
            ),
            (
                "BF.RESERVE key 0.1 90 EXAT 4000000000 EXPANSION 4",
                format!("BF.INSERT key SPEC1:{reserved}:1e-1:90:4:{seed}:"),
            ),
            (
                "BF.INSERT key EX 1000 ITEMS a b a",
                format!("BF.INSERT key {by_option} a b"),
            ),
            (
                "BF.INSERT key PXAT 4000000000123 ERROR 0.5 CAPACITY 70 ITEMS a",
                format!("BF.INSERT key {sized} a"),
            ),
            (
                "BF.ADDPACKED key EX 1000 WIDTH 1 COUNT aba",
                format!("BF.ADDPACKED key {by_option} WIDTH 1 ab"),
            ),
            (
                "BF.ADDPACKED key LINES ERROR 0.5 CAPACITY 70 EXAT 4000000000 a",
                format!("BF.ADDPACKED key {sized} LINES a"),
            ),
        ] {
            let earlier = propagated(&server).len();
            client.run(line);
            let commands = propagated(&server);
            assert_eq!(commands.len(), earlier + 1, "{line}: {commands:?}");
            let mut words = commands[earlier].clone();
            // The expiry is the token's last field.
            let at = words[2].rfind(':').unwrap() + 1;
            let time = words[2].split_off(at).parse().unwrap();
            assert_eq!(words.join(" "), expected, "{line}");
            let end = end(&mut client, "key");
            assert!(end_alike(end, (time, time)), "{line}: {time} and not {end:?}");
            client.answers(&[("DEL key", 1.into())]);
        }
        if Server::version().at_least(7, 0) {
            let files = paths(&server).into_iter().map(|path| fs::read(path).unwrap());
            let file = String::from_utf8_lossy(&files.collect::<Vec<_>>().concat()).to_uppercase();
            assert!(!file.contains("MULTI") && !file.contains("EXPIRE"), "{file}");
        }
    }
}

/// Keys with an expiry, and the add or the reservation that makes each.
const MADE: [(&str, &str); 14] = [
    ("reserved", "BF.RESERVE reserved 0.01 100 EX 1000"),
    ("own", "BF.RESERVE own 0.01 100 LAYOUT BLOCKED PX 1000000 GROWING"),
    ("classic", "BF.RESERVE classic 0.3 100 LAYOUT CLASSIC EX 1000"),
    (
        "fixed",
        "BF.RESERVE fixed 0.01 100 LAYOUT CLASSIC NONSCALING PXAT 4000000000123",
    ),
    ("EXPANSION", "BF.RESERVE EXPANSION 0.01 100 EXPANSION 0 EX 1000"),
    ("inserted", "BF.INSERT inserted EX 1000 ITEMS a b"),
    (
        "classic-inserted",
        "BF.INSERT classic-inserted LAYOUT CLASSIC NONSCALING EXPANSION 7 EX 1000 ITEMS a b",
    ),
    ("packed", "BF.ADDPACKED packed EXAT 4000000000 LINES a\nb"),
    (
        "classic-packed",
        "BF.ADDPACKED classic-packed LAYOUT CLASSIC CAPACITY 10 EX 1000 LINES a\nb",
    ),
    (
        "valkey",
        "BF.RESERVE valkey 1e-300 30 TIGHTENING 0.999 EXPANSION 32768 EX 1000",
    ),
    (
        "valkey-empty",
        "BF.INSERT valkey-empty LAYOUT VALKEY ERROR 0.3333333333333333 EX 1000",
    ),
    (
        "valkey-seeded",
        "BF.INSERT valkey-seeded SEED 0123456789abcdefghITEMS_*_$5_'\"\\ VALIDATESCALETO 1000 EX 1000 ITEMS a b a",
    ),
    (
        "valkey-fixed",
        "BF.RESERVE valkey-fixed 0.9 90 NONSCALING LAYOUT VALKEY EX 1000",
    ),
    (
        "valkey-packed",
        "BF.ADDPACKED valkey-packed TIGHTENING 0.1 ERROR 0.7 EX 1000 LINES a\nb",
    ),
];

/// The keys with their contents, and when they end.
type Snapshot = Vec<([Reply; 3], (i64, i64))>;

fn snapshot(client: &mut Client) -> Snapshot {
    MADE.iter()
        .map(|(key, _)| (contents(client, key), end(client, key)))
        .collect()
}

fn is_same(one: &Snapshot, other: &Snapshot, what: &str) {
    assert_eq!(one.len(), other.len());
    for (((key, line), one), other) in MADE.iter().zip(one).zip(other) {
        assert!(one.0 == other.0, "{key} has other contents {what}: {line}");
        assert!(
            end_alike(one.1, other.1),
            "{line} {what}: {:?}, {:?}",
            one.1,
            other.1
        );
    }
}

/// After a failover filters would be of another layout, or live on, or be gone too early; so after a restart,
/// on either kind of file.
#[test]
fn replicas_and_files_keep_the_end() {
    for (here, there) in [("classic", "blocked"), ("blocked", "classic")] {
        let with = |layout: &str| Server::with().module_args(&format!("bf-layout {layout}"));
        let as_commands = |setup: Setup| setup.append_only().config("aof-use-rdb-preamble", "no");
        let mut primary = as_commands(with(here)).start();
        let mut replica = as_commands(with(there)).replica_of(&primary).start();
        in_step(&primary, &replica);
        let mut client = primary.client();
        for (_, line) in MADE {
            let reply = client.run(line);
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
        for (key, _) in MADE {
            let items: Vec<_> = (0..80).map(|item| item.to_string()).collect();
            client.over(&format!("BF.MADD {key}"), &items);
        }
        in_step(&primary, &replica);
        let made = snapshot(&mut client);
        is_same(&made, &snapshot(&mut replica.client()), "on the replica");
        assert!(!replica.log().contains("sending an error"), "{}", replica.log());

        primary.kill9();
        primary.revive();
        is_same(&made, &snapshot(&mut primary.client()), "on its file");
        let mut follower = replica.client();
        follower.answers(&[("REPLICAOF NO ONE", ok())]);
        until("the replica has its first file", || {
            follower.stat("persistence", "aof_rewrite_in_progress") == "0"
        });
        replica.kill9();
        let mut replica = as_commands(with(here)).dir(replica.dir()).start();
        is_same(&made, &snapshot(&mut replica.client()), "on the replica's file");
        replica.client().answers(&[("SAVE", ok())]);
        replica.kill9();
        let saved = with(here).dir(replica.dir()).start();
        is_same(&made, &snapshot(&mut saved.client()), "on the RDB file");
    }
}

/// A filter whose time is over before it is made would live on where nobody ends it: on a replica, or after a
/// restart.
#[test]
fn what_ends_in_the_past_is_gone_at_once() {
    let mut primary = Server::with().append_only().start();
    let replica = Server::with().replica_of(&primary).start();
    in_step(&primary, &replica);
    let mut client = primary.client();
    // Nothing is deleted before somebody looks.
    client.answers(&[("DEBUG SET-ACTIVE-EXPIRE 0", ok())]);
    for (at, options) in [
        "EXAT 1",
        "PXAT 1",
        "LAYOUT CLASSIC PXAT 1600000000000",
        "LAYOUT VALKEY PXAT 1",
    ]
    .iter()
    .enumerate()
    {
        for (number, (line, reply, _)) in creations("key", options).into_iter().enumerate() {
            let key = format!("key{at}{number}");
            client.answers(&[
                (&line.replace("key", &key), reply.clone()),
                (&format!("EXISTS {key}"), 0.into()),
                // The second reply is that of a new filter too: the first filter is gone.
                (&line.replace("key", &key), reply),
                (&format!("BF.INFO {key}"), error("ERR not found")),
            ]);
            let last = line.replace("key", &format!("left{at}{number}"));
            assert!(!matches!(client.run(&last), Reply::Error(_)), "{last}");
        }
    }
    in_step(&primary, &replica);
    let mut follower = replica.client();
    for at in 0..4 {
        for number in 0..3 {
            // One that the primary looked at, and one that it did not look at.
            follower.answers(&[
                (&format!("EXISTS key{at}{number}"), 0.into()),
                (&format!("EXISTS left{at}{number}"), 0.into()),
            ]);
        }
    }
    // A filter takes the place of one that is over.
    client.answers(&[("BF.ADD left00 new", 1.into()), ("PTTL left00", (-1).into())]);
    in_step(&primary, &replica);
    assert_eq!(contents(&mut follower, "left00"), contents(&mut client, "left00"));

    client.answers(&[("DEBUG SET-ACTIVE-EXPIRE 1", ok())]);
    for server in [&primary, &replica] {
        until("the rest is deleted", || {
            server.client().run("DBSIZE") == 1.into()
        });
    }
    client.answers(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", ok()),
        ("BF.RESERVE over 0.01 100 PXAT 1", ok()),
        ("BF.INSERT over2 PXAT 1 ITEMS a", array([1])),
    ]);
    primary.kill9();
    primary.revive();
    let mut client = primary.client();
    client.answers(&[
        ("EXISTS over over2", 0.into()),
        ("BF.EXISTS left00 new", 1.into()),
        ("PTTL left00", (-1).into()),
    ]);
    until("they are deleted", || client.run("DBSIZE") == 1.into());
}

/// A filter for a day would be there tomorrow; or on one server only.
#[test]
fn when_its_time_is_over_a_filter_is_gone_everywhere() {
    let primary = Server::start();
    let replica = Server::with().replica_of(&primary).start();
    in_step(&primary, &replica);
    let (mut client, mut follower) = (primary.client(), replica.client());
    for (line, reply, _) in creations("key", "PX 100") {
        assert_eq!(client.run(&line), reply);
        until("it expires", || client.run("EXISTS key") == 0.into());
        client.answers(&[("BF.EXISTS key a", 0.into())]);
        until("it is deleted there", || follower.run("DBSIZE") == 0.into());
        // The next one starts anew, and says itself how long it stays.
        client.answers(&[("BF.INSERT key ITEMS a", array([1])), ("PTTL key", (-1).into())]);
        in_step(&primary, &replica);
        follower.answers(&[("PTTL key", (-1).into()), ("BF.CARD key", 1.into())]);
        client.run("DEL key");
        in_step(&primary, &replica);
    }
}

/// A script or a transaction would not have what a client has.
#[test]
fn scripts_and_transactions_have_the_words() {
    let primary = Server::with().append_only().start();
    let replica = Server::with()
        .module_args("bf-layout classic")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let mut client = primary.client();
    let reserve = "EVAL return{redis.call('BF.RESERVE',KEYS[1],'0.01','9','NX','PXAT',ARGV[1])} 1";
    let queued = || Reply::Simple("QUEUED".into());
    client.answers(&[
        (
            &format!("{reserve} script 4000000000123"),
            Reply::Array(vec![ok()]),
        ),
        (
            &format!("{reserve} script 5000000000000"),
            Reply::Array(vec![Reply::Null]),
        ),
        (
            "EVAL return(redis.call('BF.INSERT',KEYS[1],'PXAT','4000000000123','ITEMS','a')) 1 added",
            array([1]),
        ),
        ("MULTI", ok()),
        ("BF.RESERVE multi 0.01 100 NX PXAT 4000000000123", queued()),
        ("BF.RESERVE multi 0.01 100 NX PXAT 5000000000000", queued()),
        ("BF.ADDPACKED packed LINES COUNT PXAT 4000000000123 a", queued()),
        ("BF.RESERVE wrong 0.01 100 EX 0", queued()),
        (
            "EXEC",
            Reply::Array(vec![
                ok(),
                Reply::Null,
                1.into(),
                error("ERR invalid expire time in 'bf.reserve' command"),
            ]),
        ),
        ("EXISTS wrong", 0.into()),
    ]);
    in_step(&primary, &replica);
    let mut follower = replica.client();
    for key in ["script", "added", "multi", "packed"] {
        assert_eq!(contents(&mut follower, key), contents(&mut client, key), "{key}");
        for client in [&mut client, &mut follower] {
            let end = end(client, key);
            assert!(end_alike(end, (FAR, FAR)), "{key}: {end:?}");
        }
    }
}

/// A filter that was refused for lack of memory would leave an empty one behind, or a key with an expiry.
#[test]
fn a_refused_filter_leaves_no_key() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    for options in ["EX 100", "PXAT 4000000000123", "LAYOUT CLASSIC EX 100"] {
        let [(insert, ..), (packed, ..)] = [1, 2].map(|at| creations("key", options)[at].clone());
        client.refuses(
            "key",
            &[
                (&format!("BF.RESERVE key 1e-6 1099511627776 {options}"), MEMORY),
                (
                    &insert.replace("key", "key CAPACITY 1099511627776 ERROR 1e-6"),
                    MEMORY,
                ),
                (
                    &packed.replace("key", "key CAPACITY 1099511627776 ERROR 1e-6"),
                    MEMORY,
                ),
            ],
        );
    }
    client.run("CONFIG SET maxmemory 1");
    let full = "OOM command not allowed when used memory > 'maxmemory'.";
    for (line, ..) in creations("key", "EX 100") {
        client.answers(&[(&line, error(full))]);
    }
    client.run("CONFIG SET maxmemory 0");
    client.answers(&[("DBSIZE", 0.into())]);
    assert_eq!(propagated(&server), Vec::<Vec<String>>::new());
}
