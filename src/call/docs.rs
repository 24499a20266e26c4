//! The description of a command, which the server publishes (COMMAND DOCS, COMMAND INFO) and redis-cli shows while
//! its users type.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::server::{Ctx, call, few};

/// The description of a command.
#[derive(Debug)]
pub struct Docs {
    /// What the command does.
    pub summary: &'static CStr,
    /// How the command's running time grows.
    pub complexity: &'static CStr,
    /// The first version that had the command: of RedisBloom, or of this module for a command that only this
    /// module has.
    pub since: &'static CStr,
    /// The command's arguments, in order.
    pub parameters: &'static [Parameter],
    /// Whether clients may cache the reply until the key changes. As in RedisBloom, they may not where the reply is
    /// about the filter instead of its items.
    pub cacheable: bool,
}

/// An argument of a command: one word, or a few that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    name: &'static CStr,
    kind: Kind,
    /// The word before the value, or the word that stands alone.
    token: Option<&'static CStr>,
    optional: bool,
    multiple: bool,
    /// The first version of this module that had the parameter, if RedisBloom has the command without it.
    since: Option<&'static CStr>,
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The key: the first parameter of a command that has one.
    Key(KeyUse),
    /// Further keys. The number before them says how many.
    Keys(KeyUse),
    /// Any bytes.
    Text,
    /// A whole number.
    Integer,
    /// A floating-point number.
    Double,
    /// A time of the Unix clock, a whole number.
    UnixTime,
    /// Nothing but its token.
    Word,
    /// One of several parameters.
    OneOf(&'static [Parameter]),
}

/// How a command uses a key, in the terms of the server's key specifications, from which ACL rules for keys follow.
///
/// The presence of an item is all the data that a filter has. So a command that replies whether an item is or was
/// there accesses data, although the server counts the presence of a set's member as metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The key is read.
    Read,
    /// The key is created without using an earlier value; the reply tells at most whether there was one.
    Create,
    /// Data is stored; the reply tells nothing of the earlier data.
    Fill,
    /// Items are added; the reply tells which of them were there.
    Add,
    /// Data is removed; the reply tells nothing of it.
    Drop,
    /// The data is stored in another form; the reply tells nothing of it but its size.
    Change,
    /// Items are removed; the reply tells which of them were there.
    Remove,
    /// The data of other keys is added, or replaces the earlier data. The reply tells nothing of the earlier data,
    /// and none of it goes elsewhere: a user who may only write this key may bring in what he can read.
    Merge,
    /// The data is replaced by data of other keys.
    Overwrite,
}

/// The complexity of commands on one item, or on the figures of each layer.
pub const O_OF_LAYERS: &CStr = c"O(n), where n is the number of layers";
/// The complexity of commands on many items.
pub const O_OF_MANY: &CStr = c"O(n * m), where n is the number of items and m is the number of layers";
/// The complexity of commands on a piece of a filter.
pub const O_OF_PIECE: &CStr =
    c"O(n + m), where n is the number of bytes of the piece and m is the number of layers";

/// The first version of this module.
pub const SINCE_OWN: &CStr = c"0.3.0";

pub(crate) const KEY: Parameter = Parameter::key(c"key", KeyUse::Read);
pub(crate) const KEY_TO_CREATE: Parameter = Parameter::key(c"key", KeyUse::Create);
pub(crate) const KEY_TO_ADD_TO: Parameter = Parameter::key(c"key", KeyUse::Add);
pub(crate) const ITEM: Parameter = Parameter::new(c"item", Kind::Text);
pub(crate) const RATE: Parameter = Parameter::new(c"error_rate", Kind::Double);
pub(crate) const SIZE: Parameter = Parameter::new(c"capacity", Kind::Integer);
pub(crate) const ERROR: Parameter = Parameter::option(c"error", c"ERROR", Kind::Double);
pub(crate) const CAPACITY: Parameter = Parameter::option(c"capacity", c"CAPACITY", Kind::Integer);
pub(crate) const EXPANSION: Parameter = Parameter::option(c"expansion", c"EXPANSION", Kind::Integer);
pub(crate) const NOCREATE: Parameter = Parameter::option(c"nocreate", c"NOCREATE", Kind::Word);
pub(crate) const NONSCALING: Parameter = Parameter::option(c"nonscaling", c"NONSCALING", Kind::Word);
pub(crate) const GROWING: Parameter = Parameter::option(c"growing", c"GROWING", Kind::Word).since(SINCE_OWN);
pub(crate) const SEED: Parameter = Parameter::option(c"seed", c"SEED", Kind::Integer).since(SINCE_OWN);
pub(crate) const LAYOUT: Parameter =
    Parameter::option(c"layout", c"LAYOUT", Kind::OneOf(LAYOUTS)).since(SINCE_OWN);
