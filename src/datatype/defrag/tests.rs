//! Defragmentation by a simulated server, which does block by block what a real one with jemalloc does.

use std::alloc::{GlobalAlloc, Layout as BlockLayout};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use super::{DefragCalls, step};
use crate::server::alloc::{self, ModuleAllocator};
use libbloom::checks::MemoryStream;
use libbloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Window};
use libbloom::spec::BlockedSpec;
use libbloom::{Filter, UNLIMITED, codec};

/// What the simulated server does with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// Moves each block.
    All,
    /// Moves no block.
    None,
    /// Moves every second block.
    Some,
}

/// What the simulated server knows between its calls.
#[derive(Debug)]
struct Memory {
    mood: Mood,
    /// Layers in a step, after which it wants a pause.
    pace: usize,
    /// Whether it will call again.
    calls_again: bool,
    cursor: usize,
    /// The blocks of the filter when a step begins. A real server gets only an address, and knows the rest.
    blocks: BTreeMap<usize, BlockLayout>,
    asked: Vec<usize>,
    moved: usize,
}

impl Memory {
    fn new(mood: Mood, pace: usize) -> Self {
        Self {
            mood,
            pace,
            calls_again: true,
            cursor: 0,
            blocks: BTreeMap::new(),
            asked: Vec::new(),
            moved: 0,
        }
    }
}

/// The simulated server during one step.
struct MadeUp<'a> {
    memory: &'a mut Memory,
    layers: usize,
}

impl DefragCalls for MadeUp<'_> {
    fn cursor(&mut self) -> usize {
        self.memory.cursor
    }

    fn set_cursor(&mut self, next: usize) -> bool {
        self.memory.cursor = next;
        self.memory.calls_again
    }

    unsafe fn move_block(&mut self, block: NonNull<u8>) -> Option<NonNull<u8>> {
        let memory = &mut *self.memory;
        let address = block.as_ptr().addr();
        let layout = memory.blocks.remove(&address);
        let layout = layout.expect("the address of a block of the filter, once");
        assert!(
            alloc::is_unpadded(layout),
            "the block starts where its contents do"
        );
        memory.asked.push(layout.size());
        let moves = match memory.mood {
            Mood::All => true,
            Mood::None => false,
            Mood::Some => memory.asked.len().is_multiple_of(2),
        };
        if !moves {
            return None;
        }
        memory.moved += 1;
        // SAFETY: the layout is that of a block, which has a size.
        let other = NonNull::new(unsafe { ModuleAllocator.alloc(layout) }).unwrap();
        // SAFETY: both have that size, and are two.
        unsafe { block.copy_to_nonoverlapping(other, layout.size()) };
        // Whatever still reads the old block finds nonsense.
        // SAFETY: the block has that size.
        unsafe { block.write_bytes(0xa5, layout.size()) };
        // SAFETY: it was allocated so, and nobody uses it again.
        unsafe { ModuleAllocator.dealloc(block.as_ptr(), layout) };
        Some(other)
    }

    fn must_pause(&mut self) -> bool {
        self.layers += 1;
        self.layers.is_multiple_of(self.memory.pace)
    }
}

/// A filter as a server holds it.
struct Key {
    value: *mut c_void,
}

impl Key {
    fn new(filter: Filter) -> Self {
        let value = Box::into_raw(Box::new(filter)).cast();
        Self { value }
    }

    fn filter(&mut self) -> &mut Filter {
        // SAFETY: the value is a filter, in a box or what took its place.
        unsafe { &mut *self.value.cast() }
    }

    /// The blocks of the filter that could be moved by their addresses.
    fn blocks(&mut self) -> BTreeMap<usize, BlockLayout> {
        let mut blocks = BTreeMap::from([(self.value.addr(), BlockLayout::new::<Filter>())]);
        self.filter().each_allocation(|allocation| {
            blocks.insert(allocation.address.addr(), allocation.layout);
        });
        blocks
    }

