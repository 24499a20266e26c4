//! Layers of several filters in one, and what several filters have in common.
//!
//! Layers of one shape are united bit by bit where the items of the union stay within the capacity of one of them: for
//! certain, if together they count no more; else by what its set bits tell. Others stay layers of their own. First it
//! is decided what becomes of each layer, then memory is asked for and taken, and only then anything changes.

use std::collections::HashMap;

use super::part::{Budget, Part};
use super::{Mismatch, SetError};
use crate::bloom::bits::combine::union_ones;
use crate::bloom::chain::batch::Layer as _;
use crate::bloom::chain::demand::{Frame, Refused, ask};
use crate::bloom::chain::{Allowance, Chain, MOST_ITEMS};
use crate::bloom::error::Error;
use crate::bloom::params::ErrorRate;

/// The layers of a shape, of those that the union has already, that another one is tried with: where thousands of small
/// layers are full, all of them need not be compared with each other.
const MOST_TRIES: usize = 32;

/// A layer: of which filter, and which of its layers.
type Id = (usize, usize);

/// A layer of the union: the parts that it is united from. One at least.
struct Slot(Vec<Id>);

/// What layers count, and their set bits.
#[derive(Clone, Debug, Default)]
struct Counts(Vec<(u64, u64)>);

impl Counts {
    fn of<'a, L: Part + 'a>(layers: impl Iterator<Item = &'a L>) -> Self {
        Self(layers.map(|layer| (layer.items(), layer.ones())).collect())
    }

    /// Items that they count together.
    fn sum(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, (items, _)| sum.saturating_add(*items))
    }

    /// The most set bits that one of them has.
    fn most_ones(&self) -> u64 {
        self.0.iter().map(|(_, ones)| *ones).max().unwrap_or(0)
    }

    /// The items that the union of them counts, as `layer`, which has its bits. One of them that has all the bits has
    /// met all the items; else it is known from the bits alone.
    fn of_union(&self, layer: &impl Part) -> u64 {
        let ones = layer.ones();
        let has_all = self.0.iter().filter(|(_, of_part)| *of_part == ones);
        if let Some((items, _)) = has_all.max() {
            return *items;
        }
        let least = self.0.iter().map(|(items, _)| *items).max().unwrap_or(0);
        within(
            layer.items_behind(ones),
            least.max(ones.div_ceil(layer.bits_of_item())),
            self.sum().min(layer.capacity()).min(ones),
        )
    }

    /// The items that `layer` counts, which has the bits that all of them have.
    fn of_common(&self, layer: &impl Part) -> u64 {
        let ones = layer.ones();
        let has_no_more = self.0.iter().filter(|(_, of_part)| *of_part == ones);
        if let Some((items, _)) = has_no_more.min() {
            return *items;
        }
        let most = self.0.iter().map(|(items, _)| *items).min().unwrap_or(0);
        within(
            layer.items_behind(ones),
            ones.div_ceil(layer.bits_of_item()),
            most.min(ones),
        )
    }
}

/// `value` between two bounds; the upper one wins.
fn within(value: u64, lowest: u64, highest: u64) -> u64 {
    value.max(lowest).min(highest)
}

/// A new filter of all layers of `chains`, which are not empty.
pub(super) fn make<R: Budget>(
    chains: &[&Chain<R>],
    rate: Option<ErrorRate>,
    allowance: Allowance<'_>,
) -> Result<Chain<R>, SetError> {
    let filters: Vec<_> = chains.iter().map(|chain| chain.layers()).collect();
    let rules = chains[0].rules().alike(rate);
    let slots = plan(&filters);
    check(&rules, &filters, &slots)?;
    let arrays = slots.iter().map(|slot| slot.first(&filters).bytes());
    ask::<R::Layer>(Frame::CHAIN, arrays, 0, 0, allowance).map_err(over_limit)?;
    let mut layers = Vec::new();
    reserve(&mut layers, slots.len())?;
    for slot in &slots {
        layers.push(slot.make(&filters)?);
    }
    R::order(&mut layers);
    Ok(Chain::of_layers(rules, layers))
}

