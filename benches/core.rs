//! The filter core without a server, at 10^6 and 10^8 items of 32 bytes.
//!
//! Each line is the time of one item. `bloom` is this crate, `classic` its layout of RedisBloom's bits. `floor` is what no filter can do without: the
//! same hash and one random line of an array of the same size, read, or read and written for an add.
//! `fastbloom` and `bloomfilter` are crates for the same items and rate, which have no batches.
//!
//! *Single* is one call an item in a stream, so that the processor may overlap calls; *batch* is a call for
//! 64 items. Items are made outside of the measured time. Adds go into a filter that is more than half
//! full and stay within its capacity: memory that was never touched would be a measurement of the kernel.
//!
//! `cargo bench --bench core -- 'items at 0.01'` runs the lines whose names match.

#![expect(clippy::expect_used, reason = "a benchmark may fail")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bloom::bloom::bits::BitArray;
use bloom::bloom::hash::{ItemHash, Secret};
use bloom::bloom::kernel::{Line, prefetch};
use bloom::bloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Spec};
use bloom::bloom::{Filter, UNLIMITED};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

type Item = [u8; 32];

/// Items in a call of a batch.
const BATCH: usize = 64;
/// Items that are made, then measured: few enough to stay in the first cache.
const CHUNK: u64 = 1024;
/// This crate's own layout.
const BLOCKED: Layout = Layout::Blocked { seed: Seed(0x5eed) };
/// The first item that is never added.
const ABSENT: u64 = 1 << 40;

fn item(id: u64) -> Item {
    let word = |odd: u64| id.wrapping_mul(odd).to_le_bytes();
    let words = [
        word(1),
        word(0x9e37_79b9_7f4a_7c15),
        word(0xbf58_476d_1ce4_e5b9),
        word(0x94d0_49bb_1331_11eb),
    ];
    bytemuck::cast(words)
}

/// Gives items `ids` to `work`, and measures that alone.
fn measured(ids: std::ops::Range<u64>, mut work: impl FnMut(&[Item])) -> Duration {
    let mut time = Duration::ZERO;
    let mut items = Vec::with_capacity(CHUNK as usize);
    for start in ids.clone().step_by(CHUNK as usize) {
        items.clear();
        items.extend((start..ids.end.min(start + CHUNK)).map(item));
        let begin = Instant::now();
        work(&items);
        time += begin.elapsed();
    }
    time
}

/// A filter, or what is compared with one.
trait Subject {
    /// Whether it knows batches.
    const BATCHES: bool;

    fn add(&mut self, item: &Item);

    fn contains(&self, item: &Item) -> bool;

    fn add_batch(&mut self, items: &[Item]) {
        for item in items {
            self.add(item);
        }
    }

    /// How many of `items` are found.
    fn contains_batch(&self, items: &[Item]) -> usize {
        items.iter().filter(|item| self.contains(item)).count()
    }
}

impl Subject for Filter {
    const BATCHES: bool = true;

    #[inline]
    fn add(&mut self, item: &Item) {
        let _known_to_fit = Filter::add(self, item, UNLIMITED);
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        Filter::contains(self, item)
    }

    fn add_batch(&mut self, items: &[Item]) {
        let _known_to_fit = self.add_all(items.iter().map(|item| &item[..]), UNLIMITED, |_| ());
    }

    fn contains_batch(&self, items: &[Item]) -> usize {
        let mut count = 0;
        self.contains_all(items.iter().map(|item| &item[..]), |found| {
            count += usize::from(found)
        });
        count
    }
}

/// The hash and one random line.
struct Floor {
    secret: std::sync::Arc<Secret>,
    lines: BitArray<Line>,
}

impl Floor {
    fn place(&self, hash: ItemHash) -> usize {
        ((u128::from(hash.low) * self.lines.units().len() as u128) >> 64) as usize
    }

    /// The hashes of up to [`BATCH`] items, with their lines on the way.
    fn prefetched(&self, items: &[Item]) -> [ItemHash; BATCH] {
        let mut hashes = [ItemHash::default(); BATCH];
        for (hash, item) in hashes.iter_mut().zip(items) {
            *hash = self.secret.hash(item);
            prefetch(&self.lines.units()[self.place(*hash)]);
        }
        hashes
    }

