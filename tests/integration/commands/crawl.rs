//! The main job, on real input: a crawler asks of every URL that it meets whether it is new.
//!
//! It uses a client library as a user does, over both protocols.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use redis::{Connection, ProtocolVersion, RedisResult};

use crate::server::Server;

/// The promise that the filter is reserved with.
const RATE: f64 = 0.01;

/// The URLs, in the order in which they were met.
fn urls() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/urls.txt.gz");
    BufReader::new(GzDecoder::new(File::open(path).unwrap()))
        .lines()
        .map(Result::unwrap)
        .collect()
}

fn connect(server: &Server, protocol: ProtocolVersion) -> Connection {
    let address: redis::ConnectionInfo =
        redis::IntoConnectionInfo::into_connection_info(server.url()).unwrap();
    let settings = address.redis_settings().clone().set_protocol(protocol);
    redis::Client::open(address.set_redis_settings(settings))
        .unwrap()
        .get_connection()
        .unwrap()
}

/// One answer for each URL, a thousand commands at a time.
fn ask(connection: &mut Connection, command: &str, urls: &[String]) -> Vec<bool> {
    let batches = urls.chunks(1000).map(|batch| {
        let mut pipeline = redis::pipe();
        for url in batch {
            pipeline.cmd(command).arg("urls").arg(url);
        }
        pipeline.query::<Vec<bool>>(connection).unwrap()
    });
    batches.flatten().collect()
}

fn dump(connection: &mut Connection) -> Vec<u8> {
    redis::cmd("DUMP").arg("urls").query(connection).unwrap()
}

/// A crawler would fetch a page again, or leave out more new pages than it was promised, or forget by a restart
/// what it has seen.
#[test]
fn a_crawler_sees_each_url_once() {
    let urls = urls();
    let distinct = urls.iter().collect::<HashSet<_>>().len();
    assert_eq!(
        (urls.len(), distinct),
        (59_226, 30_089),
        "the fixture is another one"
    );

    let mut server = Server::with().module_args("bf-seed 1").start();
    let mut connection = connect(&server, ProtocolVersion::RESP3);
    let reserve = redis::cmd("BF.RESERVE")
        .arg("urls")
        .arg(RATE)
        .arg(10_000)
        .exec(&mut connection);
    assert_eq!(reserve, RedisResult::Ok(()));
    let answers = ask(&mut connection, "BF.ADD", &urls);

    let mut seen = HashSet::new();
    let twice = urls
        .iter()
        .zip(&answers)
        .filter(|&(url, &new)| !seen.insert(url) && new)
        .count();
    assert_eq!(twice, 0, "URLs that were met before are reported new");
    let new = answers.iter().filter(|&&new| new).count();
    let distinct = distinct as f64;
    let least = distinct * (1.0 - RATE) - 3.0 * (distinct * RATE * (1.0 - RATE)).sqrt();
    assert!(
        (least..=distinct).contains(&(new as f64)),
        "{new} URLs are new, of {distinct}, at least {least}"
    );
    let card: usize = redis::cmd("BF.CARD").arg("urls").query(&mut connection).unwrap();
    assert_eq!(card, new);

    assert!(
        ask(&mut connection, "BF.EXISTS", &urls)
            .into_iter()
            .all(|found| found),
        "a URL is not found"
    );
    let stored = dump(&mut connection);
    redis::cmd("SAVE").exec(&mut connection).unwrap();
    server.restart();
    let mut connection = connect(&server, ProtocolVersion::RESP2);
    assert!(
        ask(&mut connection, "BF.EXISTS", &urls)
            .into_iter()
            .all(|found| found),
        "the restart lost a URL"
    );
    assert_eq!(dump(&mut connection), stored);
    assert!(
        ask(&mut connection, "BF.ADD", &urls).into_iter().all(|new| !new),
        "a URL is new again"
    );
}
