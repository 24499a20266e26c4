//! Filters as sets: unions and intersections of filters of the blocked layout, without a window and with one seed.
//!
//! Layers of one shape are united bit by bit if the items of the union fit into the capacity of one of them: certainly
//! if their counts do, otherwise judged by the set bits of the union. Other layers stay side by side. The `Plan` says
//! which; it is made before memory is requested and allocated, and only after that does anything change.
//!
//! What is planned is part of the protocol: replicas repeat BF.MERGE, and must find the same layers.

use std::collections::HashSet;
use std::fmt;
use std::io::{Cursor, Write as _};

use crate::bits::array::all_zero;
use crate::bits::combine::{PIECE, is_within, union_ones};
use crate::chain::batch::Layer as _;
use crate::chain::demand::{FILTER_BYTES, ask, listed, push, reserved};
use crate::chain::{Allowance, Chain, MOST_ITEMS, MOST_LAYERS, Rules as _, sum};
use crate::error::{Error, require};
use crate::exceptions::{self, Exceptions, MOST_EXCEPTIONS};
use crate::filter::Filter;
use crate::item::ItemHash;
use crate::layers::Layers;
use crate::layouts::blocked::window::Windowed;
use crate::layouts::blocked::{Blocked, Layer};
use crate::params::{ErrorRate, Growth, ROUNDING};

/// The most exceptions of all combined filters times all their layers, because each exception is looked up in each.
pub const MOST_ASKED: u64 = 1 << 23;

/// How many pairs of layers are compared at most to find those of which one has all bits of the other: some 0.1 s for a
/// call. Beyond them a layer that has nothing new is united or appended like any other.
const MOST_COMPARED: usize = 1 << 20;

/// How many layers that contain a layer's first bits are compared with it as a whole.
const MOST_COMPARED_AS_A_WHOLE: usize = 4;

/// Why filters cannot be combined. Nothing changed.
///
/// ```
/// # use libbloom::{Filter, Mismatch, SetError};
/// let mut monday = Filter::builder(1000, 0.01).seed(1).build()?;
/// let tuesday = Filter::builder(1000, 0.01).seed(2).build()?;
/// let refused = monday.union_with(&tuesday);
/// assert_eq!(refused, Err(SetError::Source { index: 0, why: Mismatch::Seed }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetError {
    /// A source cannot be combined with the first filter.
    Source {
        /// The index of the source.
        index: usize,
        /// The reason.
        why: Mismatch,
    },
    /// The destination cannot be combined with any filter.
    Destination {
        /// The reason.
        why: Mismatch,
    },
    /// The rates of the layers sum to more than the result may have.
    Rate {
        /// The sum of the rates.
        sum: f64,
        /// A rate for the result that would be high enough, if there is one.
        enough: Option<ErrorRate>,
    },
    /// The result would have more exceptions than a filter can have.
    TooManyExceptions {
        /// The most exceptions that a filter can have.
        exceptions: u64,
    },
    /// Looking up all exceptions in all layers would take too long: the product of their numbers is above
    /// [`MOST_ASKED`].
    TooManyToAsk {
        /// Exceptions of all filters.
        exceptions: u64,
        /// Layers of all filters.
        layers: u64,
    },
    /// There is no memory for the result, or it would have more than [`MOST_LAYERS`] layers.
    Memory(Error),
}

impl From<Error> for SetError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

