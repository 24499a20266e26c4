//! Filters in valkey-bloom's layout: how one is made, what travels of it, BF.LOAD, and keys of its data type. What
//! valkey-bloom itself made is in `recorded.rs`.

use std::fs;

use serial_test::serial;

use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok, wire};
use crate::filters::figure;
use crate::server::{Server, skip, until};
use crate::support::aof::{as_commands, paths, rewrite};
use crate::support::chunks::scandump;
use crate::support::items::{add, numbered};
use crate::support::link::in_step;
use crate::support::payload::BAD_FORMAT;
use crate::support::primary::Primary;
use crate::support::stored_valkey::STORED;

const BUSY: &str = "BUSYKEY Target key name already exists.";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_ROOM: &str = "ERR the filter cannot grow to VALIDATESCALETO within bf-max-filter-bytes";
const NO_RATE: &str = "ERR the filter cannot grow to VALIDATESCALETO: its error rate would be 0";

/// Bytes that separate words, end texts, or are no text.
const SEED: &[u8; 32] = b"a\0b\nc d\r\ne\xff\xfeITEMS * $5 '\"\\\x80\0\0\0\0 ";

// ---- How a filter is made ----------------------------------------------------------------------------

/// Bytes as BF.INFO tells a seed.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Words of a line, and then bytes.
fn with_bytes<'a>(line: &'a str, bytes: &'a [u8], rest: &'a str) -> Vec<&'a [u8]> {
    let before = line.split(' ').map(str::as_bytes);
    let after = rest.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes);
    before.chain([bytes]).chain(after).collect()
}

/// The layout of a filter; its capacity, rate, expansion, ratio and seed.
fn described(client: &mut Client, key: &str) -> (String, (i64, f64, Reply, f64, String)) {
    let full = client.call(&["BF.INFO", key, "FULL"]);
    let figures = (
        full.field("Capacity").int(),
        full.field("Error rate").number(),
        full.field("Expansion rate"),
        full.field("Tightening ratio").number(),
        full.field("Seed").text(),
    );
    (full.field("Layout").text(), figures)
}

/// Who asks for a filter of valkey-bloom's would get another one, which no valkey-bloom can read.
#[test]
fn a_filter_is_what_was_asked_for() {
    let usual = ("valkey", 1000, 0.9, 2.into(), 0.5);
    let by_words = [
        "LAYOUT VALKEY",
        "layout valkey SEED 8",
        "TIGHTENING 0.5",
        "VALIDATESCALETO 5000",
    ];
    let mut cases: Vec<_> = by_words
        .map(|words| (format!("0.9 1000 {words}"), usual.clone()))
        .into();
    // A rate is used as it is; an expansion may be any that other layouts have.
    cases.extend([
        (
            "1e-300 10 TIGHTENING 0.25 EXPANSION 32768".to_owned(),
            ("valkey", 10, 1e-300, 32_768.into(), 0.25),
        ),
        (
            "0.9999 10 LAYOUT VALKEY NONSCALING".to_owned(),
            ("valkey", 10, 0.9999, Reply::Null, 0.5),
        ),
        (
            "0.3 10 EXPANSION 0 TIGHTENING 0.9999999".to_owned(),
            ("valkey", 10, 0.3, Reply::Null, 0.999_999_9),
        ),
        (
            "0.26 10 TIGHTENING 1e-300 EXPANSION 1".to_owned(),
            ("valkey", 10, 0.26, 1.into(), 1e-300),
        ),
    ]);
    let mut seeds = Vec::new();
    for arguments in ["bf-seed 8", "bf-seed 8 bf-layout valkey"] {
        let server = Server::with().module_args(arguments).start();
        let mut client = server.client();
        let by_option = ("0.9 1000".to_owned(), usual.clone());
        let by_option = arguments.ends_with("valkey").then_some(by_option);
        for (words, (layout, capacity, rate, expansion, ratio)) in cases.clone().into_iter().chain(by_option)
        {
            client.answers(&[(&format!("BF.RESERVE key {words}"), ok())]);
            let (made_in, rest) = described(&mut client, "key");
            assert_eq!((&*made_in, rest.0), (layout, capacity), "{words}");
            assert_eq!((rest.1, rest.2, rest.3), (rate, expansion, ratio), "{words}");
            seeds.push(rest.4);
            client.run("DEL key");
        }
        for (head, rest) in [
            ("BF.RESERVE key 0.01 100 SEED", ""),
            ("BF.INSERT key SEED", "ITEMS a"),
            ("BF.INSERT key SEED", "LAYOUT VALKEY"),
            ("BF.ADDPACKED key seed", "LINES a"),
        ] {
            client.call(&with_bytes(head, SEED, rest));
            assert_eq!(described(&mut client, "key").1.4, hex(SEED), "{head}");
            client.run("DEL key");
        }
        assert!(!server.log().contains("is used as"), "{}", server.log());
    }
    // What a seed of 8 stands for, for good: files and replicas have it.
    seeds.dedup();
    assert_eq!((seeds.len(), seeds[0].len()), (1, 64), "{seeds:?}");
}

