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

/// A filter that nobody has made yet would be an error, or be made by asking.
#[test]
fn a_missing_key_holds_nothing_and_stays_missing() {
    let server = Server::start();
    server.client().answers(&[
        ("BF.EXISTS key a", 0.into()),
        ("BF.MEXISTS key a b", array([0, 0])),
        ("BF.CARD key", 0.into()),
        ("EXISTS key", 0.into()),
    ]);
    server.client3().answers(&[
        ("BF.EXISTS key a", false.into()),
        ("BF.MEXISTS key a", array([false])),
    ]);
}

/// A wrong key name would look like an absent item, for ever.
#[test]
fn mistakes_are_errors() {
    let server = Server::start();
    let mut client = server.client();
    let [exists, mexists] = ["bf.exists", "bf.mexists"].map(arity);
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
        ],
    );
}

/// Long questions, whose items are looked up in batches, would be answered otherwise than short ones.
#[test]
fn a_batch_answers_what_single_questions_do() {
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<_> = (0..1500).map(|i| format!("item:{i}")).collect();
    client.run("BF.RESERVE key 0.2 40 SEED 1");
    client.over("BF.MADD key", &items[..700]);
    let single: Vec<_> = items
        .iter()
        .map(|item| client.call(&["BF.EXISTS", "key", item]).int())
        .collect();
    assert!(single[..700].iter().all(|&answer| answer == 1));
    assert!(
        single[700..].contains(&0) && single[700..].contains(&1),
        "the test asks for false positives too"
    );
    for size in [1, 63, 64, 65, 129, 1500] {
        for (items, single) in items.chunks(size).zip(single.chunks(size)) {
            assert_eq!(
                client.over("BF.MEXISTS key", items),
                array(single.to_vec()),
                "in batches of {size}"
            );
        }
    }
}
