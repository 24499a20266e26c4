//! Looking ahead: an item's memory is asked for before the item's filter is known.
//!
//! One item's probe waits for memory, and a command of one item has nothing to do meanwhile but to find its
//! filter. Most commands ask the filter that the one before them asked: so the item is hashed first, as that
//! filter does, and the lines are asked for that it would have there. If the command's filter is another one,
//! or the filter has changed or gone, that was in vain and nothing else: asking for memory has no effect, and
//! the hash is of use to every filter of the same seed.

use std::cell::RefCell;

use crate::bloom::Filter;
use crate::bloom::blocked::layer::Lines;
use crate::bloom::blocked::secret::Key;
use crate::bloom::chain::batch::Prefetch as _;
use crate::bloom::item::Item;

/// Layers whose lines are asked for. Where filters grow by doubling, the others are small and near the
/// processor.
const LAYERS: usize = 6;

/// Bytes from which on an item is not hashed ahead: that would take longer than memory does.
const LONG: usize = 1024;

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// What the last filter does with an item.
#[derive(Debug)]
struct Last {
    /// A copy: a share would keep alive what filters own.
    key: Key,
    /// Of the newest layer first.
    lines: [Lines; LAYERS],
    layers: usize,
}

/// Hashes an item as the last filter does, and asks for the memory that it would have there.
#[inline]
pub fn item(bytes: &[u8]) -> Item<'_> {
    LAST.with_borrow(|last| {
        let Some(last) = last.as_ref().filter(|_| bytes.len() < LONG) else {
            return bytes.into();
        };
        let hash = last.key.hash(bytes);
        if let [newest, older @ ..] = &last.lines[..last.layers.min(LAYERS)] {
            newest.prefetch(hash);
            // A layer that does not hold an item mostly says so with the first line.
            older.iter().for_each(|lines| lines.prefetch_first(hash));
        }
        Item::hashed(bytes, last.key.seed(), hash)
    })
}

/// Takes note of a command's filter; for none, and for a layout without lines, nothing is guessed from now on.
#[inline]
pub fn follow(filter: Option<&Filter>) {
    LAST.with_borrow_mut(|last| {
        let Some((secret, layers)) = filter.and_then(Filter::as_blocked) else {
            *last = None;
            return;
        };
        let last = match last {
            Some(last) if last.key.seed() == secret.seed() => last,
            _ => last.insert(Last {
                key: ***secret,
                lines: [Lines::NOWHERE; LAYERS],
                layers: 0,
            }),
        };
        last.layers = layers.len().min(LAYERS);
        for (lines, layer) in last.lines.iter_mut().zip(layers.iter().rev()) {
            *lines = layer.lines();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::UNLIMITED;
    use crate::bloom::params::{Expansion, Growth, Layout, Spec};
    use crate::bloom::tests::oracle::spec;

    fn filter(spec: Spec) -> Filter {
        Filter::new(spec, UNLIMITED).unwrap()
    }

    /// What was learned from one filter must not answer for another: users of two filters, or of one that was
    /// deleted and made again, would see items forgotten.
    #[test]
    fn a_wrong_guess_changes_no_answer() {
        let growing = Growth::Growing(Expansion::new(2).unwrap());
        let blocked = |capacity, error_rate, seed| spec(capacity, error_rate, growing, seed);
        let classic = Spec {
            layout: Layout::Classic,
            ..blocked(100, 0.01, 0)
        };
        let kinds = [
            blocked(10, 0.01, 1),
            blocked(1_000_000, 1e-9, 1),
            blocked(100, 0.01, 2),
            classic,
        ];
        let mut filters = kinds.map(filter);
        let mut longest = 0;
        for turn in 0..8_000_u32 {
            // Each filter comes after each one: a de Bruijn sequence.
            let at = [0, 0, 1, 0, 2, 0, 3, 1, 1, 2, 1, 3, 2, 2, 3, 3][turn as usize % 16];
            longest = longest.max(filters[at].layers());
            if turn % 2_001 == 2_000 && at < 3 {
                // The guess is of memory that was given back.
                follow(Some(&filters[at]));
                filters[at] = filter(kinds[at]);
            }
            let mut bytes = turn.to_le_bytes().to_vec();
            bytes.resize(if turn % 5 == 0 { LONG } else { 20 }, 7);
            let foreseen = item(&bytes);
            follow(Some(&filters[at]));
            let followed = LAST.with_borrow(|last| last.as_ref().map(|last| last.key.seed()));
            let seed = filters[at].as_blocked().map(|(secret, _)| secret.seed());
            assert_eq!(followed, seed, "what is asked for would be in vain");
            let was_there = filters[at].contains(&bytes);
            assert_eq!(filters[at].contains(foreseen), was_there);
            assert_eq!(filters[at].add(foreseen, UNLIMITED), Ok(!was_there));
            assert!(filters[at].contains(&bytes));
            assert!(filters[at].contains(item(&bytes)));
        }
        assert!(longest > LAYERS, "{longest} layers");
        follow(None);
        assert!(LAST.with_borrow(Option::is_none));
    }
}
