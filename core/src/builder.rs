//! Filters for programs: made with a [`Builder`], filled and queried without a limit on memory.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use crate::bits::kernel::LINE_BYTES;
use crate::chain::UNLIMITED;
use crate::codec::{DecodeError, chunks};
use crate::error::{BuildError, Error, ParamError};
use crate::filter::Filter;
use crate::item::Item;
use crate::layouts::blocked::sizing::SMOOTH;
use crate::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Time, Window};
use crate::plan::Plan;
use crate::sets::SetError;
use crate::spec::{BlockedSpec, Spec};

/// The seed of filters that are built without one, drawn once in each process so that they can be united.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("libbloom"));

/// The parameters of a filter to be made. Start with [`Filter::builder`], end with [`Builder::build`].
///
/// ```
/// use libbloom::Filter;
///
/// let mut seen = Filter::builder(1_000_000, 0.001).seed(42).build()?;
/// assert!(seen.insert("https://example.com/")?);
/// assert!(seen.contains("https://example.com/"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    capacity: u64,
    error_rate: f64,
    expansion: Option<u32>,
    is_fixed: bool,
    is_growing: bool,
    seed: Option<Seed>,
    layout: Layout,
    window: Option<Duration>,
    slices: Option<u8>,
    refresh: bool,
}

impl Filter {
    /// Begins a filter for `capacity` items (1 to 2^40). Queries for absent items are answered wrongly with at most
    /// the probability `error_rate` (above 0 and below 1; used as 1e-30 to 0.25). In RedisBloom's layout it can be
    /// slightly more, in valkey-bloom's up to twice that once the filter has grown.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let filter = Filter::builder(1000, 0.01).build()?;
    /// assert_eq!(filter.totals().capacity, 1000);
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn builder(capacity: u64, error_rate: f64) -> Builder {
        Builder {
            capacity,
            error_rate,
            expansion: None,
            is_fixed: false,
            is_growing: false,
            seed: None,
            layout: Layout::Blocked,
            window: None,
            slices: None,
            refresh: false,
        }
    }

