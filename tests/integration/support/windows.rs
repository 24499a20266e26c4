//! Filters with a window, as BF.DEBUG shows them.

use crate::client::{Client, Reply};

/// Milliseconds of the window of most filters here: 1000 seconds in 10 slices.
pub const WINDOW: i64 = 1_000_000;

/// Milliseconds of one of its slices.
pub const SLICE: i64 = 100_000;

/// The line of BF.DEBUG for a layer of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub items: i64,
    pub opens: i64,
    pub closes: i64,
    pub begins: bool,
}

/// The layers that exist, oldest first, including expired ones.
pub fn slices(client: &mut Client, key: &str) -> Vec<Slice> {
    let lines = client.call(&["BF.DEBUG", key]);
    let lines = lines.elements()[1..].iter().map(Reply::text);
    lines
        .map(|line| {
            let value = |name: &str| {
                let found = line.split(' ').find_map(|word| word.strip_prefix(name));
                found.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
            };
            let number = |name: &str| value(name).parse::<i64>().unwrap();
            Slice {
                items: number("size:"),
                opens: number("opens:"),
                closes: number("closes:"),
                begins: number("begins:") == 1,
            }
        })
        .collect()
}
