//! Filters with a window, where the server's clock, its memory and its figures are the point. What a window keeps and
//! forgets is tested in the core, what clients, replicas and files get of one in `states`.

use crate::client::clock;
use crate::client::{Reply, array, ok};
use crate::filters::figure;
use crate::server::{Server, until};
use crate::support::windows::{SLICE, WINDOW, slices};

fn numbered(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|item| format!("item:{item:07}")).collect()
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
        let full = client.run("BF.INFO key FULL");
        let figures = ["Capacity", "Number of filters", "Number of items inserted"];
        assert_eq!(figures.map(|name| full.field(name).int()), [100, items, items]);
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
        let at = now - WINDOW / 2 + items * SLICE;
        let line = format!("BF.INSERT key NOCREATE AT {at} ITEMS {items}");
        client.answers(&[(&line, array([1]))]);
    }
}

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