/// Why a source cannot be combined with the first filter.
///
/// ```
/// # use libbloom::{Filter, Mismatch, SetError, Layout};
/// let mut own = Filter::builder(1000, 0.01).build()?;
/// let classic = Filter::builder(1000, 0.01).layout(Layout::Classic).build()?;
/// let refused = own.union_with(&classic);
/// assert_eq!(refused, Err(SetError::Source { index: 0, why: Mismatch::Layout }));
/// # Ok::<(), libbloom::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The filter has another seed.
    Seed,
    /// The filter has the layout of RedisBloom or valkey-bloom, or a window: such filters cannot be combined.
    Layout,
    /// The filter has layers of another shape.
    Shape,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { index, why } => write!(f, "filter {index} does not fit: {why}"),
            Self::Destination { why } => write!(f, "the filter cannot be merged into: {why}"),
            Self::Rate { sum, enough } => {
                write!(f, "the error rates of the layers sum to {sum}")?;
                match enough {
                    Some(rate) => write!(f, ": use an error rate of {} or more", rate.value()),
                    None => f.write_str(": no error rate is enough"),
                }
            }
            Self::TooManyExceptions { exceptions } => {
                write!(f, "the result would have more than {exceptions} exceptions")
            }
            Self::TooManyToAsk { exceptions, layers } => {
                write!(
                    f,
                    "{exceptions} exceptions in {layers} layers are too many to look up"
                )
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed => "it has another seed",
            Self::Layout => "it has another module's layout or a window, and cannot be combined",
            Self::Shape => "it has another capacity or error rate, or has grown",
        })
    }
}

impl std::error::Error for SetError {}

