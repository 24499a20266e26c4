//! Whether the sanitizers of `make sanitize` are at work: what they are there to find is put before them. Everywhere
//! else these tests are skipped.

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use crate::server::{Server, skip};

/// What is wrong on purpose in `tests/sanitizers/faulty.rs`, and how its report begins.
fn faults(sanitizer: &str) -> Vec<(&'static str, &'static str)> {
    match sanitizer {
        "address" => vec![
            (
                "use-after-free",
                "ERROR: AddressSanitizer: heap-use-after-free on ",
            ),
            ("overflow", "ERROR: AddressSanitizer: heap-buffer-overflow on "),
            ("leak", "ERROR: LeakSanitizer: detected memory leaks"),
        ],
        "thread" => vec![("race", "WARNING: ThreadSanitizer: data race")],
        _ => panic!("no sanitizer {sanitizer:?}"),
    }
}

fn contains(bytes: &[u8], name: &str) -> bool {
    memchr::memmem::find(bytes, name.as_bytes()).is_some()
}

/// A whole run would say that nothing was found, and nobody looked.
#[test]
fn what_a_sanitizer_finds_fails_a_test() {
    let Some(sanitizer) = Server::sanitizer() else {
        skip!("make sanitize does it");
    };
    let module = PathBuf::from(std::env::var_os("BLOOM_TEST_FAULTY").unwrap());
    for (fault, report) in faults(sanitizer) {
        let found = catch_unwind(|| {
            Server::with()
                .module_at(&module)
                .module_args(fault)
                .try_start()
                .err()
        });
        let text = found.expect_err(fault).downcast::<String>().unwrap();
        assert!(text.lines().next().unwrap().contains(report), "{fault}: {text}");
    }
    let harmless = Server::with().module_at(&module).module_args("none").try_start();
    assert!(harmless.err().unwrap().contains("Can't load module"));
}

/// A whole run would find nothing, because the server or the module was built without the checks.
#[test]
fn the_server_and_the_module_have_the_checks() {
    let Some(sanitizer) = Server::sanitizer() else {
        skip!("make sanitize does it");
    };
    let (of_module, of_server) = match sanitizer {
        "address" => (
            &["__asan_report_store8", "__asan_report_load8"][..],
            &["__asan_report_store8", "__ubsan_handle_type_mismatch_v1"][..],
        ),
        _ => (&["__tsan_write8", "__tsan_read8"][..], &["__tsan_write8"][..]),
    };
    let module = fs::read(Server::module()).unwrap();
    let server = fs::read(Server::program()).unwrap();
    for name in of_module {
        assert!(contains(&module, name), "the module lacks {name}");
    }
    for name in of_server {
        assert!(contains(&server, name), "the server lacks {name}");
    }
}
