//! The two layouts: how a filter gets one, what travels of it, and what it says of itself.

use crate::client::bulk;
use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok};
use crate::server::{Server, skip};
use crate::support::items::{add, numbered, present};

const SEED_BLOCKED: &str = "ERR SEED is for LAYOUT BLOCKED or VALKEY only";
const GROWING_BLOCKED: &str = "ERR GROWING is for LAYOUT BLOCKED only";
const BAD_LAYOUT: &str = "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY";
const BAD_SEED: &str = "ERR bad seed";
const SEED_RANGE: &str = "ERR seed must be in the range [0, 18446744073709551615]";

/// The layout and the seed of a filter.
fn layout(client: &mut Client, key: &str) -> (String, Reply) {
    let info = client.call(&["BF.INFO", key, "FULL"]);
    (info.field("Layout").text(), info.field("Seed"))
}

/// Who asks for a layout or a seed would get another, and could not merge, compare or give back the filter.
#[test]
fn layout_and_seed_are_what_was_asked_for() {
    let other = Server::with().module_args("bf-layout classic bf-seed 8").start();
    let server = Server::with().module_args("bf-seed 8").start();
    for (client, default) in [
        (&mut server.client(), "blocked"),
        (&mut other.client(), "classic"),
    ] {
        for (options, expected, seed) in [
            ("", default, "8"),
            (" LAYOUT BLOCKED", "blocked", "8"),
            (" layout Blocked seed 0", "blocked", "0"),
            (
                " SEED 18446744073709551615 LAYOUT BLOCKED",
                "blocked",
                "18446744073709551615",
            ),
            (" EXPANSION 4 SEED 3 GROWING LAYOUT BLOCKED", "blocked", "3"),
            (" LAYOUT CLASSIC", "classic", ""),
            (" NONSCALING LAYOUT classic", "classic", ""),
            (" LAYOUT CLASSIC EXPANSION 1", "classic", ""),
        ] {
            let seed = if expected == "classic" {
                Reply::Null
            } else {
                bulk(seed)
            };
            let expected = (expected.to_owned(), seed);
            client.answers(&[
                (&format!("BF.RESERVE reserved 0.01 100{options}"), ok()),
                (
                    &format!("BF.INSERT inserted ERROR 0.01 CAPACITY 100{options} ITEMS a"),
                    array([1]),
                ),
                ("BF.ADD reserved a", 1.into()),
            ]);
            assert_eq!(layout(client, "reserved"), expected, "{options}");
            assert!(client.dump("inserted") == client.dump("reserved"), "{options}");
            client.run("DEL reserved inserted");
        }
        client.answers(&[("BF.ADD added a", 1.into()), ("BF.MADD many a", array([1]))]);
        assert_eq!(layout(client, "added").0, default);
        assert!(client.dump("many") == client.dump("added"));
    }
}

