//! The filter core without a server, at 10^6 and 10^8 items of 32 bytes.
//!
//! Each line is the time of one item. `bloom` is this crate, `classic` its layout of RedisBloom's bits. `floor` is
//! what no filter can do without: the same hash and one random line of an array of the same size, read, or read
//! and written for an add. The lines are measured one after another: see `floor.rs` for ratios.
//! `fastbloom` and `bloomfilter` are crates for the same items and rate, which have no batches.
//!
//! *Single* is one call an item in a stream, so that the processor may overlap calls; *batch* is a call for
//! 64 items. Items are made outside of the measured time. Adds go into a filter that is more than half
//! full and stay within its capacity: memory that was never touched would be a measurement of the kernel.
//!
//! `cargo bench -p libbloom-benches --bench core -- 'items at 0.01'` runs the lines whose names match.

#![expect(clippy::expect_used, reason = "a benchmark may fail")]

mod subjects;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use libbloom::params::{Expansion, Growth, Layout};
use subjects::{ABSENT, ALL_NEW, BATCH, Filled, Item, Subject, filter, floor, measured};

/// Measures everything that a subject can do with `items` items.
fn measure<S: Subject>(criterion: &mut Criterion, group: &str, name: &str, items: u64, make: impl Fn() -> S) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(1));
    // Filling takes seconds, so it waits for a line that is really measured.
    let mut filled = None;
    let fill = || Filled::half(items, &make);

    group.bench_function(format!("add, single: {name}"), |bencher| {
        bencher.iter_custom(|count| {
            let filled = filled.get_or_insert_with(fill);
            filled.add(ALL_NEW, count, |subject, items| {
                items.iter().for_each(|item| subject.add(item))
            })
        })
    });
    if S::BATCHES {
        group.bench_function(format!("add, batch: {name}"), |bencher| {
            bencher.iter_custom(|count| {
                let filled = filled.get_or_insert_with(fill);
                filled.add(ALL_NEW, count, |subject, items| {
                    items.chunks(BATCH).for_each(|batch| subject.add_batch(batch))
                })
            })
        });
    }
    for (what, first) in [("present", 0), ("absent", ABSENT)] {
        // Each sample goes on where the last one ended, so that no lines are left in the cache from it.
        let mut next = first;
        let mut ids = |count| {
            let start = if what == "present" && next + count > items {
                first
            } else {
                next
            };
            let end = if what == "present" {
                items.min(start + count)
            } else {
                start + count
            };
            next = end;
            start..end
        };
        let mut contains = |count, filled: &mut Filled<S, _>, work: fn(&S, &[Item]) -> usize| {
            filled.fill(items);
            let (mut left, mut time) = (count, Duration::ZERO);
            while left > 0 {
                let ids = ids(left);
                left -= ids.end - ids.start;
                time += measured(ids, |items| {
                    black_box(work(&filled.subject, items));
                });
            }
            time
        };
        group.bench_function(format!("{what}, single: {name}"), |bencher| {
            bencher.iter_custom(|count| {
                contains(count, filled.get_or_insert_with(fill), |subject, items| {
                    items.iter().filter(|item| subject.contains(item)).count()
                })
            })
        });
        if S::BATCHES {
            group.bench_function(format!("{what}, batch: {name}"), |bencher| {
                bencher.iter_custom(|count| {
                    contains(count, filled.get_or_insert_with(fill), |subject, items| {
                        items
                            .chunks(BATCH)
                            .map(|batch| subject.contains_batch(batch))
                            .sum()
                    })
                })
            });
        }
    }
}

/// One layer, filled up to its capacity.
fn one_layer(criterion: &mut Criterion) {
    for items in [1_000_000, 100_000_000] {
        for rate in [0.01, 1e-4, 1e-6] {
            let group = format!("{items:e} items at {rate}");
            let new = |layout| filter(items, rate, Growth::Fixed, layout);
            let bytes = new(Layout::Blocked).bytes();
            measure(criterion, &group, "floor", items, || floor(bytes));
            measure(criterion, &group, "bloom", items, || new(Layout::Blocked));
            measure(criterion, &group, "classic", items, || new(Layout::Classic));
            if rate == 0.01 {
                measure(criterion, &group, "fastbloom", items, || {
                    fastbloom::BloomFilter::with_false_pos(rate).expected_items(items as usize)
                });
                measure(criterion, &group, "bloomfilter", items, || {
                    bloomfilter::Bloom::new_for_fp_rate(items as usize, rate).expect("memory")
                });
            }
        }
    }
}

/// A filter that was made for 100 items and has grown: 17 layers.
fn grown(criterion: &mut Criterion) {
    let growth = Growth::Growing(Expansion::new(2).expect("an expansion"));
    let items = 12_000_000;
    let group = format!("{items:e} items at 0.01, grown");
    for (name, layout) in [("bloom", Layout::Blocked), ("classic", Layout::Classic)] {
        measure(criterion, &group, name, items, || {
            filter(100, 0.01, growth, layout)
        });
    }
}

criterion_group! {
    name = core;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .without_plots();
    targets = one_layer, grown
}
criterion_main!(core);
