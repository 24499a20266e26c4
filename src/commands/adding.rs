//! What the commands that add share: items go in, and what changed is propagated once.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::creation::{self, Creation};
use super::error::CommandError;
use super::reply::Reply;
use super::{changing, propagation, window};
use crate::bloom::chain::batch;
use crate::bloom::packed::Answers;
use crate::bloom::params::Time;
use crate::bloom::{Allowance, Demand, Error, Filter, ahead};
use crate::keyspace::{self, KeyMut};
use crate::server::{Arg, Ctx, log, note, now};
use crate::{limits, stats};

/// The items of a command, in the form in which they came.
pub trait Batch: Copy {
    /// Whether RedisBloom and valkey-bloom send such batches to their replicas, also items that added nothing.
    const FOREIGN_SENDS_IT: bool;

    /// Memory that is set apart before anything changes, for [`Self::replicate`].
    type Room;

    /// How many they are.
    fn count(self) -> usize;

    /// Sets memory apart; `None` if there is none.
    fn room(self) -> Option<Self::Room>;

    /// [`Filter::add_blocks`] of them.
    ///
    /// # Errors
    /// As there.
    fn add_to(
        self,
        filter: &mut Filter,
        allowance: Allowance<'_>,
        added: impl FnMut(batch::Added),
    ) -> Result<(), Error>;

    /// Propagates those that changed the filter, to where it went.
    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, room: Self::Room);
}

/// Where items went.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The filter that was created with them; `None` where it was there.
    pub created: Option<Creation>,
    /// The time of the change, for a filter with a window.
    pub at: Option<Time>,
}

impl Batch for &[Arg<'_>] {
    const FOREIGN_SENDS_IT: bool = true;

    /// A list of pointers, as the server's own of the same items.
    type Room = ();

    fn count(self) -> usize {
        self.len()
    }

    fn room(self) -> Option<()> {
        Some(())
    }

    fn add_to(
        self,
        filter: &mut Filter,
        allowance: Allowance<'_>,
        added: impl FnMut(batch::Added),
    ) -> Result<(), Error> {
        filter.add_blocks(self.iter().map(|item| item.bytes()), allowance, added)
    }

    fn replicate(self, ctx: Ctx<'_>, key: Arg<'_>, to: Target, changed: &Answers, (): ()) {
        let kept = after_key(key, self, changed);
        match to {
            Target {
                created: None,
                at: None,
            } => ctx.replicate(c"BF.MADD", &kept),
            to => propagation::replicate_with(ctx, key, to, &kept[1..]),
        }
    }
}

/// The key, then those of the items that changed something, of those that were reached.
pub fn after_key<'a>(key: Arg<'a>, items: &[Arg<'a>], changed: &Answers) -> Vec<Arg<'a>> {
    let mut kept = vec![key; 1 + changed.count()];
    let mut count = 1;
    for (&item, has_changed) in items.iter().zip(changed.iter()) {
        // No branch: which items are new cannot be predicted.
        kept[count] = item;
        count += usize::from(has_changed);
    }
    kept.truncate(count);
    kept
}

/// Items to be added to a key.
#[derive(Clone, Copy, Debug)]
pub struct Adding<'a, B> {
    /// The context of the command.
    pub ctx: Ctx<'a>,
    /// The key.
    pub key: Arg<'a>,
    /// The items.
    pub items: B,
    /// The event of the command.
    pub event: &'static CStr,
    /// Whether the command says nothing but that its items are added.
    pub plain: bool,
    /// When they are added, where the command says that: what a window is told instead of the server's time.
    pub at: Option<Time>,
}

/// What became of the items.
#[derive(Debug, Default)]
pub struct Added {
    /// For each item that was reached, whether it was new.
    pub new: Answers,
    /// For each, whether it changed the filter, where that is not the same.
    refreshed: Option<Answers>,
    /// Why the next one was not taken.
    pub stopped: Option<CommandError>,
}

impl Added {
    /// Of a single item: whether it was new, or why it was not taken.
    fn of_one(self) -> Result<bool, CommandError> {
        self.stopped.map_or(Ok(self.new.ones() > 0), Err)
    }

    /// For each item that was reached, whether it changed the filter.
    fn changed(&self) -> &Answers {
        self.refreshed.as_ref().unwrap_or(&self.new)
    }

    /// One boolean an item; the array ends at an error.
    pub fn reply(&self, reply: Reply<'_>) {
        reply.array(self.new.count() + usize::from(self.stopped.is_some()));
        self.new.iter().for_each(|new| reply.boolean(new));
        if let Some(error) = &self.stopped {
            reply.error(error);
        }
    }
}

/// What was done to a filter that is to be told of.
struct Done<B: Batch> {
    added: Added,
    room: B::Room,
    /// The time that it was stamped with, in a window.
    at: Option<Time>,
    /// Whether layers of a window went.
    dropped: bool,
}

