//! Who may do what: the keys and categories that the commands declare, and what the server makes of them.

use crate::client::{Client, Reply, array, error, ok};
use crate::server::{Server, skip};
use crate::support::table::{KEYLESS, READING, WRITING, typical};

/// A server where a user may do what `rules` say.
fn user(server: &Server, rules: &str) -> Client {
    let line = format!("ACL SETUSER user reset on nopass -@all +ping {rules}");
    server.client().answers(&[(&line, ok())]);
    let mut client = server.client();
    client.answers(&[("AUTH user any", ok())]);
    client
}

/// The error for a command that the user may not run.
fn not_the_command(command: &str) -> Reply {
    let command = command.to_lowercase();
    let version = Server::version();
    error(&if version.at_least(7, 2) {
        format!("NOPERM User user has no permissions to run the '{command}' command")
    } else if version.at_least(7, 0) {
        format!("NOPERM this user has no permissions to run the '{command}' command")
    } else {
        format!("NOPERM this user has no permissions to run the '{command}' command or its subcommand")
    })
}

/// The error for a key that the user may not use so.
fn not_the_key() -> Reply {
    error(if Server::version().at_least(7, 2) {
        "NOPERM No permissions to access a key"
    } else {
        "NOPERM this user has no permissions to access one of the keys used as arguments"
    })
}

fn is_permitted(reply: &Reply) -> bool {
    !matches!(reply, Reply::Error(text) if text.starts_with("NOPERM"))
}

/// A user who is given the right to read would be refused, or one who may only read would change filters.
#[test]
fn the_commands_are_in_the_categories_of_reading_and_writing() {
    if !Server::version().at_least(7, 2) {
        skip!("this server knows no categories of modules' commands");
    }
    let server = Server::start();
    let mut client = server.client();
    let own = Server::version().modules_make_categories();
    // A reservation takes the same time for every size; all others with a key take longer where that has more layers.
    let by_speed = ["BF.RESERVE"];
    for command in READING.iter().chain(&WRITING) {
        let info = client.call(&["COMMAND", "INFO", command]).elements()[0].clone();
        let mut categories: Vec<_> = info.elements()[6].elements().iter().map(Reply::text).collect();
        categories.sort();
        let kind = if READING.contains(command) {
            "@read"
        } else {
            "@write"
        };
        let mut expected = vec![kind];
        if by_speed.contains(command) {
            expected.insert(0, "@fast");
        }
        if own {
            expected.insert(0, "@bloom");
        }
        assert_eq!(categories, expected, "{command}");
    }
    let all = client.run("ACL CAT");
    assert_eq!(
        all.elements()
            .iter()
            .filter(|name| name.text() == "bloom")
            .count(),
        usize::from(own)
    );
    if own {
        let listed = client.run("ACL CAT bloom");
        let mut listed: Vec<_> = listed
            .elements()
            .iter()
            .map(|name| name.text().to_uppercase())
            .collect();
        // Redis 7.4 and Valkey 8.0 name no command of a module here, and heed the category all the same.
        if !listed.is_empty() {
            let mut expected = [&READING[..], &WRITING, &KEYLESS].concat();
            listed.sort();
            expected.sort_unstable();
            assert_eq!(listed, expected);
        }
    } else {
        client.answers(&[("ACL CAT bloom", error("ERR Unknown category 'bloom'"))]);
    }
    for (rules, permitted) in [
        ("~* +@read", &READING[..]),
        ("~* +@write", &WRITING),
        ("~* +@fast", &by_speed),
        ("~* +@bloom", &[READING.as_slice(), &WRITING].concat()),
        ("~* +@all -@write", &READING),
        ("~* +@all -@bloom", &[]),
        ("~* +@bloom -@read", &WRITING),
    ] {
        if rules.contains("@bloom") && !own {
            let line = format!("ACL SETUSER user {rules}");
            let reply = server.client().run(&line);
            assert!(
                matches!(&reply, Reply::Error(text) if text.contains("@bloom")),
                "{rules}: {reply:?}"
            );
            continue;
        }
        server
            .client()
            .answers(&[("FLUSHALL", ok()), ("BF.ADD key item", 1.into())]);
        let mut client = user(&server, rules);
        for command in READING.iter().chain(&WRITING) {
            let reply = client.call(&typical(command, "key"));
            if permitted.contains(command) {
                assert!(is_permitted(&reply), "{rules} {command}: {reply:?}");
            } else {
                assert_eq!(reply, not_the_command(command), "{rules}");
            }
        }
    }
}

