//! This module's grammar of the options that describe a filter and its key. It is one table, from which the parser,
//! the checks and COMMAND DOCS are derived.
//!
//! A new option is a row of the table. What an option means for a filter is in [`creation`](super::creation), and how
//! it is propagated in [`propagation`](super::propagation).
//!
//! The grammars of other modules are in [`redisbloom`](super::redisbloom) and [`valkey`](super::valkey).

#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::args::{Argument, Cursor, Word};
use super::docs::{self, Kind, Parameter, SINCE_OWN};
use super::error::CommandError;
use crate::number;
use crate::options::values::Config;
use crate::server::short_list;
use libbloom::StoredLayout;
use libbloom::params::{Capacity, ErrorRate, Expansion, LATEST, Seed, SipSeed, Tightening, Time, Window};

/// A command that has options of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// BF.RESERVE
    Reserve,
    /// BF.PLAN
    Plan,
    /// BF.INSERT
    Insert,
    /// BF.ADDPACKED
    AddPacked,
}

/// Commands that describe a filter.
const DESCRIBING: &[Verb] = &[Verb::Reserve, Verb::Plan, Verb::Insert, Verb::AddPacked];
/// Commands that create a key.
const MAKING: &[Verb] = &[Verb::Reserve, Verb::Insert, Verb::AddPacked];
/// The commands that only create.
const RESERVING: &[Verb] = &[Verb::Reserve];
/// Commands that add items.
const ADDING: &[Verb] = &[Verb::Insert, Verb::AddPacked];

const BLOCKED: &[StoredLayout] = &[StoredLayout::Blocked];
const VALKEY: &[StoredLayout] = &[StoredLayout::Valkey];
const SEEDED: &[StoredLayout] = &[StoredLayout::Blocked, StoredLayout::Valkey];

/// Pairs of options that exclude each other, in the order in which they are checked.
const EXCLUSIVE: [(&str, &str); 7] = [
    ("NONSCALING", "GROWING"),
    (FIXED, "GROWING"),
    ("VALIDATESCALETO", "NONSCALING"),
    ("VALIDATESCALETO", FIXED),
    ("NONSCALING", "WINDOW"),
    (FIXED, "WINDOW"),
    ("GROWING", "WINDOW"),
];

/// The option that means the same as NONSCALING.
const FIXED: &str = "EXPANSION 0";

