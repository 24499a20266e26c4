//! The flaws that were published of other modules for Bloom filters, and of their like: the same payloads and commands,
//! made here by hand, do no harm. `docs/hardening.md` lists them, with their sources.
//!
//! Each test has the name of an advisory. What is refused leaves nothing behind; what is taken works. No other filter
//! changes, and the server goes on.

use crate::client::{Client, Reply, array, error, ok};
use crate::filters;
use crate::server::{Server, until};
use crate::support::chunks::{BAD_DATA, NO_LINK, TOO_BIG, scandump};
use crate::support::payload::{BAD_FORMAT, Body, body, put_length, sealed};

const NOT_FOUND: &str = "ERR not found";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const NO_LAYER: &str =
    "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity";
const FULL: &str = "ERR non scaling filter is full";
const CAPACITY_RANGE: &str = "ERR capacity must be in the range [1, 1099511627776]";
/// What the server may keep after thousands of refusals.
const KEPT: i64 = 300_000;

// ---- A server under attack -----------------------------------------------------------------------

/// A server with filters of every kind that nobody touches, and who attacks it.
struct Target {
    server: Server,
    client: Client,
    untouched: Vec<(&'static str, Reply)>,
    /// The RDB version of its payloads.
    version: [u8; 2],
    used: i64,
}

impl Target {
    fn start() -> Self {
        // Strings in payloads stand there as they are.
        let server = Server::with().config("rdbcompression", "no").start();
        let mut client = server.client();
        filters::make(&mut client);
        let untouched = filters::snapshot(&mut client);
        let payload = client.dump("empty");
        let version = *payload.bytes()[body(&payload).len()..].first_chunk().unwrap();
        let used = server.client().used_memory();
        Self {
            server,
            client,
            untouched,
            version,
            used,
        }
    }

    /// Restores a payload under a right checksum, after a look at it by the server itself if it is to `sanitize`, where
    /// that can be chosen: in Valkey 9.1 no more.
    fn restore(&mut self, body: &[u8], sanitize: &str) -> Reply {
        let set = self
            .client
            .run(&format!("CONFIG SET sanitize-dump-payload {sanitize}"));
        assert!(set == ok() || Server::version().valkey, "{set:?}");
        let payload = sealed(body, &self.version);
        self.client.call(&[&b"RESTORE"[..], b"key", b"0", &payload])
    }

    /// The payload is no filter, and the key that it was for is as it was.
    #[track_caller]
    fn refuses(&mut self, body: &[u8], what: &str) {
        for sanitize in ["no", "yes"] {
            assert_eq!(self.restore(body, sanitize), error(BAD_FORMAT), "{what}");
        }
        self.client.answers(&[("EXISTS key", 0.into())]);
    }

    /// The payload is a filter, in which items are found that are added to it.
    #[track_caller]
    fn takes(&mut self, body: &[u8], what: &str) {
        for sanitize in ["no", "yes"] {
            assert_eq!(self.restore(body, sanitize), ok(), "{what}");
            self.works(what);
        }
    }

    /// The filter in `key` can be described, used, moved and saved. It is gone then.
    #[track_caller]
    fn works(&mut self, what: &str) {
        let client = &mut self.client;
        assert!(
            client.run("BF.INFO key FULL").fields().len() > 5,
            "{what}: not described"
        );
        let added = client.run("BF.MADD key one two one");
        let added = added.elements();
        // The last answer may be a refusal.
        let found = client.run("BF.MEXISTS key one two one");
        for (at, answer) in added.iter().enumerate() {
            let refused = [FULL, NO_LAYER, NO_GROWTH].map(error).contains(answer);
            assert!(
                refused || found.elements()[at] == 1.into(),
                "{what}: {answer:?}, {found:?}"
            );
        }
        let payload = client.dump("key");
        client.answers(&[("COPY key copy", 1.into())]);
        assert_eq!(client.dump("copy"), payload, "{what}: another copy");
        client.answers(&[("DEL copy", 1.into()), ("DEL key", 1.into())]);
        assert_eq!(
            client.call(&[&b"RESTORE"[..], b"key", b"0", payload.bytes()]),
            ok(),
            "{what}: not restored"
        );
        assert_eq!(client.dump("key"), payload, "{what}: restored as another one");
        client.answers(&[("DEL key", 1.into())]);
    }

    fn load_chunk(&mut self, iterator: i64, data: &[u8]) -> Reply {
        let iterator = iterator.to_string();
        self.client
            .call(&[b"BF.LOADCHUNK", &b"key"[..], iterator.as_bytes(), data])
    }

    /// The header is none, and makes nothing.
    #[track_caller]
    fn refuses_header(&mut self, header: &[u8], what: &str) {
        assert_eq!(self.load_chunk(1, header), error(BAD_DATA), "{what}");
        self.client.answers(&[("EXISTS key", 0.into())]);
    }

