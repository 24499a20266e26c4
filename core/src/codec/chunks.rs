//! A filter as a header and chunks: BF.SCANDUMP, BF.LOADCHUNK, and the rewriting of an append-only file.
//!
//! The bit arrays of a filter's layers, oldest first and end to end, are cut into chunks of at most [`CHUNK_BYTES`],
//! none of which spans two layers. A chunk travels with its *iterator*: 1 + the offset of its end. The header has the
//! iterator 1. Each layout has a header of its own, described beside its [format](super). Everything else is as
//! RedisBloom has it, in all layouts.
//!
//! BF.LOADCHUNK takes chunks in any order, and a missing chunk is one of zeros. A chunk is loaded whole or not at all.
//! Where all chunks come at once, [`Assembly`] sees which are missing.

use std::borrow::Cow;

use super::{DecodeError, blocked, classic, valkey};
use crate::bits::array::all_zero;
use crate::chain::Allowance;
use crate::codec::fields::or_abort;
use crate::error::{Error, require};
use crate::exceptions::{self, Exceptions};
use crate::filter::Filter;
use crate::layers::Layers;
use crate::params::Layout;

/// The most bytes of a chunk, other than a header.
pub const CHUNK_BYTES: usize = 16 << 20;
/// The iterator of a header.
pub const HEADER: i64 = 1;

/// A part of a dumped filter.
#[derive(Clone, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The number with which the chunk is loaded, and the next one requested.
    pub iterator: i64,
    /// The header, or bytes of a bit array.
    pub bytes: Cow<'a, [u8]>,
}

impl std::fmt::Debug for Chunk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({}, {} bytes)", self.iterator, self.bytes.len())
    }
}

/// Why a chunk was not loaded. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The iterator is invalid, or the chunk is longer than the bytes before its end.
    NoPlace,
    /// The chunk starts outside of every layer.
    NoLayer,
    /// The chunk ends beyond the layer that it starts in.
    TooLong,
}

/// The chunk after the one with `iterator`; the header for 0; `None` after the last one, and outside of the filter.
pub fn dump(filter: &Filter, iterator: i64) -> Result<Option<Chunk<'_>>, Error> {
    if iterator == 0 {
        return Ok(Some(Chunk {
            iterator: HEADER,
            bytes: Cow::Owned(try_header(&filter.layers, filter.excepted())?),
        }));
    }
    Ok(piece(filter, iterator))
}

/// The bytes of a bit array after the chunk with `iterator`.
fn piece(filter: &Filter, iterator: i64) -> Option<Chunk<'_>> {
    let layers = filter.layers.as_layered();
    let offset = u64::try_from(iterator.checked_sub(HEADER)?).ok()?;
    // Layers that a window has dropped since the last chunk are left out.
    let offset = offset.max(layers.dropped_bytes());
    let (layer, start) = layers.place_of(offset)?;
    let rest = layers.array(layer).get((offset - start) as usize..)?;
    let bytes = &rest[..rest.len().min(CHUNK_BYTES)];
    Some(Chunk {
        iterator: HEADER
            .checked_add_unsigned(offset)?
            .checked_add_unsigned(bytes.len() as u64)?,
        bytes: Cow::Borrowed(bytes),
    })
}

/// The header, then every chunk that is not all zero, which loading needs. Layers without a set bit are not read.
pub fn chunks(filter: &Filter) -> impl Iterator<Item = Chunk<'_>> {
    chunks_without_zeros(filter, true)
}

/// The header, then every chunk that [`Assembly`] needs. Where the header does not have the number of set bits, chunks
/// of zeros stay, because they could not be told from chunks that are lost.
pub fn chunks_to_check(filter: &Filter) -> impl Iterator<Item = Chunk<'_>> {
    chunks_without_zeros(filter, header_counts_bits(filter))
}