/// An option: a row of the table.
#[derive(Debug)]
pub struct Row {
    /// The option's parameter in COMMAND DOCS: its word and the kind of its value, or several words that exclude
    /// each other.
    parameter: Parameter,
    /// Its word: the last one, of several.
    word: &'static str,
    /// The commands that have it.
    verbs: &'static [Verb],
    /// The layouts that have it; all if the list is empty.
    layouts: &'static [StoredLayout],
    /// Whether the option needs a WINDOW.
    of_window: bool,
    /// Parses the option's value into the field.
    take: fn(&mut GivenOptions, Value<'_>) -> Result<(), CommandError>,
}

/// Derives from the rows both the table and [`GivenOptions`], which has a field for each row.
macro_rules! table {
    ($(
        $(#[$doc:meta])*
        $field:ident: $type:ty = $parameter:expr,
        of $verbs:expr $(, for $layouts:expr)? $(, within $window:ident)?;
        read |$value:pat_param| $read:expr;
    )*) => {
        /// The parsed options of a command.
        #[derive(Clone, Debug, Default)]
        pub struct GivenOptions {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// For each row, the word that was given.
            words: [Option<&'static str>; ROWS.len()],
        }

        /// The table of options, in the order of COMMAND DOCS.
        pub static ROWS: [Row; [$(stringify!($field)),*].len()] = [$(Row {
            parameter: $parameter,
            word: text($parameter.last_token()),
            verbs: $verbs,
            layouts: table!(@or (&[]) $($layouts)?),
            of_window: table!(@is $($window)?),
            take: |given, $value| {
                given.$field = Some($read);
                Ok(())
            },
        }),*];
    };
    (@or ($default:expr)) => { $default };
    (@or ($default:expr) $given:expr) => { $given };
    (@is) => { false };
    (@is window) => { true };
}

table! {
    /// The number of items that the filter is made for.
    capacity: Capacity = Parameter::option(c"capacity", c"CAPACITY", Kind::Integer), of ADDING;
    read |value| Capacity::new(value.number(0..=u64::MAX, CommandError::BadCapacity, CommandError::CapacityRange)?)
        .map_err(|_| CommandError::CapacityRange)?;

    /// The filter's error rate.
    rate: RequestedRate = docs::ERROR, of ADDING;
    read |value| RequestedRate::of(value.double, value.bytes, CommandError::BadErrorRate, CommandError::ErrorRateRange)?;

    /// The capacity of a new layer divided by that of the layer before it.
    expansion: u32 = Parameter::option(c"expansion", c"EXPANSION", Kind::Integer), of DESCRIBING;
    read |value| value.number(0..=Expansion::MAX, CommandError::BadExpansion, CommandError::ExpansionRange)?;

    /// Whether a missing key stays missing.
    no_create: () = Parameter::option(c"nocreate", c"NOCREATE", Kind::Word), of ADDING;
    read |_| ();

    /// Whether the filter does not grow.
    nonscaling: () = Parameter::option(c"nonscaling", c"NONSCALING", Kind::Word), of DESCRIBING;
    read |_| ();

    /// Whether the filter is expected to grow far.
    growing: () = Parameter::option(c"growing", c"GROWING", Kind::Word).since(SINCE_OWN),
    of DESCRIBING, for BLOCKED;
    read |_| ();

    /// The seed of the filter's hash.
    seed: GivenSeed = Parameter::option(c"seed", c"SEED", Kind::Integer).since(SINCE_OWN),
    of DESCRIBING, for SEEDED;
    read |value| GivenSeed::read(value)?;

    /// The filter's layout.
    layout: StoredLayout = Parameter::option(c"layout", c"LAYOUT", Kind::OneOf(&[
        Parameter::word(c"blocked", c"BLOCKED"),
        Parameter::word(c"classic", c"CLASSIC"),
        Parameter::word(c"valkey", c"VALKEY"),
    ])).since(SINCE_OWN), of DESCRIBING;
    read |value| StoredLayout::named(value.bytes).ok_or(CommandError::BadLayout)?;

    /// The error rate of a new layer divided by that of the layer before it.
    tightening: Tightening = Parameter::option(c"tightening", c"TIGHTENING", Kind::Double).since(SINCE_OWN),
    of DESCRIBING, for VALKEY;
    read |value| {
        let ratio = double(value.double, value.bytes).ok_or(CommandError::BadTightening)?;
        Tightening::new(ratio).map_err(|_| CommandError::TighteningRange)?
    };

    /// The number of items that the filter must be able to grow to.
    goal: u64 = Parameter::option(c"validatescaleto", c"VALIDATESCALETO", Kind::Integer).since(SINCE_OWN),
    of DESCRIBING, for VALKEY;
    read |value| value.number(1..=i64::MAX.cast_unsigned(), CommandError::BadGoal, CommandError::GoalRange)?;

    /// The window in seconds.
    window: u32 = Parameter::option(c"window", c"WINDOW", Kind::Integer).since(SINCE_OWN),
    of DESCRIBING, for BLOCKED;
    read |value| value.number(1..=Window::MAX_SECONDS, CommandError::BadWindow, CommandError::WindowRange)?;

    /// The number of slices of the window.
    slices: u8 = Parameter::option(c"slices", c"SLICES", Kind::Integer).since(SINCE_OWN),
    of DESCRIBING, within window;
    read |value| value.number(Window::SLICES, CommandError::BadSlices, CommandError::SlicesRange)?;

    /// Whether an item that is added again is remembered for another window.
    refresh: () = Parameter::option(c"refresh", c"REFRESH", Kind::Word).since(SINCE_OWN),
    of DESCRIBING, within window;
    read |_| ();

    /// The time of the change.
    at: Time = Parameter::option(c"at", c"AT", Kind::Integer).since(SINCE_OWN), of ADDING;
    read |value| value.number(0..=LATEST, CommandError::BadTime, CommandError::TimeRange)?;

    /// Whether an existing filter is left unchanged without an error.
    only_new: () = Parameter::option(c"nx", c"NX", Kind::Word).since(SINCE_OWN), of RESERVING;
    read |_| ();

    /// The expiry of a key that is created, in the words of SET. The server that the client talks to resolves it
    /// once, by its own clock, and propagates it as PXAT, so that every replica lets the filter expire at the same
    /// moment. RedisBloom's BF.INSERT, which reads letters, knows no word that begins with P.
    expiry: Expiry = Parameter::new(c"expiration", Kind::OneOf(&[
        Parameter::new(c"seconds", Kind::Integer).after(c"EX").since(SINCE_OWN),
        Parameter::new(c"milliseconds", Kind::Integer).after(c"PX").since(SINCE_OWN),
        Parameter::new(c"unix-time-seconds", Kind::UnixTime).after(c"EXAT").since(SINCE_OWN),
        Parameter::new(c"unix-time-milliseconds", Kind::UnixTime).after(c"PXAT").since(SINCE_OWN),
    ])).optional(), of MAKING;
    read |value| Expiry::read(value)?;
}

impl Verb {
    /// The command's name.
    pub const fn name(self) -> &'static CStr {
        match self {
            Self::Reserve => c"bf.reserve",
            Self::Plan => c"bf.plan",
            Self::Insert => c"bf.insert",
            Self::AddPacked => c"bf.addpacked",
        }
    }

    /// Whether the error rate and the capacity come first, without words.
    fn leads_with_size(self) -> bool {
        matches!(self, Self::Reserve | Self::Plan)
    }

    const fn has(self, row: &Row) -> bool {
        let mut rest = row.verbs;
        while let [verb, others @ ..] = rest {
            if *verb as u8 == self as u8 {
                return true;
            }
            rest = others;
        }
        false
    }

    /// The number of options in the table that the command has.
    pub const fn options(self) -> usize {
        let (mut count, mut at) = (0, 0);
        while at < ROWS.len() {
            count += self.has(&ROWS[at]) as usize;
            at += 1;
        }
        count
    }

    /// The `N` parameters of the command: `first`, then those of the table, then `last`.
    pub const fn parameters<const N: usize>(self, first: &[Parameter], last: &[Parameter]) -> [Parameter; N] {
        assert!(N == first.len() + self.options() + last.len());
        let mut list = [docs::KEY; N];
        let mut length = 0;
        while length < first.len() {
            list[length] = first[length];
            length += 1;
        }
        let mut at = 0;
        while at < ROWS.len() {
            if self.has(&ROWS[at]) {
                list[length] = ROWS[at].parameter;
                length += 1;
            }
            at += 1;
        }
        let mut at = 0;
        while at < last.len() {
            list[length + at] = last[at];
            at += 1;
        }
        list
    }

    /// Translates the error of a value into the wording of this command, which is RedisBloom's where RedisBloom has
    /// the option.
    fn worded(self, error: CommandError) -> CommandError {
        match (self, error) {
            (Self::Insert, CommandError::NoValue("CAPACITY" | "ERROR" | "EXPANSION")) => CommandError::Arity,
            (Self::Insert | Self::AddPacked, CommandError::BadCapacity | CommandError::CapacityRange) => {
                CommandError::BadInsertCapacity
            }
            (Self::Insert | Self::AddPacked, CommandError::BadErrorRate | CommandError::ErrorRateRange) => {
                CommandError::BadInsertErrorRate
            }
            (Self::Insert | Self::AddPacked, CommandError::BadExpansion | CommandError::ExpansionRange) => {
                CommandError::BadInsertExpansion
            }
            (Self::Reserve | Self::Plan, CommandError::NoValue("EXPANSION")) => CommandError::NoExpansion,
            (_, error) => error,
        }
    }
}

/// Whether options begin with the description that only this module sends, see [`GivenOptions::take_bundle`]. The other
/// modules refuse it, except for RedisBloom's BF.RESERVE, which ignores what it does not know.
pub fn is_bundle<'a>(words: &[impl Argument<'a>]) -> bool {
    words
        .first()
        .is_some_and(|word| word.bytes().starts_with(b"LAYOUT "))
}

