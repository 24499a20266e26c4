//! RedisBloom's formats: RDB stream, header of chunks. See "Stored bytes" in docs/design.md.

use crate::bits::array::BitArray;
use crate::chain::batch::Layer as _;
use crate::chain::demand::{ask, push, reserved};
use crate::chain::layered::Layered as _;
use crate::chain::{Allowance, Chain, MOST_ITEMS, Rules as _, ask_for_next, sum};
use crate::codec::fields::{DecodeError, Fields, put, require, restored};
use crate::codec::stream::{Sink, Source};
use crate::error::Error;
use crate::layouts::classic::{Classic, Layer, Options, Shape};

/// Bytes of a chunk header before its layers, and of each of them.
const HEAD_BYTES: usize = 20;
const LAYER_BYTES: usize = 53;
/// The expansion of filters stored before it could be chosen.
const EARLY_EXPANSION: u64 = 2;

/// Writes a filter to an RDB stream, as RedisBloom does.
pub fn save(chain: &Chain<Classic>, sink: &mut dyn Sink) {
    sink.put_unsigned(chain.items(0));
    sink.put_unsigned(chain.layers().len() as u64);
    sink.put_unsigned(u64::from(chain.rules().options().word()));
    sink.put_unsigned(u64::from(chain.rules().expansion()));
    for layer in chain.layers() {
        let shape = layer.shape();
        sink.put_unsigned(shape.capacity);
        sink.put_double(shape.error_rate);
        sink.put_unsigned(u64::from(shape.probes));
        sink.put_double(shape.bits_per_item);
        sink.put_unsigned(shape.bits);
        sink.put_unsigned(u64::from(shape.n2));
        sink.put_string(layer.array());
        sink.put_unsigned(layer.items());
    }
}

/// Reads a filter from an RDB stream whose first two integers, `items` and `layers`, were read already.
pub fn load(
    items: u64,
    layers: u64,
    source: &mut impl Source,
    encoding_version: u8,
    allowance: Allowance<'_>,
) -> Result<Chain<Classic>, DecodeError> {
    let options = if encoding_version >= 2 {
        source.unsigned()?
    } else {
        0
    };
    let expansion = if encoding_version >= 3 {
        source.unsigned()?
    } else {
        EARLY_EXPANSION
    };
    let expansion = u32::try_from(expansion).map_err(|_| DecodeError::Field("expansion"))?;
    let options = u32::try_from(options).map_err(|_| DecodeError::Field("options"))?;
    let mut loader = Loader::new(items, layers, options, expansion)?;
    for _ in 0..layers {
        let capacity = source.unsigned()?;
        let error_rate = source.double()?;
        let probes = source.unsigned()?;
        let bits_per_item = source.double()?;
        let (bits, n2) = if encoding_version == 0 {
            ((capacity as f64 * bits_per_item) as u64, 0)
        } else {
            (source.unsigned()?, source.unsigned()?)
        };
        let shape = Shape {
            capacity,
            error_rate,
            bits_per_item,
            bits,
            bytes: 0,
            probes: u32::try_from(probes).map_err(|_| DecodeError::Field("probes"))?,
            n2: u8::try_from(n2).map_err(|_| DecodeError::Field("n2"))?,
        };
        // Memory is requested before the server reads the array; after that it would be counted as used already.
        loader.ask(bits.div_ceil(8), allowance)?;
        let array = source.array()?;
        let bytes = array.bytes().len() as u64;
        loader.append(Shape { bytes, ..shape }, || restored(array))?;
        loader.count(source.unsigned()?)?;
    }
    loader.finish()
}

pub fn header(chain: &Chain<Classic>) -> Result<Vec<u8>, Error> {
    let layers = chain.layers();
    let mut bytes: Vec<u8> = reserved(HEAD_BYTES + layers.len() * LAYER_BYTES)?;
    put!(bytes, chain.items(0), layers.len() as u32);
    put!(bytes, chain.rules().options().word(), chain.rules().expansion());
    for layer in layers {
        let shape = layer.shape();
        put!(bytes, shape.bytes, shape.bits, layer.items(), shape.error_rate);
        put!(bytes, shape.bits_per_item, shape.probes, shape.capacity, shape.n2);
    }
    Ok(bytes)
}

pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Chain<Classic>, DecodeError> {
    let mut fields = Fields(bytes);
    let items = fields.u64()?;
    let layers = fields.u32()?;
    let (options, expansion) = (fields.u32()?, fields.u32()?);
    require(fields.0.len() == layers as usize * LAYER_BYTES, "header length")?;
    let mut loader = Loader::new(items, u64::from(layers), options, expansion)?;
    // Nothing is allocated for layers until all of their sizes are valid and the sum is allowed.
    let mut stored = reserved(layers as usize)?;
    for _ in 0..layers {
        let (bytes, bits, items) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (error_rate, bits_per_item) = (fields.f64()?, fields.f64()?);
        let (probes, capacity, n2) = (fields.u32()?, fields.u64()?, fields.u8()?);
        let shape = Shape {
            capacity,
            error_rate,
            bits_per_item,
            bits,
            bytes,
            probes,
            n2,
        };
        shape.check(loader.rules.options()).map_err(DecodeError::Field)?;
        stored.push((shape, items));
    }
    let arrays = sum(stored.iter().map(|(shape, _)| shape.bytes));
    ask(0, Classic::bytes(stored.len(), arrays), None, allowance)?;
    for (shape, items) in stored {
        loader.append(shape, || Ok(BitArray::zeroed(shape.bytes.div_ceil(8))?))?;
        loader.count(items)?;
    }
    loader.finish()
}

/// A stored filter while its layers are being read.
struct Loader {
    rules: Classic,
    layers: Vec<Layer>,
    /// Bytes of their bit arrays.
    arrays: u64,
    capacity: u64,
    items_to_come: u64,
}

impl Loader {
    fn new(items: u64, layers: u64, options: u32, expansion: u32) -> Result<Self, DecodeError> {
        let options = Options::new(options).ok_or(DecodeError::Field("options"))?;
        let grows = !options.has(Options::NO_SCALING);
        require(layers == 1 || layers > 1 && grows, "layers")?;
        Ok(Self {
            rules: Classic::stored(options, expansion),
            layers: Vec::new(),
            arrays: 0,
            capacity: 0,
            items_to_come: items,
        })
    }

    /// Requests memory for the next layer, with a bit array of `array` bytes.
    fn ask(&mut self, array: u64, allowance: Allowance<'_>) -> Result<(), DecodeError> {
        ask_for_next::<Classic>(self.layers.len(), self.arrays, array, None, allowance)?;
        self.arrays = self.arrays.saturating_add(array);
        Ok(())
    }

    fn append(
        &mut self,
        shape: Shape,
        bits: impl FnOnce() -> Result<BitArray<u64>, DecodeError>,
    ) -> Result<(), DecodeError> {
        shape.check(self.rules.options()).map_err(DecodeError::Field)?;
        let capacity = self.capacity.saturating_add(shape.capacity);
        require(capacity <= MOST_ITEMS, "capacity")?;
        push(&mut self.layers, shape.with_bits(bits()?))?;
        self.capacity = capacity;
        Ok(())
    }

    /// Sets the number of items of the newest layer.
    fn count(&mut self, items: u64) -> Result<(), DecodeError> {
        let wrong = DecodeError::Field("items");
        let layer = self.layers.last_mut().ok_or(wrong)?;
        require(items <= layer.capacity(), "items")?;
        self.items_to_come = self.items_to_come.checked_sub(items).ok_or(wrong)?;
        layer.items = items;
        Ok(())
    }

    fn finish(self) -> Result<Chain<Classic>, DecodeError> {
        require(self.items_to_come == 0, "items")?;
        Ok(Chain::of_layers(self.rules, self.layers))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Limit;
    use crate::chain::{Demand, UNLIMITED, at_most};
    use crate::checks::{MemoryStream, Value};
    use crate::codec::{self, chunks};
    use crate::filter::Filter;
    use crate::layers::Layers;
    use crate::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed};
    use crate::spec::BlockedSpec;
    use crate::tests::stored::{self, Stored, naive_array};

    fn load(stream: &MemoryStream) -> Result<Filter, DecodeError> {
        load_version(stream, 4)
    }

    fn load_version(stream: &MemoryStream, encoding_version: i32) -> Result<Filter, DecodeError> {
        codec::load(&mut stream.clone(), encoding_version, UNLIMITED)
    }

    fn save(filter: &Filter) -> MemoryStream {
        let mut stream = MemoryStream::default();
        codec::save(filter, &mut stream);
        stream
    }

