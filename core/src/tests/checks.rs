//! Breaks each invariant in filters of each layout that has it, and expects the invariant's name.
//!
//! Otherwise tests and fuzzers would accept a broken filter as valid.

use crate::bits::array::BitArray;
use crate::chain::Chain;
use crate::chain::batch::Layer as _;
use crate::checks::Invalid;
use crate::exceptions::Exceptions;
use crate::item::ItemHash;
use crate::layers::Layers;
use crate::layouts::blocked::sizing::Geometry;
use crate::layouts::blocked::window::{Slice, Windowed};
use crate::layouts::blocked::{self, Blocked};
use crate::layouts::classic::{self, Classic, Options};
use crate::layouts::valkey::{self, Valkey};
use crate::params::{Capacity, ErrorRate, Growth, Seed, SipSeed, Tightening, Time, Window};
use crate::spec::ValkeySpec;
use crate::tests::oracle::growing;
use crate::{Filter, UNLIMITED};

/// Items that the first layer is made for.
const CAPACITY: u64 = 100;

// ---- Valid filters, layer by layer ------------------------------------------------------------------

fn rules(growth: Growth) -> Blocked {
    Blocked::new(ErrorRate::DEFAULT, growth, Seed(5))
}

/// The first layers of a growing filter; all but the newest are full.
fn layers(count: usize) -> Vec<blocked::Layer> {
    let (rules, mut capacity) = (rules(growing(2)), CAPACITY);
    let mut layers = Vec::new();
    for index in 0..count {
        // Small rates, whose sum is far below the filter's.
        let shape = blocked::Shape::sized(capacity, rules.error_rate().value() / 16.0);
        let items = if index + 1 < count { capacity } else { 3 };
        layers.push(filled(blocked::Layer::make(shape).unwrap(), items));
        capacity *= 2;
    }
    layers
}

/// A layer that counts `items` items, and has as many bits set.
fn filled(mut layer: blocked::Layer, items: u64) -> blocked::Layer {
    layer.items = items;
    set_ones(&mut layer, items);
    layer
}

/// Sets the first bits.
fn set_ones(layer: &mut blocked::Layer, ones: u64) {
    let bytes: Vec<u8> = (0..ones.div_ceil(8))
        .map(|byte| 0xff >> (8 - (ones - 8 * byte).min(8)))
        .collect();
    layer.bits.merge(0, &bytes).unwrap();
}

fn chain(growth: Growth, layers: Vec<blocked::Layer>) -> Filter {
    Chain::of_layers(rules(growth), layers).into()
}

/// Length of a slice in milliseconds.
const SLICE: u64 = 1000;

fn times(count: usize) -> Vec<(Time, Time)> {
    (10..10 + count as u64)
        .map(|number| (number * SLICE, (number + 1) * SLICE))
        .collect()
}

/// A filter whose slices open and close at these times, with these layers.
fn of_slices(slices: impl IntoIterator<Item = (Time, Time, Vec<blocked::Layer>)>) -> Windowed {
    let window = Window::new(8, 8, false).unwrap();
    let mut windowed = Windowed::empty(rules(growing(2)), window, Capacity::new(1000).unwrap());
    for (opens, closes, layers) in slices {
        let chain = Chain::of_layers(windowed.rules.clone(), layers);
        windowed.slices.push(Slice { opens, closes, chain });
    }
    windowed
}

/// A filter with a window, with a layer in each slice.
fn windowed(layers: Vec<blocked::Layer>, times: Vec<(Time, Time)>) -> Filter {
    let slices = times.into_iter().zip(layers);
    let slices = slices.map(|((opens, closes), layer)| (opens, closes, vec![layer]));
    of_slices(slices).into()
}

/// Filters of these layers: a chain without and with an exception, and a window.
fn everywhere(layers: impl Fn() -> Vec<blocked::Layer>) -> Vec<(&'static str, Filter)> {
    let count = layers().len();
    let chain = || chain(growing(2), layers());
    vec![
        ("chain", chain()),
        ("window", windowed(layers(), times(count))),
        ("excepting chain", excepting(chain(), excepted(&[7]))),
    ]
}

/// A filter with these exceptions, also with an empty set, which no filter otherwise has.
fn excepting(mut filter: Filter, set: Exceptions) -> Filter {
    if let Layers::Blocked(_, held) = &mut filter.layers {
        *held = Some(Box::new(set));
    }
    filter
}

fn excepted(hashes: &[u64]) -> Exceptions {
    let mut set = Exceptions::with_room_for(8).unwrap();
    for &hash in hashes {
        set.insert(ItemHash {
            low: hash,
            high: !hash,
        });
    }
    set
}

