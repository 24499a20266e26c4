//! A server short of memory: eviction, refusals, and limits that are lower than what is there.

use crate::client::{Client, Reply, error, ok};
use crate::server::{Server, until};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
/// About half a megabyte each.
const CAPACITY: usize = 400_000;

/// Leaves room for `bytes` more than the server has now, under `policy`.
fn squeeze(client: &mut Client, policy: &str, bytes: i64) {
    let limit = client.used_memory() + bytes;
    client.answers(&[
        (&format!("CONFIG SET maxmemory-policy {policy}"), ok()),
        (&format!("CONFIG SET maxmemory {limit}"), ok()),
    ]);
}

fn evicted(client: &mut Client) -> u64 {
    client.stat("stats", "evicted_keys").parse().unwrap()
}

/// Both from one answer: a server that is full may evict a key before any command.
fn kept_and_evicted(client: &mut Client) -> (i64, u64) {
    let info = client.run("INFO").text();
    let number = |name: &str| {
        let rest = info.split_once(name).map(|(_, rest)| rest);
        let digits = rest.and_then(|rest| rest.split(|next: char| !next.is_ascii_digit()).next());
        digits.unwrap_or_else(|| panic!("INFO without {name}:\n{info}"))
    };
    (
        number("\ndb0:keys=").parse().unwrap(),
        number("\nevicted_keys:").parse().unwrap(),
    )
}

/// Reserves filters of half a megabyte; all of the answers.
fn reserve(client: &mut Client, prefix: &str, count: usize) -> Vec<Reply> {
    (0..count)
        .map(|number| client.run(&format!("BF.RESERVE {prefix}{number} 0.01 {CAPACITY}")))
        .collect()
}

/// A cache of filters would fill up and then refuse everything, where its owner said that old keys may go.
#[test]
fn filters_are_evicted_like_other_keys() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let server = Server::with().config("lazyfree-lazy-eviction", "no").start();
        let mut client = server.client();
        squeeze(&mut client, policy, 10_000_000);
        assert_eq!(reserve(&mut client, "key", 60), vec![ok(); 60], "{policy}");
        let (kept, evicted) = kept_and_evicted(&mut client);
        assert!((1..30).contains(&kept), "{policy}: {kept} are kept");
        assert_eq!(evicted, 60 - kept.unsigned_abs(), "{policy}");
        let limit: i64 = client.stat("memory", "maxmemory").parse().unwrap();
        // The last one came after room was made for it.
        assert!(client.used_memory() < limit + 1_000_000, "{policy}");
        // With room for it and for the commands: else it could be the next one to go.
        squeeze(&mut client, policy, 400_000);
        let new: Vec<_> = (0..1000).map(|item| item.to_string()).collect();
        assert_eq!(
            client.over("BF.MADD fresh", &new).elements().len(),
            1000,
            "{policy}"
        );
        let found = client.over("BF.MEXISTS fresh", &new);
        assert!(
            found.elements().iter().all(|found| *found == 1.into()),
            "{policy}"
        );
        assert!(server.is_alive());
    }
}

/// A server that frees what it evicts in the background, as Valkey does by default, would lose filters halfway,
/// or stay full: it may refuse a command while the memory is on its way back, and must take it later.
#[test]
fn eviction_in_the_background_makes_room_too() {
    let server = Server::with().config("lazyfree-lazy-eviction", "yes").start();
    let mut client = server.client();
    squeeze(&mut client, "allkeys-lru", 10_000_000);
    for number in 0..60 {
        let line = format!("BF.RESERVE key{number} 0.01 {CAPACITY}");
        until("there is room for the filter", || {
            let reply = client.run(&line);
            assert!(reply == ok() || reply == error(OOM), "{reply:?}");
            reply == ok()
        });
    }
    assert!(evicted(&mut client) > 0);
    assert!(client.run("DBSIZE").int() < 30);
    client.answers(&[
        ("CONFIG SET maxmemory 0", ok()),
        ("BF.ADD fresh item", 1.into()),
        ("BF.EXISTS fresh item", 1.into()),
    ]);
    assert!(server.is_alive());
}

