//! BF.RESERVE.

use serial_test::serial;

use crate::client::{Client, Reply, error, ok};
use crate::server::{Server, until};

const BAD_RATE: &str = "ERR bad error rate";
const MEMORY: &str = "ERR Insufficient memory to create filter";
/// Nobody could make a filter of the size that they need.
#[test]
fn makes_an_empty_filter_of_the_wanted_size() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE key 0.001 5000", ok()),
        ("TYPE key", Reply::Simple("MBbloom--".into())),
        ("BF.CARD key", 0.into()),
        ("BF.EXISTS key item", 0.into()),
    ]);
    assert_eq!(client.info("key", "Capacity"), 5000);
    assert_eq!(client.info("key", "Number of filters"), 1);
    assert_eq!(client.info("key", "Expansion rate"), 2);
}

/// A program that writes its options in another order or case would be refused, or get another filter.
#[test]
fn options_come_in_any_order_and_case() {
    let server = Server::start();
    let mut client = server.client();
    let null = Reply::Null;
    for (line, expansion) in [
        ("bf.reserve key 0.01 100", 2.into()),
        ("Bf.Reserve key 0.01 100 expansion 4", 4.into()),
        ("BF.RESERVE key 0.01 100 EXPANSION 1", 1.into()),
        ("BF.RESERVE key 0.01 100 EXPANSION 32768", 32768.into()),
        ("BF.RESERVE key 0.01 100 nonScaling", null.clone()),
        ("BF.RESERVE key 0.01 100 EXPANSION 0", null.clone()),
        ("BF.RESERVE key 0.01 100 EXPANSION 0 NONSCALING", null.clone()),
        ("BF.RESERVE key 0.01 100 NONSCALING EXPANSION 0", null.clone()),
        ("BF.RESERVE key 0.01 100 growing", 2.into()),
        (
            "BF.RESERVE key 0.01 100 SEED 0 GROWING LAYOUT BLOCKED EXPANSION 3",
            3.into(),
        ),
        (
            "BF.RESERVE key 0.01 100 layout blocked Expansion 3 seed 18446744073709551615",
            3.into(),
        ),
        ("BF.RESERVE key 0.01 100 NONSCALING LAYOUT Classic", null),
    ] {
        assert_eq!(client.run(line), ok(), "{line}");
        assert_eq!(
            client.run("BF.INFO key").field("Expansion rate"),
            expansion,
            "{line}"
        );
        client.run("DEL key");
    }
}

/// A rate that every other command takes would be refused here, or the other way round.
#[test]
fn rates_are_spelt_as_the_server_spells_numbers() {
    let server = Server::start();
    let mut client = server.client();
    for rate in [
        "0.01",
        ".01",
        "1e-2",
        "1E-2",
        "+0.01",
        "0x1p-3",
        "1e-300",
        "0.010000000000000000000000000",
        "1e-2f",
    ] {
        let expected = if client.call(&["ZADD", "set", rate, "x"]) == 1.into() {
            ok()
        } else {
            error(BAD_RATE)
        };
        assert_eq!(
            client.call(&["BF.RESERVE", "key", rate, "100"]),
            expected,
            "{rate}"
        );
        client.run("DEL set key");
    }
}

/// A rate that is too loose to save memory would be refused where it always worked, or taken in silence.
#[test]
fn rates_above_a_quarter_are_used_as_a_quarter_and_logged() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE quarter 0.25 1000 SEED 1", ok())]);
    assert!(!server.log().contains("is used as"), "{}", server.log());
    client.answers(&[
        ("BF.RESERVE half 0.5 1000 SEED 1", ok()),
        ("BF.RESERVE loose 0.999 1000 SEED 1", ok()),
    ]);
    for line in [
        "error rate 0.5 is used as 0.25",
        "error rate 0.999 is used as 0.25",
    ] {
        assert!(server.log().contains(line), "{}", server.log());
    }
    let quarter = client.dump("quarter");
    assert_eq!(client.dump("half"), quarter);
    assert_eq!(client.dump("loose"), quarter);
}

/// A filter that no machine has the memory for would end the server, where its owner set no limit.
#[test]
#[serial(memory)]
fn what_the_machine_lacks_does_not_end_the_server() {
    let server = Server::with().config("maxmemory", i64::MAX).start();
    let mut client = server.client();
    for line in [
        "BF.RESERVE key 0.01 1099511627776",
        "BF.RESERVE key 1e-30 1099511627776 NONSCALING",
    ] {
        let reply = client.run(line);
        // A kernel that promises memory without end says yes, and nothing is touched.
        assert!(reply == ok() || reply == error(MEMORY), "{line}: {reply:?}");
        assert_eq!(client.run("DEL key"), i64::from(reply == ok()).into(), "{line}");
    }
    client.answers(&[("BF.ADD key item", 1.into())]);
    assert!(server.is_alive());
}

/// A filter for years of growth would cost its whole size on the first day, or for ever.
#[test]
#[serial(memory)]
fn a_large_filter_costs_what_is_touched_and_is_given_back() {
    // DEL frees at once, as it does by default in Redis; in Valkey it is an UNLINK unless told otherwise.
    let server = Server::with().config("lazyfree-lazy-user-del", "no").start();
    let mut client = server.client();
    let (resident, before) = (server.resident(), client.used_memory());
    client.answers(&[
        ("BF.RESERVE key 0.01 1000000000", ok()),
        ("BF.ADD key item", 1.into()),
    ]);
    let size = client.info("key", "Size");
    let grown = server.resident().saturating_sub(resident);
    assert!(grown < 50_000_000, "{grown} bytes more are resident");
    assert!(
        size > 1_000_000_000 && client.used_memory() - before >= size,
        "the server does not count it"
    );
    client.answers(&[("DEL key", 1.into())]);
    let freed = |client: &mut Client| client.stat("memory", "lazyfreed_objects");
    assert_eq!(freed(&mut client), "0", "DEL left it to the background");
    client.answers(&[("BF.RESERVE key 0.01 1000000000", ok()), ("UNLINK key", 1.into())]);
    until("the server frees it", || {
        client.used_memory() - before < 1_000_000_000
    });
    // The server counts a freed object after its memory is given back.
    until("UNLINK leaves it to the background", || freed(&mut client) == "1");
    let kept = client.used_memory() - before;
    assert!(kept < 1_000_000, "{kept} bytes are not given back");
}
