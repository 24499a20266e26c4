//! What a union asks of the layers of a layout.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use super::SetError;
use crate::bloom::bits::array::BitArray;
use crate::bloom::bits::kernel::Line;
use crate::bloom::blocked::sizing::power;
use crate::bloom::blocked::{self, Blocked};
use crate::bloom::chain::batch::Layer as _;
use crate::bloom::chain::{Rules, batch};
use crate::bloom::classic::{self, Classic};
use crate::bloom::params::{ErrorRate, Growth};
use crate::bloom::scattered::ln::ln;

/// How far, relatively, rounding may take the sum of rates above what it may be.
const ROUNDING: f64 = 1e-9;

/// A layer that may be combined with others of its shape.
pub(super) trait Part: batch::Layer + Sized {
    /// What two layers of one shape have in common.
    type Kind: Copy + Ord;
    /// What its bit array is made of.
    type Unit: Zeroable + NoUninit + AnyBitPattern;

    /// Its shape.
    fn kind(&self) -> Self::Kind;

    /// The bit array.
    fn bits(&self) -> &BitArray<Self::Unit>;

    /// The same, to be changed.
    fn bits_mut(&mut self) -> &mut BitArray<Self::Unit>;

    /// Counts so many items from now on.
    fn restore(&mut self, items: u64);

    /// Set bits, in the mean, of such a layer that is full.
    fn ones_when_full(&self) -> u64;

    /// Items that such a layer counts, in the mean, when so many bits are set.
    fn items_behind(&self, ones: u64) -> u64;

    /// The most bits that one item sets.
    fn bits_of_item(&self) -> u64;

    /// The rate when it is full.
    fn full_rate(&self) -> f64;

    /// Set bits.
    fn ones(&self) -> u64 {
        self.bits().ones()
    }

    /// Counts `items` from now on; whether that is another number.
    fn count(&mut self, items: u64) -> bool {
        let differs = items != self.items();
        self.restore(items);
        differs
    }
}

impl Part for blocked::Layer {
    type Kind = (u64, u64, u64, u8, u8);
    type Unit = Line;

