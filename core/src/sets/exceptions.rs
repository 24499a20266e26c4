//! The exceptions of combined filters.

use crate::chain::demand::FILTER_BYTES;
use crate::chain::{Allowance, sum};
use crate::exceptions::table::Table;
use crate::exceptions::{MOST_EXCEPTIONS, ask_for_table};
use crate::filter::Filter;
use crate::item::ItemHash;
use crate::merging::SetError;

/// The most exceptions of all combined filters times the layers of all of them, because every exception is looked up
/// in every layer.
pub const MOST_ASKED: u64 = 1 << 23;

/// Checks that every exception of `filters` can be looked up in every layer in a short time.
///
/// # Errors
/// [`SetError::TooManyToAsk`].
fn check_number(filters: &[&Filter]) -> Result<(), SetError> {
    let exceptions = sum(filters.iter().map(|filter| filter.exceptions()));
    let layers = sum(filters.iter().map(|filter| filter.layers() as u64));
    if exceptions.saturating_mul(layers) > MOST_ASKED {
        return Err(SetError::TooManyToAsk { exceptions, layers });
    }
    Ok(())
}

/// The exceptions of a union: an item that is excepted in one filter and present in another is present.
pub(super) fn of_union(filters: &[&Filter], allowance: Allowance<'_>) -> Result<Table, SetError> {
    collect(filters, None, allowance, |hash| is_in_none(filters, hash))
}

/// The exceptions of a union that becomes `destination`, which is one of `filters`; `None` if it has these exceptions
/// already.
pub(super) fn of_union_in(
    destination: &Filter,
    filters: &[&Filter],
    allowance: Allowance<'_>,
) -> Result<Option<Table>, SetError> {
    check_number(filters)?;
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

/// The exceptions of an intersection: an item that is excepted in one filter is not in it. Only those are kept that
/// the result would otherwise contain.
pub(super) fn of_all(filters: &[&Filter], allowance: Allowance<'_>) -> Result<Table, SetError> {
    collect(filters, None, allowance, |hash| {
        filters.iter().all(|filter| filter.holds_hash(hash))
    })
}

/// The exceptions of all `filters` for which `stays` holds. Their number is only known at the end, so `allowance` is
/// queried whenever the table must grow: a demand that it refuses then would also be refused at the end.
fn collect(
    filters: &[&Filter],
    destination: Option<&Filter>,
    allowance: Allowance<'_>,
    stays: impl Fn(ItemHash) -> bool,
) -> Result<Table, SetError> {
    check_number(filters)?;
    let mut exceptions = Table::default();
    let layers = destination.map_or(FILTER_BYTES, |filter| filter.layers.bytes());
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
                ask_for_table(exceptions.len() + 1, layers, allowance)?;
                exceptions.make_room_for(1)?;
            }
            exceptions.insert(hash);
        }
    }
    Ok(exceptions)
}
