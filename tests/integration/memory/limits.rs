//! Limits of memory: each of them holds, whatever the others are, and for every way to a filter.

use serial_test::serial;

use crate::client::{Client, Reply, array, error, ok};
use crate::filters::with_very_many_layers;
use crate::server::{Server, until};
use crate::support::chunks::{load, scandump};
use crate::support::link::in_step;

const MIB: i64 = 1 << 20;
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const TOO_MANY: &str =
    "ERR the filter would have more than 1100 layers: with a larger capacity or EXPANSION it needs fewer";
/// The most layers of a client's filter.
const MOST: i64 = 1100;
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_EXCEPTIONS: &str = "ERR Insufficient memory for exceptions";
const NO_LAYER: &str =
    "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity";

fn number(client: &mut Client, name: &str) -> u64 {
    client.stat("memory", name).parse().unwrap()
}

/// Lets the server have `bytes` more than it has.
fn leave(client: &mut Client, bytes: u64) {
    let limit = number(client, "used_memory") + bytes;
    client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
}

/// An owner who sets a limit for filters would lift the one for the server.
#[test]
fn the_lower_limit_counts() {
    let server = Server::with()
        .module_args("bf-max-filter-bytes 20mb")
        .config("maxmemory", "100mb")
        .start();
    let mut client = server.client();
    // 20 MB is enough for some 15 million items at 0.01.
    client.refuses("key", &[("BF.RESERVE key 0.01 20000000", NO_CREATION)]);
    client.answers(&[("BF.RESERVE key 0.01 10000000", ok())]);
    leave(&mut client, 5_000_000);
    client.refuses("other", &[("BF.RESERVE other 0.01 10000000", NO_CREATION)]);
    client.answers(&[("BF.RESERVE other 0.01 2000000", ok())]);
}

/// Two filters that each fit would together take what the machine does not have, and the kernel would end the
/// server when they fill.
#[test]
#[serial(memory)]
fn all_filters_together_keep_to_the_machine() {
    let server = Server::start();
    let mut client = server.client();
    // At 0.01 an item takes 1.3 bytes.
    let items = number(&mut client, "total_system_memory") / 100 * 45;
    client.answers(&[(&format!("BF.RESERVE one 0.01 {items}"), ok())]);
    let line = format!("BF.RESERVE other 0.01 {items}");
    client.refuses("other", &[(&line, NO_CREATION)]);
    client.answers(&[("UNLINK one", 1.into()), ("BF.ADD other item", 1.into())]);
}

/// Who may store a filter would get past the limits: one that names a larger capacity than it has bits for would be as
/// large as that when it is emptied, also in a server that has no memory left.
#[test]
fn what_is_emptied_has_limits_too() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 1000 SEED 1", ok())]);
    let (_, mut header) = scandump(&mut client, "key").swap_remove(0);
    // The upper half of the layer's capacity.
    header[52] = 1;
    assert_eq!(
        client.call(&[&b"BF.LOADCHUNK"[..], b"stored", b"1", &header]),
        ok()
    );
    assert_eq!(client.info("stored", "Capacity"), (1 << 32) + 1000);
    let size = client.info("stored", "Size");
    leave(&mut client, 3 << 20);
    client.refuses("stored", &[("BF.RESET stored", NO_CREATION)]);
    client.answers(&[("CONFIG SET maxmemory 0", ok())]);
    assert_eq!(client.info("stored", "Size"), size);
    assert!(server.log().contains("key 'stored': a Bloom filter of "));
}

/// Lets the server have `bytes` more than it has with 500 KB that expire, under a policy of eviction; its limit.
fn leave_with_others(client: &mut Client, policy: &str, bytes: i64) -> i64 {
    for other in 0..500 {
        client.call(&["SET", &format!("other{other}"), &"x".repeat(1000), "EX", "1000"]);
    }
    let limit = number(client, "used_memory") as i64 + bytes;
    client.answers(&[
        (&format!("CONFIG SET maxmemory-policy {policy}"), ok()),
        (&format!("CONFIG SET maxmemory {limit}"), ok()),
    ]);
    limit
}