/// Each word of the table: the place of its row, the word, and the kind of the value after it.
static TOKENS: LazyLock<Vec<(usize, &'static str, Kind)>> = LazyLock::new(|| {
    let rows = ROWS.iter().enumerate();
    short_list(rows.flat_map(|(at, row)| {
        row.parameter
            .tokens()
            .map(move |(token, kind)| (at, text(token), kind))
    }))
});

const fn text(token: &'static CStr) -> &'static str {
    match token.to_str() {
        Ok(text) => text,
        Err(_) => "",
    }
}

impl GivenOptions {
    /// Reads the error rate and capacity of a command that begins with them, the [bundle](Self::take_bundle) of a
    /// primary, and then all options. `other` reads words that are not in the table.
    ///
    /// # Errors
    /// The first argument that is wrong. Contradictions between arguments are found by [`Self::check`].
    pub fn parse<'a, A: Argument<'a>>(
        verb: Verb,
        cursor: &mut Cursor<'a, A>,
        mut other: impl FnMut(&[u8], &mut Cursor<'a, A>) -> Result<bool, CommandError>,
    ) -> Result<Self, CommandError> {
        let mut given = Self::default();
        if verb.leads_with_size() {
            let (rate, capacity) = (cursor.take()?, cursor.take()?);
            given.read(verb, "ERROR", rate)?;
            given.read(verb, "CAPACITY", capacity)?;
        }
        if is_bundle(cursor.rest())
            && let Some(word) = given.take_bundle(cursor.take()?.bytes())?
            && !other(word, cursor)?
        {
            return Err(CommandError::unknown(word));
        }
        while let Some(word) = cursor.take_if_any() {
            let word = word.bytes();
            if !other(word, cursor)? && !given.take(verb, word, cursor)? {
                return Err(CommandError::unknown(word));
            }
        }
        Ok(given)
    }

    /// Reads the words with which primaries describe a filter of a layout that only this module has, separated by
    /// blanks, and returns a last one that is not in the table. What they leave out is this module's default, whatever
    /// the configuration of either server says. These defaults are part of what is propagated, and stay as they are.
    fn take_bundle<'a>(&mut self, bundle: &'a [u8]) -> Result<Option<&'a [u8]>, CommandError> {
        let mut words = bundle.split(|&byte| byte == b' ').map(Word);
        let mut other = None;
        while let Some(Word(word)) = words.next() {
            if let Some(other) = other {
                return Err(CommandError::unknown(other));
            }
            let value = words.clone().next();
            let mut cursor = Cursor::new(value.as_slice());
            if !self.take(Verb::Insert, word, &mut cursor)? {
                other = Some(word);
            } else if cursor.rest().is_empty() {
                words.next();
            }
        }
        self.rate.get_or_insert(RequestedRate {
            requested: ErrorRate::DEFAULT.value(),
            used: ErrorRate::DEFAULT,
        });
        if self.capacity.is_none() {
            self.capacity = Some(Capacity::DEFAULT);
            self.growing = Some(());
        }
        if self.nonscaling.is_none() {
            self.expansion.get_or_insert(Expansion::DEFAULT.factor());
        }
        Ok(other)
    }

    /// Reads a value that has no word before it.
    fn read<'a>(
        &mut self,
        verb: Verb,
        word: &'static str,
        value: impl Argument<'a>,
    ) -> Result<(), CommandError> {
        let row = ROWS.iter().find(|row| row.word == word);
        row.map_or(Ok(()), |row| {
            (row.take)(self, Value::of(value, word, row.parameter.kind(), verb))
        })
    }

    /// Reads `word`, and its value from `cursor`, if the command has this option.
    fn take<'a, A: Argument<'a>>(
        &mut self,
        verb: Verb,
        word: &[u8],
        cursor: &mut Cursor<'a, A>,
    ) -> Result<bool, CommandError> {
        let mut tokens = TOKENS.iter();
        let of_verb = |at: usize| ROWS.get(at).filter(|row| verb.has(row));
        let Some((at, row, token, kind)) = tokens.find_map(|&(at, token, kind)| {
            let is_it = word.eq_ignore_ascii_case(token.as_bytes());
            is_it
                .then(|| of_verb(at))
                .flatten()
                .map(|row| (at, row, token, kind))
        }) else {
            return Ok(false);
        };
        let value = if let Kind::Word = kind {
            Value::none(token, verb)
        } else {
            let value = cursor
                .take_if_any()
                .ok_or_else(|| verb.worded(CommandError::NoValue(token)))?;
            Value::of(value, token, kind, verb)
        };
        (row.take)(self, value).map_err(|error| verb.worded(error))?;
        match self.words[at].replace(token) {
            None => Ok(true),
            Some(earlier) if earlier == token => Err(CommandError::Twice(token)),
            Some(earlier) => Err(CommandError::Exclusive(earlier, token)),
        }
    }

    /// Whether any option was given.
    pub fn is_any(&self) -> bool {
        self.words.iter().any(Option::is_some)
    }

    fn has(&self, word: &'static str) -> bool {
        match word {
            FIXED => self.expansion == Some(0),
            word => self.words.contains(&Some(word)),
        }
    }

    /// Checks that the options can describe a filter, whatever the configuration is.
    ///
    /// # Errors
    /// Options that exclude each other.
    pub fn check(&self, verb: Verb) -> Result<(), CommandError> {
        if !self.is_any() {
            return Ok(());
        }
        // In RedisBloom's BF.INSERT, NONSCALING overrides EXPANSION.
        if verb.leads_with_size() && self.nonscaling.is_some() && matches!(self.expansion, Some(1..)) {
            return Err(CommandError::NonScalingExpansion);
        }
        if let Some((one, other)) = EXCLUSIVE
            .into_iter()
            .find(|(one, other)| self.has(one) && self.has(other))
        {
            return Err(CommandError::Exclusive(one, other));
        }
        let mut of_window = self.given_rows().filter(|row| row.of_window);
        if let (None, Some(row)) = (self.window, of_window.next()) {
            return Err(CommandError::NeedsWindow(row.word));
        }
        self.given_layout()
            .map_or(Ok(()), |layout| self.check_for(layout))
    }

    /// The rows of the options that were given.
    fn given_rows(&self) -> impl Iterator<Item = &'static Row> {
        let rows = ROWS.iter().zip(&self.words);
        rows.filter_map(|(row, word)| word.is_some().then_some(row))
    }

    /// The given options that not every layout has, with the layouts that have them.
    fn of_some_layouts(&self) -> impl Iterator<Item = (&'static str, &'static [StoredLayout])> {
        let rows = self.given_rows().filter(|row| !row.layouts.is_empty());
        rows.map(|row| match (row.word, self.seed) {
            ("SEED", Some(GivenSeed::Bytes(_))) => ("SEED of 32 bytes", VALKEY),
            (word, _) => (word, row.layouts),
        })
    }

    /// The layout that was given, or that is implied by an option which only valkey-bloom's layout has.
    pub fn given_layout(&self) -> Option<StoredLayout> {
        let means_valkey = || self.of_some_layouts().any(|(_, layouts)| layouts == VALKEY);
        self.layout
            .or_else(|| means_valkey().then_some(StoredLayout::Valkey))
    }

    /// Checks that filters of this layout have all given options.
    ///
    /// # Errors
    /// An option that they do not have; an option of this module is reported before one of valkey-bloom's.
    pub fn check_for(&self, layout: StoredLayout) -> Result<(), CommandError> {
        let mistakes = self
            .of_some_layouts()
            .filter(|(_, layouts)| !layouts.contains(&layout));
        let first =
            mistakes.min_by_key(|(_, layouts)| (layouts[0] != StoredLayout::Blocked, *layouts != SEEDED));
        first.map_or(Ok(()), |(option, layouts)| {
            Err(CommandError::OnlyFor(option, layouts))
        })
    }

    /// One of the given options that only a filter that grows can have.
    pub fn needs_growth(&self) -> Option<&'static str> {
        let excluded = EXCLUSIVE.into_iter().filter_map(|pair| match pair {
            (FIXED, other) | (other, FIXED) => Some(other),
            _ => None,
        });
        excluded.into_iter().find(|word| self.has(word))
    }

    /// When the key of a filter that is created `now` expires, if ever; both in milliseconds of the Unix clock.
    pub fn expires(&self, now: impl FnOnce() -> i64) -> Option<i64> {
        let expiry = self.expiry?;
        let start = if expiry.from_now { now() } else { 0 };
        Some(start.saturating_add(expiry.milliseconds))
    }
}

