//! The module's allocator. Inside a server it is the server's, so that the server's memory figures are right. In
//! tests, benchmarks and fuzzers it is the system's.
//!
//! It adds three guarantees that neither of the two gives by itself:
//! - Zeroed memory comes from `calloc`, so that a large array costs only the pages that are written.
//! - A large request that cannot be met returns null. Servers before 7.4 have no fallible `calloc`, and their
//!   infallible one ends the process. And a server whose allocator handed out the last memory ends with the next
//!   allocation of its own. So the kernel is asked first, for what the allocator will map and a reserve.
//! - Alignments up to 64 hold. The server's jemalloc aligns every size that is a multiple of 64 to 64. Any other
//!   allocator gets a slightly larger request, and the address that it returned is stored before the block.
//!
//! How the server's allocator rounds and aligns is determined once, when the module is loaded ([`detect`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::raw;

use libbloom::bits::memory::BlockSize;

/// The alignment of `malloc` on every platform that the servers run on.
const MALLOC_ALIGN: usize = 16;
/// Bytes before a block in which a server keeps its size, where the C library cannot report sizes.
const PREFIX: usize = 8;
/// Requests above this size are tried with the kernel first. How jemalloc rounds them is computed; for smaller ones
/// jemalloc itself is asked, since its builds differ.
const LARGE: u64 = 1 << 16;
/// What the kernel must be able to give in addition to a large block: an allocator maps tables of its own for large
/// blocks, up to some megabytes at once, and the server must be able to go on.
const SLACK: u64 = 16 << 20;

/// An entry of the server's table of calls; `None` where the server lacks it, or without a server.
macro_rules! server {
    ($name:ident) => {{
        // SAFETY: the table is written once, before any other code of the module runs.
        unsafe { raw::$name }
    }};
}

/// An allocator, as far as its rounding and alignment are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// jemalloc has four sizes in each doubling. From version 5.3.1 on large sizes are also multiples of its page,
    /// which is the page size of the machine that built it, so that neighbouring sizes are at most `largest_step`
    /// apart.
    Jemalloc { largest_step: u64 },
    /// The C library's `malloc`, and any allocator that is not recognised.
    Malloc,
    /// `malloc` behind the server's own header, where the C library cannot report sizes, as with musl: a block starts
    /// [`PREFIX`] bytes after the address that `malloc` returned.
    Prefixed,
}

/// The server's allocator. Set once, before anything is allocated with an alignment above [`PREFIX`].
static KIND: OnceLock<Kind> = OnceLock::new();

/// The allocator in use; without a server it is the system's `malloc`.
fn kind() -> Kind {
    KIND.get().copied().unwrap_or(Kind::Malloc)
}

