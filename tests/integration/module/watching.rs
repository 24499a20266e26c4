//! Who watches a key hears of every change, and of nothing else: WATCH, client-side caching in its three forms,
//! and keyspace events.

use crate::client::{Client, Reply, error, ok};
use crate::server::{Server, until};

/// Commands that read a filter, and whose replies a client may then keep in its cache.
const READS: [&str; 7] = [
    "BF.EXISTS key a",
    "BF.MEXISTS key a x",
    "BF.EXISTSPACKED key LINES a\nx",
    "BF.INFO key",
    "BF.CARD key",
    "BF.SCANDUMP key 0",
    "BF.DEBUG key",
];

/// What the key holds before a case, and what then happens to it.
struct Case {
    before: &'static [&'static str],
    line: &'static str,
    /// The events of the key, in order; none if the key stays as it was.
    events: &'static [&'static str],
}

const fn case(before: &'static [&'static str], line: &'static str, events: &'static [&'static str]) -> Case {
    Case { before, line, events }
}

const FILTER: &[&str] = &["BF.RESERVE key 1e-9 100 SEED 1", "BF.MADD key a b c"];
const FULL: &[&str] = &["BF.RESERVE key 1e-9 2 NONSCALING SEED 1", "BF.MADD key a b"];
const NEARLY_FULL: &[&str] = &["BF.RESERVE key 1e-9 2 NONSCALING SEED 1", "BF.ADD key a"];
const TEXT: &[&str] = &["SET key value"];
const OTHER: &[&str] = &["BF.ADD other a"];
const BOTH: &[&str] = &["BF.ADD key a", "BF.ADD other b"];

const WINDOW: &[&str] = &["BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000", "BF.MADD key a b c"];
const OVER: &[&str] = &[
    "BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000",
    "BF.INSERT key AT 1000 ITEMS a b",
];
const LIVE: &[&str] = &[
    "BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000 REFRESH",
    "BF.MADD key a b c",
];
const LIVE_OVER: &[&str] = &[
    "BF.RESERVE key 1e-9 100 SEED 1 WINDOW 1000 REFRESH",
    "BF.INSERT key AT 1000 ITEMS a b",
];

const EXCEPTED: &[&str] = &[
    "BF.RESERVE key 1e-9 100 SEED 1",
    "BF.MADD key a b c",
    "BF.EXCEPT key a",
];

const VALKEY: &[&str] = &["BF.INSERT key LAYOUT VALKEY"];

