//! Shrinking filters that were made too large, or whose newest layer is far from full: layers are folded.
//!
//! A layer that is folded by `d` is, bit for bit, the layer with the same items that was made with a `d`th of the
//! lines, or of the bits. Each layer keeps the rate that it was made for, and so does the filter.
//!
//! docs/design.md says why that is so in the blocked layout, under "Folding".
//!
//! In RedisBloom's layout a probe is a number modulo the number of bits, and `(x mod d · m) mod m = x mod m`. So the OR
//! of the `d` parts of a layer of `d · m` bits is a layer of `m` bits with the same items. RedisBloom takes it if its
//! bits are whole bytes and are as many as its capacity needs, up to rounding.
//!
//! Which factors are chosen is part of the protocol: replicas repeat BF.SHRINK, and must find the same layers.

use std::fmt;

use crate::chain::batch::Layer as _;
use crate::chain::demand::{ask, push, reserved};
use crate::chain::{Allowance, Chain, Rules, ShapeOf, UNLIMITED, sum};
use crate::error::Error;
use crate::exceptions;
use crate::filter::Filter;
use crate::layers::Layers;
use crate::layouts::blocked;
use crate::layouts::blocked::sizing::{Geometry, POISSON_FROM};
use crate::layouts::classic::{self, Classic};
use crate::layouts::scattered::ln::ln;
use crate::params::Capacity;

/// The newest layer keeps room for this many items: those that a filter is made for by default.
const LEAST_ROOM: u64 = Capacity::DEFAULT.items();

/// The most numbers that are tried as factors from each end, so that the search takes microseconds for any layer.
const MOST_TRIED: u64 = 4096;

/// The most factors that are tried for one layer.
const MOST_FACTORS: usize = 16;

/// What the search for all layers may cost, in rates of lines that are computed: some 0.02 s, which is enough for a
/// hundred layers that are far from full. The newest are judged first; those that are not judged stay as they are.
pub(crate) const MOST_COMPUTED: u64 = 1 << 15;

/// What it costs to find the items behind a layer's bits.
const COST_OF_ITEMS: u64 = 32;

/// How many numbers are tried as factors at the cost of one rate.
const TRIED_AT_ONCE: u64 = 64;

/// Why a filter cannot be shrunk. Nothing changed.
///
/// ```
/// # use libbloom::{Filter, ShrinkError, Layout};
/// let mut filter = Filter::builder(1000, 0.01).layout(Layout::Valkey).build()?;
/// assert_eq!(filter.shrink_to_fit(), Err(ShrinkError::Layout));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShrinkError {
    /// The filter has a window, whose layers shrink by expiring.
    Window,
    /// The filter has valkey-bloom's layout, where the number of bits follows from the capacity.
    Layout,
    /// There is no memory for the smaller layers, which are made before the larger ones are freed.
    Memory(Error),
}

