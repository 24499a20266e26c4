//! How the creation of a filter is propagated, and what else is not propagated in the words in which it came.
//!
//! Who made a filter says what it is. The creation of a blocked one is propagated with LAYOUT and SEED; that
//! of a classic one in the words that RedisBloom knows, so that a RedisBloom can follow, and is read by
//! [`redisbloom`](super::redisbloom); that of one in valkey-bloom's layout likewise in the words of a valkey-bloom, which
//! [`valkey`](super::valkey) reads. Where the key is to expire, [`expiry`] tells when: neither of the two reads that, so
//! that the layout is said too.

use std::ffi::CStr;

use super::adding::Target;
use super::creation::{Creation, FilterSpec};
use super::{expiry, window};
use crate::bloom::params::{ClassicSpec, ErrorRate, Growth, Layout, Spec, ValkeySpec};
use crate::options::values::LayoutName;
use crate::server::{Arg, Ctx, OwnedString};

/// Words of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<Vec<u8>>);

impl Words {
    /// With one word more.
    #[must_use]
    pub fn with(mut self, word: impl Into<Vec<u8>>) -> Self {
        self.0.push(word.into());
        self
    }

    /// With all of `more` after them.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// The words.
    pub fn list(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

/// Propagates the creation of an empty filter with everything resolved: the receiver's own configuration plays
/// no part.
pub fn replicate(ctx: Ctx<'_>, key: Arg<'_>, creation: Creation) {
    let (command, words) = creating(creation);
    propagate(ctx, command, key, &words, &[]);
}

/// The same of a filter that was created with `items` in it. It is one command, because two would make a
/// transaction, and servers up to Redis 7.0 and Valkey 8 that find the end of one cut off from their append-only
/// file lose with it what is written there later.
///
/// Or of items that changed a window, which are sent with their time.
pub fn replicate_with(ctx: Ctx<'_>, key: Arg<'_>, to: Target, items: &[Arg<'_>]) {
    propagate(ctx, c"BF.INSERT", key, &insert_words(to), items);
}

/// The command that makes exactly this filter with nothing in it, and what follows the key there.
pub fn creating(creation: Creation) -> (&'static CStr, Words) {
    let [rate, capacity] = size(creation.filter);
    let sized = Words::default().with(rate).with(capacity);
    let reserved = match creation.filter {
        FilterSpec::Blocked(spec) => sized.and(options(spec)),
        // It takes no expansion beside NONSCALING, and stores the usual one.
        FilterSpec::Classic(spec) if !spec.scales() && spec.expansion() > 0 => sized.with("NONSCALING"),
        FilterSpec::Classic(spec) => sized.and(factor(spec)),
        // Its BF.RESERVE says neither the seed nor the ratio.
        FilterSpec::Valkey(_) => return (c"BF.INSERT", created(creation)),
    };
    let words = reserved
        .and(exactly(creation))
        .and(expiry::words(creation.expires));
    (c"BF.RESERVE", words)
}

/// What stands between the key and the items in the BF.INSERT that makes exactly this filter, or changes the one that
/// is there.
pub fn insert_words(to: Target) -> Words {
    let key = match to.created {
        Some(creation) => created(creation),
        None => Words::default().with("NOCREATE"),
    };
    key.and(window::words(to.at)).with("ITEMS")
}

/// The filter that BF.INSERT makes of a missing key.
fn created(creation: Creation) -> Words {
    filter_words(creation.filter)
        .and(exactly(creation))
        .and(expiry::words(creation.expires))
}

/// What stands between the key and the form of the items in the BF.ADDPACKED that makes exactly this filter, which is
/// one of a client's of this module. Only this module reads it, so the layout is always said.
pub fn addpacked_words(creation: Creation) -> Words {
    let words = filter_words(creation.filter);
    let words = match creation.filter {
        FilterSpec::Blocked(_) => words,
        FilterSpec::Classic(_) | FilterSpec::Valkey(_) => words.and(layout(creation.filter.layout())),
    };
    words.and(expiry::words(creation.expires))
}

/// A filter in the words of BF.INSERT.
fn filter_words(filter: FilterSpec) -> Words {
    let [rate, capacity] = size(filter);
    let words = Words::default();
    let sized = words.with("ERROR").with(rate).with("CAPACITY").with(capacity);
    match filter {
        FilterSpec::Blocked(spec) => sized.and(options(spec)),
        FilterSpec::Classic(spec) if !spec.scales() && spec.expansion() > 0 => {
            sized.and(factor(spec)).with("NONSCALING")
        }
        FilterSpec::Classic(spec) => sized.and(factor(spec)),
        FilterSpec::Valkey(spec) => as_valkey_bloom_does(spec),
    }
}

/// A filter as a valkey-bloom tells its replicas of it, to the letter.
fn as_valkey_bloom_does(spec: ValkeySpec) -> Words {
    let words = Words::default()
        .with("CAPACITY")
        .with(spec.capacity().to_string())
        .with("ERROR")
        .with(spec.error_rate().to_string())
        .with("TIGHTENING")
        .with(spec.tightening().value().to_string())
        .with("SEED")
        .with(spec.seed().0);
    match spec.expansion() {
        0 => words.with("NONSCALING"),
        factor => words.with("EXPANSION").with(factor.to_string()),
    }
}

/// Propagates a command: after the key come `words` and `items`.
pub fn propagate(ctx: Ctx<'_>, command: &CStr, key: Arg<'_>, words: &Words, items: &[Arg<'_>]) {
    let words: Vec<_> = words.list().map(OwnedString::new).collect();
    let arguments: Vec<_> = std::iter::once(key)
        .chain(words.iter().map(OwnedString::arg))
        .chain(items.iter().copied())
        .collect();
    ctx.replicate(command, &arguments);
}

/// The error rate and the capacity as they are typed. The fewest digits that mean exactly this rate: RedisBloom
/// reads the same double.
fn size(filter: FilterSpec) -> [String; 2] {
    [
        format!("{:e}", filter.error_rate()),
        filter.capacity().to_string(),
    ]
}

/// The expansion of a classic filter as RedisBloom takes it; 0 makes one that does not grow.
fn factor(spec: ClassicSpec) -> Words {
    // Of a larger one RedisBloom keeps the lower 32 bits, which may be 0.
    let cut = if spec.scales() && spec.expansion() == 0 {
        1 << 32
    } else {
        0
    };
    let factor = cut + u64::from(spec.expansion());
    Words::default().with("EXPANSION").with(factor.to_string())
}

/// What keeps a rate that RedisBloom's versions read differently: no client's command makes such a filter.
/// And what keeps the layout where only this module reads the command.
fn exactly(creation: Creation) -> Words {
    match creation.filter {
        FilterSpec::Classic(spec)
            if spec.error_rate() > ErrorRate::HIGHEST_USED || creation.expires.is_some() =>
        {
            layout(LayoutName::Classic)
        }
        FilterSpec::Valkey(_) if creation.expires.is_some() => layout(LayoutName::Valkey),
        FilterSpec::Classic(_) | FilterSpec::Blocked(_) | FilterSpec::Valkey(_) => Words::default(),
    }
}

fn layout(layout: LayoutName) -> Words {
    Words::default().with("LAYOUT").with(layout.word())
}

/// The options of a blocked filter that leave nothing to a configuration. A word that a later version adds belongs
/// behind LAYOUT: who does not know it yet reads what comes before as RedisBloom does, by letters, and `I…` would end
/// the options there.
fn options(spec: Spec) -> Words {
    let mut words = match spec.growth {
        Growth::Fixed => Words::default().with("NONSCALING"),
        Growth::Reserved(expansion) | Growth::Growing(expansion) => Words::default()
            .with("EXPANSION")
            .with(expansion.factor().to_string()),
    };
    if matches!(spec.growth, Growth::Growing(_)) {
        words = words.with("GROWING");
    }
    if let Some(window) = spec.window {
        words = words
            .with("WINDOW")
            .with(window.seconds().to_string())
            .with("SLICES")
            .with(window.slices().to_string());
        if window.refresh() {
            words = words.with("REFRESH");
        }
    }
    words = words.and(layout(spec.layout.into()));
    match spec.layout {
        Layout::Blocked { seed } => words.with("SEED").with(seed.0.to_string()),
        Layout::Classic | Layout::Valkey { .. } => words,
    }
}
