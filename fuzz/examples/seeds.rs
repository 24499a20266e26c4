//! Makes the seeds in `fuzz/corpus` from the stored filters in `tests/fixtures`: `cargo run -p bloom-fuzz --example seeds`.

use std::error::Error;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bloom_fuzz::{check, commands, stream};
use libbloom::checks::{MemoryStream, Value};
use libbloom::codec::stream::Sink as _;
use libbloom::codec::{self, ENCODING_VERSION, chunks, valkey};
use libbloom::params::{Layout, SipSeed, Tightening};
use libbloom::spec::{Spec, ValkeySpec};
use libbloom::{Filter, UNLIMITED};

/// Larger filters teach a fuzzer nothing, and slow it down.
const LARGEST: usize = 2600;

/// The first byte of a payload in the target `rdb`.
const PAYLOAD: u8 = 4;

const COMMANDS: [(u8, &str); 30] = [
    (0, "key 0.01 100"),
    (0, "key 0.5 1000 EXPANSION 2 SEED 18446744073709551615"),
    (0, "key 1e-9 1 NONSCALING LAYOUT CLASSIC"),
    (0, "key 0.01 1099511627776 GROWING LAYOUT BLOCKED"),
    (1, "key ITEMS 1 2"),
    (
        1,
        "key CAPACITY 1000 ERROR 0.01 EXPANSION 2 NOCREATE ITEMS items 0",
    ),
    (1, "key LAYOUT CLASSIC NONSCALING ITEMS 1"),
    (2, "FULL SIZE 9223372036854775807 -9223372036854775808 -1 0"),
    (3, "max-filter-bytes 1gb error_rate 0.5 LAYOUT CLASSIC SEED 0"),
    (3, "EXPANSION 32768 bf-initial-size 100"),
    (4, "key LINES COUNT 1"),
    (4, "key WIDTH 2 CAPACITY 1000 ERROR 0.01 LAYOUT CLASSIC 1000"),
    (4, "key PREFIXED GROWING SEED 0 "),
    (0, "key 0.01 100 NX EX 1000 LAYOUT CLASSIC"),
    (1, "key PX 1000 ITEMS 1"),
    (4, "key EXAT 9223372036854775807 PXAT 1 LINES 1"),
    (0, "key 0.01 100 WINDOW 1000 SLICES 2 REFRESH"),
    (0, "key 0.01 100 WINDOW 1 EX 100 SEED 1"),
    (1, "key WINDOW 100 AT 1000 ITEMS 1 2"),
    (4, "key NOCREATE AT 1099511627776 LINES 1"),
    (5, "key 2 1 0 ERROR 0.01 OVERRIDE"),
    (5, "key 1 items"),
    (0, "key 0.5 100 LAYOUT VALKEY SEED 1 NONSCALING"),
    (
        0,
        "key 1e-300 1 TIGHTENING 0.5 EXPANSION 32768 VALIDATESCALETO 1000 EX 1000",
    ),
    (
        1,
        "key CAPACITY +5 ERROR 0.01 TIGHTENING 0.5 EXPANSION 4294967295",
    ),
    (1, "key LAYOUT VALKEY PXAT 1 ITEMS 1"),
    (2, "ERROR TIGHTENING MAXSCALEDCAPACITY"),
    (4, "key TIGHTENING 0.01 LAYOUT VALKEY LINES 1"),
    (1, "key SPEC1:g:1e-2:100:2:7:0 1"),
    (4, "key SPEC1:w:1e-2:100:2:7:0:60:8:1:1800000000000 LINES 1"),
];

