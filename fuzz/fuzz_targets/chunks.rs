#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bloom_fuzz::targets::chunks::run(bytes));
