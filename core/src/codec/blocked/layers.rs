//! The bytes of blocked filters, with and without a window. docs/design.md has their table, under "Stored bytes".
//!
//! A header describes everything but the bits and the exceptions, of which it has the number. The caller stores the
//! exceptions: after the header in the first chunk of a dump, after the bit arrays in an RDB stream.

use crate::bits::array::{ArrayLoader, BitArray, OutOfRange, all_zero};
use crate::bits::kernel::{LINE_BYTES, Line};
use crate::chain::batch::Layer as _;
use crate::chain::demand::{ask, reserved};
use crate::chain::list::List;
use crate::chain::{Allowance, Chain, MOST_ITEMS, MOST_LAYERS, Rules as _, sum};
use crate::codec::fields::{DecodeError, Fields, or_abort, put, require};
use crate::codec::stream::{Sink, Source};
use crate::error::Error;
use crate::layers::Layers;
use crate::layouts::blocked::sizing::{Geometry, MAX_LINES_PER_ITEM, PROBES};
use crate::layouts::blocked::window::{MOST_DROPPED_BYTES, MOST_SLICES, Slice, Windowed};
use crate::layouts::blocked::{Blocked, Layer, Shape};
use crate::params::{Capacity, ErrorRate, Expansion, Growth, ROUNDING, Seed, Time, Window};

/// The format version. In version 1 an item set other bits; a header of version 2 is [valkey-bloom's](super::super::valkey).
pub const VERSION: u64 = 3;
/// The first bytes of a header. The last of them is the format version.
pub const MAGIC: [u8; 8] = [b'B', b'L', b'O', b'O', b'M', 0, 0, VERSION as u8];
/// Bytes of the parts of a header: the head, what a window adds to it, a slice, a layer.
pub(crate) const HEAD_BYTES: usize = 48;
pub(crate) const WINDOW_BYTES: usize = 32;
pub(crate) const SLICE_BYTES: usize = 24;
pub(crate) const LAYER_BYTES: usize = 48;
/// The most layers of a window in a header: to find one takes a pass over slices. Clients make up to [`MOST_LAYERS`].
const MOST_WINDOW_LAYERS: usize = 4 * MOST_LAYERS;
/// The latest time in a header. A reply to a client can hold it.
const LATEST_STORED: Time = i64::MAX as Time;
/// Bytes of a bit array that are written at a time: the server compresses each string, in a buffer of its size.
const PIECE_BYTES: usize = 1 << 20;

/// Writes a header, and the bit arrays of layers, to an RDB stream.
pub fn save<'a>(
    header: Result<Vec<u8>, Error>,
    layers: impl Iterator<Item = &'a Layer>,
    sink: &mut dyn Sink,
) {
    sink.put_unsigned(VERSION);
    sink.put_unsigned(0);
    sink.put_string(&or_abort(header));
    for layer in layers {
        let bits = layer.bits();
        for piece in bits.bytes().chunks(PIECE_BYTES) {
            // A layer without set bits is not read, so that its pages stay unmapped.
            let zero = bits.ones() == 0 || all_zero(piece);
            sink.put_string(if zero { &[] } else { piece });
        }
    }
}

/// Reads a filter from an RDB stream whose first two integers, [`VERSION`] and 0, were read already. Also returns the number of
/// its exceptions, which come next in the stream.
pub fn load(source: &mut impl Source, allowance: Allowance<'_>) -> Result<(Layers, u64), DecodeError> {
    let header = source.string(|bytes| match Header::parse(bytes)? {
        (header, []) => Ok(header),
        _ => Err(DecodeError::Field("header length")),
    })??;
    let exceptions = header.exceptions;
    let layers = header.restore(allowance, |stored| load_bits(stored, source))?;
    Ok((layers, exceptions))
}

