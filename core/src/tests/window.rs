//! Filters that forget: what holds whatever arrives, and whatever the clock does.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::oracle::{self, contains_batch, stored};
use crate::codec::{self, chunks};
use crate::params::{Spec, Time, Window};
use crate::plan::Plan;
use crate::{Filter, UNLIMITED};

const START: Time = 1_700_000_000_000;

fn windowed(capacity: u64, error_rate: f64, window: Window) -> Filter {
    Filter::new(windowed_spec(capacity, error_rate, window), UNLIMITED).unwrap()
}

fn windowed_spec(capacity: u64, error_rate: f64, window: Window) -> Spec {
    Spec {
        window: Some(window),
        ..oracle::spec(capacity, error_rate, oracle::reserved(2), 7)
    }
}

fn seconds(seconds: u32, slices: u8) -> Window {
    Window::new(seconds, slices, false).unwrap()
}

/// Adds items at a time; which were new, and which changed the filter.
fn add_at(filter: &mut Filter, time: Time, items: &[Vec<u8>]) -> (Vec<bool>, Vec<bool>) {
    filter.set_clock(|| time);
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    let items = items.iter().map(Vec::as_slice);
    filter
        .add_blocks(items, UNLIMITED, |block| {
            new.extend((0..block.count).map(|at| block.new.has(at)));
            changed.extend((0..block.count).map(|at| block.changed.has(at)));
        })
        .unwrap();
    (new, changed)
}

fn items(ids: impl IntoIterator<Item = u32>) -> Vec<Vec<u8>> {
    ids.into_iter().map(|id| id.to_be_bytes().to_vec()).collect()
}

fn rates(filter: &Filter) -> f64 {
    filter.layer_stats().map(|layer| layer.error_rate()).sum()
}

/// A clock that was far ahead was wrong: what it stamped is of now.
fn put_right(known: &mut HashMap<Vec<u8>, (Time, u64)>, now: Time) {
    for (time, _) in known.values_mut().filter(|known| known.0 > now) {
        *time = now;
    }
}

/// Different items, by when they were last added.
#[derive(Default)]
struct Last {
    added: u64,
    when: HashMap<Vec<u8>, u64>,
    order: BTreeMap<u64, Vec<u8>>,
}

impl Last {
    fn add(&mut self, item: &[u8]) {
        self.added += 1;
        if let Some(before) = self.when.insert(item.to_vec(), self.added) {
            self.order.remove(&before);
        }
        self.order.insert(self.added, item.to_vec());
    }

    /// So many, the last ones first.
    fn newest(&self, count: u64) -> Vec<Vec<u8>> {
        let newest = self.order.values().rev();
        newest.take(count as usize).cloned().collect()
    }
}

/// What happens to a window.
#[derive(Clone, Debug)]
enum Event {
    /// Time goes on by so many milliseconds.
    Pass(u64),
    /// The clock is put forward or back.
    Jump(i64),
    /// Items are added, all at one time: so many, from that one on.
    Add(u32, u32),
    /// The slice is ended.
    Rotate,
    /// The filter is saved and loaded, or copied.
    Move,
}

fn events(window: u64) -> impl Strategy<Value = Vec<Event>> {
    let far = 3 * window as i64;
    let event = prop_oneof![
        4 => (0..window / 4).prop_map(Event::Pass),
        1 => (0..4 * window).prop_map(Event::Pass),
        1 => (-far..far).prop_map(Event::Jump),
        8 => (1..30u32, 0..400u32).prop_map(|(count, from)| Event::Add(count, from)),
        2 => (100..700u32, 0..2000u32).prop_map(|(count, from)| Event::Add(count, from)),
        2 => Just(Event::Rotate),
        1 => Just(Event::Move),
    ];
    vec(event, 1..60)
}

