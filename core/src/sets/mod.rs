//! Filters as sets: unions and intersections of filters with one hash function, and emptying a filter.
//!
//! Layers of one shape are combined bit by bit, in `union`. The exceptions are combined in `exceptions`.

mod exceptions;
mod mergeable;
mod union;

use std::collections::HashSet;
use std::fmt;

use crate::blocked::{Blocked, format};
use crate::chain::demand::{Besides, push, reserved};
use crate::chain::window::Ring;
use crate::chain::{Allowance, Chain, NewLayer as _, UNLIMITED, batch};
use crate::classic::Classic;
use crate::error::Error;
use crate::exceptions::table::Table;
use crate::filter::{Filter, LayerStats};
use crate::layers::Layers;
use crate::params::ErrorRate;

pub use exceptions::MOST_ASKED;
use mergeable::{Budget, Mergeable as _};

/// Why filters cannot be combined. Nothing changed.
///
/// ```
/// # use libbloom::{Filter, Mismatch, SetError};
/// let mut monday = Filter::builder(1000, 0.01).seed(1).build()?;
/// let tuesday = Filter::builder(1000, 0.01).seed(2).build()?;
/// let refused = monday.union_with(&tuesday);
/// assert_eq!(refused, Err(SetError::Source { index: 0, why: Mismatch::Seed }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetError {
    /// A source cannot be combined with the first filter.
    Source {
        /// The index of the source.
        index: usize,
        /// The reason.
        why: Mismatch,
    },
    /// The destination cannot be combined with any filter.
    Destination {
        /// The reason.
        why: Mismatch,
    },
    /// The rates of the layers sum to more than the result may have.
    Rate {
        /// The sum of the rates.
        sum: f64,
        /// A rate for the result that would be high enough, if there is one.
        would_do: Option<ErrorRate>,
    },
    /// The rates of the layers of classic filters sum to more than the result may have: the rate of its first layer.
    ClassicRate {
        /// The sum of the layers' rates, with those that later growth may add.
        sum: f64,
        /// The filter's rate.
        rate: f64,
    },
    /// A rate was given for classic filters.
    RateOfClassic,
    /// The result would have more exceptions than a filter can have.
    TooManyExceptions {
        /// The most exceptions that a filter can have.
        exceptions: u64,
    },
    /// Looking up all exceptions in all layers would take too long: the product of their numbers is above
    /// [`MOST_ASKED`].
    TooManyToAsk {
        /// Exceptions of all filters.
        exceptions: u64,
        /// Layers of all filters.
        layers: u64,
    },
    /// There is no memory for the result.
    Memory(Error),
}

impl From<Error> for SetError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

/// Why a source cannot be combined with the first filter.
///
/// ```
/// # use libbloom::{Filter, Mismatch, SetError, StoredLayout};
/// let mut own = Filter::builder(1000, 0.01).build()?;
/// let classic = Filter::builder(1000, 0.01).layout(StoredLayout::Classic).build()?;
/// let refused = own.union_with(&classic);
/// assert_eq!(refused, Err(SetError::Source { index: 0, why: Mismatch::Layout }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The filter has another seed.
    Seed,
    /// The filter has another layout.
    Layout,
    /// The filter has a layout whose filters are never combined.
    Never,
    /// The hashes of one have 64 bits, those of the other 32.
    HashWidth,
    /// The filter has a window.
    Window,
    /// The filter has layers of another shape.
    Shape,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { index, why } => write!(f, "filter {index} does not fit: {why}"),
            Self::Destination { why } => write!(f, "the filter cannot be merged into: {why}"),
            Self::Rate { sum, would_do } => {
                write!(f, "the error rates of the layers sum to {sum}")?;
                match would_do {
                    Some(rate) => write!(f, ": an error rate of {} would do", rate.value()),
                    None => f.write_str(": no error rate would do"),
                }
            }
            Self::ClassicRate { sum, rate } => {
                write!(f, "the error rates of the layers sum to {sum}, above {rate}")
            }
            Self::RateOfClassic => f.write_str("filters of RedisBloom's layout keep their error rate"),
            Self::TooManyExceptions { exceptions } => {
                write!(f, "the result would have more than {exceptions} exceptions")
            }
            Self::TooManyToAsk { exceptions, layers } => {
                write!(
                    f,
                    "{exceptions} exceptions in {layers} layers are too many to look up"
                )
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed => "it has another seed",
            Self::Layout => "it has another layout",
            Self::Never => "filters of valkey-bloom's layout are never combined",
            Self::HashWidth => "its hashes have another width",
            Self::Window => "it has a window",
            Self::Shape => "it has another capacity or error rate, or has grown",
        })
    }
}

