//! `BF.INTERSECT destination numkeys source [source ...]`

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::docs::{Docs, KEY_TO_OVERWRITE, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::sources::{Combination, NUMKEYS, O_OF_SOURCES, SOURCES, Sources};
use super::{Call, Command, changing};
use crate::bloom::Filter;
use crate::keyspace;
use crate::server::{Arg, Ctx};

/// Makes a filter in which all items are found that all sources have.
pub struct Intersect;

/// Reads the arguments after the command's name.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn parse<'a, A: Argument<'a>>(arguments: &'a [A]) -> Result<Combination<'a, A>, CommandError> {
    let mut cursor = Cursor::new(arguments);
    let keys = Combination::take(&mut cursor)?;
    match cursor.take_if_any() {
        Some(word) => Err(CommandError::unknown(word.bytes())),
        None => Ok(keys),
    }
}

/// Intersects the filters, and tells of it.
fn apply(ctx: Ctx<'_>, keys: Combination<'_, Arg<'_>>) -> Result<(), CommandError> {
    let mut key = keyspace::write(ctx, keys.destination)?;
    let sources = Sources::open(ctx, keys)?;
    let allowing = sources.allowing();
    let common = Filter::intersection(&sources.filters(), &|demand| allowing.allows(demand));
    let common = common.map_err(|error| sources.refused_creation(error))?;
    sources.store(&mut key, common);
    ctx.replicate_verbatim();
    key.changed(&[c"bf.intersect"]);
    Ok(())
}

impl Command for Intersect {
    const NAME: &'static CStr = c"bf.intersect";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Intersects Bloom Filters: the items that all sources have are found in the destination, which is created or replaced",
        complexity: O_OF_SOURCES,
        since: SINCE_OWN,
        parameters: &[KEY_TO_OVERWRITE, NUMKEYS, SOURCES],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let keys = parse(arguments)?;
        changing::obeyed(ctx, keys.destination, Self::NAME, apply(ctx, keys))?;
        Reply(ctx).ok();
        Ok(())
    }
}
