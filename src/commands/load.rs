//! `BF.LOAD key data`

use std::ffi::CStr;

use super::args::Cursor;
use super::docs::{Docs, KEY_TO_CREATE, Kind, Parameter, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command, changing};
use crate::bloom::Filter;
use crate::bloom::codec::{DecodeError, valkey};
use crate::keyspace;
use crate::limits::Allowing;
use crate::server::{Arg, Ctx};
use crate::stats::{self, Counted};

/// Creates a filter from what valkey-bloom writes into an append-only file.
pub struct Load;

impl Command for Load {
    const NAME: &'static CStr = c"bf.load";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Creates a Bloom Filter from what an append-only file has of one in valkey-bloom's layout",
        complexity: c"O(n), where n is the number of bytes of the data",
        since: SINCE_OWN,
        parameters: &[KEY_TO_CREATE, Parameter::new(c"data", Kind::Text)],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let (name, data) = (cursor.take()?, cursor.take()?.bytes());
        cursor.finish()?;
        changing::obeyed(ctx, name, Self::NAME, load(ctx, name, data))?;
        Reply(ctx).ok();
        Ok(())
    }
}

/// Creates the filter, and tells of it.
fn load(ctx: Ctx<'_>, name: Arg<'_>, data: &[u8]) -> Result<(), CommandError> {
    let mut key = keyspace::write(ctx, name)?;
    if key.filter().is_some() {
        return Err(CommandError::Busy);
    }
    let allowing = Allowing::new(ctx, name.bytes(), Ctx::must_obey);
    let chain = valkey::decode(data, &|demand| allowing.allows(demand));
    let chain = chain
        .inspect_err(stats::not_loaded)
        .map_err(|error| match error {
            DecodeError::OutOfMemory { .. } => CommandError::NoMemoryToCreate,
            DecodeError::Truncated | DecodeError::Version(_) | DecodeError::Field(_) => {
                CommandError::BadData(error)
            }
        })?;
    let filter = Filter::Valkey(Box::new(chain));
    stats::loaded(&filter);
    key.set(Counted::new(filter), None);
    ctx.replicate_verbatim();
    key.changed(&[c"bf.load"]);
    Ok(())
}
