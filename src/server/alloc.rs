//! The module's allocator: in a server the server's, so that its memory figures are right, without one the system's.
//!
//! It adds three guarantees that neither of the two gives by itself:
//! - Zeroed memory comes from `calloc`, so that a large array costs only the pages that are written.
//! - A large request that cannot be met returns null. Servers before 7.4 have no fallible `calloc`, and their
//!   infallible one ends the process. And a server whose allocator handed out the last memory ends with the next
//!   allocation of its own. So the kernel is asked first, for the block and a reserve.
//! - Alignments up to 64 hold. The server's jemalloc aligns every size that is a multiple of 64 to 64. Any other
//!   allocator gets a slightly larger request, and the address that it returned is stored before the block.
//!
//! How the server's allocator aligns is determined once, when the module is loaded ([`detect`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

use super::entry;

/// The alignment of `malloc` on every platform that the servers run on.
const MALLOC_ALIGN: usize = 16;
/// Bytes before a block in which a server keeps its size, where the C library cannot report sizes.
const PREFIX: usize = 8;
/// Requests above this size are tried with the kernel first.
const LARGE: usize = 1 << 16;
/// What the kernel must be able to give besides a large block and as much again: an allocator maps tables of its own for
/// large blocks, up to some megabytes at once, and the server must be able to go on.
const SLACK: usize = 16 << 20;

/// An allocator, as far as its alignment is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// jemalloc, which aligns a size that is a multiple of a power of two, up to a page, to that power.
    Jemalloc,
    /// The C library's `malloc`, and any allocator that is not recognised.
    Malloc,
    /// `malloc` behind the server's own header, where the C library cannot report sizes, as with musl: a block starts
    /// [`PREFIX`] bytes after the address that `malloc` returned.
    Prefixed,
}

/// The allocator in use; without a server the system's `malloc`.
static KIND: OnceLock<Kind> = OnceLock::new();

fn kind() -> Kind {
    KIND.get().copied().unwrap_or(Kind::Malloc)
}

/// Determines how the server's allocator aligns, before anything is allocated with an alignment above 8.
pub fn detect(says_jemalloc: bool) {
    let kind = match says_jemalloc {
        true => Kind::Jemalloc,
        false => kind_of_malloc(probe()),
    };
    // A server loads a module once.
    let _ = KIND.set(kind);
}

/// Which `malloc` it is that returned a block at this address to the server.
fn kind_of_malloc(address: usize) -> Kind {
    if address % MALLOC_ALIGN == PREFIX {
        Kind::Prefixed
    } else {
        Kind::Malloc
    }
}

/// The address of a block that the server's allocator returns; 0 without a server. The block is small enough for any heap,
/// and large enough to get the allocator's usual alignment.
fn probe() -> usize {
    let (Some(alloc), Some(free)) = (entry!(RedisModule_Alloc), entry!(RedisModule_Free)) else {
        return 0;
    };
    // SAFETY: the server's allocator takes any size.
    let block = unsafe { alloc(1000) };
    // SAFETY: nothing refers to it.
    unsafe { free(block) };
    block.addr()
}

/// Whether the kernel would map blocks of all these sizes, in bytes, for this process at once.
fn kernel_grants(sizes: &[usize]) -> bool {
    let [bytes, rest @ ..] = sizes else {
        return true;
    };
    let bytes = (*bytes).max(1);
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

thread_local! {
    /// Whether large requests of this thread skip the kernel check.
    static SKIPS_KERNEL_CHECK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which cannot report a failure, such as a save. Its large requests skip the kernel check, so that it
/// goes on as long as there is any memory, as the server itself does.
pub fn without_kernel_check<T>(work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            SKIPS_KERNEL_CHECK.set(false);
        }
    }
    // Restores the check, also after a panic.
    let _reset = Reset;
    SKIPS_KERNEL_CHECK.set(true);
    work()
}

/// The global allocator of the module.
pub struct ModuleAllocator;

/// Bytes that the allocator holds for a block, rounding included; without a server, the requested size.
///
/// # Safety
/// A block at `address` was allocated here with `layout`, and is not freed yet.
pub unsafe fn held(address: *const u8, layout: Layout) -> usize {
    let Some(malloc_size) = entry!(RedisModule_MallocSize) else {
        return layout.size();
    };
    // SAFETY: the caller guarantees it.
    let block = unsafe { block_of(address.cast_mut(), layout) };
    // SAFETY: the block is the server's.
    unsafe { malloc_size(block.cast::<c_void>()) }
}

