//! Many clients at once, clients that go away in the middle, and items and replies of every size.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serial_test::serial;

use crate::client::{Client, Reply, array, error, ok, wire};
use crate::server::{Server, sample, seed, until};
use crate::support::aof::is_idle;
use crate::support::chunks;
use crate::support::link::in_step;
use crate::support::packed::{Form, bitmap, bits, taken};

const CLIENTS: usize = 50;
/// Commands of each client. A long run, with ten times as many, takes about a minute.
const COMMANDS: usize = 1500;
/// A batch of so many items is the largest that a client sends here.
const BATCH: usize = 40;
/// Items that several clients add come from so many.
const SHARED: usize = 20_000;

/// The capacity of the filter that may refuse items.
const FIXED: i64 = 3000;

/// How a client connects: in RESP2 or in RESP3.
const PROTOCOLS: [fn(&Server) -> Client; 2] = [Server::client, Server::client3];

const FULL: &str = "ERR non scaling filter is full";
const EXISTS: &str = "ERR item exists";

/// What the clients know of a filter, all of them together.
struct Known {
    key: &'static str,
    /// Items whose addition was answered: they are in the filter, whatever the answer was.
    present: Mutex<Vec<String>>,
    /// Items that were new.
    new: Mutex<Vec<String>>,
    /// How many were new, of which everybody knows.
    count: AtomicI64,
    /// Whether the filter may refuse items.
    fixed: bool,
}

impl Known {
    fn new(key: &'static str) -> Self {
        Self {
            key,
            present: Mutex::default(),
            new: Mutex::default(),
            count: AtomicI64::new(0),
            fixed: key == "fixed",
        }
    }

    /// Takes the answers to additions; they end with an error only where the filter is full.
    fn learn(&self, items: &[String], answers: &[Reply]) {
        let mut new = Vec::new();
        for (item, answer) in items.iter().zip(answers) {
            match answer.clone() {
                Reply::Error(text) => {
                    assert!(self.fixed && text == FULL, "{}: {text}", self.key);
                    break;
                }
                answer if answer.number() == 1.0 => new.push(item.clone()),
                answer => assert_eq!(answer.number(), 0.0, "{}", self.key),
            }
        }
        let taken = answers
            .iter()
            .filter(|answer| !matches!(answer, Reply::Error(_)))
            .count();
        assert!(self.fixed || taken == items.len(), "{}: {answers:?}", self.key);
        self.count
            .fetch_add(i64::try_from(new.len()).unwrap(), Ordering::SeqCst);
        self.new.lock().unwrap().extend(new);
        self.present.lock().unwrap().extend_from_slice(&items[..taken]);
    }

    /// Reads the answers to additions of packed items, which are bits or only a count.
    fn learn_packed(&self, items: &[String], answer: &Reply) {
        let taken = match answer {
            Reply::Bulk(_) => {
                let answers = bits(answer, items.len()).into_iter().map(i64::from);
                return self.learn(items, &answers.map(Reply::from).collect::<Vec<_>>());
            }
            Reply::Int(new) => {
                self.count.fetch_add(*new, Ordering::SeqCst);
                items.len()
            }
            refused => {
                // How many of those taken were new is not told.
                assert!(self.fixed, "{}: {refused:?}", self.key);
                taken(refused, FULL)
            }
        };
        self.present.lock().unwrap().extend_from_slice(&items[..taken]);
    }

    /// Some of the items that are in the filter for sure.
    fn some(&self, random: &mut StdRng, count: usize) -> Vec<String> {
        let present = self.present.lock().unwrap();
        if present.is_empty() {
            return Vec::new();
        }
        (0..count)
            .map(|_| present[random.random_range(0..present.len())].clone())
            .collect()
    }
}

/// Items to add: some that other clients add too, some that nobody else has, some twice.
fn items(random: &mut StdRng, count: usize) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for _ in 0..count {
        let item = match (random.random_range(0..10), items.last()) {
            (0, Some(last)) => last.clone(),
            (1..7, _) => random.random_range(0..SHARED).to_string(),
            _ => format!("{:x}", random.random::<u128>()),
        };
        items.push(item);
    }
    items
}

/// How a client packs the items of one command, and whether it has the answers counted.
fn packing(random: &mut StdRng) -> (Form, &'static str) {
    let form = if random.random_bool(0.5) {
        Form::Lines
    } else {
        Form::Prefixed
    };
    (form, if random.random_bool(0.3) { "COUNT" } else { "" })
}

