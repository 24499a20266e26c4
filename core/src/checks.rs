//! Checks a filter's invariants, and keeps a stream in memory: for tests, fuzzing and benchmarks (feature `checks`).

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use crate::Filter;
use crate::bits::array::BitArray;
use crate::chain::Chain;
use crate::chain::batch::Layer;
use crate::chain::demand::reserved;
use crate::codec::DecodeError;
use crate::codec::stream::{Array, Sink, Source};
use crate::error::require;
use crate::exceptions::{Exceptions, MOST_EXCEPTIONS};
use crate::item::ItemHash;
use crate::layers::Layers;
use crate::layouts::blocked::sizing::PROBES;
use crate::layouts::blocked::window::Windowed;
use crate::layouts::blocked::{self, Blocked};
use crate::layouts::classic::Classic;
use crate::layouts::valkey::Valkey;
use crate::params::{Expansion, Growth, ROUNDING};

/// A broken invariant, with the index of its layer or slice, from the oldest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Invalid {
    /// There is no layer.
    NoLayer,
    /// A filter that may not grow has more than one layer.
    GrownFixed,
    /// The geometry has values out of range, or the bit array has another size.
    Geometry(usize),
    /// The layer counts more items than it is made for.
    Items(usize),
    /// The layer has room left although there is a newer one.
    NotFull(usize),
    /// The set of exceptions is empty or too large, miscounts them, or does not find what it stores.
    Exceptions,
    /// In a window, the times of this slice are out of order, or later than those of the next.
    Times(usize),
    /// The capacity is not that of the layer before it times the expansion.
    Capacity(usize),
    /// The layer's count of set bits is wrong.
    BitsSet {
        /// Index of the layer.
        layer: usize,
        /// Set bits by the layer's own count.
        counted: u64,
        /// Set bits, recounted.
        recounted: u64,
    },
    /// The number of set bits is impossible for the number of items: each item sets at least one bit, and
    /// each probe at most one. This is reported only if nothing else is wrong. A filter whose chunks are
    /// still being loaded has fewer bits, and one loaded from foreign bytes may have any number.
    Fill(usize),
    /// The layers' rates add up to this, more than the filter's.
    Budget(f64),
}

impl Filter {
    /// Checks every invariant, reading all bits.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let Layers::Blocked(chain, _) = &self.layers {
            check_growth(chain)?;
        }
        self.validate_composed()
    }

    /// Checks the invariants of a filter whose layers may come from several: they need not follow from one another.
    pub fn validate_composed(&self) -> Result<(), Invalid> {
        self.excepted().map_or(Ok(()), check_exceptions)?;
        require(self.layers() > 0 || self.window().is_some(), Invalid::NoLayer)?;
        match &self.layers {
            Layers::Blocked(chain, _) => {
                let layers = || chain.layers().iter();
                check_each(layers())?;
                check_rate(layers(), chain.rules())?;
                check_fill(layers())
            }
            Layers::Windowed(windowed) => check_windowed(windowed),
            Layers::Valkey(chain) => check_valkey(chain),
            Layers::Classic(chain) => check_classic(chain),
        }
    }
}

fn check_exceptions(exceptions: &Exceptions) -> Result<(), Invalid> {
    let count = exceptions.hashes().count();
    let sound = exceptions
        .hashes()
        .all(|hash| exceptions.has(hash) && hash != ItemHash::default());
    let is_counted = (1..=MOST_EXCEPTIONS).contains(&count) && count == exceptions.len();
    require(sound && is_counted, Invalid::Exceptions)
}

/// Checks the counts of a layer in any layout: its items and its set bits.
fn check_counts<U>(index: usize, layer: &impl Layer, bits: &BitArray<U>) -> Result<(), Invalid>
where
    U: Zeroable + NoUninit + AnyBitPattern,
{
    let has_room = layer.capacity() > 0 && layer.items() <= layer.capacity();
    require(has_room, Invalid::Items(index))?;
    let (counted, recounted) = (bits.ones(), bits.bits().count_ones() as u64);
    let wrong = Invalid::BitsSet {
        layer: index,
        counted,
        recounted,
    };
    require(counted == recounted, wrong)
}

fn check_windowed(windowed: &Windowed) -> Result<(), Invalid> {
    for (index, pair) in windowed.slices.windows(2).enumerate() {
        let in_order = pair[0].opens <= pair[1].opens && pair[0].closes <= pair[1].closes;
        require(in_order, Invalid::Times(index))?;
    }
    check_each(windowed.layers())?;
    let mut before = 0;
    for (index, slice) in windowed.slices.iter().enumerate() {
        let layers = slice.layers();
        let is_sound = slice.opens <= slice.closes && !layers.is_empty();
        require(is_sound, Invalid::Times(index))?;
        let not_full = |layer: &blocked::Layer| layer.items() < layer.capacity();
        if let Some(layer) = layers[..layers.len() - 1].iter().position(not_full) {
            return Err(Invalid::NotFull(before + layer));
        }
        before += layers.len();
    }
    check_rate(windowed.layers(), &windowed.rules)?;
    check_fill(windowed.layers())
}

