//! BF.INSERT.

use crate::client::{Reply, WRONG_TYPE, arity, array, error, ok};
use crate::server::Server;

const BAD_RATE: &str = "Bad error rate";
const BAD_CAPACITY: &str = "Bad capacity";
const BAD_EXPANSION: &str = "Bad expansion";
const NOT_FOUND: &str = "ERR not found";

/// Making a filter with the first items would take two commands, and a race between them.
#[test]
fn makes_the_filter_that_its_options_describe() {
    let server = Server::start();
    let mut client = server.client();
    let three = || array([1, 1, 1]);
    for (line, reserved) in [
        ("bf.insert key capacity 500 seed 1 items a b c", "0.01 500 SEED 1"),
        (
            "BF.INSERT key SEED 1 EXPANSION 4 ERROR 0.001 CAPACITY 500 ITEMS a b c",
            "0.001 500 EXPANSION 4 SEED 1",
        ),
        (
            "BF.INSERT key NONSCALING CAPACITY 500 SEED 1 ITEMS a b c",
            "0.01 500 NONSCALING SEED 1",
        ),
        (
            "BF.INSERT key EXPANSION 0 CAPACITY 500 SEED 1 ITEMS a b c",
            "0.01 500 NONSCALING SEED 1",
        ),
        (
            "BF.INSERT key EXPANSION 4 NONSCALING CAPACITY 500 SEED 1 ITEMS a b c",
            "0.01 500 NONSCALING SEED 1",
        ),
        (
            "BF.INSERT key Growing CAPACITY 500 SEED 1 ITEMS a b c",
            "0.01 500 GROWING SEED 1",
        ),
        (
            "BF.INSERT key ERROR 0.001 SEED 1 ITEMS a b c",
            "0.001 100 GROWING SEED 1",
        ),
        (
            "BF.INSERT key SEED 1 layout blocked ITEMS a b c",
            "0.01 100 GROWING SEED 1",
        ),
        (
            "BF.INSERT key LAYOUT CLASSIC ERROR 0.001 ITEMS a b c",
            "0.001 100 LAYOUT CLASSIC",
        ),
        (
            "BF.INSERT key NONSCALING SEED 1 ITEMS a b c",
            "0.01 100 NONSCALING SEED 1",
        ),
    ] {
        client.answers(&[
            ("FLUSHALL", ok()),
            (line, three()),
            (&format!("BF.RESERVE same {reserved}"), ok()),
            ("BF.MADD same a b c", three()),
        ]);
        assert_eq!(client.dump("key"), client.dump("same"), "{line}");
    }
    client.answers(&[
        ("FLUSHALL", ok()),
        ("BF.INSERT key ITEMS a", array([1])),
        ("BF.ADD same a", 1.into()),
    ]);
    assert_eq!(client.dump("key"), client.dump("same"), "the defaults");
}

/// Adding to a filter in use would reset it, or change the promise that it keeps.
#[test]
fn options_change_nothing_of_a_filter_in_use() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.INSERT key ITEMS a");
    let before = client.dump("key");
    client.answers(&[
        (
            "BF.INSERT key CAPACITY 5000 ERROR 0.5 EXPANSION 7 SEED 9 GROWING ITEMS a",
            array([0]),
        ),
        ("BF.INSERT key NONSCALING ITEMS a", array([0])),
    ]);
    assert_eq!(client.dump("key"), before);
    client.answers(&[("BF.INSERT key CAPACITY 5000 NONSCALING ITEMS b a", array([1, 0]))]);
    assert_eq!(client.info("key", "Capacity"), 100);
    assert_eq!(client.info("key", "Expansion rate"), 2);
}

