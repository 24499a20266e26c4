//! How much memory a client's command may use for a filter.
//!
//! Limits count the bytes that BF.INFO reports. An allocator adds a quarter at most, which must fit `maxmemory` too.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::raw;

use crate::options;
use crate::server::origin::Origin;
use crate::server::shown::size;
use crate::server::{Arg, Ctx, OwnedCtx, ask, few, has_maxmemory, log};
use libbloom::chain::MOST_LAYERS;
use libbloom::{Demand, Filter, Limit};

/// Bytes that commands may have before one is compared with the server's memory, which takes some 0.1 ms.
const SMALL: u64 = 1 << 20;
/// Bytes of `maxmemory` that a filter leaves free, for the next [`SMALL`] bytes, for buffers of clients, and for the
/// latency histograms of 50 KB that the server allocates when it first runs a command, and counts as data. Otherwise
/// the server could refuse the command right after a growth, or evict the filter for it.
const MARGIN: u64 = 1 << 20;

/// Bytes that commands were allowed since one was last compared with the server's memory.
static UNCHECKED: AtomicU64 = AtomicU64::new(0);

/// Keys of a database that are drawn to learn how large those with an expiry are, which takes some 0.2 ms.
const DRAWN: usize = 256;
/// The most of them that are measured.
const MEASURED: usize = 64;
/// The fewest keys from which a size is estimated. With so few, more than half of all keys are smaller than the
/// estimate in one case of 300, with [`MEASURED`] in one of 50,000.
const TOO_FEW: usize = 32;

/// The most lookups by one command of a client in a filter with more than [`MOST_LAYERS`] layers, where each item is
/// looked up in each layer: some tenths of a second.
pub const MOST_LOOKUPS: usize = 1 << 25;

/// More lookups than [`MOST_LOOKUPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLookups {
    pub items: usize,
    pub layers: usize,
}

/// Checks a client's lookups in a filter with more layers than clients make, which can come by a payload or a chunk.
pub fn check_lookups(ctx: Ctx<'_>, filter: &Filter, items: usize) -> Result<(), TooManyLookups> {
    let layers = filter.layers();
    if layers <= MOST_LAYERS || items.saturating_mul(layers) <= MOST_LOOKUPS || ctx.must_obey() {
        return Ok(());
    }
    Err(TooManyLookups { items, layers })
}

/// The memory that one command may use: the sum of its requests is compared with the limits as they were at the first.
/// A primary or a file is obeyed without limits, or a server would not start, or differ from its primary.
pub struct CommandMemory<'a> {
    ctx: Ctx<'a>,
    key: &'a [u8],
    pub origin: Origin,
    /// Bytes that the filter had before the command.
    held: OnceCell<u64>,
    server: OnceCell<Server>,
    evictable: OnceCell<u64>,
}

impl<'a> CommandMemory<'a> {
    pub fn of_command(ctx: Ctx<'a>, key: Arg<'a>) -> Self {
        Self::new(ctx, key.bytes(), ctx.origin())
    }

    pub fn new(ctx: Ctx<'a>, key: &'a [u8], origin: Origin) -> Self {
        Self {
            ctx,
            key,
            origin,
            held: OnceCell::new(),
            server: OnceCell::new(),
            evictable: OnceCell::new(),
        }
    }

    /// Reads the server's memory figures before the server allocates what the command learns the size of afterwards.
    pub fn read_memory_now(&self) {
        if !self.origin.is_primary_or_file() {
            self.server(0);
        }
    }

