//! Slots that move all at once, in Valkey 9 and later.

use crate::client::ok;
use crate::server::{Server, skip, until};

/// Two nodes that know each other, the first of which has all slots; the second has a limit that no filter is
/// within, and a missing key is an error there.
pub fn nodes() -> [Server; 2] {
    let node = || Server::with().cluster_node();
    let nodes = [
        node().start(),
        node()
            .module_args("bf-max-filter-bytes 1 bf-missing-key error")
            .start(),
    ];
    let mut client = nodes[0].client();
    client.answers(&[("CLUSTER ADDSLOTSRANGE 0 16383", ok())]);
    let meet = format!("CLUSTER MEET 127.0.0.1 {}", nodes[1].port());
    client.answers(&[(&meet, ok())]);
    until("the nodes know each other", || {
        nodes.iter().all(|node| {
            let state = node.client().run("CLUSTER INFO").text();
            state.contains("cluster_state:ok") && state.contains("cluster_known_nodes:2")
        })
    });
    nodes
}

fn key(number: usize) -> String {
    format!("{{slot}}:{number}")
}

/// A migration would fail as soon as a client copies or restores a filter meanwhile.
#[test]
fn filters_that_come_during_an_atomic_slot_migration_are_obeyed() {
    if !(Server::version().valkey && Server::version().major >= 9) {
        skip!("this server moves no slots at once");
    }
    let nodes = nodes();
    let [mut from, mut to] = [nodes[0].client(), nodes[1].client()];
    // Enough for the migration to take a while.
    from.answers(&[("DEBUG POPULATE 300000 {slot}:other", ok())]);
    let key = key(0);
    from.answers(&[
        (&format!("BF.RESERVE {key} 0.01 100000"), ok()),
        (&format!("BF.ADD {key} item"), 1.into()),
    ]);
    let expected = from.dump(&key);
    let slot = from.run(&format!("CLUSTER KEYSLOT {key}")).int();
    let target = to.run("CLUSTER MYID").text();
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}");
    from.answers(&[(&line, ok())]);
    let (mut made, mut adds) = (Vec::new(), Vec::new());
    until("the slot is moved", || {
        let migrations = format!("{:?}", from.run("CLUSTER GETSLOTMIGRATIONS"));
        assert!(!migrations.contains("failed"), "{migrations}");
        let [copy, restored, added] =
            ["copy", "restored", "added"].map(|name| format!("{{slot}}:{name}:{}", made.len()));
        if from.run(&format!("COPY {key} {copy}")) == 1.into() {
            made.push(copy);
        }
        let restore = [&b"RESTORE"[..], restored.as_bytes(), b"0", expected.bytes()];
        if from.call(&restore) == ok() {
            made.push(restored);
        }
        if from.run(&format!("BF.ADD {added} item")) == 1.into() {
            adds.push(added);
        }
        migrations.contains("success") && to.run(&format!("EXISTS {key}")) == 1.into()
    });
    assert!(made.len() > 2);
    for key in &made {
        assert_eq!(to.dump(key), expected, "{key}");
    }
    assert!(!adds.is_empty());
    for key in &adds {
        to.answers(&[(&format!("BF.EXISTS {key} item"), 1.into())]);
    }
    // The target's own clients keep their limits.
    let refused = "ERR Insufficient memory to create filter";
    let not_found = "ERR not found";
    to.refuses(
        "{slot}:mine",
        &[
            ("BF.RESERVE {slot}:mine 0.01 100", refused),
            ("BF.ADD {slot}:mine item", not_found),
            ("BF.EXISTS {slot}:mine item", not_found),
        ],
    );
    let copied = [("COPY {slot}:0 {slot}:mine", "ERR module key failed to copy")];
    to.refuses("{slot}:mine", &copied);
}
