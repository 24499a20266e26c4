//! The blocks of memory that a filter has, for the server's accounting and its defragmenter.

use std::alloc::Layout;

/// One block of memory that has been allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Address of the block.
    pub address: *const u8,
    /// The size and alignment that were requested.
    pub layout: Layout,
}

impl Allocation {
    /// The block of a list, including unused capacity; `None` if the list has allocated nothing.
    pub fn of_list<T>(values: &Vec<T>) -> Option<Self> {
        Self::new(values.as_ptr(), values.capacity())
    }

    /// The block of an array; `None` if the array is empty.
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

/// Moves blocks of memory, as a defragmenter does.
pub trait Mover {
    /// Returns the list, moved to another block or not.
    fn list<T>(&mut self, values: Vec<T>) -> Vec<T>;
    /// Returns the array, moved to another block or not.
    fn array<T>(&mut self, values: Box<[T]>) -> Box<[T]>;
    /// Moves the value to another block, or leaves it where it is.
    fn boxed<T>(&mut self, value: &mut Box<T>);
    /// Whether to stop here and continue later.
    fn must_pause(&mut self) -> bool;
}
