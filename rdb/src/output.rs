//! The parts of RDB files and DUMP payloads as they are written. Strings are not compressed: a filter's bits cannot be.

use std::io::{self, Write};

use libbloom::Filter;
use libbloom::codec::{self, stream::Sink};

use super::{CRC64, Checksum, MODULE, type_of};

/// A writer that computes the checksum of what it writes.
pub struct Output<W> {
    pub writer: W,
    checksum: Checksum,
    /// The first error. It is kept here, because the codec's writes cannot fail.
    failed: Option<io::Error>,
}

impl<W: Write> Output<W> {
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            checksum: CRC64.digest(),
            failed: None,
        }
    }

    pub fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.checksum.update(bytes);
            self.failed = self.writer.write_all(bytes).err();
        }
    }

    pub fn result(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes a length, or any unsigned integer.
    pub fn put_length(&mut self, length: u64) {
        match length {
            0..0x40 => self.put(&[length as u8]),
            0x40..0x4000 => self.put(&(0x4000 | length as u16).to_be_bytes()),
            0x4000..0x1_0000_0000 => {
                self.put(&[0x80]);
                self.put(&(length as u32).to_be_bytes());
            }
            _ => {
                self.put(&[0x81]);
                self.put(&length.to_be_bytes());
            }
        }
    }

    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_length(bytes.len() as u64);
        self.put(bytes);
    }

    pub fn put_checksum(&mut self) {
        self.put(&self.checksum.clone().finalize().to_le_bytes());
    }

    /// Writes a filter: its type and its value. In a file, the key comes between the two.
    pub fn put_filter(&mut self, key: Option<&[u8]>, filter: &Filter) {
        self.put(&[MODULE]);
        if let Some(key) = key {
            self.put_bytes(key);
        }
        self.put_length(type_of(filter));
        codec::save(filter, self);
        self.put_length(0);
    }
}

impl<W: Write> Sink for Output<W> {
    fn put_unsigned(&mut self, value: u64) {
        self.put_length(2);
        self.put_length(value);
    }

    fn put_double(&mut self, value: f64) {
        self.put_length(4);
        self.put(&value.to_le_bytes());
    }

    fn put_string(&mut self, bytes: &[u8]) {
        self.put_length(5);
        self.put_bytes(bytes);
    }
}
