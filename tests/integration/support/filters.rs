//! A set of filters of every kind, for operations that must keep all of them.

use crate::client::{Client, Reply, wire};
use crate::server::Server;

/// How each filter is created, and how many items it gets.
const KINDS: [(&str, &str, usize); 12] = [
    ("default", "", 60),
    ("chain", "", 4000),
    ("empty", "BF.RESERVE empty 0.01 1000", 0),
    ("reserved", "BF.RESERVE reserved 0.001 1000", 700),
    ("nonscaling", "BF.RESERVE nonscaling 0.01 200 NONSCALING", 200),
    ("expansion", "BF.RESERVE expansion 0.05 50 EXPANSION 7", 1500),
    (
        "tight",
        "BF.RESERVE tight 1e-12 500 SEED 18446744073709551615 GROWING",
        900,
    ),
    ("classic", "BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", 3000),
    (
        "fixed-classic",
        "BF.RESERVE fixed-classic 0.001 300 NONSCALING LAYOUT CLASSIC",
        300,
    ),
    ("loose", "BF.RESERVE loose 0.25 10000 SEED 0", 5000),
    (
        "valkey",
        "BF.RESERVE valkey 0.01 100 LAYOUT VALKEY TIGHTENING 0.75",
        2000,
    ),
    (
        "fixed-valkey",
        "BF.RESERVE fixed-valkey 0.001 300 NONSCALING LAYOUT VALKEY",
        300,
    ),
];

/// The filters in valkey-bloom's layout.
pub const VALKEY: [&str; 2] = ["valkey", "fixed-valkey"];

/// The keys.
pub fn keys() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(key, ..)| *key)
}

/// Creates the filters.
pub fn make(client: &mut Client) {
    for (key, reserve, items) in KINDS {
        if !reserve.is_empty() {
            client.run(reserve);
        }
        fill(client, key, 0, items);
    }
}

/// Adds a range of the numbered items of a key.
pub fn fill(client: &mut Client, key: &str, from: usize, to: usize) {
    let items: Vec<_> = (from..to).map(|i| format!("{key}:{i}")).collect();
    for batch in items.chunks(500) {
        client.over(&format!("BF.MADD {key}"), batch);
    }
}

/// Everything that a client can learn about these filters: their bits and figures.
pub fn snapshot(client: &mut Client) -> Vec<(&'static str, Reply)> {
    let probes: Vec<_> = keys()
        .flat_map(|key| (0..200).map(move |i| format!("{key}:{}", i * 25)))
        .collect();
    let mut replies = Vec::new();
    for key in keys() {
        replies.push((key, client.dump(key)));
        replies.push((key, client.call(&["DEBUG", "DIGEST-VALUE", key])));
        replies.push((key, client.call(&["BF.INFO", key, "FULL"])));
        replies.push((key, client.over(&format!("BF.MEXISTS {key}"), &probes)));
    }
    replies
}

/// Everything that a client can learn about some keys and that does not depend on a clock.
pub fn contents(client: &mut Client, keys: &[&str]) -> Vec<(String, Reply)> {
    let asked = keys.iter().flat_map(|key| {
        ["TYPE", "DEBUG DIGEST-VALUE", "DUMP", "BF.DEBUG"].map(|command| format!("{command} {key}"))
    });
    asked.map(|line| (line.clone(), client.run(&line))).collect()
}

/// Asserts that both servers have the same values in these keys.
#[track_caller]
pub fn same(one: &Server, other: &Server, keys: &[&str], what: &str) {
    let (one, other) = (
        contents(&mut one.client(), keys),
        contents(&mut other.client(), keys),
    );
    for (one, other) in one.iter().zip(&other) {
        assert!(one == other, "{what}: {one:?} and {other:?}");
    }
}

/// A figure of the module's section of INFO.
pub fn figure(client: &mut Client, name: &str) -> i64 {
    client.stat("bf", &format!("bf_{name}")).parse().unwrap()
}

/// A server with a filter in `key` that has a layer for nearly each of these items: more than a client's filter may have,
/// so it comes from a file, as do the batches that follow.
pub fn with_very_many_layers(items: &[String], batches: &[&[&str]]) -> Server {
    let mut file = wire(&["BF.INSERT", "key", "SPEC1:r:1e-3:1:1:1:0"]);
    let items: Vec<_> = items.iter().map(String::as_str).collect();
    for batch in [&[&*items], batches].concat() {
        file.extend(wire(&[&["BF.MADD", "key"], batch].concat()));
    }
    let file = String::from_utf8(file).unwrap();
    Server::with().append_only().file("appendonly.aof", file).start()
}
