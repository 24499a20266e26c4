//! BF.PLAN.

use crate::client::{Client, Reply, error, ok};
use crate::server::Server;

/// Adds items to the key until it counts exactly `target`.
fn fill_to(client: &mut Client, key: &str, target: i64) {
    let mut next = 0;
    loop {
        let missing = target - client.call(&["BF.CARD", key]).int();
        if missing == 0 {
            break;
        }
        let items: Vec<_> = (next..next + missing.min(1000))
            .map(|item| item.to_string())
            .collect();
        next += 1000;
        client.over(&format!("BF.MADD {key}"), &items);
    }
}

/// Who buys memory by the answer would buy too little, or too much.
#[test]
fn tells_what_the_filter_becomes() {
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    for words in [
        "0.01 30",
        "0.001 25 GROWING",
        "0.01 40 NONSCALING",
        "0.01 40 EXPANSION 0",
        "1e-6 21 EXPANSION 4 GROWING",
        "0.1 12 EXPANSION 1",
        "0.9 20 SEED 7",
        "1e-300 15 EXPANSION 32768",
        "0.01 30 LAYOUT CLASSIC",
        "0.0001 25 EXPANSION 7 LAYOUT CLASSIC",
        "0.01 40 NONSCALING LAYOUT CLASSIC",
        "0.02 11 EXPANSION 1 LAYOUT CLASSIC",
        "0.01 30 LAYOUT VALKEY",
        "0.5 20 TIGHTENING 0.3 EXPANSION 4",
        "1e-300 15 LAYOUT VALKEY SEED 7 EXPANSION 1",
        "0.01 40 NONSCALING LAYOUT VALKEY",
        "0.02 11 VALIDATESCALETO 1000",
    ] {
        let plan = client3.run(&format!("BF.PLAN {words}"));
        assert_eq!(plan.fields(), client3.run(&format!("bf.plan {words}")).fields());
        client.answers(&[(&format!("BF.RESERVE key {words}"), ok())]);
        let full = client3.run("BF.INFO key FULL");
        for field in ["Capacity", "Error rate", "Expansion rate", "Layout"] {
            assert_eq!(plan.field(field), full.field(field), "{words}: {field}");
        }
        let first = full.field("Layers").elements()[0].clone();
        for field in ["Lines", "Probes"] {
            assert_eq!(plan.field(field), first.field(field), "{words}: {field}");
        }
        let capacity = full.field("Capacity").int();
        let stages = plan.field("Stages");
        let stages = stages.elements();
        let times: &[i64] = if full.field("Expansion rate") == Reply::Null {
            &[1]
        } else if full.field("Expansion rate") == 1.into() {
            &[1, 10]
        } else {
            &[1, 10, 1000]
        };
        assert_eq!(stages.len(), times.len(), "{words}");
        for (stage, times) in stages.iter().zip(times) {
            let items = capacity * times;
            assert_eq!(stage.field("Items"), items.into(), "{words}");
            fill_to(&mut client, "key", items);
            let full = client3.run("BF.INFO key FULL");
            for field in ["Size", "Number of filters"] {
                assert_eq!(
                    stage.field(field),
                    full.field(field),
                    "{words}: {field} of {items} items"
                );
            }
            let bits = stage.field("Size").number() * 8.0 / items as f64;
            assert_eq!(stage.field("Bits per item").number(), bits, "{words}");
            let layers = full.field("Layers");
            let rates = layers
                .elements()
                .iter()
                .map(|layer| layer.field("Error rate").number());
            let rate = rates.fold(0.0, |all, rate| all + rate * (1.0 - all));
            let stated = stage.field("Error rate").number();
            assert!((stated / rate - 1.0).abs() < 1e-9, "{words}: {stated}, {rate}");
            // The layers of valkey-bloom's layout may sum to more.
            assert!(
                words.contains("VALKEY")
                    || words.contains("TIGHTENING")
                    || words.contains("VALIDATE")
                    || stated <= plan.field("Error rate").number() * (1.0 + 1e-9),
                "{words}: {stated}"
            );
        }
        client.answers(&[("DEL key", 1.into())]);
    }
}

