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

/// The bits of a filter, without its counts.
fn bits(client: &mut Client, key: &str) -> Vec<Vec<u8>> {
    let chunks = scandump(client, key);
    chunks.into_iter().skip(1).map(|(_, bytes)| bytes).collect()
}

// ---- BF.MERGE --------------------------------------------------------------------------------------

/// A collected filter would lose what it had, or be gone at an end that was not its own, or never.
#[test]
fn the_destination_is_one_of_the_sources_unless_it_is_overridden() {
    let server = Server::start();
    let mut client = server.client();
    let remake = |client: &mut Client| {
        client.run("FLUSHALL");
        make(client, "a", PARAMETERS, 0, 100);
        make(client, "b", PARAMETERS, 100, 200);
        make(client, "to", PARAMETERS, 200, 300);
        client.answers(&[("EXPIRE to 1000", 1.into()), ("EXPIRE a 5000", 1.into())]);
    };
    let range = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
    for (line, has, keeps_end) in [
        ("BF.MERGE to 2 a b", range(0, 300), true),
        ("BF.MERGE to 3 a to b", range(0, 300), true),
        ("BF.MERGE to 3 a b b", range(0, 300), true),
        ("BF.MERGE to 1 to", range(200, 300), true),
        ("BF.MERGE to 2 to to", range(200, 300), true),
        ("BF.MERGE to 2 a b OVERRIDE", range(0, 200), false),
        ("BF.MERGE to 1 b override", range(100, 200), false),
        ("BF.MERGE to 2 b to OVERRIDE", range(100, 300), false),
        ("BF.MERGE to 1 to OVERRIDE", range(200, 300), false),
        ("BF.MERGE new 2 a b", range(0, 200), false),
        ("BF.MERGE new 1 a OVERRIDE", range(0, 100), false),
    ] {
        remake(&mut client);
        client.answers(&[(line, ok())]);
        let key = line.split(' ').nth(1).unwrap();
        assert_eq!(found(&mut client, key, 300), has, "{line}");
        let left = client.run(&format!("TTL {key}")).int();
        assert_eq!(left > 900, keeps_end, "{line}: {left}");
        assert!(keeps_end || left == -1, "{line}: {left}");
    }
}

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

/// Common items would be missing, or the destination would keep its old items or its expiry.
#[test]
fn an_intersection_has_what_all_sources_have() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", PARAMETERS, 0, 600);
    make(&mut client, "b", PARAMETERS, 400, 1000);
    make(&mut client, "to", "0.01 50", 0, 10);
    // The destination is replaced, also if it is one of the sources.
    for key in ["to", "a"] {
        client.answers(&[
            (&format!("EXPIRE {key} 1000"), 1.into()),
            (&format!("BF.INTERSECT {key} 2 b a"), ok()),
            (&format!("TTL {key}"), (-1).into()),
            (&format!("BF.ADD {key} new"), 1.into()),
        ]);
        let common: Vec<_> = (400..600).collect();
        assert_eq!(found(&mut client, key, 1000), common);
        assert_eq!(client.info(key, "Capacity"), 1000);
    }
    client.answers(&[("BF.INTERSECT self 2 b b", ok())]);
    assert_eq!(bits(&mut client, "self"), bits(&mut client, "b"));
}

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

