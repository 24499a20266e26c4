//! The laws of a filter, on random filters and random items, against a set and against [`oracle`].

use std::cell::Cell;
use std::collections::HashSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::oracle::*;
use crate::bits::kernel::{Kernel, Portable, Work};
use crate::chain::batch::{AddMany, AddOne, Block, ContainsMany, Layer as _, Subset};
use crate::chain::list::List;
use crate::chain::{Demand, Rules as _, UNLIMITED};
use crate::layouts::blocked::Layer;
use crate::params::{Growth, Layout};
use crate::spec::BlockedSpec;
use crate::{Error, Filter};

/// A step of a filter's history, with items as numbers.
#[derive(Clone, Debug)]
enum Step {
    Single(u32),
    Batch(Vec<u32>),
}

impl Step {
    fn items(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Single(id) => vec![item(*id)],
            Self::Batch(ids) => ids.iter().copied().map(item).collect(),
        }
    }

    /// Runs the step. Returns the answers, and the error that ended it.
    fn run(&self, filter: &mut Filter) -> (Vec<bool>, Result<(), Error>) {
        match self {
            Self::Single(id) => match filter.add(&item(*id), 0, UNLIMITED) {
                Ok(new) => (vec![new], Ok(())),
                Err(error) => (vec![], Err(error)),
            },
            Self::Batch(_) => add_batch(filter, &self.items()),
        }
    }
}

fn rates() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => 0.001..0.25,
        1 => Just(0.9),
        1 => (1i32..30).prop_map(|exponent| 10f64.powi(-exponent)),
    ]
}

fn growths() -> impl Strategy<Value = Growth> {
    prop_oneof![
        1 => Just(Growth::Fixed),
        2 => (1u32..=4).prop_map(reserved),
        3 => (1u32..=4).prop_map(growing),
    ]
}

fn specs() -> impl Strategy<Value = BlockedSpec> {
    let capacities = prop_oneof![1u64..=8, 9u64..=200, 201u64..=3000];
    (capacities, rates(), growths(), any::<u64>())
        .prop_map(|(capacity, rate, growth, seed)| spec(capacity, rate, growth, seed))
}

/// Steps with items below `universe`, few enough that many are repeated.
fn steps(universe: u32) -> impl Strategy<Value = Vec<Step>> {
    let lengths = select(vec![0usize, 1, 2, 63, 64, 65, 128, 200, 1000]);
    let batch = lengths.prop_flat_map(move |length| prop::collection::vec(0..universe, length));
    let step = prop_oneof![(0..universe).prop_map(Step::Single), batch.prop_map(Step::Batch)];
    prop::collection::vec(step, 0..12)
}

/// A filter's spec, and steps that make it grow to some twenty layers at most.
fn histories() -> impl Strategy<Value = (BlockedSpec, Vec<Step>)> {
    specs().prop_flat_map(|spec| {
        let universe = (spec.capacity.items() * 20).min(6000) as u32;
        (Just(spec), steps(universe))
    })
}

/// The layers that a given kernel makes from a history, whatever the fastest kernel is.
fn layers_by<K: Kernel>(kernel: K, spec: BlockedSpec, steps: &[Step]) -> List<Layer> {
    let rules = spec.rules();
    let mut layers = List::from(vec![Layer::make(rules.first(spec.capacity.items())).unwrap()]);
    use crate::chain::batch::Layer as _;
    let mut grow =
        |layers: &mut List<Layer>| layers.push(Layer::make(rules.next(layers.iter().map(Layer::shape))?)?);
    for step in steps {
        let items = step.items();
        let _may_be_full = match step {
            Step::Single(_) => {
                let hash = rules.hasher().hash(&items[0]);
                if let [layer] = &mut layers[..]
                    && layer.items() < layer.capacity()
                {
                    layer.insert(kernel, hash);
                    continue;
                }
                AddOne {
                    layers: &mut layers,
                    hash,
                    grow: &mut grow,
                }
                .run(kernel)
                .map(|_| ())
            }
            Step::Batch(_) => AddMany {
                layers: &mut layers,
                hasher: rules.hasher(),
                items: items.iter().map(Vec::as_slice),
                added: |_, _: &Block| (),
                grow: &mut grow,
            }
            .run(kernel),
        };
    }
    layers
}

