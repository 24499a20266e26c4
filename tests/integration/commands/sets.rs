//! Filters as sets: what BF.MERGE, BF.INTERSECT and BF.RESET make of them, what is refused, and who may do it. The
//! table in `states` has what replicas and files get.

use crate::client::{Client, Reply, WRONG_TYPE, array, error, ok};
use crate::filters::contents;
use crate::filters::{figure, same};
use crate::server::{Server, skip, until};
use crate::support::chunks::{load, scandump};
use crate::support::items::{numbered, present};
use crate::support::link::in_step;
use crate::support::stored_valkey::STORED;

const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const FEWER: &str = "ERR there are fewer sources than numkeys says";
const RANGE: &str = "ERR numkeys must be greater than 0";

/// How most filters here are reserved: a false positive would be a bug.
pub const PARAMETERS: &str = "1e-9 1000 SEED 1";

/// Makes a filter, if there are parameters, and adds a range of the numbered items.
pub fn make(client: &mut Client, key: &str, parameters: &str, from: usize, to: usize) {
    if !parameters.is_empty() {
        client.answers(&[(&format!("BF.RESERVE {key} {parameters}"), ok())]);
    }
    for some in numbered("item:", from, to).chunks(1000) {
        let added = client.over(&format!("BF.MADD {key}"), some);
        assert!(matches!(added, Reply::Array(_)), "{key}: {added:?}");
    }
}

/// Which of the first so many numbered items a filter has.
pub fn found(client: &mut Client, key: &str, items: usize) -> Vec<usize> {
    present(client, key, &numbered("item:", 0, items))
}

// ---- BF.MERGE --------------------------------------------------------------------------------------

/// The result would be larger or looser than what was asked for, or grow otherwise.
#[test]
fn parameters_come_from_the_destination_or_the_first_source() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", "0.001 1000 EXPANSION 3 SEED 5", 0, 100);
    make(&mut client, "b", "0.01 500 GROWING SEED 5", 100, 200);
    let figures = |client: &mut Client, key: &str| {
        let full = client.run(&format!("BF.INFO {key} FULL"));
        ["Error rate", "Expansion rate", "Seed", "Layout"].map(|field| full.field(field))
    };
    let (a, b) = (figures(&mut client, "a"), figures(&mut client, "b"));
    client.answers(&[("BF.MERGE like-a 1 a", ok()), ("BF.MERGE like-b 1 b", ok())]);
    assert_eq!(figures(&mut client, "like-a"), a);
    assert_eq!(figures(&mut client, "like-b"), b);
    client.answers(&[("BF.MERGE like-a 2 b a ERROR 0.1 OVERRIDE", ok())]);
    let looser = figures(&mut client, "like-a");
    assert_eq!((looser[0].number(), &looser[1..]), (0.1, &b[1..]));
    client.answers(&[("BF.MERGE like-b 1 a ERROR 0.05", ok())]);
    let looser = figures(&mut client, "like-b");
    assert_eq!((looser[0].number(), &looser[1..]), (0.05, &b[1..]));
    assert_eq!(found(&mut client, "like-b", 200).len(), 200);
    // More than a filter may have is used as the most that it may.
    client.answers(&[("BF.MERGE loose 2 a b ERROR 0.9", ok())]);
    assert_eq!(figures(&mut client, "loose")[0].number(), 0.25);
    assert!(
        server.log().contains("error rate 0.9 is used as 0.25"),
        "{}",
        server.log()
    );
}

