//! This module's options: what a command says of the filter to create, of its key and of its items. RedisBloom's and
//! valkey-bloom's words are in [`rivals`](crate::rivals).

use std::ffi::CStr;

use super::args::{Argument, Capitals, Cursor, capacity_of, flag, number, once, whole};
use super::error::CommandError;
use super::packing::Packing;
use super::target::Creation;
use crate::options::values::Config;
use libbloom::Layout;
use libbloom::layouts::valkey::Unreached;
use libbloom::params::{
    Capacity, ErrorRate, Expansion, Growth, LATEST, Seed, SipSeed, Tightening, Time, Window,
};
use libbloom::spec::{BlockedSpec, ClassicSpec, Spec, ValkeySpec};

/// A command that has options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`name` says which they are")]
pub enum Verb {
    Reserve,
    Plan,
    Insert,
    AddPacked,
}

impl Verb {
    fn name(self) -> &'static CStr {
        match self {
            Self::Reserve => c"bf.reserve",
            Self::Plan => c"bf.plan",
            Self::Insert => c"bf.insert",
            Self::AddPacked => c"bf.addpacked",
        }
    }

    /// Whether the command adds items. The others begin with an error rate and a capacity, without words.
    fn adds(self) -> bool {
        matches!(self, Self::Insert | Self::AddPacked)
    }

    /// The error for a word without its value, which is RedisBloom's where RedisBloom has the option.
    fn no_value(self, word: &'static str) -> CommandError {
        match (self, word) {
            (Self::Insert, "CAPACITY" | "ERROR" | "EXPANSION") => CommandError::Arity,
            (Self::Reserve | Self::Plan, "EXPANSION") => CommandError::NO_EXPANSION,
            _ => CommandError::NoValue(word),
        }
    }
}

/// The options of a command, by their words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the page of the options says what they mean")]
pub struct Given {
    pub rate: Option<RequestedRate>,
    pub capacity: Option<Capacity>,
    /// The capacity of a new layer divided by that of the layer before it; 0 where the filter does not grow.
    pub expansion: Option<u32>,
    pub nonscaling: bool,
    pub growing: bool,
    pub seed: Option<GivenSeed>,
    pub layout: Option<Layout>,
    pub tightening: Option<Tightening>,
    /// VALIDATESCALETO.
    pub goal: Option<u64>,
    pub window: Option<u32>,
    pub slices: Option<u8>,
    pub refresh: bool,
    pub no_create: bool,
    /// NX.
    pub only_new: bool,
    pub at: Option<Time>,
    pub expiry: Option<Expiry>,
    pub packing: Packing,
    /// Whether the word ITEMS ended the options.
    pub has_items: bool,
    /// The key to create as a server says it, whatever the configuration. The options above then describe none.
    pub told: Option<Creation>,
}

