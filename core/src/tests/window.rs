//! Filters that forget: what holds whatever arrives, and whatever the clock does.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::oracle::{self, stored};
use crate::codec::{self, chunks};
use crate::params::{LATEST, Time, Window};
use crate::plan::Plan;
use crate::spec::{BlockedSpec, Spec};
use crate::{Filter, UNLIMITED};

const START: Time = 1_700_000_000_000;

fn windowed(capacity: u64, error_rate: f64, window: Window) -> Filter {
    Filter::new(windowed_spec(capacity, error_rate, window).into(), UNLIMITED).unwrap()
}

fn windowed_spec(capacity: u64, error_rate: f64, window: Window) -> BlockedSpec {
    BlockedSpec {
        window: Some(window),
        ..oracle::spec(capacity, error_rate, oracle::reserved(2), 7)
    }
}

fn seconds(seconds: u32, slices: u8) -> Window {
    Window::new(seconds, slices, false).unwrap()
}

/// Adds items at a time; which were new, and which changed the filter.
fn add_at(filter: &mut Filter, time: Time, items: &[Vec<u8>]) -> (Vec<bool>, Vec<bool>) {
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    let items = items.iter().map(Vec::as_slice);
    filter
        .add_blocks(items, time, UNLIMITED, |block| {
            new.extend((0..block.count).map(|at| block.new.has(at)));
            changed.extend((0..block.count).map(|at| block.changed.has(at)));
        })
        .unwrap();
    (new, changed)
}

fn contains_batch_at(filter: &Filter, items: &[Vec<u8>], now: Time) -> Vec<bool> {
    filter.contains_many_at(items.iter().map(Vec::as_slice), now)
}

fn items(ids: impl IntoIterator<Item = u32>) -> Vec<Vec<u8>> {
    ids.into_iter().map(|id| id.to_be_bytes().to_vec()).collect()
}

fn rates(filter: &Filter) -> f64 {
    filter.layer_stats().map(|layer| layer.shape.error_rate).sum()
}

/// A clock that was far ahead was wrong: what it stamped is of now.
fn correct_stamps(known: &mut HashMap<Vec<u8>, Time>, now: Time) {
    for time in known.values_mut().filter(|time| **time > now) {
        *time = now;
    }
}

/// A replica would refuse the time of each later addition, and miss its items.
#[test]
fn no_stamp_is_later_than_a_command_may_say() {
    let mut filter = windowed(100, 0.01, seconds(10, 2));
    for (time, ids) in [
        (LATEST, 0..10),
        (LATEST, 10..20),
        (Time::MAX, 20..30),
        (START, 30..40),
    ] {
        add_at(&mut filter, time, &items(ids));
        assert!(filter.stamp(time) <= Some(LATEST), "{time}");
    }
    assert!(
        filter.stamp(START) < Some(LATEST),
        "a clock that was ahead is corrected"
    );
    assert!(
        contains_batch_at(&filter, &items(0..40), START)
            .iter()
            .all(|found| *found)
    );
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
        1 => Just(Event::Move),
    ];
    vec(event, 1..60)
}

