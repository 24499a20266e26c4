//! BF.INFO.

use crate::client::{Reply, bulk, ok};
use crate::filters;
use crate::server::Server;
use crate::support::table::FIELDS;

/// Typed clients, which refuse a field that they do not know or find in another place, would fail.
#[test]
fn says_exactly_five_things() {
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    client.answers(&[
        ("BF.RESERVE key 1e-9 100 EXPANSION 3 SEED 1", ok()),
        ("BF.RESERVE fixed 0.01 700 NONSCALING", ok()),
    ]);
    filters::fill(&mut client, "key", 0, 150);
    for (key, capacity, layers, items, expansion) in
        [("key", 400, 2, 150, 3.into()), ("fixed", 700, 1, 0, Reply::Null)]
    {
        let Reply::Array(flat) = client.call(&["BF.INFO", key]) else {
            panic!("no array in RESP2")
        };
        let map = client3.call(&["BF.INFO", key]);
        assert!(map.is_map(), "no map in RESP3: {map:?}");
        assert_eq!(Reply::Array(flat.clone()).fields(), map.fields());
        let size = flat[3].int();
        let expected = [
            capacity.into(),
            size.into(),
            layers.into(),
            items.into(),
            expansion,
        ];
        let expected: Vec<_> = FIELDS
            .iter()
            .map(|name| (*name).to_owned())
            .zip(expected)
            .collect();
        assert_eq!(map.fields(), expected);
        assert!(size > 0);
    }
}

/// A client that asks for one figure would get another, or another form.
#[test]
fn says_one_thing_when_asked_for_it() {
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    client.run("BF.RESERVE key 0.01 100 NONSCALING");
    client.run("BF.ADD key item");
    let all = client3.run("BF.INFO key");
    for (option, field) in ["CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION"]
        .into_iter()
        .zip(FIELDS)
    {
        let value = all.field(field);
        for option in [option.to_owned(), option.to_lowercase()] {
            let line = format!("BF.INFO key {option}");
            assert_eq!(client.run(&line), Reply::Array(vec![value.clone()]), "{line}");
            let one = client3.run(&line);
            if Server::version().modules_have_resp3() {
                assert!(one.is_map(), "no map in RESP3: {one:?}");
                assert_eq!(one.fields(), [(field.to_owned(), value.clone())], "{line}");
            } else {
                assert_eq!(one, Reply::Array(vec![value.clone()]), "{line}");
            }
        }
    }
}

/// Who runs the server could not see whether a filter keeps its promise, nor what its layers cost.
#[test]
fn full_explains_the_filter() {
    let server = Server::start();
    for (words, layout, more, more_of_layers) in [
        ("0.001 100 SEED 18446744073709551615", "blocked", &[][..], &[][..]),
        ("0.001 100 LAYOUT CLASSIC", "classic", &[], &[]),
        (
            "0.001 100 LAYOUT VALKEY TIGHTENING 0.25 SEED 7",
            "valkey",
            &["Tightening ratio"],
            &[],
        ),
        (
            "0.001 100 WINDOW 1000 SEED 7",
            "blocked",
            &["Window", "Slices", "Refresh"],
            &["Opens", "Closes"],
        ),
    ] {
        let mut client = server.client();
        client.answers(&[
            ("FLUSHALL SYNC", ok()),
            (&format!("BF.RESERVE key {words}"), ok()),
        ]);
        filters::fill(&mut client, "key", 0, 250);
        let [flat, map] = [client, server.client3()].map(|mut client| {
            let full = client.run("BF.INFO key FULL");
            is_explained(&full, layout, more, more_of_layers);
            full
        });
        assert!(
            map.is_map() && map.field("Layers").elements()[0].is_map(),
            "{map:?}"
        );
        assert_eq!(map.field("Bits set"), flat.field("Bits set"));
        assert_eq!(flat.field("Error rate"), bulk("0.001"));
        if Server::version().modules_have_resp3() {
            assert_eq!(map.field("Error rate"), Reply::Double(0.001));
        }
        match (layout, more) {
            ("classic", _) => {
                assert_eq!(map.field("Seed"), Reply::Null);
                // RedisBloom's formulae: 40 bytes, and 64 and the bit array for each layer.
                assert_eq!(map.field("Size"), (32 + 2 * 64 + 200 + 432).into());
                let layers = map.field("Layers");
                let figures = layers.elements().iter().map(|layer| {
                    let [bytes, probes] = ["Bytes", "Probes"].map(|name| layer.field(name).int());
                    (bytes, probes, layer.field("Error rate").number())
                });
                assert!(figures.eq([(200, 11, 0.0005), (432, 12, 0.00025)]), "{layers:?}");
            }
            ("valkey", _) => {
                assert_eq!(map.field("Tightening ratio").number(), 0.25);
                assert_eq!(
                    map.field("Seed").text().len(),
                    64,
                    "32 bytes, in hexadecimal digits"
                );
            }
            (_, []) => assert_eq!(map.field("Seed"), bulk("18446744073709551615")),
            _ => {
                let fields = ["Window", "Slices", "Refresh"].map(|name| map.field(name));
                assert_eq!(fields, [1000.into(), 8.into(), false.into()]);
            }
        }
    }
}

