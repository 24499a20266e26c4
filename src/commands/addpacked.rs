//! `BF.ADDPACKED key [option ...] LINES|WIDTH n|PREFIXED [COUNT] data`, with the options of [`Given`].

use std::ffi::CStr;

use crate::call::docs::{ADDING, AT, Docs, EXPIRY, OPTIONS, SINCE_OWN};
use crate::call::given::{Given, Verb};
use crate::call::packing::{COUNT, DATA, FORM, O_OF_PACKED};
use crate::call::request::{Items, Request};
use crate::call::{Call, Command, CommandError, Reply};
use crate::work::adding::Addition;
use crate::work::creation;
use crate::work::packed::PackedItems;

pub struct AddPacked;

impl Command for AddPacked {
    const NAME: &'static CStr = c"bf.addpacked";
    const FLAGS: &'static CStr = c"write deny-oom";
    const DOCS: Docs = Docs {
        summary: c"Adds the items that are packed in one argument to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_PACKED,
        since: SINCE_OWN,
        parameters: &[ADDING, OPTIONS, &[AT, EXPIRY, FORM, COUNT, DATA]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let Request { key, given, items } = Request::parse(Verb::AddPacked, arguments)?;
        let Items::Packed { items, data } = items else {
            return Err(CommandError::Arity);
        };
        creation::check_goal(ctx, &given)?;
        let no_options = Given {
            packing: given.packing,
            ..Given::default()
        };
        let addition = Addition {
            ctx,
            key,
            items: PackedItems { items, data },
            event: c"bf.add",
            has_no_options: given == no_options,
            at: given.at,
        };
        let added = addition.apply(|_| creation::now(ctx, &given))?;
        let used = added.created.map(|created| created.filter.error_rate());
        creation::log_rate(ctx, key, given.rate, used);
        match added.stopped {
            Some(error) => return Err(CommandError::After(Box::new(error), added.new.count())),
            None if given.packing.count => Reply(ctx).integer(added.new.ones()),
            None => Reply(ctx).bulk(added.new.into_bitmap().bytes()),
        }
        Ok(())
    }
}
