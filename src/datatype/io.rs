//! The server's RDB stream as the codec's [`Sink`] and [`Source`].

use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;

use crate::server::{Arg, Ctx, call};
use libbloom::codec::DecodeError;
use libbloom::codec::stream::{Array, Sink, Source};

/// An RDB stream of the server's, for the time of a callback.
pub struct Rdb<'a>(*mut raw::RedisModuleIO, PhantomData<&'a ()>);

impl<'a> Rdb<'a> {
    /// The stream of a running callback.
    ///
    /// # Safety
    /// `raw` is what the server gave to a save or load callback, which runs for all of `'a`.
    pub unsafe fn of_callback(raw: *mut raw::RedisModuleIO) -> Self {
        Self(raw, PhantomData)
    }

    pub fn context(&self) -> Option<Ctx<'a>> {
        // SAFETY: the stream is alive.
        let ctx = unsafe { call!(RedisModule_GetContextFromIO(self.0)) };
        // SAFETY: the server keeps the context as long as the stream.
        unsafe { Ctx::of_callback(ctx) }
    }

    /// The key of the value, where the server tells it.
    pub fn key(&self) -> Option<Arg<'a>> {
        // SAFETY: the stream is alive.
        let key = unsafe { call!(RedisModule_GetKeyNameFromIO(self.0)) };
        // SAFETY: the server keeps the name as long as the stream.
        unsafe { Arg::of_callback(key) }
    }

    /// Reads the next string, in memory that the server allocated.
    fn buffer(&mut self) -> Result<Buffer, DecodeError> {
        let mut length = 0;
        // SAFETY: the stream is alive, `length` takes the length.
        let start: *mut std::ffi::c_char =
            unsafe { call!(RedisModule_LoadStringBuffer(self.0, &raw mut length)) };
        let start = NonNull::new(start.cast()).ok_or(DecodeError::Truncated)?;
        self.checked(Buffer { start, length })
    }

    /// Returns `value` unless the stream failed: the server then returns zeros that mean nothing.
    fn checked<T>(&self, value: T) -> Result<T, DecodeError> {
        // SAFETY: the stream is alive.
        if unsafe { call!(RedisModule_IsIOError(self.0)) } == 0 {
            Ok(value)
        } else {
            Err(DecodeError::Truncated)
        }
    }
}

impl Sink for Rdb<'_> {
    fn put_unsigned(&mut self, value: u64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveUnsigned(self.0, value)) };
    }

    fn put_double(&mut self, value: f64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveDouble(self.0, value)) };
    }

    fn put_string(&mut self, bytes: &[u8]) {
        // Redis 6.2 looks for a number at the start of a short string, even of one without bytes.
        let bytes = if bytes.is_empty() {
            &c"".to_bytes_with_nul()[..0]
        } else {
            bytes
        };
        // SAFETY: the stream is alive, and the server copies the bytes.
        unsafe {
            call!(RedisModule_SaveStringBuffer(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }
}

impl Source for Rdb<'_> {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadUnsigned(self.0)) };
        self.checked(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadDouble(self.0)) };
        self.checked(value)
    }

    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError> {
        Ok(take(self.buffer()?.bytes()))
    }

    fn array(&mut self) -> Result<Array, DecodeError> {
        Ok(self.buffer()?.into_array())
    }
}

/// The digest of a value for DEBUG DIGEST-VALUE, over all that a save would write.
pub struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    /// The digest of a running callback.
    ///
    /// # Safety
    /// `raw` is what the server gave to a digest callback, which runs as long as this value lives.
    pub unsafe fn of_callback(raw: *mut raw::RedisModuleDigest) -> Self {
        Self(raw)
    }

    pub fn finish(self) {
        // SAFETY: the digest is alive.
        unsafe { call!(RedisModule_DigestEndSequence(self.0)) };
    }
}

impl Sink for Digest {
    fn put_unsigned(&mut self, value: u64) {
        // SAFETY: the digest is alive.
        unsafe { call!(RedisModule_DigestAddLongLong(self.0, value.cast_signed())) };
    }

    fn put_double(&mut self, value: f64) {
        self.put_unsigned(value.to_bits());
    }

    fn put_string(&mut self, bytes: &[u8]) {
        // SAFETY: the digest is alive, and the server reads the bytes during the call.
        unsafe {
            call!(RedisModule_DigestAddStringBuffer(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }
}

/// Bytes that the server allocated for this module.
struct Buffer {
    start: NonNull<u8>,
    length: usize,
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the server gave that many bytes, which are this value's until it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Turns the memory into a box without a copy: the module's allocator is the server's, and frees by the address.
    fn into_array(self) -> Array {
        if self.length == 0 {
            return Array::Bytes(Box::default());
        }
        let (start, length) = (self.start, self.length);
        std::mem::forget(self);
        if length.is_multiple_of(size_of::<u64>()) {
            let words =
                std::ptr::slice_from_raw_parts_mut(start.as_ptr().cast::<u64>(), length / size_of::<u64>());
            // SAFETY: the block has that size, is aligned as all of malloc's are, and is nobody else's.
            Array::Words(unsafe { Box::from_raw(words) })
        } else {
            let bytes = std::ptr::slice_from_raw_parts_mut(start.as_ptr(), length);
            // SAFETY: the block has that size, and is nobody else's.
            Array::Bytes(unsafe { Box::from_raw(bytes) })
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer is the server's, and is not used again.
        unsafe { call!(RedisModule_Free(self.start.as_ptr().cast())) };
    }
}
