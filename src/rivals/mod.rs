//! RedisBloom's and valkey-bloom's words for a filter, which their primaries and files say and replicas understand.

pub mod redisbloom;
pub mod valkey;

use crate::call::args::Argument;
use crate::call::error::CommandError;
use crate::call::given::Verb;
use crate::call::request::Request;
use crate::call::target::is_spec;
use crate::options::{self, values::Config};
use crate::server::{Arg, Ctx};
use redisbloom::Release;

pub(crate) fn read_call<'a>(
    verb: Verb,
    ctx: Ctx<'_>,
    arguments: &'a [Arg<'a>],
) -> Result<Request<'a, Arg<'a>>, CommandError> {
    if ctx.origin().is_relayed() {
        read_relayed(verb, arguments, || (options::config(), Release::of_server(ctx)))
    } else {
        Request::parse(verb, arguments)
    }
}

/// Reads the arguments of a command from a primary or a file. With a token the words are this module's, as those of
/// BF.ADDPACKED are. Others are RedisBloom's if it accepts them; then valkey-bloom's, whose creations it refuses; then
/// this module's. `receiver` gives what others leave to whoever receives it.
pub fn read_relayed<'a, A: Argument<'a>>(
    verb: Verb,
    arguments: &'a [A],
    receiver: impl FnOnce() -> (Config, Release),
) -> Result<Request<'a, A>, CommandError> {
    let own = || Request::parse(verb, arguments);
    match verb {
        Verb::Insert if !arguments.get(1).is_some_and(|word| is_spec(word.bytes())) => {
            let (config, release) = receiver();
            redisbloom::insert(arguments, &config, release)
                .or_else(|| valkey::insert(arguments, &config))
                .map_or_else(own, Ok)
        }
        Verb::Reserve => {
            let (config, release) = receiver();
            redisbloom::reserve(arguments, &config, release).map_or_else(own, Ok)
        }
        Verb::Insert | Verb::AddPacked | Verb::Plan => own(),
    }
}
