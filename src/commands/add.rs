//! `BF.ADD key item`

use std::ffi::CStr;

use crate::call::args::exactly;
use crate::call::docs::{Docs, ITEM, KEY_TO_ADD_TO, O_OF_LAYERS};
use crate::call::{Call, Command, CommandError, Reply};
use crate::work::adding::Addition;
use crate::work::creation;

/// The filter is created with the configured defaults if the key is missing.
pub struct Add;

impl Command for Add {
    const NAME: &'static CStr = c"bf.add";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Adds an item to a Bloom Filter",
        complexity: O_OF_LAYERS,
        since: c"1.0.0",
        parameters: &[&[KEY_TO_ADD_TO, ITEM]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [key, item] = exactly(arguments)?;
        let addition = Addition {
            ctx,
            key,
            items: &arguments[1..],
            event: c"bf.add",
            has_no_options: true,
            at: None,
        };
        let (new, _) = addition.apply_one(item, |origin| creation::by_default(ctx, origin))?;
        Reply(ctx).boolean(new?);
        Ok(())
    }
}
