//! What packed commands send to replicas and to the append-only file: what changed, and no more. Replicas of many of them
//! are in `replicas.rs`.

use crate::client::{Client, error, ok};
use crate::filters::contents;
use crate::server::Server;
use crate::support::aof::{as_commands, propagated, rewrite};
use crate::support::link::{UNUSUAL, in_step};
use crate::support::packed::{Form, bitmap, taken};

const FULL: &str = "ERR non scaling filter is full";
const NO_GROWTH: &str = "ERR Insufficient memory to grow filter";

/// A replica that would make other filters by itself, or none.
fn replica_of(primary: &Server) -> Server {
    Server::with()
        .module_args(
            "bf-layout classic bf-initial-size 9 bf-error-rate 0.2 bf-seed 5 bf-max-filter-bytes 300",
        )
        .replica_of(primary)
        .start()
}

/// The server has the same keys after it was killed and started on its file, and after the file was rewritten.
fn replays(server: &mut Server, keys: &[&str]) {
    let before = contents(&mut server.client(), keys);
    server.kill9();
    server.revive();
    assert!(contents(&mut server.client(), keys) == before, "on its file");
    rewrite(&mut server.client());
    server.kill9();
    server.revive();
    assert!(
        contents(&mut server.client(), keys) == before,
        "on its rewritten file"
    );
}

/// A stream that repeats itself would fill the disk and the replicas' links; or a replica with other settings, or a
/// later start, would make another filter of what it is sent.
#[test]
fn one_command_says_exactly_what_changed() {
    let server = Server::with().module_args(UNUSUAL).append_only().start();
    let mut client = server.client();
    let by_option = "SPEC1:g:1.23456789e-2:50:3:77:0";
    let one = "\u{1}\0\0\0";
    // What is sent before the data, the data, and what is propagated: the same again for ".", nothing for none.
    let table = [
        // Creations, with everything resolved.
        (
            "key LINES",
            "a\nb",
            Some((format!("key {by_option} LINES"), "a\nb".to_owned())),
        ),
        (
            "two COUNT WIDTH 2",
            "aabbaa",
            Some((format!("two {by_option} WIDTH 2"), "aabb".to_owned())),
        ),
        ("three NOCREATE PREFIXED", "\0\0\0\0", None),
        ("three PREFIXED", "", None),
        (
            "three EXPANSION 0 SEED 5 ERROR 0.5 PREFIXED",
            "\0\0\0\0",
            Some((
                "three SPEC1:f:2.5e-1:50:0:5:0 PREFIXED".to_owned(),
                "\0\0\0\0".to_owned(),
            )),
        ),
        (
            "reserved LINES CAPACITY 70",
            "x\n\nx\ny",
            Some((
                "reserved SPEC1:r:1.23456789e-2:70:3:77:0 LINES".to_owned(),
                "x\n\ny".to_owned(),
            )),
        ),
        (
            "classic ERROR 0.1 LAYOUT CLASSIC LINES",
            "x\ny\n",
            Some((
                "classic SPEC1:c:1e-1:50:3:0:0 LINES".to_owned(),
                "x\ny\n".to_owned(),
            )),
        ),
        (
            "fixed-classic ERROR 0.1 NONSCALING LAYOUT CLASSIC LINES",
            "x",
            Some((
                "fixed-classic SPEC1:n:1e-1:50:2:0:0 LINES".to_owned(),
                "x".to_owned(),
            )),
        ),
        (
            "zero-classic EXPANSION 0 LAYOUT CLASSIC WIDTH 1",
            "x",
            Some((
                "zero-classic SPEC1:n:1.23456789e-2:50:0:0:0 WIDTH 1".to_owned(),
                "x".to_owned(),
            )),
        ),
        // Nothing but new items is sent on as it came.
        (
            "key lines count",
            "c\nd",
            Some(("key lines count".to_owned(), "c\nd".to_owned())),
        ),
        (
            "key Width 1",
            "ef",
            Some(("key Width 1".to_owned(), "ef".to_owned())),
        ),
        // Of others, those that are new, in the same form.
        (
            "key LINES",
            "a\ng\nb\nh",
            Some(("key LINES".to_owned(), "g\nh".to_owned())),
        ),
        (
            "key COUNT LINES",
            "i\na",
            Some(("key LINES".to_owned(), "i\n".to_owned())),
        ),
        (
            "key WIDTH 1",
            "ajakjl",
            Some(("key WIDTH 1".to_owned(), "jkl".to_owned())),
        ),
        (
            "key PREFIXED COUNT",
            &format!("{one}a{one}m\0\0\0\0{one}m{one}b"),
            Some(("key PREFIXED".to_owned(), format!("{one}m\0\0\0\0"))),
        ),
        // What is said of a missing key is of no use any more.
        (
            "key NOCREATE LINES COUNT",
            "o\np",
            Some(("key LINES".to_owned(), "o\np".to_owned())),
        ),
        (
            "classic CAPACITY 9 SEED 3 PREFIXED",
            &format!("{one}z"),
            Some(("classic PREFIXED".to_owned(), format!("{one}z"))),
        ),
        // Nothing new.
        ("key LINES", "a\nb\nc\n\na", None),
        ("key COUNT WIDTH 1", "abc", None),
        ("key CAPACITY 9 PREFIXED", &format!("{one}a"), None),
        ("key LINES", "", None),
        ("key WIDTH 2", "abc", None),
    ];
    let mut expected = Vec::new();
    for (words, data, sent) in &table {
        let dirty = client.stat("persistence", "rdb_changes_since_last_save");
        client.over(&format!("BF.ADDPACKED {words}"), &[data]);
        let is_dirty = client.stat("persistence", "rdb_changes_since_last_save") != dirty;
        assert_eq!(is_dirty, sent.is_some(), "{words} {data:?}");
        if let Some((words, data)) = sent {
            expected.push(format!("BF.ADDPACKED {words} {data}"));
        }
        let sent = propagated(&server);
        let sent: Vec<_> = sent.iter().map(|command| command.join(" ")).collect();
        assert_eq!(sent, expected, "{words} {data:?}");
    }
    assert_eq!(expected.len(), 15);
}