fn windows() -> impl Strategy<Value = Window> {
    let seconds = prop_oneof![1 => Just(0u32), 4 => 1..20u32];
    (seconds, 2..12u8, any::<bool>())
        .prop_map(|(seconds, slices, refresh)| Window::new(seconds, slices, refresh).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever arrives and whatever the clock does: an item would be forgotten before its time or never, a replica
    /// would go its own way, or the filter would break its promise.
    #[test]
    fn a_window_keeps_its_promises(
        (window, events) in windows().prop_flat_map(|window| {
            (Just(window), events(5000.max(u64::from(window.seconds()) * 1000)))
        }),
        capacity in 1..500u64,
    ) {
        // So low that a false positive would be a bug.
        let mut filter = windowed(capacity, 1e-20, window);
        let mut single = windowed(capacity, 1e-20, window);
        let mut replica = windowed(capacity, 1e-20, window);
        // What had expired when a change was stamped is gone, also for a clock that is put back.
        let (mut clock, mut newest) = (START, START);
        // When an item's time began, as the filter stamped it, and how many new ones had come by then.
        let mut known: HashMap<Vec<u8>, (Time, u64)> = HashMap::new();
        let mut last = Last::default();
        let mut count = 0;
        for event in events {
            match event {
                Event::Pass(time) => clock += time,
                Event::Jump(by) => clock = clock.saturating_add_signed(by),
                Event::Rotate => {
                    for filter in [&mut filter, &mut single] {
                        filter.set_clock(|| clock);
                    }
                    let at = filter.time().unwrap();
                    newest = newest.max(at);
                    put_right(&mut known, at);
                    replica.set_clock(|| at);
                    let changed = filter.rotate().unwrap();
                    prop_assert_eq!(single.rotate(), Ok(changed));
                    prop_assert_eq!(replica.rotate(), Ok(changed));
                }
                Event::Move => {
                    let stream = stored(&filter);
                    filter = codec::load(&mut stream.clone(), 4, UNLIMITED).unwrap();
                    prop_assert_eq!(&stored(&filter), &stream);
                    filter = chunks::copy(&filter, UNLIMITED).unwrap();
                    prop_assert_eq!(&stored(&filter), &stream);
                }
                Event::Add(many, from) => {
                    let batch = items(from..from + many);
                    filter.set_clock(|| clock);
                    let at = filter.time().unwrap();
                    newest = newest.max(at);
                    let (new, changed) = add_at(&mut filter, clock, &batch);
                    if changed.contains(&true) {
                        put_right(&mut known, at);
                    }
                    let alone: Vec<_> = batch
                        .iter()
                        .map(|item| add_at(&mut single, clock, std::slice::from_ref(item)))
                        .collect();
                    prop_assert!(alone.iter().map(|one| one.0[0]).eq(new.iter().copied()));
                    prop_assert!(alone.iter().map(|one| one.1[0]).eq(changed.iter().copied()));
                    let sent: Vec<_> = batch.iter().zip(&changed).filter(|one| *one.1).map(|one| one.0.clone()).collect();
                    if !sent.is_empty() {
                        let (new, again) = add_at(&mut replica, at, &sent);
                        prop_assert!(again.iter().all(|changed| *changed));
                        prop_assert!(window.refresh() || new == again);
                    }
                    for ((item, new), changed) in batch.into_iter().zip(new).zip(changed) {
                        prop_assert!(changed || !new);
                        count += u64::from(new);
                        if new || window.refresh() {
                            last.add(&item);
                            known.insert(item, (at, count));
                        }
                    }
                }
            }
            prop_assert_eq!(filter.validate(), Ok(()));
            prop_assert_eq!(&stored(&single), &stored(&filter));
            prop_assert_eq!(&stored(&replica), &stored(&filter));
            prop_assert!(rates(&filter) <= 1e-20 * (1.0 + 1e-9));
            // What a question says, now and later.
            let length = u64::from(window.seconds()) * 1000;
            let slice = length.div_ceil(window.slices().into());
            let among_last: HashSet<_> = last.newest(capacity).into_iter().collect();
            for ask in [clock, clock + length / 2, clock + length + slice] {
                filter.set_clock(|| ask);
                for (item, &(time, number)) in &known {
                    let found = filter.contains(item);
                    if window.counts_items() {
                        prop_assert!(found || !among_last.contains(item));
                        // One slice more, and one item if that was ended by hand.
                        let later = count - number;
                        let most = capacity + capacity.div_ceil(window.slices().into()) + 1;
                        prop_assert!(!found || later <= most, "{} new ones later", later);
                    } else {
                        prop_assert!(found || ask.max(newest) > time + length, "asked at {}, known at {}", ask, time);
                        let gone = ask >= time + length + slice;
                        prop_assert!(!found || !gone, "{} after", ask.saturating_sub(time));
                    }
                }
                let all: Vec<_> = known.keys().cloned().collect();
                let one_by_one: Vec<_> = all.iter().map(|item| filter.contains(item)).collect();
                prop_assert_eq!(contains_batch(&filter, &all), one_by_one);
            }
        }
    }
}

/// A stream of new items.
struct Stream {
    filter: Filter,
    time: Time,
    next: u32,
}

impl Stream {
    fn new(capacity: u64, error_rate: f64, window: Window) -> Self {
        Self {
            filter: windowed(capacity, error_rate, window),
            time: START,
            next: 0,
        }
    }

    /// `count` items come in so many milliseconds, evenly; the first one at once.
    fn run(&mut self, count: u32, milliseconds: u64) {
        let from = self.time;
        for part in 0..u64::from(count).min(milliseconds) {
            let parts = u64::from(count).min(milliseconds);
            let before = |part: u64| (u64::from(count) * part / parts) as u32;
            let batch = items(self.next + before(part)..self.next + before(part + 1));
            add_at(&mut self.filter, from + milliseconds * part / parts, &batch);
        }
        self.next += count;
        self.time = from + milliseconds;
        self.filter.set_clock(|| self.time);
    }

    /// The share of items that never came and are found, and three standard errors of it.
    fn false_positives(&self) -> (f64, f64) {
        const ASKED: u32 = 400_000;
        let absent = items(u32::MAX - ASKED..u32::MAX);
        let found = contains_batch(&self.filter, &absent)
            .into_iter()
            .filter(|&found| found)
            .count();
        let rate = found as f64 / f64::from(ASKED);
        (rate, 3.0 * (rate / f64::from(ASKED)).sqrt())
    }

    /// How many layers each slice has that has not expired.
    fn layers_of_slices(&self) -> Vec<usize> {
        let mut layers = Vec::new();
        for span in &self.filter.spans()[self.filter.expired()..] {
            if span.begins {
                layers.push(0);
            }
            *layers.last_mut().unwrap() += 1;
        }
        layers
    }

    /// Of all that is held, for each of so many items.
    fn bits_per_item(&self, items: u64) -> f64 {
        self.filter.bytes() as f64 * 8.0 / items as f64
    }
}

const HOUR: u64 = 3_600_000;

/// Who plans memory by the table would have too little, or pay for more than he was told.
#[test]
fn a_steady_stream_takes_what_was_planned() {
    for (error_rate, most) in [(0.01, 16.8), (0.001, 22.8)] {
        let (capacity, window) = (200_000, seconds(8 * 3600, 8));
        let mut stream = Stream::new(capacity, error_rate, window);
        for hour in 0..20 {
            stream.run(25_000, HOUR);
            let bits = stream.bits_per_item(capacity);
            assert!(bits <= most, "{bits} bits at {error_rate} after {hour} hours");
        }
        // A new slice begins, and the eight before it have not expired.
        stream.run(1, 1);
        assert_eq!(stream.layers_of_slices(), [1; 9]);
        let plan = Plan::new(windowed_spec(capacity, error_rate, window), capacity, 1);
        let stage = plan.at(capacity).unwrap();
        assert_eq!((stage.bytes, stage.layers), (stream.filter.bytes(), 9));
        assert!(stage.error_rate <= error_rate);
        let more = plan.at(10 * capacity).unwrap();
        assert!(
            (9 * stage.bytes..11 * stage.bytes).contains(&more.bytes),
            "{}",
            more.bytes
        );
        stream.run(24_999, HOUR - 2);
        let (rate, error) = stream.false_positives();
        assert!(
            rate <= error_rate + error,
            "{rate} where {error_rate} was promised"
        );
        // What is left is for bursts: most of the promise is used.
        assert!(
            rate >= 0.7 * error_rate - error,
            "{rate} where {error_rate} was promised"
        );
    }
}

/// A burst would fill the filter, and every second item be taken for known.
#[test]
fn a_burst_keeps_the_promise() {
    let mut stream = Stream::new(40_000, 0.01, seconds(8 * 3600, 8));
    stream.run(45_000, 9 * HOUR);
    // A hundred times as many, in a minute and in half an hour, each followed by an hour as before.
    for time in [HOUR / 60, HOUR / 2] {
        let first = stream.next;
        stream.run(500_000, time);
        let (rate, error) = stream.false_positives();
        assert!(rate <= 0.01 + error, "{rate}");
        assert!(rates(&stream.filter) <= 0.01 * (1.0 + 1e-9));
        let burst = items(first..stream.next);
        assert!(
            contains_batch(&stream.filter, &burst)
                .into_iter()
                .all(|found| found)
        );
        assert_eq!(stream.filter.validate(), Ok(()));
        stream.run(5_000, HOUR);
    }
    // Half a window later it is still there, after the window it is not, and nothing of its size is left.
    stream.run(20_000, 4 * HOUR);
    assert!(stream.filter.bytes() > 1_000_000);
    stream.run(45_000, 9 * HOUR);
    stream.run(1, 1);
    assert_eq!(stream.layers_of_slices(), [1; 9]);
    let (rate, error) = stream.false_positives();
    assert!(rate <= 0.01 + error, "{rate}");
    let usual = Plan::new(windowed_spec(40_000, 0.01, seconds(8 * 3600, 8)), 40_000, 1);
    assert!(stream.filter.bytes() <= usual.at(40_000).unwrap().bytes);
}

/// Who said a tenth of what comes would have slow questions for ever.
#[test]
fn a_busier_stream_gets_larger_slices() {
    let mut stream = Stream::new(8_000, 0.01, seconds(8 * 3600, 8));
    stream.run(10_000, HOUR);
    assert_eq!(
        stream.layers_of_slices(),
        [4],
        "the first slice was made for 1,000"
    );
    stream.run(10_000, HOUR);
    assert_eq!(stream.layers_of_slices(), [4, 1]);
    stream.run(80_000, 8 * HOUR);
    stream.run(1, 1);
    assert_eq!(stream.layers_of_slices(), [1; 9]);
    let (rate, error) = stream.false_positives();
    assert!(rate <= 0.01 + error, "{rate}");
    let bits = stream.bits_per_item(80_000);
    assert!(bits < 17.5, "{bits}");
    // When it has been quiet for a window, slices are again as small as was said.
    stream.run(9_000, 9 * HOUR);
    let sizes: Vec<_> = stream
        .filter
        .layer_stats()
        .map(|layer| layer.capacity())
        .collect();
    assert_eq!(sizes.last(), Some(&1000));
    // Silence makes no slices: expired layers are left out of queries, and dropped with the next item.
    stream.run(0, 30 * HOUR);
    assert_eq!((stream.filter.items(), stream.filter.totals().layers), (0, 0));
    assert!(stream.filter.layers() > 0);
    stream.run(1, 1);
    assert_eq!((stream.filter.items(), stream.filter.layers()), (1, 1));
}

/// A slice a second, each with one item, or with none: the smallest stream would be forgotten, or never.
#[test]
fn one_item_a_slice() {
    let mut stream = Stream::new(64, 0.001, seconds(64, 64));
    for second in 0..1000u32 {
        stream.run(1, 1000);
        let all: Vec<_> = contains_batch(&stream.filter, &items(0..=second));
        let kept = all.iter().rev().take_while(|found| **found).count();
        assert!(
            kept == 64.min(second as usize + 1) || kept == 65,
            "{kept} of {second}"
        );
        assert!(stream.filter.layers() <= 65);
    }
}

/// Slices that are ended by hand would use up the promise, or the server's time.
#[test]
fn slices_that_are_ended_early_keep_the_promise() {
    let mut stream = Stream::new(1_000, 0.01, seconds(3600, 4));
    let mut full = 0;
    for turn in 0..400 {
        stream.run(3, 1);
        full += usize::from(stream.filter.rotate().is_err());
        assert!(rates(&stream.filter) <= 0.01 * (1.0 + 1e-9));
        assert_eq!(stream.filter.validate(), Ok(()), "{turn}");
    }
    assert_eq!((stream.layers_of_slices().len(), full), (256, 145));
    assert!(
        contains_batch(&stream.filter, &items(0..stream.next))
            .into_iter()
            .all(|found| found)
    );
    let loaded = codec::load(&mut stored(&stream.filter), 4, UNLIMITED).unwrap();
    assert_eq!(stored(&loaded), stored(&stream.filter));
    stream.run(0, 4600 * 1000);
    stream.run(1, 1);
    assert_eq!(stream.layers_of_slices(), [1]);
}

/// Users who want the last so many items would lose some of them, or have others as well.
#[test]
fn a_window_of_items_keeps_the_last_ones() {
    for refresh in [false, true] {
        let mut filter = windowed(1000, 1e-9, Window::new(0, 8, refresh).unwrap());
        for id in 0..20_000u32 {
            filter.add(&id.to_be_bytes(), UNLIMITED).unwrap();
            if refresh {
                assert_eq!(filter.add(&0u32.to_be_bytes(), UNLIMITED), Ok(false), "{id}");
            }
            if id % 97 == 0 {
                let last = items(id.saturating_sub(999)..=id);
                assert!(
                    contains_batch(&filter, &last).into_iter().all(|found| found),
                    "{id}"
                );
                let gone = items(1..id.saturating_sub(1126).max(1));
                assert!(
                    contains_batch(&filter, &gone).into_iter().all(|found| !found),
                    "{id}"
                );
            }
        }
        assert_eq!(filter.contains(&0u32.to_be_bytes()), refresh);
        assert!(filter.layers() <= 9);
        assert_eq!(filter.totals().capacity, 1000);
    }
}

/// An item would be forgotten though fewer others than the capacity came since, because some of them came often.
#[test]
fn items_that_come_often_take_no_place_of_others() {
    let mut filter = windowed(8, 1e-9, Window::new(0, 2, true).unwrap());
    add_at(&mut filter, START, &items((0..8).chain(0..5).chain(0..5)));
    assert_eq!(contains_batch(&filter, &items(0..8)), [true; 8]);
    for slices in [2, 8, 64] {
        let mut filter = windowed(1000, 1e-9, Window::new(0, slices, true).unwrap());
        add_at(&mut filter, START, &items(0..1000));
        for _ in 0..8 {
            add_at(&mut filter, START, &items(0..200));
            assert_eq!(
                contains_batch(&filter, &items(0..1000)),
                vec![true; 1000],
                "{slices}"
            );
        }
    }
}

/// In a batch an item would be taken for a known one though its slice had expired by then, and a replica would differ.
#[test]
fn a_slice_is_over_within_a_batch() {
    for refresh in [false, true] {
        let mut filter = windowed(4, 1e-9, Window::new(0, 2, refresh).unwrap());
        add_at(&mut filter, START, &items(0..5));
        let (new, _) = add_at(&mut filter, START, &items([0, 5, 0]));
        assert_eq!(new, [false, true, !refresh], "{refresh}");
    }
}

/// Who plans the memory of a window of the last different items would have too little, or be told of known items that
/// never came.
#[test]
fn items_that_come_often_take_their_place_in_each_slice() {
    const CAPACITY: u32 = 10_000;
    let window = |refresh| Window::new(0, 8, refresh).unwrap();
    let plain = Plan::new(
        windowed_spec(CAPACITY.into(), 0.01, window(false)),
        CAPACITY.into(),
        1,
    );
    let plain = plain.at(CAPACITY.into()).unwrap().bytes as f64;
    // With each new item so many of the last, in turn; and what that takes, as docs/windows.md has it.
    for (hot, again, most) in [(2000u32, 3, 2.7), (8000, 8, 7.2), (9999, 9, 9.0)] {
        let mut filter = windowed(CAPACITY.into(), 0.01, window(true));
        let (mut next, mut turn) = (0u32, 0u32);
        let mut taken = 0f64;
        for step in 0..800 {
            let mut batch = Vec::new();
            for _ in 0..100 {
                batch.push(next);
                next += 1;
                for _ in 0..again {
                    turn += 1;
                    // A fifth that stays, or all of the last.
                    let id = if hot == 2000 {
                        turn % hot
                    } else {
                        next.saturating_sub(1 + turn % hot)
                    };
                    batch.push(id);
                }
            }
            add_at(&mut filter, START, &items(batch));
            // After the first window slices are made for what they get.
            if step >= 400 {
                taken = taken.max(filter.bytes() as f64 / plain);
            }
        }
        is_bounded(&filter, CAPACITY.into()).unwrap();
        let stream = Stream {
            filter,
            time: START,
            next,
        };
        let (rate, error) = stream.false_positives();
        assert!(rate <= 0.01 + error, "{rate}");
        assert!(taken <= most, "{taken} times with {hot}");
    }
}

/// What comes to a window of the last items, where some come often.
#[derive(Clone, Debug)]
struct Repeating {
    capacity: u64,
    slices: u8,
    hot_share: f64,
    seed: u64,
    batch: usize,
    adds: usize,
}

fn repeating() -> impl Strategy<Value = Repeating> {
    let capacity = prop_oneof![1..50u64, 1..1000u64, 1..=10_000u64];
    (
        capacity,
        2..=64u8,
        0.0..0.98,
        any::<u64>(),
        1..400usize,
        1..4usize,
    )
        .prop_map(|(capacity, slices, hot_share, seed, batch, rounds)| Repeating {
            capacity,
            slices,
            hot_share,
            seed,
            batch,
            adds: (rounds * 2 * capacity as usize).max(50),
        })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % end
    }

    fn share(&mut self) -> f64 {
        self.below(1 << 32) as f64 / 2f64.powi(32)
    }
}

