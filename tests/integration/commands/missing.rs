//! Missing keys: what each command makes of one, with either value of the option `bf-missing-key`.

use std::collections::BTreeSet;

use crate::client::{Client, Reply, array, bulk, error, ok, wire};
use crate::server::{Server, skip, until};
use crate::support::aof::started_on_commands;
use crate::support::primary::Primary;
use crate::support::table::COMMANDS;

const NOT_FOUND: &str = "ERR not found";

/// What is done with a missing key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    /// The key is created, whatever the option says.
    Creates,
    /// The key is created, unless the option makes a missing key an error.
    MayCreate,
    /// The key stays missing, and is an empty filter unless the option makes it an error.
    Queries,
    /// The key stays missing, and the reply does not depend on the option.
    Leaves,
}
use Effect::{Creates, Leaves, MayCreate, Queries};

/// A call of each command for the key `missing`, with its reply where a missing key is empty; `source` holds a filter.
fn calls() -> Vec<(&'static str, Reply, Effect)> {
    let not_found = || error(NOT_FOUND);
    let no_source = || error("ERR source missing not found");
    vec![
        ("BF.RESERVE missing 0.01 100", ok(), Creates),
        ("BF.RESERVE missing 0.01 100 NX LAYOUT VALKEY", ok(), Creates),
        ("BF.ADD missing a", 1.into(), MayCreate),
        ("BF.MADD missing a b", array([1, 1]), MayCreate),
        ("BF.INSERT missing ITEMS a b", array([1, 1]), MayCreate),
        ("BF.INSERT missing CAPACITY 100 ITEMS a", array([1]), Creates),
        (
            "BF.INSERT missing ERROR 0.1 EXPANSION 4 LAYOUT CLASSIC EX 1000 ITEMS a",
            array([1]),
            MayCreate,
        ),
        (
            "BF.INSERT missing WINDOW 1000 AT 1000 ITEMS a",
            array([1]),
            MayCreate,
        ),
        (
            "BF.INSERT missing WINDOW 1000 CAPACITY 100 ITEMS a",
            array([1]),
            Creates,
        ),
        ("BF.INSERT missing NOCREATE ITEMS a", not_found(), Leaves),
        (
            "BF.INSERT missing NOCREATE CAPACITY 100 ITEMS a",
            not_found(),
            Leaves,
        ),
        // valkey-bloom's way to create an empty filter.
        ("BF.INSERT missing LAYOUT VALKEY", Reply::Array(vec![]), MayCreate),
        (
            "BF.INSERT missing TIGHTENING 0.5 VALIDATESCALETO 1000",
            Reply::Array(vec![]),
            MayCreate,
        ),
        (
            "BF.INSERT missing LAYOUT VALKEY CAPACITY 100",
            Reply::Array(vec![]),
            Creates,
        ),
        ("BF.ADDPACKED missing LINES a", bulk([0x80]), MayCreate),
        ("BF.ADDPACKED missing WINDOW 9 LINES COUNT a", 1.into(), MayCreate),
        ("BF.ADDPACKED missing LINES COUNT ''", 0.into(), Queries),
        (
            "BF.ADDPACKED missing CAPACITY 100 WIDTH 1 COUNT ab",
            2.into(),
            Creates,
        ),
        (
            "BF.ADDPACKED missing CAPACITY 100 LINES COUNT ''",
            0.into(),
            Leaves,
        ),
        ("BF.ADDPACKED missing NOCREATE LINES a", not_found(), Leaves),
        ("BF.EXISTS missing a", 0.into(), Queries),
        ("BF.MEXISTS missing a b", array([0, 0]), Queries),
        ("BF.EXISTSPACKED missing WIDTH 1 ab", bulk([0]), Queries),
        ("BF.EXISTSPACKED missing LINES COUNT a", 0.into(), Queries),
        ("BF.CARD missing", 0.into(), Queries),
        ("BF.EXCEPT missing a b", array([0, 0]), Queries),
        ("BF.INFO missing", not_found(), Leaves),
        ("BF.DEBUG missing", not_found(), Leaves),
        ("BF.SCANDUMP missing 0", not_found(), Leaves),
        ("BF.RESET missing", not_found(), Leaves),
        ("BF.SHRINK missing", not_found(), Leaves),
        ("BF.LOADCHUNK missing 65 data", not_found(), Leaves),
        (
            "BF.LOAD missing data",
            error("ERR bad data: format version 100 is not known"),
            Leaves,
        ),
        ("BF.MERGE missing 1 source", ok(), Creates),
        ("BF.MERGE missing 2 source missing", no_source(), Leaves),
        ("BF.MERGE source 1 missing", no_source(), Leaves),
        ("BF.INTERSECT missing 1 source", ok(), Creates),
        ("BF.INTERSECT missing 1 missing", no_source(), Leaves),
    ]
}

