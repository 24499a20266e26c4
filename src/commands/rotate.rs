//! `BF.ROTATE key [AT ms]`

use std::ffi::CStr;

use crate::call::args::Cursor;
use crate::call::docs::{Docs, KEY_TO_DROP_FROM, O_OF_LAYERS, SINCE_OWN};
use crate::call::error::CommandError;
use crate::call::grammar::{GivenOptions, Verb};
use crate::call::reply::Reply;
use crate::call::spec::Target;
use crate::call::{Call, Command};
use crate::keyspace;
use crate::work::{changing, propagation, window};
use libbloom::Error;

/// The command BF.ROTATE: closes the newest slice of a window now, so that the next new item opens another, and drops
/// expired slices.
pub struct Rotate;

const VERB: Verb = Verb::Rotate;

impl Command for Rotate {
    const NAME: &'static CStr = VERB.name();
    const FLAGS: &'static CStr = c"write";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Closes the newest slice of a Bloom Filter with a window, and drops what has expired",
        complexity: O_OF_LAYERS,
        since: SINCE_OWN,
        parameters: &VERB.parameters::<{ 1 + VERB.options() }>(&[KEY_TO_DROP_FROM], &[]),
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let name = cursor.take()?;
        let given = GivenOptions::parse(VERB, &mut cursor, |_, _| Ok(false))?;
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        let filter = key.filter().ok_or(CommandError::NotFound)?;
        let now = window::time_to_close(ctx, filter, given.at);
        let at = filter.stamp(now).ok_or(CommandError::NoWindow)?;
        let before = filter.layers();
        let changed = filter.begin_change().rotate(now);
        changing::free_dropped(ctx, filter, before);
        let changed = changed.map_err(|error| match error {
            Error::Full { .. } => CommandError::TooManySlices,
            error => CommandError::of_add(error),
        })?;
        if changed {
            let to = Target {
                created: None,
                at: Some(at),
            };
            propagation::propagate(ctx, c"BF.ROTATE", name, &propagation::words(VERB, to), &[]);
            key.changed(&[window::EVENT]);
        }
        Reply(ctx).ok();
        Ok(())
    }
}