/// Whether a block of this layout has no padding, so that it can be moved as it is.
pub fn is_unpadded(layout: Layout) -> bool {
    padding(kind(), layout.align()) == 0
}

/// Allocates a block from the server, or from the system without one, with the allocator's own alignment.
///
/// # Safety
/// `behind` is what the function of this name returns, for a size above 0.
unsafe fn allocate(behind: Layout, zeroed: bool) -> *mut u8 {
    let bytes = behind.size();
    let (Some(alloc), Some(calloc)) = (entry!(RedisModule_Alloc), entry!(RedisModule_Calloc)) else {
        return match zeroed {
            // SAFETY: the caller guarantees it.
            true => unsafe { System.alloc_zeroed(behind) },
            // SAFETY: the caller guarantees it.
            false => unsafe { System.alloc(behind) },
        };
    };
    if bytes > LARGE && !SKIPS_KERNEL_CHECK.get() && !kernel_grants(&mapped(bytes)) {
        return std::ptr::null_mut();
    }
    let block = if zeroed {
        let calloc = entry!(RedisModule_TryCalloc).unwrap_or(calloc);
        // SAFETY: the server's allocator takes any size, in all of its forms.
        unsafe { calloc(1, bytes) }
    } else {
        let alloc = entry!(RedisModule_TryAlloc).unwrap_or(alloc);
        // SAFETY: as above.
        unsafe { alloc(bytes) }
    };
    block.cast()
}

/// Sizes that the kernel must be able to map at once for a large block of `bytes` bytes: the block itself, and the rest.
/// jemalloc rounds the block up by a quarter at most, and maps up to two of its sizes more if it can; together that is less
/// than twice the block. There are two sizes because a kernel without a limit for the process may refuse in one piece, as
/// more than the machine has, what it grants in two.
fn mapped(bytes: usize) -> [usize; 2] {
    [bytes, bytes.saturating_add(SLACK)]
}

/// Bytes that are requested in addition to a block, so that its contents can be aligned. The jemalloc that comes with a
/// server has sizes such as 24, 40 and 56, whose blocks start at multiples of 8; it aligns [larger sizes](unmoved).
fn padding(kind: Kind, align: usize) -> usize {
    match kind {
        Kind::Jemalloc => 0,
        Kind::Malloc if align <= MALLOC_ALIGN => 0,
        Kind::Prefixed if align <= PREFIX => 0,
        Kind::Malloc | Kind::Prefixed => align,
    }
}

/// The layout of the allocator's block for a block of any alignment, with room to shift the contents if that is needed.
fn behind(layout: Layout) -> Option<Layout> {
    let (kind, align) = (kind(), layout.align());
    let bytes = unmoved(kind, layout.size(), align).checked_add(padding(kind, align))?;
    Layout::from_size_align(bytes, MALLOC_ALIGN).ok()
}

/// Bytes to request so that the allocator aligns a block of `bytes` bytes by itself.
fn unmoved(kind: Kind, bytes: usize, align: usize) -> usize {
    match kind {
        Kind::Jemalloc if align > PREFIX => bytes.checked_next_multiple_of(align).unwrap_or(usize::MAX),
        Kind::Jemalloc | Kind::Malloc | Kind::Prefixed => bytes,
    }
}

/// Allocates a block of any alignment.
///
/// # Safety
/// `layout` has a size above 0.
unsafe fn allocate_aligned(layout: Layout, zeroed: bool) -> *mut u8 {
    let Some(behind) = behind(layout) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the size is above 0, as the caller says.
    let block = unsafe { allocate(behind, zeroed) };
    if block.is_null() {
        return block;
    }
    if is_unpadded(layout) {
        if block.addr().is_multiple_of(layout.align()) {
            return block;
        }
        // The allocator claims to be jemalloc and is not. No filter is better than a broken one.
        // SAFETY: it was just allocated with this layout.
        unsafe { release(block, behind) };
        return std::ptr::null_mut();
    }
    // At least PREFIX bytes lie before the next aligned address: room for the block's own.
    let offset = layout.align() - block.addr() % layout.align();
    // SAFETY: the slack is the alignment, and the offset at most that.
    let aligned = unsafe { block.add(offset) };
    // SAFETY: the offset is a multiple of PREFIX, which is a pointer's size, and above 0, so one fits before.
    let before = unsafe { aligned.cast::<*mut u8>().sub(1) };
    // SAFETY: as above; both addresses are multiples of 8.
    unsafe { before.write(block) };
    aligned
}

