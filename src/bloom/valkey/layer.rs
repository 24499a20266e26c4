//! A layer in valkey-bloom's layout: its sizes, its memory, and where an item's bits are.

use crate::bloom::bits::array::{BitArray, OutOfRange};
use crate::bloom::chain::Plan;
use crate::bloom::error::Error;
use crate::bloom::item::ItemHash;
use crate::bloom::params::SipSeed;
use crate::bloom::scattered::ln::ln;
use crate::bloom::scattered::modulus::Modulus;
use crate::bloom::scattered::{self, LOGARITHM_TOLERANCE, Scattered};

/// Bytes of the head that lies before a layer's bits.
pub const HEAD_BYTES: usize = 45;
/// The version of the head.
const VERSION: u8 = 1;
/// What the probes from the third on are first reduced by: the largest prime below 2^64.
const PRIME: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// What a layer is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Items that it is made for.
    pub capacity: u64,
    /// The rate that it is made for.
    pub error_rate: f64,
    /// Bytes of its bits.
    pub bytes: u64,
    /// Probes of an item.
    pub probes: u32,
    /// What items are hashed with.
    pub seed: SipSeed,
}

impl Shape {
    /// The layer for `capacity` items, which are some, at `error_rate`, strictly between 0 and 1.
    pub fn sized(capacity: u64, error_rate: f64, seed: SipSeed) -> Self {
        let bytes = (exact_bytes(capacity, error_rate).ceil() as u64).max(1);
        Self::stored(capacity, error_rate, bytes, seed)
    }

    /// Whether this stored shape is the one that valkey-bloom gives a layer of that capacity and rate. If not, names a
    /// field that is wrong. Where the logarithm is next to a whole number of bytes, another libm's may be on its other
    /// side; all else follows to the bit.
    pub(in crate::bloom) fn check(&self) -> Result<(), &'static str> {
        if self.capacity == 0 {
            return Err("capacity");
        }
        let exact = exact_bytes(self.capacity, self.error_rate);
        let ceiling = |off: f64| ((exact * (1.0 + off)).ceil() as u64).max(1);
        if !(ceiling(-LOGARITHM_TOLERANCE)..=ceiling(LOGARITHM_TOLERANCE)).contains(&self.bytes) {
            return Err("bytes");
        }
        if self.probes != probes(self.bytes, self.capacity) {
            return Err("probes");
        }
        Ok(())
    }

    /// Bits of the layer.
    pub fn bits(&self) -> u64 {
        self.bytes.saturating_mul(8)
    }

    /// Units of memory of the layer's array.
    pub(in crate::bloom) fn units(&self) -> u64 {
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

    /// The fields of a head; the capacity and the rate, which are not in it, are 0.
    ///
    /// # Errors
    /// The name of a field.
    pub(in crate::bloom) fn of_head(head: &[u8; HEAD_BYTES]) -> Result<Self, &'static str> {
        let (mut bytes, mut probes, mut seed) = ([0; 8], [0; 4], [0; 32]);
        bytes.copy_from_slice(&head[1..9]);
        probes.copy_from_slice(&head[9..13]);
        seed.copy_from_slice(&head[13..]);
        if head[0] != VERSION {
            return Err("layer version");
        }
        Ok(Self {
            capacity: 0,
            error_rate: 0.0,
            bytes: u64::from_le_bytes(bytes),
            probes: u32::from_le_bytes(probes),
            seed: SipSeed(seed),
        })
    }

    /// A stored layer with so many bytes of bits.
    pub(in crate::bloom) fn stored(capacity: u64, error_rate: f64, bytes: u64, seed: SipSeed) -> Self {
        Self {
            capacity,
            error_rate,
            bytes,
            probes: probes(bytes, capacity.max(1)),
            seed,
        }
    }

    /// The memory of a layer without a set bit.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], with nothing allocated.
    pub(in crate::bloom) fn array(&self) -> Result<BitArray<u64>, Error> {
        let mut array = BitArray::zeroed(self.units())?;
        let written = array.merge(0, &self.head());
        debug_assert!(written.is_ok(), "the array has room for its head");
        Ok(array)
    }
}

