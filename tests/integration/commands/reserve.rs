//! BF.RESERVE.

use serial_test::serial;

use crate::client::{Client, Reply, WRONG_TYPE, arity, error, ok};
use crate::server::{Server, until};

const BAD_RATE: &str = "ERR bad error rate";
const RATE_RANGE: &str = "ERR error rate must be in the range (0.000000, 1.000000)";
const BAD_CAPACITY: &str = "ERR bad capacity";
const CAPACITY_RANGE: &str = "ERR capacity must be in the range [1, 1099511627776]";
const BAD_EXPANSION: &str = "ERR bad expansion";
const EXPANSION_RANGE: &str = "ERR expansion must be in the range [0, 32768]";
const NONSCALING: &str = "Nonscaling filters cannot expand";
const EXCLUDE: &str = "ERR NONSCALING and GROWING exclude each other";
const SEED_RANGE: &str = "ERR seed must be in the range [0, 18446744073709551615]";
const MEMORY: &str = "ERR Insufficient memory to create filter";
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Arguments that describe no filter, and what is said of them.
pub const MISTAKES: [(&str, &str); 68] = [
    ("nan 100", BAD_RATE),
    ("-nan 100", BAD_RATE),
    ("'' 100", BAD_RATE),
    ("rate 100", BAD_RATE),
    ("0,01 100", BAD_RATE),
    ("0.01% 100", BAD_RATE),
    ("inf 100", RATE_RANGE),
    ("0 100", RATE_RANGE),
    ("-0 100", RATE_RANGE),
    ("1 100", RATE_RANGE),
    ("-1 100", RATE_RANGE),
    ("1e300 100", RATE_RANGE),
    ("1e3 100", RATE_RANGE),
    ("1e400 100", RATE_RANGE),
    ("1e-400 100", RATE_RANGE),
    ("-1e-400 100", RATE_RANGE),
    ("1e-400x 100", BAD_RATE),
    ("0.01 ''", BAD_CAPACITY),
    ("0.01 +5", BAD_CAPACITY),
    ("0.01 1e3", BAD_CAPACITY),
    ("0.01 5.0", BAD_CAPACITY),
    ("0.01 0x10", BAD_CAPACITY),
    ("0.01 many", BAD_CAPACITY),
    ("0.01 99999999999999999999999", CAPACITY_RANGE),
    ("0.01 0", CAPACITY_RANGE),
    ("0.01 -1", CAPACITY_RANGE),
    ("0.01 1099511627777", CAPACITY_RANGE),
    ("0.01 9223372036854775807", CAPACITY_RANGE),
    ("0.01 9223372036854775808", CAPACITY_RANGE),
    ("0.01 -9223372036854775809", CAPACITY_RANGE),
    ("0.01 100 EXPANSION", "ERR no expansion"),
    ("0.01 100 NONSCALING EXPANSION", "ERR no expansion"),
    ("0.01 100 EXPANSION ''", BAD_EXPANSION),
    ("0.01 100 EXPANSION two", BAD_EXPANSION),
    ("0.01 100 EXPANSION 2.0", BAD_EXPANSION),
    ("0.01 100 EXPANSION NONSCALING", BAD_EXPANSION),
    ("0.01 100 EXPANSION -1", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 32769", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 9223372036854775807", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 9223372036854775808", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 1e3", BAD_EXPANSION),
    ("0.01 100 NONSCALING EXPANSION 2", NONSCALING),
    ("0.01 100 EXPANSION 2 NONSCALING", NONSCALING),
    ("0.01 100 NONSCALING GROWING", EXCLUDE),
    ("0.01 100 GROWING EXPANSION 0 NONSCALING", EXCLUDE),
    (
        "0.01 100 GROWING EXPANSION 0",
        "ERR EXPANSION 0 and GROWING exclude each other",
    ),
    ("0.01 100 SEED", "ERR no value for SEED"),
    ("0.01 100 SEED -1", SEED_RANGE),
    ("0.01 100 SEED 18446744073709551616", SEED_RANGE),
    ("0.01 100 SEED 1e3", "ERR bad seed"),
    ("0.01 100 SEED GROWING", "ERR bad seed"),
    ("0.01 100 LAYOUT", "ERR no value for LAYOUT"),
    (
        "0.01 100 LAYOUT BLOCK",
        "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY",
    ),
    (
        "0.01 100 LAYOUT ''",
        "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY",
    ),
    (
        "0.01 100 LAYOUT CLASSIC SEED 1",
        "ERR SEED is for LAYOUT BLOCKED or VALKEY only",
    ),
    (
        "0.01 100 GROWING LAYOUT CLASSIC",
        "ERR GROWING is for LAYOUT BLOCKED only",
    ),
    (
        "0.01 100 LAYOUT BLOCKED LAYOUT BLOCKED",
        "ERR LAYOUT was given twice",
    ),
    (
        "0.01 100 EXPANSION 2 EXPANSION 2",
        "ERR EXPANSION was given twice",
    ),
    ("0.01 100 NONSCALING nonscaling", "ERR NONSCALING was given twice"),
    ("0.01 100 GROWING GROWING", "ERR GROWING was given twice"),
    ("0.01 100 SEED 1 NONSCALING SEED 1", "ERR SEED was given twice"),
    ("0.01 100 EXPAND 2", "ERR Unknown argument received: EXPAND"),
    ("0.01 100 EXP 2", "ERR Unknown argument received: EXP"),
    (
        "0.01 100 NONSCALINGS",
        "ERR Unknown argument received: NONSCALINGS",
    ),
    ("0.01 100 NONSCALING 5", "ERR Unknown argument received: 5"),
    ("0.01 100 CAPACITY 5", "ERR Unknown argument received: CAPACITY"),
    ("0.01 100 ''", "ERR Unknown argument received: ''"),
    ("0.01 100 a\0\r\n", "ERR Unknown argument received: a\\x00\\r\\n"),
];