/// Takes the layers of `others` into `chain`; whether that changed anything.
pub(super) fn absorb<R: Budget>(
    chain: &mut Chain<R>,
    others: &[&Chain<R>],
    rate: Option<ErrorRate>,
    allowance: Allowance<'_>,
) -> Result<bool, SetError> {
    let rules = chain.rules().alike(rate);
    let held = chain.layers().len();
    let mut filters = vec![chain.layers()];
    filters.extend(others.iter().map(|chain| chain.layers()));
    let slots = plan(&filters);
    check(&rules, &filters, &slots)?;
    let (kept, new): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| slot.is_held());
    let arrays_held = filters[0].iter().map(|layer| layer.bytes());
    let arrays_new = new.iter().map(|slot| slot.first(&filters).bytes());
    let arrays = arrays_held.chain(arrays_new);
    ask::<R::Layer>(Frame::CHAIN, arrays, held, chain.room(), allowance).map_err(over_limit)?;
    let mut made = Vec::new();
    reserve(&mut made, new.len())?;
    for slot in &new {
        made.push(slot.make(&filters)?);
    }
    chain.reserve(made.len())?;

    // From here on nothing fails.
    let mut changed = !made.is_empty() || !rules.is_alike(chain.rules());
    let mut united_away = Vec::new();
    chain.rebuild(rules, |layers| {
        for Slot(parts) in kept {
            let [(_, base), ..] = parts[..] else { continue };
            if parts.len() == 1 {
                continue;
            }
            let (before, behind) = layers.split_at_mut(base + 1);
            let of = |&(filter, layer): &Id| match filter {
                0 => &behind[layer - base - 1],
                _ => &others[filter - 1].layers()[layer],
            };
            let target = &mut before[base];
            let mut counts = Counts::of(parts[1..].iter().map(of));
            counts.0.push((target.items(), target.ones()));
            let arrays: Vec<_> = parts[1..].iter().map(|id| of(id).array()).collect();
            changed |= target.unite(&arrays);
            let items = counts.of_union(target);
            changed |= target.count(items);
            united_away.extend(
                parts[1..]
                    .iter()
                    .filter(|(filter, _)| *filter == 0)
                    .map(|(_, layer)| *layer),
            );
        }
        changed |= !united_away.is_empty();
        let mut index = 0;
        layers.retain(|_| {
            let stays = !united_away.contains(&index);
            index += 1;
            stays
        });
        let has_new = !made.is_empty();
        layers.append(&mut made);
        if has_new {
            R::order(layers);
        }
    });
    Ok(changed)
}

/// A new filter of what all of `chains`, which are not empty, have in common.
pub(super) fn common<R: Budget>(
    chains: &[&Chain<R>],
    allowance: Allowance<'_>,
) -> Result<Chain<R>, SetError> {
    let mut kind = None;
    for (index, chain) in chains.iter().enumerate() {
        let [only] = chain.layers() else {
            return Err(SetError::Source {
                index,
                why: Mismatch::Shape,
            });
        };
        if *kind.get_or_insert(only.kind()) != only.kind() {
            return Err(SetError::Source {
                index,
                why: Mismatch::Shape,
            });
        }
    }
    let layers = || chains.iter().flat_map(|chain| chain.layers());
    let arrays: Vec<_> = layers().map(Part::array).collect();
    let first = &chains[0].layers()[0];
    ask::<R::Layer>(Frame::CHAIN, std::iter::once(first.bytes()), 0, 0, allowance).map_err(over_limit)?;
    let mut layer = first.emptied()?;
    layer.take_common(&arrays);
    let items = Counts::of(layers()).of_common(&layer);
    layer.count(items);
    Ok(Chain::of_layers(chains[0].rules().alike(None), vec![layer]))
}

fn over_limit(Refused { bytes, limit }: Refused) -> Error {
    Error::OverLimit { bytes, limit }
}

