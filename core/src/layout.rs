//! What every layout does besides queries and additions: figures, memory, stored bytes.
//!
//! Callers use [`Layered`], whatever the layout is. A layout implements [`LayoutRules`], from which its chains have
//! [`Layered`]. Filters with a window implement it themselves.

use std::fmt::Debug;

use crate::bits::array::OutOfRange;
use crate::chain::batch::Layer as _;
use crate::chain::{Allowance, Chain, LayerShape, NewLayer as _, Rules, UNLIMITED, sum};
use crate::error::Error;
use crate::params::{StoredLayout, Time};
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

    /// Items of the layers from number `first` on, in O(layers).
    fn items(&self, first: usize) -> u64;

    /// Bytes that the filter had with only its first `layers` layers, which is at most their present number; see
    /// [`Filter::bytes`](crate::Filter::bytes).
    fn bytes(&self, layers: usize) -> u64;

    /// The bit array of a layer.
    fn array(&self, layer: usize) -> &[u8];

    /// Sets the bits of `bytes` in a layer from byte `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing changed.
    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange>;

    /// Finds byte `offset` in all bit arrays that the filter ever had, end to end. Returns the layer that has it, and
    /// the offset of that layer's first byte.
    fn place_of(&self, offset: u64) -> Option<(usize, u64)>;

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

    /// Whether these are the layers of a new filter, as [`Self::emptied`] makes them.
    fn is_as_new(&self) -> bool;

    /// Makes the layers of a new filter like this one; see [`Filter::emptied`](crate::Filter::emptied).
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::OutOfMemory`]; nothing is left behind.
    fn emptied(&self, allowance: Allowance<'_>) -> Result<Self, Error>
    where
        Self: Sized;
}

/// What the rules of a layout say for [`Layered`].
pub trait LayoutRules: Rules<Layer: Debug> + Debug {
    /// The name of the layout.
    const NAME: StoredLayout;

    /// See [`Layered::error_rate`].
    fn rate_of(chain: &Chain<Self>) -> f64;

    /// See [`Layered::expansion`].
    fn expansion_of(chain: &Chain<Self>) -> Option<u32>;

    /// The false positive rate of layers, newest first, with what they hold.
    fn present_rate<'a>(layers: impl Iterator<Item = &'a Self::Layer>) -> f64
    where
        Self: 'a;

    /// The number of set bits of a layer.
    fn ones(layer: &Self::Layer) -> u64;

    /// See [`Layered::place_of`].
    fn place_of(chain: &Chain<Self>, offset: u64) -> Option<(usize, u64)> {
        let (mut start, mut end) = (0, 0);
        let layer = chain.layers().iter().position(|layer| {
            start = end;
            end += layer.bytes();
            offset < end
        });
        layer.map(|layer| (layer, start))
    }

    /// See [`Layered::header`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn header(chain: &Chain<Self>) -> Result<Vec<u8>, Error>;

    /// See [`Layered::save`].
    fn save(chain: &Chain<Self>, sink: &mut dyn Sink);

    /// The rules and the first layer of a new filter like this one.
    fn start_again(chain: &Chain<Self>) -> (Self, Self::Shape);
}

impl<R: LayoutRules> Layered for Chain<R> {
    fn layout(&self) -> StoredLayout {
        R::NAME
    }

    fn error_rate(&self) -> f64 {
        R::rate_of(self)
    }

    fn expansion(&self) -> Option<u32> {
        R::expansion_of(self)
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
            shape: self.rules().described(R::shape_of(layer)),
            items: layer.items(),
            bits_set: R::ones(layer),
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
        self.layers_mut()[layer].merge(offset, bytes)
    }

    fn place_of(&self, offset: u64) -> Option<(usize, u64)> {
        R::place_of(self, offset)
    }

    fn header(&self) -> Result<Vec<u8>, Error> {
        R::header(self)
    }

    fn save(&self, sink: &mut dyn Sink) {
        R::save(self, sink);
    }

    fn is_as_new(&self) -> bool {
        let [only] = self.layers() else { return false };
        only.items() == 0 && R::ones(only) == 0 && R::shape_of(only) == R::start_again(self).1
    }

    fn emptied(&self, allowance: Allowance<'_>) -> Result<Self, Error> {
        let (rules, first) = R::start_again(self);
        let takes_more = first.bytes() > self.array_bytes(self.layers().len());
        Self::new(rules, first, if takes_more { allowance } else { UNLIMITED })
    }
}

/// The false positive rate of several layers together, from the rate of each. It is computed so that rates far below
/// the rounding of 1 are not lost.
pub fn compound(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |all, rate| all + rate * (1.0 - all))
}
