//! Filters in valkey-bloom's layout: keys of its type, its files and its BF.LOAD.

use std::fs;

use serial_test::serial;

use crate::client::{Client, Reply, WRONG_TYPE, array, error, ok};
use crate::filters::figure;
use crate::server::{Server, until};
use crate::support::aof::{paths, rewrite};
use crate::support::chunks::{load, scandump};
use crate::support::link::in_step;
use crate::support::payload::sealed;

const BUSY: &str = "BUSYKEY Target key name already exists.";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";

/// What valkey-bloom 1.0 wrote into an append-only file that it rewrote, after `BF.INSERT key CAPACITY 4 ERROR 0.1
/// EXPANSION 2 TIGHTENING 0.5 SEED …` of the items a to f; d was found before it was added.
const WRITTEN: &str = "01020000009a9999999999b93f000000000000e03f010200000000000000\
    3000000000000000010300000000000000040000006465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182830d76b2\
    04000000000000000400000000000000\
    3400000000000000010700000000000000050000006465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283\
    1001100010100001000000000000000800000000000000";
/// The payload of its DUMP, without the version and the checksum.
const DUMPED: &str = "07816e5a2899f96dac0102020202049a9999999999b93f04000000000000e03f02010530\
    010300000000000000040000006465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182830d76b2020405\
    34010700000000000000050000006465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283\
    1001100010100002080201 00";
/// The DEBUG DIGEST-VALUE of that filter.
const DIGEST: &str = "3f7d7a7f427520f5687a32fcf123bf76dcddb3a6";

/// Filters of the layout, and how many items go into each.
const KINDS: [(&str, &str, usize); 6] = [
    ("small", "0.01 100", 60),
    ("empty", "0.01 1000", 0),
    ("chain", "0.01 10 EXPANSION 2", 3000),
    ("steep", "0.05 50 EXPANSION 7 SEED 42", 1500),
    ("fixed", "0.001 300 NONSCALING", 250),
    ("large", "1e-9 400000", 1000),
];

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (16 * pair[0] + pair[1]) as u8)
        .collect()
}

fn written() -> Vec<u8> {
    unhex(WRITTEN)
}

fn put(client: &mut Client, key: &str, data: &[u8]) -> Reply {
    client.call(&[b"BF.LOAD", key.as_bytes(), data])
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> Reply {
    client.call(&[b"RESTORE", key.as_bytes(), b"0", payload])
}

fn numbered(key: &str, from: usize, to: usize) -> Vec<String> {
    (from..to).map(|item| format!("{key}:{item}")).collect()
}

fn fill(client: &mut Client, key: &str, from: usize, to: usize) {
    for items in numbered(key, from, to).chunks(500) {
        client.over(&format!("BF.MADD {key}"), items);
    }
}

fn make(client: &mut Client) {
    for (key, parameters, items) in KINDS {
        client.answers(&[(&format!("BF.RESERVE {key} {parameters} LAYOUT VALKEY"), ok())]);
        fill(client, key, 0, items);
    }
}

/// Everything about a filter, bit for bit, and what it answers.
fn whole(client: &mut Client, key: &str, items: &[String]) -> [Reply; 6] {
    [
        client.call(&["TYPE", key]),
        client.dump(key),
        client.call(&["DEBUG", "DIGEST-VALUE", key]),
        client.call(&["BF.INFO", key, "FULL"]),
        client.call(&["BF.DEBUG", key]),
        client.over(&format!("BF.MEXISTS {key}"), items),
    ]
}

fn all(client: &mut Client) -> Vec<[Reply; 6]> {
    let kinds = KINDS.iter();
    kinds
        .map(|(key, _, items)| {
            let items = numbered(key, 0, items + 200);
            let whole = whole(client, key, &items);
            assert_eq!(whole[0], Reply::Simple("bloomfltr".into()), "{key}");
            whole
        })
        .collect()
}

/// The memory of each filter of [`KINDS`], by MEMORY USAGE.
fn usage(client: &mut Client) -> Vec<i64> {
    let kinds = KINDS.iter();
    kinds
        .map(|(key, ..)| client.call(&["MEMORY", "USAGE", key]).int())
        .collect()
}

fn lines(server: &Server, part: &str) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(part));
    lines
        .map(|line| line[line.find("<bf> ").unwrap() + 5..].to_owned())
        .collect()
}

