//! What travels to replicas and to the append-only file besides `tests/transcripts/propagation.txt`.

use serial_test::serial;

use crate::client::{Client, Reply, array, error, ok};
use crate::server::{Server, skip};
use crate::support::aof::{propagated, settled};
use crate::support::link::{UNUSUAL, in_step};
use crate::support::table::{WRITING, typical};

/// Whoever pipes an append-only file into another server, by `redis-cli --pipe`, would find other filters there.
#[test]
fn what_a_file_has_means_the_same_from_a_client() {
    let server = Server::with().module_args(UNUSUAL).append_only().start();
    let mut client = server.client();
    for line in [
        "BF.ADD added a",
        "BF.MADD many a b c",
        "BF.INSERT inserted CAPACITY 70 GROWING ITEMS a",
        "BF.INSERT usual ERROR 0.01 CAPACITY 100 GROWING EXPANSION 2 ITEMS a",
        "BF.RESERVE reserved 0.1 90",
        "BF.RESERVE fixed 0.1 90 NONSCALING PXAT 9000000000000",
        "BF.RESERVE window 0.1 90 WINDOW 1000",
        "BF.ADD window a",
        "BF.ADDPACKED packed LINES a",
        "BF.RESERVE classic 0.1 90 LAYOUT CLASSIC",
    ] {
        client.run(line);
    }
    let other = Server::with()
        .module_args("bf-layout classic bf-error-rate 0.2 bf-initial-size 9")
        .start();
    let mut of_other = other.client();
    for command in propagated(&server) {
        let reply = of_other.call(&command);
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
    }
    for key in client.run("KEYS *").elements() {
        let key = key.text();
        assert_eq!(of_other.dump(&key), client.dump(&key), "{key}");
    }
    assert_eq!(of_other.run("DBSIZE"), 9.into());
}

/// Tools that compare a replica with its primary would find differences where none are, or none at all.
#[test]
fn digests_tell_filters_apart() {
    let server = Server::start();
    let mut client = server.client();
    let digests: Vec<_> = [
        "SEED 1",
        "SEED 1",
        "SEED 2",
        "SEED 1 EXPANSION 3",
        "SEED 1 GROWING",
    ]
    .iter()
    .enumerate()
    .map(|(key, options)| {
        let key = key.to_string();
        client.run(&format!("BF.RESERVE {key} 0.01 100 {options}"));
        client.run(&format!("BF.MADD {key} a b"));
        client.call(&["DEBUG", "DIGEST-VALUE", &key])
    })
    .collect();
    assert_eq!(digests[0], digests[1]);
    for (at, digest) in digests.iter().enumerate().skip(1) {
        assert_eq!(
            digests[at + 1..].iter().filter(|&other| other == digest).count(),
            0,
            "{digests:?}"
        );
    }
    client.run("BF.ADD 0 c");
    assert_ne!(client.run("DEBUG DIGEST-VALUE 0"), digests[0]);
}

/// A replica would refuse the questions it is there for, or take writes that its primary does not know.
#[test]
fn replicas_answer_and_take_no_writes() {
    let primary = Server::start();
    let replica = Server::with().replica_of(&primary).start();
    primary.client().answers(&[("BF.ADD key item", 1.into())]);
    in_step(&primary, &replica);
    let read_only = "READONLY You can't write against a read only replica.";
    let mut client = replica.client();
    client.answers(&[
        ("BF.EXISTS key item", 1.into()),
        ("BF.MEXISTS key item other", array([1, 0])),
        (
            "BF.EXISTSPACKED key LINES other\nitem",
            Reply::Bulk(vec![0b0100_0000]),
        ),
        ("BF.CARD key", 1.into()),
    ]);
    assert_eq!(client.info("key", "Capacity"), 100);
    for command in WRITING {
        for key in ["key", "other"] {
            let before = client.dump(key);
            assert_eq!(
                client.call(&typical(command, key)),
                error(read_only),
                "{command} {key}"
            );
            assert_eq!(client.dump(key), before, "{command} {key}");
        }
    }
}

