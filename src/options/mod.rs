//! The module's options in the server: load arguments, CONFIG SET, CONFIG GET.

pub mod values;

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use crate::number;
use crate::server::shown::shown;
use crate::server::{Arg, Ctx, OwnedString, call, entry, few, guarded, note, warn};
use libbloom::layouts::blocked::secret::Secret;
use libbloom::params::Seed;
use values::{Config, ConfigOption, is_cuckoo_option};

struct Current {
    config: Config,
    /// The secret of the configured seed, which new filters share. `None` when the module is being unloaded.
    secret: Option<Arc<Secret>>,
    /// The last values that CONFIG GET returned; the server borrows them.
    given: [Option<OwnedString>; ConfigOption::ALL.len()],
    starting: bool,
    /// The option that was refused during the load, and why.
    refused: Option<String>,
}

static CURRENT: LazyLock<Mutex<Current>> = LazyLock::new(|| Mutex::new(Current::new()));

impl Current {
    fn new() -> Self {
        let config = Config::new(random_seed());
        let secret = Secret::of(config.seed());
        Self {
            config,
            secret: Some(secret),
            given: Default::default(),
            starting: true,
            refused: None,
        }
    }

    /// Logs an error rate that is not used unchanged.
    fn log_rate(&self) {
        if self.config.error_rate_is_limited() {
            let option = ConfigOption::ErrorRate;
            let (requested, used) = (self.config.get(option), self.config.error_rate().value());
            let used = number::short(used);
            warn(None, &format!("{} {requested} is used as {used}", option.name()));
        }
    }

    fn started(&mut self) {
        self.starting = false;
        self.log_rate();
    }
}

fn current() -> MutexGuard<'static, Current> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees what the options hold: the server unloads the module with its statics.
pub(crate) fn free_all() {
    // A load may fail before the options exist.
    if LazyLock::get(&CURRENT).is_none() {
        return;
    }
    let mut current = current();
    current.secret = None;
    current.given = Default::default();
    current.refused = None;
}

pub(crate) fn config() -> Config {
    current().config.clone()
}

fn set(option: ConfigOption, value: &str) -> Result<(), String> {
    let mut current = current();
    let is_new = value != current.config.get(option);
    let drawn = (option == ConfigOption::Seed && is_new && values::draws_seed(value, current.starting))
        .then(|| values::drawn(random_seed()));
    let value = drawn.as_deref().unwrap_or(value);
    current.config.set(option, value)?;
    let tells = is_new && matches!(option, ConfigOption::ErrorRate | ConfigOption::Layout);
    if tells && !current.starting {
        current.log_rate();
    }
    let seed = current.config.seed();
    if current.secret.as_ref().is_none_or(|secret| secret.seed() != seed) {
        current.secret = Some(Secret::of(seed));
    }
    Ok(())
}

fn random_seed() -> Seed {
    let mut bytes = [0; 8];
    // SAFETY: there is room for that many bytes.
    unsafe { call!(RedisModule_GetRandomBytes(bytes.as_mut_ptr(), bytes.len())) };
    Seed(u64::from_le_bytes(bytes))
}

