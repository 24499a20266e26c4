//! Safe wrappers, one function each, for the server's calls that the crate `redis_module` does not wrap.

pub mod alloc;
pub mod background;
pub mod log;
pub mod origin;
pub mod shown;

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;

/// An entry of the server's table of calls; `None` where the server lacks it, or without a server.
macro_rules! entry {
    ($name:ident) => {{
        // SAFETY: the table is filled once, before any other code of the module runs.
        unsafe { redis_module::raw::$name }
    }};
}
pub(crate) use entry;

/// Calls a function of the server's table, in an `unsafe` block whose comment says why the call may be made.
macro_rules! call {
    ($name:ident($($argument:expr),*)) => {{
        #[expect(unused_unsafe, reason = "the caller's block is for the call, and this one for the table")]
        // SAFETY: the table is filled once, before any callback of the module runs.
        let function = unsafe { raw::$name };
        let Some(function) = function else { $crate::server::missing(stringify!($name)) };
        function($($argument),*)
    }};
}
pub(crate) use call;

/// The line for the log when the server already has a name of this module.
pub fn name_conflict(part: &str) -> String {
    format!(
        "another module has the {part}: only one module for Bloom filters can be loaded: remove the other one, which the log or MODULE LIST names; in Redis 8's image, mount this one over redisbloom.so"
    )
}

/// Panics, because the server lacks a call; every callback catches it.
#[cold]
#[expect(clippy::panic, reason = "every supported version has the call")]
pub fn missing(name: &str) -> ! {
    panic!("this server has no {name}")
}

/// The server's context of a callback, valid while that callback runs.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a>(NonNull<raw::RedisModuleCtx>, PhantomData<&'a ()>);

/// A borrowed string of the server: an argument of a command, or one that was made for a call.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Arg<'a>(NonNull<raw::RedisModuleString>, PhantomData<&'a ()>);

/// A string that the module made and frees.
#[repr(transparent)]
pub struct OwnedString(NonNull<raw::RedisModuleString>);

impl<'a> Arg<'a> {
    /// A string that the server lends; `None` for a null pointer.
    ///
    /// # Safety
    /// `raw` is null, or a string that lives for all of `'a`.
    pub unsafe fn of_callback(raw: *const raw::RedisModuleString) -> Option<Self> {
        NonNull::new(raw.cast_mut()).map(|raw| Self(raw, PhantomData))
    }

    /// # Safety
    /// `argv` and `argc` are what the server gave to a callback that runs for all of `'a`.
    pub unsafe fn of_command(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> &'a [Self] {
        let count = usize::try_from(argc).unwrap_or(0);
        if argv.is_null() || count == 0 {
            // A module that is loaded without arguments gets no list of them.
            return &[];
        }
        // SAFETY: the server lends `argc` pointers, none null, for the whole callback; `Self` is a transparent
        // wrapper of such a pointer.
        unsafe { std::slice::from_raw_parts(argv.cast::<Self>(), count) }
    }

    #[inline(always)]
    pub fn bytes(self) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: the string is alive for `'a`.
        let start = unsafe { call!(RedisModule_StringPtrLen(self.raw(), &raw mut length)) };
        // SAFETY: the server gives `length` bytes that live, unchanged, as long as the string does.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }

    /// The string as a double, by the server's own parser.
    pub fn double(self) -> Option<f64> {
        let mut value = 0.0;
        // SAFETY: the string is alive for `'a`.
        let status = unsafe { call!(RedisModule_StringToDouble(self.raw(), &raw mut value)) };
        (status == raw::REDISMODULE_OK as c_int).then_some(value)
    }

    pub fn raw(self) -> *mut raw::RedisModuleString {
        self.0.as_ptr()
    }
}

