//! A set of hashes: an open table with linear probing, in the order of the hashes.
//!
//! A hash belongs at the slot `⌊high · slots / 2^64⌋`, and is in it or behind it, with no empty slot between; behind
//! the last slot comes the first. Hashes stand in their order, so that there is one arrangement of them in a table of
//! that many slots, whatever was put in first, and they are read in order without sorting. (Amble, Knuth, "Ordered
//! hash tables", 1974.) At most 3/4 of the slots are taken, so that 2.5 of them have to be looked at in the mean, whether
//! the hash is there or not.
//!
//! The numbers of slots are those that an allocator with four sizes in each doubling gives as they are: a hash takes 21.3
//! to 26.7 bytes, and nothing is rounded up.

use std::collections::VecDeque;

use crate::bloom::bits::kernel::prefetch;
use crate::bloom::bits::memory::{Allocation, Block, Mover};
use crate::bloom::chain::batch::{Hashes, Items};
use crate::bloom::error::Error;
use crate::bloom::item::ItemHash;

/// A hash in a slot: the high half, then the low one.
pub type Slot = [u64; 2];

/// No hash. Of the items that have this hash, one in 2^128, none can be told: they are taken for those of
/// [`STAND_IN`].
const EMPTY: Slot = [0, 0];
const STAND_IN: Slot = [0, 1];

/// The fewest slots of a table that has any.
const FEWEST: usize = 4;

/// Slots that a question looks at together: a cache line of them.
const TOGETHER: usize = 4;

/// The hash as it is kept.
pub fn slot_of(hash: ItemHash) -> Slot {
    match [hash.high, hash.low] {
        EMPTY => STAND_IN,
        slot => slot,
    }
}

/// The hash that is kept so.
pub fn hash_of([high, low]: Slot) -> ItemHash {
    ItemHash { low, high }
}

/// Slots of the table for `count` hashes: the next number, with four in each doubling, of which 3/4 hold them.
pub fn slots_for(count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let fewest = count.saturating_mul(4).div_ceil(3).max(FEWEST);
    let step = 1 << (fewest.ilog2() - FEWEST.ilog2());
    fewest.checked_next_multiple_of(step).unwrap_or(usize::MAX)
}

/// A set of hashes.
#[derive(Debug, Default)]
pub struct Table {
    slots: Box<[Slot]>,
    count: usize,
    /// The first slots that hold hashes which found no place at the end.
    wrapped: usize,
}

/// Whether a slot comes after another one, in one comparison.
#[inline(always)]
fn is_above([high, low]: Slot, [of_high, of_low]: Slot) -> bool {
    let whole = |high, low| u128::from(high) << 64 | u128::from(low);
    whole(high, low) > whole(of_high, of_low)
}

/// Where a hash is, or would be.
enum Place {
    At(usize),
    NotBefore(usize),
}

impl Table {
    /// How many hashes are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The block that the table is in.
    pub fn block(&self) -> Block {
        Block::of_list::<Slot>(self.slots.len())
    }

    /// The memory of the table.
    pub fn allocation(&self) -> Option<Allocation> {
        Allocation::of_array(&self.slots)
    }

    /// Lets `mover` choose another place for the table.
    pub fn relocate(&mut self, mover: &mut impl Mover) {
        self.slots = mover.array(std::mem::take(&mut self.slots));
    }

    /// Whether `hash` is in it.
    ///
    /// Some slots are looked at together, without a branch: how many have to be looked at cannot be predicted, but
    /// that these are mostly enough can.
    #[inline]
    pub fn has(&self, hash: ItemHash) -> bool {
        let slot = slot_of(hash);
        let home = self.home(slot);
        let some = self.slots.get(home..).and_then(<[Slot]>::first_chunk::<TOGETHER>);
        if let Some(some) = some.filter(|_| home >= self.wrapped) {
            let found = some.iter().fold(false, |found, &other| found | (other == slot));
            let passed = some.iter().fold(false, |passed, &other| {
                passed | (other == EMPTY) | is_above(other, slot)
            });
            if found | passed {
                return found;
            }
        }
        !self.is_empty() && matches!(self.find(slot), Place::At(_))
    }

