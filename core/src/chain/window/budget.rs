//! The size of the next layer of a window, and its part of the error budget.
//!
//! The rates of the layers that have not expired never sum to more than the filter's rate. Most of the rate is divided
//! evenly among the first layers of slices, of which at most one more than the window's slices are there at a time. The
//! rest is the *spare* rate: for further layers of slices that a burst fills, and for slices after others that were
//! ended early. Each of these gets a part of the spare rate that is left, so there is always some left. The rate of a
//! dropped layer can be given again.

use super::slices::Slices;
use crate::chain::demand::reserved;
use crate::error::Error;

/// The part of the rate that is for the first layers of slices.
const FOR_SLICES: f64 = 0.85;
/// A further layer gets this part of the spare rate that is left.
const OF_THE_REST: f64 = 0.25;
/// A further layer is for at least as many items as its slice has, divided by this.
const FEWEST: u64 = 32;

/// The size and error rate of a layer that is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The number of items that the layer is for.
    pub capacity: u64,
    /// The highest rate that the layer may have.
    pub rate: f64,
    /// Whether the rate is a part of the spare rate.
    pub spare: bool,
}

/// A layer that the filter has.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Items that changed the layer.
    pub items: u64,
    /// The rate that the layer was made for.
    pub rate: f64,
}

/// The rate of a slice's first layer in a filter of rate `budget`.
pub fn slice_rate(budget: f64, slices: u8) -> f64 {
    budget * FOR_SLICES / (f64::from(slices) + 1.0)
}

/// The spare rate: what all layers but the usual first layers of slices have together.
pub fn spare_rate(budget: f64) -> f64 {
    budget * (1.0 - FOR_SLICES)
}

/// The size and rate of a layer that begins a slice, when the first `dropped` layers are dropped. The layer is for the
/// median number of items in the slices that stay, so that one burst does not make all slices of a window large; and
/// for at least the slice's part of the window's capacity.
///
/// # Errors
/// [`Error::OutOfMemory`] for a list of the slices.
pub fn of_slice(
    budget: f64,
    slices: &Slices,
    dropped: usize,
    layer: impl Fn(usize) -> Held,
) -> Result<Wanted, Error> {
    let spans = slices.spans().iter().skip(dropped);
    let usual = spans.filter(|span| span.begins && !span.spare).count();
    let usual_capacity = slices.window().slice_capacity(slices.capacity());
    let items = |range: std::ops::Range<usize>| range.map(|index| layer(index).items);
    let kept = slices.ranges().filter(|range| range.start >= dropped);
    let counts = kept.map(|range| items(range).fold(0, u64::saturating_add));
    let capacity = match median(counts, slices.spans().len())? {
        Some(median) if median > usual_capacity => with_margin(median),
        _ => usual_capacity,
    };
    if usual <= usize::from(slices.window().slices()) {
        Ok(Wanted {
            capacity,
            rate: slice_rate(budget, slices.window().slices()),
            spare: false,
        })
    } else {
        Ok(Wanted {
            capacity,
            rate: of_the_rest(budget, slices, dropped, layer),
            spare: true,
        })
    }
}

/// The size and rate of a further layer in the newest slice, whose layers are full. The further layer is for the
/// items that will come in the time `left` of the slice, at the pace of the newest layer, which got its items in the
/// time `elapsed`. So a burst at the end of a quiet slice fills few layers. It is for at most `expansion` times the
/// newest layer's capacity. `newest` is the newest layer's items and capacity.
pub fn of_burst(
    budget: f64,
    (elapsed, left): (u64, u64),
    newest: (u64, u64),
    expansion: u32,
    slices: &Slices,
    dropped: usize,
    layer: impl Fn(usize) -> Held,
) -> Wanted {
    let range = slices.newest()..slices.spans().len();
    let items = range.fold(0, |items: u64, index| items.saturating_add(layer(index).items));
    let (recent, capacity) = newest;
    let expected = u128::from(recent) * u128::from(left) / u128::from(elapsed.max(1));
    let expected = with_margin(u64::try_from(expected).unwrap_or(u64::MAX));
    let most = capacity.saturating_mul(expansion.into());
    Wanted {
        capacity: expected.min(most).max(items.div_ceil(FEWEST)),
        rate: of_the_rest(budget, slices, dropped, layer),
        spare: true,
    }
}

/// The median of the counts, of which there are at most `most`; the lower one of two.
fn median(counts: impl Iterator<Item = u64>, most: usize) -> Result<Option<u64>, Error> {
    let mut list = reserved(most)?;
    list.extend(counts.take(most));
    list.sort_unstable();
    Ok(list.get(list.len().saturating_sub(1) / 2).copied())
}

/// A capacity for items that come at random, of which `items` are expected: three standard deviations more.
pub fn with_margin(items: u64) -> u64 {
    items.saturating_add(3 * items.isqrt()).max(1)
}

fn of_the_rest(budget: f64, slices: &Slices, dropped: usize, layer: impl Fn(usize) -> Held) -> f64 {
    let spans = slices.spans().iter().enumerate().skip(dropped);
    let taken: f64 = spans
        .filter(|(_, span)| span.spare)
        .map(|(index, _)| layer(index).rate)
        .sum();
    (spare_rate(budget) - taken).max(0.0) * OF_THE_REST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::window::slices::Span;
    use crate::params::{Capacity, Window};

    /// After a time of many rotations a filter would give the rest of its rate to every slice for good, and its layers
    /// would be larger and larger.
    #[test]
    fn a_slice_gets_a_usual_share_again_once_the_usual_ones_have_gone() {
        let window = Window::new(60, 2, false).unwrap();
        let span = |spare| Span {
            first: 1000,
            end: 1001,
            begins: true,
            spare,
        };
        let share_after = |spans: &[bool]| {
            let capacity = Capacity::new(200).unwrap();
            let spans = spans.iter().copied().map(span).collect();
            let slices = Slices::stored(window, capacity, spans, true);
            of_slice(0.01, &slices, 0, |_| Held {
                items: 1,
                rate: 0.0001,
            })
            .map(|share| (share.rate, share.spare))
        };
        let usual = Ok((slice_rate(0.01, 2), false));
        assert_eq!(share_after(&[false, false]), usual);
        assert_eq!(share_after(&[true, true, true]), usual);
        assert_eq!(share_after(&[false, true, true, false]), usual);
        let spare = share_after(&[false, false, true, false]);
        assert_eq!(spare.map(|(_, spare)| spare), Ok(true));
    }

    /// A slice would be full before its time in every second busy hour, and grow a layer.
    #[test]
    fn a_slice_has_room_for_three_standard_deviations_more() {
        assert_eq!([0, 1, 100, 10_000].map(with_margin), [1, 4, 130, 10_300]);
        assert_eq!(with_margin(u64::MAX), u64::MAX);
    }
}
