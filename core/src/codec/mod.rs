//! Filters of any layout as stored bytes: a module for each layout, and the pieces of a dump. What is read is one whole,
//! valid filter that fits into memory, or a [`DecodeError`]. A field that follows from others is checked: a filter whose
//! fields disagree would look for its items in the wrong places, or for ever.

pub(crate) mod blocked;
pub mod chunks;
pub(crate) mod classic;
pub(crate) mod fields;
pub mod stream;
pub mod valkey;

use crate::chain::Allowance;
use crate::error::require;
use crate::filter::Filter;
use crate::layers::Layers;
pub use fields::DecodeError;
use stream::{Sink, Source};

/// The newest encoding version of the stored type. Every save has it except those of [`valkey`].
pub const ENCODING_VERSION: i32 = 4;

/// Writes `filter` to an RDB stream of its type.
pub fn save(filter: &Filter, sink: &mut dyn Sink) {
    match &filter.layers {
        Layers::Blocked(chain, exceptions) => blocked::save(chain, exceptions.as_deref(), sink),
        Layers::Windowed(windowed) => {
            let header = blocked::layers::header_of_windowed(windowed);
            blocked::layers::save(header, windowed.layers(), sink);
        }
        Layers::Valkey(chain) => valkey::save(chain, sink),
        Layers::Classic(chain) => classic::save(chain, sink),
    }
}

/// Writes values that are equal for two filters if and only if the filters are.
pub fn save_for_digest(filter: &Filter, sink: &mut dyn Sink) {
    match filter.as_valkey() {
        Some(chain) => valkey::save_for_digest(chain, sink),
        None => save(filter, sink),
    }
}

/// Reads a filter of any layout but valkey-bloom's, which has a type of its own, from a stream of `encoding_version`.
pub fn load(
    source: &mut impl Source,
    encoding_version: i32,
    allowance: Allowance<'_>,
) -> Result<Filter, DecodeError> {
    let unknown = DecodeError::Version(u64::from(encoding_version.unsigned_abs()));
    let encoding_version = u8::try_from(encoding_version).map_err(|_| unknown)?;
    require(encoding_version <= ENCODING_VERSION as u8, unknown)?;
    let first = source.unsigned()?;
    match source.unsigned()? {
        0 if i32::from(encoding_version) == ENCODING_VERSION => match first {
            blocked::VERSION => blocked::load(source, allowance),
            version => Err(DecodeError::Version(version)),
        },
        layers => classic::load(first, layers, source, encoding_version, allowance).map(Filter::from),
    }
}
