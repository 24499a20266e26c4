//! What becomes of exceptions when filters are combined.

use super::SetError;
use crate::bloom::bits::memory::Block;
use crate::bloom::chain::Allowance;
use crate::bloom::chain::demand::Frame;
use crate::bloom::exceptions::table::Table;
use crate::bloom::exceptions::{Excepting, MOST_EXCEPTIONS, ask_for};
use crate::bloom::filter::Filter;
use crate::bloom::item::ItemHash;

/// Those of a union: an item that is excepted in one filter, and present in another one, is present.
pub(super) fn of_union(filters: &[&Filter], allowance: Allowance<'_>) -> Result<Table, SetError> {
    collect(filters, None, allowance, |hash| is_in_none(filters, hash))
}

/// Those of a union that becomes `destination`, which is one of `filters`; `None` where it has them already.
pub(super) fn of_union_in(
    destination: &Filter,
    filters: &[&Filter],
    allowance: Allowance<'_>,
) -> Result<Option<Table>, SetError> {
    let stays = |hash| is_in_none(filters, hash);
    let is_held = |hash| destination.excepted().is_some_and(|held| held.has(hash));
    let mut held = destination.excepted().into_iter().flat_map(Table::hashes);
    let mut all = filters
        .iter()
        .filter_map(|filter| filter.excepted())
        .flat_map(Table::hashes);
    if held.all(stays) && all.all(|hash| is_held(hash) || !stays(hash)) {
        return Ok(None);
    }
    collect(filters, Some(destination), allowance, stays).map(Some)
}

fn is_in_none(filters: &[&Filter], hash: ItemHash) -> bool {
    !filters.iter().any(|filter| filter.contains_hash(hash))
}

/// Those of an intersection: an item that is excepted in one of the filters is not in it. Only those are kept that
/// would be found else.
pub(super) fn of_all(filters: &[&Filter], allowance: Allowance<'_>) -> Result<Table, SetError> {
    collect(filters, None, allowance, |hash| {
        filters.iter().all(|filter| filter.holds_hash(hash))
    })
}

/// The exceptions of all of `filters` for which `stays` holds. How many they are is known at the end only, so
/// `allowance` is asked whenever their table has to become larger: what is refused then would be refused in the end.
fn collect(
    filters: &[&Filter],
    destination: Option<&Filter>,
    allowance: Allowance<'_>,
    stays: impl Fn(ItemHash) -> bool,
) -> Result<Table, SetError> {
    let mut exceptions = Table::default();
    let are_first = destination.is_none_or(|filter| filter.excepted().is_none());
    let layers = destination
        .and_then(Filter::as_blocked)
        .map_or(&[][..], |(_, layers)| layers);
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
                ask_for(exceptions.len() + 1, are_first, Frame::CHAIN, layers, allowance)?;
                exceptions.make_room_for(1)?;
            }
            exceptions.insert(hash);
        }
    }
    Ok(exceptions)
}

/// The blocks of a filter that gets `exceptions`, and whether they are new: its first ones, or others than it has.
pub(super) fn blocks(exceptions: &Table, are_first: bool, are_new: bool) -> Vec<(Block, bool)> {
    if exceptions.is_empty() {
        return Vec::new();
    }
    let table = exceptions.blocks().map(|block| (block, are_new));
    std::iter::once((Excepting::BLOCK, are_first))
        .chain(table)
        .collect()
}
