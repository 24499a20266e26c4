//! What a blocked layer does with items, one by one and in blocks.

use bytemuck::Zeroable;

use super::super::search;
use super::{Layer, Start};
use crate::bits::array::OutOfRange;
use crate::bits::kernel::{Kernel, LINE_BYTES, Line};
use crate::bits::memory::{Allocation, Mover};
use crate::chain::batch::{self, Hashes, Prefetch, Prefetched, Subset};
use crate::item::ItemHash;

impl batch::Layer for Layer {
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

    const SCATTERED: bool = false;

    #[inline(always)]
    fn prefetcher(&self) -> impl Prefetch {
        self.lines()
    }

    #[inline(always)]
    fn lookup_prefetcher(&self, is_only: bool) -> impl Prefetch {
        // In a filter of many layers, even the newest one mostly does not hold the item, and the first line
        // mostly shows it.
        if is_only {
            self.lines()
        } else {
            self.lines().only_first()
        }
    }

    #[inline(always)]
    fn prefetch_first(&self, hash: ItemHash) {
        self.lines().prefetch_first(hash);
    }

    #[inline(always)]
    fn contains<K: Kernel>(&self, kernel: K, hash: ItemHash) -> bool {
        let (units, probing) = (self.bits.units(), self.probing(kernel));
        if self.lines_per_item == 1 {
            probing.covers(units, probing.places.first(hash))
        } else {
            probing.covers_from(0, units, hash)
        }
    }

    #[inline(always)]
    fn contains_block<K: Kernel>(&self, kernel: K, hashes: &Hashes, items: Subset) -> Subset {
        let (units, probing) = (self.bits.units(), self.probing(kernel));
        if probing.places.lines_per_item == 1 {
            probing.only(1).covered(units, hashes, items)
        } else {
            probing.covered(units, hashes, items)
        }
    }

    #[inline(always)]
    fn any_contains<K: Kernel>(layers: &[Self], kernel: K, hash: ItemHash) -> bool {
        // An item's first line has the same bits in every layer with as many probes, and in most layers it is
        // the only line that is read.
        let Some(newest) = layers.last() else {
            return false;
        };
        let word = newest.places().first(hash).word;
        let (mut probes, mut mask) = (0, kernel.mask(word, kernel.count(0)));
        for layer in layers.iter().rev() {
            if layer.probes != probes {
                probes = layer.probes;
                mask = kernel.mask(word, kernel.count(probes));
            }
            let (units, probing) = (layer.bits.units(), layer.probing(kernel));
            let place = probing.places.first(hash);
            if kernel.covers(&units[place.line], mask) && probing.covers_from(1, units, hash) {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn any_contains_block<K: Kernel>(
        layers: &[Self],
        kernel: K,
        hashes: &Hashes,
        items: Subset,
        newest: Prefetched,
    ) -> Subset {
        search::any_contains(layers, kernel, hashes, items, newest)
    }

    #[inline(always)]
    fn insert<K: Kernel>(&mut self, kernel: K, hash: ItemHash) -> bool {
        let probing = self.probing(kernel);
        let units = self.bits.units_mut();
        // It may take long to read from memory whether the item is new. With a branch the processor can guess
        // and go on, while a store to an address that is not yet known would hold up what follows.
        let newly_set = if self.lines_per_item == 1 {
            let place = probing.places.first(hash);
            if probing.covers(units, place) {
                0
            } else {
                probing.set(units, place, &mut Line::zeroed())
            }
        } else if probing.covers_from(0, units, hash) {
            0
        } else {
            probing.set_all(units, hash, &mut Line::zeroed())
        };
        self.bits.count_set(newly_set);
        self.items += u64::from(newly_set > 0);
        newly_set > 0
    }

    #[inline(always)]
    fn insert_block<K: Kernel>(&mut self, kernel: K, hashes: &Hashes, items: Subset) -> Subset {
        let probing = self.probing(kernel);
        let units = self.bits.units_mut();
        let (changed, newly_set) = if probing.places.lines_per_item == 1 {
            probing.only(1).set_block(units, hashes, items)
        } else {
            probing.set_block(units, hashes, items)
        };
        self.bits.count_set(newly_set);
        self.items += changed.count_ones();
        changed
    }
}
