//! The module's section of INFO, and the lines that it writes into the server's log.

use std::collections::BTreeMap;

use crate::client::{Client, Reply, array, error, ok};
use crate::filters;
use crate::server::{Server, until};
use crate::support::payload::{BAD_FORMAT, sealed};

const MEMORY: &str = "ERR Insufficient memory to create filter";
const GROW: &str = "ERR Insufficient memory to grow filter";
const NO_ITEM: &str = "ERR there is no whole item at byte 0 of the data";

/// The figures of filters that are alive.
const LIVE: [&str; 4] = ["filters", "layers", "bytes", "items"];

/// The section, in which each name begins with the module's.
fn section(client: &mut Client) -> BTreeMap<String, u64> {
    let text = client.run("INFO bf").text();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("bf_")?.split_once(':'));
    lines
        .filter(|(name, _)| *name != "version")
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

fn figures<const N: usize>(client: &mut Client, names: [&str; N]) -> [u64; N] {
    let section = section(client);
    names.map(|name| {
        *section
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {section:?}"))
    })
}

/// The sums of the section's figures, computed from every key that holds a filter.
fn of_keys(client: &mut Client) -> [u64; 4] {
    let mut sums = [0; 4];
    for key in client.run("KEYS *").elements() {
        // Of a filter in valkey-bloom's layout the figures without FULL are in another form.
        let info = client.call(&[b"BF.INFO", key.bytes(), b"FULL"]);
        if matches!(info, Reply::Error(_)) {
            continue;
        }
        let bytes = info.field("Size").int().unsigned_abs();
        // What a window has let be over is there until its next new item: only BF.DEBUG lists it.
        let debug = client.call(&[b"BF.DEBUG", key.bytes()]);
        let layers = debug.elements().len() as u64 - 1;
        let size = debug.elements()[0].text();
        let size = size.split(' ').find_map(|word| word.strip_prefix("size:"));
        let items: u64 = size.unwrap().parse().unwrap();
        for (sum, figure) in sums.iter_mut().zip([1, layers, bytes, items]) {
            *sum += figure;
        }
    }
    sums
}

/// Waits until the figures are those of the keys: a filter is counted until the background thread has freed
/// it.
fn in_step(client: &mut Client, step: &str) {
    let expected = of_keys(client);
    until(step, || figures(client, LIVE) == expected);
}

/// Lines of the log that have `part` in them.
fn lines(server: &Server, part: &str) -> Vec<String> {
    let log = server.log();
    log.lines()
        .filter(|line| line.contains(part))
        .map(|line| line[line.find("<bf> ").unwrap() + 5..].to_owned())
        .collect()
}

/// A payload that ends within its filter, under a right checksum.
fn cut_off(dump: &[u8]) -> Vec<u8> {
    let (body, footer) = dump.split_at(dump.len() - 10);
    sealed(&body[..body.len() - 20], &footer[..2])
}

/// Nobody could tell which servers still run the version that has a fault.
#[test]
fn the_server_tells_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.stat("bf", "bf_version"), version);
    let parts = version.split('.').map(|part| part.parse::<i64>().unwrap());
    let number = parts.fold(0, |number, part| 100 * number + part);
    let modules = client.run("MODULE LIST");
    let ours = modules
        .elements()
        .iter()
        .find(|module| module.field("name").text() == "bf")
        .unwrap();
    assert_eq!(ours.field("ver"), number.into(), "{modules:?}");
}

