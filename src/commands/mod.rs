//! The commands, one file each: a request that parses itself, is applied, and gives its reply.
//!
//! The order inside a command: parse (no key is touched), open the key with its type checked, change the
//! filter, then, only if it changed, propagate, signal and notify once, then reply.

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
mod expiry;
mod info;
mod insert;
mod intersect;
mod load;
mod loadchunk;
mod madd;
mod merge;
mod mexists;
mod missing;
mod packed;
mod plan;
mod propagation;
mod redisbloom;
mod reserve;
mod reset;
mod rotate;
mod scandump;
mod sources;
mod valkey;
mod window;

use std::ffi::{CStr, CString, c_int};
use std::io::ErrorKind;

use redis_module::raw;

use crate::server::{Arg, Ctx, guarded, taken, warn};
use args::Cursor;
use docs::Docs;
use error::CommandError;
use reply::Reply;
use sources::Combination;

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
    /// Its ACL categories, besides the one of this module.
    const CATEGORIES: &'static CStr;
    /// What it is, and its arguments.
    const DOCS: Docs;

    /// Does what was asked, and replies.
    ///
    /// # Errors
    /// What to reply instead; nothing was replied. Nothing changed, but for what [`CommandError::After`] tells.
    fn run(call: Call<'_>) -> Result<(), CommandError>;
}

/// The ACL category of exactly these commands.
const CATEGORY: &CStr = c"bloom";

/// Registers every command.
///
/// # Errors
/// A line for the log.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    let category = acl_category(ctx);
    one::<reserve::Reserve>(ctx, category)?;
    one::<add::Add>(ctx, category)?;
    one::<madd::MAdd>(ctx, category)?;
    one::<insert::Insert>(ctx, category)?;
    one::<addpacked::AddPacked>(ctx, category)?;
    one::<rotate::Rotate>(ctx, category)?;
    one::<except::Except>(ctx, category)?;
    one::<reset::Reset>(ctx, category)?;
    one::<merge::Merge>(ctx, category)?;
    one::<intersect::Intersect>(ctx, category)?;
    one::<exists::Exists>(ctx, category)?;
    one::<mexists::MExists>(ctx, category)?;
    one::<existspacked::ExistsPacked>(ctx, category)?;
    one::<info::Info>(ctx, category)?;
    one::<card::Card>(ctx, category)?;
    one::<scandump::ScanDump>(ctx, category)?;
    one::<loadchunk::LoadChunk>(ctx, category)?;
    one::<load::Load>(ctx, category)?;
    one::<debug::Debug>(ctx, category)?;
    one::<plan::Plan>(ctx, category)
}

/// The category that is there for the commands, made now or before: Redis 8.0 keeps it when it takes this module
/// out again, and who is given `@bloom` of another module, or has it taken away, means these commands too.
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

fn one<C: Command>(ctx: Ctx<'_>, category: Option<&CStr>) -> Result<(), String> {
    let name = C::NAME.to_string_lossy().to_uppercase();
    // What is told of keys below is for users' rights. For the nodes of a cluster, and before Redis 7.0 for everything,
    // the server asks the command itself.
    let is_created = if C::DOCS.counts_keys() {
        let flags = words(&[C::FLAGS, c"getkeys-api"]);
        ctx.create_command(C::NAME, entry_that_tells_keys::<C>, &flags, true)
    } else {
        ctx.create_command(C::NAME, entry::<C>, C::FLAGS, C::DOCS.has_key())
    };
    if !is_created {
        return Err(taken(&format!("command {name}")));
    }
    let categories: Vec<_> = std::iter::once(C::CATEGORIES).chain(category).collect();
    if !ctx.set_acl_categories(C::NAME, &words(&categories)) {
        return Err(format!("{name} could not be put into its ACL categories"));
    }
    if !docs::describe(ctx, C::NAME, &C::DOCS) {
        return Err(format!("the server does not take the description of {name}"));
    }
    Ok(())
}

/// A list as the server takes it: words with one blank between them, and none at the end. Redis 7.2 takes what follows
/// a last blank for an ACL category without a name, and refuses it.
fn words(list: &[&CStr]) -> CString {
    let list: Vec<_> = list.iter().map(|word| word.to_bytes()).collect();
    CString::new(list.join(&b' ')).unwrap_or_default()
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

/// The same of a command with a number of sources, which the server asks where its keys are.
unsafe extern "C" fn entry_that_tells_keys<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server lends the context for the time of this call.
    let asked = unsafe { Ctx::of_callback(ctx) }.filter(|ctx| ctx.asks_for_keys());
    let Some(ctx) = asked else {
        // SAFETY: what the server gave to this callback.
        return unsafe { entry::<C>(ctx, argv, argc) };
    };
    // SAFETY: the server lends the arguments for the time of this call.
    let arguments = unsafe { Arg::of_command(argv, argc) };
    guarded("telling keys", || {
        let mut cursor = Cursor::new(arguments.get(1..).unwrap_or_default());
        // What is not to be understood has no keys, and is refused when it runs.
        if let Ok(keys) = Combination::take(&mut cursor) {
            keys.places().for_each(|place| ctx.tell_key(place));
        }
    });
    raw::REDISMODULE_OK as c_int
}

#[cfg(test)]
mod tests {
    use super::words;

    /// Redis 7.2 would refuse the module: it makes no category of a module's own, and takes no blank at the end.
    #[test]
    fn a_category_that_could_not_be_made_leaves_no_blank_behind() {
        assert_eq!(words(&[c"read fast"]).as_c_str(), c"read fast");
        assert_eq!(words(&[c"write"]).as_c_str(), c"write");
        assert_eq!(words(&[c"write", c"bloom"]).as_c_str(), c"write bloom");
    }
}
