//! The memory of a chain: what it takes, and what it asks for before it takes it.

use super::batch::Layer;
use crate::bloom::bits::memory::Block;
use crate::bloom::error::Error;

/// Up to this many layers the list of layers is exactly as long as needed: small filters are many.
const EXACT_LAYERS: usize = 16;

/// The block of a filter's own struct, which is above the chain: it has its size from here.
pub const FILTER: Block = Block { bytes: 48, align: 8 };

/// What a filter has besides its layers and their list.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Blocks of its own.
    own: &'static [Block],
    /// Bytes for each layer in a list beside that of the layers; 0 where there is none.
    beside: usize,
}

impl Frame {
    /// That of a chain.
    pub const CHAIN: Self = Self::new(&[FILTER], 0);

    /// That of a filter with these blocks of its own, and a second list with so many bytes for each layer.
    pub const fn new(own: &'static [Block], beside: usize) -> Self {
        Self { own, beside }
    }

    /// Hands its own blocks to `visit`.
    pub(in crate::bloom) fn each_block(self, visit: impl FnMut(Block)) {
        self.own.iter().copied().for_each(visit);
    }
}

/// Takes a block, and whether it is a new one.
type Visit<'a> = &'a mut dyn FnMut(Block, bool);

/// The memory that a filter asks for. An allocator takes more than it is asked for, which only it knows:
/// [`Self::taken`] tells how much that is.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    /// Bytes that are to be allocated now, and were with the demands that this one goes on from.
    pub new: u64,
    /// Bytes that the filter then takes, the new ones included.
    pub total: u64,
    /// Whether the blocks come on top of those of the demand before it: a stream tells of one layer after another.
    pub goes_on: bool,
    /// A block of the demands before it that one of the new ones takes the place of: a list that has become longer.
    gone: Option<Block>,
    /// Hands every block that the filter then has to a visitor, with whether it is a new one.
    blocks: &'a dyn Fn(Visit<'_>),
}

/// What a [`Demand`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the blocks that are new.
    pub new: u64,
    /// Bytes of all blocks that the filter then has.
    pub total: u64,
}

impl Taken {
    /// Both together.
    fn and(self, more: Self) -> Self {
        Self {
            new: self.new.saturating_add(more.new),
            total: self.total.saturating_add(more.total),
        }
    }

    /// The same without so many bytes.
    fn without(self, bytes: u64) -> Self {
        Self {
            new: self.new.saturating_sub(bytes),
            total: self.total.saturating_sub(bytes),
        }
    }
}

impl Demand<'_> {
    /// What an allocator takes that takes so much for a block.
    pub fn taken(&self, of_block: impl Fn(Block) -> u64) -> Taken {
        let mut taken = Taken { new: 0, total: 0 };
        (self.blocks)(&mut |block, is_new| {
            let bytes = of_block(block);
            taken.total = taken.total.saturating_add(bytes);
            if is_new {
                taken.new = taken.new.saturating_add(bytes);
            }
        });
        taken
    }

    /// The same for this and the demands that it goes on from, which came to `before`.
    pub fn taken_after(&self, before: Taken, of_block: impl Fn(Block) -> u64) -> Taken {
        let gone = self.gone.map_or(0, &of_block);
        let taken = self.taken(of_block);
        if self.goes_on {
            before.without(gone).and(taken)
        } else {
            taken
        }
    }

    /// Asks for this and for `others` beside it, of which each is told to be a new one or not.
    pub fn with<T>(self, others: &[(Block, bool)], ask: impl FnOnce(Demand<'_>) -> T) -> T {
        let bytes = |is_wanted: fn(bool) -> bool| {
            let wanted = others.iter().filter(|(_, is_new)| is_wanted(*is_new));
            wanted.fold(0, |sum: u64, (block, _)| sum.saturating_add(block.bytes))
        };
        let (new, all) = (bytes(|is_new| is_new), bytes(|_| true));
        ask(Demand {
            new: self.new.saturating_add(new),
            total: self.total.saturating_add(all),
            goes_on: self.goes_on,
            gone: self.gone,
            blocks: &|visit| {
                (self.blocks)(visit);
                others.iter().for_each(|&(block, is_new)| visit(block, is_new));
            },
        })
    }
}

