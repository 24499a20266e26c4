//! The blocks of memory that a filter holds, for the server's accounts and for its defragmenter.
//!
//! A filter is its own struct, the list of its layers, and a bit array for each layer. Of the struct itself
//! its owner takes care.

use std::alloc::Layout;

/// One block that the allocator gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Where it is.
    pub address: *const u8,
    /// What was asked for.
    pub layout: Layout,
}

impl Allocation {
    /// The block of a list, with the room that it has to spare; `None` when the list needed none.
    pub fn of_list<T>(values: &Vec<T>) -> Option<Self> {
        Self::new(values.as_ptr(), values.capacity())
    }

    /// The block of an array.
    pub fn of_array<T>(values: &[T]) -> Option<Self> {
        Self::new(values.as_ptr(), values.len())
    }

    fn new<T>(address: *const T, count: usize) -> Option<Self> {
        let layout = Layout::array::<T>(count).ok()?;
        (layout.size() > 0).then_some(Self {
            address: address.cast(),
            layout,
        })
    }
}

/// One block that the allocator is to be asked for, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes that are asked for.
    pub bytes: u64,
    /// Their alignment.
    pub align: usize,
}

impl Block {
    /// The block of one `T`.
    pub const fn of<T>() -> Self {
        Self {
            bytes: size_of::<T>() as u64,
            align: align_of::<T>(),
        }
    }

    /// The block of a list with room for `count` of `T`.
    pub fn of_list<T>(count: usize) -> Self {
        Self {
            bytes: (count as u64).saturating_mul(size_of::<T>() as u64),
            align: align_of::<T>(),
        }
    }

    /// The block of a bit array of `bytes` bytes in units of that size.
    pub fn of_array(bytes: u64, unit: usize) -> Self {
        let units = bytes.div_ceil(unit as u64);
        Self {
            bytes: units.saturating_mul(unit as u64),
            align: unit,
        }
    }
}

/// Somebody who knows better places for blocks.
pub trait Mover {
    /// The same list, wherever it is now.
    fn list<T>(&mut self, values: Vec<T>) -> Vec<T>;
    /// The same array, wherever it is now.
    fn array<T>(&mut self, values: Box<[T]>) -> Box<[T]>;
    /// Chooses where a value is.
    fn boxed<T>(&mut self, value: &mut Box<T>);
    /// Whether the rest must wait.
    fn must_pause(&mut self) -> bool;
}
