//! Exceptions: items that a filter denies although their bits are set.
//!
//! Their hashes are stored exactly, in a set. A query reads it only if the layers contain the item, so that nothing
//! changes for absent items. No other item is affected, unless all 128 bits of its hash are the same. Adding the item
//! again removes it from the set. Filters with a window have no exceptions.
//!
//! Someone who knows a filter's seed can choose the hashes of items, and a crafted dump can contain any hashes. So the
//! place of a hash in the set also depends on a random `Key`, which never leaves the process. The order of the set does
//! not show either, because hashes are sorted when they are stored.

use std::hash::{BuildHasher, Hasher, RandomState};

use hashbrown::HashSet;

use crate::chain::batch::{self, BlockOutcome, Hasher as _, Hashes, Subset};
use crate::chain::demand::{Allowance, Demand, Limit, ask, listed, reserved};
use crate::chain::layered::Layered as _;
use crate::chain::{Chain, Rules as _};
use crate::error::{Error, require};
use crate::item::{Item, ItemHash};
use crate::layouts::blocked::Blocked;
use crate::layouts::blocked::layer::Layer;

/// The most exceptions of a filter: they take 256 MiB in the header of a dump.
pub const MOST_EXCEPTIONS: usize = 1 << 24;

/// Why items cannot be excepted. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptError {
    /// The filter is in another module's layout, which has no exceptions.
    Foreign,
    /// The filter has a window, and its items expire.
    Window,
    /// The filter cannot have this many exceptions.
    TooMany {
        /// The number of exceptions that the filter has.
        exceptions: u64,
    },
    /// There is no memory for the exceptions.
    Memory(Error),
}

/// The random key that places hashes in a set. Nothing else depends on it.
#[derive(Clone, Copy)]
struct Key([u64; 3]);

impl Default for Key {
    fn default() -> Self {
        let random = RandomState::new();
        // Odd numbers, because a product with 0 is always 0.
        Self([0, 1, 2].map(|part: u64| random.hash_one(part) | 1))
    }
}

impl BuildHasher for Key {
    type Hasher = Placing;

    #[inline(always)]
    fn build_hasher(&self) -> Placing {
        Placing { key: *self, place: 0 }
    }
}

/// Places a hash by two folded multiplications with the key, without which nobody knows which hashes share a place.
struct Placing {
    key: Key,
    place: u64,
}

impl Hasher for Placing {
    #[inline(always)]
    fn write_u128(&mut self, hash: u128) {
        let (low, high, Key([a, b, c])) = (hash as u64, (hash >> 64) as u64, self.key);
        self.place = folded(low ^ folded(high ^ a, b), c);
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "the set has nothing but hashes");
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.place
    }
}

/// The two halves of a product, combined by XOR.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn number(ItemHash { low, high }: ItemHash) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

fn hash_of(number: u128) -> ItemHash {
    ItemHash {
        low: number as u64,
        high: (number >> 64) as u64,
    }
}

/// The number of buckets of a set with room for `count` hashes, a power of two. A hash that is removed may leave a mark
/// in its bucket, which stays occupied until the set is made anew. hashbrown fills 7/8 of the buckets; 1/28 of these are
/// kept for such marks, so that a set is not made anew after each removal.
fn buckets(count: usize) -> usize {
    match count {
        0 => 0,
        count => {
            let fewest = count.saturating_mul(32).div_ceil(27);
            fewest.checked_next_power_of_two().unwrap_or(usize::MAX).max(4)
        }
    }
}

/// Bytes of `count` exceptions: their set with its struct, 20 to 41 for each; 0 without any. Spare room is not counted:
/// a filter is as large as its copy on a replica, whose set may have shrunk at another time.
pub fn bytes(count: usize) -> u64 {
    match buckets(count) as u64 {
        0 => 0,
        // A hash of 16 bytes and a tag of one; 16 more tags.
        buckets => (size_of::<Exceptions>() as u64 + 16).saturating_add(buckets.saturating_mul(17)),
    }
}

/// Tags that a set lacks on a processor whose vectors are shorter than those of x86-64: [`bytes`] is the same everywhere.
#[cfg(test)]
pub const FEWER_TAGS: u64 = if cfg!(target_arch = "x86_64") { 0 } else { 8 };

/// An allowance for the layers of a filter that has `count` exceptions.
pub(crate) fn beside(count: usize, allowance: Allowance<'_>) -> impl Fn(Demand) -> Result<(), Limit> {
    move |demand: Demand| {
        let total = demand.total.saturating_add(bytes(count));
        allowance(Demand { total, ..demand })
    }
}

/// Requests memory for `count` exceptions of a filter whose layers have `layers` bytes.
pub(crate) fn ask_for(count: usize, layers: u64, allowance: Allowance<'_>) -> Result<(), Error> {
    ask(layers, layers.saturating_add(bytes(count)), None, allowance)
}

