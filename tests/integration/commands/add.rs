//! BF.ADD and BF.MADD, and the count of BF.CARD. What chains and batches do is tested in the core.

use crate::client::{Reply, array, error, ok};
use crate::server::Server;

const FULL: &str = "ERR non scaling filter is full";
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

/// The count of distinct items, for which many keep a filter at all, would be wrong.
#[test]
fn counts_what_was_newly_added() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.CARD key", 0.into()),
        ("EXISTS key", 0.into()),
        ("BF.RESERVE key 1e-9 10 SEED 1", ok()),
        ("BF.CARD key", 0.into()),
        ("BF.ADD key a", 1.into()),
        ("BF.ADD key a", 0.into()),
        ("bf.card key", 1.into()),
    ]);
    let items: Vec<_> = (0..1000).map(|i| i.to_string()).collect();
    client.over("BF.MADD key", &items);
    client.over("BF.INSERT key ITEMS", &items);
    client.answers(&[("BF.CARD key", 1001.into())]);
    server.client3().answers(&[("BF.CARD key", 1001.into())]);
    assert_eq!(client.info("key", "Number of items inserted"), 1001);
}
