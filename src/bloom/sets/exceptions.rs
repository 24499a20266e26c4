//! What becomes of exceptions when filters are combined.

use super::SetError;
use crate::bloom::bits::memory::Block;
use crate::bloom::exceptions::table::{Table, hash_of};
use crate::bloom::exceptions::{Excepting, MOST_EXCEPTIONS};
use crate::bloom::filter::Filter;
use crate::bloom::item::ItemHash;

/// The exceptions of a filter.
pub(super) fn of(filter: &Filter) -> Option<&Table> {
    match filter {
        Filter::Excepting(filter) => Some(filter.exceptions()),
        Filter::Blocked(_) | Filter::Classic(_) | Filter::Windowed(_) => None,
    }
}

/// Those of a union: an item that is excepted in one filter, and present in another one, is present.
pub(super) fn of_union(filters: &[&Filter]) -> Result<Table, SetError> {
    collect(filters, |hash| {
        !filters.iter().any(|filter| filter.contains_hash(hash))
    })
}

/// Those of an intersection: an item that is excepted in one of the filters is not in it. Only those are kept that
/// would be found else.
pub(super) fn of_all(filters: &[&Filter]) -> Result<Table, SetError> {
    collect(filters, |hash| {
        filters.iter().all(|filter| filter.holds_hash(hash))
    })
}

/// The exceptions of all of `filters` for which `stays` holds.
fn collect(filters: &[&Filter], stays: impl Fn(ItemHash) -> bool) -> Result<Table, SetError> {
    let tables: Vec<_> = filters.iter().filter_map(|filter| of(filter)).collect();
    let each = |take: &mut dyn FnMut(ItemHash)| {
        for (index, table) in tables.iter().enumerate() {
            let (earlier, hashes) = (&tables[..index], table.ascending().map(hash_of));
            hashes
                .filter(|&hash| !earlier.iter().any(|table| table.has(hash)) && stays(hash))
                .for_each(&mut *take);
        }
    };
    let mut count = 0;
    each(&mut |_| count += 1);
    if count > MOST_EXCEPTIONS {
        return Err(SetError::TooManyExceptions {
            exceptions: count as u64,
        });
    }
    let mut exceptions = Table::default();
    exceptions.make_room_for(count)?;
    each(&mut |hash| {
        exceptions.insert(hash);
    });
    Ok(exceptions)
}

/// The blocks of a filter that gets `exceptions` in place of `held`, and whether they are new.
pub(super) fn blocks(exceptions: &Table, held: Option<&Table>) -> Vec<(Block, bool)> {
    if exceptions.is_empty() {
        return Vec::new();
    }
    let is_new = differ(exceptions, held);
    vec![
        (Excepting::BLOCK, is_new && held.is_none()),
        (exceptions.block(), is_new),
    ]
}

/// Whether a filter that gets `exceptions` in place of `held` changes.
pub(super) fn differ(exceptions: &Table, held: Option<&Table>) -> bool {
    match held {
        Some(held) => !exceptions.ascending().eq(held.ascending()),
        None => !exceptions.is_empty(),
    }
}
