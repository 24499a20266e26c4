//! Filters to be created: the options that describe one, and the making. How a creation is propagated is in
//! [`propagation`].

use super::args::{Argument, Cursor, integer};
use super::error::CommandError;
use super::propagation;
use super::redisbloom::{self, Release};
use crate::bloom::chain::Allowance;
use crate::bloom::params::{
    Capacity, ClassicSpec, ErrorRate, Expansion, Growth, Layout, Seed, SipSeed, Spec, Tightening, ValkeySpec,
    Window,
};
use crate::bloom::plan::Plan;
use crate::bloom::valkey::{Unreached, Valkey};
use crate::bloom::{Error, Filter};
use crate::keyspace::KeyMut;
use crate::options::values::{Config, LayoutName};
use crate::server::{Arg, Ctx, log};
use crate::stats::{self, Counted};
use crate::{limits, number, options};

/// The errors that a command answers to options that it cannot take.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// EXPANSION without a value.
    pub no_expansion: CommandError,
    /// An expansion that is no number.
    pub bad_expansion: CommandError,
    /// An expansion out of its range.
    pub expansion_range: CommandError,
    /// NONSCALING with an expansion above 0, unless NONSCALING wins.
    pub nonscaling_expansion: Option<CommandError>,
}

/// A key to be made that holds a filter, with everything resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Creation {
    /// The filter.
    pub filter: FilterSpec,
    /// When the key expires, in milliseconds of the Unix clock.
    pub expires: Option<i64>,
}

/// A filter to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterSpec {
    /// In this module's own layout.
    Blocked(Spec),
    /// In RedisBloom's.
    Classic(ClassicSpec),
    /// In valkey-bloom's.
    Valkey(ValkeySpec),
}

impl From<FilterSpec> for Creation {
    /// For ever.
    fn from(filter: FilterSpec) -> Self {
        let expires = None;
        Self { filter, expires }
    }
}

impl FilterSpec {
    /// The error rate that it is made with.
    pub fn error_rate(self) -> f64 {
        match self {
            Self::Blocked(spec) => spec.error_rate.value(),
            Self::Classic(spec) => spec.error_rate(),
            Self::Valkey(spec) => spec.error_rate(),
        }
    }

    /// Items that it is made for.
    pub fn capacity(self) -> u64 {
        match self {
            Self::Blocked(spec) => spec.capacity.items(),
            Self::Classic(spec) => spec.capacity(),
            Self::Valkey(spec) => spec.capacity(),
        }
    }

    /// How many times the capacity of its newest layer the next one has, unless it does not grow.
    pub fn expansion(self) -> Option<u32> {
        match self {
            Self::Blocked(spec) => spec.growth.expansion().map(Expansion::factor),
            Self::Classic(spec) => spec.scales().then_some(spec.expansion()),
            Self::Valkey(spec) => Some(spec.expansion()).filter(|&factor| factor > 0),
        }
    }

    /// Its layout.
    pub fn layout(self) -> LayoutName {
        match self {
            Self::Blocked(_) => LayoutName::Blocked,
            Self::Classic(_) => LayoutName::Classic,
            Self::Valkey(_) => LayoutName::Valkey,
        }
    }

    /// What it takes: see [`Plan::new`].
    pub fn plan(self, items: u64, most: usize) -> Plan {
        match self {
            Self::Blocked(spec) => Plan::new(spec, items, most),
            Self::Classic(spec) => Plan::classic(spec, items, most),
            Self::Valkey(spec) => Plan::valkey(spec, items, most),
        }
    }

    /// The filter.
    ///
    /// # Errors
    /// Those of [`Filter::new`].
    pub fn make(self, allowance: Allowance<'_>) -> Result<Filter, Error> {
        match self {
            Self::Blocked(spec) => Filter::new(spec, allowance),
            Self::Classic(spec) => Filter::classic(spec, allowance),
            Self::Valkey(spec) => Filter::valkey(spec, allowance),
        }
    }
}

/// A seed as it was given.
#[derive(Clone, Copy, Debug)]
enum GivenSeed {
    /// A number.
    Number(Seed),
    /// 32 bytes.
    Bytes(SipSeed),
}

