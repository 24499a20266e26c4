//! Items that are excepted: what holds for them, and for all others, whatever is done.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::oracle::{self, add_batch, contains_batch, growing, item, load, reserved, stored};
use crate::chain::at_most;
use crate::chain::demand::FILTER_BYTES;
use crate::checks::Invalid;
use crate::codec::{self, DecodeError, ENCODING_VERSION, chunks};
use crate::exceptions::{self, ExceptError, Exceptions, FEWER_TAGS};
use crate::params::{Growth, Window};
use crate::spec::{BlockedSpec, ClassicSpec, Spec};
use crate::tests::failing::{self, Shortage};
use crate::{Error, Filter, UNLIMITED};

/// Items that a test knows: few, so that many are met again.
const UNIVERSE: u32 = 200;

fn except<I: AsRef<[u8]>>(filter: &mut Filter, items: &[I]) -> Vec<bool> {
    let mut answers = Vec::new();
    let items = items.iter().map(AsRef::as_ref);
    filter
        .except(items, UNLIMITED, |excepted, count| {
            answers.extend((0..count).map(|at| excepted.has(at)));
        })
        .unwrap();
    answers
}

fn add<I: AsRef<[u8]>>(filter: &mut Filter, items: &[I]) -> Vec<bool> {
    let (new, end) = add_batch(filter, items);
    assert_eq!(end, Ok(()));
    new
}

fn items(ids: &[u32]) -> Vec<Vec<u8>> {
    ids.iter().map(|&id| item(id)).collect()
}

/// Bytes of the blocks that the filter has, whatever its figures say.
fn held(filter: &Filter) -> u64 {
    let mut bytes = filter.set_of_exceptions();
    filter.each_allocation(|block| bytes += block.layout.size() as u64);
    bytes
}

fn valid(filter: &Filter) -> Result<(), Invalid> {
    match filter.validate() {
        // A chain of tiny layers at a loose rate may set fewer bits than an item has probes.
        Err(Invalid::Fill { .. }) => panic!("{filter:?}"),
        other => other,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u32>),
    AddOne(u32),
    Except(Vec<u32>),
    Store,
    Copy,
    Chunks,
    Empty,
}

fn step() -> impl Strategy<Value = Step> {
    let ids = || vec(0..UNIVERSE, 1..150);
    prop_oneof![
        4 => ids().prop_map(Step::Add),
        2 => (0..UNIVERSE).prop_map(Step::AddOne),
        4 => ids().prop_map(Step::Except),
        1 => Just(Step::Store),
        1 => Just(Step::Copy),
        1 => Just(Step::Chunks),
        1 => prop::bool::weighted(0.2).prop_map(|empty| if empty { Step::Empty } else { Step::Store }),
    ]
}

fn specs() -> impl Strategy<Value = BlockedSpec> {
    prop_oneof![
        Just(oracle::spec(400, 0.01, Growth::Fixed, 7)),
        Just(oracle::spec(20, 0.2, reserved(2), 7)),
        Just(oracle::spec(3, 0.1, growing(2), 7)),
        Just(oracle::spec(150, 1e-5, reserved(1), 7)),
    ]
}

fn reloaded(filter: &Filter) -> Filter {
    let mut copy = chunks::load_header(&chunks::header(filter), UNLIMITED).unwrap();
    for chunk in chunks::chunks(filter).skip(1) {
        chunks::load_chunk(&mut copy, chunk.iterator, &chunk.bytes).unwrap();
    }
    copy
}

