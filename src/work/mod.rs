//! What commands do to a key: they make its filter, change it, and propagate that.

pub(crate) mod adding;
pub(crate) mod changing;
pub(crate) mod creation;
pub mod packed;
pub mod propagation;
pub(crate) mod sources;
pub(crate) mod window;