/// Asked, before anything is allocated, whether a filter may have that memory; if not, it gives the limit
/// in bytes.
pub type Allowance<'a> = &'a dyn Fn(Demand<'_>) -> Result<(), u64>;

/// No limit but the allocator's.
pub const UNLIMITED: Allowance<'static> = &|_| Ok(());

/// At most `limit` bytes for a filter as a whole.
pub fn at_most(limit: u64) -> impl Fn(Demand<'_>) -> Result<(), u64> {
    move |demand: Demand<'_>| if demand.total <= limit { Ok(()) } else { Err(limit) }
}

/// A filter that may not have its memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::bloom) struct Refused {
    /// Bytes that it would take.
    pub bytes: u64,
    /// Bytes that it may take.
    pub limit: u64,
}

/// Asks for a filter whose layers have bit arrays of these sizes. The first `held` layers are there, in a list
/// with some room; without any, the filter itself is new too.
pub(in crate::bloom) fn ask<L: Layer>(
    frame: Frame,
    arrays: impl Iterator<Item = u64> + Clone,
    held: usize,
    room: usize,
    allowance: Allowance<'_>,
) -> Result<(), Refused> {
    let bytes_of = |arrays: &mut dyn Iterator<Item = u64>| {
        let (mut layers, mut sum) = (0, 0_u64);
        for array in arrays {
            (layers, sum) = (layers + 1, sum.saturating_add(array));
        }
        bytes::<L>(frame, layers, sum)
    };
    let total = bytes_of(&mut arrays.clone());
    let before = if held == 0 {
        0
    } else {
        bytes_of(&mut arrays.clone().take(held))
    };
    let visit = |visit: Visit<'_>| {
        blocks::<L>(frame, arrays.clone(), room, |block, part| {
            let is_new = match part {
                Part::Own => held == 0,
                Part::List { is_new } => is_new,
                Part::Array(layer) => layer >= held,
            };
            visit(block, is_new);
        });
    };
    let demand = Demand {
        new: total.saturating_sub(before),
        total,
        goes_on: false,
        gone: None,
        blocks: &visit,
    };
    allowance(demand).map_err(|limit| Refused { bytes: total, limit })
}

/// Asks for one layer more of a filter that is read layer by layer, for all of which so far `bytes` were asked.
/// Gives the bytes of the filter with it. That is O(1): such a filter may have any number of layers.
pub(in crate::bloom) fn ask_on<L: Layer>(
    frame: Frame,
    layers: &Vec<L>,
    bytes: u64,
    array: u64,
    allowance: Allowance<'_>,
) -> Result<u64, Refused> {
    let is_first = layers.is_empty();
    let own = if is_first { frame.own } else { &[] };
    let array = array.saturating_add(L::HEAD);
    let more = own.iter().map(|block| block.bytes).sum::<u64>() + size_of::<L>() as u64;
    let more = more.saturating_add(array);
    let total = bytes.saturating_add(more);
    let room = layers.capacity();
    let wanted = room_for(layers.len() + 1, room);
    let visit = |visit: Visit<'_>| {
        own.iter().for_each(|&block| visit(block, true));
        visit(Block::of_array(array, L::UNIT), true);
        if wanted > room {
            visit(Block::of_list::<L>(wanted), true);
        }
    };
    let demand = Demand {
        new: total,
        total,
        goes_on: !is_first,
        // What the allocator rounds up is that of the list as it is then, and not that of each part it grew by.
        gone: (wanted > room && room > 0).then(|| Block::of_list::<L>(room)),
        blocks: &visit,
    };
    allowance(demand).map_err(|limit| Refused { bytes: total, limit })?;
    Ok(total)
}

/// Asks for blocks of a filter that is read part by part, for all of which so far `bytes` were asked.
pub(in crate::bloom) fn ask_beyond(
    bytes: u64,
    blocks: &[Block],
    allowance: Allowance<'_>,
) -> Result<(), Refused> {
    let more = blocks
        .iter()
        .fold(0, |sum: u64, block| sum.saturating_add(block.bytes));
    let total = bytes.saturating_add(more);
    let demand = Demand {
        new: total,
        total,
        goes_on: true,
        gone: None,
        blocks: &|visit| blocks.iter().for_each(|&block| visit(block, true)),
    };
    allowance(demand).map_err(|limit| Refused { bytes: total, limit })
}

/// An empty list with room for so many.
pub(in crate::bloom) fn reserved<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    Ok(list)
}