#[cfg_attr(docsrs, doc(hidden))]
impl Filter {
    /// Makes a new filter of all items of `sources`, of which there must be one. The first gives the parameters, and
    /// the rate unless another one is given.
    pub fn union(
        sources: &[&Self],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<Self, SetError> {
        let rules = first(sources)?.rules().clone();
        let mut union = Self::from(Chain::of_layers(rules, Vec::new()));
        union.absorb(sources, rate, allowance)?;
        Ok(union)
    }

    /// Adds all items of `sources`. Returns whether that changed anything. If a rate is given, it becomes the filter's.
    pub fn absorb(
        &mut self,
        sources: &[&Self],
        rate: Option<ErrorRate>,
        allowance: Allowance<'_>,
    ) -> Result<bool, SetError> {
        let own = combinable(self).map_err(|why| SetError::Destination { why })?;
        let (mut filters, chains) = alike(sources, own)?;
        push(&mut filters, &*self)?;
        let exceptions = exceptions_of_union(self, &filters, allowance)?;
        let excepted = exceptions.as_ref().or(self.excepted()).map_or(0, Exceptions::len);
        let allowance = &exceptions::beside(excepted, allowance);

        let mut rules = own.rules().clone();
        rules.error_rate = rate.unwrap_or(rules.error_rate);
        let mut layers = reserved(1 + chains.len())?;
        layers.push(own.layers());
        layers.extend(chains.iter().map(|chain| chain.layers()));
        let plan = Plan::of(&layers)?;
        check(&rules, plan.firsts())?;
        let held = own.layers().len();
        let count = plan.new_layers().count();
        let more = sum(plan.new_layers().map(|parts| plan.at(parts[0].0).bytes()));
        if count > 0 {
            let (arrays, layers) = (own.array_bytes(held), held + count);
            let total = Blocked::bytes(layers, arrays.saturating_add(more));
            ask(Blocked::held(held, arrays), total, Some(layers), allowance)?;
        }
        let mut made = reserved(count)?;
        for parts in plan.new_layers() {
            made.push(plan.united(parts)?);
        }
        let Plan { parts: plan, .. } = plan;
        let mut arrays = reserved(groups(&plan).map(<[PartOf]>::len).max().unwrap_or(0))?;
        let Layers::Blocked(own, _) = &mut self.layers else {
            return Ok(false);
        };
        own.layers.reserve(made.len())?;

        // From here on nothing fails, and nothing is allocated.
        let mut changed = !made.is_empty() || rules.error_rate() != own.rules.error_rate();
        own.rules = rules;
        for parts in groups(&plan).filter(|parts| !is_new(parts) && parts.len() > 1) {
            // The first part is the filter's own, and all others are of other filters.
            let target = &mut own.layers[parts[0].0.1];
            let added = || {
                let others = parts[1..].iter();
                others.map(|&(_, (filter, layer))| &chains[filter - 1].layers()[layer])
            };
            let counts = added().map(counts_of).chain([counts_of(target)]);
            arrays.clear();
            arrays.extend(added().filter_map(set_bits));
            changed |= target.bits.unite(&arrays);
            let items = items_of_union(target, counts);
            changed |= items != target.items();
            target.items = items;
        }
        own.layers.append(made);
        // Items may have been added since the layers were sorted; only a propagated command may change the order.
        if changed {
            order(&own.rules, &mut own.layers);
        }
        Layer::start_all_at(&mut own.layers, 0);
        if let Some(exceptions) = exceptions {
            self.set_exceptions(exceptions);
            changed = true;
        }
        Ok(changed)
    }

    /// Makes a new filter of the items that all `sources`, of which there must be one, contain. Each has one layer, of
    /// one shape; the first gives the parameters. An item in none of them is found with at most their lowest rate.
    pub fn intersection(sources: &[&Self], allowance: Allowance<'_>) -> Result<Self, SetError> {
        let first = first(sources)?;
        let (filters, chains) = alike(sources, first)?;
        let only_shape = |filter: &&Self| match combinable(filter).map(Chain::layers) {
            Ok([layer]) => Some(layer.shape()),
            _ => None,
        };
        let shape = sources.first().and_then(only_shape);
        let odd = sources.iter().position(|filter| {
            let other = only_shape(filter);
            other.is_none() || other != shape
        });
        let (Some(shape), None) = (shape, odd) else {
            let (index, why) = (odd.unwrap_or(0), Mismatch::Shape);
            return Err(SetError::Source { index, why });
        };
        let exceptions = exceptions_of(&filters, FILTER_BYTES, allowance, |hash| {
            filters.iter().all(|filter| filter.holds_hash(hash))
        })?;
        let allowance = &exceptions::beside(exceptions.len(), allowance);
        ask(0, Blocked::bytes(1, shape.bytes()), Some(1), allowance)?;
        let mut layer = Layer::make(shape)?;
        let layers = || chains.iter().flat_map(|chain| chain.layers());
        if layers().all(|layer| layer.ones() > 0) {
            let mut arrays = reserved(chains.len())?;
            arrays.extend(layers().map(Layer::array));
            layer.bits.set_common(&arrays);
        }
        layer.items = items_of_common(&layer, layers().map(counts_of));
        let mut common = Self::from(Chain::of_layers(first.rules().clone(), listed([layer])?));
        common.set_exceptions(exceptions);
        Ok(common)
    }

    /// Makes a new filter like this one, but empty; `None` if this one is as new. A filter whose layers were merged
    /// becomes one for as many items as its largest layer.
    ///
    /// `allowance` is queried only if the new filter needs more memory than this one: if merged layers have other
    /// rates than the first layer of a new filter, or if a stored filter names capacities that its layers are too
    /// small for. Otherwise a user who empties a filter to free memory is never refused.
    pub fn emptied(&self, allowance: Allowance<'_>) -> Result<Option<Self>, Error> {
        if self.exceptions() == 0 && self.layers.as_layered().is_as_new() {
            return Ok(None);
        }
        Ok(Some(match &self.layers {
            Layers::Blocked(chain, _) => chain.emptied(allowance)?.into(),
            Layers::Windowed(own) => Windowed::empty(own.rules.clone(), own.window, own.capacity).into(),
            Layers::Valkey(chain) => chain.emptied(allowance)?.into(),
            Layers::Classic(chain) => chain.emptied(allowance)?.into(),
        }))
    }
}

/// The layers of a filter that can be combined with others.
fn combinable(filter: &Filter) -> Result<&Chain<Blocked>, Mismatch> {
    match &filter.layers {
        Layers::Blocked(chain, _) => Ok(chain),
        Layers::Windowed(_) | Layers::Valkey(_) | Layers::Classic(_) => Err(Mismatch::Layout),
    }
}

/// The layers of the filter that decides the parameters of the result.
fn first<'a>(sources: &[&'a Filter]) -> Result<&'a Chain<Blocked>, SetError> {
    let why = Mismatch::Shape;
    let first = sources.first().ok_or(SetError::Destination { why })?;
    combinable(first).map_err(|why| SetError::Source { index: 0, why })
}

