//! What folding needs of a layout. [`shrinking`](crate::shrinking) folds filters.

use crate::error::Error;
use crate::merging::MergeRules;

/// The most numbers that are tried as factors from each end, so that the search takes microseconds for any layer.
const MOST_TRIED: u64 = 4096;

/// The most factors that are tried for one layer.
const MOST_FACTORS: usize = 16;

/// Numbers that have many factors. Of 240 and above, each factor from 3 to a third of the number is at most a third
/// larger than the one before it.
pub(crate) const SMOOTH: [u64; 7] = [720_720, 5040, 720, 240, 48, 12, 4];

/// The rules of a layout whose layers can be folded.
pub(crate) trait Foldable: MergeRules {
    /// The smallest shape known to which a layer of `shape` can be folded that holds `items` items within the layer's
    /// rate; `None` if there is none smaller than it. `items` is 1 or more, and at most the layer's capacity.
    fn folded(&self, shape: Self::Shape, items: u64) -> Option<Self::Shape>;

    /// A layer with the bits of `layer` folded to `shape`, and no items.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn fold(layer: &Self::Layer, shape: Self::Shape) -> Result<Self::Layer, Error>;
}

/// `whole · part / of`, rounded down, and 1 or more.
pub(crate) fn part(whole: u64, part: u64, of: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part);
    u64::try_from(product / u128::from(of.max(1)))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Factors of `number`, the largest first, that leave `least` or more when it is divided by them. Of factors above
/// [`MOST_TRIED`], only those with the smallest quotients are found.
pub(crate) fn factors(number: u64, least: u64) -> impl Iterator<Item = u64> {
    let least = least.max(1);
    let largest = number / least;
    let end = if largest > MOST_TRIED {
        least.saturating_add(MOST_TRIED).min(number / MOST_TRIED)
    } else {
        least
    };
    let large = (least..end)
        .filter(move |&quotient| number.is_multiple_of(quotient))
        .map(move |quotient| number / quotient);
    let small = (2..=largest.min(MOST_TRIED))
        .rev()
        .filter(move |&factor| number.is_multiple_of(factor));
    large.chain(small).take(MOST_FACTORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shrunk filter would be larger than its page says.
    #[test]
    fn smooth_numbers_have_a_factor_near_any_wanted() {
        for number in SMOOTH.into_iter().filter(|&number| number >= 240) {
            let factors: Vec<_> = (3..=number / 3)
                .filter(|&factor| number.is_multiple_of(factor))
                .collect();
            assert!(
                factors.is_sorted_by(|one, next| 3 * next <= 4 * one),
                "{number}: {factors:?}"
            );
        }
    }

    /// If this failed, filters would stay larger than they must be, or the search would take seconds.
    #[test]
    fn factors_are_found_the_largest_first() {
        let all = |number, least| factors(number, least).collect::<Vec<_>>();
        assert_eq!(all(48, 1), [48, 24, 16, 12, 8, 6, 4, 3, 2]);
        assert_eq!(all(48, 5), [8, 6, 4, 3, 2]);
        assert_eq!(all(48, 9), [4, 3, 2]);
        assert!(all(48, 25).is_empty());
        assert_eq!(all(7, 1), [7]);
        assert_eq!(all(4096 * 12, 2)[..4], [4096 * 6, 4096 * 4, 4096 * 3, 4096 * 2]);
        assert_eq!(all(3 << 40, 1 << 20)[0], 3 << 20);
        assert!(all(u64::MAX, u64::MAX).is_empty());
        // A prime number above 2^61.
        assert_eq!(all((1 << 61) - 1, 1)[..], [(1 << 61) - 1]);
        assert!(all((1 << 61) - 1, 2).is_empty());
        assert_eq!(part(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!((part(10, 1, 20), part(10, 3, 2), part(1, 1, 0)), (1, 15, 1));
    }
}
