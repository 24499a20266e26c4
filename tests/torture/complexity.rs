//! The complexity that each command's page states, and COMMAND DOCS tells: its cost grows with what is named there,
//! as it is named there, and with nothing else.
//!
//! Cost is counted, not timed. The server runs under valgrind's callgrind, which counts the instructions between the
//! server's call of a command of the module and the return: reading the arguments, opening the key, the work and the
//! reply, in the server and its allocator as in the module. What the kernel does is not counted.
//!
//! Each law is measured at three sizes, of which each is four times the one before. What grows in proportion has
//! steps in the ratio of 4. What must not grow may be a quarter dearer at the largest than at the smallest.
//! `BLOOM_TEST_LAW=BF.EXCEPT` tries the laws of one command.

mod crafted;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::client::{Client, Reply, ok};
use crate::server::{Server, skip};
use crate::support::chunks::{Chunk, scandump};
use crate::support::packed::Form;
use crate::support::table::COMMANDS;

/// How far the ratio of two steps may be from 4.
const SLACK: f64 = 0.25;
/// How much dearer a command may be at 16 times the size where the size does not count.
const DEARER: f64 = 1.25;
/// Instructions that size a layer, at any capacity: some 0.1 ms.
const LAYER: u64 = 1_000_000;
/// Instructions that are no growth: a hash that ends otherwise, an allocator that looks elsewhere.
const NOISE: u64 = 600;

/// Words of BF.RESERVE for a chain of valkey-bloom's layout with any number of layers.
const VALKEY: &str = "LAYOUT VALKEY TIGHTENING 0.9 SEED 1";

/// How a cost grows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Growth {
    /// In proportion, and something besides.
    Linear,
    /// Not at all.
    Constant,
    /// No more than in proportion: what is named bounds it.
    Bounded,
    /// To no more than so many instructions, whatever the size.
    Within(u64),
}
use Growth::{Bounded, Constant, Linear, Within};

/// The cost at a size.
type Cost = Box<dyn Fn(&mut Counter, u64) -> u64>;

/// A command, what is varied, what that does to its cost, the smallest size, and the cost at a size.
type Law<C = fn(&mut Counter, u64) -> u64> = (&'static str, &'static str, Growth, u64, C);

/// A server whose instructions are counted.
struct Counter {
    client: Client,
    _server: Server,
    counts: TempDir,
    made: BTreeSet<String>,
}

impl Counter {
    /// Whether there is a tool that counts.
    fn can_count() -> bool {
        Command::new("valgrind").arg("--version").output().is_ok()
    }

    fn start() -> Self {
        Self::start_with(&["*ModuleCommandDispatcher"])
    }

    /// A server in which these functions are counted.
    fn start_with(functions: &[&str]) -> Self {
        let counts = TempDir::new().unwrap();
        let out = format!("--callgrind-out-file={}", counts.path().join("out").display());
        let counted: Vec<_> = functions
            .iter()
            .flat_map(|function| {
                [
                    format!("--toggle-collect={function}"),
                    format!("--dump-after={function}"),
                ]
            })
            .collect();
        let tool = ["valgrind", "--tool=callgrind", &out];
        let tool: Vec<_> = tool
            .into_iter()
            .chain(counted.iter().map(String::as_str))
            .collect();
        let server = Server::with()
            .under(&tool)
            .module_args("bf-seed 1")
            // No other thread and no timer is to use what the commands use.
            .config("activedefrag", "no")
            .config("hz", 1)
            .start();
        Self {
            client: server.client(),
            _server: server,
            counts,
            made: BTreeSet::new(),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.counts.path()).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }

    /// Runs a command that must be no error, and counts its instructions.
    fn cost<A: AsRef<[u8]>>(&mut self, command: &[A]) -> u64 {
        let (cost, reply) = self.any_cost(command);
        let name = command[0].as_ref().escape_ascii();
        assert!(!matches!(reply, Reply::Error(_)), "{name}: {reply:?}");
        cost
    }

    /// The instructions of a command, whatever it answers.
    fn any_cost<A: AsRef<[u8]>>(&mut self, command: &[A]) -> (u64, Reply) {
        // TIME ends a count and begins another one.
        self.client.run("TIME");
        for file in self.files() {
            fs::remove_file(file).unwrap();
        }
        let reply = self.client.call(command);
        self.client.run("TIME");
        let cost = self.counted();
        assert!(cost > 0, "{} was not counted", command[0].as_ref().escape_ascii());
        (cost, reply)
    }

