//! Headers that no filter has: clients make them up, so that they cost as much as possible. Loading them, and every
//! command on the filters that they make, costs at most in proportion to their bytes.

use super::{Counter, now};
use crate::client::{Client, Reply, ok};
use crate::server::{Server, skip};

/// Instructions that any command may take: some 0.02 s. To size layers, and to ask layers for exceptions, is bounded.
const ALWAYS: u64 = 100_000_000;
/// Instructions that it may take for each byte of what was sent.
const OF_BYTE: u64 = 200;
/// How many layers a header has: 12,000 are half a megabyte or one.
const LAYERS: [u64; 3] = [1500, 6000, 12_000];

/// Appends numbers of eight bytes.
fn put(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers
        .iter()
        .for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// What all headers of blocked filters begin with, up to their slices or layers.
fn head(layers: u64, exceptions: u64, window: u32) -> Vec<u8> {
    let mut header = b"BLOOM\0\0\x03\0\0\0\0".to_vec();
    header.extend((layers as u32).to_le_bytes());
    put(&mut header, &[1, 0.25_f64.to_bits()]);
    for field in [1, 1, exceptions as u32, window] {
        header.extend(field.to_le_bytes());
    }
    header
}

/// A layer of one line.
fn layer(header: &mut Vec<u8>, capacity: u64, items: u64, rate: f64) {
    put(header, &[capacity, items, 0, rate.to_bits(), 1]);
    header.extend([1, 0, 0, 0, 8, 0, 0, 0]);
}

/// A filter that has grown to layers of one item; the first ones have rates as high as may be.
fn grown(layers: u64) -> Vec<u8> {
    let mut header = head(layers, 0, 0);
    for number in 0..layers {
        layer(&mut header, 1, 1, if number < 4 { 0.05 } else { 0.0 });
    }
    header
}

/// Layers that came together from other filters: none is full, and all have another shape and another fill.
fn composed(layers: u64, exceptions: u64) -> Vec<u8> {
    let mut header = head(layers, exceptions, 0);
    for number in 0..layers {
        layer(&mut header, 1000 + number, 100 + number % 100, 0.0);
    }
    for number in 1..=exceptions {
        put(&mut header, &[number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15)]);
    }
    header
}

/// Layers of which each could be folded by many factors, if one of them kept the rate.
fn stubborn(layers: u64) -> Vec<u8> {
    let mut header = head(layers, 0, 0);
    for _ in 0..layers {
        put(&mut header, &[99_999, 99, 0, 1e-8_f64.to_bits(), 48]);
        header.extend([1, 0, 0, 0, 2, 0, 0, 0]);
    }
    header
}

/// The seconds of a window: none of its slices expires before somebody says so.
const WINDOW: u32 = u32::MAX;

/// Slices of nearly equal numbers of layers, of which the newest one has room.
fn in_slices(layers: u64, slices: u64) -> Vec<u8> {
    // A header of a window may have four times the layers that clients can make.
    let layers = layers.min(4 * 1100);
    let mut header = head(layers, 0, WINDOW);
    put(&mut header, &[64]);
    header.extend([64, 0, 0, 0]);
    header.extend((slices as u32).to_le_bytes());
    let begin = now();
    put(&mut header, &[begin + slices, 0]);
    let counts: Vec<_> = (0..slices)
        .map(|slice| (slice + 1) * layers / slices - slice * layers / slices)
        .collect();
    for (opens, count) in (begin..).zip(&counts) {
        put(&mut header, &[opens, opens + 1, *count]);
    }
    for count in counts {
        (1..count).for_each(|_| layer(&mut header, 1, 1, 0.0));
        layer(&mut header, 1000 + count, 100, 0.0);
    }
    header
}

