//! Filters of the blocked layout, with and without a window: their figures, memory and stored bytes.

use super::{Blocked, Layer, Shape, format, windowed};
use crate::bits::array::OutOfRange;
use crate::bits::memory::Allocation;
use crate::blocked::sizing::{MAX_LINES_PER_ITEM, PROBES};
use crate::chain::batch::Layer as _;
use crate::chain::window::{MOST_SLICES, Ring};
use crate::chain::{Allowance, Chain, NewLayer as _, Rules as _, UNLIMITED};
use crate::error::Error;
use crate::layered::{LayerStats, Layered, compound};
use crate::params::{Expansion, Growth, ROUNDING, StoredLayout, Time};
use crate::stored::DecodeError;
use crate::stored::invalid::{Invalid, counts};
use crate::stored::stream::{Sink, Source};

/// The most layers of a filter whose present rate is computed: as many as a window can have slices. A stored
/// filter may have any number of layers with room.
pub const MOST_ESTIMATED: usize = MOST_SLICES;

/// The false positive rate that layers have now. For a layer that is not full it takes some ten microseconds to
/// compute. That is done for the newest [`MOST_ESTIMATED`] such layers; older ones, which only merged filters have,
/// count as if they were full.
fn estimated_error_rate(layers: &[Layer]) -> f64 {
    let mut estimated = 0;
    compound(layers.iter().rev().map(|layer| {
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

/// The first layer of a new filter like this one. After a merge it is for as many items as the largest layer.
fn first_again(chain: &Chain<Blocked>) -> Shape {
    let mut capacities = chain.layers().iter().map(|layer| layer.capacity());
    let capacity = if format::is_grown(chain) {
        capacities.next()
    } else {
        capacities.max()
    };
    chain.rules().first_for(capacity.unwrap_or(1))
}

impl Layered for Chain<Blocked> {
    fn layout(&self) -> StoredLayout {
        StoredLayout::Blocked
    }

    fn error_rate(&self) -> f64 {
        self.rules().error_rate().value()
    }

    fn expansion(&self) -> Option<u32> {
        self.rules().growth().expansion().map(Expansion::factor)
    }

    fn estimated_error_rate(&self, _: Time) -> f64 {
        estimated_error_rate(self.layers())
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
        Blocked::bytes(layers, self.array_bytes(layers))
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

    fn place_of(&self, offset: u64) -> Option<(usize, u64)> {
        // Layers know where they start, and there may be many.
        let layers = self.layers();
        let layer = layers
            .partition_point(|layer| layer.start() <= offset)
            .checked_sub(1)?;
        let start = layers[layer].start();
        (offset - start < layers[layer].bytes()).then_some((layer, start))
    }

    fn header(&self) -> Result<Vec<u8>, Error> {
        format::header(self)
    }

    fn save(&self, sink: &mut dyn Sink) {
        format::save(self, sink);
    }

    fn magic() -> &'static [u8] {
        &format::MAGIC
    }

    fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Self, DecodeError> {
        format::load_header(bytes, allowance)
    }

    fn load(
        version: u64,
        source: &mut impl Source,
        allowance: Allowance<'_>,
    ) -> Option<Result<Self, DecodeError>> {
        (version == format::VERSION).then(|| format::load(source, allowance))
    }

    fn is_as_new(&self) -> bool {
        self.has_one_empty_layer() && self.layers()[0].shape() == first_again(self)
    }

    fn emptied(&self, allowance: Allowance<'_>) -> Result<Self, Error> {
        let first = first_again(self);
        let takes_more = first.bytes() > self.array_bytes(self.layers().len());
        let allowance = if takes_more { allowance } else { UNLIMITED };
        Self::new(self.rules().alike(None), first, allowance)
    }

    fn validate(&self) -> Result<(), Invalid> {
        let layers = self.layers();
        if layers.is_empty() {
            return Err(Invalid::NoLayer);
        }
        alone(layers)?;
        together(layers, self.rules())
    }
}

impl Layered for Ring<Blocked> {
    fn layout(&self) -> StoredLayout {
        StoredLayout::Blocked
    }

    fn error_rate(&self) -> f64 {
        self.chain().error_rate()
    }

    fn expansion(&self) -> Option<u32> {
        self.chain().expansion()
    }

    fn estimated_error_rate(&self, now: Time) -> f64 {
        estimated_error_rate(&self.chain().layers()[self.slices().expired(now)..])
    }

    fn count(&self) -> usize {
        self.chain().count()
    }

    fn stats(&self, layer: usize) -> LayerStats {
        self.chain().stats(layer)
    }

    fn bytes(&self, layers: usize) -> u64 {
        Self::bytes(layers, self.chain().array_bytes(layers))
    }

    fn each_allocation(&self, visit: &mut dyn FnMut(Allocation)) {
        self.each_allocation(visit);
    }

    fn array(&self, layer: usize) -> &[u8] {
        self.chain().array(layer)
    }

    fn merge(&mut self, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.layers_mut()[layer].merge(offset, bytes)
    }

    fn place_of(&self, offset: u64) -> Option<(usize, u64)> {
        self.chain().place_of(offset)
    }

    fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes()
    }

    fn header(&self) -> Result<Vec<u8>, Error> {
        windowed::header(self)
    }

    fn save(&self, sink: &mut dyn Sink) {
        windowed::save(self, sink);
    }

    fn magic() -> &'static [u8] {
        &windowed::MAGIC
    }

    fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Self, DecodeError> {
        windowed::load_header(bytes, allowance)
    }

    fn load(
        version: u64,
        source: &mut impl Source,
        allowance: Allowance<'_>,
    ) -> Option<Result<Self, DecodeError>> {
        (version == windowed::VERSION).then(|| windowed::load(source, allowance))
    }

    fn is_as_new(&self) -> bool {
        let slices = self.slices();
        self.count() == 0 && self.dropped_bytes() == 0 && !slices.ended()
    }

    fn emptied(&self, _: Allowance<'_>) -> Result<Self, Error> {
        let rules = self.chain().rules().alike(None);
        Ok(Self::empty(rules, self.slices().window(), self.capacity()))
    }

    fn validate(&self) -> Result<(), Invalid> {
        let (layers, spans) = (self.chain().layers(), self.slices().spans());
        if layers.len() != spans.len() || spans.first().is_some_and(|span| !span.begins) {
            return Err(Invalid::Slices);
        }
        alone(layers)?;
        for (index, pair) in spans.windows(2).enumerate() {
            let layer = index;
            if !pair[0].is_followed_by(&pair[1]) {
                return Err(Invalid::Times { layer });
            }
            if !pair[1].begins && layers[index].items() < layers[index].capacity() {
                return Err(Invalid::NotFull { layer });
            }
        }
        together(layers, self.chain().rules())
    }
}

/// Checks that the layers of a chain follow from one another, as growth makes them.
pub(crate) fn grown(chain: &Chain<Blocked>) -> Result<(), Invalid> {
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

/// Checks that layers keep the filter's rate, and have as many bits as their items set.
fn together(layers: &[Layer], rules: &Blocked) -> Result<(), Invalid> {
    let sum: f64 = layers.iter().map(|layer| layer.shape().rate).sum();
    if !(0.0..=rules.error_rate().value() * (1.0 + ROUNDING)).contains(&sum) {
        return Err(Invalid::Budget { sum });
    }
    let wrong = layers.iter().position(|layer| !is_filled_by_its_items(layer));
    wrong.map_or(Ok(()), |layer| Err(Invalid::Fill { layer }))
}

/// Checks each layer by itself, regardless of the others.
fn alone(layers: &[Layer]) -> Result<(), Invalid> {
    for (index, layer) in layers.iter().enumerate() {
        let (bits, geometry) = (layer.bits(), layer.shape().geometry);
        if !(1..=MAX_LINES_PER_ITEM).contains(&geometry.lines_per_item)
            || !PROBES.contains(&geometry.probes)
            || geometry.lines == 0
            || bits.bytes().len() as u64 != geometry.bytes()
        {
            return Err(Invalid::Geometry { layer: index });
        }
        counts(index, layer, bits)?;
    }
    Ok(())
}

fn is_filled_by_its_items(layer: &Layer) -> bool {
    let (geometry, items) = (layer.shape().geometry, layer.items());
    let probes = u64::from(geometry.probes) * u64::from(geometry.lines_per_item);
    (items..=items.saturating_mul(probes)).contains(&layer.bits().ones())
}
