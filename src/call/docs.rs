//! The description of a command, which the server publishes (COMMAND DOCS, COMMAND INFO) and redis-cli shows.

use std::ffi::{CStr, c_int};

use redis_module::raw;
use redis_module::raw::{
    REDISMODULE_CMD_KEY_ACCESS as ACCESS, REDISMODULE_CMD_KEY_DELETE as DELETE,
    REDISMODULE_CMD_KEY_INSERT as INSERT, REDISMODULE_CMD_KEY_OW as REPLACE, REDISMODULE_CMD_KEY_RO as READ,
    REDISMODULE_CMD_KEY_RW as WRITE, REDISMODULE_CMD_KEY_UPDATE as UPDATE,
};

use crate::call::Command;
use crate::server::{Ctx, call, entry, few};

pub struct Docs {
    pub summary: &'static CStr,
    /// How the command's running time grows.
    pub complexity: &'static CStr,
    /// The first version that had the command: of RedisBloom, or of this module if RedisBloom lacks it.
    pub since: &'static CStr,
    /// The command's arguments in order, in groups that commands share.
    pub parameters: &'static [&'static [Parameter]],
}

/// An argument of a command: one word, or a few that belong together.
#[derive(Clone, Copy)]
pub struct Parameter {
    name: &'static CStr,
    kind: Kind,
    /// The word before the value, or the word that stands alone.
    token: Option<&'static CStr>,
    optional: bool,
    /// Whether the value may be repeated, without its token.
    multiple: bool,
    /// The first version of this module that had the parameter, if RedisBloom has the command without it.
    since: Option<&'static CStr>,
}

#[derive(Clone, Copy)]
pub enum Kind {
    /// The key: the first parameter of a command that has one.
    Key(KeyUse),
    /// Further keys. The number before them says how many.
    Keys(KeyUse),
    /// Any bytes.
    Text,
    Integer,
    Double,
    UnixTime,
    /// Nothing but its token.
    Word,
    OneOf(&'static [Parameter]),
}

/// How a command uses a key, in the terms of the server's key specifications, from which ACL rules for keys follow.
///
/// The presence of an item is all the data that a filter has. So a command that replies whether an item is or was
/// there accesses data, although the server counts the presence of a set's member as metadata.
#[derive(Clone, Copy)]
pub struct KeyUse(u32);

impl KeyUse {
    pub const READ: Self = Self(READ | ACCESS);
    /// The key is created without using an earlier value; the reply tells at most whether there was one.
    pub const CREATE: Self = Self(REPLACE | INSERT);
    /// Data is stored; the reply tells nothing of the earlier data.
    pub const FILL: Self = Self(WRITE | INSERT);
    /// Items are added; the reply tells which of them were there.
    pub const ADD: Self = Self(WRITE | ACCESS | INSERT);
    /// Data is removed; the reply tells nothing of it.
    pub const DROP: Self = Self(WRITE | DELETE);
    /// Items are removed; the reply tells which of them were there.
    pub const REMOVE: Self = Self(WRITE | ACCESS | DELETE);
    /// The data is stored in another form, whose size the reply tells. Or the data of other keys is added, or replaces
    /// the earlier data; none of that goes elsewhere, so a user who may only write this key may bring in what he can read.
    pub const CHANGE: Self = Self(WRITE | UPDATE);
    /// The data is replaced by data of other keys.
    pub const OVERWRITE: Self = Self(REPLACE | UPDATE);
}

/// The complexity of commands on one item, or on the figures of each layer.
pub const O_OF_LAYERS: &CStr = c"O(n), where n is the number of layers";
pub const O_OF_MANY: &CStr = c"O(n * m), where n is the number of items and m is the number of layers";
/// The complexity of commands on a piece of a filter.
pub const O_OF_PIECE: &CStr =
    c"O(n + m), where n is the number of bytes of the piece and m is the number of layers";

pub const SINCE_OWN: &CStr = c"0.3.0";

pub const KEY: Parameter = Parameter::key(c"key", KeyUse::READ);
pub const KEY_TO_CREATE: Parameter = Parameter::key(c"key", KeyUse::CREATE);
pub const KEY_TO_ADD_TO: Parameter = Parameter::key(c"key", KeyUse::ADD);
pub const ITEM: Parameter = Parameter::new(c"item", Kind::Text);
pub const CAPACITY: Parameter = Parameter::option(c"capacity", c"CAPACITY", Kind::Integer);
pub const ERROR: Parameter = Parameter::option(c"error", c"ERROR", Kind::Double);
const EXPANSION: Parameter = Parameter::option(c"expansion", c"EXPANSION", Kind::Integer);
const NONSCALING: Parameter = Parameter::option(c"nonscaling", c"NONSCALING", Kind::Word);
/// How commands describe a filter that do not add to it.
pub const SIZED: &[Parameter] = &[
    Parameter::new(c"error_rate", Kind::Double),
    Parameter::new(c"capacity", Kind::Integer),
    EXPANSION,
    NONSCALING,
];
/// The key and the first options of commands that add items.
pub const ADDING: &[Parameter] = &[
    KEY_TO_ADD_TO,
    CAPACITY,
    ERROR,
    EXPANSION,
    Parameter::option(c"nocreate", c"NOCREATE", Kind::Word),
    NONSCALING,
];
/// What only this module's filters have.
pub const OPTIONS: &[Parameter] = &[
    Parameter::of_own(c"growing", c"GROWING", Kind::Word).optional(),
    Parameter::of_own(c"seed", c"SEED", Kind::Integer).optional(),
    Parameter::of_own(c"layout", c"LAYOUT", Kind::OneOf(LAYOUTS)).optional(),
    Parameter::of_own(c"tightening", c"TIGHTENING", Kind::Double).optional(),
    Parameter::of_own(c"validatescaleto", c"VALIDATESCALETO", Kind::Integer).optional(),
    Parameter::of_own(c"window", c"WINDOW", Kind::Integer).optional(),
    Parameter::of_own(c"slices", c"SLICES", Kind::Integer).optional(),
    Parameter::of_own(c"refresh", c"REFRESH", Kind::Word).optional(),
];
const LAYOUTS: &[Parameter] = &[
    Parameter::word(c"blocked", c"BLOCKED"),
    Parameter::word(c"classic", c"CLASSIC"),
    Parameter::word(c"valkey", c"VALKEY"),
];
pub const AT: Parameter = Parameter::of_own(c"at", c"AT", Kind::Integer).optional();
pub const EXPIRY: Parameter = Parameter::new(c"expiration", Kind::OneOf(EXPIRIES)).optional();
const EXPIRIES: &[Parameter] = &[
    Parameter::of_own(c"seconds", c"EX", Kind::Integer),
    Parameter::of_own(c"milliseconds", c"PX", Kind::Integer),
    Parameter::of_own(c"unix-time-seconds", c"EXAT", Kind::UnixTime),
    Parameter::of_own(c"unix-time-milliseconds", c"PXAT", Kind::UnixTime),
];

impl Parameter {
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

