//! A server that defragments, made up: what the real one does, block by block, without one that has jemalloc.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use super::{Side, step};
use crate::bloom::params::{Layout as FilterLayout, Spec, Window};
use crate::bloom::tests::oracle;
use crate::bloom::{Filter, UNLIMITED};
use crate::server::alloc::{self, ModuleAllocator};

/// What the made-up server gives for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// Another place for each.
    All,
    /// None has a better place.
    None,
    /// Another place for every second one.
    Some,
}

/// What the made-up server knows between its calls.
#[derive(Debug)]
struct Memory {
    mood: Mood,
    /// Layers in a step; then it asks for a pause.
    pace: usize,
    /// Whether it will call again.
    calls_again: bool,
    cursor: usize,
    /// The blocks of the filter when a step begins. A server is told an address only, and knows the rest.
    blocks: BTreeMap<usize, Layout>,
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

/// The server in one step.
struct MadeUp<'a> {
    memory: &'a mut Memory,
    layers: usize,
}

impl Side for MadeUp<'_> {
    fn cursor(&mut self) -> usize {
        self.memory.cursor
    }

    fn set_cursor(&mut self, next: usize) -> bool {
        self.memory.cursor = next;
        self.memory.calls_again
    }

    unsafe fn elsewhere(&mut self, block: NonNull<u8>) -> Option<NonNull<u8>> {
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
        // What still looked at the old block would find nonsense.
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

/// A filter where a server has it.
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
    fn blocks(&mut self) -> BTreeMap<usize, Layout> {
        let mut blocks = BTreeMap::from([(self.value.addr(), Layout::new::<Filter>())]);
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

/// Items of each filter.
const ITEMS: u32 = 1200;

/// Filters of several layers of every layout, with and without exceptions and a window.
fn filters() -> Vec<(&'static str, Filter)> {
    let growing = oracle::growing(2);
    let of = |layout: FilterLayout, window| {
        let spec = Spec {
            layout,
            window,
            ..oracle::spec(40, 0.01, growing, 5)
        };
        let mut filter = Filter::new(spec, UNLIMITED).unwrap();
        for number in 0..ITEMS {
            filter.set_clock(|| u64::from(number) * 10);
            filter.add(&item(number), UNLIMITED).unwrap();
        }
        filter
    };
    let blocked = oracle::spec(1, 0.01, growing, 5).layout;
    let window = Some(Window::new(60, 8, false).unwrap());
    let mut excepting = of(blocked, None);
    let mut both = of(blocked, window);
    for filter in [&mut excepting, &mut both] {
        let items: Vec<_> = (0..ITEMS / 2).map(item).collect();
        let excepted = filter.except(items.iter().map(|item| &item[..]), UNLIMITED, |_, _| ());
        excepted.unwrap();
    }
    vec![
        ("blocked", of(blocked, None)),
        ("classic", of(FilterLayout::Classic, None)),
        ("valkey", of(oracle::VALKEY, None)),
        ("window", of(blocked, window)),
        ("exceptions", excepting),
        ("exceptions in a window", both),
    ]
}

/// A server that defragments would lose items, crash on the next command, or leave blocks where they are for ever.
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
                    // What a client does between two steps. It is there already, so no layer comes.
                    assert_eq!(key.filter().add(&item(ITEMS - 1), UNLIMITED), Ok(false), "{name}");
                    twin.add(&item(ITEMS - 1), UNLIMITED).unwrap();
                }
                assert_eq!(steps, layers.div_ceil(pace), "{name}");
                // Each block was offered, and but for the refused ones each is elsewhere.
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
                assert_eq!(
                    oracle::stored(filter),
                    oracle::stored(&twin),
                    "{name}, {mood:?}, {pace}"
                );
                assert_eq!(filter.validate_composed(), Ok(()), "{name}");
                for number in 0..2 * ITEMS {
                    let (item, now) = (item(number), u64::from(number) * 10);
                    filter.set_clock(|| now);
                    twin.set_clock(|| now);
                    assert_eq!(
                        filter.add(&item, UNLIMITED),
                        twin.add(&item, UNLIMITED),
                        "{name}, {number}"
                    );
                }
                assert_eq!(oracle::stored(filter), oracle::stored(&twin), "{name}, used");
            }
        }
    }
}

/// A server that never calls again would be told that it must, and one that does not defragment in steps would be asked
/// for ever.
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

/// A filter that lost its layers between two steps, as one that is reset or replaced, would be read beyond its end; or
/// its struct, which is moved at the start only, would be moved in every step.
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
        let spec = oracle::spec(40, 0.01, oracle::growing(2), 5);
        *key.filter() = oracle::filter(spec);
        for cursor in [1, 4, 1000, usize::MAX] {
            memory.cursor = cursor;
            memory.moved = 0;
            assert!(!key.step(&mut memory), "{name}");
            assert_eq!(memory.moved, 0, "{name}");
        }
        assert_eq!(key.filter().add(b"item", UNLIMITED), Ok(true), "{name}");
    }
}

/// A block that no allocator gave would be handed to the server: that of a list which has nothing in it.
#[test]
fn a_window_without_layers_has_no_blocks_for_them() {
    let window = Some(Window::new(60, 8, false).unwrap());
    let spec = oracle::spec(40, 0.01, oracle::growing(2), 5);
    let mut key = Key::new(oracle::filter(Spec { window, ..spec }));
    let mut memory = Memory::new(Mood::All, 1);
    assert!(!key.step(&mut memory));
    // The filter's struct, and that of the window.
    assert_eq!(memory.moved, 2);
    assert_eq!(key.filter().add(b"item", UNLIMITED), Ok(true));
    assert!(key.filter().contains(b"item"));
}
