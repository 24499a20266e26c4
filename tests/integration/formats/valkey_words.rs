//! The words for filters in valkey-bloom's layout: how one is made, what it says of itself, and what travels of it.

use std::fs;

use tempfile::TempDir;

use crate::client::bulk;
use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok, wire};
use crate::formats::rival::{Primary, is_content};
use crate::server::{Server, skip, until};
use crate::support::aof::propagated;
use crate::support::chunks::scandump;
use crate::support::items::{add, numbered, present};
use crate::support::link::in_step;

/// Bytes that separate words, end texts, or are no text.
const SEED: &[u8; 32] = b"a\0b\nc d\r\ne\xff\xfeITEMS * $5 '\"\\\x80\0\0\0\0 ";

const NO_ROOM: &str = "ERR the filter cannot grow to VALIDATESCALETO within bf-max-filter-bytes";
const NO_RATE: &str = "ERR the filter cannot grow to VALIDATESCALETO: its error rate would be 0";

fn double(client_speaks_resp3: bool, text: &str) -> Reply {
    if client_speaks_resp3 {
        Reply::Double(text.parse().unwrap())
    } else {
        bulk(text)
    }
}

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

/// The layout, the capacity, the rate, the expansion, the ratio and the seed of a filter.
fn described(client: &mut Client, key: &str) -> (String, i64, f64, Reply, f64, String) {
    let full = client.call(&["BF.INFO", key, "FULL"]);
    (
        full.field("Layout").text(),
        full.field("Capacity").int(),
        full.field("Error rate").number(),
        full.field("Expansion rate"),
        full.field("Tightening ratio").number(),
        full.field("Seed").text(),
    )
}

/// The two servers have the same filters: bit for bit, and in what they say.
#[track_caller]
fn are_equal(one: &mut Client, other: &mut Client, keys: &[&str]) {
    for key in keys {
        assert!(scandump(one, key) == scandump(other, key), "{key}: other chunks");
        for line in [format!("BF.INFO {key} FULL"), format!("BF.DEBUG {key}")] {
            assert_eq!(one.run(&line), other.run(&line), "{line}");
        }
        let ends = [one.run(&format!("PTTL {key}")), other.run(&format!("PTTL {key}"))];
        let [one, other] = ends.map(|end| end.int().min(0));
        assert_eq!(one, other, "{key}: whether it expires");
    }
}

