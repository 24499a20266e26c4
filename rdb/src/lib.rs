//! The Bloom filters in RDB files and in payloads of `DUMP`: those of RedisBloom, of valkey-bloom, and of this
//! project's module for Redis and Valkey.
//!
//! An RDB file is what `SAVE` and `BGSAVE` write, what clouds give as a backup, and the base of an append-only file.
//! [`filters`] walks a file and yields its filters; keys of every other type are skipped. [`Writer`] writes a file that
//! any of these servers loads, so that a filter can be built where the data is.
//!
//! ```
//! use libbloom::Filter;
//!
//! let mut seen = Filter::builder(1000, 0.01).build()?;
//! seen.insert("ann")?;
//! let mut file = Vec::new();
//! let mut writer = libbloom_rdb::Writer::new(&mut file)?;
//! writer.put(0, b"seen", &seen, None)?;
//! writer.finish()?;
//!
//! for entry in libbloom_rdb::filters(&file[..], u64::MAX) {
//!     let entry = entry?;
//!     assert_eq!((entry.db, &entry.key[..]), (0, &b"seen"[..]));
//!     assert!(entry.filter?.contains("ann"));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files of Redis up to RDB version 14 and of Valkey up to 81 are read; tests have files of Redis 6.2 and 7.4 and of
//! Valkey 9.1. A later version is an error, and so is a key of an unknown type, because its length cannot be known.
//!
//! A payload is the value of a single key: [`read_payload`] reads what `DUMP` gave, [`write_payload`] writes what
//! `RESTORE` takes.

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

mod input;
mod output;
mod skip;

use std::fmt;
use std::io::{self, BufReader, Read, Write};

use crc::{CRC_64_REDIS, Crc, Digest, Table};
use libbloom::chain::at_most;
use libbloom::codec;
use libbloom::{DecodeError, Filter, Time};

use input::{Input, Values};
use output::Output;

/// The checksum of RDB files and payloads.
type Checksum = Digest<'static, u64, Table<16>>;
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The version that is written, which every server since Redis 5 reads.
const WRITTEN: u16 = 9;
/// The first version that ends with a checksum.
const WITH_CHECKSUM: u16 = 5;
/// The newest version of Redis that is read.
const NEWEST_REDIS: u16 = 14;
/// The versions of Valkey that are read. Below them its files are Redis's.
const VALKEY: std::ops::RangeInclusive<u16> = 80..=81;
const MODULE: u8 = 7;
/// RedisBloom's type, and this project's.
const CLASSIC_TYPE: u64 = type_id(b"MBbloom--");
/// valkey-bloom's type.
const VALKEY_TYPE: u64 = type_id(b"bloomfltr");
/// Bits of a type's ID that are the encoding version.
const ENCODING_BITS: u64 = (1 << 10) - 1;

/// The server that wrote a file. The two use some numbers for different types and sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Redis,
    Valkey,
}

/// An RDB file or a DUMP payload that cannot be read.
///
/// ```
/// let mut filters = libbloom_rdb::filters(&b"REDIS0099"[..], u64::MAX);
/// let error = filters.next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "RDB version 99 is not known");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RdbError {
    /// The system could not read the file.
    Io(io::Error),
    /// The bytes begin neither as an RDB file nor as the payload of a filter.
    Magic,
    /// The version is not known: a later server wrote the bytes.
    Version(u16),
    /// The file or payload ends early.
    Truncated,
    /// The file has a section, or a key of a type, that is not known.
    Type(u8),
    /// The named part is not encoded as a server encodes it.
    Encoding(&'static str),
    /// The checksum is wrong.
    Checksum,
    /// More follows the end of the file, beginning with this byte: the commands of an append-only file, or anything.
    Behind(u8),
    /// The payload does not hold a filter.
    Filter(DecodeError),
}