/// Layers of RedisBloom's layout, with as many probes as a rate can call for.
fn classic(layers: u64) -> Vec<u8> {
    let rate = 5e-324_f64;
    let per_item: f64 = 744.440_071_921_381_2 / 0.480_453_013_918_201;
    let hashes = (std::f64::consts::LN_2 * per_item).ceil() as u32;
    let bytes = (per_item as u64).next_multiple_of(64) / 8;
    let mut header = Vec::new();
    put(&mut header, &[layers]);
    for field in [layers as u32, 5, 1] {
        header.extend(field.to_le_bytes());
    }
    for _ in 0..layers {
        put(
            &mut header,
            &[bytes, 8 * bytes, 1, rate.to_bits(), per_item.to_bits()],
        );
        header.extend(hashes.to_le_bytes());
        put(&mut header, &[1]);
        header.push(0);
    }
    header
}

/// The tightening ratio next to 1: a filter may have any number of layers.
const NEXT_TO_1: f64 = 1.0 - f64::EPSILON / 2.0;
/// A seed of valkey-bloom's layout.
const SEED: [u8; 32] = [7; 32];

/// Layers of valkey-bloom's layout, each of two bytes.
fn valkey(layers: u64) -> Vec<u8> {
    let mut header = b"BLOOM\0\0\x02\0\0\0\0".to_vec();
    header.extend((layers as u32).to_le_bytes());
    put(&mut header, &[0.01_f64.to_bits(), NEXT_TO_1.to_bits()]);
    header.extend(1_u32.to_le_bytes());
    header.extend(SEED);
    for _ in 0..layers {
        put(&mut header, &[1, 1, 2]);
    }
    header
}

/// The data from which BF.LOAD makes the layers of a crafted valkey header.
fn valkey_whole(layers: u64) -> Vec<u8> {
    let mut data = vec![1, 1, 0, 0, 0];
    put(&mut data, &[0.01_f64.to_bits(), NEXT_TO_1.to_bits()]);
    data.push(1);
    put(&mut data, &[layers]);
    for _ in 0..layers {
        put(&mut data, &[45 + 2]);
        data.push(1);
        put(&mut data, &[2]);
        // 16 bits for one item.
        data.extend(11_u32.to_le_bytes());
        data.extend(SEED);
        data.extend([0, 0]);
        put(&mut data, &[1, 1]);
    }
    data
}

/// A command that loads what was made up, what makes that of a number of layers, and what it is.
type Crafted = (&'static str, fn(u64) -> Vec<u8>, &'static str);

const LOAD: &str = "BF.LOADCHUNK key 1";

const CRAFTED: &[Crafted] = &[
    (LOAD, grown, "a chain of layers for one item"),
    (LOAD, |layers| composed(layers, 0), "layers that are not full"),
    (LOAD, stubborn, "layers that cannot be folded"),
    (LOAD, |layers| composed(layers, layers), "layers and exceptions"),
    (LOAD, |layers| in_slices(layers, 512), "as many slices as may be"),
    (LOAD, |layers| in_slices(layers, 2), "two slices"),
    (LOAD, classic, "classic layers"),
    (LOAD, valkey, "layers of valkey-bloom's layout"),
    ("BF.LOAD key", valkey_whole, "layers of valkey-bloom's layout"),
];

/// Commands on a crafted filter; the key `other` has an equal one. Each command may answer with an error.
fn commands() -> Vec<String> {
    let over = now() + 1 + u64::from(WINDOW) * 1000;
    let items: String = (0..10).map(|number| format!(" absent:{number}")).collect();
    let mut commands: Vec<_> = [
        "BF.INFO key",
        "BF.INFO key FULL",
        "BF.CARD key",
        "BF.DEBUG key",
        "BF.EXISTS key absent",
        "BF.ADD key absent",
        "BF.SCANDUMP key 0",
        "BF.SCANDUMP key 1",
        "BF.MERGE key 1 other",
        "BF.MERGE new 2 key other",
        "BF.INTERSECT new 2 key other",
        "BF.EXCEPT key absent",
        "BF.SHRINK key",
        "BF.RESET key",
        "COPY key new",
        "DUMP key",
        "MEMORY USAGE key",
    ]
    .map(str::to_owned)
    .into();
    for command in ["BF.MEXISTS key", "BF.MADD key", "BF.INSERT key ITEMS"] {
        commands.push(format!("{command}{items}"));
    }
    commands.push(format!("BF.INSERT key AT {} ITEMS{items}", 1_u64 << 62));
    commands.push(format!("BF.INSERT key AT {over} ITEMS{items}"));
    commands
}