/// Numbers with spaces around, and what is said of them.
pub const SPACES: [(&str, &str, &str); 4] = [
    ("0.01 ", "100", BAD_RATE),
    (" 0.01", "100", BAD_RATE),
    ("0.01", " 5", BAD_CAPACITY),
    ("0.01", "5 ", BAD_CAPACITY),
];

/// Who is told that two options exclude each other, and typed only one of them, searches in vain: the other one is
/// the server's.
#[test]
fn what_the_configuration_excludes_is_told_with_the_option() {
    let growing = "ERR GROWING needs an EXPANSION above 0: bf-expansion-factor is 0";
    let server = Server::with().module_args("bf-expansion-factor 0").start();
    let mut client = server.client();
    for command in [
        "BF.RESERVE key 0.01 100 GROWING",
        "BF.INSERT key GROWING ITEMS a",
        "BF.PLAN 0.01 100 GROWING",
    ] {
        client.refuses("key", &[(command, growing)]);
    }
    client.answers(&[("BF.RESERVE key 0.01 100 GROWING EXPANSION 2", ok())]);
}

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

/// A typing error in a number would make a filter that keeps another promise than its owner believes, and a
/// misspelt, repeated or contradicting option would be taken for something that its author did not mean.
#[test]
fn mistakes_are_refused_in_words_and_make_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for (words, text) in MISTAKES {
        client.refuses("key", &[(&format!("BF.RESERVE key {words}"), text)]);
    }
    for (rate, capacity, text) in SPACES {
        assert_eq!(
            client.call(&["BF.RESERVE", "key", rate, capacity]),
            error(text),
            "{rate:?} {capacity:?}"
        );
    }
    let arity = &*arity("bf.reserve");
    client.refuses(
        "key",
        &[
            ("BF.RESERVE", arity),
            ("BF.RESERVE key", arity),
            ("BF.RESERVE key 0.01", arity),
        ],
    );
    client.answers(&[("EXISTS key", 0.into())]);
}

/// A filter in use would be emptied, or a script that reserves at every start would not learn that it exists.
#[test]
fn a_key_in_use_is_left_alone() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE key 0.01 100");
    client.run("BF.ADD key item");
    client.run("SET text value");
    client.refuses(
        "key",
        &[
            ("BF.RESERVE key 0.01 100", "ERR item exists"),
            ("BF.RESERVE key 0.5 7 NONSCALING", "ERR item exists"),
            ("BF.RESERVE key 2 100", RATE_RANGE),
        ],
    );
    client.refuses("text", &[("BF.RESERVE text 0.01 100", WRONG_TYPE)]);
}

/// Names with a NUL, a line end or no byte at all would hit another key, or none.
#[test]
fn keys_are_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let keys: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a\r\nb", b"\xff\xfe", "ü€".as_bytes()];
    for (made, key) in (1..).zip(keys) {
        assert_eq!(client.call(&[b"BF.RESERVE", key, b"0.01", b"100"]), ok());
        assert_eq!(client.call(&[b"BF.ADD", key, key]), 1.into());
        assert_eq!(client.call(&[b"BF.EXISTS", key, key]), 1.into());
        assert_eq!(client.run("DBSIZE"), made.into());
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

/// A filter that cannot be would take the server down, or leave half of itself behind.
#[test]
fn what_does_not_fit_is_refused_before_anything_is_touched() {
    let server = Server::with().module_args("bf-max-filter-bytes 1000000").start();
    let mut client = server.client();
    client.refuses(
        "key",
        &[
            ("BF.RESERVE key 0.01 10000000", MEMORY),
            ("BF.RESERVE key 0.01 10000000 NONSCALING", MEMORY),
            ("BF.RESERVE key 0.01 1099511627776", MEMORY),
            ("BF.RESERVE key 1e-300 1000000", MEMORY),
        ],
    );
    client.answers(&[("EXISTS key", 0.into()), ("BF.RESERVE key 0.01 500000", ok())]);
    assert!(client.info("key", "Size") <= 1_000_000);
}

/// One command could eat all of the memory that the server's owner set aside.
#[test]
fn maxmemory_is_a_limit_too() {
    let server = Server::with().config("maxmemory", "100mb").start();
    let mut client = server.client();
    client.refuses("key", &[("BF.RESERVE key 0.01 1000000000", MEMORY)]);
    client.answers(&[
        ("BF.RESERVE key 0.01 1000", ok()),
        ("CONFIG SET maxmemory 1", ok()),
        ("BF.RESERVE other 0.01 100", error(OOM)),
        ("BF.ADD key item", error(OOM)),
        ("BF.MADD key item", error(OOM)),
        ("BF.INSERT key ITEMS item", error(OOM)),
        ("BF.EXISTS key item", 0.into()),
        ("BF.CARD key", 0.into()),
    ]);
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
