//! The parts of RDB files and DUMP payloads as they are read: integers, lengths, strings, and a module's values.

use std::io::{self, Read};

use libbloom::DecodeError;
use libbloom::codec::stream::{Array, Source};

use super::{CRC64, Checksum, RdbError};

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;
/// The longest key of a server; a longer one is an error.
const LONGEST_KEY: u64 = 512 << 20;
/// The most bytes for each byte of an LZF-compressed string: three bytes can stand for 264.
const LZF_GAIN: u64 = 88;

const BAD_LZF: RdbError = RdbError::Encoding("a compressed string");

/// The opcode that ends a module's value.
const END: u64 = 0;
const SIGNED: u64 = 1;
const UNSIGNED: u64 = 2;
const FLOAT: u64 = 3;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// A reader that computes the checksum of what it reads.
pub struct Input<R> {
    reader: R,
    pub checksum: Checksum,
}

/// How a string is stored.
enum Stored {
    /// The bytes themselves, as many as this.
    Plain(u64),
    /// A number of this many bytes, for its decimal digits.
    Number(usize),
    /// Compressed, in LZF.
    Lzf { compressed: u64, length: u64 },
}

impl Stored {
    /// The number of stored bytes.
    fn stored_bytes(&self) -> u64 {
        match self {
            Self::Plain(bytes) => *bytes,
            Self::Number(bytes) => *bytes as u64,
            Self::Lzf { compressed, .. } => *compressed,
        }
    }

    /// The number of bytes of the string, or of its stored bytes if that is more.
    fn most_bytes(&self) -> u64 {
        match self {
            Self::Lzf { length, .. } => self.stored_bytes().max(*length),
            Self::Plain(_) | Self::Number(_) => self.stored_bytes(),
        }
    }
}