impl From<io::Error> for RdbError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Magic => f.write_str(
                "this is no RDB file, and no payload of a filter (if it is compressed, decompress it first)",
            ),
            Self::Version(version) => write!(f, "RDB version {version} is not known"),
            Self::Truncated => f.write_str("the file or payload ends early"),
            Self::Type(kind) => write!(
                f,
                "the type or section {kind} is not known: a later server wrote it, or another one, such as Redis Enterprise"
            ),
            Self::Encoding(what) => write!(f, "{what} is not encoded as a server encodes it"),
            Self::Checksum => f.write_str("the checksum is wrong"),
            Self::Behind(b'*' | b'#') => f.write_str(
                "this is an append-only file: the commands that follow its RDB part are not read (read what BGSAVE writes)",
            ),
            Self::Behind(_) => f.write_str("more bytes follow the end of the RDB file"),
            Self::Filter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RdbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Filter(error) => Some(error),
            _ => None,
        }
    }
}

/// A key of an RDB file that holds a filter.
///
/// ```
/// # use libbloom::{DecodeError, Filter};
/// # let large = Filter::builder(1_000_000, 0.01).build()?;
/// # let mut writer = libbloom_rdb::Writer::new(Vec::new())?;
/// # writer.put(1, b"large", &large, Some(4_102_444_800_000))?;
/// # let file = writer.finish()?;
/// let entry = libbloom_rdb::filters(&file[..], 1 << 20).next().unwrap()?;
/// assert_eq!((entry.db, &entry.key[..]), (1, &b"large"[..]));
/// assert_eq!(entry.expires_at, Some(4_102_444_800_000));
/// assert!(matches!(entry.filter, Err(DecodeError::OutOfMemory { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The number of the database.
    pub db: u64,
    /// The name of the key.
    pub key: Vec<u8>,
    /// When the key expires, in milliseconds since 1970.
    pub expires_at: Option<Time>,
    /// The filter, or why it cannot be read. The keys after it can still be read.
    pub filter: Result<Filter, DecodeError>,
}

/// The filters of the RDB file that `reader` reads, in the file's order. Each may need `most` bytes of memory, and so
/// may the name of its key: a file of some hundred bytes can stand for an empty filter of any size.
///
/// The iterator reads the file a piece at a time, with up to twice the memory of a filter while it reads one. The
/// checksum is at the end of the file, and is only checked by an iterator that runs to its end. So is what follows: an
/// append-only file may begin as an RDB file, and the commands behind that are not read.
///
/// ```no_run
/// let file = std::fs::File::open("dump.rdb")?;
/// for entry in libbloom_rdb::filters(file, 1 << 30) {
///     let entry = entry?;
///     let name = String::from_utf8_lossy(&entry.key);
///     match entry.filter {
///         Ok(filter) => println!("{name}: {} items", filter.totals().items),
///         Err(error) => eprintln!("{name}: {error}"),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the iterator: [`RdbError`], after which it ends.
pub fn filters<R: Read>(reader: R, most: u64) -> Filters<R> {
    Filters {
        input: Input::new(BufReader::with_capacity(1 << 16, reader)),
        most,
        at: At::Start,
        db: 0,
        wants: |_, _| true,
    }
}

/// An iterator over the filters of an RDB file. [`filters`] makes it.
///
/// ```
/// # use libbloom_rdb::RdbError;
/// let mut filters = libbloom_rdb::filters(&b"GIF89a..."[..], u64::MAX);
/// assert!(matches!(filters.next(), Some(Err(RdbError::Magic))));
/// assert!(filters.next().is_none());
/// ```
pub struct Filters<R, W = fn(u64, &[u8]) -> bool> {
    input: Input<BufReader<R>>,
    most: u64,
    at: At,
    db: u64,
    wants: W,
}

impl<R, W> fmt::Debug for Filters<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filters(database {}, {:?})", self.db, self.at)
    }
}

