//! The values of an RDB stream as bytes: the encoding version, then values.
//!
//! | byte | what follows |
//! |---|---|
//! | 0 | an unsigned integer, in 8 bytes |
//! | 1 | an unsigned integer, in 1 byte |
//! | 2 | a double |
//! | 3 | a string, after its length in 2 bytes |
//! | 4 | a string of zeros: its length in 3 bytes; all of them together have a limit |
//! | 5 | a layer of a classic filter: capacity in 2 bytes, error rate as n in 2^-(n/8), items and a pattern of bits in 1 byte each |
//! | 6 | no value, but another number in a field of the header before: where, in units of 4 bytes; bits that say whether it is a power of two, and whether it has 4 or 8 bytes; the number, in 1 byte |
//! | 7 | all values of a filter of valkey-bloom's: capacity, expansion and number of items in 1 byte each, error rate as n in 2^-(n/8), tightening ratio as (n + 1)/257 |
//! | 8 | no value, but another one in the place of a value: which, in 1 byte, where in a string, in 2 bytes; the number, in 8 bytes |
//!
//! The highest bit of the encoding version asks for a blocked filter's set bits to be counted and written into its
//! header: no fuzzer would guess them. The next bit says that the stream has valkey-bloom's type. The version
//! [`LOAD`] says that the rest is the data of a BF.LOAD.

use libbloom::Filter;
use libbloom::chain::at_most;
use libbloom::checks::{MemoryStream, Value};
use libbloom::codec;
use libbloom::codec::stream::Sink as _;
use libbloom::layouts::classic::{Options, Shape};
use libbloom::params::{SipSeed, Tightening};
use libbloom::spec::{Spec, ValkeySpec};

use crate::LIMIT;

use crate::tape::Tape;

/// The version bit that asks for set bits to be counted.
pub const COUNT: u8 = 0x80;

/// The version bit of streams of valkey-bloom's type.
pub const VALKEY: i32 = 0x40;
/// The version that stands for data of BF.LOAD.
pub const LOAD: u8 = 0x7f;

/// The most zeros in all strings of them: they cost the fuzzer nothing, and take time to read.
const ZEROS: u32 = (1 << 20) + (1 << 16);
/// Bytes of a piece of a blocked layer.
const PIECE: u64 = 1 << 20;

/// The encoding version, and the values.
pub fn decode(bytes: &[u8]) -> (i32, MemoryStream) {
    let mut tape = Tape(bytes);
    let version = tape.u8();
    let mut stream = MemoryStream::default();
    let mut zeros = ZEROS;
    while !tape.is_over() {
        match tape.u8() % 9 {
            0 => stream.put_unsigned(tape.u64()),
            1 => stream.put_unsigned(tape.u8().into()),
            2 => stream.put_double(f64::from_bits(tape.u64())),
            3 => stream.put_string(tape.long()),
            4 => {
                let length = u32::from(tape.u16()) | u32::from(tape.u8()) << 16;
                let length = length.min(zeros);
                zeros -= length;
                stream.put_string(&vec![0; length as usize]);
            }
            5 => classic_layer(&mut tape, &mut stream),
            7 => valkey_filter(&mut tape, &mut stream),
            8 => force_value(&mut tape, &mut stream),
            _ => force_field(&mut tape, &mut stream),
        }
    }
    if version & COUNT != 0 {
        count_bits(&mut stream);
    }
    let version = version & !COUNT;
    if i32::from(version) & VALKEY != 0 {
        return (version.into(), stream);
    }
    // 7 stands for a version that no server gives.
    (
        if version % 8 == 7 {
            -1
        } else {
            (version % 8).into()
        },
        stream,
    )
}

/// The bytes from which [`decode`] makes these values.
pub fn encode(version: u8, stream: &MemoryStream) -> Vec<u8> {
    let mut bytes = vec![version];
    for value in &stream.values {
        match value {
            Value::Unsigned(number) => match u8::try_from(*number) {
                Ok(number) => bytes.extend([1, number]),
                Err(_) => {
                    bytes.push(0);
                    bytes.extend(number.to_le_bytes());
                }
            },
            Value::Double(number) => {
                bytes.push(2);
                bytes.extend(number.to_le_bytes());
            }
            Value::String(text) => {
                bytes.push(3);
                bytes.extend((text.len() as u16).to_le_bytes());
                bytes.extend(text);
            }
        }
    }
    bytes
}

/// Puts a number that a fuzzer would not meet by chance into a blocked filter's header.
fn force_field(tape: &mut Tape<'_>, stream: &mut MemoryStream) {
    let (at, kind, number) = (usize::from(tape.u8()) * 4, tape.u8(), tape.u8());
    let number = match kind & 1 {
        0 => u64::from(number),
        _ => 1 << (number % 64),
    };
    let width = if kind & 2 == 0 { 8 } else { 4 };
    if let Some(Value::String(header)) = stream.values.get_mut(2)
        && let Some(field) = header.get_mut(at..at + width)
    {
        field.copy_from_slice(&number.to_le_bytes()[..width]);
    }
}