/// One command of a client would take a server so far over its limit that it refuses everybody, or throws away what it
/// holds, the filter too.
#[test]
fn no_command_takes_a_server_over_its_limit() {
    let items: Vec<u8> = (0..500_000_u32).flat_map(u32::to_be_bytes).collect();
    let add = [&b"BF.ADDPACKED"[..], b"key", b"WIDTH", b"4", b"COUNT", &items];
    // Layers of 20 KB to 2 MB, and slices.
    let mut filters: Vec<_> = [1000, 5000, 20_000, 45_000, 100_000]
        .map(|capacity| format!("BF.RESERVE key 1e-30 {capacity} EXPANSION 1"))
        .into();
    filters.push("BF.RESERVE key 1e-30 400000 WINDOW 86400 SLICES 64".to_owned());
    filters.push("BF.RESERVE key 1e-30 20000 EXPANSION 1 LAYOUT CLASSIC".to_owned());
    let sources: Vec<_> = (0..20).map(|source| format!("source{source}")).collect();
    for policy in ["noeviction", "allkeys-lru", "volatile-lru"] {
        for create in filters.iter().map(String::as_str).chain(["merge", "exceptions"]) {
            let server = Server::with().config("lazyfree-lazy-eviction", "no").start();
            let mut client = server.client();
            let what = format!("{policy}, {create}");
            match create {
                "merge" => {
                    for (capacity, source) in (20_000..).zip(&sources) {
                        client.answers(&[(&format!("BF.RESERVE {source} 1e-30 {capacity} SEED 1"), ok())]);
                        client.run(&format!("BF.ADD {source} item"));
                    }
                }
                "exceptions" => {
                    client.answers(&[("BF.RESERVE key 0.01 100000 SEED 1", ok())]);
                    client.over("BF.MADD key", &numbers(80_000));
                }
                create => client.answers(&[(create, ok())]),
            }
            let limit = leave_with_others(&mut client, policy, 6 * MIB);
            let reply = match create {
                "merge" => client.over(
                    "BF.MERGE key 20",
                    &[&sources[..], &["ERROR".into(), "1e-20".into()]].concat(),
                ),
                "exceptions" => client.over("BF.EXCEPT key", &numbers(80_000)),
                _ => client.call(&add),
            };
            until(&what, || number(&mut client, "used_memory") as i64 <= limit + MIB);
            match create {
                // All of it, or nothing.
                "merge" => {
                    assert!(reply == ok() || reply == error(NO_CREATION), "{what}: {reply:?}");
                    // Among all keys the new one may be what goes next.
                    if policy != "allkeys-lru" {
                        client.answers(&[("BF.EXISTS key item", i64::from(reply == ok()).into())]);
                    }
                }
                "exceptions" => {
                    let found = client.over("BF.MEXISTS key", &numbers(80_000));
                    let all = |answer: i64| array(vec![answer; 80_000]);
                    if reply == error(NO_EXCEPTIONS) {
                        assert!(found == all(1), "{what}: refused, and done for some");
                    } else {
                        assert!(reply == all(1) && found == all(0), "{what}: not done for all");
                    }
                }
                _ => {
                    let Reply::Error(text) = reply else {
                        panic!("{what}: all items are in: {reply:?}");
                    };
                    assert!(
                        text.starts_with(NO_GROWTH) || text.starts_with(TOO_MANY),
                        "{what}: {text}"
                    );
                    let count = client.run("BF.CARD key").int();
                    assert!((1000..450_000).contains(&count), "{what}: {count} items, {text}");
                }
            }
            assert!(server.is_alive(), "{what}");
        }
    }
}

/// A header of so many layers, each for one item.
fn header_of(layers: u32) -> Vec<u8> {
    const HEAD: usize = 48;
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE key 0.01 1 EXPANSION 1 SEED 1", ok()),
        ("BF.ADD key item", 1.into()),
    ]);
    let mut header = scandump(&mut client, "key").swap_remove(0).1;
    header[12..16].copy_from_slice(&layers.to_le_bytes());
    let mut layer = header.split_off(HEAD);
    // The rate of each of them: their sum is not to be above the filter's.
    layer[24..32].fill(0);
    header.extend(layer.repeat(layers as usize));
    header
}