    /// Decides on a demand. Each refusal is logged.
    pub fn allow(&self, demand: Demand) -> Result<(), Limit> {
        if self.origin.is_primary_or_file() {
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
        let Some(bound) = self.bound_against(demand) else {
            return Ok(());
        };
        if self.origin.must_obey(self.ctx) {
            return Ok(());
        }
        log::REFUSAL.warn(self.ctx, self.key, || bound.refusal(demand.total));
        Err(Limit::Bytes(bound.0))
    }

    fn bound_against(&self, Demand { new, total, .. }: Demand) -> Option<Bound> {
        if let Some(limit) = options::config().max_filter_bytes()
            && total > limit
        {
            return Some(Bound(limit, Why::Option));
        }
        let kept = total.saturating_sub(new);
        let held = *self.held.get_or_init(|| kept);
        let more = total.saturating_sub(held);
        let unchecked = UNCHECKED.load(Relaxed).saturating_add(new);
        let is_small = more <= SMALL;
        if is_small && unchecked <= SMALL && self.server.get().is_none() {
            UNCHECKED.store(unchecked, Relaxed);
            return None;
        }
        // The server already counts as used what the command had before.
        let server = self.server(kept.saturating_sub(held));
        let bound = match server.policy {
            // The server refuses every command that comes when it is full, but for those inside of others.
            Policy::NoEviction if is_small && !self.is_inside_another() => None,
            Policy::AllKeys => server.bound_on_data(total),
            Policy::Volatile => server
                .bound_on_data(total)
                .or_else(|| self.against_volatile(server, with_rounding(more))),
            Policy::NoEviction => server
                .left_if_less_than(with_rounding(more))
                .map(|left| Bound(left, Why::LeftOfMaxmemory)),
            Policy::NoLimit => server
                .left_if_less_than(more)
                .map(|left| Bound(left, Why::LeftOfMachine)),
        };
        if bound.is_none() {
            UNCHECKED.store(0, Relaxed);
        }
        bound
    }

    /// The server at the command's first look, when it has taken `own` bytes.
    fn server(&self, own: u64) -> &Server {
        self.server
            .get_or_init(|| Server::of_now(self.ctx, self.origin, own))
    }

    /// Whether other commands run before the server looks at its memory again.
    fn is_inside_another(&self) -> bool {
        self.origin == Origin::Script || self.ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_MULTI)
    }

    /// The limit against `more` bytes where keys with an expiry are evicted. What is already too much is deducted, so
    /// that no command is promised what others were promised before.
    fn against_volatile(&self, server: &Server, more: u64) -> Option<Bound> {
        server.left_if_less_than(more)?;
        let evictable = *self.evictable.get_or_init(evictable);
        let most = server.most.saturating_add(evictable);
        Server { most, ..*server }
            .left_if_less_than(more)
            .map(|left| Bound(left, Why::WithEvictable))
    }
}

/// What the server does when `maxmemory` is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    NoLimit,
    NoEviction,
    Volatile,
    AllKeys,
}

/// The server's memory, in bytes.
#[derive(Clone, Copy)]
struct Server {
    policy: Policy,
    maximum: u64,
    /// The most that may be in use after the command: of `maxmemory`, or of the machine's memory without one.
    most: u64,
    /// In use, as the server counts it.
    used: u64,
    /// The most that the data may have: `most` less the memory that the server needs for other things.
    data: u64,
}

impl Server {
    /// The server now; the command already has `own` bytes of the memory in use.
    fn of_now(ctx: Ctx<'_>, origin: Origin, own: u64) -> Self {
        let info = ctx.info(c"memory");
        let memory = |field| info.number(field).unwrap_or(0);
        let used = memory(c"used_memory").saturating_sub(own);
        let maximum = memory(c"maxmemory");
        if maximum == 0 {
            let machine = info.number(c"total_system_memory").filter(|&bytes| bytes > 0);
            let most = machine.unwrap_or(u64::MAX);
            return Self {
                policy: Policy::NoLimit,
                maximum,
                most,
                used,
                data: most,
            };
        }
        let policy = match info.text(c"maxmemory_policy").unwrap_or_default().as_str() {
            "noeviction" => Policy::NoEviction,
            policy if policy.starts_with("volatile") => Policy::Volatile,
            _ => Policy::AllKeys,
        };
        let most = maximum.saturating_sub(MARGIN);
        let data = if policy == Policy::NoEviction {
            most
        } else {
            let counted = memory(c"mem_clients_normal");
            let overhead = memory(c"used_memory_overhead").saturating_sub(counted);
            most.saturating_sub(overhead.saturating_add(origin.client_bytes(ctx, counted)))
        };
        Self {
            policy,
            maximum,
            most,
            // The server does not count these buffers when it decides whether it is full.
            used: used.saturating_sub(memory(c"mem_not_counted_for_evict")),
            data,
        }
    }

