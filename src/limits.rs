//! How much memory a client's command may use for a filter.
//!
//! A demand is compared with the limits in the bytes that the allocator will use for it, because the server counts
//! those. jemalloc rounds up by as much as a quarter: a server that compared the requested bytes would be over its
//! limit at once.

use std::cell::OnceCell;

use crate::options::values::Config;
use crate::server::origin::Origin;
use crate::server::shown::size;
use crate::server::{Ctx, alloc, ask, has_maxmemory, log};
use crate::{options, stats};
use libbloom::bits::memory::BlockSize;
use libbloom::chain::MOST_LAYERS;
use libbloom::{Allow, Demand, Filter, Limit, valkey};

/// Bytes up to which a command's demand is not compared with the server's memory: the flag `deny-oom` is enough for
/// it.
const SMALL: u64 = 1 << 20;
/// Bytes of `maxmemory` that a filter leaves free. The buffers of some clients need them, and so do the latency
/// histograms of 50 KB that the server allocates when it first runs a command, and counts as data. Without this
/// margin the server could refuse the command right after a successful growth, or evict the filter for it.
const MARGIN: u64 = 1 << 20;

/// The most lookups by one command of a client in a filter with more than [`MOST_LAYERS`] layers, where each item is
/// looked up in each layer: some tenths of a second.
pub const MOST_LOOKUPS: usize = 1 << 25;

/// More lookups than [`MOST_LOOKUPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLookups {
    /// The number of items.
    pub items: usize,
    /// The number of layers.
    pub layers: usize,
}

/// Checks that a client's command does not look up too many items in a filter with more layers than clients make. A
/// client can bring such a filter by a payload or a chunk.
///
/// # Errors
/// [`TooManyLookups`]
pub fn check_lookups(ctx: Ctx<'_>, filter: &Filter, items: usize) -> Result<(), TooManyLookups> {
    let layers = filter.layers();
    if layers <= MOST_LAYERS || items.saturating_mul(layers) <= MOST_LOOKUPS || ctx.must_obey() {
        return Ok(());
    }
    Err(TooManyLookups { items, layers })
}

/// The size limit of a filter in valkey-bloom's layout, if the module's option sets one.
pub fn of_valkey(config: &Config) -> Option<valkey::ByteLimit<'static>> {
    config.max_filter_bytes().map(|bytes| valkey::ByteLimit {
        bytes,
        taken: &alloc::taken,
    })
}

/// The memory that one command may use. A command may request memory several times: while the layers of a stored
/// filter come in, or while a batch makes a filter grow. The sum is compared with the limits, as they stood at the
/// first request.
///
/// A primary or a file is obeyed without limits: otherwise a server would not start, or would differ from its
/// primary.
#[derive(Debug)]
pub struct Allowing<'a> {
    ctx: Ctx<'a>,
    key: &'a [u8],
    /// Who sent the command. Limits apply to clients only.
    origin: Origin,
    server: OnceCell<Vec<Bound>>,
    /// Bytes that the allocator held for the filter before the command.
    held: OnceCell<u64>,
}

impl<'a> Allowing<'a> {
    /// The allowance of a command of `origin` on `key`.
    pub fn new(ctx: Ctx<'a>, key: &'a [u8], origin: Origin) -> Self {
        Self {
            ctx,
            key,
            origin,
            server: OnceCell::new(),
            held: OnceCell::new(),
        }
    }

    /// Reads the server's memory figures now. Call it before the server allocates memory whose size the command only
    /// learns afterwards.
    pub fn as_of_now(&self) {
        if !self.origin.is_known_to_be_obeyed() {
            self.server
                .get_or_init(|| server_bounds(self.ctx, self.origin, 0));
        }
    }
}

impl Allow for Allowing<'_> {
    /// Each refusal is logged.
    fn allow(&self, demand: Demand) -> Result<(), Limit> {
        if self.origin.is_known_to_be_obeyed() {
            return Ok(());
        }
        if demand.grows_to.is_some_and(|layers| layers > MOST_LAYERS) {
            if self.origin.must_obey(self.ctx) {
                return Ok(());
            }
            log::REFUSAL.warn(self.ctx, self.key, || {
                format!(
                    "a Bloom filter was refused more than {MOST_LAYERS} layers: it was made for too few items"
                )
            });
            return Err(Limit::Layers(MOST_LAYERS));
        }
        let kept = demand.kept().taken;
        let held = *self.held.get_or_init(|| kept);
        let taken = Taken {
            more: demand.total.taken.saturating_sub(held),
            total: demand.total.taken,
        };
        let own = options::config().max_filter_bytes().map(Bound::Option);
        let server: &[Bound] = if taken.more > SMALL {
            // The server already counts as used what the command had before this first look.
            let own = kept.saturating_sub(held);
            self.server
                .get_or_init(|| server_bounds(self.ctx, self.origin, own))
        } else {
            &[]
        };
        let mut bounds = own.iter().chain(server);
        let Some(bound) = bounds.find(|bound| !bound.allow(taken)) else {
            return Ok(());
        };
        if self.origin.must_obey(self.ctx) {
            return Ok(());
        }
        log::REFUSAL.warn(self.ctx, self.key, || bound.refusal(demand.total.asked, taken));
        Err(Limit::Bytes(bound.bytes()))
    }

    fn taken(&self, block: BlockSize) -> u64 {
        if self.origin.is_known_to_be_obeyed() {
            // Every demand is granted, and to find out how the allocator rounds a small block costs an allocation.
            return block.bytes;
        }
        alloc::taken(block)
    }
}

