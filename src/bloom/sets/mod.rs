//! Filters as sets: unions and intersections of filters that hash alike, and the empty filter made like another.
//!
//! Layers of one shape are combined bit by bit, by [`union`]. What exceptions become of it is in [`exceptions`].

mod exceptions;
mod part;
mod union;

use crate::bloom::blocked::Blocked;
use crate::bloom::chain::window::{Parts, Ring, slices::Slices};
use crate::bloom::chain::{Allowance, Chain, UNLIMITED};
use crate::bloom::classic::Classic;
use crate::bloom::error::Error;
use crate::bloom::filter::{Body, BodyMut, Filter};
use crate::bloom::params::ErrorRate;
use part::Part;

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
        /// The sum of the layers' rates.
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
    /// One is blocked, one is classic.
    Layout,
    /// The hashes of one have 64 bits, those of the other 32.
    HashWidth,
    /// It has a window.
    Window,
    /// It has other layers.
    Shape,
}

/// Filters of one layout that hash alike.
enum Alike<'a> {
    Blocked(Vec<&'a Chain<Blocked>>),
    Classic(Vec<&'a Chain<Classic>>),
}

impl<'a> Alike<'a> {
    /// `filters`, which go with `first`.
    ///
    /// # Errors
    /// [`SetError::Source`].
    fn of(first: Body<'_>, filters: &[&'a Filter]) -> Result<Self, SetError> {
        let differs = |index, why| Err(SetError::Source { index, why });
        let (mut blocked, mut classic) = (Vec::new(), Vec::new());
        for (index, filter) in filters.iter().enumerate() {
            match (first, filter.body()) {
                (_, Body::Windowed(_)) => return differs(index, Mismatch::Window),
                (Body::Blocked(first), Body::Blocked(chain)) => {
                    if first.rules().secret().seed() != chain.rules().secret().seed() {
                        return differs(index, Mismatch::Seed);
                    }
                    blocked.push(chain);
                }
                (Body::Classic(first), Body::Classic(chain)) => {
                    let width = |chain: &Chain<Classic>| chain.rules().options().hash_width();
                    if width(first) != width(chain) {
                        return differs(index, Mismatch::HashWidth);
                    }
                    classic.push(chain);
                }
                _ => return differs(index, Mismatch::Layout),
            }
        }
        Ok(match first {
            Body::Classic(_) => Self::Classic(classic),
            Body::Blocked(_) | Body::Windowed(_) => Self::Blocked(blocked),
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
        let [first, ..] = sources else {
            return Err(SetError::Destination { why: Mismatch::Shape });
        };
        let exceptions = exceptions::of_union(sources)?;
        let own = exceptions::blocks(&exceptions, None);
        let allowance: Allowance<'_> = &|demand| demand.with(&own, allowance);
        let mut layers = match Alike::of(first.body(), sources)? {
            Alike::Blocked(chains) => Self::Blocked(union::make(&chains, rate, allowance)?),
            Alike::Classic(_) if rate.is_some() => return Err(SetError::RateOfClassic),
            Alike::Classic(chains) => Self::Classic(union::make(&chains, None, allowance)?),
        };
        layers.set_exceptions(exceptions);
        Ok(layers)
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
        let alike = Alike::of(self.body(), sources)?;
        if matches!(alike, Alike::Classic(_)) && rate.is_some() {
            return Err(SetError::RateOfClassic);
        }
        let mut all = vec![&*self];
        all.extend(sources);
        let exceptions = exceptions::of_union(&all)?;
        let own = exceptions::blocks(&exceptions, exceptions::of(self));
        let allowance: Allowance<'_> = &|demand| demand.with(&own, allowance);
        let has_changed = exceptions::differ(&exceptions, exceptions::of(self));
        let layers_changed = match (self.body_mut(), alike) {
            (BodyMut::Blocked(chain), Alike::Blocked(others)) => {
                union::absorb(chain, &others, rate, allowance)?
            }
            (BodyMut::Classic(chain), Alike::Classic(others)) => {
                union::absorb(chain, &others, None, allowance)?
            }
            _ => {
                return Err(SetError::Destination {
                    why: Mismatch::Layout,
                });
            }
        };
        if has_changed {
            self.set_exceptions(exceptions);
        }
        Ok(has_changed || layers_changed)
    }

    /// A new filter of the items that all of `sources`, which are not empty, have. They have one layer each, of one
    /// shape; the first gives the parameters. What is in none of them is found at their largest rate at most.
    ///
    /// # Errors
    /// [`SetError`]; nothing is left behind.
    pub fn intersection(sources: &[&Self], allowance: Allowance<'_>) -> Result<Self, SetError> {
        let [first, ..] = sources else {
            return Err(SetError::Destination { why: Mismatch::Shape });
        };
        let exceptions = exceptions::of_all(sources)?;
        let own = exceptions::blocks(&exceptions, None);
        let allowance: Allowance<'_> = &|demand| demand.with(&own, allowance);
        let mut layers = match Alike::of(first.body(), sources)? {
            Alike::Blocked(chains) => Self::Blocked(union::common(&chains, allowance)?),
            Alike::Classic(chains) => Self::Classic(union::common(&chains, allowance)?),
        };
        layers.set_exceptions(exceptions);
        Ok(layers)
    }

    /// A new filter made alike; `None` where this one is as new.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing is left behind.
    pub fn emptied(&self) -> Result<Option<Self>, Error> {
        let has_exceptions = self.exceptions() > 0;
        Ok(match self.body() {
            Body::Blocked(chain) => {
                let (rules, layers) = (chain.rules(), chain.layers());
                let Some(oldest) = layers.first() else {
                    return Ok(None);
                };
                let first = rules.first_for(oldest.shape().capacity);
                if is_as_new(layers) && oldest.shape() == first && !has_exceptions {
                    return Ok(None);
                }
                Some(Self::Blocked(Chain::new(rules.alike(None), first, UNLIMITED)?))
            }
            Body::Classic(chain) => {
                let layers = chain.layers();
                let Some(oldest) = layers.first() else {
                    return Ok(None);
                };
                if is_as_new(layers) {
                    return Ok(None);
                }
                Some(Self::Classic(Chain::new(
                    *chain.rules(),
                    oldest.shape(),
                    UNLIMITED,
                )?))
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
}

/// Whether these are the layers of a filter that nothing was added to.
fn is_as_new<L: Part>(layers: &[L]) -> bool {
    matches!(layers, [only] if only.items() == 0 && only.ones() == 0)
}
