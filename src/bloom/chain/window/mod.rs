//! Filters that forget in time: a ring of layers that come and go.
//!
//! A window is divided into [`slices`]. The items of a slice go into a layer of its own, and when the last of them is
//! older than the window, the layer goes as a whole. So an item is found for at least the window, and at most for a
//! slice longer. Which layer comes next, and what of the error budget it has, is in [`budget`].
//!
//! A question changes nothing: it leaves out what is over by the clock of whoever asks. Also an addition changes
//! something only for an item that is not there: then what is over goes, and a slice begins if one must. So a replica
//! that is told of these items alone, with their time, has the same layers.

pub mod budget;
pub mod slices;

use std::cell::Cell;

use super::batch::{
    Added, AnyContains, BLOCK, Block as ItemBlock, ContainsMany, Hasher as _, Items, Layer, Memory as Known,
};
use super::demand::{FILTER, Frame, Refused, ask, reserve_one, reserved};
use super::{Allowance, MOST_ITEMS, Plan, Rules, capacity};
use crate::bloom::bits::kernel::{self, Kernel, Work};
use crate::bloom::bits::memory::{Allocation, Block, Mover};
use crate::bloom::error::Error;
use crate::bloom::item::Item;
use crate::bloom::params::{Capacity, Time, Window};
use budget::{Held, Share};
use slices::{Slices, Span};

/// How a layout sizes the layers of a window.
pub trait Sizing: Rules {
    /// The rate of the whole filter.
    fn budget(&self) -> f64;

    /// How many times the newest layer's capacity a further one of the same slice has at most.
    fn factor(&self) -> u32;

    /// The layer for so many items at that rate or less.
    fn sized(capacity: u64, rate: f64) -> Self::Plan;

    /// The rate that a layer has when it is full.
    fn rate(plan: &Self::Plan) -> f64;
}

/// Slices that can be alive at most. They are more than a window has only where its slices are ended early.
pub const MOST_SLICES: usize = 256;

/// A filter with a window.
#[derive(Debug)]
pub struct Ring<R: Rules> {
    rules: R,
    layers: Vec<R::Layer>,
    slices: Slices,
    capacity: Capacity,
    /// Bytes of the bit arrays that were before the oldest layer's.
    gone: u64,
    /// The layers that went last, until somebody takes them, or others go: a long batch in a window of few items would
    /// else keep all that ever were in it.
    leaving: Vec<R::Layer>,
    /// What time it is for whoever holds the filter. It is no part of what is stored.
    clock: Cell<Time>,
}

/// What a ring is made of, as it is stored.
#[derive(Debug)]
pub struct Parts<R: Rules> {
    /// What the filter was made with.
    pub rules: R,
    /// Its layers, oldest first.
    pub layers: Vec<R::Layer>,
    /// Their slices.
    pub slices: Slices,
    /// Items expected in a window.
    pub capacity: Capacity,
    /// Bytes of the bit arrays that were before the oldest layer's.
    pub gone: u64,
}

/// Is told, each time that layers go and before anything comes in their place, which go and which are left.
pub type Witness<'w, L> = &'w mut dyn FnMut(&[L], &[L]);

/// Where items can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// Into the newest layer, which has room for so many.
    Open(u64),
    /// Nowhere, before [`Ring::make_room`].
    Closed,
}

impl<R: Sizing> Ring<R> {
    /// The blocks that a ring has besides its layers.
    pub(in crate::bloom) const FRAME: Frame = Frame::new(&[FILTER, Block::of::<Self>()], size_of::<Span>());