/// What docs/windows.md says that such a window takes at most: no slice has more items than the capacity, there is one
/// slice more than the window has, and all keep the rate.
fn is_bounded(filter: &Filter, capacity: u64) -> Result<(), TestCaseError> {
    let slices = u64::from(filter.window().unwrap().slices());
    let mut of_slices: Vec<u64> = Vec::new();
    for (layer, span) in filter.layer_stats().zip(filter.spans()).skip(filter.expired()) {
        if span.begins {
            of_slices.push(0);
        }
        *of_slices.last_mut().unwrap() += layer.items;
    }
    prop_assert!(of_slices.len() as u64 <= slices + 1, "{} slices", of_slices.len());
    prop_assert!(
        of_slices.iter().all(|&items| items <= capacity),
        "{:?}",
        of_slices
    );
    prop_assert!(rates(filter) <= filter.error_rate() * (1.0 + 1e-9));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Who wants the last so many different items would lose some of them; or the filter would grow without end where
    /// the same items come again and again.
    #[test]
    fn the_last_different_items_are_found(stream in repeating()) {
        let window = Window::new(0, stream.slices, true).unwrap();
        let mut filter = windowed(stream.capacity, 1e-12, window);
        let mut last = Last::default();
        let mut random = Random(stream.seed);
        let mut next = 0u32;
        let hot = (stream.capacity / 5).max(1);
        let parts = stream.adds.div_ceil(stream.batch);
        for part in 0..parts {
            let batch = items((0..stream.batch).map(|_| {
                if next > 0 && random.share() < stream.hot_share {
                    u32::MAX - random.below(hot) as u32
                } else {
                    next += 1;
                    next
                }
            }));
            for item in &batch {
                last.add(item);
            }
            add_at(&mut filter, START, &batch);
            if part % 5 == 0 || part + 1 == parts {
                let newest = last.newest(stream.capacity);
                let found = contains_batch(&filter, &newest);
                let lost = found.iter().position(|found| !found);
                prop_assert_eq!(lost, None, "of {} after {} adds", newest.len(), last.added);
                is_bounded(&filter, stream.capacity)?;
            }
        }
        prop_assert_eq!(filter.validate(), Ok(()));
        let stream = stored(&filter);
        prop_assert_eq!(stored(&codec::load(&mut stream.clone(), 4, UNLIMITED).unwrap()), stream);
    }
}

