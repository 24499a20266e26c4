//! What clients sent and what they were told: the material of the checker, and a log that people can read.

use std::fmt::Write as _;

/// The number of an item; [`text`] is what is sent.
pub type Item = u32;

/// The place of a key in the table of keys.
pub type Key = usize;

/// Microseconds since the round began, by the one clock of the process that runs all clients.
pub type Time = u64;

/// Bytes of every item, which all are as long as this, so that they can be sent in any packed form.
pub const WIDTH: usize = 10;

/// An item as it is sent.
pub fn text(item: Item) -> String {
    format!("{item:0WIDTH$}")
}

/// What a command does to its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Adds items, in whatever words.
    Add(Vec<Item>),
    /// Takes everything out: BF.RESET, or UNLINK.
    Empty,
    /// BF.EXCEPT.
    Except(Vec<Item>),
    /// BF.MERGE into the key, which keeps what it has.
    Merge(Vec<Key>),
    /// BF.INTERSECT into the key.
    Intersect(Vec<Key>),
    /// BF.SCANDUMP of another key, and BF.LOADCHUNK of all pieces into this one.
    Copy(Key),
    /// Changes no membership: BF.RESERVE with NX.
    Nothing,
}

/// How a command ended for the client that sent it.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The command was answered. For items: whether each was new (for an exception: was there), and `None` from the
    /// first item on that did not fit.
    Done(Time, Vec<Option<bool>>),
    /// The command was refused with this error, so it did nothing.
    Refused(String),
    /// No reply came: it was done, or not, or will be at any time until the round ends.
    Lost,
}

/// One attempt of a command. What is tried again is another event of the same `op`.
#[derive(Clone, Debug)]
pub struct Event {
    pub client: usize,
    /// The number of the client's operation: two keys in one transaction, or two attempts, are events of one.
    pub op: usize,
    /// Whether it was part of a transaction that must be found whole or not at all.
    pub whole: bool,
    pub key: Key,
    /// The words that were used, for the log.
    pub way: &'static str,
    pub act: Act,
    pub sent: Time,
    pub end: End,
    /// When the client learnt that it is safe, if it did.
    pub confirmed: Option<Time>,
    /// Whether the command may have been delivered twice, the second time at any moment.
    pub twice: bool,
}

impl Event {
    /// When it was done for sure; `Time::MAX` where that is not known.
    pub fn over(&self) -> Time {
        match self.end {
            End::Done(at, _) if !self.twice => at,
            _ => Time::MAX,
        }
    }

    /// Whether it may have done anything.
    pub fn may_count(&self) -> bool {
        !matches!(self.end, End::Refused(_))
    }

    /// What was answered for the item at `place`.
    pub fn answer(&self, place: usize) -> Option<bool> {
        match &self.end {
            End::Done(_, answers) => answers.get(place).copied().flatten(),
            _ => None,
        }
    }
}

/// What happened to the only server of a round that promises by its snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A snapshot was asked for at the first time, and said to be written at the second.
    Saved(Time, Time),
    /// The process was killed; from the first time on it may not have answered any more.
    Died(Time),
}

/// Everything that clients did in a round.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub events: Vec<Event>,
    pub marks: Vec<Mark>,
}

impl History {
    /// Confirms what a snapshot holds: what was answered before it was asked for, where the process did not end in
    /// between.
    pub fn confirm_by_snapshots(&mut self) {
        for event in &mut self.events {
            let End::Done(done, _) = event.end else { continue };
            let saved = self.marks.iter().filter_map(|mark| match mark {
                Mark::Saved(asked, written) if *asked > done => Some(*written),
                _ => None,
            });
            let Some(first) = saved.min() else { continue };
            let died = self
                .marks
                .iter()
                .any(|mark| matches!(mark, Mark::Died(at) if (event.sent..=first).contains(at)));
            if !died {
                event.confirmed = Some(first);
            }
        }
    }

    /// A line for each event, in the order of time.
    pub fn log(&self, names: &[String]) -> String {
        let mut lines = Vec::new();
        for event in &self.events {
            let mut line = format!(
                "{:>10} client {} op {}{} {} {} ",
                event.sent,
                event.client,
                event.op,
                if event.twice { " twice" } else { "" },
                event.way,
                names[event.key]
            );
            match &event.act {
                Act::Add(items) | Act::Except(items) => line += &numbers(items),
                Act::Merge(sources) | Act::Intersect(sources) => {
                    sources
                        .iter()
                        .for_each(|source| write!(line, "{} ", names[*source]).unwrap());
                }
                Act::Copy(source) => line += &names[*source],
                Act::Empty | Act::Nothing => {}
            }
            match &event.end {
                End::Done(at, answers) => {
                    write!(line, " -> {at} ").unwrap();
                    line.extend(answers.iter().map(|answer| match answer {
                        Some(true) => '1',
                        Some(false) => '0',
                        None => 'x',
                    }));
                }
                End::Refused(why) => write!(line, " -> {why}").unwrap(),
                End::Lost => line += " -> ?",
            }
            if let Some(at) = event.confirmed {
                write!(line, " safe {at}").unwrap();
            }
            lines.push((event.sent, line));
        }
        for mark in &self.marks {
            let (Mark::Saved(at, _) | Mark::Died(at)) = mark;
            lines.push((*at, format!("{at:>10} {mark:?}")));
        }
        lines.sort();
        lines
            .into_iter()
            .fold(String::new(), |text, (_, line)| text + &line + "\n")
    }
}

/// Items, those that follow each other as `from-to`.
fn numbers(items: &[Item]) -> String {
    let mut text = String::new();
    let mut rest = items;
    while let Some((&first, _)) = rest.split_first() {
        let run = (0..)
            .zip(rest)
            .take_while(|(at, item)| first + at == **item)
            .count();
        match run {
            1 => write!(text, "{first},").unwrap(),
            _ => write!(text, "{first}-{},", rest[run - 1]).unwrap(),
        }
        rest = &rest[run..];
    }
    text.pop();
    text
}
