//! `BF.EXISTSPACKED key LINES|WIDTH n|PREFIXED [COUNT] data`

use std::ffi::CStr;

use crate::call::args::Argument;
use crate::call::docs::{Docs, KEY, SINCE_OWN};
use crate::call::packing::{COUNT, DATA, FORM, O_OF_PACKED, Packing};
use crate::call::{Call, Command, CommandError, Reply};
use crate::work::window;
use crate::{keyspace, limits};
use libbloom::packed::{Answers, Packed};

pub(crate) struct ExistsPacked;

/// The parsed arguments of BF.EXISTSPACKED.
#[derive(Clone, Copy, Debug)]
pub struct PackedQuery<'a, A> {
    key: A,
    packing: Packing,
    /// The items.
    pub items: Packed<'a>,
}

impl<'a, A: Argument<'a>> PackedQuery<'a, A> {
    /// Reads the arguments after the command's name.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let [key, words @ .., data] = arguments else {
            return Err(CommandError::Arity);
        };
        let (key, packing) = (*key, Packing::parse(words)?);
        let items = packing.unpack(data.bytes())?;
        Ok(Self { key, packing, items })
    }
}

impl Command for ExistsPacked {
    const NAME: &'static CStr = c"bf.existspacked";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Checks whether the items that are packed in one argument exist in a Bloom Filter",
        complexity: O_OF_PACKED,
        since: SINCE_OWN,
        parameters: &[&[KEY, FORM, COUNT, DATA]],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let request = PackedQuery::parse(arguments)?;
        let key = keyspace::read(ctx, request.key)?;
        let (filter, items, reply) = (key.filter_or_empty()?, request.items, Reply(ctx));
        if let Some(filter) = filter {
            limits::check_lookups(ctx, filter, items.count())?;
        }
        if request.packing.count {
            reply.integer(filter.map_or(0, |filter| filter.count_packed(items, window::now(filter))));
            return Ok(());
        }
        let answers = match filter {
            Some(filter) => filter.contains_packed(items, window::now(filter)),
            None => Answers::none_of(items.count()),
        };
        let answers = answers.map_err(|_| CommandError::NO_MEMORY_TO_ANSWER)?;
        reply.bulk(answers.into_bitmap().bytes());
        Ok(())
    }
}
