//! BF.SCANDUMP and BF.LOADCHUNK: filters in pieces, of any size and from anyone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serial_test::serial;

use crate::client::clock;
use crate::client::{Client, Reply, WRONG_TYPE, arity, array, error, ok};
use crate::filters;
use crate::server::{Server, until};
use crate::support::aof::rewrite;
use crate::support::chunks::{BAD_DATA, NO_LINK, TOO_BIG, load, load_one, scan, scandump};
use crate::support::items::{add, numbered, present};
use crate::support::stored::STORED;

const NOT_FOUND: &str = "ERR not found";
const MEMORY: &str = "ERR Insufficient memory to create filter";

/// The most bytes of a chunk, as RedisBloom's tools know it.
const CHUNK_BYTES: usize = 16 << 20;

/// A small filter that has grown, in both layouts: key, and the words of its BF.RESERVE.
const GROWN: [(&str, &str); 2] = [
    ("blocked", "0.01 10 SEED 7"),
    ("classic", "0.01 10 LAYOUT CLASSIC"),
];

const TOO_MANY: &str =
    "ERR the filter would have more than 1100 layers: with a larger capacity or EXPANSION it needs fewer";

/// Everything about a filter, bit for bit.
fn whole(client: &mut Client, key: &str) -> [Reply; 4] {
    let digest = client.call(&["DEBUG", "DIGEST-VALUE", key]);
    let full = client.call(&["BF.INFO", key, "FULL"]);
    [client.dump(key), digest, full, client.call(&["BF.DEBUG", key])]
}

/// Makes the filters of [`GROWN`] with `items` items each.
fn make_grown(client: &mut Client, items: &[Vec<u8>]) {
    for (key, words) in GROWN {
        assert_eq!(client.run(&format!("BF.RESERVE {key} {words}")), ok());
        add(client, &format!("BF.MADD {key}"), items);
    }
}

/// A filter that was copied to another server would be another one.
#[test]
fn chunks_give_the_same_filter_back() {
    let server = Server::start();
    let other = Server::with()
        .module_args("bf-layout classic bf-seed 5 bf-error-rate 0.2")
        .start();
    let (mut client, mut other) = (server.client(), other.client());
    filters::make(&mut client);
    for key in filters::keys() {
        let chunks = scandump(&mut client, key);
        let backwards: Vec<_> = chunks[1..].iter().rev().cloned().collect();
        let layers = client.info(key, "Number of filters") as usize;
        assert_eq!(chunks.len(), 1 + layers, "{key}: a chunk never spans two layers");
        let original = whole(&mut client, key);
        for (way, order) in [("in order", &chunks[1..]), ("backwards", &backwards)] {
            for copy in [&mut client, &mut other] {
                load(copy, "copy", &chunks[..1]);
                load(copy, "copy", order);
                assert!(whole(copy, "copy") == original, "{key} {way}");
                load(copy, "copy", order);
                assert!(whole(copy, "copy") == original, "{key} {way}, twice");
                copy.run("DEL copy");
            }
        }
        load(&mut other, key, &chunks);
    }
    assert!(filters::snapshot(&mut other) == filters::snapshot(&mut client));
    for client in [&mut client, &mut other] {
        filters::fill(client, "chain", 4000, 9000);
        filters::fill(client, "classic", 3000, 9000);
    }
    assert!(
        filters::snapshot(&mut other) == filters::snapshot(&mut client),
        "the two grow alike"
    );
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
    ]);
}

/// A tool that goes on with a number of its own would crash the server, or read what is not the filter's.
#[test]
fn any_iterator_is_answered() {
    let server = Server::start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 100));
    for (key, _) in GROWN {
        let chunks = scandump(&mut client, key);
        let end = chunks[chunks.len() - 1].0;
        for iterator in 1..end {
            // From the middle of a chunk on, its rest.
            let (next, bytes) = chunks[1..].iter().find(|(next, _)| iterator < *next).unwrap();
            let rest = &bytes[bytes.len() - (next - iterator) as usize..];
            assert_eq!(
                scan(&mut client, key, iterator),
                (*next, rest.to_vec()),
                "{key} {iterator}"
            );
        }
        for iterator in [
            end,
            end + 1,
            i64::MAX,
            i64::MAX - 1,
            -1,
            -2,
            i64::MIN,
            i64::MIN + 1,
        ] {
            assert_eq!(
                scan(&mut client, key, iterator),
                (0, Vec::new()),
                "{key} {iterator}"
            );
        }
    }
}

