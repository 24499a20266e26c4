//! Filters with a window, as a client meets them: what is found and for how long, what each command answers,
//! and what is refused.
//!
//! Slices of the past are made with AT, so that no test waits for them; only where the clock of a question is
//! the point does a window last a second.

use crate::client::clock;
use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok};
use crate::filters::figure;
use crate::server::{Server, until};
use crate::support::aof::rewrite;
use crate::support::chunks::scandump;
use crate::support::packed::{Form, bits};
use crate::support::table::FIELDS;
use crate::support::windows::{SLICE, WINDOW, slices};

const NOT_FOUND: &str = "ERR not found";
const NO_WINDOW: &str = "ERR the filter has no WINDOW";
const MANY_SLICES: &str = "ERR the filter has 256 slices that have not expired, and can have no more";
const TIME_RANGE: &str = "ERR time must be in the range [0, 4611686018427387904]";
const SLICES_RANGE: &str = "ERR slices must be in the range [2, 64]";
const WINDOW_RANGE: &str = "ERR window must be in the range [1, 4294967295]";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";

/// The newest time that there is.
const LATEST: i64 = 1 << 62;

/// How they are reserved: a false positive would be a bug.
const RESERVE: &str = "BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000 SLICES 10";

/// Adds an item at a time; whether it was new.
fn add_at(client: &mut Client, at: i64, item: &str) -> i64 {
    let added = client.run(&format!("BF.INSERT key NOCREATE AT {at} ITEMS {item}"));
    added.elements()[0].int()
}

fn numbered(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|item| format!("item:{item:07}")).collect()
}

// ---- Every command -------------------------------------------------------------------------------

/// A program that asks with one command would be told something else than one that asks with another, or the
/// first items of a window would be lost.
#[test]
fn every_command_works_on_a_window() {
    let server = Server::start();
    let mut client = server.client();
    for (make, made) in [
        (RESERVE, ok()),
        (
            "BF.INSERT key WINDOW 1000 SLICES 10 ERROR 1e-9 CAPACITY 100 SEED 1 ITEMS a",
            array([1]),
        ),
        (
            "BF.ADDPACKED key ERROR 1e-9 REFRESH SLICES 10 WINDOW 1000 LINES COUNT a",
            1.into(),
        ),
    ] {
        client.answers(&[("DEL key", i64::from(client_has(&server)).into()), (make, made)]);
        client.run("BF.ADD key a");
        client.answers(&[
            ("BF.ADD key a", 0.into()),
            ("BF.ADD key b", 1.into()),
            ("BF.MADD key a c b d", array([0, 1, 0, 1])),
            ("BF.INSERT key ITEMS d e", array([0, 1])),
            ("BF.INSERT key NOCREATE CAPACITY 5 ITEMS e f", array([0, 1])),
            ("BF.ADDPACKED key LINES f\ng", Reply::Bulk(b"\x40".to_vec())),
            ("BF.ADDPACKED key WIDTH 1 COUNT ghi", 2.into()),
            ("BF.ADDPACKED key PREFIXED COUNT \u{1}\0\0\0j", 1.into()),
            ("BF.ADDPACKED key LINES ''", Reply::Bulk(Vec::new())),
            ("BF.EXISTS key a", 1.into()),
            ("BF.EXISTS key x", 0.into()),
            (
                "BF.MEXISTS key a b c d e f g h i j x",
                array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]),
            ),
            ("BF.EXISTSPACKED key LINES a\nx\nj", Reply::Bulk(b"\xa0".to_vec())),
            ("BF.EXISTSPACKED key WIDTH 1 COUNT abcdefghijxyz", 10.into()),
            ("BF.EXISTSPACKED key PREFIXED COUNT \u{1}\0\0\0j", 1.into()),
            ("BF.CARD key", 10.into()),
            ("TYPE key", Reply::Simple("MBbloom--".to_owned())),
        ]);
        assert_eq!(client.info("key", "Number of items inserted"), 10);
        let slices = slices(&mut client, "key");
        assert_eq!(slices.iter().map(|slice| slice.items).sum::<i64>(), 10, "{make}");
        assert_eq!(client.run("BF.DEBUG key").elements()[0].text(), "size:10");
        let key = client.dump("key");
        for (line, reply) in [
            ("COPY key copy", 1.into()),
            ("RENAME copy other", ok()),
            ("DEBUG RELOAD", ok()),
        ] {
            client.answers(&[(line, reply)]);
        }
        assert_eq!(client.dump("other"), key);
        client.answers(&[("UNLINK other", 1.into())]);
        for form in Form::ALL {
            let items: Vec<_> = numbered(0, 50)
                .iter()
                .map(|item| form.fit(item.as_bytes()))
                .collect();
            let question = format!("BF.EXISTSPACKED key {}", form.words());
            let before = bits(&client.over(&question, &[form.pack(&items)]), items.len());
            let added = client.over(
                &format!("BF.ADDPACKED key {}", form.words()),
                &[form.pack(&items)],
            );
            let added = bits(&added, items.len());
            let distinct: std::collections::HashSet<_> = items.iter().collect();
            let known = before.iter().filter(|found| **found).count();
            assert!(known == 0 || form != Form::Lines, "{form:?}");
            assert!(
                added.iter().filter(|new| **new).count() <= distinct.len(),
                "{form:?}"
            );
            let count = client.over(&format!("{question} COUNT"), &[form.pack(&items)]);
            assert_eq!(count, 50.into(), "{form:?}");
        }
    }
}

/// Whether the server has the key.
fn client_has(server: &Server) -> bool {
    server.client().run("EXISTS key") == 1.into()
}