/// Options of classic filters as they are made today.
const TODAY: u32 = Options::FORCE64 | Options::NOROUND;
const FIXED: u32 = TODAY | Options::NO_SCALING;

fn classic_of(options: u32, layers: Vec<classic::Layer>) -> Filter {
    let rules = Classic::stored(Options::new(options).unwrap(), 2);
    Chain::of_layers(rules, layers).into()
}

fn classic_shape() -> classic::Shape {
    classic::Shape::sized(CAPACITY, 0.005, Options::new(TODAY).unwrap())
}

fn classic_layer(shape: classic::Shape) -> classic::Layer {
    classic::Layer::make(shape).unwrap()
}

fn valkey_spec(expansion: u32) -> ValkeySpec {
    let seed = SipSeed([7; 32]);
    ValkeySpec::new(0.01, CAPACITY, expansion, Tightening::DEFAULT, seed).unwrap()
}

/// A filter in valkey-bloom's layout with as many layers as `items` items need.
fn valkey_filter(items: u32) -> Chain<Valkey> {
    let rules = valkey_spec(2).rules();
    let mut chain = Chain::new((rules, rules.first(CAPACITY)), UNLIMITED).unwrap();
    for item in 0..items {
        chain.add(&item.to_le_bytes(), UNLIMITED).unwrap();
    }
    chain
}

fn valkey_of(expansion: u32, layers: Vec<valkey::Layer>) -> Filter {
    let rules = valkey_spec(expansion).rules();
    Chain::of_layers(rules, layers).into()
}

fn valkey_layer(shape: valkey::Shape, items: u64) -> valkey::Layer {
    let mut layer = valkey::Layer::make(shape).unwrap();
    layer.items = items;
    layer
}

fn valkey_shapes() -> [valkey::Shape; 2] {
    let rules = valkey_spec(2).rules();
    let first = rules.first(CAPACITY);
    [first, rules.layer(1, CAPACITY).unwrap()]
}

/// The helpers of these tests make sound filters, so that the tests find broken invariants.
#[test]
fn sound_filters_are_valid() {
    for count in 1..4 {
        for (place, filter) in everywhere(|| layers(count)) {
            assert_eq!(filter.validate(), Ok(()), "{place} of {count}");
            assert_eq!(filter.validate_composed(), Ok(()), "{place} of {count}");
        }
    }
    assert_eq!(chain(Growth::Fixed, layers(1)).validate(), Ok(()));
    assert_eq!(windowed(Vec::new(), Vec::new()).validate(), Ok(()));
    let shape = classic_shape();
    for options in [TODAY, FIXED] {
        assert_eq!(classic_of(options, vec![classic_layer(shape)]).validate(), Ok(()));
    }
    assert_eq!(Filter::from(valkey_filter(1000)).validate(), Ok(()));
    let [first, second] = valkey_shapes();
    let layers = vec![valkey_layer(first, CAPACITY), valkey_layer(second, 0)];
    assert_eq!(valkey_of(2, layers).validate(), Ok(()));
    assert_eq!(valkey_of(0, vec![valkey_layer(first, 0)]).validate(), Ok(()));
}

// ---- One test for each invariant -------------------------------------------------------------------

#[test]
fn no_layer() {
    let empty = [
        chain(growing(2), Vec::new()),
        classic_of(TODAY, Vec::new()),
        valkey_of(2, Vec::new()),
        excepting(chain(growing(2), Vec::new()), excepted(&[7])),
    ];
    for filter in empty {
        assert_eq!(filter.validate_composed(), Err(Invalid::NoLayer), "{filter:?}");
        assert_eq!(filter.validate(), Err(Invalid::NoLayer), "{filter:?}");
    }
}

#[test]
fn grown_fixed() {
    let filter = chain(Growth::Fixed, layers(2));
    assert_eq!(filter.validate(), Err(Invalid::GrownFixed));
    // A union may have more layers than one.
    assert_eq!(filter.validate_composed(), Ok(()));
    let two = || vec![classic_layer(classic_shape()), classic_layer(classic_shape())];
    assert_eq!(classic_of(FIXED, two()).validate(), Err(Invalid::GrownFixed));
    assert_eq!(classic_of(TODAY, two()).validate(), Ok(()));
    let [first, second] = valkey_shapes();
    let two = vec![valkey_layer(first, CAPACITY), valkey_layer(second, 0)];
    assert_eq!(valkey_of(0, two).validate(), Err(Invalid::GrownFixed));
}

