//! `BF.INSERT key [CAPACITY n] [ERROR e] [EXPANSION n] [NOCREATE] [NONSCALING] [GROWING] [SEED s]
//! [LAYOUT l] ITEMS item [item ...]`

use std::ffi::CStr;

use super::adding::Adding;
use super::args::{Argument, Cursor};
use super::creation::{self, AskedRate, Creation, Dialect, FilterOptions, flag, once};
use super::docs::{
    Docs, EXPANSION, GROWING, KEY_TO_ADD_TO, Kind, LAYOUT, NONSCALING, O_OF_MANY, Parameter, SEED,
};
use super::error::CommandError;
use super::redisbloom::{Described, Release};
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::params::Capacity;
use crate::options;
use crate::options::values::Config;
use crate::server::{Arg, Ctx};

/// Adds items; creates the filter as described, if the key is missing.
pub struct Insert;

const DIALECT: Dialect = Dialect {
    no_expansion: CommandError::Arity,
    bad_expansion: CommandError::BadInsertExpansion,
    expansion_range: CommandError::BadInsertExpansion,
    nonscaling_expansion: None,
};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<'a, A> {
    key: A,
    no_create: bool,
    filter: Asked,
    items: &'a [A],
}

/// The filter to be made of a missing key.
#[derive(Clone, Debug)]
enum Asked {
    /// In the words of this module.
    Own {
        capacity: Option<Capacity>,
        rate: Option<AskedRate>,
        options: FilterOptions,
    },
    /// In RedisBloom's.
    RedisBloom(Described),
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
        options.check(&DIALECT)?;
        Ok(Self {
            key,
            no_create,
            filter: Asked::Own {
                capacity,
                rate,
                options,
            },
            items,
        })
    }

    /// Reads them as a primary or a file has them: RedisBloom's words, or those of this module, which RedisBloom
    /// does not take.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn obey(arguments: &'a [A]) -> Result<Self, CommandError> {
        let Ok(insert) = Described::insert(arguments) else {
            return Self::parse(arguments);
        };
        Ok(Self {
            key: insert.key,
            no_create: insert.no_create,
            filter: Asked::RedisBloom(insert.filter),
            items: insert.items,
        })
    }

    /// The items to be added.
    pub fn items(&self) -> &'a [A] {
        self.items
    }

    /// The filter to be made, if the key is missing.
    ///
    /// # Errors
    /// NOCREATE, and options that the configuration excludes.
    pub fn creation(&self, config: &Config, release: Release) -> Result<Creation, CommandError> {
        if self.no_create {
            return Err(CommandError::NotFound);
        }
        match &self.filter {
            Asked::Own {
                capacity,
                rate,
                options,
            } => {
                let rate = rate.map_or(config.error_rate(), |rate| rate.used);
                let items = capacity.unwrap_or(config.initial_size());
                options.creation(rate, items, capacity.is_some(), config)
            }
            Asked::RedisBloom(filter) => filter.spec(config, release).map(Creation::Classic),
        }
    }
}

impl<'a> Request<'a, Arg<'a>> {
    /// [`Self::creation`] on this server, which tells its log of a rate that is not used as it was asked for.
    fn create(&self, ctx: Ctx<'_>) -> Result<Creation, CommandError> {
        let config = options::config();
        let creation = self.creation(&config, Release::of_server(ctx))?;
        match (&self.filter, creation) {
            (Asked::Own { rate: Some(rate), .. }, _) => rate.warn_if_limited(ctx, self.key),
            (Asked::RedisBloom(filter), Creation::Classic(spec)) => {
                creation::warn_of_rate(ctx, self.key, filter.asked_rate(&config), spec.error_rate());
            }
            _ => {}
        }
        Ok(creation)
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
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = if ctx.is_relayed() {
            Request::obey(arguments)?
        } else {
            Request::parse(arguments)?
        };
        let adding = Adding {
            ctx,
            key: request.key,
            items: request.items(),
            event: c"bf.insert",
            plain: false,
        };
        adding.apply(|| request.create(ctx))?.reply(Reply(ctx));
        Ok(())
    }
}