impl fmt::Display for ShrinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window => f.write_str("filters with a window are never shrunk: their layers expire"),
            Self::Layout => f.write_str("filters of valkey-bloom's layout are never shrunk"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ShrinkError {}

impl From<Error> for ShrinkError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

impl Filter {
    /// Folds each layer to the smallest that keeps its items within its rate. Returns the bytes that were given back, 0
    /// if no layer could be folded.
    ///
    /// A layer is divided only by factors of its number of lines (in RedisBloom's layout, of bytes): one that is more
    /// than half full stays as it is, one that is more than a third full is halved. An emptier layer, down to an
    /// eightieth, ends up at most a third larger than it must be if it has 15 MB or more; smaller layers have fewer
    /// factors. The newest layer keeps room for 100 items, and a filter that may grow grows from that size.
    ///
    /// It takes a pass over the bits, and memory for the smaller layers beside the larger ones.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1_000_000, 0.01).build()?;
    /// filter.insert("ann")?;
    /// let before = filter.bytes();
    /// assert_eq!(filter.shrink_to_fit()?, before - filter.bytes());
    /// assert!(filter.bytes() < before / 2 && filter.contains("ann"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShrinkError`]; nothing changed.
    pub fn shrink_to_fit(&mut self) -> Result<u64, ShrinkError> {
        self.shrink(0, UNLIMITED)
    }

    /// [`Filter::shrink_to_fit`], with room for `capacity` items in total.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1_000_000, 0.01).fixed().build()?;
    /// filter.shrink_to(100_000)?;
    /// assert!((100_000..1_000_000).contains(&filter.totals().capacity));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShrinkError`]; nothing changed.
    pub fn shrink_to(&mut self, capacity: u64) -> Result<u64, ShrinkError> {
        self.shrink(capacity, UNLIMITED)
    }

    /// [`Filter::shrink_to`], if `allowance` permits the memory of the smaller layers.
    #[cfg_attr(docsrs, doc(hidden))]
    pub fn shrink(&mut self, capacity: u64, allowance: Allowance<'_>) -> Result<u64, ShrinkError> {
        let allowance = &exceptions::beside(self.exceptions() as usize, allowance);
        match &mut self.layers {
            Layers::Blocked(chain, _) => shrink(
                chain,
                capacity,
                allowance,
                |layer| layer.shape().geometry.items_behind(layer.ones()),
                |_, shape, items, computed| folded(shape, items, computed),
                fold,
            ),
            Layers::Classic(chain) => shrink(
                chain,
                capacity,
                allowance,
                items_behind_classic,
                folded_classic,
                fold_classic,
            ),
            Layers::Windowed(_) => Err(ShrinkError::Window),
            Layers::Valkey(_) => Err(ShrinkError::Layout),
        }
    }
}

/// [`Filter::shrink`] for layers that can be folded: `items_behind` tells how many items a layer has by its bits,
/// `folded` the smallest known shape for so many items, if it is smaller than the layer's, and `fold` makes that layer.
fn shrink<R: Rules>(
    chain: &mut Chain<R>,
    items: u64,
    allowance: Allowance<'_>,
    items_behind: impl Fn(&R::Layer) -> u64,
    folded: impl Fn(&R, ShapeOf<R>, u64, &mut u64) -> Option<ShapeOf<R>>,
    fold: impl Fn(&R::Layer, ShapeOf<R>) -> Result<R::Layer, Error>,
) -> Result<u64, ShrinkError> {
    let (layers, rules) = (chain.layers(), chain.rules());
    let older = layers
        .split_last()
        .map_or(0, |(_, older)| sum(older.iter().map(R::Layer::items)));
    let room = items.saturating_sub(older).max(LEAST_ROOM);
    let mut computed = 0;
    let mut smaller_than = |layer: &R::Layer, is_newest: bool| {
        let counted = layer.items().max(if is_newest { room } else { 1 });
        if counted >= layer.capacity() || computed >= MOST_COMPUTED {
            return None;
        }
        // The items that a layer counts may be fewer than those whose bits it has, if it was merged or loaded.
        let holds = counted.max(items_behind(layer)).min(layer.capacity());
        computed += COST_OF_ITEMS;
        folded(rules, layer.shape(), holds, &mut computed)
    };
    let newest = layers.len().saturating_sub(1);
    let mut smaller: Vec<(usize, ShapeOf<R>)> = Vec::new();
    for (index, layer) in layers.iter().enumerate().rev() {
        if let Some(shape) = smaller_than(layer, index == newest) {
            push(&mut smaller, (index, shape))?;
        }
    }
    if smaller.is_empty() {
        return Ok(0);
    }
    let freed = sum(smaller.iter().map(|&(index, _)| layers[index].bytes()));
    let new = sum(smaller.iter().map(|&(_, shape)| rules.described(shape).bytes));
    let before = R::bytes(layers.len(), chain.array_bytes(layers.len()));
    let total = before.saturating_sub(freed).saturating_add(new);
    ask(total.saturating_sub(new), total, None, allowance)?;
    let mut made: Vec<(usize, R::Layer)> = reserved(smaller.len())?;
    for &(index, shape) in &smaller {
        let mut layer = fold(&layers[index], shape)?;
        // The smaller layer's bits may tell of fewer items and so of another factor. A second command must find none.
        while let Some(shape) = smaller_than(&layer, index == newest) {
            layer = fold(&layer, shape)?;
        }
        made.push((index, layer));
    }

    // From here on nothing fails, and nothing is allocated.
    for (index, layer) in made {
        chain.layers[index] = layer;
    }
    R::Layer::start_all_at(&mut chain.layers, 0);
    let after = R::bytes(newest + 1, chain.array_bytes(newest + 1));
    Ok(before.saturating_sub(after))
}

/// The smallest shape known to which a layer of `shape` can be folded that holds `items`, 1 to its capacity, within its
/// rate; `None` if none is smaller. `computed` counts what it costs.
pub(crate) fn folded(shape: blocked::Shape, items: u64, computed: &mut u64) -> Option<blocked::Shape> {
    let lines = shape.geometry.lines;
    let fewest = part(lines, items, shape.capacity);
    *computed += cost_of_factors(lines);
    factors(lines, fewest).find_map(|by| {
        let lines = lines / by;
        let geometry = Geometry {
            lines,
            ..shape.geometry
        };
        let (most, rate) = (shape.capacity / by, shape.rate);
        let rounded = rate * (1.0 + rounding(geometry, most));
        let (capacity, rate) = if most >= items && geometry.keeps_counting(most, rounded, computed) {
            (most, rate)
        } else {
            // A capacity that is a thousandth smaller is tried before the smallest one.
            let mut capacities = [most - most / 1024, items]
                .map(|capacity| capacity.max(items))
                .into_iter();
            let capacity = capacities.find(|&capacity| geometry.keeps_counting(capacity, rate, computed))?;
            (capacity, geometry.rate(capacity))
        };
        Some(blocked::Shape {
            geometry,
            capacity,
            rate,
        })
    })
}

/// The most that rounding adds to the rate of a layer for `capacity` items, as a part of the rate. The items that a
/// layer meets are rounded up to a whole number, and its rate rises at most with the `k · g`th power of that number.
/// Below [`POISSON_FROM`] items nothing is allowed for: there the rate depends on the number of lines in other ways.
fn rounding(geometry: Geometry, capacity: u64) -> f64 {
    let bits = f64::from(geometry.probes) * f64::from(geometry.lines_per_item);
    if capacity < POISSON_FROM {
        0.0
    } else {
        2.0 * bits / capacity as f64
    }
}

/// The layer of this shape with the items of `layer`.
pub(crate) fn fold(layer: &blocked::Layer, shape: blocked::Shape) -> Result<blocked::Layer, Error> {
    let mut folded = blocked::Layer::make(shape)?;
    folded.bits.fold_neighbours(layer.bits());
    // Each item that a layer counts has set a bit.
    folded.items = layer.items().min(folded.ones());
    Ok(folded)
}

/// [`folded`] in RedisBloom's layout.
pub(crate) fn folded_classic(
    rules: &Classic,
    shape: classic::Shape,
    items: u64,
    computed: &mut u64,
) -> Option<classic::Shape> {
    let bits = shape.modulus();
    if bits != shape.bytes.checked_mul(8)? {
        return None;
    }
    let fewest = part(shape.bytes, items, shape.capacity);
    *computed += cost_of_factors(shape.bytes);
    factors(shape.bytes, fewest).find_map(|by| {
        let bits = bits / by;
        let folded = classic::Shape {
            capacity: (bits as f64 / shape.bits_per_item) as u64,
            bits,
            bytes: bits / 8,
            n2: if shape.n2 > 0 { bits.ilog2() as u8 } else { 0 },
            ..shape
        };
        let fits = folded.capacity >= items && folded.check(rules.options()).is_ok();
        fits.then_some(folded)
    })
}

/// [`fold`] in RedisBloom's layout.
fn fold_classic(layer: &classic::Layer, shape: classic::Shape) -> Result<classic::Layer, Error> {
    let mut folded = classic::Layer::make(shape)?;
    folded.words.fold_parts(layer.array(), shape.bytes as usize);
    folded.items = layer.items().min(folded.ones());
    Ok(folded)
}

/// `n = ln(1 - ones / bits) / (k · ln(1 - 1 / bits))` (Swamidass, Baldi, "Mathematical Correction for Fingerprint
/// Similarity Measures to Improve Chemical Retrieval", 2007), with `-1 / bits` in place of `ln(1 - 1 / bits)`.
fn items_behind_classic(layer: &classic::Layer) -> u64 {
    let (shape, ones) = (layer.shape(), layer.ones());
    let bits = shape.modulus() as f64;
    let unset = 1.0 - ones as f64 / bits;
    if unset <= 0.0 {
        return u64::MAX;
    }
    (-ln(unset) * bits / f64::from(shape.probes) + 0.5) as u64
}

/// `whole · part / of`, rounded down, and 1 or more.
fn part(whole: u64, part: u64, of: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part);
    u64::try_from(product / u128::from(of.max(1)))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Factors of `number`, the largest first, that leave `least` or more when it is divided by them. Of factors above
/// [`MOST_TRIED`], only those with the smallest quotients are found.
fn factors(number: u64, least: u64) -> impl Iterator<Item = u64> {
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

/// What it costs to search the factors of `number`, in rates.
fn cost_of_factors(number: u64) -> u64 {
    number.min(2 * MOST_TRIED) / TRIED_AT_ONCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::blocked::sizing::SMOOTH;

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

    /// Filters would stay larger than they must be, or the search would take seconds.
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

    /// A shrunk filter that was merged would be folded beyond what its bits say.
    #[test]
    fn what_classic_bits_tell_is_rounded_to_the_nearest() {
        use crate::spec::ClassicSpec;
        let spec = ClassicSpec::new(0.01, 1000, 2, true).unwrap();
        let shape = spec.start().1;
        let mut layer = classic::Layer::make(shape).unwrap();
        for ones in 1..=shape.modulus() {
            layer.words.count_set(1);
            let bits = shape.modulus() as f64;
            let expected = -(1.0 - ones as f64 / bits).ln() * bits / f64::from(shape.probes);
            let expected = if ones == shape.modulus() {
                u64::MAX
            } else {
                expected.round() as u64
            };
            assert_eq!(items_behind_classic(&layer), expected, "{ones} of {bits}");
        }
    }
}
