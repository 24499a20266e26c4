//! `BF.ADD key item`

use std::ffi::CStr;

use super::adding::Addition;
use super::args::Cursor;
use super::docs::{Docs, ITEM, KEY_TO_ADD_TO, O_OF_LAYERS};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command, creation};

/// The command BF.ADD: adds an item, and creates the filter with the configured defaults if the key is missing.
pub struct Add;

impl Command for Add {
    const NAME: &'static CStr = c"bf.add";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Adds an item to a Bloom Filter",
        complexity: O_OF_LAYERS,
        since: c"1.0.0",
        parameters: &[KEY_TO_ADD_TO, ITEM],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let items = cursor.at_least_one()?;
        let item = cursor.take()?;
        cursor.finish()?;
        let addition = Addition {
            ctx,
            key,
            items,
            event: c"bf.add",
            has_no_options: true,
            at: None,
        };
        let (new, _) = addition.apply_one(item, || creation::by_default(ctx))?;
        Reply(ctx).boolean(new?);
        Ok(())
    }
}
