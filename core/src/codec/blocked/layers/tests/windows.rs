//! What a header says of a window.

use std::fs;

use proptest::prelude::*;

use super::super::*;
use crate::chain::{UNLIMITED, at_most};
use crate::checks::Invalid;
use crate::checks::Value;
use crate::codec::chunks;
use crate::layers::Layers;
use crate::params::LATEST;
use crate::spec::BlockedSpec;
use crate::tests::oracle::{
    contains_batch, fixture, header_of, item, load, load_with, of_file, reserved, spec, stored, to_file,
    with_header,
};
use crate::{Allowance, Filter};

/// Where the fields of a slice and of a layer stand in a header with three slices.
fn slice(index: usize, offset: usize) -> usize {
    HEAD_BYTES + WINDOW_BYTES + index * SLICE_BYTES + offset
}

fn layer(index: usize, offset: usize) -> usize {
    slice(3, 0) + index * LAYER_BYTES + offset
}

const START: Time = 1_700_000_000_000;

fn made(capacity: u64, window: Window) -> Filter {
    let spec = BlockedSpec {
        window: Some(window),
        ..spec(capacity, 0.01, reserved(2), 7)
    };
    Filter::new(spec.into(), UNLIMITED).unwrap()
}

fn add(filter: &mut Filter, time: Time, ids: std::ops::Range<u32>) {
    let items: Vec<_> = ids.map(item).collect();
    filter
        .insert_many_at(items.iter().map(Vec::as_slice), time)
        .unwrap();
}

/// Slices of 250 seconds for 25 items: one with 10 items, one with 60 in two layers, one with 5, which has closed.
fn four_layers() -> Filter {
    let mut filter = made(100, Window::new(1000, 4, false).unwrap());
    add(&mut filter, START, 0..10);
    add(&mut filter, START + 300_000, 10..70);
    add(&mut filter, START + 600_000, 70..75);
    if let Layers::Windowed(windowed) = &mut filter.layers
        && let Some(newest) = windowed.slices.last_mut()
    {
        newest.closes = START + 600_001;
        windowed.newest_stamp = newest.closes;
    }
    assert_eq!(filter.layers(), 4);
    filter
}