/// Of the operations: shape, expansion, capacity, rate and seed of the filter, then the steps.
const OPERATIONS: [(&str, &[u8]); 7] = [
    (
        "valkey",
        &[
            14, 1, 0, 10, 13, 7, 128, 1, 0, 0, 60, 4, 7, 1, 2, 0, 5, 2, 3, 20, 1, 20, 2, 1, b'z', 4, 3, 0, 0,
            90,
        ],
    ),
    (
        "window",
        &[
            33, 1, 0, 10, 13, 7, 1, 0, 0, 60, 9, 1, 0, 50, 90, 5, 9, 7, 3, 1, 0, 1, b'a', 9, 6, 3, 0, 0, 99,
            4,
        ],
    ),
    (
        "grown",
        &[
            2, 1, 0, 10, 13, 7, 1, 0, 0, 60, 4, 3, 0, 0, 90, 5, 7, 3, 1, 2, b'a', b'b', 4, 6, 8, 1, b'c', 4,
        ],
    ),
    ("fixed", &[0, 0, 0, 50, 20, 1, 1, 0, 0, 30, 0, 3, 1, 2, 3, 4, 5]),
    (
        "classic",
        &[
            6, 1, 0, 10, 13, 1, 0, 0, 60, 4, 7, 1, 2, 0, 5, 2, 3, 20, 1, 20, 2, 1, b'z', 4, 3, 0, 0, 90,
        ],
    ),
    (
        "packed",
        &[
            2, 1, 0, 10, 13, 7, 10, 2, 8, 0, b'a', b'b', b'c', b'd', b'a', b'b', b'e', b'f', 10, 40, 5, 0,
            b'x', b'\n', b'\n', b'y', b'\n', 10, 41, 10, 0, 1, 0, 0, 0, b'z', 1, 0, 0, 0, b'q', 4,
        ],
    ),
    (
        "reserved",
        &[
            1, 3, 0, 200, 40, 9, 1, 5, 0, 255, 1, 0, 0, 255, 5, 6, 7, 0, 0, 99, 99, 4,
        ],
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixtures = root.join("../tests/fixtures");
    let mut filters = native(&fixtures.join("native"))?;
    filters.extend(redisbloom(&fixtures.join("redisbloom/redisbloom-2.8.json"))?);
    filters.retain(|(_, filter)| check::saved(filter).values.iter().map(size).sum::<usize>() < LARGEST);

    let seeds = Seeds(root.join("corpus"));
    for (name, filter) in &filters {
        let saved = check::saved(filter);
        let blocked = filter.layout() != Layout::Classic;
        let count = if blocked { stream::COUNT } else { 0 };
        seeds.write(
            "stream",
            name,
            &stream::encode(ENCODING_VERSION as u8 | count, &saved),
        )?;
        seeds.write("chunks", name, &in_chunks(filter))?;
        if blocked {
            // The first layer is said to have one line in each partition.
            let Some(Value::String(header)) = saved.values.get(2) else {
                return Err("a header".into());
            };
            let lines = (stream::layers_in(header) + 32) / 4;
            let forced = [
                &stream::encode(ENCODING_VERSION as u8 | count, &saved)[..],
                &[6, lines as u8, 0, 1],
            ]
            .concat();
            seeds.write("stream", &format!("{name}-forced"), &forced)?;
        } else {
            for version in 0..4 {
                let earlier = earlier(&saved, version);
                seeds.write(
                    "stream",
                    &format!("{name}-{version}"),
                    &stream::encode(version, &earlier),
                )?;
            }
        }
    }
    // A chain of two layers, of a filter that grows and of one that rounds its bits to powers of two.
    seeds.write(
        "stream",
        "layers",
        &[
            4, 1, 0, 1, 2, 1, 5, 1, 2, 5, 50, 0, 60, 255, 3, 5, 100, 0, 68, 9, 1,
        ],
    )?;
    seeds.write(
        "stream",
        "powers",
        &[
            3, 1, 0, 1, 2, 1, 4, 1, 2, 5, 50, 0, 60, 255, 3, 5, 100, 0, 68, 9, 1,
        ],
    )?;
    for (name, values) in [
        ("valkey", &[0x41, 7, 10, 3, 200, 50, 128][..]),
        ("valkey-fixed", &[0x41, 7, 200, 0, 100, 20, 9]),
        (
            "valkey-forced",
            &[
                0x41, 7, 10, 2, 99, 50, 128, 8, 5, 9, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
            ],
        ),
    ] {
        seeds.write("stream", name, values)?;
    }
    let tightening = Tightening::DEFAULT;
    let spec =
        ValkeySpec::new(0.05, 10, 2, tightening, SipSeed::FIXED).map_err(|error| format!("{error:?}"))?;
    let mut filter = Filter::new(Spec::Valkey(spec), UNLIMITED).map_err(|error| format!("{error:?}"))?;
    for item in 0..50_u8 {
        filter
            .add(&[item], 0, UNLIMITED)
            .map_err(|error| format!("{error:?}"))?;
    }
    seeds.write("chunks", "valkey", &in_chunks(&filter))?;
    if let Some(chain) = filter.as_valkey() {
        let bytes = valkey::encode(chain).map_err(|error| format!("{error:?}"))?;
        seeds.write("stream", "valkey-load", &[&[stream::LOAD], &bytes[..]].concat())?;
    }
    // A payload is a file's value with a type of its own in front.
    for (name, filter) in &filters {
        let mut payload = Vec::new();
        libbloom_rdb::write_payload(filter, &mut payload)?;
        let value = &payload[..payload.len() - 10];
        seeds.write("rdb", &format!("payload-{name}"), &[&[PAYLOAD], value].concat())?;
    }
    for (number, name) in [(0, "redis-6.2"), (0, "redis-7.4"), (2, "valkey-9.1")] {
        let file = fs::read(fixtures.join(format!("rdb/{name}.rdb")))?;
        seeds.write("rdb", name, &[&[number], &file[9..]].concat())?;
    }
    let mut writer = libbloom_rdb::Writer::new(Vec::new())?;
    for (number, (name, filter)) in filters.iter().take(3).enumerate() {
        writer.put(number as u64, name.as_bytes(), filter, Some(1 << 40))?;
    }
    seeds.write("rdb", "written", &[&[1], &writer.finish()?[9..]].concat())?;
    for (number, (kind, line)) in COMMANDS.iter().enumerate() {
        seeds.write(
            "commands",
            &number.to_string(),
            &[&[*kind, 0], &commands::encode(line)[..]].concat(),
        )?;
    }
    OPERATIONS
        .iter()
        .try_for_each(|(name, bytes)| seeds.write("operations", name, bytes))
}

/// Where the seeds of each target are.
struct Seeds(std::path::PathBuf);

impl Seeds {
    fn write(&self, target: &str, name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
        let directory = self.0.join(target);
        fs::create_dir_all(&directory)?;
        Ok(fs::write(directory.join(name), bytes)?)
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(bytes) => bytes.len(),
        _ => 8,
    }
}

/// The stored streams of blocked filters: of each value a letter, then 8 bytes, which are the number or the
/// string's length.
fn native(directory: &Path) -> Result<Vec<(String, Filter)>, Box<dyn Error>> {
    let mut filters = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let file = fs::read(&path)?;
        let (mut rest, mut stream) = (&file[..], MemoryStream::default());
        while let Some((letter, after)) = rest.split_first() {
            let (number, after) = after.split_first_chunk().ok_or("a number")?;
            let number = u64::from_le_bytes(*number);
            rest = after;
            match letter {
                b'u' => stream.put_unsigned(number),
                b'd' => stream.put_double(f64::from_bits(number)),
                _ => {
                    let (text, after) = rest.split_at_checked(number as usize).ok_or("a string")?;
                    stream.put_string(text);
                    rest = after;
                }
            }
        }
        let name = path.file_stem().ok_or("a name")?.to_string_lossy().into_owned();
        let filter = codec::load(&mut stream, ENCODING_VERSION, UNLIMITED);
        filters.push((name, filter.map_err(|error| error.to_string())?));
    }
    Ok(filters)
}