impl GivenSeed {
    /// 32 bytes are never a number: one has 20 digits at most.
    fn take<'a>(value: impl Argument<'a>) -> Result<Self, CommandError> {
        if let Ok(bytes) = value.bytes().try_into() {
            return Ok(Self::Bytes(SipSeed(bytes)));
        }
        let seed = number::whole(value.bytes()).ok_or(CommandError::BadSeed)?;
        let seed = u64::try_from(seed).map_err(|_| CommandError::SeedRange)?;
        Ok(Self::Number(Seed(seed)))
    }
}

const BLOCKED: &[LayoutName] = &[LayoutName::Blocked];
const VALKEY: &[LayoutName] = &[LayoutName::Valkey];
const WITH_SEED: &[LayoutName] = &[LayoutName::Blocked, LayoutName::Valkey];

/// Options that describe a filter, as far as they were given.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    expansion: Option<u32>,
    nonscaling: bool,
    growing: bool,
    seed: Option<GivenSeed>,
    layout: Option<LayoutName>,
    tightening: Option<Tightening>,
    /// What it must be able to grow to.
    goal: Option<u64>,
    window: Option<u32>,
    slices: Option<u8>,
    refresh: bool,
}

impl FilterOptions {
    /// Takes `word`, and its value from `cursor`, if it is one of these options.
    ///
    /// # Errors
    /// What is wrong with the option.
    pub fn take<'a, A: Argument<'a>>(
        &mut self,
        word: &[u8],
        cursor: &mut Cursor<'a, A>,
        dialect: &Dialect,
    ) -> Result<bool, CommandError> {
        if word.eq_ignore_ascii_case(b"EXPANSION") {
            let value = cursor.take_if_any().ok_or_else(|| dialect.no_expansion.clone())?;
            let factor = integer(value.bytes()).ok_or_else(|| dialect.bad_expansion.clone())?;
            let factor = u32::try_from(factor)
                .ok()
                .filter(|&factor| factor <= Expansion::MAX);
            once(
                &mut self.expansion,
                factor.ok_or_else(|| dialect.expansion_range.clone())?,
                "EXPANSION",
            )?;
        } else if word.eq_ignore_ascii_case(b"NONSCALING") {
            flag(&mut self.nonscaling, "NONSCALING")?;
        } else if word.eq_ignore_ascii_case(b"GROWING") {
            flag(&mut self.growing, "GROWING")?;
        } else if word.eq_ignore_ascii_case(b"SEED") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("SEED"))?;
            once(&mut self.seed, GivenSeed::take(value)?, "SEED")?;
        } else if word.eq_ignore_ascii_case(b"LAYOUT") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("LAYOUT"))?;
            let layout = LayoutName::named(value.bytes()).ok_or(CommandError::BadLayout)?;
            once(&mut self.layout, layout, "LAYOUT")?;
        } else if word.eq_ignore_ascii_case(b"TIGHTENING") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("TIGHTENING"))?;
            let ratio = Tightening::new(double(value).ok_or(CommandError::BadTightening)?);
            let ratio = ratio.map_err(|_| CommandError::TighteningRange)?;
            once(&mut self.tightening, ratio, "TIGHTENING")?;
        } else if word.eq_ignore_ascii_case(b"VALIDATESCALETO") {
            let value = cursor
                .take_if_any()
                .ok_or(CommandError::NoValue("VALIDATESCALETO"))?;
            let items = number::whole(value.bytes()).ok_or(CommandError::BadGoal)?;
            let items = i64::try_from(items).ok().filter(|&items| items > 0);
            let items = items.ok_or(CommandError::GoalRange)?.cast_unsigned();
            once(&mut self.goal, items, "VALIDATESCALETO")?;
        } else if word.eq_ignore_ascii_case(b"WINDOW") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("WINDOW"))?;
            let seconds = integer(value.bytes()).ok_or(CommandError::BadWindow)?;
            let seconds = u32::try_from(seconds).map_err(|_| CommandError::WindowRange)?;
            once(&mut self.window, seconds, "WINDOW")?;
        } else if word.eq_ignore_ascii_case(b"SLICES") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("SLICES"))?;
            let slices = integer(value.bytes()).ok_or(CommandError::BadSlices)?;
            let slices = u8::try_from(slices).ok();
            let slices = slices.filter(|slices| Window::SLICES.contains(slices));
            once(
                &mut self.slices,
                slices.ok_or(CommandError::SlicesRange)?,
                "SLICES",
            )?;
        } else if word.eq_ignore_ascii_case(b"REFRESH") {
            flag(&mut self.refresh, "REFRESH")?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether the options can describe a filter, whatever the configuration says.
    ///
    /// # Errors
    /// Options that exclude each other.
    pub fn check(&self, dialect: &Dialect) -> Result<(), CommandError> {
        match (self.expansion, &dialect.nonscaling_expansion) {
            (Some(1..), Some(error)) if self.nonscaling => return Err(error.clone()),
            _ => {}
        }
        match self.expansion {
            _ if self.nonscaling && self.growing => {
                return Err(CommandError::Exclusive("NONSCALING", "GROWING"));
            }
            Some(0) if self.growing => return Err(CommandError::Exclusive("EXPANSION 0", "GROWING")),
            _ => {}
        }
        let fixed = [
            (self.nonscaling, "NONSCALING"),
            (self.expansion == Some(0), "EXPANSION 0"),
        ];
        let fixed = fixed
            .into_iter()
            .find_map(|(is_set, word)| is_set.then_some(word));
        if let (Some(_), Some(word)) = (self.goal, fixed) {
            return Err(CommandError::Exclusive("VALIDATESCALETO", word));
        }
        if self.window.is_some() {
            if let Some(word) = fixed.or(self.growing.then_some("GROWING")) {
                return Err(CommandError::Exclusive(word, "WINDOW"));
            }
        } else if self.slices.is_some() {
            return Err(CommandError::NeedsWindow("SLICES"));
        } else if self.refresh {
            return Err(CommandError::NeedsWindow("REFRESH"));
        }
        self.layout().map_or(Ok(()), |layout| self.check_for(layout))
    }

    /// The layout that was said, or meant by an option that no other layout has.
    pub fn layout(&self) -> Option<LayoutName> {
        let options = self.of_some_layouts();
        let means_valkey = options
            .iter()
            .any(|(is_set, _, layouts)| *is_set && *layouts == VALKEY);
        self.layout.or(means_valkey.then_some(LayoutName::Valkey))
    }

    /// Options that not every layout has: whether they were given, and the layouts that have them.
    fn of_some_layouts(&self) -> [(bool, &'static str, &'static [LayoutName]); 6] {
        let is_number = matches!(self.seed, Some(GivenSeed::Number(_)));
        let is_bytes = matches!(self.seed, Some(GivenSeed::Bytes(_)));
        [
            (is_number, "SEED", WITH_SEED),
            (self.growing, "GROWING", BLOCKED),
            (self.window.is_some(), "WINDOW", BLOCKED),
            (is_bytes, "SEED of 32 bytes", VALKEY),
            (self.tightening.is_some(), "TIGHTENING", VALKEY),
            (self.goal.is_some(), "VALIDATESCALETO", VALKEY),
        ]
    }

    fn check_for(&self, layout: LayoutName) -> Result<(), CommandError> {
        for (is_set, option, layouts) in self.of_some_layouts() {
            if is_set && !layouts.contains(&layout) {
                return Err(CommandError::OnlyFor(option, layouts));
            }
        }
        Ok(())
    }

    /// The filter that these options, and the configuration for what they leave open, describe.
    /// `within_capacity` says that the user gave a capacity to stay within.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn filter(
        &self,
        rate: AskedRate,
        capacity: Capacity,
        within_capacity: bool,
        config: &Config,
    ) -> Result<FilterSpec, CommandError> {
        let layout = self.layout().unwrap_or(config.layout());
        // What was said or meant was checked.
        self.check_for(layout)
            .map_err(|error| error.by_layout_option(layout))?;
        let expansion = match (self.nonscaling, self.expansion) {
            (true, _) => None,
            (false, Some(factor)) => Expansion::new(factor).ok(),
            (false, None) => config.expansion(),
        };
        let needs_expansion = [
            (self.growing, "GROWING"),
            (self.window.is_some(), "WINDOW"),
            (self.goal.is_some(), "VALIDATESCALETO"),
        ];
        if let (None, Some((_, word))) = (expansion, needs_expansion.iter().find(|(is_set, _)| *is_set)) {
            return Err(CommandError::FixedByOption(word));
        }
        match layout {
            LayoutName::Blocked => {
                let seed = match self.seed {
                    Some(GivenSeed::Number(seed)) => seed,
                    Some(GivenSeed::Bytes(_)) | None => config.seed(),
                };
                let spec = Spec {
                    error_rate: rate.used,
                    capacity,
                    growth: self.growth(expansion, within_capacity),
                    layout: Layout::Blocked { seed },
                    window: self.window()?,
                };
                Ok(FilterSpec::Blocked(spec))
            }
            LayoutName::Classic => self
                .classic(rate.used, capacity, expansion)
                .map(FilterSpec::Classic),
            LayoutName::Valkey => {
                let seed = match self.seed {
                    Some(GivenSeed::Bytes(seed)) => seed,
                    Some(GivenSeed::Number(seed)) => seed.into(),
                    None => config.seed().into(),
                };
                let tightening = self.tightening.unwrap_or(Tightening::DEFAULT);
                let factor = expansion.map_or(0, Expansion::factor);
                let spec = ValkeySpec::new(rate.asked, capacity.items(), factor, tightening, seed);
                spec.map(FilterSpec::Valkey)
                    .map_err(|_| CommandError::ErrorRateRange)
            }
        }
    }

    fn growth(&self, expansion: Option<Expansion>, within_capacity: bool) -> Growth {
        match expansion {
            None => Growth::Fixed,
            Some(expansion) if self.window.is_none() && (self.growing || !within_capacity) => {
                Growth::Growing(expansion)
            }
            Some(expansion) => Growth::Reserved(expansion),
        }
    }

    fn window(&self) -> Result<Option<Window>, CommandError> {
        let slices = self.slices.unwrap_or(Window::USUAL_SLICES);
        let window = self
            .window
            .map(|seconds| Window::new(seconds, slices, self.refresh));
        window.transpose().map_err(|_| CommandError::SlicesRange)
    }

    /// A classic filter: with the expansion that RedisBloom would store in one that does not use it.
    fn classic(
        &self,
        rate: ErrorRate,
        capacity: Capacity,
        expansion: Option<Expansion>,
    ) -> Result<ClassicSpec, CommandError> {
        let unused = if self.nonscaling {
            ClassicSpec::UNUSED_EXPANSION
        } else {
            0
        };
        let stored = expansion.map_or(self.expansion.unwrap_or(unused), Expansion::factor);
        ClassicSpec::new(rate.value(), capacity.items(), stored, expansion.is_some())
            .map_err(|_| CommandError::ErrorRateRange)
    }

    /// Whether a filter that these options describe can grow as far as they ask for.
    ///
    /// # Errors
    /// What keeps it from that.
    pub fn check_goal(&self, filter: FilterSpec, config: &Config) -> Result<(), CommandError> {
        let (Some(goal), FilterSpec::Valkey(spec)) = (self.goal, filter) else {
            return Ok(());
        };
        let limit = limits::of_valkey(config);
        let reached = Valkey::new(spec).scaled_capacity(spec.capacity(), goal, limit);
        reached.map(drop).map_err(|unreached| match unreached {
            Unreached::Bytes { .. } => CommandError::GoalBytes,
            Unreached::Rate { .. } => CommandError::GoalRate,
            Unreached::Layers { .. } => CommandError::GoalLayers,
            Unreached::Items { .. } => CommandError::GoalItems,
        })
    }

    /// Whether there is something for [`Self::check_goal`] to check.
    pub fn has_goal(&self) -> bool {
        self.goal.is_some()
    }
}

