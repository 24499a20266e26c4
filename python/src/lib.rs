//! The native half of the Python package `libbloom`: the class `Filter`, and its errors.
//!
//! A filter is behind a lock, so that threads can share it. Bulk calls read items with the interpreter's lock held, in
//! chunks of [`CHUNK`] and more, and let go of it while they hash and probe.

use std::sync::mpsc::sync_channel;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libbloom::codec::chunks;
use libbloom::exceptions::ExceptError;
use libbloom::params::{ErrorRate, Growth};
use libbloom::sets::Mismatch;
use libbloom::{BuildError, DecodeError, Error, FileError, SetError, StoredLayout, UNLIMITED};
use libbloom_rdb::RdbError;
use pyo3::exceptions::{
    PyMemoryError, PyOSError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyIterator, PyList, PyString, PyTuple, PyType};

/// The allocator of the package. It gives the system's zeroed pages for large arrays, so that a filter takes only the
/// memory that was written to.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Items that are read before the interpreter's lock is let go: few enough to be in a near cache when they are hashed.
const CHUNK: usize = 2048;
/// Items that are read for several threads, which cost some microseconds to start.
const CHUNK_OF_THREADS: usize = 1 << 17;

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
    match error {
        Error::Full { .. } | Error::TooManyLayers { .. } => FullError::new_err(error.to_string()),
        Error::OverLimit { .. } | Error::OutOfMemory { .. } => PyMemoryError::new_err(error.to_string()),
    }
}

fn of_build_error(error: BuildError) -> PyErr {
    match error {
        BuildError::Filter(error) => of_error(error),
        error => PyValueError::new_err(error.to_string()),
    }
}

fn of_set_error(error: SetError) -> PyErr {
    match error {
        SetError::Source {
            why: Mismatch::Seed, ..
        } => SeedError::new_err("the filters have different seeds"),
        SetError::Source { why, .. } => {
            PyValueError::new_err(format!("the other filter does not fit: {why}"))
        }
        SetError::Memory(error) => of_error(error),
        error => PyValueError::new_err(error.to_string()),
    }
}

fn of_except_error(error: ExceptError) -> PyErr {
    match error {
        ExceptError::Memory(error) => of_error(error),
        ExceptError::Foreign => {
            PyValueError::new_err("filters of another module's layout have no exceptions")
        }
        ExceptError::TooMany { exceptions } => PyValueError::new_err(format!(
            "the filter has {exceptions} exceptions, and can have no more"
        )),
    }
}

fn of_file_error(error: FileError) -> PyErr {
    match error {
        FileError::Io(error) => PyErr::from(error),
        FileError::TooLarge { .. } => PyMemoryError::new_err(error.to_string()),
        error => FormatError::new_err(error.to_string()),
    }
}

fn of_rdb_error(error: RdbError) -> PyErr {
    match error {
        RdbError::Filter(DecodeError::OutOfMemory { .. }) => PyMemoryError::new_err(error.to_string()),
        error => FormatError::new_err(error.to_string()),
    }
}

/// An error of the system, with the name of the file.
fn of_io_error(error: std::io::Error, path: &std::path::Path) -> PyErr {
    let Some(code) = error.raw_os_error() else {
        return PyErr::from(error);
    };
    // Python writes the number itself, and chooses the class by it.
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((code, text, path.to_path_buf()))
}

/// The bytes of an item; a str gives its UTF-8.
fn bytes_of<'a>(item: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(text) = item.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes());
    }
    if let Ok(bytes) = item.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let name = item.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "items are str or bytes, not {name}"
    )))
}

/// `now` in milliseconds of the Unix clock: it was given in seconds, or is the present time.
fn milliseconds(now: Option<f64>) -> PyResult<u64> {
    match now {
        None => Ok(SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis() as u64),
        Some(seconds) if (0.0..4e15).contains(&seconds) => Ok((seconds * 1000.0) as u64),
        Some(_) => Err(PyValueError::new_err("now must be seconds of the Unix clock")),
    }
}