/// Bytes that the allocator will use for a demand.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// For all that the command adds.
    more: u64,
    /// For the whole filter afterwards.
    total: u64,
}

/// A limit on the bytes of a filter.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// On the whole filter: the module's option.
    Option(u64),
    /// On the whole filter: `maxmemory` where keys are evicted, less what the server needs besides its data.
    Maxmemory { maximum: u64, limit: u64 },
    /// On its growth: what is left of `maxmemory`.
    LeftOfMaxmemory(u64),
    /// On its growth: what is left of `maxmemory`, and the keys that may be evicted.
    WithEvictable(u64),
    /// On its growth: what is left of the machine's memory.
    LeftOfMachine(u64),
}

impl Bound {
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
                taken.more <= self.bytes()
            }
        }
    }

    /// The line for the log.
    fn refusal(self, bytes: u64, taken: Taken) -> String {
        let refused = format!("a Bloom filter of {bytes} bytes was refused");
        let (total, new) = (size(taken.total), size(taken.more));
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

/// Whether `bytes` that are freed late are more than half of what is left of `maxmemory`. Never while a primary or a
/// file is obeyed: a replica leaves `maxmemory` to its primary.
pub fn are_near(ctx: Ctx<'_>, bytes: u64) -> bool {
    if !has_maxmemory() || ctx.must_obey() {
        return false;
    }
    let info = ctx.info(c"memory");
    let maximum = info.number(c"maxmemory").unwrap_or(0);
    let used = info.number(c"used_memory").unwrap_or(0);
    maximum.saturating_sub(used) / 2 < bytes
}

/// The server's limits now. With a `maxmemory`: what is left of it, or what is left with the keys that the server may
/// evict. Without one: what is left of the machine's memory. Of the memory in use the command already has `own`
/// bytes.
fn server_bounds(ctx: Ctx<'_>, origin: Origin, own: u64) -> Vec<Bound> {
    let info = ctx.info(c"memory");
    let memory = |field| info.number(field).unwrap_or(0);
    let used = memory(c"used_memory").saturating_sub(own);
    let maximum = memory(c"maxmemory");
    if maximum == 0 {
        let machine = info.number(c"total_system_memory").filter(|&bytes| bytes > 0);
        let left = machine.unwrap_or(u64::MAX).saturating_sub(used);
        return [Bound::LeftOfMachine(left)].into();
    }
    let most = maximum.saturating_sub(MARGIN);
    // The server does not count these buffers when it decides whether it is full.
    let left_out = memory(c"mem_not_counted_for_evict").saturating_add(alloc::left_out());
    let counted = used.saturating_sub(left_out);
    let left = most.saturating_sub(counted);
    let policy = info.text(c"maxmemory_policy").unwrap_or_default();
    let share = match policy.as_str() {
        "noeviction" => 0.0,
        policy if policy.starts_with("volatile") => share_that_expires(),
        _ => 1.0,
    };
    if share == 0.0 {
        return [Bound::LeftOfMaxmemory(left)].into();
    }
    let counted = memory(c"mem_clients_normal");
    let of_clients = origin.of_clients(ctx, counted);
    let overhead = memory(c"used_memory_overhead").saturating_sub(counted);
    let whole = Bound::Maxmemory {
        maximum,
        limit: most.saturating_sub(overhead.saturating_add(of_clients)),
    };
    if share == 1.0 {
        return [whole].into();
    }
    // Half of the share, because the keys that do not expire may be the large ones. Filters are often large and do
    // not expire.
    let others = stats::bytes().saturating_add(of_clients.saturating_sub(counted));
    let others = others.saturating_add(alloc::left_out());
    let data = memory(c"used_memory_dataset").saturating_sub(others);
    let evictable = data as f64 * share / 2.0;
    [whole, Bound::WithEvictable(left.saturating_add(evictable as u64))].into()
}

/// The share of the server's keys that have an expiry.
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