/// The value of an option, unparsed.
#[derive(Clone, Copy, Debug)]
struct Value<'a> {
    bytes: &'a [u8],
    /// The value as a double by the server's own parser, if the option needs one.
    double: Option<f64>,
    /// The option's word.
    word: &'static str,
    /// The command that has it.
    verb: Verb,
}

impl<'a> Value<'a> {
    fn of(value: impl Argument<'a>, word: &'static str, kind: Kind, verb: Verb) -> Self {
        Self {
            bytes: value.bytes(),
            double: match kind {
                Kind::Double => value.double(),
                _ => None,
            },
            word,
            verb,
        }
    }

    /// The value of a word that stands alone: nothing.
    fn none(word: &'static str, verb: Verb) -> Self {
        Self {
            bytes: b"",
            double: None,
            word,
            verb,
        }
    }

    /// Parses a whole number. The error is `bad` if it is none, and `outside` if it is not in `range`.
    fn number<T: TryFrom<i128> + PartialOrd>(
        self,
        range: RangeInclusive<T>,
        bad: CommandError,
        outside: CommandError,
    ) -> Result<T, CommandError> {
        let number = T::try_from(number::whole(self.bytes).ok_or(bad)?).ok();
        number.filter(|number| range.contains(number)).ok_or(outside)
    }
}