/// A Python number, or None. A number that is negative or too large raises ValueError, as any other bad value
/// does.
fn number<'a, 'py, T>(value: &'a Bound<'py, PyAny>) -> PyResult<T>
where
    T: FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            PyValueError::new_err(format!("{value} is out of range"))
        } else {
            error
        }
    })
}

/// Items that are read chunk by chunk.
enum Items<'py> {
    /// Items of an iterable, and the error with which it ended.
    Each(Bound<'py, PyIterator>, Option<PyErr>),
    /// Items of a list from an index on. Other threads may change the list while the interpreter's lock is
    /// released.
    List(Bound<'py, PyList>, usize),
    /// Items of a numpy array, each of `width` bytes. Items of numpy's type S end before the zeros at their
    /// end.
    Array {
        array: Bound<'py, PyAny>,
        width: usize,
        length: usize,
        begin: usize,
        is_text: bool,
    },
}

/// A chunk of items. It keeps their objects alive.
enum Chunk<'py> {
    Each(Bound<'py, PyTuple>),
    Array {
        data: Bound<'py, PyBytes>,
        width: usize,
        is_text: bool,
    },
}

impl<'py> Items<'py> {
    fn of(items: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = items.py();
        if items.cast::<PyString>().is_ok()
            || items.cast::<PyBytes>().is_ok()
            || items.cast::<PyByteArray>().is_ok()
        {
            let why = "items are an iterable of str or bytes: for one item there is add()";
            return Err(PyTypeError::new_err(why));
        }
        let dtype = items
            .getattr_opt("dtype")?
            .filter(|_| items.hasattr("tobytes").unwrap_or(false));
        let Some(dtype) = dtype else {
            if let Ok(list) = items.cast::<PyList>() {
                return Ok(Self::List(list.clone(), 0));
            }
            return Ok(Self::Each(items.try_iter()?, None));
        };
        let kind: String = dtype.getattr("kind")?.extract()?;
        let array = items.call_method0("ravel")?;
        match &kind[..] {
            // Python's str, and objects.
            "U" | "O" => Ok(Self::Each(array.call_method0("tolist")?.try_iter()?, None)),
            _ => {
                let width = dtype.getattr("itemsize")?.extract()?;
                let length = array.len()?;
                let is_text = kind == "S";
                if width == 0 {
                    let empty = std::iter::repeat_n(PyBytes::new(py, b""), length);
                    return Ok(Self::Each(
                        PyTuple::new(py, empty.collect::<Vec<_>>())?.try_iter()?,
                        None,
                    ));
                }
                Ok(Self::Array {
                    array,
                    width,
                    length,
                    begin: 0,
                    is_text,
                })
            }
        }
    }

    /// Whether the items came in a numpy array, so that the answers go into one too.
    fn is_array(&self) -> bool {
        matches!(self, Self::Array { .. })
    }

    /// The next chunk of at most `most` items, if there is one.
    fn next(&mut self, most: usize) -> PyResult<Option<Chunk<'py>>> {
        match self {
            Self::Each(items, error) => {
                if let Some(error) = error.take() {
                    return Err(error);
                }
                let py = items.py();
                let mut chunk = Vec::with_capacity(most.min(CHUNK));
                for item in items.by_ref().take(most) {
                    match item {
                        Ok(item) => chunk.push(item),
                        // What came before is taken first.
                        Err(raised) if chunk.is_empty() => return Err(raised),
                        Err(raised) => {
                            *error = Some(raised);
                            break;
                        }
                    }
                }
                Ok(if chunk.is_empty() {
                    None
                } else {
                    Some(Chunk::Each(PyTuple::new(py, chunk)?))
                })
            }
            Self::List(list, begin) => {
                let end = begin.saturating_add(most);
                let chunk = list.get_slice(*begin, end).to_tuple();
                *begin = end;
                Ok((!chunk.is_empty()).then_some(Chunk::Each(chunk)))
            }
            Self::Array {
                array,
                width,
                length,
                begin,
                is_text,
            } => {
                if *begin >= *length {
                    return Ok(None);
                }
                let end = begin.saturating_add(most).min(*length);
                let py = array.py();
                let slice = pyo3::types::PySlice::new(py, *begin as isize, end as isize, 1);
                let data = array.get_item(slice)?.call_method0("tobytes")?;
                *begin = end;
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
    /// Passes the bytes of the items to `take`, up to the first object that is no item. Then returns that object's
    /// error.
    fn with_slices<T>(&self, take: impl FnOnce(&[&[u8]]) -> PyResult<T>) -> PyResult<T> {
        match self {
            Self::Each(items) => {
                let items: Vec<_> = items.iter_borrowed().collect();
                let mut slices = Vec::with_capacity(items.len());
                let mut error = None;
                for item in &items {
                    match bytes_of(item) {
                        Ok(bytes) => slices.push(bytes),
                        Err(raised) => {
                            error = Some(raised);
                            break;
                        }
                    }
                }
                let taken = take(&slices)?;
                error.map_or(Ok(taken), Err)
            }
            Self::Array { data, width, is_text } => {
                let items = data.as_bytes().chunks_exact(*width);
                let slices: Vec<_> = if *is_text {
                    items.map(|item| item.trim_ascii_end_zeros()).collect()
                } else {
                    items.collect()
                };
                take(&slices)
            }
        }
    }
}

/// Removes the zeros at the end of a fixed string, as numpy does.
trait TrimZeros {
    fn trim_ascii_end_zeros(&self) -> &Self;
}

impl TrimZeros for [u8] {
    fn trim_ascii_end_zeros(&self) -> &Self {
        let end = self
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        &self[..end]
    }
}

/// A Bloom filter: a set of str or bytes that says "not there" for certain, and "there" with a small chance of
/// being wrong.
///
/// It is made for `capacity` items, and answers queries for absent items wrongly with the probability `error_rate` at
/// most. When it is full it grows, and keeps that rate. A str and its UTF-8 bytes are one item.
///
/// >>> seen = Filter(1_000_000, 0.001)
/// >>> seen.add("https://example.com/")
/// True
/// >>> "https://example.com/" in seen
/// True
///
/// fixed: it never grows, and raises FullError instead.
/// growing: it is expected to outgrow its capacity by far, and shares its rate out for that.
/// expansion: each further layer is for so many times as many items (1 to 32768).
/// seed: filters with the same one can be united. Without it, all filters of a process share a random one.
/// layout: "blocked", this project's own; "classic", RedisBloom's; "valkey", valkey-bloom's.
/// window: items expire after so many seconds; 0 counts items instead, and remembers the last `capacity`.
/// slices: the window forgets in so many steps (2 to 64).
/// refresh: an item that is added again to a window is remembered for a whole window from then on.
#[pyclass(frozen, module = "libbloom", name = "Filter")]
struct Filter {
    filter: RwLock<libbloom::Filter>,
}

impl Filter {
    fn of(filter: libbloom::Filter) -> Self {
        Self {
            filter: RwLock::new(filter),
        }
    }

    /// Locks the filter for reading. A thread that waits for the lock releases the interpreter's.
    fn read(&self, py: Python<'_>) -> RwLockReadGuard<'_, libbloom::Filter> {
        loop {
            match self.filter.try_read() {
                Ok(filter) => return filter,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.filter.read())),
            }
        }
    }

    /// Locks the filter for a change. A thread that waits for the lock releases the interpreter's.
    fn write(&self, py: Python<'_>) -> RwLockWriteGuard<'_, libbloom::Filter> {
        loop {
            match self.filter.try_write() {
                Ok(filter) => return filter,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.filter.write())),
            }
        }
    }

    fn set_clock(filter: &libbloom::Filter, now: Option<f64>) -> PyResult<()> {
        if filter.window().is_some() {
            let now = milliseconds(now)?;
            filter.set_clock(|| now);
        }
        Ok(())
    }
}

impl Filter {
    /// Adds a chunk of items, and counts those that were new. The interpreter's lock is not needed.
    fn insert_chunk<'a>(&self, items: impl Iterator<Item = &'a [u8]>, time: u64) -> PyResult<u64> {
        let mut filter = self.filter.write().unwrap_or_else(PoisonError::into_inner);
        filter.at(time).insert_many(items).map_err(of_error)
    }

    /// Adds items in order, in another thread than the one that reads them.
    fn update_beside(&self, py: Python<'_>, mut items: Items<'_>, now: Option<f64>) -> PyResult<u64> {
        let (send, receive) = sync_channel::<Packed>(1);
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let mut new = 0;
                for packed in receive {
                    new += self.insert_chunk(packed.items(), milliseconds(now)?)?;
                }
                PyResult::Ok(new)
            });
            let mut read = || {
                let mut is_taken = true;
                while is_taken && let Some(chunk) = items.next(CHUNK_OF_THREADS / 8)? {
                    chunk.with_slices(|items| {
                        let packed = Packed::of(items);
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
            let added = added.map_err(|_| PyRuntimeError::new_err("a thread of the filter ended early"))?;
            read.and(added)
        })
    }
}