/// Takes an option's value.
///
/// # Errors
/// [`CommandError::Twice`] when it had one.
pub fn once<T>(option: &mut Option<T>, value: T, name: &'static str) -> Result<(), CommandError> {
    if option.replace(value).is_some() {
        Err(CommandError::Twice(name))
    } else {
        Ok(())
    }
}

/// Takes an option without a value.
///
/// # Errors
/// [`CommandError::Twice`] when it was given before.
pub fn flag(option: &mut bool, name: &'static str) -> Result<(), CommandError> {
    if std::mem::replace(option, true) {
        Err(CommandError::Twice(name))
    } else {
        Ok(())
    }
}

/// An error rate as it was asked for, and as it is used in all layouts but valkey-bloom's.
#[derive(Clone, Copy, Debug)]
pub struct AskedRate {
    /// As it was asked for.
    pub asked: f64,
    /// As it is used.
    pub used: ErrorRate,
}

impl AskedRate {
    /// Takes an error rate.
    ///
    /// # Errors
    /// `bad` for what is no number, `range` for what is no rate.
    pub fn take<'a>(
        value: impl Argument<'a>,
        bad: CommandError,
        range: CommandError,
    ) -> Result<Self, CommandError> {
        let asked = double(value).ok_or(bad)?;
        let used = ErrorRate::new(asked).map_err(|_| range)?;
        Ok(Self { asked, used })
    }

    /// That of filters which are made without one.
    pub fn configured(config: &Config) -> Self {
        Self {
            asked: config.asked_error_rate(),
            used: config.error_rate(),
        }
    }
}

