//! The format of blocked filters.
//!
//! # Header
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `BLOOM`, two zero bytes, format version (1) |
//! | 8 | 4 | 0 (where RedisBloom's chunk header has its number of layers, which is never 0) |
//! | 12 | 4 | number of layers, 1 or more |
//! | 16 | 8 | seed |
//! | 24 | 8 | error rate, f64 in `1e-30..=0.25` |
//! | 32 | 4 | growth: 0 fixed, 1 reserved, 2 growing |
//! | 36 | 4 | expansion, `1..=32768`; 0 when fixed |
//! | 40 | 48 each | the layers, oldest first |
//!
//! | offset | bytes | field of a layer |
//! |---|---|---|
//! | 0 | 8 | capacity, 1 or more; after the first layer, that of the one before times the expansion |
//! | 8 | 8 | items, at most the capacity; in all layers but the newest, the capacity |
//! | 16 | 8 | set bits, at most those of the bit array |
//! | 24 | 8 | error rate at capacity, f64 in `0..1`; of all layers together, at most the filter's |
//! | 32 | 8 | lines in each partition, 1 or more |
//! | 40 | 4 | lines per item, `1..=16` |
//! | 44 | 4 | probes in each line, `2..=8` |
//!
//! # RDB stream
//! Unsigned 1 (the format version), unsigned 0 (where RedisBloom has its number of layers), the header as a
//! string, then the bit array of each layer in pieces of 1 MiB, of which a layer's last one may be shorter.
//! Each piece is a string: its bytes or, if all of them are zero, the empty string.

use crate::bits::array::{BitArray, Incoming, OutOfRange, all_zero};
use crate::bits::kernel::Line;
use crate::blocked::sizing::{Geometry, MAX_LINES_PER_ITEM, PROBES};
use crate::blocked::{Blocked, Layer, Shape};
use crate::chain::batch::Layer as _;
use crate::chain::demand::reserved;
use crate::chain::{Allowance, Chain, MOST_ITEMS, NewLayer, Rules as _, sum};
use crate::error::Error;
use crate::params::{ErrorRate, Expansion, Growth, ROUNDING, Seed};
use crate::stored::stream::{Sink, Source};
use crate::stored::{DecodeError, Fields, ask_for, list_for, or_end};

/// The format version.
pub const VERSION: u64 = 1;
/// The first bytes of a header. The last of them is the format version.
pub const MAGIC: [u8; 8] = *b"BLOOM\0\0\x01";
/// Bytes of a header before its layers.
const HEAD_BYTES: usize = 40;
/// Bytes of a layer in a header.
pub(crate) const LAYER_BYTES: usize = 48;
/// Bytes of a bit array that are written at a time: the server compresses each string that it writes, and
/// needs a buffer of its size.
const PIECE_BYTES: usize = 1 << 20;

/// Writes a filter to an RDB stream.
pub fn save(chain: &Chain<Blocked>, sink: &mut dyn Sink) {
    sink.put_unsigned(VERSION);
    sink.put_unsigned(0);
    sink.put_string(&or_end(header(chain)));
    save_arrays(chain.layers(), sink);
}

/// Whether the layers follow from one another as growth makes them: all but the newest are full, and each has
/// the capacity of the one before times the expansion. Only such chains can be stored in this format.
pub fn is_grown(chain: &Chain<Blocked>) -> bool {
    let layers = chain
        .layers()
        .iter()
        .map(|layer| (layer.items(), layer.capacity()));
    follow(chain.rules().growth(), layers).is_ok()
}

/// Checks that layers follow from one another ([`is_grown`]), given the items and the capacity of each.
fn follow(growth: Growth, layers: impl Iterator<Item = (u64, u64)> + Clone) -> Result<(), DecodeError> {
    let next = layers.clone().skip(1);
    for ((items, capacity), (_, of_next)) in layers.zip(next) {
        let Some(expansion) = growth.expansion() else {
            return Err(DecodeError::Field("layers"));
        };
        if items < capacity {
            return Err(DecodeError::Field("items"));
        }
        if of_next != capacity.saturating_mul(u64::from(expansion.factor())) {
            return Err(DecodeError::Field("capacity"));
        }
    }
    Ok(())
}

/// How the layers of a stored filter are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The layers follow from one another, as [`is_grown`] checks.
    Grown,
    /// The layers may come from several filters.
    Any,
}

/// Writes the bit arrays of layers, oldest first.
pub(crate) fn save_arrays(layers: &[Layer], sink: &mut dyn Sink) {
    for layer in layers {
        let bits = layer.bits();
        for piece in bits.bytes().chunks(PIECE_BYTES) {
            // A layer without set bits is not read, so that its pages stay unmapped.
            let zero = bits.ones() == 0 || all_zero(piece);
            sink.put_string(if zero { &[] } else { piece });
        }
    }
}

