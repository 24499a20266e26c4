//! `BF.ROTATE key [AT ms]`

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::docs::{AT, Docs, KEY_TO_DROP_FROM, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command, changing, propagation, window};
use crate::bloom::Error;
use crate::bloom::params::Time;
use crate::keyspace;
use crate::server::log;

/// Ends the newest slice of a window now: the next item begins another one. What is over goes.
pub struct Rotate;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<A> {
    key: A,
    /// When, if not now.
    pub at: Option<Time>,
}

impl<'a, A: Argument<'a>> Request<A> {
    /// Reads the arguments after the command's name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let mut at = None;
        while let Some(word) = cursor.take_if_any() {
            if !window::take_time(&mut at, word.bytes(), &mut cursor)? {
                return Err(CommandError::unknown(word.bytes()));
            }
        }
        Ok(Self { key, at })
    }
}

impl Command for Rotate {
    const NAME: &'static CStr = c"bf.rotate";
    const FLAGS: &'static CStr = c"write fast";
    const CATEGORIES: &'static CStr = c"write fast";
    const DOCS: Docs = Docs {
        summary: c"Ends the newest slice of a Bloom Filter with a window, and lets go what is over",
        complexity: c"O(n + n * e), where n is the number of layers, and e that of exceptions if layers go",
        since: SINCE_OWN,
        parameters: &[KEY_TO_DROP_FROM, AT],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::parse(arguments)?;
        let mut key = keyspace::write(ctx, request.key)?;
        let filter = key.filter().ok_or(CommandError::NotFound)?;
        window::tell_time(ctx, filter, request.at);
        let at = filter.time().ok_or(CommandError::NoWindow)?;
        let (changed, _, _) = changing::turn(ctx, filter, |filter| (filter.rotate(), 0));
        let changed = changed.map_err(|error| {
            if ctx.must_obey() {
                log::DIVERGENCE.warn(ctx, request.key.bytes(), || {
                    format!("a slice that ended in the original was not ended here: {error:?}")
                });
            }
            match error {
                Error::Full { .. } => CommandError::TooManySlices,
                Error::OverLimit { .. } | Error::OutOfMemory { .. } => CommandError::NoMemoryToGrow,
            }
        })?;
        if changed {
            propagation::propagate(ctx, c"BF.ROTATE", request.key, &window::words(Some(at)), &[]);
            key.changed(&[window::EVENT]);
        }
        Reply(ctx).ok();
        Ok(())
    }
}
