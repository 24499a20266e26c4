//! Filters that valkey-bloom saved, with its figures for them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use super::oracle::stored;
use super::stored::{Type, dump_payload, numbered};
use crate::checks::MemoryStream;
use crate::codec::valkey::{ENCODING_VERSION, decode, encode, load};
use crate::params::{SipSeed, Tightening};
use crate::spec::{Spec, ValkeySpec};
use crate::{Error, Filter, UNLIMITED};

/// valkey-bloom's data type.
const TYPE: Type = ("bloomfltr", 1);

/// The limit on one filter when these were recorded.
const LIMIT: Option<u64> = Some(128 << 20);

/// A filter as valkey-bloom saved and described it.
struct Stored {
    name: String,
    /// The command that created it; empty if an add did.
    words: Vec<Vec<u8>>,
    /// The items that were added, in order.
    items: Vec<Vec<u8>>,
    /// The reply of BF.INFO.
    info: Vec<(String, Json)>,
    /// Which probes are present, though none was added.
    answers: Vec<bool>,
    /// The filter's values in an RDB stream.
    stream: MemoryStream,
    /// The data for BF.LOAD.
    load: Vec<u8>,
}

impl Stored {
    fn new(name: &str, json: &Json) -> Self {
        let base64 = |json: &Json| BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap();
        let texts = |json: &Json| -> Vec<_> { json.as_array().into_iter().flatten().map(bytes).collect() };
        let items = &json["items"];
        let info = json["info"].as_array().unwrap().chunks_exact(2);
        let answers = base64(&json["answers"]);
        Self {
            name: name.to_owned(),
            words: texts(&json["words"]),
            items: match items["prefix"].as_str() {
                Some(prefix) => numbered(prefix, items["count"].as_u64().unwrap() as usize),
                None => texts(&items["list"]),
            },
            info: info
                .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()))
                .collect(),
            answers: (0..probes().len())
                .map(|at| answers[at / 8] >> (at % 8) & 1 == 1)
                .collect(),
            stream: dump_payload(&base64(&json["dump"]), TYPE),
            load: base64(&json["load"]),
        }
    }

    fn field(&self, name: &str) -> Option<&Json> {
        let mut fields = self.info.iter();
        fields
            .find(|(field, _)| field.strip_prefix('+') == Some(name))
            .map(|(_, value)| value)
    }

    fn integer(&self, name: &str) -> Option<u64> {
        self.field(name)?.as_u64()
    }

    fn double(&self, name: &str) -> Option<f64> {
        Some(self.field(name)?.as_str()?.strip_prefix('$')?.parse().unwrap())
    }

    /// The described filter, with `seed` if the words name none.
    fn spec(&self, seed: SipSeed) -> ValkeySpec {
        let (mut rate, mut capacity, mut expansion, mut tightening) = (0.01, 100, 2, 0.5);
        let mut said = seed;
        let mut words = self.words.iter().skip(2).map(Vec::as_slice);
        let text = |word: &[u8]| str::from_utf8(word).unwrap().to_owned();
        if self.words.first().is_some_and(|name| name == b"BF.RESERVE") {
            rate = text(words.next().unwrap()).parse().unwrap();
            capacity = text(words.next().unwrap()).parse().unwrap();
        }
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap();
            match word {
                b"NONSCALING" => expansion = 0,
                b"CAPACITY" => capacity = text(value()).parse().unwrap(),
                b"ERROR" => rate = text(value()).parse().unwrap(),
                b"EXPANSION" => expansion = text(value()).parse().unwrap(),
                b"TIGHTENING" => tightening = text(value()).parse().unwrap(),
                b"SEED" => said = SipSeed(value().try_into().unwrap()),
                other => panic!("{}", other.escape_ascii()),
            }
        }
        ValkeySpec::new(
            rate,
            capacity,
            expansion,
            Tightening::new(tightening).unwrap(),
            said,
        )
        .unwrap()
    }

    /// The filter as it was saved.
    fn loaded(&self) -> Filter {
        let chain = load(&mut self.stream.clone(), ENCODING_VERSION, UNLIMITED);
        chain.unwrap().into()
    }
}

/// A text of the characters U+0000 to U+00FF, one for each byte.
fn bytes(json: &Json) -> Vec<u8> {
    let text = json.as_str().unwrap().chars();
    text.map(|letter| u8::try_from(letter).unwrap()).collect()
}

