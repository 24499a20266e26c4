//! What a new filter is made from, in any layout. Each layout's parameters are checked in its folder.

use crate::chain::Rules as _;
use crate::error::ParamError;
pub use crate::layouts::blocked::BlockedSpec;
pub use crate::layouts::classic::ClassicSpec;
pub use crate::layouts::valkey::ValkeySpec;
use crate::params::{Expansion, Layout, Tightening};

/// Everything that defines a new filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spec {
    /// This project's layout: rate, capacity, growth, seed, and how long items are remembered.
    Blocked(BlockedSpec),
    /// RedisBloom's layout: rate, capacity, whether the filter grows, and the expansion that is stored in any case.
    Classic(ClassicSpec),
    /// valkey-bloom's layout: rate, capacity, expansion, tightening ratio, and the keys of the hashes.
    Valkey(ValkeySpec),
}

impl Spec {
    /// The layout of the filter.
    pub fn layout(&self) -> Layout {
        match self {
            Self::Blocked(_) => Layout::Blocked,
            Self::Classic(_) => Layout::Classic,
            Self::Valkey(_) => Layout::Valkey,
        }
    }

    /// The false positive rate that the filter is made for.
    pub fn error_rate(&self) -> f64 {
        match self {
            Self::Blocked(spec) => spec.error_rate.value(),
            Self::Classic(spec) => spec.error_rate(),
            Self::Valkey(spec) => spec.rules().error_rate(),
        }
    }

    /// The number of items that the filter is made for.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Blocked(spec) => spec.capacity.items(),
            Self::Classic(spec) => spec.capacity(),
            Self::Valkey(spec) => spec.capacity(),
        }
    }

    /// The capacity of a new layer divided by that of the layer before it; `None` if the filter does not grow.
    pub fn expansion(&self) -> Option<u32> {
        match self {
            Self::Blocked(spec) => spec.growth.expansion().map(Expansion::factor),
            Self::Classic(spec) => spec.rules().growth_factor(),
            Self::Valkey(spec) => spec.rules().growth_factor(),
        }
    }

    /// Whether the filter has a window.
    pub fn has_window(&self) -> bool {
        matches!(self, Self::Blocked(spec) if spec.window.is_some())
    }
}

impl BlockedSpec {
    /// The filter of another layout with this rate, capacity and growth, this seed if its hash has one, and no window.
    pub fn in_layout(self, layout: Layout) -> Result<Spec, ParamError> {
        let (rate, capacity) = (self.error_rate.value(), self.capacity.items());
        let expansion = self.growth.expansion().map(Expansion::factor);
        Ok(match layout {
            Layout::Blocked => Spec::Blocked(self),
            Layout::Classic => {
                let stored = expansion.unwrap_or(ClassicSpec::UNUSED_EXPANSION);
                Spec::Classic(ClassicSpec::new(rate, capacity, stored, expansion.is_some())?)
            }
            Layout::Valkey => {
                let (factor, tightening) = (expansion.unwrap_or(0), Tightening::DEFAULT);
                let spec = ValkeySpec::new(rate, capacity, factor, tightening, self.seed.into())?;
                Spec::Valkey(spec)
            }
        })
    }
}

impl From<BlockedSpec> for Spec {
    fn from(spec: BlockedSpec) -> Self {
        Self::Blocked(spec)
    }
}
