//! Parses commands without a server, for tests and fuzzing: arguments in, the described filter out. The clock of a
//! client's server differs from that of a replica, which runs the command later.
//!
//! A fuzzer builds with `--cfg fuzzing`; the module that servers load has none of this.

#[cfg(test)]
pub(crate) mod trying;

use std::ffi::CStr;

use crate::call::args;
pub use crate::call::args::{Word, Words};
pub use crate::call::combination::Combination;
use crate::call::error::CommandError;
pub use crate::call::grammar::Verb;
pub use crate::call::spec::Creation;
use crate::call::spec::Target;
use crate::commands::{existspacked, info, intersect, merge};
use crate::options::values::Config;
pub use crate::rivals::redisbloom::Release;
pub use crate::work::request::Items;
use crate::work::request::Request;
use crate::work::{packed, propagation};
use libbloom::packed::{Form, Packed};
use libbloom::params::ErrorRate;

/// The clock of the server that a client talks to, in milliseconds.
pub(crate) const NOW: i64 = 1_800_000_000_000;
/// The clock of a server that runs the command of a primary or a file, in milliseconds.
const LATER: i64 = NOW + 123_456_789;

/// A parsed command that can create a filter.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// The items that it adds.
    pub items: Items<'a, Word<'a>>,
    /// The filter that it creates for a missing key, or the error that only a missing key gets.
    pub creation: Result<Creation, CommandError>,
}

/// Parses a command of a client.
///
/// # Errors
/// The error that the command replies whatever the key holds.
pub fn ask<'a>(verb: Verb, arguments: &'a [Word<'a>], config: &Config) -> Result<Parsed<'a>, CommandError> {
    let request = Request::read(verb, false, arguments)?;
    let items = items(verb, &request, config)?;
    request.check_goal(|| config.clone())?;
    let creation = request.creation(config, Release::Eight, || NOW);
    Ok(Parsed { items, creation })
}

/// Parses a command of a primary or a file.
///
/// # Errors
/// The error that the command replies whatever the key holds.
pub fn obey<'a>(
    verb: Verb,
    arguments: &'a [Word<'a>],
    config: &Config,
    release: Release,
) -> Result<Parsed<'a>, CommandError> {
    let request = Request::read(verb, true, arguments)?;
    let items = items(verb, &request, config)?;
    let creation = request.creation(config, release, || LATER);
    Ok(Parsed { items, creation })
}

fn items<'a>(
    verb: Verb,
    request: &Request<'a, Word<'a>>,
    config: &Config,
) -> Result<Items<'a, Word<'a>>, CommandError> {
    if let (Verb::Insert, Items::None) = (verb, request.items) {
        request.may_lack_items(false, config)?;
    }
    Ok(request.items)
}

/// The items of a BF.EXISTSPACKED.
///
/// # Errors
/// The error that the command replies.
pub fn exists_packed<'a>(arguments: &'a [Word<'a>]) -> Result<Packed<'a>, CommandError> {
    existspacked::PackedQuery::parse(arguments).map(|request| request.items)
}

/// A parsed BF.MERGE: its keys, the given error rate of the result, and whether the earlier destination is replaced.
pub type Merged<'a> = (Combination<'a, Word<'a>>, Option<ErrorRate>, bool);

/// Parses a BF.MERGE.
///
/// # Errors
/// The error that the command replies.
pub fn merge<'a>(arguments: &'a [Word<'a>]) -> Result<Merged<'a>, CommandError> {
    let request = merge::MergeRequest::parse(arguments)?;
    Ok((request.keys, request.used_rate(), request.overrides))
}

/// The keys of a BF.INTERSECT.
///
/// # Errors
/// The error that the command replies.
pub fn intersect<'a>(arguments: &'a [Word<'a>]) -> Result<Combination<'a, Word<'a>>, CommandError> {
    intersect::parse(arguments)
}

/// Checks that BF.INFO knows this word.
///
/// # Errors
/// The error that the command replies.
pub fn info(word: &[u8]) -> Result<(), CommandError> {
    info::Selection::parse(word).map(|_| ())
}

/// Parses the iterator of a BF.SCANDUMP or BF.LOADCHUNK.
pub fn iterator(word: &[u8]) -> Option<i64> {
    args::iterator(word)
}

/// The filter that this command creates when it comes from a primary or a file, for the commands that [`replicated`]
/// returns.
///
/// # Errors
/// The error that the command replies.
pub fn obey_creating(
    command: &CStr,
    arguments: &[Word<'_>],
    config: &Config,
    release: Release,
) -> Result<Creation, CommandError> {
    let verb = if command == c"BF.RESERVE" {
        Verb::Reserve
    } else {
        Verb::Insert
    };
    let parsed = obey(verb, arguments, config, release)?;
    assert!(
        matches!(parsed.items, Items::None),
        "a filter without items has some"
    );
    parsed.creation
}

/// The command that a primary sends for an empty filter, and the words after its key.
pub fn replicated(creation: Creation) -> (&'static CStr, Words) {
    propagation::creating(creation)
}

/// The words between the key and the items of the BF.INSERT that a primary sends for a filter that was created with
/// items.
pub fn replicated_with_items(creation: Creation) -> Words {
    propagation::insert_words(Target {
        created: Some(creation),
        at: None,
    })
}

/// The words between the key and the data of the BF.ADDPACKED that a primary sends, which include the filter if it
/// was created with these items.
pub fn replicated_packed(created: Option<Creation>, form: Form) -> Words {
    packed::words(Target { created, at: None }, form)
}
