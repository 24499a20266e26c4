//! What a seed fixes: the scene, its faults, the kinds of filters, the number of clients. A plan is made smaller by
//! leaving parts of it out, and written as a line that names what stays.

use std::fmt;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::check::{Count, Terms};
use super::history::Key;
use super::proxy::Weather;
use crate::server::Server;

/// Seconds of a window. No item of a round is ever over by any clock, since clocks differ by less.
pub const WINDOW: i64 = 7200;

/// Clocks are wrong by at most so many seconds.
pub const SKEW: i64 = 600;

/// A filter of the round.
pub struct Kind {
    pub name: &'static str,
    /// What BF.RESERVE takes behind the key.
    pub words: &'static str,
    /// The rate that the filter promises in all. In valkey-bloom's layout it is higher than the rate that the
    /// filter was made for.
    pub rate: f64,
    pub count: Count,
    pub role: Role,
    /// Half of the keys of a cluster have a slot, the other half another one. Who are combined are in one.
    pub half: usize,
}

/// What clients do with a filter, apart from adding to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// Nothing.
    Grows,
    /// Transactions add to it and to another such filter.
    Whole,
    /// The filter is emptied and removed; items are excepted if its layout allows that.
    Swept { exceptions: bool },
    /// Items are never added directly: the filter is merged from these two.
    Union([&'static str; 2]),
    /// The filter is the intersection of these two.
    Common([&'static str; 2]),
    /// The filter is loaded from the chunks of another one.
    Copied(&'static str),
}

const fn kind(name: &'static str, words: &'static str, rate: f64, role: Role) -> Kind {
    Kind {
        name,
        words,
        rate,
        count: Count::Different,
        role,
        half: 0,
    }
}

impl Kind {
    const fn counts(self, count: Count) -> Self {
        Self { count, ..self }
    }

    const fn other_half(self) -> Self {
        Self { half: 1, ..self }
    }

    /// Whether it has a window, and with it commands that take a time.
    pub fn has_window(&self) -> bool {
        self.words.contains("WINDOW")
    }
}

/// All kinds. A copy and what is swept may be made anew by a plain BF.ADD, with the rate of the configuration, 0.01.
pub const KINDS: &[Kind] = &[
    kind("default", "0.01 100 GROWING", 0.01, Role::Grows),
    kind("tight", "1e-12 500 GROWING SEED 7", 1e-12, Role::Whole),
    kind("chain", "1e-12 60 SEED 18446744073709551615", 1e-12, Role::Whole),
    kind("classic", "0.01 100 LAYOUT CLASSIC", 0.01, Role::Grows).other_half(),
    kind(
        "fixed-classic",
        "0.001 20000 NONSCALING LAYOUT CLASSIC",
        0.001,
        Role::Grows,
    )
    .other_half(),
    kind(
        "valkey",
        "0.01 100 LAYOUT VALKEY TIGHTENING 0.75",
        0.04,
        Role::Grows,
    )
    .other_half(),
    kind(
        "fixed-valkey",
        "0.001 20000 NONSCALING LAYOUT VALKEY",
        0.001,
        Role::Grows,
    )
    .other_half(),
    kind("window", "0.01 400 WINDOW 7200 SLICES 4", 0.01, Role::Grows),
    kind(
        "refresh",
        "0.01 400 WINDOW 7200 SLICES 8 REFRESH",
        0.01,
        Role::Grows,
    )
    .counts(Count::Sent)
    .other_half(),
    kind("swept", "0.01 300", 0.01, Role::Swept { exceptions: true }),
    kind(
        "swept-classic",
        "0.01 300 LAYOUT CLASSIC",
        0.01,
        Role::Swept { exceptions: false },
    ),
    kind(
        "swept-valkey",
        "0.01 300 LAYOUT VALKEY",
        0.01,
        Role::Swept { exceptions: false },
    )
    .other_half(),
    kind("left", "0.01 20000 NONSCALING SEED 5", 0.01, Role::Grows),
    kind("right", "0.01 20000 NONSCALING SEED 5", 0.01, Role::Grows),
    kind(
        "union",
        "0.01 20000 NONSCALING SEED 5",
        0.01,
        Role::Union(["left", "right"]),
    )
    .counts(Count::Estimated),
    kind(
        "common",
        "0.01 20000 NONSCALING SEED 5",
        0.01,
        Role::Common(["left", "right"]),
    )
    .counts(Count::Estimated),
    kind("copied", "", 0.01, Role::Copied("tight")).counts(Count::Sent),
    kind("copied-left", "", 0.01, Role::Copied("left")).counts(Count::Sent),
    kind("copied-window", "", 0.01, Role::Copied("window")).counts(Count::Sent),
    kind("copied-classic", "", 0.01, Role::Copied("fixed-classic"))
        .counts(Count::Sent)
        .other_half(),
    kind("copied-valkey", "", 0.04, Role::Copied("valkey"))
        .counts(Count::Sent)
        .other_half(),
];

/// The place of a kind.
pub fn named(name: &str) -> Key {
    KINDS.iter().position(|kind| kind.name == name).unwrap()
}

/// What the checker must know of all keys.
pub fn terms() -> Vec<Terms> {
    let terms = KINDS.iter().map(|kind| Terms {
        name: kind.name.into(),
        rate: kind.rate,
        count: kind.count,
    });
    terms.collect()
}

/// The key of a kind.
pub fn key(at: Key) -> String {
    format!("{{half:{}}}:{}", KINDS[at].half, KINDS[at].name)
}

/// A key beside it, in its slot.
pub fn marker(at: Key) -> String {
    format!("{{half:{}}}:marker", KINDS[at].half)
}

/// What makes a command safe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// The reply to the command, because the append-only file is synced before the reply.
    Always,
    /// WAITAOF for the server's own file.
    WaitAof,
    /// A snapshot afterwards.
    Snapshot,
    /// WAIT for so many replicas.
    Wait(i64),
}

/// Which servers there are, and who decides which of them is the primary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scene {
    /// One server, and its files.
    Single,
    /// A primary and two replicas. The test decides, by offsets.
    Hand,
    /// A primary and two replicas. Sentinel decides.
    Sentinel,
    /// Three primaries with a replica each, which decide.
    Cluster,
}

pub const SCENES: [Scene; 4] = [Scene::Single, Scene::Hand, Scene::Sentinel, Scene::Cluster];

/// What befalls servers, one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blow {
    /// The primary is killed (-9). Who decides makes another one; a server alone starts again.
    KillPrimary,
    /// The primary is stopped (SIGSTOP) for longer than the others wait, and finds itself replaced.
    PausePrimary,
    /// The primary is cut off from its replicas and whoever decides, but not from clients.
    IsolatePrimary,
    /// A replica lags behind, then the primary is killed.
    LagAndKill,
    KillReplica,
    PauseReplica,
    /// The connections between servers end once, some in the middle of a command.
    CutPeers,
    /// The connections between servers stall.
    HoldPeers,
    LagPeers,
    /// Primary and replica change places by agreement.
    Handover,
    /// BGREWRITEAOF.
    Rewrite,
    /// BGREWRITEAOF, and a kill before it may be ready.
    RewriteAndKill,
    /// BGSAVE.
    Save,
    /// No file can grow any more.
    Full,
    /// DEBUG RELOAD of a primary.
    Reload,
    /// The clock of a server jumps.
    Clock,
    /// A slot moves.
    Move,
}

impl Scene {
    fn blows(self) -> &'static [Blow] {
        use Blow::*;
        match self {
            Self::Single => &[
                KillPrimary,
                KillPrimary,
                PausePrimary,
                Rewrite,
                RewriteAndKill,
                Save,
                Full,
                Full,
                Reload,
                Clock,
            ],
            Self::Hand => &[
                KillPrimary,
                LagAndKill,
                LagAndKill,
                PausePrimary,
                IsolatePrimary,
                KillReplica,
                PauseReplica,
                CutPeers,
                HoldPeers,
                LagPeers,
                Handover,
                Clock,
                Rewrite,
                Reload,
            ],
            Self::Sentinel => &[
                KillPrimary,
                KillPrimary,
                PausePrimary,
                IsolatePrimary,
                KillReplica,
                PauseReplica,
                CutPeers,
                LagPeers,
                Handover,
                Clock,
                Rewrite,
            ],
            Self::Cluster => &[
                KillPrimary,
                PausePrimary,
                IsolatePrimary,
                KillReplica,
                PauseReplica,
                CutPeers,
                LagPeers,
                Handover,
                Move,
                Move,
                Move,
            ],
        }
    }
}

