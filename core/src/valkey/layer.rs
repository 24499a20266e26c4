//! A layer in valkey-bloom's layout: its size, its memory, and where an item's bits are.

use crate::bits::array::BitArray;
use crate::chain::NewLayer;
use crate::error::Error;
use crate::item::ItemHash;
use crate::params::SipSeed;
use crate::scattered::ln::ln;
use crate::scattered::modulus::Modulus;
use crate::scattered::{LOGARITHM_TOLERANCE, Scattered};

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

    /// Whether valkey-bloom gives this shape to a layer of its capacity and rate. If not, the error names a
    /// wrong field. If the exact size is next to a whole number of bytes, another libm's logarithm may round
    /// it to the other side, so both sizes are valid; the other fields follow exactly.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
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

    /// Reads a head. Capacity and rate are not part of it, and are set to 0.
    ///
    /// # Errors
    /// The name of a wrong field.
    pub(crate) fn of_head(head: &[u8; HEAD_BYTES]) -> Result<Self, &'static str> {
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
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], with nothing allocated.
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

impl NewLayer<Layer> for Shape {
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

/// One layer of a filter in valkey-bloom's layout.
#[derive(Debug)]
pub struct Layer {
    /// Whole words: the head, the bits, and padding that is never set.
    array: BitArray<u64>,
    modulus: Modulus,
    items: u64,
    capacity: u64,
    error_rate: f64,
    probes: u16,
}

impl Layer {
    /// A layer with this shape, and no items. Its head is already in `array`. The caller has checked that
    /// they fit together.
    pub(crate) fn stored(shape: Shape, array: BitArray<u64>) -> Self {
        Self {
            array,
            modulus: Modulus::new(shape.bits()),
            items: 0,
            capacity: shape.capacity,
            error_rate: shape.error_rate,
            // The lowest rate that a double can hold has 1076 probes.
            probes: shape.probes as u16,
        }
    }

    /// The shape that the layer was made from.
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

    /// The layer's memory, in words; the head is part of it.
    #[cfg(any(test, feature = "checks"))]
    pub(crate) fn memory(&self) -> &BitArray<u64> {
        &self.array
    }

    /// Number of set bits, without those of the head.
    pub fn ones(&self) -> u64 {
        let (words, rest) = self.array.bytes()[..HEAD_BYTES].as_chunks::<8>();
        let of_words = words.iter().map(|word| u64::from_le_bytes(*word).count_ones());
        let of_head: u32 = of_words.chain(rest.iter().map(|byte| byte.count_ones())).sum();
        self.array.ones() - u64::from(of_head)
    }

    /// Sets the number of counted items, for loading.
    pub(crate) fn set_items(&mut self, items: u64) {
        self.items = items;
    }
}

impl Scattered for Layer {
    const HEAD: u64 = HEAD_BYTES as u64;

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

    #[inline(always)]
    fn modulus(&self) -> Modulus {
        self.modulus
    }

    #[inline(always)]
    fn probes(&self) -> u16 {
        self.probes
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
