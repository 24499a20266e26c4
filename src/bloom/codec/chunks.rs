//! A filter as a header and chunks: BF.SCANDUMP, BF.LOADCHUNK, and the rewriting of an append-only file.
//!
//! The bit arrays of a filter's layers, oldest first and end to end, are cut into chunks of at most
//! [`CHUNK_BYTES`], none of which spans two layers. A chunk travels with its *iterator*: 1 + the offset of
//! its end. The header has the iterator 1. What the header looks like depends on the layout, see
//! [`native`], [`windowed`], [`composed`], [`redisbloom`] and [`valkey`]; all the rest is the same for all, and RedisBloom's.
//!
//! Chunks can be loaded in any order, and a missing chunk is one of zeros. A chunk is loaded whole or not
//! at all.

use std::alloc::Layout;
use std::borrow::Cow;

use super::{DecodeError, composed, native, redisbloom, valkey, windowed};
use crate::bloom::bits::array::{OutOfRange, all_zero};
use crate::bloom::chain::Allowance;
use crate::bloom::chain::batch;
use crate::bloom::chain::demand::reserved;
use crate::bloom::error::Error;
use crate::bloom::filter::{Body, BodyMut, Filter};

/// The most bytes of a chunk that is no header.
pub const CHUNK_BYTES: usize = 16 << 20;
/// The iterator of a header.
pub const HEADER: i64 = 1;

/// A part of a dumped filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Loads the chunk, and asks for the next one.
    pub iterator: i64,
    /// The header, or bytes of a bit array.
    pub bytes: Cow<'a, [u8]>,
}

/// Why a chunk is not loaded. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The iterator is none, or the chunk is longer than what it says that comes before its end.
    NoPlace,
    /// The chunk starts in none of the filter's layers.
    NoLayer,
    /// The chunk goes beyond the end of the layer that it starts in.
    TooLong {
        /// Bytes of the layer from the chunk's start on.
        room: u64,
    },
}

/// The chunk after the one with `iterator`; the header for 0, and none after the last one, or for an
/// iterator that is no place in the filter.
///
/// # Errors
/// [`Error::OutOfMemory`], for the header.
pub fn dump(filter: &Filter, iterator: i64) -> Result<Option<Chunk<'_>>, Error> {
    if iterator == 0 {
        return Ok(Some(Chunk {
            iterator: HEADER,
            bytes: Cow::Owned(try_header(filter)?),
        }));
    }
    Ok(piece(filter, iterator))
}

/// The bytes of a bit array after the chunk with `iterator`.
fn piece(filter: &Filter, iterator: i64) -> Option<Chunk<'_>> {
    // What a window let go since the last chunk was asked for is left out.
    let offset = u64::try_from(iterator.checked_sub(HEADER)?)
        .ok()?
        .max(gone(filter));
    let place = Place::of(filter, offset)?;
    let rest = array(filter, place.layer).get(usize::try_from(place.offset).ok()?..)?;
    let bytes = &rest[..rest.len().min(CHUNK_BYTES)];
    Some(Chunk {
        iterator: HEADER
            .checked_add_unsigned(offset)?
            .checked_add_unsigned(bytes.len() as u64)?,
        bytes: Cow::Borrowed(bytes),
    })
}

