use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::Value as Json;

use libbloom::checks::{MemoryStream, Value};
use libbloom::codec::stream::Sink as _;
use libbloom::{Builder, Layout};

use super::*;
use libbloom::UNLIMITED;
use libbloom::codec::chunks;

#[path = "../../core/src/tests/failing.rs"]
#[expect(dead_code, reason = "the core's tests have other shortages too")]
mod failing;

/// Files that servers saved; how it was done is in `tests/fixtures`.
macro_rules! fixture {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!("../../tests/fixtures/", $name)) as &[u8],
        )
    };
}

/// Files with keys of every type of a server.
const WITH_OTHER_TYPES: [(&str, &[u8]); 4] = [
    fixture!("rdb/redis-6.2.rdb"),
    fixture!("rdb/redis-7.4.rdb"),
    fixture!("rdb/redis-7.4-cluster.rdb"),
    fixture!("rdb/valkey-9.1.rdb"),
];

/// When the keys that expire do.
const EXPIRY: Time = 4_102_444_800_000;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn decoded(json: &Json) -> Vec<u8> {
    BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap()
}

/// The payloads that RedisBloom and valkey-bloom gave for their filters, by key.
fn payloads() -> Vec<(String, Vec<u8>)> {
    let classic = json(include_str!(
        "../../tests/fixtures/redisbloom/redisbloom-2.8.json"
    ));
    let valkey = json(include_str!("../../tests/fixtures/valkey-bloom/filters.json"));
    let all = [&classic["filters"], &valkey["filters"]];
    let all = all.iter().flat_map(|filters| filters.as_object().unwrap());
    all.map(|(name, filter)| {
        let dump = ["dump_base64", "dump"].map(|name| &filter[name]);
        let dump = dump.into_iter().find(|dump| dump.is_string()).unwrap();
        (name.clone(), decoded(dump))
    })
    .collect()
}

/// Filters of every kind, with items.
fn filters_of_all_kinds() -> Vec<(&'static str, Filter)> {
    let builder = || Filter::builder(100, 0.01).seed(7);
    let filled = |builder: Builder| {
        let mut filter = builder.build().unwrap();
        for number in 0..99_u32 {
            filter.insert(&number.to_le_bytes()).unwrap();
        }
        filter
    };
    let mut grown = filled(builder());
    grown.insert_many([&b"a"[..], b"b", b"c", b"d", b"e"]).unwrap();
    vec![
        ("blocked", filled(builder())),
        ("grown", grown),
        ("window", filled(builder().window(Duration::from_secs(60)))),
        (
            "classic",
            filled(Filter::builder(100, 0.01).layout(Layout::Classic)),
        ),
        ("valkey", filled(builder().layout(Layout::Valkey))),
    ]
}

fn payload_of(filter: &Filter) -> Vec<u8> {
    let mut payload = Vec::new();
    write_payload(filter, &mut payload).unwrap();
    payload
}

/// The values that a filter is saved as.
fn stored(filter: &Filter) -> MemoryStream {
    let mut stream = MemoryStream::default();
    codec::save(filter, &mut stream);
    stream
}

/// What a file or a payload ends with, for `bytes`.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    CRC64.checksum(bytes).to_le_bytes()
}

/// A file of Redis of that version with these sections, and a filter behind them.
fn file_with(magic: &[u8], sections: &[u8]) -> Vec<u8> {
    let (_, filter) = filters_of_all_kinds().swap_remove(0);
    let mut output = Output::new(Vec::new());
    output.put(magic);
    output.put(sections);
    output.put_filter(Some(b"seen"), &filter);
    output.put(&[255]);
    output.put_checksum();
    output.writer
}

/// The keys of a file, or the error that it ends with.
fn keys(file: &[u8]) -> Result<Vec<Vec<u8>>, RdbError> {
    filters(file, u64::MAX)
        .map(|entry| entry.map(|entry| entry.key))
        .collect()
}

