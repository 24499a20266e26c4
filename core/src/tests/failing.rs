//! An allocator that fails when a test requests it, to see what becomes of a filter then.
#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Which allocations fail.
#[derive(Clone, Copy, Debug)]
pub enum Shortage {
    /// All allocations from a given one on.
    Lasting,
    /// A single allocation.
    Passing,
}

thread_local! {
    /// The allocations of this thread that succeed before one fails, and what happens after it; `None` when none
    /// fails.
    static LEFT: Cell<Option<(u32, Shortage)>> = const { Cell::new(None) };
    /// The largest block, in bytes, that this thread can allocate.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Whether the current allocation, of `bytes` bytes, fails.
pub fn now(bytes: usize) -> bool {
    if bytes > LARGEST.get() {
        return true;
    }
    let left = LEFT.get();
    LEFT.set(match left {
        Some((0, Shortage::Passing)) => None,
        left => left.map(|(good, shortage)| (good.saturating_sub(1), shortage)),
    });
    matches!(left, Some((0, _)))
}

/// Runs `work` with a shortage after `good` allocations of this thread.
pub fn after<T>(good: u32, shortage: Shortage, work: impl FnOnce() -> T) -> T {
    /// Stops counting, also after a panic, which allocates.
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

/// Runs `work` while this thread cannot allocate a larger block.
pub fn above<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    /// Ends the shortage, also after a panic.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            LARGEST.set(usize::MAX);
        }
    }
    let _reset = Reset;
    LARGEST.set(bytes);
    work()
}

/// The allocator of the tests.
struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

// SAFETY: a block is the system's, or null, which every caller has to take for a failure.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if now(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if now(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}