/// Who watches a server would be told of filters that are gone, or of fewer than there are.
#[test]
fn live_figures_are_those_of_the_keys() {
    let mut server = Server::start();
    let mut client = server.client();
    assert_eq!(figures(&mut client, LIVE), [0; 4]);
    filters::make(&mut client);
    let all = of_keys(&mut client);
    assert!(
        all[0] == filters::keys().count() as u64 && all[1] > 20 && all[3] > 10_000,
        "{all:?}"
    );
    assert_eq!(figures(&mut client, LIVE), all);

    let dump = client.dump("chain").bytes().to_vec();
    let header = client.run("BF.SCANDUMP classic 0").elements()[1].bytes().to_vec();
    let restore = |client: &mut Client, key: &str, dump: &[u8], more: &[&str]| {
        let head = [b"RESTORE", key.as_bytes(), b"0", dump];
        let words: Vec<_> = head
            .into_iter()
            .chain(more.iter().map(|word| word.as_bytes()))
            .collect();
        client.call(&words)
    };
    assert_eq!(restore(&mut client, "restored", &dump, &[]), ok());
    in_step(&mut client, "RESTORE");
    assert_eq!(restore(&mut client, "restored", &dump, &["REPLACE"]), ok());
    in_step(&mut client, "RESTORE REPLACE");
    assert!(matches!(
        restore(&mut client, "restored", &dump, &[]),
        Reply::Error(_)
    ));
    in_step(&mut client, "RESTORE of a key that is there");
    let mut broken = dump.clone();
    broken[40] ^= 1;
    assert!(matches!(
        restore(&mut client, "broken", &broken, &[]),
        Reply::Error(_)
    ));
    in_step(&mut client, "RESTORE of a bad payload");
    assert_eq!(
        client.call(&[&b"BF.LOADCHUNK"[..], b"loaded", b"1", &header]),
        ok()
    );
    in_step(&mut client, "BF.LOADCHUNK");
    for line in [
        "COPY chain copied",
        "COPY tight copied REPLACE",
        "RENAME copied chain",
        "SET expansion text",
        "DEL default",
        "UNLINK loose",
        "BF.RESERVE large 0.01 20000000",
        "UNLINK large",
        "BF.RESERVE refused 0.01 1099511627776",
        "BF.RESERVE reserved 0.01 100",
        "BF.INSERT missing NOCREATE ITEMS a",
        "BF.ADDPACKED missing LINES ''",
        "BF.ADDPACKED packed CAPACITY 2 WIDTH 1 abcdefghabcd",
        "BF.ADDPACKED nonscaling LINES one\nfive\nsix",
        "DEL packed",
        "BF.MADD nonscaling one two three",
        "BF.ADD nonscaling four",
        "BF.ADD new item",
        "BF.ADD new item",
        "BF.INSERT window WINDOW 100000 ITEMS a b a",
        "BF.MADD window a c",
        "BF.INSERT last WINDOW 100000 CAPACITY 4 SLICES 2 REFRESH ITEMS a b c d e f a b g h a a c d",
        "BF.ADDPACKED last WIDTH 1 aabbccddxyz",
        "COPY window copy",
        "COPY last copy REPLACE",
        "BF.INSERT other CAPACITY 2 ITEMS a b c d e f g h a b c d",
        "BF.EXCEPT new item nothing",
        "BF.ADD window a",
        "BF.ADD new item",
        "BF.MERGE merged 2 new tight",
        "BF.MERGE merged 1 new",
        "BF.INTERSECT merged 1 new",
        "BF.RESET other",
        "BF.EXCEPT new item",
        "BF.RESET new",
        "BF.ADD new item",
        "MULTI",
        "BF.ADD new within",
        "DEL new",
        "EXEC",
        "PEXPIRE other 1",
    ] {
        client.run(line);
        if line == "MULTI" || client.run("PING") == Reply::Simple("QUEUED".into()) {
            continue;
        }
        if line.starts_with("PEXPIRE") {
            until("the key has expired", || client.run("EXISTS other") == 0.into());
        }
        in_step(&mut client, line);
    }
    client.run("DEBUG RELOAD");
    in_step(&mut client, "DEBUG RELOAD");
    client.run("SAVE");
    server.restart();
    let mut client = server.client();
    assert!(of_keys(&mut client)[0] > 5);
    in_step(&mut client, "a restart");
    client.run("FLUSHALL ASYNC");
    in_step(&mut client, "FLUSHALL");
    assert_eq!(figures(&mut client, LIVE), [0; 4]);
}