    /// Instructions of all counts that there are.
    fn counted(&self) -> u64 {
        let totals = self.files().into_iter().map(|file| {
            let text = fs::read_to_string(file).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("summary: "));
            line.unwrap().trim().parse::<u64>().unwrap()
        });
        totals.sum()
    }

    fn line(&mut self, line: &str) -> u64 {
        self.cost(&line.split(' ').collect::<Vec<_>>())
    }

    /// A line, and items after it.
    fn over(&mut self, line: &str, items: &[String]) -> u64 {
        let words: Vec<_> = line.split(' ').chain(items.iter().map(String::as_str)).collect();
        self.cost(&words)
    }

    /// A line, and one more argument.
    fn with(&mut self, line: &str, data: &[u8]) -> u64 {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).chain([data]).collect();
        self.cost(&words)
    }

    /// Makes a key unless it is there.
    fn once(&mut self, key: &str, make: impl FnOnce(&mut Client)) {
        if self.made.insert(key.to_owned()) {
            make(&mut self.client);
        }
    }

    /// `key` as it was made, for a command that changes it.
    fn fresh(&mut self, key: &str) {
        self.client.run("DEL key");
        self.client.answers(&[(&format!("COPY {key} key"), 1.into())]);
    }

    // ---- Filters ---------------------------------------------------------------------------------

    /// A filter of a kind and a size, which may be `n`: `wide:n`.
    fn made(&mut self, filter: &str, n: u64) -> String {
        let (kind, size) = filter.split_once(':').unwrap();
        let size = size.parse().unwrap_or(n);
        match kind {
            "chain" => self.chain(size),
            "classic" => self.chain_of("LAYOUT CLASSIC", size),
            "valkey" => self.chain_of(VALKEY, size),
            "slices" => self.slices(size),
            "filled" => self.filled(size),
            "wide" => self.wide(size),
            "excepted" => self.excepted(size),
            other => panic!("no kind of filter: {other}"),
        }
    }

    /// The cost of a command of [`ON_ONE_FILTER`].
    fn on_copy(&mut self, filter: &str, command: &[&str], n: u64) -> u64 {
        let source = self.made(filter, n);
        self.fresh(&source);
        self.client.run("DEL new");
        let words = command.iter().flat_map(|word| match word.split_once('*') {
            Some((prefix, count)) => numbered(prefix, count.parse().unwrap_or(n)),
            None if *word == "source" => vec![source.clone()],
            None => vec![(*word).to_owned()],
        });
        self.cost(&words.collect::<Vec<_>>())
    }

    /// A chain of so many layers, the newest half full.
    fn chain(&mut self, layers: u64) -> String {
        self.chain_of("LAYOUT BLOCKED SEED 1", layers)
    }

    fn chain_of(&mut self, layout: &str, layers: u64) -> String {
        let key = format!("chain:{}:{layers}", layout.replace(' ', "-"));
        self.once(&key, |client| {
            let line = format!("BF.RESERVE {key} 0.01 4 EXPANSION 1 {layout}");
            client.answers(&[(&line, ok())]);
            let most = 4 * layers - 4;
            client.over(&format!("BF.MADD {key}"), &numbered("in", most));
            // One by one: which of them are false positives is not known.
            let mut more = (most..).map(|number| format!("in:{number}"));
            while client.info(&key, "Number of filters") < layers as i64 {
                client.call(&["BF.ADD", &key, &more.next().unwrap()]);
            }
        });
        key
    }

    /// One layer with room for 5000 items, of which so many are in it.
    fn filled(&mut self, items: u64) -> String {
        let key = format!("filled:{items}");
        self.once(&key, |client| {
            client.answers(&[(&format!("BF.RESERVE {key} 0.01 5000 SEED 1"), ok())]);
            client.over(&format!("BF.MADD {key}"), &numbered("in", items));
        });
        key
    }

    /// One layer for so many items, with one of them.
    fn wide(&mut self, capacity: u64) -> String {
        self.wide_of("BLOCKED", capacity)
    }

    fn wide_of(&mut self, layout: &str, capacity: u64) -> String {
        let key = format!("wide:{layout}:{capacity}");
        self.once(&key, |client| {
            let line = format!("BF.RESERVE {key} 0.01 {capacity} LAYOUT {layout} SEED 1");
            client.answers(&[(&line, ok())]);
            client.call(&["BF.ADD", &key, "in:0"]);
        });
        key
    }

    /// One layer with so many items, all of them excepted.
    fn excepted(&mut self, items: u64) -> String {
        let key = format!("excepted:{items}");
        self.once(&key, |client| {
            client.answers(&[(&format!("BF.RESERVE {key} 0.01 5000 SEED 1"), ok())]);
            client.over(&format!("BF.MADD {key}"), &numbered("in", items));
            client.over(&format!("BF.EXCEPT {key}"), &numbered("in", items));
        });
        key
    }

    /// A window with so many slices, 64 at most, each with an item; none expires before the time 4,000,000,000.
    fn slices(&mut self, slices: u64) -> String {
        let key = format!("slices:{slices}");
        self.once(&key, |client| {
            let line = format!("BF.RESERVE {key} 0.01 6400 SEED 1 WINDOW 4294967295 SLICES 64");
            client.answers(&[(&line, ok())]);
            for number in (0..slices).rev() {
                let at = 4_250_000_000_000 - number * 67_200_000_000;
                client.run(&format!("BF.INSERT {key} AT {at} ITEMS in:{number}"));
            }
        });
        key
    }

    /// So many filters of one shape, each with one item of its own.
    fn sources(&mut self, count: u64) -> Vec<String> {
        let keys: Vec<_> = (0..count).map(|number| format!("source:{number}")).collect();
        for key in &keys {
            self.once(key, |client| {
                client.answers(&[(&format!("BF.RESERVE {key} 0.01 5000 SEED 1"), ok())]);
                client.call(&["BF.ADD", key, &format!("{key}:item")]);
            });
        }
        keys
    }

    /// A filter that was made of so many full ones of one shape.
    fn alike(&mut self, count: u64) -> String {
        let key = format!("alike:{count}");
        self.once(&key, |client| {
            let parts = numbered(&key, count);
            for part in &parts {
                let made = format!("BF.INSERT {part} CAPACITY 1 ERROR 1e-6 NONSCALING SEED 1 ITEMS {part}");
                client.run(&made);
            }
            client.over(
                &format!("BF.MERGE {key} {count}"),
                &[parts, vec!["ERROR".into(), "0.25".into()]].concat(),
            );
        });
        key
    }

    fn dump(&mut self, key: &str) -> Vec<Chunk> {
        scandump(&mut self.client, key)
    }
}

