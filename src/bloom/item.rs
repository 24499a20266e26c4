//! What goes into a filter, whatever the filter's layout is: bytes, and the hash that layers know them by.

use super::params::Seed;

/// The hash of an item: the low and the high half of its 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHash {
    /// The low 64 bits.
    pub low: u64,
    /// The high 64 bits.
    pub high: u64,
}

/// An item, and its hash under a seed if that was made already.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    bytes: &'a [u8],
    hashed: Option<(Seed, ItemHash)>,
}

impl<'a> Item<'a> {
    /// An item with its hash under `seed`.
    #[inline]
    pub fn hashed(bytes: &'a [u8], seed: Seed, hash: ItemHash) -> Self {
        Self {
            bytes,
            hashed: Some((seed, hash)),
        }
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Its hash under `seed`, if that was made.
    #[inline(always)]
    pub fn hash_under(self, seed: Seed) -> Option<ItemHash> {
        self.hashed
            .and_then(|(under, hash)| (under == seed).then_some(hash))
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Item<'a> {
    #[inline(always)]
    fn from(bytes: &'a T) -> Self {
        Self {
            bytes: bytes.as_ref(),
            hashed: None,
        }
    }
}