/// A set of hashes.
#[derive(Default)]
pub struct Exceptions(HashSet<u128, Key>);

impl Exceptions {
    /// An empty set with room for `count` hashes.
    pub fn with_room_for(count: usize) -> Result<Self, Error> {
        let (mut set, buckets) = (HashSet::default(), buckets(count));
        // Any number above 3/4 of the buckets makes this many of them.
        let has_room = set.try_reserve(buckets - buckets.div_ceil(8));
        let bytes = bytes(count);
        has_room.map_err(|_| Error::OutOfMemory { bytes })?;
        Ok(Self(set))
    }

    /// The number of hashes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no hashes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the set's memory, spare room included. hashbrown does not tell where it is.
    pub fn allocated(&self) -> u64 {
        self.0.allocation_size() as u64
    }

    /// Whether `hash` is in the set.
    #[inline]
    pub fn has(&self, hash: ItemHash) -> bool {
        self.0.contains(&number(hash))
    }

    /// The items of a block whose hashes are in the set.
    pub fn among(&self, hashes: &Hashes, items: Subset) -> Subset {
        let mut among = Subset::NONE;
        for at in items {
            among.put_if(at, self.has(hashes[at]));
        }
        among
    }

    /// Inserts `hash`; false if it was there. There must be [room](Self::has_room_for).
    pub fn insert(&mut self, hash: ItemHash) -> bool {
        debug_assert!(
            self.has(hash) || self.len() < self.0.capacity(),
            "a set without room"
        );
        self.0.insert(number(hash))
    }

    /// Removes `hash`; false if it was not there.
    pub fn remove(&mut self, hash: ItemHash) -> bool {
        self.0.remove(&number(hash))
    }

    /// Whether there is room for `more` hashes, and the set is as large as [`bytes`] says of it with them.
    pub fn has_room_for(&self, more: usize) -> bool {
        let is_free = more <= self.0.capacity() - self.len();
        is_free && self.has_buckets(buckets(self.len().saturating_add(more)))
    }

    /// Whether there are so many buckets: a hash takes 16 bytes, a tag one.
    fn has_buckets(&self, buckets: usize) -> bool {
        buckets.saturating_mul(17) <= self.0.allocation_size()
    }

    /// Makes room for `more` hashes, in a filter whose layers have `layers` bytes.
    pub fn make_room_for(&mut self, more: usize, layers: u64, allowance: Allowance<'_>) -> Result<(), Error> {
        if !self.has_room_for(more) {
            let count = self.len().saturating_add(more);
            ask_for(count, layers, allowance)?;
            *self = self.copy_with_room_for(count)?;
        }
        Ok(())
    }

    /// Gives memory back if half of it is enough, with some room, so that the set does not soon grow again. Without
    /// memory for the smaller set the larger one stays.
    pub fn shrink_to_need(&mut self) {
        let needed = self.len() + self.len() / 16;
        if self.has_buckets(2 * buckets(needed))
            && let Ok(smaller) = self.copy_with_room_for(needed)
        {
            *self = smaller;
        }
    }

    /// An equal set with memory of its own, and room for `count` hashes in total.
    pub fn copy_with_room_for(&self, count: usize) -> Result<Self, Error> {
        let mut copy = Self::with_room_for(count.max(self.len()))?;
        copy.0.extend(&self.0);
        Ok(copy)
    }

    /// The hashes, in no particular order.
    pub fn hashes(&self) -> impl Iterator<Item = ItemHash> + '_ {
        self.0.iter().map(|&number| hash_of(number))
    }

    /// The hashes as numbers, in ascending order.
    pub fn sorted(&self) -> Result<Vec<u128>, Error> {
        let mut sorted = listed(self.0.iter().copied())?;
        sorted.sort_unstable();
        Ok(sorted)
    }
}

/// Whether layers of the blocked layout contain an item that is not excepted.
pub fn contains(chain: &Chain<Blocked>, exceptions: Option<&Exceptions>, item: Item<'_>) -> bool {
    let hash = chain.rules().hasher().hash(item);
    any_layer_contains(chain.layers(), hash) && !exceptions.is_some_and(|exceptions| exceptions.has(hash))
}