proptest! {
    /// An item that was added would be missing, or one that nobody excepted; or an exception would come back.
    #[test]
    fn the_filter_and_an_exact_model_agree(spec in specs(), steps in vec(step(), 1..40)) {
        let (mut filter, mut twin) = (oracle::filter(spec), oracle::filter(spec));
        let (mut added, mut excepted) = (HashSet::new(), HashSet::new());
        for step in steps {
            match step {
                Step::Add(ids) => {
                    // Of the items that the twin has, those are new that are excepted, once.
                    let of_twin = add(&mut twin, &items(&ids));
                    let expected: Vec<_> = ids.iter().zip(of_twin).map(|(id, new)| excepted.remove(id) || new).collect();
                    prop_assert_eq!(add_batch(&mut filter, &items(&ids)), (expected, Ok(())));
                    added.extend(ids);
                }
                Step::AddOne(id) => {
                    let new = twin.add(&item(id), 0, UNLIMITED).unwrap();
                    prop_assert_eq!(filter.add(&item(id), 0, UNLIMITED), Ok(excepted.remove(&id) || new));
                    added.insert(id);
                }
                Step::Except(ids) => {
                    let there = contains_batch(&filter, &items(&ids));
                    let expected: Vec<_> = ids.iter().zip(there).map(|(&id, there)| there && excepted.insert(id)).collect();
                    prop_assert_eq!(except(&mut filter, &items(&ids)), expected);
                    ids.iter().for_each(|id| { added.remove(id); });
                }
                Step::Store => filter = load(&stored(&filter)).unwrap(),
                Step::Copy => filter = chunks::copy(&filter, UNLIMITED).unwrap(),
                Step::Chunks => filter = reloaded(&filter),
                Step::Empty => {
                    if let Some(empty) = filter.emptied(UNLIMITED).unwrap() {
                        filter = empty;
                    }
                    twin = oracle::filter(spec);
                    (added, excepted) = Default::default();
                }
            }
            prop_assert_eq!(filter.exceptions(), excepted.len() as u64);
            prop_assert_eq!(filter.items(), twin.items(), "BF.CARD counts what changed the layers");
            prop_assert_eq!(valid(&filter), Ok(()));
            let known: Vec<_> = (0..UNIVERSE).collect();
            let (found, of_twin) = (contains_batch(&filter, &items(&known)), contains_batch(&twin, &items(&known)));
            for ((id, found), of_twin) in known.iter().zip(found).zip(of_twin) {
                prop_assert_eq!(found, of_twin && !excepted.contains(id), "item {}", id);
                prop_assert!(found || !added.contains(id), "item {} was added and is missing", id);
                prop_assert_eq!(filter.contains(&item(*id)), found);
            }
            if excepted.is_empty() {
                prop_assert_eq!(stored(&filter), stored(&twin));
                prop_assert_eq!(filter.bytes(), twin.bytes());
            }
        }
    }

    /// Two servers that were told the same in another order would differ.
    #[test]
    fn bytes_do_not_depend_on_the_order(mut ids in vec(0..UNIVERSE, 1..100), seed: u64) {
        let all: Vec<_> = (0..UNIVERSE).collect();
        let mut filters = [0, 1].map(|_| {
            let mut filter = oracle::filter(oracle::spec(400, 0.01, reserved(2), 7));
            add(&mut filter, &items(&all));
            filter
        });
        except(&mut filters[0], &items(&ids));
        let turn = seed as usize % ids.len();
        ids.rotate_left(turn);
        for id in ids {
            except(&mut filters[1], &[item(id)]);
        }
        prop_assert_eq!(stored(&filters[0]), stored(&filters[1]));
        prop_assert_eq!(filters[0].bytes(), filters[1].bytes());
    }

    /// Bytes of any kind come from files and clients.
    #[test]
    fn damaged_streams_are_refused_or_sound(cut in 0..2000usize, at in 0..2000usize, value: u8, count in 1..40u32) {
        let mut filter = oracle::filter(oracle::spec(30, 0.05, reserved(2), 7));
        let all: Vec<_> = (0..50).collect();
        add(&mut filter, &items(&all));
        except(&mut filter, &items(&all[..count as usize]));
        let header = chunks::header(&filter);
        let mut damaged = header.clone();
        let place = at % damaged.len();
        damaged[place] = value;
        if cut < 500 {
            damaged.truncate(cut);
        }
        if let Ok(loaded) = chunks::load_header(&damaged, &at_most(1 << 28)) {
            // The bits of the filter are still to come.
            let sound = matches!(loaded.validate_composed(), Ok(()) | Err(Invalid::Fill { .. }));
            prop_assert!(sound);
            // The layers' set bits are counted anew.
            let header = chunks::header(&loaded);
            let exceptions = header.len() - 16 * loaded.exceptions() as usize;
            prop_assert_eq!(&header[..48], &damaged[..48]);
            prop_assert_eq!(&header[exceptions..], &damaged[exceptions..]);
        }
    }
}