/// The answers of a kernel for a batch of `items`. Single queries must agree.
fn found_by<K: Kernel>(kernel: K, filter: &Filter, items: &[Vec<u8>]) -> Vec<bool> {
    let (layers, hasher) = (chain(filter).layers(), chain(filter).rules().hasher());
    let mut answers = Vec::new();
    ContainsMany {
        layers: layers.iter().rev(),
        hasher,
        items: items.iter().map(Vec::as_slice),
        found: |found: Subset, block: &Block| answers.extend((0..block.count).map(|at| found.has(at))),
    }
    .run(kernel);
    for (item, &answer) in items.iter().zip(&answers) {
        let hash = hasher.hash(item);
        assert_eq!(Layer::any_contains(layers.iter().rev(), kernel, hash), answer);
        let mut each = layers.iter().map(|layer| layer.contains(kernel, hash));
        assert_eq!(each.any(|found| found), answer);
    }
    answers
}

fn same_bits(filter: &Filter, layers: &[Layer]) -> bool {
    use crate::chain::batch::Layer as _;
    let figures = |layer: &Layer| (layer.shape(), layer.items(), layer.bits().ones());
    chain(filter)
        .layers()
        .iter()
        .map(figures)
        .eq(layers.iter().map(figures))
        && (chain(filter).layers().iter())
            .zip(layers)
            .all(|(a, b)| a.bits().bits() == b.bits().bits())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A filter would deny an item that a user had added: the one thing it must never do.
    #[test]
    fn an_added_item_is_always_found((spec, steps) in histories()) {
        let mut filter = filter(spec);
        let mut added = HashSet::new();
        for step in &steps {
            let items = step.items();
            let (answers, _) = step.run(&mut filter);
            // A full filter ends a batch; the items before the failure were added.
            added.extend(items.into_iter().take(answers.len()));
        }
        let added: Vec<_> = added.into_iter().collect();
        for item in &added {
            prop_assert!(filter.contains(item));
        }
        prop_assert!(contains_batch(&filter, &added).iter().all(|&found| found));
    }

    /// Stored bytes would differ from the documentation of the format, and nobody else could read them.
    #[test]
    fn a_filter_answers_as_the_naive_one_and_has_its_bits((spec, steps) in histories()) {
        let (mut filter, mut naive) = (filter(spec), Naive::new(spec));
        for step in &steps {
            let (answers, end) = step.run(&mut filter);
            let items = step.items();
            let expected: Vec<_> = items.iter().map_while(|item| naive.add(item)).collect();
            prop_assert_eq!(end.is_ok(), expected.len() == items.len());
            prop_assert_eq!(answers, expected);
        }
        prop_assert_eq!(filter.items(), naive.items());
        let layers = chain(&filter).layers();
        prop_assert_eq!(layers.len(), naive.layers.len());
        prop_assert!(naive.layers.iter().zip(layers).all(|(naive, layer)| naive.equals(layer)));
        let probes: Vec<_> = (0..2000).map(item).collect();
        let expected: Vec<_> = probes.iter().map(|item| naive.contains(item)).collect();
        prop_assert_eq!(&contains_batch(&filter, &probes), &expected);
        for (probe, expected) in probes.iter().zip(expected) {
            prop_assert_eq!(filter.contains(probe), expected);
        }
    }

    /// A replica that gets items one by one would differ from a primary that got a batch, and BF.ADD in a loop would
    /// differ from BF.MADD.
    #[test]
    fn a_filter_grown_by_batches_is_stored_as_one_grown_item_by_item((spec, steps) in histories()) {
        let (mut by_batch, mut by_item) = (filter(spec), filter(spec));
        for step in &steps {
            let (answers, end) = step.run(&mut by_batch);
            let mut single_answers = Vec::new();
            let mut single_end = Ok(());
            for item in step.items() {
                match by_item.add(&item, 0, UNLIMITED) {
                    Ok(new) => single_answers.push(new),
                    Err(error) => {
                        single_end = Err(error);
                        break;
                    }
                }
            }
            prop_assert_eq!((answers, end), (single_answers, single_end));
        }
        prop_assert!(stored(&by_batch) == stored(&by_item));
    }

    /// A filter would forget items when it moves to a machine with another processor.
    #[test]
    fn every_kernel_leaves_the_same_bits((spec, steps) in histories()) {
        let mut filter = filter(spec);
        for step in &steps {
            let _may_be_full = step.run(&mut filter);
        }
        let probes: Vec<_> = (0..1000).map(item).collect();
        let expected = contains_batch(&filter, &probes);
        prop_assert!(same_bits(&filter, &layers_by(Portable, spec, &steps)));
        prop_assert_eq!(&found_by(Portable, &filter, &probes), &expected);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(vector) = crate::bits::kernel::Vector::detected() {
            prop_assert!(same_bits(&filter, &layers_by(vector, spec, &steps)));
            prop_assert_eq!(&found_by(vector, &filter, &probes), &expected);
        }
    }

    /// BF.CARD and BF.INFO would report wrong figures, and filters would grow at wrong times.
    #[test]
    fn counts_are_what_was_answered_and_what_is_set((spec, steps) in histories()) {
        let mut filter = filter(spec);
        let mut new = 0;
        for step in &steps {
            new += step.run(&mut filter).0.into_iter().filter(|&new| new).count() as u64;
            prop_assert_eq!(filter.validate(), Ok(()));
        }
        let totals = filter.totals();
        let layers = chain(&filter).layers();
        prop_assert_eq!(filter.items(), new);
        prop_assert_eq!(totals.items, new);
        prop_assert_eq!(totals.layers, layers.len());
        let recounted: usize = layers.iter().map(|layer| layer.bits().bits().count_ones()).sum();
        prop_assert_eq!(totals.bits_set, recounted as u64);
        let bits: usize = layers.iter().map(|layer| layer.bits().bits().len()).sum();
        prop_assert_eq!(totals.bits, bits as u64);
        let capacities = planned(spec).take(layers.len()).map(|shape| shape.capacity);
        prop_assert_eq!(totals.capacity, capacities.sum::<u64>());
        prop_assert!(filter.estimated_error_rate() <= spec.error_rate.value() * (1.0 + 1e-9));
        prop_assert_eq!(filter.layer_stats().map(|layer| layer.items).sum::<u64>(), new);
    }

    /// An item that is given twice in one BF.MADD would be reported as new twice, and counted twice.
    #[test]
    fn a_duplicate_in_a_batch_is_not_new(
        capacity in 1u64..500,
        growth in growths().prop_filter("grows", |growth| *growth != Growth::Fixed),
        ids in prop::collection::vec(0u32..100, 1..300),
    ) {
        let mut filter = filter(spec(capacity, 1e-20, growth, 1));
        let items: Vec<_> = ids.iter().copied().map(item).collect();
        let (answers, end) = add_batch(&mut filter, &items);
        prop_assert_eq!(end, Ok(()));
        let mut met = HashSet::new();
        let expected: Vec<_> = ids.iter().map(|&id| met.insert(id)).collect();
        prop_assert_eq!(answers, expected);
        prop_assert_eq!(filter.items(), met.len() as u64);
    }

    /// BF.INSERT into a full NONSCALING filter would lose items that it confirmed, or accept more than its capacity.
    #[test]
    fn a_full_fixed_filter_ends_a_batch_at_the_first_item_without_room(
        capacity in 1u64..300,
        before in 0u32..400,
        batch in 0u32..400,
    ) {
        let mut filter = filter(spec(capacity, 1e-20, Growth::Fixed, 2));
        let full = Err(Error::Full { capacity });
        let room = capacity as u32;
        for id in 0..before {
            let expected = if id < room { Ok(true) } else { full.map(|()| false) };
            prop_assert_eq!(filter.add(&item(id), 0, UNLIMITED), expected);
        }
        // First an item that is there already, if there is one; it needs no room.
        let known = before.min(1);
        let ids: Vec<_> = (0..known).chain(before..before + batch).collect();
        let items: Vec<_> = ids.iter().copied().map(item).collect();
        let (answers, end) = add_batch(&mut filter, &items);
        let fit = batch.min(room.saturating_sub(before));
        prop_assert_eq!(end, if fit < batch { full } else { Ok(()) });
        prop_assert_eq!(answers.len() as u32, known + fit);
        prop_assert!(answers.iter().enumerate().all(|(at, &new)| new == (at as u32 >= known)));
        for id in (0..before.min(room)).chain(before..before + fit) {
            prop_assert!(filter.contains(&item(id)));
        }
        if fit < batch {
            prop_assert!(!filter.contains(&item(before + fit)));
            prop_assert_eq!(filter.add(&item(0), 0, UNLIMITED), Ok(false));
        }
        prop_assert_eq!(filter.validate(), Ok(()));
    }

    /// An add beyond the memory limit would leave a filter half changed.
    #[test]
    fn refused_growth_changes_nothing(
        capacity in 1u64..200,
        // So low that no item is taken for another one.
        rate in 1e-20..1e-15,
        growth in growths().prop_filter("grows", |growth| *growth != Growth::Fixed),
        limit in any::<u64>(),
        in_batch: bool,
    ) {
        let mut filter = filter(spec(capacity, rate, growth, 3));
        let items: Vec<_> = (0..capacity as u32).map(item).collect();
        prop_assert_eq!(add_batch(&mut filter, &items).1, Ok(()));
        let (before, bytes) = (stored(&filter), filter.bytes());
        let asked = Cell::new(0);
        let refuse = |demand: Demand| {
            asked.set(demand.total);
            Err(crate::Limit::Bytes(limit))
        };
        let last = items.last().unwrap().as_slice();
        let new = item(1_000_000);
        let end = if in_batch {
            let mut answers = Vec::new();
            let end = filter.add_all([last, &new, last].into_iter(), 0, &refuse, |new| answers.push(new));
            prop_assert_eq!(answers, [false]);
            end
        } else {
            filter.add(&new, 0, &refuse).map(|_| ())
        };
        prop_assert_eq!(end, Err(Error::OverLimit { bytes: asked.get(), limit }));
        prop_assert!(asked.get() > bytes);
        prop_assert!(stored(&filter) == before);
        prop_assert_eq!(filter.bytes(), bytes);
        prop_assert!(contains_batch(&filter, &items).iter().all(|&found| found));
        prop_assert_eq!(filter.add(&new, 0, UNLIMITED), Ok(true));
    }

    /// A filter could use more memory than the limit that a user set.
    #[test]
    fn the_allowance_is_asked_for_what_the_filter_then_takes(spec in specs(), more in 0u32..2000) {
        let asked = Cell::new(0);
        let allow = |demand: Demand| {
            asked.set(demand.total);
            Ok(())
        };
        let mut filter = Filter::new(spec.into(), &allow).unwrap();
        prop_assert_eq!(asked.get(), filter.bytes());
        for id in 0..more.min(spec.capacity.items() as u32 * 15) {
            let layers = chain(&filter).layers().len();
            let _may_be_full = filter.add(&item(id), 0, &allow);
            if chain(&filter).layers().len() > layers {
                prop_assert_eq!(asked.get(), filter.bytes());
            }
        }
    }
}

