//! The blocked layout, this project's own: an item's probes lie within a few lines of 64 bytes.
//!
//! `sizing` has the theory and the sizes, `layer` the choice of an item's lines, `search` the lookup of
//! many items in a chain, [`secret`] the hash. This module decides how large a filter's next layer is, and
//! how much of the error budget it gets. [`window`] has the filters that forget.

pub(crate) mod layer;
mod search;
pub mod secret;
pub(crate) mod sizing;
pub mod window;

use std::sync::Arc;

use crate::chain::batch::{Hasher, Layer as _};
use crate::chain::{LayerShape, Rules, compound};
use crate::error::Error;
use crate::item::{Item, ItemHash};
use crate::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Window};
pub use layer::{Layer, Shape};
use secret::{HashKey, Secret};

/// The most layers of a filter whose present rate is computed. A stored filter may have any number of layers with room.
pub const MOST_ESTIMATED: usize = 256;

/// What a new filter of this layout is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedSpec {
    /// The false positive rate of the whole filter, which holds at any number of layers.
    pub error_rate: ErrorRate,
    /// The capacity of the first layer. With a window, the number of items expected in it.
    pub capacity: Capacity,
    /// What happens when the filter is full.
    pub growth: Growth,
    /// The seed of the hash.
    pub seed: Seed,
    /// How long items are remembered; `None` means for ever.
    pub window: Option<Window>,
}

impl BlockedSpec {
    /// The rules of a new filter, and the shape of its first layer.
    pub fn start(&self) -> (Blocked, Shape) {
        let rules = self.rules();
        let first = rules.first(self.capacity.items());
        (rules, first)
    }

    /// The rules of the filter.
    pub fn rules(&self) -> Blocked {
        let growth = match self.window {
            None => self.growth,
            // The capacity is that of a usual window, so each slice is made for about the items that it gets.
            Some(_) => Growth::Reserved(self.growth.expansion().unwrap_or(Expansion::DEFAULT)),
        };
        Blocked::new(self.error_rate, growth, self.seed)
    }
}

/// Rules of blocked filters: one error rate for the whole chain, at any length.
///
/// A layer gets a share of what is left of the error budget (see [`Growth::share`]). The rate that it really has at its
/// capacity, after rounding up to whole lines, is then subtracted from the budget. So the sum of the layers' rates, and
/// with it the rate of the chain, never exceeds the filter's rate. (Almeida, Baquero, Preguiça, Hutchison, "Scalable
/// Bloom Filters", 2007, shrink the rates geometrically instead, which needs more bits in every further layer.)
#[derive(Clone, Debug)]
pub struct Blocked {
    secret: Arc<Secret>,
    pub(crate) error_rate: ErrorRate,
    growth: Growth,
}

impl Blocked {
    /// Rules of a filter whose items are hashed under `seed`.
    pub fn new(error_rate: ErrorRate, growth: Growth, seed: Seed) -> Self {
        Self {
            secret: Secret::of(seed),
            error_rate,
            growth,
        }
    }

    /// The shape of a first layer for `capacity` items.
    pub fn first(&self, capacity: u64) -> Shape {
        Shape::sized(capacity, self.growth.share(0) * self.error_rate.value())
    }

    /// The false positive rate that the filter keeps.
    pub fn error_rate(&self) -> ErrorRate {
        self.error_rate
    }

    /// What the filter does when it is full.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// Whether all layers but the newest are full, and each has the capacity of the one before times the expansion.
    fn grew(&self, layers: &[Layer]) -> bool {
        let Some(factor) = self.growth_factor() else {
            return layers.len() <= 1;
        };
        layers.windows(2).all(|pair| {
            let next = pair[0].capacity().saturating_mul(u64::from(factor));
            pair[0].items() >= pair[0].capacity() && pair[1].capacity() == next
        })
    }

    /// The secret of the filter's hash.
    pub fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }
}

impl Rules for Blocked {
    const LAYOUT: Layout = Layout::Blocked;
    type Layer = Layer;
    type Hasher = Secret;

    #[inline(always)]
    fn hasher(&self) -> &Secret {
        &self.secret
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
        Ok(Shape::sized(capacity, self.growth.share(index) * budget.max(0.0)))
    }

    fn growth_factor(&self) -> Option<u32> {
        self.growth.expansion().map(Expansion::factor)
    }

    /// After a merge the first layer is for as many items as the largest one.
    fn first_again(&self, layers: &[Layer]) -> Shape {
        let mut capacities = layers.iter().map(Layer::capacity);
        let capacity = if self.grew(layers) {
            capacities.next()
        } else {
            capacities.max()
        };
        self.first(capacity.unwrap_or(1))
    }

    fn described(&self, shape: Shape) -> LayerShape {
        let bytes = shape.geometry.bytes();
        LayerShape {
            capacity: shape.capacity,
            bytes,
            bits: bytes.saturating_mul(8),
            error_rate: shape.rate,
            lines_per_item: Some(shape.geometry.lines_per_item.into()),
            probes: shape.geometry.probes.into(),
            hash_width: None,
        }
    }

    fn rate_of(&self, _: &[Layer]) -> f64 {
        self.error_rate.value()
    }

    /// See [`Filter::estimated_error_rate`](crate::Filter::estimated_error_rate).
    fn present_rate<'a>(layers: impl Iterator<Item = &'a Layer>) -> f64 {
        let mut estimated = 0;
        compound(layers.map(|layer| {
            let (shape, items) = (layer.shape(), layer.items());
            estimated += usize::from(items < shape.capacity);
            if estimated > MOST_ESTIMATED {
                shape.rate
            } else if items >= shape.capacity {
                shape.full_rate()
            } else {
                shape.geometry.estimated_rate(items)
            }
        }))
    }

    /// Layers know where they start, and there may be many.
    fn place_of(layers: &[Layer], offset: u64) -> Option<(usize, u64)> {
        let layer = layers
            .partition_point(|layer| layer.start() <= offset)
            .checked_sub(1)?;
        let start = layers[layer].start();
        (offset - start < layers[layer].bytes()).then_some((layer, start))
    }
}

impl Hasher for Secret {
    #[inline(always)]
    fn hash(&self, item: Item<'_>) -> ItemHash {
        let known = self.known(item);
        known.unwrap_or_else(|| HashKey::hash(self, item.bytes()))
    }

    #[inline(always)]
    fn known(&self, item: Item<'_>) -> Option<ItemHash> {
        let (under, hash) = item.known?;
        (under == self.seed()).then_some(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::sizing::Geometry;
    use super::*;
    use crate::tests::oracle::reserved;

    /// Early files have loose layers that are a line too small for their rates. What these have overspent is taken from
    /// the layers that follow, so that the filter keeps its rate.
    #[test]
    fn early_loose_layers_are_made_up_for() {
        let rate = ErrorRate::new(0.25).unwrap();
        let rules = Blocked::new(rate, reserved(1), Seed(1));
        let now = rules.first(2931);
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
