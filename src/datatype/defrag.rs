//! Active defragmentation: the server's allocator knows which blocks had better be elsewhere.
//!
//! Every block is offered to it. jemalloc moves only those that it keeps in slabs, which are of up to 14 KiB where
//! pages have 4 KiB; a larger bit array has pages of its own, and stays where it is.

use std::alloc::Layout;
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::ManuallyDrop;

use redis_module::raw;

use crate::bloom::Filter;
use crate::bloom::bits::memory::Mover;
use crate::server::{alloc, call, guarded};

/// Moves a filter's struct, its list of layers and their bit arrays; 1 when the server is to call again for
/// the rest.
pub unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    let more = guarded("defragmenting a filter", || {
        let mut defrag = Defrag(ctx);
        let first = defrag.cursor();
        // SAFETY: the server lends the place of its pointer to a value of this type.
        let place = unsafe { &mut *value };
        if first == 0 {
            // SAFETY: a filter was boxed when it was made, loaded or copied, and nothing refers to it now.
            *place = unsafe { defrag.moved(place.cast(), Layout::new::<Filter>()) }.cast();
        }
        // SAFETY: as above.
        let filter = unsafe { &mut *place.cast::<Filter>() };
        filter
            .relocate(first, &mut defrag)
            .is_some_and(|next| defrag.set_cursor(next))
    });
    more.unwrap_or(false).into()
}

/// The server's side of a defragmentation, for the time of a callback.
struct Defrag(*mut raw::RedisModuleDefragCtx);

impl Defrag {
    /// The layer to go on with; 0 at first.
    fn cursor(&self) -> usize {
        let mut cursor: c_ulong = 0;
        // SAFETY (of the call): the context is alive. Without a cursor the server leaves it at 0.
        call!(RedisModule_DefragCursorGet(self.0, &raw mut cursor));
        usize::try_from(cursor).unwrap_or(usize::MAX)
    }

    /// Keeps the layer to go on with; false when the server will not call again for this value.
    fn set_cursor(&self, next: usize) -> bool {
        // SAFETY (of the call): the context is alive.
        let status = call!(RedisModule_DefragCursorSet(self.0, next as c_ulong));
        status == raw::REDISMODULE_OK as c_int
    }

    /// Where a block is now.
    ///
    /// # Safety
    /// The block was allocated by the module with `layout`, and only the caller knows its address.
    unsafe fn moved(&self, block: *mut u8, layout: Layout) -> *mut u8 {
        // A server that can move blocks uses jemalloc, where none has padding.
        if layout.size() == 0 || !alloc::is_unpadded(layout) {
            return block;
        }
        // SAFETY (of the call): the context is alive, and the block is the server's. The new block is of the
        // same size class, and so aligned alike.
        let moved: *mut c_void = call!(RedisModule_DefragAlloc(self.0, block.cast()));
        if moved.is_null() { block } else { moved.cast() }
    }
}

impl Mover for Defrag {
    fn list<T>(&mut self, values: Vec<T>) -> Vec<T> {
        let mut values = ManuallyDrop::new(values);
        let (start, length, capacity) = (values.as_mut_ptr(), values.len(), values.capacity());
        let Ok(layout) = Layout::array::<T>(capacity) else {
            return ManuallyDrop::into_inner(values);
        };
        // SAFETY: a list's block has that layout, and the list is not used again.
        let start = unsafe { self.moved(start.cast(), layout) };
        // SAFETY: the same block, or a copy of it that took its place.
        unsafe { Vec::from_raw_parts(start.cast(), length, capacity) }
    }

    fn array<T>(&mut self, values: Box<[T]>) -> Box<[T]> {
        let (length, layout) = (values.len(), Layout::for_value(&*values));
        // SAFETY: an array's block has that layout, and the array is not used again.
        let start = unsafe { self.moved(Box::into_raw(values).cast(), layout) };
        let values = std::ptr::slice_from_raw_parts_mut(start.cast(), length);
        // SAFETY: the same block, or a copy of it that took its place.
        unsafe { Box::from_raw(values) }
    }

    fn boxed<T>(&mut self, value: &mut Box<T>) {
        let place = std::ptr::from_mut(value);
        // SAFETY: the place has a box, which is not used again: another one is written over it below.
        let block = Box::into_raw(unsafe { place.read() });
        // SAFETY: a box's block has that layout, and nothing else refers to it.
        let block = unsafe { self.moved(block.cast(), Layout::new::<T>()) };
        // SAFETY: the same block, or a copy of it that took its place.
        let moved = unsafe { Box::from_raw(block.cast()) };
        // SAFETY: the place is that of a box; what it has was given up above, and is not dropped.
        unsafe { place.write(moved) };
    }

    fn must_pause(&mut self) -> bool {
        // SAFETY (of the call): the context is alive.
        call!(RedisModule_DefragShouldStop(self.0)) != 0
    }
}