/// In RESP3 a program would get other types than of a filter without a window.
#[test]
fn replies_have_the_types_of_other_filters() {
    let server = Server::start();
    let mut client = server.client3();
    client.answers(&[
        (RESERVE, ok()),
        ("BF.ADD key a", true.into()),
        ("BF.ADD key a", false.into()),
        ("BF.MADD key a b", array([false, true])),
        ("BF.INSERT key ITEMS b c", array([false, true])),
        ("BF.EXISTS key a", true.into()),
        ("BF.MEXISTS key a x", array([true, false])),
        ("BF.ADDPACKED key LINES COUNT c\nd", 1.into()),
        ("BF.EXISTSPACKED key LINES c\nx", Reply::Bulk(b"\x80".to_vec())),
        ("BF.CARD key", 4.into()),
        ("BF.ROTATE key", ok()),
    ]);
    assert!(client.run("BF.INFO key").is_map());
    let single = client.run("BF.INFO key ITEMS");
    if Server::version().modules_have_resp3() {
        assert_eq!(single.field("Number of items inserted"), 4.into());
    } else {
        assert_eq!(single, array([4]));
    }
}

/// Typed clients would refuse a field more; a dashboard would show of an empty window what it cannot read.
#[test]
fn info_tells_of_the_window() {
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    client.answers(&[(
        "BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000 SLICES 10 REFRESH EXPANSION 3",
        ok(),
    )]);
    let now = clock(&mut client);
    for items in 0..3 {
        for (words, names) in [("", &FIELDS[..]), ("FULL", &[])] {
            let line = format!("BF.INFO key {words}");
            let (flat, map) = (client.run(line.trim_end()), client3.run(line.trim_end()));
            assert!(map.is_map());
            let (flat, map) = (flat.fields(), map.fields());
            let keys: Vec<_> = map.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                flat.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
                keys
            );
            if words.is_empty() {
                assert_eq!(keys, names);
            } else {
                let more = [
                    "Error rate",
                    "Layout",
                    "Seed",
                    "Bits set",
                    "Fill ratio",
                    "Estimated error rate",
                    "Exceptions",
                    "Window",
                    "Slices",
                    "Refresh",
                    "Layers",
                ];
                assert_eq!(keys, [&FIELDS[..], &more].concat());
            }
        }
        for (word, name, value) in [
            ("CAPACITY", FIELDS[0], 100),
            ("FILTERS", FIELDS[2], items),
            ("ITEMS", FIELDS[3], items),
            ("EXPANSION", FIELDS[4], 3),
        ] {
            client.answers(&[(&format!("BF.INFO key {word}"), array([value]))]);
            assert_eq!(client.info("key", name), value);
        }
        let size = client.info("key", "Size");
        client.answers(&[("BF.INFO key SIZE", array([size]))]);
        let full = client3.run("BF.INFO key FULL");
        for (name, value) in [
            ("Window", 1000.into()),
            ("Slices", 10.into()),
            ("Refresh", true.into()),
        ] {
            assert_eq!(full.field(name), value, "{name}");
        }
        let [fill, estimate] = ["Fill ratio", "Estimated error rate"].map(|name| full.field(name).number());
        let is_empty = items == 0;
        assert_eq!(fill > 0.0 && fill < 1.0, !is_empty, "a fill ratio of {fill}");
        assert_eq!(fill == 0.0, is_empty, "a fill ratio of {fill}");
        assert!((0.0..=1e-9).contains(&estimate), "an estimate of {estimate}");
        let layers = full.field("Layers");
        assert_eq!(layers.elements().len(), items as usize);
        for (number, layer) in layers.elements().iter().enumerate() {
            let names: Vec<_> = layer.fields().into_iter().map(|(name, _)| name).collect();
            let expected = [
                "Layout",
                "Capacity",
                "Items",
                "Bytes",
                "Bits set",
                "Probes",
                "Lines",
                "Error rate",
                "Opens",
                "Closes",
            ];
            assert_eq!(names, expected);
            let opens = now - WINDOW / 2 + number as i64 * SLICE;
            assert_eq!(layer.field("Opens"), opens.into());
            assert_eq!(layer.field("Closes"), (opens + SLICE).into());
            assert_eq!(layer.field("Items"), 1.into());
            assert_eq!(layer.field("Capacity"), 10.into());
        }
        add_at(&mut client, now - WINDOW / 2 + items * SLICE, &items.to_string());
    }
}

// ---- Forgetting ----------------------------------------------------------------------------------

/// The point of a window: an item would be forgotten while it is needed, or be found for ever; questions
/// would change the filter, on a replica too; or memory would not come back.
#[test]
fn items_are_found_for_the_window_and_then_forgotten() {
    const WINDOW: i64 = 1000;
    const SLICE: i64 = 250;
    let server = Server::start();
    let mut client = server.client();
    let (mut digest, mut size) = (ok(), 0);
    // A machine that is busy may ask for the first time when the window is over: then there is another filter.
    until("the items are found, and then they are forgotten", || {
        client.run("DEL key");
        client.answers(&[
            ("BF.RESERVE key 1e-9 1000 SEED 1 WINDOW 1 SLICES 4", ok()),
            ("BF.MADD key a b", array([1, 1])),
        ]);
        let one_slice = slices(&mut client, "key");
        let Some([begin, end]) = one_slice.first().map(|slice| [slice.opens, slice.closes]) else {
            return false;
        };
        assert_eq!(end - begin, SLICE);
        (digest, size) = (client.dump("key"), client.info("key", "Size"));
        assert_eq!(figure(&mut client, "bytes"), size);
        let mut were_found = false;
        until("they are forgotten", || {
            let before = clock(&mut client);
            let mut found = vec![
                client.run("BF.EXISTS key a").int() == 1,
                client.run("BF.MEXISTS key b x") == array([1, 0]),
                client.run("BF.EXISTSPACKED key LINES COUNT a\nb").int() == 2,
                client.run("BF.CARD key").int() == 2,
                client.info("key", "Number of items inserted") == 2,
                client.info("key", "Number of filters") == 1,
            ];
            let after = clock(&mut client);
            if after < end + WINDOW {
                assert_eq!(found, [true; 6], "{} ms after the first", before - begin);
                were_found = true;
            } else if before >= end + WINDOW {
                assert_eq!(found, [false; 6], "{} ms after the first", before - begin);
            }
            found.dedup();
            found == [false]
        });
        were_found
    });
    // Nothing but the answers has changed, and all bytes are still there.
    assert_eq!(client.dump("key"), digest);
    assert_eq!(client.info("key", "Size"), size);
    assert_eq!(figure(&mut client, "layers_dropped"), 0);
    assert_eq!(client.run("BF.DEBUG key").elements()[0].text(), "size:2");
    let full = client.run("BF.INFO key FULL");
    assert_eq!(full.field("Layers"), Reply::Array(Vec::new()));
    assert_eq!(
        (full.field("Bits set"), full.field("Fill ratio").number()),
        (0.into(), 0.0)
    );
    // An item that is added again is new.
    let mut added = Vec::new();
    until("it is asked for in its window", || {
        let before = clock(&mut client);
        added.push(client.run("BF.ADD key a").int());
        let found = client.run("BF.MEXISTS key a b");
        let held = slices(&mut client, "key").len();
        let is_in_time = added.last() == Some(&1) && clock(&mut client) < before + WINDOW;
        if is_in_time {
            assert_eq!((found, held), (array([1, 0]), 1));
        }
        is_in_time
    });
    assert_eq!(added[0], 1);
    assert_eq!(client.info("key", "Size"), size);
    assert_eq!(figure(&mut client, "bytes"), size);
    assert_eq!(
        [
            figure(&mut client, "layers"),
            figure(&mut client, "layers_dropped")
        ],
        [1, added.iter().sum()]
    );
}

