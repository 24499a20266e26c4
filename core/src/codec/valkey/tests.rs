//! Streams as valkey-bloom writes them, and hostile ones.

use std::cell::Cell;

use super::*;
use crate::Filter;
use crate::Limit;
use crate::chain::{Demand, UNLIMITED, at_most};
use crate::checks::{MemoryStream, Value};
use crate::codec::chunks;
use crate::spec::{Spec, ValkeySpec};
use crate::tests::oracle::item;

/// A filter of three layers, the newest of which has one item.
fn grown() -> Filter {
    let tightening = Tightening::new(0.75).unwrap();
    let seed = SipSeed(*b"thirty-two bytes that are a seed");
    let spec = ValkeySpec::new(0.02, 5, 3, tightening, seed).unwrap();
    let mut filter = Filter::new(Spec::Valkey(spec), UNLIMITED).unwrap();
    for number in 0.. {
        filter.add(&item(number), 0, UNLIMITED).unwrap();
        if filter.items() == 21 {
            break;
        }
    }
    assert_eq!(filter.layers(), 3);
    filter
}

fn chain(filter: &Filter) -> &Chain<Valkey> {
    filter.as_valkey().unwrap()
}

fn saved(filter: &Filter) -> MemoryStream {
    let mut stream = MemoryStream::default();
    save(chain(filter), &mut stream);
    stream
}

fn bad(field: &'static str) -> DecodeError {
    DecodeError::Field(field)
}

/// Loads a stream in which the value at `at` is replaced, or that ends before it if `value` is `None`.
fn with(at: usize, value: Option<Value>) -> Result<(), DecodeError> {
    let mut stream = saved(&grown());
    match value {
        Some(value) => stream.values[at] = value,
        None => stream.values.truncate(at),
    }
    let limit: Allowance<'_> = &at_most(1 << 20);
    load(&mut stream, ENCODING_VERSION, limit).map(|_| ())
}

/// The largest filter that a client can make comes back after a restart.
#[test]
fn the_largest_capacity_is_loaded() {
    let (rate, tightening) = (1.0 - f64::EPSILON / 2.0, Tightening::new(0.5).unwrap());
    let spec = ValkeySpec::new(rate, MOST_ITEMS, 0, tightening, SipSeed([7; 32])).unwrap();
    let filter = Filter::new(Spec::Valkey(spec), UNLIMITED).unwrap();
    let loaded = load(&mut saved(&filter), ENCODING_VERSION, UNLIMITED).unwrap();
    assert_eq!(loaded.layers()[0].capacity(), MOST_ITEMS);
}