/// Filters of other slots would be read where they are not, or a program wait for a node that nobody asks.
#[test]
fn in_a_cluster_all_keys_are_of_one_slot() {
    let server = Server::with().cluster_node().start();
    let mut client = server.client();
    let slots: Vec<_> = (0..16384).map(|slot| slot.to_string()).collect();
    assert_eq!(client.over("CLUSTER ADDSLOTS", &slots), ok());
    until("the cluster serves", || {
        client.run("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    make(&mut client, "{tag}:a", PARAMETERS, 0, 100);
    make(&mut client, "{tag}:b", PARAMETERS, 100, 200);
    make(&mut client, "other", PARAMETERS, 200, 300);
    let crossed = error("CROSSSLOT Keys in request don't hash to the same slot");
    client.answers(&[
        ("BF.MERGE {tag}:to 2 {tag}:a {tag}:b", ok()),
        ("BF.MERGE {tag}:to 2 {tag}:a other", crossed.clone()),
        ("BF.MERGE other 1 {tag}:a", crossed.clone()),
        ("BF.INTERSECT {tag}:to 2 other {tag}:b", crossed.clone()),
        ("BF.INTERSECT {tag}:both 2 {tag}:a {tag}:b", ok()),
        // What is no key is none.
        (
            "BF.MERGE {tag}:to 1 {tag}:a other",
            error("ERR Unknown argument received: other"),
        ),
        ("BF.MERGE {tag}:to 1 {tag}:a ERROR 0.1 OVERRIDE", ok()),
        ("BF.MERGE {tag}:to x other", error("ERR bad numkeys")),
        ("BF.RESET other", ok()),
        ("BF.EXCEPT {tag}:a item:1", array([1])),
    ]);
    // A node without the slot says who has it, by any of the keys.
    let slot = client.run("CLUSTER KEYSLOT {tag}").int();
    client.answers(&[(&format!("CLUSTER DELSLOTS {slot}"), ok())]);
    for line in [
        "BF.MERGE {tag}:to 1 {tag}:a",
        "BF.INTERSECT {tag}:to 1 {tag}:a",
        "BF.RESET {tag}:a",
    ] {
        let reply = client.run(line);
        assert!(
            matches!(&reply, Reply::Error(text) if text.starts_with("CLUSTERDOWN")),
            "{line}: {reply:?}"
        );
    }
}

/// A number that is none could end the server, which looks for keys before and after the command: for the rights of
/// a user, and for the cache of a client.
#[test]
fn hostile_numbers_of_sources_are_refused_and_nothing_else() {
    let server = Server::start();
    let mut admin = server.client();
    make(&mut admin, "key:a", PARAMETERS, 0, 10);
    admin.answers(&[("ACL SETUSER user on nopass ~key:* +@all", ok())]);
    let before = admin.dump("key:a");
    let mut client = server.client3();
    client.answers(&[("AUTH user any", ok()), ("CLIENT TRACKING ON", ok())]);
    // Redis 7.0 and 7.2 ask for memory for so many keys before they look whether they are there.
    for numkeys in [
        "0",
        "-1",
        "-2147483648",
        "-9223372036854775808",
        "1000000",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551617",
        "340282366920938463463374607431768211457",
        "x",
        "''",
        "0x1",
        "1e3",
    ] {
        for command in ["BF.MERGE", "BF.INTERSECT"] {
            let line = format!("{command} key:a {numkeys} key:a");
            let reply = client.run(&line);
            let texts = [RANGE, "ERR bad numkeys", FEWER];
            assert!(
                matches!(&reply, Reply::Error(text) if texts.contains(&text.as_str())),
                "{line}: {reply:?}"
            );
        }
    }
    assert_eq!(admin.dump("key:a"), before);
    assert!(server.is_alive());
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

/// A merge would take what the server does not have, or be refused although it takes nothing.
#[test]
fn merges_keep_to_what_is_left_of_maxmemory() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client, "a", "0.01 3000000 SEED 1", 0, 100);
    make(&mut client, "b", "0.01 3000000 SEED 1", 100, 200);
    make(&mut client, "c", "0.01 2500000 SEED 1", 200, 300);
    let maxmemory = client.used_memory() + 2_500_000;
    client.answers(&[(&format!("CONFIG SET maxmemory {maxmemory}"), ok())]);
    client.refuses(
        "new",
        &[
            ("BF.MERGE new 2 a b", NO_CREATION),
            ("BF.INTERSECT new 2 a b", NO_CREATION),
        ],
    );
    client.refuses("a", &[("BF.MERGE a 1 c ERROR 0.1", NO_GROWTH)]);
    // Bits go into bits.
    client.answers(&[("BF.MERGE a 1 b", ok())]);
    assert_eq!(found(&mut client, "a", 300).len(), 200);
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
