//! valkey-bloom's layout, bit for bit.
//!
//! # Probes
//! An item has two hashes, `a` and `b`: SipHash-1-3 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012),
//! keyed with the first and the last 16 bytes of the filter's seed, of the item's length as 8 bytes and then the item.
//! Probes 0 and 1 are bits `a mod bits` and `b mod bits`; probe `i` of the others is bit
//! `((a + i·b mod 2^64) mod (2^64 - 59)) mod bits`, where `2^64 - 59` is the largest prime below `2^64`. They are
//! anywhere in the array: `k` cache lines an item.
//!
//! # Sizes
//! Layer `i` (from 0) has the rate `e · t^i`, where `e` is the filter's rate and `t` its tightening ratio, and the
//! capacity of the layer before it times the expansion. A layer for `n` items at rate `p` has
//! `ceil(-n · ln p / (8 · ln² 2))` bytes of bits, and `max(1, round(bits / n · ln 2))` probes.
//!
//! valkey-bloom keeps in each layer's memory, before its bits, a head of 45 bytes, and so does this layout: a layer
//! is saved, and loaded, in one piece.
//!
//! | offset | bytes | field of a head |
//! |---|---|---|
//! | 0 | 1 | 1, its version |
//! | 1 | 8 | bytes of bits |
//! | 9 | 4 | probes |
//! | 13 | 32 | the seed |
//!
//! Bit `x` is bit `x mod 8` of byte `x / 8` of the bits.

pub mod layer;

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::bloom::bits::memory::Block;
use crate::bloom::chain::batch::Hasher;
use crate::bloom::chain::demand::{FILTER, Frame, room_for};
use crate::bloom::chain::{Chain, MOST_ITEMS, Rules};
use crate::bloom::error::Error;
use crate::bloom::item::{Item, ItemHash};
use crate::bloom::params::{SipSeed, Tightening, ValkeySpec};
pub use layer::{HEAD_BYTES, Layer, Shape};

/// What valkey-bloom says that a filter takes besides its layers, in bytes.
const OWN_BYTES: u64 = 48;
/// What it says that a layer takes besides its bits and its place in the list, in bytes.
const LAYER_BYTES: u64 = 208;

/// The most layers that a capacity is foretold for: with the usual ratio no filter can have more. More have only filters
/// of expansion 1 whose ratio is nearer to 1, and a question after them would take as long as somebody wants it to.
pub const MOST_FORETOLD: usize = 1100;

/// The keys of a filter's two hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys([[u64; 2]; 2]);

impl Keys {
    fn new(seed: SipSeed) -> Self {
        let word = |at: usize| {
            let bytes = seed.0.as_chunks::<8>().0[at];
            u64::from_le_bytes(bytes)
        };
        Self([[word(0), word(1)], [word(2), word(3)]])
    }

    fn seed(self) -> SipSeed {
        let mut seed = [0; 32];
        let words = self.0.as_flattened().iter();
        for (place, word) in seed.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        SipSeed(seed)
    }
}

impl Hasher for Keys {
    #[inline(always)]
    fn hash(&self, item: Item<'_>) -> ItemHash {
        let item = item.bytes();
        let [low, high] = self.0.map(|[first, last]| {
            let mut hasher = SipHasher13::new_with_keys(first, last);
            hasher.write_u64(item.len() as u64);
            hasher.write(item);
            hasher.finish()
        });
        ItemHash { low, high }
    }
}

/// The rules of a filter in valkey-bloom's layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Valkey {
    keys: Keys,
    error_rate: f64,
    tightening: Tightening,
    /// 0: the filter does not grow.
    expansion: u32,
}

impl Valkey {
    /// The rules of a filter.
    pub fn new(spec: ValkeySpec) -> Self {
        Self {
            keys: Keys::new(spec.seed()),
            error_rate: spec.error_rate(),
            tightening: spec.tightening(),
            expansion: spec.expansion(),
        }
    }

    /// The first layer, for `capacity` items.
    pub fn first(&self, capacity: u64) -> Shape {
        Shape::sized(capacity, self.error_rate, self.seed())
    }

    /// The filter's rate, strictly between 0 and 1.
    pub fn error_rate(&self) -> f64 {
        self.error_rate
    }

    /// What a layer's rate is multiplied with for the next one.
    pub fn tightening(&self) -> Tightening {
        self.tightening
    }

    /// How many times the capacity of the newest layer the next one has; 0 where the filter does not grow.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// What items are hashed with.
    pub fn seed(&self) -> SipSeed {
        self.keys.seed()
    }

    /// The rate of layer `index`, unless it is too near to 0 to be told from it.
    pub(in crate::bloom) fn rate(&self, index: usize) -> Option<f64> {
        let power = i32::try_from(index).ok()?;
        let rate = self.error_rate * power_of(self.tightening.value(), power.unsigned_abs());
        (rate > f64::MIN_POSITIVE || index == 0).then_some(rate)
    }

