//! BF.CARD.

use crate::client::{WRONG_TYPE, arity, ok};
use crate::server::Server;

/// The count of distinct items, for which many keep a filter at all, would be wrong.
#[test]
fn counts_what_was_newly_added() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.CARD key", 0.into()),
        ("EXISTS key", 0.into()),
        ("BF.RESERVE key 1e-9 10 SEED 1", ok()),
        ("BF.CARD key", 0.into()),
        ("BF.ADD key a", 1.into()),
        ("BF.ADD key a", 0.into()),
        ("bf.card key", 1.into()),
    ]);
    let items: Vec<_> = (0..1000).map(|i| i.to_string()).collect();
    client.over("BF.MADD key", &items);
    client.over("BF.INSERT key ITEMS", &items);
    client.answers(&[("BF.CARD key", 1001.into())]);
    server.client3().answers(&[("BF.CARD key", 1001.into())]);
    assert_eq!(client.info("key", "Number of items inserted"), 1001);
}

/// The count of a key of another kind would be 0, as if all were well.
#[test]
fn mistakes_are_errors() {
    let server = Server::start();
    let mut client = server.client();
    let arity = arity("bf.card");
    client.run("HSET hash field value");
    client.refuses(
        "hash",
        &[
            ("BF.CARD hash", WRONG_TYPE),
            ("BF.CARD", &arity),
            ("BF.CARD hash hash", &arity),
        ],
    );
}
