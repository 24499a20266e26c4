//! Loading the module where another one has what it needs: a module that takes it is compiled for the test.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::{Client, Reply, WRONG_TYPE, array, error, ok};
use crate::server::{Server, Version, skip};
use crate::support::table::{READING, WRITING, typical};

const REFUSED: &str = "ERR Error loading the extension. Please check the server logs.";
const STAYS: &str =
    "ERR Error unloading module: the module exports one or more module-side data types, can't unload";
const WHAT_TO_DO: &str = "only one module for Bloom filters can be loaded: remove the other one, which the log or MODULE LIST names; in Redis 8's image, mount this one over redisbloom.so";
const SQUATTER: &str = include_str!("../../fixtures/modules/squatter.c");

/// The signal of a crash, SIGSEGV on every system.
const SEGMENTATION_FAULT: i32 = 11;

/// Every command of the module.
fn commands() -> impl Iterator<Item = &'static str> {
    WRITING.into_iter().chain(READING)
}

/// Compiles the other module into `dir`; `None` on a machine without a C compiler.
fn squatter(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("squatter.c"), dir.join("squatter.so"));
    fs::write(&source, SQUATTER).unwrap();
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(library)
}

fn load(client: &mut Client, path: &Path, arguments: &[&str]) -> Reply {
    let mut command = vec!["MODULE", "LOAD", path.to_str().unwrap()];
    command.extend(arguments);
    client.call(&command)
}

/// The names of the loaded modules that a test knows; Valkey 9 has one of its own.
fn modules(client: &mut Client) -> Vec<String> {
    let list = client.run("MODULE LIST");
    let names = list.elements().iter().map(|module| module.field("name").text());
    let mut names: Vec<_> = names
        .filter(|name| ["bf", "squatter"].contains(&&**name))
        .collect();
    names.sort();
    names
}

/// Whether BF.ADD is in the ACL category of this module.
fn has_category(client: &mut Client) -> bool {
    let info = client.run("COMMAND INFO BF.ADD").elements()[0].clone();
    let categories = info.elements()[6].elements();
    categories.iter().any(|name| name.text() == "@bloom")
}

/// The module is refused, and the log says `why` in a line of its own that nobody has to guess from.
fn is_refused(server: &Server, path: &Path, why: &str) {
    let earlier = server.log().len();
    assert_eq!(load(&mut server.client(), path, &[]), error(REFUSED), "{why}");
    let log = server.log().split_off(earlier);
    let line =
        format!("the module for Bloom filters is not loaded: another module has {why}: {WHAT_TO_DO}\n");
    assert_eq!(log.matches(&line).count(), 1, "no line {line:?} in:\n{log}");
}

