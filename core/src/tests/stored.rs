//! Filters that RedisBloom saved, with its figures for them, and a naive model of its bits.

use std::collections::HashSet;
use std::io::Read as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use crate::checks::{MemoryStream, Value};
use crate::layouts::classic::Options;

/// A data type: its name and the encoding version.
pub type Type = (&'static str, u64);

/// RedisBloom's data type.
const TYPE: Type = ("MBbloom--", 4);

/// A filter as RedisBloom 2.8 saved and described it.
pub struct Stored {
    /// The key of the filter.
    pub name: String,
    /// Error rate, capacity, expansion (none: it does not grow).
    pub reserve: (f64, u64, Option<u32>),
    /// The items that were added, in order.
    pub items: Vec<Vec<u8>>,
    /// BF.INFO without its expansion: capacity, size, layers, items.
    pub info: [u64; 4],
    /// BF.DEBUG, line by line.
    pub debug: Vec<String>,
    /// Numbers of the probes that are present, though none was added.
    pub false_positives: Vec<usize>,
    /// The filter's values in an RDB stream, of encoding version 4.
    pub stream: MemoryStream,
    /// The filter's dump: iterators and chunks, the header first. Empty if it was not recorded.
    pub chunks: Vec<(i64, Vec<u8>)>,
}

impl Stored {
    /// The probes for false positives.
    pub fn probes() -> Vec<Vec<u8>> {
        numbered("probe:", 20_000)
    }
}

/// All stored filters.
pub fn filters() -> Vec<Stored> {
    let json = include_str!("../../../tests/fixtures/redisbloom/redisbloom-2.8.json");
    let json: Json = serde_json::from_str(json).unwrap();
    let filters = json["filters"].as_object().unwrap();
    assert_eq!(filters.len(), 9);
    filters.iter().map(|(name, json)| stored(name, json)).collect()
}

fn stored(name: &str, json: &Json) -> Stored {
    let bytes = |json: &Json| BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap();
    let array = |json: &Json| json.as_array().cloned().unwrap_or_default();
    let number = |json: &Json| json.as_u64().unwrap();
    let reserve = array(&json["reserve"]);
    let reserve: Vec<_> = reserve.iter().map(|word| word.as_str().unwrap()).collect();
    let reserve = match reserve[..] {
        [] => (0.01, 100, Some(2)),
        [rate, capacity] => (rate.parse().unwrap(), capacity.parse().unwrap(), Some(2)),
        [rate, capacity, "NONSCALING"] => (rate.parse().unwrap(), capacity.parse().unwrap(), None),
        [rate, capacity, "EXPANSION", expansion] => (
            rate.parse().unwrap(),
            capacity.parse().unwrap(),
            Some(expansion.parse().unwrap()),
        ),
        ref other => panic!("{other:?}"),
    };
    let info = array(&json["info"]);
    Stored {
        name: name.to_owned(),
        reserve,
        items: items(name),
        info: [1, 3, 5, 7].map(|at| number(&info[at])),
        debug: array(&json["debug"])
            .iter()
            .map(|line| line.as_str().unwrap().to_owned())
            .collect(),
        false_positives: array(&json["false_positives"])
            .iter()
            .map(|probe| number(probe) as usize)
            .collect(),
        stream: dump_payload(&bytes(&json["dump_base64"]), TYPE),
        chunks: array(&json["scandump_base64"])
            .iter()
            .map(|chunk| (chunk[0].as_i64().unwrap(), bytes(&chunk[1])))
            .collect(),
    }
}

fn items(name: &str) -> Vec<Vec<u8>> {
    match name {
        "rb:default" => numbered("item:", 60),
        "rb:chain" => numbered("", 4000),
        "rb:expansion4" => numbered("x", 500),
        "rb:expansion1" => numbered("y", 300),
        "rb:nonscaling" => numbered("n", 200),
        "rb:tight" => numbered("t", 1000),
        "rb:empty" => Vec::new(),
        "rb:bytes" => [
            b"",
            &b"\0"[..],
            b"a\0b",
            b"\xff\xfe",
            &[b' '; 300],
            "ü€".as_bytes(),
        ]
        .map(<[u8]>::to_vec)
        .to_vec(),
        "rb:urls" => urls(),
        _ => panic!("{name}"),
    }
}

/// A number of items.
pub fn numbered(prefix: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("{prefix}{i}").into_bytes()).collect()
}

/// The distinct URLs of a crawl, in their order.
fn urls() -> Vec<Vec<u8>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("../../../tests/fixtures/urls.txt.gz")[..])
        .read_to_string(&mut text)
        .unwrap();
    let mut seen = HashSet::new();
    let urls = text.lines().filter(|&url| seen.insert(url));
    urls.map(|url| url.as_bytes().to_vec()).collect()
}

