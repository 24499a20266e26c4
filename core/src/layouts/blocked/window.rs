//! Filters with a window: slices of time, each with a chain of its own.
//!
//! An item goes into the newest slice, and is found in every slice that has not expired. A slice expires as a whole,
//! one window after it has closed. So an item is found for at least the window, and for at most a slice longer.
//!
//! Time is an argument of every call. A query changes nothing: it leaves out the slices that have expired by the
//! caller's clock. An addition changes something only if the item is not there. Then expired slices are dropped, and a
//! slice is opened if none is open. So a replica that gets only these items, with their times, has equal slices.

use super::layer::LinePrefetcher;
use super::{Blocked, Layer, Shape};
use crate::bits::array::OutOfRange;
use crate::bits::kernel::{self, Kernel, Work};
use crate::bits::memory::{Allocation, Mover};
use crate::chain::batch::{
    self, BLOCK, Block, BlockOutcome, ContainsMany, Hasher as _, Layer as _, Prefetched, Subset,
};
use crate::chain::demand::{FILTER_BYTES, ask, reserve_one, reserved};
use crate::chain::layered::{LayerStats, Layered};
use crate::chain::list::List;
use crate::chain::{Allowance, Chain, Demand, MOST_ITEMS, Rules as _, UNLIMITED, append, sum};
use crate::error::{Error, require};
use crate::item::Item;
use crate::params::{Capacity, LATEST, Layout, Time, Window};

/// The most slices of a window. Only a clock that often goes far back makes more than [`Window::slices`] and one.
pub(crate) const MOST_SLICES: usize = 512;
/// The part of the rate that the first layers of a window's usual slices share. The rest is for further layers, and for
/// further slices after a clock was corrected.
const USUAL_PART: f64 = 0.85;
/// The part of the remaining rate that a further layer or slice gets, so that some always remains.
const FURTHER_PART: f64 = 0.25;
/// A further layer of a slice is made for at least the slice's items divided by this number.
const LEAST_GROWTH: u64 = 32;
/// The most bytes of dropped slices that are counted before 0 follows, so that the iterators of chunks fit into an i64.
pub const MOST_DROPPED_BYTES: u64 = 1 << 52;

/// A part of a window, whose items expire together.
pub struct Slice {
    /// The time of the first item.
    pub opens: Time,
    /// From this time on the slice takes no item.
    pub closes: Time,
    pub(crate) chain: Chain<Blocked>,
}

impl Slice {
    /// The layers, oldest first.
    pub fn layers(&self) -> &[Layer] {
        self.chain.layers()
    }

    /// Bytes of the bit arrays.
    pub fn array_bytes(&self) -> u64 {
        Layer::bytes_of_all(self.layers())
    }
}

/// A filter with a window.
pub struct Windowed {
    /// The seed, the growth and the rate of the whole filter.
    pub(crate) rules: Blocked,
    pub(crate) window: Window,
    /// The number of items that is expected in a window.
    pub(crate) capacity: Capacity,
    /// All slices, oldest first, including expired ones. There may be none.
    pub(crate) slices: Vec<Slice>,
    /// The time when the newest layer was made. No later change is stamped earlier.
    pub(crate) newest_stamp: Time,
    /// Whether the last time that a caller named was [too early](Self::has_wrong_stamps) for the newest stamp.
    is_doubted: bool,
    /// Bytes of the bit arrays of all slices that were dropped.
    pub(crate) dropped_bytes: u64,
    /// The slices that were dropped last, until the caller takes them, and the number of all their layers.
    dropped: (Vec<Slice>, u64),
}

impl Windowed {
    /// Makes a filter without slices. The allowance is asked for a full window; memory is allocated slice by slice.
    pub fn new(
        rules: Blocked,
        capacity: Capacity,
        window: Window,
        allowance: Allowance<'_>,
    ) -> Result<Self, Error> {
        let layers = planned(&rules, capacity, window, capacity.items());
        let bytes = Self::bytes_of(layers.len(), 0, sum(layers.iter().map(Shape::bytes)));
        ask(0, bytes, Some(layers.len()), allowance)?;
        Ok(Self::empty(rules, window, capacity))
    }