/// One command of one client, and everything that must be true of its answer.
fn act(client: &mut Client, own: usize, random: &mut StdRng, known: &[Known]) {
    let filter = &known[random.random_range(0..known.len())];
    let key = filter.key;
    let size = random.random_range(1..=BATCH);
    let batch = items(random, size);
    let expect_all = |reply: &Reply, asked: &[String]| {
        assert_eq!(reply.elements().len(), asked.len(), "{key}");
        for (item, found) in asked.iter().zip(reply.elements()) {
            assert_eq!(found.number(), 1.0, "{key} has lost {item}");
        }
    };
    match random.random_range(0..100) {
        0..10 => {
            let reply = client.call(&["BF.ADD", key, &batch[0]]);
            filter.learn(&batch[..1], &[reply]);
        }
        10..22 => {
            let reply = client.over(&format!("BF.MADD {key}"), &batch);
            filter.learn(&batch, reply.elements());
        }
        22..34 => {
            let reply = client.over(&format!("BF.INSERT {key} NOCREATE ITEMS"), &batch);
            filter.learn(&batch, reply.elements());
        }
        34..50 => {
            let (form, count) = packing(random);
            let head = format!("BF.ADDPACKED {key} {} {count}", form.words());
            let reply = client.over(head.trim_end(), &[form.pack(&batch)]);
            filter.learn_packed(&batch, &reply);
        }
        50..58 => {
            for item in filter.some(random, 1) {
                let reply = client.call(&["BF.EXISTS", key, &item]);
                expect_all(&Reply::Array(vec![reply]), &[item]);
            }
        }
        58..68 => {
            let asked = filter.some(random, BATCH);
            if !asked.is_empty() {
                expect_all(&client.over(&format!("BF.MEXISTS {key}"), &asked), &asked);
            }
        }
        68..80 => {
            let asked = filter.some(random, BATCH);
            let (form, count) = packing(random);
            let head = format!("BF.EXISTSPACKED {key} {} {count}", form.words());
            let reply = client.over(head.trim_end(), &[form.pack(&asked)]);
            let all = if count.is_empty() {
                bitmap(asked.iter().map(|_| true))
            } else {
                (asked.len() as i64).into()
            };
            assert_eq!(reply, all, "{key} has lost some of {asked:?}");
        }
        80..88 => {
            let before = filter.count.load(Ordering::SeqCst);
            let card = client.call(&["BF.CARD", key]).int();
            assert!(card >= before, "{key}: {card} of at least {before}");
        }
        88..92 => {
            let before = filter.count.load(Ordering::SeqCst);
            let info = client.call(&["BF.INFO", key, "FULL"]);
            assert!(
                info.field("Number of items inserted").int() >= before,
                "{key}: {info:?}"
            );
            assert!(
                info.field("Estimated error rate").number() < 0.011,
                "{key}: {info:?}"
            );
        }
        92..94 => {
            let lines = client.call(&["BF.DEBUG", key]);
            assert!(lines.elements()[0].text().starts_with("size:"), "{lines:?}");
        }
        94..96 => {
            assert_eq!(client.call(&["BF.RESERVE", key, "0.5", "7"]), error(EXISTS));
        }
        96..98 => {
            let copy = format!("copy:{own}");
            let chunks = chunks::scandump(client, "frozen");
            chunks::load(client, &copy, &chunks);
            assert_eq!(client.dump(&copy), client.dump("frozen"));
            let delete = if random.random_bool(0.5) { "DEL" } else { "UNLINK" };
            assert_eq!(client.call(&[delete, &copy]), 1.into());
        }
        _ => {
            let own = format!("own:{own}");
            client.call(&["DEL", &own]);
            if random.random_bool(0.5) {
                client.answers(&[(&format!("BF.RESERVE {own} 0.001 50"), ok())]);
                let added = client.over(&format!("BF.MADD {own}"), &batch);
                assert_eq!(added.elements().len(), batch.len());
            } else {
                let head = format!("BF.ADDPACKED {own} ERROR 0.001 CAPACITY 50 LINES");
                let added = client.over(&head, &[Form::Lines.pack(&batch)]);
                assert!(bits(&added, batch.len())[0], "the first of a new filter is new");
            }
            expect_all(&client.over(&format!("BF.MEXISTS {own}"), &batch), &batch);
        }
    }
}

