//! The commands, one file each: arguments are parsed into a request, the request is applied, and the outcome is
//! replied.
//!
//! The order inside a command: parse (no key is touched), open the key with its type checked, change the filter. Only
//! if the filter changed: propagate, signal and notify once. Then reply.

pub mod add;
pub mod addpacked;
pub mod card;
pub mod debug;
pub mod except;
pub mod exists;
pub mod existspacked;
pub mod info;
pub mod insert;
pub mod intersect;
pub mod load;
pub mod loadchunk;
pub mod madd;
pub mod merge;
pub mod mexists;
pub mod plan;
pub mod reserve;
pub mod reset;
pub mod scandump;
pub mod shrink;

use std::ffi::CStr;
use std::io::ErrorKind;

use crate::call::register_command;
use crate::server::{Ctx, warn};

/// The ACL category that contains exactly these commands.
const CATEGORY: &CStr = c"bloom";

/// Registers every command.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
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