/// Where the server has no categories for modules, an operator who relies on them would be wrong in silence: a
/// rule that takes all writing commands away leaves these, as it leaves those of every module.
#[test]
fn without_categories_commands_are_given_and_taken_by_their_names() {
    if Server::version().at_least(7, 2) {
        skip!("this server knows categories of modules' commands");
    }
    let server = Server::start();
    server.client().answers(&[("BF.ADD key item", 1.into())]);
    let mut reader = user(&server, "~* +@read");
    let mut rest = user(&server, "~* +@read");
    for command in READING.iter().chain(&WRITING) {
        assert_eq!(reader.call(&typical(command, "key")), not_the_command(command));
    }
    server
        .client()
        .answers(&[("ACL SETUSER user +@all -@write -bf.madd", ok())]);
    for command in READING.iter().chain(&WRITING) {
        let reply = rest.call(&typical(command, "key"));
        if *command == "BF.MADD" {
            assert_eq!(reply, not_the_command(command));
        } else {
            assert!(is_permitted(&reply), "{command}: {reply:?}");
        }
    }
}

/// A user could read or change the filters of others.
#[test]
fn keys_outside_of_the_pattern_are_refused() {
    let server = Server::start();
    let mut admin = server.client();
    admin.answers(&[("BF.ADD cache:a item", 1.into()), ("BF.ADD other item", 1.into())]);
    let other = admin.dump("other");
    let mut client = user(&server, "~cache:* +@all");
    for command in READING.iter().chain(&WRITING) {
        let reply = client.call(&typical(command, "cache:a"));
        assert!(is_permitted(&reply), "{command}: {reply:?}");
        for key in ["other", "cache", "", "Cache:a", "missing"] {
            assert_eq!(
                client.call(&typical(command, key)),
                not_the_key(),
                "{command} {key:?}"
            );
        }
    }
    let script = "EVAL return{redis.pcall('BF.ADD',KEYS[1],'new').err~=nil} 1";
    assert_eq!(client.run(&format!("{script} other")), not_the_key());
    assert_eq!(admin.dump("other"), other);
    admin.answers(&[("EXISTS missing cache Cache:a", 0.into())]);
}

/// A service that only asks could not be kept from adding, which in a filter can never be undone.
#[test]
fn a_permission_to_read_keys_is_enough_to_ask_and_for_nothing_else() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no permissions to only read or write keys");
    }
    let server = Server::start();
    let mut admin = server.client();
    admin.answers(&[("BF.ADD cache:a item", 1.into()), ("BF.ADD other item", 1.into())]);
    let before = admin.dump("cache:a");
    let mut client = user(&server, "%R~cache:* +@all");
    client.answers(&[
        ("BF.EXISTS cache:a item", 1.into()),
        ("BF.MEXISTS cache:a item x", array([1, 0])),
        (
            "BF.EXISTSPACKED cache:a LINES item\nx",
            Reply::Bulk(b"\x80".to_vec()),
        ),
        ("BF.EXISTSPACKED cache:missing LINES COUNT item\nx", 0.into()),
        ("BF.CARD cache:a", 1.into()),
        ("BF.CARD cache:missing", 0.into()),
    ]);
    assert_eq!(client.info("cache:a", "Number of items inserted"), 1);
    assert_eq!(client.run("BF.SCANDUMP cache:a 0").elements()[0], 1.into());
    assert_eq!(client.run("BF.DEBUG cache:a").elements()[0].text(), "size:1");
    for command in READING {
        assert_eq!(
            client.call(&typical(command, "other")),
            not_the_key(),
            "{command}"
        );
    }
    for command in WRITING {
        for key in ["cache:a", "cache:new", "other"] {
            assert_eq!(
                client.call(&typical(command, key)),
                not_the_key(),
                "{command} {key}"
            );
        }
    }
    assert_eq!(admin.dump("cache:a"), before);
    admin.answers(&[("EXISTS cache:new", 0.into())]);

    // What adds to a filter also tells what was in it: both permissions are needed.
    let mut client = user(&server, "%W~cache:* +@all");
    for command in READING
        .iter()
        .chain(&["BF.ADD", "BF.MADD", "BF.INSERT", "BF.ADDPACKED", "BF.EXCEPT"])
    {
        for key in ["cache:a", "cache:new"] {
            assert_eq!(
                client.call(&typical(command, key)),
                not_the_key(),
                "{command} {key}"
            );
        }
    }
    assert_eq!(admin.dump("cache:a"), before);
    admin.answers(&[("EXISTS cache:new", 0.into())]);
    // The server wants both of one pattern.
    let mut client = user(&server, "%R~* %RW~cache:* +@all");
    for command in READING.iter().chain(&WRITING) {
        let reply = client.call(&typical(command, "cache:a"));
        assert!(is_permitted(&reply), "{command}: {reply:?}");
    }
    assert_eq!(client.run("BF.ADD other new"), not_the_key());
    client.answers(&[("BF.EXISTS other new", 0.into())]);
}

