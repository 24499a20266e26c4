//! BF.ADD and BF.MADD.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq};
use proptest::test_runner::{Config, TestRunner};

use crate::client::{Reply, WRONG_TYPE, arity, array, error, ok};
use crate::server::Server;

const FULL: &str = "ERR non scaling filter is full";
const MEMORY: &str = "ERR Insufficient memory to grow filter";

/// The simplest use would fail: add an item, learn whether it is new, and never make a filter beforehand.
#[test]
fn the_first_add_makes_the_filter() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.ADD key item", 1.into()),
        ("BF.ADD key item", 0.into()),
        ("BF.MADD many a b a c", array([1, 1, 0, 1])),
        ("BF.MADD many c d", array([0, 1])),
        ("BF.CARD many", 4.into()),
    ]);
    let single = client.run("BF.INFO key");
    for (field, value) in [
        ("Capacity", 100),
        ("Number of filters", 1),
        ("Number of items inserted", 1),
        ("Expansion rate", 2),
    ] {
        assert_eq!(single.field(field), value.into(), "{field}");
    }
}

/// A client on RESP3 would get numbers where its type says truth values.
#[test]
fn resp3_has_booleans() {
    let server = Server::start();
    server.client3().answers(&[
        ("BF.ADD key item", true.into()),
        ("BF.ADD key item", false.into()),
        ("BF.MADD key item other", array([false, true])),
        ("BF.RESERVE full 0.01 1 NONSCALING SEED 1", ok()),
        ("BF.ADD full a", true.into()),
        ("BF.ADD full b", error(FULL)),
        (
            "BF.MADD full a b c",
            Reply::Array(vec![false.into(), error(FULL)]),
        ),
    ]);
}

/// Binary items, such as hashes and packed numbers, would run into each other.
#[test]
fn items_are_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE key 1e-9 100 SEED 1");
    let long = vec![b' '; 1 << 20];
    let items: [&[u8]; 9] = [
        b"",
        b"\0",
        b"\0\0",
        b"a\0b",
        b"a\0c",
        b"a\r\n",
        b"\xff\xfe",
        b"\xff",
        &long,
    ];
    for item in items {
        assert_eq!(
            client.call(&[&b"BF.EXISTS"[..], b"key", item]),
            0.into(),
            "{}",
            item.escape_ascii()
        );
        assert_eq!(
            client.call(&[&b"BF.ADD"[..], b"key", item]),
            1.into(),
            "{}",
            item.escape_ascii()
        );
    }
    assert_eq!(client.over("BF.MADD key", &items), array([0; 9]));
    client.run("BF.RESERVE other 1e-9 100 SEED 2");
    assert_eq!(client.over("BF.MADD other", &items), array([1; 9]));
}

/// A mistake in a program would overwrite data of another kind, or make keys that nobody asked for.
#[test]
fn what_is_no_add_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let [add, madd] = ["bf.add", "bf.madd"].map(arity);
    client.run("RPUSH list element");
    client.refuses(
        "list",
        &[
            ("BF.ADD list item", WRONG_TYPE),
            ("BF.MADD list item other", WRONG_TYPE),
        ],
    );
    client.refuses(
        "key",
        &[
            ("BF.ADD", &add),
            ("BF.ADD key", &add),
            ("BF.ADD key item other", &add),
            ("BF.MADD", &madd),
            ("BF.MADD key", &madd),
        ],
    );
    assert_eq!(client.run("EXISTS key"), 0.into());
}

/// A filter with a fixed size would take items without end and break its promise, or lose those that it has.
#[test]
fn a_full_nonscaling_filter_takes_no_more() {
    let server = Server::start();
    let mut client = server.client();
    let ends = |answers: &[i64]| {
        let answers = answers.iter().map(|&answer| answer.into());
        Reply::Array(answers.chain([error(FULL)]).collect())
    };
    client.answers(&[
        ("BF.RESERVE key 0.0001 3 NONSCALING SEED 1", ok()),
        ("BF.MADD key a b a c d e a", ends(&[1, 1, 0, 1])),
        ("BF.CARD key", 3.into()),
    ]);
    let full = client.dump("key");
    client.answers(&[
        ("BF.ADD key d", error(FULL)),
        ("BF.ADD key a", 0.into()),
        ("BF.MADD key d", ends(&[])),
        ("BF.MADD key b a d c", ends(&[0, 0])),
        ("BF.MADD key c b a", array([0, 0, 0])),
        ("BF.MEXISTS key a b c d e", array([1, 1, 1, 0, 0])),
        ("BF.INFO key FILTERS", Reply::Array(vec![1.into()])),
    ]);
    assert_eq!(client.dump("key"), full);
}

