//! valkey-bloom's layout, bit for bit. docs/design.md has its formulae, under "valkey-bloom's layout".
//!
//! An item's probes are anywhere in the array, each in a cache line of its own. They are computed from two hashes,
//! which are SipHash-1-3 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012).
//!
//! In memory, as in valkey-bloom, a head of 45 bytes precedes a layer's bits: it is saved and loaded in one piece.

pub(crate) mod shape;

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::chain::batch::Hasher;
use crate::chain::{LayerShape, MOST_ITEMS, MOST_LAYERS, Rules};
use crate::error::{Error, ParamError, require};
use crate::item::{Item, ItemHash};
use crate::layouts::power::power;
use crate::layouts::scattered;
use crate::params::{Layout, SipSeed, Tightening};
pub use shape::{HEAD_BYTES, Layer, Shape};

/// Bytes that valkey-bloom reports for a filter without its layers.
const OWN_BYTES: u64 = 48;
/// Bytes that valkey-bloom reports for a layer, without its bits and its entry in the list of layers.
const LAYER_BYTES: u64 = 208;

impl Hasher for SipSeed {
    #[inline(always)]
    fn hash(&self, item: Item<'_>) -> ItemHash {
        let (item, keys) = (item.bytes(), self.0.as_chunks::<16>().0);
        let [low, high] = [0, 1].map(|hash| {
            let mut hasher = SipHasher13::new_with_key(&keys[hash]);
            hasher.write_u64(item.len() as u64);
            hasher.write(item);
            hasher.finish()
        });
        ItemHash { low, high }
    }
}

/// Rules of a filter in valkey-bloom's layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Valkey {
    seed: SipSeed,
    error_rate: f64,
    tightening: Tightening,
    /// 0 if the filter does not grow.
    expansion: u32,
}

impl Valkey {
    /// Checks the parameters: the rate is strictly between 0 and 1. With an expansion of 0 the filter does not grow.
    pub fn new(
        error_rate: f64,
        expansion: u32,
        tightening: Tightening,
        seed: SipSeed,
    ) -> Result<Self, ParamError> {
        require(error_rate > 0.0 && error_rate < 1.0, ParamError::ErrorRate)?;
        Ok(Self {
            seed,
            error_rate,
            tightening,
            expansion,
        })
    }

    /// These rules with another seed.
    pub fn with_seed(self, seed: SipSeed) -> Self {
        Self { seed, ..self }
    }

    /// The shape of the first layer, for `capacity` items.
    pub fn first(&self, capacity: u64) -> Shape {
        Shape::sized(capacity, self.error_rate, self.seed)
    }

    /// The filter's false positive rate, strictly between 0 and 1.
    pub fn error_rate(&self) -> f64 {
        self.error_rate
    }

    /// The ratio of a layer's rate to that of the layer before it.
    pub fn tightening(&self) -> Tightening {
        self.tightening
    }

    /// The ratio of the next layer's capacity to the newest layer's; 0 if the filter does not grow.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// The keys of the hashes.
    pub fn seed(&self) -> SipSeed {
        self.seed
    }

    /// The rate of layer `index`; `None` if it is too close to 0.
    pub(crate) fn rate(&self, index: usize) -> Option<f64> {
        let rate = self.error_rate * power(self.tightening.value(), index as u64);
        (rate > f64::MIN_POSITIVE || index == 0).then_some(rate)
    }

    /// The shape of layer `index` after one for `before` items; `None` if there can be no such layer.
    pub(crate) fn layer(&self, index: usize, before: u64) -> Option<Shape> {
        let capacity = before.checked_mul(self.expansion.into())?;
        (capacity > 0).then_some(())?;
        Some(Shape::sized(capacity, self.rate(index)?, self.seed))
    }

