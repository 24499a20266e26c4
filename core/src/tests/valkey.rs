//! Filters in valkey-bloom's layout, compared with the crate that valkey-bloom is built on, used as valkey-bloom uses
//! it.

use bloomfilter::Bloom;
use proptest::prelude::*;

use super::oracle::{item, reloaded, reserved, spec, stored};
use crate::chain::batch::Layer as _;
use crate::chain::{Chain, Rules as _};
use crate::codec::valkey::{ENCODING_VERSION, decode, encode, load};
use crate::layouts::valkey::{Layer, Unreached, Valkey};
use crate::params::{Growth, Layout, Seed, SipSeed, Tightening};
use crate::spec::{Spec, ValkeySpec};
use crate::{Demand, Error, Filter, UNLIMITED};

/// A naive filter of valkey-bloom's layout, with layers of the crate that valkey-bloom is built on.
struct Naive {
    spec: ValkeySpec,
    layers: Vec<NaiveLayer>,
}

struct NaiveLayer {
    bloom: Bloom<[u8]>,
    items: u64,
    capacity: u64,
}

impl Naive {
    fn new(spec: ValkeySpec) -> Self {
        let layers = vec![NaiveLayer::new(spec, spec.capacity(), spec.rules().error_rate())];
        Self { spec, layers }
    }

    fn contains(&self, item: &[u8]) -> bool {
        self.layers.iter().any(|layer| layer.bloom.check(item))
    }

    /// Adds an item. Returns whether it was new, or `None` if the filter is full.
    fn add(&mut self, item: &[u8]) -> Option<bool> {
        if self.contains(item) {
            return Some(false);
        }
        let newest = self.layers.last().unwrap();
        if newest.items == newest.capacity {
            let rate = self.spec.rules().error_rate()
                * self
                    .spec
                    .rules()
                    .tightening()
                    .value()
                    .powi(self.layers.len() as i32);
            let capacity = newest
                .capacity
                .checked_mul(self.spec.rules().expansion().into())?;
            if self.spec.rules().expansion() == 0 || rate <= f64::MIN_POSITIVE {
                return None;
            }
            self.layers.push(NaiveLayer::new(self.spec, capacity, rate));
        }
        let newest = self.layers.last_mut().unwrap();
        newest.bloom.set(item);
        newest.items += 1;
        Some(true)
    }
}

impl NaiveLayer {
    fn new(spec: ValkeySpec, capacity: u64, rate: f64) -> Self {
        let bloom = Bloom::new_for_fp_rate_with_seed(capacity as usize, rate, &spec.rules().seed().0);
        Self {
            bloom: bloom.unwrap(),
            items: 0,
            capacity,
        }
    }
}

fn chain(filter: &Filter) -> &Chain<Valkey> {
    filter.as_valkey().unwrap()
}

fn layers(filter: &Filter) -> &[Layer] {
    chain(filter).layers()
}

fn valkey(capacity: u64, rate: f64, expansion: u32, tightening: f64) -> ValkeySpec {
    let tightening = Tightening::new(tightening).unwrap();
    ValkeySpec::new(rate, capacity, expansion, tightening, SipSeed::FIXED).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Users who move a filter from valkey-bloom, or replicate one, would lose items or get other answers.
    #[test]
    fn filters_are_valkey_bloom_s_to_the_last_bit(
        rate in prop_oneof![1e-9f64..1.0, Just(0.01), Just(1e-300), Just(0.999)],
        capacity in 1u64..60,
        expansion in 0u32..4,
        tightening in prop_oneof![0.01f64..1.0, Just(0.5)],
        seed: [u8; 32],
        items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..300),
    ) {
        let tightening = Tightening::new(tightening).unwrap();
        let spec = ValkeySpec::new(rate, capacity, expansion, tightening, SipSeed(seed)).unwrap();
        let mut naive = Naive::new(spec);
        let mut filter = Filter::new(Spec::Valkey(spec), UNLIMITED).unwrap();
        let mut batch = Filter::new(Spec::Valkey(spec), UNLIMITED).unwrap();
        let mut answers = Vec::new();
        for item in &items {
            prop_assert_eq!(filter.contains(item), naive.contains(item));
            let expected = naive.add(item);
            match filter.add(item, 0, UNLIMITED) {
                Ok(new) => prop_assert_eq!(Some(new), expected),
                Err(error) => {
                    prop_assert_eq!(expected, None);
                    prop_assert!(matches!(error, Error::Full { .. }), "{error:?}");
                    break;
                }
            }
            answers.push(expected.unwrap());
        }
        let mut in_batch = Vec::new();
        let all = items.iter().map(Vec::as_slice);
        let end = batch.add_all(all.clone(), 0, UNLIMITED, |new| in_batch.push(new));
        prop_assert_eq!(end.is_ok(), answers.len() == items.len());
        prop_assert_eq!(in_batch, answers);
        let mut found = Vec::new();
        filter.contains_all(all, 0, |is_there| found.push(is_there));
        prop_assert_eq!(found, items.iter().map(|item| naive.contains(item)).collect::<Vec<_>>());
        for filter in [&filter, &batch, &reloaded(&filter)] {
            prop_assert_eq!(filter.validate(), Ok(()));
            prop_assert_eq!(layers(filter).len(), naive.layers.len());
            for (layer, expected) in layers(filter).iter().zip(&naive.layers) {
                prop_assert_eq!(layer.stored_bytes(), expected.bloom.as_slice());
                prop_assert_eq!((layer.items(), layer.capacity()), (expected.items, expected.capacity));
            }
        }
        let loaded = decode(&encode(chain(&filter)).unwrap(), UNLIMITED).unwrap();
        prop_assert!(loaded.layers().iter().map(Layer::stored_bytes).eq(
            layers(&filter).iter().map(Layer::stored_bytes)
        ));
    }

    /// Large layers would have another size than valkey-bloom's, so that its commands could not be followed.
    #[test]
    fn sizes_of_large_layers_are_valkey_bloom_s(rate in 1e-12f64..0.9, capacity in 1u64..1_000_000_000_000) {
        let layer = valkey(capacity, rate, 2, 0.5).rules().first(capacity);
        let expected = Bloom::<[u8]>::compute_bitmap_size(capacity as usize, rate) as u64;
        prop_assert_eq!(layer.bytes, expected);
        prop_assert_eq!(layer.check(), Ok(()));
    }
}

