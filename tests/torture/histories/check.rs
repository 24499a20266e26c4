//! The checker: a history and what was found in the end, and what of it must not be. It knows no server, so that its
//! own tests can hold made-up histories against it.
//!
//! # What is promised
//!
//! A **claim** is an item in a key, the time when the command that put it there was sent, and the time when the client
//! learnt that it is safe. An event becomes safe by what its round promises:
//!
//! - *fsync always*: by its reply. The server writes and syncs before it answers.
//! - *WAITAOF*: by its reply, of servers that know the command.
//! - *snapshot*: by a snapshot that was asked for after the reply, if the process lived until it was written.
//! - *WAIT*: by as many replicas as make the following failover a safe one. WAIT alone promises little: replication is
//!   asynchronous, and a failover to a replica that did not confirm loses what the others did. So it is asked for one
//!   of two replicas (a majority with the primary) only where whoever takes over is the one with the larger offset of
//!   both, after the primary was fenced off; and for all replicas where Sentinel or the cluster choose. One server is
//!   at fault at a time, and the next fault comes when all are in step, else a replica that came back empty could be
//!   chosen. A primary that does not know yet that it is none any more could answer "it was there" and count
//!   confirmations from before: so a client first writes a marker over the same connection, and waits for that. A
//!   replica that confirms the marker still followed this primary when the command was done.
//!
//! An acknowledgement is a promise of the moment in which the command was done, and commands may be done at any time
//! between `sent` and [`Event::over`].
//!
//! # Rules
//!
//! 1. **Lost**: an item of a claim is found on every server, unless the key was emptied, or the item excepted, by a
//!    command that may have been done after the claim's was sent. Claims pass on: by a safe BF.MERGE, BF.INTERSECT or
//!    copy from what was safe in the sources before it was sent. Sources are never emptied.
//! 2. **Back**: an item that was excepted, safely and after all that may have added it, is not found, unless the key
//!    may have been emptied since, and its exceptions with it. Exceptions are exact, so this has no rate. What was not
//!    there (a reply of 0) is not excepted, and may be found by chance later.
//! 3. **Phantoms**: of items that nobody added, and of those that a safe BF.RESET or UNLINK took away, no more are
//!    found than the rate says. See [`is_chance`].
//! 4. **Count**: BF.CARD is at most the number of items sent, attempts counted each, and twice where a command may
//!    have come twice; and where no item counts twice, the number of different ones.
//! 5. **Differ**: all servers, and a server before and after a restart, have the same digest and lines of BF.DEBUG.
//! 6. **Torn**: a transaction is found whole or not at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::history::{Act, Event, History, Item, Key, Time};

/// How likely a test of a rate may raise a false alarm. A round makes some thirty such tests and takes some seconds,
/// so an hour makes less than 10^5, and has a false alarm with less than 10^-10.
const FALSE_ALARM: f64 = 1e-15;

/// What must be known of a key.
#[derive(Clone, Debug)]
pub struct Terms {
    pub name: String,
    /// The error rate that it promises.
    pub rate: f64,
    /// How BF.CARD counts.
    pub count: Count,
}

/// How BF.CARD of a key counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Count {
    /// No item twice.
    Different,
    /// An item again, when it comes again (windows with REFRESH; copies, whose bits come after their count).
    Sent,
    /// By an estimate from the bits, which is off by some per cent in small filters.
    Estimated,
}

