//! What can be wrong with a filter, for tests and fuzzing.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use crate::bits::array::BitArray;
use crate::chain::batch;

/// A broken invariant. `layer` counts from the oldest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Invalid {
    /// There is no layer.
    NoLayer,
    /// A filter that may not grow has more than one layer.
    GrownFixed,
    /// The geometry has values out of range, or the bit array has another size.
    Geometry {
        /// Index of the layer.
        layer: usize,
    },
    /// The layer counts more items than it is made for.
    Items {
        /// Index of the layer.
        layer: usize,
    },
    /// The layer has room left although there is a newer one.
    NotFull {
        /// Index of the layer.
        layer: usize,
    },
    /// The table of exceptions is empty or too large, miscounts them, or does not find what it stores.
    Exceptions,
    /// In a window, the times of this slice are out of order, or later than those of the next.
    Times {
        /// Index of the slice.
        slice: usize,
    },
    /// The capacity is not that of the layer before it times the expansion.
    Capacity {
        /// Index of the layer.
        layer: usize,
    },
    /// The layer's count of set bits is wrong.
    BitsSet {
        /// Index of the layer.
        layer: usize,
        /// Set bits by the layer's own count.
        counted: u64,
        /// Set bits, recounted.
        recounted: u64,
    },
    /// The number of set bits is impossible for the number of items: each item sets at least one bit, and
    /// each probe at most one. This is reported only if nothing else is wrong. A filter whose chunks are
    /// still being loaded has fewer bits, and one loaded from foreign bytes may have any number.
    Fill {
        /// Index of the layer.
        layer: usize,
    },
    /// The layers' rates add up to more than the filter's.
    Budget {
        /// Sum of the layers' rates.
        sum: f64,
    },
}

/// Checks the counts of a layer in any layout: its items and its set bits.
pub(crate) fn check_counts<U>(
    index: usize,
    layer: &impl batch::Layer,
    bits: &BitArray<U>,
) -> Result<(), Invalid>
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