/// Nobody would learn that a replica has lost a filter, whose items then start anew there; or an operator would look for
/// a RedisBloom where the primary has this module.
#[test]
fn a_lost_filter_is_logged() {
    let lost = "it was missing when its primary added to it";
    for layout in ["blocked", "valkey"] {
        let primary = Server::with().module_args(&format!("bf-layout {layout}")).start();
        let replica = Server::with()
            .config("replica-read-only", "no")
            .replica_of(&primary)
            .start();
        in_step(&primary, &replica);
        let mut client = primary.client();
        for key in ["kept", "lost", "packed"] {
            client.answers(&[(&format!("BF.ADD {key} a"), 1.into())]);
        }
        in_step(&primary, &replica);
        replica.client().answers(&[("DEL lost packed", 2.into())]);
        client.answers(&[
            ("BF.ADD kept b", 1.into()),
            ("BF.ADD lost b", 1.into()),
            ("BF.ADDPACKED packed LINES COUNT b", 1.into()),
        ]);
        in_step(&primary, &replica);
        let log = replica.log();
        for line in [
            // What RedisBloom sends too.
            &format!(
                "key 'lost': {lost}: it is made as RedisBloom would make it, with this server's options\n"
            ),
            &format!("key 'packed': {lost}: it is made with this server's options\n"),
        ] {
            assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
        }
        assert!(!log.contains("key 'kept'"), "{log}");
        for key in ["lost", "packed"] {
            let found = replica.client().run(&format!("BF.MEXISTS {key} a b"));
            assert_eq!(found, array([0, 1]), "{key}");
        }
    }
}

/// Whoever moves from RedisBloom would have a line in the log for each of a million keys, or none that says what has to
/// be configured.
#[test]
fn keys_that_a_primary_like_redisbloom_never_made_are_logged_once() {
    let classic = || Server::with().module_args("bf-layout classic");
    let primary = classic().start();
    let replica = classic()
        .config("replica-read-only", "no")
        .replica_of(&primary)
        .start();
    let mut client = primary.client();
    for key in ["one", "two"] {
        client.answers(&[(&format!("BF.ADD {key} a"), 1.into())]);
    }
    in_step(&primary, &replica);
    replica.client().answers(&[("DEL one two", 2.into())]);
    client.answers(&[("BF.ADD one b", 1.into()), ("BF.ADD two b", 1.into())]);
    in_step(&primary, &replica);
    let log = replica.log();
    let line =
        "the primary adds to filters that it did not make by a command of their own, as RedisBloom does";
    assert_eq!(log.matches(line).count(), 1, "{log}");
    assert!(!log.contains("it was missing"), "{log}");
}

/// A window's first layer comes with its first item: where the machine has no memory for it, replicas and files
/// would be told of a command without items, and the primary alone keep an empty filter.
#[test]
#[serial(memory)]
fn a_window_without_memory_for_its_first_item_is_not_made() {
    let primary = Server::with().append_only().start();
    let mut client = primary.client();
    if primary.limit_addresses(200 << 20).is_none() {
        skip!("nobody can limit a process here");
    }
    // Two slices of more than 500 MB.
    let window = "WINDOW 60 SLICES 2 CAPACITY 1000000000";
    let refused = error("ERR Insufficient memory to create filter");
    client.answers(&[
        (&format!("BF.INSERT inserted {window} ITEMS a b"), refused.clone()),
        (&format!("BF.ADDPACKED packed {window} LINES a"), refused),
        ("EXISTS inserted packed", 0.into()),
    ]);
    assert_eq!(propagated(&primary), Vec::<Vec<String>>::new());
    // Nobody else tells the operator that the machine was the reason.
    assert!(
        primary.log().contains(" bytes of a Bloom filter"),
        "{}",
        primary.log()
    );
}

/// A replica without an append-only file describes no creation anew. It would not save what its primary sends, or a
/// file that it begins would have other filters than the primary has.
#[test]
fn a_replica_counts_creations_and_describes_them_for_its_file() {
    let primary = Server::with().module_args(UNUSUAL).start();
    let replica = Server::with()
        .config("aof-use-rdb-preamble", "no")
        .config("appendfsync", "always");
    let replica = replica.replica_of(&primary).start();
    in_step(&primary, &replica);
    let below = Server::with().replica_of(&replica).start();
    in_step(&replica, &below);
    let (mut client, mut of_replica) = (primary.client(), replica.client());
    let changes = |client: &mut Client| {
        let changes = client.stat("persistence", "rdb_changes_since_last_save");
        changes.parse::<u64>().unwrap()
    };
    for line in ["BF.ADD added item", "BF.RESERVE reserved 0.1 90"] {
        let before = changes(&mut of_replica);
        client.run(line);
        in_step(&primary, &replica);
        assert!(changes(&mut of_replica) > before, "{line}");
    }
    of_replica.answers(&[("CONFIG SET appendonly yes", ok())]);
    settled(&replica);
    client.run("BF.ADD later item");
    in_step(&primary, &replica);
    in_step(&replica, &below);
    let sent = propagated(&replica);
    let later = sent.iter().filter(|command| command[1] == "later");
    let later: Vec<_> = later.map(|command| command[2..].join(" ")).collect();
    assert_eq!(later, ["SPEC1:g:1.23456789e-2:50:3:77:0 item"]);
    for key in ["added", "reserved", "later"] {
        let dump = client.dump(key);
        assert_eq!(of_replica.dump(key), dump, "{key}");
        assert_eq!(below.client().dump(key), dump, "{key}");
    }
}
