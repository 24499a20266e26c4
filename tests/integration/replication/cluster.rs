//! Filters in a cluster of three primaries and three replicas: slots that move, and nodes that go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::RedisResult;
use redis::cluster::{ClusterClient, ClusterConnection};

use crate::client::{Client, Reply, end, error, ok};
use crate::replication::failover::add_and_wait;
use crate::server::{Server, sample, seed, until};
use crate::support::items::numbered;
use crate::support::link::in_step;

const SHARDS: usize = 3;
const SLOTS: usize = 16384;

/// Filters, apart from the large one.
const KEYS: usize = 300;

/// A filter of several layers that is larger than a mebibyte.
const LARGE: &str = "huge";

/// The primary that takes slots from the others; it is not the one that has the large filter.
const TARGET: usize = 1;

/// Milliseconds that no node of a test is silent for.
const LONG: u32 = 15_000;

/// Milliseconds after which a node that was killed is missed.
const SHORT: u32 = 2_000;

/// Nodes 0 to 2 begin as primaries, node `i + 3` as the replica of node `i`.
struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
}

impl Cluster {
    fn start() -> Self {
        let node = || Server::with().cluster_node().config("cluster-node-timeout", LONG);
        let nodes: Vec<_> = (0..2 * SHARDS)
            .map(|_| node().config("cluster-replica-validity-factor", 0).start())
            .collect();
        let ids = nodes.iter().map(|node| node.client().run("CLUSTER MYID").text());
        let cluster = Self {
            ids: ids.collect(),
            nodes,
        };
        cluster.give_slots();
        cluster.meet();
        cluster.replicate();
        cluster.settle();
        cluster
    }

    fn give_slots(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let mut client = node.client();
            if at < SHARDS {
                client.answers(&[(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1), ok())]);
                let slots: Vec<_> = (0..SLOTS)
                    .filter(|slot| first_owner(*slot) == at)
                    .map(|slot| slot.to_string())
                    .collect();
                assert_eq!(client.over("CLUSTER ADDSLOTS", &slots), ok());
            }
        }
    }

    fn meet(&self) {
        let mut turns = 0;
        until("the nodes know each other", || {
            // A greeting may get lost.
            if turns % 500 == 0 {
                for node in &self.nodes[1..] {
                    let line = format!("CLUSTER MEET 127.0.0.1 {}", node.port());
                    self.nodes[0].client().answers(&[(&line, ok())]);
                }
            }
            turns += 1;
            self.nodes.iter().all(|node| {
                let known = node.client().run("CLUSTER NODES").text();
                self.ids.iter().all(|id| known.contains(&**id)) && !known.contains("handshake")
            })
        });
    }

    fn replicate(&self) {
        for at in 0..SHARDS {
            let mut client = self.nodes[at + SHARDS].client();
            client.answers(&[(&format!("CLUSTER REPLICATE {}", self.ids[at]), ok())]);
        }
    }

    /// Waits until every node serves every slot, and every replica has its primary's data.
    fn settle(&self) {
        until("the cluster serves", || {
            self.nodes.iter().all(|node| {
                let mut client = node.client();
                let state = client.run("CLUSTER INFO").text();
                let nodes = client.run("CLUSTER NODES").text();
                state.contains("cluster_state:ok")
                    && state.contains("cluster_slots_ok:16384")
                    && nodes.matches(" slave ").count() + nodes.matches("myself,slave").count() == SHARDS
                    && (is_primary(node) || client.stat("replication", "master_link_status") == "up")
            })
        });
    }

    fn client(&self) -> ClusterConnection {
        self.try_client().unwrap()
    }

    fn try_client(&self) -> RedisResult<ClusterConnection> {
        let client = ClusterClient::builder(self.nodes.iter().map(Server::url));
        let client = client.retries(30).min_retry_wait(10).max_retry_wait(200);
        client.build()?.get_connection()
    }

    fn slot(&self, key: &str) -> usize {
        let slot = self.nodes[0].client().call(&["CLUSTER", "KEYSLOT", key]).int();
        usize::try_from(slot).unwrap()
    }

    /// Makes the replica of a shard its primary, by agreement of the two.
    fn fail_over(&self, shard: usize) {
        let replica = &self.nodes[shard + SHARDS];
        let mut turns = 0;
        until("the replica takes over", || {
            // A busy machine may miss the time that the nodes have for it.
            if turns % 1500 == 0 {
                replica.client().run("CLUSTER FAILOVER");
            }
            turns += 1;
            is_primary(replica)
        });
    }

    /// Moves a slot with all of its keys from a primary to another; `half_way` runs when the keys are there and
    /// the slot is not.
    fn reshard(&self, slot: usize, from: usize, to: usize, half_way: impl FnOnce()) {
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        let set = |client: &mut Client, state: &str, id: usize| {
            let line = format!("CLUSTER SETSLOT {slot} {state} {}", self.ids[id]);
            client.answers(&[(&line, ok())]);
        };
        set(&mut target, "IMPORTING", from);
        set(&mut source, "MIGRATING", to);
        loop {
            let keys = source.run(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
            let keys: Vec<_> = keys.elements().iter().map(Reply::text).collect();
            if keys.is_empty() {
                break;
            }
            let head = format!("MIGRATE 127.0.0.1 {} '' 0 60000 KEYS", self.nodes[to].port());
            assert_eq!(source.over(&head, &keys), ok());
        }
        half_way();
        set(&mut target, "NODE", to);
        set(&mut source, "NODE", to);
        for other in (0..SHARDS).filter(|node| ![from, to].contains(node)) {
            set(&mut self.nodes[other].client(), "NODE", to);
        }
    }
}

