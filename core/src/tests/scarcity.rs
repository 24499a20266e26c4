//! Filters when memory runs out, at every single allocation: nothing may be lost, and nothing half done.

use super::oracle;
use crate::checks::MemoryStream;
use crate::codec::{self, DecodeError, chunks};
use crate::packed::{Answers, Form, Packed};
use crate::params::{Expansion, Growth, Layout, Window};
use crate::sets::SetError;
use crate::spec::{BlockedSpec, Spec};
use crate::tests::failing::{self, Shortage};
use crate::{Error, Filter, UNLIMITED};

/// More allocations than any of the operations below makes.
const ENOUGH: u32 = 100;

/// Filters that fill a layer every few items, each with both kinds of shortage.
fn cases() -> impl Iterator<Item = (Spec, Shortage)> {
    let growing = Growth::Growing(Expansion::new(1).unwrap());
    let layouts = [Layout::Blocked, Layout::Classic];
    layouts.into_iter().flat_map(move |layout| {
        let spec = oracle::spec(20, 0.01, growing, 5).in_layout(layout).unwrap();
        [Shortage::Lasting, Shortage::Passing].map(|shortage| (spec, shortage))
    })
}

fn items(numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    numbers.map(oracle::item).collect()
}

fn stored(filter: &Filter) -> MemoryStream {
    let mut stream = MemoryStream::default();
    codec::save(filter, &mut stream);
    stream
}

/// Runs `work` with 0, 1, 2 … good allocations before the shortage until it succeeds, which must need at least
/// `at_least` of them. Returns its result.
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

/// Items that [`add_at`] adds at one time.
const AT_ONCE: usize = 20;

/// When an item is added: those of each [`AT_ONCE`] so many milliseconds after those before them.
fn time(item: usize, step: u64) -> u64 {
    (item / AT_ONCE) as u64 * step
}

/// Adds all items from number `from` on, in one batch if the time stands still.
fn add_at(
    filter: &mut Filter,
    all: &[Vec<u8>],
    from: usize,
    step: u64,
    mut added: impl FnMut(),
) -> Result<(), Error> {
    let mut from = from;
    while from < all.len() {
        let to = if step == 0 {
            all.len()
        } else {
            all.len().min((from / AT_ONCE + 1) * AT_ONCE)
        };
        let some = all[from..to].iter().map(Vec::as_slice);
        filter.add_all(some, time(from, step), UNLIMITED, |_| added())?;
        from = to;
    }
    Ok(())
}

/// Adds `all` with a shortage after `good` allocations. Returns how many were answered. The next item alone is
/// refused too, and leaves the filter unchanged.
fn add_until_it_fails(
    filter: &mut Filter,
    all: &[Vec<u8>],
    step: u64,
    good: u32,
    shortage: Shortage,
) -> usize {
    let mut answered = 0;
    let batch = || add_at(filter, all, 0, step, || answered += 1);
    let end = failing::after(good, shortage, batch);
    assert!(
        end.is_err_and(|error| no_memory(&error)),
        "{good} good allocations"
    );
    assert_eq!(filter.validate(), Ok(()), "{good} good allocations");
    let before = stored(filter);
    let single = failing::after(0, shortage, || {
        filter.add(&all[answered], time(answered, step), UNLIMITED)
    });
    assert!(single.is_err_and(|error| no_memory(&error)));
    assert_eq!(stored(filter), before, "a refused item left a trace");
    answered
}

/// A server that is short of memory would crash, or keep a broken filter.
#[test]
fn a_filter_is_made_whole_or_not_at_all() {
    for (spec, shortage) in cases() {
        // A server also has the secret before it has any filter.
        let _keeps_the_secret = Filter::new(spec, UNLIMITED).unwrap();
        let make = |good| failing::after(good, shortage, || Filter::new(spec, UNLIMITED));
        let filter = until_it_succeeds(1, make, no_memory);
        assert_eq!(filter.validate(), Ok(()));
        assert_eq!(filter.items(), 0);
    }
}

/// An item that was confirmed would be lost, or the filter would stay broken.
#[test]
fn a_filter_that_cannot_grow_stays_as_it_is_and_grows_later() {
    for (spec, shortage) in cases() {
        for good in 0..40 {
            let mut filter = Filter::new(spec, UNLIMITED).unwrap();
            let all = items(0..1000);
            let answered = add_until_it_fails(&mut filter, &all, 0, good, shortage);
            assert!(all[..answered].iter().all(|item| filter.contains(item)));

            let mut whole = Filter::new(spec, UNLIMITED).unwrap();
            for filter in [&mut filter, &mut whole] {
                let all = all.iter().map(Vec::as_slice);
                filter.add_all(all, 0, UNLIMITED, |_| ()).unwrap();
            }
            assert_eq!(stored(&filter), stored(&whole), "not what it would have been");
        }
    }
}