impl Given {
    /// Reads the error rate and capacity of a command that begins with them, and then all options, up to ITEMS.
    pub(crate) fn parse<'a, A: Argument<'a>>(
        verb: Verb,
        cursor: &mut Cursor<'a, A>,
    ) -> Result<Self, CommandError> {
        let mut given = Self::default();
        let adds = verb.adds();
        if !adds {
            let (rate, capacity) = (cursor.take()?, cursor.take()?);
            given.rate = Some(RequestedRate::read(rate)?);
            given.capacity = Some(capacity_of(capacity)?);
        }
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if verb == Verb::AddPacked && given.packing.take(word, cursor)? {
                continue;
            }
            let mut value = |name| cursor.take_if_any().ok_or_else(|| verb.no_value(name));
            match Capitals::of(word).word() {
                b"ITEMS" if verb == Verb::Insert => {
                    given.has_items = true;
                    break;
                }
                b"CAPACITY" if adds => {
                    let capacity = capacity_of(value("CAPACITY")?);
                    let capacity = capacity.map_err(|_| CommandError::BAD_INSERT_CAPACITY)?;
                    once(&mut given.capacity, capacity, "CAPACITY")?;
                }
                b"ERROR" if adds => {
                    let rate = RequestedRate::read(value("ERROR")?);
                    let rate = rate.map_err(|_| CommandError::BAD_INSERT_ERROR_RATE)?;
                    once(&mut given.rate, rate, "ERROR")?;
                }
                b"EXPANSION" => {
                    let factor = number(value("EXPANSION")?, "expansion", 0..=Expansion::MAX);
                    let factor = match factor {
                        Err(_) if adds => return Err(CommandError::BAD_INSERT_EXPANSION),
                        factor => factor?,
                    };
                    once(&mut given.expansion, factor, "EXPANSION")?;
                }
                b"NOCREATE" if adds => flag(&mut given.no_create, "NOCREATE")?,
                b"NONSCALING" => flag(&mut given.nonscaling, "NONSCALING")?,
                b"GROWING" => flag(&mut given.growing, "GROWING")?,
                b"SEED" => once(&mut given.seed, GivenSeed::read(value("SEED")?)?, "SEED")?,
                b"LAYOUT" => {
                    let layout = Layout::named(value("LAYOUT")?.bytes());
                    let layout = layout.ok_or(CommandError::BAD_LAYOUT)?;
                    once(&mut given.layout, layout, "LAYOUT")?;
                }
                b"TIGHTENING" => {
                    let ratio = double(value("TIGHTENING")?).ok_or(CommandError::Bad("tightening ratio"))?;
                    let ratio = Tightening::new(ratio).map_err(|_| CommandError::TIGHTENING_RANGE)?;
                    once(&mut given.tightening, ratio, "TIGHTENING")?;
                }
                b"VALIDATESCALETO" => {
                    let (name, most) = ("VALIDATESCALETO", i64::MAX.cast_unsigned());
                    once(&mut given.goal, number(value(name)?, name, 1..=most)?, name)?;
                }
                b"WINDOW" => {
                    let seconds = number(value("WINDOW")?, "window", 1..=Window::MAX_SECONDS)?;
                    once(&mut given.window, seconds, "WINDOW")?;
                }
                b"SLICES" => {
                    let slices = number(value("SLICES")?, "slices", Window::SLICES)?;
                    once(&mut given.slices, slices, "SLICES")?;
                }
                b"REFRESH" => flag(&mut given.refresh, "REFRESH")?,
                b"AT" if adds => once(&mut given.at, number(value("AT")?, "time", 0..=LATEST)?, "AT")?,
                b"NX" if verb == Verb::Reserve => flag(&mut given.only_new, "NX")?,
                b"EX" if verb != Verb::Plan => given.expire(Expiry::read("EX", value("EX")?, verb)?)?,
                b"PX" if verb != Verb::Plan => given.expire(Expiry::read("PX", value("PX")?, verb)?)?,
                b"EXAT" if verb != Verb::Plan => given.expire(Expiry::read("EXAT", value("EXAT")?, verb)?)?,
                b"PXAT" if verb != Verb::Plan => given.expire(Expiry::read("PXAT", value("PXAT")?, verb)?)?,
                _ => return Err(CommandError::unknown(word)),
            }
        }
        given.check(adds)?;
        Ok(given)
    }

    fn expire(&mut self, expiry: Expiry) -> Result<(), CommandError> {
        match self.expiry.replace(expiry) {
            None => Ok(()),
            Some(earlier) if earlier.word == expiry.word => Err(CommandError::Twice(expiry.word)),
            Some(earlier) => Err(CommandError::Exclusive(earlier.word, expiry.word)),
        }
    }

    /// Checks that the options can describe a filter, whatever the configuration is.
    fn check(&self, adds: bool) -> Result<(), CommandError> {
        let fixed = match self.expansion {
            // In RedisBloom's BF.INSERT, NONSCALING overrides EXPANSION.
            Some(1..) if self.nonscaling && !adds => return Err(CommandError::NON_SCALING_EXPANSION),
            _ if self.nonscaling => Some("NONSCALING"),
            Some(0) => Some("EXPANSION 0"),
            _ => None,
        };
        if let Some(fixed) = fixed {
            match self.needs_growth() {
                Some(goal @ "VALIDATESCALETO") => return Err(CommandError::Exclusive(goal, fixed)),
                Some(other) => return Err(CommandError::Exclusive(fixed, other)),
                None => {}
            }
        }
        match self.window {
            Some(_) if self.growing => return Err(CommandError::Exclusive("GROWING", "WINDOW")),
            None if self.slices.is_some() => return Err(CommandError::NeedsWindow("SLICES")),
            None if self.refresh => return Err(CommandError::NeedsWindow("REFRESH")),
            _ => {}
        }
        self.given_layout()
            .map_or(Ok(()), |layout| self.check_for(layout, false))
    }

    /// A given option that only a filter that grows can have.
    fn needs_growth(&self) -> Option<&'static str> {
        match self.window {
            _ if self.growing => Some("GROWING"),
            _ if self.goal.is_some() => Some("VALIDATESCALETO"),
            window => window.map(|_| "WINDOW"),
        }
    }

    /// The layout that was given, or valkey-bloom's if an option was given that only it has.
    fn given_layout(&self) -> Option<Layout> {
        let implied = self.of_valkey().map(|_| Layout::Valkey);
        self.layout.or(implied)
    }

    fn layout(&self, config: &Config) -> Layout {
        self.given_layout().unwrap_or(config.layout)
    }

    /// Whether a BF.INSERT may lack ITEMS, unless the key holds a filter: valkey-bloom's may, as may a server's.
    pub(crate) fn may_lack_items(&self, config: &Config) -> bool {
        self.told.is_some() || self.layout(config) == Layout::Valkey
    }

    /// A given option that only filters in valkey-bloom's layout have.
    fn of_valkey(&self) -> Option<&'static str> {
        match self.seed {
            Some(GivenSeed::Bytes(_)) => Some("SEED of 32 bytes"),
            _ if self.tightening.is_some() => Some("TIGHTENING"),
            _ => self.goal.map(|_| "VALIDATESCALETO"),
        }
    }

    /// Checks that filters of this layout have all given options; `is_configured` if the module's option says it.
    fn check_for(&self, layout: Layout, is_configured: bool) -> Result<(), CommandError> {
        let (option, layouts) = match layout {
            Layout::Classic if matches!(self.seed, Some(GivenSeed::Number(_))) => {
                (Some("SEED"), "BLOCKED or VALKEY")
            }
            Layout::Classic | Layout::Valkey if self.growing => (Some("GROWING"), "BLOCKED"),
            Layout::Classic | Layout::Valkey if self.window.is_some() => (Some("WINDOW"), "BLOCKED"),
            Layout::Valkey => (None, ""),
            _ => (self.of_valkey(), "VALKEY"),
        };
        option.map_or(Ok(()), |option| {
            Err(CommandError::OnlyFor {
                option,
                layouts,
                configured: is_configured.then_some(layout),
            })
        })
    }

    /// The described filter, with the configuration for what the options leave open.
    pub(crate) fn filter(&self, config: &Config) -> Result<Spec, CommandError> {
        let layout = self.layout(config);
        if self.given_layout().is_none() {
            self.check_for(layout, true)?;
        }
        let factor = match self.expansion {
            _ if self.nonscaling => 0,
            factor => factor.unwrap_or(config.expansion_factor),
        };
        let expansion = Expansion::new(factor).ok();
        if let (None, Some(option)) = (expansion, self.needs_growth()) {
            return Err(CommandError::FixedByOption(option));
        }
        let rate = self.rate.unwrap_or_else(|| RequestedRate {
            requested: config.requested_error_rate,
            used: config.error_rate(),
        });
        let capacity = self.capacity.unwrap_or(config.initial_size);
        match layout {
            Layout::Classic => {
                // One that does not grow has the expansion that RedisBloom would store and not use.
                let unused = self.expansion.unwrap_or(if self.nonscaling {
                    ClassicSpec::UNUSED_EXPANSION
                } else {
                    0
                });
                let stored = expansion.map_or(unused, Expansion::factor);
                ClassicSpec::new(rate.used.value(), capacity.items(), stored, expansion.is_some())
                    .map(Spec::Classic)
            }
            Layout::Valkey => {
                let seed = match self.seed {
                    Some(GivenSeed::Bytes(seed)) => seed,
                    Some(GivenSeed::Number(seed)) => seed.into(),
                    None => config.seed().into(),
                };
                let tightening = self.tightening.unwrap_or(Tightening::DEFAULT);
                ValkeySpec::new(rate.requested, capacity.items(), factor, tightening, seed).map(Spec::Valkey)
            }
            _ => {
                let slices = self.slices.unwrap_or(Window::USUAL_SLICES);
                let window = self
                    .window
                    .map(|seconds| Window::new(seconds, slices, self.refresh));
                // Without a given capacity a filter is expected to grow far.
                let grows_far = self.window.is_none() && (self.growing || self.capacity.is_none());
                window.transpose().map(|window| {
                    Spec::Blocked(BlockedSpec {
                        error_rate: rate.used,
                        capacity,
                        growth: match expansion {
                            None => Growth::Fixed,
                            Some(expansion) if grows_far => Growth::Growing(expansion),
                            Some(expansion) => Growth::Reserved(expansion),
                        },
                        seed: match self.seed {
                            Some(GivenSeed::Number(seed)) => seed,
                            Some(GivenSeed::Bytes(_)) | None => config.seed(),
                        },
                        window,
                    })
                })
            }
        }
        // All values were checked when they were read.
        .map_err(|_| CommandError::ERROR_RATE_RANGE)
    }

    /// The key to create if it is missing, unless the command has NOCREATE, or options that the configuration excludes;
    /// `now` gives the milliseconds of the Unix clock.
    pub fn creation(&self, config: &Config, now: impl FnOnce() -> i64) -> Result<Creation, CommandError> {
        match self.told {
            _ if self.no_create => Err(CommandError::NOT_FOUND),
            Some(told) => Ok(told),
            None => Ok(Creation {
                filter: self.filter(config)?,
                expires: self.expiry.map(|expiry| expiry.resolved(now)),
            }),
        }
    }

    /// Checks that the described filter can grow to VALIDATESCALETO.
    pub(crate) fn check_goal(&self, filter: Spec, config: &Config) -> Result<(), CommandError> {
        let (Some(goal), Spec::Valkey(spec)) = (self.goal, filter) else {
            return Ok(());
        };
        let limit = config.max_filter_bytes();
        let reached = spec.rules().scaled_capacity(spec.capacity(), goal, limit);
        reached.map(drop).map_err(|unreached| match unreached {
            Unreached::Bytes { .. } => CommandError::GOAL_BYTES,
            Unreached::Rate { .. } => CommandError::GOAL_RATE,
            Unreached::Layers { .. } => CommandError::GoalLayers,
            Unreached::Items { .. } => CommandError::GoalItems,
        })
    }
}