    pub(crate) fn empty(rules: Blocked, window: Window, capacity: Capacity) -> Self {
        Self {
            rules,
            window,
            capacity,
            slices: Vec::new(),
            newest_stamp: 0,
            is_doubted: false,
            dropped_bytes: 0,
            dropped: (Vec::new(), 0),
        }
    }

    /// Bytes of a filter with so many slices, with `listed` layers in lists, whose bit arrays have `arrays` bytes.
    pub fn bytes_of(slices: usize, listed: usize, arrays: u64) -> u64 {
        let own = size_of::<Self>() + slices * size_of::<Slice>() + listed * size_of::<Layer>();
        (FILTER_BYTES + own as u64).saturating_add(arrays)
    }

    /// The layers of all slices, oldest first, including expired ones.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.slices.iter().flat_map(Slice::layers)
    }

    /// The number of layers of the oldest `slices` slices.
    pub(crate) fn layers_of(&self, slices: usize) -> usize {
        let counts = self.slices.iter().take(slices).map(|slice| slice.layers().len());
        counts.sum()
    }

    /// Finds layer `layer` of all: its slice, and its number there.
    fn find(&self, layer: usize) -> (usize, usize) {
        let mut before = 0;
        for (at, slice) in self.slices.iter().enumerate() {
            let count = slice.layers().len();
            if layer < before + count {
                return (at, layer - before);
            }
            before += count;
        }
        (self.slices.len(), layer - before)
    }

    /// The layers that have not expired at `now`, newest first.
    pub(crate) fn living_layers(&self, now: Time) -> NewestFirst<'_> {
        NewestFirst::of(self.alive(now))
    }

    fn alive(&self, now: Time) -> &[Slice] {
        &self.slices[self.expired(now)..]
    }

    /// The number of slices that have expired at `now`; they are the oldest.
    #[inline]
    pub fn expired(&self, now: Time) -> usize {
        let has_expired = |slice: &&Slice| slice.closes.saturating_add(self.window.length()) <= now;
        self.slices.iter().take_while(has_expired).count()
    }

    /// The number of layers of the slices that have expired at `now`.
    pub fn expired_layers(&self, now: Time) -> usize {
        self.layers_of(self.expired(now))
    }

    /// The stamp of a change at `now`: that time, or a later newest stamp; at most [`LATEST`], which replicas take.
    pub fn stamp(&self, now: Time) -> Time {
        let now = now.min(LATEST);
        if self.has_wrong_stamps(now) {
            now
        } else {
            now.max(self.newest_stamp).min(LATEST)
        }
    }

    /// Whether the newest stamp is more than a window and a slice ahead of `now`, as a wrong clock gives it.
    fn has_wrong_stamps(&self, now: Time) -> bool {
        self.newest_stamp.saturating_sub(now) > self.window.length() + self.window.slice_length()
    }

    /// The time of an addition for which a caller names `now`, which may be a mistake: the newest stamp if that is
    /// later. Only a second time in a row for which that stamp is wrong (`has_wrong_stamps`) corrects it. So
    /// neither one late event makes the filter forget, nor one wrong time makes it remember for ever.
    pub fn named_time(&mut self, now: Time) -> Time {
        let is_wrong = self.has_wrong_stamps(now);
        let is_doubted = std::mem::replace(&mut self.is_doubted, is_wrong);
        if is_wrong && is_doubted {
            now
        } else {
            now.max(self.newest_stamp)
        }
    }

    /// Corrects [wrong stamps](Self::has_wrong_stamps): later stamps become `now`, and all slices are closed.
    fn correct_stamps(&mut self, now: Time) {
        for slice in &mut self.slices {
            slice.opens = slice.opens.min(now);
            slice.closes = slice.closes.min(now.saturating_add(1));
        }
        self.newest_stamp = now;
    }

    /// Whether the newest slice takes items at `time`.
    fn is_open(&self, time: Time) -> bool {
        !self.has_wrong_stamps(time) && self.slices.last().is_some_and(|slice| time < slice.closes)
    }

    /// See [`Filter::contains`](crate::Filter::contains).
    pub fn contains(&self, item: Item<'_>, now: Time) -> bool {
        let hash = self.rules.hasher().hash(item);
        batch::any_contains(self.living_layers(now), hash)
    }

    /// See [`Filter::contains_blocks`](crate::Filter::contains_blocks).
    pub fn contains_blocks(
        &self,
        mut items: impl Iterator<Item: AsRef<[u8]>>,
        now: Time,
        mut found: impl FnMut(Subset, &Block),
    ) {
        let alive = self.alive(now);
        if alive.is_empty() {
            let mut block = Block::new();
            loop {
                block.count = items.by_ref().take(BLOCK).count();
                if block.count == 0 {
                    return;
                }
                found(Subset::NONE, &block);
            }
        }
        kernel::run(ContainsMany {
            layers: NewestFirst::of(alive),
            hasher: self.rules.hasher(),
            items,
            found,
        });
    }

    /// See [`Filter::add_blocks`](crate::Filter::add_blocks).
    pub fn add_blocks(
        &mut self,
        items: impl Iterator<Item: AsRef<[u8]>>,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome, &Block),
    ) -> Result<(), Error> {
        kernel::run(AddMany {
            windowed: self,
            now,
            items,
            allowance,
            added,
        })
    }

    #[inline(always)]
    fn add_block<K: Kernel>(
        &mut self,
        kernel: K,
        now: Time,
        block: &Block,
        allowance: Allowance<'_>,
    ) -> (BlockOutcome, Result<(), Error>) {
        let mut outcome = BlockOutcome::of_new(Subset::NONE, block.count);
        let (time, refresh) = (self.stamp(now), self.window.refresh());
        let contained = |layers: NewestFirst<'_>, items| {
            Layer::any_contains_block(layers, kernel, &block.hashes, items, Prefetched::No)
        };
        let (expired, is_open) = (self.expired(time), self.is_open(time));
        // An item that is in one of these layers changes nothing.
        let mut searched = NewestFirst::of(match (refresh, is_open) {
            (false, _) => &self.slices[expired..],
            (true, true) => &self.slices[self.slices.len() - 1..],
            (true, false) => &[],
        });
        if is_open {
            // Whether an item changes the newest layer shows when it is inserted there.
            searched.next();
        }
        let unknown = block.items().without(contained(searched, block.items()));
        let Some(first) = { unknown }.next() else {
            return (outcome, Ok(()));
        };
        // An open slice may have no room for the item, and then nothing may change: so expired slices are dropped after
        // the insertion. A slice that is opened has room, and `drop_and_open` drops them itself.
        let (ready, expired) = if is_open {
            (self.reserve_dropped(expired), expired)
        } else {
            (self.drop_and_open(time, allowance), 0)
        };
        if let Err(error) = ready {
            outcome.count = first;
            return (outcome, Err(error));
        }
        let (changed, end) = self.insert(kernel, block, unknown, expired, time, allowance);
        if !changed.is_empty() {
            self.drop_oldest(expired);
        }
        let known = match &self.slices[..] {
            [older @ .., _] if refresh => contained(NewestFirst::of(older), changed),
            _ => Subset::NONE,
        };
        (outcome.changed, outcome.new) = (changed, changed.without(known));
        let end = end.map_err(|(at, error)| {
            outcome.count = at;
            error
        });
        (outcome, end)
    }

    /// Drops the slices that have expired at `time`, and opens one.
    fn drop_and_open(&mut self, time: Time, allowance: Allowance<'_>) -> Result<(), Error> {
        let expired = self.expired(time);
        let alive = &self.slices[expired..];
        if alive.len() >= MOST_SLICES {
            let capacity = sum(NewestFirst::of(alive).map(Layer::capacity));
            return Err(Error::Full { capacity });
        }
        let usual = usual_rate(&self.rules, self.window);
        let left = rate_left(&self.rules, NewestFirst::of(alive));
        let rate = if alive.len() <= self.window.slices().into() {
            usual.min(left)
        } else {
            left * FURTHER_PART
        };
        let first = Shape::sized(self.next_capacity(alive)?, rate);
        let (lists, arrays) = (listed(alive), arrays_of(alive));
        let with_it = arrays.saturating_add(first.bytes());
        let before = Self::bytes_of(alive.len(), lists, arrays);
        let after = Self::bytes_of(alive.len() + 1, lists, with_it);
        check_capacity(NewestFirst::of(alive), first)?;
        ask(before, after, Some(NewestFirst::of(alive).count() + 1), allowance)?;
        let chain = Chain::new((self.rules.clone(), first), UNLIMITED)?;
        if expired == 0 {
            reserve_one(&mut self.slices)?;
        }
        self.reserve_dropped(expired)?;
        self.drop_oldest(expired);
        if self.has_wrong_stamps(time) {
            self.correct_stamps(time);
        }
        self.slices.push(Slice {
            opens: time,
            closes: time.saturating_add(self.window.slice_length()),
            chain,
        });
        self.newest_stamp = time;
        Ok(())
    }

    /// The capacity of a new slice beside these: their median number of items, so that one burst does not make all
    /// slices of a window large, and at least the slice's part of the window's capacity.
    fn next_capacity(&self, alive: &[Slice]) -> Result<u64, Error> {
        let mut counts = reserved(alive.len())?;
        counts.extend(alive.iter().map(|slice| slice.chain.items(0)));
        counts.sort_unstable();
        let median = counts
            .get(counts.len().saturating_sub(1) / 2)
            .copied()
            .unwrap_or(0);
        Ok(capacity_for(median, self.window.slice_capacity(self.capacity)))
    }

    /// Inserts items of a block, which only the newest layer may contain, into the newest slice. Returns those that
    /// changed it and, if one found no room, its position and the error. The oldest `expired` slices do not count.
    #[inline(always)]
    fn insert<K: Kernel>(
        &mut self,
        kernel: K,
        block: &Block,
        items: Subset,
        expired: usize,
        time: Time,
        allowance: Allowance<'_>,
    ) -> (Subset, Result<(), (usize, Error)>) {
        let Some((newest, older)) = self.slices.split_last_mut() else {
            return (Subset::NONE, Ok(()));
        };
        let older = &older[expired..];
        let (newest_stamp, closes, window) = (&mut self.newest_stamp, newest.closes, self.window);
        let Chain { layers, rules } = &mut newest.chain;
        let mut grow = |own: &mut List<Layer>| {
            let (elapsed, left) = (time.saturating_sub(*newest_stamp), closes.saturating_sub(time));
            let capacity = further_capacity(own, rules, elapsed, left);
            // The rates of usual slices that are still to be opened are kept for them.
            let to_open = usize::from(window.slices()).saturating_sub(older.len());
            let left = rate_left(rules, NewestFirst::of(older).chain(own.iter()))
                - to_open as f64 * usual_rate(rules, window);
            let next = Shape::sized(capacity, left.max(0.0) * FURTHER_PART);
            check_capacity(NewestFirst::of(older), next)?;
            let others: usize = older.iter().map(|slice| slice.layers().len()).sum();
            let besides = Self::bytes_of(older.len() + 1, listed(older), arrays_of(older)) - FILTER_BYTES;
            let allowance = |demand: Demand| {
                allowance(Demand {
                    total: demand.total.saturating_add(besides),
                    grows_to: demand.grows_to.map(|own| own + others),
                    ..demand
                })
            };
            append(rules, own, next, &allowance)?;
            *newest_stamp = time;
            Ok(())
        };
        batch::insert_unknown(kernel, layers, &block.hashes, items, &mut grow)
    }

    /// See [`Filter::take_dropped`](crate::Filter::take_dropped).
    pub fn take_dropped(&mut self) -> (Vec<Slice>, u64) {
        std::mem::take(&mut self.dropped)
    }

    /// Makes room for `count` slices that are dropped.
    fn reserve_dropped(&mut self, count: usize) -> Result<(), Error> {
        if count > 0 {
            self.dropped.0 = reserved(count)?;
        }
        Ok(())
    }

    /// Drops the `count` oldest slices, for which there is room.
    fn drop_oldest(&mut self, count: usize) {
        let arrays = arrays_of(&self.slices[..count]);
        self.dropped_bytes = self.dropped_bytes.saturating_add(arrays);
        if self.dropped_bytes > MOST_DROPPED_BYTES {
            self.dropped_bytes = 0;
        }
        self.dropped.1 += self.layers_of(count) as u64;
        self.dropped.0.extend(self.slices.drain(..count));
    }

    /// See [`Filter::each_allocation`](crate::Filter::each_allocation).
    pub fn each_allocation(&self, mut visit: impl FnMut(Allocation)) {
        let own = Allocation::of_array(std::slice::from_ref(self));
        let list = Allocation::of_list(&self.slices);
        own.into_iter().chain(list).for_each(&mut visit);
        for slice in &self.slices {
            slice.chain.each_allocation(&mut visit);
        }
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0 {
            self.slices = mover.list(std::mem::take(&mut self.slices));
        }
        let mut before = 0;
        for slice in &mut self.slices {
            let count = slice.layers().len();
            if before > first && mover.must_pause() {
                return Some(before);
            }
            if first < before + count {
                let paused = slice.chain.relocate(first.saturating_sub(before), mover);
                if let Some(layer) = paused {
                    return Some(before + layer);
                }
            }
            before += count;
        }
        None
    }
}

