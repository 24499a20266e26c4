//! Layers of several filters in one, and what several filters have in common.
//!
//! Layers of one shape are united bit by bit where the items of the union stay within the capacity of one of them: for
//! certain, if together they count no more; else by what its set bits tell. Others stay layers of their own. First it
//! is decided what becomes of each layer, then memory is asked for and taken, and only then anything changes.

use super::SetError;
use super::part::{Budget, Part};
use crate::bloom::bits::combine::{Reading, is_within, union_ones};
use crate::bloom::chain::batch::Layer as _;
use crate::bloom::chain::demand::{Frame, Refused, ask, reserved};
use crate::bloom::chain::{Allowance, Chain, MOST_ITEMS, Plan as _};
use crate::bloom::error::Error;
use crate::bloom::params::ErrorRate;

/// The layers of a shape, of those that the union has already, that another one is tried with.
const MOST_TRIES: usize = 32;

/// How many times what layers of one shape have may be read to find out which of them can be united. After that the
/// items that they count decide, so that no number of layers makes the server stand still.
const MOST_READINGS: u64 = 4;

/// What may be read in any case, in bytes.
const FEW_BYTES: u64 = 64 << 20;

/// A layer: of which filter, and which of its layers.
type Id = (usize, usize);

/// A part of a layer of the union: the first part of that layer, and the part. The first part is one too.
type PartOf = (Id, Id);

/// What layers count, and their set bits.
#[derive(Clone, Debug)]
struct Counts<I>(I);

/// Those of a layer.
fn counts_of(layer: &impl Part) -> (u64, u64) {
    (layer.items(), layer.ones())
}

impl<I: Iterator<Item = (u64, u64)> + Clone> Counts<I> {
    fn items(&self) -> impl Iterator<Item = u64> {
        self.0.clone().map(|(items, _)| items)
    }

    /// Items of those layers that have so many set bits.
    fn items_with(&self, ones: u64) -> impl Iterator<Item = u64> {
        let with = self.0.clone().filter(move |(_, of_part)| *of_part == ones);
        with.map(|(items, _)| items)
    }

    /// The items that the union of them counts, as `layer`, which has its bits. One of them that has all the bits has
    /// met all the items; else it is known from the bits alone.
    fn of_union(&self, layer: &impl Part) -> u64 {
        let ones = layer.ones();
        if let Some(items) = self.items_with(ones).max() {
            return items;
        }
        let sum = self.items().fold(0, u64::saturating_add);
        let least = self.items().max().unwrap_or(0);
        within(
            layer.items_behind(ones),
            least.max(ones.div_ceil(layer.bits_of_item())),
            sum.min(layer.capacity()).min(ones),
        )
    }

