//! A proxy for a port, which hands over bytes and can fail to: it stands between clients and a server, and between
//! replicas and their primary. A server that starts again on another port keeps its front.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// How often a silent connection looks whether it shall end.
const TURN: Duration = Duration::from_millis(40);

/// What a front does with the bytes that come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weather {
    /// Hands it over.
    Fair,
    /// Ends all connections, and takes none.
    Cut,
    /// Takes bytes and keeps them: they come late, or never where the connection is ended before.
    Hold,
    /// Hands each piece over after some milliseconds.
    Lag,
    /// Hands over half of the next piece, and ends that connection.
    Half,
}

const WEATHERS: [Weather; 5] = [
    Weather::Fair,
    Weather::Cut,
    Weather::Hold,
    Weather::Lag,
    Weather::Half,
];

/// A port that stands for another one.
pub struct Front {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: AtomicU16,
    weather: AtomicU8,
    /// Connections of earlier epochs end.
    epoch: AtomicU64,
    ended: AtomicBool,
    /// Every byte of a client goes to the server a second time, over another connection.
    twice: bool,
}

impl Front {
    /// A front of a port that is still to be named.
    pub fn new() -> Self {
        Self::open(false)
    }

    /// One that delivers everything twice.
    pub fn twice() -> Self {
        Self::open(true)
    }

    fn open(twice: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(0),
            weather: AtomicU8::new(0),
            epoch: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            twice,
        });
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if own.ended.load(SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    let own = Arc::clone(&own);
                    thread::spawn(move || serve(&stream, &own));
                }
            }
        });
        Self { port, shared }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Names the port that it stands for.
    pub fn point(&self, port: u16) {
        self.shared.target.store(port, SeqCst);
        self.end_all();
    }

    pub fn set(&self, weather: Weather) {
        let number = WEATHERS.iter().position(|other| *other == weather).unwrap();
        self.shared.weather.store(number as u8, SeqCst);
        if weather == Weather::Cut {
            self.end_all();
        }
    }

    /// Ends all connections.
    pub fn end_all(&self) {
        self.shared.epoch.fetch_add(1, SeqCst);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        self.end_all();
        // The thread that takes connections waits for one.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn weather(&self) -> Weather {
        WEATHERS[usize::from(self.weather.load(SeqCst))]
    }
}

fn serve(client: &TcpStream, shared: &Arc<Shared>) {
    let epoch = shared.epoch.load(SeqCst);
    let target = shared.target.load(SeqCst);
    if shared.weather() == Weather::Cut || target == 0 {
        return;
    }
    let connect = || TcpStream::connect(("127.0.0.1", target));
    let Ok(server) = connect() else { return };
    let mut targets = vec![server.try_clone().unwrap()];
    if shared.twice {
        let Ok(second) = connect() else { return };
        targets.push(second.try_clone().unwrap());
        let own = Arc::clone(shared);
        // Nobody wants to know what it answers.
        thread::spawn(move || carry(&second, &mut [], &own, epoch));
    }
    let lines = [client.try_clone().unwrap(), server.try_clone().unwrap()];
    let own = Arc::clone(shared);
    let [mut back, from] = lines;
    let replies = thread::spawn(move || carry(&from, std::slice::from_mut(&mut back), &own, epoch));
    carry(client, &mut targets, shared, epoch);
    let _ended = replies.join();
}

/// Hands over what comes from `from`, until a side or the epoch ends.
fn carry(from: &TcpStream, to: &mut [TcpStream], shared: &Shared, epoch: u64) {
    let is_over = || shared.ended.load(SeqCst) || shared.epoch.load(SeqCst) != epoch;
    let _broken = from.set_read_timeout(Some(TURN));
    to.iter().for_each(|to| {
        let _broken = to
            .set_nodelay(true)
            .and_then(|()| to.set_write_timeout(Some(Duration::from_secs(5))));
    });
    let mut bytes = vec![0; 1 << 16];
    let mut source = from;
    'open: while !is_over() {
        let read = match source.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => read,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        let mut some = &bytes[..read];
        if shared.weather() == Weather::Lag {
            thread::sleep(Duration::from_millis(30));
        }
        while shared.weather() == Weather::Hold {
            if is_over() {
                break 'open;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let half = shared.weather() == Weather::Half;
        if half {
            shared.weather.store(0, SeqCst);
            some = &some[..read / 2];
        }
        if is_over() || to.iter_mut().any(|to| to.write_all(some).is_err()) || half {
            break;
        }
    }
    for line in to.iter().chain([from]) {
        let _already_ended = line.shutdown(Shutdown::Both);
    }
}