    pub const fn after(mut self, token: &'static CStr) -> Self {
        self.token = Some(token);
        self
    }

    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    pub const fn multiple(mut self) -> Self {
        self.multiple = true;
        self
    }

    /// A value after a token that RedisBloom does not have.
    pub const fn of_own(name: &'static CStr, token: &'static CStr, kind: Kind) -> Self {
        let mut own = Self::new(name, kind).after(token);
        own.since = Some(SINCE_OWN);
        own
    }

    fn fewest_words(&self) -> c_int {
        match self.kind {
            _ if self.optional => 0,
            Kind::Word => 1,
            _ => 1 + c_int::from(self.token.is_some()),
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
    fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.parameters.iter().copied().flatten()
    }

    pub fn has_key(&self) -> bool {
        self.parameters().any(|parameter| parameter.key_use().is_some())
    }

    /// The number of words of the command, with its name; negative if that is a minimum.
    fn arity(&self) -> c_int {
        let fewest = 1 + self.parameters().map(Parameter::fewest_words).sum::<c_int>();
        if self
            .parameters()
            .any(|parameter| parameter.optional || parameter.multiple)
        {
            -fewest
        } else {
            fewest
        }
    }
}

/// Describes a command and the use of its keys to the server: by its registration alone a command may do anything
/// with its first key. Servers before 7.0 have no descriptions. `false` when the server refuses it.
pub fn describe<C: Command>(ctx: Ctx<'_>) -> bool {
    let Some(set) = entry!(RedisModule_SetCommandInfo) else {
        return true;
    };
    // SAFETY: the context is that of the module's loading; the name is terminated.
    let command = unsafe { call!(RedisModule_GetCommand(ctx.raw(), C::NAME.as_ptr())) };
    if command.is_null() {
        return false;
    }
    let docs = C::DOCS;
    let mut keys = raw_keys(&docs);
    let mut parameters = RawParameters::of(docs.parameters());
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
        tips: if C::CACHEABLE {
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
    let keys = (1..).zip(docs.parameters()).filter_map(|(word, parameter)| {
        let mut key = end;
        key.flags = parameter.key_use()?.0.into();
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

/// A list of parameters in the server's form.
struct RawParameters {
    /// Ends with an entry of zeros.
    list: Vec<raw::RedisModuleCommandArg>,
    /// The lists that entries point to.
    _nested: Vec<Self>,
}

impl RawParameters {
    fn of<'a>(parameters: impl IntoIterator<Item = &'a Parameter>) -> Self {
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
            let flag = |is_set, flag: u32| if is_set { flag.cast_signed() } else { 0 };
            entry.flags = flag(parameter.optional, raw::REDISMODULE_CMD_ARG_OPTIONAL)
                | flag(parameter.multiple, raw::REDISMODULE_CMD_ARG_MULTIPLE);
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

#[cfg(test)]
mod tests;
