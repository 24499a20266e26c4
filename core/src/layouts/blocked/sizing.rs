//! How large a blocked layer must be, and what false positive rate it has at a given fill.
//!
//! # The rate of one line
//! An item sets `k` bits in a line of 8 words of 64 bits: one bit each in `k` cyclically consecutive words
//! from a uniform start. A query is covered when each of its `k` bits is set. By inclusion-exclusion over the
//! subsets `S` of the query's words, with `a(S)` the chance that one item leaves all of the query's bits in
//! `S` unset (the mean over the item's 8 starts of `(63/64)^(words of S it sets a bit in)`), and `L` items in
//! the line:
//!
//! ```text
//! q = Σ_S (-1)^|S| · E[a(S)^L]
//! ```
//!
//! `n` items choose among `lines` lines, so `L` is binomial and `E[a^L] = (1 - (1-a)/lines)^n`; for large `n`
//! it is Poisson of mean λ = n/lines and `E[a^L] = exp(-λ(1-a))`. An item has `g` lines, each in a partition
//! of its own, all of which must cover it: the layer's rate is `q^g`. (Blocked filters: Putze, Sanders,
//! Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007.)
//!
//! # Items counted and items met
//! A layer counts the items that changed it. While it fills, some new items find all their bits set already
//! and are not counted. So a layer that counts `n` items has met more: it holds the bits of
//! `n / (1 - mean rate while filling)` different items. Sizes and rates here are for that number.
//!
//! # Identical everywhere
//! A replica must grow the same layer as its primary, so nothing here calls libm: only `+ - * /` on f64,
//! which IEEE 754 defines to the last bit.

use crate::bits::kernel::{LINE_BYTES, LINE_WORDS};
use crate::layouts::power::power;
use crate::params::ErrorRate;

/// The most lines that an item can have.
pub const MAX_LINES_PER_ITEM: u8 = 16;
/// The fewest and the most probes in a line.
pub const PROBES: std::ops::RangeInclusive<u8> = 2..=8;

/// Numbers that have many factors. Of 240 and above, each factor from 3 to a third of the number is at most a third
/// larger than the one before it.
pub(crate) const SMOOTH: [u64; 7] = [720_720, 5040, 720, 240, 48, 12, 4];
/// Up to this capacity every `(g, k)` is tried for the fewest lines, because rounding to whole lines matters
/// there.
const SEARCH_ALL_UP_TO: u64 = 4096;
/// From this many items on, the load of a line is Poisson to within the precision of the rate.
pub(crate) const POISSON_FROM: u64 = 100_000;
/// Limits the iterations that compute the number of items met. Up to a rate of 0.25 each step is at most a
/// fifth of the one before it, so that 28 of them lead to any number; only a layer so overfull that its rate
/// is near 1 would need more.
const MOST_STEPS: usize = 32;
/// The iterations that compute the number of items met where the rate is only reported, and no layer is sized
/// by it. They miss fewer than 1 in 600 of the items that were met and not counted.
const STEPS_OF_ESTIMATE: usize = 5;
/// Points between empty (0) and full (1) at which the rate is sampled for its mean while filling: two in each
/// eighth, by Gauss-Legendre quadrature. As many evenly spaced points would be short by 2 in 100,000 items.
const MEAN_POINTS: [f64; 16] = {
    let mut points = [0.0; 16];
    let mut at = 0;
    while at < points.len() {
        let centre = (at / 2 * 2 + 1) as f64;
        let off = if at % 2 == 0 {
            -INVERSE_ROOT_OF_3
        } else {
            INVERSE_ROOT_OF_3
        };
        points[at] = (centre + off) / 16.0;
        at += 1;
    }
    points
};
const INVERSE_ROOT_OF_3: f64 = 0.577_350_269_189_625_8;

/// The lines and probes of a blocked layer's bit array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// `g`, the lines that an item has, `1..=MAX_LINES_PER_ITEM`, each in a partition of its own.
    pub lines_per_item: u8,
    /// `k`, the bits that an item sets in each of its lines, in [`PROBES`].
    pub probes: u8,
    /// Lines in each of the `g` partitions.
    pub lines: u64,
}

