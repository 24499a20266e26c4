//! Filters as sets: unions and intersections of filters with one hash function, and emptying a filter.
//!
//! Layers of one shape are combined bit by bit, in `union`. The exceptions are combined in `exceptions`.

mod exceptions;
mod union;

use std::collections::HashSet;

use crate::blocked::window::Windowed;
use crate::chain::demand::{besides, push, reserved};
use crate::chain::{Allowance, Chain};
use crate::error::Error;
use crate::exceptions::bytes_of;
use crate::exceptions::table::Table;
use crate::filter::Filter;
use crate::layered::Layered as _;
use crate::layers::{Layers, each};
use crate::merging::{Budget, Mergeable as _};
pub use crate::merging::{Mismatch, SetError};
use crate::params::ErrorRate;
use crate::valkey::Valkey;

pub use exceptions::MOST_ASKED;

/// Filters of one layout that hash alike, each of them once, and their layers.
struct Alike<'a, R: Budget> {
    filters: Vec<&'a Filter>,
    chains: Vec<&'a Chain<R>>,
}

impl<'a, R: Budget + 'static> Alike<'a, R>
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
            let differs = |why| SetError::Source { index, why };
            let why = each!(&filter.layers, layers => layers.never()).unwrap_or(Mismatch::Layout);
            let chain = filter.layers.chain::<R>();
            let chain = chain.ok_or(differs(why))?;
            first.rules().hashes_alike(chain.rules()).map_err(differs)?;
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
        first.rules().may_have(rate)?;
        let exceptions = exceptions::of_union(&filters, allowance)?;
        let allowance = &besides(bytes_of(&exceptions), allowance);
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
        let kind = |chain: &Chain<R>| match chain.layers() {
            [layer] => Some(layer.kind()),
            _ => None,
        };
        let shape = kind(first);
        let of_source = |filter: &&Filter| filter.layers.chain().and_then(kind);
        if let Some(index) = sources.iter().position(|filter| {
            let other = of_source(filter);
            other.is_none() || other != shape
        }) {
            let why = Mismatch::Shape;
            return Err(SetError::Source { index, why });
        }
        let exceptions = exceptions::of_all(&filters, allowance)?;
        let allowance = &besides(bytes_of(&exceptions), allowance);
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
        first.rules().may_have(rate)?;
        let mut all = reserved(filters.len() + 1)?;
        all.extend(filters);
        all.push(destination);
        let new = exceptions::of_union_in(destination, &all, allowance)?;
        let (held, none) = (destination.excepted(), Table::default());
        let after = new.as_ref().or(held).unwrap_or(&none);
        let allowance = &besides(bytes_of(after), allowance);
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

/// Layers of one kind, which are combined with others of their kind, or never.
trait Combined {
    /// Why such layers are never combined; `None` if they are.
    const NEVER: Option<Mismatch>;

    /// [`Self::NEVER`] of these layers.
    fn never(&self) -> Option<Mismatch> {
        Self::NEVER
    }

    /// See [`Filter::union`]; the first of the sources has these layers.
    fn union(&self, _: &[&Filter], _: Option<ErrorRate>, _: Allowance<'_>) -> Result<Filter, SetError> {
        let why = Self::NEVER.unwrap_or(Mismatch::Layout);
        Err(SetError::Source { index: 0, why })
    }

    /// See [`Filter::intersection`]; the first of the sources has these layers.
    fn intersection(&self, sources: &[&Filter], allowance: Allowance<'_>) -> Result<Filter, SetError> {
        self.union(sources, None, allowance)
    }

    /// The function behind [`Filter::absorb`] for a filter with such layers.
    fn absorb(&self) -> Absorb {
        |_, _, _, _| {
            let why = Self::NEVER.unwrap_or(Mismatch::Layout);
            Err(SetError::Destination { why })
        }
    }
}

type Absorb = fn(&mut Filter, &[&Filter], Option<ErrorRate>, Allowance<'_>) -> Result<bool, SetError>;

impl<R: Budget + 'static> Combined for Chain<R>
where
    Layers: From<Self>,
{
    const NEVER: Option<Mismatch> = None;

    fn union(
        &self,
        sources: &[&Filter],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<Filter, SetError> {
        Alike::union(self, sources, rate, allowance)
    }

    fn intersection(&self, sources: &[&Filter], allowance: Allowance<'_>) -> Result<Filter, SetError> {
        Alike::intersection(self, sources, allowance)
    }

    fn absorb(&self) -> Absorb {
        |destination, sources, rate, allowance| Alike::<R>::absorb(destination, sources, rate, allowance)
    }
}

impl Combined for Chain<Valkey> {
    const NEVER: Option<Mismatch> = Some(Mismatch::Never);
}

impl Combined for Windowed {
    const NEVER: Option<Mismatch> = Some(Mismatch::Window);
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
        let layers = first(sources)?;
        each!(layers, layers => layers.union(sources, rate, allowance))
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
        let absorb = each!(&self.layers, layers => layers.absorb());
        absorb(self, sources, rate, allowance)
    }

    /// Makes a new filter of the items that all `sources` contain, of which there must be one. Each has one layer, of
    /// one shape; the first gives the parameters. An item that is in none of them is found with at most their lowest
    /// rate.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn intersection(sources: &[&Self], allowance: Allowance<'_>) -> Result<Self, SetError> {
        let layers = first(sources)?;
        each!(layers, layers => layers.intersection(sources, allowance))
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
        let emptied: Self = each!(&self.layers, layers => layers.emptied(allowance)?.into());
        Ok(Some(emptied))
    }
}

/// The layers of the filter that decides the parameters of the result.
fn first<'a>(sources: &[&'a Filter]) -> Result<&'a Layers, SetError> {
    let why = Mismatch::Shape;
    let first = sources.first().ok_or(SetError::Destination { why })?;
    Ok(&first.layers)
}
