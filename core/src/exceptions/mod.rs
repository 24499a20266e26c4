//! Exceptions: items that a filter denies although their bits are set.
//!
//! Their hashes are stored exactly, in a [`table`]. A query reads it only if the layers contain the item, so that
//! nothing changes for absent items. No other item is affected, unless all 128 bits of its hash are the same. Adding
//! the item again removes it from the table.
//!
//! In a window an exception is dropped when the layers that it was made for are dropped, and none of the remaining
//! layers contains the item.

pub mod table;

use crate::bits::kernel;
use crate::blocked::Blocked;
use crate::blocked::layer::{Layer, LinePrefetcher};
use crate::chain::Rules as _;
use crate::chain::batch::{self, AnyContains, BLOCK, Block, BlockOutcome, Subset};
use crate::chain::demand::{Allowance, Demand, ask, besides, reserved};
use crate::chain::window::Ring;
use crate::error::Error;
use crate::item::ItemHash;
use crate::layers::Layers;
use crate::params::Window;
use table::Table;

/// The most exceptions of a filter: as many as the header of a dump can contain.
pub const MOST_EXCEPTIONS: usize = 1 << 24;

/// Lookups of exceptions in layers that take some 0.05 s. As many are allowed whenever layers of a window expire by
/// time, or one for each exception if the filter has more. When they expire by count, no more are.
const MOST_ASKED: u64 = 1 << 22;

/// The most lookups for each item of the dropped layers, in a window that counts items: there one batch can drop
/// layers many times. A filter has at most about as many exceptions as items, in up to 65 slices, so that a quarter
/// of this is enough.
const ASKED_FOR_ITEM: u64 = 256;

/// The most lookups for each set bit of the dropped layers, in a window that counts time. Each added item has set at
/// least one bit, so that the exceptions that came from the dropped layers can be looked up in 16 layers each, or
/// more.
const ASKED_FOR_BIT: u64 = 16;

/// Why items cannot be excepted. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptError {
    /// The filter is in another module's layout, which has no exceptions.
    Foreign,
    /// The filter cannot have this many exceptions.
    TooMany {
        /// The number of exceptions that the filter has.
        exceptions: u64,
    },
    /// There is no memory for the exceptions.
    Memory(Error),
}

/// Bytes of exceptions: their table, and its struct. Spare room is not counted, so that a filter is as large as its
/// copy on a replica, whose table may have shrunk at another time.
pub fn bytes(exceptions: usize) -> u64 {
    (size_of::<Table>() as u64).saturating_add(table::bytes_for(exceptions))
}

/// [`bytes`] of the exceptions of a filter, which has a table only if there are any.
pub(crate) fn bytes_of(exceptions: &Table) -> u64 {
    match exceptions.len() {
        0 => 0,
        count => bytes(count),
    }
}

/// Adds items to layers of the blocked layout; see [`Filter::add_blocks`](crate::Filter::add_blocks). What is added is
/// no exception any more.
///
/// # Errors
/// The errors of growth. The items before the one that failed are in.
pub fn add_blocks<'a>(
    layers: &mut Layers,
    exceptions: &mut Table,
    items: impl Iterator<Item = &'a [u8]>,
    allowance: Allowance<'_>,
    mut added: impl FnMut(BlockOutcome),
) -> Result<(), Error> {
    let allowance = besides(bytes_of(exceptions), allowance);
    if let Layers::Windowed(ring) = layers {
        return add_to_ring(ring, exceptions, items, &allowance, added);
    }
    layers.add_blocks(items, &allowance, |mut told, block| {
        // New items too: in a filter whose chunks are still being loaded, an exception may exist before the bits.
        for at in exceptions.among(&block.hashes, Subset::first(told.count)) {
            // An item that occurs twice in a block is there the second time.
            let again = exceptions.remove(block.hashes[at]);
            told.new.put_if(at, again);
            told.changed.put_if(at, again);
        }
        added(told);
    })
}

