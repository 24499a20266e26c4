//! Filters as sets: what BF.MERGE, BF.INTERSECT and BF.RESET make of them, what is refused, who is told, and what
//! comes back from replicas and files.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok};
use crate::filters::contents;
use crate::filters::{figure, same};
use crate::server::{Server, sample, seed, skip, until};
use crate::support::aof::as_commands;
use crate::support::aof::{propagated, rewrite, settled};
use crate::support::chunks::{load, scandump};
use crate::support::items::{numbered, present};
use crate::support::link::in_step;
use crate::support::stored_valkey::STORED;

const NOT_FOUND: &str = "ERR not found";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const FEWER: &str = "ERR there are fewer sources than numkeys says";
const RANGE: &str = "ERR numkeys must be greater than 0";

/// How most filters here are reserved: a false positive would be a bug.
pub const PARAMETERS: &str = "1e-9 1000 SEED 1";

/// Makes a filter, if there are parameters, and adds a range of the numbered items.
pub fn make(client: &mut Client, key: &str, parameters: &str, from: usize, to: usize) {
    if !parameters.is_empty() {
        client.answers(&[(&format!("BF.RESERVE {key} {parameters}"), ok())]);
    }
    for some in numbered("item:", from, to).chunks(1000) {
        let added = client.over(&format!("BF.MADD {key}"), some);
        assert!(matches!(added, Reply::Array(_)), "{key}: {added:?}");
    }
}

/// Which of the first so many numbered items a filter has.
pub fn found(client: &mut Client, key: &str, items: usize) -> Vec<usize> {
    present(client, key, &numbered("item:", 0, items))
}

/// The bits of a filter, without its counts.
fn bits(client: &mut Client, key: &str) -> Vec<Vec<u8>> {
    let chunks = scandump(client, key);
    chunks.into_iter().skip(1).map(|(_, bytes)| bytes).collect()
}

// ---- BF.MERGE --------------------------------------------------------------------------------------

/// Workers that fill a filter each would have to send every item to one place: what they found apart would not be
/// what one of them had found. (How layers are united, and what is counted, is tested in the core.)
#[test]
fn a_merged_filter_is_the_one_that_got_all_items() {
    let server = Server::start();
    let mut client = server.client();
    for parameters in [PARAMETERS, "0.001 1000 NONSCALING SEED 1"] {
        client.answers(&[("FLUSHALL", ok())]);
        for (key, from, to) in [("a", 0, 300), ("b", 200, 500), ("c", 0, 0), ("all", 0, 500)] {
            make(&mut client, key, parameters, from, to);
        }
        client.answers(&[("BF.MERGE to 3 a b c", ok())]);
        assert_eq!(bits(&mut client, "to"), bits(&mut client, "all"), "{parameters}");
        // An estimate.
        let count = client.run("BF.CARD to").int();
        assert!((490..510).contains(&count), "{parameters}: {count}");
        // The sources are as they were, and the result is a filter like any other.
        assert_eq!(
            found(&mut client, "a", 500),
            (0..300).collect::<Vec<_>>(),
            "{parameters}"
        );
        make(&mut client, "to", "", 500, 900);
        assert_eq!(found(&mut client, "to", 900).len(), 900, "{parameters}");
    }
}

/// A count would be off although nothing was in two filters, or a filter with nothing in it would make it an estimate.
#[test]
fn a_count_is_exact_where_one_source_has_everything() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", PARAMETERS, 0, 700);
    make(&mut client, "empty", PARAMETERS, 0, 0);
    client.answers(&[
        ("BF.MERGE one 1 a", ok()),
        ("BF.MERGE two 2 empty a", ok()),
        ("BF.MERGE empty 2 a a", ok()),
    ]);
    let digest = client.run("DEBUG DIGEST-VALUE a");
    for key in ["one", "two", "empty"] {
        client.answers(&[(&format!("BF.CARD {key}"), 700.into())]);
        assert_eq!(client.run(&format!("DEBUG DIGEST-VALUE {key}")), digest, "{key}");
    }
}

/// A collected filter would lose what it had, or be gone at an end that was not its own, or never.
#[test]
fn the_destination_is_one_of_the_sources_unless_it_is_overridden() {
    let server = Server::start();
    let mut client = server.client();
    let remake = |client: &mut Client| {
        client.run("FLUSHALL");
        make(client, "a", PARAMETERS, 0, 100);
        make(client, "b", PARAMETERS, 100, 200);
        make(client, "to", PARAMETERS, 200, 300);
        client.answers(&[("EXPIRE to 1000", 1.into()), ("EXPIRE a 5000", 1.into())]);
    };
    let range = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
    for (line, has, keeps_end) in [
        ("BF.MERGE to 2 a b", range(0, 300), true),
        ("BF.MERGE to 3 a to b", range(0, 300), true),
        ("BF.MERGE to 3 a b b", range(0, 300), true),
        ("BF.MERGE to 1 to", range(200, 300), true),
        ("BF.MERGE to 2 to to", range(200, 300), true),
        ("BF.MERGE to 2 a b OVERRIDE", range(0, 200), false),
        ("BF.MERGE to 1 b override", range(100, 200), false),
        ("BF.MERGE to 2 b to OVERRIDE", range(100, 300), false),
        ("BF.MERGE to 1 to OVERRIDE", range(200, 300), false),
        ("BF.MERGE new 2 a b", range(0, 200), false),
        ("BF.MERGE new 1 a OVERRIDE", range(0, 100), false),
    ] {
        remake(&mut client);
        client.answers(&[(line, ok())]);
        let key = line.split(' ').nth(1).unwrap();
        assert_eq!(found(&mut client, key, 300), has, "{line}");
        let left = client.run(&format!("TTL {key}")).int();
        assert_eq!(left > 900, keeps_end, "{line}: {left}");
        assert!(keeps_end || left == -1, "{line}: {left}");
    }
}

