//! The memory of a bit array: the array's own, or a part of a mapped file.
//!
//! The standard library writes zeros into a zeroed block of a high alignment, and so takes all of its pages at once. A
//! large array is asked for with the allocator's own alignment instead, and begins where a line can begin: its pages
//! take memory once they are written to.
//!
//! This module and [`mapped`](crate::mapped) are the core's unsafe code besides the kernels.
#![expect(
    unsafe_code,
    reason = "a box can neither begin within its block nor be a part of a mapped file"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::{NoUninit, Zeroable};

use super::memory::{Allocation, Mover};

/// The alignment that every allocator gives, and from which on the standard library writes zeros.
const USUAL_ALIGN: usize = 16;
/// The alignment of [`Owner::Block`]: that of a line.
const ALIGN: usize = 64;
/// From so many bytes on, an array has a [`Owner::Block`]. Smaller ones have few pages.
const LARGE: usize = 1 << 20;

/// Whether the process has an allocator that zeroes blocks of any alignment on demand.
static ZEROES_ON_DEMAND: AtomicBool = AtomicBool::new(false);

/// Says that the process has an allocator that zeroes blocks of any alignment on demand, and moves them, as that of the
/// server module does. From then on arrays are plain boxes.
#[cfg_attr(docsrs, doc(hidden))]
pub fn allocator_zeroes_on_demand() {
    ZEROES_ON_DEMAND.store(true, Ordering::Relaxed);
}

/// Who frees the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It is a `Box<[U]>`.
    Boxed,
    /// It is in a larger block. The byte before the first unit is the distance to the begin of the block.
    Block,
    /// It is a part of a mapped file.
    File,
}

/// The units of a bit array.
pub struct Units<U> {
    start: NonNull<U>,
    /// Four times the number of units, and the number of the [`Owner`].
    length: usize,
    units: PhantomData<U>,
}

// SAFETY: the units are owned, or never written to.
unsafe impl<U: Send> Send for Units<U> {}
// SAFETY: shared units are only read.
unsafe impl<U: Sync> Sync for Units<U> {}

impl<U> Units<U> {
    #[inline]
    fn new(start: NonNull<U>, number: usize, owner: Owner) -> Self {
        Self {
            start,
            length: number << 2 | owner as usize,
            units: PhantomData,
        }
    }

    /// Units that are all zero; `None` without memory for them.
    pub fn zeroed(number: usize) -> Option<Self>
    where
        U: Zeroable + NoUninit,
    {
        let bytes = number.checked_mul(size_of::<U>())?;
        let is_usual = align_of::<U>() <= USUAL_ALIGN || align_of::<U>() > ALIGN;
        if bytes < LARGE || is_usual || ZEROES_ON_DEMAND.load(Ordering::Relaxed) {
            let units = bytemuck::allocation::try_zeroed_slice_box(number);
            return units.ok().map(Self::from);
        }
        // SAFETY: the size is above 0.
        let block = unsafe { alloc_zeroed(block(bytes)?) };
        if block.is_null() {
            return None;
        }
        let distance = ALIGN - block.addr() % ALIGN;
        // SAFETY: the block has `ALIGN` bytes more than the units.
        let start = unsafe { block.add(distance) };
        // SAFETY: the block is aligned to `USUAL_ALIGN`, so that the distance is above 0.
        let before = unsafe { start.sub(1) };
        // SAFETY: it lies in the block, which nothing else refers to.
        unsafe { before.write(distance as u8) };
        // All bits zero are valid units.
        Some(Self::new(NonNull::new(start.cast())?, number, Owner::Block))
    }

    /// The `number` units of a mapped file from `start` on.
    ///
    /// # Safety
    /// They are aligned, of a type of which all bytes are valid, can be read for as long as this value lives, and
    /// nobody gets this value to change it.
    pub unsafe fn of_file(start: NonNull<U>, number: usize) -> Self {
        Self::new(start, number, Owner::File)
    }

    fn owner(&self) -> Owner {
        match self.length & 3 {
            0 => Owner::Boxed,
            1 => Owner::Block,
            _ => Owner::File,
        }
    }

    /// The block of memory; `None` if there are no units, or they are a file's.
    pub fn allocation(&self) -> Option<Allocation> {
        match self.owner() {
            Owner::Boxed => Allocation::of_array(self),
            Owner::Block => Some(Allocation {
                address: self.begin_of_block(),
                layout: block(size_of_val(&**self))?,
            }),
            Owner::File => None,
        }
    }

    /// Lets `mover` move the units, if they are a box.
    pub fn relocate(&mut self, mover: &mut impl Mover) {
        if self.owner() == Owner::Boxed {
            let units = ManuallyDrop::new(std::mem::replace(self, Self::from(Box::default())));
            // SAFETY: `units` owns the box, and is not dropped.
            let moved = mover.array(unsafe { units.as_box() });
            *self = Self::from(moved);
        }
    }

    /// The box of the units.
    ///
    /// # Safety
    /// They are an [`Owner::Boxed`], and nothing uses or drops `self` afterwards.
    unsafe fn as_box(&self) -> Box<[U]> {
        let units = NonNull::slice_from_raw_parts(self.start, self.length >> 2);
        // SAFETY: they were a box, as the caller says.
        unsafe { Box::from_raw(units.as_ptr()) }
    }

    /// The address of the block around the units, which are an [`Owner::Block`].
    fn begin_of_block(&self) -> *mut u8 {
        let start = self.start.as_ptr().cast::<u8>();
        // SAFETY: the byte before the units is the block's.
        let before = unsafe { start.sub(1) };
        // SAFETY: it was written when the block was made.
        let distance = unsafe { before.read() };
        // SAFETY: that far before the units the block begins.
        unsafe { start.sub(distance.into()) }
    }
}

/// The block for units of so many bytes.
fn block(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(ALIGN)?, USUAL_ALIGN).ok()
}

impl<U> From<Box<[U]>> for Units<U> {
    fn from(units: Box<[U]>) -> Self {
        let number = units.len();
        let start = NonNull::from(Box::leak(units)).cast();
        Self::new(start, number, Owner::Boxed)
    }
}

impl<U> Deref for Units<U> {
    type Target = [U];

    #[inline(always)]
    fn deref(&self) -> &[U] {
        // SAFETY: so many units are there for as long as this value is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length >> 2) }
    }
}

impl<U> DerefMut for Units<U> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [U] {
        // SAFETY: as above; those of a file are not changed, as whoever made them says.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length >> 2) }
    }
}

impl<U> Drop for Units<U> {
    fn drop(&mut self) {
        match self.owner() {
            // SAFETY: nothing uses the units after this.
            Owner::Boxed => drop(unsafe { self.as_box() }),
            Owner::Block => {
                let (begin, layout) = (self.begin_of_block(), block(size_of_val(&**self)));
                if let Some(layout) = layout {
                    // SAFETY: the block was allocated with this layout, and nothing uses it after this.
                    unsafe { dealloc(begin, layout) };
                }
            }
            Owner::File => (),
        }
    }
}