/// The default rate of a server would be another one than its configuration says.
#[test]
fn the_configured_rate_is_used_as_it_is() {
    let server = Server::with()
        .module_args("bf-error-rate 0.9 bf-layout valkey bf-initial-size 70 bf-expansion-factor 0")
        .start();
    let mut client = server.client();
    client.answers(&[
        ("BF.ADD key a", 1.into()),
        ("BF.INSERT empty", Reply::Array(Vec::new())),
    ]);
    for key in ["key", "empty"] {
        let (layout, (capacity, rate, expansion, ..)) = described(&mut client, key);
        assert_eq!(
            (&*layout, capacity, rate, expansion),
            ("valkey", 70, 0.9, Reply::Null)
        );
    }
    assert!(!server.log().contains("is used as"), "{}", server.log());
    client.answers(&[
        ("BF.EXISTS key a", 1.into()),
        ("BF.RESERVE other 0.01 10 LAYOUT BLOCKED", ok()),
    ]);
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules: only load arguments were tried");
    }
    // Once it is the rate of filters that cannot have it, the log says so.
    let option = Server::option("layout");
    client.answers(&[(&format!("CONFIG SET {option} blocked"), ok())]);
    assert_eq!(
        server.log().matches("error-rate 0.9 is used as 0.25\n").count(),
        1
    );
}

