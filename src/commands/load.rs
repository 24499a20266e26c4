//! `BF.LOAD key data`

use std::ffi::CStr;

use crate::call::args::exactly;
use crate::call::docs::{Docs, KEY_TO_CREATE, Kind, Parameter, SINCE_OWN};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::limits::CommandMemory;
use crate::stats::{self, Counted};
use libbloom::Filter;
use libbloom::codec::{DecodeError, valkey};

pub struct Load;

impl Command for Load {
    const NAME: &'static CStr = c"bf.load";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Creates a Bloom Filter from what an append-only file has of one in valkey-bloom's layout",
        complexity: c"O(n), where n is the number of bytes of the data",
        since: SINCE_OWN,
        parameters: &[&[KEY_TO_CREATE, Parameter::new(c"data", Kind::Text)]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [name, data] = exactly(arguments)?;
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        if key.filter().is_some() {
            return Err(CommandError::BUSY);
        }
        let memory = CommandMemory::of_command(ctx, name);
        let chain = valkey::decode(data.bytes(), &|demand| memory.allow(demand));
        let chain = chain
            .inspect_err(stats::not_loaded)
            .map_err(|error| match error {
                DecodeError::OutOfMemory { .. } => CommandError::NO_MEMORY_TO_CREATE,
                error => CommandError::BadData(error),
            })?;
        let filter = Filter::from(chain);
        stats::loaded(&filter);
        key.set(Counted::new(filter), None);
        ctx.replicate_verbatim();
        key.changed(Self::NAME);
        Reply(ctx).ok()
    }
}
