//! A primary dies in the middle of a write stream, and a replica takes its place.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::client::{Client, Reply, end, ok};
use crate::server::{Server, sample, seed, until};
use crate::support::items::{numbered, present};
use crate::support::link::in_step;

/// How often the primary dies.
const ROUNDS: usize = 6;

/// Keys that get items; each becomes a filter with its first one.
const KEYS: [&str; 3] = ["first", "second", "third"];

/// Items that enough replicas have confirmed, by key.
pub type Confirmed = Vec<(String, Vec<Vec<u8>>)>;

/// Adds to `keys`, in commands of every kind, until the connection ends or the server does not take writes any
/// more. `next` numbers the items, `progress` counts what so many `replicas` have confirmed.
pub fn add_and_wait(
    client: &mut Client,
    replicas: i64,
    keys: &[String],
    random: &mut StdRng,
    next: &mut usize,
    progress: &AtomicUsize,
) -> Confirmed {
    let mut confirmed = Vec::new();
    loop {
        let key = &keys[random.random_range(0..keys.len())];
        let items = numbered("item:", *next, *next + random.random_range(1..30));
        *next += items.len();
        let head: &[&str] = match random.random_range(0..2) {
            0 => &["BF.MADD", key],
            _ => &["BF.INSERT", key, "ITEMS"],
        };
        let words = head.iter().map(|word| word.as_bytes());
        let words: Vec<_> = words.chain(items.iter().map(Vec::as_slice)).collect();
        let mut run = |words: &[&[u8]]| client.send(words).and_then(|()| client.receive());
        match run(&words) {
            Ok(Reply::Array(added)) => assert_eq!(added.len(), items.len()),
            Ok(Reply::Error(_)) | Err(_) => return confirmed,
            Ok(other) => panic!("{other:?}"),
        }
        match run(&[b"WAIT", replicas.to_string().as_bytes(), b"1000"]) {
            Ok(Reply::Int(fewer)) if fewer < replicas => {}
            Ok(Reply::Int(_)) => {
                confirmed.push((key.clone(), items));
                progress.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Reply::Error(_)) | Err(_) => return confirmed,
            Ok(other) => panic!("{other:?}"),
        }
    }
}

/// The replica has every byte that its primary has sent, and the same filters.
fn identical(primary: &Server, replica: &Server) {
    in_step(primary, replica);
    for key in KEYS {
        let value = |server: &Server| {
            let mut client = server.client();
            (client.call(&["DEBUG", "DIGEST-VALUE", key]), client.dump(key))
        };
        assert!(value(primary) == value(replica), "{key} differs");
    }
}

fn follow(replica: &Server, primary: &Server) {
    let line = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    replica.client().answers(&[(&line, ok())]);
}

/// A filter would forget what its clients were told is safe on two machines.
#[test]
fn nothing_that_a_replica_confirmed_is_lost_with_the_primary() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut primary = Server::with().start();
    // With settings of its own, which play no part until it creates filters itself.
    let mut replica = Server::with()
        .module_args("bf-initial-size 7 bf-error-rate 0.001")
        .start();
    follow(&replica, &primary);
    let keys = KEYS.map(str::to_owned);
    let (mut next, mut confirmed) = (0, Confirmed::new());
    for round in 0..sample(ROUNDS) {
        in_step(&primary, &replica);
        let progress = AtomicUsize::new(0);
        let (least, pause) = (random.random_range(5..60), random.random_range(0..30));
        thread::scope(|scope| {
            let mut client = primary.client();
            let line = client.line();
            let (next, progress, keys) = (&mut next, &progress, &keys);
            let writer = scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(round as u64);
                add_and_wait(&mut client, 1, keys, &mut random, next, progress)
            });
            until("a replica confirms", || progress.load(Ordering::Relaxed) >= least);
            thread::sleep(Duration::from_millis(pause));
            primary.kill9();
            end(&line);
            confirmed.extend(writer.join().unwrap());
        });
        let mut client = replica.client();
        client.answers(&[("REPLICAOF NO ONE", ok())]);
        for (key, items) in &confirmed {
            assert_eq!(
                present(&mut client, key, items).len(),
                items.len(),
                "{key} in round {round}"
            );
        }
        // The old primary comes back with nothing, or with what it saved; it follows the new one.
        primary.revive();
        primary.client().run("BF.MADD first stale items");
        follow(&primary, &replica);
        client.run("BF.MADD second and on it goes");
        identical(&replica, &primary);
        std::mem::swap(&mut primary, &mut replica);
    }
}

/// With several replicas, the one that is promoted would lack what the others had confirmed.
#[test]
fn any_replica_has_what_all_of_them_confirmed() {
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..sample(2) {
        let mut primary = Server::start();
        let replicas = [(); 2].map(|()| Server::with().replica_of(&primary).start());
        replicas.iter().for_each(|replica| in_step(&primary, replica));
        let (keys, progress) = (KEYS.map(str::to_owned), AtomicUsize::new(0));
        let least = random.random_range(5..60);
        let confirmed = thread::scope(|scope| {
            let mut client = primary.client();
            let line = client.line();
            let (progress, random) = (&progress, &mut random);
            let writer = scope.spawn(move || add_and_wait(&mut client, 2, &keys, random, &mut 0, progress));
            until("both replicas confirm", || {
                progress.load(Ordering::Relaxed) >= least
            });
            primary.kill9();
            end(&line);
            writer.join().unwrap()
        });
        let heir = random.random_range(0..2);
        let (heir, other) = (&replicas[heir], &replicas[1 - heir]);
        let mut client = heir.client();
        client.answers(&[("REPLICAOF NO ONE", ok())]);
        follow(other, heir);
        client.run("BF.MADD second and on it goes");
        identical(heir, other);
        for (key, items) in &confirmed {
            assert_eq!(present(&mut client, key, items).len(), items.len(), "{key}");
        }
    }
}
