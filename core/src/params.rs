//! The parameters of a filter, as types that cannot hold an invalid value.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{ParamError, require};

/// The relative amount by which rounding may raise a sum of layers' rates above the rate that they share.
pub(crate) const ROUNDING: f64 = 1e-9;

/// A false positive rate: the share of items never added that the filter reports as present.
///
/// A rate above [`ErrorRate::HIGHEST_USED`] is replaced by it: a looser filter saves next to nothing. A rate
/// below [`ErrorRate::LOWEST_USED`] is replaced by it: with the 128-bit hash, two different items among 10^9
/// share their whole hash with probability 10^-21 or so, and no layout can tell them apart.
///
/// ```
/// # use libbloom::ErrorRate;
/// assert_eq!(ErrorRate::new(0.5)?.value(), 0.25);
/// assert!(ErrorRate::new(1.0).is_err());
/// # Ok::<(), libbloom::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ErrorRate(f64);

impl ErrorRate {
    /// The highest rate that a filter is made with.
    pub const HIGHEST_USED: f64 = 0.25;
    /// The lowest rate that a filter is made with.
    pub const LOWEST_USED: f64 = 1e-30;
    /// The default rate.
    pub const DEFAULT: Self = Self(0.01);

    /// `rate`, clamped to `LOWEST_USED..=HIGHEST_USED`.
    ///
    /// ```
    /// # use libbloom::{ErrorRate, ParamError};
    /// assert_eq!(ErrorRate::new(f64::NAN), Err(ParamError::ErrorRate));
    /// ```
    ///
    /// # Errors
    /// [`ParamError::ErrorRate`] unless `0 < rate < 1`; NaN is refused.
    pub fn new(rate: f64) -> Result<Self, ParamError> {
        require(rate > 0.0 && rate < 1.0, ParamError::ErrorRate)?;
        Ok(Self(rate.clamp(Self::LOWEST_USED, Self::HIGHEST_USED)))
    }

    /// The rate, in `LOWEST_USED..=HIGHEST_USED`.
    ///
    /// ```
    /// # use libbloom::ErrorRate;
    /// assert_eq!(ErrorRate::DEFAULT.value(), 0.01);
    /// ```
    pub const fn value(self) -> f64 {
        self.0
    }
}

/// The number of items that a filter (or a layer) is made for, `1..=2^40`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capacity(u64);

impl Capacity {
    /// The largest capacity that a filter can be made with.
    pub const MAX: u64 = 1 << 40;
    /// The default for filters that grow.
    pub const DEFAULT: Self = Self(100);

    /// `items` as a capacity, `1..=MAX`.
    pub fn new(items: u64) -> Result<Self, ParamError> {
        require((1..=Self::MAX).contains(&items), ParamError::Capacity)?;
        Ok(Self(items))
    }

    /// The number of items.
    pub const fn items(self) -> u64 {
        self.0
    }
}

/// The ratio of the next layer's capacity to the newest layer's, `1..=32768`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion(u32);

impl Expansion {
    /// The largest expansion.
    pub const MAX: u32 = 32_768;
    /// The default expansion.
    pub const DEFAULT: Self = Self(2);

    /// `factor` as an expansion, `1..=MAX`.
    pub fn new(factor: u32) -> Result<Self, ParamError> {
        require((1..=Self::MAX).contains(&factor), ParamError::Expansion)?;
        Ok(Self(factor))
    }

    /// The factor.
    pub const fn factor(self) -> u32 {
        self.0
    }
}

/// What a filter does when it is full, and so how it shares its error budget among its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The filter accepts no further item: one layer has the whole budget (`NONSCALING`).
    Fixed,
    /// The filter grows, but is expected to stay within its first capacity: the first layer gets most of the budget.
    Reserved(Expansion),
    /// The filter is expected to grow: the budget is shared evenly enough for a long chain (`GROWING`).
    Growing(Expansion),
}

impl Growth {
    /// The expansion, unless the filter cannot grow.
    pub fn expansion(self) -> Option<Expansion> {
        match self {
            Self::Fixed => None,
            Self::Reserved(expansion) | Self::Growing(expansion) => Some(expansion),
        }
    }