/// A client of valkey-bloom would be refused what it always does; or a filter of another layout be made of a command
/// that lost its items on the way.
#[test]
fn an_insert_without_items_makes_only_such_filters() {
    let server = Server::start();
    let mut client = server.client();
    let (arity, empty) = (arity("BF.INSERT"), Reply::Array(Vec::new()));
    client.answers(&[
        ("BF.RESERVE valkey 0.01 100 LAYOUT VALKEY", ok()),
        ("BF.RESERVE blocked 0.01 100", ok()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
        ("SET text value", ok()),
    ]);
    for key in ["new", "blocked", "classic", "text"] {
        for words in [
            "",
            " CAPACITY 10 NOCREATE",
            " LAYOUT BLOCKED",
            " LAYOUT VALKEY ITEMS",
        ] {
            client.refuses(key, &[(&format!("BF.INSERT {key}{words}"), &arity)]);
        }
    }
    client.refuses(
        "new",
        &[("BF.INSERT new NOCREATE LAYOUT VALKEY", "ERR not found")],
    );
    client.refuses("text", &[("BF.INSERT text LAYOUT VALKEY", WRONG_TYPE)]);
    // One that is there stays as it is, whatever is said.
    for key in ["valkey", "blocked", "classic"] {
        let before = scandump(&mut client, key);
        for options in [
            "LAYOUT VALKEY",
            "TIGHTENING 0.3 CAPACITY 7 EX 5",
            "VALIDATESCALETO 1000 NOCREATE",
        ] {
            client.answers(&[(&format!("BF.INSERT {key} {options}"), empty.clone())]);
        }
        assert!(scandump(&mut client, key) == before, "{key}");
        client.answers(&[(&format!("PTTL {key}"), (-1).into())]);
    }
    client.answers(&[
        ("BF.INSERT valkey", empty.clone()),
        (
            "BF.INSERT valkey NOCREATE LAYOUT CLASSIC CAPACITY 9",
            empty.clone(),
        ),
        ("BF.INSERT valkey ITEMS", error(&arity)),
    ]);
    let by_option = Server::with().module_args("bf-layout valkey").start();
    let mut client = by_option.client();
    client.answers(&[
        ("BF.INSERT new", empty.clone()),
        ("BF.INSERT sized CAPACITY 7 ERROR 0.5", empty.clone()),
        ("BF.INSERT missing NOCREATE", error("ERR not found")),
        ("BF.INSERT missing LAYOUT BLOCKED", error(&arity)),
        ("BF.INSERT missing LAYOUT CLASSIC", error(&arity)),
        (
            "BF.INSERT missing LAYOUT VALKEY GROWING",
            error("ERR GROWING is for LAYOUT BLOCKED only"),
        ),
        ("EXISTS missing", 0.into()),
        ("BF.RESERVE blocked 0.01 100 LAYOUT BLOCKED", ok()),
        ("BF.INSERT blocked", empty),
    ]);
    assert_eq!(described(&mut client, "sized").1.0, 7);
}

/// A filter would be made that stops growing, with an error for every later add, where its user had asked; or who
/// mistypes would look for the mistake in options that are as they should be.
#[test]
fn a_filter_that_cannot_grow_far_enough_is_refused() {
    let server = Server::with().module_args("bf-max-filter-bytes 10000").start();
    let mut client = server.client();
    client.answers(&[("BF.INSERT probe LAYOUT VALKEY", Reply::Array(Vec::new()))]);
    let most = client.run("BF.INFO probe MAXSCALEDCAPACITY").int();
    assert!(most > 1000, "{most}");
    client.answers(&[
        (&format!("BF.RESERVE a 0.01 100 VALIDATESCALETO {most}"), ok()),
        (
            &format!("BF.INSERT b VALIDATESCALETO {most}"),
            Reply::Array(Vec::new()),
        ),
        (&format!("BF.INSERT c VALIDATESCALETO {most} ITEMS a"), array([1])),
        (
            &format!("BF.ADDPACKED d VALIDATESCALETO {most} COUNT LINES a"),
            1.into(),
        ),
        ("SET text value", ok()),
    ]);
    // The check comes first even if the key exists, whatever its type, or must not be created: so it does in
    // valkey-bloom.
    for key in ["new", "a", "text"] {
        for (options, text) in [
            (&*format!("VALIDATESCALETO {}", most + 1), NO_ROOM),
            ("CAPACITY 1 TIGHTENING 1e-200 VALIDATESCALETO 1000", NO_RATE),
            (
                "VALIDATESCALETO 1000 NONSCALING LAYOUT VALKEY",
                "ERR VALIDATESCALETO and NONSCALING exclude each other",
            ),
        ] {
            for line in [
                format!("BF.INSERT {key} {options}"),
                format!("BF.INSERT {key} {options} ITEMS z"),
                format!("BF.INSERT {key} NOCREATE {options} ITEMS z"),
                format!("BF.ADDPACKED {key} {options} LINES z"),
            ] {
                client.refuses(key, &[(&line, text)]);
            }
        }
        let too_much = format!("0.01 100 VALIDATESCALETO {}", most + 1);
        client.refuses(
            key,
            &[
                (&format!("BF.RESERVE {key} {too_much}"), NO_ROOM),
                (&format!("BF.PLAN {too_much}"), NO_ROOM),
            ],
        );
    }
    client.answers(&[("EXISTS new", 0.into())]);
    // What it may have it gets.
    let added = add(&mut client, "BF.MADD a", &numbered("", 0, 1000));
    assert!(added > 900, "{added}");
    // A replica does not check again what its primary allowed: it would lose the items.
    let server = Server::with().module_args("bf-max-filter-bytes 10000").start();
    let insert = "return redis.call('BF.INSERT',KEYS[1],'VALIDATESCALETO','1000000','ITEMS','a')";
    let mut told = wire(&["BF.INSERT", "told", "VALIDATESCALETO", "1000000", "ITEMS", "a"]);
    told.extend(wire(&["EVAL", insert, "1", "scripted"]));
    Primary::of(told).lead(&server);
    server
        .client()
        .answers(&[("BF.EXISTS told a", 1.into()), ("BF.EXISTS scripted a", 1.into())]);
    // Without the option it is the layers that are too many or too large.
    let server = Server::start();
    server.client().refuses(
        "new",
        &[
            (
                "BF.INSERT new CAPACITY 1 EXPANSION 1 TIGHTENING 0.9999 VALIDATESCALETO 5000",
                "ERR the filter cannot grow to VALIDATESCALETO with 1100 layers: a larger CAPACITY or EXPANSION needs \
                 fewer",
            ),
            (
                "BF.INSERT new VALIDATESCALETO 9223372036854775807",
                "ERR the filter cannot grow to VALIDATESCALETO: its capacity would be above 9223372036854775807",
            ),
        ],
    );
}

// ---- BF.LOAD and the data type -----------------------------------------------------------------------

/// What BF.LOAD takes, as valkey-bloom wrote it.
fn recorded() -> &'static [u8] {
    let default = STORED.iter().find(|stored| stored.key == "default");
    &default.unwrap().load
}