impl Layered for Windowed {
    fn layout(&self) -> Layout {
        Layout::Blocked
    }

    fn error_rate(&self) -> f64 {
        self.rules.error_rate().value()
    }

    fn expansion(&self) -> Option<u32> {
        self.rules.growth_factor()
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
        let (mut slices, mut counted, mut in_lists, mut arrays) = (0, 0, 0, 0);
        for slice in &self.slices {
            if counted >= layers {
                break;
            }
            let own = slice.layers().len().min(layers - counted);
            (slices, counted) = (slices + 1, counted + own);
            in_lists += List::<Layer>::listed(own);
            arrays += slice.chain.array_bytes(own);
        }
        Self::bytes_of(slices, in_lists, arrays)
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

    fn is_as_new(&self) -> bool {
        self.slices.is_empty() && self.newest_stamp == 0 && self.dropped_bytes == 0
    }
}

/// The layers of several slices, newest first.
#[derive(Clone)]
pub(crate) struct NewestFirst<'a> {
    /// The slices that were not reached yet.
    slices: &'a [Slice],
    /// The layers that are left of the slice that was reached.
    layers: &'a [Layer],
}

impl<'a> NewestFirst<'a> {
    fn of(slices: &'a [Slice]) -> Self {
        let layers = &[];
        Self { slices, layers }
    }
}