    /// The stored filter as it was when it was new.
    fn reserved(stored: &Stored) -> Filter {
        let (rate, capacity, expansion) = stored.reserve;
        let expansion = expansion.map(|factor| Expansion::new(factor).unwrap());
        let spec = BlockedSpec {
            error_rate: ErrorRate::new(rate).unwrap(),
            capacity: Capacity::new(capacity).unwrap(),
            growth: expansion.map_or(Growth::Fixed, Growth::Reserved),
            seed: Seed(0),
            window: None,
        };
        Filter::new(spec.in_layout(Layout::Classic).unwrap(), UNLIMITED).unwrap()
    }

    fn add_all(filter: &mut Filter, items: &[Vec<u8>]) {
        let items = items.iter().map(Vec::as_slice);
        filter.add_all(items, 0, UNLIMITED, |_| ()).unwrap();
    }

    fn contains_all(filter: &Filter, items: &[Vec<u8>]) -> bool {
        items.iter().all(|item| filter.contains(item))
    }

    /// The lines that BF.DEBUG replies.
    fn debug(filter: &Filter) -> Vec<String> {
        let layers = filter.layer_stats().map(|layer| {
            let (shape, hash_width) = (layer.shape, layer.shape.hash_width.unwrap());
            format!(
                "bytes:{} bits:{} hashes:{} hashwidth:{hash_width} capacity:{} size:{} ratio:{}",
                shape.bytes, shape.bits, shape.probes, shape.capacity, layer.items, shape.error_rate
            )
        });
        let mut lines = vec![format!("size:{}", filter.items())];
        lines.extend(layers);
        lines
    }

    /// Filters that were moved from RedisBloom give the answers that RedisBloom gave.
    #[test]
    fn stored_filters_answer_as_recorded() {
        let probes = Stored::probes();
        for stored in stored::filters() {
            let name = &stored.name;
            let filter = load(&stored.stream).unwrap();
            assert!(contains_all(&filter, &stored.items), "{name}");
            let mut present = Vec::new();
            filter.contains_all(probes.iter().map(Vec::as_slice), 0, |found| present.push(found));
            let one_by_one: Vec<_> = probes.iter().map(|probe| filter.contains(probe)).collect();
            assert_eq!(present, one_by_one, "{name}");
            let present: Vec<_> = (0..probes.len()).filter(|&probe| present[probe]).collect();
            assert_eq!(present, stored.false_positives, "{name}");

            let totals = filter.totals();
            let info = [
                totals.capacity,
                filter.bytes(),
                totals.layers as u64,
                totals.items,
            ];
            assert_eq!(info, stored.info, "{name}");
            assert_eq!(filter.expansion(), stored.reserve.2, "{name}");
            assert_eq!(filter.error_rate(), stored.reserve.0, "{name}");
            // The one ratio for which "{}" and "%g" differ.
            let ratio = |line: &String| {
                let (figures, ratio) = line.split_once(" ratio:").unwrap_or((line, "0"));
                (figures.to_owned(), ratio.parse::<f64>().unwrap())
            };
            let figures = |lines: &[String]| lines.iter().map(ratio).collect::<Vec<_>>();
            assert_eq!(figures(&debug(&filter)), figures(&stored.debug), "{name}");
        }
    }

    /// Users can go back to RedisBloom with filters that were loaded or made here, and the filters have grown the
    /// layers that they would have there.
    #[test]
    fn filters_are_saved_as_redisbloom_saves_them() {
        for stored in stored::filters() {
            let name = &stored.name;
            assert_eq!(save(&load(&stored.stream).unwrap()), stored.stream, "{name}");

            let mut filter = reserved(&stored);
            add_all(&mut filter, &stored.items);
            assert_eq!(save(&filter), stored.stream, "{name}, in batches");

            let mut filter = reserved(&stored);
            for (count, item) in stored.items.iter().enumerate() {
                if count == stored.items.len() / 2 {
                    filter = load(&save(&filter)).unwrap();
                }
                filter.add(item, 0, UNLIMITED).unwrap();
            }
            assert_eq!(save(&filter), stored.stream, "{name}, one by one");
        }
    }

    /// A layer as an early version of RedisBloom made it, with its filter's RDB stream.
    struct Early {
        options: u32,
        n2: u8,
        bits: u64,
        bytes: usize,
        capacity: u64,
        probes: u32,
        items: Vec<Vec<u8>>,
    }

