//! What BF.ADDPACKED and BF.EXISTSPACKED share: many items in one argument, and their answers in one reply.

use std::ffi::CStr;
use std::num::NonZeroUsize;

use crate::call::args::{Argument, Cursor, Words, flag, integer};
use crate::call::docs::{Kind, Parameter};
use crate::call::error::CommandError;
use crate::call::grammar::Verb;
use crate::call::spec::Target;
use crate::server::{Arg, Ctx, OwnedString};
use crate::work::adding::Batch;
use crate::work::propagation;
use libbloom::chain::batch::BlockOutcome;
use libbloom::packed::{Answers, Form, Packed};
use libbloom::{Allowance, Error, Filter, Time};

/// The complexity of commands with packed items.
pub const O_OF_PACKED: &CStr =
    c"O(b + n * m), where b is the number of bytes of the data, n is the number of items in it and m is the number of layers";

/// The parameter for the form of the items.
pub const FORM: Parameter = Parameter::new(
    c"form",
    Kind::OneOf(&[
        Parameter::word(c"lines", c"LINES"),
        Parameter::new(c"width", Kind::Integer).after(c"WIDTH"),
        Parameter::word(c"prefixed", c"PREFIXED"),
    ]),
);
/// The parameter `COUNT`.
pub const COUNT: Parameter = Parameter::option(c"count", c"COUNT", Kind::Word);
/// The packed items.
pub const DATA: Parameter = Parameter::new(c"data", Kind::Text);

/// How a command's items are packed, and whether it counts instead of listing its answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packing {
    form: Option<Form>,
    count: bool,
}

impl Packing {
    /// Reads `word`, and its value from `cursor`, if it is one of the words for packing.
    ///
    /// # Errors
    /// What is wrong with the word or its value.
    pub fn take<'a, A: Argument<'a>>(
        &mut self,
        word: &[u8],
        cursor: &mut Cursor<'a, A>,
    ) -> Result<bool, CommandError> {
        let form = if word.eq_ignore_ascii_case(b"LINES") {
            Form::Lines
        } else if word.eq_ignore_ascii_case(b"PREFIXED") {
            Form::Prefixed
        } else if word.eq_ignore_ascii_case(b"WIDTH") {
            let value = cursor.take_if_any().ok_or(CommandError::NoValue("WIDTH"))?;
            let width = integer(value.bytes()).ok_or(CommandError::BadWidth)?;
            let width = u32::try_from(width).map_err(|_| CommandError::WidthRange)?;
            Form::Width(NonZeroUsize::new(width as usize).ok_or(CommandError::WidthRange)?)
        } else if word.eq_ignore_ascii_case(b"COUNT") {
            flag(&mut self.count, "COUNT")?;
            return Ok(true);
        } else {
            return Ok(false);
        };
        if self.form.replace(form).is_some() {
            return Err(CommandError::OneForm);
        }
        Ok(true)
    }

    /// The items in `data`.
    ///
    /// # Errors
    /// No form was given, or `data` does not have that form.
    pub fn unpack(self, data: &[u8]) -> Result<Packed<'_>, CommandError> {
        let form = self.form.ok_or(CommandError::OneForm)?;
        Packed::new(data, form).map_err(CommandError::Malformed)
    }

    /// Whether the reply is the number of positive answers.
    pub fn counts(self) -> bool {
        self.count
    }
}

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

    /// The data of what changed is copied into a string of the server.
    type Room = ();

    fn count(self) -> usize {
        self.items.count()
    }

    fn only(self) -> Option<Arg<'a>> {
        None
    }

    fn room(self) -> Option<()> {
        Some(())
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

    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, (): ()) {
        let words = words(to, self.items.form());
        let send = |data| propagation::propagate(ctx, c"BF.ADDPACKED", key, &words, &[data]);
        let part = self.items.to_repeat(changed);
        match part {
            None => send(self.data),
            Some(data) => send(OwnedString::new(&data).arg()),
        }
    }
}

/// The words between the key and the data of a BF.ADDPACKED with items in this form; they create the filter too if
/// `to` says so.
pub fn words(to: Target, form: Form) -> Words {
    let words = if to.created.is_none() && to.at.is_none() {
        Words::default()
    } else {
        propagation::words(Verb::AddPacked, to)
    };
    match form {
        Form::Lines => words.with("LINES"),
        Form::Width(width) => words.with("WIDTH").with_number(width),
        Form::Prefixed => words.with("PREFIXED"),
    }
}
