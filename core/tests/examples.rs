//! The examples do what their pages say.
#![expect(dead_code, reason = "a test calls what an example's `main` calls")]

use std::path::Path;

use libbloom::Filter;
use tempfile::TempDir;

#[path = "../examples/ask.rs"]
mod ask;
#[path = "../examples/build.rs"]
mod build;
#[path = "../examples/save.rs"]
mod save;
#[path = "../examples/start.rs"]
mod start;
#[path = "../examples/unite.rs"]
mod unite;

fn lines(count: u32) -> String {
    let lines: Vec<_> = (0..count).map(|number| format!("line {number}")).collect();
    lines.join("\n")
}

/// Who copies the first program of the crate's page would have one that does not compile.
#[test]
fn the_page_begins_with_a_program_that_runs() {
    let page = include_str!("../README.md");
    let program = include_str!("../examples/start.rs");
    assert!(page.contains(&format!("```rust\n{program}```\n")));
    let folder = TempDir::new().unwrap();
    start::start(&folder.path().join("seen.bloom")).unwrap();
}

/// A program that is written after the example would lose lines between its threads, or need their number's room.
#[test]
fn threads_build_the_filter_that_one_would() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lines.txt");
    std::fs::write(&path, lines(10_000)).unwrap();
    let bytes = |threads| {
        let mut bytes = Vec::new();
        build::build(&path, threads)
            .unwrap()
            .write_to(&mut bytes)
            .unwrap();
        bytes
    };
    let (one, three) = (bytes(1), bytes(3));
    let read = |bytes: &[u8]| Filter::read_from(bytes, u64::MAX).unwrap();
    let (one, three) = (read(&one), read(&three));
    assert_eq!(three.bytes(), one.bytes());
    assert_eq!(three.totals().bits_set, one.totals().bits_set);
    assert!(lines(10_000).lines().all(|line| three.contains(line)));
}

/// Who looks for new lines by the example would miss some, or get known ones.
#[test]
fn new_lines_are_printed_and_known_ones_are_not() {
    let mut seen = Filter::builder(3000, 1e-9).build().unwrap();
    let known = lines(3000);
    seen.insert_many(known.lines().map(str::as_bytes)).unwrap();
    let mut new = Vec::new();
    let count = ask::ask(&seen, format!("{}\nother\n", lines(3002)).as_bytes(), &mut new).unwrap();
    assert_eq!(new, b"line 3000\nline 3001\nother\n");
    assert_eq!(count, 3);
}

/// A filter of a week would lack a day.
#[test]
fn filters_of_files_are_united() {
    let folder = TempDir::new().unwrap();
    let paths: Vec<_> = ["monday", "tuesday", "wednesday"]
        .into_iter()
        .map(|day| {
            let mut filter = Filter::builder(100, 1e-6).seed(1).build().unwrap();
            filter.insert(day).unwrap();
            let path = folder.path().join(day);
            filter.save(&path).unwrap();
            path
        })
        .collect();
    let week = unite::unite(&paths).unwrap();
    assert!(
        ["monday", "tuesday", "wednesday"]
            .iter()
            .all(|day| week.contains(*day))
    );
    assert!(!week.contains("sunday"));
    assert!(unite::unite::<&Path>(&[]).is_err());
}

/// A program would forget what it had seen when it is started again, or begin anew over a damaged file.
#[test]
fn a_filter_is_kept_between_runs() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("seen.bloom");
    let mut seen = save::open(&path).unwrap();
    assert!(seen.insert("item").unwrap());
    seen.save(&path).unwrap();
    assert!(!save::open(&path).unwrap().insert("item").unwrap());
    std::fs::write(&path, b"something else").unwrap();
    let error = save::open(&path).unwrap_err().to_string();
    assert_eq!(error, "this is not a filter's file");
}
