//! One filter of an RDB file.

use std::io::Read;
use std::path::Path;

use libbloom::{DecodeError, Filter};
use libbloom_rdb::RdbError;
use pyo3::exceptions::{PyLookupError, PyMemoryError};
use pyo3::{PyErr, PyResult};

use crate::errors::FormatError;
use crate::{named, of_io_error};

/// Reads the filter with this key in this database; `None` means any. Only it takes memory. `path` is for messages.
pub fn filter(
    file: impl Read,
    path: &Path,
    key: Option<&[u8]>,
    db: Option<u64>,
    most: u64,
) -> PyResult<Filter> {
    let (mut meant, mut others) = (Names::default(), Names::default());
    let wants = |at, name: &[u8]| {
        let is_meant = key.is_none_or(|key| key == name) && db.is_none_or(|db| db == at);
        let names = if is_meant { &mut meant } else { &mut others };
        names.push(at, name);
        is_meant && meant.count == 1
    };
    let mut found = None;
    // To the end, where the checksum is.
    for entry in libbloom_rdb::filters(file, most).only(wants) {
        found = Some(entry.map_err(|error| of_error(error, Some(path)))?.filter);
    }
    match found {
        Some(filter) if meant.count == 1 => {
            filter.map_err(|error| of_error(RdbError::Filter(error), Some(path)))
        }
        Some(_) => Err(no_filter(
            path,
            format_args!("which filter is meant by key and database? There are {meant}"),
        )),
        None if others.count == 0 => Err(no_filter(path, format_args!("there is no filter"))),
        None => Err(no_filter(
            path,
            format_args!("there is no such filter; there are {others}"),
        )),
    }
}

fn no_filter(path: &Path, why: std::fmt::Arguments<'_>) -> PyErr {
    PyLookupError::new_err(format!("{}: {why}", path.display()))
}

/// The error for a payload, or for the file at `path`.
pub fn of_error(error: RdbError, path: Option<&Path>) -> PyErr {
    let text = named(&error, path);
    match (error, path) {
        (RdbError::Io(error), Some(path)) => of_io_error(error, path),
        (RdbError::Filter(DecodeError::OutOfMemory { .. }), _) => PyMemoryError::new_err(text),
        _ => FormatError::new_err(text),
    }
}

/// The names of filters for a message, the first ones of them.
#[derive(Default)]
struct Names {
    shown: Vec<String>,
    count: usize,
}

impl Names {
    fn push(&mut self, db: u64, key: &[u8]) {
        self.count += 1;
        if self.shown.len() < 10 {
            let name = key[..key.len().min(100)].escape_ascii();
            self.shown.push(match db {
                0 => name.to_string(),
                db => format!("{name} in database {db}"),
            });
        }
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown.join(", "))?;
        match self.count - self.shown.len() {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}
