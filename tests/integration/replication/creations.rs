//! Filters that are made at random, on a replica and in a file that a server with another configuration reads.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::client::Reply;
use crate::filters;
use crate::server::{Server, sample, seed};
use crate::support::link::{UNUSUAL, in_step, is_content};

/// Each differs from the other and from [`UNUSUAL`] in everything that makes a filter.
const OTHERS: [&str; 2] = [
    "bf-error-rate 0.2 bf-initial-size 9 bf-expansion-factor 0 bf-layout classic bf-max-filter-bytes 300",
    "bf-error-rate 0.9 bf-initial-size 999 bf-expansion-factor 7 bf-layout valkey bf-seed 5 bf-missing-key error",
];

/// A command that makes a filter in `key`, unless its options exclude each other.
fn creation(random: &mut StdRng, key: &str) -> String {
    let rate = ["0.01", "1e-30", "0.3333333333333333", "0.9", "2.5e-7", "1e-300"];
    let rate = rate.choose(random).unwrap();
    let capacity = ["1", "2", "77", "100", "1000", "4096"].choose(random).unwrap();
    let mut options = Vec::new();
    for _ in 0..random.random_range(0..4) {
        let any: u64 = random.random();
        options.push(match random.random_range(0..13) {
            0 => "NONSCALING".to_owned(),
            1 => "GROWING".to_owned(),
            2 => "LAYOUT BLOCKED".to_owned(),
            3 => "LAYOUT CLASSIC".to_owned(),
            4 => "LAYOUT VALKEY".to_owned(),
            5 => format!("SEED {any}"),
            6 => format!("SEED {any:032}"),
            7 => format!("TIGHTENING {}", 1.0 / (1 + any % 9) as f64),
            8 => format!("WINDOW {} REFRESH", 3600 + any % 9),
            9 => format!("WINDOW {} SLICES {}", 3600 + any % 9, 2 + any % 63),
            10 => format!("PXAT {}", 4_000_000_000_000 + any % 1000),
            11 => "EX 5000".to_owned(),
            _ => format!("EXPANSION {}", [0, 1, 2, 3, 32768].choose(random).unwrap()),
        });
    }
    let options = options.join(" ");
    let line = match random.random_range(0..6) {
        0 => format!("BF.ADD {key} item"),
        1 | 2 => format!("BF.RESERVE {key} {rate} {capacity} {options}"),
        3 => format!("BF.INSERT {key} ERROR {rate} CAPACITY {capacity} {options} ITEMS item SPEC1:g"),
        4 => format!("BF.INSERT {key} {options} ITEMS item ITEMS"),
        _ => format!("BF.ADDPACKED {key} {options} CAPACITY {capacity} WIDTH 2 items!"),
    };
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A replica, or a server that reads the file on another day, has other filters than clients made, and denies their items.
#[test]
fn what_clients_make_is_made_alike_under_every_configuration() {
    let mut random = StdRng::seed_from_u64(seed());
    for layout in ["blocked", "classic", "valkey"] {
        let arguments = format!("{UNUSUAL} bf-layout {layout}");
        let mut primary = Server::with().module_args(&arguments).append_only().start();
        let replica = Server::with()
            .module_args(OTHERS[0])
            .append_only()
            .replica_of(&primary)
            .start();
        in_step(&primary, &replica);
        let mut client = primary.client();
        let mut lines = Vec::new();
        for number in 0..sample(400) {
            // RedisBloom takes a key of such a name for a word.
            let key = match number {
                0 => "NONSCALING".to_owned(),
                1 => "expansion".to_owned(),
                2 => "ITEMS".to_owned(),
                number => format!("key{number}"),
            };
            let line = creation(&mut random, &key);
            if !matches!(client.run(&line), Reply::Error(_)) {
                lines.push((key, line));
            }
        }
        assert!(lines.len() > sample(100), "most were refused: {}", lines.len());
        in_step(&primary, &replica);
        is_content(&replica);
        let seen = |server: &Server| {
            let mut client = server.client();
            let seen = lines.iter().map(|(key, line)| {
                let contents = filters::contents(&mut client, &[key]);
                (line, contents, client.run(&format!("PEXPIRETIME {key}")))
            });
            seen.collect::<Vec<_>>()
        };
        let made = seen(&primary);
        let alike = |server: &Server, what: &str| {
            for (made, here) in made.iter().zip(seen(server)) {
                assert!(*made == here, "{what}: {made:?} and {here:?}");
            }
        };
        alike(&replica, "a replica");
        primary.kill9();
        let again = Server::with()
            .dir(primary.dir())
            .module_args(OTHERS[1])
            .append_only()
            .start();
        alike(&again, "its own file");
    }
}
