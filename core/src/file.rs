//! A filter as a file, `.bloom`: its header and its chunks, each with a checksum.
//!
//! `docs/file.md` of the project documents it byte by byte, and `vectors/` has files to check a reader with.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use crate::chain::demand::reserve;
use crate::chain::{UNLIMITED, at_most};
use crate::codec::DecodeError;
use crate::codec::chunks::{self, CHUNK_BYTES, HEADER};
use crate::filter::Filter;

/// The magic at the beginning of a file.
pub const MAGIC: [u8; 8] = *b"\x89BLOOM\r\n";
/// The version of the file format.
pub const VERSION: u32 = 1;
/// The iterator of the last record.
const END: i64 = 0;
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
    /// A later version wrote the file.
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
            Self::Version(version) => write!(f, "the file has version {version}, which is not known"),
            Self::Truncated => f.write_str("the file ends early"),
            Self::Checksum { record } => write!(f, "record {record} of the file is damaged"),
            Self::Record { record, why } => write!(f, "record {record} of the file: {why}"),
            Self::Header(error) => write!(f, "the file's header: {error}"),
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
        for chunk in chunks::chunks(self) {
            put_record(&mut writer, chunk.iterator, &chunk.bytes)?;
            records += 1;
        }
        put_record(&mut writer, END, &records.to_le_bytes())?;
        writer.flush()
    }

    /// Reads a filter that [`Filter::write_to`] wrote, up to the end of `reader`. It may need at most `most` bytes of
    /// memory: a file of some hundred bytes can describe an empty filter of any size.
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
        let mut data = Vec::new();
        let mut records = Records { reader, count: 0 };
        if records.take(&mut data, u64::MAX)? != HEADER {
            return Err(records.wrong("the header is missing"));
        }
        let mut filter = chunks::load_header(&data, &at_most(most)).map_err(|error| match error {
            DecodeError::OutOfMemory { bytes } => FileError::TooLarge { bytes },
            error => FileError::Header(error),
        })?;
        let mut last = HEADER;
        loop {
            let iterator = records.take(&mut data, CHUNK_BYTES as u64)?;
            if iterator == END {
                break;
            }
            if iterator <= last || data.is_empty() {
                return Err(records.wrong("a chunk is not behind the one before it"));
            }
            if (iterator - last) < data.len() as i64 {
                return Err(records.wrong("a chunk begins within the one before it"));
            }
            chunks::load_chunk(&mut filter, iterator, &data)
                .map_err(|_| records.wrong("a chunk has no place in the filter"))?;
            last = iterator;
        }
        if data != (records.count - 1).to_le_bytes() {
            return Err(records.wrong("the number of records differs"));
        }
        match records.reader.read(&mut [0])? {
            0 => Ok(filter),
            _ => Err(records.wrong("bytes follow the last record")),
        }
    }

    /// Writes the filter to a file. The file gets its name once it is complete and on the disk; until then an earlier
    /// file of that name stays.
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
        let path = path.as_ref();
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.new", std::process::id()));
        let new = path.with_file_name(name);
        let written = File::create(&new).and_then(|mut file| {
            self.write_to(&mut file)?;
            file.sync_all()
        });
        let saved = written.and_then(|()| std::fs::rename(&new, path));
        if saved.is_err() {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&new);
        }
        saved
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

    /// Reads a filter from the header and the chunks that `BF.SCANDUMP` returns, each with its iterator, the header
    /// first.
    ///
    /// ```
    /// # use libbloom::{Filter, codec::chunks};
    /// # let mut filter = Filter::builder(1000, 0.01).build()?;
    /// # filter.insert("ann")?;
    /// let dumped: Vec<_> = chunks::chunks(&filter).map(|chunk| (chunk.iterator, chunk.bytes.to_vec())).collect();
    /// let copy = Filter::of_chunks(dumped.iter().map(|(iterator, bytes)| (*iterator, &bytes[..])))?;
    /// assert!(copy.contains("ann"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError::Header`], [`FileError::TooLarge`] and [`FileError::Record`].
    pub fn of_chunks<'a>(chunks: impl IntoIterator<Item = (i64, &'a [u8])>) -> Result<Self, FileError> {
        let mut chunks = (0..).zip(chunks);
        let Some((_, (HEADER, header))) = chunks.next() else {
            let why = "the header is missing";
            return Err(FileError::Record { record: 0, why });
        };
        let mut filter = chunks::load_header(header, UNLIMITED).map_err(|error| match error {
            DecodeError::OutOfMemory { bytes } => FileError::TooLarge { bytes },
            error => FileError::Header(error),
        })?;
        for (record, (iterator, bytes)) in chunks {
            let why = "a chunk has no place in the filter";
            chunks::load_chunk(&mut filter, iterator, bytes)
                .map_err(|_| FileError::Record { record, why })?;
        }
        Ok(filter)
    }
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
}

impl<R: Read> Records<R> {
    /// Reads the next record of at most `most` bytes into `data`, and returns its iterator.
    fn take(&mut self, data: &mut Vec<u8>, most: u64) -> Result<i64, FileError> {
        let mut head = [0u8; 16];
        self.reader.read_exact(&mut head)?;
        let mut checksum = [0; 16];
        self.reader.read_exact(&mut checksum)?;
        let (words, _) = head.as_chunks::<8>();
        let (iterator, length) = (i64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        self.count += 1;
        let mut hash = Xxh3::new();
        hash.update(&head);
        data.clear();
        // A wrong length allocates nothing: memory is allocated only for bytes that were read.
        let mut left = length;
        while left > 0 {
            if length > most {
                return Err(self.wrong("it is longer than any can be"));
            }
            let piece = left.min(PIECE as u64) as usize;
            let begin = data.len();
            reserve(data, piece).map_err(|_| FileError::TooLarge { bytes: length })?;
            #[expect(clippy::disallowed_methods, reason = "it has the room")]
            data.resize(begin + piece, 0);
            self.reader.read_exact(&mut data[begin..])?;
            hash.update(&data[begin..]);
            left -= piece as u64;
        }
        if hash.digest128().to_le_bytes() != checksum {
            let record = self.count - 1;
            return Err(FileError::Checksum { record });
        }
        Ok(iterator)
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
            ("classic", filled(builder().layout(StoredLayout::Classic))),
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
                let is_told = match at {
                    0..8 => matches!(flipped, Err(FileError::Magic)),
                    8..16 => matches!(flipped, Err(FileError::Version(_))),
                    // If a length is too long, the file has too few bytes.
                    _ => matches!(
                        flipped,
                        Err(FileError::Checksum { .. } | FileError::Truncated | FileError::Record { .. })
                    ),
                };
                assert!(is_told, "{name}, flipped at {at}: {flipped:?}");
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
        let chunks: Vec<_> = chunks::chunks(&filter)
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
