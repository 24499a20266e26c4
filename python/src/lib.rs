//! The native half of the Python package `libbloom`: the class `Filter`, and its errors.
//!
//! A filter is behind a lock, so that threads can share it. Bulk calls read items in chunks with the interpreter's
//! lock held, and let go of it while they hash and probe. No code of Python's runs, and no file is waited for, under
//! the filter's lock: a save writes the filter as it was, and who changes it meanwhile copies it first.

use std::fmt::Display;
use std::io::{self, BufReader, Read, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libbloom::codec::chunks;
use libbloom::exceptions::ExceptError;
use libbloom::params::{ErrorRate, Growth};
use libbloom::sets::Mismatch;
use libbloom::{BuildError, DecodeError, Error, FileError, Layout, SetError, ShrinkError, UNLIMITED};
use libbloom::{file, saving};
use pyo3::exceptions::{
    PyMemoryError, PyOSError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyIterator, PyList, PyMemoryView, PyString, PyTuple, PyType};

/// Items that are read before the interpreter's lock is let go: few enough to be in a near cache when they are hashed.
const CHUNK: usize = 2048;
/// Items that are read for several threads, which cost some microseconds to start.
const CHUNK_OF_THREADS: usize = 1 << 17;
/// Items that a thread takes of them at a time.
const PART: usize = 4096;

const MOST_BYTES: u64 = 1 << 60;

const BUFFER: usize = 1 << 20;

mod patient;
mod rdb;
mod shards;

mod errors {
    use pyo3::exceptions::{PyException, PyValueError};

    pyo3::create_exception!(
        libbloom,
        FormatError,
        PyValueError,
        "The bytes, or the file, are no whole filter."
    );
    pyo3::create_exception!(
        libbloom,
        FullError,
        PyException,
        "The filter is full, and may not grow."
    );
    pyo3::create_exception!(
        libbloom,
        SeedError,
        PyValueError,
        "The filters have different seeds, so that their bits mean different items."
    );
}
use errors::{FormatError, FullError, SeedError};

fn of_error(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Full { .. } | Error::TooManyLayers { .. } => FullError::new_err(text),
        Error::OverLimit { .. } | Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
    }
}

fn bad(why: impl Display) -> PyErr {
    PyValueError::new_err(why.to_string())
}

fn of_build_error(error: BuildError) -> PyErr {
    match error {
        BuildError::Filter(error) => of_error(error),
        error => bad(error),
    }
}

fn of_set_error(error: SetError) -> PyErr {
    match error {
        SetError::Source {
            why: Mismatch::Seed, ..
        } => SeedError::new_err("the filters have different seeds"),
        SetError::Source { why, .. } => bad(format_args!("the other filter does not fit: {why}")),
        SetError::Memory(error) => of_error(error),
        error => bad(error),
    }
}

fn of_except_error(error: ExceptError) -> PyErr {
    match error {
        ExceptError::Memory(error) => of_error(error),
        ExceptError::Foreign => bad("filters of another module's layout have no exceptions"),
        ExceptError::Window => bad("a filter with a window has no exceptions"),
        ExceptError::TooMany { exceptions } => bad(format_args!(
            "the filter has {exceptions} exceptions, and can have no more"
        )),
    }
}

/// The error for bytes that are no filter, or for the file at `path`.
fn of_file_error(error: FileError, path: Option<&Path>) -> PyErr {
    let text = named(&error, path);
    match (error, path) {
        (FileError::Io(error), Some(path)) => of_io_error(error, path),
        (FileError::Io(error), None) => PyErr::from(error),
        (FileError::TooLarge { .. }, _) => PyMemoryError::new_err(text),
        _ => FormatError::new_err(text),
    }
}

/// The text of an error, with the name of the file if there is one.
fn named(error: &impl Display, path: Option<&Path>) -> String {
    let path = path.map_or_else(String::new, |path| format!("{}: ", path.display()));
    format!("{path}{error}")
}

fn of_io_error(error: io::Error, path: &Path) -> PyErr {
    let Some(code) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::InvalidInput => PyOSError::new_err(named(&error, Some(path))),
            // It may be an exception of Python.
            _ => PyErr::from(error),
        };
    };
    // Python writes the number itself, and chooses the class by it.
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((code, text, path.to_path_buf()))
}

/// The bytes of an item that cannot change; a str gives its UTF-8.
fn lasting<'a>(item: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    if let Ok(text) = item.cast::<PyString>() {
        return Ok(Some(text.to_str()?.as_bytes()));
    }
    Ok(item.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes()))
}

/// A bytearray or memoryview of bytes as it is now, because others may change it; anything else as it is.
fn as_it_is<'py>(item: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if item.is_instance_of::<PyString>() || item.is_instance_of::<PyBytes>() {
        return Ok(item);
    }
    if let Ok(bytes) = item.cast::<PyByteArray>() {
        return Ok(PyBytes::new(item.py(), &bytes.to_vec()).into_any());
    }
    if let Ok(view) = item.cast::<PyMemoryView>() {
        if !matches!(view.getattr("format")?.extract()?, "B" | "b" | "c") {
            return Err(PyTypeError::new_err(
                "a memoryview as an item must be of bytes: use .cast('B')",
            ));
        }
        return view.call_method0("tobytes");
    }
    Ok(item)
}

fn with_item<T>(item: &Bound<'_, PyAny>, take: impl FnOnce(&[u8]) -> PyResult<T>) -> PyResult<T> {
    if let Some(bytes) = lasting(item)? {
        return take(bytes);
    }
    take(lasting(&as_it_is(item.clone())?)?.ok_or_else(|| no_item(item))?)
}

fn no_item(item: &Bound<'_, PyAny>) -> PyErr {
    match item.get_type().name() {
        Ok(name) => PyTypeError::new_err(format!("items are str or bytes, not {name}")),
        Err(error) => error,
    }
}

