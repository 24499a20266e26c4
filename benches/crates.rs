//! This crate compared with other crates of Bloom filters, at equal measured rates of false positives.
//!
//! A filter that errs more often is a faster one. So each of the others gets as many bits an item as make it err as
//! often as this one does, before anything is timed: the bits are in the table, and the rates are measured again at
//! each size. All subjects are measured in turn, slice after slice, so that whatever else the machine does happens to
//! all of them; the tables have medians.
//!
//! *Add* is into a filter that is more than half full. Times are of one item of 32 bytes, that is not being made while
//! it is measured. This crate has batches, in calls of 64; the others have none.
//!
//! `cargo bench -p libbloom-benches --bench crates -- 0.01 1000 100000 10000000` measures at that rate and those
//! sizes; without arguments at 0.01 from 1,000 to 100 million items.

#![expect(clippy::expect_used, reason = "a benchmark may fail")]

mod subjects;

use std::hint::black_box;

use fastbloom::BloomFilter;
use foldhash::fast::FixedState;
use libbloom::Filter;
use subjects::{ABSENT, ALL_NEW, BATCH, Filled, Item, Subject, measured};

/// Items that are added, or queried, while others wait for their turn.
const SLICE: u64 = 100_000;
/// Slices of each measurement.
const SLICES: u64 = 15;
/// Items of the filters whose bits an item are sought.
const SOUGHT_AT: u64 = 1_000_000;
/// Queries for absent items, of which the share of false positives is that of a filter.
const QUERIES: u64 = 2_000_000;
/// The difference of two rates that are called equal.
const EQUAL: f64 = 0.02;

/// This crate's filter, an item at a time.
struct Single(Filter);

impl Subject for Single {
    const BATCHES: bool = false;

    #[inline]
    fn add(&mut self, item: &Item) {
        let _known_to_fit = self.0.insert(item);
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        self.0.contains(item)
    }
}

/// This crate's filter, with lists of items.
struct Batches(Filter);

impl Subject for Batches {
    const BATCHES: bool = true;

    fn add(&mut self, item: &Item) {
        let _known_to_fit = self.0.insert(item);
    }

    fn contains(&self, item: &Item) -> bool {
        self.0.contains(item)
    }

    fn add_batch(&mut self, items: &[Item]) {
        let _known_to_fit = self.0.insert_many(items.iter().map(|item| &item[..]));
    }

    fn contains_batch(&self, items: &[Item]) -> usize {
        let answers = self.0.contains_many(items.iter().map(|item| &item[..]));
        answers.into_iter().filter(|found| *found).count()
    }
}

/// `fastbloom` with another hash than its own, which is a keyed one: as a program may choose that trusts its items.
struct Unkeyed(BloomFilter<FixedState>);

impl Subject for Unkeyed {
    const BATCHES: bool = false;

    #[inline]
    fn add(&mut self, item: &Item) {
        self.0.insert(item);
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        self.0.contains(item)
    }
}

/// A split-block filter as Parquet has it, which wants a hash of the item: the one that this crate uses.
struct SplitBlock(sbbf_rs_safe::Filter);

impl Subject for SplitBlock {
    const BATCHES: bool = false;

    #[inline]
    fn add(&mut self, item: &Item) {
        self.0.insert_hash(xxhash_rust::xxh3::xxh3_64(item));
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        self.0.contains_hash(xxhash_rust::xxh3::xxh3_64(item))
    }
}

/// A subject while it is measured.
trait Case {
    /// Nanoseconds an item of adding a slice.
    fn add(&mut self) -> f64;
    /// Adds what is left.
    fn fill(&mut self);
    /// Nanoseconds an item of querying these items.
    fn contains(&self, ids: std::ops::Range<u64>) -> f64;
    /// The share of items that are found, of so many that were never added.
    fn rate(&self, queries: u64) -> f64;
}

struct Of<S, M> {
    filled: Filled<S, M>,
    items: u64,
}

impl<S: Subject, M: Fn() -> S> Case for Of<S, M> {
    fn add(&mut self) -> f64 {
        let time = self.filled.add(ALL_NEW, SLICE, |subject, items| {
            if S::BATCHES {
                items.chunks(BATCH).for_each(|batch| subject.add_batch(batch));
            } else {
                items.iter().for_each(|item| subject.add(item));
            }
        });
        time.as_nanos() as f64 / SLICE as f64
    }

    fn fill(&mut self) {
        self.filled.fill(self.items);
    }

    fn contains(&self, ids: std::ops::Range<u64>) -> f64 {
        let (subject, count) = (&self.filled.subject, ids.end - ids.start);
        let time = measured(ids, |items| {
            black_box(if S::BATCHES {
                let batches = items.chunks(BATCH).map(|batch| subject.contains_batch(batch));
                batches.sum::<usize>()
            } else {
                items.iter().filter(|item| subject.contains(item)).count()
            });
        });
        time.as_nanos() as f64 / count as f64
    }

    fn rate(&self, queries: u64) -> f64 {
        let mut found = 0;
        // Others than those that are timed.
        measured(2 * ABSENT..2 * ABSENT + queries, |items| {
            let items = items.iter();
            found += items.filter(|item| self.filled.subject.contains(item)).count();
        });
        found as f64 / queries as f64
    }
}

/// A crate: its name, and how it makes a filter for so many items of so many bits an item. This one decides itself.
struct Rival {
    name: &'static str,
    make: fn(u64, f64) -> Box<dyn Case>,
}

fn case<S: Subject + 'static>(items: u64, make: impl Fn() -> S + 'static) -> Box<dyn Case> {
    let filled = Filled::half(items, make);
    Box::new(Of { filled, items })
}