/// A number, which may be one that no double can tell from 0 or an infinity.
fn double<'a>(value: impl Argument<'a>) -> Option<f64> {
    let number = value.double().or_else(|| number::beyond_doubles(value.bytes()));
    number.filter(|number| !number.is_nan())
}

/// Tells the log of a rate that is not used as it was asked for.
pub fn warn_of_rate(ctx: Ctx<'_>, key: Arg<'_>, asked: f64, used: f64) {
    if asked != used {
        log::RATE.warn(ctx, key.bytes(), || {
            let [asked, used] = [asked, used].map(number::short);
            format!("error rate {asked} is used as {used}")
        });
    }
}

/// Takes a capacity.
///
/// # Errors
/// `bad` for what is no number, `range` for what is no capacity.
pub fn capacity<'a>(
    value: impl Argument<'a>,
    bad: CommandError,
    range: CommandError,
) -> Result<Capacity, CommandError> {
    let items = integer(value.bytes()).ok_or(bad)?;
    u64::try_from(items)
        .ok()
        .and_then(|items| Capacity::new(items).ok())
        .ok_or(range)
}

/// The filter that a BF.ADD makes of a missing key. A primary with this module never sends it one: it sends what
/// it made. So it is RedisBloom's, which makes its own by default.
pub fn by_default(ctx: Ctx<'_>) -> Result<Creation, CommandError> {
    let config = options::config();
    if ctx.is_relayed() {
        let spec = redisbloom::Described::default().spec(&config, Release::of_server(ctx))?;
        return Ok(FilterSpec::Classic(spec).into());
    }
    let filter = FilterOptions::default().filter(
        AskedRate::configured(&config),
        config.initial_size(),
        false,
        &config,
    )?;
    Ok(filter.into())
}

