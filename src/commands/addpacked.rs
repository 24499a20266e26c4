//! `BF.ADDPACKED key [option ...] LINES|WIDTH n|PREFIXED [COUNT] data`, with the options of the
//! [table](crate::call::grammar::ROWS).

use std::ffi::CStr;

use crate::call::docs::{Docs, KEY_TO_ADD_TO, SINCE_OWN};
use crate::call::error::CommandError;
use crate::call::grammar::{GivenOptions, Verb};
use crate::call::reply::Reply;
use crate::call::{Call, Command};
use crate::work::adding::Addition;
use crate::work::packed::{COUNT, DATA, FORM, O_OF_PACKED, PackedItems};
use crate::work::request::{Items, Request};

/// The command BF.ADDPACKED: adds packed items, and creates the filter, as described or with the configured defaults,
/// if the key is missing.
pub struct AddPacked;

const VERB: Verb = Verb::AddPacked;

impl Command for AddPacked {
    const NAME: &'static CStr = VERB.name();
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Adds the items that are packed in one argument to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_PACKED,
        since: SINCE_OWN,
        parameters: &VERB.parameters::<{ 4 + VERB.options() }>(&[KEY_TO_ADD_TO], &[FORM, COUNT, DATA]),
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = Request::of_call(VERB, ctx, arguments)?;
        let Items::Packed { packing, items, data } = request.items else {
            return Err(CommandError::Arity);
        };
        request.check_goal_of_client(ctx)?;
        let addition = Addition {
            ctx,
            key: request.key,
            items: PackedItems { items, data },
            event: c"bf.add",
            has_no_options: !request.given().is_some_and(GivenOptions::is_any),
            at: request.at(),
        };
        let added = addition.apply(|| request.creation_now(ctx))?;
        request.log_rate(ctx, added.created);
        match added.stopped {
            Some(error) => return Err(CommandError::After(Box::new(error), added.new.count())),
            None if packing.counts() => Reply(ctx).integer(added.new.ones()),
            None => Reply(ctx).bulk(added.new.into_bitmap().bytes()),
        }
        Ok(())
    }
}
