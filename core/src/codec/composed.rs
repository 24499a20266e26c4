//! The format of filters that [`native`] cannot describe: filters with exceptions, and merged
//! filters whose layers do not follow from one another. All other filters keep their own format.
//!
//! # Header
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `BLOOM`, two zero bytes, format version (3) |
//! | 8 | 4 | 0 (where RedisBloom's chunk header has its number of layers, which is never 0) |
//! | 12 | 4 | 0 |
//! | 16 | 8 | number of exceptions, `0..=2^24` |
//! | 24 | 16 each | the exceptions |
//! | | | the header of the layers, as in [`native`] |
//!
//! An exception is the hash of an item: its high half, then the low one. Exceptions stand in ascending order, and none
//! is 0. The layers may have any capacities and need not be full, and a filter of fixed growth may have several.
//!
//! # RDB stream
//! Unsigned 3 (the format version), unsigned 0; the header of the layers, and the bit arrays in pieces, as in [`native`];
//! unsigned, the number of exceptions; the exceptions, in strings of 1024 of them (the last one may be
//! shorter).
//!
//! Earlier versions of this module refuse the stream because of its format version.

use super::native::{self, Header, Relation};
use crate::blocked::Blocked;
use crate::chain::{Allowance, Chain};
use crate::exceptions::table::{Entry, Table, hash_of};
use crate::exceptions::{self, MOST_EXCEPTIONS};
use crate::filter::Filter;
use crate::layered::Layered as _;
use crate::layers::Layers;
use crate::stored::stream::{Sink, Source};
use crate::stored::{DecodeError, Fields, or_end};

/// The format version.
pub const VERSION: u64 = 3;
/// What a header starts with; its last byte is the format version.
pub const MAGIC: [u8; 8] = *b"BLOOM\0\0\x03";
/// Bytes of a header before the exceptions.
const HEAD_BYTES: usize = 24;
/// Exceptions that are saved at once.
const PIECE: usize = 1024;
/// Bytes of an exception.
const BYTES: usize = size_of::<Entry>();

/// Whether `filter` needs this format.
pub fn is_needed(filter: &Filter) -> bool {
    let is_merged = matches!(&filter.layers, Layers::Blocked(chain) if !native::is_grown(chain));
    is_merged || filter.excepted().is_some()
}

/// Writes a filter to an RDB stream.
pub fn save(filter: &Filter, sink: &mut dyn Sink) {
    sink.put_unsigned(VERSION);
    sink.put_unsigned(0);
    sink.put_string(&or_end(filter.layers.as_layered().header()));
    if let Some((_, layers)) = filter.layers.blocked() {
        native::save_arrays(layers, sink);
    }
    let exceptions = filter.excepted();
    sink.put_unsigned(exceptions.map_or(0, Table::len) as u64);
    let (mut piece, mut count) = ([[0; 2]; PIECE], 0);
    let mut put = |entry: &Entry| {
        piece[count] = *entry;
        count += 1;
        if count == PIECE {
            sink.put_string(bytemuck::cast_slice(&piece));
            count = 0;
        }
    };
    if let Some(exceptions) = exceptions {
        exceptions.each_ascending(|entries| entries.iter().for_each(&mut put));
    }
    if count > 0 {
        sink.put_string(bytemuck::cast_slice(&piece[..count]));
    }
}

/// Reads a filter from an RDB stream whose two leading integers, 3 and 0, were read already.
///
/// # Errors
/// [`DecodeError`] unless the whole stream is one valid filter.
pub fn load(source: &mut impl Source, allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    let header = source.string(|header| Header::parse(header, Relation::Any))??;
    let chain = header.restore(allowance, |stored| native::load_bits(stored, source))?;
    let count = number(source.unsigned()?)?;
    let mut incoming = Incoming::new(chain, count, allowance)?;
    let mut left = count;
    while left > 0 {
        let expected = PIECE.min(left);
        source.string(|piece| match piece.len() == expected * BYTES {
            true => incoming.take(piece),
            false => Err(DecodeError::Field("piece length")),
        })??;
        left -= expected;
    }
    Ok(incoming.finish())
}