/// The values in what DUMP gave for a filter.
pub fn dump_payload(payload: &[u8], of: Type) -> MemoryStream {
    // RDB version and checksum come last.
    let mut rdb = Rdb(&payload[..payload.len() - 10]);
    assert_eq!(rdb.byte(), 7);
    let values = rdb.module(of);
    assert!(rdb.0.is_empty());
    values
}

/// Reads as much of the RDB format as the stored files need.
struct Rdb<'a>(&'a [u8]);

impl Rdb<'_> {
    fn take(&mut self, length: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn length(&mut self) -> u64 {
        let first = self.byte();
        match first >> 6 {
            0 => u64::from(first),
            1 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()),
            _ if first == 0x80 => u64::from(u32::from_be_bytes(self.take(4).try_into().unwrap())),
            _ => u64::from_be_bytes(self.take(8).try_into().unwrap()),
        }
    }

    fn string(&mut self) -> Vec<u8> {
        match self.0[0] {
            encoded @ 0xc0..=0xc2 => {
                self.byte();
                let mut number = [0; 4];
                let length = 1 << (encoded & 3);
                number[..length].copy_from_slice(self.take(length));
                i32::from_le_bytes(number).to_string().into_bytes()
            }
            0xc3 => {
                self.byte();
                let (compressed, length) = (self.length() as usize, self.length() as usize);
                let bytes = decompressed(self.take(compressed));
                assert_eq!(bytes.len(), length);
                bytes
            }
            _ => {
                let length = self.length() as usize;
                self.take(length).to_vec()
            }
        }
    }

    /// A module's value, of that type: nine letters of 6 bits each, and the encoding version.
    fn module(&mut self, (name, version): Type) -> MemoryStream {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let id = self.module_id();
        let letters = (0..9).map(|at| LETTERS[(id >> (58 - 6 * at)) as usize & 63]);
        assert!(letters.eq(name.bytes()), "{id:#x}");
        assert_eq!(id & 0x3ff, version);
        self.values()
    }

    fn module_id(&mut self) -> u64 {
        self.length()
    }

    fn values(&mut self) -> MemoryStream {
        let mut values = MemoryStream::default();
        loop {
            values.values.push_back(match self.length() {
                0 => return values,
                2 => Value::Unsigned(self.length()),
                4 => Value::Double(f64::from_le_bytes(self.take(8).try_into().unwrap())),
                5 => Value::String(self.string()),
                opcode => panic!("{opcode}"),
            });
        }
    }
}

/// The bytes that LZF compressed.
fn decompressed(mut compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let [control, rest @ ..] = compressed {
        compressed = rest;
        let control = usize::from(*control);
        let mut take = || {
            let byte = compressed[0];
            compressed = &compressed[1..];
            usize::from(byte)
        };
        if control < 32 {
            (0..=control).for_each(|_| bytes.push(take() as u8));
            continue;
        }
        let length = 2 + if control >> 5 == 7 {
            7 + take()
        } else {
            control >> 5
        };
        let distance = ((control & 31) << 8) + take() + 1;
        for _ in 0..length {
            bytes.push(bytes[bytes.len() - distance]);
        }
    }
    bytes
}

/// A bit array of `bytes` bytes with `items`, by the description of the layout and another crate's hashes.
pub fn naive_array(bytes: usize, modulus: u64, hashes: u32, options: Options, items: &[Vec<u8>]) -> Vec<u8> {
    let mut array = vec![0; bytes];
    for item in items {
        for bit in naive_probes(modulus, hashes, options, item) {
            array[(bit >> 3) as usize] |= 1 << (bit & 7);
        }
    }
    array
}

/// The bits of an item.
pub fn naive_probes(modulus: u64, hashes: u32, options: Options, item: &[u8]) -> Vec<u64> {
    if options.has(Options::FORCE64) {
        let a = murmur2::murmur64a(item, 0xc6a4_a793_5bd1_e995);
        let b = murmur2::murmur64a(item, a);
        let probe = |i: u32| a.wrapping_add(b.wrapping_mul(u64::from(i)));
        return (0..hashes).map(|i| probe(i) % modulus).collect();
    }
    let a = murmur2::murmur2(item, 0x9747_b28c);
    let b = murmur2::murmur2(item, a);
    if modulus.is_power_of_two() && modulus < 1 << 32 {
        let probe = |i: u32| u64::from(a.wrapping_add(b.wrapping_mul(i)));
        (0..hashes).map(|i| probe(i) % modulus).collect()
    } else {
        let probe = |i: u32| u64::from(a) + u64::from(b) * u64::from(i);
        (0..hashes).map(|i| probe(i) % modulus).collect()
    }
}
