//! Transcripts: `tests/transcripts` has commands and their replies as plain text. Each is replayed in RESP2 and in RESP3,
//! and what is refused changes nothing.
//!
//! `tests/transcripts/README.md` says how they are written.

use std::fs;
use std::path::Path;

use crate::client::{Client, Reply, bulk};
use crate::server::Server;
use crate::support::aof::propagated;

/// A reply as RESP2 has it, in the words of a transcript.
fn written(reply: &Reply) -> String {
    fn plain(reply: &Reply) -> Reply {
        match reply {
            Reply::Bool(value) => Reply::Int((*value).into()),
            Reply::Double(value) => bulk(value.to_string()),
            Reply::Array(all) => Reply::Array(all.iter().map(plain).collect()),
            Reply::Map(pairs) => Reply::Array(
                pairs
                    .iter()
                    .flat_map(|(name, value)| [plain(name), plain(value)])
                    .collect(),
            ),
            other => other.clone(),
        }
    }
    match plain(reply) {
        Reply::Error(text) => text,
        other => format!("{other:?}"),
    }
}

/// Each line with one of the words of every `{a|b}` in it.
fn alternatives(line: &str) -> Vec<String> {
    let found = line
        .find('{')
        .and_then(|from| Some((from, from + line[from..].find('}')?)));
    let Some((from, to)) = found.filter(|&(from, to)| line[from..to].contains('|')) else {
        return vec![line.to_owned()];
    };
    let all = line[from + 1..to].split('|');
    all.flat_map(|word| alternatives(&format!("{}{word}{}", &line[..from], &line[to + 1..])))
        .collect()
}

/// The words of a command. `''` is the empty one; `\n`, `\x20` and the like are bytes.
fn words(line: &str) -> Vec<Vec<u8>> {
    let word = |word: &str| {
        let (mut bytes, mut rest) = (Vec::new(), word);
        while let Some((before, after)) = rest.split_once('\\') {
            bytes.extend(before.bytes());
            let (byte, taken) = match after.as_bytes()[0] {
                b'n' => (b'\n', 1),
                b'r' => (b'\r', 1),
                b'x' => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
                other => (other, 1),
            };
            bytes.push(byte);
            rest = &after[taken..];
        }
        bytes.extend(rest.bytes());
        bytes
    };
    line.split(' ')
        .map(|text| if text == "''" { Vec::new() } else { word(text) })
        .collect()
}

/// Whether a text is the one that is written, in which a `*` is anything.
pub fn is_like(text: &str, foretold: &str) -> bool {
    let Some((head, rest)) = foretold.split_once('*') else {
        return text == foretold;
    };
    let mut tails = text
        .strip_prefix(head)
        .into_iter()
        .flat_map(|text| text.char_indices().map(|(at, _)| &text[at..]).chain([""]));
    tails.any(|tail| is_like(tail, rest))
}

/// A server that a transcript is replayed on.
struct Replay {
    server: Server,
    client: Client,
    /// How many commands its append-only file has, if it has one.
    sent: Option<usize>,
}

impl Replay {
    fn on(server: Server, connect: fn(&Server) -> Client) -> Self {
        let client = connect(&server);
        Self {
            server,
            client,
            sent: None,
        }
    }

    /// What is wrong with the reply to a command, if anything.
    fn replies(&mut self, command: &str, expected: &str) -> Option<String> {
        let before = self.client.run("DEBUG DIGEST");
        let reply = self.client.call(&words(command));
        let name = command.split(' ').next().unwrap().to_lowercase();
        let (expected, found) = (expected.replace("{name}", &name), written(&reply));
        let is_refused = matches!(&reply, Reply::Error(text) if !text.contains(" after "));
        let is_wrong = !is_like(&found, &expected) || is_refused && self.client.run("DEBUG DIGEST") != before;
        is_wrong.then(|| format!("{command} -> {found} in place of {expected}"))
    }

    /// What is wrong with what the append-only file gets of a command, if anything.
    fn sends(&mut self, command: &str, expected: &str) -> Option<String> {
        let expected = match expected {
            "nothing" => Vec::new(),
            "." => vec![words(command)],
            other => vec![words(other)],
        };
        let before = self.client.stat("persistence", "rdb_changes_since_last_save");
        self.client.call(&words(command));
        let is_dirty = self.client.stat("persistence", "rdb_changes_since_last_save") != before;
        let all = propagated(&self.server);
        let sent: Vec<Vec<Vec<u8>>> = all[self.sent.unwrap()..]
            .iter()
            .map(|words| words.iter().map(|word| word.clone().into_bytes()).collect())
            .collect();
        self.sent = Some(all.len());
        (sent != expected || is_dirty == expected.is_empty())
            .then(|| format!("{command} => {sent:?}, dirty {is_dirty}"))
    }
}

/// Replays a transcript, and returns what is otherwise.
fn replay(path: &Path, connect: fn(&Server) -> Client) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let (mut on, mut wrong) = (Replay::on(Server::start(), connect), Vec::new());
    let (mut forms, mut was_form) = (Vec::<&str>::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_form = line.starts_with("form ");
        if let Some(arguments) = line.strip_prefix("server") {
            on = Replay::on(Server::with().module_args(arguments).start(), connect);
        } else if let Some(arguments) = line.strip_prefix("append-only") {
            on = Replay::on(
                Server::with().module_args(arguments).append_only().start(),
                connect,
            );
            on.sent = Some(0);
        } else if let Some(form) = line.strip_prefix("form ") {
            if !was_form {
                forms.clear();
            }
            forms.push(form);
        } else {
            let check = if line.contains(" => ") {
                Replay::sends
            } else {
                Replay::replies
            };
            let (command, expected) = line
                .split_once(" => ")
                .or_else(|| line.split_once(" -> "))
                .unwrap();
            let formed = || {
                forms
                    .iter()
                    .flat_map(|form| alternatives(&form.replace('…', command)))
                    .collect()
            };
            for command in command.strip_prefix("> ").map_or_else(formed, alternatives) {
                let what = check(&mut on, &command, expected);
                wrong.extend(what.map(|what| format!("{}:{}: {what}", path.display(), number + 1)));
            }
            // What only the reply is foretold of may be sent too.
            on.sent = on.sent.map(|_| propagated(&on.server).len());
        }
        was_form = is_form;
    }
    wrong
}

/// A user would get another error than the one that the pages explain, and look for his mistake in the wrong place; or
/// what is refused would change a filter.
#[test]
fn every_reply_is_the_one_in_its_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    assert!(files.len() >= 5);
    let wrong: Vec<_> = files
        .iter()
        .flat_map(|path| {
            [Server::client, Server::client3]
                .map(|connect| replay(path, connect))
                .concat()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
