//! Writing filters into an append-only file that is rewritten. No panic leaves the callback.

use std::ffi::c_void;

use redis_module::raw;

use crate::server::{alloc, call, guarded};
use libbloom::Filter;
use libbloom::codec::{chunks, valkey};

/// The most bytes of one argument. The process holds them twice, because the server copies them, and ends if there is
/// no memory for that. By default valkey-bloom has no larger filters.
const MOST_BYTES: usize = 128 << 20;

/// Writes the commands that load a filter.
pub unsafe extern "C" fn aof_rewrite(
    stream: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the server calls this with a filter, which nothing changes meanwhile.
    let filter = unsafe { &*value.cast::<Filter>() };
    guarded("rewriting a filter", || {
        if let Some(bytes) = alloc::without_kernel_check(|| for_valkey_bloom(filter)) {
            let (command, format) = (c"BF.LOAD".as_ptr(), c"sb".as_ptr());
            // SAFETY: the stream and the key are alive; the format takes a string, and bytes with their length.
            unsafe {
                call!(RedisModule_EmitAOF(
                    stream,
                    command,
                    format,
                    key,
                    bytes.as_ptr(),
                    bytes.len()
                ))
            };
            return;
        }
        // Every chunk that is not all zero.
        for chunk in alloc::without_kernel_check(|| chunks::chunks(filter)) {
            let (command, format) = (c"BF.LOADCHUNK".as_ptr(), c"slb".as_ptr());
            let (start, length) = (chunk.bytes.as_ptr(), chunk.bytes.len());
            // SAFETY: as above; the format takes a string, a long long, and bytes with their length.
            unsafe {
                call!(RedisModule_EmitAOF(
                    stream,
                    command,
                    format,
                    key,
                    chunk.iterator,
                    start,
                    length
                ))
            };
        }
    });
}

/// The filter in one piece, as valkey-bloom writes it, if it has that layout, is not too long, and there is memory.
fn for_valkey_bloom(filter: &Filter) -> Option<Vec<u8>> {
    let chain = filter.as_valkey()?;
    (valkey::encoded_bytes(chain) <= MOST_BYTES).then_some(())?;
    valkey::encode(chain).ok()
}
