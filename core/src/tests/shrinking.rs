//! Filters that are shrunk: no item is lost, the bits are those of a filter that was made smaller, and the rate holds.

use proptest::prelude::*;

use super::oracle::*;
use super::stored::{naive_array, numbered};
use crate::bits::kernel::Portable;
use crate::chain::batch::Layer as _;
use crate::chain::{Rules as _, at_most};
use crate::codec::chunks;
use crate::layers::Layers;
use crate::layouts::blocked::secret::Secret;
use crate::layouts::blocked::{Layer, Shape};
use crate::layouts::classic::Classic;
use crate::params::{Growth, Layout, Seed, Window};
use crate::shrinking::{MOST_COMPUTED, fold, folded_classic};
use crate::spec::BlockedSpec;
use crate::tests::crafted;
use crate::tests::failing::{self, Shortage};
use crate::tests::work::{self, Work};
use crate::{Error, Filter, Limit, ShrinkError, UNLIMITED};

fn items(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(item).collect()
}

/// The first capacity from this one on whose layer has a multiple of 48 lines at this rate.
fn divisible(capacity: u64, rate: f64, growth: Growth) -> BlockedSpec {
    let specs = (capacity..).map(|capacity| spec(capacity, rate, growth, 7));
    let mut divisible = specs.filter(|spec| planned(*spec).next().unwrap().geometry.lines.is_multiple_of(48));
    divisible.next().unwrap()
}

/// How many layers the filter had when each item was new, and nothing for an item that was not.
fn fill(filter: &mut Filter, items: &[Vec<u8>]) -> Vec<Option<usize>> {
    let add = |item: &Vec<u8>| {
        let new = filter.add(item, 0, UNLIMITED).is_ok_and(|new| new);
        new.then(|| filter.layers() - 1)
    };
    items.iter().map(add).collect()
}