/// A query of a filter of which some slices have expired would find their items, or miss others.
#[test]
fn slices_go_one_by_one() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[(RESERVE, ok())]);
    let now = clock(&mut client);
    // The first three are over: their last moment is a window ago, and some seconds more.
    let begin = now - WINDOW - 3 * SLICE - 20_000;
    for slice in 0..14 {
        assert_eq!(
            add_at(&mut client, begin + slice * SLICE, &format!("s{slice}")),
            1
        );
    }
    // At the time of the newest of them only one was.
    let first: Vec<_> = slices(&mut client, "key")
        .iter()
        .map(|slice| slice.opens)
        .collect();
    let expected: Vec<_> = (3..14).map(|slice| begin + slice * SLICE).collect();
    assert_eq!(first, expected);
    client.answers(&[
        ("BF.MEXISTS key s0 s1 s2 s3 s4 s13", array([0, 0, 0, 1, 1, 1])),
        ("BF.CARD key", 11.into()),
        // What is there does not end them.
        ("BF.MADD key s4 s13", array([0, 0])),
    ]);
    assert_eq!(slices(&mut client, "key").len(), 11);
    let size = client.info("key", "Size");
    let later = now + 2 * SLICE;
    assert_eq!(add_at(&mut client, later, "new"), 1);
    client.answers(&[("BF.MEXISTS key s4 s5 s6 s13 new", array([0, 1, 1, 1, 1]))]);
    assert!(client.info("key", "Size") < size);
    assert_eq!(
        figure(&mut client, "layers"),
        slices(&mut client, "key").len() as i64
    );
    assert_eq!(figure(&mut client, "bytes"), client.info("key", "Size"));
}

/// An item that comes again and again would be forgotten since it came first, where its owner said that it
/// lives on; or would live on where he did not say so.
#[test]
fn refreshed_items_live_on() {
    let server = Server::start();
    let mut client = server.client();
    for (words, is_refreshed) in [(" REFRESH", true), ("", false)] {
        client.answers(&[("FLUSHALL SYNC", ok()), (&format!("{RESERVE}{words}"), ok())]);
        let begin = clock(&mut client) - WINDOW - 3 * SLICE;
        assert_eq!(add_at(&mut client, begin, "often"), 1);
        assert_eq!(add_at(&mut client, begin, "once"), 1);
        for slice in 1..10 {
            assert_eq!(add_at(&mut client, begin + slice * SLICE, "often"), 0);
        }
        let in_slices = if is_refreshed { 10 } else { 1 };
        assert_eq!(slices(&mut client, "key").len(), in_slices);
        assert_eq!(figure(&mut client, "items"), if is_refreshed { 11 } else { 2 });
        client.answers(&[
            ("BF.EXISTS key often", i64::from(is_refreshed).into()),
            ("BF.EXISTS key once", 0.into()),
        ]);
        assert_eq!(
            figure(&mut client, "items_added"),
            2 * if is_refreshed { 1 } else { 2 }
        );
        client.answers(&[("BF.ADD key often", i64::from(!is_refreshed).into())]);
        assert_eq!(figure(&mut client, "bytes"), client.info("key", "Size"));
        let sum: i64 = slices(&mut client, "key").iter().map(|slice| slice.items).sum();
        assert_eq!(figure(&mut client, "items"), sum);
    }
}