/// Makes room for so many more; the error tells what the whole list would have taken.
pub(in crate::bloom) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), Error> {
    let bytes = (list.len().saturating_add(more)).saturating_mul(size_of::<T>()) as u64;
    let reserved = list.try_reserve_exact(more);
    reserved.map_err(|_| Error::OutOfMemory { bytes })
}

/// Makes room for a layer more. The list grows by parts of its length when it is long, so that a long
/// chain is not copied for every layer.
pub(in crate::bloom) fn reserve_one<L>(layers: &mut Vec<L>) -> Result<(), Error> {
    let room = room_for(layers.len() + 1, layers.capacity());
    let more = room - layers.len();
    reserve(layers, more)
}

/// Bytes of a filter of so many layers, whose bit arrays have these bytes. Of a list of more than [`EXACT_LAYERS`]
/// layers the room to spare, an eighth at most, is not counted: a filter is as large as the same one on a
/// replica, whose list may have grown in other steps.
pub(in crate::bloom) fn bytes<L: Layer>(frame: Frame, layers: usize, arrays: u64) -> u64 {
    let own: u64 = frame.own.iter().map(|block| block.bytes).sum();
    let structs = own + layers as u64 * (L::HEAD + (size_of::<L>() + frame.beside) as u64);
    arrays.saturating_add(structs)
}

/// The room that the list of layers gets when `layers` are to fit into it, and it has `room`.
pub(in crate::bloom) fn room_for(layers: usize, room: usize) -> usize {
    if layers <= room {
        room
    } else if layers <= EXACT_LAYERS {
        layers
    } else {
        layers + (layers - 1) / 8 - 1
    }
}

/// Hands every block of such a filter to `visit`; a bit array with the number of its layer. `room` is that of
/// the list of layers, which gets more if it must.
pub(in crate::bloom) fn blocks<L: Layer>(
    frame: Frame,
    arrays: impl Iterator<Item = u64>,
    room: usize,
    mut visit: impl FnMut(Block, Part),
) {
    frame.own.iter().for_each(|&block| visit(block, Part::Own));
    let mut layers = 0;
    for array in arrays {
        let array = array.saturating_add(L::HEAD);
        visit(Block::of_array(array, L::UNIT), Part::Array(layers));
        layers += 1;
    }
    let list = room_for(layers, room);
    let is_new = list > room;
    visit(Block::of_list::<L>(list), Part::List { is_new });
    if frame.beside > 0 {
        let bytes = (list as u64).saturating_mul(frame.beside as u64);
        let beside = Block {
            bytes,
            align: align_of::<u64>(),
        };
        visit(beside, Part::List { is_new });
    }
}

/// What a block of a filter is.
#[derive(Clone, Copy, Debug)]
pub(in crate::bloom) enum Part {
    /// One of the filter's own.
    Own,
    /// A list with a value for each layer; whether it is another one than before.
    List { is_new: bool },
    /// The bit array of the layer with that number.
    Array(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::blocked;

    /// A filter would be refused memory for its growth that it does not take.
    #[test]
    fn a_list_with_room_is_no_new_one() {
        let is_new = |room| {
            let mut of_list = None;
            blocks::<blocked::Layer>(Frame::CHAIN, [64; 3].into_iter(), room, |_, part| {
                if let Part::List { is_new } = part {
                    of_list = Some(is_new);
                }
            });
            of_list
        };
        assert_eq!([2, 3, 4].map(is_new), [Some(true), Some(false), Some(false)]);
    }

    /// A filter of many layers would hold more memory than its figures say, or its list be copied for every layer.
    #[test]
    fn a_long_list_grows_by_an_eighth() {
        for held in 0..1000 {
            let more = if held < EXACT_LAYERS { 1 } else { held / 8 };
            assert_eq!(room_for(held + 1, held), held + more);
            assert_eq!(room_for(held, held), held);
        }
    }

    /// The line in the log would name another number of bytes than the one that could not be had.
    #[test]
    fn the_error_tells_what_the_list_would_take() {
        use crate::server::alloc::failing::{self, Shortage};
        let mut list = vec![1u64, 2, 3];
        let refused = failing::after(0, Shortage::Lasting, || reserve(&mut list, 7));
        assert_eq!(refused, Err(Error::OutOfMemory { bytes: 80 }));
        assert_eq!(reserve(&mut list, 7), Ok(()));
        assert!(list.capacity() >= 10);
    }
}
