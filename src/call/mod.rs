//! What a call of a command is made of: arguments, options, the reply, and what the server is told about the command.

pub mod args;
pub mod combination;
pub(crate) mod docs;
pub mod error;
pub mod given;
pub(crate) mod packing;
pub(crate) mod reply;
pub mod request;
pub mod target;
pub mod words;

use std::ffi::{CStr, CString, c_int};

use redis_module::raw;

pub(crate) use self::args::Cursor;
use self::combination::Combination;
use self::docs::Docs;
pub(crate) use self::error::CommandError;
pub(crate) use self::reply::Reply;
use crate::server::{Arg, Ctx, few, guarded, log, name_conflict};

#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub ctx: Ctx<'a>,
    /// The arguments after the command's name.
    pub arguments: &'a [Arg<'a>],
}

pub(crate) trait Command {
    const NAME: &'static CStr;
    /// The command's flags in the server's command table.
    const FLAGS: &'static CStr;
    /// The command's ACL categories besides the module's own.
    const CATEGORIES: &'static CStr = if may_write(Self::FLAGS) { c"write" } else { c"read" };
    const DOCS: Docs;
    /// Whether clients may cache the reply until the key changes: as in RedisBloom, not if it is about the filter.
    const CACHEABLE: bool = true;

    /// Runs the command, and replies.
    ///
    /// # Errors
    /// The error to reply, unless the reply is complete. Nothing changed before it, except what the reply or
    /// [`CommandError::After`] tells.
    fn run(call: Call<'_>) -> Result<(), CommandError>;
}

pub(crate) fn register_command<C: Command>(ctx: Ctx<'_>, category: Option<&CStr>) -> Result<(), String> {
    let name = C::NAME.to_string_lossy().to_uppercase();
    if !ctx.create_command(C::NAME, Some(entry::<C>), C::FLAGS, C::DOCS.has_key()) {
        return Err(name_conflict(&format!("command {name}")));
    }
    let categories = few(std::iter::once(C::CATEGORIES).chain(category));
    if !ctx.set_acl_categories(C::NAME, &words(&categories)) {
        return Err(format!("{name} could not be put into its ACL categories"));
    }
    if !docs::describe::<C>(ctx) {
        return Err(format!("the server does not take the description of {name}"));
    }
    Ok(())
}

/// Joins words with single blanks, without one at the end: Redis 7.2 takes what follows a last blank for an ACL
/// category without a name, and refuses it.
fn words(list: &[&CStr]) -> CString {
    let list = few(list.iter().map(|word| word.to_bytes()));
    CString::new(list.join(&b' ')).unwrap_or_default()
}

/// The entry point that the server calls: it borrows the arguments, catches panics and sends errors. If the command has
/// a number of sources, the server may also ask here where its keys are.
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
    if const { counts_keys(C::FLAGS) } && ctx.is_key_request() {
        guarded("telling keys", || report_keys(ctx, arguments));
        return raw::REDISMODULE_OK as c_int;
    }
    let outer = reply::begin_command();
    let outcome = guarded("a command", || match arguments {
        [_name, arguments @ ..] => C::run(Call { ctx, arguments }),
        [] => Err(CommandError::Arity),
    });
    let outcome = outcome.unwrap_or(Err(CommandError::INTERNAL));
    guarded("replying an error", || {
        if let (Err(error), [_, key, ..], true) = (&outcome, arguments, may_write(C::FLAGS)) {
            log_divergence(ctx, key.bytes(), C::NAME, error);
        }
        Reply(ctx).end(&outcome);
    });
    reply::end_command(outer);
    raw::REDISMODULE_OK as c_int
}

/// Logs a command of a primary or a file that failed here: this replica differs from its primary now.
fn log_divergence(ctx: Ctx<'_>, key: &[u8], command: &CStr, error: &CommandError) {
    // The command of a script may have failed on the primary too, and the script went on.
    if ctx.origin().is_relayed() {
        log::DIVERGENCE.warn(ctx, key, || {
            let command = command.to_string_lossy().to_uppercase();
            format!("{command} succeeded originally, and failed here: {error}")
        });
    }
}

const fn may_write(flags: &CStr) -> bool {
    matches!(flags.to_bytes(), [b'w', ..])
}

/// Whether the server asks a command with these flags where its keys are: for the nodes of a cluster, and before Redis 7.0
/// for everything. The key specifications serve ACL rules.
const fn counts_keys(flags: &CStr) -> bool {
    matches!(flags.to_bytes(), [.., b'a', b'p', b'i'])
}

/// Tells the server where the keys of a command with a number of sources are.
fn report_keys(ctx: Ctx<'_>, arguments: &[Arg<'_>]) {
    let mut cursor = Cursor::new(arguments.get(1..).unwrap_or_default());
    // Arguments that cannot be parsed have no keys; the command refuses them when it runs.
    if let Ok(keys) = Combination::take(&mut cursor) {
        keys.positions().for_each(|position| ctx.report_key(position));
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    /// Redis 7.2, which has no categories of modules, would refuse the module for a blank at the end.
    #[test]
    fn a_category_that_could_not_be_made_leaves_no_blank_behind() {
        assert_eq!(words(&[c"read fast"]).as_c_str(), c"read fast");
        assert_eq!(words(&[c"write"]).as_c_str(), c"write");
        assert_eq!(words(&[c"write", c"bloom"]).as_c_str(), c"write bloom");
    }
}
