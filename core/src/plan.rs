//! Forecasts: which layers a filter will have, and how much memory, before it is made and as it grows.
//!
//! The layers come from the [`Rules`] of real filters, and the same code adds up their bytes. Nothing is estimated.

use std::borrow::Cow;

use crate::chain::{LayerShape, MOST_ITEMS, MOST_LAYERS, Rules, ShapeOf, compound, planned, sum};
use crate::layouts::blocked::Blocked;
use crate::layouts::blocked::window::{self, Windowed};
use crate::params::{Capacity, Window};
use crate::spec::Spec;

/// A forecast of the layers that a filter will have.
///
/// ```
/// use libbloom::Filter;
///
/// let plan = Filter::builder(1_000_000, 0.001).plan(1_000_000)?;
/// assert_eq!(plan.at(1_000_000).map(|stage| stage.bytes), Some(1_893_984));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    /// [`Rules::bytes`] of such filters.
    bytes: fn(usize, u64) -> u64,
    window: Option<(Blocked, Capacity, Window)>,
    /// The layers, oldest first. For a filter with a window, the layers at the expected number of items in each window.
    layers: Vec<LayerShape>,
}

/// A filter at the moment when it counts a given number of items.
///
/// ```
/// # use libbloom::Filter;
/// let plan = Filter::builder(1000, 0.01).plan(10_000)?;
/// let stage = plan.at(10_000).ok_or("the plan is shorter")?;
/// assert!(stage.error_rate <= 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Number of items.
    pub items: u64,
    /// [`Filter::bytes`](super::Filter::bytes) of the filter.
    pub bytes: u64,
    /// Number of layers.
    pub layers: usize,
    /// The false positive rate once the newest layer is full; until then it is lower.
    pub error_rate: f64,
}

impl Plan {
    /// The filter once it counts `items`, or `None` if the forecast's layers do not hold that many. With a
    /// window: once `items` items have arrived in each window for some time.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let plan = Filter::builder(1000, 0.01).plan(10_000)?;
    /// assert_eq!(plan.at(1000).map(|stage| stage.layers), Some(1));
    /// assert!(plan.at(1_000_000).is_none());
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn at(&self, items: u64) -> Option<Stage> {
        let layers = self.layers_at(items)?;
        let arrays = sum(layers.iter().map(|layer| layer.bytes));
        Some(Stage {
            items,
            bytes: (self.bytes)(layers.len(), arrays),
            layers: layers.len(),
            error_rate: compound(layers.iter().map(|layer| layer.error_rate)),
        })
    }
}

/// What only this project's server module calls. The pages on docs.rs leave it out.
#[cfg_attr(docsrs, doc(hidden))]
#[expect(
    clippy::disallowed_methods,
    reason = "a forecast has as many layers as its caller allows"
)]
impl Plan {
    /// Forecasts a filter that grows until it counts `items`, has `most` layers, or is full. A layer takes some 0.1 ms.
    pub fn new(spec: Spec, items: u64, most: usize) -> Self {
        match spec {
            Spec::Blocked(spec) => match spec.window {
                Some(window) => Self::of_window(spec.rules(), spec.capacity, window),
                None => Self::of(spec.start(), items, most),
            },
            Spec::Classic(spec) => Self::of(spec.start(), items, most),
            Spec::Valkey(spec) => Self::of(spec.start(), items, most),
        }
    }

    fn of_window(rules: Blocked, capacity: Capacity, window: Window) -> Self {
        let layers = window::planned(&rules, capacity, window, capacity.items()).into_iter();
        Self {
            bytes: |layers, arrays| Windowed::bytes_of(layers, 0, arrays),
            layers: layers.map(|shape| rules.described(shape)).collect(),
            window: Some((rules, capacity, window)),
        }
    }

    fn of<R: Rules>((rules, first): (R, ShapeOf<R>), items: u64, most: usize) -> Self {
        let layers = planned(&rules, first, items, most).into_iter();
        Self {
            bytes: R::bytes,
            layers: layers.map(|shape| rules.described(shape)).collect(),
            window: None,
        }
    }

    /// The layers, oldest first.
    pub fn layers(&self) -> &[LayerShape] {
        &self.layers
    }

    fn layers_at(&self, items: u64) -> Option<Cow<'_, [LayerShape]>> {
        if let Some((rules, capacity, window)) = &self.window {
            let layers = window::planned(rules, *capacity, *window, items).into_iter();
            return Some(layers.map(|shape| rules.described(shape)).collect());
        }
        let mut capacity = 0u64;
        let newest = self.layers.iter().position(|layer| {
            capacity = capacity.saturating_add(layer.capacity);
            capacity >= items
        })?;
        Some(Cow::Borrowed(&self.layers[..=newest]))
    }
}

