//! The origin of a command: who sent it, and what that implies.

use std::ffi::{CStr, CString};

use redis_module::raw;

use super::{Ctx, ask, call};

/// Who sent a command, or caused another call of the module, as far as the server tells without further queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Client,
    /// A script, whoever called it.
    Script,
    PrimaryScript,
    /// A script in a file that is being loaded.
    FileScript,
    Primary {
        /// Whether anybody reads what this server propagates.
        has_readers: bool,
    },
    /// A file that is being loaded.
    File,
    /// A call without a client, such as a load: the server does not tell at once on whose behalf.
    Unnamed,
}

impl Ctx<'_> {
    /// Who sent the command that runs.
    pub fn origin(self) -> Origin {
        let flags = self.flags();
        let has = |flag| flags & flag != 0;
        match (
            has(raw::REDISMODULE_CTX_FLAGS_LOADING),
            has(raw::REDISMODULE_CTX_FLAGS_REPLICATED),
            has(raw::REDISMODULE_CTX_FLAGS_LUA),
        ) {
            (true, _, true) => Origin::FileScript,
            (true, _, false) => Origin::File,
            (false, true, true) => Origin::PrimaryScript,
            (false, true, false) => Origin::Primary {
                has_readers: has(raw::REDISMODULE_CTX_FLAGS_AOF) || !has(raw::REDISMODULE_CTX_FLAGS_SLAVE),
            },
            (false, false, true) => Origin::Script,
            (false, false, false) => Origin::Client,
        }
    }

    pub fn origin_unnamed(self) -> Origin {
        match self.origin() {
            Origin::Client | Origin::Script => Origin::Unnamed,
            known => known,
        }
    }

    /// Whether the running command [must be obeyed](Origin::must_obey).
    pub fn must_obey(self) -> bool {
        self.origin().must_obey(self)
    }
}

impl Origin {
    /// Whether the words of the command come from a primary or a file. A script's commands have its own words.
    pub fn is_relayed(self) -> bool {
        matches!(self, Self::Primary { .. } | Self::File)
    }

    /// Whether nobody reads what the command propagates: it comes from a primary, which also serves the replicas of
    /// this one, and there is no append-only file.
    pub fn has_no_readers(self) -> bool {
        self == Self::Primary { has_readers: false }
    }

    /// Whether the origin is a primary or a file, as far as the server tells without further queries.
    pub fn is_primary_or_file(self) -> bool {
        !matches!(self, Self::Client | Self::Script | Self::Unnamed)
    }

    pub fn is_primary(self) -> bool {
        matches!(self, Self::Primary { .. } | Self::PrimaryScript)
    }

    /// Bytes that the clients use, without replicas; INFO reports `counted`, and looks at each client about once a
    /// second. After an argument of 32 KiB or more the server keeps a buffer for another, which INFO counts as data
    /// until it looks again. Arguments are not counted: they are freed with their command.
    pub fn client_bytes(self, ctx: Ctx<'_>, counted: u64) -> u64 {
        /// Up to this size it does not matter that buffers of the client are counted twice.
        const FEW: u64 = 1 << 20;
        if self == Self::Client {
            // SAFETY: the context is alive.
            let id = unsafe { call!(RedisModule_GetClientId(ctx.raw())) };
            let id = CString::new(id.to_string()).unwrap_or_default();
            let own = ask(c"CLIENT", &[c"LIST", c"ID", &id]).map_or(0, |client| of_listed(&client));
            if own <= FEW {
                return counted.saturating_add(own);
            }
        }
        ask(c"CLIENT", &[c"LIST"]).map_or(counted, |clients| of_listed(&clients))
    }

    /// Whether limits must not apply: the origin is a primary, a node that hands over a slot, or a file. Queries the
    /// server where the origin alone does not decide.
    pub fn must_obey(self, ctx: Ctx<'_>) -> bool {
        match self {
            Self::Client => false,
            Self::Primary { .. } | Self::File | Self::PrimaryScript | Self::FileScript => true,
            // Redis 6.2 can propagate whole scripts, and servers do not tell whether the commands inside a script come
            // from a primary. A script of a client may query a replica that is read-only.
            Self::Script => {
                ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_SLAVE)
                    && any_client(PRIMARIES, runs_script).unwrap_or(true)
            }
            Self::Unnamed => {
                let works_for_primary = || {
                    ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_SLAVE)
                        && (ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_READONLY)
                            || any_client(PRIMARIES, has_arguments).unwrap_or(true))
                };
                // In an atomic migration another node hands over a slot (Valkey 9). Other servers have no such clients.
                let takes_over_slot = || {
                    ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
                        && any_client(&[c"LIST", c"FLAGS", c"i"], has_arguments).unwrap_or(false)
                };
                ctx.has_flag(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)
                    || works_for_primary()
                    || takes_over_slot()
            }
        }
    }
}