    /// Nothing happened to anybody else, and the memory is given back.
    #[track_caller]
    fn stays_as_it_was(mut self) {
        assert_eq!(filters::snapshot(&mut self.client), self.untouched);
        self.client
            .answers(&[("DBSIZE", (filters::keys().count() as i64).into())]);
        assert!(self.server.is_alive());
        let log = self.server.log();
        assert!(
            !log.contains("BUG REPORT") && !log.contains("internal error"),
            "{log}"
        );
        drop(self.client);
        let mut other = self.server.client();
        until("the memory is given back", || {
            other.used_memory() < self.used + KEPT
        });
    }
}

/// A classic layer, as a payload and a header have it; the first is sound.
#[derive(Clone, Copy, Debug)]
struct Layer {
    capacity: u64,
    rate: f64,
    hashes: u64,
    bits_per_item: f64,
    bits: u64,
    n2: u64,
    /// Bytes of the array that really come.
    array: usize,
    items: u64,
}

/// 100 items at 0.005 take 11.03 bits each, so 1102, or in whole words 1152.
const SOUND: Layer = Layer {
    capacity: 100,
    rate: 0.005,
    hashes: 8,
    bits_per_item: 11.027_753_418_256_411,
    bits: 1152,
    n2: 0,
    array: 144,
    items: 0,
};

/// Options of today's filters: 64 bits of hash, no power of two.
const TODAY: u64 = 5;
/// Options of filters with a power of two.
const POWERS: u64 = 4;

impl Layer {
    fn put(self, body: Body) -> Body {
        body.unsigned(&[self.capacity])
            .double(self.rate)
            .unsigned(&[self.hashes])
            .double(self.bits_per_item)
            .unsigned(&[self.bits, self.n2])
            .string(&vec![b'X'; self.array])
            .unsigned(&[self.items])
    }

    /// A payload with that layer alone.
    fn alone(self, options: u64) -> Vec<u8> {
        let head = Body::of_version(4).unsigned(&[self.items, 1, options, 2]);
        self.put(head).end()
    }

    /// The chunk header of a filter with that layer alone, which claims that the array has `bytes` bytes.
    fn header(self, options: u64, expansion: u32, bytes: u64) -> Vec<u8> {
        let mut header = self.items.to_le_bytes().to_vec();
        for field in [1, options as u32, expansion] {
            header.extend(field.to_le_bytes());
        }
        for field in [bytes, self.bits, self.items] {
            header.extend(field.to_le_bytes());
        }
        header.extend(self.rate.to_le_bytes());
        header.extend(self.bits_per_item.to_le_bytes());
        header.extend((self.hashes as u32).to_le_bytes());
        header.extend(self.capacity.to_le_bytes());
        header.push(self.n2 as u8);
        header
    }
}

/// How many bits a layer has for an item, and how many probes.
#[expect(
    clippy::approx_constant,
    reason = "RedisBloom's logarithm of 2, which it cut off"
)]
fn sized(rate: f64) -> (f64, u64) {
    let bits_per_item = -(rate.ln() / 0.480_453_013_918_201);
    (
        bits_per_item,
        (0.693_147_180_559_945 * bits_per_item).ceil() as u64,
    )
}

/// A payload of valkey-bloom's type, of one layer for 8 items at 0.1 with 5 bytes of bits; the fields that may lie
/// are given.
fn valkey(layers: u64, expansion: u64, rate: f64, tightening: f64, array: &[u8]) -> Vec<u8> {
    let mut payload = vec![7, 0x81];
    payload.extend(type_id("bloomfltr", 1).to_be_bytes());
    for number in [layers, expansion] {
        payload.push(2);
        put_length(&mut payload, number);
    }
    for number in [rate, tightening] {
        payload.push(4);
        payload.extend(number.to_le_bytes());
    }
    payload.extend([2, 1, 5]);
    put_length(&mut payload, array.len() as u64);
    payload.extend(array);
    // Fewer items than the number of any RDB version: a cut payload could have that, which stands behind, as its items.
    payload.extend([2, 8, 2, 0, 0]);
    payload
}

/// The bits of that layer with their head: the version, bytes of bits, probes, the seed.
fn valkey_array(bytes: u64, probes: u32, bits: usize) -> Vec<u8> {
    let mut array = vec![1];
    array.extend(bytes.to_le_bytes());
    array.extend(probes.to_le_bytes());
    array.extend([7; 32]);
    array.resize(45 + bits, 0);
    array
}

/// How a payload names a data type: six bits for each letter of its name, and ten for the encoding version.
fn type_id(name: &str, version: u64) -> u64 {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = |letter: u8| letters.iter().position(|&known| known == letter).unwrap() as u64;
    name.bytes().fold(0, |id, letter| id << 6 | place(letter)) << 10 | version
}

/// The tests below would all be of payloads that no server ever takes.
#[test]
fn what_is_not_forged_is_taken() {
    let mut target = Target::start();
    target.takes(&SOUND.alone(TODAY), "today's");
    let power = Layer {
        bits: 2048,
        n2: 11,
        array: 256,
        ..SOUND
    };
    target.takes(&power.alone(POWERS), "a power of two");
    target.takes(&valkey(1, 2, 0.1, 0.5, &valkey_array(5, 3, 5)), "valkey-bloom's");
    for layer in [SOUND, power] {
        let options = if layer.n2 > 0 { POWERS } else { TODAY };
        let header = layer.header(options, 2, layer.array as u64);
        assert_eq!(target.load_chunk(1, &header), ok());
        target.works("a header");
    }
    target.stays_as_it_was();
}

// ---- Loading: RedisBloom -------------------------------------------------------------------------

