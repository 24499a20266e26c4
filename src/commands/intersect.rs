//! `BF.INTERSECT destination numkeys source [source ...]`

use std::ffi::CStr;

use crate::call::args::{Argument, Cursor};
use crate::call::combination::{Combination, NUMKEYS, SOURCES};
use crate::call::docs::{Docs, KeyUse, Parameter, SINCE_OWN};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::work::sources::{O_OF_SOURCES, Sources};
use libbloom::Filter;

pub(crate) struct Intersect;

/// Reads the arguments after the command's name.
pub fn parse<'a, A: Argument<'a>>(arguments: &'a [A]) -> Result<Combination<'a, A>, CommandError> {
    let mut cursor = Cursor::new(arguments);
    let keys = Combination::take(&mut cursor)?;
    match cursor.take_if_any() {
        Some(word) => Err(CommandError::unknown(word.bytes())),
        None => Ok(keys),
    }
}

impl Command for Intersect {
    const NAME: &'static CStr = c"bf.intersect";
    const FLAGS: &'static CStr = c"write deny-oom getkeys-api";
    const DOCS: Docs = Docs {
        summary: c"Intersects Bloom Filters: the items that all sources have are found in the destination, which is created or replaced",
        complexity: O_OF_SOURCES,
        since: SINCE_OWN,
        parameters: &[&[Parameter::key(c"destination", KeyUse::OVERWRITE), NUMKEYS, SOURCES]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let keys = parse(arguments)?;
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, keys.destination) }?;
        let sources = Sources::of(ctx, keys, None)?;
        let memory = sources.memory();
        let common = Filter::intersection(sources.filters(), &|demand| memory.allow(demand));
        let common = common.map_err(|error| sources.refused_creation(error))?;
        sources.store(&mut key, common);
        ctx.replicate_verbatim();
        key.changed(Self::NAME);
        Reply(ctx).ok()
    }
}
