//! `BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | ERROR | TIGHTENING | MAXSCALEDCAPACITY | FULL]`
//!
//! A filter in valkey-bloom's layout gets valkey-bloom's reply, any other one RedisBloom's.

use crate::server::few;
use std::ffi::CStr;

use crate::call::docs::{Docs, KEY, Kind, O_OF_LAYERS, Parameter};
use crate::call::{Call, Command, CommandError, Reply};
use crate::commands::debug::slices_of_layers;
use crate::work::window;
use crate::{keyspace, options};
use libbloom::filter::{LayerStats, Totals};
use libbloom::layouts::blocked::window::Slice;
use libbloom::params::Time;
use libbloom::{Filter, Layout};

/// How many layers, the newest ones, are described one by one. Only filters of expansion 1 have more, and stored ones
/// up to a quarter of a million; listing these would take a second. BF.DEBUG lists them all.
const LISTED_LAYERS: usize = 1000;

pub(crate) struct Info;

/// A figure that clients of RedisBloom or valkey-bloom know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`texts` has their names")]
pub enum Field {
    Capacity,
    Size,
    Filters,
    Items,
    Expansion,
    ErrorRate,
    Tightening,
    MaxScaledCapacity,
}

/// Which figures the reply has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those that clients know.
    Usual,
    /// One of them.
    One(Field),
    /// All.
    Full,
}

impl Field {
    /// The fields of RedisBloom's reply. There must never be a sixth: typed clients refuse unknown names.
    const FIVE: [Self; 5] = [
        Self::Capacity,
        Self::Size,
        Self::Filters,
        Self::Items,
        Self::Expansion,
    ];

    /// The fields of valkey-bloom's reply; the last ones are only for filters that grow.
    const VALKEY: [Self; 8] = [
        Self::Capacity,
        Self::Size,
        Self::Filters,
        Self::Items,
        Self::ErrorRate,
        Self::Expansion,
        Self::Tightening,
        Self::MaxScaledCapacity,
    ];

    /// The fields that the reply for this filter has.
    fn of(filter: &Filter) -> &'static [Self] {
        match filter.valkey_rules() {
            None => &Self::FIVE,
            Some(rules) if rules.expansion() == 0 => &Self::VALKEY[..6],
            Some(_) => &Self::VALKEY,
        }
    }

    /// The word that selects the field, and the field's name.
    fn texts(self) -> (&'static [u8], &'static CStr) {
        match self {
            Self::Capacity => (b"CAPACITY", c"Capacity"),
            Self::Size => (b"SIZE", c"Size"),
            Self::Filters => (b"FILTERS", c"Number of filters"),
            Self::Items => (b"ITEMS", c"Number of items inserted"),
            Self::Expansion => (b"EXPANSION", c"Expansion rate"),
            Self::ErrorRate => (b"ERROR", c"Error rate"),
            Self::Tightening => (b"TIGHTENING", c"Tightening ratio"),
            Self::MaxScaledCapacity => (b"MAXSCALEDCAPACITY", c"Max scaled capacity"),
        }
    }

    fn reply_value(self, reply: Reply<'_>, filter: &Filter, totals: &Totals) {
        match self {
            Self::Capacity => reply.integer(totals.capacity),
            Self::Size => reply.integer(filter.bytes()),
            Self::Filters => reply.integer(totals.layers as u64),
            Self::Items => reply.integer(totals.items),
            Self::Expansion => reply.integer_if_any(filter.expansion().map(u64::from)),
            Self::ErrorRate => reply.double(filter.error_rate()),
            Self::Tightening => match filter.valkey_rules() {
                Some(rules) => reply.double(rules.tightening().value()),
                None => reply.null(),
            },
            Self::MaxScaledCapacity => {
                let limit = options::config().max_filter_bytes();
                reply.integer_if_any(filter.scaled_capacity(limit));
            }
        }
    }

    fn reply_pair(self, reply: Reply<'_>, filter: &Filter, totals: &Totals) {
        reply.bulk(self.texts().1.to_bytes());
        self.reply_value(reply, filter, totals);
    }
}

impl Selection {
    /// What this word selects.
    pub fn parse(word: &[u8]) -> Result<Self, CommandError> {
        if word.eq_ignore_ascii_case(b"FULL") {
            return Ok(Self::Full);
        }
        let field = Field::VALKEY
            .into_iter()
            .find(|field| word.eq_ignore_ascii_case(field.texts().0));
        field.map(Self::One).ok_or(CommandError::INFORMATION)
    }
}