/// Who asks for a filter of valkey-bloom's would get another one, which no valkey-bloom can read.
#[test]
fn every_command_makes_what_was_asked_for() {
    let by_option = Server::with().module_args("bf-layout valkey bf-seed 8").start();
    let server = Server::with().module_args("bf-seed 8").start();
    // What a seed of 8 stands for, for good: files and replicas have it.
    let seed_of_8 = {
        let mut client = server.client();
        client.answers(&[("BF.RESERVE key 0.01 100 LAYOUT VALKEY", ok())]);
        described(&mut client, "key").5
    };
    assert_eq!(seed_of_8.len(), 64);
    for (client, by_option) in [(&mut server.client(), false), (&mut by_option.client(), true)] {
        let words = [
            "LAYOUT VALKEY",
            "layout valkey SEED 8",
            "TIGHTENING 0.5",
            "VALIDATESCALETO 5000",
        ];
        let words: Vec<_> = if by_option {
            words.into_iter().chain(["", "SEED 8"]).collect()
        } else {
            words.to_vec()
        };
        for options in words {
            let expected = ("valkey".to_owned(), 1000, 0.9, 2.into(), 0.5, seed_of_8.clone());
            client.run("DEL reserved inserted packed empty");
            let lines = [
                (format!("BF.RESERVE reserved 0.9 1000 {options}"), ok()),
                (
                    format!("BF.INSERT inserted ERROR 0.9 CAPACITY 1000 {options} ITEMS a"),
                    array([1]),
                ),
                (
                    format!("BF.ADDPACKED packed ERROR 0.9 CAPACITY 1000 {options} COUNT LINES a"),
                    1.into(),
                ),
                (
                    format!("BF.INSERT empty ERROR 0.9 CAPACITY 1000 {options}"),
                    Reply::Array(Vec::new()),
                ),
                ("BF.ADD reserved a".to_owned(), 1.into()),
                ("BF.MADD empty a a".to_owned(), array([1, 0])),
            ];
            for (line, reply) in lines {
                let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(client.run(&line), reply, "{line}");
            }
            let chunks = scandump(client, "reserved");
            for key in ["reserved", "inserted", "packed", "empty"] {
                assert_eq!(described(client, key), expected, "{options}: {key}");
                assert!(scandump(client, key) == chunks, "{options}: {key}");
            }
        }
        // A rate is used as it is; an expansion may be any that other layouts have.
        for (words, rate, expansion, ratio) in [
            (
                "1e-300 10 TIGHTENING 0.25 EXPANSION 32768",
                1e-300,
                32_768.into(),
                0.25,
            ),
            ("0.9999 10 LAYOUT VALKEY NONSCALING", 0.9999, Reply::Null, 0.5),
            (
                "0.3 10 EXPANSION 0 TIGHTENING 0.9999999",
                0.3,
                Reply::Null,
                0.999_999_9,
            ),
            ("0.26 10 TIGHTENING 1e-300 EXPANSION 1", 0.26, 1.into(), 1e-300),
        ] {
            client.run("DEL key");
            client.answers(&[(&format!("BF.RESERVE key {words}"), ok())]);
            let expected = ("valkey".to_owned(), 10, rate, expansion, ratio, seed_of_8.clone());
            assert_eq!(described(client, "key"), expected, "{words}");
        }
        client.run("DEL key");
        for (head, rest) in [
            ("BF.RESERVE key 0.01 100 SEED", ""),
            ("BF.INSERT key SEED", "ITEMS a"),
            ("BF.INSERT key SEED", "LAYOUT VALKEY"),
            ("BF.ADDPACKED key seed", "LINES a"),
        ] {
            client.call(&with_bytes(head, SEED, rest));
            assert_eq!(described(client, "key").5, hex(SEED), "{head}");
            client.run("DEL key");
        }
    }
    // Without any word the option decides, also of an add.
    let mut client = by_option.client();
    client.answers(&[
        ("BF.ADD added a", 1.into()),
        ("BF.MADD many a", array([1])),
        ("BF.INSERT inserted ITEMS a", array([0])),
        ("BF.RESERVE other 0.01 100 LAYOUT BLOCKED", ok()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
    ]);
    let expected = ("valkey".to_owned(), 100, 0.01, 2.into(), 0.5, seed_of_8);
    for key in ["added", "many"] {
        assert_eq!(described(&mut client, key), expected, "{key}");
    }
    for (key, layout) in [("other", "blocked"), ("classic", "classic")] {
        let full = client.call(&["BF.INFO", key, "FULL"]);
        assert_eq!(full.field("Layout").text(), layout);
    }
    for server in [&server, &by_option] {
        assert!(!server.log().contains("is used as"), "{}", server.log());
    }
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
        let (layout, capacity, rate, expansion, ..) = described(&mut client, key);
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

/// A contradiction would be decided in silence, and the filter be one that its owner did not mean.
#[test]
fn wrong_words_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let ratio = "ERR tightening ratio must be in the range (0, 1)";
    let goal = "ERR VALIDATESCALETO must be in the range [1, 9223372036854775807]";
    for (options, text) in [
        ("TIGHTENING x", "ERR bad tightening ratio"),
        ("TIGHTENING ''", "ERR bad tightening ratio"),
        ("TIGHTENING 0.5x", "ERR bad tightening ratio"),
        ("TIGHTENING nan", "ERR bad tightening ratio"),
        ("TIGHTENING 0", ratio),
        ("TIGHTENING 1", ratio),
        ("TIGHTENING -1", ratio),
        ("TIGHTENING 1e400", ratio),
        ("TIGHTENING 0.5 tightening 0.5", "ERR TIGHTENING was given twice"),
        ("VALIDATESCALETO x", "ERR bad VALIDATESCALETO"),
        ("VALIDATESCALETO 0", goal),
        ("VALIDATESCALETO -1", goal),
        ("VALIDATESCALETO 9223372036854775808", goal),
        (
            "VALIDATESCALETO 10 NONSCALING",
            "ERR VALIDATESCALETO and NONSCALING exclude each other",
        ),
        (
            "EXPANSION 0 VALIDATESCALETO 10",
            "ERR VALIDATESCALETO and EXPANSION 0 exclude each other",
        ),
        (
            "TIGHTENING 0.5 LAYOUT BLOCKED",
            "ERR TIGHTENING is for LAYOUT VALKEY only",
        ),
        (
            "LAYOUT CLASSIC TIGHTENING 0.5",
            "ERR TIGHTENING is for LAYOUT VALKEY only",
        ),
        (
            "VALIDATESCALETO 10 LAYOUT CLASSIC",
            "ERR VALIDATESCALETO is for LAYOUT VALKEY only",
        ),
        (
            "LAYOUT BLOCKED SEED 01234567890123456789012345678901",
            "ERR SEED of 32 bytes is for LAYOUT VALKEY only",
        ),
        ("LAYOUT VALKEY GROWING", "ERR GROWING is for LAYOUT BLOCKED only"),
        ("TIGHTENING 0.5 GROWING", "ERR GROWING is for LAYOUT BLOCKED only"),
        ("LAYOUT VALKEY WINDOW 10", "ERR WINDOW is for LAYOUT BLOCKED only"),
        (
            "LAYOUT VALKEY SLICES 4",
            "ERR SLICES is for filters with a WINDOW only",
        ),
        (
            "LAYOUT VALKEY REFRESH",
            "ERR REFRESH is for filters with a WINDOW only",
        ),
        (
            "LAYOUT VALKEYS",
            "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY",
        ),
        // One byte less than 32, and one more.
        ("SEED 012345678901234567890123456789x", "ERR bad seed"),
        (
            "SEED 01234567890123456789012345678901x LAYOUT VALKEY",
            "ERR bad seed",
        ),
    ] {
        client.refuses(
            "key",
            &[
                (&format!("BF.RESERVE key 0.01 100 {options}"), text),
                (&format!("BF.INSERT key {options} ITEMS a"), text),
                (&format!("BF.ADDPACKED key {options} LINES a"), text),
                (&format!("BF.PLAN 0.01 100 {options}"), text),
            ],
        );
    }
    for option in ["TIGHTENING", "VALIDATESCALETO"] {
        let text = format!("ERR no value for {option}");
        client.refuses(
            "key",
            &[
                (&format!("BF.RESERVE key 0.01 100 {option}"), &text),
                (&format!("BF.INSERT key {option}"), &text),
                (&format!("BF.PLAN 0.01 100 {option}"), &text),
            ],
        );
    }
    client.answers(&[("EXISTS key", 0.into())]);
    let by_option = Server::with()
        .module_args("bf-layout valkey bf-expansion-factor 0")
        .start();
    by_option.client().refuses(
        "key",
        &[
            (
                "BF.RESERVE key 0.01 100 GROWING",
                "ERR GROWING is for LAYOUT BLOCKED only, and bf-layout is valkey",
            ),
            (
                "BF.INSERT key WINDOW 10 ITEMS a",
                "ERR WINDOW is for LAYOUT BLOCKED only, and bf-layout is valkey",
            ),
            (
                "BF.RESERVE key 0.01 100 VALIDATESCALETO 5",
                "ERR VALIDATESCALETO needs an EXPANSION above 0: bf-expansion-factor is 0",
            ),
            (
                "BF.RESERVE key 0.01 100 LAYOUT CLASSIC SEED 1",
                "ERR SEED is for LAYOUT BLOCKED or VALKEY only",
            ),
        ],
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
        ("BF.ADD valkey a", 1.into()),
        ("BF.RESERVE blocked 0.01 100", ok()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
        ("SET text value", ok()),
    ]);
    for key in ["new", "blocked", "classic", "text"] {
        client.refuses(
            key,
            &[
                (&format!("BF.INSERT {key}"), &arity),
                (&format!("BF.INSERT {key} CAPACITY 10 NOCREATE"), &arity),
                (&format!("BF.INSERT {key} LAYOUT BLOCKED"), &arity),
                (&format!("BF.INSERT {key} LAYOUT CLASSIC"), &arity),
                (&format!("BF.INSERT {key} LAYOUT VALKEY ITEMS"), &arity),
                (&format!("BF.INSERT {key} TIGHTENING 0.5 ITEMS"), &arity),
            ],
        );
    }
    client.refuses(
        "new",
        &[
            ("BF.INSERT", &arity),
            ("BF.INSERT new NOCREATE LAYOUT VALKEY", "ERR not found"),
        ],
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
        if key == "valkey" {
            client.answers(&[
                ("BF.INSERT valkey", empty.clone()),
                ("BF.INSERT valkey NOCREATE", empty.clone()),
                ("BF.INSERT valkey LAYOUT CLASSIC CAPACITY 9", empty.clone()),
            ]);
            client.refuses("valkey", &[("BF.INSERT valkey ITEMS", &arity)]);
        }
        assert!(scandump(&mut client, key) == before, "{key}");
        client.answers(&[(&format!("PTTL {key}"), (-1).into())]);
    }
    client.answers(&[
        ("BF.INSERT new LAYOUT VALKEY", empty.clone()),
        ("BF.CARD new", 0.into()),
    ]);
    let by_option = Server::with().module_args("bf-layout valkey").start();
    let mut client = by_option.client();
    client.answers(&[
        ("BF.INSERT new", empty.clone()),
        ("BF.INSERT new", empty.clone()),
        ("BF.INSERT sized CAPACITY 7 ERROR 0.5", empty.clone()),
        ("BF.INSERT missing NOCREATE", error("ERR not found")),
        ("BF.INSERT missing LAYOUT BLOCKED", error(&arity)),
        ("EXISTS missing", 0.into()),
        ("BF.RESERVE blocked 0.01 100 LAYOUT BLOCKED", ok()),
        ("BF.INSERT blocked", empty),
    ]);
    assert_eq!(described(&mut client, "sized").1, 7);
}

/// A typed client of valkey-bloom would fail at a field that it does not know, or has in another form or place.
#[test]
fn info_is_valkey_bloom_s() {
    let server = Server::with().module_args("bf-seed 1").start();
    let (mut client, mut client3) = (server.client(), server.client3());
    client.answers(&[
        ("BF.RESERVE key 0.01 100 TIGHTENING 0.5", ok()),
        ("BF.RESERVE fixed 0.001 10 NONSCALING LAYOUT VALKEY", ok()),
        ("BF.RESERVE blocked 0.01 100", ok()),
        ("BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok()),
    ]);
    let most = client.run("BF.INFO key MAXSCALEDCAPACITY").int();
    for (client, is_3) in [(&mut client, false), (&mut client3, true)] {
        let is_3 = is_3 && Server::version().modules_have_resp3();
        let simple = |name: &str| Reply::Simple(name.into());
        // What a valkey-bloom 1.0 replied.
        let fields = [
            ("CAPACITY", "Capacity", 100.into()),
            ("SIZE", "Size", 384.into()),
            ("FILTERS", "Number of filters", 1.into()),
            ("ITEMS", "Number of items inserted", 0.into()),
            ("ERROR", "Error rate", double(is_3, "0.01")),
            ("EXPANSION", "Expansion rate", 2.into()),
            ("TIGHTENING", "Tightening ratio", double(is_3, "0.5")),
            ("MAXSCALEDCAPACITY", "Max scaled capacity", most.into()),
        ];
        let flat = fields
            .iter()
            .flat_map(|(_, name, value)| [simple(name), value.clone()]);
        assert_eq!(client.run("BF.INFO key"), Reply::Array(flat.collect()));
        for (word, _, value) in &fields {
            assert_eq!(client.run(&format!("BF.INFO key {word}")), *value, "{word}");
            let word = word.to_lowercase();
            assert_eq!(client.run(&format!("BF.INFO key {word}")), *value, "{word}");
        }
        let fixed = [
            ("CAPACITY", "Capacity", 10.into()),
            ("SIZE", "Size", 282.into()),
            ("FILTERS", "Number of filters", 1.into()),
            ("ITEMS", "Number of items inserted", 0.into()),
            ("ERROR", "Error rate", double(is_3, "0.001")),
            ("EXPANSION", "Expansion rate", Reply::Null),
        ];
        let flat = fixed
            .iter()
            .flat_map(|(_, name, value)| [simple(name), value.clone()]);
        assert_eq!(client.run("BF.INFO fixed"), Reply::Array(flat.collect()));
        for (word, _, value) in &fixed {
            assert_eq!(client.run(&format!("BF.INFO fixed {word}")), *value, "{word}");
        }
        let unknown = "Invalid information value";
        client.refuses(
            "fixed",
            &[
                ("BF.INFO fixed TIGHTENING", unknown),
                ("BF.INFO fixed MAXSCALEDCAPACITY", unknown),
                ("BF.INFO fixed LAYOUT", unknown),
                ("BF.INFO blocked ERROR", unknown),
                ("BF.INFO blocked TIGHTENING", unknown),
                ("BF.INFO classic ERROR", unknown),
                ("BF.INFO classic MAXSCALEDCAPACITY", unknown),
                ("BF.INFO missing ERROR", "ERR not found"),
            ],
        );
    }
    // More layers: the capacity is that of all of them, the goal stays where it was.
    add(&mut client, "BF.MADD key", &numbered("", 0, 500));
    let info = client.run("BF.INFO key");
    assert_eq!(info.field("Capacity"), 700.into());
    assert_eq!(info.field("Number of filters"), 3.into());
    assert_eq!(info.field("Max scaled capacity"), most.into());
    // Never a sixth field of other filters.
    assert_eq!(client.run("BF.INFO blocked").fields().len(), 5);
}

/// Who runs the server could not see what such a filter was made with, nor whether it keeps its promise.
#[test]
fn full_information_has_the_ratio_and_the_whole_seed() {
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    let line = with_bytes("BF.RESERVE key 0.01 100 TIGHTENING 0.25 SEED", SEED, "");
    assert_eq!(client.call(&line), ok());
    add(&mut client, "BF.MADD key", &numbered("", 0, 250));
    let map = client3.run("BF.INFO key FULL");
    assert!(map.is_map(), "{map:?}");
    let full = client.run("BF.INFO key FULL");
    let names = |reply: &Reply| -> Vec<_> { reply.fields().into_iter().map(|(name, _)| name).collect() };
    assert_eq!(names(&full), names(&map));
    assert_eq!(
        names(&full),
        [
            "Capacity",
            "Size",
            "Number of filters",
            "Number of items inserted",
            "Expansion rate",
            "Error rate",
            "Layout",
            "Seed",
            "Tightening ratio",
            "Bits set",
            "Fill ratio",
            "Estimated error rate",
            "Exceptions",
            "Layers"
        ]
    );
    assert_eq!(map.field("Layout").text(), "valkey");
    assert_eq!(map.field("Seed").text(), hex(SEED));
    assert_eq!(map.field("Tightening ratio").number(), 0.25);
    assert_eq!(map.field("Error rate").number(), 0.01);
    let layers = map.field("Layers");
    let capacities: Vec<_> = layers
        .elements()
        .iter()
        .map(|layer| layer.field("Capacity").int())
        .collect();
    assert_eq!(capacities, [100, 200]);
    for layer in layers.elements() {
        assert_eq!(layer.field("Layout").text(), "valkey");
        assert_eq!(layer.field("Lines"), Reply::Null);
    }
}

/// A filter would be made that stops growing, with an error for every later add, where its user had asked.
#[test]
fn a_filter_that_cannot_grow_far_enough_is_refused() {
    let server = Server::with().module_args("bf-max-filter-bytes 10000").start();
    let mut client = server.client();
    client.answers(&[("BF.INSERT probe LAYOUT VALKEY", Reply::Array(Vec::new()))]);
    let most = client.run("BF.INFO probe MAXSCALEDCAPACITY").int();
    assert!(most > 1000, "{most}");
    let too_much = most + 1;
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
    assert!(matches!(
        client.run(&format!("BF.PLAN 0.01 100 VALIDATESCALETO {most}")),
        Reply::Array(_)
    ));
    // The check comes first even if the key exists, whatever its type, or must not be created: so it does in
    // valkey-bloom.
    for key in ["new", "a", "c", "text"] {
        client.refuses(
            key,
            &[
                (
                    &format!("BF.RESERVE {key} 0.01 100 VALIDATESCALETO {too_much}"),
                    NO_ROOM,
                ),
                (&format!("BF.INSERT {key} VALIDATESCALETO {too_much}"), NO_ROOM),
                (
                    &format!("BF.INSERT {key} VALIDATESCALETO {too_much} ITEMS z"),
                    NO_ROOM,
                ),
                (
                    &format!("BF.INSERT {key} NOCREATE VALIDATESCALETO {too_much} ITEMS z"),
                    NO_ROOM,
                ),
                (
                    &format!("BF.ADDPACKED {key} VALIDATESCALETO {too_much} LINES z"),
                    NO_ROOM,
                ),
                (&format!("BF.PLAN 0.01 100 VALIDATESCALETO {too_much}"), NO_ROOM),
                (
                    &format!("BF.INSERT {key} CAPACITY 1 TIGHTENING 1e-200 VALIDATESCALETO 1000"),
                    NO_RATE,
                ),
                (
                    &format!("BF.RESERVE {key} 1e-307 1 TIGHTENING 0.1 VALIDATESCALETO 10"),
                    NO_RATE,
                ),
            ],
        );
    }
    client.answers(&[("EXISTS new", 0.into())]);
    // What it may have it gets.
    let items = numbered("", 0, 3000);
    let added = add(&mut client, "BF.MADD a", &items[..1000]);
    assert!(added > 900, "{added}");
    // Without the option it is the layers that are too many or too large.
    let server = Server::start();
    server.client().answers(&[
        ("BF.INSERT a VALIDATESCALETO 1000000000", Reply::Array(Vec::new())),
        (
            "BF.INSERT b VALIDATESCALETO 9223372036854775807",
            error("ERR the filter cannot grow to VALIDATESCALETO: its capacity would be above 9223372036854775807"),
        ),
    ]);
}

/// Who asks before how far a filter can grow would be told of more than the server then gives, or of less.
#[test]
fn a_filter_grows_as_far_as_it_was_foretold() {
    for limit in [500, 3000, 30_000, 300_000] {
        let server = Server::with()
            .module_args(&format!("bf-layout valkey bf-max-filter-bytes {limit}"))
            .start();
        let mut client = server.client();
        client.answers(&[("BF.RESERVE key 0.01 100", ok())]);
        let most = client.run("BF.INFO key MAXSCALEDCAPACITY").int();
        let no_room = error("ERR Insufficient memory to grow filter");
        let mut refused = None;
        for number in 0..most + most / 10 + 1000 {
            match client.run(&format!("BF.ADD key {number}")) {
                Reply::Int(0 | 1) => {}
                reply => {
                    refused = Some(reply);
                    break;
                }
            }
        }
        assert_eq!(refused, Some(no_room), "{limit} bytes");
        client.answers(&[
            ("BF.CARD key", most.into()),
            ("BF.INFO key CAPACITY", most.into()),
        ]);
    }
}

/// Who is told that a filter does not grow would look for a NONSCALING that is not there; and who plans by the figures
/// would be told of a filter that can hold less than it does.
#[test]
fn a_filter_that_can_have_no_further_layer_says_so() {
    // With one seed it is always the same items that are found although they were not added.
    let server = Server::with().module_args("bf-seed 7").start();
    let mut client = server.client();
    client.answers(&[
        (
            "BF.RESERVE key 1e-6 1 LAYOUT VALKEY TIGHTENING 1e-300 EXPANSION 1",
            ok(),
        ),
        ("BF.MADD key a b", array([1, 1])),
        (
            "BF.ADD key c",
            error(
                "ERR the filter is full: a further layer would have an error rate of 0, or a capacity beyond counting",
            ),
        ),
        ("BF.INFO key MAXSCALEDCAPACITY", 2.into()),
        ("BF.RESERVE fixed 0.01 1 LAYOUT VALKEY NONSCALING", ok()),
        ("BF.ADD fixed a", 1.into()),
        ("BF.ADD fixed b", error("ERR non scaling filter is full")),
        (
            "BF.RESERVE long 1e-30 1 LAYOUT VALKEY TIGHTENING 0.999999 EXPANSION 1",
            ok(),
        ),
    ]);
    let items = numbered("", 0, 6000);
    let words: Vec<&[u8]> = [&b"BF.MADD"[..], b"long"]
        .into_iter()
        .chain(items.iter().map(Vec::as_slice))
        .collect();
    let answers = client.call(&words);
    let too_many =
        "ERR the filter would have more than 1100 layers: with a larger capacity or EXPANSION it needs fewer";
    assert_eq!(answers.elements().last(), Some(&error(too_many)));
    client.answers(&[
        ("BF.INFO long CAPACITY", 1100.into()),
        ("BF.INFO long MAXSCALEDCAPACITY", 1100.into()),
    ]);
}

/// Who mistypes would look for the mistake in options that are as they should be.
#[test]
fn without_items_the_same_is_wrong_as_with_them() {
    let server = Server::start();
    let mut client = server.client();
    for items in ["", " ITEMS a"] {
        for (words, text) in [
            (
                "NONSCALING VALIDATESCALETO 1000",
                "ERR VALIDATESCALETO and NONSCALING exclude each other",
            ),
            (
                "VALIDATESCALETO 1000 NONSCALING LAYOUT VALKEY",
                "ERR VALIDATESCALETO and NONSCALING exclude each other",
            ),
            (
                "CAPACITY 1 EXPANSION 1 TIGHTENING 0.9999 VALIDATESCALETO 5000",
                "ERR the filter cannot grow to VALIDATESCALETO with 1100 layers: a larger CAPACITY or EXPANSION needs \
                 fewer",
            ),
        ] {
            let line = format!("BF.INSERT key {words}{items}");
            assert_eq!(client.run(&line), error(text), "{line}");
        }
    }
    client.answers(&[
        (
            "BF.INSERT key VALIDATESCALETO 100 LAYOUT BLOCKED",
            error(&arity("bf.insert")),
        ),
        ("EXISTS key", 0.into()),
    ]);
}

/// A key would stay for ever, or be gone before its time, here or on a replica.
#[test]
fn keys_expire_as_they_were_told_to() {
    let primary = Server::start();
    let replica = Server::with()
        .module_args("bf-layout classic")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let (mut client, mut follower) = (primary.client(), replica.client());
    let empty = Reply::Array(Vec::new());
    client.answers(&[
        ("BF.RESERVE reserved 0.01 100 LAYOUT VALKEY EX 5000", ok()),
        ("BF.INSERT inserted TIGHTENING 0.5 PX 5000000 ITEMS a", array([1])),
        ("BF.INSERT empty LAYOUT VALKEY EXAT 4000000000", empty.clone()),
        (
            "BF.ADDPACKED packed PXAT 4000000000000 LAYOUT VALKEY COUNT LINES a\nb",
            2.into(),
        ),
        ("BF.INSERT kept LAYOUT VALKEY", empty.clone()),
        ("BF.INSERT kept LAYOUT VALKEY EX 5000", empty.clone()),
        ("BF.INSERT kept LAYOUT VALKEY EX 5000 ITEMS a", array([1])),
        ("BF.RESERVE kept 0.01 100 LAYOUT VALKEY NX EX 5000", Reply::Null),
        ("BF.RESERVE kept 0.01 100 LAYOUT VALKEY", error("ERR item exists")),
        ("BF.INSERT late LAYOUT VALKEY PXAT 1", empty),
        ("EXISTS late", 0.into()),
        ("PTTL kept", (-1).into()),
        (
            "BF.INSERT wrong LAYOUT VALKEY EX 0",
            error("ERR invalid expire time in 'bf.insert' command"),
        ),
    ]);
    in_step(&primary, &replica);
    for key in ["reserved", "inserted", "empty", "packed"] {
        for client in [&mut client, &mut follower] {
            let left = client.run(&format!("PTTL {key}")).int();
            assert!(left > 1_000_000, "{key}: {left}");
        }
    }
    are_equal(
        &mut client,
        &mut follower,
        &["reserved", "inserted", "empty", "packed", "kept"],
    );
    follower.answers(&[("EXISTS late wrong", 0.into())]);
    is_content(&replica);
}

/// Filters that a primary with other options says: the names, and how they are made.
fn make_many(client: &mut Client) -> Vec<&'static str> {
    client.answers(&[
        ("BF.RESERVE reserved 0.9 90 LAYOUT VALKEY", ok()),
        (
            "BF.RESERVE tight 1e-300 30 TIGHTENING 0.999 EXPANSION 32768",
            ok(),
        ),
        ("BF.RESERVE fixed 0.001 50 NONSCALING LAYOUT VALKEY SEED 5", ok()),
        ("BF.RESERVE zero 0.001 50 EXPANSION 0 LAYOUT VALKEY", ok()),
        (
            "BF.INSERT inserted VALIDATESCALETO 1000 ITEMS a b a",
            array([1, 1, 0]),
        ),
        (
            "BF.INSERT empty LAYOUT VALKEY ERROR 0.3333333333333333",
            Reply::Array(Vec::new()),
        ),
        (
            "BF.ADDPACKED packed TIGHTENING 0.1 ERROR 0.7 COUNT LINES a\nb",
            2.into(),
        ),
        ("BF.ADD added a", 1.into()),
        ("BF.MADD many a b", array([1, 1])),
        ("BF.INSERT plain ITEMS a", array([1])),
    ]);
    for (key, line) in [
        ("seeded", with_bytes("BF.RESERVE seeded 0.01 20 SEED", SEED, "")),
        ("seeds", with_bytes("BF.INSERT seeds SEED", SEED, "ITEMS a")),
        ("seedp", with_bytes("BF.ADDPACKED seedp SEED", SEED, "LINES a")),
    ] {
        assert!(!matches!(client.call(&line), Reply::Error(_)), "{key}");
    }
    vec![
        "reserved", "tight", "fixed", "zero", "inserted", "empty", "packed", "added", "many", "plain",
        "seeded", "seeds", "seedp",
    ]
}

/// A replica with other options, or a server that is started on the file, would have other bits, and say of items that
/// they are missing.
#[test]
fn replicas_and_files_make_the_same_filters() {
    let mut primary = Server::with()
        .module_args("bf-layout valkey bf-seed 3 bf-error-rate 0.03 bf-initial-size 50 bf-expansion-factor 3")
        .append_only()
        .start();
    let replica = Server::with()
        .module_args("bf-layout classic bf-seed 5 bf-max-filter-bytes 300 bf-expansion-factor 0")
        .append_only()
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let (mut client, mut follower) = (primary.client(), replica.client());
    let keys = make_many(&mut client);
    for key in &keys {
        let new = add(&mut client, &format!("BF.MADD {key}"), &numbered("more ", 0, 45));
        assert!(new > 20, "{key}: {new}");
        client.run(&format!("BF.ADD {key} last"));
        client.run(&format!("BF.INSERT {key} ITEMS c d"));
        client.run(&format!("BF.ADDPACKED {key} LINES e\nf"));
    }
    // More than fits: the rest is an error, here alone.
    client.over("BF.MADD fixed", &numbered("over ", 0, 30));
    in_step(&primary, &replica);
    are_equal(&mut client, &mut follower, &keys);
    is_content(&replica);
    let before: Vec<_> = keys.iter().map(|key| scandump(&mut client, key)).collect();
    primary.kill9();
    primary.revive();
    let mut client = primary.client();
    for (key, before) in keys.iter().zip(before) {
        assert!(scandump(&mut client, key) == before, "{key}: on its file");
    }
}

/// A valkey-bloom that follows this server would be told something that it does not know, and have other filters.
#[test]
fn creations_are_propagated_in_valkey_bloom_s_words() {
    let server = Server::with().module_args("bf-seed 3").append_only().start();
    let mut client = server.client();
    let seed = "0123456789abcdefghij 123456789 b";
    for line in [
        with_bytes("BF.RESERVE reserved 0.9 90 SEED", seed.as_bytes(), ""),
        with_bytes(
            "BF.RESERVE fixed 1e-7 90 NONSCALING SEED",
            seed.as_bytes(),
            "TIGHTENING 0.25",
        ),
        with_bytes(
            "BF.INSERT inserted ERROR 0.001 SEED",
            seed.as_bytes(),
            "ITEMS a a b",
        ),
        with_bytes("BF.INSERT empty SEED", seed.as_bytes(), "EXPANSION 5"),
        with_bytes(
            "BF.INSERT ends SEED",
            seed.as_bytes(),
            "PXAT 4000000000000 ITEMS a",
        ),
        with_bytes("BF.ADDPACKED packed SEED", seed.as_bytes(), "COUNT LINES a"),
    ] {
        let reply = client.call(&line);
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
    client.answers(&[
        ("BF.ADD reserved a", 1.into()),
        ("BF.ADD reserved a", 0.into()),
        ("BF.MADD inserted a c d", array([0, 1, 1])),
        ("BF.INSERT empty CAPACITY 7 ITEMS a b", array([1, 1])),
        ("BF.INSERT empty", Reply::Array(Vec::new())),
    ]);
    let usual = "TIGHTENING 0.5 SEED (seed)";
    let expected = [
        format!("BF.INSERT reserved CAPACITY 90 ERROR 0.9 {usual} EXPANSION 2"),
        "BF.INSERT fixed CAPACITY 90 ERROR 0.0000001 TIGHTENING 0.25 SEED (seed) NONSCALING".to_owned(),
        format!("BF.INSERT inserted CAPACITY 100 ERROR 0.001 {usual} EXPANSION 2 ITEMS a b"),
        format!("BF.INSERT empty CAPACITY 100 ERROR 0.01 {usual} EXPANSION 5"),
        format!(
            "BF.INSERT ends CAPACITY 100 ERROR 0.01 {usual} EXPANSION 2 LAYOUT VALKEY PXAT 4000000000000 ITEMS a"
        ),
        format!("BF.ADDPACKED packed CAPACITY 100 ERROR 0.01 {usual} EXPANSION 2 LAYOUT VALKEY LINES a"),
        "BF.ADD reserved a".to_owned(),
        "BF.MADD inserted c d".to_owned(),
        "BF.MADD empty a b".to_owned(),
    ];
    let told = propagated(&server);
    let told: Vec<_> = told
        .iter()
        .map(|words| words.join(" ").replace(seed, "(seed)"))
        .collect();
    assert_eq!(told, expected);
}

/// What a valkey-bloom sends of its clients' commands, and writes to its file.
fn stream_of_valkey_bloom() -> Vec<u8> {
    let usual = "BF.INSERT KEY CAPACITY 100 ERROR 0.01 TIGHTENING 0.5 SEED";
    let created = |key: &str, rest: &str| {
        let head = usual.replace("KEY", key);
        wire(&with_bytes(&head, SEED, rest))
    };
    let said = |line: &str| wire(&line.split(' ').collect::<Vec<_>>());
    [
        said("SELECT 0"),
        created("added", "EXPANSION 2 ITEMS a"),
        created("empty", "EXPANSION 4294967295"),
        created("fixed", "NONSCALING"),
        wire(&with_bytes(
            "BF.INSERT tight CAPACITY 7 ERROR 0.00000000000000000001 TIGHTENING 0.999 SEED",
            SEED,
            "EXPANSION 3 ITEMS a b c",
        )),
        // In its clients' words: whatever describes a filter is of no use to one that is there.
        said("BF.ADD added b"),
        said("bf.madd added b c d a"),
        said("BF.INSERT added capacity +7 ERROR .5 error 0.1 validatescaleto 50 ITEMS e"),
        said("BF.INSERT added NOCREATE NONSCALING EXPANSION 7 ITEMS f e"),
        // Of a filter that is full it sends all, where one item was new.
        wire(
            &["BF.MADD", "fixed"]
                .into_iter()
                .map(str::to_owned)
                .chain((0..130).map(|number| number.to_string()))
                .collect::<Vec<_>>(),
        ),
    ]
    .concat()
}

/// A server would hold what the valkey-bloom held that sent [`stream_of_valkey_bloom`].
#[track_caller]
fn has_the_stream(server: &Server) {
    let mut client = server.client();
    client.answers(&[("DBSIZE", 4.into())]);
    for (key, capacity, rate, expansion, ratio) in [
        ("added", 100, 0.01, 2.into(), 0.5),
        ("empty", 100, 0.01, i64::from(u32::MAX).into(), 0.5),
        ("fixed", 100, 0.01, Reply::Null, 0.5),
        ("tight", 7, 1e-20, 3.into(), 0.999),
    ] {
        let expected = ("valkey".to_owned(), capacity, rate, expansion, ratio, hex(SEED));
        assert_eq!(described(&mut client, key), expected, "{key}");
    }
    let letters: Vec<_> = "abcdef".bytes().map(|letter| vec![letter]).collect();
    assert_eq!(present(&mut client, "added", &letters).len(), 6);
    assert_eq!(present(&mut client, "tight", &letters), [0, 1, 2]);
    client.answers(&[
        ("BF.CARD added", 6.into()),
        ("BF.CARD empty", 0.into()),
        ("BF.CARD fixed", 100.into()),
        ("BF.CARD tight", 3.into()),
    ]);
    is_content(server);
}

/// A replica of a valkey-bloom would go its own way in silence, and after the switch its clients miss what they added.
#[test]
fn a_valkey_bloom_is_followed() {
    let primary = Primary::of(stream_of_valkey_bloom());
    let mut server = Server::with()
        .module_args("bf-error-rate 0.2 bf-initial-size 7 bf-seed 9 bf-max-filter-bytes 300")
        .append_only()
        .start();
    let mut client = server.client();
    // Not in its configuration, which would make it follow again when it is started again.
    client.answers(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.port), ok())]);
    until("the replica has the stream", || {
        client.stat("replication", "slave_repl_offset") == primary.sent.to_string()
    });
    has_the_stream(&server);
    client.answers(&[("REPLICAOF NO ONE", ok())]);
    // The module's own file has the filters too.
    server.restart();
    has_the_stream(&server);
}

