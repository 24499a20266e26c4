//! Loading the module, and unloading it when that fails.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::server::alloc::ModuleAllocator;
use crate::server::{Arg, Ctx, alloc, ask, guarded, name_conflict, warn};
use crate::{commands, datatype, options, stats};

const NAME: &CStr = c"bf";
/// The version in MODULE LIST, in RedisBloom's form: 20820 would be 2.8.20.
const VERSION: c_int = 10_000 * version_part(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * version_part(env!("CARGO_PKG_VERSION_MINOR"))
    + version_part(env!("CARGO_PKG_VERSION_PATCH"));

const fn version_part(digits: &str) -> c_int {
    match c_int::from_str_radix(digits, 10) {
        Ok(part) => part,
        // Cargo accepts only numbers.
        Err(_) => 0,
    }
}

#[global_allocator]
static ALLOCATOR: ModuleAllocator = ModuleAllocator;

/// What the module supports. Payloads that end early are errors, not aborts. The commands signal the keys that they
/// change, instead of every open for writing. A replica may load its primary's data while it serves its own, because
/// no filter depends on anything outside of itself.
const OPTIONS: u32 = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
    | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
    | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;

/// Valkey 9 and later: filters may move in an atomic slot migration, which sends them as a rewrite of the append-only
/// file does. The header of the crate redis-module does not name this flag.
///
/// Saves without a fork, which Valkey has merged and not released, need one more option, which is left out until a
/// release says whether such a save keeps active defragmentation from moving the filter that it reads. The rest is
/// there: another thread can save a filter, and a key that is not given for writing is an error.
const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

/// The server's entry point to load the module. Nothing may be allocated before the server's table of calls is
/// filled, which registering the name does first.
///
/// # Safety
/// The server calls it, with a context and `argc` arguments that live until it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let api = raw::REDISMODULE_APIVER_1 as c_int;
    // SAFETY: the context is that of the module's loading, and the name is terminated.
    let status = unsafe { raw::Export_RedisModule_Init(ctx, NAME.as_ptr(), VERSION, api) };
    let loaded = guarded("loading the module", || {
        if status != raw::REDISMODULE_OK as c_int {
            return Err(name_is_taken());
        }
        // SAFETY: the context is that of the module's loading, which runs until this returns.
        let ctx = unsafe { Ctx::of_callback(ctx) }.ok_or("the server gave no context")?;
        // SAFETY: as for the context.
        load(ctx, unsafe { Arg::of_command(argv, argc) })
    });
    let status = match loaded {
        Some(Ok(())) => raw::REDISMODULE_OK,
        Some(Err(line)) => {
            warn(
                None,
                &format!("the module for Bloom filters is not loaded: {line}"),
            );
            raw::REDISMODULE_ERR
        }
        None => raw::REDISMODULE_ERR,
    };
    if status == raw::REDISMODULE_ERR {
        guarded("leaving the server", options::free_all);
    }
    status as c_int
}

/// Called by Redis 8 when it unloads a module for an unknown option. Later no server unloads one with data types.
///
/// # Safety
/// The server calls it, with a context that lives until it returns, after a load.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnUnload(_ctx: *mut raw::RedisModuleCtx) -> c_int {
    guarded("leaving the server", options::free_all);
    raw::REDISMODULE_OK as c_int
}

/// The line for the log when the module's name is in use.
fn name_is_taken() -> String {
    // Only valkey-bloom has this name and such a figure.
    let modules = ask(c"INFO", &[c"modules"]).unwrap_or_default();
    if modules.contains("\nbf_bloom_num_objects:") {
        return "valkey-bloom is loaded, which has the same name, commands and data type. A server takes one of the \
                two: start it with this one instead, which loads the other's files"
            .to_owned();
    }
    name_conflict(&format!("name '{}'", NAME.to_string_lossy()))
}

/// Reads the load arguments, then registers the data types, the commands, the options and, last, the section of INFO.
fn load(ctx: Ctx<'_>, arguments: &[Arg<'_>]) -> Result<(), String> {
    let allocator = ctx.info_text(c"memory", c"mem_allocator");
    alloc::detect(allocator.is_some_and(|name| name.starts_with("jemalloc")));
    libbloom::bits::units::allocator_zeroes_on_demand();
    let is_valkey = ctx.info_text(c"server", c"valkey_version").is_some();
    let of_valkey = if is_valkey {
        HANDLE_ATOMIC_SLOT_MIGRATION
    } else {
        0
    };
    ctx.set_module_options(OPTIONS | of_valkey);
    options::load_arguments(arguments)?;
    datatype::register(ctx)?;
    commands::register(ctx)?;
    options::register(ctx)?;
    // Last, since nothing may fail after it: Redis 7.0 would call the listener of a module that it refused. (If the
    // server refuses the module afterwards, it stays loaded because of its data types.)
    stats::register(ctx)
}