fn put(client: &mut Client, key: &str, data: &[u8]) -> Reply {
    client.call(&[b"BF.LOAD", key.as_bytes(), data])
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> Reply {
    client.call(&[b"RESTORE", key.as_bytes(), b"0", payload])
}

fn lines(server: &Server, part: &str) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(part));
    lines
        .map(|line| line[line.find("<bf> ").unwrap() + 5..].to_owned())
        .collect()
}

/// A filter that is too large for one argument would be missing from the file, or the file not be read.
#[test]
#[serial(memory)]
fn a_filter_that_is_too_large_for_one_argument_is_rewritten_in_chunks() {
    let mut server = as_commands().start();
    let mut client = server.client();
    // At 0.01 an item takes 1.2 bytes, and BF.LOAD is used up to 128 MiB.
    client.answers(&[
        ("BF.RESERVE huge 0.01 120000000 LAYOUT VALKEY", ok()),
        ("BF.ADD huge item", 1.into()),
    ]);
    let before = client.run("DEBUG DIGEST-VALUE huge");
    rewrite(&mut client);
    let files: Vec<_> = paths(&server)
        .iter()
        .flat_map(|path| fs::read(path).unwrap())
        .collect();
    let count = |word: &[u8]| files.windows(word.len()).filter(|window| *window == word).count();
    assert_eq!(count(b"\nBF.LOAD\r\n"), 0);
    assert!((2..10).contains(&count(b"BF.LOADCHUNK")));
    server.kill9();
    server.revive();
    server.client().answers(&[("DEBUG DIGEST-VALUE huge", before)]);
}

/// A client that guesses would get a filter that loses items; an operator would not learn what is wrong with a file.
/// (Each field is tested in the core.)
#[test]
fn bad_data_is_refused_in_words_and_makes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let data = recorded();
    let changed = |at: usize, byte: u8| {
        let mut changed = data.to_vec();
        changed[at] = byte;
        changed
    };
    let (longer, early) = ([data, b"x"].concat(), "the stream ends early");
    for (number, (data, why)) in (1..).zip([
        (Vec::new(), early),
        (data[..9].to_vec(), early),
        (data[..data.len() - 1].to_vec(), early),
        (longer, "bad field: length"),
        (changed(0, 2), "format version 2 is not known"),
        (changed(21, 2), "bad field: random seed"),
        (changed(38, 2), "bad field: layer version"),
    ]) {
        assert_eq!(
            put(&mut client, "key", &data),
            error(&format!("ERR bad data: {why}"))
        );
        assert_eq!(figure(&mut client, "failed_loads"), number, "{why}");
    }
    client.answers(&[("EXISTS key", 0.into())]);
    assert_eq!(
        ["filters", "valkey_loads"].map(|name| figure(&mut client, name)),
        [0, 0]
    );
    assert_eq!(put(&mut client, "key", data), ok());
    assert_eq!(figure(&mut client, "valkey_loads"), 1);
}

/// A filter that is in use, or somebody else's data, would be overwritten.
#[test]
fn a_key_that_is_there_is_not_loaded_into() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.ADD blocked item", 1.into()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
        ("BF.RESERVE valkey 0.01 100 LAYOUT VALKEY", ok()),
        ("SET text value", ok()),
        ("RPUSH list value", 1.into()),
    ]);
    for (key, text) in [
        ("blocked", BUSY),
        ("classic", BUSY),
        ("valkey", BUSY),
        ("text", WRONG_TYPE),
        ("list", WRONG_TYPE),
    ] {
        let before = client.dump(key);
        for data in [recorded(), &b"nonsense"[..]] {
            assert_eq!(put(&mut client, key, data), error(text), "{key}");
        }
        assert_eq!(client.dump(key), before, "{key}");
    }
    for line in ["BF.LOAD", "BF.LOAD key", "BF.LOAD key data more"] {
        assert_eq!(client.run(line), error(&arity("BF.LOAD")), "{line}");
    }
    assert_eq!(figure(&mut client, "failed_loads"), 0);
}

