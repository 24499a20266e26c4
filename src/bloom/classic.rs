//! A classic layer: RedisBloom's bits, exactly.
//!
//! # Probes
//! An item has two hashes, `a = MurmurHash64A(item, 0xc6a4a7935bd1e995)` and `b = MurmurHash64A(item, a)`.
//! Probe `i` of `k` is bit `(a + i·b mod 2^64) mod bits`, anywhere in the array: `k` cache lines an item.
//! (Kirsch, Mitzenmacher, "Less Hashing, Same Performance", 2006.) Two things differ in filters that were
//! made before RedisBloom had them, and live on in their chains:
//!
//! - without the option [`FORCE64`](Options::FORCE64), `a` and `b` are MurmurHash2 of 32 bits, with the seeds
//!   0x9747b28c and `a`;
//! - without [`NOROUND`](Options::NOROUND), the number of bits is `2^n2`. (RedisBloom computes in 32 bits
//!   there when `n2 < 32`; modulo a power of two that makes no difference.)
//!
//! # Sizes
//! A layer for `n` items at rate `e` has `bpe = -ln(e) / 0.480453013918201` bits per item (`ln² 2`, cut
//! off), `k = ceil(0.693147180559945 · bpe)` probes (`ln 2`, cut off) and `max(1, trunc(n · bpe))` bits,
//! rounded up to whole words; or, without `NOROUND`, `2^n2` bits with `n2 = floor(log2(n · bpe)) + 1`, and
//! room for `trunc((2^n2 - n · bpe) / bpe)` more items. The first layer has half of the rate that was asked
//! for (all of it, if it stays the only one), and each further layer half of the rate before it: the sum
//! stays below what was asked for.

use super::batch::{self, Hasher, Hashes, Items, Memory, Prefetch};
use super::bits::{BitArray, OutOfRange};
use super::chain::{Plan, Rules};
use super::error::Error;
use super::hash::{Item, ItemHash};
use super::kernel::{Kernel, prefetch};
use super::ln::ln;
use super::memory::{Allocation, Mover};
use super::modulus::Modulus;
use super::murmur;
use super::params::ClassicSpec;

/// `ln² 2` as RedisBloom has it: its sizes depend on where it was cut off.
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;
/// `ln 2` as RedisBloom has it.
#[expect(
    clippy::approx_constant,
    reason = "cut off like RedisBloom's, and not the nearest double"
)]
const LN_2: f64 = 0.693_147_180_559_945;
/// What the next layer's rate is to the newest one's.
const TIGHTENING: f64 = ClassicSpec::TIGHTENING;
/// How far apart, relatively, the logarithms of a rate may be: one libm's last bits differ from another's.
const LOGARITHM_TOLERANCE: f64 = 1e-12;
/// The probes that tell most absent items: half of the bits of a full layer are set, so an eighth of them
/// has more to read.
const FIRST: usize = 3;
/// The newest layers whose first words are fetched ahead for one item.
const PREFETCHED_LAYERS: usize = 4;
/// The most probes of an item that are fetched ahead; rates tighter than 1e-4 have more.
const PREFETCHED: usize = 16;

/// The options word of a filter, as RedisBloom stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(u32);

impl Options {
    /// Layers have the bits that they need, not a power of two.
    pub const NOROUND: u32 = 1;
    /// Hashes have 64 bits, not 32.
    pub const FORCE64: u32 = 4;
    /// The filter does not grow.
    pub const NO_SCALING: u32 = 8;

    /// The word, unless it has options that no filter of RedisBloom's commands has.
    pub fn new(word: u32) -> Option<Self> {
        (word & !(Self::NOROUND | Self::FORCE64 | Self::NO_SCALING) == 0).then_some(Self(word))
    }

    /// The word.
    pub fn word(self) -> u32 {
        self.0
    }

    /// Whether the filter has all of `options`.
    pub fn has(self, options: u32) -> bool {
        self.0 & options == options
    }

