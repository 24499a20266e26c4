//! The callbacks that both types share: all but those that load, rewrite and defragment. No panic leaves them.

use std::alloc::Layout;
use std::ffi::c_void;

use redis_module::raw;

use super::SERVER_HEADERS;
use super::io::{Digest, Rdb};
use super::loading::memory_for;
use crate::server::{Arg, OwnedCtx, alloc, guarded, log};
use crate::stats::{self, Counted};
use libbloom::Filter;
use libbloom::codec::{self, chunks};

pub unsafe extern "C" fn rdb_save(stream: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server calls this with a stream that lives until it returns.
    let mut stream = unsafe { Rdb::of_callback(stream) };
    // SAFETY: and with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    guarded("saving a filter", || {
        alloc::without_kernel_check(|| codec::save(filter, &mut stream));
    });
}

/// Copies a filter. Null tells the server that there is no memory for it, or that a limit refuses it.
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
        let memory = memory_for(server.ctx(), key);
        chunks::copy(filter, &|demand| memory.allow(demand))
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

/// Bytes that the allocator holds for a filter, and those that the server does not count for a value of a module.
pub unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the server calls this with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    let bytes = guarded("measuring a filter", || {
        // SAFETY: a filter was boxed when it was made, loaded or copied.
        let own = unsafe { alloc::held(value.cast(), Layout::for_value(filter)) };
        let mut bytes = SERVER_HEADERS + own;
        // The allocator cannot be asked about these.
        let others = filter.unshared().saturating_add(filter.set_of_exceptions());
        bytes = bytes.saturating_add(usize::try_from(others).unwrap_or(usize::MAX));
        filter.each_allocation(|allocation| {
            // SAFETY: the filter holds that block.
            bytes = bytes.saturating_add(unsafe { alloc::held(allocation.address, allocation.layout) });
        });
        bytes
    });
    bytes.unwrap_or(0)
}

/// How much work it is to free a filter, in units of 16 KiB. Above 64, which take about 0.1 ms, the server does it in
/// the background; while it evicts keys it then counts the filter as used, and evicts more than it needs to.
pub unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server calls this with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    let bytes = guarded("measuring a filter", || filter.bytes());
    // An effort of 0 means "unknown", which the server treats as the highest.
    usize::try_from(bytes.unwrap_or(0) >> 14)
        .unwrap_or(usize::MAX)
        .max(1)
}

/// Digests a filter. Two digests are equal if and only if all bits and parameters of the filters are.
pub unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server calls this with a digest that lives until it returns.
    let mut digest = unsafe { Digest::of_callback(digest) };
    // SAFETY: and with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    guarded("digesting a filter", || {
        alloc::without_kernel_check(|| codec::save_for_digest(filter, &mut digest));
        digest.finish();
    });
}

/// Frees a filter, on the main thread or a background one.
pub unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives back a filter for the last time.
    let filter = unsafe { Box::from_raw(value.cast::<Counted>()) };
    guarded("freeing a filter", || drop(filter));
}