    fn kind(&self) -> Self::Kind {
        let blocked::Shape {
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

    fn restore(&mut self, items: u64) {
        self.restore(items);
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

    fn full_rate(&self) -> f64 {
        self.shape().full_rate()
    }
}

impl Part for classic::Layer {
    type Kind = (u64, u64, u64, u64, u32, u8);
    type Unit = u64;

    fn kind(&self) -> Self::Kind {
        let shape = self.shape();
        (
            shape.capacity,
            shape.error_rate.to_bits(),
            shape.bits,
            shape.bytes,
            shape.hashes,
            shape.n2,
        )
    }

    fn bits(&self) -> &BitArray<u64> {
        self.bits()
    }

    fn bits_mut(&mut self) -> &mut BitArray<u64> {
        self.bits_mut()
    }

    fn restore(&mut self, items: u64) {
        self.restore(items);
    }

    fn ones_when_full(&self) -> u64 {
        let shape = self.shape();
        let bits = shape.modulus() as f64;
        let probes = shape.capacity.saturating_mul(shape.hashes.into());
        (bits * (1.0 - power(1.0 - 1.0 / bits, probes)) + 0.5) as u64
    }

    /// `n = ln(1 - ones / bits) / (k · ln(1 - 1 / bits))` (Swamidass, Baldi, "Mathematical Correction for Fingerprint
    /// Similarity Measures to Improve Chemical Retrieval", 2007), with `ln(1 - x)` taken for `-x` in the last one.
    fn items_behind(&self, ones: u64) -> u64 {
        let shape = self.shape();
        let bits = shape.modulus() as f64;
        let unset = 1.0 - ones as f64 / bits;
        if unset <= 0.0 {
            return u64::MAX;
        }
        (-ln(unset) * bits / f64::from(shape.hashes) + 0.5) as u64
    }

    fn bits_of_item(&self) -> u64 {
        self.shape().hashes.into()
    }

    fn full_rate(&self) -> f64 {
        self.shape().error_rate
    }
}

/// How the filters of a layout spend their rate on layers that came together.
pub(super) trait Budget: Rules<Layer: Part> + Sized {
    /// The same rules, with another rate if one is given.
    fn alike(&self, rate: Option<ErrorRate>) -> Self;

    /// Whether the rule says the same as another one.
    fn is_alike(&self, other: &Self) -> bool;

    /// Whether a filter of these rules can have layers of these rates, the oldest first.
    ///
    /// # Errors
    /// [`SetError::Rate`] or [`SetError::ClassicRate`].
    fn affords(&self, rates: &[f64]) -> Result<(), SetError>;

    /// Brings layers that came together into the order in which they stand: items go into the last one. It takes no
    /// memory, and the caller has to tell the layers their places afterwards.
    fn order(&self, layers: &mut [Self::Layer]);
}

impl Budget for Blocked {
    fn alike(&self, rate: Option<ErrorRate>) -> Self {
        Self::alike(self, rate)
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.error_rate() == other.error_rate()
    }

    /// A filter that has grown to so many layers has spent that part of its rate on them, at most.
    fn affords(&self, rates: &[f64]) -> Result<(), SetError> {
        let left = (0..rates.len()).fold(1.0, |left, index| left * (1.0 - self.growth().share(index)));
        let part = 1.0 - left;
        let sum: f64 = rates.iter().sum();
        if sum <= self.error_rate().value() * part * (1.0 + ROUNDING) {
            return Ok(());
        }
        let would_do = above(sum / part);
        Err(SetError::Rate { sum, would_do })
    }

    /// The smallest first, as in a filter that has grown: the next one grows from the largest. Of equal ones the one
    /// with most room comes last; and of all of them, where the filter may not grow.
    fn order(&self, layers: &mut [blocked::Layer]) {
        // Where the rest is equal they stay as they are. A sort that does so by itself would take memory.
        batch::Layer::start_all_at(layers, 0);
        let grows = self.growth() != Growth::Fixed;
        layers.sort_unstable_by_key(|layer| {
            let capacity = if grows { layer.capacity() } else { 0 };
            (capacity, layer.capacity() - layer.items(), layer.start())
        });
    }
}

/// A rate with three digits that is not below `rate`, if a filter can have it.
fn above(rate: f64) -> Option<ErrorRate> {
    let exponent = (0..=30).find(|&exponent| rate * 10f64.powi(exponent) >= 1.0)?;
    let digits = (rate * 10f64.powi(exponent + 2) * (1.0 - ROUNDING / 2.0)).ceil();
    // Written and read, it is the number that who repeats the command will send.
    let written = format!("{digits}e-{}", exponent + 2);
    let rounded: f64 = written.parse().ok()?;
    let rate = ErrorRate::new(rounded).ok()?;
    (rate.value() == rounded).then_some(rate)
}

impl Budget for Classic {
    fn alike(&self, _: Option<ErrorRate>) -> Self {
        *self
    }

    fn is_alike(&self, _: &Self) -> bool {
        true
    }

    /// The filter's rate is that of its first layer; one that grows spends as much as its newest layer on all that are
    /// to come. One that does not grow has one layer in RedisBloom's format, also where another's rate is so low that
    /// rounding takes it away.
    fn affords(&self, rates: &[f64]) -> Result<(), SetError> {
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

    /// The filter's own first layer stays the first: it says what the filter's rate is.
    fn order(&self, _: &mut [classic::Layer]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::chain::Plan as _;
    use crate::bloom::params::ClassicSpec;

    /// What a union counts would be off by one.
    #[test]
    fn what_classic_bits_tell_is_rounded_to_the_nearest() {
        let rules = ClassicSpec::new(0.01, 1000, 2, true).unwrap();
        let layer = Classic::new(rules).first(rules).make().unwrap();
        let (bits, probes) = (layer.shape().modulus() as f64, f64::from(layer.shape().hashes));
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

    /// Classic filters would be united beyond the rate that their layer is for, or stay side by side for nothing.
    #[test]
    fn a_full_classic_layer_has_as_many_bits_as_items_leave() {
        for (capacity, rate) in [(1, 0.2), (77, 0.01), (1000, 1e-4)] {
            let rules = ClassicSpec::new(rate, capacity, 2, true).unwrap();
            let layer = Classic::new(rules).first(rules).make().unwrap();
            let bits = layer.shape().modulus() as f64;
            let unset = (0..capacity * u64::from(layer.shape().hashes))
                .fold(1.0, |unset, _| unset * (1.0 - 1.0 / bits));
            assert_eq!(layer.ones_when_full(), (bits * (1.0 - unset)).round() as u64);
        }
    }

    /// Who repeats a refused command with the rate that its error names would be refused again, or get a looser filter
    /// than need be.
    #[test]
    fn a_rate_is_rounded_up_to_three_digits() {
        let rounded = |rate| above(rate).map(ErrorRate::value);
        for rate in [0.25, 0.1, 0.0123, 1.01e-3, 1e-29] {
            assert_eq!(rounded(rate), Some(rate));
        }
        // What only rounding took is not given away.
        assert_eq!(rounded(0.0123 * (1.0 + 0.25 * ROUNDING)), Some(0.0123));
        assert_eq!(rounded(0.0123 * (1.0 + 0.75 * ROUNDING)), Some(0.0124));
        assert_eq!(rounded(0.012_300_1), Some(0.0124));
        assert_eq!(rounded(0.012_4), Some(0.0124));
        assert_eq!(rounded(9.991e-5), Some(1e-4));
        assert_eq!(rounded(0.2501), None);
    }
}
