//! The module's options as values: names, bounds, defaults. Pure; [`options`](super) registers them with the server.

use crate::number;
use libbloom::Layout;
use libbloom::params::{Capacity, ErrorRate, Expansion, Seed};

/// The configured seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedValue {
    Chosen(Seed),
    /// `random:` and a number: a seed that was drawn at random, for this run of the server only.
    Drawn(Seed),
}

/// Derives from the rows both [`ConfigOption`] and [`Config`], which has a field for each row.
macro_rules! table {
    ($(
        $(#[$doc:meta])*
        $option:ident $name:literal, $field:ident: $type:ty = $default:expr;
        show |$shown:pat_param| $show:expr;
        read |$value:pat_param, $earlier:pat_param| $read:expr;
    )*) => {
        /// An option that a user can set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ConfigOption {
            $($(#[$doc])* $option,)*
        }

        /// The values of all options.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($(#[$doc])* pub(crate) $field: $type,)*
        }

        impl ConfigOption {
            /// All options.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$option),*];

            /// The option's name, without the module's prefix.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$option => $name,)*
                }
            }
        }

        impl Config {
            fn with_seed_0() -> Self {
                Self { $($field: $default),* }
            }

            /// The value of `option` in the form that [`Self::set`] accepts.
            pub fn get(&self, option: ConfigOption) -> String {
                match option {
                    $(ConfigOption::$option => {
                        let $shown = self.$field;
                        $show
                    })*
                }
            }

            /// Sets `option`. `random` keeps the seed that was drawn last: [`draws_seed`] says when to draw another.
            ///
            /// # Errors
            /// A sentence for the user with the values that the option accepts; the configuration is unchanged.
            pub fn set(&mut self, option: ConfigOption, value: &str) -> Result<(), String> {
                let set = match option {
                    $(ConfigOption::$option => {
                        let read = |$value: &str, $earlier: $type| -> Result<$type, String> { $read };
                        read(value, self.$field).map(|read| self.$field = read)
                    })*
                };
                set.map_err(|accepted| format!("{} must be {accepted}", option.name()))
            }
        }
    };
}

// A row has the option's name, its default, how CONFIG GET shows it, and how a text is read: errors follow "must be".
table! {
    /// The error rate of filters that are made without one, as it was given; [`ErrorRate`] limits how it is used.
    ErrorRate "error-rate", requested_error_rate: f64 = ErrorRate::DEFAULT.value();
    show |rate| number::short(rate);
    read |value, _| {
        let rate: f64 = value.parse().map_err(|_| "a number in the range (0, 1)")?;
        ErrorRate::new(rate).map_err(|_| "in the range (0, 1)")?;
        Ok(rate)
    };

    /// The capacity of filters that are made without one.
    InitialSize "initial-size", initial_size: Capacity = Capacity::DEFAULT;
    show |capacity| capacity.items().to_string();
    read |value, _| {
        let items = whole_in(value, 1, Capacity::MAX)?;
        Ok(Capacity::new(items).unwrap_or(Capacity::DEFAULT))
    };

    /// The expansion of filters that are made without one; 0 makes filters that do not grow.
    ExpansionFactor "expansion-factor", expansion_factor: u32 = Expansion::DEFAULT.factor();
    show |factor| factor.to_string();
    read |value, _| {
        let factor = whole_in(value, 0, Expansion::MAX.into())?;
        Ok(u32::try_from(factor).unwrap_or(Expansion::MAX))
    };

    /// The layout of filters that are made without one.
    Layout "layout", layout: Layout = Layout::Blocked;
    show |layout| layout.name().to_owned();
    read |value, _| Ok(Layout::named(value).ok_or("blocked, classic or valkey")?);

    /// The seed of filters that are made without one.
    Seed "seed", seed: SeedValue = SeedValue::Drawn(Seed(0));
    show |seed| match seed {
        SeedValue::Drawn(seed) => drawn(seed),
        SeedValue::Chosen(seed) => seed.0.to_string(),
    };
    read |value, earlier| Ok(SeedValue::parse(value)?.unwrap_or(SeedValue::Drawn(earlier.seed())));

    /// The most bytes that a client's command may make a filter use; 0 sets no limit.
    MaxFilterBytes "max-filter-bytes", max_filter_bytes: u64 = 0;
    show |bytes| bytes.to_string();
    read |value, _| {
        let range = format!("in the range [0, {}]", i64::MAX);
        let bytes = byte_count(value)
            .ok_or_else(|| format!("a whole number, or one with a unit such as 512mb, {range}"))?;
        let bytes = u64::try_from(bytes).ok().filter(|&bytes| bytes <= i64::MAX as u64);
        bytes.ok_or(range)
    };

    /// Whether a missing key is an error to a client's command that does not say for how many items the filter is made.
    /// Otherwise it is an empty filter, to which items are added with the configured defaults.
    MissingKey "missing-key", missing_key_is_error: bool = false;
    show |is_error| (if is_error { "error" } else { "empty" }).to_owned();
    read |value, _| match value.to_ascii_lowercase().as_str() {
        "empty" => Ok(false),
        "error" => Ok(true),
        _ => Err("empty or error".to_owned()),
    };
}

/// RedisBloom's options for its Cuckoo filters, which this module does not have, without the `cf-` or `CF_` in front.
const CUCKOO_OPTIONS: [&str; 5] = [
    "bucket-size",
    "expansion-factor",
    "initial-size",
    "max-expansions",
    "max-iterations",
];

