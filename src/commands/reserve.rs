//! `BF.RESERVE key error_rate capacity [option ...]`, with the options of [`Given`](crate::call::given::Given).

use std::ffi::CStr;

use crate::call::docs::{Docs, EXPIRY, KEY_TO_CREATE, Kind, OPTIONS, Parameter, SIZED};
use crate::call::given::Verb;
use crate::call::request::Request;
use crate::call::{Call, Command, CommandError, Reply};
use crate::work::creation;
use crate::{keyspace, rivals};

pub struct Reserve;

const NX: Parameter = Parameter::of_own(c"nx", c"NX", Kind::Word).optional();

impl Command for Reserve {
    const NAME: &'static CStr = c"bf.reserve";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write fast";
    const DOCS: Docs = Docs {
        summary: c"Creates a new Bloom Filter",
        complexity: c"O(1)",
        since: c"1.0.0",
        parameters: &[&[KEY_TO_CREATE], SIZED, OPTIONS, &[NX, EXPIRY]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let Request { key: name, given, .. } = rivals::read_call(Verb::Reserve, ctx, arguments)?;
        creation::check_goal(ctx, &given)?;
        let creation = creation::now(ctx, &given)?;
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(ctx, name) }?;
        if key.filter().is_some() {
            if !given.only_new {
                return Err(CommandError::EXISTS);
            }
            Reply(ctx).null();
            return Ok(());
        }
        creation::create_empty(ctx, name, &mut key, creation)?;
        creation::log_rate(ctx, name, given.rate, Some(creation.filter.error_rate()));
        creation::log_layer_limit(ctx, name, creation.filter);
        key.changed(Self::NAME);
        Reply(ctx).ok()
    }
}
