//! Filters with a window, as a client meets them: what is found and for how long, what each command answers,
//! and what is refused.
//!
//! Slices of the past are made with AT, so that no test waits for them; only where the clock of a question is
//! the point does a window last a second.

use crate::client::clock;
use crate::client::{Client, Reply, array, error, ok};
use crate::filters::figure;
use crate::server::{Server, until};
use crate::support::packed::{Form, bits};
use crate::support::table::FIELDS;
use crate::support::windows::{SLICE, WINDOW, slices};

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
    let mut client = server.client();
    client.answers(&[(
        "BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000 SLICES 10 REFRESH EXPANSION 3",
        ok(),
    )]);
    let now = clock(&mut client);
    for items in 0..3 {
        let values = [100, client.info("key", "Size"), items, items, 3];
        let short = client.run("BF.INFO key").fields();
        let expected = FIELDS.map(str::to_owned).into_iter().zip(values.map(Reply::from));
        assert_eq!(short, expected.collect::<Vec<_>>());
        for (word, value) in ["CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION"]
            .iter()
            .zip(values)
        {
            client.answers(&[(&format!("BF.INFO key {word}"), array([value]))]);
        }
        let full = client.run("BF.INFO key FULL");
        assert_eq!(full.fields()[..5], short);
        let [fill, estimate] = ["Fill ratio", "Estimated error rate"].map(|name| full.field(name).number());
        assert!(
            (0.0..1.0).contains(&fill) && (fill > 0.0) == (items > 0),
            "a fill ratio of {fill}"
        );
        assert!((0.0..=1e-9).contains(&estimate), "an estimate of {estimate}");
        let layers = full.field("Layers");
        assert_eq!(layers.elements().len(), items as usize);
        for (number, layer) in (0..).zip(layers.elements()) {
            let opens = now - WINDOW / 2 + number * SLICE;
            let times = ["Opens", "Closes", "Items", "Capacity"].map(|name| layer.field(name).int());
            assert_eq!(times, [opens, opens + SLICE, 1, 10]);
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

// ---- Time ----------------------------------------------------------------------------------------

/// With slices of some milliseconds, hundreds of items in one of them would push the filter's time ahead of the clock, and
/// what is there would be forgotten before its window has passed, or long after it.
#[test]
fn hundreds_of_items_in_a_millisecond_are_found_for_their_window() {
    const WINDOW: i64 = 1000;
    const SLICE: i64 = 16;
    let server = Server::start();
    let mut client = server.client();
    // While a script runs, its clock stands still.
    let script = "for i=1,250 do redis.call('BF.ADD',KEYS[1],ARGV[1]..i);\
                  if i%50==0 then redis.call('COPY',KEYS[1],'copy','REPLACE');\
                  redis.call('RESTORE',KEYS[1],0,redis.call('DUMP','copy'),'REPLACE') end end";
    let mut were_found = false;
    until("an item is asked for in its window", || {
        client.run("DEL key");
        client.answers(&[("BF.RESERVE key 1e-9 1000 SEED 1 WINDOW 1 SLICES 64", ok())]);
        let begin = clock(&mut client);
        client.answers(&[("BF.ADD key first", 1.into())]);
        let mut end = clock(&mut client);
        for turn in 0..8 {
            client.call(&["EVAL", script, "1", "key", &format!("{turn}:")]);
            end = clock(&mut client);
            assert!(
                slices(&mut client, "key").iter().all(|slice| slice.opens <= end),
                "a slice opens ahead of the clock"
            );
        }
        until("all are forgotten", || {
            let before = clock(&mut client);
            let (first, last) = (
                client.run("BF.EXISTS key first"),
                client.run("BF.EXISTS key 7:250"),
            );
            let after = clock(&mut client);
            assert!(
                after >= begin + WINDOW || first == 1.into(),
                "the first is forgotten early"
            );
            assert!(
                before < end + WINDOW + SLICE || last == 0.into(),
                "the last is found too long"
            );
            were_found |= after < begin + WINDOW;
            last == 0.into()
        });
        were_found
    });
}

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
        ("BF.ADD key next", 1.into()),
        (
            "BF.MEXISTS key ahead behind here history next",
            array([1, 1, 1, 1, 1]),
        ),
    ]);
    let one = slices(&mut client, "key");
    assert_eq!((one.len(), one[0].opens, one[0].items), (1, now + WINDOW, 5));
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
    client.answers(&[("BF.ADD key new", 1.into())]);
    until("the memory comes back", || {
        client.used_memory() < empty + taken + (1 << 20)
    });
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
            client.answers(&[("COPY b d", 1.into())]);
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