/// The result would be larger or looser than what was asked for, or grow otherwise.
#[test]
fn parameters_come_from_the_destination_or_the_first_source() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", "0.001 1000 EXPANSION 3 SEED 5", 0, 100);
    make(&mut client, "b", "0.01 500 GROWING SEED 5", 100, 200);
    let figures = |client: &mut Client, key: &str| {
        let full = client.run(&format!("BF.INFO {key} FULL"));
        ["Error rate", "Expansion rate", "Seed", "Layout"].map(|field| full.field(field))
    };
    let (a, b) = (figures(&mut client, "a"), figures(&mut client, "b"));
    client.answers(&[("BF.MERGE like-a 1 a", ok()), ("BF.MERGE like-b 1 b", ok())]);
    assert_eq!(figures(&mut client, "like-a"), a);
    assert_eq!(figures(&mut client, "like-b"), b);
    client.answers(&[("BF.MERGE like-a 2 b a ERROR 0.1 OVERRIDE", ok())]);
    let looser = figures(&mut client, "like-a");
    assert_eq!((looser[0].number(), &looser[1..]), (0.1, &b[1..]));
    client.answers(&[("BF.MERGE like-b 1 a ERROR 0.05", ok())]);
    let looser = figures(&mut client, "like-b");
    assert_eq!((looser[0].number(), &looser[1..]), (0.05, &b[1..]));
    assert_eq!(found(&mut client, "like-b", 200).len(), 200);
    // More than a filter may have is used as the most that it may.
    client.answers(&[("BF.MERGE loose 2 a b ERROR 0.9", ok())]);
    assert_eq!(figures(&mut client, "loose")[0].number(), 0.25);
    assert!(
        server.log().contains("error rate 0.9 is used as 0.25"),
        "{}",
        server.log()
    );
}

/// A filter would have more false positives than it promises; or a user would have to try out which rate does.
#[test]
fn a_rate_that_would_do_is_named_and_does() {
    let server = Server::start();
    let mut client = server.client();
    for (key, parameters) in [
        ("a", "0.01 100 NONSCALING SEED 1"),
        ("b", "0.01 200 NONSCALING SEED 1"),
        ("c", "0.001 100 EXPANSION 2 SEED 1"),
        ("loose", "0.25 10000 NONSCALING SEED 1"),
        ("looser", "0.25 20000 NONSCALING SEED 1"),
    ] {
        make(&mut client, key, parameters, 0, 80);
    }
    for (line, key) in [
        ("BF.MERGE to 2 a b", "to"),
        ("BF.MERGE to 3 c b a", "to"),
        ("BF.MERGE c 2 a b", "c"),
        ("BF.MERGE a 1 b", "a"),
    ] {
        let before = client.dump(key);
        let Reply::Error(text) = client.run(line) else {
            panic!("{line} is taken")
        };
        assert_eq!(client.dump(key), before, "{line}");
        let rest = text.strip_prefix("ERR the error rates of the layers sum to ");
        let (sum, rate) = rest.and_then(|rest| rest.split_once(": use ERROR ")).unwrap();
        let rate = rate.strip_suffix(" or more").unwrap();
        let [sum, rate]: [f64; 2] = [sum, rate].map(|text| text.parse().unwrap());
        assert!(sum > 0.0 && rate <= 0.25, "{text}");
        client.answers(&[(&format!("{line} ERROR {rate}"), ok())]);
        let full = client.run(&format!("BF.INFO {key} FULL"));
        assert_eq!(full.field("Error rate").number(), rate);
        let layers = full.field("Layers");
        let spent: f64 = layers
            .elements()
            .iter()
            .map(|layer| layer.field("Error rate").number())
            .sum();
        assert!(spent <= rate, "{spent} of {rate}: {line}");
        assert_eq!(found(&mut client, key, 80).len(), 80, "{line}");
        client.run("DEL to");
    }
    let none = "ERR the error rates of the layers sum to 0.5: no ERROR is enough";
    let Reply::Error(text) = client.run("BF.MERGE to 2 loose looser") else {
        panic!("it is taken")
    };
    let digits = |text: &str| text.replace(char::is_numeric, "").replace('.', "");
    assert_eq!(digits(&text), digits(none), "{text}");
    client.answers(&[("EXISTS to", 0.into())]);
}

