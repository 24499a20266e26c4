//! Prefetching for a command of one item, before its filter is known.
//!
//! A lookup of one item waits for memory. Most commands use the same filter as the command before them. So while the
//! server looks for the key, the item is hashed as the last filter hashes it, and the lines that it has there are
//! prefetched. If the command uses another filter, or the last one has changed or been deleted, only the effort is
//! lost: a prefetch changes nothing, and the hash is valid for every filter with the same seed.

use std::cell::RefCell;

use crate::Filter;
use crate::chain::batch::Prefetch as _;
use crate::item::Item;
use crate::layouts::blocked::layer::LinePrefetcher;
use crate::layouts::blocked::secret::HashKey;

/// The most layers whose lines are prefetched. Of filters that grow by doubling, older layers are mostly in caches.
const LAYERS: usize = 6;

/// Items of this many bytes or more are not hashed ahead: the hash would take longer than the memory access.
const LONG: usize = 1024;

thread_local! {
    static LAST_FILTER: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// How the filter of the previous command hashes an item, and where its layers look for it.
struct Last {
    /// A copy of the key. Sharing it would keep alive memory that filters own.
    key: HashKey,
    /// Where each layer looks for an item, the newest layer first.
    lines: [LinePrefetcher; LAYERS],
    layers: usize,
}

/// Hashes an item as the filter of the previous command does, and prefetches the item's lines there.
#[inline]
pub fn item(bytes: &[u8]) -> Item<'_> {
    LAST_FILTER.with_borrow(|last| {
        let Some(last) = last.as_ref().filter(|_| bytes.len() < LONG) else {
            return bytes.into();
        };
        let hash = last.key.hash(bytes);
        if let [newest, older @ ..] = &last.lines[..last.layers.min(LAYERS)] {
            newest.prefetch(hash);
            // If an older layer does not hold the item, its first line is mostly enough to see that.
            older.iter().for_each(|lines| lines.prefetch_first(hash));
        }
        Item::new(bytes, Some((last.key.seed(), hash)))
    })
}

/// Remembers the filter of the current command for the next call of [`item`]. With `None`, or a filter that
/// is not blocked, nothing is prefetched until the next call.
#[inline]
pub fn follow(filter: Option<&Filter>) {
    LAST_FILTER.with_borrow_mut(|last| {
        let Some((secret, layers)) = filter.and_then(Filter::as_blocked) else {
            *last = None;
            return;
        };
        let last = match last {
            Some(last) if last.key.seed() == secret.seed() => last,
            _ => last.insert(Last {
                key: ***secret,
                lines: [LinePrefetcher::NOWHERE; LAYERS],
                layers: 0,
            }),
        };
        last.layers = layers.len().min(LAYERS);
        for (lines, layer) in last.lines.iter_mut().zip(layers.iter().rev()) {
            *lines = layer.line_prefetcher();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNLIMITED;
    use crate::params::{Expansion, Growth, Layout};
    use crate::spec::Spec;
    use crate::tests::oracle::spec;

    fn filter(spec: Spec) -> Filter {
        Filter::new(spec, UNLIMITED).unwrap()
    }

    /// The answer always comes from the right filter, whatever was guessed: with two filters, and with one that was
    /// deleted and made again.
    #[test]
    fn a_wrong_guess_changes_no_answer() {
        let growing = Growth::Growing(Expansion::new(2).unwrap());
        let blocked = |capacity, error_rate, seed| Spec::from(spec(capacity, error_rate, growing, seed));
        let classic = spec(100, 0.01, growing, 0).in_layout(Layout::Classic).unwrap();
        let kinds = [
            blocked(10, 0.01, 1),
            blocked(1_000_000, 1e-9, 1),
            blocked(100, 0.01, 2),
            classic,
        ];
        let mut filters = kinds.map(filter);
        let mut longest = 0;
        for turn in 0..8_000_u32 {
            // A de Bruijn sequence: each filter follows each other one.
            let at = [0, 0, 1, 0, 2, 0, 3, 1, 1, 2, 1, 3, 2, 2, 3, 3][turn as usize % 16];
            longest = longest.max(filters[at].layers());
            if turn % 2_001 == 2_000 && at < 3 {
                // Now the guess refers to memory that has been freed.
                follow(Some(&filters[at]));
                filters[at] = filter(kinds[at]);
            }
            let mut bytes = turn.to_le_bytes().to_vec();
            bytes.resize(if turn % 5 == 0 { LONG } else { 20 }, 7);
            let foreseen = item(&bytes);
            follow(Some(&filters[at]));
            let followed = LAST_FILTER.with_borrow(|last| last.as_ref().map(|last| last.key.seed()));
            let seed = filters[at].as_blocked().map(|(secret, _)| secret.seed());
            assert_eq!(followed, seed, "what is asked for would be in vain");
            let was_there = filters[at].contains(&bytes);
            assert_eq!(filters[at].contains(foreseen), was_there);
            assert_eq!(filters[at].add(foreseen, 0, UNLIMITED), Ok(!was_there));
            assert!(filters[at].contains(&bytes));
            assert!(filters[at].contains(item(&bytes)));
        }
        assert!(longest > LAYERS, "{longest} layers");
        follow(None);
        assert!(LAST_FILTER.with_borrow(Option::is_none));
    }
}