/// A filter that grows within a batch would put items into a full layer, or lose some.
#[test]
fn a_block_of_a_batch_may_grow_the_filter_many_times() {
    for growth in [reserved(1), reserved(2), growing(1), growing(2)] {
        for capacity in [1, 2, 10, 33, 63, 64, 65] {
            let mut filter = filter(spec(capacity, 1e-9, growth, 4));
            let items: Vec<_> = (0..130).map(item).collect();
            let (answers, end) = add_batch(&mut filter, &items);
            assert_eq!((answers, end), (vec![true; 130], Ok(())));
            assert_eq!(filter.items(), 130);
            assert_eq!(filter.validate(), Ok(()), "{growth:?} from {capacity}");
            assert!(contains_batch(&filter, &items).iter().all(|&found| found));
            assert_eq!(add_batch(&mut filter, &items).0, [false; 130]);
        }
    }
}

/// BF.MEXISTS would deny items that BF.EXISTS finds, or the other way round: the path of a block through a chain
/// depends on how many of its items are still unknown, and where they are.
#[test]
fn a_batch_answers_as_singles_do_whatever_is_found_where() {
    let mut filter = filter(spec(64, 1e-6, growing(2), 5));
    let added: Vec<_> = (0..40_000).map(item).collect();
    assert_eq!(add_batch(&mut filter, &added).1, Ok(()));
    assert!(filter.layers() > 8, "{} layers", filter.layers());
    let presence: [fn(usize) -> bool; 6] = [
        |_| false,
        |_| true,
        |at| at % 2 == 0,
        |at| at % 5 > 0,
        |at| at % 5 == 0,
        |at| at % 64 == 63,
    ];
    for (count, is_present) in [1, 7, 8, 9, 63, 64, 65, 71, 130]
        .into_iter()
        .flat_map(|count| presence.map(|is_present| (count, is_present)))
    {
        // Items of all layers, of the oldest one, and of the newest one.
        for (start, step) in [(0, 7919), (0, 1), (39_000, 1)] {
            let items: Vec<_> = (0..count)
                .map(|at| {
                    if is_present(at) {
                        added[(start + at * step) % added.len()].clone()
                    } else {
                        item(1_000_000 + at as u32)
                    }
                })
                .collect();
            let answers = found_by(Portable, &filter, &items);
            let expected: Vec<_> = (0..count).map(is_present).collect();
            assert_eq!(answers, expected, "{count} items from {start} by {step}");
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if let Some(vector) = crate::bits::kernel::Vector::detected() {
                assert_eq!(found_by(vector, &filter, &items), answers);
            }
        }
    }
}

