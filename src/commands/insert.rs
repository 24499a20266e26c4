//! `BF.INSERT key [CAPACITY n] [ERROR e] [EXPANSION n] [NOCREATE] [NONSCALING] [GROWING] [SEED s]
//! [LAYOUT l] [TIGHTENING t] [VALIDATESCALETO n] [WINDOW s [SLICES n] [REFRESH]] [AT ms]
//! [NX] [EX s|PX ms|EXAT s|PXAT ms] [ITEMS item [item ...]]`
//!
//! As valkey-bloom has it, a filter in its layout may be made without any items. Of others ITEMS are needed.

use std::ffi::CStr;

use super::adding::Adding;
use super::args::{Argument, Cursor};
use super::creation::{self, Creation, FilterSpec};
use super::docs::{
    AT, CAPACITY, Docs, ERROR, EXPANSION, EXPIRY, GROWING, KEY_TO_ADD_TO, Kind, LAYOUT, NOCREATE, NONSCALING,
    NX, O_OF_MANY, Parameter, REFRESH, SEED, SLICES, TIGHTENING, VALIDATESCALETO, WINDOW,
};
use super::error::CommandError;
use super::missing::MissingKey;
use super::redisbloom::{self, Described, Release};
use super::reply::Reply;
use super::{Call, Command, valkey};
use crate::bloom::params::Time;
use crate::options::values::{Config, LayoutName};
use crate::server::{self, Arg, Ctx};
use crate::{keyspace, options};

/// Adds items; creates the filter as described, if the key is missing.
pub struct Insert;

/// The event of the command.
const EVENT: &CStr = c"bf.insert";

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<'a, A> {
    key: A,
    missing: Missing,
    /// Unless there is no ITEMS.
    items: Option<&'a [A]>,
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
    /// In valkey-bloom's.
    Valkey(valkey::Missing),
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
        let mut items = None;
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if word.eq_ignore_ascii_case(b"ITEMS") {
                items = Some(cursor.at_least_one()?);
                break;
            } else if !missing
                .take(word, &mut cursor, Insert::NAME)
                .map_err(as_redisbloom_s)?
            {
                return Err(CommandError::unknown(word));
            }
        }
        if items.is_some() {
            missing.check()?;
        }
        Ok(Self {
            key,
            missing: Missing::Own(missing),
            items,
        })
    }

    /// Reads them as a primary or a file has them: valkey-bloom's words, where no RedisBloom would take them;
    /// RedisBloom's; those of this module, which neither takes; or what only a valkey-bloom takes for numbers.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn obey(arguments: &'a [A]) -> Result<Self, CommandError> {
        let of_valkey = valkey::Insert::read(arguments);
        let unmistakable = of_valkey.as_ref().filter(|insert| insert.is_unmistakable);
        if let Some(insert) = unmistakable.cloned() {
            return Ok(insert.into());
        }
        if let Ok(insert) = Described::insert(arguments) {
            return Ok(insert.into());
        }
        Self::parse(arguments).or_else(|error| of_valkey.map(Self::from).ok_or(error))
    }

    /// Whether it is a command without ITEMS that makes a filter, or leaves one as it is: such filters, and what the
    /// key holds, are in valkey-bloom's layout.
    ///
    /// # Errors
    /// ITEMS are needed, and options that exclude each other.
    pub fn may_lack_items(
        &self,
        holds_valkey: impl FnOnce() -> bool,
        config: &Config,
    ) -> Result<(), CommandError> {
        match &self.missing {
            Missing::Own(missing) if missing.layout(config) == LayoutName::Valkey || holds_valkey() => {
                missing.check()
            }
            Missing::Own(_) | Missing::RedisBloom { .. } => Err(CommandError::Arity),
            Missing::Valkey(_) => Ok(()),
        }
    }

    /// Whether the filter can grow as far as a client asked for, be the key missing or not.
    ///
    /// # Errors
    /// What keeps it from that, and options that the configuration excludes.
    pub fn check_goal(&self, config: impl FnOnce() -> Config) -> Result<(), CommandError> {
        match &self.missing {
            Missing::Own(missing) => missing.check_goal(config),
            Missing::RedisBloom { .. } | Missing::Valkey(_) => Ok(()),
        }
    }

    /// When they are added, if that was said.
    fn at(&self) -> Option<Time> {
        match &self.missing {
            Missing::Own(missing) => missing.at,
            Missing::RedisBloom { .. } | Missing::Valkey(_) => None,
        }
    }

    /// The items to be added, unless there is no ITEMS.
    pub fn items(&self) -> Option<&'a [A]> {
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
            Missing::Valkey(missing) => missing.creation(config),
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
        if let Missing::RedisBloom { filter, .. } = &self.missing {
            let asked = filter.asked_rate(&config);
            creation::warn_of_rate(ctx, self.key, asked, creation.filter.error_rate());
        }
        Ok(creation)
    }

    /// [`Self::check_goal`], unless the command must be obeyed: who sent it has checked it.
    fn check_goal_of_client(&self, ctx: Ctx<'_>) -> Result<(), CommandError> {
        if ctx.must_obey() {
            return Ok(());
        }
        self.check_goal(options::config)
    }

    /// Makes the filter without items, if the key is missing.
    fn apply_without_items(&self, ctx: Ctx<'_>) -> Result<(), CommandError> {
        let holds_valkey = || {
            let key = keyspace::read(ctx, self.key);
            key.is_ok_and(|key| key.filter().is_some_and(|filter| filter.valkey_rules().is_some()))
        };
        self.may_lack_items(holds_valkey, &options::config())?;
        self.check_goal_of_client(ctx)?;
        let mut key = keyspace::write(ctx, self.key)?;
        if key.filter().is_none() {
            creation::create_empty(ctx, self.key, &mut key, self.create(ctx)?)?;
            key.changed(&[EVENT]);
        }
        Ok(())
    }
}

impl<'a, A> From<redisbloom::Insert<'a, A>> for Request<'a, A> {
    fn from(insert: redisbloom::Insert<'a, A>) -> Self {
        Self {
            key: insert.key,
            missing: Missing::RedisBloom {
                no_create: insert.no_create,
                filter: insert.filter,
            },
            items: Some(insert.items),
        }
    }
}

impl<'a, A> From<valkey::Insert<'a, A>> for Request<'a, A> {
    fn from(insert: valkey::Insert<'a, A>) -> Self {
        Self {
            key: insert.key,
            missing: Missing::Valkey(insert.missing),
            items: insert.items,
        }
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
            TIGHTENING,
            VALIDATESCALETO,
            WINDOW,
            SLICES,
            REFRESH,
            AT,
            NX,
            EXPIRY,
            Parameter::new(c"items", Kind::Text)
                .after(c"ITEMS")
                .optional()
                .multiple(),
        ],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = if ctx.is_relayed() {
            Request::obey(arguments)?
        } else {
            Request::parse(arguments)?
        };
        let Some(items) = request.items() else {
            request.apply_without_items(ctx)?;
            Reply(ctx).array(0);
            return Ok(());
        };
        request.check_goal_of_client(ctx)?;
        let adding = Adding {
            ctx,
            key: request.key,
            items,
            event: EVENT,
            plain: false,
            at: request.at(),
        };
        adding.apply(|| request.create(ctx))?.reply(Reply(ctx));
        Ok(())
    }
}
