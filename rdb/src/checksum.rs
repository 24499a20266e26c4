//! The checksum of RDB files and payloads.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The checksum of the bytes so far.
#[derive(Clone)]
pub struct Checksum(Digest<'static, u64, Table<16>>);

impl Default for Checksum {
    fn default() -> Self {
        Self(CRC64.digest())
    }
}

impl Checksum {
    /// Adds further bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum.
    pub fn value(&self) -> u64 {
        self.0.clone().finalize()
    }
}