/// Checks that `sources` can be combined with `first`. Returns each of them once, and their layers.
fn alike<'a>(
    sources: &[&'a Filter],
    first: &Chain<Blocked>,
) -> Result<(Vec<&'a Filter>, Vec<&'a Chain<Blocked>>), SetError> {
    let (mut seen, mut filters, mut chains) = (HashSet::new(), Vec::new(), Vec::new());
    for (index, &filter) in sources.iter().enumerate() {
        if seen.contains(&std::ptr::from_ref(filter)) {
            continue;
        }
        let bytes = (2 * (seen.len() + 1) * size_of::<usize>()) as u64;
        let has_room = seen.try_reserve(1);
        has_room.map_err(|_| Error::OutOfMemory { bytes })?;
        seen.insert(std::ptr::from_ref(filter));
        let refused = |why| SetError::Source { index, why };
        let chain = combinable(filter).map_err(refused)?;
        let seed = |chain: &Chain<Blocked>| chain.rules().secret().seed();
        require(seed(chain) == seed(first), refused(Mismatch::Seed))?;
        push(&mut filters, filter)?;
        push(&mut chains, chain)?;
    }
    Ok((filters, chains))
}

/// The exceptions of a union that becomes `destination`, which is one of `filters`; `None` if it has these exceptions
/// already. An item that is excepted in one filter and present in another is present.
fn exceptions_of_union(
    destination: &Filter,
    filters: &[&Filter],
    allowance: Allowance<'_>,
) -> Result<Option<Exceptions>, SetError> {
    check_lookups(filters)?;
    let stays = |hash| !filters.iter().any(|filter| filter.contains_hash(hash));
    let is_held = |hash| destination.excepted().is_some_and(|held| held.has(hash));
    let mut held = destination.excepted().into_iter().flat_map(Exceptions::hashes);
    let mut all = filters
        .iter()
        .filter_map(|filter| filter.excepted())
        .flat_map(Exceptions::hashes);
    if held.all(stays) && all.all(|hash| is_held(hash) || !stays(hash)) {
        return Ok(None);
    }
    let layers = destination.layers.as_layered();
    exceptions_of(filters, layers.bytes(layers.count()), allowance, stays).map(Some)
}

/// The exceptions of all `filters` for which `stays` holds, beside layers of `layers` bytes. Their number is known at
/// the end, so `allowance` is queried whenever there must be room for more: what it refuses then it would refuse later.
fn exceptions_of(
    filters: &[&Filter],
    layers: u64,
    allowance: Allowance<'_>,
    stays: impl Fn(ItemHash) -> bool,
) -> Result<Exceptions, SetError> {
    check_lookups(filters)?;
    let mut exceptions = Exceptions::default();
    let excepted = filters.iter().filter_map(|filter| filter.excepted());
    for hash in excepted.flat_map(Exceptions::hashes) {
        if exceptions.has(hash) || !stays(hash) {
            continue;
        }
        let most = MOST_EXCEPTIONS as u64;
        let too_many = SetError::TooManyExceptions { exceptions: most };
        require(exceptions.len() < MOST_EXCEPTIONS, too_many)?;
        exceptions.make_room_for(1, layers, allowance)?;
        exceptions.insert(hash);
    }
    Ok(exceptions)
}

/// Checks that every exception of `filters` can be looked up in every layer in a short time.
fn check_lookups(filters: &[&Filter]) -> Result<(), SetError> {
    let exceptions = sum(filters.iter().map(|filter| filter.exceptions()));
    let layers = sum(filters.iter().map(|filter| filter.layers() as u64));
    let too_many = SetError::TooManyToAsk { exceptions, layers };
    require(exceptions.saturating_mul(layers) <= MOST_ASKED, too_many)
}

/// A layer: the index of the filter, and the index of the layer in it.
type Id = (usize, usize);

/// `(first, part)`: layer `part` goes into the layer of the union whose first part is `first`. `(first, first)` is one.
type PartOf = (Id, Id);

