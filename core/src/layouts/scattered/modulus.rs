//! Remainders by a number that is the same for millions of divisions, without dividing.
//!
//! With `m = floor((2^64 - 1) / d)`, the estimate `q = floor(x · m / 2^64)` of `x / d` is exact or one too small:
//! `m = (2^64 - 1 - r) / d` for an `r < d`, so `x · m / 2^64 = x/d - x(1 + r) / (d · 2^64)`, and the subtracted term is
//! less than 1 because `x < 2^64` and `1 + r <= d`. So one conditional subtraction corrects the remainder `x - q · d`,
//! which never exceeds `x`. (Barrett reduction, with a word as the radix.)

use std::num::NonZeroU64;

const _: () = assert!(size_of::<Modulus>() == 16);

/// A modulus, prepared for cheap remainders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modulus {
    PowerOfTwo {
        /// The modulus minus 1.
        mask: u64,
    },
    Other {
        divisor: u64,
        /// `floor((2^64 - 1) / divisor)`. It is never 0, so the enum needs no memory for its tag.
        reciprocal: NonZeroU64,
    },
}

impl Modulus {
    /// Prepares `modulus`; 0 is replaced by 1.
    pub fn new(modulus: u64) -> Self {
        let divisor = modulus.max(1);
        if divisor.is_power_of_two() {
            Self::PowerOfTwo { mask: divisor - 1 }
        } else {
            Self::Other {
                divisor,
                reciprocal: NonZeroU64::MIN.saturating_add(u64::MAX / divisor - 1),
            }
        }
    }

    pub fn value(self) -> u64 {
        match self {
            Self::PowerOfTwo { mask } => mask + 1,
            Self::Other { divisor, .. } => divisor,
        }
    }

    /// `x` modulo the modulus.
    #[inline(always)]
    pub fn remainder(self, x: u64) -> u64 {
        match self {
            Self::PowerOfTwo { mask } => x & mask,
            Self::Other { divisor, reciprocal } => {
                let quotient = ((u128::from(x) * u128::from(reciprocal.get())) >> 64) as u64;
                let remainder = x.wrapping_sub(quotient.wrapping_mul(divisor));
                // If no correction is due, the subtraction wraps to a larger number.
                remainder.min(remainder.wrapping_sub(divisor))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers at which an estimate is likely to be off by one: near powers of two, and near multiples of the
    /// divisor.
    fn edges(d: u64) -> impl Iterator<Item = u64> {
        let near_powers = (0..64).map(|n| 1u64 << n);
        let near_multiples = [1, 2, 3, u64::MAX / d / 2, u64::MAX / d].map(|times| times.wrapping_mul(d));
        let centres = near_powers.chain(near_multiples).chain([0, u64::MAX]);
        centres.flat_map(|x| (0..5).map(move |off| x.wrapping_add(off).wrapping_sub(2)))
    }

    /// A remainder that is off by one would probe a bit that was never set.
    #[test]
    fn remainders_at_the_edges_are_exact() {
        for d in edges(1).filter(|&d| d > 0) {
            for x in edges(d) {
                assert_eq!(Modulus::new(d).remainder(x), x % d, "{x} mod {d}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Remainders between the edge cases are exact too.
        #[test]
        fn remainders_are_exact(x: u64, small_x in 0u32..64, d in 1u64.., small_d in 0u32..64) {
            let d = (d >> small_d).max(1);
            prop_assert_eq!(Modulus::new(d).remainder(x), x % d);
            prop_assert_eq!(Modulus::new(d).remainder(x >> small_x), (x >> small_x) % d);
            let multiple = x / d * d;
            prop_assert_eq!(Modulus::new(d).remainder(multiple), 0);
            prop_assert_eq!(Modulus::new(d).remainder(multiple.wrapping_sub(1)), multiple.wrapping_sub(1) % d);
        }
    }
}