impl std::error::Error for SetError {}

/// Filters of one layout that hash alike, each of them once, and their layers.
struct Alike<'a, R: Budget> {
    filters: Vec<&'a Filter>,
    chains: Vec<&'a Chain<R>>,
}

impl<'a, R: Budget> Alike<'a, R> {
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
            never(&filter.layers).map_err(differs)?;
            let chain = R::chain(&filter.layers).ok_or(differs(Mismatch::Layout))?;
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
    ) -> Result<Filter, SetError>
    where
        Layers: From<Chain<R>>,
    {
        let Self { filters, chains } = Self::of(first, sources)?;
        first.rules().may_have(rate)?;
        let exceptions = exceptions::of_union(&filters, allowance)?;
        let blocks = &exceptions::blocks(&exceptions);
        let allowance = &Besides { blocks, allowance };
        let mut union = Filter::from(union::make(&chains, rate, allowance)?);
        union.set_exceptions(exceptions);
        Ok(union)
    }

    fn intersection(
        first: &Chain<R>,
        sources: &[&'a Filter],
        allowance: Allowance<'_>,
    ) -> Result<Filter, SetError>
    where
        Layers: From<Chain<R>>,
    {
        let Self { filters, chains } = Self::of(first, sources)?;
        let kind = |chain: &Chain<R>| match chain.layers() {
            [layer] => Some(layer.kind()),
            _ => None,
        };
        let shape = kind(first);
        let of_source = |filter: &&Filter| R::chain(&filter.layers).and_then(kind);
        if let Some(index) = sources.iter().position(|filter| {
            let other = of_source(filter);
            other.is_none() || other != shape
        }) {
            let why = Mismatch::Shape;
            return Err(SetError::Source { index, why });
        }
        let exceptions = exceptions::of_all(&filters, allowance)?;
        let blocks = &exceptions::blocks(&exceptions);
        let allowance = &Besides { blocks, allowance };
        let mut common = Filter::from(union::common(&chains, allowance)?);
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
        let first = R::chain(&destination.layers).ok_or(SetError::Destination { why })?;
        let Self { filters, chains } = Self::of(first, sources)?;
        first.rules().may_have(rate)?;
        let mut all = reserved(filters.len() + 1)?;
        all.extend(filters);
        all.push(destination);
        let new = exceptions::of_union_in(destination, &all, allowance)?;
        let (held, none) = (destination.excepted(), Table::default());
        let after = new.as_ref().or(held).unwrap_or(&none);
        let blocks = &exceptions::blocks(after);
        let allowance = &Besides { blocks, allowance };
        let chain = R::chain_mut(&mut destination.layers).ok_or(SetError::Destination { why })?;
        let layers_differ = union::absorb(chain, &chains, rate, allowance)?;
        let exceptions_differ = new.is_some();
        if let Some(exceptions) = new {
            destination.set_exceptions(exceptions);
        }
        Ok(exceptions_differ || layers_differ)
    }
}

