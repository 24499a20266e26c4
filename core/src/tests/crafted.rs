//! Malicious headers, which cost as much as a header can: the work that they cause is bounded, or grows with their
//! bytes.

use super::oracle::{filter, reserved, spec, stored};
use super::work::{self, Work};
use crate::codec::{DecodeError, chunks};
use crate::filter::{Filter, MOST_ESTIMATED};
use crate::sets::SetError;
use crate::{Allowance, UNLIMITED};

/// The most computations for one rate of a layer that is not full.
const ESTIMATE: u64 = 5 * 16 + 1;

/// The time at which the first slice of a window begins.
const START: u64 = 1_700_000_000_000;

/// A layer of a header.
#[derive(Clone, Copy)]
pub struct Layer {
    pub capacity: u64,
    pub items: u64,
    pub rate: f64,
    pub lines: u64,
    pub lines_per_item: u32,
    pub probes: u32,
}

impl Layer {
    /// A layer so small for its capacity that its rate needs the most steps.
    pub const OVERFULL: Self = Self {
        capacity: 1 << 40,
        items: (1 << 40) - 1,
        rate: 0.0,
        lines: 1 << 33,
        lines_per_item: 1,
        probes: 8,
    };

    fn put(&self, header: &mut Vec<u8>) {
        for field in [self.capacity, self.items, 0, self.rate.to_bits(), self.lines] {
            header.extend(field.to_le_bytes());
        }
        header.extend(self.lines_per_item.to_le_bytes());
        header.extend(self.probes.to_le_bytes());
    }
}

/// What a header begins with, with so many layers and exceptions, and a window of so many seconds.
fn head(layers: usize, exceptions: u32, window: u32) -> Vec<u8> {
    let mut header = b"BLOOM\0\0\x03\0\0\0\0".to_vec();
    header.extend((layers as u32).to_le_bytes());
    header.extend(7_u64.to_le_bytes());
    header.extend(0.25_f64.to_le_bytes());
    header.extend([1, 0, 0, 0, 1, 0, 0, 0]);
    header.extend(exceptions.to_le_bytes());
    header.extend(window.to_le_bytes());
    header
}

