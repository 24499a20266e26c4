//! What BF.SHRINK makes of a filter, and what it refuses. The table in `states` has what replicas and files get.

use crate::client::{Client, Reply, error, ok};
use crate::commands::sets::make;
use crate::filters::figure;
use crate::server::Server;
use crate::support::chunks::{load, scandump};
use crate::support::items::{numbered, present};

/// Filters that are too large: the error rate, the other options, and how many items they have.
const KINDS: [(&str, &str, usize); 6] = [
    ("1e-9", "SEED 1", 1000),
    ("1e-9", "SEED 1 NONSCALING", 1000),
    ("0.001", "GROWING SEED 1", 3000),
    ("1e-9", "LAYOUT CLASSIC", 1000),
    ("1e-9", "LAYOUT CLASSIC NONSCALING", 1000),
    ("0.01", "EXPANSION 3 SEED 1", 2000),
];

/// The parameters of a filter for 100,000 items or some more, whose layer can be divided by 48.
fn divisible(client: &mut Client, rate: &str, options: &str) -> String {
    let mut all = (100_000..).map(|capacity| format!("{rate} {capacity} {options}"));
    let divides = |words: &String| {
        let plan = client.run(&format!("BF.PLAN {words}"));
        let size = plan.field("Stages").elements()[0].field("Size").int();
        let unit = match plan.field("Lines") {
            Reply::Int(lines) => 64 * lines,
            _ => 8,
        };
        // A filter has 96 bytes besides its bits.
        (size - 96) % (48 * unit) == 0
    };
    all.find(divides).unwrap()
}

fn has_all(client: &mut Client, key: &str, count: usize) {
    let found = present(client, key, &numbered("item:", 0, count));
    assert_eq!(found.len(), count, "{key}");
}

/// A user would lose items, or memory that the reply says was given back, or a filter that no longer grows.
#[test]
fn a_shrunk_filter_has_its_items_and_grows_on() {
    let server = Server::start();
    let mut client = server.client();
    for (rate, options, count) in KINDS {
        client.answers(&[("FLUSHALL", ok())]);
        let parameters = divisible(&mut client, rate, options);
        make(&mut client, "key", &parameters, 0, count);
        client.answers(&[("EXPIRE key 1000", 1.into())]);
        let (before, used) = (client.info("key", "Size"), client.run("MEMORY USAGE key").int());
        let freed = client.run("BF.SHRINK key").int();
        assert!(freed > before / 4, "{parameters}: {freed} of {before}");
        assert_eq!(client.info("key", "Size"), before - freed, "{parameters}");
        assert_eq!(figure(&mut client, "bytes"), before - freed, "{parameters}");
        assert!(client.run("MEMORY USAGE key").int() < used, "{parameters}");
        assert!(client.run("TTL key").int() > 900, "{parameters}");
        client.answers(&[("BF.SHRINK key", 0.into())]);
        has_all(&mut client, "key", count);
        // By chunks it is the same filter.
        let chunks = scandump(&mut client, "key");
        load(&mut client, "copy", &chunks);
        client.answers(&[("PERSIST key", 1.into())]);
        assert_eq!(client.dump("copy"), client.dump("key"), "{parameters}");
        if parameters.contains("NONSCALING") {
            let capacity = client.info("key", "Capacity");
            for item in numbered("more:", 0, 200_000).chunks(1000) {
                client.over("BF.MADD key", item);
            }
            assert_eq!(
                client.info("key", "Number of items inserted"),
                capacity,
                "{parameters}"
            );
            assert_eq!(
                client.run("BF.ADD key last"),
                error("ERR non scaling filter is full")
            );
        } else {
            make(&mut client, "key", "", count, 200_000);
            has_all(&mut client, "key", 200_000);
            assert!(client.info("key", "Number of filters") > 1);
        }
    }
}

/// A filter that is to be filled further would grow layers that it does not need.
#[test]
fn capacity_keeps_room() {
    let server = Server::start();
    let mut client = server.client();
    for layout in ["BLOCKED", "CLASSIC"] {
        client.answers(&[("FLUSHALL", ok())]);
        let parameters = divisible(&mut client, "0.001", &format!("LAYOUT {layout}"));
        make(&mut client, "key", &parameters, 0, 100);
        client.answers(&[
            ("BF.SHRINK key CAPACITY 110000", 0.into()),
            ("BF.SHRINK key capacity 1099511627776", 0.into()),
        ]);
        assert!(client.run("BF.SHRINK key CAPACITY 30000").int() > 0);
        let capacity = client.info("key", "Capacity");
        assert!((30_000..60_000).contains(&capacity), "{layout}: {capacity}");
        assert!(client.run("BF.SHRINK key CAPACITY 1").int() > 0);
        has_all(&mut client, "key", 100);
    }
}

/// A filter would be half folded, or pass a limit, where there is no memory for the copy.
#[test]
fn without_memory_nothing_is_folded() {
    let server = Server::start();
    let mut client = server.client();
    // Less than 1 MiB is not compared with maxmemory each time. The bits of a classic filter can be divided by 8.
    make(&mut client, "key", "0.01 16000000 LAYOUT CLASSIC", 0, 100);
    client.answers(&[("CONFIG SET maxmemory 1", ok())]);
    client.refuses(
        "key",
        &[(
            "BF.SHRINK key CAPACITY 2000000",
            "ERR Insufficient memory to shrink filter",
        )],
    );
    client.answers(&[("CONFIG SET maxmemory 0", ok())]);
    assert!(client.run("BF.SHRINK key CAPACITY 2000000").int() > 1 << 20);
    has_all(&mut client, "key", 100);
}
