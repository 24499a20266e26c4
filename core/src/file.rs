//! A filter as a file, `.bloom`: its header, the bits of its layers as they are in memory, and checksums.
//!
//! `docs/file.md` of the project documents it byte by byte, and `vectors/` has files to check a reader with.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use crate::chain::demand::{listed, reserve};
use crate::chain::{UNLIMITED, at_most};
use crate::codec::DecodeError;
use crate::codec::chunks::{self, Assembly, HEADER};
use crate::error::require;
use crate::filter::Filter;
use crate::saving::{WithHoles, replace};

/// The magic at the beginning and at the end of a file.
pub const MAGIC: [u8; 8] = *b"\x89BLOOM\r\n";
/// The version of the file format.
pub const VERSION: u32 = 1;
/// Bytes of the head, and what everything behind it begins at a multiple of.
const HEAD: usize = 64;
/// What a layer of [`LARGE`] bytes or more begins at a multiple of: pages, so that it can be mapped by itself.
const PAGE: u64 = 4096;
/// See [`PAGE`].
const LARGE: u64 = 1 << 20;
/// Bytes of a piece, which has a checksum.
const PIECE: u64 = 16 << 20;
/// The most bytes of a header: exceptions take up to a quarter of that, and the number of layers has no limit.
const MOST_HEADER: u64 = 1 << 30;
/// Bytes that are read or written at a time.
const STEP: usize = 1 << 16;

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
    /// The checksum of the header, or of this piece of 16 MiB, from 0, is wrong.
    Checksum {
        /// The number of the piece; 0 for the header.
        piece: u64,
    },
    /// The file does not end with the magic, or goes on behind it.
    End,
    /// The chunk with this number, from 0, is not one of the filter's, or not in its place.
    Chunk {
        /// The number of the chunk, from 0, which is the header.
        chunk: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The header does not describe a filter.
    Header(DecodeError),
    /// The bits are not those that the header counts: a chunk is missing, or is of another filter, or the filter changed
    /// while it was dumped.
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
            Self::Checksum { piece } => write!(f, "the file is damaged in its piece {piece} of 16 MiB"),
            Self::End => f.write_str("the file does not end where its filter does"),
            Self::Chunk { chunk, why } => write!(f, "chunk {chunk}: {why}"),
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
        let (header, layers) = (chunks::header(self), self.layers.as_layered());
        let (head, mut places) = (Head::before(&header), Places::after(header.len() as u64));
        writer.write_all(&head.bytes)?;
        let mut stream = Stream::behind(&head, writer);
        stream.write(&header)?;
        for layer in 0..layers.count() {
            let array = layers.array(layer);
            stream.pad(places.next(array.len() as u64).start)?;
            stream.write(array)?;
        }
        stream.pad(places.checksums())?;
        let (mut inner, checksums) = stream.finish();
        inner.write_all(checksums.as_flattened())?;
        inner.write_all(&MAGIC)?;
        inner.flush()
    }

    /// Reads a filter that [`Filter::write_to`] wrote, up to the end of `reader`. It may need at most `most` bytes of
    /// memory: a file of some hundred bytes can describe an empty filter of any size. Reading takes 64 KiB
    /// besides, and up to three times the header, which is short unless the filter has exceptions or thousands of layers.
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
        let mut head = [0; HEAD];
        let (magic, fields) = head.split_at_mut(MAGIC.len());
        reader.read_exact(magic)?;
        require(*magic == MAGIC, FileError::Magic)?;
        reader.read_exact(fields)?;
        let head = Head::of(&head)?;
        let mut stream = Stream::behind(&head, reader);
        let header = stream.header(&head, most)?;
        let mut filter = chunks::load_header(&header, &at_most(most)).map_err(of_header)?;
        let mut places = Places::after(head.header);
        let mut step = listed(std::iter::repeat_n(0, STEP)).map_err(|_| too_large(STEP as u64))?;
        for layer in 0..filter.layers() {
            let bytes = filter.layers.as_layered().array(layer).len();
            stream.skip(places.next(bytes as u64).start)?;
            for offset in (0..bytes).step_by(STEP) {
                let step = &mut step[..STEP.min(bytes - offset)];
                stream.read(step)?;
                let merged = filter.layers.as_layered_mut().merge(layer, offset as u64, step);
                debug_assert!(merged.is_ok(), "a step of a layer is within it");
            }
        }
        stream.skip(places.checksums())?;
        let (mut inner, checksums) = stream.finish();
        for (piece, expected) in (0..).zip(checksums) {
            let mut checksum = [0; 16];
            inner.read_exact(&mut checksum)?;
            require(checksum == expected, FileError::Checksum { piece })?;
        }
        let mut magic = [0; MAGIC.len()];
        inner.read_exact(&mut magic)?;
        match inner.read_exact(&mut [0]) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error.into()),
            Err(_) if magic == MAGIC => {
                require(chunks::is_complete(&filter, &header), FileError::Incomplete)?;
                Ok(filter)
            }
            _ => Err(FileError::End),
        }
    }

    /// The bytes of a [file](crate::file).
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// filter.insert("ann")?;
    /// assert!(Filter::from_bytes(&filter.to_bytes())? == filter);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a program's list of bytes is its own to bound"
        )]
        let mut bytes = Vec::with_capacity(length(self) as usize);
        let written = self.write_to(&mut bytes);
        debug_assert!(written.is_ok(), "a list takes all bytes");
        bytes
    }

    /// Reads a filter from the bytes of a [file](crate::file), with as much memory as it needs. [`Filter::read_from`]
    /// has a limit.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// assert!(Filter::from_bytes(b"something else").is_err());
    /// ```
    ///
    /// # Errors
    /// [`FileError`] for anything but a complete file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        Self::read_from(bytes, u64::MAX)
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
        replace(path.as_ref(), |file| {
            self.write_to(WithHoles::over(file, &*file)?)
        })
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
    /// [`FileError::Header`], [`FileError::TooLarge`], [`FileError::Chunk`] and [`FileError::Incomplete`].
    pub fn of_chunks<'a>(chunks: impl IntoIterator<Item = (i64, &'a [u8])>) -> Result<Self, FileError> {
        let mut chunks = (0..).zip(chunks);
        let Some((_, (HEADER, header))) = chunks.next() else {
            let why = "the header is missing";
            return Err(FileError::Chunk { chunk: 0, why });
        };
        let header = listed(header.iter().copied()).map_err(|_| too_large(header.len() as u64))?;
        let mut filter = Assembly::new(header, UNLIMITED).map_err(of_header)?;
        for (chunk, (iterator, bytes)) in chunks {
            filter
                .next(iterator, bytes.len() as u64)
                .map_err(|why| FileError::Chunk { chunk, why })?;
            filter.append(bytes);
        }
        filter.finish().ok_or(FileError::Incomplete)
    }
}

