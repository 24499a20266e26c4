//! RedisBloom's layout, bit for bit. docs/design.md has its formulae, under "The classic layout".
//!
//! An item's probes are anywhere in the array, each in a cache line of its own, and are computed from two hashes
//! (Kirsch, Mitzenmacher, "Less Hashing, Same Performance", 2006). Each layer has half of the rate of the layer before
//! it, so that the sum stays below the filter's rate.
//!
//! Filters made by early versions of RedisBloom differ in two ways, also in the layers that they grow later:
//!
//! - without the option [`FORCE64`](Options::FORCE64) hashes have 32 bits;
//! - without [`NOROUND`](Options::NOROUND) the number of bits is a power of two, `2^n2`. (RedisBloom computes in 32 bits
//!   there when `n2 < 32`; modulo a power of two that makes no difference.)

pub(crate) mod murmur;
pub(crate) mod shape;

use crate::chain::batch::{Hasher, Layer as _};
use crate::chain::{LayerShape, Rules};
use crate::error::{Error, ParamError, require};
use crate::item::{Item, ItemHash};
use crate::layouts::scattered;
use crate::params::Layout;
pub use shape::{Layer, Shape};

/// The ratio of a layer's rate to that of the layer before it.
const TIGHTENING: f64 = 0.5;

/// The options of a filter: a word of flags, as RedisBloom stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(u32);

impl Options {
    /// Layers have as many bits as they need, not a power of two.
    pub const NOROUND: u32 = 1;
    /// Hashes have 64 bits, not 32.
    pub const FORCE64: u32 = 4;
    /// The filter does not grow.
    pub const NO_SCALING: u32 = 8;

    /// The options in a stored word; `None` if it has flags that no command of RedisBloom sets.
    pub fn new(word: u32) -> Option<Self> {
        (word & !(Self::NOROUND | Self::FORCE64 | Self::NO_SCALING) == 0).then_some(Self(word))
    }

    /// The options as the stored word.
    pub fn word(self) -> u32 {
        self.0
    }

    /// Whether all flags in `options` are set.
    pub fn has(self, options: u32) -> bool {
        self.0 & options == options
    }

    /// Bits of each of an item's two hashes, 64 or 32.
    pub fn hash_width(self) -> u32 {
        if self.has(Self::FORCE64) { 64 } else { 32 }
    }
}

impl Hasher for Options {
    #[inline(always)]
    fn hash(&self, item: Item<'_>) -> ItemHash {
        let item = item.bytes();
        if self.has(Self::FORCE64) {
            let low = murmur::hash64(item, 0xc6a4_a793_5bd1_e995);
            let high = murmur::hash64(item, low);
            ItemHash { low, high }
        } else {
            let low = murmur::hash32(item, 0x9747_b28c);
            let high = murmur::hash32(item, low);
            ItemHash {
                low: u64::from(low),
                high: u64::from(high),
            }
        }
    }
}

/// Rules of classic filters: the options and expansion that RedisBloom stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classic {
    options: Options,
    expansion: u32,
}

impl Classic {
    /// Rules of a stored filter.
    pub(crate) fn stored(options: Options, expansion: u32) -> Self {
        Self { options, expansion }
    }

    /// The first layer's share of the filter's error rate.
    pub fn first_share(&self) -> f64 {
        if self.scales() { TIGHTENING } else { 1.0 }
    }

    /// Whether the filter grows.
    pub fn scales(&self) -> bool {
        !self.options.has(Options::NO_SCALING)
    }

    /// The filter's options.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The expansion as it is stored, even if the filter does not grow.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }
}

/// What a new filter of this layout is made from, as RedisBloom accepts it: any rate and capacity, and an expansion
/// even for a filter that does not grow, which RedisBloom stores anyway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassicSpec {
    rules: Classic,
    error_rate: f64,
    capacity: u64,
}

impl ClassicSpec {
    /// The expansion that RedisBloom stores in a filter made with `NONSCALING` and no `EXPANSION`.
    pub const UNUSED_EXPANSION: u32 = 2;