impl Geometry {
    /// The smallest geometry known for `capacity` items at `rate`. The capacity may be that of a grown layer.
    pub fn for_layer(capacity: u64, rate: f64) -> Self {
        // A share of a budget can be below the lowest rate of a filter; the 10,000th layer gets 1e-12 of it.
        let rate = rate.max(ErrorRate::LOWEST_USED * 1e-15);
        let lines_per_item = usual_lines_per_item(rate);
        let probes = usual_probes(rate, lines_per_item);
        if capacity > SEARCH_ALL_UP_TO {
            let fewest = fewest_lines(capacity, rate, lines_per_item, probes);
            return Self {
                lines_per_item,
                probes,
                lines: divisible(fewest),
            };
        }
        let mut best = Self {
            lines_per_item,
            probes,
            lines: fewest_lines(capacity, rate, lines_per_item, probes),
        };
        for lines_per_item in 1..=MAX_LINES_PER_ITEM.min(lines_per_item + 2) {
            for probes in PROBES {
                let fewer = (best.total_lines() - 1) / u64::from(lines_per_item);
                let candidate = Self {
                    lines_per_item,
                    probes,
                    lines: fewer,
                };
                if fewer > 0 && candidate.keeps(capacity, rate) {
                    let lines = first_true(1, fewer, |lines| {
                        Self { lines, ..candidate }.keeps(capacity, rate)
                    });
                    best = Self { lines, ..candidate };
                }
            }
        }
        best
    }

    /// Lines in all partitions; saturating.
    pub fn total_lines(self) -> u64 {
        self.lines.saturating_mul(u64::from(self.lines_per_item))
    }

    /// Bytes of the bit array; saturating.
    pub fn bytes(self) -> u64 {
        self.total_lines().saturating_mul(LINE_BYTES)
    }

    /// The false positive rate of a layer that counts `items`.
    pub fn rate(self, items: u64) -> f64 {
        self.rate_of_met(self.items_met(items))
    }

    /// [`Self::rate`] to within a thousandth, for a bounded number of computations: a stored layer may have
    /// any shape, and count any number of items.
    pub fn estimated_rate(self, items: u64) -> f64 {
        let met = self.approaching_items_met(items).take(STEPS_OF_ESTIMATE).last();
        self.rate_of_met(met.unwrap_or(items))
    }

    /// The false positive rate after `met` different items, counted or not.
    fn rate_of_met(self, met: u64) -> f64 {
        power(
            line_rate(self.probes, self.load(met)),
            u64::from(self.lines_per_item),
        )
    }

    /// The different items that a layer has met when it counts `counted`; a huge number if it can never count
    /// that many.
    fn items_met(self, counted: u64) -> u64 {
        self.approaching_items_met(counted).last().unwrap_or(counted)
    }

    /// Rising approximations of the items that a layer has met when it counts `counted`. The mean rate
    /// depends on the result, so each approximation is computed with the mean rate of the one before it.
    fn approaching_items_met(self, counted: u64) -> impl Iterator<Item = u64> {
        let next = move |&met: &u64| {
            let next = divide_up(counted, 1.0 - self.mean_rate(met));
            (next > met).then_some(next)
        };
        std::iter::successors(Some(counted), next).take(MOST_STEPS)
    }

    /// The mean rate while an empty layer meets `met` different items.
    fn mean_rate(self, met: u64) -> f64 {
        mean(|part| self.rate_of_met((met as f64 * part) as u64))
    }

    /// The mean number of items that a layer counts when `ones` of its bits are set. If all bits are set, the result is far above any capacity that the layer could have.
    pub fn items_behind(self, ones: u64) -> u64 {
        let bits = self.bytes().saturating_mul(8);
        let most = bits.saturating_mul(64);
        let met = first_true(0, most, |met| self.ones_of_met(met) >= ones);
        let counted = met as f64 * (1.0 - self.mean_rate(met));
        (counted + 0.5) as u64
    }

    /// The mean number of set bits after `met` different items. An item sets each bit of one of its lines
    /// with probability `k / 512`.
    fn ones_of_met(self, met: u64) -> u64 {
        let bits = self.bytes() as f64 * 8.0;
        let hit = f64::from(self.probes) / (LINE_BYTES as f64 * 8.0) / self.lines as f64;
        let unset = if met < POISSON_FROM {
            power(1.0 - hit, met)
        } else {
            exp_of_minus(met as f64 * hit)
        };
        (bits * (1.0 - unset) + 0.5) as u64
    }

    fn load(self, met: u64) -> Load {
        if met < POISSON_FROM {
            Load::Binomial {
                items: met,
                lines: self.lines,
            }
        } else {
            Load::Poisson {
                mean: met as f64 / self.lines as f64,
            }
        }
    }

    fn keeps(self, capacity: u64, rate: f64) -> bool {
        self.keeps_counting(capacity, rate, &mut 0)
    }

