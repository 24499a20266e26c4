//! `BF.RESERVE key error_rate capacity [EXPANSION n] [NONSCALING] [GROWING] [SEED s] [LAYOUT l]`

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::creation::{self, AskedRate, Dialect, FilterOptions};
use super::docs::{Docs, EXPANSION, GROWING, KEY_TO_CREATE, Kind, LAYOUT, NONSCALING, Parameter, SEED};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::params::{Capacity, Spec};
use crate::config::Config;
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
};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<A> {
    key: A,
    filter: Description,
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
        let filter = Description::parse(cursor)?;
        Ok(Self { key, filter })
    }

    /// The filter that was asked for.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn spec(&self, config: &Config) -> Result<Spec, CommandError> {
        self.filter.spec(config)
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
        options.check()?;
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
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::parse(arguments)?;
        let spec = request.spec(&options::config())?;
        let mut key = keyspace::write(ctx, request.key)?;
        if key.filter().is_some() {
            return Err(CommandError::Exists);
        }
        key.set(creation::make(ctx, request.key, spec)?);
        request.filter.rate.warn_if_limited(ctx, request.key);
        creation::replicate(ctx, request.key, spec);
        key.changed(c"bf.reserve");
        Reply(ctx).ok();
        Ok(())
    }
}