/// The error of an object that is no item, with its position among the others.
fn located(py: Python<'_>, error: PyErr, position: usize) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) {
        return PyTypeError::new_err(format!("{} (at position {position})", error.value(py)));
    }
    error
}

/// A file object of Python's, open for bytes.
struct FileObject(Py<PyAny>);

impl FileObject {
    /// None for an object without this method, which is a path.
    fn of(object: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Self>> {
        if !object.hasattr(method)? {
            return Ok(None);
        }
        let text = object.py().import("io")?.getattr("TextIOBase")?;
        if object.is_instance(&text)? {
            return Err(PyTypeError::new_err(
                "the file is open for text: open it in binary mode, 'rb' or 'wb'",
            ));
        }
        Ok(Some(Self(object.clone().unbind())))
    }
}

impl Read for FileObject {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let data = self.0.call_method1(py, "read", (buffer.len(),))?;
            let data = as_it_is(data.into_bound(py))?;
            let Ok(bytes) = data.cast::<PyBytes>() else {
                let name = data.get_type().name()?;
                return Err(
                    PyTypeError::new_err(format!("read() of the file gave {name}, not bytes")).into(),
                );
            };
            let bytes = bytes.as_bytes();
            let more = || bad("read() of the file gave more bytes than were asked for");
            let room = buffer.get_mut(..bytes.len()).ok_or_else(more)?;
            room.copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }
}

impl Write for FileObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let written = self.0.call_method1(py, "write", (PyBytes::new(py, bytes),))?;
            // Some objects do not say that they have taken all.
            let written: Option<usize> = written.extract(py)?;
            match written.unwrap_or(bytes.len()) {
                count if count <= bytes.len() => Ok(count),
                _ => Err(bad("write() of the file took more bytes than there were").into()),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Python::attach(|py| {
            if let Some(flush) = self.0.bind(py).getattr_opt("flush")? {
                flush.call0()?;
            }
            Ok(())
        })
    }
}

/// A path as Python takes them everywhere: a str, bytes or an os.PathLike.
fn path_of(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path = path.py().import("os")?.call_method1("fsdecode", (path,))?;
    path.extract()
}

/// The time for a call to `filter`. Only a window needs one: no other filter reads the clock, or looks at `now`.
fn time(filter: &libbloom::Filter, now: Option<f64>) -> PyResult<u64> {
    filter.window().map_or(Ok(0), |_| milliseconds(now))
}

/// The time of an addition to `filter`: the present one, which is right, or one that the caller names.
fn time_to_add(filter: &mut libbloom::Filter, now: Option<f64>) -> PyResult<u64> {
    let at = time(filter, now)?;
    Ok(if now.is_some() { filter.named_time(at) } else { at })
}

/// `now` in milliseconds of the Unix clock: it was given in seconds, or is the present time.
fn milliseconds(now: Option<f64>) -> PyResult<u64> {
    match now {
        None => Ok(SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis() as u64),
        Some(seconds) if (0.0..4e15).contains(&seconds) => Ok((seconds * 1000.0) as u64),
        Some(_) => Err(bad("now must be seconds of the Unix clock")),
    }
}

/// A Python number, also 1e6, or None. One that is negative, too large or not whole raises ValueError.
fn number<'py, T>(value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let whole = if let Some(is_whole) = value.getattr_opt("is_integer")? {
        if !is_whole.call0()?.is_truthy()? {
            return Err(bad(format!("{value} is no whole number")));
        }
        &value.call_method0("__int__")?
    } else {
        value
    };
    whole.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            bad(format!("{value} is out of range"))
        } else {
            error
        }
    })
}

/// Items that are read chunk by chunk, and the number of those that were read.
struct Items<'py>(Source<'py>, usize);

enum Source<'py> {
    /// Items of an iterable, and the error with which it ended.
    Each(Bound<'py, PyIterator>, Option<PyErr>),
    /// Items of a list, which other threads may change meanwhile.
    List(Bound<'py, PyList>),
    /// Items of a numpy array, each of `width` bytes. Those of numpy's type S end before the zeros at their end.
    Array {
        array: Bound<'py, PyAny>,
        width: usize,
        length: usize,
        is_text: bool,
    },
}

/// A chunk of items. It keeps their objects alive.
enum Chunk<'py> {
    /// With the number of items before them.
    Each(Bound<'py, PyTuple>, usize),
    Array {
        data: Bound<'py, PyBytes>,
        width: usize,
        is_text: bool,
    },
}

impl<'py> Items<'py> {
    fn of(items: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = items.cast::<PyList>() {
            return Ok(Self(Source::List(list.clone()), 0));
        }
        // `Bloom` reads its items with this function too, so that both take the same arrays.
        let words = items.py().import("libbloom._words")?;
        let items = words.call_method1("flat", (items,))?;
        if !words.call_method1("is_array", (&items,))?.is_truthy()? {
            return Ok(Self(Source::Each(items.try_iter()?, None), 0));
        }
        let dtype = items.getattr("dtype")?;
        let array = Source::Array {
            width: dtype.getattr("itemsize")?.extract()?,
            length: items.len()?,
            is_text: dtype.getattr("kind")?.extract::<char>()? == 'S',
            array: items,
        };
        Ok(Self(array, 0))
    }

    /// Whether the items came in a numpy array, so that the answers go into one too.
    fn is_array(&self) -> bool {
        matches!(self.0, Source::Array { .. })
    }

    /// The next chunk of at most `most` items.
    fn next(&mut self, most: usize) -> PyResult<Option<Chunk<'py>>> {
        let Self(source, read) = self;
        match source {
            Source::Each(items, error) => {
                if let Some(error) = error.take() {
                    return Err(error);
                }
                let py = items.py();
                let mut chunk = Vec::with_capacity(most.min(CHUNK));
                for item in items.by_ref().take(most) {
                    let position = *read + chunk.len();
                    // An iterator may give one buffer again and again, with other bytes in it.
                    match item.and_then(|item| as_it_is(item).map_err(|error| located(py, error, position))) {
                        Ok(item) => chunk.push(item),
                        // What came before is taken first.
                        Err(raised) if chunk.is_empty() => return Err(raised),
                        Err(raised) => {
                            *error = Some(raised);
                            break;
                        }
                    }
                }
                let begin = *read;
                *read += chunk.len();
                let chunk = PyTuple::new(py, chunk)?;
                Ok((!chunk.is_empty()).then_some(Chunk::Each(chunk, begin)))
            }
            Source::List(list) => {
                let begin = *read;
                *read = begin.saturating_add(most);
                let chunk = list.get_slice(begin, *read).to_tuple();
                Ok((!chunk.is_empty()).then_some(Chunk::Each(chunk, begin)))
            }
            Source::Array {
                array,
                width,
                length,
                is_text,
            } => {
                if *read >= *length {
                    return Ok(None);
                }
                let end = read.saturating_add(most).min(*length);
                let slice = pyo3::types::PySlice::new(array.py(), *read as isize, end as isize, 1);
                let data = array.get_item(slice)?.call_method0("tobytes")?;
                *read = end;
                Ok(Some(Chunk::Array {
                    data: data.cast_into::<PyBytes>()?,
                    width: *width,
                    is_text: *is_text,
                }))
            }
        }
    }
}