/// Who reads a backup would miss filters, or get other filters, wherever another key comes before.
#[test]
fn filters_are_found_between_keys_of_every_type() {
    let items: Vec<_> = (0..200).map(|number| format!("item:{number}")).collect();
    for (name, file) in WITH_OTHER_TYPES {
        let mut found = BTreeSet::new();
        for entry in filters(file, u64::MAX) {
            let entry = entry.unwrap();
            let key = String::from_utf8(entry.key).unwrap();
            let filter = entry.filter.unwrap();
            assert!(
                items.iter().all(|item| filter.contains(item.as_str())),
                "{name}: {key}"
            );
            let expires =
                (entry.db, &*key) == (0, "filter:reserved") || (entry.db, &*key) == (7, "filter:grown");
            assert_eq!(entry.expires_at, expires.then_some(EXPIRY), "{name}: {key}");
            assert!(found.insert((entry.db, key)), "{name}");
        }
        // A RedisBloom takes the words for layouts for none.
        let kinds = ["classic", "fixed", "grown", "reserved", "valkey"];
        let dbs = if name.contains("cluster") {
            &[0][..]
        } else {
            &[0, 7]
        };
        let all = dbs
            .iter()
            .flat_map(|db| kinds.iter().map(|kind| (*db, format!("filter:{kind}"))));
        assert_eq!(found, all.collect(), "{name}");
    }
}

/// Filters of RedisBloom and valkey-bloom would come over with other bits, and so deny items.
#[test]
fn files_and_payloads_of_others_hold_the_filters_that_their_values_say() {
    for (name, file) in [
        fixture!("redisbloom/redisbloom-2.6.rdb"),
        fixture!("redisbloom/redisbloom-2.8.rdb"),
        fixture!("valkey-bloom/filters.rdb"),
    ] {
        let entries: Vec<_> = filters(file, u64::MAX).map(Result::unwrap).collect();
        assert!(entries.len() >= 9, "{name}");
        for entry in entries {
            let key = String::from_utf8(entry.key).unwrap();
            let (_, payload) = payloads().into_iter().find(|(name, _)| *name == key).unwrap();
            let of_payload = read_payload(&payload, u64::MAX).unwrap();
            assert_eq!(stored(&entry.filter.unwrap()), stored(&of_payload), "{key}");
        }
    }
}

/// A server would restore another filter than the one that was sent, or refuse it.
#[test]
fn what_is_written_is_what_others_write() {
    for (name, payload) in payloads() {
        let filter = read_payload(&payload, u64::MAX).unwrap();
        let written = payload_of(&filter);
        // Strings may be compressed there: it is the values that are the same.
        assert_eq!(values(&written), values(&payload), "{name}");
        let (before, crc) = written.split_at(written.len() - 8);
        assert_eq!(before[before.len() - 2..], 9_u16.to_le_bytes(), "{name}");
        assert_eq!(crc, checksum(before), "{name}");
    }
}

/// The type and the values in a payload.
fn values(payload: &[u8]) -> (u64, MemoryStream) {
    let mut input = Input::new(payload);
    assert_eq!(input.byte().unwrap(), MODULE);
    let id = input.length().unwrap();
    let mut values = MemoryStream::default();
    loop {
        match input.length().unwrap() {
            0 => break,
            2 => values.put_unsigned(input.length().unwrap()),
            4 => values.put_double(f64::from_le_bytes(input.bytes().unwrap())),
            5 => values.put_string(&input.key(u64::MAX).unwrap()),
            kind => panic!("a value of the kind {kind}"),
        }
    }
    (id, values)
}

/// A filter that was built where the data is would be another one in the server.
#[test]
fn filters_of_all_kinds_come_back_as_they_were() {
    let all = filters_of_all_kinds();
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (number, (name, filter)) in all.iter().enumerate() {
        let expiry = (number % 2 == 0).then_some(EXPIRY);
        writer
            .put(number as u64 / 2, name.as_bytes(), filter, expiry)
            .unwrap();
        let read = read_payload(&payload_of(filter), u64::MAX).unwrap();
        assert_eq!(stored(&read), stored(filter), "{name}");
    }
    let file = writer.finish().unwrap();
    let read: Vec<_> = filters(&file[..], u64::MAX).map(Result::unwrap).collect();
    assert_eq!(read.len(), all.len());
    for (number, (entry, (name, filter))) in read.into_iter().zip(&all).enumerate() {
        assert_eq!((entry.db, &entry.key[..]), (number as u64 / 2, name.as_bytes()));
        assert_eq!(entry.expires_at, (number % 2 == 0).then_some(EXPIRY));
        assert_eq!(stored(&entry.filter.unwrap()), stored(filter), "{name}");
    }
}

