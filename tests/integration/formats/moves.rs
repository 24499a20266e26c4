//! Each kind of filter in each way in which a filter is moved: the same bits, the same answers and the same figures,
//! and it goes on as the one that stayed.
//!
//! Filters are moved to another machine where there is one ([`Server::elsewhere`]; `scripts/arm64.sh` has one).

use std::fs::{self, File};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::client::{Client, Reply, error, ok};
use crate::replication::slots::nodes;
use crate::server::{Server, skip, until};
use crate::support::aof::{as_commands, rewrite};
use crate::support::chunks::{load, scandump};
use crate::support::link::in_step;

/// How a filter of each kind is reserved.
const KINDS: [(&str, &str); 15] = [
    ("blocked", "0.001 1000"),
    ("grown", "0.01 20 GROWING"),
    ("merged", "0.01 900 SEED 3"),
    ("classic", "0.01 100 LAYOUT CLASSIC"),
    ("valkey", "0.01 100 LAYOUT VALKEY TIGHTENING 0.75"),
    ("window", "0.01 500 WINDOW 1000000 SLICES 10"),
    ("window, refreshed", "0.01 300 WINDOW 1000000 SLICES 4 REFRESH"),
    ("exceptions", "0.01 2500"),
    ("tight", "1e-6 300"),
    ("loose", "0.2 300"),
    ("steep", "0.01 20 EXPANSION 7"),
    ("nonscaling", "0.01 900 NONSCALING"),
    ("classic nonscaling", "0.01 900 NONSCALING LAYOUT CLASSIC"),
    ("valkey nonscaling", "0.01 900 NONSCALING LAYOUT VALKEY"),
    ("empty", "0.01 1000"),
];

/// Seconds ago, and the items that a window got then.
const TIMES: [(u64, usize, usize); 3] = [(600_000, 0, 400), (300_000, 300, 700), (100_000, 700, 800)];

/// Settings of a server that would make other filters by itself, or none.
const OTHERWISE: &str = "bf-layout classic bf-initial-size 9 bf-error-rate 0.2 bf-expansion-factor 0 bf-seed 5 \
                         bf-max-filter-bytes 300";

/// The key of a kind; all are of one slot.
fn key(kind: &str) -> String {
    format!("{{moved}}:{}", kind.replace([' ', ','], "-"))
}

fn items(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|item| format!("item:{item}")).collect()
}

/// Makes a filter of each kind.
fn make(client: &mut Client) {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut run = |head: String, items: &[String]| {
        let reply = client.over(&head, items);
        assert!(!matches!(reply, Reply::Error(_)), "{head}: {reply:?}");
    };
    for (kind, parameters) in KINDS {
        let key = key(kind);
        if kind == "merged" {
            // Of other sizes and rates, so that their layers stay side by side.
            let sources = [("one", "0.001 300 SEED 3", 0, 300), ("two", parameters, 200, 800)];
            for (source, parameters, from, to) in sources {
                run(format!("BF.RESERVE {key}-{source} {parameters}"), &[]);
                run(format!("BF.MADD {key}-{source}"), &items(from, to));
            }
            run(format!("BF.MERGE {key} 2 {key}-one {key}-two ERROR 0.1"), &[]);
            run(format!("DEL {key}-one {key}-two"), &[]);
            continue;
        }
        run(format!("BF.RESERVE {key} {parameters}"), &[]);
        if parameters.contains("WINDOW") {
            for (ago, from, to) in TIMES {
                let head = format!("BF.INSERT {key} NOCREATE AT {} ITEMS", 1000 * (now - ago));
                run(head, &items(from, to));
            }
        } else if kind != "empty" {
            run(format!("BF.MADD {key}"), &items(0, 800));
        }
        if kind == "exceptions" {
            // More than a string of the stream holds.
            run(format!("BF.MADD {key}"), &items(800, 2800));
            run(format!("BF.EXCEPT {key}"), &items(650, 2650));
        }
    }
}