/// One command would take minutes, and all of the server's memory, for layers that expired long ago.
#[test]
fn a_long_batch_keeps_no_more_than_the_window() {
    for capacity in [2, 1000] {
        let mut filter = windowed(capacity, 0.01, Window::new(0, 2, false).unwrap());
        add_at(&mut filter, START, &items(0..50_000));
        let (leaving, dropped) = filter.take_dropped();
        assert_eq!(leaving.len(), 1, "the last one that went");
        let made = filter.items() + dropped * capacity.div_ceil(2);
        assert!((49_000..=50_000).contains(&made), "{dropped} of {capacity}");
        let (leaving, dropped) = filter.take_dropped();
        assert!(leaving.is_empty() && dropped == 0, "they were taken");
    }
}

/// After one burst late in a slice each question would walk through hundreds of small layers for all of a window.
#[test]
fn a_burst_late_in_a_slice_gets_few_layers() {
    for part in [75, 90, 99] {
        let mut stream = Stream::new(1000, 0.01, seconds(8 * 3600, 8));
        stream.run(1, HOUR * part / 100);
        stream.run(500_000, 1000);
        assert!(
            stream.filter.layers() <= 20,
            "{} at {part} %",
            stream.filter.layers()
        );
        assert!(stream.bits_per_item(500_000) < 48.0, "at {part} %");
        let (rate, error) = stream.false_positives();
        assert!(rate <= 0.01 + error, "{rate} at {part} %");
    }
}