/// A contradiction would be decided in silence, and the filter be one that its owner did not mean.
#[test]
fn contradictions_and_misspellings_are_refused_in_words() {
    let server = Server::start();
    let configured = Server::with().module_args("bf-layout classic").start();
    let everywhere = [
        ("LAYOUT CLASSIC SEED 1", SEED_BLOCKED),
        ("SEED 1 LAYOUT CLASSIC", SEED_BLOCKED),
        ("LAYOUT CLASSIC GROWING", GROWING_BLOCKED),
        ("GROWING LAYOUT classic", GROWING_BLOCKED),
        ("LAYOUT CLASSIC LAYOUT BLOCKED", "ERR LAYOUT was given twice"),
        ("SEED 1 LAYOUT BLOCKED SEED 1", "ERR SEED was given twice"),
        ("LAYOUT CLASSICAL", BAD_LAYOUT),
        ("LAYOUT C", BAD_LAYOUT),
        ("LAYOUT ''", BAD_LAYOUT),
        ("LAYOUT 1", BAD_LAYOUT),
        ("LAYOUTS CLASSIC", "ERR Unknown argument received: LAYOUTS"),
        ("CLASSIC", "ERR Unknown argument received: CLASSIC"),
        ("SEED ''", BAD_SEED),
        ("SEED 1.0", BAD_SEED),
        ("SEED 0x1", BAD_SEED),
        ("SEED 01", BAD_SEED),
        ("SEED -1", SEED_RANGE),
        ("SEED 18446744073709551616", SEED_RANGE),
    ];
    let by_default = [
        (
            "SEED 1",
            "ERR SEED is for LAYOUT BLOCKED or VALKEY only, and bf-layout is classic",
        ),
        (
            "GROWING",
            "ERR GROWING is for LAYOUT BLOCKED only, and bf-layout is classic",
        ),
    ];
    for (client, table) in [
        (&mut server.client(), &everywhere[..]),
        (&mut configured.client(), &everywhere),
        (&mut configured.client(), &by_default),
    ] {
        for (options, text) in table {
            client.refuses(
                "key",
                &[
                    (&format!("BF.RESERVE key 0.01 100 {options}"), text),
                    (&format!("BF.INSERT key {options} ITEMS a"), text),
                ],
            );
        }
        client.refuses(
            "key",
            &[
                ("BF.RESERVE key 0.01 100 LAYOUT", "ERR no value for LAYOUT"),
                ("BF.RESERVE key 0.01 100 SEED", "ERR no value for SEED"),
                ("BF.INSERT key LAYOUT CLASSIC", &arity("bf.insert")),
            ],
        );
        client.answers(&[("EXISTS key", 0.into())]);
    }
}

/// A filter in use would change its layout with the options of an add, or be refused the add.
#[test]
fn options_are_for_new_filters_only() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE blocked 0.01 10 SEED 1", ok()),
        ("BF.RESERVE classic 0.01 10 LAYOUT CLASSIC", ok()),
    ]);
    let options = [
        "LAYOUT CLASSIC",
        "LAYOUT BLOCKED SEED 7",
        "LAYOUT BLOCKED GROWING",
    ];
    for key in ["blocked", "classic"] {
        for (number, options) in options.iter().enumerate() {
            let line = format!("BF.INSERT {key} {options} ITEMS {number}");
            assert_eq!(client.run(&line), array([1]), "{line}");
            assert_eq!(client.run(&line), array([0]), "{line}");
        }
    }
    assert_eq!(layout(&mut client, "blocked"), ("blocked".into(), bulk("1")));
    assert_eq!(layout(&mut client, "classic"), ("classic".into(), Reply::Null));
}

/// A server could not be told to stay with RedisBloom's layout, or only by a restart.
#[test]
fn the_configuration_decides_the_layout_of_new_filters() {
    for (argument, expected) in [
        ("bf-layout classic", "classic"),
        ("BF-LAYOUT Classic", "classic"),
        ("bf.layout CLASSIC", "classic"),
        ("layout classic", "classic"),
        ("bf-layout BLOCKED", "blocked"),
    ] {
        let server = Server::with().module_args(argument).start();
        let mut client = server.client();
        client.run("BF.ADD key a");
        assert_eq!(layout(&mut client, "key").0, expected, "{argument}");
    }
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules: only load arguments were tried");
    }
    let mut server = Server::start();
    let mut client = server.client();
    let set = |value| format!("CONFIG SET {} {value}", Server::option("layout"));
    client.answers(&[
        ("BF.ADD first a", 1.into()),
        (&set("classic"), ok()),
        ("BF.ADD second a", 1.into()),
        ("BF.ADD first b", 1.into()),
        (&set("BLOCKED"), ok()),
        ("BF.ADD third a", 1.into()),
        ("BF.ADD second b", 1.into()),
        (&set("Classic"), ok()),
    ]);
    let refused = client.run(&set("round"));
    let text = format!(
        "ERR CONFIG SET failed (possibly related to argument '{}') - layout must be blocked, classic or valkey",
        Server::option("layout")
    );
    assert_eq!(refused, error(&text));
    client.answers(&[("CONFIG REWRITE", ok()), ("SAVE", ok())]);
    server.restart();
    let mut client = server.client();
    client.answers(&[("BF.ADD fourth a", 1.into())]);
    for (key, expected) in [
        ("first", "blocked"),
        ("second", "classic"),
        ("third", "blocked"),
        ("fourth", "classic"),
    ] {
        assert_eq!(layout(&mut client, key).0, expected, "{key}");
    }
}

