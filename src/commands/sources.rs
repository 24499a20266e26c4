//! What BF.MERGE and BF.INTERSECT share: the filters that one filter is made of.

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::changing;
use super::creation;
use super::docs::{KeyUse, Kind, Parameter};
use super::error::CommandError;
use crate::bloom::sets::{Mismatch, SetError};
use crate::bloom::{Error, Filter};
use crate::keyspace::{self, Key, KeyMut};
use crate::limits::Allowing;
use crate::number;
use crate::options::values::LayoutName;
use crate::server::shown::shown;
use crate::server::{Arg, Ctx};
use crate::stats;

/// The complexity of what is done with whole filters.
pub const O_OF_SOURCES: &CStr = c"O(n + e * m), where n is the number of bytes of all sources, e that of their exceptions, and m that of the sources";

/// How many sources there are.
pub const NUMKEYS: Parameter = Parameter::new(c"numkeys", Kind::Integer);
/// The sources.
pub const SOURCES: Parameter = Parameter::new(c"source", Kind::Keys(KeyUse::Read)).multiple();

/// A key to be made of others.
#[derive(Clone, Copy, Debug)]
pub struct Combination<'a, A> {
    /// Where the result goes.
    pub destination: A,
    /// What it is made of; one or more.
    pub sources: &'a [A],
}

impl<'a, A: Argument<'a>> Combination<'a, A> {
    /// Takes `destination numkeys source [source ...]`, with which a command begins.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn take(cursor: &mut Cursor<'a, A>) -> Result<Self, CommandError> {
        let (destination, numkeys) = (cursor.take()?, cursor.take()?);
        let count = number::whole(numkeys.bytes()).ok_or(CommandError::BadNumkeys)?;
        if count <= 0 {
            return Err(CommandError::NumkeysRange);
        }
        let count = usize::try_from(count).ok();
        let sources = count.and_then(|count| cursor.take_many(count));
        Ok(Self {
            destination,
            sources: sources.ok_or(CommandError::FewerSources)?,
        })
    }

    /// Where the keys stand in the command, whose name has place 0: for a server that is not told of them otherwise.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        const FIRST: usize = 3;
        std::iter::once(1).chain(FIRST..FIRST + self.sources.len())
    }
}

/// Sources that are open, and hold filters.
#[derive(Debug)]
pub struct Sources<'a> {
    ctx: Ctx<'a>,
    destination: Arg<'a>,
    open: Vec<(Arg<'a>, Key<'a>)>,
}

impl<'a> Sources<'a> {
    /// Opens all of them.
    ///
    /// # Errors
    /// The first one that is missing, or holds something else.
    pub fn open(ctx: Ctx<'a>, keys: Combination<'a, Arg<'a>>) -> Result<Self, CommandError> {
        let open = keys.sources.iter().map(|&name| {
            let key = keyspace::read(ctx, name)?;
            match key.filter() {
                Some(_) => Ok((name, key)),
                None => Err(CommandError::NoSource(shown(name.bytes()))),
            }
        });
        Ok(Self {
            ctx,
            destination: keys.destination,
            open: open.collect::<Result<_, CommandError>>()?,
        })
    }

    /// Leaves out those that are the destination itself.
    pub fn without(mut self, destination: &KeyMut<'_>) -> Self {
        self.open.retain(|(_, key)| !key.is_same(destination));
        self
    }

    /// The filters.
    pub fn filters(&self) -> Vec<&Filter> {
        self.open.iter().filter_map(|(_, key)| key.filter()).collect()
    }

    /// What the command may have for the destination.
    pub fn allowing(&self) -> Allowing<'a> {
        Allowing::new(self.ctx, self.destination.bytes(), Ctx::must_obey)
    }

    /// Why these filters cannot be combined; `of_memory` says what there is no room for.
    pub fn refused(&self, error: SetError, of_memory: impl FnOnce(Error) -> CommandError) -> CommandError {
        match error {
            SetError::Source { index, why } => {
                let name = self.open.get(index).map_or(&b""[..], |(name, _)| name.bytes());
                CommandError::mismatch("source", name, why)
            }
            SetError::Destination { why } => {
                CommandError::mismatch("destination", self.destination.bytes(), why)
            }
            SetError::TooManyExceptions { exceptions } => CommandError::TooManyExceptions(exceptions),
            SetError::Rate { sum, would_do } => CommandError::RateOfLayers { sum, would_do },
            SetError::ClassicRate { sum, rate } => CommandError::RateOfClassicLayers { sum, rate },
            SetError::RateOfClassic => CommandError::OnlyFor("ERROR", &[LayoutName::Blocked]),
            SetError::Memory(error) => {
                creation::tell_of_lack(self.ctx, self.destination, error);
                of_memory(error)
            }
        }
    }

    /// The same where a new filter was to be made.
    pub fn refused_creation(&self, error: SetError) -> CommandError {
        self.refused(error, |error| {
            stats::refused_creation();
            CommandError::of_creation(error)
        })
    }

    /// Puts a filter that was made of them into the destination, which then never expires. They are closed before: one
    /// of them may be what the destination holds.
    pub fn store(self, destination: &mut KeyMut<'_>, filter: Filter) {
        let ctx = self.ctx;
        drop(self);
        changing::replace(ctx, destination, filter);
        destination.persist();
    }
}

impl CommandError {
    /// What keeps the filter of a key, which is a source or the destination, from being combined.
    pub fn mismatch(role: &'static str, key: &[u8], why: Mismatch) -> Self {
        Self::Mismatch {
            role,
            key: shown(key),
            why,
        }
    }
}
