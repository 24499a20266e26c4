//! The module's options: names, bounds, defaults. Pure text and values; the server's side of it is in
//! [`options`](super).

use crate::bloom::params::{Capacity, ErrorRate, Expansion, Layout, Seed};
use crate::number;

/// The values of all options.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// As it was given; [`ErrorRate`] says how it is used.
    error_rate: f64,
    initial_size: Capacity,
    /// 0 makes filters that do not grow.
    expansion_factor: u32,
    layout: LayoutName,
    seed: Seed,
    /// Whether the seed was drawn, and is for this run of the server only.
    seed_is_random: bool,
    max_filter_bytes: u64,
}

/// A seed as users set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeedValue {
    /// A number.
    Chosen(Seed),
    /// `random`
    Random,
    /// `random:` and a number: one that was drawn, as [`Config::get`] tells it.
    Drawn(Seed),
}

/// A layout as users name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutName {
    /// This module's own.
    Blocked,
    /// RedisBloom's.
    Classic,
    /// valkey-bloom's.
    Valkey,
}

impl LayoutName {
    /// The layout's name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Classic => "classic",
            Self::Valkey => "valkey",
        }
    }

    /// The word that commands have for it.
    pub fn word(self) -> String {
        self.name().to_ascii_uppercase()
    }

    /// The layout that `word` means, in any case.
    pub fn named(word: &[u8]) -> Option<Self> {
        let all = [Self::Blocked, Self::Classic, Self::Valkey];
        all.into_iter()
            .find(|layout| word.eq_ignore_ascii_case(layout.name().as_bytes()))
    }
}

impl From<Layout> for LayoutName {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Blocked { .. } => Self::Blocked,
            Layout::Classic => Self::Classic,
            Layout::Valkey { .. } => Self::Valkey,
        }
    }
}

/// An option that a user can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOption {
    /// The error rate of filters that are made without one.
    ErrorRate,
    /// The capacity of filters that are made without one.
    InitialSize,
    /// The expansion of filters that are made without one.
    ExpansionFactor,
    /// The layout of filters that are made without one.
    Layout,
    /// The seed of filters that are made without one.
    Seed,
    /// The most bytes that a client's command may make a filter take.
    MaxFilterBytes,
}

/// What RedisBloom has and this module does not, without the `cf-` or `CF_` in front: it is of Cuckoo filters.
const REDISBLOOM_S: [&str; 5] = [
    "bucket-size",
    "expansion-factor",
    "initial-size",
    "max-expansions",
    "max-iterations",
];

/// Whether `name` is an option that only RedisBloom has: in any case, with `_` for `-`.
pub fn is_redisbloom_s(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.strip_prefix("cf-")
        .is_some_and(|name| REDISBLOOM_S.contains(&name))
}

/// A value that an option cannot have, as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl ConfigOption {
    /// All options.
    pub const ALL: [Self; 6] = [
        Self::ErrorRate,
        Self::InitialSize,
        Self::ExpansionFactor,
        Self::Layout,
        Self::Seed,
        Self::MaxFilterBytes,
    ];

    /// Its name, without the module's prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::ErrorRate => "error-rate",
            Self::InitialSize => "initial-size",
            Self::ExpansionFactor => "expansion-factor",
            Self::Layout => "layout",
            Self::Seed => "seed",
            Self::MaxFilterBytes => "max-filter-bytes",
        }
    }

    /// The option that `name` means: in any case, with `_` for `-`, with or without `bf-` or `bf.`; also
    /// RedisBloom's `EXPANSION`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let name = name
            .strip_prefix("bf-")
            .or_else(|| name.strip_prefix("bf."))
            .unwrap_or(&name);
        let name = if name == "expansion" {
            Self::ExpansionFactor.name()
        } else {
            name
        };
        Self::ALL.into_iter().find(|option| option.name() == name)
    }
}

impl Config {
    /// The defaults, with `seed` as the one that was drawn for this server.
    pub fn new(seed: Seed) -> Self {
        Self {
            error_rate: ErrorRate::DEFAULT.value(),
            initial_size: Capacity::DEFAULT,
            expansion_factor: Expansion::DEFAULT.factor(),
            layout: LayoutName::Blocked,
            seed,
            seed_is_random: true,
            max_filter_bytes: 0,
        }
    }

