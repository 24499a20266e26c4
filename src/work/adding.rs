//! Adding items: they go into the filter, and those that changed it are propagated once.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::error::CommandError;
use crate::call::reply::Reply;
use crate::call::target::{Creation, Target};
use crate::keyspace::{self, KeyMut};
use crate::limits::{self, CommandMemory};
use crate::server::origin::Origin;
use crate::server::{Arg, Ctx, log, note};
use crate::stats::{self, Counted, Figure};
use crate::work::{changing, creation, propagation, window};
use libbloom::chain::batch::{BlockOutcome, Subset};
use libbloom::chain::demand::reserved;
use libbloom::packed::Answers;
use libbloom::params::{Layout, Time, Window};
use libbloom::{Allowance, Error, Filter, Item, ahead};

/// Up to this many items a list is made when it is needed, and no memory is reserved for it before.
const SHORT: usize = 1024;

/// The items of a command, in the form in which they arrived.
pub trait Batch<'a>: Copy {
    /// Whether RedisBloom and valkey-bloom have such batches. They propagate them even if no item was new.
    const FOREIGN_PRIMARIES_SEND_IT: bool;

    fn count(self) -> usize;

    /// The item, if it is the only one and an argument of its own.
    fn only(self) -> Option<Arg<'a>>;

    /// Memory that is reserved before anything changes, and used by [`Self::replicate`]; `None` if there is none.
    fn room(self) -> Option<ListRoom<'a>>;

    /// Adds the items to `filter` at `now`, up to one that fails, and reports each block of them to `added`.
    fn add_to(
        self,
        filter: &mut Filter,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome),
    ) -> Result<(), Error>;

    /// Propagates the items that changed the filter, and the filter too if `to` says that it was created.
    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, room: ListRoom<'a>);
}

impl<'a> Batch<'a> for &[Arg<'a>] {
    const FOREIGN_PRIMARIES_SEND_IT: bool = true;

    fn count(self) -> usize {
        self.len()
    }

    fn only(self) -> Option<Arg<'a>> {
        match self {
            [item] => Some(*item),
            _ => None,
        }
    }

    fn room(self) -> Option<ListRoom<'a>> {
        ListRoom::of(self.len())
    }

    fn add_to(
        self,
        filter: &mut Filter,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome),
    ) -> Result<(), Error> {
        filter.add_blocks(self.iter().map(|item| item.bytes()), now, allowance, added)
    }

    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, room: ListRoom<'a>) {
        room.lend(self, changed, |items| match to {
            Target {
                created: None,
                at: None,
            } => ctx.replicate(c"BF.MADD", key, [], items),
            to => propagation::propagate(ctx, key, &propagation::command(to, true), items),
        });
    }
}

/// Memory that is reserved for propagating items from a list.
pub struct ListRoom<'a>(Vec<Arg<'a>>);

impl<'a> ListRoom<'a> {
    /// Reserves memory for a list of up to `items` items; `None` if there is none.
    pub fn of(items: usize) -> Option<Self> {
        reserved(if items > SHORT { items } else { 0 }).ok().map(Self)
    }

    /// Lends the items that changed something. No list is made if all of them did.
    pub fn lend(self, items: &[Arg<'a>], changed: &Answers, lend: impl FnOnce(&[Arg<'a>])) {
        let Self(mut kept) = self;
        if changed.ones() == items.len() as u64 {
            return lend(items);
        }
        let Some(&any) = items.first() else {
            return;
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "there is room for so many, or they are few"
        )]
        kept.resize(changed.count(), any);
        let mut count = 0;
        for (&item, has_changed) in items.iter().zip(changed.iter()) {
            // There is no branch, because which items are new cannot be predicted.
            kept[count] = item;
            count += usize::from(has_changed);
        }
        kept.truncate(count);
        lend(&kept);
    }
}

#[derive(Clone, Copy)]
pub struct Addition<'a, B> {
    pub ctx: Ctx<'a>,
    pub key: Arg<'a>,
    pub items: B,
    /// The keyspace event of the command.
    pub event: &'static CStr,
    /// Whether the command has no options. Then it can be propagated unchanged.
    pub has_no_options: bool,
    /// The time of the addition if the command gives one. A window uses it instead of the server's time.
    pub at: Option<Time>,
}

/// Whether a single item was new, or the error at it.
type One = Result<bool, CommandError>;