/// A server that is started on a valkey-bloom's append-only file would have other filters, or none.
#[test]
fn a_file_of_valkey_bloom_s_commands_makes_its_filters() {
    let dir = TempDir::new().unwrap();
    if Server::version().at_least(7, 0) {
        let files = dir.path().join("appendonlydir");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("appendonly.aof.1.incr.aof"), stream_of_valkey_bloom()).unwrap();
        let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
        fs::write(files.join("appendonly.aof.manifest"), manifest).unwrap();
    } else {
        fs::write(dir.path().join("appendonly.aof"), stream_of_valkey_bloom()).unwrap();
    }
    let server = Server::with().append_only().dir(dir.path()).start();
    has_the_stream(&server);
}

/// A script's words are a client's, wherever the script runs: what it makes would be another filter on a replica.
#[test]
fn scripts_make_what_clients_make() {
    let primary = Server::with().module_args("bf-seed 3").start();
    let replica = Server::with()
        .module_args("bf-seed 4 bf-layout classic")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let mut client = primary.client();
    let script = "redis.call('BF.INSERT', KEYS[1], 'LAYOUT', 'VALKEY'); \
                  redis.call('BF.INSERT', KEYS[2], 'SEED', ARGV[1], 'ITEMS', 'a'); \
                  return redis.call('BF.RESERVE', KEYS[3], '0.9', '10', 'TIGHTENING', '0.3')";
    let call = [
        &b"EVAL"[..],
        script.as_bytes(),
        b"3",
        b"empty",
        b"seeded",
        b"reserved",
        SEED,
    ];
    assert_eq!(client.call(&call), ok());
    in_step(&primary, &replica);
    are_equal(
        &mut client,
        &mut replica.client(),
        &["empty", "seeded", "reserved"],
    );
    is_content(&replica);
}