/// The commands that a replica gets from its primary until it hears of `end`, by the words after the name of
/// each.
fn replicated(monitor: &mut Client) -> Vec<String> {
    let mut commands = Vec::new();
    loop {
        let line = monitor.receive().unwrap().text();
        let words = line.split_once("] ").unwrap().1.replace('"', "");
        if words.to_lowercase().starts_with("set end") {
            return commands;
        }
        if words.to_lowercase().starts_with("bf.") {
            commands.push(words);
        }
    }
}

/// A replica or an append-only file with another configuration would make another filter out of the same adds.
#[test]
fn classic_filters_travel_with_everything_resolved() {
    let primary = Server::with()
        .module_args("bf-layout classic bf-error-rate 0.03 bf-initial-size 50 bf-expansion-factor 3")
        .start();
    let replica = Server::with()
        .module_args("bf-seed 5 bf-max-filter-bytes 300")
        .replica_of(&primary)
        .start();
    let (mut client, mut follower, mut monitor) = (primary.client(), replica.client(), replica.client());
    client.run("SET start 1");
    assert_eq!(client.run("WAIT 1 60000"), 1.into());
    monitor.answers(&[("MONITOR", ok())]);
    client.answers(&[
        ("BF.ADD added a", 1.into()),
        ("BF.ADD added a", 0.into()),
        ("BF.MADD many a b a", array([1, 1, 0])),
        ("BF.INSERT inserted CAPACITY 70 ITEMS a b", array([1, 1])),
        ("BF.INSERT inserted ITEMS b c", array([0, 1])),
        ("BF.INSERT fixed ERROR 0.5 NONSCALING ITEMS a", array([1])),
        ("BF.RESERVE reserved 0.1 90 EXPANSION 1", ok()),
        ("BF.RESERVE other 0.1 90 LAYOUT BLOCKED SEED 4", ok()),
        ("SET end 1", ok()),
    ]);
    let commands = replicated(&mut monitor);
    // RedisBloom's words: it can follow.
    let expected = [
        "BF.INSERT added ERROR 3e-2 CAPACITY 50 EXPANSION 3 ITEMS a",
        "BF.INSERT many ERROR 3e-2 CAPACITY 50 EXPANSION 3 ITEMS a b",
        "BF.INSERT inserted ERROR 3e-2 CAPACITY 70 EXPANSION 3 ITEMS a b",
        "BF.MADD inserted c",
        "BF.INSERT fixed ERROR 2.5e-1 CAPACITY 50 EXPANSION 2 NONSCALING ITEMS a",
        "BF.RESERVE reserved 1e-1 90 EXPANSION 1",
        "BF.RESERVE other 1e-1 90 LAYOUT BLOCKED SEED 4 EXPANSION 3",
    ];
    assert_eq!(commands, expected);
    for key in ["added", "many", "inserted", "reserved"] {
        add(
            &mut client,
            &format!("BF.MADD {key}"),
            &numbered("more ", 0, 2000),
        );
    }
    assert_eq!(client.run("WAIT 1 60000"), 1.into());
    for key in ["added", "many", "inserted", "fixed", "reserved", "other"] {
        assert!(follower.dump(key) == client.dump(key), "{key}");
        for line in [format!("DEBUG DIGEST-VALUE {key}"), format!("BF.INFO {key} FULL")] {
            assert_eq!(follower.run(&line), client.run(&line), "{line}");
        }
    }
}

