//! The commands of the module, by what they do.

const LAYERS: &str = "O(n), where n is the number of layers";
const MANY: &str = "O(n * m), where n is the number of items and m is the number of layers";
const PACKED: &str = "O(b + n * m), where b is the number of bytes of the data, n is the number of items in it and \
                      m is the number of layers";
const EXCEPTED: &str = "O(n * m + e), where n is the number of items, m is the number of layers and e is the number of \
                        exceptions, all of which are moved when their table grows";
const PIECE: &str = "O(n + m), where n is the number of bytes of the piece and m is the number of layers";
const PIECE_OF_ALL: &str = "O(n + m), where n is the number of bytes and m is the number of layers";
const SOURCES: &str = "O(n + e * m), where n is the number of bytes of all sources, e that of their exceptions, and m \
                       that of the sources";
const ADDS: &str = "Adds one or more items to a Bloom Filter. A filter will be created if it does not exist";

/// The commands that change nothing.
pub const READING: [&str; 7] = [
    "BF.EXISTS",
    "BF.MEXISTS",
    "BF.EXISTSPACKED",
    "BF.INFO",
    "BF.CARD",
    "BF.SCANDUMP",
    "BF.DEBUG",
];

/// The commands that may change a key.
pub const WRITING: [&str; 12] = [
    "BF.RESERVE",
    "BF.ADD",
    "BF.MADD",
    "BF.INSERT",
    "BF.ADDPACKED",
    "BF.LOADCHUNK",
    "BF.LOAD",
    "BF.EXCEPT",
    "BF.RESET",
    "BF.SHRINK",
    "BF.MERGE",
    "BF.INTERSECT",
];

/// The commands without a key.
pub const KEYLESS: [&str; 1] = ["BF.PLAN"];

/// A typical call of `command` for `key`, which holds a filter.
pub fn typical(command: &str, key: &str) -> Vec<String> {
    let rest: &[&str] = match command {
        "BF.RESERVE" => &["0.01", "100"],
        "BF.INSERT" => &["ITEMS", "item"],
        "BF.ADDPACKED" | "BF.EXISTSPACKED" => &["LINES", "item"],
        "BF.INFO" | "BF.CARD" | "BF.DEBUG" | "BF.RESET" | "BF.SHRINK" => &[],
        "BF.MERGE" | "BF.INTERSECT" => &["1", key],
        "BF.SCANDUMP" => &["0"],
        "BF.LOADCHUNK" => &["1", "nonsense"],
        "BF.LOAD" => &["nonsense"],
        _ => &["item"],
    };
    let words = [command, key].into_iter().chain(rest.iter().copied());
    words.map(str::to_owned).collect()
}