/// Whoever may RESTORE could read and write the server's memory, and run what he likes: bits that a layer claims to
/// have lie beyond the array that came with it.
#[test]
fn red_181297_and_cve_2026_25589_bits_beyond_the_array() {
    let mut target = Target::start();
    for (bits, n2, array) in [
        // Of 1024 bytes come 699; of 8192 come 512, which only the power of two tells.
        (8192, 0, 699),
        (0, 16, 512),
        (8192, 13, 699),
        (1 << 40, 0, 144),
        (1 << 63, 0, 8),
        (u64::MAX, 0, 8),
        (0, 63, 8),
    ] {
        for options in [0, 1, POWERS, TODAY] {
            let published = Layer {
                rate: 1.0,
                hashes: 1,
                bits_per_item: 1.0,
                bits,
                n2,
                array,
                ..SOUND
            };
            let plausible = Layer {
                bits,
                n2,
                array,
                ..SOUND
            };
            for layer in [published, plausible] {
                let what = format!("{layer:?} with options {options}");
                target.refuses(&layer.alone(options), &what);
                target.refuses_header(&layer.header(options, 2, layer.array as u64), &what);
            }
        }
    }
    // The third of three layers, after two that are as they should be.
    let head = Body::of_version(4).unsigned(&[0, 3, TODAY, 2]);
    let short = Layer { array: 143, ..SOUND };
    let forged = short.put(SOUND.put(SOUND.put(head))).end();
    target.refuses(&forged, "the third of three");
    target.stays_as_it_was();
}

/// A RESTORE could read and write the server's memory and run any code, by an array of another length than the fields
/// say, or by a power of two that is none.
#[test]
fn red_184459_and_mod_13409_fields_and_array_that_disagree() {
    let mut target = Target::start();
    for array in [0, 1, 136, 137, 139, 143, 145, 152, 288] {
        let layer = Layer { array, ..SOUND };
        target.refuses(&layer.alone(TODAY), &format!("{array} bytes instead of 144"));
        target.refuses_header(&SOUND.header(TODAY, 2, array as u64), &format!("{array} bytes"));
    }
    let power = Layer {
        bits: 2048,
        n2: 11,
        array: 256,
        ..SOUND
    };
    for n2 in [
        1,
        10,
        12,
        31,
        32,
        63,
        64,
        65,
        127,
        128,
        255,
        256,
        1 << 32,
        u64::MAX,
    ] {
        let layer = Layer { n2, ..power };
        target.refuses(&layer.alone(POWERS), &format!("n2 {n2}"));
        if n2 < 256 {
            target.refuses_header(&layer.header(POWERS, 2, 256), &format!("n2 {n2}"));
        }
    }
    for hashes in [0, 7, 9, 1 << 31, u64::from(u32::MAX), 1 << 32, (1 << 32) + 8] {
        target.refuses(
            &Layer { hashes, ..SOUND }.alone(TODAY),
            &format!("{hashes} hashes"),
        );
    }
    for value in [0.0, -0.0, -1.0, 1.0, 2.0, f64::NAN, f64::INFINITY, f64::MAX] {
        let rate = Layer { rate: value, ..SOUND };
        target.refuses(&rate.alone(TODAY), &format!("rate {value}"));
        let bits_per_item = Layer {
            bits_per_item: value,
            ..SOUND
        };
        target.refuses(&bits_per_item.alone(TODAY), &format!("{value} bits an item"));
    }
    target.stays_as_it_was();
}

/// A few bytes would end the server: it asks for memory for as many layers as the payload claims to have.
#[test]
fn mod_15943_numbers_of_layers_near_2_to_the_64() {
    let mut target = Target::start();
    for layers in [2, 1 << 20, 1 << 32, 1 << 57, 1 << 61, 1 << 63, u64::MAX] {
        for version in 2..=4 {
            let words = [0, layers, TODAY, 2];
            let head = Body::of_version(version).unsigned(&words[..if version < 3 { 3 } else { 4 }]);
            target.refuses(
                &SOUND.put(head).end(),
                &format!("{layers} layers, version {version}"),
            );
        }
        let array = valkey_array(5, 3, 5);
        target.refuses(
            &valkey(layers, 2, 0.1, 0.5, &array),
            &format!("{layers} layers of valkey-bloom's"),
        );
        let mut header = SOUND.header(TODAY, 2, 144);
        header[8..12].copy_from_slice(&(layers as u32).max(2).to_le_bytes());
        target.refuses_header(&header, &format!("a header of {layers} layers"));
    }
    for key in ["chain", "valkey"] {
        for layers in [0, 1 << 20, u32::MAX] {
            let mut header = scandump(&mut target.client, key).remove(0).1;
            header[12..16].copy_from_slice(&layers.to_le_bytes());
            target.refuses_header(&header, &format!("{key} of {layers} layers"));
        }
    }
    let peak: i64 = target.client.stat("memory", "used_memory_peak").parse().unwrap();
    assert!(peak < target.used + (4 << 20), "{peak} bytes of {}", target.used);
    target.stays_as_it_was();
}

