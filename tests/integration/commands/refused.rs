//! Words of BF.RESERVE, BF.PLAN, BF.INSERT and BF.ADDPACKED that describe no filter, and what is said of them.

use crate::client::{Client, Reply, WRONG_TYPE, arity, error, ok};
use crate::server::Server;

const LAYOUT: &str = "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY";
const SEED: &str = "ERR bad seed";
const SEED_RANGE: &str = "ERR seed must be in the range [0, 18446744073709551615]";
const SEED_LAYOUT: &str = "ERR SEED is for LAYOUT BLOCKED or VALKEY only";
const GROWING_LAYOUT: &str = "ERR GROWING is for LAYOUT BLOCKED only";
const EXCLUDE: &str = "ERR NONSCALING and GROWING exclude each other";
const WINDOW: &str = "ERR bad window: not a whole number of seconds";
const WINDOW_RANGE: &str = "ERR window must be in the range [1, 4294967295]";
const WINDOW_LAYOUT: &str = "ERR WINDOW is for LAYOUT BLOCKED only";
const SLICES: &str = "ERR bad slices";
const SLICES_RANGE: &str = "ERR slices must be in the range [2, 64]";
const TIGHTENING: &str = "ERR bad tightening ratio";
const TIGHTENING_RANGE: &str = "ERR tightening ratio must be in the range (0, 1)";
const TIGHTENING_LAYOUT: &str = "ERR TIGHTENING is for LAYOUT VALKEY only";
const GOAL: &str = "ERR bad VALIDATESCALETO";
const GOAL_RANGE: &str = "ERR VALIDATESCALETO must be in the range [1, 9223372036854775807]";
const GOAL_LAYOUT: &str = "ERR VALIDATESCALETO is for LAYOUT VALKEY only";