/// A command, its arity, its version, its arguments as [`synopsis`] writes them, its complexity and its summary.
pub const COMMANDS: [(&str, i64, &str, &str, &str, &str); 20] = [
    (
        "BF.RESERVE",
        -4,
        "1.0.0",
        "key:key error_rate:double capacity:integer {options} [NX]@0.3.0 {key}",
        "O(1)",
        "Creates a new Bloom Filter",
    ),
    (
        "BF.ADD",
        3,
        "1.0.0",
        "key:key item:string",
        LAYERS,
        "Adds an item to a Bloom Filter",
    ),
    ("BF.MADD", -3, "1.0.0", "key:key item:string...", MANY, ADDS),
    (
        "BF.INSERT",
        -2,
        "1.0.0",
        "key:key [CAPACITY capacity:integer] [ERROR error:double] [EXPANSION expansion:integer] [NOCREATE] \
         [NONSCALING] [GROWING]@0.3.0 [SEED seed:integer]@0.3.0 [LAYOUT layout(BLOCKED|CLASSIC|VALKEY)]@0.3.0 \
         [TIGHTENING tightening:double]@0.3.0 [VALIDATESCALETO validatescaleto:integer]@0.3.0 \
         [WINDOW window:integer]@0.3.0 [SLICES slices:integer]@0.3.0 [REFRESH]@0.3.0 {time} {key} \
         [ITEMS item:string]...",
        MANY,
        ADDS,
    ),
    (
        "BF.ADDPACKED",
        -4,
        "0.3.0",
        "key:key [CAPACITY capacity:integer] [ERROR error:double] [EXPANSION expansion:integer] [NOCREATE] \
         [NONSCALING] [GROWING]@0.3.0 [SEED seed:integer]@0.3.0 [LAYOUT layout(BLOCKED|CLASSIC|VALKEY)]@0.3.0 \
         [TIGHTENING tightening:double]@0.3.0 [VALIDATESCALETO validatescaleto:integer]@0.3.0 \
         [WINDOW window:integer]@0.3.0 [SLICES slices:integer]@0.3.0 [REFRESH]@0.3.0 {time} {key} \
         form(LINES|WIDTH width:integer|PREFIXED) [COUNT] data:string",
        PACKED,
        "Adds the items that are packed in one argument to a Bloom Filter. A filter will be created if it does not \
         exist",
    ),
    (
        "BF.EXISTS",
        3,
        "1.0.0",
        "key:key item:string",
        LAYERS,
        "Checks whether an item exists in a Bloom Filter",
    ),
    (
        "BF.MEXISTS",
        -3,
        "1.0.0",
        "key:key item:string...",
        MANY,
        "Checks whether one or more items exist in a Bloom Filter",
    ),
    (
        "BF.EXISTSPACKED",
        -4,
        "0.3.0",
        "key:key form(LINES|WIDTH width:integer|PREFIXED) [COUNT] data:string",
        PACKED,
        "Checks whether the items that are packed in one argument exist in a Bloom Filter",
    ),
    (
        "BF.INFO",
        -2,
        "1.0.0",
        "key:key [single_value(CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION|ERROR@0.3.0|TIGHTENING@0.3.0|MAXSCALEDCAPACITY@0.3.0|FULL@0.3.0)]",
        LAYERS,
        "Returns information about a Bloom Filter",
    ),
    (
        "BF.CARD",
        2,
        "2.4.4",
        "key:key",
        LAYERS,
        "Returns the cardinality of a Bloom filter",
    ),
    (
        "BF.SCANDUMP",
        3,
        "1.0.0",
        "key:key iterator:integer",
        PIECE,
        "Begins an incremental save of the bloom filter",
    ),
    (
        "BF.LOADCHUNK",
        4,
        "1.0.0",
        "key:key iterator:integer data:string",
        PIECE,
        "Restores a filter previously saved using SCANDUMP",
    ),
    (
        "BF.LOAD",
        3,
        "0.3.0",
        "key:key data:string",
        "O(n), where n is the number of bytes of the data",
        "Creates a Bloom Filter from what an append-only file has of one in valkey-bloom's layout",
    ),
    (
        "BF.EXCEPT",
        -3,
        "0.3.0",
        "key:key item:string...",
        EXCEPTED,
        "Excepts one or more items from a Bloom Filter, until they are added again",
    ),
    (
        "BF.RESET",
        2,
        "0.3.0",
        "key:key",
        LAYERS,
        "Makes a Bloom Filter empty again, like a new one with its parameters",
    ),
    (
        "BF.SHRINK",
        -2,
        "0.4.0",
        "key:key [CAPACITY capacity:integer]",
        PIECE_OF_ALL,
        "Shrinks a Bloom Filter to the size that its items need",
    ),
    (
        "BF.MERGE",
        -4,
        "0.3.0",
        "destination:key numkeys:integer source:key... [ERROR error:double] [OVERRIDE]",
        SOURCES,
        "Merges Bloom Filters: all items of the sources are found in the destination, which is created if it does \
         not exist",
    ),
    (
        "BF.INTERSECT",
        -4,
        "0.3.0",
        "destination:key numkeys:integer source:key...",
        SOURCES,
        "Intersects Bloom Filters: the items that all sources have are found in the destination, which is created \
         or replaced",
    ),
    (
        "BF.DEBUG",
        2,
        "1.0.0",
        "key:key",
        LAYERS,
        "Returns a line of figures for a Bloom Filter, and one for each of its layers",
    ),
    (
        "BF.PLAN",
        -3,
        "0.3.0",
        "error_rate:double capacity:integer {options}",
        "O(1)",
        "Returns what a Bloom Filter takes that BF.RESERVE would create, and once it has grown",
    ),
];

/// The figures that every BF.INFO has.
pub const FIELDS: [&str; 5] = [
    "Capacity",
    "Size",
    "Number of filters",
    "Number of items inserted",
    "Expansion rate",
];