/// A program that starts each day anew could not, or would lose what is not over; a command that is sent
/// twice would be an error.
#[test]
fn rotate_ends_a_slice() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("SET text value", ok()),
        ("BF.RESERVE plain 0.01 100", ok()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
        ("BF.ROTATE", error(&arity("BF.ROTATE"))),
        ("BF.ROTATE missing", error(NOT_FOUND)),
        ("BF.ROTATE text", error(WRONG_TYPE)),
        ("BF.ROTATE plain", error(NO_WINDOW)),
        ("BF.ROTATE classic", error(NO_WINDOW)),
        ("BF.ROTATE plain AT 5", error(NO_WINDOW)),
        (RESERVE, ok()),
    ]);
    let empty = client.dump("key");
    client.answers(&[("BF.ROTATE key", ok())]);
    assert_eq!(client.dump("key"), empty, "nothing to end");
    client.answers(&[("BF.ADD key a", 1.into()), ("BF.ROTATE key", ok())]);
    let ended = client.dump("key");
    let slice = slices(&mut client, "key");
    assert!(slice[0].closes <= clock(&mut client) + 1, "{slice:?}");
    client.answers(&[("BF.ROTATE key", ok())]);
    assert_eq!(client.dump("key"), ended, "it is ended already");
    client.answers(&[
        ("BF.ADD key a", 0.into()),
        ("BF.ADD key b", 1.into()),
        ("BF.MEXISTS key a b", array([1, 1])),
        ("BF.CARD key", 2.into()),
    ]);
    assert_eq!(slices(&mut client, "key").len(), 2);
    // What is over goes, also when there is nothing to end.
    client.answers(&[("DEL key", 1.into()), (RESERVE, ok())]);
    let now = clock(&mut client);
    add_at(&mut client, now - 3 * WINDOW, "over");
    let (size, layers) = (client.info("key", "Size"), figure(&mut client, "layers"));
    client.answers(&[
        ("BF.ROTATE key", ok()),
        ("BF.DEBUG key", array([Reply::Bulk(b"size:0".to_vec())])),
    ]);
    assert!(client.info("key", "Size") < size);
    assert_eq!(figure(&mut client, "layers"), layers - 1);
    // At a time: what has expired by then is dropped.
    for slice in 0..12 {
        add_at(&mut client, now + slice * SLICE, &slice.to_string());
    }
    let at = now + WINDOW + 3 * SLICE;
    client.answers(&[(&format!("BF.ROTATE key AT {at}"), ok())]);
    let left = slices(&mut client, "key");
    assert_eq!((left.len(), left[0].opens), (9, now + 3 * SLICE));
}

/// A server whose program rotates a window that gets no more items would not start again, and have no replica.
#[test]
fn an_ended_window_that_is_over_is_stored() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    for first in ["BF.ROTATE key AT 1000", "BF.ROTATE key AT 1001"] {
        client.answers(&[
            ("FLUSHALL SYNC", ok()),
            (RESERVE, ok()),
            ("BF.INSERT key AT 1000 ITEMS over", array([1])),
            (first, ok()),
            ("BF.ROTATE key", ok()),
        ]);
        assert_eq!(slices(&mut client, "key"), []);
        let payload = client.dump("key");
        let restore = [&b"RESTORE"[..], b"copy", b"0", payload.bytes()];
        assert_eq!(client.call(&restore), ok());
        assert_eq!(client.dump("copy"), payload);
        let header = scandump(&mut client, "key").swap_remove(0).1;
        let load = [&b"BF.LOADCHUNK"[..], b"loaded", b"1", &header];
        assert_eq!(client.call(&load), ok());
        client.answers(&[("COPY key third", 1.into()), ("DEBUG RELOAD", ok())]);
        rewrite(&mut client);
        client.answers(&[("DEBUG LOADAOF", ok())]);
        for key in ["key", "copy", "loaded", "third"] {
            assert_eq!(client.dump(key), payload, "{key}");
            client.answers(&[
                (&format!("BF.ADD {key} new"), 1.into()),
                (&format!("BF.MEXISTS {key} over new"), array([0, 1])),
            ]);
        }
    }
}

/// A script that rotates in a loop would fill the memory with slices, or make a filter that nobody can load.
#[test]
fn slices_have_a_limit() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000", ok())]);
    let begin = clock(&mut client) - 200_000;
    for slice in 0..256 {
        assert_eq!(add_at(&mut client, begin + slice, &format!("item:{slice}")), 1);
        let expected = if slice < 255 { ok() } else { error(MANY_SLICES) };
        let line = format!("BF.ROTATE key AT {}", begin + slice);
        client.answers(&[(&line, expected)]);
    }
    let items: Vec<_> = (0..256).map(|slice| format!("item:{slice}")).collect();
    client.refuses("key", &[("BF.ROTATE key", MANY_SLICES)]);
    // A filter with the most slices takes items, and can be moved.
    client.answers(&[("BF.ADD key more", 1.into()), ("BF.CARD key", 257.into())]);
    let rates = client.run("BF.INFO key FULL").field("Layers");
    let sum: f64 = rates
        .elements()
        .iter()
        .map(|layer| layer.field("Error rate").number())
        .sum();
    assert!(sum <= 1e-9, "{sum}");
    let payload = client.dump("key");
    assert_eq!(
        client.call(&[&b"RESTORE"[..], b"copy", b"0", payload.bytes()]),
        ok()
    );
    assert_eq!(client.dump("copy"), payload);
    client.answers(&[("DEBUG RELOAD", ok()), ("COPY key third", 1.into())]);
    for key in ["key", "copy", "third"] {
        let found = client.over(&format!("BF.MEXISTS {key}"), &items);
        assert!(found.elements().iter().all(|found| *found == 1.into()), "{key}");
    }
    // What is over makes room.
    let later = begin + WINDOW + SLICE + 100;
    client.answers(&[(&format!("BF.ROTATE key AT {later}"), ok())]);
    assert!(slices(&mut client, "key").len() < 200);
}

/// A burst would be refused, or slow down every question for a window; or the filter would break its promise.
#[test]
fn a_burst_is_taken_and_keeps_the_rate() {
    let server = Server::start();
    let mut client = server.client();
    for rate in [0.01, 0.25, 1e-9] {
        client.answers(&[
            ("FLUSHALL SYNC", ok()),
            (
                &format!("BF.RESERVE key {rate} 1000 WINDOW 1000 SLICES 4 SEED 1"),
                ok(),
            ),
        ]);
        let items = numbered(0, 100_000);
        for batch in items.chunks(5000) {
            let data = Form::Lines.pack(batch);
            assert!(matches!(
                client.over("BF.ADDPACKED key LINES COUNT", &[data]),
                Reply::Int(_)
            ));
        }
        for batch in items.chunks(20_000) {
            let data = Form::Lines.pack(batch);
            let found = client.over("BF.EXISTSPACKED key LINES COUNT", &[data]);
            assert_eq!(found, (batch.len() as i64).into());
        }
        let full = client.run("BF.INFO key FULL");
        let layers = full.field("Layers");
        let sum: f64 = layers
            .elements()
            .iter()
            .map(|layer| layer.field("Error rate").number())
            .sum();
        assert!(sum <= rate, "{rate}: {sum}");
        assert!(full.field("Estimated error rate").number() <= rate, "{full:?}");
        assert!(
            layers.elements().len() <= 12,
            "{rate}: {}",
            layers.elements().len()
        );
        let made = slices(&mut client, "key");
        assert_eq!(made.iter().filter(|slice| slice.begins).count(), 1);
        let absent: Vec<_> = (0..20_000).map(|item| format!("absent:{item}")).collect();
        let wrong = client.over("BF.EXISTSPACKED key LINES COUNT", &[Form::Lines.pack(&absent)]);
        let most = rate * 20_000.0 + 4.0 * (rate * 20_000.0).sqrt();
        assert!(wrong.number() <= most, "{rate}: {wrong:?} of 20000");
    }
}