/// Whoever looks for the cause of slow lookups or of refused writes would find nothing, or something else.
#[test]
fn events_are_counted() {
    const EVENTS: [&str; 7] = [
        "items_added",
        "duplicates",
        "layers_grown",
        "refused_creations",
        "refused_growths",
        "classic_loads",
        "failed_loads",
    ];
    let server = Server::with().module_args("bf-max-filter-bytes 2000").start();
    let mut client = server.client();
    let mut expected = [0; 7];
    let mut then = |client: &mut Client, line: &str, reply: Reply, counts: [u64; 7]| {
        assert_eq!(client.run(line), reply, "{line}");
        expected
            .iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
        assert_eq!(figures(client, EVENTS), expected, "{line}");
    };
    let client = &mut client;
    then(client, "BF.ADD key a", 1.into(), [1, 0, 0, 0, 0, 0, 0]);
    then(client, "BF.ADD key a", 0.into(), [0, 1, 0, 0, 0, 0, 0]);
    then(
        client,
        "BF.MADD key a b b",
        array([0, 1, 0]),
        [1, 2, 0, 0, 0, 0, 0],
    );
    then(
        client,
        "BF.MADD other a b a",
        array([1, 1, 0]),
        [2, 1, 0, 0, 0, 0, 0],
    );
    then(client, "BF.EXISTS key a", 1.into(), [0; 7]);
    then(client, "BF.RESERVE one 1e-9 1", ok(), [0; 7]);
    then(
        client,
        "BF.INSERT one ITEMS a b c d",
        array([1, 1, 1, 1]),
        [4, 0, 2, 0, 0, 0, 0],
    );
    then(
        client,
        "BF.RESERVE large 0.01 9999",
        error(MEMORY),
        [0, 0, 0, 1, 0, 0, 0],
    );
    then(client, "BF.RESERVE full 1e-9 1 NONSCALING", ok(), [0; 7]);
    then(client, "BF.ADD full a", 1.into(), [1, 0, 0, 0, 0, 0, 0]);
    then(
        client,
        "BF.ADD full b",
        error("ERR non scaling filter is full"),
        [0; 7],
    );
    then(client, "BF.RESERVE steep 1e-9 1 EXPANSION 32768", ok(), [0; 7]);
    then(client, "BF.ADD steep a", 1.into(), [1, 0, 0, 0, 0, 0, 0]);
    then(client, "BF.ADD steep b", error(GROW), [0, 0, 0, 0, 1, 0, 0]);
    then(
        client,
        "BF.MADD steep a c",
        Reply::Array(vec![0.into(), error(GROW)]),
        [0, 1, 0, 0, 1, 0, 0],
    );
    let bits = |byte: u8| Reply::Bulk(vec![byte]);
    then(
        client,
        "BF.ADDPACKED key LINES a\nc\nd\nc",
        bits(0b0110_0000),
        [2, 2, 0, 0, 0, 0, 0],
    );
    then(
        client,
        "BF.ADDPACKED packed WIDTH 1 COUNT aba",
        2.into(),
        [2, 1, 0, 0, 0, 0, 0],
    );
    then(client, "BF.EXISTSPACKED key LINES a", bits(0b1000_0000), [0; 7]);
    then(
        client,
        "BF.ADDPACKED key LINES ''",
        Reply::Bulk(Vec::new()),
        [0; 7],
    );
    then(
        client,
        "BF.ADDPACKED full WIDTH 1 aaba",
        error("ERR non scaling filter is full after 2 items"),
        [0, 2, 0, 0, 0, 0, 0],
    );
    then(
        client,
        "BF.ADDPACKED steep LINES a\nc",
        error("ERR Insufficient memory to grow filter after 1 items"),
        [0, 1, 0, 0, 1, 0, 0],
    );
    then(
        client,
        "BF.ADDPACKED large CAPACITY 9999 LINES a",
        error(MEMORY),
        [0, 0, 0, 1, 0, 0, 0],
    );
    then(client, "BF.ADDPACKED key PREFIXED a", error(NO_ITEM), [0; 7]);
    // What lives on in a window is none that was added. Each slice has a layer of its own.
    then(
        client,
        "BF.INSERT live WINDOW 1000 SLICES 2 CAPACITY 8 REFRESH AT 1000 ITEMS a",
        array([1]),
        [1, 0, 1, 0, 0, 0, 0],
    );
    then(
        client,
        "BF.INSERT live AT 900000 ITEMS a",
        array([0]),
        [0, 1, 1, 0, 0, 0, 0],
    );
    then(client, "BF.RESERVE classic 0.01 100 LAYOUT CLASSIC", ok(), [0; 7]);
    then(client, "DEBUG RELOAD", ok(), [0, 0, 0, 0, 0, 1, 0]);
    then(client, "COPY classic copied", 1.into(), [0; 7]);
    let mut dump = client.dump("classic").bytes().to_vec();
    let restored = client.call(&[b"RESTORE", &b"restored"[..], b"0", &dump]);
    assert_eq!(restored, ok());
    let header = client.run("BF.SCANDUMP classic 0").elements()[1].bytes().to_vec();
    assert_eq!(
        client.call(&[&b"BF.LOADCHUNK"[..], b"loaded", b"1", &header]),
        ok()
    );
    then(
        client,
        "PING",
        Reply::Simple("PONG".into()),
        [0, 0, 0, 0, 0, 2, 0],
    );
    // One with a wrong checksum never gets to the module.
    *dump.last_mut().unwrap() ^= 1;
    for (payload, failed) in [(dump.clone(), 0), (cut_off(&dump), 1)] {
        let refused = client.call(&[b"RESTORE", &b"broken"[..], b"0", &payload]);
        assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
        then(
            client,
            "PING",
            Reply::Simple("PONG".into()),
            [0, 0, 0, 0, 0, 0, failed],
        );
    }
}