/// What one server said of one key in the end.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Which server, and when.
    pub by: String,
    pub key: Key,
    pub asked: Vec<Item>,
    /// Of each item that was asked for.
    pub found: Vec<bool>,
    /// Items that nobody ever sent: how many were asked for, and how many found.
    pub ghosts: (u64, u64),
    pub card: u64,
    /// The digest, and the lines of BF.DEBUG.
    pub state: Vec<String>,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    Lost {
        key: String,
        by: String,
        items: Vec<Item>,
        op: String,
    },
    Back {
        key: String,
        by: String,
        items: Vec<Item>,
    },
    Phantoms {
        key: String,
        by: String,
        what: &'static str,
        asked: u64,
        found: u64,
        rate: f64,
    },
    Count {
        key: String,
        by: String,
        card: u64,
        most: u64,
    },
    Differ {
        key: String,
        one: String,
        other: String,
        states: [Vec<String>; 2],
    },
    Torn {
        op: String,
        by: String,
    },
    /// What is no matter of histories: a crash, a reply that no client should get, a wait in vain.
    Server(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { key, by, items, op } => {
                write!(
                    f,
                    "LOST: {} items of {key} at {by}, of {op}: {items:?}",
                    items.len()
                )
            }
            Self::Back { key, by, items } => write!(f, "BACK: excepted items of {key} at {by}: {items:?}"),
            Self::Phantoms {
                key,
                by,
                what,
                asked,
                found,
                rate,
            } => write!(
                f,
                "PHANTOMS: {found} of {asked} {what} found in {key} at {by}, whose rate is {rate}"
            ),
            Self::Count { key, by, card, most } => {
                write!(f, "COUNT: {key} at {by} counts {card}, at most {most} came")
            }
            Self::Differ {
                key,
                one,
                other,
                states,
            } => {
                write!(
                    f,
                    "DIFFER: {key} at {one} and {other}: {:?} {:?}",
                    states[0], states[1]
                )
            }
            Self::Torn { op, by } => write!(f, "TORN: {op} is found in part at {by}"),
            Self::Server(what) => write!(f, "SERVER: {what}"),
        }
    }
}

/// Whether `found` of `asked` can be chance at twice the rate. Twice, because the rate is a mean over all sets of
/// items: a small filter may have been unlucky with the items that it has. The bound is Chernoff's: so many or more
/// are found with a chance of at most exp(-asked * D(found / asked, 2 * rate)).
fn is_chance(asked: u64, found: u64, rate: f64) -> bool {
    let allowed = 2.0 * rate;
    let (n, part) = (asked as f64, found as f64 / asked.max(1) as f64);
    if part <= allowed {
        return true;
    }
    let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    let divergence = term(part, allowed) + term(1.0 - part, 1.0 - allowed);
    -n * divergence > FALSE_ALARM.ln()
}

/// An item that must be found.
#[derive(Clone, Copy)]
struct Claim<'a> {
    sent: Time,
    safe: Time,
    event: &'a Event,
}

type Claims<'a> = HashMap<Item, Vec<Claim<'a>>>;

/// All that is broken.
pub fn check(terms: &[Terms], history: &History, observations: &[Observation]) -> Vec<Violation> {
    let facts: Vec<_> = (0..terms.len()).map(|key| Facts::of(history, key)).collect();
    let claims = claims(terms.len(), history);
    let mut violations = Vec::new();
    for observation in observations {
        let key = observation.key;
        let found = observation
            .asked
            .iter()
            .copied()
            .zip(observation.found.iter().copied());
        let found: HashMap<Item, bool> = found.collect();
        let context = Context {
            terms,
            facts: &facts,
            observation,
            found: &found,
        };
        violations.extend(context.lost(&claims[key]));
        violations.extend(context.back());
        violations.extend(context.phantoms());
        violations.extend(context.count());
    }
    violations.extend(differing(terms, observations));
    violations.extend(torn(history, observations));
    violations
}

/// What a history says of one key.
struct Facts<'a> {
    events: Vec<&'a Event>,
    /// When the last command that empties it may have been done.
    emptied: Time,
    /// When the last exception of an item may have been made.
    excepted: HashMap<Item, Time>,
    /// When the last add of an item may have been done.
    added: HashMap<Item, Time>,
    different: BTreeSet<Item>,
    sent: u64,
}