fn check_classic(chain: &Chain<Classic>) -> Result<(), Invalid> {
    let (layers, rules) = (chain.layers(), chain.rules());
    require(rules.scales() || layers.len() == 1, Invalid::GrownFixed)?;
    for (index, layer) in layers.iter().enumerate() {
        let shape = layer.shape();
        let fits = shape.check(rules.options()).is_ok() && layer.array().len() as u64 == shape.bytes;
        require(fits, Invalid::Geometry(index))?;
        check_counts(index, layer, &layer.words)?;
    }
    Ok(())
}

fn check_valkey(chain: &Chain<Valkey>) -> Result<(), Invalid> {
    let (layers, rules) = (chain.layers(), chain.rules());
    require(rules.expansion() > 0 || layers.len() == 1, Invalid::GrownFixed)?;
    let mut expected = Some(layers[0].capacity());
    for (index, layer) in layers.iter().enumerate() {
        let shape = layer.shape();
        require(expected == Some(shape.capacity), Invalid::Capacity(index))?;
        let follows = shape.seed == rules.seed() && Some(shape.error_rate) == rules.rate(index);
        require(shape.check().is_ok() && follows, Invalid::Geometry(index))?;
        let is_full = layer.items() >= layer.capacity();
        require(is_full || index + 1 == layers.len(), Invalid::NotFull(index))?;
        check_counts(index, layer, &layer.words)?;
        expected = rules.layer(index + 1, shape.capacity).map(|next| next.capacity);
    }
    Ok(())
}

/// Checks that all layers but the newest are full, and each has the capacity of the one before times the expansion.
fn check_growth(chain: &Chain<Blocked>) -> Result<(), Invalid> {
    let (layers, growth) = (chain.layers(), chain.rules().growth());
    require(growth != Growth::Fixed || layers.len() <= 1, Invalid::GrownFixed)?;
    let factor = growth.expansion().map_or(1, Expansion::factor);
    for (index, pair) in layers.windows(2).enumerate() {
        require(pair[0].items() >= pair[0].capacity(), Invalid::NotFull(index))?;
        let grown = pair[0].capacity().saturating_mul(factor.into());
        require(pair[1].capacity() == grown, Invalid::Capacity(index + 1))?;
    }
    Ok(())
}

/// Checks that layers have as many bits as their items set.
fn check_fill<'a>(mut layers: impl Iterator<Item = &'a blocked::Layer>) -> Result<(), Invalid> {
    let is_wrong = |layer: &blocked::Layer| {
        let (geometry, items) = (layer.shape().geometry, layer.items());
        let probes = u64::from(geometry.probes) * u64::from(geometry.lines_per_item);
        !(items..=items.saturating_mul(probes)).contains(&layer.ones())
    };
    let wrong = layers.position(is_wrong);
    wrong.map_or(Ok(()), |layer| Err(Invalid::Fill(layer)))
}

/// Checks that the layers keep the filter's rate.
fn check_rate<'a>(layers: impl Iterator<Item = &'a blocked::Layer>, rules: &Blocked) -> Result<(), Invalid> {
    let sum: f64 = layers.map(|layer| layer.shape().rate).sum();
    let most = rules.error_rate().value() * (1.0 + ROUNDING);
    require((0.0..=most).contains(&sum), Invalid::Budget(sum))
}

/// Checks each layer by itself, regardless of the others.
fn check_each<'a>(layers: impl Iterator<Item = &'a blocked::Layer>) -> Result<(), Invalid> {
    for (index, layer) in layers.enumerate() {
        let (bits, geometry) = (layer.bits(), layer.shape().geometry);
        let is_possible = PROBES.contains(&geometry.probes) && geometry.lines > 0;
        let fits = bits.bytes().len() as u64 == geometry.bytes();
        require(is_possible && fits, Invalid::Geometry(index))?;
        check_counts(index, layer, bits)?;
    }
    Ok(())
}

/// One value of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned integer.
    Unsigned(u64),
    /// A double.
    Double(f64),
    /// A string of bytes.
    String(Vec<u8>),
}

/// A stream in memory, for tests, fuzzing and benchmarks. Values are written at the end and read from the front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStream {
    /// The values that have not been read yet.
    pub values: std::collections::VecDeque<Value>,
}

impl Sink for MemoryStream {
    fn put_unsigned(&mut self, value: u64) {
        self.values.push_back(Value::Unsigned(value));
    }

    fn put_double(&mut self, value: f64) {
        self.values.push_back(Value::Double(value));
    }

    #[expect(clippy::disallowed_methods, reason = "a stream in memory is for tests")]
    fn put_string(&mut self, bytes: &[u8]) {
        self.values.push_back(Value::String(bytes.to_vec()));
    }
}

impl Source for MemoryStream {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        match self.values.pop_front() {
            Some(Value::Unsigned(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.values.pop_front() {
            Some(Value::Double(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError> {
        match self.values.pop_front() {
            Some(Value::String(bytes)) => Ok(take(&bytes)),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn array(&mut self) -> Result<Array, DecodeError> {
        self.string(|bytes| match bytes.as_chunks::<8>() {
            (words, []) => {
                let mut array = reserved(words.len())?;
                array.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
                Ok(Array::Words(array.into_boxed_slice()))
            }
            _ => {
                let mut array = reserved(bytes.len())?;
                array.extend_from_slice(bytes);
                Ok(Array::Bytes(array.into_boxed_slice()))
            }
        })?
    }
}