/// The primary that a slot begins with.
fn first_owner(slot: usize) -> usize {
    slot * SHARDS / SLOTS
}

fn is_primary(node: &Server) -> bool {
    node.client().stat("replication", "role") == "master"
}

fn miss_after(node: &Server, milliseconds: u32) {
    let line = format!("CONFIG SET cluster-node-timeout {milliseconds}");
    node.client().answers(&[(&line, ok())]);
}

/// The items that were answered as added, by key.
type Answered = BTreeMap<String, Vec<Vec<u8>>>;

/// Adds items; each must be answered.
fn add(client: &mut ClusterConnection, answered: &mut Answered, key: &str, items: Vec<Vec<u8>>) {
    let added: Vec<i64> = redis::cmd("BF.MADD")
        .arg(key)
        .arg(&items)
        .query(client)
        .unwrap_or_else(|why| panic!("{key}: {why}"));
    assert_eq!(added.len(), items.len());
    answered.entry(key.to_owned()).or_default().extend(items);
}

/// Makes some of the keys filters with a window, which ends after the test.
fn make_windows(client: &mut ClusterConnection) {
    for number in (0..KEYS).step_by(3) {
        let words = ["0.01", "100", "WINDOW", "100000", "SLICES", "4", "REFRESH"];
        let key = format!("filter:{number}");
        let made: String = redis::cmd("BF.RESERVE")
            .arg(key)
            .arg(&words)
            .query(client)
            .unwrap();
        assert_eq!(made, "OK");
    }
}

/// Everything that was answered is there.
fn check(client: &mut ClusterConnection, answered: &Answered) {
    for (key, items) in answered {
        for some in items.chunks(5000) {
            let found: Vec<i64> = redis::cmd("BF.MEXISTS").arg(key).arg(some).query(client).unwrap();
            assert_eq!(found.iter().sum::<i64>(), some.len() as i64, "{key}");
        }
    }
}

/// Adds through a client of the cluster to random filters, until `stop`.
fn add_until(stop: &AtomicBool, cluster: &Cluster, seed: u64, progress: &AtomicUsize) -> Answered {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut client, mut answered) = (cluster.client(), Answered::new());
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = match random.random_range(0..=KEYS) {
            KEYS => LARGE.to_owned(),
            number => format!("filter:{number}"),
        };
        let items = numbered("live:", next, next + random.random_range(1..20));
        next += items.len();
        add(&mut client, &mut answered, &key, items);
        progress.fetch_add(1, Ordering::Relaxed);
    }
    answered
}

/// A replica has the keys of its primary, bit for bit.
fn identical(primary: &Server, replica: &Server) {
    in_step(primary, replica);
    let (mut one, mut other) = (primary.client(), replica.client());
    other.answers(&[("READONLY", ok())]);
    let keys = one.run("KEYS *");
    assert_eq!(one.run("DBSIZE"), other.run("DBSIZE"));
    for key in keys.elements() {
        let key = key.text();
        assert!(one.dump(&key) == other.dump(&key), "{key} differs");
    }
}

