//! The list of layouts, and the layers of a filter in any of them.
//!
//! A new layout is a folder of its own, its name in [`params`](crate::params), its parameters in [`spec`](crate::spec),
//! and an arm in each match here. Calls for each item are matched here, so that the layout's own code can be inlined. All
//! other calls go through [`Layered`].

use std::any::Any;

use crate::bits::memory::Mover;
use crate::blocked::Blocked;
use crate::blocked::format::Native;
use crate::blocked::window::Windowed;
use crate::chain::batch::{Block, BlockOutcome, Subset};
use crate::chain::{Allowance, Chain, Rules};
use crate::classic::Classic;
use crate::error::Error;
use crate::item::Item;
use crate::layered::Layered;
use crate::params::Time;
use crate::valkey::Valkey;

/// The layers of a filter.
#[derive(Debug)]
pub enum Layers {
    /// Lines of 64 bytes; see [`blocked`](crate::blocked).
    Blocked(Chain<Blocked>),
    /// Lines of 64 bytes in slices that expire; see [`window`](crate::blocked::window).
    Windowed(Box<Windowed>),
    /// valkey-bloom's bits; see [`valkey`](crate::valkey).
    Valkey(Box<Chain<Valkey>>),
    /// RedisBloom's bits; see [`classic`](crate::classic).
    Classic(Chain<Classic>),
}

/// Evaluates `$work` with the layers in `$held`, compiled for each layout by itself.
macro_rules! each {
    ($layers:expr, $held:ident => $work:expr) => {
        match $layers {
            $crate::layers::Layers::Blocked($held) => $work,
            $crate::layers::Layers::Windowed($held) => $work,
            $crate::layers::Layers::Valkey($held) => $work,
            $crate::layers::Layers::Classic($held) => $work,
        }
    };
}

impl From<Chain<Blocked>> for Layers {
    fn from(chain: Chain<Blocked>) -> Self {
        Self::Blocked(chain)
    }
}

impl From<Windowed> for Layers {
    fn from(windowed: Windowed) -> Self {
        Self::Windowed(Box::new(windowed))
    }
}

impl From<Chain<Valkey>> for Layers {
    fn from(chain: Chain<Valkey>) -> Self {
        Self::Valkey(Box::new(chain))
    }
}

impl From<Chain<Classic>> for Layers {
    fn from(chain: Chain<Classic>) -> Self {
        Self::Classic(chain)
    }
}

impl From<Native> for Layers {
    fn from(native: Native) -> Self {
        match native {
            Native::Chain(chain) => chain.into(),
            Native::Windowed(windowed) => windowed.into(),
        }
    }
}

pub(crate) use each;

impl Layers {
    /// See [`Filter::contains`](crate::Filter::contains).
    #[inline(always)]
    pub fn contains(&self, item: Item<'_>, now: Time) -> bool {
        match self {
            Self::Windowed(windowed) => windowed.contains(item, now),
            Self::Blocked(chain) => chain.contains(item),
            Self::Valkey(chain) => chain.contains(item),
            Self::Classic(chain) => chain.contains(item),
        }
    }

    /// See [`Filter::contains_blocks`](crate::Filter::contains_blocks).
    #[inline(always)]
    pub fn contains_blocks<'a>(
        &self,
        items: impl Iterator<Item = &'a [u8]>,
        now: Time,
        found: impl FnMut(Subset, &Block),
    ) {
        match self {
            Self::Windowed(windowed) => windowed.contains_blocks(items, now, found),
            Self::Blocked(chain) => chain.contains_blocks(items, found),
            Self::Valkey(chain) => chain.contains_blocks(items, found),
            Self::Classic(chain) => chain.contains_blocks(items, found),
        }
    }

    /// See [`Filter::add`](crate::Filter::add).
    #[inline(always)]
    pub fn add(&mut self, item: Item<'_>, now: Time, allowance: Allowance<'_>) -> Result<bool, Error> {
        match self {
            Self::Windowed(windowed) => windowed.add(item, now, allowance),
            Self::Blocked(chain) => chain.add(item, allowance),
            Self::Valkey(chain) => chain.add(item, allowance),
            Self::Classic(chain) => chain.add(item, allowance),
        }
    }

    /// See [`Filter::add_blocks`](crate::Filter::add_blocks).
    #[inline(always)]
    pub fn add_blocks<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome, &Block),
    ) -> Result<(), Error> {
        match self {
            Self::Windowed(windowed) => windowed.add_blocks(items, now, allowance, added),
            Self::Blocked(chain) => chain.add_blocks(items, allowance, added),
            Self::Valkey(chain) => chain.add_blocks(items, allowance, added),
            Self::Classic(chain) => chain.add_blocks(items, allowance, added),
        }
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        match self {
            Self::Windowed(boxed) if first == 0 => mover.boxed(boxed),
            Self::Valkey(boxed) if first == 0 => mover.boxed(boxed),
            _ => (),
        }
        each!(self, layers => layers.relocate(first, mover))
    }

    /// The layers for all calls that are not made for each item.
    pub fn as_layered(&self) -> &dyn Layered {
        match self {
            Self::Blocked(chain) => chain,
            Self::Windowed(windowed) => &**windowed,
            Self::Valkey(chain) => &**chain,
            Self::Classic(chain) => chain,
        }
    }

    /// The layers for all calls that are not made for each item, to be changed.
    pub fn as_layered_mut(&mut self) -> &mut dyn Layered {
        match self {
            Self::Blocked(chain) => chain,
            Self::Windowed(windowed) => &mut **windowed,
            Self::Valkey(chain) => &mut **chain,
            Self::Classic(chain) => chain,
        }
    }

    /// The chain, if its rules are of this kind.
    pub fn chain<R: Rules + 'static>(&self) -> Option<&Chain<R>> {
        let chain: &dyn Any = match self {
            Self::Blocked(chain) => chain,
            Self::Windowed(_) => return None,
            Self::Valkey(chain) => &**chain,
            Self::Classic(chain) => chain,
        };
        chain.downcast_ref()
    }

    /// The chain, if its rules are of this kind, to be changed.
    pub fn chain_mut<R: Rules + 'static>(&mut self) -> Option<&mut Chain<R>> {
        let chain: &mut dyn Any = match self {
            Self::Blocked(chain) => chain,
            Self::Windowed(_) => return None,
            Self::Valkey(chain) => &mut **chain,
            Self::Classic(chain) => chain,
        };
        chain.downcast_mut()
    }

    /// [`Filter::bytes`](crate::Filter::bytes) of a filter with these layers and no exceptions.
    pub fn bytes(&self) -> u64 {
        let layers = self.as_layered();
        layers.bytes(layers.count())
    }

    /// The rules of the blocked layout, with or without a window.
    #[inline]
    pub fn blocked(&self) -> Option<&Blocked> {
        match self {
            Self::Blocked(chain) => Some(chain.rules()),
            Self::Windowed(windowed) => Some(windowed.rules()),
            _ => None,
        }
    }
}
