//! The ways: how commands are sent, on which servers, and what befalls these.

use std::fs::{self, File};

use tempfile::TempDir;

use super::World;
use crate::client::{Client, Reply, error, ok};
use crate::replication::slots::nodes;
use crate::server::{Server, Setup, until};
use crate::support::aof::{is_idle, rewrite, settled};
use crate::support::chunks::{load, scandump};
use crate::support::link::{follow, in_step, is_content};

/// How commands are sent: their replies.
type Via = fn(&mut Client, &[Vec<Vec<u8>>]) -> Vec<Reply>;

/// What befalls filters.
pub struct Way {
    pub name: &'static str,
    pub via: Via,
    /// The servers at the start, of which the first gets the commands.
    pub servers: fn() -> Vec<Server>,
    /// What happens once the filters are made, and once more when they are changed.
    pub goes: fn(&mut World),
    /// Whether each command is seen to change what it says that it changes; else only its reply is.
    pub is_watched: bool,
}

/// Settings of a server that would make other filters by itself, or none.
const OTHERWISE: &str =
    "bf-layout classic bf-initial-size 9 bf-error-rate 0.2 bf-expansion-factor 0 bf-seed 5";

/// Settings of which no false positives come.
const LIKE_FIRST: &str = "bf-error-rate 1e-9 bf-seed 7";

const fn way(name: &'static str, servers: fn() -> Vec<Server>, goes: fn(&mut World)) -> Way {
    Way {
        name,
        via: plain,
        servers,
        goes,
        is_watched: false,
    }
}

const fn by(name: &'static str, via: Via, servers: fn() -> Vec<Server>) -> Way {
    Way {
        name,
        via,
        servers,
        goes: followed,
        is_watched: false,
    }
}

