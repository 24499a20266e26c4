//! What BF.ADD, BF.MADD and BF.INSERT share: items go in, and what changed is propagated once.

use std::ffi::CStr;

use super::creation;
use super::error::CommandError;
use super::reply::Reply;
use crate::bloom::Filter;
use crate::bloom::params::Spec;
use crate::keyspace::{self, KeyMut};
use crate::options;
use crate::server::{Arg, Ctx};

/// Items to be added to a key.
#[derive(Clone, Copy, Debug)]
pub struct Adding<'a> {
    /// The context of the command.
    pub ctx: Ctx<'a>,
    /// The key.
    pub key: Arg<'a>,
    /// The items.
    pub items: &'a [Arg<'a>],
    /// The event of the command.
    pub event: &'static CStr,
    /// Whether the command means the same on a key that exists as BF.MADD of its items.
    pub plain: bool,
}

/// What became of the items.
#[derive(Debug)]
pub struct Added {
    /// For each item that was reached, whether it was new.
    new: Vec<bool>,
    /// Why the next one was not taken.
    stopped: Option<CommandError>,
}

impl Added {
    /// One boolean an item; the array ends at an error.
    pub fn reply(&self, reply: Reply<'_>) {
        reply.array(self.new.len() + usize::from(self.stopped.is_some()));
        for &new in &self.new {
            reply.boolean(new);
        }
        if let Some(error) = &self.stopped {
            reply.error(error);
        }
    }

    /// The reply to a single item.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn reply_single(self, reply: Reply<'_>) -> Result<(), CommandError> {
        match (self.stopped, self.new.first()) {
            (Some(error), _) => Err(error),
            (None, new) => {
                reply.boolean(new.is_some_and(|&new| new));
                Ok(())
            }
        }
    }
}

impl Adding<'_> {
    /// Adds the items to the key's filter, or to a new one as `spec` says.
    ///
    /// # Errors
    /// The key's type, or why there is no filter to add to. Nothing changed.
    pub fn apply(self, spec: impl FnOnce() -> Result<Spec, CommandError>) -> Result<Added, CommandError> {
        let mut key = keyspace::write(self.ctx, self.key)?;
        if let Some(filter) = key.filter() {
            let added = self.add_to(filter)?;
            if added.new.contains(&true) {
                self.propagate(&added);
                key.changed(self.event);
            }
            return Ok(added);
        }
        self.create(&mut key, spec()?)
    }

    fn create(self, key: &mut KeyMut<'_>, spec: Spec) -> Result<Added, CommandError> {
        let mut filter = creation::make(self.ctx, spec)?;
        let added = self.add_to(&mut filter)?;
        key.set(filter);
        creation::replicate(self.ctx, self.key, spec);
        self.propagate_new(&added);
        key.changed(self.event);
        Ok(added)
    }

    fn add_to(self, filter: &mut Filter) -> Result<Added, CommandError> {
        let allowance = |bytes| options::allows(self.ctx, bytes);
        let mut new = Vec::new();
        new.try_reserve_exact(self.items.len())
            .map_err(|_| CommandError::NoMemoryToGrow)?;
        let outcome = match self.items {
            [item] => filter
                .add(item.bytes(), &allowance)
                .map(|is_new| new.push(is_new)),
            items => {
                let items = items.iter().map(|item| item.bytes());
                filter.add_all(items, &allowance, |is_new| new.push(is_new))
            }
        };
        Ok(Added {
            new,
            stopped: outcome.err().map(CommandError::of_add),
        })
    }

    /// Propagates the items that changed an existing filter, as the command itself if that is all of it.
    fn propagate(self, added: &Added) {
        let all_new = added.stopped.is_none() && !added.new.contains(&false);
        if self.plain && all_new {
            self.ctx.replicate_verbatim();
        } else {
            self.propagate_new(added);
        }
    }

    fn propagate_new(self, added: &Added) {
        let new = self
            .items
            .iter()
            .zip(&added.new)
            .filter(|(_, new)| **new)
            .map(|(item, _)| *item);
        let arguments: Vec<_> = std::iter::once(self.key).chain(new).collect();
        if arguments.len() > 1 {
            self.ctx.replicate(c"BF.MADD", &arguments);
        }
    }
}