/// The error for a header that describes no filter, or one that is too large.
pub(crate) fn of_header(error: DecodeError) -> FileError {
    match error {
        DecodeError::OutOfMemory { bytes } => too_large(bytes),
        error => FileError::Header(error),
    }
}

fn too_large(bytes: u64) -> FileError {
    FileError::TooLarge { bytes }
}

pub(crate) struct Head {
    bytes: [u8; HEAD],
    /// Bytes of the header.
    pub header: u64,
}

impl Head {
    /// Bytes before the checksum of the header.
    const FIELDS: usize = HEAD - 16;

    fn before(header: &[u8]) -> Self {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&(header.len() as u64).to_le_bytes());
        let mut head = Self {
            bytes,
            header: header.len() as u64,
        };
        let checksum = head.checksum(header);
        head.bytes[Self::FIELDS..].copy_from_slice(&checksum);
        head
    }

    /// Reads a head.
    pub fn of(bytes: &[u8; HEAD]) -> Result<Self, FileError> {
        require(bytes[..8] == MAGIC, FileError::Magic)?;
        let (version, header): (u32, u64) = (
            bytemuck::pod_read_unaligned(&bytes[8..12]),
            bytemuck::pod_read_unaligned(&bytes[16..24]),
        );
        let is_known = version == VERSION && bytes[12..16] == [0; 4] && bytes[24..Self::FIELDS] == [0; 24];
        require(is_known, FileError::Version(version))?;
        let bytes = *bytes;
        Ok(Self { bytes, header })
    }

    /// Compares the checksum of the header.
    pub fn check(&self, header: &[u8]) -> Result<(), FileError> {
        let is_right = self.bytes[Self::FIELDS..] == self.checksum(header);
        require(is_right, FileError::Checksum { piece: 0 })
    }

    fn checksum(&self, header: &[u8]) -> [u8; 16] {
        let mut hash = Xxh3::new();
        hash.update(&self.bytes[..Self::FIELDS]);
        hash.update(header);
        hash.digest128().to_le_bytes()
    }
}

/// Where the layers of a file are, from the oldest on.
#[derive(Clone)]
pub(crate) struct Places {
    end: u64,
}

