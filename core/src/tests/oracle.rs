//! A naive filter, written bit by bit from the documentation of the layout: slow, and plainly right.

use std::path::PathBuf;
use std::sync::Arc;

use crate::chain::{Chain, UNLIMITED};
use crate::checks::{MemoryStream, Value};
use crate::codec::{self, DecodeError, ENCODING_VERSION};
use crate::layers::Layers;
use crate::layouts::blocked::secret::Secret;
use crate::layouts::blocked::sizing::Geometry;
use crate::layouts::blocked::{Blocked, Layer, Shape};
use crate::params::{Capacity, ErrorRate, Expansion, Growth, Seed};
use crate::spec::{BlockedSpec, Spec};
use crate::{Allowance, Error, Filter};

/// A chain of layers of single bits.
pub struct Naive {
    pub spec: BlockedSpec,
    pub layers: Vec<NaiveLayer>,
    secret: Arc<Secret>,
}

/// A layer of single bits.
pub struct NaiveLayer {
    pub shape: Shape,
    pub items: u64,
    pub bits: Vec<bool>,
}

impl Naive {
    pub fn new(spec: BlockedSpec) -> Self {
        let shape = planned(spec).next().unwrap();
        Self {
            spec,
            layers: vec![NaiveLayer::new(shape)],
            secret: Secret::of(spec.seed),
        }
    }

    pub fn contains(&self, item: &[u8]) -> bool {
        self.layers.iter().any(|layer| layer.contains(&self.secret, item))
    }

    /// Adds an item. Returns whether it is new, or `None` if it is new and there is no room for it.
    pub fn add(&mut self, item: &[u8]) -> Option<bool> {
        if self.contains(item) {
            return Some(false);
        }
        let newest = self.layers.last().unwrap();
        if newest.items == newest.shape.capacity {
            let shape = planned(self.spec).nth(self.layers.len())?;
            self.layers.push(NaiveLayer::new(shape));
        }
        self.layers.last_mut().unwrap().add(&self.secret, item);
        Some(true)
    }

    pub fn items(&self) -> u64 {
        self.layers.iter().map(|layer| layer.items).sum()
    }
}

impl NaiveLayer {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            items: 0,
            bits: vec![false; shape.geometry.bytes() as usize * 8],
        }
    }

    fn contains(&self, secret: &Secret, item: &[u8]) -> bool {
        positions(self.shape.geometry, secret, item)
            .into_iter()
            .all(|at| self.bits[at])
    }

    pub fn add(&mut self, secret: &Secret, item: &[u8]) {
        for at in positions(self.shape.geometry, secret, item) {
            self.bits[at] = true;
        }
        self.items += 1;
    }

    /// Whether `layer` has exactly these bits and counts.
    pub fn equals(&self, layer: &Layer) -> bool {
        use crate::chain::batch::Layer as _;
        self.shape == layer.shape()
            && self.items == layer.items()
            && self
                .bits
                .iter()
                .eq(layer.bits().bits().iter().by_vals().collect::<Vec<_>>().iter())
    }
}

/// The bits of an item in a layer.
fn positions(geometry: Geometry, secret: &Secret, item: &[u8]) -> Vec<usize> {
    let (a, b) = (secret.hash(item).low, secret.hash(item).high);
    let mut positions = Vec::new();
    let mut multipliers = SplitMix64(0);
    for j in 0..u64::from(geometry.lines_per_item) {
        let choose_line = if j == 0 { 1 } else { multipliers.next_odd() };
        let choose_bits = multipliers.next_odd();
        let line = (u128::from(a.wrapping_mul(choose_line)) * u128::from(geometry.lines)) >> 64;
        let line = j * geometry.lines + line as u64;
        let c = a.wrapping_mul(choose_line);
        let w = c
            .wrapping_add(if j == 0 { 0 } else { b })
            .wrapping_mul(choose_bits);
        for t in 0..u64::from(geometry.probes) {
            let word = ((w >> 61) + t) % 8;
            let bit = (w >> (55 - 6 * word)) % 64;
            positions.push((line * 512 + word * 64 + bit) as usize);
        }
    }
    positions
}

/// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next_odd(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) | 1
    }
}

/// The shapes of a filter's layers as it grows, without the layers.
pub fn planned(spec: BlockedSpec) -> impl Iterator<Item = Shape> {
    let (mut left, mut capacity) = (spec.error_rate.value(), spec.capacity.items());
    let longest = if spec.growth == Growth::Fixed {
        1
    } else {
        usize::MAX
    };
    (0..longest).map(move |index| {
        let shape = Shape::sized(capacity, spec.growth.share(index) * left);
        left = (left - shape.rate).max(0.0);
        let expansion = spec.growth.expansion().map_or(1, Expansion::factor);
        capacity = capacity.saturating_mul(u64::from(expansion));
        shape
    })
}

/// A spec of plain numbers.
pub fn spec(capacity: u64, error_rate: f64, growth: Growth, seed: u64) -> BlockedSpec {
    BlockedSpec {
        error_rate: ErrorRate::new(error_rate).unwrap(),
        capacity: Capacity::new(capacity).unwrap(),
        growth,
        seed: Seed(seed),
        window: None,
    }
}