impl<R, W> Filters<R, W> {
    /// Only the filters for whose database and key `wants` answers yes. The others are skipped, without memory for
    /// them.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # let filter = Filter::builder(1000, 0.01).build()?;
    /// # let mut writer = libbloom_rdb::Writer::new(Vec::new())?;
    /// # writer.put(0, b"seen", &filter, None)?;
    /// # writer.put(0, b"today", &filter, None)?;
    /// # let file = writer.finish()?;
    /// let mut today = libbloom_rdb::filters(&file[..], 1 << 30).only(|_db, key| key == b"today");
    /// assert_eq!(today.next().unwrap()?.key, b"today");
    /// assert!(today.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only<N: FnMut(u64, &[u8]) -> bool>(self, wants: N) -> Filters<R, N> {
        Filters {
            input: self.input,
            most: self.most,
            at: self.at,
            db: self.db,
            wants,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum At {
    Start,
    Entries { version: u16, dialect: Dialect },
    End,
}

impl<R: Read, W: FnMut(u64, &[u8]) -> bool> Iterator for Filters<R, W> {
    type Item = Result<Entry, RdbError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entry().transpose();
        if !matches!(entry, Some(Ok(_))) {
            self.at = At::End;
        }
        entry
    }
}

impl<R: Read, W: FnMut(u64, &[u8]) -> bool> std::iter::FusedIterator for Filters<R, W> {}

impl<R: Read, W: FnMut(u64, &[u8]) -> bool> Filters<R, W> {
    fn entry(&mut self) -> Result<Option<Entry>, RdbError> {
        let (version, dialect) = match self.at {
            At::Start => magic(&mut self.input)?,
            At::Entries { version, dialect } => (version, dialect),
            At::End => return Ok(None),
        };
        self.at = At::Entries { version, dialect };
        let input = &mut self.input;
        let mut expires_at = None;
        loop {
            match input.byte()? {
                // Metadata that modules attach to the next key.
                243 if dialect == Dialect::Redis => input.skip_metadata()?,
                // An import of slots: its name, then ranges of slots.
                243 => {
                    input.skip_string()?;
                    input.each(|input| input.skip_lengths(2))?;
                }
                // A slot, its number of keys, and the number of those that expire.
                244 => input.skip_lengths(3)?,
                // A library of functions.
                245 => input.skip_string()?,
                // What a module saves outside of keys: its ID, then values; the first says if before or after keys.
                247 => {
                    input.length()?;
                    input.skip_values()?;
                }
                // For the next key: the idle time (LRU), or the frequency (LFU).
                248 => input.skip_lengths(1)?,
                249 => input.skip(1)?,
                // A field about the file, such as the server's version: name and value.
                250 => {
                    input.skip_string()?;
                    input.skip_string()?;
                }
                // The number of keys in the database, and of those that expire.
                251 => input.skip_lengths(2)?,
                // The expiry of the next key, in milliseconds or seconds.
                252 => expires_at = Some(time(i64::from_le_bytes(input.bytes()?))),
                253 => {
                    let seconds = i32::from_le_bytes(input.bytes()?);
                    expires_at = Some(time(i64::from(seconds) * 1000));
                }
                254 => self.db = input.length()?,
                255 => {
                    if version >= WITH_CHECKSUM {
                        // A server that computes no checksum writes 0.
                        check(input, Some(0))?;
                    }
                    return input
                        .next_byte()?
                        .map_or(Ok(None), |byte| Err(RdbError::Behind(byte)));
                }
                MODULE => {
                    let (db, key, id) = (self.db, input.key(self.most)?, input.length()?);
                    if is_filter(id) && (self.wants)(db, &key) {
                        return Ok(Some(Entry {
                            db,
                            key,
                            expires_at,
                            filter: filter(input, id, self.most)?,
                        }));
                    }
                    input.skip_values()?;
                    expires_at = None;
                }
                kind => {
                    let skip = Input::skipper(kind, dialect).ok_or(RdbError::Type(kind))?;
                    input.skip_string()?;
                    skip(input)?;
                    expires_at = None;
                }
            }
        }
    }
}

/// Reads the magic and the version with which a file begins.
fn magic<R: Read>(input: &mut Input<R>) -> Result<(u16, Dialect), RdbError> {
    let magic = input.bytes::<9>().map_err(|error| match error {
        RdbError::Truncated => RdbError::Magic,
        error => error,
    })?;
    let (digits, dialect) = match &magic {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (&digits[..], Dialect::Redis),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (&digits[..], Dialect::Valkey),
        _ => return Err(RdbError::Magic),
    };
    let mut version = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(RdbError::Magic);
        }
        version = version * 10 + u16::from(digit - b'0');
    }
    let is_known = match dialect {
        Dialect::Redis => (1..=NEWEST_REDIS).contains(&version),
        Dialect::Valkey => VALKEY.contains(&version),
    };
    let known = is_known.then_some((version, dialect));
    known.ok_or(RdbError::Version(version))
}