/// The server would evict the filter that a command with a long argument has just made, for what it keeps for
/// the next such argument; or a filter that fits would be refused.
#[test]
fn what_a_command_makes_is_there_after_it() {
    let item = vec![b'x'; 4_000_000];
    let capacities = (1..=7).map(|capacity| (capacity * 100_000).to_string());
    let words = ["BF.INSERT", "key", "ERROR", "1e-30", "CAPACITY"];
    let insert = |capacity: &str| -> Vec<Vec<u8>> {
        let words = words.into_iter().chain([capacity, "ITEMS"]);
        words.map(Vec::from).chain([item.clone()]).collect()
    };
    let load =
        |layers| -> Vec<Vec<u8>> { vec!["BF.LOADCHUNK".into(), "key".into(), "1".into(), header_of(layers)] };
    let inserts: Vec<_> = capacities.map(|capacity| insert(&capacity)).collect();
    let loads: Vec<_> = (1..=7).map(|layers| load(layers * 10_000)).collect();
    for policy in ["noeviction", "allkeys-lru", "volatile-lru"] {
        for commands in [&inserts, &loads] {
            let mut made = 0;
            for command in commands {
                let server = Server::with().config("lazyfree-lazy-eviction", "no").start();
                let mut client = server.client();
                let limit = leave_with_others(&mut client, policy, 12 * MIB);
                let reply = client.call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
                let is_made = reply != error(NO_CREATION);
                let what = format!("{policy}, {} after {made}", command[0].escape_ascii());
                if is_made {
                    made += 1;
                    assert!(reply == ok() || reply == array([1]), "{what}: {reply:?}");
                }
                client.answers(&[("EXISTS key", i64::from(is_made).into())]);
                let used = number(&mut client, "used_memory") as i64;
                assert!(used <= limit + MIB, "{what}: {used} bytes of {limit}");
            }
            // What fits is made. Where any keys may go for it, that is more.
            let fit = if policy == "allkeys-lru" { 3 } else { 1 };
            assert!((fit..commands.len()).contains(&made), "{policy}: {made}");
        }
    }
}

fn numbers(count: u32) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// A batch of a client would keep the server busy for a time that grows with the square of its length, and every question
/// after it ask a hundred thousand layers.
#[test]
fn growth_of_clients_has_an_end() {
    let server = Server::start();
    let mut client = server.client();
    let line = "BF.RESERVE key 0.001 1 EXPANSION 1 SEED 1";
    let plan = client.run(&line.replace("BF.RESERVE key", "BF.PLAN"));
    assert_eq!(plan.field("Most items"), MOST.into());
    client.answers(&[(line, ok())]);
    let foreseen = "key 'key': with EXPANSION 1 the Bloom filter will hold 1100 items at most, and be slow before: it \
                        can have 1100 layers";
    assert!(server.log().contains(foreseen), "{}", server.log());
    let items = numbers(3000);
    let reply = client.over("BF.MADD key", &items);
    let (last, answers) = reply.elements().split_last().unwrap();
    assert_eq!(last, &error(TOO_MANY));
    let new: i64 = answers.iter().map(Reply::int).sum();
    assert_eq!(new, MOST, "items before it are in");
    assert_eq!(client.run("BF.CARD key"), MOST.into());
    assert_eq!(client.info("key", "Number of filters"), MOST);
    let again = client.over("BF.MADD key", &items[..answers.len()]);
    assert!(
        again.elements().iter().all(|new| *new == 0.into()),
        "what is there needs no layer"
    );
    let next = &items[answers.len()];
    client.answers(&[
        (&format!("BF.ADD key {next}"), error(TOO_MANY)),
        (
            &format!("BF.ADDPACKED key LINES {next}"),
            error(&format!("{TOO_MANY} after 0 items")),
        ),
        (&format!("BF.EXISTS key {next}"), 0.into()),
    ]);
    let line = "key 'key': a Bloom filter was refused more than 1100 layers: it was made for too few items";
    assert!(server.log().contains(line), "{}", server.log());
    // What is there is copied and stored whatever its length.
    client.answers(&[("COPY key copy", 1.into())]);
    assert_eq!(client.dump("copy"), client.dump("key"));
}

