//! `BF.ROTATE key [AT ms]`

use std::ffi::CStr;

use crate::call::args::{Cursor, once};
use crate::call::docs::{AT, Docs, KEY_TO_DROP_FROM, O_OF_LAYERS, SINCE_OWN};
use crate::call::error::CommandError;
use crate::call::given::number;
use crate::call::reply::Reply;
use crate::call::words::Words;
use crate::call::{Call, Command};
use crate::keyspace;
use crate::work::{changing, propagation, window};
use libbloom::Error;
use libbloom::params::LATEST;

/// The command BF.ROTATE: closes the newest slice of a window now, so that the next new item opens another, and drops
/// expired slices.
pub struct Rotate;

impl Command for Rotate {
    const NAME: &'static CStr = c"bf.rotate";
    const FLAGS: &'static CStr = c"write";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Closes the newest slice of a Bloom Filter with a window, and drops what has expired",
        complexity: O_OF_LAYERS,
        since: SINCE_OWN,
        parameters: &[KEY_TO_DROP_FROM, AT],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let name = cursor.take()?;
        let mut at = None;
        while let Some(word) = cursor.take_if_any() {
            if !word.bytes().eq_ignore_ascii_case(b"AT") {
                return Err(CommandError::unknown(word.bytes()));
            }
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("AT"))?;
            let time = number(value, 0..=LATEST, CommandError::BadTime, CommandError::TimeRange)?;
            once(&mut at, time, "AT")?;
        }
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        let filter = key.filter().ok_or(CommandError::NotFound)?;
        let now = window::time_to_close(ctx, filter, at);
        let at = filter.stamp(now).ok_or(CommandError::NoWindow)?;
        let before = filter.layers();
        let changed = filter.begin_change().rotate(now);
        changing::free_dropped(ctx, filter, before);
        let changed = changed.map_err(|error| match error {
            Error::Full { .. } => CommandError::TooManySlices,
            error => CommandError::of_add(error),
        })?;
        if changed {
            let mut words = Words::NONE;
            words.with("AT").with_number(at);
            propagation::propagate(ctx, c"BF.ROTATE", name, &words, &[]);
            key.changed(&[window::EVENT]);
        }
        Reply(ctx).ok();
        Ok(())
    }
}
