//! What RedisBloom 2.6, 2.8 and 8 and valkey-bloom 1.0.1 stored and sent, and all that they said of it: it is at home
//! here, and what is made here in their layouts is theirs.
//!
//! `tests/fixtures/redisbloom` and `tests/fixtures/valkey-bloom` say how it was recorded.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Reply, ok, wire};
use crate::server::{Server, Setup};
use crate::support::aof::{as_commands, paths, rewrite, started_on_commands};
use crate::support::chunks::{load, scandump};
use crate::support::items::{add, answers, numbered};
use crate::support::link::is_content;
use crate::support::payload::{Body, FOOTER, rdb_file, rdb_version, sealed};
use crate::support::primary::Primary;
use crate::support::stored::{self, fixture, unzipped};
use crate::support::stored_valkey::{self, bytes, digest, is_like};

/// Who recorded it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    RedisBloom,
    ValkeyBloom,
}

const ORIGINS: [Origin; 2] = [Origin::RedisBloom, Origin::ValkeyBloom];

/// A recorded filter.
struct Recorded {
    key: &'static str,
    /// What DUMP gave, and the same without the footer.
    payload: &'static [u8],
    body: &'static [u8],
}

impl Origin {
    /// A server that says of the filters what was recorded.
    fn server(self) -> Setup {
        match self {
            Self::RedisBloom => Server::with(),
            Self::ValkeyBloom => Server::with().module_args(stored_valkey::LIMIT),
        }
    }

    fn filters(self) -> Vec<Recorded> {
        let recorded = |key, payload, body| Recorded { key, payload, body };
        match self {
            Self::RedisBloom => {
                let all = stored::STORED.iter();
                all.map(|one| recorded(&*one.key, &*one.payload, &*one.body))
                    .collect()
            }
            Self::ValkeyBloom => {
                let all = stored_valkey::STORED.iter();
                all.map(|one| recorded(&*one.key, &*one.payload, &*one.body))
                    .collect()
            }
        }
    }

    /// RDB files with these filters.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::RedisBloom => &["redisbloom/redisbloom-2.6.rdb", "redisbloom/redisbloom-2.8.rdb"],
            Self::ValkeyBloom => &["valkey-bloom/filters.rdb"],
        }
    }

    /// The server has these filters and nothing else, by their answers, their figures and their stored form; also after a
    /// save and a restart.
    #[track_caller]
    fn has_all(self, server: &mut Server) {
        let count = self.filters().len() as i64;
        for is_saved in [false, true] {
            let mut client = server.client();
            client.answers(&[("DBSIZE", count.into())]);
            match self {
                Self::RedisBloom => {
                    let all = stored::STORED.iter();
                    all.for_each(|one| one.is(&mut client, &one.key));
                }
                Self::ValkeyBloom => {
                    let all = stored_valkey::STORED.iter();
                    all.for_each(|one| one.is(server, &one.key));
                }
            }
            if !is_saved {
                client.answers(&[("SAVE", ok())]);
                server.restart();
            }
        }
    }
}

/// A server that finds `file` in its directory.
fn started_on(setup: Setup, file: &[u8]) -> (Server, TempDir) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("dump.rdb"), file).unwrap();
    (setup.dir(dir.path()).start(), dir)
}

/// The newest version of the RDB format that the server reads.
fn newest_version() -> u16 {
    rdb_version(&mut Server::with().without_module().start().client())
}

/// Who changes to this module by an RDB file would lose filters, or get other answers.
#[test]
fn servers_start_on_the_files() {
    let newest = newest_version();
    for origin in ORIGINS {
        let mut files: Vec<_> = origin
            .files()
            .iter()
            .map(|name| fs::read(fixture(name)).unwrap())
            .collect();
        files.retain(|file| str::from_utf8(&file[5..9]).unwrap().parse::<u16>().unwrap() <= newest);
        // One of an age that every server reads.
        let filters = origin.filters();
        files.push(rdb_file(filters.iter().map(|one| (one.key, one.body))));
        for file in files {
            let (mut server, _dir) = started_on(origin.server(), &file);
            origin.has_all(&mut server);
        }
    }
}

/// Filters that are moved key by key, by DUMP and RESTORE or MIGRATE, would be altered.
#[test]
fn payloads_are_restored() {
    for origin in ORIGINS {
        let mut server = origin.server().start();
        let mut client = server.client();
        let version = rdb_version(&mut client);
        for Recorded { key, payload, body } in origin.filters() {
            // A server that is older than the payload gets its body with a footer of its own.
            let recorded = u16::from_le_bytes([payload[body.len()], payload[body.len() + 1]]);
            let own = sealed(body, &version.to_le_bytes());
            let payload = if recorded <= version { payload } else { &own };
            let restored = client.call(&[b"RESTORE", key.as_bytes(), b"0", payload]);
            assert_eq!(restored, ok(), "{origin:?} {key}");
        }
        origin.has_all(&mut server);
    }
}

