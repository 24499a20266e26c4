//! Filters as keys among others: what the server's own commands make of them, and where a key is that a command
//! finds, or does not find.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::bulk;
use crate::client::{Client, Reply, WRONG_TYPE, array, error, ok, wire};
use crate::filters;
use crate::server::{Server, until};
use crate::support::link::in_step;

const NOT_FOUND: &str = "ERR not found";

fn queued() -> Reply {
    Reply::Simple("QUEUED".into())
}

/// Tools that list, sort out or measure keys would not know a filter, or take it for something else.
#[test]
fn the_server_says_what_a_filter_is() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.ADD key item", 1.into()),
        ("BF.RESERVE other 0.01 100 LAYOUT CLASSIC", ok()),
        ("BF.RESERVE valkey 0.01 100 LAYOUT VALKEY", ok()),
        ("SET text value", ok()),
        ("RPUSH list element", 1.into()),
        ("TYPE key", Reply::Simple("MBbloom--".into())),
        ("OBJECT ENCODING key", bulk("raw")),
        ("OBJECT REFCOUNT key", 1.into()),
        ("TTL key", (-1).into()),
    ]);
    for (kind, expected) in [
        ("MBbloom--", &["key", "other"][..]),
        ("bloomfltr", &["valkey"]),
        ("string", &["text"]),
        ("list", &["list"]),
    ] {
        let reply = client.run(&format!("SCAN 0 COUNT 1000 TYPE {kind}"));
        let mut found: Vec<_> = reply.elements()[1].elements().iter().map(Reply::text).collect();
        found.sort();
        assert_eq!(found, expected, "{kind}");
    }
    assert!((0..100).contains(&client.run("OBJECT IDLETIME key").int()));
    assert!(client.run("MEMORY USAGE key").int() > 200);
    client.answers(&[
        ("DEL text list other valkey", 4.into()),
        ("RANDOMKEY", bulk("key")),
    ]);
    client.answers(&[
        ("CONFIG SET maxmemory-policy allkeys-lfu", ok()),
        ("DEL key", 1.into()),
        ("BF.ADD key item", 1.into()),
    ]);
    let frequency = client.run("OBJECT FREQ key").int();
    for _ in 0..200 {
        client.run("BF.EXISTS key item");
    }
    assert!(
        client.run("OBJECT FREQ key").int() > frequency,
        "questions count as use"
    );
}

/// A command for another kind of value would read or overwrite the bits of a filter.
#[test]
fn commands_for_other_kinds_of_values_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.MADD key a b c");
    client.run("RPUSH list element");
    client.refuses(
        "key",
        &[
            "GET key",
            "APPEND key x",
            "INCR key",
            "GETRANGE key 0 1",
            "SETRANGE key 0 x",
            "SETBIT key 0 1",
            "GETBIT key 0",
            "BITCOUNT key",
            "LPUSH key x",
            "LLEN key",
            "SADD key x",
            "SMEMBERS key",
            "HSET key f v",
            "ZADD key 1 x",
            "PFADD key x",
            "XLEN key",
            "SORT key",
            "GETDEL key",
            "SUNIONSTORE other key",
            "BITOP NOT other key",
        ]
        .map(|line| (line, WRONG_TYPE)),
    );
    client.answers(&[
        ("LMOVE list key LEFT LEFT", error(WRONG_TYPE)),
        ("BF.MEXISTS key a b c", array([1, 1, 1])),
        ("SET key text", ok()),
        ("BF.EXISTS key a", error(WRONG_TYPE)),
    ]);
}