    /// A filter with a window, and without layers: the first item makes one. All that a full window takes is asked
    /// for, so that who has too little memory hears of it now.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub fn new(
        rules: R,
        capacity: Capacity,
        window: Window,
        allowance: Allowance<'_>,
    ) -> Result<Self, Error> {
        let arrays = planned(&rules, capacity, window, capacity.items());
        ask::<R::Layer>(Self::FRAME, arrays.iter().map(Plan::bytes), 0, 0, allowance).map_err(over_limit)?;
        Ok(Self::of_parts(Parts {
            rules,
            layers: Vec::new(),
            slices: Slices::new(window, Vec::new(), false),
            capacity,
            gone: 0,
        }))
    }

    /// A stored filter. The caller has checked that its parts suit each other.
    pub(in crate::bloom) fn of_parts(parts: Parts<R>) -> Self {
        let Parts {
            rules,
            layers,
            slices,
            capacity,
            gone,
        } = parts;
        let mut ring = Self {
            rules,
            layers,
            slices,
            capacity,
            gone,
            leaving: Vec::new(),
            clock: Cell::new(0),
        };
        Layer::start_all_at(&mut ring.layers, ring.gone);
        ring
    }

    /// Tells what time it is: questions leave out what is over by then, and additions are stamped with it.
    pub fn set_clock(&self, now: Time) {
        self.clock.set(now);
    }

    /// What a change is stamped with: the clock's time, but never one before the newest stamp.
    pub fn time(&self) -> Time {
        self.slices.time(self.clock.get())
    }

    /// The layers, oldest first, also those that are over.
    pub fn layers(&self) -> &[R::Layer] {
        &self.layers
    }

    /// The layers, for loading.
    pub(in crate::bloom) fn layers_mut(&mut self) -> &mut [R::Layer] {
        &mut self.layers
    }

    /// The slices that they are in.
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// What the filter was made with.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Items expected in a window.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Bytes of the bit arrays that were before the oldest layer's.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// How many of the layers, which are the oldest, are over.
    pub fn over(&self) -> usize {
        self.slices.over(self.clock.get())
    }

    fn alive(&self) -> &[R::Layer] {
        &self.layers[self.over()..]
    }

    /// Bytes of the bit arrays of the first `layers` layers.
    pub(in crate::bloom) fn array_bytes(&self, layers: usize) -> u64 {
        R::Layer::bytes_of_all(&self.layers[..layers.min(self.layers.len())])
    }

    /// See [`Filter::each_allocation`](crate::bloom::Filter::each_allocation).
    pub fn each_allocation(&self, visit: impl FnMut(Allocation)) {
        let own = Allocation::of_array(std::slice::from_ref(self));
        let lists = [
            Allocation::of_list(&self.layers),
            Allocation::of_list(self.slices.held()),
        ];
        let arrays = self.layers.iter().filter_map(Layer::allocation);
        own.into_iter()
            .chain(lists.into_iter().flatten())
            .chain(arrays)
            .for_each(visit);
    }

    /// See [`Filter::relocate`](crate::bloom::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0 {
            self.layers = mover.list(std::mem::take(&mut self.layers));
            let spans = self.slices.list();
            *spans = mover.list(std::mem::take(spans));
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
    pub fn contains(&self, item: Item<'_>) -> bool {
        let hash = self.rules.hasher().hash(item);
        let layers = self.alive();
        kernel::run(AnyContains { layers, hash })
    }

    /// See [`Filter::contains_blocks`](crate::bloom::Filter::contains_blocks).
    pub fn contains_blocks<'a>(
        &self,
        mut items: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(Items, &ItemBlock),
    ) {
        let layers = self.alive();
        if layers.is_empty() {
            let mut block = ItemBlock::new();
            loop {
                block.count = items.by_ref().take(BLOCK).count();
                if block.count == 0 {
                    return;
                }
                found(Items::NONE, &block);
            }
        }
        kernel::run(ContainsMany {
            layers,
            hasher: self.rules.hasher(),
            items,
            found,
        });
    }

    /// See [`Filter::add_blocks`](crate::bloom::Filter::add_blocks).
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        added: impl FnMut(Added, &ItemBlock),
    ) -> Result<(), Error> {
        let refresh = self.slices.window().refresh();
        self.add_before(items, refresh, &mut |_, _| (), allowance, added)
    }

    /// The same before a witness; with `refresh` an item that is there lives on from now.
    ///
    /// # Errors
    /// As there.
    pub fn add_before<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        refresh: bool,
        witness: Witness<'_, R::Layer>,
        allowance: Allowance<'_>,
        added: impl FnMut(Added, &ItemBlock),
    ) -> Result<(), Error> {
        let time = self.time();
        kernel::run(AddMany {
            ring: self,
            time,
            refresh,
            witness,
            items,
            allowance,
            added,
        })
    }

    /// Ends the newest slice now, and lets go what is over. Whether that changed anything.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub fn rotate(&mut self, witness: Witness<'_, R::Layer>) -> Result<bool, Error> {
        let time = self.time();
        let is_wrong = self.slices.is_wrong_at(time);
        let over = self.slices.over(time);
        // A slice that takes items is not over, so it is still there after those that are.
        let ends = is_wrong || self.slices.is_open(time);
        self.let_go(over, witness)?;
        if is_wrong {
            self.slices.put_right(time);
        } else if ends {
            self.slices.end_at(time);
        }
        Ok(over > 0 || ends)
    }

    /// Whether one slice more can be alive after a [`Self::rotate`].
    pub fn may_rotate(&self) -> bool {
        let time = self.time();
        let over = self.slices.over(time);
        let begins = self.slices.spans().iter().skip(over).filter(|span| span.begins);
        begins.count() < MOST_SLICES
    }

    /// The layers that went last, which may take long to free, and how many went since this was last asked.
    pub fn take_leaving(&mut self) -> (Vec<R::Layer>, u64) {
        (std::mem::take(&mut self.leaving), self.slices.take_dropped())
    }

    /// Takes the oldest layers out.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    fn let_go(&mut self, over: usize, witness: Witness<'_, R::Layer>) -> Result<(), Error> {
        if over == 0 {
            return Ok(());
        }
        self.leaving = reserved(over)?;
        let (leaving, left) = self.layers.split_at(over);
        witness(leaving, left);
        self.take_out(over);
        Ok(())
    }

    fn take_out(&mut self, over: usize) {
        self.gone = self.gone.saturating_add(self.array_bytes(over));
        self.leaving.extend(self.layers.drain(..over));
        self.slices.drop_oldest(over);
        if self.gone > MOST_GONE {
            self.gone = 0;
            Layer::start_all_at(&mut self.layers, self.gone);
        }
    }

    /// Where items can go at `time`.
    #[inline]
    fn door(&self, time: Time) -> Door {
        let Some(newest) = self.layers.last() else {
            return Door::Closed;
        };
        let is_open =
            self.slices.is_open(time) && self.slices.over(time) == 0 && !self.slices.is_wrong_at(time);
        match newest.capacity().saturating_sub(newest.items()) {
            room @ 1.. if is_open => Door::Open(room),
            _ => Door::Closed,
        }
    }

    /// The first of the layers in which an item must be for nothing to change at `time`; with `refresh` an item that is
    /// added again lives on from then.
    #[inline]
    fn settled_from(&self, time: Time, refresh: bool) -> usize {
        if !refresh {
            self.slices.over(time)
        } else if self.begins_slice(time) {
            self.layers.len()
        } else {
            self.slices.newest()
        }
    }

    /// Whether an item that is added at `time`, and changes anything, begins a slice.
    fn begins_slice(&self, time: Time) -> bool {
        let is_full = || {
            self.layers
                .last()
                .is_none_or(|newest| newest.items() >= newest.capacity())
        };
        let counts = self.slices.window().milliseconds().is_none();
        !self.slices.is_open(time) || self.slices.is_wrong_at(time) || counts && is_full()
    }

    /// Makes room for an item that comes at `time`, of which nothing is known: lets go what is over, begins a slice
    /// if one must begin, or adds a layer to the newest one if that is full.
    ///
    /// # Errors
    /// [`Error::OverLimit`] or [`Error::OutOfMemory`]; nothing changed.
    #[cold]
    fn make_room(
        &mut self,
        time: Time,
        witness: Witness<'_, R::Layer>,
        allowance: Allowance<'_>,
    ) -> Result<(), Error> {
        let is_wrong = self.slices.is_wrong_at(time);
        let begins = self.begins_slice(time);
        let over = self.over_before(time, begins);
        let newest = self
            .layers
            .last()
            .map_or((0, 0), |layer| (layer.items(), layer.capacity()));
        if !begins && newest.0 < newest.1 {
            return self.let_go(over, witness);
        }
        let share = self.next(time, begins, over, newest)?;
        let plan = R::sized(share.capacity, share.rate);
        let (layers, made) = (&self.layers[over..], capacity(&self.layers[over..]));
        if made.saturating_add(plan.capacity()) > MOST_ITEMS {
            return Err(Error::Full { capacity: made });
        }
        let arrays = layers.iter().map(Layer::bytes).chain([plan.bytes()]);
        let room = self.layers.capacity();
        if layers.is_empty() {
            // The filter's own blocks are there already; they are small, and told of as new.
            ask::<R::Layer>(Self::FRAME, arrays, 0, room, allowance)
        } else {
            ask::<R::Layer>(Self::FRAME, arrays, layers.len(), room, allowance)
        }
        .map_err(over_limit)?;
        let layer = plan.make()?;
        if over == 0 {
            reserve_one(&mut self.layers)?;
            self.slices.reserve_one()?;
        }
        self.let_go(over, witness)?;
        if is_wrong {
            self.slices.put_right(time);
        }
        self.slices.push(time, begins, share.spare);
        self.layers.push(layer);
        let start = self.gone + R::Layer::bytes_of_all(&self.layers[..self.layers.len() - 1]);
        if let Some(layer) = self.layers.last_mut() {
            layer.start_at(start);
        }
        Ok(())
    }

    /// How many layers are over when an item comes at `time`, which may begin a slice.
    fn over_before(&self, time: Time, begins: bool) -> usize {
        if self.slices.window().milliseconds().is_some() {
            return self.slices.over(time);
        }
        if !begins {
            return 0;
        }
        // A slice goes when those after it hold the last items, as many as are asked for.
        let (mut after, mut from) = (0u64, self.layers.len());
        while from > 0 && after < self.capacity.items() {
            from -= 1;
            after = after.saturating_add(self.layers[from].items());
        }
        from
    }

    fn next(&self, time: Time, begins: bool, over: usize, newest: (u64, u64)) -> Result<Share, Error> {
        let budget = self.rules.budget();
        let layer = |index: usize| {
            let layer: &R::Layer = &self.layers[index];
            Held {
                items: layer.items(),
                rate: R::rate(&R::plan_of(layer)),
            }
        };
        match self.slices.progress(time) {
            Some(progress) if !begins => {
                let factor = self.rules.factor();
                Ok(budget::of_burst(
                    budget,
                    progress,
                    newest,
                    factor,
                    &self.slices,
                    over,
                    layer,
                ))
            }
            _ => {
                let capacity = self.slices.window().slice_capacity(self.capacity);
                budget::of_slice(budget, capacity, &self.slices, over, layer)
            }
        }
    }
}

