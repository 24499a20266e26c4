//! Filters as sets: unions and intersections of filters that hash alike, and the empty filter made like another.
//!
//! Layers of one shape are combined bit by bit, by `union`. What becomes of exceptions is in `exceptions`.

mod exceptions;
mod part;
mod union;

use std::collections::BTreeSet;

use crate::bloom::blocked::Blocked;
use crate::bloom::chain::window::{Parts, Ring, slices::Slices};
use crate::bloom::chain::{Allowance, Chain, Plan as _, UNLIMITED, batch};
use crate::bloom::classic::Classic;
use crate::bloom::codec::native;
use crate::bloom::error::Error;
use crate::bloom::exceptions::table::Table;
use crate::bloom::filter::{Body, BodyMut, Filter, LayerStats};
use crate::bloom::params::ErrorRate;

/// Why filters cannot be combined. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetError {
    /// A source does not go with the first filter.
    Source {
        /// Which of the sources.
        index: usize,
        /// What is in the way.
        why: Mismatch,
    },
    /// The filter that others are to be taken into takes none.
    Destination {
        /// What is in the way.
        why: Mismatch,
    },
    /// The layers' rates sum to more than the result may spend on so many.
    Rate {
        /// Their sum.
        sum: f64,
        /// The rate that would do, if one does.
        would_do: Option<ErrorRate>,
    },
    /// The same of classic filters, whose rate is that of their first layer.
    ClassicRate {
        /// The sum of the layers' rates, and of what those may have that are to come.
        sum: f64,
        /// The filter's rate.
        rate: f64,
    },
    /// A rate was given for classic filters.
    RateOfClassic,
    /// The result would have more exceptions than a filter can have.
    TooManyExceptions {
        /// So many.
        exceptions: u64,
    },
    /// There is no room for the result.
    Memory(Error),
}

impl From<Error> for SetError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

/// What keeps a source from going with the first filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The key of its hash is another.
    Seed,
    /// It is of another layout.
    Layout,
    /// It is of a layout whose filters are never combined.
    Never,
    /// The hashes of one have 64 bits, those of the other 32.
    HashWidth,
    /// It has a window.
    Window,
    /// It has other layers.
    Shape,
}

/// Filters of one layout that hash alike, each of them once.
struct Alike<'a> {
    filters: Vec<&'a Filter>,
    chains: Chains<'a>,
}

/// Their layers.
enum Chains<'a> {
    Blocked(Vec<&'a Chain<Blocked>>),
    Classic(Vec<&'a Chain<Classic>>),
}

impl<'a> Alike<'a> {
    /// `filters`, which go with `first`.
    ///
    /// # Errors
    /// [`SetError::Source`].
    fn of(first: Body<'_>, filters: &[&'a Filter]) -> Result<Self, SetError> {
        let (mut seen, mut distinct) = (BTreeSet::new(), Vec::new());
        let (mut blocked, mut classic) = (Vec::new(), Vec::new());
        for (index, &filter) in filters.iter().enumerate() {
            if !seen.insert(std::ptr::from_ref(filter)) {
                continue;
            }
            distinct.push(filter);
            let differs = |why| Err(SetError::Source { index, why });
            match (first, filter.body()) {
                (_, Body::Windowed(_)) => return differs(Mismatch::Window),
                (_, Body::Valkey(_)) => return differs(Mismatch::Never),
                (Body::Blocked(first), Body::Blocked(chain)) => {
                    if first.rules().secret().seed() != chain.rules().secret().seed() {
                        return differs(Mismatch::Seed);
                    }
                    blocked.push(chain);
                }
                (Body::Classic(first), Body::Classic(chain)) => {
                    let width = |chain: &Chain<Classic>| chain.rules().options().hash_width();
                    if width(first) != width(chain) {
                        return differs(Mismatch::HashWidth);
                    }
                    classic.push(chain);
                }
                _ => return differs(Mismatch::Layout),
            }
        }
        Ok(Self {
            filters: distinct,
            chains: match first {
                Body::Classic(_) => Chains::Classic(classic),
                Body::Blocked(_) | Body::Windowed(_) | Body::Valkey(_) => Chains::Blocked(blocked),
            },
        })
    }
}

impl Filter {
    /// A new filter of all items of `sources`, which are not empty; the first gives the parameters, and the rate if no
    /// other is given.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn union(
        sources: &[&Self],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<Self, SetError> {
        let Alike { filters, chains } = Alike::of(first(sources)?.body(), sources)?;
        if matches!(chains, Chains::Classic(_)) && rate.is_some() {
            return Err(SetError::RateOfClassic);
        }
        let exceptions = exceptions::of_union(&filters, allowance)?;
        let own = exceptions::blocks(&exceptions, true, true);
        let allowance: Allowance<'_> = &|demand| demand.with(&own, allowance);
        let mut union = match chains {
            Chains::Blocked(chains) => Self::Blocked(union::make(&chains, rate, allowance)?),
            Chains::Classic(chains) => Self::Classic(union::make(&chains, None, allowance)?),
        };
        union.set_exceptions(exceptions);
        Ok(union)
    }

