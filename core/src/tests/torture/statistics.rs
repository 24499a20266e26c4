//! What the documentation promises about rates and sizes, measured on filled filters.
//!
//! A rate is measured in two ways. *Sampled*: the share of absent items that a filter finds. *From the
//! bits*: the chance that a uniformly random hash is covered, computed from the words' set bits, which has
//! no error of sampling, so that rates of 1e-8 and less can be measured; that the two agree shows that the
//! hash and the choice of lines are as good as random ones. Either is a mean over independent filters,
//! each with a seed of its own, and its standard error is that of such a mean: it holds the differences
//! between filters.
//!
//! With `BLOOM_TEST_LONG` set, samples are larger, and the tightest rates are sampled by 10^10 probes. The
//! figures are shown by `make torture ARGS="statistics --nocapture"`.

use std::fmt;

use crate::Filter;
use crate::chain::batch::Layer as _;
use crate::chain::{Rules as _, UNLIMITED};
use crate::layouts::blocked::{Blocked, Layer};
use crate::params::Growth;
use crate::shrinking::folded;
use crate::spec::BlockedSpec;
use crate::tests::oracle::*;

const RATES: [f64; 5] = [0.2, 0.1, 0.01, 0.001, 0.0001];

/// How much larger samples are than the usual ones.
fn scale() -> f64 {
    match std::env::var_os("BLOOM_TEST_LONG") {
        Some(_) => 16.0,
        None if cfg!(debug_assertions) => 0.1,
        None => 1.0,
    }
}

/// Numbers as items, in batches.
struct Items {
    next: u64,
    items: Vec<[u8; 8]>,
}

impl Items {
    /// Items that are added start here, items that never are at [`Self::ABSENT`].
    const ADDED: u64 = 0;
    const ABSENT: u64 = 1 << 40;

    fn from(next: u64) -> Self {
        Self {
            next,
            items: Vec::new(),
        }
    }

    /// The next items, at most `count`.
    fn some(&mut self, count: u64) -> impl Iterator<Item = &[u8]> {
        let end = self.next + count.min(4096);
        self.items.clear();
        self.items.extend((self.next..end).map(u64::to_le_bytes));
        self.next = end;
        self.items.iter().map(|item| &item[..])
    }
}

/// A filter that counts `items`.
fn filled(spec: BlockedSpec, items: u64) -> Filter {
    let mut filter = filter(spec);
    let mut source = Items::from(Items::ADDED);
    while filter.items() < items {
        let missing = items - filter.items();
        filter
            .add_all(source.some(missing), 0, UNLIMITED, |_| ())
            .unwrap();
    }
    filter
}

/// The share of `probes` absent items that the filter finds.
fn share_found(filter: &Filter, probes: u64) -> f64 {
    let mut source = Items::from(Items::ABSENT);
    let mut found = 0u64;
    while source.next < Items::ABSENT + probes {
        let missing = Items::ABSENT + probes - source.next;
        filter.contains_all(source.some(missing), 0, |hit| found += u64::from(hit));
    }
    found as f64 / probes as f64
}

/// Bounds of the probability that the filter finds an item with a random hash: if its layers cover hashes
/// independently, and if no two cover the same.
///
/// The truth lies between, because a new layer never takes an item that an older one covers.
fn rate_from_bits(filter: &Filter) -> (f64, f64) {
    let rates: Vec<_> = chain(filter).layers().iter().map(layer_rate_from_bits).collect();
    let none = rates.iter().map(|rate| 1.0 - rate).product::<f64>();
    let sum = rates.iter().sum::<f64>();
    if rates.len() == 1 {
        (sum, sum)
    } else {
        (1.0 - none, sum)
    }
}

fn layer_rate_from_bits(layer: &Layer) -> f64 {
    let geometry = layer.shape().geometry;
    let partitions = layer.bits().units().chunks(geometry.lines as usize);
    let partition = |lines: &[crate::bits::kernel::Line]| {
        let covered: f64 = lines
            .iter()
            .map(|line| {
                let full = line.0.map(|word| f64::from(word.count_ones()) / 64.0);
                let starts = (0..8).map(|start| {
                    (0..usize::from(geometry.probes))
                        .map(|t| full[(start + t) % 8])
                        .product::<f64>()
                });
                starts.sum::<f64>() / 8.0
            })
            .sum();
        covered / lines.len() as f64
    };
    partitions.map(partition).product()
}

/// A mean and its standard error.
#[derive(Clone, Copy)]
struct Mean {
    mean: f64,
    error: f64,
}

impl Mean {
    /// The mean of independent filters' rates.
    fn of(rates: &[f64]) -> Self {
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        Self {
            mean,
            error: (squares / (count - 1.0) / count).sqrt(),
        }
    }