impl<'a> Iterator for NewestFirst<'a> {
    type Item = &'a Layer;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a Layer> {
        loop {
            if let [older @ .., layer] = self.layers {
                self.layers = older;
                return Some(layer);
            }
            let [older @ .., slice] = self.slices else {
                return None;
            };
            (self.slices, self.layers) = (older, slice.layers());
        }
    }
}

/// The number of layers of these slices that are in lists.
fn listed(slices: &[Slice]) -> usize {
    let layers = slices.iter().map(|slice| slice.layers().len());
    layers.map(List::<Layer>::listed).sum()
}

fn arrays_of(slices: &[Slice]) -> u64 {
    sum(slices.iter().map(Slice::array_bytes))
}

/// Checks that a new layer beside these leaves capacities that can be summed.
fn check_capacity<'a>(layers: impl Iterator<Item = &'a Layer>, new: Shape) -> Result<(), Error> {
    let capacity = sum(layers.map(Layer::capacity));
    let all = capacity.saturating_add(new.capacity);
    require(all <= MOST_ITEMS, Error::Full { capacity })
}

/// The rate of the first layer of a usual slice. One more of them than the window has slices can be alive.
fn usual_rate(rules: &Blocked, window: Window) -> f64 {
    rules.error_rate().value() * USUAL_PART / (f64::from(window.slices()) + 1.0)
}

