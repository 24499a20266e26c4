//! `BF.EXCEPT key item [item ...]`

use std::ffi::CStr;

use crate::call::docs::{Docs, ITEM, KeyUse, Parameter, SINCE_OWN};
use crate::call::{Call, Command, CommandError, Cursor, Reply};
use crate::limits::{self, CommandMemory};
use crate::server::{Arg, Ctx};
use crate::stats::Figure;
use crate::work::adding::ListRoom;
use crate::work::creation;
use crate::{keyspace, options};
use libbloom::exceptions::ExceptError;
use libbloom::packed::Answers;

pub struct Except;

/// Excepts the items, and propagates those that were found before and are not now. The answers say which.
fn apply(ctx: Ctx<'_>, name: Arg<'_>, items: &[Arg<'_>]) -> Result<Answers, CommandError> {
    // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
    let mut key = unsafe { keyspace::write(ctx, name) }?;
    let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
    limits::check_lookups(ctx, filter, items.len())?;
    let room = ListRoom::of(items.len()).ok_or(CommandError::NO_MEMORY_TO_ANSWER)?;
    let mut excepted = Answers::with_room_for(items.len()).map_err(|_| CommandError::NO_MEMORY_TO_ANSWER)?;
    let memory = CommandMemory::of_command(ctx, name);
    let allowance = &|demand| memory.allow(demand);
    let bytes = items.iter().map(|item| item.bytes());
    let done = filter
        .begin_change()
        .except(bytes, allowance, |block, count| excepted.push(block, count));
    done.map_err(|error| match error {
        ExceptError::Foreign => CommandError::EXCEPTIONS_OF_FOREIGN,
        ExceptError::Window => CommandError::EXCEPTIONS_OF_WINDOW,
        ExceptError::TooMany { exceptions } => CommandError::TooManyExceptions(exceptions),
        ExceptError::Memory(error) => {
            Figure::RefusedGrowths.add(1);
            creation::log_shortage(ctx, name, error);
            CommandError::NO_MEMORY_TO_EXCEPT
        }
    })?;
    if excepted.ones() > 0 {
        if excepted.ones() == items.len() as u64 {
            ctx.replicate_verbatim();
        } else {
            room.lend(items, &excepted, |changed| {
                ctx.replicate(c"BF.EXCEPT", name, [], changed)
            });
        }
        key.changed(Except::NAME);
    }
    Ok(excepted)
}

impl Command for Except {
    const NAME: &'static CStr = c"bf.except";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Excepts one or more items from a Bloom Filter, until they are added again",
        complexity:
            c"O(n * m + e), where n is the number of items, m is the number of layers and e is the number of \
                      exceptions, all of which are moved when their table grows",
        since: SINCE_OWN,
        parameters: &[&[Parameter::key(c"key", KeyUse::REMOVE), ITEM.multiple()]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let items = cursor.at_least_one()?;
        let reply = Reply(ctx);
        match apply(ctx, key, items) {
            Ok(excepted) => {
                reply.array(excepted.count());
                excepted.iter().for_each(|is_excepted| reply.boolean(is_excepted));
            }
            Err(CommandError::NOT_FOUND) if !keyspace::missing_is_error(ctx, &options::config()) => {
                reply.array(items.len());
                items.iter().for_each(|_| reply.boolean(false));
                // The reply is complete. With the error a relayed command that found no key is logged.
                return Err(CommandError::NOT_FOUND);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
