//! Takes the filters out of an RDB file of Redis or Valkey, with RedisBloom, valkey-bloom or this project's module.
//!
//! `cargo run -p libbloom-rdb --example redisbloom -- dump.rdb FOLDER` saves each filter as FOLDER/KEY.bloom.
//!
//! `redis-cli --rdb dump.rdb` fetches such a file from a server that runs. [`libbloom_rdb::read_payload`] reads the
//! payload of a single key.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use libbloom::Filter;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [file, folder] = &paths[..] else {
        return Err("usage: redisbloom dump.rdb FOLDER".into());
    };
    std::fs::create_dir_all(folder)?;
    for (key, filter) in filters(Path::new(file))? {
        let totals = filter.totals();
        println!("{key}: {} items, {} bytes", totals.items, filter.bytes());
        // A key may have any name, and a file may not.
        let name: String = key.replace(|letter: char| !letter.is_alphanumeric(), "_");
        filter.save(Path::new(folder).join(name).with_extension("bloom"))?;
    }
    Ok(())
}

/// The filters of an RDB file, by key. One that cannot be read is left out, with a line that says why.
pub fn filters(path: &Path) -> Result<Vec<(String, Filter)>, Box<dyn Error>> {
    let mut filters = Vec::new();
    for entry in libbloom_rdb::filters(File::open(path)?, u64::MAX) {
        let entry = entry?;
        let key = String::from_utf8_lossy(&entry.key).into_owned();
        match entry.filter {
            Ok(filter) => filters.push((key, filter)),
            Err(error) => eprintln!("{key}: {error}"),
        }
    }
    Ok(filters)
}
