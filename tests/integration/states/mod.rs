//! Every kind of filter, changed in every way in which filters change, on its way through everything that befalls a
//! server: one table, one loop, one set of assertions.
//!
//! `kinds.txt` and `changes.txt` have the kinds and the changes, [`ways`] has the ways. Each way has a filter for each
//! kind and change. They are made, go the way, are changed, and changed again at random, and go it once more. What a
//! client is told is held against a [`model`]: no item that a reply confirmed is denied, none is found that is not
//! there, counts and ends are right, and a command that is refused has its text and changes nothing. What a server has
//! after a way is what it had before, bit for bit and with the same figures, and those in INFO are their sums. At the
//! end every way has led to the same filters.
//!
//! A failure names the way, the key (its kind and its change) and the command. `BLOOM_TEST_SEED` repeats its random
//! changes, `BLOOM_TEST_WAY` goes the ways alone whose names contain it.

mod model;
mod ways;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::SystemTime;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::client::{Client, Reply, ok};
use crate::filters::figure;
use crate::server::{Server, sample, seed, until};
use crate::support::aof::propagated;
use crate::support::chunks::scandump;
use crate::support::link::in_step;
use crate::support::packed::bits;
use crate::transcripts::is_like;
use model::Models;
use ways::{WAYS, Way};

/// Ways at once. None has more than three servers at a time.
const AT_ONCE: usize = 3;

/// Random changes of each way.
const CHANGES_AT_RANDOM: usize = 300;

/// A row of `kinds.txt` or `changes.txt`.
struct Row {
    name: &'static str,
    /// What else a kind is.
    tags: Vec<&'static str>,
    lines: Vec<&'static str>,
    /// What is due to the first line, by what the filter is.
    errors: Vec<(&'static str, &'static str)>,
}

static KINDS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(include_str!("kinds.txt")));
static CHANGES: LazyLock<Vec<Row>> = LazyLock::new(|| rows(include_str!("changes.txt")));

fn rows(text: &'static str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(error) = line.strip_prefix("  - ") {
            rows.last_mut()
                .unwrap()
                .errors
                .push(error.split_once(": ").unwrap());
        } else if let Some(line) = line.strip_prefix("  ") {
            rows.last_mut().unwrap().lines.push(line);
        } else {
            let (name, tags) = line.split_once(": ").unwrap_or((line, ""));
            let tags = tags.split(' ').collect();
            rows.push(Row {
                name,
                tags,
                lines: Vec::new(),
                errors: Vec::new(),
            });
        }
    }
    rows
}

impl Row {
    fn is(&self, what: &str) -> bool {
        match what.strip_prefix('!') {
            Some(what) => !self.is(what),
            None => self.name == what || self.tags.contains(&what),
        }
    }
}

/// What everybody is asked for, besides what is never added.
static ASKED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let items = (0..10)
        .chain(280..330)
        .chain((10..500).step_by(5))
        .chain((500..2600).step_by(31));
    let items = items.map(|item| format!("i{item}"));
    let others = ["new", "newer", "nothing", "refused", "between", "own"].map(str::to_owned);
    items.chain(others).map(String::into_bytes).collect()
});

/// The time that `{@60}` counts from.
static NOW: LazyLock<i128> = LazyLock::new(now);

fn now() -> i128 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis()
        .cast_signed()
}

/// The key of a cell. All keys are of one slot.
fn key(kind: &Row, change: &Row) -> String {
    format!("{{s}}:{}:{}", kind.name, change.name)
}

/// The keys that {t} and {h} mean beside a key.
fn twin(key: &str) -> String {
    let [tag, kind] = [0, 1].map(|at| key.split(':').nth(at).unwrap());
    format!("{tag}:{kind}-twin")
}

fn filled(text: &str, key: &str) -> String {
    text.replace("{k}", key)
        .replace("{t}", &twin(key))
        .replace("{h}", &format!("{key}-here"))
}

/// The words of a line for a key.
fn words(line: &str, key: &str) -> Vec<Vec<u8>> {
    let range = |text: &str, by: &str| {
        let (from, to) = text.split_once(by)?;
        Some(
            (from.parse::<usize>().ok()?..to.parse().ok()?)
                .map(|item| format!("i{item}"))
                .collect::<Vec<_>>(),
        )
    };
    let words = line.split(' ').flat_map(|word| {
        let inner = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        let Some(inner) = inner.filter(|inner| inner.contains(char::is_numeric)) else {
            return vec![filled(word, key)];
        };
        let lines = || range(inner, "|").map(|items| vec![items.join("\n")]);
        let time = || vec![(*NOW - 1000 * inner[1..].parse::<i128>().unwrap()).to_string()];
        range(inner, "..").or_else(lines).unwrap_or_else(time)
    });
    words.map(String::into_bytes).collect()
}