/// The fields of a filter with 250 items at 0.001, in their order, and sums that agree.
#[track_caller]
fn is_explained(full: &Reply, layout: &str, more: &[&str], more_of_layers: &[&str]) {
    let names = |reply: &Reply| -> Vec<_> { reply.fields().into_iter().map(|(name, _)| name).collect() };
    let of_layout = more.first() == Some(&"Tightening ratio");
    let (before, behind) = if of_layout {
        (more, &[][..])
    } else {
        (&[][..], more)
    };
    let figures = ["Bits set", "Fill ratio", "Estimated error rate", "Exceptions"];
    let expected = [
        &FIELDS[..],
        &["Error rate", "Layout", "Seed"],
        before,
        &figures,
        behind,
        &["Layers"],
    ];
    assert_eq!(names(full), expected.concat());
    assert_eq!(full.field("Layout").text(), layout);

    let layers = full.field("Layers");
    let sum = |field| -> i64 {
        layers
            .elements()
            .iter()
            .map(|layer| layer.field(field).int())
            .sum()
    };
    assert!(layers.elements().len() > 1, "{full:?}");
    assert_eq!(sum("Items"), full.field("Number of items inserted").int());
    assert_eq!(sum("Bits set"), full.field("Bits set").int());
    if more_of_layers.is_empty() {
        assert_eq!(sum("Capacity"), full.field("Capacity").int());
    }
    let fill = full.field("Bits set").number() / (8.0 * sum("Bytes") as f64);
    assert!(
        (full.field("Fill ratio").number() / fill - 1.0).abs() < 1e-3,
        "{full:?}"
    );
    assert!(sum("Bytes") < full.field("Size").int(), "{full:?}");
    let estimate = full.field("Estimated error rate").number();
    // valkey-bloom's first layer has the whole rate, the second a quarter of it more.
    let most = if layout == "valkey" { 0.00125 } else { 0.001 };
    assert!(estimate > 0.0 && estimate < most, "{full:?}");
    for layer in layers.elements() {
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
        assert_eq!(names(layer), [&known, more_of_layers].concat());
        assert_eq!(layer.field("Layout").text(), layout);
        match layer.field("Lines") {
            Reply::Int(lines) => assert_eq!(layer.field("Bytes").int() % (64 * lines), 0, "{layer:?}"),
            other => assert_eq!((other, layout != "blocked"), (Reply::Null, true)),
        }
        assert!((2..=20).contains(&layer.field("Probes").int()), "{layer:?}");
        assert!(
            (0.0..=0.001).contains(&layer.field("Error rate").number()),
            "{layer:?}"
        );
    }
}