fn reserve<L>(layers: &mut Vec<L>, count: usize) -> Result<(), Error> {
    let bytes = (count * size_of::<L>()) as u64;
    layers
        .try_reserve_exact(count)
        .map_err(|_| Error::OutOfMemory { bytes })
}

/// Whether a filter of these rules can have the union's layers.
fn check<R: Budget>(rules: &R, filters: &[&[R::Layer]], slots: &[Slot]) -> Result<(), SetError> {
    let mut layers: Vec<_> = slots.iter().map(|slot| slot.first(filters)).collect();
    let capacities = layers.iter().map(|layer| layer.capacity());
    let capacity = capacities.fold(0, u64::saturating_add);
    if capacity > MOST_ITEMS {
        return Err(Error::Full { capacity }.into());
    }
    let rates: Vec<_> = layers.drain(..).map(Part::full_rate).collect();
    rules.affords(&rates)
}

/// What becomes of each layer of `filters`, in the order in which they stand there.
fn plan<L: Part>(filters: &[&[L]]) -> Vec<Slot> {
    let mut group_of = HashMap::new();
    let mut groups: Vec<Vec<Id>> = Vec::new();
    for (filter, layers) in filters.iter().enumerate() {
        for (index, layer) in layers.iter().enumerate() {
            let group = *group_of.entry(layer.kind()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push((filter, index));
        }
    }
    let slots = groups.into_iter().flat_map(|group| divide(filters, group));
    let mut slots: Vec<_> = slots.collect();
    slots.sort_by_key(|Slot(parts)| parts[0]);
    slots
}

/// Layers of one shape, in as few as a short search finds.
fn divide<L: Part>(filters: &[&[L]], group: Vec<Id>) -> Vec<Slot> {
    let [first, .., _] = group[..] else {
        return vec![Slot(group)];
    };
    let full = layer(filters, first).ones_when_full();
    if fit(filters, &group, full) {
        return vec![Slot(group)];
    }
    let mut slots: Vec<Slot> = Vec::new();
    for id in group {
        let tried = slots.len().saturating_sub(MOST_TRIES);
        let found = slots[tried..].iter_mut().find(|slot| {
            let mut parts = slot.0.clone();
            parts.push(id);
            fit(filters, &parts, full)
        });
        match found {
            Some(slot) => slot.0.push(id),
            None => slots.push(Slot(vec![id])),
        }
    }
    slots
}

/// Whether layers of one shape, which has so many set bits when it is full, are one when united.
fn fit<L: Part>(filters: &[&[L]], parts: &[Id], full: u64) -> bool {
    let layers = || parts.iter().map(|&id| layer(filters, id));
    let counts = Counts::of(layers());
    if layers()
        .next()
        .is_some_and(|layer| counts.sum() <= layer.capacity())
    {
        return true;
    }
    let arrays: Vec<_> = layers().map(Part::array).collect();
    // One that has all bits of the others is as full as it was.
    union_ones(&arrays, full.max(counts.most_ones())).is_some()
}

fn layer<'a, L>(filters: &[&'a [L]], (filter, index): Id) -> &'a L {
    &filters[filter][index]
}

impl Slot {
    fn first<'a, L>(&self, filters: &[&'a [L]]) -> &'a L {
        layer(filters, self.0[0])
    }

    /// Whether the first filter has it, or a part of it.
    fn is_held(&self) -> bool {
        self.0.first().is_some_and(|(filter, _)| *filter == 0)
    }

    /// A new layer of all parts.
    fn make<L: Part>(&self, filters: &[&[L]]) -> Result<L, Error> {
        let parts = || self.0.iter().map(|&id| layer(filters, id));
        let mut union = self.first(filters).emptied()?;
        let arrays: Vec<_> = parts().map(Part::array).collect();
        union.unite(&arrays);
        let items = Counts::of(parts()).of_union(&union);
        union.count(items);
        Ok(union)
    }
}
