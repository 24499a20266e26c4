//! Keys that hold filters. Opening a key checks its type, and its filter is borrowed only while it is open.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use redis_module::raw;

use crate::options::values::Config;
use crate::server::{Arg, Ctx, call, entry, milliseconds};
use crate::stats::Counted;
use crate::{datatype, options};
use libbloom::Filter;

/// Why a key was not opened; none of these leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    WrongType,
    /// The key may not be changed now: a save without a fork reads its value.
    BeingSaved,
    /// The key is missing, and the module's option refuses that.
    Missing,
}

/// An open key that is missing or holds a filter.
pub struct Key<'a> {
    ctx: Ctx<'a>,
    name: Arg<'a>,
    /// Null for a missing key that was opened for reading.
    key: *mut raw::RedisModuleKey,
    filter: Option<NonNull<Counted>>,
}

pub fn read<'a>(ctx: Ctx<'a>, name: Arg<'a>) -> Result<Key<'a>, Unopened> {
    open(ctx, name, raw::REDISMODULE_READ)
}

/// Whether the module's option makes a missing key an error. What must be obeyed is not refused: servers would differ.
#[cold]
pub fn missing_is_error(ctx: Ctx<'_>, config: &Config) -> bool {
    config.missing_key_is_error && !ctx.must_obey()
}

/// Opens `name` to change its filter, or to create one.
///
/// # Safety
/// While this key is open, the caller opens no other of its name to change it, and queries the filter by no other while
/// [`KeyMut::filter`] lends it.
pub unsafe fn write<'a>(ctx: Ctx<'a>, name: Arg<'a>) -> Result<KeyMut<'a>, Unopened> {
    let key = open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)?;
    // Otherwise the server always gives a key to write to, also for a missing one.
    if key.key.is_null() {
        return Err(Unopened::BeingSaved);
    }
    Ok(KeyMut { key, expires: false })
}

fn open<'a>(ctx: Ctx<'a>, name: Arg<'a>, mode: u32) -> Result<Key<'a>, Unopened> {
    // SAFETY: the context is that of a command, the name one of its arguments.
    let key = unsafe { call!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode.cast_signed())) };
    let mut opened = Key {
        ctx,
        name,
        key,
        filter: None,
    };
    if key.is_null() {
        return Ok(opened);
    }
    // SAFETY: the key is open; the type is null for a missing value and for one that belongs to no module.
    if datatype::is_ours(unsafe { call!(RedisModule_ModuleTypeGetType(key)) }) {
        // SAFETY: the key is open and holds a module's value.
        opened.filter = NonNull::new(unsafe { call!(RedisModule_ModuleTypeGetValue(key)) }.cast());
        return Ok(opened);
    }
    // SAFETY: the key is open.
    if unsafe { call!(RedisModule_KeyType(key)) } == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
        return Ok(opened);
    }
    Err(Unopened::WrongType)
}

impl<'a> Key<'a> {
    /// The filter, unless the key is missing.
    #[inline]
    pub fn filter(&self) -> Option<&Filter> {
        // SAFETY: the value of a key of our types is a filter that only this module changes, and nothing
        // else runs while the key is open.
        self.filter.map(|filter| unsafe { &**filter.as_ref() })
    }

    /// The filter, or `None` for a missing key, which is an empty filter to a query unless [`missing_is_error`].
    #[inline]
    pub fn filter_or_empty(&self) -> Result<Option<&Filter>, Unopened> {
        match self.filter() {
            None if missing_is_error(self.ctx, &options::config()) => Err(Unopened::Missing),
            filter => Ok(filter),
        }
    }

    /// Closes the key and returns its filter.
    ///
    /// # Safety
    /// The command that opened the key drops the reference before it changes, replaces or removes the filter.
    pub unsafe fn into_filter(self) -> Option<&'a Filter> {
        // SAFETY: the value of a key of our types is a filter that only this module changes, and the caller guarantees
        // that it does not, and that it stays, for as long as the reference is used.
        self.filter.map(|filter| unsafe { &**filter.as_ref() })
    }

    pub fn is_same(&self, other: &KeyMut<'_>) -> bool {
        self.filter.is_some() && self.filter == other.key.filter
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if !self.key.is_null() {
            // SAFETY: the key is open, and is not used again.
            unsafe { call!(RedisModule_CloseKey(self.key)) };
        }
    }
}

/// An open key whose filter may be changed or created.
pub struct KeyMut<'a> {
    key: Key<'a>,
    /// Whether this command set an expiry.
    expires: bool,
}