    /// The mean of rates that were sampled with `probes` probes, where `rate` is expected. The standard error is at
    /// least that of counting hits: there may be too few hits to differ between filters.
    fn sampled(rates: &[f64], rate: f64, probes: u64) -> Self {
        let Self { mean, error } = Self::of(rates);
        let of_counting = (rate / probes as f64).sqrt();
        Self {
            mean,
            error: error.max(of_counting),
        }
    }

    fn is_at_most(self, rate: f64) -> bool {
        self.mean <= rate + 3.0 * self.error
    }

    /// Whether the mean is `value` within its error and `tolerance`, a share of `value`.
    fn is_about(self, value: f64, tolerance: f64) -> bool {
        (self.mean - value).abs() <= 4.0 * self.error + tolerance * value
    }
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3e} ± {:.1e}", self.mean, self.error)
    }
}

/// Fills `filters` filters up to `items` and checks all that is said about their rate.
fn keeps_its_promise(spec_of: impl Fn(u64) -> BlockedSpec, items: u64, filters: u64, probes: u64) {
    let (mut sampled, mut from_bits) = (Vec::new(), Vec::new());
    let (mut above_least, mut below_most) = (Vec::new(), Vec::new());
    let (mut estimated, mut bits) = (0.0, 0.0);
    for seed in 0..filters {
        let filter = filled(spec_of(seed), items);
        assert_eq!(filter.items(), items);
        let rate = share_found(&filter, probes);
        let (least, most) = rate_from_bits(&filter);
        sampled.push(rate);
        from_bits.push(least);
        above_least.push(rate - least);
        below_most.push(most - rate);
        estimated = filter.estimated_error_rate();
        bits = filter.totals().bits as f64;
    }
    let spec = spec_of(0);
    let promise = spec.error_rate.value();
    let from_bits = Mean::of(&from_bits);
    let of_sample = |rates| Mean::sampled(rates, from_bits.mean, probes * filters);
    let sampled = of_sample(&sampled);
    let figures = format!(
        "{:<23} of {:>7} with {:>7} items at {promise:<6}: sampled {sampled}, from bits {from_bits}, \
         estimated {estimated:.3e}, {:.2} bits an item",
        format!("{:?}", spec.growth),
        spec.capacity.items(),
        items,
        bits / items as f64,
    );
    println!("{figures}");
    assert!(sampled.is_at_most(promise), "promise missed, sampled: {figures}");
    assert!(
        from_bits.is_at_most(promise),
        "promise missed, from bits: {figures}"
    );
    for difference in [&above_least, &below_most].map(|differences| of_sample(differences)) {
        assert!(
            difference.mean >= -4.0 * difference.error,
            "hash or lines are not random: {figures}"
        );
    }
    // The estimate rounds the number of items met up to a whole one, which shows in small layers.
    let tolerance = 0.01 + 10.0 / spec.capacity.items() as f64;
    assert!(
        from_bits.is_about(estimated, tolerance),
        "wrong estimate: {figures}"
    );
}

/// Filters and probes in each for a filter of `items` at `rate`.
fn sample(items: u64, rate: f64) -> (u64, u64) {
    let filters = match items {
        0..=100 => 3000,
        101..=1000 => 600,
        1001..=10_000 => 100,
        10_001..=102_300 => 20,
        _ => 8,
    };
    let filters = ((filters as f64 * scale().min(4.0)) as u64).max(8);
    let probes = (5000.0 / rate).clamp(5e5, 5e6) * scale();
    (filters, (probes / filters as f64).max(1.0) as u64)
}

/// Users would get more false positives than they requested. A filter that may grow has a smaller rate in its first
/// layer, and so more room for an error.
#[test]
fn a_full_layer_keeps_the_promised_rate() {
    for items in [100, 1000, 10_000, 1_000_000] {
        for rate in RATES {
            let (filters, probes) = sample(items, rate);
            keeps_its_promise(
                |seed| spec(items, rate, Growth::Fixed, seed),
                items,
                filters,
                probes,
            );
        }
    }
}

/// A list of 100,000 items would give more false positives than asked for, whether or not it is to grow.
#[test]
fn a_full_list_of_a_hundred_thousand_keeps_its_rate() {
    for growth in [reserved(2), Growth::Fixed] {
        let probes = (500_000.0 * scale()) as u64;
        keeps_its_promise(|seed| spec(100_000, 0.001, growth, seed), 100_000, 8, probes);
    }
}

