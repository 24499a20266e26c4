//! How large the next layer of a window is, and what of the error budget it may have.
//!
//! The layers that are alive never sum to more than the filter's rate. Most of it is divided evenly among the slices
//! that can be alive at a time, which are one more than the window has; the rest is for what comes besides: further
//! layers of slices that a burst fills, and slices that were ended early. Of what is left of that rest each takes a
//! part, so that there is always some left, and what a dropped layer had comes back.

use super::slices::Slices;
use crate::bloom::chain::demand::reserved;
use crate::bloom::error::Error;

/// The part of the rate that is for the slices.
const FOR_SLICES: f64 = 0.85;
/// What a further layer takes of what is left of the rest.
const OF_THE_REST: f64 = 0.25;
/// The parts of a slice that a further layer has at least one of.
const FEWEST: u64 = 32;

/// What a layer to come is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Items.
    pub capacity: u64,
    /// The highest rate that it may have.
    pub rate: f64,
    /// Whether the rate is of what is kept for bursts.
    pub spare: bool,
}

/// A layer that is there.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Items that changed it.
    pub items: u64,
    /// The rate that it was made for.
    pub rate: f64,
}

/// The rate of a slice's first layer in a filter of rate `budget`.
pub fn slice_rate(budget: f64, slices: u8) -> f64 {
    budget * FOR_SLICES / (f64::from(slices) + 1.0)
}

/// The rate of the layers besides those, all together.
pub fn spare_rate(budget: f64) -> f64 {
    budget * (1.0 - FOR_SLICES)
}

/// The share of a layer that begins a slice when the first `over` layers go. It is for as many items as the slices that
/// stay had: their median, so that a single burst makes no large slices for all of a window. At least it is for
/// `capacity`.
///
/// # Errors
/// [`Error::OutOfMemory`] for a list of the slices.
pub fn of_slice(
    budget: f64,
    capacity: u64,
    slices: &Slices,
    over: usize,
    layer: impl Fn(usize) -> Held,
) -> Result<Share, Error> {
    let spans = slices.spans().iter().skip(over);
    let usual = spans.filter(|span| span.begins && !span.spare).count();
    let capacity = match slices.window().milliseconds() {
        None => capacity,
        Some(_) => {
            let items = |range: std::ops::Range<usize>| range.map(|index| layer(index).items);
            let kept = slices.ranges().filter(|range| range.start >= over);
            let counts = kept.map(|range| items(range).fold(0, u64::saturating_add));
            match median(counts, slices.spans().len())? {
                Some(median) if median > capacity => with_margin(median),
                _ => capacity,
            }
        }
    };
    if usual <= usize::from(slices.window().slices()) {
        Ok(Share {
            capacity,
            rate: slice_rate(budget, slices.window().slices()),
            spare: false,
        })
    } else {
        Ok(Share {
            capacity,
            rate: of_the_rest(budget, slices, over, layer),
            spare: true,
        })
    }
}

/// The share of a further layer in the newest slice, which is full. It is for as many items as will come in the time that
/// is `left` of the slice, if they come as they came into the newest layer: in the time `elapsed` since that began, its
/// items. So one burst at the end of a slice that was quiet fills few layers. At most it is for `expansion` times as
/// many as `newest`, which is a layer's items and capacity.
pub fn of_burst(
    budget: f64,
    (elapsed, left): (u64, u64),
    newest: (u64, u64),
    expansion: u32,
    slices: &Slices,
    over: usize,
    layer: impl Fn(usize) -> Held,
) -> Share {
    let range = slices.newest()..slices.spans().len();
    let items = range.fold(0, |items: u64, index| items.saturating_add(layer(index).items));
    let (recent, capacity) = newest;
    let expected = u128::from(recent) * u128::from(left) / u128::from(elapsed.max(1));
    let expected = with_margin(u64::try_from(expected).unwrap_or(u64::MAX));
    let most = capacity.saturating_mul(expansion.into());
    Share {
        capacity: expected.min(most).max(items.div_ceil(FEWEST)),
        rate: of_the_rest(budget, slices, over, layer),
        spare: true,
    }
}

/// The median of `most` counts at most, the lower one where there are two.
fn median(counts: impl Iterator<Item = u64>, most: usize) -> Result<Option<u64>, Error> {
    let mut list = reserved(most)?;
    list.extend(counts.take(most));
    list.sort_unstable();
    Ok(list.get(list.len().saturating_sub(1) / 2).copied())
}

/// For items that come at random, of which so many are expected: three standard deviations more.
pub fn with_margin(items: u64) -> u64 {
    items.saturating_add(3 * items.isqrt()).max(1)
}

fn of_the_rest(budget: f64, slices: &Slices, over: usize, layer: impl Fn(usize) -> Held) -> f64 {
    let spans = slices.spans().iter().enumerate().skip(over);
    let taken: f64 = spans
        .filter(|(_, span)| span.spare)
        .map(|(index, _)| layer(index).rate)
        .sum();
    (spare_rate(budget) - taken).max(0.0) * OF_THE_REST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::chain::window::slices::Span;
    use crate::bloom::params::Window;

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
            let slices = Slices::new(window, spans.iter().copied().map(span).collect(), true);
            of_slice(0.01, 100, &slices, 0, |_| Held {
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