/// The parts of each layer of the union.
fn groups(plan: &[PartOf]) -> impl Iterator<Item = &[PartOf]> + Clone {
    plan.chunk_by(|(one, _), (other, _)| one == other)
}

/// Whether a layer of the union has no part of the destination's filter, which is the first.
fn is_new(parts: &[PartOf]) -> bool {
    parts[0].0.0 > 0
}

/// Layers that will be one layer of the union, while further ones are looked for.
struct Group {
    first: Id,
    items: u64,
    /// Whether there is no part but the first.
    is_single: bool,
}

/// What each layer of several filters becomes a part of.
struct Plan<'a> {
    filters: &'a [&'a [Layer]],
    /// Sorted by the first part of each layer of the union.
    parts: Vec<PartOf>,
    layers: usize,
    /// How many pairs of layers may still be compared.
    compared: usize,
}

impl<'a> Plan<'a> {
    fn of(filters: &'a [&'a [Layer]]) -> Result<Self, Error> {
        let count = filters.iter().map(|layers| layers.len()).sum();
        let mut ids = reserved(count)?;
        let all = filters.iter().enumerate();
        ids.extend(all.flat_map(|(filter, layers)| (0..layers.len()).map(move |layer| (filter, layer))));
        let mut plan = Self {
            filters,
            parts: reserved(count)?,
            layers: 0,
            compared: MOST_COMPARED,
        };
        ids.sort_unstable_by_key(|&id| (shape_key(plan.at(id)), id));
        let shape = |(filter, layer): Id| filters[filter][layer].shape();
        for alike in ids.chunk_by(|&one, &next| shape(one) == shape(next)) {
            plan.divide(alike)?;
        }
        plan.parts.sort_unstable();
        Ok(plan)
    }

    fn at(&self, (filter, layer): Id) -> &'a Layer {
        &self.filters[filter][layer]
    }

    /// The first part of each layer of the union.
    fn firsts(&self) -> impl Iterator<Item = &Layer> + Clone {
        groups(&self.parts).map(|parts| self.at(parts[0].0))
    }

    /// The parts of each layer that is new in the union.
    fn new_layers(&self) -> impl Iterator<Item = &[PartOf]> {
        groups(&self.parts).filter(|parts| is_new(parts))
    }

    fn count_layer(&mut self) -> Result<(), Error> {
        self.layers += 1;
        let most = MOST_LAYERS;
        require(self.layers <= most, Error::TooManyLayers { most })
    }

    /// Divides layers of one shape into layers of the union. Layers of one filter are not united with each other: the
    /// filter would change although no item was added.
    fn divide(&mut self, alike: &[Id]) -> Result<(), Error> {
        if alike.is_sorted_by(|one, next| one.0 < next.0) && self.fit(alike)? {
            self.count_layer()?;
            self.parts.extend(alike.iter().map(|&id| (alike[0], id)));
            return Ok(());
        }
        let mut groups: Vec<Group> = Vec::new();
        for &id in alike {
            let (items, capacity) = (self.at(id).items(), self.at(id).capacity());
            // Layers are visited filter by filter.
            let others = groups.partition_point(|group| group.first.0 < id.0);
            let others = &mut groups[..others];
            if let Some(first) = self.containing(id, others) {
                self.parts.push((first, id));
                continue;
            }
            let has_room = |group: &Group| group.items.saturating_add(items) <= capacity;
            let mut found = others.iter().position(has_room);
            // The last layer has the most room, and is the only one that is compared by its bits.
            if found.is_none()
                && let Some(last) = others.last()
                && last.is_single
                && self.fit(&[last.first, id])?
            {
                found = Some(others.len() - 1);
            }
            let first = match found {
                Some(group) => {
                    let group = &mut others[group];
                    group.items = group.items.saturating_add(items);
                    group.is_single = false;
                    group.first
                }
                None => {
                    self.count_layer()?;
                    let group = Group {
                        first: id,
                        items,
                        is_single: true,
                    };
                    push(&mut groups, group)?;
                    id
                }
            };
            self.parts.push((first, id));
        }
        Ok(())
    }

    /// The first part of a group that has all bits of the layer `id`, which then changes nothing.
    fn containing(&mut self, id: Id, groups: &[Group]) -> Option<Id> {
        let part = self.at(id).array();
        let at = PIECE * part.chunks(PIECE).position(|piece| !all_zero(piece)).unwrap_or(0);
        let piece = at..part.len().min(at + PIECE);
        let compared = groups.len().min(self.compared);
        self.compared -= compared;
        let firsts = groups[..compared].iter().map(|group| group.first);
        // Few layers have the first bits of another one by chance.
        firsts
            .filter(|&first| is_within(&part[piece.clone()], &self.at(first).array()[piece.clone()]))
            .take(MOST_COMPARED_AS_A_WHOLE)
            .find(|&first| is_within(part, self.at(first).array()))
    }

    /// Whether layers of one shape can be united.
    fn fit(&self, alike: &[Id]) -> Result<bool, Error> {
        let layers = || alike.iter().map(|&id| self.at(id));
        let Some(one) = layers().next() else {
            return Ok(false);
        };
        if sum(layers().map(|layer| layer.items())) <= one.capacity() {
            return Ok(true);
        }
        let mut arrays = reserved(alike.len())?;
        arrays.extend(layers().filter_map(set_bits));
        let set = union_ones(&arrays);
        // A layer that has all bits of the others does not get fuller.
        let has_all = layers().any(|layer| layer.ones() == set);
        Ok(has_all || one.shape().geometry.items_behind(set) <= one.capacity())
    }

    fn united(&self, parts: &[PartOf]) -> Result<Layer, Error> {
        let layers = || parts.iter().map(|&(_, id)| self.at(id));
        let mut union = Layer::make(self.at(parts[0].0).shape())?;
        let mut arrays = reserved(parts.len())?;
        arrays.extend(layers().filter_map(set_bits));
        union.bits.unite(&arrays);
        union.items = items_of_union(&union, layers().map(counts_of));
        Ok(union)
    }
}