const CASES: [Case; 119] = [
    // Creations.
    case(&[], "BF.RESERVE key 0.01 100", &["bf.reserve"]),
    case(&[], "BF.ADD key a", &["bf.add"]),
    case(&[], "BF.MADD key a b", &["bf.add"]),
    case(&[], "BF.INSERT key ITEMS a", &["bf.insert"]),
    case(&[], "BF.INSERT key NOCREATE ITEMS a", &[]),
    case(&[], "BF.RESERVE key 0 100", &[]),
    case(&[], "BF.RESERVE key 0.01 1099511627776", &[]),
    case(&[], "BF.INSERT key CAPACITY 1099511627776 ITEMS a", &[]),
    case(&[], "BF.ADDPACKED key LINES a\nb", &["bf.add"]),
    case(&[], "BF.ADDPACKED key CAPACITY 9 LINES a", &["bf.add"]),
    case(&[], "BF.ADDPACKED key NOCREATE LINES a", &[]),
    case(&[], "BF.ADDPACKED key LINES ''", &[]),
    case(&[], "BF.ADDPACKED key CAPACITY 1099511627776 LINES a", &[]),
    case(&[], "BF.RESERVE key 0.01 100 EX 1000", &["bf.reserve", "expire"]),
    case(&[], "BF.INSERT key PX 1000000 ITEMS a", &["bf.insert", "expire"]),
    case(
        &[],
        "BF.ADDPACKED key EXAT 4000000000 LINES a",
        &["bf.add", "expire"],
    ),
    case(&[], "BF.RESERVE key 0.01 100 NX", &["bf.reserve"]),
    case(&[], "BF.RESERVE key 0.01 100 EX 0", &[]),
    case(&[], "BF.EXISTS key a", &[]),
    case(&[], "BF.EXISTSPACKED key LINES a", &[]),
    case(&[], "BF.CARD key", &[]),
    case(&[], "BF.LOADCHUNK key 1 nonsense", &[]),
    case(&[], "BF.LOADCHUNK key 2 nonsense", &[]),
    case(&[], "BF.LOAD key nonsense", &[]),
    case(&[], "BF.INSERT key LAYOUT VALKEY", &["bf.insert"]),
    case(VALKEY, "BF.INSERT key LAYOUT VALKEY", &[]),
    case(VALKEY, "BF.INSERT key", &[]),
    // Additions.
    case(FILTER, "BF.ADD key d", &["bf.add"]),
    case(FILTER, "BF.ADD key a", &[]),
    case(FILTER, "BF.MADD key a d", &["bf.add"]),
    case(FILTER, "BF.MADD key d a e", &["bf.add"]),
    case(FILTER, "BF.MADD key a b c a", &[]),
    case(FILTER, "BF.INSERT key ITEMS a d", &["bf.insert"]),
    case(FILTER, "BF.INSERT key ITEMS a b", &[]),
    case(FILTER, "BF.INSERT key NOCREATE ITEMS d", &["bf.insert"]),
    case(FILTER, "BF.INSERT key CAPACITY 9 ERROR 0.5 ITEMS c", &[]),
    case(FILTER, "BF.ADDPACKED key LINES a\nd\ne", &["bf.add"]),
    case(FILTER, "BF.ADDPACKED key LINES COUNT a\nb", &[]),
    case(FILTER, "BF.INSERT key EX 1000 ITEMS a d", &["bf.insert"]),
    case(FILTER, "BF.ADDPACKED key EX 1000 LINES a", &[]),
    case(FILTER, "BF.RESERVE key 0.01 100 NX EX 1000", &[]),
    case(FILTER, "BF.ADDPACKED key LINES ''", &[]),
    // What is refused.
    case(FILTER, "BF.RESERVE key 0.01 100", &[]),
    case(FILTER, "BF.ADD key", &[]),
    case(FILTER, "BF.INSERT key ITEM d", &[]),
    case(FILTER, "BF.LOADCHUNK key 8 nonsense", &[]),
    case(FILTER, "BF.LOAD key nonsense", &[]),
    case(FULL, "BF.ADD key c", &[]),
    case(FULL, "BF.MADD key a c", &[]),
    case(FULL, "BF.INSERT key ITEMS c", &[]),
    case(FULL, "BF.ADDPACKED key LINES a\nc", &[]),
    case(NEARLY_FULL, "BF.ADDPACKED key LINES a\nb\nc", &["bf.add"]),
    case(FILTER, "BF.ADDPACKED key WIDTH 2 ded", &[]),
    case(TEXT, "BF.ADD key a", &[]),
    case(TEXT, "BF.MADD key a", &[]),
    case(TEXT, "BF.INSERT key ITEMS a", &[]),
    case(TEXT, "BF.ADDPACKED key LINES a", &[]),
    case(TEXT, "BF.RESERVE key 0.01 100", &[]),
    // Windows: what expires and is dropped is told by the event of the addition.
    case(&[], "BF.RESERVE key 0.01 100 WINDOW 5", &["bf.reserve"]),
    case(&[], "BF.INSERT key WINDOW 5 ITEMS a", &["bf.insert"]),
    case(&[], "BF.ADDPACKED key WINDOW 5 LINES a", &["bf.add"]),
    case(WINDOW, "BF.ADD key a", &[]),
    case(WINDOW, "BF.MADD key a d", &["bf.add"]),
    case(OVER, "BF.ADD key a", &["bf.add"]),
    case(OVER, "BF.MADD key a b c", &["bf.add"]),
    case(OVER, "BF.INSERT key ITEMS a", &["bf.insert"]),
    case(OVER, "BF.ADDPACKED key LINES a", &["bf.add"]),
    case(OVER, "BF.EXISTS key a", &[]),
    case(OVER, "BF.INFO key", &[]),
    case(LIVE, "BF.ADD key a", &[]),
    case(LIVE_OVER, "BF.ADD key a", &["bf.add"]),
    case(LIVE_OVER, "BF.ADDPACKED key LINES a\nb", &["bf.add"]),
    case(
        OVER,
        "EVAL return{redis.call('BF.ADD',KEYS[1],'a'),redis.call('BF.ADD',KEYS[1],'a')} 1 key",
        &["bf.add"],
    ),
    // Exceptions.
    case(FILTER, "BF.EXCEPT key a", &["bf.except"]),
    case(FILTER, "BF.EXCEPT key x a y b", &["bf.except"]),
    case(FILTER, "BF.EXCEPT key x", &[]),
    case(&[], "BF.EXCEPT key a", &[]),
    case(TEXT, "BF.EXCEPT key a", &[]),
    case(WINDOW, "BF.EXCEPT key a", &[]),
    case(EXCEPTED, "BF.EXCEPT key a", &[]),
    case(EXCEPTED, "BF.ADD key a", &["bf.add"]),
    case(EXCEPTED, "BF.MADD key b a", &["bf.add"]),
    case(EXCEPTED, "BF.ADD key b", &[]),
    // Sets.
    case(FILTER, "BF.RESET key", &["bf.reset"]),
    case(EXCEPTED, "BF.RESET key", &["bf.reset"]),
    case(&["BF.RESERVE key 0.01 100"], "BF.RESET key", &[]),
    case(&[], "BF.RESET key", &[]),
    case(
        &["BF.RESERVE key 0.01 100000 LAYOUT CLASSIC"],
        "BF.SHRINK key",
        &["bf.shrink"],
    ),
    case(&["BF.RESERVE key 0.01 100"], "BF.SHRINK key", &[]),
    case(WINDOW, "BF.SHRINK key", &[]),
    case(&[], "BF.SHRINK key", &[]),
    case(OTHER, "BF.MERGE key 1 other", &["bf.merge"]),
    case(BOTH, "BF.MERGE key 1 other", &["bf.merge"]),
    case(BOTH, "BF.MERGE key 1 key", &[]),
    case(BOTH, "BF.MERGE key 1 other OVERRIDE", &["bf.merge"]),
    case(BOTH, "BF.MERGE other 1 key", &[]),
    case(BOTH, "BF.MERGE key 1 missing", &[]),
    case(TEXT, "BF.MERGE key 1 key", &[]),
    case(OTHER, "BF.INTERSECT key 1 other", &["bf.intersect"]),
    case(BOTH, "BF.INTERSECT key 2 key other", &["bf.intersect"]),
    case(BOTH, "BF.INTERSECT other 2 key other", &[]),
    case(BOTH, "BF.INTERSECT key 0 other", &[]),
    // Reads.
    case(FILTER, "BF.EXISTS key x", &[]),
    case(FILTER, "BF.MEXISTS key a x", &[]),
    case(FILTER, "BF.EXISTSPACKED key LINES a\nx", &[]),
    case(FILTER, "BF.INFO key FULL", &[]),
    case(FILTER, "BF.CARD key", &[]),
    case(FILTER, "BF.SCANDUMP key 0", &[]),
    case(FILTER, "BF.DEBUG key", &[]),
    case(FILTER, "DUMP key", &[]),
    // What the server itself does to keys.
    case(FILTER, "DEL key", &["del"]),
    case(FILTER, "UNLINK key", &["del"]),
    case(FILTER, "EXPIRE key 1000", &["expire"]),
    case(FILTER, "RENAME key other", &["rename_from"]),
    case(OTHER, "RENAME other key", &["rename_to"]),
    case(OTHER, "COPY other key", &["copy_to"]),
    case(BOTH, "COPY other key", &[]),
    case(BOTH, "BF.ADD other d", &[]),
    case(
        BOTH,
        "EVAL return{redis.call('BF.ADD',KEYS[1],'a'),redis.call('BF.ADD',KEYS[1],'z')} 1 key",
        &["bf.add"],
    ),
];