/// Excepts items from layers of the blocked layout, and reports them to `excepted` block by block. With `is_checked` only
/// items that the layers contain are excepted.
///
/// # Errors
/// [`ExceptError`]; nothing changed.
pub fn except<'a>(
    layers: &Layers,
    exceptions: &mut Table,
    items: impl Iterator<Item = &'a [u8]> + Clone,
    is_checked: bool,
    allowance: Allowance<'_>,
    mut excepted: impl FnMut(Subset, usize),
) -> Result<(), ExceptError> {
    let mut more = 0;
    each_new(layers, exceptions, items.clone(), is_checked, |_| more += 1);
    if !exceptions.has_room_for(more) {
        // Items that occurred several times were counted as often.
        let mut hashes = reserved(more).map_err(ExceptError::Memory)?;
        each_new(layers, exceptions, items.clone(), is_checked, |hash| {
            hashes.push((hash.high, hash.low));
        });
        hashes.sort_unstable();
        hashes.dedup();
        more = hashes.len();
    }
    check_number(exceptions.len(), more)?;
    make_room(layers, exceptions, more, allowance).map_err(ExceptError::Memory)?;
    each_block(layers, items, is_checked, |candidates, block| {
        let mut changed = Subset::NONE;
        for at in candidates {
            changed.put_if(at, exceptions.insert(block.hashes[at]));
        }
        excepted(changed, block.count);
    });
    Ok(())
}

/// Checks that a filter with `exceptions` exceptions can have `more`.
fn check_number(exceptions: usize, more: usize) -> Result<(), ExceptError> {
    if exceptions + more > MOST_EXCEPTIONS {
        return Err(ExceptError::TooMany {
            exceptions: exceptions as u64,
        });
    }
    Ok(())
}

/// Passes the hash of each item that is newly excepted to `visit`.
fn each_new<'a>(
    layers: &Layers,
    exceptions: &Table,
    items: impl Iterator<Item = &'a [u8]>,
    is_checked: bool,
    mut visit: impl FnMut(ItemHash),
) {
    each_block(layers, items, is_checked, |candidates, block| {
        let known = exceptions.among(&block.hashes, candidates);
        for at in candidates.without(known) {
            visit(block.hashes[at]);
        }
    });
}

/// Passes the items that may be excepted to `visit`, block by block: with `is_checked` those that the layers contain.
fn each_block<'a>(
    layers: &Layers,
    mut items: impl Iterator<Item = &'a [u8]>,
    is_checked: bool,
    mut visit: impl FnMut(Subset, &Block),
) {
    if is_checked {
        layers.contains_blocks(items, visit);
        return;
    }
    let Some((rules, _)) = layers.blocked() else {
        return;
    };
    let mut block = Block::new();
    while block.fill(rules.hasher(), &mut items, None::<LinePrefetcher>) {
        visit(block.items(), &block);
    }
}

/// Makes room for `more` exceptions.
fn make_room(
    layers: &Layers,
    exceptions: &mut Table,
    more: usize,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    if exceptions.has_room_for(more) {
        return Ok(());
    }
    ask_for_table(exceptions.len() + more, layers.bytes(), allowance)?;
    exceptions.make_room_for(more)
}

/// Requests memory for a new table of exceptions, of a filter whose layers have `layers` bytes.
pub(crate) fn ask_for_table(exceptions: usize, layers: u64, allowance: Allowance<'_>) -> Result<(), Error> {
    let new = bytes(exceptions);
    let demand = Demand {
        new,
        total: layers.saturating_add(new),
        grows_to: None,
    };
    Ok(ask(demand, allowance)?)
}