/// Milliseconds of a clock that stands: that of the year 2033, so that no clock of a server is ahead of it.
fn now() -> u64 {
    2_000_000_000_000
}

fn numbered(prefix: &str, count: u64) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}:{number}")).collect()
}

/// Items that nobody adds before.
fn absent(count: u64) -> Vec<String> {
    numbered("absent", count)
}

/// Commands on one filter: the filter as [`Counter::made`] makes it, how the cost grows, from which size on, and the
/// command, on a copy of the filter. `n` is the size; where the cost must not grow with it, its square over the
/// smallest, so that a slow growth shows. `absent*n` stands for so many items, `source` for the filter itself.
///
/// BF.INTERSECT is tried from 28 kB on, as jemalloc keeps what was freed below and then makes it zero, and up to 448 kB,
/// as the server is asked above what memory it has, which costs it as much as hundreds of kilobytes.
const ON_ONE_FILTER: &str = "
    chain:n       Linear       12  BF.ADD key absent:1
    classic:n     Linear        6  BF.ADD key absent:1
    valkey:n      Linear        6  BF.ADD key absent:1
    slices:n      Linear        4  BF.ADD key absent:1
    filled:n      Constant     16  BF.ADD key absent:1
    wide:n        Constant   1000  BF.ADD key absent:1
    excepted:n    Constant     16  BF.ADD key absent:1
    chain:n       Linear        6  BF.EXISTS key absent:1
    classic:n     Linear        6  BF.EXISTS key absent:1
    valkey:n      Linear        6  BF.EXISTS key absent:1
    slices:n      Linear        4  BF.EXISTS key absent:1
    filled:n      Constant     16  BF.EXISTS key absent:1
    wide:n        Constant   1000  BF.EXISTS key absent:1
    excepted:n    Constant     16  BF.EXISTS key in:3
    wide:5000     Linear       32  BF.MADD key absent*n
    chain:n       Linear        6  BF.MADD key in*2
    filled:n      Constant     16  BF.MADD key absent*10
    wide:5000     Linear       32  BF.INSERT key ITEMS absent*n
    chain:n       Linear        6  BF.INSERT key ITEMS in*2
    wide:n        Constant   1000  BF.INSERT key ITEMS absent*10
    chain:8       Linear       32  BF.MEXISTS key absent*n
    chain:n       Linear        6  BF.MEXISTS key absent*20
    excepted:n    Constant     16  BF.MEXISTS key absent*20
    chain:n       Linear       64  BF.CARD key
    filled:n      Constant     16  BF.CARD key
    chain:n       Linear       12  BF.INFO key
    chain:n       Linear        6  BF.INFO key FULL
    slices:n      Linear        4  BF.INFO key FULL
    wide:n        Constant   1000  BF.INFO key FULL
    excepted:n    Constant     16  BF.INFO key
    chain:n       Linear        6  BF.DEBUG key
    wide:n        Constant   1000  BF.DEBUG key
    chain:n       Linear        6  BF.SCANDUMP key 0
    chain:n       Bounded       6  BF.SCANDUMP key 1
    wide:n        Linear    64000  BF.SCANDUMP key 1
    wide:n        Constant   1000  BF.SCANDUMP key 0
    filled:1024   Linear       32  BF.EXCEPT key in*n
    chain:n       Linear        6  BF.EXCEPT key in*2
    wide:n        Constant   1000  BF.EXCEPT key in:0
    filled:n      Constant     16  BF.RESET key
    excepted:n    Constant     16  BF.RESET key
    wide:n        Sizing     1000  BF.RESET key
    wide:n        Linear    16000  BF.MERGE key 1 source OVERRIDE
    chain:n       Linear        6  BF.SHRINK key
    wide:n        Linear   500000  BF.SHRINK key
    wide:n        Linear    28000  BF.INTERSECT new 2 source source