/// The module that is loaded works, and the server saves and loads what it has.
fn works(client: &mut Client, key: &str) {
    client.answers(&[
        (&format!("BF.RESERVE {key} 1e-9 100 SEED 1"), ok()),
        (&format!("BF.MADD {key} a b a"), array([1, 1, 0])),
        ("DEBUG RELOAD", ok()),
        (&format!("BF.MEXISTS {key} a b c"), array([1, 1, 0])),
        (&format!("BF.CARD {key}"), 2.into()),
    ]);
    let (header, data) = match client.call(&["BF.SCANDUMP", key, "0"]).elements() {
        [header, data] => (header.int(), data.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(header, 1);
    let loadchunk = [&b"BF.LOADCHUNK"[..], b"loaded", b"1", data.bytes()];
    assert_eq!(client.call(&loadchunk), ok());
    client.answers(&[("BF.CARD loaded", 2.into()), ("DEL loaded", 1.into())]);
}

/// A configuration that names the module twice would leave a server in an unknown state, and its operator
/// with a log that says only that something failed.
#[test]
fn a_second_copy_is_refused_and_the_first_goes_on() {
    // What the guide shows of the log.
    let guide = include_str!("../../../docs/install.md");
    let line = format!(
        "\nthe module for Bloom filters is not loaded: another module has the name 'bf': {WHAT_TO_DO}\n"
    );
    assert!(guide.contains(&line), "{line}");
    let server = Server::start();
    let mut client = server.client();
    works(&mut client, "before");
    let copy = server.dir().join("copy.so");
    fs::copy(Server::module(), &copy).unwrap();
    for path in [Server::module(), &copy, Server::module()] {
        is_refused(&server, path, "the name 'bf'");
        assert_eq!(modules(&mut client), ["bf"]);
    }
    client.answers(&[("BF.MEXISTS before a b c", array([1, 1, 0]))]);
    // Nobody could read the filters after an unload, so the server refuses one.
    client.answers(&[("MODULE UNLOAD bf", error(STAYS))]);
    works(&mut client, "after");
    assert!(server.is_alive());
}

/// A server would start with half of what its configuration asks for, or end without a reason.
#[test]
fn a_configuration_with_two_copies_does_not_start_and_the_log_says_why() {
    let log = Server::with()
        .config("loadmodule", Server::module().display())
        .try_start()
        .err();
    let log = log.unwrap_or_else(|| panic!("the server starts with two copies"));
    let line = format!("another module has the name 'bf': {WHAT_TO_DO}\n");
    assert_eq!(log.matches(&line).count(), 1, "{log}");
}

/// An operator's typing error would take the server down, at the next load of its data.
#[test]
fn an_option_out_of_its_range_stops_the_load_and_leaves_nothing_behind() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no MODULE LOADEX");
    }
    let server = Server::with().without_module().start();
    let mut client = server.client();
    let option = Server::option("error-rate");
    let loadex = |client: &mut Client, rate: &str| {
        let path = Server::module().to_str().unwrap();
        client.call(&["MODULE", "LOADEX", path, "CONFIG", &option, rate])
    };
    for _ in 0..2 {
        assert_eq!(loadex(&mut client, "5"), error(REFUSED));
        assert_eq!(modules(&mut client), Vec::<String>::new());
        // The server tells those who listen that it loads its data.
        client.answers(&[
            ("DEBUG RELOAD", ok()),
            (&format!("CONFIG GET {option}"), array::<Reply>([])),
        ]);
        assert!(server.is_alive());
    }
    let line = format!(
        "the module for Bloom filters is not loaded: option {option} '5': error-rate must be in the range (0, 1)\n"
    );
    assert_eq!(server.log().matches(&line).count(), 2, "{}", server.log());
    assert_eq!(loadex(&mut client, "0.001"), ok());
    assert_eq!(modules(&mut client), ["bf"]);
    assert_eq!(
        has_category(&mut client),
        Server::version().modules_make_categories()
    );
    client.answers(&[(
        &format!("CONFIG GET {option}"),
        array([&*option, "0.001"].map(|text| Reply::Bulk(text.into()))),
    )]);
    works(&mut client, "key");
}

/// Whoever loads the module again and again with a typing error, as a supervisor may, would take the server's memory:
/// with the module go the ways to what it holds.
#[test]
fn a_refused_load_leaves_no_memory_behind() {
    const LOADS: i64 = 200;
    let server = Server::with().without_module().start();
    let mut client = server.client();
    let mut refused = |loads| {
        for _ in 0..loads {
            let arguments = ["INITIAL_SIZE", "7", "ERROR_RATE", "5"];
            assert_eq!(load(&mut client, Server::module(), &arguments), error(REFUSED));
        }
        client.used_memory()
    };
    // The first ones warm the server up, on arm64 the first 400.
    let mut before = refused(20);
    let rounds = (1..=10).find(|_| {
        let more = refused(LOADS) - before;
        before += more;
        more < 40 * LOADS
    });
    let rounds = rounds.expect("each 200 refused loads left 8000 bytes and more");
    let line = "the module for Bloom filters is not loaded: load argument 'ERROR_RATE': error-rate must be in the range (0, 1)\n";
    let lines = server.log().matches(line).count();
    assert_eq!(lines as i64, 20 + rounds * LOADS, "{}", server.log());
}

/// What a server does about an option that no module has. It looks for these when the module is loaded already,
/// and then wants it out again; a module that has a data type cannot be taken out, and each server finds another
/// way from there.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// An error is answered, and the module is loaded all the same.
    Stays,
    /// The server crashes.
    Crashes,
    /// An error is answered, and the module is gone, with its data type.
    IsTakenOut,
}

impl Outcome {
    /// What the servers do that were looked at; others may have been fixed since.
    fn known(version: Version) -> Option<Self> {
        match (version.valkey, version.major, version.minor, version.patch) {
            (false, 7, 0, _) => Some(Self::Stays),
            (false, 7, 2, 6) | (false, 7, 4, 1) => Some(Self::Crashes),
            (true, 8, 0, 1) | (true, 8, 1, 1) | (true, 9, 1, 2) => Some(Self::Crashes),
            (false, 8, 0, 2) => Some(Self::IsTakenOut),
            _ => None,
        }
    }
}