/// The filter that a header describes, with its items counted and all of its bits unset.
///
/// # Errors
/// [`DecodeError`]; nothing is left behind.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    let mut fields = Fields(bytes);
    if fields.take()? != MAGIC {
        return Err(DecodeError::Field("magic"));
    }
    if fields.u64()? != 0 {
        return Err(DecodeError::Field("zero"));
    }
    let count = number(fields.u64()?)?;
    let (exceptions, header) = fields
        .0
        .split_at_checked(count * BYTES)
        .ok_or(DecodeError::Truncated)?;
    let chain = Header::parse(header, Relation::Any)?.restore(allowance, native::no_bits)?;
    let mut incoming = Incoming::new(chain, count, allowance)?;
    incoming.take(exceptions)?;
    Ok(incoming.finish())
}

/// Bytes of the header of `filter`, before that of its layers.
pub fn header_bytes(filter: &Filter) -> usize {
    HEAD_BYTES + filter.excepted().map_or(0, Table::len) * BYTES
}

/// Appends the header of `filter`, up to that of its layers.
pub fn put_header(filter: &Filter, bytes: &mut Vec<u8>) {
    let exceptions = filter.excepted();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&0u64.to_le_bytes());
    bytes.extend_from_slice(&(exceptions.map_or(0, Table::len) as u64).to_le_bytes());
    if let Some(exceptions) = exceptions {
        exceptions.each_ascending(|entries| bytes.extend_from_slice(bytemuck::cast_slice(entries)));
    }
}

/// A filter with equal layers, but for their bits, which are all unset, and a copy of `exceptions`.
///
/// # Errors
/// [`DecodeError::OutOfMemory`].
pub fn copy_without_bits(
    filter: &Filter,
    exceptions: &Table,
    allowance: Allowance<'_>,
) -> Result<Filter, DecodeError> {
    let header = filter.layers.as_layered().header()?;
    let chain = Header::parse(&header, Relation::Any)?.restore(allowance, native::no_bits)?;
    ask_for_exceptions(&chain, exceptions.len(), allowance)?;
    let mut copy = Filter::from(chain);
    copy.set_exceptions(exceptions.try_clone()?);
    Ok(copy)
}

fn number(exceptions: u64) -> Result<usize, DecodeError> {
    let count = usize::try_from(exceptions).ok();
    let count = count.filter(|&count| count <= MOST_EXCEPTIONS);
    count.ok_or(DecodeError::Field("exceptions"))
}

/// Requests memory for `count` exceptions in addition to the layers.
fn ask_for_exceptions(
    chain: &Chain<Blocked>,
    count: usize,
    allowance: Allowance<'_>,
) -> Result<(), DecodeError> {
    if count == 0 {
        return Ok(());
    }
    Ok(exceptions::ask_for_table(
        count,
        chain.bytes(chain.layers().len()),
        allowance,
    )?)
}

/// A filter whose exceptions are being read.
struct Incoming {
    chain: Chain<Blocked>,
    exceptions: Table,
    last: Entry,
}

impl Incoming {
    fn new(chain: Chain<Blocked>, count: usize, allowance: Allowance<'_>) -> Result<Self, DecodeError> {
        ask_for_exceptions(&chain, count, allowance)?;
        Ok(Self {
            chain,
            exceptions: Table::with_room_for(count)?,
            last: [0; 2],
        })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        for entry in bytes.chunks_exact(BYTES) {
            let entry: Entry = bytemuck::pod_read_unaligned(entry);
            if entry <= self.last || !self.exceptions.insert(hash_of(entry)) {
                return Err(DecodeError::Field("exceptions"));
            }
            self.last = entry;
        }
        Ok(())
    }

    fn finish(self) -> Filter {
        let mut filter = Filter::from(self.chain);
        filter.set_exceptions(self.exceptions);
        filter
    }
}

#[cfg(test)]
mod tests;