impl<R: Read> Input<R> {
    pub fn new(reader: R) -> Self {
        let checksum = CRC64.digest();
        Self { reader, checksum }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RdbError> {
        self.reader.read_exact(bytes)?;
        self.checksum.update(bytes);
        Ok(())
    }

    pub fn bytes<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, RdbError> {
        Ok(self.bytes::<1>()?[0])
    }

    pub fn skip(&mut self, count: u64) -> Result<(), RdbError> {
        let mut piece = [0; 4096];
        let mut left = count;
        while left > 0 {
            let length = left.min(piece.len() as u64);
            self.fill(&mut piece[..length as usize])?;
            left -= length;
        }
        Ok(())
    }

    /// The next byte; `None` if the input ends here.
    pub fn next_byte(&mut self) -> Result<Option<u8>, RdbError> {
        let mut byte = [0];
        loop {
            match self.reader.read(&mut byte) {
                Ok(count) => return Ok((count > 0).then_some(byte[0])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads a length, or any unsigned integer: the server stores both in the same way.
    pub fn length(&mut self) -> Result<u64, RdbError> {
        let first = self.byte()?;
        self.length_after(first)
    }

    fn length_after(&mut self, first: u8) -> Result<u64, RdbError> {
        match first {
            0..=0x3f => Ok(first.into()),
            0x40..=0x7f => Ok(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            0x80 => Ok(u32::from_be_bytes(self.bytes()?).into()),
            0x81 => Ok(u64::from_be_bytes(self.bytes()?)),
            _ => Err(RdbError::Encoding("a length")),
        }
    }

    /// Reads the encoding of a string, which precedes its bytes.
    fn stored(&mut self) -> Result<Stored, RdbError> {
        let first = self.byte()?;
        match first {
            0xc0..=0xc2 => Ok(Stored::Number(1 << (first & 3))),
            0xc3 => Ok(Stored::Lzf {
                compressed: self.length()?,
                length: self.length()?,
            }),
            0xc4.. => Err(RdbError::Encoding("a string")),
            _ => Ok(Stored::Plain(self.length_after(first)?)),
        }
    }

    pub fn skip_string(&mut self) -> Result<(), RdbError> {
        let stored = self.stored()?;
        self.skip(stored.stored_bytes())
    }

    /// Reads the name of a key, which may have at most `most` bytes.
    pub fn key(&mut self, most: u64) -> Result<Vec<u8>, RdbError> {
        let stored = self.stored()?;
        let bytes = stored.most_bytes();
        if bytes > LONGEST_KEY {
            return Err(RdbError::Encoding("the name of a key"));
        }
        if bytes > most {
            return Err(no_memory(bytes));
        }
        let array = self.string(stored)?;
        let mut key = Vec::new();
        reserve(&mut key, array.bytes().len())?;
        key.extend_from_slice(array.bytes());
        Ok(key)
    }

    /// Reads a string. One that needs more than `most` bytes is skipped, with the inner error; reading can go on.
    fn array(&mut self, most: u64) -> Result<Result<Array, DecodeError>, RdbError> {
        let stored = self.stored()?;
        let bytes = stored.most_bytes();
        if bytes > most {
            self.skip(stored.stored_bytes())?;
            return Ok(Err(DecodeError::OutOfMemory { bytes }));
        }
        self.string(stored).map(Ok)
    }

    fn string(&mut self, stored: Stored) -> Result<Array, RdbError> {
        match stored {
            Stored::Plain(length) => self.filled(length),
            Stored::Number(bytes) => self.number(bytes),
            Stored::Lzf { compressed, length } => {
                if length > compressed.saturating_mul(LZF_GAIN) {
                    return Err(BAD_LZF);
                }
                let compressed = self.filled(compressed)?;
                let length = usize::try_from(length).map_err(|_| BAD_LZF)?;
                let mut bytes = Vec::new();
                reserve(&mut bytes, length)?;
                #[expect(clippy::disallowed_methods, reason = "it has the room")]
                bytes.resize(length, 0);
                decompress(compressed.bytes(), &mut bytes).ok_or(BAD_LZF)?;
                Ok(Array::Bytes(bytes.into_boxed_slice()))
            }
        }
    }

    /// The decimal digits of a number that has `bytes` bytes.
    fn number(&mut self, bytes: usize) -> Result<Array, RdbError> {
        let mut number = [0; 4];
        self.fill(&mut number[..bytes])?;
        let unused = 32 - 8 * bytes as u32;
        let number = i32::from_le_bytes(number) << unused >> unused;
        Ok(Array::Bytes(number.to_string().into_bytes().into_boxed_slice()))
    }

    /// Reads `length` bytes. If they are whole words they are read as words, which a filter keeps without a copy.
    fn filled(&mut self, length: u64) -> Result<Array, RdbError> {
        let length = usize::try_from(length).map_err(|_| no_memory(length))?;
        if length.is_multiple_of(size_of::<u64>()) {
            Ok(Array::Words(self.units(length / size_of::<u64>())?))
        } else {
            Ok(Array::Bytes(self.units(length)?))
        }
    }

    /// Reads `count` units. A wrong count allocates at most twice the bytes that the input has.
    fn units<T: bytemuck::Pod>(&mut self, count: usize) -> Result<Box<[T]>, RdbError> {
        let mut units = Vec::new();
        while units.len() < count {
            let begin = units.len();
            let end = count.min(PIECE.max(2 * begin));
            reserve(&mut units, end - begin)?;
            #[expect(clippy::disallowed_methods, reason = "it has the room")]
            units.resize(end, T::zeroed());
            self.fill(bytemuck::cast_slice_mut(&mut units[begin..]))?;
        }
        Ok(units.into_boxed_slice())
    }

    pub fn skip_values(&mut self) -> Result<(), RdbError> {
        loop {
            match self.length()? {
                END => return Ok(()),
                kind => self.skip_value(kind)?,
            }
        }
    }

    fn skip_value(&mut self, kind: u64) -> Result<(), RdbError> {
        match kind {
            SIGNED | UNSIGNED => self.length().map(drop),
            FLOAT => self.skip(4),
            DOUBLE => self.skip(8),
            STRING => self.skip_string(),
            _ => Err(RdbError::Encoding("a module's value")),
        }
    }
}

/// A module's value, as a source for the codec.
pub struct Values<'a, R> {
    input: &'a mut Input<R>,
    /// The most bytes that a string may have.
    most: u64,
    has_ended: bool,
    /// The error after which the input cannot be read further.
    failed: Option<RdbError>,
}

impl<'a, R: Read> Values<'a, R> {
    /// Reads a module's value with `load`, and skips what is left of it. After the outer error nothing can be read.
    pub fn read<T>(
        input: &'a mut Input<R>,
        most: u64,
        load: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Result<T, DecodeError>, RdbError> {
        let mut values = Self {
            input,
            most,
            has_ended: false,
            failed: None,
        };
        let mut loaded = load(&mut values);
        if let Some(error) = values.failed {
            return Err(error);
        }
        if !values.has_ended {
            match values.input.length()? {
                END => {}
                kind => {
                    loaded = loaded.and(Err(DecodeError::Field("values after the last")));
                    values.input.skip_value(kind)?;
                    values.input.skip_values()?;
                }
            }
        }
        Ok(loaded)
    }

    /// Reads a value of the kind `kind`. A value of another kind is skipped, and gives an error.
    fn value<T>(
        &mut self,
        kind: u64,
        read: impl FnOnce(&mut Input<R>) -> Result<Result<T, DecodeError>, RdbError>,
    ) -> Result<T, DecodeError> {
        if self.has_ended || self.failed.is_some() {
            return Err(DecodeError::Truncated);
        }
        let read = match self.input.length() {
            Ok(END) => {
                self.has_ended = true;
                Ok(Err(DecodeError::Truncated))
            }
            Ok(found) if found == kind => read(self.input),
            Ok(other) => {
                let skipped = self.input.skip_value(other);
                skipped.map(|()| Err(DecodeError::Field("the kind of a value")))
            }
            Err(error) => Err(error),
        };
        read.unwrap_or_else(|error| {
            self.failed = Some(error);
            Err(DecodeError::Truncated)
        })
    }
}

impl<R: Read> Source for Values<'_, R> {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        self.value(UNSIGNED, |input| input.length().map(Ok))
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.value(DOUBLE, |input| Ok(Ok(f64::from_le_bytes(input.bytes()?))))
    }

    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError> {
        self.array().map(|array| take(array.bytes()))
    }

    fn array(&mut self) -> Result<Array, DecodeError> {
        let most = self.most;
        self.value(STRING, |input| input.array(most))
    }
}

fn no_memory(bytes: u64) -> RdbError {
    RdbError::Filter(DecodeError::OutOfMemory { bytes })
}

fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), RdbError> {
    let bytes = (more as u64).saturating_mul(size_of::<T>() as u64);
    list.try_reserve_exact(more).map_err(|_| no_memory(bytes))
}

/// Decompresses `from` into `to`; `None` unless it stands for exactly as many bytes. The crate for LZF is deprecated, and
/// ends the process where there is no memory.
///
/// LZF is a sequence of literal runs (a byte below 32, which is their length less 1, and the bytes) and of copies:
/// three bits of length less 2, where 7 means that a further byte is added; 13 bits of distance less 1.
fn decompress(mut from: &[u8], to: &mut [u8]) -> Option<()> {
    let mut end = 0;
    while let Some((&control, rest)) = from.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, rest) = rest.split_at_checked(control + 1)?;
            to.get_mut(end..)?
                .get_mut(..literal.len())?
                .copy_from_slice(literal);
            end += literal.len();
            from = rest;
            continue;
        }
        let (more, rest) = if control >> 5 == 7 {
            rest.split_first()
                .map(|(&more, rest)| (usize::from(more), rest))?
        } else {
            (0, rest)
        };
        let (&low, rest) = rest.split_first()?;
        let length = (control >> 5) + more + 2;
        let begin = end.checked_sub(((control & 31) << 8 | usize::from(low)) + 1)?;
        if to.len() - end < length {
            return None;
        }
        // Byte by byte, because a copy may read what it has just written.
        for at in 0..length {
            to[end + at] = to[begin + at];
        }
        end += length;
        from = rest;
    }
    (end == to.len()).then_some(())
}