/// A server would not start again: its own file has a filter of more layers than it thinks that there can be.
#[test]
fn mod_11590_more_than_a_thousand_layers() {
    let mut server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE BLOCKED 0.01 1 EXPANSION 1", ok()),
        (
            "BF.RESERVE VALKEY 1e-9 4 EXPANSION 1 LAYOUT VALKEY TIGHTENING 0.999",
            ok(),
        ),
    ]);
    let items: Vec<_> = (0..6000).map(|item| item.to_string()).collect();
    for (key, items) in [("BLOCKED", &items[..1500]), ("VALKEY", &items)] {
        client.over(&format!("BF.MADD {key}"), items);
    }
    // A chain as RedisBloom saves it. A client would need many items to make RedisBloom grow so many layers.
    let version = client.dump("VALKEY");
    let version = &version.bytes()[body(&version).len()..][..2];
    let head = Body::of_version(4).unsigned(&[0, 1500, TODAY, 1]);
    let classic = (0..1500).fold(head, |body, _| SOUND.put(body)).end();
    let restored = client.call(&[&b"RESTORE"[..], b"CLASSIC", b"0", &sealed(&classic, version)]);
    assert_eq!(restored, ok());
    for key in ["BLOCKED", "CLASSIC", "VALKEY"] {
        assert!(client.info(key, "Number of filters") > 1000, "{key}");
    }
    let keys = ["BLOCKED", "CLASSIC", "VALKEY"];
    let before = keys.map(|key| client.dump(key));
    client.answers(&[("SAVE", ok())]);
    server.restart();
    let mut client = server.client();
    assert!(
        keys.map(|key| client.dump(key)) == before,
        "other filters after the restart"
    );
    for (key, payload) in keys.iter().zip(&before) {
        assert_eq!(
            client.call(&[&b"RESTORE"[..], b"again", b"0", payload.bytes(), b"REPLACE"]),
            ok(),
            "{key}"
        );
        assert!(client.dump("again") == *payload, "{key}");
    }
}

/// A payload that ends early would end the server with it: one that finds no more to read, and was not told that the
/// module can bear that, gives up.
#[test]
fn red_173110_and_cve_2026_21864_payloads_that_end_early() {
    let mut target = Target::start();
    let client = &mut target.client;
    client.answers(&[
        ("BF.RESERVE small 0.1 4 EXPANSION 1 SEED 1", ok()),
        ("BF.RESERVE window 0.1 8 WINDOW 100 SLICES 2 SEED 1", ok()),
        ("BF.MADD small a b c d e f", array([1, 1, 1, 1, 1, 1])),
        ("BF.MADD window a b", array([1, 1])),
    ]);
    let mut bodies = vec![SOUND.alone(TODAY), valkey(1, 2, 0.1, 0.5, &valkey_array(5, 3, 5))];
    for key in ["small", "window"] {
        bodies.push(body(&client.dump(key)).to_vec());
    }
    client.answers(&[("DEL small window", 2.into())]);
    for body in bodies {
        // Without its end, or with one right after what is left of it.
        for end in 10..body.len() {
            target.refuses(&body[..end], &format!("{end} of {} bytes", body.len()));
        }
        for end in 10..body.len() - 1 {
            let cut = [&body[..end], &[0]].concat();
            target.refuses(&cut, &format!("{end} of {} bytes and an end", body.len()));
        }
    }
    target.stays_as_it_was();
}

/// The server would end, or take all memory there is, for a string that claims to be longer than any.
#[test]
fn valkey_4733_strings_that_claim_to_be_of_any_length() {
    let mut target = Target::start();
    let sound = [
        SOUND.alone(TODAY),
        valkey(1, 2, 0.1, 0.5, &valkey_array(5, 3, 5)),
        body(&target.client.dump("empty")).to_vec(),
    ];
    for body in sound {
        // The first string, and its length: in one byte here, or in nine after 0x81.
        let at = (10..body.len())
            .find(|&at| body[at] == 5 && body[at + 1] >= 40)
            .unwrap();
        let after = if body[at + 1] == 0x81 { at + 10 } else { at + 2 };
        for length in [
            1 << 20,
            1 << 31,
            1 << 32,
            1 << 62,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut forged = body[..=at].to_vec();
            put_length(&mut forged, length);
            forged.extend(&body[after..]);
            target.refuses(&forged, &format!("{length} bytes"));
        }
    }
    target.stays_as_it_was();
}

/// Whoever sends refused payloads again and again would take all memory of the server.
#[test]
fn mod_12225_refused_payloads_leave_no_memory_behind() {
    let mut target = Target::start();
    // Two layers of 14 kB, and a third that is refused.
    let large = Layer {
        capacity: 10_000,
        bits: 110_336,
        array: 13_792,
        ..SOUND
    };
    let bad = Layer { hashes: 9, ..SOUND };
    let head = Body::of_version(4).unsigned(&[0, 3, TODAY, 2]);
    let payload = bad.put(large.put(large.put(head))).end();
    for _ in 0..25 {
        target.refuses(&payload, "a bad third layer");
    }
    let mut header = large.header(TODAY, 2, large.array as u64);
    header.extend_from_slice(&bad.header(TODAY, 2, 144)[20..]);
    header[8..12].copy_from_slice(&2_u32.to_le_bytes());
    for _ in 0..200 {
        target.refuses_header(&header, "a bad second layer");
    }
    target.stays_as_it_was();
}

