//! Limits of memory: each of them holds, whatever the others are, and for every way to a filter.

use serial_test::serial;

use crate::chunks::scandump;
use crate::client::{Client, Reply, error, ok};
use crate::server::Server;

const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";
const NO_CREATION: &str = "ERR Insufficient memory to create filter";

fn number(client: &mut Client, name: &str) -> u64 {
    client.stat("memory", name).parse().unwrap()
}

/// Lets the server have `bytes` more than it has.
fn leave(client: &mut Client, bytes: u64) {
    let limit = number(client, "used_memory") + bytes;
    client.answers(&[(&format!("CONFIG SET maxmemory {limit}"), ok())]);
}

/// An owner who sets a limit for filters would lift the one for the server.
#[test]
fn the_lower_limit_counts() {
    let server = Server::with()
        .module_args("bf-max-filter-bytes 20mb")
        .config("maxmemory", "100mb")
        .start();
    let mut client = server.client();
    // 20 MB is enough for some 15 million items at 0.01.
    client.refuses("key", &[("BF.RESERVE key 0.01 20000000", NO_CREATION)]);
    client.answers(&[("BF.RESERVE key 0.01 10000000", ok())]);
    leave(&mut client, 5_000_000);
    client.refuses("other", &[("BF.RESERVE other 0.01 10000000", NO_CREATION)]);
    client.answers(&[("BF.RESERVE other 0.01 2000000", ok())]);
}

/// A filter would grow until the server that it is in has nothing left for anybody else.
#[test]
fn growth_keeps_to_what_is_left_of_maxmemory() {
    let server = Server::start();
    let mut client = server.client();
    let capacity = 500_000;
    client.answers(&[(&format!("BF.RESERVE key 0.01 {capacity}"), ok())]);
    let items: Vec<_> = (0..2 * capacity).map(|item| item.to_string()).collect();
    leave(&mut client, 1_200_000);
    let mut answers = Vec::new();
    for batch in items.chunks(1000) {
        answers.extend_from_slice(client.over("BF.MADD key", batch).elements());
        if matches!(answers.last(), Some(Reply::Error(_))) {
            break;
        }
    }
    let (refusal, answers) = answers.split_last().unwrap();
    assert_eq!(refusal, &error(NO_GROWTH));
    let new: i64 = answers.iter().map(Reply::int).sum();
    client.answers(&[("BF.CARD key", new.into())]);
    assert_eq!(new, i64::from(capacity));
    let found = client.over("BF.MEXISTS key", &items[..answers.len()]);
    assert!(found.elements().iter().all(|found| *found == 1.into()));
    client.answers(&[("CONFIG SET maxmemory 0", ok())]);
    let next = items[answers.len()..]
        .iter()
        .map(|item| client.call(&["BF.ADD", "key", item]));
    assert!(next.take(10).any(|reply| reply == 1.into()));
    assert_eq!(client.info("key", "Number of filters"), 2);
}

/// Two filters that each fit would together take what the machine does not have, and the kernel would end the
/// server when they fill.
#[test]
#[serial(memory)]
fn all_filters_together_keep_to_the_machine() {
    let server = Server::start();
    let mut client = server.client();
    // At 0.01 an item takes 1.3 bytes.
    let items = number(&mut client, "total_system_memory") / 100 * 45;
    client.answers(&[(&format!("BF.RESERVE one 0.01 {items}"), ok())]);
    let line = format!("BF.RESERVE other 0.01 {items}");
    client.refuses("other", &[(&line, NO_CREATION)]);
    client.answers(&[("UNLINK one", 1.into()), ("BF.ADD other item", 1.into())]);
}

/// COPY would double what a full server holds.
#[test]
fn copies_have_limits_too() {
    let primary = Server::start();
    let replica = Server::with()
        .module_args("bf-max-filter-bytes 1000")
        .replica_of(&primary)
        .start();
    let mut client = primary.client();
    client.answers(&[("BF.RESERVE key 0.01 5000000", ok())]);
    leave(&mut client, 3_000_000);
    client.refuses("copy", &[("COPY key copy", "ERR module key failed to copy")]);
    client.answers(&[("CONFIG SET maxmemory 0", ok()), ("COPY key copy", 1.into())]);
    crate::replication::in_step(&primary, &replica);
    assert_eq!(
        replica.client().dump("copy"),
        client.dump("key"),
        "a replica obeys"
    );
}

/// A client would get past the limits by a script, whose commands the server tells apart from a client's.
#[test]
fn scripts_have_the_limits_of_their_client() {
    let server = Server::with().module_args("bf-max-filter-bytes 1000").start();
    let mut client = server.client();
    let mut script =
        |words: &str| client.call(&["EVAL", &format!("return redis.pcall({words})"), "1", "key"]);
    for words in [
        "'BF.RESERVE',KEYS[1],'0.01','10000'",
        "'BF.INSERT',KEYS[1],'CAPACITY','10000','ITEMS','a'",
    ] {
        assert_eq!(script(words), error(NO_CREATION), "{words}");
    }
    assert_eq!(script("'BF.RESERVE',KEYS[1],'0.01','100'"), ok());
    let grown = "(function() for item = 1, 10000 do local new = redis.pcall('BF.ADD', KEYS[1], item); \
                 if type(new) == 'table' then return new end end end)()";
    let reply = client.call(&["EVAL", &format!("return {grown}"), "1", "key"]);
    assert_eq!(reply, error(NO_GROWTH));
}

/// Who may store a filter would get past the limits: one that names a larger capacity than it has bits for would be as
/// large as that when it is emptied, also in a server that has no memory left.
#[test]
fn what_is_emptied_has_limits_too() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 0.01 1000 SEED 1", ok())]);
    let (_, mut header) = scandump(&mut client, "key").swap_remove(0);
    // The upper half of the layer's capacity.
    header[44] = 1;
    assert_eq!(
        client.call(&[&b"BF.LOADCHUNK"[..], b"stored", b"1", &header]),
        ok()
    );
    assert_eq!(client.info("stored", "Capacity"), (1 << 32) + 1000);
    let size = client.info("stored", "Size");
    leave(&mut client, 3 << 20);
    client.refuses("stored", &[("BF.RESET stored", NO_CREATION)]);
    client.answers(&[("CONFIG SET maxmemory 0", ok())]);
    assert_eq!(client.info("stored", "Size"), size);
    assert!(server.log().contains("key 'stored': a Bloom filter of "));
}
