//! The servers of a round, each behind fronts, and what befalls them.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::history::Mark;
use super::plan::{Blow, Fault, Plan, Promise, SKEW, Scene};
use super::proxy::{Front, Weather};
use super::worker::Map;
use crate::client::{Client, Reply, figure, ok};
use crate::server::{PORTS, Server, free_port, until};

/// Milliseconds after which Sentinel, or the nodes of a cluster, miss a primary.
const MISSED: u64 = 2000;

/// A process that was killed stays away longer than that.
const AWAY: Duration = Duration::from_millis(MISSED + 1500);

const SHARDS: usize = 3;

/// A server behind its fronts.
pub struct Node {
    pub server: Server,
    id: i32,
    /// For clients, for those that want everything twice, for other servers, and for the bus of a cluster.
    pub clients: Arc<Front>,
    twice: Front,
    peers: Front,
    bus: Option<Front>,
    clock: i64,
    is_down: bool,
}

impl Node {
    fn start(plan: &Plan, clock: i64) -> Self {
        let peers = Front::new();
        let bus = (plan.scene == Scene::Cluster).then(Front::new);
        let yes_no = |yes: bool| if yes { "yes" } else { "no" };
        let mut setup = Server::with()
            .config("aof-use-rdb-preamble", yes_no(plan.preamble))
            .config("auto-aof-rewrite-percentage", 0)
            .config("repl-backlog-size", "256kb")
            .config("repl-timeout", 10)
            .config("repl-ping-replica-period", 1);
        if plan.scene != Scene::Single {
            setup = setup
                .config("replica-announce-ip", "127.0.0.1")
                .config("replica-announce-port", peers.port());
        }
        if plan.append_only {
            let policy = if plan.promise == Promise::WaitAof {
                "everysec"
            } else {
                "always"
            };
            setup = setup.config("appendonly", "yes").config("appendfsync", policy);
        }
        if let Some(bus) = &bus {
            setup = setup
                .cluster_node()
                .config("cluster-announce-ip", "127.0.0.1")
                .config("cluster-announce-port", peers.port())
                .config("cluster-announce-bus-port", bus.port())
                .config("cluster-node-timeout", MISSED)
                .config("cluster-require-full-coverage", "no")
                .config("cluster-migration-barrier", 100)
                .config("cluster-replica-validity-factor", 0);
        }
        if let Some(library) = faketime().filter(|_| plan.clocks) {
            let variables = [
                ("LD_PRELOAD", &*library),
                ("FAKETIME_TIMESTAMP_FILE", "./clock"),
                ("FAKETIME_NO_CACHE", "1"),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ];
            for (name, value) in variables {
                setup = setup.environment(name, value);
            }
            setup = setup.file("clock", shift(clock));
        }
        let server = setup.start();
        let mut node = Self {
            server,
            id: 0,
            clients: Arc::new(Front::new()),
            twice: Front::twice(),
            peers,
            bus,
            clock,
            is_down: false,
        };
        node.point();
        node
    }

    /// Names the port, and learns the process.
    fn point(&mut self) {
        let port = self.server.port();
        self.clients.point(port);
        self.twice.point(port);
        self.peers.point(port);
        if let Some(bus) = &self.bus {
            bus.point(port + 10_000);
        }
        self.id = self.stat("server", "process_id").parse().unwrap();
    }

    fn kill(&mut self) {
        self.server.kill9();
        self.is_down = true;
        self.end_all();
    }

    fn revive(&mut self) {
        self.server.revive();
        self.is_down = false;
        self.point();
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: it takes two numbers, and the process is a child that nobody has waited for.
        let sent = unsafe { libc::kill(self.id, signal) };
        assert_eq!(sent, 0, "no signal to {}", self.id);
    }

    fn end_all(&self) {
        self.clients.end_all();
        self.twice.end_all();
        self.peers.end_all();
    }

    fn set_clock(&mut self, clock: i64) {
        self.clock = clock;
        std::fs::write(self.server.dir().join("clock.new"), shift(clock)).unwrap();
        std::fs::rename(
            self.server.dir().join("clock.new"),
            self.server.dir().join("clock"),
        )
        .unwrap();
    }