/// A filter would have more false positives than it promises; or a user would have to try out which rate does.
#[test]
fn a_rate_that_would_do_is_named_and_does() {
    let server = Server::start();
    let mut client = server.client();
    for (key, parameters) in [
        ("a", "0.01 100 NONSCALING SEED 1"),
        ("b", "0.01 200 NONSCALING SEED 1"),
        ("c", "0.001 100 EXPANSION 2 SEED 1"),
        ("loose", "0.25 10000 NONSCALING SEED 1"),
        ("looser", "0.25 20000 NONSCALING SEED 1"),
    ] {
        make(&mut client, key, parameters, 0, 80);
    }
    for (line, key) in [
        ("BF.MERGE to 2 a b", "to"),
        ("BF.MERGE to 3 c b a", "to"),
        ("BF.MERGE c 2 a b", "c"),
        ("BF.MERGE a 1 b", "a"),
    ] {
        let before = client.dump(key);
        let Reply::Error(text) = client.run(line) else {
            panic!("{line} is taken")
        };
        assert_eq!(client.dump(key), before, "{line}");
        let rest = text.strip_prefix("ERR the error rates of the layers sum to ");
        let (sum, rate) = rest.and_then(|rest| rest.split_once(": use ERROR ")).unwrap();
        let rate = rate.strip_suffix(" or more").unwrap();
        let [sum, rate]: [f64; 2] = [sum, rate].map(|text| text.parse().unwrap());
        assert!(sum > 0.0 && rate <= 0.25, "{text}");
        client.answers(&[(&format!("{line} ERROR {rate}"), ok())]);
        let full = client.run(&format!("BF.INFO {key} FULL"));
        assert_eq!(full.field("Error rate").number(), rate);
        let layers = full.field("Layers");
        let spent: f64 = layers
            .elements()
            .iter()
            .map(|layer| layer.field("Error rate").number())
            .sum();
        assert!(spent <= rate, "{spent} of {rate}: {line}");
        assert_eq!(found(&mut client, key, 80).len(), 80, "{line}");
        client.run("DEL to");
    }
    let none = "ERR the error rates of the layers sum to 0.5: no ERROR is enough";
    let Reply::Error(text) = client.run("BF.MERGE to 2 loose looser") else {
        panic!("it is taken")
    };
    let digits = |text: &str| text.replace(char::is_numeric, "").replace('.', "");
    assert_eq!(digits(&text), digits(none), "{text}");
    client.answers(&[("EXISTS to", 0.into())]);
}

// ---- BF.INTERSECT ----------------------------------------------------------------------------------

// ---- BF.RESET --------------------------------------------------------------------------------------

/// A server that is full could not be helped by it; or a large filter would stop the server, or never be freed.
#[test]
fn a_reset_gives_memory_back_and_is_for_full_servers_too() {
    let server = Server::start();
    let mut client = server.client();
    let used = client.used_memory();
    make(&mut client, "key", "0.01 1000 EXPANSION 1000 SEED 1", 0, 1);
    let size = client.info("key", "Size");
    let items: Vec<_> = numbered("more:", 0, 5000);
    for some in items.chunks(1000) {
        client.over("BF.MADD key", some);
    }
    assert!(client.info("key", "Size") > 1 << 20);
    client.answers(&[
        ("CONFIG SET maxmemory 1", ok()),
        (
            "BF.ADD key x",
            error("OOM command not allowed when used memory > 'maxmemory'."),
        ),
        ("BF.RESET key", ok()),
        ("CONFIG SET maxmemory 0", ok()),
    ]);
    assert_eq!(client.info("key", "Size"), size);
    until("the memory is back", || {
        figure(&mut client, "bytes") == size && client.used_memory() < used + (1 << 20)
    });
    assert_eq!(
        [figure(&mut client, "filters"), figure(&mut client, "layers")],
        [1, 1]
    );
    assert_eq!(figure(&mut client, "items"), 0);
}

// ---- Replicas and files ----------------------------------------------------------------------------

