//! What clients were told of filters: sets of items, which know no bits, and what a command replies by them.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Reply, error, ok};
use crate::support::packed::bitmap;

/// What clients were told of a filter.
#[derive(Clone)]
pub struct Model {
    added: BTreeSet<Vec<u8>>,
    excepted: BTreeSet<Vec<u8>>,
    /// The least and the most that it may count: the same, unless filters were combined.
    pub counts: (i64, i64),
    /// When it ends, in Unix milliseconds, or -1.
    pub end: i64,
    /// How many items it takes, if it does not grow.
    room: Option<usize>,
    /// Whether `room` is not foretold: then the replies are believed.
    is_vague: bool,
}

/// The filters of a server.
#[derive(Default)]
pub struct Models {
    pub of: BTreeMap<String, Model>,
    /// How often each item was new in each key.
    pub new: BTreeMap<(String, Vec<u8>), i32>,
    /// What the chunks make that are on their way to a key.
    loading: BTreeMap<String, Model>,
}

impl Model {
    fn empty(room: Option<usize>, end: i64) -> Self {
        Self {
            added: BTreeSet::new(),
            excepted: BTreeSet::new(),
            counts: (0, 0),
            end,
            room,
            is_vague: false,
        }
    }

    pub fn has(&self, item: &[u8]) -> bool {
        self.added.contains(item) && !self.excepted.contains(item)
    }

    /// The reply to an addition.
    fn add(&mut self, item: &[u8]) -> Reply {
        if self.has(item) {
            return 0.into();
        }
        if !self.added.contains(item) {
            if self.room.is_some_and(|room| self.added.len() >= room) {
                return error("ERR non scaling filter is full");
            }
            self.counts = (self.counts.0 + 1, self.counts.1 + 1);
        }
        self.excepted.remove(item);
        self.added.insert(item.to_vec());
        1.into()
    }

    /// The union of several filters, or what they have in common. An item whose bits are there and that is not found is
    /// excepted.
    fn combined(all: &[&Self], is_union: bool) -> Self {
        let is_there = |item: &Vec<u8>| match is_union {
            true => all.iter().any(|model| model.has(item)),
            false => all.iter().all(|model| model.has(item)),
        };
        let items: BTreeSet<_> = all.iter().flat_map(|model| model.added.clone()).collect();
        let (present, absent): (BTreeSet<_>, BTreeSet<_>) = items.into_iter().partition(is_there);
        let has_bits = |item: &Vec<u8>| is_union || all.iter().all(|model| model.added.contains(item));
        let excepted: BTreeSet<_> = absent.into_iter().filter(has_bits).collect();
        let added: BTreeSet<_> = present.union(&excepted).cloned().collect();
        // Bits that are united or common are counted by an estimate; layers that stay side by side count each of theirs.
        let least = added.len() as i64 * 9 / 10 - 5;
        let most: i64 = all.iter().map(|model| model.counts.1).sum();
        let counts = match all {
            [one] if is_union => one.counts,
            _ => (least, most),
        };
        Self {
            added,
            excepted,
            counts,
            is_vague: !is_union || all[0].room.is_some() || all[0].is_vague,
            ..Self::empty(None, -1)
        }
    }
}