/// A file of this version would be lost to a later one that reads other bytes.
#[test]
fn the_format_is_pinned() {
    let mut filter = made(4, Window::new(60, 2, true).unwrap());
    add(&mut filter, START, 1..3);
    add(&mut filter, START + 1, 3..5);
    let stream = stored(&filter);
    let first = [Value::Unsigned(3), Value::Unsigned(0)];
    assert!(stream.values.iter().take(2).eq(&first));
    let header = header_of(&mut stream.clone()).clone();
    let mut expected = Vec::new();
    expected.extend(b"BLOOM\0\0\x03");
    expected.extend([0, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend(7u64.to_le_bytes());
    expected.extend(0.01f64.to_le_bytes());
    expected.extend([1, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend([0, 0, 0, 0, 60, 0, 0, 0]);
    expected.extend(4u64.to_le_bytes());
    expected.extend([2, 1, 0, 0, 1, 0, 0, 0]);
    expected.extend((START + 1).to_le_bytes());
    expected.extend(0u64.to_le_bytes());
    expected.extend(START.to_le_bytes());
    expected.extend((START + 30_000).to_le_bytes());

    expected.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header[..expected.len()], expected);
    let layers = &header[expected.len()..];
    assert_eq!(layers[..16], [[2, 0, 0, 0, 0, 0, 0, 0]; 2].concat());
    assert_eq!(layers.len(), 2 * LAYER_BYTES);
    // The bits are where those of any blocked filter are.
    assert_eq!(stream.values.len(), 5);
    assert!(load(&stream).is_ok_and(|loaded| stored(&loaded) == stream));
}

/// Stored filters would be lost, or a replica of another version make others of the same commands.
#[test]
fn stored_windows_are_read_and_written_as_ever() {
    let empty = made(100, Window::new(60, 8, true).unwrap());
    for (name, filter) in [("window", four_layers()), ("window-empty", empty)] {
        if std::env::var_os("BLOOM_WRITE_FIXTURES").is_some() {
            fs::write(fixture(name), to_file(&stored(&filter))).unwrap();
        }
        let file = fs::read(fixture(name)).unwrap();
        let loaded = load(&of_file(&file)).unwrap();
        assert_eq!(loaded.validate(), Ok(()), "{name}");
        assert_eq!(to_file(&stored(&loaded)), file, "{name}: written again");
        assert_eq!(to_file(&stored(&filter)), file, "{name}: made again");
    }
}

/// A hostile field would get into a filter, or an honest failure could not be explained.
#[test]
fn each_field_is_refused_outside_of_its_range() {
    use DecodeError::Field;
    let words = |values: &[u64]| {
        let bytes = values.iter().map(|value| value.to_le_bytes().to_vec());
        bytes.collect::<Vec<_>>()
    };
    let halves = |values: &[u32]| {
        let bytes = values.iter().map(|value| value.to_le_bytes().to_vec());
        bytes.collect::<Vec<_>>()
    };
    let bytes = |values: &[u8]| values.iter().map(|value| vec![*value]).collect::<Vec<_>>();
    let rates = |values: &[f64]| words(&values.iter().map(|rate| rate.to_bits()).collect::<Vec<_>>());
    let late = START + 10_000_000;
    let times = |offset, values: &[u64]| (offset, words(values), Field("times"));
    let table: Vec<(usize, Vec<Vec<u8>>, DecodeError)> = vec![
        (12, halves(&[0, 1, 3, 5, u32::MAX]), Field("layers")),
        (24, rates(&[0.001]), Field("layer error rate")),
        (32, halves(&[0, 2, 3, u32::MAX]), Field("growth")),
        (36, halves(&[0, 32_769, u32::MAX]), Field("growth")),
        (40, halves(&[1, 1 << 24, u32::MAX]), Field("exceptions")),
        // Without a window, its bytes are those of a layer.
        (44, halves(&[0]), Field("lines per item")),
        // Slices that are shorter than the ones that are there.
        (44, halves(&[1, 999]), Field("times")),
        (48, words(&[0, (1 << 40) + 1, u64::MAX]), Field("capacity")),
        (56, bytes(&[0, 1, 65, 255]), Field("slices")),
        (56, bytes(&[8, 64]), Field("times")),
        (57, bytes(&[2, 7, 255]), Field("refresh")),
        (58, bytes(&[1, 255]), Field("reserved bytes")),
        (59, bytes(&[1, 255]), Field("reserved bytes")),
        (60, halves(&[513, u32::MAX]), Field("slices")),
        (60, halves(&[0]), Field("layers")),
        (60, halves(&[2]), Field("times")),
        times(64, &[0, START + 599_999, START + 600_002, late, u64::MAX]),
        (
            72,
            words(&[1, 63, 65, (1 << 52) + 64, u64::MAX]),
            Field("dropped bytes"),
        ),
        times(
            slice(0, 0),
            &[0, START + 250_001, START + 300_001, late, u64::MAX],
        ),
        times(slice(0, 8), &[0, START - 1, START + 250_001, late, u64::MAX]),
        times(slice(1, 0), &[START - 1, START + 299_999, START + 550_001, late]),
        times(slice(1, 8), &[START + 249_999, START + 550_001, START + 600_002]),
        times(slice(2, 0), &[START + 299_999, START + 600_002, u64::MAX]),
        times(
            slice(2, 8),
            &[START + 549_999, START + 600_000, START + 850_001, u64::MAX],
        ),
        (slice(0, 16), halves(&[0]), Field("layers")),
        (slice(0, 16), halves(&[2, u32::MAX]), Field("layers")),
        (slice(1, 20), halves(&[1, u32::MAX]), Field("layers")),
        (
            layer(0, 32),
            words(&[0, u64::MAX, 1 << 57, 1 << 46]),
            Field("lines"),
        ),
        (layer(0, 0), words(&[0]), Field("capacity")),
        (layer(0, 0), words(&[9]), Field("items")),
        (
            layer(0, 0),
            words(&[u64::MAX, i64::MAX as u64]),
            Field("capacity"),
        ),
        (layer(0, 24), rates(&[0.0095, 0.9]), Field("layer error rate")),
        (layer(2, 24), rates(&[0.0095, 0.9]), Field("layer error rate")),
    ];
    let stream = stored(&four_layers());
    for (offset, values, expected) in table {
        for value in values {
            let end = load(&with_header(&stream, offset, &value)).map(|_| ());
            assert_eq!(end, Err(expected), "at {offset}: {value:x?}");
        }
    }
}

/// Whoever may send a chunk could make each later command on the filter take seconds.
#[test]
fn countless_layers_are_refused() {
    let stream = stored(&four_layers());
    for (layers, expected) in [(4400, "header length"), (4401, "layers")] {
        // Two layers are those of the other slices.
        let many = with_header(&stream, 12, &u32::to_le_bytes(layers));
        let many = with_header(&many, slice(1, 16), &(layers - 2).to_le_bytes());
        let end = load(&many).map(|_| ());
        assert_eq!(end, Err(DecodeError::Field(expected)), "{layers}");
    }
}

/// What no field contradicts, or only makes another promise, must work: a clock that was wrong stamped it.
#[test]
fn what_is_accepted_works() {
    let stream = stored(&four_layers());
    let mut far = with_header(&stream, 64, &LATEST.to_le_bytes());
    for index in 0..3 {
        for (offset, time) in [(0, LATEST), (8, LATEST + 1)] {
            far = with_header(&far, slice(index, offset), &time.to_le_bytes());
        }
    }
    let equal = with_header(&stream, slice(0, 0), &(START + 250_000).to_le_bytes());
    let another_seed = with_header(&stream, 16, &u64::MAX.to_le_bytes());
    let not_closed = with_header(&stream, 64, &(START + 600_000).to_le_bytes());
    let refreshing = with_header(&stream, 57, &[1]);
    let longer = with_header(&stream, 44, &u32::MAX.to_le_bytes());
    let dropped = with_header(&stream, 72, &(1u64 << 51).to_le_bytes());
    for stream in [far, equal, another_seed, not_closed, refreshing, longer, dropped] {
        let mut filter = load(&stream).unwrap();
        assert_eq!(filter.validate(), Ok(()));
        for step in 0..40 {
            let ids = 1000 + step * 50..1000 + step * 50 + 50;
            add(
                &mut filter,
                START + 600_000 + u64::from(step) * 100_000,
                ids.clone(),
            );
            let items: Vec<_> = ids.map(item).collect();
            assert!(contains_batch(&filter, &items).into_iter().all(|found| found));
            assert_eq!(filter.validate(), Ok(()));
            assert_eq!(stored(&load(&stored(&filter)).unwrap()), stored(&filter));
        }
    }
}

/// An item would be stamped later than any time that can be loaded: a server would not start with its own file.
#[test]
fn the_latest_times_are_stored_and_loaded() {
    let mut filter = made(100, Window::new(1000, 4, false).unwrap());
    for (turn, time) in (0..).zip([START, LATEST, u64::MAX, LATEST, u64::MAX]) {
        let ids = 10 * turn..10 * turn + 10;
        add(&mut filter, time, ids.clone());
        assert!(
            ids.clone()
                .all(|id| filter.contains_at(&item(id), time.min(LATEST)))
        );
        filter = load(&stored(&filter)).unwrap();
        assert!(
            ids.clone()
                .all(|id| filter.contains_at(&item(id), time.min(LATEST)))
        );
    }
    // A clock that was wrong: what it stamped counts as added now.
    for id in 100..110 {
        filter.add(&item(id), START, UNLIMITED).unwrap();
    }
    assert_eq!(filter.newest_stamp(), START);
    assert!(
        (0..110)
            .filter(|id| *id > 9 && *id < 50)
            .all(|id| filter.contains_at(&item(id), START))
    );
    assert_eq!(stored(&load(&stored(&filter)).unwrap()), stored(&filter));
}

/// A cut file would give a filter that lacks items, or crash the server.
#[test]
fn a_stream_cut_anywhere_is_refused() {
    let stream = stored(&four_layers());
    for length in 0..stream.values.len() {
        let mut cut = stream.clone();
        cut.values.truncate(length);
        assert_eq!(
            load(&cut).map(|_| ()),
            Err(DecodeError::Truncated),
            "{length} values"
        );
    }
    for length in 0..layer(4, 0) {
        let mut cut = stream.clone();
        header_of(&mut cut).truncate(length);
        let expected = if length < layer(0, 0) {
            DecodeError::Truncated
        } else {
            DecodeError::Field("header length")
        };
        assert_eq!(
            load(&cut).map(|_| ()),
            Err(expected),
            "{length} bytes of the header"
        );
    }
}

/// Who copies a filter by chunks while it goes on would get bits in wrong places: items forgotten, others made up.
#[test]
fn chunks_know_their_place_while_slices_go() {
    let source = four_layers();
    let header = chunks::header(&source);
    let pieces: Vec<_> = chunks::chunks(&source)
        .skip(1)
        .map(|chunk| (chunk.iterator, chunk.bytes.to_vec()))
        .collect();
    for loaded in 0..=pieces.len() {
        let mut copy = chunks::load_header(&header, UNLIMITED).unwrap();
        for (iterator, bytes) in &pieces[..loaded] {
            chunks::load_chunk(&mut copy, *iterator, bytes).unwrap();
        }
        // The first slice has expired, and goes.
        add(&mut copy, START + 1_250_000, 500..501);
        assert_eq!(copy.layers(), 4);
        for (at, (iterator, bytes)) in pieces.iter().enumerate().skip(loaded) {
            let outcome = chunks::load_chunk(&mut copy, *iterator, bytes);
            assert_eq!(outcome, Ok(at > 0), "chunk {at}");
        }
        let items: Vec<_> = (10..75).chain([500]).map(item).collect();
        assert!(
            contains_batch(&copy, &items).into_iter().all(|found| found),
            "{loaded} loaded"
        );
        assert_eq!(copy.validate(), Ok(()));
        // What is asked for of a layer that went is of the next one.
        let first = chunks::dump(&copy, 1).unwrap().unwrap();
        assert_eq!(first.iterator, pieces[1].0);
        assert_eq!(first.bytes, pieces[1].1);
        let all =
            std::iter::successors(Some(first), |last| chunks::dump(&copy, last.iterator).unwrap()).count();
        assert_eq!(all, 4);
        assert_eq!(stored(&chunks::copy(&copy, UNLIMITED).unwrap()), stored(&copy));
    }
}

/// Where layers start is counted on for years: it must begin anew before the count has no room.
#[test]
fn what_has_gone_is_counted_anew_before_it_is_too_much() {
    let stream = with_header(
        &stored(&four_layers()),
        72,
        &(MOST_DROPPED_BYTES - (1 << 20)).to_le_bytes(),
    );
    let mut filter = load(&stream).unwrap();
    assert_eq!(
        filter.layers.as_layered().dropped_bytes(),
        MOST_DROPPED_BYTES - (1 << 20)
    );
    let mut time = START + 600_000;
    let mut before = MOST_DROPPED_BYTES - (1 << 20);
    for turn in 0.. {
        time += 1_300_000;
        add(&mut filter, time, turn * 40_000..turn * 40_000 + 40_000);
        assert!(filter.layers.as_layered().dropped_bytes() <= MOST_DROPPED_BYTES);
        assert_eq!(
            stored(&chunks::copy(&filter, UNLIMITED).unwrap()),
            stored(&filter)
        );
        let gone = filter.layers.as_layered().dropped_bytes();
        if gone < before {
            assert_eq!(gone, 0);
            break;
        }
        before = gone;
    }
    assert_eq!(filter.validate(), Ok(()));
    let first = chunks::chunks(&filter).nth(1).unwrap();
    assert_eq!(first.iterator, 1 + first.bytes.len() as i64);
}

/// A filter that holds nothing yet would be saved in a form that no server loads.
#[test]
fn a_window_that_holds_nothing_is_kept() {
    let mut empty = made(100, Window::new(1000, 4, false).unwrap());
    let stream = stored(&empty);
    assert_eq!(stored(&load(&stream).unwrap()), stream);
    assert_eq!(stored(&chunks::copy(&empty, UNLIMITED).unwrap()), stream);
    assert_eq!(chunks::dump(&empty, 1), Ok(None));
    assert!(!empty.contains(&item(1)));
    assert_eq!(contains_batch(&empty, &[item(1), item(2)]), [false; 2]);
    add(&mut empty, START + 2_000_001, 0..3);
    assert_eq!((empty.items(), empty.layers()), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A hostile payload would crash the server, or plant a filter that breaks later.
    #[test]
    fn a_damaged_header_is_refused_or_gives_a_filter_that_works(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut stream = stored(&four_layers());
        let header = header_of(&mut stream);
        for (at, byte) in damage {
            let at = at.index(header.len());
            header[at] = byte;
        }
        // Which bits a number of items can set is not asked of a stream.
        let sound = |filter: &Filter| match filter.validate() {
            Err(Invalid::Fill { .. }) => Ok(()),
            other => other,
        };
        let small: Allowance<'_> = &at_most(1 << 24);
        if let Ok(mut filter) = load_with(&stream, small) {
            prop_assert_eq!(sound(&filter), Ok(()));
            for time in [START, START + 700_000, START + 5_000_000] {
                let added = filter.add(&time.to_le_bytes(), time, small);
                prop_assert!(added.is_err() || filter.contains_at(&time.to_le_bytes(), time));
                prop_assert_eq!(sound(&filter), Ok(()));
                let figures = (filter.totals_at(time), filter.estimated_error_rate_at(time));
                let _ = figures;
                // What is saved then can be loaded.
                prop_assert!(load_with(&stored(&filter), small).is_ok());
            }
        }
    }
}
