//! The commands, one file each: a request that parses itself, is applied, and gives its reply.
//!
//! The order inside a command: parse (no key is touched), open the key with its type checked, change the
//! filter, then, only if it changed, propagate, signal and notify once, then reply.

pub mod args;
pub mod error;
pub mod reply;
#[cfg(any(test, fuzzing))]
pub mod requests;

mod add;
mod adding;
mod card;
mod creation;
mod debug;
mod exists;
mod info;
mod insert;
mod loadchunk;
mod madd;
mod mexists;
mod reserve;
mod scandump;

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::server::{Arg, Ctx, guarded};
use error::CommandError;
use reply::Reply;

/// A command that was called.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The context of the call.
    pub ctx: Ctx<'a>,
    /// The arguments after the command's name.
    pub arguments: &'a [Arg<'a>],
}

/// A command.
pub trait Command {
    /// Its name.
    const NAME: &'static CStr;
    /// Its flags, as the server's command table has them.
    const FLAGS: &'static CStr;

    /// Does what was asked, and replies.
    ///
    /// # Errors
    /// What to reply instead. Nothing changed, and nothing was replied.
    fn run(call: Call<'_>) -> Result<(), CommandError>;
}

/// Registers every command.
///
/// # Errors
/// A line for the log.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    one::<reserve::Reserve>(ctx)?;
    one::<add::Add>(ctx)?;
    one::<madd::MAdd>(ctx)?;
    one::<insert::Insert>(ctx)?;
    one::<exists::Exists>(ctx)?;
    one::<mexists::MExists>(ctx)?;
    one::<info::Info>(ctx)?;
    one::<card::Card>(ctx)?;
    one::<scandump::ScanDump>(ctx)?;
    one::<loadchunk::LoadChunk>(ctx)?;
    one::<debug::Debug>(ctx)
}

fn one<C: Command>(ctx: Ctx<'_>) -> Result<(), String> {
    if ctx.create_command(C::NAME, entry::<C>, C::FLAGS) {
        return Ok(());
    }
    let name = C::NAME.to_string_lossy();
    Err(format!(
        "the command {name} could not be registered: does another module have commands of this name?"
    ))
}

/// What the server calls: borrows the arguments, keeps panics in, sends errors.
unsafe extern "C" fn entry<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server lends the context for the time of this call.
    let Some(ctx) = (unsafe { Ctx::of_callback(ctx) }) else {
        return raw::REDISMODULE_ERR as c_int;
    };
    // SAFETY: the server lends the arguments for the time of this call.
    let arguments = unsafe { Arg::of_command(argv, argc) };
    let outcome = guarded("a command", || match arguments {
        [_name, arguments @ ..] => C::run(Call { ctx, arguments }),
        [] => Err(CommandError::Arity),
    });
    if let Err(error) = outcome.unwrap_or(Err(CommandError::Internal)) {
        guarded("replying an error", || Reply(ctx).error(&error));
    }
    raw::REDISMODULE_OK as c_int
}
