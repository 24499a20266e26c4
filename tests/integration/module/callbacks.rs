//! What the server asks of the data type: how much memory a filter holds, to free it, and to move it.

use serial_test::serial;

use crate::client::{Client, Reply, array, clock, ok};
use crate::filters;
use crate::server::{Server, sample, skip, until};
use crate::support::items::numbered;

/// Chunks of BF.SCANDUMP and BF.LOADCHUNK have this many bytes at most.
const CHUNK: usize = 16 << 20;

fn freed_in_background(client: &mut Client) -> i64 {
    client.stat("memory", "lazyfreed_objects").parse().unwrap()
}

fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key:{number:06}"))
}

/// What `count` keys take, as the server's allocator tells, and as MEMORY USAGE does.
fn weigh(client: &mut Client, count: usize, make: impl Fn(&mut Client, &str)) -> (i64, i64) {
    client.answers(&[("FLUSHALL SYNC", ok())]);
    let before = client.used_memory();
    keys(count).for_each(|key| make(client, &key));
    let held = client.used_memory() - before;
    let reported = keys(count).map(|key| client.run(&format!("MEMORY USAGE {key}")).int());
    (held, reported.sum())
}

/// Whoever looks for what fills the memory would be sent after the wrong keys.
#[test]
fn memory_usage_is_what_the_allocator_holds() {
    let server = Server::start();
    let mut client = server.client();
    for (count, options) in [
        (8192, "0.01 10"),
        (8192, "0.01 100 GROWING"),
        (8192, "0.01 100 SEED own"),
        (8192, "0.001 100 LAYOUT CLASSIC"),
        (4096, "0.01 100 WINDOW 1000 SEED own"),
        (2048, "1e-4 2000"),
        (256, "0.01 100000"),
        (256, "0.01 77777 LAYOUT CLASSIC"),
        (4, "1e-9 10000000"),
    ] {
        // What the server needs for keys of these names besides the values, it needs for strings too, if they are so
        // long that it does not put them into one allocation with the key.
        let text = "long ".repeat(40);
        let later = (clock(&mut client) + 500_000).to_string();
        let (held, reported) = weigh(&mut client, count, |client, key| {
            client.call(&["SET", key, &text]);
        });
        let keys = held - reported;
        let (held, reported) = weigh(&mut client, count, |client, key| {
            // A number that no other filter has, and that does not follow from the one before.
            let number: u64 = key.trim_start_matches("key:").parse().unwrap();
            let own = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string();
            client.run(&format!("BF.RESERVE {key} {}", options.replace("own", &own)));
            if options.contains("WINDOW") {
                // Layers that came and went, and two that are there.
                for line in ["INSERT {} AT 1 ITEMS a", "ADD {} a", "INSERT {} AT @ ITEMS b"] {
                    client.run(&format!("BF.{}", line.replace("{}", key).replace('@', &later)));
                }
            }
        });
        let (held, count) = (held - keys, count as i64);
        // A value of a module has two headers of the server, of which the module knows the sizes; an allocator
        // may round each up, by 8 bytes on average: that is the slack of a key.
        let off = (reported - held).abs() - 16 * count;
        assert!(off <= held / 50, "{options}: {reported} reported, {held} held");
    }
}

/// What a command learns from a filter to be fast must not look like memory of other filters.
#[test]
fn memory_usage_is_the_same_after_a_question() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 1000 SEED 7", ok())]);
    let usage = |client: &mut Client| client.run("MEMORY USAGE key").int();
    let before = usage(&mut client);
    client.answers(&[("BF.EXISTS key item", Reply::Int(0))]);
    assert_eq!(usage(&mut client), before);
    client.answers(&[("BF.ADD key item", Reply::Int(1))]);
    assert_eq!(usage(&mut client), before);
}

