//! Two modules to measure the real one against, in the same server. Neither is for any other use.
//!
//! `loadmodule libbaseline.so floor`: what no module can do without. Its commands open the key, read every
//! argument, reply, and propagate an add; there is no filter.
//!
//! `loadmodule libbaseline.so plain`: the same, and the straightforward scalable filter of RedisBloom's
//! layout: for each item, after the reply to the one before it, two Murmur hashes and then bit after bit,
//! layer after layer, each waiting for memory.
//!
//! Built by `cargo build --release -p libbloom-benches`.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use redis_module::raw;

/// Whether there is a filter at all.
static PLAIN: AtomicBool = AtomicBool::new(false);
static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(null_mut());

/// Calls the server.
macro_rules! call {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the server filled its table before any command runs, and lends what is passed on.
        unsafe { raw::$name.unwrap_unchecked()($($argument),*) }
    };
}

/// One layer of RedisBloom's layout.
struct Layer {
    bytes: *mut u8,
    bits: u64,
    hashes: u32,
    capacity: u64,
    items: u64,
    rate: f64,
}

impl Layer {
    fn new(capacity: u64, rate: f64) -> Self {
        let per_item = -rate.ln() / std::f64::consts::LN_2.powi(2);
        let bits = ((capacity as f64 * per_item) as u64).next_multiple_of(64);
        Self {
            bytes: call!(RedisModule_Calloc(1, (bits / 8) as usize)).cast(),
            bits,
            hashes: (per_item * std::f64::consts::LN_2).ceil() as u32,
            capacity,
            items: 0,
            rate,
        }
    }

    /// Each probe's byte and mask.
    fn probes(&self, (a, b): (u64, u64)) -> impl Iterator<Item = (*mut u8, u8)> {
        (0..u64::from(self.hashes)).map(move |probe| {
            let bit = a.wrapping_add(probe.wrapping_mul(b)) % self.bits;
            (self.bytes.wrapping_add((bit / 8) as usize), 1 << (bit % 8))
        })
    }

    fn contains(&self, hash: (u64, u64)) -> bool {
        // SAFETY: every probe is inside of the array.
        self.probes(hash).all(|(byte, mask)| unsafe { *byte } & mask != 0)
    }

    fn insert(&mut self, hash: (u64, u64)) {
        for (byte, mask) in self.probes(hash) {
            // SAFETY: every probe is inside of the array.
            unsafe { *byte |= mask };
        }
        self.items += 1;
    }
}

fn hash(item: &[u8]) -> (u64, u64) {
    let a = murmur2::murmur64a(item, 0xc6a4_a793_5bd1_e995);
    (a, murmur2::murmur64a(item, a))
}

/// A chain of layers, each of twice the capacity and half the error rate of the one before it.
struct Filter(UnsafeCell<Vec<Layer>>);

impl Filter {
    fn boxed(capacity: u64, rate: f64) -> *mut c_void {
        let layers = vec![Layer::new(capacity, rate / 2.0)];
        Box::into_raw(Box::new(Self(UnsafeCell::new(layers)))).cast()
    }

    fn contains(&self, item: &[u8]) -> bool {
        let hash = hash(item);
        // SAFETY: the server runs one command at a time.
        let layers = unsafe { &*self.0.get() };
        layers.iter().rev().any(|layer| layer.contains(hash))
    }

    fn add(&self, item: &[u8]) -> bool {
        let hash = hash(item);
        // SAFETY: as above.
        let layers = unsafe { &mut *self.0.get() };
        if layers.iter().rev().any(|layer| layer.contains(hash)) {
            return false;
        }
        if let Some(newest) = layers.last()
            && newest.items == newest.capacity
        {
            layers.push(Layer::new(newest.capacity * 2, newest.rate / 2.0));
        }
        if let Some(newest) = layers.last_mut() {
            newest.insert(hash);
        }
        true
    }
}

type Arguments = *mut *mut raw::RedisModuleString;

/// Argument `index` of a command, as the server's string.
fn string(argv: Arguments, index: c_int) -> *mut raw::RedisModuleString {
    let place = argv.wrapping_add(index as usize);
    // SAFETY: the index is below the number of arguments.
    unsafe { *place }
}

