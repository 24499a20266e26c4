//! The format of filters with a window: that of [`native`], format version 2, with times.
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
//! | 48 | 4 | window in seconds; 0 where items are counted |
//! | 52 | 1 | slices, `2..=64` |
//! | 53 | 1 | 1: an item that is added again lives on; 2: the newest slice was ended |
//! | 54 | 2 | 0 |
//! | 56 | 8 | bytes of the bit arrays that were before the oldest layer's, a multiple of 64 up to 2^52 |
//! | 64 | 72 each | the layers, oldest first |
//!
//! | offset | bytes | field of a layer |
//! |---|---|---|
//! | 0 | 48 | as in [`native`]; in all layers of a slice but the newest the items are the capacity |
//! | 48 | 8 | time of the first item, in unix milliseconds, up to 2^62; not before that of the layer before it |
//! | 56 | 8 | end of the slice; the same in all layers of it, not before that of the slice before it, and at most 1 after the next slice begins; 2^64 - 1 while only its items can end it, and up to 2^62 + 1 if it was ended |
//! | 64 | 4 | 1: a slice begins with the layer; 2: its rate is of what is kept for bursts |
//! | 68 | 4 | 0 |
//!
//! # RDB stream
//! As in [`native`], with 2 for the format version. Earlier versions of this module refuse it by that number.

use super::native::{self, Fields, Head, LAYER_BYTES, ROUNDING, StoredLayer};
use super::stream::{Sink, Source};
use super::{DecodeError, ask_for, list_for};
use crate::bloom::bits::array::BitArray;
use crate::bloom::bits::kernel::{LINE_BYTES, Line};
use crate::bloom::blocked::{Blocked, Layer};
use crate::bloom::chain::window::budget::{slice_rate, spare_rate};
use crate::bloom::chain::window::slices::{Slices, Span};
use crate::bloom::chain::window::{MOST_GONE, Parts, Ring, Sizing as _};
use crate::bloom::chain::{Allowance, MOST_ITEMS, Plan};
use crate::bloom::params::{Capacity, ErrorRate, Expansion, Growth, LATEST, Seed, Window};

/// The format version.
pub const VERSION: u64 = 2;
/// What a header starts with; its last byte is the format version.
pub const MAGIC: [u8; 8] = *b"BLOOM\0\0\x02";
/// The growth of a filter with a window.
const GROWTH: u32 = 3;
/// Bytes of a header before its layers.
const HEAD_BYTES: usize = 64;
/// Bytes that a layer has besides those of [`native`].
const TIME_BYTES: usize = 24;

/// What is said of a filter.
const REFRESH: u8 = 1;
const ENDED: u8 = 2;
/// What is said of a layer.
const BEGINS: u32 = 1;
const SPARE: u32 = 2;

/// Writes a filter to an RDB stream.
pub fn save(ring: &Ring<Blocked>, sink: &mut impl Sink) {
    sink.put_unsigned(VERSION);
    sink.put_unsigned(0);
    save_layers(ring, sink);
}

/// The same without the two leading integers.
pub(super) fn save_layers(ring: &Ring<Blocked>, sink: &mut impl Sink) {
    sink.put_string(&header(ring));
    native::save_arrays(ring.layers(), sink);
}

/// Reads a filter from an RDB stream whose two leading integers, 2 and 0, were read already.
///
/// # Errors
/// [`DecodeError`] unless the whole stream is one valid filter.
pub fn load(source: &mut impl Source, allowance: Allowance<'_>) -> Result<Ring<Blocked>, DecodeError> {
    let header = source.string(Header::parse)??;
    header.restore(allowance, |stored| native::load_bits(stored, source))
}

/// The filter that a header describes, with its items counted and all of its bits unset.
///
/// # Errors
/// [`DecodeError`]; nothing is left behind.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Ring<Blocked>, DecodeError> {
    Header::parse(bytes)?.restore(allowance, native::no_bits)
}