/// Growing a cluster, or evening it out, would lose items that clients add meanwhile, or stop them.
#[test]
fn slots_move_while_clients_add() {
    let seed = seed();
    let cluster = Cluster::start();
    let (mut client, mut answered) = (cluster.client(), Answered::new());
    let keys: Vec<_> = (0..KEYS).map(|number| format!("filter:{number}")).collect();
    make_windows(&mut client);
    for key in &keys {
        add(&mut client, &mut answered, key, numbered("early:", 0, 150));
    }
    let reserved: String = redis::cmd("BF.RESERVE")
        .arg(LARGE)
        .arg("1e-6")
        .arg(100_000)
        .query(&mut client)
        .unwrap();
    assert_eq!(reserved, "OK");
    for from in (0..150_000).step_by(5000) {
        add(
            &mut client,
            &mut answered,
            LARGE,
            numbered("early:", from, from + 5000),
        );
    }
    let large = cluster.slot(LARGE);
    let mut owner = cluster.nodes[first_owner(large)].client();
    assert!(owner.info(LARGE, "Size") > 1 << 20);
    assert_eq!(owner.info(LARGE, "Number of filters"), 2);
    assert_ne!(first_owner(large), TARGET);

    let moving = keys.iter().step_by(KEYS / sample(60).min(KEYS));
    let mut slots: BTreeMap<_, _> = moving.map(|key| (cluster.slot(key), &**key)).collect();
    slots.insert(large, LARGE);
    let (stop, progress) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut moves = 0;
    thread::scope(|scope| {
        let writer = scope.spawn(|| add_until(&stop, &cluster, seed, &progress));
        // One primary takes slots from all others, as a new one does.
        let leaving = slots.iter().filter(|(slot, _)| first_owner(**slot) != TARGET);
        for (&slot, key) in leaving {
            cluster.reshard(slot, first_owner(slot), TARGET, || {
                // Neither the key that has moved nor one that is new is where the slot is.
                add(&mut client, &mut answered, key, vec![b"half-way".to_vec()]);
                let made = format!("{{{key}}}:new");
                add(&mut client, &mut answered, &made, numbered("new:", 0, 300));
            });
            moves += 1;
        }
        let so_far = progress.load(Ordering::Relaxed);
        until("the other client goes on", || {
            progress.load(Ordering::Relaxed) > so_far + KEYS
        });
        stop.store(true, Ordering::Relaxed);
        for (key, items) in writer.join().unwrap() {
            answered.entry(key).or_default().extend(items);
        }
    });
    check(&mut client, &answered);
    check(&mut cluster.client(), &answered);
    let calls = cluster.nodes[TARGET]
        .client()
        .stat("commandstats", "cmdstat_asking");
    let asked: u64 = calls.split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!(
        asked >= 2 * moves,
        "{asked} commands followed a slot in {moves} moves"
    );
    for shard in 0..SHARDS {
        identical(&cluster.nodes[shard], &cluster.nodes[shard + SHARDS]);
    }
}

/// Maintenance, or the death of a machine, would make filters forget.
#[test]
fn replicas_take_over() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::start();
    let (mut client, mut answered) = (cluster.client(), Answered::new());
    make_windows(&mut client);
    for number in 0..KEYS {
        let key = format!("filter:{number}");
        add(&mut client, &mut answered, &key, numbered("early:", 0, 30));
    }

    // By hand, while a client adds: primary and replica agree on the moment, so nothing is lost.
    let (stop, progress) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let writer = scope.spawn(|| add_until(&stop, &cluster, seed, &progress));
        for shard in 0..SHARDS {
            cluster.fail_over(shard);
            let so_far = progress.load(Ordering::Relaxed);
            until("the client goes on", || {
                progress.load(Ordering::Relaxed) > so_far + KEYS
            });
        }
        stop.store(true, Ordering::Relaxed);
        for (key, items) in writer.join().unwrap() {
            answered.entry(key).or_default().extend(items);
        }
    });
    cluster.settle();
    check(&mut client, &answered);

    // By the death of the primary: what its replica has confirmed is not lost.
    let (primary, heir) = (SHARDS, 0);
    let keys: Vec<_> = (0..KEYS)
        .map(|number| format!("filter:{number}"))
        .filter(|key| first_owner(cluster.slot(key)) == heir)
        .collect();
    identical(&cluster.nodes[primary], &cluster.nodes[heir]);
    cluster.nodes.iter().for_each(|node| miss_after(node, SHORT));
    let (least, progress) = (random.random_range(20..200), AtomicUsize::new(0));
    thread::scope(|scope| {
        let mut stream = cluster.nodes[primary].client();
        let line = stream.line();
        let (keys, progress, random) = (&keys, &progress, &mut random);
        let writer = scope.spawn(move || add_and_wait(&mut stream, 1, keys, random, &mut 0, progress));
        until("the replica confirms", || {
            progress.load(Ordering::Relaxed) >= least
        });
        cluster.nodes[primary].kill9();
        end(&line);
        for (key, items) in writer.join().unwrap() {
            answered.entry(key).or_default().extend(items);
        }
    });
    until("the replica takes over", || is_primary(&cluster.nodes[heir]));
    let living = (0..cluster.nodes.len()).filter(|&node| node != primary);
    living.for_each(|node| miss_after(&cluster.nodes[node], LONG));
    until("clients go on", || {
        let mut add = redis::cmd("BF.MADD");
        let add = add.arg(&keys[0]).arg("afterwards");
        let added = cluster
            .try_client()
            .and_then(|mut client| add.query::<Vec<i64>>(&mut client));
        added.is_ok()
    });
    answered
        .entry(keys[0].clone())
        .or_default()
        .push(b"afterwards".to_vec());
    cluster.nodes[primary].revive();
    cluster.settle();
    check(&mut cluster.client(), &answered);
    identical(&cluster.nodes[heir], &cluster.nodes[primary]);
}

