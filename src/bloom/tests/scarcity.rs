//! Filters when memory runs out: at every single allocation, nothing may be lost and nothing half done.

use super::oracle;
use crate::bloom::codec::stream::Memory;
use crate::bloom::codec::{self, DecodeError, chunks};
use crate::bloom::packed::{Answers, Form, Packed};
use crate::bloom::params::{Expansion, Growth, Layout, Seed, Spec, Window};
use crate::bloom::{Error, Filter, UNLIMITED};
use crate::server::alloc::failing::{self, Shortage};

/// More allocations than any of the operations below makes.
const ENOUGH: u32 = 100;

/// Filters that fill a layer every few items, each with either kind of shortage.
fn cases() -> impl Iterator<Item = (Spec, Shortage)> {
    let growing = Growth::Growing(Expansion::new(1).unwrap());
    let layouts = [Layout::Blocked { seed: Seed(5) }, Layout::Classic];
    layouts.into_iter().flat_map(move |layout| {
        let spec = Spec {
            layout,
            ..oracle::spec(20, 0.01, growing, 5)
        };
        [Shortage::Lasting, Shortage::Passing].map(|shortage| (spec, shortage))
    })
}

fn items(numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    numbers.map(oracle::item).collect()
}

fn stored(filter: &Filter) -> Memory {
    let mut stream = Memory::default();
    codec::save(filter, &mut stream);
    stream
}

/// Runs `work` with 0, 1, 2 … good allocations before the shortage until it succeeds, which takes `at_least` of
/// them; gives what it then made.
fn until_it_succeeds<T, E>(
    at_least: u32,
    work: impl Fn(u32) -> Result<T, E>,
    is_out_of_memory: impl Fn(&E) -> bool,
) -> T {
    for good in 0..ENOUGH {
        match work(good) {
            Ok(made) => {
                assert!(good >= at_least, "{good} allocations were enough");
                return made;
            }
            Err(error) => assert!(is_out_of_memory(&error), "{good} good allocations"),
        }
    }
    panic!("{ENOUGH} allocations are not enough");
}

fn no_memory(error: &Error) -> bool {
    matches!(error, Error::OutOfMemory { .. })
}

fn no_room(error: &DecodeError) -> bool {
    matches!(error, DecodeError::OutOfMemory { .. })
}

/// Adds `all` with so many good allocations before the shortage: how many were answered. The next one alone is refused
/// too, and leaves the filter as it is.
fn add_until_it_fails(filter: &mut Filter, all: &[Vec<u8>], good: u32, shortage: Shortage) -> usize {
    let mut answered = 0;
    let batch = || {
        let all = all.iter().map(Vec::as_slice);
        filter.add_all(all, UNLIMITED, |_| answered += 1)
    };
    let end = failing::after(good, shortage, batch);
    assert!(
        end.is_err_and(|error| no_memory(&error)),
        "{good} good allocations"
    );
    assert_eq!(filter.validate(), Ok(()), "{good} good allocations");
    let before = stored(filter);
    let single = failing::after(0, shortage, || filter.add(&all[answered], UNLIMITED));
    assert!(single.is_err_and(|error| no_memory(&error)));
    assert_eq!(stored(filter), before, "a refused item left a trace");
    answered
}

/// A server that is short of memory would end, or keep a filter that is none.
#[test]
fn a_filter_is_made_whole_or_not_at_all() {
    for (spec, shortage) in cases() {
        // As in a server, whose secret is there before any filter.
        let _keeps_the_secret = Filter::new(spec, UNLIMITED).unwrap();
        let make = |good| failing::after(good, shortage, || Filter::new(spec, UNLIMITED));
        let filter = until_it_succeeds(2, make, no_memory);
        assert_eq!(filter.validate(), Ok(()));
        assert_eq!(filter.items(), 0);
    }
}

/// An item that was acknowledged would be gone, or the filter would be broken for ever.
#[test]
fn a_filter_that_cannot_grow_stays_as_it_is_and_grows_later() {
    for (spec, shortage) in cases() {
        for good in 0..40 {
            let mut filter = Filter::new(spec, UNLIMITED).unwrap();
            let all = items(0..1000);
            let answered = add_until_it_fails(&mut filter, &all, good, shortage);
            assert!(all[..answered].iter().all(|item| filter.contains(item)));

            let mut whole = Filter::new(spec, UNLIMITED).unwrap();
            for filter in [&mut filter, &mut whole] {
                let all = all.iter().map(Vec::as_slice);
                filter.add_all(all, UNLIMITED, |_| ()).unwrap();
            }
            assert_eq!(stored(&filter), stored(&whole), "not what it would have been");
        }
    }
}