/// What a client can learn of a filter: its bits, its digest, its figures and its answers.
fn whole(client: &mut Client, key: &str) -> [Reply; 4] {
    [
        client.dump(key),
        client.call(&["DEBUG", "DIGEST-VALUE", key]),
        client.call(&["BF.INFO", key, "FULL"]),
        client.over(&format!("BF.MEXISTS {key}"), &items(0, 3000)),
    ]
}

fn all(client: &mut Client) -> Vec<[Reply; 4]> {
    KINDS.map(|(kind, _)| whole(client, &key(kind))).into()
}

/// Both servers have the same of each kind.
#[track_caller]
fn are_equal(one: &mut Client, other: &mut Client) {
    for (kind, _) in KINDS {
        let key = key(kind);
        for (one, other) in whole(one, &key).iter().zip(&whole(other, &key)) {
            assert!(one == other, "{kind}: {one:?} and {other:?}");
        }
    }
}

/// Adds to a filter, for most until it has to grow.
fn go_on(client: &mut Client, key: &str) -> Reply {
    client.over(&format!("BF.MADD {key}"), &items(700, 3000))
}

/// Filters that were moved from one server to another are the same there, and take the same items for new.
#[track_caller]
fn are_moved(one: &mut Client, other: &mut Client) {
    are_equal(one, other);
    for (kind, parameters) in KINDS {
        let key = key(kind);
        // A window of time stores when it took an item: both are told the same time.
        let replies = if parameters.contains("WINDOW 1") {
            let now = 1000 * SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
            let head = format!("BF.INSERT {key} NOCREATE AT {now} ITEMS");
            let items = items(700, 3000);
            [one.over(&head, &items), other.over(&head, &items)]
        } else {
            [go_on(one, &key), go_on(other, &key)]
        };
        assert!(replies[0] == replies[1], "{kind}");
        assert!(
            replies[0].elements().contains(&1.into()),
            "{kind}: nothing was new"
        );
    }
    are_equal(one, other);
}

/// Restores the filters of a server on another one.
fn restore(from: &mut Client, to: &mut Client) {
    for (kind, _) in KINDS {
        let key = key(kind);
        let payload = from.dump(&key);
        let words = [&b"RESTORE"[..], key.as_bytes(), b"0", payload.bytes()];
        assert_eq!(to.call(&words), ok(), "{kind}");
        let busy = error("BUSYKEY Target key name already exists.");
        assert_eq!(to.call(&words), busy, "{kind}");
    }
}

/// A server's filters are the same after whatever befalls it.
#[track_caller]
fn survive(mut server: Server, what: fn(&mut Server)) {
    let twin = Server::start();
    make(&mut server.client());
    let before = all(&mut server.client());
    restore(&mut server.client(), &mut twin.client());
    what(&mut server);
    assert!(all(&mut server.client()) == before, "other than before");
    are_moved(&mut twin.client(), &mut server.client());
}

fn crash(server: &mut Server) {
    server.kill9();
    server.revive();
}

/// Tools that move or copy keys by their payloads would alter filters.
#[test]
fn by_dump_and_restore() {
    let [one, other] = [Server::start(), Server::elsewhere().start()];
    let (mut one, mut other) = (one.client(), other.client());
    make(&mut one);
    restore(&mut one, &mut other);
    are_moved(&mut one, &mut other);
}

/// A filter that a program reads from one server and writes to another would be another one there.
#[test]
fn by_payloads_that_the_crate_reads_and_writes() {
    let [one, other] = [Server::start(), Server::start()];
    let (mut one, mut other) = (one.client(), other.client());
    make(&mut one);
    for (kind, _) in KINDS {
        let key = key(kind);
        let filter = libbloom_rdb::read_payload(one.dump(&key).bytes(), u64::MAX).unwrap();
        let mut payload = Vec::new();
        libbloom_rdb::write_payload(&filter, &mut payload).unwrap();
        let words = [&b"RESTORE"[..], key.as_bytes(), b"0", &payload];
        assert_eq!(other.call(&words), ok(), "{kind}");
    }
    are_moved(&mut one, &mut other);
}