fn double<'a>(value: impl Argument<'a>) -> Option<f64> {
    value.double().filter(|number| !number.is_nan())
}

/// An error rate as it was requested, and as it is used in all layouts but valkey-bloom's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "both are explained above")]
pub struct RequestedRate {
    pub requested: f64,
    pub used: ErrorRate,
}

impl RequestedRate {
    pub(crate) fn read<'a>(value: impl Argument<'a>) -> Result<Self, CommandError> {
        let requested = double(value).ok_or(CommandError::Bad("error rate"))?;
        let used = ErrorRate::new(requested).map_err(|_| CommandError::ERROR_RATE_RANGE)?;
        Ok(Self { requested, used })
    }
}

/// A seed as an argument gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "their types say what they are")]
pub enum GivenSeed {
    Number(Seed),
    Bytes(SipSeed),
}

impl GivenSeed {
    /// Parses a seed. 32 bytes are never a number, which has 20 digits at most.
    fn read<'a>(value: impl Argument<'a>) -> Result<Self, CommandError> {
        if let Ok(bytes) = value.bytes().try_into() {
            return Ok(Self::Bytes(SipSeed(bytes)));
        }
        number(value, "seed", 0..=u64::MAX).map(|seed| Self::Number(Seed(seed)))
    }
}

/// The expiry of a key, in the words of SET. The server that the client talks to resolves it once, by its own clock, so
/// that the filter expires at the same moment on every replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expiry {
    word: &'static str,
    /// The time, 1 or more; the sum with a clock before the year 9999 fits too.
    milliseconds: i64,
    /// Whether the time counts from now instead of from 1970.
    from_now: bool,
}

/// The end of the year 9999 in milliseconds of the Unix clock.
const LAST_DAY: i64 = 253_402_300_800_000;

impl Expiry {
    fn read<'a>(word: &'static str, value: impl Argument<'a>, verb: Verb) -> Result<Self, CommandError> {
        let from_now = matches!(word, "EX" | "PX");
        let unit = if matches!(word, "EX" | "EXAT") { 1000 } else { 1 };
        let time = whole(value.bytes())
            .ok_or(CommandError::NO_INTEGER)?
            .checked_mul(unit);
        let farthest = i64::MAX - if from_now { LAST_DAY } else { 0 };
        let time = time.filter(|time| (1..=farthest).contains(time));
        Ok(Self {
            word,
            milliseconds: time.ok_or(CommandError::ExpireTime(verb.name()))?,
            from_now,
        })
    }

    fn resolved(self, now: impl FnOnce() -> i64) -> i64 {
        let start = if self.from_now { now() } else { 0 };
        self.milliseconds.saturating_add(start)
    }
}

#[cfg(test)]
mod tests;