    /// One call of the server; whether it is to call again.
    fn step(&mut self, memory: &mut Memory) -> bool {
        memory.blocks = self.blocks();
        let side = MadeUp { memory, layers: 0 };
        // SAFETY: the value is a boxed filter, or a copy that took the place of the box.
        unsafe { step(side, &raw mut self.value) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the value is a boxed filter, or a copy that took the place of the box.
        drop(unsafe { Box::from_raw(self.value.cast::<Filter>()) });
    }
}

fn item(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// What the filters are made from, but for their layout and window.
fn spec() -> BlockedSpec {
    BlockedSpec {
        error_rate: ErrorRate::new(0.01).unwrap(),
        capacity: Capacity::new(40).unwrap(),
        growth: Growth::Growing(Expansion::new(2).unwrap()),
        seed: Seed(5),
        window: None,
    }
}

/// The filter as it is stored.
fn stored(filter: &Filter) -> MemoryStream {
    let mut stream = MemoryStream::default();
    codec::save(filter, &mut stream);
    stream
}

/// Items of each filter.
const ITEMS: u32 = 1200;

/// Filters of several layers of every layout, with and without exceptions and a window.
fn filters() -> Vec<(&'static str, Filter)> {
    let of = |layout: Layout, window| {
        let spec = BlockedSpec { window, ..spec() }.in_layout(layout);
        let mut filter = Filter::new(spec.unwrap(), UNLIMITED).unwrap();
        for number in 0..ITEMS {
            let now = u64::from(number) * 10;
            filter.add(&item(number), now, UNLIMITED).unwrap();
        }
        filter
    };
    let window = Some(Window::new(60, 8, false).unwrap());
    let mut excepting = of(Layout::Blocked, None);
    let items: Vec<_> = (0..ITEMS / 2).map(item).collect();
    let excepted = excepting.except(items.iter().map(|item| &item[..]), UNLIMITED, |_, _| ());
    excepted.unwrap();
    vec![
        ("blocked", of(Layout::Blocked, None)),
        ("classic", of(Layout::Classic, None)),
        ("valkey", of(Layout::Valkey, None)),
        ("window", of(Layout::Blocked, window)),
        ("exceptions", excepting),
    ]
}

/// A server that defragments loses nothing, and moves every block.
#[test]
fn filters_are_moved_step_by_step_and_stay_the_same() {
    for mood in [Mood::All, Mood::Some, Mood::None] {
        for pace in [1, 2, 3, usize::MAX] {
            for ((name, filter), (_, twin)) in filters().into_iter().zip(filters()) {
                let (mut key, mut twin, mut memory) = (Key::new(filter), twin, Memory::new(mood, pace));
                let layers = key.filter().layers();
                assert!(layers > 4, "{name}");
                let before = key.blocks();
                let movable: Vec<_> = before
                    .values()
                    .filter(|layout| alloc::is_unpadded(**layout))
                    .map(|layout| layout.size())
                    .collect();
                let mut steps = 1;
                while key.step(&mut memory) {
                    assert_eq!(memory.cursor, steps * pace, "{name}");
                    steps += 1;
                    // A client's add between two steps. The item is there already, so no layer is added.
                    assert_eq!(
                        key.filter().add(&item(ITEMS - 1), 0, UNLIMITED),
                        Ok(false),
                        "{name}"
                    );
                    twin.add(&item(ITEMS - 1), 0, UNLIMITED).unwrap();
                }
                assert_eq!(steps, layers.div_ceil(pace), "{name}");
                // Each block was offered, and each that was not refused has moved.
                let sorted = |mut sizes: Vec<usize>| {
                    sizes.sort_unstable();
                    sizes
                };
                let offered = memory.asked.len();
                assert_eq!(sorted(memory.asked), sorted(movable), "{name}");
                let expected = match mood {
                    Mood::All => offered,
                    Mood::Some => offered / 2,
                    Mood::None => 0,
                };
                assert_eq!(memory.moved, expected, "{name}");
                if mood == Mood::None {
                    assert_eq!(key.blocks(), before, "{name}");
                }
                let filter = key.filter();
                assert_eq!(stored(filter), stored(&twin), "{name}, {mood:?}, {pace}");
                assert_eq!(filter.validate_composed(), Ok(()), "{name}");
                for number in 0..2 * ITEMS {
                    let (item, now) = (item(number), u64::from(number) * 10);
                    assert_eq!(
                        filter.add(&item, now, UNLIMITED),
                        twin.add(&item, now, UNLIMITED),
                        "{name}, {number}"
                    );
                }
                assert_eq!(stored(filter), stored(&twin), "{name}, used");
            }
        }
    }
}

/// A server that never calls again is not told that it must, and one that does not defragment in steps is told once.
#[test]
fn a_server_that_will_not_call_again_is_not_asked_to() {
    for (name, filter) in filters() {
        let mut key = Key::new(filter);
        let mut memory = Memory::new(Mood::All, 1);
        memory.calls_again = false;
        assert!(!key.step(&mut memory), "{name}");
        assert_eq!(memory.cursor, 1, "{name}");
        assert!(memory.moved > 0, "{name}");
    }
}

/// A filter that lost its layers between two steps, by a reset or a replacement, is not read beyond its end; and its
/// struct is moved by the first step only.
#[test]
fn a_filter_that_is_another_one_in_the_next_step() {
    for (name, filter) in filters() {
        let mut key = Key::new(filter);
        let mut memory = Memory::new(Mood::All, 2);
        assert!(key.step(&mut memory), "{name}");
        let value = key.value;
        memory.moved = 0;
        assert!(key.step(&mut memory), "{name}");
        assert_eq!(key.value, value, "{name}: the struct was moved again");
        // A padded block stays, so that there may be none to move.
        assert!(memory.moved <= 2, "{name}: {}", memory.moved);
        *key.filter() = Filter::new(spec().into(), UNLIMITED).unwrap();
        for cursor in [1, 4, 1000, usize::MAX] {
            memory.cursor = cursor;
            memory.moved = 0;
            assert!(!key.step(&mut memory), "{name}");
            assert_eq!(memory.moved, 0, "{name}");
        }
        assert_eq!(key.filter().add(b"item", 0, UNLIMITED), Ok(true), "{name}");
    }
}

/// The server gets no block that no allocator returned, such as that of an empty list.
#[test]
fn a_window_without_layers_has_no_blocks_for_them() {
    let window = Some(Window::new(60, 8, false).unwrap());
    let spec = BlockedSpec { window, ..spec() };
    let mut key = Key::new(Filter::new(spec.into(), UNLIMITED).unwrap());
    let mut memory = Memory::new(Mood::All, 1);
    assert!(!key.step(&mut memory));
    // The struct of the filter, and the struct of the window.
    assert_eq!(memory.moved, 2);
    assert_eq!(key.filter().add(b"item", 0, UNLIMITED), Ok(true));
    assert!(key.filter().contains(b"item"));
}