impl OwnedString {
    pub fn new(bytes: &[u8]) -> Self {
        let no_context = std::ptr::null_mut();
        // SAFETY: without a context the string is the caller's to free.
        let string = unsafe {
            call!(RedisModule_CreateString(
                no_context,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
        let Some(string) = NonNull::new(string) else {
            missing("memory for a string")
        };
        Self(string)
    }

    pub fn arg(&self) -> Arg<'_> {
        Arg(self.0, PhantomData)
    }
}

impl Drop for OwnedString {
    fn drop(&mut self) {
        // SAFETY: the string was made without a context, and is not used again.
        unsafe { call!(RedisModule_FreeString(std::ptr::null_mut(), self.0.as_ptr())) };
    }
}

// SAFETY: the string is this value's alone; the server's strings have no tie to a thread.
unsafe impl Send for OwnedString {}

// SAFETY: a shared string is only read, and its bytes never change. References to it are counted by calls that take a
// `Ctx`, which stays on the server's main thread.
unsafe impl Sync for OwnedString {}

/// A context for callbacks that get none. It belongs to no client.
pub struct OwnedCtx(NonNull<raw::RedisModuleCtx>);

impl OwnedCtx {
    pub fn of_server() -> Self {
        // SAFETY: without a blocked client the context is the caller's to free.
        let raw = unsafe { call!(RedisModule_GetThreadSafeContext(std::ptr::null_mut())) };
        let Some(raw) = NonNull::new(raw) else {
            missing("memory for a context")
        };
        Self(raw)
    }

    pub fn ctx(&self) -> Ctx<'_> {
        Ctx(self.0, PhantomData)
    }

    /// Turns to another database; false if the server has none of this number.
    pub fn select(&self, database: c_int) -> bool {
        // SAFETY: the context is this value's own, so that no client's database changes.
        let status = unsafe { call!(RedisModule_SelectDb(self.0.as_ptr(), database)) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Any key of the database; `None` if it is empty.
    pub fn any_key(&self) -> Option<OwnedString> {
        // SAFETY: the context is alive, and manages no memory by itself: the string is the caller's to free.
        NonNull::new(unsafe { call!(RedisModule_RandomKey(self.0.as_ptr())) }).map(OwnedString)
    }

    /// Whether a key of the database has an expiry. Eviction does not notice the look at it.
    pub fn expires(&self, name: Arg<'_>) -> bool {
        let mode =
            raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH | raw::REDISMODULE_OPEN_KEY_NOSTATS;
        // SAFETY: the context and the name are alive.
        let key = unsafe {
            call!(RedisModule_OpenKey(
                self.0.as_ptr(),
                name.raw(),
                mode.cast_signed()
            ))
        };
        if key.is_null() {
            return false;
        }
        // SAFETY: the key is open.
        let left = unsafe { call!(RedisModule_GetExpire(key)) };
        // SAFETY: the key is open, and is not used again.
        unsafe { call!(RedisModule_CloseKey(key)) };
        left != i64::from(raw::REDISMODULE_NO_EXPIRE)
    }

    /// Bytes that a key of the database and its value take, as MEMORY USAGE tells; 0 if it is missing.
    pub fn memory_of(&self, name: Arg<'_>) -> u64 {
        let usage = OwnedString::new(b"USAGE");
        let bytes = self.run(c"MEMORY", &[usage.arg(), name], |reply| {
            // SAFETY: the reply is alive; of another type than an integer the server gives a number too.
            unsafe { call!(RedisModule_CallReplyInteger(reply)) }
        });
        bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
    }

    /// Runs a command of the server and lets `read` see its reply; `None` if the server refused it.
    fn run<T>(
        &self,
        command: &CStr,
        arguments: &[Arg<'_>],
        read: impl FnOnce(*mut raw::RedisModuleCallReply) -> T,
    ) -> Option<T> {
        let (start, count) = (arguments.as_ptr(), arguments.len());
        // SAFETY: format `v` takes an array of strings and its length; all are alive.
        let reply = unsafe {
            call!(RedisModule_Call(
                self.0.as_ptr(),
                command.as_ptr(),
                c"v".as_ptr(),
                start,
                count
            ))
        };
        if reply.is_null() {
            return None;
        }
        let read = read(reply);
        // SAFETY: the reply is this function's own, and is not used again.
        unsafe { call!(RedisModule_FreeCallReply(reply)) };
        Some(read)
    }
}

impl Drop for OwnedCtx {
    fn drop(&mut self) {
        // SAFETY: the context is this value's own.
        unsafe { call!(RedisModule_FreeThreadSafeContext(self.0.as_ptr())) };
    }
}

impl<'a> Ctx<'a> {
    /// The context of a running callback; `None` for a null pointer.
    ///
    /// # Safety
    /// `raw` is null, or what the server gave to a callback that runs for all of `'a`.
    pub unsafe fn of_callback(raw: *mut raw::RedisModuleCtx) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    pub fn raw(self) -> *mut raw::RedisModuleCtx {
        self.0.as_ptr()
    }

    /// Flags of the context and its client (`REDISMODULE_CTX_FLAGS_*`).
    fn flags(self) -> u32 {
        // SAFETY: the context is alive.
        let flags = unsafe { call!(RedisModule_GetContextFlags(self.raw())) };
        flags.cast_unsigned()
    }

    pub fn has_flag(self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    /// A text from an INFO section; `None` where the server does not have it.
    pub fn info_text(self, section: &CStr, field: &CStr) -> Option<String> {
        self.info(section).text(field)
    }

    /// The major version in a field of INFO's server section; `None` where the server does not have it.
    pub fn major_version(self, field: &CStr) -> Option<u32> {
        let version = self.info_text(c"server", field)?;
        version.split('.').next()?.parse().ok()
    }

    /// An INFO section as it is now; a field that the server does not have is `None`.
    pub fn info(self, section: &CStr) -> Info<'a> {
        // SAFETY: the context is alive.
        let data = unsafe { call!(RedisModule_GetServerInfo(self.raw(), section.as_ptr())) };
        Info { ctx: self, data }
    }

    /// Propagates a command to replicas and the AOF: `key`, then `words`, at most 16, then `items`.
    pub fn replicate<'s>(
        self,
        command: &CStr,
        key: Arg<'_>,
        words: impl IntoIterator<Item = Arg<'s>>,
        items: &[Arg<'_>],
    ) {
        // The server makes its list longer for each `v` of the format. So a few arguments come one by one.
        const EACH: &CStr = c"ssssssssssssssssss";
        let mut list = [key.raw(); 18];
        let mut count = 1;
        for (place, word) in list[1..].iter_mut().zip(words) {
            *place = word.raw();
            count += 1;
        }
        let Some(places) = list.get_mut(count..count + items.len()) else {
            // SAFETY: the format takes an array of strings and its length for each `v`; all are alive.
            unsafe {
                call!(RedisModule_Replicate(
                    self.raw(),
                    command.as_ptr(),
                    c"vv".as_ptr(),
                    list.as_ptr(),
                    count,
                    items.as_ptr(),
                    items.len()
                ))
            };
            return;
        };
        for (place, item) in places.iter_mut().zip(items) {
            *place = item.raw();
        }
        let unused = list.len() - count - items.len();
        let format = EACH.to_bytes_with_nul()[unused..].as_ptr().cast();
        // SAFETY: the format takes as many strings as were put into the list, all alive; the server does not look at the
        // others.
        unsafe {
            call!(RedisModule_Replicate(
                self.raw(),
                command.as_ptr(),
                format,
                list[0],
                list[1],
                list[2],
                list[3],
                list[4],
                list[5],
                list[6],
                list[7],
                list[8],
                list[9],
                list[10],
                list[11],
                list[12],
                list[13],
                list[14],
                list[15],
                list[16],
                list[17]
            ))
        };
    }

    pub fn replicate_verbatim(self) {
        // SAFETY: the context is that of a command.
        unsafe { call!(RedisModule_ReplicateVerbatim(self.raw())) };
    }

    /// Signals to WATCH and client-side caches that `key` changed.
    pub fn signal_modified(self, key: Arg<'_>) {
        // SAFETY: both are alive.
        unsafe { call!(RedisModule_SignalModifiedKey(self.raw(), key.raw())) };
    }

    /// Publishes a keyspace event of this class (`REDISMODULE_NOTIFY_*`).
    pub fn notify(self, class: c_int, event: &CStr, key: Arg<'_>) {
        // SAFETY: all are alive.
        unsafe {
            call!(RedisModule_NotifyKeyspaceEvent(
                self.raw(),
                class,
                event.as_ptr(),
                key.raw()
            ))
        };
    }

    /// Declares what the module supports (`REDISMODULE_OPTION(S)_*`).
    pub fn set_module_options(self, options: u32) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_SetModuleOptions(self.raw(), options.cast_signed())) };
    }

    /// Registers a command whose first argument is its first key, or that has none.
    pub fn create_command(
        self,
        name: &CStr,
        function: raw::RedisModuleCmdFunc,
        flags: &CStr,
        has_key: bool,
    ) -> bool {
        let (first, last, step) = if has_key { (1, 1, 1) } else { (0, 0, 0) };
        // SAFETY: the context is that of the module's loading; the server copies the texts.
        let status = unsafe {
            call!(RedisModule_CreateCommand(
                self.raw(),
                name.as_ptr(),
                function,
                flags.as_ptr(),
                first,
                last,
                step
            ))
        };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Whether the server asks for the positions of the command's keys instead of running it.
    pub fn is_key_request(self) -> bool {
        // SAFETY: the context is that of a command.
        let is_request = unsafe { call!(RedisModule_IsKeysPositionRequest(self.raw())) };
        is_request != 0
    }

    /// Tells a server that [asks for positions](Self::is_key_request) one; position 0 is the command's name.
    pub fn report_key(self, position: usize) {
        let position = c_int::try_from(position).unwrap_or(0);
        // SAFETY: the context is that of such a request; the server ignores position 0.
        unsafe { call!(RedisModule_KeyAtPos(self.raw(), position)) };
    }

    /// Creates an ACL category: the error is [`ErrorKind::ResourceBusy`](io::ErrorKind::ResourceBusy) if it exists
    /// already. `None` where modules cannot have any: before Redis 7.4 and Valkey 8.0.
    pub fn add_acl_category(self, name: &CStr) -> Option<io::Result<()>> {
        let add = entry!(RedisModule_AddACLCategory)?;
        // SAFETY: the context is that of the module's loading; the server copies the name.
        let status = unsafe { add(self.raw(), name.as_ptr()) };
        Some(if status == raw::REDISMODULE_OK as c_int {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        })
    }

    /// Puts a command into ACL categories, where the server supports that for commands of modules.
    pub fn set_acl_categories(self, command: &CStr, categories: &CStr) -> bool {
        let Some(set) = entry!(RedisModule_SetCommandACLCategories) else {
            return true;
        };
        // SAFETY: the context is that of the module's loading; the name is terminated.
        let command = unsafe { call!(RedisModule_GetCommand(self.raw(), command.as_ptr())) };
        // SAFETY: the command is null or alive; the server copies the text.
        !command.is_null() && unsafe { set(command, categories.as_ptr()) } == raw::REDISMODULE_OK as c_int
    }
}

pub struct Info<'a> {
    ctx: Ctx<'a>,
    data: *mut raw::RedisModuleServerInfoData,
}

impl Info<'_> {
    pub fn number(&self, field: &CStr) -> Option<u64> {
        let mut failed = 0;
        // SAFETY: the section is alive, `failed` takes the status.
        let value = unsafe {
            call!(RedisModule_ServerInfoGetFieldUnsigned(
                self.data,
                field.as_ptr(),
                &raw mut failed
            ))
        };
        (failed == 0).then_some(value)
    }