/// A server's filters would be others in the backup that a program reads, or in the file that it writes for a server.
#[test]
fn by_files_that_the_crate_reads_and_writes() {
    let folders = [(); 2].map(|()| TempDir::new().unwrap());
    let files = folders.each_ref().map(|folder| folder.path().join("dump.rdb"));
    let one = Server::with().dir(folders[0].path()).start();
    make(&mut one.client());
    // Other keys, before and behind.
    for number in 0..20 {
        let kind = [
            "SET string",
            "RPUSH list",
            "SADD set",
            "ZADD sorted 1",
            "HSET hash field",
        ][number % 5];
        one.client()
            .run(&format!("{kind}{number} {}", "value".repeat(number)));
        one.client().run(&format!("PFADD log{number} {number}"));
    }
    one.client().answers(&[("SAVE", ok())]);
    let mut writer = libbloom_rdb::Writer::new(File::create(&files[1]).unwrap()).unwrap();
    let mut count = 0;
    for entry in libbloom_rdb::filters(File::open(&files[0]).unwrap(), u64::MAX) {
        let entry = entry.unwrap();
        writer
            .put(entry.db, &entry.key, &entry.filter.unwrap(), entry.expires_at)
            .unwrap();
        count += 1;
    }
    writer.finish().unwrap();
    assert_eq!(count, KINDS.len());
    let other = Server::with().dir(folders[1].path()).start();
    other.client().answers(&[("DBSIZE", (KINDS.len() as i64).into())]);
    are_moved(&mut one.client(), &mut other.client());
}

/// Resharding a cluster by MIGRATE, as most do, would alter filters.
#[test]
fn by_migrate() {
    let [one, other] = [Server::start(), Server::elsewhere().start()];
    make(&mut one.client());
    for (kind, _) in KINDS {
        let line = format!("MIGRATE 127.0.0.1 {} {} 0 60000 COPY", other.port(), key(kind));
        one.client().answers(&[(&line, ok())]);
    }
    are_moved(&mut one.client(), &mut other.client());
}

/// A filter that is copied beside itself would be another one.
#[test]
fn by_copy() {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client);
    let twin = Server::start();
    restore(&mut client, &mut twin.client());
    for (kind, _) in KINDS {
        let key = key(kind);
        client.answers(&[
            (&format!("COPY {key} {{moved}}:copy"), 1.into()),
            (&format!("RENAME {{moved}}:copy {key}"), ok()),
        ]);
    }
    are_moved(&mut twin.client(), &mut client);
}

/// RedisBloom's tools, which move filters in pieces, would alter them; or a replica or the append-only file of the server
/// that they are moved to would not have them.
#[test]
fn by_chunks() {
    let one = Server::start();
    let mut other = Server::elsewhere()
        .append_only()
        .config("aof-use-rdb-preamble", "no")
        .start();
    let replica = Server::with().module_args(OTHERWISE).replica_of(&other).start();
    in_step(&other, &replica);
    let (mut from, mut to) = (one.client(), other.client());
    make(&mut from);
    for (kind, _) in KINDS {
        let key = key(kind);
        let chunks = scandump(&mut from, &key);
        load(&mut to, &key, &chunks);
    }
    in_step(&other, &replica);
    are_equal(&mut from, &mut replica.client());
    crash(&mut other);
    are_moved(&mut from, &mut other.client());
}

/// A reload for debugging, which tools use to test persistence, would lose filters.
#[test]
fn by_a_reload() {
    survive(Server::start(), |server| {
        server.client().answers(&[("DEBUG RELOAD", ok())]);
    });
}

/// Every filter would be gone, or another one, after a planned restart.
#[test]
fn by_a_save_and_a_restart() {
    survive(Server::start(), |server| {
        server.client().answers(&[("SAVE", ok())]);
        server.restart();
    });
}

