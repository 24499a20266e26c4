//! Filters of RedisBloom's layout: their figures, memory and stored bytes.

use super::{Classic, format};
use crate::bits::array::OutOfRange;
use crate::bits::memory::Allocation;
use crate::blocked::sizing::power;
use crate::chain::batch::Layer as _;
use crate::chain::{Allowance, Chain, Rules as _, UNLIMITED};
use crate::error::Error;
use crate::layered::{LayerStats, Layered, compound};
use crate::params::{StoredLayout, Time};
use crate::stored::invalid::{Invalid, counts};
use crate::stored::stream::Sink;

impl Layered for Chain<Classic> {
    fn layout(&self) -> StoredLayout {
        StoredLayout::Classic
    }

    /// The rate that the filter was made for. Double hashing keeps it only approximately.
    fn error_rate(&self) -> f64 {
        let first = self.layers().first();
        let first = first.map_or(0.0, |layer| layer.shape().error_rate);
        (first / self.rules().first_share()).min(1.0)
    }

    fn expansion(&self) -> Option<u32> {
        self.rules().growth_factor()
    }

    fn estimated_error_rate(&self, _: Time) -> f64 {
        compound(self.layers().iter().rev().map(|layer| {
            let shape = layer.shape();
            let fill = layer.bits().ones() as f64 / shape.modulus() as f64;
            power(fill.min(1.0), shape.hashes.into())
        }))
    }

    fn count(&self) -> usize {
        self.layers().len()
    }

    fn stats(&self, layer: usize) -> LayerStats {
        let layer = &self.layers()[layer];
        LayerStats {
            shape: self.rules().described(layer.shape()),
            items: layer.items(),
            bits_set: layer.bits().ones(),
        }
    }

    fn bytes(&self, layers: usize) -> u64 {
        Classic::bytes(layers, self.array_bytes(layers))
    }

    fn each_allocation(&self, visit: &mut dyn FnMut(Allocation)) {
        self.each_allocation(visit);
    }

    fn array(&self, layer: usize) -> &[u8] {
        self.layers()[layer].array()
    }

    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.layers_mut()[layer].merge(offset, bytes)
    }

    fn header(&self) -> Result<Vec<u8>, Error> {
        format::header(self)
    }

    fn save(&self, sink: &mut dyn Sink) {
        format::save(self, sink);
    }

    fn emptied(&self, _: Allowance<'_>) -> Result<Self, Error> {
        Self::new(*self.rules(), self.layers()[0].shape(), UNLIMITED)
    }

    fn validate(&self) -> Result<(), Invalid> {
        let layers = self.layers();
        if layers.is_empty() {
            return Err(Invalid::NoLayer);
        }
        if !self.rules().scales() && layers.len() > 1 {
            return Err(Invalid::GrownFixed);
        }
        for (index, layer) in layers.iter().enumerate() {
            let shape = layer.shape();
            if shape.check(self.rules().options()).is_err() || layer.array().len() as u64 != shape.bytes {
                return Err(Invalid::Geometry { layer: index });
            }
            counts(index, layer, layer.bits())?;
        }
        Ok(())
    }
}