/// Encodings that no server of the recorded files writes, before or after them, would end the walk, or lead it astray.
#[test]
fn early_and_late_encodings_are_skipped() {
    let stream = |encoding: u8| {
        let has = |first: u8| usize::from(encoding >= first);
        let group = [
            &b"\x05group"[..],
            &[1; 2][..],
            &[9][..has(2)],
            &[1],
            &[0; 16],
            &[0; 8],
            &[3],
            &[1],
            b"\x03ann",
            &[0; 8],
            &[0; 8][..8 * has(3)],
            &[1],
            &[0; 16],
            &[1][..has(5)],
            &[0; 16][..16 * has(5)],
        ]
        .concat();
        [
            &[1][..],
            b"\x0216\x04list",
            &[1; 3],
            &[1; 5][..5 * has(2)],
            &[1],
            &group,
            &[10, 10, 1][3 - 3 * has(4)..],
            &b"\x08producer\x01\x02id\x01\x01"[..15 * has(4)],
            &[2, 2][..2 * has(4)],
        ]
        .concat()
    };
    let redis = b"REDIS0014";
    let with_type = |kind: u8, value: &[u8]| [&[kind][..], b"\x03key", value].concat();
    let valkey_type = with_type(22, b"\x01\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff");
    let files = [
        // Sorted sets with scores in text: infinite, none, and digits.
        (
            redis,
            with_type(3, b"\x04\x01a\xff\x01b\xfe\x01c\xfd\x01d\x033.5"),
        ),
        (redis, with_type(9, b"\x05\x01abc\xff")),
        (redis, with_type(14, b"\x02\x03one\xc3\x03\x08\x00a\xc0")),
        (redis, with_type(22, b"\x01\x00\x01f\x01v")),
        (redis, with_type(23, b"\x03map")),
        (redis, with_type(24, b"12345678\x02\x00\x01f\x01v\x05\x01g\x01w")),
        (redis, with_type(25, b"12345678\x03map")),
        (redis, with_type(15, &stream(1))),
        (redis, with_type(19, &stream(2))),
        (redis, with_type(21, &stream(3))),
        (redis, with_type(26, &stream(4))),
        (redis, with_type(27, &stream(5))),
        // What modules attach to a key: two, the second with a value of every kind.
        (
            redis,
            b"\xf3\x02abcd\x00efgh\x01\x07\x02\x81\0\0\0\0\0\0\0\x01\x03abcd\x0412345678\x05\x02hi\x00"
                .to_vec(),
        ),
        (redis, b"\xf4\x40\x80\x01\x00".to_vec()),
        (redis, b"\xfd\x00\x00\x00\x70".to_vec()),
        (redis, b"\xf8\x05\xf9\xff".to_vec()),
        (b"VALKEY080", b"\xf3\x03job\x02\x00\x01\x05\x06".to_vec()),
        (b"VALKEY080", valkey_type.clone()),
        (b"VALKEY081", valkey_type.clone()),
    ];
    for (magic, sections) in files {
        let file = file_with(magic, &sections);
        let found = keys(&file);
        assert_eq!(found.unwrap(), [b"seen"], "{}", sections.escape_ascii());
    }
    // Before version 5 no checksum follows.
    let mut file = file_with(b"REDIS0004", b"");
    file.truncate(file.len() - 8);
    assert_eq!(keys(&file).unwrap(), [b"seen"]);
    let expiring = file_with(redis, b"\xfd\x01\x00\x00\x00");
    assert_eq!(
        filters(&expiring[..], u64::MAX)
            .next()
            .unwrap()
            .unwrap()
            .expires_at,
        Some(1000)
    );
    // A time is that of the key that follows it, and of no other.
    let other = file_with(redis, b"\xfc\x01\0\0\0\0\0\0\0\x00\x03key\x05value");
    assert_eq!(
        filters(&other[..], u64::MAX).next().unwrap().unwrap().expires_at,
        None
    );
}