/// valkey-bloom loads what is saved here, and the other way round.
#[test]
fn a_stream_has_valkey_bloom_s_values_in_its_order() {
    let values: Vec<_> = saved(&grown()).values.into();
    let strings = |at: usize| match &values[at] {
        Value::String(bytes) => bytes.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(values.len(), 5 + 3 * 2 + 1);
    assert_eq!(
        values[..5],
        [
            Value::Unsigned(3),
            Value::Unsigned(3),
            Value::Double(0.02),
            Value::Double(0.75),
            Value::Unsigned(1),
        ]
    );
    assert_eq!(
        [&values[6], &values[8], &values[10], &values[11]],
        [5, 15, 45, 1].map(Value::Unsigned).each_ref()
    );
    let first = strings(5);
    assert_eq!(first[..13], [1, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(&first[13..45], b"thirty-two bytes that are a seed");
    assert_eq!(first.len(), 45 + 6);
    let digest = |filter: &Filter| {
        let mut stream = MemoryStream::default();
        save_for_digest(chain(filter), &mut stream);
        stream.values
    };
    let values: Vec<_> = digest(&grown()).into();
    assert_eq!(values.len(), 4 + 3 * 3);
    assert_eq!(values[1], Value::String(0.02_f64.to_le_bytes().to_vec()));
    assert_eq!(
        values[4..7],
        [Value::String(first), Value::Unsigned(5), Value::Unsigned(5)]
    );
}

/// A forged payload neither crashes nor stalls the server, and makes no filter that looks for items in the wrong
/// places.
#[test]
fn every_value_of_a_stream_that_is_wrong_is_refused_by_its_name() {
    let layers = |count| (0, Some(Value::Unsigned(count)));
    let head = |at: usize, byte: u8| {
        let mut stream = saved(&grown());
        let Value::String(bytes) = &mut stream.values[5] else {
            panic!()
        };
        bytes[at] = byte;
        Some(Value::String(bytes.clone()))
    };
    let (unsigned, double) = (
        |value| Some(Value::Unsigned(value)),
        |value| Some(Value::Double(value)),
    );
    for ((at, value), error) in [
        (layers(0), bad("layers")),
        (layers(2), DecodeError::Truncated),
        (layers(4), DecodeError::Truncated),
        (layers(u64::MAX), DecodeError::Truncated),
        ((1, unsigned(0)), bad("layers")),
        ((1, unsigned(2)), bad("capacity")),
        ((1, unsigned(1 << 32)), bad("expansion")),
        ((2, double(0.0)), bad("error rate")),
        ((2, double(1.0)), bad("error rate")),
        ((2, double(-0.5)), bad("error rate")),
        ((2, double(f64::NAN)), bad("error rate")),
        ((2, double(f64::INFINITY)), bad("error rate")),
        ((2, double(0.03)), bad("bytes")),
        ((2, double(1e-300)), bad("bytes")),
        ((3, double(0.0)), bad("tightening ratio")),
        ((3, double(1.0)), bad("tightening ratio")),
        ((3, double(f64::NAN)), bad("tightening ratio")),
        ((3, double(1e-310)), bad("tightening ratio")),
        ((3, double(-0.5)), bad("tightening ratio")),
        ((3, double(f64::INFINITY)), bad("tightening ratio")),
        ((3, double(0.5)), bad("bytes")),
        ((4, unsigned(0)), bad("seed")),
        ((4, unsigned(2)), bad("random seed")),
        ((5, head(0, 2)), bad("layer version")),
        ((5, head(1, 7)), bad("bytes")),
        ((5, head(8, 0xff)), bad("bytes")),
        ((5, head(9, 0)), bad("probes")),
        ((5, head(9, 8)), bad("probes")),
        ((5, head(12, 0xff)), bad("probes")),
        ((5, head(13, 0)), bad("seed")),
        ((5, Some(Value::String(vec![1; 44]))), DecodeError::Truncated),
        ((5, Some(Value::String(Vec::new()))), DecodeError::Truncated),
        ((6, unsigned(0)), bad("capacity")),
        ((6, unsigned(6)), bad("bytes")),
        ((6, unsigned(u64::MAX)), bad("bytes")),
        ((8, unsigned(16)), bad("capacity")),
        ((10, unsigned(44)), bad("capacity")),
        ((11, unsigned(46)), bad("items")),
        ((11, unsigned(u64::MAX)), bad("items")),
    ] {
        assert_eq!(with(at, value.clone()), Err(error), "value {at}: {value:?}");
    }
    for at in 0..12 {
        assert_eq!(
            with(at, None),
            Err(DecodeError::Truncated),
            "cut before value {at}"
        );
    }
    assert_eq!(
        with(11, unsigned(45)),
        Ok(()),
        "any number of items that fit is one"
    );
    for version in [0, 2, -1, i32::MIN] {
        let refused = load(&mut saved(&grown()), version, UNLIMITED).map(|_| ());
        assert_eq!(refused, Err(DecodeError::Version(version.unsigned_abs().into())));
    }
}

/// Forged data for BF.LOAD, with false lengths or truncated at any byte, neither crashes the server nor makes a wrong
/// filter.
#[test]
fn what_bf_load_takes_is_read_to_the_last_byte_or_refused() {
    let filter = grown();
    let good = encode(chain(&filter)).unwrap();
    assert_eq!(good.len(), encoded_bytes(chain(&filter)));
    let read = |bytes: &[u8]| decode(bytes, &at_most(1 << 20)).map(Filter::from);
    assert_eq!(saved(&read(&good).unwrap()), saved(&filter));
    for length in 0..good.len() {
        let cut = read(&good[..length]).map(|_| ());
        assert_eq!(cut, Err(DecodeError::Truncated), "{length} bytes");
    }
    assert_eq!(read(&[&good[..], &[0]].concat()).map(|_| ()), Err(bad("length")));
    let forged = |at: usize, bytes: &[u8]| {
        let mut forged = good.clone();
        forged[at..][..bytes.len()].copy_from_slice(bytes);
        read(&forged).map(|_| ())
    };
    let (first, second) = (30, 30 + 24 + 51);
    let max = u64::MAX.to_le_bytes();
    for (at, bytes, error) in [
        (0, &[0][..], DecodeError::Version(0)),
        (0, &[2], DecodeError::Version(2)),
        (1, &[0; 4], bad("layers")),
        (1, &[4], bad("capacity")),
        (5, &[0; 8], bad("error rate")),
        (13, &max, bad("tightening ratio")),
        (21, &[0], bad("seed")),
        (21, &[2], bad("random seed")),
        (22, &[0], bad("layers")),
        (22, &[2], bad("length")),
        (22, &[4], bad("items")),
        (22, &max, bad("items")),
        (first, &max, DecodeError::Truncated),
        (first, &[0; 8], DecodeError::Truncated),
        (first, &[50], bad("bytes")),
        (first + 8 + 1, &max, bad("bytes")),
        (first + 8 + 9, &max[..4], bad("probes")),
        (first + 8 + 51, &[4], bad("items")),
        (first + 8 + 51, &max, bad("items")),
        (first + 8 + 59, &[0; 8], bad("capacity")),
        (first + 8 + 59, &max, bad("bytes")),
        (second + 8 + 13, &[0], bad("seed")),
    ] {
        assert_eq!(forged(at, bytes), Err(error), "{bytes:?} at {at}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            if let Ok(filter) = {
                let mut forged = good.clone();
                forged[at] ^= 1 << bit;
                read(&forged)
            } {
                assert_eq!(filter.validate(), Ok(()), "bit {bit} of byte {at}");
            }
        }
    }
}

/// A forged chunk header neither crashes the server nor makes a wrong filter.
#[test]
fn a_header_is_read_to_the_last_byte_or_refused() {
    let filter = grown();
    let good = header(chain(&filter)).unwrap();
    assert_eq!(good.len(), 68 + 3 * 24);
    assert_eq!(good[..16], *b"BLOOM\0\0\x02\0\0\0\0\x03\0\0\0");
    let read = |bytes: &[u8]| chunks::load_header(bytes, &at_most(1 << 20));
    let empty = read(&good).unwrap();
    assert_eq!((empty.items(), empty.totals().bits_set), (21, 0));
    assert_eq!(header(chain(&empty)).unwrap(), good);
    for length in 8..good.len() {
        let whole = length >= 68;
        let error = if whole {
            bad("header length")
        } else {
            DecodeError::Truncated
        };
        assert_eq!(read(&good[..length]).map(|_| ()), Err(error), "{length} bytes");
    }
    let mut none = good[..68].to_vec();
    none[12] = 0;
    assert_eq!(read(&none).map(|_| ()), Err(bad("layers")));
    let max = u64::MAX.to_le_bytes();
    for (at, bytes, error) in [
        (8, &[1][..], bad("magic")),
        (12, &[2], bad("header length")),
        (12, &max[..4], bad("header length")),
        (16, &max, bad("error rate")),
        (24, &[0; 8], bad("tightening ratio")),
        (32, &[0; 4], bad("layers")),
        (32, &[2], bad("capacity")),
        (68, &max, bad("bytes")),
        (68, &[0; 8], bad("capacity")),
        (76, &[4], bad("items")),
        (84, &max, bad("bytes")),
        (68 + 24, &[16], bad("capacity")),
        (68 + 24 + 16, &[0; 8], bad("bytes")),
        (68 + 48 + 8, &[46], bad("items")),
    ] {
        let mut forged = good.clone();
        forged[at..][..bytes.len()].copy_from_slice(bytes);
        assert_eq!(read(&forged).map(|_| ()), Err(error), "{bytes:?} at {at}");
    }
}

/// A few bytes that claim terabytes are refused.
#[test]
fn memory_is_asked_for_before_it_is_taken() {
    let spec = ValkeySpec::new(1e-9, 1 << 40, 1, Tightening::DEFAULT, SipSeed::FIXED).unwrap();
    let first = spec.rules().first(spec.capacity());
    let mut huge = header(chain(&grown())).unwrap();
    huge.truncate(68 + 24);
    huge[12] = 1;
    huge[16..24].copy_from_slice(&1e-9_f64.to_le_bytes());
    huge[36..68].copy_from_slice(&SipSeed::FIXED.0);
    huge[68..76].copy_from_slice(&first.capacity.to_le_bytes());
    huge[76..84].copy_from_slice(&0_u64.to_le_bytes());
    huge[84..92].copy_from_slice(&first.bytes.to_le_bytes());
    let asked = Cell::new(0);
    let refuse = |demand: Demand| {
        asked.set(demand.total);
        Err(Limit::Bytes(7))
    };
    let refused = chunks::load_header(&huge, &refuse).map(|_| ());
    assert_eq!(refused, Err(DecodeError::OutOfMemory { bytes: asked.get() }));
    assert!(asked.get() > first.bytes && first.bytes > 1 << 42);
    // The request for the second layer of a stream, before the server reads it.
    let layers = Cell::new(0);
    let refuse = |_: Demand| {
        layers.set(layers.get() + 1);
        if layers.get() == 2 {
            Err(Limit::Bytes(7))
        } else {
            Ok(())
        }
    };
    let mut stream = saved(&grown());
    let refused = load(&mut stream, ENCODING_VERSION, &refuse).map(|_| ());
    assert!(
        matches!(refused, Err(DecodeError::OutOfMemory { .. })),
        "{refused:?}"
    );
    assert_eq!(
        stream.values.len(),
        5,
        "the string of the second layer is still there"
    );
}
