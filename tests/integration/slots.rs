//! Slots that move all at once, in Valkey 9 and later.

use crate::client::{Client, Reply, ok};
use crate::server::{Server, skip, until};

const FILTERS: usize = 40;

/// Two nodes that know each other, the first of which has all slots; the second has a limit that no filter is
/// within.
fn nodes() -> [Server; 2] {
    let node = || Server::with().cluster_node();
    let nodes = [
        node().start(),
        node().module_args("bf-max-filter-bytes 1").start(),
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

fn dumps(client: &mut Client) -> Vec<Reply> {
    (0..FILTERS).map(|number| client.dump(&key(number))).collect()
}

/// Resharding would be refused for the whole cluster once the module is loaded, or lose filters.
#[test]
fn filters_move_in_an_atomic_slot_migration() {
    if !(Server::version().valkey && Server::version().major >= 9) {
        skip!("this server moves no slots at once");
    }
    let nodes = nodes();
    let [mut from, mut to] = [nodes[0].client(), nodes[1].client()];
    for number in 0..FILTERS {
        let options = ["LAYOUT CLASSIC", "LAYOUT BLOCKED GROWING"][number % 2];
        let line = format!("BF.INSERT {} CAPACITY 2 {options} ITEMS", key(number));
        let items: Vec<_> = (0..20 * number).map(|item| item.to_string()).collect();
        assert!(
            from.over(&line, &[&["first".to_owned()], &items[..]].concat())
                .elements()
                .len()
                > 20 * number
        );
    }
    let large = key(0);
    from.run(&format!("DEL {large}"));
    from.answers(&[
        (&format!("BF.RESERVE {large} 0.01 3000000"), ok()),
        (&format!("BF.ADD {large} item"), 1.into()),
    ]);
    let expected = dumps(&mut from);
    let slot = from.run(&format!("CLUSTER KEYSLOT {large}")).int();
    let target = to.run("CLUSTER MYID").text();
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}");
    from.answers(&[(&line, ok())]);
    until("the slot is moved", || {
        let migrations = format!("{:?}", from.run("CLUSTER GETSLOTMIGRATIONS"));
        assert!(!migrations.contains("failed"), "{migrations}");
        migrations.contains("success") && to.run("DBSIZE").int() == FILTERS as i64
    });
    assert_eq!(dumps(&mut to), expected);
    from.answers(&[("DBSIZE", 0.into())]);
    to.answers(&[(&format!("BF.ADD {large} item"), 0.into())]);
}
