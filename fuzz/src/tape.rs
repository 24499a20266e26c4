//! The fuzzer's bytes, read from the front. A tape never ends: after its last byte come zeros.

/// Bytes not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Tape<'a>(pub &'a [u8]);

impl<'a> Tape<'a> {
    /// Whether every byte was read.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `length` bytes, or as many as there are.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// The next bytes, after their length.
    pub fn short(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.bytes(length.into())
    }

    /// The next bytes, after their length in 16 bits.
    pub fn long(&mut self) -> &'a [u8] {
        let length = self.u16();
        self.bytes(length.into())
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        self.number::<1>() as u8
    }

    /// The next 16 bits.
    pub fn u16(&mut self) -> u16 {
        self.number::<2>() as u16
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> u32 {
        self.number::<4>() as u32
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.number::<8>()
    }

    fn number<const N: usize>(&mut self) -> u64 {
        let mut number = [0; 8];
        let bytes = self.bytes(N);
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    }
}
