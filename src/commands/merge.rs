//! `BF.MERGE destination numkeys source [source ...] [ERROR rate] [OVERRIDE]`

use std::ffi::CStr;

use super::adding::tell_of_growth;
use super::args::{Argument, Cursor};
use super::creation::{AskedRate, flag, once, warn_of_rate};
use super::docs::{Docs, ERROR, KEY_TO_MERGE_INTO, Kind, Parameter, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::sources::{Combination, NUMKEYS, O_OF_SOURCES, SOURCES, Sources};
use super::{Call, Command, changing};
use crate::bloom::Filter;
use crate::bloom::params::ErrorRate;
use crate::server::{Arg, Ctx};
use crate::{keyspace, stats};

/// Unites filters: every item of every source is found in the destination.
pub struct Merge;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, A> {
    /// The keys.
    pub keys: Combination<'a, A>,
    /// The error rate of the result, if it was said.
    pub rate: Option<AskedRate>,
    /// What the destination holds is replaced.
    pub overrides: bool,
}

impl<'a, A: Argument<'a>> Request<'a, A> {
    /// Reads the arguments after the command's name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let keys = Combination::take(&mut cursor)?;
        let (mut rate, mut overrides) = (None, false);
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if word.eq_ignore_ascii_case(b"ERROR") {
                let bad = CommandError::BadInsertErrorRate;
                let value = cursor.take_if_any().ok_or(CommandError::NoValue("ERROR"))?;
                once(&mut rate, AskedRate::take(value, bad.clone(), bad)?, "ERROR")?;
            } else if word.eq_ignore_ascii_case(b"OVERRIDE") {
                flag(&mut overrides, "OVERRIDE")?;
            } else {
                return Err(CommandError::unknown(word));
            }
        }
        Ok(Self {
            keys,
            rate,
            overrides,
        })
    }

    /// The error rate of the result as it is used.
    pub fn used_rate(&self) -> Option<ErrorRate> {
        self.rate.map(|rate| rate.used)
    }
}

impl Request<'_, Arg<'_>> {
    /// Unites the filters, and tells of it.
    fn apply(&self, ctx: Ctx<'_>) -> Result<(), CommandError> {
        let mut key = keyspace::write(ctx, self.keys.destination)?;
        let sources = Sources::open(ctx, self.keys)?;
        if key.filter().is_none() || self.overrides {
            let filter = self.union(ctx, &sources)?;
            sources.store(&mut key, filter);
        } else {
            let sources = sources.without(&key);
            let changed = key.filter().map(|filter| self.absorb(ctx, filter, &sources));
            if changed != Some(Ok(true)) {
                return changed.unwrap_or(Ok(false)).map(drop);
            }
        }
        if let Some(rate) = self.rate {
            warn_of_rate(ctx, self.keys.destination, rate.asked, rate.used.value());
        }
        ctx.replicate_verbatim();
        key.changed(&[c"bf.merge"]);
        Ok(())
    }

    /// A new filter of all sources.
    fn union(&self, ctx: Ctx<'_>, sources: &Sources<'_>) -> Result<Filter, CommandError> {
        let (filters, allowing) = (sources.filters(), sources.allowing());
        let united = Filter::union(&filters, self.used_rate(), &|demand| allowing.allows(demand));
        let united = united.map_err(|error| sources.refused_creation(error))?;
        let first = filters.first().map_or(0, |first| first.layers());
        tell_of_growth(ctx, self.keys.destination, &united, first);
        Ok(united)
    }

    /// Puts all other sources into the destination; whether that changed it.
    fn absorb(&self, ctx: Ctx<'_>, filter: &mut Filter, sources: &Sources<'_>) -> Result<bool, CommandError> {
        let (allowing, before) = (sources.allowing(), filter.account());
        let absorbed = filter.absorb(&sources.filters(), self.used_rate(), &|demand| {
            allowing.allows(demand)
        });
        stats::recounted(filter, before, 0);
        let changed = absorbed.map_err(|error| {
            sources.refused(error, |error| {
                stats::refused_growth();
                CommandError::of_add(error)
            })
        })?;
        tell_of_growth(ctx, self.keys.destination, filter, before.layers as usize);
        Ok(changed)
    }
}

impl Command for Merge {
    const NAME: &'static CStr = c"bf.merge";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Merges Bloom Filters: all items of the sources are found in the destination, which is created if it does not exist",
        complexity: O_OF_SOURCES,
        since: SINCE_OWN,
        parameters: &[
            KEY_TO_MERGE_INTO,
            NUMKEYS,
            SOURCES,
            ERROR,
            Parameter::option(c"override", c"OVERRIDE", Kind::Word),
        ],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::parse(arguments)?;
        changing::obeyed(ctx, request.keys.destination, Self::NAME, request.apply(ctx))?;
        Reply(ctx).ok();
        Ok(())
    }
}
