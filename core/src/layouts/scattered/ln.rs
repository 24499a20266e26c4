//! The natural logarithm, identical on every machine.
//!
//! RedisBloom and valkey-bloom size layers with libm's `log`, whose last bit depends on the library and the
//! processor. A replica must grow the same layer as its primary, wherever it runs. So this one uses only
//! operations that IEEE 754 defines to the last bit: `+ - * /` and the fused multiply-add. It computes with
//! pairs of doubles (about 104 bits) and rounds once, so its result is the nearest double but for one
//! argument in some 2^50. glibc's `log` is the nearest double too, but for about one argument in 20,000.

use std::cell::Cell;
use std::sync::LazyLock;

/// An unevaluated sum of two doubles, the second at most half a unit in the last place of the first.
#[derive(Clone, Copy)]
struct Pair(f64, f64);

/// ln 2 to 107 bits.
const LN_2: Pair = Pair(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);

/// 1, 1/3, 1/5, …
static TERMS: LazyLock<[Pair; 22]> =
    LazyLock::new(|| std::array::from_fn(|k| quotient(1.0, Pair((2 * k + 1) as f64, 0.0))));

thread_local! {
    /// An argument and its logarithm. Filters are often made alike, and their first layers ask for the same one.
    static LAST_LOGARITHM: Cell<(f64, f64)> = const { Cell::new((1.0, 0.0)) };
}

/// `ln(x)` for a finite `x > 0`.
pub fn ln(x: f64) -> f64 {
    let (last, its_logarithm) = LAST_LOGARITHM.get();
    if x == last {
        return its_logarithm;
    }
    let logarithm = compute(x);
    LAST_LOGARITHM.set((x, logarithm));
    logarithm
}

fn compute(x: f64) -> f64 {
    let (mantissa, exponent) = split(x);
    let exponent = f64::from(exponent);
    // ln(m) = 2 artanh(s) = 2 s (1 + s²/3 + s⁴/5 + …) with s = (m - 1) / (m + 1), |s| < 0.172.
    let s = quotient(mantissa - 1.0, sum(mantissa, 1.0));
    let square = s.times(s);
    // s^2k < 2^-108 from k = 22 on.
    let terms = TERMS.iter().rev();
    let series = terms.fold(Pair(0.0, 0.0), |series, &term| series.times(square).plus(term));
    let ln_mantissa = s.times(series).times(Pair(2.0, 0.0));
    LN_2.times(Pair(exponent, 0.0)).plus(ln_mantissa).0
}

/// Splits `x` into a number between 0.707 and 1.415 and a power of two.
fn split(x: f64) -> (f64, i32) {
    const SCALE: i32 = 54;
    if x < f64::MIN_POSITIVE {
        let (mantissa, exponent) = split_normal(x * (1u64 << SCALE) as f64);
        return (mantissa, exponent - SCALE);
    }
    split_normal(x)
}

fn split_normal(x: f64) -> (f64, i32) {
    let exponent = (x.to_bits() >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(x.to_bits() & (u64::MAX >> 12) | 1f64.to_bits());
    if mantissa > std::f64::consts::SQRT_2 {
        (mantissa / 2.0, exponent + 1)
    } else {
        (mantissa, exponent)
    }
}

/// `a + b`, exactly (Knuth).
fn sum(a: f64, b: f64) -> Pair {
    let high = a + b;
    let b_part = high - a;
    Pair(high, (a - (high - b_part)) + (b - b_part))
}

/// `a · b`, exactly.
fn product(a: f64, b: f64) -> Pair {
    let high = a * b;
    Pair(high, a.mul_add(b, -high))
}

/// `a / b`.
fn quotient(a: f64, b: Pair) -> Pair {
    let high = a / b.0;
    let rest = (-high).mul_add(b.0, a) - high * b.1;
    sum(high, rest / b.0)
}

impl Pair {
    fn plus(self, other: Self) -> Self {
        let high = sum(self.0, other.0);
        let low = sum(self.1, other.1);
        let first = sum(high.0, high.1 + low.0);
        sum(first.0, first.1 + low.1)
    }

    fn times(self, other: Self) -> Self {
        let high = product(self.0, other.0);
        sum(high.0, high.1 + (self.0 * other.1 + self.1 * other.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A replica of another version grows the same layers as its primary. The values are nearest doubles, computed with
    /// 60 decimal digits.
    #[test]
    fn logarithms_are_pinned() {
        let pinned: &[(f64, u64)] = &[
            (0.25, 0xbff6_2e42_fefa_39ef),
            (0.125, 0xc000_a2b2_3f3b_ab73),
            (0.1, 0xc002_6bb1_bbb5_5515),
            (0.05, 0xc007_f742_7b73_e391),
            (0.02, 0xc00f_4bd2_b7ac_1baf),
            (0.01, 0xc012_6bb1_bbb5_5515),
            (0.005, 0xc015_317a_1b94_9c53),
            (0.0025, 0xc017_f742_7b73_e391),
            (0.001, 0xc01b_a18a_998f_ffa0),
            (0.0005, 0xc01e_6752_f96f_46de),
            (1e-4, 0xc022_6bb1_bbb5_5515),
            (5e-8, 0xc030_cfad_9c36_7c42),
            (1.5625e-5, 0xc026_221e_6c65_d58a),
            (2.34375e-9, 0xc033_df1b_845a_96ef),
            (1e-30, 0xc051_44f6_9ff9_ffc4),
            (0.99, 0xbf84_9545_3e6f_d4bc),
            (0.9999999999999999, 0xbca0_0000_0000_0000),
            (0.7, 0xbfd6_d3c3_24e1_3f50),
            (0.5, 0xbfe6_2e42_fefa_39ef),
            (5e-324, 0xc087_4385_446d_71c3),
            (2.2250738585072014e-308, 0xc086_232b_dd7a_bcd2),
            (0.7071067811865475, 0xbfd6_2e42_fefa_39f1),
            (0.7071067811865477, 0xbfd6_2e42_fefa_39eb),
        ];
        for &(x, expected) in pinned {
            assert_eq!(ln(x), f64::from_bits(expected), "ln({x:e})");
        }
    }

    /// Filters have as many probes as RedisBloom's: that number is a logarithm rounded up, and for powers of two an
    /// error in the last bit would add one.
    #[test]
    fn logarithms_of_powers_of_two_are_the_library_s() {
        for halvings in 1..=1074 {
            let x = (0..halvings).fold(1.0, |x: f64, _| x / 2.0);
            assert_eq!(ln(x), x.ln(), "2^-{halvings}");
        }
    }

    proptest! {
        /// Layers have the sizes of RedisBloom's.
        #[test]
        fn logarithms_are_within_a_bit_of_the_library_s(bits in 1u64..1f64.to_bits()) {
            let x = f64::from_bits(bits);
            let (ours, theirs) = (ln(x), x.ln());
            prop_assert!(ours.to_bits().abs_diff(theirs.to_bits()) <= 1, "ln({:e}): {} and {}", x, ours, theirs);
        }
    }
}