/// A window that should begin a slice would lose its items, or accept an item that it does not find.
#[test]
fn a_window_that_cannot_turn_stays_as_it_is_and_turns_later() {
    let spec = BlockedSpec {
        window: Some(Window::new(60, 4, false).unwrap()),
        ..oracle::spec(40, 0.01, oracle::reserved(2), 5)
    };
    for shortage in [Shortage::Lasting, Shortage::Passing] {
        for good in 0..40 {
            let mut filter = Filter::new(spec.into(), UNLIMITED).unwrap();
            let all = items(0..1000);
            // A slice is open for 15 seconds.
            let step = 10_000;
            let answered = add_until_it_fails(&mut filter, &all, step, good, shortage);
            let last = &all[answered.saturating_sub(6 * AT_ONCE)..answered];
            assert!(last.iter().all(|item| filter.contains(item)));

            let mut whole = Filter::new(spec.into(), UNLIMITED).unwrap();
            add_at(&mut whole, &all, 0, step, || ()).unwrap();
            add_at(&mut filter, &all, answered, step, || ()).unwrap();
            assert_eq!(stored(&filter), stored(&whole), "not what it would have been");
        }
    }
}

/// A batch would be added in part without an error, or the server would crash.
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
            .add_packed(packed, 0, UNLIMITED, |block| new.push(block.new, block.count))
            .unwrap();
        let before = stored(&filter);

        let ask = |good| failing::after(good, shortage, || filter.contains_packed(packed, 0));
        assert_eq!(until_it_succeeds(1, ask, no_memory).count(), packed.count());
        let none = |good| failing::after(good, shortage, || Answers::none_of(packed.count()));
        assert_eq!(until_it_succeeds(1, none, no_memory).ones(), 0);
        let count = failing::after(0, shortage, || filter.count_packed(packed, 0));
        assert_eq!(count, packed.count() as u64, "to count takes no memory");
        let only = |good| failing::after(good, shortage, || packed.only(&new).ok_or(()));
        assert!(until_it_succeeds(1, only, |()| true).len() <= data.len());
        assert_eq!(stored(&filter), before);
    }
}

/// A restart, a failover or a RESTORE would leave a filter with holes, or crash the server.
#[test]
fn a_filter_is_loaded_whole_or_not_at_all() {
    for (spec, shortage) in cases() {
        let mut filter = Filter::new(spec, UNLIMITED).unwrap();
        let all = items(0..500);
        filter
            .add_all(all.iter().map(Vec::as_slice), 0, UNLIMITED, |_| ())
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

        let copy = |good| failing::after(good, shortage, || chunks::copy(&filter, UNLIMITED));
        assert_eq!(stored(&until_it_succeeds(layers, copy, no_room)), stream);

        let dump = |good| failing::after(good, shortage, || chunks::dump(&filter, 0));
        let chunk = until_it_succeeds(1, dump, no_memory);
        assert_eq!(chunk.unwrap().bytes, header);
    }
}

/// A client that names many sources would crash the server, or get a filter that was combined in part without an
/// error.
#[test]
fn filters_are_combined_whole_or_not_at_all() {
    for (spec, shortage) in cases().filter(|(spec, _)| matches!(spec, Spec::Blocked(_))) {
        let filled = |numbers| {
            let mut filter = Filter::new(spec, UNLIMITED).unwrap();
            let all = items(numbers);
            filter
                .add_all(all.iter().map(Vec::as_slice), 0, UNLIMITED, |_| ())
                .unwrap();
            filter
        };
        // Together they have fewer items than one of them has room for.
        let sources: Vec<_> = (0..8).map(|source| filled(source..source + 8)).collect();
        // One source many times, and all of the others.
        let sources: Vec<_> = std::iter::repeat_n(&sources[0], 1000).chain(&sources).collect();
        let no_set = |error: &SetError| matches!(error, SetError::Memory(Error::OutOfMemory { .. }));

        let united = Filter::union(&sources, None, UNLIMITED).unwrap();
        let unite = |good| failing::after(good, shortage, || Filter::union(&sources, None, UNLIMITED));
        assert_eq!(stored(&until_it_succeeds(3, unite, no_set)), stored(&united));

        let common = Filter::intersection(&sources, UNLIMITED).unwrap();
        let intersect = |good| failing::after(good, shortage, || Filter::intersection(&sources, UNLIMITED));
        assert_eq!(stored(&until_it_succeeds(3, intersect, no_set)), stored(&common));

        let absorb = |good| {
            let mut filter = filled(200..203);
            let before = stored(&filter);
            let absorbed = failing::after(good, shortage, || filter.absorb(&sources, None, UNLIMITED));
            if absorbed.is_err() {
                assert_eq!(stored(&filter), before, "{good} good allocations");
            }
            absorbed.map(|_| filter)
        };
        let absorbed = until_it_succeeds(3, absorb, no_set);
        assert!(
            (0..15)
                .chain(200..203)
                .all(|number| absorbed.contains(&oracle::item(number)))
        );
    }
}

/// A list of sources would need memory each time that a source is named.
#[test]
fn a_source_that_is_named_again_takes_no_memory() {
    let spec = oracle::spec(20, 0.01, oracle::reserved(2), 5);
    let filter = Filter::new(spec.into(), UNLIMITED).unwrap();
    let sources = vec![&filter; 100_000];
    let united = failing::above(4096, || Filter::union(&sources, None, UNLIMITED));
    assert_eq!(stored(&united.unwrap()), stored(&filter));
}
