//! What is measured: filters of this crate and of others, and what no filter can do without.

#![expect(clippy::expect_used, reason = "a benchmark may fail")]
#![allow(dead_code, reason = "each benchmark uses what it measures")]

use std::time::{Duration, Instant};

use libbloom::bits::array::BitArray;
use libbloom::bits::kernel::{Line, prefetch_address};
use libbloom::item::ItemHash;
use libbloom::layouts::blocked::secret::Secret;
use libbloom::params::{Capacity, ErrorRate, Growth, Layout, Seed};
use libbloom::spec::BlockedSpec;
use libbloom::{Filter, UNLIMITED};

pub type Item = [u8; 32];

/// Items in a call of a batch.
pub const BATCH: usize = 64;
/// Items that are made, then measured: few enough to stay in the first cache.
pub const CHUNK: u64 = 1024;
/// This crate's own layout.
/// The first item that is never added.
pub const ABSENT: u64 = 1 << 40;

pub fn item(id: u64) -> Item {
    let word = |odd: u64| id.wrapping_mul(odd).to_le_bytes();
    let words = [
        word(1),
        word(0x9e37_79b9_7f4a_7c15),
        word(0xbf58_476d_1ce4_e5b9),
        word(0x94d0_49bb_1331_11eb),
    ];
    bytemuck::cast(words)
}

/// Which item comes as number `id`.
pub type Stream = fn(u64) -> u64;

/// Every item is new.
pub const ALL_NEW: Stream = |id| id;

/// About half of the items are new, without a pattern; the others are from the first half of what is there.
pub const HALF_NEW: Stream = |id| {
    let mixed = (id ^ id >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let is_new = (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb) >> 63 == 1;
    if is_new { id } else { id / 2 }
};

/// Gives items `ids` to `work`, and measures that alone.
pub fn measured(ids: std::ops::Range<u64>, work: impl FnMut(&[Item])) -> Duration {
    measured_of(ALL_NEW, ids, work)
}

/// Gives items number `ids` of a stream to `work`, and measures that alone.
pub fn measured_of(stream: Stream, ids: std::ops::Range<u64>, mut work: impl FnMut(&[Item])) -> Duration {
    let mut time = Duration::ZERO;
    let mut items = Vec::with_capacity(CHUNK as usize);
    for start in ids.clone().step_by(CHUNK as usize) {
        items.clear();
        items.extend((start..ids.end.min(start + CHUNK)).map(|id| item(stream(id))));
        let begin = Instant::now();
        work(&items);
        time += begin.elapsed();
    }
    time
}

/// A filter, or what is compared with one.
pub trait Subject {
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
        let _known_to_fit = Filter::add(self, item, 0, UNLIMITED);
    }

    #[inline]
    fn contains(&self, item: &Item) -> bool {
        Filter::contains(self, item)
    }

    fn add_batch(&mut self, items: &[Item]) {
        let _known_to_fit = self.add_all(items.iter().map(|item| &item[..]), 0, UNLIMITED, |_| ());
    }

    fn contains_batch(&self, items: &[Item]) -> usize {
        let mut count = 0;
        self.contains_all(items.iter().map(|item| &item[..]), 0, |found| {
            count += usize::from(found)
        });
        count
    }
}

/// The hash and one random line.
pub struct Floor {
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
            prefetch_address(&self.lines.units()[self.place(*hash)]);
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

/// A subject that is filled with the items of a stream up to `next`, at least half of what it is made for.
pub struct Filled<S, M> {
    /// What is filled.
    pub subject: S,
    /// The next item of the stream.
    pub next: u64,
    items: u64,
    make: M,
}

impl<S: Subject, M: Fn() -> S> Filled<S, M> {
    pub fn half(items: u64, make: M) -> Self {
        let mut filled = Self {
            subject: make(),
            next: 0,
            items,
            make,
        };
        filled.fill(items / 2);
        filled
    }

    pub fn fill(&mut self, up_to: u64) {
        measured(self.next..up_to, |items| {
            items
                .chunks(BATCH)
                .for_each(|batch| self.subject.add_batch(batch))
        });
        self.next = up_to;
    }

    /// The time that `count` further items of a stream take.
    pub fn add(&mut self, stream: Stream, count: u64, mut work: impl FnMut(&mut S, &[Item])) -> Duration {
        let (mut left, mut time) = (count, Duration::ZERO);
        while left > 0 {
            if self.next == self.items {
                (self.subject, self.next) = ((self.make)(), 0);
                self.fill(self.items / 2);
            }
            let end = self.items.min(self.next + left);
            time += measured_of(stream, self.next..end, |items| work(&mut self.subject, items));
            left -= end - self.next;
            self.next = end;
        }
        time
    }
}

pub fn filter(capacity: u64, rate: f64, growth: Growth, layout: Layout) -> Filter {
    let spec = BlockedSpec {
        error_rate: ErrorRate::new(rate).expect("a rate"),
        capacity: Capacity::new(capacity).expect("a capacity"),
        growth,
        seed: Seed(0x5eed),
        window: None,
    };
    let spec = spec.in_layout(layout).expect("every layout has such a filter");
    Filter::new(spec, UNLIMITED).expect("memory")
}

pub fn floor(bytes: u64) -> Floor {
    Floor {
        secret: Secret::of(Seed(0x5eed)),
        lines: BitArray::zeroed(bytes / size_of::<Line>() as u64).expect("memory"),
    }
}
