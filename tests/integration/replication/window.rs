//! Filters with a window on replicas, in files, and after a failover: the same bits, whatever was written
//! how, and whatever the clocks say.

use std::fs;

use crate::client::clock;
use crate::client::{Client, array, ok};
use crate::filters::{contents, same};
use crate::server::{Server, until};
use crate::support::aof::{paths, propagated};
use crate::support::link::{UNUSUAL, in_step};
use crate::support::windows::{SLICE, WINDOW, slices};

fn follow(replica: &Server, primary: &Server) {
    let line = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    replica.client().answers(&[(&line, ok())]);
}

// ---- One command ---------------------------------------------------------------------------------

/// A stream that repeats itself would fill the disk and the replicas' links; a replica with other settings or
/// another clock would make other slices; a transaction that is cut off at a file's end would cost what was
/// written later.
#[test]
fn one_command_says_what_changed_and_when() {
    let server = Server::with().module_args(UNUSUAL).append_only().start();
    let mut client = server.client();
    let begin = clock(&mut client) - 500_000;
    // `@5` is 5 ms after the beginning; `...` is the time of the server, or for an expiry a thousand seconds later.
    let table = [
        // Creations, with everything resolved.
        (
            "BF.RESERVE key 0.1 90 WINDOW 1000",
            "BF.INSERT key SPEC1:w:1e-1:90:3:77:0:1000:8:0",
        ),
        (
            "BF.RESERVE live 0.1 90 REFRESH SLICES 3 WINDOW 5 SEED 4 EXPANSION 2 EX 1000",
            "BF.INSERT live SPEC1:w:1e-1:90:2:4:...:5:3:1",
        ),
        ("BF.RESERVE key 0.1 90 WINDOW 1000 NX", ""),
        (
            "BF.INSERT made WINDOW 1000 ITEMS a b a",
            "BF.INSERT made {sized}:0:1000:8:0:... a b",
        ),
        (
            "BF.INSERT timed WINDOW 1000 PX 1000000 AT @0 ITEMS a",
            "BF.INSERT timed {sized}:...:1000:8:0:@0 a",
        ),
        (
            "BF.ADDPACKED packed WINDOW 5000 SLICES 4 ERROR 0.5 COUNT WIDTH 1 aba",
            "BF.ADDPACKED packed SPEC1:w:2.5e-1:50:3:77:0:5000:4:0:... WIDTH 1 ab",
        ),
        (
            "BF.ADDPACKED stamped WINDOW 1000 EXAT 4000000000 AT @0 LINES x\ny",
            "BF.ADDPACKED stamped {sized}:4000000000000:1000:8:0:@0 LINES x\ny",
        ),
        ("BF.INSERT none NOCREATE WINDOW 5 ITEMS a", ""),
        ("BF.ADDPACKED none WINDOW 5 LINES ''", ""),
        // Additions: what changed something, and the time of it.
        (
            "BF.INSERT key AT @0 ITEMS a b",
            "BF.INSERT key NOCREATE AT @0 ITEMS a b",
        ),
        (
            "BF.INSERT key CAPACITY 9 WINDOW 9 AT @5 ITEMS a c b c",
            "BF.INSERT key NOCREATE AT @5 ITEMS c",
        ),
        // Time does not go back before a slice's first item.
        (
            "BF.INSERT key AT @-50 ITEMS d",
            "BF.INSERT key NOCREATE AT @0 ITEMS d",
        ),
        ("BF.INSERT key AT @70 ITEMS a b c d", ""),
        (
            "BF.ADDPACKED key AT @80 LINES a\ne\nb\nf",
            "BF.ADDPACKED key NOCREATE AT @80 LINES e\nf",
        ),
        (
            "BF.ADDPACKED key PREFIXED COUNT AT @80 \u{1}\0\0\0g",
            "BF.ADDPACKED key NOCREATE AT @80 PREFIXED \u{1}\0\0\0g",
        ),
        ("BF.ADDPACKED key AT @90 WIDTH 1 abc", ""),
        ("BF.ADD key a", ""),
        ("BF.MADD key a b", ""),
        ("BF.ADD key h", "BF.INSERT key NOCREATE AT ... ITEMS h"),
        ("BF.MADD key a i b j i", "BF.INSERT key NOCREATE AT ... ITEMS i j"),
        (
            "BF.ADDPACKED key WIDTH 1 klm",
            "BF.ADDPACKED key NOCREATE AT ... WIDTH 1 klm",
        ),
        // Items that live on change something, although they are not new.
        (
            "BF.INSERT live AT @0 ITEMS a b",
            "BF.INSERT live NOCREATE AT @0 ITEMS a b",
        ),
        ("BF.INSERT live AT @0 ITEMS b a", ""),
        (
            "BF.INSERT live AT @2000 ITEMS a x a",
            "BF.INSERT live NOCREATE AT @2000 ITEMS a x",
        ),
        (
            "BF.ADDPACKED live COUNT AT @2000 LINES b\na",
            "BF.ADDPACKED live NOCREATE AT @2000 LINES b\n",
        ),
    ];
    let at = |word: &str| match word.strip_prefix('@') {
        Some(more) => (begin + more.parse::<i64>().unwrap()).to_string(),
        None => word.to_owned(),
    };
    let whole = |text: &str| {
        let text = text.replace("{sized}", "SPEC1:w:1.23456789e-2:50:3:77");
        text.split([' ', ':']).map(at).collect::<Vec<_>>()
    };
    let mut sent = 0;
    for (line, expected) in table {
        let dirty = client.stat("persistence", "rdb_changes_since_last_save");
        let from = clock(&mut client);
        client.run(&whole(line).join(" "));
        let to = clock(&mut client);
        let is_dirty = client.stat("persistence", "rdb_changes_since_last_save") != dirty;
        let commands = propagated(&server);
        assert_eq!(is_dirty, !expected.is_empty(), "{line}");
        assert_eq!(
            commands.len(),
            sent + usize::from(is_dirty),
            "{line}: {commands:?}"
        );
        if !is_dirty {
            continue;
        }
        let words = commands[sent].iter().flat_map(|word| word.split([' ', ':']));
        let mut words: Vec<_> = words.map(str::to_owned).collect();
        let expected = whole(expected);
        for (word, _) in words
            .iter_mut()
            .zip(&expected)
            .filter(|(_, expected)| *expected == "...")
        {
            let time: i64 = word.parse().unwrap();
            let is_now = [time, time - 1_000_000]
                .iter()
                .any(|time| (from..=to).contains(time));
            assert!(is_now, "{line}: {time}");
            *word = "...".to_owned();
        }
        assert_eq!(words, expected, "{line}");
        sent += 1;
    }
    if Server::version().at_least(7, 0) {
        let files = paths(&server).into_iter().map(|path| fs::read(path).unwrap());
        let file = String::from_utf8_lossy(&files.collect::<Vec<_>>().concat()).to_uppercase();
        assert!(!file.contains("MULTI") && !file.contains("EXPIRE"), "{file}");
    }
}

