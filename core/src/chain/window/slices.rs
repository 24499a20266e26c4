//! The slices of a window: when each began, until when it accepts items, and which of them have expired.
//!
//! A slice has one layer, or several: a burst that fills a layer early gets a further layer in the same slice. Times
//! are the stamps of the filter's changes. They never go back, unless a clock was so far ahead that it must have been
//! wrong.

use crate::error::Error;
use crate::params::{Capacity, Time, Window};

/// The time in which a layer accepts items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time of the layer's first item.
    pub first: Time,
    /// The end of the layer's slice; all items of the slice come before it.
    pub end: Time,
    /// Whether the layer is the first of its slice.
    pub begins: bool,
    /// Whether the layer's error rate comes from the spare rate, which is kept for bursts.
    pub spare: bool,
}

impl Span {
    /// Whether `next` can be the layer after this one: in the same slice, or in one that began when this layer's slice
    /// had ended. So no slice ends before an older one.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
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
    capacity: Capacity,
    spans: Vec<Span>,
    /// Whether the newest slice was ended before its time.
    ended: bool,
    /// The number of layers dropped since [`Self::take_dropped`]. It is not stored.
    dropped: u32,
}

impl Slices {
    /// The slices of a new filter, for `capacity` items in a window.
    pub fn new(window: Window, capacity: Capacity) -> Self {
        Self::stored(window, capacity, Vec::new(), false)
    }

    /// The slices of a stored filter.
    pub fn stored(window: Window, capacity: Capacity, spans: Vec<Span>, ended: bool) -> Self {
        Self {
            window,
            capacity,
            spans,
            ended,
            dropped: 0,
        }
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The number of items that is expected in a window.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// The spans of the layers, oldest first.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The list of spans, to move its memory.
    pub(super) fn list(&mut self) -> &mut Vec<Span> {
        &mut self.spans
    }

    /// The list of spans, to report its memory.
    pub(super) fn held(&self) -> &Vec<Span> {
        &self.spans
    }

    /// Whether the newest slice was ended before its time.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The stamp of a change at `now`: that time, or the newest stamp if the clock went back.
    pub fn time(&self, now: Time) -> Time {
        let stamp = self.newest_stamp();
        if self.is_far_before(now, stamp) {
            now
        } else {
            now.max(stamp)
        }
    }

    /// Whether the stamps come from a wrong clock: they are more than a window and a slice ahead of `now`. Items with
    /// such stamps would be remembered until that time.
    pub fn is_wrong_at(&self, now: Time) -> bool {
        self.is_far_before(now, self.newest_stamp())
    }

    fn is_far_before(&self, now: Time, stamp: Time) -> bool {
        stamp.saturating_sub(now) > self.window.length() + self.window.slice_length()
    }

    /// The time of the newest change that was stamped.
    pub fn newest_stamp(&self) -> Time {
        match self.spans.last() {
            Some(span) if self.ended => span.first.max(span.end.saturating_sub(1)),
            Some(span) => span.first,
            None => 0,
        }
    }

    /// The number of layers that have expired at `now`; they are the oldest.
    #[inline]
    pub fn expired(&self, now: Time) -> usize {
        let window = self.window.length();
        let has_expired = |span: &&Span| span.end.saturating_add(window) <= now;
        self.spans.iter().take_while(has_expired).count()
    }

    /// Whether the newest slice accepts items at `time`.
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

    /// How long ago the newest layer began at `time`, and how much is left of its slice.
    pub fn progress(&self, time: Time) -> Option<(u64, u64)> {
        let span = self.spans.last()?;
        Some((time.saturating_sub(span.first), span.end.saturating_sub(time)))
    }

    /// Makes room for another span.
    pub(super) fn reserve_one(&mut self) -> Result<(), Error> {
        super::reserve_one(&mut self.spans)
    }

    /// Appends the span of a new layer, which begins a slice or belongs to the newest one.
    pub(super) fn push(&mut self, time: Time, begins: bool, spare: bool) {
        let end = match (begins, self.spans.last()) {
            (false, Some(newest)) => newest.end,
            _ => time.saturating_add(self.window.slice_length()),
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

    /// Drops the oldest `count` spans.
    pub(super) fn drop_oldest(&mut self, count: usize) {
        self.spans.drain(..count);
        self.dropped = self.dropped.saturating_add(count as u32);
        // A header without slices that has this mark would be refused.
        self.ended &= !self.spans.is_empty();
    }

    /// Returns how many layers were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped).into()
    }

    /// Ends the newest slice after `time`, unless it ended before.
    pub(super) fn end_at(&mut self, time: Time) {
        let newest = self.newest();
        for span in self.spans.iter_mut().skip(newest) {
            span.end = span.end.min(time.saturating_add(1));
        }
        self.ended = !self.spans.is_empty();
    }

    /// Corrects the stamps of a [wrong clock](Self::is_wrong_at): later stamps become `now`, and the newest slice ends.
    pub(super) fn correct_stamps(&mut self, now: Time) {
        for span in &mut self.spans {
            span.first = span.first.min(now);
            span.end = span.end.min(now.saturating_add(1));
        }
        self.ended = true;
    }
}
