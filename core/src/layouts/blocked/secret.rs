//! Keyed XXH3-128, which turns an item into 128 bits: one hash for every layer of a filter.
//!
//! XXH3 needs its key as a *secret* of 192 bytes. docs/design.md says how it is made from a seed, under "The blocked
//! layout". Both are pinned by test vectors below: stored filters depend on them for ever.
//!
//! The *seeded* form of XXH3-128 is not used: it adds the seed to one half of each 16-byte chunk's secret and
//! subtracts it from the other, and for about one random seed in 2^22 an item whose halves are swapped (under
//! a fixed xor) collides in all 128 bits. With an independent secret it does not.
//!
//! The key raises the bar for someone who wants to build colliding items (Gerbet, Kumar, Lauradoux, "The
//! Power of Evil Choices in Bloom Filters", 2015). XXH3 is no cryptographic hash, so this is no proof.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::item::ItemHash;
use crate::params::Seed;

const SECRET_BYTES: usize = 192;

/// A seed and the secret that was made from it: what a filter's hash needs to know.
#[derive(Clone, Copy)]
pub struct HashKey {
    seed: Seed,
    bytes: [u8; SECRET_BYTES],
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl HashKey {
    /// The seed that the secret was made from.
    #[inline]
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The hash of `item` under this secret.
    #[inline(always)]
    pub fn hash(&self, item: &[u8]) -> ItemHash {
        let hash = xxh3_128_with_secret(item, &self.bytes);
        ItemHash {
            low: hash as u64,
            high: (hash >> 64) as u64,
        }
    }
}

/// A [`HashKey`] that all filters with its seed share.
#[derive(Debug)]
pub struct Secret(HashKey);

impl Deref for Secret {
    type Target = HashKey;

    #[inline(always)]
    fn deref(&self) -> &HashKey {
        &self.0
    }
}

static IN_USE: Mutex<BTreeMap<Seed, Weak<Secret>>> = Mutex::new(BTreeMap::new());

/// Locks the table of all secrets in use. A panic of another holder cannot have left it inconsistent.
fn in_use() -> MutexGuard<'static, BTreeMap<Seed, Weak<Secret>>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Secret {
    /// Bytes of a secret that only one filter uses: the secret with its reference counts, and 32 for its entry in the
    /// table. A node of the table has 192 bytes for up to 11 entries, and holds 7.6 on average (a share of ln 2) if
    /// entries come in any order; every such node also has an edge in a node above it.
    pub const BYTES: u64 = size_of::<(AtomicUsize, AtomicUsize, Self)>() as u64 + 32;

    /// The secret of `seed`, shared with every other holder in this process.
    pub fn of(seed: Seed) -> Arc<Self> {
        let mut table = in_use();
        if let Some(secret) = table.get(&seed).and_then(Weak::upgrade) {
            return secret;
        }
        let secret = Arc::new(Self(HashKey {
            seed,
            bytes: expand(seed),
        }));
        table.insert(seed, Arc::downgrade(&secret));
        secret
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let mut table = in_use();
        // Between the last use of this secret and now, another thread may have made the next one for its seed.
        if table
            .get(&self.seed)
            .is_some_and(|secret| secret.strong_count() == 0)
        {
            table.remove(&self.seed);
            // A table without entries still keeps a node.
            if table.is_empty() {
                *table = BTreeMap::new();
            }
        }
    }
}

/// Expands a seed to the bytes of its secret: a ChaCha20 key stream (RFC 8439).
fn expand(seed: Seed) -> [u8; SECRET_BYTES] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.0.to_le_bytes());
    let mut bytes = [0; SECRET_BYTES];
    ChaCha20::new(&key.into(), &[0; 12].into()).apply_keystream(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored filters find their items by these secrets. The vectors are RFC 8439 A.1, test vector 1, and others made
    /// by an independent implementation.
    #[test]
    fn secrets_are_pinned() {
        let pinned: [(u64, [u128; 3]); 2] = [
            (
                0,
                [
                    0x76b8e0ada0f13d90405d6ae55386bd28,
                    0xc387b669b2ee65869f07e7be5551387a,
                    0x73d2d313c9cf94c05ff3716240a248f2,
                ],
            ),
            (
                0x0123_4567_89ab_cdef,
                [
                    0x81ff174f0ce9b04ffb10a32b7749b6fc,
                    0x7dd549a01cee528fee3305ac945e474a,
                    0x54562582b44f0626663cf45cb4ac8c04,
                ],
            ),
        ];
        for (seed, [start, middle, end]) in pinned {
            let bytes = expand(Seed(seed));
            assert_eq!(bytes[..16], start.to_be_bytes(), "seed {seed}");
            assert_eq!(bytes[56..72], middle.to_be_bytes(), "seed {seed}");
            assert_eq!(bytes[176..], end.to_be_bytes(), "seed {seed}");
        }
    }

    /// Stored filters find their items by these hashes. The vectors were made with the reference implementation of XXH3
    /// in C (XXH3_128bits_withSecret, xxHash 0.8.1), one for each of its length classes.
    #[test]
    fn hashes_are_pinned() {
        let pinned = [
            (0, 0x7453c81f03e87840, 0x9e7a2b71831c90e8),
            (1, 0x3fb8deb1c8141489, 0xe5a9a7dad82f440e),
            (3, 0x74435b5b0ac5b4fb, 0xf9f7ceb74264dddd),
            (4, 0x066528c326ed2976, 0x12e7b06132f74358),
            (8, 0x44b6e9195118697a, 0x66d5d42a7607ef86),
            (9, 0xf24694583ebdf3d9, 0x3c56d4273f79ae5a),
            (16, 0x363cd5da7b4b8fe0, 0x70e5436063d5c38e),
            (17, 0x5fa2211d1ee07974, 0xf83e55f5f5318fd2),
            (32, 0xd73269b3b2ab0d06, 0x35d9a1395423e8c5),
            (128, 0x4564d3c6338d6c3c, 0xc0abdc6d16b40fd9),
            (129, 0x2df7fd5da024e3d4, 0xe9f8a290c81e4f29),
            (240, 0xdc4b2be73aabb893, 0x4f39e128c5b1f660),
            (241, 0xdb06853d61726078, 0xc148aa1f053ea79a),
            (1024, 0xf52fd50cb8cdd495, 0xc95c4f2d6ece8629),
            (2048, 0x1642ee904722ed3c, 0xd83209447dda22b2),
        ];
        let input: Vec<u8> = (0..2048u32).map(|i| (i * 131 + 7) as u8).collect();
        let secret = Secret::of(Seed(0x0123_4567_89ab_cdef));
        for (length, low, high) in pinned {
            assert_eq!(
                secret.hash(&input[..length]),
                ItemHash { low, high },
                "{length} bytes"
            );
        }
    }

    /// Many filters with one seed have one copy of its key, and no key outlives its filters.
    #[test]
    fn filters_with_one_seed_share_one_secret_and_leave_none_behind() {
        let seed = Seed(0x5eed_0001);
        let first = Secret::of(seed);
        let second = Secret::of(seed);
        assert!(Arc::ptr_eq(&first, &second));
        drop(first);
        assert!(in_use().contains_key(&seed));
        drop(second);
        assert!(!in_use().contains_key(&seed));
    }
}