/// A blow, how long nothing happens before it, and how long it lasts, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub blow: Blow,
    pub after: u64,
    pub lasts: u64,
    /// Chooses among replicas, shards, clocks.
    pub choice: u64,
}

/// Bad weather between clients and a server, at any time.
#[derive(Clone, Copy, Debug)]
pub struct Squall {
    pub server: usize,
    pub weather: Weather,
    pub after: u64,
    pub lasts: u64,
}

/// A round.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub scene: Scene,
    pub promise: Promise,
    /// Whether all servers have an append-only file that is synced always.
    pub append_only: bool,
    /// Whether it begins with an RDB preamble when it is rewritten.
    pub preamble: bool,
    /// Whether servers have clocks of their own (where libfaketime is there).
    pub clocks: bool,
    pub clients: usize,
    /// By place in the plan of the seed.
    pub faults: Vec<(usize, Fault)>,
    pub squalls: Vec<(usize, Squall)>,
    pub keys: Vec<Key>,
}

impl Plan {
    /// The plan of a seed; a short one has its first faults.
    pub fn of(seed: u64, scene: Option<Scene>, short: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let drawn = SCENES[random.random_range(0..SCENES.len())];
        let scene = scene.unwrap_or(drawn);
        let persistent = random.random_bool(0.5);
        let promise = match scene {
            Scene::Single => {
                let version = Server::version();
                let waits = version.at_least(7, 2);
                match random.random_range(0..if waits { 4 } else { 3 }) {
                    0 | 1 => Promise::Always,
                    2 => Promise::Snapshot,
                    _ => Promise::WaitAof,
                }
            }
            Scene::Hand | Scene::Cluster => Promise::Wait(1),
            Scene::Sentinel => Promise::Wait(2),
        };
        let append_only = match scene {
            Scene::Single => promise != Promise::Snapshot,
            Scene::Hand | Scene::Sentinel => persistent,
            Scene::Cluster => true,
        };
        let blows: Vec<_> = {
            let possible = scene.blows().iter().copied();
            let files = |blow: &Blow| append_only || !matches!(blow, Blow::Rewrite | Blow::RewriteAndKill);
            possible.filter(files).collect()
        };
        let count = random.random_range(2..6);
        let fault = |_| Fault {
            blow: blows[random.random_range(0..blows.len())],
            after: random.random_range(100..500),
            lasts: random.random_range(100..1500),
            choice: random.random(),
        };
        let mut faults: Vec<_> = (0..count).map(fault).enumerate().collect();
        let squall = |_| Squall {
            server: random.random_range(0..6),
            weather: [Weather::Cut, Weather::Hold, Weather::Lag, Weather::Half][random.random_range(0..4)],
            after: random.random_range(50..600),
            lasts: random.random_range(50..400),
        };
        let mut squalls: Vec<_> = (0..2 * count).map(squall).enumerate().collect();
        let mut keys: Vec<_> = (0..KINDS.len()).collect();
        keys.shuffle(&mut random);
        if short {
            faults.truncate(2);
            squalls.truncate(4);
        }
        Self {
            seed,
            scene,
            promise,
            append_only,
            preamble: random.random_bool(0.3),
            clocks: random.random_bool(0.5),
            clients: random.random_range(2..5),
            faults,
            squalls,
            keys,
        }
    }

