//! `BF.DEBUG key`

use std::ffi::CStr;

use crate::call::args::exactly;
use crate::call::docs::{Docs, KEY, O_OF_LAYERS};
use crate::call::{Call, Command, CommandError, Reply};
use crate::keyspace;
use libbloom::Filter;
use libbloom::filter::LayerStats;
use libbloom::layouts::blocked::window::Slice;

pub struct Debug;

impl Command for Debug {
    const NAME: &'static CStr = c"bf.debug";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Returns a line of figures for a Bloom Filter, and one for each of its layers",
        complexity: O_OF_LAYERS,
        since: c"1.0.0",
        parameters: &[&[KEY]],
    };
    const CACHEABLE: bool = false;

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let [key] = exactly(arguments)?;
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
        let reply = Reply(ctx);
        reply.array(1 + filter.layers());
        // For a window this includes layers that have expired, while they still exist.
        let account = filter.account();
        let exceptions = match account.exceptions {
            0 => String::new(),
            exceptions => format!(" exceptions:{exceptions}"),
        };
        reply.bulk(format!("size:{}{exceptions}", account.items).as_bytes());
        let mut slices = slices_of_layers(filter);
        for layer in filter.layer_stats() {
            let times = slices.next().map_or_else(String::new, times);
            reply.bulk((line(&layer) + &times).as_bytes());
        }
        Ok(())
    }
}

/// The line of a layer.
pub(crate) fn line(layer: &LayerStats) -> String {
    let (bytes, bits, set) = (layer.shape.bytes, layer.shape.bits, layer.bits_set);
    let (capacity, size, ratio) = (layer.shape.capacity, layer.items, short(layer.shape.error_rate));
    let probes = layer.shape.probes;
    match (layer.shape.hash_width, layer.shape.lines_per_item) {
        (Some(hash_width), _) => format!(
            "bytes:{bytes} bits:{bits} hashes:{probes} hashwidth:{hash_width} capacity:{capacity} \
             size:{size} ratio:{ratio}"
        ),
        (None, Some(lines)) => format!(
            "layout:blocked bytes:{bytes} bits:{bits} set:{set} lines:{lines} probes:{probes} \
             capacity:{capacity} size:{size} ratio:{ratio}"
        ),
        (None, None) => format!(
            "layout:valkey bytes:{bytes} bits:{bits} set:{set} probes:{probes} capacity:{capacity} size:{size} \
             ratio:{ratio}"
        ),
    }
}

/// For each layer of a window, oldest first, its slice, and whether the layer is the first of it.
pub(super) fn slices_of_layers(filter: &Filter) -> impl Iterator<Item = (&Slice, bool)> {
    let slices = filter.slices().iter();
    slices.flat_map(|slice| (0..slice.layers().len()).map(move |layer| (slice, layer == 0)))
}

/// The times of a layer's slice, which its line has in addition.
fn times((slice, is_first): (&Slice, bool)) -> String {
    let (opens, closes, begins) = (slice.opens, slice.closes, u8::from(is_first));
    format!(" opens:{opens} closes:{closes} begins:{begins}")
}

/// A number between 0 and 1 as C's `%g` writes it: six significant digits, without trailing zeros.
fn short(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        let text = format!("{value:.decimals$}");
        if text.contains('.') { trimmed(&text) } else { text }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts that parse RedisBloom's lines would fail on this module's.
    #[test]
    fn ratios_are_written_as_c_does() {
        let written = [
            (0.005, "0.005"),
            (5e-8, "5e-08"),
            (0.02, "0.02"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.00078125, "0.00078125"),
            (0.0000390625, "3.90625e-05"),
            (0.000123456789, "0.000123457"),
            (0.25, "0.25"),
            (0.0, "0"),
            (1.0, "1"),
            (1e-100, "1e-100"),
            (0.9999999, "1"),
        ];
        for (value, text) in written {
            assert_eq!(short(value), text, "{value:e}");
        }
    }
}