impl Spec {
    /// The capacity of the filter with all the layers that it can have. In the layouts of RedisBloom and valkey-bloom
    /// it takes as long as making some ten filters.
    pub fn most_items(&self) -> u64 {
        let Some(factor) = self.expansion() else {
            return self.capacity();
        };
        let items = if let Self::Blocked(_) = self {
            let next = |layer: &u64| Some(layer.saturating_mul(factor.into()));
            sum(std::iter::successors(Some(self.capacity()), next).take(MOST_LAYERS))
        } else {
            // The error rates of these layouts shrink from layer to layer, and may reach 0 before.
            let plan = Plan::new(*self, u64::MAX, MOST_LAYERS);
            sum(plan.layers().iter().map(|layer| layer.capacity))
        };
        items.min(MOST_ITEMS)
    }
}

impl Stage {
    /// Bits of memory for each item.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let plan = Filter::builder(1_000_000, 0.01).plan(1_000_000)?;
    /// let bits = plan.at(1_000_000).map(|stage| stage.bits_per_item());
    /// assert!(bits.is_some_and(|bits| (10.0..11.0).contains(&bits)));
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn bits_per_item(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.items as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Growth, Layout};
    use crate::spec::BlockedSpec;
    use crate::tests::oracle::{growing, item, reserved, spec};
    use crate::{Filter, UNLIMITED};

    fn specs() -> impl Iterator<Item = (BlockedSpec, Spec)> {
        let growths = [
            Growth::Fixed,
            reserved(1),
            reserved(2),
            reserved(7),
            growing(1),
            growing(2),
            growing(32_768),
        ];
        let sizes = [(1, 0.01), (13, 0.25), (20, 1e-4), (100, 1e-8)];
        growths.into_iter().flat_map(move |growth| {
            sizes.into_iter().flat_map(move |(capacity, rate)| {
                let blocked = spec(capacity, rate, growth, 3);
                let layouts = Layout::ALL.iter();
                layouts.map(move |&layout| (blocked, blocked.in_layout(layout).unwrap()))
            })
        })
    }

    /// The forecast is what the filter takes in the end.
    #[test]
    fn a_plan_is_what_the_filter_becomes() {
        const MOST: usize = 12;
        for (BlockedSpec { growth, .. }, spec) in specs() {
            let capacity = spec.capacity();
            let plan = Plan::new(spec, 50 * capacity, MOST);
            assert_eq!(Plan::new(spec, capacity, MOST).layers().len(), 1, "{spec:?}");
            let mut filter = Filter::new(spec, UNLIMITED).unwrap();
            for number in 0u32.. {
                let stage = plan.at(filter.items().max(1));
                let Some(stage) = stage.filter(|_| filter.items() <= 50 * capacity) else {
                    break;
                };
                let shapes: Vec<_> = filter.layer_stats().map(|layer| layer.shape).collect();
                assert_eq!(plan.layers()[..stage.layers], shapes, "{spec:?}");
                assert_eq!(stage.bytes, filter.bytes(), "{spec:?}");
                // valkey-bloom gives the whole rate to the first layer, and half of it to the next one.
                let kept = if spec.layout() == Layout::Valkey { 2.0 } else { 1.0 };
                assert!(
                    stage.error_rate <= spec.error_rate() * kept * (1.0 + 1e-9),
                    "{spec:?}"
                );
                if filter.add(&item(number), 0, UNLIMITED).is_err() {
                    break;
                }
            }
            let grown = filter.items() >= 50 * capacity || filter.layers() >= MOST;
            assert!(grown || growth == Growth::Fixed, "{spec:?}");
        }
    }

    /// A forecast for an impossible filter does not stall the server.
    #[test]
    fn plans_have_an_end() {
        for (BlockedSpec { growth, .. }, spec) in specs() {
            let plan = Plan::new(spec, u64::MAX, 5);
            let most = if growth == Growth::Fixed { 1 } else { 5 };
            // In valkey-bloom's layout there is no layer whose capacity would overflow.
            let last = spec.capacity().checked_mul(1 << 60);
            let ends = spec.layout() == Layout::Valkey && growth == growing(32_768) && last.is_none();
            let fewer = usize::from(ends);
            assert_eq!(plan.layers().len(), most - fewer, "{spec:?}");
            assert_eq!(plan.at(0), plan.at(1).map(|stage| Stage { items: 0, ..stage }));
        }
        let fixed = Plan::new(spec(100, 0.01, Growth::Fixed, 3).into(), 1000, 5);
        assert_eq!(
            (fixed.at(100).map(|stage| stage.layers), fixed.at(101)),
            (Some(1), None)
        );
        let steep = Plan::new(spec(1 << 40, 1e-30, growing(32_768), 3).into(), u64::MAX, 100);
        assert_eq!(steep.layers().len(), 3);
        assert_eq!(steep.at(u64::MAX).unwrap().bytes, u64::MAX);
    }
}
