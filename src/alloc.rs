//! The allocator: the server's inside a server, so that its memory figures are right; the system's in
//! tests, benchmarks and fuzzers, where there is no server.
//!
//! Three promises that neither of them makes by itself:
//! - Zeroed memory comes from `calloc`, so that a large array costs only the pages that are written.
//! - A large request that cannot be met gives null. Servers before 7.4 have no fallible `calloc`, and
//!   their plain one ends the process; there the kernel is asked first.
//! - Alignments up to 64 hold. The server's jemalloc aligns every size that is a multiple of 64 to 64; any
//!   other allocator is asked for a little more, and the address it gave is kept before the block.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

/// What `malloc` aligns to on every platform that the servers run on.
const MALLOC_ALIGN: usize = 16;
/// Requests from this size on are put to the kernel first where a refusal would end the process.
const ASK_KERNEL_FROM: usize = 1 << 20;

/// Set once, before the first filter, when the server's allocator aligns multiples of 64 to 64.
static ALIGNS_TO_LINES: AtomicBool = AtomicBool::new(false);

/// Tells the allocator that the server uses jemalloc. Call it before anything is allocated with an
/// alignment above 16, and at most once.
pub fn server_uses_jemalloc() {
    ALIGNS_TO_LINES.store(true, Ordering::Relaxed);
}

/// Whether the kernel would give this process `bytes` more.
pub fn kernel_grants(bytes: usize) -> bool {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANON,
    );
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice disturbs nothing.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping was just made with this size, and nothing refers to it.
    unsafe { libc::munmap(place, bytes.max(1)) };
    true
}

/// The global allocator of the module.
#[derive(Debug)]
pub struct ModuleAllocator;

/// An entry of the server's table of calls; `None` where the server lacks it, or where there is no server.
macro_rules! server {
    ($name:ident) => {{
        // SAFETY: the table is written once, before any other code of the module runs.
        unsafe { raw::$name }
    }};
}

/// Bytes that the allocator holds for a block, what it rounds up included; what was asked for when there
/// is no server to tell.
///
/// # Safety
/// A block at `address` was allocated here with `layout`, and is not freed yet.
pub unsafe fn held(address: *const u8, layout: Layout) -> usize {
    let Some(malloc_size) = server!(RedisModule_MallocSize) else {
        return layout.size();
    };
    let block = if is_unpadded(layout) {
        address.cast_mut()
    } else {
        // SAFETY: an over-aligned block with padding has its own address before it.
        unsafe { block_of_aligned(address.cast_mut()) }
    };
    // SAFETY: the block is the server's.
    unsafe { malloc_size(block.cast::<c_void>()) }
}

/// Whether a block of this layout starts where its contents do, so that it can be moved as it is.
pub fn is_unpadded(layout: Layout) -> bool {
    layout.align() <= MALLOC_ALIGN || behind(layout).is_some_and(|behind| behind.size() == layout.size())
}

/// A block of memory before alignment: from the server when there is one.
///
/// # Safety
/// `layout` has a size above 0 and an alignment of at most [`MALLOC_ALIGN`].
unsafe fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    #[cfg(test)]
    if failing::now() {
        return std::ptr::null_mut();
    }
    let bytes = layout.size();
    let (Some(alloc), Some(calloc)) = (server!(RedisModule_Alloc), server!(RedisModule_Calloc)) else {
        return match zeroed {
            // SAFETY: the caller's.
            true => unsafe { System.alloc_zeroed(layout) },
            // SAFETY: the caller's.
            false => unsafe { System.alloc(layout) },
        };
    };
    let granted = || bytes < ASK_KERNEL_FROM || kernel_grants(bytes);
    let block = match (
        zeroed,
        server!(RedisModule_TryCalloc),
        server!(RedisModule_TryAlloc),
    ) {
        // SAFETY: the server's allocator takes any size, in all of its forms.
        (true, Some(try_calloc), _) => unsafe { try_calloc(1, bytes) },
        // SAFETY: as above.
        (true, None, _) if granted() => unsafe { calloc(1, bytes) },
        // SAFETY: as above.
        (false, _, Some(try_alloc)) => unsafe { try_alloc(bytes) },
        // SAFETY: as above.
        (false, _, None) if granted() => unsafe { alloc(bytes) },
        _ => std::ptr::null_mut(),
    };
    block.cast()
}

/// Gives back what [`allocate`] gave.
///
/// # Safety
/// `block` came from [`allocate`] with `layout`.
unsafe fn release(block: *mut u8, layout: Layout) {
    match server!(RedisModule_Free) {
        // SAFETY: the block is the server's.
        Some(free) => unsafe { free(block.cast::<c_void>()) },
        // SAFETY: without a server the block is the system's, of this layout.
        None => unsafe { System.dealloc(block, layout) },
    }
}

/// The layout of the block behind an over-aligned one: itself, or one with room to move.
fn behind(layout: Layout) -> Option<Layout> {
    let slack = if ALIGNS_TO_LINES.load(Ordering::Relaxed) {
        0
    } else {
        layout.align()
    };
    let bytes = layout.size().checked_add(slack)?;
    Layout::from_size_align(bytes, MALLOC_ALIGN).ok()
}

