//! The list of layouts, and the layers of a filter in any of them.
//!
//! A new layout is a folder of its own, its name in [`params`](crate::params), its parameters in [`spec`](crate::spec),
//! and a line in `layouts!`. Calls for each item are matched here, so that the layout's own code can be inlined. All
//! other calls go through [`Layered`].

use crate::bits::memory::Mover;
use crate::blocked::{self, Blocked};
use crate::chain::batch::{Block, BlockOutcome, Subset};
use crate::chain::window::Ring;
use crate::chain::{Allowance, Chain, Rules};
use crate::classic::Classic;
use crate::error::Error;
use crate::item::Item;
use crate::layered::Layered;
use crate::params::Time;
use crate::stored::DecodeError;
use crate::stored::stream::Source;
use crate::valkey::Valkey;

/// Makes [`Layers`] and what else has a case for each layout. A line has a name, the layers, and how [`Layers`] holds
/// them. `$d` is a dollar sign, which `each` needs in its own rule. Headers are offered to the layouts in this order.
macro_rules! layouts {
    ($d:tt $( $(#[$doc:meta])* $name:ident: $layers:ty, held as $held:ty; )*) => {
        /// The layers of a filter.
        #[derive(Debug)]
        pub enum Layers {
            $( $(#[$doc])* $name($held), )*
        }

        /// Evaluates `$work` with the chain or ring in `$layers`, compiled for each layout by itself.
        macro_rules! each {
            ($d layers:expr, $d of_layout:ident => $d work:expr) => {
                match $d layers {
                    $( $crate::layers::Layers::$name($d of_layout) => $d work, )*
                }
            };
        }

        impl Layers {
            /// The layers for all calls that are not made for each item.
            pub fn as_layered(&self) -> &dyn Layered {
                match self {
                    $( Self::$name(held) => { let layers: &$layers = held; layers } )*
                }
            }

            /// The layers for all calls that are not made for each item, to be changed.
            pub fn as_layered_mut(&mut self) -> &mut dyn Layered {
                match self {
                    $( Self::$name(held) => { let layers: &mut $layers = held; layers } )*
                }
            }

            /// The layers that the header of a dump describes, with their items counted and all of their bits unset.
            ///
            /// # Errors
            /// [`DecodeError`]; nothing is left behind.
            pub fn load_header(bytes: &[u8], allowance: Allowance<'_>) -> Result<Self, DecodeError> {
                $(
                    if bytes.starts_with(<$layers>::magic()) {
                        return <$layers>::load_header(bytes, allowance).map(Self::from);
                    }
                )*
                Err(DecodeError::Field("magic"))
            }

            /// Reads layers from an RDB stream whose two leading integers, `version` and 0, were read already.
            ///
            /// # Errors
            /// [`DecodeError`] unless the whole stream is one valid filter.
            pub fn load(
                version: u64,
                source: &mut impl Source,
                allowance: Allowance<'_>,
            ) -> Result<Self, DecodeError> {
                $(
                    if let Some(loaded) = <$layers>::load(version, source, allowance) {
                        return loaded.map(Self::from);
                    }
                )*
                Err(DecodeError::Version(version))
            }
        }

        $(
            impl From<$layers> for Layers {
                fn from(layers: $layers) -> Self {
                    Self::$name(layers.into())
                }
            }

            impl Listed for $layers {
                fn among(layers: &Layers) -> Option<&Self> {
                    match layers {
                        Layers::$name(held) => Some(held),
                        _ => None,
                    }
                }

                fn among_mut(layers: &mut Layers) -> Option<&mut Self> {
                    match layers {
                        Layers::$name(held) => Some(held),
                        _ => None,
                    }
                }
            }
        )*
    };
}

layouts! { $
    /// Lines of 64 bytes; see [`blocked`].
    Blocked: Chain<Blocked>, held as Chain<Blocked>;
    /// Lines of 64 bytes in layers that expire; see [`window`](crate::chain::window).
    Windowed: Ring<Blocked>, held as Box<Ring<Blocked>>;
    /// valkey-bloom's bits; see [`valkey`](crate::valkey).
    Valkey: Chain<Valkey>, held as Box<Chain<Valkey>>;
    /// RedisBloom's bits; see [`classic`](crate::classic). It stays last: its header has no magic, so that
    /// every header seems to be one.
    Classic: Chain<Classic>, held as Chain<Classic>;
}

pub(crate) use each;

/// The layers of a filter in a layout of the list, with or without a window.
pub trait Listed: Layered + Into<Layers> {
    /// The layers, if they are of this kind.
    fn among(layers: &Layers) -> Option<&Self>;

    /// The layers, if they are of this kind, to be changed.
    fn among_mut(layers: &mut Layers) -> Option<&mut Self>;
}

/// How [`Layers`] holds a chain or a ring: in place, or in a block of its own that can be moved.
trait Held {
    /// Lets `mover` move the block.
    fn relocate_own_block(&mut self, mover: &mut impl Mover);
}

impl<R: Rules> Held for Chain<R> {
    fn relocate_own_block(&mut self, _: &mut impl Mover) {}
}

impl<L> Held for Box<L> {
    fn relocate_own_block(&mut self, mover: &mut impl Mover) {
        mover.boxed(self);
    }
}

impl Layers {
    /// See [`Filter::contains`](crate::Filter::contains).
    #[inline(always)]
    pub fn contains(&self, item: Item<'_>, now: Time) -> bool {
        match self {
            Self::Windowed(ring) => ring.contains(item, now),
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
            Self::Windowed(ring) => ring.contains_blocks(items, now, found),
            Self::Blocked(chain) => chain.contains_blocks(items, found),
            Self::Valkey(chain) => chain.contains_blocks(items, found),
            Self::Classic(chain) => chain.contains_blocks(items, found),
        }
    }

    /// See [`Filter::add`](crate::Filter::add).
    #[inline(always)]
    pub fn add(&mut self, item: Item<'_>, now: Time, allowance: Allowance<'_>) -> Result<bool, Error> {
        match self {
            Self::Windowed(ring) => ring.add(item, now, allowance),
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
            Self::Windowed(ring) => ring.add_blocks(items, now, allowance, added),
            Self::Blocked(chain) => chain.add_blocks(items, allowance, added),
            Self::Valkey(chain) => chain.add_blocks(items, allowance, added),
            Self::Classic(chain) => chain.add_blocks(items, allowance, added),
        }
    }

    /// See [`Filter::relocate`](crate::Filter::relocate).
    pub fn relocate(&mut self, first: usize, mover: &mut impl Mover) -> Option<usize> {
        if first == 0 {
            each!(self, held => held.relocate_own_block(mover));
        }
        each!(self, layers => layers.relocate(first, mover))
    }

    /// The layers, if they are of this kind.
    #[inline]
    pub fn get<L: Listed>(&self) -> Option<&L> {
        L::among(self)
    }

    /// The layers, if they are of this kind, to be changed.
    pub fn get_mut<L: Listed>(&mut self) -> Option<&mut L> {
        L::among_mut(self)
    }

    /// [`Filter::bytes`](crate::Filter::bytes) of a filter with these layers and no exceptions.
    pub fn bytes(&self) -> u64 {
        let layers = self.as_layered();
        layers.bytes(layers.count())
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
