//! The limits of memory: what a client's command may have for a filter.

use crate::bloom::Demand;
use crate::server::Ctx;
use crate::{log, options};

/// Filters up to this size are not held against the server's memory: `deny-oom` is enough for them.
const SMALL: u64 = 1 << 20;

/// Whether this command may have memory for a filter; if not, the limit. What a primary or a file says is
/// obeyed without limits: else a server would not start, or differ from its primary.
pub fn allows(ctx: Ctx<'_>, key: &[u8], demand: Demand) -> Result<(), u64> {
    if ctx.must_obey() {
        return Ok(());
    }
    let own = options::config().max_filter_bytes().map(Limit::Option);
    own.map_or(Ok(()), |limit| limit.allows(ctx, key, demand))?;
    if demand.new <= SMALL {
        return Ok(());
    }
    server_limit(ctx).allows(ctx, key, demand)
}

/// What a filter may take, in bytes.
#[derive(Clone, Copy)]
enum Limit {
    /// As a whole, by the module's option.
    Option(u64),
    /// As a whole, of a `maxmemory` that keys are evicted for.
    Maxmemory(u64),
    /// More than it has, of what is left of `maxmemory`.
    LeftOfMaxmemory(u64),
    /// The same of the machine's memory.
    LeftOfMachine(u64),
}

impl Limit {
    /// The limit, with a line in the log, unless the filter stays within it.
    fn allows(self, ctx: Ctx<'_>, key: &[u8], demand: Demand) -> Result<(), u64> {
        let (bytes, limit) = match self {
            Self::Option(limit) | Self::Maxmemory(limit) => (demand.total, limit),
            Self::LeftOfMaxmemory(limit) | Self::LeftOfMachine(limit) => (demand.new, limit),
        };
        if bytes <= limit {
            return Ok(());
        }
        log::REFUSAL.warn(ctx, key, || self.refusal(demand));
        Err(limit)
    }

    /// What to tell an operator.
    fn refusal(self, Demand { new, total }: Demand) -> String {
        let refused = format!("a Bloom filter of {total} bytes was refused");
        let more = format!("{refused}: {new} of them are new");
        match self {
            Self::Option(limit) => format!("{refused}: bf-max-filter-bytes is {limit}"),
            Self::Maxmemory(limit) => format!("{refused}: maxmemory is {limit}"),
            Self::LeftOfMaxmemory(limit) => format!("{more}, and {limit} are left of maxmemory"),
            Self::LeftOfMachine(limit) => format!("{more}, and {limit} are left of the machine's memory"),
        }
    }
}

/// What is left of `maxmemory`; all of it where the server makes room by evicting keys; where it has none, what
/// is left of the machine's memory.
fn server_limit(ctx: Ctx<'_>) -> Limit {
    let memory = |field| ctx.info_number(c"memory", field).filter(|&bytes| bytes > 0);
    let left = |of: u64| of.saturating_sub(memory(c"used_memory").unwrap_or(0));
    let evicts = || {
        let policy = ctx.info_text(c"memory", c"maxmemory_policy");
        policy.is_some_and(|policy| policy != "noeviction")
    };
    match memory(c"maxmemory") {
        Some(maximum) if evicts() => Limit::Maxmemory(maximum),
        Some(maximum) => Limit::LeftOfMaxmemory(left(maximum)),
        None => Limit::LeftOfMachine(left(memory(c"total_system_memory").unwrap_or(u64::MAX))),
    }
}
