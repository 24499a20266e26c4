//! Adding packed items: many in one argument.

use std::ffi::CStr;

use crate::call::target::{self, Target};
use crate::call::words::{Words, constant};
use crate::server::{Arg, Ctx, OwnedString};
use crate::work::adding::{Batch, ListRoom};
use crate::work::propagation;
use libbloom::chain::batch::BlockOutcome;
use libbloom::packed::{Answers, Form, Packed};
use libbloom::{Allowance, Error, Filter, Time};

/// The packed items of a command, and the argument that contains them.
#[derive(Clone, Copy)]
pub(crate) struct PackedItems<'a> {
    pub items: Packed<'a>,
    pub data: Arg<'a>,
}

impl<'a> Batch<'a> for PackedItems<'a> {
    const FOREIGN_PRIMARIES_SEND_IT: bool = false;

    fn count(self) -> usize {
        self.items.count()
    }

    fn only(self) -> Option<Arg<'a>> {
        None
    }

    /// The data of what changed is copied into a string of the server.
    fn room(self) -> Option<ListRoom<'a>> {
        ListRoom::of(0)
    }

    fn add_to(
        self,
        filter: &mut Filter,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome),
    ) -> Result<(), Error> {
        filter.add_packed(self.items, now, allowance, added)
    }

    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, _: ListRoom<'a>) {
        let words = words(to, self.items.form());
        let part = self.items.to_repeat(changed).map(|part| OwnedString::new(&part));
        let data = part.as_ref().map_or(self.data, OwnedString::arg);
        propagation::propagate(ctx, key, &words, &[data]);
    }
}

/// A BF.ADDPACKED of items in this form; it creates the filter too if `to` says so.
pub fn words(to: Target, form: Form) -> Words {
    const ADD: &CStr = c"BF.ADDPACKED";
    let mut words = match to.created {
        Some(created) => target::spec(ADD, created, to.at),
        None => propagation::at(ADD, to.at),
    };
    match form {
        Form::Lines => words.with(constant!("LINES")),
        Form::Width(width) => words.with(constant!("WIDTH")).word().number(width.get() as u64),
        Form::Prefixed => words.with(constant!("PREFIXED")),
    };
    words
}