    /// Those of a block's items whose hashes are in it.
    pub fn among(&self, hashes: &Hashes, items: Items) -> Items {
        let mut among = Items::NONE;
        if self.is_empty() {
            return among;
        }
        for at in items {
            prefetch(&self.slots[self.home(slot_of(hashes[at]))]);
        }
        for at in items {
            among.put_if(at, self.has(hashes[at]));
        }
        among
    }

    /// Puts `hash` in; false if it was there. There must be [room](Self::has_room_for).
    pub fn insert(&mut self, hash: ItemHash) -> bool {
        self.put(slot_of(hash))
    }

    fn put(&mut self, slot: Slot) -> bool {
        let Place::NotBefore(first) = self.find(slot) else {
            return false;
        };
        debug_assert!(self.count + 1 < self.slots.len(), "a table without an empty slot");
        let (mut at, mut carried) = (first, slot);
        loop {
            std::mem::swap(&mut self.slots[at], &mut carried);
            if carried == EMPTY {
                break;
            }
            at = self.after(at);
        }
        self.count += 1;
        // Either one was carried from the last slot to the first, or the new one came there itself.
        self.wrapped += usize::from(at < first || self.home(slot) > first);
        true
    }

    /// Takes `hash` out; false if it was not there.
    pub fn remove(&mut self, hash: ItemHash) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let Place::At(place) = self.find(slot_of(hash)) else {
            return false;
        };
        let mut at = place;
        loop {
            let next = self.after(at);
            let follower = self.slots[next];
            if follower == EMPTY || self.home(follower) == next {
                break;
            }
            self.slots[at] = follower;
            at = next;
        }
        self.slots[at] = EMPTY;
        self.count -= 1;
        self.wrapped -= usize::from(at < place || place < self.wrapped);
        true
    }

    /// Whether so many more fit in.
    pub fn has_room_for(&self, more: usize) -> bool {
        self.count
            .checked_add(more)
            .is_some_and(|count| slots_for(count) <= self.slots.len())
    }

    /// Makes room for so many more.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub fn make_room_for(&mut self, more: usize) -> Result<(), Error> {
        if !self.has_room_for(more) {
            let slots = slots_for(self.count.saturating_add(more));
            *self = self.rebuilt(slots, |_| true)?;
        }
        Ok(())
    }

    /// Gives back what is far more than the hashes need. Where there is no memory for a smaller table, the large one
    /// stays.
    pub fn settle(&mut self) {
        let needed = slots_for(self.count);
        if 2 * needed <= self.slots.len()
            && let Ok(smaller) = self.rebuilt(needed, |_| true)
        {
            *self = smaller;
        }
    }

    /// Keeps those hashes for which `keeps` holds.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub fn retain(&mut self, keeps: impl Fn(ItemHash) -> bool) -> Result<(), Error> {
        *self = self.rebuilt(self.slots.len(), keeps)?;
        self.settle();
        Ok(())
    }

    /// An equal set with memory of its own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, Error> {
        self.rebuilt(slots_for(self.count), |_| true)
    }

    fn rebuilt(&self, slots: usize, keeps: impl Fn(ItemHash) -> bool) -> Result<Self, Error> {
        let mut filling = Filling::new(slots)?;
        for slot in self.ascending().filter(|&slot| keeps(hash_of(slot))) {
            filling.push(slot)?;
        }
        Ok(filling.finish())
    }

    /// The hashes in their order.
    pub fn ascending(&self) -> impl Iterator<Item = Slot> + '_ {
        let (last, first) = self.slots.split_at(self.wrapped);
        first.iter().chain(last).copied().filter(|&slot| slot != EMPTY)
    }

    /// Where the hash would best be.
    fn home(&self, [high, _]: Slot) -> usize {
        home(high, self.slots.len())
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Slots from the one where that hash would best be to `at`.
    fn distance(&self, slot: Slot, at: usize) -> usize {
        let home = self.home(slot);
        if at >= home {
            at - home
        } else {
            at + self.slots.len() - home
        }
    }

    fn find(&self, slot: Slot) -> Place {
        let (mut at, mut distance) = (self.home(slot), 0);
        loop {
            let other = self.slots[at];
            if other == slot {
                return Place::At(at);
            }
            if other == EMPTY {
                return Place::NotBefore(at);
            }
            let of_other = self.distance(other, at);
            if of_other < distance || of_other == distance && other > slot {
                return Place::NotBefore(at);
            }
            at = self.after(at);
            distance += 1;
        }
    }
}

