//! The scalable chain: layers that are added as a filter grows.
//!
//! What a layer is, how items are hashed and which layer comes next are the [`Rules`] of a layout; the
//! walk over the layers is here and in [`batch`](super::batch), once for all layouts.

use std::fmt;

use super::Filter;
use super::batch::{AddMany, AddOne, AnyContains, ContainsMany, ContainsOne, Hasher, InsertOne, Layer};
use super::error::Error;
use super::hash::Item;
use super::kernel;
use super::memory::{Allocation, Block, Mover};

/// Takes a block, and whether it is a new one.
type Visit<'a> = &'a mut dyn FnMut(Block, bool);

/// The memory that a filter asks for. An allocator takes more than it is asked for, which only it knows:
/// [`Self::taken`] tells how much that is.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    /// Bytes that are to be allocated now, and were with the demands that this one goes on from.
    pub new: u64,
    /// Bytes that the filter then takes, the new ones included.
    pub total: u64,
    /// Whether the blocks come on top of those of the demand before it: a stream tells of one layer after another.
    pub goes_on: bool,
    /// Hands every block that the filter then has to a visitor, with whether it is a new one.
    blocks: &'a dyn Fn(Visit<'_>),
}

/// What a [`Demand`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the blocks that are new.
    pub new: u64,
    /// Bytes of all blocks that the filter then has.
    pub total: u64,
}

impl Taken {
    /// Both together.
    pub fn and(self, more: Self) -> Self {
        Self {
            new: self.new.saturating_add(more.new),
            total: self.total.saturating_add(more.total),
        }
    }
}

impl Demand<'_> {
    /// What an allocator takes that takes so much for a block.
    pub fn taken(&self, of_block: impl Fn(Block) -> u64) -> Taken {
        let mut taken = Taken { new: 0, total: 0 };
        (self.blocks)(&mut |block, is_new| {
            let bytes = of_block(block);
            taken.total = taken.total.saturating_add(bytes);
            if is_new {
                taken.new = taken.new.saturating_add(bytes);
            }
        });
        taken
    }
}

impl fmt::Debug for Demand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.taken(|block| block.bytes);
        f.debug_tuple("Demand").field(&asked).finish()
    }
}

/// Asked, before anything is allocated, whether a filter may have that memory; if not, it gives the limit
/// in bytes.
pub type Allowance<'a> = &'a dyn Fn(Demand<'_>) -> Result<(), u64>;

/// No limit but the allocator's.
pub const UNLIMITED: Allowance<'static> = &|_| Ok(());

/// At most `limit` bytes for a filter as a whole.
pub fn at_most(limit: u64) -> impl Fn(Demand<'_>) -> Result<(), u64> {
    move |demand: Demand<'_>| if demand.total <= limit { Ok(()) } else { Err(limit) }
}

/// Items that all layers of a filter together may be made for: what a client can be told of, and a sum that does
/// not wrap.
pub const MOST_ITEMS: u64 = i64::MAX as u64;

/// Up to this many layers the list of layers is exactly as long as needed: small filters are many.
const EXACT_LAYERS: usize = 16;

/// How the filters of a layout hash and grow.
pub trait Rules {
    /// A layer.
    type Layer: Layer;
    /// A layer to come.
    type Plan: Plan<Self::Layer>;
    /// The hash function.
    type Hasher: Hasher;

    /// The filter's hash function.
    fn hasher(&self) -> &Self::Hasher;

    /// What a layer was made from.
    fn plan_of(layer: &Self::Layer) -> Self::Plan;

    /// The layer after those that were made from `layers`, oldest first.
    ///
    /// # Errors
    /// [`Error::Full`] when the filter may not grow.
    fn next(&self, layers: impl ExactSizeIterator<Item = Self::Plan>) -> Result<Self::Plan, Error>;
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
        append(&mut layers, first, allowance)?;
        Ok(Self { layers, rules })
    }

    /// A stored filter. The caller has checked that there is a layer, and that the layers suit the rules.
    pub(super) fn of_layers(rules: R, mut layers: Vec<R::Layer>) -> Self {
        let mut start = 0;
        for layer in &mut layers {
            layer.start_at(start);
            start += layer.bytes();
        }
        Self { layers, rules }
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

    /// Bytes of the bit arrays of the first `layers` layers.
    pub(super) fn array_bytes(&self, layers: usize) -> u64 {
        R::Layer::bytes_of_all(&self.layers[..layers.min(self.layers.len())])
    }

    /// See [`Filter::each_allocation`](super::Filter::each_allocation).
    pub fn each_allocation(&self, visit: impl FnMut(Allocation)) {
        let list = Allocation::of_list(&self.layers);
        let arrays = self.layers.iter().filter_map(Layer::allocation);
        list.into_iter().chain(arrays).for_each(visit);
    }

    /// See [`Filter::relocate`](super::Filter::relocate).
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

    /// See [`Filter::contains`](super::Filter::contains).
    pub fn contains<'a>(&self, item: impl Into<Item<'a>>) -> bool {
        let hash = self.rules.hasher().hash(item.into());
        match &self.layers[..] {
            [layer] => kernel::run(ContainsOne { layer, hash }),
            layers => kernel::run(AnyContains { layers, hash }),
        }
    }

    /// See [`Filter::contains_all`](super::Filter::contains_all).
    pub fn contains_all<'a>(&self, items: impl Iterator<Item = &'a [u8]>, found: impl FnMut(bool)) {
        kernel::run(ContainsMany {
            layers: &self.layers,
            hasher: self.rules.hasher(),
            items,
            found,
        });
    }

    /// See [`Filter::add`](super::Filter::add).
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

    /// See [`Filter::add_all`](super::Filter::add_all).
    pub fn add_all<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        added: impl FnMut(bool),
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
    append(layers, plan, allowance)
}

