//! BF.EXCEPT: what it refuses, and what it costs. What is found is in the table in `states`, what is propagated in
//! `replication/propagation.rs`.

use serial_test::serial;

use crate::client::{Client, Reply, array, error, ok};
use crate::commands::sets::{PARAMETERS, make};
use crate::filters::{contents, figure, same};
use crate::server::{Server, sample, skip, until};
use crate::support::items::numbered;
use crate::support::link::in_step;
use crate::support::table::FIELDS;

const NO_EXCEPTIONS: &str = "ERR Insufficient memory for exceptions";

/// How many items are excepted.
fn exceptions(client: &mut Client, key: &str) -> i64 {
    client
        .run(&format!("BF.INFO {key} FULL"))
        .field("Exceptions")
        .int()
}

// ---- What is found ---------------------------------------------------------------------------------

/// A filter would keep what has expired for ever, and another server refuse it for that.
#[test]
fn without_exceptions_a_filter_is_as_it_was() {
    let server = Server::start();
    let mut client = server.client();
    for parameters in [PARAMETERS, "1e-9 20 SEED 1"] {
        client.answers(&[("FLUSHALL", ok())]);
        make(&mut client, "key", parameters, 0, 100);
        let before = contents(&mut client, &["key"]);
        let (size, usage) = (client.info("key", "Size"), client.run("MEMORY USAGE key"));
        client.answers(&[("BF.EXCEPT key item:1 item:2", array([1, 1]))]);
        assert_ne!(client.dump("key"), before[2].1, "{parameters}");
        assert_ne!(client.run("DEBUG DIGEST-VALUE key"), before[1].1, "{parameters}");
        assert!(client.info("key", "Size") > size, "{parameters}");
        assert_eq!(
            client.run("BF.DEBUG key").elements()[0].text(),
            "size:100 exceptions:2",
            "{parameters}"
        );
        client.answers(&[("BF.MADD key item:2 item:1", array([1, 1]))]);
        assert_eq!(contents(&mut client, &["key"]), before, "{parameters}");
        assert_eq!(client.info("key", "Size"), size, "{parameters}");
        assert_eq!(client.run("MEMORY USAGE key"), usage, "{parameters}");
    }
}

/// In RESP3 a program would get other types than from BF.MADD.
#[test]
fn replies_are_those_of_additions() {
    let server = Server::start();
    let mut client = server.client3();
    client.answers(&[
        ("BF.EXCEPT key a", array([false])),
        ("BF.MADD key a b", array([true, true])),
        ("BF.EXCEPT key a x a", array([true, false, false])),
        ("BF.MADD key a b", array([true, false])),
    ]);
    for key in ["key", "missing"] {
        let (mut two, mut three) = (server.client(), server.client3());
        for item in ["b", "c"] {
            let line = format!("BF.EXCEPT {key} {item}");
            let (two, three) = (two.run(&line), three.run(&line));
            assert_eq!(two.elements().len(), 1, "{line}");
            assert_eq!(three.elements().len(), 1, "{line}");
        }
    }
}

// ---- What it costs ---------------------------------------------------------------------------------

