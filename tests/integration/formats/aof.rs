//! The append-only file: rewritten as commands, with an RDB preamble, and with chunks that clients loaded.

use std::fs;

use serial_test::serial;
use tempfile::TempDir;

use crate::client::{Client, ok, wire};
use crate::filters;
use crate::server::{Server, Setup, until};
use crate::support::aof::{as_commands, paths, rewrite};
use crate::support::chunks::{load, scandump};
use crate::support::items::{numbered, present};
use crate::support::stored::STORED;

/// The contents of the append-only files.
fn files(server: &Server) -> Vec<Vec<u8>> {
    paths(server).iter().map(|path| fs::read(path).unwrap()).collect()
}

/// How often the files have these bytes.
fn count(files: &[Vec<u8>], bytes: &[u8]) -> usize {
    files
        .iter()
        .map(|file| {
            file.windows(bytes.len())
                .filter(|window| window == &bytes)
                .count()
        })
        .sum()
}

/// The rewritten file of a server gives all filters back, which then grow as those of a server that never
/// stopped.
fn survives_a_rewrite(setup: Setup, chunks: usize, loads: usize) {
    let twin = Server::with().module_args("bf-seed 1").start();
    let mut server = setup.module_args("bf-seed 1").start();
    for server in [&twin, &server] {
        filters::make(&mut server.client());
    }
    let mut client = server.client();
    let before = filters::snapshot(&mut client);
    assert_eq!(count(&files(&server), b"BF.LOADCHUNK"), 0);
    rewrite(&mut client);
    let written = files(&server);
    assert_eq!(count(&written, b"BF.LOADCHUNK"), chunks);
    assert_eq!(count(&written, b"BF.LOAD\r\n"), loads);
    for command in ["BF.RESERVE", "BF.MADD", "BF.INSERT"] {
        assert_eq!(count(&written, command.as_bytes()), 0, "{command}");
    }
    server.kill9();
    server.revive();
    assert!(filters::snapshot(&mut server.client()) == before);

    for server in [&twin, &server] {
        filters::fill(&mut server.client(), "chain", 4000, 9000);
        filters::fill(&mut server.client(), "classic", 3000, 9000);
        filters::fill(&mut server.client(), "valkey", 2000, 9000);
    }
    let grown = filters::snapshot(&mut twin.client());
    assert!(filters::snapshot(&mut server.client()) == grown);
    server.kill9();
    server.revive();
    assert!(filters::snapshot(&mut server.client()) == grown);
}

/// Compacting the append-only file would lose or alter filters, where it is to be readable commands.
#[test]
fn filters_are_rewritten_as_commands() {
    let server = Server::start();
    let mut client = server.client();
    filters::make(&mut client);
    let chunks = filters::keys()
        .filter(|key| !filters::VALKEY.contains(key))
        .map(|key| scandump(&mut client, key))
        .collect::<Vec<_>>()
        .concat();
    let written = chunks
        .iter()
        .filter(|(_, bytes)| bytes.iter().any(|&byte| byte > 0))
        .count();
    assert!(written < chunks.len(), "no chunk is all zero");
    // Filters in valkey-bloom's layout are written in the form that valkey-bloom reads.
    survives_a_rewrite(as_commands(), written, filters::VALKEY.len());
}

/// Compacting the append-only file would lose or alter filters, in the form that servers use by themselves.
#[test]
fn filters_are_rewritten_in_a_preamble() {
    survives_a_rewrite(
        Server::with().append_only().config("aof-use-rdb-preamble", "yes"),
        0,
        0,
    );
}

/// A filter whose name has a NUL, a line end or no byte at all would be lost, or damage the file.
#[test]
fn keys_are_any_bytes() {
    let mut server = as_commands().start();
    let mut client = server.client();
    let keys: [&[u8]; 6] = [b"", b"\0", b"a b", b"a\r\nb", b"\xff\xfe", b"$3\r\n"];
    for key in keys {
        assert_eq!(client.call(&[b"BF.ADD", key, key]), 1.into());
    }
    rewrite(&mut client);
    server.kill9();
    server.revive();
    let mut client = server.client();
    for key in keys {
        assert_eq!(client.call(&[b"BF.EXISTS", key, key]), 1.into());
        assert_eq!(client.call(&[b"BF.CARD", key]), 1.into());
    }
    client.answers(&[("DBSIZE", 6.into())]);
}

/// Items that are added while the file is rewritten would be gone after a crash.
#[test]
fn adds_during_a_rewrite_are_kept() {
    let mut server = as_commands().start();
    let mut client = server.client();
    filters::make(&mut client);
    client.run("BGREWRITEAOF");
    filters::fill(&mut client, "chain", 4000, 6000);
    filters::fill(&mut client, "classic", 3000, 5000);
    client.run("BF.MADD new a b c");
    let before = (filters::snapshot(&mut client), client.dump("new"));
    until("the rewrite ends", || {
        client.stat("persistence", "aof_rewrite_in_progress") == "0"
            && client.stat("persistence", "aof_rewrite_scheduled") == "0"
    });
    server.kill9();
    server.revive();
    let mut client = server.client();
    assert!((filters::snapshot(&mut client), client.dump("new")) == before);
}

