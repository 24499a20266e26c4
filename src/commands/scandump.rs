//! `BF.SCANDUMP key iterator`

use std::ffi::CStr;

use crate::call::args::{exactly, whole};
use crate::call::docs::{Docs, KEY, Kind, O_OF_PIECE, Parameter};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use libbloom::codec::chunks;

/// The command BF.SCANDUMP: replies the next chunk of a filter with its iterator; 0 and an empty chunk after the last
/// one.
pub struct ScanDump;

impl Command for ScanDump {
    const NAME: &'static CStr = c"bf.scandump";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Begins an incremental save of the bloom filter",
        complexity: O_OF_PIECE,
        since: c"1.0.0",
        parameters: &[KEY, Parameter::new(c"iterator", Kind::Integer)],
        cacheable: false,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [key, iterator] = exactly(arguments)?;
        let iterator = whole(iterator.bytes()).ok_or(CommandError::SCAN_ITERATOR)?;
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
        let chunk = chunks::dump(filter, iterator).map_err(|_| CommandError::NO_MEMORY_TO_ANSWER)?;
        let reply = Reply(ctx);
        reply.array(2);
        match chunk {
            Some(chunk) => {
                reply.integer(chunk.iterator.unsigned_abs());
                reply.bulk(&chunk.bytes);
            }
            None => {
                reply.integer(0);
                reply.bulk(b"");
            }
        }
        Ok(())
    }
}
