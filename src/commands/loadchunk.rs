//! `BF.LOADCHUNK key iterator data`

use std::ffi::CStr;

use crate::call::args::{exactly, whole};
use crate::call::docs::{Docs, KeyUse, Kind, O_OF_PIECE, Parameter};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::limits::CommandMemory;
use crate::stats::{self, Counted};
use libbloom::codec::DecodeError;
use libbloom::codec::chunks::{self, ChunkError};

/// Creates a filter from a header, or loads a chunk into an existing one.
pub struct LoadChunk;

impl Command for LoadChunk {
    const NAME: &'static CStr = c"bf.loadchunk";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Restores a filter previously saved using SCANDUMP",
        complexity: O_OF_PIECE,
        since: c"1.0.0",
        parameters: &[&[
            Parameter::key(c"key", KeyUse::FILL),
            Parameter::new(c"iterator", Kind::Integer),
            Parameter::new(c"data", Kind::Text),
        ]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [name, iterator, data] = exactly(arguments)?;
        let iterator = whole(iterator.bytes()).ok_or(CommandError::LOAD_ITERATOR)?;
        let data = data.bytes();
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        match key.filter() {
            Some(filter) => {
                let changed = filter.load_chunk(iterator, data).map_err(|error| match error {
                    ChunkError::NoPlace => CommandError::BAD_HEADER,
                    ChunkError::NoLayer => CommandError::CHUNK_OFFSET,
                    ChunkError::TooLong => CommandError::CHUNK_LENGTH,
                })?;
                if !changed {
                    return Reply(ctx).ok();
                }
            }
            None if iterator == chunks::HEADER => {
                let memory = CommandMemory::of_command(ctx, name);
                let filter = chunks::load_header(data, &|demand| memory.allow(demand));
                let filter = filter
                    .inspect_err(stats::not_loaded)
                    .map_err(|error| match error {
                        DecodeError::OutOfMemory { .. } => CommandError::NO_MEMORY_TO_CREATE,
                        _ => CommandError::BAD_HEADER,
                    })?;
                stats::loaded(&filter);
                key.set(Counted::new(filter), None);
            }
            None => return Err(CommandError::NOT_FOUND),
        }
        ctx.replicate_verbatim();
        key.changed(Self::NAME);
        Reply(ctx).ok()
    }
}
