//! valkey-bloom's formats: RDB stream, data of BF.LOAD, header of chunks. See "Stored bytes" in docs/design.md.

use crate::bits::array::BitArray;
use crate::chain::batch::Layer as _;
use crate::chain::demand::{ask, push, reserved};
use crate::chain::{Allowance, Chain, MOST_ITEMS, Rules, ask_for_next, sum};
use crate::codec::fields::{DecodeError, Fields, put, require, restored};
use crate::codec::stream::{Sink, Source};
use crate::error::Error;
use crate::layouts::valkey::{Layer, Shape, Valkey};
use crate::params::{SipSeed, Tightening};

/// The encoding version of the stored type, with which every filter is saved.
pub const ENCODING_VERSION: i32 = 1;
/// The version of the data of BF.LOAD.
const LOAD_VERSION: u8 = 1;
/// Bytes of the data of BF.LOAD before its layers.
const LOAD_HEAD_BYTES: usize = 30;
/// Bytes of a layer in the data of BF.LOAD, without its head and bits.
const LOAD_LAYER_BYTES: usize = 24;
/// The first bytes of a chunk header. The last of them is the format version.
pub const MAGIC: [u8; 8] = *b"BLOOM\0\0\x02";
/// Bytes of a chunk header before its layers, and of each of them.
const HEADER_BYTES: usize = 68;
const HEADER_LAYER_BYTES: usize = 24;

/// Writes a filter to an RDB stream, as valkey-bloom does.
pub fn save(chain: &Chain<Valkey>, sink: &mut dyn Sink) {
    let rules = chain.rules();
    sink.put_unsigned(chain.layers().len() as u64);
    sink.put_unsigned(rules.expansion().into());
    sink.put_double(rules.error_rate());
    sink.put_double(rules.tightening().value());
    sink.put_unsigned(rules.seed().is_random().into());
    for layer in chain.layers() {
        sink.put_string(layer.stored_bytes());
        sink.put_unsigned(layer.capacity());
    }
    sink.put_unsigned(chain.layers().last().map_or(0, Layer::items));
}

/// Writes the values that valkey-bloom includes in a filter's digest.
pub fn save_for_digest(chain: &Chain<Valkey>, sink: &mut dyn Sink) {
    let rules = chain.rules();
    sink.put_unsigned(rules.expansion().into());
    sink.put_string(&rules.error_rate().to_le_bytes());
    sink.put_string(&rules.tightening().value().to_le_bytes());
    sink.put_unsigned(rules.seed().is_random().into());
    for layer in chain.layers() {
        sink.put_string(layer.stored_bytes());
        sink.put_unsigned(layer.items());
        sink.put_unsigned(layer.capacity());
    }
}

/// Reads a filter from an RDB stream.
pub fn load(
    source: &mut impl Source,
    encoding_version: i32,
    allowance: Allowance<'_>,
) -> Result<Chain<Valkey>, DecodeError> {
    // Version 0, and a version 1 without tightening ratios, were never released.
    if encoding_version != ENCODING_VERSION {
        return Err(DecodeError::Version(encoding_version.unsigned_abs().into()));
    }
    let layers = source.unsigned()?;
    let (expansion, error_rate) = (source.unsigned()?, source.double()?);
    let (tightening, random) = (source.double()?, source.unsigned()?);
    let expansion = u32::try_from(expansion).map_err(|_| DecodeError::Field("expansion"))?;
    let mut loader = Loader::new(layers, expansion, error_rate, tightening, flag(random)?)?;
    for to_come in (0..layers).rev() {
        // Memory is requested before the server reads the array; after that it would be counted as used
        // already. Only the size of the first array is not known before it is read.
        let expected = loader.expected()?;
        if let Some(shape) = expected {
            loader.ask(shape.bytes, allowance)?;
        }
        let (array, capacity) = (source.array()?, source.unsigned()?);
        let shape = loader.shape(array.bytes(), capacity)?;
        if expected.is_none() {
            loader.ask(shape.bytes, allowance)?;
        }
        let items = if to_come == 0 {
            source.unsigned()?
        } else {
            capacity
        };
        loader.push(shape, items, || restored(array))?;
    }
    Ok(loader.finish())
}