/// Reads a filter from an RDB stream whose two leading integers, 1 and 0, were read already.
///
/// # Errors
/// [`DecodeError`] unless the whole stream is one valid filter that fits into memory. Nothing is left
/// allocated.
pub fn load(source: &mut impl Source, allowance: Allowance<'_>) -> Result<Chain<Blocked>, DecodeError> {
    source
        .string(|header| Header::parse(header, Relation::Grown))??
        .restore(allowance, |stored| load_bits(stored, source))
}

/// The filter that a header describes, with its items counted and all of its bits unset.
///
/// # Errors
/// [`DecodeError`] if the header is invalid, or the filter does not fit into memory. Nothing is left
/// allocated.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Chain<Blocked>, DecodeError> {
    Header::parse(bytes, Relation::Grown)?.restore(allowance, no_bits)
}

/// A bit array without set bits, for a layer whose chunks are still to be loaded.
pub(crate) fn no_bits(stored: &StoredLayer) -> Result<BitArray<Line>, DecodeError> {
    Ok(BitArray::zeroed(stored.shape.geometry.total_lines())?)
}

/// Reads the bit array of a layer, whose pieces come next in the stream.
///
/// # Errors
/// [`DecodeError`] if the pieces do not make an array of the stored size and number of set bits.
pub(crate) fn load_bits(
    stored: &StoredLayer,
    source: &mut impl Source,
) -> Result<BitArray<Line>, DecodeError> {
    let mut bits = Incoming::new(stored.shape.geometry.total_lines(), stored.bits_set)?;
    let wrong = |_| DecodeError::Field("piece length");
    while bits.missing() > 0 {
        let expected = PIECE_BYTES.min(bits.missing());
        source.string(|piece| match piece.len() {
            0 => bits.append_zeros(expected).map_err(wrong),
            length if length == expected => bits.append(piece).map_err(wrong),
            _ => Err(wrong(OutOfRange)),
        })??;
    }
    let bits = bits.finish().map_err(wrong)?;
    if bits.ones() != stored.bits_set {
        return Err(DecodeError::Field("set bits"));
    }
    Ok(bits)
}

/// The header of `chain`.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn header(chain: &Chain<Blocked>) -> Result<Vec<u8>, Error> {
    let rules = chain.rules();
    let (growth, expansion) = match rules.growth() {
        Growth::Fixed => (0, 0),
        Growth::Reserved(expansion) => (1, expansion.factor()),
        Growth::Growing(expansion) => (2, expansion.factor()),
    };
    let mut bytes: Vec<u8> = reserved(HEAD_BYTES + chain.layers().len() * LAYER_BYTES)?;
    Head {
        layers: chain.layers().len(),
        seed: rules.secret().seed(),
        error_rate: rules.error_rate(),
        growth,
        expansion,
    }
    .put(MAGIC, &mut bytes);
    for layer in chain.layers() {
        put_layer(layer, &mut bytes);
    }
    Ok(bytes)
}

/// The fields with which headers of all versions begin.
pub(crate) struct Head {
    pub(crate) layers: usize,
    pub(crate) seed: Seed,
    pub(crate) error_rate: ErrorRate,
    pub(crate) growth: u32,
    pub(crate) expansion: u32,
}

impl Head {
    /// Appends the magic and the fields of the head to `bytes`.
    pub(crate) fn put(&self, magic: [u8; 8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&magic);
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(&(self.layers as u32).to_le_bytes());
        bytes.extend_from_slice(&self.seed.0.to_le_bytes());
        bytes.extend_from_slice(&self.error_rate.value().to_le_bytes());
        bytes.extend_from_slice(&self.growth.to_le_bytes());
        bytes.extend_from_slice(&self.expansion.to_le_bytes());
    }

    /// Reads the magic and the fields of a head. The caller must check growth and expansion.
    pub(crate) fn take(magic: [u8; 8], fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        if fields.take()? != magic {
            return Err(DecodeError::Field("magic"));
        }
        if fields.u32()? != 0 {
            return Err(DecodeError::Field("zero"));
        }
        Ok(Self {
            layers: fields.u32()? as usize,
            seed: Seed(fields.u64()?),
            error_rate: fields.error_rate()?,
            growth: fields.u32()?,
            expansion: fields.u32()?,
        })
    }
}

/// Appends a layer's fields to a header.
pub(crate) fn put_layer(layer: &Layer, bytes: &mut Vec<u8>) {
    let Shape {
        geometry,
        capacity,
        rate,
    } = layer.shape();
    bytes.extend_from_slice(&capacity.to_le_bytes());
    bytes.extend_from_slice(&layer.items().to_le_bytes());
    bytes.extend_from_slice(&layer.bits().ones().to_le_bytes());
    bytes.extend_from_slice(&rate.to_le_bytes());
    bytes.extend_from_slice(&geometry.lines.to_le_bytes());
    bytes.extend_from_slice(&u32::from(geometry.lines_per_item).to_le_bytes());
    bytes.extend_from_slice(&u32::from(geometry.probes).to_le_bytes());
}

