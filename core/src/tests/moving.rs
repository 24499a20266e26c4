//! Filters whose memory is moved, as a defragmenter does.

use crate::bits::memory::{Allocation, Mover};
use crate::params::{Expansion, Growth, Layout};
use crate::tests::oracle;
use crate::{Filter, UNLIMITED};

/// Moves every block, and pauses after each `pace`.
struct Everything {
    pace: usize,
    moved: usize,
    boxes: usize,
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

    fn boxed<T>(&mut self, _: &mut Box<T>) {
        // Nothing but a raw pointer could take the value out.
        self.boxes += 1;
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
    for layout in [Layout::Blocked, Layout::Classic, Layout::Valkey] {
        let growing = Growth::Growing(Expansion::new(2).unwrap());
        let mut filter = Filter::new(
            oracle::spec(40, 0.01, growing, 5).in_layout(layout).unwrap(),
            UNLIMITED,
        )
        .unwrap();
        for number in 0..5000 {
            filter.add(&item(number), 0, UNLIMITED).unwrap();
        }
        let (before, totals) = (allocations(&filter), filter.totals());
        let boxes = usize::from(layout == Layout::Valkey);
        assert_eq!(before.len(), boxes + 1 + filter.layers());
        for pace in [1, 2, 1000] {
            let (mut first, mut steps, mut boxed) = (0, 0, 0);
            loop {
                steps += 1;
                let mut mover = Everything {
                    pace,
                    moved: 0,
                    boxes: 0,
                };
                let next = filter.relocate(first, &mut mover);
                boxed += mover.boxes;
                match next {
                    Some(next) => first = next,
                    None => break,
                }
                // Changes between two steps must not matter.
                filter.add(&item(first as u32), 0, UNLIMITED).unwrap();
            }
            assert_eq!(boxed, boxes);
            assert_eq!(steps, filter.layers().div_ceil(pace), "{layout:?}, {pace}");
            assert_eq!(filter.validate(), Ok(()));
            assert_eq!(filter.totals(), totals);
        }
        assert!((0..5000).all(|number| filter.contains(&item(number))));
        let sizes = |all: &[Allocation]| all.iter().map(|one| one.layout).collect::<Vec<_>>();
        assert_eq!(sizes(&allocations(&filter)), sizes(&before));
    }
}
