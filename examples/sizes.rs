//! Prints what filters take, as tables: the sizes of docs/sizing.md, or, of one capacity, the bits per item of
//! README.md by error rate. `cargo run --release --example sizes [capacity]`. The figures are those that filters
//! are allocated by; a test keeps the documents in step with them.

use bloom::bloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Spec};
use bloom::bloom::plan::{Plan, Stage};

/// More layers than any of these filters has.
const MOST_LAYERS: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args().nth(1) {
        Some(capacity) => by_rate(capacity.parse()?),
        None => by_items(),
    };
    print!("{}", text.ok_or("there is no such filter")?);
    Ok(())
}

/// The filter with that first layer, once it holds `items`.
fn stage(rate: f64, capacity: u64, growth: Growth, items: u64) -> Option<(Plan, Stage)> {
    stage_of(Layout::Blocked { seed: Seed(0) }, rate, capacity, growth, items)
}

/// The same of a layout.
fn stage_of(layout: Layout, rate: f64, capacity: u64, growth: Growth, items: u64) -> Option<(Plan, Stage)> {
    let spec = Spec {
        error_rate: ErrorRate::new(rate).ok()?,
        capacity: Capacity::new(capacity).ok()?,
        growth,
        layout,
        window: None,
    };
    let plan = Plan::new(spec, items, MOST_LAYERS);
    let stage = plan.at(items)?;
    Some((plan, stage))
}

/// Bits per item of filters for `capacity` items.
fn by_rate(capacity: u64) -> Option<String> {
    let mut text = table(&[
        "error rate",
        "lines an item",
        "probes a line",
        "BF.RESERVE",
        "NONSCALING",
        "bytes, BF.RESERVE",
        "RedisBloom, BF.RESERVE",
        "RedisBloom, NONSCALING",
    ]);
    for rate in [1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8] {
        let growing = Growth::Reserved(Expansion::DEFAULT);
        let (plan, reserved) = stage(rate, capacity, growing, capacity)?;
        let (_, fixed) = stage(rate, capacity, Growth::Fixed, capacity)?;
        let (_, classic) = stage_of(Layout::Classic, rate, capacity, growing, capacity)?;
        let (_, classic_fixed) = stage_of(Layout::Classic, rate, capacity, Growth::Fixed, capacity)?;
        let first = plan.layers().first()?;
        text += &row(&[
            format!("{rate:e}"),
            first.lines()?.to_string(),
            first.probes().to_string(),
            format!("{:.2}", reserved.bits_per_item()),
            format!("{:.2}", fixed.bits_per_item()),
            reserved.bytes.to_string(),
            format!("{:.2}", classic.bits_per_item()),
            format!("{:.2}", classic_fixed.bits_per_item()),
        ]);
    }
    Some(text)
}

/// Sizes of filters that hold from a million to 100 billion items, by how they came to do so.
fn by_items() -> Option<String> {
    let reserved = Growth::Reserved(Expansion::DEFAULT);
    let growing = Growth::Growing(Expansion::DEFAULT);
    let default = Capacity::DEFAULT.items();
    let sections = [
        section("Reserved for these items", reserved, |items| items)?,
        section("The same, NONSCALING", Growth::Fixed, |items| items)?,
        section("Reserved for a thousandth of them", reserved, |items| {
            items / 1000
        })?,
        section("Grown from the default, 100", growing, |_| default)?,
    ];
    Some(sections.join("\n"))
}

/// Those of filters whose first layer has that `capacity` of the items.
fn section(title: &str, growth: Growth, capacity: impl Fn(u64) -> u64) -> Option<String> {
    const RATES: [f64; 5] = [1e-2, 1e-3, 1e-4, 1e-6, 1e-8];
    let rates = RATES.map(|rate| format!("{rate:e}"));
    let head: Vec<_> = std::iter::once("items")
        .chain(rates.iter().map(String::as_str))
        .collect();
    let mut text = format!("### {title}\n\n{}", table(&head));
    for zeros in 6..=11 {
        let items = 10u64.pow(zeros);
        let mut cells = vec![format!("10^{zeros}")];
        for rate in RATES {
            let (_, stage) = stage(rate, capacity(items), growth, items)?;
            cells.push(format!("{} ({:.1})", size(stage.bytes), stage.bits_per_item()));
        }
        text += &row(&cells);
    }
    Some(text)
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