/// Whoever looks for filters that are missing would take a limit for damaged data, or find nothing counted.
#[test]
fn loads_and_copies_that_a_limit_refuses_are_told_from_those_that_fail() {
    /// A command, its reply, and what it adds to the figures.
    type Step<'a> = (&'a [&'a [u8]], Reply, [u64; 2]);
    const FIGURES: [&str; 2] = ["refused_creations", "failed_loads"];
    const COPY: &str = "ERR module key failed to copy";
    const HEADER: &str = "ERR received bad data";
    for layout in ["BLOCKED", "CLASSIC"] {
        let mut source = Server::start();
        let mut client = source.client();
        client.answers(&[
            (&format!("BF.RESERVE large 0.01 9999 LAYOUT {layout}"), ok()),
            (&format!("BF.RESERVE small 0.01 100 LAYOUT {layout}"), ok()),
            ("SAVE", ok()),
        ]);
        let [large, small] = ["large", "small"].map(|key| client.dump(key).bytes().to_vec());
        let header = |client: &mut Client, key| {
            client.call(&["BF.SCANDUMP", key, "0"]).elements()[1]
                .bytes()
                .to_vec()
        };
        let [large_header, small_header] = ["large", "small"].map(|key| header(&mut client, key));
        source.kill9();

        // The file is obeyed; what clients want is held against the limit.
        let server = Server::with()
            .dir(source.dir())
            .module_args("bf-max-filter-bytes 2000")
            .start();
        let mut client = server.client();
        let (broken, broken_header) = (cut_off(&small), &small_header[..small_header.len() - 1]);
        let mut expected = figures(&mut client, FIGURES);
        assert_eq!(expected, [0, 0]);
        let steps: [Step<'_>; 9] = [
            (&[b"COPY", b"small", b"copied"], 1.into(), [0, 0]),
            (&[b"COPY", b"large", b"new"], error(COPY), [1, 0]),
            (&[b"COPY", b"large", b"small", b"REPLACE"], error(COPY), [1, 0]),
            (&[b"RESTORE", b"restored", b"0", &small], ok(), [0, 0]),
            (&[b"RESTORE", b"new", b"0", &large], error(BAD_FORMAT), [1, 0]),
            (&[b"RESTORE", b"new", b"0", &broken], error(BAD_FORMAT), [0, 1]),
            (&[b"BF.LOADCHUNK", b"loaded", b"1", &small_header], ok(), [0, 0]),
            (
                &[b"BF.LOADCHUNK", b"new", b"1", &large_header],
                error(MEMORY),
                [1, 0],
            ),
            (
                &[b"BF.LOADCHUNK", b"new", b"1", broken_header],
                error(HEADER),
                [0, 1],
            ),
        ];
        for (command, reply, counts) in steps {
            let shown = command[..2].join(&b' ').escape_ascii().to_string();
            assert_eq!(client.call(command), reply, "{layout}: {shown}");
            for (sum, count) in expected.iter_mut().zip(counts) {
                *sum += count;
            }
            assert_eq!(figures(&mut client, FIGURES), expected, "{layout}: {shown}");
        }
        client.answers(&[("EXISTS new", 0.into()), ("DBSIZE", 5.into())]);
    }
}

/// A dashboard that asks for all sections would not show this one, or one that asks for the usual ones would.
#[test]
fn the_section_is_where_modules_sections_are() {
    let server = Server::start();
    let mut client = server.client();
    for (line, there) in [
        ("INFO bf", true),
        ("INFO BF", true),
        ("INFO everything", true),
        ("INFO", false),
        ("INFO memory", false),
    ] {
        let text = client.run(line).text();
        assert_eq!(text.contains("# bf\r\nbf_version:"), there, "{line}");
    }
    let names: Vec<_> = section(&mut client).into_keys().collect();
    assert_eq!(names.len(), 15, "{names:?}");
}

/// Nobody would learn that a filter was made too small until lookups are slow, or would be told of it for ever.
#[test]
fn long_chains_are_told_of() {
    // With one seed the same items are new every time.
    let server = Server::with().append_only().module_args("bf-seed 1").start();
    let mut client = server.client();
    client.run("BF.RESERVE short 0.01 100");
    filters::fill(&mut client, "short", 0, 1400);
    assert_eq!(client.info("short", "Number of filters"), 4);
    assert_eq!(lines(&server, "has grown"), Vec::<String>::new());
    let line = |key: &str, layers: u32, items: u32| {
        format!(
            "key '{key}': the Bloom filter has grown to {layers} layers with {items} items: one that BF.RESERVE \
             makes for its final number of items is smaller and faster (BF.PLAN tells its size)"
        )
    };
    client.run("BF.RESERVE a\r\nkey 1e-9 1 EXPANSION 1");
    for item in 0..40 {
        client.call(&["BF.ADD", "a\r\nkey", &item.to_string()]);
    }
    let mut expected: Vec<_> = [5, 8, 16, 32]
        .map(|layer| line("a\\r\\nkey", layer, layer))
        .into();
    assert_eq!(lines(&server, "has grown"), expected);
    // A batch that goes past several of them is told of once.
    client.run("BF.RESERVE batch 1e-9 1 EXPANSION 1");
    filters::fill(&mut client, "batch", 0, 20);
    expected.push(line("batch", 20, 20));
    assert_eq!(lines(&server, "has grown"), expected);
    // One with exceptions goes another way. In a window layers come and go, so there it is no news.
    client.run("BF.RESERVE excepted 1e-9 1 EXPANSION 1");
    client.run("BF.ADD excepted 0");
    client.run("BF.EXCEPT excepted 0");
    filters::fill(&mut client, "excepted", 1, 20);
    expected.push(line("excepted", 20, 20));
    client.run("BF.RESERVE window 1e-9 1 EXPANSION 1 WINDOW 3600");
    filters::fill(&mut client, "window", 0, 20);
    assert!(client.info("window", "Number of filters") >= 20);
    assert_eq!(lines(&server, "has grown"), expected);
    // What is loaded was told of when it happened.
    let mut server = server;
    server.restart();
    let mut client = server.client();
    assert_eq!(client.info("batch", "Number of filters"), 20);
    in_step(&mut client, "a restart on an append-only file");
    assert_eq!(lines(&server, "has grown"), expected);
    // Many of them are too many.
    for key in 0..30 {
        client.run(&format!("BF.RESERVE {key} 1e-9 1 EXPANSION 1"));
        filters::fill(&mut client, &key.to_string(), 0, 5);
    }
    let logged = lines(&server, "has grown");
    assert_eq!(logged.len(), 6 + 10);
    assert_eq!(logged[14], line("8", 5, 5));
    assert_eq!(logged[15], line("9", 5, 5) + " (no more such lines for a minute)");
}

/// A number of bytes in the units that the log uses.
fn in_units(bytes: i64) -> String {
    let units = [
        (1i64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap();
    format!("{:.1} {name} ({bytes} bytes)", bytes as f64 / unit as f64)
}

/// An operator who hears of refused writes would not know which key it was, nor what to change.
#[test]
fn refusals_are_told_with_their_limit() {
    let server = Server::with().module_args("bf-max-filter-bytes 1000").start();
    let mut client = server.client();
    let size = |client: &mut Client, words: &str| {
        client.run(&format!("BF.PLAN {words}")).field("Stages").elements()[0]
            .field("Size")
            .int()
    };
    client.answers(&[("BF.RESERVE a\nkey 0.01 10000", error(MEMORY))]);
    let large = size(&mut client, "0.01 10000");
    client.run("BF.RESERVE steep 1e-9 1 EXPANSION 32768 LAYOUT CLASSIC");
    client.answers(&[("BF.ADD steep a", 1.into()), ("BF.ADD steep b", error(GROW))]);
    let logged = lines(&server, "was refused");
    assert_eq!(logged.len(), 2, "{logged:?}");
    assert_eq!(
        logged[0],
        format!(
            "key 'a\\nkey': a Bloom filter of {} was refused: bf-max-filter-bytes is 1000 bytes",
            in_units(large)
        )
    );
    assert!(
        logged[1].starts_with("key 'steep': a Bloom filter of "),
        "{logged:?}"
    );

    let option = Server::option("max-filter-bytes");
    if client.run(&format!("CONFIG SET {option} 0")) == ok() {
        client.answers(&[
            ("CONFIG SET maxmemory 100mb", ok()),
            ("CONFIG SET maxmemory-policy allkeys-lru", ok()),
            ("BF.RESERVE key 0.01 1000000000", error(MEMORY)),
        ]);
        let large = size(&mut client, "0.01 1000000000");
        let logged = lines(&server, "key 'key'");
        let start = format!(
            "key 'key': a Bloom filter of {} was refused: maxmemory of 100.0 MiB (104857600 bytes) has room for ",
            in_units(large)
        );
        assert!(
            logged.len() == 1 && logged[0].starts_with(&start) && logged[0].ends_with(" bytes) of data"),
            "{logged:?}"
        );
        let refused = |client: &mut Client, key: &str, words: &str, end: &str| {
            client.answers(&[(&format!("BF.RESERVE {key} {words}"), error(MEMORY))]);
            let logged = lines(&server, &format!("key '{key}'"));
            let start = format!(
                "key '{key}': a Bloom filter of {} was refused: ",
                in_units(size(client, words))
            );
            assert!(logged.len() == 1 && logged[0].starts_with(&start), "{logged:?}");
            assert!(logged[0].ends_with(end), "{logged:?}");
        };
        client.answers(&[("CONFIG SET maxmemory-policy noeviction", ok())]);
        refused(&mut client, "left", "0.01 1000000000", " are left of maxmemory");
        client.answers(&[("CONFIG SET maxmemory 0", ok())]);
        refused(
            &mut client,
            "machine",
            "1e-30 1099511627776",
            " are left of the machine's memory",
        );
    }
    for _ in 0..30 {
        client.answers(&[("BF.RESERVE again 1e-30 1099511627776", error(MEMORY))]);
    }
    let logged = lines(&server, "was refused");
    assert_eq!(logged.len(), 10, "{logged:?}");
    assert!(
        logged[9].ends_with(" (no more such lines for a minute)"),
        "{logged:?}"
    );
}

/// A client could fill the disk with the log by payloads that are refused, or by rates that are too loose.
#[test]
fn no_client_can_fill_the_log() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.ADD source item");
    let dump = client.dump("source").bytes().to_vec();
    let broken = cut_off(&dump);
    for number in 0..30 {
        client.answers(&[(&format!("BF.RESERVE {number} 0.5 100"), ok())]);
        let refused = client.call(&[&b"RESTORE"[..], b"a\nkey", b"0", &broken]);
        assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
    }
    let logged = lines(&server, "is used as");
    assert_eq!(logged.len(), 10);
    assert_eq!(logged[0], "key '0': error rate 0.5 is used as 0.25");
    // A line of 300 zeros would be read by nobody.
    let tight = Server::with().module_args("bf-error-rate 1e-200").start();
    tight.client().answers(&[("BF.RESERVE tight 1e-300 100", ok())]);
    assert_eq!(
        lines(&tight, "key 'tight'"),
        ["key 'tight': error rate 1e-300 is used as 1e-30"]
    );
    let log = tight.log();
    assert!(log.contains("error-rate 1e-200 is used as 1e-30\n"), "{log}");
    let logged = lines(&server, "was not loaded");
    assert_eq!(logged.len(), 10);
    assert!(
        logged[0].starts_with("key 'a\\nkey': a Bloom filter was not loaded: "),
        "{logged:?}"
    );
    assert_eq!(figures(&mut client, ["failed_loads"]), [30]);
}

/// Who moves from another module would not see that its layout is still in use, or see a line for each key.
#[test]
fn loads_of_other_layouts_are_told_of_once_and_counted() {
    let mut server = Server::start();
    let mut client = server.client();
    client.run("BF.ADD blocked item");
    client.run("SAVE");
    server.restart();
    assert_eq!(lines(&server, "that were loaded"), Vec::<String>::new());
    let mut client = server.client();
    for key in 0..5 {
        client.answers(&[
            (&format!("BF.RESERVE classic{key} 0.01 100 LAYOUT CLASSIC"), ok()),
            (&format!("BF.RESERVE valkey{key} 0.01 100 LAYOUT VALKEY"), ok()),
        ]);
    }
    client.run("SAVE");
    server.restart();
    for module in ["RedisBloom", "valkey-bloom"] {
        let layout = format!("{module}'s layout");
        let line = format!(
            "Bloom filters of {layout} that were loaded: 5; they keep it, grow by its rules, and can go back"
        );
        assert_eq!(lines(&server, &layout), [line]);
    }
    let loads = ["classic_loads", "valkey_loads", "failed_loads"];
    assert_eq!(figures(&mut server.client(), loads), [5, 5, 0]);
}
