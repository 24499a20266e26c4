//! The module's options: names, bounds, defaults. Pure text and values; the server's side of it is in
//! `options.rs`.

use crate::bloom::params::{Capacity, ErrorRate, Expansion, Layout, Seed};

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
    max_filter_bytes: u64,
}

/// A layout as users name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutName {
    /// This module's own.
    Blocked,
    /// RedisBloom's.
    Classic,
}

impl LayoutName {
    /// The layout's name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Classic => "classic",
        }
    }

    /// The layout that `word` means, in any case.
    pub fn named(word: &[u8]) -> Option<Self> {
        let all = [Self::Blocked, Self::Classic];
        all.into_iter()
            .find(|layout| word.eq_ignore_ascii_case(layout.name().as_bytes()))
    }
}

impl From<Layout> for LayoutName {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Blocked { .. } => Self::Blocked,
            Layout::Classic => Self::Classic,
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
            max_filter_bytes: 0,
        }
    }

    /// The value of `option` as [`Self::set`] takes it.
    pub fn get(&self, option: ConfigOption) -> String {
        match option {
            ConfigOption::ErrorRate => self.error_rate.to_string(),
            ConfigOption::InitialSize => self.initial_size.items().to_string(),
            ConfigOption::ExpansionFactor => self.expansion_factor.to_string(),
            ConfigOption::Layout => self.layout.name().to_owned(),
            ConfigOption::Seed => self.seed.0.to_string(),
            ConfigOption::MaxFilterBytes => self.max_filter_bytes.to_string(),
        }
    }

    /// Sets `option`.
    ///
    /// # Errors
    /// [`Invalid`] with the range; the configuration is as it was.
    pub fn set(&mut self, option: ConfigOption, value: &str) -> Result<(), Invalid> {
        match option {
            ConfigOption::ErrorRate => {
                let rate = value.parse().ok().filter(|&rate| ErrorRate::new(rate).is_ok());
                self.error_rate = rate.ok_or_else(|| out_of_range(option, "(0, 1)"))?;
            }
            ConfigOption::InitialSize => {
                let size = whole_number(value).and_then(|items| Capacity::new(items).ok());
                let range = format!("[1, {}]", Capacity::MAX);
                self.initial_size = size.ok_or_else(|| out_of_range(option, &range))?;
            }
            ConfigOption::ExpansionFactor => {
                let factor = whole_number(value).and_then(|factor| u32::try_from(factor).ok());
                let factor = factor.filter(|&factor| factor <= Expansion::MAX);
                let range = format!("[0, {}]", Expansion::MAX);
                self.expansion_factor = factor.ok_or_else(|| out_of_range(option, &range))?;
            }
            ConfigOption::Layout => {
                let layout = LayoutName::named(value.as_bytes());
                self.layout = layout.ok_or_else(|| out_of_range(option, "[blocked, classic]"))?;
            }
            ConfigOption::Seed => {
                let range = format!("[0, {}]", u64::MAX);
                self.seed = Seed(whole_number(value).ok_or_else(|| out_of_range(option, &range))?);
            }
            ConfigOption::MaxFilterBytes => {
                let range = format!("[0, {}]", i64::MAX);
                let bytes = byte_count(value).filter(|&bytes| bytes <= i64::MAX as u64);
                self.max_filter_bytes = bytes.ok_or_else(|| out_of_range(option, &range))?;
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

    /// Whether [`Self::error_rate`] is not the one that was asked for.
    pub fn error_rate_is_limited(&self) -> bool {
        self.error_rate > ErrorRate::HIGHEST_USED
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

fn out_of_range(option: ConfigOption, range: &str) -> Invalid {
    Invalid(format!("{} must be in the range {range}", option.name()))
}

/// A decimal number, without signs, spaces or leading zeros.
pub fn whole_number(text: &str) -> Option<u64> {
    let plain = text == "0" || (text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// A number of bytes, with the units of the server's own memory options (`k`, `kb`, `m`, `mb`, `g`, `gb`;
/// with a `b` powers of 1024, without it powers of 1000).
fn byte_count(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    whole_number(digits)?.checked_mul(unit)
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
        let values = ["0.001", "12345", "0", "classic", "18446744073709551615", "4096"];
        for (option, value) in ConfigOption::ALL.into_iter().zip(values) {
            assert_eq!(config.set(option, value), Ok(()));
            assert_eq!(config.get(option), value);
        }
        assert_eq!(config.expansion(), None);
        assert_eq!(config.max_filter_bytes(), Some(4096));
    }

    #[test]
    fn what_is_out_of_range_changes_nothing() {
        let before = Config::new(Seed(7));
        let bad: [(ConfigOption, &[&str]); 6] = [
            (
                ConfigOption::ErrorRate,
                &["0", "1", "-0.1", "nan", "inf", "", "x"],
            ),
            (
                ConfigOption::InitialSize,
                &["0", "-1", "+1", "01", " 1", "", "1099511627777", "1e3"],
            ),
            (
                ConfigOption::ExpansionFactor,
                &["-1", "32769", "", "2.0", "4294967298"],
            ),
            (ConfigOption::Layout, &["", "block", "blocked "]),
            (ConfigOption::Seed, &["-1", "18446744073709551616", "", "0x1"]),
            (
                ConfigOption::MaxFilterBytes,
                &["-1", "9223372036854775808", "1tb", "gb", "18014398509481984kb"],
            ),
        ];
        for (option, values) in bad {
            for value in values {
                let mut config = before.clone();
                let refused = config.set(option, value).map_err(|invalid| invalid.0);
                let start = format!("{} must be in the range ", option.name());
                assert!(
                    refused.is_err_and(|text| text.starts_with(&start)),
                    "{option:?} {value:?}"
                );
                assert_eq!(config, before);
            }
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
            ("2gb", 2 << 30),
        ];
        for (text, bytes) in counts {
            assert_eq!(byte_count(text), Some(bytes), "{text}");
        }
    }
}