const LAYOUTS: &[Parameter] = &[
    Parameter::word(c"blocked", c"BLOCKED"),
    Parameter::word(c"classic", c"CLASSIC"),
    Parameter::word(c"valkey", c"VALKEY"),
];
pub(crate) const TIGHTENING: Parameter =
    Parameter::option(c"tightening", c"TIGHTENING", Kind::Double).since(SINCE_OWN);
pub(crate) const VALIDATESCALETO: Parameter =
    Parameter::option(c"validatescaleto", c"VALIDATESCALETO", Kind::Integer).since(SINCE_OWN);
pub(crate) const WINDOW: Parameter = Parameter::option(c"window", c"WINDOW", Kind::Integer).since(SINCE_OWN);
pub(crate) const SLICES: Parameter = Parameter::option(c"slices", c"SLICES", Kind::Integer).since(SINCE_OWN);
pub(crate) const REFRESH: Parameter = Parameter::option(c"refresh", c"REFRESH", Kind::Word).since(SINCE_OWN);
pub(crate) const AT: Parameter = Parameter::option(c"at", c"AT", Kind::Integer).since(SINCE_OWN);
pub(crate) const EXPIRY: Parameter = Parameter::new(c"expiration", Kind::OneOf(EXPIRIES)).optional();
const EXPIRIES: &[Parameter] = &[
    Parameter::new(c"seconds", Kind::Integer)
        .after(c"EX")
        .since(SINCE_OWN),
    Parameter::new(c"milliseconds", Kind::Integer)
        .after(c"PX")
        .since(SINCE_OWN),
    Parameter::new(c"unix-time-seconds", Kind::UnixTime)
        .after(c"EXAT")
        .since(SINCE_OWN),
    Parameter::new(c"unix-time-milliseconds", Kind::UnixTime)
        .after(c"PXAT")
        .since(SINCE_OWN),
];

impl Parameter {
    /// A required value.
    pub const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self {
            name,
            kind,
            token: None,
            optional: false,
            multiple: false,
            since: None,
        }
    }

    /// The command's key.
    pub const fn key(name: &'static CStr, key_use: KeyUse) -> Self {
        Self::new(name, Kind::Key(key_use))
    }

    /// A word that stands for itself.
    pub const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, Kind::Word).after(token)
    }

    /// An optional value after its token.
    pub const fn option(name: &'static CStr, token: &'static CStr, kind: Kind) -> Self {
        Self::new(name, kind).after(token).optional()
    }

    /// Puts a token before the value.
    pub const fn after(self, token: &'static CStr) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// Makes the parameter optional.
    pub const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// Lets the value be repeated, without its token.
    pub const fn multiple(self) -> Self {
        Self {
            multiple: true,
            ..self
        }
    }

    /// Sets the first version of this module that had the parameter.
    pub const fn since(self, version: &'static CStr) -> Self {
        Self {
            since: Some(version),
            ..self
        }
    }

    /// The fewest words that the parameter can have.
    fn fewest_words(&self) -> usize {
        match self.kind {
            _ if self.optional => 0,
            Kind::Word => 1,
            _ => 1 + usize::from(self.token.is_some()),
        }
    }

    /// How the command uses these keys, if the parameter is a key.
    fn key_use(&self) -> Option<KeyUse> {
        match self.kind {
            Kind::Key(key_use) | Kind::Keys(key_use) => Some(key_use),
            _ => None,
        }
    }
}

impl Docs {
    /// Whether the command works on a key.
    pub fn has_key(&self) -> bool {
        self.parameters
            .iter()
            .any(|parameter| parameter.key_use().is_some())
    }

    /// Whether one of its arguments says how many keys it has besides the first.
    pub const fn counts_keys(&self) -> bool {
        let mut rest = self.parameters;
        while let [first, others @ ..] = rest {
            if matches!(first.kind, Kind::Keys(_)) {
                return true;
            }
            rest = others;
        }
        false
    }

    /// The number of words of the command, with its name; negative if that is a minimum.
    fn arity(&self) -> c_int {
        let fewest = self.parameters.iter().map(Parameter::fewest_words).sum::<usize>();
        let fewest = 1 + c_int::try_from(fewest).unwrap_or(0);
        let may_be_more = |parameter: &Parameter| parameter.optional || parameter.multiple;
        if self.parameters.iter().any(may_be_more) {
            -fewest
        } else {
            fewest
        }
    }
}