/// Bytes that may have gone before they are counted from 0 again: where a layer starts is kept in 54 bits.
pub const MOST_GONE: u64 = 1 << 52;

fn over_limit(Refused { bytes, limit }: Refused) -> Error {
    Error::OverLimit { bytes, limit }
}

/// The layers of a window that is full of `items`, which came steadily for longer than that.
pub(in crate::bloom) fn planned<R: Sizing>(
    rules: &R,
    capacity: Capacity,
    window: Window,
    items: u64,
) -> Vec<R::Plan> {
    let usual = window.slice_capacity(capacity);
    let slice = items.div_ceil(window.slices().into());
    let capacity = if slice > usual && window.milliseconds().is_some() {
        budget::with_margin(slice)
    } else {
        usual
    };
    let plan = R::sized(capacity, budget::slice_rate(rules.budget(), window.slices()));
    vec![plan; usize::from(window.slices()) + 1]
}

/// Adds items to a ring in their order. Ends at the first item that it has no room for: those before it are in.
struct AddMany<'r, 'w, 'l, R: Sizing, I, F> {
    ring: &'r mut Ring<R>,
    time: Time,
    /// Whether an item that is added again lives on.
    refresh: bool,
    witness: Witness<'w, R::Layer>,
    items: I,
    allowance: Allowance<'l>,
    added: F,
}

