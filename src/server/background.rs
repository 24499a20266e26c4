//! A thread that frees large values, as the server's own thread does after UNLINK.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

type Value = Box<dyn Send>;

/// The channel to the thread, which lives as long as the server; `None` if it could not be started.
static FREEING: OnceLock<Option<Sender<Value>>> = OnceLock::new();

/// Whether it pays to free so many bytes on another thread: 1 MiB is freed in about 0.1 ms.
pub fn is_long(bytes: u64) -> bool {
    bytes > 1 << 20
}

/// Frees a value of `bytes` bytes: on the other thread if that pays and the thread exists.
pub fn free(value: impl Send + 'static, bytes: u64) {
    if !is_long(bytes) {
        return drop(value);
    }
    let value: Value = Box::new(value);
    if let Some(sender) = FREEING.get_or_init(start) {
        // A value that cannot be sent is in the error, and freed with it.
        drop(sender.send(value));
    }
}

fn start() -> Option<Sender<Value>> {
    let (sender, values) = mpsc::channel::<Value>();
    let thread = Builder::new().name("bloom_free".to_owned()).spawn(move || {
        leave_signals_to_the_server();
        values.into_iter().for_each(drop);
    });
    thread.ok().map(|_| sender)
}

/// Blocks all signals on this thread: the watchdog's must interrupt the main thread.
fn leave_signals_to_the_server() {
    // SAFETY: a plain C structure of integers, for which all zeros are a value.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes into a set that lives until this function ends.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the call reads a filled set, and accepts null for the old one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
}