/// Adds with options that worked for years would be refused as soon as the configuration was changed.
#[test]
fn the_configuration_has_no_say_about_a_key_that_exists() {
    let server = Server::with().module_args("bf-layout classic").start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE blocked 0.01 100 LAYOUT BLOCKED SEED 7", ok()),
        ("BF.RESERVE classic 0.01 100", ok()),
        ("BF.INSERT blocked SEED 7 ITEMS a", array([1])),
        ("BF.INSERT blocked SEED 8 GROWING ITEMS b", array([1])),
        ("BF.INSERT classic SEED 7 ITEMS a", array([1])),
        ("BF.INSERT classic GROWING ITEMS a b", array([0, 1])),
    ]);
    let missing = "ERR SEED is for LAYOUT BLOCKED or VALKEY only, and bf-layout is classic";
    client.refuses("missing", &[("BF.INSERT missing SEED 7 ITEMS a", missing)]);
}

/// A program that must not make filters by mistake could not say so.
#[test]
fn nocreate_adds_to_what_is_there_only() {
    let server = Server::start();
    let mut client = server.client();
    // Client libraries send the size with every insertion; it matters when a filter is made.
    for options in [
        "NOCREATE",
        "NOCREATE CAPACITY 50 ERROR 0.1",
        "ERROR 0.1 NOCREATE",
        "NOCREATE NONSCALING EXPANSION 2",
    ] {
        client.refuses(
            "key",
            &[(&format!("BF.INSERT key {options} ITEMS a b"), NOT_FOUND)],
        );
    }
    client.answers(&[
        ("EXISTS key", 0.into()),
        ("BF.RESERVE key 0.001 50", ok()),
        ("BF.INSERT key nocreate ITEMS a b a", array([1, 1, 0])),
        (
            "BF.INSERT key NOCREATE CAPACITY 5000 ERROR 0.1 ITEMS c a",
            array([1, 0]),
        ),
    ]);
}

/// Items that look like options would be taken for such.
#[test]
fn everything_after_items_is_an_item() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        (
            "BF.INSERT key ITEMS ITEMS NOCREATE CAPACITY '' ITEMS",
            array([1, 1, 1, 1, 0]),
        ),
        ("BF.MEXISTS key ITEMS NOCREATE CAPACITY ''", array([1, 1, 1, 1])),
        ("BF.EXISTS key items", 0.into()),
    ]);
    let reply = server.client3().run("BF.INSERT key ITEMS ITEMS new");
    assert_eq!(reply, array([false, true]));
}