    impl Early {
        const ERROR_RATE: f64 = 0.005;
        const BITS_PER_ITEM: f64 = 11.027753418256411;

        fn array(&self) -> Vec<u8> {
            let modulus = if self.n2 > 0 { 1 << self.n2 } else { self.bits };
            let options = Options::new(self.options).unwrap();
            naive_array(self.bytes, modulus, self.probes, options, &self.items)
        }

        fn stream(&self, encoding_version: i32) -> MemoryStream {
            let items = self.items.len() as u64;
            let mut stream = MemoryStream::default();
            stream.put_unsigned(items);
            stream.put_unsigned(1);
            if encoding_version >= 2 {
                stream.put_unsigned(u64::from(self.options));
            }
            if encoding_version >= 3 {
                stream.put_unsigned(2);
            }
            stream.put_unsigned(self.capacity);
            stream.put_double(Self::ERROR_RATE);
            stream.put_unsigned(u64::from(self.probes));
            stream.put_double(Self::BITS_PER_ITEM);
            if encoding_version >= 1 {
                stream.put_unsigned(self.bits);
                stream.put_unsigned(u64::from(self.n2));
            }
            stream.put_string(&self.array());
            stream.put_unsigned(items);
            stream
        }
    }

    /// Layers of each kind, with the first encoding version that can hold them.
    fn early() -> Vec<(i32, Early)> {
        let items: Vec<_> = (0..90).map(|i| format!("early {i}").into_bytes()).collect();
        // 100 items at 11.03 bits need 1102.8 bits; 2^11 bits have room for 185 items.
        let exact = Early {
            options: 0,
            n2: 0,
            bits: 1102,
            bytes: 138,
            capacity: 100,
            probes: 8,
            items: items.clone(),
        };
        let power = |options, capacity| Early {
            options,
            n2: 11,
            bits: 2048,
            bytes: 256,
            capacity,
            probes: 8,
            items: items.clone(),
        };
        let words = Early {
            options: Options::NOROUND,
            n2: 0,
            bits: 1152,
            bytes: 144,
            capacity: 100,
            probes: 8,
            items: items.clone(),
        };
        vec![
            (0, exact),
            (1, power(0, 185)),
            (1, power(0, 100)),
            (2, power(Options::FORCE64, 185)),
            (2, words),
        ]
    }

    /// Filters from before 2019 have 32-bit hashes or a power of two bits, and their items are found.
    #[test]
    fn early_encodings_load_answer_grow_and_are_saved() {
        for (first_version, early) in early() {
            for encoding_version in first_version..=4 {
                let of_version = early.stream(encoding_version);
                if encoding_version < 2 && early.options != 0 {
                    continue;
                }
                let mut filter = load_version(&of_version, encoding_version).unwrap();
                assert!(contains_all(&filter, &early.items));
                assert_eq!(save(&filter), early.stream(4), "version {encoding_version}");
                assert_eq!(filter.items(), 90);
                assert_eq!(filter.expansion(), Some(2));

                let more: Vec<_> = (0..1000).map(|i| format!("more {i}").into_bytes()).collect();
                add_all(&mut filter, &more);
                let grown = load(&save(&filter)).unwrap();
                assert_eq!(save(&grown), save(&filter));
                for filter in [&filter, &grown] {
                    assert!(filter.totals().layers > 2);
                    assert!(contains_all(filter, &early.items) && contains_all(filter, &more));
                }
                let Layers::Classic(chain) = &grown.layers else {
                    panic!("{grown:?}");
                };
                let shape = chain.layers()[1].shape();
                let hash_width = if early.options & Options::FORCE64 > 0 {
                    64
                } else {
                    32
                };
                assert_eq!(chain.rules().options().hash_width(), hash_width);
                let rounded = early.options & Options::NOROUND == 0;
                assert_eq!(shape.n2 > 0, rounded, "{shape:?}");
                if rounded {
                    assert_eq!(shape.bits, 1 << shape.n2);
                }
            }
        }
        for unknown in [-1, 5, 256, i32::MIN, i32::MAX] {
            let stream = &stored::filters()[0].stream;
            assert!(matches!(
                load_version(stream, unknown),
                Err(DecodeError::Version(_))
            ));
        }
    }

