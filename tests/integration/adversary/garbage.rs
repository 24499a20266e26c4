//! Whatever a client sends, the server answers it and lives.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::client::{Reply, array};
use crate::filters;
use crate::server::{Server, sample, seed};

/// How many commands are tried. `BLOOM_TEST_SEED` repeats those of a run that failed.
const COMMANDS: usize = 20_000;

const NAMES: [&str; 17] = [
    "BF.RESERVE",
    "BF.ADD",
    "BF.MADD",
    "BF.INSERT",
    "BF.EXISTS",
    "BF.MEXISTS",
    "BF.INFO",
    "BF.CARD",
    "BF.SCANDUMP",
    "BF.LOADCHUNK",
    "BF.LOAD",
    "BF.DEBUG",
    "bf.insert",
    "bf.reserve",
    "BF.ADDPACKED",
    "BF.EXISTSPACKED",
    "bf.addpacked",
];

const WORDS: [&str; 51] = [
    "CAPACITY",
    "ERROR",
    "EXPANSION",
    "NOCREATE",
    "NONSCALING",
    "GROWING",
    "SEED",
    "LAYOUT",
    "BLOCKED",
    "CLASSIC",
    "ITEMS",
    "LINES",
    "WIDTH",
    "PREFIXED",
    "COUNT",
    "SIZE",
    "FILTERS",
    "FULL",
    "items",
    "",
    "0",
    "1",
    "2",
    "-1",
    "100",
    "32768",
    "1000",
    "4096",
    "0.01",
    "0.5",
    "1e-9",
    "1e-300",
    "5e-324",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "0x1p-3",
    "1099511627776",
    "1099511627777",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
    "\0",
    "a\n\nb",
    "\u{1}\0\0\0a",
    "\0\0\0\0\u{7f}\0\0\0",
    "\u{ff}",
];

/// One argument: a word that means something, or bytes that do not.
pub fn argument(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..10) {
        0 => (0..random.random_range(0..40)).map(|_| random.random()).collect(),
        1 => random.random_range(0..200_u32).to_string().into_bytes(),
        _ => WORDS.choose(random).unwrap().as_bytes().to_vec(),
    }
}

/// How the items of a packed command may be packed.
fn form(random: &mut StdRng) -> Vec<Vec<u8>> {
    match random.random_range(0..4) {
        0 => vec![b"LINES".to_vec()],
        1 => vec![b"PREFIXED".to_vec()],
        2 => vec![b"WIDTH".to_vec(), b"1".to_vec()],
        _ => vec![b"WIDTH".to_vec(), argument(random)],
    }
}

/// One command: mostly of the right shape, so that it gets past the first check.
fn command(random: &mut StdRng) -> Vec<Vec<u8>> {
    let name = NAMES.choose(random).unwrap();
    let mut command = vec![name.as_bytes().to_vec()];
    if random.random_bool(0.98) {
        let keys = ["a", "b", "c", "d", "text", "default", "chain", "nonscaling"];
        command.push(keys.choose(random).unwrap().as_bytes().to_vec());
    }
    if name.eq_ignore_ascii_case("BF.RESERVE") && random.random_bool(0.7) {
        command.extend(["0.01", "100"].map(|word| word.as_bytes().to_vec()));
    }
    let more = if random.random_bool(0.05) { 300 } else { 6 };
    command.extend((0..random.random_range(0..more)).map(|_| argument(random)));
    if name.eq_ignore_ascii_case("BF.INSERT") && random.random_bool(0.7) {
        command.push(b"ITEMS".to_vec());
        command.push(argument(random));
    }
    if name.to_uppercase().ends_with("PACKED") && random.random_bool(0.8) {
        // Few words before the form, or one of them is wrong almost always.
        command.truncate(2 + random.random_range(0..3));
        command.extend(form(random));
        command.push(argument(random));
    }
    command
}

/// Anyone who may send commands could take the server down, with all that it holds.
#[test]
fn random_commands_are_answered_and_harm_nothing() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::with().module_args("bf-max-filter-bytes 10000000").start();
    let mut clients = [server.client(), server.client3()];
    filters::make(&mut clients[0]);
    clients[0].run("SET text value");
    clients[0].run("BF.MADD untouched a b c");
    let untouched = clients[0].dump("untouched");
    for number in 0..sample(COMMANDS) {
        let client = &mut clients[number % 2];
        let command = command(&mut random);
        client.call(&command);
        if number % 50 == 0 {
            assert_eq!(
                client.run("PING"),
                Reply::Simple("PONG".into()),
                "one reply too many, or too few"
            );
            client.run(["DEL a", "DEL b", "DEL c", "DEL d"][number / 50 % 4]);
        }
    }
    for mut client in clients {
        assert_eq!(client.dump("untouched"), untouched);
        assert_eq!(client.run("GET text"), Reply::Bulk(b"value".to_vec()));
        assert_eq!(
            client
                .over("BF.MEXISTS untouched", &["a", "b", "c"])
                .elements()
                .len(),
            3
        );
    }
    assert_eq!(
        server.client().run("BF.MEXISTS untouched a b c"),
        array([1, 1, 1])
    );
    assert!(server.is_alive());
    assert!(!server.log().contains("BUG REPORT"));
}