fn chunks_without_zeros(filter: &Filter, leaves_out_zeros: bool) -> impl Iterator<Item = Chunk<'_>> {
    let layers = filter.layers.as_layered();
    let mut end_of_layers = HEADER.saturating_add_unsigned(layers.dropped_bytes());
    let arrays = (0..layers.count()).flat_map(move |layer| {
        let array = layers.array(layer);
        let start = end_of_layers;
        end_of_layers += array.len() as i64;
        let has_bits = layers.stats(layer).bits_set > 0;
        let pieces = array.chunks(CHUNK_BYTES).enumerate();
        pieces
            .filter(move |(_, piece)| has_bits && !(leaves_out_zeros && all_zero(piece)))
            .map(move |(index, piece)| Chunk {
                iterator: start + (index * CHUNK_BYTES + piece.len()) as i64,
                bytes: Cow::Borrowed(piece),
            })
    });
    std::iter::once(Chunk {
        iterator: HEADER,
        bytes: Cow::Owned(header(filter)),
    })
    .chain(arrays)
}

/// Whether the header of a filter has the number of set bits of each layer.
fn header_counts_bits(filter: &Filter) -> bool {
    filter.layout() == Layout::Blocked
}

/// A filter whose chunks come one after another, in ascending order.
pub struct Assembly {
    filter: Filter,
    header: Vec<u8>,
    /// The offset of the byte after all chunks that were received.
    end: u64,
    /// The layer of the last chunk, the offset of the layer's first byte, and the bytes received of it.
    layer: usize,
    begin: u64,
    received: u64,
}

impl Assembly {
    /// The filter of a header.
    pub fn new(header: Vec<u8>, allowance: Allowance<'_>) -> Result<Self, DecodeError> {
        let filter = load_header(&header, allowance)?;
        let begin = filter.layers.as_layered().dropped_bytes();
        Ok(Self {
            filter,
            header,
            end: begin,
            layer: 0,
            begin,
            received: 0,
        })
    }

    /// Prepares for the next chunk, of `length` bytes. The error says why it cannot be the next.
    pub fn next(&mut self, iterator: i64, length: u64) -> Result<(), &'static str> {
        let end = u64::try_from(iterator.saturating_sub(HEADER)).ok();
        let end = end.filter(|&end| end > self.end && length > 0);
        let end = end.ok_or("a chunk is not behind the one before it")?;
        let start = end.checked_sub(length).filter(|&start| start >= self.end);
        let start = start.ok_or("a chunk begins within the one before it")?;
        require(self.advance(start), "a chunk before it is missing")?;
        let is_there = self.layer < self.filter.layers() && end - self.begin <= self.bytes();
        require(is_there, "a chunk has no place in the filter")?;
        self.received += length;
        self.end = start;
        Ok(())
    }

    /// Sets the bits of the next piece of a chunk, whose place was checked.
    pub fn append(&mut self, piece: &[u8]) {
        let offset = self.end - self.begin;
        let layers = self.filter.layers.as_layered_mut();
        let merged = layers.merge(self.layer, offset, piece);
        debug_assert!(merged.is_ok(), "the chunk has its place");
        self.end += piece.len() as u64;
    }

    /// The filter, if all of its chunks were received.
    pub fn finish(mut self) -> Option<Filter> {
        let has_all = self.advance(u64::MAX) && is_complete(&self.filter, &self.header);
        has_all.then_some(self.filter)
    }

    /// Goes to the layer of byte `offset`, or past the last one; false if a layer before it is known to lack a chunk.
    fn advance(&mut self, offset: u64) -> bool {
        let counts_bits = header_counts_bits(&self.filter);
        while self.layer < self.filter.layers() && offset - self.begin >= self.bytes() {
            let items = self.filter.layers.as_layered().stats(self.layer).items;
            if !counts_bits && self.received < self.bytes() && (self.received > 0 || items > 0) {
                return false;
            }
            self.begin += self.bytes();
            (self.layer, self.received) = (self.layer + 1, 0);
        }
        true
    }

    fn bytes(&self) -> u64 {
        self.filter.layers.as_layered().array(self.layer).len() as u64
    }
}