    /// Bits of each of an item's two hashes.
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

/// What a layer is made from, and what storage keeps of it besides its items and bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Items that it is made for.
    pub capacity: u64,
    /// The rate that it is made for.
    pub error_rate: f64,
    /// Bits per item.
    pub bits_per_item: f64,
    /// Bits that probes fall into, unless `n2` says otherwise.
    pub bits: u64,
    /// Bytes of the bit array.
    pub bytes: u64,
    /// Probes of an item.
    pub hashes: u32,
    /// If not 0, probes fall into the first `2^n2` bits.
    pub n2: u8,
}

impl Shape {
    /// The layer for `capacity` items at `error_rate`, strictly between 0 and 1.
    pub fn sized(capacity: u64, error_rate: f64, options: Options) -> Self {
        let bits_per_item = bits_per_item(error_rate);
        let wanted = capacity as f64 * bits_per_item;
        let mut shape = Self {
            capacity,
            error_rate,
            bits_per_item,
            bits: 0,
            bytes: 0,
            hashes: hashes(bits_per_item),
            n2: 0,
        };
        let bits = if options.has(Options::NOROUND) {
            at_least_one_bit(wanted)
        } else {
            // wanted is 1 or more, so its exponent field is its logarithm's floor.
            shape.n2 = ((wanted.max(1.0).to_bits() >> 52) as u16 - 1023 + 1).min(64) as u8;
            let bits = 1u64.checked_shl(u32::from(shape.n2)).unwrap_or(u64::MAX);
            let more = (bits as f64 - wanted) / bits_per_item;
            shape.capacity = capacity.saturating_add(more as u64);
            bits
        };
        shape.bytes = bytes_of_words(bits);
        shape.bits = shape.bytes.saturating_mul(8);
        shape
    }

    /// Whether this stored shape is one that some version of RedisBloom gives a layer of a filter with
    /// `options`. If not, names a field that is wrong.
    ///
    /// Early versions rounded the bit array up to a byte instead of a word, and did not count the bits
    /// gained; the earliest had neither `NOROUND` nor powers of two. The logarithm in `bits_per_item` may
    /// have another libm's last bits; all the rest follows from the stored fields, to the bit.
    pub(super) fn check(&self, options: Options) -> Result<(), &'static str> {
        let Self {
            capacity,
            error_rate,
            bits_per_item: per_item,
            bits,
            bytes,
            hashes: probes,
            n2,
        } = *self;
        if !(error_rate > 0.0 && error_rate < 1.0) {
            return Err("error rate");
        }
        let off = (per_item / bits_per_item(error_rate) - 1.0).abs();
        if off.is_nan() || off > LOGARITHM_TOLERANCE {
            return Err("bits per item");
        }
        if probes != hashes(per_item) {
            return Err("hashes");
        }
        if capacity == 0 {
            return Err("capacity");
        }
        if n2 > 63 || (n2 > 0 && options.has(Options::NOROUND)) {
            return Err("n2");
        }
        let wanted = capacity as f64 * per_item;
        let needed = if n2 == 0 {
            at_least_one_bit(wanted)
        } else {
            // The capacity was raised to what fits, up to rounding.
            let power = (1u64 << n2) as f64;
            if wanted < power / 2.0 || wanted > power * (1.0 + LOGARITHM_TOLERANCE) {
                return Err("capacity");
            }
            1 << n2
        };
        if bytes != needed.div_ceil(8) && bytes != bytes_of_words(needed) {
            return Err("bit array length");
        }
        let all = bytes.saturating_mul(8);
        let known = if n2 > 0 {
            bits == all || bits == needed
        } else if options.has(Options::NOROUND) {
            bits == all
        } else {
            bits == needed
        };
        if !known {
            return Err("bits");
        }
        Ok(())
    }

    /// Bits that probes fall into.
    pub fn modulus(&self) -> u64 {
        match self.n2 {
            0 => self.bits,
            n2 => 1u64.checked_shl(u32::from(n2)).unwrap_or(u64::MAX),
        }
    }
}