/// Why filters with these layers are never combined, if they are not.
fn never(layers: &Layers) -> Result<(), Mismatch> {
    match layers {
        Layers::Blocked(_) | Layers::Classic(_) => Ok(()),
        Layers::Windowed(_) => Err(Mismatch::Window),
        Layers::Valkey(_) => Err(Mismatch::Never),
    }
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
        let layers = &first(sources)?.layers;
        match layers {
            Layers::Blocked(chain) => Alike::union(chain, sources, rate, allowance),
            Layers::Classic(chain) => Alike::union(chain, sources, rate, allowance),
            Layers::Valkey(_) | Layers::Windowed(_) => Err(first_source(layers)),
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
        never(&self.layers).map_err(|why| SetError::Destination { why })?;
        match self.layers {
            Layers::Classic(_) => Alike::<Classic>::absorb(self, sources, rate, allowance),
            _ => Alike::<Blocked>::absorb(self, sources, rate, allowance),
        }
    }

    /// Makes a new filter of the items that all `sources` contain, of which there must be one. Each has one layer, of
    /// one shape; the first gives the parameters. An item that is in none of them is found with at most their lowest
    /// rate.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn intersection(sources: &[&Self], allowance: Allowance<'_>) -> Result<Self, SetError> {
        let layers = &first(sources)?.layers;
        match layers {
            Layers::Blocked(chain) => Alike::intersection(chain, sources, allowance),
            Layers::Classic(chain) => Alike::intersection(chain, sources, allowance),
            Layers::Valkey(_) | Layers::Windowed(_) => Err(first_source(layers)),
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
        let is_as_new = self.exceptions() == 0 && self.is_as_new();
        Ok(match &self.layers {
            Layers::Blocked(chain) => {
                let (rules, layers) = (chain.rules(), chain.layers());
                let mut capacities = layers.iter().map(batch::Layer::capacity);
                let capacity = if format::is_grown(chain) {
                    capacities.next()
                } else {
                    capacities.max()
                };
                let first = rules.first_for(capacity.unwrap_or(1));
                let is_alike = layers.iter().all(|layer| layer.shape() == first);
                if is_alike && is_as_new {
                    return Ok(None);
                }
                let takes_more = first.bytes() > chain.array_bytes(layers.len());
                let allowance = if takes_more { allowance } else { UNLIMITED };
                Some(Chain::new(rules.alike(None), first, allowance)?.into())
            }
            Layers::Classic(chain) => match chain.layers().first().filter(|_| !is_as_new) {
                Some(oldest) => Some(Chain::new(*chain.rules(), oldest.shape(), UNLIMITED)?.into()),
                None => None,
            },
            Layers::Valkey(chain) => match chain.layers().first().filter(|_| !is_as_new) {
                Some(oldest) => Some(Chain::new(*chain.rules(), oldest.shape(), UNLIMITED)?.into()),
                None => None,
            },
            Layers::Windowed(ring) => {
                let is_as_new = ring.gone() == 0 && ring.slices().came() == 0 && !ring.slices().ended();
                if ring.chain().layers().is_empty() && is_as_new && self.exceptions() == 0 {
                    return Ok(None);
                }
                let rules = ring.chain().rules().alike(None);
                Some(Ring::empty(rules, ring.slices().window(), ring.capacity()).into())
            }
        })
    }

    /// Whether the filter has only its first layer, and no item.
    fn is_as_new(&self) -> bool {
        let is_untouched = |layer: LayerStats| layer.items == 0 && layer.bits_set == 0;
        self.layers() == 1 && self.layer_stats().all(is_untouched)
    }
}

/// What is wrong with the first of the sources, whose layers are never combined.
fn first_source(layers: &Layers) -> SetError {
    let why = never(layers).err().unwrap_or(Mismatch::Layout);
    SetError::Source { index: 0, why }
}

/// The filter that decides the parameters of the result.
fn first<'a>(sources: &[&'a Filter]) -> Result<&'a Filter, SetError> {
    let why = Mismatch::Shape;
    sources.first().copied().ok_or(SetError::Destination { why })
}
