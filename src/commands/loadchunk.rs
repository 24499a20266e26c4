//! `BF.LOADCHUNK key iterator data`

use std::ffi::CStr;

use super::args::{self, Cursor};
use super::docs::{Docs, KEY_TO_FILL, Kind, O_OF_PIECE, Parameter};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::codec::DecodeError;
use crate::bloom::codec::chunks::{self, ChunkError};
use crate::keyspace;
use crate::limits::Allowing;
use crate::server::Ctx;
use crate::stats::{self, Counted};

/// Creates a filter from a header, or puts a chunk into it.
pub struct LoadChunk;

impl Command for LoadChunk {
    const NAME: &'static CStr = c"bf.loadchunk";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Restores a filter previously saved using SCANDUMP",
        complexity: O_OF_PIECE,
        since: c"1.0.0",
        parameters: &[
            KEY_TO_FILL,
            Parameter::new(c"iterator", Kind::Integer),
            Parameter::new(c"data", Kind::Text),
        ],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let (name, iterator, data) = (cursor.take()?, cursor.take()?, cursor.take()?.bytes());
        cursor.finish()?;
        let iterator = args::iterator(iterator.bytes()).ok_or(CommandError::LoadIterator)?;
        let mut key = keyspace::write(ctx, name)?;
        match key.filter() {
            Some(filter) => {
                if !chunks::load_chunk(filter, iterator, data)? {
                    Reply(ctx).ok();
                    return Ok(());
                }
            }
            None if iterator == chunks::HEADER => {
                let allowing = Allowing::new(ctx, name.bytes(), Ctx::must_obey);
                let filter = chunks::load_header(data, &|demand| allowing.allows(demand));
                let filter = filter.inspect_err(stats::not_loaded)?;
                stats::loaded(&filter);
                key.set(Counted::new(filter), None);
            }
            None => return Err(CommandError::NotFound),
        }
        ctx.replicate_verbatim();
        key.changed(&[c"bf.loadchunk"]);
        Reply(ctx).ok();
        Ok(())
    }
}

impl From<DecodeError> for CommandError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::OutOfMemory { .. } => Self::NoMemoryToCreate,
            DecodeError::Truncated | DecodeError::Version(_) | DecodeError::Field(_) => Self::BadHeader,
        }
    }
}

impl From<ChunkError> for CommandError {
    fn from(error: ChunkError) -> Self {
        match error {
            ChunkError::NoPlace => Self::BadHeader,
            ChunkError::NoLayer => Self::ChunkOffset,
            ChunkError::TooLong { .. } => Self::ChunkLength,
        }
    }
}
