//! BF.SCANDUMP and BF.LOADCHUNK: filters in pieces.
//!
//! Which pieces are taken, and what they set, is tested in the core; that a filter comes back from its pieces, in `states`;
//! damaged pieces are in `adversary/forged.rs`; who is told of a piece is in `module/watching.rs`.

use serial_test::serial;

use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok};
use crate::server::Server;
use crate::support::aof::rewrite;
use crate::support::chunks::{BAD_DATA, NO_LINK, TOO_BIG, load_one, scan, scandump};
use crate::support::items::{add, numbered, present};

const NOT_FOUND: &str = "ERR not found";
const MEMORY: &str = "ERR Insufficient memory to create filter";

/// A small filter that has grown, in both layouts: key, and the words of its BF.RESERVE.
const GROWN: [(&str, &str); 2] = [
    ("blocked", "0.01 10 SEED 7"),
    ("classic", "0.01 10 LAYOUT CLASSIC"),
];

const TOO_MANY: &str =
    "ERR the filter would have more than 1100 layers: with a larger capacity or EXPANSION it needs fewer";

/// Makes the filters of [`GROWN`] with `items` items each.
fn make_grown(client: &mut Client, items: &[Vec<u8>]) {
    for (key, words) in GROWN {
        assert_eq!(client.run(&format!("BF.RESERVE {key} {words}")), ok());
        add(client, &format!("BF.MADD {key}"), items);
    }
}

/// A tool that makes a mistake would not learn which, or would damage the filter in silence.
#[test]
fn mistakes_are_errors_and_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.ADD key item", 1.into()), ("SET text value", ok())]);
    let end = 1 + scandump(&mut client, "key")[1].1.len() as i64;
    let (scan_arity, load_arity) = (arity("bf.scandump"), arity("bf.loadchunk"));
    for key in ["key", "missing"] {
        for number in [
            "",
            "x",
            "1.0",
            "+1",
            "01",
            "0x1",
            "-",
            "-0",
            "1e2",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            let number = if number.is_empty() { "''" } else { number };
            client.refuses(
                key,
                &[
                    (
                        &format!("BF.SCANDUMP {key} {number}"),
                        "Second argument must be numeric",
                    ),
                    (
                        &format!("BF.LOADCHUNK {key} {number} data"),
                        "ERR Second argument must be numeric",
                    ),
                ],
            );
        }
        for iterator in ["0", "1", "-1", &i64::MAX.to_string(), &i64::MIN.to_string()] {
            let text = if key == "key" && iterator == i64::MAX.to_string() {
                NO_LINK
            } else if key == "key" || iterator == "1" {
                BAD_DATA
            } else {
                NOT_FOUND
            };
            client.refuses(key, &[(&format!("BF.LOADCHUNK {key} {iterator} data"), text)]);
        }
        client.refuses(
            key,
            &[
                (&format!("BF.SCANDUMP {key}"), &scan_arity),
                (&format!("BF.SCANDUMP {key} 0 0"), &scan_arity),
                (&format!("BF.LOADCHUNK {key} 1"), &load_arity),
                (&format!("BF.LOADCHUNK {key} 1 data data"), &load_arity),
            ],
        );
    }
    client.refuses(
        "text",
        &[
            ("BF.SCANDUMP text 0", WRONG_TYPE),
            ("BF.LOADCHUNK text 1 data", WRONG_TYPE),
        ],
    );
    client.refuses(
        "key",
        &[
            ("BF.SCANDUMP missing 0", NOT_FOUND),
            ("BF.SCANDUMP missing 1", NOT_FOUND),
            ("BF.LOADCHUNK missing 1 ''", BAD_DATA),
            // One byte of four before the start, and after the end.
            ("BF.LOADCHUNK key 4 data", NO_LINK),
            (&format!("BF.LOADCHUNK key {} data", end + 1), TOO_BIG),
            (&format!("BF.LOADCHUNK key {} data", end + 3), TOO_BIG),
            (&format!("BF.LOADCHUNK key {} data", end + 4), NO_LINK),
        ],
    );
    client.answers(&[
        ("EXISTS missing", 0.into()),
        ("GET text", Reply::Bulk(b"value".to_vec())),
        // As in RedisBloom: no bytes, where the filter begins.
        ("BF.LOADCHUNK key 1 ''", ok()),
    ]);
    for iterator in [end, i64::MAX, -1, i64::MIN] {
        assert_eq!(scan(&mut client, "key", iterator), (0, Vec::new()), "{iterator}");
    }
}

/// A filter in use would be emptied by a copy that was started a second time.
#[test]
fn a_header_does_not_touch_a_key_in_use() {
    let server = Server::start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 100));
    client.run("SET text value");
    for (key, _) in GROWN {
        let before = client.dump(key);
        for (other, _) in GROWN {
            let header = scan(&mut client, other, 0).1;
            assert_eq!(
                load_one(&mut client, key, 1, &header),
                error(BAD_DATA),
                "{other} over {key}"
            );
            assert_eq!(load_one(&mut client, "text", 1, &header), error(WRONG_TYPE));
        }
        assert!(client.dump(key) == before, "{key}");
    }
}