impl<'a> Facts<'a> {
    fn of(history: &'a History, key: Key) -> Self {
        let events = history
            .events
            .iter()
            .filter(|event| event.key == key && event.may_count());
        let mut facts = Self {
            events: events.collect(),
            emptied: 0,
            excepted: HashMap::new(),
            added: HashMap::new(),
            different: BTreeSet::new(),
            sent: 0,
        };
        for event in &facts.events {
            let over = event.over();
            match &event.act {
                Act::Empty => facts.emptied = facts.emptied.max(over),
                Act::Except(items) => raise(&mut facts.excepted, items, over),
                Act::Add(items) => {
                    raise(&mut facts.added, items, over);
                    facts.different.extend(items);
                    facts.sent += items.len() as u64 * if event.twice { 2 } else { 1 };
                }
                Act::Merge(_) | Act::Intersect(_) | Act::Copy(_) | Act::Nothing => {}
            }
        }
        facts
    }

    /// The sources of what came from other keys.
    fn sources(&self) -> BTreeSet<Key> {
        let sources = self.events.iter().flat_map(|event| match &event.act {
            Act::Merge(sources) | Act::Intersect(sources) => sources.clone(),
            Act::Copy(source) => vec![*source],
            _ => Vec::new(),
        });
        sources.collect()
    }
}

/// Notes the latest time of items.
fn raise(times: &mut HashMap<Item, Time>, items: &[Item], time: Time) {
    for item in items {
        let latest = times.entry(*item).or_default();
        *latest = time.max(*latest);
    }
}

/// The claims of each key: those of adds, then those that pass on from them.
fn claims(keys: usize, history: &History) -> Vec<Claims<'_>> {
    let mut claims = vec![Claims::new(); keys];
    let safe = || {
        let events = history.events.iter().filter(|event| event.may_count());
        events.filter_map(|event| event.confirmed.map(|safe| (event, safe)))
    };
    for (event, safe) in safe() {
        if let Act::Add(items) = &event.act {
            let taken = items
                .iter()
                .enumerate()
                .filter(|(place, _)| event.answer(*place).is_some());
            for (_, item) in taken {
                let claim = Claim {
                    sent: event.sent,
                    safe,
                    event,
                };
                claims[event.key].entry(*item).or_default().push(claim);
            }
        }
    }
    let direct = claims.clone();
    let before = |key: Key, time: Time| {
        let items = direct[key].iter();
        items.filter(move |(_, claims)| claims.iter().any(|claim| claim.safe < time))
    };
    for (event, safe) in safe() {
        let claim = Claim {
            sent: event.sent,
            safe,
            event,
        };
        let passed: Vec<Item> = match &event.act {
            Act::Merge(sources) => sources
                .iter()
                .flat_map(|source| before(*source, event.sent).map(|(item, _)| *item))
                .collect(),
            Act::Copy(source) => before(*source, event.sent).map(|(item, _)| *item).collect(),
            Act::Intersect(sources) => {
                let mut sets = sources.iter().map(|source| {
                    before(*source, event.sent)
                        .map(|(item, _)| *item)
                        .collect::<BTreeSet<_>>()
                });
                let first = sets.next().unwrap_or_default();
                sets.fold(first, |common, set| &common & &set)
                    .into_iter()
                    .collect()
            }
            _ => continue,
        };
        for item in passed {
            claims[event.key].entry(item).or_default().push(claim);
        }
    }
    claims
}

struct Context<'a> {
    terms: &'a [Terms],
    facts: &'a [Facts<'a>],
    observation: &'a Observation,
    found: &'a HashMap<Item, bool>,
}

