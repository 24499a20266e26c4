//! An RDB stream, or what BF.LOAD takes: whatever it says, it is refused, or makes a filter that works.

use crate::{LIMIT, check, stream};
use libbloom::Filter;
use libbloom::chain::Chain;
use libbloom::chain::at_most;
use libbloom::codec::{self, valkey};
use libbloom::layouts::valkey::Valkey;

/// Panics where that does not hold.
pub fn run(bytes: &[u8]) {
    let (version, mut values) = stream::decode(bytes);
    let filter = match (version & stream::VALKEY, bytes.split_first()) {
        (0, _) => codec::load(&mut values, version, &at_most(LIMIT)),
        (_, Some((&stream::LOAD, bytes))) => valkey::decode(bytes, &at_most(LIMIT)).map(boxed),
        _ => valkey::load(&mut values, version & !stream::VALKEY, &at_most(LIMIT)).map(boxed),
    };
    if let Ok(filter) = filter {
        check::works(filter);
    }
}

fn boxed(chain: Chain<Valkey>) -> Filter {
    chain.into()
}
