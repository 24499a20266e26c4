use std::fs;

use super::*;
use crate::chain::at_most;
use crate::checks::Invalid;
use crate::checks::{MemoryStream, Value};
use crate::codec::{self, ENCODING_VERSION, chunks};
use crate::params::{ErrorRate, Growth};
use crate::tests::oracle::{load, reserved, *};
use crate::{Demand, UNLIMITED};

/// A filter of two layers, with these of its items excepted.
fn excepting(excepted: std::ops::Range<u32>) -> Filter {
    let mut filter = filter(spec(1500, 0.01, reserved(2), 7));
    let items: Vec<_> = (0..3000).map(item).collect();
    assert_eq!(add_batch(&mut filter, &items).1, Ok(()));
    let excepted: Vec<_> = excepted.map(item).collect();
    let excepted = excepted.iter().map(Vec::as_slice);
    filter.except(excepted, UNLIMITED, |_, _| ()).unwrap();
    filter
}

fn merged() -> Filter {
    let part = |capacity, growth, ids: std::ops::Range<u32>| {
        let mut part = filter(spec(capacity, 0.01, growth, 7));
        assert_eq!(add_batch(&mut part, &ids.map(item).collect::<Vec<_>>()).1, Ok(()));
        part
    };
    let parts = [part(100, Growth::Fixed, 0..80), part(300, Growth::Fixed, 60..200)];
    let rate = ErrorRate::new(0.05).unwrap();
    Filter::union(&[&parts[0], &parts[1]], Some(rate), UNLIMITED).unwrap()
}

fn exceptions_of(filter: &Filter) -> Vec<Entry> {
    let sorted = filter.excepted().unwrap().sorted().unwrap();
    sorted
        .into_iter()
        .map(|number| [(number >> 64) as u64, number as u64])
        .collect()
}

/// Stored filters would not load in another build.
#[test]
fn the_stream_is_as_it_is_documented() {
    let filter = excepting(100..2124);
    let stream = stored(&filter);
    let values: Vec<_> = stream.values.iter().collect();
    assert_eq!(values[..2], [&Value::Unsigned(3), &Value::Unsigned(0)]);
    let header = chunks::header(&filter);
    let (of_layers, exceptions) = header.split_at(header.len() - 16 * 2024);
    assert_eq!(values[2], &Value::String(of_layers.to_vec()));
    assert_eq!(of_layers[40..44], 2024u32.to_le_bytes());
    let mut entries = Vec::new();
    for (value, count) in values[5..].iter().zip([1024, 1000]) {
        let Value::String(piece) = value else {
            panic!("no piece: {value:?}")
        };
        assert_eq!(piece.len(), 16 * count);
        entries.extend(piece.as_chunks::<16>().0.iter().map(|entry| {
            let (halves, _) = entry.as_chunks::<8>();
            [0, 1].map(|half| u64::from_le_bytes(halves[half]))
        }));
    }
    assert_eq!(values.len(), 7);
    assert_eq!(entries, exceptions_of(&filter));
    assert!(entries.is_sorted_by(|a, b| a < b));

    assert_eq!(exceptions, bytemuck::cast_slice::<_, u8>(&entries));
}

/// Stored filters would be lost.
#[test]
fn stored_exceptions_and_unions_are_read_and_written_as_ever() {
    for (name, filter) in [
        ("exceptions", {
            let mut small = filter(spec(50, 0.01, growing(2), 7));
            let items: Vec<_> = (0..120).map(item).collect();
            assert_eq!(add_batch(&mut small, &items).1, Ok(()));
            let excepted = items[10..30].iter().map(Vec::as_slice);
            small.except(excepted, UNLIMITED, |_, _| ()).unwrap();
            small
        }),
        ("merged", merged()),
    ] {
        if std::env::var_os("BLOOM_WRITE_FIXTURES").is_some() {
            fs::write(fixture(name), to_file(&stored(&filter))).unwrap();
        }
        let file = fs::read(fixture(name)).unwrap();
        let loaded = load(&of_file(&file)).unwrap();
        assert_eq!(loaded.validate_composed(), Ok(()), "{name}");
        assert_eq!(to_file(&stored(&loaded)), file, "{name}: written again");
        assert_eq!(to_file(&stored(&filter)), file, "{name}: made again");
    }
}

fn with_value(stream: &MemoryStream, at: usize, value: Value) -> Result<(), DecodeError> {
    let mut stream = stream.clone();
    stream.values[at] = value;
    codec::load(&mut stream, ENCODING_VERSION, UNLIMITED).map(|_| ())
}

