//! A classic layer: its size, its bits, and where an item's bits are.

use super::Options;
use crate::bits::array::BitArray;
use crate::chain::batch::Layer as _;
use crate::error::{Error, require};
use crate::item::ItemHash;
use crate::layouts::scattered::ln::ln;
use crate::layouts::scattered::modulus::Modulus;
use crate::layouts::scattered::{self, LOGARITHM_TOLERANCE, Scattered};

/// `ln² 2`, cut off where RedisBloom cuts it off: the sizes depend on it.
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;
/// `ln 2`, cut off where RedisBloom cuts it off.
#[expect(
    clippy::approx_constant,
    reason = "cut off like RedisBloom's, and not the nearest double"
)]
const LN_2: f64 = 0.693_147_180_559_945;

/// What defines a layer, apart from its items and bits. All of it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Items that the layer is made for.
    pub capacity: u64,
    /// The false positive rate that the layer is made for.
    pub error_rate: f64,
    /// Bits per item, before rounding.
    pub bits_per_item: f64,
    /// Number of bits that probes choose from, unless `n2` is set.
    pub bits: u64,
    /// Bytes of the bit array.
    pub bytes: u64,
    /// Probes of an item.
    pub probes: u32,
    /// If not 0, probes choose from the first `2^n2` bits.
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
            probes: probes_for(bits_per_item),
            n2: 0,
        };
        let bits = if options.has(Options::NOROUND) {
            at_least_one_bit(wanted)
        } else {
            // `wanted` is at least 1, so its exponent field is the floor of its binary logarithm.
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

    /// Names a wrong field, unless some version of RedisBloom gives this shape to a layer with `options`.
    ///
    /// Early versions rounded the bit array up to a byte instead of a word, and did not count the bits gained
    /// by that; the earliest had neither `NOROUND` nor powers of two. The logarithm in `bits_per_item` may
    /// differ in its last bits, as libms do. All other fields follow exactly from the stored ones.
    pub(crate) fn check(&self, options: Options) -> Result<(), &'static str> {
        let (rate, per_item, n2) = (self.error_rate, self.bits_per_item, self.n2);
        require(rate > 0.0 && rate < 1.0, "error rate")?;
        let off = (per_item / bits_per_item(rate) - 1.0).abs();
        require(off <= LOGARITHM_TOLERANCE, "bits per item")?;
        require(self.probes == probes_for(per_item), "probes")?;
        require(self.capacity > 0, "capacity")?;
        let is_rounded = n2 <= 63 && !options.has(Options::NOROUND);
        require(n2 == 0 || is_rounded, "n2")?;
        let wanted = self.capacity as f64 * per_item;
        let needed = if n2 == 0 {
            at_least_one_bit(wanted)
        } else {
            // The capacity was raised to what fits, up to rounding.
            let power = (1u64 << n2) as f64;
            let fitting = power / 2.0..=power * (1.0 + LOGARITHM_TOLERANCE);
            require(fitting.contains(&wanted), "capacity")?;
            1 << n2
        };
        let lengths = [needed.div_ceil(8), bytes_of_words(needed)];
        require(lengths.contains(&self.bytes), "bit array length")?;
        let counts_all = self.bits == self.bytes.saturating_mul(8);
        let counts_needed = self.bits == needed && !options.has(Options::NOROUND);
        let is_early = n2 == 0 && !options.has(Options::NOROUND);
        require(counts_needed || counts_all && !is_early, "bits")
    }

    /// Number of bits that probes choose from.
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

fn probes_for(bits_per_item: f64) -> u32 {
    (LN_2 * bits_per_item).ceil() as u32
}

fn at_least_one_bit(bits: f64) -> u64 {
    (bits as u64).max(1)
}

fn bytes_of_words(bits: u64) -> u64 {
    bits.div_ceil(64) * 8
}

// Filters can be very many and small. 80 bytes is one of the allocator's sizes.
const _: () = assert!(size_of::<Layer>() == 80);

/// One layer of a classic filter.
pub type Layer = scattered::Layer<Kept>;

/// Those fields of a layer's shape that cannot be computed from the others.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// A double, in bytes, so that the three fields together take little room.
    bits_per_item: [u8; 8],
    n2: u8,
    /// Whether the shape counts all bits of its bytes.
    counts_all_bits: bool,
}

impl Shape {
    /// A layer with this shape and bit array, which is of whole words even if the shape has fewer bytes, and no items.
    /// The caller has checked that they fit together.
    pub(crate) fn with_bits(self, bits: BitArray<u64>) -> Layer {
        Layer {
            modulus: Modulus::new(self.modulus()),
            items: 0,
            capacity: self.capacity,
            error_rate: self.error_rate,
            probes: self.probes as u16,
            padding: (bits.bytes().len() as u64 - self.bytes) as u8,
            words: bits,
            own: Kept {
                bits_per_item: self.bits_per_item.to_ne_bytes(),
                n2: self.n2,
                counts_all_bits: self.bits == self.bytes.saturating_mul(8),
            },
        }
    }
}

impl Scattered for Kept {
    const HEAD: u64 = 0;
    type Shape = Shape;

    #[inline(always)]
    fn place(hash: ItemHash, probe: u64) -> u64 {
        hash.low.wrapping_add(hash.high.wrapping_mul(probe))
    }

    fn shape_of(layer: &Layer) -> Shape {
        let (bytes, kept) = (layer.bytes(), layer.own);
        Shape {
            capacity: layer.capacity,
            error_rate: layer.error_rate,
            bits_per_item: f64::from_ne_bytes(kept.bits_per_item),
            bits: if kept.counts_all_bits {
                bytes.saturating_mul(8)
            } else {
                layer.modulus.value()
            },
            bytes,
            probes: layer.probes.into(),
            n2: kept.n2,
        }
    }

    fn make(shape: Shape) -> Result<Layer, Error> {
        Ok(shape.with_bits(BitArray::zeroed(shape.bytes.div_ceil(8))?))
    }
}
