//! BF.ADDPACKED and BF.EXISTSPACKED: many items in one argument, and their answers in one bitmap.

use std::time::Duration;

use serial_test::serial;

use crate::client::bulk;
use crate::client::{Client, Reply, end, error, ok, wire};
use crate::filters;
use crate::server::{Server, sample, until};
use crate::support::packed::{Form, bitmap};

const FULL: &str = "ERR non scaling filter is full";

/// A program that keeps the answer in a key, and asks the server for its bits, would read them in another order.
#[test]
fn the_server_s_own_commands_read_the_bitmap() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.RESERVE key 1e-9 1000 SEED 1", ok())]);
    let items: Vec<_> = (0..203).map(|item| item.to_string()).collect();
    let known: Vec<_> = (0..203).map(|item| item % 3 == 0 || item % 7 == 2).collect();
    for (item, _) in items.iter().zip(&known).filter(|(_, known)| **known) {
        assert_eq!(client.call(&["BF.ADD", "key", item]), 1.into());
    }
    let data = Form::Lines.pack(&items);
    let found = client.over("BF.EXISTSPACKED key LINES", &[&data]);
    let new = client.over("BF.ADDPACKED key LINES", &[&data]);
    for (key, reply, answers) in [
        ("found", found, known.clone()),
        ("new", new, known.iter().map(|known| !known).collect()),
    ] {
        assert_eq!(reply.bytes().len(), 26, "a bit for each item");
        assert_eq!(client.call(&[b"SET", key.as_bytes(), reply.bytes()]), ok());
        let bits = client.pipeline((0..203).map(|at| format!("GETBIT {key} {at}")));
        let bits: Vec<_> = bits.iter().map(|bit| bit.int() == 1).collect();
        assert_eq!(bits, answers, "{key}");
        // Spare bits would be counted with the answers.
        let ones = answers.iter().filter(|answer| **answer).count() as i64;
        client.answers(&[
            (&format!("BITCOUNT {key}"), ones.into()),
            (&format!("STRLEN {key}"), 26.into()),
        ]);
    }
}

/// Who fills a filter that may not grow would not learn how many items are in it, and add them again elsewhere, or
/// leave some out.
#[test]
fn a_full_filter_tells_how_many_items_it_took() {
    let server = Server::start();
    let mut client = server.client();
    let full = |items: usize| error(&format!("{FULL} after {items} items"));
    let add = "BF.ADDPACKED key CAPACITY 2 ERROR 0.0001 NONSCALING SEED 1 WIDTH 1 abacd";
    client.answers(&[
        (add, full(3)),
        ("BF.EXISTSPACKED key WIDTH 1 abcd", bulk([0b1100_0000])),
        ("BF.CARD key", 2.into()),
    ]);
    client.refuses(
        "key",
        &[
            (add, &format!("{FULL} after 3 items")),
            ("BF.ADDPACKED key LINES c", &format!("{FULL} after 0 items")),
            (
                "BF.ADDPACKED key COUNT LINES a\nc",
                &format!("{FULL} after 1 items"),
            ),
        ],
    );
    client.answers(&[
        ("BF.ADDPACKED key LINES b\na", bulk([0])),
        ("BF.ADDPACKED key LINES COUNT ''", 0.into()),
    ]);
    // The last item that fits is at any place of a block.
    for capacity in [1, 63, 64, 65, 127, 128, 129, 200] {
        let items: Vec<_> = (0..300).map(|item| item.to_string()).collect();
        client.answers(&[
            ("DEL key", 1.into()),
            (
                &format!("BF.RESERVE key 1e-12 {capacity} NONSCALING SEED 1"),
                ok(),
            ),
        ]);
        let reply = client.over("BF.ADDPACKED key LINES", &[Form::Lines.pack(&items)]);
        assert_eq!(reply, full(capacity));
        let found = client.over("BF.EXISTSPACKED key LINES", &[Form::Lines.pack(&items)]);
        assert_eq!(found, bitmap((0..300).map(|item| item < capacity)));
        client.answers(&[("BF.CARD key", (capacity as i64).into())]);
    }
}