/// Determines how the server's allocator rounds and aligns. Call it before anything is allocated with an alignment
/// above 8.
pub fn detect(says_jemalloc: bool) {
    let (address, bytes) = match says_jemalloc {
        true if !kernel_grants(&[2 * STEP_PROBE]) => (0, 0),
        true => probe(STEP_PROBE + 1),
        // Small enough for any heap, and large enough to get the allocator's usual alignment.
        false => probe(1000),
    };
    let kind = match says_jemalloc {
        true => Kind::Jemalloc {
            largest_step: largest_step(bytes),
        },
        false => kind_of_malloc(address),
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

/// A size class of jemalloc from which a quarter of a doubling leads to the next. It is far above any page, which has
/// 4 to 64 KiB.
const STEP_PROBE: u64 = 8 << 20;

/// The largest distance between two of jemalloc's sizes, derived from its size for one byte more than [`STEP_PROBE`].
fn largest_step(bytes: u64) -> u64 {
    match bytes.checked_sub(STEP_PROBE) {
        Some(step) if step.is_power_of_two() && (1 << 12..STEP_PROBE / 4).contains(&step) => step,
        _ => u64::MAX,
    }
}

/// The address and the size of a block that the server's allocator returns for `bytes` bytes; zeros without a server.
fn probe(bytes: u64) -> (usize, u64) {
    let (Some(alloc), Some(free), Some(malloc_size)) = (
        server!(RedisModule_Alloc),
        server!(RedisModule_Free),
        server!(RedisModule_MallocSize),
    ) else {
        return (0, 0);
    };
    // SAFETY: the server's allocator takes any size.
    let block = unsafe { alloc(bytes as usize) };
    // SAFETY: the block was just allocated.
    let size = unsafe { malloc_size(block) };
    // SAFETY: nothing refers to it.
    unsafe { free(block) };
    (block.addr(), size as u64)
}

/// Whether the kernel would map blocks of all these sizes, in bytes, for this process at once.
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

/// Memory that is reserved for an allocation of the server, which ends when it has none. It is freed right before
/// that allocation.
#[derive(Debug, Default)]
pub struct Reserved {
    blocks: Vec<Vec<u8>>,
    /// Bytes of the blocks that are [left out](Self::left_out) of `maxmemory`.
    left_out: u64,
}

/// Bytes of all blocks that are left out of `maxmemory`.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Bytes set apart for what the server, once it has taken them, does not count against `maxmemory`. Until
/// then it counts them as used.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Relaxed)
}

impl Drop for Reserved {
    fn drop(&mut self) {
        LEFT_OUT.fetch_sub(self.left_out, Relaxed);
    }
}

impl Reserved {
    /// Most bytes of a block that stands for many small ones. jemalloc has blocks of 8 MiB and more in an arena of their
    /// own, and what is given back there is no use for smaller ones.
    const PIECE: usize = 4 << 20;

    /// Sets one more block of `bytes` bytes apart; `None` if there is no memory for it. For a small block nothing is
    /// set apart: the server itself needs as much for whatever it does next.
    pub fn block(mut self, bytes: usize) -> Option<Self> {
        if !is_small(bytes) {
            let mut block = Vec::new();
            block.try_reserve_exact(bytes).ok()?;
            // Without this the compiler may drop an allocation that nothing reads.
            self.blocks.push(std::hint::black_box(block));
        }
        Some(self)
    }

    /// Declares that all blocks so far are for what the server does not count against `maxmemory`.
    pub fn left_out(mut self) -> Self {
        let bytes: usize = self.blocks.iter().map(Vec::capacity).sum();
        LEFT_OUT.fetch_add(bytes as u64 - self.left_out, Relaxed);
        self.left_out = bytes as u64;
        self
    }

    /// Sets `bytes` more bytes apart, for what the server takes in blocks of less than 8 MiB; `None` if there is no
    /// memory for them.
    pub fn pieces(mut self, bytes: usize) -> Option<Self> {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(Self::PIECE);
            self = self.block(piece)?;
            left -= piece;
        }
        Some(self)
    }
}

/// Whether a request for `bytes` bytes is so small that neither the kernel nor the allocator is asked first.
pub fn is_small(bytes: usize) -> bool {
    bytes as u64 <= LARGE
}

thread_local! {
    /// Whether large requests of this thread skip the kernel check.
    static SKIPS_KERNEL_CHECK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which cannot report a failure, such as a save. Its large requests skip the kernel check, so that it
/// goes on as long as there is any memory, as the server itself does.
pub fn without_kernel_check<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the check, also after a panic.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            SKIPS_KERNEL_CHECK.set(false);
        }
    }
    let _reset = Reset;
    SKIPS_KERNEL_CHECK.set(true);
    work()
}

/// The global allocator of the module.
#[derive(Debug)]
pub struct ModuleAllocator;

/// Bytes that the allocator holds for a block, rounding included; without a server, the requested size.
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

/// Whether a block of this layout has no padding, so that it can be moved as it is.
pub fn is_unpadded(layout: Layout) -> bool {
    padding(layout.align()) == 0
}

