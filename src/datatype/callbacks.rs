//! The callbacks that are the same for both types, but for what loads and rewrites. No panic leaves them.

use std::alloc::Layout;
use std::ffi::c_void;

use redis_module::raw;

use super::SERVER_HEADERS;
use super::io::{Digest, Rdb};
use super::loading::allowing;
use crate::bloom::Filter;
use crate::bloom::codec::{self, chunks};
use crate::server::{Arg, OwnedCtx, alloc, guarded, log};
use crate::stats::{self, Counted};

/// Saves a filter.
pub unsafe extern "C" fn rdb_save(stream: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server calls this with a stream that lives until it returns.
    let mut stream = unsafe { Rdb::of_callback(stream) };
    // SAFETY: and with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    guarded("saving a filter", || codec::save(filter, &mut stream));
}

/// Copies a filter; null tells the server that there is no memory for it, or that it may have none.
pub unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server calls this with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    // SAFETY: the server lends the name of the new key for the time of this call.
    let key = unsafe { Arg::of_callback(to) };
    match guarded("copying a filter", || {
        let server = OwnedCtx::of_server();
        let allowing = allowing(server.ctx(), key);
        chunks::copy(filter, &|demand| allowing.allows(demand))
    }) {
        Some(Ok(copy)) => Box::into_raw(Counted::new(copy)).cast(),
        Some(Err(error)) => {
            stats::not_loaded(&error);
            log::COPY.warn(None, key.map_or(b"", Arg::bytes), || {
                format!("a Bloom filter was not copied: {error}")
            });
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

/// Bytes that the allocator holds for a filter, and what the server does not count for a value of a module.
pub unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the server calls this with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    let bytes = guarded("measuring a filter", || {
        // SAFETY: a filter was boxed when it was made, loaded or copied.
        let own = unsafe { alloc::held(value.cast(), Layout::for_value(filter)) };
        let mut bytes = SERVER_HEADERS + own;
        if let Some(unshared) = filter.unshared() {
            let bytes_of_both = alloc::taken(unshared.block) + unshared.entry;
            bytes += usize::try_from(bytes_of_both).unwrap_or(0);
        }
        filter.each_allocation(|allocation| {
            // SAFETY: the filter holds that block.
            bytes = bytes.saturating_add(unsafe { alloc::held(allocation.address, allocation.layout) });
        });
        bytes
    });
    bytes.unwrap_or(0)
}

/// How much work it is to free a filter, in units of 16 KiB: above 64 the server does it in the background. Up to
/// 1 MiB are freed in some 0.1 ms; and while a server evicts keys, what is freed in the background counts as
/// memory still in use, so that it evicts more than it needs to.
pub unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server calls this with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    let bytes = guarded("measuring a filter", || filter.bytes());
    // An effort of 0 would say that it is not known, and the server would take it for the highest.
    usize::try_from(bytes.unwrap_or(0) >> 14)
        .unwrap_or(usize::MAX)
        .max(1)
}

/// Digests a filter: equal for two filters if and only if all of their bits and parameters are.
pub unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server calls this with a digest that lives until it returns.
    let mut digest = unsafe { Digest::of_callback(digest) };
    // SAFETY: and with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    guarded("digesting a filter", || {
        codec::save_for_digest(filter, &mut digest);
        digest.finish();
    });
}

/// Frees a filter, on the main thread or a background one.
pub unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives back a filter for the last time.
    let filter = unsafe { Box::from_raw(value.cast::<Counted>()) };
    guarded("freeing a filter", || drop(filter));
}
