//! The flaws that were published of other modules for Bloom filters, and of their like, and that only a server shows.
//! `docs/hardening.md` lists all of them, with their sources and tests. Each test has the name of an advisory.

use crate::client::{Client, Reply, array, error, ok};
use crate::filters;
use crate::server::{Server, until};
use crate::support::aof::is_idle;
use crate::support::chunks::{BAD_DATA, scandump};

/// A client that goes away after the first chunk would leave something that a background save fails on, and with it every
/// later one; or something that the server saves and cannot load: after its next start every key is gone.
#[test]
fn dragonfly_8104_and_8113_and_redisbloom_672_a_header_alone_is_saved_and_copied() {
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
    client.run("BGSAVE");
    until("the save ends", || is_idle(&mut client));
    assert_eq!(client.stat("persistence", "rdb_last_bgsave_status"), "ok");
    server.kill9();
    server.revive();
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

/// A client that passes on what others typed would read replies that one of these wrote: an error that has the end of a
/// line in it is two replies.
#[test]
fn cve_2025_67733_errors_are_one_reply() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.ADD there item", 1.into())]);
    let before = client.dump("there");
    for word in [&b"\r\n+OK\r\n:1"[..], b"a\0\r\n$3\r\nfoo", b"\n", b"\r", b"\0"] {
        let commands: [&[&[u8]]; 5] = [
            &[b"BF.RESERVE", b"key", b"0.01", b"100", word],
            &[b"BF.RESERVE", b"key", word, b"100"],
            &[b"BF.INSERT", b"key", word],
            &[b"BF.LOADCHUNK", b"key", word, b"data"],
            &[b"BF.INFO", b"there", word],
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
                    let reply = client.call(command);
                    let Reply::Error(text) = reply else {
                        panic!("{reply:?} to {:?}", word.escape_ascii());
                    };
                    assert!(
                        !text.contains(['\r', '\n', '\0']),
                        "{:?} to {:?}",
                        text,
                        word.escape_ascii()
                    );
                    client.answers(&[("PING", Reply::Simple("PONG".into()))]);
                }
            }
        }
    }
    assert_eq!(client.dump("there"), before);
    client.answers(&[("EXISTS key", 0.into())]);
}
