//! Folding layers of the blocked layout.
//!
//! An item's line is number `⌊c · lines / 2^64⌋` of its partition, so with `d` times as many lines it is one of the `d`
//! lines that begin with `d` times that number: `⌊⌊c · d · lines / 2^64⌋ / d⌋ = ⌊c · lines / 2^64⌋`. The bits within a
//! line do not depend on the number of lines. So the OR of `d` neighbours is the line of a layer that was made smaller.

use super::sizing::Geometry;
use super::{Blocked, Layer, Shape};
use crate::chain::NewLayer as _;
use crate::error::Error;
use crate::folding::{Foldable, factors, part};

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
            // The part of the capacity that belongs to these lines may be above the rate by rounding.
            let most = capacity / by;
            let capacities = [
                most,
                most.saturating_sub(most / 65_536 + 1),
                most.saturating_sub(most / 1024 + 1),
                items,
            ];
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
        folded.bits_mut().take_neighbours(layer.bits());
        Ok(folded)
    }
}