/// Who plans memory by the figures would have too little.
#[test]
fn exceptions_are_counted_in_the_bytes() {
    let mut filter = oracle::filter(oracle::spec(10_000, 0.01, reserved(2), 7));
    let all: Vec<_> = (0..5000).collect();
    add(&mut filter, &items(&all));
    let before = filter.bytes();
    for count in [1, 2, 10, 100, 1000, 4000] {
        except(&mut filter, &items(&all[..count]));
        let more = filter.bytes() - before;
        assert_eq!(more, exceptions::bytes(count));
        let held = held(&filter);
        // The filter's own struct is its owner's.
        assert!(
            held + FEWER_TAGS + FILTER_BYTES >= filter.bytes(),
            "{held} {}",
            filter.bytes()
        );
        if count >= 10 {
            let own = more - size_of::<Exceptions>() as u64;
            assert!(own as f64 / count as f64 <= 41.0, "{count}: {own}");
        }
    }
    assert_eq!(except(&mut filter, &items(&all[..4000])), vec![false; 4000]);
}

/// Who excepts many items for a day would pay for the room of all of them until the last one is added again.
#[test]
fn what_is_added_again_gives_its_memory_back() {
    let mut filter = oracle::filter(oracle::spec(10_000, 0.01, reserved(2), 7));
    let all = items(&(0..5000).collect::<Vec<_>>());
    add(&mut filter, &all);
    let before = held(&filter);
    except(&mut filter, &all);
    assert_eq!(held(&filter) + FEWER_TAGS, before + exceptions::bytes(5000));
    let again = add(&mut filter, &all[1..]);
    assert_eq!(again, [true; 4999]);
    assert_eq!((filter.exceptions(), filter.contains(&all[0])), (1, false));
    assert_eq!(held(&filter) + FEWER_TAGS, before + exceptions::bytes(1));
}

/// A client that names one item ten thousand times would be told that the server has no memory for that one.
#[test]
fn an_item_that_is_named_often_takes_the_room_of_one() {
    let mut filter = oracle::filter(oracle::spec(100, 0.01, reserved(2), 7));
    let all = items(&[1, 2]);
    add(&mut filter, &all);
    let layers = filter.bytes();
    for (count, item) in [(1, &all[0]), (2, &all[1])] {
        let often = vec![item.as_slice(); 10_000];
        let most = at_most(layers + exceptions::bytes(count));
        assert_eq!(filter.except(often.into_iter(), &most, |_, _| ()), Ok(()));
        assert_eq!(filter.exceptions(), count as u64);
    }
}

