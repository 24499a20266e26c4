mod windows;

use std::cell::Cell;
use std::fs;

use proptest::prelude::*;

use super::*;
use crate::chain::{Demand, MOST_ITEMS, UNLIMITED, at_most};
use crate::checks::Invalid;
use crate::checks::{MemoryStream, Value};
use crate::spec::BlockedSpec;
use crate::tests::oracle::{load, reserved, *};
use crate::{Allowance, Filter, Limit};

/// A filter with items `0..items`.
fn filled(spec: BlockedSpec, items: u32) -> Filter {
    let mut filter = filter(spec);
    let items: Vec<_> = (0..items).map(item).collect();
    add_batch(&mut filter, &items).1.unwrap();
    filter
}

/// A filter of four layers, for 10, 20, 40 and 80 items; the newest has 30.
fn four_layers() -> Filter {
    let mut filter = filter(spec(10, 1e-6, growing(2), 7));
    for id in 0.. {
        if filter.items() == 100 {
            break;
        }
        filter.add(&item(id), 0, UNLIMITED).unwrap();
    }
    filter
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A restart neither loses nor changes a filter.
    #[test]
    fn a_stored_filter_comes_back_as_it_was(
        capacity in 1u64..2000,
        rate in prop_oneof![1e-4..0.25, 1e-12..1e-9],
        growth in prop_oneof![Just(Growth::Fixed), (1u32..5).prop_map(reserved), (1u32..5).prop_map(growing)],
        seed: u64,
        items in 0u32..3000,
    ) {
        let spec = spec(capacity, rate, growth, seed);
        let filter = filled(spec, items.min(capacity as u32 * if growth == Growth::Fixed { 1 } else { 20 }));
        let stream = stored(&filter);
        let mut loaded = load(&stream).unwrap();
        prop_assert!(stored(&loaded) == stream);
        prop_assert_eq!(loaded.validate(), Ok(()));
        prop_assert_eq!(loaded.totals(), filter.totals());
        prop_assert_eq!(
            (loaded.error_rate(), loaded.growth(), loaded.seed()),
            (filter.error_rate(), filter.growth(), filter.seed())
        );
        let probes: Vec<_> = (0..4000).map(item).collect();
        prop_assert_eq!(contains_batch(&loaded, &probes), contains_batch(&filter, &probes));
        // The loaded filter also grows as the original does.
        let mut filter = filter;
        prop_assert_eq!(add_batch(&mut loaded, &probes), add_batch(&mut filter, &probes));
        prop_assert!(stored(&loaded) == stored(&filter));
    }

    /// A hostile payload neither crashes the server nor plants a filter that breaks later.
    #[test]
    fn a_damaged_header_is_refused_or_gives_a_valid_filter(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in 0usize..400,
    ) {
        let mut stream = stored(&four_layers());
        let header = header_of(&mut stream);
        for (at, byte) in damage {
            let at = at.index(header.len());
            header[at] = byte;
        }
        if length % 8 == 0 {
            header.truncate(length);
        }
        let small: Allowance<'_> = &at_most(1 << 24);
        if let Ok(mut filter) = load_with(&stream, small) {
            // The number of items may not fit the set bits: no field contradicts that.
            let sound = |filter: &Filter| matches!(filter.validate_composed(), Ok(()) | Err(Invalid::Fill { .. }));
            prop_assert!(sound(&filter));
            for id in 1000..1300 {
                if filter.add(&item(id), 0, small).is_err() {
                    break;
                }
                prop_assert!(filter.contains(&item(id)));
            }
            prop_assert!(sound(&filter));
            prop_assert!(load_with(&stored(&filter), small).is_ok());
        }
    }
}