/// A user would look for his mistake in the wrong place, or lose what the destination had.
#[test]
fn what_cannot_be_merged_is_refused_and_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for (key, parameters) in [
        ("to", PARAMETERS),
        ("a", PARAMETERS),
        ("seed", "1e-9 1000 SEED 2"),
        ("classic", "0.01 1000 LAYOUT CLASSIC"),
        ("window", "1e-9 1000 SEED 1 WINDOW 1000"),
        ("valkey", "1e-9 1000 LAYOUT VALKEY"),
    ] {
        make(&mut client, key, parameters, 0, 50);
    }
    client.answers(&[("SET text value", ok()), ("SADD set member", 1.into())]);
    let arity = arity("bf.merge");
    let seed = "ERR source seed has another seed: only filters of one seed can be combined (SEED, or one bf-seed on \
                all servers)";
    let own_seed = seed.replacen("source seed", "source a", 1);
    let [classic, valkey, window] = ["classic", "valkey", "window"].map(|key| other_layout("source", key));
    let [into_classic, into_valkey, into_window] =
        ["classic", "valkey", "window"].map(|key| other_layout("destination", key));
    let table = [
        ("BF.MERGE", arity.as_str()),
        ("BF.MERGE to", &arity),
        ("BF.MERGE to 0 a", RANGE),
        ("BF.MERGE to a 1", "ERR bad numkeys"),
        ("BF.MERGE to 2 a", FEWER),
        ("BF.MERGE to 1 a b", "ERR Unknown argument received: b"),
        ("BF.MERGE to 1 a ERROR", "ERR no value for ERROR"),
        ("BF.MERGE to 1 a ERROR 1", "Bad error rate"),
        ("BF.MERGE to 1 a ERROR 0.1 ERROR 0.1", "ERR ERROR was given twice"),
        ("BF.MERGE to 1 missing", "ERR source missing not found"),
        ("BF.MERGE to 3 a missing a", "ERR source missing not found"),
        (
            "BF.MERGE to 2 a miss\ning OVERRIDE",
            r"ERR source miss\ning not found",
        ),
        ("BF.MERGE to 1 ''", "ERR source  not found"),
        ("BF.MERGE to 1 text", WRONG_TYPE),
        ("BF.MERGE to 2 a set OVERRIDE", WRONG_TYPE),
        ("BF.MERGE text 1 a", WRONG_TYPE),
        ("BF.MERGE text 1 a OVERRIDE", WRONG_TYPE),
        ("BF.MERGE to 2 a seed", seed),
        ("BF.MERGE to 2 a seed OVERRIDE", seed),
        ("BF.MERGE new 2 a seed", seed),
        ("BF.MERGE seed 1 a", &own_seed),
        ("BF.MERGE to 2 a classic", &classic),
        ("BF.MERGE new 2 classic classic ERROR 0.1", &classic),
        ("BF.MERGE classic 1 a", &into_classic),
        ("BF.MERGE to 2 a window", &window),
        ("BF.MERGE new 1 window", &window),
        ("BF.MERGE to 1 window OVERRIDE", &window),
        ("BF.MERGE window 1 a", &into_window),
        ("BF.MERGE window 1 window", &into_window),
        ("BF.MERGE to 2 a valkey", &valkey),
        ("BF.MERGE new 1 valkey OVERRIDE", &valkey),
        ("BF.MERGE valkey 1 a", &into_valkey),
    ];
    let keys = ["to", "new", "classic", "window", "seed", "text", "valkey"];
    for key in keys {
        client.refuses(key, &table);
    }
    client.answers(&[("EXISTS new", 0.into()), ("DBSIZE", 8.into())]);
    // What the destination held may be anything that is a filter, if it goes.
    client.answers(&[("BF.MERGE window 1 a OVERRIDE", ok())]);
    assert_eq!(
        client.run("DEBUG DIGEST-VALUE window"),
        client.run("DEBUG DIGEST-VALUE a")
    );
}

/// The error for a filter that cannot be combined with any.
fn other_layout(role: &str, key: &str) -> String {
    format!(
        "ERR {role} {key} has another layout or a WINDOW: only filters of LAYOUT BLOCKED without a WINDOW can be combined"
    )
}

// ---- BF.INTERSECT ----------------------------------------------------------------------------------

/// Common items would be missing, or the destination would keep its old items or its expiry.
#[test]
fn an_intersection_has_what_all_sources_have() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", PARAMETERS, 0, 600);
    make(&mut client, "b", PARAMETERS, 400, 1000);
    make(&mut client, "to", "0.01 50", 0, 10);
    // The destination is replaced, also if it is one of the sources.
    for key in ["to", "a"] {
        client.answers(&[
            (&format!("EXPIRE {key} 1000"), 1.into()),
            (&format!("BF.INTERSECT {key} 2 b a"), ok()),
            (&format!("TTL {key}"), (-1).into()),
            (&format!("BF.ADD {key} new"), 1.into()),
        ]);
        let common: Vec<_> = (400..600).collect();
        assert_eq!(found(&mut client, key, 1000), common);
        assert_eq!(client.info(key, "Capacity"), 1000);
    }
    client.answers(&[("BF.INTERSECT self 2 b b", ok())]);
    assert_eq!(bits(&mut client, "self"), bits(&mut client, "b"));
}

/// A user would take what is no intersection for one.
#[test]
fn what_cannot_be_intersected_is_refused_and_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for (key, parameters, count) in [
        ("to", PARAMETERS, 50),
        ("a", PARAMETERS, 50),
        ("seed", "1e-9 1000 SEED 2", 50),
        ("size", "1e-9 2000 SEED 1", 50),
        ("rate", "1e-8 1000 SEED 1", 50),
        ("grown", "1e-9 1000 SEED 1", 1500),
        ("classic", "0.01 1000 LAYOUT CLASSIC", 50),
        ("window", "1e-9 1000 SEED 1 WINDOW 1000", 50),
        ("valkey", "1e-9 1000 LAYOUT VALKEY", 50),
    ] {
        make(&mut client, key, parameters, 0, count);
    }
    client.answers(&[("SET text value", ok())]);
    let [classic, valkey, window] = ["classic", "valkey", "window"].map(|key| other_layout("source", key));
    let arity = arity("bf.intersect");
    let shape = |key: &str| {
        format!(
            "ERR source {key} has another shape: BF.INTERSECT needs filters of one layer, made for one capacity and \
             error rate"
        )
    };
    let [size, rate, grown] = ["size", "rate", "grown"].map(shape);
    let seed = "ERR source seed has another seed: only filters of one seed can be combined (SEED, or one bf-seed on \
                all servers)";
    let table = [
        ("BF.INTERSECT", arity.as_str()),
        ("BF.INTERSECT to", &arity),
        ("BF.INTERSECT to 0 a", RANGE),
        ("BF.INTERSECT to 2 a", FEWER),
        (
            "BF.INTERSECT to 1 a OVERRIDE",
            "ERR Unknown argument received: OVERRIDE",
        ),
        ("BF.INTERSECT to 2 a missing", "ERR source missing not found"),
        ("BF.INTERSECT to 1 text", WRONG_TYPE),
        ("BF.INTERSECT text 1 a", WRONG_TYPE),
        ("BF.INTERSECT to 2 a seed", seed),
        ("BF.INTERSECT to 2 a classic", &classic),
        ("BF.INTERSECT to 1 classic", &classic),
        ("BF.INTERSECT to 2 a window", &window),
        ("BF.INTERSECT to 2 a valkey", &valkey),
        ("BF.INTERSECT to 2 a size", &size),
        ("BF.INTERSECT to 2 a rate", &rate),
        ("BF.INTERSECT to 2 a grown", &grown),
        ("BF.INTERSECT to 1 grown", &grown),
        ("BF.INTERSECT new 2 a size", &size),
    ];
    for key in ["to", "new", "text"] {
        client.refuses(key, &table);
    }
    client.answers(&[("EXISTS new", 0.into())]);
    // The destination's own kind does not matter.
    client.answers(&[("BF.INTERSECT window 2 a to", ok())]);
    assert_eq!(found(&mut client, "window", 50).len(), 50);
}