    /// The value of `option` as [`Self::set`] takes it.
    pub fn get(&self, option: ConfigOption) -> String {
        match option {
            ConfigOption::ErrorRate => number::short(self.error_rate),
            ConfigOption::InitialSize => self.initial_size.items().to_string(),
            ConfigOption::ExpansionFactor => self.expansion_factor.to_string(),
            ConfigOption::Layout => self.layout.name().to_owned(),
            ConfigOption::Seed if self.seed_is_random => drawn(self.seed),
            ConfigOption::Seed => self.seed.0.to_string(),
            ConfigOption::MaxFilterBytes => self.max_filter_bytes.to_string(),
        }
    }

    /// Sets `option`. The seed `random` is the one that was drawn last: [`draws_seed`] says when to draw another.
    ///
    /// # Errors
    /// [`Invalid`] with what the option takes; the configuration is as it was.
    pub fn set(&mut self, option: ConfigOption, value: &str) -> Result<(), Invalid> {
        match option {
            ConfigOption::ErrorRate => {
                let rate: f64 = value
                    .parse()
                    .map_err(|_| must_be(option, "a number in the range (0, 1)"))?;
                ErrorRate::new(rate).map_err(|_| must_be(option, "in the range (0, 1)"))?;
                self.error_rate = rate;
            }
            ConfigOption::InitialSize => {
                let items = whole_in(option, value, 1, Capacity::MAX)?;
                self.initial_size = Capacity::new(items).unwrap_or(Capacity::DEFAULT);
            }
            ConfigOption::ExpansionFactor => {
                let factor = whole_in(option, value, 0, Expansion::MAX.into())?;
                self.expansion_factor = u32::try_from(factor).unwrap_or(Expansion::MAX);
            }
            ConfigOption::Layout => {
                let layout = LayoutName::named(value.as_bytes());
                self.layout = layout.ok_or_else(|| must_be(option, "blocked, classic or valkey"))?;
            }
            ConfigOption::Seed => {
                let value = SeedValue::parse(value)?;
                self.seed_is_random = !matches!(value, SeedValue::Chosen(_));
                if let SeedValue::Chosen(seed) | SeedValue::Drawn(seed) = value {
                    self.seed = seed;
                }
            }
            ConfigOption::MaxFilterBytes => {
                let what = "a whole number, or one with a unit such as 512mb, in the range ";
                let range = format!("[0, {}]", i64::MAX);
                let bytes = byte_count(value).ok_or_else(|| must_be(option, &format!("{what}{range}")))?;
                self.max_filter_bytes = u64::try_from(bytes)
                    .ok()
                    .filter(|&bytes| bytes <= i64::MAX as u64)
                    .ok_or_else(|| must_be(option, &format!("in the range {range}")))?;
            }
        }
        Ok(())
    }

    /// The error rate of filters that are made without one.
    pub fn error_rate(&self) -> ErrorRate {
        ErrorRate::new(self.error_rate).unwrap_or(ErrorRate::DEFAULT)
    }

    /// The same as it was asked for.
    pub fn asked_error_rate(&self) -> f64 {
        self.error_rate
    }

    /// Whether filters that are made without a rate do not get the one that was asked for.
    pub fn error_rate_is_limited(&self) -> bool {
        self.layout != LayoutName::Valkey && self.error_rate != self.error_rate().value()
    }

    /// The capacity of filters that are made without one.
    pub fn initial_size(&self) -> Capacity {
        self.initial_size
    }

    /// The expansion of filters that are made without one; `None` where they do not grow.
    pub fn expansion(&self) -> Option<Expansion> {
        Expansion::new(self.expansion_factor).ok()
    }

    /// The same as it was asked for: 0 where they do not grow.
    pub fn expansion_factor(&self) -> u32 {
        self.expansion_factor
    }

    /// The layout of filters that are made without one.
    pub fn layout(&self) -> LayoutName {
        self.layout
    }

    /// The seed of filters that are made without one.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The most bytes that a client's command may make a filter take; `None`: what the server may use.
    pub fn max_filter_bytes(&self) -> Option<u64> {
        (self.max_filter_bytes > 0).then_some(self.max_filter_bytes)
    }
}

