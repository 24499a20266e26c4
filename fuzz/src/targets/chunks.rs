//! A chunk header, then chunks in any order, with items added in between: what is refused changes nothing, bits are
//! never unset, and what was added stays.

use crate::tape::Tape;
use crate::{LIMIT, check};
use libbloom::Filter;
use libbloom::chain::at_most;
use libbloom::codec::chunks::{self, HEADER};

/// Panics where that does not hold.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape(bytes);
    let Ok(mut filter) = chunks::load_header(tape.long(), &at_most(LIMIT)) else {
        return;
    };
    check::is_sound(&filter);
    let mut added: Vec<&[u8]> = Vec::new();
    while !tape.is_over() {
        match tape.u8() % 4 {
            0 => load(&mut filter, tape.u64().cast_signed(), tape.long()),
            1 => {
                // At a place within the filter, mostly.
                let start = i64::from(tape.u32() & 0x3f_ffff);
                let bytes = tape.long();
                load(&mut filter, HEADER + start + bytes.len() as i64, bytes);
            }
            2 => {
                let item = tape.short();
                if filter.add(item, 0, &at_most(LIMIT)).is_ok() {
                    added.push(item);
                }
            }
            _ => {
                if let Ok(Some(chunk)) = chunks::dump(&filter, tape.u64().cast_signed()) {
                    assert!(chunk.iterator > 0 && chunk.bytes.len() <= chunks::CHUNK_BYTES);
                }
            }
        }
    }
    assert!(
        added.iter().all(|item| filter.contains(item)),
        "an added item is lost"
    );
    check::works(filter);
}

fn load(filter: &mut Filter, iterator: i64, bytes: &[u8]) {
    let (before, figures) = (check::saved(filter), filter.totals());
    let loaded = chunks::load_chunk(filter, iterator, bytes);
    let now = filter.totals();
    match loaded {
        // The figures leave out a layer that has expired.
        Ok(true) => assert!(check::saved(filter) != before && now.bits_set >= figures.bits_set),
        Ok(false) | Err(_) => assert!(check::saved(filter) == before, "changed, and not told"),
    }
    assert_eq!(now.items, figures.items);
}