/// The header, then every chunk that is not all zero: what is needed to load the filter. Layers without a
/// set bit are not read.
pub fn chunks(filter: &Filter) -> impl Iterator<Item = Chunk<'_>> {
    let mut end_of_layers = HEADER.saturating_add_unsigned(gone(filter));
    let arrays = (0..filter.layers()).flat_map(move |layer| {
        let array = array(filter, layer);
        let start = end_of_layers;
        end_of_layers += array.len() as i64;
        let touched = ones(filter, layer) > 0;
        let pieces = array.chunks(CHUNK_BYTES).enumerate();
        pieces
            .filter(move |(_, piece)| touched && !all_zero(piece))
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

/// The filter that a header describes: its items are counted, and all of its bits are unset.
///
/// # Errors
/// [`DecodeError`]; nothing is left behind.
pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    if bytes.starts_with(&composed::MAGIC) {
        composed::load_header(bytes, allowance)
    } else if bytes.starts_with(&native::MAGIC) {
        native::load_header(bytes, allowance).map(Filter::Blocked)
    } else if bytes.starts_with(&windowed::MAGIC) {
        windowed::load_header(bytes, allowance).map(|ring| Filter::Windowed(Box::new(ring)))
    } else if bytes.starts_with(&valkey::MAGIC) {
        valkey::load_header(bytes, allowance).map(|chain| Filter::Valkey(Box::new(chain)))
    } else {
        redisbloom::load_header(bytes, allowance).map(Filter::Classic)
    }
}

/// Sets the bits of a chunk that is no header in their place, and tells whether that changed any. Bits are
/// only ever set, so that an item that was added while chunks were still to come is not forgotten.
///
/// # Errors
/// [`ChunkError`]; nothing changed.
pub fn load_chunk(filter: &mut Filter, iterator: i64, bytes: &[u8]) -> Result<bool, ChunkError> {
    let end = u64::try_from(iterator).ok().filter(|&end| end > 0);
    let start = end.and_then(|end| end.checked_sub(bytes.len() as u64));
    // The iterator is 1 more than the offset of the end: of 0 only RedisBloom says that no layer is there.
    let start = start
        .ok_or(ChunkError::NoPlace)?
        .checked_sub(HEADER.unsigned_abs())
        .ok_or(ChunkError::NoLayer)?;
    if start.saturating_add(bytes.len() as u64) <= gone(filter) {
        // Its layer was there, and is over.
        return Ok(false);
    }
    let place = Place::of(filter, start).ok_or(ChunkError::NoLayer)?;
    let before = ones(filter, place.layer);
    merge(filter, place.layer, place.offset, bytes).map_err(|_| ChunkError::TooLong { room: place.room })?;
    Ok(ones(filter, place.layer) > before)
}

/// Sets the bits of `bytes` in a layer from byte `offset` on.
fn merge(filter: &mut Filter, layer: usize, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
    match filter.body_mut() {
        BodyMut::Blocked(chain) => chain.layers_mut()[layer].bits_mut().merge(offset, bytes),
        BodyMut::Classic(chain) => chain.layers_mut()[layer].merge(offset, bytes),
        BodyMut::Valkey(chain) => chain.layers_mut()[layer].merge(offset, bytes),
        BodyMut::Windowed(ring) => ring.layers_mut()[layer].bits_mut().merge(offset, bytes),
    }
}

/// An equal filter with memory of its own. Memory that was never written to stays so in the copy.
///
/// # Errors
/// [`DecodeError::OutOfMemory`]; nothing is left behind.
pub fn copy(filter: &Filter, allowance: Allowance<'_>) -> Result<Filter, DecodeError> {
    let mut copy = match filter {
        Filter::Excepting(filter) => composed::copy_without_bits(filter, allowance)?,
        Filter::Blocked(_) | Filter::Classic(_) | Filter::Valkey(_) | Filter::Windowed(_) => {
            load_header(&try_header(filter)?, allowance)?
        }
    };
    for layer in (0..filter.layers()).filter(|&layer| ones(filter, layer) > 0) {
        merge(&mut copy, layer, 0, array(filter, layer)).map_err(|_| DecodeError::Field("lines"))?;
    }
    Ok(copy)
}

/// What a filter was made from and how many items it counts, and its exceptions, as the first chunk of a dump. Without
/// memory for it the process ends: it is for a child that rewrites a file, which must not leave a filter out.
pub fn header(filter: &Filter) -> Vec<u8> {
    try_header(filter).unwrap_or_else(|_| std::alloc::handle_alloc_error(Layout::new::<Filter>()))
}

/// The same for who can do without.
///
/// # Errors
/// [`Error::OutOfMemory`].
fn try_header(filter: &Filter) -> Result<Vec<u8>, Error> {
    let of_layers = match filter.body() {
        Body::Blocked(chain) => native::header(chain),
        Body::Classic(chain) => redisbloom::header(chain),
        Body::Valkey(chain) => valkey::header(chain),
        Body::Windowed(ring) => windowed::header(ring),
    };
    if !composed::is_needed(filter) {
        return Ok(of_layers);
    }
    let bytes = composed::header_bytes(filter) + of_layers.len();
    let mut header = reserved(bytes)?;
    composed::put_header(filter, &mut header);
    header.extend_from_slice(&of_layers);
    Ok(header)
}

/// A byte of a filter's bit arrays.
struct Place {
    layer: usize,
    /// Bytes of the layer before it.
    offset: u64,
    /// Bytes of the layer from it on.
    room: u64,
}

impl Place {
    /// The byte with that offset over all layers, if there is one.
    fn of(filter: &Filter, offset: u64) -> Option<Self> {
        let (layer, start) = match filter.body() {
            Body::Blocked(chain) => batch::Layer::place_of(chain.layers(), offset),
            Body::Classic(chain) => batch::Layer::place_of(chain.layers(), offset),
            Body::Valkey(chain) => batch::Layer::place_of(chain.layers(), offset),
            Body::Windowed(ring) => batch::Layer::place_of(ring.layers(), offset),
        }?;
        let offset = offset - start;
        let room = (array(filter, layer).len() as u64).checked_sub(offset)?;
        Some(Self { layer, offset, room })
    }
}

/// Bytes of the bit arrays that a filter had before those that it has, and let go.
fn gone(filter: &Filter) -> u64 {
    match filter.body() {
        Body::Windowed(ring) => ring.gone(),
        Body::Blocked(_) | Body::Classic(_) | Body::Valkey(_) => 0,
    }
}

/// The bit array of a layer.
fn array(filter: &Filter, layer: usize) -> &[u8] {
    match filter.body() {
        Body::Blocked(chain) => chain.layers()[layer].bits().bytes(),
        Body::Classic(chain) => chain.layers()[layer].array(),
        Body::Valkey(chain) => chain.layers()[layer].array(),
        Body::Windowed(ring) => ring.layers()[layer].bits().bytes(),
    }
}

/// Set bits of a layer.
fn ones(filter: &Filter, layer: usize) -> u64 {
    match filter.body() {
        Body::Blocked(chain) => chain.layers()[layer].bits().ones(),
        Body::Classic(chain) => chain.layers()[layer].bits().ones(),
        Body::Valkey(chain) => chain.layers()[layer].ones(),
        Body::Windowed(ring) => ring.layers()[layer].bits().ones(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stream::Memory;
    use super::*;
    use crate::bloom::chain::{UNLIMITED, at_most};
    use crate::bloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Spec};
    use crate::bloom::tests::oracle::{VALKEY, reloaded};
    use crate::bloom::tests::stored;

    const LAYOUTS: [Layout; 3] = [Layout::Classic, Layout::Blocked { seed: Seed(7) }, VALKEY];

    fn filter(layout: Layout, capacity: u64, items: u32) -> Filter {
        let spec = Spec {
            error_rate: ErrorRate::new(0.01).unwrap(),
            capacity: Capacity::new(capacity).unwrap(),
            growth: Growth::Growing(Expansion::new(2).unwrap()),
            layout,
            window: None,
        };
        let mut filter = Filter::new(spec, UNLIMITED).unwrap();
        add(&mut filter, items);
        filter
    }

    fn add(filter: &mut Filter, items: u32) {
        for item in 0..items {
            filter.add(&item.to_le_bytes(), UNLIMITED).unwrap();
        }
    }

    fn save(filter: &Filter) -> Memory {
        let mut stream = Memory::default();
        super::super::save(filter, &mut stream);
        stream
    }

    /// What a client gets that asks until nothing is left.
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

    /// A filter copied or rewritten to the append-only file would lose items, in any layout.
    #[test]
    fn chunks_give_the_same_filter_back() {
        for layout in LAYOUTS {
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
        for layout in LAYOUTS {
            let mut filter = filter(layout, 40_000_000, 0);
            assert_eq!(chunks(&filter).count(), 1, "an empty filter is its header");
            filter.add(b"one item", UNLIMITED).unwrap();
            let all = dumped(&filter);
            let bytes = filter.layer_stats().next().unwrap().bytes();
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
            assert!(loaded(&written[0].bytes, &written[1..]).contains(b"one item"));
        }
    }

    /// An append-only file of a filter of very many layers would take minutes to load, or put bits into other
    /// layers: where a layer starts is known, however the filter came to be.
    #[test]
    fn long_chains_know_where_their_layers_start() {
        for layout in LAYOUTS {
            let spec = Spec {
                error_rate: ErrorRate::new(0.01).unwrap(),
                capacity: Capacity::new(1).unwrap(),
                growth: Growth::Growing(Expansion::new(1).unwrap()),
                layout,
                window: None,
            };
            let mut grown = Filter::new(spec, UNLIMITED).unwrap();
            for item in 0u32.. {
                grown.add(&item.to_le_bytes(), UNLIMITED).unwrap();
                if grown.layers() == 300 {
                    break;
                }
            }
            let loaded = reloaded(&grown);
            let copied = copy(&grown, UNLIMITED).unwrap();
            for filter in [grown, loaded, copied] {
                let mut start = 0;
                for (layer, stats) in filter.layer_stats().enumerate() {
                    for offset in [0, 1, stats.bytes() - 1] {
                        let place = Place::of(&filter, start + offset).unwrap();
                        let found = (place.layer, place.offset, place.room);
                        assert_eq!(found, (layer, offset, stats.bytes() - offset));
                    }
                    start += stats.bytes();
                    let before = filter.bytes_with(layer + 1) - filter.bytes_with(layer);
                    if layout != VALKEY {
                        let own = "64 bytes are the struct of such a layer";
                        assert_eq!(before, stats.bytes() + 64, "{own}");
                    }
                }
                assert!(Place::of(&filter, start).is_none());
            }
        }
    }

    /// An iterator is any number that a client sends.
    #[test]
    fn any_iterator_is_safe() {
        for layout in LAYOUTS {
            let filter = filter(layout, 10, 100);
            let arrays: Vec<u8> = (0..filter.totals().layers)
                .flat_map(|layer| array(&filter, layer).to_vec())
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
        for layout in LAYOUTS {
            let source = filter(layout, 10, 100);
            let lengths: Vec<_> = source.layer_stats().map(|layer| layer.bytes() as i64).collect();
            let end: i64 = lengths.iter().sum();
            let mut target = load_header(&header(&source), UNLIMITED).unwrap();
            let mut naive = vec![0; end as usize];
            let places = (-3..end + 3).chain([i64::MIN, i64::MIN + 1, i64::MAX - 300, i64::MAX]);
            for (turn, start) in places.enumerate() {
                for length in [0, 1, 7, 8, 64, 100] {
                    let Some(iterator) = start.checked_add(length).and_then(|end| end.checked_add(1)) else {
                        continue;
                    };
                    // Few bits at a time, so that a bit in a wrong place shows.
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
                        Some(layer) if start >= 0 => Err(ChunkError::TooLong {
                            room: (layer - from) as u64,
                        }),
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
                .flat_map(|layer| array(&target, layer).to_vec())
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
        for layout in LAYOUTS {
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
        let header = header(&filter(LAYOUTS[1], 10, 100));
        assert_eq!(header[8..12], [0; 4]);
        assert_ne!(header.len(), 20);
        assert!(redisbloom::load_header(&header, UNLIMITED).is_err());
    }

    proptest! {
        /// Any bytes that a client sends as a header are answered.
        #[test]
        fn headers_of_any_bytes_are_answered(bytes: Vec<u8>, start in 0usize..3) {
            let start = [&[][..], &native::MAGIC, &valkey::MAGIC][start];
            let limit: Allowance<'_> = &at_most((1 << 24) - 1);
            let _ = load_header(&[start, &bytes].concat(), limit);
        }
    }
}