/// Who gave the wrong file would not learn what is wrong with it.
#[test]
fn what_is_no_file_of_a_server_is_refused_by_name() {
    let error = |file: &[u8]| keys(file).unwrap_err();
    assert!(matches!(error(b""), RdbError::Magic));
    assert!(matches!(error(b"REDIS"), RdbError::Magic));
    assert!(matches!(error(b"REDIS00x9"), RdbError::Magic));
    assert!(matches!(error(b"*2\r\n$6\r\nSELECT"), RdbError::Magic));
    assert!(matches!(error(b"REDIS0000"), RdbError::Version(0)));
    assert!(matches!(error(b"REDIS0015"), RdbError::Version(15)));
    assert!(matches!(error(b"VALKEY011"), RdbError::Version(11)));
    assert!(matches!(error(b"VALKEY082"), RdbError::Version(82)));
    assert!(matches!(
        error(&file_with(b"REDIS0014", b"\x1c\x03key")),
        RdbError::Type(28)
    ));
    assert!(matches!(
        error(&file_with(b"VALKEY080", b"\x18\x03key")),
        RdbError::Type(24)
    ));
    assert!(matches!(
        error(&file_with(b"REDIS0011", b"\xf6\x00")),
        RdbError::Type(246)
    ));
    assert!(matches!(
        error(&file_with(b"REDIS0011", b"\xf2")),
        RdbError::Type(242)
    ));
    // Redis Enterprise writes sections that are no keys, though their numbers are among those of keys.
    for after in [&b"\x7f\xff"[..], b"\xc0", b"\xc4", b""] {
        let error = error(&file_with(b"REDIS0011", &[b"\x6b", after].concat()));
        assert!(matches!(error, RdbError::Type(107)), "{error}");
        assert_eq!(
            error.to_string(),
            "the type or section 107 is not known: a later server wrote it, or another one, such as Redis Enterprise"
        );
    }
    for (sections, what) in [
        (&b"\xfe\xc0"[..], "a length"),
        (b"\xfa\xc4", "a string"),
        (b"\xf7\x01\x06", "a module's value"),
        (b"\x07\x81\0\0\0\x01\0\0\0\0", "the name of a key"),
    ] {
        let error = error(&file_with(b"REDIS0011", sections));
        let RdbError::Encoding(named) = error else {
            panic!("{sections:?}: {error:?}");
        };
        assert_eq!(named, what);
    }
    let file = file_with(b"REDIS0011", b"");
    let mut unchecked = file.clone();
    unchecked[file.len() - 8..].fill(0);
    assert_eq!(keys(&unchecked).unwrap(), [b"seen"]);
    assert!(matches!(error(&file[..file.len() - 1]), RdbError::Truncated));

    /// A disk that gives nothing.
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(Error::from(ErrorKind::PermissionDenied))
        }
    }
    let mut broken = filters(Broken, u64::MAX);
    assert!(matches!(broken.next(), Some(Err(RdbError::Io(_)))));
    assert!(broken.next().is_none());
}

/// A file that was damaged on a disk or on its way would give filters that deny items.
#[test]
fn a_damaged_file_is_never_taken_for_a_whole_one() {
    let file = file_with(b"REDIS0011", b"\xfa\x01a\x01b\xfe\x02\x00\x03key\x05value");
    let payload = payload_of(&filters_of_all_kinds()[0].1);
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 1 << (at % 8);
        let result: Result<Vec<_>, _> = filters(&flipped[..], 1 << 24)
            .map(|entry| entry.and_then(|entry| entry.filter.map_err(RdbError::Filter)))
            .collect();
        assert!(result.is_err(), "flipped at {at}");
        assert!(keys(&file[..at]).is_err(), "cut at {at}");
    }
    for at in 0..payload.len() {
        let mut flipped = payload.clone();
        flipped[at] ^= 1 << (at % 8);
        let error = read_payload(&flipped, u64::MAX).unwrap_err();
        // Whatever else it does, a flipped bit of the version may make it an unknown one.
        let is_told = matches!(error, RdbError::Checksum | RdbError::Version(_));
        assert!(is_told, "flipped at {at}: {error:?}");
        assert!(read_payload(&payload[..at], u64::MAX).is_err(), "cut at {at}");
    }
}

