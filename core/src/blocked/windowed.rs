//! The format of filters with a window: that of [`format`](mod@super::format), format version 2, with times.
//!
//! # Header
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `BLOOM`, two zero bytes, format version (2) |
//! | 8 | 4 | 0 (where RedisBloom's chunk header has its number of layers, which is never 0) |
//! | 12 | 4 | number of layers |
//! | 16 | 8 | seed |
//! | 24 | 8 | error rate, f64 in `1e-30..=0.25` |
//! | 32 | 4 | growth: 3 |
//! | 36 | 4 | expansion, `1..=32768` |
//! | 40 | 8 | capacity of the window, `1..=2^40` |
//! | 48 | 4 | window in seconds, 1 or more |
//! | 52 | 1 | slices, `2..=64` |
//! | 53 | 1 | 1: an item that is added again lives on; 2: the newest slice was ended |
//! | 54 | 2 | 0 |
//! | 56 | 8 | bytes of the bit arrays that were before the oldest layer's, a multiple of 64 up to 2^52 |
//! | 64 | 72 each | the layers, oldest first |
//!
//! | offset | bytes | field of a layer |
//! |---|---|---|
//! | 0 | 48 | as in [`format`](mod@super::format); in all layers of a slice but the newest the items are the capacity |
//! | 48 | 8 | time of the first item, in unix milliseconds, up to 2^62; not before that of the layer before it |
//! | 56 | 8 | end of the slice; the same in all layers of it, not before that of the slice before it, and at most 1 after the next slice begins; up to 2^62 + 1 if it was ended |
//! | 64 | 4 | 1: a slice begins with the layer; 2: its rate is part of the [spare rate](crate::chain::window::budget) |
//! | 68 | 4 | 0 |
//!
//! # RDB stream
//! As in [`format`](mod@super::format), with 2 for the format version. Earlier versions of this module refuse the
//! stream because of that number.

use super::format::{self, Head, LAYER_BYTES, StoredLayer};
use crate::bits::array::BitArray;
use crate::bits::kernel::{LINE_BYTES, Line};
use crate::blocked::{Blocked, Layer, Shape};
use crate::chain::demand::reserved;
use crate::chain::window::budget::{slice_rate, spare_rate};
use crate::chain::window::slices::{Slices, Span};
use crate::chain::window::{MOST_DROPPED_BYTES, Ring, Sizing as _};
use crate::chain::{Allowance, MOST_ITEMS, NewLayer, sum};
use crate::error::{Error, ParamError};
use crate::params::{Capacity, ErrorRate, Expansion, Growth, LATEST, ROUNDING, Seed, Window};
use crate::stored::stream::{Sink, Source};
use crate::stored::{DecodeError, Fields, ask_for, list_for, or_end};

/// The format version.
pub const VERSION: u64 = 2;
/// What a header starts with; its last byte is the format version.
pub const MAGIC: [u8; 8] = *b"BLOOM\0\0\x02";
/// The growth of a filter with a window.
const GROWTH: u32 = 3;
/// Bytes of a header before its layers.
const HEAD_BYTES: usize = 64;
/// Bytes of a layer in the header in addition to those of [`format`](mod@super::format).
const TIME_BYTES: usize = 24;

/// Flag of a filter: an item that is added again lives on.
const REFRESH: u8 = 1;
/// Flag of a filter: the newest slice was ended.
const ENDED: u8 = 2;
/// Flag of a layer: a slice begins with it.
const BEGINS: u32 = 1;
/// Flag of a layer: its rate is part of the spare rate.
const SPARE: u32 = 2;

/// Writes a filter to an RDB stream.
pub fn save(ring: &Ring<Blocked>, sink: &mut dyn Sink) {
    sink.put_unsigned(VERSION);
    sink.put_unsigned(0);
    sink.put_string(&or_end(header(ring)));
    format::save_arrays(ring.chain().layers(), sink);
}

/// Reads a filter from an RDB stream whose two leading integers, 2 and 0, were read already.
///
/// # Errors
/// [`DecodeError`] unless the whole stream is one valid filter.
pub fn load(source: &mut impl Source, allowance: Allowance<'_>) -> Result<Ring<Blocked>, DecodeError> {
    let header = source.string(Header::parse)??;
    header.restore(allowance, |stored| format::load_bits(stored, source))
}