// ---- BF.RESET --------------------------------------------------------------------------------------

/// Every kind of filter, and how many items make it another one than a new one.
const KINDS: [(&str, usize); 6] = [
    (PARAMETERS, 100),
    ("0.01 50 EXPANSION 3 SEED 9", 2000),
    ("0.01 50 GROWING", 200),
    ("0.001 300 NONSCALING", 300),
    ("0.01 100 LAYOUT CLASSIC", 1000),
    ("0.01 100 WINDOW 1000 SLICES 5 REFRESH", 400),
];

/// Whoever reuses a filter would find what was in it, lose its parameters, or its end.
#[test]
fn a_reset_filter_is_a_new_one() {
    let server = Server::start();
    let mut client = server.client();
    for (parameters, count) in KINDS {
        client.answers(&[("FLUSHALL", ok())]);
        make(&mut client, "new", parameters, 0, 0);
        make(&mut client, "key", parameters, 0, count);
        assert_ne!(client.dump("key"), client.dump("new"), "{parameters}");
        client.answers(&[("EXPIRE key 1000", 1.into()), ("BF.RESET key", ok())]);
        assert!(client.run("TTL key").int() > 900, "{parameters}");
        // An end is part of the digest.
        client.answers(&[("PERSIST key", 1.into())]);
        for command in ["DEBUG DIGEST-VALUE", "DUMP", "BF.DEBUG", "BF.INFO"] {
            assert_eq!(
                client.run(&format!("{command} key")),
                client.run(&format!("{command} new")),
                "{parameters}: {command}"
            );
        }
        client.answers(&[("BF.CARD key", 0.into()), ("BF.RESET key", ok())]);
        assert_eq!(
            found(&mut client, "key", count),
            Vec::<usize>::new(),
            "{parameters}"
        );
        // Items are new again, and the filter grows as it did.
        make(&mut client, "key", "", 0, count);
        make(&mut client, "new", "", 0, count);
        if !parameters.contains("WINDOW") {
            assert_eq!(client.dump("key"), client.dump("new"), "{parameters}");
        }
    }
}

/// A server that is full could not be helped by it; or a large filter would stop the server, or never be freed.
#[test]
fn a_reset_gives_memory_back_and_is_for_full_servers_too() {
    let server = Server::start();
    let mut client = server.client();
    let used = client.used_memory();
    make(&mut client, "key", "0.01 1000 EXPANSION 1000 SEED 1", 0, 1);
    let size = client.info("key", "Size");
    let items: Vec<_> = numbered("more:", 0, 5000);
    for some in items.chunks(1000) {
        client.over("BF.MADD key", some);
    }
    assert!(client.info("key", "Size") > 1 << 20);
    client.answers(&[
        ("CONFIG SET maxmemory 1", ok()),
        (
            "BF.ADD key x",
            error("OOM command not allowed when used memory > 'maxmemory'."),
        ),
        ("BF.RESET key", ok()),
        ("CONFIG SET maxmemory 0", ok()),
    ]);
    assert_eq!(client.info("key", "Size"), size);
    until("the memory is back", || {
        figure(&mut client, "bytes") == size && client.used_memory() < used + (1 << 20)
    });
    assert_eq!(
        [figure(&mut client, "filters"), figure(&mut client, "layers")],
        [1, 1]
    );
    assert_eq!(figure(&mut client, "items"), 0);
}

/// A mistake would look like success.
#[test]
fn what_is_no_filter_is_not_reset() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("SET text value", ok()), ("BF.ADD key item", 1.into())]);
    let arity = arity("bf.reset");
    client.refuses(
        "key",
        &[
            ("BF.RESET", arity.as_str()),
            ("BF.RESET key x", &arity),
            ("BF.RESET missing", NOT_FOUND),
            ("BF.RESET text", WRONG_TYPE),
        ],
    );
    client.answers(&[("EXISTS missing", 0.into())]);
}

// ---- Replicas and files ----------------------------------------------------------------------------

