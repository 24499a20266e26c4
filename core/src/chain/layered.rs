//! What the layers of any filter offer besides queries and additions: figures, and their bits as bytes.

use crate::bits::array::OutOfRange;
use crate::chain::batch::Layer as _;
use crate::chain::{Chain, LayerShape, Rules, sum};
use crate::params::{Layout, Time};

/// What one layer holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStats {
    /// What the layer was made from.
    pub shape: LayerShape,
    /// Items that changed the layer.
    pub items: u64,
    /// Set bits.
    pub bits_set: u64,
}

/// The layers of a filter in any layout. What is named as a function of [`Filter`](crate::Filter) is the same. Layers are
/// numbered from 0, the oldest. A number that is passed must be that of a layer.
pub trait Layered {
    fn layout(&self) -> Layout;

    fn error_rate(&self) -> f64;

    fn expansion(&self) -> Option<u32>;

    fn estimated_error_rate(&self, now: Time) -> f64;

    /// The number of layers, including expired ones.
    fn count(&self) -> usize;

    fn stats(&self, layer: usize) -> LayerStats;

    /// Items of the layers from number `first` on, in O(layers).
    fn items(&self, first: usize) -> u64;

    /// Bytes that the filter had with only its first `layers` layers, which is at most their present number.
    fn bytes(&self, layers: usize) -> u64;

    fn array(&self, layer: usize) -> &[u8];

    /// Sets the bits of `bytes` in a layer from byte `offset` on.
    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange>;

    /// The layer with byte `offset` of all bit arrays that the filter ever had, end to end, and where it begins.
    fn place_of(&self, offset: u64) -> Option<(usize, u64)>;

    /// Bytes of the bit arrays of all layers that the filter has dropped.
    fn dropped_bytes(&self) -> u64 {
        0
    }

    /// Whether these are the layers of a new filter.
    fn is_as_new(&self) -> bool;
}

impl<R: Rules> Layered for Chain<R> {
    fn layout(&self) -> Layout {
        R::LAYOUT
    }

    fn error_rate(&self) -> f64 {
        self.rules().rate_of(self.layers())
    }

    fn expansion(&self) -> Option<u32> {
        self.rules().growth_factor()
    }

    fn estimated_error_rate(&self, _: Time) -> f64 {
        R::present_rate(self.layers().iter().rev())
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

    fn items(&self, first: usize) -> u64 {
        sum(self.layers().iter().skip(first).map(|layer| layer.items()))
    }

    fn bytes(&self, layers: usize) -> u64 {
        R::bytes(layers, self.array_bytes(layers))
    }

    fn array(&self, layer: usize) -> &[u8] {
        self.layers()[layer].array()
    }

    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.layers[layer].merge(offset, bytes)
    }

    fn place_of(&self, offset: u64) -> Option<(usize, u64)> {
        R::place_of(self.layers(), offset)
    }

    fn is_as_new(&self) -> bool {
        let [only] = self.layers() else { return false };
        only.items() == 0 && only.ones() == 0 && only.shape() == self.rules().first_again(self.layers())
    }
}
