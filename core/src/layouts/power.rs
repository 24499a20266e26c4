//! A power that is the same on every machine, because sizes depend on its last bit.

/// `base^exponent` by repeated squaring. The order of the multiplications is fixed.
pub(crate) fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut product) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    product
}