    /// A filter that was only half read would lack items: it is refused.
    #[test]
    fn streams_that_end_early_are_refused() {
        for stored in stored::filters() {
            for length in 0..stored.stream.values.len() {
                let mut short = stored.stream.clone();
                short.values.truncate(length);
                assert_eq!(
                    load(&short).err(),
                    Some(DecodeError::Truncated),
                    "{}",
                    stored.name
                );
            }
        }
    }

    /// Values that replace `value` in a damaged stream.
    fn forced(value: &Value) -> Vec<Value> {
        match value {
            Value::Unsigned(value) => [
                0,
                1,
                2,
                63,
                64,
                255,
                256,
                u64::from(u32::MAX),
                1 << 32,
                i64::MAX as u64,
                u64::MAX - 1,
                u64::MAX,
                value.wrapping_add(1),
                value.wrapping_sub(1),
                value.wrapping_add(1 << 32),
                value.wrapping_add(64),
                value.wrapping_mul(2),
                value / 2,
            ]
            .map(Value::Unsigned)
            .to_vec(),
            Value::Double(value) => [
                0.0,
                -0.0,
                1.0,
                -1.0,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MAX,
                f64::MIN_POSITIVE,
                5e-324,
                0.5,
                1.0 - f64::EPSILON,
                value * 2.0,
                value / 2.0,
                -value,
                f64::from_bits(value.to_bits() + 1),
                f64::from_bits(value.to_bits() - 1),
            ]
            .map(Value::Double)
            .to_vec(),
            Value::String(bytes) => vec![
                Value::String(Vec::new()),
                Value::String(bytes[1..].to_vec()),
                Value::String([&bytes[..], &[0]].concat()),
                Value::String([&bytes[..], &[0; 8]].concat()),
                Value::String(bytes[..bytes.len() / 2].to_vec()),
                Value::Unsigned(bytes.len() as u64),
            ],
        }
    }

    /// Checks that an accepted filter finds its items, accepts more, and can be saved and loaded again.
    fn works(mut filter: Filter, items: &[Vec<u8>], context: &str) {
        assert!(contains_all(&filter, items), "{context}");
        let limit: Allowance<'_> = &at_most((1 << 24) - 1);
        for i in 0..2000u32 {
            let item = i.to_be_bytes();
            match filter.add(&item, 0, limit) {
                Ok(_) => assert!(filter.contains(&item), "{context}"),
                Err(_) => break,
            }
        }
        assert!(contains_all(&filter, items), "{context}");
        assert_eq!(save(&load(&save(&filter)).unwrap()), save(&filter), "{context}");
        filter.totals();
    }

    /// A damaged file neither crashes the server nor uses up its memory, and gives no filter that lacks its items.
    #[test]
    fn forced_fields_are_refused_or_harmless() {
        let mut streams: Vec<_> = stored::filters()
            .into_iter()
            .filter(|stored| stored.name != "rb:urls")
            .map(|stored| (stored.name, stored.items, stored.stream))
            .collect();
        for (at, (_, early)) in early().into_iter().enumerate() {
            streams.push((format!("early {at}"), early.items.clone(), early.stream(4)));
        }
        for (name, items, stream) in streams {
            let mut accepted = 0;
            for at in 0..stream.values.len() {
                for value in forced(&stream.values[at]) {
                    let mut damaged = stream.clone();
                    damaged.values[at] = value.clone();
                    // Only the options tell the width of the hash, so a change of it cannot be detected.
                    let width = |value: &Value| match value {
                        Value::Unsigned(options) => options & u64::from(Options::FORCE64),
                        _ => 0,
                    };
                    if at == 2 && width(&value) != width(&stream.values[at]) {
                        let _ = load(&damaged);
                        continue;
                    }
                    if let Ok(filter) = load(&damaged) {
                        accepted += 1;
                        works(filter, &items, &format!("{name}, value {at} = {value:?}"));
                    }
                }
            }
            assert!(accepted < stream.values.len() * 8, "{name}: {accepted} accepted");
        }
    }