/// Options that all four commands refuse.
const OPTIONS: &[(&str, &str)] = &[
    ("EXPANSION 2 EXPANSION 2", "ERR EXPANSION was given twice"),
    ("NONSCALING nonscaling", "ERR NONSCALING was given twice"),
    ("GROWING GROWING", "ERR GROWING was given twice"),
    ("NONSCALING GROWING", EXCLUDE),
    ("GROWING EXPANSION 0 NONSCALING", EXCLUDE),
    (
        "EXPANSION 0 GROWING",
        "ERR EXPANSION 0 and GROWING exclude each other",
    ),
    ("EXPAND 2", "ERR Unknown argument received: EXPAND"),
    ("EXP 2", "ERR Unknown argument received: EXP"),
    ("NONSCALINGS", "ERR Unknown argument received: NONSCALINGS"),
    ("NONSCALING 5", "ERR Unknown argument received: 5"),
    ("''", "ERR Unknown argument received: ''"),
    ("a\0\r\n", "ERR Unknown argument received: a\\x00\\r\\n"),
    // Layouts and seeds.
    ("LAYOUT CLASSICAL", LAYOUT),
    ("LAYOUT BLOCK", LAYOUT),
    ("LAYOUT VALKEYS", LAYOUT),
    ("LAYOUT C", LAYOUT),
    ("LAYOUT ''", LAYOUT),
    ("LAYOUT 1", LAYOUT),
    ("LAYOUTS CLASSIC", "ERR Unknown argument received: LAYOUTS"),
    ("CLASSIC", "ERR Unknown argument received: CLASSIC"),
    ("LAYOUT CLASSIC LAYOUT BLOCKED", "ERR LAYOUT was given twice"),
    ("LAYOUT CLASSIC SEED 1", SEED_LAYOUT),
    ("SEED 1 LAYOUT CLASSIC", SEED_LAYOUT),
    ("LAYOUT CLASSIC GROWING", GROWING_LAYOUT),
    ("GROWING LAYOUT classic", GROWING_LAYOUT),
    ("LAYOUT VALKEY GROWING", GROWING_LAYOUT),
    ("SEED ''", SEED),
    ("SEED 1.0", SEED),
    ("SEED 1e3", SEED),
    ("SEED 0x1", SEED),
    ("SEED 01", SEED),
    ("SEED +1", SEED),
    ("SEED GROWING", SEED),
    ("SEED -1", SEED_RANGE),
    ("SEED 18446744073709551616", SEED_RANGE),
    ("SEED 1 LAYOUT BLOCKED SEED 1", "ERR SEED was given twice"),
    // One byte less than 32, and one more; and 32 where they are not taken.
    ("SEED 012345678901234567890123456789x", SEED),
    ("SEED 01234567890123456789012345678901x LAYOUT VALKEY", SEED),
    (
        "LAYOUT BLOCKED SEED 01234567890123456789012345678901",
        "ERR SEED of 32 bytes is for LAYOUT VALKEY only",
    ),
    (
        "LAYOUT CLASSIC SEED 00000000000000000000000000000001",
        "ERR SEED of 32 bytes is for LAYOUT VALKEY only",
    ),
    // valkey-bloom's words.
    ("TIGHTENING x", TIGHTENING),
    ("TIGHTENING ''", TIGHTENING),
    ("TIGHTENING 0.5x", TIGHTENING),
    ("TIGHTENING nan", TIGHTENING),
    ("TIGHTENING 0", TIGHTENING_RANGE),
    ("TIGHTENING 1", TIGHTENING_RANGE),
    ("TIGHTENING -1", TIGHTENING_RANGE),
    ("TIGHTENING inf", TIGHTENING_RANGE),
    ("TIGHTENING 1e400", TIGHTENING_RANGE),
    ("TIGHTENING 1e-400", TIGHTENING_RANGE),
    ("TIGHTENING 0.5 tightening 0.5", "ERR TIGHTENING was given twice"),
    ("TIGHTENING 0.5 LAYOUT BLOCKED", TIGHTENING_LAYOUT),
    ("LAYOUT CLASSIC TIGHTENING 0.5", TIGHTENING_LAYOUT),
    ("TIGHTENING 0.5 GROWING", GROWING_LAYOUT),
    ("VALIDATESCALETO x", GOAL),
    ("VALIDATESCALETO 1e3", GOAL),
    ("VALIDATESCALETO 0", GOAL_RANGE),
    ("VALIDATESCALETO -1", GOAL_RANGE),
    ("VALIDATESCALETO 9223372036854775808", GOAL_RANGE),
    (
        "VALIDATESCALETO 5 VALIDATESCALETO 5",
        "ERR VALIDATESCALETO was given twice",
    ),
    ("VALIDATESCALETO 5 LAYOUT BLOCKED", GOAL_LAYOUT),
    ("VALIDATESCALETO 5 LAYOUT CLASSIC", GOAL_LAYOUT),
    (
        "VALIDATESCALETO 10 NONSCALING",
        "ERR VALIDATESCALETO and NONSCALING exclude each other",
    ),
    (
        "EXPANSION 0 VALIDATESCALETO 10",
        "ERR VALIDATESCALETO and EXPANSION 0 exclude each other",
    ),
    // Windows.
    ("WINDOW ''", WINDOW),
    ("WINDOW 1.5", WINDOW),
    ("WINDOW x", WINDOW),
    ("WINDOW 1s", WINDOW),
    ("WINDOW -1", WINDOW_RANGE),
    ("WINDOW 0", WINDOW_RANGE),
    ("WINDOW 4294967296", WINDOW_RANGE),
    ("WINDOW 99999999999999999999", WINDOW_RANGE),
    ("WINDOW 5 WINDOW 5", "ERR WINDOW was given twice"),
    ("WINDOW 5 LAYOUT CLASSIC", WINDOW_LAYOUT),
    ("LAYOUT VALKEY WINDOW 10", WINDOW_LAYOUT),
    ("TIGHTENING 0.5 WINDOW 10", WINDOW_LAYOUT),
    (
        "WINDOW 5 NONSCALING",
        "ERR NONSCALING and WINDOW exclude each other",
    ),
    ("GROWING WINDOW 5", "ERR GROWING and WINDOW exclude each other"),
    (
        "WINDOW 5 EXPANSION 0",
        "ERR EXPANSION 0 and WINDOW exclude each other",
    ),
    ("WINDOW 5 SLICE 4", "ERR Unknown argument received: SLICE"),
    ("WINDOW 5 SLICES ''", SLICES),
    ("WINDOW 5 SLICES 2.0", SLICES),
    ("WINDOW 5 SLICES 0", SLICES_RANGE),
    ("WINDOW 5 SLICES 1", SLICES_RANGE),
    ("WINDOW 5 SLICES 65", SLICES_RANGE),
    ("WINDOW 5 SLICES 258", SLICES_RANGE),
    ("WINDOW 5 SLICES -2", SLICES_RANGE),
    ("WINDOW 5 SLICES 99999999999999999999", SLICES_RANGE),
    ("WINDOW 5 SLICES 4 SLICES 4", "ERR SLICES was given twice"),
    ("SLICES 4", "ERR SLICES is for filters with a WINDOW only"),
    (
        "LAYOUT VALKEY SLICES 4",
        "ERR SLICES is for filters with a WINDOW only",
    ),
    ("REFRESH", "ERR REFRESH is for filters with a WINDOW only"),
    ("REFRESH WINDOW 5 REFRESH", "ERR REFRESH was given twice"),
];