/// Allocates a block from the server, or from the system without one, with the allocator's own alignment.
///
/// # Safety
/// `layout` has a size above 0 and an alignment of at most [`alignment`].
unsafe fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    let bytes = layout.size();
    let (Some(alloc), Some(calloc)) = (server!(RedisModule_Alloc), server!(RedisModule_Calloc)) else {
        return match zeroed {
            // SAFETY: the caller guarantees it.
            true => unsafe { System.alloc_zeroed(layout) },
            // SAFETY: the caller guarantees it.
            false => unsafe { System.alloc(layout) },
        };
    };
    if bytes as u64 > LARGE && !SKIPS_KERNEL_CHECK.get() && !kernel_grants(&mapped(bytes as u64)) {
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

/// Bytes that the server's allocator will use for a block, rounding included: what [`held`] later reports. An
/// allocator that is not recognised is treated as glibc's; the result may then be a page too much. Without a server,
/// the requested size.
pub fn taken(block: BlockSize) -> u64 {
    if server!(RedisModule_MallocSize).is_none() {
        return block.bytes;
    }
    let bytes = unmoved(kind(), block.bytes, block.align).saturating_add(padding(block.align) as u64);
    match kind() {
        Kind::Jemalloc { largest_step } if bytes > LARGE => jemalloc_size(bytes, largest_step),
        Kind::Jemalloc { .. } => probe(bytes).1,
        Kind::Prefixed => bytes.saturating_add(PREFIX as u64),
        Kind::Malloc => libc_size(bytes),
    }
}

/// Sizes that the kernel must be able to map at once for a large block of `bytes` bytes: the block itself, and the
/// rest. jemalloc adds a page to the block, and maps up to two of its sizes more if it can, to keep the remainder for
/// later requests. There are two sizes because a kernel without a limit for the process may refuse in one piece, as
/// more than the machine has, what it grants in two.
fn mapped(bytes: u64) -> [u64; 2] {
    let block = BlockSize {
        bytes,
        align: MALLOC_ALIGN,
    };
    let taken = taken(block);
    // Mappings have four sizes in each doubling even where blocks have more.
    let above = |bytes: u64| jemalloc_size(bytes.saturating_add(1), u64::MAX);
    let ahead = match kind() {
        Kind::Jemalloc { .. } => above(above(taken)).saturating_sub(taken),
        Kind::Malloc | Kind::Prefixed => 0,
    };
    [taken, ahead.saturating_add(SLACK)]
}

/// Bytes that glibc's allocator has for a block of `bytes` bytes. Small blocks are multiples of 16 with a header of 8
/// bytes; large ones are whole pages with a header of 16.
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

/// The size of a page in bytes.
fn page() -> u64 {
    // SAFETY: the call reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page)
        .ok()
        .filter(|page| page.is_power_of_two())
        .unwrap_or(4096)
}

/// jemalloc's size for a request above its smallest sizes: a power of two or 5, 6 or 7 quarters of one, and a
/// multiple of `largest_step` where a quarter is more than that.
fn jemalloc_size(bytes: u64, largest_step: u64) -> u64 {
    let quarter = 1 << bytes.saturating_sub(1).max(4).ilog2().saturating_sub(2);
    bytes
        .checked_next_multiple_of(largest_step.min(quarter))
        .unwrap_or(u64::MAX)
}

/// Frees a block that [`allocate`] returned.
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

/// The alignment of every block of the allocator. The jemalloc that comes with a server has sizes such as 24, 40 and
/// 56, whose blocks start at multiples of 8.
fn alignment() -> usize {
    match kind() {
        Kind::Malloc => MALLOC_ALIGN,
        Kind::Jemalloc { .. } | Kind::Prefixed => PREFIX,
    }
}

/// Bytes that are requested in addition to a block, so that its contents can be aligned.
fn padding(align: usize) -> usize {
    padding_of(kind(), align)
}

/// The [`padding`] with an allocator of this kind.
fn padding_of(kind: Kind, align: usize) -> usize {
    match kind {
        Kind::Jemalloc { .. } => 0,
        Kind::Malloc if align <= MALLOC_ALIGN => 0,
        Kind::Prefixed if align <= PREFIX => 0,
        Kind::Malloc | Kind::Prefixed => align,
    }
}

/// The layout of the allocator's block for a block of higher alignment, with room to shift the contents if
/// that is needed.
fn behind(layout: Layout) -> Option<Layout> {
    let bytes = unmoved(kind(), layout.size() as u64, layout.align());
    let bytes = usize::try_from(bytes)
        .ok()?
        .checked_add(padding(layout.align()))?;
    Layout::from_size_align(bytes, MALLOC_ALIGN).ok()
}

/// Bytes to request so that the allocator aligns a block of `bytes` bytes by itself: jemalloc aligns a size that is a
/// multiple of a power of two, up to a page, to that power.
fn unmoved(kind: Kind, bytes: u64, align: usize) -> u64 {
    match kind {
        Kind::Jemalloc { .. } if align > PREFIX => {
            bytes.checked_next_multiple_of(align as u64).unwrap_or(u64::MAX)
        }
        Kind::Jemalloc { .. } | Kind::Malloc | Kind::Prefixed => bytes,
    }
}

/// Allocates a block whose alignment is above the allocator's own.
///
/// # Safety
/// `layout` has a size above 0 and an alignment above [`alignment`].
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

/// Frees a block that [`allocate_aligned`] returned.
///
/// # Safety
/// `aligned` came from [`allocate_aligned`] with `layout`.
unsafe fn release_aligned(aligned: *mut u8, layout: Layout) {
    let Some(behind) = behind(layout) else { return };
    if is_unpadded(layout) {
        // SAFETY: without padding the block is the one that was allocated.
        return unsafe { release(aligned, behind) };
    }
    // SAFETY: the block has padding.
    let block = unsafe { block_of_aligned(aligned) };
    // SAFETY: that is the block that was allocated.
    unsafe { release(block, behind) };
}

/// The allocator's block around a block of higher alignment that has padding.
///
/// # Safety
/// `aligned` came from [`allocate_aligned`] with a layout that is not [`is_unpadded`].
unsafe fn block_of_aligned(aligned: *mut u8) -> *mut u8 {
    // SAFETY: the block's own address was written there.
    let before = unsafe { aligned.cast::<*mut u8>().sub(1) };
    // SAFETY: as above.
    unsafe { before.read() }
}

// SAFETY: blocks come from the server's or the system's allocator, which satisfy alignments up to `alignment`; larger
// alignments are made above. Which of the two is in use never changes after the first allocation: a loading module
// fills the server's table of calls first, from a buffer on the stack. The kind of the allocator is known before any
// alignment above 8 is requested.
unsafe impl GlobalAlloc for ModuleAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= alignment() {
            // SAFETY: the caller guarantees it.
            unsafe { allocate(layout, false) }
        } else {
            // SAFETY: the caller guarantees it.
            unsafe { allocate_aligned(layout, false) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= alignment() {
            // SAFETY: the caller guarantees it.
            unsafe { allocate(layout, true) }
        } else {
            // SAFETY: the caller guarantees it.
            unsafe { allocate_aligned(layout, true) }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= alignment() {
            // SAFETY: the caller guarantees it.
            unsafe { release(block, layout) }
        } else {
            // SAFETY: the caller guarantees it.
            unsafe { release_aligned(block, layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbloom::codec::{self, ENCODING_VERSION, stream};
    use libbloom::params::{Capacity, ErrorRate, Growth, Layout as FilterLayout, Seed, Spec};
    use libbloom::{Filter, UNLIMITED};

    /// A filter for a billion items that nobody has used yet would fill the memory of a server that makes, saves or
    /// loads it.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_huge_untouched_filter_is_stored_and_loaded_without_touching_its_memory() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
        };
        let before = resident();
        let spec = Spec {
            error_rate: ErrorRate::new(0.01).unwrap(),
            capacity: Capacity::new(1_000_000_000).unwrap(),
            growth: Growth::Fixed,
            layout: FilterLayout::Blocked { seed: Seed(5) },
            window: None,
        };
        let filter = Filter::new(spec, UNLIMITED).unwrap();
        let mut stream = stream::MemoryStream::default();
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

    /// Limits would be compared with less memory than the server then counts.
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
            assert_eq!(jemalloc_size(bytes, u64::MAX), size, "{bytes}");
        }
    }

    /// With jemalloc 5.3.1 a filter that fits would be refused, and BF.PLAN would name up to a fifth too much. The
    /// sizes are Debian's, on arm64 (pages of 64 KiB) and x86-64 (4 KiB).
    #[test]
    fn sizes_of_a_newer_jemalloc_are_multiples_of_its_page() {
        for (bytes, page, size) in [
            (65_537, 1 << 16, 81_920),
            (229_377, 1 << 16, 1 << 18),
            ((1 << 19) + 1, 1 << 16, (1 << 19) + (1 << 16)),
            (2_551_152, 1 << 16, 39 << 16),
            (65_537, 1 << 12, 69_632),
            (2_551_152, 1 << 12, 623 << 12),
            (u64::MAX - 1, 1 << 12, u64::MAX),
        ] {
            assert_eq!(jemalloc_size(bytes, page), size, "{bytes}");
        }
        // What the probe finds for each page size.
        for page in [1 << 12, 1 << 14, 1 << 16] {
            assert_eq!(largest_step(jemalloc_size(STEP_PROBE + 1, page)), page);
        }
        assert_eq!(largest_step(jemalloc_size(STEP_PROBE + 1, u64::MAX)), u64::MAX);
        // The kernel refused the probe, or the allocator is not the jemalloc that it claims to be.
        for told in [0, STEP_PROBE, STEP_PROBE + 8, u64::MAX] {
            assert_eq!(largest_step(told), u64::MAX, "{told}");
        }
    }

    /// In a server without jemalloc a limit would refuse what fits, or accept what does not. The bytes and sizes are
    /// those of glibc 2.36.
    #[test]
    fn sizes_of_the_system_are_whole_pages_or_multiples_of_16() {
        for (bytes, size) in [(1, 24), (24, 24), (25, 40), (40, 40), (1000, 1000), (1001, 1016)] {
            assert_eq!(libc_size(bytes), size, "{bytes}");
        }
        assert_eq!(libc_size(1 << 20), (1 << 20) + page() - 16);
        assert_eq!(libc_size((1 << 20) - 16), (1 << 20) - 16);
        assert_eq!(libc_size(u64::MAX), u64::MAX);
    }

    /// A server on musl would move items across cache lines, and count blocks that are shorter than it says.
    #[test]
    fn a_prefix_of_the_server_is_told_by_the_address() {
        assert_eq!(kind_of_malloc(0x7f00_0008), Kind::Prefixed);
        assert_eq!(kind_of_malloc(0x7f00_0010), Kind::Malloc);
    }

    /// A limit would refuse filters that it has room for, and no block of another allocator could be moved. In a
    /// server on musl a vector at an address that is no multiple of 16 would end the process.
    #[test]
    fn only_what_the_allocator_does_not_align_is_padded() {
        let paddings = |kind| [1, 8, 16, 32, 64].map(|align| padding_of(kind, align));
        let jemalloc = Kind::Jemalloc {
            largest_step: u64::MAX,
        };
        assert_eq!(paddings(jemalloc), [0; 5]);
        assert_eq!(paddings(Kind::Malloc), [0, 0, 0, 32, 64]);
        assert_eq!(paddings(Kind::Prefixed), [0, 0, 16, 32, 64]);
    }

    /// A server with its own jemalloc would crash: an address that must be a multiple of 16 would only be one of 8.
    /// The tables of the standard library's sets are such a case; the smallest but one has 52 bytes.
    #[test]
    fn jemalloc_gets_multiples_of_the_alignment() {
        let jemalloc = Kind::Jemalloc {
            largest_step: u64::MAX,
        };
        for (bytes, align, expected) in [
            (52, 16, 64),
            (40, 16, 48),
            (40, 8, 40),
            (100, 64, 128),
            (128, 64, 128),
            (u64::MAX, 16, u64::MAX),
        ] {
            assert_eq!(unmoved(jemalloc, bytes, align), expected, "{bytes}, {align}");
            assert_eq!(unmoved(Kind::Malloc, bytes, align), bytes);
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
        assert!(kernel_grants(&[1 << 20, 1 << 16]));
        assert!(!kernel_grants(&[1 << 60]));
        assert!(!kernel_grants(&[1 << 16, 1 << 60]));
    }
}