/// A limit that counted the layers alone would let exceptions take all memory; and what was asked must not be half done.
#[test]
fn exceptions_are_held_against_limits() {
    let mut filter = oracle::filter(oracle::spec(10_000, 0.01, reserved(2), 7));
    let all = items(&(0..1000).collect::<Vec<_>>());
    add(&mut filter, &all);
    let some = || all[..100].iter().map(Vec::as_slice);
    let most = filter.bytes() + exceptions::bytes(100);
    let refused = filter.except(some(), &at_most(most - 1), |_, _| panic!("nothing is excepted"));
    let over = Error::OverLimit {
        bytes: most,
        limit: most - 1,
    };
    assert_eq!(refused, Err(ExceptError::Memory(over)));
    assert_eq!(filter.exceptions(), 0);
    filter.except(some(), &at_most(most), |_, _| ()).unwrap();
    assert_eq!((filter.exceptions(), filter.bytes()), (100, most));

    // A layer that grows beside them is asked for with them.
    let mut last = 0;
    let full = filter.bytes() + 20_000;
    let mut number = 0u32;
    loop {
        let limit = at_most(full);
        number += 1;
        match filter.add(&number.to_be_bytes(), 0, &limit) {
            Ok(_) => last = filter.bytes(),
            Err(Error::OverLimit { bytes, .. }) => {
                assert!(bytes > full && last <= full);
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    let classic = ClassicSpec::new(0.01, 100, 2, true).unwrap();
    let mut classic = Filter::new(Spec::Classic(classic), UNLIMITED).unwrap();
    classic.add(b"a", 0, UNLIMITED).unwrap();
    let refused = classic.except([&b"a"[..]].into_iter(), UNLIMITED, |_, _| ());
    assert_eq!(refused, Err(ExceptError::Foreign));
    assert!(classic.contains(b"a"));
}

/// A server that is out of memory must answer so, with the filter as it was.
#[test]
fn without_memory_nothing_is_excepted() {
    let mut filter = oracle::filter(oracle::spec(1000, 0.01, reserved(2), 7));
    let all = items(&(0..500).collect::<Vec<_>>());
    add(&mut filter, &all);
    except(&mut filter, &all[..100]);
    let before = stored(&filter);
    let asked = || all.iter().map(Vec::as_slice);
    let refused = failing::after(0, Shortage::Lasting, || {
        filter.except(asked(), UNLIMITED, |_, _| ())
    });
    assert!(
        matches!(refused, Err(ExceptError::Memory(Error::OutOfMemory { .. }))),
        "{refused:?}"
    );
    assert_eq!(stored(&filter), before);
    let (header, mut source) = (chunks::header(&filter), before.clone());
    let ends = [
        failing::above(1000, || chunks::copy(&filter, UNLIMITED).map(|_| ())),
        failing::above(1000, || chunks::load_header(&header, UNLIMITED).map(|_| ())),
        failing::above(1000, || {
            codec::load(&mut source, ENCODING_VERSION, UNLIMITED).map(|_| ())
        }),
    ];
    for end in ends {
        assert!(matches!(end, Err(DecodeError::OutOfMemory { .. })), "{end:?}");
    }
    let dumped = failing::above(1000, || chunks::dump(&filter, 0).map(|_| ()));
    assert!(matches!(dumped, Err(Error::OutOfMemory { .. })), "{dumped:?}");
}

/// An item that is added while the chunks of a filter are still on their way would be denied, because the header says that
/// it is excepted.
#[test]
fn an_exception_that_is_there_before_its_bits_ends_with_the_addition() {
    let mut original = oracle::filter(oracle::spec(100, 0.01, reserved(2), 7));
    add(&mut original, &items(&[1, 2, 4]));
    except(&mut original, &items(&[1, 2]));
    let mut filter = chunks::load_header(&chunks::header(&original), UNLIMITED).unwrap();
    assert_eq!(filter.exceptions(), 2);
    assert_eq!(add(&mut filter, &items(&[1, 3])), [true, true]);
    assert_eq!(filter.exceptions(), 1);
    for chunk in chunks::chunks(&original).skip(1) {
        chunks::load_chunk(&mut filter, chunk.iterator, &chunk.bytes).unwrap();
    }
    let found = contains_batch(&filter, &items(&[1, 2, 3, 4]));
    assert_eq!(found, [true, false, true, true]);
}

/// Users would be told that an item of a window is gone, and find it again: its bits go with their slice, and nothing
/// else would remember that it was excepted.
#[test]
fn filters_with_a_window_have_no_exceptions() {
    let spec = BlockedSpec {
        window: Some(Window::new(60, 4, false).unwrap()),
        ..oracle::spec(100, 0.01, reserved(2), 7)
    };
    let mut filter = oracle::filter(spec);
    filter.insert_at(&item(1), 1000).unwrap();
    let before = stored(&filter);
    let refused = filter.except([&item(1)[..]].into_iter(), UNLIMITED, |_, _| ());
    assert_eq!(refused, Err(ExceptError::Window));
    assert_eq!(stored(&filter), before);
    // Nor does a header bring them.
    let mut header = chunks::header(&filter);
    header[40] = 1;
    header.extend([1; 16]);
    let refused = chunks::load_header(&header, UNLIMITED).map(|_| ());
    assert_eq!(refused, Err(DecodeError::Field("exceptions")));
}

/// More would not fit into the header of a dumped filter.
#[test]
fn exceptions_have_a_limit() {
    // What would be too many is told before anything is done; the number is that of a huge claim.
    let mut filter = oracle::filter(oracle::spec(10, 0.01, reserved(2), 7));
    add(&mut filter, &items(&[1]));
    except(&mut filter, &items(&[1]));
    let mut header = chunks::header(&filter);
    for exceptions in [0, 2, exceptions::MOST_EXCEPTIONS as u32, u32::MAX] {
        header[40..44].copy_from_slice(&exceptions.to_le_bytes());
        let refused = chunks::load_header(&header, UNLIMITED).err();
        assert_eq!(refused, Some(DecodeError::Field("header length")));
    }
}
