//! The limits of memory: what a client's command may have for a filter.
//!
//! What is held against them is what the allocator will take, as the server's own accounts have it. jemalloc rounds
//! up by as much as a quarter: a server that was asked for less would be over its limit at once.

use std::cell::{Cell, OnceCell};

use crate::bloom::{Demand, Taken, valkey};
use crate::options::values::Config;
use crate::server::shown::size;
use crate::server::{Ctx, alloc, ask, has_maxmemory, log};
use crate::{options, stats};

/// What a command asks for up to this size is not held against the server's memory: `deny-oom` is enough for it.
const SMALL: u64 = 1 << 20;
/// What a filter leaves of `maxmemory`: the buffers of some clients, and the histograms of latencies, of 50 KB, that
/// the server makes when it first runs a command and counts as data. Without it, the command that was to add to a
/// filter could be the first that the server refuses, or the one that has the filter evicted.
const MARGIN: u64 = 1 << 20;

/// Whether this command may have memory for a filter; if not, the limit. What a primary or a file says is
/// obeyed without limits: else a server would not start, or differ from its primary.
///
/// # Errors
/// The limit, in bytes; the log has a line about it.
pub fn allows(ctx: Ctx<'_>, key: &[u8], demand: Demand<'_>) -> Result<(), u64> {
    Allowing::new(ctx, key, Ctx::must_obey).allows(demand)
}

/// What a filter in valkey-bloom's layout may grow to by the module's option, if that has a limit.
pub fn of_valkey(config: &Config) -> Option<valkey::Limit<'static>> {
    config.max_filter_bytes().map(|bytes| valkey::Limit {
        bytes,
        taken: &alloc::taken,
    })
}

/// What one command may have. A command that asks several times, as layers of a stored filter come in, is held
/// against what there was when it first asked.
#[derive(Debug)]
pub struct Allowing<'a> {
    ctx: Ctx<'a>,
    key: &'a [u8],
    /// Whether limits are not for this command.
    must_obey: fn(Ctx<'a>) -> bool,
    server: OnceCell<Vec<Limit>>,
    taken: Cell<Taken>,
}

impl<'a> Allowing<'a> {
    /// A command on `key`; `must_obey` is asked before it is refused.
    pub fn new(ctx: Ctx<'a>, key: &'a [u8], must_obey: fn(Ctx<'a>) -> bool) -> Self {
        Self {
            ctx,
            key,
            must_obey,
            server: OnceCell::new(),
            taken: Cell::new(Taken { new: 0, total: 0 }),
        }
    }

    /// Takes what there is now for what there was when it first asked: for a command that the server has memory for
    /// before it can tell how much it asks for.
    pub fn as_of_now(&self) {
        if !self.ctx.is_from_primary_or_file() {
            self.server.get_or_init(|| server_limits(self.ctx));
        }
    }

    /// Whether it may have that; if not, the limit.
    ///
    /// # Errors
    /// As [`allows`].
    pub fn allows(&self, demand: Demand<'_>) -> Result<(), u64> {
        if self.ctx.is_from_primary_or_file() {
            return Ok(());
        }
        let own = options::config().max_filter_bytes().map(Limit::Option);
        if own.is_none() && demand.new <= SMALL && !demand.goes_on {
            // It is not kept for the demands that go on from it: when they are held against the server's memory, that
            // counts it as used.
            return Ok(());
        }
        let taken = demand.taken_after(self.taken.get(), alloc::taken);
        self.taken.set(taken);
        let server: &[Limit] = if demand.new > SMALL {
            self.server.get_or_init(|| server_limits(self.ctx))
        } else {
            &[]
        };
        let mut limits = own.iter().chain(server);
        let Some(limit) = limits.find(|limit| !limit.allow(taken)) else {
            return Ok(());
        };
        if (self.must_obey)(self.ctx) {
            return Ok(());
        }
        log::REFUSAL.warn(self.ctx, self.key, || limit.refusal(demand, taken));
        Err(limit.bytes())
    }
}

/// What a filter may take, in bytes.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// As a whole, by the module's option.
    Option(u64),
    /// As a whole, of a `maxmemory` that keys are evicted for: what the server needs besides its data is left out.
    Maxmemory { maximum: u64, limit: u64 },
    /// More than it has, of what is left of `maxmemory`.
    LeftOfMaxmemory(u64),
    /// The same, with what those keys take that may be evicted.
    WithEvictable(u64),
    /// More than it has, of what is left of the machine's memory.
    LeftOfMachine(u64),
}

