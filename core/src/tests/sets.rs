//! Filters as sets: the laws of unions and intersections, over filters of every kind.

use proptest::collection::vec;
use proptest::prelude::*;

use super::oracle::{self, add_batch, contains_batch, growing, item, load, reserved, stored};
use crate::chain::{MOST_ITEMS, MOST_LAYERS, at_most};
use crate::codec::chunks;
use crate::exceptions;
use crate::params::{ErrorRate, Growth, Layout, Window};
use crate::sets::{Mismatch, SetError};
use crate::spec::{BlockedSpec, ClassicSpec, Spec};
use crate::tests::failing::{self, Shortage};
use crate::{Error, Filter, UNLIMITED};

fn items(ids: impl IntoIterator<Item = u32>) -> Vec<Vec<u8>> {
    ids.into_iter().map(item).collect()
}

/// [`filled`], for a capacity, a rate and a growth.
fn of(capacity: u64, rate: f64, growth: Growth, ids: impl IntoIterator<Item = u32>) -> Filter {
    filled(oracle::spec(capacity, rate, growth, 7), ids)
}

/// A filter of all of the items that it has room for.
fn filled(spec: BlockedSpec, ids: impl IntoIterator<Item = u32>) -> Filter {
    with(oracle::filter(spec), ids)
}

fn with(mut filter: Filter, ids: impl IntoIterator<Item = u32>) -> Filter {
    let (_, end) = add_batch(&mut filter, &items(ids));
    assert!(matches!(end, Ok(()) | Err(Error::Full { .. })));
    filter
}

fn classic(capacity: u64, scales: bool, ids: impl IntoIterator<Item = u32>) -> Filter {
    let spec = ClassicSpec::new(0.01, capacity, 2, scales).unwrap();
    with(Filter::new(Spec::Classic(spec), UNLIMITED).unwrap(), ids)
}

fn except(filter: &mut Filter, ids: impl IntoIterator<Item = u32>) {
    let items = items(ids);
    let items = items.iter().map(Vec::as_slice);
    filter.except(items, UNLIMITED, |_, _| ()).unwrap();
}

/// The bit arrays, oldest first.
fn arrays(filter: &Filter) -> Vec<Vec<u8>> {
    chunks::chunks(filter)
        .skip(1)
        .map(|chunk| chunk.bytes.into_owned())
        .collect()
}

fn found(filter: &Filter, ids: impl IntoIterator<Item = u32>) -> bool {
    contains_batch(filter, &items(ids)).into_iter().all(|found| found)
}

fn rates(filter: &Filter) -> f64 {
    filter.layer_stats().map(|layer| layer.shape.error_rate).sum()
}

fn union(sources: &[&Filter]) -> Result<Filter, SetError> {
    Filter::union(sources, None, UNLIMITED)
}

