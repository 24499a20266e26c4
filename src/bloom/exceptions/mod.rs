//! Items that are excepted from a filter: it answers that they are not there, although their bits are set.
//!
//! The hashes of such items are kept exactly, in a [`table`] beside the layers. A question reads it only where the bits
//! say yes, so that nothing changes for absent items; and no other item can be affected, unless all 128 bits of its
//! hash are the same. An item that is added again is taken out of the table.
//!
//! In a window an exception goes when the layers that it was made for have gone, and none of those that are left
//! contains it.

pub mod table;

use crate::bloom::bits::kernel;
use crate::bloom::bits::memory::{Allocation, Block as MemoryBlock};
use crate::bloom::blocked::Blocked;
use crate::bloom::blocked::layer::{Layer, Lines};
use crate::bloom::chain::batch::{self, Added, AnyContains, BLOCK, Block, Hasher as _, Items};
use crate::bloom::chain::demand::{self, Allowance, Demand, Frame, Refused, reserved};
use crate::bloom::chain::window::Ring;
use crate::bloom::chain::{Chain, Rules as _};
use crate::bloom::error::Error;
use crate::bloom::item::{Item, ItemHash};
use table::Table;

/// The most exceptions of a filter: what the header of a dumped one can carry.
pub const MOST_EXCEPTIONS: usize = 1 << 24;

/// Why items cannot be excepted. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptError {
    /// A filter of another's layout has no place for exceptions.
    Foreign,
    /// The filter has so many exceptions, and cannot have all of these.
    TooMany {
        /// How many it has.
        exceptions: u64,
    },
    /// There is no room for them.
    Memory(Error),
}

/// A filter with exceptions.
#[derive(Debug)]
pub struct Excepting {
    layers: Layers,
    exceptions: Table,
}

/// What the exceptions are from.
#[derive(Debug)]
pub enum Layers {
    /// A filter of the blocked layout.
    Chain(Chain<Blocked>),
    /// One with a window.
    Ring(Box<Ring<Blocked>>),
}

impl Layers {
    fn rules(&self) -> &Blocked {
        match self {
            Self::Chain(chain) => chain.rules(),
            Self::Ring(ring) => ring.rules(),
        }
    }

    /// Bytes of the filter without its exceptions.
    pub fn bytes(&self) -> u64 {
        let (frame, layers) = match self {
            Self::Chain(chain) => (Frame::CHAIN, chain.layers()),
            Self::Ring(ring) => (Ring::<Blocked>::FRAME, ring.layers()),
        };
        demand::bytes::<Layer>(frame, layers.len(), batch::Layer::bytes_of_all(layers))
    }

    fn contains(&self, item: Item<'_>) -> bool {
        match self {
            Self::Chain(chain) => chain.contains(item),
            Self::Ring(ring) => ring.contains(item),
        }
    }

    fn contains_blocks<'a>(&self, items: impl Iterator<Item = &'a [u8]>, found: impl FnMut(Items, &Block)) {
        match self {
            Self::Chain(chain) => chain.contains_blocks(items, found),
            Self::Ring(ring) => ring.contains_blocks(items, found),
        }
    }
}

/// Bytes of exceptions: their table, and the struct that has it. Room to spare is not counted: a filter is as large
/// as the same one on a replica, whose table may have shrunk at another time.
pub fn bytes(exceptions: usize) -> u64 {
    (size_of::<Excepting>() as u64).saturating_add(table::bytes_for(exceptions))
}

/// The blocks of so many exceptions: the struct, and the table.
pub fn blocks(exceptions: usize) -> [MemoryBlock; 3] {
    let [slots, guard] = table::blocks_for(exceptions);
    [Excepting::BLOCK, slots, guard]
}

impl Excepting {
    /// The block of the struct.
    pub const BLOCK: MemoryBlock = MemoryBlock::of::<Self>();

    /// A filter with these exceptions.
    pub fn new(layers: Layers, exceptions: Table) -> Self {
        Self { layers, exceptions }
    }

    /// What the exceptions are from.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The same, to be changed; whatever lets layers of a window go is to [tell the exceptions](Self::rotate).
    pub fn layers_mut(&mut self) -> &mut Layers {
        &mut self.layers
    }

    /// The filter without its exceptions.
    pub fn into_layers(self) -> Layers {
        self.layers
    }

    /// The exceptions.
    pub fn exceptions(&self) -> &Table {
        &self.exceptions
    }

    /// The same, to be moved.
    pub fn exceptions_mut(&mut self) -> &mut Table {
        &mut self.exceptions
    }

    /// The memory of the struct.
    pub fn allocation(&self) -> Option<Allocation> {
        Allocation::of_array(std::slice::from_ref(self))
    }

    /// See [`Filter::contains`](crate::bloom::Filter::contains).
    pub fn contains(&self, item: Item<'_>) -> bool {
        let item = self.hashed(item);
        self.layers.contains(item) && !self.exceptions.has(self.hash(item))
    }