/// The header of `ring`.
pub fn header(ring: &Ring<Blocked>) -> Vec<u8> {
    let (rules, slices) = (ring.rules(), ring.slices());
    let window = slices.window();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + ring.layers().len() * (LAYER_BYTES + TIME_BYTES));
    Head {
        layers: ring.layers().len(),
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
    bytes.extend_from_slice(&ring.gone().to_le_bytes());
    for (layer, span) in ring.layers().iter().zip(slices.spans()) {
        native::put_layer(layer, &mut bytes);
        let begins = if span.begins { BEGINS } else { 0 };
        let spare = if span.spare { SPARE } else { 0 };
        bytes.extend_from_slice(&span.first.to_le_bytes());
        bytes.extend_from_slice(&span.end.to_le_bytes());
        bytes.extend_from_slice(&(begins | spare).to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
    }
    bytes
}

/// A checked header.
#[derive(Debug)]
pub(super) struct Header {
    seed: Seed,
    error_rate: ErrorRate,
    expansion: Expansion,
    capacity: Capacity,
    window: Window,
    ended: bool,
    gone: u64,
    layers: Vec<StoredLayer>,
    spans: Vec<Span>,
}

impl Header {
    /// Reads and checks a header.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
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
        let window = window.map_err(|_| DecodeError::Field("slices"))?;
        let ended = flags & ENDED > 0;
        if flags > REFRESH | ENDED || zeros != [0; 2] || ended && layers == 0 {
            return Err(DecodeError::Field("window"));
        }
        let gone = fields.u64()?;
        if gone > MOST_GONE || !gone.is_multiple_of(LINE_BYTES) {
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
            gone,
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

    /// Whether slices follow one another as they do where time goes on.
    fn check_spans(&self) -> Result<(), DecodeError> {
        let wrong = Err(DecodeError::Field("times"));
        if self.spans.first().is_some_and(|oldest| !oldest.begins) {
            return wrong;
        }
        // The next change is stamped with the last moment of a slice that was ended, or later.
        if self.ended && self.spans.last().is_some_and(|newest| newest.end > LATEST + 1) {
            return wrong;
        }
        let newest = self.spans.iter().rposition(|span| span.begins);
        let mut begin = 0;
        for (index, span) in self.spans.iter().enumerate() {
            if span.begins {
                begin = span.first;
            }
            let is_open = Some(index) >= newest && !self.ended;
            let most = match self.window.slice_milliseconds() {
                Some(slice) => begin.saturating_add(slice),
                None if is_open => Span::OPEN,
                None => LATEST + 1,
            };
            let ends_well = match self.window.milliseconds() {
                None if is_open => span.end == Span::OPEN && span.begins,
                None => span.begins && span.end <= most,
                Some(_) => span.end <= most,
            };
            if span.first > LATEST || span.end < span.first || !ends_well {
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

    /// Whether the layers keep the filter's rate, and those that another one of their slice follows are full.
    fn check_layers(&self) -> Result<(), DecodeError> {
        let budget = self.error_rate.value() * (1.0 + ROUNDING);
        let (mut usual, mut spare, mut made) = (0, 0.0, 0u64);
        for (index, (layer, span)) in self.layers.iter().zip(&self.spans).enumerate() {
            made = made.saturating_add(layer.shape.capacity);
            let rate = layer.shape.full_rate();
            if span.spare {
                spare += rate;
            } else if span.begins && rate <= slice_rate(budget, self.window.slices()) {
                usual += 1;
            } else {
                return Err(DecodeError::Field("layer error rate"));
            }
            let is_followed = self.spans.get(index + 1).is_some_and(|next| !next.begins);
            if is_followed && layer.items < layer.shape.capacity {
                return Err(DecodeError::Field("items"));
            }
        }
        if usual > usize::from(self.window.slices()) + 1 || spare > spare_rate(budget) {
            return Err(DecodeError::Field("layer error rate"));
        }
        if made > MOST_ITEMS {
            return Err(DecodeError::Field("capacity"));
        }
        Ok(())
    }

    /// The filter with its items counted and the bit arrays that `bits` gives.
    pub(super) fn restore(
        self,
        allowance: Allowance<'_>,
        mut bits: impl FnMut(&StoredLayer) -> Result<BitArray<Line>, DecodeError>,
    ) -> Result<Ring<Blocked>, DecodeError> {
        let arrays = self.layers.iter().map(|layer| layer.shape.bytes());
        if arrays.clone().fold(0, u64::saturating_add) > MOST_GONE {
            return Err(DecodeError::Field("lines"));
        }
        ask_for::<Layer>(Ring::<Blocked>::FRAME, arrays, allowance)?;
        let mut layers = list_for(self.layers.len())?;
        for stored in &self.layers {
            layers.push(Layer::stored(stored.shape, bits(stored)?, stored.items));
        }
        Ok(Ring::of_parts(Parts {
            rules: Blocked::new(self.error_rate, Growth::Reserved(self.expansion), self.seed),
            layers,
            slices: Slices::new(self.window, self.spans, self.ended),
            capacity: self.capacity,
            gone: self.gone,
        }))
    }
}

/// When items go into a layer.
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
