//! Freeing what a change leaves over: the slices that a window dropped, and filters that were replaced.

use crate::keyspace::KeyMut;
use crate::limits;
use crate::server::{Ctx, background};
use crate::stats::{Counted, Figure};
use libbloom::Filter;
use libbloom::layouts::blocked::window::Slice;

/// Frees the slices that a window dropped, and counts their layers and those that it grew by from `before` on.
pub fn free_dropped(ctx: Ctx<'_>, filter: &mut Counted, before: usize) {
    let (slices, dropped) = filter.take_dropped();
    // A long batch may make layers and drop them again.
    let grown = filter.layers() as u64 + dropped;
    Figure::LayersGrown.add(grown.saturating_sub(before as u64));
    Figure::LayersDropped.add(dropped);
    let bytes = slices.iter().map(Slice::array_bytes).sum();
    free(ctx, slices, bytes);
}

/// Replaces the key's filter and frees the earlier one. An expiry stays, unless the two have different data types.
pub fn replace(ctx: Ctx<'_>, key: &mut KeyMut<'_>, filter: Filter) {
    if let Some(earlier) = key.replace(Counted::new(filter)) {
        let bytes = earlier.bytes();
        free(ctx, earlier, bytes);
    }
}

/// Frees a value of `bytes` bytes: on the background thread, or at once near `maxmemory`. There the server would evict
/// keys or refuse writes because of what the thread has not freed yet.
fn free(ctx: Ctx<'_>, value: impl Send + 'static, bytes: u64) {
    if background::is_long(bytes) && limits::is_maxmemory_near(ctx, bytes) {
        drop(value);
    } else {
        background::free(value, bytes);
    }
}
