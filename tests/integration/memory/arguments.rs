//! Commands with very many arguments in a server that is short of addresses.

use serial_test::serial;

use crate::client::{Reply, ok};
use crate::filters::with_very_many_layers;
use crate::server::{Server, skip};

const MIB: u64 = 1 << 20;
const ITEMS: usize = 400_000;

/// A list of sources would cost more than the arguments that name them.
#[test]
#[serial(memory)]
fn a_source_that_is_named_often_costs_its_arguments() {
    let peak = |line: &str, keys: &[&str]| {
        let server = Server::start();
        let mut client = server.client();
        client.answers(&[("BF.ADD a item", 1.into()), ("CONFIG RESETSTAT", ok())]);
        client.over(line, keys);
        let peak: u64 = client.stat("memory", "used_memory_peak").parse().unwrap();
        peak
    };
    let keys = vec!["a"; ITEMS];
    let (exists, merge) = (
        peak("EXISTS", &keys),
        peak(&format!("BF.MERGE to {ITEMS}"), &keys),
    );
    assert!(
        merge < 2 * exists,
        "{merge} bytes, of which the server itself takes {exists}"
    );
}

/// A filter with very many layers, which an earlier version made, would end a server that is short of memory as soon as
/// somebody copies, saves or describes it.
#[test]
#[serial(memory)]
fn a_filter_with_very_many_layers_ends_no_server() {
    const LAYERS: usize = 10_000;
    let items: Vec<_> = (0..LAYERS).map(|item| item.to_string()).collect();
    let maker = with_very_many_layers(&items, &[]);
    let Reply::Bulk(dump) = maker.client().run("DUMP key") else {
        panic!("no payload")
    };
    for left in [1, 2, 4, 16, 32, 128].map(|left| left * MIB / 2) {
        // To compress, the server itself needs half a megabyte of stack, and ends where it cannot have it.
        let server = Server::with().config("rdbcompression", "no").start();
        let mut client = server.client();
        assert_eq!(client.call(&[b"RESTORE".as_slice(), b"key", b"0", &dump]), ok());
        let layers = client.info("key", "Number of filters");
        assert!(layers > 9900, "{layers}");
        if server.limit_addresses(left).is_none() {
            skip!("nobody can limit a process here");
        }
        let mut lines = vec!["BF.SCANDUMP key 0", "COPY key copy", "BF.INFO key FULL"];
        // A payload and a file are made in the server's own memory, without which it ends.
        if left >= 64 * MIB {
            lines.extend(["DUMP key", "SAVE"]);
        }
        for line in lines {
            let what = format!("{line} with {left} bytes left");
            client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
            match client.receive() {
                Ok(Reply::Error(why)) => {
                    let texts = [
                        "ERR Insufficient memory to answer",
                        "ERR module key failed to copy",
                    ];
                    assert!(texts.contains(&why.as_str()), "{what}: {why}");
                }
                Ok(_) => {}
                Err(error) => panic!("{what}: {error}\n{}", server.log()),
            }
            client.answers(&[("BF.EXISTS key 77", 1.into())]);
        }
    }
}