/// All values of a filter of valkey-bloom's.
fn valkey_filter(tape: &mut Tape<'_>, stream: &mut MemoryStream) {
    let (capacity, expansion, items) = (tape.u8(), tape.u8(), tape.u8());
    let rate = (-f64::from(tape.u8()) / 8.0).exp2().min(0.999);
    let tightening = Tightening::new((f64::from(tape.u8()) + 1.0) / 257.0);
    let spec = tightening.and_then(|tightening| {
        let (capacity, expansion) = (capacity.max(1).into(), expansion.into());
        ValkeySpec::new(rate, capacity, expansion, tightening, SipSeed::FIXED)
    });
    let Some(mut filter) = spec
        .ok()
        .and_then(|spec| Filter::new(Spec::Valkey(spec), &at_most(LIMIT)).ok())
    else {
        return;
    };
    for item in 0..items {
        let _full = filter.add(&[item], 0, &at_most(LIMIT));
    }
    codec::save(&filter, stream);
}

/// Puts another number into the place of a value.
fn force_value(tape: &mut Tape<'_>, stream: &mut MemoryStream) {
    let (which, at, number) = (usize::from(tape.u8()), usize::from(tape.u16()), tape.u64());
    match stream.values.get_mut(which) {
        Some(Value::Unsigned(value)) => *value = number,
        Some(Value::Double(value)) => *value = f64::from_bits(number),
        Some(Value::String(text)) => {
            if let Some(place) = text.get_mut(at..at + 8) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        }
        None => {}
    }
}

/// A layer whose fields agree, as encoding versions from 1 on have it.
fn classic_layer(tape: &mut Tape<'_>, stream: &mut MemoryStream) {
    let options = match stream.values.get(2) {
        Some(Value::Unsigned(word)) => u32::try_from(*word).ok().and_then(Options::new),
        _ => None,
    };
    let Some(options) = options.or(Options::new(0)) else {
        return;
    };
    let capacity = u64::from(tape.u16()).max(1);
    let rate = (-f64::from(tape.u8()) / 8.0).exp2();
    let (items, pattern) = (tape.u8(), tape.u8());
    let shape = Shape::sized(capacity, rate.min(0.999), options);
    stream.put_unsigned(shape.capacity);
    stream.put_double(shape.error_rate);
    stream.put_unsigned(shape.probes.into());
    stream.put_double(shape.bits_per_item);
    stream.put_unsigned(shape.bits);
    stream.put_unsigned(shape.n2.into());
    stream.put_string(&vec![pattern; shape.bytes as usize]);
    stream.put_unsigned(if items == 255 {
        shape.capacity
    } else {
        items.into()
    });
    let sum = stream
        .values
        .iter()
        .skip(3)
        .rev()
        .step_by(8)
        .map(|value| match value {
            Value::Unsigned(items) => *items,
            _ => 0,
        });
    let sum = sum.fold(0, u64::saturating_add);
    if let Some(Value::Unsigned(items)) = stream.values.front_mut() {
        *items = sum;
    }
}

/// Where the layers begin in a blocked filter's header: behind the head, or the slices of a window.
pub fn layers_in(header: &[u8]) -> usize {
    let u32_at = |at: usize| Tape(header.get(at..).unwrap_or_default()).u32();
    match u32_at(44) {
        0 => 48,
        _ => 80 + 24 * u32_at(60) as usize,
    }
}

/// Writes into a blocked filter's header how many bits of each layer are set in the strings after it.
fn count_bits(stream: &mut MemoryStream) {
    let Some(Value::String(mut header)) = stream.values.get(2).cloned() else {
        return;
    };
    let mut pieces = stream.values.iter().skip(3);
    let layers = layers_in(&header);
    for layer in header
        .get_mut(layers..)
        .into_iter()
        .flat_map(|layers| layers.chunks_exact_mut(48))
    {
        let mut fields = Tape(&layer[32..]);
        let bytes = fields
            .u64()
            .saturating_mul(64)
            .saturating_mul(fields.u32().into());
        let pieces = pieces.by_ref().take(bytes.div_ceil(PIECE).min(16) as usize);
        let ones: u64 = pieces
            .map(|piece| match piece {
                Value::String(piece) => piece.iter().map(|byte| u64::from(byte.count_ones())).sum(),
                _ => 0,
            })
            .sum();
        layer[16..24].copy_from_slice(&ones.to_le_bytes());
    }
    stream.values[2] = Value::String(header);
}
