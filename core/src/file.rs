//! A filter as a file, `.bloom`: its header and its chunks, each with a checksum.
//!
//! `docs/file.md` of the project documents it byte by byte, and `vectors/` has files to check a reader with.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use crate::chain::demand::{listed, reserve};
use crate::chain::{Allowance, UNLIMITED, at_most};
use crate::codec::DecodeError;
use crate::codec::chunks::{self, Assembly, CHUNK_BYTES, HEADER};
use crate::filter::Filter;
use crate::saving::replace;

/// The magic at the beginning of a file.
pub const MAGIC: [u8; 8] = *b"\x89BLOOM\r\n";
/// The version of the file format.
pub const VERSION: u32 = 1;
/// The iterator of the last record.
const END: i64 = 0;
/// Bytes before the records, and in each record before its data.
const HEAD: u64 = 16;
const HEAD_OF_RECORD: u64 = 32;
/// The most bytes of a header: exceptions take up to a quarter of that, and the number of layers has no limit.
const MOST_HEADER: u64 = 1 << 30;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// Why a file cannot be read. No filter was made.
///
/// ```
/// # use libbloom::{FileError, Filter};
/// let page = b"<!DOCTYPE html><html><head><title>Not found</title></head></html>";
/// assert!(matches!(Filter::read_from(&page[..], u64::MAX), Err(FileError::Magic)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The system could not read or write the file.
    Io(io::Error),
    /// The file does not begin with the magic.
    Magic,
    /// A later version wrote the file: the version in its head, which is 1 if only the reserved bytes differ.
    Version(u32),
    /// The file ends early.
    Truncated,
    /// The checksum of the record with this number, from 0, is wrong.
    Checksum {
        /// The number of the record, from 0.
        record: u64,
    },
    /// The record with this number, from 0, is whole but invalid.
    Record {
        /// The number of the record, from 0.
        record: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The header does not describe a filter.
    Header(DecodeError),
    /// The chunks do not have the bits that the header counts: one is missing, or is of another filter, or the filter
    /// changed while it was dumped.
    Incomplete,
    /// The filter would need more memory than there is, or than the caller allows.
    TooLarge {
        /// Bytes that it would need.
        bytes: u64,
    },
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Magic => f.write_str("this is not a filter's file"),
            Self::Version(_) => f.write_str("a later version wrote the file"),
            Self::Truncated => f.write_str("the file ends early"),
            Self::Checksum { record } => write!(f, "record {record} is damaged"),
            Self::Record { record, why } => write!(f, "record {record}: {why}"),
            Self::Header(error) => write!(f, "the header: {error}"),
            Self::Incomplete => f.write_str(
                "the bits are not those that the header counts: a chunk is missing, or is of another filter, or the \
                 filter changed while it was dumped",
            ),
            Self::TooLarge { bytes } => write!(f, "the filter would need {bytes} bytes of memory"),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Header(error) => Some(error),
            _ => None,
        }
    }
}

impl Filter {
    /// Writes the filter in the format of a [file](crate::file).
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// filter.insert("ann")?;
    /// let mut bytes = Vec::new();
    /// filter.write_to(&mut bytes)?;
    /// assert!(Filter::read_from(&bytes[..], u64::MAX)?.contains("ann"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `writer`.
    pub fn write_to(&self, mut writer: impl Write) -> io::Result<()> {
        writer.write_all(&MAGIC)?;
        writer.write_all(&VERSION.to_le_bytes())?;
        writer.write_all(&[0; 4])?;
        let mut records = 0u64;
        for chunk in chunks::chunks_to_check(self) {
            put_record(&mut writer, chunk.iterator, &chunk.bytes)?;
            records += 1;
        }
        put_record(&mut writer, END, &records.to_le_bytes())?;
        writer.flush()
    }

