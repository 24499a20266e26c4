//! What happens while the server loads the module.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::server::alloc::ModuleAllocator;
use crate::server::{Arg, Ctx, alloc, ask, guarded, taken, warn};
use crate::{commands, datatype, options, stats};

/// The name that tools look for.
const NAME: &CStr = c"bf";
/// As MODULE LIST tells it, and as RedisBloom writes its own: 20820 would be 2.8.20.
const VERSION: c_int = 10_000 * version_part(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * version_part(env!("CARGO_PKG_VERSION_MINOR"))
    + version_part(env!("CARGO_PKG_VERSION_PATCH"));

const fn version_part(digits: &str) -> c_int {
    match c_int::from_str_radix(digits, 10) {
        Ok(part) => part,
        // Cargo takes nothing else.
        Err(_) => 0,
    }
}

#[global_allocator]
static ALLOCATOR: ModuleAllocator = ModuleAllocator;

/// What the module copes with: payloads that end early are errors, not aborts; keys are signalled by the
/// commands that change them, not by every open for writing; and a replica may load its primary's data
/// while it still serves its own, since no filter depends on anything outside of itself.
const OPTIONS: u32 = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
    | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
    | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;

/// Of Valkey 9 and later: filters may move in an atomic slot migration, which sends them as the rewriting of an
/// append-only file does. The header of the crate redis-module, which is of Redis, does not name it.
const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

fn options_of_valkey(ctx: Ctx<'_>) -> u32 {
    let is_valkey = ctx.info_text(c"server", c"valkey_version").is_some();
    if is_valkey {
        HANDLE_ATOMIC_SLOT_MIGRATION
    } else {
        0
    }
}

/// What the server calls to load the module. Nothing may be allocated before the server's table of calls is
/// there, which is the first thing that registering the name does.
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
        guarded("leaving the server", options::let_go);
    }
    status as c_int
}

/// What Redis 8 calls when it takes the module out again, since an option that it was to be loaded with is nobody's.
/// No server does so later, because of the data types.
///
/// # Safety
/// The server calls it, with a context that lives until it returns, after a load.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnUnload(_ctx: *mut raw::RedisModuleCtx) -> c_int {
    guarded("leaving the server", options::let_go);
    raw::REDISMODULE_OK as c_int
}

/// Why the name of the module could not be had.
fn name_is_taken() -> String {
    // Only valkey-bloom has that name and such figures.
    let modules = ask(c"INFO", &[c"modules"]).unwrap_or_default();
    if modules.contains("\nbf_bloom_num_objects:") {
        return "valkey-bloom is loaded, which has the same name, commands and data type. A server takes one of the \
                two: start it with this one instead, which loads the other's files"
            .to_owned();
    }
    taken(&format!("name '{}'", NAME.to_string_lossy()))
}

/// Takes the load arguments, then registers the data types, the commands, the options and, last, the figures.
///
/// # Errors
/// A line for the log.
fn load(ctx: Ctx<'_>, arguments: &[Arg<'_>]) -> Result<(), String> {
    if ctx
        .info_text(c"memory", c"mem_allocator")
        .is_some_and(|name| name.starts_with("jemalloc"))
    {
        alloc::server_uses_jemalloc();
    }
    ctx.set_module_options(OPTIONS | options_of_valkey(ctx));
    options::load_arguments(arguments)?;
    datatype::register(ctx)?;
    commands::register(ctx)?;
    options::register(ctx)?;
    // Last, since nothing may fail after it: Redis 7.0 would call the listener of a module that it refused. (What
    // it finds wrong when this function has returned leaves the module loaded, because of its data types.)
    stats::register(ctx)
}