/// Who comes from valkey-bloom would lose his filters, or find items in them that nobody added.
#[test]
fn what_valkey_bloom_wrote_is_the_same_filter_here() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(put(&mut client, "loaded", &written()), ok());
    let payload = sealed(&unhex(DUMPED), &9_u16.to_le_bytes());
    assert_eq!(restore(&mut client, "restored", &payload), ok());
    for key in ["loaded", "restored"] {
        client.answers(&[
            (&format!("TYPE {key}"), Reply::Simple("bloomfltr".into())),
            (
                &format!("DEBUG DIGEST-VALUE {key}"),
                array([Reply::Simple(DIGEST.into())]),
            ),
            (
                &format!("BF.MEXISTS {key} a b c d e f g i"),
                array([1, 1, 1, 1, 1, 1, 0, 0]),
            ),
            (&format!("BF.CARD {key}"), 5.into()),
        ]);
        let dump = client.dump(key);
        let body = &dump.bytes()[..dump.bytes().len() - 10];
        assert_eq!(body, unhex(DUMPED), "{key}");
    }
    client.answers(&[("BF.ADD loaded g", 1.into()), ("BF.ADD restored g", 1.into())]);
    assert_eq!(client.dump("loaded"), client.dump("restored"));
}

/// Filters would be lost or altered by a restart, or by a tool that copies them.
#[test]
fn filters_are_kept_and_moved() {
    let mut server = Server::start();
    let mut client = server.client();
    make(&mut client);
    let (before, taken) = (all(&mut client), usage(&mut client));

    client.answers(&[("DEBUG RELOAD", ok())]);
    assert!(all(&mut client) == before, "DEBUG RELOAD");
    // The system's allocator may give a few bytes more than it was asked for.
    for (now, before) in usage(&mut client).into_iter().zip(taken) {
        assert!(
            (now - before).abs() <= 64 + before / 100,
            "{now} bytes, and {before} before"
        );
    }
    for (key, ..) in KINDS {
        let dump = client.dump(key);
        assert_eq!(restore(&mut client, "restored", dump.bytes()), ok());
        client.answers(&[(&format!("RENAME restored {key}"), ok())]);
    }
    assert!(all(&mut client) == before, "RESTORE");
    for (key, ..) in KINDS {
        client.answers(&[
            (&format!("COPY {key} copied"), 1.into()),
            (&format!("RENAME copied {key}"), ok()),
        ]);
    }
    assert!(all(&mut client) == before, "COPY");
    for (key, ..) in KINDS {
        let chunks = scandump(&mut client, key);
        client.answers(&[(&format!("DEL {key}"), 1.into())]);
        load(&mut client, key, &chunks);
    }
    assert!(all(&mut client) == before, "BF.LOADCHUNK");
    client.answers(&[("SAVE", ok())]);
    server.restart();
    assert!(all(&mut server.client()) == before, "a restart");

    let twin = Server::start();
    for (key, ..) in KINDS {
        let dump = server.client().dump(key);
        assert_eq!(restore(&mut twin.client(), key, dump.bytes()), ok());
    }
    let grown = [&twin, &server].map(|server| {
        let mut client = server.client();
        fill(&mut client, "chain", 3000, 9000);
        fill(&mut client, "steep", 1500, 9000);
        all(&mut client)
    });
    assert!(grown[0] == grown[1], "filters that grow on");
}

