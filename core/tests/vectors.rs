//! The test vectors in `vectors/`, which readers and writers in other languages are checked with too.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use libbloom::chain::batch::Subset;
use libbloom::{Filter, Layout, UNLIMITED};
use serde_json::Value;

fn items(hex: &Value) -> Vec<Vec<u8>> {
    let hex = hex.as_array().unwrap().iter().map(|item| item.as_str().unwrap());
    let bytes = |item: &str| {
        (0..item.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&item[at..at + 2], 16).unwrap())
            .collect()
    };
    hex.map(bytes).collect()
}

fn built(vector: &Value) -> Filter {
    let parameters = &vector["parameters"];
    let (capacity, rate) = (
        parameters["capacity"].as_u64().unwrap(),
        parameters["error_rate"].as_f64().unwrap(),
    );
    let mut builder = Filter::builder(capacity, rate);
    if let Some(seed) = parameters["seed"].as_u64() {
        builder = builder.seed(seed);
    }
    if let Some(layout) = parameters["layout"].as_str() {
        builder = builder.layout(Layout::named(layout).unwrap());
    }
    if let Some(seconds) = parameters["window"].as_u64() {
        builder = builder.window(Duration::from_secs(seconds));
    }
    if let Some(slices) = parameters["slices"].as_u64() {
        builder = builder.slices(slices.try_into().unwrap());
    }
    if parameters["refresh"] == true {
        builder = builder.refresh();
    }
    if let Some(expansion) = parameters["expansion"].as_u64() {
        builder = builder.expansion(expansion.try_into().unwrap());
    }
    if parameters["fixed"] == true {
        builder = builder.fixed();
    }
    if parameters["growing"] == true {
        builder = builder.growing();
    }
    let mut filter = builder.build().unwrap();
    let time = |name: &str| vector["time"][name].as_u64().unwrap_or(0);
    for (number, item) in (0..).zip(items(&vector["items"])) {
        filter
            .insert_at(&item, time("first") + number * time("step"))
            .unwrap();
    }
    let excepted = items(&vector["excepted"]);
    if !excepted.is_empty() {
        filter
            .except(excepted.iter().map(Vec::as_slice), UNLIMITED, |_: Subset, _| ())
            .unwrap();
    }
    filter
}

/// Files of earlier releases would be read wrongly, and other languages would read those of this one wrongly.
#[test]
fn filters_have_the_bytes_and_the_answers_of_the_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display();
        let vector: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let file = BASE64_STANDARD.decode(vector["file"].as_str().unwrap()).unwrap();
        let mut written = Vec::new();
        built(&vector).write_to(&mut written).unwrap();
        assert!(written == file, "{name}: the bytes differ");
        let read = Filter::read_from(&file[..], u64::MAX).unwrap();
        let now = vector["time"]["now"].as_u64().unwrap_or(0);
        let found = items(&vector["items"])
            .iter()
            .filter(|item| read.contains_at(item.as_slice(), now))
            .count();
        assert_eq!(found as u64, vector["items_found"].as_u64().unwrap(), "{name}");
        let prefix = vector["probes"]["prefix"].as_str().unwrap();
        let probes = 0..vector["probes"]["count"].as_u64().unwrap();
        let found: Vec<u64> = probes
            .filter(|number| read.contains_at(format!("{prefix}{number}").as_bytes(), now))
            .collect();
        assert_eq!(Value::from(found), vector["probes_found"], "{name}");
        count += 1;
    }
    assert!(count >= 18, "{count} vectors");
}
