//! `BF.MEXISTS key item [item ...]`

use std::ffi::CStr;

use crate::call::docs::{Docs, ITEM, KEY, O_OF_MANY};
use crate::call::{Call, Command, CommandError, Cursor, Reply};
use crate::work::window;
use crate::{keyspace, limits};

pub struct MExists;

impl Command for MExists {
    const NAME: &'static CStr = c"bf.mexists";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Checks whether one or more items exist in a Bloom Filter",
        complexity: O_OF_MANY,
        since: c"1.0.0",
        parameters: &[&[KEY, ITEM.multiple()]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let items = cursor.at_least_one()?;
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter_or_empty()?;
        if let Some(filter) = filter {
            limits::check_lookups(ctx, filter, items.len())?;
        }
        let reply = Reply(ctx);
        reply.array(items.len());
        match filter {
            Some(filter) => {
                let items = items.iter().map(|item| item.bytes());
                filter.contains_all(items, window::now(filter), |found| reply.boolean(found));
            }
            None => items.iter().for_each(|_| reply.boolean(false)),
        }
        Ok(())
    }
}