/// Hostile exceptions would make a filter that answers wrong, or one that no server loads after the next save.
#[test]
fn exceptions_that_are_none_are_refused() {
    let filter = excepting(0..3);
    let (stream, entries) = (stored(&filter), exceptions_of(&filter));
    let piece = 5;
    let bytes = |entries: &[Entry]| Value::String(bytemuck::cast_slice(entries).to_vec());
    assert_eq!(with_value(&stream, piece, bytes(&entries)), Ok(()));
    let wrong = Err(DecodeError::Field("exceptions"));
    for hostile in [
        [entries[1], entries[0], entries[2]],
        [entries[0], entries[0], entries[2]],
        [[0, 0], entries[1], entries[2]],
        [entries[0], entries[2], entries[1]],
    ] {
        assert_eq!(with_value(&stream, piece, bytes(&hostile)), wrong, "{hostile:?}");
        let mut header = chunks::header(&filter);
        let end = header.len();
        header[end - 48..].copy_from_slice(bytemuck::cast_slice(&hostile));
        assert_eq!(chunks::load_header(&header, UNLIMITED).map(|_| ()), wrong);
    }
    let length = Err(DecodeError::Field("piece length"));
    for hostile in [
        bytes(&entries[..2]),
        bytes(&[entries[0]; 4]),
        Value::String(vec![1; 47]),
        bytes(&[]),
    ] {
        assert_eq!(with_value(&stream, piece, hostile), length);
    }
    for (number, end) in [
        (0, Ok(())),
        (2, length),
        (4, length),
        (MOST_EXCEPTIONS as u32, length),
        (MOST_EXCEPTIONS as u32 + 1, wrong),
        (u32::MAX, wrong),
    ] {
        let mut stream = with_header(&stream, 40, &number.to_le_bytes());
        let loaded = codec::load(&mut stream, ENCODING_VERSION, UNLIMITED).map(|_| ());
        assert_eq!(loaded, end, "{number}");
    }
    for end in 0..stream.values.len() {
        let mut cut = stream.clone();
        cut.values.truncate(end);
        let loaded = codec::load(&mut cut, ENCODING_VERSION, UNLIMITED).map(|_| ());
        assert_eq!(loaded, Err(DecodeError::Truncated), "{end}");
    }
    let header = chunks::header(&filter);
    for end in 8..header.len() {
        assert!(chunks::load_header(&header[..end], UNLIMITED).is_err(), "{end}");
    }
}

/// What came together may be anything, but no filter that breaks its promise, or one that cannot count.
#[test]
fn layers_that_came_together_keep_the_rate() {
    let stream = stored(&merged());
    let tighter = with_header(&stream, 24, &0.01f64.to_le_bytes());
    assert_eq!(
        load(&tighter).map(|_| ()),
        Err(DecodeError::Field("layer error rate"))
    );
    let huge = with_header(&stream, 48, &(i64::MAX as u64).to_le_bytes());
    assert_eq!(load(&huge).map(|_| ()), Err(DecodeError::Field("capacity")));
    assert_eq!(load(&stream).unwrap().validate(), Err(Invalid::GrownFixed));
}

/// A client's RESTORE could take more memory than it may.
#[test]
fn exceptions_are_asked_for_before_they_are_loaded() {
    let filter = excepting(0..2000);
    let stream = stored(&filter);
    let bytes = filter.bytes();
    for (loads, name) in [
        (
            &(|allowance: Allowance<'_>| load_with(&stream, allowance).map(|_| ()))
                as &dyn Fn(Allowance<'_>) -> Result<(), DecodeError>,
            "a stream",
        ),
        (
            &|allowance| chunks::load_header(&chunks::header(&filter), allowance).map(|_| ()),
            "a header",
        ),
        (
            &|allowance| chunks::copy(&filter, allowance).map(|_| ()),
            "a copy",
        ),
    ] {
        assert_eq!(loads(&at_most(bytes)), Ok(()), "{name}");
        let refused = loads(&at_most(bytes - 1));
        assert_eq!(refused, Err(DecodeError::OutOfMemory { bytes }), "{name}");
        // All that is asked for is what the filter then has.
        let asked = std::cell::Cell::new(0);
        let allowance = |demand: Demand| {
            assert_eq!(demand.total - demand.new, asked.get(), "{name}");
            asked.set(demand.total);
            Ok(())
        };
        loads(&allowance).unwrap();
        assert_eq!(asked.get(), bytes, "{name}");
    }
}