/// The filter that a header describes, with its items counted, the number of its exceptions, and the bytes after the
/// header. `bits` supplies the bit array of each layer, oldest first, of a number of lines with a number of set bits.
pub fn load_header<'a>(
    bytes: &'a [u8],
    allowance: Allowance<'_>,
    mut bits: impl FnMut(u64, u64) -> Result<BitArray<Line>, DecodeError>,
) -> Result<(Layers, u64, &'a [u8]), DecodeError> {
    let (header, rest) = Header::parse(bytes)?;
    let exceptions = header.exceptions;
    let bits = |stored: &StoredLayer| bits(stored.shape.geometry.total_lines(), stored.bits_set);
    Ok((header.restore(allowance, bits)?, exceptions, rest))
}

/// Reads the bit array of a layer, whose pieces come next in the stream.
fn load_bits(stored: &StoredLayer, source: &mut impl Source) -> Result<BitArray<Line>, DecodeError> {
    let mut bits = ArrayLoader::new(stored.shape.geometry.total_lines(), stored.bits_set)?;
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
    require(bits.ones() == stored.bits_set, "set bits")?;
    Ok(bits)
}

/// The header of a filter without a window, with this number of exceptions.
pub fn header(chain: &Chain<Blocked>, exceptions: usize) -> Result<Vec<u8>, Error> {
    let layers = chain.layers();
    let mut bytes: Vec<u8> = reserved(HEAD_BYTES + layers.len() * LAYER_BYTES)?;
    put_head(chain.rules(), layers.len(), exceptions, 0, &mut bytes);
    layers.iter().for_each(|layer| put_layer(layer, &mut bytes));
    Ok(bytes)
}

pub fn header_of_windowed(windowed: &Windowed) -> Result<Vec<u8>, Error> {
    let (slices, layers) = (windowed.slices.len(), windowed.layers().count());
    let of_slices = WINDOW_BYTES + slices * SLICE_BYTES;
    let mut bytes: Vec<u8> = reserved(HEAD_BYTES + of_slices + layers * LAYER_BYTES)?;
    let window = windowed.window;
    put_head(&windowed.rules, layers, 0, window.seconds(), &mut bytes);
    put!(bytes, windowed.capacity.items());
    put!(bytes, window.slices(), u8::from(window.refresh()), 0u16);
    put!(
        bytes,
        slices as u32,
        windowed.newest_stamp,
        windowed.dropped_bytes
    );
    for slice in &windowed.slices {
        put!(bytes, slice.opens, slice.closes);
        put!(bytes, slice.layers().len() as u32, 0u32);
    }
    windowed.layers().for_each(|layer| put_layer(layer, &mut bytes));
    Ok(bytes)
}

fn put_head(rules: &Blocked, layers: usize, exceptions: usize, window: u32, bytes: &mut Vec<u8>) {
    let (growth, expansion): (u32, u32) = match rules.growth() {
        Growth::Fixed => (0, 0),
        Growth::Reserved(expansion) => (1, expansion.factor()),
        Growth::Growing(expansion) => (2, expansion.factor()),
    };
    bytes.extend_from_slice(&MAGIC);
    put!(bytes, 0u32, layers as u32, rules.secret().seed().0);
    put!(bytes, rules.error_rate().value());
    put!(bytes, growth, expansion, exceptions as u32, window);
}

fn put_layer(layer: &Layer, bytes: &mut Vec<u8>) {
    let (shape, geometry) = (layer.shape(), layer.shape().geometry);
    put!(bytes, shape.capacity, layer.items(), layer.ones());
    put!(bytes, shape.rate, geometry.lines);
    put!(bytes, u32::from(geometry.lines_per_item));
    put!(bytes, u32::from(geometry.probes));
}

/// A header that has been checked: no field can cause an overflow, or an allocation that has not been requested.
struct Header {
    rules: Blocked,
    exceptions: u64,
    /// A filter without slices, and those that it will have.
    window: Option<(Windowed, Vec<StoredSlice>)>,
    layers: Vec<StoredLayer>,
}

struct StoredSlice {
    opens: Time,
    closes: Time,
    layers: usize,
}

