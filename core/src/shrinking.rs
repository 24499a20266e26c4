//! Shrinking filters that were made too large, or whose newest layer is far from full: layers are folded.
//!
//! A layer that is folded by `d` is, bit for bit, the layer with the same items that was made with a `d`th of the
//! lines, or of the bits. How it is folded is up to the layout ([`folding`](crate::folding)). Each layer keeps the rate
//! that it was made for, and so does the filter.

use std::fmt;

use crate::chain::batch::Layer as _;
use crate::chain::demand::{Demand, ask, besides, push, reserved};
use crate::chain::{Allowance, Chain, NewLayer as _, UNLIMITED, sum};
use crate::error::Error;
use crate::exceptions::bytes;
use crate::filter::Filter;
use crate::folding::Foldable;
use crate::layers::Layers;
use crate::merging::Mergeable as _;
use crate::params::Capacity;

/// The newest layer keeps room for this many items: those that a filter is made for by default.
const LEAST_ROOM: u64 = Capacity::DEFAULT.items();

/// Why a filter cannot be shrunk. Nothing changed.
///
/// ```
/// # use libbloom::{Filter, ShrinkError, StoredLayout};
/// let mut filter = Filter::builder(1000, 0.01).layout(StoredLayout::Valkey).build()?;
/// assert_eq!(filter.shrink_to_fit(), Err(ShrinkError::Layout));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShrinkError {
    /// The filter has a window, whose layers shrink by expiring.
    Window,
    /// The filter has valkey-bloom's layout, where the number of bits follows from the capacity.
    Layout,
    /// There is no memory for the smaller layers, which are made before the larger ones are freed.
    Memory(Error),
}

impl fmt::Display for ShrinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window => f.write_str("filters with a window are never shrunk: their layers expire"),
            Self::Layout => f.write_str("filters of valkey-bloom's layout are never shrunk"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ShrinkError {}

impl From<Error> for ShrinkError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

impl Filter {
    /// Folds each layer to the smallest that keeps its items within its rate. Returns the bytes that were given back, 0
    /// if no layer could be folded.
    ///
    /// A layer is divided only by factors of its number of lines (in RedisBloom's layout, of bytes): one that is more
    /// than half full stays as it is, one that is more than a third full is halved. An emptier layer, down to an
    /// eightieth, ends up at most a third larger than it must be if it has 15 MB or more; smaller layers have fewer
    /// factors. The newest layer keeps room for 100 items, and a filter that may grow grows from that size.
    ///
    /// It takes a pass over the bits, and memory for the smaller layers beside the larger ones.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1_000_000, 0.01).build()?;
    /// filter.insert("ann")?;
    /// let before = filter.bytes();
    /// assert_eq!(filter.shrink_to_fit()?, before - filter.bytes());
    /// assert!(filter.bytes() < before / 2 && filter.contains("ann"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShrinkError`]; nothing changed.
    pub fn shrink_to_fit(&mut self) -> Result<u64, ShrinkError> {
        self.shrink(0, UNLIMITED)
    }

    /// [`Filter::shrink_to_fit`], with room for `capacity` items in total.
    ///
    /// ```
    /// # use libbloom::Filter;
    /// let mut filter = Filter::builder(1_000_000, 0.01).fixed().build()?;
    /// filter.shrink_to(100_000)?;
    /// assert!((100_000..1_000_000).contains(&filter.totals().capacity));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShrinkError`]; nothing changed.
    pub fn shrink_to(&mut self, capacity: u64) -> Result<u64, ShrinkError> {
        self.shrink(capacity, UNLIMITED)
    }

    /// [`Filter::shrink_to`], if `allowance` permits the memory of the smaller layers.
    ///
    /// # Errors
    /// [`ShrinkError`]; nothing changed.
    #[cfg_attr(docsrs, doc(hidden))]
    pub fn shrink(&mut self, capacity: u64, allowance: Allowance<'_>) -> Result<u64, ShrinkError> {
        let exceptions = self.excepted().map_or(0, |table| bytes(table.len()));
        let allowance = &besides(exceptions, allowance);
        match &mut self.layers {
            Layers::Blocked(chain) => shrink(chain, capacity, allowance),
            Layers::Classic(chain) => shrink(chain, capacity, allowance),
            Layers::Windowed(_) => Err(ShrinkError::Window),
            Layers::Valkey(_) => Err(ShrinkError::Layout),
        }
    }
}

/// [`Filter::shrink`] for layers that can be folded.
fn shrink<R: Foldable>(
    chain: &mut Chain<R>,
    items: u64,
    allowance: Allowance<'_>,
) -> Result<u64, ShrinkError> {
    let (layers, rules) = (chain.layers(), chain.rules());
    let mut smaller: Vec<(usize, R::Shape)> = Vec::new();
    let mut missing = items;
    for (index, layer) in layers.iter().enumerate() {
        // The items that a layer counts may be fewer than those whose bits it has, if it was merged or loaded.
        let mut holds = layer.items().max(layer.items_behind(layer.ones()));
        if index + 1 == layers.len() {
            holds = holds.max(missing).max(LEAST_ROOM);
        }
        missing = missing.saturating_sub(layer.items());
        let holds = holds.clamp(1, layer.capacity());
        if let Some(shape) = rules.folded(R::shape_of(layer), holds) {
            push(&mut smaller, (index, shape))?;
        }
    }
    if smaller.is_empty() {
        return Ok(0);
    }
    let freed = sum(smaller.iter().map(|&(index, _)| layers[index].bytes()));
    let new = sum(smaller.iter().map(|(_, shape)| shape.bytes()));
    let before = R::bytes(layers.len(), chain.array_bytes(layers.len()));
    let total = before.saturating_sub(freed).saturating_add(new);
    let grows_to = None;
    ask(Demand { new, total, grows_to }, allowance).map_err(Error::from)?;
    let mut folded: Vec<(usize, R::Layer)> = reserved(smaller.len())?;
    for &(index, shape) in &smaller {
        let layer = &layers[index];
        let mut copy = R::fold(layer, shape)?;
        // Each item that a layer counts has set a bit.
        copy.set_items(layer.items().min(copy.ones()));
        folded.push((index, copy));
    }

    // From here on nothing fails, and nothing is allocated.
    for (index, layer) in folded {
        chain.layers_mut()[index] = layer;
    }
    R::Layer::start_all_at(chain.layers_mut(), 0);
    Ok(before.saturating_sub(total))
}