/// The shape of a layer, in a form that can be sorted.
fn shape_key(layer: &Layer) -> (u64, u64, u64, u8, u8) {
    let (shape, geometry) = (layer.shape(), layer.shape().geometry);
    let (lines, per_item) = (geometry.lines, geometry.lines_per_item);
    (
        shape.capacity,
        shape.rate.to_bits(),
        lines,
        per_item,
        geometry.probes,
    )
}

/// The bit array of a layer; `None` if no bit is set, so that its pages stay untouched.
fn set_bits(layer: &Layer) -> Option<&[u8]> {
    (layer.ones() > 0).then(|| layer.array())
}

/// The most bits that one item sets.
fn bits_of_item(layer: &Layer) -> u64 {
    let geometry = layer.shape().geometry;
    u64::from(geometry.lines_per_item) * u64::from(geometry.probes)
}

/// The items and the set bits of a layer.
fn counts_of(layer: &Layer) -> (u64, u64) {
    (layer.items(), layer.ones())
}

/// The number of items that a layer counts which is the union of layers with these items and set bits. If one of them
/// has all of its bits, that one has counted all the items. Otherwise the set bits tell.
fn items_of_union(union: &Layer, parts: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    let set = union.ones();
    let whole = parts.clone().filter(|&(_, of_part)| of_part == set);
    if let Some((items, _)) = whole.max() {
        return items;
    }
    let items = || parts.clone().map(|(items, _)| items);
    let told = union.shape().geometry.items_behind(set);
    told.max(items().max().unwrap_or(0))
        .max(set.div_ceil(bits_of_item(union)))
        .min(sum(items()))
        .min(union.capacity())
        .min(set)
}