/// A replica would miss a filter, or a program that watches the key would not see it come.
#[test]
fn a_load_reaches_replicas_and_who_watches() {
    let primary = Server::with().config("notify-keyspace-events", "KEAd").start();
    let replica = Server::with()
        .module_args("bf-max-filter-bytes 1 bf-seed 5 bf-layout classic")
        .replica_of(&primary)
        .start();
    let (mut client, mut watcher) = (primary.client(), primary.client());
    watcher.run("PSUBSCRIBE __keyevent@0__:*");
    in_step(&primary, &replica);
    assert_eq!(put(&mut client, "key", recorded()), ok());
    assert_eq!(put(&mut client, "key", recorded()), error(BUSY));
    client.answers(&[("BF.MADD key g i g", array([1, 1, 0]))]);
    let mut event = || {
        watcher.receive().unwrap().elements()[2..]
            .iter()
            .map(Reply::text)
            .collect::<Vec<_>>()
    };
    assert_eq!(event(), ["__keyevent@0__:bf.load", "key"]);
    assert_eq!(event(), ["__keyevent@0__:bf.add", "key"]);
    in_step(&primary, &replica);
    assert_eq!(replica.client().dump("key"), client.dump("key"));
    let digest = client.run("DEBUG DIGEST-VALUE key");
    replica.client().answers(&[("DEBUG DIGEST-VALUE key", digest)]);
    assert_eq!(lines(&replica, "succeeded originally"), Vec::<String>::new());

    // What comes with the first transfer.
    let late = Server::with().replica_of(&primary).start();
    in_step(&primary, &late);
    assert_eq!(late.client().dump("key"), client.dump("key"));
}

/// Whoever may send BF.LOAD or RESTORE could take all memory of the server.
#[test]
fn loads_and_payloads_are_held_to_the_limit_of_a_filter() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE large 0.01 100000 LAYOUT VALKEY", ok())]);
    let dump = client.dump("large");
    let data = one_layer(100_000);
    assert_eq!(put(&mut client, "loaded", &data), ok());
    client.answers(&[("DEL loaded", 1.into())]);
    let name = Server::option("max-filter-bytes");
    if client.run(&format!("CONFIG SET {name} 100000")) != ok() {
        return;
    }
    let refused = figure(&mut client, "refused_creations");
    assert_eq!(put(&mut client, "new", &data), error(NO_CREATION));
    assert_eq!(restore(&mut client, "new", dump.bytes()), error(BAD_FORMAT));
    client.answers(&[
        ("EXISTS new", 0.into()),
        ("COPY large new", error("ERR module key failed to copy")),
    ]);
    assert_eq!(put(&mut client, "small", recorded()), ok());
    assert_eq!(figure(&mut client, "refused_creations"), refused + 3);
    assert_eq!(figure(&mut client, "failed_loads"), 0);
    client.answers(&[(&format!("CONFIG SET {name} 0"), ok())]);
    assert_eq!(put(&mut client, "new", &data), ok());
}

/// What BF.LOAD takes to make an empty filter of one layer for so many items at 0.01.
fn one_layer(items: u64) -> Vec<u8> {
    let bits = -(items as f64) * 0.01_f64.ln() / 2_f64.ln().powi(2);
    let bytes = (bits / 8.0).ceil() as u64;
    let mut data = vec![1, 2, 0, 0, 0];
    data.extend(0.01_f64.to_le_bytes());
    data.extend(0.5_f64.to_le_bytes());
    data.push(1);
    data.extend(1_u64.to_le_bytes());
    data.extend((45 + bytes).to_le_bytes());
    data.push(1);
    data.extend(bytes.to_le_bytes());
    data.extend(7_u32.to_le_bytes());
    data.extend([9; 32]);
    data.resize(data.len() + bytes as usize, 0);
    data.extend(0_u64.to_le_bytes());
    data.extend(items.to_le_bytes());
    data
}