    /// Layer `index`, after one for `before` items.
    pub(in crate::bloom) fn layer(&self, index: usize, before: u64) -> Option<Shape> {
        let capacity = before.checked_mul(self.expansion.into())?;
        (capacity > 0).then_some(())?;
        Some(Shape::sized(capacity, self.rate(index)?, self.seed()))
    }

    /// The capacity that a filter whose first layer has `first` items can have: with all layers that may be within
    /// `limit`, or until it is `wanted`.
    ///
    /// # Errors
    /// [`Unreached`] where `wanted` is more. Layers after the first [`MOST_FORETOLD`] are never reached.
    pub fn scaled_capacity(
        &self,
        first: u64,
        wanted: u64,
        limit: Option<Limit<'_>>,
    ) -> Result<u64, Unreached> {
        let (mut next, mut capacity, mut room) = (self.first(first), 0_u64, 0);
        let taken = |block| limit.map_or(0, |limit| (limit.taken)(block));
        let mut blocks = 0_u64;
        Self::FRAME.each_block(|block| blocks = blocks.saturating_add(taken(block)));
        for layers in 1..=MOST_FORETOLD {
            room = room_for(layers, room);
            let array = Block::of_array(next.bytes.saturating_add(HEAD_BYTES as u64), size_of::<u64>());
            blocks = blocks.saturating_add(taken(array));
            let bytes = blocks.saturating_add(taken(Block::of_list::<Layer>(room)));
            let with_it = capacity.saturating_add(next.capacity);
            if limit.is_some_and(|limit| bytes > limit.bytes) {
                return Err(Unreached::Bytes { capacity });
            }
            if with_it > MOST_ITEMS {
                return Err(Unreached::Items { capacity });
            }
            capacity = with_it;
            if capacity >= wanted {
                return Ok(capacity);
            }
            if self.rate(layers).is_none() {
                return Err(Unreached::Rate { capacity });
            }
            next = self
                .layer(layers, next.capacity)
                .ok_or(Unreached::Items { capacity })?;
        }
        Err(Unreached::Layers { capacity })
    }
}

/// What a filter may take.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    /// Bytes in all.
    pub bytes: u64,
    /// What the allocator takes for a block.
    pub taken: &'a dyn Fn(Block) -> u64,
}

/// Why a filter cannot grow to a capacity, and the capacity that it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// Its next layer would be too large.
    Bytes {
        /// Items of the layers before it.
        capacity: u64,
    },
    /// The rate of its next layer would be 0.
    Rate {
        /// Items of the layers before it.
        capacity: u64,
    },
    /// With its next layer it would be for more than [`MOST_ITEMS`] items.
    Items {
        /// Items of the layers before it.
        capacity: u64,
    },
    /// It would have more than [`MOST_FORETOLD`] layers.
    Layers {
        /// Items of so many.
        capacity: u64,
    },
}

impl Unreached {
    /// The capacity that the filter can have.
    pub fn capacity(self) -> u64 {
        match self {
            Self::Bytes { capacity }
            | Self::Rate { capacity }
            | Self::Items { capacity }
            | Self::Layers { capacity } => capacity,
        }
    }
}

/// `base` to the power of `exponent`, by squaring, in the same order everywhere: sizes depend on the last bit.
fn power_of(mut base: f64, mut exponent: u32) -> f64 {
    let mut power = 1.0;
    loop {
        if exponent & 1 == 1 {
            power *= base;
        }
        exponent >>= 1;
        if exponent == 0 {
            return power;
        }
        base *= base;
    }
}

/// Bytes of a filter of so many layers, whose bits have `arrays` bytes, as valkey-bloom counts them: its list of layers
/// has room for one at first, then for four, and then for twice as many each time.
pub fn bytes(layers: usize, arrays: u64) -> u64 {
    let room = match layers {
        0 | 1 => layers,
        more => more.next_power_of_two().max(4),
    };
    let structs = OWN_BYTES + 8 * room as u64 + LAYER_BYTES * layers as u64;
    arrays.saturating_add(structs)
}

impl Rules for Valkey {
    type Layer = Layer;
    type Plan = Shape;
    type Hasher = Keys;

    const FRAME: Frame = {
        const CHAIN: Block = Block {
            bytes: size_of::<Chain<Valkey>>() as u64,
            align: align_of::<Chain<Valkey>>(),
        };
        Frame::new(&[FILTER, CHAIN], 0)
    };

    #[inline(always)]
    fn hasher(&self) -> &Keys {
        &self.keys
    }

    fn plan_of(layer: &Layer) -> Shape {
        layer.shape()
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
}
