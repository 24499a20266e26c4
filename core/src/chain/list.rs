//! The list of a filter's layers.

use std::mem;
use std::ops::{Deref, DerefMut};

use super::demand::{push, reserve, reserved};
use crate::bits::memory::{Allocation, Mover};
use crate::error::Error;

/// Layers, oldest first. Small filters are many: one that has a single layer has it in its own struct, and no list.
pub enum List<L> {
    One(L),
    /// Several layers; none only while a filter is being made.
    Several(Vec<L>),
}

impl<L> Default for List<L> {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl<L> From<Vec<L>> for List<L> {
    fn from(layers: Vec<L>) -> Self {
        match <[L; 1]>::try_from(layers) {
            Ok([only]) => Self::One(only),
            Err(layers) => Self::Several(layers),
        }
    }
}

impl<L> Deref for List<L> {
    type Target = [L];

    #[inline(always)]
    fn deref(&self) -> &[L] {
        match self {
            Self::One(only) => std::slice::from_ref(only),
            Self::Several(layers) => layers,
        }
    }
}

impl<L> DerefMut for List<L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [L] {
        match self {
            Self::One(only) => std::slice::from_mut(only),
            Self::Several(layers) => layers,
        }
    }
}

impl<L> List<L> {
    /// The number of `layers` that such a list has in a block of its own.
    pub fn listed(layers: usize) -> usize {
        if layers == 1 { 0 } else { layers }
    }

    pub fn push(&mut self, layer: L) -> Result<(), Error> {
        if self.is_empty() {
            *self = Self::One(layer);
            return Ok(());
        }
        if let Self::One(_) = self {
            self.reserve(1)?;
        }
        if let Self::Several(layers) = self {
            push(layers, layer)?;
        }
        Ok(())
    }

    pub fn reserve(&mut self, more: usize) -> Result<(), Error> {
        match self {
            Self::One(_) if more > 0 => {
                let mut list = reserved(1 + more)?;
                if let Self::One(only) = mem::take(self) {
                    list.push(only);
                }
                *self = Self::Several(list);
                Ok(())
            }
            Self::One(_) => Ok(()),
            Self::Several(layers) => reserve(layers, more),
        }
    }

    /// Appends layers for which there is [room](Self::reserve).
    pub fn append(&mut self, more: Vec<L>) {
        match self {
            Self::Several(layers) if layers.is_empty() => *self = more.into(),
            Self::Several(layers) => layers.extend(more),
            Self::One(_) => debug_assert!(more.is_empty(), "there is no room"),
        }
    }

    /// The block of the list; `None` for a single layer.
    pub fn allocation(&self) -> Option<Allocation> {
        match self {
            Self::One(_) => None,
            Self::Several(layers) => Allocation::of_list(layers),
        }
    }

    pub fn relocate(&mut self, mover: &mut impl Mover) {
        if let Self::Several(layers) = self {
            *layers = mover.list(mem::take(layers));
        }
    }
}
