//! What becomes of exceptions when filters are combined.

use super::SetError;
use crate::bloom::bits::memory::Block;
use crate::bloom::blocked::layer::Layer;
use crate::bloom::chain::Allowance;
use crate::bloom::chain::demand::{Demand, Frame, Refused, ask};
use crate::bloom::error::Error;
use crate::bloom::exceptions::table::Table;
use crate::bloom::exceptions::{self, Excepting, MOST_EXCEPTIONS};
use crate::bloom::filter::Filter;
use crate::bloom::item::ItemHash;

/// Those of a union: an item that is excepted in one filter, and present in another one, is present.
pub(super) fn of_union(filters: &[&Filter], allowance: Allowance<'_>) -> Result<Table, SetError> {
    collect(filters, allowance, |hash| {
        !filters.iter().any(|filter| filter.contains_hash(hash))
    })
}

/// Those of an intersection: an item that is excepted in one of the filters is not in it. Only those are kept that
/// would be found else.
pub(super) fn of_all(filters: &[&Filter], allowance: Allowance<'_>) -> Result<Table, SetError> {
    collect(filters, allowance, |hash| {
        filters.iter().all(|filter| filter.holds_hash(hash))
    })
}

/// The exceptions of all of `filters` for which `stays` holds. How many they are is known at the end only, so
/// `allowance` is asked whenever their table has to become larger: what is refused then would be refused in the end.
fn collect(
    filters: &[&Filter],
    allowance: Allowance<'_>,
    stays: impl Fn(ItemHash) -> bool,
) -> Result<Table, SetError> {
    let mut exceptions = Table::default();
    for table in filters.iter().filter_map(|filter| filter.excepted()) {
        for hash in table.hashes() {
            if exceptions.has(hash) || !stays(hash) {
                continue;
            }
            if exceptions.len() == MOST_EXCEPTIONS {
                return Err(SetError::TooManyExceptions {
                    exceptions: MOST_EXCEPTIONS as u64,
                });
            }
            if !exceptions.has_room_for(1) {
                ask_for(exceptions.len() + 1, allowance)?;
                exceptions.make_room_for(1)?;
            }
            exceptions.insert(hash);
        }
    }
    Ok(exceptions)
}

/// Asks for a filter that has nothing but so many exceptions.
fn ask_for(count: usize, allowance: Allowance<'_>) -> Result<(), Error> {
    let own = exceptions::blocks(count).map(|block| (block, true));
    let allowance: Allowance<'_> = &|demand: Demand<'_>| demand.with(&own, allowance);
    let asked = ask::<Layer>(Frame::CHAIN, std::iter::empty(), 0, 0, allowance);
    asked.map_err(|Refused { bytes, limit }| Error::OverLimit { bytes, limit })
}

/// The blocks of a filter that gets `exceptions` in place of `held`, and whether they are new.
pub(super) fn blocks(exceptions: &Table, held: Option<&Table>) -> Vec<(Block, bool)> {
    if exceptions.is_empty() {
        return Vec::new();
    }
    let is_new = differ(exceptions, held);
    let own = (Excepting::BLOCK, is_new && held.is_none());
    let table = exceptions.blocks().map(|block| (block, is_new));
    std::iter::once(own).chain(table).collect()
}

/// Whether a filter that gets `exceptions` in place of `held` changes.
pub(super) fn differ(exceptions: &Table, held: Option<&Table>) -> bool {
    match held {
        Some(held) => exceptions.len() != held.len() || !exceptions.hashes().all(|hash| held.has(hash)),
        None => !exceptions.is_empty(),
    }
}