/// A filter would have the wrong size on a server, or refuse items that valkey-bloom accepts.
#[test]
fn a_filter_s_figures_are_valkey_bloom_s() {
    let mut filter = Filter::new(Spec::Valkey(valkey(100, 0.01, 2, 0.5)), UNLIMITED).unwrap();
    let stats = filter.layer_stats().next().unwrap();
    assert_eq!(
        (stats.shape.bytes, stats.shape.probes, stats.bits_set),
        (120, 7, 0)
    );
    assert_eq!(filter.bytes(), 48 + 8 + 208 + 120);
    for number in 0..101 {
        filter.add(&item(number), 0, UNLIMITED).unwrap();
    }
    let totals = filter.totals();
    assert_eq!((totals.layers, totals.capacity), (2, 300));
    assert_eq!(filter.bytes(), 48 + 4 * 8 + 2 * 208 + 120 + 276);
    assert_eq!((filter.error_rate(), filter.expansion()), (0.01, Some(2)));
    let rates: Vec<_> = filter.layer_stats().map(|layer| layer.shape.error_rate).collect();
    assert_eq!(rates, [0.01, 0.005]);
    // A limit that is lower than what the filter has already.
    assert_eq!(filter.scaled_capacity(Some(1)), Some(300));
    let fixed = Filter::new(Spec::Valkey(valkey(100, 0.01, 0, 0.5)), UNLIMITED).unwrap();
    assert_eq!((fixed.expansion(), fixed.scaled_capacity(None)), (None, None));
}

/// The forecast of how far a filter can grow would name a size that the server then refuses, or take too long.
#[test]
fn a_filter_grows_as_far_as_it_is_foretold() {
    // The answer of valkey-bloom 1.0 with its limit of 128 MiB.
    let usual = valkey(100, 0.01, 2, 0.5).rules();
    let limit = Some(128 << 20);
    assert_eq!(
        usual.scaled_capacity(100, u64::MAX, limit),
        Err(Unreached::Bytes(26_214_300))
    );
    assert_eq!(usual.scaled_capacity(100, 26_214_300, limit), Ok(26_214_300));
    assert_eq!(usual.scaled_capacity(100, 1, limit), Ok(100));
    // The capacity with its next layer would not fit into a reply.
    let reached = usual.scaled_capacity(100, u64::MAX, None).unwrap_err();
    assert!(
        matches!(reached, Unreached::Items(capacity) if capacity == 100 * ((1 << 56) - 1)),
        "{reached:?}"
    );
    // A rate that is halved 1,022 times is 0.
    let same = valkey(10, 0.5, 1, 0.5).rules();
    assert_eq!(
        same.scaled_capacity(10, u64::MAX, None),
        Err(Unreached::Rate(10_210))
    );
    // The forecast ends however near to 1 the ratio is.
    let slow = valkey(1, 0.5, 1, 0.999_999_999).rules();
    assert_eq!(
        slow.scaled_capacity(1, u64::MAX, None),
        Err(Unreached::Layers(1100))
    );
    // The smallest ratio leaves no second layer.
    let steep = valkey(8, 0.1, 2, f64::MIN_POSITIVE).rules();
    assert_eq!(steep.scaled_capacity(8, u64::MAX, None), Err(Unreached::Rate(8)));
    assert_eq!(Valkey::bytes(0, 0), 48);
}