/// The outcome of an addition, item by item.
#[derive(Default)]
pub struct Outcome {
    /// For each item that was processed, whether it was new.
    pub new: Answers,
    /// For each item that was processed, whether it changed the filter; `None` if only new items do.
    changed: Option<Answers>,
    /// The error at the next item, if there was one.
    pub stopped: Option<CommandError>,
    /// The key that was created for the items.
    pub created: Option<Creation>,
}

impl Outcome {
    /// No outcome yet, with room for those of `items` items; `None` without memory for it. A window may refresh items,
    /// which changes it although they are not new.
    fn with_room_for(items: usize, refreshes: bool) -> Option<Self> {
        let answers = || Answers::with_room_for(items).ok();
        Some(Self {
            new: answers()?,
            changed: if refreshes { Some(answers()?) } else { None },
            ..Self::default()
        })
    }

    #[inline]
    fn push(&mut self, block: BlockOutcome) {
        self.new.push(block.new, block.count);
        if let Some(changed) = &mut self.changed {
            changed.push(block.changed, block.count);
        }
    }

    fn of_one(one: One, created: Option<Creation>) -> Self {
        let mut outcome = Self {
            created,
            ..Self::default()
        };
        match one {
            Ok(new) => outcome.new.push(Subset::first(usize::from(new)), 1),
            Err(error) => outcome.stopped = Some(error),
        }
        outcome
    }

    /// The outcome for a single item, and the key that was created for it.
    fn into_one(self) -> (One, Option<Creation>) {
        let one = self.stopped.map_or(Ok(self.new.ones() > 0), Err);
        (one, self.created)
    }

    /// For each item that was processed, whether it changed the filter.
    fn changed(&self) -> &Answers {
        self.changed.as_ref().unwrap_or(&self.new)
    }

    /// Replies an array of one boolean for each item, and the error that stopped the command, which it also returns.
    pub fn reply(self, reply: Reply<'_>) -> Result<(), CommandError> {
        reply.array(self.new.count() + usize::from(self.stopped.is_some()));
        self.new.iter().for_each(|new| reply.boolean(new));
        self.stopped.map_or(Ok(()), |error| {
            reply.error(&error);
            Err(error)
        })
    }
}

/// An addition that is done, but not yet propagated.
struct Done<'a> {
    added: Outcome,
    room: ListRoom<'a>,
    /// The time of the addition, if the filter has a window.
    at: Option<Time>,
}

