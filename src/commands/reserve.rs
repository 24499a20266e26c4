//! `BF.RESERVE key error_rate capacity [EXPANSION n] [NONSCALING] [GROWING] [SEED s] [LAYOUT l]
//! [TIGHTENING t] [VALIDATESCALETO n] [WINDOW s [SLICES n] [REFRESH]] [NX] [EX s|PX ms|EXAT s|PXAT ms]`

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::creation::{self, AskedRate, Creation, Dialect, FilterOptions, FilterSpec};
use super::docs::{
    Docs, EXPANSION, EXPIRY, GROWING, KEY_TO_CREATE, Kind, LAYOUT, NONSCALING, NX, Parameter, REFRESH, SEED,
    SLICES, TIGHTENING, VALIDATESCALETO, WINDOW,
};
use super::error::CommandError;
use super::expiry::KeyOptions;
use super::redisbloom::{self, Described, Release};
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::params::Capacity;
use crate::options::values::Config;
use crate::server::{self, Arg, Ctx};
use crate::{keyspace, options};

/// Creates an empty filter.
pub struct Reserve;

/// The key, then what a [`Description`] is read from, then what is said of the key.
const PARAMETERS: &[Parameter] = &[
    KEY_TO_CREATE,
    Parameter::new(c"error_rate", Kind::Double),
    Parameter::new(c"capacity", Kind::Integer),
    EXPANSION,
    NONSCALING,
    GROWING,
    SEED,
    LAYOUT,
    TIGHTENING,
    VALIDATESCALETO,
    WINDOW,
    SLICES,
    REFRESH,
    NX,
    EXPIRY,
];

/// What a [`Description`] is read from.
pub const DESCRIPTION: &[Parameter] = PARAMETERS.split_at(PARAMETERS.len() - 2).0.split_at(1).1;

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
    options: KeyOptions,
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
        let mut options = KeyOptions::default();
        let filter = Description::parse(cursor, |word, cursor| options.take(word, cursor, Reserve::NAME))?;
        Ok(Self {
            key,
            filter: Asked::Own(filter),
            options,
        })
    }

    /// Reads them as a primary or a file has them: the words of this module, or RedisBloom's. What a later version of
    /// this module says, and this one does not know, is no word of RedisBloom's: without an error a replica would have
    /// another filter, and nobody would hear of it. But up to three such words are what a client of a RedisBloom may
    /// have written there in vain.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn obey(arguments: &'a [A]) -> Result<Self, CommandError> {
        let own = Self::parse(arguments);
        let words = arguments.get(3..).unwrap_or_default();
        if redisbloom::is_own(words) && (own.is_ok() || words.len() > redisbloom::MOST_WORDS) {
            return own;
        }
        Described::reserve(arguments).map_or(own, |(key, filter)| {
            Ok(Self {
                key,
                filter: Asked::RedisBloom(filter),
                options: KeyOptions::default(),
            })
        })
    }

    /// Whether the filter can grow as far as a client asked for, be the key missing or not.
    ///
    /// # Errors
    /// What keeps it from that, and options that the configuration excludes.
    pub fn check_goal(&self, config: &Config) -> Result<(), CommandError> {
        match &self.filter {
            Asked::Own(filter) => filter.checked(config).map(drop),
            Asked::RedisBloom(_) => Ok(()),
        }
    }

    /// What was asked for, if it is made `now`.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn creation(&self, config: &Config, release: Release, now: i64) -> Result<Creation, CommandError> {
        let filter = match &self.filter {
            Asked::Own(filter) => filter.filter(config)?,
            Asked::RedisBloom(filter) => FilterSpec::Classic(filter.spec(config, release)?),
        };
        Ok(Creation {
            filter,
            expires: self.options.expires(now),
        })
    }
}

impl Request<Arg<'_>> {
    /// Tells the log of a rate that is not used as it was asked for.
    fn warn_of_rate(&self, ctx: Ctx<'_>, config: &Config, made: FilterSpec) {
        let asked = match &self.filter {
            Asked::Own(filter) => filter.rate.asked,
            Asked::RedisBloom(filter) => filter.asked_rate(config),
        };
        creation::warn_of_rate(ctx, self.key, asked, made.error_rate());
    }
}

impl Description {
    /// Reads all of the arguments. `other` takes words that are not about the filter, if there may be any.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse<'a, A: Argument<'a>>(
        mut cursor: Cursor<'a, A>,
        mut other: impl FnMut(&[u8], &mut Cursor<'a, A>) -> Result<bool, CommandError>,
    ) -> Result<Self, CommandError> {
        let (rate, items) = (cursor.take()?, cursor.take()?);
        let rate = AskedRate::take(rate, CommandError::BadErrorRate, CommandError::ErrorRateRange)?;
        let capacity = creation::capacity(items, CommandError::BadCapacity, CommandError::CapacityRange)?;
        let mut options = FilterOptions::default();
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if !options.take(word, &mut cursor, &DIALECT)? && !other(word, &mut cursor)? {
                return Err(CommandError::unknown(word));
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
    pub fn filter(&self, config: &Config) -> Result<FilterSpec, CommandError> {
        self.options.filter(self.rate, self.capacity, true, config)
    }

    /// The filter that a client described: it can also grow as far as he asks for.
    ///
    /// # Errors
    /// What keeps it from that, and those of [`Self::filter`].
    pub fn checked(&self, config: &Config) -> Result<FilterSpec, CommandError> {
        let filter = self.filter(config)?;
        self.options.check_goal(filter, config)?;
        Ok(filter)
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
        let config = options::config();
        let request = if ctx.is_relayed() {
            Request::obey(arguments)?
        } else {
            Request::parse(arguments)?
        };
        if !ctx.must_obey() {
            request.check_goal(&config)?;
        }
        let creation = request.creation(&config, Release::of_server(ctx), server::milliseconds())?;
        let mut key = keyspace::write(ctx, request.key)?;
        if key.filter().is_some() {
            if !request.options.only_new {
                return Err(CommandError::Exists);
            }
            Reply(ctx).null();
            return Ok(());
        }
        creation::create_empty(ctx, request.key, &mut key, creation)?;
        request.warn_of_rate(ctx, &config, creation.filter);
        key.changed(&[c"bf.reserve"]);
        Reply(ctx).ok();
        Ok(())
    }
}