fn bits_per_item(error_rate: f64) -> f64 {
    -(ln(error_rate) / LN_2_SQUARED)
}

fn hashes(bits_per_item: f64) -> u32 {
    (LN_2 * bits_per_item).ceil() as u32
}

fn at_least_one_bit(bits: f64) -> u64 {
    (bits as u64).max(1)
}

fn bytes_of_words(bits: u64) -> u64 {
    bits.div_ceil(64) * 8
}

impl Plan<Layer> for Shape {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn make(self) -> Result<Layer, Error> {
        Ok(Layer::stored(self, BitArray::zeroed(self.bytes.div_ceil(8))?))
    }
}

// Small filters are many; this is one of the allocator's sizes.
const _: () = assert!(size_of::<Layer>() == 80);

/// One layer of a classic filter, with of its shape what does not follow from the rest.
#[derive(Debug)]
pub struct Layer {
    /// Whole words.
    bits: BitArray<u64>,
    modulus: Modulus,
    items: u64,
    capacity: u64,
    error_rate: f64,
    bits_per_item: f64,
    hashes: u16,
    n2: u8,
    /// Bytes of the last word that lie beyond the shape's, and are never set.
    beyond: u8,
    /// Whether the shape's bits are all those of its bytes.
    whole_bytes: bool,
}

impl Layer {
    /// A layer of that shape, which has that bit array. The caller has checked that they suit.
    pub(super) fn stored(shape: Shape, bits: BitArray<u64>) -> Self {
        let array = bits.bytes().len() as u64;
        Self {
            modulus: Modulus::new(shape.modulus()),
            items: 0,
            capacity: shape.capacity,
            error_rate: shape.error_rate,
            bits_per_item: shape.bits_per_item,
            // The tightest rate that a double holds has 1075.
            hashes: shape.hashes as u16,
            n2: shape.n2,
            beyond: (array - shape.bytes) as u8,
            whole_bytes: shape.bits == shape.bytes.saturating_mul(8),
            bits,
        }
    }

    /// What the layer was made from.
    pub fn shape(&self) -> Shape {
        let bytes = self.array_bytes();
        Shape {
            capacity: self.capacity,
            error_rate: self.error_rate,
            bits_per_item: self.bits_per_item,
            bits: if self.whole_bytes {
                bytes.saturating_mul(8)
            } else {
                self.modulus.value()
            },
            bytes,
            hashes: self.hashes.into(),
            n2: self.n2,
        }
    }

    /// Bytes of the bit array, as many as the shape has.
    fn array_bytes(&self) -> u64 {
        self.bits.bytes().len() as u64 - u64::from(self.beyond)
    }

    /// The bit array, in words.
    pub fn bits(&self) -> &BitArray<u64> {
        &self.bits
    }

    /// The bytes of the bit array, as many as the shape has.
    pub fn array(&self) -> &[u8] {
        &self.bits.bytes()[..self.array_bytes() as usize]
    }

    /// Sets, from byte `offset` on, the bits that are set in `bytes`.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not fit; nothing changed.
    pub(super) fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(OutOfRange)?;
        if end > self.array_bytes() {
            return Err(OutOfRange);
        }
        self.bits.merge(offset, bytes)
    }

    /// Takes over the count of a stored layer.
    pub(super) fn restore(&mut self, items: u64) {
        self.items = items;
    }

    /// What asks for the first `words` words of items.
    #[inline(always)]
    fn first_words(&self, words: usize) -> Words<'_> {
        Words { layer: self, words }
    }

    /// Whether the first words of an item leave it open that the layer contains it.
    #[inline(always)]
    fn may_contain(&self, hash: ItemHash) -> bool {
        self.probes(hash)
            .take(FIRST)
            .all(|(word, mask)| self.bits.units()[word] & mask != 0)
    }

    /// The item's probes: the index of a word, and a mask of one bit.
    #[inline(always)]
    fn probes(&self, hash: ItemHash) -> impl Iterator<Item = (usize, u64)> + use<> {
        let ItemHash { low, high } = hash;
        let modulus = self.modulus;
        (0..u64::from(self.hashes)).map(move |probe| {
            let bit = modulus.remainder(low.wrapping_add(high.wrapping_mul(probe)));
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }
}

/// Asks for the first words of items.
#[derive(Clone, Copy)]
struct Words<'a> {
    layer: &'a Layer,
    words: usize,
}

