//! A set of hashes: hashbrown's table, under a keyed hash.
//!
//! Someone who knows a filter's seed can choose the hashes of items, and a crafted dump can contain any hashes. So the
//! bucket of a hash also depends on a random key of the table, which never leaves the process. Both halves of the hash
//! go through two folded multiplications with the key (the full product, its halves combined by XOR). Without the key
//! nobody can tell which hashes collide. The order of the buckets does not show either, because stored hashes are
//! sorted. Each table has its own key, so that hashes that are copied from one table into another do not cluster
//! there.
//!
//! The number of buckets is a power of two. A hash that is removed may leave a mark in its bucket, which stays
//! occupied until the table is rebuilt. Hashbrown fills 7/8 of the buckets. 1/28 of these are kept for such marks, so
//! that the table is rebuilt once this many hashes were removed, and not after each removal. That makes 20 to 41 bytes
//! a hash, and up to 48 after the rounding of an allocator with four sizes in each doubling.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use crate::chain::batch::{Hashes, Subset};
use crate::error::Error;
use crate::item::ItemHash;

/// A hash as it is stored: the high half, then the low one. Entries sort like the 128-bit numbers.
pub type Entry = [u64; 2];

/// The fewest buckets of a table that has any.
const FEWEST: usize = 4;

/// The most hashes in [`PER_BUCKETS`] buckets.
const HASHES: usize = 27;
const PER_BUCKETS: usize = 32;

/// The tags that hashbrown reads at once, a byte each: it has a tag for each bucket, and this many more. On processors
/// that read eight at once, a table needs eight bytes less than is counted.
const GROUP: u64 = 16;

/// The hashes that are sorted at once if there is no memory for more.
const SMALL_RUN: usize = 512;

/// The random key that decides which bucket a hash has. Nothing else depends on it.
#[derive(Clone, Copy, Debug)]
struct BucketKey([u64; 3]);

impl BucketKey {
    fn random() -> Self {
        let random = RandomState::new();
        // Odd numbers, because a product with 0 is always 0.
        Self([0, 1, 2].map(|part: u64| random.hash_one(part) | 1))
    }

    /// The number that places a hash in the table: its lowest bits choose the bucket, its highest seven are the tag.
    #[inline(always)]
    fn place(self, [high, low]: Entry) -> u64 {
        let Self([a, b, c]) = self;
        folded(low ^ folded(high ^ a, b), c)
    }
}

/// The two halves of a product, combined by XOR.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash in its stored form.
pub fn entry_of(ItemHash { low, high }: ItemHash) -> Entry {
    [high, low]
}

/// The hash of an entry.
pub fn hash_of([high, low]: Entry) -> ItemHash {
    ItemHash { low, high }
}

/// The number of buckets of a table for `count` hashes.
fn buckets_for(count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let fewest = count.saturating_mul(PER_BUCKETS).div_ceil(HASHES);
    fewest
        .checked_next_power_of_two()
        .unwrap_or(usize::MAX)
        .max(FEWEST)
}

/// Bytes of a table with `buckets` buckets.
fn bytes_of(buckets: usize) -> u64 {
    let buckets = buckets as u64;
    let tags = if buckets == 0 {
        0
    } else {
        buckets.saturating_add(GROUP)
    };
    let entries = buckets.saturating_mul(size_of::<Entry>() as u64);
    entries.saturating_add(tags)
}

/// Bytes of a table for `count` hashes.
pub fn bytes_for(count: usize) -> u64 {
    bytes_of(buckets_for(count))
}

/// A set of hashes.
#[derive(Debug)]
pub struct Table {
    entries: HashTable<Entry>,
    key: BucketKey,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: HashTable::new(),
            key: BucketKey::random(),
        }
    }
}

