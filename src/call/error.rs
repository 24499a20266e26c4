//! The errors that commands reply: every text on the wire, once.

use std::ffi::CStr;
use std::fmt;

use crate::keyspace::Unopened;
use crate::limits::{MOST_LOOKUPS, TooManyLookups};
use crate::number;
use crate::server::shown::shown;
use libbloom::Error;
use libbloom::Layout;
use libbloom::chain::{MOST_ITEMS, MOST_LAYERS};
use libbloom::codec::DecodeError;
use libbloom::exceptions::MOST_EXCEPTIONS;
use libbloom::packed::Malformed;
use libbloom::params::{Capacity, ErrorRate, Expansion, LATEST, Window};
use libbloom::sets::MOST_ASKED;
use libbloom::sets::Mismatch;

/// An error that a command replies.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// Too few or too many arguments; the text is the server's.
    Arity,
    /// The key holds a value of another type.
    WrongType,
    /// The key may not be changed while a save without a fork reads its value.
    BeingSaved,
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
    /// The layout's name is unknown.
    BadLayout,
    /// An option that only filters of certain layouts have.
    OnlyFor {
        /// The option.
        option: &'static str,
        /// The layouts.
        layouts: &'static str,
        /// The layout of the filter if it is not the command that says it, but the module's option.
        configured: Option<Layout>,
    },
    /// The token of a server is malformed, or of a later version.
    BadSpec,
    /// The tightening ratio is no number.
    BadTightening,
    /// The tightening ratio is out of its range.
    TighteningRange,
    /// VALIDATESCALETO is no number.
    BadGoal,
    /// VALIDATESCALETO is out of its range.
    GoalRange,
    /// The filter would be above the size limit before it has grown to VALIDATESCALETO.
    GoalBytes,
    /// The error rate of a layer would be 0 before the filter has grown to VALIDATESCALETO.
    GoalRate,
    /// Growing to VALIDATESCALETO would give the filter a capacity above what can be counted.
    GoalItems,
    /// Growing to VALIDATESCALETO would need more than the most layers.
    GoalLayers,
    /// An option that needs a value is the last word.
    NoValue(&'static str),
    /// NONSCALING together with an expansion.
    NonScalingExpansion,
    /// Two options that exclude each other.
    Exclusive(&'static str, &'static str),
    /// An option for filters that grow, while the module's option for the expansion is 0.
    FixedByOption(&'static str),
    /// The window is no number.
    BadWindow,
    /// The window is out of its range.
    WindowRange,
    /// The number of slices is no number.
    BadSlices,
    /// The number of slices is out of its range.
    SlicesRange,
    /// An option for filters with a window, without WINDOW.
    NeedsWindow(&'static str),
    /// A word that is no option, escaped and shortened.
    Unknown(String),
    /// An option that was given twice.
    Twice(&'static str),
    /// A time to expire is no number of 64 bits.
    NoInteger,
    /// A time to expire is invalid in this command.
    ExpireTime(&'static CStr),
    /// Packed items without a form, or with more than one.
    OneForm,
    /// The width of packed items is no number.
    BadWidth,
    /// The width of packed items is out of its range.
    WidthRange,
    /// The data does not have the given form.
    Malformed(Malformed),
    /// The error at one of several packed items, and how many items came before it.
    After(Box<Self>, usize),
    /// The time of a change is no number.
    BadTime,
    /// The time of a change is out of its range.
    TimeRange,
    /// There is no memory for the answers.
    NoMemoryToAnswer,
    /// BF.INFO: no such field.
    Information,
    /// BF.SCANDUMP: the iterator is no number.
    ScanIterator,
    /// BF.LOADCHUNK: the iterator is no number.
    LoadIterator,
    /// BF.LOAD: the key exists.
    Busy,
    /// BF.LOAD: the data is no filter.
    BadData(DecodeError),
    /// BF.LOADCHUNK: the header is invalid, or the iterator.
    BadHeader,
    /// BF.LOADCHUNK: the chunk starts outside of every layer.
    ChunkOffset,
    /// BF.LOADCHUNK: the chunk ends beyond its layer.
    ChunkLength,
    /// A filter that may not grow is full.
    Full,
    /// A filter that grows can have no further layer: its error rate would be 0, or its capacity too large.
    FullForGood,
    /// A client's filter has the most layers already.
    TooManyLayers,
    /// There is no memory for a new filter.
    NoMemoryToCreate,
    /// There is no memory for a further layer.
    NoMemoryToGrow,
    /// There is no memory for exceptions.
    NoMemoryToExcept,
    /// The number of sources is no number.
    BadNumkeys,
    /// The number of sources is below 1.
    NumkeysRange,
    /// There are fewer sources than their number says.
    FewerSources,
    /// A source is missing: its key, escaped and shortened.
    NoSource(String),
    /// Filters that cannot be combined.
    Mismatch {
        /// Which of them has the mismatch: a source, or the destination.
        role: &'static str,
        /// The key of that filter, escaped and shortened.
        key: String,
        /// The mismatch.
        why: Mismatch,
    },
    /// The layers of all sources together have too high an error rate.
    RateOfLayers {
        /// The sum of their rates.
        sum: f64,
        /// An error rate for the result that would be high enough, if there is one.
        enough: Option<ErrorRate>,
    },
    /// BF.EXCEPT: the filter is not in this module's layout.
    ExceptionsOfForeign,
    /// Filters with a window have no exceptions.
    ExceptionsOfWindow,
    /// BF.SHRINK of a filter with a window.
    ShrinkingWindow,
    /// BF.SHRINK of a filter in valkey-bloom's layout.
    ShrinkingValkey,
    /// There is no memory for the smaller layers.
    NoMemoryToShrink,
    /// The filter has this many exceptions, and not enough room for the new ones.
    TooManyExceptions(u64),
    /// Looking up so many items in so many layers would take too long.
    TooManyLookups(TooManyLookups),
    /// The combined filters have too many exceptions for the number of their layers: querying every layer for each
    /// would take too long.
    TooManyToAsk {
        /// The number of exceptions in all combined filters.
        exceptions: u64,
        /// The number of layers in all combined filters.
        layers: u64,
    },
    /// A panic, which is in the log.
    Internal,
}

impl CommandError {
    /// The error for an unknown word.
    pub fn unknown(word: &[u8]) -> Self {
        Self::Unknown(if word.is_empty() {
            "''".to_owned()
        } else {
            shown(word)
        })
    }

    /// The reply to a creation that failed.
    pub fn of_creation(error: Error) -> Self {
        match error {
            Error::TooManyLayers { .. } => Self::TooManyLayers,
            Error::Full { .. } | Error::OverLimit { .. } | Error::OutOfMemory { .. } => {
                Self::NoMemoryToCreate
            }
        }
    }

    /// The reply to an item that could not be added.
    pub fn of_add(error: Error) -> Self {
        match error {
            Error::Full { .. } => Self::Full,
            Error::TooManyLayers { .. } => Self::TooManyLayers,
            Error::OverLimit { .. } | Error::OutOfMemory { .. } => Self::NoMemoryToGrow,
        }
    }
}

impl From<TooManyLookups> for CommandError {
    fn from(why: TooManyLookups) -> Self {
        Self::TooManyLookups(why)
    }
}

impl From<Unopened> for CommandError {
    fn from(why: Unopened) -> Self {
        match why {
            Unopened::WrongType => Self::WrongType,
            Unopened::BeingSaved => Self::BeingSaved,
            Unopened::Missing => Self::NotFound,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Arity => "ERR wrong number of arguments",
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::BeingSaved => "TRYAGAIN the key is being saved",
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
            Self::OnlyFor {
                option,
                layouts,
                configured,
            } => {
                write!(f, "ERR {option} is for LAYOUT {layouts} only")?;
                return match configured {
                    Some(layout) => write!(f, ", and bf-layout is {}", layout.name()),
                    None => Ok(()),
                };
            }
            Self::BadSpec => "ERR bad SPEC: not a filter that this version of the module knows",
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
                    "ERR the filter cannot grow to VALIDATESCALETO with {MOST_LAYERS} layers: a larger CAPACITY or \
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
            Self::BadWindow => "ERR bad window: not a whole number of seconds",
            Self::WindowRange => {
                return write!(f, "ERR window must be in the range [1, {}]", Window::MAX_SECONDS);
            }
            Self::BadSlices => "ERR bad slices",
            Self::SlicesRange => {
                let (fewest, most) = (Window::SLICES.start(), Window::SLICES.end());
                return write!(f, "ERR slices must be in the range [{fewest}, {most}]");
            }
            Self::NeedsWindow(option) => return write!(f, "ERR {option} is for filters with a WINDOW only"),
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
                "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity"
            }
            Self::TooManyLayers => {
                return write!(
                    f,
                    "ERR the filter would have more than {MOST_LAYERS} layers: with a larger capacity or EXPANSION it needs \
                     fewer"
                );
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
                    Mismatch::Layout => {
                        "another layout or a WINDOW: only filters of LAYOUT BLOCKED without a WINDOW can be combined"
                    }
                    Mismatch::Shape => {
                        "another shape: BF.INTERSECT needs filters of one layer, made for one capacity and error rate"
                    }
                };
                return write!(f, "ERR {role} {key} has {why}");
            }
            Self::RateOfLayers { sum, enough } => {
                let sum = rounded(*sum);
                return match enough {
                    Some(rate) => {
                        let rate = number::short(rate.value());
                        write!(
                            f,
                            "ERR the error rates of the layers sum to {sum}: use ERROR {rate} or more"
                        )
                    }
                    None => write!(
                        f,
                        "ERR the error rates of the layers sum to {sum}: no ERROR is enough"
                    ),
                };
            }
            Self::ExceptionsOfForeign => "ERR exceptions are for LAYOUT BLOCKED only",
            Self::ExceptionsOfWindow => "ERR a filter with a WINDOW has no exceptions",
            Self::ShrinkingWindow => "ERR a filter with a WINDOW is not shrunk: its layers expire",
            Self::ShrinkingValkey => "ERR BF.SHRINK is for LAYOUT BLOCKED or CLASSIC only",
            Self::NoMemoryToShrink => "ERR Insufficient memory to shrink filter",
            Self::TooManyExceptions(exceptions) => {
                return write!(
                    f,
                    "ERR the filter has {exceptions} exceptions, and can have no more than {MOST_EXCEPTIONS}"
                );
            }
            Self::TooManyLookups(TooManyLookups { items, layers }) => {
                return write!(
                    f,
                    "ERR looking up {items} items in {layers} layers would take too long: the product may be \
                     {MOST_LOOKUPS} at most"
                );
            }
            Self::TooManyToAsk { exceptions, layers } => {
                return write!(
                    f,
                    "ERR looking up {exceptions} exceptions in {layers} layers would take too long: the product may be \
                     {MOST_ASKED} at most"
                );
            }
            Self::Internal => "ERR internal error, see the server's log",
        };
        f.write_str(text)
    }
}

/// A rate rounded to three significant digits.
fn rounded(rate: f64) -> String {
    let rounded = format!("{rate:.2e}").parse().unwrap_or(rate);
    number::short(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user reads no digits that are an accident of the sum, and a rate in a form that the command accepts.
    #[test]
    fn rates_have_the_digits_that_a_user_types() {
        let text = |sum, enough: Option<f64>| {
            let enough = enough.map(|rate| ErrorRate::new(rate).unwrap());
            CommandError::RateOfLayers { sum, enough }.to_string()
        };
        assert_eq!(
            text(0.008 + 0.008 + 1e-17, Some(0.02)),
            "ERR the error rates of the layers sum to 0.016: use ERROR 0.02 or more"
        );
        assert_eq!(
            text(0.1 + 0.2, None),
            "ERR the error rates of the layers sum to 0.3: no ERROR is enough"
        );
        assert_eq!(
            text(1.2345e-9, Some(1.3e-9)),
            "ERR the error rates of the layers sum to 1.23e-9: use ERROR 1.3e-9 or more"
        );
    }
}