/// Under load, items that were confirmed would be lost, counts would drift, or a replica would part from its
/// primary.
#[test]
#[serial(memory)]
fn fifty_clients_lose_nothing() {
    let seed = seed();
    let mut primary = Server::with()
        .config("appendonly", "yes")
        .config("appendfsync", "no")
        .start();
    let replica = Server::with()
        .module_args("bf-initial-size 7 bf-seed 9")
        .replica_of(&primary)
        .start();
    let mut client = primary.client();
    client.answers(&[
        ("BF.ADD default first", 1.into()),
        ("BF.RESERVE reserved 0.001 5000", ok()),
        ("BF.RESERVE classic 0.01 1000 LAYOUT CLASSIC", ok()),
        (&format!("BF.RESERVE fixed 0.01 {FIXED} NONSCALING"), ok()),
        ("BF.RESERVE narrow 0.01 5000 EXPANSION 1", ok()),
        ("BF.RESERVE frozen 0.01 50", ok()),
    ]);
    client.over(
        "BF.MADD frozen",
        &(0..500).map(|item| item.to_string()).collect::<Vec<_>>(),
    );
    let known = ["default", "reserved", "classic", "fixed", "narrow"].map(Known::new);
    known[0].learn(&["first".to_owned()], &[1.into()]);
    let left = AtomicUsize::new(CLIENTS);
    thread::scope(|scope| {
        for own in 0..CLIENTS {
            let (primary, known, left) = (&primary, &known, &left);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed ^ own as u64);
                let mut client = PROTOCOLS[own % 2](primary);
                for number in 0..sample(COMMANDS) {
                    act(&mut client, own, &mut random, known);
                    if own == 0 && number % 200 == 100 {
                        client.run(["BGSAVE", "BGREWRITEAOF"][number / 200 % 2]);
                    }
                    if number % 150 == 149 {
                        client = PROTOCOLS[random.random_range(0..2)](primary);
                    }
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(left.load(Ordering::SeqCst), 0);
    let check = |client: &mut Client, who: &str| {
        for filter in &known {
            let present = filter.present.lock().unwrap();
            for batch in present.chunks(1000) {
                let found = client.over(&format!("BF.MEXISTS {}", filter.key), batch);
                assert_eq!(found, array(vec![1; batch.len()]), "{} of {who}", filter.key);
            }
            let card = client.call(&["BF.CARD", filter.key]).int();
            let counted = filter.count.load(Ordering::SeqCst);
            if filter.fixed {
                // Of the one batch that filled it, if that was packed, the new ones were not counted.
                assert_eq!(card, FIXED, "{who}");
                assert!(
                    (card - BATCH as i64..=card).contains(&counted),
                    "{counted} of {who}"
                );
            } else {
                assert_eq!(card, counted, "{} of {who}", filter.key);
            }
        }
    };
    for filter in &known {
        let new = filter.new.lock().unwrap();
        let distinct: HashSet<_> = new.iter().collect();
        assert_eq!(distinct.len(), new.len(), "{}: an item was new twice", filter.key);
        assert!(
            distinct.len() > 2000,
            "{}: too few items to say anything",
            filter.key
        );
    }
    check(&mut client, "the primary");
    in_step(&primary, &replica);
    let dumps = |client: &mut Client| known.each_ref().map(|filter| client.dump(filter.key));
    let before = dumps(&mut client);
    assert!(
        dumps(&mut replica.client()) == before,
        "the replica's bits are others"
    );
    check(&mut replica.client(), "the replica");
    drop(replica);
    until("the background work ends", || is_idle(&mut client));
    primary.kill9();
    primary.revive();
    assert!(
        dumps(&mut primary.client()) == before,
        "the append-only file's bits are others"
    );
    assert!(!primary.log().contains("BUG REPORT"));
}

/// A client that goes away or never reads its replies would leave half of its batch in the filter, or take the server down
/// with it. (One that goes within a command is in `commands/packed.rs`.)
#[test]
#[serial(memory)]
fn a_batch_is_taken_whole_or_not_at_all() {
    let server = Server::start();
    let mut client = server.client();
    let numbers: Vec<_> = (0..1_000_000).map(|item| item.to_string()).collect();
    let madd: Vec<_> = ["BF.MADD", "key"]
        .into_iter()
        .chain(numbers.iter().map(String::as_str))
        .collect();
    let packed = Form::Lines.pack(&numbers);
    let packed = [b"BF.ADDPACKED", &b"key"[..], b"LINES", &packed];
    let empty = |client: &mut Client| {
        client.answers(&[
            ("FLUSHALL SYNC", ok()),
            ("BF.RESERVE key 1e-9 1100000 SEED 1", ok()),
            ("BF.ADD key first", 1.into()),
        ]);
        client.used_memory()
    };
    let forgotten = |client: &mut Client, memory: i64| {
        until("the server forgets the client", || {
            client.stat("clients", "connected_clients") == "1" && client.used_memory() < memory + 2_000_000
        });
    };
    let whole = |client: &mut Client, name: &str| {
        until("the batch is in", || client.run("BF.CARD key") != 1.into());
        assert_eq!(client.run("BF.CARD key"), 1_000_001.into(), "{name}");
        for batch in numbers.chunks(100_000) {
            assert!(
                client.over("BF.MEXISTS key", batch) == array(vec![1; batch.len()]),
                "{name}: items are lost"
            );
        }
    };
    for (name, wire) in [("BF.MADD", wire(&madd)), ("BF.ADDPACKED", wire(&packed))] {
        let memory = empty(&mut client);
        let mut sender = server.client();
        sender.send_bytes(&wire).unwrap();
        drop(sender);
        whole(&mut client, name);
        forgotten(&mut client, memory);

        let memory = empty(&mut client);
        let mut deaf = server.client();
        // More than the connection holds: what is answered after these waits in the server.
        for _ in 0..4 {
            deaf.send(&["BF.SCANDUMP", "key", "1"]).unwrap();
        }
        until("the replies wait", || client.used_memory() > memory + 10_000_000);
        deaf.send_bytes(&wire).unwrap();
        whole(&mut client, name);
        assert!(
            client.used_memory() > memory + 10_000_000,
            "{name}: nothing waited"
        );
        drop(deaf);
        forgotten(&mut client, memory);
    }
    assert!(server.is_alive());
}

/// A client that asks much and reads nothing would stop the others, or keep the memory for ever.
#[test]
#[serial(memory)]
fn a_reply_that_nobody_reads_harms_nobody() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE key 0.01 20000000 SEED 1", ok()),
        ("BF.MADD key a b", array([1, 1])),
    ]);
    let memory = client.used_memory();
    let items: Vec<_> = (0..500_000).map(|item| item.to_string()).collect();
    let question: Vec<_> = ["BF.MEXISTS", "key"]
        .into_iter()
        .chain(items.iter().map(String::as_str))
        .collect();
    let question = wire(&question);
    for connect in PROTOCOLS {
        let mut deaf = connect(&server);
        for _ in 0..4 {
            deaf.send(&["BF.SCANDUMP", "key", "1"]).unwrap();
        }
        deaf.send_bytes(&question).unwrap();
        until("the replies wait", || client.used_memory() > memory + 50_000_000);
        client.answers(&[
            ("BF.MEXISTS key a b c", array([1, 1, 0])),
            ("BF.ADD key a", 0.into()),
        ]);
        drop(deaf);
        until("the memory comes back", || {
            client.used_memory() < memory + 2_000_000
        });
    }
    client.answers(&[("BF.CARD key", 2.into())]);
    assert!(server.is_alive());
}