/// The filter that a header describes, with its items counted and all of its bits unset.
///
/// # Errors
/// [`DecodeError`]; nothing is left behind.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Ring<Blocked>, DecodeError> {
    Header::parse(bytes)?.restore(allowance, format::no_bits)
}

/// The header of `ring`.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn header(ring: &Ring<Blocked>) -> Result<Vec<u8>, Error> {
    let (rules, layers, slices) = (ring.chain().rules(), ring.chain().layers(), ring.slices());
    let window = slices.window();
    let mut bytes: Vec<u8> = reserved(HEAD_BYTES + layers.len() * (LAYER_BYTES + TIME_BYTES))?;
    Head {
        layers: layers.len(),
        seed: rules.secret().seed(),
        error_rate: rules.error_rate(),
        growth: GROWTH,
        expansion: rules.factor(),
    }
    .put(MAGIC, &mut bytes);
    bytes.extend_from_slice(&ring.capacity().items().to_le_bytes());
    bytes.extend_from_slice(&window.seconds().to_le_bytes());
    let refresh = if window.refresh() { REFRESH } else { 0 };
    let ended = if slices.ended() { ENDED } else { 0 };
    bytes.extend_from_slice(&[window.slices(), refresh | ended, 0, 0]);
    bytes.extend_from_slice(&ring.dropped_bytes().to_le_bytes());
    for (layer, span) in layers.iter().zip(slices.spans()) {
        format::put_layer(layer, &mut bytes);
        let begins = if span.begins { BEGINS } else { 0 };
        let spare = if span.spare { SPARE } else { 0 };
        bytes.extend_from_slice(&span.first.to_le_bytes());
        bytes.extend_from_slice(&span.end.to_le_bytes());
        bytes.extend_from_slice(&(begins | spare).to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
    }
    Ok(bytes)
}

/// A checked header.
#[derive(Debug)]
pub(crate) struct Header {
    seed: Seed,
    error_rate: ErrorRate,
    expansion: Expansion,
    capacity: Capacity,
    window: Window,
    ended: bool,
    dropped_bytes: u64,
    layers: Vec<StoredLayer>,
    spans: Vec<Span>,
}

