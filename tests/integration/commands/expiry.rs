//! Filters for a time: NX, EX, PX, EXAT and PXAT, which a creation takes as SET does.

use crate::client::clock;
use crate::client::{Client, Reply, array, error, ok};
use crate::server::{Server, until};
use crate::support::aof::propagated;
use crate::support::link::in_step;

const MEMORY: &str = "ERR Insufficient memory to create filter";

/// A time that no test lives to see, in milliseconds.
const FAR: i64 = 4_000_000_000_123;

/// The three commands with options, and the reply to each when it makes its filter.
fn creations(key: &str, options: &str) -> [(String, Reply); 3] {
    [
        (format!("BF.RESERVE {key} 0.01 100 {options}"), ok()),
        (format!("BF.INSERT {key} {options} ITEMS a b"), array([1, 1])),
        (format!("BF.ADDPACKED {key} {options} LINES COUNT a\nb"), 2.into()),
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
        for (line, reply) in creations("key", options) {
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
        for (line, reply) in creations("key", options) {
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
        for (number, (line, reply)) in creations("key", options).into_iter().enumerate() {
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

/// A filter that was refused for lack of memory would leave an empty one behind, or a key with an expiry.
#[test]
fn a_refused_filter_leaves_no_key() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    for options in [
        "EX 100",
        "PXAT 4000000000123",
        "LAYOUT CLASSIC EX 100",
        "LAYOUT VALKEY EX 100",
    ] {
        let [(insert, _), (packed, _)] = [1, 2].map(|at| creations("key", options)[at].clone());
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
    for (line, _) in creations("key", "EX 100") {
        client.answers(&[(&line, error(full))]);
    }
    client.run("CONFIG SET maxmemory 0");
    client.answers(&[("DBSIZE", 0.into())]);
    assert_eq!(propagated(&server), Vec::<Vec<String>>::new());
}
