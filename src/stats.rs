//! The module's section of INFO: the filters that are alive, and what happened to filters since the start.
//!
//! Filters are made and changed on the main thread, but may be freed on another one: every figure is an atomic
//! of its own, and a command changes one or two of them, not one for each item.

use std::ffi::{CStr, c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::raw;

use crate::bloom::Filter;
use crate::bloom::codec::DecodeError;
use crate::bloom::filter::Account;
use crate::server::{Ctx, call, guarded, note};

/// The module's version.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

/// What is counted. The first ones are of the filters that are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Filters,
    /// Those of the filters that have a window.
    Windows,
    Layers,
    /// As BF.INFO tells them.
    Bytes,
    /// Items that are excepted from filters.
    Exceptions,
    /// Items of filters that are alive, modulo 2^64, without those that were added since the start: an addition
    /// is counted once, by [`Figure::ItemsAdded`].
    OtherItems,
    ItemsAdded,
    Duplicates,
    LayersGrown,
    LayersDropped,
    RefusedCreations,
    RefusedGrowths,
    ClassicLoads,
    ValkeyLoads,
    FailedLoads,
}

/// Filters that are alive and that no RedisBloom has.
static OTHERS: AtomicU64 = AtomicU64::new(0);

static FIGURES: [AtomicU64; 15] = [const { AtomicU64::new(0) }; 15];

impl Figure {
    fn cell(self) -> &'static AtomicU64 {
        &FIGURES[self as usize]
    }

    fn add(self, by: u64) {
        self.cell().fetch_add(by, Relaxed);
    }

    /// [`Self::add`] for what [`added`] alone changes: only commands call it, and one runs at a time. An atomic
    /// addition would wait for all memory that the processor has asked for, an item's line above all.
    #[inline]
    fn add_by_command(self, by: u64) {
        let cell = self.cell();
        cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
    }

    fn subtract(self, by: u64) {
        self.cell().fetch_sub(by, Relaxed);
    }

    fn value(self) -> u64 {
        self.cell().load(Relaxed)
    }
}

/// A filter that is counted among those that are alive, until it is dropped.
#[derive(Debug)]
#[repr(transparent)]
pub struct Counted(Filter);

impl Counted {
    /// Counts `filter` from now on.
    pub fn new(filter: Filter) -> Box<Self> {
        let account = filter.account();
        Figure::Filters.add(1);
        Figure::Windows.add(filter.window().is_some().into());
        Figure::Layers.add(account.layers);
        Figure::Bytes.add(account.bytes);
        Figure::Exceptions.add(account.exceptions);
        Figure::OtherItems.add(account.items);
        OTHERS.fetch_add((!is_redisbloom_s(&filter)).into(), Relaxed);
        Box::new(Self(filter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let account = self.account();
        Figure::Filters.subtract(1);
        Figure::Windows.subtract(self.window().is_some().into());
        Figure::Layers.subtract(account.layers);
        Figure::Bytes.subtract(account.bytes);
        Figure::Exceptions.subtract(account.exceptions);
        Figure::OtherItems.subtract(account.items);
        OTHERS.fetch_sub((!is_redisbloom_s(&self.0)).into(), Relaxed);
    }
}

/// Whether a RedisBloom can have such a filter.
fn is_redisbloom_s(filter: &Filter) -> bool {
    matches!(filter, Filter::Classic(_))
}

/// Whether any filter that is alive is one that no RedisBloom has.
pub fn has_others_than_redisbloom() -> bool {
    OTHERS.load(Relaxed) > 0
}

impl Deref for Counted {
    type Target = Filter;

    fn deref(&self) -> &Filter {
        &self.0
    }
}

/// Whoever adds items tells [`added`] and [`grew`], and whoever changes a filter otherwise [`recounted`].
impl DerefMut for Counted {
    fn deref_mut(&mut self) -> &mut Filter {
        &mut self.0
    }
}

/// A command added `new` items to a filter that is counted, and found `duplicates` there.
#[inline]
pub fn added(new: u64, duplicates: u64) {
    Figure::ItemsAdded.add_by_command(new);
    Figure::Duplicates.add_by_command(duplicates);
}

/// A filter that is counted grew; it had `before` layers.
pub fn grew(filter: &Filter, before: usize) {
    let layers = (filter.layers() - before) as u64;
    Figure::Layers.add(layers);
    Figure::LayersGrown.add(layers);
    Figure::Bytes.add(filter.bytes().saturating_sub(filter.bytes_with(before)));
}

/// A filter that is counted was changed otherwise than [`added`] and [`grew`] tell. It counted `before`, and `new` items
/// were new. Gives what it counts now.
pub fn recounted(filter: &Filter, before: Account, new: u64) -> Account {
    let after = filter.account();
    let change = |figure: Figure, from: u64, to: u64| figure.add(to.wrapping_sub(from));
    change(Figure::Layers, before.layers, after.layers);
    change(Figure::Bytes, before.bytes, after.bytes);
    change(Figure::Exceptions, before.exceptions, after.exceptions);
    // The new ones are counted where they are added.
    change(Figure::OtherItems, before.items.wrapping_add(new), after.items);
    after
}

/// A filter that is counted and is not plain was changed as items were added, or as its slice was ended: as
/// [`recounted`], with the layers that it grew by. It let `dropped` layers go.
pub fn turned(filter: &Filter, before: Account, new: u64, dropped: u64) {
    let after = recounted(filter, before, new);
    // A long batch may make layers that it lets go again.
    Figure::LayersGrown.add((after.layers + dropped).saturating_sub(before.layers));
    Figure::LayersDropped.add(dropped);
}

/// Bytes of the filters that are alive, as BF.INFO tells them.
pub fn bytes() -> u64 {
    Figure::Bytes.value()
}

/// There was no room for a new filter.
pub fn refused_creation() {
    Figure::RefusedCreations.add(1);
}

/// There was no room for a further layer.
pub fn refused_growth() {
    Figure::RefusedGrowths.add(1);
}

/// A filter came from a file, a payload or a header.
pub fn loaded(filter: &Filter) {
    match filter {
        Filter::Classic(_) => Figure::ClassicLoads.add(1),
        Filter::Valkey(_) => Figure::ValkeyLoads.add(1),
        Filter::Blocked(_) | Filter::Windowed(_) | Filter::Excepting(_) => {}
    }
}

/// A file, a payload, a header or another filter did not become a filter: there was no room for it, or it is
/// none.
pub fn not_loaded(error: &DecodeError) {
    match error {
        DecodeError::OutOfMemory { .. } => refused_creation(),
        DecodeError::Truncated | DecodeError::Version(_) | DecodeError::Field(_) => {
            Figure::FailedLoads.add(1)
        }
    }
}

/// Registers the section, then listens for the ends of loads: of a module that it refuses Redis 7.0 forgets the
/// section, and not the listener.
///
/// # Errors
/// A line for the log.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    let ok = raw::REDISMODULE_OK as c_int;
    // SAFETY (of the call): the context is that of the module's loading.
    if call!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(tell))) != ok {
        return Err("the server takes no section for INFO".to_owned());
    }
    let loading = raw::RedisModuleEvent {
        id: raw::REDISMODULE_EVENT_LOADING,
        dataver: 1,
    };
    // SAFETY (of the call): as above.
    let events = call!(RedisModule_SubscribeToServerEvent(
        ctx.raw(),
        loading,
        Some(on_loading)
    ));
    if events == ok {
        Ok(())
    } else {
        Err("the server does not tell of its loads".to_owned())
    }
}