/// A site that grew tenfold would ask ever more layers for each item, for ever.
#[test]
fn a_heavy_stream_has_one_layer_a_slice_after_a_window() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 4000 WINDOW 1000 SLICES 10 SEED 1", ok())]);
    let begin = clock(&mut client) - 3 * WINDOW;
    // Ten times the capacity in each window, a tenth of a slice's in each command.
    for step in 0..300 {
        let at = begin + step * SLICE / 10;
        let items = Form::Lines.pack(&numbered(step as usize * 400, (step as usize + 1) * 400));
        let reply = client.over(
            &format!("BF.ADDPACKED key NOCREATE AT {at} LINES COUNT"),
            &[items],
        );
        assert!(matches!(reply, Reply::Int(350..)), "{reply:?}");
    }
    let made = slices(&mut client, "key");
    let newest = &made[made.len() - 10..];
    assert!(newest.iter().all(|slice| slice.begins), "{made:?}");
    assert_eq!(made.iter().filter(|slice| slice.begins).count(), 11, "{made:?}");
    let full = client.run("BF.INFO key FULL");
    let layers = full.field("Layers");
    let sum: f64 = layers
        .elements()
        .iter()
        .map(|layer| layer.field("Error rate").number())
        .sum();
    assert!(sum <= 0.01, "{sum}");
    assert_eq!(full.field("Capacity"), 4000.into());
    assert_eq!(figure(&mut client, "layers"), made.len() as i64);
}

// ---- Time ----------------------------------------------------------------------------------------

/// Clocks differ and go back: items would be lost with every correction, or one wrong clock would keep all
/// items for years.
#[test]
fn time_never_goes_back_but_from_a_wrong_clock() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[(RESERVE, ok())]);
    let now = clock(&mut client);
    // An hour would be too much for this window; some minutes are not.
    add_at(&mut client, now + WINDOW, "ahead");
    add_at(&mut client, now - WINDOW / 20, "behind");
    client.answers(&[("BF.ADD key here", 1.into())]);
    let one = slices(&mut client, "key");
    assert_eq!((one.len(), one[0].opens, one[0].items), (1, now + WINDOW, 3));
    client.answers(&[("BF.MEXISTS key ahead behind here", array([1, 1, 1]))]);
    // What a client says of the time may be a mistake: no filter forgets for it.
    client.answers(&[
        ("BF.INSERT key NOCREATE AT 5 ITEMS history", array([1])),
        ("BF.ROTATE key AT 5", ok()),
        ("BF.ADD key next", 1.into()),
        (
            "BF.MEXISTS key ahead behind here history next",
            array([1, 1, 1, 1, 1]),
        ),
    ]);
    let two: Vec<_> = slices(&mut client, "key")
        .iter()
        .map(|slice| slice.opens)
        .collect();
    // The first slice closed behind its last item, and the second opened then.
    assert_eq!(two, [now + WINDOW, now + WINDOW + 1]);
    // More than a window and a slice ahead: it counts as added now.
    for ahead in [WINDOW + 2 * SLICE, 3_600_000 * 24 * 365, LATEST - now] {
        client.answers(&[("DEL key", 1.into()), (RESERVE, ok())]);
        add_at(&mut client, now + ahead, "ahead");
        client.answers(&[
            ("BF.EXISTS key ahead", 1.into()),
            ("BF.ADD key ahead", 0.into()),
            ("BF.ADD key here", 1.into()),
            ("BF.MEXISTS key ahead here", array([1, 1])),
        ]);
        let two = slices(&mut client, "key");
        assert_eq!(two.len(), 2, "{two:?}");
        let after = clock(&mut client);
        assert!(
            two.iter().all(|slice| (now..=after).contains(&slice.opens)),
            "{two:?}"
        );
        let payload = client.dump("key");
        assert_eq!(
            client.call(&[&b"RESTORE"[..], b"copy", b"0", payload.bytes()]),
            ok()
        );
        assert_eq!(client.dump("copy"), payload);
        client.answers(&[("DEL copy", 1.into())]);
        // By an hour later both are forgotten.
        add_at(&mut client, after + 2 * WINDOW, "later");
        client.answers(&[("BF.MEXISTS key ahead here later", array([0, 0, 1]))]);
    }
    // The earliest and the latest time.
    for at in [0, 1, LATEST] {
        let line = format!("BF.INSERT first WINDOW 4294967295 SLICES 2 AT {at} ITEMS a");
        client.answers(&[("DEL first", i64::from(at > 0).into()), (&line, array([1]))]);
        assert_eq!(slices(&mut client, "first")[0].opens, at);
        let payload = client.dump("first");
        assert_eq!(
            client.call(&[&b"RESTORE"[..], b"second", b"0", payload.bytes()]),
            ok()
        );
        client.answers(&[("DEL second", 1.into())]);
    }
}

// ---- What is refused -----------------------------------------------------------------------------

