//! Changes of a filter other than additions to a plain one: how they are counted, and where the memory that they
//! leave is freed.

use crate::keyspace::KeyMut;
use crate::limits;
use crate::server::{Ctx, background};
use crate::stats::{self, Counted};
use libbloom::Filter;
use libbloom::chain::batch::Layer as _;

/// Changes a filter that is not plain, counts the difference, and frees the layers that a window dropped. Returns
/// also whether any layer was dropped.
pub fn turn<T>(ctx: Ctx<'_>, filter: &mut Counted, change: impl FnOnce(&mut Filter) -> T) -> (T, bool) {
    let before = filter.layers();
    let (result, (leaving, dropped)) = filter.change(|filter| (change(filter), filter.take_dropped()));
    // A long batch may make layers and drop them again.
    stats::grown((filter.layers() + dropped as usize).saturating_sub(before));
    stats::dropped(dropped);
    let bytes = leaving.iter().map(|layer| layer.bytes()).sum();
    free(ctx, leaving, bytes);
    (result, dropped > 0)
}

/// Replaces the key's filter by a new one and frees the earlier one. An expiry of the key stays, unless the two have
/// different data types.
pub fn replace(ctx: Ctx<'_>, key: &mut KeyMut<'_>, filter: Filter) {
    if let Some(earlier) = key.replace(Counted::new(filter)) {
        let bytes = earlier.bytes();
        free(ctx, earlier, bytes);
    }
}

/// Frees what a command left over, which holds `bytes` bytes. While a background thread frees it, the server counts
/// it as used: near `maxmemory` it would evict keys for it, or refuse writes. So there it is freed at once.
fn free(ctx: Ctx<'_>, burden: impl Send + 'static, bytes: u64) {
    if background::is_long(bytes) && limits::are_near(ctx, bytes) {
        drop(burden);
    } else {
        background::free(burden, bytes);
    }
}