fn own(items: u64, rate: f64) -> Filter {
    let builder = Filter::builder(items, rate).seed(0x5eed);
    builder.build().expect("memory")
}

const RIVALS: [Rival; 4] = [
    Rival {
        name: "fastbloom",
        make: |items, bits| {
            case(items, move || {
                BloomFilter::with_num_bits((items as f64 * bits) as usize).expected_items(items as usize)
            })
        },
    },
    Rival {
        name: "fastbloom, unkeyed",
        make: |items, bits| {
            case(items, move || {
                let builder = BloomFilter::with_num_bits((items as f64 * bits) as usize);
                Unkeyed(
                    builder
                        .hasher(FixedState::default())
                        .expected_items(items as usize),
                )
            })
        },
    },
    Rival {
        name: "bloomfilter",
        make: |items, bits| {
            case(items, move || {
                let bytes = (items as f64 * bits / 8.0) as usize;
                bloomfilter::Bloom::<Item>::new(bytes, items as usize).expect("memory")
            })
        },
    },
    Rival {
        name: "sbbf-rs",
        make: |items, bits| {
            case(items, move || {
                SplitBlock(sbbf_rs_safe::Filter::new(1, (items as f64 * bits) as usize))
            })
        },
    },
];

/// Bits an item with which that crate's filters have the rate.
fn bits_for(rival: &Rival, rate: f64) -> f64 {
    let measured = |bits: f64| {
        let mut case = (rival.make)(SOUGHT_AT, bits);
        case.fill();
        case.rate(QUERIES)
    };
    let (mut low, mut high) = (2.0, 80.0);
    let mut middle = 2.0 * (1.0 / rate).log2();
    for _ in 0..20 {
        let ratio = measured(middle) / rate;
        if (ratio - 1.0).abs() < EQUAL / 4.0 {
            break;
        }
        if ratio > 1.0 {
            low = middle;
        } else {
            high = middle;
        }
        middle = f64::midpoint(low, high);
    }
    middle
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn row(cells: impl IntoIterator<Item = String>) {
    println!("| {} |", cells.into_iter().collect::<Vec<_>>().join(" | "));
}

fn main() {
    let numbers: Vec<f64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let (rate, sizes) = match &numbers[..] {
        [] => (
            0.01,
            vec![1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000],
        ),
        [rate, sizes @ ..] => (*rate, sizes.iter().map(|size| *size as u64).collect()),
    };

    let make_own = |items: u64| -> [Box<dyn Case>; 2] {
        [
            case(items, move || Single(own(items, rate))),
            case(items, move || Batches(own(items, rate))),
        ]
    };
    let [mut reference, _] = make_own(SOUGHT_AT);
    reference.fill();
    let target = reference.rate(QUERIES);
    let own_bits = 8.0 * own(SOUGHT_AT, rate).bytes() as f64 / SOUGHT_AT as f64;
    let bits = RIVALS.map(|rival| bits_for(&rival, target));
    println!(
        "Promised: {rate}. Measured with {SOUGHT_AT} items: {target:.5}, which the others get by their bits.\n"
    );
    let names: Vec<_> = RIVALS.iter().map(|rival| rival.name.to_owned()).collect();
    let head = |first: &[&str]| {
        let cells = first.iter().map(ToString::to_string).chain(names.iter().cloned());
        let cells: Vec<_> = cells.collect();
        row(cells.clone());
        row(cells.iter().map(|_| "---".to_owned()));
    };

    let (mut times, mut rates) = (Vec::new(), Vec::new());
    for items in sizes {
        let mut cases: Vec<_> = make_own(items).into();
        cases.extend(
            RIVALS
                .iter()
                .zip(bits)
                .map(|(rival, bits)| (rival.make)(items, bits)),
        );
        let mut medians =
            |name: &str, cases: &mut Vec<Box<dyn Case>>, work: &dyn Fn(&mut dyn Case, u64) -> f64| {
                let mut of_case = vec![Vec::new(); cases.len()];
                for slice in 0..SLICES {
                    for (case, of_case) in cases.iter_mut().zip(&mut of_case) {
                        of_case.push(work(&mut **case, slice));
                    }
                }
                let cells = of_case.into_iter().map(median).collect::<Vec<_>>();
                times.push((items, name.to_owned(), cells));
            };
        medians("add", &mut cases, &|case, _| case.add());
        cases.iter_mut().for_each(|case| case.fill());
        let length = SLICE.min(items);
        medians("present", &mut cases, &|case, slice| {
            // Spread over all items: the first and the last are at other places of a large filter, or in its caches.
            let first = slice * (items - length) / SLICES;
            let rounds = SLICE / length;
            let times = (0..rounds).map(|_| case.contains(first..first + length));
            times.sum::<f64>() / rounds as f64
        });
        medians("absent", &mut cases, &|case, slice| {
            let first = ABSENT + slice * SLICE;
            case.contains(first..first + SLICE)
        });
        rates.push((
            items,
            cases
                .iter()
                .skip(1)
                .map(|case| case.rate(QUERIES))
                .collect::<Vec<_>>(),
        ));
    }

    head(&["items", "ns an item", "libbloom", "libbloom, batches"]);
    for (items, name, cells) in &times {
        let cells = cells.iter().map(|cell| format!("{cell:.1}"));
        row([items.to_string(), name.clone()].into_iter().chain(cells));
    }
    println!();
    head(&["items", "libbloom"]);
    let all = [own_bits].into_iter().chain(bits);
    row(["bits an item".to_owned()]
        .into_iter()
        .chain(all.map(|bits| format!("{bits:.2}"))));
    for (items, cells) in rates {
        let cells = cells.iter().map(|rate| format!("{rate:.5}"));
        row([items.to_string()].into_iter().chain(cells));
    }
}
