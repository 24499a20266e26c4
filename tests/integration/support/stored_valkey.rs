//! Filters as valkey-bloom 1.0.1 stored them, from `tests/fixtures/valkey-bloom`.

use std::fs;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::items::{answers, numbered};
use super::payload::FOOTER;
use super::stored::{PROBES, fixture};
use crate::client::{Client, Reply, ok};
use crate::server::Server;

/// The size limit of a filter that was set when the fixtures were recorded.
pub const LIMIT: &str = "bf-max-filter-bytes 134217728";

/// The version of the RDB format that the fixtures are in.
pub const VERSION: u16 = 11;

/// A text of the characters U+0000 to U+00FF, one for each byte.
pub fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(letter).unwrap()).collect()
}

fn base64(json: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap()
}

pub fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// A filter as valkey-bloom had it.
pub struct Stored {
    pub key: String,
    /// The command that made the filter; empty if an add did.
    words: Vec<Vec<u8>>,
    /// The items that were added, in this order.
    items: Vec<Vec<u8>>,
    /// All figures of the filter that valkey-bloom reported.
    said: Value,
    /// Which probes are present, though none was added.
    answers: Vec<bool>,
    /// What DUMP gives, without its footer.
    pub body: Vec<u8>,
    /// The whole of it.
    pub payload: Vec<u8>,
    /// What BF.LOAD takes.
    pub load: Vec<u8>,
}

pub static STORED: LazyLock<Vec<Stored>> = LazyLock::new(|| {
    let json = json("valkey-bloom/filters.json");
    let filters = json["filters"].as_object().unwrap();
    assert_eq!((filters.len(), &json["probes"]), (11, &Value::from(PROBES.len())));
    filters.iter().map(|(key, said)| Stored::new(key, said)).collect()
});

impl Stored {
    fn new(key: &str, said: &Value) -> Self {
        let texts = |json: &Value| -> Vec<_> {
            let texts = json.as_array().into_iter().flatten();
            texts.map(|text| bytes(text.as_str().unwrap())).collect()
        };
        let (items, payload) = (&said["items"], base64(&said["dump"]));
        Self {
            key: key.to_owned(),
            words: texts(&said["words"]),
            items: match items["prefix"].as_str() {
                Some(prefix) => numbered(prefix, 0, items["count"].as_u64().unwrap() as usize),
                None => texts(&items["list"]),
            },
            answers: bits(&base64(&said["answers"])),
            body: payload[..payload.len() - FOOTER].to_vec(),
            payload,
            load: base64(&said["load"]),
            said: said.clone(),
        }
    }

    /// The seed, which is behind 13 bytes of the first layer's head.
    fn seed(&self) -> &[u8] {
        &self.load[51..83]
    }

    /// Makes it anew, with `more` words; by its own, where it has some.
    pub fn make(&self, client: &mut Client, more: &[&str]) {
        let default = [&b"BF.INSERT"[..], self.key.as_bytes()];
        let mut words: Vec<_> = self.words.iter().map(Vec::as_slice).collect();
        if words.is_empty() {
            words.extend(default);
        }
        words.extend(more.iter().map(|word| word.as_bytes()));
        if !words.contains(&&b"SEED"[..]) {
            words.extend([&b"SEED"[..], self.seed()]);
        }
        let made = if words[0] == b"BF.RESERVE" {
            ok()
        } else {
            Reply::Array(Vec::new())
        };
        assert_eq!(client.call(&words), made, "{}", self.key);
        for item in &self.items {
            let added = client.call(&[b"BF.ADD", self.key.as_bytes(), item]);
            assert!(matches!(added, Reply::Int(_)), "{}", self.key);
        }
    }

    /// The filter in `key` is this one, in all that it answers, says and is stored as.
    #[track_caller]
    pub fn is(&self, server: &Server, key: &str) {
        let client = &mut server.client();
        assert_eq!(client.call(&["TYPE", key]), Reply::Simple("bloomfltr".into()));
        let members = answers(client, key.as_bytes(), &self.items);
        assert!(members.iter().all(|&is_there| is_there), "{key}: members");
        let others = answers(client, key.as_bytes(), &PROBES);
        assert!(others == self.answers, "{key}: other answers");
        let info = client.call(&["BF.INFO", key]);
        assert!(is_described_like(&info, &self.said["info"]), "{key}: {info:?}");
        // Where modules have no RESP3, a client gets the forms of RESP2.
        let info3 = if Server::version().modules_have_resp3() {
            "info3"
        } else {
            "info"
        };
        let info = server.client3().call(&["BF.INFO", key]);
        assert!(is_described_like(&info, &self.said[info3]), "{key}: {info:?}");
        for (field, value) in self.said["fields"].as_object().unwrap() {
            let reply = client.call(&["BF.INFO", key, field]);
            let is_foretold = field == "MAXSCALEDCAPACITY" && matches!(reply, Reply::Int(1..));
            assert!(is_foretold || is_like(&reply, value), "{key}: {field}: {reply:?}");
        }
        assert_eq!(digest(client, key.as_bytes()), self.said["digest"], "{key}");
        let payload = client.dump(key);
        let (body, _) = payload.bytes().split_at(payload.bytes().len() - FOOTER);
        assert!(body == self.body, "{key}: another DUMP");
    }
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |at| byte >> at & 1 == 1));
    bits.collect()
}

pub fn digest(client: &mut Client, key: &[u8]) -> String {
    client.call(&[&b"DEBUG"[..], b"DIGEST-VALUE", key]).elements()[0].text()
}

/// Whether a reply of BF.INFO is the recorded one. How far a filter can grow follows from the server's own limit, and
/// from what its allocator takes.
fn is_described_like(info: &Reply, said: &Value) -> bool {
    let (info, said) = (info.elements(), said.as_array().unwrap());
    let foretold = said.iter().position(|name| name == FORETOLD).map(|at| at + 1);
    info.len() == said.len()
        && info.iter().zip(said).enumerate().all(|(at, (reply, said))| {
            let may_differ = Some(at) == foretold && matches!(reply, Reply::Int(1..));
            may_differ || is_like(reply, said)
        })
}

/// The field of valkey-bloom's BF.INFO for the capacity that a filter can grow to, as it was recorded.
pub const FORETOLD: &str = "+Max scaled capacity";

/// Whether a reply is the recorded one. In which digits a double is written is the server's matter.
pub fn is_like(reply: &Reply, said: &Value) -> bool {
    let is_double = |text: &str| text.parse() == Ok(reply.number());
    match said {
        Value::Null => *reply == Reply::Null,
        Value::Number(number) => *reply == number.as_i64().unwrap().into(),
        Value::Array(all) => {
            let elements = reply.elements();
            all.len() == elements.len() && elements.iter().zip(all).all(|(reply, said)| is_like(reply, said))
        }
        Value::String(text) => match (text.split_at(1), reply) {
            (("+", text), Reply::Simple(is)) => text == is,
            (("$", text), Reply::Bulk(_)) | ((",", text), Reply::Double(_)) => is_double(text),
            _ => false,
        },
        other => panic!("{other}"),
    }
}
