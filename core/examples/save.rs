//! Keeps a filter between runs of a program: saved at its end, loaded at its start.
//!
//! `cargo run --example save -- SEEN.bloom ITEM ...` says of each item whether it was there before.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use libbloom::{FileError, Filter};

/// The most memory that a file may make the program take.
const MOST: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("usage: save SEEN.bloom ITEM ...")?;
    let mut seen = open(Path::new(&path))?;
    for item in words {
        let is_new = seen.insert(&item)?;
        println!("{item}: {}", if is_new { "new" } else { "was there before" });
    }
    // The file gets its name when it is whole: a program that is stopped meanwhile leaves the one before.
    seen.save(&path)?;
    Ok(())
}

/// The filter of a file, or a new one if there is none.
pub fn open(path: &Path) -> Result<Filter, Box<dyn Error>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Filter::builder(1_000_000, 0.001).build()?);
        }
        Err(error) => return Err(error.into()),
    };
    match Filter::read_from(BufReader::new(file), MOST) {
        Ok(filter) => Ok(filter),
        Err(FileError::TooLarge { bytes }) => Err(format!("the filter has {bytes} bytes").into()),
        Err(error) => Err(error.into()),
    }
}
