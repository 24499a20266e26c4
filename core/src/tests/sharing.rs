//! What is shared: the secret of a seed by filters, and a filter by threads that read it.

use std::thread;

use crate::codec::chunks;
use crate::layouts::blocked::secret::Secret;
use crate::params::{Layout, Seed, Window};
use crate::spec::BlockedSpec;
use crate::tests::oracle::{self, add_batch, contains_batch, filter, growing, item, stored};
use crate::{Filter, UNLIMITED};

/// A seed that only the first test uses: others run at the same time, in the same process.
const SEED: u64 = 0x5eed_0f5b_a2e1_5e00;

/// MEMORY USAGE would count a shared secret once for each of a million filters, or never.
#[test]
fn the_last_filter_of_a_seed_has_its_secret_for_itself() {
    let spec = oracle::spec(100, 0.01, growing(2), SEED);
    let window = Some(Window::new(60, 8, false).unwrap());
    let excepting = || {
        let mut filter = filter(spec);
        filter.add(b"item", 0, UNLIMITED).unwrap();
        filter
            .except([&b"item"[..]].into_iter(), UNLIMITED, |_, _| ())
            .unwrap();
        assert_eq!(filter.exceptions(), 1);
        filter
    };
    let kinds: [(&str, &dyn Fn() -> Filter); 3] = [
        ("blocked", &|| filter(spec)),
        ("window", &|| {
            let mut filter = filter(BlockedSpec { window, ..spec });
            filter.add(b"item", 0, UNLIMITED).unwrap();
            filter
        }),
        ("exceptions", &excepting),
    ];
    for (name, make) in kinds {
        for (other_name, make_other) in kinds {
            let first = make();
            assert_eq!(first.unshared(), Secret::BYTES, "{name} alone");
            let second = make_other();
            for filter in [&first, &second] {
                assert_eq!(filter.unshared(), 0, "{name} and {other_name}");
            }
            let copy = chunks::copy(&second, UNLIMITED).unwrap();
            drop(first);
            assert_eq!(second.unshared(), 0, "{other_name} and its copy");
            drop(second);
            assert_eq!(copy.unshared(), Secret::BYTES, "the copy of {other_name}");
        }
        // A filter with another seed, and a holder of the secret for future filters.
        let first = make();
        let other = filter(oracle::spec(100, 0.01, growing(2), SEED + 1));
        assert_eq!(first.unshared(), Secret::BYTES, "{name}");
        assert_eq!(other.unshared(), Secret::BYTES);
        let held = Secret::of(Seed(SEED));
        assert_eq!(first.unshared(), 0, "{name}");
        drop(held);
        assert_eq!(first.unshared(), Secret::BYTES, "{name}");
    }
    for layout in [Layout::Classic, Layout::Valkey] {
        let foreign = filter(spec.in_layout(layout).unwrap());
        assert_eq!(foreign.unshared(), 0, "{layout:?} has no secret");
    }
    // Two counters before the 200 bytes of the secret, and the entry in the table.
    assert_eq!(Secret::BYTES, 16 + 200 + 32);
}

/// A server that saves without a fork, by a thread of its own, would store another filter than clients see, or end.
#[test]
fn a_filter_is_saved_by_one_thread_while_another_queries_it() {
    let spec = oracle::spec(100, 0.01, growing(2), SEED + 2);
    let layout = |layout| spec.in_layout(layout).unwrap();
    let window = BlockedSpec {
        window: Some(Window::new(1_000_000, 8, false).unwrap()),
        ..spec
    };
    for (spec, exceptions) in [
        (spec.into(), 0),
        (layout(Layout::Classic), 0),
        (layout(Layout::Valkey), 0),
        (window.into(), 0),
        (spec.into(), 100),
    ] {
        let mut filter = filter(spec);
        let items: Vec<_> = (0..2000).map(item).collect();
        assert_eq!(add_batch(&mut filter, &items).1, Ok(()));
        if exceptions > 0 {
            let excepted = items[..exceptions].iter().map(Vec::as_slice);
            filter.except(excepted, UNLIMITED, |_, _| ()).unwrap();
        }
        let (saved, answers) = (stored(&filter), contains_batch(&filter, &items));
        assert!(answers[exceptions..].iter().all(|&found| found));
        let (items_in_it, rate) = (filter.items(), filter.estimated_error_rate());
        thread::scope(|scope| {
            let saving = scope.spawn(|| {
                for _ in 0..20 {
                    assert!(stored(&filter) == saved, "{spec:?}");
                }
            });
            while !saving.is_finished() {
                assert!(contains_batch(&filter, &items) == answers, "{spec:?}");
                assert!(filter.contains(&items[exceptions]), "{spec:?}");
                assert_eq!(
                    (filter.items(), filter.estimated_error_rate()),
                    (items_in_it, rate)
                );
            }
        });
    }
}