/// A script or a transaction would end in the middle, or get another error than a client does.
#[test]
fn errors_in_transactions_and_scripts_are_those_of_clients() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("SET text value", ok()),
        ("MULTI", ok()),
        ("BF.ADD key a", queued()),
        ("BF.ADD text a", queued()),
        ("BF.EXISTS text a", queued()),
        ("BF.RESERVE key 0.01 100", queued()),
        ("BF.INFO missing", queued()),
        ("BF.MADD key a b", queued()),
        ("BF.CARD key", queued()),
    ]);
    assert_eq!(
        client.run("EXEC"),
        Reply::Array(vec![
            1.into(),
            error(WRONG_TYPE),
            error(WRONG_TYPE),
            error("ERR item exists"),
            error(NOT_FOUND),
            array([0, 1]),
            2.into(),
        ])
    );
    let mut pcall = |command: &str, key: &str| {
        let words: Vec<_> = command.split(' ').map(|word| format!("'{word}'")).collect();
        let script = format!(
            "return redis.pcall({})",
            words.join(",").replace("'KEY'", "KEYS[1]")
        );
        client.call(&["EVAL", &script, "1", key])
    };
    for (command, key, expected) in [
        ("BF.ADD KEY a", "text", error(WRONG_TYPE)),
        ("BF.MEXISTS KEY a", "text", error(WRONG_TYPE)),
        ("BF.ADDPACKED KEY LINES a", "text", error(WRONG_TYPE)),
        ("BF.EXISTSPACKED KEY LINES a", "text", error(WRONG_TYPE)),
        ("BF.RESERVE KEY 0.01 100", "key", error("ERR item exists")),
        (
            "BF.RESERVE KEY 7 100",
            "new",
            error("ERR error rate must be in the range (0.000000, 1.000000)"),
        ),
        (
            "BF.INSERT KEY ITEM a",
            "new",
            error("ERR Unknown argument received: ITEM"),
        ),
        ("BF.INFO KEY", "new", error(NOT_FOUND)),
        ("BF.INFO KEY BYTES", "key", error("Invalid information value")),
        ("BF.ADD KEY z", "key", 1.into()),
        ("BF.MADD KEY z y", "key", array([0, 1])),
        ("BF.EXISTS KEY z", "key", 1.into()),
        (
            "BF.ADDPACKED KEY WIDTH 2 z",
            "new",
            error("ERR 1 bytes of data are no multiple of WIDTH 2"),
        ),
        (
            "BF.EXISTSPACKED KEY COUNT z",
            "key",
            error("ERR the form of the items must be one of LINES, WIDTH and PREFIXED"),
        ),
        ("BF.ADDPACKED KEY WIDTH 1 zyz", "key", Reply::Bulk(vec![0])),
        (
            "BF.EXISTSPACKED KEY WIDTH 1 xzy",
            "key",
            Reply::Bulk(vec![0b0110_0000]),
        ),
        ("BF.EXISTSPACKED KEY LINES COUNT z", "key", 1.into()),
        ("BF.CARD KEY", "key", 4.into()),
    ] {
        assert_eq!(pcall(command, key), expected, "{command}");
    }
    client.answers(&[("EXISTS new", 0.into())]);
    let kind = if Server::version().modules_have_resp3() {
        "boolean"
    } else {
        "number"
    };
    for (protocol, kind) in [(2, "number"), (3, kind)] {
        let script = format!("redis.setresp({protocol});return type(redis.call('BF.EXISTS',KEYS[1],'a'))");
        assert_eq!(
            client.call(&["EVAL", &script, "1", "key"]),
            bulk(kind),
            "RESP{protocol}"
        );
    }
    if Server::version().at_least(7, 0) {
        client.answers(&[(
            "EVAL_RO return(redis.call('BF.EXISTS',KEYS[1],'a')) 1 key",
            1.into(),
        )]);
        client.answers(&[(
            "EVAL_RO return(redis.call('BF.EXISTSPACKED',KEYS[1],'LINES','a')) 1 key",
            Reply::Bulk(vec![0b1000_0000]),
        )]);
        let refused = client.run("EVAL_RO return(redis.call('BF.ADD',KEYS[1],'new')) 1 key");
        assert!(
            matches!(&refused, Reply::Error(text) if text.starts_with("ERR Write commands are not allowed from read-only scripts.")),
            "{refused:?}"
        );
    }
}