/// A filter that outgrows its first size would forget items, or refuse them.
#[test]
fn a_chain_grows_by_its_expansion_and_forgets_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<_> = (0..5000).map(|i| format!("item:{i}")).collect();
    for (key, expansion) in [("one", 1), ("two", 2), ("ten", 10)] {
        client.run(&format!("BF.RESERVE {key} 1e-9 100 EXPANSION {expansion} SEED 1"));
        for batch in items.chunks(999) {
            assert_eq!(
                client.over(&format!("BF.MADD {key}"), batch),
                array(vec![1; batch.len()])
            );
        }
        assert_eq!(
            client.over(&format!("BF.MEXISTS {key}"), &items),
            array(vec![1; items.len()])
        );
        let (mut layers, mut capacity, mut newest) = (1, 100, 100);
        while capacity < 5000 {
            newest *= expansion;
            capacity += newest;
            layers += 1;
        }
        assert_eq!(client.info(key, "Number of filters"), layers, "{key}");
        assert_eq!(client.info(key, "Capacity"), capacity, "{key}");
        assert_eq!(client.info(key, "Number of items inserted"), 5000, "{key}");
    }
}

/// Replicas would diverge, because items in a batch would make another filter than single ones.
#[test]
fn a_batch_does_what_single_adds_do() {
    let server = Server::start();
    let (mut client, mut batches) = (server.client(), server.client3());
    let items: Vec<_> = (0..1000).map(|i| (i % 700).to_string()).collect();
    for size in [1, 2, 63, 64, 65, 128, 129, 1000] {
        client.answers(&[
            ("FLUSHALL", ok()),
            ("BF.RESERVE single 0.2 90 SEED 1", ok()),
            ("BF.RESERVE batch 0.2 90 SEED 1", ok()),
        ]);
        for batch in items.chunks(size) {
            let single = batch
                .iter()
                .map(|item| client.call(&["BF.ADD", "single", item]).int() == 1);
            let single = array(single.collect::<Vec<_>>());
            assert_eq!(
                batches.over("BF.MADD batch", batch),
                single,
                "in batches of {size}"
            );
        }
        assert_eq!(
            client.dump("batch"),
            client.dump("single"),
            "in batches of {size}"
        );
    }
}

/// A filter that may not grow any further would take the server's memory, or stop answering.
#[test]
fn growth_beyond_the_limit_is_refused_and_the_filter_still_answers() {
    let server = Server::with().module_args("bf-max-filter-bytes 20000").start();
    let mut client = server.client();
    client.run("BF.RESERVE key 1e-6 3000 SEED 1");
    let items: Vec<_> = (0..3000).map(|i| i.to_string()).collect();
    assert_eq!(client.over("BF.MADD key", &items), array([1; 3000]));
    let full = client.dump("key");
    client.answers(&[
        ("BF.ADD key new", error(MEMORY)),
        ("BF.MADD key 0 new 1", Reply::Array(vec![0.into(), error(MEMORY)])),
        (
            "BF.INSERT key ITEMS 0 new 1",
            Reply::Array(vec![0.into(), error(MEMORY)]),
        ),
        ("BF.ADD key 2999", 0.into()),
        ("BF.EXISTS key new", 0.into()),
    ]);
    assert_eq!(client.over("BF.MEXISTS key", &items), array([1; 3000]));
    assert_eq!(client.dump("key"), full);
}

/// An item that was added could be reported absent, which no Bloom filter may do.
#[test]
fn no_item_is_ever_lost() {
    let server = Server::start();
    let config = Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    };
    let streams = (vec(vec(any::<u8>(), 0..12), 1..400), 1..200_u32);
    let law = |(items, capacity): (Vec<Vec<u8>>, u32)| {
        let mut client = server.client();
        client.answers(&[
            ("FLUSHALL", ok()),
            (&format!("BF.RESERVE key 0.1 {capacity}"), ok()),
        ]);
        let (mut oracle, mut new) = (HashSet::new(), 0);
        for item in &items {
            let answer = client.call(&[&b"BF.ADD"[..], b"key", item]).int();
            let first = oracle.insert(item);
            prop_assert!(answer == 0 || first, "new for the second time: {item:?}");
            new += answer;
        }
        prop_assert_eq!(client.over("BF.MEXISTS key", &items), array(vec![1; items.len()]));
        prop_assert_eq!(client.run("BF.CARD key"), new.into());
        Ok(())
    };
    TestRunner::new(config).run(&streams, law).unwrap();
}