/// The number of items that a layer counts which is the intersection of layers with these items and set bits.
fn items_of_common(common: &Layer, parts: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    let set = common.ones();
    let whole = parts.clone().filter(|&(_, of_part)| of_part == set);
    if let Some((items, _)) = whole.min() {
        return items;
    }
    let told = common.shape().geometry.items_behind(set);
    told.max(set.div_ceil(bits_of_item(common)))
        .min(parts.map(|(items, _)| items).min().unwrap_or(0))
        .min(set)
}

/// Checks that a filter with these rules can have these layers. Their rates may sum to the part of the filter's rate
/// that it spends when it grows to as many layers.
fn check<'a>(rules: &Blocked, layers: impl Iterator<Item = &'a Layer> + Clone) -> Result<(), SetError> {
    let capacity = sum(layers.clone().map(|layer| layer.capacity()));
    require(capacity <= MOST_ITEMS, Error::Full { capacity })?;
    let count = layers.clone().count();
    let part = 1.0 - (0..count).fold(1.0, |left, index| left * (1.0 - rules.growth().share(index)));
    let check_sum = |sum: f64| {
        if sum <= rules.error_rate().value() * part * (1.0 + ROUNDING) {
            return Ok(());
        }
        let enough = rounded_up(sum / part);
        Err(SetError::Rate { sum, enough })
    };
    // A full layer's rate is never below the one that it was made for, and takes long to find where that is high.
    if let refused @ Err(SetError::Rate { enough: None, .. }) =
        check_sum(layers.clone().map(|layer| layer.shape().rate).sum())
    {
        return refused;
    }
    check_sum(layers.map(|layer| layer.shape().full_rate()).sum())
}

/// Sorts merged layers, so that items go into the last one; the caller must set their offsets afterwards. The smallest
/// comes first, as in a filter that has grown, because the next layer grows from the last. Of layers of equal size the
/// one with the most room comes last; if the filter may not grow, the one with the most room of all does.
fn order(rules: &Blocked, layers: &mut [Layer]) {
    // Equal layers keep their order. A stable sort would allocate memory.
    Layer::start_all_at(layers, 0);
    let grows = rules.growth() != Growth::Fixed;
    layers.sort_unstable_by_key(|layer| {
        let capacity = if grows { layer.capacity() } else { 0 };
        (capacity, layer.capacity() - layer.items(), layer.start())
    });
}

/// A rate with three digits that is not below `rate`, if a filter can have it.
fn rounded_up(rate: f64) -> Option<ErrorRate> {
    let exponent = (0..=30).find(|&exponent| rate * 10f64.powi(exponent) >= 1.0)?;
    let digits = (rate * 10f64.powi(exponent + 2) * (1.0 - ROUNDING / 2.0)).ceil();
    // It is formatted and parsed, because that is the number that a repeated command will contain; without allocating,
    // since a server that is short of memory must get its error.
    let mut text = Cursor::new([0; 16]);
    write!(text, "{digits}e-{}", exponent + 2).ok()?;
    let length = text.position() as usize;
    let text = std::str::from_utf8(text.get_ref().get(..length)?).ok()?;
    let rounded: f64 = text.parse().ok()?;
    let rate = ErrorRate::new(rounded).ok()?;
    (rate.value() == rounded).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who repeats a refused command with the rate that the error names would be refused again, or get a
    /// higher rate than necessary.
    #[test]
    fn a_rate_is_rounded_up_to_three_digits() {
        let rounded = |rate| rounded_up(rate).map(ErrorRate::value);
        for rate in [0.25, 0.1, 0.0123, 1.01e-3, 1e-29] {
            assert_eq!(rounded(rate), Some(rate));
        }
        // A difference that only rounding made is ignored.
        assert_eq!(rounded(0.0123 * (1.0 + 0.25 * ROUNDING)), Some(0.0123));
        assert_eq!(rounded(0.0123 * (1.0 + 0.75 * ROUNDING)), Some(0.0124));
        assert_eq!(rounded(0.012_300_1), Some(0.0124));
        assert_eq!(rounded(0.012_4), Some(0.0124));
        assert_eq!(rounded(9.991e-5), Some(1e-4));
        assert_eq!(rounded(0.2501), None);
    }
}
