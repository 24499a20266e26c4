//! RedisBloom's data, both ways: what RedisBloom 2.6 and 2.8 stored is at home here, and what is made here in
//! their layout is theirs.
//!
//! The stored filters are in `tests/fixtures/redisbloom`, with everything that RedisBloom said of them.

use std::fs::{self};

use tempfile::TempDir;

use crate::client::{Client, Reply, array, error, ok};
use crate::filters;
use crate::server::{Server, skip};
use crate::support::chunks::{load, scandump};
use crate::support::items::{add, numbered, present};
use crate::support::payload::body;
use crate::support::payload::{Body, FOOTER, rdb_file};
use crate::support::stored::{PROBES, STORED, Stored, fixture};

/// Adds items by a command each; how many were new.
fn add_one_by_one(client: &mut Client, key: &str, items: &[Vec<u8>]) -> i64 {
    let mut new = 0;
    for batch in items.chunks(1000) {
        for item in batch {
            client.send(&[b"BF.ADD", key.as_bytes(), item]).unwrap();
        }
        new += batch.iter().map(|_| client.receive().unwrap().int()).sum::<i64>();
    }
    new
}

/// The newest version of the RDB format that the server reads.
fn rdb_version(client: &mut Client) -> u16 {
    client.run("SET version 1");
    let payload = client.dump("version");
    client.run("DEL version");
    let footer = payload.bytes().last_chunk::<FOOTER>().unwrap();
    u16::from_le_bytes([footer[0], footer[1]])
}

/// A server that finds `file` in its directory.
fn started_on(file: &[u8]) -> (Server, TempDir) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("dump.rdb"), file).unwrap();
    (Server::with().dir(dir.path()).start(), dir)
}

fn started_on_all() -> (Server, TempDir) {
    started_on(&rdb_file(
        STORED.iter().map(|stored| (&*stored.key, &stored.body[..])),
    ))
}

/// The server has all stored filters, also after a save and a restart, and nothing else.
fn has_all(server: &mut Server) {
    let mut client = server.client();
    STORED
        .iter()
        .for_each(|stored| stored.is(&mut client, &stored.key));
    client.answers(&[("DBSIZE", 9.into()), ("SAVE", ok())]);
    server.restart();
    let mut client = server.client();
    STORED
        .iter()
        .for_each(|stored| stored.is(&mut client, &stored.key));
    client.answers(&[("DBSIZE", 9.into())]);
}

/// A server started on RedisBloom's file, if it reads files of that age.
macro_rules! started_on_redisbloom_s {
    ($name:literal) => {{
        let file = fs::read(fixture(concat!("redisbloom/", $name))).unwrap();
        let of_file = str::from_utf8(&file[5..9]).unwrap().parse::<u16>().unwrap();
        let of_server = rdb_version(&mut Server::with().without_module().start().client());
        if of_server < of_file {
            skip!(
                "{} is in version {of_file} of the RDB format, and this server reads {of_server}",
                $name
            );
        }
        started_on(&file)
    }};
}

/// Who changes from RedisBloom 2.6 by its RDB file would lose filters, or get other answers.
#[test]
fn a_server_starts_on_the_file_of_2_6() {
    let (mut server, _dir) = started_on_redisbloom_s!("redisbloom-2.6.rdb");
    has_all(&mut server);
}

/// Who changes from RedisBloom 2.8 by its RDB file would lose filters, or get other answers.
#[test]
fn a_server_starts_on_the_file_of_2_8() {
    let (mut server, _dir) = started_on_redisbloom_s!("redisbloom-2.8.rdb");
    has_all(&mut server);
}

/// On a server that is older than RedisBloom's files, filters would be lost or answer otherwise; so they are read
/// from a file of an age that every server knows.
#[test]
fn every_server_takes_the_filters_from_a_file() {
    let (mut server, _dir) = started_on_all();
    has_all(&mut server);
}

/// Filters moved key by key, with DUMP and RESTORE or MIGRATE, would be altered.
#[test]
fn payloads_of_dump_are_restored() {
    let (source, _dir) = started_on_all();
    let mut source = source.client();
    let recorded = rdb_version(&mut source) >= 11;
    let mut server = Server::start();
    let mut client = server.client();
    for stored in STORED.iter() {
        // A server that is older than the recorded payloads gets their bodies with a footer of its own.
        let own = source.dump(&stored.key);
        assert!(body(&own) == stored.body, "{}", stored.key);
        let payload = if recorded { &stored.payload } else { own.bytes() };
        let restored = client.call(&[b"RESTORE", stored.key.as_bytes(), b"0", payload]);
        assert_eq!(restored, ok(), "{}", stored.key);
    }
    has_all(&mut server);
}

