//! The allocator: the server's inside a server, so that its memory figures are right; the system's in
//! tests, benchmarks and fuzzers, where there is no server.
//!
//! Three promises that neither of them makes by itself:
//! - Zeroed memory comes from `calloc`, so that a large array costs only the pages that are written.
//! - A large request that cannot be met gives null. Servers before 7.4 have no fallible `calloc`, and
//!   their plain one ends the process; and a server whose allocator got the last there was ends with whatever
//!   it allocates next. So the kernel is asked first, for what the allocator will map and some more.
//! - Alignments up to 64 hold. The server's jemalloc aligns every size that is a multiple of 64 to 64; any
//!   other allocator is asked for a little more, and the address it gave is kept before the block.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use crate::bloom::bits::memory::Block;

/// What `malloc` aligns to on every platform that the servers run on.
const MALLOC_ALIGN: usize = 16;
/// Requests above this size are put to the kernel first. What jemalloc takes for them is computed; of smaller ones
/// it is asked, since builds of it differ.
const LARGE: u64 = 1 << 16;
/// What the kernel must have besides: an allocator maps tables of its own for what is large, up to some
/// megabytes at once, and the server must be able to go on.
const SLACK: u64 = 16 << 20;

/// Set once, before the first filter, when the server's allocator aligns multiples of 64 to 64.
static ALIGNS_TO_LINES: AtomicBool = AtomicBool::new(false);

/// Tells the allocator that the server uses jemalloc. Call it before anything is allocated with an
/// alignment above 16, and at most once.
pub fn server_uses_jemalloc() {
    ALIGNS_TO_LINES.store(true, Ordering::Relaxed);
}

/// Whether the kernel would give this process blocks of all these sizes, in bytes, at once.
pub fn kernel_grants(sizes: &[u64]) -> bool {
    let [bytes, rest @ ..] = sizes else {
        return true;
    };
    let Ok(bytes) = usize::try_from((*bytes).max(1)) else {
        return false;
    };
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANON,
    );
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice disturbs nothing.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    let granted = kernel_grants(rest);
    // SAFETY: the mapping was just made with this size, and nothing refers to it.
    unsafe { libc::munmap(place, bytes) };
    granted
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
    padding(layout.align()) == 0
}

/// A block of memory before alignment: from the server when there is one.
///
/// # Safety
/// `layout` has a size above 0 and an alignment of at most [`MALLOC_ALIGN`].
unsafe fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    #[cfg(test)]
    if failing::now(layout.size()) {
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
    if bytes as u64 > LARGE && !kernel_grants(&mapped(bytes as u64)) {
        return std::ptr::null_mut();
    }
    let block = match (
        zeroed,
        server!(RedisModule_TryCalloc),
        server!(RedisModule_TryAlloc),
    ) {
        // SAFETY: the server's allocator takes any size, in all of its forms.
        (true, Some(try_calloc), _) => unsafe { try_calloc(1, bytes) },
        // SAFETY: as above.
        (true, None, _) => unsafe { calloc(1, bytes) },
        // SAFETY: as above.
        (false, _, Some(try_alloc)) => unsafe { try_alloc(bytes) },
        // SAFETY: as above.
        (false, _, None) => unsafe { alloc(bytes) },
    };
    block.cast()
}

/// Bytes that the server's allocator takes for a block, what it rounds up included: what [`held`] then tells of it.
/// jemalloc has four sizes in each doubling; any other allocator is taken for the system's, of which the answer may
/// be a page too much. Without a server, what is asked for.
pub fn taken(block: Block) -> u64 {
    let (Some(alloc), Some(free), Some(malloc_size)) = (
        server!(RedisModule_Alloc),
        server!(RedisModule_Free),
        server!(RedisModule_MallocSize),
    ) else {
        return block.bytes;
    };
    let bytes = block.bytes.saturating_add(padding(block.align) as u64);
    if !ALIGNS_TO_LINES.load(Ordering::Relaxed) {
        return libc_size(bytes);
    }
    if bytes > LARGE {
        return jemalloc_size(bytes);
    }
    // SAFETY: the server's allocator takes any size.
    let probe = unsafe { alloc(bytes as usize) };
    // SAFETY: the block was just allocated.
    let size = unsafe { malloc_size(probe) };
    // SAFETY: nothing refers to it.
    unsafe { free(probe) };
    size as u64
}

