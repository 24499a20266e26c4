//! Folding layers of the blocked layout.
//!
//! An item's line is number `⌊c · lines / 2^64⌋` of its partition, so with `d` times as many lines it is one of the `d`
//! lines that begin with `d` times that number: `⌊⌊c · d · lines / 2^64⌋ / d⌋ = ⌊c · lines / 2^64⌋`. The bits within a
//! line do not depend on the number of lines. So the OR of `d` neighbours is the line of a layer that was made smaller.

use super::sizing::{Geometry, POISSON_FROM};
use super::{Blocked, Layer, Shape};
use crate::chain::NewLayer as _;
use crate::error::Error;
use crate::folding::{Foldable, factors, part};

/// The most that rounding adds to the rate of a layer for `capacity` items, as a part of the rate. The items that a
/// layer meets are rounded up to a whole number, and its rate rises at most with the `k · g`th power of that number.
/// Below [`POISSON_FROM`] items nothing is allowed for: there the rate depends on the number of lines in other ways
/// too.
fn rounding(geometry: Geometry, capacity: u64) -> f64 {
    let bits = f64::from(geometry.probes) * f64::from(geometry.lines_per_item);
    if capacity < POISSON_FROM {
        0.0
    } else {
        2.0 * bits / capacity as f64
    }
}

impl Foldable for Blocked {
    fn folded(&self, shape: Shape, items: u64) -> Option<Shape> {
        let Shape {
            geometry,
            capacity,
            rate,
        } = shape;
        let fewest = part(geometry.lines, items, capacity);
        factors(geometry.lines, fewest).find_map(|by| {
            let lines = geometry.lines / by;
            let geometry = Geometry { lines, ..geometry };
            let most = capacity / by;
            if most >= items && geometry.keeps(most, rate * (1.0 + rounding(geometry, most))) {
                let capacity = most;
                return Some(Shape {
                    geometry,
                    capacity,
                    rate,
                });
            }
            // A capacity that is a thousandth smaller is tried before the smallest one.
            let capacities = [most - most / 1024, items];
            let capacity = capacities
                .into_iter()
                .map(|capacity| capacity.max(items))
                .find(|&capacity| geometry.keeps(capacity, rate))?;
            Some(Shape {
                geometry,
                capacity,
                rate: geometry.rate(capacity),
            })
        })
    }

    fn fold(layer: &Layer, shape: Shape) -> Result<Layer, Error> {
        let mut folded = shape.make()?;
        folded.bits_mut().fold_neighbours(layer.bits());
        Ok(folded)
    }
}
