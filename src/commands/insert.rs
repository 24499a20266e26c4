//! `BF.INSERT key [option ...] [ITEMS item [item ...]]`, with the options of [`Given`].
//!
//! A filter in valkey-bloom's layout may be created without items, as in valkey-bloom. All other filters need ITEMS,
//! except those that a server [says](crate::call::target::spec).

use std::ffi::CStr;

use crate::call::docs::{ADDING, AT, Docs, EXPIRY, Kind, O_OF_MANY, OPTIONS, Parameter};
use crate::call::given::{Given, Verb};
use crate::call::request::{Items, Request};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace::{self, KeyMut};
use crate::server::{Arg, Ctx};
use crate::work::adding::Addition;
use crate::work::creation;
use crate::{options, rivals};

pub struct Insert;

/// The parameter for ITEMS and the items. RedisBloom documents the word separately, because its BF.INSERT always has
/// it. Here ITEMS and the items may be left out together.
const ITEMS: Parameter = Parameter::option(c"item", c"ITEMS", Kind::Text).multiple();

/// Creates the filter without items, if the key is missing. ITEMS may lack if a server says what to create, or if the
/// filter to create, or that the key holds, has valkey-bloom's layout.
fn create(ctx: Ctx<'_>, name: Arg<'_>, given: &Given) -> Result<(), CommandError> {
    // Errors of the words come before those of the key.
    // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
    let mut key = unsafe { keyspace::write(ctx, name) };
    let filter = key.as_mut().ok().and_then(KeyMut::filter);
    let holds_valkey = filter.is_some_and(|filter| filter.valkey_rules().is_some());
    if !holds_valkey && !given.may_lack_items(&options::config()) {
        return Err(CommandError::Arity);
    }
    creation::check_goal(ctx, given)?;
    let mut key = key?;
    if key.filter().is_some() {
        // What a primary created is no filter that was here before.
        return given.told.map_or(Ok(()), |_| Err(CommandError::EXISTS));
    }
    let creation = creation::now(ctx, given)?;
    creation::create_empty(ctx, name, &mut key, creation)?;
    creation::log_rate(ctx, name, given.rate, Some(creation.filter.error_rate()));
    key.changed(Insert::NAME);
    Ok(())
}

impl Command for Insert {
    const NAME: &'static CStr = c"bf.insert";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Adds one or more items to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_MANY,
        since: c"1.0.0",
        parameters: &[ADDING, OPTIONS, &[AT, EXPIRY, ITEMS]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let Request { key, given, items } = rivals::read_call(Verb::Insert, ctx, arguments)?;
        let Items::List(items) = items else {
            create(ctx, key, &given)?;
            Reply(ctx).array(0);
            return Ok(());
        };
        creation::check_goal(ctx, &given)?;
        let addition = Addition {
            ctx,
            key,
            items,
            event: Self::NAME,
            has_no_options: false,
            at: given.at,
        };
        let added = addition.apply(|_| creation::now(ctx, &given))?;
        let used = added.created.map(|created| created.filter.error_rate());
        creation::log_rate(ctx, key, given.rate, used);
        added.reply(Reply(ctx))
    }
}