impl Chunk<'_> {
    /// Passes the bytes of the items to `take`, up to the first object that is no item, whose error it then returns.
    fn with_slices<T>(&self, take: impl FnOnce(&[&[u8]]) -> PyResult<T>) -> PyResult<T> {
        match self {
            Self::Each(items, begin) => {
                let py = items.py();
                let items: Vec<_> = items.iter_borrowed().collect();
                let (slices, error) = slices_of(items.iter().map(|item| &**item));
                if error.is_none() {
                    return take(&slices);
                }
                let mut error = None;
                let copies = items.iter().map_while(|&item| {
                    let copy = as_it_is(item.to_owned());
                    copy.map_err(|raised| error = Some(raised)).ok()
                });
                let copies: Vec<_> = copies.collect();
                let (slices, raised) = slices_of(copies.iter());
                let taken = take(&slices)?;
                let position = begin + slices.len();
                raised
                    .or(error)
                    .map_or(Ok(taken), |error| Err(located(py, error, position)))
            }
            Self::Array { data, width, is_text } => {
                let items = data.as_bytes().chunks_exact(*width);
                let slices: Vec<_> = if *is_text {
                    items.map(without_zeros).collect()
                } else {
                    items.collect()
                };
                take(&slices)
            }
        }
    }
}

/// The bytes of items up to the first object whose bytes may change, or that is none; and the error of that.
fn slices_of<'a, 'py: 'a>(
    items: impl Iterator<Item = &'a Bound<'py, PyAny>>,
) -> (Vec<&'a [u8]>, Option<PyErr>) {
    let mut slices = Vec::with_capacity(items.size_hint().0);
    for item in items {
        match lasting(item).and_then(|bytes| bytes.ok_or_else(|| no_item(item))) {
            Ok(bytes) => slices.push(bytes),
            Err(raised) => return (slices, Some(raised)),
        }
    }
    (slices, None)
}

/// A fixed string as numpy gives it.
fn without_zeros(item: &[u8]) -> &[u8] {
    let last = item.iter().rposition(|&byte| byte != 0);
    &item[..last.map_or(0, |last| last + 1)]
}

/// A Bloom filter: a set of str or bytes that says "not there" for certain, and "there" with a small chance of
/// being wrong.
///
/// It is made for `capacity` items, and answers queries for absent items wrongly with the probability `error_rate` at
/// most. When it is full it grows, and keeps that rate. A str and its UTF-8 bytes are one item; a bytearray or a
/// memoryview is the bytes that it has now.
///
/// >>> seen = Filter(1_000_000, 0.001)
/// >>> seen.add("https://example.com/")
/// True
/// >>> "https://example.com/" in seen
/// True
///
/// fixed: it never grows, and raises FullError instead.
/// growing: it is expected to outgrow its capacity by far, and shares its rate out for that.
/// expansion: each further layer is for so many times as many items (1 to 32768; default 2).
/// seed: filters with the same one can be united. Without it, all filters of a process share a random one.
/// layout: "blocked", this project's own; "classic", RedisBloom's; "valkey", valkey-bloom's.
/// window: items expire after so many seconds (1 to 2^32 - 1).
/// slices: the window forgets in so many steps (2 to 64; default 8).
/// refresh: an item that is added again to a window is remembered for a whole window from then on.
#[pyclass(frozen, module = "libbloom", name = "Filter")]
struct Filter(RwLock<Held>);

/// A filter, shared with the saves that are under way.
#[derive(Clone)]
enum Held {
    Own(Arc<libbloom::Filter>),
    /// In a mapped file, which is only read.
    Mapped(Arc<libbloom::MappedFilter>),
}

impl Deref for Held {
    type Target = libbloom::Filter;

    fn deref(&self) -> &libbloom::Filter {
        match self {
            Self::Own(filter) => filter,
            Self::Mapped(filter) => filter,
        }
    }
}

/// The filter for a change, while it is locked. If a save is under way, that keeps what was there, and this is a copy.
fn changed(filter: &mut Held) -> PyResult<&mut libbloom::Filter> {
    let Held::Own(filter) = filter else {
        let why = "the filter is in a file that was opened, and cannot be changed: its copy() can";
        return Err(bad(why));
    };
    if Arc::strong_count(filter) > 1 {
        *filter = Arc::new(filter.try_clone().map_err(of_error)?);
    }
    Arc::get_mut(filter).ok_or_else(ended_early)
}