/// The items of a full filter that were taken before the error would be lost in a failover or a restart, and those
/// after it would be there.
#[test]
fn what_was_taken_before_an_error_is_everywhere() {
    let numbers: Vec<_> = (0..20_000).map(|item| format!("{item:05}")).collect();
    for (make, words, why) in [
        ("BF.RESERVE key 1e-9 777 NONSCALING SEED 1", "", FULL),
        ("", "ERROR 1e-9 CAPACITY 777 NONSCALING SEED 1 ", FULL),
        ("BF.RESERVE key 1e-9 100 SEED 1", "", NO_GROWTH),
        ("", "ERROR 1e-9 SEED 1 ", NO_GROWTH),
        ("BF.RESERVE key 1e-9 777 NONSCALING LAYOUT CLASSIC", "", FULL),
        ("BF.RESERVE key 1e-9 100 LAYOUT CLASSIC", "", NO_GROWTH),
        (
            "",
            "ERROR 1e-9 CAPACITY 100 LAYOUT CLASSIC EXPANSION 1 ",
            NO_GROWTH,
        ),
    ] {
        let mut primary = as_commands().module_args("bf-max-filter-bytes 20000").start();
        let replica = replica_of(&primary);
        in_step(&primary, &replica);
        let mut client = primary.client();
        let figures = |client: &mut Client| {
            ["items_added", "duplicates", "refused_growths", "items"]
                .map(|name| client.stat("bf", &format!("bf_{name}")).parse::<u64>().unwrap())
        };
        let refusals = u64::from(why == NO_GROWTH);
        for form in Form::ALL {
            let what = format!("{make} {words} {form:?}");
            client.answers(&[("FLUSHALL SYNC", ok())]);
            if !make.is_empty() {
                client.answers(&[(make, ok())]);
            }
            let head = format!("BF.ADDPACKED key {words}{}", form.words());
            let data = form.pack(&numbers);
            let before = figures(&mut client);
            let count = taken(&client.over(&head, &[&data]), why);
            assert!((700..20_000).contains(&count), "{what}: {count}");
            let new = count as u64;
            assert_eq!(
                figures(&mut client),
                [before[0] + new, before[1], before[2] + refusals, new],
                "{what}"
            );
            let question = format!("BF.EXISTSPACKED key {}", form.words());
            let all = client.over(&format!("{question} COUNT"), &[form.pack(&numbers[..count])]);
            assert_eq!(all, (count as i64).into(), "{what}");
            let rest = client.over(&question, &[form.pack(&numbers[count..])]);
            let single = client.over("BF.MEXISTS key", &numbers[count..]);
            assert!(
                rest == bitmap(single.elements().iter().map(|found| found.int() == 1)),
                "{what}"
            );
            assert_eq!(single.elements()[0], 0.into(), "{what}: the one that was refused");

            // A repetition adds nothing, and propagates nothing.
            let commands = propagated(&primary);
            let refused = error(&format!("{why} after {count} items"));
            assert_eq!(client.over(&head, &[&data]), refused, "{what}");
            assert_eq!(
                figures(&mut client),
                [before[0] + new, before[1] + new, before[2] + 2 * refusals, new],
                "{what}"
            );
            assert_eq!(propagated(&primary).len(), commands.len(), "{what}");
            let last = commands.last().unwrap();
            assert_eq!(last[0], "BF.ADDPACKED", "{what}");
            assert_eq!(
                last.last().unwrap().as_bytes(),
                form.pack(&numbers[..count]),
                "{what}"
            );

            in_step(&primary, &replica);
            let here = contents(&mut client, &["key"]);
            assert!(contents(&mut replica.client(), &["key"]) == here, "{what}");
        }
        assert!(!replica.log().contains("and not here:"), "{}", replica.log());
        drop(client);
        replays(&mut primary, &["key"]);
    }
}
