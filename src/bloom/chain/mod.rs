//! The scalable chain: layers that are added as a filter grows.
//!
//! What a layer is, how items are hashed and which layer comes next are the [`Rules`] of a layout; the
//! walk over the layers is here and in [`batch`], once for all layouts. The memory is in [`demand`]. Layers that
//! are not for ever, but come and go with time, are a [`window`].

pub mod batch;
pub mod demand;
pub mod window;

use crate::bloom::bits::kernel;
use crate::bloom::bits::memory::{Allocation, Mover};
use crate::bloom::error::Error;
use crate::bloom::item::Item;
use batch::{
    AddMany, AddOne, Added, AnyContains, Block, ContainsMany, ContainsOne, Hasher, InsertOne, Items, Layer,
};
pub use demand::{Allowance, Demand, Taken, UNLIMITED, at_most};
use demand::{Frame, Refused, ask, reserve, reserve_one};

/// Items that all layers of a filter together may be made for: what a client can be told of, and a sum that does
/// not wrap.
pub const MOST_ITEMS: u64 = i64::MAX as u64;

/// How the filters of a layout hash and grow.
pub trait Rules {
    /// A layer.
    type Layer: Layer;
    /// A layer to come.
    type Plan: Plan<Self::Layer>;
    /// The hash function.
    type Hasher: Hasher;

    /// What such a filter has besides its layers.
    const FRAME: Frame = Frame::CHAIN;

    /// The filter's hash function.
    fn hasher(&self) -> &Self::Hasher;

    /// What a layer was made from.
    fn plan_of(layer: &Self::Layer) -> Self::Plan;

    /// The layer after those that were made from `layers`, oldest first.
    ///
    /// # Errors
    /// [`Error::Full`] when the filter may not grow.
    fn next(
        &self,
        layers: impl ExactSizeIterator<Item = Self::Plan> + DoubleEndedIterator,
    ) -> Result<Self::Plan, Error>;
}

/// A layer that is still to be allocated.
pub trait Plan<L>: Copy {
    /// Items that it is made for.
    fn capacity(&self) -> u64;

    /// Bytes of its bit array.
    fn bytes(&self) -> u64;

    /// Allocates it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], with nothing allocated.
    fn make(self) -> Result<L, Error>;
}

/// A Bloom filter of one layout. It has at least one layer.
#[derive(Debug)]
pub struct Chain<R: Rules> {
    layers: Vec<R::Layer>,
    rules: R,
}

impl<R: Rules> Chain<R> {
    /// A filter with `first` as its layer.
    ///
    /// # Errors
    /// [`Error::OverLimit`] or [`Error::OutOfMemory`]; nothing is left behind.
    pub fn new(rules: R, first: R::Plan, allowance: Allowance<'_>) -> Result<Self, Error> {
        let mut layers = Vec::new();
        append(R::FRAME, &mut layers, first, allowance)?;
        Ok(Self { layers, rules })
    }

    /// A stored filter. The caller has checked that there is a layer, and that the layers suit the rules.
    pub(super) fn of_layers(rules: R, layers: Vec<R::Layer>) -> Self {
        let mut chain = Self { layers, rules };
        Layer::start_all_at(&mut chain.layers, 0);
        chain
    }

    /// The layers that the list has room for.
    pub(super) fn room(&self) -> usize {
        self.layers.capacity()
    }