/// The bytes of items end to end, to be passed to another thread.
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn of(items: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(items.iter().map(|item| item.len()).sum());
        let mut ends = Vec::with_capacity(items.len());
        for item in items {
            bytes.extend_from_slice(item);
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    fn items(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(begin, &end)| &self.bytes[begin..end])
    }
}

/// The builder for the options of `Filter` and `plan`: (fixed, growing, expansion, layout) and (window in seconds,
/// slices).
fn builder(
    capacity: u64,
    error_rate: f64,
    (fixed, growing, expansion, layout): (bool, bool, u32, &str),
    window: Option<(u64, u8)>,
) -> PyResult<libbloom::Builder> {
    let mut builder = libbloom::Filter::builder(capacity, error_rate).expansion(expansion);
    let stored = StoredLayout::ALL.iter().find(|stored| stored.name() == layout);
    let unknown = || PyValueError::new_err("layout must be 'blocked', 'classic' or 'valkey'");
    builder = builder.layout(*stored.ok_or_else(unknown)?);
    if fixed {
        builder = builder.fixed();
    }
    if growing {
        builder = builder.growing();
    }
    if let Some((seconds, slices)) = window {
        builder = builder.window(Duration::from_secs(seconds)).slices(slices);
    }
    Ok(builder)
}

