//! Filters of valkey-bloom's layout: their figures and stored bytes.

use super::{Layer, Shape, Valkey, format};
use crate::chain::Chain;
use crate::chain::batch::Layer as _;
use crate::error::Error;
use crate::layout::{LayoutRules, compound};
use crate::params::StoredLayout;
use crate::power::power;
use crate::stored::invalid::{Invalid, check_counts};
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

    fn validate(chain: &Chain<Self>) -> Result<(), Invalid> {
        let (layers, rules) = (chain.layers(), chain.rules());
        if rules.expansion() == 0 && layers.len() > 1 {
            return Err(Invalid::GrownFixed);
        }
        let mut expected = Some(layers[0].capacity());
        for (index, layer) in layers.iter().enumerate() {
            let shape = layer.shape();
            if expected != Some(shape.capacity) {
                return Err(Invalid::Capacity { layer: index });
            }
            if shape.check().is_err()
                || shape.seed != rules.seed()
                || Some(shape.error_rate) != rules.rate(index)
            {
                return Err(Invalid::Geometry { layer: index });
            }
            if index + 1 < layers.len() && layer.items() < layer.capacity() {
                return Err(Invalid::NotFull { layer: index });
            }
            check_counts(index, layer, layer.memory())?;
            expected = rules.layer(index + 1, shape.capacity).map(|next| next.capacity);
        }
        Ok(())
    }
}
