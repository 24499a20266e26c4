//! The requests of the commands that create filters: BF.RESERVE, BF.INSERT and BF.ADDPACKED.

mod last;

use super::args::{Argument, Cursor};
use super::creation;
use super::error::CommandError;
use super::grammar::{GivenOptions, Verb, is_bundle};
use super::packed::Packing;
use super::redisbloom::{self, RedisBloomInsert, RedisBloomOptions, Release};
use super::spec::Creation;
use super::valkey::{ValkeyInsert, ValkeyOptions};
use crate::keyspace;
use crate::options;
use crate::options::values::Config;
use crate::server::{self, Arg, Ctx};
use libbloom::StoredLayout;
use libbloom::packed::Packed;
use libbloom::params::Time;
use libbloom::spec::Spec;

/// A command that may create a filter and add items, parsed.
#[derive(Clone, Debug)]
pub struct Request<'a, A> {
    /// The key.
    pub key: A,
    /// The filter to create for a missing key, in one of three grammars.
    pub description: Description,
    /// The items to add.
    pub items: Items<'a, A>,
}

/// The items of a command.
#[derive(Clone, Copy, Debug)]
pub enum Items<'a, A> {
    /// The command has no ITEMS.
    None,
    /// Each item is an argument.
    List(&'a [A]),
    /// Packed in one argument.
    Packed {
        /// How they are packed, and how to reply.
        packing: Packing,
        /// The items.
        items: Packed<'a>,
        /// The argument that contains them.
        data: A,
    },
}

/// The filter to create for a missing key, in one of three grammars.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, on the stack, for the time of a command"
)]
pub enum Description {
    /// In this module's grammar.
    Own(GivenOptions),
    /// In RedisBloom's grammar.
    RedisBloom {
        /// Whether a missing key stays missing.
        no_create: bool,
        /// The filter to create.
        filter: RedisBloomOptions,
    },
    /// In valkey-bloom's grammar.
    Valkey(ValkeyOptions),
}

impl<'a, A: Argument<'a>> Request<'a, A> {
    /// Reads the arguments after the command's name; `relayed` if they come from a primary or a file.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn read(verb: Verb, relayed: bool, arguments: &'a [A]) -> Result<Self, CommandError> {
        if let Some(request) = last::read(verb, relayed, arguments) {
            return Ok(request);
        }
        let request = if relayed {
            Self::obey(verb, arguments)
        } else {
            Self::parse(verb, arguments)
        }?;
        last::keep(verb, relayed, arguments, &request);
        Ok(request)
    }

    /// Reads the arguments of a client's command.
    fn parse(verb: Verb, arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let (given, items) = match verb {
            Verb::AddPacked => {
                let data = cursor.take_last()?;
                let mut packing = Packing::default();
                let given =
                    GivenOptions::parse(verb, &mut cursor, |word, cursor| packing.take(word, cursor))?;
                given.check(verb)?;
                let items = packing.unpack(data.bytes())?;
                (given, Items::Packed { packing, items, data })
            }
            Verb::Insert => {
                let mut items = None;
                let given = GivenOptions::parse(verb, &mut cursor, |word, cursor| {
                    let is_items = word.eq_ignore_ascii_case(b"ITEMS");
                    if is_items {
                        items = Some(std::mem::replace(cursor, Cursor::new(&[])).at_least_one()?);
                    }
                    Ok(is_items)
                })?;
                if items.is_some() {
                    given.check(verb)?;
                }
                (given, items.map_or(Items::None, Items::List))
            }
            Verb::Reserve | Verb::Plan => {
                let given = GivenOptions::parse(verb, &mut cursor, |_, _| Ok(false))?;
                given.check(verb)?;
                (given, Items::None)
            }
        };
        let description = Description::Own(given);
        Ok(Self {
            key,
            description,
            items,
        })
    }

    /// Reads the arguments of a command that comes from a primary or a file, whose words may be another module's.
    /// BF.ADDPACKED is only this module's.
    fn obey(verb: Verb, arguments: &'a [A]) -> Result<Self, CommandError> {
        match verb {
            Verb::Reserve => Self::obey_reserve(arguments),
            Verb::Insert => Self::obey_insert(arguments),
            Verb::Plan | Verb::AddPacked => Self::parse(verb, arguments),
        }
    }

    /// Reads a BF.RESERVE of a primary or a file. This module's has a bundle or PXAT. In it a word that this version
    /// does not know is an error: otherwise a replica would silently have another filter. RedisBloom ignores words that
    /// it does not know, so up to three words with PXAT that this module cannot read are RedisBloom's.
    fn obey_reserve(arguments: &'a [A]) -> Result<Self, CommandError> {
        let own = Self::parse(Verb::Reserve, arguments);
        let words = arguments.get(3..).unwrap_or_default();
        let is_pxat = |word: &A| word.bytes().eq_ignore_ascii_case(b"PXAT");
        let can_be_own = words.iter().any(is_pxat) && (own.is_ok() || words.len() > redisbloom::MOST_WORDS);
        if is_bundle(words) || can_be_own {
            return own;
        }
        RedisBloomOptions::reserve(arguments).map_or(own, |(key, filter)| {
            Ok(Self {
                key,
                description: Description::RedisBloom {
                    no_create: false,
                    filter,
                },
                items: Items::None,
            })
        })
    }

    /// Reads a BF.INSERT of a primary or a file. One with a bundle is this module's. Otherwise the grammars are tried
    /// in this order: valkey-bloom's if RedisBloom could not accept the words; RedisBloom's; this module's; then
    /// valkey-bloom's again, for numbers that only it accepts.
    fn obey_insert(arguments: &'a [A]) -> Result<Self, CommandError> {
        if is_bundle(arguments.get(1..).unwrap_or_default()) {
            return Self::parse(Verb::Insert, arguments);
        }
        let of_valkey = ValkeyInsert::read(arguments);
        let unmistakable = of_valkey.as_ref().filter(|insert| insert.is_unmistakable);
        if let Some(insert) = unmistakable.cloned() {
            return Ok(insert.into());
        }
        if let Ok(insert) = RedisBloomOptions::insert(arguments) {
            return Ok(insert.into());
        }
        Self::parse(Verb::Insert, arguments).or_else(|error| of_valkey.map(Self::from).ok_or(error))
    }

    /// Checks that a BF.INSERT may lack ITEMS: the filter that it creates, or that the key holds, has valkey-bloom's
    /// layout.
    ///
    /// # Errors
    /// ITEMS is needed, or options exclude each other.
    pub fn may_lack_items(&self, holds_valkey: bool, config: &Config) -> Result<(), CommandError> {
        match &self.description {
            Description::Own(given)
                if given.given_layout().unwrap_or(config.layout()) == StoredLayout::Valkey
                    || holds_valkey =>
            {
                given.check(Verb::Insert)
            }
            Description::Own(_) | Description::RedisBloom { .. } => Err(CommandError::Arity),
            Description::Valkey(_) => Ok(()),
        }
    }

    /// Checks that the filter can grow to VALIDATESCALETO, whether or not the key is missing.
    ///
    /// # Errors
    /// The reason why it cannot, or options that the configuration excludes.
    pub fn check_goal(&self, config: impl FnOnce() -> Config) -> Result<(), CommandError> {
        match &self.description {
            Description::Own(given) if given.goal.is_some() => {
                let config = config();
                creation::check_goal(given, creation::filter(given, &config)?, &config)
            }
            Description::Own(_) | Description::RedisBloom { .. } | Description::Valkey(_) => Ok(()),
        }
    }

    /// The filter to create for a missing key; `now` gives the milliseconds of the Unix clock.
    ///
    /// # Errors
    /// The command has NOCREATE, or options that the configuration excludes.
    pub fn creation(
        &self,
        config: &Config,
        release: Release,
        now: impl FnOnce() -> i64,
    ) -> Result<Creation, CommandError> {
        match &self.description {
            Description::Own(given) if given.no_create.is_some() => Err(CommandError::NotFound),
            Description::Own(given) => Ok(Creation {
                filter: creation::filter(given, config)?,
                expires: given.expires(now),
            }),
            Description::RedisBloom { no_create: true, .. } => Err(CommandError::NotFound),
            Description::RedisBloom { filter, .. } => Ok(Spec::Classic(filter.spec(config, release)?).into()),
            Description::Valkey(options) => options.creation(config),
        }
    }

    /// The options in this module's grammar, if the command is in that.
    pub fn given(&self) -> Option<&GivenOptions> {
        match &self.description {
            Description::Own(given) => Some(given),
            Description::RedisBloom { .. } | Description::Valkey(_) => None,
        }
    }

    /// The time of the addition, if the command gives one.
    pub fn at(&self) -> Option<Time> {
        self.given()?.at
    }
}

