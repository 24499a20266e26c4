//! What a filter takes before it exists, and after it grew: the layers that it would get, without their memory.
//!
//! The layers come from the same [`Rules`](crate::bloom::chain::Rules) as those of a filter, and the bytes from the
//! same sum; nothing is estimated.

use std::borrow::Cow;

use crate::bloom::bits::memory::Block;
use crate::bloom::blocked::{self, Blocked};
use crate::bloom::chain::demand::Frame;
use crate::bloom::chain::window::{self, Ring};
use crate::bloom::chain::{Rules as _, demand, planned};
use crate::bloom::classic::{self, Classic};
use crate::bloom::filter::{LayerShape, bytes, compound, windowed_bytes};
use crate::bloom::params::{Capacity, ClassicSpec, Layout, Spec, ValkeySpec, Window};
use crate::bloom::valkey::{self, Valkey};

/// The layers that a filter would get.
#[derive(Debug)]
pub struct Plan {
    layout: Layout,
    window: Option<(Blocked, Capacity, Window)>,
    /// Oldest first. Of a window those of the stream for which it is made: another one has others.
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
        let seed = match spec.layout {
            Layout::Blocked { seed } => seed,
            Layout::Classic => return Self::classic(spec.into(), items, most),
            Layout::Valkey { seed, tightening } => {
                return Self::valkey(ValkeySpec::of(spec, tightening, seed), items, most);
            }
        };
        let rules = Blocked::new(spec.error_rate, spec.growth, seed);
        let layers = match spec.window {
            Some(window) => window::planned(&rules, spec.capacity, window, spec.capacity.items()),
            None => planned(&rules, rules.first(spec.capacity), items, most),
        };
        Self {
            layout: spec.layout,
            window: spec.window.map(|window| (rules, spec.capacity, window)),
            layers: layers.into_iter().map(LayerShape::Blocked).collect(),
        }
    }

    /// The same of a classic filter, with all that RedisBloom takes.
    pub fn classic(spec: ClassicSpec, items: u64, most: usize) -> Self {
        let rules = Classic::new(spec);
        let hash_width = rules.options().hash_width();
        let layers = planned(&rules, rules.first(spec), items, most).into_iter();
        Self {
            layout: Layout::Classic,
            window: None,
            layers: layers
                .map(|shape| LayerShape::Classic { shape, hash_width })
                .collect(),
        }
    }

    /// The same of a filter in valkey-bloom's layout, with all that valkey-bloom takes.
    pub fn valkey(spec: ValkeySpec, items: u64, most: usize) -> Self {
        let rules = Valkey::new(spec);
        let layers = planned(&rules, rules.first(spec.capacity()), items, most);
        let (seed, tightening) = (spec.seed(), spec.tightening());
        Self {
            layout: Layout::Valkey { seed, tightening },
            window: None,
            layers: layers.into_iter().map(LayerShape::Valkey).collect(),
        }
    }

    /// The layers.
    pub fn layers(&self) -> &[LayerShape] {
        &self.layers
    }

    /// The filter once it counts `items`; `None` when the plan's layers do not hold so many. Of a window: once so
    /// many came in each window for some time.
    pub fn at(&self, items: u64) -> Option<Stage> {
        let layers = self.layers_at(items)?;
        let arrays = layers.iter().map(LayerShape::bytes);
        let arrays = arrays.fold(0, u64::saturating_add);
        Some(Stage {
            items,
            bytes: match self.window {
                Some(_) => windowed_bytes(layers.len(), arrays),
                None => bytes(self.layout, layers.len(), arrays),
            },
            layers: layers.len(),
            error_rate: compound(layers.iter().map(LayerShape::error_rate)),
        })
    }

    fn layers_at(&self, items: u64) -> Option<Cow<'_, [LayerShape]>> {
        if let Some((rules, capacity, window)) = &self.window {
            let layers = window::planned(rules, *capacity, *window, items).into_iter();
            return Some(layers.map(LayerShape::Blocked).collect());
        }
        let mut capacity = 0u64;
        let newest = self.layers.iter().position(|layer| {
            capacity = capacity.saturating_add(layer.capacity());
            capacity >= items
        })?;
        Some(Cow::Borrowed(&self.layers[..=newest]))
    }

    /// Hands every block of memory of the filter in a stage to `visit`.
    pub fn each_block(&self, stage: &Stage, mut visit: impl FnMut(Block)) {
        let layers = self.layers_at(stage.items).unwrap_or_default();
        let arrays = layers.iter().map(LayerShape::bytes);
        let visit = |block, _| visit(block);
        match (self.layout, &self.window) {
            (Layout::Blocked { .. }, Some(_)) => {
                demand::blocks::<blocked::Layer>(Ring::<Blocked>::FRAME, arrays, 0, visit);
            }
            (Layout::Blocked { .. }, None) => {
                demand::blocks::<blocked::Layer>(Frame::CHAIN, arrays, 0, visit);
            }
            (Layout::Classic, _) => demand::blocks::<classic::Layer>(Frame::CHAIN, arrays, 0, visit),
            (Layout::Valkey { .. }, _) => demand::blocks::<valkey::Layer>(Valkey::FRAME, arrays, 0, visit),
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
    use crate::bloom::tests::oracle::{VALKEY, growing, item, reserved, spec};
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
        let layouts = [Layout::Blocked { seed: Seed(3) }, Layout::Classic, VALKEY];
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
                let kept = if spec.layout == VALKEY { 2.0 } else { 1.0 };
                assert!(
                    stage.error_rate <= spec.error_rate.value() * kept * (1.0 + 1e-9),
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
            // In valkey-bloom's layout a capacity that is beyond all counting is none.
            let last = spec.capacity.items().checked_mul(1 << 60);
            let ends = spec.layout == VALKEY && spec.growth == growing(32_768) && last.is_none();
            let fewer = usize::from(ends);
            assert_eq!(plan.layers().len(), most - fewer, "{spec:?}");
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
