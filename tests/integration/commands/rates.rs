//! The promises in numbers: how often a filter is wrong, and what it costs.
//!
//! All filters here have chosen seeds, so that each run measures the same.

use crate::client::{Client, Reply, ok};
use crate::filters;
use crate::server::{Server, sample};

/// The most false positives among `probes` that a rate explains: three standard errors above its mean.
fn at_most(rate: f64, probes: usize) -> f64 {
    let probes = probes as f64;
    rate * probes + 3.0 * (rate * (1.0 - rate) * probes).sqrt()
}

/// Counts the false positives among items that were never added.
fn false_positives(client: &mut Client, key: &str, probes: usize) -> f64 {
    let items: Vec<_> = (0..probes).map(|i| format!("absent:{i}")).collect();
    let command = format!("BF.MEXISTS {key}");
    let replies = items.chunks(5000).map(|batch| client.over(&command, batch));
    replies
        .map(|reply| reply.elements().iter().map(Reply::number).sum::<f64>())
        .sum()
}

/// A filter that grew by itself, as most do, would be wrong ever more often.
#[test]
fn a_chain_keeps_the_promised_rate_at_every_length() {
    let server = Server::with().module_args("bf-seed 3").start();
    let mut client = server.client();
    let probes = sample(100_000);
    let mut card = 0;
    for length in [100, 1000, 10_000, 30_000, 100_000] {
        filters::fill(&mut client, "chain", card, length);
        card = length;
        let wrong = false_positives(&mut client, "chain", probes);
        let bound = at_most(0.01, probes);
        assert!(
            wrong <= bound,
            "{length} items: {wrong} of {probes}, at most {bound}"
        );
        let estimate = client
            .run("BF.INFO chain FULL")
            .field("Estimated error rate")
            .number();
        assert!(estimate <= 0.01, "{length} items: an estimate of {estimate}");
        // A single small chain differs from the mean of all.
        let off = wrong / probes as f64 / estimate - 1.0;
        assert!(
            length < 10_000 || off.abs() < 0.15,
            "{length} items: the estimate is off by {off}"
        );
    }
    assert!(client.info("chain", "Number of filters") >= 10);
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