impl Context<'_> {
    fn name(&self) -> String {
        self.terms[self.observation.key].name.clone()
    }

    fn by(&self) -> String {
        self.observation.by.clone()
    }

    fn facts(&self) -> &Facts<'_> {
        &self.facts[self.observation.key]
    }

    /// Rule 1.
    fn lost(&self, claims: &Claims<'_>) -> Vec<Violation> {
        let mut lost: BTreeMap<(Time, String), Vec<Item>> = BTreeMap::new();
        for (item, claims) in claims {
            if self.found.get(item) != Some(&false) {
                continue;
            }
            let excepted = self.facts().excepted.get(item).copied().unwrap_or(0);
            let gone = excepted.max(self.facts().emptied);
            if let Some(claim) = claims.iter().find(|claim| claim.sent > gone) {
                let event = claim.event;
                let op = format!(
                    "client {} op {} ({}, sent {}, safe {})",
                    event.client, event.op, event.way, event.sent, claim.safe
                );
                lost.entry((claim.sent, op)).or_default().push(*item);
            }
        }
        let lost = lost.into_iter().map(|((_, op), mut items)| {
            items.sort_unstable();
            Violation::Lost {
                key: self.name(),
                by: self.by(),
                items,
                op,
            }
        });
        lost.collect()
    }

    /// Rule 2.
    fn back(&self) -> Option<Violation> {
        let facts = self.facts();
        let mut items = BTreeSet::new();
        for event in facts.events.iter().filter(|event| event.confirmed.is_some()) {
            if let Act::Except(excepted) = &event.act
                && facts.emptied < event.sent
            {
                let sure = excepted.iter().enumerate().filter(|(place, item)| {
                    event.answer(*place) == Some(true)
                        && facts.added.get(item).is_none_or(|added| *added < event.sent)
                        && self.found.get(item) == Some(&true)
                });
                items.extend(sure.map(|(_, item)| *item));
            }
        }
        let items: Vec<_> = items.into_iter().collect();
        (!items.is_empty()).then(|| Violation::Back {
            key: self.name(),
            by: self.by(),
            items,
        })
    }

    /// Rule 3.
    fn phantoms(&self) -> Vec<Violation> {
        let facts = self.facts();
        let empties = facts.events.iter().filter(|event| event.act == Act::Empty);
        let emptied = empties
            .filter(|event| event.confirmed.is_some())
            .map(|event| event.sent)
            .max();
        let gone = facts
            .added
            .iter()
            .filter(|(_, added)| emptied.is_some_and(|emptied| **added < emptied));
        let gone: Vec<_> = gone.filter_map(|(item, _)| self.found.get(item)).collect();
        let back = gone.iter().filter(|found| ***found).count() as u64;
        let (asked, hits) = self.observation.ghosts;
        let rate = self.terms[self.observation.key].rate;
        let kinds = [
            ("items that nobody added", asked, hits),
            ("items that were taken out", gone.len() as u64, back),
        ];
        let beyond = kinds
            .into_iter()
            .filter(|(_, asked, found)| !is_chance(*asked, *found, rate));
        let (key, by) = (self.name(), self.by());
        beyond
            .map(|(what, asked, found)| Violation::Phantoms {
                key: key.clone(),
                by: by.clone(),
                what,
                asked,
                found,
                rate,
            })
            .collect()
    }

    /// Rule 4.
    fn count(&self) -> Option<Violation> {
        let facts = self.facts();
        let sources = facts.sources();
        let mut all = facts.different.clone();
        sources
            .iter()
            .for_each(|source| all.extend(&self.facts[*source].different));
        let different = all.len() as u64;
        let most = match self.terms[self.observation.key].count {
            Count::Different => different,
            Count::Sent => different + facts.sent,
            Count::Estimated => different + different / 10 + 20,
        };
        let card = self.observation.card;
        (card > most).then(|| Violation::Count {
            key: self.name(),
            by: self.by(),
            card,
            most,
        })
    }
}

/// Rule 5.
fn differing(terms: &[Terms], observations: &[Observation]) -> Vec<Violation> {
    let mut first: HashMap<Key, &Observation> = HashMap::new();
    let mut violations = Vec::new();
    for other in observations {
        let one = *first.entry(other.key).or_insert(other);
        if one.state != other.state {
            violations.push(Violation::Differ {
                key: terms[other.key].name.clone(),
                one: one.by.clone(),
                other: other.by.clone(),
                states: [one.state.clone(), other.state.clone()],
            });
        }
    }
    violations
}

