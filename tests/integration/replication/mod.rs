//! Replicas, clusters and failovers: the same filters on every server.

mod cluster;
mod creations;
mod failover;
mod packed;
mod propagation;
mod replicas;
pub mod slots;
mod window;
