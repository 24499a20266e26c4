//! `BF.ADDPACKED key [CAPACITY n] [ERROR e] [EXPANSION n] [NOCREATE] [NONSCALING] [GROWING] [SEED s] [LAYOUT l]
//! [TIGHTENING t] [VALIDATESCALETO n] [WINDOW s [SLICES n] [REFRESH]] [AT ms] [NX] [EX s|PX ms|EXAT s|PXAT ms]
//! LINES|WIDTH n|PREFIXED [COUNT] data`

use std::ffi::CStr;

use super::adding::Adding;
use super::args::{Argument, Cursor};
use super::docs::{
    AT, CAPACITY, Docs, ERROR, EXPANSION, EXPIRY, GROWING, KEY_TO_ADD_TO, LAYOUT, NOCREATE, NONSCALING, NX,
    REFRESH, SEED, SINCE_OWN, SLICES, TIGHTENING, VALIDATESCALETO, WINDOW,
};
use super::error::CommandError;
use super::missing::MissingKey;
use super::packed::{COUNT, DATA, FORM, O_OF_PACKED, PackedItems, Packing};
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::packed::Packed;
use crate::{options, server};

/// Adds packed items; creates the filter, as described or with the configured defaults, if the key is missing.
pub struct AddPacked;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request<'a, A> {
    key: A,
    /// What is to become of a missing key.
    pub missing: MissingKey,
    packing: Packing,
    /// The items.
    pub items: Packed<'a>,
    data: A,
}

impl<'a, A: Argument<'a>> Request<'a, A> {
    /// Reads the arguments after the command's name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(arguments: &'a [A]) -> Result<Self, CommandError> {
        let [key, words @ .., data] = arguments else {
            return Err(CommandError::Arity);
        };
        let mut cursor = Cursor::new(words);
        let (mut missing, mut packing) = (MissingKey::default(), Packing::default());
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if !packing.take(word, &mut cursor)? && !missing.take(word, &mut cursor, AddPacked::NAME)? {
                return Err(CommandError::unknown(word));
            }
        }
        missing.check()?;
        Ok(Self {
            key: *key,
            missing,
            packing,
            items: packing.unpack(data.bytes())?,
            data: *data,
        })
    }
}

impl Command for AddPacked {
    const NAME: &'static CStr = c"bf.addpacked";
    const FLAGS: &'static CStr = c"write deny-oom";
    const CATEGORIES: &'static CStr = c"write";
    const DOCS: Docs = Docs {
        summary: c"Adds the items that are packed in one argument to a Bloom Filter. A filter will be created if it does not exist",
        complexity: O_OF_PACKED,
        since: SINCE_OWN,
        parameters: &[
            KEY_TO_ADD_TO,
            CAPACITY,
            ERROR,
            EXPANSION,
            NOCREATE,
            NONSCALING,
            GROWING,
            SEED,
            LAYOUT,
            TIGHTENING,
            VALIDATESCALETO,
            WINDOW,
            SLICES,
            REFRESH,
            AT,
            NX,
            EXPIRY,
            FORM,
            COUNT,
            DATA,
        ],
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let Request {
            key,
            missing,
            packing,
            items,
            data,
        } = Request::parse(arguments)?;
        if !ctx.must_obey() {
            missing.check_goal(options::config)?;
        }
        let adding = Adding {
            ctx,
            key,
            items: PackedItems { items, data },
            event: c"bf.add",
            plain: !missing.is_described,
            at: missing.at,
        };
        let added = adding.apply(|| match items.count() {
            0 => missing.creation(&options::config(), server::milliseconds()),
            _ => missing.create(ctx, key),
        })?;
        match added.stopped {
            Some(error) => return Err(CommandError::After(Box::new(error), added.new.count())),
            None if packing.counts() => Reply(ctx).integer(added.new.ones()),
            None => Reply(ctx).bulk(added.new.into_bitmap().bytes()),
        }
        Ok(())
    }
}