/// A copy that was interrupted and taken up again, by several tools or with pieces of their own, would be
/// another filter.
#[test]
fn pieces_of_any_cut_and_order_give_the_same_filter() {
    let server = Server::start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 300));
    let mut random = StdRng::seed_from_u64(1);
    for (key, _) in GROWN {
        let chunks = scandump(&mut client, key);
        let mut pieces = Vec::new();
        for (end, bytes) in &chunks[1..] {
            pieces.push((*end, bytes.clone()));
            for _ in 0..20 {
                let from = random.random_range(0..bytes.len());
                let to = random.random_range(from..=bytes.len());
                pieces.push((end - (bytes.len() - to) as i64, bytes[from..to].to_vec()));
            }
        }
        pieces.shuffle(&mut random);
        load(&mut client, "copy", &chunks[..1]);
        load(&mut client, "copy", &pieces);
        let original = whole(&mut client, key);
        assert!(whole(&mut client, "copy") == original, "{key}");
        client.run("DEL copy");
    }
}

/// Bytes beyond a layer's end would land in another layer, or in memory that is not the filter's.
#[test]
fn chunks_that_do_not_fit_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 100));
    for (key, _) in GROWN {
        let before = whole(&mut client, key);
        let chunks = scandump(&mut client, key);
        let end = chunks[chunks.len() - 1].0;
        for (next, bytes) in &chunks[1..] {
            let long = [&bytes[..], b"\xff"].concat();
            assert_eq!(load_one(&mut client, key, next + 1, &long), error(TOO_BIG));
            let straddling = [0xff; 16];
            assert_eq!(load_one(&mut client, key, next + 8, &straddling), error(TOO_BIG));
        }
        for (iterator, length) in [
            (end + 1, 1),
            (end + 4, 2),
            (i64::MAX, 1),
            (i64::MAX, 100),
            (i64::MIN, 0),
            (i64::MIN, 100),
            (-1, 1),
            (0, 0),
            (0, 1),
            (1, 1),
            (1, 100),
            (7, 8),
        ] {
            let bytes = vec![0xff; length];
            assert_eq!(
                load_one(&mut client, key, iterator, &bytes),
                // The end of the chunk before there is any place for it, as RedisBloom tells it.
                error(if iterator < (length as i64).max(1) {
                    BAD_DATA
                } else {
                    NO_LINK
                }),
                "{iterator} {length}"
            );
        }
        let (from, all) = chunks[1..].split_first().unwrap();
        let all: Vec<u8> = all
            .iter()
            .fold(from.1.clone(), |all, (_, bytes)| [&all[..], bytes].concat());
        assert_eq!(
            load_one(&mut client, key, end, &all),
            error(TOO_BIG),
            "all layers at once"
        );
        assert!(whole(&mut client, key) == before, "{key}");
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
        let before = whole(&mut client, key);
        for (other, _) in GROWN {
            let header = scan(&mut client, other, 0).1;
            assert_eq!(
                load_one(&mut client, key, 1, &header),
                error(BAD_DATA),
                "{other} over {key}"
            );
            assert_eq!(load_one(&mut client, "text", 1, &header), error(WRONG_TYPE));
        }
        assert!(whole(&mut client, key) == before, "{key}");
    }
}

/// A copy whose connection broke in the header would leave a filter that has none of its items.
#[test]
fn headers_that_end_early_or_late_make_nothing() {
    let server = Server::start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 100));
    make_window(&mut client);
    let keys = GROWN.iter().map(|(key, _)| *key).chain(["window"]);
    let headers: Vec<_> = keys.map(|key| scan(&mut client, key, 0).1).collect();
    let recorded = STORED
        .iter()
        .filter_map(|stored| Some(stored.chunks.first()?.1.clone()));
    for header in headers.into_iter().chain(recorded) {
        for length in 0..header.len() {
            assert_eq!(
                load_one(&mut client, "new", 1, &header[..length]),
                error(BAD_DATA),
                "{length} bytes"
            );
        }
        for more in [1, 16, 24, 47, 48, 53, 1000] {
            let long = [&header[..], &vec![0; more]].concat();
            assert_eq!(
                load_one(&mut client, "new", 1, &long),
                error(BAD_DATA),
                "{more} bytes more"
            );
        }
    }
    client.answers(&[("EXISTS new", 0.into())]);
    assert!(server.is_alive());
}

