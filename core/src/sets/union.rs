//! Uniting and intersecting the layers of several filters.
//!
//! Layers of one shape are united bit by bit if the items of the union fit into the capacity of one of them:
//! certainly if the sum of their counts does, otherwise judged by the set bits of the union. Others stay layers of
//! their own. A plan of the union is made first. Then memory is requested and allocated. Only after that does anything
//! change.

use crate::bits::combine::{ReadBudget, is_within, union_ones};
use crate::chain::batch::Layer as _;
use crate::chain::demand::{ask_to_grow, listed, reserved};
use crate::chain::{Allowance, Chain, MOST_ITEMS, NewLayer as _, sum};
use crate::error::Error;
use crate::merging::{MergeRules, Mergeable, SetError};
use crate::params::ErrorRate;

/// The most groups of one shape that a further layer is compared with.
const MOST_TRIES: usize = 32;

/// How often the bytes of the layers of one shape may be read to find out which of them can be united. After that only
/// the counts of items decide, so that no number of layers stalls a server.
const MOST_READINGS: u64 = 4;

/// Bytes that may be read in addition to those of [`MOST_READINGS`].
const EXTRA_BYTES: u64 = 64 << 20;

/// The most shapes for which the number of set bits in a full layer is computed, which takes some 0.1 ms. Layers of
/// further shapes are united if the sum of their counts fits, or if one has all bits of the others.
const MOST_SIZED: usize = 64;

/// A layer: the index of the filter, and the index of the layer in it.
type Id = (usize, usize);

/// `(first, part)`: layer `part` goes into the layer of the union that is known by `first`, the first of its parts.
/// `(first, first)` is listed too.
type PartOf = (Id, Id);

/// The items and the set bits of layers.
#[derive(Clone, Debug)]
struct Counts<I>(I);

/// The items and the set bits of a layer.
fn counts_of(layer: &impl Mergeable) -> (u64, u64) {
    (layer.items(), layer.ones())
}

impl<I: Iterator<Item = (u64, u64)> + Clone> Counts<I> {
    fn items(&self) -> impl Iterator<Item = u64> {
        self.0.clone().map(|(items, _)| items)
    }

    /// For each of the layers that has `ones` set bits, its items.
    fn items_with(&self, ones: u64) -> impl Iterator<Item = u64> {
        let with = self.0.clone().filter(move |(_, of_part)| *of_part == ones);
        with.map(|(items, _)| items)
    }

    /// The number of items that the union of the layers counts; `layer` has the bits of the union. If one of the
    /// layers has all these bits too, it has counted all the items. Otherwise the set bits tell.
    fn of_union(&self, layer: &impl Mergeable) -> u64 {
        let ones = layer.ones();
        if let Some(items) = self.items_with(ones).max() {
            return items;
        }
        let all = sum(self.items());
        let least = self.items().max().unwrap_or(0);
        within(
            layer.items_behind(ones),
            least.max(ones.div_ceil(layer.bits_of_item())),
            all.min(layer.capacity()).min(ones),
        )
    }

