//! A set of hashes: an open table with linear probing.
//!
//! A hash is kept mixed with a random key of the table, so that nobody can choose items that all fall into one place.
//! A mixed hash `m` belongs at the slot `⌊high half of m · slots / 2^64⌋`, and is in it or behind it, with no empty slot
//! between; behind the last slot comes the first. Mixed hashes stand in their order, so that a search ends at the first
//! that comes after the one that is looked for. (Amble, Knuth, "Ordered hash tables", 1974.) At most 3/4 of the slots
//! are taken, so that 2.5 of them have to be looked at in the mean, whether the hash is there or not.
//!
//! Most items that are asked for are not excepted, and how many slots each takes to find that out cannot be predicted.
//! So a small Bloom filter guards the table: a word for four slots, in which each hash sets three bits. Fewer than one in
//! 100 other hashes get past it. A hash that is taken out leaves its bits there until the table is made anew.
//!
//! The numbers of slots are those that an allocator with four sizes in each doubling gives as they are: a hash takes 24 to
//! 30 bytes, and nothing is rounded up.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};

use crate::bloom::bits::kernel::prefetch;
use crate::bloom::bits::memory::{Allocation, Block, Mover};
use crate::bloom::chain::batch::{Hashes, Items};
use crate::bloom::error::Error;
use crate::bloom::item::ItemHash;

/// A hash as it is stored: the high half, then the low one. They are in order as numbers of 128 bits.
pub type Slot = [u64; 2];

/// A hash mixed with the key, in the same form.
type Mixed = [u64; 2];

/// No hash. The one that is mixed to this is taken for the one that is mixed to [`STAND_IN`]; nobody can know either.
const EMPTY: Mixed = [0, 0];
const STAND_IN: Mixed = [0, 1];

/// The fewest slots of a table that has any.
const FEWEST: usize = 4;

/// Slots that have a word of the guard.
const GUARDED: usize = 4;

/// Hashes that are put into order at once where there is no memory for more.
const FEW: usize = 512;

/// What hashes are mixed with. It decides where they stand, and nothing else.
#[derive(Clone, Copy, Debug)]
struct Key([u64; 4]);

impl Key {
    /// One of a table's own: what is read out of one table in its order, and put into another one, would else come into
    /// one place after another.
    fn random() -> Self {
        let random = RandomState::new();
        Self([0, 1, 2, 3].map(|part: u64| random.hash_one(part) | 1))
    }

    /// Two rounds of a Feistel network: each half of the result depends on all of the key and of the hash.
    #[inline(always)]
    fn mix(self, hash: ItemHash) -> Mixed {
        let Self([a, b, c, d]) = self;
        let low = hash.low ^ folded(hash.high ^ a, b);
        let high = hash.high ^ folded(low ^ c, d);
        match [high, low] {
            EMPTY => STAND_IN,
            mixed => mixed,
        }
    }

    fn unmix(self, [high, low]: Mixed) -> Slot {
        let Self([a, b, c, d]) = self;
        let high = high ^ folded(low ^ c, d);
        [high, low ^ folded(high ^ a, b)]
    }
}

/// Both halves of a product, in one.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash in its stored form.
pub fn slot_of(ItemHash { low, high }: ItemHash) -> Slot {
    [high, low]
}

/// The hash that is stored so.
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

/// Words of the guard of so many slots.
fn words_for(slots: usize) -> usize {
    slots.div_ceil(GUARDED)
}

/// Bytes of a table for `count` hashes.
pub fn bytes_for(count: usize) -> u64 {
    blocks_for(count).iter().map(|block| block.bytes).sum()
}

/// The blocks of a table for `count` hashes.
pub fn blocks_for(count: usize) -> [Block; 2] {
    let slots = slots_for(count);
    [
        Block::of_list::<Mixed>(slots),
        Block::of_list::<u64>(words_for(slots)),
    ]
}

/// A set of hashes.
#[derive(Debug)]
pub struct Table {
    slots: Box<[Mixed]>,
    guard: Box<[u64]>,
    count: usize,
    /// The first slots that hold hashes which found no place at the end.
    wrapped: usize,
    key: Key,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            slots: Box::default(),
            guard: Box::default(),
            count: 0,
            wrapped: 0,
            key: Key::random(),
        }
    }
}

/// Where a hash is, or would be.
enum Place {
    At(usize),
    NotBefore(usize),
}