/// Options that all four commands refuse because of an option of the module, which is named.
const BY_CONFIGURATION: &[(&str, &str, &str)] = &[
    (
        "bf-layout classic",
        "SEED 1",
        "ERR SEED is for LAYOUT BLOCKED or VALKEY only, and bf-layout is classic",
    ),
    (
        "bf-layout classic",
        "GROWING",
        "ERR GROWING is for LAYOUT BLOCKED only, and bf-layout is classic",
    ),
    (
        "bf-layout classic",
        "WINDOW 5",
        "ERR WINDOW is for LAYOUT BLOCKED only, and bf-layout is classic",
    ),
    (
        "bf-layout valkey",
        "GROWING",
        "ERR GROWING is for LAYOUT BLOCKED only, and bf-layout is valkey",
    ),
    (
        "bf-layout valkey",
        "WINDOW 10",
        "ERR WINDOW is for LAYOUT BLOCKED only, and bf-layout is valkey",
    ),
    ("bf-layout valkey", "LAYOUT CLASSIC SEED 1", SEED_LAYOUT),
    (
        "bf-expansion-factor 0",
        "GROWING",
        "ERR GROWING needs an EXPANSION above 0: bf-expansion-factor is 0",
    ),
    (
        "bf-expansion-factor 0",
        "WINDOW 5",
        "ERR WINDOW needs an EXPANSION above 0: bf-expansion-factor is 0",
    ),
    (
        "bf-layout valkey bf-expansion-factor 0",
        "VALIDATESCALETO 5",
        "ERR VALIDATESCALETO needs an EXPANSION above 0: bf-expansion-factor is 0",
    ),
];

const RATE: &str = "ERR bad error rate";
const RATE_RANGE: &str = "ERR error rate must be in the range (0.000000, 1.000000)";
const CAPACITY: &str = "ERR bad capacity";
const CAPACITY_RANGE: &str = "ERR capacity must be in the range [1, 1099511627776]";
const EXPANSION: &str = "ERR bad expansion";
const EXPANSION_RANGE: &str = "ERR expansion must be in the range [0, 32768]";
const NONSCALING: &str = "Nonscaling filters cannot expand";