    /// The items that `layer` counts, which has the bits that all of them have.
    fn of_common(&self, layer: &impl Part) -> u64 {
        let ones = layer.ones();
        if let Some(items) = self.items_with(ones).min() {
            return items;
        }
        let most = self.items().min().unwrap_or(0);
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
    let plan = plan(&filters)?;
    let firsts = || of_union(&plan).map(|parts| layer(&filters, parts[0].0));
    check(&rules, firsts())?;
    let arrays = firsts().map(|layer| layer.bytes());
    ask::<R::Layer>(Frame::CHAIN, arrays, 0, 0, allowance).map_err(over_limit)?;
    let mut layers = reserved(firsts().count())?;
    for parts in of_union(&plan) {
        layers.push(united::<R>(&filters, parts)?);
    }
    rules.order(&mut layers);
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
    let plan = plan(&filters)?;
    check(&rules, of_union(&plan).map(|parts| layer(&filters, parts[0].0)))?;
    // A layer of the union is new if the filter has no part of it.
    let is_new = |parts: &&[PartOf]| parts[0].0.0 > 0;
    let new = || of_union(&plan).filter(is_new);
    let arrays_held = filters[0].iter().map(|layer| layer.bytes());
    let arrays_new = new().map(|parts| layer(&filters, parts[0].0).bytes());
    let arrays = arrays_held.chain(arrays_new);
    ask::<R::Layer>(Frame::CHAIN, arrays, held, chain.room(), allowance).map_err(over_limit)?;
    let mut made = reserved(new().count())?;
    for parts in new() {
        made.push(united::<R>(&filters, parts)?);
    }
    chain.reserve(made.len())?;
    let most_parts = of_union(&plan).map(<[PartOf]>::len).max().unwrap_or(0);
    let mut arrays = reserved(most_parts)?;

    // From here on nothing fails, and nothing takes memory.
    let mut changed = !made.is_empty() || !rules.is_alike(chain.rules());
    chain.rebuild(rules, |rules, layers| {
        for parts in of_union(&plan).filter(|parts| !is_new(parts) && parts.len() > 1) {
            // The first part is the filter's own, and all others are of other filters.
            let target = &mut layers[parts[0].0.1];
            let of = |&(_, (filter, layer)): &PartOf| &others[filter - 1].layers()[layer];
            let added = parts[1..].iter().map(of);
            let counts = Counts(added.clone().map(counts_of).chain([counts_of(target)]));
            changed |= target.bits_mut().unite(gathered(&mut arrays, added));
            let items = counts.of_union(target);
            changed |= target.count(items);
        }
        layers.append(&mut made);
        // Items may have come since they were put into order; only what is propagated may change it.
        if changed {
            rules.order(layers);
        }
    });
    Ok(changed)
}

/// A new filter of what all of `chains`, which are not empty and have one layer of one shape, have in common.
pub(super) fn common<R: Budget>(
    chains: &[&Chain<R>],
    allowance: Allowance<'_>,
) -> Result<Chain<R>, SetError> {
    let layers = || chains.iter().flat_map(|chain| chain.layers());
    let first = &chains[0].layers()[0];
    let arrays = std::iter::once(first.bytes());
    ask::<R::Layer>(Frame::CHAIN, arrays, 0, 0, allowance).map_err(over_limit)?;
    let mut layer = R::plan_of(first).make()?;
    if layers().all(|layer| layer.ones() > 0) {
        let mut arrays = reserved(chains.len())?;
        layer.bits_mut().take_common(gathered(&mut arrays, layers()));
    }
    let items = Counts(layers().map(counts_of)).of_common(&layer);
    layer.count(items);
    Ok(Chain::of_layers(chains[0].rules().alike(None), vec![layer]))
}

fn over_limit(Refused { bytes, limit }: Refused) -> Error {
    Error::OverLimit { bytes, limit }
}

/// The bit arrays of layers, but for those in which no bit is set, in a list that has room for them.
fn gathered<'l, 'a, L: Part + 'a>(
    list: &'l mut Vec<&'a [u8]>,
    layers: impl Iterator<Item = &'a L>,
) -> &'l [&'a [u8]] {
    list.clear();
    list.extend(
        layers
            .filter(|layer| layer.ones() > 0)
            .map(|layer| layer.bits().bytes()),
    );
    list
}

/// Whether a filter of these rules can have layers as these.
fn check<'a, R: Budget>(rules: &R, layers: impl Iterator<Item = &'a R::Layer> + Clone) -> Result<(), SetError>
where
    R::Layer: 'a,
{
    let capacities = layers.clone().map(|layer| layer.capacity());
    let capacity = capacities.fold(0, u64::saturating_add);
    if capacity > MOST_ITEMS {
        return Err(Error::Full { capacity }.into());
    }
    let mut rates = reserved(layers.clone().count())?;
    rates.extend(layers.map(Part::full_rate));
    rules.affords(&rates)
}

/// What becomes of each layer of `filters`: the layers of the union in the order in which their first parts stand there.
fn plan<L: Part>(filters: &[&[L]]) -> Result<Vec<PartOf>, Error> {
    let count = filters.iter().map(|layers| layers.len()).sum();
    let (mut ids, mut plan) = (reserved(count)?, reserved(count)?);
    for (filter, layers) in filters.iter().enumerate() {
        ids.extend(
            layers
                .iter()
                .enumerate()
                .map(|(index, layer)| (layer.kind(), (filter, index))),
        );
    }
    ids.sort_unstable();
    for group in ids.chunk_by(|(kind, _), (next, _)| kind == next) {
        divide(filters, group.iter().map(|(_, id)| *id), &mut plan)?;
    }
    plan.sort_unstable();
    Ok(plan)
}

/// The layers of the union: the parts of each.
fn of_union(plan: &[PartOf]) -> impl Iterator<Item = &[PartOf]> + Clone {
    plan.chunk_by(|(one, _), (other, _)| one == other)
}

/// A layer of the union while parts are looked for.
struct Slot {
    first: Id,
    /// Items that the parts count together.
    sum: u64,
}