/// Whether `name` is an option of RedisBloom's Cuckoo filters, in any case, with `_` or `-`.
pub fn is_cuckoo_option(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.strip_prefix("cf-")
        .is_some_and(|name| CUCKOO_OPTIONS.contains(&name))
}

impl ConfigOption {
    /// The option that `name` names: in upper or lower case, with `_` for `-`, with or without `bf-` or `bf.`.
    /// RedisBloom's `EXPANSION` counts too.
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
    /// The defaults, with `seed` as the seed that was drawn for this server.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed: SeedValue::Drawn(seed),
            ..Self::with_seed_0()
        }
    }

    /// The error rate of filters that are made without one.
    pub fn error_rate(&self) -> ErrorRate {
        ErrorRate::new(self.requested_error_rate).unwrap_or(ErrorRate::DEFAULT)
    }

    /// Whether filters that are made without a rate get a lower one than was configured.
    pub fn error_rate_is_limited(&self) -> bool {
        self.layout != Layout::Valkey && self.requested_error_rate != self.error_rate().value()
    }

    /// The seed of filters that are made without one.
    pub fn seed(&self) -> Seed {
        self.seed.seed()
    }

    /// The most bytes that a client's command may make a filter use; `None` if the option sets no limit.
    pub fn max_filter_bytes(&self) -> Option<u64> {
        (self.max_filter_bytes > 0).then_some(self.max_filter_bytes)
    }
}

impl SeedValue {
    fn seed(self) -> Seed {
        match self {
            Self::Chosen(seed) | Self::Drawn(seed) => seed,
        }
    }

    /// Reads a value of the option; `None` for `random`, which requires a new seed.
    fn parse(value: &str) -> Result<Option<Self>, String> {
        if value.eq_ignore_ascii_case("random") {
            return Ok(None);
        }
        let (meaning, digits): (fn(Seed) -> Self, _) = match value.split_once(':') {
            Some((word, digits)) if word.eq_ignore_ascii_case("random") => (Self::Drawn, digits),
            _ => (Self::Chosen, value),
        };
        let range = format!("in the range [0, {}]", u64::MAX);
        let seed =
            number::whole(digits.as_bytes()).ok_or_else(|| format!("random, or a whole number {range}"))?;
        let seed = u64::try_from(seed).map_err(|_| range)?;
        Ok(Some(meaning(Seed(seed))))
    }
}

/// The text for a seed that was drawn. It differs from what users type: a server does not pass on a value that is
/// already set, and a second `random` must draw again. And it is not the number alone, because CONFIG REWRITE would
/// then fix that seed for every later run.
pub fn drawn(seed: Seed) -> String {
    format!("random:{}", seed.0)
}

/// Whether `value` requires a new seed. `random` does. A drawn seed does so only in the configuration that a server
/// starts with; later it restores a seed, as a server does when other options were refused.
pub fn draws_seed(value: &str, at_start: bool) -> bool {
    match SeedValue::parse(value) {
        Ok(None) => true,
        Ok(Some(SeedValue::Drawn(_))) => at_start,
        Ok(Some(SeedValue::Chosen(_))) | Err(_) => false,
    }
}

fn whole_in(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let range = format!("in the range [{least}, {most}]");
    let number = number::whole(value.as_bytes()).ok_or_else(|| format!("a whole number {range}"))?;
    let number = u64::try_from(number)
        .ok()
        .filter(|number| (least..=most).contains(number));
    number.ok_or(range)
}

/// Parses a number of bytes with the units of the server's options: powers of 1024 with a `b`, of 1000 without it.
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

    /// A configuration that was written for RedisBloom, or by CONFIG REWRITE, is understood.
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

    /// A server with RedisBloom's load arguments starts with this module, and a misspelt argument is no secret.
    #[test]
    fn options_of_other_filters_are_known() {
        for name in [
            "CF_MAX_EXPANSIONS",
            "cf_max_expansions",
            "cf-bucket-size",
            "CF-Initial-Size",
        ] {
            assert!(is_cuckoo_option(name), "{name}");
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
            assert!(!is_cuckoo_option(name), "{name}");
        }
    }

    /// CONFIG GET, and so CONFIG REWRITE, would tell another value.
    #[test]
    fn values_are_given_back_as_they_were_set() {
        let mut config = Config::new(Seed(7));
        let values = [
            "1e-6",
            "12345",
            "0",
            "classic",
            "18446744073709551615",
            "4096",
            "error",
        ];
        for (option, value) in ConfigOption::ALL.into_iter().zip(values) {
            assert_eq!(config.set(option, value), Ok(()));
            assert_eq!(config.get(option), value);
        }
        assert_eq!(config.expansion_factor, 0);
        assert_eq!(config.max_filter_bytes(), Some(4096));
        assert!(config.missing_key_is_error);
    }

    /// A user who is told the range of a number looks for a wrong number, not for a typing error.
    #[test]
    fn what_is_refused_changes_nothing_and_has_its_reason() {
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
            let refused = config.set(option, value);
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
        for value in ["", "1", "errors", "empty "] {
            assert_eq!(
                refused(ConfigOption::MissingKey, value),
                "missing-key must be empty or error"
            );
        }
    }

    /// A drawn seed is not fixed by CONFIG REWRITE, nor lost by a refused CONFIG SET.
    #[test]
    fn a_drawn_seed_is_known_from_a_chosen_one() {
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

    /// A limit of 1mb would be another number of bytes than in the server's own options.
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
