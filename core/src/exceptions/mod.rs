//! Exceptions: items that a filter denies although their bits are set.
//!
//! Their hashes are stored exactly, in a [`table`]. A query reads it only if the layers contain the item, so that
//! nothing changes for absent items. No other item is affected, unless all 128 bits of its hash are the same. Adding
//! the item again removes it from the table.
//!
//! Filters with a window have no exceptions.

pub mod table;

use crate::bits::kernel;
use crate::blocked::Blocked;
use crate::blocked::layer::Layer;
use crate::chain::Chain;
use crate::chain::batch::{AnyContains, BlockOutcome, Hasher as _, Subset};
use crate::chain::demand::{Allowance, Demand, ask, besides, reserved};
use crate::error::Error;
use crate::item::{Item, ItemHash};
use crate::layout::Layered as _;
use table::Table;

/// The most exceptions of a filter: they take 256 MiB in the header of a dump.
pub const MOST_EXCEPTIONS: usize = 1 << 24;

/// Why items cannot be excepted. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptError {
    /// The filter is in another module's layout, which has no exceptions.
    Foreign,
    /// The filter has a window, and its items expire.
    Window,
    /// The filter cannot have this many exceptions.
    TooMany {
        /// The number of exceptions that the filter has.
        exceptions: u64,
    },
    /// There is no memory for the exceptions.
    Memory(Error),
}

/// Bytes of exceptions: their table, and its struct; 0 without exceptions, as then there is no table. Spare room is not
/// counted, so that a filter is as large as its copy on a replica, whose table may have shrunk at another time.
pub fn bytes(exceptions: usize) -> u64 {
    match exceptions {
        0 => 0,
        count => (size_of::<Table>() as u64).saturating_add(table::bytes_for(count)),
    }
}

/// Whether layers of the blocked layout contain an item that is not excepted.
pub fn contains(chain: &Chain<Blocked>, exceptions: &Table, item: Item<'_>) -> bool {
    let secret = chain.rules().secret();
    let hash = secret.hash(item);
    chain.contains(Item::hashed(item.bytes(), secret.seed(), hash)) && !exceptions.has(hash)
}

/// Adds items to layers of the blocked layout, and removes them from the exceptions; see
/// [`Filter::add_blocks`](crate::Filter::add_blocks).
///
/// # Errors
/// The errors of growth. The items before the one that failed are in.
pub fn add_blocks(
    chain: &mut Chain<Blocked>,
    exceptions: &mut Table,
    items: impl Iterator<Item: AsRef<[u8]>>,
    allowance: Allowance<'_>,
    mut added: impl FnMut(BlockOutcome),
) -> Result<(), Error> {
    let allowance = besides(bytes(exceptions.len()), allowance);
    chain.add_blocks(items, &allowance, |mut outcome, block| {
        // New items are looked up too: while chunks are still being loaded, an exception may exist before its bits.
        for at in exceptions.among(&block.hashes, Subset::first(outcome.count)) {
            // If an item occurs twice in a block, only the first one removes the exception.
            let again = exceptions.remove(block.hashes[at]);
            outcome.new.put_if(at, again);
            outcome.changed.put_if(at, again);
        }
        added(outcome);
    })
}

/// Excepts the items that layers of the blocked layout contain, and reports them to `excepted` block by block.
///
/// # Errors
/// [`ExceptError`]; nothing changed.
pub fn except<'a>(
    chain: &Chain<Blocked>,
    exceptions: &mut Table,
    items: impl Iterator<Item = &'a [u8]> + Clone,
    allowance: Allowance<'_>,
    mut excepted: impl FnMut(Subset, usize),
) -> Result<(), ExceptError> {
    let mut more = 0;
    each_new(chain, exceptions, items.clone(), |_| more += 1);
    if !exceptions.has_room_for(more) {
        // An item that occurred several times was counted each time.
        let mut hashes = reserved(more).map_err(ExceptError::Memory)?;
        each_new(chain, exceptions, items.clone(), |hash| {
            hashes.push((hash.high, hash.low));
        });
        hashes.sort_unstable();
        hashes.dedup();
        more = hashes.len();
    }
    check_number(exceptions.len(), more)?;
    make_room(chain, exceptions, more, allowance).map_err(ExceptError::Memory)?;
    chain.contains_blocks(items, |candidates, block| {
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
    chain: &Chain<Blocked>,
    exceptions: &Table,
    items: impl Iterator<Item = &'a [u8]>,
    mut visit: impl FnMut(ItemHash),
) {
    chain.contains_blocks(items, |candidates, block| {
        let known = exceptions.among(&block.hashes, candidates);
        for at in candidates.without(known) {
            visit(block.hashes[at]);
        }
    });
}

/// Makes room for `more` exceptions.
fn make_room(
    chain: &Chain<Blocked>,
    exceptions: &mut Table,
    more: usize,
    allowance: Allowance<'_>,
) -> Result<(), Error> {
    if exceptions.has_room_for(more) {
        return Ok(());
    }
    ask_for_table(
        exceptions.len() + more,
        chain.bytes(chain.layers().len()),
        allowance,
    )?;
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

/// Whether any layer contains an item with this hash, excepted or not.
pub(super) fn any_layer_contains(layers: &[Layer], hash: ItemHash) -> bool {
    #[cfg(test)]
    crate::tests::work::add(crate::tests::work::Work::LayersAsked, layers.len());
    kernel::run_on_one::<AnyContains, _, _>(layers.iter().rev(), hash)
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