struct StoredLayer {
    shape: Shape,
    items: u64,
    bits_set: u64,
}

impl Header {
    /// Reads and checks a header. Also returns the bytes after it.
    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let mut fields = Fields(bytes);
        require(fields.take()? == MAGIC, "magic")?;
        require(fields.u32()? == 0, "zero")?;
        let (layers, seed) = (fields.u32()? as usize, Seed(fields.u64()?));
        let rate = fields.f64()?;
        let error_rate = ErrorRate::new(rate).map_err(|_| DecodeError::Field("error rate"))?;
        require(error_rate.value() == rate, "error rate")?;
        let (growth, expansion) = (fields.u32()?, fields.u32()?);
        let growth = match (growth, expansion, Expansion::new(expansion)) {
            (0, 0, _) => Growth::Fixed,
            (1, _, Ok(expansion)) => Growth::Reserved(expansion),
            (2, _, Ok(expansion)) => Growth::Growing(expansion),
            _ => return Err(DecodeError::Field("growth")),
        };
        let rules = Blocked::new(error_rate, growth, seed);
        let (exceptions, seconds) = (u64::from(fields.u32()?), fields.u32()?);
        let window = if seconds > 0 {
            require(exceptions == 0, "exceptions")?;
            require(matches!(growth, Growth::Reserved(_)), "growth")?;
            Some(parse_window(rules.clone(), seconds, &mut fields)?)
        } else {
            None
        };
        let wanted = match &window {
            Some((_, slices)) => slices.iter().map(|slice| slice.layers).sum(),
            None => layers.max(1),
        };
        let is_possible = window.is_none() || layers <= MOST_WINDOW_LAYERS;
        require(layers == wanted && is_possible, "layers")?;
        require(layers <= fields.0.len() / LAYER_BYTES, "header length")?;
        let mut header = Self {
            rules,
            exceptions,
            window,
            layers: reserved(layers)?,
        };
        for _ in 0..layers {
            header.layers.push(StoredLayer::parse(&mut fields)?);
        }
        header.check_totals()?;
        Ok((header, fields.0))
    }

    /// Checks that the layers keep the filter's rate, that their capacities add up to a number that can be counted, and
    /// that all layers of a slice but its newest are full.
    fn check_totals(&self) -> Result<(), DecodeError> {
        let capacities = self.layers.iter().map(|layer| layer.shape.capacity);
        require(sum(capacities) <= MOST_ITEMS, "capacity")?;
        let rates: f64 = self.layers.iter().map(|layer| layer.shape.rate).sum();
        let most = self.rules.error_rate().value() * (1.0 + ROUNDING);
        require(rates <= most, "layer error rate")?;
        let mut layers = self.layers.iter();
        for slice in self.window.iter().flat_map(|(_, slices)| slices) {
            let mut older = layers.by_ref().take(slice.layers - 1);
            require(older.all(|layer| layer.items == layer.shape.capacity), "items")?;
            layers.next();
        }
        Ok(())
    }

    /// Makes the filter, with its items counted. `bits` supplies the bit array of each layer.
    fn restore(
        self,
        allowance: Allowance<'_>,
        mut bits: impl FnMut(&StoredLayer) -> Result<BitArray<Line>, DecodeError>,
    ) -> Result<Layers, DecodeError> {
        let arrays = sum(self.layers.iter().map(|layer| layer.shape.bytes()));
        require(self.window.is_none() || arrays <= MOST_DROPPED_BYTES, "lines")?;
        let bytes = match &self.window {
            None => Blocked::bytes(self.layers.len(), arrays),
            Some((_, slices)) => {
                let counts = slices.iter().map(|slice| slice.layers);
                let listed = counts.map(List::<Layer>::listed).sum();
                Windowed::bytes_of(slices.len(), listed, arrays)
            }
        };
        ask(0, bytes, None, allowance)?;
        let mut chain = |rules: Blocked, stored: &[StoredLayer]| {
            let mut layers = reserved(stored.len())?;
            for stored in stored {
                layers.push(Layer::stored(stored.shape, bits(stored)?, stored.items));
            }
            Ok::<_, DecodeError>(Chain::of_layers(rules, layers))
        };
        let Some((mut windowed, slices)) = self.window else {
            return chain(self.rules, &self.layers).map(Layers::from);
        };
        windowed.slices = reserved(slices.len())?;
        let mut layers = &self.layers[..];
        for slice in slices {
            let (own, others) = layers.split_at(slice.layers);
            layers = others;
            windowed.slices.push(Slice {
                opens: slice.opens,
                closes: slice.closes,
                chain: chain(self.rules.clone(), own)?,
            });
        }
        Ok(windowed.into())
    }
}