    /// Reads a filter that [`Filter::write_to`] wrote, up to the end of `reader`. It may need at most `most` bytes of
    /// memory: a file of some hundred bytes can describe an empty filter of any size. Reading takes 64 KiB and the
    /// filter's header besides.
    ///
    /// ```
    /// # use libbloom::{FileError, Filter};
    /// let mut bytes = Vec::new();
    /// Filter::builder(1_000_000, 0.01).build()?.write_to(&mut bytes)?;
    /// assert!(Filter::read_from(&bytes[..], 2 << 20).is_ok());
    /// assert!(matches!(Filter::read_from(&bytes[..], 1 << 20), Err(FileError::TooLarge { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError`] for anything but a complete file.
    pub fn read_from(mut reader: impl Read, most: u64) -> Result<Self, FileError> {
        let mut head = [0; 16];
        reader.read_exact(&mut head)?;
        let ([magic, rest], []) = head.as_chunks::<8>() else {
            return Err(FileError::Truncated);
        };
        if *magic != MAGIC {
            return Err(FileError::Magic);
        }
        let [version, zero] = [&rest[..4], &rest[4..]].map(le_u32);
        if version != VERSION || zero != 0 {
            return Err(FileError::Version(version));
        }
        let mut records = Records::of(reader)?;
        let record = records.next()?;
        if record.iterator != HEADER {
            return Err(records.wrong("the header is missing"));
        }
        if record.length > MOST_HEADER {
            return Err(records.wrong("it is longer than any can be"));
        }
        // A header is never larger than its filter.
        if record.length > most {
            let bytes = record.length;
            return Err(FileError::TooLarge { bytes });
        }
        let mut header = Vec::new();
        records.each_piece(record, |piece| {
            if header.capacity() - header.len() < piece.len() {
                // A wrong length allocates nothing: there is room for twice what was read.
                let left = record.length - header.len() as u64;
                let more = left.min(PIECE.max(header.len()) as u64) as usize;
                let bytes = record.length;
                reserve(&mut header, more).map_err(|_| FileError::TooLarge { bytes })?;
            }
            header.extend_from_slice(piece);
            Ok(())
        })?;
        let mut filter = assembly_of(header, &at_most(most))?;
        loop {
            let record = records.next()?;
            if record.iterator == END {
                let mut count = None;
                records.each_piece(record, |piece| {
                    count = piece.try_into().ok().map(u64::from_le_bytes);
                    Ok(())
                })?;
                if record.length != size_of::<u64>() as u64 || count != Some(records.count - 1) {
                    return Err(records.wrong("the number of records differs"));
                }
                break;
            }
            let next = filter.next(record.iterator, record.length);
            records.each_piece(record, |piece| {
                if next.is_ok() {
                    filter.append(piece);
                }
                Ok(())
            })?;
            // A damaged record is called damaged, wherever the damage would put it.
            next.map_err(|why| records.wrong(why))?;
        }
        match records.reader.read_exact(&mut [0]) {
            Ok(()) => Err(records.wrong("bytes follow the last record")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                filter.finish().ok_or(FileError::Incomplete)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the filter to a file. The file gets its name once it is complete and on the disk; until then an earlier
    /// file of that name stays, and its permissions are kept. A new file is readable for its owner only, because it has
    /// the filter's seed. A link is followed, and a device or a pipe is written to.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # let folder = std::env::temp_dir().join(format!("libbloom-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("seen.bloom");
    /// let mut seen = Filter::builder(1000, 0.01).build()?;
    /// seen.insert("https://example.com/")?;
    /// seen.save(&path)?;
    /// assert!(Filter::load(&path)?.contains("https://example.com/"));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the system; an earlier file is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        replace(path.as_ref(), |file| self.write_to(file))
    }

    /// Reads a filter from a file, with as much memory as it needs. [`Filter::read_from`] has a limit.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert!(Filter::load("no such file.bloom").is_err());
    /// # let path = std::env::temp_dir().join(format!("libbloom-load-{}.bloom", std::process::id()));
    /// let mut seen = Filter::builder(1000, 0.01).build()?;
    /// seen.insert("ann")?;
    /// seen.save(&path)?;
    /// assert!(Filter::load(&path)?.contains("ann"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError`] for anything but a complete file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::read_from(BufReader::new(File::open(path)?), u64::MAX)
    }

    /// Reads a filter from the header and the chunks that `BF.SCANDUMP` returns, each with its iterator, in their
    /// order.
    ///
    /// ```
    /// # use libbloom::{FileError, Filter, codec::chunks};
    /// # let mut filter = Filter::builder(1000, 0.01).build()?;
    /// # filter.insert("ann")?;
    /// let dumped: Vec<_> = chunks::chunks_to_check(&filter).map(|chunk| (chunk.iterator, chunk.bytes.to_vec())).collect();
    /// let read = |chunks: &[(i64, Vec<u8>)]| {
    ///     Filter::of_chunks(chunks.iter().map(|(iterator, bytes)| (*iterator, &bytes[..])))
    /// };
    /// assert!(read(&dumped)?.contains("ann"));
    /// assert!(matches!(read(&dumped[..1]), Err(FileError::Incomplete)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError::Header`], [`FileError::TooLarge`], [`FileError::Record`] and [`FileError::Incomplete`].
    pub fn of_chunks<'a>(chunks: impl IntoIterator<Item = (i64, &'a [u8])>) -> Result<Self, FileError> {
        let mut chunks = (0..).zip(chunks);
        let Some((_, (HEADER, header))) = chunks.next() else {
            let why = "the header is missing";
            return Err(FileError::Record { record: 0, why });
        };
        let header = listed(header.iter().copied()).map_err(|_| FileError::TooLarge {
            bytes: header.len() as u64,
        })?;
        let mut filter = assembly_of(header, UNLIMITED)?;
        for (record, (iterator, bytes)) in chunks {
            filter
                .next(iterator, bytes.len() as u64)
                .map_err(|why| FileError::Record { record, why })?;
            filter.append(bytes);
        }
        filter.finish().ok_or(FileError::Incomplete)
    }
}

