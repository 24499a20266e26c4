//! Filters that are freed on other threads, the server's and the module's own, while others of the same seed are made,
//! used and freed. Under ThreadSanitizer (`make sanitize`) this looks at every access to what they share.

use std::time::Duration;

use crate::client::{Client, Reply, ok};
use crate::server::{Server, sample, until};

/// Filters of more than a MiB: from there on they are freed on another thread.
const CREATION: &str = "0.01 1000000";

/// The filters, layers, bytes and items that the module counts.
fn figures(client: &mut Client) -> Vec<String> {
    ["bf_filters", "bf_layers", "bf_bytes", "bf_items"]
        .map(|name| client.stat("bf", name))
        .into()
}

/// What all filters of a seed share is given back with the last of them. If that met with the next one on its way, a
/// new filter would find nothing, or the server end.
#[test]
fn what_is_freed_elsewhere_harms_no_filter_of_the_same_seed() {
    let server = Server::with()
        .config("lazyfree-lazy-server-del", "yes")
        .config("lazyfree-lazy-expire", "yes")
        .start();
    let mut client = server.client();
    let items: Vec<_> = (0..1000).map(|item| item.to_string()).collect();
    for round in 0..sample(40) {
        let seed = round % 3;
        let add = |client: &mut Client, key: &str| {
            assert_eq!(
                client.over(&format!("BF.MADD {key}"), &items).elements().len(),
                1000
            );
        };
        let found = |client: &mut Client, key: &str| {
            let found = client.over(&format!("BF.MEXISTS {key}"), &items);
            assert_eq!(
                found.elements(),
                [const { Reply::Int(1) }; 1000],
                "{key} in round {round}"
            );
        };
        for key in ["unlinked", "reset", "kept"] {
            client.run(&format!("BF.RESERVE {key} {CREATION} SEED {seed}"));
            add(&mut client, key);
            found(&mut client, key);
        }
        client.run(&format!("BF.RESERVE window {CREATION} WINDOW 1000 SEED {seed}"));
        add(&mut client, "window");
        // In each of these goes what the next command makes anew.
        client.run("UNLINK unlinked");
        client.run(&format!("BF.RESERVE unlinked {CREATION} SEED {seed}"));
        add(&mut client, "unlinked");
        client.answers(&[("BF.RESET reset", ok()), ("BF.RESET window", ok())]);
        add(&mut client, "reset");
        client.answers(&[("COPY kept unlinked REPLACE", 1.into()), ("SET reset text", ok())]);
        client.run(&format!("BF.RESERVE last {CREATION} SEED {seed}"));
        client.answers(&[("PEXPIRE last 1", 1.into())]);
        add(&mut client, "window");
        for key in ["unlinked", "kept", "window"] {
            found(&mut client, key);
        }
        client.answers(&[("FLUSHALL ASYNC", ok())]);
    }
    // The module's own thread says nothing of its work. When all was given back, a filter has its seed's secret for
    // itself, as one has whose seed was never used.
    until("all is given back", || {
        let all = figures(&mut client);
        all.iter().all(|figure| figure == "0")
    });
    client.run("BF.RESERVE alone 0.01 100 SEED 1");
    client.run("BF.RESERVE other 0.01 100 SEED 99");
    let [alone, other] = ["alone", "other"].map(|key| client.run(&format!("MEMORY USAGE {key}")).int());
    // A secret has more than 200 bytes. Only libc's malloc gives blocks that are somewhat larger than others.
    let is_exact = client.stat("memory", "mem_allocator").starts_with("jemalloc");
    let slack = if is_exact { 0 } else { 64 };
    assert!((alone - other).abs() <= slack, "{alone} and {other}");
    assert!(server.is_alive());
}

/// Whether the module has a thread in the process.
#[cfg(target_os = "linux")]
fn has_thread(pid: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")));
    // A thread of the server may end meanwhile.
    names.flatten().any(|name| name.trim_end() == "bloom_free")
}

/// Every client would wait while a large filter is freed that a command takes apart.
#[cfg(target_os = "linux")]
#[test]
fn what_is_large_is_freed_on_a_thread_of_the_module() {
    for maxmemory in ["0", "1gb"] {
        let server = Server::with().config("maxmemory", maxmemory).start();
        let mut client = server.client();
        let pid = client.stat("server", "process_id");
        let is_there = || has_thread(&pid);
        // A thread sets its own name, a little later.
        client.answers(&[("BF.ADD small item", Reply::Int(1)), ("BF.RESET small", ok())]);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_there());
        client.answers(&[
            (&format!("BF.RESERVE large {CREATION}"), ok()),
            ("BF.ADD large item", Reply::Int(1)),
            ("BF.RESET large", ok()),
        ]);
        until("the thread is there", is_there);
    }
}

/// The server would evict keys, the emptied filter among them, or refuse the next one, for what a thread of the module
/// has not freed yet.
#[cfg(target_os = "linux")]
#[test]
fn near_maxmemory_nothing_is_left_to_a_thread() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        (&format!("BF.RESERVE large {CREATION}"), ok()),
        ("BF.ADD large item", Reply::Int(1)),
        ("SET text value", ok()),
        // The limit has room for data of a filter and a quarter more.
        (&format!("SET ballast {}", "x".repeat(1 << 20)), ok()),
    ]);
    client.answers(&[
        ("CONFIG SET maxmemory-policy allkeys-lru", ok()),
        ("SET other value", ok()),
    ]);
    let used = client.used_memory();
    // With both filters the server is over the first limit. Below the second one there is no room for a third.
    for most in [used + (1 << 20), used + (3 << 20)] {
        client.answers(&[
            (&format!("CONFIG SET maxmemory {most}"), ok()),
            ("BF.RESET large", ok()),
            ("SET other value", ok()),
            ("BF.ADD large item", Reply::Int(1)),
            ("BF.INTERSECT large 1 large", ok()),
            ("SET text value", ok()),
            ("BF.EXISTS large item", Reply::Int(1)),
            ("DBSIZE", Reply::Int(4)),
        ]);
    }
    assert_eq!(client.stat("stats", "evicted_keys"), "0");
    assert!(!has_thread(&client.stat("server", "process_id")));
}
