//! What a packed command that meets a limit leaves on replicas and in files.

use crate::client::{Client, error, ok};
use crate::filters::contents;
use crate::server::Server;
use crate::support::aof::{as_commands, propagated, rewrite};
use crate::support::link::in_step;
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
