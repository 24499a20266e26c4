//! `BF.EXCEPT key item [item ...]`

use std::ffi::CStr;

use super::adding::after_key;
use super::args::Cursor;
use super::docs::{Docs, ITEM, KEY_TO_EXCEPT_FROM, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command, changing, creation};
use crate::bloom::chain::batch::Items;
use crate::bloom::exceptions::ExceptError;
use crate::bloom::packed::Answers;
use crate::bloom::{Demand, Filter};
use crate::server::{Arg, Ctx};
use crate::{keyspace, limits, stats};

/// Excepts items from a filter, until they are added again; a missing key is an empty filter.
pub struct Except;

/// Excepts the items, and tells of it. For each, whether it was there and is no more.
fn apply(ctx: Ctx<'_>, name: Arg<'_>, items: &[Arg<'_>]) -> Result<Answers, CommandError> {
    let mut key = keyspace::write(ctx, name)?;
    let filter = key.filter().ok_or(CommandError::NotFound)?;
    let mut excepted = Answers::with_room_for(items.len()).map_err(|_| CommandError::NoMemoryToAnswer)?;
    let (done, ..) = changing::turn(ctx, filter, |filter| {
        let answer = |block: Items, count: usize| excepted.push(block, count);
        (except(ctx, name, filter, items, answer), 0)
    });
    done.map_err(|error| refused(ctx, name, error))?;
    let changed = excepted.ones();
    if changed > 0 {
        if changed == items.len() as u64 {
            ctx.replicate_verbatim();
        } else {
            ctx.replicate(c"BF.EXCEPT", &after_key(name, items, &excepted));
        }
        key.changed(&[c"bf.except"]);
    }
    Ok(excepted)
}

/// A primary, or a file, has asked whether the items are there: a window here may have another clock.
fn except(
    ctx: Ctx<'_>,
    name: Arg<'_>,
    filter: &mut Filter,
    items: &[Arg<'_>],
    excepted: impl FnMut(Items, usize),
) -> Result<(), ExceptError> {
    let items = items.iter().map(|item| item.bytes());
    let allowance = |demand: Demand<'_>| limits::allows(ctx, name.bytes(), demand);
    if ctx.is_relayed() {
        filter.except_unasked(items, &allowance, excepted)
    } else {
        filter.except(items, &allowance, excepted)
    }
}

fn refused(ctx: Ctx<'_>, name: Arg<'_>, error: ExceptError) -> CommandError {
    match error {
        ExceptError::Foreign => CommandError::ExceptionsOfForeign,
        ExceptError::TooMany { exceptions } => CommandError::TooManyExceptions(exceptions),
        ExceptError::Memory(error) => {
            stats::refused_growth();
            creation::tell_of_lack(ctx, name, error);
            CommandError::NoMemoryToExcept
        }
    }
}

impl Command for Except {
    const NAME: &'static CStr = c"bf.except";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Excepts one or more items from a Bloom Filter, until they are added again",
        complexity:
            c"O(n * m + e), where n is the number of items, m is the number of layers and e is the number of \
                      exceptions, all of which are moved when their table grows",
        since: SINCE_OWN,
        parameters: &[KEY_TO_EXCEPT_FROM, ITEM.multiple()],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let items = cursor.at_least_one()?;
        let reply = Reply(ctx);
        match changing::obeyed(ctx, key, Self::NAME, apply(ctx, key, items)) {
            Ok(excepted) => {
                reply.array(excepted.count());
                excepted.iter().for_each(|is_gone| reply.boolean(is_gone));
            }
            Err(CommandError::NotFound) => {
                reply.array(items.len());
                items.iter().for_each(|_| reply.boolean(false));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
