//! A replica that answers while it loads. What replicas have in the end is in the table in `states`.

use crate::filters::same;
use crate::server::{Server, skip, until};
use crate::support::link::in_step;

/// How often something has happened to the primary's replicas.
fn count(primary: &Server, what: &str) -> u64 {
    primary.client().stat("stats", what).parse().unwrap()
}

fn linked(replica: &Server) {
    until("the replica has its primary's data", || {
        replica.client().stat("replication", "master_link_status") == "up"
    });
}

/// A replica that takes writes of its own, and answers while it loads, would never again have its primary's data: a
/// filter above its own limit would end each synchronisation, and the next one would begin.
#[test]
fn a_replica_that_answers_while_it_loads_has_no_limits() {
    if !Server::version().at_least(7, 0) {
        skip!("this server does not answer while it loads");
    }
    let primary = Server::with()
        .config("repl-diskless-sync", "yes")
        .config("repl-diskless-sync-delay", 0)
        .config("repl-backlog-size", "16kb")
        .start();
    let replica = Server::with()
        .config("repl-diskless-load", "swapdb")
        .config("replica-read-only", "no")
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    linked(&replica);
    let full = count(&primary, "sync_full");
    let mut client = primary.client();
    // All at once: before the replica comes back, what it has missed must be more than the primary keeps.
    client.run("MULTI");
    client.run("CLIENT KILL TYPE replica");
    client.run("BF.INSERT key CAPACITY 10000 ITEMS a b c");
    for _ in 0..10 {
        client.call(&["SET", "missed", &"x".repeat(100_000)]);
    }
    client.run("EXEC").elements();
    until("a full synchronisation", || count(&primary, "sync_full") > full);
    in_step(&primary, &replica);
    replica.client().answers(&[("BF.CARD key", 3.into())]);
    same(&primary, &replica, &["key"], "the replica");
    let log = replica.log();
    assert!(!log.contains("was not loaded"), "{log}");
}