impl Table {
    /// An empty table with room for `count` hashes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_room_for(count: usize) -> Result<Self, Error> {
        Self::with_buckets(buckets_for(count), BucketKey::random())
    }

    fn with_buckets(buckets: usize, key: BucketKey) -> Result<Self, Error> {
        let mut entries = HashTable::new();
        // Any number above 3/4 of the buckets makes this many of them; hashbrown fills 7/8.
        let reserved = entries.try_reserve(buckets - buckets.div_ceil(8), |_| 0);
        reserved.map_err(|_| Error::OutOfMemory {
            bytes: bytes_of(buckets),
        })?;
        Ok(Self { entries, key })
    }

    /// The number of hashes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no hashes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of buckets.
    fn buckets(&self) -> usize {
        match self.entries.allocation_size() {
            0 => 0,
            _ => self.entries.num_buckets(),
        }
    }

    /// Bytes of the table, spare room included. hashbrown does not tell where it is.
    pub fn bytes(&self) -> u64 {
        bytes_of(self.buckets())
    }

    /// Whether `hash` is in the table.
    #[inline]
    pub fn has(&self, hash: ItemHash) -> bool {
        let entry = entry_of(hash);
        self.entries
            .find(self.key.place(entry), |other| *other == entry)
            .is_some()
    }

    /// The items of a block whose hashes are in the table.
    pub fn among(&self, hashes: &Hashes, items: Subset) -> Subset {
        let mut among = Subset::NONE;
        for at in items {
            among.put_if(at, self.has(hashes[at]));
        }
        among
    }

    /// Inserts `hash`; false if it was there. There must be [room](Self::has_room_for).
    pub fn insert(&mut self, hash: ItemHash) -> bool {
        if self.has(hash) {
            return false;
        }
        debug_assert!(
            self.entries.len() < self.entries.capacity(),
            "a table without room"
        );
        self.put(entry_of(hash));
        true
    }

    /// Inserts an entry that is not there. There must be room.
    fn put(&mut self, entry: Entry) {
        let key = self.key;
        let place = |entry: &Entry| key.place(*entry);
        self.entries.insert_unique(place(&entry), entry, place);
    }

    /// Removes `hash`; false if it was not there.
    pub fn remove(&mut self, hash: ItemHash) -> bool {
        let entry = entry_of(hash);
        let found = self
            .entries
            .find_entry(self.key.place(entry), |other| *other == entry);
        found.map(|found| found.remove()).is_ok()
    }

    /// Whether there is room for `more` hashes.
    pub fn has_room_for(&self, more: usize) -> bool {
        let unmarked = self.entries.capacity() - self.len();
        more <= unmarked && buckets_for(self.len().saturating_add(more)) <= self.buckets()
    }

    /// Makes room for `more` hashes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub fn make_room_for(&mut self, more: usize) -> Result<(), Error> {
        if !self.has_room_for(more) {
            *self = self.rebuilt(buckets_for(self.len().saturating_add(more)))?;
        }
        Ok(())
    }

    /// Shrinks the table if half of the buckets are enough, with some room, so that it does not soon grow again. If
    /// there is no memory for the smaller table, the larger one stays.
    pub fn shrink_to_need(&mut self) {
        let needed = buckets_for(self.len() + self.len() / 16);
        if 2 * needed <= self.buckets()
            && let Ok(smaller) = self.rebuilt(needed)
        {
            *self = smaller;
        }
    }

    /// Keeps the hashes for which `keeps` is true, and shrinks the table.
    pub fn retain(&mut self, keeps: impl Fn(ItemHash) -> bool) {
        self.entries.retain(|entry| keeps(hash_of(*entry)));
        self.shrink_to_need();
    }

    /// An equal set with memory of its own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, Error> {
        self.rebuilt(buckets_for(self.len()))
    }

    /// A table of the same hashes with another number of buckets, which have room for them.
    fn rebuilt(&self, buckets: usize) -> Result<Self, Error> {
        let mut table = Self::with_buckets(buckets, self.key)?;
        self.entries.iter().for_each(|&entry| table.put(entry));
        Ok(table)
    }

    /// The hashes, in no particular order.
    pub fn hashes(&self) -> impl Iterator<Item = ItemHash> + '_ {
        self.entries.iter().map(|&entry| hash_of(entry))
    }

    /// Passes the hashes to `visit` in ascending order, a run at a time. If there is no memory for all of them, each
    /// run is found by another pass over the table.
    pub fn each_ascending(&self, mut visit: impl FnMut(&[Entry])) {
        let (mut large, mut small) = (Vec::new(), [[0; 2]; SMALL_RUN]);
        let mut room = self.len();
        while room > SMALL_RUN && large.try_reserve_exact(room).is_err() {
            room /= 2;
        }
        let buffer = if room > SMALL_RUN {
            #[expect(clippy::disallowed_methods, reason = "it has the room")]
            large.resize(room, [0; 2]);
            &mut large[..]
        } else {
            &mut small[..]
        };
        let (mut last, mut left) = (None, self.len());
        while left > 0 {
            let count = self.next_run(last, buffer);
            buffer[..count].sort_unstable();
            visit(&buffer[..count]);
            last = buffer[..count].last().copied();
            left = left.saturating_sub(count.max(1));
        }
    }

    /// Puts the hashes that follow `last` into `buffer`, in any order: all of them if there is room, otherwise at
    /// least as many as fill half of it. Returns their number.
    fn next_run(&self, last: Option<Entry>, buffer: &mut [Entry]) -> usize {
        let (mut count, mut highest) = (0, [u64::MAX; 2]);
        for hash in self.hashes() {
            let entry = entry_of(hash);
            if last.is_some_and(|last| entry <= last) || entry > highest {
                continue;
            }
            if count == buffer.len() {
                count /= 2;
                let (_, middle, _) = buffer.select_nth_unstable(count - 1);
                highest = *middle;
                if entry > highest {
                    continue;
                }
            }
            buffer[count] = entry;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::chain::batch::BLOCK;
    use crate::tests::failing::{self, Shortage};

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

    /// To add excepted items again, or to except and add one by turns, would build the whole table anew each time.
    #[test]
    fn a_table_is_made_anew_for_many_changes_and_not_for_each() {
        let hashes: Vec<_> = (0..1728).map(|low| ItemHash { low, high: 1 }).collect();
        let mut table = Table::with_room_for(hashes.len()).unwrap();
        for &hash in &hashes {
            table.insert(hash);
        }
        let mut left = hashes.len();
        for (index, &hash) in hashes.iter().enumerate() {
            let before = table.buckets();
            assert!(table.remove(hash));
            table.shrink_to_need();
            assert!(table.buckets() <= before);
            if table.buckets() < before {
                // What was taken out since the last time pays for it.
                assert!(table.len() <= left - left / 3, "{} of {left}", table.len());
                left = table.len();
            }
            let is_large = 2 * buckets_for(table.len() + table.len() / 16) <= table.buckets();
            assert!(
                !is_large || table.is_empty(),
                "{} in {}",
                table.len(),
                table.buckets()
            );
            assert!(hashes[index + 1..].iter().all(|&hash| table.has(hash)));
        }
        assert_eq!(table.buckets(), 0);
        // At each number that a table has just room for.
        for count in [3, 6, 13, 27, 54, 108, 216, 432, 864, 1728] {
            let mut table = Table::with_room_for(count).unwrap();
            hashes[..count]
                .iter()
                .for_each(|&hash| assert!(table.insert(hash)));
            let mut rebuilt = 0;
            for &hash in &hashes[..count] {
                table.remove(hash);
                table.shrink_to_need();
                if !table.has_room_for(1) {
                    table.make_room_for(1).unwrap();
                    rebuilt += 1;
                }
                assert!(table.insert(hash));
            }
            let most = count.div_ceil(table.buckets() / 32 + 1) + 1;
            assert!(rebuilt <= most, "{rebuilt} times for {count}");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(ItemHash),
        Remove(ItemHash),
        Retain(u64),
        Shrink,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => hash().prop_map(Step::Insert),
            4 => hash().prop_map(Step::Remove),
            1 => (1..5u64).prop_map(Step::Retain),
            1 => Just(Step::Shrink),
        ]
    }

    fn ascending(table: &Table) -> Vec<Entry> {
        let mut all = Vec::new();
        table.each_ascending(|some| all.extend_from_slice(some));
        all
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
                        prop_assert_eq!(table.insert(hash), oracle.insert(entry_of(hash)));
                    }
                    Step::Remove(hash) => {
                        prop_assert_eq!(table.remove(hash), oracle.remove(&entry_of(hash)));
                    }
                    Step::Retain(by) => {
                        table.retain(|hash| hash.high % by == 0);
                        oracle.retain(|[high, _]| high % by == 0);
                    }
                    Step::Shrink => table.shrink_to_need(),
                }
                prop_assert_eq!(table.len(), oracle.len());
                prop_assert!(ascending(&table).iter().eq(&oracle));
                prop_assert!(oracle.iter().all(|&entry| table.has(hash_of(entry))));
            }
            let mut copy = table.try_clone().unwrap();
            prop_assert!(ascending(&copy).iter().eq(&oracle));
            prop_assert!(oracle.iter().all(|&entry| copy.has(hash_of(entry))));
            for &entry in &oracle {
                prop_assert!(copy.remove(hash_of(entry)) && !copy.has(hash_of(entry)));
            }
            prop_assert!(copy.is_empty());
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
            let mut items = Subset::NONE;
            (0..asked.len()).for_each(|at| items.put_if(at, word >> at & 1 == 1));
            let among = table.among(&hashes, items);
            for (at, &hash) in asked.iter().enumerate() {
                prop_assert_eq!(among.has(at), items.has(at) && table.has(hash));
            }
        }
    }

    /// A limit for memory would be held against another number than what is taken; or an exception take more than its
    /// page says.
    #[test]
    fn a_table_takes_what_is_said_before() {
        let of_large_group = cfg!(all(target_arch = "x86_64", target_feature = "sse2"));
        for count in (0..5000).chain([9999, 1 << 14, 442_368, 442_369]) {
            let table = Table::with_room_for(count).unwrap();
            let (said, taken) = (bytes_for(count), table.entries.allocation_size() as u64);
            assert_eq!(table.bytes(), said);
            assert!(said == taken || !of_large_group && said == taken + 8, "{count}");
            assert!(table.has_room_for(count) && count <= table.entries.capacity());
            assert!(count < 10 || said <= 48 * count as u64, "{count}: {said}");
        }
        assert!(bytes_for(usize::MAX) > isize::MAX as u64);
    }

    /// Whoever knows a filter's seed could choose items that stop the server for seconds: the time would grow with the
    /// square of their number.
    #[test]
    fn chosen_hashes_do_not_fall_into_one_place() {
        // Square roots of primes in binary, without their whole part. One random key in some 200 puts 17 to 90 hashes
        // into one place, which costs no time that a user would notice, but has no bound that a test could tell.
        const ROOTS: [u64; 8] = [
            0x6a09_e667_f3bc_c908,
            0xbb67_ae85_84ca_a73b,
            0x3c6e_f372_fe94_f82b,
            0xa54f_f53a_5f1d_36f1,
            0x510e_527f_ade6_82d1,
            0x9b05_688c_2b3e_6c1f,
            0x1f83_d9ab_fb41_bd6b,
            0x5be0_cd19_137e_2179,
        ];
        let keys = (0..8).map(|first| BucketKey([0, 1, 2].map(|part| ROOTS[(first + part) % 8] | 1)));
        let choices = [
            |n: u64| ItemHash { low: n, high: 7 },
            |n: u64| ItemHash { low: 7, high: n },
            |n: u64| ItemHash { low: n, high: n },
            |n: u64| ItemHash {
                low: n << 40,
                high: n >> 6,
            },
        ];
        for (key, chosen) in keys.flat_map(|key| choices.map(|chosen| (key, chosen))) {
            let mut places: Vec<_> = (0..60_000).map(|n| key.place(entry_of(chosen(n)))).collect();
            for (bits, most) in [(0..16, 16), (48..64, 16), (0..64, 1)] {
                let of = |place: &u64| place >> bits.start & u64::MAX >> (64 - bits.len());
                places.sort_unstable_by_key(of);
                let crowd = places
                    .chunk_by(|one, other| of(one) == of(other))
                    .map(<[u64]>::len)
                    .max();
                // Of as many random ones some eight are in one of 2^16 places.
                assert!(crowd.is_some_and(|crowd| crowd <= most), "{crowd:?} in {bits:?}");
            }
        }
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
            Table::with_room_for(usize::MAX),
            Err(Error::OutOfMemory { .. })
        ));

        const MANY: u64 = 5000;
        table.make_room_for(MANY as usize).unwrap();
        (4..=MANY).for_each(|low| assert!(table.insert(hash(low))));
        let expected: BTreeSet<_> = (1..=MANY).map(|low| entry_of(hash(low))).collect();
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