/// Bytes of bits for so many items, before they are rounded up; in the order of valkey-bloom's own sum.
fn exact_bytes(capacity: u64, error_rate: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    capacity as f64 * ln(error_rate) / (-8.0 * (LN_2 * LN_2))
}

fn probes(bytes: u64, capacity: u64) -> u32 {
    let bits = bytes.saturating_mul(8) as f64;
    ((bits / capacity as f64 * std::f64::consts::LN_2).round() as u32).max(1)
}

impl Plan<Layer> for Shape {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn make(self) -> Result<Layer, Error> {
        Ok(Layer::stored(self, self.array()?))
    }
}

/// One layer.
#[derive(Debug)]
pub struct Layer {
    /// Whole words: the head, the bits, and bytes that are never set.
    array: BitArray<u64>,
    modulus: Modulus,
    items: u64,
    capacity: u64,
    error_rate: f64,
    probes: u16,
}

impl Layer {
    /// A layer of that shape, whose head is in `array` already. The caller has checked that they suit.
    pub(in crate::bloom) fn stored(shape: Shape, array: BitArray<u64>) -> Self {
        Self {
            array,
            modulus: Modulus::new(shape.bits()),
            items: 0,
            capacity: shape.capacity,
            error_rate: shape.error_rate,
            // The tightest rate that a double holds has 1076.
            probes: shape.probes as u16,
        }
    }

    /// What the layer was made from.
    pub fn shape(&self) -> Shape {
        let seed = self.array.bytes()[13..HEAD_BYTES].as_chunks().0;
        Shape {
            capacity: self.capacity,
            error_rate: self.error_rate,
            bytes: self.array_bytes(),
            probes: self.probes.into(),
            seed: seed.first().copied().map_or(SipSeed::FIXED, SipSeed),
        }
    }

    /// The head and the bits, as they are stored.
    pub fn stored_bytes(&self) -> &[u8] {
        &self.array.bytes()[..HEAD_BYTES + self.array_bytes() as usize]
    }

    /// The bytes of the bits.
    pub fn array(&self) -> &[u8] {
        &self.stored_bytes()[HEAD_BYTES..]
    }

    /// The layer's memory, in words.
    pub(in crate::bloom) fn memory(&self) -> &BitArray<u64> {
        &self.array
    }

    /// Set bits, without those of the head.
    pub fn ones(&self) -> u64 {
        let head = &self.array.bytes()[..HEAD_BYTES];
        let of_head: u32 = head.iter().map(|byte| byte.count_ones()).sum();
        self.array.ones() - u64::from(of_head)
    }

    /// Sets, from byte `offset` of the bits on, those that are set in `bytes`.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not fit; nothing changed.
    pub(in crate::bloom) fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(OutOfRange)?;
        if end > self.array_bytes() {
            return Err(OutOfRange);
        }
        self.array.merge(HEAD_BYTES as u64 + offset, bytes)
    }

    /// Takes over the count of a stored layer.
    pub(in crate::bloom) fn restore(&mut self, items: u64) {
        self.items = items;
    }
}

/// Where the bits of items are in a layer.
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    modulus: Modulus,
    count: u16,
}

impl scattered::Probes for Probes {
    #[inline(always)]
    fn probes(self, ItemHash { low, high }: ItemHash) -> impl Iterator<Item = (usize, u64)> {
        (0..u64::from(self.count)).map(move |probe| {
            let place = match probe {
                0 => low,
                1 => high,
                _ => {
                    let sum = low.wrapping_add(high.wrapping_mul(probe));
                    sum.checked_sub(PRIME).unwrap_or(sum)
                }
            };
            let bit = 8 * HEAD_BYTES as u64 + self.modulus.remainder(place);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }
}

impl Scattered for Layer {
    type Probes = Probes;

    const HEAD: u64 = HEAD_BYTES as u64;

    #[inline(always)]
    fn probes(&self) -> Probes {
        Probes {
            modulus: self.modulus,
            count: self.probes,
        }
    }

    #[inline(always)]
    fn words(&self) -> &BitArray<u64> {
        &self.array
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut BitArray<u64> {
        &mut self.array
    }

    fn array_bytes(&self) -> u64 {
        self.modulus.value() / 8
    }

    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn items(&self) -> u64 {
        self.items
    }

    #[inline(always)]
    fn count(&mut self) {
        self.items += 1;
    }
}