impl Filter {
    fn of(filter: libbloom::Filter) -> Self {
        Self(RwLock::new(Held::Own(Arc::new(filter))))
    }

    /// The filter as it is now, whatever is added later. No thread holds the locks of two filters.
    fn as_it_stands(&self, py: Python<'_>) -> Held {
        self.read(py).clone()
    }

    /// Locks the filter for reading. A thread that waits for the lock releases the interpreter's.
    fn read(&self, py: Python<'_>) -> RwLockReadGuard<'_, Held> {
        loop {
            match self.0.try_read() {
                Ok(filter) => return filter,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.0.read())),
            }
        }
    }

    /// Locks the filter for a change, as [`Self::read`] does.
    fn write(&self, py: Python<'_>) -> RwLockWriteGuard<'_, Held> {
        loop {
            match self.0.try_write() {
                Ok(filter) => return filter,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.0.write())),
            }
        }
    }

    /// Adds a chunk of items, and counts those that were new. The interpreter's lock is not needed.
    fn insert_chunk<'a>(&self, items: impl Iterator<Item = &'a [u8]>, now: Option<f64>) -> PyResult<u64> {
        let mut filter = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let filter = changed(&mut filter)?;
        let now = time_to_add(filter, now)?;
        let mut new = 0;
        let added = filter.add_blocks(items, now, UNLIMITED, |block| new += block.new.count_ones());
        added.map_err(of_error).map(|()| new)
    }

    /// Adds the lines of a block, and copies those that were new, each with its end. Also counts them.
    fn insert_lines(&self, block: &[u8], end: u8) -> PyResult<(u64, Vec<u8>)> {
        let mut filter = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let filter = changed(&mut filter)?;
        let now = time(filter, None)?;
        // The last line may lack its end.
        let mut kept = room_for(block.len() + 1)?;
        let (mut rest, mut new) = (block, 0);
        let is_text = end == b'\n';
        let items = lines(block, end).map(|line| match line.strip_suffix(b"\r") {
            Some(text) if is_text => text,
            _ => line,
        });
        let added = filter.add_all(items, now, UNLIMITED, |is_new| {
            let length = memchr::memchr(end, rest).unwrap_or(rest.len());
            if is_new {
                kept.extend_from_slice(&rest[..length]);
                kept.push(end);
                new += 1;
            }
            rest = rest.get(length + 1..).unwrap_or_default();
        });
        added.map_err(of_error)?;
        Ok((new, kept))
    }

    /// Adds items in order, in another thread than the one that reads them; `None` if the system starts no thread.
    fn update_beside(
        &self,
        py: Python<'_>,
        items: &mut Items<'_>,
        now: Option<f64>,
    ) -> Option<PyResult<u64>> {
        let (send, receive) = sync_channel::<Packed>(1);
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().spawn_scoped(scope, move || {
                let mut new = 0;
                for packed in receive {
                    new += self.insert_chunk(packed.items(), now)?;
                }
                PyResult::Ok(new)
            });
            let worker = worker.ok()?;
            let mut read = || {
                let mut is_taken = true;
                while is_taken && let Some(chunk) = items.next(CHUNK_OF_THREADS / 8)? {
                    chunk.with_slices(|items| {
                        let packed = Packed::of(items)?;
                        // A worker that failed takes no more, and tells why below.
                        is_taken = py.detach(|| send.send(packed)).is_ok();
                        Ok(())
                    })?;
                }
                PyResult::Ok(())
            };
            let read = read();
            drop(send);
            let added = py.detach(|| worker.join());
            let added = added.map_err(|_| ended_early());
            Some(read.and_then(|()| added?))
        })
    }
}

/// The lines of a block without their ends; the last one may lack it.
fn lines(block: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    let ends = memchr::memchr_iter(end, block);
    let last = block.last().filter(|&&last| last != end).map(|_| block.len());
    ends.chain(last).scan(0, |begin, end| {
        let line = block.get(*begin..end);
        *begin = end + 1;
        line
    })
}

/// An empty list with room for `count` values, or an error that Python can catch.
fn room_for<T>(count: usize) -> PyResult<Vec<T>> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| PyMemoryError::new_err("there is no memory for so many items"))?;
    Ok(list)
}

fn ended_early() -> PyErr {
    PyRuntimeError::new_err("a thread of the filter ended early")
}

/// The bytes of items end to end, to be passed to another thread.
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn of(items: &[&[u8]]) -> PyResult<Self> {
        let mut bytes = room_for(items.iter().map(|item| item.len()).sum())?;
        let mut ends = room_for(items.len())?;
        for item in items {
            bytes.extend_from_slice(item);
            ends.push(bytes.len());
        }
        Ok(Self { bytes, ends })
    }

    fn items(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(begin, &end)| &self.bytes[begin..end])
    }
}

fn builder(
    capacity: u64,
    error_rate: f64,
    layout: &str,
    fixed: bool,
    growing: bool,
) -> PyResult<libbloom::Builder> {
    let mut builder = libbloom::Filter::builder(capacity, error_rate);
    let stored = Layout::ALL.iter().find(|stored| stored.name() == layout);
    let unknown = || bad("layout must be 'blocked', 'classic' or 'valkey'");
    builder = builder.layout(*stored.ok_or_else(unknown)?);
    if fixed {
        builder = builder.fixed();
    }
    if growing {
        builder = builder.growing();
    }
    Ok(builder)
}

/// The builder with these options too; the window is in seconds.
fn with_options(
    mut builder: libbloom::Builder,
    expansion: Option<u32>,
    window: Option<u64>,
    slices: Option<u8>,
) -> libbloom::Builder {
    if let Some(expansion) = expansion {
        builder = builder.expansion(expansion);
    }
    if let Some(seconds) = window {
        builder = builder.window(Duration::from_secs(seconds));
    }
    if let Some(slices) = slices {
        builder = builder.slices(slices);
    }
    builder
}

