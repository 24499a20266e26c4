//! Primaries and replicas.

use crate::client::ok;
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

/// The server follows the other one, and has all that this one has.
pub fn follow(replica: &Server, primary: &Server) {
    let line = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    replica.client().answers(&[(&line, ok())]);
    in_step(primary, replica);
}

/// The replica did everything that its primary sent, without a word.
#[track_caller]
pub fn is_content(replica: &Server) {
    let log = replica.log();
    for complaint in [
        "sending an error to its",
        "was missing when its primary",
        "and not here:",
        "is not loaded",
    ] {
        assert!(!log.contains(complaint), "{log}");
    }
}
