//! Filters that forget: what holds whatever arrives, and whatever the clock does.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::oracle::{self, contains_batch, stored};
use crate::bloom::chain::window::slices::Span;
use crate::bloom::codec::{self, chunks};
use crate::bloom::params::{Growth, Layout, Seed, Spec, Time, Window};
use crate::bloom::{Filter, UNLIMITED};

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
        1 => Just(Event::Rotate),
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
            (Just(window), events(window.milliseconds().unwrap_or(5000)))
        }),
        capacity in 1..500u64,
    ) {
        // So low that a false positive would be a bug.
        let mut filter = windowed(capacity, 1e-20, window);
        let mut single = windowed(capacity, 1e-20, window);
        let mut replica = windowed(capacity, 1e-20, window);
        // What was over when a change was stamped is gone, also for a clock that is put back.
        let (mut clock, mut newest) = (START, START);
        // When an item's time began, as the filter stamped it, and how many came after it.
        let mut known: HashMap<Vec<u8>, (Time, u64)> = HashMap::new();
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
                        if changed {
                            count += 1;
                        }
                        if new || window.refresh() {
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
            let length = window.milliseconds().unwrap_or(0);
            let slice = window.slice_milliseconds().unwrap_or(0);
            for ask in [clock, clock + length / 2, clock + length + slice] {
                filter.set_clock(|| ask);
                for (item, &(time, number)) in &known {
                    let found = filter.contains(item);
                    if window.milliseconds().is_none() {
                        let later = count - number;
                        prop_assert!(found || later >= capacity, "{} later", later);
                        let slices = window.slices().into();
                        let most = capacity + 2 * capacity.div_ceil(slices) + slices;
                        prop_assert!(!found || later <= most, "{} later", later);
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
