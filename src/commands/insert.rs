//! `BF.INSERT key [CAPACITY n] [ERROR e] [EXPANSION n] [NOCREATE] [NONSCALING] [GROWING] [SEED s]
//! [LAYOUT l] ITEMS item [item ...]`

use std::ffi::CStr;

use super::adding::Adding;
use super::args::{Argument, Cursor};
use super::creation::{self, AskedRate, Dialect, FilterOptions, flag, once};
use super::docs::{
    Docs, EXPANSION, GROWING, KEY_TO_ADD_TO, Kind, LAYOUT, NONSCALING, O_OF_MANY, Parameter, SEED,
};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::params::{Capacity, Spec};
use crate::config::Config;
use crate::options;

/// Adds items; creates the filter as described, if the key is missing.
pub struct Insert;

const DIALECT: Dialect = Dialect {
    no_expansion: CommandError::Arity,
    bad_expansion: CommandError::BadInsertExpansion,
    expansion_range: CommandError::BadInsertExpansion,
};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<'a, A> {
    key: A,
    capacity: Option<Capacity>,
    rate: Option<AskedRate>,
    no_create: bool,
    options: FilterOptions,
    items: &'a [A],
}

impl<'a, A: Argument<'a>> Request<'a, A> {
    /// Reads the arguments after the command's name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let (mut capacity, mut rate, mut no_create) = (None, None, false);
        let mut options = FilterOptions::default();
        loop {
            // Without ITEMS there is nothing to insert: the words run out.
            let word = cursor.take()?.bytes();
            if word.eq_ignore_ascii_case(b"ITEMS") {
                break;
            } else if word.eq_ignore_ascii_case(b"CAPACITY") {
                let bad = CommandError::BadInsertCapacity;
                once(
                    &mut capacity,
                    creation::capacity(cursor.take()?, bad.clone(), bad)?,
                    "CAPACITY",
                )?;
            } else if word.eq_ignore_ascii_case(b"ERROR") {
                let bad = CommandError::BadInsertErrorRate;
                once(
                    &mut rate,
                    AskedRate::take(cursor.take()?, bad.clone(), bad)?,
                    "ERROR",
                )?;
            } else if word.eq_ignore_ascii_case(b"NOCREATE") {
                flag(&mut no_create, "NOCREATE")?;
            } else if !options.take(word, &mut cursor, &DIALECT)? {
                return Err(CommandError::unknown(word));
            }
        }
        let items = cursor.at_least_one()?;
        options.check()?;
        Ok(Self {
            key,
            capacity,
            rate,
            no_create,
            options,
            items,
        })
    }

    /// The items to be added.
    pub fn items(&self) -> &'a [A] {
        self.items
    }

    /// RedisBloom takes NOCREATE with options of a filter to create; from a client it is a mistake.
    ///
    /// # Errors
    /// The option that NOCREATE excludes.
    fn check_no_create(&self) -> Result<(), CommandError> {
        match (self.no_create, self.capacity, self.rate) {
            (true, Some(_), _) => Err(CommandError::NoCreateWith("CAPACITY")),
            (true, None, Some(_)) => Err(CommandError::NoCreateWith("ERROR")),
            _ => Ok(()),
        }
    }

    /// The filter to be made, if the key is missing.
    ///
    /// # Errors
    /// Options that the configuration excludes.
    pub fn spec(&self, config: &Config) -> Result<Spec, CommandError> {
        let rate = self.rate.map_or(config.error_rate(), |rate| rate.used);
        let capacity = self.capacity.unwrap_or(config.initial_size());
        self.options
            .resolve(rate, capacity, self.capacity.is_some(), config)
    }
}

impl Command for Insert {
    const NAME: &'static CStr = c"bf.insert";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Adds one or more items to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_MANY,
        since: c"1.0.0",
        parameters: &[
            KEY_TO_ADD_TO,
            Parameter::option(c"capacity", c"CAPACITY", Kind::Integer),
            Parameter::option(c"error", c"ERROR", Kind::Double),
            EXPANSION,
            Parameter::option(c"nocreate", c"NOCREATE", Kind::Word),
            NONSCALING,
            GROWING,
            SEED,
            LAYOUT,
            Parameter::new(c"items", Kind::Text).after(c"ITEMS").multiple(),
        ],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::parse(arguments)?;
        if !ctx.must_obey() {
            request.check_no_create()?;
        }
        let adding = Adding {
            ctx,
            key: request.key,
            items: request.items(),
            event: c"bf.insert",
            plain: false,
        };
        let added = adding.apply(|| {
            if request.no_create {
                return Err(CommandError::NotFound);
            }
            if let Some(rate) = request.rate {
                rate.warn_if_limited(ctx, request.key);
            }
            request.spec(&options::config())
        })?;
        added.reply(Reply(ctx));
        Ok(())
    }
}
