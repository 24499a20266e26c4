//! Filters of any layout as stored bytes. Each layout has its formats in its own folder.

pub mod blocked;
pub mod chunks;

use crate::chain::Allowance;
pub use crate::classic::format as redisbloom;
use crate::filter::Filter;
use crate::layers::Layers;
pub use crate::stored::{DecodeError, stream};
pub use crate::valkey::format as valkey;
use stream::{Sink, Source};

/// The newest encoding version of the stored type. Every save has it except those of [`valkey`].
pub const ENCODING_VERSION: i32 = 4;

/// Writes `filter` to an RDB stream of its type.
pub fn save(filter: &Filter, sink: &mut dyn Sink) {
    match (&filter.layers, filter.excepted()) {
        (Layers::Blocked(chain), Some(exceptions)) => blocked::save(chain, exceptions, sink),
        (layers, _) => layers.as_layered().save(sink),
    }
}

/// Writes values that are equal for two filters if and only if the filters are.
pub fn save_for_digest(filter: &Filter, sink: &mut dyn Sink) {
    match filter.as_valkey() {
        Some(chain) => valkey::save_for_digest(chain, sink),
        None => save(filter, sink),
    }
}

/// Reads a filter of any layout but valkey-bloom's from an RDB stream of `encoding_version`. (The streams of
/// [`valkey`] have a type of their own.)
///
/// # Errors
/// [`DecodeError`] unless the whole stream is one valid filter.
pub fn load(
    source: &mut impl Source,
    encoding_version: i32,
    allowance: Allowance<'_>,
) -> Result<Filter, DecodeError> {
    let unknown = DecodeError::Version(u64::from(encoding_version.unsigned_abs()));
    let encoding_version = u8::try_from(encoding_version).map_err(|_| unknown)?;
    if encoding_version > ENCODING_VERSION as u8 {
        return Err(unknown);
    }
    let first = source.unsigned()?;
    match source.unsigned()? {
        0 if i32::from(encoding_version) == ENCODING_VERSION => match first {
            blocked::VERSION => blocked::load(source, allowance),
            version => Err(DecodeError::Version(version)),
        },
        layers => redisbloom::load(first, layers, source, encoding_version, allowance).map(Filter::from),
    }
}
