//! What was not stored by the module is refused. That what is stored comes back is tested in `moves`.

use std::fs;

use serial_test::serial;

use crate::client::{Client, array, error, ok};
use crate::filters;
use crate::server::Server;
use crate::support::payload::{BAD_FORMAT, sealed};

/// A filter made for the years to come would fill the disk with zeros, and take minutes to save and load.
#[test]
#[serial(memory)]
fn a_fresh_huge_filter_is_a_small_file() {
    let mut server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE key 0.01 1000000000", ok()),
        ("BF.ADD key item", 1.into()),
        ("SAVE", ok()),
    ]);
    let info = client.run("BF.INFO key FULL");
    let payload = client.dump("key");
    let stored = fs::metadata(server.dir().join("dump.rdb")).unwrap().len();
    assert!(stored < 100_000, "{stored} bytes in the file");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.run("BF.INFO key FULL"), info);
    assert_eq!(client.dump("key"), payload);
    client.answers(&[("BF.MADD key item other", array([0, 1]))]);
    assert!(
        server.resident() < 50_000_000,
        "{} bytes are resident after the load",
        server.resident()
    );
}

/// A damaged or forged payload would crash the server, or leave a filter that crashes it later.
#[test]
fn payloads_that_the_module_did_not_make() {
    let server = Server::start();
    let mut client = server.client();
    client.run("BF.RESERVE small 0.01 4 EXPANSION 1 SEED 1");
    filters::fill(&mut client, "small", 0, 10);
    client.run("BF.RESERVE fixed 0.2 20 NONSCALING");
    client.run("BF.RESERVE old 0.1 4 EXPANSION 1 LAYOUT CLASSIC");
    filters::fill(&mut client, "old", 0, 10);
    filters::make(&mut client);
    let intact = filters::snapshot(&mut client);
    for key in ["small", "fixed", "old"] {
        let payload = client.dump(key);
        let (body, footer) = payload.bytes().split_at(payload.bytes().len() - 10);
        let mut try_body = |body: &[u8]| restore_forged(&mut client, body, &footer[..2]);
        assert!(try_body(body), "the forger is no good");
        for length in 0..body.len() {
            assert!(
                !try_body(&body[..length]),
                "{key} is taken after {length} of {} bytes",
                body.len()
            );
        }
        // Byte 0 tells the server the kind of value: the others are not the module's.
        for at in 1..body.len() {
            for byte in [0, 1, 0x7f, 0x80, 0x81, 0xff] {
                try_body(&[&body[..at], &[byte], &body[at + 1..]].concat());
                try_body(&[&body[..at], &[byte], &body[at..]].concat());
            }
            try_body(&[&body[..at], &body[at + 1..]].concat());
        }
    }
    assert_eq!(filters::snapshot(&mut client), intact);
    assert!(server.is_alive());
}

/// Restores a body under a right checksum. When it is taken, the filter must be sound.
fn restore_forged(client: &mut Client, body: &[u8], version: &[u8]) -> bool {
    let payload = sealed(body, version);
    let reply = client.call(&[&b"RESTORE"[..], b"forged", b"0", &payload, b"REPLACE"]);
    let taken = reply == ok();
    if taken {
        let stored = client.dump("forged");
        let again = client.call(&[&b"RESTORE"[..], b"again", b"0", stored.bytes(), b"REPLACE"]);
        assert_eq!(
            again,
            ok(),
            "a filter that was taken cannot be moved: {:?}",
            body.escape_ascii()
        );
        assert_eq!(client.dump("again"), stored);
        assert!(client.run("BF.INFO forged FULL").fields().len() > 5);
        let items: Vec<_> = (0..20).map(|i| i.to_string()).collect();
        let added = client.over("BF.MADD forged", &items).elements().len();
        let found = client.over("BF.MEXISTS forged", &items);
        let lost = found
            .elements()
            .iter()
            .take(added - 1)
            .filter(|&found| *found == 0.into())
            .count();
        assert_eq!(
            lost,
            0,
            "a filter that was taken loses items: {:?}",
            body.escape_ascii()
        );
    } else {
        assert_eq!(reply, error(BAD_FORMAT), "{:?}", body.escape_ascii());
    }
    assert_eq!(client.run("DEL forged again"), if taken { 2 } else { 0 }.into());
    taken
}
