//! A replica that answers while it loads. What replicas have in the end is in the table in `states`.

use crate::filters::same;
use crate::server::{Server, Setup, skip, until};
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

/// A primary that sends all data at once, and keeps little of what a replica may miss.
fn primary() -> Setup {
    Server::with()
        .config("repl-diskless-sync", "yes")
        .config("repl-diskless-sync-delay", 0)
        .config("repl-backlog-size", "16kb")
}

/// Runs a command while the replicas are away, and has them ask for all data.
fn synchronise(primary: &Server, command: &str) {
    let (full, mut client) = (count(primary, "sync_full"), primary.client());
    // All at once: before the replica comes back, what it has missed must be more than the primary keeps.
    client.run("MULTI");
    client.run("CLIENT KILL TYPE replica");
    client.run(command);
    for _ in 0..10 {
        client.call(&["SET", "missed", &"x".repeat(100_000)]);
    }
    client.run("EXEC").elements();
    until("a full synchronisation", || count(primary, "sync_full") > full);
}

/// A replica that takes writes of its own, and answers while it loads, would never again have its primary's data: a
/// filter above its own limit would end each synchronisation, and the next one would begin.
#[test]
fn a_replica_that_answers_while_it_loads_has_no_limits() {
    if !Server::version().at_least(7, 0) {
        skip!("this server does not answer while it loads");
    }
    let primary = primary().start();
    let replica = Server::with()
        .config("repl-diskless-load", "swapdb")
        .config("replica-read-only", "no")
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    linked(&replica);
    synchronise(&primary, "BF.INSERT key CAPACITY 10000 ITEMS a b c");
    in_step(&primary, &replica);
    replica.client().answers(&[("BF.CARD key", 3.into())]);
    same(&primary, &replica, &["key"], "the replica");
    let log = replica.log();
    assert!(!log.contains("was not loaded"), "{log}");
}

/// Whoever watches a replica would see twice its filters, and be told that memory runs out, for as long as it loads.
#[test]
fn what_is_still_loading_is_not_counted() {
    if !Server::version().at_least(7, 0) {
        skip!("this server does not answer while it loads");
    }
    let primary = primary().config("rdbcompression", "no").start();
    let replica = Server::with()
        .config("repl-diskless-load", "swapdb")
        .config("key-load-delay", 20_000)
        .replica_of(&primary)
        .start();
    linked(&replica);
    let mut client = primary.client();
    // The replica looks at its clients after each 2 MB of what comes.
    for key in 0..40 {
        client.run(&format!("BF.RESERVE key{key} 0.01 400000 LAYOUT CLASSIC"));
        client.run(&format!("BF.ADD key{key} item"));
    }
    in_step(&primary, &replica);
    let mut asked = replica.client();
    let mut figure = |name: &str| asked.stat("bf", name);
    let names = ["bf_filters", "bf_layers", "bf_bytes", "bf_items"];
    let before = names.map(&mut figure);
    assert_eq!(before[0], "40");
    synchronise(&primary, "PING");
    let (mut during, mut watched) = (0, replica.client());
    until("the replica has its primary's data", || {
        let loads = watched.stat("persistence", "async_loading") == "1";
        let figures = names.map(&mut figure);
        let still = watched.stat("persistence", "async_loading") == "1";
        if loads && still {
            during += 1;
            assert_eq!(figures, before, "while it loads");
        }
        watched.stat("replication", "master_link_status") == "up"
    });
    assert!(during > 0, "nobody was answered while it loaded");
    until("what it had before is freed", || names.map(&mut figure) == before);
}