/// Who buys memory by the answer would buy too little, or too much.
#[test]
fn a_plan_is_what_such_a_filter_becomes() {
    let server = Server::start();
    let mut client = server.client3();
    for words in [
        "0.01 30 LAYOUT VALKEY",
        "0.5 20 TIGHTENING 0.3 EXPANSION 4",
        "1e-300 15 LAYOUT VALKEY SEED 7",
        "0.01 40 NONSCALING LAYOUT VALKEY",
        "0.02 11 VALIDATESCALETO 1000",
    ] {
        let plan = client.run(&format!("BF.PLAN {words}"));
        client.answers(&[(&format!("BF.RESERVE key {words}"), ok())]);
        let full = client.run("BF.INFO key FULL");
        for field in ["Capacity", "Error rate", "Expansion rate", "Layout"] {
            assert_eq!(plan.field(field), full.field(field), "{words}: {field}");
        }
        let first = full.field("Layers").elements()[0].clone();
        for field in ["Lines", "Probes"] {
            assert_eq!(plan.field(field), first.field(field), "{words}: {field}");
        }
        let capacity = full.field("Capacity").int();
        for stage in plan.field("Stages").elements().iter().take(2) {
            let target = stage.field("Items").int();
            let mut next = 0;
            while client.run("BF.CARD key").int() < target {
                client.run(&format!("BF.ADD key {next}"));
                next += 1;
            }
            for (field, info) in [("Size", "Size"), ("Number of filters", "Number of filters")] {
                assert_eq!(
                    stage.field(field),
                    client.run("BF.INFO key FULL").field(info),
                    "{words}: {field}"
                );
            }
        }
        assert_eq!(plan.field("Stages").elements()[0].field("Items"), capacity.into());
        client.run("DEL key");
    }
}

/// Who watches a key would not hear of a filter that came without items, or hear of one that stayed as it was.
#[test]
fn an_empty_filter_is_told_of() {
    let server = Server::with().config("notify-keyspace-events", "KEA").start();
    let (mut client, mut listener) = (server.client(), server.client());
    listener.run("PSUBSCRIBE __keyspace@0__:*");
    client.answers(&[
        ("BF.INSERT key LAYOUT VALKEY", Reply::Array(Vec::new())),
        ("BF.INSERT key LAYOUT VALKEY", Reply::Array(Vec::new())),
        ("BF.INSERT key", Reply::Array(Vec::new())),
        ("SET end 1", ok()),
    ]);
    let mut events = Vec::new();
    loop {
        let message = listener.receive().unwrap();
        let [.., channel, event] = message.elements() else {
            panic!("{message:?}")
        };
        if channel.text().ends_with(":end") {
            break;
        }
        events.push(event.text());
    }
    events.retain(|event| event != "new");
    assert_eq!(events, ["bf.insert"]);
}