/// Begins the filter that a header describes, for its chunks.
fn assembly_of(header: Vec<u8>, allowance: Allowance<'_>) -> Result<Assembly, FileError> {
    Assembly::new(header, allowance).map_err(|error| match error {
        DecodeError::OutOfMemory { bytes } => FileError::TooLarge { bytes },
        error => FileError::Header(error),
    })
}

/// Bytes that [`Filter::write_to`] writes.
#[cfg_attr(docsrs, doc(hidden))]
pub fn length(filter: &Filter) -> u64 {
    let records = chunks::chunks_to_check(filter).map(|chunk| chunk.bytes.len() as u64);
    records
        .chain([size_of::<u64>() as u64])
        .fold(HEAD, |sum, data| sum + HEAD_OF_RECORD + data)
}

fn put_record(writer: &mut impl Write, iterator: i64, data: &[u8]) -> io::Result<()> {
    let head = head_of(iterator, data.len() as u64);
    let mut hash = Xxh3::new();
    hash.update(&head);
    hash.update(data);
    writer.write_all(&head)?;
    writer.write_all(&hash.digest128().to_le_bytes())?;
    writer.write_all(data)
}

fn head_of(iterator: i64, length: u64) -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&iterator.to_le_bytes());
    head[8..].copy_from_slice(&length.to_le_bytes());
    head
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// The records that were not read yet.
struct Records<R> {
    reader: R,
    /// Records that were read.
    count: u64,
    /// The last piece that was read.
    piece: Vec<u8>,
}

/// What precedes the data of a record.
#[derive(Clone, Copy)]
struct Record {
    iterator: i64,
    length: u64,
    checksum: [u8; 16],
}

impl<R: Read> Records<R> {
    fn of(reader: R) -> Result<Self, FileError> {
        let bytes = PIECE as u64;
        let piece = listed(std::iter::repeat_n(0, PIECE)).map_err(|_| FileError::TooLarge { bytes })?;
        let count = 0;
        Ok(Self { reader, count, piece })
    }

    /// Reads what precedes the data of the next record.
    fn next(&mut self) -> Result<Record, FileError> {
        let (mut iterator, mut length, mut checksum) = ([0; 8], [0; 8], [0; 16]);
        self.reader.read_exact(&mut iterator)?;
        self.reader.read_exact(&mut length)?;
        self.reader.read_exact(&mut checksum)?;
        self.count += 1;
        Ok(Record {
            iterator: i64::from_le_bytes(iterator),
            length: u64::from_le_bytes(length),
            checksum,
        })
    }