/// Describes a command and the use of its keys to the server: by its registration alone a command may do anything
/// with its first key. Servers before 7.0 have no descriptions. `false` when the server refuses it.
pub fn describe(ctx: Ctx<'_>, command: &CStr, docs: &Docs) -> bool {
    // SAFETY: the table is filled once, before any callback of the module runs.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandInfo }) else {
        return true;
    };
    // SAFETY: the context is that of the module's loading; the name is terminated.
    let command = unsafe { call!(RedisModule_GetCommand(ctx.raw(), command.as_ptr())) };
    if command.is_null() {
        return false;
    }
    let mut keys = raw_keys(docs);
    let mut parameters = RawParameters::of(docs.parameters);
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let info = raw::RedisModuleCommandInfo {
        version: &raw const version,
        summary: docs.summary.as_ptr(),
        complexity: docs.complexity.as_ptr(),
        since: docs.since.as_ptr(),
        history: std::ptr::null_mut(),
        tips: if docs.cacheable {
            std::ptr::null()
        } else {
            c"dont_cache".as_ptr()
        },
        arity: docs.arity(),
        key_specs: keys.as_mut_ptr(),
        args: parameters.list.as_mut_ptr(),
    };
    // SAFETY: the command is alive, and every list ends with an entry of zeros; the server copies all of it.
    unsafe { set(command, &raw const info) == raw::REDISMODULE_OK as c_int }
}

/// The positions of the command's keys and their use; the list ends with an entry of zeros.
fn raw_keys(docs: &Docs) -> Vec<raw::RedisModuleCommandKeySpec> {
    // SAFETY: a plain C structure of numbers and pointers, for which all zeros mean "not given".
    let end: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    // Every parameter before a key is one word, and the command's name is word 0.
    let keys = (1..).zip(docs.parameters).filter_map(|(word, parameter)| {
        let mut key = end;
        key.flags = parameter.key_use()?.raw_flags();
        key.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        if let Kind::Keys(_) = parameter.kind {
            key.bs.index.pos = word - 1;
            key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            key.fk.keynum.keynumidx = 0;
            key.fk.keynum.firstkey = 1;
            key.fk.keynum.keystep = 1;
        } else {
            key.bs.index.pos = word;
            key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
            key.fk.range.keystep = 1;
        }
        Some(key)
    });
    few(keys.chain([end]))
}

impl KeyUse {
    fn raw_flags(self) -> u64 {
        let (read, write, replace) = (
            raw::REDISMODULE_CMD_KEY_RO,
            raw::REDISMODULE_CMD_KEY_RW,
            raw::REDISMODULE_CMD_KEY_OW,
        );
        let (access, insert) = (raw::REDISMODULE_CMD_KEY_ACCESS, raw::REDISMODULE_CMD_KEY_INSERT);
        let (update, delete) = (raw::REDISMODULE_CMD_KEY_UPDATE, raw::REDISMODULE_CMD_KEY_DELETE);
        let flags: &[u32] = match self {
            Self::Read => &[read, access],
            Self::Create => &[replace, insert],
            Self::Fill => &[write, insert],
            Self::Add => &[write, access, insert],
            Self::Drop => &[write, delete],
            Self::Remove => &[write, access, delete],
            Self::Change | Self::Merge => &[write, update],
            Self::Overwrite => &[replace, update],
        };
        // Each is a bit of its own.
        flags.iter().copied().map(u64::from).sum()
    }
}

/// A list of parameters in the server's form.
struct RawParameters {
    /// Ends with an entry of zeros.
    list: Vec<raw::RedisModuleCommandArg>,
    /// The lists that entries point to.
    _nested: Vec<Self>,
}

impl RawParameters {
    fn of(parameters: &[Parameter]) -> Self {
        // SAFETY: a plain C structure of numbers and pointers, for which all zeros mean "not given".
        let end: raw::RedisModuleCommandArg = unsafe { std::mem::zeroed() };
        let mut nested = Vec::new();
        let mut list = Vec::new();
        let mut key_specs = 0..;
        for parameter in parameters {
            let mut entry = end;
            entry.name = parameter.name.as_ptr();
            entry.token = parameter.token.map_or(std::ptr::null(), CStr::as_ptr);
            entry.since = parameter.since.map_or(std::ptr::null(), CStr::as_ptr);
            entry.key_spec_index = parameter.key_use().and_then(|_| key_specs.next()).unwrap_or(-1);
            entry.flags = parameter.raw_flags();
            entry.type_ = match parameter.kind {
                Kind::Key(_) | Kind::Keys(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
                Kind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
                Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
                Kind::Double => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE,
                Kind::UnixTime => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME,
                Kind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                Kind::OneOf(choices) => {
                    let mut choices = Self::of(choices);
                    entry.subargs = choices.list.as_mut_ptr();
                    nested.push(choices);
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF
                }
            };
            list.push(entry);
        }
        list.push(end);
        Self {
            list,
            _nested: nested,
        }
    }
}

impl Parameter {
    fn raw_flags(&self) -> c_int {
        let flag = |is_set, flag: u32| if is_set { flag.cast_signed() } else { 0 };
        flag(self.optional, raw::REDISMODULE_CMD_ARG_OPTIONAL)
            | flag(self.multiple, raw::REDISMODULE_CMD_ARG_MULTIPLE)
    }
}

#[cfg(test)]
mod tests;
