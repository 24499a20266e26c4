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
    /// Whether the rest must wait.
    fn must_pause(&mut self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::params::{Expansion, Growth, Layout as FilterLayout, Seed, Spec};
    use crate::bloom::tests::oracle;
    use crate::bloom::{Filter, UNLIMITED};

    /// Moves every block, and pauses after each `pace`.
    struct Everything {
        pace: usize,
        moved: usize,
    }

    impl Mover for Everything {
        fn list<T>(&mut self, values: Vec<T>) -> Vec<T> {
            let mut moved = Vec::with_capacity(values.capacity());
            moved.extend(values);
            moved
        }

        fn array<T>(&mut self, values: Box<[T]>) -> Box<[T]> {
            self.moved += 1;
            let mut moved = Vec::with_capacity(values.len());
            moved.extend(values);
            moved.into_boxed_slice()
        }

        fn must_pause(&mut self) -> bool {
            self.moved > 0 && self.moved.is_multiple_of(self.pace)
        }
    }

    fn allocations(filter: &Filter) -> Vec<Allocation> {
        let mut allocations = Vec::new();
        filter.each_allocation(|allocation| allocations.push(allocation));
        allocations
    }

    fn item(number: u32) -> [u8; 4] {
        number.to_le_bytes()
    }

    /// The defragmenter would lose items, or leave blocks where they are for ever.
    #[test]
    fn a_moved_filter_is_the_same_filter() {
        for layout in [FilterLayout::Blocked { seed: Seed(5) }, FilterLayout::Classic] {
            let growing = Growth::Growing(Expansion::new(2).unwrap());
            let mut filter = Filter::new(
                Spec {
                    layout,
                    ..oracle::spec(40, 0.01, growing, 5)
                },
                UNLIMITED,
            )
            .unwrap();
            for number in 0..5000 {
                filter.add(&item(number), UNLIMITED).unwrap();
            }
            let (before, totals) = (allocations(&filter), filter.totals());
            assert_eq!(before.len(), 1 + filter.layers());
            for pace in [1, 2, 1000] {
                let (mut first, mut steps) = (0, 0);
                loop {
                    steps += 1;
                    let mut mover = Everything { pace, moved: 0 };
                    match filter.relocate(first, &mut mover) {
                        Some(next) => first = next,
                        None => break,
                    }
                    // What happens between two steps must not matter.
                    filter.add(&item(first as u32), UNLIMITED).unwrap();
                }
                assert_eq!(steps, filter.layers().div_ceil(pace), "{layout:?}, {pace}");
                assert_eq!(filter.validate(), Ok(()));
                assert_eq!(filter.totals(), totals);
            }
            assert!((0..5000).all(|number| filter.contains(&item(number))));
            let sizes = |all: &[Allocation]| all.iter().map(|one| one.layout).collect::<Vec<_>>();
            assert_eq!(sizes(&allocations(&filter)), sizes(&before));
        }
    }
}