/// Clients would be told that there is no room when there is, or the server run out of memory at the next slice.
#[test]
fn all_that_a_window_will_take_is_asked_for() {
    use crate::chain::at_most;
    use crate::{Demand, Error, Limit};
    let spec = windowed_spec(100_000, 0.01, seconds(100, 8));
    let bytes = Plan::new(spec, 0, 1).at(100_000).unwrap().bytes;
    assert!(Filter::new(spec, &at_most(bytes)).is_ok());
    let refused = Filter::new(spec, &at_most(bytes - 1)).map(|_| ());
    let limit = bytes - 1;
    assert_eq!(refused, Err(Error::OverLimit { bytes, limit }));
    // What is told of a filter is what it then has; new is one layer, with its struct and its times.
    const STRUCTS: u64 = 64 + 24;
    let mut filter = Filter::new(spec, UNLIMITED).unwrap();
    let told = std::cell::Cell::new((0, 0));
    for slice in 0..30 {
        filter.set_clock(|| START + 13_000 * slice);
        let from = slice as u32 * 10;
        let allowance = |demand: Demand| {
            told.set((demand.new, demand.total));
            Ok(())
        };
        filter
            .add_all(
                items(from..from + 10).iter().map(Vec::as_slice),
                &allowance,
                |_| (),
            )
            .unwrap();
        let newest = filter.layer_stats().last().unwrap();
        let of_layer = newest.bytes() + STRUCTS;
        assert_eq!(told.get(), (of_layer, filter.bytes()), "slice {slice}");
        let mut held = crate::chain::demand::FILTER_BYTES;
        filter.each_allocation(|block| held += block.layout.size() as u64);
        let spare = 2 * STRUCTS;
        assert!(
            (filter.bytes()..=filter.bytes() + spare).contains(&held),
            "{held}"
        );
    }
    // If the next slice is refused its memory, nothing changes.
    filter.set_clock(|| START + 10_000_000);
    let before = stored(&filter);
    let end = filter
        .add(b"more", &|_: Demand| Err(Limit::Bytes(5)))
        .map_err(|error| matches!(error, Error::OverLimit { limit: 5, .. }));
    assert_eq!(end, Err(true));
    assert_eq!(stored(&filter), before);
}
