//! Filters of valkey-bloom's layout: their figures, memory and stored bytes.

use super::{Valkey, format};
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

impl Layered for Chain<Valkey> {
    fn layout(&self) -> StoredLayout {
        StoredLayout::Valkey
    }

    fn error_rate(&self) -> f64 {
        self.rules().error_rate()
    }

    fn expansion(&self) -> Option<u32> {
        self.rules().growth_factor()
    }

    fn estimated_error_rate(&self, _: Time) -> f64 {
        compound(self.layers().iter().rev().map(|layer| {
            let shape = layer.shape();
            let fill = layer.ones() as f64 / shape.bits() as f64;
            power(fill.min(1.0), shape.probes.into())
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
            bits_set: layer.ones(),
        }
    }

    fn bytes(&self, layers: usize) -> u64 {
        Valkey::bytes(layers, self.array_bytes(layers))
    }

    fn each_allocation(&self, visit: &mut dyn FnMut(Allocation)) {
        let own = Allocation::of_array(std::slice::from_ref(self));
        own.into_iter().for_each(&mut *visit);
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
        let (layers, rules) = (self.layers(), self.rules());
        let Some(first) = layers.first() else {
            return Err(Invalid::NoLayer);
        };
        if rules.expansion() == 0 && layers.len() > 1 {
            return Err(Invalid::GrownFixed);
        }
        let mut expected = Some(rules.first(first.capacity()));
        for (index, layer) in layers.iter().enumerate() {
            let shape = layer.shape();
            if expected.map(|expected| expected.capacity) != Some(shape.capacity) {
                return Err(Invalid::Capacity { layer: index });
            }
            if shape.check().is_err()
                || shape.seed != rules.seed()
                || Some(shape.error_rate) != rules.rate(index)
            {
                return Err(Invalid::Geometry { layer: index });
            }
            if index + 1 < layers.len() && layer.items() < layer.capacity() {
                return Err(Invalid::NotFull { layer: index });
            }
            counts(index, layer, layer.memory())?;
            expected = rules.layer(index + 1, shape.capacity);
        }
        Ok(())
    }
}