/// Drops each exception whose item a dropped layer contains, and no remaining layer. (An exception whose bits are
/// still to come in a chunk is in no layer, and stays.) On a replica the same exceptions are dropped with the same
/// item, whatever else is in the batch. If no layer remains, no bits can come either, and all exceptions are dropped.
///
/// Looking up many exceptions in many layers takes long. Above a bound that depends only on their numbers, the
/// exceptions stay. That changes no answer: an excepted item is denied either way.
pub(crate) fn sweep(window: Window, exceptions: &mut Table, leaving: &[Layer], staying: &[Layer]) {
    if staying.is_empty() {
        *exceptions = Table::default();
    }
    // Single removals may have left a large table with few exceptions.
    exceptions.settle();
    let most = if window.counts_items() {
        let items = leaving.iter().map(batch::Layer::items);
        let items = items.fold(0, u64::saturating_add);
        items.saturating_mul(ASKED_FOR_ITEM).min(MOST_ASKED)
    } else {
        // Each of these bits was set by an item that was added, or by a byte that was loaded.
        let bits = leaving.iter().map(|layer| layer.bits().ones());
        let bits = bits.fold(0, u64::saturating_add);
        let of_bits = bits.saturating_mul(ASKED_FOR_BIT);
        MOST_ASKED.max(exceptions.len() as u64).max(of_bits)
    };
    let is_bounded =
        |exceptions: usize, layers: usize| (exceptions as u64).saturating_mul(layers as u64) <= most;
    if exceptions.is_empty() || !is_bounded(exceptions.len(), leaving.len()) {
        return;
    }
    if !is_bounded(exceptions.len(), leaving.len() + staying.len()) {
        // Remaining layers are only queried for exceptions that a dropped layer contains.
        let held = exceptions.hashes().filter(|&hash| holds(leaving, hash));
        if !is_bounded(held.count(), staying.len()) {
            return;
        }
    }
    exceptions.retain(|hash| !holds(leaving, hash) || holds(staying, hash));
}

/// Whether any layer contains an item with this hash, excepted or not.
pub(super) fn holds(layers: &[Layer], hash: ItemHash) -> bool {
    #[cfg(test)]
    crate::tests::work::add(crate::tests::work::Work::LayersAsked, layers.len());
    kernel::run(AnyContains { layers, hash })
}

/// Adds items to a window. An excepted item starts its time again, because its bits may be in a slice that expires
/// soon.
fn add_to_ring<'a>(
    ring: &mut Ring<Blocked>,
    exceptions: &mut Table,
    mut items: impl Iterator<Item = &'a [u8]>,
    allowance: Allowance<'_>,
    mut added: impl FnMut(BlockOutcome),
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
        let mut told = BlockOutcome::of_new(Subset::NONE, 0);
        let result = add_some_to_ring(ring, exceptions, &some[..count], allowance, &mut told);
        added(told);
        result?;
    }
}

/// Adds up to [`BLOCK`] items to a window, and reports their outcome to `told`.
fn add_some_to_ring(
    ring: &mut Ring<Blocked>,
    exceptions: &mut Table,
    items: &[&[u8]],
    allowance: Allowance<'_>,
    told: &mut BlockOutcome,
) -> Result<(), Error> {
    let mut block = Block::new();
    block.fill(
        ring.chain().rules().hasher(),
        &mut items.iter().copied(),
        None::<LinePrefetcher>,
    );
    let window = ring.slices().window();
    while told.count < items.len() {
        // Items that are added again, and items whose layers were dropped, are no longer excepted.
        let excepted = exceptions.among(&block.hashes, block.items());
        let start = told.count;
        if excepted.has(start) {
            let one = std::iter::once(items[start]);
            let witness = &mut |leaving: &[Layer], left: &[Layer]| sweep(window, exceptions, leaving, left);
            ring.add_before(one, true, witness, allowance, |_, _| ())?;
            exceptions.remove(block.hashes[start]);
            told.new.put_if(start, true);
            told.changed.put_if(start, true);
            told.count += 1;
            continue;
        }
        let end = excepted.from(start).next().unwrap_or(items.len());
        let some = items[start..end].iter().copied();
        let witness = &mut |leaving: &[Layer], left: &[Layer]| sweep(window, exceptions, leaving, left);
        ring.add_before(some, window.refresh(), witness, allowance, |part, _| {
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

    /// A filter would have more exceptions than its dump can contain, and could not be copied to another server; or
    /// its last possible exception would be refused.
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