    /// The number of items that the intersection of the layers counts; `layer` has the bits of the
    /// intersection.
    fn of_common(&self, layer: &impl Mergeable) -> u64 {
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

/// `value`, limited to two bounds; the upper one wins.
fn within(value: u64, lowest: u64, highest: u64) -> u64 {
    value.max(lowest).min(highest)
}

/// Makes a new filter of all layers of `chains`, of which there must be one.
pub(super) fn make<R: MergeRules>(
    chains: &[&Chain<R>],
    rate: Option<ErrorRate>,
    allowance: Allowance<'_>,
) -> Result<Chain<R>, SetError> {
    let filters = listed(chains.iter().map(|chain| chain.layers()))?;
    let rules = chains[0].rules().with_rate(rate);
    let plan = plan(&filters)?;
    let firsts = || of_union(&plan).map(|parts| layer(&filters, parts[0].0));
    check(&rules, firsts())?;
    let count = firsts().count();
    let bytes = R::bytes(count, sum(firsts().map(|layer| layer.bytes())));
    ask_to_grow(0, bytes, count, allowance).map_err(Error::from)?;
    let mut layers = reserved(count)?;
    for parts in of_union(&plan) {
        layers.push(united::<R>(&filters, parts)?);
    }
    rules.order(&mut layers);
    Ok(Chain::of_layers(rules, layers))
}

/// Adds the layers of `others` to `chain`. Returns whether that changed anything.
pub(super) fn absorb<R: MergeRules>(
    chain: &mut Chain<R>,
    others: &[&Chain<R>],
    rate: Option<ErrorRate>,
    allowance: Allowance<'_>,
) -> Result<bool, SetError> {
    let rules = chain.rules().with_rate(rate);
    let mut filters = reserved(1 + others.len())?;
    filters.push(chain.layers());
    filters.extend(others.iter().map(|chain| chain.layers()));
    let plan = plan(&filters)?;
    check(&rules, of_union(&plan).map(|parts| layer(&filters, parts[0].0)))?;
    // A layer of the union is new if the filter has no part of it.
    let is_new = |parts: &&[PartOf]| parts[0].0.0 > 0;
    let new = || of_union(&plan).filter(is_new);
    let (count, held) = (new().count(), filters[0].len());
    let arrays = chain.array_bytes(held);
    let arrays_made = sum(new().map(|parts| layer(&filters, parts[0].0).bytes()));
    let after = R::bytes(held + count, arrays.saturating_add(arrays_made));
    if count > 0 {
        ask_to_grow(R::bytes(held, arrays), after, held + count, allowance).map_err(Error::from)?;
    }
    let mut made = reserved(count)?;
    for parts in new() {
        made.push(united::<R>(&filters, parts)?);
    }
    chain.reserve(made.len())?;
    let most_parts = of_union(&plan).map(<[PartOf]>::len).max().unwrap_or(0);
    let mut arrays = reserved(most_parts)?;

    // From here on nothing fails, and nothing is allocated.
    let mut changed = !made.is_empty() || !rules.has_same_rate(chain.rules());
    chain.rebuild(rules, |rules, layers| {
        for parts in of_union(&plan).filter(|parts| !is_new(parts) && parts.len() > 1) {
            // The first part is the filter's own, and all others are of other filters.
            let target = &mut layers[parts[0].0.1];
            let of = |&(_, (filter, layer)): &PartOf| &others[filter - 1].layers()[layer];
            let added = parts[1..].iter().map(of);
            let counts = Counts(added.clone().map(counts_of).chain([counts_of(target)]));
            changed |= target.bits_mut().unite(gathered(&mut arrays, added));
            let items = counts.of_union(target);
            changed |= items != target.items();
            target.set_items(items);
        }
        layers.append(&mut made);
        // Items may have been added since the layers were sorted; only a propagated command may change the order.
        if changed {
            rules.order(layers);
        }
    });
    Ok(changed)
}

/// Makes a new filter of the bits that all `chains` have in common. There must be one, each with one layer of one
/// shape.
pub(super) fn common<R: MergeRules>(
    chains: &[&Chain<R>],
    allowance: Allowance<'_>,
) -> Result<Chain<R>, SetError> {
    let layers = || chains.iter().flat_map(|chain| chain.layers());
    let first = &chains[0].layers()[0];
    ask_to_grow(0, R::bytes(1, first.bytes()), 1, allowance).map_err(Error::from)?;
    let mut layer = R::shape_of(first).make()?;
    if layers().all(|layer| layer.ones() > 0) {
        let mut arrays = reserved(chains.len())?;
        layer.bits_mut().set_common(gathered(&mut arrays, layers()));
    }
    let items = Counts(layers().map(counts_of)).of_common(&layer);
    layer.set_items(items);
    let mut layers = reserved(1)?;
    layers.push(layer);
    Ok(Chain::of_layers(chains[0].rules().with_rate(None), layers))
}

/// The bit arrays of layers, but for those in which no bit is set, in a list that has room for them.
fn gathered<'l, 'a, L: Mergeable + 'a>(
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

/// Checks that a filter with these rules can have these layers.
fn check<'a, R: MergeRules>(
    rules: &R,
    layers: impl Iterator<Item = &'a R::Layer> + Clone,
) -> Result<(), SetError>
where
    R::Layer: 'a,
{
    let capacities = layers.clone().map(|layer| layer.capacity());
    let capacity = sum(capacities);
    if capacity > MOST_ITEMS {
        return Err(Error::Full { capacity }.into());
    }
    let mut rates: Vec<f64> = reserved(layers.clone().count())?;
    // A full layer's rate is never below the one that it was made for, and takes long to find where that is high.
    rates.extend(layers.clone().map(Mergeable::made_rate));
    if let refused @ Err(SetError::Rate { enough: None, .. }) = rules.check_rates(&rates) {
        return refused;
    }
    rates.clear();
    rates.extend(layers.map(Mergeable::full_rate));
    rules.check_rates(&rates)
}

/// The part that each layer of `filters` becomes, sorted by the first part of each layer of the union.
fn plan<L: Mergeable>(filters: &[&[L]]) -> Result<Vec<PartOf>, Error> {
    let count = filters.iter().map(|layers| layers.len()).sum();
    let (mut ids, mut plan) = (reserved(count)?, reserved(count)?);
    for (filter, layers) in filters.iter().enumerate() {
        ids.extend(
            layers
                .iter()
                .enumerate()
                .map(|(index, layer)| (layer.shape_key(), (filter, index))),
        );
    }
    ids.sort_unstable();
    let mut sized = 0;
    for group in ids.chunk_by(|(key, _), (next, _)| key == next) {
        divide(filters, group.iter().map(|(_, id)| *id), &mut sized, &mut plan)?;
    }
    plan.sort_unstable();
    Ok(plan)
}

/// The parts of each layer of the union.
fn of_union(plan: &[PartOf]) -> impl Iterator<Item = &[PartOf]> + Clone {
    plan.chunk_by(|(one, _), (other, _)| one == other)
}

/// Layers that will be one layer of the union, while further ones are looked for.
struct Group {
    first: Id,
    /// The sum of the parts' items.
    sum: u64,
}

/// Divides layers of one shape into groups, as few as a short search finds, and appends them to `plan`. `sized` counts
/// the shapes.
fn divide<L: Mergeable>(
    filters: &[&[L]],
    ids: impl ExactSizeIterator<Item = Id> + Clone,
    sized: &mut usize,
    plan: &mut Vec<PartOf>,
) -> Result<(), Error> {
    let Some(first) = ids.clone().next() else {
        return Ok(());
    };
    let one = layer(filters, first);
    if ids.len() == 1 {
        plan.push((first, first));
        return Ok(());
    }
    let bytes = one.bytes().saturating_mul(ids.len() as u64);
    let most_read = bytes.saturating_mul(MOST_READINGS).saturating_add(EXTRA_BYTES);
    // Comparing with groups is work too, and most of it if there are very many tiny layers.
    let (mut reading, mut looking) = (ReadBudget::new(most_read), ReadBudget::new(most_read));
    let mut arrays = reserved(ids.len())?;
    // The mean for a tiny layer may be above the number of bits that its items can set.
    let most = one.capacity().saturating_mul(one.bits_of_item());
    *sized += 1;
    let full = if *sized <= MOST_SIZED {
        one.ones_when_full().min(most)
    } else {
        0
    };
    // Layers of one filter are not united with each other: the filter would change although no item was added.
    let of_filters = ids.clone().map(|(filter, _)| filter);
    if of_filters.is_sorted_by(|one, next| one < next)
        && fit(filters, ids.clone(), full, &mut arrays, &mut reading)
    {
        plan.extend(ids.map(|id| (first, id)));
        return Ok(());
    }
    let begin = plan.len();
    let mut groups: Vec<Group> = reserved(ids.len())?;
    for id in ids {
        let (part, items) = (layer(filters, id), layer(filters, id).items());
        // A part of a layer that is there changes nothing. So a layer that has all of its bits is looked for first.
        let has_all = |group: &Group, reading: &mut ReadBudget| {
            let whole = layer(filters, group.first);
            part.ones() <= whole.ones() && is_within(part.bits().bytes(), whole.bits().bytes(), reading)
        };
        // Layers of other filters come first, because layers are visited filter by filter.
        let others = groups.partition_point(|group| group.first.0 < id.0);
        let mut others = groups[..others]
            .iter()
            .take_while(|_| looking.take(size_of::<Group>() as u64));
        if let Some(group) = others.find(|group| has_all(group, &mut reading)) {
            plan.push((group.first, id));
            continue;
        }
        let tried = groups.len().saturating_sub(MOST_TRIES);
        let found = groups[tried..].iter_mut().find(|group| {
            if group.first.0 == id.0 {
                return false;
            }
            if group.sum.saturating_add(items) <= one.capacity() {
                return true;
            }
            // Finding the parts is work too.
            if !reading.take(size_of_val(&plan[begin..]) as u64) {
                return false;
            }
            let parts = plan[begin..].iter().filter(|(of, _)| *of == group.first);
            let parts = parts.map(|(_, part)| *part).chain([id]);
            fit(filters, parts, full, &mut arrays, &mut reading)
        });
        let first = match found {
            Some(group) => {
                group.sum = group.sum.saturating_add(items);
                group.first
            }
            None => {
                groups.push(Group {
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

/// Whether layers of one shape, of which a full one has `full` set bits, can be united. `arrays` has room for their bit
/// arrays.
fn fit<'a, L: Mergeable>(
    filters: &[&'a [L]],
    parts: impl Iterator<Item = Id> + Clone,
    full: u64,
    arrays: &mut Vec<&'a [u8]>,
    reading: &mut ReadBudget,
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
    // A layer that has all bits of the others does not get fuller.
    union_ones(gathered(arrays, layers()), full.max(most_ones), reading).is_some()
}

fn layer<'a, L>(filters: &[&'a [L]], (filter, index): Id) -> &'a L {
    &filters[filter][index]
}

/// Makes a layer from all of its parts.
fn united<R: MergeRules>(filters: &[&[R::Layer]], parts: &[PartOf]) -> Result<R::Layer, Error> {
    let layers = || parts.iter().map(|&(_, id)| layer(filters, id));
    let mut union = R::shape_of(layer(filters, parts[0].0)).make()?;
    let mut arrays = reserved(parts.len())?;
    union.bits_mut().unite(gathered(&mut arrays, layers()));
    let items = Counts(layers().map(counts_of)).of_union(&union);
    union.set_items(items);
    Ok(union)
}
