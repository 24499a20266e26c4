//! The time of a filter with a window.
//!
//! Time is the primary's. A propagated command carries the time of the change, so that a replica, or a server that
//! loads the file on another day, makes the same slices from the same items.

use std::ffi::CStr;

use crate::server::Ctx;
use libbloom::Filter;
use libbloom::params::Time;

/// The keyspace event of a window that dropped layers, or whose newest slice was ended.
pub const EVENT: &CStr = c"bf.rotate";

/// Sets the clock of a filter to the time that a command gives. The time of a primary or a file is obeyed, even if it
/// shows that an earlier time was wrong. A client's time may be a mistake, which must not make a filter forget.
pub fn set_time(ctx: Ctx<'_>, filter: &Filter, at: Option<Time>) {
    match at {
        Some(at) if ctx.origin().is_relayed() => filter.set_clock(|| at),
        Some(at) => filter.set_client_time(at),
        None => {}
    }
}