/// A field of a header: its offset, its bytes, and whether it is a float.
#[derive(Clone, Copy)]
struct Field(&'static str, usize, usize, bool);

const CLASSIC_HEAD: [Field; 4] = [
    Field("items", 0, 8, false),
    Field("layers", 8, 4, false),
    Field("options", 12, 4, false),
    Field("expansion", 16, 4, false),
];

const CLASSIC_LAYER: [Field; 8] = [
    Field("bytes", 0, 8, false),
    Field("bits", 8, 8, false),
    Field("layer items", 16, 8, false),
    Field("error", 24, 8, true),
    Field("bits per item", 32, 8, true),
    Field("hashes", 40, 4, false),
    Field("capacity", 44, 8, false),
    Field("n2", 52, 1, false),
];

const BLOCKED_HEAD: [Field; 9] = [
    Field("magic", 0, 8, false),
    Field("zero", 8, 4, false),
    Field("layers", 12, 4, false),
    Field("seed", 16, 8, false),
    Field("error", 24, 8, true),
    Field("growth", 32, 4, false),
    Field("expansion", 36, 4, false),
    Field("exceptions", 40, 4, false),
    Field("seconds", 44, 4, false),
];

const BLOCKED_LAYER: [Field; 7] = [
    Field("capacity", 0, 8, false),
    Field("layer items", 8, 8, false),
    Field("bits set", 16, 8, false),
    Field("layer error", 24, 8, true),
    Field("lines", 32, 8, false),
    Field("lines per item", 40, 4, false),
    Field("probes", 44, 4, false),
];

/// Fields of a window that a blocked filter's head does not have.
const WINDOWED_HEAD: [Field; 5] = [
    Field("window capacity", 48, 8, false),
    Field("slices, refresh, zeros", 56, 4, false),
    Field("slices that follow", 60, 4, false),
    Field("newest change", 64, 8, false),
    Field("bytes before", 72, 8, false),
];

/// Where the slices of a header begin, and the bytes of each.
const SLICES: (usize, usize) = (80, 24);

const SLICE_FIELDS: [Field; 4] = [
    Field("opens", 0, 8, false),
    Field("closes", 8, 8, false),
    Field("layers of the slice", 16, 4, false),
    Field("zeros", 20, 4, false),
];

impl Field {
    /// What the field is forced to: names, and bytes that are not the field's own.
    fn forced(self, header: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let Self(_, at, width, float) = self;
        let own = &header[at..at + width];
        let mut word = [0; 8];
        word[..width].copy_from_slice(own);
        let number = u64::from_le_bytes(word);
        let values = if float {
            let value = f64::from_bits(number);
            [
                ("0", 0.0),
                ("1", 1.0),
                ("max", f64::MAX),
                ("min", f64::MIN_POSITIVE),
                ("minus", -value),
                ("nan", f64::NAN),
                ("inf", f64::INFINITY),
                ("-inf", f64::NEG_INFINITY),
                ("twice", value * 2.0),
                ("half", value / 2.0),
                ("next", f64::from_bits(number + 1)),
                ("previous", f64::from_bits(number - 1)),
            ]
            .map(|(name, value)| (name, value.to_bits()))
            .to_vec()
        } else {
            let max = u64::MAX >> (64 - 8 * width);
            let values = [
                ("0", 0),
                ("1", 1),
                ("max", max),
                ("max - 1", max - 1),
                ("half", max / 2),
                ("top", max / 2 + 1),
                ("+ 1", number.wrapping_add(1)),
                ("- 1", number.wrapping_sub(1)),
                ("twice", number.wrapping_mul(2)),
            ];
            values.to_vec()
        };
        let bytes = values
            .into_iter()
            .map(|(name, value)| (name, value.to_le_bytes()[..width].to_vec()));
        bytes.filter(|(_, bytes)| bytes != own).collect()
    }
}

/// The fields of a header with that many bytes before its layers, and in each of them.
fn fields(header: &[u8], head: &[Field], layer: &[Field], sizes: (usize, usize)) -> Vec<(usize, Field)> {
    let layers = (header.len() - sizes.0) / sizes.1;
    let of_layer = |number: usize| {
        let moved = move |&Field(name, at, width, float): &Field| {
            (
                1 + number,
                Field(name, sizes.0 + sizes.1 * number + at, width, float),
            )
        };
        layer.iter().map(moved).collect::<Vec<_>>()
    };
    let head = head.iter().map(|field| (0, *field));
    head.chain((0..layers).flat_map(of_layer)).collect()
}

/// Every header with one forced field is refused in fixed words, or makes a sound filter. Gives those that do:
/// the number of the layer, from 1, or 0; the field; what it was forced to.
fn taken(
    client: &mut Client,
    key: &str,
    fields: &[(usize, Field)],
) -> Vec<(usize, &'static str, &'static str)> {
    let chunks = scandump(client, key);
    let header = &chunks[0].1;
    let mut taken = Vec::new();
    for &(layer, field) in fields {
        for (name, bytes) in field.forced(header) {
            let Field(what, at, width, _) = field;
            let context = format!("{key}, layer {layer}, {what}: {name}");
            let forged = [&header[..at], &bytes, &header[at + width..]].concat();
            let reply = load_one(client, "forged", 1, &forged);
            if reply != ok() {
                assert!(
                    [error(BAD_DATA), error(MEMORY)].contains(&reply),
                    "{context}: {reply:?}"
                );
                assert_eq!(client.run("EXISTS forged"), 0.into(), "{context}");
                continue;
            }
            taken.push((layer, what, name));
            is_sound(client, &forged, &context);
            client.run("DEL forged");
        }
    }
    taken
}

/// The filter that came of a forged header answers, grows, can be moved, and can be filled.
fn is_sound(client: &mut Client, header: &[u8], context: &str) {
    let own = scan(client, "forged", 0).1;
    assert_eq!(own.len(), header.len(), "{context}");
    let payload = client.dump("forged");
    let restored = client.call(&[&b"RESTORE"[..], b"again", b"0", payload.bytes(), b"REPLACE"]);
    assert_eq!(restored, ok(), "{context}: it cannot be moved");
    assert!(
        client.dump("again") == payload,
        "{context}: it is moved as another one"
    );
    client.run("DEL again");
    client
        .run("BF.INFO forged FULL")
        .field("Estimated error rate")
        .number();
    let info = client.run("BF.INFO forged FULL");
    let figures = [
        "Capacity",
        "Size",
        "Number of filters",
        "Number of items inserted",
        "Bits set",
    ];
    assert!(
        figures.iter().all(|name| info.field(name).int() >= 0),
        "{context}: {info:?}"
    );
    assert!(
        (0.0..=1.0).contains(&info.field("Estimated error rate").number()),
        "{context}: {info:?}"
    );
    client.run("BF.DEBUG forged").elements()[0].text();
    let items = numbered("forged ", 0, 700);
    let answers = client.over("BF.MADD forged", &items);
    let answered = answers
        .elements()
        .iter()
        .take_while(|answer| matches!(answer, Reply::Int(_)))
        .count();
    if answered < items.len() {
        let last = &answers.elements()[answered];
        let fixed = [
            "ERR non scaling filter is full",
            "ERR Insufficient memory to grow filter",
        ];
        assert!(
            fixed.iter().any(|text| *last == error(text)),
            "{context}: {last:?}"
        );
    }
    assert_eq!(
        present(client, "forged", &items[..answered]).len(),
        answered,
        "{context}: it loses items"
    );
    let payload = client.dump("forged");
    let restored = client.call(&[&b"RESTORE"[..], b"again", b"0", payload.bytes(), b"REPLACE"]);
    assert_eq!(restored, ok(), "{context}: it cannot be moved with its items");
    client.run("DEL again");
}

/// What fields of a blocked header may be forced to, because no other field contradicts it: how the filter grows, what a
/// layer counts, and how it is built. All else is refused.
const TAKEN_BLOCKED: [(&str, &[&str]); 11] = [
    (
        "seed",
        &["0", "1", "max", "max - 1", "half", "top", "+ 1", "- 1", "twice"],
    ),
    ("error", &["twice", "half", "next", "previous"]),
    ("growth", &["+ 1", "twice"]),
    ("expansion", &["1", "+ 1", "- 1", "twice"]),
    (
        "capacity",
        &["1", "max", "max - 1", "half", "top", "+ 1", "- 1", "twice"],
    ),
    ("layer items", &["0", "1", "+ 1", "- 1", "twice"]),
    ("bits set", &["0", "1", "+ 1", "- 1", "twice"]),
    ("layer error", &["0", "min", "twice", "half", "next", "previous"]),
    ("lines", &["1", "+ 1", "- 1", "twice"]),
    ("lines per item", &["+ 1", "twice"]),
    ("probes", &["+ 1", "- 1", "twice"]),
];

/// What fields of a classic header may be forced to: hashes of 32 bits, any expansion, and the last bits of rounded
/// numbers. Everything else is refused.
const TAKEN_CLASSIC: [(&str, &[&str]); 5] = [
    ("options", &["1"]),
    (
        "expansion",
        &["0", "1", "max", "max - 1", "half", "top", "+ 1", "- 1", "twice"],
    ),
    ("error", &["next", "previous"]),
    ("bits per item", &["next", "previous"]),
    ("capacity", &["+ 1", "- 1"]),
];

/// What fields of a window's header may be forced to, besides those of a blocked header: its length, and the times of its
/// slices within what the others and the window allow.
const TAKEN_WINDOWED: [(&str, &[&str]); 7] = [
    ("window capacity", &["1", "+ 1", "- 1", "twice"]),
    ("seconds", &["max", "max - 1", "half", "top", "+ 1", "twice"]),
    ("slices, refresh, zeros", &["- 1"]),
    ("newest change", &["- 1"]),
    ("lines per item", &["1", "- 1"]),
    ("opens", &["+ 1", "- 1"]),
    ("closes", &["+ 1", "- 1"]),
];

/// A filter with a window, with a burst and an ended slice.
fn make_window(client: &mut Client) {
    let now = clock(client);
    let at = |before: i64| format!("BF.INSERT window AT {} ITEMS", now - before);
    client.run("BF.RESERVE window 0.01 100 SEED 1 WINDOW 1000 SLICES 4");
    for (number, (before, items)) in [(1_600_000, 10), (700_000, 90), (400_000, 20)]
        .into_iter()
        .enumerate()
    {
        let items = numbered(&format!("{number}:"), 0, items);
        client.over(&at(before), &items);
    }
    client.answers(&[(&format!("BF.ROTATE window AT {}", now - 390_000), ok())]);
}

/// The bytes of the slices in the header of a window.
fn slices_in(header: &[u8]) -> std::ops::Range<usize> {
    let count = u32::from_le_bytes(header[60..64].try_into().unwrap());
    SLICES.0..SLICES.0 + SLICES.1 * count as usize
}

/// Forged times would stop the server, or make a window that loses what it takes, or that nobody can store.
#[test]
fn forged_headers_of_windows_are_refused_or_make_sound_filters() {
    let server = Server::with().module_args("bf-max-filter-bytes 3000000").start();
    let mut client = server.client();
    make_window(&mut client);
    let header = scan(&mut client, "window", 0).1;
    let slices = slices_in(&header);
    let mut head = [&BLOCKED_HEAD[..], &WINDOWED_HEAD].concat();
    for begin in slices.clone().step_by(SLICES.1) {
        let moved = |Field(name, at, width, float)| Field(name, begin + at, width, float);
        head.extend(SLICE_FIELDS.map(moved));
    }
    let fields = fields(&header, &head, &BLOCKED_LAYER, (slices.end, 48));
    let mut taken = taken(&mut client, "window", &fields);
    let is_known = |what, forced| {
        TAKEN_WINDOWED
            .iter()
            .chain(&TAKEN_BLOCKED)
            .any(|(name, list)| *name == what && list.contains(&forced))
    };
    taken.retain(|&(_, what, forced)| !is_known(what, forced));
    assert_eq!(taken, [], "layer, field and value");
    assert!(server.is_alive());
}

/// Forged times that are consistent, or nearly so, and that no clock ever had would stop the server, or make a window
/// that loses items or cannot be saved.
#[test]
fn forged_times_are_refused_or_make_sound_filters() {
    const LATEST: u64 = i64::MAX as u64;
    const SLICE: u64 = 250_000;
    let server = Server::start();
    let mut client = server.client();
    make_window(&mut client);
    let header = scan(&mut client, "window", 0).1;
    let slices = slices_in(&header);
    assert_eq!(slices.len(), 3 * SLICES.1);
    // When each slice opens and closes, by its number, from 0 on.
    type Times = fn(u64) -> (u64, u64);
    let cases: [(&str, Times, bool); 17] = [
        ("the first moments", |slice| (slice, slice + 1), true),
        ("all at once", |_| (5, 6), true),
        ("nobody came", |_| (5, 5), true),
        ("zero", |_| (0, 0), true),
        ("slices within each other", |slice| (slice, 2 * SLICE - 1), false),
        ("slices that overlap", |slice| (slice, slice + SLICE), true),
        (
            "the last moments",
            |slice| (LATEST - 3 + slice, LATEST - 2 + slice),
            true,
        ),
        ("the last moment", |_| (LATEST, LATEST), true),
        ("beyond it", |slice| (LATEST - 1 + slice, LATEST + slice), false),
        ("beyond all", |_| (u64::MAX, u64::MAX), false),
        ("a slice that stays open", |_| (5, u64::MAX), false),
        (
            "a slice that is too long",
            |slice| (slice * SLICE, (slice + 1) * SLICE + 1),
            false,
        ),
        (
            "closed before they opened",
            |slice| (100 + slice, 99 + slice),
            false,
        ),
        ("opened out of order", |slice| (100 - slice, 100), false),
        ("closed out of order", |slice| (100, 200 - slice), false),
        (
            "years between them",
            |slice| (slice << 40, (slice << 40) + 1),
            true,
        ),
        (
            "from the first to the last",
            |slice| (LATEST / 2 * slice, LATEST / 2 * slice + 1),
            true,
        ),
    ];
    for (context, times, is_taken) in cases {
        let mut forged = header.clone();
        for (slice, at) in (0..).zip(slices.clone().step_by(SLICES.1)) {
            let (opens, closes) = times(slice);
            forged[at..at + 8].copy_from_slice(&opens.to_le_bytes());
            forged[at + 8..at + 16].copy_from_slice(&closes.to_le_bytes());
            // The newest change.
            forged[64..72].copy_from_slice(&opens.to_le_bytes());
        }
        let expected = if is_taken { ok() } else { error(BAD_DATA) };
        assert_eq!(load_one(&mut client, "forged", 1, &forged), expected, "{context}");
        if is_taken {
            client.answers(&[("BF.EXISTS forged x", 0.into()), ("BF.ROTATE forged", ok())]);
            client.run("DEL forged");
            load(&mut client, "forged", &[(1, forged.clone())]);
            is_sound(&mut client, &forged, context);
            client.answers(&[("BF.ROTATE forged", ok()), ("BF.ROTATE forged AT 0", ok())]);
            client.answers(&[("BF.ADD forged x", 1.into()), ("BF.EXISTS forged x", 1.into())]);
            client.run("DEL forged");
        }
    }
    assert!(server.is_alive());
}

/// A forged header would crash the server, take its memory, or make a filter that loses items or that nobody
/// can store.
#[test]
fn forged_headers_are_refused_or_make_sound_filters() {
    let server = Server::with().module_args("bf-max-filter-bytes 3000000").start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 100));
    client.run("BF.RESERVE blocked:fixed 0.01 100 NONSCALING SEED 1");
    client.run("BF.RESERVE classic:fixed 0.01 100 NONSCALING LAYOUT CLASSIC");
    let untouched = GROWN.map(|(key, _)| whole(&mut client, key));
    for key in ["blocked", "blocked:fixed", "classic", "classic:fixed"] {
        let header = scan(&mut client, key, 0).1;
        let (fields, known) = if key.starts_with("blocked") {
            (
                fields(&header, &BLOCKED_HEAD, &BLOCKED_LAYER, (48, 48)),
                &TAKEN_BLOCKED[..],
            )
        } else {
            (
                fields(&header, &CLASSIC_HEAD, &CLASSIC_LAYER, (20, 53)),
                &TAKEN_CLASSIC[..],
            )
        };
        let is_known = |what, forced| {
            known
                .iter()
                .any(|(name, list)| *name == what && list.contains(&forced))
        };
        let mut taken = taken(&mut client, key, &fields);
        taken.retain(|&(_, what, forced)| !is_known(what, forced));
        assert_eq!(taken, [], "{key}: layer, field and value");
    }
    assert!(GROWN.map(|(key, _)| whole(&mut client, key)) == untouched);
    assert!(server.is_alive());
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