/// Everyone who can watch `key`.
struct Watchers {
    client: Client,
    transaction: Client,
    /// Client-side caches in RESP3: of what was read, and of everything under a prefix.
    caches: [Client; 2],
    /// A client of RESP2 whose invalidations go to a second connection.
    reader: Client,
    redirected: Client,
    listener: Client,
}

impl Watchers {
    fn of(server: &Server) -> Self {
        let mut watchers = Self {
            client: server.client(),
            transaction: server.client(),
            caches: [server.client3(), server.client3()],
            reader: server.client(),
            redirected: server.client(),
            listener: server.client(),
        };
        let id = watchers.redirected.run("CLIENT ID").int();
        watchers.redirected.run("SUBSCRIBE __redis__:invalidate");
        watchers
            .reader
            .answers(&[(&format!("CLIENT TRACKING ON REDIRECT {id}"), ok())]);
        watchers.caches[0].answers(&[("CLIENT TRACKING ON", ok())]);
        watchers.caches[1].answers(&[("CLIENT TRACKING ON BCAST PREFIX key", ok())]);
        watchers.listener.run("PSUBSCRIBE __keyspace@0__:*");
        watchers
    }

    /// What all of them notice of `act`: the events, whether a transaction breaks, and whether the caches learn
    /// that what they hold is no longer true.
    fn notice(&mut self, read: &str, act: impl FnOnce(&mut Client)) -> (Vec<String>, bool, [bool; 3]) {
        self.transaction.answers(&[("WATCH key", ok()), ("MULTI", ok())]);
        self.transaction.run("PING");
        // What was told before is of no interest.
        self.heard();
        self.redirections();
        for cache in 0..2 {
            self.invalidations(cache);
        }
        self.caches[0].run(read);
        self.reader.run(read);
        act(&mut self.client);
        let events = self.heard();
        let broken = self.transaction.run("EXEC") == Reply::Null;
        let invalidated = [self.invalidations(0), self.invalidations(1), self.redirections()];
        (events, broken, invalidated)
    }