    /// The error names the field of a damaged file that is wrong.
    #[test]
    fn contradictions_are_named() {
        let stream = stored::filters()
            .into_iter()
            .find(|stored| stored.name == "rb:chain")
            .unwrap()
            .stream;
        let damaged = |at: usize, value| {
            let mut damaged = stream.clone();
            damaged.values[at] = value;
            load(&damaged).err()
        };
        let field = |name| Some(DecodeError::Field(name));
        assert_eq!(damaged(0, Value::Unsigned(3996)), field("items"));
        assert_eq!(damaged(0, Value::Unsigned(3998)), field("items"));
        assert_eq!(damaged(1, Value::Unsigned(5)), field("items"));
        for layers in [7, 1 << 20, 1 << 32, 1 << 57, 1 << 63, u64::MAX] {
            let damaged = damaged(1, Value::Unsigned(layers));
            assert_eq!(damaged, Some(DecodeError::Truncated), "{layers} layers");
        }
        assert_eq!(damaged(2, Value::Unsigned(7)), field("options"));
        assert_eq!(damaged(2, Value::Unsigned(5 + (1 << 32))), field("options"));
        assert_eq!(damaged(2, Value::Unsigned(13)), field("layers"));
        assert_eq!(damaged(3, Value::Unsigned(1 << 32)), field("expansion"));
        assert_eq!(damaged(4, Value::Unsigned(0)), field("capacity"));
        assert_eq!(damaged(5, Value::Double(f64::NAN)), field("error rate"));
        assert_eq!(damaged(5, Value::Double(1.0)), field("error rate"));
        assert_eq!(damaged(6, Value::Unsigned(10)), field("probes"));
        assert_eq!(damaged(6, Value::Unsigned(12)), field("probes"));
        assert_eq!(damaged(7, Value::Double(f64::INFINITY)), field("bits per item"));
        assert_eq!(damaged(8, Value::Unsigned(1599)), field("bits"));
        assert_eq!(damaged(9, Value::Unsigned(64)), field("n2"));
        assert_eq!(
            damaged(10, Value::String(vec![0; 199])),
            field("bit array length")
        );
        assert_eq!(damaged(11, Value::Unsigned(101)), field("items"));
    }

    /// The error names the wrong field in files of early RedisBlooms too. Their encodings have fewer fields, and
    /// compute others differently.
    #[test]
    fn contradictions_of_early_encodings_are_named() {
        let field = |name| Some(DecodeError::Field(name));
        for (first_version, early) in early() {
            for version in first_version..=4 {
                if version < 2 && early.options != 0 {
                    continue;
                }
                let sound = early.stream(version);
                let damaged = |at: usize, value: Value| {
                    let mut damaged = sound.clone();
                    damaged.values[at] = value;
                    load_version(&damaged, i32::from(version as u8)).err()
                };
                // The layer's values follow those of the filter: items, layers, and perhaps options and
                // expansion.
                let layer = match version {
                    0 | 1 => 2,
                    2 => 3,
                    _ => 4,
                };
                let what = format!("version {version}, options {}, n2 {}", early.options, early.n2);
                let unsigned = |at: usize, values: &[u64], name| {
                    for &value in values {
                        let result = damaged(at, Value::Unsigned(value));
                        assert_eq!(result, field(name), "{what}: {value} as value {at}");
                    }
                };
                let double = |at: usize, values: &[f64], name| {
                    for &value in values {
                        let result = damaged(at, Value::Double(value));
                        assert_eq!(result, field(name), "{what}: {value} as value {at}");
                    }
                };
                unsigned(0, &[0, 89, 91, u64::MAX], "items");
                // In version 4, 0 layers stand for this project's own format.
                if version < 4 {
                    unsigned(1, &[0], "layers");
                }
                if version >= 2 {
                    unsigned(2, &[2, 7, 16, 1 << 32, u64::MAX], "options");
                }
                if version >= 3 {
                    unsigned(3, &[1 << 32, u64::MAX], "expansion");
                }
                double(
                    layer + 1,
                    &[0.0, -0.005, 1.0, f64::NAN, f64::INFINITY],
                    "error rate",
                );
                unsigned(layer + 2, &[0, 7, 9, 1 << 32, (1 << 32) + 8], "probes");
                double(layer + 3, &[0.0, 11.0, 11.03, f64::NAN], "bits per item");
                let end = if version == 0 { layer + 4 } else { layer + 6 };
                if early.n2 > 0 {
                    unsigned(layer, &[0, 92, 186, 1 << 40, u64::MAX], "capacity");
                    unsigned(layer + 4, &[0, 1024, 2047, 2049, 4096, u64::MAX], "bits");
                    unsigned(layer + 5, &[10, 12, 63], "capacity");
                    unsigned(layer + 5, &[64, 255, 256, u64::MAX], "n2");
                } else {
                    unsigned(layer, &[0], "capacity");
                    // 100 items need 1102 bits, which is 138 bytes or 18 words; 101 items need one word or
                    // two bytes more.
                    unsigned(layer, &[1, 50, 110, 1000, u64::MAX], "bit array length");
                    if version > 0 {
                        let [less, more] = [early.bits - 1, early.bits + 1];
                        unsigned(layer + 4, &[0, less, more, 64, u64::MAX], "bits");
                        let power = if early.options == 0 { "capacity" } else { "n2" };
                        unsigned(layer + 5, &[1, 10, 12, 63], power);
                        unsigned(layer + 5, &[64, 255, 256], "n2");
                    }
                }
                for length in [0, early.bytes - 1, early.bytes + 1, 2 * early.bytes] {
                    let result = damaged(end, Value::String(vec![0; length]));
                    assert_eq!(result, field("bit array length"), "{what}: {length} bytes");
                }
                unsigned(end + 1, &[0, 89, 91, early.capacity + 1, u64::MAX], "items");
            }
        }
    }