    /// Adds `item`. True if it was not in the filter before; false if it (probably) was. In a filter with a
    /// [window](Builder::window) it is added at the time when the newest layer was made, so to the same slice as the
    /// newest new item: [`Filter::insert_at`] has the time as an argument.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// assert!(filter.insert(b"ann")?);
    /// assert!(!filter.insert(b"ann")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Full`] if the filter may not grow, [`Error::OutOfMemory`] if it must and cannot. The filter is
    /// unchanged.
    #[inline]
    pub fn insert<'a>(&mut self, item: impl Into<Item<'a>>) -> Result<bool, Error> {
        let item = item.into();
        match self.plain_mut() {
            Some(chain) => chain.add(item, UNLIMITED),
            None => self.add(item, self.newest_stamp(), UNLIMITED),
        }
    }

    /// Adds `item` at `now`, in milliseconds since any fixed moment, such as the Unix epoch. In a filter with a
    /// [window](Builder::window) it expires a window later, or up to a slice after that. A time before that of the
    /// newest layer counts as that time, and one above 2^62 as 2^62. If two times in a row are more than a window and a
    /// slice before that of the newest layer, that one was wrong: all items then count as added at the second of the
    /// two. Other filters ignore the time.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// let mut events = Filter::builder(1000, 1e-6).window(hour).build()?;
    /// assert!(events.insert_at("event 17", 0)?);
    /// assert!(!events.insert_at("event 17", 3_599_999)?);
    /// assert!(events.insert_at("event 17", 2 * 3_600_000)?);
    /// assert!(!events.insert_at("event 17", 0)?); // counts as at 2 * 3_600_000
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What [`Filter::insert`] returns.
    #[inline]
    pub fn insert_at<'a>(&mut self, item: impl Into<Item<'a>>, now: Time) -> Result<bool, Error> {
        let now = self.named_time(now);
        self.add(item, now, UNLIMITED)
    }

    /// Adds all of `items`, several times faster than one by one, and counts those that were new.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// let lines = "ann\nbob\nann";
    /// assert_eq!(filter.insert_many(lines.lines())?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Filter::insert`] lists them. The items before the one that failed are in the filter.
    pub fn insert_many(&mut self, items: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<u64, Error> {
        self.insert_many_at(items, self.newest_stamp())
    }

    /// [`Filter::insert_many`] at `now`, as [`Filter::insert_at`] does.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(60)).build()?;
    /// assert_eq!(events.insert_many_at(["ann", "bob"], 5000)?, 2);
    /// assert_eq!(events.contains_many_at(["ann", "eve"], 6000), [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What [`Filter::insert_many`] returns.
    pub fn insert_many_at(
        &mut self,
        items: impl IntoIterator<Item: AsRef<[u8]>>,
        now: Time,
    ) -> Result<u64, Error> {
        let (mut new, now) = (0, self.named_time(now));
        self.add_blocks(items.into_iter(), now, UNLIMITED, |added| {
            new += added.new.count_ones();
        })?;
        Ok(new)
    }

    /// Whether each of `items` is (probably) in the filter, in order; several times faster than one by one.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 1e-9).build()?;
    /// filter.insert("ann")?;
    /// assert_eq!(filter.contains_many(["ann", "bob"]), [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_many(&self, items: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<bool> {
        self.contains_many_at(items, self.newest_stamp())
    }

    /// [`Filter::contains_many`] at `now`, as [`Filter::contains_at`] answers.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(60)).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert_eq!(events.contains_many_at(["event 17"], 120_000), [false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_many_at(&self, items: impl IntoIterator<Item: AsRef<[u8]>>, now: Time) -> Vec<bool> {
        let items = items.into_iter();
        #[expect(
            clippy::disallowed_methods,
            reason = "a program's list of answers is its own to bound"
        )]
        let mut answers = Vec::with_capacity(items.size_hint().0);
        self.contains_all(items, now, |found| answers.push(found));
        answers
    }

    /// Adds all items of `other`, which must have this filter's seed and layout, and may have any size. Returns whether
    /// that changed anything. Layers that cannot be laid over each other stay side by side, and their error rates add
    /// up: if they need more than this filter's, its [`error_rate`](Filter::error_rate) becomes that much.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut all = Filter::builder(1000, 0.01).build()?;
    /// let mut today = Filter::builder(300, 0.01).build()?;
    /// today.insert("bob")?;
    /// all.union_with(&today)?;
    /// assert!(all.contains("bob"));
    /// assert!((0.016..0.018).contains(&all.error_rate()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SetError`], such as rates that add up to more than 0.25; nothing changed.
    pub fn union_with(&mut self, other: &Self) -> Result<bool, SetError> {
        match self.absorb(&[other], None, UNLIMITED) {
            Err(SetError::Rate { enough, .. }) if enough.is_some() => {
                self.absorb(&[other], enough, UNLIMITED)
            }
            united => united,
        }
    }

    /// Makes a new filter of the items that are in this filter and in `other`, which must both have one layer, of the
    /// same capacity, error rate, seed and layout. An item that is in neither is found with at most the lower of their
    /// rates.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut monday = Filter::builder(1000, 1e-9).build()?;
    /// let mut tuesday = Filter::builder(1000, 1e-9).build()?;
    /// monday.insert_many(["ann", "bob"])?;
    /// tuesday.insert_many(["bob", "eve"])?;
    /// let both = monday.intersection_with(&tuesday)?;
    /// assert!(both.contains("bob") && !both.contains("ann") && !both.contains("eve"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SetError`], such as a filter that has grown.
    pub fn intersection_with(&self, other: &Self) -> Result<Self, SetError> {
        Self::intersection(&[self, other], UNLIMITED)
    }

    /// Copies the filter. Bit arrays that were never written to need no pages in the copy either.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// filter.insert("ann")?;
    /// assert!(filter.try_clone()?.contains("ann"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, Error> {
        chunks::copy(self, UNLIMITED).map_err(|error| match error {
            DecodeError::OutOfMemory { bytes } => Error::OutOfMemory { bytes },
            // The dump of a valid filter is valid.
            _ => Error::OutOfMemory { bytes: self.bytes() },
        })
    }

    /// Removes all items and exceptions. Parameters stay; a filter that has grown is small again.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1000, 0.01).build()?;
    /// filter.insert("ann")?;
    /// filter.clear()?;
    /// assert!(!filter.contains("ann"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing changed.
    pub fn clear(&mut self) -> Result<(), Error> {
        if let Some(empty) = self.emptied(UNLIMITED)? {
            *self = empty;
        }
        Ok(())
    }
}