/// Reads the checksum, and compares it with that of what was read before, and with what may stand in its place.
fn check<R: Read>(input: &mut Input<R>, in_its_place: Option<u64>) -> Result<(), RdbError> {
    let computed = input.checksum.clone().finalize();
    let stored = u64::from_le_bytes(input.bytes()?);
    let is_right = stored == computed || Some(stored) == in_its_place;
    is_right.then_some(()).ok_or(RdbError::Checksum)
}

fn is_filter(id: u64) -> bool {
    matches!(id & !ENCODING_BITS, CLASSIC_TYPE | VALKEY_TYPE)
}

/// Reads a filter, a value of the module's type `id`.
fn filter<R: Read>(
    input: &mut Input<R>,
    id: u64,
    most: u64,
) -> Result<Result<Filter, DecodeError>, RdbError> {
    let version = (id & ENCODING_BITS) as i32;
    let allowance = &at_most(most);
    let filter = Values::read(input, most, |values| {
        if id & !ENCODING_BITS == VALKEY_TYPE {
            codec::valkey::load(values, version, allowance).map(Filter::from)
        } else {
            codec::load(values, version, allowance)
        }
    })?;
    // A server saves a filter of which not all chunks were loaded, and must load it; it would deny items here.
    Ok(
        filter.and_then(|filter| match codec::chunks::has_bits_of_items(&filter) {
            true => Ok(filter),
            false => Err(DecodeError::Field("set bits: fewer than items")),
        }),
    )
}

/// A time as a server stores it. What was before 1970 has long expired.
fn time(milliseconds: i64) -> Time {
    u64::try_from(milliseconds).unwrap_or(0)
}

/// The ID of a module's type whose name is these nine letters, of 6 bits each, with no encoding version.
const fn type_id(name: &[u8; 9]) -> u64 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut id, mut at) = (0, 0);
    while at < name.len() {
        let mut letter = 0;
        while LETTERS[letter] != name[at] {
            letter += 1;
        }
        id = id << 6 | letter as u64;
        at += 1;
    }
    id << 10
}

/// The ID of the type that a filter is saved as, with the encoding version.
fn type_of(filter: &Filter) -> u64 {
    match filter.as_valkey() {
        Some(_) => VALKEY_TYPE | codec::valkey::ENCODING_VERSION as u64,
        None => CLASSIC_TYPE | codec::ENCODING_VERSION as u64,
    }
}

/// Writes an RDB file of filters. A server that has it as its `dump.rdb` when it starts has these keys.
///
/// ```
/// # use libbloom::Filter;
/// let seen = Filter::builder(1000, 0.01).build()?;
/// let mut writer = libbloom_rdb::Writer::new(Vec::new())?;
/// writer.put(0, b"seen", &seen, None)?;
/// writer.put(0, b"today", &seen, Some(4_102_444_800_000))?;
/// let file = writer.finish()?;
/// assert_eq!(libbloom_rdb::filters(&file[..], u64::MAX).count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<W> {
    output: Output<W>,
    db: u64,
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer(database {})", self.db)
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file. Small pieces are written: a [`BufWriter`](io::BufWriter) makes that fast.
    ///
    /// ```
    /// let file = libbloom_rdb::Writer::new(Vec::new())?.finish()?;
    /// assert!(file.starts_with(b"REDIS0009"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `writer`.
    pub fn new(writer: W) -> io::Result<Self> {
        let mut output = Output::new(writer);
        output.put(format!("REDIS{WRITTEN:04}").as_bytes());
        output.result()?;
        Ok(Self { output, db: 0 })
    }

    /// Writes a key: its database, its name, its filter, and when it expires, in milliseconds since 1970. A server
    /// refuses a file in which a key stands twice.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let filter = Filter::builder(1000, 0.01).build()?;
    /// let mut writer = libbloom_rdb::Writer::new(Vec::new())?;
    /// writer.put(3, b"seen", &filter, None)?;
    /// let file = writer.finish()?;
    /// let entry = libbloom_rdb::filters(&file[..], u64::MAX).next().unwrap()?;
    /// assert_eq!((entry.db, entry.key), (3, b"seen".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `writer`. The file cannot be used.
    pub fn put(&mut self, db: u64, key: &[u8], filter: &Filter, expires_at: Option<Time>) -> io::Result<()> {
        let output = &mut self.output;
        if db != self.db {
            output.put(&[254]);
            output.put_length(db);
            self.db = db;
        }
        if let Some(time) = expires_at {
            output.put(&[252]);
            output.put(&time.to_le_bytes());
        }
        output.put_filter(Some(key), filter);
        output.result()
    }

    /// Completes the file, and returns the writer.
    ///
    /// ```
    /// let file = libbloom_rdb::Writer::new(Vec::new())?.finish()?;
    /// assert_eq!(libbloom_rdb::filters(&file[..], 0).count(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the writer. The file cannot be used.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.put(&[255]);
        self.output.put_checksum();
        self.output.result()?;
        self.output.writer.flush()?;
        Ok(self.output.writer)
    }
}