/// What a filter keeps whatever is shrunk.
fn is_sound(filter: &Filter, items: &[Vec<u8>], rate: f64) {
    assert!(items.iter().all(|item| filter.contains(item)), "an item is lost");
    assert_eq!(filter.validate_composed(), Ok(()));
    assert!(filter.estimated_error_rate() <= rate * (1.0 + 1e-9));
    reloaded(filter);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Shrinking would lose items, or a replica that was made smaller would differ.
    #[test]
    fn a_shrunk_filter_has_the_bits_of_one_that_was_made_smaller(
        capacity in 1u64..20_000,
        rate in prop_oneof![0.001..0.3, Just(1e-9)],
        expansion in 0u32..5,
        growing: bool,
        count in 0u32..6000,
        wanted in prop_oneof![Just(0), 1u64..20_000],
        seed: u64,
    ) {
        let growth = match (expansion, growing) {
            (0, _) => Growth::Fixed,
            (_, true) => super::oracle::growing(expansion),
            (_, false) => reserved(expansion),
        };
        let spec = spec(capacity, rate, growth, seed);
        let mut filter = filter(spec);
        let mut all = items(count);
        let layers = fill(&mut filter, &all);
        all.retain(|item| filter.contains(item));
        let (before, held) = (filter.bytes(), filter.items());
        let (_, older) = chain(&filter).layers().split_last().unwrap();
        let older = older.iter().map(|layer| layer.items()).sum();
        let (mut fitted, mut roomless) = (filter.clone(), filter.clone());
        fitted.shrink_to(0).unwrap();
        roomless.shrink_to(older).unwrap();
        prop_assert!(roomless == fitted, "room for items that the older layers have");
        let freed = filter.shrink_to(wanted).unwrap();
        prop_assert_eq!(before - filter.bytes(), freed);
        is_sound(&filter, &all, spec.error_rate.value());
        prop_assert!(filter.totals().capacity >= wanted.min(held.max(100)).min(capacity));
        let secret = Secret::of(Seed(seed));
        for (index, layer) in chain(&filter).layers().iter().enumerate() {
            let mut naive = NaiveLayer::new(layer.shape());
            let of_layer = items(count).into_iter().zip(&layers).filter(|(_, at)| **at == Some(index));
            of_layer.for_each(|(item, _)| naive.add(&secret, &item));
            naive.items = layer.items();
            prop_assert!(naive.equals(layer), "layer {index}");
        }
        prop_assert_eq!(filter.shrink_to(wanted), Ok(0), "shrinking twice does no more than once");
        // It grows on, or is full.
        let more: Vec<_> = (count..count + 500).map(item).collect();
        fill(&mut filter, &more);
        all.extend(more.into_iter().filter(|item| filter.contains(item)));
        is_sound(&filter, &all, spec.error_rate.value());
    }

    /// Shrinking twice would not lead to where shrinking once leads.
    #[test]
    fn folding_in_steps_is_folding_at_once(lines in 1u64..60, a in 1u64..7, b in 1u64..7, count in 0u32..3000) {
        let shape = Shape::sized(3000, 0.001);
        let of_lines = |lines| {
            let mut shape = shape;
            shape.geometry.lines = lines;
            shape
        };
        let rules = spec(1, 0.1, Growth::Fixed, 1).rules();
        let mut whole = Layer::make(of_lines(lines * a * b)).unwrap();
        let mut small = Layer::make(of_lines(lines)).unwrap();
        for item in items(count) {
            let hash = crate::chain::batch::Hasher::hash(rules.hasher(), crate::Item::from(&item));
            whole.insert(Portable, hash);
            small.insert(Portable, hash);
        }
        let once = fold(&whole, of_lines(lines)).unwrap();
        let half: Layer = fold(&whole, of_lines(lines * b)).unwrap();
        let twice = fold(&half, of_lines(lines)).unwrap();
        prop_assert_eq!(once.array(), twice.array());
        prop_assert_eq!(once.array(), small.array());
    }

    /// Shrunk filters of RedisBloom would lose items, or RedisBloom would refuse them.
    #[test]
    fn a_shrunk_classic_filter_has_the_bits_of_a_smaller_one(
        capacity in 1u64..20_000,
        rate in prop_oneof![0.001..0.3, Just(1e-9), Just(0.99)],
        expansion in 0u32..5,
        count in 0u32..6000,
        wanted in prop_oneof![Just(0), 1u64..20_000],
    ) {
        let growth = if expansion == 0 { Growth::Fixed } else { reserved(expansion) };
        let spec = spec(capacity, rate, growth, 0).in_layout(Layout::Classic).unwrap();
        let mut filter = filter(spec);
        let mut all = items(count);
        let layers = fill(&mut filter, &all);
        all.retain(|item| filter.contains(item));
        let before = filter.bytes();
        let freed = filter.shrink_to(wanted).unwrap();
        prop_assert_eq!(before - filter.bytes(), freed);
        prop_assert!(all.iter().all(|item| filter.contains(item)));
        prop_assert_eq!(filter.validate(), Ok(()));
        reloaded(&filter);
        for (index, layer) in classic(&filter).layers().iter().enumerate() {
            let of_layer = items(count).into_iter().zip(&layers).filter(|(_, at)| **at == Some(index));
            let of_layer: Vec<_> = of_layer.map(|(item, _)| item).collect();
            let (shape, options) = (layer.shape(), classic(&filter).rules().options());
            let naive = naive_array(shape.bytes as usize, shape.modulus(), shape.probes, options, &of_layer);
            prop_assert!(naive == layer.array(), "layer {index}");
        }
        let more: Vec<_> = (count..count + 500).map(item).collect();
        fill(&mut filter, &more);
        all.extend(more.into_iter().filter(|item| filter.contains(item)));
        prop_assert!(all.iter().all(|item| filter.contains(item)));
        prop_assert_eq!(filter.validate(), Ok(()));
    }
}

fn classic(filter: &Filter) -> &crate::chain::Chain<Classic> {
    match &filter.layers {
        Layers::Classic(chain) => chain,
        _ => panic!("no classic chain"),
    }
}

/// A second command would fold a filter further, so that one that a script sends twice would cost twice as much. The bits
/// of these tell of fewer items once they are folded.
#[test]
fn what_is_folded_once_is_folded_as_far_as_it_goes() {
    for (capacity, rate, seed, count) in [
        (6654, 0.078_857_381_993_326_76, 16_770_384_307_808_728_231, 1103),
        (18_672, 0.203_925_680_923_468_5, 1, 4644),
    ] {
        let mut filter = filter(spec(capacity, rate, reserved(1), seed));
        fill(&mut filter, &items(count));
        assert!(filter.shrink_to_fit().unwrap() > 0);
        assert_eq!(filter.shrink_to_fit(), Ok(0));
    }
}