/// A file from somewhere else would take all of a program's memory with a length that it only claims.
#[test]
fn a_claimed_length_takes_no_memory_and_no_time() {
    const HUGE: &[u8] = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xf8";
    // Within a value of a filter: where its bit array is, as it is, or compressed.
    let value = |string: &[u8]| {
        let (_, filter) = filters_of_all_kinds().swap_remove(3);
        let id = type_of(&filter);
        let mut output = Output::new(Vec::new());
        output.put(b"REDIS0011\x07\x03key");
        output.put_length(id);
        let mut stream = MemoryStream::default();
        codec::save(&filter, &mut stream);
        for value in stream.values {
            match value {
                Value::Unsigned(value) => output.put_unsigned(value),
                Value::Double(value) => output.put_double(value),
                Value::String(_) => {
                    output.put_length(5);
                    output.put(string);
                    return output.writer;
                }
            }
        }
        panic!("no string");
    };
    let lzf = |compressed: &[u8], length: &[u8]| [b"\xc3", compressed, length, b"abc"].concat();
    let crafted = [
        [&b"REDIS0011\xfa"[..], HUGE].concat(),
        [&b"REDIS0011\x00"[..], HUGE].concat(),
        [&b"REDIS0011\x01\x03key"[..], HUGE].concat(),
        [&b"REDIS0011\x0f\x03key"[..], HUGE].concat(),
        [&b"REDIS0011\x07"[..], HUGE].concat(),
        [&b"REDIS0011\x07\xc3"[..], HUGE, HUGE].concat(),
        [&b"REDIS0011\x07\xc3\x03"[..], HUGE, b"abc"].concat(),
        [&b"REDIS0011\x07\x03key\x01\x05"[..], HUGE].concat(),
        [&b"REDIS0011\xf3"[..], HUGE].concat(),
        value(HUGE),
        value(&lzf(HUGE, HUGE)),
        value(&lzf(b"\x03", HUGE)),
        value(&lzf(HUGE, b"\x03")),
        value(&lzf(b"\x03", b"\x80\x00\x00\x01\x09")),
    ];
    for file in crafted {
        // Nothing larger than the buffer of a file is to be had, so a claim that was believed would be told.
        let result = failing::above(1 << 20, || keys(&file));
        let error = result.unwrap_err();
        assert!(
            matches!(error, RdbError::Truncated | RdbError::Encoding(_)),
            "{}: {error:?}",
            file.escape_ascii()
        );
    }
}

/// A program that allows a gigabyte would take more, or lose the filters behind one that is too large.
#[test]
fn a_filter_above_the_limit_is_told_and_the_next_is_read() {
    let small = Filter::builder(100, 0.01).build().unwrap();
    for &layout in Layout::ALL {
        let large = Filter::builder(100_000, 0.01).layout(layout).build().unwrap();
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.put(0, b"large", &large, None).unwrap();
        writer.put(0, b"small", &small, None).unwrap();
        let file = writer.finish().unwrap();
        let entries: Vec<_> = filters(&file[..], 10_000).map(Result::unwrap).collect();
        let [large, small] = &entries[..] else {
            panic!("{entries:?}");
        };
        assert!(
            matches!(large.filter, Err(DecodeError::OutOfMemory { bytes: 100_000.. })),
            "{large:?}"
        );
        assert_eq!((&large.key[..], &small.key[..]), (&b"large"[..], &b"small"[..]));
        assert!(small.filter.is_ok());
    }
    let payload = payload_of(&Filter::builder(100_000, 0.01).build().unwrap());
    let error = read_payload(&payload, 10_000).unwrap_err();
    assert!(matches!(error, RdbError::Filter(DecodeError::OutOfMemory { .. })));
}

/// A program that may use a megabyte would take five hundred for the name of a key, which six compressed ones stand for.
#[test]
fn a_key_above_the_limit_takes_no_memory() {
    let name = vec![b'k'; 2 << 20];
    let mut output = Output::new(Vec::new());
    output.put(&[MODULE]);
    output.put_bytes(&name);
    let file = file_with(b"REDIS0011", &output.writer);
    let read = || filters(&file[..], 1 << 20).next().unwrap().map(drop);
    let refused = failing::above(1 << 20, read);
    assert!(
        matches!(refused, Err(RdbError::Filter(DecodeError::OutOfMemory { bytes })) if bytes == 2 << 20),
        "{refused:?}"
    );
}

/// A filter of which the server had not all chunks would deny items.
#[test]
fn a_filter_without_the_bits_of_its_items_is_refused() {
    for (name, filter) in filters_of_all_kinds() {
        let header = chunks::header(&filter);
        let half = chunks::load_header(&header, UNLIMITED).unwrap();
        let read = read_payload(&payload_of(&half), u64::MAX);
        if filter.layer_stats().all(|layer| layer.items == 0) {
            assert!(read.is_ok(), "{name}: {read:?}");
        } else {
            let wrong = "set bits: fewer than items";
            assert!(
                matches!(read, Err(RdbError::Filter(DecodeError::Field(field))) if field == wrong),
                "{name}: {read:?}"
            );
        }
    }
}

