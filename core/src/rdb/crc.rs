//! CRC-64 as Redis computes it: the polynomial 0xad93d23594c935a9, bits from the lowest on, from 0.

/// The polynomial, its bits in the order in which they are used.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
/// The number of bytes that one step processes.
const STEP: usize = 8;
/// `TABLES[n][byte]` is the checksum of `byte` and `n` zero bytes.
static TABLES: [[u64; 256]; STEP] = tables();

/// The checksum of the bytes so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crc(u64);

impl Crc {
    /// Adds further bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<STEP>();
        for word in words {
            let word = (self.0 ^ u64::from_le_bytes(*word)).to_le_bytes();
            let turned = TABLES.iter().rev().zip(word);
            self.0 = turned.fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)]);
        }
        for byte in rest {
            self.0 = TABLES[0][(self.0 as u8 ^ byte) as usize] ^ self.0 >> 8;
        }
    }

    /// The checksum.
    pub fn value(self) -> u64 {
        self.0
    }
}

const fn tables() -> [[u64; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < STEP {
        let mut byte = 0;
        while byte < 256 {
            let sum = tables[zeros - 1][byte];
            tables[zeros][byte] = tables[0][(sum & 0xff) as usize] ^ sum >> 8;
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers would refuse every payload, and files of theirs would be called damaged.
    #[test]
    fn the_checksum_is_the_published_one_however_the_bytes_are_cut() {
        let bytes = b"123456789 and some more, over several steps";
        for cut in 0..bytes.len() {
            let mut crc = Crc::default();
            crc.add(&bytes[..cut.min(9)]);
            crc.add(&bytes[cut.min(9)..9]);
            assert_eq!(crc.value(), 0xe9c6_d914_c4b8_d9ca, "cut at {cut}");
            let mut bit_by_bit = 0_u64;
            for byte in bytes {
                bit_by_bit ^= u64::from(*byte);
                for _ in 0..8 {
                    bit_by_bit = (bit_by_bit >> 1) ^ ((bit_by_bit & 1) * POLYNOMIAL);
                }
            }
            let mut crc = Crc::default();
            crc.add(&bytes[..cut]);
            crc.add(&bytes[cut..]);
            assert_eq!(crc.value(), bit_by_bit, "cut at {cut}");
        }
    }
}
