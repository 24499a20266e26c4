//! What goes into a filter of any layout: an item's bytes, and its hash.

use super::params::Seed;

/// The 128-bit hash of an item, as two halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHash {
    /// The low 64 bits.
    pub low: u64,
    /// The high 64 bits.
    pub high: u64,
}

/// An item's bytes, and its hash if that was computed ahead.
///
/// ```
/// # use libbloom::Filter;
/// let mut filter = Filter::builder(1000, 0.01).build()?;
/// filter.insert("ann")?; // a str, bytes, or a Vec: whatever is AsRef<[u8]>
/// assert!(filter.contains(&vec![b'a', b'n', b'n']));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    bytes: &'a [u8],
    /// The hash that was computed ahead, and its seed.
    pub(crate) known: Option<(Seed, ItemHash)>,
}

#[cfg_attr(docsrs, doc(hidden))]
impl<'a> Item<'a> {
    /// An item with its hash under a seed, if that is known.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], known: Option<(Seed, ItemHash)>) -> Self {
        Self { bytes, known }
    }

    /// The item's bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Item<'a> {
    #[inline(always)]
    fn from(bytes: &'a T) -> Self {
        Self::new(bytes.as_ref(), None)
    }
}