/// No hostile field gets into a filter, and the error names the field that is wrong.
#[test]
fn each_field_is_refused_outside_of_its_range() {
    use DecodeError::Field;
    let stream = stored(&four_layers());
    assert_eq!(header_of(&mut stream.clone()).len(), HEAD_BYTES + 4 * LAYER_BYTES);
    let layer = |index: usize, offset: usize| HEAD_BYTES + index * LAYER_BYTES + offset;
    let u32s = |values: &[u32]| {
        values
            .iter()
            .map(|v| v.to_le_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    let u64s = |values: &[u64]| {
        values
            .iter()
            .map(|v| v.to_le_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    let f64s = |values: &[f64]| {
        values
            .iter()
            .map(|v| v.to_le_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    let no_rates = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        1.0,
        f64::MAX,
    ];
    let bits_set = four_layers()
        .layer_stats()
        .map(|layer| layer.bits_set)
        .collect::<Vec<_>>();
    let lines = |index: usize| chain(&four_layers()).layers()[index].shape().geometry.lines;

    let table: Vec<(&str, usize, Vec<Vec<u8>>, DecodeError)> = vec![
        ("magic", 0, u64s(&[0, u64::MAX]), Field("magic")),
        ("version", 7, vec![vec![0], vec![2], vec![255]], Field("magic")),
        ("zero", 8, u32s(&[1, 4, u32::MAX]), Field("zero")),
        ("layers", 12, u32s(&[0]), Field("layers")),
        ("layers", 12, u32s(&[1, 3, 5, u32::MAX]), Field("header length")),
        ("error rate", 24, f64s(&no_rates), Field("error rate")),
        (
            "error rate",
            24,
            f64s(&[0.0, -0.0, 0.25001, 0.99, 9e-31, f64::MIN_POSITIVE]),
            Field("error rate"),
        ),
        ("error rate", 24, f64s(&[1e-30, 1e-9]), Field("layer error rate")),
        ("growth", 32, u32s(&[0, 3, u32::MAX]), Field("growth")),
        ("expansion", 36, u32s(&[0, 32_769, u32::MAX]), Field("growth")),
        ("exceptions", 40, u32s(&[1, 1 << 24]), DecodeError::Truncated),
        (
            "exceptions",
            40,
            u32s(&[(1 << 24) + 1, u32::MAX]),
            Field("exceptions"),
        ),
        ("window", 44, u32s(&[1, u32::MAX]), Field("growth")),
        ("capacity", layer(0, 0), u64s(&[0]), Field("capacity")),
        ("capacity", layer(0, 0), u64s(&[9]), Field("items")),
        ("capacity", layer(3, 0), u64s(&[0]), Field("capacity")),
        ("capacity", layer(3, 0), u64s(&[29]), Field("items")),
        (
            "capacity",
            layer(3, 0),
            u64s(&[MOST_ITEMS, u64::MAX]),
            Field("capacity"),
        ),
        ("items", layer(0, 8), u64s(&[11, u64::MAX]), Field("items")),
        ("items", layer(3, 8), u64s(&[81, u64::MAX]), Field("items")),
        (
            "set bits",
            layer(0, 16),
            u64s(&[0, 9, u64::MAX]),
            Field("set bits"),
        ),
        (
            "set bits",
            layer(0, 16),
            u64s(&[bits_set[0] - 1, bits_set[0] + 1]),
            Field("set bits"),
        ),
        (
            "set bits",
            layer(3, 16),
            u64s(&[bits_set[3] - 1, bits_set[3] + 1]),
            Field("set bits"),
        ),
        (
            "layer rate",
            layer(0, 24),
            f64s(&no_rates),
            Field("layer error rate"),
        ),
        (
            "layer rate",
            layer(3, 24),
            f64s(&[1.1e-6, 0.9]),
            Field("layer error rate"),
        ),
        (
            "lines",
            layer(0, 32),
            u64s(&[0, u64::MAX, 1 << 57, 1 << 58, (1 << 58) + 1]),
            Field("lines"),
        ),
        // The size does not match the bit array that follows.
        (
            "lines",
            layer(3, 32),
            u64s(&[lines(3) - 1, lines(3) + 1]),
            Field("piece length"),
        ),
        (
            "lines per item",
            layer(0, 40),
            u32s(&[0, 17, 256, 257, u32::MAX]),
            Field("lines per item"),
        ),
        (
            "probes",
            layer(0, 44),
            u32s(&[0, 1, 9, 256, 258, u32::MAX]),
            Field("probes"),
        ),
    ];
    for (field, offset, values, expected) in table {
        for value in values {
            let damaged = with_header(&stream, offset, &value);
            assert_eq!(
                load(&damaged).map(|_| ()),
                Err(expected),
                "{field} at {offset}: {value:x?}"
            );
        }
    }

    // More bits than a layer has are refused before they can be counted, since those of chunks come later.
    let mut too_many = with_header(&stream, layer(0, 16), &u64::MAX.to_le_bytes());
    let end = Header::parse(header_of(&mut too_many)).map(|_| ());
    assert_eq!(end, Err(Field("set bits")));

    // Which bits and layers a number of items needs is not asked of a stream.
    let sound = |filter: &Filter| match filter.validate_composed() {
        Err(Invalid::Fill { .. }) => Ok(()),
        other => other,
    };
    // Values that no field contradicts load into a filter that works.
    let accepted: Vec<(&str, usize, Vec<Vec<u8>>)> = vec![
        ("seed", 16, u64s(&[0, 1, u64::MAX])),
        ("error rate", 24, f64s(&[2e-6, 0.25])),
        ("growth", 32, u32s(&[1])),
        ("expansion", 36, u32s(&[1, 3, 32_768])),
        ("capacity", layer(0, 0), u64s(&[11, 1 << 40])),
        ("items", layer(0, 8), u64s(&[1, 9])),
        ("items", layer(3, 8), u64s(&[29, 31])),
        ("layer rate", layer(3, 24), f64s(&[0.0, 1e-9])),
    ];
    for (field, offset, values) in accepted {
        for value in values {
            let mut filter = load(&with_header(&stream, offset, &value)).unwrap();
            assert_eq!(sound(&filter), Ok(()), "{field}: {value:x?}");
            let items: Vec<_> = (2000..3000).map(item).collect();
            assert_eq!(add_batch(&mut filter, &items).1, Ok(()), "{field}: {value:x?}");
            assert_eq!(sound(&filter), Ok(()), "{field}: {value:x?}");
        }
    }
}

/// Filters whose layers spend the whole rate, and by rounding a little more, come back after a restart.
#[test]
fn layers_may_spend_the_whole_rate() {
    let stream = stored(&filter(spec(100, 0.01, Growth::Fixed, 7)));
    let spending = |rate: f64| {
        let stream = with_header(&stream, HEAD_BYTES + 24, &rate.to_le_bytes());
        load(&stream).map(|_| ())
    };
    for rate in [0.01, 0.01 * (1.0 + 0.5 * ROUNDING)] {
        assert_eq!(spending(rate), Ok(()), "{rate}");
    }
    let too_much = spending(0.01 * (1.0 + 2.0 * ROUNDING));
    assert_eq!(too_much, Err(DecodeError::Field("layer error rate")));
}

/// A chain that has reached the largest capacity comes back after a restart, and no count overflows.
#[test]
fn capacities_at_the_end_of_the_range_are_loaded() {
    let mut bytes = header(chain(&filled(spec(1, 0.25, growing(32_768), 0), 1)), 0).unwrap();
    let mut parse = |capacity: u64| {
        bytes[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(&capacity.to_le_bytes());
        Header::parse(&bytes).map(|_| ())
    };
    assert_eq!(parse(MOST_ITEMS), Ok(()));
    for capacity in [MOST_ITEMS + 1, u64::MAX] {
        assert_eq!(parse(capacity), Err(DecodeError::Field("capacity")));
    }
}

/// A filter made by a hostile payload accepts no more items than it can count.
#[test]
fn a_batch_does_not_count_past_the_end_of_the_range() {
    for growth in [Growth::Fixed, reserved(2)] {
        let stream = stored(&filter(spec(1000, 0.01, growth, 7)));
        let stream = with_header(&stream, HEAD_BYTES, &MOST_ITEMS.to_le_bytes());
        let stream = with_header(&stream, HEAD_BYTES + 8, &(MOST_ITEMS - 2).to_le_bytes());
        let items: Vec<_> = (0..100).map(item).collect();
        let (mut one_by_one, mut batch) = (load(&stream).unwrap(), load(&stream).unwrap());
        let mut answers = Vec::new();
        let end = items.iter().try_for_each(|item| {
            answers.push(one_by_one.add(item, 0, UNLIMITED)?);
            Ok(())
        });
        assert!(
            end.is_err() && answers.len() == 2,
            "{growth:?}: {end:?} {answers:?}"
        );
        assert_eq!(add_batch(&mut batch, &items), (answers, end), "{growth:?}");
        assert_eq!(batch.items(), MOST_ITEMS);
        assert!(stored(&batch) == stored(&one_by_one));
    }
}

/// A truncated file gives an error, not a filter that lacks items.
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
    for length in 0..HEAD_BYTES + 4 * LAYER_BYTES {
        let mut cut = stream.clone();
        header_of(&mut cut).truncate(length);
        let expected = if length < HEAD_BYTES {
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
    let mut longer = stream.clone();
    header_of(&mut longer).push(0);
    assert_eq!(
        load(&longer).map(|_| ()),
        Err(DecodeError::Field("header length"))
    );
    header_of(&mut longer).resize(HEAD_BYTES + 5 * LAYER_BYTES, 0);
    assert_eq!(
        load(&longer).map(|_| ()),
        Err(DecodeError::Field("header length"))
    );
    // A value of another type.
    for at in 0..stream.values.len() {
        let mut other = stream.clone();
        other.values[at] = Value::Double(1.0);
        assert_eq!(
            load(&other).map(|_| ()),
            Err(DecodeError::Truncated),
            "value {at}"
        );
    }
}

/// The bits of each piece go to their places.
#[test]
fn a_piece_of_another_length_is_refused() {
    let stream = stored(&four_layers());
    for at in 3..stream.values.len() {
        for change in [-1i64, 1, 64] {
            let mut damaged = stream.clone();
            let Value::String(piece) = &mut damaged.values[at] else {
                panic!("value {at} is no string");
            };
            let length = piece.len() as i64 + change;
            piece.resize(length as usize, 0);
            let end = load(&damaged).map(|_| ());
            assert_eq!(
                end,
                Err(DecodeError::Field("piece length")),
                "value {at}, {change:+} bytes"
            );
        }
        // The marker of a zero piece in place of one with bits.
        let mut emptied = stream.clone();
        emptied.values[at] = Value::String(Vec::new());
        assert_eq!(load(&emptied).map(|_| ()), Err(DecodeError::Field("set bits")));
    }
}

/// Data in another format is not read as a filter: it would deny its items, as that of version 1, in other bits.
#[test]
fn other_versions_are_refused() {
    let mut stream = stored(&four_layers());
    for encoding in [5, 300, i32::MAX, -1, -4] {
        let expected = DecodeError::Version(u64::from(encoding.unsigned_abs()));
        let end = crate::codec::load(&mut stream.clone(), encoding, UNLIMITED).map(|_| ());
        assert_eq!(end, Err(expected));
    }

    for version in [0, 1, 2, 4, u64::MAX] {
        stream.values[0] = Value::Unsigned(version);
        assert_eq!(load(&stream).map(|_| ()), Err(DecodeError::Version(version)));
    }
    let mut header = crate::codec::chunks::header(&four_layers());
    for version in [1, 4, 255] {
        header[7] = version;
        let end = crate::codec::chunks::load_header(&header, UNLIMITED).map(|_| ());
        assert_eq!(end, Err(DecodeError::Version(version.into())));
    }
}

/// A payload of a few bytes cannot use up the memory of a server.
#[test]
fn a_header_of_gigantic_layers_is_refused_before_anything_is_allocated() {
    let stream = stored(&four_layers());
    let lines = |index: usize| HEAD_BYTES + index * LAYER_BYTES + 32;
    let mut gigantic = stream.clone();
    for index in 0..3 {
        gigantic = with_header(&gigantic, lines(index), &(1u64 << 50).to_le_bytes());
    }
    let geometry = |index: usize| chain(&four_layers()).layers()[index].shape().geometry;
    let sum: u64 = (0..3)
        .map(|index| u64::from(geometry(index).lines_per_item) << 56)
        .sum();
    let sum = sum + geometry(3).bytes() + (size_of::<Filter>() + 4 * size_of::<Layer>()) as u64;
    let asked = Cell::new(0);
    let refuse = |demand: Demand| {
        asked.set(demand.total);
        Err(Limit::Bytes(1 << 30))
    };
    let end = load_with(&gigantic, &refuse).map(|_| ());
    assert_eq!(end, Err(DecodeError::OutOfMemory { bytes: sum }));
    assert_eq!(asked.get(), sum);
    // Without a limit, the allocator refuses.
    assert!(matches!(
        load(&gigantic).map(|_| ()),
        Err(DecodeError::OutOfMemory { .. })
    ));
}

/// An empty filter for a billion items takes little memory, and a small file.
#[test]
fn zero_pieces_are_stored_as_markers() {
    let mut filter = filter(spec(2_000_000, 0.01, Growth::Fixed, 5));
    let pieces = |stream: &MemoryStream| {
        stream
            .values
            .iter()
            .skip(3)
            .map(|value| match value {
                Value::String(piece) => piece.len(),
                other => panic!("no piece: {other:?}"),
            })
            .collect::<Vec<_>>()
    };
    let empty = stored(&filter);
    let length = chain(&filter).layers()[0].bits().bytes().len();
    assert_eq!(pieces(&empty), vec![0; length.div_ceil(PIECE_BYTES)]);
    assert!(!length.is_multiple_of(PIECE_BYTES));
    assert!(stored(&load(&empty).unwrap()) == empty);

    filter.add(b"item", 0, UNLIMITED).unwrap();
    let touched = stored(&filter);
    let lengths = pieces(&touched);
    assert_eq!(lengths.iter().filter(|&&length| length > 0).count(), 1);
    let loaded = load(&touched).unwrap();
    assert!(loaded.contains(b"item") && stored(&loaded) == touched);
}

/// The filters in the fixtures, and the number of items added to each.
fn fixtures() -> Vec<(&'static str, BlockedSpec, u32)> {
    vec![
        ("empty", spec(100, 0.01, growing(2), 0), 0),
        ("grown", spec(100, 0.01, growing(2), 0x0123_4567_89ab_cdef), 1500),
        ("reserved", spec(500, 1e-4, reserved(2), 1), 500),
        ("reserved-grown", spec(50, 0.001, reserved(4), u64::MAX), 700),
        ("fixed", spec(300, 0.1, Growth::Fixed, 2), 250),
        ("tight", spec(200, 1e-8, reserved(1), 3), 450),
        ("tightest", spec(40, 1e-30, Growth::Fixed, 4), 40),
    ]
}

/// Filters that were stored stay readable.
#[test]
fn stored_filters_are_read_and_written_as_ever() {
    for (name, spec, items) in fixtures() {
        // Fixtures of a released version never change; those of a new version are written once.
        if std::env::var_os("BLOOM_WRITE_FIXTURES").is_some() {
            fs::write(fixture(name), to_file(&stored(&filled(spec, items)))).unwrap();
        }
        let file = fs::read(fixture(name)).unwrap();
        let stream = of_file(&file);
        let filter = load(&stream).unwrap();
        assert_eq!(filter.validate(), Ok(()), "{name}");
        for id in 0..items {
            assert!(filter.contains(&item(id)), "{name}: item {id}");
        }
        assert_eq!(to_file(&stored(&filter)), file, "{name}: written again");
        // A replica of another version must make the same filter from the same commands.
        assert_eq!(to_file(&stored(&filled(spec, items))), file, "{name}: made again");
    }
}
