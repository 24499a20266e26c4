//! A client that writes through whatever happens, and notes what it was told.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::history::{Act, End, Event, Item, Key, Time, WIDTH, text};
use super::plan::{KINDS, Plan, Promise, Role, Scene, key, marker, named};
use crate::client::{Client, Reply};
use crate::server::until;

/// How long a client waits for a reply before it gives its connection up.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Milliseconds that WAIT may take.
const WAIT: &str = "1000";

/// The next item of a client has a number of its own range.
const RANGE: Item = 100_000_000;

/// What clients know of the servers: the ports of their fronts, and who is thought to be the primary.
pub struct Map {
    pub began: Instant,
    pub clients: Vec<u16>,
    pub twice: Vec<u16>,
    pub peers: Vec<u16>,
    pub primary: AtomicUsize,
    pub sentinel: AtomicUsize,
    /// Who is thought to have each half of the keys of a cluster.
    pub owners: [AtomicUsize; 2],
    /// The slot of each half.
    pub slots: [usize; 2],
    pub stop: AtomicBool,
    /// Replies that no client should get.
    pub strange: Mutex<Vec<String>>,
}

impl Map {
    pub fn now(&self) -> Time {
        self.began.elapsed().as_micros() as Time
    }

    fn server_at(&self, port: u16) -> Option<usize> {
        self.peers.iter().position(|peer| *peer == port)
    }
}

/// A connection through a front.
fn connect(port: u16) -> io::Result<Client> {
    let client = Client::connect(port)?;
    let line: TcpStream = client.line();
    line.set_read_timeout(Some(PATIENCE))?;
    line.set_write_timeout(Some(PATIENCE))?;
    Ok(client)
}

/// Errors that say that nothing was done, and that it may be at another time or place.
fn is_passing(error: &str) -> bool {
    const PASSING: [&str; 14] = [
        "READONLY ",
        "MOVED ",
        "ASK ",
        "TRYAGAIN ",
        "CLUSTERDOWN ",
        "MISCONF ",
        "LOADING ",
        "MASTERDOWN ",
        "NOREPLICAS ",
        "UNBLOCKED ",
        "EXECABORT ",
        "REDIRECT ",
        "ERR WAIT cannot be used with replica instances",
        "ERR WAITAOF cannot be used with replica instances",
    ];
    starts(error, &PASSING)
}

/// Whether an error is one of these; what a script met stands somewhere in its error.
fn starts(error: &str, texts: &[&str]) -> bool {
    let in_script = error.contains("script");
    texts
        .iter()
        .any(|text| error.starts_with(text) || in_script && error.contains(text))
}

/// Errors of the module that a round may meet: what did not fit, what is not there (yet), what is there already.
///
/// Where Sentinel or the cluster choose the primary, an old one may come back empty and take commands until it is told
/// that it is a replica now. What is made there anew, by a plain BF.ADD, has another seed and no window.
fn is_expected(error: &str, scene: Scene) -> bool {
    const EXPECTED: [&str; 5] = [
        "ERR non scaling filter is full",
        "ERR not found",
        "ERR received bad data",
        "ERR invalid offset - no link found",
        "ERR invalid chunk - Too big for current filter",
    ];
    let rates = "ERR the error rates of the layers sum to ";
    let source = error.starts_with("ERR source ") && error.ends_with(" not found");
    let anew = error.contains(" has another seed: ") || error == "ERR the filter has no WINDOW";
    let may_be_anew = matches!(scene, Scene::Sentinel | Scene::Cluster);
    source || error.starts_with(rates) || starts(error, &EXPECTED) || may_be_anew && anew
}

/// The outcome of sending a command.
enum Outcome {
    Reply(Reply),
    Refused(String),
    Lost,
}

