//! A command that may create a filter and add items, in this module's words.

use super::args::{Argument, Cursor};
use super::error::CommandError;
use super::given::{Given, Verb};
use super::packing::Packing;
use super::target::{is_spec, of_spec};
use libbloom::packed::Packed;

/// A command that may create a filter and add items.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their types say what they are")]
pub struct Request<'a, A> {
    pub key: A,
    pub given: Given,
    pub items: Items<'a, A>,
}

/// The items of a command.
#[derive(Clone, Copy, Debug)]
pub enum Items<'a, A> {
    /// None: the command only creates.
    None,
    /// Each item is an argument.
    List(&'a [A]),
    /// Packed in one argument.
    #[expect(missing_docs, reason = "the items, and the argument")]
    Packed { items: Packed<'a>, data: A },
}

impl<'a, A: Argument<'a>> Request<'a, A> {
    /// Reads the arguments after the command's name: options, or a server's token directly after the key.
    pub fn parse(verb: Verb, arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let data = match verb {
            Verb::AddPacked => Some(cursor.take_last()?),
            Verb::Reserve | Verb::Plan | Verb::Insert => None,
        };
        let given = match cursor.rest() {
            [token, words @ ..] if is_spec(token.bytes()) && verb != Verb::Reserve => {
                let target = of_spec(token.bytes()).ok_or(CommandError::BAD_SPEC)?;
                let packing = match data {
                    Some(_) => Packing::parse(words)?,
                    None => Packing::default(),
                };
                cursor = Cursor::new(words);
                Given {
                    at: target.at,
                    has_items: !words.is_empty(),
                    packing,
                    told: target.created,
                    ..Given::default()
                }
            }
            _ => Given::parse(verb, &mut cursor)?,
        };
        let items = match data {
            Some(data) => Items::Packed {
                items: given.packing.unpack(data.bytes())?,
                data,
            },
            None if given.has_items => Items::List(cursor.at_least_one()?),
            None => Items::None,
        };
        Ok(Self { key, given, items })
    }
}