    /// Whether a layer that counts `capacity` items is within `rate`. Adds to `computed` for how many loads the rate of a
    /// line was computed.
    pub(crate) fn keeps_counting(self, capacity: u64, rate: f64, computed: &mut u64) -> bool {
        // The rate rises with every step, so most geometries that are too small fail at one of the first.
        self.approaching_items_met(capacity).all(|met| {
            *computed += 1 + MEAN_POINTS.len() as u64;
            self.rate_of_met(met) <= rate
        })
    }
}

/// `g`: one line while that is cheap, else the fewest with a line rate of 0.008 or more. One more line would
/// save 1 to 2 % of memory, but cost time and one more page of copy-on-write for each item.
fn usual_lines_per_item(rate: f64) -> u8 {
    if rate >= 0.004 {
        return 1;
    }
    (2..MAX_LINES_PER_ITEM)
        .find(|&g| power(0.008, u64::from(g)) <= rate)
        .unwrap_or(MAX_LINES_PER_ITEM)
}

/// `k`: the best number of probes for a line rate of `rate^(1/g)`. The limits are where the sizes for `k` and
/// `k + 1` cross.
fn usual_probes(rate: f64, lines_per_item: u8) -> u8 {
    let crossings = [0.185, 0.085, 0.045, 0.0205, 0.0092, 0.0035];
    let below = crossings
        .iter()
        .filter(|&&crossing| rate <= power(crossing, u64::from(lines_per_item)));
    2 + below.count() as u8
}

/// A number of lines of which a layer can be folded by many factors, if it costs at most a thousandth more than
/// `lines`.
fn divisible(lines: u64) -> u64 {
    let [_, factors @ ..] = SMOOTH;
    let factor = factors.into_iter().find(|factor| factor * 1000 <= lines);
    let round = factor.and_then(|factor| lines.checked_next_multiple_of(factor));
    round.unwrap_or(lines)
}

/// The fewest lines in each partition with which `capacity` counted items are within `rate`.
fn fewest_lines(capacity: u64, rate: f64, lines_per_item: u8, probes: u8) -> u64 {
    let geometry = |lines| Geometry {
        lines_per_item,
        probes,
        lines,
    };
    let highest = highest_mean_load(rate, lines_per_item, probes);
    // With the Poisson distribution, the mean rate while filling depends on the load alone, not on the number
    // of lines.
    let mean_rate = mean(|part| {
        let mean = highest * part;
        power(
            line_rate(probes, Load::Poisson { mean }),
            u64::from(lines_per_item),
        )
    });
    let poisson = divide_up(divide_up(capacity, 1.0 - mean_rate), highest).max(1);
    if capacity >= POISSON_FROM {
        return poisson;
    }
    let mut enough = poisson;
    while !geometry(enough).keeps(capacity, rate) {
        enough += enough / 64 + 1;
    }
    let mut too_few = enough;
    while too_few > 0 && geometry(too_few).keeps(capacity, rate) {
        enough = too_few;
        too_few -= (too_few / 64 + 1).min(too_few);
    }
    first_true(too_few + 1, enough, |lines| geometry(lines).keeps(capacity, rate))
}

/// The mean of a layer's rate while it fills, from empty to full.
fn mean(rate_at: impl Fn(f64) -> f64) -> f64 {
    MEAN_POINTS.map(rate_at).iter().sum::<f64>() / MEAN_POINTS.len() as f64
}

/// The highest mean number of items in a line (λ, Poisson) at which the layer's rate is at most `rate`.
fn highest_mean_load(rate: f64, lines_per_item: u8, probes: u8) -> f64 {
    let (mut low, mut high) = (0.0, 1024.0);
    for _ in 0..64 {
        let mean = (low + high) / 2.0;
        if power(
            line_rate(probes, Load::Poisson { mean }),
            u64::from(lines_per_item),
        ) <= rate
        {
            low = mean;
        } else {
            high = mean;
        }
    }
    low
}

