//! What filters have in common: the secret of a seed.

use crate::bloom::blocked::secret::Secret;
use crate::bloom::codec::chunks;
use crate::bloom::params::{Layout, Seed, Spec, Window};
use crate::bloom::tests::oracle::{self, filter, growing};
use crate::bloom::{Filter, UNLIMITED};

/// A seed of this test alone: others run at the same time, in the same process.
const SEED: u64 = 0x5eed_0f5b_a2e1_5e00;

/// MEMORY USAGE would count a secret for each of a million filters that share it, or for none where there is one.
#[test]
fn the_last_filter_of_a_seed_has_its_secret_for_itself() {
    let spec = oracle::spec(100, 0.01, growing(2), SEED);
    let window = Some(Window::new(60, 8, false).unwrap());
    let excepting = |spec: Spec| {
        let mut filter = filter(spec);
        filter.add(b"item", UNLIMITED).unwrap();
        filter
            .except([&b"item"[..]].into_iter(), UNLIMITED, |_, _| ())
            .unwrap();
        assert!(matches!(filter, Filter::Excepting(_)));
        filter
    };
    let kinds: [(&str, &dyn Fn() -> Filter); 4] = [
        ("blocked", &|| filter(spec)),
        ("window", &|| filter(Spec { window, ..spec })),
        ("exceptions", &|| excepting(spec)),
        ("exceptions in a window", &|| excepting(Spec { window, ..spec })),
    ];
    for (name, make) in kinds {
        for (other_name, make_other) in kinds {
            let first = make();
            assert_eq!(first.unshared(), Some(Secret::UNSHARED), "{name} alone");
            let second = make_other();
            for filter in [&first, &second] {
                assert_eq!(filter.unshared(), None, "{name} and {other_name}");
            }
            let copy = chunks::copy(&second, UNLIMITED).unwrap();
            drop(first);
            assert_eq!(second.unshared(), None, "{other_name} and its copy");
            drop(second);
            assert_eq!(
                copy.unshared(),
                Some(Secret::UNSHARED),
                "the copy of {other_name}"
            );
        }
        // One of another seed, and who holds the secret for filters to come.
        let first = make();
        let other = filter(oracle::spec(100, 0.01, growing(2), SEED + 1));
        assert_eq!(first.unshared(), Some(Secret::UNSHARED), "{name}");
        assert_eq!(other.unshared(), Some(Secret::UNSHARED));
        let held = Secret::of(Seed(SEED));
        assert_eq!(first.unshared(), None, "{name}");
        drop(held);
        assert_eq!(first.unshared(), Some(Secret::UNSHARED), "{name}");
    }
    for layout in [Layout::Classic, oracle::VALKEY] {
        let foreign = filter(Spec { layout, ..spec });
        assert_eq!(foreign.unshared(), None, "{layout:?} has no secret");
    }
    // The block has two counters before the key of 200 bytes.
    assert_eq!(Secret::UNSHARED.block.bytes, 16 + 200);
    assert_eq!(Secret::UNSHARED.block.align, 8);
}
