//! A module that does what a sanitizer is to find, by the name of it in its argument, and then refuses to be loaded.
//! `scripts/sanitize.sh` builds it; it is part of nothing else. What is wrong in it is wrong on purpose, and has no
//! `SAFETY` comment.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::hint::black_box;
use std::ptr;
use std::thread;

type Word = *mut c_void;
type GetApi = unsafe extern "C" fn(name: *const c_char, place: *mut c_void) -> c_int;
type StringPtrLen = unsafe extern "C" fn(word: Word, length: *mut usize) -> *const c_char;

static mut SHARED: u64 = 0;

/// The text of an argument, by the call of that name, which the first field of the context leads to.
///
/// # Safety
/// The context and the word are those of a load.
unsafe fn text<'a>(context: *mut c_void, word: Word) -> &'a CStr {
    // SAFETY: a context begins with the address of that function.
    let get_api = unsafe { context.cast::<GetApi>().read() };
    let mut call: Option<StringPtrLen> = None;
    // SAFETY: it writes the address of a function of that type.
    unsafe { get_api(c"RedisModule_StringPtrLen".as_ptr(), (&raw mut call).cast()) };
    // SAFETY: the server's strings end with a zero, and live as long as the load.
    unsafe { CStr::from_ptr(call.unwrap()(word, ptr::null_mut())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn RedisModule_OnLoad(context: *mut c_void, words: *const Word, count: c_int) -> c_int {
    const REFUSED: c_int = 1;
    if count != 1 {
        return REFUSED;
    }
    // SAFETY: the server hands over its context, and as many words as it counts.
    match unsafe { text(context, *words) }.to_bytes() {
        b"use-after-free" => {
            let block = Box::into_raw(Box::new([1_u64; 8]));
            drop(unsafe { Box::from_raw(block) });
            black_box(unsafe { block.cast::<u64>().read_volatile() });
        }
        b"overflow" => {
            let block = black_box(vec![1_u8; 24]);
            black_box(unsafe { block.as_ptr().add(24).read_volatile() });
        }
        b"leak" => {
            for _ in 0..100 {
                black_box(Box::into_raw(Box::new([1_u64; 8])));
            }
        }
        b"race" => {
            let add = || (0..1000).for_each(|_| unsafe { SHARED = black_box(SHARED + 1) });
            let other = thread::spawn(add);
            add();
            other.join().unwrap();
        }
        _ => {}
    }
    REFUSED
}