    /// Checks the parameters: the filter's rate and its first layer's are strictly between 0 and 1, the capacity is not 0.
    pub fn new(error_rate: f64, capacity: u64, expansion: u32, scales: bool) -> Result<Self, ParamError> {
        let fixed = if scales { 0 } else { Options::NO_SCALING };
        let options = Options(Options::FORCE64 | Options::NOROUND | fixed);
        let spec = Self {
            rules: Classic { options, expansion },
            error_rate,
            capacity,
        };
        let has_rate = spec.first_rate() > 0.0 && error_rate < 1.0;
        require(has_rate, ParamError::ErrorRate)?;
        require(capacity > 0, ParamError::Capacity)?;
        Ok(spec)
    }

    /// The filter's false positive rate, strictly between 0 and 1.
    pub fn error_rate(&self) -> f64 {
        self.error_rate
    }

    fn first_rate(&self) -> f64 {
        self.error_rate * self.rules.first_share()
    }

    /// Items that the first layer is made for, 1 or more.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The rules of a new filter, and the shape of its first layer.
    pub fn start(&self) -> (Classic, Shape) {
        let first = Shape::sized(self.capacity, self.first_rate(), self.rules.options);
        (self.rules, first)
    }

    /// The rules of the filter, with the options that current versions of RedisBloom give it.
    pub fn rules(&self) -> Classic {
        self.rules
    }
}

/// Bytes that RedisBloom reports for a filter without layers.
const OWN_BYTES: u64 = 32;
/// Bytes that RedisBloom reports for a layer besides its bit array.
const LAYER_BYTES: u64 = 64;

impl Rules for Classic {
    const LAYOUT: Layout = Layout::Classic;
    type Layer = Layer;
    type Hasher = Options;

    #[inline(always)]
    fn hasher(&self) -> &Options {
        &self.options
    }

    fn next(
        &self,
        mut layers: impl ExactSizeIterator<Item = Shape> + DoubleEndedIterator,
    ) -> Result<Shape, Error> {
        let newest = layers.next_back().ok_or(Error::Full { capacity: 0 })?;
        let capacity = newest.capacity.saturating_mul(u64::from(self.expansion));
        let error_rate = newest.error_rate * TIGHTENING;
        // An expansion of 0 was stored, or a larger one cut to 32 bits. A rate of 0 comes after some thousand layers.
        if !self.scales() || capacity == 0 || error_rate == 0.0 {
            return Err(Error::Full {
                capacity: newest.capacity,
            });
        }
        Ok(Shape::sized(capacity, error_rate, self.options))
    }

    fn growth_factor(&self) -> Option<u32> {
        self.scales().then_some(self.expansion)
    }

    fn described(&self, shape: Shape) -> LayerShape {
        LayerShape {
            capacity: shape.capacity,
            bytes: shape.bytes,
            bits: shape.bits,
            error_rate: shape.error_rate,
            lines_per_item: None,
            probes: shape.probes.into(),
            hash_width: Some(self.options().hash_width()),
        }
    }

    /// Double hashing keeps the rate only approximately.
    fn rate_of(&self, layers: &[Layer]) -> f64 {
        let first = layers.first().map_or(0.0, |layer| layer.shape().error_rate);
        (first / self.first_share()).min(1.0)
    }