/// A union at whatever rate it takes, as who reads the error would ask for it.
fn union_at_any_rate(sources: &[&Filter]) -> Option<Filter> {
    match union(sources) {
        Ok(union) => Some(union),
        Err(SetError::Rate { enough, .. }) => {
            let union = Filter::union(sources, Some(enough?), UNLIMITED);
            Some(union.expect("the rate that was named does"))
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// A filter of any kind, with items from a range; of one seed.
fn any_filter() -> impl Strategy<Value = Filter> {
    let growth = prop_oneof![
        Just(Growth::Fixed),
        Just(reserved(2)),
        Just(reserved(1)),
        Just(growing(2)),
    ];
    let capacity = prop::sample::select(vec![1u64, 20, 100, 300]);
    let rate = prop::sample::select(vec![0.001, 0.01, 0.05]);
    (growth, capacity, rate, 0..600u32, 0..400u32)
        .prop_map(|(growth, capacity, rate, from, count)| of(capacity, rate, growth, from..from + count))
}

/// The numbers of the known items that the filter contains.
fn members(filter: &Filter) -> Vec<u32> {
    let answers = contains_batch(filter, &items(0..1000));
    (0..1000).filter(|&id| answers[id as usize]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A worker's items would be missing in the whole, or the promise of the whole would not hold, or it could be
    /// saved and never loaded again.
    #[test]
    fn a_union_finds_all_items_and_keeps_its_rate(sources in vec(any_filter(), 1..5)) {
        let sources: Vec<_> = sources.iter().collect();
        let Some(mut union) = union_at_any_rate(&sources) else { return Ok(()) };
        for source in &sources {
            prop_assert!(found(&union, members(source)));
        }
        prop_assert!(rates(&union) <= union.error_rate() * (1.0 + 1e-9));
        prop_assert_eq!(union.validate_composed(), Ok(()));
        prop_assert_eq!(stored(&load(&stored(&union)).unwrap()), stored(&union));
        prop_assert_eq!(stored(&chunks::copy(&union, UNLIMITED).unwrap()), stored(&union));
        let most = sources.iter().map(|source| source.items()).max().unwrap_or(0);
        let sum: u64 = sources.iter().map(|source| source.items()).sum();
        // Where a layer has all bits of another one by chance, its items are counted once.
        prop_assert!((most - most / 10..=sum).contains(&union.items()), "{} of {} to {}", union.items(), most, sum);

        // In place it is the same filter.
        let mut absorbing = chunks::copy(sources[0], UNLIMITED).unwrap();
        let before = stored(&absorbing);
        let rate = ErrorRate::new(union.error_rate()).unwrap();
        let changed = absorbing.absorb(&sources[1..], Some(rate), UNLIMITED).unwrap();
        prop_assert_eq!(stored(&absorbing), stored(&union));
        prop_assert_eq!(changed, stored(&absorbing) != before);
        // Once more it changes nothing.
        prop_assert_eq!(absorbing.absorb(&sources, None, UNLIMITED), Ok(false));
        prop_assert_eq!(stored(&absorbing), stored(&union));

        // The union goes on as a filter: it takes items if it may grow, within its rate.
        let may_grow = union.expansion().is_some();
        let (_, end) = add_batch(&mut union, &items(2000..2300));
        prop_assert_eq!(end.is_ok() || !may_grow, true);
        if may_grow {
            prop_assert!(found(&union, 2000..2300));
        }
        prop_assert!(rates(&union) <= union.error_rate() * (1.0 + 1e-9));
        prop_assert_eq!(union.validate_composed(), Ok(()));
        prop_assert_eq!(stored(&load(&stored(&union)).unwrap()), stored(&union));
    }

    /// Eight workers would not give what one gives.
    #[test]
    fn filters_of_one_shape_unite_to_the_filter_that_got_all(
        capacity in prop::sample::select(vec![600u64, 1000, 5000]),
        rate in prop::sample::select(vec![0.2, 0.01, 1e-5]),
        growth in prop::sample::select(vec![Growth::Fixed, reserved(2), growing(3)]),
        parts in vec((0..500u32, 0..200u32), 3),
    ) {
        let make = |ids: &mut dyn Iterator<Item = u32>| of(capacity, rate, growth, ids);
        let ranges: Vec<_> = parts.iter().map(|&(from, count)| from..from + count).collect();
        let workers: Vec<_> = ranges.iter().map(|range| make(&mut range.clone())).collect();
        let all = make(&mut ranges.iter().cloned().flatten());
        let [a, b, c] = [&workers[0], &workers[1], &workers[2]];
        let abc = union(&[a, b, c]).unwrap();
        prop_assert_eq!(arrays(&abc), arrays(&all));
        prop_assert_eq!(abc.layers(), 1);
        // The count is an estimate; it is exact where nothing is in several parts.
        let off = abc.items().abs_diff(all.items()) as f64;
        prop_assert!(off <= 3.0 + 0.06 * all.items() as f64, "{} for {}", abc.items(), all.items());
        // Commutative, also in what it counts.
        for order in [[a, c, b], [b, a, c], [c, b, a]] {
            prop_assert_eq!(stored(&union(&order).unwrap()), stored(&abc));
        }
        // Associative.
        let (ab, bc) = (union(&[a, b]).unwrap(), union(&[b, c]).unwrap());
        prop_assert_eq!(arrays(&union(&[&ab, c]).unwrap()), arrays(&abc));
        prop_assert_eq!(arrays(&union(&[a, &bc]).unwrap()), arrays(&abc));
        // Idempotent.
        prop_assert_eq!(stored(&union(&[&abc, &abc, a]).unwrap()), stored(&abc));
        prop_assert_eq!(stored(&union(&[a]).unwrap()), stored(a));
        prop_assert_eq!(abc.validate(), Ok(()));
    }

    /// Who asks what two lists have in common would miss some of it.
    #[test]
    fn an_intersection_finds_what_is_common(
        capacity in prop::sample::select(vec![300u64, 1000]),
        growth in prop::sample::select(vec![Growth::Fixed, reserved(2)]),
        parts in vec((0..300u32, 0..200u32), 1..5),
    ) {
        let sources: Vec<_> =
            parts.iter().map(|&(from, count)| of(capacity, 0.01, growth, from..from + count)).collect();
        let sources: Vec<_> = sources.iter().collect();
        let common = Filter::intersection(&sources, UNLIMITED).unwrap();
        for id in 0..1000 {
            let in_all = sources.iter().all(|source| source.contains(&item(id)));
            prop_assert_eq!(common.contains(&item(id)), in_all, "{}", id);
        }
        let least = sources.iter().map(|source| source.items()).min().unwrap();
        prop_assert!(common.items() <= least);
        prop_assert_eq!(common.validate(), Ok(()));
        prop_assert_eq!(stored(&load(&stored(&common)).unwrap()), stored(&common));
    }

    /// An exception would come back, or hide what another filter has.
    #[test]
    fn exceptions_follow_their_filters(
        a in (0..50u32, 60..120u32), b in (0..50u32, 60..120u32),
        of_a in vec(0..150u32, 0..40), of_b in vec(0..150u32, 0..40),
    ) {
        let make = |(from, to): (u32, u32), excepted: &[u32]| {
            let mut filter = of(1000, 1e-6, reserved(2), from..to);
            except(&mut filter, excepted.iter().copied());
            filter
        };
        let (a, b) = (make(a, &of_a), make(b, &of_b));
        let either = union(&[&a, &b]).unwrap();
        let both = Filter::intersection(&[&a, &b], UNLIMITED).unwrap();
        for id in 0..200 {
            let [in_a, in_b] = [&a, &b].map(|filter| filter.contains(&item(id)));
            prop_assert_eq!(either.contains(&item(id)), in_a || in_b, "{}", id);
            prop_assert_eq!(both.contains(&item(id)), in_a && in_b, "{}", id);
        }
        let mut absorbing = chunks::copy(&a, UNLIMITED).unwrap();
        let changed = absorbing.absorb(&[&b], None, UNLIMITED).unwrap();
        prop_assert_eq!(stored(&absorbing), stored(&either));
        prop_assert_eq!(changed, stored(&a) != stored(&either));
        for filter in [&either, &both, &absorbing] {
            prop_assert_eq!(filter.validate(), Ok(()));
        }
        prop_assert_eq!(stored(&union(&[&b, &a]).unwrap()), stored(&either));
    }
}

/// BF.CARD of a union would be of no use. The estimate is off by the spread of set bits, which for these sizes is
/// below a hundredth.
#[test]
fn the_count_of_a_union_is_that_of_its_items() {
    for (capacity, rate) in [(10_000, 0.01), (10_000, 0.2), (200_000, 0.001), (10_000, 1e-8)] {
        for part in [1, 2, 4] {
            let each = capacity as u32 / 32 * part * 2;
            let spec = oracle::spec(capacity, rate, reserved(2), 7);
            let sources: Vec<_> = (0..4u32)
                .map(|source| {
                    let mut filter = oracle::filter(spec);
                    // Half of each is in the next one too.
                    let ids = source * each / 2..source * each / 2 + each;
                    filter
                        .add_all(
                            ids.map(u32::to_be_bytes)
                                .collect::<Vec<_>>()
                                .iter()
                                .map(|id| &id[..]),
                            0,
                            UNLIMITED,
                            |_| (),
                        )
                        .unwrap();
                    filter
                })
                .collect();
            let union = union(&sources.iter().collect::<Vec<_>>()).unwrap();
            let mut all = oracle::filter(spec);
            let ids: Vec<_> = (0..each / 2 * 3 + each).map(u32::to_be_bytes).collect();
            all.add_all(ids.iter().map(|id| &id[..]), 0, UNLIMITED, |_| ())
                .unwrap();
            assert_eq!(arrays(&union), arrays(&all));
            let off = union.items() as f64 / all.items() as f64 - 1.0;
            assert!(off.abs() < 0.01, "{capacity} at {rate}, {each} each: {off}");
        }
    }
}

/// The rate that was promised for the whole would not hold.
#[test]
fn the_rate_of_a_union_is_measured() {
    let probes = 400_000u32;
    for (sources, expected_layers) in [
        // Eight workers, and the whole fills the layer.
        (
            (0..8u32)
                .map(|worker| of(8000, 0.01, reserved(2), worker * 1000..worker * 1000 + 1000))
                .collect::<Vec<_>>(),
            1,
        ),
        // Full layers that cannot be united stay beside each other.
        (
            (0..3u32)
                .map(|part| of(2000, 0.01, Growth::Fixed, part * 2000..part * 2000 + 2000))
                .collect(),
            3,
        ),
        // Grown chains.
        (
            (0..2u32)
                .map(|part| of(500, 0.02, growing(2), part * 3000..part * 3000 + 3000))
                .collect(),
            6,
        ),
    ] {
        let sources: Vec<_> = sources.iter().collect();
        let union = union_at_any_rate(&sources).unwrap();
        assert_eq!(union.layers(), expected_layers);
        let promise = union.error_rate();
        let mut hits = 0;
        let absent: Vec<_> = (0..probes)
            .map(|id| (u64::from(id) << 32 | 0xabcd).to_le_bytes())
            .collect();
        union.contains_all(absent.iter().map(|item| &item[..]), 0, |found| {
            hits += u32::from(found);
        });
        let measured = f64::from(hits) / f64::from(probes);
        let error = (promise / f64::from(probes)).sqrt();
        assert!(measured <= promise + 3.0 * error, "{measured} of {promise}");
        assert!(
            measured >= promise / 4.0,
            "{measured} of {promise}: the promise says nothing"
        );
    }
}

/// An intersection would find more than its sources promise.
#[test]
fn the_rate_of_an_intersection_is_measured() {
    let spec = oracle::spec(20_000, 0.01, reserved(2), 7);
    let (a, b) = (filled(spec, 0..20_000), filled(spec, 15_000..35_000));
    let common = Filter::intersection(&[&a, &b], UNLIMITED).unwrap();
    let share = |filter: &Filter, ids: std::ops::Range<u32>| {
        let count = ids.len() as f64;
        contains_batch(filter, &items(ids))
            .into_iter()
            .filter(|&found| found)
            .count() as f64
            / count
    };
    let largest = share(&a, 100_000..200_000).max(share(&b, 100_000..200_000));
    let measured = share(&common, 100_000..200_000);
    assert!(measured <= largest, "{measured} of {largest}");
    // In one of them only.
    assert!(share(&common, 0..15_000) < 0.013);
    assert!(found(&common, 15_000..20_000));
}

/// A client would learn nothing from a refusal, or the destination be half changed by it.
#[test]
fn what_does_not_go_together_is_refused_by_name() {
    let own = of(100, 0.01, reserved(2), 0..50);
    let other_seed = filled(oracle::spec(100, 0.01, reserved(2), 8), 0..50);
    let larger = of(200, 0.01, reserved(2), 0..50);
    let grown = of(100, 0.01, reserved(2), 0..150);
    let redis_blooms = classic(100, true, 0..50);
    let valkey = oracle::spec(100, 0.01, reserved(2), 7).in_layout(Layout::Valkey);
    let valkey_blooms = with(Filter::new(valkey.unwrap(), UNLIMITED).unwrap(), 0..50);
    let window = Window::new(60, 8, false).unwrap();
    let windowed = oracle::filter(BlockedSpec {
        window: Some(window),
        ..oracle::spec(100, 0.01, reserved(2), 7)
    });
    let refusals = [
        (&other_seed, Mismatch::Seed),
        (&redis_blooms, Mismatch::Layout),
        (&valkey_blooms, Mismatch::Layout),
        (&windowed, Mismatch::Layout),
    ];
    for (source, why) in refusals {
        if why != Mismatch::Seed {
            let mut target = chunks::copy(source, UNLIMITED).unwrap();
            let refused = target.absorb(&[&own], None, UNLIMITED);
            assert_eq!(refused, Err(SetError::Destination { why }));
            let refused = Err(SetError::Source { index: 0, why });
            assert_eq!(union(&[source]).map(|_| ()), refused);
            assert_eq!(
                Filter::intersection(&[source, &own], UNLIMITED).map(|_| ()),
                refused
            );
        }
        let refused = Err(SetError::Source { index: 1, why });
        assert_eq!(union(&[&own, source]).map(|_| ()), refused);
        assert_eq!(
            Filter::intersection(&[&own, source], UNLIMITED).map(|_| ()),
            refused
        );
        let mut target = chunks::copy(&own, UNLIMITED).unwrap();
        assert_eq!(
            target.absorb(&[&own, source], None, UNLIMITED).map(|_| ()),
            refused
        );
        assert_eq!(stored(&target), stored(&own));
    }
    for (index, sources) in [(1, [&own, &larger]), (1, [&own, &grown]), (0, [&grown, &own])] {
        let refused = Filter::intersection(&sources, UNLIMITED).map(|_| ());
        assert_eq!(
            refused,
            Err(SetError::Source {
                index,
                why: Mismatch::Shape
            })
        );
    }
    let [reserved_for, another] = [10_000, 20_000].map(|capacity| of(capacity, 0.01, reserved(2), 0..50));
    // 1.6 % in two layers of a filter that may grow, which has 90 % of its rate for two.
    let Err(SetError::Rate {
        sum,
        enough: Some(enough),
    }) = union(&[&reserved_for, &another])
    else {
        panic!("two layers of 0.8 % are above 1 %")
    };
    assert!(sum > 0.012 && sum <= 0.016, "{sum}");
    assert!(
        (0.0..0.01).contains(&(enough.value() * 0.9 / sum - 1.0)),
        "{enough:?}"
    );
    let tighter = ErrorRate::new(enough.value() * 0.99).unwrap();
    assert!(Filter::union(&[&reserved_for, &another], Some(tighter), UNLIMITED).is_err());
    let union_of_both = Filter::union(&[&reserved_for, &another], Some(enough), UNLIMITED).unwrap();
    assert_eq!(union_of_both.error_rate(), enough.value());
    let loose: Vec<_> = (1..5u64)
        .map(|part| of(100 * part, 0.25, Growth::Fixed, 0..1))
        .collect();
    let refused = union(&loose.iter().collect::<Vec<_>>()).map(|_| ());
    assert!(
        matches!(refused, Err(SetError::Rate { enough: None, .. })),
        "{refused:?}"
    );
}

/// A merged filter would be lost at the next restart, because its layers do not follow from one another.
#[test]
fn layers_that_do_not_follow_are_stored() {
    let rate = ErrorRate::new(0.05).unwrap();
    for growth in [reserved(2), Growth::Fixed] {
        let parts = [of(350, 0.01, growth, 40..90), of(100, 0.01, growth, 0..50)];
        let merged = Filter::union(&[&parts[0], &parts[1]], Some(rate), UNLIMITED).unwrap();
        let capacities: Vec<_> = merged.layer_stats().map(|layer| layer.shape.capacity).collect();
        assert_eq!(capacities, [100, 350]);
        let loaded = load(&stored(&merged)).unwrap();
        assert!(found(&loaded, 0..90));
        assert_eq!(
            (loaded.growth(), stored(&loaded)),
            (Some(growth), stored(&merged))
        );
    }
}

/// A merge would say that it changed the filter when nothing came in, and a replica that sees no merge would differ.
#[test]
fn layers_of_one_filter_are_not_united_with_each_other() {
    let part = |items| of(100, 0.01, Growth::Fixed, items);
    let rate = Some(ErrorRate::new(0.1).unwrap());
    let mut twins = stored(&Filter::union(&[&part(0..100), &part(100..160)], rate, UNLIMITED).unwrap());
    // The second layer becomes the first one, which is the fuller one.
    let header = oracle::header_of(&mut twins);
    let layer = header[48..96].to_vec();
    header[96..144].copy_from_slice(&layer);
    twins.values[4] = twins.values[3].clone();
    let mut twins = load(&twins).unwrap();
    let before = stored(&twins);
    assert_eq!(twins.absorb(&[&part(0..100)], None, UNLIMITED), Ok(false));
    assert_eq!(stored(&twins), before);
    let other = of(350, 0.001, Growth::Fixed, 1000..1010);
    assert_eq!(twins.absorb(&[&other], None, UNLIMITED), Ok(true));
    assert_eq!(twins.layers(), 3);
    assert!(found(&twins, 1000..1010));
}

/// A filter that may take no more than can be counted would be lost to every merge, or counts would wrap.
#[test]
fn capacities_of_a_union_sum_to_what_can_be_counted() {
    let stream = stored(&of(1000, 0.01, Growth::Fixed, 0..10));
    let largest = load(&oracle::with_header(&stream, 48, &MOST_ITEMS.to_le_bytes())).unwrap();
    assert_eq!(stored(&union(&[&largest]).unwrap()), stored(&largest));
    let other = of(1, 0.001, Growth::Fixed, 0..1);
    let refused = union(&[&largest, &other]).map(|_| ());
    let capacity = MOST_ITEMS + 1;
    assert_eq!(refused, Err(SetError::Memory(Error::Full { capacity })));
}

/// Without memory, or beyond a limit, the filters must be as they were.
#[test]
fn a_union_is_whole_or_nothing() {
    let (a, b) = (
        of(1000, 0.01, reserved(2), 0..500),
        of(3000, 0.01, reserved(2), 0..2000),
    );
    let rate = Some(ErrorRate::new(0.05).unwrap());
    let whole = Filter::union(&[&a, &b], rate, UNLIMITED).unwrap();
    let limit = whole.bytes() - 1;
    let over = Err(SetError::Memory(Error::OverLimit {
        bytes: whole.bytes(),
        limit,
    }));
    assert_eq!(Filter::union(&[&a, &b], rate, &at_most(limit)).map(|_| ()), over);
    let mut target = chunks::copy(&a, UNLIMITED).unwrap();
    assert_eq!(target.absorb(&[&b], rate, &at_most(limit)).map(|_| ()), over);
    assert_eq!(stored(&target), stored(&a));
    target.absorb(&[&b], rate, &at_most(limit + 1)).unwrap();
    assert_eq!(stored(&target), stored(&whole));
    // What is new is the layer that could not be united, and the longer list.
    let mut target = chunks::copy(&a, UNLIMITED).unwrap();
    let new = std::cell::Cell::new(0);
    let asked = |demand: crate::Demand| {
        new.set(demand.new);
        Ok(())
    };
    target.absorb(&[&b], rate, &asked).unwrap();
    assert_eq!(new.get(), whole.bytes() - a.bytes());
    // The first thing that takes memory is the list of the sources, two words for each.
    let refused = failing::after(0, Shortage::Lasting, || union(&[&a, &b]).map(|_| ()));
    let bytes = 2 * size_of::<usize>() as u64;
    assert_eq!(refused, Err(SetError::Memory(Error::OutOfMemory { bytes })));
    // The plan takes small blocks; the layer is the large one.
    let layer = b.layer_stats().next().unwrap().shape.bytes as usize;
    let mut target = chunks::copy(&a, UNLIMITED).unwrap();
    let refused = failing::above(layer - 1, || target.absorb(&[&b], rate, UNLIMITED));
    assert!(
        matches!(refused, Err(SetError::Memory(Error::OutOfMemory { .. }))),
        "{refused:?}"
    );
    assert_eq!(stored(&target), stored(&a));
}

/// On a server that has no memory left, a day's filter could not even be merged into one that has room for its items.
#[test]
fn a_merge_that_only_sets_bits_asks_for_no_memory() {
    let spec = oracle::spec(1000, 0.01, Growth::Fixed, 7);
    let (mut target, day) = (filled(spec, 0..300), filled(spec, 200..500));
    let nothing_new = |_: crate::Demand| Err(crate::Limit::Bytes(0));
    assert_eq!(target.absorb(&[&day], None, &nothing_new), Ok(true));
    // Exceptions that stay are no new ones either.
    let mut target = filled(spec, 0..900);
    except(&mut target, 0..100);
    let day = filled(spec, 850..950);
    assert_eq!(target.absorb(&[&day], None, &nothing_new), Ok(true));
    // What is new is their table.
    let more = {
        let mut more = filled(spec, 960..970);
        except(&mut more, 960..970);
        more
    };
    let table = exceptions::bytes(110);
    let only_the_table = |demand: crate::Demand| {
        if demand.new <= table {
            Ok(())
        } else {
            Err(crate::Limit::Bytes(0))
        }
    };
    assert_eq!(target.absorb(&[&more], None, &only_the_table), Ok(true));
    assert_eq!(target.exceptions(), 110);
}

/// Layers of a shape that only the other filters have would stay apart, or be merged into a layer of another size.
#[test]
fn layers_that_only_others_have_are_united() {
    let small = of(1000, 0.01, reserved(2), 0..500);
    let [b, c] = [0..300, 200..600].map(|ids| of(3000, 0.01, reserved(2), ids));
    let rate = Some(ErrorRate::new(0.05).unwrap());
    let mut target = chunks::copy(&small, UNLIMITED).unwrap();
    assert_eq!(target.absorb(&[&b, &c], rate, UNLIMITED), Ok(true));
    assert_eq!(target.layers(), 2);
    assert!(found(&target, 0..600));
    let whole = Filter::union(&[&small, &b, &c], rate, UNLIMITED).unwrap();
    assert_eq!(stored(&target), stored(&whole));
}

/// Each merge would make a filter larger whose layers have room for what comes, if only their counts said that they
/// have not.
#[test]
fn a_layer_goes_where_the_bits_say_that_it_fits() {
    let spec = oracle::spec(1000, 0.001, reserved(2), 7);
    let rate = Some(ErrorRate::new(0.01).unwrap());
    let [a, b, c] = [0..900, 2000..2900, 2050..2950].map(|ids| filled(spec, ids));
    let two = Filter::union(&[&a, &b], rate, UNLIMITED).unwrap();
    assert_eq!(two.layers(), 2);
    // Together they count 1,800 items, and have 950.
    let merged = Filter::union(&[&two, &c], rate, UNLIMITED).unwrap();
    assert_eq!(merged.layers(), 2);
    assert!(found(&merged, (0..900).chain(2000..2950)));
}

/// A merge that is refused in the end would first take memory that it may not have: with millions of exceptions,
/// what the server has left.
#[test]
fn exceptions_are_asked_for_before_they_are_gathered() {
    let excepting = |ids: std::ops::Range<u32>| {
        let mut filter = of(5000, 0.01, reserved(2), ids.clone());
        except(&mut filter, ids);
        filter
    };
    let (mut a, b) = (excepting(0..1000), excepting(1000..2000));
    let limit = a.bytes();
    assert!(exceptions::bytes(2000) > limit);
    let merged = failing::above(limit as usize, || {
        Filter::union(&[&a, &b], None, &at_most(limit)).map(|_| ())
    });
    let common = failing::above(limit as usize, || {
        Filter::intersection(&[&a, &a, &b], &at_most(limit)).map(|_| ())
    });
    let before = stored(&a);
    let absorbed = failing::above(limit as usize, || {
        a.absorb(&[&b], None, &at_most(limit)).map(|_| ())
    });
    for refused in [merged, absorbed] {
        assert!(
            matches!(refused, Err(SetError::Memory(Error::OverLimit { limit: at, .. })) if at == limit),
            "{refused:?}"
        );
    }
    assert_eq!(common, Ok(()));
    assert_eq!(stored(&a), before);
    let whole = union(&[&a, &b]).unwrap().bytes();
    let merged = Filter::union(&[&a, &b], None, &at_most(whole - 1)).map(|_| ());
    let absorbed = a.absorb(&[&b], None, &at_most(whole - 1)).map(|_| ());
    for refused in [merged, absorbed] {
        assert!(
            matches!(refused, Err(SetError::Memory(Error::OverLimit { limit, .. })) if limit == whole - 1),
            "{refused:?}"
        );
    }
    a.absorb(&[&b], None, &at_most(whole)).unwrap();
    assert_eq!(a.bytes(), whole);
}

/// A server that is short of memory would end in the middle of a merge, or keep half of it.
#[test]
fn a_union_that_there_is_no_memory_for_changes_nothing() {
    let other = of(50, 0.0001, Growth::Fixed, 1000..1005);
    let rate = Some(ErrorRate::new(0.2).unwrap());
    // With 150 layers the largest block that is asked for is the plan's. A list of 144 layers has no room for one more,
    // and a longer list is larger than the plan.
    let refused = [150, 144].map(|layers| {
        let spec = oracle::spec(1, 0.01, growing(1), 7);
        let items = (layers as u32..)
            .find(|&items| filled(spec, 0..items).layers() == layers)
            .unwrap();
        let mut refused = 0;
        for most in (1000..13_000).step_by(250) {
            let mut filter = filled(spec, 0..items);
            let before = stored(&filter);
            match failing::above(most, || filter.absorb(&[&other], rate, UNLIMITED)) {
                Ok(changed) => {
                    assert!(changed && found(&filter, (0..items).chain(1000..1005)));
                    assert_eq!(filter.validate_composed(), Ok(()));
                }
                Err(error) => {
                    refused += 1;
                    let is_memory = matches!(error, SetError::Memory(Error::OutOfMemory { .. }));
                    assert!(is_memory, "{error:?}");
                    assert_eq!(stored(&filter), before, "{most} bytes");
                }
            }
        }
        refused
    });
    assert!(
        0 < refused[0] && refused[0] < refused[1] && refused[1] < 48,
        "{refused:?}"
    );
}

/// Replicas of other versions would have the layers in another order, and grow others from then on.
#[test]
fn equal_layers_stay_in_the_order_in_which_they_came() {
    for growth in [Growth::Fixed, reserved(2)] {
        let parts: Vec<_> = (0..240u32)
            .map(|part| {
                let capacity = [20, 30, 20][part as usize % 3];
                let room = part % 4;
                let spec = oracle::spec(capacity.into(), 1e-5, growth, 7);
                let filter = filled(spec, part * 100..part * 100 + capacity - room);
                let order = (if growth == Growth::Fixed { 0 } else { capacity }, room);
                (order, filter)
            })
            .collect();
        let sources: Vec<_> = parts.iter().map(|(_, filter)| filter).collect();
        let united = Filter::union(&sources, Some(ErrorRate::new(0.2).unwrap()), UNLIMITED).unwrap();
        let mut expected: Vec<_> = parts
            .iter()
            .map(|(order, filter)| (order, arrays(filter)))
            .collect();
        expected.sort_by_key(|(order, _)| **order);
        let expected: Vec<_> = expected.into_iter().flat_map(|(_, arrays)| arrays).collect();
        assert!(arrays(&united) == expected, "{growth:?}");
    }
}

/// A filter that is emptied for the next day would be another one, or keep some of the last.
#[test]
fn an_emptied_filter_is_a_new_one() {
    let window = BlockedSpec {
        window: Some(Window::new(60, 8, true).unwrap()),
        ..oracle::spec(100, 0.01, reserved(2), 7)
    };
    let (new, used) = (oracle::filter(window), with(oracle::filter(window), 0..90));
    assert!(new.emptied(UNLIMITED).unwrap().is_none());
    assert_eq!(stored(&used.emptied(UNLIMITED).unwrap().unwrap()), stored(&new));
    for spec in [
        oracle::spec(100, 0.01, Growth::Fixed, 7),
        oracle::spec(100, 0.25, reserved(2), 7),
        oracle::spec(1, 1e-9, growing(1), 7),
    ] {
        let new = oracle::filter(spec);
        assert!(new.emptied(UNLIMITED).unwrap().is_none());
        let mut used = with(oracle::filter(spec), 0..90);
        assert_eq!(stored(&used.emptied(UNLIMITED).unwrap().unwrap()), stored(&new));
        except(&mut used, 0..1);
        let emptied = used.emptied(UNLIMITED).unwrap().unwrap();
        assert_eq!((stored(&emptied), emptied.bytes()), (stored(&new), new.bytes()));
    }
    for scales in [true, false] {
        let new = classic(100, scales, []);
        assert!(new.emptied(UNLIMITED).unwrap().is_none());
        let used = classic(100, scales, 0..if scales { 300 } else { 50 });
        assert_eq!(stored(&used.emptied(UNLIMITED).unwrap().unwrap()), stored(&new));
    }
    let used = of(100_000, 0.01, reserved(2), 0..10);
    let refused = failing::above(10_000, || used.emptied(UNLIMITED).map(|_| ()));
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
}

/// Whoever may restore a payload of a few bytes could take 8 GiB with one word more: its layer says that it is for
/// many items, and has few bits.
#[test]
fn a_forged_filter_is_not_emptied_to_more_than_it_may_take() {
    let spec = oracle::spec(100, 0.01, reserved(2), 7);
    let forged = oracle::with_header(&stored(&filled(spec, 0..10)), 48, &(1u64 << 36).to_le_bytes());
    let forged = load(&forged).unwrap();
    let limit = at_most(1 << 20);
    assert!(matches!(
        forged.emptied(&limit),
        Err(Error::OverLimit { limit: 0x10_0000, .. })
    ));
    // One that has bits and counts no items, as chunks of a forged header make it, is not as new.
    let uncounted = oracle::with_header(&stored(&filled(spec, 0..10)), 56, &0u64.to_le_bytes());
    let emptied = load(&uncounted).unwrap().emptied(UNLIMITED).unwrap();
    assert_eq!(stored(&emptied.unwrap()), stored(&oracle::filter(spec)));
    // The emptied filter is as large as before, so no limit refuses it.
    let emptied = filled(spec, 0..10).emptied(&at_most(1)).unwrap();
    assert!(emptied.is_some());
}

/// The next day's items would go into a long chain, or be refused: what is emptied would be made for the smallest part.
#[test]
fn what_came_together_is_emptied_to_its_largest_part() {
    let rate = Some(ErrorRate::new(0.05).unwrap());
    for growth in [Growth::Fixed, reserved(2)] {
        let parts = [100, 3000, 500].map(|capacity| of(capacity, 0.01, growth, 0..50));
        let merged = Filter::union(&[&parts[0], &parts[1], &parts[2]], rate, UNLIMITED).unwrap();
        let emptied = merged.emptied(UNLIMITED).unwrap().unwrap();
        let new = oracle::filter(oracle::spec(3000, 0.05, growth, 7));
        assert_eq!(stored(&emptied), stored(&new));
        assert!(emptied.emptied(UNLIMITED).unwrap().is_none());
    }
}

/// A filter that may not grow would refuse items although it has room.
#[test]
fn room_is_not_lost_behind_a_full_layer() {
    let rate = Some(ErrorRate::new(0.05).unwrap());
    for (growth, full, roomy) in [
        (Growth::Fixed, 1000, 1000),
        (Growth::Fixed, 3000, 1000),
        (reserved(2), 1000, 1000),
    ] {
        let full = of(full, 0.02, growth, 0..4000);
        let mut filter = of(roomy, 0.01, growth, 5000..5500);
        filter.absorb(&[&full], rate, UNLIMITED).unwrap();
        let layers = filter.layers();
        let (_, end) = add_batch(&mut filter, &items(10_000..10_400));
        assert_eq!((end, filter.layers()), (Ok(()), layers), "{growth:?}");
    }
}

/// A merge that is sent again would make the filter larger each time; or change the order of its layers on the primary
/// alone, since a command that changes nothing is not propagated: the replica would put the next items elsewhere.
#[test]
fn what_is_merged_again_changes_nothing() {
    let rate = Some(ErrorRate::new(0.2).unwrap());
    let full = |part: u32| of(100, 0.001, Growth::Fixed, part * 1000..part * 1000 + 100);
    let part = |from: u32, count: u32| of(100, 0.001, Growth::Fixed, from..from + count);
    let many: Vec<_> = (0..150).map(full).collect();
    let few = vec![part(0, 15), part(100, 7), part(200, 80)];
    let two = vec![part(0, 90), part(1000, 50)];
    for sources in [many, few, two] {
        let sources: Vec<_> = sources.iter().collect();
        let mut filter = Filter::union(&sources, rate, UNLIMITED).unwrap();
        for round in 0..3 {
            let before = stored(&filter);
            assert_eq!(filter.absorb(&sources, rate, UNLIMITED), Ok(false));
            assert_eq!(filter.absorb(&sources[..1], None, UNLIMITED), Ok(false));
            assert!(stored(&filter) == before);
            // The last layer gets less room than the one before it.
            let _ = add_batch(&mut filter, &items(round * 45 + 200_000..round * 45 + 200_045));
        }
    }
}

/// One command with a filter named a thousand times, or thousands of full ones, would stop the server.
#[test]
fn sources_that_come_again_are_read_once() {
    let spec = oracle::spec(20_000, 0.01, reserved(2), 7);
    let (a, b) = (filled(spec, 0..15_000), filled(spec, 20_000..35_000));
    let rate = Some(ErrorRate::new(0.05).unwrap());
    let twice = Filter::union(&[&b, &a], rate, UNLIMITED).unwrap();
    let mut sources = vec![&b];
    sources.extend(std::iter::repeat_n(&a, 100_000));
    let often = Filter::union(&sources, rate, UNLIMITED).unwrap();
    assert_eq!(stored(&often), stored(&twice));
    // The place of one that does not go is that in the list.
    let other = filled(oracle::spec(20_000, 0.01, reserved(2), 8), 0..1);
    let refused = Filter::union(&[&a, &a, &other], rate, UNLIMITED).map(|_| ());
    let why = Mismatch::Seed;
    assert_eq!(refused, Err(SetError::Source { index: 2, why }));
}

/// A hundred servers' filters of mostly the same visitors would become a chain: more memory, slower questions, and a
/// higher rate than the one filter has that got all.
#[test]
fn many_filters_that_fit_into_one_become_one() {
    let spec = oracle::spec(50_000, 0.01, Growth::Fixed, 7);
    let sources: Vec<_> = (0..100u32)
        .map(|server| {
            filled(
                spec,
                (0..10_000).chain(1_000_000 + server * 300..1_000_300 + server * 300),
            )
        })
        .collect();
    let sources: Vec<_> = sources.iter().collect();
    let union = union(&sources).unwrap();
    assert_eq!(union.layers(), 1);
    assert!(found(&union, (0..10_000).chain(1_000_000..1_030_000)));
}

/// A query of the whole would ask thousands of layers, and the merge compare each with each of the others for minutes,
/// while the server stands still.
#[test]
fn no_union_has_more_layers_than_a_filter_grows_to() {
    let spec = oracle::spec(1, 0.2, reserved(1), 7);
    let filters = [600, MOST_LAYERS, MOST_LAYERS + 1, 600].map(|layers| {
        let mut filter = oracle::filter(spec);
        let mut number = 0u64;
        while filter.layers() < layers {
            number += 1;
            filter
                .add(&(number << 16 | layers as u64).to_be_bytes(), 0, UNLIMITED)
                .unwrap();
        }
        filter
    });
    let [some, most, too_many, again] = &filters;
    let refused = Err(SetError::Memory(Error::TooManyLayers { most: MOST_LAYERS }));
    for sources in [vec![some, most], vec![too_many], vec![some, too_many]] {
        assert_eq!(union(&sources).map(|_| ()), refused);
    }
    // Layers that are one in the union count once.
    for sources in [vec![most], vec![some, again], vec![most, most]] {
        let united = union(&sources).unwrap();
        assert_eq!(united.layers(), sources[0].layers());
        assert_eq!(united.validate_composed(), Ok(()));
    }
}

/// Who unites the filters of two programs would have to make both for one number of items.
#[test]
fn filters_of_any_two_sizes_are_united_and_say_at_which_rate() {
    let rate = |filter: &Filter| filter.error_rate();
    for (one, other) in [(100, 1000), (1000, 100), (100, 100_000), (300, 300), (1000, 1001)] {
        let made = |capacity: u64, first: u32| {
            let mut filter = Filter::builder(capacity, 0.01).seed(7).build().unwrap();
            add_batch(&mut filter, &items(first..first + capacity as u32))
                .1
                .unwrap();
            filter
        };
        let (mut all, added) = (made(one, 0), made(other, 1 << 20));
        let expected = match all.absorb(&[&added], None, UNLIMITED) {
            Err(SetError::Rate { enough, .. }) => enough.unwrap().value(),
            kept => kept.map(|_| 0.01).unwrap(),
        };
        let mut all = made(one, 0);
        assert!(all.union_with(&added).unwrap());
        assert_eq!(rate(&all), expected, "{one} and {other}");
        assert!(found(&all, 0..one as u32) && found(&all, 1 << 20..(1 << 20) + other as u32));
        assert!(rates(&all) <= rate(&all), "{} of {}", rates(&all), rate(&all));
        assert!(rate(&all) < 0.02, "{one} and {other}: {}", rate(&all));
        all.validate_composed().unwrap();
        assert!(!all.union_with(&added).unwrap(), "the same again changes nothing");
        assert_eq!(rate(&all), expected);
    }
    let wrong_too_often = |capacity| Filter::builder(capacity, 0.25).seed(7).build().unwrap();
    let refused = wrong_too_often(100).union_with(&wrong_too_often(1000));
    assert!(
        matches!(refused, Err(SetError::Rate { enough: None, .. })),
        "{refused:?}"
    );
}