/// An item that is a whole document would be cut short, or cost its length for ever.
#[test]
#[serial(memory)]
fn items_are_empty_or_a_hundred_megabytes() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 1e-9 100 SEED 1", ok())]);
    let memory = client.used_memory();
    let huge = vec![b'x'; 100_000_000];
    let mut other = huge.clone();
    *other.last_mut().unwrap() = b'y';
    for item in [&b""[..], &huge] {
        assert_eq!(client.call(&[&b"BF.ADD"[..], b"key", item]), 1.into());
        assert_eq!(client.call(&[&b"BF.EXISTS"[..], b"key", item]), 1.into());
    }
    let last_differs = client.call(&[&b"BF.EXISTS"[..], b"key", &other]);
    assert_eq!(last_differs, 0.into(), "the last byte counts");
    let mixed: [&[u8]; 5] = [b"small", &other, b"", b"x", &huge];
    assert_eq!(client.over("BF.MADD key", &mixed), array([1, 1, 0, 1, 0]));
    assert_eq!(client.over("BF.MEXISTS key", &mixed), array([1; 5]));
    client.answers(&[("BF.CARD key", 5.into())]);
    drop(client);
    let mut client = server.client();
    until("the memory comes back", || {
        client.used_memory() < memory + 2_000_000
    });
    assert!(server.is_alive());
}
