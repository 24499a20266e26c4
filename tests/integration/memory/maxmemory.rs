//! What `maxmemory` leaves for filters: what was accepted fits, and what was refused changed nothing.

use serial_test::serial;

use crate::client::{Client, Reply, error, ok};
use crate::server::{Server, sample, skip, until};
use crate::support::items::numbered;
use crate::support::packed::{Form, bits, taken};
use crate::support::payload::BAD_FORMAT;

const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const NOT_COPIED: &str = "ERR module key failed to copy";
const MIB: u64 = 1 << 20;
/// Bytes of `maxmemory` that a filter leaves free, and bytes that the server itself takes meanwhile.
const BUFFERS: u64 = MIB + 500_000;

fn stage(client: &mut Client, words: &str, field: &str) -> u64 {
    let plan = client.run(&format!("BF.PLAN {words}"));
    plan.field("Stages").elements()[0]
        .field(field)
        .int()
        .unsigned_abs()
}

fn used(client: &mut Client) -> u64 {
    client.used_memory().unsigned_abs()
}

/// A way to a filter.
#[derive(Clone, Copy, Debug)]
enum Way {
    Reserve,
    Insert,
    AddPacked,
    LoadChunk,
    Restore,
    Copy,
    Grow,
    GrowPacked,
}

const WAYS: [Way; 8] = [
    Way::Reserve,
    Way::Insert,
    Way::AddPacked,
    Way::LoadChunk,
    Way::Restore,
    Way::Copy,
    Way::Grow,
    Way::GrowPacked,
];

/// A filter to be, and what brings it.
struct Wanted {
    capacity: u64,
    /// Bytes of the filter.
    size: u64,
    /// Bytes of the layer by which a filter grows, of about the same capacity.
    grown: u64,
    header: Vec<u8>,
    payload: Vec<u8>,
}

/// How much a first layer grows by.
const EXPANSION: u64 = 32_768;

impl Wanted {
    fn new(client: &mut Client, capacity: u64) -> Self {
        let capacity = capacity / EXPANSION * EXPANSION;
        client.answers(&[
            ("CONFIG SET maxmemory 0", ok()),
            (&format!("BF.RESERVE wanted 0.01 {capacity} SEED 1"), ok()),
        ]);
        let first = client.run(&format!(
            "BF.PLAN 0.01 {} EXPANSION {EXPANSION}",
            capacity / EXPANSION
        ));
        let memory = |stage: usize| first.field("Stages").elements()[stage].field("Size").int();
        let wanted = Self {
            capacity,
            grown: (memory(1) - memory(0)).unsigned_abs(),
            size: stage(client, &format!("0.01 {capacity}"), "Size"),
            header: client.run("BF.SCANDUMP wanted 0").elements()[1].bytes().to_vec(),
            payload: client.dump("wanted").bytes().to_vec(),
        };
        client.answers(&[("DEL wanted", 1.into())]);
        wanted
    }

    /// Bytes of what comes in this way.
    fn size(&self, way: Way) -> u64 {
        match way {
            Way::Grow | Way::GrowPacked => self.grown,
            _ => self.size,
        }
    }

    /// Makes the keys that must be there before the filter comes in this way.
    fn prepare(&self, client: &mut Client, way: Way) {
        client.answers(&[("CONFIG SET maxmemory 0", ok()), ("FLUSHALL SYNC", ok())]);
        match way {
            Way::Copy => {
                let line = format!("BF.RESERVE other 0.01 {} SEED 1", self.capacity);
                client.answers(&[(&line, ok())]);
            }
            Way::Grow | Way::GrowPacked => {
                let first = self.capacity / EXPANSION;
                let line = format!("BF.RESERVE key 0.01 {first} EXPANSION {EXPANSION} SEED 1");
                client.answers(&[(&line, ok())]);
                for number in 0.. {
                    if client.run("BF.CARD key").int().unsigned_abs() == first {
                        break;
                    }
                    client.call(&["BF.ADD", "key", &format!("first {number}")]);
                }
            }
            _ => {}
        }
    }