/// A filter that goes back to RedisBloom would not be the one that RedisBloom had made: the expansion is stored also
/// where the filter does not use it.
#[test]
fn the_expansion_of_a_filter_that_does_not_grow_is_stored() {
    let primary = Server::with().append_only().start();
    let mut replica = Server::with().append_only().replica_of(&primary).start();
    crate::support::link::in_step(&primary, &replica);
    let mut client = primary.client();
    let cases = [
        ("BF.RESERVE key 0.01 5 LAYOUT CLASSIC NONSCALING", 2),
        ("BF.RESERVE key 0.01 5 LAYOUT CLASSIC EXPANSION 0", 0),
        ("BF.RESERVE key 0.01 5 NONSCALING LAYOUT CLASSIC EXPANSION 0", 0),
        ("BF.INSERT key LAYOUT CLASSIC CAPACITY 5 NONSCALING ITEMS a", 2),
        ("BF.INSERT key LAYOUT CLASSIC CAPACITY 5 EXPANSION 0 ITEMS a", 0),
        (
            "BF.INSERT key LAYOUT CLASSIC CAPACITY 5 EXPANSION 7 NONSCALING ITEMS a",
            7,
        ),
        (
            "BF.INSERT key LAYOUT CLASSIC CAPACITY 5 NONSCALING EXPANSION 32768 ITEMS a",
            32768,
        ),
    ];
    for (at, (line, expansion)) in cases.iter().enumerate() {
        let key = format!("key{at}");
        client.run(&line.replace("key", &key));
        client.over(&format!("BF.MADD {key}"), &numbered("", 0, 9));
        client.answers(&[(&format!("COPY {key} copy"), 1.into())]);
        let payload = client.dump(&key);
        let restored = client.call(&[b"RESTORE", &b"restored"[..], b"0", payload.bytes()]);
        assert_eq!(restored, ok());
        for key in [&*key, "copy", "restored"] {
            let header = client.call(&["BF.SCANDUMP", key, "0"]);
            let header = header.elements()[1].bytes().to_vec();
            // Options, then the expansion.
            assert_eq!(header[12], 13, "{line}");
            assert_eq!(header[16..20], u32::to_le_bytes(*expansion), "{line}");
            assert_eq!(client.run(&format!("BF.CARD {key}")), 5.into(), "{line}");
            let info = client.run(&format!("BF.INFO {key} EXPANSION"));
            assert_eq!(info, Reply::Array(vec![Reply::Null]), "{line}");
        }
        client.run("DEL copy restored");
    }
    crate::support::link::in_step(&primary, &replica);
    replica.restart();
    let mut follower = replica.client();
    for (at, (line, _)) in cases.iter().enumerate() {
        let key = format!("key{at}");
        assert!(follower.dump(&key) == client.dump(&key), "{line}");
    }
}

/// Who runs the server could not see what RedisBloom's filters cost, nor whether they keep their promise.
#[test]
fn full_information_of_a_classic_filter() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE key 0.001 100 LAYOUT CLASSIC", ok()),
        ("BF.RESERVE fixed 0.02 200 NONSCALING LAYOUT CLASSIC", ok()),
    ]);
    let items = numbered("", 0, 250);
    let new = add(&mut client, "BF.MADD key", &items);
    let short = client.run("BF.INFO key").fields();
    for mut client in [server.client(), server.client3()] {
        let full = client.run("BF.INFO key FULL");
        assert_eq!(full.fields()[..5], short);
        assert_eq!(full.field("Error rate").number(), 0.001);
        assert_eq!(full.field("Layout").text(), "classic");
        assert_eq!(full.field("Seed"), Reply::Null);
        assert_eq!(full.field("Number of items inserted").int(), new);
        // RedisBloom's formula: 40 bytes, and 64 and the bit array for each layer, which for one layer is 104.
        let layers = full.field("Layers");
        assert_eq!(full.field("Size").int(), 32 + 2 * 64 + 200 + 432);
        let expected = [(100, 100, 200, 11, 0.0005), (200, new - 100, 432, 12, 0.00025)];
        assert_eq!(layers.elements().len(), expected.len());
        let mut set = 0;
        for (layer, (capacity, items, bytes, probes, rate)) in layers.elements().iter().zip(expected) {
            let names: Vec<_> = layer.fields().into_iter().map(|(name, _)| name).collect();
            let known = [
                "Layout",
                "Capacity",
                "Items",
                "Bytes",
                "Bits set",
                "Probes",
                "Lines",
                "Error rate",
            ];
            assert_eq!(names, known);
            let figures = ["Capacity", "Items", "Bytes", "Probes"].map(|name| layer.field(name).int());
            assert_eq!(figures, [capacity, items, bytes, probes], "{layer:?}");
            assert_eq!(layer.field("Layout").text(), "classic");
            assert_eq!(
                layer.field("Lines"),
                Reply::Null,
                "items have no lines in this layout"
            );
            assert_eq!(layer.field("Error rate").number(), rate);
            let bits = layer.field("Bits set").int();
            assert!(
                bits > 0 && bits <= items * probes && bits < 8 * bytes,
                "{layer:?}"
            );
            set += bits;
        }
        assert_eq!(full.field("Bits set").int(), set);
        let fill = full.field("Fill ratio").number();
        assert!((fill * 8.0 * 632.0 / set as f64 - 1.0).abs() < 1e-3, "{full:?}");
        let estimate = full.field("Estimated error rate").number();
        assert!(estimate > 0.0 && estimate < 0.001, "{full:?}");

        let fixed = client.run("BF.INFO fixed FULL");
        assert_eq!(fixed.field("Expansion rate"), Reply::Null);
        assert_eq!(fixed.field("Error rate").number(), 0.02);
        assert_eq!(fixed.field("Estimated error rate").number(), 0.0);
        assert_eq!(fixed.field("Size").int(), 304);
    }
    assert_eq!(present(&mut client, "key", &items).len(), items.len());
}

