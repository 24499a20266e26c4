//! Filters of the blocked layout, with and without a window: their figures and stored bytes.

use super::window::Windowed;
use super::{Blocked, Layer, Shape, format};
use crate::bits::array::OutOfRange;
use crate::blocked::sizing::PROBES;
use crate::chain::batch::Layer as _;
use crate::chain::{Allowance, Chain, sum};
use crate::error::Error;
use crate::layout::{LayerStats, Layered, LayoutRules, compound};
use crate::params::{Expansion, Growth, ROUNDING, StoredLayout, Time};
use crate::stored::invalid::{Invalid, check_counts};
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
        let capacity = if check_growth(chain).is_ok() {
            capacities.next()
        } else {
            capacities.max()
        };
        let rules = chain.rules().clone();
        let first = rules.first_for(capacity.unwrap_or(1));
        (rules, first)
    }

    fn validate(chain: &Chain<Self>) -> Result<(), Invalid> {
        let layers = || chain.layers().iter();
        check_each(layers())?;
        check_rate(layers(), chain.rules())?;
        check_fill(layers())
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

    fn validate(&self) -> Result<(), Invalid> {
        for (index, pair) in self.slices.windows(2).enumerate() {
            if pair[0].opens > pair[1].opens || pair[0].closes > pair[1].closes {
                return Err(Invalid::Times { slice: index });
            }
        }
        check_each(self.layers())?;
        let mut before = 0;
        for (index, slice) in self.slices.iter().enumerate() {
            let layers = slice.layers();
            if slice.opens > slice.closes || layers.is_empty() {
                return Err(Invalid::Times { slice: index });
            }
            let not_full = |layer: &Layer| layer.items() < layer.capacity();
            if let Some(layer) = layers[..layers.len() - 1].iter().position(not_full) {
                return Err(Invalid::NotFull {
                    layer: before + layer,
                });
            }
            before += layers.len();
        }
        check_rate(self.layers(), &self.rules)?;
        check_fill(self.layers())
    }
}

/// Checks that the layers of a chain are as growth makes them: all but the newest are full, and each has the capacity
/// of the one before times the expansion.
pub(crate) fn check_growth(chain: &Chain<Blocked>) -> Result<(), Invalid> {
    let (layers, growth) = (chain.layers(), chain.rules().growth());
    if growth == Growth::Fixed && layers.len() > 1 {
        return Err(Invalid::GrownFixed);
    }
    if let Some(expansion) = growth.expansion() {
        for (index, pair) in layers.windows(2).enumerate() {
            if pair[0].items() < pair[0].capacity() {
                return Err(Invalid::NotFull { layer: index });
            }
            if pair[1].capacity() != pair[0].capacity().saturating_mul(u64::from(expansion.factor())) {
                return Err(Invalid::Capacity { layer: index + 1 });
            }
        }
    }
    Ok(())
}

/// Checks that layers have as many bits as their items set.
fn check_fill<'a>(mut layers: impl Iterator<Item = &'a Layer>) -> Result<(), Invalid> {
    let wrong = layers.position(|layer| !is_filled_by_its_items(layer));
    wrong.map_or(Ok(()), |layer| Err(Invalid::Fill { layer }))
}

/// Checks that the layers keep the filter's rate.
fn check_rate<'a>(layers: impl Iterator<Item = &'a Layer>, rules: &Blocked) -> Result<(), Invalid> {
    let sum: f64 = layers.map(|layer| layer.shape().rate).sum();
    if !(0.0..=rules.error_rate().value() * (1.0 + ROUNDING)).contains(&sum) {
        return Err(Invalid::Budget { sum });
    }
    Ok(())
}

/// Checks each layer by itself, regardless of the others.
fn check_each<'a>(layers: impl Iterator<Item = &'a Layer>) -> Result<(), Invalid> {
    for (index, layer) in layers.enumerate() {
        let (bits, geometry) = (layer.bits(), layer.shape().geometry);
        if !PROBES.contains(&geometry.probes)
            || geometry.lines == 0
            || bits.bytes().len() as u64 != geometry.bytes()
        {
            return Err(Invalid::Geometry { layer: index });
        }
        check_counts(index, layer, bits)?;
    }
    Ok(())
}

fn is_filled_by_its_items(layer: &Layer) -> bool {
    let (geometry, items) = (layer.shape().geometry, layer.items());
    let probes = u64::from(geometry.probes) * u64::from(geometry.lines_per_item);
    (items..=items.saturating_mul(probes)).contains(&layer.bits().ones())
}