/// What BF.RESERVE and BF.PLAN refuse besides, with the rate and the capacity.
const RESERVED: &[(&str, &str)] = &[
    ("nan 100", RATE),
    ("-nan 100", RATE),
    ("'' 100", RATE),
    ("rate 100", RATE),
    ("0,01 100", RATE),
    ("0.01% 100", RATE),
    ("1e-400x 100", RATE),
    ("inf 100", RATE_RANGE),
    ("0 100", RATE_RANGE),
    ("-0 100", RATE_RANGE),
    ("1 100", RATE_RANGE),
    ("-1 100", RATE_RANGE),
    ("1e300 100", RATE_RANGE),
    ("1e3 100", RATE_RANGE),
    ("1e400 100", RATE_RANGE),
    ("1e-400 100", RATE_RANGE),
    ("-1e-400 100", RATE_RANGE),
    ("0.01 ''", CAPACITY),
    ("0.01 +5", CAPACITY),
    ("0.01 1e3", CAPACITY),
    ("0.01 5.0", CAPACITY),
    ("0.01 0x10", CAPACITY),
    ("0.01 many", CAPACITY),
    ("0.01 99999999999999999999999", CAPACITY_RANGE),
    ("0.01 0", CAPACITY_RANGE),
    ("0.01 -1", CAPACITY_RANGE),
    ("0.01 1099511627777", CAPACITY_RANGE),
    ("0.01 9223372036854775807", CAPACITY_RANGE),
    ("0.01 9223372036854775808", CAPACITY_RANGE),
    ("0.01 -9223372036854775809", CAPACITY_RANGE),
    ("0.01 100 EXPANSION", "ERR no expansion"),
    ("0.01 100 NONSCALING EXPANSION", "ERR no expansion"),
    ("0.01 100 EXPANSION ''", EXPANSION),
    ("0.01 100 EXPANSION two", EXPANSION),
    ("0.01 100 EXPANSION 2.0", EXPANSION),
    ("0.01 100 EXPANSION 1e3", EXPANSION),
    ("0.01 100 EXPANSION NONSCALING", EXPANSION),
    ("0.01 100 EXPANSION -1", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 32769", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 9223372036854775807", EXPANSION_RANGE),
    ("0.01 100 EXPANSION 9223372036854775808", EXPANSION_RANGE),
    ("0.01 100 NONSCALING EXPANSION 2", NONSCALING),
    ("0.01 100 EXPANSION 2 NONSCALING", NONSCALING),
    ("0.01 100 SEED", "ERR no value for SEED"),
    ("0.01 100 LAYOUT", "ERR no value for LAYOUT"),
    ("0.01 100 TIGHTENING", "ERR no value for TIGHTENING"),
    ("0.01 100 VALIDATESCALETO", "ERR no value for VALIDATESCALETO"),
    ("0.01 100 WINDOW", "ERR no value for WINDOW"),
    ("0.01 100 WINDOW 5 SLICES", "ERR no value for SLICES"),
    ("0.01 100 CAPACITY 5", "ERR Unknown argument received: CAPACITY"),
    ("0.01 100 WINDOW 5 AT 5", "ERR Unknown argument received: AT"),
];

const INSERTED_RATE: &str = "Bad error rate";
const INSERTED_CAPACITY: &str = "Bad capacity";
const INSERTED_EXPANSION: &str = "Bad expansion";
const TIME: &str = "ERR bad time";
const TIME_RANGE: &str = "ERR time must be in the range [0, 4611686018427387904]";

