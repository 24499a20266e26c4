//! Lines for the operator that any command could cause: of each kind a few a minute, so that no client can fill
//! the log.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};

use crate::server::{self, Ctx};

/// Lines of a kind that are written in a minute.
const LINES: u32 = 10;
/// A minute, in milliseconds.
const MINUTE: i64 = 60_000;

/// A kind of lines. They are written on the main thread.
#[derive(Debug)]
pub struct Kind {
    /// When the minute began in which lines are counted.
    start: AtomicI64,
    lines: AtomicU32,
}

/// Creations and growths that were refused.
pub static REFUSAL: Kind = Kind::new();
/// Filters that became long chains.
pub static GROWTH: Kind = Kind::new();
/// Error rates that are not used as they were asked for.
pub static RATE: Kind = Kind::new();
/// Stored filters that are none.
pub static LOAD: Kind = Kind::new();
/// Filters that there was no memory to copy.
pub static COPY: Kind = Kind::new();
/// Replicas that cannot do what their primary did.
pub static DIVERGENCE: Kind = Kind::new();

impl Kind {
    const fn new() -> Self {
        Self {
            start: AtomicI64::new(i64::MIN),
            lines: AtomicU32::new(0),
        }
    }

    /// Warns of something that happens to `key`, unless too many lines of this kind were written lately.
    pub fn warn<'a>(&self, ctx: impl Into<Option<Ctx<'a>>>, key: &[u8], what: impl FnOnce() -> String) {
        let line = self.count(server::milliseconds());
        if line > LINES {
            return;
        }
        let end = if line == LINES {
            " (no more such lines for a minute)"
        } else {
            ""
        };
        let line = format!("key '{}': {}{end}", key.escape_ascii(), what());
        server::warn(ctx.into(), &line);
    }

    /// Which line of its minute this is, from 1 on.
    fn count(&self, now: i64) -> u32 {
        if now.saturating_sub(self.start.load(Relaxed)) >= MINUTE {
            self.start.store(now, Relaxed);
            self.lines.store(0, Relaxed);
        }
        let lines = self.lines.load(Relaxed).saturating_add(1);
        self.lines.store(lines, Relaxed);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that is refused again and again would fill the disk with the log.
    #[test]
    fn lines_are_counted_by_the_minute() {
        let kind = Kind::new();
        let counts = |now, times| (0..times).map(|_| kind.count(now)).collect::<Vec<_>>();
        assert_eq!(counts(5, 3), [1, 2, 3]);
        assert_eq!(counts(MINUTE + 4, 2), [4, 5]);
        assert_eq!(counts(MINUTE + 5, 2), [1, 2]);
        assert_eq!(counts(i64::MAX, 1), [1]);
    }
}