";

/// Laws that have no such row.
const LAWS: &[Law] = &[
    ("BF.RESERVE", "the capacity", Within(LAYER), 1000, |counter, n| {
        counter.client.run("DEL key");
        counter.line(&format!("BF.RESERVE key 0.01 {} SEED 1", n * n / 1000))
    }),
    ("BF.MADD", "one item again and again", Linear, 32, |counter, n| {
        let key = counter.wide(5000);
        counter.fresh(&key);
        counter.over("BF.MADD key", &vec!["again".to_owned(); n as usize])
    }),
    ("BF.ADDPACKED", "items", Linear, 32, |counter, n| {
        let key = counter.wide(5000);
        counter.fresh(&key);
        counter.with("BF.ADDPACKED key LINES", &Form::Lines.pack(&absent(n)))
    }),
    ("BF.ADDPACKED", "layers", Linear, 6, |counter, n| {
        let key = counter.chain(n);
        counter.fresh(&key);
        counter.with("BF.ADDPACKED key LINES", &Form::Lines.pack(&numbered("in", 4)))
    }),
    ("BF.ADDPACKED", "bytes of one item", Linear, 4096, |counter, n| {
        let key = counter.wide(5000);
        counter.fresh(&key);
        counter.with("BF.ADDPACKED key LINES", &vec![b'x'; n as usize])
    }),
    (
        "BF.ADDPACKED",
        "lines without an item",
        Linear,
        1024,
        |counter, n| {
            let key = counter.wide(5000);
            counter.fresh(&key);
            counter.with("BF.ADDPACKED key LINES", &vec![b'\n'; n as usize])
        },
    ),
    ("BF.EXISTSPACKED", "items", Linear, 32, |counter, n| {
        let key = counter.chain(8);
        counter.with(
            &format!("BF.EXISTSPACKED {key} PREFIXED"),
            &Form::Prefixed.pack(&absent(n)),
        )
    }),
    (
        "BF.EXISTSPACKED",
        "items without a byte",
        Linear,
        256,
        |counter, n| {
            let key = counter.chain(8);
            counter.with(
                &format!("BF.EXISTSPACKED {key} PREFIXED"),
                &vec![0; 4 * n as usize],
            )
        },
    ),
    ("BF.EXISTSPACKED", "layers", Linear, 6, |counter, n| {
        let key = counter.chain(n);
        counter.with(
            &format!("BF.EXISTSPACKED {key} LINES"),
            &Form::Lines.pack(&absent(20)),
        )
    }),
    (
        "BF.EXISTSPACKED",
        "bytes of one item",
        Linear,
        4096,
        |counter, n| {
            let key = counter.wide(5000);
            counter.with(
                &format!("BF.EXISTSPACKED {key} WIDTH {n}"),
                &vec![b'x'; n as usize],
            )
        },
    ),
    ("BF.LOADCHUNK", "layers, of a header", Linear, 6, |counter, n| {
        let key = counter.chain(n);
        let (_, header) = counter.dump(&key).swap_remove(0);
        counter.client.run("DEL key");
        counter.with("BF.LOADCHUNK key 1", &header)
    }),
    ("BF.LOADCHUNK", "layers, for a chunk", Bounded, 6, |counter, n| {
        let key = counter.chain(n);
        let (iterator, chunk) = counter.dump(&key).pop().unwrap();
        counter.with(&format!("BF.LOADCHUNK {key} {iterator}"), &chunk)
    }),
    ("BF.LOADCHUNK", "bytes of a chunk", Linear, 4000, |counter, n| {
        let key = counter.wide(n);
        let (iterator, chunk) = counter.dump(&key).pop().unwrap();
        counter.with(&format!("BF.LOADCHUNK {key} {iterator}"), &chunk)
    }),
    (
        "BF.LOADCHUNK",
        "exceptions, of a header",
        Linear,
        64,
        |counter, n| {
            let key = counter.excepted(n);
            let (_, header) = counter.dump(&key).swap_remove(0);
            counter.client.run("DEL key");
            counter.with("BF.LOADCHUNK key 1", &header)
        },
    ),
    // As BF.INTERSECT.
    ("BF.LOAD", "bytes of a layer", Bounded, 16_000, |counter, n| {
        let key = counter.wide_of("VALKEY", n);
        let data = crate::torture::storm::load_data(&counter.dump(&key));
        counter.client.run("DEL key");
        counter.with("BF.LOAD key", &data)
    }),
    ("BF.LOAD", "layers", Linear, 6, |counter, n| {
        let key = counter.chain_of(VALKEY, n);
        let data = crate::torture::storm::load_data(&counter.dump(&key));
        counter.client.run("DEL key");
        counter.with("BF.LOAD key", &data)
    }),
    (
        "BF.EXCEPT",
        "exceptions, where their table grows",
        Bounded,
        60,
        |counter, n| {
            // The dearest of some, since the table is made anew now and then.
            let key = counter.excepted(n);
            counter.fresh(&key);
            counter.over("BF.MADD key", &numbered("more", n));
            (0..n)
                .map(|number| counter.line(&format!("BF.EXCEPT key more:{number}")))
                .max()
                .unwrap()
        },
    ),
    ("BF.RESET", "layers", Linear, 6, |counter, n| {
        let key = counter.chain(n);
        counter.fresh(&key);
        // The empty layer is sized once only.
        counter.line("BF.RESET key");
        counter.client.run("DEL key");
        counter.client.answers(&[(&format!("COPY {key} key"), 1.into())]);
        counter.line("BF.RESET key")
    }),
    (
        "BF.MERGE",
        "sources of the same bytes",
        Linear,
        4,
        |counter, n| {
            let sources = counter.sources(n);
            counter.client.run("DEL key");
            counter.over(&format!("BF.MERGE key {n}"), &sources)
        },
    ),
    (
        "BF.MERGE",
        "one source again and again",
        Linear,
        4,
        |counter, n| {
            let sources = vec![counter.sources(1).swap_remove(0); n as usize];
            counter.client.run("DEL key");
            counter.over(&format!("BF.MERGE key {n}"), &sources)
        },
    ),
    ("BF.MERGE", "layers of two chains", Bounded, 6, |counter, n| {
        let sources = [counter.chain(n), counter.chain(8)];
        counter.client.run("DEL key");
        counter.over("BF.MERGE key 2", &sources)
    }),
    // Clients make 1,100 layers at most.
    ("BF.MERGE", "layers of one shape", Linear, 64, |counter, n| {
        let key = counter.alike(n);
        let one = counter.alike(1);
        counter.client.run(&format!("BF.MERGE {key} 1 {one}"));
        counter.line(&format!("BF.MERGE {key} 1 {one}"))
    }),
    // The cost would grow with the product of the two numbers if the pairs of layers that are compared were not limited.
    (
        "BF.MERGE",
        "sources over as many layers of one shape",
        Within(300_000_000),
        64,
        |counter, n| {
            let key = counter.alike(n);
            let parts = numbered(&key, n);
            counter.fresh(&key);
            counter.over(&format!("BF.MERGE key {n}"), &parts)
        },
    ),
    ("BF.MERGE", "exceptions", Linear, 64, |counter, n| {
        let sources = [counter.excepted(n), counter.filled(16)];
        counter.client.run("DEL key");
        counter.over("BF.MERGE key 2", &sources)
    }),
    ("BF.INTERSECT", "sources", Linear, 4, |counter, n| {
        let sources = counter.sources(n);
        counter.client.run("DEL key");
        counter.over(&format!("BF.INTERSECT key {n}"), &sources)
    }),
    ("BF.INTERSECT", "exceptions", Linear, 64, |counter, n| {
        let sources = [counter.excepted(n), counter.filled(16)];
        counter.client.run("DEL key");
        counter.over("BF.INTERSECT key 2", &sources)
    }),
    (
        "BF.PLAN",
        "the capacity",
        Within(16 * LAYER),
        4000,
        |counter, n| counter.line(&format!("BF.PLAN 0.01 {}", n * n)),
    ),
];