/// What BF.INSERT and BF.ADDPACKED refuse besides.
const INSERTED: &[(&str, &str)] = &[
    ("NOCREATED", "ERR Unknown argument received: NOCREATED"),
    ("NOSCALING", "ERR Unknown argument received: NOSCALING"),
    ("CAP 100", "ERR Unknown argument received: CAP"),
    ("ERR 0.1", "ERR Unknown argument received: ERR"),
    ("CAPACITY many", INSERTED_CAPACITY),
    ("CAPACITY ''", INSERTED_CAPACITY),
    ("CAPACITY +5", INSERTED_CAPACITY),
    ("CAPACITY 1e3", INSERTED_CAPACITY),
    // The next word is the value.
    ("CAPACITY", INSERTED_CAPACITY),
    ("CAPACITY 0", INSERTED_CAPACITY),
    ("CAPACITY -1", INSERTED_CAPACITY),
    ("CAPACITY 1099511627777", INSERTED_CAPACITY),
    ("CAPACITY 9223372036854775808", INSERTED_CAPACITY),
    ("CAPACITY 100 CAPACITY 100", "ERR CAPACITY was given twice"),
    ("ERROR rate", INSERTED_RATE),
    ("ERROR ''", INSERTED_RATE),
    ("ERROR nan", INSERTED_RATE),
    ("ERROR inf", INSERTED_RATE),
    ("ERROR 0", INSERTED_RATE),
    ("ERROR 1e-400", INSERTED_RATE),
    ("ERROR 1", INSERTED_RATE),
    ("ERROR -0.5", INSERTED_RATE),
    ("ERROR 0.1 error 0.1", "ERR ERROR was given twice"),
    ("EXPANSION two", INSERTED_EXPANSION),
    ("EXPANSION -1", INSERTED_EXPANSION),
    ("EXPANSION 32769", INSERTED_EXPANSION),
    ("EXPANSION", INSERTED_EXPANSION),
    ("LAYOUT", LAYOUT),
    ("SEED", SEED),
    ("NOCREATE NOCREATE", "ERR NOCREATE was given twice"),
    ("AT ''", TIME),
    ("AT 1.5", TIME),
    ("AT now", TIME),
    ("AT -1", TIME_RANGE),
    ("WINDOW 5 AT 4611686018427387905", TIME_RANGE),
    ("AT 9223372036854775808", TIME_RANGE),
    ("AT -99999999999999999999", TIME_RANGE),
    ("AT 5 AT 5", "ERR AT was given twice"),
    // Who thinks that an add with NX leaves a filter alone that is there would change it.
    ("NX", "ERR Unknown argument received: NX"),
];

const NO_TIME: &str = "ERR invalid expire time in '...' command";
const NO_INTEGER: &str = "ERR value is not an integer or out of range";

/// Ends that are refused in the words of SET; the dots are the command.
const ENDS: &[(&str, &str)] = &[
    ("EX 0", NO_TIME),
    ("EX -1", NO_TIME),
    ("EX 9223372036854775807", NO_TIME),
    ("EX 9223372036854775", NO_TIME),
    ("PX 0", NO_TIME),
    ("PX 9223372036854775807", NO_TIME),
    ("EXAT 0", NO_TIME),
    ("EXAT -5", NO_TIME),
    ("EXAT 9223372036854776", NO_TIME),
    ("PXAT 0", NO_TIME),
    ("PXAT -9223372036854775808", NO_TIME),
    ("LAYOUT VALKEY EX 0", NO_TIME),
    ("EX abc", NO_INTEGER),
    ("EX ''", NO_INTEGER),
    ("EX 1.5", NO_INTEGER),
    ("EXAT 01", NO_INTEGER),
    ("PX 9223372036854775808", NO_INTEGER),
    ("EX -9223372036854775809", NO_INTEGER),
    ("EX GROWING", NO_INTEGER),
    ("EX 1 EX 1", "ERR EX was given twice"),
    ("EX 1 PX 1", "ERR EX and PX exclude each other"),
    ("px 1 exat 1", "ERR PX and EXAT exclude each other"),
    ("PXAT 1 GROWING EX 1", "ERR PXAT and EX exclude each other"),
    ("KEEPTTL", "ERR Unknown argument received: KEEPTTL"),
    ("XX", "ERR Unknown argument received: XX"),
    ("EXPIRE 5", "ERR Unknown argument received: EXPIRE"),
];

/// What makes a filter in `key` with these options: by BF.RESERVE, BF.INSERT and BF.ADDPACKED, and BF.PLAN.
fn with_options(key: &str, options: &str) -> [String; 4] {
    [
        format!("BF.RESERVE {key} 0.01 100 {options}"),
        format!("BF.INSERT {key} {options} ITEMS a"),
        format!("BF.ADDPACKED {key} {options} LINES a"),
        format!("BF.PLAN 0.01 100 {options}"),
    ]
}