    /// Whether the filter came that way; it is refused with the right words, and then all is as it was.
    fn comes(&self, client: &mut Client, way: Way) -> bool {
        let before = (client.run("DBSIZE"), client.dump("key"), client.dump("other"));
        let (reply, refusal) = match way {
            Way::Reserve => {
                let line = format!("BF.RESERVE key 0.01 {} SEED 1", self.capacity);
                (client.run(&line), NO_CREATION)
            }
            Way::Insert => {
                let line = format!("BF.INSERT key CAPACITY {} SEED 1 ITEMS item", self.capacity);
                let reply = client.run(&line);
                let first = match reply {
                    Reply::Array(answers) => answers[0].clone(),
                    reply => reply,
                };
                (first, NO_CREATION)
            }
            Way::AddPacked => {
                let words = format!("CAPACITY {} SEED 1 LINES COUNT", self.capacity);
                (client.run(&format!("BF.ADDPACKED key {words} item")), NO_CREATION)
            }
            Way::LoadChunk => {
                let reply = client.call(&[&b"BF.LOADCHUNK"[..], b"key", b"1", &self.header]);
                (reply, NO_CREATION)
            }
            Way::Restore => {
                let reply = client.call(&[&b"RESTORE"[..], b"key", b"0", &self.payload]);
                (reply, BAD_FORMAT)
            }
            Way::Copy => (client.run("COPY other key"), NOT_COPIED),
            Way::Grow => {
                // The next item that is new.
                let mut items =
                    (0..).map(|number| client.call(&["BF.ADD", "key", &format!("next {number}")]));
                (items.find(|reply| *reply != 0.into()).unwrap(), NO_GROWTH)
            }
            Way::GrowPacked => {
                let items: Vec<_> = (0..100).map(|number| format!("next {number}")).collect();
                let data = Form::Lines.pack(&items);
                let found = bits(&client.over("BF.EXISTSPACKED key LINES", &[&data]), items.len());
                let known = found.iter().take_while(|found| **found).count();
                let reply = match client.over("BF.ADDPACKED key LINES COUNT", &[&data]) {
                    Reply::Int(1..) => 1.into(),
                    refused => {
                        assert_eq!(
                            taken(&refused, NO_GROWTH),
                            known,
                            "those before the first new one"
                        );
                        error(NO_GROWTH)
                    }
                };
                (reply, NO_GROWTH)
            }
        };
        if reply == ok() || reply == 1.into() {
            return true;
        }
        assert_eq!(reply, error(refusal), "{way:?} of {}", self.capacity);
        assert_eq!(
            (client.run("DBSIZE"), client.dump("key"), client.dump("other")),
            before,
            "{way:?} of {}: a refusal changed something",
            self.capacity
        );
        false
    }
}

/// Adds items, all of which must be taken and found.
fn works(client: &mut Client, context: &str) {
    let items: Vec<_> = (0..100).map(|item| format!("new {item}")).collect();
    let answers = client.over("BF.MADD key", &items);
    let good = |answer: &Reply| *answer == 0.into() || *answer == 1.into();
    assert!(
        matches!(&answers, Reply::Array(answers) if answers.iter().all(good)),
        "{context}: {answers:?}"
    );
    let found = client.over("BF.MEXISTS key", &items);
    assert!(
        found.elements().iter().all(|found| *found == 1.into()),
        "{context}: the filter is gone"
    );
}

/// Capacities at 0.01 whose filters are a little above 4 MiB, which jemalloc rounds up by a quarter, and a little below.
fn capacities(client: &mut Client) -> [u64; 2] {
    let items_of_class = 4e7 * MIB as f64 / stage(client, "0.01 10000000", "Size") as f64;
    [0.97, 1.01].map(|share| (items_of_class * share) as u64)
}