/// A filter whose time is up would still answer, or keep its name from a new one.
#[test]
fn an_expired_filter_is_gone() {
    let server = Server::start();
    let mut client = server.client();
    // Keys expire when they are asked for, and only then.
    client.answers(&[("DEBUG SET-ACTIVE-EXPIRE 0", ok())]);
    let expire = |client: &mut Client, key: &str| {
        client.run(&format!("BF.MADD {key} a b"));
        client.run(&format!("PEXPIRE {key} 1"));
        let mut other = server.client();
        let start = other.run("TIME");
        until("the clock ticks", || {
            let now = other.run("TIME");
            let micros = |time: &Reply| time.elements()[0].number() * 1e6 + time.elements()[1].number();
            micros(&now) > micros(&start) + 5000.0
        });
    };
    for (line, expected) in [
        ("BF.EXISTS key a", 0.into()),
        ("BF.MEXISTS key a b", array([0, 0])),
        ("BF.CARD key", 0.into()),
        ("BF.INFO key", error(NOT_FOUND)),
        ("BF.SCANDUMP key 0", error(NOT_FOUND)),
        ("BF.DEBUG key", error(NOT_FOUND)),
        ("BF.LOADCHUNK key 9 nonsense", error(NOT_FOUND)),
        ("BF.INSERT key NOCREATE ITEMS a", error(NOT_FOUND)),
        ("BF.RESERVE key 0.01 100", ok()),
        ("BF.ADD key a", 1.into()),
        ("BF.MADD key a b", array([1, 1])),
        ("BF.INSERT key ITEMS b a", array([1, 1])),
    ] {
        expire(&mut client, "key");
        client.answers(&[(line, expected)]);
        let ttl = client.run("TTL key").int();
        assert!([-1, -2].contains(&ttl), "{line}: what is new has no end: {ttl}");
        client.run("DEL key");
    }
    // An addition to a filter leaves its end as it is.
    client.answers(&[
        ("BF.ADD key a", 1.into()),
        ("EXPIRE key 1000", 1.into()),
        ("BF.ADD key b", 1.into()),
        ("BF.MADD key c", array([1])),
        ("PERSIST key", 1.into()),
    ]);
}

/// A replica would answer from a filter that its primary no longer has.
#[test]
fn an_expired_filter_is_gone_on_a_replica_too() {
    let primary = Server::start();
    let replica = Server::with().replica_of(&primary).start();
    let (mut client, mut reader) = (primary.client(), replica.client());
    client.answers(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", ok()),
        ("BF.MADD key a b", array([1, 1])),
        ("PEXPIRE key 1", 1.into()),
    ]);
    in_step(&primary, &replica);
    until("the filter's time is over", || {
        reader.run("BF.EXISTS key a") == 0.into()
    });
    reader.answers(&[
        ("BF.MEXISTS key a b", array([0, 0])),
        ("BF.CARD key", 0.into()),
        ("BF.INFO key", error(NOT_FOUND)),
    ]);
    client.answers(&[("BF.ADD key b", 1.into())]);
    in_step(&primary, &replica);
    reader.answers(&[("BF.MEXISTS key a b", array([0, 1])), ("BF.CARD key", 1.into())]);
    assert_eq!(reader.dump("key"), client.dump("key"));
}