/// `⌊high · slots / 2^64⌋`
fn home(high: u64, slots: usize) -> usize {
    ((u128::from(high) * slots as u128) >> 64) as usize
}

/// A table that is filled with hashes in their order, each in a few steps, whatever they are.
#[derive(Debug)]
pub struct Filling {
    table: Table,
    /// The slot behind the last one that was taken.
    next: usize,
    /// Those that found no place up to the end: the first slots are theirs.
    wrapped: VecDeque<Slot>,
    last: Slot,
}

/// A hash that does not come after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder;

impl Filling {
    /// A table of so many slots, which must be more than the hashes that are to come.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(slots: usize) -> Result<Self, Error> {
        let bytes = (slots as u64).saturating_mul(size_of::<Slot>() as u64);
        if isize::try_from(bytes).is_err() {
            return Err(Error::OutOfMemory { bytes });
        }
        let zeroed = bytemuck::allocation::try_zeroed_slice_box(slots);
        let slots = zeroed.map_err(|()| Error::OutOfMemory { bytes })?;
        Ok(Self {
            table: Table {
                slots,
                count: 0,
                wrapped: 0,
            },
            next: 0,
            wrapped: VecDeque::new(),
            last: EMPTY,
        })
    }

    /// Whether `slot` may come next.
    ///
    /// # Errors
    /// [`OutOfOrder`] for one that is not above the last one, or is no hash.
    pub fn check(&self, slot: Slot) -> Result<(), OutOfOrder> {
        if slot > self.last { Ok(()) } else { Err(OutOfOrder) }
    }

    /// Puts the next one in.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn push(&mut self, slot: Slot) -> Result<(), Error> {
        debug_assert!(self.check(slot).is_ok());
        let at = self.table.home(slot).max(self.next);
        if let Some(place) = self.table.slots.get_mut(at) {
            *place = slot;
            self.next = at + 1;
        } else {
            let more = self.wrapped.try_reserve(1);
            more.map_err(|_| Error::OutOfMemory {
                bytes: size_of_val(self.wrapped.as_slices().0) as u64,
            })?;
            self.wrapped.push_back(slot);
        }
        self.last = slot;
        self.table.count += 1;
        Ok(())
    }

    /// The table.
    pub fn finish(mut self) -> Table {
        self.table.wrapped = self.wrapped.len();
        // Each that was in the way waits for the next slot, behind those that wait already.
        for place in &mut self.table.slots {
            let Some(first) = self.wrapped.pop_front() else {
                break;
            };
            let in_the_way = std::mem::replace(place, first);
            if in_the_way != EMPTY {
                self.wrapped.push_back(in_the_way);
            }
        }
        self.table
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::bloom::chain::batch::BLOCK;
    use crate::server::alloc::failing::{self, Shortage};

    /// Few different values, many of them near an end of the range: hashes share slots, and wrap.
    fn hash() -> impl Strategy<Value = ItemHash> {
        let high = prop_oneof![
            any::<u64>(),
            (0..4u64).prop_map(|high| u64::MAX - high),
            0..4u64,
            (0..8u64).prop_map(|high| high << 61),
        ];
        (high, 0..3u64).prop_map(|(high, low)| ItemHash { low, high })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(ItemHash),
        Remove(ItemHash),
        Retain(u64),
        Settle,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => hash().prop_map(Step::Insert),
            4 => hash().prop_map(Step::Remove),
            1 => (1..5u64).prop_map(Step::Retain),
            1 => Just(Step::Settle),
        ]
    }

    proptest! {
        /// A wrong answer would be an item forgotten, or one that was excepted found again.
        #[test]
        fn a_table_is_a_set(steps in prop::collection::vec(step(), 1..400)) {
            let (mut table, mut oracle) = (Table::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Insert(hash) => {
                        table.make_room_for(1).unwrap();
                        prop_assert_eq!(table.insert(hash), oracle.insert(slot_of(hash)));
                    }
                    Step::Remove(hash) => {
                        prop_assert_eq!(table.remove(hash), oracle.remove(&slot_of(hash)));
                    }
                    Step::Retain(by) => {
                        table.retain(|hash| hash.high % by == 0).unwrap();
                        oracle.retain(|[high, _]| high % by == 0);
                    }
                    Step::Settle => table.settle(),
                }
                prop_assert_eq!(table.len(), oracle.len());
                prop_assert!(table.ascending().eq(oracle.iter().copied()));
                prop_assert!(oracle.iter().all(|&slot| table.has(hash_of(slot))));
            }
            // One arrangement for all histories: else replicas would differ.
            let copy = table.try_clone().unwrap();
            table.settle();
            let mut again = Filling::new(copy.slots.len()).unwrap().finish();
            for &slot in oracle.iter().rev() {
                prop_assert!(again.put(slot));
            }
            prop_assert_eq!((again.slots, again.wrapped), (copy.slots, copy.wrapped));
        }

        /// The answers of a block are those of its items.
        #[test]
        fn a_block_is_asked_as_its_items(
            known in prop::collection::vec(hash(), 0..100),
            asked in prop::collection::vec(hash(), 1..BLOCK),
            word: u64,
        ) {
            let mut table = Table::default();
            table.make_room_for(known.len()).unwrap();
            for hash in known {
                table.insert(hash);
            }
            let mut hashes = [ItemHash::default(); BLOCK];
            hashes[..asked.len()].copy_from_slice(&asked);
            let mut items = Items::NONE;
            (0..asked.len()).for_each(|at| items.put_if(at, word >> at & 1 == 1));
            let among = table.among(&hashes, items);
            for (at, &hash) in asked.iter().enumerate() {
                prop_assert_eq!(among.has(at), items.has(at) && table.has(hash));
            }
        }
    }

    /// Memory would be planned wrong, and the allocator's rounding be paid for.
    #[test]
    fn sizes_are_those_of_an_allocator() {
        let sizes: Vec<_> = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13].map(slots_for).into();
        assert_eq!(sizes, [0, 4, 4, 6, 7, 8, 10, 12, 12, 14, 16, 20]);
        for count in 4..100_000 {
            let bytes = slots_for(count) as f64 * 16.0 / count as f64;
            let most = if count < 48 { 27.0 } else { 26.7 };
            assert!((20.0..=most).contains(&bytes), "{count}: {bytes}");
            assert!(slots_for(count) * 3 / 4 >= count);
        }
        assert!(slots_for(usize::MAX) > isize::MAX as usize / 16);
    }

    /// A payload whose hashes all belong into one slot would stop the server while it loads.
    #[test]
    fn hostile_hashes_are_filled_in_at_once() {
        const COUNT: usize = 300_000;
        let slots = slots_for(COUNT);
        let mut filling = Filling::new(slots).unwrap();
        for low in 0..COUNT as u64 {
            filling.push([u64::MAX - 1, low]).unwrap();
        }
        let table = filling.finish();
        assert_eq!(table.len(), COUNT);
        assert!(table.ascending().map(|[_, low]| low).eq(0..COUNT as u64));
        assert_eq!(
            table.slots.iter().filter(|&&slot| slot == EMPTY).count(),
            slots - COUNT
        );
    }

    /// Without memory a server must answer so, with what it had.
    #[test]
    fn without_memory_nothing_changes() {
        let mut table = Table::default();
        let hash = |low| ItemHash { low, high: low << 40 };
        assert!(failing::after(0, Shortage::Lasting, || table.make_room_for(1)).is_err());
        table.make_room_for(3).unwrap();
        (1..=3).for_each(|low| assert!(table.insert(hash(low))));
        assert!(failing::after(0, Shortage::Lasting, || table.make_room_for(1)).is_err());
        assert!(failing::after(0, Shortage::Lasting, || table.retain(|_| false)).is_err());
        assert!(failing::after(0, Shortage::Lasting, || table.try_clone().map(|_| ())).is_err());
        assert_eq!(table.len(), 3);
        assert!((1..=3).all(|low| table.has(hash(low))));
        assert!(!table.has(hash(4)) && !Table::default().has(hash(1)));
        assert!(matches!(Filling::new(usize::MAX), Err(Error::OutOfMemory { .. })));
    }
}