fn probes() -> Vec<Vec<u8>> {
    numbered("probe:", 20_000)
}

fn filters() -> Vec<Stored> {
    let json = include_str!("../../../tests/fixtures/valkey-bloom/filters.json");
    let json: Json = serde_json::from_str(json).unwrap();
    assert_eq!(json["probes"], probes().len());
    let filters = json["filters"].as_object().unwrap();
    assert_eq!(filters.len(), 11);
    filters
        .iter()
        .map(|(name, json)| Stored::new(name, json))
        .collect()
}

/// The data with which BF.LOAD makes it again.
fn load_data(filter: &Filter) -> Vec<u8> {
    encode(filter.as_valkey().unwrap()).unwrap()
}

/// Users who move filters from valkey-bloom would lose items, get other false positives, or could not move back.
#[test]
fn what_valkey_bloom_saved_is_the_same_filter_here() {
    let probes = probes();
    for stored_there in filters() {
        let name = &stored_there.name;
        let decoded = decode(&stored_there.load, UNLIMITED).unwrap();
        for filter in [stored_there.loaded(), Filter::from(decoded)] {
            assert_eq!(filter.validate(), Ok(()), "{name}");
            assert!(stored(&filter) == stored_there.stream, "{name}: other values");
            assert!(load_data(&filter) == stored_there.load, "{name}: other bytes");
            let missing = stored_there.items.iter().filter(|item| !filter.contains(item));
            assert_eq!(missing.count(), 0, "{name}");
            let mut answers = Vec::new();
            filter.contains_all(probes.iter().map(Vec::as_slice), 0, |found| answers.push(found));
            assert!(answers == stored_there.answers, "{name}: other answers");
            let one_by_one = probes.iter().map(|probe| filter.contains(probe));
            assert!(one_by_one.eq(answers), "{name}: other single answers");
        }
    }
}

/// A filter's figures would differ from those that its users know, and its limits would apply earlier or later.
#[test]
fn figures_are_what_valkey_bloom_says() {
    for stored in filters() {
        let (name, filter) = (&stored.name, stored.loaded());
        let totals = filter.totals();
        for (field, value) in [
            ("Capacity", totals.capacity),
            ("Size", filter.bytes()),
            ("Number of filters", totals.layers as u64),
            ("Number of items inserted", totals.items),
        ] {
            assert_eq!(stored.integer(field), Some(value), "{name}: {field}");
        }
        let expansion = filter.expansion();
        assert_eq!(
            stored.integer("Expansion rate"),
            expansion.map(u64::from),
            "{name}"
        );
        assert_eq!(stored.double("Error rate"), Some(filter.error_rate()), "{name}");
        let rules = filter.valkey_rules().unwrap();
        let tightening = expansion.map(|_| rules.tightening().value());
        assert_eq!(stored.double("Tightening ratio"), tightening, "{name}");
        assert_eq!(
            stored.integer("Max scaled capacity"),
            filter.scaled_capacity(LIMIT),
            "{name}"
        );
        assert_eq!(rules.seed().is_random(), name != "fixed-seed", "{name}");
    }
}

/// Replicas would diverge, because a command would make another filter here than in valkey-bloom.
#[test]
fn the_same_words_and_items_make_the_same_bits() {
    for stored_there in filters() {
        let name = &stored_there.name;
        let seed = stored_there.loaded().valkey_rules().unwrap().seed();
        let spec = stored_there.spec(seed);
        assert_eq!(spec.rules().seed(), seed, "{name}");
        let mut filter = Filter::new(Spec::Valkey(spec), UNLIMITED).unwrap();
        let new = stored_there
            .items
            .iter()
            .filter(|item| filter.add(*item, 0, UNLIMITED).unwrap());
        assert_eq!(
            Some(new.count() as u64),
            stored_there.integer("Number of items inserted"),
            "{name}"
        );
        assert!(stored(&filter) == stored_there.stream, "{name}: other values");
        if filter.expansion().is_none() {
            let refused = (0..).find_map(|number| {
                filter
                    .add(format!("more {number}").as_bytes(), 0, UNLIMITED)
                    .err()
            });
            assert_eq!(refused, Some(Error::Full { capacity: 200 }));
        }
    }
}