/// The size of a filter that counts `items` (default: its capacity), without making it: its bytes, its layers,
/// and its error rate when the newest layer is full. None if it cannot hold so many items.
#[pyfunction]
#[pyo3(signature = (capacity, error_rate=0.01, *, items=None, fixed=false, growing=false, expansion=None,
    layout="blocked", window=None, slices=None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
fn plan(
    #[pyo3(from_py_with = number)] capacity: u64,
    error_rate: f64,
    #[pyo3(from_py_with = number)] items: Option<u64>,
    fixed: bool,
    growing: bool,
    #[pyo3(from_py_with = number)] expansion: Option<u32>,
    layout: &str,
    #[pyo3(from_py_with = number)] window: Option<u64>,
    #[pyo3(from_py_with = number)] slices: Option<u8>,
) -> PyResult<Option<(u64, usize, f64)>> {
    let builder = builder(capacity, error_rate, layout, fixed, growing)?;
    let builder = with_options(builder, expansion, window, slices);
    let items = items.unwrap_or(capacity);
    let plan = builder.plan(items).map_err(of_build_error)?;
    // No machine has the memory for more, and sums that are too large stop at the largest number.
    let stage = plan.at(items).filter(|stage| stage.bytes < MOST_BYTES);
    Ok(stage.map(|stage| (stage.bytes, stage.layers, stage.error_rate)))
}

/// The capacity of a filter whose first layer takes at most `bytes` bytes, and can be shrunk to nearly any smaller size.
#[pyfunction]
#[pyo3(signature = (bytes, error_rate, *, fixed=false, growing=false, layout="blocked"))]
fn capacity_for(
    #[pyo3(from_py_with = number)] bytes: u64,
    error_rate: f64,
    fixed: bool,
    growing: bool,
    layout: &str,
) -> PyResult<u64> {
    let builder = builder(1, error_rate, layout, fixed, growing)?;
    builder.capacity_for(bytes).map_err(of_build_error)
}

/// Appends to `answers` whether each of `items` is in the filter, with up to `threads` threads.
fn ask(
    filter: &libbloom::Filter,
    items: &[&[u8]],
    now: u64,
    threads: usize,
    answers: &mut Vec<bool>,
) -> PyResult<()> {
    let begin = answers.len();
    let reserved = answers.try_reserve(items.len());
    reserved.map_err(|_| PyMemoryError::new_err("there is no memory for so many answers"))?;
    if threads <= 1 || items.len() <= PART {
        filter.contains_all(items.iter().copied(), now, |found| answers.push(found));
        return Ok(());
    }
    answers.resize(begin + items.len(), false);
    let parts = items.chunks(PART).zip(answers[begin..].chunks_mut(PART));
    let helpers = threads.min(parts.len()) - 1;
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((items, answers)) = next() {
            let mut answers = answers.iter_mut();
            filter.contains_all(items.iter().copied(), now, |found| {
                if let Some(answer) = answers.next() {
                    *answer = found;
                }
            });
        }
    };
    std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let started: Vec<_> = (0..helpers).map_while(start).collect();
        work();
        // All of them are waited for, whichever failed.
        let ended = started.into_iter().map(|thread| thread.join());
        let failed = ended.filter(Result::is_err).count();
        if failed == 0 { Ok(()) } else { Err(ended_early()) }
    })
}

/// A copy of `bytes`. Without memory for it, an error that Python can catch; `PyBytes::new` would panic.
fn copied<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: the call copies this many bytes, which it may read, and the interpreter's lock is held.
    let copy = unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize) };
    // SAFETY: it is a new object, which nobody else owns, or null with an error set.
    let copy = unsafe { Bound::from_owned_ptr_or_err(py, copy) };
    Ok(copy?.cast_into()?)
}

