//! The invariants of a filter, checked from scratch: for tests and fuzzing.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use crate::bloom::Filter;
use crate::bloom::bits::array::BitArray;
use crate::bloom::blocked::sizing::{MAX_LINES_PER_ITEM, PROBES};
use crate::bloom::blocked::{Blocked, Layer};
use crate::bloom::chain::Chain;
use crate::bloom::chain::batch::{self, Layer as _};
use crate::bloom::chain::window::Ring;
use crate::bloom::classic::Classic;
use crate::bloom::exceptions::table::hash_of;
use crate::bloom::exceptions::{Excepting, MOST_EXCEPTIONS};
use crate::bloom::filter::Body;
use crate::bloom::params::Growth;
use crate::bloom::valkey::Valkey;

/// How far, relatively, rounding may take the sum of the layers' rates above the promise.
const ROUNDING: f64 = 1e-9;

/// An invariant that a filter breaks; `layer` counts from the oldest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Invalid {
    /// There is no layer.
    NoLayer,
    /// A filter that may not grow has more than one layer.
    GrownFixed,
    /// The geometry is none that an item can be put into, or the bit array has another size.
    Geometry {
        /// Which layer.
        layer: usize,
    },
    /// The layer counts more items than it is made for.
    Items {
        /// Which layer.
        layer: usize,
    },
    /// A newer layer exists, although this one had room.
    NotFull {
        /// Which layer.
        layer: usize,
    },
    /// The exceptions are none, too many, miscounted, or not found where they are.
    Exceptions,
    /// The slices of a window are others than its layers.
    Slices,
    /// The times of a window go back after this layer, or its slice goes on when the next one has begun.
    Times {
        /// Which layer.
        layer: usize,
    },
    /// The capacity is not that of the layer before it times the expansion.
    Capacity {
        /// Which layer.
        layer: usize,
    },
    /// The set bits were miscounted.
    BitsSet {
        /// Which layer.
        layer: usize,
        /// The layer's own count.
        counted: u64,
        /// The bits that are set.
        recounted: u64,
    },
    /// So many items cannot set that number of bits: each sets one or more, and each of its probes one. All
    /// else is in order: a filter whose chunks are still to be loaded has fewer, and one that was loaded
    /// from foreign bytes may have any number.
    Fill {
        /// Which layer.
        layer: usize,
    },
    /// The layers' rates add up to more than the filter's.
    Budget {
        /// Their sum.
        sum: f64,
    },
}

impl Filter {
    /// Checks every invariant, reading all bits.
    ///
    /// # Errors
    /// The first [`Invalid`] found.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let Body::Blocked(chain) = self.body() {
            grown(chain)?;
        }
        self.validate_composed()
    }

    /// The same of a filter whose layers may have come together from others: they need not follow from one another.
    ///
    /// # Errors
    /// The first [`Invalid`] found.
    pub fn validate_composed(&self) -> Result<(), Invalid> {
        if let Self::Excepting(filter) = self {
            excepting(filter)?;
        }
        match self.body() {
            Body::Blocked(chain) => blocked(chain),
            Body::Classic(chain) => classic(chain),
            Body::Valkey(chain) => valkey(chain),
            Body::Windowed(ring) => windowed(ring),
        }
    }
}

fn excepting(filter: &Excepting) -> Result<(), Invalid> {
    let exceptions = filter.exceptions();
    let (mut count, mut last, mut sound) = (0, [0, 0], true);
    exceptions.each_ascending(|slots| {
        for &slot in slots {
            sound &= slot > last && exceptions.has(hash_of(slot));
            (count, last) = (count + 1, slot);
        }
    });
    if sound && (1..=MOST_EXCEPTIONS).contains(&count) && count == exceptions.len() {
        Ok(())
    } else {
        Err(Invalid::Exceptions)
    }
}

fn blocked(chain: &Chain<Blocked>) -> Result<(), Invalid> {
    let layers = chain.layers();
    if layers.is_empty() {
        return Err(Invalid::NoLayer);
    }
    for (index, layer) in layers.iter().enumerate() {
        alone(index, layer)?;
    }
    within_budget(layers, chain.rules())?;
    filled(layers)
}

/// Whether the layers follow from one another.
fn grown(chain: &Chain<Blocked>) -> Result<(), Invalid> {
    let (layers, growth) = (chain.layers(), chain.rules().growth());
    if growth == Growth::Fixed && layers.len() > 1 {
        return Err(Invalid::GrownFixed);
    }
    if let Some(expansion) = growth.expansion() {
        for (index, pair) in layers.windows(2).enumerate() {
            if pair[0].items() < pair[0].capacity() {
                return Err(Invalid::NotFull { layer: index });
            }
            if pair[1].capacity() != pair[0].capacity().saturating_mul(u64::from(expansion.factor())) {
                return Err(Invalid::Capacity { layer: index + 1 });
            }
        }
    }
    Ok(())
}

