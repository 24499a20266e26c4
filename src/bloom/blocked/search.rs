//! The way of a block's items through a chain of layers.
//!
//! Most layers do not hold most items, and say so with an item's first line. So each layer is asked about the
//! first lines of all items, without a branch, and about the other lines of those few that are left. These lines
//! are on their way meanwhile: an item that is in a layer is known to be while the next one is asked. A first line
//! has the same bits in every layer of as many probes: they are computed once for the layers in between.

use super::layer::{Layer, Probing};
use crate::bloom::bits::kernel::{Kernel, Line};
use crate::bloom::chain::batch::{BLOCK, Hashes, Items, Layer as _, Memory, Prefetch as _};

/// Bytes from which on a layer's lines are prefetched: smaller ones stay in a near cache.
const PREFETCH_FROM: u64 = 128 << 10;
/// Items from which on it pays to make their bits ready. Fewer go through the layers one by one.
const MANY: u64 = 8;
/// The newest layers, which most items are in: few items ask for all of their lines there at once.
const NEWEST: usize = 2;
/// Items that are asked about together, as many as the compiler unrolls.
const STRIDE: usize = 4;

/// Those of a block's items that any of `layers`, oldest first, contains.
#[inline(always)]
pub(super) fn any_contains<K: Kernel>(
    layers: &[Layer],
    kernel: K,
    hashes: &Hashes,
    items: Items,
    newest: Memory,
) -> Items {
    if items.count_ones() < MANY {
        return few_contained(layers, kernel, hashes, items);
    }
    Search::new(kernel, hashes, items).through(layers, newest)
}

/// Those of few items that any of `layers` contains.
#[inline(always)]
fn few_contained<K: Kernel>(layers: &[Layer], kernel: K, hashes: &Hashes, items: Items) -> Items {
    for (age, layer) in layers.iter().rev().enumerate() {
        if age < NEWEST {
            ask_for_lines(layer, hashes, items);
        } else {
            ask_for_first_lines(layer, hashes, items);
        }
    }
    let mut found = Items::NONE;
    for at in items {
        found.put_if(at, Layer::any_contains(layers, kernel, hashes[at]));
    }
    found
}

/// Asks for the first lines of items, unless they are near anyway.
#[inline(always)]
fn ask_for_first_lines(layer: &Layer, hashes: &Hashes, items: Items) {
    if layer.bytes() >= PREFETCH_FROM {
        let lines = layer.lines();
        for at in items {
            lines.prefetch_first(hashes[at]);
        }
    }
}

/// Asks for all lines of items, unless they are near anyway.
#[inline(always)]
fn ask_for_lines(layer: &Layer, hashes: &Hashes, items: Items) {
    if layer.bytes() >= PREFETCH_FROM {
        let lines = layer.lines();
        for at in items {
            lines.prefetch(hashes[at]);
        }
    }
}

/// Items on their way through layers.
struct Search<'a, K: Kernel> {
    kernel: K,
    hashes: &'a Hashes,
    /// Those that were not found yet.
    pending: Items,
    /// The bits of their first lines, for so many `probes`. Where no item is pending, they are of no meaning.
    masks: [K::Mask; BLOCK],
    probes: u8,
}

impl<'a, K: Kernel> Search<'a, K> {
    #[inline(always)]
    fn new(kernel: K, hashes: &'a Hashes, items: Items) -> Self {
        Self {
            kernel,
            hashes,
            pending: items,
            masks: [kernel.mask(0, kernel.count(0)); BLOCK],
            probes: 0,
        }
    }

    /// Those that any of `layers` contains.
    #[inline(always)]
    fn through(mut self, layers: &[Layer], newest: Memory) -> Items {
        let items = self.pending;
        if let [.., layer] = layers
            && newest == Memory::Unasked
        {
            ask_for_first_lines(layer, self.hashes, items);
        }
        let (mut rest, mut open) = (layers, None);
        while let [older @ .., layer] = rest
            && !self.pending.is_empty()
        {
            if let [.., next] = older {
                ask_for_first_lines(next, self.hashes, self.pending);
            }
            let possible = self.possible_in(layer);
            ask_for_lines(layer, self.hashes, possible);
            if let Some((newer, possible)) = open.replace((layer, possible)) {
                self.decide(newer, possible);
            }
            rest = older;
        }
        if let Some((oldest, possible)) = open {
            self.decide(oldest, possible);
        }
        items.without(self.pending)
    }

    /// Those whose first lines in the layer cover them.
    #[inline(always)]
    fn possible_in(&mut self, layer: &Layer) -> Items {
        let probing = layer.probing(self.kernel);
        if self.probes != layer.probes() {
            self.probes = layer.probes();
            for at in self.pending {
                self.masks[at] = probing.first_mask(self.hashes[at]);
            }
        }
        self.first_lines_cover(layer.bits().units(), probing)
    }

    /// Leaves those of the possible items pending whose other lines in the layer do not cover them.
    #[inline(always)]
    fn decide(&mut self, layer: &Layer, possible: Items) {
        let (units, probing) = (layer.bits().units(), layer.probing(self.kernel));
        let mut found = Items::NONE;
        for at in possible {
            found.put_if(at, probing.covers_from(1, units, self.hashes[at]));
        }
        self.pending = self.pending.without(found);
    }

    /// Those that their first lines cover.
    #[inline(always)]
    fn first_lines_cover(&self, units: &[Line], probing: Probing<K>) -> Items {
        let (mut covered, end) = (Items::NONE, self.pending.end());
        // While most are pending, to ask about the others in vain costs less than to go from bit to bit.
        if 4 * self.pending.count_ones() < 3 * end as u64 {
            for at in self.pending {
                let line = &units[probing.first_line(self.hashes[at])];
                covered.put_if(at, self.kernel.covers(line, self.masks[at]));
            }
            return covered;
        }
        let (hashes, _) = self.hashes.as_chunks::<STRIDE>();
        let (masks, _) = self.masks.as_chunks::<STRIDE>();
        let strides = hashes.iter().zip(masks).take(end.div_ceil(STRIDE));
        for (stride, (hashes, masks)) in strides.enumerate() {
            let mut some = Items::NONE;
            for (at, (&hash, &mask)) in hashes.iter().zip(masks).enumerate() {
                some.put_if(at, self.kernel.covers(&units[probing.first_line(hash)], mask));
            }
            covered.put_all(some.later_by(stride * STRIDE));
        }
        covered.and(self.pending)
    }
}