fn list_of<'py>(py: Python<'py>, answers: &[bool]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::new(py, [false])?.as_sequence().repeat(answers.len())?;
    let list = list.cast_into::<PyList>()?;
    for (at, _) in answers.iter().enumerate().filter(|(_, answer)| **answer) {
        list.set_item(at, true)?;
    }
    Ok(list)
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (capacity, error_rate=0.01, *, fixed=false, growing=false, expansion=None, seed=None,
        layout="blocked", window=None, slices=None, refresh=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        #[pyo3(from_py_with = number)] capacity: u64,
        error_rate: f64,
        fixed: bool,
        growing: bool,
        #[pyo3(from_py_with = number)] expansion: Option<u32>,
        #[pyo3(from_py_with = number)] seed: Option<u64>,
        layout: &str,
        #[pyo3(from_py_with = number)] window: Option<u64>,
        #[pyo3(from_py_with = number)] slices: Option<u8>,
        refresh: bool,
    ) -> PyResult<Self> {
        let builder = builder(capacity, error_rate, layout, fixed, growing)?;
        let mut builder = with_options(builder, expansion, window, slices);
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        if refresh {
            builder = builder.refresh();
        }
        builder.build().map(Self::of).map_err(of_build_error)
    }

    /// Adds an item. True if it was not in the filter before. In a window it is added at `now`, in seconds of the
    /// Unix clock; other filters take no notice of `now`.
    #[pyo3(signature = (item, *, now=None))]
    fn add(&self, py: Python<'_>, item: &Bound<'_, PyAny>, now: Option<f64>) -> PyResult<bool> {
        with_item(item, |bytes| {
            let mut filter = self.write(py);
            let filter = changed(&mut filter)?;
            let now = time_to_add(filter, now)?;
            filter.add(bytes, now, UNLIMITED).map_err(of_error)
        })
    }

    fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_item(item, |bytes| {
            let filter = self.read(py);
            Ok(filter.contains_at(bytes, time(&filter, None)?))
        })
    }

    /// Adds all items of an iterable, or of a numpy array (each element's bytes, little-endian), and counts those that
    /// were new. Other threads run meanwhile. With `threads` above 1, items are read in one thread and added in another,
    /// with the same result.
    #[pyo3(signature = (items, *, threads=1, now=None))]
    fn update(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number)] threads: usize,
        now: Option<f64>,
    ) -> PyResult<u64> {
        if threads == 0 {
            return Err(bad("threads must be 1 or more"));
        }
        let mut items = Items::of(items)?;
        if threads > 1
            && let Some(added) = self.update_beside(py, &mut items, now)
        {
            return added;
        }
        let mut new = 0;
        while let Some(chunk) = items.next(CHUNK)? {
            new += chunk.with_slices(|items| py.detach(|| self.insert_chunk(items.iter().copied(), now)))?;
        }
        Ok(new)
    }

    /// Whether each item is in the filter, in the order of the items: a list of bool, or for a numpy array an
    /// array of bool. Other threads run meanwhile.
    #[pyo3(signature = (items, *, threads=1, now=None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        items: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = number)] threads: usize,
        now: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if threads == 0 {
            return Err(bad("threads must be 1 or more"));
        }
        let mut items = Items::of(items)?;
        let most = if threads > 1 { CHUNK_OF_THREADS } else { CHUNK };
        let mut all = Vec::new();
        while let Some(chunk) = items.next(most)? {
            chunk.with_slices(|items| {
                py.detach(|| {
                    let filter = self.0.read().unwrap_or_else(PoisonError::into_inner);
                    ask(&filter, items, time(&filter, now)?, threads, &mut all)
                })
            })?;
        }
        if items.is_array() {
            let bytes = PyByteArray::new_with(py, all.len(), |bytes| {
                let answers = bytes.iter_mut().zip(&all);
                answers.for_each(|(byte, &found)| *byte = found.into());
                Ok(())
            });
            return py.import("numpy")?.call_method1("frombuffer", (bytes?, "bool"));
        }
        Ok(list_of(py, &all)?.into_any())
    }

    /// Takes items out, until they are added again, and counts those that were there. No other answer changes.
    fn except_(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut items = Items::of(items)?;
        let mut excepted = 0;
        while let Some(chunk) = items.next(CHUNK)? {
            chunk.with_slices(|items| {
                let mut filter = self.write(py);
                let count = |items: libbloom::chain::batch::Subset, _| excepted += items.count_ones();
                let result = changed(&mut filter)?.except(items.iter().copied(), UNLIMITED, count);
                result.map_err(of_except_error)
            })?;
        }
        Ok(excepted)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let filter = self.read(py);
        let items = filter.items_at(time(&filter, None)?);
        Ok(usize::try_from(items).unwrap_or(usize::MAX))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.__len__(py)? > 0)
    }

    /// An equal filter with memory of its own.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        let filter = &*self.read(py);
        let copy = py.detach(|| filter.try_clone());
        copy.map(Self::of).map_err(of_error)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.copy(py)
    }

    /// Takes all items out. Parameters stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let filter = &mut *self.write(py);
        py.detach(|| changed(filter)?.clear().map_err(of_error))
    }

    /// Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
    /// the bytes that were given back. Raises ValueError for a filter with a window, or of valkey-bloom's layout.
    #[pyo3(signature = (capacity=None))]
    fn shrink(&self, py: Python<'_>, #[pyo3(from_py_with = number)] capacity: Option<u64>) -> PyResult<u64> {
        let filter = &mut *self.write(py);
        let shrunk = py.detach(|| PyResult::Ok(changed(filter)?.shrink_to(capacity.unwrap_or(0))));
        shrunk?.map_err(|error| match error {
            ShrinkError::Memory(error) => of_error(error),
            error => bad(error),
        })
    }

    /// Adds all items of other filters, of any size. True if that changed anything. Layers of one shape are united if all
    /// their items fit into one layer. Others stay layers of their own, whose error rates add up: if they need more than
    /// the filter's, its `error_rate` becomes that much, unless one is given.
    #[pyo3(signature = (*others, error_rate=None))]
    fn merge(&self, py: Python<'_>, others: Vec<Bound<'_, Self>>, error_rate: Option<f64>) -> PyResult<bool> {
        let rate = error_rate.map(ErrorRate::new).transpose().map_err(bad)?;
        let mut has_changed = false;
        for other in others {
            if std::ptr::eq(other.get(), self) {
                continue;
            }
            let (other, own) = (&*other.get().as_it_stands(py), &mut *self.write(py));
            let united = py.detach(|| {
                let own = changed(own)?;
                PyResult::Ok(match rate {
                    None => own.union_with(other),
                    rate => own.absorb(&[other], rate, UNLIMITED),
                })
            });
            has_changed |= united?.map_err(of_set_error)?;
        }
        Ok(has_changed)
    }

    fn __ior__(&self, py: Python<'_>, other: Bound<'_, Self>) -> PyResult<()> {
        self.merge(py, vec![other], None).map(drop)
    }

    fn __or__(&self, py: Python<'_>, other: Bound<'_, Self>) -> PyResult<Self> {
        let union = self.copy(py)?;
        union.merge(py, vec![other], None)?;
        Ok(union)
    }

    fn __and__(&self, py: Python<'_>, other: Bound<'_, Self>) -> PyResult<Self> {
        let (own, other) = (self.as_it_stands(py), other.get().as_it_stands(py));
        let common = py.detach(|| own.intersection_with(&other));
        common.map(Self::of).map_err(of_set_error)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(false);
        };
        if std::ptr::eq(other.get(), self) {
            return Ok(true);
        }
        let (own, other) = (self.as_it_stands(py), other.get().as_it_stands(py));
        Ok(py.detach(|| *own == *other))
    }

    /// Items that the layers are made for; of a window, the items that are expected in it.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> u64 {
        self.read(py).totals().capacity
    }

    /// The probability that a query for an absent item is answered wrongly, at most.
    #[getter]
    fn error_rate(&self, py: Python<'_>) -> f64 {
        self.read(py).error_rate()
    }

    /// The probability that a query for an absent item is answered wrongly now, with the items that are in
    /// the filter.
    #[getter]
    fn estimated_error_rate(&self, py: Python<'_>) -> PyResult<f64> {
        let filter = self.read(py);
        Ok(filter.estimated_error_rate_at(time(&filter, None)?))
    }

    /// Bytes of the filter. In a large filter only the pages that were written to take memory.
    #[getter]
    fn size_in_bytes(&self, py: Python<'_>) -> u64 {
        self.read(py).bytes()
    }

    /// The share of the bits that is set.
    #[getter]
    fn fill_ratio(&self, py: Python<'_>) -> PyResult<f64> {
        let filter = self.read(py);
        Ok(filter.totals_at(time(&filter, None)?).fill_ratio())
    }

    /// The number of layers: 1, and one more each time the filter grew.
    #[getter]
    fn layers(&self, py: Python<'_>) -> usize {
        self.read(py).layers()
    }

    /// Items that were taken out by `except_`.
    #[getter]
    fn exceptions(&self, py: Python<'_>) -> u64 {
        self.read(py).exceptions()
    }

    /// The capacity of a new layer divided by that of the layer before it; None if the filter never grows.
    #[getter]
    fn expansion(&self, py: Python<'_>) -> Option<u32> {
        self.read(py).expansion()
    }

    /// Whether the filter never grows.
    #[getter]
    fn fixed(&self, py: Python<'_>) -> bool {
        self.read(py).expansion().is_none()
    }

    /// Whether the filter is expected to outgrow its capacity by far.
    #[getter]
    fn growing(&self, py: Python<'_>) -> bool {
        matches!(self.read(py).growth(), Some(Growth::Growing(_)))
    }

    /// The seed of the hash; None in the layouts "classic", which has none, and "valkey", whose seeds are no
    /// numbers.
    #[getter]
    fn seed(&self, py: Python<'_>) -> Option<u64> {
        self.read(py).seed().map(|seed| seed.0)
    }

    /// The layout: "blocked", "classic" or "valkey".
    #[getter]
    fn layout(&self, py: Python<'_>) -> &'static str {
        self.read(py).layout().name()
    }

    /// The window in seconds; None if items never expire.
    #[getter]
    fn window(&self, py: Python<'_>) -> Option<u32> {
        self.read(py).window().map(|window| window.seconds())
    }

    /// Writes the filter, as it is at this moment, to a file, which gets its name when it is complete and on the disk, or
    /// to a file object that is open for bytes. A new file is readable for its owner only; one that was there keeps its
    /// permissions. Other threads can add meanwhile: the first one to do so copies the filter, which takes its memory a
    /// second time until the file is written.
    fn save(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let filter = self.as_it_stands(py);
        if let Some(file) = FileObject::of(path, "write")? {
            return Ok(py.detach(|| filter.write_to(file))?);
        }
        let path = path_of(path)?;
        if let Some(mut file) = patient::opened_to_write(py, &path)? {
            let written = py.detach(|| filter.write_to(&mut file).and_then(|()| file.sync()));
            return written.map_err(|error| of_io_error(error, &path));
        }
        let saved = py.detach(|| {
            saving::replace(&path, |file| {
                filter.write_to(saving::WithHoles::over(file, patient::Patient::over(file)?)?)
            })
        });
        saved.map_err(|error| of_io_error(error, &path))
    }

    /// Reads a filter that `save` wrote, from a file or to the end of a file object that is open for bytes. Raises
    /// FormatError for anything but a whole file, and MemoryError where the filter would need more than `max_bytes`.
    #[classmethod]
    #[pyo3(signature = (path, *, max_bytes=None))]
    fn load(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number)] max_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let most = max_bytes.unwrap_or(u64::MAX);
        if let Some(file) = FileObject::of(path, "read")? {
            let file = BufReader::with_capacity(BUFFER, file);
            let read = py.detach(|| libbloom::Filter::read_from(file, most));
            return read.map(Self::of).map_err(|error| of_file_error(error, None));
        }
        let path = path_of(path)?;
        let file = BufReader::with_capacity(BUFFER, patient::opened_to_read(py, &path)?);
        let read = py.detach(|| libbloom::Filter::read_from(file, most));
        read.map(Self::of)
            .map_err(|error| of_file_error(error, Some(&path)))
    }

    /// Maps a file that `save` wrote. The filter answers at once, and processes that open a file share its memory. It
    /// cannot be changed; a copy of it can. Its header is checked, and that no byte is missing; the bits are not: `load`
    /// does that. Whoever cuts or changes the file in place, in place of `save`, may end the process.
    #[classmethod]
    fn open(_class: &Bound<'_, PyType>, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Self> {
        let path = path_of(path)?;
        let opened = py.detach(|| libbloom::Filter::open(&path));
        let filter = opened.map_err(|error| of_file_error(error, Some(&path)))?;
        Ok(Self(RwLock::new(Held::Mapped(Arc::new(filter)))))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let filter = &*self.read(py);
        let length = usize::try_from(py.detach(|| file::length(filter)));
        let length = length.map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        PyBytes::new_with(py, length, |bytes| Ok(py.detach(|| filter.write_to(bytes))?))
    }

    /// Reads what `bytes(filter)` returned, which are the bytes of a file, or what DUMP of a server returned.
    #[classmethod]
    #[pyo3(signature = (data, *, max_bytes=None))]
    fn from_bytes(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        data: Bound<'_, PyAny>,
        #[pyo3(from_py_with = number)] max_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let data = as_it_is(data)?;
        let data = data.cast::<PyBytes>()?.as_bytes();
        let most = max_bytes.unwrap_or(u64::MAX);
        // What DUMP gives begins with its type, which no file begins with, or with what modules attached to the key.
        if let Some(7 | 243) = data.first() {
            let read = py.detach(|| libbloom_rdb::read_payload(data, most));
            return read.map(Self::of).map_err(|error| rdb::of_error(error, None));
        }
        let read = py.detach(|| libbloom::Filter::read_from(data, most));
        read.map(Self::of).map_err(|error| of_file_error(error, None))
    }

    /// The filter of a key of an RDB file, which SAVE wrote, or a cloud as a backup. Without `key` and `db` it must be the
    /// only one that fits: LookupError names what else is there. Raises FormatError for anything but a whole file, and
    /// MemoryError where the filter would need more than `max_bytes`.
    #[classmethod]
    #[pyo3(signature = (path, key=None, *, db=None, max_bytes=None))]
    fn from_rdb(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        #[pyo3(from_py_with = path_of)] path: PathBuf,
        key: Option<Bound<'_, PyAny>>,
        db: Option<u64>,
        #[pyo3(from_py_with = number)] max_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let key = key.map(as_it_is).transpose()?;
        let key = match &key {
            None => None,
            Some(key) => Some(lasting(key)?.ok_or_else(|| no_item(key))?),
        };
        let most = max_bytes.unwrap_or(u64::MAX);
        let file = patient::opened_to_read(py, &path)?;
        py.detach(|| rdb::filter(file, &path, key, db, most))
            .map(Self::of)
    }

    /// The filter as arguments of BF.LOADCHUNK: an iterator and data for each call. The header comes first.
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Vec<(i64, Bound<'py, PyBytes>)>> {
        let filter = &*self.read(py);
        let chunks: Vec<_> = py.detach(|| chunks::chunks_to_check(filter).collect());
        let copies = chunks.iter().map(|chunk| {
            // A copy takes milliseconds; other threads run between two.
            py.detach(std::thread::yield_now);
            Ok((chunk.iterator, copied(py, &chunk.bytes)?))
        });
        copies.collect()
    }

    /// Makes a filter of the chunks that BF.SCANDUMP or `chunks` returned, in their order. Raises FormatError if they
    /// are not all chunks of one filter.
    #[classmethod]
    fn from_chunks(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        chunks: Vec<(i64, Bound<'_, PyBytes>)>,
    ) -> PyResult<Self> {
        let slices = chunks.iter();
        let slices = slices.map(|(iterator, bytes)| (*iterator, bytes.as_bytes()));
        let slices: Vec<_> = slices.collect();
        let read = py.detach(|| libbloom::Filter::of_chunks(slices));
        read.map(Self::of).map_err(|error| of_file_error(error, None))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (slf.get().__bytes__(py)?,)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let filter = self.read(py);
        // What has expired is left out, unless the clock cannot be read.
        let totals = filter.totals_at(time(&filter, None).unwrap_or(0));
        format!(
            "<libbloom.Filter: {} items, capacity {}, error rate {}, {} bytes>",
            totals.items,
            totals.capacity,
            filter.error_rate(),
            filter.bytes()
        )
    }
}

