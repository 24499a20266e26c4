//! Unions and intersections of filters of the blocked layout.

use super::{Blocked, Layer, Shape};
use crate::bits::array::BitArray;
use crate::bits::kernel::Line;
use crate::chain::batch::Layer as _;
use crate::merging::{MergeRules, Mergeable, Mismatch, SetError};
use crate::params::{ErrorRate, Growth, ROUNDING};

impl Mergeable for Layer {
    type ShapeKey = (u64, u64, u64, u8, u8);
    type Unit = Line;

    fn shape_key(&self) -> Self::ShapeKey {
        let Shape {
            geometry,
            capacity,
            rate,
        } = self.shape();
        (
            capacity,
            rate.to_bits(),
            geometry.lines,
            geometry.lines_per_item,
            geometry.probes,
        )
    }

    fn bits(&self) -> &BitArray<Line> {
        self.bits()
    }

    fn bits_mut(&mut self) -> &mut BitArray<Line> {
        self.bits_mut()
    }

    fn set_items(&mut self, items: u64) {
        self.set_items(items);
    }

    fn ones_when_full(&self) -> u64 {
        self.shape().geometry.ones(self.capacity())
    }

    fn items_behind(&self, ones: u64) -> u64 {
        self.shape().geometry.items_behind(ones)
    }

    fn bits_of_item(&self) -> u64 {
        let geometry = self.shape().geometry;
        u64::from(geometry.lines_per_item) * u64::from(geometry.probes)
    }

    fn made_rate(&self) -> f64 {
        self.shape().rate
    }

    fn full_rate(&self) -> f64 {
        self.shape().full_rate()
    }
}

impl MergeRules for Blocked {
    fn check_hash(&self, other: &Self) -> Result<(), Mismatch> {
        let is_same = self.secret().seed() == other.secret().seed();
        is_same.then_some(()).ok_or(Mismatch::Seed)
    }

    fn check_rate(&self, _: Option<ErrorRate>) -> Result<(), SetError> {
        Ok(())
    }

    fn with_rate(&self, rate: Option<ErrorRate>) -> Self {
        Self {
            error_rate: rate.unwrap_or(self.error_rate),
            ..self.clone()
        }
    }

    fn has_same_rate(&self, other: &Self) -> bool {
        self.error_rate() == other.error_rate()
    }

    /// The sum may be at most the part of the rate that a filter with these rules spends when it grows to the same
    /// number of layers.
    fn check_rates(&self, rates: &[f64]) -> Result<(), SetError> {
        let left = (0..rates.len()).fold(1.0, |left, index| left * (1.0 - self.growth().share(index)));
        let part = 1.0 - left;
        let sum: f64 = rates.iter().sum();
        if sum <= self.error_rate().value() * part * (1.0 + ROUNDING) {
            return Ok(());
        }
        let enough = rounded_up(sum / part);
        Err(SetError::Rate { sum, enough })
    }

    /// The smallest layer comes first, as in a filter that has grown, because the next layer grows from the last. Of
    /// layers of equal size the one with the most room comes last; if the filter may not grow, the one with the most
    /// room of all comes last.
    fn order(&self, layers: &mut [Layer]) {
        // Equal layers keep their order. A stable sort would allocate memory.
        Layer::start_all_at(layers, 0);
        let grows = self.growth() != Growth::Fixed;
        layers.sort_unstable_by_key(|layer| {
            let capacity = if grows { layer.capacity() } else { 0 };
            (capacity, layer.capacity() - layer.items(), layer.start())
        });
    }
}

/// A rate with three digits that is not below `rate`, if a filter can have it.
fn rounded_up(rate: f64) -> Option<ErrorRate> {
    let exponent = (0..=30).find(|&exponent| rate * 10f64.powi(exponent) >= 1.0)?;
    let digits = (rate * 10f64.powi(exponent + 2) * (1.0 - ROUNDING / 2.0)).ceil();
    // It is formatted and parsed, because that is the number that a repeated command will contain.
    let written = format!("{digits}e-{}", exponent + 2);
    let rounded: f64 = written.parse().ok()?;
    let rate = ErrorRate::new(rounded).ok()?;
    (rate.value() == rounded).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who repeats a refused command with the rate that the error names would be refused again, or get a
    /// higher rate than necessary.
    #[test]
    fn a_rate_is_rounded_up_to_three_digits() {
        let rounded = |rate| rounded_up(rate).map(ErrorRate::value);
        for rate in [0.25, 0.1, 0.0123, 1.01e-3, 1e-29] {
            assert_eq!(rounded(rate), Some(rate));
        }
        // A difference that only rounding made is ignored.
        assert_eq!(rounded(0.0123 * (1.0 + 0.25 * ROUNDING)), Some(0.0123));
        assert_eq!(rounded(0.0123 * (1.0 + 0.75 * ROUNDING)), Some(0.0124));
        assert_eq!(rounded(0.012_300_1), Some(0.0124));
        assert_eq!(rounded(0.012_4), Some(0.0124));
        assert_eq!(rounded(9.991e-5), Some(1e-4));
        assert_eq!(rounded(0.2501), None);
    }
}