/// All that a client can learn of each key: its bits, its digest, its figures, its layers, its answers.
type Looks = BTreeMap<String, Vec<Reply>>;

/// The servers of a way, and what they were told.
struct World {
    way: &'static Way,
    /// The first gets the commands; after a way all have all filters.
    servers: Vec<Server>,
    /// Those that the way has left behind.
    left: Vec<Server>,
    client: Client,
    models: Models,
    wrong: Vec<String>,
}

impl World {
    fn client(&self, server: usize) -> Client {
        self.servers[server].client()
    }

    /// The keys, also those that no model is kept of.
    fn keys(&self) -> BTreeSet<String> {
        let mut client = self.client(0);
        let all = client.run("KEYS *");
        all.elements().iter().map(Reply::text).collect()
    }

    fn looks_of(client: &mut Client, keys: &BTreeSet<String>) -> Looks {
        let mut look = |key: &String| {
            let call = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
            let (key, asked) = (key.as_bytes(), ASKED.join(&b'\n'));
            let mut calls = vec![call(&[b"DUMP", key]), call(&[b"DEBUG", b"DIGEST-VALUE", key])];
            if !is_brief(key) {
                calls.push(call(&[b"BF.CARD", key]));
                calls.push(call(&[b"BF.DEBUG", key]));
                calls.push(call(&[b"BF.INFO", key, b"FULL"]));
                calls.push(call(&[b"BF.EXISTSPACKED", key, b"LINES", &asked]));
            }
            client.calls(&calls)
        };
        keys.iter().map(|key| (key.clone(), look(key))).collect()
    }

    fn looks(&self, server: usize) -> Looks {
        Self::looks_of(&mut self.client(server), &self.keys())
    }

    fn same(&self, looks: &Looks, before: &Looks, what: &str) {
        for (key, expected) in before {
            for (now, before) in looks[key].iter().zip(expected) {
                assert!(
                    now == before,
                    "{}, {key}: {now:?} and {before:?} before, {what}",
                    self.way.name
                );
            }
        }
    }

    /// Every server has what the first one had, and that is what was told; then the way is gone, and again.
    fn go(&mut self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        let mut client = self.client(0);
        // What ends soon ends now, or has got another end.
        for key in self.keys().iter().filter(|key| is_brief(key.as_bytes())) {
            until("a short time is over", || {
                !(0..600_000).contains(&client.run(&format!("PTTL {key}")).int())
            });
        }
        let before = self.looks(0);
        for (key, look) in before.iter().filter(|(key, _)| !is_brief(key.as_bytes())) {
            let context = format!("{}, {key}", self.way.name);
            let model = self
                .models
                .of
                .get(key)
                .unwrap_or_else(|| panic!("{context}: it was not made"));
            let alone = client.call(
                &[
                    &[&b"BF.MEXISTS"[..], key.as_bytes()],
                    &ASKED.iter().map(Vec::as_slice).collect::<Vec<_>>()[..],
                ]
                .concat(),
            );
            for ((item, found), alone) in ASKED
                .iter()
                .zip(bits(&look[5], ASKED.len()))
                .zip(alone.elements())
            {
                assert_eq!(found, model.has(item), "{context}: {}", item.escape_ascii());
                assert_eq!(
                    *alone,
                    i64::from(found).into(),
                    "{context}: {} alone",
                    item.escape_ascii()
                );
            }
            let left = client.run(&format!("PTTL {key}")).int();
            let ends = if left < 0 { left } else { now() as i64 + left };
            // Some ways say how much time is left, and take some.
            assert!(
                (model.end - 1..model.end + 600_000).contains(&ends),
                "{context}: it ends at {ends} in place of {}",
                model.end
            );
            let (least, most) = model.counts;
            let count = look[2].int();
            let is_counted = (least..=most).contains(&count) || key.contains(":refreshed");
            assert!(
                is_counted,
                "{context}: {count} are counted, and should be {least} to {most}"
            );
        }
        (self.way.goes)(self);
        self.client = self.client(0);
        let keys = self.keys();
        assert!(before.keys().eq(&keys), "{}: other keys", self.way.name);
        for server in 0..self.servers.len() {
            let mut client = self.client(server);
            client.answers(&[("DBSIZE", (keys.len() as i64).into())]);
            self.same(
                &Self::looks_of(&mut client, &keys),
                &before,
                &format!("on server {server}"),
            );
        }
        // What windows of a second count has no sum.
        for key in keys.iter().filter(|key| key.contains(":fleeting")) {
            self.client.answers(&[(&format!("DEL {key}"), 1.into())]);
        }
        // A primary may send nothing for a second after a replica has its data: the sums are those without these keys.
        for pair in self.servers.windows(2) {
            in_step(&pair[0], &pair[1]);
        }
        for server in 0..self.servers.len() {
            self.figures_are_sums(&mut self.client(server));
        }
    }