/// A replica whose source is gone, or another one, would stay behind in silence.
#[test]
fn a_replica_that_cannot_follow_says_so() {
    let primary = Server::start();
    let replica = Server::with()
        .config("replica-read-only", "no")
        .replica_of(&primary)
        .start();
    let mut client = primary.client();
    make(&mut client, "a", PARAMETERS, 0, 10);
    make(&mut client, "b", PARAMETERS, 0, 20);
    in_step(&primary, &replica);
    replica.client().answers(&[("DEL a", 1.into())]);
    client.answers(&[
        ("BF.MERGE to 2 a b", ok()),
        ("BF.INTERSECT to 2 a b", ok()),
        ("BF.RESET a", ok()),
        ("BF.EXCEPT b item:1", array([1])),
    ]);
    // What is there, and what is not.
    replica.client().answers(&[("BF.RESERVE there 0.01 100", ok())]);
    client.answers(&[("BF.RESERVE there 0.01 100", ok())]);
    let chunks = scandump(&mut client, "b");
    load(&mut client, "chunks", &chunks[..1]);
    in_step(&primary, &replica);
    replica
        .client()
        .answers(&[("DEL chunks b", 2.into()), ("SET loaded text", ok())]);
    load(&mut client, "chunks", &chunks[1..]);
    client.answers(&[("BF.EXCEPT b item:3", array([1]))]);
    let stored = [&b"BF.LOAD"[..], b"loaded", &STORED[0].load];
    assert_eq!(client.call(&stored), ok());
    in_step(&primary, &replica);
    let log = replica.log();
    for line in [
        "key 'to': BF.MERGE succeeded originally, and failed here: ERR source a not found",
        "key 'to': BF.INTERSECT succeeded originally, and failed here: ERR source a not found",
        "key 'there': BF.INSERT succeeded originally, and failed here: ERR item exists",
        "key 'chunks': BF.LOADCHUNK succeeded originally, and failed here: ERR not found",
        "key 'a': BF.RESET succeeded originally, and failed here: ERR not found",
        "key 'b': BF.EXCEPT succeeded originally, and failed here: ERR not found",
        &format!("key 'loaded': BF.LOAD succeeded originally, and failed here: {WRONG_TYPE}"),
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    assert!(!primary.log().contains("not here"), "{}", primary.log());
}

/// Keys that filters are made in, and combined.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// How they are made.
const SHAPES: [&str; 8] = [
    "0.01 100 SEED 1",
    "0.01 100 SEED 1",
    "0.01 100 NONSCALING SEED 1",
    "0.001 300 SEED 1 GROWING",
    "1e-6 50 EXPANSION 3 SEED 1",
    "0.01 100 LAYOUT CLASSIC",
    "0.01 100 LAYOUT CLASSIC",
    "0.01 60 WINDOW 1000 SLICES 4 SEED 1",
];

/// Writes in a script, some of which fail.
const SCRIPT: &str = "redis.pcall('BF.EXCEPT',KEYS[1],ARGV[1],ARGV[2]);\
                      redis.pcall('BF.MERGE',KEYS[1],1,KEYS[2]);\
                      redis.pcall('BF.ADD',KEYS[1],ARGV[2]);\
                      redis.pcall('BF.RESET',KEYS[2]);\
                      return redis.pcall('BF.EXCEPT',KEYS[2],ARGV[2])";

fn write(random: &mut StdRng, client: &mut Client) -> Reply {
    let [key, one, other] = [(); 3].map(|()| *KEYS.choose(random).unwrap());
    let items: Vec<_> = (0..random.random_range(1..60))
        .map(|_| random.random_range(0..400).to_string())
        .collect();
    match random.random_range(0..26) {
        0..2 => {
            client.run(&format!("DEL {key}"));
            client.run(&format!("BF.RESERVE {key} {}", SHAPES.choose(random).unwrap()))
        }
        2..5 => client.over(&format!("BF.MADD {key}"), &items),
        5 => client.run(&format!("BF.ADD {key} {}", items[0])),
        6 => client.over(&format!("BF.INSERT {key} CAPACITY 70 SEED 1 ITEMS"), &items),
        7 => client.over(&format!("BF.ADDPACKED {key} NOCREATE LINES"), &[items.join("\n")]),
        8..10 => client.run(&format!("BF.MERGE {key} 1 {one}")),
        10..12 => client.run(&format!("BF.MERGE {key} 2 {one} {other} OVERRIDE")),
        12 => client.run(&format!("BF.MERGE {key} 2 {one} {other} ERROR 0.2")),
        13 => client.run(&format!("BF.MERGE {key} 2 {one} {other} ERROR 0.25 OVERRIDE")),
        14..16 => client.run(&format!("BF.INTERSECT {key} 2 {one} {other}")),
        16 => client.run(&format!("BF.RESET {key}")),
        17..19 => client.run(&format!("PEXPIRE {key} {}", random.random_range(0..30))),
        19 => client.run(&format!("COPY {one} {other} REPLACE")),
        20 => {
            client.answers(&[("MULTI", ok())]);
            client.over(&format!("BF.EXCEPT {key}"), &items);
            client.run(&format!("BF.MERGE {one} 1 {key}"));
            client.over(&format!("BF.MADD {key}"), &items[..items.len().div_ceil(2)]);
            client.run("EXEC")
        }
        21 => client.call(&["EVAL", SCRIPT, "2", key, one, &items[0], &items[items.len() - 1]]),
        _ => client.over(&format!("BF.EXCEPT {key}"), &items),
    }
}

/// Nothing may expire between two looks.
fn stay(client: &mut Client) {
    for key in KEYS {
        client.run(&format!("PERSIST {key}"));
    }
}

/// The figures of INFO that the keys have in sum.
const FIGURES: [&str; 6] = ["filters", "windows", "layers", "bytes", "items", "exceptions"];

/// The figures in INFO are the sums of those of the keys.
#[track_caller]
fn figures_are_sums(client: &mut Client, what: &str) {
    let start = Instant::now();
    until(what, || {
        let mut sums = [0; 6];
        for key in client.run("KEYS *").elements() {
            let full = client.run(&format!("BF.INFO {} FULL", key.text()));
            if !matches!(full, Reply::Error(_)) {
                let is_window = full.fields().iter().any(|(name, _)| name == "Window");
                let fields = ["Number of filters", "Size", "Number of items inserted"];
                let [layers, bytes, items] = fields.map(|field| full.field(field).int());
                let exceptions = full.fields().into_iter().find(|(name, _)| name == "Exceptions");
                let exceptions = exceptions.map_or(0, |(_, count)| count.int());
                let figures = [1, is_window.into(), layers, bytes, items, exceptions];
                for (sum, figure) in sums.iter_mut().zip(figures) {
                    *sum += figure;
                }
                // The layers say the same.
                let debug = client.run(&format!("BF.DEBUG {}", key.text()));
                assert_eq!(debug.elements().len() as i64, 1 + layers, "{debug:?}");
                let head = debug.elements()[0].text();
                let expected = match exceptions {
                    0 => format!("size:{items}"),
                    _ => format!("size:{items} exceptions:{exceptions}"),
                };
                assert_eq!(head, expected, "{debug:?}");
            }
        }
        let figures = FIGURES.map(|name| figure(client, name));
        // A key that expires is gone before it is freed.
        let is_same = sums == figures;
        assert!(
            is_same || start.elapsed() < Duration::from_secs(60),
            "{what}: {FIGURES:?} are {sums:?}, and stated as {figures:?}"
        );
        is_same
    });
}

/// A replica, or a server that starts on a file, would have other filters: the commands, rewritten or not, and the
/// RDB file must each give the same bits. And who watches would be told of other sums than the keys have.
#[test]
fn replicas_and_files_have_the_same() {
    let mut primary = as_commands().start();
    let mut replica = as_commands()
        .module_args("bf-layout classic bf-seed 5 bf-max-filter-bytes 300 bf-expansion-factor 0")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let mut client = primary.client();
    let mut random = StdRng::seed_from_u64(seed());
    let mut done = 0;
    for step in 0..sample(3000) {
        let reply = write(&mut random, &mut client);
        done += usize::from(reply == ok());
        if step % 100 == 0 {
            stay(&mut client);
            in_step(&primary, &replica);
            same(&primary, &replica, &KEYS, "the replica");
            figures_are_sums(&mut client, "figures of the primary");
            figures_are_sums(&mut replica.client(), "figures of the replica");
        }
    }
    assert!(done > 100, "only {done} were taken");
    assert!(!replica.log().contains("not here"), "{}", replica.log());
    stay(&mut client);
    in_step(&primary, &replica);
    same(&primary, &replica, &KEYS, "the replica");
    let before = contents(&mut client, &KEYS);
    let is_as_before = |server: &Server, what: &str| {
        for (now, before) in contents(&mut server.client(), &KEYS).iter().zip(&before) {
            assert!(now == before, "{what}: {now:?} and {before:?}");
        }
    };
    // On its own, so that it shows what its files have, and not what its primary sends again.
    replica.client().answers(&[("REPLICAOF NO ONE", ok())]);
    settled(&replica);
    replica.kill9();
    let mut alone = as_commands().dir(replica.dir()).start();
    for (server, who) in [(&mut primary, "primary"), (&mut alone, "replica")] {
        for how in ["commands", "rewritten", "RDB in the AOF", "RDB"] {
            let mut client = server.client();
            match how {
                "rewritten" => rewrite(&mut client),
                "RDB in the AOF" => {
                    client.answers(&[("CONFIG SET aof-use-rdb-preamble yes", ok())]);
                    rewrite(&mut client);
                }
                "RDB" => client.answers(&[("SAVE", ok())]),
                _ => {}
            }
            server.kill9();
            if how == "RDB" {
                let saved = Server::with().dir(server.dir()).start();
                is_as_before(&saved, &format!("{who}: {how}"));
                figures_are_sums(&mut saved.client(), how);
                let mut client = saved.client();
                client.answers(&[("FLUSHALL", ok())]);
                until("all are gone", || {
                    FIGURES.map(|name| figure(&mut client, name)) == [0; 6]
                });
                continue;
            }
            server.revive();
            is_as_before(server, &format!("{who}: {how}"));
            figures_are_sums(&mut server.client(), how);
        }
    }
}

// ---- Transactions, scripts and other clients -------------------------------------------------------

/// A transaction would stop in the middle, or a script not be propagated as what it did.
#[test]
fn transactions_and_scripts_combine_filters() {
    let primary = Server::with().append_only().start();
    let replica = Server::with().replica_of(&primary).start();
    let mut client = primary.client();
    let queued = || Reply::Simple("QUEUED".into());
    make(&mut client, "a", PARAMETERS, 0, 100);
    make(&mut client, "b", PARAMETERS, 50, 150);
    client.answers(&[
        ("MULTI", ok()),
        ("BF.MERGE to 2 a b", queued()),
        ("BF.MERGE to 1 missing", queued()),
        ("BF.INTERSECT both 2 a b", queued()),
        ("BF.RESET a", queued()),
        ("BF.MERGE to 1 a", queued()),
        ("BF.RESET missing", queued()),
    ]);
    let expected = vec![
        ok(),
        error("ERR source missing not found"),
        ok(),
        ok(),
        ok(),
        error(NOT_FOUND),
    ];
    assert_eq!(client.run("EXEC"), Reply::Array(expected));
    assert_eq!(found(&mut client, "to", 200), (0..150).collect::<Vec<_>>());
    assert_eq!(found(&mut client, "both", 200), (50..100).collect::<Vec<_>>());
    let script = "redis.call('BF.MERGE',KEYS[1],2,KEYS[2],KEYS[3],'OVERRIDE');\
                  redis.call('BF.EXCEPT',KEYS[1],'item:120');redis.call('BF.RESET',KEYS[3]);\
                  return redis.pcall('BF.MERGE',KEYS[1],0,KEYS[2]).err";
    let reply = client.call(&["EVAL", script, "3", "new", "to", "both"]);
    assert_eq!(reply.text(), RANGE);
    assert_eq!(found(&mut client, "new", 200).len(), 149);
    client.answers(&[("BF.CARD both", 0.into())]);
    in_step(&primary, &replica);
    same(
        &primary,
        &replica,
        &["a", "b", "to", "both", "new"],
        "the replica",
    );
    let file: Vec<_> = propagated(&primary)
        .into_iter()
        .map(|words| words[0].clone())
        .collect();
    assert_eq!(file[file.len() - 3..], ["BF.MERGE", "BF.EXCEPT", "BF.RESET"]);
}

/// Who may only read a filter would change it, who may only write one would read others, or a job that merges would
/// need more rights than it uses.
#[test]
fn sources_are_read_and_the_destination_is_written() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no permissions to only read or write keys");
    }
    let server = Server::start();
    let mut admin = server.client();
    make(&mut admin, "from:a", PARAMETERS, 0, 100);
    make(&mut admin, "to:a", PARAMETERS, 100, 200);
    admin.answers(&[("ACL SETUSER user on nopass %R~from:* %W~to:* +@all", ok())]);
    let mut client = server.client();
    client.answers(&[("AUTH user any", ok())]);
    let refused = error(if Server::version().at_least(7, 2) {
        "NOPERM No permissions to access a key"
    } else {
        "NOPERM this user has no permissions to access one of the keys used as arguments"
    });
    let before = contents(&mut admin, &["from:a", "to:a"]);
    for line in [
        "BF.MERGE from:a 1 to:a",
        "BF.MERGE from:new 1 from:a",
        "BF.MERGE to:a 1 to:a",
        "BF.MERGE to:a 2 from:a to:a",
        "BF.MERGE to:a 2 from:a other",
        "BF.MERGE other 1 from:a",
        "BF.INTERSECT from:a 1 from:a",
        "BF.INTERSECT to:new 2 from:a to:a",
        "BF.RESET from:a",
        "BF.EXCEPT from:a item:1",
        // The reply would tell whether it was there.
        "BF.EXCEPT to:a item:100",
    ] {
        assert_eq!(client.run(line), refused, "{line}");
    }
    // Numbers that are none have no keys, and are refused for what they are.
    for (numkeys, text) in [
        ("0", RANGE),
        ("-1", RANGE),
        ("x", "ERR bad numkeys"),
        ("7", FEWER),
    ] {
        let line = format!("BF.MERGE to:a {numkeys} from:a");
        assert_eq!(client.run(&line), error(text), "{line}");
    }
    assert_eq!(contents(&mut admin, &["from:a", "to:a"]), before);
    client.answers(&[
        ("BF.MERGE to:a 1 from:a", ok()),
        ("BF.MERGE to:new 2 from:a from:a OVERRIDE", ok()),
        ("BF.INTERSECT to:both 1 from:a", ok()),
        ("BF.RESET to:new", ok()),
    ]);
    assert_eq!(found(&mut admin, "to:a", 200).len(), 200);
    admin.answers(&[("BF.CARD to:new", 0.into()), ("EXISTS other from:new", 0.into())]);
}

