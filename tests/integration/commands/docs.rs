//! COMMAND DOCS and COMMAND INFO: what a client library is generated from, and what redis-cli shows while one types.

use crate::client::{Client, Reply};
use crate::server::{Server, skip};
use crate::support::table::{COMMANDS, KEYLESS, READING, WRITING};

/// Options that describe a filter, but for the seed and the layout.
const OPTIONS: &str = "[EXPANSION expansion:integer] [NONSCALING] [GROWING]@0.3.0 [SEED seed:integer]@0.3.0 \
                       [LAYOUT layout(BLOCKED|CLASSIC|VALKEY)]@0.3.0 [TIGHTENING tightening:double]@0.3.0 \
                       [VALIDATESCALETO validatescaleto:integer]@0.3.0 [WINDOW window:integer]@0.3.0 \
                       [SLICES slices:integer]@0.3.0 [REFRESH]@0.3.0";

/// When a window is told that items are added, or that its slice ends.
const TIME: &str = "[AT at:integer]@0.3.0";

/// The options for the key in the description of a command that creates one.
const KEY_OPTIONS: &str = "[expiration(EX seconds:integer@0.3.0|PX milliseconds:integer@0.3.0|\
                           EXAT unix-time-seconds:unix-time@0.3.0|\
                           PXAT unix-time-milliseconds:unix-time@0.3.0)]";

/// A list of arguments in one line: `[TOKEN name:type]...`, where brackets make it optional, dots
/// repeat it, and a version is that of this module which had it first.
fn synopsis(arguments: &Reply, separator: &str) -> String {
    let one = |argument: &Reply| {
        let fields = argument.fields();
        let field = |name: &str| {
            let found = fields.iter().find(|(field, _)| field == name);
            found.map(|(_, value)| value.clone())
        };
        let (name, kind) = (argument.field("name").text(), argument.field("type").text());
        let token = field("token").map(|token| token.text());
        let value = match kind.as_str() {
            "pure-token" => {
                assert_eq!(token.as_deref(), Some(&*name.to_uppercase()), "{argument:?}");
                String::new()
            }
            "oneof" => format!("{name}({})", synopsis(&argument.field("arguments"), "|")),
            _ => format!("{name}:{kind}"),
        };
        let key = (kind == "key").then(|| i64::from(name == "source").into());
        assert_eq!(field("key_spec_index"), key, "{argument:?}");
        let words: Vec<_> = token
            .into_iter()
            .chain(Some(value))
            .filter(|word| !word.is_empty())
            .collect();
        let flags = field("flags").map_or_else(Vec::new, |flags| {
            flags.elements().iter().map(Reply::text).collect::<Vec<_>>()
        });
        let mut text = words.join(" ");
        for flag in flags {
            text = match flag.as_str() {
                "optional" => format!("[{text}]"),
                "multiple" => format!("{text}..."),
                other => panic!("{other}: {argument:?}"),
            };
        }
        match field("since") {
            Some(version) => format!("{text}@{}", version.text()),
            None => text,
        }
    };
    arguments
        .elements()
        .iter()
        .map(one)
        .collect::<Vec<_>>()
        .join(separator)
}

fn docs(client: &mut Client, command: &str) -> Reply {
    let docs = client.call(&["COMMAND", "DOCS", command]);
    let fields = docs.fields();
    assert_eq!(fields.len(), 1, "{command}: {docs:?}");
    assert_eq!(fields[0].0, command.to_lowercase());
    fields[0].1.clone()
}

/// redis-cli would show no hints, and a client library that is generated from the server's own description would
/// leave a command or an option out.
#[test]
fn every_command_is_described() {
    if !Server::version().at_least(7, 0) {
        skip!("this server keeps no descriptions of commands");
    }
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        for (command, _, since, arguments, complexity, summary) in COMMANDS {
            let docs = docs(&mut client, command);
            for (field, expected) in [
                ("summary", summary),
                ("since", since),
                ("group", "module"),
                ("module", "bf"),
                ("complexity", complexity),
            ] {
                assert_eq!(docs.field(field).text(), expected, "{command} {field}");
            }
            assert_eq!(
                synopsis(&docs.field("arguments"), " "),
                arguments
                    .replace("{options}", OPTIONS)
                    .replace("{time}", TIME)
                    .replace("{key}", KEY_OPTIONS),
                "{command}"
            );
        }
    }
}