/// The lines of a block that were not in the filter, each with its end, and their number. They are in it afterwards.
#[pyfunction]
fn unseen<'py>(
    py: Python<'py>,
    filter: &Bound<'py, Filter>,
    block: &[u8],
    end: u8,
) -> PyResult<(u64, Bound<'py, PyBytes>)> {
    let filter = filter.get();
    let (new, kept) = py.detach(|| filter.insert_lines(block, end))?;
    Ok((new, copied(py, &kept)?))
}

/// What BF.SCANDUMP answers for the filter: the next iterator, and a chunk; 0 and no bytes at the end.
#[pyfunction]
fn scandump<'py>(
    py: Python<'py>,
    filter: &Bound<'py, Filter>,
    iterator: i64,
) -> PyResult<(i64, Bound<'py, PyBytes>)> {
    match chunks::dump(&filter.get().read(py), iterator).map_err(of_error)? {
        Some(chunk) => Ok((chunk.iterator, copied(py, &chunk.bytes)?)),
        None => Ok((0, PyBytes::new(py, b""))),
    }
}

/// The bytes of the filter that a header describes. Its chunks have no more.
#[pyfunction]
fn size_of_header(py: Python<'_>, header: &[u8]) -> PyResult<u64> {
    let described = py.detach(|| chunks::load_header(header, UNLIMITED));
    described
        .map(|filter| filter.bytes())
        .map_err(|error| match error {
            DecodeError::OutOfMemory { .. } => PyMemoryError::new_err(error.to_string()),
            error => FormatError::new_err(format!("the header: {error}")),
        })
}

/// Makes a file of these bytes, as `Filter.save` does of a filter.
#[pyfunction]
fn replace(py: Python<'_>, path: PathBuf, data: &[u8]) -> PyResult<()> {
    let replaced = py.detach(|| saving::replace(&path, |file| file.write_all(data)));
    replaced.map_err(|error| of_io_error(error, &path))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Filter>()?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(capacity_for, module)?)?;
    module.add_function(wrap_pyfunction!(replace, module)?)?;
    module.add_function(wrap_pyfunction!(scandump, module)?)?;
    module.add_function(wrap_pyfunction!(size_of_header, module)?)?;
    module.add_function(wrap_pyfunction!(unseen, module)?)?;
    module.add_function(wrap_pyfunction!(shards::divide, module)?)?;
    module.add("FormatError", module.py().get_type::<FormatError>())?;
    module.add("FullError", module.py().get_type::<FullError>())?;
    module.add("SeedError", module.py().get_type::<SeedError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
