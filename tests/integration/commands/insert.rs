//! BF.INSERT, and what BF.ADDPACKED has in common with it.

use crate::client::{Reply, array, error, ok};
use crate::server::Server;

const NOT_FOUND: &str = "ERR not found";

/// Making a filter with the first items would take two commands, and a race between them; or it would be another one than
/// BF.RESERVE makes: of another size or layout, or wrong more often.
#[test]
fn commands_with_items_make_the_filter_that_their_options_describe() {
    for arguments in ["bf-seed 8", "bf-seed 8 bf-layout classic"] {
        let server = Server::with().module_args(arguments).start();
        let mut client = server.client();
        for (number, (options, reserved)) in [
            (
                "capacity 500 seed 1 layout blocked",
                "0.01 500 SEED 1 LAYOUT BLOCKED",
            ),
            ("CAPACITY 500 NONSCALING", "0.01 500 NONSCALING"),
            ("EXPANSION 4 ERROR 0.001 CAPACITY 500", "0.001 500 EXPANSION 4"),
            ("EXPANSION 0 CAPACITY 500", "0.01 500 EXPANSION 0"),
            (
                "LAYOUT BLOCKED EXPANSION 4 NONSCALING CAPACITY 500",
                "0.01 500 LAYOUT BLOCKED NONSCALING",
            ),
            (
                "LAYOUT BLOCKED Growing SEED 18446744073709551615 CAPACITY 500",
                "0.01 500 GROWING LAYOUT BLOCKED SEED 18446744073709551615",
            ),
            (
                "SEED 0 ERROR 0.001 LAYOUT blocked",
                "0.001 100 GROWING LAYOUT BLOCKED SEED 0",
            ),
            ("NONSCALING LAYOUT BLOCKED", "0.01 100 NONSCALING LAYOUT BLOCKED"),
            ("LAYOUT BLOCKED ERROR 0.5", "0.25 100 GROWING LAYOUT BLOCKED"),
            ("LAYOUT CLASSIC ERROR 0.001", "0.001 100 LAYOUT CLASSIC"),
            (
                "NONSCALING LAYOUT classic CAPACITY 7",
                "0.01 7 LAYOUT CLASSIC NONSCALING",
            ),
            ("LAYOUT VALKEY ERROR 0.3", "0.3 100 LAYOUT VALKEY"),
            (
                "TIGHTENING 0.25 SEED 5",
                "0.01 100 SEED 5 LAYOUT VALKEY TIGHTENING 0.25",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            // The form of the items may come before the options and after them.
            let packed =
                ["COUNT LINES OPTIONS", "OPTIONS LINES COUNT"][number % 2].replace("OPTIONS", options);
            client.answers(&[
                ("FLUSHALL", ok()),
                (&format!("BF.RESERVE reserved {reserved}"), ok()),
                ("BF.MADD reserved a b c", array([1, 1, 1])),
                (
                    &format!("BF.INSERT inserted {options} ITEMS a b c"),
                    array([1, 1, 1]),
                ),
                (&format!("BF.ADDPACKED packed {packed} a\nb\nc"), 3.into()),
            ]);
            let made = client.dump("reserved");
            assert_eq!(client.dump("inserted"), made, "{arguments}: {options}");
            assert_eq!(client.dump("packed"), made, "{arguments}: {options}");
        }
        client.answers(&[
            ("FLUSHALL", ok()),
            ("BF.ADD added a", 1.into()),
            ("BF.MADD many a", array([1])),
            ("BF.INSERT inserted ITEMS a", array([1])),
            ("BF.ADDPACKED packed WIDTH 1 COUNT a", 1.into()),
        ]);
        let made = client.dump("added");
        for key in ["many", "inserted", "packed"] {
            assert_eq!(client.dump(key), made, "{arguments}: {key}, the defaults");
        }
    }
}

/// Adding to a filter in use would reset it, change the promise that it keeps, or be refused as soon as the configuration
/// was changed.
#[test]
fn options_change_nothing_of_a_filter_in_use() {
    for arguments in ["", "bf-layout classic", "bf-layout valkey bf-expansion-factor 0"] {
        let server = Server::with().module_args(arguments).start();
        let mut client = server.client();
        client.answers(&[
            ("BF.RESERVE blocked 1e-9 50 LAYOUT BLOCKED SEED 7", ok()),
            ("BF.RESERVE classic 1e-9 50 LAYOUT CLASSIC", ok()),
            ("BF.RESERVE valkey 1e-9 50 LAYOUT VALKEY", ok()),
        ]);
        for key in ["blocked", "classic", "valkey"] {
            client.answers(&[(&format!("BF.ADD {key} a"), 1.into())]);
            let before = client.dump(key);
            let options = [
                "CAPACITY 5000 ERROR 0.5 EXPANSION 7 SEED 9 GROWING",
                "NONSCALING",
                "NOCREATE LAYOUT CLASSIC",
                "LAYOUT BLOCKED SEED 7",
                "TIGHTENING 0.25",
                "WINDOW 5 REFRESH AT 5",
            ];
            for options in options {
                client.answers(&[
                    (&format!("BF.INSERT {key} {options} ITEMS a"), array([0])),
                    (&format!("BF.ADDPACKED {key} {options} LINES COUNT a"), 0.into()),
                ]);
            }
            assert_eq!(client.dump(key), before, "{arguments}: {key}");
            client.answers(&[
                (
                    &format!("BF.INSERT {key} SEED 8 GROWING ITEMS b a"),
                    array([1, 0]),
                ),
                (
                    &format!("BF.ADDPACKED {key} SEED 8 GROWING LINES COUNT c"),
                    1.into(),
                ),
            ]);
            assert_eq!(client.info(key, "Capacity"), 50, "{arguments}: {key}");
        }
    }
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