/// A mistake would make another filter than was meant, or none without a word of why.
#[test]
fn mistakes_are_errors_and_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let exclusive = |word: &str| format!("ERR {word} and WINDOW exclude each other");
    let words: Vec<(&str, String)> = vec![
        ("WINDOW", "ERR no value for WINDOW".into()),
        (
            "WINDOW ''",
            "ERR bad window: not a whole number of seconds".into(),
        ),
        (
            "WINDOW 1.5",
            "ERR bad window: not a whole number of seconds".into(),
        ),
        ("WINDOW x", "ERR bad window: not a whole number of seconds".into()),
        (
            "WINDOW 1s",
            "ERR bad window: not a whole number of seconds".into(),
        ),
        ("WINDOW -1", WINDOW_RANGE.into()),
        ("WINDOW 0", WINDOW_RANGE.into()),
        ("WINDOW 4294967296", WINDOW_RANGE.into()),
        ("WINDOW 99999999999999999999", WINDOW_RANGE.into()),
        ("WINDOW 5 SLICES", "ERR no value for SLICES".into()),
        ("WINDOW 5 SLICES ''", "ERR bad slices".into()),
        ("WINDOW 5 SLICES 2.0", "ERR bad slices".into()),
        ("WINDOW 5 SLICES 1", SLICES_RANGE.into()),
        ("WINDOW 5 SLICES 0", SLICES_RANGE.into()),
        ("WINDOW 5 SLICES 65", SLICES_RANGE.into()),
        ("WINDOW 5 SLICES 258", SLICES_RANGE.into()),
        ("WINDOW 5 SLICES -2", SLICES_RANGE.into()),
        ("WINDOW 5 SLICES 99999999999999999999", SLICES_RANGE.into()),
        ("WINDOW 5 WINDOW 5", "ERR WINDOW was given twice".into()),
        ("WINDOW 5 SLICES 4 SLICES 4", "ERR SLICES was given twice".into()),
        ("REFRESH WINDOW 5 REFRESH", "ERR REFRESH was given twice".into()),
        ("SLICES 4", "ERR SLICES is for filters with a WINDOW only".into()),
        ("REFRESH", "ERR REFRESH is for filters with a WINDOW only".into()),
        ("WINDOW 5 NONSCALING", exclusive("NONSCALING")),
        ("GROWING WINDOW 5", exclusive("GROWING")),
        ("WINDOW 5 EXPANSION 0", exclusive("EXPANSION 0")),
        (
            "WINDOW 5 LAYOUT CLASSIC",
            "ERR WINDOW is for LAYOUT BLOCKED only".into(),
        ),
        ("WINDOW 5 SLICE 4", "ERR Unknown argument received: SLICE".into()),
    ];
    let commands = |words: &str| {
        [
            format!("BF.RESERVE key 0.01 100 {words}"),
            format!("BF.PLAN 0.01 100 {words}"),
            format!("BF.INSERT key {words} ITEMS a"),
            format!("BF.ADDPACKED key {words} LINES a"),
        ]
    };
    for (words, text) in &words {
        for (number, line) in commands(words).iter().enumerate() {
            // There the next word is the value.
            if number >= 2 && text.starts_with("ERR no value") {
                continue;
            }
            client.refuses("key", &[(line, text)]);
        }
    }
    for (words, text) in [
        ("AT ''", "ERR bad time"),
        ("AT 1.5", "ERR bad time"),
        ("AT now", "ERR bad time"),
        ("AT -1", TIME_RANGE),
        ("AT 4611686018427387905", TIME_RANGE),
        ("AT 9223372036854775808", TIME_RANGE),
        ("AT -99999999999999999999", TIME_RANGE),
        ("AT 5 AT 5", "ERR AT was given twice"),
    ] {
        client.answers(&[("DEL key", 0.into())]);
        for there in [false, true] {
            if there {
                client.answers(&[(RESERVE, ok())]);
                client.refuses("key", &[(&format!("BF.ROTATE key {words}"), text)]);
            }
            client.refuses(
                "key",
                &[
                    (&format!("BF.INSERT key {words} ITEMS a"), text),
                    (&format!("BF.INSERT key WINDOW 5 {words} ITEMS a"), text),
                    (&format!("BF.ADDPACKED key {words} LINES a"), text),
                ],
            );
        }
        client.answers(&[("DEL key", 1.into())]);
        for line in [
            format!("BF.RESERVE key 0.01 100 WINDOW 5 {words}"),
            format!("BF.PLAN 0.01 100 WINDOW 5 {words}"),
        ] {
            client.refuses("key", &[(&line, "ERR Unknown argument received: AT")]);
        }
    }
    client.answers(&[
        (RESERVE, ok()),
        ("BF.ROTATE key AT", error("ERR no value for AT")),
        ("BF.ROTATE key NOW", error("ERR Unknown argument received: NOW")),
        ("BF.ROTATE key ''", error("ERR Unknown argument received: ''")),
        (RESERVE, error("ERR item exists")),
        (&format!("{RESERVE} NX"), Reply::Null),
    ]);
    // What is said of a key that is there plays no part, but must be right.
    client.answers(&[
        ("BF.ADD plain a", 1.into()),
        ("BF.INSERT plain WINDOW 5 AT 5 ITEMS b", array([1])),
        ("BF.ADDPACKED plain WINDOW 5 REFRESH AT 5 LINES COUNT c", 1.into()),
    ]);
    assert_eq!(client.run("BF.INFO plain FULL").fields().len(), 13);
    for (option, text) in [
        (
            "bf-layout classic",
            "ERR WINDOW is for LAYOUT BLOCKED only, and bf-layout is classic",
        ),
        (
            "bf-expansion-factor 0",
            "ERR WINDOW needs an EXPANSION above 0: bf-expansion-factor is 0",
        ),
    ] {
        let server = Server::with().module_args(option).start();
        let mut client = server.client();
        for line in commands("WINDOW 5") {
            client.refuses("key", &[(&line, text)]);
        }
        for line in commands("WINDOW 5 LAYOUT BLOCKED EXPANSION 2") {
            let reply = client.run(&line);
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
    }
}