/// The smallest value in `low..=high` for which `holds` is true. It must be true for `high`, and stay true
/// once it is.
fn first_true(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

/// The distribution of the number of items in a line.
#[derive(Clone, Copy)]
enum Load {
    /// `items` items that choose uniformly among `lines` lines.
    Binomial { items: u64, lines: u64 },
    /// The limit for many lines, with `mean` items in each.
    Poisson { mean: f64 },
}

/// `q`: the chance that a line with this load covers the `probes` bits of an item that is not in it.
fn line_rate(probes: u8, load: Load) -> f64 {
    #[cfg(test)]
    crate::tests::work::add(crate::tests::work::Work::LineRates, 1);
    let terms = &TERMS[usize::from(probes)];
    let sum: f64 = match load {
        Load::Binomial { items, lines } => {
            let part = 1.0 / lines as f64;
            terms
                .iter()
                .map(|term| term.count * power(1.0 - term.hit * part, items))
                .sum()
        }
        Load::Poisson { mean } => terms
            .iter()
            .map(|term| term.count * exp_of_minus(mean * term.hit))
            .sum(),
    };
    sum.clamp(0.0, 1.0)
}

/// All subsets `S` of a query's words that have the same `a(S)` and the same sign in the sum for `q`.
#[derive(Clone, Copy)]
struct Term {
    /// Number of these subsets, with their sign.
    count: f64,
    /// `1 - a(S)`.
    hit: f64,
}

/// The most distinct values of `a(S)` for any number of probes.
const MAX_TERMS: usize = 16;

/// The terms for each number of probes; unused ones have the count 0.
static TERMS: [[Term; MAX_TERMS]; LINE_WORDS + 1] = {
    let mut all = [[Term { count: 0.0, hit: 0.0 }; MAX_TERMS]; LINE_WORDS + 1];
    let mut probes = 0;
    while probes <= LINE_WORDS {
        all[probes] = terms(probes);
        probes += 1;
    }
    all
};

/// Groups the subsets of a query's `probes` words. By symmetry the query may start at word 0.
const fn terms(probes: usize) -> [Term; MAX_TERMS] {
    // a(S) in units of 2^-51, exactly: the mean of 8 values 63^c · 64^(8-c) in units of 2^-48.
    const ONE: u64 = 1 << 51;
    let mut misses = [0; MAX_TERMS];
    let mut terms = [Term { count: 0.0, hit: 0.0 }; MAX_TERMS];
    let mut found = 0;
    let mut subset: u32 = 0;
    while subset < 1 << probes {
        let mut miss = 0;
        let mut start = 0;
        while start < LINE_WORDS {
            let mut unset: u64 = 1;
            let mut word = 0;
            while word < LINE_WORDS {
                let set_by_item = (word + LINE_WORDS - start) % LINE_WORDS < probes;
                let in_subset = subset >> word & 1 == 1;
                unset *= if set_by_item && in_subset { 63 } else { 64 };
                word += 1;
            }
            miss += unset;
            start += 1;
        }
        let mut at = 0;
        while at < found && misses[at] != miss {
            at += 1;
        }
        if at == found {
            found += 1;
        }
        misses[at] = miss;
        terms[at].count += if subset.count_ones().is_multiple_of(2) {
            1.0
        } else {
            -1.0
        };
        terms[at].hit = (ONE - miss) as f64 / ONE as f64;
        subset += 1;
    }
    terms
}

/// `e^-x` for `x >= 0`: halved to at most 1/8, a Taylor polynomial of degree 9, squared back.
fn exp_of_minus(x: f64) -> f64 {
    let (mut x, mut halvings) = (x, 0);
    while x > 0.125 {
        x *= 0.5;
        halvings += 1;
    }
    let mut sum = 1.0;
    for degree in (1..=9u32).rev() {
        sum = 1.0 - sum * x / f64::from(degree);
    }
    for _ in 0..halvings {
        sum *= sum;
    }
    sum
}

/// `items / by`, rounded up; saturating.
fn divide_up(items: u64, by: f64) -> u64 {
    let quotient = items as f64 / by;
    let floor = quotient as u64;
    if (floor as f64) < quotient {
        floor.saturating_add(1)
    } else {
        floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BF.INFO would tell another rate of a filter that is not full than the one that it has.
    #[test]
    fn estimates_are_the_rate_to_within_a_thousandth() {
        for (capacity, rate) in [
            (1, 0.25),
            (100, 0.25),
            (10_000, 0.2),
            (1 << 30, 0.25),
            (5000, 1e-6),
        ] {
            let geometry = Geometry::for_layer(capacity, rate);
            for part in 0..=8 {
                let items = capacity * part / 8;
                let (rate, estimate) = (geometry.rate(items), geometry.estimated_rate(items));
                assert!(
                    estimate <= rate && estimate >= 0.999 * rate,
                    "{capacity}: {rate}, {estimate}"
                );
            }
        }
    }

    /// A replica, or a newer version, grows the same layer as its primary: the sizes are part of the format.
    #[test]
    fn geometries_are_pinned() {
        let pinned: [(u64, f64, [u64; 3]); 36] = [
            (1, 0.25, [1, 2, 1]),
            (100, 0.25, [1, 2, 1]),
            (1000, 0.25, [1, 2, 7]),
            (1_000_000, 0.25, [1, 2, 6280]),
            (4096, 0.1, [2, 2, 20]),
            (4097, 0.1, [1, 3, 41]),
            (1_000_000, 0.1, [1, 3, 9784]),
            (1, 0.01, [1, 6, 1]),
            (100, 0.01, [1, 6, 2]),
            (1000, 0.01, [1, 6, 20]),
            (4096, 0.01, [2, 3, 39]),
            (99_999, 0.01, [1, 6, 1944]),
            (100_000, 0.01, [1, 6, 1944]),
            (1_000_000, 0.01, [1, 6, 19_440]),
            (1 << 40, 0.01, [1, 6, 21_372_029_280]),
            (3_000_000, 0.02, [1, 6, 49_248]),
            (87_645, 0.25, [1, 2, 551]),
            (1797, 0.225, [1, 2, 13]),
            (2931, 0.2, [1, 2, 22]),
            (80_000, 0.008, [1, 7, 1636]),
            (100, 0.0025, [1, 5, 3]),
            (10_000, 0.0025, [2, 4, 124]),
            (1000, 0.001, [2, 5, 15]),
            (1_000_000, 0.001, [2, 5, 14_328]),
            (10_000, 1e-4, [2, 6, 195]),
            (10_000_000_000, 1e-4, [2, 6, 194_014_800]),
            (1, 1e-6, [1, 3, 1]),
            (10_000, 1e-6, [3, 6, 195]),
            (1_000_000, 1e-6, [3, 6, 19_404]),
            (1000, 1e-8, [6, 4, 13]),
            (1_000_000, 1e-8, [4, 6, 19_404]),
            (2, 1e-30, [3, 7, 1]),
            (1_000_000, 1e-30, [15, 6, 19_404]),
            // One line fewer than the Poisson distribution would give.
            (51, 0.01, [1, 6, 1]),
            (1752, 0.25, [1, 2, 11]),
            (98_712, 1e-5, [3, 5, 1580]),
        ];
        for (capacity, rate, [lines_per_item, probes, lines]) in pinned {
            let expected = Geometry {
                lines_per_item: lines_per_item as u8,
                probes: probes as u8,
                lines,
            };
            assert_eq!(
                Geometry::for_layer(capacity, rate),
                expected,
                "({capacity}, {rate})"
            );
        }
    }

    /// Sizes are computed from these values, to the last bit, so that a replica grows the same layer as its primary.
    #[test]
    fn exponentials_are_pinned() {
        let pinned = [
            (0.0, 1.0),
            (0.125, 0.882_496_902_584_595_1),
            (1.0, 0.367_879_441_171_441_2),
        ];
        for (x, expected) in pinned {
            assert_eq!(exp_of_minus(x), expected, "{x}");
        }
    }

    /// `BF.MERGE` counts the items of a union by its set bits: few items set all bits that each of them has.
    #[test]
    fn few_items_set_what_each_of_them_sets() {
        let one = |probes, lines| Geometry {
            lines_per_item: 1,
            probes,
            lines,
        };
        assert_eq!([0, 1, 2].map(|met| one(6, 1).ones_of_met(met)), [0, 6, 12]);
        assert_eq!(one(8, 2).ones_of_met(100), 557);
    }

    /// A filter keeps the rate that its user chose, and wastes no lines.
    #[test]
    fn rates_at_capacity_are_just_within_the_target() {
        for rate in [
            0.25, 0.2, 0.1, 0.05, 0.01, 0.004, 0.0039, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-12, 1e-30,
        ] {
            for capacity in [
                1,
                7,
                100,
                1000,
                4096,
                4097,
                20_000,
                99_999,
                100_000,
                1_000_000,
                1 << 40,
            ] {
                let geometry = Geometry::for_layer(capacity, rate);
                let at_capacity = geometry.rate(capacity);
                // Above POISSON_FROM the lines come from a bisected load: within rounding of the target.
                assert!(
                    at_capacity <= rate * (1.0 + 1e-9),
                    "({capacity}, {rate}): {at_capacity}"
                );
                let step = match geometry.lines {
                    48_000.. => 48,
                    12_000.. => 12,
                    4000.. => 4,
                    _ => 1,
                };
                assert!(geometry.lines.is_multiple_of(step), "({capacity}, {rate})");
                if geometry.lines > step {
                    let one_less = Geometry {
                        lines: geometry.lines - step,
                        ..geometry
                    }
                    .rate(capacity);
                    // For a bisected load, the mean while filling is computed at continuous points.
                    assert!(
                        one_less > rate * (1.0 - 5e-3),
                        "({capacity}, {rate}): {one_less} with fewer lines"
                    );
                }
            }
        }
    }

    /// The rate of a layer that counts `items`, simulated item by item: each is counted with the chance that
    /// it is found to be new. Large layers take 20,000 steps.
    fn rate_item_by_item(geometry: Geometry, items: u64) -> f64 {
        let (mut met, mut counted) = (0, 0.0);
        while counted < items as f64 {
            let step = (items / 20_000).max(1);
            let new = 1.0 - geometry.rate_of_met(met + step / 2);
            let missing = (items as f64 - counted) / new;
            counted += new * step as f64;
            met += step.min(missing.ceil() as u64);
        }
        geometry.rate_of_met(met)
    }

    /// At 0.25 new items often look present, so that a full layer holds the bits of a tenth more items than it counts;
    /// it keeps its rate nevertheless. The expected rate is summed up item by item, not taken from the sizing.
    #[test]
    fn full_layers_keep_their_rate() {
        let named = [(87_645, 0.25), (1797, 0.225), (2931, 0.2)];
        let rates = [0.25, 0.2, 0.15, 0.1, 0.05, 0.02, 0.004, 1e-3];
        let sizes = [
            20, 100, 500, 1797, 4096, 4097, 20_000, 87_645, 99_999, 100_000, 3_000_000,
        ];
        let grid = sizes.into_iter().flat_map(|size| rates.map(|rate| (size, rate)));
        for (capacity, rate) in named.into_iter().chain(grid) {
            let geometry = Geometry::for_layer(capacity, rate);
            let full = rate_item_by_item(geometry, capacity);
            assert!(full <= rate * (1.0 + 1e-5), "({capacity}, {rate}): {full}");
        }
    }

    /// Filters need as much memory as the documentation claims: 2 to 5 % more than the optimum of a classic filter of
    /// the same rate.
    #[test]
    fn large_layers_stay_near_the_classic_optimum() {
        for rate in [0.1, 0.01, 1e-3, 1e-4, 1e-6, 1e-8] {
            let geometry = Geometry::for_layer(100_000_000, rate);
            let bits = geometry.bytes() as f64 * 8.0 / 1e8;
            let optimum = -rate.ln() / std::f64::consts::LN_2.powi(2);
            assert!(
                bits < optimum * 1.05,
                "{rate}: {bits} bits an item, the optimum has {optimum}"
            );
        }
    }

    /// Layers around the switch from the binomial to the Poisson distribution keep their rate.
    #[test]
    fn binomial_and_poisson_agree_where_they_meet() {
        for (probes, mean) in [(2, 100.0), (3, 60.0), (6, 51.4), (8, 30.0)] {
            let items = POISSON_FROM;
            let lines = (items as f64 / mean) as u64;
            let binomial = line_rate(probes, Load::Binomial { items, lines });
            let poisson = line_rate(
                probes,
                Load::Poisson {
                    mean: items as f64 / lines as f64,
                },
            );
            assert!(
                (binomial / poisson - 1.0).abs() < 1e-3,
                "k = {probes}: {binomial} and {poisson}"
            );
        }
    }

    /// The exponentials by which layers are sized are right.
    #[test]
    fn exponential_matches_the_library_s() {
        for step in 0..2000 {
            let x = f64::from(step) * 0.173;
            let (ours, theirs) = (exp_of_minus(x), (-x).exp());
            assert!(
                (ours - theirs).abs() <= theirs * 1e-12,
                "e^-{x}: {ours}, {theirs}"
            );
        }
        assert_eq!(exp_of_minus(1e300), 0.0);
    }

    /// A hostile or absurd capacity takes no longer to compute than another.
    #[test]
    fn extremes_saturate() {
        for rate in [0.25, 0.01, 1e-30, 1e-60, 0.0] {
            let geometry = Geometry::for_layer(u64::MAX, rate);
            assert!(geometry.bytes() >= 1 << 60, "{geometry:?}");
            assert!((0.0..=1.0).contains(&geometry.rate(u64::MAX)));
        }
    }
}
