//! `BF.INSERT key [option ...] [ITEMS item [item ...]]`, with the options of the [table](crate::call::grammar::ROWS).
//!
//! A filter in valkey-bloom's layout may be created without items, as in valkey-bloom. All other filters need ITEMS.

use std::ffi::CStr;

use crate::call::docs::{Docs, KEY_TO_ADD_TO, Kind, O_OF_MANY, Parameter};
use crate::call::error::CommandError;
use crate::call::grammar::Verb;
use crate::call::reply::Reply;
use crate::call::{Call, Command};
use crate::keyspace::{self, KeyMut};
use crate::options;
use crate::server::{Arg, Ctx};
use crate::work::adding::Addition;
use crate::work::creation;
use crate::work::request::{Items, Request};

/// The command BF.INSERT: adds items, and creates the filter from the options if the key is missing.
pub struct Insert;

const VERB: Verb = Verb::Insert;
/// The parameter for ITEMS and the items. RedisBloom documents the word separately, because its BF.INSERT always has
/// it. Here ITEMS and the items may be left out together.
const ITEMS: Parameter = Parameter::option(c"item", c"ITEMS", Kind::Text).multiple();

/// Creates the filter without items, if the key is missing.
fn apply_without_items(ctx: Ctx<'_>, request: &Request<'_, Arg<'_>>) -> Result<(), CommandError> {
    // Whether ITEMS may be missing depends on the key's filter. But errors of the words come before those of the key.
    // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
    let mut key = unsafe { keyspace::write(ctx, request.key) };
    let filter = key.as_mut().ok().and_then(KeyMut::filter);
    let holds_valkey = filter.is_some_and(|filter| filter.valkey_rules().is_some());
    request.may_lack_items(holds_valkey, &options::config())?;
    request.check_goal_of_client(ctx)?;
    let mut key = key?;
    if key.filter().is_none() {
        let creation = request.creation_now(ctx)?;
        creation::create_empty(ctx, request.key, &mut key, creation)?;
        request.log_rate(ctx, Some(creation));
        key.changed(&[Insert::NAME]);
    }
    Ok(())
}

impl Command for Insert {
    const NAME: &'static CStr = VERB.name();
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Adds one or more items to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_MANY,
        since: c"1.0.0",
        parameters: &VERB.parameters::<{ 2 + VERB.options() }>(&[KEY_TO_ADD_TO], &[ITEMS]),
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::of_call(VERB, ctx, arguments)?;
        let Items::List(items) = request.items else {
            apply_without_items(ctx, &request)?;
            Reply(ctx).array(0);
            return Ok(());
        };
        request.check_goal_of_client(ctx)?;
        let addition = Addition {
            ctx,
            key: request.key,
            items,
            event: Self::NAME,
            has_no_options: false,
            at: request.at(),
        };
        let added = addition.apply(|| request.creation_now(ctx))?;
        request.log_rate(ctx, added.created);
        added.reply(Reply(ctx))
    }
}