/// The owner of a server would learn in the middle of a day that a window has no room; or a filter would take
/// more than it may.
#[test]
fn a_window_is_held_to_the_limits() {
    let server = Server::with().module_args("bf-max-filter-bytes 50000").start();
    let mut client = server.client();
    client.refuses(
        "key",
        &[
            ("BF.RESERVE key 0.01 1000000 WINDOW 1000", NO_CREATION),
            ("BF.INSERT key CAPACITY 1000000 WINDOW 1000 ITEMS a", NO_CREATION),
            (
                "BF.ADDPACKED key ERROR 0.01 CAPACITY 1099511627776 WINDOW 1 LINES a",
                NO_CREATION,
            ),
        ],
    );
    client.answers(&[("BF.RESERVE key 0.01 10000 WINDOW 1000 SLICES 4 SEED 1", ok())]);
    let items = numbered(0, 100_000);
    let mut taken = 0;
    let refused = items.chunks(1000).find_map(|batch| {
        let reply = client.over("BF.MADD key", batch);
        let refused = reply
            .elements()
            .last()
            .filter(|last| matches!(last, Reply::Error(_)))
            .cloned();
        taken += reply.elements().len() - usize::from(refused.is_some());
        refused
    });
    assert_eq!(refused, Some(error(NO_GROWTH)));
    assert!(taken > 15_000, "{taken}");
    assert!(client.info("key", "Size") <= 50_000);
    let found = client.over("BF.MEXISTS key", &items[..taken]);
    assert!(found.elements().iter().all(|found| *found == 1.into()));
    // What is over is room for a slice.
    let later = clock(&mut client) + 2 * WINDOW;
    client.answers(&[
        (
            &format!("BF.INSERT key AT {later} ITEMS {}", items[taken]),
            array([1]),
        ),
        (&format!("BF.EXISTS key {}", items[0]), 0.into()),
    ]);
    let figures = ["layers", "bytes"].map(|name| figure(&mut client, name));
    let expected = [
        slices(&mut client, "key").len() as i64,
        client.info("key", "Size"),
    ];
    assert_eq!(figures, expected);
}

/// A full server could not be given room by dropping what has expired, or would take what it has no room for.
#[test]
fn a_full_server_rotates() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        (RESERVE, ok()),
        ("BF.INSERT key AT 1000 ITEMS over", array([1])),
        ("CONFIG SET maxmemory 1", ok()),
    ]);
    let full = error("OOM command not allowed when used memory > 'maxmemory'.");
    client.answers(&[
        ("BF.ADD key new", full.clone()),
        ("BF.INSERT key AT 5000 ITEMS new", full),
        ("BF.EXISTS key over", 0.into()),
        ("BF.ROTATE key", ok()),
    ]);
    assert_eq!(figure(&mut client, "layers"), 0);
    client.answers(&[("CONFIG SET maxmemory 0", ok()), ("BF.ADD key new", 1.into())]);
}

/// Who buys memory by the plan would buy too little.
#[test]
fn a_plan_is_what_a_full_window_takes() {
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    for words in [
        "WINDOW 1000 SLICES 10",
        "WINDOW 1000 SLICES 2 REFRESH",
        "SLICES 4 WINDOW 1000",
    ] {
        // Another filter with the same seed, so that this one's is not counted.
        client.answers(&[("FLUSHALL SYNC", ok()), ("BF.RESERVE other 0.01 1 SEED 1", ok())]);
        let plan = client3.run(&format!("BF.PLAN 0.01 10000 {words} SEED 1"));
        client.answers(&[(&format!("BF.RESERVE key 0.01 10000 {words} SEED 1"), ok())]);
        let empty = client3.run("BF.INFO key FULL");
        for field in ["Capacity", "Error rate", "Expansion rate", "Layout"] {
            assert_eq!(plan.field(field), empty.field(field), "{words}: {field}");
        }
        let stage = plan.field("Stages").elements()[0].clone();
        assert_eq!(stage.field("Items"), 10_000.into());
        // A steady stream for two windows and a slice.
        let begin = clock(&mut client) - 2 * WINDOW;
        let full = empty.field("Layers");
        assert_eq!(full, Reply::Array(Vec::new()));
        let step = WINDOW / 100;
        let mut most = 0;
        for number in 0..210_usize {
            let items = Form::Lines.pack(&numbered(number * 95, (number + 1) * 95));
            let at = begin + number as i64 * step;
            client.over(
                &format!("BF.ADDPACKED key NOCREATE AT {at} LINES COUNT"),
                &[items],
            );
            most = most.max(client.info("key", "Size"));
        }
        assert!(most <= stage.field("Size").int(), "{words}: {most} and {stage:?}");
        assert!(
            most * 10 >= stage.field("Size").int() * 8,
            "{words}: {most} and {stage:?}"
        );
    }
}

/// Memory of many megabytes would not come back when its slice is over, or the server would stand still for
/// it.
#[test]
fn large_slices_give_their_memory_back() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 20000000 WINDOW 1000 SLICES 2", ok())]);
    let empty = client.used_memory();
    client.answers(&[("BF.INSERT key AT 1000 ITEMS over", array([1]))]);
    let size = client.info("key", "Size");
    assert!(size > 10 << 20, "{size}");
    assert!(client.used_memory() > empty + (10 << 20));
    let taken = client.run("MEMORY USAGE key").int();
    for line in [
        "BF.ROTATE key",
        "BF.INSERT key AT 2000 ITEMS over",
        "BF.ADD key new",
    ] {
        assert!(!matches!(client.run(line), Reply::Error(_)), "{line}");
        let expected = if line == "BF.ROTATE key" {
            1 << 20
        } else {
            taken + (1 << 20)
        };
        until("the memory comes back", || {
            client.used_memory() < empty + expected
        });
    }
    assert_eq!(client.info("key", "Size"), size);
    client.answers(&[("BF.MEXISTS key over new", array([0, 1]))]);
}