/// Layers of one shape, in as few as a short search finds.
fn divide<L: Part>(
    filters: &[&[L]],
    group: impl ExactSizeIterator<Item = Id> + Clone,
    plan: &mut Vec<PartOf>,
) -> Result<(), Error> {
    let Some(first) = group.clone().next() else {
        return Ok(());
    };
    let one = layer(filters, first);
    if group.len() == 1 {
        plan.push((first, first));
        return Ok(());
    }
    let bytes = one.bytes().saturating_mul(group.len() as u64);
    let most_read = bytes.saturating_mul(MOST_READINGS).saturating_add(FEW_BYTES);
    // To look at a slot is work too: with very many tiny layers it is all there is.
    let (mut reading, mut looking) = (Reading::new(most_read), Reading::new(most_read));
    let mut arrays = reserved(group.len())?;
    // By the mean a tiny layer may have more bits than so many items set.
    let most = one.capacity().saturating_mul(one.bits_of_item());
    let full = one.ones_when_full().min(most);
    // Layers of one filter are not united with each other: it would change without anything that comes in.
    let of_filters = group.clone().map(|(filter, _)| filter);
    if of_filters.is_sorted_by(|one, next| one < next)
        && fit(filters, group.clone(), full, &mut arrays, &mut reading)
    {
        plan.extend(group.map(|id| (first, id)));
        return Ok(());
    }
    let begin = plan.len();
    let mut slots: Vec<Slot> = reserved(group.len())?;
    for id in group {
        let (part, items) = (layer(filters, id), layer(filters, id).items());
        // What has come before changes nothing: a layer that has all of it is looked for first.
        let has_all = |slot: &Slot, reading: &mut Reading| {
            let whole = layer(filters, slot.first);
            part.ones() <= whole.ones() && is_within(part.bits().bytes(), whole.bits().bytes(), reading)
        };
        // Those of other filters come first: layers are gone through filter by filter.
        let others = slots.partition_point(|slot| slot.first.0 < id.0);
        let mut others = slots[..others]
            .iter()
            .take_while(|_| looking.take(size_of::<Slot>() as u64));
        if let Some(slot) = others.find(|slot| has_all(slot, &mut reading)) {
            plan.push((slot.first, id));
            continue;
        }
        let tried = slots.len().saturating_sub(MOST_TRIES);
        let found = slots[tried..].iter_mut().find(|slot| {
            if slot.first.0 == id.0 {
                return false;
            }
            if slot.sum.saturating_add(items) <= one.capacity() {
                return true;
            }
            // To find the parts is work too.
            if !reading.take(size_of_val(&plan[begin..]) as u64) {
                return false;
            }
            let parts = plan[begin..].iter().filter(|(of, _)| *of == slot.first);
            let parts = parts.map(|(_, part)| *part).chain([id]);
            fit(filters, parts, full, &mut arrays, &mut reading)
        });
        let first = match found {
            Some(slot) => {
                slot.sum = slot.sum.saturating_add(items);
                slot.first
            }
            None => {
                slots.push(Slot {
                    first: id,
                    sum: items,
                });
                id
            }
        };
        plan.push((first, id));
    }
    Ok(())
}

/// Whether layers of one shape, which has so many set bits when it is full, are one when united. `arrays` has room for
/// theirs.
fn fit<'a, L: Part>(
    filters: &[&'a [L]],
    parts: impl Iterator<Item = Id> + Clone,
    full: u64,
    arrays: &mut Vec<&'a [u8]>,
    reading: &mut Reading,
) -> bool {
    let layers = || parts.clone().map(|id| layer(filters, id));
    let (mut sum, mut most_ones) = (0u64, 0);
    for layer in layers() {
        sum = sum.saturating_add(layer.items());
        most_ones = most_ones.max(layer.ones());
    }
    if layers().next().is_some_and(|layer| sum <= layer.capacity()) {
        return true;
    }
    // One that has all bits of the others is as full as it was.
    union_ones(gathered(arrays, layers()), full.max(most_ones), reading).is_some()
}

fn layer<'a, L>(filters: &[&'a [L]], (filter, index): Id) -> &'a L {
    &filters[filter][index]
}

/// A new layer of all parts.
fn united<R: Budget>(filters: &[&[R::Layer]], parts: &[PartOf]) -> Result<R::Layer, Error> {
    let layers = || parts.iter().map(|&(_, id)| layer(filters, id));
    let mut union = R::plan_of(layer(filters, parts[0].0)).make()?;
    let mut arrays = reserved(parts.len())?;
    union.bits_mut().unite(gathered(&mut arrays, layers()));
    let items = Counts(layers().map(counts_of)).of_union(&union);
    union.count(items);
    Ok(union)
}