/// A server would go over its `maxmemory`, or refuse what fits.
#[test]
#[serial(memory)]
fn loads_and_payloads_are_held_to_what_is_left_of_maxmemory() {
    let server = Server::start();
    let mut client = server.client();
    let base = client.used_memory();
    let data = one_layer(7_000_000);
    let size = data.len() as u64;
    assert_eq!(put(&mut client, "key", &data), ok());
    let payload = client.dump("key");
    let leave = |client: &mut Client, bytes: u64| {
        client.run("CONFIG SET maxmemory 0");
        client.run("DEL key");
        // The server keeps what a client sent until the client goes, or for some seconds.
        *client = server.client();
        until("all is freed", || client.used_memory() < base + 1_000_000);
        let limit = client.used_memory().unsigned_abs() + bytes;
        client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
    };
    // How much the argument takes until the command is done is the server's matter: it refuses that, or there is no room
    // for the filter besides, and at last there is.
    let mut refused = 0;
    for parts in 8.. {
        leave(&mut client, parts * size / 8);
        let reply = put(&mut client, "key", &data);
        if reply == ok() {
            break;
        }
        assert!(parts < 40, "{reply:?}");
        let is_ours = reply == error(NO_CREATION);
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert!(is_ours || reply == error(oom), "{reply:?}");
        refused += u32::from(is_ours);
        client.answers(&[("EXISTS key", 0.into())]);
    }
    assert!(refused > 0);
    leave(&mut client, size);
    assert_eq!(restore(&mut client, "key", payload.bytes()), error(BAD_FORMAT));
    // The payload of an empty one is short, and the server holds its bits before anybody is asked.
    leave(&mut client, 3 * size / 2);
    assert_eq!(restore(&mut client, "key", payload.bytes()), ok());
}

/// A union would be lost, or the server hold a filter under a type that it is not of; or an end that was set for the
/// earlier filter would delete it.
#[test]
fn a_filter_of_the_other_type_takes_the_place_of_one() {
    let primary = Server::start();
    let replica = Server::with().replica_of(&primary).start();
    let mut client = primary.client();
    client.answers(&[
        ("BF.RESERVE one 0.01 100 SEED 1", ok()),
        ("BF.RESERVE other 0.01 100 SEED 1", ok()),
        ("BF.MADD one a b", array([1, 1])),
        ("BF.MADD other b c", array([1, 1])),
    ]);
    for (line, type_of, found) in [
        ("BF.MERGE key 2 one other OVERRIDE", "MBbloom--", [1, 1, 1, 0]),
        ("BF.INTERSECT key 2 one other", "MBbloom--", [0, 1, 0, 0]),
    ] {
        // A large one is freed in the background.
        for capacity in [100, 2_000_000] {
            client.run("DEL key");
            let data = one_layer(capacity);
            assert_eq!(put(&mut client, "key", &data), ok());
            client.answers(&[
                ("BF.ADD key x", 1.into()),
                ("EXPIRE key 1000", 1.into()),
                (line, ok()),
                ("TYPE key", Reply::Simple(type_of.into())),
                ("TTL key", (-1).into()),
                ("BF.MEXISTS key a b c x", array(found)),
            ]);
            until("the earlier filter is freed", || {
                figure(&mut primary.client(), "filters") == 3
            });
            in_step(&primary, &replica);
            assert_eq!(replica.client().dump("key"), client.dump("key"), "{line}");
            replica.client().answers(&[("TTL key", (-1).into())]);
        }
    }
    // The expiry stays if the replacing filter has the same data type.
    client.run("DEL key");
    assert_eq!(put(&mut client, "key", recorded()), ok());
    client.answers(&[
        ("PEXPIREAT key 4000000000000", 1.into()),
        ("BF.RESET key", ok()),
        ("TYPE key", Reply::Simple("bloomfltr".into())),
        ("BF.CARD key", 0.into()),
        ("BF.ADD key a", 1.into()),
    ]);
    assert!(client.run("PTTL key").int() > 1_000_000_000);
    in_step(&primary, &replica);
    assert_eq!(replica.client().dump("key"), client.dump("key"));
}