/// The part of the filter's rate that these layers leave.
fn rate_left<'a>(rules: &Blocked, layers: impl Iterator<Item = &'a Layer>) -> f64 {
    let taken: f64 = layers.map(|layer| layer.shape().full_rate()).sum();
    (rules.error_rate().value() - taken).max(0.0)
}

/// The capacity of a slice that expects `items` items, where `usual` was asked for.
fn capacity_for(items: u64, usual: u64) -> u64 {
    if items > usual { with_margin(items) } else { usual }
}

/// A capacity for items that come at random, of which `items` are expected: three standard deviations more.
fn with_margin(items: u64) -> u64 {
    items.saturating_add(3 * items.isqrt()).max(1)
}

/// The capacity of a further layer in an open slice. The newest layer was filled in the time `elapsed`, and the slice
/// closes after the time `left`. The further layer is for the items that come until then at the same pace, so that a
/// burst at the end of a quiet slice fills few layers; at most for the newest layer's capacity times the expansion.
fn further_capacity(layers: &[Layer], rules: &Blocked, elapsed: u64, left: u64) -> u64 {
    let items = sum(layers.iter().map(Layer::items));
    let (recent, capacity) = layers
        .last()
        .map_or((0, 1), |newest| (newest.items(), newest.capacity()));
    let expected = u128::from(recent) * u128::from(left) / u128::from(elapsed.max(1));
    let expected = with_margin(u64::try_from(expected).unwrap_or(u64::MAX));
    let factor = rules.growth_factor().unwrap_or(1);
    let most = capacity.saturating_mul(factor.into());
    expected.min(most).max(items.div_ceil(LEAST_GROWTH))
}