    fn hash(&self, item: Item<'_>) -> ItemHash {
        self.layers.rules().hasher().hash(item)
    }

    /// The item with its hash, so that it is made once.
    fn hashed<'a>(&self, item: Item<'a>) -> Item<'a> {
        let seed = self.layers.rules().secret().seed();
        Item::hashed(item.bytes(), seed, self.hash(item))
    }

    /// See [`Filter::contains_blocks`](crate::bloom::Filter::contains_blocks).
    pub fn contains_blocks<'a>(
        &self,
        items: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(Items, &Block),
    ) {
        self.layers.contains_blocks(items, |present, block| {
            let excepted = self.exceptions.among(&block.hashes, present);
            found(present.without(excepted), block);
        });
    }

    /// See [`Filter::add_blocks`](crate::bloom::Filter::add_blocks).
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        mut added: impl FnMut(Added),
    ) -> Result<(), Error> {
        let [slots, guard] = self.exceptions.blocks();
        let own = [Self::BLOCK, slots, guard].map(|block| (block, false));
        let allowance = |demand: Demand<'_>| demand.with(&own, allowance);
        let Self { layers, exceptions } = self;
        match layers {
            Layers::Chain(chain) => chain.add_blocks(items, &allowance, |mut told, block| {
                // Also those that are new to the layers: of a filter whose chunks are still to come, the exceptions
                // may be there before the bits.
                for at in exceptions.among(&block.hashes, Items::first(told.count)) {
                    // Named twice in a block, it is there the second time.
                    let again = exceptions.remove(block.hashes[at]);
                    told.new.put_if(at, again);
                    told.changed.put_if(at, again);
                }
                added(told);
            }),
            Layers::Ring(ring) => add_to_ring(ring, exceptions, items, &allowance, added),
        }
    }

    /// See [`Filter::rotate`](crate::bloom::Filter::rotate).
    ///
    /// # Errors
    /// As there.
    pub fn rotate(&mut self) -> Result<bool, Error> {
        let Layers::Ring(ring) = &mut self.layers else {
            return Ok(false);
        };
        let exceptions = &mut self.exceptions;
        ring.rotate(&mut |leaving, left| sweep(exceptions, leaving, left))
    }

    /// Gives back what the exceptions do not need any more.
    pub fn settle(&mut self) {
        self.exceptions.settle();
    }

    /// Excepts items, with `is_asked` only those that are there; told block by block.
    ///
    /// # Errors
    /// [`ExceptError`]; nothing changed.
    pub fn except<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]> + Clone,
        is_asked: bool,
        allowance: Allowance<'_>,
        mut excepted: impl FnMut(Items, usize),
    ) -> Result<(), ExceptError> {
        let Self { layers, exceptions } = self;
        let mut more = 0;
        each_new(layers, exceptions, items.clone(), is_asked, |_| more += 1);
        if !exceptions.has_room_for(more) {
            // Items that were named several times were counted as often.
            let mut hashes = reserved(more).map_err(ExceptError::Memory)?;
            each_new(layers, exceptions, items.clone(), is_asked, |hash| {
                hashes.push((hash.high, hash.low));
            });
            hashes.sort_unstable();
            hashes.dedup();
            more = hashes.len();
        }
        check_number(exceptions.len(), more)?;
        make_room(layers, exceptions, more, allowance).map_err(ExceptError::Memory)?;
        each_block(layers, items, is_asked, |candidates, block| {
            let mut changed = Items::NONE;
            for at in candidates {
                changed.put_if(at, exceptions.insert(block.hashes[at]));
            }
            excepted(changed, block.count);
        });
        Ok(())
    }
}

/// Whether a filter that has so many exceptions can have so many more.
fn check_number(exceptions: usize, more: usize) -> Result<(), ExceptError> {
    if exceptions + more > MOST_EXCEPTIONS {
        return Err(ExceptError::TooMany {
            exceptions: exceptions as u64,
        });
    }
    Ok(())
}

/// Hands the hash of each item that is to be excepted, and is not yet, to `visit`.
fn each_new<'a>(
    layers: &Layers,
    exceptions: &Table,
    items: impl Iterator<Item = &'a [u8]>,
    is_asked: bool,
    mut visit: impl FnMut(ItemHash),
) {
    each_block(layers, items, is_asked, |candidates, block| {
        let known = exceptions.among(&block.hashes, candidates);
        for at in candidates.without(known) {
            visit(block.hashes[at]);
        }
    });
}

/// Hands the items that may be excepted to `visit`, block by block: with `is_asked` those that the layers contain.
fn each_block<'a>(
    layers: &Layers,
    mut items: impl Iterator<Item = &'a [u8]>,
    is_asked: bool,
    mut visit: impl FnMut(Items, &Block),
) {
    if is_asked {
        layers.contains_blocks(items, visit);
        return;
    }
    let mut block = Block::new();
    while block.fill(layers.rules().hasher(), &mut items, None::<Lines>) {
        visit(block.items(), &block);
    }
}