/// The server would read the layer before the first one, of a filter that has none.
#[test]
fn red_158510_filters_without_a_layer() {
    let mut target = Target::start();
    let mut header = [0_u64.to_le_bytes(), [0; 8]].concat();
    header.extend(2_u32.to_le_bytes());
    for options in [0, 1, 4, 5, 12, 13_u32] {
        header[12..16].copy_from_slice(&options.to_le_bytes());
        target.refuses_header(&header, "RedisBloom's header of no layer");
    }
    for key in ["empty", "valkey"] {
        let mut header = scandump(&mut target.client, key).remove(0).1;
        header[12..16].fill(0);
        header.truncate(if key == "valkey" { 68 } else { 40 });
        target.refuses_header(&header, &format!("the header of {key} without a layer"));
    }
    for version in 0..=4 {
        for items in [0, 1, 2, 3] {
            let mut forged = Body::of_version(version).unsigned(&[items, 0]);
            if version >= 2 {
                forged = forged.unsigned(&[TODAY]);
            }
            if version >= 3 {
                forged = forged.unsigned(&[2]);
            }
            target.refuses(
                &forged.end(),
                &format!("version {version}, {items} items, no layer"),
            );
        }
    }
    let mut none = vec![7, 0x81];
    none.extend(type_id("bloomfltr", 1).to_be_bytes());
    none.extend([2, 0, 2, 2, 4]);
    none.extend(0.1_f64.to_le_bytes());
    none.push(4);
    none.extend(0.5_f64.to_le_bytes());
    none.extend([2, 1, 2, 0, 0]);
    target.refuses(&none, "valkey-bloom's without a layer");
    target.stays_as_it_was();
}

/// A header of one byte of bits would give access to all of the server's memory, by an add or by a chunk at any
/// address.
#[test]
fn red_173109_a_header_of_nonsense_and_a_chunk_at_an_address() {
    let mut target = Target::start();
    let address = 71_752_852_194_637;
    let nonsense = Layer {
        capacity: address as u64,
        rate: 0.1,
        hashes: 1,
        bits_per_item: 0.1,
        bits: 8,
        n2: 0,
        array: 1,
        items: address as u64,
    };
    for options in [0, 1, 4, 5] {
        target.refuses_header(&nonsense.header(options, 1, 1), "nonsense");
        target.refuses(&nonsense.alone(options), "nonsense");
    }
    assert_eq!(target.load_chunk(address, b"HELLO"), error(NOT_FOUND));
    assert_eq!(target.load_chunk(1, &SOUND.header(TODAY, 2, 144)), ok());
    for iterator in [address, 151, 1 << 40, i64::MAX] {
        assert_eq!(
            target.load_chunk(iterator, b"HELLO"),
            error(NO_LINK),
            "{iterator}"
        );
    }
    for iterator in [0, -1, 2, 4, i64::MIN] {
        assert_eq!(
            target.load_chunk(iterator, b"HELLO"),
            error(BAD_DATA),
            "{iterator}"
        );
    }
    target.client.answers(&[("BF.CARD key", 0.into())]);
    target.works("after chunks at any address");
    target.stays_as_it_was();
}

/// A growth that fails half-way would leave a layer without bits behind, which the next command reads.
#[test]
fn red_173109_a_growth_that_fails() {
    let mut target = Target::start();
    let (bits_per_item, hashes) = sized(0.005);
    for (expansion, answer) in [
        (0, FULL),
        (u32::MAX, NO_GROWTH),
        (1 << 31, NO_GROWTH),
        (u32::MAX - 1, NO_GROWTH),
    ] {
        let steep = Layer {
            capacity: 1 << 20,
            hashes,
            bits_per_item,
            bits: (f64::from(1 << 20) * bits_per_item) as u64,
            ..SOUND
        };
        let bits = steep.bits.next_multiple_of(64);
        let steep = Layer {
            bits,
            items: steep.capacity,
            ..steep
        };
        assert_eq!(
            target.load_chunk(1, &steep.header(TODAY, expansion, bits / 8)),
            ok()
        );
        for item in ["a", "b", "a"] {
            target.client.answers(&[
                (&format!("BF.ADD key {item}"), error(answer)),
                (&format!("BF.EXISTS key {item}"), 0.into()),
                ("BF.CARD key", (1 << 20).into()),
            ]);
        }
        assert_eq!(target.client.info("key", "Number of filters"), 1);
        target.works(&format!("expansion {expansion}"));
    }
    target.stays_as_it_was();
}

// ---- Parameters ----------------------------------------------------------------------------------

/// One command would end the server: it asks for more memory than there is.
#[test]
fn mod_7057_and_redisbloom_699_huge_capacities() {
    let mut target = Target::start();
    for layout in ["BLOCKED", "CLASSIC", "VALKEY"] {
        for capacity in [
            100_000_000_000_000_u64,
            1_000_000_000_000_000_000,
            i64::MAX as u64,
            u64::MAX,
        ] {
            target.client.refuses(
                "key",
                &[
                    (
                        &format!("BF.RESERVE key 0.01 {capacity} LAYOUT {layout}"),
                        CAPACITY_RANGE,
                    ),
                    (
                        &format!("BF.INSERT key CAPACITY {capacity} ERROR 0.01 LAYOUT {layout} ITEMS 1"),
                        "Bad capacity",
                    ),
                ],
            );
        }
        // The largest that there is, at the tightest rate.
        target.client.refuses(
            "key",
            &[
                (
                    &format!("BF.RESERVE key 1e-30 1099511627776 LAYOUT {layout}"),
                    NO_CREATION,
                ),
                (
                    &format!("BF.INSERT key CAPACITY 1099511627776 ERROR 1e-30 LAYOUT {layout} ITEMS 1"),
                    NO_CREATION,
                ),
            ],
        );
    }
    target.stays_as_it_was();
}