    /// The capacity of a filter once it has grown to hold `wanted` items, if its first layer is for `first` items. It has at
    /// most [`MOST_LAYERS`] layers and, with a `limit`, that many bytes.
    pub fn scaled_capacity(&self, first: u64, wanted: u64, limit: Option<u64>) -> Result<u64, Unreached> {
        let (mut next, mut capacity, mut arrays) = (self.first(first), 0_u64, 0_u64);
        for layers in 1..=MOST_LAYERS {
            arrays = arrays.saturating_add(next.bytes);
            let with_it = capacity.saturating_add(next.capacity);
            let is_within = limit.is_none_or(|limit| Self::bytes(layers, arrays) <= limit);
            require(is_within, Unreached::Bytes(capacity))?;
            require(with_it <= MOST_ITEMS, Unreached::Items(capacity))?;
            capacity = with_it;
            if capacity >= wanted {
                return Ok(capacity);
            }
            require(self.rate(layers).is_some(), Unreached::Rate(capacity))?;
            let further = self.layer(layers, next.capacity);
            next = further.ok_or(Unreached::Items(capacity))?;
        }
        Err(Unreached::Layers(capacity))
    }
}

/// What a new filter of this layout is made from, as valkey-bloom accepts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValkeySpec {
    rules: Valkey,
    capacity: u64,
}

impl ValkeySpec {
    /// Checks the parameters as [`Valkey::new`] does, and that the capacity is 1 to 2^63 - 1.
    pub fn new(
        error_rate: f64,
        capacity: u64,
        expansion: u32,
        tightening: Tightening,
        seed: SipSeed,
    ) -> Result<Self, ParamError> {
        let rules = Valkey::new(error_rate, expansion, tightening, seed)?;
        require((1..=MOST_ITEMS).contains(&capacity), ParamError::Capacity)?;
        Ok(Self { rules, capacity })
    }

    /// Items that the first layer is made for, 1 or more.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The rules of a new filter, and the shape of its first layer.
    pub fn start(&self) -> (Valkey, Shape) {
        (self.rules, self.rules.first(self.capacity))
    }

    /// The rules of the filter.
    pub fn rules(&self) -> Valkey {
        self.rules
    }
}

/// Why a filter cannot grow to the wanted capacity, and the capacity that it can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// The next layer would exceed the memory limit.
    Bytes(u64),
    /// The rate of the next layer would be 0.
    Rate(u64),
    /// With the next layer the capacity would exceed [`MOST_ITEMS`].
    Items(u64),
    /// The filter would need more than [`MOST_LAYERS`] layers.
    Layers(u64),
}

impl Unreached {
    /// The capacity that the filter can reach.
    pub fn capacity(self) -> u64 {
        let (Self::Bytes(capacity) | Self::Rate(capacity) | Self::Items(capacity) | Self::Layers(capacity)) =
            self;
        capacity
    }
}

impl Rules for Valkey {
    const LAYOUT: Layout = Layout::Valkey;
    type Layer = Layer;
    type Hasher = SipSeed;

    #[inline(always)]
    fn hasher(&self) -> &SipSeed {
        &self.seed
    }

    fn next(
        &self,
        mut layers: impl ExactSizeIterator<Item = Shape> + DoubleEndedIterator,
    ) -> Result<Shape, Error> {
        let index = layers.len();
        let newest = layers.next_back().ok_or(Error::Full { capacity: 0 })?;
        let full = Error::Full {
            capacity: newest.capacity,
        };
        self.layer(index, newest.capacity).ok_or(full)
    }

    fn growth_factor(&self) -> Option<u32> {
        (self.expansion > 0).then_some(self.expansion)
    }

    fn described(&self, shape: Shape) -> LayerShape {
        LayerShape {
            capacity: shape.capacity,
            bytes: shape.bytes,
            bits: shape.bits(),
            error_rate: shape.error_rate,
            lines_per_item: None,
            probes: shape.probes.into(),
            hash_width: None,
        }
    }

    fn rate_of(&self, _: &[Layer]) -> f64 {
        self.error_rate
    }

    fn present_rate<'a>(layers: impl Iterator<Item = &'a Layer>) -> f64 {
        scattered::present_rate(layers)
    }

    /// What valkey-bloom reports. Its list of layers has room for one, then four, and then twice as many each time.
    fn own_bytes(layers: usize) -> u64 {
        let room = match layers {
            0 | 1 => layers,
            more => more.next_power_of_two().max(4),
        };
        OWN_BYTES + 8 * room as u64 + LAYER_BYTES * layers as u64
    }
}
