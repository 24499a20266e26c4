//! A thread that frees what takes long to free, as the server's own does for what UNLINK takes away.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

/// What is to be freed.
type Burden = Box<dyn Send>;

/// The way to the thread; `None` where none could be made. It lives as long as the server.
static FREEING: OnceLock<Option<Sender<Burden>>> = OnceLock::new();

/// Bytes from which on it pays to free on another thread: up to 1 MiB are freed in some 0.1 ms.
const LONG_TO_FREE: u64 = 1 << 20;

/// Whether it pays to free so many bytes on another thread.
pub fn is_long(bytes: u64) -> bool {
    bytes > LONG_TO_FREE
}

/// Frees `burden`, which holds so many `bytes`: on another thread if that takes long, and there is one.
pub fn free(burden: impl Send + 'static, bytes: u64) {
    if !is_long(bytes) {
        return drop(burden);
    }
    let burden: Burden = Box::new(burden);
    if let Some(way) = FREEING.get_or_init(start) {
        // What cannot be sent comes back in the error, and is freed with it.
        drop(way.send(burden));
    }
}

fn start() -> Option<Sender<Burden>> {
    let (way, burdens) = mpsc::channel::<Burden>();
    let thread = Builder::new().name("bloom_free".to_owned()).spawn(move || {
        leave_signals_to_the_server();
        burdens.into_iter().for_each(drop);
    });
    thread.ok().map(|_| way)
}

/// The server expects its signals on its own threads: the watchdog's to find the main thread at work.
fn leave_signals_to_the_server() {
    // SAFETY: a plain C structure of integers, for which all zeros are a value.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes into a set that lives until this function ends.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the call reads a set that was filled, and may be told of no place for the old one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
}
