//! Checks a filter's invariants from scratch, for tests and fuzzing.

use crate::Filter;
use crate::blocked::layout::check_growth;
use crate::exceptions::MOST_EXCEPTIONS;
use crate::exceptions::table::{Table, hash_of};
use crate::layers::Layers;
pub use crate::stored::invalid::Invalid;

#[cfg_attr(docsrs, doc(hidden))]
impl Filter {
    /// Checks every invariant, reading all bits.
    ///
    /// # Errors
    /// The first [`Invalid`] found.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let Layers::Blocked(chain) = &self.layers {
            check_growth(chain)?;
        }
        self.validate_composed()
    }

    /// Checks the invariants of a filter whose layers may come from several filters, as a union's do: that
    /// they follow from one another is not required.
    ///
    /// # Errors
    /// The first [`Invalid`] found.
    pub fn validate_composed(&self) -> Result<(), Invalid> {
        self.excepted().map_or(Ok(()), check_exceptions)?;
        self.layers.as_layered().validate()
    }
}

fn check_exceptions(exceptions: &Table) -> Result<(), Invalid> {
    let (mut count, mut last, mut sound) = (0, [0, 0], true);
    exceptions.each_ascending(|slots| {
        for &slot in slots {
            sound &= slot > last && exceptions.has(hash_of(slot));
            (count, last) = (count + 1, slot);
        }
    });
    if sound && (1..=MOST_EXCEPTIONS).contains(&count) && count == exceptions.len() {
        Ok(())
    } else {
        Err(Invalid::Exceptions)
    }
}

#[cfg(test)]
mod tests;