/// If a format changed and these headers did not, they would make no filters, and the costs below would be those of
/// errors.
#[test]
fn what_clients_make_up_loads() {
    let server = Server::start();
    let mut client = server.client();
    for (load, make, what) in CRAFTED {
        client.run("DEL key");
        let words = load.split(' ').map(str::as_bytes);
        let data = make(LAYERS[0]);
        let reply = client.call(&words.chain([&data[..]]).collect::<Vec<_>>());
        assert_eq!(reply, ok(), "{what}");
        assert_eq!(
            client.info("key", "Number of filters"),
            LAYERS[0] as i64,
            "{what}"
        );
    }
}

/// A client who may write a key would hold up everybody else for seconds or minutes, with a header of a megabyte.
#[test]
#[ignore = "it takes a while: make bench-complexity"]
fn what_clients_make_up_costs_in_proportion_to_its_bytes() {
    if !Counter::can_count() {
        skip!("valgrind is needed to count instructions");
    }
    let mut counter = Counter::start_with(&[
        "*ModuleCommandDispatcher",
        "copyCommand",
        "dumpCommand",
        "restoreCommand",
        "memoryCommand",
    ]);
    let only = std::env::var("BLOOM_TEST_LAW").unwrap_or_default();
    let mut broken = Vec::new();
    for (load, make, what) in CRAFTED {
        for layers in LAYERS {
            let data = make(layers);
            let words = |load: &str| -> Vec<Vec<u8>> {
                let words = load.split(' ').map(|word| word.as_bytes().to_vec());
                words.chain([data.clone()]).collect()
            };
            let clear = |client: &mut Client| client.run("DEL key other new");
            let mut check = |command: &str, cost: u64, bytes: usize, reply: &Reply| {
                let most = ALWAYS + OF_BYTE * bytes as u64;
                let answer = match reply {
                    Reply::Error(text) => text.as_str(),
                    _ => "",
                };
                let line =
                    format!("{command:26} {what} ({layers}, {bytes} bytes): {cost} of {most} {answer}");
                eprintln!("{} {line}", if cost <= most { "ok    " } else { "BROKEN" });
                if cost > most {
                    broken.push(line);
                }
            };
            clear(&mut counter.client);
            let (cost, reply) = counter.any_cost(&words(load));
            assert!(!matches!(reply, Reply::Error(_)), "{what}: {reply:?}");
            check(load, cost, data.len(), &reply);
            let payload = counter.client.call(&["DUMP", "key"]);
            for command in commands().iter().filter(|command| command.contains(&only)) {
                clear(&mut counter.client);
                counter.client.call(&words(load));
                counter.client.call(&words(&load.replace(" key", " other")));
                let (cost, reply) = counter.any_cost(&command.split(' ').collect::<Vec<_>>());
                let name = command.split(" absent").next().unwrap();
                check(name, cost, data.len(), &reply);
            }
            clear(&mut counter.client);
            let Reply::Bulk(payload) = payload else {
                panic!("{what}: {payload:?}");
            };
            let restore: [&[u8]; 4] = [b"RESTORE", b"key", b"0", &payload];
            let (cost, reply) = counter.any_cost(&restore);
            assert!(!matches!(reply, Reply::Error(_)), "{what}: {reply:?}");
            check("RESTORE", cost, payload.len(), &reply);
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