/// Rule 6. Such transactions go to filters that say yes by chance once in 10^12 times, and are never emptied.
fn torn(history: &History, observations: &[Observation]) -> Vec<Violation> {
    let mut whole: BTreeMap<(usize, usize), BTreeSet<(Key, Item)>> = BTreeMap::new();
    for event in history
        .events
        .iter()
        .filter(|event| event.whole && event.may_count())
    {
        if let Act::Add(items) = &event.act {
            let items = items.iter().map(|item| (event.key, *item));
            whole.entry((event.client, event.op)).or_default().extend(items);
        }
    }
    let mut found: BTreeMap<&str, HashMap<(Key, Item), bool>> = BTreeMap::new();
    for observation in observations {
        let answers = observation.asked.iter().zip(&observation.found);
        let answers = answers.map(|(item, found)| ((observation.key, *item), *found));
        found.entry(&observation.by).or_default().extend(answers);
    }
    let mut violations = Vec::new();
    for (by, found) in &found {
        for ((client, op), items) in &whole {
            let answers: BTreeSet<_> = items.iter().filter_map(|item| found.get(item)).collect();
            if answers.len() > 1 {
                let op = format!("client {client} op {op}");
                violations.push(Violation::Torn {
                    op,
                    by: (*by).to_owned(),
                });
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::history::{End, Mark};
    use super::*;

    fn terms(count: Count) -> Vec<Terms> {
        let terms = |name: &str| Terms {
            name: name.into(),
            rate: 0.01,
            count,
        };
        vec![terms("one"), terms("two"), terms("three")]
    }

    /// An event of `key` that was sent at `sent`, answered one later and safe two later.
    fn safe(op: usize, key: Key, act: Act, sent: Time) -> Event {
        let answers = match &act {
            Act::Add(items) | Act::Except(items) => vec![Some(true); items.len()],
            _ => Vec::new(),
        };
        Event {
            client: 0,
            op,
            whole: false,
            key,
            way: "way",
            act,
            sent,
            end: End::Done(sent + 1, answers),
            confirmed: Some(sent + 2),
            twice: false,
        }
    }

    fn lost(event: Event) -> Event {
        Event {
            end: End::Lost,
            confirmed: None,
            ..event
        }
    }

    /// The observation of a server that has exactly the items `has` of those `asked`.
    fn seen(by: &str, key: Key, asked: &[Item], has: &[Item]) -> Observation {
        Observation {
            by: by.into(),
            key,
            asked: asked.into(),
            found: asked.iter().map(|item| has.contains(item)).collect(),
            ghosts: (1000, 5),
            card: has.len() as u64,
            state: vec!["state".into()],
        }
    }

    fn verdict(events: Vec<Event>, observations: &[Observation]) -> Vec<Violation> {
        let history = History {
            events,
            marks: Vec::new(),
        };
        check(&terms(Count::Different), &history, observations)
    }

    fn names(violations: &[Violation]) -> Vec<String> {
        let texts = violations.iter().map(ToString::to_string);
        texts
            .map(|text| text.split(':').next().unwrap().to_owned())
            .collect()
    }

    /// A write that was confirmed and is gone would pass, or one that never was would be missed.
    #[test]
    fn a_lost_write_is_found_and_an_unconfirmed_one_is_not_missed() {
        let add = |op, item, sent| safe(op, 0, Act::Add(vec![item]), sent);
        let events = vec![add(0, 1, 10), lost(add(1, 2, 20)), add(2, 3, 30)];
        let at = seen("b", 0, &[1, 2, 3], &[1]);
        let violations = verdict(events.clone(), &[at]);
        let op = "client 0 op 2 (way, sent 30, safe 32)".to_owned();
        let expected = Violation::Lost {
            key: "one".into(),
            by: "b".into(),
            items: vec![3],
            op,
        };
        assert_eq!(violations, [expected]);
        assert_eq!(verdict(events, &[seen("b", 0, &[1, 2, 3], &[1, 3])]), []);
    }

    /// An item that did not fit any more would be missed.
    #[test]
    fn what_did_not_fit_is_not_missed() {
        let mut event = safe(0, 0, Act::Add(vec![1, 2]), 10);
        event.end = End::Done(11, vec![Some(true), None]);
        assert_eq!(verdict(vec![event], &[seen("a", 0, &[1, 2], &[1])]), []);
    }

    /// Items that were removed on purpose would raise an alarm, or a reset that was over before would hide a loss.
    #[test]
    fn a_removal_excuses_what_may_have_come_before_it_and_nothing_else() {
        let add = safe(0, 0, Act::Add(vec![1]), 10);
        let at = [seen("a", 0, &[1], &[])];
        for (removal, excused) in [
            (safe(1, 0, Act::Empty, 5), false),
            (safe(1, 1, Act::Empty, 20), true),
            (safe(1, 0, Act::Empty, 20), true),
            // This command overlaps with the add.
            (safe(1, 0, Act::Empty, 9), true),
            // Nobody knows when, or whether.
            (lost(safe(1, 0, Act::Empty, 5)), true),
            (safe(1, 0, Act::Except(vec![1]), 20), true),
            (safe(1, 0, Act::Except(vec![2]), 20), false),
            (safe(1, 0, Act::Except(vec![1]), 5), false),
        ] {
            let excused = excused && removal.key == 0;
            let violations = verdict(vec![add.clone(), removal.clone()], &at);
            assert_eq!(violations.is_empty(), excused, "{removal:?}");
        }
        let mut refused = safe(1, 0, Act::Empty, 20);
        refused.end = End::Refused("READONLY".into());
        assert_eq!(names(&verdict(vec![add, refused], &at)), ["LOST"]);
    }

    /// A union, an intersection or a copy could lose what its sources had.
    #[test]
    fn claims_pass_on_from_sources() {
        let both = || {
            vec![
                safe(0, 0, Act::Add(vec![1, 2]), 10),
                safe(1, 1, Act::Add(vec![2, 3]), 10),
            ]
        };
        let with = |act, sent| [both(), vec![safe(2, 2, act, sent)]].concat();
        let at = |has: &[Item]| [seen("a", 2, &[1, 2, 3], has)];
        let missing = |events, has: &[Item]| match &verdict(events, &at(has))[..] {
            [] => Vec::new(),
            [Violation::Lost { items, .. }] => items.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(with(Act::Merge(vec![0, 1]), 20), &[]), [1, 2, 3]);
        assert_eq!(missing(with(Act::Intersect(vec![0, 1]), 20), &[]), [2]);
        assert_eq!(missing(with(Act::Copy(0), 20), &[]), [1, 2]);
        assert_eq!(missing(with(Act::Copy(0), 20), &[1, 2]), Vec::<Item>::new());
        // Not safe yet in the source when it was sent.
        assert_eq!(missing(with(Act::Copy(0), 12), &[]), Vec::<Item>::new());
    }

    /// An exception that a failover forgot would pass.
    #[test]
    fn an_excepted_item_is_not_back() {
        let add = safe(0, 0, Act::Add(vec![1, 2]), 10);
        let except = safe(1, 0, Act::Except(vec![1]), 20);
        let at = [seen("a", 0, &[1, 2], &[1, 2])];
        let violations = verdict(vec![add.clone(), except.clone()], &at);
        let expected = Violation::Back {
            key: "one".into(),
            by: "a".into(),
            items: vec![1],
        };
        assert_eq!(violations, [expected]);
        // Somebody may have added it again.
        let again = lost(safe(2, 0, Act::Add(vec![1]), 15));
        assert_eq!(verdict(vec![add.clone(), except.clone(), again], &at), []);
        // Another item may have the same bits in the filter that was emptied since.
        let emptied = safe(2, 0, Act::Empty, 30);
        assert_eq!(verdict(vec![add.clone(), except.clone(), emptied], &at), []);
        // The item was not there, so nothing was excepted.
        let absent = Event {
            end: End::Done(21, vec![Some(false)]),
            ..except.clone()
        };
        assert_eq!(verdict(vec![add.clone(), absent], &at), []);
        assert_eq!(verdict(vec![add, lost(except)], &at), []);
    }

    /// A filter that says yes to anything would pass, or an unlucky one would raise an alarm.
    #[test]
    fn phantoms_are_found() {
        let ghosts = |hits| {
            let at = Observation {
                ghosts: (1000, hits),
                ..seen("a", 0, &[], &[])
            };
            names(&verdict(Vec::new(), &[at]))
        };
        assert!(ghosts(10).is_empty());
        assert!(ghosts(40).is_empty());
        assert_eq!(ghosts(100), ["PHANTOMS"]);
        assert!(is_chance(2000, 1, 1e-12) && !is_chance(2000, 2, 1e-12));
        assert!(is_chance(0, 0, 0.01));
        // What a reset took out is as good as never added.
        let items: Vec<Item> = (0..500).collect();
        let events = vec![
            safe(0, 0, Act::Add(items.clone()), 10),
            safe(1, 0, Act::Empty, 20),
        ];
        assert_eq!(
            names(&verdict(events.clone(), &[seen("a", 0, &items, &items)])),
            ["PHANTOMS"]
        );
        assert_eq!(verdict(events, &[seen("a", 0, &items, &items[..5])]), []);
    }

    /// A command that is done twice would count twice, unseen.
    #[test]
    fn a_count_that_is_too_high_is_found() {
        let add = safe(0, 0, Act::Add(vec![1, 2]), 10);
        let again = safe(0, 0, Act::Add(vec![1, 2]), 20);
        let at = |card| {
            [Observation {
                card,
                ..seen("a", 0, &[1, 2], &[1, 2])
            }]
        };
        let history = History {
            events: vec![add, again],
            marks: Vec::new(),
        };
        let verdict = |count, card| names(&check(&terms(count), &history, &at(card)));
        assert!(verdict(Count::Different, 2).is_empty());
        assert_eq!(verdict(Count::Different, 3), ["COUNT"]);
        assert!(verdict(Count::Sent, 6).is_empty());
        assert_eq!(verdict(Count::Sent, 7), ["COUNT"]);
        assert!(verdict(Count::Estimated, 22).is_empty());
        assert_eq!(verdict(Count::Estimated, 23), ["COUNT"]);
    }

    /// A replica that went its own way would pass.
    #[test]
    fn digests_that_differ_are_found() {
        let one = seen("a", 0, &[], &[]);
        let other = Observation {
            by: "b".into(),
            state: vec!["another".into()],
            ..one.clone()
        };
        let elsewhere = Observation {
            key: 1,
            ..other.clone()
        };
        assert_eq!(verdict(Vec::new(), &[one.clone(), elsewhere]), []);
        assert_eq!(names(&verdict(Vec::new(), &[one, other])), ["DIFFER"]);
    }

    /// Half of a transaction would pass.
    #[test]
    fn half_of_a_transaction_is_found() {
        let part = |key, item| Event {
            whole: true,
            ..lost(safe(0, key, Act::Add(vec![item]), 10))
        };
        let events = || vec![part(0, 1), part(1, 2)];
        let at = |one: &[Item], two: &[Item]| [seen("a", 0, &[1], one), seen("a", 1, &[2], two)];
        assert_eq!(verdict(events(), &at(&[1], &[2])), []);
        assert_eq!(verdict(events(), &at(&[], &[])), []);
        assert_eq!(names(&verdict(events(), &at(&[1], &[]))), ["TORN"]);
    }

    /// What came after a snapshot, or in a life of the server that ended before it, would be missed; what it holds
    /// would not be.
    #[test]
    fn a_snapshot_confirms_what_came_before_it() {
        let add = |op, sent| Event {
            confirmed: None,
            ..safe(op, 0, Act::Add(vec![sent as Item]), sent)
        };
        let mut history = History {
            events: vec![add(0, 10), add(1, 30), add(2, 50), add(3, 70)],
            marks: vec![Mark::Saved(20, 25), Mark::Died(40), Mark::Saved(60, 65)],
        };
        history.confirm_by_snapshots();
        let confirmed: Vec<_> = history.events.iter().map(|event| event.confirmed).collect();
        assert_eq!(confirmed, [Some(25), None, Some(65), None]);
    }
}
