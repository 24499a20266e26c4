//! The source filters of BF.MERGE and BF.INTERSECT.

use std::ffi::CStr;

use crate::call::combination::Combination;
use crate::call::error::CommandError;
use crate::keyspace::{self, KeyMut};
use crate::limits::CommandMemory;
use crate::server::shown::shown;
use crate::server::{Arg, Ctx};
use crate::stats::Figure;
use crate::work::{changing, creation};
use libbloom::chain::demand::reserved;
use libbloom::sets::SetError;
use libbloom::{Error, Filter};

pub const O_OF_SOURCES: &CStr = c"O(n + e * m), where n is the number of bytes of all sources, e that of their exceptions, and m that of the sources";

/// The source filters of a command, with what error texts need.
pub struct Sources<'a> {
    ctx: Ctx<'a>,
    destination: Arg<'a>,
    names: Vec<Arg<'a>>,
    filters: Vec<&'a Filter>,
}

impl<'a> Sources<'a> {
    /// Looks up all sources, but for the filter of `left_out`. A client may name any number, so no key stays open.
    pub fn of(
        ctx: Ctx<'a>,
        keys: Combination<'a, Arg<'a>>,
        left_out: Option<&KeyMut<'_>>,
    ) -> Result<Self, CommandError> {
        let room = |_| CommandError::NO_MEMORY_TO_ANSWER;
        let mut names = reserved(keys.sources.len()).map_err(room)?;
        let mut filters = reserved(keys.sources.len()).map_err(room)?;
        for &name in keys.sources {
            let key = keyspace::read(ctx, name)?;
            if left_out.is_some_and(|left_out| key.is_same(left_out)) {
                continue;
            }
            // SAFETY: `store` consumes the filters before the destination changes, and what is absorbed goes into none of them.
            let filter = unsafe { key.into_filter() };
            filters.push(filter.ok_or_else(|| CommandError::NoSource(shown(name.bytes())))?);
            names.push(name);
        }
        Ok(Self {
            ctx,
            destination: keys.destination,
            names,
            filters,
        })
    }

    pub fn filters(&self) -> &[&'a Filter] {
        &self.filters
    }

    pub fn memory(&self) -> CommandMemory<'a> {
        CommandMemory::of_command(self.ctx, self.destination)
    }

    /// The error for filters that cannot be combined. `of_memory` maps a lack of memory.
    pub fn refused(&self, error: SetError, of_memory: impl FnOnce(Error) -> CommandError) -> CommandError {
        let mismatch = |role, key, why| CommandError::Mismatch {
            role,
            key: shown(key),
            why,
        };
        match error {
            SetError::Source { index, why } => {
                let name = self.names.get(index).map_or(&b""[..], |name| name.bytes());
                mismatch("source", name, why)
            }
            SetError::Destination { why } => mismatch("destination", self.destination.bytes(), why),
            SetError::TooManyExceptions { exceptions } => CommandError::TooManyExceptions(exceptions),
            SetError::TooManyToAsk { exceptions, layers } => {
                CommandError::TooManyToAsk { exceptions, layers }
            }
            SetError::Rate { sum, enough } => CommandError::RateOfLayers { sum, enough },
            SetError::Memory(error) => {
                creation::log_shortage(self.ctx, self.destination, error);
                of_memory(error)
            }
        }
    }

    /// The error for a combination that should have made a new filter.
    pub fn refused_creation(&self, error: SetError) -> CommandError {
        self.refused(error, |error| {
            Figure::RefusedCreations.add(1);
            CommandError::of_creation(error)
        })
    }

    /// Stores the combined filter in the destination, which then has no expiry. Consumes the sources, because one of
    /// them may be the filter that the destination held.
    pub fn store(self, destination: &mut KeyMut<'_>, filter: Filter) {
        let ctx = self.ctx;
        drop(self);
        changing::replace(ctx, destination, filter);
        destination.persist();
    }
}
