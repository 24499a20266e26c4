//! The two Murmur hashes of classic layers: MurmurHash64A, and the 32-bit MurmurHash2 of filters from before
//! RedisBloom hashed to 64 bits. (Austin Appleby, 2008; public domain algorithms, reimplemented here.)
//!
//! Both are defined on little-endian words. Their constants are public and the hash has no key, so anyone can
//! compute items that collide: that is the price of RedisBloom's bits.

/// MurmurHash64A of `bytes`.
#[inline]
pub fn hash64(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash = (hash ^ little_endian(tail)).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

/// MurmurHash2, 32 bits, of `bytes`.
#[inline]
pub fn hash32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let (words, tail) = bytes.as_chunks::<4>();
    // The length enters modulo 2^32.
    let mut hash = seed ^ bytes.len() as u32;
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash = (hash ^ little_endian(tail) as u32).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The number whose little-endian bytes, fewer than 8, are `tail`.
#[inline]
fn little_endian(tail: &[u8]) -> u64 {
    tail.iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Filters taken over from RedisBloom find their items by these hashes. The values were made with an implementation
    /// in Python that reproduces the bit arrays of stored filters.
    #[test]
    fn hashes_are_pinned() {
        let pinned = [
            (0, 0x1ab11ea5a7b2c56e, 0xbbddcb5ab56dd547, 0x106e08d9, 0x456d9087),
            (1, 0x388fa52c5d207365, 0x92112d35f276d305, 0x1d63a369, 0x310a224e),
            (2, 0x79d1aad6b405b083, 0x06c4515c42796d34, 0x83af8958, 0xd684c7fb),
            (3, 0x28ba523fd033722b, 0x9ee63a4fefe3f86a, 0x49d84e90, 0x1428bad5),
            (4, 0x9f120956813ec745, 0x471a51f59251ef9a, 0x77107b63, 0xf6bb6b0d),
            (5, 0xfc7a4b9d3a50366b, 0x8b8f5e4cf4762cd4, 0x06326540, 0xf8f9c05f),
            (6, 0x035f31eae585d07c, 0x462368a0ccb4c87e, 0x8eddd244, 0xb743e311),
            (7, 0x4ecb2c212d9e130c, 0xa473e1b62cfc1e9b, 0xdf03afa1, 0x9946eb4f),
            (8, 0x15059f5e9b31d3fa, 0x1f2e68a68720bec6, 0x2ca2246a, 0xdc72d8d5),
            (9, 0xad0b3fb3fe285934, 0x8f76e9ca94102107, 0x197b9c57, 0xdda47593),
            (11, 0x1a614112cf0b1438, 0x03e3ad451d31f2a6, 0xa92fcaa2, 0x75389caf),
            (12, 0x431689aa70570c2d, 0x9b193bac67906658, 0xfb711df0, 0x990c6d31),
            (15, 0x8325f39b8a3f0f42, 0xe917b7d9975f1cef, 0x87ed5508, 0x2dd27a07),
            (16, 0x54c2f706de87ba86, 0x87acb86a9eb965b3, 0xc48b5e6c, 0xbd77178e),
            (17, 0x30628aa71030b43a, 0x8ce5a0265cb55102, 0xcf255e04, 0xac41a5c7),
            (31, 0xe158e1c4ecfaec86, 0x70c162ae16db4a7c, 0x1cd5bee0, 0x5fd295fd),
            (32, 0x00f576c5c73b802a, 0x128003750e24e4bb, 0xded26620, 0x10379fd0),
            (63, 0x667772411047d17e, 0x9ade6127873b753c, 0x8a2296e2, 0x99cfc6b1),
            (
                100,
                0x8314d8866bfc7d5e,
                0x231579c1686d9d5d,
                0x047dfd05,
                0x8b03cc33,
            ),
            (
                1023,
                0xfbccd00a4392bab4,
                0x770d8256f898c814,
                0xb69ba078,
                0x32e7f55a,
            ),
        ];
        let input: Vec<u8> = (0..1024u32).map(|i| (i * 131 + 7) as u8).collect();
        for (length, a64, b64, a32, b32) in pinned {
            let bytes = &input[..length];
            assert_eq!(hash64(bytes, 0xc6a4_a793_5bd1_e995), a64, "{length} bytes");
            assert_eq!(hash64(bytes, a64), b64, "{length} bytes");
            assert_eq!(hash32(bytes, 0x9747_b28c), a32, "{length} bytes");
            assert_eq!(hash32(bytes, a32), b32, "{length} bytes");
        }
    }

    proptest! {
        /// Items have the hashes that RedisBloom gave them. The oracle is a crate that is tested against Appleby's own
        /// code.
        #[test]
        fn hashes_are_appleby_s(bytes: Vec<u8>, seed: u64) {
            prop_assert_eq!(hash64(&bytes, seed), murmur2::murmur64a(&bytes, seed));
            prop_assert_eq!(hash32(&bytes, seed as u32), murmur2::murmur2(&bytes, seed as u32));
        }
    }
}