/// A filter of one database would be found in another, or be lost on its way there.
#[test]
fn databases_are_kept_apart() {
    let primary = Server::with().append_only().start();
    let replica = Server::with().replica_of(&primary).start();
    let mut client = primary.client();
    client.answers(&[
        ("BF.ADD key zero", 1.into()),
        ("SELECT 7", ok()),
        ("BF.EXISTS key zero", 0.into()),
        ("BF.MADD key seven more", array([1, 1])),
        ("SELECT 0", ok()),
        ("BF.MEXISTS key zero seven", array([1, 0])),
        ("SWAPDB 0 7", ok()),
        ("BF.MEXISTS key zero seven more", array([0, 1, 1])),
        ("BF.ADD key after", 1.into()),
        ("BF.ADD moved item", 1.into()),
        ("MOVE moved 3", 1.into()),
        ("EXISTS moved", 0.into()),
        ("COPY key moved DB 4", 1.into()),
        ("SELECT 3", ok()),
        ("BF.EXISTS moved item", 1.into()),
        ("SELECT 4", ok()),
        ("BF.MEXISTS moved zero seven after", array([0, 1, 1])),
        ("BF.ADD moved own", 1.into()),
        ("RENAME moved renamed", ok()),
        ("SELECT 9", ok()),
        ("BF.ADD flushed item", 1.into()),
        ("FLUSHDB ASYNC", ok()),
        ("BF.EXISTS flushed item", 0.into()),
        ("SELECT 0", ok()),
    ]);
    let all = |server: &Server| {
        let mut client = server.client();
        let keys = [
            (0, "key"),
            (7, "key"),
            (3, "moved"),
            (4, "renamed"),
            (9, "flushed"),
        ];
        keys.map(|(database, key)| {
            client.answers(&[(&format!("SELECT {database}"), ok())]);
            client.dump(key)
        })
    };
    let before = all(&primary);
    in_step(&primary, &replica);
    assert_eq!(all(&replica), before);
    let mut primary = primary;
    primary.kill9();
    primary.revive();
    assert_eq!(all(&primary), before);
    let mut client = primary.client();
    client.answers(&[
        ("FLUSHALL", ok()),
        ("BF.EXISTS key seven", 0.into()),
        ("DBSIZE", 0.into()),
    ]);
}

/// A client that comes while the server still reads its file would be told that its items are new.
#[test]
fn a_server_that_is_loading_says_so() {
    let server = Server::with()
        .config("key-load-delay", 50_000)
        .config("rdbcompression", "no")
        .start();
    let (mut client, mut other) = (server.client(), server.client());
    // The server looks at its clients after each 2 MB of the file.
    for key in 0..40 {
        client.answers(&[(&format!("BF.RESERVE key{key} 0.01 400000 LAYOUT CLASSIC"), ok())]);
        filters::fill(&mut client, &format!("key{key}"), 0, 10);
    }
    let before = client.dump("key7");
    let name = if Server::version().valkey {
        "Valkey"
    } else {
        "Redis"
    };
    let loading = error(&format!("LOADING {name} is loading the dataset in memory"));
    let lines = [
        "BF.ADD key0 new",
        "BF.MADD new a",
        "BF.RESERVE new 0.01 100",
        "BF.INFO key0",
        "BF.CARD key0",
        "BF.SCANDUMP key0 0",
    ];
    let commands = lines.map(|line| wire(&line.split(' ').collect::<Vec<_>>()));
    let mut refused = false;
    // Where the commands come when the file is loaded, the next time is slower.
    for delay in [50_000, 100_000, 200_000, 400_000, 800_000] {
        client.answers(&[(&format!("CONFIG SET key-load-delay {delay}"), ok())]);
        let is_loaded = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                client.answers(&[("DEBUG RELOAD", ok())]);
                is_loaded.store(true, Ordering::Relaxed);
            });
            while !refused && !is_loaded.load(Ordering::Relaxed) {
                if other.run("BF.EXISTS key0 key0:0") != loading {
                    continue;
                }
                // All in one go: the server looks at its clients for a moment only.
                other.send_bytes(&commands.concat()).unwrap();
                let replies = lines.map(|line| (line, other.receive().unwrap()));
                refused = replies[0].1 == loading;
                for (line, reply) in replies {
                    assert!(!refused || reply == loading, "{line}: {reply:?}");
                }
                other.run("DEL new");
            }
        });
        if refused {
            break;
        }
    }
    assert!(refused, "no command came while the server was loading");
    other.answers(&[("BF.EXISTS key0 key0:0", 1.into()), ("EXISTS new", 0.into())]);
    assert_eq!(client.dump("key7"), before);
}
