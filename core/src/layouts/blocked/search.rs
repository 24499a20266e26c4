//! Looking up a block of items in a chain of layers.
//!
//! Most layers do not hold most items, and mostly an item's first line is enough to see that. So in each layer the
//! first lines of all items are tested, without a branch, and then the other lines of the few items that are left.
//! These are prefetched, and tested while the next layer is being read. An item's first line has the same bits in every
//! layer with the same number of probes, so they are computed once for a run of such layers.

use super::layer::{Layer, Prober};
use crate::bits::kernel::{Kernel, Line};
use crate::chain::batch::{BLOCK, Hashes, Layer as _, Prefetch as _, Prefetched, Subset};

/// Lines are prefetched in layers of this many bytes or more; smaller layers stay in a near cache.
const PREFETCH_FROM: u64 = 128 << 10;
/// From this many items on, computing their bits ahead pays off. Fewer are looked up one by one.
const MANY: u64 = 8;
/// In so many newest layers, which hold most items, all lines are prefetched at once when few items are looked up.
const NEWEST: usize = 2;
/// The number of items that are tested together: the compiler unrolls a loop over this many.
const STRIDE: usize = 4;

/// The items of a block that any of `layers`, newest first, contains.
#[inline(always)]
pub(super) fn any_contains<'a, K: Kernel>(
    layers: impl Iterator<Item = &'a Layer> + Clone,
    kernel: K,
    hashes: &Hashes,
    items: Subset,
    newest: Prefetched,
) -> Subset {
    if items.count_ones() < MANY {
        return each_contained(layers, kernel, hashes, items);
    }
    Search::new(kernel, hashes, items).through(layers, newest)
}

/// Looks up fewer than [`MANY`] items, one by one.
#[inline(always)]
fn each_contained<'a, K: Kernel>(
    layers: impl Iterator<Item = &'a Layer> + Clone,
    kernel: K,
    hashes: &Hashes,
    items: Subset,
) -> Subset {
    for (age, layer) in layers.clone().enumerate() {
        if age < NEWEST {
            prefetch_lines(layer, hashes, items);
        } else {
            prefetch_first_lines(layer, hashes, items);
        }
    }
    let mut found = Subset::NONE;
    for at in items {
        found.put_if(at, Layer::any_contains(layers.clone(), kernel, hashes[at]));
    }
    found
}

/// Prefetches the items' first lines, unless the layer is small enough to be in a near cache.
#[inline(always)]
fn prefetch_first_lines(layer: &Layer, hashes: &Hashes, items: Subset) {
    if layer.bytes() >= PREFETCH_FROM {
        let lines = layer.line_prefetcher();
        for at in items {
            lines.prefetch_first(hashes[at]);
        }
    }
}

/// Prefetches all lines of the items, unless the layer is small enough to be in a near cache.
#[inline(always)]
fn prefetch_lines(layer: &Layer, hashes: &Hashes, items: Subset) {
    if layer.bytes() >= PREFETCH_FROM {
        let lines = layer.line_prefetcher();
        for at in items {
            lines.prefetch(hashes[at]);
        }
    }
}

/// A lookup of many items, layer by layer.
struct Search<'a, K: Kernel> {
    kernel: K,
    hashes: &'a Hashes,
    /// Items not found yet.
    pending: Subset,
    /// The bits of the pending items' first lines, for layers with `probes` probes; the others mean nothing.
    masks: [K::Mask; BLOCK],
    probes: u8,
}

impl<'a, K: Kernel> Search<'a, K> {
    #[inline(always)]
    fn new(kernel: K, hashes: &'a Hashes, items: Subset) -> Self {
        Self {
            kernel,
            hashes,
            pending: items,
            masks: [kernel.mask(0, kernel.count(0)); BLOCK],
            probes: 0,
        }
    }

    #[inline(always)]
    fn through<'l>(mut self, layers: impl Iterator<Item = &'l Layer>, newest: Prefetched) -> Subset {
        let (items, mut layers) = (self.pending, layers.peekable());
        if let Some(layer) = layers.peek()
            && newest == Prefetched::No
        {
            prefetch_first_lines(layer, self.hashes, items);
        }
        // The layer whose other lines are still to be tested, and the items to test there.
        let mut undecided = None;
        while !self.pending.is_empty()
            && let Some(layer) = layers.next()
        {
            if let Some(next) = layers.peek() {
                prefetch_first_lines(next, self.hashes, self.pending);
            }
            let possible = self.possible_in(layer);
            prefetch_lines(layer, self.hashes, possible);
            if let Some((newer, possible)) = undecided.replace((layer, possible)) {
                self.decide(newer, possible);
            }
        }
        if let Some((oldest, possible)) = undecided {
            self.decide(oldest, possible);
        }
        items.without(self.pending)
    }

    /// The pending items whose first lines in `layer` have all their bits set.
    #[inline(always)]
    fn possible_in(&mut self, layer: &Layer) -> Subset {
        let prober = layer.prober(self.kernel);
        if self.probes != layer.probes() {
            self.probes = layer.probes();
            for at in self.pending {
                self.masks[at] = prober.first_mask(self.hashes[at]);
            }
        }
        self.first_lines_cover(layer.bits().units(), prober)
    }

    /// Tests the other lines of the `possible` items in `layer`; the items that it contains are no longer pending.
    #[inline(always)]
    fn decide(&mut self, layer: &Layer, possible: Subset) {
        let (units, prober) = (layer.bits().units(), layer.prober(self.kernel));
        let mut found = Subset::NONE;
        for at in possible {
            found.put_if(at, prober.covers_others(units, self.hashes[at]));
        }
        self.pending = self.pending.without(found);
    }

    /// The pending items whose first lines in `units` have all their bits set.
    #[inline(always)]
    fn first_lines_cover(&self, units: &[Line], prober: Prober<K>) -> Subset {
        let (mut covered, end) = (Subset::NONE, self.pending.end());
        // While most items are pending, testing the others too costs less than going from set bit to set bit.
        if 4 * self.pending.count_ones() < 3 * end as u64 {
            for at in self.pending {
                let line = &units[prober.first_line(self.hashes[at])];
                covered.put_if(at, self.kernel.covers(line, self.masks[at]));
            }
            return covered;
        }
        let (hashes, _) = self.hashes.as_chunks::<STRIDE>();
        let (masks, _) = self.masks.as_chunks::<STRIDE>();
        let strides = hashes.iter().zip(masks).take(end.div_ceil(STRIDE));
        for (stride, (hashes, masks)) in strides.enumerate() {
            let mut some = Subset::NONE;
            for (at, (&hash, &mask)) in hashes.iter().zip(masks).enumerate() {
                some.put_if(at, self.kernel.covers(&units[prober.first_line(hash)], mask));
            }
            covered.put_all(some.later_by(stride * STRIDE));
        }
        covered.and(self.pending)
    }
}
