//! Replies in the client's protocol: RESP3 where the server has it, otherwise RESP2.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_long};

use redis_module::raw;

use crate::call::error::CommandError;
use crate::number;
use crate::server::{Ctx, call, entry};

thread_local! {
    /// The number of replies that the client still expects: one when a command begins, then the elements of arrays. A
    /// client that got fewer would take the reply to its next command for a missing element.
    static OWED: Cell<usize> = const { Cell::new(0) };
}

/// Begins a command. Pass the result to [`end_command`]: a command may run inside another one.
pub fn begin_command() -> usize {
    OWED.replace(1)
}

pub fn end_command(outer: usize) {
    OWED.set(outer);
}

/// Counts a reply that is sent, and the elements that must follow it.
#[inline]
fn sends(elements: usize) {
    OWED.set((OWED.get() + elements).saturating_sub(1));
}

/// The reply of the running command, which its methods write.
#[derive(Clone, Copy)]
pub struct Reply<'a>(pub Ctx<'a>);

impl Reply<'_> {
    /// Sends `OK`, with which a command ends.
    pub fn ok(self) -> Result<(), CommandError> {
        self.simple(c"OK");
        Ok(())
    }

    /// Completes the reply to a command: the first missing element becomes the error, the others null. So no array is
    /// short, even after a panic between two elements.
    pub fn end(self, outcome: &Result<(), CommandError>) {
        if OWED.get() > 0 {
            self.error(outcome.as_ref().err().unwrap_or(&CommandError::INTERNAL));
        }
        while OWED.get() > 0 {
            self.null();
        }
    }

    pub fn error(self, error: &CommandError) {
        sends(0);
        if *error == CommandError::Arity {
            // SAFETY: the context is that of a command.
            unsafe { call!(RedisModule_WrongArity(self.0.raw())) };
            return;
        }
        let text = CString::new(error.to_string()).unwrap_or_default();
        // SAFETY: the context is that of a command; the server copies the text.
        unsafe { call!(RedisModule_ReplyWithError(self.0.raw(), text.as_ptr())) };
    }

    /// Sends an integer; a value that does not fit is sent as the largest.
    pub fn integer(self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        sends(0);
        // SAFETY: the context is that of a command.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.0.raw(), value)) };
    }

    /// Sends a boolean, in RESP2 as 1 or 0.
    #[inline]
    pub fn boolean(self, value: bool) {
        let Some(reply) = entry!(RedisModule_ReplyWithBool) else {
            // Servers before 7.0 have none.
            return self.integer(value.into());
        };
        // SAFETY: the context is that of a command.
        unsafe { reply(self.0.raw(), value.into()) };
        sends(0);
    }

    /// Sends a double, in RESP2 as its text: servers before 7.2 would write more digits than it has.
    pub fn double(self, value: f64) {
        if self.0.has_flag(raw::REDISMODULE_CTX_FLAGS_RESP3) {
            // SAFETY: the context is that of a command.
            unsafe { call!(RedisModule_ReplyWithDouble(self.0.raw(), value)) };
            sends(0);
        } else {
            self.bulk(number::short(value).as_bytes());
        }
    }

    pub fn simple(self, text: &CStr) {
        // SAFETY: the context is that of a command; the server copies the text.
        unsafe { call!(RedisModule_ReplyWithSimpleString(self.0.raw(), text.as_ptr())) };
        sends(0);
    }

    pub fn bulk(self, bytes: &[u8]) {
        // SAFETY: the context is that of a command; the server copies the bytes.
        unsafe {
            call!(RedisModule_ReplyWithStringBuffer(
                self.0.raw(),
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
        sends(0);
    }

    /// Sends the name of a field, whose value must follow.
    pub fn field(self, name: &str) -> Self {
        self.bulk(name.as_bytes());
        self
    }

    pub fn null(self) {
        // SAFETY: the context is that of a command.
        unsafe { call!(RedisModule_ReplyWithNull(self.0.raw())) };
        sends(0);
    }

    pub fn integer_if_any(self, value: Option<u64>) {
        value.map_or_else(|| self.null(), |value| self.integer(value));
    }

    /// Sends the head of an array, whose `length` elements must follow.
    pub fn array(self, length: usize) {
        // SAFETY: the context is that of a command.
        unsafe { call!(RedisModule_ReplyWithArray(self.0.raw(), length as c_long)) };
        sends(length);
    }

    /// Whether the client can read maps.
    pub fn has_maps(self) -> bool {
        self.0.has_flag(raw::REDISMODULE_CTX_FLAGS_RESP3) && entry!(RedisModule_ReplyWithMap).is_some()
    }

    /// Sends the head of a map, whose `length` pairs of key and value must follow. In RESP2 it is a flat array.
    pub fn map(self, length: usize) {
        let Some(reply) = entry!(RedisModule_ReplyWithMap) else {
            // Servers before 7.0 have none.
            return self.array(2 * length);
        };
        // SAFETY: the context is that of a command.
        unsafe { reply(self.0.raw(), length as c_long) };
        sends(2 * length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a panic between two elements the array is completed: a client takes the reply to its next command for what
    /// is missing, and is off by one from then on.
    #[test]
    fn what_a_command_did_not_send_is_still_owed() {
        let outer = begin_command();
        assert_eq!(OWED.get(), 1, "one reply");
        sends(3);
        assert_eq!(OWED.get(), 3, "the elements of an array");
        sends(0);
        sends(2);
        assert_eq!(OWED.get(), 3, "one of three, and an array of two for another one");
        let inner = begin_command();
        sends(0);
        assert_eq!(OWED.get(), 0, "a command within a command has a reply of its own");
        end_command(inner);
        assert_eq!(OWED.get(), 3);
        (0..3).for_each(|_| sends(0));
        assert_eq!(OWED.get(), 0, "all was sent");
        sends(0);
        assert_eq!(OWED.get(), 0);
        end_command(outer);
        begin_command();
        sends(0);
        assert_eq!(OWED.get(), 0, "an empty array is a reply");
    }
}