/// An operator would plan with figures that are not so, or a typed client refuse a field that it does not know.
#[test]
fn exceptions_are_told_and_cost_what_is_said() {
    const COUNT: usize = 20_000;
    let server = Server::start();
    let (mut client, mut client3) = (server.client(), server.client3());
    make(&mut client, "key", "0.001 50000 SEED 1", 0, COUNT);
    let five = client.run("BF.INFO key").fields();
    let usage = client.run("MEMORY USAGE key").int();
    let size = client.info("key", "Size");
    assert_eq!(exceptions(&mut client3, "key"), 0);
    for some in numbered("item:", 0, COUNT).chunks(1000) {
        client.over("BF.EXCEPT key", some);
    }
    let count = exceptions(&mut client3, "key");
    // Some items were never new, as they were false positives; all are excepted.
    assert_eq!(count, COUNT as i64);
    assert_eq!(figure(&mut client, "exceptions"), count);
    for (what, more) in [
        ("MEMORY USAGE", client.run("MEMORY USAGE key").int() - usage),
        ("Size", client.info("key", "Size") - size),
    ] {
        let each = more as f64 / count as f64;
        assert!(
            (19.0..=48.0).contains(&each),
            "{each} bytes an exception by {what}"
        );
    }
    let now = client.run("BF.INFO key").fields();
    for (before, after) in five.iter().zip(&now) {
        assert!(before == after || before.0 == "Size", "{before:?} and {after:?}");
    }
    assert_eq!(
        now.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        FIELDS
    );
    let section =
        |client: &mut Client| ["filters", "bytes", "items", "exceptions"].map(|name| figure(client, name));
    let sums = section(&mut client);
    assert_eq!(
        sums,
        [
            1,
            client.info("key", "Size"),
            client.run("BF.CARD key").int(),
            count
        ]
    );
    client.answers(&[("COPY key copy", 1.into())]);
    assert_eq!(section(&mut client), sums.map(|sum| 2 * sum));
    client.answers(&[("BF.RESET copy", ok()), ("UNLINK key", 1.into())]);
    until("one is left", || figure(&mut client, "exceptions") == 0);
    client.answers(&[("FLUSHALL", ok())]);
    until("all are gone", || section(&mut client) == [0; 4]);
}

/// A filter would take more than its owner allows; or a replica would not obey.
#[test]
fn exceptions_keep_to_the_limits_of_clients() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let primary = Server::start();
    let mut client = primary.client();
    make(&mut client, "key", "0.001 5000 SEED 1", 0, 5000);
    let replica = Server::with()
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let option = Server::option("max-filter-bytes");
    let limit = client.info("key", "Size") + 20_000;
    client.answers(&[(&format!("CONFIG SET {option} {limit}"), ok())]);
    let items = numbered("item:", 0, 5000);
    let mut excepted = 0;
    for some in items.chunks(100) {
        let before = client.dump("key");
        match client.over("BF.EXCEPT key", some) {
            Reply::Array(answers) => {
                assert_eq!(answers, vec![Reply::Int(1); some.len()]);
                excepted += some.len();
            }
            refused => {
                // All or nothing.
                assert_eq!(refused, error(NO_EXCEPTIONS));
                assert_eq!(client.dump("key"), before);
                break;
            }
        }
    }
    assert!((200..1250).contains(&excepted), "{excepted} were taken");
    assert_eq!(exceptions(&mut client, "key"), excepted as i64);
    assert!(
        primary.log().contains("bf-max-filter-bytes is"),
        "{}",
        primary.log()
    );
    assert_eq!(figure(&mut client, "refused_growths"), 1);
    // What takes none is answered.
    client.answers(&[("BF.EXCEPT key item:0 nothing", array([0, 0]))]);
    client.answers(&[(&format!("CONFIG SET {option} 0"), ok())]);
    let answers = client.over("BF.EXCEPT key", &items);
    assert_eq!(
        answers.elements().iter().map(Reply::int).sum::<i64>() as usize,
        items.len() - excepted
    );
    in_step(&primary, &replica);
    same(&primary, &replica, &["key"], "a replica obeys");
}

/// A filter would take items out until nothing else fits into the server, or end it.
#[test]
#[serial(memory)]
fn a_filter_has_so_many_exceptions_and_no_more() {
    const MOST: usize = 1 << 24;
    if sample(1) == 1 {
        skip!("it takes a minute: a long run does it");
    }
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 1e-6 20000000 SEED 1", ok())]);
    for from in (0..MOST).step_by(10_000) {
        let items = numbered("", from, (from + 10_000).min(MOST));
        client.over("BF.MADD key", &items);
        client.over("BF.EXCEPT key", &items);
    }
    assert_eq!(exceptions(&mut client, "key"), MOST as i64);
    client.answers(&[
        ("BF.ADD key one", 1.into()),
        (
            "BF.EXCEPT key one",
            error("ERR the filter has 16777216 exceptions, and can have no more than 16777216"),
        ),
        ("BF.EXCEPT key 1 2", array([0, 0])),
        ("BF.ADD key 1", 1.into()),
        ("BF.EXCEPT key one", array([1])),
    ]);
}