/// The filters that RedisBloom dumped in chunks.
fn redisbloom(file: &Path) -> Result<Vec<(String, Filter)>, Box<dyn Error>> {
    let json: serde_json::Value = serde_json::from_slice(&fs::read(file)?)?;
    let mut filters = Vec::new();
    for (name, filter) in json["filters"].as_object().ok_or("filters")? {
        let dumped = filter["scandump_base64"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let mut loaded = None;
        for chunk in dumped {
            let bytes = BASE64_STANDARD.decode(chunk[1].as_str().ok_or("a chunk")?)?;
            match &mut loaded {
                None => {
                    loaded = Some(chunks::load_header(&bytes, UNLIMITED).map_err(|error| error.to_string())?)
                }
                Some(filter) => {
                    let iterator = chunk[0].as_i64().ok_or("an iterator")?;
                    chunks::load_chunk(filter, iterator, &bytes).map_err(|error| format!("{error:?}"))?;
                }
            }
        }
        filters.extend(loaded.map(|filter| (name.replace(':', "-"), filter)));
    }
    Ok(filters)
}

/// A classic stream of the newest encoding version as an earlier one has it.
fn earlier(saved: &MemoryStream, version: u8) -> MemoryStream {
    let head = if version >= 3 {
        4
    } else if version == 2 {
        3
    } else {
        2
    };
    let layers: Vec<_> = saved.values.iter().skip(4).cloned().collect();
    let layers = layers.chunks(8).flat_map(|layer| {
        // In version 0 there are neither bits nor n2.
        layer
            .iter()
            .enumerate()
            .filter(|(field, _)| version > 0 || ![4, 5].contains(field))
            .map(|(_, value)| value)
    });
    MemoryStream {
        values: saved.values.iter().take(head).chain(layers).cloned().collect(),
    }
}

/// Header, then every chunk by its iterator, and an item.
fn in_chunks(filter: &Filter) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks::chunks(filter) {
        if chunk.iterator != chunks::HEADER {
            bytes.push(0);
            bytes.extend(chunk.iterator.to_le_bytes());
        }
        bytes.extend((chunk.bytes.len() as u16).to_le_bytes());
        bytes.extend(chunk.bytes.iter());
    }
    bytes.extend([2, 4]);
    bytes.extend(b"item");
    bytes
}