/// A server would evict all that it has, and then the filter; or take no write any more.
#[test]
fn what_is_accepted_under_maxmemory_fits() {
    for policy in ["noeviction", "allkeys-lru", "volatile-lru"] {
        // What is freed in the background counts until it is gone.
        let server = Server::with()
            .config("maxmemory-policy", policy)
            .config("lazyfree-lazy-user-del", "no")
            .start();
        let mut client = server.client();
        for capacity in capacities(&mut client) {
            let wanted = Wanted::new(&mut client, capacity);
            // Where every key may be evicted, the copied one makes room for its copy.
            let makes_room = |way: &Way| policy == "allkeys-lru" && matches!(way, Way::Copy);
            for way in WAYS.into_iter().filter(|way| !makes_room(way)) {
                let (mut answers, size) = (Vec::new(), wanted.size(way));
                let step = size / sample(12).min(60) as u64;
                for left in (0..).map(|number| size / 2 + number * step) {
                    wanted.prepare(&mut client, way);
                    let limit = used(&mut client) + left;
                    client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
                    let context = format!("{policy}, {way:?} of {size} bytes, {left} left");
                    let comes = wanted.comes(&mut client, way);
                    answers.push(comes);
                    if comes {
                        works(&mut client, &context);
                        assert!(
                            client.info("key", "Capacity").unsigned_abs() >= wanted.capacity,
                            "{context}"
                        );
                        assert!(
                            used(&mut client) <= limit,
                            "{context}: the server is over its limit"
                        );
                    }
                    if left < size {
                        assert!(!comes, "{context}");
                    }
                    // An allocator may take a quarter more. A payload is held twice while it is read.
                    if left > size + size / 4 + BUFFERS + wanted.payload.len() as u64 {
                        assert!(comes, "{context}: refused");
                        break;
                    }
                }
                assert!(answers.contains(&false), "{policy}, {way:?}");
                assert_eq!(client.stat("stats", "evicted_keys"), "0", "{policy}, {way:?}");
            }
        }
    }
}

/// A filter that comes from RedisBloom would be refused although there is room for it: its bit array is the memory
/// that the server read it into, and must not count twice.
#[test]
fn a_filter_of_redisbloom_s_that_fits_is_restored() {
    let source = Server::with().config("rdbcompression", "no").start();
    let mut client = source.client();
    client.answers(&[("BF.RESERVE key 0.01 20000000 LAYOUT CLASSIC", ok())]);
    for batch in numbered("", 0, 100_000).chunks(10_000) {
        client.over("BF.MADD key", batch);
    }
    let taken = client.run("MEMORY USAGE key").int().unsigned_abs();
    let payload = client.dump("key").bytes().to_vec();
    let target = Server::start();
    let mut client = target.client();
    for (left, comes) in [(taken / 2, false), (taken + taken / 4 + BUFFERS, true)] {
        // While the command runs its payload takes as much as the array in it.
        let limit = used(&mut client) + taken + left;
        client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
        let restored = client.call(&[b"RESTORE", &b"key"[..], b"0", &payload]);
        assert_eq!(restored == ok(), comes, "{left} left for {taken}: {restored:?}");
    }
    works(&mut client, "restored");
}

/// One command of a client would end the server, wherever an administrator or a container limits its addresses.
#[test]
#[serial(memory)]
fn no_filter_ends_a_server_with_few_addresses() {
    let server = Server::start();
    let mut source = server.client();
    let (mut accepted, mut refused) = (0, 0);
    for capacity in [3_000_000, 45_900_000] {
        let wanted = Wanted::new(&mut source, capacity);
        let places = sample(4).min(32) as u64;
        for way in WAYS {
            // With less than some megabytes the server may end by itself.
            for left in (0..places)
                .map(|place| 8 * MIB + wanted.size / 2 + place * (2 * wanted.size + 72 * MIB) / places)
            {
                // To compress, the server itself needs half a megabyte of stack, and ends where it cannot have it.
                let server = Server::with().config("rdbcompression", "no").start();
                let mut client = server.client();
                wanted.prepare(&mut client, way);
                if server.limit_addresses(left).is_none() {
                    skip!("nobody can limit a process here");
                }
                if wanted.comes(&mut client, way) {
                    accepted += 1;
                    works(
                        &mut client,
                        &format!("{way:?} of {} bytes, {left} left", wanted.size),
                    );
                } else {
                    refused += 1;
                }
                assert!(server.is_alive(), "{way:?} of {} bytes, {left} left", wanted.size);
            }
        }
    }
    assert!(
        accepted > 0 && refused > 0,
        "{accepted} are accepted, {refused} refused"
    );
}

