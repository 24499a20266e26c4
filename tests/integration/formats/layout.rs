//! Layouts: how a filter gets one, what is stored of it, and what BF.DEBUG says of it.

use crate::client::{Reply, WRONG_TYPE, arity, bulk, ok};
use crate::server::Server;
use crate::support::chunks::scan;
use crate::support::items::{add, numbered};
use crate::support::link::in_step;

/// A filter that goes back to RedisBloom would not be the one that RedisBloom had made: the expansion is stored also
/// where the filter does not use it.
#[test]
fn the_expansion_of_a_filter_that_does_not_grow_is_stored() {
    let primary = Server::with().append_only().start();
    let mut replica = Server::with().append_only().replica_of(&primary).start();
    in_step(&primary, &replica);
    let mut client = primary.client();
    let cases = [
        ("BF.RESERVE key 0.01 5 LAYOUT CLASSIC NONSCALING", 2),
        ("BF.RESERVE key 0.01 5 LAYOUT CLASSIC EXPANSION 0", 0),
        ("BF.RESERVE key 0.01 5 NONSCALING LAYOUT CLASSIC EXPANSION 0", 0),
        ("BF.INSERT key LAYOUT CLASSIC CAPACITY 5 NONSCALING ITEMS a", 2),
        ("BF.INSERT key LAYOUT CLASSIC CAPACITY 5 EXPANSION 0 ITEMS a", 0),
        (
            "BF.INSERT key LAYOUT CLASSIC CAPACITY 5 EXPANSION 7 NONSCALING ITEMS a",
            7,
        ),
        (
            "BF.INSERT key LAYOUT CLASSIC CAPACITY 5 NONSCALING EXPANSION 32768 ITEMS a",
            32768,
        ),
    ];
    for (at, (line, expansion)) in cases.iter().enumerate() {
        let key = format!("key{at}");
        client.run(&line.replace("key", &key));
        client.over(&format!("BF.MADD {key}"), &numbered("", 0, 9));
        let header = scan(&mut client, &key, 0).1;
        // Options, then the expansion.
        assert_eq!(header[12], 13, "{line}");
        assert_eq!(header[16..20], u32::to_le_bytes(*expansion), "{line}");
        client.answers(&[
            (&format!("BF.CARD {key}"), 5.into()),
            (
                &format!("BF.INFO {key} EXPANSION"),
                Reply::Array(vec![Reply::Null]),
            ),
        ]);
    }
    in_step(&primary, &replica);
    replica.restart();
    let mut follower = replica.client();
    for (at, (line, _)) in cases.iter().enumerate() {
        let key = format!("key{at}");
        assert!(follower.dump(&key) == client.dump(&key), "{line}");
    }
}

/// Scripts that read RedisBloom's lines would fail, or take a figure of the other layout for what it is not.
#[test]
fn debug_lines_of_both_layouts() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[
        ("BF.RESERVE classic 0.0000001 1000 LAYOUT CLASSIC", ok()),
        ("BF.RESERVE blocked 0.001 100 SEED 1 EXPANSION 3", ok()),
        ("BF.RESERVE empty 0.05 77 LAYOUT CLASSIC", ok()),
        ("SET text value", ok()),
    ]);
    let items = numbered("t", 0, 1000);
    assert_eq!(add(&mut client, "BF.MADD classic", &items), 1000);
    let new = add(&mut client, "BF.MADD blocked", &items[..250]);
    for mut client in [server.client(), server.client3()] {
        let lines = |text: &[&str]| Reply::Array(text.iter().map(bulk).collect());
        client.answers(&[
            (
                "BF.DEBUG classic",
                lines(&[
                    "size:1000",
                    "bytes:4376 bits:35008 hashes:25 hashwidth:64 capacity:1000 size:1000 ratio:5e-08",
                ]),
            ),
            (
                "BF.DEBUG empty",
                lines(&[
                    "size:0",
                    "bytes:80 bits:640 hashes:6 hashwidth:64 capacity:77 size:0 ratio:0.025",
                ]),
            ),
        ]);
        let reply = client.run("BF.DEBUG blocked");
        let (first, layers) = reply.elements().split_first().unwrap();
        assert_eq!(first.text(), format!("size:{new}"));
        let info = client.run("BF.INFO blocked FULL");
        assert_eq!(layers.len(), 2);
        for (line, layer) in layers.iter().zip(info.field("Layers").elements()) {
            let [capacity, items, bytes, set, probes, lines] =
                ["Capacity", "Items", "Bytes", "Bits set", "Probes", "Lines"]
                    .map(|name| layer.field(name).int());
            let bits = 8 * bytes;
            let start = format!(
                "layout:blocked bytes:{bytes} bits:{bits} set:{set} lines:{lines} probes:{probes} \
                 capacity:{capacity} size:{items} ratio:"
            );
            let text = line.text();
            let ratio: f64 = text
                .strip_prefix(&start)
                .unwrap_or_else(|| panic!("{text}, not {start}"))
                .parse()
                .unwrap();
            let rate = layer.field("Error rate").number();
            assert!((ratio / rate - 1.0).abs() < 1e-5, "{text}: {rate}");
        }
    }
    let arity = arity("bf.debug");
    client.refuses("blocked", &[("BF.DEBUG", &arity), ("BF.DEBUG blocked 1", &arity)]);
    client.refuses("missing", &[("BF.DEBUG missing", "ERR not found")]);
    client.refuses("text", &[("BF.DEBUG text", WRONG_TYPE)]);
}