/// Of a command that is missing in the table nobody would know whether it is described.
#[test]
fn the_table_has_every_command() {
    let mut listed: Vec<_> = READING.iter().chain(&WRITING).chain(&KEYLESS).copied().collect();
    let mut described: Vec<_> = COMMANDS.iter().map(|command| command.0).collect();
    listed.sort_unstable();
    described.sort_unstable();
    assert_eq!(described, listed);
    if !Server::version().at_least(7, 0) {
        skip!("this server lists no commands of a module");
    }
    let registered = Server::start().client().run("COMMAND LIST FILTERBY MODULE bf");
    let mut registered: Vec<_> = registered
        .elements()
        .iter()
        .map(|name| name.text().to_uppercase())
        .collect();
    registered.sort();
    assert_eq!(registered, listed);
}

/// A client that counts arguments before it sends would refuse what the server takes; and a transaction with a
/// command that cannot be run would be run without it.
#[test]
fn the_server_counts_arguments() {
    if !Server::version().at_least(7, 0) {
        skip!("this server is not told how many arguments a command of a module takes");
    }
    let server = Server::start();
    let mut client = server.client();
    for (command, arity, ..) in COMMANDS {
        let info = client.call(&["COMMAND", "INFO", command]).elements()[0].clone();
        assert_eq!(info.elements()[1], arity.into(), "{command}");
        // Tips, of which none is about nodes: every command is for one, and any node answers alike. A cache of a
        // client's keeps answers about items; those about a filter would be old with the next add.
        let tips: Vec<_> = info.elements()[7].elements().iter().map(Reply::text).collect();
        let uncached = ["BF.INFO", "BF.SCANDUMP", "BF.DEBUG"].contains(&command);
        assert_eq!(
            tips,
            if uncached { &["dont_cache"][..] } else { &[] },
            "{command}"
        );
        client.run("MULTI");
        client.run("SET before value");
        let refused = client.call(&[command]);
        let text = format!(
            "ERR wrong number of arguments for '{}' command",
            command.to_lowercase()
        );
        assert_eq!(refused, Reply::Error(text));
        let aborted = "EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(client.run("EXEC"), Reply::Error(aborted.into()), "{command}");
        client.answers(&[("EXISTS before", 0.into())]);
    }
}

/// redis-cli would hint at an option that the command refuses.
#[test]
fn every_described_option_is_taken() {
    if !Server::version().at_least(7, 0) {
        skip!("this server keeps no descriptions of commands");
    }
    let server = Server::start();
    let mut client = server.client();
    let mut tried = 0;
    for (command, before, after) in [
        ("BF.RESERVE", "new 0.01 100", ""),
        ("BF.PLAN", "0.01 100", ""),
        ("BF.INSERT", "key", " ITEMS item"),
        ("BF.ADDPACKED", "key", " LINES item"),
        ("BF.EXISTSPACKED", "key", " LINES item"),
        ("BF.INFO", "key", ""),
        ("BF.MERGE", "new 1 key", ""),
    ] {
        let docs = docs(&mut client, command).field("arguments");
        for argument in docs.elements() {
            if !is_optional(argument) {
                continue;
            }
            let token = argument.fields().into_iter().find(|(name, _)| name == "token");
            let token = token.map_or(String::new(), |(_, token)| token.text());
            let values = match argument.field("type").text().as_str() {
                "pure-token" => vec![String::new()],
                "integer" => vec!["2".to_owned()],
                "double" => vec!["0.01".to_owned()],
                "string" => vec!["item".to_owned()],
                "oneof" => {
                    let choices = argument.field("arguments");
                    choices
                        .elements()
                        .iter()
                        .map(|choice| match choice.field("type").text().as_str() {
                            "pure-token" => choice.field("token").text(),
                            _ => format!("{} 4000000000", choice.field("token").text()),
                        })
                        .collect()
                }
                other => panic!("{other}: {argument:?}"),
            };
            for value in values {
                client.run("DEL key new");
                let (made, beside) = match (command, &*token) {
                    // A filter in valkey-bloom's layout has every field that BF.INFO knows.
                    ("BF.INFO", _) => ("BF.INSERT key LAYOUT VALKEY ITEMS item", ""),
                    (_, "SLICES" | "REFRESH") => ("BF.ADD key item", "WINDOW 1000"),
                    _ => ("BF.ADD key item", ""),
                };
                client.run(made);
                let line = format!("{command} {before} {beside} {token} {value}{after}");
                let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
                let reply = client.run(&line);
                assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 17 + 12 + 21 + 21 + 1 + 9 + 2);
}

fn is_optional(argument: &Reply) -> bool {
    let flags = argument.fields().into_iter().find(|(name, _)| name == "flags");
    flags.is_some_and(|(_, flags)| flags.elements().iter().any(|flag| flag.text() == "optional"))
}
