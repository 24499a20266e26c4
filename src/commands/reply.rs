//! Replies, in the forms of the client's protocol: RESP3 where the server has it, RESP2 elsewhere.

use std::ffi::{CStr, CString, c_long};

use redis_module::raw;

use super::error::CommandError;
use crate::number;
use crate::server::{Ctx, call};

/// A call that servers before 7.0 lack, or what stands in for it.
macro_rules! call_or {
    ($name:ident($($argument:expr),*), $instead:expr) => {{
        // SAFETY: the table is filled once, before any callback of the module runs.
        match unsafe { raw::$name } {
            // SAFETY: the arguments are what the server's header asks for: a live context and a number.
            Some(function) => { unsafe { function($($argument),*) }; }
            None => $instead,
        }
    }};
}

/// Writes the reply of the running command.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a>(pub Ctx<'a>);

impl Reply<'_> {
    /// `OK`.
    pub fn ok(self) {
        self.simple(c"OK");
    }

    /// An error.
    pub fn error(self, error: &CommandError) {
        if *error == CommandError::Arity {
            // SAFETY (of the call): the context is that of a command.
            call!(RedisModule_WrongArity(self.0.raw()));
            return;
        }
        let text = CString::new(error.to_string()).unwrap_or_default();
        // SAFETY (of the call): the context is that of a command; the server copies the text.
        call!(RedisModule_ReplyWithError(self.0.raw(), text.as_ptr()));
    }

    /// An integer; what does not fit counts as the largest.
    pub fn integer(self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        // SAFETY (of the call): the context is that of a command.
        call!(RedisModule_ReplyWithLongLong(self.0.raw(), value));
    }

    /// A boolean; 1 or 0 in RESP2.
    #[inline]
    pub fn boolean(self, value: bool) {
        call_or!(
            RedisModule_ReplyWithBool(self.0.raw(), value.into()),
            self.integer(value.into())
        );
    }

    /// A double; in RESP2 its text, for which servers before 7.2 take more digits than it has.
    pub fn double(self, value: f64) {
        if self.0.speaks_resp3() {
            // SAFETY (of the call): the context is that of a command.
            call!(RedisModule_ReplyWithDouble(self.0.raw(), value));
        } else {
            self.bulk(number::short(value).as_bytes());
        }
    }

    /// A simple string.
    pub fn simple(self, text: &CStr) {
        // SAFETY (of the call): the context is that of a command; the server copies the text.
        call!(RedisModule_ReplyWithSimpleString(self.0.raw(), text.as_ptr()));
    }

    /// A string of bytes.
    pub fn bulk(self, bytes: &[u8]) {
        // SAFETY (of the call): the context is that of a command; the server copies the bytes.
        call!(RedisModule_ReplyWithStringBuffer(
            self.0.raw(),
            bytes.as_ptr().cast(),
            bytes.len()
        ));
    }

    /// Null.
    pub fn null(self) {
        // SAFETY (of the call): the context is that of a command.
        call!(RedisModule_ReplyWithNull(self.0.raw()));
    }

    /// An integer, or null.
    pub fn integer_if_any(self, value: Option<u64>) {
        value.map_or_else(|| self.null(), |value| self.integer(value));
    }

    /// The head of an array; its `length` elements follow.
    pub fn array(self, length: usize) {
        // SAFETY (of the call): the context is that of a command.
        call!(RedisModule_ReplyWithArray(self.0.raw(), length as c_long));
    }

    /// Whether the client reads maps.
    pub fn has_maps(self) -> bool {
        // SAFETY: the table is filled once, before any callback of the module runs.
        self.0.speaks_resp3() && unsafe { raw::RedisModule_ReplyWithMap }.is_some()
    }

    /// The head of a map; `length` pairs of a key and a value follow. A flat array in RESP2.
    pub fn map(self, length: usize) {
        call_or!(
            RedisModule_ReplyWithMap(self.0.raw(), length as c_long),
            self.array(2 * length)
        );
    }
}
