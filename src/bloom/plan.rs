//! What a filter takes before it exists, and after it grew: the layers that it would get, without their memory.
//!
//! The layers come from the same [`Rules`](crate::bloom::chain::Rules) as those of a filter, and the bytes from the
//! same sum; nothing is estimated.

use crate::bloom::bits::memory::Block;
use crate::bloom::blocked::{self, Blocked};
use crate::bloom::chain::{demand, planned};
use crate::bloom::classic::{self, Classic};
use crate::bloom::filter::{LayerShape, bytes, compound};
use crate::bloom::params::{Layout, Spec};

/// The layers that a filter would get, oldest first.
#[derive(Clone, Debug)]
pub struct Plan {
    layout: Layout,
    layers: Vec<LayerShape>,
}

/// A filter once it counts so many items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// The items.
    pub items: u64,
    /// [`Filter::bytes`](super::Filter::bytes) of the filter.
    pub bytes: u64,
    /// Its layers.
    pub layers: usize,
    /// The rate that it has when its newest layer is full; below that it is lower.
    pub error_rate: f64,
}

impl Plan {
    /// A filter that grows until it counts `items`, or has `most` layers, or can grow no more. A layer takes some
    /// 0.1 ms to size.
    pub fn new(spec: Spec, items: u64, most: usize) -> Self {
        let layers = match spec.layout {
            Layout::Blocked { seed } => {
                let rules = Blocked::new(spec.error_rate, spec.growth, seed);
                let layers = planned(&rules, rules.first(spec.capacity), items, most);
                layers.into_iter().map(LayerShape::Blocked).collect()
            }
            Layout::Classic => {
                let spec = spec.into();
                let rules = Classic::new(spec);
                let first = rules.first(spec);
                let hash_width = rules.options().hash_width();
                let layers = planned(&rules, first, items, most).into_iter();
                layers
                    .map(|shape| LayerShape::Classic { shape, hash_width })
                    .collect()
            }
        };
        Self {
            layout: spec.layout,
            layers,
        }
    }

    /// The layers.
    pub fn layers(&self) -> &[LayerShape] {
        &self.layers
    }

    /// The filter once it counts `items`; `None` when the plan's layers do not hold so many.
    pub fn at(&self, items: u64) -> Option<Stage> {
        let mut capacity = 0u64;
        let newest = self.layers.iter().position(|layer| {
            capacity = capacity.saturating_add(layer.capacity());
            capacity >= items
        })?;
        let layers = &self.layers[..=newest];
        let arrays = layers.iter().map(LayerShape::bytes);
        Some(Stage {
            items,
            bytes: bytes(self.layout, layers.len(), arrays.fold(0, u64::saturating_add)),
            layers: layers.len(),
            error_rate: compound(layers.iter().map(LayerShape::error_rate)),
        })
    }

    /// Hands every block of memory of the filter in a stage to `visit`.
    pub fn each_block(&self, stage: &Stage, mut visit: impl FnMut(Block)) {
        let arrays = self.layers[..stage.layers].iter().map(LayerShape::bytes);
        let visit = |block, _| visit(block);
        match self.layout {
            Layout::Blocked { .. } => demand::blocks::<blocked::Layer>(arrays, 0, visit),
            Layout::Classic => demand::blocks::<classic::Layer>(arrays, 0, visit),
        }
    }
}

impl Stage {
    /// Bits for each of its items.
    pub fn bits_per_item(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.items as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::params::{Growth, Seed};
    use crate::bloom::tests::oracle::{growing, item, reserved, spec};
    use crate::bloom::{Filter, UNLIMITED};

    fn specs() -> impl Iterator<Item = Spec> {
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
        let layouts = [Layout::Blocked { seed: Seed(3) }, Layout::Classic];
        growths.into_iter().flat_map(move |growth| {
            sizes.into_iter().flat_map(move |(capacity, rate)| {
                layouts.into_iter().map(move |layout| Spec {
                    layout,
                    ..spec(capacity, rate, growth, 3)
                })
            })
        })
    }

    /// Who plans by the answer would buy too little memory, or too much.
    #[test]
    fn a_plan_is_what_the_filter_becomes() {
        const MOST: usize = 12;
        for spec in specs() {
            let capacity = spec.capacity.items();
            let plan = Plan::new(spec, 50 * capacity, MOST);
            let mut filter = Filter::new(spec, UNLIMITED).unwrap();
            for number in 0u32.. {
                let stage = plan.at(filter.items().max(1));
                let Some(stage) = stage.filter(|_| filter.items() <= 50 * capacity) else {
                    break;
                };
                let shapes: Vec<_> = filter.layer_stats().map(|layer| layer.shape).collect();
                assert_eq!(plan.layers()[..stage.layers], shapes, "{spec:?}");
                assert_eq!(stage.bytes, filter.bytes(), "{spec:?}");
                assert!(
                    stage.error_rate <= spec.error_rate.value() * (1.0 + 1e-9),
                    "{spec:?}"
                );
                if filter.add(&item(number), UNLIMITED).is_err() {
                    break;
                }
            }
            let grown = filter.items() >= 50 * capacity || filter.layers() >= MOST;
            assert!(grown || spec.growth == Growth::Fixed, "{spec:?}");
        }
    }

    /// A plan for the impossible would stop the server.
    #[test]
    fn plans_have_an_end() {
        for spec in specs() {
            let plan = Plan::new(spec, u64::MAX, 5);
            let most = if spec.growth == Growth::Fixed { 1 } else { 5 };
            assert_eq!(plan.layers().len(), most, "{spec:?}");
            assert_eq!(plan.at(0), plan.at(1).map(|stage| Stage { items: 0, ..stage }));
        }
        let fixed = Plan::new(spec(100, 0.01, Growth::Fixed, 3), 1000, 5);
        assert_eq!(
            (fixed.at(100).map(|stage| stage.layers), fixed.at(101)),
            (Some(1), None)
        );
        let steep = Plan::new(spec(1 << 40, 1e-30, growing(32_768), 3), u64::MAX, 100);
        assert_eq!(steep.layers().len(), 3);
        assert_eq!(steep.at(u64::MAX).unwrap().bytes, u64::MAX);
    }
}
