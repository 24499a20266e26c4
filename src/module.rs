//! The module's table, and what happens while the server loads it.

use redis_module::{Context, RedisString, Status, raw};

use crate::alloc::ModuleAllocator;
use crate::datatype::FILTER;
use crate::server::{Ctx, guarded};
use crate::{alloc, commands, options};

redis_module::redis_module! {
    name: "bf",
    version: 1,
    allocator: (ModuleAllocator, ModuleAllocator),
    data_types: [FILTER],
    init: load,
}

/// What the module copes with: payloads that end early are errors, not aborts; keys are signalled by the
/// commands that change them, not by every open for writing; and a replica may load its primary's data
/// while it still serves its own, since no filter depends on anything outside of itself.
const OPTIONS: u32 = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
    | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
    | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;

/// Takes the load arguments, then registers options and commands.
fn load(context: &Context, arguments: &[RedisString]) -> Status {
    // SAFETY: the context is that of the module's loading, which runs until this returns.
    let Some(ctx) = (unsafe { Ctx::of_callback(context.ctx) }) else {
        return Status::Err;
    };
    let loaded = guarded("loading the module", || {
        if ctx
            .info_text(c"memory", c"mem_allocator")
            .is_some_and(|name| name.starts_with("jemalloc"))
        {
            alloc::server_uses_jemalloc();
        }
        ctx.set_module_options(OPTIONS);
        options::load_arguments(arguments)?;
        commands::register(ctx)?;
        options::register(ctx)
    });
    match loaded {
        Some(Ok(())) => Status::Ok,
        Some(Err(line)) => {
            ctx.warn(&line);
            Status::Err
        }
        None => Status::Err,
    }
}
