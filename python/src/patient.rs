//! Files that Ctrl-C interrupts. Rust's own calls begin anew after a signal, so that Python never gets to look at it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::path::Path;

use libbloom::saving::unless_unsupported;
use pyo3::prelude::*;

/// A file, device or pipe that is read or written piece by piece. Signals are looked for before each piece, and where
/// another program has set that calls do not wait, this waits.
pub struct Patient(File);

/// Opens a file to read it. `/dev/stdin` is the standard input, from where it stands.
pub fn opened_to_read(py: Python<'_>, path: &Path) -> PyResult<Patient> {
    match path.to_str() {
        Some("/dev/stdin") => opened(py, "dup", (0,)),
        _ => opened(py, "open", (path.as_os_str(), flag(py, "O_RDONLY")?)),
    }
}

/// Opens what is written to where it is, such as a pipe or a device; `None` for anything else. `/dev/stdout` is the
/// standard output, where it stands.
pub fn opened_to_write(py: Python<'_>, path: &Path) -> PyResult<Option<Patient>> {
    if path == Path::new("/dev/stdout") {
        return opened(py, "dup", (1,)).map(Some);
    }
    match fs::metadata(path) {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            let flags = flag(py, "O_WRONLY")? | flag(py, "O_APPEND")?;
            opened(py, "open", (path.as_os_str(), flags)).map(Some)
        }
        _ => Ok(None),
    }
}

fn flag(py: Python<'_>, name: &str) -> PyResult<i32> {
    py.import("os")?.getattr(name)?.extract()
}

/// The file that a function of Python's module `os` opens.
fn opened<'py>(
    py: Python<'py>,
    function: &str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<Patient> {
    let number: RawFd = py.import("os")?.call_method1(function, arguments)?.extract()?;
    // SAFETY: the call has just opened it, and nobody else knows its number.
    Ok(Patient(unsafe { File::from_raw_fd(number) }))
}

impl Patient {
    pub fn over(file: &File) -> io::Result<Self> {
        file.try_clone().map(Self)
    }

    /// Writes to the disk, if there is one.
    pub fn sync(&self) -> io::Result<()> {
        unless_unsupported(self.0.sync_all())
    }

    /// Tries something until it is done. `event` is the name of what is waited for, in Python's module `select`.
    fn until_done<T>(&self, event: &str, mut attempt: impl FnMut(&File) -> io::Result<T>) -> io::Result<T> {
        loop {
            Python::attach(|py| py.check_signals())?;
            match attempt(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Python::attach(|py| self.wait_for(py, event))?;
                }
                done => return done,
            }
        }
    }

    fn wait_for(&self, py: Python<'_>, event: &str) -> PyResult<()> {
        let select = py.import("select")?;
        let poll = select.call_method0("poll")?;
        poll.call_method1("register", (self.0.as_raw_fd(), select.getattr(event)?))?;
        poll.call_method0("poll").map(drop)
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until_done("POLLIN", |mut file| file.read(buffer))
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.until_done("POLLOUT", |mut file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
