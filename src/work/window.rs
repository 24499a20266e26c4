//! The time of a filter with a window.
//!
//! Time is the primary's. A propagated command carries the time of the change, so that a replica, or a server that
//! loads the file on another day, makes the same slices from the same items.

use crate::server::{self, Ctx};
use libbloom::Filter;
use libbloom::params::Time;

/// The time for a query: the server's. Only a window needs it, so no other filter reads the clock.
#[inline]
pub fn now(filter: &Filter) -> Time {
    filter
        .window()
        .map_or(0, |_| Time::try_from(server::milliseconds()).unwrap_or(0))
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
