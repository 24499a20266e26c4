//! Prints the lines of standard input that a filter does not know: those that are new.
//!
//! `cargo run --example ask -- SEEN.bloom <LINES.txt`

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};

use libbloom::Filter;

/// Lines that are asked for in one call, which is faster than one by one in large filters.
const BATCH: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: ask SEEN.bloom <LINES.txt")?;
    let seen = Filter::load(path)?;
    ask(&seen, io::stdin().lock(), io::stdout().lock())?;
    Ok(())
}

/// Writes the lines that are not in the filter, and counts them.
pub fn ask(seen: &Filter, lines: impl io::Read, mut new: impl Write) -> io::Result<u64> {
    let mut lines = BufReader::new(lines).split(b'\n');
    let mut count = 0;
    loop {
        let batch = lines.by_ref().take(BATCH).collect::<io::Result<Vec<_>>>()?;
        if batch.is_empty() {
            return Ok(count);
        }
        let found = seen.contains_many(batch.iter().map(Vec::as_slice));
        for (line, _) in batch.iter().zip(found).filter(|(_, found)| !found) {
            new.write_all(line)?;
            new.write_all(b"\n")?;
            count += 1;
        }
    }
}