fn source(client: &mut Client) {
    client.answers(&[
        ("BF.RESERVE source 1e-9 100 SEED 1", ok()),
        ("BF.ADD source a", 1.into()),
    ]);
}

/// What a client is answered where a missing key is an error, and whether the key is there afterwards.
fn strict(usual: Reply, effect: Effect) -> (Reply, bool) {
    match effect {
        Creates => (usual, true),
        Leaves => (usual, false),
        MayCreate | Queries => (error(NOT_FOUND), false),
    }
}

/// After an eviction, or with a mistyped key, everything would be new in spite of the option; or filters could not be
/// made; or the default would not be what every other module does.
#[test]
fn each_command_keeps_to_the_option() {
    let calls = calls();
    let called: BTreeSet<_> = calls
        .iter()
        .map(|(line, ..)| line.split(' ').next().unwrap())
        .chain(["BF.PLAN"])
        .collect();
    assert_eq!(called, COMMANDS.iter().map(|command| command.0).collect());
    for (option, is_error) in [
        ("", false),
        ("bf-missing-key empty", false),
        ("bf-missing-key ERROR", true),
    ] {
        let server = Server::with().module_args(option).append_only().start();
        let mut client = server.client();
        source(&mut client);
        for (line, usual, effect) in &calls {
            let (reply, exists) = if is_error {
                strict(usual.clone(), *effect)
            } else {
                (usual.clone(), matches!(effect, Creates | MayCreate))
            };
            client.run("DEL missing");
            let dirty = client.stat("persistence", "rdb_changes_since_last_save");
            assert_eq!(client.run(line), reply, "{option}: {line}");
            assert_eq!(
                client.run("EXISTS missing"),
                i64::from(exists).into(),
                "{option}: {line}"
            );
            if !exists {
                let after = client.stat("persistence", "rdb_changes_since_last_save");
                assert_eq!(after, dirty, "{option}: {line} is propagated");
            }
        }
        // What an existing key answers does not depend on the option.
        client.answers(&[
            ("BF.MEXISTS source a b", array([1, 0])),
            ("BF.INSERT source ITEMS b", array([1])),
            ("BF.EXCEPT source b c", array([1, 0])),
            ("BF.RESERVE empty 0.01 100", ok()),
            ("BF.EXISTS empty a", 0.into()),
            ("BF.CARD empty", 0.into()),
        ]);
        let header = client.run("BF.SCANDUMP source 0").elements()[1].clone();
        let load = [&b"BF.LOADCHUNK"[..], b"loaded", b"1", header.bytes()];
        assert_eq!(client.call(&load), ok());
    }
}

/// A script or a transaction would go on as if all were new, where a single command is an error; or an administrator
/// could not try what a user may do.
#[test]
fn scripts_and_transactions_get_what_clients_get() {
    let server = Server::with().module_args("bf-missing-key error").start();
    let mut client = server.client();
    source(&mut client);
    for (line, usual, effect) in calls() {
        let (reply, exists) = strict(usual, effect);
        let exists = Reply::from(i64::from(exists));
        client.run("DEL missing");
        client.run("MULTI");
        assert_eq!(client.run(line), Reply::Simple("QUEUED".into()));
        assert_eq!(client.run("EXEC"), Reply::Array(vec![reply.clone()]), "{line}");
        assert_eq!(client.run("EXISTS missing"), exists, "{line}");

        client.run("DEL missing");
        let words = line.split(' ').map(|word| if word == "''" { "" } else { word });
        let script = ["EVAL", "return redis.pcall(unpack(ARGV))", "0"];
        let call: Vec<_> = script.into_iter().chain(words.clone()).collect();
        assert_eq!(client.call(&call), reply, "{line}");
        assert_eq!(client.run("EXISTS missing"), exists, "{line}");
        if Server::version().at_least(7, 0) {
            let dry: Vec<_> = ["ACL", "DRYRUN", "default"].into_iter().chain(words).collect();
            client.run("DEL missing");
            assert_eq!(client.call(&dry), ok(), "{line}");
            client.answers(&[("EXISTS missing", 0.into())]);
        }
    }
}

/// RedisBloom's words for filters that a client never described, and a script as Redis 6.2 can send it.
fn foreign_words() -> Vec<u8> {
    let script = "if redis.call('BF.EXISTS',KEYS[1],'x') == 0 and redis.call('BF.CARD',KEYS[1]) == 0 then \
                  redis.call('BF.ADD',KEYS[1],'x') end";
    let commands: [&[&str]; 11] = [
        &["SELECT", "0"],
        &["BF.ADD", "added", "x"],
        &["BF.MADD", "many", "x", "y"],
        &["BF.INSERT", "inserted", "ITEMS", "x"],
        &["BF.INSERT", "own", "LAYOUT", "BLOCKED", "SEED", "5", "ITEMS", "x"],
        &["BF.INSERT", "valkey", "TIGHTENING", "0.5"],
        &["MULTI"],
        &["BF.ADD", "transacted", "x"],
        &["EVAL", script, "1", "both"],
        &["EXEC"],
        &["EVAL", script, "1", "scripted"],
    ];
    commands.into_iter().flat_map(wire).collect()
}