    /// Takes all items of `sources` in; whether that changed anything. The rate becomes another one if one is given.
    ///
    /// # Errors
    /// [`SetError`]; nothing changed.
    pub fn absorb(
        &mut self,
        sources: &[&Self],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<bool, SetError> {
        if self.window().is_some() {
            return Err(SetError::Destination {
                why: Mismatch::Window,
            });
        }
        if matches!(self, Self::Valkey(_)) {
            return Err(SetError::Destination { why: Mismatch::Never });
        }
        let Alike { mut filters, chains } = Alike::of(self.body(), sources)?;
        if matches!(chains, Chains::Classic(_)) && rate.is_some() {
            return Err(SetError::RateOfClassic);
        }
        filters.push(self);
        let new = exceptions::of_union_in(self, &filters, allowance)?;
        let (held, none) = (self.excepted(), Table::default());
        let after = new.as_ref().or(held).unwrap_or(&none);
        let own = exceptions::blocks(after, held.is_none(), new.is_some());
        let allowance: Allowance<'_> = &|demand| demand.with(&own, allowance);
        let layers_differ = match (self.body_mut(), chains) {
            (BodyMut::Blocked(chain), Chains::Blocked(others)) => {
                union::absorb(chain, &others, rate, allowance)?
            }
            (BodyMut::Classic(chain), Chains::Classic(others)) => {
                union::absorb(chain, &others, None, allowance)?
            }
            _ => {
                return Err(SetError::Destination {
                    why: Mismatch::Layout,
                });
            }
        };
        let exceptions_differ = new.is_some();
        if let Some(exceptions) = new {
            self.set_exceptions(exceptions);
        }
        Ok(exceptions_differ || layers_differ)
    }

    /// A new filter of the items that all of `sources`, which are not empty, have. They have one layer each, of one
    /// shape; the first gives the parameters. What is in none of them is found at their lowest rate at most.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn intersection(sources: &[&Self], allowance: Allowance<'_>) -> Result<Self, SetError> {
        let shape = first(sources)?.layer_stats().next().map(|layer| layer.shape);
        let Alike { filters, chains } = Alike::of(first(sources)?.body(), sources)?;
        let differs = |filter: &&Self| {
            let mut shapes = filter.layer_stats().map(|layer| Some(layer.shape));
            shapes.len() != 1 || shapes.next() != Some(shape)
        };
        if let Some(index) = sources.iter().position(differs) {
            let why = Mismatch::Shape;
            return Err(SetError::Source { index, why });
        }
        let exceptions = exceptions::of_all(&filters, allowance)?;
        let own = exceptions::blocks(&exceptions, true, true);
        let allowance: Allowance<'_> = &|demand| demand.with(&own, allowance);
        let mut common = match chains {
            Chains::Blocked(chains) => Self::Blocked(union::common(&chains, allowance)?),
            Chains::Classic(chains) => Self::Classic(union::common(&chains, allowance)?),
        };
        common.set_exceptions(exceptions);
        Ok(common)
    }

    /// A new filter made alike; `None` where this one is as new. If layers of several filters came together in it, the
    /// new one is made for as many items as the largest of them.
    ///
    /// `allowance` is asked if it takes more than this one: where layers that came together have other rates than the
    /// first one of a new filter, or where a stored filter names capacities that its layers are too small for. Else
    /// nobody is refused who empties a filter to free memory.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::OutOfMemory`]; nothing is left behind.
    pub fn emptied(&self, allowance: Allowance<'_>) -> Result<Option<Self>, Error> {
        let has_exceptions = self.exceptions() > 0;
        Ok(match self.body() {
            Body::Blocked(chain) => {
                let (rules, layers) = (chain.rules(), chain.layers());
                let mut capacities = layers.iter().map(batch::Layer::capacity);
                let capacity = if native::is_grown(chain) {
                    capacities.next()
                } else {
                    capacities.max()
                };
                let first = rules.first_for(capacity.unwrap_or(1));
                let is_alike = layers.iter().all(|layer| layer.shape() == first);
                if is_alike && self.is_as_new() && !has_exceptions {
                    return Ok(None);
                }
                let takes_more = first.bytes() > chain.array_bytes(layers.len());
                let allowance = if takes_more { allowance } else { UNLIMITED };
                Some(Self::Blocked(Chain::new(rules.alike(None), first, allowance)?))
            }
            Body::Classic(chain) => {
                let Some(oldest) = chain.layers().first().filter(|_| !self.is_as_new()) else {
                    return Ok(None);
                };
                let rules = *chain.rules();
                Some(Self::Classic(Chain::new(rules, oldest.shape(), UNLIMITED)?))
            }
            Body::Valkey(chain) => {
                let Some(oldest) = chain.layers().first().filter(|_| !self.is_as_new()) else {
                    return Ok(None);
                };
                let first = Chain::new(*chain.rules(), oldest.shape(), UNLIMITED)?;
                Some(Self::Valkey(Box::new(first)))
            }
            Body::Windowed(ring) => {
                if ring.layers().is_empty() && ring.gone() == 0 && !ring.slices().ended() && !has_exceptions {
                    return Ok(None);
                }
                Some(Self::Windowed(Box::new(Ring::of_parts(Parts {
                    rules: ring.rules().alike(None),
                    layers: Vec::new(),
                    slices: Slices::new(ring.slices().window(), Vec::new(), false),
                    capacity: ring.capacity(),
                    gone: 0,
                }))))
            }
        })
    }

    /// Whether it has the layer that it was made with, and nothing was added to that.
    fn is_as_new(&self) -> bool {
        let is_untouched = |layer: LayerStats| layer.items == 0 && layer.bits_set == 0;
        self.layers() == 1 && self.layer_stats().all(is_untouched)
    }
}

/// The filter that says what becomes of all.
fn first<'a>(sources: &[&'a Filter]) -> Result<&'a Filter, SetError> {
    let why = Mismatch::Shape;
    sources.first().copied().ok_or(SetError::Destination { why })
}