/// Makes a filter, within what this command may take.
///
/// # Errors
/// [`CommandError::NoMemoryToCreate`]; nothing is left behind.
pub fn make(ctx: Ctx<'_>, key: Arg<'_>, creation: Creation) -> Result<Box<Counted>, CommandError> {
    let filter = creation
        .filter
        .make(&|demand| limits::allows(ctx, key.bytes(), demand));
    filter.map(Counted::new).map_err(|error| {
        stats::refused_creation();
        tell_of_lack(ctx, key, error);
        CommandError::of_creation(error)
    })
}

/// Makes a filter in a missing key, and propagates that.
///
/// # Errors
/// Those of [`make`].
pub fn create_empty(
    ctx: Ctx<'_>,
    name: Arg<'_>,
    key: &mut KeyMut<'_>,
    creation: Creation,
) -> Result<(), CommandError> {
    key.set(make(ctx, name, creation)?, creation.expires);
    propagation::replicate(ctx, name, creation);
    Ok(())
}

/// Tells the log what the allocator did not give; of limits it knows already.
pub fn tell_of_lack(ctx: Ctx<'_>, key: Arg<'_>, error: Error) {
    if let Error::OutOfMemory { bytes } = error {
        log::REFUSAL.warn(ctx, key.bytes(), || {
            format!("there is no memory for {bytes} bytes of a Bloom filter")
        });
    }
}
