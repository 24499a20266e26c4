//! Prints what filters take, as a table: the sizes of docs/sizing.md, or, of one capacity, the bits per item of
//! README.md by error rate. `cargo run --release --example sizes [capacity]`. The figures are those that filters
//! are allocated by; a test keeps the documents in step with them.

use libbloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Window};
use libbloom::plan::{Plan, Stage};
use libbloom::spec::{BlockedSpec, Spec};

/// More layers than any of these filters has.
const MOST_LAYERS: usize = 128;
/// The error rates of the table.
const RATES: [f64; 3] = [1e-2, 1e-3, 1e-6];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args().nth(1) {
        Some(capacity) => by_rate(capacity.parse()?),
        None => by_items(),
    };
    print!("{}", text.ok_or("there is no such filter")?);
    Ok(())
}

/// The blocked filter with that first layer, once it holds `items`.
fn stage(rate: f64, capacity: u64, growth: Growth, items: u64) -> Option<Stage> {
    stage_of(Layout::Blocked, rate, capacity, growth, items)
}

/// The filter of this layout with that first layer, once it holds `items`.
fn stage_of(layout: Layout, rate: f64, capacity: u64, growth: Growth, items: u64) -> Option<Stage> {
    let spec = BlockedSpec {
        error_rate: ErrorRate::new(rate).ok()?,
        capacity: Capacity::new(capacity).ok()?,
        growth,
        seed: Seed(0),
        window: None,
    };
    of_spec(spec.in_layout(layout).ok()?, items)
}

fn of_spec(spec: Spec, items: u64) -> Option<Stage> {
    Plan::new(spec, items, MOST_LAYERS).at(items)
}

/// The filter with a window that is full of the `items` that it was made for.
fn full_window(rate: f64, items: u64, slices: u8) -> Option<Stage> {
    let spec = BlockedSpec {
        error_rate: ErrorRate::new(rate).ok()?,
        capacity: Capacity::new(items).ok()?,
        growth: Growth::Reserved(Expansion::DEFAULT),
        seed: Seed(0),
        // How long it is changes nothing.
        window: Some(Window::new(1, slices, false).ok()?),
    };
    of_spec(spec.into(), items)
}

/// Bits per item of filters for `capacity` items.
fn by_rate(capacity: u64) -> Option<String> {
    let mut text = table(&["error rate", "bytes", "libbloom", "RedisBloom 2.8.20"]);
    let growth = Growth::Reserved(Expansion::DEFAULT);
    for rate in RATES {
        let own = stage(rate, capacity, growth, capacity)?;
        let classic = stage_of(Layout::Classic, rate, capacity, growth, capacity)?;
        text += &row(&[
            format!("{rate:e}"),
            own.bytes.to_string(),
            format!("{:.2}", own.bits_per_item()),
            format!("{:.2}", classic.bits_per_item()),
        ]);
    }
    Some(text)
}

/// Sizes of filters and bits per item, by how the filters came to hold their items.
fn by_items() -> Option<String> {
    const MILLION: u64 = 1_000_000;
    const BILLION: u64 = 1000 * MILLION;
    let reserved = Growth::Reserved(Expansion::DEFAULT);
    let growing = Growth::Growing(Expansion::DEFAULT);
    let of = |capacity, growth, items| move |rate| stage(rate, capacity, growth, items);
    let default = Capacity::DEFAULT.items();
    let rates: Vec<_> = RATES.iter().map(|rate| format!("{rate:e}")).collect();
    let head: Vec<_> = std::iter::once("items")
        .chain(rates.iter().map(String::as_str))
        .collect();
    let rows = [
        by_rates("1 billion", of(BILLION, reserved, BILLION))?,
        by_rates("10 billion", of(10 * BILLION, reserved, 10 * BILLION))?,
        by_rates("1 billion, `NONSCALING`", of(BILLION, Growth::Fixed, BILLION))?,
        by_rates("50 million in a `WINDOW`, such as events a day", |rate| {
            full_window(rate, 50 * MILLION, Window::USUAL_SLICES)
        })?,
        by_rates("1 billion in a `WINDOW`", |rate| {
            full_window(rate, BILLION, Window::USUAL_SLICES)
        })?,
        by_rates(
            "1 billion, reserved for 1 million",
            of(MILLION, reserved, BILLION),
        )?,
        by_rates("1 million, not reserved", of(default, growing, MILLION))?,
        by_rates("10 billion, not reserved", of(default, growing, 10 * BILLION))?,
    ];
    Some(table(&head) + &rows.concat())
}

/// A row with the sizes of a filter by error rate.
fn by_rates(title: &str, stage: impl Fn(f64) -> Option<Stage>) -> Option<String> {
    let mut cells = vec![title.to_owned()];
    for rate in RATES {
        let stage = stage(rate)?;
        cells.push(format!("{} ({:.1})", size(stage.bytes), stage.bits_per_item()));
    }
    Some(row(&cells))
}

/// The head of a table.
fn table(names: &[&str]) -> String {
    let cells: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    row(&cells) + &"|---".repeat(names.len()) + "|\n"
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Bytes with three digits or more, in units of thousands.
fn size(bytes: u64) -> String {
    let (mut size, mut units) = (bytes as f64, ["B", "kB", "MB", "GB", "TB"].into_iter());
    let mut unit = units.next();
    while size >= 1000.0 {
        size /= 1000.0;
        unit = units.next();
    }
    let decimals = if size < 10.0 { 2 } else { usize::from(size < 100.0) };
    format!("{size:.decimals$} {}", unit.unwrap_or("PB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who plans by the documents would buy too little memory, or too much.
    #[test]
    fn the_documents_have_these_figures() {
        let sizing = include_str!("../docs/sizing.md");
        assert!(sizing.ends_with(&by_items().unwrap()));
        let readme = include_str!("../README.md");
        assert!(readme.contains(&by_rate(1_000_000).unwrap()));
    }
}
