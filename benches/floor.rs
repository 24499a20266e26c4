//! How far the filter core is from the floor: the same hash and one random line of memory, which no filter can do
//! without. Both are measured in turn, in slices of a few milliseconds, so that whatever else the machine does
//! happens to both; what is printed are medians of the slices' ratios.
//!
//! `cargo bench -p libbloom-benches --bench floor -- 100000000 0.01`: for so many items at that error rate.

mod subjects;

use std::hint::black_box;

use libbloom::params::{Growth, Layout};
use subjects::{ABSENT, ALL_NEW, Filled, HALF_NEW, Item, Stream, Subject, filter, floor, measured};

/// Slices of each measurement.
const SLICES: u64 = 101;
/// Items of a slice.
const SLICE: u64 = 100_000;
/// Items in a call of a batch, as of a command of that many.
const BATCH: usize = 32;

/// Nanoseconds an item of one slice.
type Measure<'a> = &'a mut dyn FnMut(u64) -> f64;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures both in turn, slice after slice.
fn compare(name: &str, floor: Measure<'_>, bloom: Measure<'_>) {
    let slices: Vec<_> = (0..SLICES).map(|slice| (floor(slice), bloom(slice))).collect();
    println!(
        "{name:<20} floor {:6.1} ns   bloom {:6.1} ns   ratio {:.2}",
        median(slices.iter().map(|(floor, _)| *floor).collect()),
        median(slices.iter().map(|(_, bloom)| *bloom).collect()),
        median(slices.iter().map(|(floor, bloom)| bloom / floor).collect()),
    );
}

fn adding<S: Subject, M: Fn() -> S>(
    filled: &mut Filled<S, M>,
    stream: Stream,
    work: fn(&mut S, &[Item]),
) -> impl FnMut(u64) -> f64 {
    move |_| filled.add(stream, SLICE, work).as_nanos() as f64 / SLICE as f64
}

fn asking<S: Subject, M>(
    filled: &Filled<S, M>,
    first: u64,
    work: fn(&S, &[Item]) -> usize,
) -> impl FnMut(u64) -> f64 {
    move |slice| {
        let start = first + slice * SLICE;
        let time = measured(start..start + SLICE, |items| {
            black_box(work(&filled.subject, items));
        });
        time.as_nanos() as f64 / SLICE as f64
    }
}

fn add_each<S: Subject>(subject: &mut S, items: &[Item]) {
    items.iter().for_each(|item| subject.add(item));
}

fn add_batches<S: Subject>(subject: &mut S, items: &[Item]) {
    items.chunks(BATCH).for_each(|batch| subject.add_batch(batch));
}

fn find_each<S: Subject>(subject: &S, items: &[Item]) -> usize {
    items.iter().filter(|item| subject.contains(item)).count()
}

fn find_batches<S: Subject>(subject: &S, items: &[Item]) -> usize {
    items
        .chunks(BATCH)
        .map(|batch| subject.contains_batch(batch))
        .sum()
}

fn main() {
    let numbers: Vec<f64> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let [items, rate] = numbers[..] else {
        return println!("usage: cargo bench -p libbloom-benches --bench floor -- items error_rate");
    };
    let items = items as u64;
    let bytes = filter(items, rate, Growth::Fixed, Layout::Blocked).bytes();
    let both = || {
        (
            Filled::half(items, || floor(bytes)),
            Filled::half(items, || filter(items, rate, Growth::Fixed, Layout::Blocked)),
        )
    };
    let (mut floor, mut bloom) = both();
    println!("{items} items at {rate}, batches of {BATCH}");
    for (what, stream) in [("add new", ALL_NEW), ("add half new", HALF_NEW)] {
        compare(
            &format!("{what}, batch"),
            &mut adding(&mut floor, stream, add_batches),
            &mut adding(&mut bloom, stream, add_batches),
        );
        compare(
            &format!("{what}, single"),
            &mut adding(&mut floor, stream, add_each),
            &mut adding(&mut bloom, stream, add_each),
        );
    }
    // Anew, since of a stream that is half new not every item is there.
    drop((floor, bloom));
    let (mut floor, mut bloom) = both();
    floor.fill(items);
    bloom.fill(items);
    for (what, first) in [("present", 0), ("absent", ABSENT)] {
        compare(
            &format!("{what}, batch"),
            &mut asking(&floor, first, find_batches),
            &mut asking(&bloom, first, find_batches),
        );
        compare(
            &format!("{what}, single"),
            &mut asking(&floor, first, find_each),
            &mut asking(&bloom, first, find_each),
        );
    }
}
