//! What a command answers when it cannot do what was asked: every text on the wire, once.

use std::ffi::CStr;
use std::fmt;

use crate::bloom::Error;
use crate::bloom::chain::MOST_ITEMS;
use crate::bloom::chain::window::MOST_SLICES;
use crate::bloom::codec::DecodeError;
use crate::bloom::exceptions::MOST_EXCEPTIONS;
use crate::bloom::packed::Malformed;
use crate::bloom::params::{Capacity, ErrorRate, Expansion, LATEST, Window};
use crate::bloom::sets::Mismatch;
use crate::bloom::valkey::MOST_FORETOLD;
use crate::keyspace::WrongType;
use crate::number;
use crate::options::values::LayoutName;
use crate::server::shown::shown;

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// Too few or too many arguments; the server has the text.
    Arity,
    /// The key holds a value of another type.
    WrongType,
    /// There is no such key.
    NotFound,
    /// The key exists.
    Exists,
    /// The error rate is no number.
    BadErrorRate,
    /// The error rate is out of its range.
    ErrorRateRange,
    /// The capacity is no number.
    BadCapacity,
    /// The capacity is out of its range.
    CapacityRange,
    /// The word EXPANSION is the last one.
    NoExpansion,
    /// The expansion is no number.
    BadExpansion,
    /// The expansion is out of its range.
    ExpansionRange,
    /// BF.INSERT: the error rate is no number, or out of its range.
    BadInsertErrorRate,
    /// BF.INSERT: the capacity is no number, or out of its range.
    BadInsertCapacity,
    /// BF.INSERT: the expansion is no number, or out of its range.
    BadInsertExpansion,
    /// The seed is no number.
    BadSeed,
    /// The seed is out of its range.
    SeedRange,
    /// The layout is none.
    BadLayout,
    /// An option that filters of these layouts have, for one of another.
    OnlyFor(&'static str, &'static [LayoutName]),
    /// The same where no layout was given, and the one of the module's options is this one.
    OnlyForByOption(&'static str, &'static [LayoutName], LayoutName),
    /// The tightening ratio is no number.
    BadTightening,
    /// The tightening ratio is out of its range.
    TighteningRange,
    /// What a filter is to grow to is no number.
    BadGoal,
    /// What a filter is to grow to is out of its range.
    GoalRange,
    /// A filter would be too large before it has grown as far as was asked for.
    GoalBytes,
    /// The rate of a filter's layers would be 0 before it has grown as far as was asked for.
    GoalRate,
    /// With the layer after the last that is too small for it, the filter would be for more items than can be counted.
    GoalItems,
    /// The filter would have more layers than is foretold.
    GoalLayers,
    /// An option that takes a value is the last word.
    NoValue(&'static str),
    /// NONSCALING with an expansion.
    NonScalingExpansion,
    /// Two options of which there may be one.
    Exclusive(&'static str, &'static str),
    /// A word for filters that grow where no expansion was given, and the one of the module's options is 0.
    FixedByOption(&'static str),
    /// The window is no number.
    BadWindow,
    /// The window is out of its range.
    WindowRange,
    /// The number of slices is none.
    BadSlices,
    /// The number of slices is out of its range.
    SlicesRange,
    /// A word about a window where there is none.
    NeedsWindow(&'static str),
    /// BF.ROTATE of a filter without a window.
    NoWindow,
    /// BF.ROTATE where there are too many slices.
    TooManySlices,
    /// A word that is no option, as it is shown.
    Unknown(String),
    /// An option that was given before.
    Twice(&'static str),
    /// A time is no number of 64 bits.
    NoInteger,
    /// A time to expire is none, for this command.
    ExpireTime(&'static CStr),
    /// Packed items without a form, or with more than one.
    OneForm,
    /// The width of packed items is no number.
    BadWidth,
    /// The width of packed items is out of its range.
    WidthRange,
    /// The data holds no items in their form.
    Malformed(Malformed),
    /// Why one of some packed items was not taken, and how many were before it.
    After(Box<Self>, usize),
    /// The time of a change is no number.
    BadTime,
    /// The time of a change is out of its range.
    TimeRange,
    /// There is no room for the answers.
    NoMemoryToAnswer,
    /// BF.INFO: no such field.
    Information,
    /// BF.SCANDUMP: the iterator is no number.
    ScanIterator,
    /// BF.LOADCHUNK: the iterator is no number.
    LoadIterator,
    /// BF.LOAD: the key exists.
    Busy,
    /// BF.LOAD: why the data is no filter.
    BadData(DecodeError),
    /// BF.LOADCHUNK: the header is none, or the iterator.
    BadHeader,
    /// BF.LOADCHUNK: the chunk starts in no layer.
    ChunkOffset,
    /// BF.LOADCHUNK: the chunk ends beyond its layer.
    ChunkLength,
    /// A filter that may not grow is full.
    Full,
    /// A filter that grows can have no further layer.
    FullForGood,
    /// There is no room for a new filter.
    NoMemoryToCreate,
    /// There is no room for a further layer.
    NoMemoryToGrow,
    /// There is no room for exceptions.
    NoMemoryToExcept,
    /// The number of sources is no number.
    BadNumkeys,
    /// The number of sources is below 1.
    NumkeysRange,
    /// There are fewer sources than their number says.
    FewerSources,
    /// A source is missing, which is shown.
    NoSource(String),
    /// Filters that cannot be combined.
    Mismatch {
        /// Which of them this is, of the sources and the destination.
        role: &'static str,
        /// Its key, as it is shown.
        key: String,
        /// What is in the way.
        why: Mismatch,
    },
    /// The layers of all sources together have too high an error rate.
    RateOfLayers {
        /// The sum of their rates.
        sum: f64,
        /// The rate that would do, if one does.
        would_do: Option<ErrorRate>,
    },
    /// The same of classic filters.
    RateOfClassicLayers {
        /// The sum of their rates.
        sum: f64,
        /// The rate of the result.
        rate: f64,
    },
    /// BF.EXCEPT of a classic filter.
    ExceptionsOfForeign,
    /// The filter has so many exceptions, and could not have all of these.
    TooManyExceptions(u64),
    /// A bug, which the log tells about.
    Internal,
}

impl CommandError {
    /// An unknown word.
    pub fn unknown(word: &[u8]) -> Self {
        Self::Unknown(if word.is_empty() {
            "''".to_owned()
        } else {
            shown(word)
        })
    }

    /// The error for a layout that nobody typed: the option's.
    pub fn by_layout_option(self, layout: LayoutName) -> Self {
        match self {
            Self::OnlyFor(option, layouts) => Self::OnlyForByOption(option, layouts, layout),
            other => other,
        }
    }

    /// Why a filter could not be made.
    pub fn of_creation(_: Error) -> Self {
        Self::NoMemoryToCreate
    }

    /// Why a filter could not take an item.
    pub fn of_add(error: Error) -> Self {
        match error {
            Error::Full { .. } => Self::Full,
            Error::OverLimit { .. } | Error::OutOfMemory { .. } => Self::NoMemoryToGrow,
        }
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> Self {
        Self::WrongType
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Arity => "ERR wrong number of arguments",
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::NotFound => "ERR not found",
            Self::Exists => "ERR item exists",
            Self::BadErrorRate => "ERR bad error rate",
            Self::ErrorRateRange => "ERR error rate must be in the range (0.000000, 1.000000)",
            Self::BadCapacity => "ERR bad capacity",
            Self::CapacityRange => {
                return write!(f, "ERR capacity must be in the range [1, {}]", Capacity::MAX);
            }
            Self::NoExpansion => "ERR no expansion",
            Self::BadExpansion => "ERR bad expansion",
            Self::ExpansionRange => {
                return write!(f, "ERR expansion must be in the range [0, {}]", Expansion::MAX);
            }
            Self::BadInsertErrorRate => "Bad error rate",
            Self::BadInsertCapacity => "Bad capacity",
            Self::BadInsertExpansion => "Bad expansion",
            Self::BadSeed => "ERR bad seed",
            Self::SeedRange => return write!(f, "ERR seed must be in the range [0, {}]", u64::MAX),
            Self::BadLayout => "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY",
            Self::OnlyFor(option, layouts) => {
                let layouts: Vec<_> = layouts.iter().map(|layout| layout.word()).collect();
                let layouts = layouts.join(" or ");
                return write!(f, "ERR {option} is for LAYOUT {layouts} only");
            }
            Self::OnlyForByOption(option, layouts, by_option) => {
                let (error, layout) = (Self::OnlyFor(option, layouts), by_option.name());
                return write!(f, "{error}, and bf-layout is {layout}");
            }
            Self::BadTightening => "ERR bad tightening ratio",
            Self::TighteningRange => "ERR tightening ratio must be in the range (0, 1)",
            Self::BadGoal => "ERR bad VALIDATESCALETO",
            Self::GoalRange => {
                return write!(f, "ERR VALIDATESCALETO must be in the range [1, {}]", i64::MAX);
            }
            Self::GoalBytes => "ERR the filter cannot grow to VALIDATESCALETO within bf-max-filter-bytes",
            Self::GoalRate => "ERR the filter cannot grow to VALIDATESCALETO: its error rate would be 0",
            Self::GoalItems => {
                return write!(
                    f,
                    "ERR the filter cannot grow to VALIDATESCALETO: its capacity would be above {MOST_ITEMS}"
                );
            }
            Self::GoalLayers => {
                return write!(
                    f,
                    "ERR the filter cannot grow to VALIDATESCALETO with {MOST_FORETOLD} layers: a larger CAPACITY or \
                     EXPANSION needs fewer"
                );
            }
            Self::NoValue(option) => return write!(f, "ERR no value for {option}"),
            Self::NonScalingExpansion => "Nonscaling filters cannot expand",
            Self::Exclusive(one, other) => return write!(f, "ERR {one} and {other} exclude each other"),
            Self::FixedByOption(option) => {
                return write!(
                    f,
                    "ERR {option} needs an EXPANSION above 0: bf-expansion-factor is 0"
                );
            }
            Self::BadWindow => "ERR bad window",
            Self::WindowRange => {
                return write!(f, "ERR window must be in the range [0, {}]", Window::MAX_SECONDS);
            }
            Self::BadSlices => "ERR bad slices",
            Self::SlicesRange => {
                let (fewest, most) = (Window::SLICES.start(), Window::SLICES.end());
                return write!(f, "ERR slices must be in the range [{fewest}, {most}]");
            }
            Self::NeedsWindow(option) => return write!(f, "ERR {option} is for filters with a WINDOW only"),
            Self::NoWindow => "ERR the filter has no WINDOW",
            Self::TooManySlices => {
                return write!(
                    f,
                    "ERR the filter has {MOST_SLICES} slices that are not over, and can have no more"
                );
            }
            Self::Unknown(word) => return write!(f, "ERR Unknown argument received: {word}"),
            Self::Twice(option) => return write!(f, "ERR {option} was given twice"),
            Self::NoInteger => "ERR value is not an integer or out of range",
            Self::ExpireTime(command) => {
                let command = command.to_string_lossy();
                return write!(f, "ERR invalid expire time in '{command}' command");
            }
            Self::OneForm => "ERR the form of the items must be one of LINES, WIDTH and PREFIXED",
            Self::BadWidth => "ERR bad width",
            Self::WidthRange => return write!(f, "ERR width must be in the range [1, {}]", u32::MAX),
            Self::Malformed(Malformed::Width { bytes, width }) => {
                return write!(f, "ERR {bytes} bytes of data are no multiple of WIDTH {width}");
            }
            Self::Malformed(Malformed::Length { at }) => {
                return write!(f, "ERR there is no whole item at byte {at} of the data");
            }
            Self::After(error, items) => return write!(f, "{error} after {items} items"),
            Self::BadTime => "ERR bad time",
            Self::TimeRange => return write!(f, "ERR time must be in the range [0, {LATEST}]"),
            Self::NoMemoryToAnswer => "ERR Insufficient memory to answer",
            Self::Information => "Invalid information value",
            Self::ScanIterator => "Second argument must be numeric",
            Self::LoadIterator => "ERR Second argument must be numeric",
            Self::Busy => "BUSYKEY Target key name already exists.",
            Self::BadData(why) => return write!(f, "ERR bad data: {why}"),
            Self::BadHeader => "ERR received bad data",
            Self::ChunkOffset => "ERR invalid offset - no link found",
            Self::ChunkLength => "ERR invalid chunk - Too big for current filter",
            Self::Full => "ERR non scaling filter is full",
            Self::FullForGood => {
                "ERR the filter is full: a further layer would have an error rate of 0, or a capacity beyond counting"
            }
            Self::NoMemoryToCreate => "ERR Insufficient memory to create filter",
            Self::NoMemoryToGrow => "ERR Insufficient memory to grow filter",
            Self::NoMemoryToExcept => "ERR Insufficient memory for exceptions",
            Self::BadNumkeys => "ERR bad numkeys",
            Self::NumkeysRange => "ERR numkeys must be greater than 0",
            Self::FewerSources => "ERR there are fewer sources than numkeys says",
            Self::NoSource(key) => return write!(f, "ERR source {key} not found"),
            Self::Mismatch { role, key, why } => {
                let why = match why {
                    Mismatch::Seed => {
                        "another seed: only filters of one seed can be combined (SEED, or one bf-seed on all servers)"
                    }
                    Mismatch::Layout => "another layout",
                    Mismatch::Never => "LAYOUT VALKEY: such filters are never combined",
                    Mismatch::HashWidth => "hashes of another width",
                    Mismatch::Window => "a WINDOW: its layers go in time",
                    Mismatch::Shape => {
                        "another shape: BF.INTERSECT takes filters of one layer, made for one capacity and error rate"
                    }
                };
                return write!(f, "ERR {role} {key} has {why}");
            }
            Self::RateOfLayers { sum, would_do } => {
                let sum = rounded(*sum);
                let rate = would_do.map_or("no ERROR".to_owned(), |rate| {
                    format!("ERROR {}", number::short(rate.value()))
                });
                return write!(
                    f,
                    "ERR the error rates of the layers sum to {sum}: {rate} would do"
                );
            }
            Self::RateOfClassicLayers { sum, rate } => {
                let [sum, rate] = [sum, rate].map(|rate| rounded(*rate));
                return write!(
                    f,
                    "ERR the error rates of the layers sum to {sum}, above {rate}: classic filters merge only where \
                     their layers are of one shape and have room"
                );
            }
            Self::ExceptionsOfForeign => "ERR exceptions are for LAYOUT BLOCKED only",
            Self::TooManyExceptions(exceptions) => {
                return write!(
                    f,
                    "ERR the filter has {exceptions} exceptions, and can have no more than {MOST_EXCEPTIONS}"
                );
            }
            Self::Internal => "ERR internal error, see the server's log",
        };
        f.write_str(text)
    }
}

/// A rate with three digits that mean something.
fn rounded(rate: f64) -> String {
    let rounded = format!("{rate:.2e}").parse().unwrap_or(rate);
    number::short(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user would read digits that are an accident of the sum, or look for the rate that would do in another form
    /// than the command takes.
    #[test]
    fn rates_have_the_digits_that_a_user_types() {
        let text = |sum, would_do: Option<f64>| {
            let would_do = would_do.map(|rate| ErrorRate::new(rate).unwrap());
            CommandError::RateOfLayers { sum, would_do }.to_string()
        };
        assert_eq!(
            text(0.008 + 0.008 + 1e-17, Some(0.02)),
            "ERR the error rates of the layers sum to 0.016: ERROR 0.02 would do"
        );
        assert_eq!(
            text(0.1 + 0.2, None),
            "ERR the error rates of the layers sum to 0.3: no ERROR would do"
        );
        assert_eq!(
            text(1.2345e-9, Some(1.3e-9)),
            "ERR the error rates of the layers sum to 1.23e-9: ERROR 1.3e-9 would do"
        );
        let (sum, rate) = (0.005 + 0.0025 + 0.0051, 0.01);
        assert_eq!(
            CommandError::RateOfClassicLayers { sum, rate }.to_string(),
            "ERR the error rates of the layers sum to 0.0126, above 0.01: classic filters merge only where their layers \
             are of one shape and have room"
        );
    }
}