/// A layer with a changed geometry, and an array that fits it.
fn reshaped(change: impl Fn(&mut Geometry)) -> blocked::Layer {
    let mut shape = layers(1)[0].shape();
    change(&mut shape.geometry);
    let lines = shape.geometry.lines * u64::from(shape.geometry.lines_per_item);
    filled(
        blocked::Layer::stored(shape, BitArray::zeroed(lines).unwrap(), 0),
        0,
    )
}

#[test]
fn geometry_of_blocked_layers() {
    type Change = fn(&mut Geometry);
    let wrong: [(&str, Change); 4] = [
        ("no probe", |geometry| geometry.probes = 0),
        ("one probe", |geometry| geometry.probes = 1),
        ("nine probes", |geometry| geometry.probes = 9),
        ("an empty partition", |geometry| geometry.lines = 0),
    ];
    for at in 0..3 {
        for (what, change) in wrong {
            for (place, filter) in everywhere(|| {
                let mut layers = layers(3);
                let (items, capacity) = (layers[at].items(), layers[at].capacity());
                layers[at] = reshaped(change);
                let mut shape = layers[at].shape();
                shape.capacity = capacity;
                let lines = shape.geometry.lines * u64::from(shape.geometry.lines_per_item);
                layers[at] = blocked::Layer::stored(shape, BitArray::zeroed(lines).unwrap(), items);
                layers
            }) {
                let expected = Err(Invalid::Geometry(at));
                assert_eq!(filter.validate(), expected, "{place}: {what} in layer {at}");
                assert_eq!(filter.validate_composed(), expected, "{place}: {what}");
            }
        }
        for more in [1, -1] {
            for (place, filter) in everywhere(|| {
                let mut layers = layers(3);
                let (shape, items) = (layers[at].shape(), layers[at].items());
                let lines = shape.geometry.total_lines().checked_add_signed(more).unwrap();
                layers[at] = blocked::Layer::stored(shape, BitArray::zeroed(lines).unwrap(), items);
                layers
            }) {
                let expected = Err(Invalid::Geometry(at));
                assert_eq!(filter.validate(), expected, "{place}: {more} line in layer {at}");
            }
        }
    }
    // The limits themselves are valid.
    for (lines_per_item, probes) in [(1, 2), (1, 8), (16, 2), (16, 8)] {
        let layer = reshaped(|geometry| {
            geometry.lines_per_item = lines_per_item;
            geometry.probes = probes;
        });
        assert_eq!(chain(growing(2), vec![layer]).validate(), Ok(()));
    }
}

#[test]
fn geometry_of_classic_and_valkey_layers() {
    let shape = classic_shape();
    let wrong = [
        classic::Shape {
            probes: shape.probes + 1,
            ..shape
        },
        classic::Shape {
            bits_per_item: shape.bits_per_item * 1.1,
            ..shape
        },
        classic::Shape {
            error_rate: 0.006,
            ..shape
        },
    ];
    for shape in wrong {
        for before in 0..2 {
            let mut layers: Vec<_> = (0..before).map(|_| classic_layer(classic_shape())).collect();
            layers.push(classic_layer(shape));
            let expected = Err(Invalid::Geometry(before));
            assert_eq!(classic_of(TODAY, layers).validate(), expected, "{shape:?}");
        }
    }

    let [first, second] = valkey_shapes();
    let wrong = |shape: valkey::Shape| {
        let layers = vec![valkey_layer(first, CAPACITY), valkey_layer(shape, 0)];
        valkey_of(2, layers).validate()
    };
    assert_eq!(wrong(second), Ok(()));
    for shape in [
        valkey::Shape {
            error_rate: second.error_rate * 2.0,
            ..second
        },
        // Valid by itself, but not in this filter.
        valkey::Shape::sized(second.capacity, second.error_rate * 0.5, second.seed),
        valkey::Shape {
            bytes: second.bytes + 8,
            ..second
        },
        valkey::Shape {
            probes: second.probes + 1,
            ..second
        },
        valkey::Shape {
            seed: SipSeed([8; 32]),
            ..second
        },
    ] {
        assert_eq!(wrong(shape), Err(Invalid::Geometry(1)), "{shape:?}");
    }
}

