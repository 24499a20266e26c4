//! Changes that are more than additions to a plain filter: counting what they changed, and freeing the layers
//! that a window dropped and filters that were replaced.

use crate::keyspace::KeyMut;
use crate::limits;
use crate::server::{Ctx, background};
use crate::stats::{self, Counted};
use libbloom::Filter;
use libbloom::blocked::window::Slice;

/// Changes a filter that is not plain, counts the difference, and frees the slices that a window dropped. Returns
/// also whether any layer was dropped.
pub fn change_and_free<T>(
    ctx: Ctx<'_>,
    filter: &mut Counted,
    change: impl FnOnce(&mut Filter) -> T,
) -> (T, bool) {
    let before = filter.layers();
    let (result, (leaving, dropped)) = filter.change(|filter| (change(filter), filter.take_dropped()));
    // A long batch may make layers and drop them again.
    stats::grown((filter.layers() + dropped as usize).saturating_sub(before));
    stats::dropped(dropped);
    let bytes = leaving.iter().map(Slice::array_bytes).sum();
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

/// Frees `burden`, which a command left over and which holds `bytes` bytes: on the background thread, or at once
/// near `maxmemory`. There the server would evict keys or refuse writes because of what the thread has not freed
/// yet.
fn free(ctx: Ctx<'_>, burden: impl Send + 'static, bytes: u64) {
    if background::is_long(bytes) && limits::are_near(ctx, bytes) {
        drop(burden);
    } else {
        background::free(burden, bytes);
    }
}
