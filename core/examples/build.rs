//! Builds a filter of a file's lines in several threads, and saves it.
//!
//! `cargo run --example build -- LINES.txt LINES.bloom`
//!
//! Each thread fills a filter of its own with a part of the file; then they are united. Filters of one seed and one
//! shape are laid over each other, so the result is as large as one of them, and has the bits that one thread would
//! have set.

use std::error::Error;
use std::path::Path;
use std::thread;

use libbloom::Filter;

/// The error rate of the filter.
const RATE: f64 = 0.001;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [lines, filter] = &paths[..] else {
        return Err("usage: build LINES.txt LINES.bloom".into());
    };
    let threads = thread::available_parallelism()?.get();
    let filter_of_lines = build(Path::new(lines), threads)?;
    filter_of_lines.save(filter)?;
    eprintln!("{} lines", filter_of_lines.totals().items);
    Ok(())
}

/// The filter of all lines of a file.
pub fn build(path: &Path, threads: usize) -> Result<Filter, Box<dyn Error + Send + Sync>> {
    let text = std::fs::read(path)?;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let builder = Filter::builder(lines.len() as u64, RATE);
    let parts = thread::scope(|scope| {
        let parts = lines.chunks(lines.len().div_ceil(threads)).map(|lines| {
            scope.spawn(move || {
                let mut part = builder.build()?;
                part.insert_many(lines.iter().copied())?;
                Ok::<_, Box<dyn Error + Send + Sync>>(part)
            })
        });
        // All of them are started before the first is waited for.
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(|part| part.join()).collect::<Vec<_>>()
    });
    let mut whole = builder.build()?;
    for part in parts {
        let part = part.map_err(|_| "a thread has panicked")??;
        whole.union_with(&part)?;
    }
    Ok(whole)
}
