//! What a command creates, with every option resolved: a filter and its key's expiry; and which filter items were
//! added to.

use libbloom::StoredLayout;
use libbloom::chain::{Allowance, MOST_ITEMS, MOST_LAYERS};
use libbloom::params::{ClassicSpec, Expansion, Spec, Time, ValkeySpec};
use libbloom::plan::Plan;
use libbloom::{Error, Filter};

/// A key to be created with its filter, with every option resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Creation {
    /// The filter.
    pub filter: FilterSpec,
    /// When the key expires, in milliseconds of the Unix clock.
    pub expires: Option<i64>,
}

/// A filter to be created. Those in the layouts of RedisBloom and valkey-bloom may have parameters that only these
/// modules accept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterSpec {
    /// Within this module's own bounds.
    Own(Spec),
    /// In RedisBloom's layout.
    Classic(ClassicSpec),
    /// In valkey-bloom's layout.
    Valkey(ValkeySpec),
}

impl From<FilterSpec> for Creation {
    /// A key without an expiry.
    fn from(filter: FilterSpec) -> Self {
        let expires = None;
        Self { filter, expires }
    }
}

impl FilterSpec {
    /// The error rate of the filter.
    pub fn error_rate(self) -> f64 {
        match self {
            Self::Own(spec) => spec.error_rate.value(),
            Self::Classic(spec) => spec.error_rate(),
            Self::Valkey(spec) => spec.error_rate(),
        }
    }

    /// The number of items that the filter is made for.
    pub fn capacity(self) -> u64 {
        match self {
            Self::Own(spec) => spec.capacity.items(),
            Self::Classic(spec) => spec.capacity(),
            Self::Valkey(spec) => spec.capacity(),
        }
    }

    /// The capacity of a new layer divided by that of the layer before it; `None` if the filter does not grow.
    pub fn expansion(self) -> Option<u32> {
        match self {
            Self::Own(spec) => spec.growth.expansion().map(Expansion::factor),
            Self::Classic(spec) => spec.scales().then_some(spec.expansion()),
            Self::Valkey(spec) => Some(spec.expansion()).filter(|&factor| factor > 0),
        }
    }

    /// Whether the filter has a window.
    pub fn has_window(self) -> bool {
        matches!(self, Self::Own(spec) if spec.window.is_some())
    }

    /// The capacity of the filter with all the layers that it can have. In the layouts of RedisBloom and valkey-bloom it
    /// takes as long as making some ten filters.
    pub fn most_items(self) -> u64 {
        let Some(factor) = self.expansion() else {
            return self.capacity();
        };
        let items = if let Self::Own(_) = self {
            let next = |layer: &u64| Some(layer.saturating_mul(factor.into()));
            let layers = std::iter::successors(Some(self.capacity()), next);
            layers.take(MOST_LAYERS).fold(0, u64::saturating_add)
        } else {
            // The error rates of these layouts shrink from layer to layer, and may reach 0 before.
            let plan = self.plan(u64::MAX, MOST_LAYERS);
            let layers = plan.layers().iter().map(|layer| layer.capacity);
            layers.fold(0, u64::saturating_add)
        };
        items.min(MOST_ITEMS)
    }

    /// The layout of the filter.
    pub fn layout(self) -> StoredLayout {
        match self {
            Self::Own(spec) => spec.layout.stored(),
            Self::Classic(_) => StoredLayout::Classic,
            Self::Valkey(_) => StoredLayout::Valkey,
        }
    }

    /// The sizes of the filter as it grows to `items` items, with at most `most` layers: see [`Plan::new`].
    pub fn plan(self, items: u64, most: usize) -> Plan {
        match self {
            Self::Own(spec) => Plan::new(spec, items, most),
            Self::Classic(spec) => Plan::classic(spec, items, most),
            Self::Valkey(spec) => Plan::valkey(spec, items, most),
        }
    }

    /// The filter.
    ///
    /// # Errors
    /// [`Error::OverLimit`] or [`Error::OutOfMemory`]; nothing is left behind.
    pub fn make(self, allowance: Allowance<'_>) -> Result<Filter, Error> {
        match self {
            Self::Own(spec) => Filter::new(spec, allowance),
            Self::Classic(spec) => Filter::classic(spec, allowance),
            Self::Valkey(spec) => Filter::valkey(spec, allowance),
        }
    }
}

/// The filter that items were added to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The filter if the same command created it; `None` for an existing one.
    pub created: Option<Creation>,
    /// The time of the change, for a filter with a window.
    pub at: Option<Time>,
}