/// Numbers whose product is 0, or small, in 64 bits: memory for few bytes, and bits of very many.
#[test]
fn cve_2024_55656_sizes_whose_product_wraps() {
    let mut target = Target::start();
    let header = scandump(&mut target.client, "reserved").remove(0).1;
    // Lines of 64 bytes: 2^58 of them are 2^64 bytes, as 2^54 of 16 partitions are.
    for (lines, partitions) in [
        (1_u64 << 58, 1_u32),
        (1 << 54, 16),
        (1 << 57, 2),
        ((1 << 58) + 1, 1),
        (u64::MAX, 16),
    ] {
        let mut header = header.clone();
        header[80..88].copy_from_slice(&lines.to_le_bytes());
        header[88..92].copy_from_slice(&partitions.to_le_bytes());
        target.refuses_header(&header, &format!("{lines} lines in {partitions} partitions"));
    }
    for (bytes, bits) in [
        (1 << 61, 0),
        (1 << 61, 64),
        ((1 << 61) + 8, 64),
        (1 << 58, 1 << 61),
        (u64::MAX, u64::MAX),
    ] {
        for capacity in [100, 1 << 57, 1 << 60, u64::MAX] {
            let layer = Layer {
                capacity,
                bits,
                ..SOUND
            };
            target.refuses_header(
                &layer.header(TODAY, 2, bytes),
                &format!("{bytes} bytes for {capacity} items"),
            );
        }
    }
    for bytes in [
        1 << 61,
        (1 << 61) + 6,
        1 << 63,
        u64::MAX,
        u64::MAX - 44,
        u64::MAX - 38,
    ] {
        target.refuses(
            &valkey(1, 2, 0.1, 0.5, &valkey_array(bytes, 3, 5)),
            &format!("{bytes} bytes of valkey-bloom's"),
        );
    }
    target.stays_as_it_was();
}

/// The second filter that is made with a loose rate and few items would end the server: it has no bit at all.
#[test]
fn mod_6268_and_redisbloom_641_filters_of_no_bits() {
    let mut target = Target::start();
    let items: Vec<_> = (1..=12).map(|item| item.to_string()).collect();
    for layout in ["BLOCKED", "CLASSIC", "VALKEY"] {
        for words in ["0.99 1 EXPANSION 0", "0.99 3 NONSCALING", "0.999999 1"] {
            for _ in 0..2 {
                target
                    .client
                    .answers(&[(&format!("BF.RESERVE key {words} LAYOUT {layout}"), ok())]);
                let added = target.client.over("BF.INSERT key ITEMS", &items);
                let known =
                    |answer: &&Reply| [0.into(), 1.into(), error(FULL), error(NO_LAYER)].contains(answer);
                assert!(
                    added.elements().iter().all(|answer| known(&answer)),
                    "{layout} {words}: {added:?}"
                );
                target.works(&format!("{layout} {words}"));
            }
        }
    }
    // A stored layer of such a rate, as a file or a dump can have it.
    let (bits_per_item, hashes) = sized(0.99);
    let loose = Layer {
        capacity: 3,
        rate: 0.99,
        hashes,
        bits_per_item,
        bits: 64,
        n2: 0,
        array: 8,
        items: 1,
    };
    target.takes(&loose.alone(TODAY), "one word");
    for (bits, array) in [(0, 0), (0, 8), (64, 0)] {
        let layer = Layer { bits, array, ..loose };
        target.refuses(&layer.alone(TODAY), &format!("{bits} bits in {array} bytes"));
        target.refuses_header(&layer.header(TODAY, 2, array as u64), &format!("{bits} bits"));
    }
    target.stays_as_it_was();
}

/// A filter that grows for years would end the server: its layers' rates become so tight that their sizes make no
/// sense.
#[test]
fn redisbloom_6_rates_too_tight_to_halve() {
    let mut target = Target::start();
    // Some are found by chance: so small layers have few places for many probes.
    let known = |answer: &Reply| [0.into(), 1.into()].contains(answer);
    for rate in [5e-324, f64::MIN_POSITIVE, 1e-300] {
        // The server's own logarithm of the smallest numbers may differ in its last bit, which a load allows for.
        let (bits_per_item, hashes) = sized(rate);
        let bits = ((bits_per_item as u64).max(1)).next_multiple_of(64);
        let tight = Layer {
            capacity: 1,
            rate,
            hashes,
            bits_per_item,
            bits,
            array: bits as usize / 8,
            items: 1,
            ..SOUND
        };
        // The bits of the layer stay unset: otherwise it would contain the added items.
        let header = tight.header(TODAY, 1, bits / 8);
        assert_eq!(target.load_chunk(1, &header), ok(), "{rate}");
        let items: Vec<_> = (0..2000).map(|item| item.to_string()).collect();
        let added = target.client.over("BF.MADD key", &items);
        let (last, before) = added.elements().split_last().unwrap();
        assert!(before.iter().all(known), "{rate}: {added:?}");
        // Growth ends where a rate cannot be halved.
        assert_eq!(*last, error(NO_LAYER), "{rate}");
        let layers = target.client.info("key", "Number of filters");
        assert_eq!(layers > 1, rate > 5e-324, "{rate}: {layers} layers");
        target.works(&format!("rate {rate}"));
    }
    for layout in ["BLOCKED", "CLASSIC"] {
        target
            .client
            .answers(&[(&format!("BF.RESERVE key 5e-324 1 LAYOUT {layout}"), ok())]);
        let items: Vec<_> = (0..2000).map(|item| item.to_string()).collect();
        let added = target.client.over("BF.MADD key", &items);
        assert!(added.elements().iter().all(known), "{layout}: {added:?}");
        target.works(layout);
    }
    target.stays_as_it_was();
}

