//! Prints how many bits an item takes, by error rate and by how a filter is made:
//! `cargo run --release --example sizes [capacity]`.

use bloom::bloom::params::{Expansion, Growth};
use bloom::bloom::sizing::Geometry;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capacity: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let reserved = Growth::Reserved(Expansion::DEFAULT);
    println!("| error rate | lines an item | probes a line | BF.RESERVE | NONSCALING | bytes, BF.RESERVE |");
    println!("|---|---|---|---|---|---|");
    for rate in [0.1, 0.01, 1e-3, 1e-4, 1e-6, 1e-8] {
        let [reserved, fixed] =
            [reserved, Growth::Fixed].map(|growth| Geometry::for_layer(capacity, rate * growth.share(0)));
        let bits = |geometry: Geometry| geometry.bytes() as f64 * 8.0 / capacity as f64;
        println!(
            "| {rate:e} | {} | {} | {:.2} | {:.2} | {} |",
            reserved.lines_per_item,
            reserved.probes,
            bits(reserved),
            bits(fixed),
            reserved.bytes()
        );
    }
    Ok(())
}
