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
    /// The version of this module that had it first, if its command came from RedisBloom without it.
    since: Option<&'static CStr>,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The key: the first parameter of a command that has one.
    Key(KeyUse),
    /// As many further keys as the whole number before it says.
    Keys(KeyUse),
    /// Any bytes.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// A time of the Unix clock, a whole number.
    UnixTime,
    /// Nothing but its token.
    Word,
    /// One of these.
    OneOf(&'static [Parameter]),
}

/// What becomes of a key, in the terms of the server's key specifications: whose rules for keys permit what.
///
/// What a filter tells of an item is all the data that it has. So to ask it, or to tell whether an added item was
/// there, is to access its data, while the server counts the presence of a set's member among the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// It is asked.
    Read,
    /// It is made, with nothing of an earlier value; the reply tells no more than whether there was one.
    Create,
    /// Data go in, and nothing is told of what was in it.
    Fill,
    /// Items go in, and the reply tells which of them were in it.
    Add,
    /// Data are taken out, and nothing is told of them.
    Drop,
    /// Items are taken out, and the reply tells which of them were in it.
    Remove,
    /// What other keys have goes in, or takes the place of all that was in it. Nothing is told of what was in it, and
    /// nothing of it goes elsewhere: who may only write a key may bring what he can read.
    Merge,
    /// What it has is replaced by what others have.
    Overwrite,
}

/// The complexity of what is done with one item, or with the figures of each layer.
pub const O_OF_LAYERS: &CStr = c"O(n), where n is the number of layers";
/// The complexity of what is done with many items.
pub const O_OF_MANY: &CStr = c"O(n * m), where n is the number of items and m is the number of layers";
/// The complexity of what is done with a piece of a filter.
pub const O_OF_PIECE: &CStr =
    c"O(n + m), where n is the number of bytes of the piece and m is the number of layers";

/// The first version of this module.
pub const SINCE_OWN: &CStr = c"0.2.0";

/// The key of a command that only reads it.
pub const KEY: Parameter = Parameter::new(c"key", Kind::Key(KeyUse::Read));
/// The key of a command that makes it.
pub const KEY_TO_CREATE: Parameter = Parameter::new(c"key", Kind::Key(KeyUse::Create));
/// The key of a command that puts data into it.
pub const KEY_TO_FILL: Parameter = Parameter::new(c"key", Kind::Key(KeyUse::Fill));
/// The key of a command that adds items to it.
pub const KEY_TO_ADD_TO: Parameter = Parameter::new(c"key", Kind::Key(KeyUse::Add));
/// The key of a command that takes data out of it.
pub const KEY_TO_DROP_FROM: Parameter = Parameter::new(c"key", Kind::Key(KeyUse::Drop));
/// The key of a command that takes items out of it.
pub const KEY_TO_EXCEPT_FROM: Parameter = Parameter::new(c"key", Kind::Key(KeyUse::Remove));
/// The key of a command that puts into it what other keys have.
pub const KEY_TO_MERGE_INTO: Parameter = Parameter::new(c"destination", Kind::Key(KeyUse::Merge));
/// The key of a command that replaces it by what it makes of other keys.
pub const KEY_TO_OVERWRITE: Parameter = Parameter::new(c"destination", Kind::Key(KeyUse::Overwrite));
/// One item.
pub const ITEM: Parameter = Parameter::new(c"item", Kind::Text);
/// `CAPACITY n`
pub const CAPACITY: Parameter = Parameter::option(c"capacity", c"CAPACITY", Kind::Integer);
/// `ERROR e`
pub const ERROR: Parameter = Parameter::option(c"error", c"ERROR", Kind::Double);
/// `NOCREATE`
pub const NOCREATE: Parameter = Parameter::option(c"nocreate", c"NOCREATE", Kind::Word);
/// `EXPANSION n`
pub const EXPANSION: Parameter = Parameter::option(c"expansion", c"EXPANSION", Kind::Integer);
/// `NONSCALING`
pub const NONSCALING: Parameter = Parameter::option(c"nonscaling", c"NONSCALING", Kind::Word);
/// `GROWING`
pub const GROWING: Parameter = Parameter::option(c"growing", c"GROWING", Kind::Word).since(SINCE_OWN);
/// `SEED s`
pub const SEED: Parameter = Parameter::option(c"seed", c"SEED", Kind::Integer).since(SINCE_OWN);
/// `LAYOUT BLOCKED`, or another one
pub const LAYOUT: Parameter = Parameter::option(
    c"layout",
    c"LAYOUT",
    Kind::OneOf(&[
        Parameter::word(c"blocked", c"BLOCKED"),
        Parameter::word(c"classic", c"CLASSIC"),
        Parameter::word(c"valkey", c"VALKEY"),
    ]),
)
.since(SINCE_OWN);