    pub fn role(&self) -> String {
        self.stat("replication", "role")
    }

    fn offset(&self) -> u64 {
        let name = match self.role().as_str() {
            "master" => "master_repl_offset",
            _ => "slave_repl_offset",
        };
        self.stat("replication", name).parse().unwrap()
    }

    /// Whether it follows the one that others know by `port`, and is connected.
    fn follows(&self, port: u16) -> bool {
        let text = self.run("INFO replication").text();
        text.contains("role:slave")
            && text.contains("master_link_status:up")
            && text.contains(&format!("master_port:{port}\r"))
    }

    fn is_busy(&self) -> bool {
        let text = self.run("INFO persistence").text();
        [
            "loading:1",
            "aof_rewrite_in_progress:1",
            "aof_rewrite_scheduled:1",
            "rdb_bgsave_in_progress:1",
        ]
        .iter()
        .any(|word| text.contains(word))
    }

    /// Runs a line. Sentinel ends all connections of a server that it gives another part: then it is run again.
    fn run(&self, line: &str) -> Reply {
        let words: Vec<_> = line
            .split(' ')
            .map(|word| if word == "''" { "" } else { word })
            .collect();
        let mut why = None;
        for _ in 0..100 {
            let reply = Client::connect(self.server.port()).and_then(|mut client| {
                client.send(&words)?;
                client.receive()
            });
            match reply {
                Ok(reply) => return reply,
                Err(error) => why = Some(error),
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("no reply to {line}: {why:?}");
    }

    /// One value of INFO.
    fn stat(&self, section: &str, name: &str) -> String {
        figure(&self.run(&format!("INFO {section}")).text(), name)
    }
}

fn shift(clock: i64) -> String {
    format!("{clock:+}s\n")
}

/// The library that gives a process a clock of its own, if it is there and this server can run with it: one whose
/// jemalloc is a shared library, as Debian's, cannot.
fn faketime() -> Option<String> {
    static LIBRARY: LazyLock<Option<String>> = LazyLock::new(|| {
        let folders = std::fs::read_dir("/usr/lib").ok()?;
        let mut folders = folders.filter_map(|folder| Some(folder.ok()?.path().join("faketime")));
        let library =
            folders.find_map(|folder| Some(folder.join("libfaketime.so.1")).filter(|path| path.exists()));
        let library = library?.display().to_string();
        let mut process = Command::new(Server::program())
            .arg("--version")
            .env("LD_PRELOAD", &library)
            .env("FAKETIME", "+1s")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        // With this library a server may call itself for ever.
        let began = Instant::now();
        let status = loop {
            if let Some(status) = process.try_wait().ok()? {
                break status;
            }
            if began.elapsed() > Duration::from_secs(10) {
                let _already_ended = process.kill();
                let _status = process.wait();
                return None;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let mut complaint = String::new();
        process.stderr.take()?.read_to_string(&mut complaint).ok()?;
        (status.success() && !complaint.contains("libfaketime")).then_some(library)
    });
    LIBRARY.clone()
}

/// Whether servers can have clocks of their own here.
pub fn has_clocks() -> bool {
    faketime().is_some()
}

/// A Sentinel that alone decides.
struct Sentinel {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    /// Starts one, on another port when somebody took the first.
    fn start(primary: u16) -> Self {
        for _ in 0..PORTS {
            let mut sentinel = Self::launch(primary);
            let mut ended = false;
            until("Sentinel answers or ends", || {
                ended = sentinel.process.try_wait().unwrap().is_some();
                let state = sentinel.ask("SENTINEL MASTER main");
                ended || matches!(state, Some(Reply::Array(_) | Reply::Map(_)))
            });
            if !ended {
                return sentinel;
            }
        }
        panic!("no Sentinel starts in {PORTS} attempts");
    }

    fn launch(primary: u16) -> Self {
        let dir = TempDir::new().unwrap();
        let port = free_port(false);
        let config = format!(
            "port {port}\nbind 127.0.0.1\nprotected-mode no\ndir .\nsentinel monitor main 127.0.0.1 {primary} 1\n\
             sentinel down-after-milliseconds main {MISSED}\nsentinel failover-timeout main 2000\n\
             sentinel parallel-syncs main 2\n"
        );
        std::fs::write(dir.path().join("sentinel.conf"), config).unwrap();
        let process = Command::new(Server::program())
            .args(["sentinel.conf", "--sentinel"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            process,
            port,
            _dir: dir,
        }
    }

    fn ask(&self, line: &str) -> Option<Reply> {
        let mut client = Client::connect(self.port).ok()?;
        let words: Vec<_> = line.split(' ').collect();
        client.send(&words).and_then(|()| client.receive()).ok()
    }

    /// The port of the primary, when no failover is under way, and so many replicas are known.
    fn settled(&self, replicas: i64) -> Option<u16> {
        let text = |name: &str, reply: &Reply| reply.field(name).text();
        let state = self.ask("SENTINEL MASTER main")?;
        if !matches!(state, Reply::Array(_) | Reply::Map(_)) {
            return None;
        }
        let known = text("num-slaves", &state) == replicas.to_string();
        (known && text("flags", &state) == "master").then(|| text("port", &state).parse().unwrap())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _already_ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// All servers of a round.
pub struct World {
    plan: Plan,
    pub nodes: Vec<Node>,
    ids: Vec<String>,
    sentinel: Option<Sentinel>,
    pub map: Arc<Map>,
    pub marks: Vec<Mark>,
    random: StdRng,
}

impl World {
    pub fn start(plan: &Plan) -> Self {
        // A full disk is a limit of a file's size, whose signal would end the process instead of failing the write.
        // SAFETY: it changes what this process and its later children do on one signal, that nobody else asks for.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let mut random = StdRng::seed_from_u64(plan.seed.rotate_left(17));
        let count = match plan.scene {
            Scene::Single => 1,
            Scene::Hand | Scene::Sentinel => 3,
            Scene::Cluster => 2 * SHARDS,
        };
        let nodes: Vec<_> = (0..count)
            .map(|_| Node::start(plan, random.random_range(-SKEW..=SKEW)))
            .collect();
        let mut map = Map {
            began: Instant::now(),
            clients: nodes.iter().map(|node| node.clients.port()).collect(),
            twice: nodes.iter().map(|node| node.twice.port()).collect(),
            peers: nodes.iter().map(|node| node.peers.port()).collect(),
            primary: AtomicUsize::new(0),
            sentinel: AtomicUsize::new(0),
            owners: [AtomicUsize::new(0), AtomicUsize::new(0)],
            slots: [0, 1],
            stop: AtomicBool::new(false),
            strange: Mutex::default(),
        };
        let mut sentinel = None;
        let mut ids = Vec::new();
        match plan.scene {
            Scene::Single => {}
            Scene::Hand | Scene::Sentinel => {
                let line = format!("REPLICAOF 127.0.0.1 {}", nodes[0].peers.port());
                nodes[1..].iter().for_each(|node| {
                    assert_eq!(node.run(&line), ok());
                    // After a crash the node comes back as a replica.
                    assert_eq!(node.run("CONFIG REWRITE"), ok());
                });
                if plan.scene == Scene::Sentinel {
                    let started = Sentinel::start(nodes[0].peers.port());
                    map.sentinel = AtomicUsize::new(started.port.into());
                    sentinel = Some(started);
                }
            }
            Scene::Cluster => ids = form(&nodes, &mut map),
        }
        let mut world = Self {
            plan: plan.clone(),
            nodes,
            ids,
            sentinel,
            map: Arc::new(map),
            marks: Vec::new(),
            random,
        };
        world.settle();
        world
    }

    fn primary(&self) -> usize {
        self.map.primary.load(SeqCst)
    }

    /// Waits until all servers are up, each replica has what its primary has, and nobody writes a file.
    pub fn settle(&mut self) {
        for node in &mut self.nodes {
            if node.is_down {
                node.revive();
            }
        }
        let last = self.nodes.len() - 1;
        match self.plan.scene {
            Scene::Single => {}
            Scene::Hand => {
                let primary = self.primary();
                self.follow(primary);
            }
            Scene::Sentinel => {
                let sentinel = self.sentinel.as_ref().unwrap();
                let mut primary = 0;
                until("Sentinel knows a primary and its replicas", || {
                    let port = sentinel.settled(last as i64);
                    let at = self.nodes.iter().position(|node| Some(node.peers.port()) == port);
                    at.is_some_and(|at| {
                        primary = at;
                        let port = self.nodes[at].peers.port();
                        self.nodes[at].role() == "master"
                            && (0..=last).all(|other| other == at || self.nodes[other].follows(port))
                    })
                });
                self.map.primary.store(primary, SeqCst);
            }
            Scene::Cluster => until("the cluster serves", || {
                self.nodes.iter().all(|node| {
                    let state = node.run("CLUSTER INFO").text();
                    let nodes = node.run("CLUSTER NODES").text();
                    state.contains("cluster_state:ok")
                        && state.contains("cluster_slots_ok:16384")
                        && !nodes.contains("fail")
                        && nodes.lines().filter(|line| line.contains("slave")).count() == SHARDS
                }) && self
                    .pairs()
                    .iter()
                    .all(|(primary, replica)| self.nodes[*replica].follows(self.nodes[*primary].peers.port()))
            }),
        }
        until("nobody writes files", || {
            self.nodes.iter().all(|node| !node.is_busy())
        });
        // While clients write, a moment is enough.
        until("all are in step", || {
            let pairs = self.pairs();
            pairs
                .iter()
                .all(|(primary, replica)| self.nodes[*primary].offset() == self.nodes[*replica].offset())
        });
        if self.plan.scene == Scene::Cluster {
            for (half, owner) in self.map.owners.iter().enumerate() {
                let at = self.owner(half);
                owner.store(at, SeqCst);
            }
        }
    }

    /// Primaries and their replicas.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        match self.plan.scene {
            Scene::Single => Vec::new(),
            Scene::Hand | Scene::Sentinel => {
                let primary = self.primary();
                (0..self.nodes.len())
                    .filter(|at| *at != primary)
                    .map(|at| (primary, at))
                    .collect()
            }
            Scene::Cluster => (0..SHARDS)
                .map(|shard| match self.nodes[shard].role().as_str() {
                    "master" => (shard, shard + SHARDS),
                    _ => (shard + SHARDS, shard),
                })
                .collect(),
        }
    }

    /// The primary that has a half of the keys.
    pub fn owner(&self, half: usize) -> usize {
        if self.plan.scene != Scene::Cluster {
            return self.primary();
        }
        self.owner_of(half)
            .unwrap_or_else(|| panic!("nobody has slot {}", self.map.slots[half]))
    }

    /// All servers that have a half of the keys, the primary first.
    pub fn holders(&self, half: usize) -> Vec<usize> {
        let owner = self.owner(half);
        let replicas = self.pairs().into_iter().filter(|(primary, _)| *primary == owner);
        [owner]
            .into_iter()
            .chain(replicas.map(|(_, replica)| replica))
            .collect()
    }

    /// Makes all others follow, by hand.
    fn follow(&self, primary: usize) {
        let port = self.nodes[primary].peers.port();
        assert_eq!(self.nodes[primary].run("REPLICAOF NO ONE"), ok());
        let others = || {
            self.nodes
                .iter()
                .enumerate()
                .filter(|(at, node)| *at != primary && !node.is_down)
        };
        let line = format!("REPLICAOF 127.0.0.1 {port}");
        others().for_each(|(_, node)| {
            node.run(&line);
        });
        until("the others follow", || {
            others().all(|(_, node)| node.follows(port))
        });
    }

    /// The primary is gone, or cut off: the replica that has most takes over, and the other follows it.
    fn take_over(&self, gone: usize) {
        let others: Vec<_> = (0..self.nodes.len()).filter(|at| *at != gone).collect();
        let heir = others
            .iter()
            .copied()
            .max_by_key(|at| self.nodes[*at].offset())
            .unwrap();
        assert_eq!(self.nodes[heir].run("REPLICAOF NO ONE"), ok());
        let line = format!("REPLICAOF 127.0.0.1 {}", self.nodes[heir].peers.port());
        others.iter().filter(|at| **at != heir).for_each(|at| {
            self.nodes[*at].run(&line);
        });
        self.map.primary.store(heir, SeqCst);
    }

    /// Waits until somebody else is the primary.
    fn replaced(&self, gone: usize) {
        match self.plan.scene {
            Scene::Sentinel => {
                let sentinel = self.sentinel.as_ref().unwrap();
                let old = self.nodes[gone].peers.port().to_string();
                until("Sentinel replaces the primary", || {
                    let address = sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME main");
                    matches!(address, Some(Reply::Array(parts)) if parts[1].text() != old)
                });
            }
            Scene::Cluster => {
                let heir = (gone + SHARDS) % (2 * SHARDS);
                until("the replica takes over", || self.nodes[heir].role() == "master");
            }
            _ => {}
        }
    }

    /// What a fault does, and what heals it.
    pub fn strike(&mut self, fault: &Fault) {
        thread::sleep(Duration::from_millis(fault.after));
        let lasts = Duration::from_millis(fault.lasts);
        let scene = self.plan.scene;
        let pairs = self.pairs();
        let chosen = fault.choice as usize;
        let (primary, replica) = match pairs[..] {
            [] => (0, 0),
            _ => pairs[chosen % pairs.len()],
        };
        let replaces = scene != Scene::Single;
        match fault.blow {
            Blow::KillPrimary => self.kill_primary(primary, lasts),
            Blow::LagAndKill => {
                self.nodes[replica].signal(libc::SIGSTOP);
                thread::sleep(lasts);
                self.nodes[primary].kill();
                self.nodes[replica].signal(libc::SIGCONT);
                self.take_over(primary);
            }
            Blow::PausePrimary => {
                self.nodes[primary].signal(libc::SIGSTOP);
                match scene {
                    Scene::Single => thread::sleep(lasts),
                    Scene::Hand => self.take_over(primary),
                    _ => self.replaced(primary),
                }
                self.nodes[primary].signal(libc::SIGCONT);
                if scene != Scene::Single {
                    // The old primary answers clients that do not know yet of the new one.
                    thread::sleep(lasts / 2);
                }
            }
            Blow::IsolatePrimary => {
                let set = |weather| {
                    self.nodes[primary].peers.set(weather);
                    if let Some(bus) = &self.nodes[primary].bus {
                        bus.set(weather);
                    }
                };
                set(Weather::Cut);
                if scene == Scene::Hand {
                    thread::sleep(lasts / 2);
                    self.take_over(primary);
                } else {
                    // A node of a cluster calls the others too, so perhaps nobody misses it.
                    let long = AWAY + lasts;
                    thread::sleep(long);
                }
                set(Weather::Fair);
            }
            Blow::KillReplica => {
                self.nodes[replica].kill();
                thread::sleep(lasts);
            }
            Blow::PauseReplica => {
                self.nodes[replica].signal(libc::SIGSTOP);
                thread::sleep(lasts);
                self.nodes[replica].signal(libc::SIGCONT);
            }
            Blow::CutPeers | Blow::HoldPeers | Blow::LagPeers => {
                let weather = match fault.blow {
                    Blow::CutPeers => [Weather::Half, Weather::Cut][chosen % 2],
                    Blow::HoldPeers => Weather::Hold,
                    _ => Weather::Lag,
                };
                self.nodes[primary].peers.set(weather);
                // Not for as long as to be missed.
                thread::sleep(lasts.min(Duration::from_millis(MISSED / 3)));
                if weather == Weather::Hold {
                    self.nodes[primary].peers.end_all();
                }
                self.nodes[primary].peers.set(Weather::Fair);
            }
            Blow::Handover => self.hand_over(primary, replica),
            Blow::Rewrite => {
                self.nodes[primary].run("BGREWRITEAOF");
            }
            Blow::RewriteAndKill => {
                self.nodes[primary].run("BGREWRITEAOF");
                thread::sleep(Duration::from_millis(fault.choice % 60));
                self.kill_primary(primary, lasts);
            }
            Blow::Save => {
                self.save();
                if fault.choice.is_multiple_of(2) {
                    self.kill_primary(primary, lasts);
                }
            }
            Blow::Full => self.fill(lasts),
            Blow::Reload => {
                let reply = self.nodes[primary].run("DEBUG RELOAD");
                assert!(reply == ok() || !replaces, "DEBUG RELOAD: {reply:?}");
            }
            Blow::Clock if self.plan.clocks => {
                let clock = self.random.random_range(-SKEW..=SKEW);
                self.nodes[if chosen.is_multiple_of(2) {
                    primary
                } else {
                    replica
                }]
                .set_clock(clock);
            }
            Blow::Clock => {}
            Blow::Move => self.move_slot(chosen % 2),
        }
        self.settle();
    }

    fn kill_primary(&mut self, primary: usize, lasts: Duration) {
        self.marks.push(Mark::Died(self.map.now()));
        self.nodes[primary].kill();
        match self.plan.scene {
            Scene::Single => thread::sleep(lasts / 4),
            Scene::Hand => self.take_over(primary),
            // With files of its own it may come back before it is missed, or after.
            _ if self.plan.append_only && lasts.as_millis().is_multiple_of(2) => thread::sleep(lasts / 4),
            _ => self.replaced(primary),
        }
    }

    /// A snapshot, whose moments are noted if it was written.
    pub fn save(&mut self) {
        let asked = self.map.now();
        let node = &self.nodes[0];
        // An error where another process writes already.
        if node.run("BGSAVE") != Reply::Simple("Background saving started".into()) {
            return;
        }
        until("the snapshot ends", || {
            node.stat("persistence", "rdb_bgsave_in_progress") == "0"
        });
        if node.stat("persistence", "rdb_last_bgsave_status") != "ok" {
            return;
        }
        self.marks.push(Mark::Saved(asked, self.map.now()));
    }

    /// Lets no file grow for a while. With fsync always the server ends itself then.
    fn fill(&mut self, lasts: Duration) {
        let node = &mut self.nodes[0];
        let limit = |bytes: libc::rlim_t| {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: libc::RLIM_INFINITY,
            };
            // SAFETY: the first pointer is to a value that lives, the second one is null, as it may be.
            unsafe {
                libc::prlimit(
                    node.id,
                    libc::RLIMIT_FSIZE,
                    &raw const limit,
                    std::ptr::null_mut(),
                )
            };
        };
        let largest = largest_file(node.server.dir());
        limit(largest + 3000);
        thread::sleep(lasts);
        let ended = !node.server.is_alive();
        limit(libc::RLIM_INFINITY);
        if ended {
            self.marks.push(Mark::Died(self.map.now()));
            let log = node.server.log();
            assert!(log.contains("AOF"), "it ended for another reason:\n{log}");
            node.kill();
        }
    }

    fn hand_over(&mut self, primary: usize, replica: usize) {
        match self.plan.scene {
            Scene::Single => {}
            Scene::Hand => {
                let line = format!(
                    "FAILOVER TO 127.0.0.1 {} TIMEOUT 5000",
                    self.nodes[replica].peers.port()
                );
                let reply = self.nodes[primary].run(&line);
                assert_eq!(reply, ok(), "{line}");
                until("the failover ends", || {
                    self.nodes[primary]
                        .server
                        .client()
                        .stat("replication", "master_failover_state")
                        == "no-failover"
                });
                if self.nodes[replica].role() == "master" {
                    self.map.primary.store(replica, SeqCst);
                }
            }
            Scene::Sentinel => {
                let sentinel = self.sentinel.as_ref().unwrap();
                if sentinel.ask("SENTINEL FAILOVER main") == Some(ok()) {
                    self.replaced(primary);
                }
            }
            Scene::Cluster => {
                self.nodes[replica].run("CLUSTER FAILOVER");
                let began = Instant::now();
                // The failover may be called off.
                until("the replica takes over", || {
                    self.nodes[replica].role() == "master" || began.elapsed() > Duration::from_secs(6)
                });
            }
        }
    }

    /// Moves a slot to the next primary: all at once where the server can, else key by key.
    fn move_slot(&mut self, half: usize) {
        let slot = self.map.slots[half];
        let from = self.owner(half);
        let primaries: Vec<_> = self.pairs().into_iter().map(|(primary, _)| primary).collect();
        let to = primaries[(primaries.iter().position(|at| *at == from).unwrap() + 1) % SHARDS];
        let [source, target] = [from, to].map(|at| &self.nodes[at]);
        let version = Server::version();
        if version.valkey && version.major >= 9 {
            let line = format!(
                "CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}",
                self.ids[to]
            );
            assert_eq!(source.run(&line), ok(), "{line}");
            until("the slot is moved", || {
                let all = format!("{:?}", source.run("CLUSTER GETSLOTMIGRATIONS"));
                !all.contains("\"state\" \"") && self.owner_of(half) == Some(to) || all.contains("failed")
            });
            return;
        }
        let set = |at: usize, state: &str, id: usize| {
            let line = format!("CLUSTER SETSLOT {slot} {state} {}", self.ids[id]);
            assert_eq!(self.nodes[at].run(&line), ok(), "{line}");
        };
        set(to, "IMPORTING", from);
        set(from, "MIGRATING", to);
        loop {
            let keys = source.run(&format!("CLUSTER GETKEYSINSLOT {slot} 3"));
            let keys: Vec<_> = keys.elements().iter().map(Reply::text).collect();
            if keys.is_empty() {
                break;
            }
            let head = format!("MIGRATE 127.0.0.1 {} '' 0 60000 KEYS", target.peers.port());
            let moved = source.server.client().over(&head, &keys);
            // A client may have taken a key away meanwhile.
            assert!(
                moved == ok() || moved == Reply::Simple("NOKEY".into()),
                "{moved:?}"
            );
        }
        set(to, "NODE", to);
        set(from, "NODE", to);
        primaries
            .iter()
            .filter(|at| ![from, to].contains(at))
            .for_each(|at| set(*at, "NODE", to));
    }

    fn owner_of(&self, half: usize) -> Option<usize> {
        let slot = self.map.slots[half];
        let primaries = self.pairs().into_iter().map(|(primary, _)| primary);
        let mut owners = primaries.filter(|at| owns(&self.nodes[*at], slot));
        owners.next()
    }

    /// All fronts as they were, and all connections new: what was on its way has come, or never will.
    pub fn heal(&mut self) {
        for node in &self.nodes {
            node.clients.set(Weather::Fair);
            node.end_all();
        }
        self.settle();
        let mut before = String::new();
        until("nothing changes any more", || {
            thread::sleep(Duration::from_millis(100));
            let digests: Vec<_> = self.nodes.iter().map(|node| node.run("DEBUG DIGEST")).collect();
            let now = format!("{digests:?}");
            let offsets =
                |(one, other): &(usize, usize)| self.nodes[*one].offset() == self.nodes[*other].offset();
            let is_calm = now == before && self.pairs().iter().all(offsets);
            before = now;
            is_calm
        });
    }

    /// Ends and starts the only server, or reloads the primaries; the name of what was done.
    pub fn reload(&mut self) -> &'static str {
        match self.plan.scene {
            Scene::Single => {
                if self.plan.promise == Promise::Snapshot {
                    self.save();
                }
                if self.plan.append_only && !self.plan.seed.is_multiple_of(5) {
                    self.nodes[0].run("BGREWRITEAOF");
                    until("the file is written", || !self.nodes[0].is_busy());
                }
                if self.plan.promise == Promise::WaitAof {
                    // What is not on the disk yet may go.
                    self.nodes[0].server.restart();
                    self.nodes[0].point();
                } else {
                    self.nodes[0].kill();
                    self.nodes[0].revive();
                }
                "after a restart"
            }
            _ => {
                for half in 0..2 {
                    let owner = self.owner(half);
                    let reply = self.nodes[owner].run("DEBUG RELOAD");
                    assert_eq!(reply, ok());
                }
                self.settle();
                "after a reload"
            }
        }
    }

    /// Sets all clocks so far ahead that every window is over.
    pub fn outlive(&mut self, seconds: i64) {
        for node in &mut self.nodes {
            let clock = node.clock;
            node.set_clock(clock + seconds);
        }
    }

    /// What no log may say.
    pub fn crashes(&self) -> Vec<String> {
        const WORDS: [&str; 6] = [
            "BUG REPORT",
            "STACK TRACE",
            "ASSERTION FAILED",
            "panicked",
            "Guru Meditation",
            "crashed by signal",
        ];
        let mut crashes = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let log = node.server.log();
            if let Some(line) = log
                .lines()
                .find(|line| WORDS.iter().any(|word| line.contains(word)))
            {
                crashes.push(format!("the log of server {at} says: {line}"));
            }
        }
        crashes
    }

    /// Copies the logs of all servers to a directory.
    pub fn keep(&self, dir: &std::path::Path) {
        for (at, node) in self.nodes.iter().enumerate() {
            std::fs::write(dir.join(format!("server-{at}.log")), node.server.log()).unwrap();
        }
    }
}

fn owns(node: &Node, slot: usize) -> bool {
    let text = node.run("CLUSTER NODES").text();
    let line = text
        .lines()
        .find(|line| line.contains("myself"))
        .unwrap_or_default();
    line.split(' ').skip(8).any(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        matches!((from.parse(), to.parse()), (Ok(from), Ok(to)) if (from..=to).contains(&slot))
    })
}

/// The bytes of the largest file below a directory.
fn largest_file(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap();
    let sizes = entries.map(|entry| {
        let entry = entry.unwrap();
        let meta = entry.metadata();
        match meta {
            Ok(meta) if meta.is_dir() => largest_file(&entry.path()),
            Ok(meta) => meta.len(),
            // The file was renamed meanwhile.
            Err(_) => 0,
        }
    });
    sizes.max().unwrap_or(0)
}

/// Makes a cluster; the names of the nodes. Node `i + SHARDS` is the replica of node `i`.
fn form(nodes: &[Node], map: &mut Map) -> Vec<String> {
    let ids: Vec<_> = nodes.iter().map(|node| node.run("CLUSTER MYID").text()).collect();
    for (at, node) in nodes[..SHARDS].iter().enumerate() {
        assert_eq!(node.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)), ok());
        let slots: Vec<_> = (0..16384)
            .filter(|slot| slot * SHARDS / 16384 == at)
            .map(|slot| slot.to_string())
            .collect();
        assert_eq!(node.server.client().over("CLUSTER ADDSLOTS", &slots), ok());
    }
    let mut turns = 0;
    until("the nodes know each other", || {
        if turns % 300 == 0 {
            for node in &nodes[1..] {
                let bus = node.bus.as_ref().unwrap().port();
                let line = format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.peers.port());
                assert_eq!(nodes[0].run(&line), ok());
            }
        }
        turns += 1;
        nodes.iter().all(|node| {
            let known = node.run("CLUSTER NODES").text();
            ids.iter().all(|id| known.contains(&**id)) && !known.contains("handshake")
        })
    });
    for (at, node) in nodes[SHARDS..].iter().enumerate() {
        assert_eq!(node.run(&format!("CLUSTER REPLICATE {}", ids[at])), ok());
    }
    map.slots = [0, 1].map(|half| {
        let slot = nodes[0].run(&format!("CLUSTER KEYSLOT {{half:{half}}}")).int();
        usize::try_from(slot).unwrap()
    });
    ids
}