impl Models {
    /// What a command replies, where that is foretold; and what it changes, by its reply where it is not. What an error
    /// has changed must be taken back.
    pub fn told(&mut self, words: &[Vec<u8>], reply: &Reply) -> Option<Reply> {
        let text = |at: usize| String::from_utf8_lossy(&words[at]).into_owned();
        let has = |word: &str| words.iter().any(|other| other == word.as_bytes());
        let (command, key) = (text(0), text(1));
        match &*command {
            "BF.RESERVE" if self.of.contains_key(&key) => Some(Reply::Null),
            "BF.RESERVE" => {
                let room = has("NONSCALING").then(|| text(3).parse().unwrap());
                let end = words.iter().position(|word| word == b"PXAT");
                let end = end.map_or(-1, |at| text(at + 1).parse().unwrap());
                self.of.insert(key, Model::empty(room, end));
                Some(ok())
            }
            "BF.ADD" | "BF.MADD" | "BF.INSERT" => {
                let from = words
                    .iter()
                    .position(|word| word == b"ITEMS")
                    .map_or(2, |at| at + 1);
                let items: Vec<_> = words[from..].iter().map(Vec::as_slice).collect();
                let mut replies = self.add(&key, &items, reply)?;
                Some(if command == "BF.ADD" {
                    replies.remove(0)
                } else {
                    Reply::Array(replies)
                })
            }
            "BF.ADDPACKED" => {
                let items: Vec<_> = words[words.len() - 1].split(|&byte| byte == b'\n').collect();
                let replies = self.add(&key, &items, reply)?;
                let yes = |reply: &Reply| *reply == 1.into();
                Some(match replies.last() {
                    Some(Reply::Error(text)) => error(&format!("{text} after {} items", replies.len() - 1)),
                    _ if has("COUNT") => (replies.iter().filter(|reply| yes(reply)).count() as i64).into(),
                    _ => bitmap(replies.iter().map(yes)),
                })
            }
            "BF.EXCEPT" => {
                let model = self.of.get_mut(&key)?;
                let replies = words[2..]
                    .iter()
                    .map(|item| i64::from(model.has(item) && model.excepted.insert(item.clone())));
                Some(Reply::Array(replies.map(Reply::from).collect()))
            }
            "BF.RESET" => {
                let model = self.of.get_mut(&key)?;
                *model = Model {
                    is_vague: model.is_vague,
                    ..Model::empty(model.room, model.end)
                };
                Some(ok())
            }
            "BF.MERGE" | "BF.INTERSECT" => {
                let sources =
                    (3..3 + text(2).parse::<usize>().unwrap()).map(|at| self.of.get(&text(at)).cloned());
                let sources = sources.collect::<Option<Vec<_>>>()?;
                let is_union = command == "BF.MERGE";
                let kept = self.of.get(&key).filter(|_| is_union && !has("OVERRIDE"));
                let all: Vec<_> = kept.into_iter().chain(&sources).collect();
                let model = Model {
                    end: kept.map_or(-1, |model| model.end),
                    ..Model::combined(&all, is_union)
                };
                self.of.insert(key, model);
                Some(ok())
            }
            "BF.SHRINK" => {
                let model = self.of.get_mut(&key)?;
                model.is_vague |= *reply != 0.into() && model.room.take().is_some();
                None
            }
            "BF.LOADCHUNK" => {
                let model = self.loading.remove(&key);
                self.of.extend(model.map(|model| (key, model)));
                Some(ok())
            }
            "COPY" | "RENAME" => {
                let (to, model) = (text(2), self.of.get(&key)?.clone());
                let (is_copy, is_free) = (command == "COPY", !self.of.contains_key(&text(2)));
                if !is_copy {
                    self.of.remove(&key);
                }
                if is_free || !is_copy {
                    self.of.insert(to, model);
                }
                Some(if is_copy { i64::from(is_free).into() } else { ok() })
            }
            "DEL" => Some(i64::from(self.of.remove(&key).is_some()).into()),
            "PEXPIREAT" => {
                self.of.get_mut(&key)?.end = text(2).parse().unwrap();
                Some(1.into())
            }
            other => panic!("the model knows no {other}"),
        }
    }

    /// The replies to additions up to the first error, if they are foretold.
    fn add(&mut self, key: &str, items: &[&[u8]], reply: &Reply) -> Option<Vec<Reply>> {
        let model = self
            .of
            .entry(key.to_owned())
            .or_insert_with(|| Model::empty(None, -1));
        let is_vague = model.is_vague;
        let taken = match reply {
            Reply::Array(all) => all.iter().filter(|reply| matches!(reply, Reply::Int(_))).count(),
            Reply::Error(text) => text
                .split(' ')
                .rev()
                .nth(1)
                .and_then(|count| count.parse().ok())
                .unwrap_or(0),
            _ => items.len(),
        };
        let mut replies = Vec::new();
        for item in &items[..if is_vague { taken } else { items.len() }] {
            let reply = model.add(item);
            if reply == 1.into() {
                *self.new.entry((key.to_owned(), item.to_vec())).or_default() += 1;
            }
            let is_full = matches!(reply, Reply::Error(_));
            replies.push(reply);
            if is_full {
                break;
            }
        }
        (!is_vague).then_some(replies)
    }

    /// A filter is loaded in pieces from another one, beginning with the next chunk.
    pub fn load(&mut self, from: &str, to: &str) {
        let mut model = self.of[from].clone();
        model.is_vague |= model.room.take().is_some();
        let counts = (0, model.counts.1);
        self.loading.insert(
            to.to_owned(),
            Model {
                end: -1,
                counts,
                ..model
            },
        );
    }
}