impl Places {
    /// The places behind a header of so many bytes.
    pub fn after(header: u64) -> Self {
        let end = header.saturating_add(HEAD as u64);
        Self { end }
    }

    /// The place of the next layer, which has so many bytes.
    pub fn next(&mut self, bytes: u64) -> Range<u64> {
        let unit = if bytes < LARGE { HEAD as u64 } else { PAGE };
        let start = multiple(self.end, unit);
        self.end = start.saturating_add(bytes);
        start..self.end
    }

    /// The end of the last layer, where the checksums begin.
    fn checksums(&self) -> u64 {
        multiple(self.end, HEAD as u64)
    }

    fn file(&self) -> u64 {
        let checksums = self.checksums().div_ceil(PIECE) * 16;
        self.checksums().saturating_add(checksums + MAGIC.len() as u64)
    }
}

fn multiple(number: u64, unit: u64) -> u64 {
    number.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// Checks that a file with these layers ends where it must.
pub(crate) fn check_end(file: &[u8], places: &Places) -> Result<(), FileError> {
    match (file.len() as u64).cmp(&places.file()) {
        std::cmp::Ordering::Less => Err(FileError::Truncated),
        std::cmp::Ordering::Equal if file.ends_with(&MAGIC) => Ok(()),
        _ => Err(FileError::End),
    }
}

/// Bytes that [`Filter::write_to`] writes.
#[cfg_attr(docsrs, doc(hidden))]
pub fn length(filter: &Filter) -> u64 {
    let mut places = Places::after(chunks::header(filter).len() as u64);
    let layers = filter.layers.as_layered();
    for layer in 0..layers.count() {
        places.next(layers.array(layer).len() as u64);
    }
    places.file()
}

/// A file that is being read or written, and the checksums of its pieces.
struct Stream<T> {
    inner: T,
    head: [u8; HEAD],
    hash: Xxh3,
    /// Bytes that came by.
    bytes: u64,
    checksums: Vec<[u8; 16]>,
}

impl<T> Stream<T> {
    /// Begins behind the head.
    fn behind(head: &Head, inner: T) -> Self {
        let mut stream = Self {
            inner,
            head: head.bytes,
            hash: Xxh3::new(),
            bytes: 0,
            checksums: Vec::new(),
        };
        stream.take(&head.bytes);
        stream
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let begins = self.bytes % PIECE;
            if begins == 0 {
                // The checksum of a piece is that of this file alone, and of this place in it.
                self.hash.update(&self.head);
                self.hash.update(&(self.bytes / PIECE).to_le_bytes());
            }
            let (now, later) = bytes.split_at(bytes.len().min((PIECE - begins) as usize));
            self.hash.update(now);
            self.bytes += now.len() as u64;
            if self.bytes.is_multiple_of(PIECE) {
                self.end_piece();
            }
            bytes = later;
        }
    }

    fn end_piece(&mut self) {
        self.checksums.push(self.hash.digest128().to_le_bytes());
        self.hash.reset();
    }

    /// What was read from or written to, and the checksums of all pieces.
    fn finish(mut self) -> (T, Vec<[u8; 16]>) {
        if !self.bytes.is_multiple_of(PIECE) {
            self.end_piece();
        }
        (self.inner, self.checksums)
    }
}

impl<W: Write> Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for bytes in bytes.chunks(STEP) {
            self.take(bytes);
            self.inner.write_all(bytes)?;
        }
        Ok(())
    }

    /// Writes zeros up to byte `start` of the file.
    fn pad(&mut self, start: u64) -> io::Result<()> {
        self.write(&[0; PAGE as usize][..(start - self.bytes) as usize])
    }
}

