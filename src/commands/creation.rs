//! The creation of filters: what the options of a command mean, and how the filter is made. [`propagation`] has how it
//! is propagated.

use super::error::CommandError;
use super::grammar::{GivenOptions, GivenSeed, RequestedRate};
use super::propagation;
use super::redisbloom::{RedisBloomOptions, Release};
use super::spec::Creation;
use crate::keyspace::{self, KeyMut};
use crate::limits::CommandMemory;
use crate::options::values::Config;
use crate::server::{Arg, Ctx, log};
use crate::stats::{self, Counted};
use crate::{number, options};
use libbloom::layouts::valkey::Unreached;
use libbloom::params::{Capacity, ErrorRate, Expansion, Growth, Tightening, Window};
use libbloom::spec::{BlockedSpec, ClassicSpec, Spec, ValkeySpec};
use libbloom::{Error, Filter, StoredLayout};

/// The filter that the options of a command describe, with the configuration for what they leave open.
///
/// # Errors
/// Options that the configuration excludes.
pub fn filter(given: &GivenOptions, config: &Config) -> Result<Spec, CommandError> {
    let layout = match given.given_layout() {
        // The command's options were checked for it before.
        Some(layout) => layout,
        None => {
            let layout = config.layout();
            if given.is_any() {
                let checked = given.check_for(layout);
                checked.map_err(|error| error.by_layout_option(layout))?;
            }
            layout
        }
    };
    let expansion = match (given.nonscaling, given.expansion) {
        (Some(()), _) => None,
        (None, Some(factor)) => Expansion::new(factor).ok(),
        (None, None) => config.expansion(),
    };
    if expansion.is_none()
        && let Some(word) = given.needs_growth()
    {
        return Err(CommandError::FixedByOption(word));
    }
    let rate = given.rate.unwrap_or_else(|| RequestedRate::configured(config));
    let capacity = given.capacity.unwrap_or(config.initial_size());
    match layout {
        StoredLayout::Classic => classic(given, rate.used, capacity, expansion).map(Spec::Classic),
        StoredLayout::Valkey => {
            let seed = match given.seed {
                Some(GivenSeed::Bytes(seed)) => seed,
                Some(GivenSeed::Number(seed)) => seed.into(),
                None => config.seed().into(),
            };
            let tightening = given.tightening.unwrap_or(Tightening::DEFAULT);
            let factor = expansion.map_or(0, Expansion::factor);
            let spec = ValkeySpec::new(rate.requested, capacity.items(), factor, tightening, seed);
            spec.map(Spec::Valkey).map_err(|_| CommandError::ErrorRateRange)
        }
        _ => {
            let seed = match given.seed {
                Some(GivenSeed::Number(seed)) => seed,
                Some(GivenSeed::Bytes(_)) | None => config.seed(),
            };
            Ok(Spec::Blocked(BlockedSpec {
                error_rate: rate.used,
                capacity,
                growth: growth(given, expansion),
                seed,
                window: window(given)?,
            }))
        }
    }
}

/// The growth of a blocked filter. Without a given capacity it is expected to grow far.
fn growth(given: &GivenOptions, expansion: Option<Expansion>) -> Growth {
    let grows_far = given.growing.is_some() || given.capacity.is_none();
    match expansion {
        None => Growth::Fixed,
        Some(expansion) if given.window.is_none() && grows_far => Growth::Growing(expansion),
        Some(expansion) => Growth::Reserved(expansion),
    }
}

fn window(given: &GivenOptions) -> Result<Option<Window>, CommandError> {
    let slices = given.slices.unwrap_or(Window::USUAL_SLICES);
    let window = given
        .window
        .map(|seconds| Window::new(seconds, slices, given.refresh.is_some()));
    window.transpose().map_err(|_| CommandError::SlicesRange)
}

/// A classic filter. Where it does not grow, it has the expansion that RedisBloom would store and not use.
fn classic(
    given: &GivenOptions,
    rate: ErrorRate,
    capacity: Capacity,
    expansion: Option<Expansion>,
) -> Result<ClassicSpec, CommandError> {
    let unused = if given.nonscaling.is_some() {
        ClassicSpec::UNUSED_EXPANSION
    } else {
        0
    };
    let stored = expansion.map_or(given.expansion.unwrap_or(unused), Expansion::factor);
    ClassicSpec::new(rate.value(), capacity.items(), stored, expansion.is_some())
        .map_err(|_| CommandError::ErrorRateRange)
}

/// Checks whether the described filter can grow to VALIDATESCALETO.
///
/// # Errors
/// The reason why it cannot.
pub fn check_goal(given: &GivenOptions, filter: Spec, config: &Config) -> Result<(), CommandError> {
    let (Some(goal), Spec::Valkey(spec)) = (given.goal, filter) else {
        return Ok(());
    };
    let limit = config.max_filter_bytes();
    let reached = spec.rules().scaled_capacity(spec.capacity(), goal, limit);
    reached.map(drop).map_err(|unreached| match unreached {
        Unreached::Bytes { .. } => CommandError::GoalBytes,
        Unreached::Rate { .. } => CommandError::GoalRate,
        Unreached::Layers { .. } => CommandError::GoalLayers,
        Unreached::Items { .. } => CommandError::GoalItems,
    })
}

/// Logs an error rate that is not used unchanged.
pub fn log_rate(ctx: Ctx<'_>, key: Arg<'_>, requested: f64, used: f64) {
    if requested != used {
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

/// The filter that a BF.ADD creates for a missing key. A primary with this module never sends a BF.ADD for one,
/// because it propagates the creation itself. So a BF.ADD from a primary comes from RedisBloom, and makes the filter
/// that RedisBloom makes by default.
///
/// # Errors
/// [`CommandError::NotFound`] if [`keyspace::missing_is_error`].
pub fn by_default(ctx: Ctx<'_>) -> Result<Creation, CommandError> {
    let config = options::config();
    if ctx.origin().is_relayed() {
        let spec = RedisBloomOptions::default().spec(&config, Release::of_server(ctx))?;
        return Ok(Spec::Classic(spec).into());
    }
    if keyspace::missing_is_error(ctx) {
        return Err(CommandError::NotFound);
    }
    let filter = filter(&GivenOptions::default(), &config)?;
    Ok(filter.into())
}

/// Makes a filter within the command's allowance.
///
/// # Errors
/// [`CommandError::NoMemoryToCreate`]; nothing is left behind.
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
    stats::refused_creation();
    log_shortage(ctx, key, error);
    CommandError::of_creation(error)
}

/// Creates an empty filter in a missing key, and propagates the creation.
///
/// # Errors
/// [`CommandError::NoMemoryToCreate`]; nothing is left behind.
pub fn create_empty(
    ctx: Ctx<'_>,
    name: Arg<'_>,
    key: &mut KeyMut<'_>,
    creation: Creation,
) -> Result<(), CommandError> {
    let memory = CommandMemory::of_command(ctx, name);
    key.set(make(ctx, name, creation, &memory)?, creation.expires);
    if memory.origin().has_no_readers() {
        ctx.replicate_verbatim();
    } else {
        propagation::send(ctx, name, creation.into(), &[]);
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
