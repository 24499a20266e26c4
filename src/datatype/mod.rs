//! The two data types: `MBbloom--`, the name in RedisBloom's files, and `bloomfltr`, the name in valkey-bloom's, so
//! that both load here. The layout of a filter decides the type of its key. Everything else is common to both.

mod callbacks;
mod defrag;
mod io;
mod loading;
mod rewriting;

use redis_module::native_types::RedisType;
use redis_module::raw;

use crate::server::{Ctx, name_conflict};
use libbloom::{Filter, codec};

const NAME: &str = "MBbloom--";
const VALKEY_NAME: &str = "bloomfltr";

/// Bytes that the server uses and does not count for a module's value: an object, and pointers to type and value.
pub const SERVER_HEADERS: usize = 2 * 16;

/// The type of all filters but those in valkey-bloom's layout.
static FILTER: RedisType = RedisType::new(NAME, codec::ENCODING_VERSION, methods(Some(loading::load)));

/// The type of filters in valkey-bloom's layout.
static VALKEY_FILTER: RedisType = RedisType::new(
    VALKEY_NAME,
    codec::valkey::ENCODING_VERSION,
    methods(Some(loading::load_valkey)),
);

/// The callbacks of a type; the two differ in loading only.
const fn methods(rdb_load: raw::RedisModuleTypeLoadFunc) -> raw::RedisModuleTypeMethods {
    raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
        rdb_load,
        rdb_save: Some(callbacks::rdb_save),
        aof_rewrite: Some(rewriting::aof_rewrite),
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
    }
}

pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    for (kind, name) in [(&FILTER, NAME), (&VALKEY_FILTER, VALKEY_NAME)] {
        kind.create_data_type(ctx.raw())
            .map_err(|_| name_conflict(&format!("data type '{name}'")))?;
    }
    Ok(())
}

pub type RawType = *mut raw::RedisModuleType;

pub fn of(filter: &Filter) -> RawType {
    raw_type(match filter.as_valkey() {
        Some(_) => &VALKEY_FILTER,
        None => &FILTER,
    })
}

/// Whether values of this type, which may be null, are filters of this module.
#[inline]
pub fn is_ours(kind: RawType) -> bool {
    !kind.is_null() && (kind == raw_type(&FILTER) || kind == raw_type(&VALKEY_FILTER))
}

/// The server's handle of a type; null before the module is loaded.
#[inline]
fn raw_type(kind: &RedisType) -> RawType {
    // SAFETY: the cell is written once, while the module loads, and nothing borrows it mutably after that.
    unsafe { *kind.raw_type.as_ptr() }
}