impl<'a, B: Batch<'a>> Addition<'a, B> {
    /// Adds the items to the key's filter, or to a new one from `creation`. After an error nothing changed.
    pub fn apply(
        self,
        creation: impl FnOnce(Origin) -> Result<Creation, CommandError>,
    ) -> Result<Outcome, CommandError> {
        if let (Some(item), None) = (self.items.only(), self.at) {
            let (one, created) = self.apply_one(item, creation)?;
            return Ok(Outcome::of_one(one, created));
        }
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(self.ctx, self.key) }?;
        let Some(filter) = key.filter() else {
            let origin = self.ctx.origin();
            let creation = creation(origin)?;
            if self.items.count() == 0 {
                return Ok(Outcome::default());
            }
            return self.create(key, creation, origin);
        };
        limits::check_lookups(self.ctx, filter, self.items.count())?;
        let done = self.add_to(filter, &self.memory())?;
        Ok(self.publish(key, done))
    }

    /// Propagates an addition to an existing filter, and signals the change.
    fn publish(self, key: KeyMut<'_>, done: Done<'a>) -> Outcome {
        let Done { added, room, at } = done;
        if added.changed().ones() > 0 {
            self.propagate(&added, room, at);
            key.changed(self.event);
        }
        added
    }

    /// [`Self::apply`] for a single item without a time, on a shorter path; also the key that was created for it.
    pub fn apply_one(
        self,
        item: Arg<'_>,
        creation: impl FnOnce(Origin) -> Result<Creation, CommandError>,
    ) -> Result<(One, Option<Creation>), CommandError> {
        let (sent, item) = (item, ahead::item(item.bytes()));
        // SAFETY: the command opens no other key to change it, and drops what it borrows of this one first.
        let mut key = unsafe { keyspace::write(self.ctx, self.key) }?;
        let Some(filter) = key.filter() else {
            let origin = self.ctx.origin();
            let creation = creation(origin)?;
            return if creation.filter.has_window() {
                Ok(self.create(key, creation, origin)?.into_one())
            } else {
                self.create_with_one(key, creation, origin, sent, item)
            };
        };
        ahead::follow(Some(filter));
        if filter.has_window_or_exceptions() {
            let done = self.add_to(filter, &self.memory())?;
            return Ok(self.publish(key, done).into_one());
        }
        let before = filter.layers();
        // The origin is only determined if the item makes the filter grow. Without a window the filter ignores the time.
        let new = filter
            .begin_addition()
            .add(item, 0, &|demand| self.memory().allow(demand));
        log_growth(self.ctx, self.key, filter, before);
        let new = match new {
            Ok(new) => new,
            Err(error) if self.is_expected(filter, error) => return Ok((Ok(false), None)),
            Err(error) => return Ok((Err(self.refused(filter, error)), None)),
        };
        stats::added(new.into(), (!new).into());
        if new {
            if self.has_no_options {
                self.ctx.replicate_verbatim();
            } else {
                self.ctx.replicate(c"BF.MADD", self.key, [], &[sent]);
            }
            key.changed(self.event);
        }
        Ok((Ok(new), None))
    }

    fn create(self, key: KeyMut<'_>, creation: Creation, origin: Origin) -> Result<Outcome, CommandError> {
        let memory = self.memory_of_creation(origin);
        let mut filter = creation::make(self.ctx, self.key, creation, &memory)?;
        let Done { mut added, room, at } = self.add_to(&mut filter, &memory)?;
        if added.changed().ones() == 0 {
            // A window has no layer before its first item, and there was no memory for its first layer.
            return Err(CommandError::NO_MEMORY_TO_CREATE);
        }
        // Something changed: the first item of an empty filter is always new.
        self.publish_new(key, filter, creation, &memory, || {
            let to = Target {
                created: Some(creation),
                at,
            };
            let changed = added.changed();
            self.items.replicate(self.ctx, self.key, to, changed, room);
        });
        added.created = Some(creation);
        Ok(added)
    }

    /// Stores a new filter, propagates it by `send`, and signals the change.
    fn publish_new(
        self,
        mut key: KeyMut<'_>,
        filter: Box<Counted>,
        creation: Creation,
        memory: &CommandMemory<'_>,
        send: impl FnOnce(),
    ) {
        key.set(filter, creation.expires);
        if memory.origin.has_no_readers() {
            self.ctx.replicate_verbatim();
        } else {
            send();
        }
        key.changed(self.event);
    }

    /// Creates a filter without a window, with one item: [`Self::create`] on a shorter path.
    fn create_with_one(
        self,
        key: KeyMut<'_>,
        creation: Creation,
        origin: Origin,
        sent: Arg<'_>,
        item: Item<'_>,
    ) -> Result<(One, Option<Creation>), CommandError> {
        let memory = self.memory_of_creation(origin);
        let mut filter = creation::make(self.ctx, self.key, creation, &memory)?;
        let new = filter
            .begin_addition()
            .add(item, 0, &|demand| memory.allow(demand));
        let new = new.map_err(|error| self.refused(&filter, error))?;
        stats::added(new.into(), (!new).into());
        self.publish_new(key, filter, creation, &memory, || {
            let words = propagation::command(creation.into(), true);
            propagation::propagate(self.ctx, self.key, &words, &[sent]);
        });
        Ok((Ok(new), Some(creation)))
    }

    /// The memory that a creation may use. Logs one that a primary's addition without options causes.
    fn memory_of_creation(self, origin: Origin) -> CommandMemory<'a> {
        if origin.is_primary() && self.has_no_options {
            self.log_missing_key();
        }
        CommandMemory::new(self.ctx, self.key.bytes(), origin)
    }

    /// Logs that a filter is created for a missing key. A primary with this module or valkey-bloom propagates a creation
    /// first, so the key was lost here. RedisBloom does not, but none of its replicas has filters of other layouts.
    fn log_missing_key(self) {
        static LOGGED: AtomicBool = AtomicBool::new(false);
        if !B::FOREIGN_PRIMARIES_SEND_IT {
            log::DIVERGENCE.warn(self.ctx, self.key.bytes(), || {
                "it was missing when its primary added to it: it is made with this server's options"
                    .to_owned()
            });
        } else if stats::has_other_layouts_than_classic() {
            log::DIVERGENCE.warn(self.ctx, self.key.bytes(), || {
                "it was missing when its primary added to it: it is made as RedisBloom would make it, with this \
                 server's options"
                    .to_owned()
            });
        } else if !LOGGED.swap(true, Ordering::Relaxed) {
            note(
                Some(self.ctx),
                "the primary adds to filters that it did not make by a command of their own, as RedisBloom does: \
                 they are made in RedisBloom's layout, with this server's bf-error-rate, bf-initial-size and \
                 bf-expansion-factor, which must be RedisBloom's",
            );
        }
    }

    /// Whether a primary with another module had the error too: these send their clients' words even to a full filter.
    fn is_expected(self, filter: &Filter, error: Error) -> bool {
        B::FOREIGN_PRIMARIES_SEND_IT
            && self.ctx.must_obey()
            && matches!(filter.layout(), Layout::Classic | Layout::Valkey)
            && matches!(error, Error::Full { .. })
    }

    fn add_to(self, filter: &mut Counted, memory: &CommandMemory<'_>) -> Result<Done<'a>, CommandError> {
        let now = window::time(self.ctx, filter, self.at);
        let at = filter.stamp(now);
        let refreshes = filter.window().is_some_and(Window::refresh);
        let added = Outcome::with_room_for(self.items.count(), refreshes);
        let (Some(mut added), Some(room)) = (added, self.items.room()) else {
            return Err(CommandError::NO_MEMORY_TO_ANSWER);
        };
        let (before, has_more) = (filter.layers(), filter.has_window_or_exceptions());
        let allowance = &|demand| memory.allow(demand);
        let mut change = if has_more {
            filter.begin_change()
        } else {
            filter.begin_addition()
        };
        let end = self
            .items
            .add_to(&mut change, now, allowance, |block| added.push(block));
        stats::added(added.new.ones(), added.new.count() as u64 - added.new.ones());
        drop(change);
        if has_more {
            changing::free_dropped(self.ctx, filter, before);
        }
        if at.is_none() {
            log_growth(self.ctx, self.key, filter, before);
        }
        if let Err(error) = end
            && !self.is_expected(filter, error)
        {
            added.stopped = Some(self.refused(filter, error));
        }
        Ok(Done { added, room, at })
    }

    fn memory(self) -> CommandMemory<'a> {
        CommandMemory::of_command(self.ctx, self.key)
    }

    /// The reply for an item that could not be added.
    fn refused(self, filter: &Filter, error: Error) -> CommandError {
        if !self.ctx.must_obey() {
            creation::log_shortage(self.ctx, self.key, error);
        }
        if !matches!(error, Error::Full { .. }) {
            Figure::RefusedGrowths.add(1);
        }
        // RedisBloom keeps only the lower 32 bits of an expansion: of 2^32 it keeps 0, and the filter cannot grow.
        let grows = filter.expansion().is_some_and(|factor| factor > 0);
        match error {
            Error::Full { .. } if grows => CommandError::FULL_FOR_GOOD,
            error => CommandError::of_add(error),
        }
    }

    /// Propagates the items that changed an existing filter: the command unchanged if all items did.
    fn propagate(self, added: &Outcome, room: ListRoom<'a>, at: Option<Time>) {
        let all_new = added.new.ones() == self.items.count() as u64;
        if self.has_no_options && all_new && at.is_none() {
            drop(room);
            self.ctx.replicate_verbatim();
        } else {
            let to = Target { created: None, at };
            self.items
                .replicate(self.ctx, self.key, to, added.changed(), room);
        }
    }
}