/// Data that is taken to another machine would be other filters there.
#[test]
fn by_the_file_of_a_save() {
    let (one, home) = (Server::start(), TempDir::new().unwrap());
    make(&mut one.client());
    one.client().answers(&[("SAVE", ok())]);
    fs::copy(one.dir().join("dump.rdb"), home.path().join("dump.rdb")).unwrap();
    let other = Server::elsewhere().dir(home.path()).start();
    are_moved(&mut one.client(), &mut other.client());
}

/// A crash would lose what the last background save had stored.
#[test]
fn by_a_background_save_and_a_crash() {
    survive(Server::start(), |server| {
        let mut client = server.client();
        client.run("BGSAVE");
        until("the save ends", || {
            client.stat("persistence", "rdb_bgsave_in_progress") == "0"
        });
        assert_eq!(client.stat("persistence", "rdb_last_bgsave_status"), "ok");
        crash(server);
    });
}

/// A crash would lose items whose adding was already confirmed.
#[test]
fn by_an_append_only_file_and_a_crash() {
    survive(as_commands().start(), crash);
}

/// Compacting the append-only file would lose or alter filters, in the form that servers use by themselves.
#[test]
fn by_a_rewritten_append_only_file_with_a_preamble() {
    let setup = Server::with().append_only().config("aof-use-rdb-preamble", "yes");
    survive(setup.start(), |server| {
        rewrite(&mut server.client());
        crash(server);
    });
}

/// Compacting the append-only file would lose or alter filters, where it is to be readable commands.
#[test]
fn by_a_rewritten_append_only_file_of_commands() {
    survive(as_commands().start(), |server| {
        rewrite(&mut server.client());
        crash(server);
    });
}

/// A replica has what its primary has, also when that goes on.
#[track_caller]
fn follows(primary: &Server, replica: &Server) {
    in_step(primary, replica);
    are_equal(&mut primary.client(), &mut replica.client());
    for (kind, _) in KINDS {
        go_on(&mut primary.client(), &key(kind));
    }
    in_step(primary, replica);
    are_equal(&mut primary.client(), &mut replica.client());
    assert!(!replica.log().contains("not here"), "{}", replica.log());
}

/// A replica that comes late would answer otherwise than its primary, whether it gets the data over the link or by a
/// file.
#[test]
fn by_a_full_synchronisation() {
    for diskless in ["yes", "no"] {
        let primary = Server::with().config("repl-diskless-sync", diskless).start();
        make(&mut primary.client());
        let replica = Server::elsewhere().module_args(OTHERWISE).replica_of(&primary);
        follows(&primary, &replica.start());
    }
}

/// A replica that was there from the start would make other filters of what it is sent.
#[test]
fn by_the_commands_that_a_replica_gets() {
    let primary = Server::start();
    let replica = Server::elsewhere()
        .module_args(OTHERWISE)
        .replica_of(&primary)
        .start();
    in_step(&primary, &replica);
    make(&mut primary.client());
    follows(&primary, &replica);
}

/// Resharding would lose or alter filters where slots move at once.
#[test]
fn by_an_atomic_slot_migration() {
    if !(Server::version().valkey && Server::version().major >= 9) {
        skip!("this server moves no slots at once");
    }
    let nodes = nodes();
    let [mut from, mut to] = [nodes[0].client(), nodes[1].client()];
    make(&mut from);
    let twin = Server::start();
    restore(&mut from, &mut twin.client());
    let slot = from.run("CLUSTER KEYSLOT {moved}").int();
    let target = to.run("CLUSTER MYID").text();
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}");
    from.answers(&[(&line, ok())]);
    until("the slot is moved", || {
        let migrations = format!("{:?}", from.run("CLUSTER GETSLOTMIGRATIONS"));
        assert!(!migrations.contains("failed"), "{migrations}");
        migrations.contains("success") && to.run("DBSIZE").int() == KINDS.len() as i64
    });
    // The limit held nothing up; from here on its own clients may add too.
    let without = format!("CONFIG SET {} 0", Server::option("max-filter-bytes"));
    to.answers(&[(&without, ok())]);
    are_moved(&mut twin.client(), &mut to);
    from.answers(&[("DBSIZE", 0.into())]);
}
