//! The time of a filter with a window.
//!
//! Time is the primary's. A propagated command carries the time of the change, so that a replica, or a server that
//! loads the file on another day, makes the same slices from the same items.

use std::ffi::CStr;

use crate::server::{self, Ctx};
use libbloom::Filter;
use libbloom::params::Time;

/// The keyspace event of a window that dropped layers, or whose newest slice was ended.
pub const EVENT: &CStr = c"bf.rotate";

/// Sets the clock of a filter to the time that a command gives. The time of a primary or a file is obeyed, even if it
/// shows that an earlier time was wrong. A client's time may be a mistake, which must not make a filter forget: it is now
/// and a slice at most, as a clock may differ, and the newest stamp at least.
pub fn set_time(ctx: Ctx<'_>, filter: &Filter, at: Option<Time>) {
    match at {
        Some(at) if ctx.origin().is_relayed() => filter.set_clock(|| at),
        Some(at) => {
            let slice = filter.window().map_or(0, |window| {
                (u64::from(window.seconds()) * 1000).div_ceil(window.slices().into())
            });
            filter.set_client_time(at.min(server::now().saturating_add(slice)));
        }
        None => {}
    }
}