/// A filter that grows for years would exceed the rate that its user was promised.
#[test]
fn the_rates_of_sixty_layers_never_exceed_the_promise() {
    for rate in [0.25, 0.1, 0.01, 1e-3, 1e-4, 1e-6, 1e-8, 1e-15, 1e-30] {
        for expansion in [1, 2, 4, 32_768] {
            for growth in [reserved(expansion), growing(expansion)] {
                for capacity in [1, 100, 1000, 100_000, 1 << 40] {
                    let mut sum = 0.0;
                    for (index, shape) in planned(spec(capacity, rate, growth, 0)).take(60).enumerate() {
                        sum += shape.rate;
                        assert!(
                            shape.rate >= 0.0 && sum <= rate * (1.0 + 1e-9),
                            "{growth:?} from {capacity} at {rate}: {sum:e} at layer {index}"
                        );
                    }
                }
            }
        }
    }
}

/// `BF.INFO` would alarm the operator of a half empty filter, or not warn of a full one.
#[test]
fn the_estimated_rate_follows_the_items() {
    // Half full blocks vary more than the bits of a whole layer.
    let layouts = [
        (Layout::Blocked, 0.005),
        (Layout::Classic, 0.002),
        (Layout::Valkey, 0.002),
    ];
    for (layout, half_full) in layouts {
        let mut filter = filter(spec(1000, 0.02, Growth::Fixed, 7).in_layout(layout).unwrap());
        assert_eq!(filter.estimated_error_rate(), 0.0, "{layout:?}");
        for (items, range) in [(0..500, 1e-5..half_full), (500..1000, 0.015..0.025)] {
            for number in items {
                filter.add(&item(number), 0, UNLIMITED).unwrap();
            }
            let rate = filter.estimated_error_rate();
            assert!(range.contains(&rate), "{layout:?}: {rate}");
        }
    }
}