    pub fn text(&self, field: &CStr) -> Option<String> {
        // SAFETY: the section is alive.
        let text = unsafe { call!(RedisModule_ServerInfoGetFieldC(self.data, field.as_ptr())) };
        if text.is_null() {
            return None;
        }
        // SAFETY: the server gives a terminated string that lives as long as the section.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into_owned())
    }
}

impl Drop for Info<'_> {
    fn drop(&mut self) {
        // SAFETY: the section came from this context, and is not used again.
        unsafe { call!(RedisModule_FreeServerInfo(self.ctx.raw(), self.data)) };
    }
}

pub fn warn(ctx: Option<Ctx<'_>>, line: &str) {
    log(ctx, c"warning", line);
}

pub fn note(ctx: Option<Ctx<'_>>, line: &str) {
    log(ctx, c"notice", line);
}

fn log(ctx: Option<Ctx<'_>>, level: &CStr, line: &str) {
    let ctx = ctx.map_or(std::ptr::null_mut(), Ctx::raw);
    let line = CString::new(line.replace('\0', "\\0")).unwrap_or_default();
    let format: *const c_char = c"%s".as_ptr();
    // SAFETY: the format takes one terminated string; the context may be null.
    unsafe { call!(RedisModule_Log(ctx, level.as_ptr(), format, line.as_ptr())) };
}

