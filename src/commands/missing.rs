//! What an adding command of this module says besides its items: of a missing key the filter to be made, or that none
//! is to be, and of a window the time of the addition.

use std::ffi::CStr;

use super::args::{Argument, Cursor};
use super::creation::{self, AskedRate, Creation, Dialect, FilterOptions, FilterSpec, flag, once};
use super::error::CommandError;
use super::expiry::KeyOptions;
use super::window;
use crate::bloom::params::{Capacity, Time};
use crate::options;
use crate::options::values::{Config, LayoutName};
use crate::server::{self, Arg, Ctx};

const DIALECT: Dialect = Dialect {
    no_expansion: CommandError::NoValue("EXPANSION"),
    bad_expansion: CommandError::BadInsertExpansion,
    expansion_range: CommandError::BadInsertExpansion,
    nonscaling_expansion: None,
};

/// What was said of a missing key.
#[derive(Clone, Debug, Default)]
pub struct MissingKey {
    no_create: bool,
    capacity: Option<Capacity>,
    rate: Option<AskedRate>,
    options: FilterOptions,
    key: KeyOptions,
    /// When the items are added, if that was said.
    pub at: Option<Time>,
    /// Whether any of these words was there.
    pub is_described: bool,
}

impl MissingKey {
    /// Takes `word`, and its value from `cursor`, if it is one of these words. `command` is named in errors.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take<'a, A: Argument<'a>>(
        &mut self,
        word: &[u8],
        cursor: &mut Cursor<'a, A>,
        command: &'static CStr,
    ) -> Result<bool, CommandError> {
        if word.eq_ignore_ascii_case(b"CAPACITY") {
            let bad = CommandError::BadInsertCapacity;
            let items = creation::capacity(value_of("CAPACITY", cursor)?, bad.clone(), bad)?;
            once(&mut self.capacity, items, "CAPACITY")?;
        } else if word.eq_ignore_ascii_case(b"ERROR") {
            let bad = CommandError::BadInsertErrorRate;
            let rate = AskedRate::take(value_of("ERROR", cursor)?, bad.clone(), bad)?;
            once(&mut self.rate, rate, "ERROR")?;
        } else if word.eq_ignore_ascii_case(b"NOCREATE") {
            flag(&mut self.no_create, "NOCREATE")?;
        } else if !self.options.take(word, cursor, &DIALECT)?
            && !self.key.take(word, cursor, command)?
            && !window::take_time(&mut self.at, word, cursor)?
        {
            return Ok(false);
        }
        self.is_described = true;
        Ok(true)
    }

    /// Whether the words can describe a filter, whatever the configuration says.
    ///
    /// # Errors
    /// Options that exclude each other.
    pub fn check(&self) -> Result<(), CommandError> {
        self.options.check(&DIALECT)
    }

    /// The filter to be made, and when it expires if it is made `now`.
    ///
    /// # Errors
    /// NOCREATE, and options that the configuration excludes.
    pub fn creation(&self, config: &Config, now: i64) -> Result<Creation, CommandError> {
        if self.no_create {
            return Err(CommandError::NotFound);
        }
        Ok(Creation {
            filter: self.filter(config)?,
            expires: self.key.expires(now),
        })
    }

    fn filter(&self, config: &Config) -> Result<FilterSpec, CommandError> {
        let rate = self.rate.unwrap_or_else(|| AskedRate::configured(config));
        let items = self.capacity.unwrap_or(config.initial_size());
        let within_capacity = self.capacity.is_some();
        self.options.filter(rate, items, within_capacity, config)
    }

    /// The layout of the filter to be made.
    pub fn layout(&self, config: &Config) -> LayoutName {
        self.options.layout().unwrap_or(config.layout())
    }

    /// Whether the filter can grow as far as a client asked for, be the key missing or not.
    ///
    /// # Errors
    /// What keeps it from that, and options that the configuration excludes.
    pub fn check_goal(&self, config: impl FnOnce() -> Config) -> Result<(), CommandError> {
        if !self.options.has_goal() {
            return Ok(());
        }
        let config = config();
        self.options.check_goal(self.filter(&config)?, &config)
    }

    /// [`Self::creation`] on this server, which tells its log of a rate that is not used as it was asked for.
    ///
    /// # Errors
    /// Those of [`Self::creation`].
    pub fn create(&self, ctx: Ctx<'_>, key: Arg<'_>) -> Result<Creation, CommandError> {
        let creation = self.creation(&options::config(), server::milliseconds())?;
        if let Some(rate) = self.rate {
            creation::warn_of_rate(ctx, key, rate.asked, creation.filter.error_rate());
        }
        Ok(creation)
    }
}

/// The value of an option.
fn value_of<'a, A: Argument<'a>>(
    option: &'static str,
    cursor: &mut Cursor<'a, A>,
) -> Result<A, CommandError> {
    cursor.take_if_any().ok_or(CommandError::NoValue(option))
}
