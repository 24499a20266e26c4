//! What the server tells others about a command (COMMAND DOCS, COMMAND INFO), and redis-cli its users while they
//! type.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::server::{Ctx, call};

/// A command, described.
#[derive(Debug)]
pub struct Docs {
    /// What it does.
    pub summary: &'static CStr,
    /// How its time grows.
    pub complexity: &'static CStr,
    /// The version that had it first: of RedisBloom, or of this module for what only this module has.
    pub since: &'static CStr,
    /// What follows its name, in this order.
    pub parameters: &'static [Parameter],
    /// Whether clients may keep what it answers until the key is changed. Of what is about a filter, and not about
    /// its items, RedisBloom says that they may not.
    pub cacheable: bool,
}

/// What follows the name of a command: one word, or a few that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    name: &'static CStr,
    kind: Kind,
    /// The word that comes before the value, or that is all there is.
    token: Option<&'static CStr>,
    optional: bool,
    multiple: bool,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The key: the first parameter of a command that has one.
    Key,
    /// Any bytes.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// Nothing but its token.
    Word,
    /// One of these.
    OneOf(&'static [Parameter]),
}

/// The complexity of what is done with one item.
pub const O_OF_ONE: &CStr = c"O(k), where k is the number of hash functions used by the last sub-filter";
/// The complexity of what is done with many items.
pub const O_OF_MANY: &CStr =
    c"O(k * n), where k is the number of hash functions and n is the number of items";

/// The key that a command works on.
pub const KEY: Parameter = Parameter::new(c"key", Kind::Key);
/// One item.
pub const ITEM: Parameter = Parameter::new(c"item", Kind::Text);
/// `EXPANSION n`
pub const EXPANSION: Parameter = Parameter::option(c"expansion", c"EXPANSION", Kind::Integer);
/// `NONSCALING`
pub const NONSCALING: Parameter = Parameter::option(c"nonscaling", c"NONSCALING", Kind::Word);
/// `GROWING`
pub const GROWING: Parameter = Parameter::option(c"growing", c"GROWING", Kind::Word);
/// `SEED s`
pub const SEED: Parameter = Parameter::option(c"seed", c"SEED", Kind::Integer);
/// `LAYOUT BLOCKED` or `LAYOUT CLASSIC`
pub const LAYOUT: Parameter = Parameter::option(
    c"layout",
    c"LAYOUT",
    Kind::OneOf(&[
        Parameter::word(c"blocked", c"BLOCKED"),
        Parameter::word(c"classic", c"CLASSIC"),
    ]),
);

impl Parameter {
    /// A value that must be given.
    pub const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self {
            name,
            kind,
            token: None,
            optional: false,
            multiple: false,
        }
    }

    /// A word that stands for itself.
    pub const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, Kind::Word).after(token)
    }

    /// What may be given after its token.
    pub const fn option(name: &'static CStr, token: &'static CStr, kind: Kind) -> Self {
        Self::new(name, kind).after(token).optional()
    }

    /// With that word before it.
    pub const fn after(self, token: &'static CStr) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// May be left out.
    pub const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// May be repeated, without its token.
    pub const fn multiple(self) -> Self {
        Self {
            multiple: true,
            ..self
        }
    }

    /// The fewest words that it takes.
    fn fewest_words(&self) -> usize {
        match self.kind {
            _ if self.optional => 0,
            Kind::Word => 1,
            Kind::Key | Kind::Text | Kind::Integer | Kind::Double | Kind::OneOf(_) => {
                1 + usize::from(self.token.is_some())
            }
        }
    }
}

impl Docs {
    /// Whether the command works on a key.
    pub fn has_key(&self) -> bool {
        matches!(self.parameters, [Parameter { kind: Kind::Key, .. }, ..])
    }

    /// What clients and proxies are told about its answers, if anything.
    fn tips(&self) -> Option<&'static CStr> {
        (!self.cacheable).then_some(c"dont_cache")
    }

    /// As many words as the command has, its name among them; negative: so many or more.
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

/// Tells the server what a command of this module is, and whether it only reads its key: a registration alone says
/// that it may change it. Servers before 7.0 do not want to know. `false` when the server refuses it.
pub fn describe(ctx: Ctx<'_>, command: &CStr, docs: &Docs, reads: bool) -> bool {
    // SAFETY: the table is filled once, before any callback of the module runs.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandInfo }) else {
        return true;
    };
    // SAFETY (of the call): the context is that of the module's loading; the name is terminated.
    let command = call!(RedisModule_GetCommand(ctx.raw(), command.as_ptr()));
    if command.is_null() {
        return false;
    }
    let mut keys = raw_keys(docs, reads);
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
        tips: docs.tips().map_or(std::ptr::null(), CStr::as_ptr),
        arity: docs.arity(),
        key_specs: keys.as_mut_ptr(),
        args: parameters.list.as_mut_ptr(),
    };
    // SAFETY: the command is alive, and every list ends with an entry of zeros; the server copies what it is told.
    unsafe { set(command, &raw const info) == raw::REDISMODULE_OK as c_int }
}

/// Where the command's key is and what becomes of it, if it has one.
fn raw_keys(docs: &Docs, reads: bool) -> Vec<raw::RedisModuleCommandKeySpec> {
    // SAFETY: a plain C structure of numbers and pointers, for which all zeros mean "not given".
    let end: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    if !docs.has_key() {
        return vec![end];
    }
    let use_of_it = if reads {
        raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS
    } else {
        raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
    };
    let mut key = end;
    key.flags = u64::from(use_of_it);
    key.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    key.bs.index.pos = 1;
    key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    key.fk.range.keystep = 1;
    vec![key, end]
}

/// A list of parameters as the server reads it.
struct RawParameters {
    /// Ends with an entry of zeros.
    list: Vec<raw::RedisModuleCommandArg>,
    /// What entries of the list point to.
    _nested: Vec<Self>,
}

impl RawParameters {
    fn of(parameters: &[Parameter]) -> Self {
        // SAFETY: a plain C structure of numbers and pointers, for which all zeros mean "not given".
        let end: raw::RedisModuleCommandArg = unsafe { std::mem::zeroed() };
        let mut nested = Vec::new();
        let mut list = Vec::new();
        for parameter in parameters {
            let mut entry = end;
            entry.name = parameter.name.as_ptr();
            entry.token = parameter.token.map_or(std::ptr::null(), CStr::as_ptr);
            entry.key_spec_index = -1;
            entry.flags = parameter.raw_flags();
            entry.type_ = match parameter.kind {
                Kind::Key => {
                    entry.key_spec_index = 0;
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY
                }
                Kind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
                Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
                Kind::Double => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE,
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