/// Makes a filter of `bytes` bytes, all of which were written to.
fn touched(client: &mut Client, key: &str, bytes: usize) {
    let capacity = bytes / 2;
    client.answers(&[(&format!("BF.RESERVE {key} 0.0001 {capacity} NONSCALING"), ok())]);
    let size = client.info(key, "Size").unsigned_abs() as usize;
    let chunk = vec![0x11; CHUNK];
    let mut at = 1;
    // A few bytes are not of the bit array.
    while at + CHUNK < size {
        at += CHUNK;
        let loaded = client.call(&[b"BF.LOADCHUNK", key.as_bytes(), at.to_string().as_bytes(), &chunk]);
        assert_eq!(loaded, ok());
    }
}

/// Microseconds that the server spends in a command. Its other figures begin anew with that command.
fn cost(client: &mut Client, line: &str) -> f64 {
    client.answers(&[("CONFIG RESETSTAT", ok())]);
    client.run(line);
    let command = line.split(' ').next().unwrap().to_lowercase();
    let line = client.stat("commandstats", &format!("cmdstat_{command}"));
    let field = line.split(',').find_map(|field| field.strip_prefix("usec="));
    field.unwrap().parse().unwrap()
}

/// The least of some measurements: what a busy machine adds is not the server's.
fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..3).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// How often a measurement that a busy machine spoils is taken again.
const ATTEMPTS: usize = 50;

/// A gigabyte given back to the kernel at once would stop the server for all of its clients.
#[test]
#[serial(memory)]
fn large_filters_are_freed_in_the_background() {
    // In Valkey DEL is an UNLINK unless told otherwise.
    let server = Server::with().config("lazyfree-lazy-user-del", "no").start();
    let mut client = server.client();
    let (bytes, before) = (sample(43) << 20, client.used_memory());
    let delete = least(|| {
        touched(&mut client, "large", bytes);
        let cost = cost(&mut client, "DEL large");
        assert_eq!(freed_in_background(&mut client), 0);
        cost
    });
    client.run("BF.ADD small item");
    cost(&mut client, "UNLINK small");
    assert_eq!(
        freed_in_background(&mut client),
        0,
        "small ones are not worth a thread"
    );
    for line in ["UNLINK key", "FLUSHALL ASYNC", "FLUSHDB ASYNC"] {
        let small = least(|| {
            client.run("BF.ADD key item");
            cost(&mut client, line)
        });
        let limit = (20.0 * small).max(delete / 10.0);
        // The thread that frees may take the place of the one that answers, where processors are scarce. A server
        // that freed it itself would take as long as for DEL, each time.
        let mut costs = Vec::new();
        while costs.last().is_none_or(|last| *last > limit) {
            assert!(
                costs.len() < ATTEMPTS,
                "{line} takes {costs:?} us, of a small filter {small}, DEL {delete}"
            );
            touched(&mut client, "key", bytes);
            costs.push(cost(&mut client, line));
            // A small one that was flushed before may be counted late.
            until("it is freed", || {
                freed_in_background(&mut client) >= 1
                    && client.stat("memory", "lazyfree_pending_objects") == "0"
            });
        }
    }
    until("all memory is given back", || {
        client.used_memory() - before < 1 << 20
    });
}

/// An evicted filter would stop the server in the middle of somebody else's command.
#[test]
#[serial(memory)]
fn large_filters_are_evicted_in_the_background() {
    let server = Server::with()
        .config("lazyfree-lazy-eviction", "yes")
        .config("maxmemory-policy", "allkeys-lru")
        .config("lazyfree-lazy-user-del", "no")
        .start();
    let mut client = server.client();
    touched(&mut client, "large", 64 << 20);
    let limit = client.used_memory() - (1 << 20);
    client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
    // A server that waits in vain for the other thread, half a millisecond or so, refuses the write.
    until("there is room for a key", || client.run("SET key value") == ok());
    until("it is evicted", || client.stat("stats", "evicted_keys") != "0");
    until("it is freed", || freed_in_background(&mut client) == 1);
    client.answers(&[("EXISTS large", 0.into()), ("EXISTS key", 1.into())]);
}

