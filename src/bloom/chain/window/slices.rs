//! The slices of a window: when each began, until when items go into it, and which of them are over.
//!
//! A slice is one layer, or some: a burst that fills one before its time gets a further layer in the same slice.
//! Times are those that the filter's changes were stamped with. They never go back, unless a clock was so far
//! ahead that it must have been wrong.

use crate::bloom::error::Error;
use crate::bloom::params::{Time, Window};

/// When items go into a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time of its first item.
    pub first: Time,
    /// The end of its slice: an item comes before it. [`Span::OPEN`] while nothing but its items can end it.
    pub end: Time,
    /// Whether the slice begins with it.
    pub begins: bool,
    /// Whether its rate is of what is kept for bursts.
    pub spare: bool,
}

impl Span {
    /// The end of a slice that ends when it is full.
    pub const OPEN: Time = Time::MAX;

    /// Whether `next` can be the layer after this one: of the same slice, or of one that began when this one's had
    /// ended. Whatever the newest slice's end is then set to, it is not before this one's.
    pub(in crate::bloom) fn is_followed_by(&self, next: &Self) -> bool {
        let ends_well = if next.begins {
            self.end <= next.first.saturating_add(1) && self.end <= next.end
        } else {
            self.end == next.end
        };
        self.first <= next.first && ends_well
    }
}

/// The spans of a filter's layers, oldest first.
#[derive(Debug)]
pub struct Slices {
    window: Window,
    spans: Vec<Span>,
    /// Whether the newest slice takes no more items, whatever the time is.
    ended: bool,
    /// Layers that were taken off since it was last asked. It is no part of what is stored.
    dropped: u32,
}

impl Slices {
    /// Those of a window; a new one has none.
    pub fn new(window: Window, spans: Vec<Span>, ended: bool) -> Self {
        Self {
            window,
            spans,
            ended,
            dropped: 0,
        }
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The spans of the layers, oldest first.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The list of them.
    pub(super) fn list(&mut self) -> &mut Vec<Span> {
        &mut self.spans
    }

    /// The same, for its memory.
    pub(super) fn held(&self) -> &Vec<Span> {
        &self.spans
    }

    /// Whether the newest slice was ended before its time.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// What a change is stamped with at `now`: that, or the newest stamp if the clock went back.
    pub fn time(&self, now: Time) -> Time {
        let stamp = self.newest_stamp();
        if self.is_far_before(now, stamp) {
            now
        } else {
            now.max(stamp)
        }
    }

    /// Whether the stamps are of a clock that was wrong: more than a window and a slice ahead of `now`. What was
    /// added by it would not be forgotten before that time comes.
    pub fn is_wrong_at(&self, now: Time) -> bool {
        self.is_far_before(now, self.newest_stamp())
    }

    fn is_far_before(&self, now: Time, stamp: Time) -> bool {
        let (Some(window), Some(slice)) = (self.window.milliseconds(), self.window.slice_milliseconds())
        else {
            return false;
        };
        stamp.saturating_sub(now) > window + slice
    }

    /// The time of the newest change that was stamped.
    pub fn newest_stamp(&self) -> Time {
        match self.spans.last() {
            Some(span) if self.ended => span.first.max(span.end.saturating_sub(1)),
            Some(span) => span.first,
            None => 0,
        }
    }

    /// How many of the layers, which are the oldest, are over at `now`. None is where items are counted.
    #[inline]
    pub fn over(&self, now: Time) -> usize {
        let Some(window) = self.window.milliseconds() else {
            return 0;
        };
        let is_over = |span: &&Span| span.end.saturating_add(window) <= now;
        self.spans.iter().take_while(is_over).count()
    }

    /// Whether the newest slice takes items at `time`.
    pub fn is_open(&self, time: Time) -> bool {
        !self.ended && self.spans.last().is_some_and(|span| time < span.end)
    }

    /// The first layer of the newest slice.
    pub fn newest(&self) -> usize {
        let begin = self.spans.iter().rposition(|span| span.begins);
        begin.unwrap_or(0)
    }

    /// The slices, as ranges of layers, oldest first.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let begins = |from: usize| {
            let next = self.spans.iter().skip(from + 1).position(|span| span.begins);
            next.map_or(self.spans.len(), |next| from + 1 + next)
        };
        let first = (!self.spans.is_empty()).then(|| 0..begins(0));
        std::iter::successors(first, move |range| {
            (range.end < self.spans.len()).then(|| range.end..begins(range.end))
        })
    }

    /// How long ago the newest layer began at `time`, and how much is left of its slice, in milliseconds.
    pub fn progress(&self, time: Time) -> Option<(u64, u64)> {
        let span = self.spans.last()?;
        Some((time.saturating_sub(span.first), span.end.saturating_sub(time)))
    }

    /// Room for one span more.
    pub(super) fn reserve_one(&mut self) -> Result<(), Error> {
        super::reserve_one(&mut self.spans)
    }

    /// Takes note of a layer more, in a slice that begins with it or in the newest one.
    pub(super) fn push(&mut self, time: Time, begins: bool, spare: bool) {
        let end = match (begins, self.spans.last()) {
            (false, Some(newest)) => newest.end,
            _ => self
                .window
                .slice_milliseconds()
                .map_or(Span::OPEN, |slice| time.saturating_add(slice)),
        };
        if begins {
            self.end_at(time);
            self.ended = false;
        }
        self.spans.push(Span {
            first: time,
            end,
            begins,
            spare,
        });
    }

    /// Takes the oldest `count` off.
    pub(super) fn drop_oldest(&mut self, count: usize) {
        self.spans.drain(..count);
        self.dropped = self.dropped.saturating_add(count as u32);
        // Without a slice there is none that was ended, and nobody loads a header that says so.
        self.ended &= !self.spans.is_empty();
    }

    /// How many were taken off since this was last asked.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped).into()
    }

    /// Ends the newest slice with `time` as the last moment of its items, unless it ended before.
    pub(super) fn end_at(&mut self, time: Time) {
        let newest = self.newest();
        for span in self.spans.iter_mut().skip(newest) {
            span.end = span.end.min(time.saturating_add(1));
        }
        self.ended = !self.spans.is_empty();
    }

    /// Takes all items for added at `now` that are stamped later, and ends the newest slice: see
    /// [`Self::is_wrong_at`].
    pub(super) fn put_right(&mut self, now: Time) {
        for span in &mut self.spans {
            span.first = span.first.min(now);
            span.end = span.end.min(now.saturating_add(1));
        }
        self.ended = true;
    }
}
