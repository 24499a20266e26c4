//! `BF.MERGE destination numkeys source [source ...] [ERROR rate] [OVERRIDE]`

use std::ffi::CStr;

use crate::call::args::{Argument, Cursor, flag, once};
use crate::call::combination::{Combination, NUMKEYS, SOURCES};
use crate::call::docs::{Docs, ERROR, KeyUse, Kind, Parameter, SINCE_OWN};
use crate::call::given::RequestedRate;
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::server::{Arg, Ctx};
use crate::stats::{Counted, Figure};
use crate::work::adding::log_growth;
use crate::work::creation::log_rate;
use crate::work::sources::{O_OF_SOURCES, Sources};
use libbloom::Filter;
use libbloom::params::ErrorRate;

pub(crate) struct Merge;

/// The parsed arguments of BF.MERGE.
#[derive(Clone, Copy, Debug)]
pub struct MergeRequest<'a, A> {
    /// The destination and the sources.
    pub keys: Combination<'a, A>,
    /// The error rate of the result, if it was given.
    pub rate: Option<RequestedRate>,
    /// Whether the earlier filter of the destination is replaced.
    pub overrides: bool,
}

impl<'a, A: Argument<'a>> MergeRequest<'a, A> {
    /// Reads the arguments after the command's name.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let keys = Combination::take(&mut cursor)?;
        let (mut rate, mut overrides) = (None, false);
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if word.eq_ignore_ascii_case(b"ERROR") {
                let value = cursor.take_if_any().ok_or(CommandError::NoValue("ERROR"))?;
                let value = RequestedRate::read(value).map_err(|_| CommandError::BAD_INSERT_ERROR_RATE)?;
                once(&mut rate, value, "ERROR")?;
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

    pub(crate) fn used_rate(&self) -> Option<ErrorRate> {
        self.rate.map(|rate| rate.used)
    }
}

impl MergeRequest<'_, Arg<'_>> {
    /// Stores the union, and propagates the command if it changed something.
    fn apply(&self, ctx: Ctx<'_>) -> Result<(), CommandError> {
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, self.keys.destination) }?;
        if key.filter().is_none() || self.overrides {
            let sources = Sources::of(ctx, self.keys, None)?;
            let (filters, memory) = (sources.filters(), sources.memory());
            let united = Filter::union(filters, self.used_rate(), &|demand| memory.allow(demand));
            let united = united.map_err(|error| sources.refused_creation(error))?;
            let first = filters.first().map_or(0, |first| first.layers());
            log_growth(ctx, self.keys.destination, &united, first);
            sources.store(&mut key, united);
        } else {
            let sources = Sources::of(ctx, self.keys, Some(&key))?;
            let changed = key.filter().map(|filter| self.absorb(ctx, filter, &sources));
            if changed != Some(Ok(true)) {
                return changed.unwrap_or(Ok(false)).map(drop);
            }
        }
        let used = self.used_rate().map(ErrorRate::value);
        log_rate(ctx, self.keys.destination, self.rate, used);
        ctx.replicate_verbatim();
        key.changed(Merge::NAME);
        Ok(())
    }

    /// Adds the sources to the destination's filter. Returns whether that changed it.
    fn absorb(
        &self,
        ctx: Ctx<'_>,
        filter: &mut Counted,
        sources: &Sources<'_>,
    ) -> Result<bool, CommandError> {
        let before = filter.layers();
        let memory = sources.memory();
        let allowance = &|demand| memory.allow(demand);
        let absorbed = filter
            .begin_change()
            .absorb(sources.filters(), self.used_rate(), allowance);
        let changed = absorbed.map_err(|error| {
            sources.refused(error, |error| {
                Figure::RefusedGrowths.add(1);
                CommandError::of_add(error)
            })
        })?;
        log_growth(ctx, self.keys.destination, filter, before);
        Ok(changed)
    }
}

impl Command for Merge {
    const NAME: &'static CStr = c"bf.merge";
    const FLAGS: &'static CStr = c"write deny-oom getkeys-api";
    const DOCS: Docs = Docs {
        summary: c"Merges Bloom Filters: all items of the sources are found in the destination, which is created if it does not exist",
        complexity: O_OF_SOURCES,
        since: SINCE_OWN,
        parameters: &[&[
            Parameter::key(c"destination", KeyUse::CHANGE),
            NUMKEYS,
            SOURCES,
            ERROR,
            Parameter::option(c"override", c"OVERRIDE", Kind::Word),
        ]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        MergeRequest::parse(arguments)?.apply(ctx)?;
        Reply(ctx).ok()
    }
}
