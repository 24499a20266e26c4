//! Adds items, asks for them, and keeps the filter in a file.

use std::error::Error;
use std::path::Path;

use libbloom::Filter;

fn main() -> Result<(), Box<dyn Error>> {
    start(Path::new("seen.bloom"))
}

/// Makes a filter, and saves it there.
pub fn start(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut seen = Filter::builder(1_000_000, 0.001).build()?;
    assert!(seen.insert("https://example.com/")?); // true: it was new
    assert!(seen.contains("https://example.com/"));

    let lines = ["one", "two", "three"].map(str::as_bytes);
    seen.insert_many(lines)?; // faster than one by one in large filters
    assert_eq!(seen.contains_many(lines), [true; 3]);

    seen.save(path)?;
    assert!(Filter::load(path)?.contains("two"));
    Ok(())
}