/// The most items that an argument can hold are its bytes: a server would be taken down with little effort, or keep
/// what it took for the answer.
#[test]
#[serial(memory)]
fn nothing_but_line_feeds_is_a_lot_of_items() {
    // An argument has 512 MB at most, which a long run fills.
    let megabytes = match sample(1) {
        _ if Server::has_overhead() => 4,
        1 => 8,
        _ => 512,
    };
    let items = megabytes << 20;
    let server = Server::start();
    let mut client = server.client();
    // So many answers take their time.
    let hour = Duration::from_secs(3600);
    client.line().set_read_timeout(Some(hour)).unwrap();
    client.answers(&[
        ("BF.RESERVE key 1e-9 100 SEED 1", ok()),
        ("BF.ADDPACKED key LINES a", bulk([0b1000_0000])),
        ("BF.EXISTSPACKED key LINES a", bulk([0b1000_0000])),
    ]);
    let before = client.used_memory();
    // The replies are too long to be shown.
    let ask = |client: &mut Client, head: &str, data: &[u8], expected: Reply| {
        assert!(client.over(head, &[data]) == expected, "{head}");
    };
    let lines = vec![b'\n'; items];
    let answers = |byte: u8| Reply::Bulk(vec![byte; items / 8]);
    ask(&mut client, "BF.EXISTSPACKED missing LINES", &lines, answers(0));
    let mut first = vec![0; items / 8];
    first[0] = 0b1000_0000;
    ask(&mut client, "BF.ADDPACKED key LINES", &lines, Reply::Bulk(first));
    client.answers(&[("BF.CARD key", 2.into()), ("EXISTS missing", 0.into())]);
    ask(&mut client, "BF.EXISTSPACKED key LINES", &lines, answers(0xff));
    drop(lines);
    // Lengths of as many empty items as there can be of that form.
    let zeros = vec![0; items];
    let quarter = (items / 4) as i64;
    ask(
        &mut client,
        "BF.EXISTSPACKED key PREFIXED COUNT",
        &zeros,
        quarter.into(),
    );
    // One item of all these bytes.
    let line = format!("BF.ADDPACKED key WIDTH {items}");
    ask(&mut client, &line, &zeros, bulk([0b1000_0000]));
    ask(
        &mut client,
        "BF.EXISTSPACKED key LINES",
        &zeros,
        bulk([0b1000_0000]),
    );
    let cut = format!("ERR {items} bytes of data are no multiple of WIDTH 4294967295");
    ask(
        &mut client,
        "BF.ADDPACKED key WIDTH 4294967295",
        &zeros,
        error(&cut),
    );
    drop(zeros);
    let lies = vec![0xff; items];
    let at_0 = error("ERR there is no whole item at byte 0 of the data");
    ask(&mut client, "BF.ADDPACKED key PREFIXED", &lies, at_0.clone());
    ask(&mut client, "BF.EXISTSPACKED key PREFIXED", &lies, at_0);
    drop(lies);
    client.answers(&[("BF.CARD key", 3.into())]);
    until("the memory comes back", || {
        client.used_memory() < before + (1 << 20)
    });
    assert!(server.is_alive());
}

/// Part of a batch would be in a filter that nobody can take it out of, or the memory for the rest would be
/// lost, when a program or its network fails.
#[test]
fn a_client_that_goes_halfway_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    filters::fill(&mut client, "key", 0, 50);
    let state =
        |client: &mut Client| ["DEBUG DIGEST", "BF.INFO key FULL", "INFO bf"].map(|line| client.run(line));
    let before = state(&mut client);
    let memory = client.used_memory();
    let data: Vec<_> = (0..1_000_000_u64).flat_map(u64::to_le_bytes).collect();
    let add = wire(&[b"BF.ADDPACKED", &b"key"[..], b"WIDTH", b"8", &data]);
    let make = wire(&[b"BF.ADDPACKED", &b"new"[..], b"LINES", &data]);
    let multi = [wire(&["MULTI"]), add.clone()].concat();
    let items: Vec<&[u8]> = data.chunks(8).collect();
    let many = wire(&[&[&b"BF.MADD"[..], b"key"], &items[..]].concat());
    let most = add.len();
    for (bytes, sent) in [
        (&add, 20),
        (&add, 60),
        (&add, 65_536),
        (&add, most / 2),
        (&add, most - 2),
        (&add, most - 1),
        (&make, make.len() - 1),
        (&many, 30),
        (&many, many.len() / 2),
        (&many, many.len() - 1),
        (&multi, multi.len()),
        (&multi, multi.len() - 1),
    ] {
        let mut dying = server.client();
        dying.send_bytes(&bytes[..sent]).unwrap();
        if sent == bytes.len() {
            // The command waits for its EXEC.
            assert_eq!(dying.receive().unwrap(), ok());
            assert_eq!(dying.receive().unwrap(), Reply::Simple("QUEUED".into()));
        }
        end(&dying.line());
    }
    until("the clients are gone", || {
        client.stat("clients", "connected_clients") == "1"
    });
    assert_eq!(state(&mut client), before);
    client.answers(&[("EXISTS new", 0.into())]);
    until("the memory comes back", || {
        client.used_memory() < memory + (1 << 20)
    });
    // Sends all of the bytes.
    let mut alive = server.client();
    alive.send_bytes(&add).unwrap();
    assert_eq!(alive.receive().unwrap().bytes().len(), 125_000);
    let found = client.over("BF.EXISTSPACKED key WIDTH 8 COUNT", &[&data]);
    assert_eq!(found, 1_000_000.into());
}

/// Who reads a filter's answers from a pipeline, or while it is given other commands, would take one reply for
/// another.
#[test]
fn packed_commands_stand_among_others() {
    let server = Server::start();
    let mut client = server.client();
    let queued = || Reply::Simple("QUEUED".into());
    let replies = client.pipeline(
        [
            "BF.ADDPACKED key LINES a\nb",
            "BF.ADD key c",
            "BF.EXISTSPACKED key WIDTH 1 abcx",
            "BF.EXISTSPACKED key WIDTH 2 abc",
            "BF.ADDPACKED key COUNT PREFIXED ''",
            "BF.CARD key",
        ]
        .map(str::to_owned),
    );
    let odd = error("ERR 3 bytes of data are no multiple of WIDTH 2");
    assert_eq!(
        replies,
        [
            bulk([0b1100_0000]),
            1.into(),
            bulk([0b1110_0000]),
            odd.clone(),
            0.into(),
            3.into()
        ]
    );
    client.answers(&[
        ("MULTI", ok()),
        ("BF.ADDPACKED key LINES c\nd", queued()),
        ("BF.ADDPACKED key WIDTH 2 abc", queued()),
        ("BF.EXISTSPACKED key LINES COUNT d\ne", queued()),
        ("EXEC", Reply::Array(vec![bulk([0b0100_0000]), odd, 1.into()])),
    ]);
}