/// Whether `maxmemory` is set; unlike INFO this costs nothing.
pub fn has_maxmemory() -> bool {
    // SAFETY: it takes nothing, and reads two numbers of the server.
    let used = unsafe { call!(RedisModule_GetUsedMemoryRatio()) };
    // The share of `maxmemory` that is in use, 0 without one.
    used > 0.0
}

/// Collects a list whose length the module's own code bounds, such as the words of a command; no client may choose it.
pub fn few<T>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    #[expect(clippy::disallowed_methods, reason = "a list as short as a sentence")]
    values.into_iter().collect()
}

/// Calls a command of the server and returns its reply if that is a text.
pub fn ask(command: &CStr, arguments: &[&CStr]) -> Option<String> {
    // A stream's context has no client on whose behalf to call.
    let server = OwnedCtx::of_server();
    let arguments = few(arguments
        .iter()
        .map(|argument| OwnedString::new(argument.to_bytes())));
    let arguments = few(arguments.iter().map(OwnedString::arg));
    server
        .run(command, &arguments, |reply| {
            // SAFETY: the reply is alive.
            let kind = unsafe { call!(RedisModule_CallReplyType(reply)) };
            (kind == raw::REDISMODULE_REPLY_STRING as c_int).then(|| {
                let mut length = 0;
                // SAFETY: as above; `length` takes the length.
                let start = unsafe { call!(RedisModule_CallReplyStringPtr(reply, &raw mut length)) };
                // SAFETY: the server gives so many bytes, which live as long as the reply.
                let bytes = unsafe { std::slice::from_raw_parts(start.cast(), length) };
                String::from_utf8_lossy(bytes).into_owned()
            })
        })
        .flatten()
}

/// The time of the server's clock, in milliseconds since 1970.
pub fn milliseconds() -> i64 {
    // SAFETY: it takes nothing, and reads the clock.
    unsafe { call!(RedisModule_Milliseconds()) }
}

/// Runs a callback's body. A panic must not cross into C: it is logged, and gives `None`.
pub fn guarded<T>(what: &str, body: impl FnOnce() -> T) -> Option<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    result
        .map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            warn(None, &format!("{what} failed inside the module: {text}"));
        })
        .ok()
}