/// A copy that was added to while its chunks came.
struct Copy {
    key: String,
    /// The items of its source.
    members: Vec<Vec<u8>>,
    /// The items that were added to it.
    added: Vec<Vec<u8>>,
}

/// Loads the chunks of each filter of [`GROWN`] with adds before, between and after them.
fn copied_with_adds_between(client: &mut Client) -> Vec<Copy> {
    // A part of the newest layer is used: adds go into layers that are still to come, and into new ones.
    let members = numbered("member ", 0, 200);
    make_grown(client, &members);
    let mut copies = Vec::new();
    for (source, _) in GROWN {
        let (chunks, key) = (scandump(client, source), format!("copy:{source}"));
        let mut added = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            load(client, &key, std::slice::from_ref(chunk));
            let items = numbered(&format!("between {number} "), 0, 40);
            add(client, &format!("BF.MADD {key}"), &items);
            assert_eq!(present(client, &key, &items).len(), 40, "{key}, just added");
            added.extend(items);
        }
        let members = members.clone();
        copies.push(Copy { key, members, added });
    }
    copies
}

/// A program that goes on adding while a filter is copied would lose what the source had.
#[test]
fn adds_between_chunks_lose_no_member() {
    let server = Server::start();
    let mut client = server.client();
    for Copy { key, members, .. } in copied_with_adds_between(&mut client) {
        assert_eq!(present(&mut client, &key, &members).len(), members.len(), "{key}");
    }
}

