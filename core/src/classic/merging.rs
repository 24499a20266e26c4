//! Unions and intersections of filters of RedisBloom's layout.

use super::{Classic, Layer};
use crate::bits::array::BitArray;
use crate::merging::{MergeRules, Mergeable, Mismatch, SetError};
use crate::params::{ErrorRate, ROUNDING};
use crate::power::power;
use crate::scattered::ln::ln;

impl Mergeable for Layer {
    type ShapeKey = (u64, u64, u64, u64, u32, u8);
    type Unit = u64;

    fn shape_key(&self) -> Self::ShapeKey {
        let shape = self.shape();
        (
            shape.capacity,
            shape.error_rate.to_bits(),
            shape.bits,
            shape.bytes,
            shape.probes,
            shape.n2,
        )
    }

    fn bits(&self) -> &BitArray<u64> {
        self.bits()
    }

    fn bits_mut(&mut self) -> &mut BitArray<u64> {
        self.bits_mut()
    }

    fn set_items(&mut self, items: u64) {
        self.set_items(items);
    }

    fn ones_when_full(&self) -> u64 {
        let shape = self.shape();
        let bits = shape.modulus() as f64;
        let probes = shape.capacity.saturating_mul(shape.probes.into());
        (bits * (1.0 - power(1.0 - 1.0 / bits, probes)) + 0.5) as u64
    }

    /// `n = ln(1 - ones / bits) / (k · ln(1 - 1 / bits))` (Swamidass, Baldi, "Mathematical Correction for Fingerprint
    /// Similarity Measures to Improve Chemical Retrieval", 2007), with `-1 / bits` in place of `ln(1 - 1 / bits)`.
    fn items_behind(&self, ones: u64) -> u64 {
        let shape = self.shape();
        let bits = shape.modulus() as f64;
        let unset = 1.0 - ones as f64 / bits;
        if unset <= 0.0 {
            return u64::MAX;
        }
        (-ln(unset) * bits / f64::from(shape.probes) + 0.5) as u64
    }

    fn bits_of_item(&self) -> u64 {
        self.shape().probes.into()
    }

    fn made_rate(&self) -> f64 {
        self.shape().error_rate
    }

    fn full_rate(&self) -> f64 {
        self.made_rate()
    }
}

impl MergeRules for Classic {
    fn check_hash(&self, other: &Self) -> Result<(), Mismatch> {
        let is_same = self.options().hash_width() == other.options().hash_width();
        is_same.then_some(()).ok_or(Mismatch::HashWidth)
    }

    /// A classic filter stores no rate of its own: it follows from that of its first layer.
    fn check_rate(&self, rate: Option<ErrorRate>) -> Result<(), SetError> {
        rate.map_or(Ok(()), |_| Err(SetError::RateOfClassic))
    }

    fn with_rate(&self, _: Option<ErrorRate>) -> Self {
        *self
    }

    fn has_same_rate(&self, _: &Self) -> bool {
        true
    }

    /// The filter's rate is that of its first layer, or twice that if it grows. A filter that grows spends as much as
    /// its newest layer on all later ones. One that does not grow has one layer in RedisBloom's format, even if another
    /// layer's rate is so low that rounding hides it.
    fn check_rates(&self, rates: &[f64]) -> Result<(), SetError> {
        let (Some(first), Some(newest)) = (rates.first(), rates.last()) else {
            return Ok(());
        };
        let rate = first / self.first_share();
        let to_come = if self.scales() { *newest } else { 0.0 };
        let sum = rates.iter().sum::<f64>() + to_come;
        let may_be_stored = self.scales() || rates.len() == 1;
        if may_be_stored && sum <= rate * (1.0 + ROUNDING) {
            Ok(())
        } else {
            Err(SetError::ClassicRate { sum, rate })
        }
    }

    /// The filter's own first layer stays first, because it defines the filter's rate.
    fn order(&self, _: &mut [Layer]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{NewLayer as _, Rules as _};
    use crate::spec::ClassicSpec;

    /// The count of a union would be off by one.
    #[test]
    fn what_classic_bits_tell_is_rounded_to_the_nearest() {
        let spec = ClassicSpec::new(0.01, 1000, 2, true).unwrap();
        let layer = Classic::start(spec).1.make().unwrap();
        let (bits, probes) = (layer.shape().modulus() as f64, f64::from(layer.shape().probes));
        for ones in 0..layer.shape().modulus() {
            let expected = -(1.0 - ones as f64 / bits).ln() * bits / probes;
            assert_eq!(
                layer.items_behind(ones),
                expected.round() as u64,
                "{ones} of {bits}"
            );
        }
        assert_eq!(layer.items_behind(layer.shape().modulus()), u64::MAX);
    }

    /// Classic filters would be united beyond the rate of their layer, or stay side by side needlessly.
    #[test]
    fn a_full_classic_layer_has_as_many_bits_as_items_leave() {
        for (capacity, rate) in [(1, 0.2), (77, 0.01), (1000, 1e-4)] {
            let spec = ClassicSpec::new(rate, capacity, 2, true).unwrap();
            let layer = Classic::start(spec).1.make().unwrap();
            let bits = layer.shape().modulus() as f64;
            let unset = (0..capacity * u64::from(layer.shape().probes))
                .fold(1.0, |unset, _| unset * (1.0 - 1.0 / bits));
            assert_eq!(layer.ones_when_full(), (bits * (1.0 - unset)).round() as u64);
        }
    }
}