/// `TIGHTENING t`
pub const TIGHTENING: Parameter =
    Parameter::option(c"tightening", c"TIGHTENING", Kind::Double).since(SINCE_OWN);
/// `VALIDATESCALETO n`
pub const VALIDATESCALETO: Parameter =
    Parameter::option(c"validatescaleto", c"VALIDATESCALETO", Kind::Integer).since(SINCE_OWN);

/// `NX`
pub const NX: Parameter = Parameter::option(c"nx", c"NX", Kind::Word).since(SINCE_OWN);
/// `EX seconds`, or another word for a time, named as those of SET are.
pub const EXPIRY: Parameter = Parameter::new(
    c"expiration",
    Kind::OneOf(&[
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
    ]),
)
.optional();

/// `WINDOW s`
pub const WINDOW: Parameter = Parameter::option(c"window", c"WINDOW", Kind::Integer).since(SINCE_OWN);
/// `SLICES n`
pub const SLICES: Parameter = Parameter::option(c"slices", c"SLICES", Kind::Integer).since(SINCE_OWN);
/// `REFRESH`
pub const REFRESH: Parameter = Parameter::option(c"refresh", c"REFRESH", Kind::Word).since(SINCE_OWN);
/// `AT ms`
pub const AT: Parameter = Parameter::option(c"at", c"AT", Kind::Integer).since(SINCE_OWN);

impl Parameter {
    /// A value that must be given.
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

    /// Only since that version of this module.
    pub const fn since(self, version: &'static CStr) -> Self {
        Self {
            since: Some(version),
            ..self
        }
    }

    /// The fewest words that it takes.
    fn fewest_words(&self) -> usize {
        match self.kind {
            _ if self.optional => 0,
            Kind::Word => 1,
            Kind::Key(_)
            | Kind::Keys(_)
            | Kind::Text
            | Kind::Integer
            | Kind::Double
            | Kind::UnixTime
            | Kind::OneOf(_) => 1 + usize::from(self.token.is_some()),
        }
    }

    /// What becomes of the keys that it is, if it is any.
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
    pub fn counts_keys(&self) -> bool {
        let counted = |parameter: &Parameter| matches!(parameter.kind, Kind::Keys(_));
        self.parameters.iter().any(counted)
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

/// Tells the server what a command of this module is, and what becomes of its keys: a registration alone says that
/// it may do anything with the first. Servers before 7.0 do not want to know. `false` when the server refuses it.
pub fn describe(ctx: Ctx<'_>, command: &CStr, docs: &Docs) -> bool {
    // SAFETY: the table is filled once, before any callback of the module runs.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandInfo }) else {
        return true;
    };
    // SAFETY (of the call): the context is that of the module's loading; the name is terminated.
    let command = call!(RedisModule_GetCommand(ctx.raw(), command.as_ptr()));
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
        tips: docs.tips().map_or(std::ptr::null(), CStr::as_ptr),
        arity: docs.arity(),
        key_specs: keys.as_mut_ptr(),
        args: parameters.list.as_mut_ptr(),
    };
    // SAFETY: the command is alive, and every list ends with an entry of zeros; the server copies what it is told.
    unsafe { set(command, &raw const info) == raw::REDISMODULE_OK as c_int }
}

/// Where the command's keys are and what becomes of them; the list ends with an entry of zeros.
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
    keys.chain([end]).collect()
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
            Self::Merge => &[write, update],
            Self::Overwrite => &[replace, update],
        };
        // Each is a bit of its own.
        flags.iter().copied().map(u64::from).sum()
    }
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