/// A floating-point number; one that a double cannot tell from 0 or an infinity counts as that.
fn double(double: Option<f64>, bytes: &[u8]) -> Option<f64> {
    let number = double.or_else(|| number::beyond_doubles(bytes));
    number.filter(|number| !number.is_nan())
}

/// An error rate as it was requested, and as it is used in all layouts but valkey-bloom's.
#[derive(Clone, Copy, Debug)]
pub struct RequestedRate {
    /// The requested rate.
    pub requested: f64,
    /// The rate that is used.
    pub used: ErrorRate,
}

impl RequestedRate {
    /// Parses an error rate.
    ///
    /// # Errors
    /// `bad` if it is no number, `range` if it is out of its range.
    pub fn take<'a>(
        value: impl Argument<'a>,
        bad: CommandError,
        range: CommandError,
    ) -> Result<Self, CommandError> {
        Self::of(value.double(), value.bytes(), bad, range)
    }

    fn of(
        number: Option<f64>,
        bytes: &[u8],
        bad: CommandError,
        range: CommandError,
    ) -> Result<Self, CommandError> {
        let requested = double(number, bytes).ok_or(bad)?;
        let used = ErrorRate::new(requested).map_err(|_| range)?;
        Ok(Self { requested, used })
    }

    /// The configured rate of filters that are made without one.
    pub fn configured(config: &Config) -> Self {
        Self {
            requested: config.requested_error_rate(),
            used: config.error_rate(),
        }
    }
}