/// A small payload would fill the machine: each of its layers is small enough to be free.
#[test]
fn layers_of_a_payload_are_held_against_limits_together() {
    const LAYERS: u32 = 200;
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE one 0.02 80000 LAYOUT CLASSIC", ok())]);
    let one = client.run("BF.SCANDUMP one 0").elements()[1].bytes().to_vec();
    let mut header = one.repeat(1);
    header.truncate(20);
    header[8..12].copy_from_slice(&LAYERS.to_le_bytes());
    (0..LAYERS).for_each(|_| header.extend_from_slice(&one[20..]));
    assert_eq!(client.call(&[&b"BF.LOADCHUNK"[..], b"many", b"1", &header]), ok());
    let size = client.info("many", "Size").unsigned_abs();
    assert!(size > 12 * MIB, "{size}");
    let payload = client.dump("many").bytes().to_vec();
    assert!((payload.len() as u64) < MIB, "{}", payload.len());
    client.answers(&[("DEL many", 1.into())]);
    for (left, reply) in [
        (size / 2, error(BAD_FORMAT)),
        (size / 10 * 9, error(BAD_FORMAT)),
        (size / 10 * 14, ok()),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let limit = used(&mut client) + left;
        client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
        let restored = client.call(&[&b"RESTORE"[..], b"many", b"0", &payload]);
        assert_eq!(restored, reply, "{left} left for {size}");
        let peak: u64 = client.stat("memory", "used_memory_peak").parse().unwrap();
        assert!(
            peak <= limit + BUFFERS + payload.len() as u64,
            "{left} left: {peak} of {limit}"
        );
    }
    let option = Server::with().module_args("bf-max-filter-bytes 5mb").start();
    let mut client = option.client();
    let restored = client.call(&[&b"RESTORE"[..], b"many", b"0", &payload]);
    assert_eq!(restored, error(BAD_FORMAT));
    client.answers(&[("EXISTS many", 0.into())]);
}

/// A filter would be accepted that cannot be made room for, and the server refuse every write from then on.
#[test]
fn only_what_can_be_evicted_counts_as_room() {
    // What is evicted in the background counts until it is gone.
    let server = Server::with()
        .config("maxmemory-policy", "volatile-lru")
        .config("lazyfree-lazy-eviction", "no")
        .start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE lasting 0.01 6000000", ok())]);
    let limit = used(&mut client) + 4 * MIB;
    client.answers(&[
        (&format!("CONFIG SET maxmemory {limit}"), ok()),
        ("BF.RESERVE key 0.01 5000000", error(NO_CREATION)),
        ("EXPIRE lasting 10000", 1.into()),
        ("BF.RESERVE key 0.01 4000000", ok()),
        ("BF.ADD key item", 1.into()),
        ("EXISTS lasting", 0.into()),
    ]);
    // More than there can ever be room for.
    client.answers(&[("BF.RESERVE other 0.01 12000000", error(NO_CREATION))]);
}

/// One small key that expires would make room of half of the filters that stay: the next filter would be accepted, and
/// the server refuse every write from then on.
#[test]
fn filters_that_stay_are_no_room() {
    let server = Server::with()
        .config("maxmemory-policy", "volatile-lru")
        .config("lazyfree-lazy-eviction", "no")
        .start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE lasting 0.01 30000000", ok()),
        ("SET short-lived x EX 10000", ok()),
    ]);
    let limit = used(&mut client) + 4 * MIB;
    client.answers(&[
        (&format!("CONFIG SET maxmemory {limit}"), ok()),
        ("BF.RESERVE key 0.01 6000000", error(NO_CREATION)),
        ("SET another x", ok()),
    ]);
}