/// A replica whose source is gone, or another one, would stay behind in silence.
#[test]
fn a_replica_that_cannot_follow_says_so() {
    let primary = Server::start();
    let replica = Server::with()
        .config("replica-read-only", "no")
        .replica_of(&primary)
        .start();
    let mut client = primary.client();
    make(&mut client, "a", PARAMETERS, 0, 10);
    make(&mut client, "b", PARAMETERS, 0, 20);
    in_step(&primary, &replica);
    replica.client().answers(&[("DEL a", 1.into())]);
    client.answers(&[
        ("BF.MERGE to 2 a b", ok()),
        ("BF.INTERSECT to 2 a b", ok()),
        ("BF.RESET a", ok()),
        ("BF.EXCEPT b item:1", array([1])),
    ]);
    // What is there, and what is not.
    replica.client().answers(&[("BF.RESERVE there 0.01 100", ok())]);
    client.answers(&[("BF.RESERVE there 0.01 100", ok())]);
    let chunks = scandump(&mut client, "b");
    load(&mut client, "chunks", &chunks[..1]);
    in_step(&primary, &replica);
    replica
        .client()
        .answers(&[("DEL chunks b", 2.into()), ("SET loaded text", ok())]);
    load(&mut client, "chunks", &chunks[1..]);
    client.answers(&[("BF.EXCEPT b item:3", array([1]))]);
    let stored = [&b"BF.LOAD"[..], b"loaded", &STORED[0].load];
    assert_eq!(client.call(&stored), ok());
    in_step(&primary, &replica);
    let log = replica.log();
    for line in [
        "key 'to': BF.MERGE succeeded originally, and failed here: ERR source a not found",
        "key 'to': BF.INTERSECT succeeded originally, and failed here: ERR source a not found",
        "key 'there': BF.INSERT succeeded originally, and failed here: ERR item exists",
        "key 'chunks': BF.LOADCHUNK succeeded originally, and failed here: ERR not found",
        "key 'a': BF.RESET succeeded originally, and failed here: ERR not found",
        "key 'b': BF.EXCEPT succeeded originally, and failed here: ERR not found",
        &format!("key 'loaded': BF.LOAD succeeded originally, and failed here: {WRONG_TYPE}"),
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    assert!(!primary.log().contains("not here"), "{}", primary.log());
}

// ---- Other clients -------------------------------------------------------

/// Who may only read a filter would change it, who may only write one would read others, or a job that merges would
/// need more rights than it uses.
#[test]
fn sources_are_read_and_the_destination_is_written() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no permissions to only read or write keys");
    }
    let server = Server::start();
    let mut admin = server.client();
    make(&mut admin, "from:a", PARAMETERS, 0, 100);
    make(&mut admin, "to:a", PARAMETERS, 100, 200);
    admin.answers(&[("ACL SETUSER user on nopass %R~from:* %W~to:* +@all", ok())]);
    let mut client = server.client();
    client.answers(&[("AUTH user any", ok())]);
    let refused = error(if Server::version().at_least(7, 2) {
        "NOPERM No permissions to access a key"
    } else {
        "NOPERM this user has no permissions to access one of the keys used as arguments"
    });
    let before = contents(&mut admin, &["from:a", "to:a"]);
    for line in [
        "BF.MERGE from:a 1 to:a",
        "BF.MERGE from:new 1 from:a",
        "BF.MERGE to:a 1 to:a",
        "BF.MERGE to:a 2 from:a to:a",
        "BF.MERGE to:a 2 from:a other",
        "BF.MERGE other 1 from:a",
        "BF.INTERSECT from:a 1 from:a",
        "BF.INTERSECT to:new 2 from:a to:a",
        "BF.RESET from:a",
        "BF.EXCEPT from:a item:1",
        // The reply would tell whether it was there.
        "BF.EXCEPT to:a item:100",
    ] {
        assert_eq!(client.run(line), refused, "{line}");
    }
    // Numbers that are none have no keys, and are refused for what they are.
    for (numkeys, text) in [
        ("0", RANGE),
        ("-1", RANGE),
        ("x", "ERR bad numkeys"),
        ("7", FEWER),
        ("9223372036854775807", FEWER),
        ("-9223372036854775808", RANGE),
    ] {
        let line = format!("BF.MERGE to:a {numkeys} from:a");
        assert_eq!(client.run(&line), error(text), "{line}");
    }
    assert_eq!(contents(&mut admin, &["from:a", "to:a"]), before);
    client.answers(&[
        ("BF.MERGE to:a 1 from:a", ok()),
        ("BF.MERGE to:new 2 from:a from:a OVERRIDE", ok()),
        ("BF.INTERSECT to:both 1 from:a", ok()),
        ("BF.RESET to:new", ok()),
    ]);
    assert_eq!(found(&mut admin, "to:a", 200).len(), 200);
    admin.answers(&[("BF.CARD to:new", 0.into()), ("EXISTS other from:new", 0.into())]);
}