/// The filters of many small layers whose memory is put in order, and how many items they begin with and end with at
/// most. Each item is a layer; a client's filter has 1,100 at most.
const CHAINS: usize = 16;
const LAYERS: usize = 900;
const MOST_LAYERS: usize = 1100;

/// Of so many such filters, filled in turn, one stays.
const THINNED: usize = 4;

/// Reserves a filter that is equal on every server, in which one item fills a layer.
fn reserve_chain(client: &mut Client, key: &str) {
    client.answers(&[(&format!("BF.RESERVE {key} 0.01 1 EXPANSION 1 SEED 7"), ok())]);
}

/// Makes the chains, with holes all around their layers.
fn make_chains(client: &mut Client) {
    let named = |number: usize| match number % THINNED {
        0 => format!("chain:{}", number / THINNED),
        _ => format!("dropped:{number}"),
    };
    let all: Vec<_> = (0..CHAINS * THINNED).map(named).collect();
    all.iter().for_each(|key| reserve_chain(client, key));
    for from in (0..LAYERS).step_by(5) {
        all.iter()
            .for_each(|key| filters::fill(client, key, from, from + 5));
    }
    let dropped = all.iter().filter(|key| key.starts_with("dropped"));
    dropped.for_each(|key| client.answers(&[(&format!("DEL {key}"), 1.into())]));
}

/// Excepts a range of the numbered items from every second chain.
fn except_from_chain(client: &mut Client, number: usize, from: usize, to: usize) {
    if number.is_multiple_of(2) && from < to {
        let key = format!("chain:{number}");
        except(client, &key, &numbered(&format!("{key}:"), from, to));
    }
}

/// Excepts items which the filter has.
fn except(client: &mut Client, key: &str, items: &[Vec<u8>]) {
    let reply = client.over(&format!("BF.EXCEPT {key}"), items);
    assert_eq!(reply, array(vec![1; items.len()]), "{key}");
}

/// Adds an item to each chain but the last while there is room, and from some chains it is then excepted. The last is
/// begun anew, and has fewer layers than it had. Returns how many items each chain now has.
fn change_chains(client: &mut Client, items: usize) -> usize {
    let more = (items + 1).min(MOST_LAYERS);
    for number in 0..CHAINS - 1 {
        filters::fill(client, &format!("chain:{number}"), items, more);
        except_from_chain(client, number, items, more);
    }
    let last = format!("chain:{}", CHAINS - 1);
    client.answers(&[(&format!("DEL {last}"), 1.into())]);
    reserve_chain(client, &last);
    filters::fill(client, &last, 0, 50);
    more
}

/// Each chain is bit for bit what it is on a server that moves nothing.
fn compare_chains(client: &mut Client, items: usize) {
    let calm = Server::start();
    let mut other = calm.client();
    for number in 0..CHAINS {
        let key = format!("chain:{number}");
        reserve_chain(&mut other, &key);
        let items = if number + 1 < CHAINS { items } else { 50 };
        filters::fill(&mut other, &key, 0, items);
        except_from_chain(&mut other, number, LAYERS, items);
        assert!(client.dump(&key) == other.dump(&key), "{key} differs");
    }
}