#[test]
fn items() {
    for at in 0..3 {
        for (place, filter) in everywhere(|| {
            let mut layers = layers(3);
            let capacity = layers[at].capacity();
            layers[at].items = capacity + 1;
            layers
        }) {
            let expected = Err(Invalid::Items(at));
            assert_eq!(filter.validate(), expected, "{place}, layer {at}");
            assert_eq!(filter.validate_composed(), expected, "{place}, layer {at}");
        }
    }
    for (place, filter) in everywhere(|| {
        let shape = blocked::Shape {
            capacity: 0,
            ..layers(1)[0].shape()
        };
        vec![blocked::Layer::make(shape).unwrap()]
    }) {
        assert_eq!(filter.validate(), Err(Invalid::Items(0)), "{place}");
    }
    let mut layer = classic_layer(classic_shape());
    layer.items = CAPACITY + 1;
    let layers = vec![classic_layer(classic_shape()), layer];
    assert_eq!(classic_of(TODAY, layers).validate(), Err(Invalid::Items(1)));
    let [first, second] = valkey_shapes();
    let layers = vec![
        valkey_layer(first, CAPACITY),
        valkey_layer(second, second.capacity + 1),
    ];
    assert_eq!(valkey_of(2, layers).validate(), Err(Invalid::Items(1)));
}

#[test]
fn not_full() {
    for at in 0..2 {
        let mut layers = layers(3);
        let less = layers[at].items() - 1;
        layers[at].items = less;
        let filter = chain(growing(2), layers);
        assert_eq!(filter.validate(), Err(Invalid::NotFull(at)));
    }
    // In a window, a layer may have room left when the next slice begins, but not when a further layer of its
    // slice is added.
    let two = || {
        let mut layers = layers(2);
        layers[0].items = CAPACITY - 1;
        layers
    };
    assert_eq!(windowed(two(), times(2)).validate(), Ok(()));
    let in_one_slice = |own: Vec<blocked::Layer>| {
        let slices = [(1, 2, vec![layers(1).remove(0)]), (3, 4, own)];
        Filter::from(of_slices(slices))
    };
    assert_eq!(in_one_slice(layers(2)).validate(), Ok(()));
    let broken = in_one_slice(two());
    assert_eq!(broken.validate(), Err(Invalid::NotFull(1)));
    assert_eq!(broken.validate_composed(), Err(Invalid::NotFull(1)));

    let [first, second] = valkey_shapes();
    let layers = vec![valkey_layer(first, CAPACITY - 1), valkey_layer(second, 0)];
    assert_eq!(valkey_of(2, layers).validate(), Err(Invalid::NotFull(0)));
}

#[test]
fn exceptions() {
    // A filter with an empty set of exceptions.
    let filter = excepting(chain(growing(2), layers(2)), excepted(&[]));
    assert_eq!(filter.validate(), Err(Invalid::Exceptions));
    assert_eq!(filter.validate_composed(), Err(Invalid::Exceptions));
    let many = || excepted(&[1, 2, 3, u64::MAX]);
    let sound = excepting(chain(growing(2), layers(2)), many());
    assert_eq!(sound.validate(), Ok(()));
}

#[test]
fn slices_in_time() {
    assert_eq!(windowed(layers(3), times(3)).validate(), Ok(()));
    for at in 0..2 {
        let mut back = times(3);
        back[at + 1].0 = back[at].0 - 1;
        let expected = Err(Invalid::Times(at));
        assert_eq!(windowed(layers(3), back).validate(), expected, "{at}");
        let mut late = times(3);
        late[at].1 = late[at + 1].1 + 1;
        assert_eq!(windowed(layers(3), late).validate(), expected, "{at}");
    }
    let empty = of_slices([(1, 2, layers(1)), (3, 4, Vec::new())]);
    assert_eq!(Filter::from(empty).validate(), Err(Invalid::Times(1)));
    let backwards = windowed(layers(1), vec![(2, 1)]);
    assert_eq!(backwards.validate(), Err(Invalid::Times(0)));
}

#[test]
fn capacity() {
    for at in 1..3 {
        for more in [1, -1] {
            let mut layers = layers(3);
            let mut shape = layers[at].shape();
            shape.capacity = shape.capacity.checked_add_signed(more).unwrap();
            let items = if at == 1 { shape.capacity } else { 3 };
            layers[at] = filled(blocked::Layer::make(shape).unwrap(), items);
            let filter = chain(growing(2), layers);
            assert_eq!(filter.validate(), Err(Invalid::Capacity(at)), "{at}, {more}");
            assert_eq!(filter.validate_composed(), Ok(()), "{at}, {more}");
        }
    }
    let [first, second] = valkey_shapes();
    for capacity in [second.capacity - 1, second.capacity + 1] {
        let shape = valkey::Shape::sized(capacity, second.error_rate, second.seed);
        let layers = vec![valkey_layer(first, CAPACITY), valkey_layer(shape, 0)];
        assert_eq!(valkey_of(2, layers).validate(), Err(Invalid::Capacity(1)));
    }
}

