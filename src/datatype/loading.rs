//! Loading filters from an RDB file or a payload of RESTORE. No panic leaves the callbacks.

use std::ffi::{c_int, c_void};

use redis_module::raw;

use super::io::Rdb;
use crate::limits::CommandMemory;
use crate::server::{Arg, Ctx, guarded, log};
use crate::stats::{self, Counted};
use libbloom::Filter;
use libbloom::chain::Allowance;
use libbloom::codec::{self, DecodeError};

/// Loads a filter of any layout but valkey-bloom's.
pub unsafe extern "C" fn load(stream: *mut raw::RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    // SAFETY: the server calls this with a stream that lives until it returns.
    let stream = unsafe { Rdb::of_callback(stream) };
    load_and_count(stream, |stream, _, allowance| {
        codec::load(stream, encoding_version, allowance)
    })
}

/// Loads a filter in valkey-bloom's layout.
pub unsafe extern "C" fn load_valkey(
    stream: *mut raw::RedisModuleIO,
    encoding_version: c_int,
) -> *mut c_void {
    // SAFETY: the server calls this with a stream that lives until it returns.
    let stream = unsafe { Rdb::of_callback(stream) };
    load_and_count(stream, |stream, memory, allowance| {
        // The first layer is in memory before its size is known, and must not be counted twice.
        if let Some(memory) = memory {
            memory.read_memory_now();
        }
        let chain = codec::valkey::load(stream, encoding_version, allowance)?;
        Ok(chain.into())
    })
}

/// Loads a filter by `load`, and counts it. Null tells the server that the payload is bad.
fn load_and_count(
    mut stream: Rdb<'_>,
    load: impl FnOnce(&mut Rdb<'_>, Option<&CommandMemory<'_>>, Allowance<'_>) -> Result<Filter, DecodeError>,
) -> *mut c_void {
    let (ctx, key) = (stream.context(), stream.key());
    let loaded = guarded("loading a filter", || {
        let memory = ctx.map(|ctx| memory_for(ctx, key));
        let allowance = |demand| memory.as_ref().map_or(Ok(()), |memory| memory.allow(demand));
        load(&mut stream, memory.as_ref(), &allowance)
    });
    match loaded {
        Some(Ok(filter)) => {
            stats::loaded(&filter);
            let filter = Counted::new(filter);
            if ctx.is_some_and(|ctx| ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)) {
                stats::hide_until_loaded(&filter);
            }
            Box::into_raw(filter).cast()
        }
        Some(Err(error)) => {
            stats::not_loaded(&error);
            log::LOAD.warn(ctx, key.map_or(b"", Arg::bytes), || {
                format!("a Bloom filter was not loaded: {error}")
            });
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

/// The allowance for a filter that is loaded or copied. A client's RESTORE and COPY are limited as its other commands
/// are. No limit may keep a server from starting, or make it differ from its primary.
pub fn memory_for<'a>(ctx: Ctx<'a>, key: Option<Arg<'a>>) -> CommandMemory<'a> {
    CommandMemory::new(ctx, key.map_or(b"", Arg::bytes), ctx.origin_unnamed())
}