// ---- Clocks --------------------------------------------------------------------------------------

/// Machines differ in time, by minutes if nobody looks: after a failover items would be lost, or the old
/// primary would have another filter than the new one.
#[test]
fn a_failover_to_another_clock_loses_nothing() {
    const HOUR: i64 = 3_600_000;
    let mut primary = Server::start();
    let mut replica = Server::with().replica_of(&primary).start();
    in_step(&primary, &replica);
    // Of windows that are longer than the clocks are apart, and of shorter ones.
    for (seconds, ahead) in [(7200, HOUR), (7200, -HOUR), (600, HOUR)] {
        let mut client = primary.client();
        let now = clock(&mut client);
        client.answers(&[
            ("FLUSHALL SYNC", ok()),
            (
                &format!("BF.RESERVE key 1e-9 1000 WINDOW {seconds} SLICES 8 SEED 1"),
                ok(),
            ),
        ]);
        // What the primary with that clock wrote in the last minutes.
        for minutes in [8, 5, 2, 0] {
            let line = format!(
                "BF.INSERT key AT {} ITEMS m{minutes}",
                now + ahead - minutes * 60_000
            );
            client.answers(&[(&line, array([1]))]);
        }
        in_step(&primary, &replica);
        same(&primary, &replica, &["key"], "before the failover");
        let context = format!("a window of {seconds} s, {ahead} ms ahead");
        let mut heir = replica.client();
        let found = array([1, 1, 1, 1]);
        assert_eq!(heir.run("BF.MEXISTS key m8 m5 m2 m0"), found, "{context}");
        heir.answers(&[("REPLICAOF NO ONE", ok()), ("BF.ADD key new", 1.into())]);
        assert_eq!(heir.run("BF.MEXISTS key m8 m5 m2 m0"), found, "{context}");
        heir.answers(&[("BF.MADD key new m0", array([0, 0])), ("BF.ADD key n2", 1.into())]);
        follow(&primary, &replica);
        in_step(&replica, &primary);
        same(&replica, &primary, &["key"], &context);
        heir.answers(&[("BF.ADD key n3", 1.into())]);
        in_step(&replica, &primary);
        same(&replica, &primary, &["key"], &context);
        if seconds == 600 {
            // The clock that was an hour ahead was wrong: all of it is of now.
            let now = clock(&mut heir);
            assert!(
                slices(&mut heir, "key").iter().all(|slice| slice.opens <= now),
                "{context}"
            );
        }
        std::mem::swap(&mut primary, &mut replica);
    }
}