/// A filter with a high rate would have up to 0.4 % more false positives than promised: these are the sizes with the
/// least margin.
#[test]
fn loose_layers_keep_the_promised_rate() {
    let probes = if scale() > 1.0 { 6_000_000 } else { 20_000 };
    for (items, rate) in [(87_645, 0.25), (1797, 0.225), (2931, 0.2)] {
        keeps_its_promise(|seed| spec(items, rate, Growth::Fixed, seed), items, 64, probes);
    }
}

/// Filters that grew from the default would have more false positives than promised. With all of its ten layers full,
/// the first one has the most that a chain of this length ever has.
#[test]
fn a_grown_chain_keeps_the_promised_rate() {
    for rate in RATES {
        for (growth, items) in [
            (growing(2), 102_300),
            (reserved(2), 100_000),
            (growing(4), 100_000),
        ] {
            let (filters, probes) = sample(items, rate);
            keeps_its_promise(|seed| spec(100, rate, growth, seed), items, filters, probes);
        }
    }
}

/// A rate that was chosen so that an error never happens would not hold. In a usual run, the set bits show that.
#[test]
fn tight_rates_are_kept() {
    const FILTERS: u64 = 32;
    for (rate, long) in [(1e-6, 4_000_000_000), (1e-8, 10_000_000_000)] {
        let probes = if scale() > 1.0 { long } else { 5_000_000 };
        for growth in [reserved(2), Growth::Fixed] {
            let spec = |seed| spec(10_000, rate, growth, seed);
            keeps_its_promise(spec, 10_000, FILTERS, probes / FILTERS);
        }
    }
}

fn bits_an_item(filter: &Filter, items: u64) -> f64 {
    filter.bytes() as f64 * 8.0 / items as f64
}

/// Filters would need more memory than the documentation states.
#[test]
fn reserved_filters_take_few_bits() {
    for (rate, growth, most) in [
        (0.01, reserved(2), 10.6),
        (0.01, Growth::Fixed, 10.0),
        (0.0001, reserved(2), 20.7),
        (0.0001, Growth::Fixed, 20.2),
    ] {
        let bits = bits_an_item(&filter(spec(1_000_000, rate, growth, 0)), 1_000_000);
        println!("{growth:?} at {rate}: {bits:.2} bits an item");
        assert!(bits <= most, "{growth:?} at {rate}: {bits}");
    }
}

/// Services that keep millions of small filters would need more memory than they planned.
#[test]
fn a_small_growing_filter_is_small() {
    let bytes = filter(spec(100, 0.01, growing(2), 0)).bytes();
    println!("for 100 items at 0.01: {bytes} bytes");
    assert!(bytes <= 312, "{bytes}");
}

/// Growing from the default would need more memory than the documentation states.
#[test]
fn a_long_chain_takes_few_bits() {
    let (mut capacity, mut bytes, mut layers) = (0, 0, 0);
    for shape in planned(spec(100, 0.01, growing(2), 0)) {
        capacity += shape.capacity;
        bytes += shape.geometry.bytes();
        layers += 1;
        if capacity >= 100_000_000 {
            break;
        }
    }
    let bits = bytes as f64 * 8.0 / 1e8;
    println!("{layers} layers for 1e8 items: {bits:.2} bits an item");
    assert_eq!(layers, 20);
    assert!((20.0..21.0).contains(&bits), "{bits}");
}

/// Filters whose number of items nobody knew would need more memory than the documentation states.
#[test]
fn a_growing_filter_takes_few_bits_wherever_it_stops() {
    let growing = spec(100, 0.01, growing(2), 0);
    let counts = (0..19).map(|octave| 1e4 * 2f64.powf(f64::from(octave) / 2.0));
    let bits: Vec<[f64; 2]> = counts
        .map(|items| {
            let (mut left, mut layers, mut arrays) = (items as u64, 0, 0);
            let newest = planned(growing).find(|shape| {
                layers += 1;
                let is_newest = shape.capacity >= left;
                if !is_newest {
                    left -= shape.capacity;
                    arrays += shape.geometry.bytes();
                }
                is_newest
            });
            let newest = newest.unwrap();
            let shrunk = folded(newest, left.max(100), &mut 0).unwrap_or(newest);
            [newest, shrunk]
                .map(|newest| Blocked::bytes(layers, arrays + newest.geometry.bytes()) as f64 * 8.0 / items)
        })
        .collect();
    let [grown, shrunk] = [0, 1].map(|at| bits.iter().map(|bits| bits[at]).sum::<f64>() / bits.len() as f64);
    println!("10,000 to 5 million items: {grown:.2} bits an item, {shrunk:.2} after BF.SHRINK");
    assert!(grown < 26.4 && shrunk < 22.5, "{grown} {shrunk}");
}