/// A misspelt, repeated or contradicting word would be taken for something that its author did not mean, and a typing
/// error in a number make a filter that keeps another promise than its owner believes.
#[test]
fn what_describes_no_filter_is_refused_in_words() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("BF.ADD used item", 1.into()), ("SET text value", ok())]);
    let mut refuses = |key: &str, lines: &[String], text: &str| {
        for line in lines {
            client.refuses(key, &[(line, text)]);
        }
    };
    for key in ["new", "used", "text"] {
        for (options, text) in OPTIONS {
            refuses(key, &with_options(key, options), text);
        }
        for (words, text) in RESERVED {
            let lines = [format!("BF.RESERVE {key} {words}"), format!("BF.PLAN {words}")];
            refuses(key, &lines, text);
        }
        for (options, text) in INSERTED {
            refuses(key, &with_options(key, options)[1..3], text);
        }
        for (options, text) in ENDS {
            for line in &with_options(key, options)[..3] {
                let command = line.split(' ').next().unwrap().to_lowercase();
                refuses(key, std::slice::from_ref(line), &text.replace("...", &command));
            }
        }
        for word in [
            "CAPACITY",
            "ERROR",
            "EXPANSION",
            "SEED",
            "LAYOUT",
            "EX",
            "PX",
            "EXAT",
            "PXAT",
        ] {
            let line = format!("BF.ADDPACKED {key} LINES {word} data");
            refuses(key, &[line], &format!("ERR no value for {word}"));
        }
    }
    client.answers(&[("EXISTS new", 0.into())]);
    // There is no key to be made.
    for word in ["NX", "EX", "PX", "EXAT", "PXAT"] {
        let text = format!("ERR Unknown argument received: {word}");
        client.answers(&[(&format!("BF.PLAN 0.01 100 {word} 5"), error(&text))]);
    }
    // Spaces around a number.
    for (rate, capacity, text) in [
        ("0.01 ", "100", RATE),
        (" 0.01", "100", RATE),
        ("0.01", " 5", CAPACITY),
        ("0.01", "5 ", CAPACITY),
    ] {
        assert_eq!(client.call(&["BF.RESERVE", "new", rate, capacity]), error(text));
        assert_eq!(client.call(&["BF.PLAN", rate, capacity]), error(text));
    }
}

/// A command without all of its words would do something else, or a value of another kind be overwritten.
#[test]
fn commands_without_all_words_and_keys_of_other_kinds_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.answers(&[("SET text value", ok())]);
    for line in [
        "BF.RESERVE",
        "BF.RESERVE text",
        "BF.RESERVE text 0.01",
        "BF.PLAN",
        "BF.PLAN 0.01",
        "BF.INSERT",
        "BF.INSERT text",
        "BF.INSERT text ITEMS",
        "BF.INSERT text NOCREATE",
        "BF.INSERT text NOCREATE ITEMS",
        "BF.INSERT text LAYOUT CLASSIC",
        "BF.INSERT text CAPACITY 100",
    ] {
        client.refuses("text", &[(line, &arity(line.split(' ').next().unwrap()))]);
    }
    client.refuses(
        "text",
        &[
            ("BF.INSERT text a b", "ERR Unknown argument received: a"),
            ("BF.INSERT text ITEM a", "ERR Unknown argument received: ITEM"),
            ("BF.RESERVE text 0.01 100", WRONG_TYPE),
            ("BF.INSERT text ITEMS a", WRONG_TYPE),
            ("BF.INSERT text NOCREATE ITEMS a", WRONG_TYPE),
        ],
    );
}

/// If the other of two options that exclude each other is in the server's configuration, a user would look for it in
/// the command.
#[test]
fn what_the_configuration_excludes_names_the_option() {
    for (arguments, options, text) in BY_CONFIGURATION {
        let server = Server::with().module_args(arguments).start();
        let mut client = server.client();
        for line in with_options("new", options) {
            client.refuses("new", &[(&line, text)]);
        }
    }
    let server = Server::with()
        .module_args("bf-layout classic bf-expansion-factor 0")
        .start();
    let mut client = server.client();
    for options in [
        "WINDOW 5 LAYOUT BLOCKED EXPANSION 2",
        "GROWING EXPANSION 2 LAYOUT BLOCKED",
    ] {
        for line in with_options("new", options) {
            is_taken(&mut client, &line);
            client.run("DEL new");
        }
    }
}

fn is_taken(client: &mut Client, line: &str) {
    let reply = client.run(line);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
}