impl Prefetch for Words<'_> {
    #[inline(always)]
    fn prefetch(self, hash: ItemHash) {
        for (word, _) in self.layer.probes(hash).take(self.words) {
            prefetch(&self.layer.bits.units()[word]);
        }
    }
}

impl batch::Layer for Layer {
    const UNIT: usize = size_of::<u64>();

    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn items(&self) -> u64 {
        self.items
    }

    fn bytes(&self) -> u64 {
        self.array_bytes()
    }

    fn allocation(&self) -> Option<Allocation> {
        self.bits.allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.bits.relocate(mover);
    }

    const SCATTERED: bool = true;
    const ONE_BY_ONE: usize = usize::MAX;

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        self.first_words(PREFETCHED)
    }

    #[inline(always)]
    fn prefetch_first(&self, hash: ItemHash) {
        self.first_words(FIRST).prefetch(hash);
    }

    #[inline(always)]
    fn prefetcher_to_ask(&self) -> impl Prefetch {
        self.first_words(FIRST)
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, _: K, hash: ItemHash) -> bool {
        self.probes(hash)
            .all(|(word, mask)| self.bits.units()[word] & mask != 0)
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Items, memory: Memory) -> Items {
        // The rest of an item's many words is asked for only where the first ones leave it open.
        if memory != Memory::AskedFor {
            for at in items {
                self.prefetch_first(hashes[at]);
            }
        }
        let (mut possible, mut found) = (Items::NONE, Items::NONE);
        for at in items {
            let is_possible = self.may_contain(hashes[at]);
            if is_possible {
                self.prefetcher().prefetch(hashes[at]);
            }
            possible.put_if(at, is_possible);
        }
        for at in possible {
            found.put_if(at, self.contains(kernel, hashes[at]));
        }
        found
    }

    #[inline(always)]
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool {
        for layer in layers.iter().rev().take(PREFETCHED_LAYERS) {
            layer.prefetch_first(hash);
        }
        layers.iter().rev().any(|layer| layer.contains(kernel, hash))
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, _: K, hash: ItemHash) -> bool {
        let mut newly_set = 0;
        for (word, mask) in self.probes(hash) {
            // A page that is only read stays shared with a forked child that saves the filter.
            if self.bits.units()[word] & mask == 0 {
                self.bits.units_mut()[word] |= mask;
                newly_set += 1;
            }
        }
        self.bits.count_set(newly_set);
        self.items += u64::from(newly_set > 0);
        newly_set > 0
    }
}

/// The rules of classic filters: RedisBloom's options and expansion, as it stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classic {
    options: Options,
    expansion: u32,
}

impl Classic {
    /// The rules of a new filter, as today's RedisBloom makes it.
    pub fn new(spec: ClassicSpec) -> Self {
        let usual = Options::FORCE64 | Options::NOROUND;
        let fixed = if spec.scales() { 0 } else { Options::NO_SCALING };
        Self {
            options: Options(usual | fixed),
            expansion: spec.expansion(),
        }
    }

    /// The rules of a stored filter.
    pub(super) fn stored(options: Options, expansion: u32) -> Self {
        Self { options, expansion }
    }

    /// The first layer of a new filter.
    pub fn first(&self, spec: ClassicSpec) -> Shape {
        Shape::sized(spec.capacity(), spec.first_rate(), self.options)
    }