/// Who reserves a filter for as many items as BF.PLAN names would be refused before; or would buy a larger one for
/// nothing.
#[test]
fn most_items_are_what_a_filter_takes() {
    const FULL: &str = "ERR non scaling filter is full";
    const TOO_MANY: &str =
        "ERR the filter would have more than 1100 layers: with a larger capacity or EXPANSION it needs fewer";
    const NO_LAYER: &str =
        "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity";
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<_> = (0..6000).map(|item| item.to_string()).collect();
    for (words, end) in [
        ("0.01 40 NONSCALING", FULL),
        ("0.01 3 EXPANSION 1", TOO_MANY),
        ("1e-6 2 EXPANSION 1 GROWING", TOO_MANY),
        ("0.01 40 NONSCALING LAYOUT CLASSIC", FULL),
        ("0.01 2 EXPANSION 1 LAYOUT CLASSIC", NO_LAYER),
        ("1e-300 5 EXPANSION 1 LAYOUT CLASSIC", NO_LAYER),
        ("0.01 40 NONSCALING LAYOUT VALKEY", FULL),
        ("0.01 2 EXPANSION 1 LAYOUT VALKEY", NO_LAYER),
        ("0.01 3 EXPANSION 1 TIGHTENING 0.1 LAYOUT VALKEY", NO_LAYER),
        ("1e-30 1 EXPANSION 1 TIGHTENING 0.999999 LAYOUT VALKEY", TOO_MANY),
    ] {
        client.answers(&[(&format!("BF.RESERVE key {words}"), ok())]);
        let reply = client.over("BF.MADD key", &items);
        let (last, answers) = reply.elements().split_last().unwrap();
        assert_eq!(last, &error(end), "{words}: {} answers", answers.len());
        let most = client.run(&format!("BF.PLAN {words}")).field("Most items");
        client.answers(&[("BF.CARD key", most), ("DEL key", 1.into())]);
    }
}

/// A client would find its figures in another place than the documentation says.
#[test]
fn answers_in_the_forms_of_both_protocols() {
    let server = Server::start();
    let (flat, map) = (
        server.client().run("BF.PLAN 0.01 1000000"),
        server.client3().run("BF.PLAN 0.01 1000000"),
    );
    assert!(matches!(flat, Reply::Array(_)), "{flat:?}");
    assert!(
        map.is_map() && map.field("Stages").elements()[0].is_map(),
        "{map:?}"
    );
    let names = |reply: &Reply| {
        reply
            .fields()
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    for plan in [&flat, &map] {
        assert_eq!(
            names(plan),
            [
                "Capacity",
                "Error rate",
                "Expansion rate",
                "Layout",
                "Lines",
                "Probes",
                "Most items",
                "Stages"
            ]
        );
        assert_eq!(plan.field("Error rate").number(), 0.01);
        assert_eq!(plan.field("Layout").text(), "blocked");
        let stages = plan.field("Stages");
        let stated: Vec<_> = stages
            .elements()
            .iter()
            .map(|stage| {
                assert_eq!(
                    names(stage),
                    [
                        "Items",
                        "Size",
                        "Number of filters",
                        "Bits per item",
                        "Error rate"
                    ]
                );
                ["Items", "Size", "Number of filters"].map(|field| stage.field(field).int())
            })
            .collect();
        assert_eq!(
            stated,
            [
                [1_000_000, 1_309_536, 1],
                [10_000_000, 31_555_168, 4],
                [1_000_000_000, 2_876_089_312, 10]
            ]
        );
    }
}

/// A question could stop the server for all others, or end it.
#[test]
fn absurd_plans_are_answered() {
    let server = Server::with().module_args("bf-max-filter-bytes 1000").start();
    let mut client = server.client();
    for (words, stages) in [
        ("1e-300 1099511627776", 3),
        ("1e-300 1099511627776 EXPANSION 32768 GROWING", 3),
        ("1e-300 1099511627776 LAYOUT CLASSIC EXPANSION 32768", 3),
        ("0.999 1", 3),
        ("0.01 1 EXPANSION 1", 2),
        ("1e-30 4096 EXPANSION 1 GROWING", 2),
        ("1e-300 1 EXPANSION 1 LAYOUT CLASSIC", 2),
        ("1e-30 1099511627776 NONSCALING", 1),
        ("1e-30 1099511627776 WINDOW 4294967295 SLICES 64 REFRESH", 3),
    ] {
        let plan = client.run(&format!("BF.PLAN {words}"));
        let stated = plan.field("Stages");
        assert_eq!(stated.elements().len(), stages, "{words}");
        let sizes: Vec<_> = stated
            .elements()
            .iter()
            .map(|stage| stage.field("Size").int())
            .collect();
        assert!(sizes.is_sorted() && sizes[0] > 0, "{words}: {sizes:?}");
    }
    client.answers(&[("DBSIZE", 0.into())]);
    assert!(server.is_alive());
}

/// The plan would be that of another filter than the one that is then reserved.
#[test]
fn what_is_left_open_comes_from_the_options() {
    let server = Server::with()
        .module_args("bf-layout classic bf-expansion-factor 5 bf-seed 4")
        .start();
    let mut client = server.client();
    let plan = client.run("BF.PLAN 0.01 100");
    assert_eq!(plan.field("Layout").text(), "classic");
    assert_eq!(plan.field("Expansion rate"), 5.into());
    assert_eq!(plan.field("Lines"), Reply::Null);
}