    /// The stream and the chunk header of a filter with this layer alone, of which so many bytes of bits come.
    fn forged(shape: Shape, options: u32, items: u64, array: usize) -> (MemoryStream, Vec<u8>) {
        let mut stream = MemoryStream::default();
        for value in [items, 1, options.into(), 2] {
            stream.put_unsigned(value);
        }
        stream.put_unsigned(shape.capacity);
        stream.put_double(shape.error_rate);
        stream.put_unsigned(shape.probes.into());
        stream.put_double(shape.bits_per_item);
        stream.put_unsigned(shape.bits);
        stream.put_unsigned(shape.n2.into());
        stream.put_string(&vec![b'X'; array]);
        stream.put_unsigned(items);
        let mut header = items.to_le_bytes().to_vec();
        for field in [1, options, 2] {
            header.extend(field.to_le_bytes());
        }
        let doubles = [shape.error_rate, shape.bits_per_item].map(f64::to_bits);
        for field in [&[array as u64, shape.bits, items][..], &doubles].concat() {
            header.extend(field.to_le_bytes());
        }
        header.extend(shape.probes.to_le_bytes());
        header.extend(shape.capacity.to_le_bytes());
        header.push(shape.n2);
        (stream, header)
    }

    /// Whoever may RESTORE or load a chunk neither reads nor writes beyond a bit array: bits that a layer claims to have
    /// come with it.
    #[test]
    fn bits_beyond_the_array_are_refused() {
        for options in [0, 1, 4, 5] {
            let sound = Shape::sized(100, 0.005, Options::new(options).unwrap());
            let (stream, header) = forged(sound, options, 0, sound.bytes as usize);
            assert!(load(&stream).is_ok() && chunks::load_header(&header, UNLIMITED).is_ok());
            // Of 1024 bytes come 699; of 8192 come 512, which only the power of two tells.
            for (bits, n2, array) in [
                (8192, 0, 699),
                (0, 16, 512),
                (8192, 13, 699),
                (1 << 40, 0, 144),
                (1 << 63, 0, 8),
                (u64::MAX, 0, 8),
                (0, 63, 8),
            ] {
                let (stream, header) = forged(Shape { bits, n2, ..sound }, options, 0, array);
                for end in [load(&stream), chunks::load_header(&header, UNLIMITED)] {
                    assert!(matches!(end, Err(DecodeError::Field(_))), "{bits} bits: {end:?}");
                }
            }
            // A header of no layer.
            let mut none = header[..20].to_vec();
            none[8..12].fill(0);
            assert!(chunks::load_header(&none, UNLIMITED).is_err());
        }
    }

    /// BF.CARD and INFO tell no nonsense of a forged filter: items are at most as many as can be counted.
    #[test]
    fn counts_do_not_wrap() {
        let most = i64::MAX.unsigned_abs();
        // A layer of a single word for any number of items.
        let of = |items| {
            let shape = Shape::sized(items, 1.0 - f64::EPSILON / 2.0, Options::new(5).unwrap());
            let array = shape.bytes as usize;
            load(&forged(shape, 5, items, array).0)
        };
        for items in [most + 1, u64::MAX - 3] {
            assert!(matches!(of(items), Err(DecodeError::Field(_))), "{items}");
        }
        let mut filter = of(most - 100).unwrap();
        for number in 0..1000_u32 {
            let _full = filter.add(&number.to_le_bytes(), 0, UNLIMITED);
        }
        assert!(
            (most - 100..=most).contains(&filter.items()),
            "{}",
            filter.items()
        );
        assert_eq!(filter.totals().capacity.min(most), filter.totals().capacity);
    }