/// Filters that were to stay would be thrown away, or those that were to go would stay.
#[test]
fn only_filters_with_an_end_are_evicted_under_volatile_policies() {
    // A server that looks at few keys only finds the one that ends first by chance.
    let server = Server::with()
        .config("lazyfree-lazy-eviction", "no")
        .config("maxmemory-samples", 64)
        .start();
    let mut client = server.client();
    reserve(&mut client, "lasting", 5);
    reserve(&mut client, "later", 5);
    reserve(&mut client, "sooner", 5);
    for number in 0..5 {
        client.answers(&[
            (&format!("EXPIRE later{number} 100000"), 1.into()),
            (&format!("EXPIRE sooner{number} 1000"), 1.into()),
        ]);
    }
    // Room for one more filter.
    squeeze(&mut client, "volatile-ttl", 800_000);
    let exist = |client: &mut Client, prefix: &str| {
        let keys: Vec<_> = (0..5).map(|number| format!("{prefix}{number}")).collect();
        client.over("EXISTS", &keys).int()
    };
    assert_eq!(reserve(&mut client, "new", 5), vec![ok(); 5]);
    assert_eq!(exist(&mut client, "later"), 5);
    assert!((0..5).contains(&exist(&mut client, "sooner")));
    // Half of what those that may go have is counted on, so that some of them are left when a filter is refused.
    let answers = [
        reserve(&mut client, "newer", 5),
        reserve(&mut client, "newest", 10),
    ]
    .concat();
    assert_eq!(answers[..2], [ok(), ok()]);
    assert_eq!(answers.last(), Some(&error(NO_CREATION)));
    assert!(
        answers
            .iter()
            .all(|answer| [ok(), error(NO_CREATION)].contains(answer)),
        "{answers:?}"
    );
    for prefix in ["lasting", "new"] {
        assert_eq!(exist(&mut client, prefix), 5, "{prefix}");
    }
    let came = answers.iter().filter(|&answer| *answer == ok()).count() as i64;
    let there =
        exist(&mut client, "newer") + client.run("EXISTS newest0 newest1 newest2 newest3 newest4").int();
    assert_eq!(there, came);
    assert_eq!(exist(&mut client, "sooner"), 0);
    assert_eq!(exist(&mut client, "later"), 10 - evicted(&mut client) as i64);
}

/// A server that is out of memory would stop answering questions, or go on taking items until it is killed.
#[test]
fn a_full_server_answers_questions_and_refuses_additions() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE key 1e-9 1000 SEED 1");
    client.run("BF.MADD key a b c");
    let header = client.run("BF.SCANDUMP key 0").elements()[1].clone();
    let before = client.dump("key");
    for policy in ["noeviction", "volatile-lru"] {
        squeeze(&mut client, policy, 10_000_000);
        client.answers(&[("CONFIG SET maxmemory 1", ok())]);
        for line in [
            "BF.RESERVE new 0.01 100",
            "BF.ADD key d",
            "BF.ADD key a",
            "BF.ADD new a",
            "BF.MADD key a b",
            "BF.INSERT key ITEMS a",
            "BF.INSERT key NOCREATE ITEMS d",
            "BF.ADDPACKED key LINES d",
            "BF.ADDPACKED new LINES COUNT a",
        ] {
            assert_eq!(client.run(line), error(OOM), "{line} under {policy}");
        }
        let load = [&b"BF.LOADCHUNK"[..], b"new", b"1", header.bytes()];
        assert_eq!(client.call(&load), error(OOM));
        client.answers(&[("BF.LOAD new nonsense", error(OOM))]);
        client.answers(&[
            ("BF.EXISTS key a", 1.into()),
            ("BF.EXISTS key d", 0.into()),
            (
                "BF.MEXISTS key a b d",
                Reply::Array(vec![1.into(), 1.into(), 0.into()]),
            ),
            (
                "BF.EXISTSPACKED key LINES a\nb\nd",
                Reply::Bulk(vec![0b1100_0000]),
            ),
            ("BF.CARD key", 3.into()),
            ("BF.INFO key ITEMS", Reply::Array(vec![3.into()])),
            ("MULTI", ok()),
            ("BF.ADD key d", error(OOM)),
            (
                "EXEC",
                error("EXECABORT Transaction discarded because of previous errors."),
            ),
        ]);
        assert_eq!(client.run("BF.SCANDUMP key 0").elements()[1], header);
        assert!(client.run("BF.DEBUG key").elements()[0].text() == "size:3");
        assert_eq!(client.dump("key"), before);
        client.answers(&[("EXISTS new", 0.into()), ("CONFIG SET maxmemory 0", ok())]);
    }
    client.answers(&[("BF.ADD key d", 1.into()), ("BF.ADD new a", 1.into())]);
}

