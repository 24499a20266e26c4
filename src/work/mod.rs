//! What commands do to a key: they make its filter, change it, and propagate that.

pub mod adding;
pub mod changing;
pub mod creation;
pub mod packed;
pub mod propagation;
pub mod sources;
pub mod window;