/// Logs a filter that has become a long chain; it had `before` layers.
#[inline]
pub fn log_growth(ctx: Ctx<'_>, key: Arg<'_>, filter: &Filter, before: usize) {
    let layers = filter.layers();
    if layers > before {
        log_layers(ctx, key, filter, before, layers);
    }
}

#[cold]
fn log_layers(ctx: Ctx<'_>, key: Arg<'_>, filter: &Filter, before: usize, layers: usize) {
    // A primary has logged its own growth.
    if is_long(layers, before) && !ctx.must_obey() {
        log::GROWTH.warn(ctx, key.bytes(), || {
            let items = filter.items();
            format!(
                "the Bloom filter has grown to {layers} layers with {items} items: one that BF.RESERVE makes for its \
                 final number of items is smaller and faster (BF.PLAN tells its size)"
            )
        });
    }
}

/// Whether growth from `before` layers is logged: it is at the fifth, 8th, 16th, 32nd, … layer.
fn is_long(layers: usize, before: usize) -> bool {
    (before + 1..=layers).any(|layer| layer == 5 || layer > 5 && layer.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter that grows for ever is logged, and not each time.
    #[test]
    fn long_chains_are_told_of_ever_more_rarely() {
        let logged: Vec<_> = (1..200).filter(|&layers| is_long(layers, layers - 1)).collect();
        assert_eq!(logged, [5, 8, 16, 32, 64, 128]);
        assert!(is_long(40, 3) && is_long(8, 5) && !is_long(15, 8) && !is_long(4, 1));
    }
}
