//! Filters as RedisBloom stored them, from `tests/fixtures`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::chunks::scandump;
use super::items::{numbered, present};
use super::payload::{FOOTER, body};
use crate::client::{Client, Reply, ok};

/// A filter that RedisBloom 2.8 stored.
pub struct Stored {
    pub key: String,
    /// The items that were added, in order.
    pub items: Vec<Vec<u8>>,
    /// The chunks of the filter's dump, the header first; for the filter of URLs none were recorded.
    pub chunks: Vec<(i64, Vec<u8>)>,
    /// The words after the key in BF.RESERVE; none when an add made it.
    pub reserve: Vec<String>,
    /// BF.INFO and BF.DEBUG.
    pub info: Reply,
    pub debug: Reply,
    /// The probes that are present, though none was added.
    pub false_positives: Vec<usize>,
    /// The payload of DUMP, without its footer.
    pub body: Vec<u8>,
    /// The whole payload.
    pub payload: Vec<u8>,
}

impl Stored {
    pub fn read(key: &str, json: &Value) -> Self {
        let list = |name: &str| json[name].as_array().cloned().unwrap_or_default();
        let bytes = |json: &Value| BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap();
        let replies = |name| Reply::Array(list(name).iter().map(reply).collect());
        let payload = bytes(&json["dump_base64"]);
        let items = items(key);
        assert_eq!(json["items"].as_u64(), Some(items.len() as u64), "{key}");
        Self {
            key: key.to_owned(),
            items,
            chunks: list("scandump_base64")
                .iter()
                .map(|pair| (pair[0].as_i64().unwrap(), bytes(&pair[1])))
                .collect(),
            reserve: list("reserve")
                .iter()
                .map(|word| word.as_str().unwrap().to_owned())
                .collect(),
            info: replies("info"),
            debug: replies("debug"),
            false_positives: list("false_positives")
                .iter()
                .map(|probe| probe.as_u64().unwrap() as usize)
                .collect(),
            body: payload[..payload.len() - FOOTER].to_vec(),
            payload,
        }
    }

    /// Creates the filter again, with `more` words for BF.RESERVE.
    pub fn make(&self, client: &mut Client, more: &str) {
        let asked = if self.reserve.is_empty() {
            "0.01 100".to_owned()
        } else {
            self.reserve.join(" ")
        };
        let line = format!("BF.RESERVE {} {asked}{more}", self.key);
        assert_eq!(client.run(&line), ok(), "{line}");
    }

    /// Asserts that the filter in `key` is this one: by its answers, its figures and its stored form.
    #[track_caller]
    pub fn is(&self, client: &mut Client, key: &str) {
        assert_eq!(
            present(client, key, &self.items).len(),
            self.items.len(),
            "{key}: members"
        );
        assert_eq!(
            present(client, key, &PROBES),
            self.false_positives,
            "{key}: false positives"
        );
        self.is_described(client, key);
    }

    /// Asserts that the filter in `key` is this one, by its figures and its stored form.
    #[track_caller]
    pub fn is_described(&self, client: &mut Client, key: &str) {
        let info = client.call(&["BF.INFO", key]);
        assert_eq!(info.fields(), self.info.fields(), "{key}");
        assert_eq!(
            client.call(&["BF.CARD", key]),
            self.info.field("Number of items inserted"),
            "{key}"
        );
        assert_eq!(client.call(&["BF.DEBUG", key]), self.debug, "{key}");
        assert!(body(&client.dump(key)) == self.body, "{key}: another DUMP");
        if !self.chunks.is_empty() {
            assert!(scandump(client, key) == self.chunks, "{key}: other chunks");
        }
    }

    /// The options of BF.INSERT that correspond to those of BF.RESERVE.
    pub fn insert_options(&self) -> String {
        match &self.reserve[..] {
            [] => String::new(),
            [rate, capacity, more @ ..] => format!(" ERROR {rate} CAPACITY {capacity} {}", more.join(" ")),
            other => panic!("{other:?}"),
        }
    }
}

/// All stored filters.
pub static STORED: LazyLock<Vec<Stored>> = LazyLock::new(|| {
    let json = fs::read(fixture("redisbloom/redisbloom-2.8.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let filters = json["filters"].as_object().unwrap();
    assert_eq!(filters.len(), 9, "the fixture is another one");
    filters
        .iter()
        .map(|(key, json)| Stored::read(key, json))
        .collect()
});

/// Items that are queried in every filter, and were added to none.
pub static PROBES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| numbered("probe:", 0, 20_000));

/// A file of `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A reply as the fixture has it.
fn reply(json: &Value) -> Reply {
    match json {
        Value::Null => Reply::Null,
        Value::Number(number) => number.as_i64().unwrap().into(),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        other => panic!("{other}"),
    }
}

fn items(key: &str) -> Vec<Vec<u8>> {
    match key {
        "rb:default" => numbered("item:", 0, 60),
        "rb:chain" => numbered("", 0, 4000),
        "rb:expansion4" => numbered("x", 0, 500),
        "rb:expansion1" => numbered("y", 0, 300),
        "rb:nonscaling" => numbered("n", 0, 200),
        "rb:tight" => numbered("t", 0, 1000),
        "rb:empty" => Vec::new(),
        "rb:bytes" => {
            let items: [&[u8]; 6] = [b"", b"\0", b"a\0b", b"\xff\xfe", &[b' '; 300], "ü€".as_bytes()];
            items.map(<[u8]>::to_vec).to_vec()
        }
        "rb:urls" => {
            let lines =
                BufReader::new(GzDecoder::new(File::open(fixture("urls.txt.gz")).unwrap())).split(b'\n');
            let mut seen = HashSet::new();
            let urls = lines.map(Result::unwrap);
            urls.filter(|url| seen.insert(url.clone())).collect()
        }
        other => panic!("{other}"),
    }
}

/// A compressed fixture.
pub fn unzipped(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = File::open(fixture(name)).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}