/// Filters of other slots would be read where they are not, or a program wait for a node that nobody asks.
#[test]
fn in_a_cluster_all_keys_are_of_one_slot() {
    let server = Server::with().cluster_node().start();
    let mut client = server.client();
    let slots: Vec<_> = (0..16384).map(|slot| slot.to_string()).collect();
    assert_eq!(client.over("CLUSTER ADDSLOTS", &slots), ok());
    until("the cluster serves", || {
        client.run("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    make(&mut client, "{tag}:a", PARAMETERS, 0, 100);
    make(&mut client, "{tag}:b", PARAMETERS, 100, 200);
    make(&mut client, "other", PARAMETERS, 200, 300);
    let crossed = error("CROSSSLOT Keys in request don't hash to the same slot");
    client.answers(&[
        ("BF.MERGE {tag}:to 2 {tag}:a {tag}:b", ok()),
        ("BF.MERGE {tag}:to 2 {tag}:a other", crossed.clone()),
        ("BF.MERGE other 1 {tag}:a", crossed.clone()),
        ("BF.INTERSECT {tag}:to 2 other {tag}:b", crossed.clone()),
        ("BF.INTERSECT {tag}:both 2 {tag}:a {tag}:b", ok()),
        // What is no key is none.
        (
            "BF.MERGE {tag}:to 1 {tag}:a other",
            error("ERR Unknown argument received: other"),
        ),
        ("BF.MERGE {tag}:to 1 {tag}:a ERROR 0.1 OVERRIDE", ok()),
        ("BF.MERGE {tag}:to x other", error("ERR bad numkeys")),
        ("BF.RESET other", ok()),
        ("BF.EXCEPT {tag}:a item:1", array([1])),
    ]);
    // A node without the slot says who has it, by any of the keys.
    let slot = client.run("CLUSTER KEYSLOT {tag}").int();
    client.answers(&[(&format!("CLUSTER DELSLOTS {slot}"), ok())]);
    for line in [
        "BF.MERGE {tag}:to 1 {tag}:a",
        "BF.INTERSECT {tag}:to 1 {tag}:a",
        "BF.RESET {tag}:a",
    ] {
        let reply = client.run(line);
        assert!(
            matches!(&reply, Reply::Error(text) if text.starts_with("CLUSTERDOWN")),
            "{line}: {reply:?}"
        );
    }
}

/// A number that is none could end the server, which looks for keys before and after the command: for the rights of
/// a user, and for the cache of a client.
#[test]
fn hostile_numbers_of_sources_are_refused_and_nothing_else() {
    let server = Server::start();
    let mut admin = server.client();
    make(&mut admin, "key:a", PARAMETERS, 0, 10);
    admin.answers(&[("ACL SETUSER user on nopass ~key:* +@all", ok())]);
    let before = admin.dump("key:a");
    let mut client = server.client3();
    client.answers(&[("AUTH user any", ok()), ("CLIENT TRACKING ON", ok())]);
    // Redis 7.0 and 7.2 ask for memory for so many keys before they look whether they are there.
    for numkeys in [
        "0",
        "-1",
        "-2147483648",
        "-9223372036854775808",
        "1000000",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551617",
        "340282366920938463463374607431768211457",
        "x",
        "''",
        "0x1",
        "1e3",
    ] {
        for command in ["BF.MERGE", "BF.INTERSECT"] {
            let line = format!("{command} key:a {numkeys} key:a");
            let reply = client.run(&line);
            let texts = [RANGE, "ERR bad numkeys", FEWER];
            assert!(
                matches!(&reply, Reply::Error(text) if texts.contains(&text.as_str())),
                "{line}: {reply:?}"
            );
        }
    }
    assert_eq!(admin.dump("key:a"), before);
    assert!(server.is_alive());
}

// ---- Memory ----------------------------------------------------------------------------------------

/// A filter larger than what its owner allows would come by a merge; or what he set would stop a replica.
#[test]
fn merges_keep_to_the_limits_of_clients() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let primary = Server::start();
    let mut client = primary.client();
    make(&mut client, "large", "0.01 100000 SEED 1", 0, 100);
    make(&mut client, "other", "0.01 90000 SEED 1", 100, 200);
    make(&mut client, "small", "0.01 100 SEED 1", 0, 50);
    let replica = Server::with()
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let limit = format!(
        "CONFIG SET {} {}",
        Server::option("max-filter-bytes"),
        client.info("large", "Size") / 2
    );
    client.answers(&[(&limit, ok())]);
    let log = |server: &Server| server.log().matches("a Bloom filter of ").count();
    client.refuses(
        "new",
        &[
            ("BF.MERGE new 1 large", NO_CREATION),
            ("BF.INTERSECT new 1 large", NO_CREATION),
            ("BF.MERGE new 2 small large ERROR 0.1", NO_CREATION),
        ],
    );
    assert_eq!((figure(&mut client, "refused_creations"), log(&primary)), (3, 3));
    client.refuses("small", &[("BF.MERGE small 1 large ERROR 0.1", NO_GROWTH)]);
    client.refuses("large", &[("BF.MERGE large 1 other ERROR 0.1", NO_GROWTH)]);
    assert_eq!((figure(&mut client, "refused_growths"), log(&primary)), (2, 5));
    client.answers(&[
        ("BF.MERGE tiny 1 small", ok()),
        (
            &format!("CONFIG SET {} 0", Server::option("max-filter-bytes")),
            ok(),
        ),
        ("BF.MERGE small 1 large ERROR 0.1", ok()),
        ("BF.MERGE new 2 large other ERROR 0.1", ok()),
        ("BF.INTERSECT both 1 large", ok()),
    ]);
    in_step(&primary, &replica);
    same(
        &primary,
        &replica,
        &["tiny", "small", "large", "new", "both"],
        "a replica obeys",
    );
}

/// A merge would take what the server does not have, or be refused although it takes nothing.
#[test]
fn merges_keep_to_what_is_left_of_maxmemory() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", "0.01 3000000 SEED 1", 0, 100);
    make(&mut client, "b", "0.01 3000000 SEED 1", 100, 200);
    make(&mut client, "c", "0.01 2500000 SEED 1", 200, 300);
    let maxmemory = client.used_memory() + 2_500_000;
    client.answers(&[(&format!("CONFIG SET maxmemory {maxmemory}"), ok())]);
    client.refuses(
        "new",
        &[
            ("BF.MERGE new 2 a b", NO_CREATION),
            ("BF.INTERSECT new 2 a b", NO_CREATION),
        ],
    );
    client.refuses("a", &[("BF.MERGE a 1 c ERROR 0.1", NO_GROWTH)]);
    // Bits go into bits.
    client.answers(&[("BF.MERGE a 1 b", ok())]);
    assert_eq!(found(&mut client, "a", 300).len(), 200);
}

/// A server that has its own jemalloc would end with the first merge of four filters: what tells sources apart has to
/// start at a multiple of 16 in memory, and such an allocator gives multiples of 8.
#[test]
fn any_number_of_sources_is_combined() {
    let server = Server::start();
    let mut client = server.client();
    for count in 1..=40 {
        let keys: Vec<_> = (0..count).map(|at| format!("key {count} {at}")).collect();
        for key in &keys {
            let make = [
                "BF.INSERT",
                key,
                "CAPACITY",
                "100",
                "ERROR",
                "0.01",
                "SEED",
                "1",
                "ITEMS",
                key,
                "all",
            ];
            assert_eq!(client.call(&make), array([1, 1]));
        }
        let number = count.to_string();
        for (command, of_one) in [("BF.MERGE", 1), ("BF.INTERSECT", i64::from(count == 1))] {
            let words = [command, "result", &number].into_iter();
            let words: Vec<_> = words.chain(keys.iter().map(String::as_str)).collect();
            client.run("DEL result");
            assert_eq!(client.call(&words), ok(), "{command} of {count}");
            let found = client.call(&["BF.MEXISTS", "result", "all", &keys[0]]);
            assert_eq!(found, array([1, of_one]), "{command} of {count}");
        }
    }
}