/// A program that goes on adding while a filter is copied would lose what it added, after it was told that it
/// is in: a false negative in a filter that was loaded whole. So a chunk sets bits, and unsets none.
#[test]
fn chunks_lose_no_item_that_was_added_before_them() {
    let server = Server::start();
    let mut client = server.client();
    for Copy { key, added, .. } in copied_with_adds_between(&mut client) {
        assert_eq!(present(&mut client, &key, &added).len(), added.len(), "{key}");
    }
}

/// A server that is stopped in the middle of a copy would not start again, or the copy could not go on.
#[test]
fn half_loaded_filters_are_stored_and_moved() {
    let mut server = Server::start();
    let mut client = server.client();
    make_grown(&mut client, &numbered("", 0, 300));
    let chunks = GROWN.map(|(key, _)| (key, scandump(&mut client, key)));
    let mut halves = Vec::new();
    for (key, chunks) in &chunks {
        for count in 1..=chunks.len() {
            let half = format!("{key}:{count}");
            load(&mut client, &half, &chunks[..count]);
            let payload = client.dump(&half);
            let moved = format!("moved:{half}");
            assert_eq!(
                client.call(&[b"RESTORE", moved.as_bytes(), b"0", payload.bytes()]),
                ok(),
                "{half}"
            );
            halves.extend([(half, &chunks[count..], *key), (moved, &chunks[count..], *key)]);
        }
    }
    let before: Vec<_> = halves.iter().map(|(half, ..)| whole(&mut client, half)).collect();
    client.answers(&[("SAVE", ok())]);
    server.restart();
    let mut client = server.client();
    for ((half, rest, key), before) in halves.iter().zip(before) {
        assert!(whole(&mut client, half) == before, "{half}");
        load(&mut client, half, rest);
        let original = whole(&mut client, key);
        assert!(whole(&mut client, half) == original, "{half}, loaded to its end");
    }
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

/// A filter that is too large for DUMP and RESTORE could not be moved, or its server would be gone meanwhile.
#[test]
#[serial(memory)]
fn a_filter_of_600_mib_is_copied_while_its_source_is_used() {
    let (source, target) = (Server::start(), Server::start());
    let (mut client, mut other) = (source.client(), target.client());
    for (layout, capacity) in [("BLOCKED SEED 1", 490_000_000), ("CLASSIC", 460_000_000)] {
        client.answers(&[(&format!("BF.RESERVE big 0.01 {capacity} LAYOUT {layout}"), ok())]);
        let size = client.info("big", "Size") as usize;
        assert!(size > 600 << 20, "{size}");
        let members = numbered("member ", 0, 20_000);
        let new = add(&mut client, "BF.MADD big", &members);

        let (done, added) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut second = source.client();
        let used = thread::scope(|scope| {
            let user = scope.spawn(|| {
                let mut used = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let items = numbered(&format!("later {} ", used.len()), 0, 10);
                    add(&mut second, "BF.MADD big", &items);
                    used.extend(items);
                    second.answers(&[("BF.EXISTS big member:0", 0.into())]);
                    added.store(true, Ordering::Relaxed);
                }
                used
            });
            let mut next = scan(&mut client, "big", 0);
            until("the source answers somebody else", || {
                added.load(Ordering::Relaxed) || user.is_finished()
            });
            let mut bytes = 0;
            while next.0 > 0 {
                assert!(next.1.len() <= CHUNK_BYTES);
                assert_eq!(
                    load_one(&mut other, "big", next.0, &next.1),
                    ok(),
                    "{layout} {}",
                    next.0
                );
                bytes += next.1.len();
                next = scan(&mut client, "big", next.0);
            }
            assert!(bytes > 600 << 20, "{bytes}");
            done.store(true, Ordering::Relaxed);
            user.join().unwrap()
        });
        assert!(added.into_inner(), "the source answers nobody else");
        assert_eq!(
            present(&mut client, "big", &used).len(),
            used.len(),
            "{layout}: added to the source"
        );
        for client in [&mut client, &mut other] {
            assert_eq!(present(client, "big", &members).len(), members.len(), "{layout}");
            assert_eq!(
                present(client, "big", &numbered("probe ", 0, 2000)),
                [0; 0],
                "{layout}"
            );
        }
        // The count is that of the header, which was read first.
        let card = other.run("BF.CARD big").int();
        assert!(
            (new..=new + used.len() as i64).contains(&card),
            "{layout}: {card}"
        );
        for client in [&mut client, &mut other] {
            client.answers(&[("DEL big", 1.into())]);
        }
    }
    assert!(source.is_alive() && target.is_alive());
}