    /// Leaves out what a line of [`fmt::Display`] does not name.
    pub fn only(mut self, line: &str) -> Self {
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let numbers: Vec<usize> = value
                .split(',')
                .filter_map(|number| number.parse().ok())
                .collect();
            match name {
                "clients" => self.clients = numbers[0],
                "faults" => self.faults.retain(|(at, _)| numbers.contains(at)),
                "squalls" => self.squalls.retain(|(at, _)| numbers.contains(at)),
                "keys" => self.keys.retain(|key| numbers.contains(key)),
                "clocks" => self.clocks &= value == "yes",
                "scene" => {}
                _ => panic!("not of a plan: {word}"),
            }
        }
        self
    }

    /// The scene that such a line names.
    pub fn scene_of(line: &str) -> Option<Scene> {
        let named = |scene: &Scene| {
            line.split_whitespace()
                .any(|word| word == format!("scene={scene:?}"))
        };
        SCENES.into_iter().find(named)
    }

    /// Smaller plans, the smallest first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        if !self.squalls.is_empty() {
            plans.push(Self {
                squalls: Vec::new(),
                ..self.clone()
            });
        }
        if self.clocks {
            plans.push(Self {
                clocks: false,
                ..self.clone()
            });
        }
        for at in 0..self.faults.len() {
            let mut plan = self.clone();
            plan.faults.remove(at);
            plans.push(plan);
        }
        if self.clients > 1 {
            plans.push(Self {
                clients: 1,
                ..self.clone()
            });
        }
        if self.keys.len() > 1 {
            let (one, other) = self.keys.split_at(self.keys.len() / 2);
            plans.extend([one, other].map(|keys| Self {
                keys: keys.to_vec(),
                ..self.clone()
            }));
        }
        plans
    }

    /// Milliseconds that its faults and squalls take at least.
    pub fn length(&self) -> u64 {
        let sum = self
            .faults
            .iter()
            .map(|(_, fault)| fault.after + fault.lasts)
            .sum::<u64>();
        sum.max(700)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: Vec<usize>| {
            let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            numbers.join(",")
        };
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        write!(
            f,
            "scene={:?} clients={} clocks={} faults={} squalls={} keys={}",
            self.scene,
            self.clients,
            if self.clocks { "yes" } else { "no" },
            list(self.faults.iter().map(|(at, _)| *at).collect()),
            list(self.squalls.iter().map(|(at, _)| *at).collect()),
            list(keys)
        )
    }
}