/// Tools that copy filters with SCANDUMP and LOADCHUNK from RedisBloom would corrupt them.
#[test]
fn chunks_of_redisbloom_are_loaded() {
    let server = Server::start();
    let mut client = server.client();
    for stored in STORED.iter().filter(|stored| !stored.chunks.is_empty()) {
        load(&mut client, &stored.key, &stored.chunks);
        stored.is(&mut client, &stored.key);
        let backwards: Vec<_> = stored.chunks[1..].iter().rev().cloned().collect();
        load(&mut client, "backwards", &stored.chunks[..1]);
        load(&mut client, "backwards", &backwards);
        stored.is_described(&mut client, "backwards");
        client.run("DEL backwards");
    }
}

/// What a user makes here for RedisBloom would be another filter there, and the way back would be closed.
#[test]
fn filters_made_here_are_redisbloom_s() {
    let server = Server::start();
    let configured = Server::with().module_args("bf-layout classic").start();
    let (mut client, mut configured) = (server.client(), configured.client());
    for stored in STORED.iter() {
        let (key, items) = (&stored.key, &stored.items);
        let new = stored.info.field("Number of items inserted").int();
        stored.make(&mut client, " LAYOUT CLASSIC");
        assert_eq!(add_one_by_one(&mut client, key, items), new, "{key}");
        stored.is_described(&mut client, key);

        if !stored.reserve.is_empty() {
            stored.make(&mut configured, "");
        }
        assert_eq!(
            add(&mut configured, &format!("BF.MADD {key}"), items),
            new,
            "{key}"
        );
        stored.is_described(&mut configured, key);

        if !items.is_empty() {
            let head = format!(
                "BF.INSERT inserted{} LAYOUT CLASSIC ITEMS",
                stored.insert_options()
            );
            let head = head.replace("  ", " ");
            assert_eq!(add(&mut client, &head, items), new, "{head}");
            stored.is_described(&mut client, "inserted");
            client.run("DEL inserted");
        }
    }
}

/// A filter that came from RedisBloom would grow other layers here than there, and could not go back.
#[test]
fn filters_go_on_growing_as_redisbloom_s_do() {
    let (server, _dir) = started_on_all();
    let scratch = Server::start();
    let (mut client, mut scratch) = (server.client(), scratch.client());
    for stored in STORED.iter() {
        let (key, layers) = (&stored.key, stored.info.field("Number of filters").int());
        let head = format!("BF.MADD {key}");
        if stored.info.field("Expansion rate") == Reply::Null {
            let full = error("ERR non scaling filter is full");
            client.answers(&[
                ("BF.MADD rb:nonscaling n0 n199", array([0, 0])),
                ("BF.ADD rb:nonscaling more", full.clone()),
                (
                    "BF.INSERT rb:nonscaling ITEMS n1 more n2",
                    Reply::Array(vec![0.into(), full]),
                ),
            ]);
            stored.is(&mut client, key);
            continue;
        }
        stored.make(&mut scratch, " LAYOUT CLASSIC");
        add(&mut scratch, &head, &stored.items);
        let all = 4 * client.info(key, "Capacity") as usize;
        let more = numbered("more ", 0, all);
        let new = add(&mut client, &head, &more);
        assert_eq!(new, add_one_by_one(&mut scratch, key, &more), "{key}");
        assert!(client.info(key, "Number of filters") > layers, "{key}");
        assert_eq!(
            present(&mut client, key, &stored.items).len(),
            stored.items.len(),
            "{key}"
        );
        assert_eq!(present(&mut client, key, &more).len(), all, "{key}");
        for command in ["DUMP", "BF.INFO", "BF.DEBUG"] {
            let line = format!("{command} {key}");
            assert!(client.run(&line) == scratch.run(&line), "{line}");
        }
        assert!(scandump(&mut client, key) == scandump(&mut scratch, key), "{key}");
    }
}

/// RedisBloom would take a filter of the other layout for one of its own, and answer at random.
#[test]
fn redisbloom_refuses_blocked_filters() {
    let server = Server::start();
    let mut client = server.client();
    filters::make(&mut client);
    let mut blocked = 0;
    for key in filters::keys() {
        if client.call(&["BF.INFO", key, "FULL"]).field("Layout").text() != "blocked" {
            continue;
        }
        blocked += 1;
        let payload = client.dump(key);
        let (name, stream) = payload.bytes().split_at(FOOTER);
        assert_eq!(
            name,
            &STORED[0].body[..FOOTER],
            "the type and its encoding version"
        );
        // Unsigned integers: what it takes for the items, and for the number of layers.
        assert!(
            matches!(stream, [2, 1, 2, 0, ..]),
            "{key}: {:?}",
            stream[..4].escape_ascii()
        );
        let (iterator, header) = scandump(&mut client, key).swap_remove(0);
        assert_eq!(iterator, 1);
        assert_eq!(
            header[8..12],
            [0; 4],
            "{key}: what it takes for the number of layers"
        );
        assert_ne!(header.len(), 20, "{key}: the length of a header without layers");
    }
    assert_eq!(blocked, 8);
}