/// A server that keeps an append-only file would start without its filters, or with others; and one that is to be
/// readable would hold what valkey-bloom does not know.
#[test]
fn filters_are_in_an_append_only_file_that_was_rewritten() {
    for (preamble, loads) in [("yes", 0), ("no", KINDS.len())] {
        let mut server = Server::with()
            .append_only()
            .config("aof-use-rdb-preamble", preamble)
            .start();
        let mut client = server.client();
        make(&mut client);
        let before = all(&mut client);
        rewrite(&mut client);
        let files: Vec<_> = paths(&server)
            .iter()
            .flat_map(|path| fs::read(path).unwrap())
            .collect();
        let count = |word: &[u8]| files.windows(word.len()).filter(|window| *window == word).count();
        assert_eq!(count(b"\nBF.LOAD\r\n"), loads, "preamble {preamble}");
        assert_eq!(count(b"BF.LOADCHUNK"), 0, "preamble {preamble}");
        assert_eq!(count(b"BF.MADD"), 0, "preamble {preamble}");
        fill(&mut client, "chain", 3000, 5000);
        assert_eq!(put(&mut client, "later", &written()), ok());
        let grown = client.dump("chain");
        server.kill9();
        server.revive();
        let mut client = server.client();
        assert_eq!(client.dump("chain"), grown, "preamble {preamble}");
        client.answers(&[("DEBUG DIGEST-VALUE later", array([Reply::Simple(DIGEST.into())]))]);
        let rest = |all: &[[Reply; 6]]| [&all[..2], &all[3..]].concat();
        assert!(rest(&all(&mut client)) == rest(&before), "preamble {preamble}");
    }
}