/// Adds items to layers of the blocked layout, and removes them from the exceptions; see
/// [`Filter::add_blocks`](crate::Filter::add_blocks).
pub fn add_blocks(
    chain: &mut Chain<Blocked>,
    exceptions: &mut Exceptions,
    items: impl Iterator<Item: AsRef<[u8]>>,
    allowance: Allowance<'_>,
    mut added: impl FnMut(BlockOutcome),
) -> Result<(), Error> {
    let allowance = beside(exceptions.len(), allowance);
    chain.add_blocks(items, &allowance, |mut outcome, block| {
        // New items are looked up too: while chunks are still being loaded, an exception may exist before its bits.
        for at in exceptions.among(&block.hashes, Subset::first(outcome.count)) {
            // If an item occurs twice in a block, only the first one removes the exception.
            let again = exceptions.remove(block.hashes[at]);
            outcome.new.put_if(at, again);
            outcome.changed.put_if(at, again);
        }
        added(outcome);
    })
}

/// Excepts the items that layers of the blocked layout contain, and reports them to `excepted` block by block.
pub fn except<'a>(
    chain: &Chain<Blocked>,
    exceptions: &mut Exceptions,
    items: impl Iterator<Item = &'a [u8]> + Clone,
    allowance: Allowance<'_>,
    mut excepted: impl FnMut(Subset, usize),
) -> Result<(), ExceptError> {
    let mut more = 0;
    each_new(chain, exceptions, items.clone(), |_| more += 1);
    if !exceptions.has_room_for(more) {
        // An item that occurs several times was counted each time.
        let mut new = reserved(more).map_err(ExceptError::Memory)?;
        each_new(chain, exceptions, items.clone(), |hash| new.push(number(hash)));
        new.sort_unstable();
        new.dedup();
        more = new.len();
    }
    check_number(exceptions.len(), more)?;
    let room = exceptions.make_room_for(more, chain.bytes(chain.layers().len()), allowance);
    room.map_err(ExceptError::Memory)?;
    chain.contains_blocks(items, |candidates, block| {
        let mut changed = Subset::NONE;
        for at in candidates {
            changed.put_if(at, exceptions.insert(block.hashes[at]));
        }
        excepted(changed, block.count);
    });
    Ok(())
}

/// Checks that a filter with `exceptions` exceptions can have `more`.
fn check_number(exceptions: usize, more: usize) -> Result<(), ExceptError> {
    let is_possible = exceptions + more <= MOST_EXCEPTIONS;
    let exceptions = exceptions as u64;
    require(is_possible, ExceptError::TooMany { exceptions })
}

/// Passes the hash of each item that is newly excepted to `visit`.
fn each_new<'a>(
    chain: &Chain<Blocked>,
    exceptions: &Exceptions,
    items: impl Iterator<Item = &'a [u8]>,
    mut visit: impl FnMut(ItemHash),
) {
    chain.contains_blocks(items, |candidates, block| {
        let known = exceptions.among(&block.hashes, candidates);
        for at in candidates.without(known) {
            visit(block.hashes[at]);
        }
    });
}