impl<'a, R, I, F> Work for AddMany<'_, '_, '_, R, I, F>
where
    R: Sizing,
    I: Iterator<Item = &'a [u8]>,
    F: FnMut(Added, &ItemBlock),
{
    type Output = Result<(), Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<(), Error> {
        let (ring, time) = (self.ring, self.time);
        let mut block = ItemBlock::new();
        loop {
            let newest = ring.layers.last().map(Layer::prefetcher);
            if !block.fill(ring.rules.hasher(), &mut self.items, newest) {
                return Ok(());
            }
            let (hashes, mut pending) = (&block.hashes, block.items());
            let mut told = Added::of_new(Items::NONE, block.count);
            // Those that are in any of some layers.
            let within = |layers: &[R::Layer], items: Items| {
                R::Layer::any_contains_block(layers, kernel, hashes, items, Known::Unasked)
            };
            while !pending.is_empty() {
                let from = ring.settled_from(time, self.refresh);
                let Door::Open(room) = ring.door(time) else {
                    // What changes nothing needs no room.
                    let settled = within(&ring.layers[from..], pending);
                    let Some(at) = pending.without(settled).next() else {
                        break;
                    };
                    pending = pending.from(at);
                    if let Err(error) = ring.make_room(time, self.witness, self.allowance) {
                        told.count = at;
                        (self.added)(told, &block);
                        return Err(error);
                    }
                    continue;
                };
                let Some((newest, older)) = ring.layers.split_last_mut() else {
                    break;
                };
                let unknown = pending.without(within(&older[from..], pending));
                let fitting = unknown.lowest(room);
                let changed = newest.insert_block(kernel, hashes, fitting);
                let known = if from == 0 {
                    Items::NONE
                } else {
                    within(&older[..from], changed)
                };
                told.changed.put_all(changed);
                told.new.put_all(changed.without(known));
                if fitting == unknown {
                    break;
                }
                pending = pending.from(fitting.end());
            }
            (self.added)(told, &block);
        }
    }
}
