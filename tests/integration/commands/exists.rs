//! BF.EXISTS and BF.MEXISTS.

use crate::client::{WRONG_TYPE, arity, array, ok};
use crate::server::Server;

/// The one question that a filter is for would get a wrong answer.
#[test]
fn answers_for_one_item_and_for_many() {
    let server = Server::start();
    server.client().answers(&[
        ("BF.RESERVE key 1e-9 100 SEED 1", ok()),
        ("BF.MADD key a b '' c", array([1, 1, 1, 1])),
        ("BF.EXISTS key a", 1.into()),
        ("bf.exists key d", 0.into()),
        ("BF.EXISTS key ''", 1.into()),
        ("BF.EXISTS key A", 0.into()),
        ("BF.MEXISTS key d a '' d b", array([0, 1, 1, 0, 1])),
        ("bf.mexists key d", array([0])),
    ]);
    server.client3().answers(&[
        ("BF.EXISTS key a", true.into()),
        ("BF.EXISTS key d", false.into()),
        ("BF.MEXISTS key d a", array([false, true])),
    ]);
}

/// A wrong key name would look like an absent item, for ever.
#[test]
fn mistakes_are_errors() {
    let server = Server::start();
    let mut client = server.client();
    let [exists, mexists, card] = ["bf.exists", "bf.mexists", "bf.card"].map(arity);
    client.run("SADD set member");
    client.refuses(
        "set",
        &[
            ("BF.EXISTS set member", WRONG_TYPE),
            ("BF.MEXISTS set member", WRONG_TYPE),
            ("BF.EXISTS", &exists),
            ("BF.EXISTS set", &exists),
            ("BF.EXISTS set a b", &exists),
            ("BF.MEXISTS", &mexists),
            ("BF.MEXISTS set", &mexists),
            ("BF.CARD set", WRONG_TYPE),
            ("BF.CARD", &card),
            ("BF.CARD set set", &card),
        ],
    );
}
