//! What the server tells others about the commands.

use crate::client::{Reply, error};
use crate::server::Server;
use crate::support::table::{KEYLESS, READING, WRITING, typical};

/// Commands in which an argument says how many keys follow the first one.
const COUNTING: [&str; 2] = ["BF.MERGE", "BF.INTERSECT"];

/// A cluster client or a proxy would send a command to the wrong place, or to a replica that refuses it; a
/// server would not know which commands change a key.
#[test]
fn the_server_knows_the_key_of_every_command_and_what_happens_to_it() {
    let server = Server::start();
    let mut client = server.client();
    for command in READING.iter().chain(&WRITING) {
        let words = typical(command, "the key");
        let get_keys: Vec<_> = ["COMMAND", "GETKEYS"]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .collect();
        let keys = if COUNTING.contains(command) { 2 } else { 1 };
        assert_eq!(
            client.call(&get_keys),
            Reply::Array(vec![Reply::Bulk(b"the key".to_vec()); keys])
        );
        let info = client.call(&["COMMAND", "INFO", command]).elements()[0].clone();
        let reads = READING.contains(command);
        let flags: Vec<_> = info.elements()[2].elements().iter().map(Reply::text).collect();
        for (flag, expected) in [
            ("readonly", reads),
            ("write", !reads),
            // What only lets memory go is for a full server too.
            ("denyoom", !reads && !["BF.RESET", "BF.SHRINK"].contains(command)),
            // A key may hold any number of layers, and each is asked.
            ("fast", false),
        ] {
            assert_eq!(
                flags.iter().any(|given| given == flag),
                expected,
                "{command} {flag}: {flags:?}"
            );
        }
        let positions: Vec<_> = info.elements()[3..6].iter().map(Reply::int).collect();
        assert_eq!(positions, [1, 1, 1], "{command}");
        if Server::version().at_least(7, 0) {
            let specs = &info.elements()[8];
            assert_eq!(specs.elements().len(), keys, "{command}: {specs:?}");
            let spec = &specs.elements()[0];
            let flags: Vec<_> = spec.field("flags").elements().iter().map(Reply::text).collect();
            let expected = match *command {
                "BF.RESERVE" | "BF.LOAD" => &["OW", "insert"][..],
                "BF.LOADCHUNK" => &["RW", "insert"],
                "BF.RESET" => &["RW", "delete"],
                "BF.EXCEPT" => &["RW", "access", "delete"],
                "BF.MERGE" | "BF.SHRINK" => &["RW", "update"],
                "BF.INTERSECT" => &["OW", "update"],
                "BF.ADD" | "BF.MADD" | "BF.INSERT" | "BF.ADDPACKED" => &["RW", "access", "insert"],
                _ => &["RO", "access"],
            };
            assert_eq!(flags, expected, "{command}");
            let begin = spec.field("begin_search");
            assert_eq!(begin.field("type").text(), "index", "{command}");
            assert_eq!(begin.field("spec").field("index"), 1.into(), "{command}");
            let find = spec.field("find_keys");
            assert_eq!(find.field("type").text(), "range", "{command}");
            for (field, value) in [("lastkey", 0), ("keystep", 1), ("limit", 0)] {
                assert_eq!(find.field("spec").field(field), value.into(), "{command} {field}");
            }
            let Some(sources) = specs.elements().get(1) else {
                continue;
            };
            let flags: Vec<_> = sources
                .field("flags")
                .elements()
                .iter()
                .map(Reply::text)
                .collect();
            assert_eq!(flags, ["RO", "access"], "{command}");
            let begin = sources.field("begin_search");
            assert_eq!(begin.field("type").text(), "index", "{command}");
            assert_eq!(begin.field("spec").field("index"), 2.into(), "{command}");
            let find = sources.field("find_keys");
            assert_eq!(find.field("type").text(), "keynum", "{command}");
            for (field, value) in [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)] {
                assert_eq!(find.field("spec").field(field), value.into(), "{command} {field}");
            }
        }
    }
}

/// A cluster client would ask the wrong node for a filter, and a user read one that is not for him; a number that is
/// none could end the server, which looks for the keys before the command is run.
#[test]
fn the_server_knows_as_many_sources_as_there_are() {
    let server = Server::start();
    let mut client = server.client();
    for command in COUNTING {
        let mut get_keys = |rest: &str| client.run(&format!("COMMAND GETKEYS {command} {rest}"));
        for (rest, keys) in [
            ("to 1 a", "to a"),
            ("to 2 a to", "to a to"),
            ("to 3 a a b", "to a a b"),
            ("1 1 1", "1 1"),
            ("to 1 a ERROR 0.1 OVERRIDE", "to a"),
            ("to 2 ERROR OVERRIDE unknown", "to ERROR OVERRIDE"),
        ] {
            let keys = keys.split(' ').map(|key| Reply::Bulk(key.as_bytes().to_vec()));
            assert_eq!(get_keys(rest), Reply::Array(keys.collect()), "{command} {rest}");
        }
        // Redis 7.0 and 7.2 ask for memory for so many keys before they look whether they are there.
        for numkeys in [
            "0",
            "-1",
            "-2147483648",
            "-9223372036854775808",
            "-9223372036854775809",
            "2",
            "1000000",
            "2147483647",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551617",
            "99999999999999999999999999999999999999999",
            "x",
            "''",
            "01",
            "1.0",
            "+1",
        ] {
            let refused = error("ERR Invalid arguments specified for command");
            assert_eq!(
                get_keys(&format!("to {numkeys} a")),
                refused,
                "{command} {numkeys}"
            );
        }
        // Of more than 32 bits a server may keep the lower ones; the command takes them all.
        get_keys("to 4294967297 a");
        client.answers(&[(
            &format!("{command} to 4294967297 a"),
            error("ERR there are fewer sources than numkeys says"),
        )]);
    }
    assert!(server.is_alive());
}

/// A cluster client would look for a key in what is none, and send the question to the wrong node or refuse it.
#[test]
fn a_command_without_a_key_has_none() {
    let server = Server::start();
    let mut client = server.client();
    for command in KEYLESS {
        let info = client.call(&["COMMAND", "INFO", command]).elements()[0].clone();
        let mut flags: Vec<_> = info.elements()[2].elements().iter().map(Reply::text).collect();
        flags.retain(|flag| flag != "module");
        flags.sort();
        assert_eq!(flags, ["readonly"], "{command}");
        let positions: Vec<_> = info.elements()[3..6].iter().map(Reply::int).collect();
        assert_eq!(positions, [0, 0, 0], "{command}");
        if Server::version().at_least(7, 0) {
            assert_eq!(info.elements()[8], Reply::Array(Vec::new()), "{command}");
        }
        let keys = client.call(&["COMMAND", "GETKEYS", command, "0.01", "100"]);
        let text = if Server::version().at_least(7, 0) {
            "ERR The command has no key arguments"
        } else {
            "ERR Invalid arguments specified for command"
        };
        assert_eq!(keys, Reply::Error(text.into()));
    }
}