/// Whether the filter has the bits that its header counts, or as many as its items need where it counts none.
pub fn is_complete(filter: &Filter, header: &[u8]) -> bool {
    let counted = || try_header(&filter.layers, filter.excepted());
    let is_counted = || counted().is_ok_and(|counted| counted == header);
    has_bits_of_items(filter) && (!header_counts_bits(filter) || is_counted())
}

/// Whether each layer has as many set bits as items or more. A filter that misses chunks may have fewer.
pub fn has_bits_of_items(filter: &Filter) -> bool {
    filter.layer_stats().all(|layer| layer.items <= layer.bits_set)
}

/// The filter that a header describes: its items are counted, and all of its bits are unset.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    match bytes.first_chunk() {
        Some(&blocked::MAGIC) => blocked::load_header(bytes, allowance),
        Some(&valkey::MAGIC) => valkey::load_header(bytes, allowance).map(Filter::from),
        // A header of RedisBloom begins with its number of items, which is less than 2^56.
        Some(&[b'B', b'L', b'O', b'O', b'M', 0, 0, version @ 1..=255]) => {
            Err(DecodeError::Version(version.into()))
        }
        _ => classic::load_header(bytes, allowance).map(Filter::from),
    }
}

/// Sets the bits of a chunk, other than a header, and returns whether that changed any. Bits are never unset, so that
/// an item that was added between chunks is not forgotten.
pub fn load_chunk(filter: &mut Filter, iterator: i64, bytes: &[u8]) -> Result<bool, ChunkError> {
    let end = u64::try_from(iterator).ok().filter(|&end| end > 0);
    let start = end.and_then(|end| end.checked_sub(bytes.len() as u64));
    // The iterator is 1 more than the offset of the end: of 0 only RedisBloom says that no layer is there.
    let start = start
        .ok_or(ChunkError::NoPlace)?
        .checked_sub(HEADER.unsigned_abs())
        .ok_or(ChunkError::NoLayer)?;
    let layers = filter.layers.as_layered_mut();
    if start.saturating_add(bytes.len() as u64) <= layers.dropped_bytes() {
        // Its layer existed, and was dropped.
        return Ok(false);
    }
    let (layer, begin) = layers.place_of(start).ok_or(ChunkError::NoLayer)?;
    let before = layers.stats(layer).bits_set;
    let merged = layers.merge(layer, start - begin, bytes);
    merged.map_err(|_| ChunkError::TooLong)?;
    Ok(layers.stats(layer).bits_set > before)
}

/// A copy with memory of its own. Memory that was never written to stays untouched in the copy.
pub fn copy(filter: &Filter, allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    let layers = filter.layers.as_layered();
    let mut copy = load_header(&try_header(&filter.layers, None)?, allowance)?;
    if let Some(excepted) = filter.excepted() {
        exceptions::ask_for(excepted.len(), copy.bytes(), allowance)?;
        copy.set_exceptions(excepted.copy_with_room_for(0)?);
    }
    for layer in (0..layers.count()).filter(|&layer| layers.stats(layer).bits_set > 0) {
        let merged = copy.layers.as_layered_mut().merge(layer, 0, layers.array(layer));
        merged.map_err(|_| DecodeError::Field("lines"))?;
    }
    Ok(copy)
}

/// The first chunk of a dump: what the filter was made from, how many items it counts, and its exceptions. Without
/// memory for it the process ends: a child that rewrites a file calls this, and must not leave a filter out.
pub fn header(filter: &Filter) -> Vec<u8> {
    or_abort(try_header(&filter.layers, filter.excepted()))
}

