//! `BF.MADD key item [item ...]`

use std::ffi::CStr;

use crate::call::docs::{Docs, ITEM, KEY_TO_ADD_TO, O_OF_MANY};
use crate::call::{Call, Command, CommandError, Cursor, Reply};
use crate::work::adding::Addition;
use crate::work::creation;

pub struct MAdd;

impl Command for MAdd {
    const NAME: &'static CStr = c"bf.madd";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Adds one or more items to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_MANY,
        since: c"1.0.0",
        parameters: &[&[KEY_TO_ADD_TO, ITEM.multiple()]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let items = cursor.at_least_one()?;
        let addition = Addition {
            ctx,
            key,
            items,
            event: c"bf.add",
            has_no_options: true,
            at: None,
        };
        addition
            .apply(|origin| creation::by_default(ctx, origin))?
            .reply(Reply(ctx))
    }
}
