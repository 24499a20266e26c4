//! A filter in a mapped file, which is not read before it is asked.
#![expect(unsafe_code, reason = "the system maps a file, and says where it is")]

use std::fmt;
use std::fs::{File, metadata};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;

use memmap2::Mmap;

use crate::bits::array::BitArray;
use crate::bits::kernel::Line;
use crate::codec::{DecodeError, blocked, chunks};
use crate::error::require;
use crate::file::{self, FileError, Head, Places};
use crate::filter::Filter;

/// A filter that [`Filter::open`] mapped. It can be queried and cloned like a [`Filter`], but not changed.
///
/// ```no_run
/// use libbloom::{FileError, Filter, MappedFilter};
///
/// fn leaked() -> Result<MappedFilter, FileError> {
///     Filter::open("leaked.bloom")
/// }
/// assert!(leaked()?.contains("password"));
/// # Ok::<(), FileError>(())
/// ```
pub struct MappedFilter {
    // Dropped before the mapping that it lies in.
    filter: Filter,
    _map: Option<Mmap>,
}

impl Deref for MappedFilter {
    type Target = Filter;

    #[inline(always)]
    fn deref(&self) -> &Filter {
        &self.filter
    }
}

impl fmt::Debug for MappedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt(f)
    }
}

impl Filter {
    /// Maps a file for reading only. The filter answers at once, and the system reads what is asked for; all processes
    /// that open a file share its memory. The file's header is checked, and that no byte is missing or too many; that
    /// the bits are those that were written is not: [`Filter::load`] sees that. A filter in another module's layout is
    /// loaded.
    ///
    /// A file that [`Filter::save`] replaces stays as it was for those who have opened it. Nobody may cut or change a
    /// file in place while it is open: a process that asks for a part that was cut off is ended by the system.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # let path = std::env::temp_dir().join(format!("libbloom-open-{}.bloom", std::process::id()));
    /// let mut seen = Filter::builder(1000, 0.01).build()?;
    /// seen.insert("ann")?;
    /// seen.save(&path)?;
    /// let seen = Filter::open(&path)?;
    /// assert!(seen.contains("ann"));
    /// let mut more = seen.clone(); // in memory of its own
    /// more.insert("bob")?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError`] for anything but a regular file, or a link to one, whose header is valid and whose length is that of
    /// its filter.
    pub fn open(path: impl AsRef<Path>) -> Result<MappedFilter, FileError> {
        // Opening a pipe would wait until somebody writes to it.
        if !metadata(&path)?.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "only a file can be mapped");
            return Err(error.into());
        }
        let file = File::open(path)?;
        // SAFETY: the file is only read. That nobody cuts or changes it meanwhile is up to the caller, as documented.
        let map = unsafe { Mmap::map(&file) }?;
        let (head, rest) = map.split_first_chunk().ok_or(FileError::Truncated)?;
        let head = Head::of(head)?;
        let header = rest.get(..head.header as usize).ok_or(FileError::Truncated)?;
        head.check(header)?;
        if !header.starts_with(&blocked::MAGIC) {
            let filter = Self::read_from(&map[..], u64::MAX)?;
            return Ok(MappedFilter { filter, _map: None });
        }
        let (mut places, mut is_cut) = (Places::after(head.header), false);
        let filter = blocked::load_header_with(header, crate::UNLIMITED, |lines, bits_set| {
            let place = places.next(lines.saturating_mul(size_of::<Line>() as u64));
            let bytes = map.get(place.start as usize..place.end as usize);
            let Some(lines) = bytes.and_then(|bytes| bytemuck::try_cast_slice::<u8, Line>(bytes).ok()) else {
                is_cut = true;
                return Err(DecodeError::Field("lines"));
            };
            // SAFETY: the lines lie in the mapping, which outlives the filter, and which has only read-only users: the
            // filter is handed out by reference alone. Any bytes are valid lines.
            let lines = unsafe { BitArray::of_file(NonNull::from(lines), bits_set) };
            Ok(lines)
        });
        require(!is_cut, FileError::Truncated)?;
        let filter = filter.map_err(file::of_header)?;
        file::check_end(&map, &places)?;
        require(chunks::has_bits_of_items(&filter), FileError::Incomplete)?;
        Ok(MappedFilter {
            filter,
            _map: Some(map),
        })
    }
}