// ---- Chunks, copies, files -----------------------------------------------------------------------

/// A client that goes away after the first chunk would leave something that the server saves and cannot load: after its
/// next start every key is gone.
#[test]
fn dragonfly_8104_and_8113_a_header_alone_is_saved_and_copied() {
    let mut server = Server::start();
    let mut client = server.client();
    filters::make(&mut client);
    client.answers(&[
        ("SET text value", ok()),
        ("BF.RESERVE window 0.01 1000 WINDOW 1000", ok()),
        ("BF.MADD window a b c", array([1, 1, 1])),
    ]);
    let untouched = filters::snapshot(&mut client);
    let keys: Vec<_> = filters::keys().chain(["window"]).collect();
    for key in &keys {
        let header = scandump(&mut client, key).remove(0).1;
        let half = format!("half:{key}");
        assert_eq!(
            client.call(&[b"BF.LOADCHUNK", half.as_bytes(), b"1", &header]),
            ok(),
            "{key}"
        );
        client.answers(&[(&format!("COPY {half} copy:{key}"), 1.into())]);
    }
    let dumps = |client: &mut Client| -> Vec<_> {
        let names = keys
            .iter()
            .flat_map(|key| [format!("half:{key}"), format!("copy:{key}")]);
        names.map(|name| client.dump(&name)).collect()
    };
    let halves = dumps(&mut client);
    client.answers(&[("SAVE", ok())]);
    server.restart();
    let mut client = server.client();
    client.answers(&[("GET text", Reply::Bulk(b"value".to_vec()))]);
    assert_eq!(filters::snapshot(&mut client), untouched);
    assert_eq!(dumps(&mut client), halves);
    // Each half-loaded filter can still be completed.
    for key in keys {
        for (iterator, bytes) in scandump(&mut client, key) {
            let half = format!("half:{key}");
            let reply = client.call(&[
                b"BF.LOADCHUNK",
                half.as_bytes(),
                iterator.to_string().as_bytes(),
                &bytes,
            ]);
            // The header is that of a key which is there by now.
            let expected = if iterator == 1 { error(BAD_DATA) } else { ok() };
            assert_eq!(reply, expected, "{key} {iterator}");
        }
        assert_eq!(client.dump(&format!("half:{key}")), client.dump(key), "{key}");
    }
}

/// A client that goes away after the first chunk would leave something that the server saves and cannot load, by a
/// rate that a header may have and a file may not.
#[test]
fn dragonfly_8113_a_header_and_a_file_take_the_same_rates() {
    let mut target = Target::start();
    for rate in [
        1e-300,
        1e-30,
        0.25,
        0.3,
        0.5,
        0.500_000_1,
        0.75,
        0.99,
        1.0 - f64::EPSILON,
    ] {
        let (bits_per_item, hashes) = sized(rate);
        let bits = ((100.0 * bits_per_item) as u64).max(1).next_multiple_of(64);
        let layer = Layer {
            rate,
            hashes,
            bits_per_item,
            bits,
            array: bits as usize / 8,
            ..SOUND
        };
        target.takes(&layer.alone(TODAY), &format!("rate {rate}"));
        assert_eq!(
            target.load_chunk(1, &layer.header(TODAY, 2, bits / 8)),
            ok(),
            "{rate}"
        );
        target.works(&format!("a header of rate {rate}"));
    }
    // This module's own layout has rates up to 0.25, in a header and in a payload.
    let header = scandump(&mut target.client, "empty").remove(0).1;
    let payload = body(&target.client.dump("empty")).to_vec();
    let at = payload
        .windows(header.len())
        .position(|part| part == header)
        .unwrap();
    for rate in [0.250_000_1, 0.5, 1.0, 1e-31, 0.0, f64::NAN] {
        let mut header = header.clone();
        header[24..32].copy_from_slice(&rate.to_le_bytes());
        target.refuses_header(&header, &format!("rate {rate}"));
        let mut payload = payload.clone();
        payload[at..at + header.len()].copy_from_slice(&header);
        target.refuses(&payload, &format!("rate {rate}"));
    }
    target.stays_as_it_was();
}

/// A background save would fail from then on, and with it every later one: it meets a filter of which not all bits came.
#[test]
fn redisbloom_672_a_background_save_of_half_loaded_filters() {
    let mut target = Target::start();
    for key in ["chain", "classic", "valkey"] {
        let chunks = scandump(&mut target.client, key);
        for (at, (iterator, bytes)) in chunks.iter().enumerate() {
            assert_eq!(target.load_chunk(*iterator, bytes), ok());
            if at == 0 || at == chunks.len() / 2 {
                let client = &mut target.client;
                client.answers(&[("BGSAVE", Reply::Simple("Background saving started".into()))]);
                until("the save ends", || {
                    client.stat("persistence", "rdb_bgsave_in_progress") == "0"
                });
                assert_eq!(
                    client.stat("persistence", "rdb_last_bgsave_status"),
                    "ok",
                    "{key} after {at} chunks"
                );
            }
        }
        assert_eq!(target.client.dump("key"), target.client.dump(key));
        target.client.answers(&[("DEL key", 1.into())]);
    }
    target.stays_as_it_was();
}