/// Digits that nobody gave would be read as a measurement, and differ from server to server.
#[test]
fn doubles_have_the_fewest_digits_that_mean_them() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE key 0.1 100 SEED 1");
    client.run("BF.RESERVE tight 1e-7 100 SEED 1");
    filters::fill(&mut client, "key", 0, 250);
    let texts = |reply: &Reply, names: &[&str]| {
        names
            .iter()
            .map(|name| reply.field(name).text())
            .collect::<Vec<_>>()
    };
    let names = ["Error rate", "Fill ratio", "Estimated error rate"];
    let (full, plan) = (client.run("BF.INFO key FULL"), client.run("BF.PLAN 0.1 100"));
    let mut stated = texts(&full, &names);
    for layer in full.field("Layers").elements() {
        stated.extend(texts(layer, &["Error rate"]));
    }
    for stage in plan.field("Stages").elements() {
        stated.extend(texts(stage, &["Error rate", "Bits per item"]));
    }
    assert_eq!(stated.len(), 3 + 2 + 6, "{full:?} {plan:?}");
    for text in &stated {
        let value: f64 = text.parse().unwrap();
        assert!(
            *text == value.to_string() || *text == format!("{value:e}"),
            "{text}"
        );
    }
    assert_eq!(stated[0], "0.1");
    assert_eq!(plan.field("Error rate").text(), "0.1");
    assert_eq!(
        texts(&client.run("BF.INFO tight FULL"), &names)[..2],
        ["1e-7", "0"]
    );
}

/// The server would count a large filter as nothing, and evict everything else first.
#[test]
fn the_server_knows_the_size_too() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE key 0.01 100000");
    let (size, used) = (client.info("key", "Size"), client.run("MEMORY USAGE key").int());
    assert!(
        size > 100_000 && (size..size + 1000).contains(&used),
        "size {size}, memory usage {used}"
    );
}

/// Memory is why anyone uses a Bloom filter: it would cost more than it needs to.
#[test]
fn filters_take_the_memory_that_was_promised() {
    let server = Server::start();
    let mut client = server.client();
    for (options, bits) in [
        ("0.01 1000000", 10.6),
        ("0.01 1000000 NONSCALING", 10.0),
        ("0.0001 1000000", 20.7),
        ("0.0001 1000000 NONSCALING", 20.2),
    ] {
        client.answers(&[("FLUSHALL", ok()), (&format!("BF.RESERVE key {options}"), ok())]);
        let per_item = 8.0 * client.info("key", "Size") as f64 / 1e6;
        assert!(per_item <= bits, "{options}: {per_item} bits per item");
    }
    client.answers(&[("BF.ADD small item", 1.into())]);
    let size = client.info("small", "Size");
    assert!(size <= 312, "a default filter with one item takes {size} bytes");
}

/// A reader could keep the server busy for seconds with one question.
#[test]
fn full_lists_the_newest_thousand_layers() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 1 EXPANSION 1 SEED 1", ok())]);
    filters::fill(&mut client, "key", 0, 1090);
    let full = client.run("BF.INFO key FULL");
    let filters = full.field("Number of filters").int();
    assert!(filters > 1050, "{filters}");
    let layers = full.field("Layers");
    assert_eq!(layers.elements().len(), 1000);
    let lines = client.run("BF.DEBUG key");
    assert_eq!(lines.elements().len() as i64, 1 + filters);
    // The tightest rate is the newest layer's.
    let rates: Vec<f64> = layers
        .elements()
        .iter()
        .map(|layer| layer.field("Error rate").number())
        .collect();
    let newest = lines.elements().last().unwrap().text();
    let (_, ratio) = newest.split_once(" ratio:").unwrap();
    let ratio: f64 = ratio.parse().unwrap();
    assert!(
        (rates[999] / ratio - 1.0).abs() < 1e-5,
        "{newest}, {}",
        rates[999]
    );
}
