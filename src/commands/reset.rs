//! `BF.RESET key`

use std::ffi::CStr;

use crate::call::args::exactly;
use crate::call::docs::{Docs, KeyUse, O_OF_LAYERS, Parameter, SINCE_OWN};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::limits::CommandMemory;
use crate::work::{changing, creation};

pub struct Reset;

impl Command for Reset {
    const NAME: &'static CStr = c"bf.reset";
    const FLAGS: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Makes a Bloom Filter empty again, like a new one with its parameters",
        complexity: O_OF_LAYERS,
        since: SINCE_OWN,
        parameters: &[&[Parameter::key(c"key", KeyUse::DROP)]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [name] = exactly(arguments)?;
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
        let memory = CommandMemory::of_command(ctx, name);
        let emptied = filter.emptied(&|demand| memory.allow(demand));
        if let Some(emptied) = emptied.map_err(|error| creation::refused(ctx, name, error))? {
            changing::replace(ctx, &mut key, emptied);
            ctx.replicate_verbatim();
            key.changed(Self::NAME);
        }
        Reply(ctx).ok()
    }
}