/// A server whose large keys stay would evict all of the small ones in vain, and then refuse every write; and one
/// that is a cache would take no filter once it is full.
#[test]
fn large_keys_that_stay_are_no_room() {
    let server = Server::with()
        .config("maxmemory-policy", "volatile-lru")
        .config("lazyfree-lazy-eviction", "no")
        .start();
    let mut client = server.client();
    let value = vec![b'x'; 1000];
    let cache = |client: &mut Client, keys: usize| {
        for at in 0..keys {
            let key = format!("cached {at}");
            let kept = client.call(&[&b"SET"[..], key.as_bytes(), &value, b"EX", b"10000"]);
            assert_eq!(kept, ok());
        }
    };
    cache(&mut client, 1000);
    // Most keys expire, and most of the data does not. Values are not sent, which would fill buffers of the server for a
    // while.
    for number in 0..30 {
        client.answers(&[(&format!("SETRANGE large{number} 1048575 x"), (1 << 20).into())]);
    }
    let limit = used(&mut client) + 8 * MIB;
    client.answers(&[
        (&format!("CONFIG SET maxmemory {limit}"), ok()),
        ("BF.RESERVE key 0.01 11000000", error(NO_CREATION)),
        ("DBSIZE", 1030.into()),
        ("SET small x", ok()),
    ]);
    cache(&mut client, 12_000);
    let limit = used(&mut client);
    client.answers(&[
        (&format!("CONFIG SET maxmemory {limit}"), ok()),
        ("BF.RESERVE key 0.01 2000000", ok()),
        ("BF.ADD key item", 1.into()),
        ("BF.EXISTS key item", 1.into()),
        ("EXISTS small", 1.into()),
    ]);
}

/// How filters come one after another.
#[derive(Clone, Copy, Debug)]
enum Coming {
    Reserved,
    /// Of less than a megabyte each, faster than the server evicts.
    Small,
    Copied,
    Loaded,
    Merged,
    Grown,
    InTransaction,
    SmallInTransaction,
    InScript,
    SmallInScript,
}

impl Coming {
    const ALL: [Self; 10] = [
        Self::Reserved,
        Self::Small,
        Self::Copied,
        Self::Loaded,
        Self::Merged,
        Self::Grown,
        Self::InTransaction,
        Self::SmallInTransaction,
        Self::InScript,
        Self::SmallInScript,
    ];

    /// Makes or enlarges filters until they have 40 MB or more, if nothing is refused. Returns how many came, and the errors.
    fn fill(self, client: &mut Client, header: &[u8]) -> (usize, Vec<String>) {
        let lines = |count: usize, line: &dyn Fn(usize) -> String| -> Vec<Vec<Vec<u8>>> {
            let words = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            (0..count).map(|number| words(line(number))).collect()
        };
        let large = |number| format!("BF.RESERVE filter{number} 0.01 1500000");
        let small = |number| format!("BF.RESERVE filter{number} 0.01 600000");
        let in_script = |count, capacity| {
            let script = format!(
                "local told = {{}} for number = 1, {count} do local made = redis.pcall('BF.RESERVE', 'filter' .. number, \
                 '0.01', {capacity}) told[number] = made.err or made.ok end return told"
            );
            vec![
                ["EVAL", &script, "0"]
                    .map(|word| word.as_bytes().to_vec())
                    .to_vec(),
            ]
        };
        let transaction = |commands: Vec<Vec<Vec<u8>>>| {
            let word = |word: &str| vec![vec![word.as_bytes().to_vec()]];
            [word("MULTI"), commands, word("EXEC")].concat()
        };
        let commands = match self {
            Self::Reserved => lines(25, &large),
            Self::Small => lines(60, &small),
            Self::Copied => lines(25, &|number| format!("COPY source filter{number}")),
            Self::Merged => lines(25, &|number| format!("BF.MERGE filter{number} 1 source")),
            Self::Loaded => (0..25)
                .map(|number| {
                    let key = format!("filter{number}").into_bytes();
                    vec![b"BF.LOADCHUNK".to_vec(), key, b"1".to_vec(), header.to_vec()]
                })
                .collect(),
            Self::Grown => {
                let items = |from: usize| numbered("", from, from + 10_000);
                let add = |batch: usize| {
                    let key = format!("growing{}", batch % 4);
                    let words = ["BF.MADD".to_owned(), key].map(String::into_bytes);
                    words.into_iter().chain(items(batch / 4 * 10_000)).collect()
                };
                (0..240).map(add).collect()
            }
            Self::InTransaction => transaction(lines(25, &large)),
            Self::SmallInTransaction => transaction(lines(60, &small)),
            Self::InScript => in_script(25, 1_500_000),
            Self::SmallInScript => in_script(60, 600_000),
        };
        let (mut came, mut errors) = (0, Vec::new());
        let mut replies = client.calls(&commands);
        while let Some(reply) = replies.pop() {
            match reply {
                Reply::Array(inner) => {
                    came += usize::from(
                        matches!(self, Self::Grown) && !matches!(inner.last(), Some(Reply::Error(_))),
                    );
                    replies.extend(inner);
                }
                Reply::Error(error) => errors.push(error),
                Reply::Bulk(text) if text != b"OK" => errors.push(String::from_utf8(text).unwrap()),
                Reply::Int(_) if matches!(self, Self::Grown) => {}
                Reply::Simple(text) if text == "QUEUED" => {}
                _ => came += 1,
            }
        }
        (came, errors)
    }
}