    fn present_rate<'a>(layers: impl Iterator<Item = &'a Layer>) -> f64 {
        scattered::present_rate(layers)
    }

    /// What RedisBloom reports.
    fn own_bytes(layers: usize) -> u64 {
        OWN_BYTES + LAYER_BYTES * layers as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::bits::array::BitArray;
    use crate::bits::kernel::Portable;
    use crate::chain::batch::Subset;
    use crate::chain::{Chain, UNLIMITED, at_most};
    use crate::tests::stored::{naive_array, naive_probes};

    const MODERN: Options = Options(5);

    /// Every layer has bits, and a size that can be computed.
    #[test]
    fn classic_filters_have_a_rate_and_room() {
        let made = |rate, capacity, scales| ClassicSpec::new(rate, capacity, 2, scales).map(|_| ());
        for bad in [0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(made(bad, 1, true), Err(ParamError::ErrorRate), "{bad}");
        }
        // Half of it is 0.
        assert_eq!(made(5e-324, 1, true), Err(ParamError::ErrorRate));
        assert_eq!(made(5e-324, 1, false), Ok(()));
        assert_eq!(made(0.99, 0, true), Err(ParamError::Capacity));
        assert_eq!(made(0.99, u64::MAX, true), Ok(()));
    }

    fn filter(options: u32, capacity: u64, rate: f64) -> Chain<Classic> {
        let rules = Classic::stored(Options(options), 2);
        let first = Shape::sized(capacity, rate, rules.options);
        Chain::new((rules, first), UNLIMITED).unwrap()
    }

    /// Filters have the sizes that RedisBloom reports in BF.INFO and BF.DEBUG.
    #[test]
    fn sizes_are_redisbloom_s() {
        let sized = |capacity, rate| {
            let shape = Shape::sized(capacity, rate, MODERN);
            (shape.bytes, shape.bits, shape.probes)
        };
        assert_eq!(sized(100, 0.005), (144, 1152, 8));
        assert_eq!(sized(3200, 1.5625e-5), (9216, 73_728, 16));
        assert_eq!(sized(1000, 5e-8), (4376, 35_008, 25));
        assert_eq!(sized(1, 0.9), (8, 64, 1));
        // At powers of two, the last bit of the logarithm decides about one probe more or less.
        assert_eq!([0.125, 0.25, 0.5].map(|rate| sized(1, rate).2), [4, 3, 2]);
    }

    /// Layers of filters from early versions use, and count, the room that rounding up to a power of two gains.
    #[test]
    fn rounded_layers_use_all_of_their_bits() {
        let shape = Shape::sized(100, 0.005, Options(Options::FORCE64));
        assert_eq!((shape.n2, shape.bits, shape.bytes), (11, 2048, 256));
        assert_eq!(shape.capacity, 185);
        assert_eq!(shape.check(Options(Options::FORCE64)), Ok(()));
        let tiny = Shape::sized(1, 0.25, Options(0));
        assert_eq!((tiny.n2, tiny.modulus(), tiny.bits, tiny.bytes), (2, 4, 64, 8));
        assert_eq!(tiny.check(Options(0)), Ok(()));
    }

    /// A client that reserves an impossible filter gets an error, and neither crashes nor stalls the server.
    #[test]
    fn extremes_are_answered() {
        for options in [0, 5] {
            for rate in [5e-324, 1e-300, 0.25, 1.0 - f64::EPSILON] {
                for capacity in [1, 1 << 40, u64::MAX] {
                    let shape = Shape::sized(capacity, rate, Options(options));
                    assert!(shape.bytes >= 8 && shape.probes <= 1100, "{shape:?}");
                }
                let impossible = Layer::make(Shape::sized(u64::MAX, rate.min(0.25), Options(options)));
                assert!(matches!(impossible, Err(Error::OutOfMemory { .. })));
            }
        }
        let steep = Classic::stored(MODERN, u32::MAX);
        let mut chain = Chain::new((steep, Shape::sized(1, 1e-3, MODERN)), UNLIMITED).unwrap();
        let limit = &at_most((1 << 20) - 1);
        chain.add(b"a", limit).unwrap();
        assert!(matches!(chain.add(b"b", limit), Err(Error::OverLimit { .. })));
        assert_eq!(chain.add(b"a", limit), Ok(false));
    }

    /// Bits per item at a rate of 0.005, as RedisBloom stored it.
    const BITS_PER_ITEM: f64 = 11.027_753_418_256_411;

    /// A layer of an early RedisBloom: made for 100 items at 0.005, and for as many more as fit into its 2^11
    /// bits.
    const EARLY: Shape = Shape {
        capacity: 185,
        error_rate: 0.005,
        bits_per_item: BITS_PER_ITEM,
        bits: 2048,
        bytes: 256,
        probes: 8,
        n2: 11,
    };

    /// A filter from before 2019 grows the layers that it would grow in the RedisBloom that made it.
    #[test]
    fn layers_of_a_power_of_two_bits_have_early_sizes() {
        for options in [0, Options::FORCE64] {
            assert_eq!(Shape::sized(100, 0.005, Options(options)), EARLY);
        }
        // (items, rate, n2, capacity): even if a power of two is exactly enough, the next one is used.
        for (items, rate, n2, capacity) in [
            (1, 0.5, 1, 1),
            (1, 0.01, 4, 1),
            (93, 0.005, 11, 185),
            (92, 0.005, 10, 92),
            (1000, 0.01, 14, 1709),
            (1 << 40, 0.01, 44, 1_835_375_993_739),
        ] {
            let shape = Shape::sized(items, rate, Options(Options::FORCE64));
            assert_eq!((shape.n2, shape.capacity), (n2, capacity), "{items} at {rate}");
            let bits = 1_u64 << n2;
            assert_eq!(shape.modulus(), bits);
            assert_eq!(shape.bytes, bits.next_multiple_of(64) / 8, "{items} at {rate}");
            assert_eq!(shape.bits, 8 * shape.bytes, "{items} at {rate}");
            assert_eq!(
                shape.check(Options(Options::FORCE64)),
                Ok(()),
                "{items} at {rate}"
            );
        }
    }

    /// Good files of early RedisBlooms load. From a damaged one comes no filter that looks for items in the wrong
    /// places or reads beyond its bits.
    #[test]
    fn early_shapes_are_checked_field_by_field() {
        let power = Options(Options::FORCE64);
        let check = |shape: Shape, options: u32| shape.check(Options(options)).err();
        // 1024 to 2048 bits are right for 92.9 to 185.7 items.
        for (capacity, expected) in [
            (0, Some("capacity")),
            (1, Some("capacity")),
            (92, Some("capacity")),
            (93, None),
            (100, None),
            (185, None),
            (186, Some("capacity")),
            (1 << 40, Some("capacity")),
            (u64::MAX, Some("capacity")),
        ] {
            for options in [0, Options::FORCE64, Options::NO_SCALING] {
                let shape = Shape { capacity, ..EARLY };
                assert_eq!(check(shape, options), expected, "{capacity} items");
            }
        }
        for bits in [0, 1, 1024, 1984, 2040, 2047, 2049, 2056, 2112, 4096, u64::MAX] {
            assert_eq!(
                check(Shape { bits, ..EARLY }, power.word()),
                Some("bits"),
                "{bits} bits"
            );
        }
        for bytes in [0, 8, 128, 248, 255, 257, 264, 512, 1 << 61, u64::MAX] {
            let shape = Shape { bytes, ..EARLY };
            let expected = Some("bit array length");
            assert_eq!(check(shape, power.word()), expected, "{bytes} bytes");
        }
        for (n2, expected) in [
            (10, "capacity"),
            (12, "capacity"),
            (63, "capacity"),
            (64, "n2"),
            (255, "n2"),
        ] {
            assert_eq!(
                check(Shape { n2, ..EARLY }, power.word()),
                Some(expected),
                "n2 {n2}"
            );
        }
        for options in [
            Options::NOROUND,
            MODERN.word(),
            MODERN.word() | Options::NO_SCALING,
        ] {
            assert_eq!(check(EARLY, options), Some("n2"));
        }
        // Up to 2^63 bits.
        let most = Shape {
            capacity: (1 << 63) / 12,
            bits: 1 << 63,
            bytes: 1 << 60,
            n2: 63,
            ..EARLY
        };
        assert_eq!(check(most, power.word()), None);
        // Fewer bits than a word has, stored in a word or in a byte, counting all its bits or only the power
        // of two.
        let few = |bytes, bits| Shape {
            capacity: 1,
            error_rate: 0.6,
            bits_per_item: -(0.6_f64.ln() / 0.480_453_013_918_201),
            bits,
            bytes,
            probes: 1,
            n2: 1,
        };
        for (bytes, bits, is_known) in [
            (8, 64, true),
            (8, 2, true),
            (1, 8, true),
            (1, 2, true),
            (1, 64, false),
            (8, 8, false),
            (1, 1, false),
            (1, 4, false),
            (8, 63, false),
        ] {
            let expected = if is_known { None } else { Some("bits") };
            assert_eq!(
                check(few(bytes, bits), 0),
                expected,
                "{bits} bits in {bytes} bytes"
            );
        }
    }

    /// Good files of layers without a power of two bits load. From a damaged one comes no filter that looks for items in
    /// the wrong places or reads beyond its bits.
    #[test]
    fn other_shapes_are_checked_field_by_field() {
        let check = |shape: Shape, options: u32| shape.check(Options(options)).err();
        // The earliest layers have the 1102 bits that 100 items need, in whole bytes or words; later ones
        // count the bits gained by rounding up.
        let of = |bytes, bits| Shape {
            capacity: 100,
            bits,
            bytes,
            n2: 0,
            ..EARLY
        };
        for (bytes, bits, earliest, later) in [
            (138, 1102, None, Some("bits")),
            (144, 1102, None, Some("bits")),
            (138, 1104, Some("bits"), None),
            (144, 1152, Some("bits"), None),
            (138, 1103, Some("bits"), Some("bits")),
            (144, 1101, Some("bits"), Some("bits")),
            (144, 1153, Some("bits"), Some("bits")),
            (144, 1104, Some("bits"), Some("bits")),
            (137, 1096, Some("bit array length"), Some("bit array length")),
            (139, 1112, Some("bit array length"), Some("bit array length")),
            (152, 1216, Some("bit array length"), Some("bit array length")),
        ] {
            let what = format!("{bits} bits in {bytes} bytes");
            assert_eq!(check(of(bytes, bits), 0), earliest, "{what}");
            assert_eq!(check(of(bytes, bits), MODERN.word()), later, "{what}");
        }
        let capacity = |capacity| Shape {
            capacity,
            ..of(144, 1152)
        };
        assert_eq!(check(capacity(0), MODERN.word()), Some("capacity"));
        assert_eq!(check(capacity(u64::MAX), MODERN.word()), Some("bit array length"));
    }

    /// A filter that was loaded is saved as the same filter.
    #[test]
    fn a_layer_has_the_shape_that_it_was_made_from() {
        let few = Shape {
            capacity: 1,
            error_rate: 0.6,
            bits_per_item: -(0.6_f64.ln() / 0.480_453_013_918_201),
            bits: 2,
            bytes: 1,
            probes: 1,
            n2: 1,
        };
        let shapes = [
            EARLY,
            Shape {
                capacity: 93,
                ..EARLY
            },
            few,
            Shape { bits: 8, ..few },
            Shape { bytes: 8, ..few },
            Shape {
                bytes: 8,
                bits: 64,
                ..few
            },
            Shape {
                capacity: 100,
                bits: 1102,
                bytes: 138,
                n2: 0,
                ..EARLY
            },
            Shape {
                capacity: 100,
                bits: 1152,
                bytes: 144,
                n2: 0,
                ..EARLY
            },
        ];
        for shape in shapes {
            let array = BitArray::zeroed(shape.bytes.div_ceil(8)).unwrap();
            let layer = shape.with_bits(array);
            assert_eq!(layer.shape(), shape);
            assert_eq!(layer.array().len() as u64, shape.bytes);
        }
    }

    /// Rates that are halved often enough become 0, which no layer can have: the filter is full then.
    #[test]
    fn growth_ends_where_rates_end() {
        for (expansion, rate) in [(2, 5e-324), (0, 0.01)] {
            let rules = Classic::stored(MODERN, expansion);
            let mut chain = Chain::new((rules, Shape::sized(1, rate, MODERN)), UNLIMITED).unwrap();
            assert_eq!(chain.add(b"a", UNLIMITED), Ok(true));
            assert_eq!(chain.add(b"b", UNLIMITED), Err(Error::Full { capacity: 1 }));
        }
    }

    /// BF.CARD counts as RedisBloom's does, and a full filter still finds what it holds.
    #[test]
    fn filters_that_cannot_grow_end_at_their_capacity() {
        let spec = |expansion, scales| ClassicSpec::new(0.01, 3, expansion, scales).unwrap();
        let rules = spec(2, false).rules();
        assert_eq!((rules.options.word(), rules.expansion), (13, 2));
        let (_, first) = spec(2, false).start();
        assert_eq!(first.error_rate, 0.01);
        let mut chain = Chain::new((rules, first), UNLIMITED).unwrap();
        for item in [b"a", b"b", b"c"] {
            assert_eq!(chain.add(item, UNLIMITED), Ok(true));
            assert_eq!(chain.add(item, UNLIMITED), Ok(false));
        }
        assert_eq!(chain.add(b"d", UNLIMITED), Err(Error::Full { capacity: 3 }));
        assert_eq!(chain.add(b"c", UNLIMITED), Ok(false));
        assert_eq!(chain.layers()[0].items(), 3);
        let growing = spec(7, true).rules();
        assert_eq!((growing.options.word(), growing.expansion), (5, 7));
    }

    proptest! {
        /// The bits are where RedisBloom sets them, for filters of every version.
        #[test]
        fn layers_are_the_naive_model(
            options in prop::sample::select(vec![0u32, 1, 4, 5, 12, 13]),
            capacity in 1u64..300,
            exponent in 1i32..40,
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..200),
        ) {
            let rate = 0.5f64.powi(exponent) * 0.7;
            let options = Options(options);
            let mut layer = Layer::make(Shape::sized(capacity, rate, options)).unwrap();
            let shape = layer.shape();
            prop_assert_eq!(shape.check(options), Ok(()));
            let mut set = HashSet::new();
            let mut counted = 0;
            for item in &items {
                let bits = naive_probes(shape.modulus(), shape.probes, options, item);
                let is_new = bits.iter().any(|bit| !set.contains(bit));
                set.extend(bits);
                counted += u64::from(is_new);
                let hash = options.hash(item.into());
                prop_assert_eq!(layer.contains(Portable, hash), !is_new);
                prop_assert_eq!(layer.insert(Portable, hash), is_new);
                prop_assert!(layer.contains(Portable, hash));
            }
            let expected = naive_array(shape.bytes as usize, shape.modulus(), shape.probes, options, &items);
            prop_assert_eq!(layer.array(), &expected[..]);
            prop_assert_eq!(layer.items(), counted);
            prop_assert_eq!(layer.ones(), set.len() as u64);
        }

        /// A filter that grows keeps its items, and a batch does what single items do.
        #[test]
        fn chains_forget_nothing(
            options in prop::sample::select(vec![0u32, 1, 4, 5]),
            capacity in 1u64..50,
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 1..500),
        ) {
            let mut one_by_one = filter(options, capacity, 0.05);
            let mut known = HashSet::new();
            for item in &items {
                let added = one_by_one.add(item, UNLIMITED).unwrap();
                prop_assert!(known.insert(item) || !added);
            }
            let mut batch = filter(options, capacity, 0.05);
            batch.add_blocks(items.iter().map(Vec::as_slice), UNLIMITED, |_, _| ()).unwrap();
            for chain in [&one_by_one, &batch] {
                prop_assert!(items.iter().all(|item| chain.contains(item)));
                let mut all = true;
                chain.contains_blocks(items.iter().map(Vec::as_slice), |found, block| {
                    all &= found == Subset::first(block.count);
                });
                prop_assert!(all);
            }
            let arrays = |chain: &Chain<Classic>| -> Vec<_> {
                chain.layers().iter().map(|layer| (layer.array().to_vec(), layer.items())).collect()
            };
            prop_assert_eq!(arrays(&one_by_one), arrays(&batch));
        }
    }
}
