//! The layers of a filter in any layout.
//!
//! [`filter`](crate::filter) matches them for items, so that a layout's code is inlined. Other calls go by `Layered`.

use crate::bits::memory::{Allocation, Mover};
use crate::chain::Chain;
use crate::chain::layered::Layered;
use crate::exceptions::Exceptions;
use crate::layouts::blocked::Blocked;
use crate::layouts::blocked::window::Windowed;
use crate::layouts::classic::Classic;
use crate::layouts::valkey::Valkey;

/// The layers of a filter.
pub enum Layers {
    /// Lines of 64 bytes; see [`blocked`](crate::layouts::blocked). Only they may have exceptions, of which there is then
    /// at least one; these are boxed, since few filters have any.
    Blocked(Chain<Blocked>, Option<Box<Exceptions>>),
    /// Lines of 64 bytes in slices that expire; see [`window`](crate::layouts::blocked::window).
    Windowed(Box<Windowed>),
    /// valkey-bloom's bits; see [`valkey`](crate::layouts::valkey).
    Valkey(Box<Chain<Valkey>>),
    /// RedisBloom's bits; see [`classic`](crate::layouts::classic).
    Classic(Chain<Classic>),
}

impl From<Chain<Blocked>> for Layers {
    fn from(chain: Chain<Blocked>) -> Self {
        Self::Blocked(chain, None)
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

impl Layers {
    /// See [`Filter::each_allocation`](crate::Filter::each_allocation).
    pub fn each_allocation(&self, mut visit: impl FnMut(Allocation)) {
        match self {
            Self::Blocked(chain, _) => chain.each_allocation(visit),
            Self::Windowed(windowed) => windowed.each_allocation(visit),
            Self::Valkey(chain) => {
                let own = Allocation::of_array(std::slice::from_ref(&**chain));
                own.into_iter().for_each(&mut visit);
                chain.each_allocation(visit);
            }
            Self::Classic(chain) => chain.each_allocation(visit),
        }
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        match self {
            Self::Blocked(chain, _) => chain.relocate(first, mover),
            Self::Windowed(windowed) => {
                if first == 0 {
                    mover.boxed(windowed);
                }
                windowed.relocate(first, mover)
            }
            Self::Valkey(chain) => {
                if first == 0 {
                    mover.boxed(chain);
                }
                chain.relocate(first, mover)
            }
            Self::Classic(chain) => chain.relocate(first, mover),
        }
    }

    /// The layers for all calls that are not made for each item.
    pub fn as_layered(&self) -> &dyn Layered {
        match self {
            Self::Blocked(chain, _) => chain,
            Self::Windowed(windowed) => &**windowed,
            Self::Valkey(chain) => &**chain,
            Self::Classic(chain) => chain,
        }
    }

    /// The layers for all calls that are not made for each item, to be changed.
    pub fn as_layered_mut(&mut self) -> &mut dyn Layered {
        match self {
            Self::Blocked(chain, _) => chain,
            Self::Windowed(windowed) => &mut **windowed,
            Self::Valkey(chain) => &mut **chain,
            Self::Classic(chain) => chain,
        }
    }

    /// The rules of the blocked layout, with or without a window.
    #[inline]
    pub fn blocked(&self) -> Option<&Blocked> {
        match self {
            Self::Blocked(chain, _) => Some(chain.rules()),
            Self::Windowed(windowed) => Some(&windowed.rules),
            _ => None,
        }
    }
}