/// A recorded filter as an earlier encoding version has it, from its chunks.
fn earlier(stored: &Stored, version: u64) -> Vec<u8> {
    let header = &stored.chunks[0].1;
    let u32_at = |at: usize| u64::from(u32::from_le_bytes(*header[at..].first_chunk().unwrap()));
    let u64_at = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().unwrap());
    let double_at = |at: usize| f64::from_le_bytes(*header[at..].first_chunk().unwrap());
    let words = [u64_at(0), u32_at(8), u32_at(12), u32_at(16)];
    let mut body = Body::of_version(version).unsigned(&words[..if version < 3 { 3 } else { 4 }]);
    for (layer, (_, array)) in stored.chunks[1..].iter().enumerate() {
        let at = 20 + 53 * layer;
        body = body.unsigned(&[u64_at(at + 44)]).double(double_at(at + 24));
        body = body.unsigned(&[u32_at(at + 40)]).double(double_at(at + 32));
        body = body.unsigned(&[u64_at(at + 8), u64::from(header[at + 52])]);
        body = body.string(array).unsigned(&[u64_at(at + 16)]);
    }
    body.end()
}

/// A bit array as RedisBloom had it when its hashes were of 32 bits.
fn early_array(bytes: usize, modulus: u64, items: &[Vec<u8>]) -> Vec<u8> {
    let mut array = vec![0; bytes];
    for item in items {
        let a = murmur2::murmur2(item, 0x9747_b28c);
        let b = murmur2::murmur2(item, a);
        for probe in 0..8 {
            let bit = (u64::from(a) + u64::from(b) * probe) % modulus;
            array[bit as usize / 8] |= 1 << (bit % 8);
        }
    }
    array
}

/// Filters that RedisBloom stored years ago would keep a server from starting, or answer 0 to everything.
#[test]
fn early_encodings_are_read() {
    let is_grown = |stored: &&Stored| stored.key == "rb:chain" || stored.key == "rb:empty";
    let recorded: Vec<_> = STORED.iter().filter(is_grown).collect();
    let mut bodies = Vec::new();
    for stored in &recorded {
        bodies.extend([2, 3].map(|version| (format!("{version}:{}", stored.key), earlier(stored, version))));
    }

    let items = numbered("early ", 0, 90);
    let kinds: [(u64, u64, usize, u64); 3] = [(0, 1102, 138, 100), (1, 2048, 256, 185), (1, 2048, 256, 100)];
    let default = STORED.iter().find(|stored| stored.key == "rb:default").unwrap();
    let per_item = f64::from_le_bytes(*default.chunks[0].1[52..].first_chunk().unwrap());
    for (version, bits, bytes, capacity) in kinds {
        let body = Body::of_version(version)
            .unsigned(&[90, 1, capacity])
            .double(0.005);
        let body = body.unsigned(&[8]).double(per_item);
        let body = body.unsigned(if version == 0 { &[] } else { &[2048, 11] });
        let body = body.string(&early_array(bytes, bits, &items)).unsigned(&[90]);
        bodies.push((format!("early:{version}:{capacity}"), body.end()));
    }

    let (mut server, _dir) = started_on(&rdb_file(bodies.iter().map(|(key, body)| (&**key, &body[..]))));
    for start in ["on the files", "again"] {
        let mut client = server.client();
        for stored in &recorded {
            for version in [2, 3] {
                stored.is(&mut client, &format!("{version}:{}", stored.key));
            }
        }
        for (version, bits, bytes, capacity) in kinds {
            let key = &format!("early:{version}:{capacity}");
            assert_eq!(present(&mut client, key, &items).len(), 90, "{key} {start}");
            assert!(present(&mut client, key, &PROBES).len() < 200, "{key} {start}");
            let layer = format!(
                "bytes:{bytes} bits:{bits} hashes:8 hashwidth:32 capacity:{capacity} size:90 ratio:0.005"
            );
            let lines: Vec<_> = ["size:90", &layer].map(|line| Reply::Bulk(line.into())).into();
            assert_eq!(
                client.call(&["BF.DEBUG", key]),
                Reply::Array(lines),
                "{key} {start}"
            );
            assert_eq!(client.info(key, "Expansion rate"), 2, "{key} {start}");
            let payload = client.dump(key);
            client.answers(&[(&format!("COPY {key} copy"), 1.into())]);
            assert!(client.dump("copy") == payload, "{key} {start}: a copy");
            client.run("DEL copy");
            let chunks = scandump(&mut client, key);
            load(&mut client, "copy", &chunks);
            assert!(client.dump("copy") == payload, "{key} {start}: a copy by chunks");
            client.run("DEL copy");
        }
        client.answers(&[("SAVE", ok())]);
        server.restart();
    }
    let mut client = server.client();
    let more = numbered("more ", 0, 1000);
    for (version, .., capacity) in kinds {
        let key = &format!("early:{version}:{capacity}");
        add(&mut client, &format!("BF.MADD {key}"), &more);
        assert_eq!(present(&mut client, key, &items).len(), 90, "{key} grown");
        assert_eq!(present(&mut client, key, &more).len(), 1000, "{key} grown");
    }
}