    /// Sends lines, and holds each reply against the model, or against the error that is due to all of them.
    fn send(&mut self, lines: &[&str], key: &str, due: Option<&str>, is_foretold: bool) {
        let mut calls = Vec::new();
        for line in lines {
            match line.split_once(' ').unwrap() {
                ("PIECES", _) => calls.extend(self.pieces(&words(line, key))),
                ("IMPORT", _) => self.import(key),
                _ => calls.push(words(line, key)),
            }
        }
        if is_brief(key.as_bytes()) {
            drop((self.way.via)(&mut self.client, &calls));
            return;
        }
        if self.way.is_watched {
            // One by one, so that each can be seen to change what it says that it changes.
            for call in calls {
                let before = self.state(&call);
                let reply = (self.way.via)(&mut self.client, std::slice::from_ref(&call)).remove(0);
                let after = self.state(&call);
                let may_be_equal = [
                    &b"OVERRIDE"[..],
                    b"BF.INTERSECT",
                    b"COPY",
                    b"PEXPIREAT",
                    b"BF.LOADCHUNK",
                ];
                let may_be_equal = call.iter().any(|word| may_be_equal.contains(&&word[..]));
                let (is_changed, is_dirty) = (before.0 != after.0, before.1 != after.1);
                let is_refused = self.hold(&call, &reply, due, is_foretold);
                if is_changed && (!is_dirty || is_refused) || is_dirty && !is_changed && !may_be_equal {
                    self.wrong.push(format!(
                        "{}, {}: changed {is_changed}, dirty {is_dirty}",
                        self.way.name,
                        told(&call)
                    ));
                }
            }
            return;
        }
        let replies = (self.way.via)(&mut self.client, &calls);
        for (call, reply) in calls.iter().zip(&replies) {
            self.hold(call, reply, due, is_foretold);
        }
    }

    /// The digests of what a command names, and how often something has changed.
    fn state(&mut self, call: &[Vec<u8>]) -> (String, String) {
        let keys = call[1..call.len().min(6)].iter().map(Vec::as_slice);
        let digests = [&b"DEBUG"[..], b"DIGEST-VALUE"]
            .into_iter()
            .chain(keys)
            .collect::<Vec<_>>();
        (
            format!("{:?}", self.client.call(&digests)),
            self.client.stat("persistence", "rdb_changes_since_last_save"),
        )
    }

    /// Holds a reply against the model, which changes by it. Returns whether the command was refused.
    fn hold(&mut self, call: &[Vec<u8>], reply: &Reply, due: Option<&str>, is_foretold: bool) -> bool {
        let is_refused = matches!(reply, Reply::Error(text) if !text.contains(" after "));
        let named = call[1..call.len().min(6)]
            .iter()
            .filter(|_| is_refused)
            .map(|word| String::from_utf8_lossy(word).into_owned());
        let before: Vec<_> = named
            .map(|key| (self.models.of.get(&key).cloned(), key))
            .collect();
        let expected = self.models.told(call, reply);
        // Valkey 9 raises the error at the end of an array in a script, which then gets nothing of the array.
        let is_raised = Server::version().valkey
            && Server::version().major >= 9
            && (self.way.name.starts_with("a script") || self.way.name.starts_with("a function"))
            && matches!(&expected, Some(Reply::Array(all)) if all.len() > 1 && all.last() == Some(reply));
        let is_right = match (due, reply) {
            (None, _) if is_raised => true,
            (Some(due), Reply::Error(text)) => is_like(text, due),
            (Some(_), _) => false,
            (None, _) => {
                expected.as_ref().is_none_or(|expected| expected == reply) || is_refused && !is_foretold
            }
        };
        if !is_right {
            let expected = due.map_or(format!("{expected:?}"), str::to_owned);
            self.wrong.push(format!(
                "{}, {}: {reply:?} in place of {expected}",
                self.way.name,
                told(call)
            ));
        }
        for (model, key) in before.into_iter().filter(|_| !is_raised) {
            match model {
                Some(model) => drop(self.models.of.insert(key, model)),
                None => drop(self.models.of.remove(&key)),
            }
        }
        is_refused && !is_raised
    }