/// A header of a hundred bytes could take all memory that the server's owner set aside.
#[test]
#[serial(memory)]
fn a_header_is_held_against_the_limit() {
    let source = Server::start();
    let mut source = source.client();
    let server = Server::with().module_args("bf-max-filter-bytes 1000000").start();
    let mut client = server.client();
    for layout in ["BLOCKED", "CLASSIC"] {
        for (items, reply) in [
            ("10000000", error(MEMORY)),
            ("1099511627776", error(MEMORY)),
            ("500000", ok()),
        ] {
            let reserved = source.run(&format!("BF.RESERVE key 0.01 {items} LAYOUT {layout}"));
            if reserved != ok() {
                // More than this machine has.
                assert_eq!(reserved, error(MEMORY), "{layout} {items}");
                continue;
            }
            let header = scan(&mut source, "key", 0).1;
            assert_eq!(
                load_one(&mut client, "key", 1, &header),
                reply,
                "{layout} {items}"
            );
            assert_eq!(client.run("DEL key"), i64::from(reply == ok()).into());
            source.run("DEL key");
        }
    }
}

/// A header of a few megabytes that tells of very many layers would stop the server for minutes or hours: when
/// the filter is loaded, asked for, copied, or written to the append-only file.
#[test]
fn very_many_layers_are_no_endless_work() {
    const LAYERS: u32 = 250_000;
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE blocked 0.01 1 EXPANSION 1 SEED 1", ok()),
        ("BF.RESERVE classic 0.01 1 EXPANSION 1 LAYOUT CLASSIC", ok()),
        ("BF.ADD blocked item", 1.into()),
    ]);
    for (key, count_at, head) in [("blocked", 12, 48), ("classic", 8, 20)] {
        let mut header = scan(&mut client, key, 0).1;
        header[count_at..count_at + 4].copy_from_slice(&LAYERS.to_le_bytes());
        let mut layer = header.split_off(head);
        if key == "blocked" {
            // The rate of each of them: their sum is not to be above the filter's.
            layer[24..32].fill(0);
        }
        header.extend(layer.repeat(LAYERS as usize));
        assert_eq!(load_one(&mut client, "many", 1, &header), ok(), "{key}");
        assert_eq!(
            client.info("many", "Number of filters"),
            i64::from(LAYERS),
            "{key}"
        );
        // The newest of the blocked layers is full.
        let (added, found) = match key {
            "blocked" => (error(TOO_MANY), 0),
            _ => (1.into(), 1),
        };
        client.answers(&[
            ("BF.ADD many new", added),
            ("BF.MEXISTS many new", array([found])),
        ]);
        let size = 8 * i64::from(LAYERS);
        assert!(scan(&mut client, "many", size - 8).0 > 0, "{key}");
        client.answers(&[("COPY many copy", 1.into())]);
        assert!(client.dump("copy") == client.dump("many"), "{key}");
        rewrite(&mut client);
        client.answers(&[("DEL many copy", 2.into())]);
    }
    assert!(server.is_alive());
}

/// A live copy would take the chunks of a layer that it knows nothing of for those of another.
#[test]
fn a_source_that_grows_during_the_copy_is_noticed() {
    let server = Server::start();
    let mut client = server.client();
    let members = numbered("", 0, 300);
    make_grown(&mut client, &members);
    for (key, _) in GROWN {
        let mut chunk = scan(&mut client, key, 0);
        let layers = client.info(key, "Number of filters");
        let (mut loaded, mut refused) = (0, Vec::new());
        while chunk.0 > 0 {
            match load_one(&mut client, "copy", chunk.0, &chunk.1) {
                reply if reply == ok() => loaded += 1,
                reply => refused.push(reply),
            }
            if loaded == 3 {
                add(
                    &mut client,
                    &format!("BF.MADD {key}"),
                    &numbered("later ", 0, 600),
                );
            }
            chunk = scan(&mut client, key, chunk.0);
        }
        assert_eq!(loaded, 1 + layers, "{key}");
        let new = client.info(key, "Number of filters") - layers;
        assert!(new > 0, "{key}");
        assert_eq!(refused, vec![error(NO_LINK); new as usize], "{key}");
        assert_eq!(
            present(&mut client, "copy", &members).len(),
            members.len(),
            "{key}"
        );
        client.run("DEL copy");
    }
}

/// A filter that is too large for DUMP and RESTORE could not be moved, or not while it is used.
#[test]
#[serial(memory)]
fn a_filter_of_600_mib_is_copied_while_its_source_is_used() {
    let (source, target) = (Server::start(), Server::start());
    let (mut client, mut other) = (source.client(), target.client());
    client.answers(&[("BF.RESERVE big 0.01 490000000 SEED 1", ok())]);
    assert!(client.info("big", "Size") > 600 << 20);
    let members = numbered("member ", 0, 20_000);
    let new = add(&mut client, "BF.MADD big", &members);
    let mut later = Vec::new();
    let mut next = scan(&mut client, "big", 0);
    while next.0 > 0 {
        assert_eq!(load_one(&mut other, "big", next.0, &next.1), ok(), "{}", next.0);
        let items = numbered(&format!("later {} ", later.len()), 0, 10);
        add(&mut client, "BF.MADD big", &items);
        later.extend(items);
        next = scan(&mut client, "big", next.0);
    }
    assert_eq!(present(&mut client, "big", &later).len(), later.len());
    for client in [&mut client, &mut other] {
        assert_eq!(present(client, "big", &members).len(), members.len());
        assert_eq!(present(client, "big", &numbered("probe ", 0, 2000)), [0; 0]);
    }
    // The count is that of the header, which was read first.
    other.answers(&[("BF.CARD big", new.into())]);
}
