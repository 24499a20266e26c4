//! What a command creates, with every option resolved: a filter and its key's expiry; and which filter it changed.

use libbloom::params::Time;
use libbloom::spec::Spec;

/// A key to be created with its filter, with every option resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Creation {
    /// The filter.
    pub filter: Spec,
    /// When the key expires, in milliseconds of the Unix clock.
    pub expires: Option<i64>,
}

impl From<Spec> for Creation {
    /// A key without an expiry.
    fn from(filter: Spec) -> Self {
        let expires = None;
        Self { filter, expires }
    }
}

/// The filter that a command changed, as the propagated command must describe it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The filter if the same command created it; `None` for an existing one.
    pub created: Option<Creation>,
    /// The time of the change, for a filter with a window.
    pub at: Option<Time>,
}

impl From<Creation> for Target {
    /// A new filter that no item with a time was added to.
    fn from(creation: Creation) -> Self {
        let (created, at) = (Some(creation), None);
        Self { created, at }
    }
}
