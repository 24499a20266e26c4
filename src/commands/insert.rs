//! `BF.INSERT key [CAPACITY n] [ERROR e] [EXPANSION n] [NOCREATE] [NONSCALING] [GROWING] [SEED s]
//! [LAYOUT l] [WINDOW s [SLICES n] [REFRESH]] [AT ms]
//! [NX] [EX s|PX ms|EXAT s|PXAT ms] ITEMS item [item ...]`

use std::ffi::CStr;

use super::adding::Adding;
use super::args::{Argument, Cursor};
use super::creation::{self, Creation, FilterSpec};
use super::docs::{
    AT, CAPACITY, Docs, ERROR, EXPANSION, EXPIRY, GROWING, KEY_TO_ADD_TO, Kind, LAYOUT, NOCREATE, NONSCALING,
    NX, O_OF_MANY, Parameter, REFRESH, SEED, SLICES, WINDOW,
};
use super::error::CommandError;
use super::missing::MissingKey;
use super::redisbloom::{Described, Release};
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::params::Time;
use crate::options;
use crate::options::values::Config;
use crate::server::{self, Arg, Ctx};

/// Adds items; creates the filter as described, if the key is missing.
pub struct Insert;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<'a, A> {
    key: A,
    missing: Missing,
    items: &'a [A],
}

/// RedisBloom's answer to options that it has, where their value is missing.
fn as_redisbloom_s(error: CommandError) -> CommandError {
    match error {
        CommandError::NoValue("CAPACITY" | "ERROR" | "EXPANSION") => CommandError::Arity,
        other => other,
    }
}

/// What is to become of a missing key.
#[derive(Clone, Debug)]
enum Missing {
    /// In the words of this module.
    Own(MissingKey),
    /// In RedisBloom's.
    RedisBloom { no_create: bool, filter: Described },
}

impl<'a, A: Argument<'a>> Request<'a, A> {
    /// Reads the arguments after the command's name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let mut missing = MissingKey::default();
        loop {
            // Without ITEMS there is nothing to insert: the words run out.
            let word = cursor.take()?.bytes();
            if word.eq_ignore_ascii_case(b"ITEMS") {
                break;
            } else if !missing
                .take(word, &mut cursor, Insert::NAME)
                .map_err(as_redisbloom_s)?
            {
                return Err(CommandError::unknown(word));
            }
        }
        let items = cursor.at_least_one()?;
        missing.check()?;
        Ok(Self {
            key,
            missing: Missing::Own(missing),
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
            missing: Missing::RedisBloom {
                no_create: insert.no_create,
                filter: insert.filter,
            },
            items: insert.items,
        })
    }

    /// When they are added, if that was said.
    fn at(&self) -> Option<Time> {
        match &self.missing {
            Missing::Own(missing) => missing.at,
            Missing::RedisBloom { .. } => None,
        }
    }

    /// The items to be added.
    pub fn items(&self) -> &'a [A] {
        self.items
    }

    /// The filter to be made, if the key is missing `now`.
    ///
    /// # Errors
    /// NOCREATE, and options that the configuration excludes.
    pub fn creation(&self, config: &Config, release: Release, now: i64) -> Result<Creation, CommandError> {
        match &self.missing {
            Missing::Own(missing) => missing.creation(config, now),
            Missing::RedisBloom { no_create: true, .. } => Err(CommandError::NotFound),
            Missing::RedisBloom { filter, .. } => {
                Ok(FilterSpec::Classic(filter.spec(config, release)?).into())
            }
        }
    }
}

impl<'a> Request<'a, Arg<'a>> {
    /// [`Self::creation`] on this server, which tells its log of a rate that is not used as it was asked for.
    fn create(&self, ctx: Ctx<'_>) -> Result<Creation, CommandError> {
        if let Missing::Own(missing) = &self.missing {
            return missing.create(ctx, self.key);
        }
        let config = options::config();
        let creation = self.creation(&config, Release::of_server(ctx), server::milliseconds())?;
        if let (Missing::RedisBloom { filter, .. }, FilterSpec::Classic(spec)) =
            (&self.missing, creation.filter)
        {
            creation::warn_of_rate(ctx, self.key, filter.asked_rate(&config), spec.error_rate());
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
            CAPACITY,
            ERROR,
            EXPANSION,
            NOCREATE,
            NONSCALING,
            GROWING,
            SEED,
            LAYOUT,
            WINDOW,
            SLICES,
            REFRESH,
            AT,
            NX,
            EXPIRY,
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
            at: request.at(),
        };
        adding.apply(|| request.create(ctx))?.reply(Reply(ctx));
        Ok(())
    }
}
