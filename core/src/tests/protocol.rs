//! What replicas of another version repeat: which factors a BF.SHRINK chooses, and which layers a BF.MERGE unites. It is
//! recorded in `protocol.txt`, a line for each case. `BLOOM_RECORD=1 cargo test -p libbloom protocol` writes it anew.

use std::fmt::Write as _;

use super::oracle::{self, add_batch, growing, item, reserved};
use crate::params::{ErrorRate, Growth, Layout};
use crate::{Filter, UNLIMITED};

const RECORDED: &str = include_str!("protocol.txt");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/protocol.txt");

fn filled(capacity: u64, rate: f64, growth: Growth, layout: Layout, ids: std::ops::Range<u32>) -> Filter {
    let spec = oracle::spec(capacity, rate, growth, 7).in_layout(layout).unwrap();
    let mut filter = oracle::filter(spec);
    add_batch(&mut filter, &ids.map(item).collect::<Vec<_>>())
        .1
        .unwrap();
    filter
}

/// Each layer, oldest first: capacity, items, set bits, bytes, and the bits of its rate.
fn layers(filter: &Filter) -> String {
    let of_layer = |layer: crate::filter::LayerStats| {
        let (capacity, bytes) = (layer.shape.capacity, layer.shape.bytes);
        let rate = layer.shape.error_rate.to_bits();
        format!(" {capacity}/{}/{}/{bytes}/{rate:x}", layer.items, layer.bits_set)
    };
    filter.layer_stats().map(of_layer).collect()
}

fn shrunk(lines: &mut String) {
    for layout in [Layout::Blocked, Layout::Classic] {
        for (capacity, rate) in [
            (150, 0.01),
            (1000, 0.2),
            (4096, 1e-3),
            (20_000, 0.01),
            (99_999, 1e-6),
            (250_000, 0.05),
            (720_720, 0.01),
            (1_000_000, 1e-4),
            (4_000_000, 0.01),
        ] {
            for (items, room) in [
                (0, 0),
                (3, 0),
                (capacity / 90, 0),
                (capacity / 7, 0),
                (capacity / 3, 0),
                (10, capacity / 5),
            ] {
                let items = items.min(30_000) as u32;
                let mut filter = filled(capacity, rate, reserved(2), layout, 0..items);
                filter.shrink_to(room).unwrap();
                writeln!(
                    lines,
                    "shrink {layout:?} {rate} {capacity} {items} {room}:{}",
                    layers(&filter)
                )
                .unwrap();
            }
        }
        let mut grown = filled(100, 0.01, growing(3), layout, 0..6000);
        grown.shrink_to_fit().unwrap();
        writeln!(lines, "shrink {layout:?} grown:{}", layers(&grown)).unwrap();
    }
}

fn united(lines: &mut String) {
    let of = |capacity, growth, ids| filled(capacity, 0.001, growth, Layout::Blocked, ids);
    let fixed = |capacity, ids| of(capacity, Growth::Fixed, ids);
    let many = |count: u32, each: u32, apart: u32| -> Vec<Filter> {
        (0..count)
            .map(|part| fixed(500, part * apart..part * apart + each))
            .collect()
    };
    let cases = [
        ("counts fit", vec![fixed(500, 0..200), fixed(500, 200..400)]),
        ("bits fit", many(4, 400, 25)),
        ("full", many(5, 500, 500)),
        (
            "a part again",
            vec![fixed(500, 0..450), fixed(500, 500..950), fixed(500, 500..700)],
        ),
        (
            "mostly the newest",
            many(2, 450, 450)
                .into_iter()
                .chain([fixed(500, 470..920)])
                .collect(),
        ),
        (
            "with room",
            many(2, 490, 490).into_iter().chain(many(3, 150, 1000)).collect(),
        ),
        ("almost empty", many(3, 1, 1)),
        (
            "shapes",
            vec![
                fixed(500, 0..300),
                fixed(600, 0..300),
                fixed(500, 100..350),
                of(600, reserved(2), 0..10),
            ],
        ),
        (
            "grown",
            vec![
                of(100, reserved(2), 0..900),
                of(100, reserved(2), 300..1500),
                of(100, growing(2), 0..700),
            ],
        ),
        (
            "a long chain",
            vec![
                of(20, reserved(1), 0..900),
                of(20, reserved(1), 300..1500),
                of(20, reserved(1), 0..700),
            ],
        ),
    ];
    for (name, sources) in &cases {
        let rate = ErrorRate::new(0.1).ok();
        let all: Vec<_> = sources.iter().collect();
        let mut filter = Filter::union(&all, rate, UNLIMITED).unwrap();
        writeln!(lines, "union, {name}:{}", layers(&filter)).unwrap();
        // Merged one after another.
        let mut one_by_one = all[0].try_clone().unwrap();
        for source in &all[1..] {
            one_by_one.absorb(&[source], rate, UNLIMITED).unwrap();
        }
        writeln!(lines, "one by one, {name}:{}", layers(&one_by_one)).unwrap();
        filter.absorb(&[&one_by_one], None, UNLIMITED).unwrap();
        writeln!(lines, "both, {name}:{}", layers(&filter)).unwrap();
    }
}

/// A replica of another version would have other layers than its primary from then on: other answers for items that were
/// never added, other sizes, and other bytes.
#[test]
fn what_replicas_repeat_is_recorded() {
    let mut lines = String::new();
    shrunk(&mut lines);
    united(&mut lines);
    if std::env::var_os("BLOOM_RECORD").is_some() {
        std::fs::write(FILE, &lines).unwrap();
        return;
    }
    for (now, recorded) in lines.lines().zip(RECORDED.lines()) {
        assert_eq!(now, recorded);
    }
    assert_eq!(lines.lines().count(), RECORDED.lines().count());
}
