//! Log lines that any command can cause. Of each kind a few a minute are written, so that no client can fill the log.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};

use crate::server::shown::shown;
use crate::server::{self, Ctx};

const LINES: u32 = 10;
const MINUTE: i64 = 60_000;

/// A kind of log line, with its count. Lines are written on the main thread only.
pub struct Kind {
    /// When the current minute began, in milliseconds.
    start: AtomicI64,
    lines: AtomicU32,
}

/// Creations and growths that were refused.
pub static REFUSAL: Kind = Kind::new();
pub static GROWTH: Kind = Kind::new();
/// Filters that will reach the most layers before they grow far.
pub static LAYER_LIMIT: Kind = Kind::new();
/// Error rates that were requested and are not used unchanged.
pub static RATE: Kind = Kind::new();
/// Stored data that is no filter, or does not fit into memory.
pub static LOAD: Kind = Kind::new();
/// Filters that could not be copied: no memory, or a limit.
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

    /// Logs a warning about `key`, unless the minute's lines of this kind are used up.
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
        let line = format!("key '{}': {}{end}", shown(key), what());
        server::warn(ctx.into(), &line);
    }

    /// The number of this line within its minute, from 1.
    fn count(&self, now: i64) -> u32 {
        let start = self.start.load(Relaxed);
        // After a clock was set back, no line would be written until it has caught up.
        if now < start || now.saturating_sub(start) >= MINUTE {
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

    /// A client that is refused again and again does not fill the disk with the log.
    #[test]
    fn lines_are_counted_by_the_minute() {
        let kind = Kind::new();
        let counts = |now, times| (0..times).map(|_| kind.count(now)).collect::<Vec<_>>();
        assert_eq!(counts(5, 3), [1, 2, 3]);
        assert_eq!(counts(MINUTE + 4, 2), [4, 5]);
        assert_eq!(counts(MINUTE + 5, 2), [1, 2]);
        assert_eq!(counts(i64::MAX, 1), [1]);
    }

    /// Once a wrong clock is put right, the log would be silent until the wrong time has come.
    #[test]
    fn a_clock_that_goes_back_begins_a_minute() {
        let kind = Kind::new();
        let counts = |now, times| (0..times).map(|_| kind.count(now)).collect::<Vec<_>>();
        assert_eq!(counts(100 * MINUTE, 12).last(), Some(&12));
        assert_eq!(counts(100 * MINUTE - 1, 2), [1, 2]);
        assert_eq!(counts(5, 2), [1, 2]);
        assert_eq!(counts(MINUTE + 4, 1), [3]);
        assert_eq!(counts(MINUTE + 5, 1), [1]);
    }
}
