//! The module's section of INFO: figures of the filters that exist, and counters since the server started.
//!
//! Each figure is an atomic, because another thread may free filters. A command updates one or two, not one an item.

use std::ffi::{CStr, c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::raw;

use crate::server::{Ctx, call, guarded, note};
use libbloom::codec::DecodeError;
use libbloom::codec::chunks::{self, ChunkError};
use libbloom::filter::Account;
use libbloom::layouts::blocked::window::Slice;
use libbloom::{Filter, Layout};

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

/// A figure of the module's section of INFO. The first ones describe the filters that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Filters,
    Windows,
    Layers,
    /// Bytes of all filters, as BF.INFO reports them.
    Bytes,
    Exceptions,
    /// Items of the filters that exist, modulo 2^64, less [`Figure::ItemsAdded`]: each addition is counted once.
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
    /// Filters in other layouts than RedisBloom's, which INFO does not show.
    NotClassic,
}

static FIGURES: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// The first figures, up to [`Figure::OtherItems`], of the filters that an asynchronous load has brought. Until it
/// ends, clients see the filters that the server had before, and these are hidden.
static HIDDEN: [AtomicU64; Figure::OtherItems as usize + 1] =
    [const { AtomicU64::new(0) }; Figure::OtherItems as usize + 1];

impl Figure {
    /// The figure without what an asynchronous load has brought.
    fn live(self) -> u64 {
        let hidden = HIDDEN.get(self as usize).map_or(0, |hidden| hidden.load(Relaxed));
        self.value().wrapping_sub(hidden)
    }

    fn cell(self) -> &'static AtomicU64 {
        &FIGURES[self as usize]
    }

    pub(crate) fn add(self, by: u64) {
        // Atomic additions take long, and most figures of a new filter are 0.
        if by > 0 {
            self.cell().fetch_add(by, Relaxed);
        }
    }

    /// [`Self::add`] for what only [`added`] changes, which one command at a time calls. An atomic addition would wait
    /// for all outstanding loads, above all for an item's line.
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

/// A filter that the figures count until it is dropped.
#[repr(transparent)]
pub struct Counted(Filter);

impl Counted {
    pub fn new(filter: Filter) -> Box<Self> {
        Figure::Filters.add(1);
        Figure::Windows.add(filter.window().is_some().into());
        Figure::NotClassic.add((filter.layout() != Layout::Classic).into());
        count(NOTHING, filter.account());
        Box::new(Self(filter))
    }

    /// Lends the filter for any change. It takes O(layers), because it sums their items.
    pub fn begin_change(&mut self) -> Change<'_> {
        let before = Before::All {
            account: self.account(),
            added: Figure::ItemsAdded.value(),
        };
        Change { filter: self, before }
    }

    /// Lends a filter [without window and exceptions](Filter::has_window_or_exceptions) for an addition, in O(1): the
    /// addition of one item must not sum the items of all layers.
    #[inline]
    pub fn begin_addition(&mut self) -> Change<'_> {
        let before = Before::Layers(self.layers());
        Change { filter: self, before }
    }

    /// Loads a chunk; the figures count no bits.
    pub fn load_chunk(&mut self, iterator: i64, bytes: &[u8]) -> Result<bool, ChunkError> {
        chunks::load_chunk(&mut self.0, iterator, bytes)
    }

    /// Returns the slices that a window dropped, and the number of their layers, which the figures lost already.
    pub fn take_dropped(&mut self) -> (Vec<Slice>, u64) {
        self.0.take_dropped()
    }

    #[cold]
    fn count_growth(&self, before: usize) {
        let account = |layers: usize| Account {
            layers: layers as u64,
            bytes: self.bytes_with(layers),
            ..NOTHING
        };
        count(account(before), account(self.layers()));
        Figure::LayersGrown.add((self.layers() - before) as u64);
    }
}

/// A counted filter that is lent for a change. When this is dropped, the figures count what changed.
pub struct Change<'a> {
    filter: &'a mut Counted,
    before: Before,
}

enum Before {
    /// The number of its layers. Such an addition changes nothing else but its items, which [`added`] counts.
    Layers(usize),
    /// Its account, and [`Figure::ItemsAdded`], because [`added`] counts the items that it is told of.
    All { account: Account, added: u64 },
}

impl Deref for Change<'_> {
    type Target = Filter;

    fn deref(&self) -> &Filter {
        &self.filter.0
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut Filter {
        &mut self.filter.0
    }
}

impl Drop for Change<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.before {
            Before::Layers(before) if self.filter.layers() > before => self.filter.count_growth(before),
            Before::Layers(_) => {}
            Before::All { account, added } => {
                let added = Figure::ItemsAdded.value().wrapping_sub(added);
                let items = account.items.wrapping_add(added);
                count(Account { items, ..account }, self.filter.account());
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        Figure::Filters.subtract(1);
        Figure::Windows.subtract(self.window().is_some().into());
        Figure::NotClassic.subtract((self.layout() != Layout::Classic).into());
        count(self.account(), NOTHING);
    }
}

/// Leaves a counted filter out of the figures that clients see until the asynchronous load that brought it has ended.
pub fn hide_until_loaded(filter: &Counted) {
    let account = filter.account();
    let windows = filter.window().is_some().into();
    for (figure, by) in [
        (Figure::Filters, 1),
        (Figure::Windows, windows),
        (Figure::Layers, account.layers),
        (Figure::Bytes, account.bytes),
        (Figure::Exceptions, account.exceptions),
        (Figure::OtherItems, account.items),
    ] {
        HIDDEN[figure as usize].fetch_add(by, Relaxed);
    }
}