/// Who takes one filter out of a large file would need the memory of all of them.
#[test]
fn filters_that_nobody_wants_take_no_memory() {
    let [small, large] = [100, 1_000_000].map(|capacity| {
        let builder = Filter::builder(capacity, 0.01).layout(Layout::Classic);
        builder.build().unwrap()
    });
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.put(0, b"large", &large, None).unwrap();
    writer.put(0, b"small", &large, None).unwrap();
    writer.put(3, b"small", &small, Some(EXPIRY)).unwrap();
    writer.put(4, b"large", &large, None).unwrap();
    let file = writer.finish().unwrap();
    let mut asked = Vec::new();
    let wanted = |db, key: &[u8]| {
        asked.push((db, key.to_vec()));
        (db, key) == (3, b"small")
    };
    let entries = failing::above(1 << 18, || {
        let entries = filters(&file[..], u64::MAX).only(wanted);
        entries.collect::<Result<Vec<_>, _>>().unwrap()
    });
    let [entry] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!((entry.db, entry.expires_at), (3, Some(EXPIRY)));
    assert_eq!(stored(entry.filter.as_ref().unwrap()), stored(&small));
    let names = [(0, "large"), (0, "small"), (3, "small"), (4, "large")];
    assert_eq!(asked, names.map(|(db, key)| (db, key.as_bytes().to_vec())));
    // A file that was damaged behind the filter is told, too.
    let mut damaged = file.clone();
    damaged[file.len() - 1000] ^= 1;
    let last = filters(&damaged[..], u64::MAX).only(|db, _| db == 3).last();
    assert!(matches!(last, Some(Err(RdbError::Checksum))), "{last:?}");
}

/// A filter that a module of another version wrote, or a bad one, would hide the filters behind it.
#[test]
fn a_value_that_is_no_filter_is_told_and_the_next_is_read() {
    let id = |version: u64| [&[0x81][..], &(CLASSIC_TYPE | version).to_be_bytes()].concat();
    for (value, error) in [
        // A version to come; values that end early; one of another kind; none.
        (
            [&id(5)[..], &[2, 1, 5, 3, 0xff, 0xff, 0xff, 0]].concat(),
            DecodeError::Version(5),
        ),
        ([&id(4)[..], &[2, 1, 0]].concat(), DecodeError::Truncated),
        ([&id(4)[..], &[0]].concat(), DecodeError::Truncated),
        (
            [&id(4)[..], &[5, 3, 0, 0, 0, 1, 1, 0]].concat(),
            DecodeError::Field("the kind of a value"),
        ),
    ] {
        let sections = [b"\x07\x03bad", &value[..]].concat();
        let entries: Vec<_> = filters(&file_with(b"REDIS0011", &sections)[..], u64::MAX)
            .map(Result::unwrap)
            .collect();
        assert_eq!(entries.len(), 2, "{}", value.escape_ascii());
        assert_eq!(entries[0].filter.as_ref().map(drop), Err(&error));
        assert!(entries[1].filter.is_ok());
    }
    // A whole filter, and one value more.
    let payload = payload_of(&filters_of_all_kinds()[3].1);
    let mut longer = payload[..payload.len() - 11].to_vec();
    longer.extend([2, 7, 5, 2, b'a', b'b', 0]);
    let sections = [b"\x07\x03bad", &longer[1..]].concat();
    let found: Vec<_> = filters(&file_with(b"REDIS0011", &sections)[..], u64::MAX)
        .map(|entry| entry.unwrap().filter.map(drop))
        .collect();
    assert_eq!(found, [Err(DecodeError::Field("values after the last")), Ok(())]);
}