/// The account of a server would go wrong a little with every slice that goes, until it shows nonsense.
#[test]
fn figures_are_right_while_slices_go() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(figure(&mut client, "windows"), 0);
    let begin = clock(&mut client) - 3 * WINDOW;
    for (key, words) in [("a", ""), ("b", " REFRESH")] {
        let line = format!("BF.RESERVE {key} 0.01 500 SEED 1 WINDOW 1000 SLICES 10{words}");
        client.answers(&[(&line, ok())]);
    }
    client.answers(&[("BF.RESERVE plain 0.01 500", ok())]);
    assert_eq!(
        [figure(&mut client, "windows"), figure(&mut client, "filters")],
        [2, 3]
    );
    for step in 0..60 {
        let at = begin + step * SLICE / 2;
        for key in ["a", "b", "plain"] {
            let from = step as usize * 10;
            let head = format!("BF.INSERT {key} AT {at} ITEMS");
            client.over(
                &head,
                &numbered(from, from + 25 + 100 * usize::from(step % 13 == 0)),
            );
        }
        if step % 20 == 9 {
            client.answers(&[("BF.ROTATE b", ok()), ("COPY b d", 1.into())]);
        }
        if step % 20 == 11 {
            client.answers(&[("UNLINK d", 1.into())]);
        }
        let keys = client.run("KEYS *");
        let mut sums = [0; 3];
        for key in keys.elements().iter().map(Reply::text) {
            let lines = client.call(&["BF.DEBUG", &key]);
            sums[0] += lines.elements().len() as i64 - 1;
            sums[1] += client.info(&key, "Size");
            sums[2] += lines.elements()[0].text()["size:".len()..]
                .parse::<i64>()
                .unwrap();
        }
        until("what is unlinked is gone", || {
            ["layers", "bytes", "items"].map(|name| figure(&mut client, name)) == sums
        });
    }
    let grown = figure(&mut client, "layers_grown");
    assert!(grown > figure(&mut client, "layers_dropped"), "{grown}");
    client.answers(&[("DEL a", 1.into()), ("FLUSHALL SYNC", ok())]);
    for name in ["filters", "windows", "layers", "bytes", "items"] {
        assert_eq!(figure(&mut client, name), 0, "{name}");
    }
}

// ---- Chunks --------------------------------------------------------------------------------------

/// A tool that copies a window while it is in use would get another filter, an error in the middle, or lose
/// items.
#[test]
fn chunks_copy_a_window_that_is_in_use() {
    let server = Server::start();
    let mut client = server.client();
    let load = |client: &mut Client, key: &str, (iterator, bytes): &(i64, Vec<u8>)| {
        let iterator = iterator.to_string();
        client.call(&[b"BF.LOADCHUNK", key.as_bytes(), iterator.as_bytes(), bytes])
    };
    let make = |client: &mut Client| {
        client.answers(&[("FLUSHALL SYNC", ok()), (RESERVE, ok())]);
        let now = clock(client);
        // One that went, one that is over and there, and two that are not over.
        for (before, item) in [
            (3 * WINDOW, "gone"),
            (WINDOW + 2 * SLICE, "over"),
            (WINDOW / 2, "a"),
            (WINDOW / 4, "b"),
        ] {
            assert_eq!(add_at(client, now - before, item), 1);
        }
        assert_eq!(slices(client, "key").len(), 3);
        scandump(client, "key")
    };
    let all = ["key", "copy"];
    // Whole, in any order, and twice.
    for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
        let chunks = make(&mut client);
        assert_eq!(chunks.len(), 4, "a chunk for each layer that is there");
        assert_eq!(load(&mut client, "copy", &chunks[0]), ok());
        client.answers(&[("BF.MEXISTS copy a b", array([0, 0])), ("BF.CARD copy", 2.into())]);
        for at in order.into_iter().chain(order) {
            assert_eq!(load(&mut client, "copy", &chunks[at]), ok());
        }
        let [key, copy] = all.map(|key| client.dump(key));
        assert_eq!(copy, key, "{order:?}");
        // Both go on alike.
        let now = clock(&mut client);
        for key in all {
            client.answers(&[(&format!("BF.INSERT {key} AT {now} ITEMS c"), array([1]))]);
        }
        let [key, copy] = all.map(|key| client.dump(key));
        assert_eq!(copy, key, "{order:?}");
    }
    // The source drops a layer after each of its chunks.
    for drop_after in 0..4 {
        make(&mut client);
        let mut iterator = 0;
        for number in 0.. {
            let chunk = client.call(&["BF.SCANDUMP", "key", &iterator.to_string()]);
            let chunk = (chunk.elements()[0].int(), chunk.elements()[1].bytes().to_vec());
            if chunk.0 == 0 {
                assert!(number >= 3, "{drop_after}: {number} chunks");
                break;
            }
            iterator = chunk.0;
            // The new slice's chunk is of no layer that the copy has.
            let expected = if number >= 4 || number == 3 && drop_after == 0 {
                error("ERR invalid offset - no link found")
            } else {
                ok()
            };
            assert_eq!(
                load(&mut client, "copy", &chunk),
                expected,
                "{drop_after}: {number}"
            );
            if number == drop_after {
                client.answers(&[("BF.ADD key new", 1.into())]);
                assert_eq!(slices(&mut client, "key").len(), 3, "one went, one came");
            }
        }
        client.answers(&[
            ("BF.MEXISTS copy a b over gone", array([1, 1, 0, 0])),
            ("BF.CARD copy", 2.into()),
            ("BF.ADD copy more", 1.into()),
        ]);
    }
    // The copy drops it while its chunks come.
    for drop_before in 1..4 {
        let chunks = make(&mut client);
        for (number, chunk) in chunks.iter().enumerate() {
            if number == drop_before {
                client.answers(&[("BF.ADD copy new", 1.into())]);
            }
            assert_eq!(load(&mut client, "copy", chunk), ok(), "{drop_before}: {number}");
        }
        client.answers(&[
            ("BF.MEXISTS copy a b new over gone", array([1, 1, 1, 0, 0])),
            ("BF.CARD copy", 3.into()),
        ]);
        assert_eq!(slices(&mut client, "copy").len(), 3);
        // An iterator of what went is no place for anything.
        for iterator in ["2", "65", "100"] {
            let before = client.dump("copy");
            client.call(&["BF.LOADCHUNK", "copy", iterator, "x"]);
            assert_eq!(client.dump("copy"), before);
        }
    }
}
