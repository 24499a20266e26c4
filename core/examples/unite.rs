//! Unites filters that were saved, such as those of the days of a week.
//!
//! `cargo run --example unite -- WEEK.bloom MONDAY.bloom TUESDAY.bloom ...`
//!
//! They must have one seed: `build` without one draws it anew in each program, so name one where filters of several
//! programs are to be united.

use std::error::Error;
use std::path::Path;

use libbloom::Filter;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [whole, parts @ ..] = &paths[..] else {
        return Err("usage: unite WHOLE.bloom PART.bloom ...".into());
    };
    let united = unite(parts)?;
    united.save(whole)?;
    eprintln!("{} items", united.totals().items);
    Ok(())
}

/// A filter of all items of the filters in these files.
pub fn unite<P: AsRef<Path>>(paths: &[P]) -> Result<Filter, Box<dyn Error>> {
    let (first, others) = paths.split_first().ok_or("there is no filter")?;
    let mut whole = Filter::load(first)?;
    for other in others {
        whole.union_with(&Filter::load(other)?)?;
    }
    Ok(whole)
}