fn windowed(ring: &Ring<Blocked>) -> Result<(), Invalid> {
    let (layers, spans) = (ring.layers(), ring.slices().spans());
    if layers.len() != spans.len() || spans.first().is_some_and(|span| !span.begins) {
        return Err(Invalid::Slices);
    }
    for (index, layer) in layers.iter().enumerate() {
        alone(index, layer)?;
    }
    for (index, pair) in spans.windows(2).enumerate() {
        let layer = index;
        if !pair[0].is_followed_by(&pair[1]) {
            return Err(Invalid::Times { layer });
        }
        if !pair[1].begins && layers[index].items() < layers[index].capacity() {
            return Err(Invalid::NotFull { layer });
        }
    }
    within_budget(layers, ring.rules())?;
    filled(layers)
}

fn within_budget(layers: &[Layer], rules: &Blocked) -> Result<(), Invalid> {
    let sum: f64 = layers.iter().map(|layer| layer.shape().rate).sum();
    if (0.0..=rules.error_rate().value() * (1.0 + ROUNDING)).contains(&sum) {
        Ok(())
    } else {
        Err(Invalid::Budget { sum })
    }
}

fn filled(layers: &[Layer]) -> Result<(), Invalid> {
    let wrong = layers.iter().position(|layer| !is_filled_by_its_items(layer));
    wrong.map_or(Ok(()), |layer| Err(Invalid::Fill { layer }))
}

fn classic(chain: &Chain<Classic>) -> Result<(), Invalid> {
    let layers = chain.layers();
    if layers.is_empty() {
        return Err(Invalid::NoLayer);
    }
    if !chain.rules().scales() && layers.len() > 1 {
        return Err(Invalid::GrownFixed);
    }
    for (index, layer) in layers.iter().enumerate() {
        let shape = layer.shape();
        if shape.check(chain.rules().options()).is_err() || layer.array().len() as u64 != shape.bytes {
            return Err(Invalid::Geometry { layer: index });
        }
        counts(index, layer, layer.bits())?;
    }
    Ok(())
}

fn valkey(chain: &Chain<Valkey>) -> Result<(), Invalid> {
    let (layers, rules) = (chain.layers(), chain.rules());
    let Some(first) = layers.first() else {
        return Err(Invalid::NoLayer);
    };
    if rules.expansion() == 0 && layers.len() > 1 {
        return Err(Invalid::GrownFixed);
    }
    let mut expected = Some(rules.first(first.capacity()));
    for (index, layer) in layers.iter().enumerate() {
        let shape = layer.shape();
        if expected.map(|expected| expected.capacity) != Some(shape.capacity) {
            return Err(Invalid::Capacity { layer: index });
        }
        if shape.check().is_err() || shape.seed != rules.seed() || Some(shape.error_rate) != rules.rate(index)
        {
            return Err(Invalid::Geometry { layer: index });
        }
        if index + 1 < layers.len() && layer.items() < layer.capacity() {
            return Err(Invalid::NotFull { layer: index });
        }
        counts(index, layer, layer.memory())?;
        expected = rules.layer(index + 1, shape.capacity);
    }
    Ok(())
}

/// What holds for a layer whatever the others are.
fn alone(index: usize, layer: &Layer) -> Result<(), Invalid> {
    let (bits, geometry) = (layer.bits(), layer.shape().geometry);
    if !(1..=MAX_LINES_PER_ITEM).contains(&geometry.lines_per_item)
        || !PROBES.contains(&geometry.probes)
        || geometry.lines == 0
        || bits.bytes().len() as u64 != geometry.bytes()
    {
        return Err(Invalid::Geometry { layer: index });
    }
    counts(index, layer, bits)
}

/// What a layer of any layout counts: its items, and its set bits.
fn counts<U>(index: usize, layer: &impl batch::Layer, bits: &BitArray<U>) -> Result<(), Invalid>
where
    U: Zeroable + NoUninit + AnyBitPattern,
{
    if layer.capacity() == 0 || layer.items() > layer.capacity() {
        return Err(Invalid::Items { layer: index });
    }
    let (counted, recounted) = (bits.ones(), bits.bits().count_ones() as u64);
    if counted != recounted {
        return Err(Invalid::BitsSet {
            layer: index,
            counted,
            recounted,
        });
    }
    Ok(())
}

fn is_filled_by_its_items(layer: &Layer) -> bool {
    let (geometry, items) = (layer.shape().geometry, layer.items());
    let probes = u64::from(geometry.probes) * u64::from(geometry.lines_per_item);
    (items..=items.saturating_mul(probes)).contains(&layer.bits().ones())
}

#[cfg(test)]
mod tests;