/// A filter that is too large for one argument would be missing from the file, or the file not be read.
#[test]
#[serial(memory)]
fn a_filter_that_is_too_large_for_one_argument_is_rewritten_in_chunks() {
    let mut server = Server::with()
        .append_only()
        .config("aof-use-rdb-preamble", "no")
        .start();
    let mut client = server.client();
    // At 0.01 an item takes 1.2 bytes.
    client.answers(&[
        ("BF.RESERVE huge 0.01 500000000 LAYOUT VALKEY", ok()),
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

/// A damaged file, or a client that guesses, would get a filter that loses items or ends the server; an operator would
/// not learn what is wrong with it.
#[test]
fn bad_data_is_refused_in_words_and_makes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let written = written();
    for end in 0..written.len() {
        let reply = put(&mut client, "key", &written[..end]);
        assert_eq!(reply, error("ERR bad data: the stream ends early"), "{end} bytes");
    }
    let doubles = |value: f64| value.to_le_bytes().to_vec();
    let number = |value: u64| value.to_le_bytes().to_vec();
    let field = |name: &str| format!("bad field: {name}");
    let early = "the stream ends early".to_owned();
    for (at, bytes, why) in [
        (0, vec![0], "format version 0 is not known".to_owned()),
        (0, vec![2], "format version 2 is not known".to_owned()),
        // What is said of the filter.
        (1, vec![0; 4], field("layers")),
        (1, vec![3], field("capacity")),
        (5, doubles(0.0), field("error rate")),
        (5, doubles(1.0), field("error rate")),
        (5, doubles(f64::NAN), field("error rate")),
        (13, doubles(0.0), field("tightening ratio")),
        (13, doubles(1.0), field("tightening ratio")),
        (13, doubles(f64::INFINITY), field("tightening ratio")),
        (21, vec![0], field("seed")),
        (21, vec![2], field("random seed")),
        (22, number(0), field("layers")),
        (22, number(1), field("length")),
        (22, number(3), field("items")),
        (22, number(u64::MAX), field("items")),
        // The first layer.
        (30, number(0), early.clone()),
        (30, number(44), early.clone()),
        (30, number(47), field("bytes")),
        (30, number(1 << 40), early.clone()),
        (30, number(u64::MAX), early),
        (38, vec![2], field("layer version")),
        (39, number(2), field("bytes")),
        (39, number(u64::MAX), field("bytes")),
        (47, vec![3, 0, 0, 0], field("probes")),
        (47, vec![0xff; 4], field("probes")),
        (60, vec![0], field("seed")),
        (86, number(3), field("items")),
        (86, number(5), field("items")),
        (94, number(0), field("capacity")),
        (94, number(5), field("probes")),
        (94, number(u64::MAX), field("bytes")),
        // The second.
        (162, number(9), field("items")),
        (162, number(u64::MAX), field("items")),
        (170, number(9), field("capacity")),
        (170, number(u64::MAX), field("capacity")),
        (written.len(), vec![0], field("length")),
    ] {
        let mut data = written.clone();
        data.resize(data.len().max(at + bytes.len()), 0);
        data[at..at + bytes.len()].copy_from_slice(&bytes);
        let reply = put(&mut client, "key", &data);
        assert_eq!(reply, error(&format!("ERR bad data: {why}")), "{bytes:?} at {at}");
    }
    client.answers(&[("EXISTS key", 0.into())]);
    assert_eq!(figure(&mut client, "filters"), 0);
    assert_eq!(figure(&mut client, "valkey_loads"), 0);
    assert_eq!(figure(&mut client, "failed_loads"), written.len() as i64 + 37);
    assert_eq!(put(&mut client, "key", &written), ok());
    assert!(server.is_alive());
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
        for data in [&written()[..], b"nonsense"] {
            assert_eq!(put(&mut client, key, data), error(text), "{key}");
        }
        assert_eq!(client.dump(key), before, "{key}");
    }
    for line in ["BF.LOAD", "BF.LOAD key", "BF.LOAD key data more"] {
        assert_eq!(
            client.run(line),
            error(&crate::client::arity("BF.LOAD")),
            "{line}"
        );
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
    assert_eq!(put(&mut client, "key", &written()), ok());
    assert_eq!(put(&mut client, "key", &written()), error(BUSY));
    client.answers(&[("BF.MADD key g i g", array([1, 1, 0])), ("BF.CARD key", 7.into())]);
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

/// A replica that does not have what its primary has would not be noticed.
#[test]
fn a_replica_that_cannot_load_says_so() {
    let primary = Server::start();
    let replica = Server::with()
        .replica_of(&primary)
        .config("replica-read-only", "no")
        .start();
    in_step(&primary, &replica);
    replica.client().answers(&[("SET key text", ok())]);
    assert_eq!(put(&mut primary.client(), "key", &written()), ok());
    in_step(&primary, &replica);
    assert_eq!(
        lines(&replica, "succeeded originally"),
        [format!(
            "key 'key': BF.LOAD succeeded originally, and failed here: {WRONG_TYPE}"
        )]
    );
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
    assert_eq!(
        restore(&mut client, "new", dump.bytes()),
        error("ERR Bad data format")
    );
    client.answers(&[
        ("EXISTS new", 0.into()),
        ("COPY large new", error("ERR module key failed to copy")),
    ]);
    assert_eq!(put(&mut client, "small", &written()), ok());
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
    assert_eq!(
        restore(&mut client, "key", payload.bytes()),
        error("ERR Bad data format")
    );
    // The payload of an empty one is short, and the server holds its bits before anybody is asked.
    leave(&mut client, 3 * size / 2);
    assert_eq!(restore(&mut client, "key", payload.bytes()), ok());
}

/// Cuts of a payload would make a filter that answers at random.
#[test]
fn payloads_that_end_early_or_lie_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let body = unhex(DUMPED);
    let version = 9_u16.to_le_bytes();
    for end in 10..body.len() {
        let payload = sealed(&body[..end], &version);
        assert_eq!(
            restore(&mut client, "key", &payload),
            error("ERR Bad data format"),
            "{end} bytes"
        );
    }
    // Neither another encoding version, nor the wrong type for these values.
    let mut other = body.clone();
    other[9] ^= 3;
    assert_eq!(
        restore(&mut client, "key", &sealed(&other, &version)),
        error("ERR Bad data format")
    );
    let told = lines(&server, "was not loaded");
    assert_eq!(told.len(), 10, "{told:?}");
    assert_eq!(
        told[0],
        "key 'key': a Bloom filter was not loaded: the stream ends early"
    );
    assert_eq!(restore(&mut client, "key", &sealed(&body, &version)), ok());
    assert!(server.is_alive());
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
    assert_eq!(put(&mut client, "key", &written()), ok());
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

/// A command that cannot work on such a filter would damage it, or leave its user to guess why.
#[test]
fn what_is_not_for_these_filters_is_refused_in_words() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(put(&mut client, "key", &written()), ok());
    client.answers(&[("BF.ADD blocked a", 1.into())]);
    client.refuses(
        "key",
        &[
            ("BF.EXCEPT key a", "ERR exceptions are for LAYOUT BLOCKED only"),
            ("BF.ROTATE key", "ERR the filter has no WINDOW"),
            (
                "BF.MERGE key 1 blocked",
                "ERR destination key has LAYOUT VALKEY: such filters are never combined",
            ),
            (
                "BF.MERGE key 1 key OVERRIDE",
                "ERR source key has LAYOUT VALKEY: such filters are never combined",
            ),
            (
                "BF.MERGE new 2 blocked key",
                "ERR source key has LAYOUT VALKEY: such filters are never combined",
            ),
            (
                "BF.MERGE blocked 1 key",
                "ERR source key has LAYOUT VALKEY: such filters are never combined",
            ),
            (
                "BF.INTERSECT new 2 blocked key",
                "ERR source key has LAYOUT VALKEY: such filters are never combined",
            ),
        ],
    );
    client.answers(&[("EXISTS new", 0.into())]);
}

/// Operators would read figures that miss the filters of one type, or count some for ever.
#[test]
fn both_types_are_counted_together() {
    let mut server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.MADD blocked a b c", array([1, 1, 1])),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
        ("BF.MADD classic a b", array([1, 1])),
    ]);
    assert_eq!(put(&mut client, "valkey", &written()), ok());
    client.answers(&[("BF.ADD valkey g", 1.into()), ("BF.ADD valkey a", 0.into())]);
    fill(&mut client, "valkey", 0, 100);
    assert_eq!(figure(&mut client, "valkey_loads"), 1);
    let is_right = |client: &mut Client| {
        let sum = |field: &str, client: &mut Client| {
            let keys = ["blocked", "classic", "valkey"];
            let each = keys.map(|key| client.call(&["BF.INFO", key, "FULL"]).field(field).int());
            each.iter().sum::<i64>()
        };
        let fields = ["Number of filters", "Size", "Number of items inserted"];
        let [layers, bytes, items] = fields.map(|field| sum(field, client));
        // What was there before a reload may be freed in the background.
        until("the earlier filters are freed", || {
            let figures = ["filters", "layers", "bytes", "items"].map(|name| figure(client, name));
            figures == [3, layers, bytes, items]
        });
    };
    is_right(&mut client);
    client.answers(&[("DEBUG RELOAD", ok())]);
    is_right(&mut client);
    assert_eq!(figure(&mut client, "valkey_loads"), 2);
    client.answers(&[("SAVE", ok())]);
    server.restart();
    let mut client = server.client();
    is_right(&mut client);
    let loads = ["classic_loads", "valkey_loads", "failed_loads"].map(|name| figure(&mut client, name));
    assert_eq!(loads, [1, 1, 0]);
    let line = "Bloom filters of valkey-bloom's layout that were loaded: 1; they keep it, grow by its rules, and can go \
                back";
    // Once for DEBUG RELOAD and once for the start.
    assert_eq!(lines(&server, "valkey-bloom's layout"), [line; 2]);

    client.answers(&[
        ("BF.RESERVE large 0.01 2000000 LAYOUT VALKEY", ok()),
        ("UNLINK large valkey blocked", 3.into()),
    ]);
    until("all is freed", || figure(&mut client, "filters") == 1);
    client.answers(&[("FLUSHALL ASYNC", ok())]);
    until("all is freed", || {
        ["filters", "layers", "bytes", "items"].map(|name| figure(&mut client, name)) == [0; 4]
    });
    client.answers(&[("BF.ADD valkey a", 1.into())]);
}

/// A scan for the filters of one module would miss them, or bring others.
#[test]
fn filters_are_scanned_by_their_type() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.ADD blocked a", 1.into()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
        ("BF.RESERVE valkey 0.01 100 LAYOUT VALKEY", ok()),
    ]);
    for (name, expected) in [
        ("MBbloom--", &["blocked", "classic"][..]),
        ("bloomfltr", &["valkey"]),
    ] {
        let reply = client.run(&format!("SCAN 0 TYPE {name} COUNT 100"));
        let mut keys: Vec<_> = reply.elements()[1].elements().iter().map(Reply::text).collect();
        keys.sort();
        assert_eq!(keys, expected, "{name}");
    }
}
