//! What a blocked layer does with items, one by one and in blocks.

use bytemuck::Zeroable;

use super::super::search;
use super::{Layer, Placement, Shape, Start};
use crate::bits::array::{BitArray, OutOfRange};
use crate::bits::kernel::{Kernel, LINE_BYTES, Line, Vector};
use crate::bits::memory::{Allocation, Mover};
use crate::chain::batch::{self, Hasher, Hashes, Prefetch, Prefetched, Subset};
use crate::error::Error;
use crate::item::ItemHash;

/// Looks up an item that has one line, of which half of the hash is enough. It takes the lines and the number of probes
/// rather than the layer, so that a loop over items reads them once.
#[inline(always)]
fn contains_in_line(units: &[Line], kernel: Vector, (low, probes): (u64, <Vector as Kernel>::Count)) -> bool {
    let place = Placement::in_one_line(units, low);
    kernel.has(&units[place.line], place.word, probes)
}

/// Adds an item that has one line.
#[inline(always)]
fn insert_in_line(layer: &mut Layer, kernel: Vector, low: u64) -> bool {
    let prober = layer.prober(kernel);
    let units = layer.bits.units_mut();
    let place = Placement::in_one_line(units, low);
    let newly_set = kernel.set_one(&mut units[place.line], place.word, prober.probes);
    layer.count(newly_set)
}

impl batch::Layer for Layer {
    type Shape = Shape;

    fn make(shape: Shape) -> Result<Self, Error> {
        let bits = BitArray::zeroed(shape.geometry.total_lines())?;
        Ok(Self::stored(shape, bits, 0))
    }

    fn shape(&self) -> Shape {
        Shape {
            geometry: self.geometry(),
            capacity: self.capacity,
            rate: self.rate,
        }
    }

    fn ones(&self) -> u64 {
        self.bits.ones()
    }

    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn items(&self) -> u64 {
        self.items
    }

    fn bytes(&self) -> u64 {
        self.geometry().bytes()
    }

    fn bytes_of_all(layers: &[Self]) -> u64 {
        let end = |newest: &Self| newest.start().saturating_add(newest.bytes());
        match layers {
            [oldest, .., newest] => end(newest).saturating_sub(oldest.start()),
            [only] => only.bytes(),
            [] => 0,
        }
    }

    fn array(&self) -> &[u8] {
        self.bits.bytes()
    }

    fn merge(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.bits.merge(offset, bytes)
    }

    fn start_at(&mut self, bytes: u64) {
        self.start = Start::of_lines(bytes / LINE_BYTES);
    }

    fn allocation(&self) -> Option<Allocation> {
        self.bits.allocation()
    }

    fn relocate(&mut self, mover: &mut impl Mover) {
        self.bits.relocate(mover);
    }

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        self.line_prefetcher()
    }

    #[inline(always)]
    fn lookup_prefetcher(&self, is_only: bool) -> impl Prefetch {
        // Of many layers, even the newest mostly lacks the item, and its first line is mostly enough to see that.
        if is_only {
            self.line_prefetcher()
        } else {
            self.line_prefetcher().only_first()
        }
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool {
        self.prober(kernel).covers_all(self.bits.units(), hash)
    }

    #[inline(always)]
    fn contains_in_only_layer(&self, hasher: &impl Hasher, item: &[u8]) -> Option<bool> {
        let kernel = self.for_one_line?;
        let (low, probes) = (hasher.hash(item.into()).low, kernel.count(self.probes()));
        Some(kernel.run_on_one(contains_in_line, self.bits.units(), (low, probes)))
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Subset) -> Subset {
        let (units, prober) = (self.bits.units(), self.prober(kernel));
        if prober.placement.lines_per_item == 1 {
            prober.only(1).covered(units, hashes, items)
        } else {
            prober.covered(units, hashes, items)
        }
    }

    #[inline(always)]
    fn any_contains<'a, K: Kernel>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        kernel: K,
        hash: ItemHash,
    ) -> bool {
        // An item's first line has the same bits in every layer with as many probes, and is mostly the only one read.
        let Some(newest) = layers.clone().next() else {
            return false;
        };
        let word = newest.placement().first(hash).word;
        let mut probes = newest.probes();
        let mut mask = kernel.mask(word, kernel.count(probes));
        for layer in layers {
            if layer.probes() != probes {
                probes = layer.probes();
                mask = kernel.mask(word, kernel.count(probes));
            }
            let (units, prober) = (layer.bits.units(), layer.prober(kernel));
            let place = prober.placement.first(hash);
            if kernel.covers(&units[place.line], mask) && prober.covers_others(units, hash) {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn any_contains_block<'a, K: Kernel>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        kernel: K,
        hashes: &Hashes,
        items: Subset,
        newest: Prefetched,
    ) -> Subset {
        search::any_contains(layers, kernel, hashes, items, newest)
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool {
        let prober = self.prober(kernel);
        let units = self.bits.units_mut();
        // A branch, as where an item has one line.
        let newly_set = if prober.covers_all(units, hash) {
            0
        } else {
            prober.set_all(units, hash, &mut Line::zeroed())
        };
        self.count(newly_set)
    }

    #[inline(always)]
    fn insert_into_only_layer(&mut self, hasher: &impl Hasher, item: &[u8]) -> Option<bool> {
        let kernel = self.for_one_line?;
        Some(kernel.run_on_one(insert_in_line, self, hasher.hash(item.into()).low))
    }

    #[inline(always)]
    fn insert_block<K: Kernel>(&mut self, kernel: K, hashes: &Hashes, items: Subset) -> Subset {
        let prober = self.prober(kernel);
        let units = self.bits.units_mut();
        let (changed, newly_set) = if prober.placement.lines_per_item == 1 {
            prober.only(1).set_block(units, hashes, items)
        } else {
            prober.set_block(units, hashes, items)
        };
        self.bits.count_set(newly_set.into());
        self.items += changed.count_ones();
        changed
    }
}