    /// The commands that load a filter in pieces into another key, with an addition between them.
    fn pieces(&mut self, words: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        let [from, to] = [1, 2].map(|at| String::from_utf8(words[at].clone()).unwrap());
        if self.client.run(&format!("EXISTS {from}")) == 0.into() {
            return Vec::new();
        }
        let chunks = scandump(&mut self.client, &from);
        if !is_brief(from.as_bytes()) {
            self.models.load(&from, &to);
        }
        let mut calls: Vec<_> = chunks
            .into_iter()
            .map(|(iterator, bytes)| {
                vec![
                    b"BF.LOADCHUNK".to_vec(),
                    to.clone().into(),
                    iterator.to_string().into(),
                    bytes,
                ]
            })
            .collect();
        calls.insert(
            calls.len().div_ceil(2),
            vec![b"BF.ADD".to_vec(), to.into(), b"between".to_vec()],
        );
        calls
    }

    /// Replaces a filter by what valkey-bloom's append-only file would have of it.
    fn import(&mut self, key: &str) {
        let filter = libbloom_rdb::read_payload(self.client.dump(key).bytes(), u64::MAX).unwrap();
        let data = libbloom::codec::valkey::encode(filter.as_valkey().unwrap()).unwrap();
        self.client.answers(&[(&format!("DEL {key}"), 1.into())]);
        assert_eq!(self.client.call(&[b"BF.LOAD", key.as_bytes(), &data]), ok());
    }

    /// Makes a filter of a kind, and its twin.
    fn make(&mut self, kind: &Row, key: &str) {
        let twin = twin(key);
        if self.client.run(&format!("EXISTS {twin}")) == 0.into() {
            let reserve = kind.lines[0]
                .replace(" PXAT 4000000000123", "")
                .replace("{k}", &twin);
            self.send(
                &[&reserve, &format!("BF.MADD {twin} {{200..400}}")],
                key,
                None,
                true,
            );
        }
        // Each alone: some act on what those before have made.
        kind.lines
            .iter()
            .for_each(|line| self.send(&[line], key, None, true));
    }

    fn change(&mut self, kind: &Row, change: &Row, key: &str, is_foretold: bool) {
        let due = change
            .errors
            .iter()
            .find(|(what, _)| kind.is(what))
            .filter(|_| is_foretold);
        let due = due.map(|(_, text)| filled(text, key));
        // What acts on what a refused command would have made is not sent.
        let lines = if due.is_some() {
            &change.lines[..1]
        } else {
            &change.lines
        };
        self.send(lines, key, due.as_deref(), is_foretold);
        if is_foretold && change.name == "reset" && kind.lines.len() == 2 && !is_brief(key.as_bytes()) {
            self.send(&[&kind.lines[0].replace("{k}", "{h}")], key, None, true);
            let [reset, fresh] = [key.to_owned(), filled("{h}", key)].map(|key| self.client.dump(&key));
            assert!(
                reset == fresh,
                "{}, {key}: a reset filter is another one than a new one",
                self.way.name
            );
        }
    }

    /// The append-only file has each item as often as it was said to be new.
    fn sends_what_is_new(&self) {
        let mut sent = self.models.new.clone();
        for command in propagated(&self.servers[0]) {
            let is_head = |word: &String| word.ends_with("ITEMS") || word.starts_with("SPEC");
            let from = match &*command[0].to_uppercase() {
                "BF.INSERT" => command
                    .iter()
                    .rposition(is_head)
                    .map_or(command.len(), |at| at + 1),
                "BF.ADD" | "BF.MADD" => 2,
                "BF.ADDPACKED" => command.len() - 1,
                _ => continue,
            };
            for item in command[from..].iter().flat_map(|word| word.lines()) {
                *sent.entry((command[1].clone(), item.into())).or_default() -= 1;
            }
        }
        // With REFRESH an item is sent that lives on. Where a model was not told, neither was this.
        sent.retain(|(key, _), count| {
            *count != 0 && !key.contains(":refreshed") && !is_brief(key.as_bytes())
        });
        assert!(
            sent.is_empty(),
            "{}: sent too often or too rarely: {:?}",
            self.way.name,
            sent.iter().next()
        );
    }

