//! `BF.SCANDUMP key iterator`

use std::ffi::CStr;

use crate::call::args::{exactly, whole};
use crate::call::docs::{Docs, KEY, Kind, O_OF_PIECE, Parameter};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use libbloom::codec::chunks;

/// After the last chunk the iterator is 0, and the chunk empty.
pub struct ScanDump;

impl Command for ScanDump {
    const NAME: &'static CStr = c"bf.scandump";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Begins an incremental save of the bloom filter",
        complexity: O_OF_PIECE,
        since: c"1.0.0",
        parameters: &[&[KEY, Parameter::new(c"iterator", Kind::Integer)]],
    };
    const CACHEABLE: bool = false;

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [key, iterator] = exactly(arguments)?;
        let iterator = whole(iterator.bytes()).ok_or(CommandError::SCAN_ITERATOR)?;
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
        let chunk = chunks::dump(filter, iterator).map_err(|_| CommandError::NO_MEMORY_TO_ANSWER)?;
        let reply = Reply(ctx);
        reply.array(2);
        reply.integer(chunk.as_ref().map_or(0, |chunk| chunk.iterator.unsigned_abs()));
        reply.bulk(chunk.as_ref().map_or(b"", |chunk| &chunk.bytes));
        Ok(())
    }
}