    fn left_if_less_than(&self, more: u64) -> Option<u64> {
        let left = self.most.saturating_sub(self.used);
        (more > left).then_some(left)
    }

    /// The limit against a filter of `total` bytes, which must not be evicted for itself.
    fn bound_on_data(&self, total: u64) -> Option<Bound> {
        let maximum = self.maximum;
        (with_rounding(total) > self.data).then_some(Bound(self.data, Why::Maxmemory { maximum }))
    }
}

/// The most bytes that an allocator takes for blocks of `bytes` bytes: jemalloc has four sizes in each doubling.
fn with_rounding(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 4)
}

/// A limit on the bytes of a filter, which forbids a demand.
struct Bound(u64, Why);

enum Why {
    // Limits on the whole filter.
    Option,
    /// `maxmemory` where keys are evicted, less what the server needs besides its data.
    Maxmemory {
        maximum: u64,
    },
    // Limits on its growth.
    LeftOfMaxmemory,
    WithEvictable,
    LeftOfMachine,
}

impl Bound {
    /// The line for the log, about a filter that would have `total` bytes.
    fn refusal(&self, total: u64) -> String {
        let (refused, limit) = (size(total), size(self.0));
        let why = match self.1 {
            Why::Option => format!("bf-max-filter-bytes is {limit}"),
            Why::Maxmemory { maximum } => {
                format!("maxmemory of {} has room for {limit} of data", size(maximum))
            }
            Why::LeftOfMaxmemory => format!("{limit} are left of maxmemory"),
            Why::WithEvictable => {
                format!("{limit} are left of maxmemory with the keys that may be evicted")
            }
            Why::LeftOfMachine => format!("{limit} are left of the machine's memory"),
        };
        format!("a Bloom filter of {refused} was refused: {why}")
    }
}

/// Whether `bytes` that are freed late are more than half of the unused part of `maxmemory`. Never while a primary or a
/// file is obeyed: a replica leaves `maxmemory` to its primary.
pub fn is_maxmemory_near(ctx: Ctx<'_>, bytes: u64) -> bool {
    if !has_maxmemory() || ctx.must_obey() {
        return false;
    }
    let info = ctx.info(c"memory");
    let maximum = info.number(c"maxmemory").unwrap_or(0);
    let used = info.number(c"used_memory").unwrap_or(0);
    maximum.saturating_sub(used) / 2 < bytes
}

/// A low estimate of the bytes that the server gets back if it evicts all keys with an expiry: half of their number
/// times the size that three quarters of the drawn ones exceed. A mean would depend on a few large keys.
fn evictable() -> u64 {
    let server = OwnedCtx::of_server();
    let keyspace = ask(c"INFO", &[c"keyspace"]).unwrap_or_default();
    let of_databases = keyspace.lines().filter_map(|line| {
        let (database, figures) = line.strip_prefix("db")?.split_once(':')?;
        let mut figures = figures.split(',');
        let expiring = figures.find_map(|figure| figure.strip_prefix("expires="))?;
        let expiring: u64 = expiring.parse().ok().filter(|&keys| keys > 0)?;
        server.select(database.parse().ok()?).then_some(())?;
        Some(expiring.saturating_mul(usual_size(&server)) / 2)
    });
    of_databases.fold(0, u64::saturating_add)
}

/// The size that three quarters of the keys with an expiry exceed, in bytes; 0 if too few of them were found.
fn usual_size(server: &OwnedCtx) -> u64 {
    let drawn = (0..DRAWN).filter_map(|_| server.any_key().filter(|key| server.expires(key.arg())));
    let mut sizes = few(drawn.take(MEASURED).map(|key| server.memory_of(key.arg())));
    sizes.sort_unstable();
    match sizes.len() {
        TOO_FEW.. => sizes[sizes.len() / 4],
        _ => 0,
    }
}