pub struct Worker<'a> {
    number: usize,
    plan: &'a Plan,
    map: &'a Map,
    random: StdRng,
    next: Item,
    /// Items of late, by key.
    recent: Vec<Vec<Item>>,
    op: usize,
    lines: Vec<Option<Client>>,
    twice: Vec<Option<Client>>,
    /// Copies of which a piece, or the removal, may still be on its way.
    spoilt: Vec<bool>,
    /// Whether the last exchange was sent on to where a slot is going.
    sent_on: bool,
    events: mpsc::Sender<Event>,
}

impl<'a> Worker<'a> {
    pub fn new(number: usize, plan: &'a Plan, map: &'a Map, events: mpsc::Sender<Event>) -> Self {
        let servers = map.clients.len();
        Self {
            number,
            plan,
            map,
            random: StdRng::seed_from_u64(plan.seed ^ (number as u64 + 1) << 32),
            next: (number as Item) * RANGE,
            recent: vec![Vec::new(); KINDS.len()],
            op: 0,
            lines: (0..servers).map(|_| None).collect(),
            twice: (0..servers).map(|_| None).collect(),
            spoilt: vec![false; KINDS.len()],
            sent_on: false,
            events,
        }
    }

    /// Makes all filters, and has them confirmed.
    pub fn make_all(&mut self) {
        for (at, kind) in KINDS.iter().enumerate() {
            if kind.words.is_empty() || matches!(kind.role, Role::Union(_) | Role::Common(_)) {
                continue;
            }
            self.attempts(|worker, op| {
                let line = format!("BF.RESERVE {} {} NX", key(at), kind.words);
                let words = line.split(' ').map(str::to_owned).collect::<Vec<_>>();
                worker.command(op, at, "RESERVE", &words, Act::Nothing, false)
            });
        }
        if self.plan.promise != Promise::Snapshot {
            for half in ["tight", "classic"].map(named) {
                until("the filters are made", || {
                    let server = self.server(half);
                    self.sent_on = false;
                    self.confirm(server, half, false).is_some()
                });
            }
        }
    }

    /// Sends command after command until the round ends.
    pub fn work(&mut self) {
        while !self.map.stop.load(SeqCst) {
            self.one();
            // Not as fast as it can: the same machine runs the servers, and all items are asked for in the end.
            thread::sleep(Duration::from_millis(self.random.random_range(1..6)));
        }
    }

    fn one(&mut self) {
        let at = self.plan.keys[self.random.random_range(0..self.plan.keys.len())];
        match (KINDS[at].role, self.random.random_range(0..20)) {
            (Role::Whole, 0..4) => self.whole(),
            (Role::Swept { .. }, 0) => self.empty(at),
            (Role::Swept { exceptions: true }, 1..5) => self.except(at),
            (Role::Union(sources), _) => self.combine(at, "BF.MERGE", sources),
            (Role::Common(sources), _) => self.combine(at, "BF.INTERSECT", sources),
            // Only one client, or pieces of two filters would come into one.
            (Role::Copied(source), 0..8) if self.number == 0 && !self.spoilt[at] => {
                self.copy(at, named(source))
            }
            (Role::Copied(_), 8..10) if self.number == 0 && !self.spoilt[at] => self.remove(at),
            (_, 18) if !KINDS[at].words.is_empty() => self.reserve(at),
            _ => self.add(at),
        }
    }

    /// Items, most of them new.
    fn items(&mut self, at: Key, most: usize) -> Vec<Item> {
        let mut items = Vec::new();
        for _ in 0..self.random.random_range(1..=most) {
            let recent = &self.recent[at];
            if !recent.is_empty() && self.random.random_bool(0.15) {
                items.push(recent[self.random.random_range(0..recent.len())]);
            } else {
                items.push(self.next);
                self.next += 1;
            }
        }
        let recent = &mut self.recent[at];
        recent.extend(&items);
        let over = recent.len().saturating_sub(60);
        recent.drain(..over);
        items
    }