/// The first layers of a window's slices once `items` items have come steadily in each window.
pub fn planned(rules: &Blocked, capacity: Capacity, window: Window, items: u64) -> Vec<Shape> {
    let in_slice = items.div_ceil(window.slices().into());
    let capacity = capacity_for(in_slice, window.slice_capacity(capacity));
    let shape = Shape::sized(capacity, usual_rate(rules, window));
    let layers = std::iter::repeat_n(shape, usize::from(window.slices()) + 1);
    #[expect(clippy::disallowed_methods, reason = "a window has 65 usual slices at most")]
    layers.collect()
}

/// Adds items in order. Stops at the first item for which there is no room; the items before it were added.
struct AddMany<'w, 'l, I, F> {
    windowed: &'w mut Windowed,
    now: Time,
    items: I,
    allowance: Allowance<'l>,
    added: F,
}

impl<I, F> Work for AddMany<'_, '_, I, F>
where
    I: Iterator<Item: AsRef<[u8]>>,
    F: FnMut(BlockOutcome, &Block),
{
    type Output = Result<(), Error>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Result<(), Error> {
        let mut block = Block::new();
        loop {
            let newest = NewestFirst::of(&self.windowed.slices).next();
            let newest = newest.map_or(LinePrefetcher::NOWHERE, Layer::line_prefetcher);
            if !block.fill(self.windowed.rules.hasher(), &mut self.items, newest) {
                return Ok(());
            }
            let (outcome, end) = self.windowed.add_block(kernel, self.now, &block, self.allowance);
            (self.added)(outcome, &block);
            end?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice would be full before its time in every second busy hour, and grow a layer.
    #[test]
    fn a_slice_has_room_for_three_standard_deviations_more() {
        assert_eq!([0, 1, 100, 10_000].map(with_margin), [1, 4, 130, 10_300]);
        assert_eq!(with_margin(u64::MAX), u64::MAX);
    }
}