/// The data with which BF.LOAD makes `chain` again.
pub fn encode(chain: &Chain<Valkey>) -> Result<Vec<u8>, Error> {
    let rules = chain.rules();
    let mut bytes: Vec<u8> = reserved(encoded_bytes(chain))?;
    put!(bytes, LOAD_VERSION, rules.expansion(), rules.error_rate());
    put!(bytes, rules.tightening().value());
    put!(bytes, u8::from(rules.seed().is_random()));
    put!(bytes, chain.layers().len() as u64);
    for layer in chain.layers() {
        put!(bytes, layer.stored_bytes().len() as u64);
        bytes.extend_from_slice(layer.stored_bytes());
        put!(bytes, layer.items(), layer.capacity());
    }
    Ok(bytes)
}

/// Length in bytes of what [`encode`] returns for `chain`.
pub fn encoded_bytes(chain: &Chain<Valkey>) -> usize {
    let layers = chain.layers().iter();
    let layers = layers.map(|layer| layer.stored_bytes().len() + LOAD_LAYER_BYTES);
    LOAD_HEAD_BYTES + layers.sum::<usize>()
}

/// The filter that BF.LOAD makes from its data.
pub fn decode(bytes: &[u8], allowance: Allowance<'_>) -> Result<Chain<Valkey>, DecodeError> {
    let mut fields = Fields(bytes);
    let version = fields.u8()?;
    if version != LOAD_VERSION {
        return Err(DecodeError::Version(version.into()));
    }
    let (expansion, error_rate, tightening) = (fields.u32()?, fields.f64()?, fields.f64()?);
    let random = flag(fields.u8()?.into())?;
    let layers = fields.u64()?;
    let mut loader = Loader::new(layers, expansion, error_rate, tightening, random)?;
    for _ in 0..layers {
        let length = usize::try_from(fields.u64()?).map_err(|_| DecodeError::Truncated)?;
        let (array, rest) = fields.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        fields.0 = rest;
        let (items, capacity) = (fields.u64()?, fields.u64()?);
        let shape = loader.shape(array, capacity)?;
        loader.ask(shape.bytes, allowance)?;
        loader.push(shape, items, || {
            let mut bits = BitArray::zeroed(shape.units())?;
            let merged = bits.merge(0, array);
            merged.map_err(|_| DecodeError::Field("bytes")).map(|()| bits)
        })?;
    }
    require(fields.0.is_empty(), "length")?;
    Ok(loader.finish())
}

/// The chunk header of `chain`.
pub fn header(chain: &Chain<Valkey>) -> Result<Vec<u8>, Error> {
    let (rules, layers) = (chain.rules(), chain.layers());
    let mut bytes: Vec<u8> = reserved(HEADER_BYTES + layers.len() * HEADER_LAYER_BYTES)?;
    bytes.extend_from_slice(&MAGIC);
    put!(bytes, 0u32, layers.len() as u32, rules.error_rate());
    put!(bytes, rules.tightening().value(), rules.expansion());
    bytes.extend_from_slice(&rules.seed().0);
    for layer in layers {
        put!(bytes, layer.capacity(), layer.items(), layer.bytes());
    }
    Ok(bytes)
}

/// The filter that a chunk header describes, with its items counted and all of its bits unset.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Chain<Valkey>, DecodeError> {
    let mut fields = Fields(bytes);
    require(fields.take()? == MAGIC && fields.u32()? == 0, "magic")?;
    let layers = fields.u32()?;
    let (error_rate, tightening) = (fields.f64()?, fields.f64()?);
    let (expansion, seed) = (fields.u32()?, SipSeed(fields.take()?));
    require(
        fields.0.len() == layers as usize * HEADER_LAYER_BYTES,
        "header length",
    )?;
    let mut loader = Loader::new(layers.into(), expansion, error_rate, tightening, seed.is_random())?;
    // Nothing is allocated for layers until all of their sizes are valid and the sum is allowed.
    let mut stored: Vec<(Shape, u64)> = reserved(layers as usize)?;
    let rules = loader.rules(seed)?;
    for index in 0..layers as usize {
        let (capacity, items, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let error_rate = rate(&rules, index)?;
        let shape = Shape::stored(capacity, error_rate, bytes, seed);
        check(&rules, stored.last().map(|(shape, _)| shape.capacity), &shape)?;
        stored.push((shape, items));
    }
    let arrays = sum(stored.iter().map(|(shape, _)| shape.bytes));
    ask(0, Valkey::bytes(stored.len(), arrays), None, allowance)?;
    for (shape, items) in stored {
        loader.push(shape, items, || Ok(shape.array()?))?;
    }
    Ok(loader.finish())
}

fn flag(value: u64) -> Result<bool, DecodeError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Field("random seed")),
    }
}