// ---- Memory ----------------------------------------------------------------------------------------

/// A filter larger than what its owner allows would come by a merge; or what he set would stop a replica.
#[test]
fn merges_keep_to_the_limits_of_clients() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let primary = Server::start();
    let mut client = primary.client();
    make(&mut client, "large", "0.01 100000 SEED 1", 0, 100);
    make(&mut client, "other", "0.01 90000 SEED 1", 100, 200);
    make(&mut client, "small", "0.01 100 SEED 1", 0, 50);
    let replica = Server::with()
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    let limit = format!(
        "CONFIG SET {} {}",
        Server::option("max-filter-bytes"),
        client.info("large", "Size") / 2
    );
    client.answers(&[(&limit, ok())]);
    let log = |server: &Server| server.log().matches("a Bloom filter of ").count();
    client.refuses(
        "new",
        &[
            ("BF.MERGE new 1 large", NO_CREATION),
            ("BF.INTERSECT new 1 large", NO_CREATION),
            ("BF.MERGE new 2 small large ERROR 0.1", NO_CREATION),
        ],
    );
    assert_eq!((figure(&mut client, "refused_creations"), log(&primary)), (3, 3));
    client.refuses("small", &[("BF.MERGE small 1 large ERROR 0.1", NO_GROWTH)]);
    client.refuses("large", &[("BF.MERGE large 1 other ERROR 0.1", NO_GROWTH)]);
    assert_eq!((figure(&mut client, "refused_growths"), log(&primary)), (2, 5));
    client.answers(&[
        ("BF.MERGE tiny 1 small", ok()),
        (
            &format!("CONFIG SET {} 0", Server::option("max-filter-bytes")),
            ok(),
        ),
        ("BF.MERGE small 1 large ERROR 0.1", ok()),
        ("BF.MERGE new 2 large other ERROR 0.1", ok()),
        ("BF.INTERSECT both 1 large", ok()),
    ]);
    in_step(&primary, &replica);
    same(
        &primary,
        &replica,
        &["tiny", "small", "large", "new", "both"],
        "a replica obeys",
    );
}

/// A server that has its own jemalloc would end with the first merge of four filters: what tells sources apart has to
/// start at a multiple of 16 in memory, and such an allocator gives multiples of 8.
#[test]
fn any_number_of_sources_is_combined() {
    let server = Server::start();
    let mut client = server.client();
    for count in 1..=40 {
        let keys: Vec<_> = (0..count).map(|at| format!("key {count} {at}")).collect();
        for key in &keys {
            let make = [
                "BF.INSERT",
                key,
                "CAPACITY",
                "100",
                "ERROR",
                "0.01",
                "SEED",
                "1",
                "ITEMS",
                key,
                "all",
            ];
            assert_eq!(client.call(&make), array([1, 1]));
        }
        let number = count.to_string();
        for (command, of_one) in [("BF.MERGE", 1), ("BF.INTERSECT", i64::from(count == 1))] {
            let words = [command, "result", &number].into_iter();
            let words: Vec<_> = words.chain(keys.iter().map(String::as_str)).collect();
            client.run("DEL result");
            assert_eq!(client.call(&words), ok(), "{command} of {count}");
            let found = client.call(&["BF.MEXISTS", "result", "all", &keys[0]]);
            assert_eq!(found, array([1, of_one]), "{command} of {count}");
        }
    }
}