    fn read(&self, hash: ItemHash) -> bool {
        let line = &self.lines.units()[self.place(hash)];
        line.0[(hash.high >> 61) as usize] >> (hash.high & 63) & 1 == 1
    }

    fn write(&mut self, hash: ItemHash) {
        let place = self.place(hash);
        self.lines.units_mut()[place].0[(hash.high >> 61) as usize] |= 1 << (hash.high & 63);
    }
}

impl Subject for Floor {
    const BATCHES: bool = true;

    #[inline]
    fn add(&mut self, item: &Item) {
        self.write(self.secret.hash(item));
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        self.read(self.secret.hash(item))
    }

    fn add_batch(&mut self, items: &[Item]) {
        let hashes = self.prefetched(items);
        for &hash in &hashes[..items.len()] {
            self.write(hash);
        }
    }

    fn contains_batch(&self, items: &[Item]) -> usize {
        let hashes = self.prefetched(items);
        hashes[..items.len()]
            .iter()
            .filter(|&&hash| self.read(hash))
            .count()
    }
}

impl Subject for fastbloom::BloomFilter {
    const BATCHES: bool = false;

    #[inline]
    fn add(&mut self, item: &Item) {
        self.insert(item);
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        fastbloom::BloomFilter::contains(self, item)
    }
}

impl Subject for bloomfilter::Bloom<Item> {
    const BATCHES: bool = false;

    #[inline]
    fn add(&mut self, item: &Item) {
        self.set(item);
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        self.check(item)
    }
}

/// A subject that is filled with items `0..next`, at least half of the items it is made for.
struct Filled<S, M> {
    subject: S,
    next: u64,
    items: u64,
    make: M,
}

impl<S: Subject, M: Fn() -> S> Filled<S, M> {
    fn half(items: u64, make: M) -> Self {
        let mut filled = Self {
            subject: make(),
            next: 0,
            items,
            make,
        };
        filled.fill(items / 2);
        filled
    }

    fn fill(&mut self, up_to: u64) {
        measured(self.next..up_to, |items| {
            items
                .chunks(BATCH)
                .for_each(|batch| self.subject.add_batch(batch))
        });
        self.next = up_to;
    }

    /// The time that `count` new items take.
    fn add(&mut self, count: u64, mut work: impl FnMut(&mut S, &[Item])) -> Duration {
        let (mut left, mut time) = (count, Duration::ZERO);
        while left > 0 {
            if self.next == self.items {
                (self.subject, self.next) = ((self.make)(), 0);
                self.fill(self.items / 2);
            }
            let end = self.items.min(self.next + left);
            time += measured(self.next..end, |items| work(&mut self.subject, items));
            left -= end - self.next;
            self.next = end;
        }
        time
    }
}

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
            filled.add(count, |subject, items| {
                items.iter().for_each(|item| subject.add(item))
            })
        })
    });
    if S::BATCHES {
        group.bench_function(format!("add, batch: {name}"), |bencher| {
            bencher.iter_custom(|count| {
                let filled = filled.get_or_insert_with(fill);
                filled.add(count, |subject, items| {
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

fn filter(capacity: u64, rate: f64, growth: Growth, layout: Layout) -> Filter {
    let spec = Spec {
        error_rate: ErrorRate::new(rate).expect("a rate"),
        capacity: Capacity::new(capacity).expect("a capacity"),
        growth,
        layout,
    };
    Filter::new(spec, UNLIMITED).expect("memory")
}

fn floor(bytes: u64) -> Floor {
    Floor {
        secret: Secret::of(Seed(0x5eed)),
        lines: BitArray::zeroed(bytes / size_of::<Line>() as u64).expect("memory"),
    }
}

/// One layer, filled up to its capacity.
fn one_layer(criterion: &mut Criterion) {
    for items in [1_000_000, 100_000_000] {
        for rate in [0.01, 1e-4, 1e-6] {
            let group = format!("{items:e} items at {rate}");
            let new = |layout| filter(items, rate, Growth::Fixed, layout);
            let bytes = new(BLOCKED).bytes();
            measure(criterion, &group, "floor", items, || floor(bytes));
            measure(criterion, &group, "bloom", items, || new(BLOCKED));
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
    for (name, layout) in [("bloom", BLOCKED), ("classic", Layout::Classic)] {
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