/// A replica would answer what has expired until its primary gets a new item; or it would drop slices by itself,
/// and differ.
#[test]
fn a_replica_answers_by_its_own_clock_and_changes_nothing() {
    let primary = Server::start();
    let replica = Server::with().replica_of(&primary).start();
    in_step(&primary, &replica);
    let (mut client, mut follower) = (primary.client(), replica.client());
    let now = clock(&mut client);
    client.answers(&[
        ("BF.RESERVE key 1e-9 100 WINDOW 1000 SLICES 10 SEED 1", ok()),
        (
            &format!("BF.INSERT key AT {} ITEMS over", now - WINDOW - 2 * SLICE),
            array([1]),
        ),
        (
            &format!("BF.INSERT key AT {} ITEMS here", now - WINDOW / 2),
            array([1]),
        ),
    ]);
    in_step(&primary, &replica);
    let before = contents(&mut client, &["key"]);
    for client in [&mut client, &mut follower] {
        client.answers(&[
            ("BF.MEXISTS key over here", array([0, 1])),
            ("BF.EXISTSPACKED key LINES COUNT over\nhere", 1.into()),
            ("BF.CARD key", 1.into()),
        ]);
        assert_eq!(client.info("key", "Number of filters"), 1);
        assert_eq!(slices(client, "key").len(), 2);
        assert!(contents(client, &["key"]) == before);
    }
    client.answers(&[("BF.ADD key new", 1.into())]);
    in_step(&primary, &replica);
    same(&primary, &replica, &["key"], "after the next item");
    assert_eq!(slices(&mut follower, "key").len(), 2);
    let figures = |client: &mut Client| {
        ["filters", "windows", "layers", "bytes", "items", "layers_dropped"]
            .map(|name| client.stat("bf", &format!("bf_{name}")))
    };
    assert_eq!(figures(&mut follower), figures(&mut client));
    // A new copy of all brings no layer that is gone.
    let other = Server::with().replica_of(&primary).start();
    in_step(&primary, &other);
    same(&primary, &other, &["key"], "a full copy");
}

/// An RDB file that is loaded after a slice ended would bring back what was forgotten, or lose the rest.
#[test]
fn a_slice_ends_while_its_server_is_off() {
    let mut server = Server::start();
    let mut client = server.client();
    let now = clock(&mut client);
    // Over 700 ms from now.
    let end = now + 700;
    client.answers(&[
        ("BF.RESERVE key 1e-9 100 WINDOW 1000 SLICES 10 SEED 1", ok()),
        (
            &format!("BF.INSERT key AT {} ITEMS old", end - WINDOW - SLICE),
            array([1]),
        ),
        (
            &format!("BF.INSERT key AT {} ITEMS new", now - WINDOW / 2),
            array([1]),
        ),
        ("SAVE", ok()),
    ]);
    let before = contents(&mut client, &["key"]);
    server.kill9();
    server.revive();
    let mut client = server.client();
    assert!(contents(&mut client, &["key"]) == before);
    until("it is over", || {
        let from = clock(&mut client);
        let found = client.run("BF.MEXISTS key old new");
        let to = clock(&mut client);
        assert!(
            to >= end || found == array([1, 1]),
            "{from}..{to} and {end}: {found:?}"
        );
        assert!(
            from < end || found == array([0, 1]),
            "{from}..{to} and {end}: {found:?}"
        );
        from >= end
    });
    server.kill9();
    server.revive();
    let mut client = server.client();
    assert!(
        contents(&mut client, &["key"]) == before,
        "it is there, but is not found"
    );
    client.answers(&[
        ("BF.MEXISTS key old new", array([0, 1])),
        ("BF.CARD key", 1.into()),
        ("BF.ADD key more", 1.into()),
    ]);
    assert_eq!(slices(&mut client, "key").len(), 2, "it is gone");
}
