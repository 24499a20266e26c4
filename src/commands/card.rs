//! `BF.CARD key`

use std::ffi::CStr;

use crate::call::args::exactly;
use crate::call::docs::{Docs, KEY, O_OF_LAYERS};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use crate::work::window;

/// Counts items that were new when they were added (with REFRESH once in each slice).
pub struct Card;

impl Command for Card {
    const NAME: &'static CStr = c"bf.card";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Returns the cardinality of a Bloom filter",
        complexity: O_OF_LAYERS,
        since: c"2.4.4",
        parameters: &[&[KEY]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [key] = exactly(arguments)?;
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter_or_empty()?;
        Reply(ctx).integer(filter.map_or(0, |filter| filter.items_at(window::now(filter))));
        Ok(())
    }
}