/// Argument `index` of a command.
fn argument<'a>(argv: Arguments, index: c_int) -> &'a [u8] {
    let mut length = 0;
    let string = string(argv, index);
    let start = call!(RedisModule_StringPtrLen(string, &raw mut length));
    // SAFETY: the server lends that many bytes until the command ends.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}

fn number<T: std::str::FromStr + Default>(argv: Arguments, index: c_int) -> T {
    let text = std::str::from_utf8(argument(argv, index)).unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Opens the key, asks the filter, or nobody, about each item, and replies.
fn run(ctx: *mut raw::RedisModuleCtx, argv: Arguments, argc: c_int, adds: bool) -> c_int {
    if argc < 3 {
        return call!(RedisModule_WrongArity(ctx));
    }
    let mode = raw::REDISMODULE_READ | if adds { raw::REDISMODULE_WRITE } else { 0 };
    let name = string(argv, 1);
    let key: *mut raw::RedisModuleKey = call!(RedisModule_OpenKey(ctx, name, mode as c_int)).cast();
    if adds && call!(RedisModule_KeyType(key)) == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
        set(key, 100, 0.01);
    }
    let value: *mut Filter = call!(RedisModule_ModuleTypeGetValue(key)).cast();
    let answer = |item: &[u8]| {
        if PLAIN.load(Ordering::Relaxed) {
            // SAFETY: the value is of this module's type.
            let filter = unsafe { &*value };
            if adds {
                filter.add(item)
            } else {
                filter.contains(item)
            }
        } else {
            std::hint::black_box(item.first());
            true
        }
    };
    if argc > 3 {
        call!(RedisModule_ReplyWithArray(ctx, (argc - 2).into()));
    }
    for index in 2..argc {
        call!(RedisModule_ReplyWithLongLong(
            ctx,
            answer(argument(argv, index)).into()
        ));
    }
    if adds {
        call!(RedisModule_ReplicateVerbatim(ctx));
    }
    call!(RedisModule_CloseKey(key));
    raw::REDISMODULE_OK as c_int
}

fn set(key: *mut raw::RedisModuleKey, capacity: u64, rate: f64) {
    let filter = Filter::boxed(capacity, rate);
    call!(RedisModule_ModuleTypeSetValue(
        key,
        TYPE.load(Ordering::Relaxed),
        filter
    ));
}

unsafe extern "C" fn add(ctx: *mut raw::RedisModuleCtx, argv: Arguments, argc: c_int) -> c_int {
    run(ctx, argv, argc, true)
}

unsafe extern "C" fn exists(ctx: *mut raw::RedisModuleCtx, argv: Arguments, argc: c_int) -> c_int {
    run(ctx, argv, argc, false)
}

unsafe extern "C" fn reserve(ctx: *mut raw::RedisModuleCtx, argv: Arguments, argc: c_int) -> c_int {
    if argc < 4 {
        return call!(RedisModule_WrongArity(ctx));
    }
    let name = string(argv, 1);
    let mode = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
    let key: *mut raw::RedisModuleKey = call!(RedisModule_OpenKey(ctx, name, mode as c_int)).cast();
    set(key, number(argv, 3), number(argv, 2));
    call!(RedisModule_CloseKey(key));
    call!(RedisModule_ReplyWithSimpleString(ctx, c"OK".as_ptr()))
}

unsafe extern "C" fn memory(value: *const c_void) -> usize {
    // SAFETY: the value is of this module's type.
    let filter = unsafe { &*value.cast::<Filter>() };
    // SAFETY: the server runs one command at a time.
    let layers = unsafe { &*filter.0.get() };
    layers.iter().map(|layer| (layer.bits / 8) as usize).sum()
}

unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives back a value of this type for the last time.
    let filter = unsafe { Box::from_raw(value.cast::<Filter>()) };
    for layer in filter.0.into_inner() {
        call!(RedisModule_Free(layer.bytes.cast()));
    }
}

unsafe extern "C" fn save(_stream: *mut raw::RedisModuleIO, _value: *mut c_void) {}

unsafe extern "C" fn load(_stream: *mut raw::RedisModuleIO, _version: c_int) -> *mut c_void {
    null_mut()
}

/// Makes the module known to the server.
///
/// # Safety
/// The server calls this once, with what it lends for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: Arguments,
    argc: c_int,
) -> c_int {
    let name: *const c_char = c"bf".as_ptr();
    // SAFETY: the context is the server's.
    unsafe { raw::Export_RedisModule_Init(ctx, name, 1, raw::REDISMODULE_APIVER_1 as c_int) };
    PLAIN.store(argc > 0 && argument(argv, 0) == b"plain", Ordering::Relaxed);
    let mut methods = raw::RedisModuleTypeMethods {
        version: 1,
        rdb_load: Some(load),
        rdb_save: Some(save),
        mem_usage: Some(memory),
        free: Some(free),
        // SAFETY: every field is a number, or a pointer that may be null.
        ..unsafe { std::mem::zeroed() }
    };
    let data_type = c"basebloom".as_ptr();
    TYPE.store(
        call!(RedisModule_CreateDataType(ctx, data_type, 0, &raw mut methods)),
        Ordering::Relaxed,
    );
    type Command = unsafe extern "C" fn(*mut raw::RedisModuleCtx, Arguments, c_int) -> c_int;
    let commands: [(&CStr, Command, &CStr); 5] = [
        (c"bf.reserve", reserve, c"write deny-oom"),
        (c"bf.add", add, c"write deny-oom fast"),
        (c"bf.madd", add, c"write deny-oom"),
        (c"bf.exists", exists, c"readonly fast"),
        (c"bf.mexists", exists, c"readonly"),
    ];
    for (name, command, flags) in commands {
        let (name, flags) = (name.as_ptr(), flags.as_ptr());
        call!(RedisModule_CreateCommand(
            ctx,
            name,
            Some(command),
            flags,
            1,
            1,
            1
        ));
    }
    raw::REDISMODULE_OK as c_int
}