impl Table {
    /// An empty table with room for so many.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_room_for(count: usize) -> Result<Self, Error> {
        Self::with_slots(slots_for(count))
    }

    fn with_slots(slots: usize) -> Result<Self, Error> {
        let bytes = (slots as u64).saturating_mul(size_of::<Mixed>() as u64);
        if isize::try_from(bytes).is_err() {
            return Err(Error::OutOfMemory { bytes });
        }
        let out_of_memory = |()| Error::OutOfMemory { bytes };
        Ok(Self {
            slots: bytemuck::allocation::try_zeroed_slice_box(slots).map_err(out_of_memory)?,
            guard: bytemuck::allocation::try_zeroed_slice_box(words_for(slots)).map_err(out_of_memory)?,
            ..Self::default()
        })
    }

    /// How many hashes are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The blocks that the table is in.
    pub fn blocks(&self) -> [Block; 2] {
        [
            Block::of_list::<Mixed>(self.slots.len()),
            Block::of_list::<u64>(self.guard.len()),
        ]
    }

    /// The memory of the table.
    pub fn allocations(&self) -> [Option<Allocation>; 2] {
        [
            Allocation::of_array(&self.slots),
            Allocation::of_array(&self.guard),
        ]
    }

    /// Lets `mover` choose another place for the table.
    pub fn relocate(&mut self, mover: &mut impl Mover) {
        self.slots = mover.array(std::mem::take(&mut self.slots));
        self.guard = mover.array(std::mem::take(&mut self.guard));
    }

    /// Whether `hash` is in it.
    pub fn has(&self, hash: ItemHash) -> bool {
        if self.is_empty() {
            return false;
        }
        let mixed = self.key.mix(hash);
        self.may_have(mixed) && matches!(self.find(mixed), Place::At(_))
    }

    /// The word of the guard that a hash has, and its bits there.
    #[inline(always)]
    fn watch(&self, [high, low]: Mixed) -> (usize, u64) {
        let word = ((u128::from(high) * self.guard.len() as u128) >> 64) as usize;
        (
            word,
            1 << (low & 63) | 1 << (low >> 6 & 63) | 1 << (low >> 12 & 63),
        )
    }

    /// Whether the guard lets a hash pass.
    #[inline(always)]
    fn may_have(&self, mixed: Mixed) -> bool {
        let (word, bits) = self.watch(mixed);
        self.guard[word] & bits == bits
    }

    /// Those of a block's items whose hashes are in it.
    pub fn among(&self, hashes: &Hashes, items: Items) -> Items {
        let (mut passed, mut among) = (Items::NONE, Items::NONE);
        if self.is_empty() {
            return among;
        }
        for at in items {
            prefetch(&self.guard[self.watch(self.key.mix(hashes[at])).0]);
        }
        for at in items {
            passed.put_if(at, self.may_have(self.key.mix(hashes[at])));
        }
        for at in passed {
            prefetch(&self.slots[self.home(self.key.mix(hashes[at]))]);
        }
        for at in passed {
            among.put_if(at, matches!(self.find(self.key.mix(hashes[at])), Place::At(_)));
        }
        among
    }

    /// Puts `hash` in; false if it was there. There must be [room](Self::has_room_for).
    pub fn insert(&mut self, hash: ItemHash) -> bool {
        let mixed = self.key.mix(hash);
        let Place::NotBefore(first) = self.find(mixed) else {
            return false;
        };
        debug_assert!(self.count + 1 < self.slots.len(), "a table without an empty slot");
        let (word, bits) = self.watch(mixed);
        self.guard[word] |= bits;
        let (mut at, mut carried) = (first, mixed);
        loop {
            std::mem::swap(&mut self.slots[at], &mut carried);
            if carried == EMPTY {
                break;
            }
            at = self.after(at);
        }
        self.count += 1;
        // Either one was carried from the last slot to the first, or the new one came there itself.
        self.wrapped += usize::from(at < first || self.home(mixed) > first);
        true
    }

    /// Takes `hash` out; false if it was not there.
    pub fn remove(&mut self, hash: ItemHash) -> bool {
        if self.is_empty() {
            return false;
        }
        let Place::At(place) = self.find(self.key.mix(hash)) else {
            return false;
        };
        self.clear(place);
        true
    }

    /// Empties a slot that is taken: those behind it that would better be there move up.
    fn clear(&mut self, place: usize) {
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
            *self = self.rebuilt(slots_for(self.count.saturating_add(more)))?;
        }
        Ok(())
    }

    /// Gives back what is far more than the hashes need. Where there is no memory for a smaller table, the large one
    /// stays.
    pub fn settle(&mut self) {
        let needed = slots_for(self.count);
        if 2 * needed <= self.slots.len()
            && let Ok(smaller) = self.rebuilt(needed)
        {
            *self = smaller;
        }
    }

    /// Keeps those hashes for which `keeps` holds.
    pub fn retain(&mut self, keeps: impl Fn(ItemHash) -> bool) {
        let mut at = 0;
        while at < self.slots.len() {
            let mixed = self.slots[at];
            if mixed == EMPTY || keeps(hash_of(self.key.unmix(mixed))) {
                at += 1;
            } else {
                // What moves up is looked at next.
                self.clear(at);
            }
        }
        self.settle();
    }

    /// An equal set with memory of its own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, Error> {
        self.rebuilt(slots_for(self.count))
    }

    /// The same hashes in another number of slots, in one pass: they stand in their order.
    fn rebuilt(&self, slots: usize) -> Result<Self, Error> {
        let mut table = Self::with_slots(slots)?;
        table.key = self.key;
        let mut wrapped = VecDeque::new();
        let (last, first) = self.slots.split_at(self.wrapped);
        let mut next = 0;
        for &mixed in first.iter().chain(last).filter(|&&mixed| mixed != EMPTY) {
            let (word, bits) = table.watch(mixed);
            table.guard[word] |= bits;
            let at = table.home(mixed).max(next);
            if let Some(place) = table.slots.get_mut(at) {
                *place = mixed;
                next = at + 1;
            } else {
                let reserved = wrapped.try_reserve(1);
                reserved.map_err(|_| Error::OutOfMemory {
                    bytes: size_of_val(&*self.slots) as u64,
                })?;
                wrapped.push_back(mixed);
            }
        }
        (table.count, table.wrapped) = (self.count, wrapped.len());
        // Each that is in the way waits for the next slot, behind those that wait already.
        for place in &mut table.slots {
            let Some(first) = wrapped.pop_front() else {
                break;
            };
            let in_the_way = std::mem::replace(place, first);
            if in_the_way != EMPTY {
                wrapped.push_back(in_the_way);
            }
        }
        Ok(table)
    }

    /// The hashes, in no order that means anything.
    pub fn hashes(&self) -> impl Iterator<Item = ItemHash> + '_ {
        let taken = self.slots.iter().filter(|&&mixed| mixed != EMPTY);
        taken.map(|&mixed| hash_of(self.key.unmix(mixed)))
    }

    /// Hands the hashes to `visit` in their order, some at a time. Where there is no memory for all of them, the next
    /// ones are searched for again and again.
    pub fn each_ascending(&self, mut visit: impl FnMut(&[Slot])) {
        let (mut some, mut few) = (Vec::new(), [EMPTY; FEW]);
        let mut room = self.count;
        while room > FEW && some.try_reserve_exact(room).is_err() {
            room /= 2;
        }
        let buffer = if room > FEW {
            some.resize(room, EMPTY);
            &mut some[..]
        } else {
            &mut few[..]
        };
        let (mut last, mut left) = (None, self.count);
        while left > 0 {
            let count = self.next_ones(last, buffer);
            buffer[..count].sort_unstable();
            visit(&buffer[..count]);
            last = buffer[..count].last().copied();
            left = left.saturating_sub(count.max(1));
        }
    }

    /// Puts hashes that come next after `last` into `buffer`, in any order: all of them if they fit in, else as many as
    /// half of it holds, or more. Gives how many.
    fn next_ones(&self, last: Option<Slot>, buffer: &mut [Slot]) -> usize {
        let (mut count, mut highest) = (0, [u64::MAX; 2]);
        for hash in self.hashes() {
            let slot = slot_of(hash);
            if last.is_some_and(|last| slot <= last) || slot > highest {
                continue;
            }
            if count == buffer.len() {
                count /= 2;
                let (_, middle, _) = buffer.select_nth_unstable(count - 1);
                highest = *middle;
                if slot > highest {
                    continue;
                }
            }
            buffer[count] = slot;
            count += 1;
        }
        count
    }

    /// Where the hash would best be.
    #[inline(always)]
    fn home(&self, [high, _]: Mixed) -> usize {
        ((u128::from(high) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Slots from the one where that hash would best be to `at`.
    fn distance(&self, mixed: Mixed, at: usize) -> usize {
        let home = self.home(mixed);
        if at >= home {
            at - home
        } else {
            at + self.slots.len() - home
        }
    }

    fn find(&self, mixed: Mixed) -> Place {
        let (mut at, mut distance) = (self.home(mixed), 0);
        loop {
            let other = self.slots[at];
            if other == mixed {
                return Place::At(at);
            }
            if other == EMPTY {
                return Place::NotBefore(at);
            }
            let of_other = self.distance(other, at);
            if of_other < distance || of_other == distance && other > mixed {
                return Place::NotBefore(at);
            }
            at = self.after(at);
            distance += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::bloom::chain::batch::BLOCK;
    use crate::server::alloc::failing::{self, Shortage};

    /// Few different hashes, which are met again.
    fn hash() -> impl Strategy<Value = ItemHash> {
        let half = || {
            prop_oneof![
                Just(0),
                Just(u64::MAX),
                0..6u64,
                (0..8u64).prop_map(|half| half << 61)
            ]
        };
        (half(), half()).prop_map(|(low, high)| ItemHash { low, high })
    }

    /// To add an excepted item again would build the whole table anew.
    #[test]
    fn a_table_gives_back_only_what_is_half_of_it() {
        let hashes: Vec<_> = (0..1000).map(|low| ItemHash { low, high: 1 }).collect();
        let mut table = Table::with_room_for(hashes.len()).unwrap();
        for &hash in &hashes {
            table.insert(hash);
        }
        let whole = table.slots.len();
        for &hash in &hashes {
            table.remove(hash);
            table.settle();
            let is_half = 2 * slots_for(table.len()) <= whole;
            assert_eq!(table.slots.len() < whole, is_half, "{} are left", table.len());
            if is_half {
                return;
            }
        }
    }

    /// A key that leaves hashes as they are: with it a test chooses what falls into one place.
    const PLAIN: Key = Key([0; 4]);

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

    fn ascending(table: &Table) -> Vec<Slot> {
        let mut all = Vec::new();
        table.each_ascending(|some| all.extend_from_slice(some));
        all
    }

    proptest! {
        /// A wrong answer would be an item forgotten, or one that was excepted found again.
        #[test]
        fn a_table_is_a_set(plain: bool, steps in prop::collection::vec(step(), 1..400)) {
            let (mut table, mut oracle) = (Table::default(), BTreeSet::new());
            if plain {
                table.key = PLAIN;
            }
            let key = table.key;
            // With the plain key hash 0 stands for another one.
            let known = |hash: ItemHash| key.unmix(key.mix(hash));
            for step in steps {
                match step {
                    Step::Insert(hash) => {
                        table.make_room_for(1).unwrap();
                        prop_assert_eq!(table.insert(hash), oracle.insert(known(hash)));
                    }
                    Step::Remove(hash) => {
                        prop_assert_eq!(table.remove(hash), oracle.remove(&known(hash)));
                    }
                    Step::Retain(by) => {
                        table.retain(|hash| hash.high % by == 0);
                        oracle.retain(|[high, _]| high % by == 0);
                    }
                    Step::Settle => table.settle(),
                }
                prop_assert_eq!(table.len(), oracle.len());
                prop_assert!(ascending(&table).iter().eq(&oracle));
                prop_assert!(oracle.iter().all(|&slot| table.has(hash_of(slot))));
            }
            let mut copy = table.try_clone().unwrap();
            prop_assert!(ascending(&copy).iter().eq(&oracle));
            prop_assert!(oracle.iter().all(|&slot| copy.has(hash_of(slot))));
            for &slot in &oracle {
                prop_assert!(copy.remove(hash_of(slot)) && !copy.has(hash_of(slot)));
            }
            prop_assert!(copy.is_empty() && copy.wrapped == 0);
        }

        /// The answers of a block are those of its items.
        #[test]
        fn a_block_is_asked_as_its_items(
            known in prop::collection::vec(hash(), 0..100),
            asked in prop::collection::vec(hash(), 1..BLOCK),
            word: u64,
        ) {
            let mut table = Table::with_room_for(known.len()).unwrap();
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

        /// A hash that could not be told from what it is mixed to would be stored as another one.
        #[test]
        fn mixing_loses_nothing(low: u64, high: u64) {
            let key = Key::random();
            let hash = ItemHash { low, high };
            prop_assert_eq!(key.unmix(key.mix(hash)), slot_of(hash));
        }
    }

    /// Memory would be planned wrong, and the allocator's rounding be paid for.
    #[test]
    fn sizes_are_those_of_an_allocator() {
        let sizes = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13].map(slots_for);
        assert_eq!(sizes, [0, 4, 4, 6, 7, 8, 10, 12, 12, 14, 16, 20]);
        for count in 4..100_000 {
            let bytes = bytes_for(count) as f64 / count as f64;
            let most = if count < 48 { 32.0 } else { 30.0 };
            assert!((22.0..=most).contains(&bytes), "{count}: {bytes}");
            assert!(slots_for(count) * 3 / 4 >= count);
        }
        assert!(slots_for(usize::MAX) > isize::MAX as usize / 16);
    }

    /// Every question for an item that is found, and that nobody excepted, would cost a second cache line or more.
    #[test]
    fn the_guard_lets_few_others_pass() {
        let hash = |low: u64| ItemHash { low, high: !low };
        let mut table = Table::with_room_for(30_000).unwrap();
        (0..30_000).for_each(|low| assert!(table.insert(hash(low))));
        let passed = (30_000..130_000).filter(|&low| table.may_have(table.key.mix(hash(low))));
        let passed = passed.count();
        // With two bits of the three it would be 980.
        assert!(passed < 600, "{passed} of 100,000");
    }

    /// Who knows a filter's seed could choose items that stop the server for seconds: the time would grow with the
    /// square of their number.
    #[test]
    fn chosen_hashes_do_not_fall_into_one_place() {
        for chosen in [
            |n: u64| ItemHash { low: n, high: 7 },
            |n: u64| ItemHash { low: 7, high: n },
            |n: u64| ItemHash { low: n, high: n },
            |n: u64| ItemHash {
                low: n << 40,
                high: n >> 6,
            },
        ] {
            let mut table = Table::with_room_for(60_000).unwrap();
            (0..60_000).for_each(|n| assert!(table.insert(chosen(n))));
            let longest = table
                .slots
                .split(|&mixed| mixed == EMPTY)
                .map(<[Mixed]>::len)
                .max();
            // Of as many random ones the longest run has some hundred.
            assert!(longest.is_some_and(|longest| longest < 1000), "{longest:?}");
        }
    }

    /// Merging filters with exceptions would stop the server: what one table has in order would crowd in the other one.
    #[test]
    fn what_one_table_has_is_spread_in_another_one() {
        let mut one = Table::default();
        for n in 0..50_000u64 {
            one.make_room_for(1).unwrap();
            one.insert(ItemHash { low: n, high: n });
        }
        let mut other = Table::default();
        let mut farthest = 0;
        for hash in one.hashes() {
            other.make_room_for(1).unwrap();
            let mixed = other.key.mix(hash);
            if let Place::NotBefore(at) = other.find(mixed) {
                farthest = farthest.max(other.distance(mixed, at));
            }
            other.insert(hash);
        }
        assert!(farthest < 1000, "{farthest}");
    }

    /// Without memory a server must answer so, with what it had; and still save what it has.
    #[test]
    fn without_memory_nothing_changes() {
        let mut table = Table::default();
        let hash = |low: u64| ItemHash {
            low,
            high: low.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        assert!(failing::after(0, Shortage::Lasting, || table.make_room_for(1)).is_err());
        table.make_room_for(3).unwrap();
        (1..=3).for_each(|low| assert!(table.insert(hash(low))));
        assert!(failing::after(0, Shortage::Lasting, || table.make_room_for(1)).is_err());
        assert!(failing::after(0, Shortage::Lasting, || table.try_clone().map(|_| ())).is_err());
        assert_eq!(table.len(), 3);
        assert!((1..=3).all(|low| table.has(hash(low))));
        assert!(!table.has(hash(4)) && !Table::default().has(hash(1)));
        assert!(matches!(
            Table::with_slots(usize::MAX),
            Err(Error::OutOfMemory { .. })
        ));

        const MANY: u64 = 5000;
        table.make_room_for(MANY as usize).unwrap();
        (4..=MANY).for_each(|low| assert!(table.insert(hash(low))));
        let expected: BTreeSet<_> = (1..=MANY).map(|low| slot_of(hash(low))).collect();
        for most in [usize::MAX, 40_000, 0] {
            let mut all = Vec::with_capacity(MANY as usize);
            let mut pieces = 0;
            failing::above(most, || {
                table.each_ascending(|some| {
                    all.extend_from_slice(some);
                    pieces += 1;
                });
            });
            assert!(all.iter().eq(&expected), "{most}");
            assert_eq!(pieces == 1, most == usize::MAX);
        }
    }
}