    /// The events of `key` since the last question.
    fn heard(&mut self) -> Vec<String> {
        self.client.run("PUBLISH __keyspace@0__:end end");
        let mut events = Vec::new();
        loop {
            let message = self.listener.receive().unwrap();
            let [channel, event] = [2, 3].map(|at| message.elements()[at].text());
            match &*channel {
                "__keyspace@0__:end" => return events,
                "__keyspace@0__:key" => events.push(event),
                _ => {}
            }
        }
    }

    /// Whether a cache of RESP3 was told of `key` since the last question.
    fn invalidations(&mut self, cache: usize) -> bool {
        self.caches[cache].send(&["PING"]).unwrap();
        let mut invalidated = false;
        loop {
            match self.caches[cache].receive().unwrap() {
                Reply::Push(message) => {
                    assert_eq!(message[0].text(), "invalidate");
                    invalidated |= message[1].elements().iter().any(|key| key.text() == "key");
                }
                reply => {
                    assert_eq!(reply, Reply::Simple("PONG".into()));
                    return invalidated;
                }
            }
        }
    }

    /// Whether the cache of RESP2 was invalidated of `key` since the last question.
    fn redirections(&mut self) -> bool {
        self.redirected.send(&["PING"]).unwrap();
        let mut invalidated = false;
        loop {
            let reply = self.redirected.receive().unwrap();
            let [kind, .., keys] = reply.elements() else {
                panic!("{reply:?}")
            };
            if kind.text() == "pong" {
                return invalidated;
            }
            assert_eq!(reply.elements()[1].text(), "__redis__:invalidate");
            invalidated |= keys.elements().iter().any(|key| key.text() == "key");
        }
    }

