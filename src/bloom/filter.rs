//! A filter of any layout, and its figures.

use std::sync::Arc;

use super::batch::Layer as _;
use super::blocked::{Blocked, Shape};
use super::chain::{Allowance, Chain};
use super::error::Error;
use super::params::{ErrorRate, Growth, Seed, Spec};

/// A Bloom filter: a chain of layers of one layout.
#[derive(Debug)]
pub enum Filter {
    /// Lines of 64 bytes; see [`blocked`](super::blocked).
    Blocked(Chain<Blocked>),
}

/// What a filter holds, over all of its layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Layers.
    pub layers: usize,
    /// Items that they are made for; saturating.
    pub capacity: u64,
    /// Items that were new when they were added.
    pub items: u64,
    /// Bits of all bit arrays.
    pub bits: u64,
    /// Set bits.
    pub bits_set: u64,
    /// The false positive rate that the filter has now: a bound from the layers' rates.
    pub estimated_error_rate: f64,
}

/// What one blocked layer holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStats {
    /// What it was made from.
    pub shape: Shape,
    /// Items that changed it.
    pub items: u64,
    /// Set bits.
    pub bits_set: u64,
}

impl Filter {
    /// An empty filter.
    ///
    /// # Errors
    /// [`Error::OverLimit`] or [`Error::OutOfMemory`]; nothing is left behind.
    pub fn new(spec: Spec, allowance: Allowance<'_>) -> Result<Self, Error> {
        let rules = Blocked::new(spec.error_rate, spec.growth, spec.seed);
        let first = rules.first(spec.capacity);
        let own = size_of::<Self>() as u64;
        let allowance: Allowance<'_> = &|bytes| allowance(bytes.saturating_add(own));
        Chain::new(rules, first, allowance).map(Self::Blocked)
    }

    /// Whether `item` is (probably) in the filter. Never false for an item that was added.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        match self {
            Self::Blocked(chain) => chain.contains(item),
        }
    }

    /// [`Self::contains`] for each of `items`; `found` takes the answers in their order.
    #[inline]
    pub fn contains_all<'a>(&self, items: impl Iterator<Item = &'a [u8]>, found: impl FnMut(bool)) {
        match self {
            Self::Blocked(chain) => chain.contains_all(items, found),
        }
    }

    /// Adds `item`; true if it was not (probably) in the filter before.
    ///
    /// # Errors
    /// Those of growth; the filter is as it was. An item that is there already needs no growth.
    #[inline]
    pub fn add(&mut self, item: &[u8], allowance: Allowance<'_>) -> Result<bool, Error> {
        match self {
            Self::Blocked(chain) => chain.add(item, allowance),
        }
    }

    /// [`Self::add`] for each of `items` in their order; `added` takes the answers.
    ///
    /// # Errors
    /// At the first item that needs a growth that fails. The items before it are in, and were answered.
    #[inline]
    pub fn add_all<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        added: impl FnMut(bool),
    ) -> Result<(), Error> {
        match self {
            Self::Blocked(chain) => chain.add_all(items, allowance, added),
        }
    }

    /// Items that were new when they were added.
    pub fn items(&self) -> u64 {
        match self {
            Self::Blocked(chain) => chain
                .layers()
                .iter()
                .fold(0, |items: u64, layer| items.saturating_add(layer.items())),
        }
    }

    /// Bytes of the filter: its structs and its bit arrays, without what other filters share.
    pub fn bytes(&self) -> u64 {
        let heap = match self {
            Self::Blocked(chain) => chain.heap_bytes(),
        };
        heap.saturating_add(size_of::<Self>() as u64)
    }

    /// Bytes that the filter keeps alive and no other filter uses, besides [`Self::bytes`].
    pub fn unshared_bytes(&self) -> u64 {
        match self {
            Self::Blocked(chain) => {
                let secret = chain.rules().secret();
                if Arc::strong_count(secret) == 1 {
                    size_of_val(&**secret) as u64
                } else {
                    0
                }
            }
        }
    }

    /// The figures of the whole filter, in O(layers).
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            layers: 0,
            capacity: 0,
            items: 0,
            bits: 0,
            bits_set: 0,
            estimated_error_rate: 0.0,
        };
        let mut all_miss = 1.0;
        for layer in self.layer_stats() {
            totals.layers += 1;
            totals.capacity = totals.capacity.saturating_add(layer.shape.capacity);
            totals.items = totals.items.saturating_add(layer.items);
            totals.bits = totals.bits.saturating_add(layer.bits());
            totals.bits_set += layer.bits_set;
            all_miss *= 1.0 - layer.estimated_error_rate();
        }
        totals.estimated_error_rate = 1.0 - all_miss;
        totals
    }

    /// The figures of each layer, oldest first.
    pub fn layer_stats(&self) -> impl Iterator<Item = LayerStats> {
        let Self::Blocked(chain) = self;
        chain.layers().iter().map(|layer| LayerStats {
            shape: layer.shape(),
            items: layer.items(),
            bits_set: layer.bits().ones(),
        })
    }

    /// The false positive rate that the filter keeps.
    pub fn error_rate(&self) -> ErrorRate {
        match self {
            Self::Blocked(chain) => chain.rules().error_rate(),
        }
    }

    /// What the filter does when it is full.
    pub fn growth(&self) -> Growth {
        match self {
            Self::Blocked(chain) => chain.rules().growth(),
        }
    }

    /// The key of its hash.
    pub fn seed(&self) -> Seed {
        match self {
            Self::Blocked(chain) => chain.rules().secret().seed(),
        }
    }
}

impl LayerStats {
    /// Bits of its bit array.
    pub fn bits(&self) -> u64 {
        self.shape.geometry.bytes().saturating_mul(8)
    }

    /// The rate that the layer has with the items that it holds now.
    pub fn estimated_error_rate(&self) -> f64 {
        self.shape.geometry.rate(self.items)
    }
}