/// A filter for years to come would write gigabytes of zeros with every rewrite, and read them at every start.
#[test]
#[serial(memory)]
fn a_fresh_huge_filter_is_rewritten_to_almost_nothing() {
    for layout in ["BLOCKED", "CLASSIC"] {
        let mut server = as_commands().start();
        let mut client = server.client();
        client.answers(&[(&format!("BF.RESERVE key 0.01 1000000000 LAYOUT {layout}"), ok())]);
        let info = client.run("BF.INFO key FULL");
        assert!(info.field("Size").int() > 1_000_000_000, "{info:?}");
        rewrite(&mut client);
        let bytes: usize = files(&server).iter().map(Vec::len).sum();
        assert!(bytes < 10_000, "{layout}: {bytes} bytes");
        server.kill9();
        server.revive();
        let mut client = server.client();
        assert_eq!(client.run("BF.INFO key FULL"), info, "{layout}");
        client.answers(&[("BF.EXISTS key item", 0.into()), ("BF.ADD key item", 1.into())]);
        let resident = server.resident();
        assert!(
            resident < 50_000_000,
            "{layout}: {resident} bytes are resident after the load"
        );

        // One item costs the chunks that it has bits in, and no more.
        rewrite(&mut client);
        let chunks = count(&files(&server), b"BF.LOADCHUNK");
        assert!((2..10).contains(&chunks), "{layout}: {chunks} commands");
        server.kill9();
        server.revive();
        server
            .client()
            .answers(&[("BF.EXISTS key item", 1.into()), ("BF.CARD key", 1.into())]);
    }
}

/// A copied filter would be gone after a crash, or be half of itself.
#[test]
fn loaded_chunks_are_in_the_file() {
    let source = Server::start();
    let mut source = source.client();
    filters::make(&mut source);
    let mut server = as_commands().start();
    let mut client = server.client();
    for key in filters::keys() {
        let chunks = scandump(&mut source, key);
        load(&mut client, key, &chunks);
        load(
            &mut client,
            &format!("half:{key}"),
            &chunks[..1 + chunks.len() / 2],
        );
    }
    let halves = |client: &mut Client| {
        filters::keys()
            .map(|key| client.dump(&format!("half:{key}")))
            .collect::<Vec<_>>()
    };
    let before = (filters::snapshot(&mut client), halves(&mut client));
    assert!(before.0 == filters::snapshot(&mut source));
    for _ in 0..2 {
        server.kill9();
        // A limit that was lowered meanwhile is for clients only.
        let lowered = as_commands()
            .module_args("bf-max-filter-bytes 300 bf-layout classic")
            .dir(server.dir());
        let lowered = lowered.start();
        let mut client = lowered.client();
        assert!((filters::snapshot(&mut client), halves(&mut client)) == before);
        rewrite(&mut client);
    }
}

/// Who changes from RedisBloom by its append-only file would lose filters.
#[test]
fn files_of_redisbloom_s_commands_are_read() {
    let dir = TempDir::new().unwrap();
    let mut file = Vec::new();
    for stored in STORED.iter() {
        for (iterator, bytes) in &stored.chunks {
            let iterator = iterator.to_string();
            file.extend(wire(&[
                b"BF.LOADCHUNK",
                stored.key.as_bytes(),
                iterator.as_bytes(),
                bytes,
            ]));
        }
    }
    fs::write(dir.path().join("appendonly.aof"), file).unwrap();
    let mut server = Server::with().append_only().dir(dir.path()).start();
    for start in ["on the file", "after a rewrite"] {
        let mut client = server.client();
        for stored in STORED.iter().filter(|stored| !stored.chunks.is_empty()) {
            assert!(
                scandump(&mut client, &stored.key) == stored.chunks,
                "{} {start}",
                stored.key
            );
            let found = present(&mut client, &stored.key, &stored.items).len();
            assert_eq!(found, stored.items.len(), "{} {start}", stored.key);
        }
        assert_eq!(present(&mut client, "rb:empty", &numbered("", 0, 100)), [0; 0]);
        rewrite(&mut client);
        server.kill9();
        server.revive();
    }
}

/// A filter that only one release of RedisBloom makes so would have other bits than it had there: whoever changes over
/// would miss items.
#[test]
fn rates_above_a_quarter_are_read_as_by_the_redisbloom_that_this_server_can_have() {
    let dir = TempDir::new().unwrap();
    let made = wire(&["BF.RESERVE", "half", "0.5", "100"]);
    fs::write(dir.path().join("appendonly.aof"), made).unwrap();
    let server = Server::with().append_only().dir(dir.path()).start();
    // RedisBloom 8 loads in no earlier server.
    let version = Server::version();
    let is_of_8 = version.major >= if version.valkey { 9 } else { 8 };
    let layer = if is_of_8 {
        "bytes:56 bits:448 hashes:4 hashwidth:64 capacity:100 size:0 ratio:0.125"
    } else {
        "bytes:40 bits:320 hashes:3 hashwidth:64 capacity:100 size:0 ratio:0.25"
    };
    let lines = server.client().run("BF.DEBUG half");
    assert_eq!(lines.elements()[1].clone().text(), layer);
}