#[rustfmt::skip]
pub const WAYS: &[Way] = &[
    Way { is_watched: true, ..way("nothing", alone, |_| {}) },
    Way { is_watched: true, ..by("a script, alone", in_script, alone) },
    by("a script", in_script, || pair(as_file(other()))),
    by("a function", in_function, || with_function(pair(as_file(other())))),
    by("a transaction each", in_transaction, || pair(limited().config("maxmemory", "2mb"))),
    by("one transaction of all", in_one_transaction, || pair(as_file(other()))),
    by("a replica's replica", plain, || {
        let mut servers = pair(limited());
        servers.push(other().replica_of(&servers[1]).start());
        in_step(&servers[1], &servers[2]);
        servers
    }),
    by("a link that is cut and taken up again", with_cuts, || pair(other())),
    by("a link that is cut and starts over", with_cuts, || follower(Server::with().module_args(LIKE_FIRST).config("repl-backlog-size", "16kb"), other())),
    way("a late replica, by the link", || vec![first().config("repl-diskless-sync", "yes").start()], |world| {
        late(world, limited().config("repl-diskless-load", "on-empty-db"));
    }),
    way("a late replica, by a file", || vec![first().config("repl-diskless-sync", "no").start()], |world| {
        late(world, Server::elsewhere().module_args(OTHERWISE).config("repl-diskless-load", "disabled"));
    }),
    way("a late replica with data of its own", || vec![first().config("repl-diskless-sync", "yes").start()], |world| {
        world.servers.truncate(1);
        let replica = other().config("repl-diskless-load", "swapdb").start();
        let mut client = replica.client();
        for key in world.keys() {
            client.answers(&[(&format!("BF.ADD {key} own"), 1.into())]);
        }
        client.answers(&[("BF.ADD only-here own", 1.into())]);
        follow(&replica, &world.servers[0]);
        world.servers.push(replica);
        followed(world);
    }),
    way("a replica's own file", || pair(as_file(other())), |world| {
        followed(world);
        settled(&world.servers[1]);
        let (keys, before) = (world.keys(), world.looks(0));
        world.servers[1].kill9();
        let alone = as_file(other()).dir(world.servers[1].dir()).start();
        world.same(&World::looks_of(&mut alone.client(), &keys), &before, "in a replica's file");
        drop(alone);
        world.servers[1].revive();
        follow(&world.servers[1], &world.servers[0]);
    }),
    way("a failover", || pair(first()), |world| {
        followed(world);
        world.servers[0].kill9();
        world.servers[1].client().answers(&[("REPLICAOF NO ONE", ok())]);
        world.servers.swap(0, 1);
        world.servers[1].revive();
        follow(&world.servers[1], &world.servers[0]);
    }),
    way("a crash", || vec![as_file(first()).start()], |world| {
        world.sends_what_is_new();
        world.reborn(as_file(other()));
    }),
    way("a file that is loaded again", || vec![as_file(first()).start()], |world| {
        world.servers[0].client().answers(&[("DEBUG LOADAOF", ok())]);
    }),
    way("a rewritten file", || vec![as_file(first()).start()], |world| {
        rewrite(&mut world.servers[0].client());
        world.reborn(as_file(other()));
    }),
    way("a rewritten file with an RDB preamble", || vec![first().append_only().start()], |world| {
        rewrite(&mut world.servers[0].client());
        world.reborn(other().append_only());
    }),
    way("a save", alone, |world| {
        world.servers[0].client().answers(&[("SAVE", ok())]);
        world.reborn(Server::elsewhere().module_args(&format!("{OTHERWISE} bf-max-filter-bytes 300")));
    }),
    way("a background save", alone, |world| {
        world.servers[0].client().run("BGSAVE");
        until("the save ends", || is_idle(&mut world.servers[0].client()));
        world.reborn(other());
    }),
    way("a reload", alone, |world| {
        world.servers[0].client().answers(&[("DEBUG RELOAD", ok())]);
    }),
    way("DUMP and RESTORE", alone, |world| {
        world.moved(|from, to, key| {
            let payload = from.dump(key);
            restore(from, to, key, payload.bytes());
        });
    }),
    way("MIGRATE", alone, |world| {
        world.moved(|from, to, key| {
            let port = to.stat("server", "tcp_port");
            from.answers(&[(&format!("MIGRATE 127.0.0.1 {port} {key} 0 60000 COPY"), ok())]);
            ends_alike(from, to, key);
        });
    }),
    way("pieces", alone, |world| {
        world.moved(|from, to, key| {
            load(to, key, &scandump(from, key));
            ends_alike(from, to, key);
        });
    }),
    way("payloads of the crate", alone, |world| {
        world.moved(|from, to, key| {
            let filter = libbloom_rdb::read_payload(from.dump(key).bytes(), u64::MAX).unwrap();
            let mut payload = Vec::new();
            libbloom_rdb::write_payload(&filter, &mut payload).unwrap();
            restore(from, to, key, &payload);
        });
    }),
    way("files of the crate", alone, |world| {
        let mut client = world.servers[0].client();
        // Keys that are no filters are passed over.
        let others = ["SET string", "RPUSH list", "SADD set", "ZADD sorted 1", "HSET hash field"];
        others.iter().for_each(|other| drop(client.run(&format!("{other} {}", "value".repeat(20)))));
        client.answers(&[("PFADD log 1", 1.into()), ("SAVE", ok())]);
        let (home, saved) = (TempDir::new().unwrap(), world.servers[0].dir().join("dump.rdb"));
        let written = home.path().join("dump.rdb");
        let mut writer = libbloom_rdb::Writer::new(File::create(&written).unwrap()).unwrap();
        for entry in libbloom_rdb::filters(File::open(&saved).unwrap(), u64::MAX) {
            let entry = entry.unwrap();
            writer.put(entry.db, &entry.key, &entry.filter.unwrap(), entry.expires_at).unwrap();
        }
        writer.finish().unwrap();
        fs::copy(&written, &saved).unwrap();
        world.reborn(other());
    }),
    way("COPY", alone, |world| {
        let mut client = world.servers[0].client();
        for key in world.keys() {
            client.answers(&[(&format!("COPY {key} copy"), 1.into()), (&format!("RENAME copy {key}"), ok())]);
        }
    }),
    way("a full server", alone, |world| {
        let mut client = world.servers[0].client();
        client.answers(&[("CONFIG SET maxmemory 1", ok())]);
        let full = error("OOM command not allowed when used memory > 'maxmemory'.");
        for key in world.keys() {
            client.answers(&[(&format!("BF.ADD {key} refused"), full.clone())]);
        }
        client.answers(&[("CONFIG SET maxmemory 0", ok())]);
    }),
    way(SLOTS, like_first, |world| {
        // The other node waits.
        world.left.extend(world.servers.drain(1..));
        let [mut from, mut to] = [&world.servers[0], &world.left[0]].map(Server::client);
        let slot = from.run("CLUSTER KEYSLOT {s}").int();
        let target = to.run("CLUSTER MYID").text();
        from.answers(&[(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}"), ok())]);
        let keys = world.keys().len() as i64;
        until("the slot is moved", || {
            let migrations = format!("{:?}", from.run("CLUSTER GETSLOTMIGRATIONS"));
            assert!(!migrations.contains("failed"), "{migrations}");
            migrations.contains("success") && to.run("DBSIZE").int() == keys && from.run("DBSIZE").int() == 0
        });
        set_like_first(&mut to);
        std::mem::swap(&mut world.servers[0], &mut world.left[0]);
    }),
];

const SLOTS: &str = "a slot that moves at once";

impl Way {
    /// Whether this server knows the way.
    pub fn is_here(&self) -> bool {
        match self.name {
            SLOTS => Server::version().valkey && Server::version().major >= 9,
            "a function" => Server::version().at_least(7, 0),
            _ => true,
        }
    }
}

fn plain(client: &mut Client, calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    calls.iter().map(|call| client.call(call)).collect()
}

/// Cuts the links to replicas now and then.
fn with_cuts(client: &mut Client, calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    if rand::random_ratio(1, 150) {
        client.run("CLIENT KILL TYPE replica");
    }
    plain(client, calls)
}

fn in_transaction(client: &mut Client, calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    calls
        .iter()
        .flat_map(|call| in_one_transaction(client, std::slice::from_ref(call)))
        .collect()
}

fn in_one_transaction(client: &mut Client, calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    client.answers(&[("MULTI", ok())]);
    for call in calls {
        assert_eq!(client.call(call), Reply::Simple("QUEUED".into()));
    }
    client.run("EXEC").elements().to_vec()
}

fn behind(client: &mut Client, head: [&str; 3], calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    let head = head.map(|word| word.as_bytes().to_vec());
    calls
        .iter()
        .map(|call| client.call(&[&head[..], call].concat()))
        .collect()
}

fn in_script(client: &mut Client, calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    behind(client, ["EVAL", "return redis.pcall(unpack(ARGV))", "0"], calls)
}

fn in_function(client: &mut Client, calls: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    behind(client, ["FCALL", "any", "0"], calls)
}

fn with_function(servers: Vec<Server>) -> Vec<Server> {
    let library = "#!lua name=lib\nredis.register_function('any',function(KEYS,ARGV) return redis.pcall(unpack(ARGV)) end)";
    assert_eq!(
        servers[0].client().call(&["FUNCTION", "LOAD", library]).text(),
        "lib"
    );
    servers
}

/// The server that gets the commands. What it makes by its options has no false positives, and replicas find what they
/// have missed.
fn first() -> Setup {
    Server::with()
        .module_args(LIKE_FIRST)
        .config("repl-backlog-size", "64mb")
}

/// Two nodes of a cluster, of which the first has all slots.
fn like_first() -> Vec<Server> {
    let nodes = nodes();
    set_like_first(&mut nodes[0].client());
    for node in &nodes {
        // A node without slots stays a primary.
        let stay = "CONFIG SET cluster-allow-replica-migration no";
        node.client().answers(&[(stay, ok())]);
    }
    nodes.into()
}

/// Sets another server's options to those of the first.
fn set_like_first(client: &mut Client) {
    let options = [
        ("max-filter-bytes", "0"),
        ("layout", "blocked"),
        ("error-rate", "1e-9"),
        ("seed", "7"),
        ("initial-size", "100"),
        ("expansion-factor", "2"),
        ("missing-key", "empty"),
    ];
    for (option, value) in options {
        client.answers(&[(&format!("CONFIG SET {} {value}", Server::option(option)), ok())]);
    }
}

fn other() -> Setup {
    Server::with().module_args(OTHERWISE)
}

fn limited() -> Setup {
    Server::with().module_args(&format!("{OTHERWISE} bf-max-filter-bytes 300"))
}

/// With a file of commands.
fn as_file(setup: Setup) -> Setup {
    setup.append_only().config("aof-use-rdb-preamble", "no")
}

fn alone() -> Vec<Server> {
    vec![first().start()]
}

fn pair(replica: Setup) -> Vec<Server> {
    follower(first(), replica)
}

fn follower(primary: Setup, replica: Setup) -> Vec<Server> {
    let primary = primary.start();
    let replica = replica.replica_of(&primary).start();
    in_step(&primary, &replica);
    vec![primary, replica]
}

fn followed(world: &mut World) {
    for pair in world.servers.windows(2) {
        in_step(&pair[0], &pair[1]);
        is_content(&pair[1]);
    }
}

fn late(world: &mut World, replica: Setup) {
    world.servers.truncate(1);
    let replica = replica.replica_of(&world.servers[0]).start();
    world.servers.push(replica);
    followed(world);
}

/// What moves filters with the time that is left, or without.
fn ends_alike(from: &mut Client, to: &mut Client, key: &str) {
    let left = from.run(&format!("PTTL {key}")).int();
    assert!(
        left < 0 || to.run(&format!("PEXPIRE {key} {left}")) == 1.into(),
        "{key}"
    );
}

fn restore(from: &mut Client, to: &mut Client, key: &str, payload: &[u8]) {
    let left = from.run(&format!("PTTL {key}")).int().max(0).to_string();
    let words = [&b"RESTORE"[..], key.as_bytes(), left.as_bytes(), payload];
    assert_eq!(to.call(&words), ok(), "{key}");
    assert_eq!(
        to.call(&words),
        error("BUSYKEY Target key name already exists."),
        "{key}"
    );
}

impl World {
    /// Another server goes on with the files of the first.
    fn reborn(&mut self, setup: Setup) {
        self.servers[0].kill9();
        let has_options = Server::version().at_least(7, 0);
        let setup = if has_options {
            setup
        } else {
            setup.module_args(LIKE_FIRST)
        };
        let heir = setup.dir(self.servers[0].dir()).start();
        if has_options {
            set_like_first(&mut heir.client());
        }
        // Its directory goes with it.
        self.left.push(std::mem::replace(&mut self.servers[0], heir));
    }

    /// The filters are moved to another server, key by key.
    fn moved(&mut self, how: fn(&mut Client, &mut Client, &str)) {
        let to = Server::elsewhere().module_args(LIKE_FIRST).start();
        for key in self.keys() {
            how(&mut self.servers[0].client(), &mut to.client(), &key);
        }
        self.servers[0] = to;
    }
}