/// A filter whose rate cannot be halved any more would stop the server, or silently forget an item.
#[test]
fn a_filter_of_a_rate_next_to_zero_is_full() {
    let mut filter = Filter::new(Spec::Valkey(valkey(1, 1e-307, 2, 0.5)), UNLIMITED).unwrap();
    let mut refused = None;
    for number in 0..100 {
        match filter.add(&item(number), 0, UNLIMITED) {
            Ok(_) => {}
            Err(error) => {
                refused = Some((number, error));
                break;
            }
        }
    }
    assert_eq!(filter.layers(), 3);
    assert_eq!(refused, Some((7, Error::Full { capacity: 4 })));
    assert!((0..7).all(|number| filter.contains(&item(number))));
}

/// Servers with the same bf-seed would make filters that hash differently.
#[test]
fn a_seed_of_eight_bytes_stands_for_the_same_thirty_two_everywhere() {
    let SipSeed(seed) = Seed(7).into();
    assert_eq!(seed, SEED_OF_7);
    assert!(SipSeed(seed).is_random() && !SipSeed::FIXED.is_random());
    let spec = spec(10, 0.25, reserved(3), 7).in_layout(Layout::Valkey);
    let filter = Filter::new(spec.unwrap(), UNLIMITED).unwrap();
    assert_eq!(filter.layout(), Layout::Valkey);
    let expected = Valkey::new(0.25, 3, Tightening::DEFAULT, SipSeed(seed));
    assert_eq!(filter.valkey_rules(), expected.ok().as_ref());
    assert_eq!(filter.seed(), None);
    assert_eq!(filter.growth(), None);
}

const SEED_OF_7: [u8; 32] = [
    175, 150, 181, 214, 88, 30, 103, 129, 16, 181, 97, 96, 61, 202, 9, 164, 8, 40, 240, 108, 32, 76, 31, 180,
    121, 11, 197, 231, 82, 94, 57, 169,
];

/// A filter would keep items that its owner wanted to remove.
#[test]
fn an_emptied_filter_is_as_new() {
    for growth in [reserved(2), Growth::Fixed] {
        let made = || {
            Filter::new(
                spec(50, 0.01, growth, 1).in_layout(Layout::Valkey).unwrap(),
                UNLIMITED,
            )
            .unwrap()
        };
        let mut filter = made();
        assert!(filter.emptied(UNLIMITED).unwrap().is_none(), "it is as new");
        let more = if growth == Growth::Fixed { 50 } else { 500 };
        for number in 0..more {
            let _full = filter.add(&item(number), 0, UNLIMITED);
        }
        let emptied = filter.emptied(UNLIMITED).unwrap().unwrap();
        assert_eq!(stored(&emptied), stored(&made()));
    }
}

/// A server would exceed its limit, or refuse a filter that fits: the demand must be what the filter then uses.
#[test]
fn limits_are_asked_for_what_a_filter_takes() {
    let taken = std::cell::Cell::new(0);
    let allow = |demand: Demand| {
        taken.set(demand.total);
        Ok(())
    };
    let mut filter = Filter::new(Spec::Valkey(valkey(13, 0.01, 1, 0.9)), &allow).unwrap();
    assert_eq!(taken.get(), filter.bytes());
    for number in 0..400 {
        let layers = filter.layers();
        filter.add(&item(number), 0, &allow).unwrap();
        if filter.layers() > layers {
            assert_eq!(taken.get(), filter.bytes(), "{layers} layers");
        }
    }

    // The memory for a stream is requested layer by layer.
    let few = || {
        let mut filter = Filter::new(Spec::Valkey(valkey(13, 0.01, 2, 0.9)), UNLIMITED).unwrap();
        (0..90).for_each(|number| {
            filter.add(&item(number), 0, UNLIMITED).unwrap();
        });
        filter
    };
    let stored_bytes = encode(chain(&few())).unwrap();
    let filter = Filter::from(decode(&stored_bytes, &allow).unwrap());
    assert_eq!(filter.layers(), 3);
    assert_eq!(taken.get(), filter.bytes());
    let loaded = load(&mut stored(&few()), ENCODING_VERSION, &allow).unwrap();
    assert_eq!(taken.get(), Filter::from(loaded).bytes());
}