/// Tools that copy filters with SCANDUMP and LOADCHUNK from RedisBloom would corrupt them, and so would a server that
/// starts on a file with these commands, which is what RedisBloom rewrites its append-only file to.
#[test]
fn pieces_of_redisbloom_are_loaded() {
    let server = Server::start();
    let mut client = server.client();
    let mut file = Vec::new();
    let in_pieces = || stored::STORED.iter().filter(|stored| !stored.chunks.is_empty());
    for stored in in_pieces() {
        load(&mut client, &stored.key, &stored.chunks);
        stored.is(&mut client, &stored.key);
        for (iterator, bytes) in &stored.chunks {
            let iterator = iterator.to_string();
            let words = [
                &b"BF.LOADCHUNK"[..],
                stored.key.as_bytes(),
                iterator.as_bytes(),
                bytes,
            ];
            file.extend(wire(&words));
        }
    }
    let (mut server, _dir) = started_on_commands(&file, Server::with());
    for _ in 0..2 {
        let mut client = server.client();
        in_pieces().for_each(|stored| stored.is(&mut client, &stored.key));
        rewrite(&mut client);
        server.kill9();
        server.revive();
    }
}

/// What valkey-bloom writes of a filter into a file of commands would be another filter here, or what is written here
/// another one there.
#[test]
fn what_valkey_bloom_loads_is_loaded_and_written() {
    let mut server = as_commands().module_args(stored_valkey::LIMIT).start();
    let mut client = server.client();
    for stored in stored_valkey::STORED.iter() {
        let loaded = client.call(&[b"BF.LOAD", stored.key.as_bytes(), &stored.load]);
        assert_eq!(loaded, ok(), "{}", stored.key);
    }
    rewrite(&mut client);
    let mut written = Vec::new();
    for path in paths(&server) {
        let mut file = std::io::BufReader::new(fs::File::open(path).unwrap());
        written.extend(std::iter::from_fn(|| Reply::read(&mut file).unwrap()));
    }
    written.retain(|command| command.elements()[0].text() == "BF.LOAD");
    assert_eq!(written.len(), stored_valkey::STORED.len());
    for stored in stored_valkey::STORED.iter() {
        let is_of_it = |command: &&Reply| command.elements()[1].text() == stored.key;
        let command = written.iter().find(is_of_it).unwrap();
        assert!(command.elements()[2].bytes() == stored.load, "{}", stored.key);
    }
    Origin::ValkeyBloom.has_all(&mut server);
}

/// Adds items by a command each; how many were new.
fn add_one_by_one(client: &mut Client, key: &str, items: &[Vec<u8>]) -> i64 {
    let commands: Vec<_> = items
        .iter()
        .map(|item| vec![&b"BF.ADD"[..], key.as_bytes(), item])
        .collect();
    client.calls(&commands).iter().map(Reply::int).sum()
}

/// What a user makes here for RedisBloom would be another filter there, and the way back would be closed.
#[test]
fn filters_made_here_are_redisbloom_s() {
    let server = Server::start();
    let configured = Server::with().module_args("bf-layout classic").start();
    let (mut client, mut configured) = (server.client(), configured.client());
    for stored in stored::STORED.iter() {
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
            let options = stored.insert_options();
            let head = format!("BF.INSERT inserted{options} LAYOUT CLASSIC ITEMS").replace("  ", " ");
            assert_eq!(add(&mut client, &head, items), new, "{head}");
            stored.is_described(&mut client, "inserted");
            client.run("DEL inserted");
        }
    }
}

/// What a user makes here for valkey-bloom would be another filter there, and the way back would be closed.
#[test]
fn filters_made_here_are_valkey_bloom_s() {
    let layout = format!("bf-layout valkey {}", stored_valkey::LIMIT);
    for (setup, words) in [
        (Origin::ValkeyBloom.server(), &["LAYOUT", "VALKEY"][..]),
        (Server::with().module_args(&layout), &[]),
    ] {
        let mut server = setup.start();
        for stored in stored_valkey::STORED.iter() {
            stored.make(&mut server.client(), words);
        }
        Origin::ValkeyBloom.has_all(&mut server);
    }
}

