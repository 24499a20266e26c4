//! What BF.ADD, BF.MADD and BF.INSERT share: items go in, and what changed is propagated once.

use std::ffi::CStr;

use super::creation;
use super::error::CommandError;
use super::reply::Reply;
use crate::bloom::params::Spec;
use crate::bloom::{Error, Filter};
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
}

impl<'a> Adding<'a> {
    /// Adds the items to the key's filter, or to a new one as `spec` says.
    ///
    /// # Errors
    /// The key's type, or why there is no filter to add to. Nothing changed.
    pub fn apply(self, spec: impl FnOnce() -> Result<Spec, CommandError>) -> Result<Added, CommandError> {
        let mut key = keyspace::write(self.ctx, self.key)?;
        let Some(filter) = key.filter() else {
            return self.create(key, spec()?);
        };
        let added = self.add_to(filter)?;
        if added.new.contains(&true) {
            self.propagate(&added);
            key.changed(self.event);
        }
        Ok(added)
    }

    /// [`Self::apply`] for one item, on the shortest way; whether it is new.
    ///
    /// # Errors
    /// Those of [`Self::apply`], and why the item was not taken.
    pub fn apply_one(
        self,
        item: Arg<'_>,
        spec: impl FnOnce() -> Result<Spec, CommandError>,
    ) -> Result<bool, CommandError> {
        let mut key = keyspace::write(self.ctx, self.key)?;
        let Some(filter) = key.filter() else {
            let added = self.create(key, spec()?)?;
            return added.stopped.map_or(Ok(added.new.contains(&true)), Err);
        };
        let new = filter.add(item.bytes(), &|demand| options::allows(self.ctx, demand));
        let new = new.map_err(|error| self.refused(error))?;
        if new {
            self.ctx.replicate_verbatim();
            key.changed(self.event);
        }
        Ok(new)
    }

    fn create(self, mut key: KeyMut<'_>, spec: Spec) -> Result<Added, CommandError> {
        if self.ctx.follows() && self.plain {
            // A primary with this module says how a filter is made before it sends items for it.
            let key = self.key.bytes().escape_ascii();
            let line = format!(
                "key '{key}' was missing when its primary added to it: it is made with this server's options"
            );
            self.ctx.warn(&line);
        }
        let mut filter = creation::make(self.ctx, spec)?;
        let added = self.add_to(&mut filter)?;
        key.set(filter);
        // There are new items: the first one of an empty filter always is.
        creation::replicate_with(self.ctx, self.key, spec, &self.key_and_new_items(&added)[1..]);
        key.changed(self.event);
        Ok(added)
    }

    /// The key, and the items that changed the filter.
    fn key_and_new_items(self, added: &Added) -> Vec<Arg<'a>> {
        let mut kept = vec![self.key; 1 + added.new.len()];
        let mut count = 1;
        for (&item, &new) in self.items.iter().zip(&added.new) {
            // No branch: which items are new cannot be predicted.
            kept[count] = item;
            count += usize::from(new);
        }
        kept.truncate(count);
        kept
    }

    fn add_to(self, filter: &mut Filter) -> Result<Added, CommandError> {
        let mut new = Vec::new();
        new.try_reserve_exact(self.items.len())
            .map_err(|_| CommandError::NoMemoryToGrow)?;
        let items = self.items.iter().map(|item| item.bytes());
        let end = filter.add_all(items, &|demand| options::allows(self.ctx, demand), |is_new| {
            new.push(is_new)
        });
        Ok(Added {
            new,
            stopped: end.err().map(|error| self.refused(error)),
        })
    }

    /// What to reply to an item that was not taken. A replica that cannot do what its primary did is no
    /// replica any more, and its operator must hear of it.
    fn refused(self, error: Error) -> CommandError {
        if self.ctx.must_obey() {
            let key = self.key.bytes().escape_ascii();
            let line =
                format!("an item that is in the original of key '{key}' was not added here: {error:?}");
            self.ctx.warn(&line);
        }
        CommandError::of_add(error)
    }

    /// Propagates the items that changed an existing filter, as the command itself if that is all of it.
    fn propagate(self, added: &Added) {
        let all_new = added.stopped.is_none() && !added.new.contains(&false);
        if self.plain && all_new {
            self.ctx.replicate_verbatim();
        } else {
            self.ctx.replicate(c"BF.MADD", &self.key_and_new_items(added));
        }
    }
}
