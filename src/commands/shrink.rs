//! `BF.SHRINK key [CAPACITY capacity]`

use std::ffi::CStr;

use crate::call::args::{Cursor, capacity_of, once};
use crate::call::docs::{Docs, KeyUse, Kind, Parameter};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::limits::CommandMemory;
use crate::stats::Figure;
use crate::work::creation;
use libbloom::ShrinkError;
use libbloom::params::Capacity;

pub struct Shrink;

impl Command for Shrink {
    const NAME: &'static CStr = c"bf.shrink";
    const FLAGS: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Shrinks a Bloom Filter to the size that its items need",
        complexity: c"O(n + m), where n is the number of bytes and m is the number of layers",
        since: c"0.4.0",
        parameters: &[&[
            Parameter::key(c"key", KeyUse::CHANGE),
            Parameter::option(c"capacity", c"CAPACITY", Kind::Integer),
        ]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let name = cursor.take()?;
        let mut capacity = None;
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if !word.eq_ignore_ascii_case(b"CAPACITY") {
                return Err(CommandError::unknown(word));
            }
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("CAPACITY"))?;
            once(&mut capacity, capacity_of(value)?, "CAPACITY")?;
        }
        let capacity = capacity.map_or(0, Capacity::items);
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
        let memory = CommandMemory::of_command(ctx, name);
        let shrunk = filter
            .begin_change()
            .shrink(capacity, &|demand| memory.allow(demand));
        let freed = shrunk.map_err(|error| match error {
            ShrinkError::Window => CommandError::SHRINKING_WINDOW,
            ShrinkError::Layout => CommandError::SHRINKING_VALKEY,
            ShrinkError::Memory(error) => {
                Figure::RefusedCreations.add(1);
                creation::log_shortage(ctx, name, error);
                CommandError::NO_MEMORY_TO_SHRINK
            }
        })?;
        if freed > 0 {
            ctx.replicate_verbatim();
            key.changed(Self::NAME);
        }
        Reply(ctx).integer(freed);
        Ok(())
    }
}
