//! Filters as sets: unions and intersections of filters with one hash function, and emptying a filter.
//!
//! Layers of one shape are combined bit by bit, in `union`. The exceptions are combined in `exceptions`.

mod exceptions;
mod union;

use std::collections::HashSet;

use crate::blocked::Blocked;
use crate::chain::demand::{besides, push, reserved};
use crate::chain::{Allowance, Chain};
use crate::classic::Classic;
use crate::error::Error;
use crate::exceptions::bytes;
use crate::exceptions::table::Table;
use crate::filter::Filter;
use crate::layers::Layers;
use crate::layout::Layered as _;
use crate::merging::{MergeRules, Mergeable as _};
pub use crate::merging::{Mismatch, SetError};
use crate::params::ErrorRate;

pub use exceptions::MOST_ASKED;

/// Filters of one layout with the same hash, each of them once, and their layers.
struct SameHash<'a, R: MergeRules> {
    filters: Vec<&'a Filter>,
    chains: Vec<&'a Chain<R>>,
}

impl<'a, R: MergeRules + 'static> SameHash<'a, R>
where
    Layers: From<Chain<R>>,
{
    /// Checks that `filters` can be combined with `first`.
    ///
    /// # Errors
    /// [`SetError::Source`], or [`SetError::Memory`]: the lists are as long as the number of different filters.
    fn of(first: &Chain<R>, filters: &[&'a Filter]) -> Result<Self, SetError> {
        let (mut seen, mut distinct, mut chains) = (HashSet::new(), Vec::new(), Vec::new());
        for (index, &filter) in filters.iter().enumerate() {
            if seen.contains(&std::ptr::from_ref(filter)) {
                continue;
            }
            let bytes = (2 * (seen.len() + 1) * size_of::<usize>()) as u64;
            let has_room = seen.try_reserve(1);
            has_room.map_err(|_| Error::OutOfMemory { bytes })?;
            seen.insert(std::ptr::from_ref(filter));
            push(&mut distinct, filter)?;
            let refused = |why| SetError::Source { index, why };
            let why = why_never(&filter.layers).unwrap_or(Mismatch::Layout);
            let chain = filter.layers.chain::<R>();
            let chain = chain.ok_or(refused(why))?;
            first.rules().check_hash(chain.rules()).map_err(refused)?;
            push(&mut chains, chain)?;
        }
        Ok(Self {
            filters: distinct,
            chains,
        })
    }

    fn union(
        first: &Chain<R>,
        sources: &[&'a Filter],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<Filter, SetError> {
        let Self { filters, chains } = Self::of(first, sources)?;
        first.rules().check_rate(rate)?;
        let exceptions = exceptions::of_union(&filters, allowance)?;
        let allowance = &besides(bytes(exceptions.len()), allowance);
        let layers: Layers = union::make(&chains, rate, allowance)?.into();
        let mut union = Filter::from(layers);
        union.set_exceptions(exceptions);
        Ok(union)
    }

    fn intersection(
        first: &Chain<R>,
        sources: &[&'a Filter],
        allowance: Allowance<'_>,
    ) -> Result<Filter, SetError> {
        let Self { filters, chains } = Self::of(first, sources)?;
        let only_shape = |chain: &Chain<R>| match chain.layers() {
            [layer] => Some(layer.shape_key()),
            _ => None,
        };
        let shape = only_shape(first);
        let of_source = |filter: &&Filter| filter.layers.chain().and_then(only_shape);
        if let Some(index) = sources.iter().position(|filter| {
            let other = of_source(filter);
            other.is_none() || other != shape
        }) {
            let why = Mismatch::Shape;
            return Err(SetError::Source { index, why });
        }
        let exceptions = exceptions::of_all(&filters, allowance)?;
        let allowance = &besides(bytes(exceptions.len()), allowance);
        let layers: Layers = union::common(&chains, allowance)?.into();
        let mut common = Filter::from(layers);
        common.set_exceptions(exceptions);
        Ok(common)
    }

    fn absorb(
        destination: &mut Filter,
        sources: &[&'a Filter],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<bool, SetError> {
        let why = Mismatch::Layout;
        let first = destination.layers.chain::<R>();
        let first = first.ok_or(SetError::Destination { why })?;
        let Self { filters, chains } = Self::of(first, sources)?;
        first.rules().check_rate(rate)?;
        let mut all = reserved(filters.len() + 1)?;
        all.extend(filters);
        all.push(destination);
        let new = exceptions::of_union_in(destination, &all, allowance)?;
        let (held, none) = (destination.excepted(), Table::default());
        let after = new.as_ref().or(held).unwrap_or(&none);
        let allowance = &besides(bytes(after.len()), allowance);
        let chain = destination.layers.chain_mut();
        let chain = chain.ok_or(SetError::Destination { why })?;
        let layers_differ = union::absorb(chain, &chains, rate, allowance)?;
        let exceptions_differ = new.is_some();
        if let Some(exceptions) = new {
            destination.set_exceptions(exceptions);
        }
        Ok(exceptions_differ || layers_differ)
    }
}

/// Why filters with these layers are never combined; `None` if they are.
fn why_never(layers: &Layers) -> Option<Mismatch> {
    match layers {
        Layers::Blocked(_) | Layers::Classic(_) => None,
        Layers::Windowed(_) => Some(Mismatch::Window),
        Layers::Valkey(_) => Some(Mismatch::Never),
    }
}

/// The error for a first source that is never combined.
fn refused_first(layers: &Layers) -> SetError {
    let why = why_never(layers).unwrap_or(Mismatch::Layout);
    SetError::Source { index: 0, why }
}

#[cfg_attr(docsrs, doc(hidden))]
impl Filter {
    /// Makes a new filter of all items of `sources`, of which there must be one. The first gives the parameters, and
    /// the rate unless another one is given.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn union(
        sources: &[&Self],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<Self, SetError> {
        match first(sources)? {
            Layers::Blocked(first) => SameHash::union(first, sources, rate, allowance),
            Layers::Classic(first) => SameHash::union(first, sources, rate, allowance),
            layers @ (Layers::Windowed(_) | Layers::Valkey(_)) => Err(refused_first(layers)),
        }
    }

    /// Adds all items of `sources`. Returns whether that changed anything. If a rate is given, it becomes the
    /// filter's.
    ///
    /// # Errors
    /// [`SetError`]; nothing changed.
    pub fn absorb(
        &mut self,
        sources: &[&Self],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<bool, SetError> {
        match &self.layers {
            Layers::Blocked(_) => SameHash::<Blocked>::absorb(self, sources, rate, allowance),
            Layers::Classic(_) => SameHash::<Classic>::absorb(self, sources, rate, allowance),
            layers @ (Layers::Windowed(_) | Layers::Valkey(_)) => {
                let why = why_never(layers).unwrap_or(Mismatch::Layout);
                Err(SetError::Destination { why })
            }
        }
    }

    /// Makes a new filter of the items that all `sources` contain, of which there must be one. Each has one layer, of
    /// one shape; the first gives the parameters. An item that is in none of them is found with at most their lowest
    /// rate.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn intersection(sources: &[&Self], allowance: Allowance<'_>) -> Result<Self, SetError> {
        match first(sources)? {
            Layers::Blocked(first) => SameHash::intersection(first, sources, allowance),
            Layers::Classic(first) => SameHash::intersection(first, sources, allowance),
            layers @ (Layers::Windowed(_) | Layers::Valkey(_)) => Err(refused_first(layers)),
        }
    }

    /// Makes a new filter like this one, but empty; `None` if this one is as new. A filter whose layers were merged
    /// becomes one for as many items as its largest layer.
    ///
    /// `allowance` is queried only if the new filter needs more memory than this one: if merged layers have other
    /// rates than the first layer of a new filter, or if a stored filter names capacities that its layers are too
    /// small for. Otherwise a user who empties a filter to free memory is never refused.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::OutOfMemory`]; nothing is left behind.
    pub fn emptied(&self, allowance: Allowance<'_>) -> Result<Option<Self>, Error> {
        if self.exceptions() == 0 && self.layers.as_layered().is_as_new() {
            return Ok(None);
        }
        Ok(Some(match &self.layers {
            Layers::Blocked(chain) => chain.emptied(allowance)?.into(),
            Layers::Windowed(windowed) => windowed.emptied(allowance)?.into(),
            Layers::Valkey(chain) => chain.emptied(allowance)?.into(),
            Layers::Classic(chain) => chain.emptied(allowance)?.into(),
        }))
    }
}

/// The layers of the filter that decides the parameters of the result.
fn first<'a>(sources: &[&'a Filter]) -> Result<&'a Layers, SetError> {
    let why = Mismatch::Shape;
    let first = sources.first().ok_or(SetError::Destination { why })?;
    Ok(&first.layers)
}
