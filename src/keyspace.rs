//! Keys that hold filters: opened with their type checked, lent no longer than they are open.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use redis_module::raw;

use crate::bloom::Filter;
use crate::datatype;
use crate::server::{Arg, Ctx, call, milliseconds, now};
use crate::stats::Counted;

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// An open key that is missing or holds a filter.
#[derive(Debug)]
pub struct Key<'a> {
    ctx: Ctx<'a>,
    name: Arg<'a>,
    /// Null for a missing key that was opened for reading.
    key: *mut raw::RedisModuleKey,
    filter: Option<NonNull<Counted>>,
}

/// Opens `name` for reading.
///
/// # Errors
/// [`WrongType`]; the key is closed again.
pub fn read<'a>(ctx: Ctx<'a>, name: Arg<'a>) -> Result<Key<'a>, WrongType> {
    open(ctx, name, raw::REDISMODULE_READ)
}

/// Opens `name` for changing the filter that it holds, or for creating one.
///
/// # Errors
/// [`WrongType`]; the key is closed again.
pub fn write<'a>(ctx: Ctx<'a>, name: Arg<'a>) -> Result<KeyMut<'a>, WrongType> {
    let key = open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)?;
    let expires = false;
    Ok(KeyMut { key, expires })
}

fn open<'a>(ctx: Ctx<'a>, name: Arg<'a>, mode: u32) -> Result<Key<'a>, WrongType> {
    // SAFETY (of the call): the context is that of a command, the name one of its arguments.
    let key = call!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode.cast_signed()));
    let mut opened = Key {
        ctx,
        name,
        key,
        filter: None,
    };
    if key.is_null() {
        return Ok(opened);
    }
    // SAFETY (of the call): the key is open; for a value that is no module's, or none, the type is null.
    if datatype::is_ours(call!(RedisModule_ModuleTypeGetType(key))) {
        // SAFETY (of the call): the key is open and holds a module's value.
        opened.filter = NonNull::new(call!(RedisModule_ModuleTypeGetValue(key)).cast());
        if let Some(filter) = opened.filter() {
            filter.set_clock(now);
        }
        return Ok(opened);
    }
    // SAFETY (of the call): the key is open.
    if call!(RedisModule_KeyType(key)) == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
        return Ok(opened);
    }
    Err(WrongType)
}

impl Key<'_> {
    /// The filter, unless the key is missing.
    #[inline]
    pub fn filter(&self) -> Option<&Filter> {
        // SAFETY: the value of a key of our types is a filter that only this module changes, and nothing
        // else runs while the key is open.
        self.filter.map(|filter| unsafe { &**filter.as_ref() })
    }

    /// Whether the filter that it holds is the one that `other` holds.
    pub fn is_same(&self, other: &KeyMut<'_>) -> bool {
        self.filter.is_some() && self.filter == other.key.filter
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if !self.key.is_null() {
            // SAFETY (of the call): the key is open, and is not used again.
            call!(RedisModule_CloseKey(self.key));
        }
    }
}

/// An open key whose filter may be changed or created.
#[derive(Debug)]
pub struct KeyMut<'a> {
    key: Key<'a>,
    /// It was told when to expire.
    expires: bool,
}

impl KeyMut<'_> {
    /// The filter, unless the key is missing.
    #[inline]
    pub fn filter(&mut self) -> Option<&mut Filter> {
        // SAFETY: as for reading; the borrow of the open key is unique.
        self.key
            .filter
            .map(|mut filter| unsafe { &mut **filter.as_mut() })
    }

    /// Puts `filter` into the key, which then expires at that time in milliseconds of the Unix clock, if
    /// ever. What expired before is gone for clients at once; the server deletes it, as the value of a SET
    /// that was too late.
    pub fn set(&mut self, filter: Box<Counted>, expires: Option<i64>) {
        let kind = datatype::of(&filter);
        let filter = NonNull::from(Box::leak(filter));
        // SAFETY (of the call): the key is open for writing, and the type's `free` takes such a pointer.
        call!(RedisModule_ModuleTypeSetValue(
            self.key.key,
            kind,
            filter.as_ptr().cast()
        ));
        self.key.filter = Some(filter);
        if let Some(at) = expires {
            self.expire(at);
        }
    }

    /// Puts `filter` in the place of the one that the key holds, which is given back, or into the missing key. An end
    /// that the key has stays.
    ///
    /// The server puts no value in the place of one of the other type. Then it has the earlier one freed itself, and
    /// the end goes.
    pub fn replace(&mut self, filter: Box<Counted>) -> Option<Box<Counted>> {
        let kind = datatype::of(&filter);
        let earlier = self.filter().map(|earlier| datatype::of(earlier));
        if earlier != Some(kind) {
            if earlier.is_some() {
                // SAFETY (of the call): the key is open for writing, and nothing refers to its value any more.
                call!(RedisModule_UnlinkKey(self.key.key));
            }
            self.set(filter, None);
            return None;
        }
        let filter = NonNull::from(Box::leak(filter));
        let mut earlier: *mut c_void = std::ptr::null_mut();
        // SAFETY (of the call): the key is open for writing and holds a value of this type, whose place the new one
        // takes; `earlier` takes its pointer.
        call!(RedisModule_ModuleTypeReplaceValue(
            self.key.key,
            kind,
            filter.as_ptr().cast(),
            &raw mut earlier
        ));
        self.key.filter = Some(filter);
        // SAFETY: it was boxed when it was made, loaded or copied, and the server has given it up.
        NonNull::new(earlier).map(|earlier| unsafe { Box::from_raw(earlier.cast().as_ptr()) })
    }

    /// The key, which has a value, never expires.
    pub fn persist(&mut self) {
        // SAFETY (of the call): the key is open for writing, and has a value.
        call!(RedisModule_SetExpire(
            self.key.key,
            raw::REDISMODULE_NO_EXPIRE.into()
        ));
    }

    fn expire(&mut self, at: i64) {
        // SAFETY: the table is filled once, before any callback of the module runs.
        if let Some(set) = unsafe { raw::RedisModule_SetAbsExpire } {
            // SAFETY: the key is open for writing, and has a value.
            unsafe { set(self.key.key, at) };
        } else {
            // Redis 6.2.0 and 6.2.1 know time from now on only.
            let left = at.saturating_sub(milliseconds()).max(0);
            // SAFETY (of the call): as above.
            call!(RedisModule_SetExpire(self.key.key, left));
        }
        self.expires = true;
    }

    /// Closes the key, then tells those who watch that it changed: they may delete it. Call it once for a
    /// command that changed it.
    pub fn changed(self, events: &[&CStr]) {
        let Key { ctx, name, .. } = self.key;
        let expires = self.expires;
        drop(self);
        ctx.signal_modified(name);
        for event in events {
            ctx.notify(raw::REDISMODULE_NOTIFY_MODULE, event, name);
        }
        if expires {
            ctx.notify(raw::REDISMODULE_NOTIFY_GENERIC, c"expire", name);
        }
    }
}