/// A server whose small keys may be evicted would be filled with filters that may not, and refuse every write from then on:
/// each command would be promised what the one before it was promised. Where nothing is evicted, the server does not
/// look at the commands inside of another one.
#[test]
fn filters_are_not_promised_the_same_room_twice() {
    let volatile = Coming::ALL.map(|coming| ("volatile-lru", coming));
    let inside = [Coming::SmallInTransaction, Coming::SmallInScript];
    let inside = inside.map(|coming| ("noeviction", coming));
    for (policy, coming) in volatile.into_iter().chain(inside) {
        let server = Server::with().config("maxmemory-policy", policy).start();
        let mut client = server.client();
        client.answers(&[("BF.RESERVE source 0.01 1500000 SEED 1", ok())]);
        let header = client.run("BF.SCANDUMP source 0").elements()[1].bytes().to_vec();
        if matches!(coming, Coming::Grown) {
            for number in 0..4 {
                let line = format!("BF.RESERVE growing{number} 1e-30 10000 EXPANSION 3");
                client.answers(&[(&line, ok())]);
            }
        }
        let script = "for number = 1, 50000 do \
                      redis.call('SET', 'cached' .. number, string.rep('x', 130), 'EX', 10000) end";
        client.call(&["EVAL", script, "0"]);
        let limit = used(&mut client) + 4 * MIB;
        client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
        let (came, errors) = coming.fill(&mut client, &header);
        assert!(came > 1, "{policy}, {coming:?}: {errors:?}");
        assert!(!errors.is_empty(), "{policy}, {coming:?}: all of {came} came");
        until(
            &format!("{coming:?}: the server has evicted what it must"),
            || {
                // The buffers of the client that asks are counted too.
                used(&mut client) <= limit + MIB / 16
            },
        );
        client.answers(&[("SET another x", ok()), ("EXISTS source", 1.into())]);
        assert!(client.run("DBSIZE").int() > 100, "{coming:?}: nothing is left");
    }
}

/// Whoever may write to a replica could fill it, whatever its owner allows.
#[test]
fn clients_of_a_writable_replica_have_limits() {
    let primary = Server::start();
    let replica = Server::with()
        .module_args("bf-max-filter-bytes 5000")
        .config("replica-read-only", "no")
        .replica_of(&primary)
        .start();
    let (mut client, mut local) = (primary.client(), replica.client());
    client.answers(&[
        ("BF.RESERVE key 0.01 10000", ok()),
        ("BF.ADD key item", 1.into()),
        ("COPY key copy", 1.into()),
    ]);
    let payload = client.dump("key");
    let restore = |client: &mut Client| client.call(&[&b"RESTORE"[..], b"restored", b"0", payload.bytes()]);
    crate::support::link::in_step(&primary, &replica);
    assert_eq!(local.dump("copy"), payload, "a primary is obeyed");
    local.answers(&[
        ("COPY key mine", error(NOT_COPIED)),
        ("BF.RESERVE mine 0.01 10000", error(NO_CREATION)),
        ("EXISTS mine", 0.into()),
    ]);
    assert_eq!(restore(&mut local), error(BAD_FORMAT));
    local.answers(&[("EXISTS restored", 0.into())]);
    // In transactions too, whoever sends them.
    client.answers(&[
        ("MULTI", ok()),
        ("COPY key another", Reply::Simple("QUEUED".to_owned())),
        ("EXEC", Reply::Array(vec![1.into()])),
    ]);
    assert_eq!(restore(&mut client), ok());
    crate::support::link::in_step(&primary, &replica);
    for key in ["another", "restored"] {
        assert_eq!(local.dump(key), payload, "{key}: a primary is obeyed");
    }
}

