//! The scalable chain: layers that are added as a filter grows.
//!
//! The [`Rules`] of a layout define its layers, its hash and its growth. The walk over the layers is here and in
//! [`batch`], once for all layouts. The memory is in [`demand`].

pub mod batch;
pub mod demand;
pub(crate) mod layered;
pub(crate) mod list;

use crate::bits::kernel;
use crate::bits::memory::{Allocation, Mover};
use crate::error::{Error, require};
use crate::item::{Item, ItemHash};
use crate::params::Layout;
use batch::{AddMany, AddOne, Block, BlockOutcome, ContainsMany, Hasher, Layer, Subset};
pub use demand::{Allowance, Demand, Limit, UNLIMITED, at_most};
use demand::{FILTER_BYTES, ask};
use list::List;

/// The largest capacity of all layers of a filter together: it fits into a reply, and sums do not overflow.
pub const MOST_ITEMS: u64 = i64::MAX as u64;

/// The most layers to which filters of a server's clients grow. A query for an absent item reads every layer, and a
/// new layer is added next to all others: with this many layers a query takes ten microseconds or more, and growth a
/// hundred. Growth never needs so many layers: with an expansion of 2 the 41st is for a thousand billion items. The
/// limit is a little above that of RedisBloom's filters, whose rate is 0 after some 1,070 halvings.
pub const MOST_LAYERS: usize = 1100;

/// The shape of a layer of filters with these rules.
pub type ShapeOf<R> = <<R as Rules>::Layer as Layer>::Shape;

/// How the filters of a layout hash and grow.
pub trait Rules: Clone {
    /// The layout.
    const LAYOUT: Layout;
    /// A layer.
    type Layer: Layer;
    /// The hash function.
    type Hasher: Hasher;

    /// The filter's hash function.
    fn hasher(&self) -> &Self::Hasher;

    /// The shape of the next layer after `layers`, oldest first; [`Error::Full`] if the filter may not grow.
    fn next(
        &self,
        layers: impl ExactSizeIterator<Item = ShapeOf<Self>> + DoubleEndedIterator,
    ) -> Result<ShapeOf<Self>, Error>;

    /// The capacity of a new layer divided by that of the layer before it; `None` if the filter does not grow.
    fn growth_factor(&self) -> Option<u32>;

    /// The shape of the first layer of a new filter like one with these layers.
    fn first_again(&self, layers: &[Self::Layer]) -> ShapeOf<Self> {
        layers[0].shape()
    }

    /// What reports show of a layer of this shape.
    fn described(&self, shape: ShapeOf<Self>) -> LayerShape;

    /// The false positive rate that a filter with these layers was made for.
    fn rate_of(&self, layers: &[Self::Layer]) -> f64;

    /// The false positive rate of layers, newest first, with what they hold.
    fn present_rate<'a>(layers: impl Iterator<Item = &'a Self::Layer>) -> f64
    where
        Self: 'a;

    /// The layer with byte `offset` of the bits of all layers, end to end, and the offset of that layer's first byte.
    fn place_of(layers: &[Self::Layer], offset: u64) -> Option<(usize, u64)> {
        let (mut start, mut end) = (0, 0);
        let layer = layers.iter().position(|layer| {
            start = end;
            end += layer.bytes();
            offset < end
        });
        layer.map(|layer| (layer, start))
    }

    /// Bytes that are reported for a filter with this number of layers, without their bits. Spare room in the list of
    /// layers is not counted: a replica's list may have grown in other steps, and its filter must be as large.
    fn own_bytes(layers: usize) -> u64 {
        FILTER_BYTES + (List::<Self::Layer>::listed(layers) * size_of::<Self::Layer>()) as u64
    }

    /// Bytes that are reported for a filter with this number of layers, whose bit arrays have `arrays` bytes.
    fn bytes(layers: usize, arrays: u64) -> u64 {
        Self::own_bytes(layers).saturating_add(arrays)
    }

    /// [`Self::bytes`]; 0 without layers, as there is no filter yet.
    fn held(layers: usize, arrays: u64) -> u64 {
        match layers {
            0 => 0,
            layers => Self::bytes(layers, arrays),
        }
    }
}