/// A reserved filter's growth.
pub fn reserved(expansion: u32) -> Growth {
    Growth::Reserved(Expansion::new(expansion).unwrap())
}

/// A growing filter's growth.
pub fn growing(expansion: u32) -> Growth {
    Growth::Growing(Expansion::new(expansion).unwrap())
}

/// An empty filter.
pub fn filter(spec: impl Into<Spec>) -> Filter {
    Filter::new(spec.into(), UNLIMITED).unwrap()
}

/// The chain of a blocked filter.
pub fn chain(filter: &Filter) -> &Chain<Blocked> {
    match &filter.layers {
        Layers::Blocked(chain, _) => chain,
        _ => panic!("no chain of the blocked layout"),
    }
}

/// The filter as it is stored.
pub fn stored(filter: &Filter) -> MemoryStream {
    let mut memory = MemoryStream::default();
    codec::save(filter, &mut memory);
    memory
}

/// An equal filter, saved and loaded, of any layout.
pub fn reloaded(filter: &Filter) -> Filter {
    let stream = stored(filter);
    let mut source = stream.clone();
    let loaded = match filter.as_valkey() {
        Some(_) => {
            let chain = codec::valkey::load(&mut source, codec::valkey::ENCODING_VERSION, UNLIMITED);
            chain.unwrap().into()
        }
        None => codec::load(&mut source, ENCODING_VERSION, UNLIMITED).unwrap(),
    };
    assert_eq!(source.values.len(), 0, "values left over");
    assert_eq!(stored(&loaded), stream);
    loaded
}

/// The filter that a whole stream is.
pub fn load_with(stream: &MemoryStream, allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    let mut source = stream.clone();
    let filter = codec::load(&mut source, ENCODING_VERSION, allowance)?;
    let left = source.values.len();
    assert_eq!(left, 0, "values left over");
    Ok(filter)
}

/// Loads the filter from a whole stream, without a limit.
pub fn load(stream: &MemoryStream) -> Result<Filter, DecodeError> {
    load_with(stream, UNLIMITED)
}

/// The header in a stream of this project's own format.
pub fn header_of(stream: &mut MemoryStream) -> &mut Vec<u8> {
    match stream.values.get_mut(2) {
        Some(Value::String(header)) => header,
        other => panic!("no header: {other:?}"),
    }
}

/// The stream with some bytes of its header replaced.
pub fn with_header(stream: &MemoryStream, offset: usize, bytes: &[u8]) -> MemoryStream {
    let mut stream = stream.clone();
    header_of(&mut stream)[offset..offset + bytes.len()].copy_from_slice(bytes);
    stream
}

/// Adds all `items` as one batch. Returns the answers, and the error that ended it.
pub fn add_batch<I: AsRef<[u8]>>(filter: &mut Filter, items: &[I]) -> (Vec<bool>, Result<(), Error>) {
    let mut answers = Vec::new();
    let items = items.iter().map(AsRef::as_ref);
    let end = filter.add_all(items, 0, UNLIMITED, |new| answers.push(new));
    (answers, end)
}

/// The answers for a batch of `items`.
pub fn contains_batch<I: AsRef<[u8]>>(filter: &Filter, items: &[I]) -> Vec<bool> {
    filter.contains_many(items.iter().map(AsRef::as_ref))
}

/// Item number `id`: all different, of many lengths; item 0 is empty.
pub fn item(id: u32) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.resize(if id == 0 { 0 } else { 4 + id as usize % 300 }, 0x5a);
    bytes
}

/// A stored stream of this project's own format.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/fixtures/native/{name}.bin"))
}

/// A stream as a file: of each value a letter, then 8 bytes, which are the number or the string's length.
pub fn to_file(stream: &MemoryStream) -> Vec<u8> {
    let mut file = Vec::new();
    for value in &stream.values {
        let (letter, number, bytes): (u8, u64, &[u8]) = match value {
            Value::Unsigned(number) => (b'u', *number, &[]),
            Value::Double(number) => (b'd', number.to_bits(), &[]),
            Value::String(bytes) => (b's', bytes.len() as u64, bytes),
        };
        file.push(letter);
        file.extend_from_slice(&number.to_le_bytes());
        file.extend_from_slice(bytes);
    }
    file
}

/// The stream in a file.
pub fn of_file(mut file: &[u8]) -> MemoryStream {
    let mut stream = MemoryStream::default();
    while let Some((letter, rest)) = file.split_first() {
        let (number, rest) = rest.split_first_chunk().unwrap();
        let number = u64::from_le_bytes(*number);
        let length = if *letter == b's' { number as usize } else { 0 };
        let (bytes, rest) = rest.split_at(length);
        stream.values.push_back(match letter {
            b'u' => Value::Unsigned(number),
            b'd' => Value::Double(f64::from_bits(number)),
            b's' => Value::String(bytes.to_vec()),
            other => panic!("no letter of a value: {other}"),
        });
        file = rest;
    }
    stream
}
