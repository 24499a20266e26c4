//! Looking ahead: an item's memory is asked for before the item's filter is known.
//!
//! One item's probe waits for memory, and a command of one item has nothing to do meanwhile but to find its
//! filter. Most commands ask the filter that the one before them asked: so the item is hashed first, as that
//! filter does, and the lines are asked for that it would have there. If the command's filter is another one,
//! or the filter has changed or gone, that was in vain and nothing else: asking for memory has no effect.

use std::cell::RefCell;
use std::sync::Arc;

use super::Filter;
use super::blocked::Guess;
use super::hash::{Item, Secret};

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Layers whose lines are asked for. Where filters grow by doubling, the others are small and near the processor.
const LAYERS: usize = 6;

/// What the last filter does with an item.
#[derive(Debug)]
struct Last {
    secret: Arc<Secret>,
    /// Of the newest layer first.
    guesses: [Guess; LAYERS],
    layers: usize,
}

/// Hashes an item as the last filter does, and asks for the memory that it would have there.
#[inline]
pub fn item(bytes: &[u8]) -> Item<'_> {
    LAST.with_borrow(|last| {
        let Some(last) = last else {
            return bytes.into();
        };
        let item = Item::hashed(bytes, &last.secret);
        let hash = item.hash(&last.secret);
        if let [newest, older @ ..] = &last.guesses[..last.layers.min(LAYERS)] {
            newest.prefetch(hash);
            // A layer that does not hold an item mostly says so with the first line.
            older.iter().for_each(|guess| guess.prefetch_first(hash));
        }
        item
    })
}

/// From now on `filter` is the last one, unless it is of a layout without lines.
#[inline]
pub fn follow(filter: &Filter) {
    let Filter::Blocked(chain) = filter else { return };
    let secret = chain.rules().secret();
    LAST.with_borrow_mut(|last| {
        let last = match last {
            Some(last) if Arc::ptr_eq(&last.secret, secret) => last,
            _ => last.insert(Last {
                secret: Arc::clone(secret),
                guesses: [Guess::NOWHERE; LAYERS],
                layers: 0,
            }),
        };
        last.layers = chain.layers().len().min(LAYERS);
        for (guess, layer) in last.guesses.iter_mut().zip(chain.layers().iter().rev()) {
            *guess = layer.guess();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::UNLIMITED;
    use crate::bloom::oracle::spec;
    use crate::bloom::params::{Expansion, Growth, Layout, Spec};

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
            blocked(100, 0.01, 1),
            blocked(1_000_000, 1e-9, 1),
            blocked(100, 0.01, 2),
            classic,
        ];
        let mut filters = kinds.map(filter);
        for turn in 0..4_000_u32 {
            let at = turn as usize * 7 / 3 % filters.len();
            if turn % 1_000 == 999 {
                // The guess now is of memory that was given back.
                follow(&filters[at]);
                filters[at] = filter(kinds[at]);
            }
            let bytes = turn.to_le_bytes();
            let foreseen = item(&bytes);
            follow(&filters[at]);
            let was_there = filters[at].contains(&bytes);
            assert_eq!(filters[at].contains(foreseen), was_there);
            assert_eq!(filters[at].add(foreseen, UNLIMITED), Ok(!was_there));
            assert!(filters[at].contains(&bytes));
            assert!(filters[at].contains(item(&bytes)));
        }
    }
}
