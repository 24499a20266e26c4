//! Folding layers of RedisBloom's layout.
//!
//! A probe is a number modulo the number of bits, and `(x mod d · m) mod m = x mod m`. So the OR of the `d` parts of a
//! layer of `d · m` bits is a layer of `m` bits with the same items. RedisBloom takes it if its bits are whole bytes
//! and are as many as its capacity needs, up to rounding.

use super::{Classic, Layer, Shape};
use crate::chain::NewLayer as _;
use crate::chain::batch::Layer as _;
use crate::error::Error;
use crate::folding::{Foldable, factors, part};

impl Foldable for Classic {
    fn folded(&self, shape: Shape, items: u64) -> Option<Shape> {
        let bits = shape.modulus();
        if bits != shape.bytes.checked_mul(8)? {
            return None;
        }
        let fewest = part(shape.bytes, items, shape.capacity);
        factors(shape.bytes, fewest).find_map(|by| {
            let bits = bits / by;
            let folded = Shape {
                capacity: (bits as f64 / shape.bits_per_item) as u64,
                bits,
                bytes: bits / 8,
                n2: if shape.n2 > 0 { bits.ilog2() as u8 } else { 0 },
                ..shape
            };
            let fits = folded.capacity >= items && folded.check(self.options()).is_ok();
            fits.then_some(folded)
        })
    }

    fn fold(layer: &Layer, shape: Shape) -> Result<Layer, Error> {
        let mut folded = shape.make()?;
        folded.bits_mut().fold_parts(layer.array(), shape.bytes as usize);
        Ok(folded)
    }
}