/// A replica would be without the copied filter, or have another one, after a failover.
#[test]
fn loaded_chunks_reach_replicas() {
    let source = Server::start();
    filters::make(&mut source.client());
    let primary = Server::start();
    let other = Server::with().module_args("bf-layout classic bf-seed 5 bf-max-filter-bytes 300");
    let replica = other.replica_of(&primary).start();
    let (mut client, mut follower) = (primary.client(), replica.client());
    for key in filters::keys() {
        load(&mut client, key, &scandump(&mut source.client(), key));
    }
    filters::fill(&mut client, "chain", 4000, 5000);
    filters::fill(&mut client, "classic", 3000, 5000);
    assert_eq!(
        client.run("WAIT 1 60000"),
        1.into(),
        "the replica does not follow"
    );
    assert!(filters::snapshot(&mut follower) == filters::snapshot(&mut client));
    let chunks = scandump(&mut follower, "chain");
    assert!(chunks == scandump(&mut client, "chain"));
    let read_only = "READONLY You can't write against a read only replica.";
    assert_eq!(load_one(&mut follower, "new", 1, &chunks[0].1), error(read_only));
    follower.answers(&[("EXISTS new", 0.into())]);
}

/// Programs that act when a filter changes would miss a copy, or be woken for nothing.
#[test]
fn chunks_are_told_of_when_they_change_something() {
    let server = Server::with().config("notify-keyspace-events", "KEAd").start();
    let (mut client, mut listener) = (server.client(), server.client());
    make_grown(&mut client, &numbered("", 0, 100));
    listener.run("PSUBSCRIBE __keyevent@0__:bf.*");
    for (key, _) in GROWN {
        let chunks = scandump(&mut client, key);
        for (iterator, bytes) in &chunks {
            let before = changes(&mut client);
            load(&mut client, "copy", &[(*iterator, bytes.clone())]);
            let message = listener.receive().unwrap();
            let heard = [2, 3].map(|at| message.elements()[at].text());
            assert_eq!(heard, ["__keyevent@0__:bf.loadchunk", "copy"], "{key} {iterator}");
            assert_ne!(changes(&mut client), before, "{key} {iterator}");
        }
        let before = changes(&mut client);
        for (name, iterator, bytes) in [
            ("copy", 1, &chunks[0].1[..]),
            ("copy", 2, b"bad"),
            ("new", 1, b"bad"),
            ("new", 2, b"bad"),
        ] {
            assert!(matches!(
                load_one(&mut client, name, iterator, bytes),
                Reply::Error(_)
            ));
        }
        scandump(&mut client, "copy");
        assert_eq!(changes(&mut client), before, "{key}");
        client.run("DEL copy");
        client.run("PUBLISH __keyevent@0__:bf.end end");
        let message = listener.receive().unwrap();
        assert_eq!(
            message.elements()[2].text(),
            "__keyevent@0__:bf.end",
            "{key}: {message:?}"
        );
    }
}

/// Changes of the data since it was saved, as the server counts them.
fn changes(client: &mut Client) -> String {
    client.stat("persistence", "rdb_changes_since_last_save")
}

/// A copy that is made again and again, to bring it up to date, would fill the append-only file and the replicas'
/// links with what they have, and break transactions for nothing.
#[test]
fn chunks_that_are_there_already_change_nothing() {
    let server = Server::start();
    let (mut client, mut watcher) = (server.client(), server.client());
    make_grown(&mut client, &numbered("", 0, 100));
    for (key, _) in GROWN {
        let chunks = scandump(&mut client, key);
        watcher.answers(&[(&format!("WATCH {key}"), ok()), ("MULTI", ok())]);
        let before = changes(&mut client);
        load(&mut client, key, &chunks[1..]);
        load(&mut client, key, &[(1, Vec::new())]);
        assert_eq!(changes(&mut client), before, "{key}");
        watcher.run("PING");
        assert_ne!(
            watcher.run("EXEC"),
            Reply::Null,
            "{key}: the transaction is broken"
        );
    }
}
