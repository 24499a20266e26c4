//! The commands, one file each: arguments are parsed into a request, which is applied, and the outcome is replied.
//!
//! The order inside a command: parse (no key is touched), open the key with its type checked, change the filter. Only
//! if the filter changed: propagate, signal and notify once. Then reply.

mod add;
pub(crate) mod addpacked;
mod card;
pub(crate) mod debug;
mod except;
mod exists;
pub mod existspacked;
pub mod info;
pub(crate) mod insert;
pub mod intersect;
mod load;
mod loadchunk;
mod madd;
pub mod merge;
mod mexists;
pub(crate) mod plan;
pub(crate) mod reserve;
mod reset;
mod scandump;
mod shrink;

use std::ffi::CStr;
use std::io::ErrorKind;

use crate::call::register_command;
use crate::server::{Ctx, warn};

/// The ACL category that contains exactly these commands.
const CATEGORY: &CStr = c"bloom";

pub(crate) fn register(ctx: Ctx<'_>) -> Result<(), String> {
    let category = acl_category(ctx);
    register_command::<reserve::Reserve>(ctx, category)?;
    register_command::<add::Add>(ctx, category)?;
    register_command::<madd::MAdd>(ctx, category)?;
    register_command::<insert::Insert>(ctx, category)?;
    register_command::<addpacked::AddPacked>(ctx, category)?;
    register_command::<except::Except>(ctx, category)?;
    register_command::<reset::Reset>(ctx, category)?;
    register_command::<shrink::Shrink>(ctx, category)?;
    register_command::<merge::Merge>(ctx, category)?;
    register_command::<intersect::Intersect>(ctx, category)?;
    register_command::<exists::Exists>(ctx, category)?;
    register_command::<mexists::MExists>(ctx, category)?;
    register_command::<existspacked::ExistsPacked>(ctx, category)?;
    register_command::<info::Info>(ctx, category)?;
    register_command::<card::Card>(ctx, category)?;
    register_command::<scandump::ScanDump>(ctx, category)?;
    register_command::<loadchunk::LoadChunk>(ctx, category)?;
    register_command::<load::Load>(ctx, category)?;
    register_command::<debug::Debug>(ctx, category)?;
    register_command::<plan::Plan>(ctx, category)
}

/// Creates the ACL category of the commands, or finds one: Redis 8.0 keeps it when it unloads the module, and another
/// module's rules for `@bloom` are meant for these commands too.
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
