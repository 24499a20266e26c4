//! A layer in valkey-bloom's layout: its size, its memory, and where an item's bits are.

use crate::bits::array::BitArray;
use crate::chain::batch::Layer as _;
use crate::error::{Error, require};
use crate::item::ItemHash;
use crate::layouts::scattered::ln::ln;
use crate::layouts::scattered::modulus::Modulus;
use crate::layouts::scattered::{self, LOGARITHM_TOLERANCE, Scattered};
use crate::params::SipSeed;

/// Bytes of the head that precedes a layer's bits.
pub const HEAD_BYTES: usize = 45;
/// The version of the head.
const VERSION: u8 = 1;
/// The largest prime below 2^64; from the third probe on, hashes are reduced by it first.
const PRIME: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// What defines a layer, apart from its items and bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Items that the layer is made for.
    pub capacity: u64,
    /// The false positive rate that the layer is made for.
    pub error_rate: f64,
    /// Bytes of the bits.
    pub bytes: u64,
    /// Probes of an item.
    pub probes: u32,
    /// The keys of the hashes.
    pub seed: SipSeed,
}

impl Shape {
    /// The layer for `capacity` items, 1 or more, at `error_rate`, strictly between 0 and 1.
    pub fn sized(capacity: u64, error_rate: f64, seed: SipSeed) -> Self {
        let bytes = (exact_bytes(capacity, error_rate).ceil() as u64).max(1);
        Self::stored(capacity, error_rate, bytes, seed)
    }

    /// Names a wrong field, unless valkey-bloom gives this shape to a layer of its capacity and rate. Next to a whole
    /// number of bytes, another libm's logarithm may round the size to the other side, so both are valid.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        require(self.capacity > 0, "capacity")?;
        let exact = exact_bytes(self.capacity, self.error_rate);
        let ceiling = |off: f64| ((exact * (1.0 + off)).ceil() as u64).max(1);
        let valid = ceiling(-LOGARITHM_TOLERANCE)..=ceiling(LOGARITHM_TOLERANCE);
        require(valid.contains(&self.bytes), "bytes")?;
        require(self.probes == probes(self.bytes, self.capacity), "probes")
    }

    /// Bits of the layer.
    pub fn bits(&self) -> u64 {
        self.bytes.saturating_mul(8)
    }

    /// Words of memory that the layer takes, with its head.
    pub(crate) fn units(&self) -> u64 {
        self.bytes.saturating_add(HEAD_BYTES as u64).div_ceil(8)
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[0] = VERSION;
        head[1..9].copy_from_slice(&self.bytes.to_le_bytes());
        head[9..13].copy_from_slice(&self.probes.to_le_bytes());
        head[13..].copy_from_slice(&self.seed.0);
        head
    }

    /// Reads a head. Capacity and rate are not part of it, and are set to 0. The error names a wrong field.
    pub(crate) fn of_head(head: &[u8; HEAD_BYTES]) -> Result<Self, &'static str> {
        require(head[0] == VERSION, "layer version")?;
        Ok(Self {
            capacity: 0,
            error_rate: 0.0,
            bytes: bytemuck::pod_read_unaligned(&head[1..9]),
            probes: bytemuck::pod_read_unaligned(&head[9..13]),
            seed: SipSeed(bytemuck::pod_read_unaligned(&head[13..])),
        })
    }

    /// The shape of a stored layer with `bytes` bytes of bits.
    pub(crate) fn stored(capacity: u64, error_rate: f64, bytes: u64, seed: SipSeed) -> Self {
        Self {
            capacity,
            error_rate,
            bytes,
            probes: probes(bytes, capacity.max(1)),
            seed,
        }
    }

    /// The memory of a layer without set bits.
    pub(crate) fn array(&self) -> Result<BitArray<u64>, Error> {
        let mut array = BitArray::zeroed(self.units())?;
        let written = array.merge(0, &self.head());
        debug_assert!(written.is_ok(), "the array has room for its head");
        Ok(array)
    }
}

/// Bytes of bits for `capacity` items, before rounding up; computed in the same order as valkey-bloom does.
fn exact_bytes(capacity: u64, error_rate: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    capacity as f64 * ln(error_rate) / (-8.0 * (LN_2 * LN_2))
}

fn probes(bytes: u64, capacity: u64) -> u32 {
    let bits = bytes.saturating_mul(8) as f64;
    ((bits / capacity as f64 * std::f64::consts::LN_2).round() as u32).max(1)
}

/// One layer of a filter in valkey-bloom's layout.
pub type Layer = scattered::Layer<Headed>;

/// A layer keeps nothing besides its head.
#[derive(Clone, Copy, Debug)]
pub struct Headed;

impl Shape {
    /// A layer with this shape and no items, whose head is already in `array`. The caller has checked that they fit.
    pub(crate) fn with_array(self, array: BitArray<u64>) -> Layer {
        Layer {
            modulus: Modulus::new(self.bits()),
            items: 0,
            capacity: self.capacity,
            error_rate: self.error_rate,
            probes: self.probes as u16,
            padding: (array.bytes().len() as u64 - Headed::HEAD - self.bytes) as u8,
            words: array,
            own: Headed,
        }
    }
}

impl Scattered for Headed {
    const HEAD: u64 = HEAD_BYTES as u64;
    type Shape = Shape;

    #[inline(always)]
    fn place(hash: ItemHash, probe: u64) -> u64 {
        match probe {
            0 => hash.low,
            1 => hash.high,
            _ => {
                let sum = hash.low.wrapping_add(hash.high.wrapping_mul(probe));
                sum.checked_sub(PRIME).unwrap_or(sum)
            }
        }
    }

    fn shape_of(layer: &Layer) -> Shape {
        Shape {
            capacity: layer.capacity,
            error_rate: layer.error_rate,
            bytes: layer.bytes(),
            probes: layer.probes.into(),
            seed: SipSeed(bytemuck::pod_read_unaligned(
                &layer.stored_bytes()[13..HEAD_BYTES],
            )),
        }
    }

    fn make(shape: Shape) -> Result<Layer, Error> {
        Ok(shape.with_array(shape.array()?))
    }
}