/// A misspelt option would make a filter that nobody asked for, and add the items to it.
#[test]
fn bad_options_are_refused_in_words_and_add_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.ADD used item", 1.into()), ("SET text value", ok())]);
    let arity = &*arity("bf.insert");
    for key in ["key", "used"] {
        for (options, text) in [
            ("", arity),
            (" ITEMS", arity),
            (" NOCREATE", arity),
            (" NOCREATE ITEMS", arity),
            (" CAPACITY 100", arity),
            (" a b", "ERR Unknown argument received: a"),
            (" ITEM a", "ERR Unknown argument received: ITEM"),
            (" CAP 100 ITEMS a", "ERR Unknown argument received: CAP"),
            (" ERR 0.1 ITEMS a", "ERR Unknown argument received: ERR"),
            (" NOCREATED ITEMS a", "ERR Unknown argument received: NOCREATED"),
            (" NOSCALING ITEMS a", "ERR Unknown argument received: NOSCALING"),
            (" '' ITEMS a", "ERR Unknown argument received: ''"),
            (" CAPACITY many ITEMS a", BAD_CAPACITY),
            (" CAPACITY '' ITEMS a", BAD_CAPACITY),
            (" CAPACITY +5 ITEMS a", BAD_CAPACITY),
            (" CAPACITY 1e3 ITEMS a", BAD_CAPACITY),
            (" CAPACITY ITEMS a", BAD_CAPACITY),
            (" CAPACITY 0 ITEMS a", BAD_CAPACITY),
            (" CAPACITY -1 ITEMS a", BAD_CAPACITY),
            (" CAPACITY 1099511627777 ITEMS a", BAD_CAPACITY),
            (" CAPACITY 9223372036854775808 ITEMS a", BAD_CAPACITY),
            (" ERROR rate ITEMS a", BAD_RATE),
            (" ERROR '' ITEMS a", BAD_RATE),
            (" ERROR nan ITEMS a", BAD_RATE),
            (" ERROR inf ITEMS a", BAD_RATE),
            (" ERROR 0 ITEMS a", BAD_RATE),
            (" ERROR 1e-400 ITEMS a", BAD_RATE),
            (" ERROR 1 ITEMS a", BAD_RATE),
            (" ERROR -0.5 ITEMS a", BAD_RATE),
            (" EXPANSION two ITEMS a", BAD_EXPANSION),
            (" EXPANSION -1 ITEMS a", BAD_EXPANSION),
            (" EXPANSION 32769 ITEMS a", BAD_EXPANSION),
            (" EXPANSION ITEMS a", BAD_EXPANSION),
            (
                " NONSCALING GROWING ITEMS a",
                "ERR NONSCALING and GROWING exclude each other",
            ),
            (
                " LAYOUT ITEMS a",
                "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY",
            ),
            (
                " LAYOUT CLASSIC SEED 1 ITEMS a",
                "ERR SEED is for LAYOUT BLOCKED or VALKEY only",
            ),
            (
                " EXPANSION 0 GROWING ITEMS a",
                "ERR EXPANSION 0 and GROWING exclude each other",
            ),
            (" SEED ITEMS a", "ERR bad seed"),
            (
                " SEED 18446744073709551616 ITEMS a",
                "ERR seed must be in the range [0, 18446744073709551615]",
            ),
            (" SEED +1 ITEMS a", "ERR bad seed"),
            (
                " CAPACITY 100 CAPACITY 100 ITEMS a",
                "ERR CAPACITY was given twice",
            ),
            (" ERROR 0.1 error 0.1 ITEMS a", "ERR ERROR was given twice"),
            (" NOCREATE NOCREATE ITEMS a", "ERR NOCREATE was given twice"),
            (
                " EXPANSION 2 EXPANSION 2 ITEMS a",
                "ERR EXPANSION was given twice",
            ),
        ] {
            client.refuses(key, &[(&format!("BF.INSERT {key}{options}"), text)]);
        }
    }
    client.refuses(
        "text",
        &[
            ("BF.INSERT", arity),
            ("BF.INSERT text ITEMS a", WRONG_TYPE),
            ("BF.INSERT text NOCREATE ITEMS a", WRONG_TYPE),
        ],
    );
    assert_eq!(client.run("EXISTS key"), 0.into());
}

/// Who inserts many items would not learn which of them a full filter took.
#[test]
fn a_full_filter_ends_the_answer_at_the_item_that_does_not_fit() {
    let server = Server::start();
    let mut client = server.client();
    let full = error("ERR non scaling filter is full");
    let insert = "BF.INSERT key CAPACITY 2 ERROR 0.0001 NONSCALING SEED 1 ITEMS a b a c d";
    client.answers(&[
        (
            insert,
            Reply::Array(vec![1.into(), 1.into(), 0.into(), full.clone()]),
        ),
        (insert, Reply::Array(vec![0.into(), 0.into(), 0.into(), full])),
        ("BF.MEXISTS key a b c d", array([1, 1, 0, 0])),
        ("BF.CARD key", 2.into()),
    ]);
}

/// A filter that cannot be would take the server down, or leave an empty key behind.
#[test]
fn what_does_not_fit_is_refused_before_anything_is_touched() {
    let server = Server::with().module_args("bf-max-filter-bytes 1000000").start();
    let mut client = server.client();
    client.refuses(
        "key",
        &[(
            "BF.INSERT key CAPACITY 10000000 ITEMS a",
            "ERR Insufficient memory to create filter",
        )],
    );
    client.answers(&[("EXISTS key", 0.into())]);
}
