//! Active defragmentation: the server moves blocks that its allocator would rather have elsewhere.
//!
//! Every block of a filter is offered. jemalloc moves only blocks in slabs, which have up to 14 KiB where pages have
//! 4 KiB. A larger bit array has pages of its own, and stays where it is.

use std::alloc::Layout;
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use redis_module::raw;

use crate::server::{alloc, call, guarded};
use libbloom::Filter;
use libbloom::bits::memory::Mover;

/// Moves a filter's struct, its list of layers and their bit arrays. Returns 1 if the server is to call again.
pub unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    let more = guarded("defragmenting a filter", || {
        // SAFETY: the server passes the address of its pointer to a filter. The filter was boxed when it was made,
        // loaded or copied, and nothing refers to it now.
        unsafe { step(ServerCalls(ctx), value) }
    });
    more.unwrap_or(false).into()
}

/// Moves the next blocks of a filter. True when more of it is left for another step.
///
/// # Safety
/// At `place` is the address of a [`Filter`] that was allocated as a box, and nothing else refers to it.
unsafe fn step(calls: impl DefragCalls, place: *mut *mut c_void) -> bool {
    let mut defrag = Defrag(calls);
    let first = defrag.0.cursor();
    // SAFETY: the caller guarantees it.
    let place = unsafe { &mut *place };
    if first == 0 {
        // SAFETY: a box's block has that layout, and only this pointer has its address.
        *place = unsafe { defrag.moved(place.cast(), Layout::new::<Filter>()) }.cast();
    }
    // SAFETY: the caller guarantees it; a block that was moved is a copy of the one before.
    let filter = unsafe { &mut *place.cast::<Filter>() };
    filter
        .relocate(first, &mut defrag)
        .is_some_and(|next| defrag.0.set_cursor(next))
}

/// What a defragmentation calls of the server.
trait DefragCalls {
    /// The layer to continue with; 0 at first.
    fn cursor(&mut self) -> usize;
    /// Stores the layer to continue with; false if there will be no other call for this value.
    fn set_cursor(&mut self, next: usize) -> bool;
    /// Moves a block: returns the address of the copy and frees the original, or `None` if the block should stay.
    ///
    /// # Safety
    /// A block of the module starts at `block`, and nobody uses that address afterwards if it gets another one.
    unsafe fn move_block(&mut self, block: NonNull<u8>) -> Option<NonNull<u8>>;
    /// Whether the rest must wait for another step.
    fn must_pause(&mut self) -> bool;
}

struct ServerCalls(*mut raw::RedisModuleDefragCtx);

impl DefragCalls for ServerCalls {
    fn cursor(&mut self) -> usize {
        let mut cursor: c_ulong = 0;
        // SAFETY: the context is alive. Without a cursor the server leaves it at 0.
        unsafe { call!(RedisModule_DefragCursorGet(self.0, &raw mut cursor)) };
        usize::try_from(cursor).unwrap_or(usize::MAX)
    }

    fn set_cursor(&mut self, next: usize) -> bool {
        // SAFETY: the context is alive.
        let status = unsafe { call!(RedisModule_DefragCursorSet(self.0, next as c_ulong)) };
        status == raw::REDISMODULE_OK as c_int
    }

    unsafe fn move_block(&mut self, block: NonNull<u8>) -> Option<NonNull<u8>> {
        // SAFETY: the context is alive, and the block is the server's. The new block is of the same size class, and so
        // aligned alike.
        let moved: *mut c_void = unsafe { call!(RedisModule_DefragAlloc(self.0, block.as_ptr().cast())) };
        NonNull::new(moved.cast())
    }

    fn must_pause(&mut self) -> bool {
        // SAFETY: the context is alive.
        let should_stop = unsafe { call!(RedisModule_DefragShouldStop(self.0)) };
        should_stop != 0
    }
}

/// A defragmentation, which offers each block of a filter to a server.
struct Defrag<S>(S);

impl<S: DefragCalls> Defrag<S> {
    /// Offers a block, and returns its address afterwards.
    ///
    /// # Safety
    /// The block was allocated by the module with `layout`, and only the caller knows its address.
    unsafe fn moved(&mut self, block: *mut u8, layout: Layout) -> *mut u8 {
        // A server that can move blocks uses jemalloc, where no block has padding.
        if layout.size() == 0 || !alloc::is_unpadded(layout) {
            return block;
        }
        let Some(start) = NonNull::new(block) else {
            return block;
        };
        // SAFETY: the caller guarantees it, and uses the returned address from now on.
        let moved = unsafe { self.0.move_block(start) };
        moved.map_or(block, NonNull::as_ptr)
    }
}

impl<S: DefragCalls> Mover for Defrag<S> {
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
        self.0.must_pause()
    }
}

#[cfg(test)]
mod tests;