/// All laws.
fn laws() -> Vec<Law<Cost>> {
    let rows = ON_ONE_FILTER.trim().lines().map(|row| {
        let mut words = row.split_whitespace();
        let mut next = || words.next().unwrap();
        let (filter, growth, smallest) = (next(), next(), next().parse().unwrap());
        let growth = match growth {
            "Linear" => Linear,
            "Constant" => Constant,
            "Bounded" => Bounded,
            "Sizing" => Within(LAYER),
            other => panic!("no growth: {other}"),
        };
        let command: Vec<_> = words.collect();
        let name = command[0];
        let cost = move |counter: &mut Counter, n| match growth {
            Linear | Bounded => counter.on_copy(filter, &command, n),
            Constant | Within(_) => counter.on_copy(filter, &command, n * n / smallest),
        };
        let cost: Cost = Box::new(cost);
        (name, row.trim(), growth, smallest, cost)
    });
    let others = LAWS.iter().map(|(command, what, growth, smallest, cost)| {
        let cost: Cost = Box::new(cost);
        (*command, *what, *growth, *smallest, cost)
    });
    rows.chain(others).collect()
}

/// What a command's page says of its cost would be nobody's to keep.
#[test]
fn every_command_has_a_law() {
    let with_law: BTreeSet<_> = laws().iter().map(|law| law.0).collect();
    assert_eq!(with_law, COMMANDS.iter().map(|command| command.0).collect());
}