    /// The share that layer `index` gets of what is left of the error budget, in `(0, 1]`.
    ///
    /// The newest layer of a growing filter has about half of its bits, so the shares shrink as slowly as a long chain
    /// allows: a ninth of what is left each, and from layer 16 on so that what is left falls with `1 / i`, not
    /// exponentially, since a filter that does not expand has thousands of layers.
    pub fn share(self, index: usize) -> f64 {
        let i = index as f64;
        match self {
            Self::Fixed => 1.0,
            Self::Reserved(_) if index == 0 => 0.8,
            Self::Reserved(_) => 2.0 / (i + 3.0),
            Self::Growing(_) if index == 0 => 0.25,
            Self::Growing(_) => 1.0 / (i - 6.0).max(9.0),
        }
    }
}

/// A point in time in milliseconds: in a server since 1970 (UTC), in a program since any fixed moment.
pub type Time = u64;

/// The latest time that an add can be stamped with.
pub const LATEST: Time = 1 << 62;

/// How long a filter remembers an item, and in what steps it forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    seconds: u32,
    slices: u8,
    refresh: bool,
}

impl Window {
    /// The longest window in seconds, 136 years.
    pub const MAX_SECONDS: u32 = u32::MAX;
    /// The fewest and the most slices.
    pub const SLICES: std::ops::RangeInclusive<u8> = 2..=64;
    /// The default number of slices.
    pub const USUAL_SLICES: u8 = 8;

    /// A window of 1 or more seconds in [`Self::SLICES`] slices. With `refresh`, an item added again begins anew.
    pub fn new(seconds: u32, slices: u8, refresh: bool) -> Result<Self, ParamError> {
        require(seconds > 0, ParamError::Window)?;
        require(Self::SLICES.contains(&slices), ParamError::Slices)?;
        Ok(Self {
            seconds,
            slices,
            refresh,
        })
    }

    /// Length of the window in seconds, 1 or more.
    pub const fn seconds(self) -> u32 {
        self.seconds
    }

    /// Length of the window in milliseconds.
    pub const fn length(self) -> u64 {
        self.seconds as u64 * 1000
    }

    /// Number of slices of the window.
    pub const fn slices(self) -> u8 {
        self.slices
    }

    /// How long a slice accepts items, in milliseconds: the length of the window divided by its slices, rounded up.
    pub const fn slice_length(self) -> u64 {
        self.length().div_ceil(self.slices as u64)
    }

    /// Items that each slice is made for, in a window for `capacity` items.
    pub fn slice_capacity(self, capacity: Capacity) -> u64 {
        capacity.items().div_ceil(self.slices.into())
    }

    /// Whether adding an item again restarts its time.
    pub const fn refresh(self) -> bool {
        self.refresh
    }
}

/// The number that selects a filter's hash. Without it no cheap way is known to make items that collide; that is not
/// proven, because XXH3 is no cryptographic hash.
///
/// ```
/// # use libbloom::{Filter, Seed};
/// let filter = Filter::builder(1000, 0.01).seed(7).build()?;
/// assert_eq!(filter.seed(), Some(Seed(7)));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seed(pub u64);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// The layout of a filter, which decides the servers and modules that can load it.
///
/// ```
/// use libbloom::{Filter, Layout};
///
/// let filter = Filter::builder(1000, 0.01).layout(Layout::Valkey).build()?;
/// assert!(filter.seed().is_none()); // its seed has 32 bytes
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// This project's own layout: the fastest, and the smallest that grows.
    Blocked,
    /// RedisBloom's layout.
    Classic,
    /// valkey-bloom's layout.
    Valkey,
}

impl Layout {
    /// All layouts.
    ///
    /// ```
    /// # use libbloom::Layout;
    /// assert!(Layout::ALL.contains(&Layout::Classic));
    /// ```
    pub const ALL: &[Self] = &[Self::Blocked, Self::Classic, Self::Valkey];

    /// The layout's name, in small letters.
    ///
    /// ```
    /// # use libbloom::Layout;
    /// assert_eq!(Layout::Classic.name(), "classic");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Classic => "classic",
            Self::Valkey => "valkey",
        }
    }

    /// The layout with this name, in upper or lower case.
    ///
    /// ```
    /// # use libbloom::Layout;
    /// assert_eq!(Layout::named("CLASSIC"), Some(Layout::Classic));
    /// assert_eq!(Layout::named("quotient"), None);
    /// ```
    pub fn named(name: impl AsRef<[u8]>) -> Option<Self> {
        let is_named = |layout: &&Self| name.as_ref().eq_ignore_ascii_case(layout.name().as_bytes());
        Self::ALL.iter().find(is_named).copied()
    }
}