    /// A filter whose first chunk a server has can be saved and loaded, whatever its rate.
    #[test]
    fn a_header_and_a_stream_have_the_same_rates() {
        for rate in [
            1e-300,
            1e-30,
            0.25,
            0.3,
            0.5,
            0.500_000_1,
            0.75,
            0.99,
            1.0 - f64::EPSILON,
        ] {
            let shape = Shape::sized(100, rate, Options::new(5).unwrap());
            let (_, header) = forged(shape, 5, 0, shape.bytes as usize);
            let filter = chunks::load_header(&header, UNLIMITED).unwrap();
            assert_eq!(save(&load(&save(&filter)).unwrap()), save(&filter), "{rate}");
        }
    }

    /// A small file that claims a huge filter is refused before any memory is taken.
    #[test]
    fn the_allowance_is_asked_before_anything_is_allocated() {
        for stored in stored::filters() {
            let filter = load(&stored.stream).unwrap();
            let bytes = filter.bytes();
            let asked = Cell::new(0);
            let limit = bytes - 1;
            let allowance: Allowance<'_> = &|demand: Demand| {
                asked.set(asked.get().max(demand.total));
                at_most(limit)(demand)
            };
            let refused = Some(DecodeError::OutOfMemory { bytes });
            assert_eq!(
                codec::load(&mut stored.stream.clone(), 4, allowance).err(),
                refused
            );
            assert_eq!(asked.get(), bytes);
            if let Some((_, header)) = stored.chunks.first() {
                assert_eq!(chunks::load_header(header, allowance).err(), refused);
            }
        }
        // The largest layer whose fields do not contradict each other.
        let shape = Shape::sized(1 << 57, 0.005, Options::new(5).unwrap());
        let mut header = Vec::new();
        header.extend_from_slice(&0u64.to_le_bytes());
        for field in [1u32, 5, 2] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        for field in [shape.bytes, shape.bits, 0] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        header.extend_from_slice(&shape.error_rate.to_le_bytes());
        header.extend_from_slice(&shape.bits_per_item.to_le_bytes());
        header.extend_from_slice(&shape.probes.to_le_bytes());
        header.extend_from_slice(&shape.capacity.to_le_bytes());
        header.push(0);
        // The allowance covers the structs too. When the allocator refuses the array, they already exist.
        let bytes = Classic::bytes(1, shape.bytes);
        let refused = Some(DecodeError::OutOfMemory { bytes });
        assert_eq!(
            chunks::load_header(&header, &|_: Demand| Err(Limit::Bytes(1 << 40))).err(),
            refused
        );
        assert!(matches!(
            chunks::load_header(&header, UNLIMITED),
            Err(DecodeError::OutOfMemory { .. })
        ));
    }

    /// A header from a client neither crashes the server nor gives a filter that does not work.
    #[test]
    fn forced_header_fields_are_refused_or_harmless() {
        for stored in stored::filters() {
            let Some((_, header)) = stored.chunks.first() else {
                continue;
            };
            for length in 0..header.len() {
                assert!(chunks::load_header(&header[..length], UNLIMITED).is_err());
            }
            assert!(chunks::load_header(&[&header[..], &[0]].concat(), UNLIMITED).is_err());
            for at in 0..header.len() {
                for byte in [0, 1, 0x7f, 0x80, 0xff, header[at] ^ 1, header[at].wrapping_add(1)] {
                    let mut damaged = header.clone();
                    damaged[at] = byte;
                    // Byte 12 has the options: only they tell the width of the hash, so a change of it cannot
                    // be detected.
                    if at == 12 && u32::from(byte) & Options::FORCE64 == 0 {
                        continue;
                    }
                    let limit: Allowance<'_> = &at_most((1 << 24) - 1);
                    if let Ok(mut filter) = chunks::load_header(&damaged, limit) {
                        for (iterator, bytes) in &stored.chunks[1..] {
                            chunks::load_chunk(&mut filter, *iterator, bytes).unwrap();
                        }
                        works(
                            filter,
                            &stored.items,
                            &format!("{}, byte {at} = {byte}", stored.name),
                        );
                    }
                }
            }
        }
    }
}