/// Reads the load arguments: pairs of a name, in any of its forms, and a value. Those that only RedisBloom has are
/// ignored, with a line in the log; so is a single empty argument.
pub(crate) fn load_arguments(arguments: &[Arg<'_>]) -> Result<(), String> {
    if let [only] = arguments
        && only.bytes().is_empty()
    {
        return Ok(());
    }
    let mut given = Vec::new();
    for pair in arguments.chunks(2) {
        let texts = few(pair.iter().map(|text| String::from_utf8_lossy(text.bytes())));
        let [name, rest @ ..] = &texts[..] else { break };
        let option = ConfigOption::named(name);
        if option.is_none() && !is_cuckoo_option(name) {
            return Err(format!("unknown load argument '{name}'"));
        }
        let [value] = rest else {
            return Err(format!("load argument '{name}' has no value"));
        };
        let Some(option) = option else {
            let line =
                format!("load argument '{name}' '{value}' is ignored: it is for RedisBloom's Cuckoo filters");
            note(None, &line);
            continue;
        };
        if given.contains(&option) {
            return Err(format!(
                "load argument '{name}': {} was given twice",
                option.name()
            ));
        }
        given.push(option);
        set(option, value).map_err(|invalid| format!("load argument '{name}': {invalid}"))?;
    }
    Ok(())
}

/// Registers the options with the server, if it supports those of modules (7.0 and later), and reads its configuration
/// file. Load arguments become the defaults.
pub(crate) fn register(ctx: Ctx<'_>) -> Result<(), String> {
    if entry!(RedisModule_RegisterStringConfig).is_none() {
        current().started();
        return Ok(());
    }
    // In Redis 8 and later the names may omit the module's name and a dot. Valkey refuses or ignores that.
    let is_new = ctx
        .major_version(c"redis_version")
        .is_some_and(|major| major >= 8);
    let (prefix, separator, flags) = if is_new && ctx.info_text(c"server", c"valkey_version").is_none() {
        ("bf-", '-', raw::REDISMODULE_CONFIG_UNPREFIXED)
    } else {
        ("", '.', raw::REDISMODULE_CONFIG_DEFAULT)
    };
    for (index, option) in ConfigOption::ALL.into_iter().enumerate() {
        let name = format!("{prefix}{}", option.name());
        let default = current().config.get(option);
        let (Ok(c_name), Ok(default)) = (CString::new(name.clone()), CString::new(default)) else {
            continue;
        };
        // SAFETY: the server copies the texts; the callbacks take the index as their data.
        let status = unsafe {
            call!(RedisModule_RegisterStringConfig(
                ctx.raw(),
                c_name.as_ptr(),
                default.as_ptr(),
                flags,
                Some(get_option),
                Some(set_option),
                None,
                std::ptr::without_provenance_mut(index)
            ))
        };
        if status != raw::REDISMODULE_OK as c_int {
            return Err(format!("the option {name} could not be registered"));
        }
    }
    // SAFETY: the context is that of the module's loading.
    if unsafe { call!(RedisModule_LoadConfigs(ctx.raw())) } != raw::REDISMODULE_OK as c_int {
        return Err(match current().refused.take() {
            Some(why) => format!("option bf{separator}{why}"),
            None => "the module's options in the configuration were refused".to_owned(),
        });
    }
    current().started();
    Ok(())
}

unsafe extern "C" fn get_option(_name: *const c_char, index: *mut c_void) -> *mut raw::RedisModuleString {
    let value = guarded("reading an option", || {
        let mut current = current();
        let option = ConfigOption::ALL[index.addr()];
        let value = OwnedString::new(current.config.get(option).as_bytes());
        let given = value.arg().raw();
        current.given[index.addr()] = Some(value);
        given
    });
    value.unwrap_or(std::ptr::null_mut())
}

unsafe extern "C" fn set_option(
    _name: *const c_char,
    value: *mut raw::RedisModuleString,
    index: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    let mut value = value;
    // SAFETY: the server lends one string for the time of the call: an argument list of length 1.
    let value = unsafe { Arg::of_command(&raw mut value, 1) };
    let refused = guarded("setting an option", || {
        let option = ConfigOption::ALL[index.addr()];
        let value = value[0].bytes();
        let refused = set(option, &String::from_utf8_lossy(value)).err();
        let mut current = current();
        if let Some(why) = refused.as_ref().filter(|_| current.starting) {
            current.refused = Some(format!("{} '{}': {why}", option.name(), shown(value)));
        }
        refused
    });
    let Some(invalid) = refused.unwrap_or_else(|| Some("internal error".to_owned())) else {
        return raw::REDISMODULE_OK as c_int;
    };
    let text = OwnedString::new(invalid.as_bytes());
    // SAFETY: the server passes the address for a text that it frees.
    unsafe { error.write(text.arg().raw()) };
    std::mem::forget(text);
    raw::REDISMODULE_ERR as c_int
}