    fn add(&mut self, at: Key) {
        let is_swept = matches!(KINDS[at].role, Role::Swept { .. } | Role::Copied(_));
        // Options as BF.INSERT takes them.
        let options = match KINDS[at].words.splitn(3, ' ').collect::<Vec<_>>()[..] {
            [rate, capacity, ref rest @ ..] => format!("ERROR {rate} CAPACITY {capacity} {}", rest.concat()),
            _ => String::new(),
        };
        let way = self.random.random_range(0..10);
        let items = self.items(at, if way == 0 { 1 } else { 25 });
        let texts: Vec<_> = items.iter().map(|item| text(*item)).collect();
        let (name, all) = (key(at), texts.join(" "));
        let (way, line) = match way {
            0 => ("ADD", format!("BF.ADD {name} {all}")),
            1 | 2 => ("MADD", format!("BF.MADD {name} {all}")),
            3 => ("INSERT", format!("BF.INSERT {name} {options} ITEMS {all}")),
            4 if KINDS[at].has_window() => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                let now = now.as_millis();
                (
                    "INSERT AT",
                    format!("BF.INSERT {name} {options} AT {now} ITEMS {all}"),
                )
            }
            4 => ("INSERT", format!("BF.INSERT {name} NOCREATE ITEMS {all}")),
            5 => (
                "LINES",
                format!("BF.ADDPACKED {name} {options} LINES {}", texts.join("\n")),
            ),
            6 => {
                let data = texts.concat();
                (
                    "WIDTH COUNT",
                    format!("BF.ADDPACKED {name} {options} WIDTH {WIDTH} COUNT {data}"),
                )
            }
            7 => {
                let data: String = texts.iter().map(|text| format!("\u{a}\0\0\0{text}")).collect();
                (
                    "PREFIXED",
                    format!("BF.ADDPACKED {name} {options} PREFIXED {data}"),
                )
            }
            8 => {
                let script = "return(redis.call('BF.MADD',KEYS[1],unpack(ARGV)))";
                ("EVAL", format!("EVAL {script} 1 {name} {all}"))
            }
            _ => ("EXEC", format!("BF.MADD {name} {all}")),
        };
        let words = line.split(' ').filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(str::to_owned).collect();
        if way == "EXEC" {
            return self.transaction(vec![(at, items, words)], false);
        }
        let twice = !is_swept && self.random.random_bool(0.15);
        self.attempts(|worker, op| worker.command(op, at, way, &words, Act::Add(items.clone()), twice));
    }

    /// Adds to two filters in one transaction.
    fn whole(&mut self) {
        let both = ["tight", "chain"].map(named);
        let parts = both.map(|at| {
            let items = self.items(at, 10);
            // New ones only: what was sent before may be there without the transaction.
            let items: Vec<Item> = items
                .iter()
                .map(|_| {
                    self.next += 1;
                    self.next - 1
                })
                .collect();
            let mut words = vec!["BF.MADD".to_owned(), key(at)];
            words.extend(items.iter().map(|item| text(*item)));
            (at, items, words)
        });
        self.transaction(parts.into(), true);
    }

    fn transaction(&mut self, parts: Vec<(Key, Vec<Item>, Vec<String>)>, whole: bool) {
        self.attempts(|worker, op| {
            let event = |(at, items, _): &(Key, Vec<Item>, Vec<String>)| {
                worker.event(op, *at, "EXEC", Act::Add(items.clone()))
            };
            let events: Vec<_> = parts.iter().map(event).collect();
            let server = worker.server(parts[0].0);
            let one = |word: &str| vec![word.to_owned()];
            let mut commands = vec![one("MULTI")];
            commands.extend(parts.iter().map(|(_, _, words)| words.clone()));
            commands.push(one("EXEC"));
            let last = worker.exchange(server, &commands, false);
            let now = worker.map.now();
            let (outcome, replies) = match last {
                Outcome::Reply(Reply::Array(replies)) => (Ok(()), replies),
                Outcome::Reply(other) => (Err(Some(format!("{other:?}"))), Vec::new()),
                Outcome::Refused(why) => (Err(Some(why)), Vec::new()),
                Outcome::Lost => (Err(None), Vec::new()),
            };
            let confirmed = if outcome.is_ok() {
                worker.confirm(server, parts[0].0, false)
            } else {
                None
            };
            for (place, event) in events.into_iter().enumerate() {
                let end = match &outcome {
                    Ok(()) => worker.read(event.key, &replies[place], &event.act, now),
                    Err(Some(why)) => End::Refused(why.clone()),
                    Err(None) => End::Lost,
                };
                worker.note(Event {
                    whole,
                    confirmed: confirmed.filter(|_| matches!(end, End::Done(..))),
                    end,
                    ..event
                });
            }
            outcome.is_ok()
        });
    }

    fn empty(&mut self, at: Key) {
        // Another client's plain BF.ADD may come before the BF.RESERVE, and what it makes has no window.
        let may_unlink = !KINDS[at].has_window() && self.random.random_bool(1.0 / 3.0);
        let word = if may_unlink { "UNLINK" } else { "BF.RESET" };
        let words = [word.to_owned(), key(at)];
        self.attempts(|worker, op| worker.command(op, at, word, &words, Act::Empty, false));
        self.reserve(at);
    }

    /// Makes room for another copy.
    fn remove(&mut self, at: Key) {
        let words = ["UNLINK".to_owned(), key(at)];
        let op = self.op;
        self.op += 1;
        self.spoilt[at] = !self.command(op, at, "UNLINK", &words, Act::Empty, false);
    }

    fn except(&mut self, at: Key) {
        if self.recent[at].is_empty() {
            return;
        }
        let recent = &self.recent[at];
        let count = self.random.random_range(1..4).min(recent.len());
        let items: Vec<_> = (0..count)
            .map(|_| recent[self.random.random_range(0..recent.len())])
            .collect();
        if self.random.random_bool(0.7) {
            // Some stay out for good.
            self.recent[at].retain(|item| !items.contains(item));
        }
        let mut words = vec!["BF.EXCEPT".to_owned(), key(at)];
        words.extend(items.iter().map(|item| text(*item)));
        self.attempts(|worker, op| {
            worker.command(op, at, "EXCEPT", &words, Act::Except(items.clone()), false)
        });
    }

    fn combine(&mut self, at: Key, command: &'static str, sources: [&'static str; 2]) {
        let sources = sources.map(named);
        let mut words = vec![command.to_owned(), key(at), "2".to_owned()];
        words.extend(sources.map(key));
        let act = || match command {
            "BF.MERGE" => Act::Merge(sources.into()),
            _ => Act::Intersect(sources.into()),
        };
        self.attempts(|worker, op| worker.command(op, at, command, &words, act(), false));
    }

    fn reserve(&mut self, at: Key) {
        let line = format!("BF.RESERVE {} {} NX", key(at), KINDS[at].words);
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        self.attempts(|worker, op| worker.command(op, at, "RESERVE", &words, Act::Nothing, false));
    }

    /// Loads a key from another one's chunks. Chunks that do not fit, since the source grew, make it no copy.
    fn copy(&mut self, at: Key, source: Key) {
        let op = self.op;
        self.op += 1;
        let event = self.event(op, at, "LOADCHUNK", Act::Copy(source));
        let (end, confirmed) = match self.try_copy(at, source) {
            Ok(server) => {
                let end = End::Done(self.map.now(), Vec::new());
                (end, self.confirm(server, at, false))
            }
            Err(end) => (end, None),
        };
        self.spoilt[at] = end == End::Lost;
        self.note(Event {
            end,
            confirmed,
            ..event
        });
    }

    /// The server that took it all.
    fn try_copy(&mut self, at: Key, source: Key) -> Result<usize, End> {
        let refused = |outcome| match outcome {
            Outcome::Refused(why) => End::Refused(why),
            _ => End::Lost,
        };
        let server = self.server(source);
        let mut pieces: Vec<(i64, Vec<u8>)> = Vec::new();
        let mut iterator = 0;
        loop {
            let words = ["BF.SCANDUMP".to_owned(), key(source), iterator.to_string()];
            match self.exchange(server, &[words.to_vec()], false) {
                Outcome::Reply(Reply::Array(parts)) => {
                    let [Reply::Int(next), Reply::Bulk(bytes)] = &parts[..] else {
                        return Err(End::Refused(format!("{parts:?}")));
                    };
                    if *next == 0 {
                        break;
                    }
                    iterator = *next;
                    pieces.push((*next, bytes.clone()));
                }
                Outcome::Reply(other) => return Err(End::Refused(format!("{other:?}"))),
                other => return Err(refused(other)),
            }
        }
        // Else it could be what a server had that is no primary any more.
        if matches!(self.plan.promise, Promise::Wait(_)) && self.confirm(server, source, false).is_none() {
            return Err(End::Refused("the dump is not confirmed".into()));
        }
        let mut began = false;
        for (iterator, bytes) in pieces {
            let name = key(at);
            let number = iterator.to_string();
            let words: [&[u8]; 4] = [b"BF.LOADCHUNK", name.as_bytes(), number.as_bytes(), &bytes];
            match self.exchange(server, &[words.map(<[u8]>::to_vec).to_vec()], false) {
                Outcome::Reply(_) => began = true,
                // Of a copy that stopped half-way a part is there.
                Outcome::Refused(_) if began => return Err(End::Lost),
                other => return Err(refused(other)),
            }
        }
        Ok(server)
    }

    /// Tries a command until it is done, some times.
    fn attempts(&mut self, mut attempt: impl FnMut(&mut Self, usize) -> bool) {
        let op = self.op;
        self.op += 1;
        for _ in 0..self.random.random_range(1..6) {
            if attempt(self, op) || self.map.stop.load(SeqCst) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a command and notes it; whether it needs no other attempt.
    fn command(
        &mut self,
        op: usize,
        at: Key,
        way: &'static str,
        words: &[String],
        act: Act,
        twice: bool,
    ) -> bool {
        let server = self.server(at);
        let event = self.event(op, at, way, act);
        let outcome = self.exchange(server, &[words.to_vec()], twice);
        let now = self.map.now();
        let end = match outcome {
            Outcome::Reply(reply) => self.read(at, &reply, &event.act, now),
            Outcome::Refused(why) => End::Refused(why),
            Outcome::Lost => End::Lost,
        };
        let confirmed = match end {
            End::Done(..) => self.confirm(server, at, twice),
            _ => None,
        };
        let done = match &end {
            End::Done(..) => true,
            End::Refused(why) => !is_passing(why),
            End::Lost => false,
        };
        self.note(Event {
            end,
            confirmed,
            twice,
            ..event
        });
        done
    }

    /// Reads the outcome of a command from its reply.
    fn read(&mut self, at: Key, reply: &Reply, act: &Act, now: Time) -> End {
        let truth = |reply: &Reply| match reply {
            Reply::Int(number) => Some(*number == 1),
            Reply::Bool(truth) => Some(*truth),
            _ => None,
        };
        if let Reply::Error(why) = reply {
            if !is_expected(why, self.plan.scene) && !is_passing(why) {
                self.strange(at, why);
            }
            // A packed batch tells how far it came; what it added is not claimed.
            return if why.contains(" after ") {
                End::Lost
            } else {
                End::Refused(why.clone())
            };
        }
        let (Act::Add(items) | Act::Except(items)) = act else {
            return End::Done(now, Vec::new());
        };
        let count = items.len();
        let answers = match reply {
            Reply::Array(answers) => {
                if let Some(Reply::Error(why)) = answers.last()
                    && !is_expected(why, self.plan.scene)
                {
                    self.strange(at, why);
                }
                let answers = answers.iter().map(truth);
                answers.chain(std::iter::repeat(None)).take(count).collect()
            }
            // BF.ADD, or how many of them were new.
            Reply::Int(_) | Reply::Bool(_) => vec![Some(false); count],
            Reply::Bulk(bits) => {
                let bit = |place: usize| bits.get(place / 8).map(|byte| byte >> (7 - place % 8) & 1 == 1);
                (0..count).map(bit).collect()
            }
            other => {
                self.strange(at, &format!("{other:?}"));
                vec![None; count]
            }
        };
        End::Done(now, answers)
    }

    fn strange(&self, at: Key, what: &str) {
        let mut strange = self.map.strange.lock().unwrap();
        strange.push(format!(
            "client {} op {} on {}: {what}",
            self.number, self.op, KINDS[at].name
        ));
    }

    /// An event that begins now, and has no end yet.
    fn event(&self, op: usize, key: Key, way: &'static str, act: Act) -> Event {
        Event {
            client: self.number,
            op,
            whole: false,
            key,
            way,
            act,
            sent: self.map.now(),
            end: End::Lost,
            confirmed: None,
            twice: false,
        }
    }

    fn note(&self, event: Event) {
        let _nobody_listens = self.events.send(event);
    }

    /// Whether what this connection did is safe, and since when.
    fn confirm(&mut self, server: usize, at: Key, twice: bool) -> Option<Time> {
        if self.sent_on {
            // The connection that WAIT is for is another one.
            return None;
        }
        let word = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self.plan.promise {
            Promise::Always => return Some(self.map.now()),
            Promise::Snapshot => return None,
            // A second passes until the file is synced.
            Promise::WaitAof if self.random.random_bool(0.85) => return None,
            _ if self.random.random_bool(0.3) => return None,
            Promise::WaitAof => {
                let outcome = self.exchange(server, &[word(&["WAITAOF", "1", "0", WAIT])], twice);
                let Outcome::Reply(Reply::Array(counts)) = outcome else {
                    return None;
                };
                if counts.first() != Some(&Reply::Int(1)) {
                    return None;
                }
            }
            Promise::Wait(replicas) => {
                let mark = word(&["INCR", &marker(at)]);
                let wait = word(&["WAIT", &replicas.to_string(), WAIT]);
                let Outcome::Reply(Reply::Int(_)) = self.exchange(server, &[mark], twice) else {
                    return None;
                };
                if self.sent_on {
                    return None;
                }
                match self.exchange(server, &[wait], twice) {
                    Outcome::Reply(Reply::Int(number)) if number >= replicas => {}
                    _ => return None,
                }
            }
        }
        Some(self.map.now())
    }

    /// Where a command for a key goes.
    fn server(&mut self, at: Key) -> usize {
        match self.plan.scene {
            Scene::Cluster => self.map.owners[KINDS[at].half].load(SeqCst),
            _ => self.map.primary.load(SeqCst),
        }
    }

    /// Learns where primaries are, after something failed.
    fn look_around(&self, server: usize, error: Option<&str>) {
        match (self.plan.scene, error) {
            (Scene::Sentinel, _) => {
                let port = self.map.sentinel.load(SeqCst) as u16;
                let Ok(mut client) = connect(port) else { return };
                let asked = client.send(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
                let Ok(Reply::Array(parts)) = asked.and_then(|()| client.receive()) else {
                    return;
                };
                let port = parts.get(1).and_then(|part| part.text().parse().ok());
                if let Some(server) = port.and_then(|port| self.map.server_at(port)) {
                    self.map.primary.store(server, SeqCst);
                }
            }
            (Scene::Cluster, Some(error)) if error.starts_with("MOVED ") => {
                let port = error.rsplit(':').next().and_then(|port| port.parse().ok());
                if let Some(to) = port.and_then(|port| self.map.server_at(port)) {
                    let slot = error.split(' ').nth(1).and_then(|slot| slot.parse().ok());
                    let half = usize::from(slot != Some(self.map.slots[0]));
                    self.map.owners[half].store(to, SeqCst);
                }
            }
            (Scene::Cluster, None) => {
                // A primary that does not answer: its other half may have taken over. Whoever is asked says MOVED if not.
                let shards = self.map.clients.len() / 2;
                for owner in &self.map.owners {
                    let twin = (server + shards) % self.map.clients.len();
                    let _changed = owner.compare_exchange(server, twin, SeqCst, SeqCst);
                }
            }
            _ => {}
        }
    }

    /// Sends commands in one go, and gives the last reply.
    fn exchange<A: AsRef<[u8]>>(&mut self, server: usize, commands: &[Vec<A>], twice: bool) -> Outcome {
        let outcome = self.try_exchange(server, commands, twice);
        let outcome = match outcome {
            // What a moving slot has left behind is at its new place: there once, with ASKING. (The reply to a whole
            // transaction says EXECABORT instead.)
            Outcome::Refused(why) if why.starts_with("ASK ") && commands.len() == 1 => {
                let port = why.rsplit(':').next().and_then(|port| port.parse().ok());
                match port.and_then(|port| self.map.server_at(port)) {
                    Some(to) => {
                        let asking = vec![b"ASKING".to_vec()];
                        let command = commands[0].iter().map(|word| word.as_ref().to_vec()).collect();
                        let outcome = self.try_exchange(to, &[asking, command], twice);
                        self.sent_on = true;
                        outcome
                    }
                    None => Outcome::Refused(why),
                }
            }
            other => other,
        };
        match &outcome {
            Outcome::Reply(_) => {}
            Outcome::Refused(error) => {
                if !is_passing(error) && !is_expected(error, self.plan.scene) {
                    let words = commands.iter().flatten().take(8);
                    let words = words.map(|word| String::from_utf8_lossy(word.as_ref()).into_owned());
                    let words: Vec<_> = words.collect();
                    let mut strange = self.map.strange.lock().unwrap();
                    strange.push(format!(
                        "client {} op {} {words:?}: {error}",
                        self.number, self.op
                    ));
                }
                if is_passing(error) {
                    self.look_around(server, Some(error));
                }
            }
            Outcome::Lost => self.look_around(server, None),
        }
        outcome
    }

    fn try_exchange<A: AsRef<[u8]>>(&mut self, server: usize, commands: &[Vec<A>], twice: bool) -> Outcome {
        let ports = if twice { &self.map.twice } else { &self.map.clients };
        let lines = if twice { &mut self.twice } else { &mut self.lines };
        let line = &mut lines[server];
        self.sent_on = false;
        if line.is_none() {
            match connect(ports[server]) {
                Ok(client) => *line = Some(client),
                Err(_) => return Outcome::Refused("CLUSTERDOWN nobody there".into()),
            }
        }
        let Some(client) = line.as_mut() else {
            return Outcome::Lost;
        };
        let bytes: Vec<_> = commands
            .iter()
            .flat_map(|command| crate::client::wire(command))
            .collect();
        let mut run = || {
            client.send_bytes(&bytes)?;
            // The first that does not come is the end: what came later would be taken for the answer to another one.
            let mut last = None;
            for _ in commands {
                last = Some(client.receive()?);
            }
            last.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
        };
        match run() {
            // What it added before it was full is there, and nothing says what.
            Ok(Reply::Error(why)) if why.contains(" after ") && is_expected(&why, self.plan.scene) => {
                Outcome::Lost
            }
            Ok(Reply::Error(why)) => Outcome::Refused(why),
            Ok(reply) => Outcome::Reply(reply),
            Err(_) => {
                *line = None;
                Outcome::Lost
            }
        }
    }
}