/// Reads the window of `seconds`, and its slices.
fn parse_window(
    rules: Blocked,
    seconds: u32,
    fields: &mut Fields<'_>,
) -> Result<(Windowed, Vec<StoredSlice>), DecodeError> {
    let capacity = Capacity::new(fields.u64()?).map_err(|_| DecodeError::Field("capacity"))?;
    let [slices, refresh, zeros @ ..] = fields.take::<4>()?;
    // With a window the seconds are 1 or more, so only the slices can be wrong.
    let window = Window::new(seconds, slices, refresh > 0).map_err(|_| DecodeError::Field("slices"))?;
    require(refresh <= 1, "refresh")?;
    require(zeros == [0; 2], "reserved bytes")?;
    let (stored, newest_stamp, dropped_bytes) = (fields.u32()? as usize, fields.u64()?, fields.u64()?);
    let are_lines = dropped_bytes.is_multiple_of(LINE_BYTES);
    require(are_lines && dropped_bytes <= MOST_DROPPED_BYTES, "dropped bytes")?;
    require(stored <= MOST_SLICES, "slices")?;
    let mut slices: Vec<StoredSlice> = reserved(stored)?;
    let (mut opens, mut closes) = (0, 0);
    for _ in 0..stored {
        let before = (opens, closes);
        (opens, closes) = (fields.u64()?, fields.u64()?);
        let (layers, zero) = (fields.u32()? as usize, fields.u32()?);
        require(layers > 0 && zero == 0, "layers")?;
        let longest = opens.saturating_add(window.slice_length());
        let in_order = opens >= before.0 && closes >= before.1;
        let times = opens..=longest.min(LATEST_STORED);
        require(in_order && times.contains(&closes), "times")?;
        slices.push(StoredSlice {
            opens,
            closes,
            layers,
        });
    }
    // The newest layer was made while the newest slice was open.
    let latest = if stored > 0 { closes } else { LATEST_STORED };
    require((opens..=latest).contains(&newest_stamp), "times")?;
    let mut windowed = Windowed::empty(rules, window, capacity);
    (windowed.newest_stamp, windowed.dropped_bytes) = (newest_stamp, dropped_bytes);
    Ok((windowed, slices))
}

impl StoredLayer {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        let (capacity, items, bits_set) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (rate, lines) = (fields.f64()?, fields.u64()?);
        let (lines_per_item, probes) = (fields.u32()?, fields.u32()?);
        let geometry = Geometry {
            lines_per_item: u8::try_from(lines_per_item).unwrap_or(0),
            probes: u8::try_from(probes).unwrap_or(0),
            lines,
        };
        let known = 1..=MAX_LINES_PER_ITEM;
        require(known.contains(&geometry.lines_per_item), "lines per item")?;
        require(PROBES.contains(&geometry.probes), "probes")?;
        require(lines > 0 && geometry.bytes() <= isize::MAX as u64, "lines")?;
        require(capacity > 0, "capacity")?;
        require(items <= capacity, "items")?;
        require((0.0..1.0).contains(&rate), "layer error rate")?;
        // There is no stricter check: a filter that lacks chunks, or has damaged ones, can be saved and must load.
        require(bits_set / 8 <= geometry.bytes(), "set bits")?;
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