/// A batch would be refused where its filter is not, instead of being sent on to where it is; or a replica would take
/// items that its primary does not know.
#[test]
fn packed_commands_are_sent_on_to_the_owner() {
    let cluster = Cluster::start();
    let mut library = cluster.client();
    for shard in 0..SHARDS {
        let mut keys = (0..).map(|number| format!("filter:{number}"));
        let key = keys.find(|key| first_owner(cluster.slot(key)) == shard).unwrap();
        let moved = || {
            let (slot, port) = (cluster.slot(&key), cluster.nodes[shard].port());
            error(&format!("MOVED {slot} 127.0.0.1:{port}"))
        };
        let add = format!("BF.ADDPACKED {key} ERROR 1e-9 LINES a\nb");
        let ask = format!("BF.EXISTSPACKED {key} COUNT LINES a\nx");
        for (at, node) in cluster.nodes.iter().enumerate().filter(|(at, _)| *at != shard) {
            assert_eq!(node.client().run(&add), moved(), "node {at}");
            assert_eq!(node.client().run(&ask), moved(), "node {at}");
        }
        let new: Vec<u8> = redis::cmd("BF.ADDPACKED")
            .arg(&key)
            .arg(&["ERROR", "1e-9", "WIDTH", "1"])
            .arg("aab")
            .query(&mut library)
            .unwrap();
        assert_eq!(new, [0b1010_0000]);
        let found: i64 = redis::cmd("BF.EXISTSPACKED")
            .arg(&key)
            .arg(&["LINES", "COUNT"])
            .arg("a\nx\nb\n")
            .query(&mut library)
            .unwrap();
        assert_eq!(found, 2);
        in_step(&cluster.nodes[shard], &cluster.nodes[shard + SHARDS]);
        let mut replica = cluster.nodes[shard + SHARDS].client();
        replica.answers(&[("READONLY", ok()), (&ask, 1.into()), (&add, moved())]);
    }
}

/// Moving a large filter would be refused without need, or one that the target must not have would be lost on
/// the way.
#[test]
fn a_move_is_held_to_the_limits_of_the_target() {
    let source = Server::start();
    let mut client = source.client();
    client.answers(&[("BF.RESERVE key 1e-6 400000", ok())]);
    assert!(client.info("key", "Size") > 1 << 20);
    client.over("BF.MADD key", &numbered("item", 0, 1000));
    let before = client.dump("key");
    let migrate = |client: &mut Client, target: &Server| {
        client.run(&format!("MIGRATE 127.0.0.1 {} key 0 60000", target.port()))
    };

    let small = Server::with().module_args("bf-max-filter-bytes 1000000").start();
    let refused = error("ERR Target instance replied with error: ERR Bad data format");
    assert_eq!(migrate(&mut client, &small), refused);
    assert_eq!(client.dump("key"), before, "it stays where it was");
    assert_eq!(small.client().run("EXISTS key"), 0.into());

    let target = Server::start();
    assert_eq!(migrate(&mut client, &target), ok());
    assert_eq!(target.client().dump("key"), before);
    assert_eq!(client.run("EXISTS key"), 0.into());
}