/// A seed as an argument gives it.
#[derive(Clone, Copy, Debug)]
pub enum GivenSeed {
    /// A number.
    Number(Seed),
    /// 32 bytes.
    Bytes(SipSeed),
}

impl GivenSeed {
    /// Parses a seed. 32 bytes are never a number, which has 20 digits at most.
    fn read(value: Value<'_>) -> Result<Self, CommandError> {
        if let Ok(bytes) = value.bytes.try_into() {
            return Ok(Self::Bytes(SipSeed(bytes)));
        }
        let seed = value.number(0..=u64::MAX, CommandError::BadSeed, CommandError::SeedRange)?;
        Ok(Self::Number(Seed(seed)))
    }
}

/// The expiry of a key, as an argument gives it.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// Whether the time counts from now instead of from 1970.
    from_now: bool,
    /// The time, 1 or more; the sum with a clock before the year 9999 fits too.
    milliseconds: i64,
}

/// The end of the year 9999 in milliseconds of the Unix clock.
const LAST_DAY: i64 = 253_402_300_800_000;

impl Expiry {
    fn read(value: Value<'_>) -> Result<Self, CommandError> {
        let (milliseconds, from_now) = match value.word {
            "EX" => (1000, true),
            "PX" => (1, true),
            "EXAT" => (1000, false),
            _ => (1, false),
        };
        let number = value.number(
            i64::MIN..=i64::MAX,
            CommandError::NoInteger,
            CommandError::NoInteger,
        )?;
        let farthest = i64::MAX - if from_now { LAST_DAY } else { 0 };
        let time = number.checked_mul(milliseconds);
        let time = time.filter(|time| (1..=farthest).contains(time));
        Ok(Self {
            from_now,
            milliseconds: time.ok_or(CommandError::ExpireTime(value.verb.name()))?,
        })
    }
}