/// A job that makes filters, or puts dumps of them back, would have to be given the right to ask every one of them.
#[test]
fn a_permission_to_write_keys_is_enough_to_reserve_and_to_restore() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no permissions to only read or write keys");
    }
    let server = Server::start();
    let mut admin = server.client();
    admin.answers(&[("BF.MADD from a b", array([1, 1]))]);
    let mut pieces = Vec::new();
    let mut iterator = "0".to_owned();
    loop {
        let piece = admin.call(&["BF.SCANDUMP", "from", &iterator]);
        iterator = piece.elements()[0].int().to_string();
        if iterator == "0" {
            break;
        }
        pieces.push((iterator.clone(), piece.elements()[1].bytes().to_vec()));
    }
    let mut client = user(&server, "%W~cache:* +@all");
    client.answers(&[
        ("BF.RESERVE cache:new 0.01 100", ok()),
        ("BF.RESERVE cache:new 0.01 100", error("ERR item exists")),
    ]);
    assert_eq!(client.run("BF.RESERVE other 0.01 100"), not_the_key());
    for (key, permitted) in [("cache:copy", true), ("other", false)] {
        for (iterator, data) in &pieces {
            let words = [&b"BF.LOADCHUNK"[..], key.as_bytes(), iterator.as_bytes(), data];
            let expected = if permitted { ok() } else { not_the_key() };
            assert_eq!(client.call(&words), expected, "{key} {iterator}");
        }
    }
    assert_eq!(client.run("BF.EXISTS cache:copy a"), not_the_key());
    admin.answers(&[
        ("BF.MEXISTS cache:copy a b c", array([1, 1, 0])),
        ("EXISTS other", 0.into()),
    ]);
}

/// Who may add but not reserve would learn only from a failing program that the first addition makes a filter,
/// or that it does not.
#[test]
fn commands_are_given_one_by_one() {
    let server = Server::start();
    let mut client = user(&server, "~* +bf.add +bf.exists -bf.reserve");
    assert_eq!(
        client.run("BF.RESERVE key 0.01 100"),
        not_the_command("BF.RESERVE")
    );
    client.answers(&[
        ("BF.ADD key item", 1.into()),
        ("bf.add key item", 0.into()),
        ("BF.EXISTS key item", 1.into()),
    ]);
    for command in READING.iter().chain(&WRITING) {
        let reply = client.call(&typical(command, "key"));
        if ["BF.ADD", "BF.EXISTS"].contains(command) {
            assert!(is_permitted(&reply), "{command}: {reply:?}");
        } else {
            assert_eq!(reply, not_the_command(command));
        }
    }
    assert_eq!(server.client().info("key", "Capacity"), 100);
}

/// An operator who tries out the rules of a user would be told something else than the user is.
#[test]
fn a_dry_run_says_what_would_happen() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no dry runs");
    }
    let server = Server::start();
    let mut admin = server.client();
    user(&server, "%R~cache:* ~own:* +@all -bf.debug");
    let name = if Server::version().at_least(7, 2) {
        "User user"
    } else {
        "This user"
    };
    for command in READING.iter().chain(&WRITING) {
        for (key, readable, writable) in [
            ("cache:a", true, false),
            ("own:a", true, true),
            ("other", false, false),
        ] {
            let words = typical(command, key);
            let dry_run: Vec<_> = ["ACL", "DRYRUN", "user"]
                .into_iter()
                .chain(words.iter().map(String::as_str))
                .collect();
            let expected = if *command == "BF.DEBUG" {
                let text = format!("{name} has no permissions to run the 'bf.debug' command");
                Reply::Bulk(text.into_bytes())
            } else if if READING.contains(command) {
                readable
            } else {
                writable
            } {
                ok()
            } else {
                let text = format!("{name} has no permissions to access the '{key}' key");
                Reply::Bulk(text.into_bytes())
            };
            assert_eq!(admin.call(&dry_run), expected, "{words:?}");
        }
    }
    admin.answers(&[("DBSIZE", 0.into())]);
}
