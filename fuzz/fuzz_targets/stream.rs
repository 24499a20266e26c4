//! An RDB stream: whatever it says, it is refused, or makes a filter that works.
#![no_main]

use bloom::bloom::chain::at_most;
use bloom::bloom::codec;
use bloom_fuzz::{LIMIT, check, stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (version, mut values) = stream::decode(bytes);
    if let Ok(filter) = codec::load(&mut values, version, &at_most(LIMIT)) {
        check::works(filter);
    }
});
