//! `BF.EXISTS key item`

use std::ffi::CStr;

use crate::call::args::exactly;
use crate::call::docs::{Docs, ITEM, KEY, O_OF_LAYERS};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::work::window;
use libbloom::ahead;

pub struct Exists;

impl Command for Exists {
    const NAME: &'static CStr = c"bf.exists";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Checks whether an item exists in a Bloom Filter",
        complexity: O_OF_LAYERS,
        since: c"1.0.0",
        parameters: &[&[KEY, ITEM]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [key, item] = exactly(arguments)?;
        let item = ahead::item(item.bytes());
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter_or_empty()?;
        ahead::follow(filter);
        Reply(ctx).boolean(filter.is_some_and(|filter| filter.contains_at(item, window::now(filter))));
        Ok(())
    }
}