fn windows() -> impl Strategy<Value = Window> {
    let slices = prop_oneof![2..12u8, Just(64)];
    (prop_oneof![Just(1), 2..20u32], slices, any::<bool>())
        .prop_map(|(seconds, slices, refresh)| Window::new(seconds, slices, refresh).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever arrives, hundreds of items in a millisecond too, whatever the clock does and whatever moves the filter:
    /// an item is found for its window and at most a slice longer, no stamp is ahead of the clock, replicas are equal,
    /// and the rate is kept.
    #[test]
    fn a_window_keeps_its_promises(
        (window, events) in windows().prop_flat_map(|window| {
            (Just(window), events(u64::from(window.seconds()) * 1000))
        }),
        capacity in 1..500u64,
    ) {
        // So low that a false positive would be a bug.
        let mut filter = windowed(capacity, 1e-20, window);
        let mut single = windowed(capacity, 1e-20, window);
        let mut replica = windowed(capacity, 1e-20, window);
        let length = u64::from(window.seconds()) * 1000;
        // What had expired when a change was stamped is gone, also for a clock that is put back.
        let (mut clock, mut newest) = (START, START);
        // The latest time at which the clock stood at an addition, since it was corrected.
        let mut latest = START;
        // When an item's time began, as the filter stamped it.
        let mut known: HashMap<Vec<u8>, Time> = HashMap::new();
        for event in events {
            match event {
                Event::Pass(time) => clock += time,
                Event::Jump(by) => clock = clock.saturating_add_signed(by),
                Event::Move => {
                    let stream = stored(&filter);
                    filter = codec::load(&mut stream.clone(), 4, UNLIMITED).unwrap();
                    prop_assert_eq!(&stored(&filter), &stream);
                    filter = chunks::copy(&filter, UNLIMITED).unwrap();
                    prop_assert_eq!(&stored(&filter), &stream);
                }
                Event::Add(many, from) => {
                    let batch = items(from..from + many);
                    let at = filter.stamp(clock).unwrap();
                    newest = newest.max(at);
                    let is_corrected = at < filter.newest_stamp();
                    let (new, changed) = add_at(&mut filter, clock, &batch);
                    if changed.contains(&true) {
                        if is_corrected {
                            // What has expired by the wrong clock may be gone.
                            known.retain(|_, time| *time + length > newest);
                            newest = at;
                        }
                        correct_stamps(&mut known, at);
                        latest = if is_corrected { clock } else { latest.max(clock) };
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
                        if new || window.refresh() {
                            known.insert(item, at);
                        }
                    }
                }
            }
            prop_assert_eq!(filter.validate(), Ok(()));
            prop_assert!(filter.newest_stamp() <= latest);
            prop_assert!(filter.slices().iter().all(|slice| slice.opens <= latest));
            prop_assert_eq!(&stored(&single), &stored(&filter));
            prop_assert_eq!(&stored(&replica), &stored(&filter));
            prop_assert!(rates(&filter) <= 1e-20 * (1.0 + 1e-9));
            // What a question says, now and later.
            let slice = length.div_ceil(window.slices().into());
            for ask in [clock, clock + length / 2, clock + length, clock + length + slice] {
                for (item, &time) in &known {
                    let found = filter.contains_at(item, ask);
                    prop_assert!(found || ask.max(newest) > time + length, "asked at {}, known at {}", ask, time);
                    let gone = ask >= time + length + slice;
                    prop_assert!(!found || !gone, "{} after", ask.saturating_sub(time));
                }
                let all: Vec<_> = known.keys().cloned().collect();
                let one_by_one: Vec<_> = all.iter().map(|item| filter.contains_at(item, ask)).collect();
                prop_assert_eq!(contains_batch_at(&filter, &all, ask), one_by_one);
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
    }

    /// The share of items that never came and are found, and three standard errors of it.
    fn false_positives(&self) -> (f64, f64) {
        const ASKED: u32 = 400_000;
        let absent = items(u32::MAX - ASKED..u32::MAX);
        let found = contains_batch_at(&self.filter, &absent, self.time)
            .into_iter()
            .filter(|&found| found)
            .count();
        let rate = found as f64 / f64::from(ASKED);
        (rate, 3.0 * (rate / f64::from(ASKED)).sqrt())
    }

    /// How many layers each slice has that has not expired.
    fn layers_of_slices(&self) -> Vec<usize> {
        let mut expired = self.filter.expired_layers(self.time);
        let slices = self.filter.slices().iter().map(|slice| slice.layers().len());
        slices
            .filter(|&layers| {
                let is_alive = expired == 0;
                expired -= if is_alive { 0 } else { layers };
                is_alive
            })
            .collect()
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
        let plan = Plan::new(windowed_spec(capacity, error_rate, window).into(), capacity, 1);
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
            contains_batch_at(&stream.filter, &burst, stream.time)
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
    let usual = Plan::new(
        windowed_spec(40_000, 0.01, seconds(8 * 3600, 8)).into(),
        40_000,
        1,
    );
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
        .map(|layer| layer.shape.capacity)
        .collect();
    assert_eq!(sizes.last(), Some(&1000));
    // Silence makes no slices: expired layers are left out of queries, and dropped with the next item.
    stream.run(0, 30 * HOUR);
    let (items, totals) = (
        stream.filter.items_at(stream.time),
        stream.filter.totals_at(stream.time),
    );
    assert_eq!((items, totals.layers), (0, 0));
    assert!(stream.filter.layers() > 0);
    stream.run(1, 1);
    assert_eq!((stream.filter.items(), stream.filter.layers()), (1, 1));
}

/// A slice a second, each with one item, or with none: the smallest stream would be forgotten, or never.
#[test]
fn one_item_a_slice_is_found_for_its_window() {
    let mut stream = Stream::new(64, 0.001, seconds(64, 64));
    for second in 0..1000u32 {
        stream.run(1, 1000);
        let all: Vec<_> = contains_batch_at(&stream.filter, &items(0..=second), stream.time);
        let kept = all.iter().rev().take_while(|found| **found).count();
        assert!(
            kept == 64.min(second as usize + 1) || kept == 65,
            "{kept} of {second}"
        );
        assert!(stream.filter.layers() <= 65);
    }
}

/// One late event would make a window forget what others rely on; one wrong time, or a clock in other units, would make
/// it remember for ever.
#[test]
fn one_wrong_time_makes_no_window_forget_nor_remember_for_ever() {
    let minute = 60_000;
    let window = seconds(60, 8);
    for wrong in [0, START / 1000, START - 3 * minute] {
        let mut filter = windowed(100, 1e-9, window);
        filter.insert_at("early", START).unwrap();
        filter.insert_at("wrong", wrong).unwrap();
        filter.insert_many_at([&b"late"[..]], START + minute / 2).unwrap();
        filter.insert_many_at([&b"wrong"[..]], wrong).unwrap();
        for item in ["early", "wrong", "late"] {
            assert!(
                filter.contains_at(item, START + minute / 2),
                "{item} beside {wrong}"
            );
        }
    }
    for wrong in [u64::MAX, LATEST, START * 1000, START + 3 * minute] {
        let mut filter = windowed(100, 1e-9, window);
        filter.insert_at("wrong", wrong).unwrap();
        for second in 0..200 {
            let now = START + second * 1000;
            filter
                .insert_at(format!("item {second}").as_bytes(), now)
                .unwrap();
            assert!(filter.contains_at(format!("item {second}").as_bytes(), now));
        }
        let now = START + 200 * 1000;
        assert!(filter.newest_stamp() < now, "{wrong}");
        assert!(
            !filter.contains_at("wrong", now) && !filter.contains_at("item 100", now),
            "{wrong}"
        );
        assert!(filter.contains_at("item 150", now));
    }
}

/// A clock that goes far back again and again would make a filter of more slices than a stored one may have.
#[test]
fn slices_of_wrong_clocks_have_a_limit() {
    let mut filter = windowed(1_000, 0.01, seconds(64, 64));
    let (mut clock, mut next) = (u64::from(u32::MAX) * 1000, 0);
    let end = loop {
        let end = filter.add(&next.to_string(), clock, UNLIMITED);
        if end.is_err() {
            break end;
        }
        next += 1;
        assert!(next < 5000, "no limit");
        clock = if next % 64 == 0 {
            clock - 200_000
        } else {
            clock + 1000
        };
        assert_eq!(filter.validate(), Ok(()));
    };
    assert!(matches!(end, Err(crate::Error::Full { .. })), "{end:?}");
    assert_eq!(filter.slices().len(), 512);
    assert!(rates(&filter) <= 0.01 * (1.0 + 1e-9));
    let loaded = codec::load(&mut stored(&filter), 4, UNLIMITED).unwrap();
    assert_eq!(stored(&loaded), stored(&filter));
    assert!((0..next).all(|number| loaded.contains_at(&number.to_string(), clock)));
    // What expires makes room.
    assert_eq!(filter.add("more", clock + 400_000, UNLIMITED), Ok(true));
    assert_eq!(filter.slices().len(), 1);
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
    let spec = Spec::from(windowed_spec(100_000, 0.01, seconds(100, 8)));
    let bytes = Plan::new(spec, 0, 1).at(100_000).unwrap().bytes;
    assert!(Filter::new(spec, &at_most(bytes)).is_ok());
    let refused = Filter::new(spec, &at_most(bytes - 1)).map(|_| ());
    let limit = bytes - 1;
    assert_eq!(refused, Err(Error::OverLimit { bytes, limit }));
    // What is told of a filter is what it then has; new is one layer, with its struct and its times.
    const STRUCTS: u64 = size_of::<crate::layouts::blocked::window::Slice>() as u64;
    let mut filter = Filter::new(spec, UNLIMITED).unwrap();
    let asked = std::cell::Cell::new((0, 0));
    for slice in 0..30 {
        let from = slice as u32 * 10;
        let allowance = |demand: Demand| {
            asked.set((demand.new, demand.total));
            Ok(())
        };
        filter
            .add_all(
                items(from..from + 10).iter().map(Vec::as_slice),
                START + 13_000 * slice,
                &allowance,
                |_| (),
            )
            .unwrap();
        let newest = filter.layer_stats().last().unwrap();
        let of_layer = newest.shape.bytes + STRUCTS;
        assert_eq!(asked.get(), (of_layer, filter.bytes()), "slice {slice}");
        let mut held = crate::chain::demand::FILTER_BYTES;
        filter.each_allocation(|block| held += block.layout.size() as u64);
        let spare = 2 * STRUCTS;
        assert!(
            (filter.bytes()..=filter.bytes() + spare).contains(&held),
            "{held}"
        );
    }
    // If a further layer of the open slice is refused, nothing changes either, though the oldest slice has expired.
    let mut full = windowed(80, 1e-9, seconds(100, 8));
    add_at(&mut full, START, &items([999]));
    add_at(&mut full, START + 100_010, &items(1000..1010));
    let (before, time) = (stored(&full), START + 112_500);
    assert_eq!((full.slices().len(), full.expired_layers(time)), (2, 1));
    let refused = full.add(b"more", time, &|_: Demand| Err(Limit::Bytes(5)));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(stored(&full), before);
    assert_eq!(full.add(b"more", time, UNLIMITED), Ok(true));
    assert_eq!(full.slices().len(), 1);
    // If the next slice is refused its memory, nothing changes.
    let before = stored(&filter);
    let end = filter
        .add(b"more", START + 10_000_000, &|_: Demand| Err(Limit::Bytes(5)))
        .map_err(|error| matches!(error, Error::OverLimit { limit: 5, .. }));
    assert_eq!(end, Err(true));
    assert_eq!(stored(&filter), before);
}

/// A thread that asks for another time would have live items denied to all others, or expired ones found.
#[test]
fn each_thread_is_answered_for_its_own_time() {
    const ROUNDS: usize = 2000;
    let mut filter = windowed(1000, 1e-9, seconds(8, 8));
    // Item `n` comes at second `n`.
    let all = items(0..16);
    for (second, item) in (0..).zip(&all) {
        add_at(&mut filter, START + second * 1000, std::slice::from_ref(item));
    }
    let before = stored(&filter);
    let first = filter.layer_stats().next().unwrap().items;
    assert_eq!(first, 1);
    std::thread::scope(|scope| {
        for second in [15, 16, 18, 20, 23, 100] {
            let (filter, all) = (&filter, &all);
            scope.spawn(move || {
                let now = START + second * 1000;
                // The slice of item `n` accepts items for a second, and expires 8 seconds after that.
                let expected: Vec<_> = (0..16).map(|number| number + 9 > second).collect();
                let count = expected.iter().filter(|found| **found).count();
                for _ in 0..ROUNDS {
                    assert_eq!(
                        contains_batch_at(filter, all, now),
                        expected,
                        "at second {second}"
                    );
                    for (item, found) in all.iter().zip(&expected) {
                        assert_eq!(filter.contains_at(item, now), *found, "at second {second}");
                    }
                    assert_eq!(filter.items_at(now), count as u64);
                    assert_eq!(filter.totals_at(now).layers, count);
                }
            });
        }
    });
    assert!(stored(&filter) == before, "a question changed the filter");
}

/// What a window holds would be forgotten when its server's clock is put right.
#[test]
fn a_clock_that_is_put_right_costs_no_item() {
    let mut filter = windowed(100, 1e-20, seconds(10, 4));
    for slice in 0..4 {
        add_at(
            &mut filter,
            START + 100_000 + 2_500 * slice,
            &items(10 * slice as u32..10 * slice as u32 + 10),
        );
    }
    add_at(&mut filter, START, &items(40..41));
    let found = |now| {
        contains_batch_at(&filter, &items(0..41), now)
            .iter()
            .filter(|found| **found)
            .count()
    };
    assert_eq!(filter.slices().len(), 5);
    assert_eq!(
        (found(START), found(START + 10_000), found(START + 10_001)),
        (41, 41, 1)
    );
}