/// A batch that ends at the limit would lose items that it said were taken, or keep some that it refused; after
/// a restart the filter would be another one.
#[test]
fn a_batch_that_meets_the_limit_is_taken_up_to_there() {
    let items: Vec<_> = (0..20_000).map(|item| item.to_string()).collect();
    for (name, create, add) in [
        ("madd", "", "BF.MADD key"),
        ("insert", "", "BF.INSERT key ITEMS"),
        ("classic", "BF.RESERVE key 0.01 100 LAYOUT CLASSIC", "BF.MADD key"),
        (
            "slow growth",
            "BF.RESERVE key 0.01 100 EXPANSION 1",
            "BF.INSERT key NOCREATE ITEMS",
        ),
    ] {
        let mut server = Server::with()
            .module_args("bf-max-filter-bytes 20000")
            .append_only()
            .start();
        let mut client = server.client();
        if !create.is_empty() {
            client.answers(&[(create, ok())]);
        }
        let reply = client.over(add, &items);
        let (last, answers) = reply.elements().split_last().unwrap();
        assert_eq!(*last, error(NO_GROWTH), "{name}");
        assert!(
            (3000..20_000).contains(&answers.len()),
            "{name}: {} are taken",
            answers.len()
        );
        let new = answers.iter().map(Reply::int).sum::<i64>();
        assert_eq!(client.run("BF.CARD key").int(), new, "{name}");
        let size = client.info("key", "Size");
        assert!((10_000..=20_000).contains(&size), "{name}: {size} bytes");
        let check = |client: &mut Client| {
            let found = client.over("BF.MEXISTS key", &items);
            let lost = found.elements()[..answers.len()]
                .iter()
                .filter(|found| **found != 1.into());
            assert_eq!(lost.count(), 0, "{name}");
            assert_eq!(
                found.elements()[answers.len()],
                0.into(),
                "{name}: the one that was refused"
            );
            let refused = format!("BF.ADD key {}", items[answers.len()]);
            client.answers(&[(&refused, error(NO_GROWTH)), ("BF.ADD key 0", 0.into())]);
        };
        check(&mut client);
        let full = client.dump("key");
        server.kill9();
        server.revive();
        let mut client = server.client();
        assert_eq!(client.dump("key"), full, "{name}");
        check(&mut client);
        assert_eq!(client.dump("key"), full, "{name}");
    }
}

/// A server whose owner sets a lower limit would not start, or would refuse to use what it has.
#[test]
fn a_server_with_a_lowered_limit_uses_what_it_has() {
    let items: Vec<_> = (0..3000).map(|item| item.to_string()).collect();
    let server = Server::with().append_only().start();
    let mut client = server.client();
    client.run("BF.RESERVE key 0.0001 2000 SEED 1");
    client.over("BF.MADD key", &items[..1500]);
    client.answers(&[("SAVE", ok())]);
    let before = client.dump("key");
    let mut server = server;
    server.kill9();
    for setup in [Server::with().append_only(), Server::with()] {
        let lowered = setup
            .module_args("bf-max-filter-bytes 1000")
            .dir(server.dir())
            .start();
        let mut client = lowered.client();
        if client.stat("persistence", "aof_enabled") == "1" {
            assert_eq!(client.dump("key"), before);
            client.answers(&[("SAVE", ok())]);
        }
        let reply = client.over("BF.MADD key", &items);
        let (last, answers) = reply.elements().split_last().unwrap();
        assert_eq!(*last, error(NO_GROWTH), "it grows");
        assert_eq!(
            client.info("key", "Number of items inserted"),
            2000,
            "there was room"
        );
        client.answers(&[
            ("BF.RESERVE other 0.01 10000", error(NO_CREATION)),
            ("BF.INSERT other CAPACITY 10000 ITEMS a", error(NO_CREATION)),
            ("BF.ADD small a", 1.into()),
            ("DEL small", 1.into()),
        ]);
        let found = client.over("BF.MEXISTS key", &items);
        assert!(
            found.elements()[..answers.len()]
                .iter()
                .all(|found| *found == 1.into())
        );
    }
}

/// A filter that was evicted or has expired would keep its memory.
#[test]
fn memory_comes_back() {
    let server = Server::with().config("maxmemory-policy", "allkeys-lru").start();
    let mut client = server.client();
    let before = client.used_memory();
    let items: Vec<_> = (0..20_000).map(|item| item.to_string()).collect();
    for round in [
        "DEL",
        "UNLINK",
        "expiry",
        "eviction",
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "overwriting",
    ] {
        reserve(&mut client, "key", 20);
        client.over("BF.MADD grown", &items);
        assert!(client.used_memory() > before + 10_000_000);
        let mut keys: Vec<_> = (0..20).map(|number| format!("key{number}")).collect();
        keys.push("grown".to_owned());
        match round {
            "DEL" | "UNLINK" => {
                client.over(round, &keys);
            }
            "expiry" => keys.iter().for_each(|key| {
                client.call(&["PEXPIRE", key, "1"]);
            }),
            "eviction" => client.answers(&[("CONFIG SET maxmemory 1", ok())]),
            "overwriting" => keys.iter().for_each(|key| {
                client.call(&["SET", key, "text"]);
            }),
            flush => client.answers(&[(flush, ok())]),
        }
        until(&format!("memory comes back after {round}"), || {
            client.run("BF.EXISTS key0 a");
            client.used_memory() < before + 2_000_000
        });
        client.answers(&[("CONFIG SET maxmemory 0", ok()), ("FLUSHALL", ok())]);
    }
}
