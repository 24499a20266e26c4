//! Instructions per item of the hot paths, counted by valgrind's callgrind: the same on a busy machine as on an
//! idle one, so that a change that costs more is seen when it is made.
//!
//! `cargo bench --bench instructions` compares with `benches/instructions.txt` and fails when a path takes over
//! 5 % more; `-- --keep` writes the counts there instead. They hold for x86-64 with
//! AVX2 and one version of the compiler.

#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark may fail")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use bloom::bloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Spec};
use bloom::bloom::{Filter, UNLIMITED};

/// How much more a path may take than what was kept.
const TOLERANCE: f64 = 0.05;
/// Items that a path is counted over: the count of twice as many, less that of these.
const ITEMS: u64 = 20_000;
/// Items in the filter before.
const FILLED: u64 = 50_000;
/// The first item that is never added.
const ABSENT: u64 = 1 << 40;
/// Items of a batch, as of a command of that many.
const BATCH: usize = 100;

type Item = [u8; 32];

/// A path's name, and what it does with a filter and so many items.
type HotPath = (&'static str, fn(&mut Filter, &[Item]));

const PATHS: [HotPath; 6] = [
    ("add, one by one", |filter, items| {
        for item in items {
            black_box(filter.add(item, UNLIMITED)).expect("room");
        }
    }),
    ("add, in batches", |filter, items| {
        for batch in items.chunks(BATCH) {
            let slices = batch.iter().map(|item| &item[..]);
            let added = |new| {
                black_box(new);
            };
            filter.add_all(slices, UNLIMITED, added).expect("room");
        }
    }),
    ("contains, one by one", |filter, items| {
        for item in items {
            black_box(filter.contains(item));
        }
    }),
    ("contains, in batches", |filter, items| {
        contains_in_batches(filter, items);
    }),
    ("contains, one by one, grown", |filter, items| {
        for item in items {
            black_box(filter.contains(item));
        }
    }),
    ("contains, in batches, grown", |filter, items| {
        contains_in_batches(filter, items);
    }),
];

fn contains_in_batches(filter: &Filter, items: &[Item]) {
    for batch in items.chunks(BATCH) {
        let slices = batch.iter().map(|item| &item[..]);
        filter.contains_all(slices, |found| {
            black_box(found);
        });
    }
}

fn item(id: u64) -> Item {
    let word = |odd: u64| id.wrapping_mul(odd).to_le_bytes();
    bytemuck::cast([1, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 3].map(word))
}

fn items(ids: std::ops::Range<u64>) -> Vec<Item> {
    ids.map(item).collect()
}

/// A filter with [`FILLED`] items: one layer, or those that it has grown from a small one.
fn filter(grown: bool) -> Filter {
    let expansion = Expansion::new(2).expect("an expansion");
    let (capacity, growth) = if grown {
        (100, Growth::Growing(expansion))
    } else {
        (4 * FILLED, Growth::Fixed)
    };
    let spec = Spec {
        error_rate: ErrorRate::new(0.01).expect("a rate"),
        capacity: Capacity::new(capacity).expect("a capacity"),
        growth,
        layout: Layout::Blocked { seed: Seed(0x5eed) },
    };
    let mut filter = Filter::new(spec, UNLIMITED).expect("memory");
    let items = items(0..FILLED);
    let slices = items.iter().map(|item| &item[..]);
    filter.add_all(slices, UNLIMITED, |_| ()).expect("room");
    filter
}

/// Runs a path over `count` items, half of them present.
fn run((name, path): HotPath, count: u64) {
    let mut filter = filter(name.contains("grown"));
    // Which are present has no pattern.
    let ids = (0..count).map(|id| if item(id)[15] & 1 == 0 { id } else { ABSENT + id });
    path(&mut filter, &ids.map(item).collect::<Vec<_>>());
}

/// All instructions of this program when it runs path `index` over `count` items.
fn instructions(index: usize, count: u64) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--run", &index.to_string(), &count.to_string()])
        .output()
        .expect("valgrind is needed to count instructions");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.unwrap_or_else(|| panic!("no count in {text}"));
    number.trim().parse().expect("a number")
}

/// The compiler, which the counts depend on.
fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output().expect("rustc");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The counts that were kept, by path, and the compiler under its own name.
fn kept(file: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(target_arch = "x86_64")]
fn has_vectors() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vectors() -> bool {
    false
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, index, count] = &arguments[..]
        && flag == "--run"
    {
        let (index, count): (usize, u64) = (index.parse().expect("a path"), count.parse().expect("a count"));
        run(PATHS[index], count);
        return ExitCode::SUCCESS;
    }

    if !has_vectors() {
        println!("skipped: the counts that were kept are of a processor with AVX2");
        return ExitCode::SUCCESS;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    let (kept, keep) = (kept(&file), arguments.iter().any(|argument| argument == "--keep"));
    let compiler = compiler();
    if !keep && kept.get("compiler") != Some(&compiler) {
        println!("skipped: the counts that were kept are another compiler's than {compiler}");
        return ExitCode::SUCCESS;
    }
    let (mut counts, mut risen) = (format!("compiler: {compiler}\n"), false);
    for (index, (name, _)) in PATHS.iter().enumerate() {
        // What comes before the items is the same in both.
        let more = instructions(index, 2 * ITEMS) - instructions(index, ITEMS);
        let count = more as f64 / ITEMS as f64;
        let before: Option<f64> = kept.get(*name).map(|count| count.parse().expect("a count"));
        let change = before.map_or(0.0, |before| count / before - 1.0);
        risen |= before.is_none() || change > TOLERANCE;
        println!(
            "{name:<30} {count:8.1} instructions per item  {:+.1} %",
            100.0 * change
        );
        writeln!(counts, "{name}: {count:.1}").expect("a string takes all");
    }
    if keep {
        std::fs::write(&file, counts).expect("the file can be written");
    } else if risen {
        eprintln!("A path takes over {} % more than was kept.", 100.0 * TOLERANCE);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