/// A command on a large filter, or of many arguments, would hold up everybody else for longer than its page says.
#[test]
#[ignore = "it takes a while: make bench-complexity"]
fn costs_grow_with_what_the_pages_say() {
    if !Counter::can_count() {
        skip!("valgrind is needed to count instructions");
    }
    let mut counter = Counter::start();
    let only = std::env::var("BLOOM_TEST_LAW").unwrap_or_default();
    let mut laws = laws();
    laws.retain(|law| law.0.contains(&only));
    assert!(!laws.is_empty(), "no law of {only:?}");
    let mut broken = Vec::new();
    for (command, what, growth, size, cost) in laws {
        // What is done now and then, such as the growth of a buffer, is no part of it.
        cost(&mut counter, size);
        let costs = [size, 4 * size, 16 * size].map(|size| {
            let of_three = [(); 3].map(|()| cost(&mut counter, size));
            of_three.into_iter().min().unwrap()
        });
        let [small, middle, large] = costs.map(|cost| cost as f64);
        let ratio = (large - middle) / (middle - small);
        let holds = match growth {
            Linear => large > 2.0 * small && (ratio / 4.0 - 1.0).abs() <= SLACK,
            Bounded => large <= 16.0 * small,
            Within(most) => costs.into_iter().all(|cost| cost <= most),
            Constant => large.max(middle) <= (small * DEARER).max(small + NOISE as f64),
        };
        let line = format!("{command:16} {what:36} {growth:?} from {size}: {costs:?}, steps {ratio:.2}");
        eprintln!("{} {line}", if holds { "ok    " } else { "BROKEN" });
        if !holds {
            broken.push(line);
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
