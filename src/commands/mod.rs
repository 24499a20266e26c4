//! The commands, one file each: arguments are parsed into a request, the request is applied, and the outcome is
//! replied.
//!
//! The order inside a command: parse (no key is touched), open the key with its type checked, change the filter. Only
//! if the filter changed: propagate, signal and notify once. Then reply.

pub mod args;
pub mod docs;
pub mod error;
pub mod reply;
#[cfg(any(test, fuzzing))]
pub mod requests;

mod add;
mod adding;
mod addpacked;
mod card;
mod changing;
mod creation;
mod debug;
mod except;
mod exists;
mod existspacked;
mod grammar;
mod info;
mod insert;
mod intersect;
mod load;
mod loadchunk;
mod madd;
mod merge;
mod mexists;
mod packed;
mod plan;
mod propagation;
mod redisbloom;
mod request;
mod reserve;
mod reset;
mod scandump;
mod shrink;
mod sources;
mod spec;
mod valkey;
mod window;

use std::ffi::{CStr, CString, c_int};
use std::io::ErrorKind;

use redis_module::raw;

use crate::server::{Arg, Ctx, guarded, log, name_conflict, short_list, warn};
use args::Cursor;
use docs::Docs;
use error::CommandError;
use reply::Reply;
use sources::Combination;

/// A call of a command.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The context of the call.
    pub ctx: Ctx<'a>,
    /// The arguments after the command's name.
    pub arguments: &'a [Arg<'a>],
}

/// A command.
pub trait Command {
    /// The command's name.
    const NAME: &'static CStr;
    /// The command's flags in the server's command table.
    const FLAGS: &'static CStr;
    /// The command's ACL categories besides the module's own.
    const CATEGORIES: &'static CStr;
    /// The command's documentation and arguments.
    const DOCS: Docs;

    /// Runs the command, and replies.
    ///
    /// # Errors
    /// The error to reply, unless the reply is complete. Nothing changed before it, except what the reply or
    /// [`CommandError::After`] tells.
    fn run(call: Call<'_>) -> Result<(), CommandError>;
}

/// The ACL category that contains exactly these commands.
const CATEGORY: &CStr = c"bloom";

/// Registers every command.
///
/// # Errors
/// A line for the log.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    let category = acl_category(ctx);
    register_one::<reserve::Reserve>(ctx, category)?;
    register_one::<add::Add>(ctx, category)?;
    register_one::<madd::MAdd>(ctx, category)?;
    register_one::<insert::Insert>(ctx, category)?;
    register_one::<addpacked::AddPacked>(ctx, category)?;
    register_one::<except::Except>(ctx, category)?;
    register_one::<reset::Reset>(ctx, category)?;
    register_one::<shrink::Shrink>(ctx, category)?;
    register_one::<merge::Merge>(ctx, category)?;
    register_one::<intersect::Intersect>(ctx, category)?;
    register_one::<exists::Exists>(ctx, category)?;
    register_one::<mexists::MExists>(ctx, category)?;
    register_one::<existspacked::ExistsPacked>(ctx, category)?;
    register_one::<info::Info>(ctx, category)?;
    register_one::<card::Card>(ctx, category)?;
    register_one::<scandump::ScanDump>(ctx, category)?;
    register_one::<loadchunk::LoadChunk>(ctx, category)?;
    register_one::<load::Load>(ctx, category)?;
    register_one::<debug::Debug>(ctx, category)?;
    register_one::<plan::Plan>(ctx, category)
}

/// Creates the ACL category of the commands, or finds an existing one of that name. Redis 8.0 keeps the category when
/// it unloads the module. And rules for `@bloom` that were written for another module are meant for these commands
/// too.
fn acl_category(ctx: Ctx<'_>) -> Option<&'static CStr> {
    match ctx.add_acl_category(CATEGORY)? {
        Err(why) if why.kind() != ErrorKind::ResourceBusy => {
            let name = CATEGORY.to_string_lossy();
            warn(
                None,
                &format!("no command is in the ACL category '{name}', which could not be made: {why}"),
            );
            None
        }
        _ => Some(CATEGORY),
    }
}

fn register_one<C: Command>(ctx: Ctx<'_>, category: Option<&CStr>) -> Result<(), String> {
    let name = C::NAME.to_string_lossy().to_uppercase();
    // The key specifications below serve ACL rules. For the nodes of a cluster, and before Redis 7.0 for everything,
    // the server asks the command itself.
    let is_created = if C::DOCS.counts_keys() {
        let flags = words(&[C::FLAGS, c"getkeys-api"]);
        ctx.create_command(C::NAME, entry::<C>, &flags, true)
    } else {
        ctx.create_command(C::NAME, entry::<C>, C::FLAGS, C::DOCS.has_key())
    };
    if !is_created {
        return Err(name_conflict(&format!("command {name}")));
    }
    let categories = short_list(std::iter::once(C::CATEGORIES).chain(category));
    if !ctx.set_acl_categories(C::NAME, &words(&categories)) {
        return Err(format!("{name} could not be put into its ACL categories"));
    }
    if !docs::describe(ctx, C::NAME, &C::DOCS) {
        return Err(format!("the server does not take the description of {name}"));
    }
    Ok(())
}

/// Joins words with single blanks, without one at the end: Redis 7.2 takes what follows a last blank for an ACL
/// category without a name, and refuses it.
fn words(list: &[&CStr]) -> CString {
    let list = short_list(list.iter().map(|word| word.to_bytes()));
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
    if const { C::DOCS.counts_keys() } && ctx.is_key_request() {
        guarded("telling keys", || report_keys(ctx, arguments));
        return raw::REDISMODULE_OK as c_int;
    }
    let outer = reply::begin_command();
    let outcome = guarded("a command", || match arguments {
        [_name, arguments @ ..] => C::run(Call { ctx, arguments }),
        [] => Err(CommandError::Arity),
    });
    let outcome = outcome.unwrap_or(Err(CommandError::Internal));
    guarded("replying an error", || {
        if let (Err(error), [_, key, ..], true) = (&outcome, arguments, changes::<C>()) {
            log_divergence(ctx, key.bytes(), C::NAME, error);
        }
        Reply(ctx).end(&outcome);
    });
    reply::end_command(outer);
    raw::REDISMODULE_OK as c_int
}

/// Logs a command of a primary or a file that failed here: this replica differs from its primary now, and its
/// operator must know.
fn log_divergence(ctx: Ctx<'_>, key: &[u8], command: &CStr, error: &CommandError) {
    // The command of a script may have failed on the primary too, and the script went on.
    if ctx.origin().is_relayed() {
        log::DIVERGENCE.warn(ctx, key, || {
            let command = command.to_string_lossy().to_uppercase();
            format!("{command} succeeded originally, and failed here: {error}")
        });
    }
}

/// Whether the command may change a key.
fn changes<C: Command>() -> bool {
    C::FLAGS.to_bytes().starts_with(b"write")
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