/// Half of a module left behind would end the server later, and a typing error in the one command must not cost
/// what the server has. What it itself does about the error is in docs/configuration.md.
#[test]
fn an_option_that_nobody_has_costs_no_data_and_leaves_no_half_of_the_module() {
    let version = Server::version();
    if !version.at_least(7, 0) {
        skip!("this server has no MODULE LOADEX");
    }
    let setup = Server::with().without_module().append_only();
    let mut server = setup.config("crash-memcheck-enabled", "no").start();
    let mut client = server.client();
    client.answers(&[("SET written before", ok())]);
    let path = Server::module().to_str().unwrap();
    client
        .send(&["MODULE", "LOADEX", path, "CONFIG", "bf.nonsense", "1"])
        .unwrap();
    let outcome = match client.receive() {
        Err(_) => Outcome::Crashes,
        Ok(reply) => {
            assert_eq!(reply, error(REFUSED));
            if modules(&mut client).is_empty() {
                Outcome::IsTakenOut
            } else {
                Outcome::Stays
            }
        }
    };
    if let Some(known) = Outcome::known(version) {
        assert_eq!(outcome, known);
    }
    if outcome == Outcome::Crashes {
        // The server's own undoing: no code of the module is on the stack.
        assert_eq!(server.end().signal(), Some(SEGMENTATION_FAULT));
        let log = server.log();
        assert!(log.contains("Unloading the module."), "{log}");
        assert!(
            !log.contains(&format!("{path}(")),
            "the module is on the stack:\n{log}"
        );
        server.revive();
        client = server.client();
    }
    client.answers(&[
        ("GET written", Reply::Bulk("before".into())),
        ("DBSIZE", 1.into()),
    ]);
    if outcome != Outcome::Stays {
        assert_eq!(modules(&mut client), Vec::<String>::new());
        for command in commands() {
            let reply = client.call(&typical(command, "key"));
            assert!(
                matches!(&reply, Reply::Error(text) if text.to_lowercase().starts_with("err unknown command")),
                "{command} is left over: {reply:?}"
            );
        }
        client.answers(&[("DEBUG RELOAD", ok())]);
        assert_eq!(load(&mut client, Server::module(), &[]), ok());
    }
    assert_eq!(modules(&mut client), ["bf"]);
    assert_eq!(has_category(&mut client), version.modules_make_categories());
    works(&mut client, "key");
    client.answers(&[("GET written", Reply::Bulk("before".into()))]);
    assert!(server.is_alive());
}

/// A rule that takes `@bloom` away would leave the commands, because another module had the category first.
#[test]
fn a_category_that_another_module_has_is_shared() {
    if !Server::version().modules_make_categories() {
        skip!("this server has no categories of modules");
    }
    let server = Server::with().without_module().start();
    let mut client = server.client();
    let Some(squatter) = squatter(server.dir()) else {
        skip!("this machine has no C compiler")
    };
    assert_eq!(load(&mut client, &squatter, &["category", "bloom"]), ok());
    assert_eq!(load(&mut client, Server::module(), &[]), ok());
    assert_eq!(modules(&mut client), ["bf", "squatter"]);
    assert!(has_category(&mut client));
    works(&mut client, "key");
    client.answers(&[
        ("ACL SETUSER user on nopass ~* +@all -@bloom", ok()),
        (
            "ACL DRYRUN user BF.EXISTS key a",
            Reply::Bulk(b"User user has no permissions to run the 'bf.exists' command".into()),
        ),
    ]);
}

/// A server whose modules have many categories would refuse this one, or its operator would take the commands to
/// be in the category.
#[test]
fn a_category_that_cannot_be_made_is_named_in_the_log_and_stops_nothing() {
    if !Server::version().modules_make_categories() {
        skip!("this server has no categories of modules");
    }
    let server = Server::with().without_module().start();
    let mut client = server.client();
    let Some(squatter) = squatter(server.dir()) else {
        skip!("this machine has no C compiler")
    };
    assert_eq!(load(&mut client, &squatter, &["categories", "other"]), ok());
    assert_eq!(load(&mut client, Server::module(), &[]), ok());
    assert_eq!(modules(&mut client), ["bf", "squatter"]);
    assert!(!has_category(&mut client));
    let line = "no command is in the ACL category 'bloom', which could not be made: ";
    assert_eq!(server.log().matches(line).count(), 1, "{}", server.log());
    works(&mut client, "key");
    client.answers(&[
        ("ACL SETUSER reader on nopass ~* +@read", ok()),
        ("ACL DRYRUN reader BF.EXISTS key a", ok()),
    ]);
}