/// Filters of early versions of RedisBloom would be damaged.
#[test]
fn classic_filters_of_a_power_of_two_bits_are_halved() {
    let rules = Classic::stored(crate::layouts::classic::Options::new(4).unwrap(), 2);
    let first = crate::layouts::classic::Shape::sized(10_000, 0.01, rules.options());
    let mut filter = Filter::from(crate::chain::Chain::new((rules, first), UNLIMITED).unwrap());
    let all = numbered("a", 1000);
    fill(&mut filter, &all);
    assert!(filter.shrink_to_fit().unwrap() > 0);
    let shape = classic(&filter).layers()[0].shape();
    assert_eq!((first.n2, shape.n2), (17, 14));
    assert_eq!(filter.validate(), Ok(()));
    assert!(all.iter().all(|item| filter.contains(item)));
    let naive = naive_array(shape.bytes as usize, 1 << 14, shape.probes, rules.options(), &all);
    assert_eq!(naive, classic(&filter).layers()[0].array());
    // The earliest filters have bits that are no whole bytes, and stay as they are.
    let rules = Classic::stored(crate::layouts::classic::Options::new(0).unwrap(), 2);
    let mut odd = crate::layouts::classic::Shape::sized(
        10_000,
        0.01,
        crate::layouts::classic::Options::new(5).unwrap(),
    );
    odd.bits = (odd.capacity as f64 * odd.bits_per_item) as u64;
    assert_ne!(odd.bits, odd.bytes * 8);
    assert_eq!(folded_classic(&rules, odd, 1, &mut 0), None);
}

/// A filter that was made too large would answer wrongly more often than it may once it is shrunk.
#[test]
fn the_measured_rate_is_within_the_promise() {
    for (capacity, count) in [(1_000_000, 90_000_u32), (400_000, 130_000)] {
        for rate in [0.01, 0.001] {
            let mut filter = filter(divisible(capacity, rate, reserved(2)));
            let added: Vec<_> = (0..count).map(u32::to_le_bytes).collect();
            let (_, end) = add_batch(&mut filter, &added);
            assert_eq!(end, Ok(()));
            let before = filter.bytes();
            assert!(filter.shrink_to_fit().unwrap() >= before / 2);
            let absent: Vec<_> = (1 << 30..(1 << 30) + 400_000_u32).map(u32::to_le_bytes).collect();
            let found = contains_batch(&filter, &absent)
                .into_iter()
                .filter(|&found| found)
                .count();
            let expected = 400_000.0 * rate;
            assert!(
                (found as f64) < expected + 5.0 * expected.sqrt(),
                "{found} at {rate}"
            );
        }
    }
}

/// An empty filter would be folded to one line, and grow a layer after a few items.
#[test]
fn an_empty_filter_keeps_room_for_a_hundred_items() {
    for layout in [Layout::Blocked, Layout::Classic] {
        for growth in [Growth::Fixed, reserved(2), growing(2)] {
            let mut filter = filter(divisible(1 << 20, 0.01, growth).in_layout(layout).unwrap());
            assert!(filter.shrink_to_fit().unwrap() > 1 << 19);
            // A classic layer has 8 as a factor, at least.
            let most = if layout == Layout::Classic {
                1 << 17
            } else {
                60_000
            };
            assert!(
                (100..=most).contains(&filter.totals().capacity),
                "{:?}",
                filter.totals()
            );
            let mut small = super::oracle::filter(spec(50, 0.01, growth, 1).in_layout(layout).unwrap());
            assert_eq!(small.shrink_to_fit(), Ok(0));
        }
    }
}

/// A filter that may not grow would take more items than it has room for, or refuse them too early.
#[test]
fn a_fixed_filter_stays_fixed() {
    let mut filter = filter(divisible(1_000_000, 0.01, Growth::Fixed));
    fill(&mut filter, &items(10));
    filter.shrink_to(20_000).unwrap();
    let capacity = filter.totals().capacity;
    assert!((20_000..26_700).contains(&capacity), "{capacity}");
    let (_, end) = add_batch(&mut filter, &items(30_000));
    assert_eq!(end, Err(Error::Full { capacity }));
    assert_eq!((filter.layers(), filter.items()), (1, capacity));
}

/// A filter whose count of items is too low would exceed its rate, or lose what it knows.
#[test]
fn a_count_that_is_too_low_is_not_believed() {
    for layout in [Layout::Blocked, Layout::Classic] {
        let spec = spec(4000, 0.01, Growth::Fixed, 7).in_layout(layout).unwrap();
        let mut full = filter(spec);
        let all = items(3900);
        add_batch(&mut full, &all).1.unwrap();
        let mut header = chunks::header(&full);
        let at = match layout {
            Layout::Blocked => &[56][..],
            _ => &[0, 20 + 16][..],
        };
        for &at in at {
            header[at..at + 8].copy_from_slice(&1_u64.to_le_bytes());
        }
        let mut forged = chunks::load_header(&header, UNLIMITED).unwrap();
        for chunk in chunks::chunks(&full).skip(1) {
            chunks::load_chunk(&mut forged, chunk.iterator, &chunk.bytes).unwrap();
        }
        assert_eq!(forged.items(), 1);
        assert_eq!(forged.shrink_to_fit(), Ok(0), "{layout:?}");
        assert!(all.iter().all(|item| forged.contains(item)));
    }
}

