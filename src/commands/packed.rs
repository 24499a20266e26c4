//! What BF.ADDPACKED and BF.EXISTSPACKED share: many items in one argument, and their answers in one reply.

use std::ffi::CStr;
use std::num::NonZeroUsize;

use super::adding::{Batch, Target};
use super::args::{Argument, Cursor, integer};
use super::creation::flag;
use super::docs::{Kind, Parameter};
use super::error::CommandError;
use super::propagation::{self, Words};
use super::window;
use crate::bloom::chain::batch::Added;
use crate::bloom::packed::{Answers, Form, Packed};
use crate::bloom::{Allowance, Error, Filter};
use crate::server::{Arg, Ctx, OwnedString};

/// The complexity of what is done with packed items.
pub const O_OF_PACKED: &CStr =
    c"O(b + n * m), where b is the number of bytes of the data, n is the number of items in it and m is the number of layers";

/// The form of the items.
pub const FORM: Parameter = Parameter::new(
    c"form",
    Kind::OneOf(&[
        Parameter::word(c"lines", c"LINES"),
        Parameter::new(c"width", Kind::Integer).after(c"WIDTH"),
        Parameter::word(c"prefixed", c"PREFIXED"),
    ]),
);
/// `COUNT`
pub const COUNT: Parameter = Parameter::option(c"count", c"COUNT", Kind::Word);
/// The items.
pub const DATA: Parameter = Parameter::new(c"data", Kind::Text);

/// Bytes up to which no room is set apart for what is propagated: the allocator leaves the server more than that.
const SMALL: usize = 1 << 20;
/// What a string of the server's takes besides its bytes, and more.
const STRING: usize = 64;

/// How a command's items are packed, and how it is to answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packing {
    form: Option<Form>,
    count: bool,
}

impl Packing {
    /// Takes `word`, and its value from `cursor`, if it is one of these.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The items that `data` has.
    ///
    /// # Errors
    /// No form was given, or the data is none in it.
    pub fn unpack(self, data: &[u8]) -> Result<Packed<'_>, CommandError> {
        let form = self.form.ok_or(CommandError::OneForm)?;
        Packed::new(data, form).map_err(CommandError::Malformed)
    }

    /// Whether the answers are to be counted.
    pub fn counts(self) -> bool {
        self.count
    }
}

/// The items of a command, and the argument that has them.
#[derive(Clone, Copy, Debug)]
pub struct PackedItems<'a> {
    /// The items.
    pub items: Packed<'a>,
    /// The argument.
    pub data: Arg<'a>,
}

impl Batch for PackedItems<'_> {
    const FOREIGN_SENDS_IT: bool = false;

    /// As much as the data takes, if that is much: the server ends where it has no memory for a string.
    type Room = Vec<u8>;

    fn count(self) -> usize {
        self.items.count()
    }

    fn room(self) -> Option<Vec<u8>> {
        let mut room = Vec::new();
        let bytes = self.data.bytes().len();
        if bytes > SMALL {
            room.try_reserve_exact(bytes.checked_add(STRING)?).ok()?;
        }
        // Memory that nobody sees may never be asked for.
        Some(std::hint::black_box(room))
    }

    fn add_to(
        self,
        filter: &mut Filter,
        allowance: Allowance<'_>,
        added: impl FnMut(Added),
    ) -> Result<(), Error> {
        filter.add_packed(self.items, allowance, added)
    }

    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, room: Vec<u8>) {
        let words = words(to, self.items.form());
        let send = |data| propagation::propagate(ctx, c"BF.ADDPACKED", key, &words, &[data]);
        let part = self.items.to_repeat(changed);
        drop(room);
        match part {
            None => send(self.data),
            Some(data) => send(OwnedString::new(&data).arg()),
        }
    }
}

/// What stands between the key and the data in a BF.ADDPACKED of items in this form, which makes the filter too if it
/// was created.
pub fn words(to: Target, form: Form) -> Words {
    let words = match to.created {
        Some(creation) => propagation::addpacked_words(creation),
        None if to.at.is_some() => Words::default().with("NOCREATE"),
        None => Words::default(),
    };
    let words = words.and(window::words(to.at));
    match form {
        Form::Lines => words.with("LINES"),
        Form::Width(width) => words.with("WIDTH").with(width.to_string()),
        Form::Prefixed => words.with("PREFIXED"),
    }
}