/// What a layer was made from, as reports show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerShape {
    /// Items that the layer is made for.
    pub capacity: u64,
    /// Bytes of the layer's bit array.
    pub bytes: u64,
    /// Bits of the layer's bit array.
    pub bits: u64,
    /// The rate that the layer is made for.
    pub error_rate: f64,
    /// The number of lines that an item has, in the blocked layout.
    pub lines_per_item: Option<u64>,
    /// Bits that an item sets: in each of its lines, or in the whole layer.
    pub probes: u64,
    /// Bits of each of an item's two hashes, in a layout that has 32 or 64.
    pub hash_width: Option<u32>,
}

/// A Bloom filter of one layout. It has at least one layer.
pub struct Chain<R: Rules> {
    pub(super) layers: List<R::Layer>,
    pub(super) rules: R,
}

impl<R: Rules> Chain<R> {
    /// Makes a filter with `first` as its only layer.
    pub fn new((rules, first): (R, ShapeOf<R>), allowance: Allowance<'_>) -> Result<Self, Error> {
        let mut layers = List::default();
        append(&rules, &mut layers, first, allowance)?;
        Ok(Self { layers, rules })
    }

    /// Makes a new filter like this one. If that takes no more memory than this one, it is within every limit.
    pub fn emptied(&self, allowance: Allowance<'_>) -> Result<Self, Error> {
        let first = self.rules.first_again(&self.layers);
        let takes_more = self.rules.described(first).bytes > R::Layer::bytes_of_all(&self.layers);
        let allowance = if takes_more { allowance } else { UNLIMITED };
        Self::new((self.rules.clone(), first), allowance)
    }

    /// Makes a stored filter. The caller has checked that there is a layer, and that the layers fit the rules.
    pub(super) fn of_layers(rules: R, layers: Vec<R::Layer>) -> Self {
        let layers = layers.into();
        let mut chain = Self { layers, rules };
        R::Layer::start_all_at(&mut chain.layers, 0);
        chain
    }

    /// The layers, oldest first.
    pub fn layers(&self) -> &[R::Layer] {
        &self.layers
    }

    /// The rules of the filter.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Bytes of the bit arrays of the first `layers` layers.
    pub(super) fn array_bytes(&self, layers: usize) -> u64 {
        R::Layer::bytes_of_all(&self.layers[..layers.min(self.layers.len())])
    }

    /// Passes every block of memory to `visit`, as [`Filter::each_allocation`](crate::Filter::each_allocation) does.
    pub fn each_allocation(&self, visit: impl FnMut(Allocation)) {
        let list = self.layers.allocation();
        let arrays = self.layers.iter().filter_map(Layer::allocation);
        list.into_iter().chain(arrays).for_each(visit);
    }