/// The size of a filter that counts `items` (default: its capacity), without making it: its bytes, its layers,
/// and its error rate when the newest layer is full. None if it cannot hold so many items.
#[pyfunction]
#[pyo3(signature = (capacity, error_rate=0.01, *, items=None, fixed=false, growing=false, expansion=2,
    layout="blocked", window=None, slices=8))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
fn plan(
    #[pyo3(from_py_with = number)] capacity: u64,
    error_rate: f64,
    #[pyo3(from_py_with = number)] items: Option<u64>,
    fixed: bool,
    growing: bool,
    #[pyo3(from_py_with = number)] expansion: u32,
    layout: &str,
    #[pyo3(from_py_with = number)] window: Option<u64>,
    #[pyo3(from_py_with = number)] slices: u8,
) -> PyResult<Option<(u64, usize, f64)>> {
    let options = (fixed, growing, expansion, layout);
    let builder = builder(
        capacity,
        error_rate,
        options,
        window.map(|window| (window, slices)),
    )?;
    let items = items.unwrap_or(capacity);
    let plan = builder.plan(items).map_err(of_build_error)?;
    let stage = plan.at(items);
    Ok(stage.map(|stage| (stage.bytes, stage.layers, stage.error_rate)))
}

/// Whether each of `items` is in the filter; the work is divided among `threads`.
fn answers(filter: &libbloom::Filter, items: &[&[u8]], threads: usize) -> Vec<bool> {
    if threads <= 1 || items.len() < 4096 {
        return filter.contains_many(items.iter().copied());
    }
    let part = items.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = items
            .chunks(part)
            .map(|items| scope.spawn(|| filter.contains_many(items.iter().copied())))
            .collect();
        // A thread that panicked is none that answered.
        let parts = parts.into_iter().map(|part| part.join().unwrap_or_default());
        parts.flatten().collect()
    })
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (capacity, error_rate=0.01, *, fixed=false, growing=false, expansion=2, seed=None,
        layout="blocked", window=None, slices=8, refresh=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        #[pyo3(from_py_with = number)] capacity: u64,
        error_rate: f64,
        fixed: bool,
        growing: bool,
        #[pyo3(from_py_with = number)] expansion: u32,
        #[pyo3(from_py_with = number)] seed: Option<u64>,
        layout: &str,
        #[pyo3(from_py_with = number)] window: Option<u64>,
        #[pyo3(from_py_with = number)] slices: u8,
        refresh: bool,
    ) -> PyResult<Self> {
        let options = (fixed, growing, expansion, layout);
        let mut builder = builder(
            capacity,
            error_rate,
            options,
            window.map(|window| (window, slices)),
        )?;
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        if refresh && window.is_some() {
            builder = builder.refresh();
        } else if refresh || (window.is_none() && slices != 8) {
            return Err(PyValueError::new_err("slices and refresh need a window"));
        }
        builder.build().map(Self::of).map_err(of_build_error)
    }

    /// Adds an item. True if it was not in the filter before. In a window it is added at `now`, in seconds of the
    /// Unix clock.
    #[pyo3(signature = (item, *, now=None))]
    fn add(&self, py: Python<'_>, item: &Bound<'_, PyAny>, now: Option<f64>) -> PyResult<bool> {
        let bytes = bytes_of(item)?;
        let mut filter = self.write(py);
        Self::set_clock(&filter, now)?;
        filter.insert(bytes).map_err(of_error)
    }

    fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = bytes_of(item)?;
        let filter = self.read(py);
        Self::set_clock(&filter, None)?;
        Ok(filter.contains(bytes))
    }

    /// Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new.
    /// Other threads run meanwhile. With `threads` above 1, items are read in one thread and added in another,
    /// with the same result.
    #[pyo3(signature = (items, *, threads=1, now=None))]
    fn update(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        threads: usize,
        now: Option<f64>,
    ) -> PyResult<u64> {
        if threads == 0 {
            return Err(PyValueError::new_err("threads must be 1 or more"));
        }
        let mut items = Items::of(items)?;
        if threads > 1 {
            return self.update_beside(py, items, now);
        }
        let mut new = 0;
        while let Some(chunk) = items.next(CHUNK)? {
            new += chunk.with_slices(|items| {
                py.detach(|| self.insert_chunk(items.iter().copied(), milliseconds(now)?))
            })?;
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
        threads: usize,
        now: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if threads == 0 {
            return Err(PyValueError::new_err("threads must be 1 or more"));
        }
        let mut items = Items::of(items)?;
        let most = if threads > 1 { CHUNK_OF_THREADS } else { CHUNK };
        let mut all = Vec::new();
        while let Some(chunk) = items.next(most)? {
            let time = milliseconds(now)?;
            all.extend(chunk.with_slices(|items| {
                Ok(py.detach(|| {
                    let filter = self.filter.read().unwrap_or_else(PoisonError::into_inner);
                    filter.set_clock(|| time);
                    answers(&filter, items, threads)
                }))
            })?);
        }
        if items.is_array() {
            let bytes: Vec<u8> = all.into_iter().map(u8::from).collect();
            let options = PyDict::new(py);
            options.set_item("dtype", "bool")?;
            let bytes = (PyByteArray::new(py, &bytes),);
            return py
                .import("numpy")?
                .call_method("frombuffer", bytes, Some(&options));
        }
        Ok(PyList::new(py, all)?.into_any())
    }

    /// Takes items out, until they are added again, and counts those that were there. No other answer changes.
    fn except_(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut items = Items::of(items)?;
        let mut excepted = 0;
        while let Some(chunk) = items.next(CHUNK)? {
            chunk.with_slices(|items| {
                let mut filter = self.write(py);
                Self::set_clock(&filter, None)?;
                let count = |items: libbloom::chain::batch::Subset, _| excepted += items.count_ones();
                let result = filter.except(items.iter().copied(), UNLIMITED, count);
                result.map_err(of_except_error)
            })?;
        }
        Ok(excepted)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        let filter = self.read(py);
        let now = milliseconds(None).unwrap_or(0);
        filter.set_clock(|| now);
        usize::try_from(filter.items()).unwrap_or(usize::MAX)
    }

    fn __bool__(&self, py: Python<'_>) -> bool {
        self.__len__(py) > 0
    }

    /// An equal filter with memory of its own.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        let filter = self.read(py);
        filter.try_clone().map(Self::of).map_err(of_error)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.copy(py)
    }

    /// Takes all items out. Parameters stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py).clear().map_err(of_error)
    }

    /// Adds all items of other filters. True if that changed anything. Layers of one shape are united if all their
    /// items fit into one layer. Others stay layers of their own, for which `error_rate` may have to be higher.
    #[pyo3(signature = (*others, error_rate=None))]
    fn merge(&self, py: Python<'_>, others: Vec<Bound<'_, Self>>, error_rate: Option<f64>) -> PyResult<bool> {
        let rate = error_rate.map(ErrorRate::new).transpose();
        let rate = rate.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let mut changed = false;
        for other in others {
            if std::ptr::eq(other.get(), self) {
                continue;
            }
            // A copy, so that two threads that merge two filters into each other do not wait for each other.
            let other = other.get().copy(py)?;
            let other = other.filter.into_inner().unwrap_or_else(PoisonError::into_inner);
            let absorbed = self.write(py).absorb(&[&other], rate, UNLIMITED);
            changed |= absorbed.map_err(of_set_error)?;
        }
        Ok(changed)
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
        let other = other.get().copy(py)?;
        let other = other.filter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let common = self.read(py).intersection_with(&other);
        common.map(Self::of).map_err(of_set_error)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(false);
        };
        if std::ptr::eq(other.get(), self) {
            return Ok(true);
        }
        let other = other.get().copy(py)?;
        let other = other.filter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let own = self.read(py);
        Ok(chunks::header(&own) == chunks::header(&other) && chunks::chunks(&own).eq(chunks::chunks(&other)))
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
    fn estimated_error_rate(&self, py: Python<'_>) -> f64 {
        self.read(py).estimated_error_rate()
    }

    /// Bytes of the filter. In a large filter only the pages that were written to take memory.
    #[getter]
    fn size_in_bytes(&self, py: Python<'_>) -> u64 {
        self.read(py).bytes()
    }

    /// The share of the bits that is set.
    #[getter]
    fn fill_ratio(&self, py: Python<'_>) -> f64 {
        self.read(py).totals().fill_ratio()
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
        self.read(py).layout().stored().name()
    }

    /// The window in seconds; 0 if it counts items instead of time; None if items never expire.
    #[getter]
    fn window(&self, py: Python<'_>) -> Option<u32> {
        self.read(py).window().map(|window| window.seconds())
    }

    /// Writes the filter to a file, which gets its name when it is complete and on the disk.
    fn save(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        let filter = &self.filter;
        let saved = py.detach(|| {
            let filter = filter.read().unwrap_or_else(PoisonError::into_inner);
            filter.save(&path)
        });
        saved.map_err(|error| of_io_error(error, &path))
    }

    /// Reads a filter that `save` wrote. Raises FormatError for anything but a whole file, and MemoryError where the
    /// filter would need more than `max_bytes`.
    #[classmethod]
    #[pyo3(signature = (path, *, max_bytes=None))]
    fn load(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: std::path::PathBuf,
        max_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let loaded = py.detach(|| {
            let file = std::fs::File::open(&path).map_err(FileError::from)?;
            libbloom::Filter::read_from(std::io::BufReader::new(file), max_bytes.unwrap_or(u64::MAX))
        });
        match loaded {
            Ok(filter) => Ok(Self::of(filter)),
            Err(FileError::Io(error)) => Err(of_io_error(error, &path)),
            Err(error) => {
                let named = format!("{}: {error}", path.display());
                Err(match error {
                    FileError::TooLarge { .. } => PyMemoryError::new_err(named),
                    _ => FormatError::new_err(named),
                })
            }
        }
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        self.read(py)
            .write_to(&mut bytes)
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads what `bytes(filter)` returned, which are the bytes of a file, or what DUMP of a server returned.
    #[classmethod]
    #[pyo3(signature = (data, *, max_bytes=None))]
    fn from_bytes(_class: &Bound<'_, PyType>, data: &[u8], max_bytes: Option<u64>) -> PyResult<Self> {
        let most = max_bytes.unwrap_or(u64::MAX);
        // What DUMP gives begins with its type, which no file begins with, or with what modules attached to the key.
        if let Some(7 | 243) = data.first() {
            let read = libbloom_rdb::read_payload(data, most);
            return read.map(Self::of).map_err(of_rdb_error);
        }
        let read = libbloom::Filter::read_from(data, most);
        read.map(Self::of).map_err(of_file_error)
    }

    /// The filter of a key of an RDB file, which SAVE wrote, or a cloud as a backup. Without `key` and `db` it must be the
    /// only one that fits: LookupError names what else is there. Raises FormatError for anything but a whole file, and
    /// MemoryError where the filter would need more than `max_bytes`.
    #[classmethod]
    #[pyo3(signature = (path, key=None, *, db=None, max_bytes=None))]
    fn from_rdb(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: std::path::PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        db: Option<u64>,
        max_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let key = key.map(bytes_of).transpose()?;
        let most = max_bytes.unwrap_or(u64::MAX);
        py.detach(|| rdb::filter(&path, key, db, most)).map(Self::of)
    }

    /// The filter as arguments of BF.LOADCHUNK: an iterator and data for each call. The header comes first.
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Vec<(i64, Bound<'py, PyBytes>)>> {
        let filter = self.read(py);
        let chunks = chunks::chunks(&filter);
        Ok(chunks
            .map(|chunk| (chunk.iterator, PyBytes::new(py, &chunk.bytes)))
            .collect())
    }

    /// Makes a filter of the chunks that BF.SCANDUMP or `chunks` returned.
    #[classmethod]
    fn from_chunks(_class: &Bound<'_, PyType>, chunks: Vec<(i64, Bound<'_, PyBytes>)>) -> PyResult<Self> {
        let chunks = chunks
            .iter()
            .map(|(iterator, bytes)| (*iterator, bytes.as_bytes()));
        libbloom::Filter::of_chunks(chunks)
            .map(Self::of)
            .map_err(of_file_error)
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
        let totals = filter.totals();
        format!(
            "<libbloom.Filter: {} items, capacity {}, error rate {}, {} bytes>",
            totals.items,
            totals.capacity,
            filter.error_rate(),
            filter.bytes()
        )
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Filter>()?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(shards::divide, module)?)?;
    module.add("FormatError", module.py().get_type::<FormatError>())?;
    module.add("FullError", module.py().get_type::<FullError>())?;
    module.add("SeedError", module.py().get_type::<SeedError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
