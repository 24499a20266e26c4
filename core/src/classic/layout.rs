//! Filters of RedisBloom's layout: their figures and stored bytes.

use super::{Classic, Layer, Shape, format};
use crate::chain::Chain;
use crate::error::Error;
use crate::layout::{LayoutRules, compound};
use crate::params::StoredLayout;
use crate::power::power;
use crate::stored::stream::Sink;

impl LayoutRules for Classic {
    const NAME: StoredLayout = StoredLayout::Classic;

    /// The rate that the filter was made for. Double hashing keeps it only approximately.
    fn rate_of(chain: &Chain<Self>) -> f64 {
        let first = chain.layers().first();
        let first = first.map_or(0.0, |layer| layer.shape().error_rate);
        (first / chain.rules().first_share()).min(1.0)
    }

    fn expansion_of(chain: &Chain<Self>) -> Option<u32> {
        chain.rules().growth_factor()
    }

    fn present_rate<'a>(layers: impl Iterator<Item = &'a Layer>) -> f64 {
        compound(layers.map(|layer| {
            let shape = layer.shape();
            let fill = layer.bits().ones() as f64 / shape.modulus() as f64;
            power(fill.min(1.0), shape.probes.into())
        }))
    }

    fn ones(layer: &Layer) -> u64 {
        layer.bits().ones()
    }

    fn header(chain: &Chain<Self>) -> Result<Vec<u8>, Error> {
        format::header(chain)
    }

    fn save(chain: &Chain<Self>, sink: &mut dyn Sink) {
        format::save(chain, sink);
    }

    fn start_again(chain: &Chain<Self>) -> (Self, Shape) {
        (*chain.rules(), chain.layers()[0].shape())
    }
}