/// All of those filters are there, and clients are still refused.
fn has_obeyed(client: &mut Client) {
    for key in [
        "added",
        "many",
        "inserted",
        "own",
        "transacted",
        "scripted",
        "both",
    ] {
        client.answers(&[(&format!("BF.EXISTS {key} x"), 1.into())]);
    }
    let query = ["EVAL", "return redis.pcall('BF.EXISTS','missing','x')", "0"];
    assert_eq!(client.call(&query), error(NOT_FOUND));
    client.answers(&[
        ("BF.CARD valkey", 0.into()),
        ("EXISTS valkey missing", 1.into()),
        ("BF.EXISTS missing x", error(NOT_FOUND)),
        ("BF.MEXISTS missing x", error(NOT_FOUND)),
    ]);
}

/// A server would start without the filters of its file, or stop.
#[test]
fn a_file_is_obeyed() {
    let setup = Server::with().module_args("bf-missing-key error");
    let (server, _dir) = started_on_commands(&foreign_words(), setup);
    let mut client = server.client();
    has_obeyed(&mut client);
    client.answers(&[("BF.ADD missing x", error(NOT_FOUND))]);
}

/// A replica would lose what its primary adds, or answer its own clients that everything is new.
#[test]
fn a_primary_is_obeyed_and_clients_of_its_replica_are_not() {
    for read_only in ["yes", "no"] {
        let primary = Primary::of(foreign_words());
        let replica = Server::with()
            .module_args("bf-missing-key error")
            .config("replica-read-only", read_only)
            .start();
        let mut client = replica.client();
        primary.lead(&replica);
        has_obeyed(&mut client);
        if read_only == "no" {
            let add = ["EVAL", "return redis.pcall('BF.ADD','missing','x')", "0"];
            assert_eq!(client.call(&add), error(NOT_FOUND));
            client.answers(&[
                ("BF.ADD missing x", error(NOT_FOUND)),
                ("BF.EXCEPT missing x", error(NOT_FOUND)),
                ("BF.INSERT mine CAPACITY 10 ITEMS x", array([1])),
            ]);
        }
    }
}

/// A script would be refused, or not, by what the server happens to receive: the rest of a command that the primary is
/// still sending is not a script of the primary.
#[test]
fn scripts_of_clients_are_known_while_a_primary_sends() {
    let mut words = foreign_words();
    // A transaction: so servers send what one of their scripts changed.
    for command in [&["MULTI"][..], &["SET", "text", "value"], &["EXEC"]] {
        words.extend(wire(command));
    }
    let whole = words.len();
    let begun = wire(&["SET", "other", "longer than what is there of it"]);
    words.extend(&begun[..begun.len() - 10]);
    let primary = Primary::of(words);
    let replica = Server::with().module_args("bf-missing-key error").start();
    let mut client = replica.client();
    client.answers(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.port), ok())]);
    until(
        "the replica has all whole commands and the first words of another",
        || {
            let list = client.run("CLIENT LIST TYPE master").text();
            client.run("EXISTS text") == 1.into() && !list.contains("argv-mem=0 ")
        },
    );
    assert!(primary.sent > whole);
    let query = ["EVAL", "return redis.pcall('BF.EXISTS','missing','x')", "0"];
    assert_eq!(client.call(&query), error(NOT_FOUND));
}

/// The setting of an incident would come after a restart, and be gone with the next one.
#[test]
fn the_option_changes_at_run_time_and_is_kept() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let option = Server::option("missing-key");
    let mut server = Server::start();
    let mut client = server.client();
    let set = |value: &str| format!("CONFIG SET {option} {value}");
    client.answers(&[
        ("BF.EXISTS key a", 0.into()),
        (&set("error"), ok()),
        ("BF.EXISTS key a", error(NOT_FOUND)),
        ("BF.ADD key a", error(NOT_FOUND)),
        (&set("empty"), ok()),
        ("BF.EXISTS key a", 0.into()),
        ("BF.ADD key a", 1.into()),
        ("DEL key", 1.into()),
        (&set("Error"), ok()),
        (
            &format!("CONFIG GET {option}"),
            array([bulk(&option), bulk("error")]),
        ),
        ("BF.ADD key a", error(NOT_FOUND)),
        ("BF.EXISTS key a", error(NOT_FOUND)),
        ("CONFIG REWRITE", ok()),
    ]);
    server.restart();
    let mut client = server.client();
    client.answers(&[
        ("BF.ADD key a", error(NOT_FOUND)),
        (&set("empty"), ok()),
        ("BF.ADD key a", 1.into()),
    ]);
}