/// After months of keys that come and go, the process would hold a multiple of what its filters need.
#[test]
fn defragmentation_moves_filters_and_loses_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let enabled = client.run("CONFIG SET activedefrag yes");
    if enabled != ok() {
        skip!("this server has no active defragmentation: {enabled:?}");
    }
    client.run("CONFIG SET activedefrag no");
    filters::make(&mut client);
    let expected = filters::snapshot(&mut client);
    // Filters of one and of several layers, most of which then go: their neighbours stay, with holes around.
    let count = 20_000;
    for (number, key) in keys(count).enumerate() {
        let capacity = 50 + number % 7 * 100;
        let window = if number % 40 == 0 { " WINDOW 100000" } else { "" };
        client.run(&format!(
            "BF.INSERT {key} CAPACITY {capacity}{window} ITEMS first {key}"
        ));
        if number % 10 == 0 {
            filters::fill(&mut client, &key, 0, 2 * capacity);
        }
        if !window.is_empty() {
            filters::fill(&mut client, &key, 2 * capacity, 3 * capacity);
        }
        // Few of those that stay have exceptions, whose table stays where it is; those that go leave holes of any size.
        if matches!(number % 200, 10 | 30) || number % 10 == 1 {
            let items = numbered("", 0, 1 + number % 1400 / 10);
            client.over(&format!("BF.MADD {key}"), &items);
            except(&mut client, &key, &items);
        }
    }
    for (_, key) in keys(count).enumerate().filter(|(number, _)| number % 10 != 0) {
        client.answers(&[(&format!("DEL {key}"), 1.into())]);
    }
    make_chains(&mut client);
    let wasted = |client: &mut Client| -> i64 {
        let bytes = client.stat("memory", "allocator_frag_bytes");
        bytes.parse().unwrap()
    };
    until("the server has counted", || wasted(&mut client) > 10 << 20);
    let dump = |client: &mut Client| {
        let kept = keys(count).step_by(10);
        kept.map(|key| client.dump(&key)).collect::<Vec<_>>()
    };
    let dumps = dump(&mut client);
    for line in [
        "CONFIG SET active-defrag-ignore-bytes 1",
        "CONFIG SET active-defrag-threshold-lower 1",
        // A filter of 32 KiB and more is then not worth moving with the other keys: it is put off, and moved in
        // steps. A step has 1 % of 2 milliseconds, which is over in the middle of a chain.
        "CONFIG SET active-defrag-max-scan-fields 1",
        "CONFIG SET hz 500",
        "CONFIG SET active-defrag-cycle-min 1",
        "CONFIG SET active-defrag-cycle-max 1",
        "CONFIG SET activedefrag yes",
    ] {
        client.answers(&[(line, ok())]);
    }
    let moved = |client: &mut Client| -> usize {
        let moved = client.stat("stats", "active_defrag_hits");
        moved.parse().unwrap()
    };
    let mut items = LAYERS;
    // So short a step moves a layer or a few: many of them come between the changes of a chain.
    until("blocks are moved step by step", || {
        items = change_chains(&mut client, items);
        moved(&mut client) > 1000
    });
    // In such steps the rest would take a minute, or several on a busy machine.
    for line in [
        "CONFIG SET active-defrag-cycle-max 75",
        "CONFIG SET active-defrag-cycle-min 75",
    ] {
        client.answers(&[(line, ok())]);
    }
    until("memory is in better order", || {
        items = change_chains(&mut client, items);
        wasted(&mut client) < 6 << 20
    });
    // Each key that stays has a block of its own besides the filter's, and of all of them half may stay.
    until("blocks of all kinds are moved", || {
        moved(&mut client) > count / 10 + CHAINS * LAYERS / 2
    });
    assert_eq!(dump(&mut client), dumps);
    assert_eq!(filters::snapshot(&mut client), expected);
    compare_chains(&mut client, items);
    let excepted = keys(count)
        .enumerate()
        .filter(|(number, _)| matches!(number % 200, 10 | 30));
    for (_, key) in excepted {
        client.answers(&[
            (&format!("BF.EXISTS {key} 0"), 0.into()),
            (&format!("BF.ADD {key} 0"), 1.into()),
            (&format!("BF.EXISTS {key} 0"), 1.into()),
        ]);
    }
    for key in keys(count).step_by(10) {
        client.answers(&[
            (&format!("BF.MADD {key} first {key} {key}:0"), array([0, 0, 0])),
            (&format!("DEL {key}"), 1.into()),
        ]);
    }
    assert!(server.is_alive());
}
