//! What commands share that change a filter otherwise than by additions to a plain one: how it is counted, and where
//! what they let go is freed.

use std::ffi::CStr;

use super::error::CommandError;
use crate::bloom::Filter;
use crate::bloom::chain::batch::Layer as _;
use crate::keyspace::KeyMut;
use crate::limits;
use crate::server::{Arg, Ctx, background, log};
use crate::stats::{self, Counted};

/// Runs what changes a filter that is not plain and tells how many items were new, counts what came of it, and has what
/// a window let go freed. Gives besides whether that was anything.
pub fn turn<T>(
    ctx: Ctx<'_>,
    filter: &mut Filter,
    change: impl FnOnce(&mut Filter) -> (T, u64),
) -> (T, u64, bool) {
    let before = filter.account();
    let (result, new) = change(filter);
    let (leaving, dropped) = filter.take_leaving();
    stats::turned(filter, before, new, dropped);
    let bytes = leaving.iter().map(|layer| layer.bytes()).sum();
    let_go(ctx, leaving, bytes);
    (result, new, dropped > 0)
}

/// Puts a new filter in the place of the one that the key holds, if it holds one; that is freed. An end that the key
/// has stays, unless the two are of different types.
pub fn replace(ctx: Ctx<'_>, key: &mut KeyMut<'_>, filter: Filter) {
    if let Some(earlier) = key.replace(Counted::new(filter)) {
        let bytes = earlier.bytes();
        let_go(ctx, earlier, bytes);
    }
}

/// Frees what a command leaves, which holds so many `bytes`. Until that is done the server counts it as used: near
/// `maxmemory` it would evict keys for it, or refuse what clients write, so nobody waits for another thread there.
fn let_go(ctx: Ctx<'_>, burden: impl Send + 'static, bytes: u64) {
    if background::is_long(bytes) && limits::are_near(ctx, bytes) {
        drop(burden);
    } else {
        background::free(burden, bytes);
    }
}

/// What came of a command, of which the log is told where it had to be obeyed and failed: a replica that cannot do what
/// its primary did is no replica any more, and its operator must hear of it.
///
/// # Errors
/// Those of `done`.
pub fn obeyed<T>(
    ctx: Ctx<'_>,
    key: Arg<'_>,
    command: &CStr,
    done: Result<T, CommandError>,
) -> Result<T, CommandError> {
    done.inspect_err(|error| {
        if ctx.must_obey() {
            log::DIVERGENCE.warn(ctx, key.bytes(), || {
                let command = command.to_string_lossy().to_uppercase();
                format!("{command} was done in the original, and not here: {error}")
            });
        }
    })
}