impl Limit {
    fn bytes(self) -> u64 {
        match self {
            Self::Option(limit)
            | Self::Maxmemory { limit, .. }
            | Self::LeftOfMaxmemory(limit)
            | Self::WithEvictable(limit)
            | Self::LeftOfMachine(limit) => limit,
        }
    }

    fn allow(self, taken: Taken) -> bool {
        match self {
            Self::Option(_) | Self::Maxmemory { .. } => taken.total <= self.bytes(),
            Self::LeftOfMaxmemory(_) | Self::WithEvictable(_) | Self::LeftOfMachine(_) => {
                taken.new <= self.bytes()
            }
        }
    }

    /// What to tell an operator.
    fn refusal(self, demand: Demand<'_>, taken: Taken) -> String {
        let refused = format!("a Bloom filter of {} bytes was refused", demand.total);
        let (total, new) = (size(taken.total), size(taken.new));
        let whole = format!("{refused}: the allocator would take {total} for it");
        let more = format!("{refused}: the allocator would take {new} more for it");
        let limit = size(self.bytes());
        match self {
            Self::Option(_) => format!("{whole}, and bf-max-filter-bytes is {limit}"),
            Self::Maxmemory { maximum, .. } => {
                let maximum = size(maximum);
                format!("{whole}, and maxmemory of {maximum} has room for {limit} of data")
            }
            Self::LeftOfMaxmemory(_) => format!("{more}, and {limit} are left of maxmemory"),
            Self::WithEvictable(_) => {
                format!("{more}, and {limit} are left of maxmemory with the keys that may be evicted")
            }
            Self::LeftOfMachine(_) => format!("{more}, and {limit} are left of the machine's memory"),
        }
    }
}

/// Whether `bytes` that are still counted as used would soon be missed: they are more than half of what is left of
/// `maxmemory`. What a primary or a file says misses nothing: a replica leaves `maxmemory` to its primary.
pub fn are_near(ctx: Ctx<'_>, bytes: u64) -> bool {
    if !has_maxmemory() || ctx.must_obey() {
        return false;
    }
    let info = ctx.info(c"memory");
    let maximum = info.number(c"maxmemory").unwrap_or(0);
    let used = info.number(c"used_memory").unwrap_or(0);
    maximum.saturating_sub(used) / 2 < bytes
}

/// What is left of `maxmemory`; where the server makes room by evicting keys, what is left with those; where there
/// is none, what is left of the machine's memory.
fn server_limits(ctx: Ctx<'_>) -> Vec<Limit> {
    let info = ctx.info(c"memory");
    let memory = |field| info.number(field).unwrap_or(0);
    let used = memory(c"used_memory");
    let maximum = memory(c"maxmemory");
    if maximum == 0 {
        let machine = info.number(c"total_system_memory").filter(|&bytes| bytes > 0);
        return vec![Limit::LeftOfMachine(
            machine.unwrap_or(u64::MAX).saturating_sub(used),
        )];
    }
    let most = maximum.saturating_sub(MARGIN);
    // The server leaves these buffers out when it decides whether it is full.
    let counted = used.saturating_sub(memory(c"mem_not_counted_for_evict"));
    let left = most.saturating_sub(counted);
    let policy = info.text(c"maxmemory_policy").unwrap_or_default();
    let share = match policy.as_str() {
        "noeviction" => 0.0,
        policy if policy.starts_with("volatile") => share_that_expires(),
        _ => 1.0,
    };
    if share == 0.0 {
        return vec![Limit::LeftOfMaxmemory(left)];
    }
    let whole = Limit::Maxmemory {
        maximum,
        limit: most.saturating_sub(memory(c"used_memory_overhead")),
    };
    if share == 1.0 {
        return vec![whole];
    }
    // Half of the share: the keys that stay may be the large ones. Filters mostly are both.
    let data = memory(c"used_memory_dataset").saturating_sub(stats::bytes());
    let evictable = data as f64 * share / 2.0;
    vec![whole, Limit::WithEvictable(left.saturating_add(evictable as u64))]
}

/// How many of the server's keys expire, as a share.
fn share_that_expires() -> f64 {
    let keyspace = ask(c"INFO", &[c"keyspace"]).unwrap_or_default();
    let sum = |name: &str| -> f64 {
        let fields = keyspace.split([':', ',', '\r', '\n']);
        fields
            .filter_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok())
            .sum()
    };
    match sum("keys") {
        0.0 => 0.0,
        keys => (sum("expires") / keys).min(1.0),
    }
}