impl SeedValue {
    fn parse(value: &str) -> Result<Self, Invalid> {
        if value.eq_ignore_ascii_case("random") {
            return Ok(Self::Random);
        }
        let (meaning, digits): (fn(Seed) -> Self, _) = match value.split_once(':') {
            Some((word, digits)) if word.eq_ignore_ascii_case("random") => (Self::Drawn, digits),
            _ => (Self::Chosen, value),
        };
        let range = format!("in the range [0, {}]", u64::MAX);
        let seed = number::whole(digits.as_bytes())
            .ok_or_else(|| must_be(ConfigOption::Seed, &format!("random, or a whole number {range}")))?;
        let seed = u64::try_from(seed).map_err(|_| must_be(ConfigOption::Seed, &range))?;
        Ok(meaning(Seed(seed)))
    }
}

/// How a seed that was drawn is told. It differs from every other value that users type, since a server does not
/// pass on a value that is there already: `random` could not draw again. And it is not the number alone, which
/// CONFIG REWRITE would make the seed of every later run.
pub fn drawn(seed: Seed) -> String {
    format!("random:{}", seed.0)
}

/// Whether `value` asks for a new seed: `random`, and in a configuration that a server starts with also what was
/// drawn for an earlier run. Later that puts a seed back, as a server does whose other options were refused.
pub fn draws_seed(value: &str, at_start: bool) -> bool {
    match SeedValue::parse(value) {
        Ok(SeedValue::Random) => true,
        Ok(SeedValue::Drawn(_)) => at_start,
        Ok(SeedValue::Chosen(_)) | Err(_) => false,
    }
}

fn must_be(option: ConfigOption, what: &str) -> Invalid {
    Invalid(format!("{} must be {what}", option.name()))
}

/// A whole number from `least` to `most`.
fn whole_in(option: ConfigOption, value: &str, least: u64, most: u64) -> Result<u64, Invalid> {
    let range = format!("in the range [{least}, {most}]");
    let number =
        number::whole(value.as_bytes()).ok_or_else(|| must_be(option, &format!("a whole number {range}")))?;
    u64::try_from(number)
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| must_be(option, &range))
}

