//! The time of a filter with a window.
//!
//! Time is the primary's. A propagated command carries the time of the change, so that a replica, or a server that
//! loads the file on another day, makes the same slices from the same items.

use std::ffi::CStr;

use crate::server::{self, Ctx};
use libbloom::Filter;
use libbloom::params::Time;

/// The keyspace event of a window that dropped slices, or whose newest slice was closed.
pub const EVENT: &CStr = c"bf.rotate";

/// The time for a query: the server's. Only a window needs it, so no other filter reads the clock.
#[inline]
pub fn now(filter: &Filter) -> Time {
    filter.window().map_or(0, |_| server::now())
}

/// The time for a change: the one that the command gives, or else the server's. The time of a primary or a file is used
/// as it is, even if it shows that an earlier time was wrong. A client's time may be a mistake, which must not make a
/// filter forget: if it is before the newest change, that change's time is used.
pub fn time(ctx: Ctx<'_>, filter: &Filter, at: Option<Time>) -> Time {
    match at {
        None => now(filter),
        Some(at) if ctx.origin().is_relayed() => at,
        Some(at) => at.max(filter.newest_stamp()),
    }
}

/// The time at which a slice is closed. If a client gives one before the latest addition, that addition's is used: its
/// item would be found for less than a window. But a time after the server's clock is never used unasked, because it
/// would drop items that have not expired.
pub fn time_to_close(ctx: Ctx<'_>, filter: &Filter, at: Option<Time>) -> Time {
    let time = time(ctx, filter, at);
    if at.is_none() || ctx.origin().is_relayed() {
        return time;
    }
    time.max(filter.latest_addition().min(now(filter)))
}
