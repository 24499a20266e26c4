//! An RDB file, or the payload of DUMP: whatever it says, it is refused, or its filters work, and are the same when they
//! are written again. The first byte says which of them the others are; the checksum is 0, which means that there is
//! none.

use crate::{LIMIT, check};
use libbloom::Filter;

const MAGICS: [&[u8]; 4] = [b"REDIS0011", b"REDIS0014", b"VALKEY080", b"REDIS0004"];

/// Panics where that does not hold.
pub fn run(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    if let Some(magic) = MAGICS.get(usize::from(kind)) {
        let file = [magic, bytes].concat();
        for entry in libbloom_rdb::filters(&file[..], LIMIT) {
            let Ok(entry) = entry else { return };
            if let Ok(filter) = entry.filter {
                let mut writer = libbloom_rdb::Writer::new(Vec::new()).expect("memory");
                let written = writer.put(entry.db, &entry.key, &filter, entry.expires_at);
                written.expect("memory");
                let file = writer.finish().expect("memory");
                let mut entries = libbloom_rdb::filters(&file[..], u64::MAX);
                let again = entries.next().expect("a key").expect("what was written is read");
                assert!(entries.next().is_none());
                assert_eq!(
                    (again.db, again.key, again.expires_at),
                    (entry.db, entry.key, entry.expires_at)
                );
                is_the_same(&again.filter.expect("what was written is read"), &filter);
                check::works(filter);
            }
        }
    } else if let Ok(filter) = libbloom_rdb::read_payload(&[bytes, &[11, 0], &[0; 8]].concat(), LIMIT) {
        let mut payload = Vec::new();
        libbloom_rdb::write_payload(&filter, &mut payload).expect("memory");
        is_the_same(
            &libbloom_rdb::read_payload(&payload, u64::MAX).expect("what was written is read"),
            &filter,
        );
        check::works(filter);
    }
}

fn is_the_same(one: &Filter, other: &Filter) {
    assert!(
        check::saved(one) == check::saved(other),
        "another filter was written"
    );
}