/// An over-aligned block.
///
/// # Safety
/// `layout` has a size above 0 and an alignment above [`MALLOC_ALIGN`].
unsafe fn allocate_aligned(layout: Layout, zeroed: bool) -> *mut u8 {
    let Some(behind) = behind(layout) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the size is above 0, as the caller says.
    let block = unsafe { allocate(behind, zeroed) };
    if block.is_null() {
        return block;
    }
    if behind.size() == layout.size() {
        if block.addr().is_multiple_of(layout.align()) {
            return block;
        }
        // An allocator that says it is jemalloc and is not: better no filter than a broken one.
        // SAFETY: it was just allocated with this layout.
        unsafe { release(block, behind) };
        return std::ptr::null_mut();
    }
    // At least MALLOC_ALIGN bytes lie before the next aligned address: room for the block's own.
    let offset = layout.align() - block.addr() % layout.align();
    // SAFETY: the slack is the alignment, and the offset at most that.
    let aligned = unsafe { block.add(offset) };
    // SAFETY: the offset is a multiple of MALLOC_ALIGN and above 0, so a pointer fits before.
    let before = unsafe { aligned.cast::<*mut u8>().sub(1) };
    // SAFETY: as above; both addresses are multiples of 8.
    unsafe { before.write(block) };
    aligned
}

/// Gives back what [`allocate_aligned`] gave.
///
/// # Safety
/// `aligned` came from [`allocate_aligned`] with `layout`.
unsafe fn release_aligned(aligned: *mut u8, layout: Layout) {
    let Some(behind) = behind(layout) else { return };
    if behind.size() == layout.size() {
        // SAFETY: there was no slack, so the block is the one that was allocated.
        return unsafe { release(aligned, behind) };
    }
    // SAFETY: the block has padding.
    let block = unsafe { block_of_aligned(aligned) };
    // SAFETY: that is the block that was allocated.
    unsafe { release(block, behind) };
}

/// The block that an over-aligned one with padding lies in.
///
/// # Safety
/// `aligned` came from [`allocate_aligned`] with a layout that is not [`is_unpadded`].
unsafe fn block_of_aligned(aligned: *mut u8) -> *mut u8 {
    // SAFETY: the block's own address was written there.
    let before = unsafe { aligned.cast::<*mut u8>().sub(1) };
    // SAFETY: as above.
    unsafe { before.read() }
}

// SAFETY: blocks come from the server's or the system's allocator, which keep the contract for alignments
// up to MALLOC_ALIGN; larger alignments are made above. Which of the two is in use never changes once
// anything was allocated: the server's table of calls is the first thing that is filled when a module is
// loaded, from a buffer on the stack. Whether lines need padding is decided before the first filter.
unsafe impl GlobalAlloc for ModuleAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: the caller's.
            unsafe { allocate(layout, false) }
        } else {
            // SAFETY: the caller's.
            unsafe { allocate_aligned(layout, false) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: the caller's.
            unsafe { allocate(layout, true) }
        } else {
            // SAFETY: the caller's.
            unsafe { allocate_aligned(layout, true) }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: the caller's.
            unsafe { release(block, layout) }
        } else {
            // SAFETY: the caller's.
            unsafe { release_aligned(block, layout) }
        }
    }
}

/// An allocator that fails, for tests of what then becomes of a filter.
#[cfg(test)]
pub mod failing {
    use std::cell::Cell;

    /// Which allocations fail.
    #[derive(Clone, Copy, Debug)]
    pub enum Shortage {
        /// All of them, from one on.
        Lasting,
        /// A single one.
        Passing,
    }

    thread_local! {
        /// Allocations of this thread that succeed before one fails, and what comes after it; `None` when none
        /// fails.
        static LEFT: Cell<Option<(u32, Shortage)>> = const { Cell::new(None) };
    }

    /// Whether the allocation that is asked for now fails.
    pub fn now() -> bool {
        let left = LEFT.get();
        LEFT.set(match left {
            Some((0, Shortage::Passing)) => None,
            left => left.map(|(good, shortage)| (good.saturating_sub(1), shortage)),
        });
        matches!(left, Some((0, _)))
    }

    /// What `work` gives when, of the allocations of this thread, `good` succeed before the shortage.
    pub fn after<T>(good: u32, shortage: Shortage, work: impl FnOnce() -> T) -> T {
        /// Counts no more, also after a panic, which allocates.
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                LEFT.set(None);
            }
        }
        let _reset = Reset;
        LEFT.set(Some((good, shortage)));
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that straddles two cache lines costs two of them; an unaligned one would be undefined.
    #[test]
    fn every_alignment_holds_and_zeroed_memory_is_zero() {
        for align in [1, 8, 16, 32, 64] {
            for size in [1, 63, 64, 192, 4096, 1 << 20, (1 << 22) + 8] {
                let layout = Layout::from_size_align(size, align).unwrap();
                for _ in 0..3 {
                    // SAFETY: the size is above 0.
                    let block = unsafe { ModuleAllocator.alloc_zeroed(layout) };
                    assert!(!block.is_null() && block.addr() % align == 0, "{layout:?}");
                    // SAFETY: the block has that size and is initialised.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
                    assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
                    bytes.fill(0xff);
                    // SAFETY: it came from this allocator with this layout.
                    unsafe { ModuleAllocator.dealloc(block, layout) };
                }
            }
        }
    }

    #[test]
    fn what_no_machine_has_is_null() {
        for align in [8, 64] {
            let layout = Layout::from_size_align(1 << 60, align).unwrap();
            // SAFETY: the size is above 0.
            let block = std::hint::black_box(unsafe { ModuleAllocator.alloc_zeroed(layout) });
            assert!(block.is_null(), "align {align}");
        }
        assert!(kernel_grants(1 << 20));
        assert!(!kernel_grants(1 << 60));
    }
}
