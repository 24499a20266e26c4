//! Filters of valkey-bloom's layout: their figures and stored bytes.

use super::{Layer, Shape, Valkey, format};
use crate::chain::Chain;
use crate::error::Error;
use crate::layout::{LayoutRules, compound};
use crate::params::StoredLayout;
use crate::power::power;
use crate::stored::stream::Sink;

impl LayoutRules for Valkey {
    const NAME: StoredLayout = StoredLayout::Valkey;

    fn rate_of(chain: &Chain<Self>) -> f64 {
        chain.rules().error_rate()
    }

    fn expansion_of(chain: &Chain<Self>) -> Option<u32> {
        chain.rules().growth_factor()
    }

    fn present_rate<'a>(layers: impl Iterator<Item = &'a Layer>) -> f64 {
        compound(layers.map(|layer| {
            let shape = layer.shape();
            let fill = layer.ones() as f64 / shape.bits() as f64;
            power(fill.min(1.0), shape.probes.into())
        }))
    }

    fn ones(layer: &Layer) -> u64 {
        layer.ones()
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
