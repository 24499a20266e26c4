//! Filters to be created: the options that describe one, and the making. How a creation is propagated is in
//! [`propagation`](super::propagation).

use super::args::{Argument, Cursor, integer};
use super::error::CommandError;
use super::redisbloom::{self, Release};
use crate::bloom::chain::Allowance;
use crate::bloom::params::{
    Capacity, ClassicSpec, ErrorRate, Expansion, Growth, Layout, Seed, SipSeed, Spec, Tightening, ValkeySpec,
    Window,
};
use crate::bloom::{Error, Filter};
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

/// Options that describe a filter, as far as they were given.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    expansion: Option<u32>,
    nonscaling: bool,
    growing: bool,
    seed: Option<Seed>,
    layout: Option<LayoutName>,
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
            let seed = number::whole(value.bytes()).ok_or(CommandError::BadSeed)?;
            let seed = u64::try_from(seed).map_err(|_| CommandError::SeedRange)?;
            once(&mut self.seed, Seed(seed), "SEED")?;
        } else if word.eq_ignore_ascii_case(b"LAYOUT") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("LAYOUT"))?;
            let layout = LayoutName::named(value.bytes()).ok_or(CommandError::BadLayout)?;
            once(&mut self.layout, layout, "LAYOUT")?;
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
        if self.window.is_some() {
            for (is_set, word) in [
                (self.nonscaling, "NONSCALING"),
                (self.growing, "GROWING"),
                (self.expansion == Some(0), "EXPANSION 0"),
            ] {
                if is_set {
                    return Err(CommandError::Exclusive(word, "WINDOW"));
                }
            }
        } else if self.slices.is_some() {
            return Err(CommandError::NeedsWindow("SLICES"));
        } else if self.refresh {
            return Err(CommandError::NeedsWindow("REFRESH"));
        }
        match self.layout {
            Some(LayoutName::Classic) => self.check_classic(),
            _ => Ok(()),
        }
    }

    fn check_classic(&self) -> Result<(), CommandError> {
        for (is_set, word) in [
            (self.seed.is_some(), "SEED"),
            (self.growing, "GROWING"),
            (self.window.is_some(), "WINDOW"),
        ] {
            if is_set {
                return Err(CommandError::OnlyBlocked(word));
            }
        }
        Ok(())
    }

    /// The filter that these options, and the configuration for what they leave open, describe.
    /// `within_capacity` says that the user gave a capacity to stay within.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn resolve(
        &self,
        error_rate: ErrorRate,
        capacity: Capacity,
        within_capacity: bool,
        config: &Config,
    ) -> Result<Spec, CommandError> {
        let expansion = match (self.nonscaling, self.expansion) {
            (true, _) => None,
            (false, Some(factor)) => Expansion::new(factor).ok(),
            (false, None) => config.expansion(),
        };
        let (layout, growing) = match self.layout.unwrap_or(config.layout()) {
            LayoutName::Classic => {
                self.check_classic().map_err(CommandError::by_layout_option)?;
                (Layout::Classic, false)
            }
            LayoutName::Valkey => {
                let seed = SipSeed::from(self.seed.unwrap_or(config.seed()));
                let tightening = Tightening::DEFAULT;
                (Layout::Valkey { seed, tightening }, false)
            }
            LayoutName::Blocked => {
                let seed = self.seed.unwrap_or(config.seed());
                (Layout::Blocked { seed }, self.growing || !within_capacity)
            }
        };
        let slices = self.slices.unwrap_or(Window::USUAL_SLICES);
        let window = self
            .window
            .map(|seconds| Window::new(seconds, slices, self.refresh).map_err(|_| CommandError::SlicesRange))
            .transpose()?;
        let growth = match expansion {
            None if self.growing => return Err(CommandError::FixedByOption("GROWING")),
            None if window.is_some() => return Err(CommandError::FixedByOption("WINDOW")),
            None => Growth::Fixed,
            Some(expansion) if growing && window.is_none() => Growth::Growing(expansion),
            Some(expansion) => Growth::Reserved(expansion),
        };
        Ok(Spec {
            error_rate,
            capacity,
            growth,
            layout,
            window,
        })
    }

    /// [`Self::resolve`] for a filter that is to be made: with the expansion that RedisBloom would store in one
    /// that does not use it.
    ///
    /// # Errors
    /// Those of [`Self::resolve`].
    pub fn filter(
        &self,
        error_rate: ErrorRate,
        capacity: Capacity,
        within_capacity: bool,
        config: &Config,
    ) -> Result<FilterSpec, CommandError> {
        let spec = self.resolve(error_rate, capacity, within_capacity, config)?;
        Ok(match spec.layout {
            Layout::Blocked { .. } => FilterSpec::Blocked(spec),
            Layout::Classic => {
                let otherwise = if self.nonscaling {
                    ClassicSpec::UNUSED_EXPANSION
                } else {
                    0
                };
                let unused = self.expansion.unwrap_or(otherwise);
                FilterSpec::Classic(ClassicSpec::from(spec).with_unused_expansion(unused))
            }
            Layout::Valkey { seed, tightening } => FilterSpec::Valkey(ValkeySpec::of(spec, tightening, seed)),
        })
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

/// An error rate as it was asked for, and as it is used.
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
        let number = value.double().or_else(|| number::beyond_doubles(value.bytes()));
        let asked = number.filter(|rate| !rate.is_nan()).ok_or(bad)?;
        let used = ErrorRate::new(asked).map_err(|_| range)?;
        Ok(Self { asked, used })
    }

    /// Tells the log of a rate that is not used as it was asked for.
    pub fn warn_if_limited(self, ctx: Ctx<'_>, key: Arg<'_>) {
        warn_of_rate(ctx, key, self.asked, self.used.value());
    }
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
    let filter =
        FilterOptions::default().filter(config.error_rate(), config.initial_size(), false, &config)?;
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

/// Tells the log what the allocator did not give; of limits it knows already.
pub fn tell_of_lack(ctx: Ctx<'_>, key: Arg<'_>, error: Error) {
    if let Error::OutOfMemory { bytes } = error {
        log::REFUSAL.warn(ctx, key.bytes(), || {
            format!("there is no memory for {bytes} bytes of a Bloom filter")
        });
    }
}