impl Header {
    /// Reads and checks a header.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields(bytes);
        let Head {
            layers,
            seed,
            error_rate,
            growth,
            expansion,
        } = Head::take(MAGIC, &mut fields)?;
        let expansion = Expansion::new(expansion).ok().filter(|_| growth == GROWTH);
        let expansion = expansion.ok_or(DecodeError::Field("growth"))?;
        let capacity = Capacity::new(fields.u64()?).map_err(|_| DecodeError::Field("capacity"))?;
        let (seconds, [slices, flags, zeros @ ..]) = (fields.u32()?, fields.take::<4>()?);
        let window = Window::new(seconds, slices, flags & REFRESH > 0);
        let window = window.map_err(|error| match error {
            ParamError::Window => DecodeError::Field("window"),
            _ => DecodeError::Field("slices"),
        })?;
        let ended = flags & ENDED > 0;
        if flags > REFRESH | ENDED || zeros != [0; 2] || ended && layers == 0 {
            return Err(DecodeError::Field("window"));
        }
        let dropped_bytes = fields.u64()?;
        if dropped_bytes > MOST_DROPPED_BYTES || !dropped_bytes.is_multiple_of(LINE_BYTES) {
            return Err(DecodeError::Field("bytes before"));
        }
        let of_each = LAYER_BYTES + TIME_BYTES;
        if fields.0.len() / of_each != layers || !fields.0.len().is_multiple_of(of_each) {
            return Err(DecodeError::Field("header length"));
        }
        let mut header = Self {
            seed,
            error_rate,
            expansion,
            capacity,
            window,
            ended,
            dropped_bytes,
            layers: list_for(layers)?,
            spans: list_for(layers)?,
        };
        for _ in 0..layers {
            header.layers.push(StoredLayer::parse(&mut fields)?);
            header.spans.push(span(&mut fields)?);
        }
        header.check_spans()?;
        header.check_layers()?;
        Ok(header)
    }

    /// Checks that the times of the slices are in order.
    fn check_spans(&self) -> Result<(), DecodeError> {
        let wrong = Err(DecodeError::Field("times"));
        if self.spans.first().is_some_and(|oldest| !oldest.begins) {
            return wrong;
        }
        // The next change is stamped with the last moment of a slice that was ended, or later.
        if self.ended && self.spans.last().is_some_and(|newest| newest.end > LATEST + 1) {
            return wrong;
        }
        let slice = self.window.slice_length();
        let mut begin = 0;
        for span in &self.spans {
            if span.begins {
                begin = span.first;
            }
            if span.first > LATEST || span.end < span.first || span.end > begin.saturating_add(slice) {
                return wrong;
            }
        }
        for pair in self.spans.windows(2) {
            if !pair[0].is_followed_by(&pair[1]) {
                return wrong;
            }
        }
        Ok(())
    }

    /// Checks that the layers keep the filter's rate, and that all layers of a slice but its newest are full.
    fn check_layers(&self) -> Result<(), DecodeError> {
        let capacities = self.layers.iter().map(|layer| layer.shape.capacity);
        if capacities.fold(0, u64::saturating_add) > MOST_ITEMS {
            return Err(DecodeError::Field("capacity"));
        }
        let followers = self.spans.iter().skip(1);
        let mut followed = self.layers.iter().zip(followers).filter(|(_, next)| !next.begins);
        if followed.any(|(layer, _)| layer.items < layer.shape.capacity) {
            return Err(DecodeError::Field("items"));
        }
        // A full layer's rate is never below the stored one, and takes long to find where that is high. Once the stored
        // rates were found to be within the filter's, such layers are few.
        self.check_rates(|shape| shape.rate)?;
        self.check_rates(Shape::full_rate)
    }

    /// Checks that the layers keep the filter's rate, if `rate_of` gives the rate of each.
    fn check_rates(&self, rate_of: fn(&Shape) -> f64) -> Result<(), DecodeError> {
        let budget = self.error_rate.value() * (1.0 + ROUNDING);
        let (mut usual, mut spare) = (0, 0.0);
        for (layer, span) in self.layers.iter().zip(&self.spans) {
            let rate = rate_of(&layer.shape);
            if span.spare {
                spare += rate;
            } else if span.begins && rate <= slice_rate(budget, self.window.slices()) {
                usual += 1;
            } else {
                return Err(DecodeError::Field("layer error rate"));
            }
        }
        if usual > usize::from(self.window.slices()) + 1 || spare > spare_rate(budget) {
            return Err(DecodeError::Field("layer error rate"));
        }
        Ok(())
    }

    /// The filter with its items counted and the bit arrays that `bits` gives.
    pub(crate) fn restore(
        self,
        allowance: Allowance<'_>,
        mut bits: impl FnMut(&StoredLayer) -> Result<BitArray<Line>, DecodeError>,
    ) -> Result<Ring<Blocked>, DecodeError> {
        let arrays = sum(self.layers.iter().map(|layer| layer.shape.bytes()));
        if arrays > MOST_DROPPED_BYTES {
            return Err(DecodeError::Field("lines"));
        }
        let bytes = Ring::<Blocked>::bytes(self.layers.len(), arrays);
        ask_for(bytes, bytes, allowance)?;
        let mut layers = list_for(self.layers.len())?;
        for stored in &self.layers {
            layers.push(Layer::stored(stored.shape, bits(stored)?, stored.items));
        }
        let rules = Blocked::new(self.error_rate, Growth::Reserved(self.expansion), self.seed);
        let slices = Slices::stored(self.window, self.capacity, self.spans, self.ended);
        Ok(Ring::stored(rules, layers, slices, self.dropped_bytes))
    }
}

/// Reads when a layer accepts items, and the layer's flags.
fn span(fields: &mut Fields<'_>) -> Result<Span, DecodeError> {
    let (first, end) = (fields.u64()?, fields.u64()?);
    let (flags, zero) = (fields.u32()?, fields.u32()?);
    if flags > BEGINS | SPARE || zero != 0 {
        return Err(DecodeError::Field("times"));
    }
    Ok(Span {
        first,
        end,
        begins: flags & BEGINS > 0,
        spare: flags & SPARE > 0,
    })
}

#[cfg(test)]
mod tests;