impl<R: Read> Stream<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.take(bytes);
        Ok(())
    }

    fn header(&mut self, head: &Head, most: u64) -> Result<Vec<u8>, FileError> {
        // A header is never larger than its filter. Whether the file has so many bytes tells a filter that is too large
        // from a length that is wrong; what is looked at for that is not kept.
        let most = most.min(MOST_HEADER);
        if head.header > most {
            let there = io::copy(&mut self.inner.by_ref().take(most), &mut io::sink())?;
            require(there == most, FileError::Truncated)?;
            return Err(too_large(head.header));
        }
        let (length, mut header) = (head.header as usize, Vec::new());
        while header.len() < length {
            // A wrong length allocates nothing: there is room for twice what was read.
            let (begin, more) = (header.len(), STEP.max(header.len()).min(length - header.len()));
            reserve(&mut header, more).map_err(|_| too_large(head.header))?;
            header.extend(std::iter::repeat_n(0, more));
            self.read(&mut header[begin..])?;
        }
        head.check(&header)?;
        Ok(header)
    }

    /// Reads up to byte `start` of the file.
    fn skip(&mut self, start: u64) -> io::Result<()> {
        let bytes = start - self.bytes;
        self.read(&mut [0; PAGE as usize][..bytes as usize])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::layers::Layers;
    use crate::tests::failing;
    use crate::tests::oracle::{item, stored};
    use crate::{Builder, Layout, MappedFilter};

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
                filled(Filter::builder(100, 0.01).layout(Layout::Classic)),
            ),
            ("valkey", filled(builder().layout(Layout::Valkey))),
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

    /// What [`Filter::open`] answers for a file of these bytes.
    fn opened(bytes: &[u8]) -> Result<MappedFilter, FileError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Filter::open(file.path())
    }

    /// A file that a full disk cut off, or a transfer damaged, would deny items, or crash the program.
    #[test]
    fn a_damaged_file_is_refused_wherever_it_is_damaged() {
        for (name, filter) in filters() {
            let bytes = written(&filter);
            let (header, end) = (chunks::header(&filter).len(), bytes.len());
            let places = (0..end).filter(|&at| at < 600 || at % 97 == 0 || at + 60 > end);
            for at in places {
                let is_cut = |read: Result<(), FileError>| {
                    assert!(
                        matches!(read, Err(FileError::Truncated)),
                        "{name}, cut at {at}: {read:?}"
                    );
                };
                is_cut(Filter::read_from(&bytes[..at], u64::MAX).map(drop));
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                let is_noticed = |read: Result<(), FileError>| match at {
                    0..8 => matches!(read, Err(FileError::Magic)),
                    8..16 | 24..48 => matches!(read, Err(FileError::Version(_))),
                    // If a length is too long, the file has too few bytes.
                    16..24 => matches!(read, Err(FileError::Checksum { piece: 0 } | FileError::Truncated)),
                    _ if at >= end - 8 => matches!(read, Err(FileError::End)),
                    _ => matches!(read, Err(FileError::Checksum { piece: 0 })),
                };
                let read = Filter::read_from(&flipped[..], u64::MAX).map(drop);
                assert!(is_noticed(read), "{name}, flipped at {at}");
                // Opening reads neither the layers nor their checksums.
                if at < HEAD + header || at >= end - 8 || !is_own(&filter) {
                    assert!(
                        is_noticed(opened(&flipped).map(drop)),
                        "{name}, opened, flipped at {at}"
                    );
                }
                if at % 5 == 0 {
                    is_cut(opened(&bytes[..at]).map(drop));
                }
            }
            for longer in [&b"\n"[..], &MAGIC, &bytes] {
                let longer = [&bytes[..], longer].concat();
                let read = [
                    Filter::read_from(&longer[..], u64::MAX).map(drop),
                    opened(&longer).map(drop),
                ];
                assert!(
                    matches!(read, [Err(FileError::End), Err(FileError::End)]),
                    "{name}: {read:?}"
                );
            }
        }
    }

    /// A mapped filter would find items that its copy denies, since a layer without bits is not copied.
    #[test]
    fn a_layer_with_more_items_than_bits_is_refused() {
        let mut filter = Filter::builder(100, 0.01).build().unwrap();
        let Layers::Blocked(chain, _) = &mut filter.layers else {
            unreachable!()
        };
        chain.layers[0].items = 1;
        let bytes = written(&filter);
        assert!(matches!(opened(&bytes), Err(FileError::Incomplete)));
        assert!(matches!(Filter::from_bytes(&bytes), Err(FileError::Incomplete)));
    }

    fn is_own(filter: &Filter) -> bool {
        filter.layout() == Layout::Blocked
    }

    /// A worker that maps a list would answer otherwise than one that loads it.
    #[test]
    fn a_mapped_file_answers_as_the_filter_that_was_saved() {
        for (name, filter) in filters() {
            let mapped = opened(&written(&filter)).unwrap();
            assert_eq!(written(&mapped), written(&filter), "{name}");
            assert_eq!(mapped.totals(), filter.totals(), "{name}");
            for number in 0..2000 {
                let item = item(number);
                assert_eq!(mapped.contains(&item), filter.contains(&item), "{name}, {number}");
            }
            let mut copy = mapped.try_clone().unwrap();
            drop(mapped);
            assert_eq!(written(&copy), written(&filter), "{name}");
            let _ = copy.insert("ann");
        }
    }

    /// Two halves of a list that a transfer exchanged, or a half of another list, would pass for the list.
    #[test]
    fn a_piece_is_taken_in_its_place_of_its_file_alone() {
        let filled = |number: u32| {
            let mut filter = Filter::builder(60_000_000, 0.01).fixed().seed(7).build().unwrap();
            filter.insert_many((0..number).map(u32::to_le_bytes)).unwrap();
            filter
        };
        let (own, other) = (written(&filled(1)), written(&filled(2)));
        let piece = PIECE as usize;
        let (checksums, pieces) = (own.len() - 8 - 16 * own.len().div_ceil(piece), own.len() / piece);
        assert!(pieces >= 3);
        let with = |at: usize, of: &[u8], from: usize| {
            let mut bytes = own.clone();
            bytes[at * piece..][..piece].copy_from_slice(&of[from * piece..][..piece]);
            bytes[checksums + 16 * at..][..16].copy_from_slice(&of[checksums + 16 * from..][..16]);
            Filter::read_from(&bytes[..], u64::MAX).map(drop)
        };
        assert!(with(1, &own, 1).is_ok());
        assert!(matches!(with(2, &own, 1), Err(FileError::Checksum { piece: 2 })));
        assert!(matches!(
            with(1, &other, 1),
            Err(FileError::Checksum { piece: 1 })
        ));
    }

    /// A list for a billion items that has few would fill the disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_unset_takes_no_room_on_the_disk() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen.bloom");
        let mut filter = Filter::builder(100_000_000, 0.01).build().unwrap();
        filter.insert("ann").unwrap();
        filter.save(&path).unwrap();
        let file = std::fs::metadata(&path).unwrap();
        assert_eq!(file.len(), length(&filter));
        assert!(file.blocks() * 512 < 1 << 20, "{} blocks", file.blocks());
        assert!(Filter::load(&path).unwrap().contains("ann"));
        assert!(Filter::open(&path).unwrap().contains("ann"));
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
        all.extend(Layout::ALL.iter().map(|layout| ("sparse", sparse(*layout))));
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
                    matches!(read(&doubled), Err(FileError::Chunk { chunk, .. }) if chunk == at as u64 + 1)
                );
                if at > 1 {
                    let mut exchanged = dumped.clone();
                    exchanged.swap(at - 1, at);
                    assert!(matches!(read(&exchanged), Err(FileError::Chunk { .. })), "{name}");
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
                let is_noticed = !name.starts_with("sparse") || filter.layout() == Layout::Blocked;
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
                let read = self.0.read(bytes)?;
                self.1 += read as u64;
                Ok(read)
            }
        }
        let mut head = Head::before(b"").bytes;
        head[16..24].copy_from_slice(&(400_u64 << 20).to_le_bytes());
        let most = 1 << 20;
        // As many bytes as the filter may have, and the head, are looked at, and none of them is kept.
        for (there, is_large) in [(u64::MAX, true), (most, true), (most - 1, false), (0, false)] {
            let mut reader = Counted(head.chain(io::repeat(0).take(there)), 0);
            let refused = failing::above(1 << 14, || Filter::read_from(&mut reader, most)).map(drop);
            match refused {
                Err(FileError::TooLarge { bytes }) => assert!(is_large && bytes == 400 << 20, "{there}"),
                _ => assert!(
                    !is_large && matches!(refused, Err(FileError::Truncated)),
                    "{refused:?}"
                ),
            }
            assert!(reader.1 <= HEAD as u64 + most, "{} bytes were read", reader.1);
        }
        // No block is larger than the filter's own, although its chunk is.
        let mut filter = Filter::builder(1_000_000, 0.01).build().unwrap();
        filter.insert("ann").unwrap();
        let bytes = written(&filter);
        let largest = filter.layer_stats().map(|layer| layer.shape.bytes).max().unwrap() as usize;
        failing::above(largest + 64, || Filter::read_from(&bytes[..], u64::MAX).map(drop)).unwrap();
    }

    /// A header of many layers would be read for minutes: it would be copied for each piece that comes.
    #[test]
    fn a_long_header_is_read_in_steps_that_double() {
        let header = vec![0; 64 << 20];
        let file = [&Head::before(&header).bytes[..], &header].concat();
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
            let file = [&Head::before(&header).bytes[..], &header, &MAGIC].concat();
            let _ = Filter::read_from(&file[..], limit);
            let _ = Filter::of_chunks([(HEADER, &bytes[..])].into_iter().filter(|_| bytes.len() < 20));
        }
    }
}
