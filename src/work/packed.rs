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
#[derive(Clone, Copy, Debug)]
pub struct PackedItems<'a> {
    /// The packed items.
    pub items: Packed<'a>,
    /// The argument that contains them.
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
        let send = |data| propagation::propagate(ctx, key, &words, &[data]);
        let part = self.items.to_repeat(changed);
        match part {
            None => send(self.data),
            Some(data) => send(OwnedString::new(&data).arg()),
        }
    }
}

/// A BF.ADDPACKED of items in this form; it creates the filter too if `to` says so.
pub fn words(to: Target, form: Form) -> Words {
    const ADD: &CStr = c"BF.ADDPACKED";
    let mut words = match to {
        Target {
            created: Some(created),
            at,
        } => target::spec(ADD, created, at),
        Target { created: None, at } => propagation::at(ADD, at),
    };
    match form {
        Form::Lines => words.with(constant!("LINES")),
        Form::Width(width) => words.with(constant!("WIDTH")).word().number(width.get() as u64),
        Form::Prefixed => words.with(constant!("PREFIXED")),
    };
    words
}