    /// Starts a case.
    fn prepare(&mut self, before: &[&str]) {
        self.client.run("DEL key other");
        for line in before {
            let reply = self.client.run(line);
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
    }
}

/// Transactions would fail for nothing, or run on a filter that has changed; clients would go on answering from
/// a cache that is no longer true; programs that wait for a change would miss it, or wake for nothing.
#[test]
fn every_change_is_noticed_and_nothing_else_is() {
    let server = Server::with().config("notify-keyspace-events", "KEAd").start();
    let mut watchers = Watchers::of(&server);
    for (number, Case { before, line, events }) in CASES.iter().enumerate() {
        let read = READS[number % READS.len()];
        watchers.prepare(before);
        let noticed = watchers.notice(read, |client| {
            client.run(line);
        });
        let changed = !events.is_empty();
        let events = events.iter().map(|event| (*event).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            noticed,
            (events, changed, [changed; 3]),
            "{line} after {before:?} and {read}"
        );
    }
}

/// A cache would be emptied by readers, or keep an answer that an addition made wrong, for one of the questions.
#[test]
fn every_read_is_kept_until_the_filter_changes() {
    let server = Server::with().config("notify-keyspace-events", "KEAd").start();
    let mut watchers = Watchers::of(&server);
    for read in READS {
        for (line, changed) in [("BF.ADD key a", false), ("BF.ADD key x", true)] {
            watchers.prepare(FILTER);
            let (_, broken, invalidated) = watchers.notice(read, |client| {
                client.run(line);
            });
            assert_eq!(
                (broken, invalidated),
                (changed, [changed; 3]),
                "{read}, then {line}"
            );
        }
    }
}

/// A filter that arrives in chunks, or as the payload of another server, would not be seen; a chunk that comes
/// twice would look like a change.
#[test]
fn loaded_and_restored_filters_are_noticed() {
    let server = Server::with().config("notify-keyspace-events", "KEAd").start();
    let mut watchers = Watchers::of(&server);
    watchers.prepare(&["BF.RESERVE source 1e-9 100 SEED 1", "BF.MADD source a b c"]);
    let payload = watchers.client.dump("source");
    let chunk = |client: &mut Client, iterator: &str| {
        let reply = client.call(&["BF.SCANDUMP", "source", iterator]);
        (reply.elements()[0].int().to_string(), reply.elements()[1].clone())
    };
    let (first, header) = chunk(&mut watchers.client, "0");
    let (second, bits) = chunk(&mut watchers.client, &first);
    let load = |client: &mut Client, iterator: &str, data: &Reply, expected: Reply| {
        let command = [&b"BF.LOADCHUNK"[..], b"key", iterator.as_bytes(), data.bytes()];
        assert_eq!(client.call(&command), expected);
    };
    let restore = |client: &mut Client, replace: &str, expected: Reply| {
        let command = [&b"RESTORE"[..], b"key", b"0", payload.bytes(), replace.as_bytes()];
        let words = if replace.is_empty() { 4 } else { 5 };
        assert_eq!(client.call(&command[..words]), expected);
    };
    let quiet = (Vec::<String>::new(), false, [false; 3]);
    let loud = |events: &[&str]| {
        let events = events.iter().map(|event| (*event).to_owned()).collect::<Vec<_>>();
        (events, true, [true; 3])
    };
    let read = "BF.EXISTS key a";
    let noticed = watchers.notice(read, |client| load(client, &first, &header, ok()));
    assert_eq!(noticed, loud(&["bf.loadchunk"]), "a header");
    let noticed = watchers.notice(read, |client| load(client, &second, &bits, ok()));
    assert_eq!(noticed, loud(&["bf.loadchunk"]), "bits");
    let noticed = watchers.notice(read, |client| load(client, &second, &bits, ok()));
    assert_eq!(noticed, quiet, "the same bits again");
    let late = error("ERR invalid offset - no link found");
    let noticed = watchers.notice(read, |client| load(client, "1000000", &bits, late));
    assert_eq!(noticed, quiet, "bits of no layer");
    let busy = error("BUSYKEY Target key name already exists.");
    let noticed = watchers.notice(read, |client| restore(client, "", busy));
    assert_eq!(noticed, quiet, "a payload for a key in use");
    let noticed = watchers.notice(read, |client| restore(client, "REPLACE", ok()));
    assert_eq!(noticed.0.last().map(String::as_str), Some("restore"));
    assert_eq!(
        (noticed.1, noticed.2),
        (true, [true; 3]),
        "a payload in its place"
    );
    let noticed = watchers.notice(read, |client| {
        client.run("DEL key");
        restore(client, "", ok());
    });
    assert_eq!(noticed, loud(&["del", "restore"]), "a payload for no key");
    let noticed = watchers.notice(read, |client| {
        client.run("PEXPIRE key 100");
        until("the key expires", || client.run("EXISTS key") == 0.into());
    });
    assert_eq!(noticed, loud(&["expire", "expired"]), "its end");
}

/// Who asks for the events of modules would get none, and who asks for those of strings would get these.
#[test]
fn events_are_of_the_class_of_modules() {
    for (class, expected) in [
        ("Kd", &["bf.reserve", "bf.add", "bf.insert"][..]),
        ("KA", &["bf.reserve", "bf.add", "bf.insert", "del"]),
        ("Kg", &["del"]),
        ("K$lshztxeg", &["del"]),
        ("Ed", &[]),
        ("''", &[]),
    ] {
        let server = Server::start();
        let mut watchers = Watchers::of(&server);
        watchers
            .client
            .answers(&[(&format!("CONFIG SET notify-keyspace-events {class}"), ok())]);
        watchers.client.run("BF.RESERVE key 1e-9 100 SEED 1");
        watchers.client.run("BF.ADD key a");
        watchers.client.run("BF.INSERT key ITEMS b");
        watchers.client.run("DEL key");
        assert_eq!(watchers.heard(), expected, "{class}");
    }
}