/// A window that should turn would lose what it holds, or take an item that it does not find.
#[test]
fn a_window_that_cannot_turn_stays_as_it_is_and_turns_later() {
    let spec = Spec {
        window: Some(Window::new(0, 4, false).unwrap()),
        ..oracle::spec(40, 0.01, oracle::reserved(2), 5)
    };
    for shortage in [Shortage::Lasting, Shortage::Passing] {
        for good in 0..40 {
            let mut filter = Filter::new(spec, UNLIMITED).unwrap();
            let all = items(0..1000);
            let answered = add_until_it_fails(&mut filter, &all, good, shortage);
            let last = &all[answered.saturating_sub(40)..answered];
            assert!(last.iter().all(|item| filter.contains(item)));

            let mut whole = Filter::new(spec, UNLIMITED).unwrap();
            whole
                .add_all(all.iter().map(Vec::as_slice), UNLIMITED, |_| ())
                .unwrap();
            let rest = all[answered..].iter().map(Vec::as_slice);
            filter.add_all(rest, UNLIMITED, |_| ()).unwrap();
            assert_eq!(stored(&filter), stored(&whole), "not what it would have been");
        }
    }
}

/// A batch would be taken in part, with nobody told of it, or the server would end.
#[test]
fn packed_items_are_answered_or_refused_whole() {
    for (spec, shortage) in cases() {
        let data: Vec<u8> = items(0..300)
            .iter()
            .flat_map(|item| [&item[..], b"\n"].concat())
            .collect();
        let packed = Packed::new(&data, Form::Lines).unwrap();
        let mut filter = Filter::new(spec, UNLIMITED).unwrap();
        let mut new = Answers::with_room_for(packed.count()).unwrap();
        filter
            .add_packed(packed, UNLIMITED, |block| new.push(block.new, block.count))
            .unwrap();
        let before = stored(&filter);

        let ask = |good| failing::after(good, shortage, || filter.contains_packed(packed));
        assert_eq!(until_it_succeeds(1, ask, no_memory).count(), packed.count());
        let none = |good| failing::after(good, shortage, || Answers::none_of(packed.count()));
        assert_eq!(until_it_succeeds(1, none, no_memory).ones(), 0);
        let count = failing::after(0, shortage, || filter.count_packed(packed));
        assert_eq!(count, packed.count() as u64, "to count takes no memory");
        let only = |good| failing::after(good, shortage, || packed.only(&new).ok_or(()));
        assert!(until_it_succeeds(1, only, |()| true).len() <= data.len());
        assert_eq!(stored(&filter), before);
    }
}

/// A restart, a failover or a RESTORE would leave a filter with holes, or end the server.
#[test]
fn a_filter_is_loaded_whole_or_not_at_all() {
    for (spec, shortage) in cases() {
        let mut filter = Filter::new(spec, UNLIMITED).unwrap();
        let all = items(0..500);
        filter
            .add_all(all.iter().map(Vec::as_slice), UNLIMITED, |_| ())
            .unwrap();
        let layers = filter.layers() as u32;
        let (stream, header) = (stored(&filter), chunks::header(&filter));

        let load = |good| {
            let mut stream = stream.clone();
            failing::after(good, shortage, || {
                codec::load(&mut stream, codec::ENCODING_VERSION, UNLIMITED)
            })
        };
        assert_eq!(stored(&until_it_succeeds(layers, load, no_room)), stream);

        let load = |good| failing::after(good, shortage, || chunks::load_header(&header, UNLIMITED));
        let empty = until_it_succeeds(layers, load, no_room);
        assert_eq!((empty.items(), empty.totals().bits_set), (filter.items(), 0));

        // The first allocation is the header's, of some bytes a layer.
        let copy = |good| failing::after(1 + good, shortage, || chunks::copy(&filter, UNLIMITED));
        assert_eq!(stored(&until_it_succeeds(layers, copy, no_room)), stream);
    }
}