/// Scripts that read RedisBloom's lines would fail, or take a figure of the other layout for what it is not.
#[test]
fn debug_lines_of_both_layouts() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE classic 0.0000001 1000 LAYOUT CLASSIC", ok()),
        ("BF.RESERVE blocked 0.001 100 SEED 1 EXPANSION 3", ok()),
        ("BF.RESERVE empty 0.05 77 LAYOUT CLASSIC", ok()),
        ("SET text value", ok()),
    ]);
    let items = numbered("t", 0, 1000);
    assert_eq!(add(&mut client, "BF.MADD classic", &items), 1000);
    let new = add(&mut client, "BF.MADD blocked", &items[..250]);
    for mut client in [server.client(), server.client3()] {
        let lines = |text: &[&str]| Reply::Array(text.iter().map(bulk).collect());
        client.answers(&[
            (
                "BF.DEBUG classic",
                lines(&[
                    "size:1000",
                    "bytes:4376 bits:35008 hashes:25 hashwidth:64 capacity:1000 size:1000 ratio:5e-08",
                ]),
            ),
            (
                "BF.DEBUG empty",
                lines(&[
                    "size:0",
                    "bytes:80 bits:640 hashes:6 hashwidth:64 capacity:77 size:0 ratio:0.025",
                ]),
            ),
        ]);
        let reply = client.run("BF.DEBUG blocked");
        let (first, layers) = reply.elements().split_first().unwrap();
        assert_eq!(first.text(), format!("size:{new}"));
        let info = client.run("BF.INFO blocked FULL");
        assert_eq!(layers.len(), 2);
        for (line, layer) in layers.iter().zip(info.field("Layers").elements()) {
            let [capacity, items, bytes, set, probes, lines] =
                ["Capacity", "Items", "Bytes", "Bits set", "Probes", "Lines"]
                    .map(|name| layer.field(name).int());
            let bits = 8 * bytes;
            let start = format!(
                "layout:blocked bytes:{bytes} bits:{bits} set:{set} lines:{lines} probes:{probes} \
                 capacity:{capacity} size:{items} ratio:"
            );
            let text = line.text();
            let ratio: f64 = text
                .strip_prefix(&start)
                .unwrap_or_else(|| panic!("{text}, not {start}"))
                .parse()
                .unwrap();
            let rate = layer.field("Error rate").number();
            assert!((ratio / rate - 1.0).abs() < 1e-5, "{text}: {rate}");
        }
    }
    let arity = arity("bf.debug");
    client.refuses("blocked", &[("BF.DEBUG", &arity), ("BF.DEBUG blocked 1", &arity)]);
    client.refuses("missing", &[("BF.DEBUG missing", "ERR not found")]);
    client.refuses("text", &[("BF.DEBUG text", WRONG_TYPE)]);
}