impl<B: Batch> Adding<'_, B> {
    /// Adds the items to the key's filter, or to a new one as `creation` says.
    ///
    /// # Errors
    /// The key's type, or why there is no filter to add to. Nothing changed.
    pub fn apply(
        self,
        creation: impl FnOnce() -> Result<Creation, CommandError>,
    ) -> Result<Added, CommandError> {
        let mut key = keyspace::write(self.ctx, self.key)?;
        let Some(filter) = key.filter() else {
            let creation = creation()?;
            if self.items.count() == 0 {
                return Ok(Added::default());
            }
            return self.create(key, creation);
        };
        let done = self.add_to(filter)?;
        Ok(self.tell(key, done))
    }

    /// Propagates what changed a filter that was there, and tells of it.
    fn tell(self, key: KeyMut<'_>, done: Done<B>) -> Added {
        let Done {
            added,
            room,
            at,
            dropped,
        } = done;
        if added.changed().ones() > 0 {
            self.propagate(&added, room, at);
            let events = [self.event, window::EVENT];
            key.changed(if dropped { &events } else { &events[..1] });
        }
        added
    }

    /// [`Self::apply`] for one item, on the shortest way; whether it is new.
    ///
    /// # Errors
    /// Those of [`Self::apply`], and why the item was not taken.
    pub fn apply_one(
        self,
        item: Arg<'_>,
        creation: impl FnOnce() -> Result<Creation, CommandError>,
    ) -> Result<bool, CommandError> {
        let item = ahead::item(item.bytes());
        let mut key = keyspace::write(self.ctx, self.key)?;
        let Some(filter) = key.filter() else {
            let added = self.create(key, creation()?)?;
            return added.of_one();
        };
        ahead::follow(Some(filter));
        if !filter.is_plain() {
            let done = self.add_to(filter)?;
            let added = self.tell(key, done);
            return added.of_one();
        }
        let new = self.change(filter, |filter| filter.add(item, &|demand| self.may_take(demand)));
        let new = match new {
            Ok(new) => new,
            Err(error) if self.is_expected(filter, error) => return Ok(false),
            Err(error) => return Err(self.refused(filter, error)),
        };
        stats::added(new.into(), (!new).into());
        if new {
            self.ctx.replicate_verbatim();
            key.changed(&[self.event]);
        }
        Ok(new)
    }

    fn create(self, mut key: KeyMut<'_>, creation: Creation) -> Result<Added, CommandError> {
        if self.ctx.follows() && self.plain {
            self.tell_of_missing_key();
        }
        let mut filter = creation::make(self.ctx, self.key, creation)?;
        filter.set_clock(now);
        let Done { added, room, at, .. } = self.add_to(&mut filter)?;
        if added.changed().ones() == 0 {
            // A window has no layer before its first item, and there was no memory for that one.
            return Err(CommandError::NoMemoryToCreate);
        }
        key.set(filter, creation.expires);
        let to = Target {
            created: Some(creation),
            at,
        };
        // There are some: the first item of an empty filter is always new. Of a batch that fills several
        // slices an item may come again and live on, which is a change too.
        self.items
            .replicate(self.ctx, self.key, to, added.changed(), room);
        key.changed(&[self.event]);
        Ok(added)
    }

    /// A primary with this module says how a filter is made before it sends items for it, so that the key is
    /// lost here, and so does a valkey-bloom; a RedisBloom does not. No replica of a RedisBloom has filters of other
    /// layouts.
    fn tell_of_missing_key(self) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        if !B::FOREIGN_SENDS_IT {
            log::DIVERGENCE.warn(self.ctx, self.key.bytes(), || {
                "it was missing when its primary added to it: it is made with this server's options"
                    .to_owned()
            });
        } else if stats::has_others_than_redisbloom() {
            log::DIVERGENCE.warn(self.ctx, self.key.bytes(), || {
                "it was missing when its primary added to it: it is made as RedisBloom would make it, with this \
                 server's options"
                    .to_owned()
            });
        } else if !TOLD.swap(true, Ordering::Relaxed) {
            note(
                Some(self.ctx),
                "the primary adds to filters that it did not make by a command of their own, as RedisBloom does: \
                 they are made in RedisBloom's layout, with this server's bf-error-rate, bf-initial-size and \
                 bf-expansion-factor, which must be RedisBloom's",
            );
        }
    }

    /// Whether a RedisBloom or a valkey-bloom would have sent this item although its filter is full: they send what
    /// their clients sent, also where it added nothing.
    fn is_expected(self, filter: &Filter, error: Error) -> bool {
        B::FOREIGN_SENDS_IT
            && self.ctx.must_obey()
            && matches!(filter, Filter::Classic(_) | Filter::Valkey(_))
            && matches!(error, Error::Full { .. })
    }

    fn add_to(self, filter: &mut Filter) -> Result<Done<B>, CommandError> {
        window::tell_time(self.ctx, filter, self.at);
        let at = filter.time();
        let answers = || Answers::with_room_for(self.items.count()).ok();
        let refreshed = match filter.window() {
            Some(window) if window.refresh() => answers().map(Some),
            _ => Some(None),
        };
        let Some(((mut new, mut refreshed), room)) = answers().zip(refreshed).zip(self.items.room()) else {
            if self.ctx.must_obey() {
                log::DIVERGENCE.warn(self.ctx, self.key.bytes(), || {
                    "items that are in the original were not added here: there is no memory for the answers".to_owned()
                });
            }
            return Err(CommandError::NoMemoryToAnswer);
        };
        let add = |filter: &mut Filter| {
            let may_take = |demand: Demand<'_>| self.may_take(demand);
            let end = self.items.add_to(filter, &may_take, |block| {
                new.push(block.new, block.count);
                if let Some(refreshed) = &mut refreshed {
                    refreshed.push(block.changed, block.count);
                }
            });
            (end, new.ones())
        };
        let (end, ones, dropped) = if filter.is_plain() {
            let (end, ones) = self.change(filter, add);
            (end, ones, false)
        } else {
            let before = filter.layers();
            let turned = changing::turn(self.ctx, filter, add);
            if at.is_none() {
                tell_of_growth(self.ctx, self.key, filter, before);
            }
            turned
        };
        stats::added(ones, new.count() as u64 - ones);
        let error = end.err().filter(|error| !self.is_expected(filter, *error));
        let stopped = error.map(|error| self.refused(filter, error));
        Ok(Done {
            added: Added {
                new,
                refreshed,
                stopped,
            },
            room,
            at,
            dropped,
        })
    }

    fn may_take(self, demand: Demand<'_>) -> Result<(), u64> {
        limits::allows(self.ctx, self.key.bytes(), demand)
    }

    /// Runs what may add layers to the filter, and counts those.
    #[inline]
    fn change<T>(self, filter: &mut Filter, change: impl FnOnce(&mut Filter) -> T) -> T {
        let before = filter.layers();
        let result = change(filter);
        if filter.layers() > before {
            self.grew(filter, before);
        }
        result
    }

    #[cold]
    fn grew(self, filter: &Filter, before: usize) {
        stats::grew(filter, before);
        tell_of_growth(self.ctx, self.key, filter, before);
    }

    /// What to reply to an item that was not taken. A replica that cannot do what its primary did is no
    /// replica any more, and its operator must hear of it.
    fn refused(self, filter: &Filter, error: Error) -> CommandError {
        if self.ctx.must_obey() {
            log::DIVERGENCE.warn(self.ctx, self.key.bytes(), || {
                format!("an item that is in the original was not added here: {error:?}")
            });
        } else {
            creation::tell_of_lack(self.ctx, self.key, error);
        }
        if !matches!(error, Error::Full { .. }) {
            stats::refused_growth();
        }
        let grows = filter.valkey_rules().is_some() && filter.expansion().is_some();
        match error {
            Error::Full { .. } if grows => CommandError::FullForGood,
            error => CommandError::of_add(error),
        }
    }

    /// Propagates the items that changed an existing filter, as the command itself if that is all of it.
    fn propagate(self, added: &Added, room: B::Room, at: Option<Time>) {
        let all_new = added.new.ones() == self.items.count() as u64;
        if self.plain && all_new && at.is_none() {
            self.ctx.replicate_verbatim();
        } else {
            let to = Target { created: None, at };
            self.items
                .replicate(self.ctx, self.key, to, added.changed(), room);
        }
    }
}