#[test]
fn bits_set() {
    for at in 0..3 {
        // More bits counted than set, and more set than counted.
        for (place, filter) in everywhere(|| {
            let mut layers = layers(3);
            layers[at].bits.count_set(1);
            layers
        }) {
            let recounted = layers(3)[at].bits().ones();
            let expected = Err(Invalid::BitsSet {
                layer: at,
                counted: recounted + 1,
                recounted,
            });
            assert_eq!(filter.validate(), expected, "{place}, layer {at}");
            assert_eq!(filter.validate_composed(), expected, "{place}, layer {at}");
        }
        for (place, filter) in everywhere(|| {
            let mut layers = layers(3);
            let last = layers[at].bits.units_mut().last_mut().unwrap();
            *bytemuck::bytes_of_mut(last).last_mut().unwrap() |= 0x80;
            layers
        }) {
            let counted = layers(3)[at].bits().ones();
            let expected = Err(Invalid::BitsSet {
                layer: at,
                counted,
                recounted: counted + 1,
            });
            assert_eq!(filter.validate(), expected, "{place}, layer {at}");
        }
    }
    let mut layer = classic_layer(classic_shape());
    layer.words.count_set(3);
    let expected = |layer| {
        Err(Invalid::BitsSet {
            layer,
            counted: 3,
            recounted: 0,
        })
    };
    let layers = vec![classic_layer(classic_shape()), layer];
    assert_eq!(classic_of(TODAY, layers).validate(), expected(1));

    // The bits of a layer's head are counted too.
    let [first, _] = valkey_shapes();
    let mut array = first.array().unwrap();
    let of_head = array.ones();
    array.count_set(3);
    let filter = valkey_of(2, vec![first.with_array(array)]);
    let expected = Err(Invalid::BitsSet {
        layer: 0,
        counted: of_head + 3,
        recounted: of_head,
    });
    assert_eq!(filter.validate(), expected);
}

#[test]
fn fill() {
    for at in 0..3 {
        let shape = layers(3)[at].shape();
        let most = u64::from(shape.geometry.probes) * u64::from(shape.geometry.lines_per_item);
        for (place, filter) in everywhere(|| {
            // Fewer bits than items.
            let mut layers = layers(3);
            let (shape, items) = (layers[at].shape(), layers[at].items());
            layers[at] = blocked::Layer::make(shape).unwrap();
            layers[at].items = items;
            set_ones(&mut layers[at], items - 1);
            layers
        }) {
            let expected = Err(Invalid::Fill(at));
            assert_eq!(filter.validate(), expected, "{place}, layer {at}");
        }
        for (ones, is_valid) in [(3 * most, true), (3 * most + 1, false)] {
            let mut layer = blocked::Layer::make(shape).unwrap();
            layer.items = 3;
            set_ones(&mut layer, ones);
            let filter = windowed(vec![layer], times(1));
            let expected = if is_valid { Ok(()) } else { Err(Invalid::Fill(0)) };
            assert_eq!(filter.validate(), expected, "layer {at}, {ones} bits");
        }
    }
}

#[test]
fn budget() {
    // The filter's rate is 0.01, and each layer has a sixteenth of it at most: one may have the rest, and no
    // more.
    let others: f64 = layers(3)[..2].iter().map(|layer| layer.shape().rate).sum();
    for (rate, is_valid) in [
        (0.01 - others, true),
        ((0.01 - others) * 1.001, false),
        (1.0, false),
        (f64::INFINITY, false),
        (f64::NAN, false),
        (-1.0, false),
    ] {
        for (place, filter) in everywhere(|| {
            let mut layers = layers(3);
            let (mut shape, items) = (layers[2].shape(), layers[2].items());
            shape.rate = rate;
            layers[2] = filled(blocked::Layer::make(shape).unwrap(), items);
            layers
        }) {
            for result in [filter.validate(), filter.validate_composed()] {
                if is_valid {
                    assert_eq!(result, Ok(()), "{place}, {rate}");
                    continue;
                }
                let Err(Invalid::Budget(sum)) = result else {
                    panic!("{place}, {rate}: {result:?}");
                };
                assert!(
                    sum.is_nan() == rate.is_nan() && !(0.0..=0.01).contains(&sum),
                    "{place}, {rate}: {sum}"
                );
            }
        }
    }
}
