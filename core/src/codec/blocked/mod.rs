//! The stored bytes of blocked filters: the layers as [`layers`] writes them, then the exceptions.

pub mod layers;

use crate::bits::array::BitArray;
use crate::bits::kernel::Line;
use crate::chain::demand::reserved;
use crate::chain::{Allowance, Chain};
use crate::codec::fields::{DecodeError, or_abort, require};
use crate::codec::stream::{Sink, Source};
use crate::error::Error;
use crate::exceptions::{Exceptions, MOST_EXCEPTIONS, ask_for};
use crate::filter::Filter;
use crate::item::ItemHash;
use crate::layers::Layers;
use crate::layouts::blocked::Blocked;
pub use layers::{MAGIC, VERSION};

/// Exceptions that are saved at once.
const PIECE: usize = 1024;
/// An exception: the high half of the hash, then the low one.
type Entry = [u64; 2];
const BYTES: usize = size_of::<Entry>();

/// Writes a filter without a window to an RDB stream.
pub fn save(chain: &Chain<Blocked>, exceptions: Option<&Exceptions>, sink: &mut dyn Sink) {
    let header = layers::header(chain, exceptions.map_or(0, Exceptions::len));
    layers::save(header, chain.layers().iter(), sink);
    if let Some(exceptions) = exceptions {
        let entries = or_abort(entries(exceptions));
        let pieces = entries.chunks(PIECE);
        pieces.for_each(|piece| sink.put_string(bytemuck::cast_slice(piece)));
    }
}

/// The exceptions as they are stored, in ascending order; each is the bytes of an [`Entry`].
fn entries(exceptions: &Exceptions) -> Result<Vec<u128>, Error> {
    let mut sorted = exceptions.sorted()?;
    let high_first = |number: &mut u128| *number = number.rotate_left(64);
    sorted.iter_mut().for_each(high_first);
    Ok(sorted)
}

/// Reads a filter from an RDB stream whose first two integers, [`VERSION`] and 0, were read already.
pub fn load(source: &mut impl Source, allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    let (layers, exceptions) = layers::load(source, allowance)?;
    let mut loader = ExceptionLoader::new(layers, exceptions, allowance)?;
    while loader.left > 0 {
        let expected = PIECE.min(loader.left);
        source.string(|piece| {
            require(piece.len() == expected * BYTES, "piece length")?;
            loader.take(piece)
        })??;
    }
    Ok(loader.finish())
}

pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    load_header_with(bytes, allowance, |lines, _| Ok(BitArray::zeroed(lines)?))
}

/// The filter that a header describes. `bits` supplies the bit arrays, as for [`layers::load_header`].
pub fn load_header_with(
    bytes: &[u8],
    allowance: Allowance<'_>,
    bits: impl FnMut(u64, u64) -> Result<BitArray<Line>, DecodeError>,
) -> Result<Filter, DecodeError> {
    let (layers, exceptions, rest) = layers::load_header(bytes, allowance, bits)?;
    let length = exceptions.saturating_mul(BYTES as u64);
    require(rest.len() as u64 == length, "header length")?;
    let mut loader = ExceptionLoader::new(layers, exceptions, allowance)?;
    loader.take(rest)?;
    Ok(loader.finish())
}

/// The header of a filter without a window, and its exceptions.
pub fn header(chain: &Chain<Blocked>, exceptions: Option<&Exceptions>) -> Result<Vec<u8>, Error> {
    let Some(exceptions) = exceptions else {
        return layers::header(chain, 0);
    };
    let of_layers = layers::header(chain, exceptions.len())?;
    let mut header = reserved(of_layers.len() + exceptions.len() * BYTES)?;
    header.extend_from_slice(&of_layers);
    header.extend_from_slice(bytemuck::cast_slice(&entries(exceptions)?));
    Ok(header)
}

/// A filter whose exceptions are being read.
struct ExceptionLoader {
    filter: Filter,
    exceptions: Exceptions,
    /// The number of exceptions that are still to come.
    left: usize,
    last: Entry,
}

impl ExceptionLoader {
    fn new(layers: Layers, exceptions: u64, allowance: Allowance<'_>) -> Result<Self, DecodeError> {
        let left = exceptions as usize;
        require(left <= MOST_EXCEPTIONS, "exceptions")?;
        let filter = Filter::from(layers);
        if left > 0 {
            ask_for(left, filter.bytes(), allowance)?;
        }
        Ok(Self {
            filter,
            exceptions: Exceptions::with_room_for(left)?,
            left,
            last: [0; 2],
        })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        for entry in bytes.chunks_exact(BYTES) {
            let entry: Entry = bytemuck::pod_read_unaligned(entry);
            let [high, low] = entry;
            let is_next = entry > self.last && self.exceptions.insert(ItemHash { low, high });
            require(is_next, "exceptions")?;
            self.last = entry;
            self.left -= 1;
        }
        Ok(())
    }

    fn finish(mut self) -> Filter {
        self.filter.set_exceptions(self.exceptions);
        self.filter
    }
}

#[cfg(test)]
mod exceptions_tests;