/// Bytes that the clients of a CLIENT LIST use besides arguments, without replicas.
fn of_listed(clients: &str) -> u64 {
    let of_client = |client| {
        if text(client, "flags").is_some_and(|flags| flags.contains('S')) {
            0
        } else if has_arguments(client) {
            // `tot-mem` contains the list of arguments, whose size is not reported.
            let buffers = ["qbuf", "qbuf-free", "omem"].map(|name| bytes(client, name));
            buffers.into_iter().fold(0, u64::saturating_add)
        } else {
            bytes(client, "tot-mem")
        }
    };
    clients.lines().map(of_client).fold(0, u64::saturating_add)
}

/// The arguments of CLIENT that list the primary of a replica.
const PRIMARIES: &[&CStr] = &[c"LIST", c"TYPE", c"master"];

/// Whether `matches` is true for any line of this CLIENT LIST. `None` where the server does not know such clients.
fn any_client(list: &[&CStr], matches: fn(&str) -> bool) -> Option<bool> {
    let clients = ask(c"CLIENT", list)?;
    Some(clients.lines().any(matches))
}

/// Whether the client of this line of CLIENT LIST runs a script, or a transaction, which may have scripts. While a
/// command is arriving the line names the one before it: only a script there cannot be told from one that runs.
fn runs_script(client: &str) -> bool {
    has_arguments(client)
        && match text(client, "cmd") {
            Some("eval" | "evalsha") => true,
            // The flag of a transaction: the number of its commands is not -1 afterwards on every server.
            Some("exec") => text(client, "flags").is_some_and(|flags| flags.contains('x')),
            _ => false,
        }
}

/// Whether the client of this line of CLIENT LIST has arguments: of a command that runs or is still arriving.
fn has_arguments(client: &str) -> bool {
    bytes(client, "argv-mem") != 0
}

/// A number of bytes in this line of CLIENT LIST; 0 if it is missing.
fn bytes(client: &str, name: &str) -> u64 {
    text(client, name)
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(0)
}

/// The value of a field in this line of CLIENT LIST.
fn text<'a>(client: &'a str, name: &str) -> Option<&'a str> {
    let mut words = client.split_ascii_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replica does what its primary's script did, and takes no client's script for its primary's.
    #[test]
    fn a_command_that_arrives_is_no_script_that_runs() {
        for (client, runs) in [
            ("id=4 flags=M multi=-1 argv-mem=90 cmd=eval", true),
            ("id=4 flags=M multi=-1 argv-mem=90 cmd=evalsha", true),
            ("id=4 flags=Mx multi=2 argv-mem=4 cmd=exec", true),
            ("id=4 flags=M multi=-1 argv-mem=90 cmd=exec", false),
            ("id=4 flags=M multi=0 argv-mem=90 cmd=exec", false),
            ("id=4 flags=M multi=-1 argv-mem=0 cmd=eval", false),
            ("id=4 flags=M multi=-1 argv-mem=90 cmd=bf.madd", false),
            ("id=4 flags=M multi=-1 argv-mem=90", false),
        ] {
            assert_eq!(runs_script(client), runs, "{client}");
        }
    }

    /// A server that evicts keys keeps the filter that was just added to, and takes one that fits.
    #[test]
    fn buffers_of_clients_count_and_their_arguments_do_not() {
        let at_work =
            "id=4 flags=N qbuf=2 qbuf-free=4194294 argv-mem=4000027 rbs=1024 omem=30 tot-mem=8196096\n";
        let idle = "id=5 name=qbuf=9 flags=N qbuf=0 qbuf-free=20448 argv-mem=0 omem=7 tot-mem=23322\n";
        let replica = "id=6 flags=S qbuf=0 qbuf-free=0 argv-mem=0 omem=1000 tot-mem=3000\n";
        for (clients, bytes) in [
            (at_work.to_owned(), 2 + 4_194_294 + 30),
            (format!("{at_work}{idle}{replica}"), 2 + 4_194_294 + 30 + 23_322),
            (
                "id=7 qbuf=no argv-mem=1 omem=18446744073709551616\n".to_owned(),
                0,
            ),
            (String::new(), 0),
        ] {
            assert_eq!(of_listed(&clients), bytes, "{clients}");
        }
    }
}