/// Sizes that the kernel must have at once for a large block of `bytes` bytes: the block's, and the rest. jemalloc
/// puts a page beside it, and maps a size above if it can get it, to have the rest for what comes next; the last
/// such size was one less. They are two, because a kernel without a limit for the process may refuse in one piece,
/// as more than the machine has, what it gives in two.
fn mapped(bytes: u64) -> [u64; 2] {
    let block = Block {
        bytes,
        align: MALLOC_ALIGN,
    };
    let taken = taken(block);
    let ahead = if ALIGNS_TO_LINES.load(Ordering::Relaxed) {
        jemalloc_size(jemalloc_size(taken.saturating_add(1)).saturating_add(1)).saturating_sub(taken)
    } else {
        0
    };
    [taken, ahead.saturating_add(SLACK)]
}

/// What the system's allocator has for a block of `bytes` bytes: multiples of 16 with a header of half of that; and
/// for large blocks, which have pages of their own, whole pages with a header of that.
fn libc_size(bytes: u64) -> u64 {
    const UNIT: u64 = MALLOC_ALIGN as u64;
    const PAGES_FROM: u64 = 128 << 10;
    let (unit, header) = if bytes < PAGES_FROM {
        (UNIT, UNIT / 2)
    } else {
        (page(), UNIT)
    };
    let with_header = bytes.saturating_add(header).checked_next_multiple_of(unit);
    with_header.map_or(u64::MAX, |all| all.max(2 * UNIT) - header)
}

/// Bytes of a page.
fn page() -> u64 {
    // SAFETY: it asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page)
        .ok()
        .filter(|page| page.is_power_of_two())
        .unwrap_or(4096)
}

/// jemalloc's size for `bytes`, which are above its smallest sizes: a power of two, or 5, 6 or 7 quarters of one.
fn jemalloc_size(bytes: u64) -> u64 {
    let step = 1 << bytes.saturating_sub(1).max(4).ilog2().saturating_sub(2);
    bytes.checked_next_multiple_of(step).unwrap_or(u64::MAX)
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

/// Bytes that are asked for besides a block, so that its contents can be aligned.
fn padding(align: usize) -> usize {
    if align <= MALLOC_ALIGN || ALIGNS_TO_LINES.load(Ordering::Relaxed) {
        0
    } else {
        align
    }
}

/// The layout of the block behind an over-aligned one: itself, or one with room to move.
fn behind(layout: Layout) -> Option<Layout> {
    let bytes = layout.size().checked_add(padding(layout.align()))?;
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
        /// Bytes above which no block of this thread is to be had.
        static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Whether the allocation of so many bytes that is asked for now fails.
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

    /// What `work` gives when no block of this thread of more than so many bytes is to be had.
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

    /// What is held against a limit would be less than what the server then counts.
    #[test]
    fn sizes_of_jemalloc_are_quarters_of_a_doubling() {
        for (bytes, size) in [
            (65_537, 81_920),
            (81_920, 81_920),
            (81_921, 98_304),
            (114_689, 131_072),
            (131_072, 131_072),
            (60_900_000, 64 << 20),
            ((64 << 20) + 1, 80 << 20),
            (u64::MAX - 1, u64::MAX),
        ] {
            assert_eq!(jemalloc_size(bytes), size, "{bytes}");
        }
    }

    /// The same for a server without jemalloc. The bytes and sizes are glibc's, of version 2.36.
    #[test]
    fn sizes_of_the_system_are_whole_pages_or_multiples_of_16() {
        for (bytes, size) in [(1, 24), (24, 24), (25, 40), (40, 40), (1000, 1000), (1001, 1016)] {
            assert_eq!(libc_size(bytes), size, "{bytes}");
        }
        assert_eq!(libc_size(1 << 20), (1 << 20) + page() - 16);
        assert_eq!(libc_size((1 << 20) - 16), (1 << 20) - 16);
        assert_eq!(libc_size(u64::MAX), u64::MAX);
    }

    /// A limit would refuse filters that it has room for, and no block of another allocator could be moved.
    #[test]
    fn only_what_malloc_does_not_align_is_padded() {
        assert_eq!([1, 8, 16, 32, 64].map(padding), [0, 0, 0, 32, 64]);
    }

    #[test]
    fn what_no_machine_has_is_null() {
        for align in [8, 64] {
            let layout = Layout::from_size_align(1 << 60, align).unwrap();
            // SAFETY: the size is above 0.
            let block = std::hint::black_box(unsafe { ModuleAllocator.alloc_zeroed(layout) });
            assert!(block.is_null(), "align {align}");
        }
        assert!(kernel_grants(&[1 << 20, 1 << 16]));
        assert!(!kernel_grants(&[1 << 60]));
        assert!(!kernel_grants(&[1 << 16, 1 << 60]));
    }
}