/// Whose filter cannot grow any further would read that it does not grow at all, or wait for layers that never come.
#[test]
fn filters_whose_rates_end_say_so() {
    let server = Server::start();
    let mut client = server.client();
    for layout in ["CLASSIC", "VALKEY"] {
        let (key, items) = (layout.to_lowercase(), numbers(10_000));
        client.answers(&[(
            &format!("BF.RESERVE {key} 0.01 2 EXPANSION 1 LAYOUT {layout}"),
            ok(),
        )]);
        let reply = client.over(&format!("BF.MADD {key}"), &items);
        let (last, answers) = reply.elements().split_last().unwrap();
        assert_eq!(last, &error(NO_LAYER), "{layout}");
        let next = &items[answers.len()];
        client.answers(&[
            (&format!("BF.ADD {key} {next}"), error(NO_LAYER)),
            (&format!("BF.ADD {key} {}", items[0]), 0.into()),
        ]);
        let layers = client.info(&key, "Number of filters");
        assert!((1000..MOST).contains(&layers), "{layout}: {layers}");
        let line = format!(
            "key '{key}': with EXPANSION 1 the Bloom filter will hold {} items at most, and be slow before: it can have \
             {layers} layers",
            2 * layers
        );
        assert!(server.log().contains(&line), "{line}\n{}", server.log());
        // One that was told not to grow has another reason.
        let full = error("ERR non scaling filter is full");
        client.answers(&[(
            &format!("BF.RESERVE fixed-{key} 0.01 1 NONSCALING LAYOUT {layout}"),
            ok(),
        )]);
        // Of one item alone, a tiny filter may say that it has it already.
        let reply = client.over(&format!("BF.MADD fixed-{key}"), &items);
        assert_eq!(reply.elements().last(), Some(&full), "{layout}");
    }
}

/// A client that brings a filter of very many layers would make the server stand still with every batch; or a batch
/// that a primary or a file has would be refused.
#[test]
fn batches_are_held_against_the_layers_of_a_filter() {
    const LAYERS: usize = 3000;
    let known = vec!["0"; 20_000];
    let server = with_very_many_layers(&numbers(3000), &[&known]);
    let mut client = server.client();
    let layers = client.info("key", "Number of filters").unsigned_abs() as usize;
    assert!((LAYERS - 100..=LAYERS).contains(&layers), "{layers}");
    let digest = client.run("DEBUG DIGEST-VALUE key");
    let most = (1 << 25) / layers;
    for (line, packed) in [
        ("BF.MEXISTS key", false),
        ("BF.MADD key", false),
        ("BF.INSERT key ITEMS", false),
        ("BF.EXCEPT key", false),
        ("BF.EXISTSPACKED key LINES", true),
        ("BF.ADDPACKED key LINES COUNT", true),
    ] {
        let mut send = |count: usize| {
            let items = &known[..count];
            if packed {
                client.over(line, &[items.join("\n")])
            } else {
                client.over(line, items)
            }
        };
        let text = format!(
            "ERR looking up {} items in {layers} layers would take too long: the product may be 33554432 at most",
            most + 1
        );
        assert_eq!(send(most + 1), error(&text), "{line}");
        let reply = send(most);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        if line == "BF.EXCEPT key" {
            client.answers(&[("BF.ADD key 0", 1.into())]);
        }
    }
    assert_eq!(client.run("DEBUG DIGEST-VALUE key"), digest);
    // Of what clients make themselves a batch may have any length.
    client.answers(&[("BF.RESERVE own 0.001 1 EXPANSION 1", ok())]);
    client.over("BF.MADD own", &numbers(1000));
    let found = client.over("BF.MEXISTS own", &vec!["0"; 100_000]);
    assert_eq!(found.elements().len(), 100_000);
}

/// A filter that was made by an earlier version would be lost with the file that it is in; or clients would make it longer
/// still, also by a union.
#[test]
fn stored_filters_are_as_long_as_they_are() {
    let items = numbers(2000);
    let server = with_very_many_layers(&items, &[]);
    let mut client = server.client();
    let layers = client.info("key", "Number of filters");
    assert!((1900..=2000).contains(&layers), "{layers}");
    let replica = Server::with().replica_of(&server).start();
    client.answers(&[
        ("BF.ADD key 0", 0.into()),
        ("BF.ADD key another", error(TOO_MANY)),
        ("COPY key copy", 1.into()),
        ("BF.ADD other item", 1.into()),
        ("BF.RESERVE other2 0.001 70 SEED 1", ok()),
        ("BF.ADD other2 item", 1.into()),
        ("BF.MERGE copy 1 other2 ERROR 0.25", error(TOO_MANY)),
        ("BF.MERGE union 2 key other2 ERROR 0.25", error(TOO_MANY)),
        ("EXISTS union", 0.into()),
    ]);
    let chunks = scandump(&mut client, "key");
    load(&mut client, "chunks", &chunks);
    let found = client.over("BF.MEXISTS chunks", &items);
    assert!(found.elements().iter().all(|found| *found == 1.into()));
    in_step(&server, &replica);
    assert_eq!(replica.client().dump("chunks"), client.dump("chunks"));
}