/// A client could stop the server for seconds with a header of many layers, and again with each repetition.
#[test]
fn what_very_many_layers_cost_to_judge_is_bounded() {
    let foldable = crafted::Layer {
        capacity: 1 << 20,
        items: 0,
        rate: 1e-4,
        // With 108 factors, of which each could be tried.
        lines: 88_200,
        lines_per_item: 2,
        probes: 4,
    };
    // Each factor is tried, and fails.
    let stubborn = crafted::Layer {
        capacity: 99_999,
        items: 99,
        rate: 1e-8,
        lines: 240,
        lines_per_item: 1,
        probes: 2,
    };
    for (layer, layers, least_freed) in [(foldable, 60, 1), (stubborn, 200, 0), (stubborn, 20_000, 0)] {
        let header = crafted::composed((0..layers).map(|_| layer));
        let mut filter = chunks::load_header(&header, UNLIMITED).unwrap();
        let (work, freed) = work::of(Work::LineRates, || filter.shrink_to_fit());
        assert!(freed.unwrap() >= least_freed);
        assert!(
            work <= (layers as u64 * 3000).min(MOST_COMPUTED + 3000),
            "{layers}: {work}"
        );
    }
    // What is judged first is what a filter grows from.
    let layers = std::iter::repeat_n(stubborn, 20_000).chain([foldable]);
    let header = crafted::composed(layers.collect::<Vec<_>>().into_iter());
    let mut filter = chunks::load_header(&header, UNLIMITED).unwrap();
    assert!(filter.shrink_to_fit().unwrap() > 0);
}

/// A filter would be half folded, or take memory that it may not have.
#[test]
fn without_memory_nothing_changes() {
    for layout in [Layout::Blocked, Layout::Classic] {
        let mut filter = filter(spec(1 << 16, 0.01, reserved(2), 1).in_layout(layout).unwrap());
        fill(&mut filter, &items(300));
        let before = stored(&filter);
        let refused = filter.shrink(0, &|_| Err(Limit::Bytes(7)));
        assert!(matches!(
            refused,
            Err(ShrinkError::Memory(Error::OverLimit { limit: 7, .. }))
        ));
        for good in 0.. {
            let shrunk = failing::after(good, Shortage::Lasting, || filter.shrink(0, &at_most(1 << 12)));
            if shrunk.is_ok() {
                assert!(good > 1);
                break;
            }
            assert!(matches!(
                shrunk,
                Err(ShrinkError::Memory(Error::OutOfMemory { .. }))
            ));
            assert_eq!(stored(&filter), before);
        }
    }
}

/// A filter for four million items would not become the one for a million that a user expects.
#[test]
fn a_quarter_of_a_filter_is_the_filter_of_a_quarter() {
    for rate in [0.2, 0.01, 1e-6] {
        for growth in [Growth::Fixed, reserved(2)] {
            let mut large = filter(spec(4_800_000, rate, growth, 1));
            assert!(large.shrink_to(1_200_000).unwrap() > 0);
            assert_eq!(large.totals().capacity, 1_200_000, "{rate}");
            assert_eq!(large.validate(), Ok(()));
            reloaded(&large);
        }
    }
}

/// Exceptions would come back.
#[test]
fn exceptions_stay() {
    let mut filter = filter(spec(100_000, 0.01, reserved(2), 1));
    let all = items(1000);
    fill(&mut filter, &all);
    let out = all[..10].iter().map(Vec::as_slice);
    filter.except(out, UNLIMITED, |_, _| ()).unwrap();
    assert!(filter.shrink_to_fit().unwrap() > 0);
    assert!(!all[..10].iter().any(|item| filter.contains(item)));
    assert!(all[10..].iter().all(|item| filter.contains(item)));
    assert_eq!(filter.exceptions(), 10);
    reloaded(&filter);
}

/// Filters that cannot be shrunk would be damaged.
#[test]
fn other_filters_are_refused() {
    let window = Some(Window::new(100, 4, false).unwrap());
    let mut windowed = filter(BlockedSpec {
        window,
        ..spec(1000, 0.01, reserved(2), 1)
    });
    assert_eq!(windowed.shrink_to_fit(), Err(ShrinkError::Window));
    let mut valkey = filter(
        spec(1000, 0.01, reserved(2), 1)
            .in_layout(Layout::Valkey)
            .unwrap(),
    );
    assert_eq!(valkey.shrink_to(5), Err(ShrinkError::Layout));
}