/// A number of bytes, with the units of the server's own memory options (`k`, `kb`, `m`, `mb`, `g`, `gb`;
/// with a `b` powers of 1024, without it powers of 1000); as [`number::whole`] reads it.
fn byte_count(text: &str) -> Option<i128> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    Some(number::whole(digits.as_bytes())?.saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a configuration written for RedisBloom, or by CONFIG REWRITE, says must be understood.
    #[test]
    fn names_are_known_in_all_their_forms() {
        for name in [
            "ERROR_RATE",
            "error-rate",
            "bf-error-rate",
            "bf.error-rate",
            "BF_ERROR_RATE",
        ] {
            assert_eq!(ConfigOption::named(name), Some(ConfigOption::ErrorRate), "{name}");
        }
        assert_eq!(
            ConfigOption::named("EXPANSION"),
            Some(ConfigOption::ExpansionFactor)
        );
        for name in ["", "bf-", "rate", "error-rates", "cf-error-rate"] {
            assert_eq!(ConfigOption::named(name), None, "{name}");
        }
    }

    /// A server that was started with RedisBloom's arguments would not start with this module, or a misspelt
    /// argument be ignored.
    #[test]
    fn options_of_other_filters_are_known() {
        for name in [
            "CF_MAX_EXPANSIONS",
            "cf_max_expansions",
            "cf-bucket-size",
            "CF-Initial-Size",
        ] {
            assert!(is_redisbloom_s(name), "{name}");
            assert_eq!(ConfigOption::named(name), None, "{name}");
        }
        for name in [
            "",
            "cf-",
            "cf",
            "cf-size",
            "MAX_EXPANSIONS",
            "bf-max-expansions",
            "cf-max-expansion",
        ] {
            assert!(!is_redisbloom_s(name), "{name}");
        }
    }

    #[test]
    fn values_are_given_back_as_they_were_set() {
        let mut config = Config::new(Seed(7));
        let values = ["1e-6", "12345", "0", "classic", "18446744073709551615", "4096"];
        for (option, value) in ConfigOption::ALL.into_iter().zip(values) {
            assert_eq!(config.set(option, value), Ok(()));
            assert_eq!(config.get(option), value);
        }
        assert_eq!(config.expansion(), None);
        assert_eq!(config.max_filter_bytes(), Some(4096));
    }

    /// Who is told the range of a number looks for a wrong number, and not for a typing error.
    #[test]
    fn what_is_refused_is_told_with_its_reason_and_changes_nothing() {
        let before = Config::new(Seed(7));
        let sizes = "in the range [1, 1099511627776]";
        let factors = "in the range [0, 32768]";
        let seeds = "in the range [0, 18446744073709551615]";
        let bytes = "in the range [0, 9223372036854775807]";
        let bad: [(ConfigOption, &str, &[&str], &[&str]); 5] = [
            (
                ConfigOption::ErrorRate,
                "a number in the range (0, 1)",
                &["", "x", "0,1", " 0.1", "0x1p-3"],
                &["0", "1", "-0.1", "nan", "inf", "1e-400", "1e400", "1e3"],
            ),
            (
                ConfigOption::InitialSize,
                &format!("a whole number {sizes}"),
                &["+1", "01", " 1", "", "1e3", "1.0"],
                &[
                    "0",
                    "-1",
                    "1099511627777",
                    "9223372036854775808",
                    "18446744073709551617",
                ],
            ),
            (
                ConfigOption::ExpansionFactor,
                &format!("a whole number {factors}"),
                &["", "2.0", "1e3"],
                &["-1", "32769", "4294967298", "9223372036854775808"],
            ),
            (
                ConfigOption::Seed,
                &format!("random, or a whole number {seeds}"),
                &[
                    "",
                    "0x1",
                    "1e3",
                    "randomly",
                    "random:",
                    "random: 1",
                    "random:x",
                    "x:1",
                    ":1",
                ],
                &[
                    "-1",
                    "18446744073709551616",
                    "random:-1",
                    "random:18446744073709551616",
                ],
            ),
            (
                ConfigOption::MaxFilterBytes,
                &format!("a whole number, or one with a unit such as 512mb, {bytes}"),
                &["1tb", "gb", "", "1e3", "1.5gb"],
                &["-1", "-1kb", "9223372036854775808", "18014398509481984kb"],
            ),
        ];
        let refused = |option, value: &str| {
            let mut config = before.clone();
            let refused = config.set(option, value).map_err(|invalid| invalid.0);
            assert_eq!(config, before, "{option:?} {value:?}");
            refused.expect_err(value)
        };
        for (option, what, none, out) in bad {
            for value in none {
                assert_eq!(
                    refused(option, value),
                    format!("{} must be {what}", option.name()),
                    "{value:?}"
                );
            }
            let range = &what[what.rfind("in the range").unwrap()..];
            for value in out {
                assert_eq!(
                    refused(option, value),
                    format!("{} must be {range}", option.name()),
                    "{value:?}"
                );
            }
        }
        for value in ["", "block", "blocked "] {
            assert_eq!(
                refused(ConfigOption::Layout, value),
                "layout must be blocked, classic or valkey"
            );
        }
    }

    /// A seed that was drawn would be fixed for ever by CONFIG REWRITE, or a refused CONFIG SET would lose it.
    #[test]
    fn a_drawn_seed_is_told_from_a_chosen_one() {
        let mut config = Config::new(Seed(7));
        let seed = |config: &Config| (config.get(ConfigOption::Seed), config.seed());
        assert_eq!(seed(&config), ("random:7".to_owned(), Seed(7)));
        for (value, told, number) in [
            ("9", "9", 9),
            ("Random:8", "random:8", 8),
            ("RANDOM", "random:8", 8),
            ("8", "8", 8),
            ("random", "random:8", 8),
        ] {
            assert_eq!(config.set(ConfigOption::Seed, value), Ok(()));
            assert_eq!(seed(&config), (told.to_owned(), Seed(number)), "{value}");
        }
        for (value, running, at_start) in [
            ("random", true, true),
            ("Random", true, true),
            ("random:8", false, true),
            ("8", false, false),
            ("random:x", false, false),
        ] {
            assert_eq!(
                [draws_seed(value, false), draws_seed(value, true)],
                [running, at_start],
                "{value}"
            );
        }
    }

    #[test]
    fn byte_counts_have_the_server_s_units() {
        let counts = [
            ("0", 0),
            ("1k", 1000),
            ("1kb", 1024),
            ("3M", 3_000_000),
            ("3MB", 3 << 20),
            ("2g", 2_000_000_000),
            ("2gb", 2 << 30),
        ];
        for (text, bytes) in counts {
            assert_eq!(byte_count(text), Some(bytes), "{text}");
        }
    }
}