/// Reads the payload that `DUMP` gave for a filter of RedisBloom, valkey-bloom or this project. The filter may need
/// `most` bytes of memory: a short payload can stand for an empty filter of any size.
///
/// ```
/// # use libbloom::Filter;
/// # use libbloom_rdb::{RdbError, read_payload, write_payload};
/// # let mut payload = Vec::new();
/// # write_payload(&Filter::builder(1000, 0.01).build()?, &mut payload)?;
/// let filter = read_payload(&payload, 1 << 20)?; // DUMP seen
/// payload[20] ^= 1;
/// assert!(matches!(read_payload(&payload, 1 << 20), Err(RdbError::Checksum)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RdbError`] for anything but a whole payload of a filter.
pub fn read_payload(payload: &[u8], most: u64) -> Result<Filter, RdbError> {
    let (value, end) = payload.split_last_chunk::<10>().ok_or(RdbError::Magic)?;
    let version = u16::from_le_bytes([end[0], end[1]]);
    if !(1..=NEWEST_REDIS).contains(&version) && !VALKEY.contains(&version) {
        return Err(RdbError::Version(version));
    }
    // All of it first: a payload that was damaged on its way is not to be called a bad filter.
    let mut whole = Input::new(payload);
    whole.skip(payload.len() as u64 - 8)?;
    check(&mut whole, None)?;
    let mut input = Input::new(value);
    let mut kind = input.byte().map_err(|_| RdbError::Magic)?;
    if kind == 243 {
        input.skip_metadata()?;
        kind = input.byte()?;
    }
    if kind != MODULE {
        return Err(RdbError::Magic);
    }
    let id = input.length()?;
    if !is_filter(id) {
        return Err(RdbError::Magic);
    }
    let filter = filter(&mut input, id, most)?.map_err(RdbError::Filter)?;
    match input.next_byte()? {
        None => Ok(filter),
        Some(_) => Err(RdbError::Encoding("what follows the value")),
    }
}

/// Writes the payload with which `RESTORE` makes the filter: as RedisBloom saves it for
/// [`Layout::Classic`](libbloom::Layout::Classic), as valkey-bloom does for
/// [`Layout::Valkey`](libbloom::Layout::Valkey). Any other filter needs this project's module in the
/// server.
///
/// A server accepts payloads up to `proto-max-bulk-len`, which is 512 MB unless it is configured. A larger filter
/// travels in chunks ([`Filter::of_chunks`]), or in an RDB file by [`Writer`].
///
/// ```
/// # use libbloom::{Filter, Layout};
/// let classic = Filter::builder(1000, 0.01).layout(Layout::Classic).build()?;
/// let mut payload = Vec::new();
/// libbloom_rdb::write_payload(&classic, &mut payload)?; // RESTORE seen 0 <payload>
/// assert_eq!(payload.first(), Some(&7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The error of `writer`.
pub fn write_payload(filter: &Filter, writer: impl Write) -> io::Result<()> {
    let mut output = Output::new(writer);
    output.put_filter(None, filter);
    output.put(&WRITTEN.to_le_bytes());
    output.put_checksum();
    output.result()?;
    output.writer.flush()
}

#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