fn append<L: Layer>(layers: &mut Vec<L>, plan: impl Plan<L>, allowance: Allowance<'_>) -> Result<(), Error> {
    let capacity = capacity(layers);
    if capacity.saturating_add(plan.capacity()) > MOST_ITEMS {
        return Err(Error::Full { capacity });
    }
    let arrays = layers.iter().map(Layer::bytes).chain([plan.bytes()]);
    ask::<L>(arrays, layers.len(), layers.capacity(), allowance)
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

/// A filter that may not have its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// Bytes that it would take.
    pub bytes: u64,
    /// Bytes that it may take.
    pub limit: u64,
}

/// Asks for a filter whose layers have bit arrays of these sizes. The first `held` layers are there, in a list
/// with some room; without any, the filter itself is new too.
pub(super) fn ask<L: Layer>(
    arrays: impl Iterator<Item = u64> + Clone,
    held: usize,
    room: usize,
    allowance: Allowance<'_>,
) -> Result<(), Refused> {
    let bytes_of = |arrays: &mut dyn Iterator<Item = u64>| {
        let (mut layers, mut sum) = (0, 0_u64);
        for array in arrays {
            (layers, sum) = (layers + 1, sum.saturating_add(array));
        }
        bytes::<L>(layers, sum)
    };
    let total = bytes_of(&mut arrays.clone());
    let before = if held == 0 {
        0
    } else {
        bytes_of(&mut arrays.clone().take(held))
    };
    let visit = |visit: Visit<'_>| {
        blocks::<L>(arrays.clone(), room, |block, part| {
            let is_new = match part {
                Part::Filter => held == 0,
                Part::List { is_new } => is_new,
                Part::Array(layer) => layer >= held,
            };
            visit(block, is_new);
        });
    };
    let demand = Demand {
        new: total.saturating_sub(before),
        total,
        goes_on: false,
        blocks: &visit,
    };
    allowance(demand).map_err(|limit| Refused { bytes: total, limit })
}

/// Asks for one layer more of a filter that is read layer by layer, for all of which so far `bytes` were asked.
/// Gives the bytes of the filter with it. That is O(1): such a filter may have any number of layers.
pub(super) fn ask_on<L: Layer>(
    layers: &Vec<L>,
    bytes: u64,
    array: u64,
    allowance: Allowance<'_>,
) -> Result<u64, Refused> {
    let is_first = layers.is_empty();
    let own = if is_first { size_of::<Filter>() as u64 } else { 0 };
    let more = own.saturating_add(size_of::<L>() as u64).saturating_add(array);
    let total = bytes.saturating_add(more);
    let room = layers.capacity();
    let visit = |visit: Visit<'_>| {
        if is_first {
            visit(Block::of::<Filter>(), true);
        }
        visit(Block::of_array(array, L::UNIT), true);
        match room_for(layers.len() + 1, room) - room {
            0 => {}
            more => visit(Block::of_list::<L>(more), true),
        }
    };
    let demand = Demand {
        new: total,
        total,
        goes_on: !is_first,
        blocks: &visit,
    };
    allowance(demand).map_err(|limit| Refused { bytes: total, limit })?;
    Ok(total)
}

/// Makes room for a layer more. The list grows by parts of its length when it is long, so that a long
/// chain is not copied for every layer.
pub(super) fn reserve_one<L>(layers: &mut Vec<L>) -> Result<(), Error> {
    let room = room_for(layers.len() + 1, layers.capacity());
    let more = layers.try_reserve_exact(room - layers.len());
    more.map_err(|_| Error::OutOfMemory {
        bytes: size_of_val(&layers[..]) as u64,
    })
}

/// Bytes of a filter of so many layers, whose bit arrays have these bytes. Of a list of more than [`EXACT_LAYERS`]
/// layers the room to spare, an eighth at most, is not counted: a filter is as large as the same one on a
/// replica, whose list may have grown in other steps.
pub(super) fn bytes<L: Layer>(layers: usize, arrays: u64) -> u64 {
    let structs = (size_of::<Filter>() + layers * size_of::<L>()) as u64;
    arrays.saturating_add(structs)
}

/// The room that the list of layers gets when `layers` are to fit into it, and it has `room`.
fn room_for(layers: usize, room: usize) -> usize {
    if layers <= room {
        room
    } else if layers <= EXACT_LAYERS {
        layers
    } else {
        layers + (layers - 1) / 8 - 1
    }
}

/// Hands every block of such a filter to `visit`; a bit array with the number of its layer. `room` is that of
/// the list of layers, which gets more if it must.
pub(super) fn blocks<L: Layer>(
    arrays: impl Iterator<Item = u64>,
    room: usize,
    mut visit: impl FnMut(Block, Part),
) {
    visit(Block::of::<Filter>(), Part::Filter);
    let mut layers = 0;
    for array in arrays {
        visit(Block::of_array(array, L::UNIT), Part::Array(layers));
        layers += 1;
    }
    let list = room_for(layers, room);
    visit(Block::of_list::<L>(list), Part::List { is_new: list > room });
}

/// What a block of a filter is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The filter's own struct.
    Filter,
    /// The list of its layers; whether it is another one than before.
    List { is_new: bool },
    /// The bit array of the layer with that number.
    Array(usize),
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
