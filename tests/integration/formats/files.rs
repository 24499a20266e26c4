//! What a server writes to its disk: the append-only file, rewritten as commands or with an RDB preamble, and the RDB
//! file. That filters come back from them as they were is tested in `states`.

use std::fs;

use serial_test::serial;
use tempfile::TempDir;

use crate::client::{array, ok, wire};
use crate::filters;
use crate::server::{Server, until};
use crate::support::aof::{as_commands, is_idle, paths, rewrite};
use crate::support::chunks::scandump;

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

/// A rewritten file would keep all that clients ever sent, and grow for ever; or hold what valkey-bloom does not know,
/// where it is to be readable.
#[test]
fn a_rewritten_file_has_the_pieces_that_are_not_empty() {
    for preamble in ["yes", "no"] {
        let server = as_commands().config("aof-use-rdb-preamble", preamble).start();
        let mut client = server.client();
        filters::make(&mut client);
        let mut chunks = Vec::new();
        for key in filters::keys().filter(|key| !filters::VALKEY.contains(key)) {
            chunks.extend(scandump(&mut client, key));
        }
        let has_bits = |(_, bytes): &&(i64, Vec<u8>)| bytes.iter().any(|&byte| byte > 0);
        let written = chunks.iter().filter(has_bits).count();
        assert!(written < chunks.len(), "no chunk is all zero");
        rewrite(&mut client);
        let files = files(&server);
        let is_readable = usize::from(preamble == "no");
        for (command, times) in [
            ("BF.LOADCHUNK", is_readable * written),
            ("BF.LOAD\r\n", is_readable * filters::VALKEY.len()),
            ("BF.RESERVE", 0),
            ("BF.MADD", 0),
            ("BF.INSERT", 0),
        ] {
            assert_eq!(
                count(&files, command.as_bytes()),
                times,
                "{command}, preamble {preamble}"
            );
        }
    }
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
    until("the rewrite ends", || is_idle(&mut client));
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

/// A filter made for the years to come would fill the disk with zeros, and take minutes to save and load.
#[test]
#[serial(memory)]
fn a_fresh_huge_filter_is_a_small_rdb_file() {
    let mut server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE key 0.01 1000000000", ok()),
        ("BF.ADD key item", 1.into()),
        ("SAVE", ok()),
    ]);
    let info = client.run("BF.INFO key FULL");
    let stored = fs::metadata(server.dir().join("dump.rdb")).unwrap().len();
    assert!(stored < 100_000, "{stored} bytes in the file");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.run("BF.INFO key FULL"), info);
    client.answers(&[("BF.MADD key item other", array([0, 1]))]);
    let resident = server.resident();
    assert!(
        resident < 50_000_000,
        "{resident} bytes are resident after the load"
    );
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