    /// Passes the data of a record to `take`, piece by piece, and compares its checksum at the end.
    fn each_piece(
        &mut self,
        record: Record,
        mut take: impl FnMut(&[u8]) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        if record.iterator != HEADER && record.length > CHUNK_BYTES as u64 {
            return Err(self.wrong("it is longer than any can be"));
        }
        let mut hash = Xxh3::new();
        hash.update(&head_of(record.iterator, record.length));
        let mut left = record.length;
        while left > 0 {
            let piece = &mut self.piece[..left.min(PIECE as u64) as usize];
            self.reader.read_exact(piece)?;
            hash.update(piece);
            take(piece)?;
            left -= piece.len() as u64;
        }
        if hash.digest128().to_le_bytes() != record.checksum {
            let record = self.count - 1;
            return Err(FileError::Checksum { record });
        }
        Ok(())
    }

    /// The error for the last record if it is invalid.
    fn wrong(&self, why: &'static str) -> FileError {
        let record = self.count.saturating_sub(1);
        FileError::Record { record, why }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::tests::failing;
    use crate::tests::oracle::{item, stored};
    use crate::{Builder, StoredLayout};

    /// Filters of every kind, each with items, and some with many layers.
    fn filters() -> Vec<(&'static str, Filter)> {
        let builder = || Filter::builder(100, 0.01).seed(7);
        let filled = |builder: Builder| {
            let mut filter = builder.build().unwrap();
            for number in 0..700 {
                // A fixed filter is full before that.
                let _ = filter.insert_at(&item(number), number.into());
            }
            filter
        };
        let excepted = {
            let mut filter = filled(builder());
            let items = [item(3), item(5)];
            let items = items.iter().map(Vec::as_slice);
            filter.except(items, UNLIMITED, |_, _| ()).unwrap();
            filter
        };
        vec![
            ("empty", builder().build().unwrap()),
            ("blocked", filled(builder())),
            ("fixed", filled(builder().fixed())),
            ("growing", filled(builder().growing())),
            ("window", filled(builder().window(Duration::from_secs(60)))),
            (
                "refreshing window",
                filled(builder().window(Duration::from_secs(1)).refresh()),
            ),
            ("exceptions", excepted),
            (
                "classic",
                filled(Filter::builder(100, 0.01).layout(StoredLayout::Classic)),
            ),
            ("valkey", filled(builder().layout(StoredLayout::Valkey))),
        ]
    }

    fn written(filter: &Filter) -> Vec<u8> {
        let mut bytes = Vec::new();
        filter.write_to(&mut bytes).unwrap();
        bytes
    }

    /// A filter would differ between the program that built it and the one that uses it.
    #[test]
    fn a_filter_is_read_as_it_was_written() {
        for (name, filter) in filters() {
            let bytes = written(&filter);
            assert_eq!(length(&filter), bytes.len() as u64, "{name}");
            assert!(chunks::header(&filter).len() as u64 <= filter.bytes(), "{name}");
            let read = Filter::read_from(&bytes[..], u64::MAX).unwrap();
            assert_eq!(stored(&read), stored(&filter), "{name}");
            assert_eq!(written(&read), bytes, "{name}");
            let needed = Filter::read_from(&bytes[..], 100);
            assert!(matches!(needed, Err(FileError::TooLarge { .. })), "{name}");
        }
    }

    /// A file that a full disk cut off, or a transfer damaged, would deny items, or crash the program.
    #[test]
    fn a_damaged_file_is_refused_wherever_it_is_damaged() {
        for (name, filter) in filters() {
            let bytes = written(&filter);
            let places = (0..bytes.len()).filter(|&at| at < 600 || at % 97 == 0 || at + 60 > bytes.len());
            for at in places {
                let cut = Filter::read_from(&bytes[..at], u64::MAX);
                assert!(
                    matches!(cut, Err(FileError::Truncated)),
                    "{name}, cut at {at}: {cut:?}"
                );
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                let flipped = Filter::read_from(&flipped[..], u64::MAX);
                let is_noticed = match at {
                    0..8 => matches!(flipped, Err(FileError::Magic)),
                    8..16 => matches!(flipped, Err(FileError::Version(_))),
                    // If a length is too long, the file has too few bytes.
                    _ => matches!(
                        flipped,
                        Err(FileError::Checksum { .. } | FileError::Truncated | FileError::Record { .. })
                    ),
                };
                assert!(is_noticed, "{name}, flipped at {at}: {flipped:?}");
            }
            let longer = [&bytes[..], b"\n"].concat();
            let longer = Filter::read_from(&longer[..], u64::MAX);
            assert!(
                matches!(longer, Err(FileError::Record { .. })),
                "{name}: {longer:?}"
            );
        }
    }

    /// A record that is whole but invalid would put bits where no reader looks for them.
    #[test]
    fn records_are_those_of_a_dump_in_their_order() {
        let (_, filter) = filters().swap_remove(1);
        let chunks: Vec<_> = chunks::chunks_to_check(&filter)
            .map(|chunk| (chunk.iterator, chunk.bytes.into_owned()))
            .collect();
        let file = |records: &[(i64, Vec<u8>)], count: u64| {
            let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
            for (iterator, data) in records {
                put_record(&mut bytes, *iterator, data).unwrap();
            }
            put_record(&mut bytes, END, &count.to_le_bytes()).unwrap();
            bytes
        };
        let count = chunks.len() as u64;
        assert!(count > 2);
        assert_eq!(file(&chunks, count), written(&filter));
        let refused = |records: &[(i64, Vec<u8>)], count: u64| {
            let read = Filter::read_from(&file(records, count)[..], u64::MAX);
            match read {
                Err(FileError::Record { record, why }) => (record, why),
                other => panic!("{other:?}"),
            }
        };
        let mut swapped = chunks.clone();
        swapped.swap(1, 2);
        let twice = [&chunks[..2], &chunks[1..]].concat();
        let beyond = [&chunks[..], &[(1 << 40, vec![1])]].concat();
        let empty = [&chunks[..], &[(1 << 40, Vec::new())]].concat();
        let behind = "a chunk is not behind the one before it";
        assert_eq!(refused(&chunks[1..], count - 1), (0, "the header is missing"));
        assert_eq!(refused(&swapped, count), (2, behind));
        assert_eq!(refused(&twice, count + 1), (2, behind));
        assert_eq!(refused(&empty, count + 1), (count, behind));
        let no_place = "a chunk has no place in the filter";
        assert_eq!(refused(&beyond, count + 1), (count, no_place));
        assert_eq!(
            refused(&chunks, count + 1),
            (count, "the number of records differs")
        );
        let long = [&chunks[..], &[(1 << 40, vec![1; CHUNK_BYTES + 1])]].concat();
        assert_eq!(refused(&long, count + 1), (count, "it is longer than any can be"));
        let mut end = 16;
        for (index, (_, data)) in (0..).zip(&chunks) {
            end += 32 + data.len();
            let mut damaged = file(&chunks, count);
            damaged[end - 1] ^= 1;
            let read = Filter::read_from(&damaged[..], u64::MAX);
            assert!(
                matches!(read, Err(FileError::Checksum { record }) if record == index),
                "{index}: {read:?}"
            );
        }
    }

    /// A filter of all chunks but one would deny what the lost one holds; one of doubled, exchanged, cut or foreign
    /// chunks would too.
    #[test]
    fn chunks_that_are_not_those_of_the_header_are_refused() {
        let sparse = |layout| {
            let mut filter = Filter::builder(20_000_000, 0.01).layout(layout).build().unwrap();
            filter.insert_many([&b"ann"[..], b"bob"]).unwrap();
            filter
        };
        let mut all = filters();
        all.extend(StoredLayout::ALL.iter().map(|layout| ("sparse", sparse(*layout))));
        for (name, filter) in all {
            let name = format!("{name}, {:?}", filter.layout());
            let dumped: Vec<_> = chunks::chunks_to_check(&filter)
                .map(|chunk| (chunk.iterator, chunk.bytes.into_owned()))
                .collect();
            let read = |chunks: &[(i64, Vec<u8>)]| {
                let read = Filter::of_chunks(chunks.iter().map(|(iterator, bytes)| (*iterator, &bytes[..])));
                read.map(|read| assert_eq!(stored(&read), stored(&filter), "{name}"))
            };
            read(&dumped).unwrap();
            for at in 1..dumped.len() {
                let without = [&dumped[..at], &dumped[at + 1..]].concat();
                assert!(read(&without).is_err(), "{name}, without {at}");
                let doubled = [&dumped[..=at], &dumped[at..]].concat();
                assert!(
                    matches!(read(&doubled), Err(FileError::Record { record, .. }) if record == at as u64 + 1)
                );
                if at > 1 {
                    let mut exchanged = dumped.clone();
                    exchanged.swap(at - 1, at);
                    assert!(
                        matches!(read(&exchanged), Err(FileError::Record { .. })),
                        "{name}"
                    );
                }
                let mut cut = dumped.clone();
                let half = cut[at].1.len() / 2;
                (cut[at].0, cut[at].1) = (cut[at].0 - half as i64, cut[at].1[..half].to_vec());
                // Of a sparse filter it may be that only zeros are cut off.
                assert!(read(&cut).is_err() || name.starts_with("sparse"), "{name}");
                let mut foreign = dumped.clone();
                foreign[at].1.iter_mut().for_each(|byte| *byte = 0);
                foreign[at].1[0] = 1;
                // Fewer bits than items are never those of the items; only our own headers count the bits.
                let is_noticed = !name.starts_with("sparse") || filter.layout() == StoredLayout::Blocked;
                let read = Filter::of_chunks(foreign.iter().map(|(iterator, bytes)| (*iterator, &bytes[..])));
                assert_eq!(read.is_err(), is_noticed, "{name}");
            }
        }
    }

    /// A program that may use a megabyte would be ended by the system for a header of another's file.
    #[test]
    fn reading_takes_the_memory_of_the_filter_and_little_more() {
        struct Counted<R>(R, u64);
        impl<R: Read> Read for Counted<R> {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                self.1 += bytes.len() as u64;
                self.0.read(bytes)
            }
        }
        let mut file = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
        file.extend(head_of(HEADER, 400 << 20));
        file.extend([0; 16]);
        let mut reader = Counted(file.chain(io::repeat(0)), 0);
        let most = 1 << 20;
        let refused = Filter::read_from(&mut reader, most);
        assert!(matches!(refused, Err(FileError::TooLarge { bytes }) if bytes == 400 << 20));
        assert!(reader.1 < most, "{} bytes were read", reader.1);
        // No block is larger than the filter's own, although its chunk is.
        let mut filter = Filter::builder(1_000_000, 0.01).build().unwrap();
        filter.insert("ann").unwrap();
        let bytes = written(&filter);
        let largest = filter.layer_stats().map(|layer| layer.bytes()).max().unwrap() as usize;
        failing::above(largest, || Filter::read_from(&bytes[..], u64::MAX).map(drop)).unwrap();
    }

    /// A header of many layers would be read for minutes: it would be copied for each piece that comes.
    #[test]
    fn a_long_header_is_read_in_steps_that_double() {
        let mut file = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
        put_record(&mut file, HEADER, &vec![0; 64 << 20]).unwrap();
        let read = || Filter::read_from(&file[..], u64::MAX).map(drop);
        let refused = failing::after(20, failing::Shortage::Lasting, read);
        assert!(matches!(refused, Err(FileError::Header(_))), "{refused:?}");
    }

    proptest! {
        /// A program that reads a file of unknown origin would crash.
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>, header: Vec<u8>) {
            let limit = 1 << 24;
            let _ = Filter::read_from(&bytes[..], limit);
            let mut file = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
            put_record(&mut file, HEADER, &header).unwrap();
            put_record(&mut file, END, &1u64.to_le_bytes()).unwrap();
            let _ = Filter::read_from(&file[..], limit);
            let _ = Filter::of_chunks([(HEADER, &bytes[..])].into_iter().filter(|_| bytes.len() < 20));
        }
    }
}
