//! The blocked layout, which is this project's own: an item's probes lie within a few lines of 64 bytes.
//!
//! [`sizing`] has the theory and the sizes, [`layer`] the choice of an item's lines, `search` the way of many items
//! through a chain, [`secret`] the hash. Which layer a filter gets next, and what of its error budget, is here.

pub mod layer;
mod search;
pub mod secret;
pub mod sizing;

use std::sync::Arc;

use crate::bloom::chain::Rules;
use crate::bloom::chain::batch::Hasher;
use crate::bloom::chain::window::Sizing;
use crate::bloom::error::Error;
use crate::bloom::item::{Item, ItemHash};
use crate::bloom::params::{Capacity, ErrorRate, Expansion, Growth, Seed};
pub use layer::{Layer, Shape};
use secret::{Key, Secret};

/// The rules of blocked filters: one error rate for the whole chain, at any length.
///
/// A layer takes a share of what is left of the error budget (see [`Growth::share`]), and the rate that it
/// then really has at its capacity, after rounding up to whole lines, is taken off the budget. The sum of
/// the layers' rates, and so the rate of the chain, can never exceed what was asked for. (Almeida,
/// Baquero, Preguiça, Hutchison, "Scalable Bloom Filters", 2007, shrink the rates geometrically instead,
/// which takes more bits in every further layer.)
#[derive(Debug)]
pub struct Blocked {
    secret: Arc<Secret>,
    error_rate: ErrorRate,
    growth: Growth,
}

impl Blocked {
    /// Rules with the hash of `seed`.
    pub fn new(error_rate: ErrorRate, growth: Growth, seed: Seed) -> Self {
        Self {
            secret: Secret::of(seed),
            error_rate,
            growth,
        }
    }

    /// The first layer, for `capacity` items.
    pub fn first(&self, capacity: Capacity) -> Shape {
        self.first_for(capacity.items())
    }

    /// The same for a capacity that a grown layer may have.
    pub fn first_for(&self, capacity: u64) -> Shape {
        self.nth(0, capacity, self.error_rate.value())
    }

    /// The same rules, but for the rate if one is given.
    pub fn alike(&self, error_rate: Option<ErrorRate>) -> Self {
        Self {
            secret: Arc::clone(&self.secret),
            error_rate: error_rate.unwrap_or(self.error_rate),
            growth: self.growth,
        }
    }

    /// The rate that the filter keeps.
    pub fn error_rate(&self) -> ErrorRate {
        self.error_rate
    }

    /// What the filter does when it is full.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// The key of the hash.
    pub fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    fn nth(&self, index: usize, capacity: u64, budget: f64) -> Shape {
        Shape::sized(capacity, self.growth.share(index) * budget)
    }
}

impl Rules for Blocked {
    type Layer = Layer;
    type Plan = Shape;
    type Hasher = Secret;

    #[inline(always)]
    fn hasher(&self) -> &Secret {
        &self.secret
    }

    fn plan_of(layer: &Layer) -> Shape {
        layer.shape()
    }

    fn next(
        &self,
        layers: impl ExactSizeIterator<Item = Shape> + DoubleEndedIterator,
    ) -> Result<Shape, Error> {
        let index = layers.len();
        let (full, budget) = layers.fold((0, self.error_rate.value()), |(_, budget), layer| {
            (layer.capacity, budget - layer.full_rate())
        });
        let expansion = self.growth.expansion().ok_or(Error::Full { capacity: full })?;
        let capacity = full.saturating_mul(u64::from(expansion.factor()));
        Ok(self.nth(index, capacity, budget.max(0.0)))
    }
}

impl Sizing for Blocked {
    fn budget(&self) -> f64 {
        self.error_rate.value()
    }

    fn factor(&self) -> u32 {
        self.growth.expansion().map_or(1, Expansion::factor)
    }

    fn sized(capacity: u64, rate: f64) -> Shape {
        Shape::sized(capacity, rate)
    }

    fn rate(plan: &Shape) -> f64 {
        plan.full_rate()
    }
}

impl Hasher for Secret {
    #[inline(always)]
    fn hash(&self, item: Item<'_>) -> ItemHash {
        let known = item.hash_under(self.seed());
        known.unwrap_or_else(|| Key::hash(self, item.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::sizing::Geometry;
    use super::*;
    use crate::bloom::tests::oracle::reserved;

    /// Filters of early files have loose layers that are a line too small for their rate. What such a layer has
    /// spent beyond it is taken from those to come, so that the filter as a whole keeps its rate.
    #[test]
    fn early_loose_layers_are_made_up_for() {
        let rate = ErrorRate::new(0.25).unwrap();
        let rules = Blocked::new(rate, reserved(1), Seed(1));
        let now = rules.first(Capacity::new(2931).unwrap());
        let early = Shape {
            geometry: Geometry {
                lines: now.geometry.lines - 1,
                ..now.geometry
            },
            rate: 0.2,
            ..now
        };
        let mut layers = vec![early];
        for _ in 0..150 {
            layers.push(rules.next(layers.iter().copied()).unwrap());
        }
        let spent = |shape: &Shape| shape.geometry.rate(shape.capacity);
        assert!(spent(&early) > 0.2 * 1.001, "{early:?}");
        let sum: f64 = layers.iter().map(spent).sum();
        assert!(sum <= rate.value() * (1.0 + 1e-9), "{sum}");
        let stored: f64 = layers.iter().map(|shape| shape.rate).sum();
        assert!(stored <= rate.value() && stored > 0.24, "{stored}");
    }
}
