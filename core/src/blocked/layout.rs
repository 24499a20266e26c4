//! Filters of the blocked layout, with and without a window: their figures and stored bytes.

use super::window::Windowed;
use super::{Blocked, Layer, Shape, format};
use crate::bits::array::OutOfRange;
use crate::chain::batch::Layer as _;
use crate::chain::{Allowance, Chain, sum};
use crate::error::Error;
use crate::layout::{LayerStats, Layered, LayoutRules, compound};
use crate::params::{Expansion, StoredLayout, Time};
use crate::stored::stream::Sink;

/// The most layers of a filter whose present rate is computed. A stored filter may have any number of layers with room.
pub const MOST_ESTIMATED: usize = 256;

impl LayoutRules for Blocked {
    const NAME: StoredLayout = StoredLayout::Blocked;

    fn rate_of(chain: &Chain<Self>) -> f64 {
        chain.rules().error_rate().value()
    }

    fn expansion_of(chain: &Chain<Self>) -> Option<u32> {
        chain.rules().growth().expansion().map(Expansion::factor)
    }

    /// The rate of a layer that is not full takes some ten microseconds to compute. It is computed for the newest
    /// [`MOST_ESTIMATED`] such layers. Older ones, which only merged filters and windows of very many slices have,
    /// count as if they were full.
    fn present_rate<'a>(layers: impl Iterator<Item = &'a Layer>) -> f64 {
        let mut estimated = 0;
        compound(layers.map(|layer| {
            let (shape, items) = (layer.shape(), layer.items());
            estimated += usize::from(items < shape.capacity);
            if estimated > MOST_ESTIMATED {
                shape.rate
            } else if items >= shape.capacity {
                shape.full_rate()
            } else {
                shape.geometry.estimated_rate(items)
            }
        }))
    }

    fn ones(layer: &Layer) -> u64 {
        layer.bits().ones()
    }

    fn place_of(chain: &Chain<Self>, offset: u64) -> Option<(usize, u64)> {
        // Layers know where they start, and there may be many.
        let layers = chain.layers();
        let layer = layers
            .partition_point(|layer| layer.start() <= offset)
            .checked_sub(1)?;
        let start = layers[layer].start();
        (offset - start < layers[layer].bytes()).then_some((layer, start))
    }

    fn header(chain: &Chain<Self>) -> Result<Vec<u8>, Error> {
        format::header(chain, 0)
    }

    fn save(chain: &Chain<Self>, sink: &mut dyn Sink) {
        format::save(chain, 0, sink);
    }

    /// After a merge the first layer is for as many items as the largest one.
    fn start_again(chain: &Chain<Self>) -> (Self, Shape) {
        let mut capacities = chain.layers().iter().map(|layer| layer.capacity());
        let capacity = if is_grown(chain) {
            capacities.next()
        } else {
            capacities.max()
        };
        let rules = chain.rules().clone();
        let first = rules.first_for(capacity.unwrap_or(1));
        (rules, first)
    }
}

impl Layered for Windowed {
    fn layout(&self) -> StoredLayout {
        StoredLayout::Blocked
    }

    fn error_rate(&self) -> f64 {
        self.rules().error_rate().value()
    }

    fn expansion(&self) -> Option<u32> {
        self.rules().growth().expansion().map(Expansion::factor)
    }

    fn estimated_error_rate(&self, now: Time) -> f64 {
        Blocked::present_rate(self.living_layers(now))
    }

    fn count(&self) -> usize {
        self.layers_of(usize::MAX)
    }

    fn stats(&self, layer: usize) -> LayerStats {
        let (slice, layer) = self.find(layer);
        self.slices[slice].chain.stats(layer)
    }

    fn items(&self, first: usize) -> u64 {
        sum(self.layers().skip(first).map(Layer::items))
    }

    fn bytes(&self, layers: usize) -> u64 {
        let (mut slices, mut counted, mut arrays) = (0, 0, 0);
        for slice in &self.slices {
            if counted >= layers {
                break;
            }
            let own = slice.layers().len().min(layers - counted);
            (slices, counted) = (slices + 1, counted + own);
            arrays += slice.chain.array_bytes(own);
        }
        Self::bytes_of(slices, counted, arrays)
    }

    fn array(&self, layer: usize) -> &[u8] {
        let (slice, layer) = self.find(layer);
        self.slices[slice].chain.array(layer)
    }

    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        let (slice, layer) = self.find(layer);
        self.slices[slice].chain.merge(layer, offset, bytes)
    }

    fn place_of(&self, offset: u64) -> Option<(usize, u64)> {
        let (mut start, mut layers) = (self.dropped_bytes, 0);
        for slice in &self.slices {
            if let Some((layer, own)) = slice.chain.place_of(offset.checked_sub(start)?) {
                return Some((layers + layer, start + own));
            }
            start += slice.array_bytes();
            layers += slice.layers().len();
        }
        None
    }

    fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    fn header(&self) -> Result<Vec<u8>, Error> {
        format::header_of_windowed(self)
    }

    fn save(&self, sink: &mut dyn Sink) {
        format::save_windowed(self, sink);
    }

    fn is_as_new(&self) -> bool {
        self.slices.is_empty() && self.newest_stamp == 0 && self.dropped_bytes == 0
    }

    fn emptied(&self, _: Allowance<'_>) -> Result<Self, Error> {
        Ok(Self::empty(self.rules.clone(), self.window, self.capacity))
    }
}

/// Whether the layers of a chain are as growth makes them: all but the newest are full, and each has the capacity of the
/// one before times the expansion.
fn is_grown(chain: &Chain<Blocked>) -> bool {
    let layers = chain.layers();
    let Some(expansion) = chain.rules().growth().expansion() else {
        return layers.len() <= 1;
    };
    layers.windows(2).all(|pair| {
        let next = pair[0].capacity().saturating_mul(u64::from(expansion.factor()));
        pair[0].items() >= pair[0].capacity() && pair[1].capacity() == next
    })
}
