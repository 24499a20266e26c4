//! How the items of BF.ADDPACKED and BF.EXISTSPACKED are packed.

use std::ffi::CStr;
use std::num::NonZeroUsize;

use super::args::{Argument, Cursor, flag, number};
use super::docs::{Kind, Parameter};
use super::error::CommandError;
use libbloom::packed::{Form, Packed};

pub const O_OF_PACKED: &CStr =
    c"O(b + n * m), where b is the number of bytes of the data, n is the number of items in it and m is the number of layers";

pub(crate) const FORM: Parameter = Parameter::new(
    c"form",
    Kind::OneOf(&[
        Parameter::word(c"lines", c"LINES"),
        Parameter::new(c"width", Kind::Integer).after(c"WIDTH"),
        Parameter::word(c"prefixed", c"PREFIXED"),
    ]),
);
pub(crate) const COUNT: Parameter = Parameter::option(c"count", c"COUNT", Kind::Word);
pub(crate) const DATA: Parameter = Parameter::new(c"data", Kind::Text);

/// How a command's items are packed, and whether it counts instead of listing its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packing {
    form: Option<Form>,
    /// Whether the reply is the number of positive answers.
    pub count: bool,
}

impl Packing {
    /// Reads `word`, and its value from `cursor`, if it is one of the words for packing.
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
            let width = number(value, "width", 1..=u32::MAX)? as usize;
            Form::Width(NonZeroUsize::new(width).ok_or(CommandError::Bad("width"))?)
        } else if word.eq_ignore_ascii_case(b"COUNT") {
            flag(&mut self.count, "COUNT")?;
            return Ok(true);
        } else {
            return Ok(false);
        };
        if self.form.replace(form).is_some() {
            return Err(CommandError::ONE_FORM);
        }
        Ok(true)
    }

    /// Reads all of `words`, each of which is one for packing.
    pub fn parse<'a, A: Argument<'a>>(words: &'a [A]) -> Result<Self, CommandError> {
        let (mut packing, mut cursor) = (Self::default(), Cursor::new(words));
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if !packing.take(word, &mut cursor)? {
                return Err(CommandError::unknown(word));
            }
        }
        Ok(packing)
    }

    pub fn unpack(self, data: &[u8]) -> Result<Packed<'_>, CommandError> {
        let form = self.form.ok_or(CommandError::ONE_FORM)?;
        Packed::new(data, form).map_err(CommandError::Malformed)
    }
}
