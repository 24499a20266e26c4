//! The creation of filters. [`propagation`] has how it is propagated.

use crate::call::error::CommandError;
use crate::call::given::{Given, RequestedRate};
use crate::call::target::Creation;
use crate::keyspace::{self, KeyMut};
use crate::limits::CommandMemory;
use crate::rivals::redisbloom::{Release, Said};
use crate::server::origin::Origin;
use crate::server::{self, Arg, Ctx, log};
use crate::stats::{Counted, Figure};
use crate::work::propagation;
use crate::{number, options};
use libbloom::spec::Spec;
use libbloom::{Error, Filter};

/// The key that a command creates if it is missing, by this server's options and clock. If
/// [`keyspace::missing_is_error`], the command must have a capacity.
pub fn now(ctx: Ctx<'_>, given: &Given) -> Result<Creation, CommandError> {
    let config = options::config();
    if given.capacity.is_none() && given.told.is_none() && keyspace::missing_is_error(ctx, &config) {
        return Err(CommandError::NOT_FOUND);
    }
    given.creation(&config, server::milliseconds)
}

/// Checks that the filter can grow to VALIDATESCALETO, even if the key is there. A primary has checked what it sends.
pub fn check_goal(ctx: Ctx<'_>, given: &Given) -> Result<(), CommandError> {
    if given.goal.is_none() || ctx.must_obey() {
        return Ok(());
    }
    let config = options::config();
    given.check_goal(given.filter(&config)?, &config)
}

/// Logs a requested error rate that the filter which a command made, if any, does not have unchanged.
pub fn log_rate(ctx: Ctx<'_>, key: Arg<'_>, rate: Option<RequestedRate>, used: Option<f64>) {
    if let Some((requested, used)) = rate.map(|rate| rate.requested).zip(used)
        && requested != used
    {
        log::RATE.warn(ctx, key.bytes(), || {
            let [requested, used] = [requested, used].map(number::short);
            format!("error rate {requested} is used as {used}")
        });
    }
}

/// Logs a filter that grows, but will reach the most layers. Only EXPANSION 1 gets there in practice.
pub fn log_layer_limit(ctx: Ctx<'_>, key: Arg<'_>, filter: Spec) {
    if filter.expansion() != Some(1) || filter.has_window() || ctx.must_obey() {
        return;
    }
    log::LAYER_LIMIT.warn(ctx, key.bytes(), || {
        let items = filter.most_items();
        // All of them are for as many items as the first.
        let layers = items / filter.capacity();
        format!(
            "with EXPANSION 1 the Bloom filter will hold {items} items at most, and be slow before: it can have \
             {layers} layers"
        )
    });
}

/// The filter that a BF.ADD creates for a missing key, unless [`keyspace::missing_is_error`]. A primary with this module
/// sends no BF.ADD for one, because it propagates the creation itself. So one from a primary comes from RedisBloom, and
/// makes the filter that RedisBloom makes by default.
pub fn by_default(ctx: Ctx<'_>, origin: Origin) -> Result<Creation, CommandError> {
    let config = options::config();
    let given = if origin.is_relayed() {
        Said::default().given(&config, Release::of_server(ctx))
    } else {
        (!keyspace::missing_is_error(ctx, &config)).then(Given::default)
    };
    let given = given.ok_or(CommandError::NOT_FOUND)?;
    given.creation(&config, server::milliseconds)
}

pub fn make(
    ctx: Ctx<'_>,
    key: Arg<'_>,
    creation: Creation,
    memory: &CommandMemory<'_>,
) -> Result<Box<Counted>, CommandError> {
    let filter = Filter::new(creation.filter, &|demand| memory.allow(demand));
    filter.map(Counted::new).map_err(|error| refused(ctx, key, error))
}

/// The error for a filter that could not be made; it is counted and logged.
pub fn refused(ctx: Ctx<'_>, key: Arg<'_>, error: Error) -> CommandError {
    Figure::RefusedCreations.add(1);
    log_shortage(ctx, key, error);
    CommandError::of_creation(error)
}

/// Creates an empty filter in a missing key, and propagates the creation.
pub fn create_empty(
    ctx: Ctx<'_>,
    name: Arg<'_>,
    key: &mut KeyMut<'_>,
    creation: Creation,
) -> Result<(), CommandError> {
    let memory = CommandMemory::of_command(ctx, name);
    key.set(make(ctx, name, creation, &memory)?, creation.expires);
    if memory.origin.has_no_readers() {
        ctx.replicate_verbatim();
    } else {
        let words = propagation::command(creation.into(), false);
        propagation::propagate(ctx, name, &words, &[]);
    }
    Ok(())
}

/// Logs memory that the allocator could not give. A limit that refused was logged already.
pub fn log_shortage(ctx: Ctx<'_>, key: Arg<'_>, error: Error) {
    if let Error::OutOfMemory { bytes } = error {
        log::REFUSAL.warn(ctx, key.bytes(), || {
            format!("there is no memory for {bytes} bytes of a Bloom filter")
        });
    }
}
