//! What every layout does besides queries and additions: figures, memory, stored bytes. A layout implements
//! [`Layered`] in its own folder, for its chain or its window.

use std::fmt::Debug;

use crate::bits::array::OutOfRange;
use crate::bits::memory::Allocation;
use crate::chain::{Allowance, LayerShape};
use crate::error::Error;
use crate::params::{StoredLayout, Time};
use crate::stored::invalid::Invalid;
use crate::stored::stream::Sink;

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

impl LayerStats {
    /// Items that the layer is made for.
    pub fn capacity(&self) -> u64 {
        self.shape.capacity
    }

    /// Bytes of the layer's bit array.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes
    }

    /// Bits of the layer's bit array.
    pub fn bits(&self) -> u64 {
        self.shape.bits
    }

    /// The rate that the layer is made for.
    pub fn error_rate(&self) -> f64 {
        self.shape.error_rate
    }
}

/// The layers of a filter in any layout. Layers are numbered from 0, the oldest. A number that is passed must be that
/// of a layer.
pub trait Layered: Debug {
    /// The layout.
    fn layout(&self) -> StoredLayout;

    /// The false positive rate that the filter was made for.
    fn error_rate(&self) -> f64;

    /// The capacity of a new layer divided by that of the layer before it; `None` if the filter does not grow. With a
    /// window, the largest such ratio within a slice.
    fn expansion(&self) -> Option<u32>;

    /// The false positive rate that the filter has at `now`, with what it holds.
    fn estimated_error_rate(&self, now: Time) -> f64;

    /// The number of layers, including expired ones.
    fn count(&self) -> usize;

    /// The figures of a layer.
    fn stats(&self, layer: usize) -> LayerStats;

    /// Bytes of the filter as it was when it had only its first `layers` layers, of which it has as many or more; see
    /// [`Filter::bytes`](crate::Filter::bytes).
    fn bytes(&self, layers: usize) -> u64;

    /// Passes every block of memory to `visit`, except the filter's own struct.
    fn each_allocation(&self, visit: &mut dyn FnMut(Allocation));

    /// The bit array of a layer.
    fn array(&self, layer: usize) -> &[u8];

    /// Sets the bits of `bytes` in a layer from byte `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing changed.
    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange>;

    /// Finds byte `offset` in all bit arrays that the filter ever had, end to end. Returns the layer that has it, and
    /// the offset of that layer's first byte.
    fn place_of(&self, offset: u64) -> Option<(usize, u64)> {
        let (mut start, mut end) = (0, 0);
        let layer = (0..self.count()).find(|&layer| {
            start = end;
            end += self.array(layer).len() as u64;
            offset < end
        });
        layer.map(|layer| (layer, start))
    }

    /// Bytes of the bit arrays of all layers that the filter has dropped.
    fn dropped_bytes(&self) -> u64 {
        0
    }

    /// What the filter was made from and how many items it counts: the first chunk of a dump.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn header(&self) -> Result<Vec<u8>, Error>;

    /// Writes the filter to an RDB stream.
    fn save(&self, sink: &mut dyn Sink);

    /// Whether these are the layers of a new filter, as [`Self::emptied`] makes them: in most layouts one layer without
    /// items.
    fn is_as_new(&self) -> bool {
        self.has_one_empty_layer()
    }

    /// Whether there is one layer, without items and without set bits.
    fn has_one_empty_layer(&self) -> bool {
        let is_empty = |layer: LayerStats| layer.items == 0 && layer.bits_set == 0;
        self.count() == 1 && is_empty(self.stats(0))
    }

    /// Makes the layers of a new filter like this one; see [`Filter::emptied`](crate::Filter::emptied).
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::OutOfMemory`]; nothing is left behind.
    fn emptied(&self, allowance: Allowance<'_>) -> Result<Self, Error>
    where
        Self: Sized;

    /// Checks every invariant, except that each layer has the capacity to which the layer before it would have grown:
    /// the layers of a union need not.
    ///
    /// # Errors
    /// The first [`Invalid`] found.
    fn validate(&self) -> Result<(), Invalid>;
}

/// The false positive rate of several layers together, from the rate of each. It is computed so that rates far below
/// the rounding of 1 are not lost.
pub fn compound(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |all, rate| all + rate * (1.0 - all))
}
