//! Commands with very many arguments in a server that is short of addresses.

use serial_test::serial;

use crate::client::{Client, Reply, error, ok, wire};
use crate::server::{Server, sample, skip, until};

const MIB: u64 = 1 << 20;
const ITEMS: usize = 400_000;
/// From one number of addresses that are left to the next.
const STEP: u64 = 12 * MIB;

const NO_ANSWER: &str = "ERR Insufficient memory to answer";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const NO_EXCEPTIONS: &str = "ERR Insufficient memory for exceptions";

/// A command that has its items in one argument.
const PACKED: &str = "BF.ADDPACKED large WIDTH 12 COUNT";

/// To whom the server sends what changes.
#[derive(Clone, Copy, Debug)]
enum Sends {
    Nowhere,
    ToFile,
    /// To one that never reads it.
    ToReplica,
}

/// A command before its items, how its server is prepared, and what then says whether it was done.
#[derive(Clone)]
struct Case {
    head: &'static str,
    /// Whether all items are in the filter before.
    filled: bool,
    /// Whether the arguments are sources, all of them one.
    sources: bool,
    witness: (&'static str, Reply, Reply),
}

fn cases() -> [Case; 10] {
    let case = |head, filled, sources, witness| Case {
        head,
        filled,
        sources,
        witness,
    };
    [
        case(
            "BF.MADD large",
            false,
            false,
            ("BF.EXISTS large 77", 0.into(), 1.into()),
        ),
        case("BF.MADD new", false, false, ("EXISTS new", 0.into(), 1.into())),
        case(
            "BF.INSERT new CAPACITY 1000000 ITEMS",
            false,
            false,
            ("EXISTS new", 0.into(), 1.into()),
        ),
        case(
            "BF.INSERT large ITEMS",
            false,
            false,
            ("BF.EXISTS large 77", 0.into(), 1.into()),
        ),
        case(
            "BF.MADD window",
            false,
            false,
            ("BF.EXISTS window 77", 0.into(), 1.into()),
        ),
        case(
            PACKED,
            false,
            false,
            ("BF.EXISTS large 000000000077", 0.into(), 1.into()),
        ),
        case(
            "BF.MEXISTS large",
            true,
            false,
            ("EXISTS new", 0.into(), 0.into()),
        ),
        case(
            "BF.EXCEPT large",
            true,
            false,
            ("BF.EXISTS large 77", 1.into(), 0.into()),
        ),
        case("BF.MERGE new", false, true, ("EXISTS new", 0.into(), 1.into())),
        case(
            "BF.INTERSECT new",
            false,
            true,
            ("EXISTS new", 0.into(), 1.into()),
        ),
    ]
}

/// A server with a filter for all items, in which the first one is; and the replica, if it has one.
fn prepared(case: &Case, sends: Sends, items: &[String]) -> (Server, Client, Option<Client>) {
    let setup = Server::with().config("repl-diskless-sync", "no");
    let server = match sends {
        Sends::ToFile => setup.append_only().config("appendfsync", "no"),
        Sends::Nowhere | Sends::ToReplica => setup,
    }
    .start();
    let mut client = server.client();
    let replica = matches!(sends, Sends::ToReplica).then(|| {
        let mut replica = server.client();
        replica.send(&["SYNC"]).unwrap();
        until("the replica is in step", || {
            client.run("INFO replication").text().contains("state=online")
        });
        replica
    });
    if case.head.ends_with("window") {
        client.answers(&[(
            "BF.RESERVE window 0.001 1000000 WINDOW 86400 REFRESH SEED 1",
            ok(),
        )]);
    }
    client.answers(&[
        ("BF.RESERVE large 0.001 1000000 SEED 1", ok()),
        ("BF.ADD large 0", 1.into()),
    ]);
    if case.filled {
        client.over("BF.MADD large", items);
    }
    (server, client, replica)
}

/// Whether a server that has so many addresses left lives through a command with such arguments.
fn lives_through_exists(left: u64, items: &[String]) -> Option<bool> {
    let server = Server::start();
    let mut client = server.client();
    server.limit_addresses(left)?;
    let all: Vec<_> = std::iter::once("EXISTS")
        .chain(items.iter().map(String::as_str))
        .collect();
    client.send(&all).ok();
    Some(client.receive().is_ok())
}

/// Whether a server that was prepared in the same way, and has so many addresses left, now and then ends while it reads
/// the arguments of EXISTS: then a command of the module's need not be what ended another. Where the log of that other
/// names the module's command, it is.
fn ends_of_its_own(case: &Case, sends: Sends, left: u64, items: &[String]) -> bool {
    (0..20).any(|_| {
        let (server, mut client, _replica) = prepared(case, sends, items);
        server.limit_addresses(left).unwrap();
        let all: Vec<_> = std::iter::once("EXISTS")
            .chain(items.iter().map(String::as_str))
            .collect();
        client.send(&all).ok();
        client.receive().is_err()
    })
}

/// One command of a client would end a server that is short of memory, with all that it holds, where a command of the
/// server's own with as many arguments is answered.
#[test]
#[serial(memory)]
fn no_number_of_arguments_ends_a_server() {
    let items: Vec<_> = (0..ITEMS).map(|item| item.to_string()).collect();
    let sources = vec!["large".to_owned(); ITEMS];
    let (mut done, mut refused, mut tried) = (0, 0, 0);
    let is_long = sample(1) > 1;
    for step in 1..=sample(12).min(24) {
        let left = 12 * MIB + step as u64 * STEP;
        // Where the server itself is about to end, as little as another block decides.
        match lives_through_exists(left - STEP, &items) {
            None => skip!("nobody can limit a process here"),
            Some(false) => continue,
            Some(true) => tried += 1,
        }
        let rows = cases().into_iter().flat_map(|case| {
            [Sends::Nowhere, Sends::ToFile, Sends::ToReplica].map(|sends| (case.clone(), sends))
        });
        for (number, (case, sends)) in rows.enumerate() {
            // Each row has three of twelve numbers of addresses in an ordinary run.
            if !is_long && (step + number) % 4 > 0 {
                continue;
            }
            let (server, mut client, _replica) = prepared(&case, sends, &items);
            server.limit_addresses(left).unwrap();
            let (head, items) = if case.sources {
                (format!("{} {ITEMS}", case.head), &sources)
            } else {
                (case.head.to_owned(), &items)
            };
            let packed = [items
                .iter()
                .map(|item| format!("{item:0>12}"))
                .collect::<String>()];
            let items = if case.head == PACKED {
                &packed[..]
            } else {
                &items[..]
            };
            let words: Vec<_> = head.split(' ').chain(items.iter().map(String::as_str)).collect();
            client.send(&words).ok();
            let reply = match client.receive() {
                Ok(reply) => reply,
                // The server ended while it read the arguments, before any command, or in a place where one of its own
                // commands ends it too.
                Err(_)
                    if !server.log().contains("CommandDispatcher+")
                        && (server.log().contains("(processMultibulkBuffer+")
                            || ends_of_its_own(&case, sends, left, items)) =>
                {
                    continue;
                }
                Err(error) => panic!(
                    "{} {sends:?} with {} MiB left: {error}\n{}",
                    case.head,
                    left / MIB,
                    server.log()
                ),
            };
            let what = format!("{} {sends:?} with {} MiB left", case.head, left / MIB);
            let (question, before, after) = case.witness;
            let stopped = match &reply {
                Reply::Array(answers) => answers.iter().find(|answer| matches!(answer, Reply::Error(_))),
                reply => Some(reply).filter(|reply| matches!(reply, Reply::Error(_))),
            };
            match stopped {
                Some(why) => {
                    let texts = [NO_ANSWER, NO_CREATION, NO_GROWTH, NO_EXCEPTIONS].map(error);
                    assert!(texts.contains(why), "{what}: {why:?}");
                    refused += 1;
                }
                None => done += 1,
            }
            // Of a list that ends early the items before its end are in, 77 among them if it came to that.
            let reached = match &reply {
                Reply::Array(answers) => answers.len() > 78,
                reply => !matches!(reply, Reply::Error(_)),
            };
            let expected = if reached { after } else { before };
            assert_eq!(client.run(question), expected, "{what}: {stopped:?}");
            assert!(server.is_alive(), "{what}");
        }
    }
    assert!(
        tried > 0 && done > 0 && refused > 0,
        "{tried} tried, {done} done, {refused} refused"
    );
}

/// A list of sources would cost more than the arguments that name them.
#[test]
#[serial(memory)]
fn a_source_that_is_named_often_costs_its_arguments() {
    let peak = |line: &str, keys: &[&str]| {
        let server = Server::start();
        let mut client = server.client();
        client.answers(&[("BF.ADD a item", 1.into()), ("CONFIG RESETSTAT", ok())]);
        client.over(line, keys);
        let peak: u64 = client.stat("memory", "used_memory_peak").parse().unwrap();
        peak
    };
    let keys = vec!["a"; ITEMS];
    let (exists, merge) = (
        peak("EXISTS", &keys),
        peak(&format!("BF.MERGE to {ITEMS}"), &keys),
    );
    assert!(
        merge < 2 * exists,
        "{merge} bytes, of which the server itself takes {exists}"
    );
}

/// A filter with very many layers, which an earlier version made, would end a server that is short of memory as soon as
/// somebody copies, saves or describes it.
#[test]
#[serial(memory)]
fn a_filter_with_very_many_layers_ends_no_server() {
    const LAYERS: usize = 10_000;
    let items: Vec<_> = (0..LAYERS).map(|item| item.to_string()).collect();
    let mut file = wire(&["BF.RESERVE", "key", "0.001", "1", "EXPANSION", "1", "SEED", "1"]);
    let add = ["BF.MADD", "key"]
        .into_iter()
        .chain(items.iter().map(String::as_str));
    file.extend(wire(&add.collect::<Vec<_>>()));
    let maker = Server::with()
        .append_only()
        .file("appendonly.aof", String::from_utf8(file).unwrap())
        .start();
    let Reply::Bulk(dump) = maker.client().run("DUMP key") else {
        panic!("no payload")
    };
    let (mut done, mut refused) = (0, 0);
    for left in [1, 2, 4, 16, 32].map(|left| left * MIB / 2) {
        // To compress, the server itself needs half a megabyte of stack, and ends where it cannot have it.
        let server = Server::with().config("rdbcompression", "no").start();
        let mut client = server.client();
        assert_eq!(client.call(&[b"RESTORE".as_slice(), b"key", b"0", &dump]), ok());
        let layers = client.info("key", "Number of filters");
        assert!(layers > 9900, "{layers}");
        if server.limit_addresses(left).is_none() {
            skip!("nobody can limit a process here");
        }
        let mut lines = vec!["BF.SCANDUMP key 0", "COPY key copy", "BF.INFO key FULL"];
        // A payload and a file are made in the server's own memory.
        if left >= 8 * MIB {
            lines.extend(["DUMP key", "SAVE"]);
        }
        for line in lines {
            let what = format!("{line} with {left} bytes left");
            client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
            match client.receive() {
                Ok(Reply::Error(why)) => {
                    let texts = [NO_ANSWER, "ERR module key failed to copy"];
                    assert!(texts.contains(&why.as_str()), "{what}: {why}");
                    refused += 1;
                }
                Ok(_) => done += 1,
                Err(error) => panic!("{what}: {error}\n{}", server.log()),
            }
            client.answers(&[("BF.EXISTS key 77", 1.into())]);
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}
