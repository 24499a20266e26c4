//! The errors that commands reply: every text on the wire, once.

use std::ffi::CStr;
use std::fmt;

use crate::keyspace::Unopened;
use crate::limits::{MOST_LOOKUPS, TooManyLookups};
use crate::number;
use crate::server::shown::shown;
use libbloom::chain::{MOST_ITEMS, MOST_LAYERS};
use libbloom::codec::DecodeError;
use libbloom::exceptions::MOST_EXCEPTIONS;
use libbloom::packed::Malformed;
use libbloom::params::ErrorRate;
use libbloom::sets::{MOST_ASKED, Mismatch};
use libbloom::{Error, Layout};

/// An error that a command replies.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "`Display` says what they mean")]
pub enum CommandError {
    /// A text that is always the same.
    Text(&'static str),
    /// What is given is no number.
    Bad(&'static str),
    Range {
        what: &'static str,
        least: u64,
        most: u64,
    },
    /// Too few or too many arguments; the text is the server's.
    Arity,
    /// An option that only filters of certain layouts have.
    OnlyFor {
        option: &'static str,
        layouts: &'static str,
        /// The layout of the filter if it is not the command that says it, but the module's option.
        configured: Option<Layout>,
    },
    GoalItems,
    GoalLayers,
    NoValue(&'static str),
    Exclusive(&'static str, &'static str),
    FixedByOption(&'static str),
    NeedsWindow(&'static str),
    /// A word that is no option, escaped and shortened.
    Unknown(String),
    Twice(&'static str),
    /// A time to expire is invalid in this command.
    ExpireTime(&'static CStr),
    Malformed(Malformed),
    /// The error at one of several packed items, and how many items came before it.
    After(Box<Self>, usize),
    BadData(DecodeError),
    TooManyLayers,
    /// A source is missing: its key, escaped and shortened.
    NoSource(String),
    /// Filters that cannot be combined.
    Mismatch {
        /// Which of them has the mismatch: a source, or the destination.
        role: &'static str,
        /// The key of that filter, escaped and shortened.
        key: String,
        why: Mismatch,
    },
    /// The layers of all sources together have too high an error rate.
    RateOfLayers {
        sum: f64,
        /// An error rate for the result that would be high enough, if there is one.
        enough: Option<ErrorRate>,
    },
    TooManyExceptions(u64),
    TooManyLookups(TooManyLookups),
    /// Every layer would be asked for every exception of the combined filters.
    TooManyToAsk {
        exceptions: u64,
        layers: u64,
    },
}

impl CommandError {
    pub(crate) const WRONG_TYPE: Self =
        Self::Text("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const BEING_SAVED: Self = Self::Text("TRYAGAIN the key is being saved");
    pub(crate) const NOT_FOUND: Self = Self::Text("ERR not found");
    pub(crate) const EXISTS: Self = Self::Text("ERR item exists");
    pub(crate) const ERROR_RATE_RANGE: Self =
        Self::Text("ERR error rate must be in the range (0.000000, 1.000000)");
    pub(crate) const NO_EXPANSION: Self = Self::Text("ERR no expansion");
    pub(crate) const BAD_INSERT_ERROR_RATE: Self = Self::Text("Bad error rate");
    pub(crate) const BAD_INSERT_CAPACITY: Self = Self::Text("Bad capacity");
    pub(crate) const BAD_INSERT_EXPANSION: Self = Self::Text("Bad expansion");
    pub(crate) const BAD_LAYOUT: Self = Self::Text("ERR bad layout: it is BLOCKED, CLASSIC or VALKEY");
    pub(crate) const BAD_SPEC: Self =
        Self::Text("ERR bad SPEC: not a filter that this version of the module knows");
    pub(crate) const TIGHTENING_RANGE: Self = Self::Text("ERR tightening ratio must be in the range (0, 1)");
    pub(crate) const GOAL_BYTES: Self =
        Self::Text("ERR the filter cannot grow to VALIDATESCALETO within bf-max-filter-bytes");
    pub(crate) const GOAL_RATE: Self =
        Self::Text("ERR the filter cannot grow to VALIDATESCALETO: its error rate would be 0");
    pub(crate) const NON_SCALING_EXPANSION: Self = Self::Text("Nonscaling filters cannot expand");
    pub(crate) const NO_INTEGER: Self = Self::Text("ERR value is not an integer or out of range");
    pub(crate) const ONE_FORM: Self =
        Self::Text("ERR the form of the items must be one of LINES, WIDTH and PREFIXED");
    pub(crate) const NO_MEMORY_TO_ANSWER: Self = Self::Text("ERR Insufficient memory to answer");
    pub(crate) const INFORMATION: Self = Self::Text("Invalid information value");
    pub(crate) const SCAN_ITERATOR: Self = Self::Text("Second argument must be numeric");
    pub(crate) const LOAD_ITERATOR: Self = Self::Text("ERR Second argument must be numeric");
    pub(crate) const BUSY: Self = Self::Text("BUSYKEY Target key name already exists.");
    pub(crate) const BAD_HEADER: Self = Self::Text("ERR received bad data");
    pub(crate) const CHUNK_OFFSET: Self = Self::Text("ERR invalid offset - no link found");
    pub(crate) const CHUNK_LENGTH: Self = Self::Text("ERR invalid chunk - Too big for current filter");
    pub(crate) const FULL: Self = Self::Text("ERR non scaling filter is full");
    pub(crate) const NO_MEMORY_TO_CREATE: Self = Self::Text("ERR Insufficient memory to create filter");
    pub(crate) const NO_MEMORY_TO_GROW: Self = Self::Text("ERR Insufficient memory to grow filter");
    pub(crate) const NO_MEMORY_TO_EXCEPT: Self = Self::Text("ERR Insufficient memory for exceptions");
    pub(crate) const NUMKEYS_RANGE: Self = Self::Text("ERR numkeys must be greater than 0");
    pub(crate) const FEWER_SOURCES: Self = Self::Text("ERR there are fewer sources than numkeys says");
    pub(crate) const EXCEPTIONS_OF_FOREIGN: Self = Self::Text("ERR exceptions are for LAYOUT BLOCKED only");
    pub(crate) const EXCEPTIONS_OF_WINDOW: Self = Self::Text("ERR a filter with a WINDOW has no exceptions");
    pub(crate) const SHRINKING_WINDOW: Self =
        Self::Text("ERR a filter with a WINDOW is not shrunk: its layers expire");
    pub(crate) const SHRINKING_VALKEY: Self =
        Self::Text("ERR BF.SHRINK is for LAYOUT BLOCKED or CLASSIC only");
    pub(crate) const NO_MEMORY_TO_SHRINK: Self = Self::Text("ERR Insufficient memory to shrink filter");
    pub(crate) const INTERNAL: Self = Self::Text("ERR internal error, see the server's log");
    pub(crate) const FULL_FOR_GOOD: Self = Self::Text(
        "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity",
    );

    pub(crate) fn unknown(word: &[u8]) -> Self {
        Self::Unknown(if word.is_empty() {
            "''".to_owned()
        } else {
            shown(word)
        })
    }

    /// The reply to a creation that failed.
    pub(crate) fn of_creation(error: Error) -> Self {
        match error {
            Error::TooManyLayers { .. } => Self::TooManyLayers,
            _ => Self::NO_MEMORY_TO_CREATE,
        }
    }

    /// The reply to an item that could not be added.
    pub(crate) fn of_add(error: Error) -> Self {
        match error {
            Error::Full { .. } => Self::FULL,
            Error::TooManyLayers { .. } => Self::TooManyLayers,
            Error::OverLimit { .. } | Error::OutOfMemory { .. } => Self::NO_MEMORY_TO_GROW,
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
            Unopened::WrongType => Self::WRONG_TYPE,
            Unopened::BeingSaved => Self::BEING_SAVED,
            Unopened::Missing => Self::NOT_FOUND,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Arity => f.write_str("ERR wrong number of arguments"),
            Self::Bad("window") => f.write_str("ERR bad window: not a whole number of seconds"),
            Self::Bad(what) => write!(f, "ERR bad {what}"),
            Self::Range { what, least, most } => {
                write!(f, "ERR {what} must be in the range [{least}, {most}]")
            }
            Self::OnlyFor {
                option,
                layouts,
                configured,
            } => {
                write!(f, "ERR {option} is for LAYOUT {layouts} only")?;
                match configured {
                    Some(layout) => write!(f, ", and bf-layout is {}", layout.name()),
                    None => Ok(()),
                }
            }
            Self::GoalItems => write!(
                f,
                "ERR the filter cannot grow to VALIDATESCALETO: its capacity would be above {MOST_ITEMS}"
            ),
            Self::GoalLayers => write!(
                f,
                "ERR the filter cannot grow to VALIDATESCALETO with {MOST_LAYERS} layers: a larger CAPACITY or EXPANSION \
                 needs fewer"
            ),
            Self::NoValue(option) => write!(f, "ERR no value for {option}"),
            Self::Exclusive(one, other) => write!(f, "ERR {one} and {other} exclude each other"),
            Self::FixedByOption(option) => write!(
                f,
                "ERR {option} needs an EXPANSION above 0: bf-expansion-factor is 0"
            ),
            Self::NeedsWindow(option) => write!(f, "ERR {option} is for filters with a WINDOW only"),
            Self::Unknown(word) => write!(f, "ERR Unknown argument received: {word}"),
            Self::Twice(option) => write!(f, "ERR {option} was given twice"),
            Self::ExpireTime(command) => {
                let command = command.to_string_lossy();
                write!(f, "ERR invalid expire time in '{command}' command")
            }
            Self::Malformed(Malformed::Width { bytes, width }) => {
                write!(f, "ERR {bytes} bytes of data are no multiple of WIDTH {width}")
            }
            Self::Malformed(Malformed::Length { at }) => {
                write!(f, "ERR there is no whole item at byte {at} of the data")
            }
            Self::After(error, items) => write!(f, "{error} after {items} items"),
            Self::BadData(why) => write!(f, "ERR bad data: {why}"),
            Self::TooManyLayers => write!(
                f,
                "ERR the filter would have more than {MOST_LAYERS} layers: with a larger capacity or EXPANSION it needs \
                 fewer"
            ),
            Self::NoSource(key) => write!(f, "ERR source {key} not found"),
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
                write!(f, "ERR {role} {key} has {why}")
            }
            Self::RateOfLayers { sum, enough } => {
                // Rounded to three significant digits.
                let sum = number::short(format!("{sum:.2e}").parse().unwrap_or(*sum));
                write!(f, "ERR the error rates of the layers sum to {sum}: ")?;
                match enough {
                    Some(rate) => write!(f, "use ERROR {} or more", number::short(rate.value())),
                    None => f.write_str("no ERROR is enough"),
                }
            }
            Self::TooManyExceptions(exceptions) => write!(
                f,
                "ERR the filter has {exceptions} exceptions, and can have no more than {MOST_EXCEPTIONS}"
            ),
            Self::TooManyLookups(TooManyLookups { items, layers }) => write!(
                f,
                "ERR looking up {items} items in {layers} layers would take too long: the product may be {MOST_LOOKUPS} \
                 at most"
            ),
            Self::TooManyToAsk { exceptions, layers } => write!(
                f,
                "ERR looking up {exceptions} exceptions in {layers} layers would take too long: the product may be \
                 {MOST_ASKED} at most"
            ),
        }
    }
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