fn rate(rules: &Valkey, index: usize) -> Result<f64, DecodeError> {
    rules.rate(index).ok_or(DecodeError::Field("tightening ratio"))
}

/// Checks the shape of a layer that follows one for `before` items, or of the first layer if that is `None`.
fn check(rules: &Valkey, before: Option<u64>, shape: &Shape) -> Result<(), DecodeError> {
    let follows = |before: u64| before.checked_mul(rules.expansion().into()) == Some(shape.capacity);
    require(before.is_none_or(follows), "capacity")?;
    shape.check().map_err(DecodeError::Field)
}

/// A stored filter while its layers are being read.
struct Loader {
    /// The rules, but for the seed, which is in the first layer.
    seedless: Valkey,
    is_random: bool,
    rules: Option<Valkey>,
    /// Number of layers of the complete filter.
    count: u64,
    layers: Vec<Layer>,
    /// Bytes of their bit arrays.
    arrays: u64,
    capacity: u64,
}

impl Loader {
    fn new(
        count: u64,
        expansion: u32,
        error_rate: f64,
        tightening: f64,
        is_random: bool,
    ) -> Result<Self, DecodeError> {
        require(count == 1 || count > 1 && expansion > 0, "layers")?;
        let tightening = Tightening::new(tightening).map_err(|_| DecodeError::Field("tightening ratio"))?;
        let seedless = Valkey::new(error_rate, expansion, tightening, SipSeed::FIXED);
        Ok(Self {
            seedless: seedless.map_err(|_| DecodeError::Field("error rate"))?,
            is_random,
            rules: None,
            count,
            layers: Vec::new(),
            arrays: 0,
            capacity: 0,
        })
    }

    /// The rules, with the seed of a layer. All layers must have the same seed.
    fn rules(&mut self, seed: SipSeed) -> Result<Valkey, DecodeError> {
        let rules = *self.rules.get_or_insert(self.seedless.with_seed(seed));
        require(rules.seed() == seed && seed.is_random() == self.is_random, "seed")?;
        Ok(rules)
    }

    /// The shape that the next layer must have; `None` for the first layer, which may have any.
    fn expected(&self) -> Result<Option<Shape>, DecodeError> {
        let (Some(rules), Some(newest)) = (&self.rules, self.layers.last()) else {
            return Ok(None);
        };
        let index = self.layers.len();
        rate(rules, index)?;
        let next = rules.layer(index, newest.capacity());
        next.map(Some).ok_or(DecodeError::Field("capacity"))
    }

    /// Checks the next layer, whose head and bits are `array`, and returns its shape.
    fn shape(&mut self, array: &[u8], capacity: u64) -> Result<Shape, DecodeError> {
        let (head, bits) = array.split_first_chunk().ok_or(DecodeError::Truncated)?;
        let head = Shape::of_head(head).map_err(DecodeError::Field)?;
        let rules = self.rules(head.seed)?;
        let shape = Shape {
            capacity,
            error_rate: rate(&rules, self.layers.len())?,
            ..head
        };
        require(bits.len() as u64 == shape.bytes, "bytes")?;
        check(&rules, self.layers.last().map(Layer::capacity), &shape)?;
        Ok(shape)
    }

    /// Requests memory for the next layer, with a bit array of `array` bytes.
    fn ask(&mut self, array: u64, allowance: Allowance<'_>) -> Result<(), DecodeError> {
        ask_for_next::<Valkey>(self.layers.len(), self.arrays, array, None, allowance)?;
        self.arrays = self.arrays.saturating_add(array);
        Ok(())
    }

    /// Appends the next layer, whose shape has been checked.
    fn push(
        &mut self,
        shape: Shape,
        items: u64,
        array: impl FnOnce() -> Result<BitArray<u64>, DecodeError>,
    ) -> Result<(), DecodeError> {
        let capacity = self.capacity.saturating_add(shape.capacity);
        require(capacity <= MOST_ITEMS, "capacity")?;
        let is_newest = self.layers.len() as u64 + 1 == self.count;
        let fits = items == shape.capacity || items < shape.capacity && is_newest;
        require(fits, "items")?;
        let mut layer = shape.with_array(array()?);
        layer.items = items;
        push(&mut self.layers, layer)?;
        self.capacity = capacity;
        Ok(())
    }

    fn finish(self) -> Chain<Valkey> {
        let rules = self.rules.unwrap_or(self.seedless);
        Chain::of_layers(rules, self.layers)
    }
}

#[cfg(test)]
mod tests;