/// Beside a module with commands of the same names, some would be served by one and some by the other.
#[test]
fn a_command_that_another_module_has_stops_the_load_and_is_named() {
    let server = Server::with().without_module().start();
    let mut client = server.client();
    let Some(squatter) = squatter(server.dir()) else {
        skip!("this machine has no C compiler")
    };
    for name in commands() {
        assert_eq!(
            load(&mut client, &squatter, &["command", &name.to_lowercase()]),
            ok(),
            "{name}"
        );
        is_refused(&server, Server::module(), &format!("the command {name}"));
        for other in commands() {
            let reply = client.call(&[other]);
            if other == name {
                assert_eq!(reply, Reply::Simple("squatter".into()));
            } else {
                assert!(
                    matches!(&reply, Reply::Error(text) if text.to_lowercase().starts_with("err unknown command")),
                    "{other} is left over: {reply:?}"
                );
            }
        }
        assert_eq!(modules(&mut client), ["squatter"]);
        client.answers(&[("MODULE UNLOAD squatter", ok())]);
    }
    assert_eq!(load(&mut client, Server::module(), &[]), ok());
    assert_eq!(modules(&mut client), ["bf"]);
    works(&mut client, "key");
}

/// Two modules would write values under one name in a file, and neither could read the other's.
#[test]
fn a_data_type_or_a_name_that_another_module_has_stops_the_load_and_is_named() {
    for (kind, name, why) in [
        ("type", "MBbloom--", "the data type 'MBbloom--'"),
        ("type", "bloomfltr", "the data type 'bloomfltr'"),
        ("name", "bf", "the name 'bf'"),
    ] {
        let server = Server::with().without_module().start();
        let mut client = server.client();
        let Some(squatter) = squatter(server.dir()) else {
            skip!("this machine has no C compiler")
        };
        assert_eq!(load(&mut client, &squatter, &[kind, name]), ok());
        for _ in 0..2 {
            is_refused(&server, Server::module(), why);
        }
        assert_eq!(modules(&mut client).len(), 1);
        assert!(server.is_alive());
    }
}

/// The value of another module would be read as if it were a filter: a crash, or worse.
#[test]
fn a_value_of_another_module_is_no_filter() {
    let server = Server::start();
    let mut client = server.client();
    let Some(squatter) = squatter(server.dir()) else {
        skip!("this machine has no C compiler")
    };
    assert_eq!(load(&mut client, &squatter, &["values", "squatters"]), ok());
    client.answers(&[("SQUATTER.VALUE key", ok())]);
    for command in commands() {
        let words = typical(command, "key");
        assert_eq!(client.call(&words), error(WRONG_TYPE), "{command}");
    }
    client.answers(&[
        ("BF.MERGE new 1 key", error(WRONG_TYPE)),
        ("BF.INTERSECT new 1 key", error(WRONG_TYPE)),
        ("TYPE key", Reply::Simple("squatters".into())),
        ("EXISTS new", 0.into()),
    ]);
}

/// Another module could take over a command or the data type of filters that are in use.
#[test]
fn what_this_module_has_no_other_module_gets() {
    let server = Server::start();
    let mut client = server.client();
    let Some(squatter) = squatter(server.dir()) else {
        skip!("this machine has no C compiler")
    };
    works(&mut client, "before");
    for name in commands() {
        let name = name.to_lowercase();
        assert_eq!(load(&mut client, &squatter, &["command", &name]), error(REFUSED));
    }
    for name in ["MBbloom--", "bloomfltr"] {
        assert_eq!(load(&mut client, &squatter, &["type", name]), error(REFUSED));
    }
    assert_eq!(modules(&mut client), ["bf"]);
    works(&mut client, "after");
    assert_eq!(load(&mut client, &squatter, &["command", "bf.other"]), ok());
    client.answers(&[
        ("BF.OTHER", Reply::Simple("squatter".into())),
        ("BF.CARD before", 2.into()),
    ]);
}