    /// Makes room for so many layers more.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub(super) fn reserve(&mut self, more: usize) -> Result<(), Error> {
        reserve(&mut self.layers, more)
    }

    /// Has other rules from now on, and the layers that `change` makes of its own.
    pub(super) fn rebuild(&mut self, rules: R, change: impl FnOnce(&R, &mut Vec<R::Layer>)) {
        self.rules = rules;
        change(&self.rules, &mut self.layers);
        Layer::start_all_at(&mut self.layers, 0);
    }

    /// The layers, oldest first.
    pub fn layers(&self) -> &[R::Layer] {
        &self.layers
    }

    /// The layers, for loading.
    pub(super) fn layers_mut(&mut self) -> &mut [R::Layer] {
        &mut self.layers
    }

    /// What the filter was made with.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Items that the layers are made for.
    pub(super) fn capacity(&self) -> u64 {
        capacity(&self.layers)
    }

    /// Bytes of the bit arrays of the first `layers` layers.
    pub(super) fn array_bytes(&self, layers: usize) -> u64 {
        R::Layer::bytes_of_all(&self.layers[..layers.min(self.layers.len())])
    }

    /// See [`Filter::each_allocation`](crate::bloom::Filter::each_allocation).
    pub fn each_allocation(&self, visit: impl FnMut(Allocation)) {
        let list = Allocation::of_list(&self.layers);
        let arrays = self.layers.iter().filter_map(Layer::allocation);
        list.into_iter().chain(arrays).for_each(visit);
    }

    /// See [`Filter::relocate`](crate::bloom::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0 {
            self.layers = mover.list(std::mem::take(&mut self.layers));
        }
        for (index, layer) in self.layers.iter_mut().enumerate().skip(first) {
            if index > first && mover.must_pause() {
                return Some(index);
            }
            layer.relocate(mover);
        }
        None
    }

    /// See [`Filter::contains`](crate::bloom::Filter::contains).
    pub fn contains<'a>(&self, item: impl Into<Item<'a>>) -> bool {
        let hash = self.rules.hasher().hash(item.into());
        match &self.layers[..] {
            [layer] => kernel::run(ContainsOne { layer, hash }),
            layers => kernel::run(AnyContains { layers, hash }),
        }
    }

    /// See [`Filter::contains_blocks`](crate::bloom::Filter::contains_blocks).
    pub fn contains_blocks<'a>(
        &self,
        items: impl Iterator<Item = &'a [u8]>,
        found: impl FnMut(Items, &Block),
    ) {
        kernel::run(ContainsMany {
            layers: &self.layers,
            hasher: self.rules.hasher(),
            items,
            found,
        });
    }

    /// See [`Filter::add`](crate::bloom::Filter::add).
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, allowance: Allowance<'_>) -> Result<bool, Error> {
        let Self { layers, rules } = self;
        let hash = rules.hasher().hash(item.into());
        if let [layer] = &mut layers[..]
            && layer.items() < layer.capacity()
        {
            return Ok(kernel::run(InsertOne { layer, hash }));
        }
        let grow = |layers: &mut Vec<R::Layer>| grow(layers, rules, allowance);
        kernel::run(AddOne { layers, hash, grow })
    }

    /// See [`Filter::add_blocks`](crate::bloom::Filter::add_blocks).
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        added: impl FnMut(Added, &Block),
    ) -> Result<(), Error> {
        let Self { layers, rules } = self;
        let grow = |layers: &mut Vec<R::Layer>| grow(layers, rules, allowance);
        kernel::run(AddMany {
            layers,
            hasher: rules.hasher(),
            items,
            added,
            grow,
        })
    }
}

/// Appends the next layer. On an error the layers are as they were.
#[cold]
fn grow<R: Rules>(layers: &mut Vec<R::Layer>, rules: &R, allowance: Allowance<'_>) -> Result<(), Error> {
    let plan = rules.next(layers.iter().map(R::plan_of))?;
    append(R::FRAME, layers, plan, allowance)
}

fn append<L: Layer>(
    frame: Frame,
    layers: &mut Vec<L>,
    plan: impl Plan<L>,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    let capacity = capacity(layers);
    if capacity.saturating_add(plan.capacity()) > MOST_ITEMS {
        return Err(Error::Full { capacity });
    }
    let arrays = layers.iter().map(Layer::bytes).chain([plan.bytes()]);
    ask::<L>(frame, arrays, layers.len(), layers.capacity(), allowance)
        .map_err(|Refused { bytes, limit }| Error::OverLimit { bytes, limit })?;
    let mut layer = plan.make()?;
    layer.start_at(L::bytes_of_all(layers));
    reserve_one(layers)?;
    layers.push(layer);
    Ok(())
}

/// Items that layers are made for.
pub(super) fn capacity<L: Layer>(layers: &[L]) -> u64 {
    let capacities = layers.iter().map(Layer::capacity);
    capacities.fold(0, u64::saturating_add)
}

/// The layers that a filter has once it counts `items`, or the first `most` of them, or all that it can have.
/// Nothing is allocated for them.
pub(super) fn planned<R: Rules>(rules: &R, first: R::Plan, items: u64, most: usize) -> Vec<R::Plan> {
    let (mut layers, mut capacity) = (vec![first], first.capacity());
    while capacity < items
        && layers.len() < most
        && let Ok(next) = rules.next(layers.iter().copied())
    {
        capacity = capacity.saturating_add(next.capacity());
        layers.push(next);
    }
    layers
}