impl Command for Info {
    const NAME: &'static CStr = c"bf.info";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Returns information about a Bloom Filter",
        complexity: O_OF_LAYERS,
        since: c"1.0.0",
        parameters: &[&[
            KEY,
            Parameter::new(
                c"single_value",
                Kind::OneOf(&[
                    Parameter::word(c"capacity", c"CAPACITY"),
                    Parameter::word(c"size", c"SIZE"),
                    Parameter::word(c"filters", c"FILTERS"),
                    Parameter::word(c"items", c"ITEMS"),
                    Parameter::word(c"expansion", c"EXPANSION"),
                    Parameter::of_own(c"error", c"ERROR", Kind::Word),
                    Parameter::of_own(c"tightening", c"TIGHTENING", Kind::Word),
                    Parameter::of_own(c"maxscaledcapacity", c"MAXSCALEDCAPACITY", Kind::Word),
                    Parameter::of_own(c"full", c"FULL", Kind::Word),
                ]),
            )
            .optional(),
        ]],
    };
    const CACHEABLE: bool = false;

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let (key, selection) = match arguments {
            [key] => (key, Selection::Usual),
            [key, word] => (key, Selection::parse(word.bytes())?),
            _ => return Err(CommandError::Arity),
        };
        let key = keyspace::read(ctx, *key)?;
        let filter = key.filter().ok_or(CommandError::NOT_FOUND)?;
        if let Selection::One(field) = selection
            && !Field::of(filter).contains(&field)
        {
            return Err(CommandError::INFORMATION);
        }
        let now = window::now(filter);
        let (reply, totals) = (Reply(ctx), filter.totals_at(now));
        let is_valkey = filter.valkey_rules().is_some();
        match selection {
            // valkey-bloom replies without a map, and a single figure without an array.
            Selection::One(field) if is_valkey => field.reply_value(reply, filter, &totals),
            Selection::Usual if is_valkey => {
                let fields = Field::of(filter);
                reply.array(2 * fields.len());
                for field in fields {
                    reply.simple(field.texts().1);
                    field.reply_value(reply, filter, &totals);
                }
            }
            Selection::One(field) => {
                if reply.has_maps() {
                    reply.map(1);
                    field.reply_pair(reply, filter, &totals);
                } else {
                    reply.array(1);
                    field.reply_value(reply, filter, &totals);
                }
            }
            Selection::Usual => {
                reply.map(Field::FIVE.len());
                Field::FIVE
                    .into_iter()
                    .for_each(|field| field.reply_pair(reply, filter, &totals));
            }
            Selection::Full => full(reply, filter, now, &totals),
        }
        Ok(())
    }
}

/// Replies RedisBloom's five fields, and those that only this module has.
fn full(reply: Reply<'_>, filter: &Filter, now: Time, totals: &Totals) {
    let window = filter.window();
    let of_window = if window.is_some() { 3 } else { 0 };
    let rules = filter.valkey_rules();
    reply.map(Field::FIVE.len() + 8 + of_window + usize::from(rules.is_some()));
    Field::FIVE
        .into_iter()
        .for_each(|field| field.reply_pair(reply, filter, totals));
    Field::ErrorRate.reply_pair(reply, filter, totals);
    let layout = filter.layout();
    reply.field("Layout").bulk(layout.name().as_bytes());
    reply.bulk(b"Seed");
    match (filter.seed(), rules) {
        (Some(seed), _) => reply.bulk(seed.0.to_string().as_bytes()),
        (None, Some(rules)) => {
            let seed = rules.seed();
            let digits = few(seed.0.iter().map(|byte| format!("{byte:02x}"))).concat();
            reply.bulk(digits.as_bytes());
        }
        (None, None) => reply.null(),
    }
    if rules.is_some() {
        Field::Tightening.reply_pair(reply, filter, totals);
    }
    reply.field("Bits set").integer(totals.bits_set);
    reply.field("Fill ratio").double(totals.fill_ratio());
    reply
        .field("Estimated error rate")
        .double(filter.estimated_error_rate_at(now));
    reply.field("Exceptions").integer(filter.exceptions());
    if let Some(window) = window {
        reply.field("Window").integer(window.seconds().into());
        reply.field("Slices").integer(window.slices().into());
        reply.field("Refresh").boolean(window.refresh());
    }
    reply.bulk(b"Layers");
    let newest = totals.layers.min(LISTED_LAYERS);
    reply.array(newest);
    let older = filter.layers() - newest;
    let mut slices = slices_of_layers(filter).skip(older);
    for layer in filter.layer_stats().skip(older) {
        full_layer(reply, layout, &layer, slices.next().map(|(slice, _)| slice));
    }
}

fn full_layer(reply: Reply<'_>, layout: Layout, layer: &LayerStats, slice: Option<&Slice>) {
    reply.map(if slice.is_some() { 10 } else { 8 });
    reply.field("Layout").bulk(layout.name().as_bytes());
    let integers = [
        ("Capacity", layer.shape.capacity),
        ("Items", layer.items),
        ("Bytes", layer.shape.bytes),
        ("Bits set", layer.bits_set),
        ("Probes", layer.shape.probes),
    ];
    for (name, value) in integers {
        reply.field(name).integer(value);
    }
    // Only layers of the blocked layout have lines.
    reply.field("Lines").integer_if_any(layer.shape.lines_per_item);
    reply.field("Error rate").double(layer.shape.error_rate);
    if let Some(slice) = slice {
        reply.field("Opens").integer(slice.opens);
        reply.field("Closes").integer(slice.closes);
    }
}
