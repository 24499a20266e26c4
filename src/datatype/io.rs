//! The server's RDB stream as the codec's [`Sink`] and [`Source`].

use std::marker::PhantomData;

use redis_module::raw;

use crate::bloom::codec::DecodeError;
use crate::bloom::codec::stream::{Sink, Source};
use crate::server::{Arg, Ctx, call};

/// An RDB stream of the server's, for the time of a callback.
#[derive(Debug)]
pub struct Rdb<'a> {
    stream: *mut raw::RedisModuleIO,
    callback: PhantomData<&'a ()>,
}

impl<'a> Rdb<'a> {
    /// The stream of a running callback.
    ///
    /// # Safety
    /// `raw` is what the server gave to a save or load callback, which runs for all of `'a`.
    pub unsafe fn of_callback(raw: *mut raw::RedisModuleIO) -> Self {
        Self {
            stream: raw,
            callback: PhantomData,
        }
    }

    /// The context of the callback.
    pub fn context(&self) -> Option<Ctx<'a>> {
        // SAFETY (of the call): the stream is alive.
        let ctx = call!(RedisModule_GetContextFromIO(self.stream));
        // SAFETY: the server keeps the context as long as the stream.
        unsafe { Ctx::of_callback(ctx) }
    }

    /// The key whose value it is, where the server says so.
    pub fn key(&self) -> Option<Arg<'a>> {
        // SAFETY (of the call): the stream is alive.
        let key = call!(RedisModule_GetKeyNameFromIO(self.stream));
        // SAFETY: the server keeps the name as long as the stream.
        unsafe { Arg::of_callback(key) }
    }

    /// `value`, unless the stream failed: then the server gives zeros, which mean nothing.
    fn checked<T>(&self, value: T) -> Result<T, DecodeError> {
        // SAFETY (of the call): the stream is alive.
        if call!(RedisModule_IsIOError(self.stream)) == 0 {
            Ok(value)
        } else {
            Err(DecodeError::Truncated)
        }
    }
}

impl Sink for Rdb<'_> {
    fn put_unsigned(&mut self, value: u64) {
        // SAFETY (of the call): the stream is alive.
        call!(RedisModule_SaveUnsigned(self.stream, value));
    }

    fn put_double(&mut self, value: f64) {
        // SAFETY (of the call): the stream is alive.
        call!(RedisModule_SaveDouble(self.stream, value));
    }

    fn put_string(&mut self, bytes: &[u8]) {
        // Redis 6.2 looks for a number at the start of a short string, even of one without bytes.
        let bytes = if bytes.is_empty() {
            &c"".to_bytes_with_nul()[..0]
        } else {
            bytes
        };
        // SAFETY (of the call): the stream is alive, and the server copies the bytes.
        call!(RedisModule_SaveStringBuffer(
            self.stream,
            bytes.as_ptr().cast(),
            bytes.len()
        ));
    }
}

impl Source for Rdb<'_> {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        // SAFETY (of the call): the stream is alive.
        let value = call!(RedisModule_LoadUnsigned(self.stream));
        self.checked(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        // SAFETY (of the call): the stream is alive.
        let value = call!(RedisModule_LoadDouble(self.stream));
        self.checked(value)
    }

    fn string<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Result<T, DecodeError> {
        let mut length = 0;
        // SAFETY (of the call): the stream is alive, `length` takes the length.
        let buffer = call!(RedisModule_LoadStringBuffer(self.stream, &raw mut length));
        if buffer.is_null() {
            return Err(DecodeError::Truncated);
        }
        let _buffer = Buffer(buffer.cast());
        self.checked(())?;
        // SAFETY: the server gave `length` bytes, which are this function's until it frees them.
        Ok(take(unsafe { std::slice::from_raw_parts(buffer.cast(), length) }))
    }
}

/// The digest of a value, for DEBUG DIGEST-VALUE: of all that a save would write.
#[derive(Debug)]
pub struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    /// The digest of a running callback.
    ///
    /// # Safety
    /// `raw` is what the server gave to a digest callback, which runs as long as this value lives.
    pub unsafe fn of_callback(raw: *mut raw::RedisModuleDigest) -> Self {
        Self(raw)
    }

    /// Ends the value.
    pub fn finish(self) {
        // SAFETY (of the call): the digest is alive.
        call!(RedisModule_DigestEndSequence(self.0));
    }
}

impl Sink for Digest {
    fn put_unsigned(&mut self, value: u64) {
        // SAFETY (of the call): the digest is alive.
        call!(RedisModule_DigestAddLongLong(self.0, value.cast_signed()));
    }

    fn put_double(&mut self, value: f64) {
        self.put_unsigned(value.to_bits());
    }

    fn put_string(&mut self, bytes: &[u8]) {
        // SAFETY (of the call): the digest is alive, and the server reads the bytes during the call.
        call!(RedisModule_DigestAddStringBuffer(
            self.0,
            bytes.as_ptr().cast(),
            bytes.len()
        ));
    }
}

/// Bytes that the server allocated for us.
struct Buffer(*mut std::ffi::c_void);

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY (of the call): the buffer is the server's, and is not used again.
        call!(RedisModule_Free(self.0));
    }
}
