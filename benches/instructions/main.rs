//! Instructions per item of the hot paths, and per call of commands in a server, counted by valgrind's callgrind: the
//! same on a busy machine as on an idle one, so that a change that costs more is seen when it is made.
//!
//! `make bench-instructions` compares with `counts.txt` and fails when a path needs over 5 % more; with `ARGS=--keep` it
//! writes the counts there instead. They hold for x86-64 with AVX2, one version of the compiler and one server.

#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark may fail")]

mod commands;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, ExitCode};

use libbloom::chain::batch;
use libbloom::packed::{Answers, Form, Packed};
use libbloom::params::{Capacity, ErrorRate, Expansion, Growth, Seed};
use libbloom::spec::BlockedSpec;
use libbloom::{Filter, UNLIMITED};

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

/// The items of a command, in each form in which they come.
struct Batch {
    items: Vec<Item>,
    lines: Vec<u8>,
    prefixed: Vec<u8>,
}

/// A path's name, and what it does with a filter and some batches.
type HotPath = (&'static str, fn(&mut Filter, &[Batch]));

const PATHS: [HotPath; 13] = [
    ("add, one by one", |filter, batches| {
        for batch in batches {
            for item in &batch.items {
                black_box(filter.add(item, 0, UNLIMITED)).expect("room");
            }
        }
    }),
    ("add, in batches", |filter, batches| {
        for batch in batches {
            let added = |new| {
                black_box(new);
            };
            filter.add_all(batch.slices(), 0, UNLIMITED, added).expect("room");
        }
    }),
    ("contains, one by one", contains_one_by_one),
    ("contains, in batches", contains_in_batches),
    ("contains, one by one, grown", contains_one_by_one),
    ("contains, in batches, grown", contains_in_batches),
    ("contains, in batches, with exceptions", contains_in_batches),
    ("contains, absent, with exceptions", contains_in_batches),
    ("contains, packed in lines", |filter, batches| {
        batches
            .iter()
            .for_each(|batch| contains_packed(filter, batch.in_lines()));
    }),
    ("contains, packed by width", |filter, batches| {
        batches
            .iter()
            .for_each(|batch| contains_packed(filter, batch.by_width()));
    }),
    ("contains, packed with lengths", |filter, batches| {
        batches
            .iter()
            .for_each(|batch| contains_packed(filter, batch.with_lengths()));
    }),
    ("add, packed in lines", |filter, batches| {
        batches
            .iter()
            .for_each(|batch| add_packed(filter, batch.in_lines()));
    }),
    ("add, packed by width", |filter, batches| {
        batches
            .iter()
            .for_each(|batch| add_packed(filter, batch.by_width()));
    }),
];

impl Batch {
    fn of(items: &[Item]) -> Self {
        let pack = |form: Form| {
            let mut data = Vec::new();
            items.iter().for_each(|item| form.push(item, &mut data));
            data
        };
        Self {
            items: items.to_vec(),
            lines: pack(Form::Lines),
            prefixed: pack(Form::Prefixed),
        }
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.items.iter().map(|item| &item[..])
    }

    fn in_lines(&self) -> Packed<'_> {
        Packed::new(&self.lines, Form::Lines).expect("items")
    }

    fn by_width(&self) -> Packed<'_> {
        let width = NonZeroUsize::new(size_of::<Item>()).expect("a width");
        Packed::new(bytemuck::cast_slice(&self.items), Form::Width(width)).expect("items")
    }

    fn with_lengths(&self) -> Packed<'_> {
        Packed::new(&self.prefixed, Form::Prefixed).expect("items")
    }
}

fn contains_one_by_one(filter: &mut Filter, batches: &[Batch]) {
    for batch in batches {
        for item in &batch.items {
            black_box(filter.contains(item));
        }
    }
}

fn contains_in_batches(filter: &mut Filter, batches: &[Batch]) {
    for batch in batches {
        filter.contains_all(batch.slices(), 0, |found| {
            black_box(found);
        });
    }
}