/// A replica of Redis 6.2 that gets scripts as they are would not do what its primary did.
#[test]
fn scripts_of_a_primary_are_obeyed() {
    let version = Server::version();
    if version.valkey || version.major > 6 {
        skip!("this server propagates what scripts did, never the scripts");
    }
    for read_only in ["yes", "no"] {
        let primary = Server::with().config("lua-replicate-commands", "no").start();
        let replica = Server::with()
            .module_args("bf-max-filter-bytes 5000")
            .config("replica-read-only", read_only)
            .replica_of(&primary)
            .start();
        let (mut client, mut local) = (primary.client(), replica.client());
        crate::support::link::in_step(&primary, &replica);
        let script = "redis.call('BF.RESERVE',KEYS[1],'0.01','10000','SEED','1');\
                      redis.call('BF.ADD',KEYS[1],'item') return redis.call('COPY',KEYS[1],KEYS[2])";
        let eval =
            |client: &mut Client, keys: [&str; 2]| client.call(&["EVAL", script, "2", keys[0], keys[1]]);
        assert_eq!(eval(&mut client, ["key", "copy"]), 1.into());
        crate::support::link::in_step(&primary, &replica);
        for key in ["key", "copy"] {
            assert_eq!(local.dump(key), client.dump(key), "read-only {read_only}");
        }
        if read_only == "no" {
            let refused = format!("{:?}", eval(&mut local, ["mine", "other"]));
            assert!(
                refused.contains("Insufficient memory to create filter"),
                "{refused}"
            );
            local.answers(&[("EXISTS mine other", 0.into())]);
        }
    }
}

/// A replica of such a primary, and the primary itself after a restart, would take the script's words for those of
/// RedisBloom, and make a filter of another layout than the one that the script made.
#[test]
fn scripts_have_words_of_their_own() {
    let version = Server::version();
    if version.valkey || version.major > 6 {
        skip!("this server propagates what scripts did, never the scripts");
    }
    let setup = || {
        Server::with()
            .config("lua-replicate-commands", "no")
            .module_args("bf-seed 7")
            .append_only()
    };
    let mut primary = setup().start();
    let mut replica = setup().replica_of(&primary).start();
    let mut client = primary.client();
    crate::support::link::in_step(&primary, &replica);
    for (at, line) in [
        "'BF.ADD',KEYS[1],'item'",
        "'BF.INSERT',KEYS[1],'CAPACITY','50','ITEMS','item'",
        "'BF.RESERVE',KEYS[1],'0.01','50'",
    ]
    .iter()
    .enumerate()
    {
        let script = format!("return redis.call({line})");
        let made = client.call(&["EVAL", &script, "1", &format!("key{at}")]);
        assert!(!matches!(made, Reply::Error(_)), "{line}: {made:?}");
    }
    crate::support::link::in_step(&primary, &replica);
    let made: Vec<_> = (0..3).map(|at| client.dump(&format!("key{at}"))).collect();
    for server in [&mut primary, &mut replica] {
        server.restart();
        let mut client = server.client();
        for (at, made) in made.iter().enumerate() {
            let key = format!("key{at}");
            assert_eq!(&client.dump(&key), made, "{key}");
            let lines = client.run(&format!("BF.DEBUG {key}"));
            assert!(
                lines.elements()[1].text().starts_with("layout:blocked"),
                "{lines:?}"
            );
        }
    }
}
