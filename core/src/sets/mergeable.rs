//! What a union needs to know of the layers of a layout.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use super::{Mismatch, SetError};
use crate::bits::array::BitArray;
use crate::bits::kernel::Line;
use crate::blocked::sizing::power;
use crate::blocked::{self, Blocked};
use crate::chain::batch::Layer as _;
use crate::chain::{Chain, Rules, batch};
use crate::classic::{self, Classic};
use crate::layers::Layers;
use crate::params::{ErrorRate, Growth, ROUNDING};
use crate::scattered::ln::ln;

/// A layer that may be combined with others of its shape.
pub(super) trait Mergeable: batch::Layer + Sized {
    /// The shape, in a form that can be compared and sorted.
    type Kind: Copy + Ord;
    /// The unit of the layer's bit array.
    type Unit: Zeroable + NoUninit + AnyBitPattern;

    /// The layer's shape.
    fn kind(&self) -> Self::Kind;

    /// The bit array.
    fn bits(&self) -> &BitArray<Self::Unit>;

    /// The bit array, to be changed.
    fn bits_mut(&mut self) -> &mut BitArray<Self::Unit>;

    /// Sets the number of counted items.
    fn restore(&mut self, items: u64);

    /// The mean number of set bits of a full layer of this shape.
    fn ones_when_full(&self) -> u64;

    /// The mean number of items that a layer of this shape counts when `ones` bits are set.
    fn items_behind(&self, ones: u64) -> u64;

    /// The most bits that one item sets.
    fn bits_of_item(&self) -> u64;

    /// The rate that the layer was made for, as it is stored: at most [`Self::full_rate`].
    fn made_for(&self) -> f64;

    /// The rate of the layer when it is full.
    fn full_rate(&self) -> f64;

    /// Set bits.
    fn ones(&self) -> u64 {
        self.bits().ones()
    }

    /// Sets the number of counted items. Returns whether that changed the number.
    fn count(&mut self, items: u64) -> bool {
        let differs = items != self.items();
        self.restore(items);
        differs
    }
}

impl Mergeable for blocked::Layer {
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

    fn made_for(&self) -> f64 {
        self.shape().rate
    }

    fn full_rate(&self) -> f64 {
        self.shape().full_rate()
    }
}

impl Mergeable for classic::Layer {
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
    /// Similarity Measures to Improve Chemical Retrieval", 2007), with `-1 / bits` in place of `ln(1 - 1 / bits)`.
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

    fn made_for(&self) -> f64 {
        self.shape().error_rate
    }

    fn full_rate(&self) -> f64 {
        self.made_for()
    }
}

/// How the filters of a layout spend their error rate on merged layers.
pub(super) trait Budget: Rules<Layer: Mergeable> + Sized {
    /// The chain of layers, if it is of these rules.
    fn chain(layers: &Layers) -> Option<&Chain<Self>>;

    /// The chain of layers, if it is of these rules, to be changed.
    fn chain_mut(layers: &mut Layers) -> Option<&mut Chain<Self>>;

    /// Whether filters of these and of other rules have the same hash.
    ///
    /// # Errors
    /// [`Mismatch::Seed`] or [`Mismatch::HashWidth`].
    fn hashes_alike(&self, other: &Self) -> Result<(), Mismatch>;

    /// Whether a rate can be given to a filter of these rules.
    ///
    /// # Errors
    /// [`SetError::RateOfClassic`].
    fn may_have(&self, rate: Option<ErrorRate>) -> Result<(), SetError>;

    /// These rules, with another rate if one is given.
    fn alike(&self, rate: Option<ErrorRate>) -> Self;

    /// Whether the rules are equal.
    fn is_alike(&self, other: &Self) -> bool;

    /// Checks that a filter with these rules can have layers with these rates, oldest first.
    ///
    /// # Errors
    /// [`SetError::Rate`] or [`SetError::ClassicRate`].
    fn affords(&self, rates: &[f64]) -> Result<(), SetError>;

    /// Sorts merged layers: items go into the last one. It allocates nothing, and the caller must set the layers'
    /// offsets afterwards.
    fn order(&self, layers: &mut [Self::Layer]);
}

impl Budget for Blocked {
    fn chain(layers: &Layers) -> Option<&Chain<Self>> {
        match layers {
            Layers::Blocked(chain) => Some(chain),
            _ => None,
        }
    }

    fn chain_mut(layers: &mut Layers) -> Option<&mut Chain<Self>> {
        match layers {
            Layers::Blocked(chain) => Some(chain),
            _ => None,
        }
    }

    fn hashes_alike(&self, other: &Self) -> Result<(), Mismatch> {
        let is_alike = self.secret().seed() == other.secret().seed();
        is_alike.then_some(()).ok_or(Mismatch::Seed)
    }

    fn may_have(&self, _: Option<ErrorRate>) -> Result<(), SetError> {
        Ok(())
    }

    fn alike(&self, rate: Option<ErrorRate>) -> Self {
        Self::alike(self, rate)
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.error_rate() == other.error_rate()
    }

    /// The rates may sum to the part of the filter's rate that it spends when it grows to as many layers.
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

    /// The smallest layer comes first, as in a filter that has grown, because the next layer grows from the last. Of
    /// layers of equal size the one with the most room comes last; if the filter may not grow, the one with the most
    /// room of all comes last.
    fn order(&self, layers: &mut [blocked::Layer]) {
        // Equal layers keep their order. A stable sort would allocate memory.
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
    // It is formatted and parsed, because that is the number that a repeated command will contain.
    let written = format!("{digits}e-{}", exponent + 2);
    let rounded: f64 = written.parse().ok()?;
    let rate = ErrorRate::new(rounded).ok()?;
    (rate.value() == rounded).then_some(rate)
}

impl Budget for Classic {
    fn chain(layers: &Layers) -> Option<&Chain<Self>> {
        match layers {
            Layers::Classic(chain) => Some(chain),
            _ => None,
        }
    }

    fn chain_mut(layers: &mut Layers) -> Option<&mut Chain<Self>> {
        match layers {
            Layers::Classic(chain) => Some(chain),
            _ => None,
        }
    }

    fn hashes_alike(&self, other: &Self) -> Result<(), Mismatch> {
        let is_alike = self.options().hash_width() == other.options().hash_width();
        is_alike.then_some(()).ok_or(Mismatch::HashWidth)
    }

    /// A classic filter keeps its own rate, which is that of its first layer.
    fn may_have(&self, rate: Option<ErrorRate>) -> Result<(), SetError> {
        rate.map_or(Ok(()), |_| Err(SetError::RateOfClassic))
    }

    fn alike(&self, _: Option<ErrorRate>) -> Self {
        *self
    }

    fn is_alike(&self, _: &Self) -> bool {
        true
    }

    /// The filter's rate is that of its first layer. A filter that grows spends as much as its newest layer on all
    /// later ones. One that does not grow has one layer in RedisBloom's format, even if another layer's rate is so
    /// low that rounding hides it.
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

    /// The filter's own first layer stays first, because it defines the filter's rate.
    fn order(&self, _: &mut [classic::Layer]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::NewLayer as _;
    use crate::params::ClassicSpec;

    /// The count of a union would be off by one.
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

    /// Classic filters would be united beyond the rate of their layer, or stay side by side needlessly.
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

    /// A user who repeats a refused command with the rate that the error names would be refused again, or get a
    /// higher rate than necessary.
    #[test]
    fn a_rate_is_rounded_up_to_three_digits() {
        let rounded = |rate| above(rate).map(ErrorRate::value);
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
