//! `BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | FULL]`

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::docs::{Docs, KEY, Kind, O_OF_LAYERS, Parameter, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::{Call, Command};
use crate::bloom::Filter;
use crate::bloom::chain::window::slices::Span;
use crate::bloom::filter::{LayerStats, Totals};
use crate::keyspace;
use crate::options::values::LayoutName;

/// The newest layers that are described one by one. More have only filters of expansion 1, and there are a
/// quarter of a million at times: a reply of all of them would take a second. BF.DEBUG, which is not flagged as
/// fast, lists them.
const LISTED_LAYERS: usize = 1000;

/// The figures of a filter, all from counts that are kept: O(layers).
pub struct Info;

/// A figure that clients know. There must never be a sixth: typed clients refuse unknown names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Capacity,
    Size,
    Filters,
    Items,
    Expansion,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    Five,
    One(Field),
    Full,
}

impl Field {
    const ALL: [Self; 5] = [
        Self::Capacity,
        Self::Size,
        Self::Filters,
        Self::Items,
        Self::Expansion,
    ];

    fn word(self) -> &'static [u8] {
        match self {
            Self::Capacity => b"CAPACITY",
            Self::Size => b"SIZE",
            Self::Filters => b"FILTERS",
            Self::Items => b"ITEMS",
            Self::Expansion => b"EXPANSION",
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            Self::Capacity => b"Capacity",
            Self::Size => b"Size",
            Self::Filters => b"Number of filters",
            Self::Items => b"Number of items inserted",
            Self::Expansion => b"Expansion rate",
        }
    }

    fn reply_value(self, reply: Reply<'_>, filter: &Filter, totals: &Totals) {
        match self {
            Self::Capacity => reply.integer(totals.capacity),
            Self::Size => reply.integer(filter.bytes()),
            Self::Filters => reply.integer(totals.layers as u64),
            Self::Items => reply.integer(totals.items),
            Self::Expansion => reply.integer_if_any(filter.expansion().map(u64::from)),
        }
    }

    fn reply_pair(self, reply: Reply<'_>, filter: &Filter, totals: &Totals) {
        reply.bulk(self.name());
        self.reply_value(reply, filter, totals);
    }
}

impl Selection {
    pub(super) fn parse(word: &[u8]) -> Result<Self, CommandError> {
        if word.eq_ignore_ascii_case(b"FULL") {
            return Ok(Self::Full);
        }
        let field = Field::ALL
            .into_iter()
            .find(|field| word.eq_ignore_ascii_case(field.word()));
        field.map(Self::One).ok_or(CommandError::Information)
    }
}

impl Command for Info {
    const NAME: &'static CStr = c"bf.info";
    const FLAGS: &'static CStr = c"readonly fast";
    const CATEGORIES: &'static CStr = c"read fast";
    const DOCS: Docs = Docs {
        summary: c"Returns information about a Bloom Filter",
        complexity: O_OF_LAYERS,
        since: c"1.0.0",
        parameters: &[
            KEY,
            Parameter::new(
                c"single_value",
                Kind::OneOf(&[
                    Parameter::word(c"capacity", c"CAPACITY"),
                    Parameter::word(c"size", c"SIZE"),
                    Parameter::word(c"filters", c"FILTERS"),
                    Parameter::word(c"items", c"ITEMS"),
                    Parameter::word(c"expansion", c"EXPANSION"),
                    Parameter::word(c"full", c"FULL").since(SINCE_OWN),
                ]),
            )
            .optional(),
        ],
        cacheable: false,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let mut cursor = Cursor::new(arguments);
        let key = cursor.take()?;
        let word = cursor.take_if_any();
        cursor.finish()?;
        let selection = word.map_or(Ok(Selection::Five), |word| {
            Selection::parse(Argument::bytes(word))
        })?;
        let key = keyspace::read(ctx, key)?;
        let filter = key.filter().ok_or(CommandError::NotFound)?;
        let (reply, totals) = (Reply(ctx), filter.totals());
        match selection {
            Selection::One(field) => {
                if reply.has_maps() {
                    reply.map(1);
                    field.reply_pair(reply, filter, &totals);
                } else {
                    reply.array(1);
                    field.reply_value(reply, filter, &totals);
                }
            }
            Selection::Five => {
                reply.map(Field::ALL.len());
                Field::ALL
                    .into_iter()
                    .for_each(|field| field.reply_pair(reply, filter, &totals));
            }
            Selection::Full => full(reply, filter, &totals),
        }
        Ok(())
    }
}

/// The five, and what only this module has.
fn full(reply: Reply<'_>, filter: &Filter, totals: &Totals) {
    let window = filter.window();
    reply.map(Field::ALL.len() + if window.is_some() { 11 } else { 8 });
    Field::ALL
        .into_iter()
        .for_each(|field| field.reply_pair(reply, filter, totals));
    reply.bulk(b"Error rate");
    reply.double(filter.error_rate());
    let layout = LayoutName::from(filter.layout());
    reply.bulk(b"Layout");
    reply.bulk(layout.name().as_bytes());
    reply.bulk(b"Seed");
    match filter.seed() {
        Some(seed) => reply.bulk(seed.0.to_string().as_bytes()),
        None => reply.null(),
    }
    reply.bulk(b"Bits set");
    reply.integer(totals.bits_set);
    reply.bulk(b"Fill ratio");
    reply.double(totals.fill_ratio());
    reply.bulk(b"Estimated error rate");
    reply.double(filter.estimated_error_rate());
    reply.bulk(b"Exceptions");
    reply.integer(filter.exceptions());
    if let Some(window) = window {
        reply.bulk(b"Window");
        reply.integer(window.seconds().into());
        reply.bulk(b"Slices");
        reply.integer(window.slices().into());
        reply.bulk(b"Refresh");
        reply.boolean(window.refresh());
    }
    reply.bulk(b"Layers");
    let newest = totals.layers.min(LISTED_LAYERS);
    reply.array(newest);
    let layers = filter.layer_stats().enumerate();
    for (index, layer) in layers.skip(filter.layers() - newest) {
        full_layer(reply, layout, &layer, filter.spans().get(index));
    }
}

fn full_layer(reply: Reply<'_>, layout: LayoutName, layer: &LayerStats, span: Option<&Span>) {
    reply.map(if span.is_some() { 10 } else { 8 });
    reply.bulk(b"Layout");
    reply.bulk(layout.name().as_bytes());
    let integers = [
        ("Capacity", layer.capacity()),
        ("Items", layer.items),
        ("Bytes", layer.bytes()),
        ("Bits set", layer.bits_set),
        ("Probes", layer.shape.probes()),
    ];
    for (name, value) in integers {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    // How many lines an item has is a figure of the blocked layout.
    reply.bulk(b"Lines");
    reply.integer_if_any(layer.shape.lines());
    reply.bulk(b"Error rate");
    reply.double(layer.error_rate());
    if let Some(span) = span {
        reply.bulk(b"First time");
        reply.integer(span.first);
        reply.bulk(b"Last time");
        reply.integer_if_any((span.end != Span::OPEN).then(|| span.end.saturating_sub(1)));
    }
}