/// Whether any layer contains an item with this hash, excepted or not.
pub(super) fn any_layer_contains(layers: &[Layer], hash: ItemHash) -> bool {
    #[cfg(test)]
    crate::tests::work::add(crate::tests::work::Work::LayersAsked, layers.len());
    batch::any_contains(layers.iter().rev(), hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::UNLIMITED;
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

    proptest! {
        /// A wrong answer would be an item forgotten, or one that was excepted found again.
        #[test]
        fn exceptions_are_a_set(steps in prop::collection::vec((hash(), any::<bool>()), 1..400)) {
            let (mut set, mut oracle) = (Exceptions::default(), BTreeSet::new());
            for (hash, inserts) in steps {
                if inserts {
                    set.make_room_for(1, 0, UNLIMITED).unwrap();
                    prop_assert_eq!(set.insert(hash), oracle.insert(number(hash)));
                } else {
                    prop_assert_eq!(set.remove(hash), oracle.remove(&number(hash)));
                    set.shrink_to_need();
                }
                prop_assert_eq!(set.len(), oracle.len());
                prop_assert!(set.sorted().unwrap().iter().eq(&oracle));
                prop_assert!(oracle.iter().all(|&number| set.has(hash_of(number))));
            }
            let copy = set.copy_with_room_for(set.len()).unwrap();
            prop_assert!(copy.sorted().unwrap().iter().eq(&oracle));
        }
    }

    /// To add excepted items again, or to except and add one by turns, would build the whole set anew each time.
    #[test]
    fn a_set_is_made_anew_for_many_changes_and_not_for_each() {
        let hashes: Vec<_> = (0..1728).map(|low| ItemHash { low, high: 1 }).collect();
        let full = |count: usize| {
            let mut set = Exceptions::with_room_for(count).unwrap();
            hashes[..count].iter().for_each(|&hash| assert!(set.insert(hash)));
            set
        };
        let mut set = full(hashes.len());
        let (mut left, mut held) = (set.len(), set.allocated());
        for (index, &hash) in hashes.iter().enumerate() {
            assert!(set.remove(hash));
            set.shrink_to_need();
            if set.allocated() != held {
                // What was taken out since the last time pays for it.
                assert!(
                    set.allocated() < held && set.len() <= left - left / 3,
                    "{} of {left}",
                    set.len()
                );
                (left, held) = (set.len(), set.allocated());
            }
            assert!(hashes[index + 1..].iter().all(|&hash| set.has(hash)));
        }
        assert_eq!(set.allocated(), 0);
        // At each number that a set has just room for.
        for count in [3, 6, 13, 27, 54, 108, 216, 432, 864, 1728] {
            let (mut set, mut made_anew) = (full(count), 0);
            for &hash in &hashes[..count] {
                set.remove(hash);
                set.shrink_to_need();
                if !set.has_room_for(1) {
                    set.make_room_for(1, 0, UNLIMITED).unwrap();
                    made_anew += 1;
                }
                assert!(set.insert(hash));
            }
            let most = count.div_ceil(buckets(count) / 32 + 1) + 1;
            assert!(made_anew <= most, "{made_anew} times for {count}");
        }
    }

    /// A limit for memory would be held against another number than what is taken; or an exception take more than its
    /// page says.
    #[test]
    fn exceptions_take_what_is_said_before() {
        for count in (0..5000).chain([9999, 1 << 14, 442_368, 442_369]) {
            let set = Exceptions::with_room_for(count).unwrap();
            let taken = set.allocated() + size_of::<Exceptions>() as u64 * u64::from(count > 0);
            let said = bytes(count);
            let fewer = FEWER_TAGS * u64::from(count > 0);
            assert_eq!(said, taken + fewer, "{count}");
            assert!(set.has_room_for(count));
            assert!(count < 10 || said <= 56 + 48 * count as u64, "{count}: {said}");
        }
        assert!(bytes(usize::MAX) > isize::MAX as u64);
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
        let keys = (0..8).map(|first| Key([0, 1, 2].map(|part| ROOTS[(first + part) % 8] | 1)));
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
            let mut places: Vec<_> = (0..60_000).map(|n| key.hash_one(number(chosen(n)))).collect();
            for (bits, most) in [(0..16, 16), (48..64, 16), (0..64, 1)] {
                let of = |place: &u64| place >> bits.start & u64::MAX >> (64 - bits.len());
                places.sort_unstable_by_key(of);
                let crowds = places.chunk_by(|one, other| of(one) == of(other));
                let crowd = crowds.map(<[u64]>::len).max();
                // Of as many random ones some eight are in one of 2^16 places.
                assert!(crowd.is_some_and(|crowd| crowd <= most), "{crowd:?} in {bits:?}");
            }
        }
        assert_ne!(
            Key::default().hash_one(1_u128),
            Key::default().hash_one(1_u128),
            "each set has its own key"
        );
    }

    /// Without memory a server must answer so, with what it had.
    #[test]
    fn without_memory_nothing_changes() {
        const MANY: u64 = 5000;
        let hash = |low: u64| ItemHash {
            low,
            high: low.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let mut set = Exceptions::default();
        let without = |set: &mut Exceptions, more| {
            failing::after(0, Shortage::Lasting, || set.make_room_for(more, 0, UNLIMITED))
        };
        assert!(without(&mut set, 1).is_err());
        set.make_room_for(MANY as usize, 0, UNLIMITED).unwrap();
        (1..=MANY).for_each(|low| assert!(set.insert(hash(low))));
        assert!(without(&mut set, MANY as usize).is_err());
        assert!(failing::after(0, Shortage::Lasting, || set.copy_with_room_for(1).map(|_| ())).is_err());
        assert!(set.len() == MANY as usize && (1..=MANY).all(|low| set.has(hash(low))));
        assert!(matches!(
            Exceptions::with_room_for(usize::MAX),
            Err(Error::OutOfMemory { .. })
        ));
        let expected: BTreeSet<_> = (1..=MANY).map(|low| number(hash(low))).collect();
        assert!(failing::after(0, Shortage::Lasting, || set.sorted()).is_err());
        assert!(set.sorted().unwrap().iter().eq(&expected));
    }

    /// A filter would have more exceptions than its dump can contain, and could not be copied to another server; or
    /// its last possible exception would be refused.
    #[test]
    fn no_exception_is_beyond_the_limit() {
        for exceptions in [0, 1, MOST_EXCEPTIONS - 1, MOST_EXCEPTIONS] {
            let left = MOST_EXCEPTIONS - exceptions;
            let refused = Err(ExceptError::TooMany {
                exceptions: exceptions as u64,
            });
            assert_eq!(check_number(exceptions, 0), Ok(()));
            assert_eq!(check_number(exceptions, left), Ok(()));
            for too_many in [1, 2, 1000] {
                assert_eq!(check_number(exceptions, left + too_many), refused);
            }
        }
    }
}
