//! `BF.RESERVE key error_rate capacity [option ...]`, with the options of the [table](crate::call::grammar::ROWS).

use std::ffi::CStr;

use crate::call::docs::{Docs, KEY_TO_CREATE, Kind, Parameter};
use crate::call::error::CommandError;
use crate::call::grammar::Verb;
use crate::call::reply::Reply;
use crate::call::{Call, Command};
use crate::keyspace;
use crate::work::creation;
use crate::work::request::Request;

/// The command BF.RESERVE: creates an empty filter.
pub struct Reserve;

const VERB: Verb = Verb::Reserve;
/// The error rate, which is always given.
pub const RATE: Parameter = Parameter::new(c"error_rate", Kind::Double);
/// The capacity, which is always given.
pub const CAPACITY: Parameter = Parameter::new(c"capacity", Kind::Integer);

impl Command for Reserve {
    const NAME: &'static CStr = VERB.name();
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write fast";
    const DOCS: Docs = Docs {
        summary: c"Creates a new Bloom Filter",
        complexity: c"O(1)",
        since: c"1.0.0",
        parameters: &VERB.parameters::<{ 3 + VERB.options() }>(&[KEY_TO_CREATE, RATE, CAPACITY], &[]),
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::of_call(VERB, ctx, arguments)?;
        request.check_goal_of_client(ctx)?;
        let creation = request.creation_now(ctx)?;
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, request.key) }?;
        if key.filter().is_some() {
            if request.given().is_none_or(|given| given.only_new.is_none()) {
                return Err(CommandError::Exists);
            }
            Reply(ctx).null();
            return Ok(());
        }
        creation::create_empty(ctx, request.key, &mut key, creation)?;
        request.log_rate(ctx, Some(creation));
        creation::log_layer_limit(ctx, request.key, creation.filter);
        key.changed(&[Self::NAME]);
        Reply(ctx).ok();
        Ok(())
    }
}
