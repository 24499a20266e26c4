//! The data type `MBbloom--`: the name that RedisBloom's files have, so that they load here.

mod callbacks;
mod defrag;
mod io;

use redis_module::native_types::RedisType;
use redis_module::raw;

use crate::bloom::codec::ENCODING_VERSION;
use crate::server::{Ctx, taken};

const NAME: &str = "MBbloom--";

/// Bytes that the server keeps for each value of a module, and leaves out when it counts: an object, and a
/// pair of pointers to the type and the value.
pub const SERVER_HEADERS: usize = 2 * 16;

/// The type as the server knows it.
pub static FILTER: RedisType = RedisType::new(
    NAME,
    ENCODING_VERSION,
    raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
        rdb_load: Some(callbacks::rdb_load),
        rdb_save: Some(callbacks::rdb_save),
        aof_rewrite: Some(callbacks::aof_rewrite),
        mem_usage: Some(callbacks::mem_usage),
        digest: Some(callbacks::digest),
        free: Some(callbacks::free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(callbacks::free_effort),
        unlink: None,
        copy: Some(callbacks::copy),
        defrag: Some(defrag::defrag),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    },
);

/// Registers the type.
///
/// # Errors
/// A line for the log.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    FILTER
        .create_data_type(ctx.raw())
        .map_err(|_| taken(&format!("data type '{NAME}'")))
}

/// The server's handle of the type; null before the module is loaded.
#[inline]
pub fn raw_type() -> *mut raw::RedisModuleType {
    // The cell is written once, while the module loads.
    // SAFETY: nothing borrows it mutably after that.
    unsafe { *FILTER.raw_type.as_ptr() }
}
