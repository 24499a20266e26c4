//! What each target does with the fuzzer's bytes.

pub mod chunks;
pub mod commands;
pub mod operations;
pub mod rdb;
pub mod stream;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{chunks, commands, operations, rdb, stream};

    #[test]
    fn what_the_seeds_hold_still_holds() {
        each_seed("chunks", chunks::run);
        each_seed("commands", commands::run);
        each_seed("operations", operations::run);
        each_seed("rdb", rdb::run);
        each_seed("stream", stream::run);
    }

    fn each_seed(target: &str, run: impl Fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        let seeds: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|seed| seed.unwrap().path())
            .collect();
        assert!(!seeds.is_empty(), "no seeds of {target}");
        for seed in seeds {
            println!("{}", seed.display());
            run(&fs::read(seed).unwrap());
        }
    }
}