impl<'a> Request<'a, Arg<'a>> {
    /// Reads the arguments of a command that was called.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn of_call(verb: Verb, ctx: Ctx<'_>, arguments: &'a [Arg<'a>]) -> Result<Self, CommandError> {
        Self::read(verb, ctx.origin().is_relayed(), arguments)
    }

    /// Runs [`Self::check_goal`] for a client's command. A primary has checked what it sends.
    ///
    /// # Errors
    /// The filter cannot grow that far, or the configuration excludes options.
    pub fn check_goal_of_client(&self, ctx: Ctx<'_>) -> Result<(), CommandError> {
        let has_goal = self.given().is_some_and(|given| given.goal.is_some());
        if !has_goal || ctx.must_obey() {
            return Ok(());
        }
        self.check_goal(options::config)
    }

    /// The filter to create for a missing key, by this server's options and clock.
    ///
    /// # Errors
    /// The command has NOCREATE, or options that the configuration excludes. If [`keyspace::missing_is_error`], also a
    /// command without a capacity.
    pub fn creation_now(&self, ctx: Ctx<'_>) -> Result<Creation, CommandError> {
        let lacks_capacity = self.given().is_some_and(|given| given.capacity.is_none());
        if lacks_capacity && keyspace::missing_is_error(ctx) {
            return Err(CommandError::NotFound);
        }
        self.creation(&options::config(), Release::of_server(ctx), server::milliseconds)
    }

    /// Logs an error rate that the filter which the command created does not have unchanged.
    pub fn log_rate(&self, ctx: Ctx<'_>, created: Option<Creation>) {
        let requested = match &self.description {
            Description::Own(given) => given.rate.map(|rate| rate.requested),
            Description::RedisBloom { filter, .. } => Some(filter.requested_rate(&options::config())),
            Description::Valkey(_) => None,
        };
        if let Some((requested, created)) = requested.zip(created) {
            creation::log_rate(ctx, self.key, requested, created.filter.error_rate());
        }
    }
}

impl<'a, A> From<RedisBloomInsert<'a, A>> for Request<'a, A> {
    fn from(insert: RedisBloomInsert<'a, A>) -> Self {
        Self {
            key: insert.key,
            description: Description::RedisBloom {
                no_create: insert.no_create,
                filter: insert.filter,
            },
            items: Items::List(insert.items),
        }
    }
}

impl<'a, A> From<ValkeyInsert<'a, A>> for Request<'a, A> {
    fn from(insert: ValkeyInsert<'a, A>) -> Self {
        Self {
            key: insert.key,
            description: Description::Valkey(insert.options),
            items: insert.items.map_or(Items::None, Items::List),
        }
    }
}