/// A recorded filter of RedisBloom as an earlier encoding version has it, from its chunks.
fn earlier(stored: &stored::Stored, version: u64) -> Vec<u8> {
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

/// Filters that RedisBloom stored years ago would keep a server from starting: it would read them as new ones. (What
/// else was other in early versions is tested in the core.)
#[test]
fn early_encodings_are_read() {
    let is_grown = |stored: &&stored::Stored| stored.key == "rb:chain" || stored.key == "rb:empty";
    for stored in stored::STORED.iter().filter(is_grown) {
        for version in [2, 3] {
            let file = rdb_file([("key", &*earlier(stored, version))]);
            let (server, _dir) = started_on(Server::with(), &file);
            stored.is(&mut server.client(), "key");
        }
    }
}

// ---- Streams of commands ---------------------------------------------------------------------------

impl Origin {
    /// What a server with the other module sent to its replicas, with payloads that this server reads.
    fn stream(self) -> Vec<u8> {
        match self {
            // RedisBloom 2.6.28, 2.8.20 and 8 send the same, to the letter.
            Self::RedisBloom => unzipped("redisbloom/stream-8.aof.gz"),
            Self::ValkeyBloom => {
                let recorded = unzipped("valkey-bloom/stream.aof.gz");
                let mut rest = &recorded[..];
                let version = newest_version().min(stored_valkey::VERSION).to_le_bytes();
                let mut stream = Vec::new();
                while let Some(command) = Reply::read(&mut rest).unwrap() {
                    let words = command.elements().iter().map(Reply::bytes);
                    let mut words: Vec<_> = words.map(<[u8]>::to_vec).collect();
                    if words[0] == b"RESTORE" {
                        words[3] = sealed(&words[3][..words[3].len() - FOOTER], &version);
                    }
                    stream.extend(wire(&words));
                }
                stream
            }
        }
    }

    /// The server has what the other one had at the end of the stream.
    #[track_caller]
    fn has_the_stream(self, server: &Server) {
        let name = match self {
            Self::RedisBloom => "redisbloom/stream-8.json",
            Self::ValkeyBloom => "valkey-bloom/stream.json",
        };
        let said: Value = serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap();
        let all = said["keys"].as_object().unwrap();
        let client = &mut server.client();
        assert_eq!(client.run("DBSIZE"), (all.len() as i64).into());
        for (name, of_key) in all {
            match self {
                Self::RedisBloom => {
                    let questions = said["questions"].as_u64().unwrap() as usize;
                    is_of_redisbloom(client, name, of_key, &numbered("", 0, questions));
                }
                Self::ValkeyBloom => is_of_valkey_bloom(client, name, of_key),
            }
        }
    }
}

#[track_caller]
fn is_of_redisbloom(client: &mut Client, key: &str, said: &Value, items: &[Vec<u8>]) {
    let base64 = |json: &Value| BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap();
    let lines = client.call(&["BF.DEBUG", key]);
    let lines: Vec<_> = lines.elements().iter().map(Reply::text).collect();
    assert_eq!(said["debug"], Value::from(lines), "{key:?}");
    assert_eq!(scandump(client, key)[0].1, base64(&said["header"]), "{key:?}");
    let bits = base64(&said["answers"]);
    let recorded = (0..items.len()).map(|at| bits[at / 8] >> (at % 8) & 1 == 1);
    let found = answers(client, key.as_bytes(), items);
    assert!(recorded.eq(found), "{key:?}: other answers");
}

#[track_caller]
fn is_of_valkey_bloom(client: &mut Client, name: &str, said: &Value) {
    let key = &bytes(name)[..];
    assert_eq!(client.call(&[b"TYPE", key]).text(), said["type"], "{name:?}");
    assert_eq!(digest(client, key), said["digest"], "{name:?}");
    if Server::version().at_least(7, 0) {
        assert_eq!(client.call(&[b"PEXPIRETIME", key]).int(), said["end"], "{name:?}");
    }
    if said["type"] == "bloomfltr" {
        assert_eq!(client.call(&[b"BF.CARD", key]).int(), said["card"], "{name:?}");
        let info = client.call(&[b"BF.INFO", key]);
        assert!(is_like(&info, &said["info"]), "{name:?}: {info:?}");
    }
}

/// A server that is started on the other module's append-only file would have other filters, and lose what it was told
/// in words that only the other one takes.
#[test]
fn an_append_only_file_makes_what_the_other_module_made() {
    for origin in ORIGINS {
        let (mut server, _dir) = started_on_commands(&origin.stream(), origin.server());
        origin.has_the_stream(&server);
        // A refused command would be one that the recorded server had obeyed.
        let log = server.log();
        assert!(!log.contains("sending an error to its"), "{origin:?}: {log}");
        server.restart();
        origin.has_the_stream(&server);
    }
}

/// A replica would go its own way in silence, and after the switch its clients miss what they added.
#[test]
fn a_primary_with_the_other_module_is_followed() {
    for origin in ORIGINS {
        let primary = Primary::of(origin.stream());
        let mut server = origin.server().append_only().start();
        primary.lead(&server);
        origin.has_the_stream(&server);
        is_content(&server);
        let logged = server.log().matches("as RedisBloom does").count();
        assert_eq!(
            logged,
            usize::from(origin == Origin::RedisBloom),
            "{}",
            server.log()
        );
        server.client().answers(&[("REPLICAOF NO ONE", ok())]);
        // The module's own file has the filters too, in its own words.
        server.restart();
        origin.has_the_stream(&server);
    }
}