fn contains_packed(filter: &Filter, items: Packed<'_>) {
    let answers = filter.contains_packed(items, 0).expect("memory");
    black_box(answers.into_bitmap());
}

fn add_packed(filter: &mut Filter, items: Packed<'_>) {
    let mut answers = Answers::with_room_for(items.count()).expect("memory");
    let added = |block: batch::BlockOutcome| answers.push(block.new, block.count);
    filter.add_packed(items, 0, UNLIMITED, added).expect("room");
    black_box(items.only(&answers));
}

fn item(id: u64) -> Item {
    let word = |odd: u64| id.wrapping_mul(odd).to_le_bytes();
    let item: Item = bytemuck::cast([1, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 3].map(word));
    // None has the end of a line in it.
    item.map(|byte| if byte == b'\n' { b' ' } else { byte })
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
    let spec = BlockedSpec {
        error_rate: ErrorRate::new(0.01).expect("a rate"),
        capacity: Capacity::new(capacity).expect("a capacity"),
        growth,
        seed: Seed(0x5eed),
        window: None,
    };
    let mut filter = Filter::new(spec.into(), UNLIMITED).expect("memory");
    let items = items(0..FILLED);
    let slices = items.iter().map(|item| &item[..]);
    filter.add_all(slices, 0, UNLIMITED, |_| ()).expect("room");
    filter
}

/// Runs a path over `count` items, half of them present, or none.
fn run((name, path): HotPath, count: u64) {
    let mut filter = filter(name.contains("grown"));
    if name.contains("with exceptions") {
        // None of those that are queried.
        let excepted = items(2 * ITEMS..FILLED);
        let excepted = excepted.iter().map(|item| &item[..]);
        filter.except(excepted, UNLIMITED, |_, _| ()).expect("room");
    }
    let is_present = |id| item(id)[15] & 1 == 0 && !name.contains("absent");
    // Which are present has no pattern. All are made whatever the count is, so that making them is not counted.
    let ids = (0..2 * ITEMS).map(|id| if is_present(id) { id } else { ABSENT + id });
    let items: Vec<_> = ids.map(item).collect();
    let batches: Vec<_> = items.chunks(BATCH).map(Batch::of).collect();
    path(&mut filter, &batches[..count as usize / BATCH]);
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

/// The version of a program that the counts depend on.
fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output().expect(program);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The counts that were kept, by path, and the versions that they hold for.
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
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt");
    let (kept, keep) = (kept(&file), arguments.iter().any(|argument| argument == "--keep"));
    let (compiler, server) = (version("rustc"), version(&commands::server()));
    for (what, now) in [("compiler", &compiler), ("server", &server)] {
        if !keep && kept.get(what) != Some(now) {
            println!("skipped: the counts that were kept are of another {what} than {now}");
            return ExitCode::SUCCESS;
        }
    }
    let (mut counts, mut risen) = (format!("compiler: {compiler}\nserver: {server}\n"), false);
    let mut report = |name: &str, count: f64, unit: &str| {
        let before: Option<f64> = kept.get(name).map(|count| count.parse().expect("a count"));
        let change = before.map_or(0.0, |before| count / before - 1.0);
        risen |= before.is_none() || change > TOLERANCE;
        println!(
            "{name:<42} {count:8.1} instructions per {unit}  {:+.1} %",
            100.0 * change
        );
        writeln!(counts, "{name}: {count:.1}").expect("a string takes all");
    };
    for (index, (name, _)) in PATHS.iter().enumerate() {
        // What comes before the items is the same in both.
        let more = instructions(index, 2 * ITEMS) - instructions(index, ITEMS);
        report(name, more as f64 / ITEMS as f64, "item");
    }
    commands::count(|name, count| report(name, count as f64, "call"));
    if keep {
        std::fs::write(&file, counts).expect("the file can be written");
    } else if risen {
        eprintln!("A path takes over {} % more than was kept.", 100.0 * TOLERANCE);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