impl Builder {
    /// The filter never grows: once it holds as many items as its capacity, it refuses more with [`Error::Full`].
    ///
    /// ```
    /// # use libbloom::{Error, Filter};
    /// let mut filter = Filter::builder(1, 0.01).fixed().build()?;
    /// filter.insert("ann")?;
    /// assert_eq!(filter.insert("bob"), Err(Error::Full { capacity: 1 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed(mut self) -> Self {
        self.is_fixed = true;
        self
    }

    /// Each further layer is for `factor` times as many items as the one before it (1 to 32768; default 2).
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let plan = Filter::builder(1000, 0.01).expansion(9).plan(10_000)?;
    /// assert_eq!(plan.at(10_000).map(|stage| stage.layers), Some(2)); // for 1,000 items and for 9,000
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn expansion(mut self, factor: u32) -> Self {
        self.expansion = Some(factor);
        self
    }

    /// The filter is expected to outgrow its capacity by far: its error rate is shared out for many layers, which makes
    /// a grown filter smaller, and one that stays within its capacity larger.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let reserved = Filter::builder(1000, 0.01).plan(1_000_000)?;
    /// let growing = Filter::builder(1000, 0.01).growing().plan(1_000_000)?;
    /// let bytes = |plan: &libbloom::Plan, items| plan.at(items).map(|stage| stage.bytes);
    /// assert!(bytes(&growing, 1_000_000) < bytes(&reserved, 1_000_000));
    /// assert!(bytes(&growing, 1000) > bytes(&reserved, 1000));
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn growing(mut self) -> Self {
        self.is_growing = true;
        self
    }

    /// The seed of the hash. Filters can be united if they have the same one. Without it, all filters of a process
    /// share a random one. Keep it secret if strangers add items: whoever knows it can make items that collide.
    ///
    /// ```
    /// # use libbloom::{Filter, Seed};
    /// let filter = Filter::builder(1000, 0.01).seed(7).build()?;
    /// assert_eq!(filter.seed(), Some(Seed(7)));
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(Seed(seed));
        self
    }

    /// The layout of the filter: RedisBloom's or valkey-bloom's for a server with that module. Without it: this
    /// project's own.
    ///
    /// ```
    /// # use libbloom::{BuildError, Filter, Layout};
    /// let mut filter = Filter::builder(1000, 0.01).layout(Layout::Classic).build()?;
    /// filter.insert("ann")?;
    /// let events = Filter::builder(1000, 0.01).layout(Layout::Classic).growing();
    /// assert!(matches!(events.build(), Err(BuildError::Conflict(_)))); // RedisBloom has no such filters
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Items expire: each is found for at least `duration` (whole seconds, up to 136 years) after it was added, and at
    /// most a [slice](Builder::slices) longer, by default an eighth. The capacity is that of one window. The time is an
    /// argument of [`Filter::insert_at`], [`Filter::contains_at`] and their like.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let mut events = Filter::builder(1000, 1e-6).window(Duration::from_secs(60)).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert!(events.contains_at("event 17", 60_000));
    /// assert!(!events.contains_at("event 17", 67_500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn window(mut self, duration: Duration) -> Self {
        self.window = Some(duration);
        self
    }

    /// The number of steps in which the window forgets (2 to 64; default 8).
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let minute = Duration::from_secs(60);
    /// let mut events = Filter::builder(1000, 1e-6).window(minute).slices(60).build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert!(!events.contains_at("event 17", 61_000)); // a second later, not seven
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slices(mut self, slices: u8) -> Self {
        self.slices = Some(slices);
        self
    }

    /// An item that is added again is found for another whole window.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// # use std::time::Duration;
    /// let minute = Duration::from_secs(60);
    /// let mut events = Filter::builder(1000, 1e-6).window(minute).refresh().build()?;
    /// events.insert_at("event 17", 0)?;
    /// assert!(!events.insert_at("event 17", 50_000)?); // it was there
    /// assert!(events.contains_at("event 17", 110_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refresh(mut self) -> Self {
        self.refresh = true;
        self
    }

    /// Makes the filter. Its memory is zeroed, and on most systems costs nothing until it is written to.
    ///
    /// ```
    /// # use libbloom::{BuildError, Filter};
    /// assert!(matches!(Filter::builder(0, 0.01).build(), Err(BuildError::Param(_))));
    /// ```
    ///
    /// # Errors
    /// [`BuildError`]: a parameter is out of its range, two options exclude each other, one needs another, or there is
    /// no memory.
    pub fn build(self) -> Result<Filter, BuildError> {
        Ok(Filter::new(self.spec()?, UNLIMITED)?)
    }

    /// Forecasts the size of the filter once it counts `items`, without making it. If it needs more than a thousand
    /// layers for that, the plan has a thousand.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let plan = Filter::builder(1_000_000, 0.01).plan(10_000_000)?;
    /// assert!(plan.at(1_000_000).is_some_and(|stage| stage.bytes < 1_400_000));
    /// assert_eq!(plan.at(10_000_000).map(|stage| stage.layers), Some(4));
    /// # Ok::<(), libbloom::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError`]: a parameter is out of its range, two options exclude each other, or one needs another.
    pub fn plan(self, items: u64) -> Result<Plan, BuildError> {
        Ok(Plan::new(self.spec()?, items, 1000))
    }

    /// The largest capacity whose first layer takes at most `bytes` bytes and can be divided by nearly any number from
    /// 3 on in [`Filter::shrink_to_fit`]; 1 if there is none. For a list of unknown length: make the filter this large,
    /// read the list once, and shrink the filter.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let capacity = Filter::builder(1, 0.01).capacity_for(1 << 20)?;
    /// let mut filter = Filter::builder(capacity, 0.01).build()?;
    /// filter.insert("ann")?;
    /// filter.shrink_to_fit()?;
    /// assert!(capacity > 700_000 && filter.bytes() < 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError`]: a parameter is out of its range, two options exclude each other, or one needs another.
    pub fn capacity_for(self, bytes: u64) -> Result<u64, BuildError> {
        // A plan has a layer.
        let first = |capacity| Ok::<_, BuildError>(Self { capacity, ..self }.plan(1)?.layers()[0]);
        // Folding divides the number of lines in each partition; without lines, the number of bytes.
        let unit = first(Capacity::MAX)?
            .lines_per_item
            .map_or(1, |lines| LINE_BYTES * lines);
        let smooth = SMOOTH
            .into_iter()
            .find(|&number| 2 * number <= bytes / unit)
            .unwrap_or(1);
        let most = bytes - bytes % (smooth * unit);
        let (mut low, mut high) = (1, Capacity::MAX);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if first(middle)?.bytes <= most {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    fn spec(self) -> Result<Spec, BuildError> {
        self.check_conflicts()?;
        let expansion = Expansion::new(self.expansion.unwrap_or(Expansion::DEFAULT.factor()))?;
        let seed = self.seed.unwrap_or(Seed(*SEED));
        let window = self.window.map(|duration| {
            let seconds = u32::try_from(duration.as_secs()).ok();
            let seconds = seconds.filter(|_| duration.subsec_nanos() == 0);
            let slices = self.slices.unwrap_or(Window::USUAL_SLICES);
            Window::new(seconds.ok_or(ParamError::Window)?, slices, self.refresh)
        });
        let spec = BlockedSpec {
            error_rate: ErrorRate::new(self.error_rate)?,
            capacity: Capacity::new(self.capacity)?,
            growth: match (self.is_fixed, self.is_growing) {
                (true, _) => Growth::Fixed,
                (false, true) => Growth::Growing(expansion),
                (false, false) => Growth::Reserved(expansion),
            },
            seed,
            window: window.transpose()?,
        };
        Ok(spec.in_layout(self.layout)?)
    }

    /// Refuses two options that exclude each other, and one that needs another.
    fn check_conflicts(&self) -> Result<(), BuildError> {
        let has_window = self.window.is_some();
        let is_own = self.layout == Layout::Blocked;
        let conflict = if self.is_fixed && self.expansion.is_some() {
            "a fixed filter has no expansion"
        } else if self.is_fixed && self.is_growing {
            "fixed and growing exclude each other"
        } else if self.is_fixed && has_window {
            "a fixed filter has no window"
        } else if self.is_growing && has_window {
            "a filter with a window cannot be growing"
        } else if !has_window && (self.slices.is_some() || self.refresh) {
            "slices and refresh need a window"
        } else if !is_own && (has_window || self.is_growing) {
            "window and growing need the blocked layout"
        } else if self.layout == Layout::Classic && self.seed.is_some() {
            "the classic layout has no seed"
        } else {
            return Ok(());
        };
        Err(BuildError::Conflict(conflict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program would take more memory than it has, or end by a panic.
    #[test]
    fn a_filter_of_its_capacity_for_some_bytes_takes_no_more() {
        let layouts = Layout::ALL
            .iter()
            .map(|&layout| Filter::builder(1, 0.01).layout(layout));
        let own = Filter::builder(1, 1e-30);
        let window = Filter::builder(1, 0.01).window(Duration::from_secs(9));
        let others = [own, own.growing(), own.fixed(), window, Filter::builder(1, 0.999)];
        for builder in layouts.chain(others) {
            for bytes in [0, 1, 63, 100, 5000, 1 << 20, 256 << 20, 1 << 40, u64::MAX] {
                let capacity = builder.capacity_for(bytes).unwrap();
                let first = |capacity| Builder { capacity, ..builder }.plan(1).unwrap().layers()[0].bytes;
                assert!(capacity == 1 || first(capacity) <= bytes, "{builder:?} {bytes}");
                let is_most = capacity == Capacity::MAX || first(capacity + 1) > bytes / 2;
                assert!(is_most, "{builder:?} {bytes}: {capacity}");
            }
        }
        let refused = Filter::builder(1, 0.0).capacity_for(1 << 20);
        assert_eq!(refused, Err(BuildError::Param(ParamError::ErrorRate)));
    }

    /// A program would get a filter that it did not ask for, and notice it much later.
    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let filter = || Filter::builder(100, 0.01);
        let refused = |builder: Builder| builder.build().map(drop).unwrap_err();
        let param = BuildError::Param;
        let second = Duration::from_secs(1);
        for (builder, error) in [
            (Filter::builder(0, 0.01), param(ParamError::Capacity)),
            (Filter::builder(1 << 41, 0.01), param(ParamError::Capacity)),
            (Filter::builder(1, 0.0), param(ParamError::ErrorRate)),
            (Filter::builder(1, 1.0), param(ParamError::ErrorRate)),
            (Filter::builder(1, f64::NAN), param(ParamError::ErrorRate)),
            (filter().expansion(0), param(ParamError::Expansion)),
            (filter().expansion(32_769), param(ParamError::Expansion)),
            (filter().window(second).slices(1), param(ParamError::Slices)),
            (filter().window(Duration::ZERO), param(ParamError::Window)),
            (
                filter().window(Duration::from_millis(1500)),
                param(ParamError::Window),
            ),
            (
                filter().window(Duration::from_secs(1 << 32)),
                param(ParamError::Window),
            ),
        ] {
            assert_eq!(refused(builder), error, "{builder:?}");
            assert!(!error.to_string().is_empty());
        }
        let classic = filter().layout(Layout::Classic);
        for (builder, names) in [
            (filter().fixed().expansion(2), "expansion"),
            (filter().fixed().growing(), "growing"),
            (filter().fixed().window(second), "window"),
            (filter().window(second).growing(), "growing"),
            (filter().slices(4), "slices"),
            (filter().refresh(), "refresh"),
            (classic.window(second), "layout"),
            (filter().layout(Layout::Valkey).growing(), "layout"),
            (classic.seed(7), "seed"),
        ] {
            let BuildError::Conflict(what) = refused(builder) else {
                panic!("{builder:?}")
            };
            assert!(what.contains(names), "{builder:?}: {what}");
        }
        let too_large = refused(Filter::builder(1 << 40, 1e-30).layout(Layout::Classic));
        assert!(
            matches!(too_large, BuildError::Filter(Error::OutOfMemory { .. })),
            "{too_large:?}"
        );
    }

    /// Two filters of one program could not be united, or those of two programs could by chance.
    #[test]
    fn filters_of_a_process_share_a_seed_unless_one_is_given() {
        let seed = |builder: Builder| builder.build().unwrap().seed();
        let plain = || Filter::builder(10, 0.01);
        assert_eq!(seed(plain()), seed(plain()));
        assert_eq!(seed(plain().seed(7)), Some(Seed(7)));
        assert_ne!(seed(plain()), Some(Seed(7)));
    }

    /// A program that counts its new items would count wrong.
    #[test]
    fn many_items_are_counted_if_they_are_new() {
        let mut filter = Filter::builder(1000, 1e-9).build().unwrap();
        let items: Vec<_> = (0..500_u32).map(u32::to_le_bytes).collect();
        let mut add = |items: &[[u8; 4]]| filter.insert_many(items.iter().map(|item| &item[..])).unwrap();
        assert_eq!([add(&items[..200]), add(&items), add(&items)], [200, 300, 0]);
    }

    /// Several threads of a program could not query one filter at once.
    #[test]
    fn a_filter_can_be_shared_by_threads() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<Filter>();
    }

    /// A filter that a program made would grow differently from a server's filter with the same options.
    #[test]
    fn a_builder_makes_what_the_words_of_the_server_make() {
        let hour = Duration::from_secs(3600);
        let own = |growth, window| BlockedSpec {
            error_rate: ErrorRate::new(0.01).unwrap(),
            capacity: Capacity::new(100).unwrap(),
            growth,
            seed: Seed(5),
            window,
        };
        let expansion = Expansion::new(3).unwrap();
        let seeded = || Filter::builder(100, 0.01).seed(5);
        let builder = || seeded().expansion(3);
        for (builder, spec) in [
            (builder(), own(Growth::Reserved(expansion), None)),
            (builder().growing(), own(Growth::Growing(expansion), None)),
            (seeded().fixed(), own(Growth::Fixed, None)),
            (
                builder().slices(4).refresh().window(hour),
                own(
                    Growth::Reserved(expansion),
                    Some(Window::new(3600, 4, true).unwrap()),
                ),
            ),
        ] {
            let (built, expected) = (
                builder.build().unwrap(),
                Filter::new(spec.into(), UNLIMITED).unwrap(),
            );
            assert_eq!(chunks::header(&built), chunks::header(&expected), "{builder:?}");
        }
    }
}
