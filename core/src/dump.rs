//! A filter as the payload of `DUMP` and `RESTORE`: the value of one key, on its way between servers and programs.
//!
//! ```
//! use libbloom::{Filter, dump};
//!
//! let mut seen = Filter::builder(1000, 0.01).build()?;
//! seen.insert("ann")?;
//! let mut payload = Vec::new();
//! dump::write(&seen, &mut payload)?; // RESTORE seen 0 <payload>
//! assert!(dump::read(&payload, u64::MAX)?.contains("ann")); // DUMP seen
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server accepts payloads up to `proto-max-bulk-len`, which is 512 MB unless it is configured. A larger filter
//! travels in chunks ([`Filter::of_chunks`]), or in an RDB file by [`rdb::Writer`].

use std::io::{self, Write};

use crate::filter::Filter;
use crate::rdb::{self, RdbError};

/// Reads the payload that `DUMP` gave for a filter of RedisBloom, valkey-bloom or this project. The filter may need
/// `most` bytes of memory: a short payload can stand for an empty filter of any size.
///
/// ```
/// # use libbloom::{Filter, RdbError, dump};
/// # let mut payload = Vec::new();
/// # dump::write(&Filter::builder(1000, 0.01).build()?, &mut payload)?;
/// let filter = dump::read(&payload, 1 << 20)?;
/// payload[20] ^= 1;
/// assert!(matches!(dump::read(&payload, 1 << 20), Err(RdbError::Checksum)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RdbError`] for anything but a whole payload of a filter.
pub fn read(payload: &[u8], most: u64) -> Result<Filter, RdbError> {
    rdb::read_payload(payload, most)
}

/// Writes the payload with which `RESTORE` makes the filter: as RedisBloom saves it for
/// [`StoredLayout::Classic`](crate::StoredLayout::Classic), as valkey-bloom does for
/// [`StoredLayout::Valkey`](crate::StoredLayout::Valkey). Any other filter needs this project's module in the server.
///
/// ```
/// # use libbloom::{Filter, StoredLayout, dump};
/// let classic = Filter::builder(1000, 0.01).layout(StoredLayout::Classic).build()?;
/// let mut payload = Vec::new();
/// dump::write(&classic, &mut payload)?;
/// assert_eq!(payload.first(), Some(&7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The error of `writer`.
pub fn write(filter: &Filter, writer: impl Write) -> io::Result<()> {
    rdb::write_payload(filter, writer)
}
