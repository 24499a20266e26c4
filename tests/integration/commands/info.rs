//! BF.INFO.

use crate::client::{Reply, WRONG_TYPE, arity, error, ok};
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

/// A wrong question would get an answer to another one.
#[test]
fn mistakes_are_errors() {
    let server = Server::start();
    let mut client = server.client();
    let (arity, invalid) = (arity("bf.info"), "Invalid information value");
    client.run("BF.ADD key item");
    client.run("SET text value");
    client.refuses(
        "key",
        &[
            ("BF.INFO", &arity),
            ("BF.INFO key SIZE ITEMS", &arity),
            ("BF.INFO key BYTES", invalid),
            ("BF.INFO key CAP", invalid),
            ("BF.INFO key ''", invalid),
        ],
    );
    client.refuses(
        "text",
        &[("BF.INFO text", WRONG_TYPE), ("BF.INFO text SIZE", WRONG_TYPE)],
    );
    client.refuses(
        "missing",
        &[
            ("BF.INFO missing", "ERR not found"),
            ("BF.INFO missing SIZE", "ERR not found"),
            ("BF.INFO missing FULL", "ERR not found"),
        ],
    );
    assert_eq!(server.client3().run("BF.INFO missing"), error("ERR not found"));
}

/// Who runs the server could not see whether a filter keeps its promise, nor what its layers cost.
#[test]
fn full_explains_the_filter() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE key 0.001 100 EXPANSION 2 SEED 18446744073709551615");
    filters::fill(&mut client, "key", 0, 250);
    let short = client.run("BF.INFO key").fields();
    let full = client.run("BF.INFO key FULL");
    let names: Vec<_> = full.fields().into_iter().map(|(name, _)| name).collect();
    assert_eq!(full.fields()[..5], short);
    assert_eq!(
        names[5..],
        [
            "Error rate",
            "Layout",
            "Seed",
            "Bits set",
            "Fill ratio",
            "Estimated error rate",
            "Exceptions",
            "Layers"
        ]
    );
    assert_eq!(full.field("Error rate").number(), 0.001);
    assert_eq!(full.field("Layout").text(), "blocked");
    assert_eq!(full.field("Seed").text(), "18446744073709551615");

    let layers = full.field("Layers");
    let sum = |field| {
        layers
            .elements()
            .iter()
            .map(|layer| layer.field(field).int())
            .sum::<i64>()
    };
    assert_eq!(layers.elements().len(), 2);
    assert_eq!(sum("Capacity"), full.field("Capacity").int());
    assert_eq!(sum("Items"), full.field("Number of items inserted").int());
    assert_eq!(sum("Bits set"), full.field("Bits set").int());
    let fill = full.field("Bits set").number() / (8.0 * sum("Bytes") as f64);
    assert!(
        (full.field("Fill ratio").number() / fill - 1.0).abs() < 1e-3,
        "{full:?}"
    );
    assert!(sum("Bytes") < full.field("Size").int(), "{full:?}");
    let estimate = full.field("Estimated error rate").number();
    assert!(estimate > 0.0 && estimate < 0.001, "{full:?}");
    for layer in layers.elements() {
        assert_eq!(layer.field("Layout").text(), "blocked");
        assert_eq!(
            layer.field("Bytes").int() % (64 * layer.field("Lines").int()),
            0,
            "{layer:?}"
        );
        assert!((2..=8).contains(&layer.field("Probes").int()), "{layer:?}");
        assert!(
            (0.0..0.001).contains(&layer.field("Error rate").number()),
            "{layer:?}"
        );
    }
    let full3 = server.client3().run("BF.INFO key FULL");
    assert!(full3.is_map(), "{full3:?}");
    assert!(full3.field("Layers").elements()[0].is_map(), "{full3:?}");
    let rate = full3.field("Error rate");
    if Server::version().modules_have_resp3() {
        assert!(matches!(rate, Reply::Double(0.001)), "{full3:?}");
    } else {
        assert_eq!(rate, Reply::Bulk(b"0.001".to_vec()));
    }
    assert_eq!(full3.field("Bits set"), full.field("Bits set"));
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
    let mut told = texts(&full, &names);
    for layer in full.field("Layers").elements() {
        told.extend(texts(layer, &["Error rate"]));
    }
    for stage in plan.field("Stages").elements() {
        told.extend(texts(stage, &["Error rate", "Bits per item"]));
    }
    assert_eq!(told.len(), 3 + 2 + 6, "{full:?} {plan:?}");
    for text in &told {
        let value: f64 = text.parse().unwrap();
        assert!(
            *text == value.to_string() || *text == format!("{value:e}"),
            "{text}"
        );
    }
    assert_eq!(told[0], "0.1");
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