const NOTHING: Account = Account {
    layers: 0,
    bytes: 0,
    items: 0,
    exceptions: 0,
};

/// Counts the difference between two accounts of a filter.
fn count(before: Account, after: Account) {
    for (figure, from, to) in [
        (Figure::Layers, before.layers, after.layers),
        (Figure::Bytes, before.bytes, after.bytes),
        (Figure::Exceptions, before.exceptions, after.exceptions),
        (Figure::OtherItems, before.items, after.items),
    ] {
        figure.add(to.wrapping_sub(from));
    }
}

pub fn has_other_layouts_than_classic() -> bool {
    Figure::NotClassic.value() > 0
}

impl Deref for Counted {
    type Target = Filter;

    fn deref(&self) -> &Filter {
        &self.0
    }
}

/// Counts a command that added `new` items to a counted filter, and found `duplicates` in it.
#[inline]
pub fn added(new: u64, duplicates: u64) {
    Figure::ItemsAdded.add_by_command(new);
    Figure::Duplicates.add_by_command(duplicates);
}

/// Counts a filter that came from a file, a payload or a header.
pub fn loaded(filter: &Filter) {
    match filter.layout() {
        Layout::Classic => Figure::ClassicLoads.add(1),
        Layout::Valkey => Figure::ValkeyLoads.add(1),
        _ => {}
    }
}

/// Counts what did not become a filter, for lack of memory or because the data is bad.
pub fn not_loaded(error: &DecodeError) {
    match error {
        DecodeError::OutOfMemory { .. } => Figure::RefusedCreations.add(1),
        _ => Figure::FailedLoads.add(1),
    }
}

/// Registers the section, then the listener for loads. In this order, because Redis 7.0 forgets the section of a
/// module that it refuses, but not the listener.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    // SAFETY: the context is that of the module's loading.
    let status = unsafe { call!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(write_section))) };
    if status != raw::REDISMODULE_OK as c_int {
        return Err("the server takes no section for INFO".to_owned());
    }
    // Servers before 7.0 have no asynchronous loads, and refuse.
    subscribe(ctx, raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, Some(on_async_load));
    let is_told = subscribe(ctx, raw::REDISMODULE_EVENT_LOADING, Some(on_loading));
    is_told
        .then_some(())
        .ok_or_else(|| "the server does not tell of its loads".to_owned())
}

/// Subscribes to an event; false if the server does not have it.
fn subscribe(ctx: Ctx<'_>, id: u64, listener: raw::RedisModuleEventCallback) -> bool {
    let event = raw::RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is that of the module's loading; the server copies the event.
    let status = unsafe { call!(RedisModule_SubscribeToServerEvent(ctx.raw(), event, listener)) };
    status == raw::REDISMODULE_OK as c_int
}

/// Writes the section, for INFO and for a crash report.
unsafe extern "C" fn write_section(info: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guarded("telling the module's figures", || {
        // SAFETY: the server lends `info` for the time of this callback. Without a name the section has the module's.
        if unsafe { call!(RedisModule_InfoAddSection(info, std::ptr::null())) }
            != raw::REDISMODULE_OK as c_int
        {
            return;
        }
        // SAFETY: as above; the server copies the text.
        unsafe {
            call!(RedisModule_InfoAddFieldCString(
                info,
                c"version".as_ptr(),
                VERSION.as_ptr()
            ))
        };
        let items = Figure::OtherItems.live().wrapping_add(Figure::ItemsAdded.value());
        let lines: [(&CStr, u64); 15] = [
            (c"filters", Figure::Filters.live()),
            (c"windows", Figure::Windows.live()),
            (c"layers", Figure::Layers.live()),
            (c"bytes", Figure::Bytes.live()),
            (c"exceptions", Figure::Exceptions.live()),
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
            // SAFETY: as above; the server puts the module's name before the copied one.
            unsafe { call!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value)) };
        }
    });
}

/// The other modules, the figure of their loaded filters, and its value when the running load began.
static FOREIGN: [(&str, Figure, AtomicU64); 2] = [
    ("RedisBloom", Figure::ClassicLoads, AtomicU64::new(0)),
    ("valkey-bloom", Figure::ValkeyLoads, AtomicU64::new(0)),
];

/// Counts the filters of an asynchronous load once it has ended: they are served now, or thrown away.
unsafe extern "C" fn on_async_load(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guarded("counting what was loaded", || {
        if subevent != raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED {
            HIDDEN.iter().for_each(|hidden| hidden.store(0, Relaxed));
        }
    });
}

/// Logs, once for each load, how many of its filters came from another module.
unsafe extern "C" fn on_loading(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guarded("counting what was loaded", || match subevent {
        raw::REDISMODULE_SUBEVENT_LOADING_RDB_START
        | raw::REDISMODULE_SUBEVENT_LOADING_AOF_START
        | raw::REDISMODULE_SUBEVENT_LOADING_REPL_START => {
            for (_, loads, before) in &FOREIGN {
                before.store(loads.value(), Relaxed);
            }
        }
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED => {
            // SAFETY: the server lends the context for the time of this callback.
            let ctx = unsafe { Ctx::of_callback(ctx) };
            for (module, loads, before) in &FOREIGN {
                let loads = loads.value() - before.load(Relaxed);
                if loads > 0 {
                    let line = format!(
                        "Bloom filters of {module}'s layout that were loaded: {loads}; they keep it, grow by its \
                         rules, and can go back"
                    );
                    note(ctx, &line);
                }
            }
        }
        _ => {}
    });
}