/// A header that has been checked.
#[derive(Debug)]
pub struct Header {
    seed: Seed,
    error_rate: ErrorRate,
    growth: Growth,
    layers: Vec<StoredLayer>,
}

/// A layer as a header describes it.
#[derive(Debug)]
pub(crate) struct StoredLayer {
    pub(crate) shape: Shape,
    pub(crate) items: u64,
    pub(crate) bits_set: u64,
}

impl Header {
    /// Reads and checks a header.
    ///
    /// # Errors
    /// [`DecodeError`] if a field is out of its range or contradicts another. After this check no field can
    /// cause an overflow, or an allocation that has not been requested.
    pub(crate) fn parse(bytes: &[u8], relation: Relation) -> Result<Self, DecodeError> {
        let mut fields = Fields(bytes);
        let Head {
            layers,
            seed,
            error_rate,
            growth,
            expansion,
        } = Head::take(MAGIC, &mut fields)?;
        let growth = match (growth, expansion, Expansion::new(expansion)) {
            (0, 0, _) => Growth::Fixed,
            (1, _, Ok(expansion)) => Growth::Reserved(expansion),
            (2, _, Ok(expansion)) => Growth::Growing(expansion),
            _ => return Err(DecodeError::Field("growth")),
        };
        if layers == 0 {
            return Err(DecodeError::Field("layers"));
        }
        if fields.0.len() / LAYER_BYTES != layers || fields.0.len() % LAYER_BYTES != 0 {
            return Err(DecodeError::Field("header length"));
        }
        let mut header = Self {
            seed,
            error_rate,
            growth,
            layers: list_for(layers)?,
        };
        for _ in 0..layers {
            header.layers.push(StoredLayer::parse(&mut fields)?);
        }
        if relation == Relation::Grown {
            let layers = header.layers.iter();
            follow(growth, layers.map(|layer| (layer.items, layer.shape.capacity)))?;
        }
        header.check_sums()?;
        Ok(header)
    }

    /// Checks that the layers keep the filter's rate, and that their capacities add up to a number that can
    /// be counted.
    fn check_sums(&self) -> Result<(), DecodeError> {
        let sum: f64 = self.layers.iter().map(|layer| layer.shape.rate).sum();
        if sum > self.error_rate.value() * (1.0 + ROUNDING) {
            return Err(DecodeError::Field("layer error rate"));
        }
        let capacities = self.layers.iter().map(|layer| layer.shape.capacity);
        if capacities.fold(0, u64::saturating_add) > MOST_ITEMS {
            return Err(DecodeError::Field("capacity"));
        }
        Ok(())
    }

    /// Makes the filter, with its items counted. `bits` supplies the bit array of each layer.
    pub(crate) fn restore(
        &self,
        allowance: Allowance<'_>,
        mut bits: impl FnMut(&StoredLayer) -> Result<BitArray<Line>, DecodeError>,
    ) -> Result<Chain<Blocked>, DecodeError> {
        let arrays = sum(self.layers.iter().map(|layer| layer.shape.bytes()));
        let bytes = Blocked::bytes(self.layers.len(), arrays);
        ask_for(bytes, bytes, allowance)?;
        let mut layers = list_for(self.layers.len())?;
        for stored in &self.layers {
            layers.push(Layer::stored(stored.shape, bits(stored)?, stored.items));
        }
        let rules = Blocked::new(self.error_rate, self.growth, self.seed);
        Ok(Chain::of_layers(rules, layers))
    }
}

impl StoredLayer {
    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        let (capacity, items, bits_set) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (rate, lines) = (fields.f64()?, fields.u64()?);
        let (lines_per_item, probes) = (fields.u32()?, fields.u32()?);
        let geometry = Geometry {
            lines_per_item: u8::try_from(lines_per_item).unwrap_or(0),
            probes: u8::try_from(probes).unwrap_or(0),
            lines,
        };
        if !(1..=MAX_LINES_PER_ITEM).contains(&geometry.lines_per_item) {
            return Err(DecodeError::Field("lines per item"));
        }
        if !PROBES.contains(&geometry.probes) {
            return Err(DecodeError::Field("probes"));
        }
        if lines == 0 || geometry.bytes() > isize::MAX as u64 {
            return Err(DecodeError::Field("lines"));
        }
        if capacity == 0 || items > capacity {
            return Err(DecodeError::Field("items"));
        }
        if !(0.0..1.0).contains(&rate) {
            return Err(DecodeError::Field("layer error rate"));
        }
        // There is no stricter check: a filter whose chunks are still to be loaded, or were damaged, can be
        // saved and must load.
        if bits_set / 8 > geometry.bytes() {
            return Err(DecodeError::Field("set bits"));
        }
        Ok(Self {
            shape: Shape {
                geometry,
                capacity,
                rate,
            },
            items,
            bits_set,
        })
    }
}

#[cfg(test)]
mod tests;