    /// The share of a filter's error rate that its first layer has.
    pub fn first_share(&self) -> f64 {
        if self.scales() { TIGHTENING } else { 1.0 }
    }

    /// Whether the filter grows.
    pub fn scales(&self) -> bool {
        !self.options.has(Options::NO_SCALING)
    }

    /// The options word.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The expansion as it is stored, also in a filter that does not grow.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }
}

impl Rules for Classic {
    type Layer = Layer;
    type Plan = Shape;
    type Hasher = Options;

    #[inline(always)]
    fn hasher(&self) -> &Options {
        &self.options
    }

    fn plan_of(layer: &Layer) -> Shape {
        layer.shape()
    }

    fn next(&self, layers: impl ExactSizeIterator<Item = Shape>) -> Result<Shape, Error> {
        let newest = layers.last().ok_or(Error::Full { capacity: 0 })?;
        let capacity = newest.capacity.saturating_mul(u64::from(self.expansion));
        let error_rate = newest.error_rate * TIGHTENING;
        // An expansion of 0 comes from storage, or from RedisBloom's cutting a larger one to 32 bits; a rate of 0,
        // after some thousand layers.
        if !self.scales() || capacity == 0 || error_rate == 0.0 {
            return Err(Error::Full {
                capacity: newest.capacity,
            });
        }
        Ok(Shape::sized(capacity, error_rate, self.options))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::super::batch::Layer as _;
    use super::super::chain::{Chain, UNLIMITED, at_most};
    use super::super::codec::stored::{naive_array, naive_probes};
    use super::super::kernel::Portable;
    use super::*;

    const MODERN: Options = Options(5);

    fn filter(options: u32, capacity: u64, rate: f64) -> Chain<Classic> {
        let rules = Classic::stored(Options(options), 2);
        let first = Shape::sized(capacity, rate, rules.options);
        Chain::new(rules, first, UNLIMITED).unwrap()
    }

    /// BF.INFO and BF.DEBUG of RedisBloom show these: memory was planned with them.
    #[test]
    fn sizes_are_redisbloom_s() {
        let sized = |capacity, rate| {
            let shape = Shape::sized(capacity, rate, MODERN);
            (shape.bytes, shape.bits, shape.hashes)
        };
        assert_eq!(sized(100, 0.005), (144, 1152, 8));
        assert_eq!(sized(3200, 1.5625e-5), (9216, 73_728, 16));
        assert_eq!(sized(1000, 5e-8), (4376, 35_008, 25));
        assert_eq!(sized(1, 0.9), (8, 64, 1));
        // Powers of two are where one probe more or less is a matter of the last bit.
        assert_eq!([0.125, 0.25, 0.5].map(|rate| sized(1, rate).2), [4, 3, 2]);
    }

    /// Filters of early versions grow in powers of two, and count what that gains.
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

    /// A client that reserves the impossible gets an answer.
    #[test]
    fn extremes_are_answered() {
        for options in [0, 5] {
            for rate in [5e-324, 1e-300, 0.25, 1.0 - f64::EPSILON] {
                for capacity in [1, 1 << 40, u64::MAX] {
                    let shape = Shape::sized(capacity, rate, Options(options));
                    assert!(shape.bytes >= 8 && shape.hashes <= 1100, "{shape:?}");
                }
                let impossible = Shape::sized(u64::MAX, rate.min(0.25), Options(options)).make();
                assert!(matches!(impossible, Err(Error::OutOfMemory { .. })));
            }
        }
        let steep = Classic::stored(MODERN, u32::MAX);
        let mut chain = Chain::new(steep, Shape::sized(1, 1e-3, MODERN), UNLIMITED).unwrap();
        let limit = &at_most((1 << 20) - 1);
        chain.add(b"a", limit).unwrap();
        assert!(matches!(chain.add(b"b", limit), Err(Error::OverLimit { .. })));
        assert_eq!(chain.add(b"a", limit), Ok(false));
    }

    /// Halving a rate for ever ends at 0, which no layer can have.
    #[test]
    fn growth_ends_where_rates_end() {
        for (expansion, rate) in [(2, 5e-324), (0, 0.01)] {
            let rules = Classic::stored(MODERN, expansion);
            let mut chain = Chain::new(rules, Shape::sized(1, rate, MODERN), UNLIMITED).unwrap();
            assert_eq!(chain.add(b"a", UNLIMITED), Ok(true));
            assert_eq!(chain.add(b"b", UNLIMITED), Err(Error::Full { capacity: 1 }));
        }
    }

    /// BF.CARD counts as RedisBloom counts, and a full filter still knows what it holds.
    #[test]
    fn filters_that_cannot_grow_end_at_their_capacity() {
        let spec = |expansion, scales| ClassicSpec::new(0.01, 3, expansion, scales).unwrap();
        let rules = Classic::new(spec(2, false));
        assert_eq!((rules.options.word(), rules.expansion), (13, 2));
        let first = rules.first(spec(2, false));
        assert_eq!(first.error_rate, 0.01);
        let mut chain = Chain::new(rules, first, UNLIMITED).unwrap();
        for item in [b"a", b"b", b"c"] {
            assert_eq!(chain.add(item, UNLIMITED), Ok(true));
            assert_eq!(chain.add(item, UNLIMITED), Ok(false));
        }
        assert_eq!(chain.add(b"d", UNLIMITED), Err(Error::Full { capacity: 3 }));
        assert_eq!(chain.add(b"c", UNLIMITED), Ok(false));
        assert_eq!(chain.layers()[0].items(), 3);
        let growing = Classic::new(spec(7, true));
        assert_eq!((growing.options.word(), growing.expansion), (5, 7));
    }

    proptest! {
        /// Whatever was added is found, in every kind of filter that there ever was, and each bit is where
        /// RedisBloom would have set it.
        #[test]
        fn layers_are_the_naive_model(
            options in prop::sample::select(vec![0u32, 1, 4, 5, 12, 13]),
            capacity in 1u64..300,
            exponent in 1i32..40,
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..200),
        ) {
            let rate = 0.5f64.powi(exponent) * 0.7;
            let options = Options(options);
            let mut layer = Shape::sized(capacity, rate, options).make().unwrap();
            let shape = layer.shape();
            prop_assert_eq!(shape.check(options), Ok(()));
            let mut set = HashSet::new();
            let mut counted = 0;
            for item in &items {
                let bits = naive_probes(shape.modulus(), shape.hashes, options, item);
                let is_new = bits.iter().any(|bit| !set.contains(bit));
                set.extend(bits);
                counted += u64::from(is_new);
                let hash = options.hash(item.into());
                prop_assert_eq!(layer.contains(Portable, hash), !is_new);
                prop_assert_eq!(layer.insert(Portable, hash), is_new);
                prop_assert!(layer.contains(Portable, hash));
            }
            let expected = naive_array(shape.bytes as usize, shape.modulus(), shape.hashes, options, &items);
            prop_assert_eq!(layer.array(), &expected[..]);
            prop_assert_eq!(layer.items(), counted);
            prop_assert_eq!(layer.bits().ones(), set.len() as u64);
        }

        /// No item is forgotten while a filter grows, whether items come alone or in batches.
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
            batch.add_all(items.iter().map(Vec::as_slice), UNLIMITED, |_| ()).unwrap();
            for chain in [&one_by_one, &batch] {
                prop_assert!(items.iter().all(|item| chain.contains(item)));
                let mut all = true;
                chain.contains_all(items.iter().map(Vec::as_slice), |found| all &= found);
                prop_assert!(all);
            }
            let arrays = |chain: &Chain<Classic>| -> Vec<_> {
                chain.layers().iter().map(|layer| (layer.array().to_vec(), layer.items())).collect()
            };
            prop_assert_eq!(arrays(&one_by_one), arrays(&batch));
        }
    }
}
