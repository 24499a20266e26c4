//! The list of layouts, and the layers of a filter in any of them.
//!
//! A new layout is a folder of its own, and a line in each of the lists of this file. Calls for each item are matched
//! here, so that the layout's own code can be inlined. All other calls go through [`Layered`].

use crate::bits::memory::Mover;
use crate::blocked::{self, Blocked};
use crate::chain::batch::{Block, BlockOutcome, Subset};
use crate::chain::window::Ring;
use crate::chain::{Allowance, Chain};
use crate::classic::Classic;
use crate::error::Error;
use crate::item::Item;
use crate::layered::Layered;
use crate::valkey::Valkey;

/// The layers of a filter.
#[derive(Debug)]
pub enum Layers {
    /// Lines of 64 bytes; see [`blocked`].
    Blocked(Chain<Blocked>),
    /// RedisBloom's bits; see [`classic`](crate::classic).
    Classic(Chain<Classic>),
    /// valkey-bloom's bits; see [`valkey`](crate::valkey).
    Valkey(Box<Chain<Valkey>>),
    /// Lines of 64 bytes in layers that expire; see [`window`](crate::chain::window).
    Windowed(Box<Ring<Blocked>>),
}

/// Evaluates `$work` with the chain or ring in `$layers`, compiled for each layout by itself.
macro_rules! each {
    ($layers:expr, $of_layout:ident => $work:expr) => {
        match $layers {
            Layers::Blocked($of_layout) => $work,
            Layers::Classic($of_layout) => $work,
            Layers::Valkey($of_layout) => $work,
            Layers::Windowed($of_layout) => $work,
        }
    };
}

impl From<Chain<Blocked>> for Layers {
    fn from(chain: Chain<Blocked>) -> Self {
        Self::Blocked(chain)
    }
}

impl From<Chain<Classic>> for Layers {
    fn from(chain: Chain<Classic>) -> Self {
        Self::Classic(chain)
    }
}

impl From<Chain<Valkey>> for Layers {
    fn from(chain: Chain<Valkey>) -> Self {
        Self::Valkey(Box::new(chain))
    }
}

impl From<Ring<Blocked>> for Layers {
    fn from(ring: Ring<Blocked>) -> Self {
        Self::Windowed(Box::new(ring))
    }
}

impl Layers {
    /// The layers for all calls that are not made for each item.
    pub fn cold(&self) -> &dyn Layered {
        match self {
            Self::Blocked(chain) => chain,
            Self::Classic(chain) => chain,
            Self::Valkey(chain) => &**chain,
            Self::Windowed(ring) => &**ring,
        }
    }

    /// The layers for all calls that are not made for each item, to be changed.
    pub fn cold_mut(&mut self) -> &mut dyn Layered {
        match self {
            Self::Blocked(chain) => chain,
            Self::Classic(chain) => chain,
            Self::Valkey(chain) => &mut **chain,
            Self::Windowed(ring) => &mut **ring,
        }
    }

    /// See [`Filter::contains`](crate::Filter::contains).
    #[inline(always)]
    pub fn contains(&self, item: Item<'_>) -> bool {
        each!(self, layers => layers.contains(item))
    }

    /// See [`Filter::contains_blocks`](crate::Filter::contains_blocks).
    #[inline(always)]
    pub fn contains_blocks<'a>(
        &self,
        items: impl Iterator<Item = &'a [u8]>,
        found: impl FnMut(Subset, &Block),
    ) {
        each!(self, layers => layers.contains_blocks(items, found));
    }

    /// See [`Filter::add`](crate::Filter::add).
    #[inline(always)]
    pub fn add(&mut self, item: Item<'_>, allowance: Allowance<'_>) -> Result<bool, Error> {
        each!(self, layers => layers.add(item, allowance))
    }

    /// See [`Filter::add_blocks`](crate::Filter::add_blocks).
    #[inline(always)]
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome, &Block),
    ) -> Result<(), Error> {
        each!(self, layers => layers.add_blocks(items, allowance, added))
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        match self {
            Self::Valkey(chain) if first == 0 => mover.boxed(chain),
            Self::Windowed(ring) if first == 0 => mover.boxed(ring),
            _ => {}
        }
        each!(self, layers => layers.relocate(first, mover))
    }

    /// The layers of a window.
    #[inline]
    pub fn ring(&self) -> Option<&Ring<Blocked>> {
        match self {
            Self::Windowed(ring) => Some(ring),
            _ => None,
        }
    }

    /// The layers of a window, to be changed.
    pub fn ring_mut(&mut self) -> Option<&mut Ring<Blocked>> {
        match self {
            Self::Windowed(ring) => Some(ring),
            _ => None,
        }
    }

    /// The rules and the layers of the blocked layout, with or without a window.
    #[inline]
    pub fn blocked(&self) -> Option<(&Blocked, &[blocked::Layer])> {
        match self {
            Self::Blocked(chain) => Some((chain.rules(), chain.layers())),
            Self::Windowed(ring) => Some((ring.chain().rules(), ring.chain().layers())),
            _ => None,
        }
    }
}