/// A client could write what he likes into the heap, by a chunk that begins within a filter and ends beyond it.
#[test]
fn cve_2024_25115_chunks_beyond_their_layer() {
    let mut target = Target::start();
    for key in ["chain", "classic", "valkey"] {
        let chunks = scandump(&mut target.client, key);
        assert_eq!(target.load_chunk(1, &chunks[0].1), ok());
        let fresh = target.client.dump("key");
        let end = chunks[chunks.len() - 1].0;
        for length in [1, 8, 64, 4096, 1 << 20] {
            let data = vec![0xff; length];
            let length = length as i64;
            for iterator in [
                end + 1,
                end + length,
                end + length + 1,
                i64::MAX,
                i64::MAX - length,
                length,
                length - 1,
                0,
                -1,
                i64::MIN,
            ] {
                // A chunk's iterator is where it ends, counted from one; that of the last one is `end`. What ends where
                // the first one begins is of no layer yet.
                let expected = match iterator.checked_sub(length + 1) {
                    Some(start) if start == -1 || start >= end - 1 => NO_LINK,
                    Some(0..) => TOO_BIG,
                    _ => BAD_DATA,
                };
                let reply = target.load_chunk(iterator, &data);
                assert_eq!(reply, error(expected), "{key}: {length} bytes to {iterator}");
            }
        }
        assert_eq!(target.client.dump("key"), fresh, "{key}");
        for (iterator, bytes) in &chunks[1..] {
            assert_eq!(target.load_chunk(*iterator, bytes), ok());
        }
        assert_eq!(target.client.dump("key"), target.client.dump(key), "{key}");
        target.client.answers(&[("DEL key", 1.into())]);
    }
    target.stays_as_it_was();
}

// ---- valkey-bloom, Redis, Valkey -----------------------------------------------------------------

/// BF.INFO would end the server: it computes with a ratio that no filter can have.
#[test]
fn valkey_bloom_90_ratios_out_of_their_range() {
    let mut target = Target::start();
    let array = valkey_array(5, 3, 5);
    for ratio in [
        2.0,
        1.0,
        1.0 + f64::EPSILON,
        0.0,
        -0.0,
        -0.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
    ] {
        target.refuses(&valkey(1, 2, 0.1, ratio, &array), &format!("tightening {ratio}"));
        target.refuses(
            &valkey(1, 0, 0.1, ratio, &array),
            &format!("tightening {ratio}, fixed"),
        );
        target.refuses(&valkey(1, 2, ratio, 0.5, &array), &format!("rate {ratio}"));
        // BF.LOAD accepts the same fields.
        for (rate, tightening, field) in [(0.1, ratio, "tightening ratio"), (ratio, 0.5, "error rate")] {
            let mut data = vec![1, 2, 0, 0, 0];
            data.extend(f64::to_le_bytes(rate));
            data.extend(f64::to_le_bytes(tightening));
            data.push(1);
            data.extend(1_u64.to_le_bytes());
            data.extend((array.len() as u64).to_le_bytes());
            data.extend(&array);
            data.extend(0_u64.to_le_bytes());
            data.extend(8_u64.to_le_bytes());
            assert_eq!(
                target.client.call(&[&b"BF.LOAD"[..], b"key", &data]),
                error(&format!("ERR bad data: bad field: {field}")),
                "{ratio}"
            );
            target.client.answers(&[("EXISTS key", 0.into())]);
        }
    }
    // What is within the range can be asked for the largest capacity that it may grow to.
    for ratio in [f64::MIN_POSITIVE, 1e-9, 0.999_999] {
        target.takes(&valkey(1, 2, 0.1, ratio, &array), &format!("tightening {ratio}"));
        let payload = sealed(&valkey(1, 2, 0.1, ratio, &array), &target.version);
        let restored = target.client.call(&[&b"RESTORE"[..], b"key", b"0", &payload]);
        assert_eq!(restored, ok());
        assert!(
            target.client.run("BF.INFO key MAXSCALEDCAPACITY").int() >= 8,
            "{ratio}"
        );
        target.client.answers(&[("DEL key", 1.into())]);
    }
    target.stays_as_it_was();
}

/// A client that passes on what others typed would read replies that one of these wrote: an error that has the end of a
/// line in it is two replies.
#[test]
fn cve_2025_67733_errors_are_one_reply() {
    let mut target = Target::start();
    for word in [&b"\r\n+OK\r\n:1"[..], b"a\0\r\n$3\r\nfoo", b"\n", b"\r", b"\0"] {
        let commands: [&[&[u8]]; 5] = [
            &[b"BF.RESERVE", b"key", b"0.01", b"100", word],
            &[b"BF.RESERVE", b"key", word, b"100"],
            &[b"BF.INSERT", b"key", word],
            &[b"BF.LOADCHUNK", b"key", word, b"data"],
            &[b"BF.INFO", b"empty", word],
        ];
        for command in commands {
            for script in [
                "return redis.call(unpack(ARGV))",
                "return redis.pcall(unpack(ARGV))",
            ] {
                let scripted: Vec<&[u8]> = [b"EVAL", script.as_bytes(), b"0"]
                    .into_iter()
                    .chain(command.iter().copied())
                    .collect();
                for command in [command, &scripted] {
                    let reply = target.client.call(command);
                    let Reply::Error(text) = reply else {
                        panic!("{reply:?} to {:?}", word.escape_ascii());
                    };
                    assert!(
                        !text.contains(['\r', '\n', '\0']),
                        "{:?} to {:?}",
                        text,
                        word.escape_ascii()
                    );
                    target.client.answers(&[("PING", Reply::Simple("PONG".into()))]);
                }
            }
        }
    }
    target.stays_as_it_was();
}