/// Frees a block that [`allocate`] returned.
///
/// # Safety
/// `block` came from [`allocate`] with `behind`.
unsafe fn release(block: *mut u8, behind: Layout) {
    match entry!(RedisModule_Free) {
        // SAFETY: the block is the server's.
        Some(free) => unsafe { free(block.cast::<c_void>()) },
        // SAFETY: without a server the block is the system's, of this layout.
        None => unsafe { System.dealloc(block, behind) },
    }
}

/// The allocator's block in which the contents are at `address`.
///
/// # Safety
/// `address` came from [`allocate_aligned`] with `layout`.
unsafe fn block_of(address: *mut u8, layout: Layout) -> *mut u8 {
    if is_unpadded(layout) {
        return address;
    }
    // SAFETY: the address of a block with padding was written there.
    let before = unsafe { address.cast::<*mut u8>().sub(1) };
    // SAFETY: as above.
    unsafe { before.read() }
}

// SAFETY: blocks come from the server's or the system's allocator, and are aligned above. Which of the two is in use never
// changes after the first allocation: a loading module fills the server's table of calls first, from a buffer on the stack.
// The kind of the allocator is known before any alignment above 8 is requested.
unsafe impl GlobalAlloc for ModuleAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { allocate_aligned(layout, false) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { allocate_aligned(layout, true) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(behind) = behind(layout) else { return };
        // SAFETY: the caller guarantees it.
        let block = unsafe { block_of(block, layout) };
        // SAFETY: that is the block that was allocated.
        unsafe { release(block, behind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbloom::checks::MemoryStream;
    use libbloom::codec::{self, ENCODING_VERSION};
    use libbloom::params::{Capacity, ErrorRate, Growth, Seed};
    use libbloom::spec::BlockedSpec;
    use libbloom::{Filter, UNLIMITED};

    /// A filter for a billion items that nobody has used yet takes next to no memory.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_huge_untouched_filter_is_stored_and_loaded_without_touching_its_memory() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
        };
        let before = resident();
        let spec = BlockedSpec {
            error_rate: ErrorRate::new(0.01).unwrap(),
            capacity: Capacity::new(1_000_000_000).unwrap(),
            growth: Growth::Fixed,
            seed: Seed(5),
            window: None,
        };
        let filter = Filter::new(spec.into(), UNLIMITED).unwrap();
        let mut stream = MemoryStream::default();
        codec::save(&filter, &mut stream);
        let loaded = codec::load(&mut stream, ENCODING_VERSION, UNLIMITED).unwrap();
        assert!(filter.bytes() > 1 << 30 && loaded.bytes() == filter.bytes());
        // Other tests run in parallel.
        let taken = resident().saturating_sub(before);
        assert!(taken < 1 << 29, "{taken} bytes touched");
    }

    /// A line across two cache lines costs two cache misses; an unaligned one would be undefined behaviour.
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

    /// Items stay within their cache lines on musl too.
    #[test]
    fn a_prefix_of_the_server_is_known_by_the_address() {
        assert_eq!(kind_of_malloc(0x7f00_0008), Kind::Prefixed);
        assert_eq!(kind_of_malloc(0x7f00_0010), Kind::Malloc);
    }

    /// No block could be moved that the allocator aligns. In a server on musl a vector at an address that is no multiple
    /// of 16 would end the process.
    #[test]
    fn only_what_the_allocator_does_not_align_is_padded() {
        let paddings = |kind| [1, 8, 16, 32, 64].map(|align| padding(kind, align));
        assert_eq!(paddings(Kind::Jemalloc), [0; 5]);
        assert_eq!(paddings(Kind::Malloc), [0, 0, 0, 32, 64]);
        assert_eq!(paddings(Kind::Prefixed), [0, 0, 16, 32, 64]);
    }

    /// jemalloc aligns by the size, and addresses of 8 bytes more than a multiple of 16 crash a server.
    /// The tables of the standard library's sets are such a case; the smallest but one has 52 bytes.
    #[test]
    fn jemalloc_gets_multiples_of_the_alignment() {
        for (bytes, align, expected) in [
            (52, 16, 64),
            (40, 16, 48),
            (40, 8, 40),
            (100, 64, 128),
            (128, 64, 128),
            (usize::MAX, 16, usize::MAX),
        ] {
            assert_eq!(
                unmoved(Kind::Jemalloc, bytes, align),
                expected,
                "{bytes}, {align}"
            );
            assert_eq!(unmoved(Kind::Malloc, bytes, align), bytes);
        }
    }

    /// The server would abort where it should refuse the command.
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
