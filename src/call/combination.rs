//! The keys of BF.MERGE and BF.INTERSECT.

use crate::call::args::{Argument, Cursor};
use crate::call::docs::{KeyUse, Kind, Parameter};
use crate::call::error::CommandError;
use crate::number;

pub(crate) const NUMKEYS: Parameter = Parameter::new(c"numkeys", Kind::Integer);
pub(crate) const SOURCES: Parameter = Parameter::new(c"source", Kind::Keys(KeyUse::READ)).multiple();

/// The keys of a command that combines filters.
#[derive(Clone, Copy, Debug)]
pub struct Combination<'a, A> {
    /// The key for the result.
    pub destination: A,
    /// One or more.
    pub sources: &'a [A],
}

impl<'a, A: Argument<'a>> Combination<'a, A> {
    /// Reads `destination numkeys source [source ...]`, with which a command begins.
    pub(crate) fn take(cursor: &mut Cursor<'a, A>) -> Result<Self, CommandError> {
        let (destination, numkeys) = (cursor.take()?, cursor.take()?);
        let count = number::whole(numkeys.bytes()).ok_or(CommandError::Bad("numkeys"))?;
        if count <= 0 {
            return Err(CommandError::NUMKEYS_RANGE);
        }
        let count = usize::try_from(count).ok();
        let sources = count.and_then(|count| cursor.take_many(count));
        Ok(Self {
            destination,
            sources: sources.ok_or(CommandError::FEWER_SOURCES)?,
        })
    }

    /// The positions of the keys, the command's name being 0: for a server that cannot derive them from a description.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        const FIRST: usize = 3;
        std::iter::once(1).chain(FIRST..FIRST + self.sources.len())
    }
}

#[cfg(test)]
mod tests;