/// Makes room for so many exceptions more.
fn make_room(
    layers: &Layers,
    exceptions: &mut Table,
    more: usize,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    if exceptions.has_room_for(more) {
        return Ok(());
    }
    let (frame, layers) = match layers {
        Layers::Chain(chain) => (Frame::CHAIN, chain.layers()),
        Layers::Ring(ring) => (Ring::<Blocked>::FRAME, ring.layers()),
    };
    ask_for(
        exceptions.len() + more,
        exceptions.is_empty(),
        frame,
        layers,
        allowance,
    )?;
    exceptions.make_room_for(more)
}

/// Asks for a new table of so many exceptions, which are the first ones of the filter or not, beside layers that are
/// there; without any, in a new filter.
pub(in crate::bloom) fn ask_for(
    exceptions: usize,
    are_first: bool,
    frame: Frame,
    layers: &[Layer],
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    let [own, slots, guard] = blocks(exceptions);
    let own = [(own, are_first), (slots, true), (guard, true)];
    let allowance = |demand: Demand<'_>| demand.with(&own, allowance);
    let arrays = layers.iter().map(batch::Layer::bytes);
    let asked = demand::ask::<Layer>(frame, arrays, layers.len(), layers.len(), &allowance);
    asked.map_err(
        |Refused {
             bytes: of_layers,
             limit,
         }| Error::OverLimit {
            bytes: of_layers.saturating_add(bytes(exceptions)),
            limit,
        },
    )
}

/// Lets the exceptions go that were for layers which go: one of those contains the item, and none that is left does. (An
/// exception whose bits are still to come, in a chunk, was for none of them.) When they go is the same on a replica,
/// whatever else is in the batch.
fn sweep(exceptions: &mut Table, leaving: &[Layer], left: &[Layer]) {
    exceptions.retain(|hash| !holds(leaving, hash) || holds(left, hash));
}

/// Whether one of the layers contains an item of that hash, excepted or not.
pub(super) fn holds(layers: &[Layer], hash: ItemHash) -> bool {
    kernel::run(AnyContains { layers, hash })
}

/// Adds items to a window. One that is excepted begins to live anew: its bits may be in a slice that goes soon.
fn add_to_ring<'a>(
    ring: &mut Ring<Blocked>,
    exceptions: &mut Table,
    mut items: impl Iterator<Item = &'a [u8]>,
    allowance: Allowance<'_>,
    mut added: impl FnMut(Added),
) -> Result<(), Error> {
    let mut some = [&[][..]; BLOCK];
    loop {
        let mut count = 0;
        for (place, item) in some.iter_mut().zip(&mut items) {
            *place = item;
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let mut told = Added::of_new(Items::NONE, 0);
        let result = add_some_to_ring(ring, exceptions, &some[..count], allowance, &mut told);
        added(told);
        result?;
    }
}

/// The same of up to [`BLOCK`] items; `told` takes what became of them.
fn add_some_to_ring(
    ring: &mut Ring<Blocked>,
    exceptions: &mut Table,
    items: &[&[u8]],
    allowance: Allowance<'_>,
    told: &mut Added,
) -> Result<(), Error> {
    let mut block = Block::new();
    block.fill(ring.rules().hasher(), &mut items.iter().copied(), None::<Lines>);
    let refresh = ring.slices().window().refresh();
    while told.count < items.len() {
        // Those that come again, and those whose layers go, are not excepted any more.
        let excepted = exceptions.among(&block.hashes, block.items());
        let start = told.count;
        if excepted.has(start) {
            let one = std::iter::once(items[start]);
            let witness = &mut |leaving: &[Layer], left: &[Layer]| sweep(exceptions, leaving, left);
            ring.add_before(one, true, witness, allowance, |_, _| ())?;
            exceptions.remove(block.hashes[start]);
            told.new.put_if(start, true);
            told.changed.put_if(start, true);
            told.count += 1;
            continue;
        }
        let end = excepted.from(start).next().unwrap_or(items.len());
        let some = items[start..end].iter().copied();
        let witness = &mut |leaving: &[Layer], left: &[Layer]| sweep(exceptions, leaving, left);
        ring.add_before(some, refresh, witness, allowance, |part, _| {
            told.new.put_all(part.new.later_by(start));
            told.changed.put_all(part.changed.later_by(start));
            told.count += part.count;
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter would have more exceptions than its dump can carry, and could not be copied to another server; or it
    /// would be refused the last one that it can have.
    #[test]
    fn no_exception_is_beyond_the_limit() {
        for exceptions in [0, 1, MOST_EXCEPTIONS - 1, MOST_EXCEPTIONS] {
            let left = MOST_EXCEPTIONS - exceptions;
            let refused = Err(ExceptError::TooMany {
                exceptions: exceptions as u64,
            });
            assert_eq!(check_number(exceptions, 0), Ok(()));
            assert_eq!(check_number(exceptions, left), Ok(()));
            for too_many in [1, 2, 1000] {
                assert_eq!(check_number(exceptions, left + too_many), refused);
            }
        }
    }
}
