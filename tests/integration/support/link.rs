//! Primaries and replicas.

use crate::server::{Server, until};

/// Settings that differ from every default.
pub const UNUSUAL: &str = "bf-error-rate 0.0123456789 bf-initial-size 50 bf-expansion-factor 3 bf-seed 77";

/// Waits until the replica has everything that the primary has.
pub fn in_step(primary: &Server, replica: &Server) {
    let offset = |server: &Server| server.client().stat("replication", "master_repl_offset");
    until("the replica follows", || {
        replica.client().stat("replication", "master_link_status") == "up"
            && offset(primary) == offset(replica)
    });
}