/// The header of a filter with these layers, and so many exceptions.
pub fn excepting(exceptions: u32, layers: impl ExactSizeIterator<Item = Layer>) -> Vec<u8> {
    let mut header = head(layers.len(), exceptions, 0);
    layers.for_each(|layer| layer.put(&mut header));
    for number in 1..=u64::from(exceptions) {
        // The low half of the hash decides in which lines an item has its bits.
        header.extend(number.to_le_bytes());
        header.extend(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    header
}

/// The header of a filter with these layers, as a merge makes them.
pub fn composed(layers: impl ExactSizeIterator<Item = Layer>) -> Vec<u8> {
    excepting(0, layers)
}

/// The header of a filter with a window of a thousand seconds in two slices, of which each has a layer.
pub fn windowed(layers: impl ExactSizeIterator<Item = Layer>) -> Vec<u8> {
    let count = layers.len();
    let mut header = head(count, 0, 1000);
    header.extend(1000_u64.to_le_bytes());
    header.extend([2, 0, 0, 0]);
    header.extend((count as u32).to_le_bytes());
    header.extend((START + count as u64).to_le_bytes());
    header.extend([0; 8]);
    for time in (START..).take(count) {
        header.extend(time.to_le_bytes());
        header.extend((time + 1).to_le_bytes());
        header.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    }
    layers.for_each(|layer| layer.put(&mut header));
    header
}

fn load(header: &[u8], allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    chunks::load_header(header, allowance)
}

/// A client could stop the server for minutes with a header of some megabytes, or with such a payload of RESTORE.
#[test]
fn a_header_computes_no_rate() {
    let costly = |rate| Layer {
        rate,
        lines: 4,
        ..Layer::OVERFULL
    };
    let wrong = Err(DecodeError::Field("layer error rate"));
    for (rate, expected) in [(0.07, wrong), (1e-4, Ok(500))] {
        let layers = || (0..500).map(|_| costly(rate));
        for header in [windowed(layers()), composed(layers())] {
            let load = || load(&header, UNLIMITED).map(|filter| filter.layers());
            assert_eq!(work::of(Work::LineRates, load), (0, expected));
        }
    }
}

/// BF.INFO FULL of a filter with very many layers that are not full would take seconds.
#[test]
fn an_estimate_of_very_many_layers_computes_the_rates_of_few() {
    let layer = |number: u64| Layer {
        capacity: 1 << 20,
        items: (1 << 20) - 1 - number,
        lines: 1,
        ..Layer::OVERFULL
    };
    for count in [10, MOST_ESTIMATED as u64, 3000, 30_000] {
        let filter = load(
            &composed((0..count as usize).map(|number| layer(number as u64))),
            UNLIMITED,
        );
        let filter = filter.unwrap();
        assert_eq!(filter.layers() as u64, count);
        let (work, rate) = work::of(Work::LineRates, || filter.estimated_error_rate());
        let computed = count.min(MOST_ESTIMATED as u64);
        assert!(
            (computed..=computed * ESTIMATE).contains(&work),
            "{count}: {work}"
        );
        assert!(rate > 0.999, "{count}: {rate}");
    }
}

/// The rate that BF.INFO FULL reports for a filter that was merged from very many would be above the promised rate,
/// or below the real one.
#[test]
fn layers_that_are_not_computed_count_as_full() {
    let layer = Layer {
        capacity: 100,
        items: 50,
        rate: 1e-5,
        lines: 1000,
        ..Layer::OVERFULL
    };
    let filter = load(&composed((0..MOST_ESTIMATED + 1000).map(|_| layer)), UNLIMITED).unwrap();
    let of_newest = load(&composed((0..MOST_ESTIMATED).map(|_| layer)), UNLIMITED).unwrap();
    let (all, newest) = (filter.estimated_error_rate(), of_newest.estimated_error_rate());
    let one = load(&composed([layer].into_iter()), UNLIMITED)
        .unwrap()
        .estimated_error_rate();
    assert!(
        (newest - MOST_ESTIMATED as f64 * one).abs() < 1e-6,
        "{newest}, {one}"
    );
    assert!((all - newest - 1000.0 * 1e-5).abs() < 1e-4, "{all}, {newest}");
    // Full layers are none of those that are computed.
    let full = |number| Layer {
        items: if number == 0 { 1 } else { 100 },
        rate: if number == 0 { 0.1 } else { 0.0 },
        ..layer
    };
    let behind_full = load(&composed((0..MOST_ESTIMATED + 1).map(full)), UNLIMITED).unwrap();
    let rate = behind_full.estimated_error_rate();
    assert!(rate < 0.01, "{rate}");
}

/// A layer of one line, with an item.
const SMALL: Layer = Layer {
    capacity: 1,
    items: 1,
    lines: 1,
    ..Layer::OVERFULL
};

/// Very many shapes with two layers each would stop a BF.MERGE for seconds.
#[test]
fn a_merge_of_very_many_shapes_computes_little_for_each() {
    const SHAPES: u64 = 1100;
    let layer = |number| Layer {
        capacity: (1 << 20) + number,
        items: 1 << 20,
        lines: 2,
        ..Layer::OVERFULL
    };
    let header = composed((0..SHAPES as usize).map(|number| layer(number as u64)));
    let sources = [
        load(&header, UNLIMITED).unwrap(),
        load(&header, UNLIMITED).unwrap(),
    ];
    let (work, union) = work::of(Work::LineRates, || {
        Filter::union(&[&sources[0], &sources[1]], None, UNLIMITED).map(|union| union.layers())
    });
    assert_eq!(union, Ok(SHAPES as usize));
    assert!(work <= 32 * SHAPES, "{work}");
}

/// Many filters with a few layers of a high rate would stop a BF.MERGE for seconds, before it is refused.
#[test]
fn a_merge_of_too_high_rates_is_refused_before_they_are_computed() {
    let layer = |number: u64| Layer {
        capacity: (1 << 40) + number,
        rate: 0.06,
        lines: 4,
        ..Layer::OVERFULL
    };
    let source = |from: u64| {
        load(
            &composed((from as usize..from as usize + 4).map(|number| layer(number as u64))),
            UNLIMITED,
        )
    };
    let sources: Vec<_> = (0..20).map(|number| source(4 * number).unwrap()).collect();
    let sources: Vec<_> = sources.iter().collect();
    let (work, refused) = work::of(Work::LineRates, || {
        Filter::union(&sources, None, UNLIMITED).map(|_| ())
    });
    assert!(
        matches!(refused, Err(SetError::Rate { enough: None, .. })),
        "{refused:?}"
    );
    assert_eq!(work, 0);
}

/// A merge of filters with exceptions would stop the server for minutes, because every exception is looked up in
/// every layer.
#[test]
fn filters_with_too_many_exceptions_for_their_layers_are_not_combined() {
    let (exceptions, layers) = (10_000, 1000);
    let of_layers = || (0..layers).map(|_| SMALL);
    let many = load(&excepting(exceptions, of_layers()), UNLIMITED).unwrap();
    let mut other = filter(spec(1000, 0.25, reserved(1), 7));
    let refused = SetError::TooManyToAsk {
        exceptions: exceptions.into(),
        layers: layers as u64 + 1,
    };
    let (asked, union) = work::of(Work::LayersAsked, || {
        Filter::union(&[&many, &other], None, UNLIMITED).map(|_| ())
    });
    assert_eq!((asked, union), (0, Err(refused)));
    let before = stored(&other);
    assert_eq!(other.absorb(&[&many], None, UNLIMITED), Err(refused));
    assert_eq!(stored(&other), before);

    let few = load(&excepting(2000, of_layers()), UNLIMITED).unwrap();
    let union = Filter::union(&[&few, &other], None, UNLIMITED).unwrap();
    assert_eq!(union.exceptions(), 2000);
}