    /// Whether `item` is (probably) in the filter.
    #[inline(always)]
    pub fn contains<'a>(&self, item: impl Into<Item<'a>>) -> bool {
        let (item, hasher) = (item.into(), self.rules.hasher());
        let only = match &self.layers {
            List::One(layer) => Some(layer),
            _ => None,
        };
        match hasher.known(item) {
            Some(hash) => only
                .and_then(|layer| layer.contains_in_only_layer(&hash, &[]))
                .unwrap_or_else(|| batch::any_contains(self.layers.iter().rev(), hash)),
            None => only
                .and_then(|layer| layer.contains_in_only_layer(hasher, item.bytes()))
                .unwrap_or_else(|| self.hashed_is_contained(item.bytes())),
        }
    }

    /// Hashes an item and looks it up in all layers. A function of its own, so that the short way of most filters does
    /// not compute the half of the hash that only this needs.
    #[inline(never)]
    fn hashed_is_contained(&self, item: &[u8]) -> bool {
        let hash = self.rules.hasher().hash(item.into());
        batch::any_contains(self.layers.iter().rev(), hash)
    }

    /// Queries items in blocks, as [`Filter::contains_blocks`](crate::Filter::contains_blocks) does.
    pub fn contains_blocks(
        &self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        found: impl FnMut(Subset, &Block),
    ) {
        kernel::run(ContainsMany {
            layers: self.layers.iter().rev(),
            hasher: self.rules.hasher(),
            items,
            found,
        });
    }

    /// Adds `item`; true if it was new.
    #[inline(always)]
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, allowance: Allowance<'_>) -> Result<bool, Error> {
        let (item, hasher) = (item.into(), self.rules.hasher());
        let only = match &mut self.layers {
            List::One(layer) if layer.items() < layer.capacity() => Some(layer),
            _ => None,
        };
        let (known, item) = (hasher.known(item), item.bytes());
        let is_new = only.and_then(|layer| match known {
            Some(hash) => layer.insert_into_only_layer(&hash, &[]),
            None => layer.insert_into_only_layer(hasher, item),
        });
        match (is_new, known) {
            (Some(is_new), _) => Ok(is_new),
            (None, Some(hash)) => self.add_or_grow(hash, allowance),
            (None, None) => self.add_hashed(item, allowance),
        }
    }

    /// Hashes an item and adds it, as [`Self::hashed_is_contained`] looks it up.
    #[inline(never)]
    fn add_hashed(&mut self, item: &[u8], allowance: Allowance<'_>) -> Result<bool, Error> {
        self.add_or_grow(self.rules.hasher().hash(item.into()), allowance)
    }

    #[inline(never)]
    fn add_or_grow(&mut self, hash: ItemHash, allowance: Allowance<'_>) -> Result<bool, Error> {
        let Self { layers, rules } = self;
        let grow = |layers: &mut List<R::Layer>| grow(layers, rules, allowance);
        kernel::run(AddOne { layers, hash, grow })
    }

    /// Adds items in blocks, as [`Filter::add_blocks`](crate::Filter::add_blocks) does.
    pub fn add_blocks(
        &mut self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome, &Block),
    ) -> Result<(), Error> {
        let Self { layers, rules } = self;
        let grow = |layers: &mut List<R::Layer>| grow(layers, rules, allowance);
        kernel::run(AddMany {
            layers,
            hasher: rules.hasher(),
            items,
            added,
            grow,
        })
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0 {
            self.layers.relocate(mover);
        }
        for (index, layer) in self.layers.iter_mut().enumerate().skip(first) {
            if index > first && mover.must_pause() {
                return Some(index);
            }
            layer.relocate(mover);
        }
        None
    }
}

/// Appends the next layer. On an error the layers are unchanged.
#[cold]
fn grow<R: Rules>(layers: &mut List<R::Layer>, rules: &R, allowance: Allowance<'_>) -> Result<(), Error> {
    let next = rules.next(layers.iter().map(Layer::shape))?;
    append(rules, layers, next, allowance)
}

pub(super) fn append<R: Rules>(
    rules: &R,
    layers: &mut List<R::Layer>,
    new: ShapeOf<R>,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    let (capacity, described) = (capacity(layers), rules.described(new));
    let all = capacity.saturating_add(described.capacity);
    require(all <= MOST_ITEMS, Error::Full { capacity })?;
    let arrays = R::Layer::bytes_of_all(layers);
    let grows_to = Some(layers.len() + 1);
    ask_for_next::<R>(layers.len(), arrays, described.bytes, grows_to, allowance)?;
    let mut layer = R::Layer::make(new)?;
    layer.start_at(arrays);
    layers.push(layer)
}

/// Requests memory for a bit array of `array` bytes, beside `layers` layers whose arrays have `arrays` bytes.
pub(super) fn ask_for_next<R: Rules>(
    layers: usize,
    arrays: u64,
    array: u64,
    grows_to: Option<usize>,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    let total = R::bytes(layers + 1, arrays.saturating_add(array));
    ask(R::held(layers, arrays), total, grows_to, allowance)
}

/// The sum of the layers' capacities.
pub(super) fn capacity<L: Layer>(layers: &[L]) -> u64 {
    let capacities = layers.iter().map(Layer::capacity);
    sum(capacities)
}

/// The sum of these numbers; saturating.
pub(super) fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The shapes of the layers of a filter that counts `items`: at most the first `most`, and no more than it can have.
pub(super) fn planned<R: Rules>(rules: &R, first: ShapeOf<R>, items: u64, most: usize) -> Vec<ShapeOf<R>> {
    let capacity_of = |shape| rules.described(shape).capacity;
    let (mut layers, mut capacity) = (Vec::from([first]), capacity_of(first));
    while capacity < items
        && layers.len() < most
        && let Ok(next) = rules.next(layers.iter().copied())
    {
        capacity = capacity.saturating_add(capacity_of(next));
        layers.push(next);
    }
    layers
}

/// The false positive rate of several layers, from that of each. Rates far below the rounding of 1 are not lost.
pub(super) fn compound(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |all, rate| all + rate * (1.0 - all))
}