    /// The figures in INFO are the sums of those of the keys.
    fn figures_are_sums(&self, client: &mut Client) {
        let keys = client.run("KEYS *");
        let full: Vec<_> = keys
            .elements()
            .iter()
            .map(|key| client.call(&[b"BF.INFO", key.bytes(), b"FULL"]))
            .collect();
        let sum = |name: &str| -> i64 {
            let fields = full.iter().flat_map(Reply::fields);
            fields
                .filter(|(field, _)| field == name)
                .map(|(_, value)| value.int())
                .sum()
        };
        let windows = full
            .iter()
            .filter(|full| full.fields().iter().any(|(name, _)| name == "Window"))
            .count();
        let sums = [
            ("filters", full.len() as i64),
            ("windows", windows as i64),
            ("layers", sum("Number of filters")),
            ("bytes", sum("Size")),
            ("items", sum("Number of items inserted")),
            ("exceptions", sum("Exceptions")),
        ];
        // What is gone is freed a little later.
        until(&format!("{}: the figures are {sums:?}", self.way.name), || {
            sums.iter().all(|(name, sum)| figure(client, name) == *sum)
        });
    }
}

fn is_brief(key: &[u8]) -> bool {
    [&b"{s}:short"[..], b"{s}:fleeting"]
        .iter()
        .any(|kind| key.starts_with(kind))
}

/// A command for a message: its first words.
fn told(call: &[Vec<u8>]) -> String {
    let words: Vec<_> = call
        .iter()
        .take(8)
        .map(|word| word[..word.len().min(60)].escape_ascii().to_string())
        .collect();
    words.join(" ")
}

/// What the filters of a way are in the end.
fn run(way: &'static Way) -> Looks {
    eprintln!("{}", way.name);
    let servers = (way.servers)();
    let client = servers[0].client();
    let mut world = World {
        way,
        servers,
        left: Vec::new(),
        client,
        models: Models::default(),
        wrong: Vec::new(),
    };
    let cells: Vec<_> = KINDS
        .iter()
        .flat_map(|kind| CHANGES.iter().map(move |change| (kind, change)))
        .collect();
    cells
        .iter()
        .for_each(|&(kind, change)| world.make(kind, &key(kind, change)));
    world.go();
    let fleeting = cells.iter().filter(|(kind, _)| kind.name == "fleeting");
    fleeting.for_each(|&(kind, change)| world.make(kind, &key(kind, change)));
    cells
        .iter()
        .for_each(|&(kind, change)| world.change(kind, change, &key(kind, change), true));
    // Any change after any other.
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..sample(CHANGES_AT_RANDOM) {
        let (kind, of) = cells[random.random_range(0..cells.len())];
        let change = CHANGES.choose(&mut random).unwrap();
        let key = key(kind, of);
        if world.models.of.contains_key(&key) || is_brief(key.as_bytes()) {
            world.change(kind, change, &key, false);
        }
    }
    world.go();
    world.looks(0)
}

/// A filter would be another one on a replica, in a file or on another machine: with items that were confirmed and are
/// denied, or others; or a command that is refused would change it.
#[test]
fn nothing_is_lost_whatever_a_filter_is_and_whatever_befalls_it() {
    let chosen = std::env::var("BLOOM_TEST_WAY").unwrap_or_default();
    let mut ways: VecDeque<_> = WAYS
        .iter()
        .filter(|way| way.is_here() && (way.name.contains(&chosen) || way.name == WAYS[0].name))
        .collect();
    let expected = run(ways.pop_front().unwrap());
    let ways = Mutex::new(ways);
    let next = || ways.lock().unwrap().pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(way) = next() {
                    let looks = run(way);
                    for (key, look) in &looks {
                        // A window stores when it got an item.
                        let is_timed = [":window", ":refreshed", ":short", ":fleeting"]
                            .iter()
                            .any(|kind| key.contains(kind));
                        assert!(
                            is_timed || *look == expected[key],
                            "{}: {key} is another filter than where nothing befell it",
                            way.name
                        );
                    }
                }
            });
        }
    });
}

/// A row that nobody reads would look as if it was tested.
#[test]
fn every_row_of_the_table_says_something() {
    assert!(KINDS.len() >= 20 && CHANGES.len() >= 20 && WAYS.len() >= 20);
    for change in CHANGES.iter() {
        for (what, text) in &change.errors {
            assert!(
                KINDS.iter().any(|kind| kind.is(what)),
                "{}: no kind is {what}, for {text}",
                change.name
            );
        }
    }
    let names: BTreeSet<_> = KINDS.iter().chain(CHANGES.iter()).map(|row| row.name).collect();
    assert_eq!(names.len(), KINDS.len() + CHANGES.len(), "a name is there twice");
    assert!(is_like("a 5 b", "a * b") && is_like("a", "a") && !is_like("a b", "a") && !is_like("b a", "*b"));
}