/// Tells the log of a filter that had `before` layers, and is a long chain now.
pub fn tell_of_growth(ctx: Ctx<'_>, key: Arg<'_>, filter: &Filter, before: usize) {
    // What a primary or a file says was told where it happened.
    if is_long(filter.layers(), before) && !ctx.must_obey() {
        log::GROWTH.warn(ctx, key.bytes(), || {
            let (layers, items) = (filter.layers(), filter.items());
            format!(
                "the Bloom filter has grown to {layers} layers with {items} items: one that BF.RESERVE makes for as \
                 many as it will hold is smaller and faster (BF.PLAN tells its size)"
            )
        });
    }
}

/// Layers from which on a chain is called long.
const LONG: usize = 5;

/// Whether a filter that had `before` layers is now worth a line: with its fifth, 8th, 16th, 32nd, … layer.
fn is_long(layers: usize, before: usize) -> bool {
    (before + 1..=layers).any(|layer| layer == LONG || layer > LONG && layer.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter that grows for ever would be told of for ever, or never.
    #[test]
    fn long_chains_are_told_of_ever_more_rarely() {
        let told: Vec<_> = (1..200).filter(|&layers| is_long(layers, layers - 1)).collect();
        assert_eq!(told, [5, 8, 16, 32, 64, 128]);
        assert!(is_long(40, 3) && is_long(8, 5) && !is_long(15, 8) && !is_long(4, 1));
    }
}
