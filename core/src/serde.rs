//! Filters in the formats of serde, as the bytes of a [file](crate::file).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::filter::Filter;

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Filter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a filter")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Filter, E> {
        Filter::from_bytes(bytes).map_err(E::custom)
    }

    /// Formats without bytes, such as JSON, have a list of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Filter, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::Filter;

    /// A struct that derives serde's traits would lose its filter, or take another one for it.
    #[test]
    fn a_filter_comes_back_from_formats_with_and_without_bytes() {
        let mut filter = Filter::builder(100, 0.01).build().unwrap();
        filter.extend(["ann", "bob"]);
        let text = serde_json::to_string(&filter).unwrap();
        assert!(serde_json::from_str::<Filter>(&text).unwrap() == filter);
        let bytes = filter.to_bytes();
        let of_bytes = serde::de::value::BytesDeserializer::<serde::de::value::Error>::new(&bytes);
        assert!(serde::Deserialize::deserialize(of_bytes) == Ok::<Filter, _>(filter));
        assert!(serde_json::from_str::<Filter>("[1, 2]").is_err());
    }
}