/// The first chunk of a dump, or an error without memory for it, where [`header`] ends the process.
fn try_header(layers: &Layers, exceptions: Option<&Exceptions>) -> Result<Vec<u8>, Error> {
    match layers {
        Layers::Blocked(chain, _) => blocked::header(chain, exceptions),
        Layers::Windowed(windowed) => blocked::layers::header_of_windowed(windowed),
        Layers::Valkey(chain) => valkey::header(chain),
        Layers::Classic(chain) => classic::header(chain),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::{UNLIMITED, at_most};
    use crate::checks::MemoryStream;
    use crate::params::{Capacity, ErrorRate, Expansion, Growth, Seed};
    use crate::spec::BlockedSpec;
    use crate::tests::oracle::reloaded;
    use crate::tests::stored;

    fn filter(layout: Layout, capacity: u64, items: u32) -> Filter {
        let spec = BlockedSpec {
            error_rate: ErrorRate::new(0.01).unwrap(),
            capacity: Capacity::new(capacity).unwrap(),
            growth: Growth::Growing(Expansion::new(2).unwrap()),
            seed: Seed(3),
            window: None,
        };
        let mut filter = Filter::new(spec.in_layout(layout).unwrap(), UNLIMITED).unwrap();
        add(&mut filter, items);
        filter
    }

    fn add(filter: &mut Filter, items: u32) {
        for item in 0..items {
            filter.add(&item.to_le_bytes(), 0, UNLIMITED).unwrap();
        }
    }

    fn save(filter: &Filter) -> MemoryStream {
        let mut stream = MemoryStream::default();
        super::super::save(filter, &mut stream);
        stream
    }

    /// The chunks that a client gets in a complete dump.
    fn dumped(filter: &Filter) -> Vec<Chunk<'_>> {
        let next = |iterator| dump(filter, iterator).unwrap();
        std::iter::successors(next(0), |last| next(last.iterator)).collect()
    }

    fn loaded<'a>(header: &[u8], chunks: impl IntoIterator<Item = &'a Chunk<'a>>) -> Filter {
        let mut filter = load_header(header, UNLIMITED).unwrap();
        for chunk in chunks {
            load_chunk(&mut filter, chunk.iterator, &chunk.bytes).unwrap();
        }
        filter
    }

    /// Tools that copy filters with SCANDUMP and LOADCHUNK, from or to RedisBloom, would corrupt them.
    #[test]
    fn chunks_are_redisbloom_s() {
        for stored in stored::filters() {
            let filter = super::super::load(&mut stored.stream.clone(), 4, UNLIMITED).unwrap();
            let chunks = dumped(&filter);
            let pairs: Vec<_> = chunks
                .iter()
                .map(|chunk| (chunk.iterator, chunk.bytes.to_vec()))
                .collect();
            if !stored.chunks.is_empty() {
                assert_eq!(pairs, stored.chunks, "{}", stored.name);
            }
            let copy = loaded(&chunks[0].bytes, &chunks[1..]);
            assert_eq!(save(&copy), stored.stream, "{}", stored.name);
            let reversed = loaded(&chunks[0].bytes, chunks[1..].iter().rev());
            assert_eq!(save(&reversed), stored.stream, "{}", stored.name);
        }
    }

    /// A filter that is copied, or rewritten to the append-only file, would lose items, in any layout.
    #[test]
    fn chunks_give_the_same_filter_back() {
        for &layout in Layout::ALL {
            for (capacity, items) in [(1, 0), (1, 1), (100, 60), (10, 5000)] {
                let filter = filter(layout, capacity, items);
                let chunks = dumped(&filter);
                assert_eq!(save(&loaded(&chunks[0].bytes, &chunks[1..])), save(&filter));
                let written: Vec<_> = super::chunks(&filter).collect();
                assert_eq!(written[0], chunks[0]);
                assert_eq!(save(&loaded(&written[0].bytes, &written[1..])), save(&filter));
            }
        }
    }

    /// Chunks above 16 MiB would not fit where RedisBloom and its tools expect them.
    #[test]
    fn large_layers_are_cut_and_zeros_left_out() {
        for &layout in Layout::ALL {
            let mut filter = filter(layout, 40_000_000, 0);
            assert_eq!(chunks(&filter).count(), 1, "an empty filter is its header");
            filter.add(b"one item", 0, UNLIMITED).unwrap();
            let all = dumped(&filter);
            let bytes = filter.layer_stats().next().unwrap().shape.bytes;
            assert_eq!(all.len() as u64, 1 + bytes.div_ceil(CHUNK_BYTES as u64));
            let mut end = 1;
            for (at, chunk) in all.iter().enumerate().skip(1) {
                end += chunk.bytes.len() as i64;
                assert_eq!(chunk.iterator, end);
                assert_eq!(chunk.bytes.len() == CHUNK_BYTES, at + 1 < all.len());
            }
            let written: Vec<_> = chunks(&filter).collect();
            let nonzero = |chunk: &&Chunk<'_>| !all_zero(&chunk.bytes);
            assert!(written.iter().eq(all.iter().filter(nonzero)));
            // Only our own headers have the number of set bits.
            let checked: Vec<_> = chunks_to_check(&filter).collect();
            assert!(
                checked
                    == if layout == Layout::Blocked {
                        written.clone()
                    } else {
                        all.clone()
                    }
            );
            assert!(loaded(&written[0].bytes, &written[1..]).contains(b"one item"));
        }
    }

    /// An append-only file of a filter of very many layers would take minutes to load, or put bits into other
    /// layers: where a layer starts is known, however the filter came to be.
    #[test]
    fn long_chains_know_where_their_layers_start() {
        for &layout in Layout::ALL {
            let spec = BlockedSpec {
                error_rate: ErrorRate::new(0.01).unwrap(),
                capacity: Capacity::new(1).unwrap(),
                growth: Growth::Growing(Expansion::new(1).unwrap()),
                seed: Seed(3),
                window: None,
            };
            let mut grown = Filter::new(spec.in_layout(layout).unwrap(), UNLIMITED).unwrap();
            for item in 0u32.. {
                grown.add(&item.to_le_bytes(), 0, UNLIMITED).unwrap();
                if grown.layers() == 1010 {
                    break;
                }
            }
            let loaded = reloaded(&grown);
            let copied = copy(&grown, UNLIMITED).unwrap();
            for filter in [grown, loaded, copied] {
                let (mut start, layers) = (0, filter.layers.as_layered());
                for (layer, stats) in filter.layer_stats().enumerate() {
                    for offset in [0, 1, stats.shape.bytes - 1] {
                        assert_eq!(layers.place_of(start + offset), Some((layer, start)));
                    }
                    start += stats.shape.bytes;
                    let before = filter.bytes_with(layer + 1) - filter.bytes_with(layer);
                    // The struct of such a layer has 64 bytes; that of the first goes into a list with the second.
                    let own = match layer {
                        0 | 1 if layout == Layout::Blocked => 128 * layer as u64,
                        _ => 64,
                    };
                    assert!(layout == Layout::Valkey || before == stats.shape.bytes + own);
                }
                assert_eq!(layers.place_of(start), None);
            }
        }
    }

    /// A client could crash the server with an iterator of any number.
    #[test]
    fn any_iterator_is_safe() {
        for &layout in Layout::ALL {
            let filter = filter(layout, 10, 100);
            let arrays: Vec<u8> = (0..filter.totals().layers)
                .flat_map(|layer| filter.layers.as_layered().array(layer).to_vec())
                .collect();
            let end = arrays.len() as i64 + 1;
            for iterator in 1..end {
                let chunk = dump(&filter, iterator).unwrap().unwrap();
                let range = iterator as usize - 1..chunk.iterator as usize - 1;
                assert_eq!(chunk.bytes[..], arrays[range]);
            }
            for iterator in [
                end,
                end + 1,
                i64::MAX - 1,
                i64::MAX,
                -1,
                -2,
                i64::MIN,
                i64::MIN + 1,
            ] {
                assert_eq!(dump(&filter, iterator), Ok(None), "{iterator}");
            }
        }
    }

    /// Chunks come from clients: in any order, twice, overlapping, beyond the end. Each is put where its
    /// iterator says, or refused with nothing changed.
    #[test]
    fn chunks_are_loaded_whole_or_refused() {
        for &layout in Layout::ALL {
            let source = filter(layout, 10, 100);
            let lengths: Vec<_> = source
                .layer_stats()
                .map(|layer| layer.shape.bytes as i64)
                .collect();
            let end: i64 = lengths.iter().sum();
            let mut target = load_header(&header(&source), UNLIMITED).unwrap();
            let mut naive = vec![0; end as usize];
            let places = (-3..end + 3).chain([i64::MIN, i64::MIN + 1, i64::MAX - 300, i64::MAX]);
            for (turn, start) in places.enumerate() {
                for length in [0, 1, 7, 8, 64, 100] {
                    let Some(iterator) = start.checked_add(length).and_then(|end| end.checked_add(1)) else {
                        continue;
                    };
                    // Few bits at a time, so that a misplaced bit is noticed.
                    let bytes = vec![if turn % 61 == 0 { 1 << (turn % 8) } else { 0 }; length as usize];
                    let mut from = start;
                    let layer = lengths.iter().find(|&&layer| {
                        let inside = from < layer;
                        from -= if inside { 0 } else { layer };
                        inside
                    });
                    let expected = match layer {
                        Some(layer) if start >= 0 && from + length <= *layer => {
                            let place = &naive[start as usize..][..length as usize];
                            Ok(place.iter().zip(&bytes).any(|(place, byte)| byte & !place > 0))
                        }
                        Some(_) if start >= 0 => Err(ChunkError::TooLong),
                        _ if start >= -1 && iterator > 0 => Err(ChunkError::NoLayer),
                        _ => Err(ChunkError::NoPlace),
                    };
                    let result = load_chunk(&mut target, iterator, &bytes);
                    assert_eq!(result, expected, "{length} bytes to {iterator}");
                    if result.is_ok() {
                        let place = &mut naive[start as usize..][..length as usize];
                        place
                            .iter_mut()
                            .zip(&bytes)
                            .for_each(|(place, byte)| *place |= byte);
                    }
                }
            }
            let arrays: Vec<u8> = (0..lengths.len())
                .flat_map(|layer| target.layers.as_layered().array(layer).to_vec())
                .collect();
            assert_eq!(arrays, naive);
            let set: u32 = naive.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(target.totals().bits_set, u64::from(set));
        }
    }

    /// A client may add to a filter whose chunks are still to come, and the server may save it then: a file
    /// that does not load would keep the server from starting.
    #[test]
    fn half_loaded_filters_take_items_and_are_saved() {
        for &layout in Layout::ALL {
            let source = filter(layout, 10, 1000);
            let chunks = dumped(&source);
            for count in 1..=chunks.len() {
                let mut half = loaded(&chunks[0].bytes, &chunks[1..count]);
                reloaded(&half);
                add(&mut half, 2000);
                assert!((0..2000u32).all(|item| half.contains(&item.to_le_bytes())));
                for chunk in &chunks[count..] {
                    load_chunk(&mut half, chunk.iterator, &chunk.bytes).unwrap();
                }
                assert!((0..1000u32).all(|item| half.contains(&item.to_le_bytes())));
                reloaded(&half);
            }
        }
    }

    /// RedisBloom must refuse a blocked filter's header, not misread it: it takes bytes 8 to 11 for the
    /// number of layers, and wants 20 bytes and 53 for each.
    #[test]
    fn blocked_headers_are_none_of_redisbloom_s() {
        let header = header(&filter(Layout::Blocked, 10, 100));
        assert_eq!(header[8..12], [0; 4]);
        assert_ne!(header.len(), 20);
        assert!(classic::load_header(&header, UNLIMITED).is_err());
    }

    proptest! {
        /// A client could crash the server with any bytes as a header.
        #[test]
        fn headers_of_any_bytes_are_answered(bytes: Vec<u8>, start in 0usize..3) {
            let start = [&[][..], &blocked::MAGIC, &valkey::MAGIC][start];
            let limit: Allowance<'_> = &at_most((1 << 24) - 1);
            let _ = load_header(&[start, &bytes].concat(), limit);
        }
    }
}