/// Whoever reads an append-only file would get the filters of its last rewrite, and deny everything since.
#[test]
fn what_follows_the_end_of_a_file_is_told() {
    for magic in [&b"REDIS0011"[..], b"REDIS0004"] {
        let mut file = file_with(magic, b"");
        if magic == b"REDIS0004" {
            file.truncate(file.len() - 8);
        }
        assert_eq!(keys(&file).unwrap(), [b"seen"]);
        for (rest, named) in [
            (&b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"[..], "append-only file"),
            (b"#TS:1700000000\r\n", "append-only file"),
            (b"\0", "more bytes"),
            (b"REDIS0011", "more bytes"),
        ] {
            let longer = [&file[..], rest].concat();
            let entries: Vec<_> = filters(&longer[..], u64::MAX).collect();
            assert!(matches!(&entries[..], [Ok(_), Err(RdbError::Behind(first))] if *first == rest[0]));
            assert!(keys(&longer).unwrap_err().to_string().contains(named));
        }
    }
}

/// A payload that was damaged on its way, and whose checksum was lost with it, would be taken for whole: only in files a
/// checksum of 0 says that there is none.
#[test]
fn a_payload_has_a_checksum() {
    let mut payload = payload_of(&filters_of_all_kinds()[0].1);
    assert!(read_payload(&payload, u64::MAX).is_ok());
    let end = payload.len();
    payload[end - 8..].fill(0);
    assert!(matches!(
        read_payload(&payload, u64::MAX),
        Err(RdbError::Checksum)
    ));
    let mut file = file_with(b"REDIS0011", b"");
    let end = file.len();
    file[end - 8..].fill(0);
    assert_eq!(keys(&file).unwrap(), [b"seen"]);
}

/// One line of a program's log would tell the seed, or be as long as a filter.
#[test]
fn what_is_shown_of_files_is_short() {
    let filter = Filter::builder(100_000, 0.01)
        .seed(0x1234_5678_9abc)
        .build()
        .unwrap();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.put(0, b"seen", &filter, None).unwrap();
    let shown = format!("{writer:?}");
    let file = writer.finish().unwrap();
    let mut read = filters(&file[..], u64::MAX);
    let entry = read.next().unwrap().unwrap();
    for shown in [shown, format!("{read:?}"), format!("{entry:?}")] {
        assert!(shown.len() < 200 && !shown.contains("20015998343868"), "{shown}");
    }
}

/// A value of another type would be taken for a filter, or bytes behind one for nothing.
#[test]
fn payloads_that_hold_no_filter_are_refused_by_name() {
    let payload = |value: &[u8]| {
        let mut payload = [value, &[11, 0]].concat();
        payload.extend(checksum(&payload));
        read_payload(&payload, u64::MAX).unwrap_err()
    };
    let whole = payload_of(&filters_of_all_kinds()[0].1);
    let value = &whole[..whole.len() - 10];
    assert!(matches!(payload(b""), RdbError::Magic));
    assert!(matches!(payload(b"\x00\x03bar"), RdbError::Magic));
    assert!(matches!(payload(b"\x07\x01\x00"), RdbError::Magic));
    assert!(matches!(payload(&[value, &[0]].concat()), RdbError::Encoding(_)));
    assert!(matches!(payload(&value[..value.len() - 1]), RdbError::Truncated));
    // What modules attach to a key comes before it.
    let mut with_metadata = [b"\xf3\x01abcd\x02\x05\x00", value, &[13, 0]].concat();
    with_metadata.extend(checksum(&with_metadata));
    assert!(read_payload(&with_metadata, u64::MAX).is_ok());
    let mut of_later = [value, &[15, 0]].concat();
    of_later.extend(checksum(&of_later));
    assert!(matches!(
        read_payload(&of_later, u64::MAX),
        Err(RdbError::Version(15))
    ));
}

/// A program that runs out of memory while it reads a file would end.
#[test]
fn a_lack_of_memory_is_told() {
    let no_memory = |error: &RdbError| matches!(error, RdbError::Filter(DecodeError::OutOfMemory { .. }));
    for &layout in Layout::ALL {
        let payload = payload_of(&Filter::builder(100_000, 0.01).layout(layout).build().unwrap());
        let read = |largest| failing::above(largest, || read_payload(&payload, u64::MAX));
        for largest in [1000, 10_000, 100_000] {
            let error = read(largest).unwrap_err();
            assert!(no_memory(&error), "{layout:?}, {largest}: {error:?}");
        }
        assert!(read(1 << 20).is_ok(), "{layout:?}");
    }
    // The name of a key, as it is and compressed: more than the buffer of a file.
    let mut key = Output::new(Vec::new());
    key.put_bytes(&[b'k'; 100_000]);
    let lzf = compressed(&[0; 10_000]);
    let mut zeros = Output::new(Vec::new());
    zeros.put(&[0xc3]);
    zeros.put_length(lzf.len() as u64);
    zeros.put_length(10_000);
    zeros.put(&lzf);
    for (stored, largest) in [(key.writer, 90_000), (zeros.writer, 5000)] {
        let error = failing::above(largest, || string_of(&stored)).unwrap_err();
        assert!(no_memory(&error), "{largest}: {error:?}");
        assert!(string_of(&stored).is_ok());
    }
}

/// A full disk would leave a file that looks whole.
#[test]
fn an_error_of_the_writer_is_told() {
    /// A disk with so much room.
    struct Disk(usize);
    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(Error::from(ErrorKind::StorageFull))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (_, filter) = filters_of_all_kinds().swap_remove(0);
    let whole = payload_of(&filter).len();
    for room in 0..whole {
        let error = write_payload(&filter, Disk(room)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    write_payload(&filter, Disk(whole)).unwrap();
    let mut writer = Writer::new(Disk(100)).unwrap();
    assert!(writer.put(0, b"key", &filter, None).is_err());
    assert!(Writer::new(Disk(8)).is_err());
    assert!(Writer::new(Disk(9)).unwrap().finish().is_err());
}

/// LZF by another way: only literals, and copies of what was written.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let copy = (1..=at.min(8192))
            .map(|distance| {
                let same = (at..bytes.len().min(at + 264)).take_while(|&i| bytes[i] == bytes[i - distance]);
                (same.count(), distance - 1)
            })
            .max()
            .filter(|(length, _)| *length > 2);
        if let Some((length, distance)) = copy {
            let (high, low) = ((distance >> 8) as u8, distance as u8);
            match length - 2 {
                short @ 1..7 => compressed.extend([(short as u8) << 5 | high, low]),
                long => compressed.extend([7 << 5 | high, (long - 7) as u8, low]),
            }
            at += length;
        } else {
            compressed.extend([0, bytes[at]]);
            at += 1;
        }
    }
    compressed
}

fn string_of(stored: &[u8]) -> Result<Vec<u8>, RdbError> {
    let mut input = Input::new(stored);
    let key = input.key(u64::MAX)?;
    assert_eq!(input.next_byte().unwrap(), None);
    Ok(key)
}

proptest! {
    /// Sparse filters, whose arrays servers compress, would lose bits.
    #[test]
    fn strings_are_read_as_they_were(
        bytes in prop::collection::vec(prop_oneof![4 => Just(0_u8), 1 => any::<u8>()], 0..400),
    ) {
        let mut output = Output::new(Vec::new());
        output.put_bytes(&bytes);
        prop_assert_eq!(string_of(&output.writer).unwrap(), &bytes[..]);
        let lzf = compressed(&bytes);
        let mut output = Output::new(Vec::new());
        output.put(&[0xc3]);
        output.put_length(lzf.len() as u64);
        output.put_length(bytes.len() as u64);
        output.put(&lzf);
        prop_assert_eq!(string_of(&output.writer).unwrap(), &bytes[..]);
    }

    /// A program that reads a file of unknown origin would end.
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>, at in any::<prop::sample::Index>(), file in 0..4_usize) {
        let limit = 1 << 22;
        let _ = read_payload(&bytes, limit);
        let mut crafted = [&bytes[..], &[11, 0]].concat();
        crafted.extend(checksum(&crafted));
        let _ = read_payload(&crafted, limit);
        let _ = filters(&[b"REDIS0011", &bytes[..]].concat()[..], limit).count();
        // The beginning of a real file, and other bytes.
        let (_, file) = WITH_OTHER_TYPES[file];
        let begin = &file[..at.index(file.len())];
        let _ = filters(&[begin, &bytes[..]].concat()[..], limit).count();
    }

    /// Numbers, which a server stores as numbers where a string is one, would be other names.
    #[test]
    fn numbers_are_read_in_digits(number: i32) {
        let four = [&[0xc2][..], &number.to_le_bytes()].concat();
        prop_assert_eq!(string_of(&four).unwrap(), number.to_string().into_bytes());
        let two = [&[0xc1][..], &(number as i16).to_le_bytes()].concat();
        prop_assert_eq!(string_of(&two).unwrap(), (number as i16).to_string().into_bytes());
        let one = [&[0xc0][..], &(number as i8).to_le_bytes()].concat();
        prop_assert_eq!(string_of(&one).unwrap(), (number as i8).to_string().into_bytes());
    }

    /// Lengths of a byte, of two, of five and of nine would end strings elsewhere.
    #[test]
    fn lengths_are_read_as_they_were_written(length in prop_oneof![0..70_u64, 16_300..16_500_u64, any::<u32>().prop_map(u64::from), any::<u64>()]) {
        let mut output = Output::new(Vec::new());
        output.put_length(length);
        prop_assert_eq!(Input::new(&output.writer[..]).length().unwrap(), length);
    }
}