/// Writes the section. The server calls it for INFO, and when it crashes.
unsafe extern "C" fn tell(info: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guarded("telling the module's figures", || {
        // SAFETY (of the call): the server lends `info` for the time of this callback. Without a name the section
        // has the module's.
        if call!(RedisModule_InfoAddSection(info, std::ptr::null())) != raw::REDISMODULE_OK as c_int {
            return;
        }
        // SAFETY (of the call): as above; the server copies the text.
        call!(RedisModule_InfoAddFieldCString(
            info,
            c"version".as_ptr(),
            VERSION.as_ptr()
        ));
        let items = Figure::OtherItems
            .value()
            .wrapping_add(Figure::ItemsAdded.value());
        let lines: [(&CStr, u64); FIGURES.len()] = [
            (c"filters", Figure::Filters.value()),
            (c"windows", Figure::Windows.value()),
            (c"layers", Figure::Layers.value()),
            (c"bytes", Figure::Bytes.value()),
            (c"exceptions", Figure::Exceptions.value()),
            (c"items", items),
            (c"items_added", Figure::ItemsAdded.value()),
            (c"duplicates", Figure::Duplicates.value()),
            (c"layers_grown", Figure::LayersGrown.value()),
            (c"layers_dropped", Figure::LayersDropped.value()),
            (c"refused_creations", Figure::RefusedCreations.value()),
            (c"refused_growths", Figure::RefusedGrowths.value()),
            (c"classic_loads", Figure::ClassicLoads.value()),
            (c"valkey_loads", Figure::ValkeyLoads.value()),
            (c"failed_loads", Figure::FailedLoads.value()),
        ];
        for (name, value) in lines {
            // SAFETY (of the call): as above; the server puts the module's name before the field's.
            call!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
        }
    });
}

/// Filters of another module's layout that come in.
struct Foreign {
    /// Whose layout it is.
    module: &'static str,
    loads: Figure,
    /// What `loads` was when the load that is going on began.
    before: AtomicU64,
}

static FOREIGN: [Foreign; 2] = [
    Foreign::new("RedisBloom", Figure::ClassicLoads),
    Foreign::new("valkey-bloom", Figure::ValkeyLoads),
];

impl Foreign {
    const fn new(module: &'static str, loads: Figure) -> Self {
        Self {
            module,
            loads,
            before: AtomicU64::new(0),
        }
    }

    fn begin(&self) {
        self.before.store(self.loads.value(), Relaxed);
    }

    /// What to tell of the load, which ended.
    fn end(&self) -> Option<String> {
        let loads = self.loads.value() - self.before.load(Relaxed);
        (loads > 0).then(|| {
            format!(
                "Bloom filters of {}'s layout that were loaded: {loads}; they keep it, grow by its rules, and can go \
                 back",
                self.module
            )
        })
    }
}

/// Tells, once for a load, how many of its filters came from another module.
unsafe extern "C" fn on_loading(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guarded("counting what was loaded", || match subevent {
        raw::REDISMODULE_SUBEVENT_LOADING_RDB_START
        | raw::REDISMODULE_SUBEVENT_LOADING_AOF_START
        | raw::REDISMODULE_SUBEVENT_LOADING_REPL_START => FOREIGN.iter().for_each(Foreign::begin),
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED => {
            // SAFETY: the server lends the context for the time of this callback.
            let ctx = unsafe { Ctx::of_callback(ctx) };
            let lines = FOREIGN.iter().filter_map(Foreign::end);
            lines.for_each(|line| note(ctx, &line));
        }
        _ => {}
    });
}