/// The keys of the two hashes in valkey-bloom's layout, 16 bytes each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipSeed(pub [u8; 32]);

impl std::fmt::Debug for SipSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SipSeed(..)")
    }
}

impl SipSeed {
    /// The seed that valkey-bloom gives all filters if it is configured not to draw random ones.
    pub const FIXED: Self = Self([
        0x59, 0x0f, 0xf5, 0x22, 0xea, 0x78, 0x11, 0xda, 0xa7, 0x14, 0xd8, 0x09, 0x3b, 0x3e, 0x7b, 0xd9, 0x1d,
        0x89, 0x8a, 0x73, 0x3e, 0x98, 0x88, 0x87, 0x30, 0x7f, 0x97, 0xcd, 0x28, 0x07, 0x33, 0x83,
    ]);

    /// Whether valkey-bloom would call this a random seed.
    pub fn is_random(self) -> bool {
        self != Self::FIXED
    }
}

/// Expands a seed of 8 bytes to 32: its xxHash (XXH3, 64 bits) with the seeds 0 to 3.
impl From<Seed> for SipSeed {
    fn from(Seed(seed): Seed) -> Self {
        let mut bytes = [0; 32];
        for (index, word) in (0..).zip(bytes.as_chunks_mut::<8>().0) {
            *word = xxh3_64_with_seed(&seed.to_le_bytes(), index).to_le_bytes();
        }
        Self(bytes)
    }
}

/// The ratio of a layer's rate to that of the layer before it, in valkey-bloom's layout: strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tightening(f64);

impl Tightening {
    /// The default ratio.
    pub const DEFAULT: Self = Self(0.5);

    /// `ratio` as a tightening ratio, strictly between 0 and 1.
    pub fn new(ratio: f64) -> Result<Self, ParamError> {
        require(ratio > 0.0 && ratio < 1.0, ParamError::Tightening)?;
        Ok(Self(ratio))
    }

    /// The ratio.
    pub const fn value(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log would have the seed, with which items can be made that collide.
    #[test]
    fn no_seed_of_valkey_bloom_is_shown() {
        assert_eq!(format!("{:?}", SipSeed([7; 32])), "SipSeed(..)");
    }

    /// A filter could be made with a rate that no layer can be sized for.
    #[test]
    fn error_rates_outside_of_0_to_1_are_refused_and_extremes_are_clamped() {
        for bad in [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert_eq!(ErrorRate::new(bad), Err(ParamError::ErrorRate), "{bad}");
        }
        let used = |rate| ErrorRate::new(rate).map(ErrorRate::value);
        assert_eq!(used(0.01), Ok(0.01));
        assert_eq!(used(0.9), Ok(0.25));
        assert_eq!(used(1e-300), Ok(1e-30));
        assert_eq!(used(f64::MIN_POSITIVE), Ok(1e-30));
    }

    /// A filter could be made with a capacity or an expansion outside of its range.
    #[test]
    fn capacity_and_expansion_keep_their_bounds() {
        assert_eq!(Capacity::new(0), Err(ParamError::Capacity));
        assert_eq!(Capacity::new(1 << 40).map(Capacity::items), Ok(1 << 40));
        assert_eq!(Capacity::new((1 << 40) + 1), Err(ParamError::Capacity));
        assert_eq!(Expansion::new(0), Err(ParamError::Expansion));
        assert_eq!(Expansion::new(32_768).map(Expansion::factor), Ok(32_768));
        assert_eq!(Expansion::new(32_769), Err(ParamError::Expansion));
    }

    /// A filter that grows for years could exceed the rate that it promised.
    #[test]
    fn shares_never_spend_more_than_the_budget() {
        let two = Expansion(2);
        for growth in [Growth::Reserved(two), Growth::Growing(two)] {
            let mut left = 1.0;
            for index in 0..10_000 {
                let share = growth.share(index);
                assert!(share > 0.0 && share < 1.0);
                left -= share * left;
                assert!(left > 0.0);
            }
        }
        assert_eq!(Growth::Fixed.share(0), 1.0);
    }
}