impl KeyMut<'_> {
    #[inline]
    pub fn filter(&mut self) -> Option<&mut Counted> {
        // SAFETY: as for reading; the borrow of the open key is unique.
        self.key.filter.map(|mut filter| unsafe { filter.as_mut() })
    }

    /// Puts `filter` into the key, which expires at `expires`, in milliseconds of the Unix clock. After that time clients
    /// no longer see the key, and the server deletes it, as after a SET with a past time.
    pub fn set(&mut self, filter: Box<Counted>, expires: Option<i64>) {
        let kind = datatype::of(&filter);
        let filter = NonNull::from(Box::leak(filter));
        // SAFETY: the key is open for writing, and the type's `free` takes such a pointer.
        unsafe {
            call!(RedisModule_ModuleTypeSetValue(
                self.key.key,
                kind,
                filter.as_ptr().cast()
            ))
        };
        self.key.filter = Some(filter);
        let Some(at) = expires else { return };
        if let Some(set) = entry!(RedisModule_SetAbsExpire) {
            // SAFETY: the key is open for writing, and has a value.
            unsafe { set(self.key.key, at) };
        } else {
            // Redis 6.2.0 and 6.2.1 accept relative times only.
            let left = at.saturating_sub(milliseconds()).max(0);
            // SAFETY: the key is open for writing, and has a value.
            unsafe { call!(RedisModule_SetExpire(self.key.key, left)) };
        }
        self.expires = true;
    }

    /// Replaces the key's filter and returns the earlier one, or fills a missing key. An expiry of the key stays, unless
    /// the data type is another one: then the server frees the earlier filter, and the expiry is lost.
    pub fn replace(&mut self, filter: Box<Counted>) -> Option<Box<Counted>> {
        let kind = datatype::of(&filter);
        let earlier = self.filter().map(|earlier| datatype::of(earlier));
        if earlier != Some(kind) {
            if earlier.is_some() {
                // SAFETY: the key is open for writing, and nothing refers to its value any more.
                unsafe { call!(RedisModule_UnlinkKey(self.key.key)) };
            }
            self.set(filter, None);
            return None;
        }
        let filter = NonNull::from(Box::leak(filter));
        let mut earlier: *mut c_void = std::ptr::null_mut();
        // SAFETY: the key is open for writing and holds a value of this type; `earlier` takes its pointer.
        unsafe {
            call!(RedisModule_ModuleTypeReplaceValue(
                self.key.key,
                kind,
                filter.as_ptr().cast(),
                &raw mut earlier
            ))
        };
        self.key.filter = Some(filter);
        // SAFETY: it was boxed when it was made, loaded or copied, and the server has given it up.
        NonNull::new(earlier).map(|earlier| unsafe { Box::from_raw(earlier.cast().as_ptr()) })
    }

    pub fn persist(&mut self) {
        // SAFETY: the key is open for writing, and has a value.
        unsafe {
            call!(RedisModule_SetExpire(
                self.key.key,
                raw::REDISMODULE_NO_EXPIRE.into()
            ))
        };
    }

    /// Closes the key, then signals the change and publishes `event`: subscribers may delete the key. Call it once for
    /// each command that changed the key.
    pub fn changed(self, event: &CStr) {
        let Key { ctx, name, .. } = self.key;
        let expires = self.expires;
        drop(self);
        ctx.signal_modified(name);
        ctx.notify(raw::REDISMODULE_NOTIFY_MODULE, event, name);
        if expires {
            ctx.notify(raw::REDISMODULE_NOTIFY_GENERIC, c"expire", name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server would end: a filter would be put into a key that is not there. It gives none for writing while it
    /// saves the value without a fork.
    #[test]
    fn without_a_key_there_is_nothing_to_write_to() {
        unsafe extern "C" fn no_key(
            _: *mut raw::RedisModuleCtx,
            _: *mut raw::RedisModuleString,
            _: c_int,
        ) -> *mut raw::RedisModuleKey {
            std::ptr::null_mut()
        }
        // SAFETY: no other test of this program opens keys.
        unsafe { raw::RedisModule_OpenKey = Some(no_key) };
        let place = NonNull::<u64>::dangling().as_ptr();
        // SAFETY: nothing looks at the context: the function above does not.
        let ctx = unsafe { Ctx::of_callback(place.cast()) }.unwrap();
        // SAFETY: nor at the name.
        let name = unsafe { Arg::of_callback(place.cast()) }.unwrap();
        // SAFETY: no other key is open.
        let opened = unsafe { write(ctx, name) };
        assert_eq!(opened.err(), Some(Unopened::BeingSaved));
        assert!(read(ctx, name).is_ok_and(|key| key.filter().is_none()));
    }
}
