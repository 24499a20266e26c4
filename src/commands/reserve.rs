//! `BF.RESERVE key error_rate capacity [EXPANSION n] [NONSCALING] [GROWING] [SEED s] [LAYOUT l]`

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::creation::{self, AskedRate, Creation, Dialect, FilterOptions};
use super::docs::{Docs, EXPANSION, GROWING, KEY_TO_CREATE, Kind, LAYOUT, NONSCALING, Parameter, SEED};
use super::error::CommandError;
use super::redisbloom::{self, Described, Release};
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::params::{Capacity, Spec};
use crate::options::values::Config;
use crate::server::{Arg, Ctx};
use crate::{keyspace, options};

/// Creates an empty filter.
pub struct Reserve;

/// The key, and then what a [`Description`] is read from.
pub const PARAMETERS: &[Parameter] = &[
    KEY_TO_CREATE,
    Parameter::new(c"error_rate", Kind::Double),
    Parameter::new(c"capacity", Kind::Integer),
    EXPANSION,
    NONSCALING,
    GROWING,
    SEED,
    LAYOUT,
];

const DIALECT: Dialect = Dialect {
    no_expansion: CommandError::NoExpansion,
    bad_expansion: CommandError::BadExpansion,
    expansion_range: CommandError::ExpansionRange,
    nonscaling_expansion: Some(CommandError::NonScalingExpansion),
};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<A> {
    key: A,
    filter: Asked,
}

/// The filter that was asked for.
#[derive(Clone, Debug)]
enum Asked {
    /// In the words of this module.
    Own(Description),
    /// In RedisBloom's.
    RedisBloom(Described),
}

/// A filter: `error_rate capacity`, and options.
#[derive(Clone, Debug)]
pub struct Description {
    rate: AskedRate,
    capacity: Capacity,
    options: FilterOptions,
}

impl<'a, A: Argument<'a>> Request<A> {
    /// Reads the arguments after the command's name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let filter = Asked::Own(Description::parse(cursor)?);
        Ok(Self { key, filter })
    }

    /// Reads them as a primary or a file has them: the words of this module, or RedisBloom's.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn obey(arguments: &'a [A]) -> Result<Self, CommandError> {
        let own = Self::parse(arguments);
        if own.is_ok() && redisbloom::is_own(arguments.get(3..).unwrap_or_default()) {
            return own;
        }
        Described::reserve(arguments).map_or(own, |(key, filter)| {
            let filter = Asked::RedisBloom(filter);
            Ok(Self { key, filter })
        })
    }

    /// The filter that was asked for.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn creation(&self, config: &Config, release: Release) -> Result<Creation, CommandError> {
        match &self.filter {
            Asked::Own(filter) => filter.creation(config),
            Asked::RedisBloom(filter) => filter.spec(config, release).map(Creation::Classic),
        }
    }
}

impl Request<Arg<'_>> {
    /// Tells the log of a rate that is not used as it was asked for.
    fn warn_of_rate(&self, ctx: Ctx<'_>, config: &Config, creation: Creation) {
        match (&self.filter, creation) {
            (Asked::Own(filter), _) => filter.rate.warn_if_limited(ctx, self.key),
            (Asked::RedisBloom(filter), Creation::Classic(spec)) => {
                creation::warn_of_rate(ctx, self.key, filter.asked_rate(config), spec.error_rate());
            }
            (Asked::RedisBloom(_), Creation::Blocked(_)) => {}
        }
    }
}

impl Description {
    /// Reads all of the arguments.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse<'a, A: Argument<'a>>(mut cursor: Cursor<'a, A>) -> Result<Self, CommandError> {
        let (rate, items) = (cursor.take()?, cursor.take()?);
        let rate = AskedRate::take(rate, CommandError::BadErrorRate, CommandError::ErrorRateRange)?;
        let capacity = creation::capacity(items, CommandError::BadCapacity, CommandError::CapacityRange)?;
        let mut options = FilterOptions::default();
        while let Some(word) = cursor.take_if_any() {
            if !options.take(word.bytes(), &mut cursor, &DIALECT)? {
                return Err(CommandError::unknown(word.bytes()));
            }
        }
        options.check(&DIALECT)?;
        Ok(Self {
            rate,
            capacity,
            options,
        })
    }

    /// The filter that is described.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn spec(&self, config: &Config) -> Result<Spec, CommandError> {
        self.options.resolve(self.rate.used, self.capacity, true, config)
    }

    /// The same, to be made.
    fn creation(&self, config: &Config) -> Result<Creation, CommandError> {
        self.options.creation(self.rate.used, self.capacity, true, config)
    }
}

impl Command for Reserve {
    const NAME: &'static CStr = c"bf.reserve";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write fast";
    const DOCS: Docs = Docs {
        summary: c"Creates a new Bloom Filter",
        complexity: c"O(1)",
        since: c"1.0.0",
        parameters: PARAMETERS,
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = if ctx.is_relayed() {
            Request::obey(arguments)?
        } else {
            Request::parse(arguments)?
        };
        let config = options::config();
        let creation = request.creation(&config, Release::of_server(ctx))?;
        let mut key = keyspace::write(ctx, request.key)?;
        if key.filter().is_some() {
            return Err(CommandError::Exists);
        }
        key.set(creation::make(ctx, request.key, creation)?);
        request.warn_of_rate(ctx, &config, creation);
        creation::replicate(ctx, request.key, creation);
        key.changed(&[c"bf.reserve"]);
        Reply(ctx).ok();
        Ok(())
    }
}
