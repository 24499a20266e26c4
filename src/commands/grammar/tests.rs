use super::super::requests::trying::*;
use super::super::requests::{Creation, NOW, Release, Word};
use super::*;
use libbloom::spec::Spec;

/// A replica with other options would make another filter than its primary.
#[test]
fn what_is_replicated_means_the_same_under_any_configuration() {
    let here = Config::new(Seed(7));
    let there = elsewhere();
    for line in [
        "NONSCALING 0.01 100",
        "EXPANSION 0.01 100 LAYOUT CLASSIC",
        "NONSCALING 0.01 100 LAYOUT CLASSIC",
        "key 0.1 10 LAYOUT CLASSIC NONSCALING",
        "key 0.1 10 LAYOUT CLASSIC EXPANSION 32768",
        "key 0.01 100",
        "key 0.01 100 GROWING",
        "key 0.01 200 GROWING",
        "key 0.02 100 GROWING EXPANSION 3",
        "key 0.9 1099511627776 EXPANSION 32768",
        "key 1e-300 1 NONSCALING",
        "key 0.3333333333333333 12345 GROWING SEED 18446744073709551615",
        "key 0.1 10 LAYOUT CLASSIC EXPANSION 0",
        "key 0.01 100 EX 1",
        "key 0.01 100 NX PX 9000000000000000000 SEED 1",
        "EXPANSION 0.9 100 EXAT 1 LAYOUT CLASSIC",
        "NONSCALING 0.5 100 PXAT 9223372036854775807 NONSCALING LAYOUT CLASSIC",
        "key 0.1 10 LAYOUT CLASSIC EXPANSION 0 EXAT 9223372036854775",
        "key 0.1 10 PXAT 1 EXPANSION 32768",
    ] {
        let key = line.split(' ').next().unwrap();
        let made = reserve(&words(line), &here).unwrap();
        is_propagated(key, made, &there);
        is_propagated_packed(key, made, &there);
    }
}

/// A filter would stay for ever, or be gone at once.
#[test]
fn times_are_those_of_set() {
    let config = Config::new(Seed(7));
    for (words, expires) in [
        ("", None),
        ("EX 1", Some(NOW + 1000)),
        ("px 1", Some(NOW + 1)),
        ("ExAt 1", Some(1000)),
        ("PXAT 1", Some(1)),
        ("EX 9000000000000000", Some(NOW + 9_000_000_000_000_000_000)),
        ("PXAT 9223372036854775807", Some(i64::MAX)),
        ("EXAT 9223372036854775", Some(9_223_372_036_854_775_000)),
    ] {
        for made in expiring(words, &config) {
            assert_eq!(made.unwrap().expires, expires, "{words}");
        }
    }
}

/// What BF.RESERVE, BF.INSERT and BF.ADDPACKED create from these options.
fn expiring(options: &str, config: &Config) -> [Result<Creation, CommandError>; 3] {
    let line = |line: String| line.replace("  ", " ");
    let inserted = line(format!("key {options} ITEMS a"));
    let packed = line(format!("key {options} LINES a"));
    [
        reserve(&words(line(format!("key 0.01 100 {options}")).trim_end()), config),
        insert(&words(&inserted), config).and_then(|(_, made)| made),
        add_packed(&words(&packed), config).and_then(|(_, made)| made),
    ]
}

/// A filter that RedisBloom propagates would expire, or be another one: RedisBloom reads letters, and ignores words.
#[test]
fn only_pxat_is_written_and_read_as_a_time() {
    let config = Config::new(Seed(7));
    let release = Release::Eight;
    for (line, expansion, grows) in [
        ("key EX 9 ITEMS a", 9, true),
        ("key EXAT 5 ITEMS a", 5, true),
        ("key NX ITEMS a", 2, false),
    ] {
        let arguments = words(line);
        let made = obey_insert(&arguments, &config, release).unwrap().1.unwrap();
        let Spec::Classic(spec) = made.filter else {
            panic!("{made:?}")
        };
        assert_eq!(
            (spec.rules().expansion(), spec.rules().scales(), made.expires),
            (expansion, grows, None)
        );
    }
    for line in ["key 0.01 100 EX 9", "key 0.01 100 NX", "key 0.01 100 PX 9 EXAT 1"] {
        let made = obey_reserve(&words(line), &config, release).unwrap();
        assert!(matches!(made.filter, Spec::Classic(_)), "{made:?}");
        assert_eq!(made.expires, None, "{line}");
    }
    let made = obey_reserve(&words("key 0.01 100 pxat 9"), &config, release).unwrap();
    assert!(matches!(made.filter, Spec::Blocked(_)), "{made:?}");
    assert_eq!(made.expires, Some(9));
}

/// A replica that is older than its primary would silently have a filter of RedisBloom's layout instead of one that
/// it does not know, and give other answers from then on.
#[test]
fn a_creation_in_words_of_a_later_version_is_refused() {
    let config = Config::new(Seed(7));
    let unknown = || Err::<Creation, _>(CommandError::Unknown("LATER".to_owned()));
    for release in [Release::Two, Release::Eight] {
        for bundle in [
            "LAYOUT BLOCKED SEED 9 LATER 5",
            "LAYOUT BLOCKED SEED 9 LATER EXPANSION 3",
            "LAYOUT BLOCKED SEED 9 LATER ITEMS",
        ] {
            let bundle = Word(bundle.as_bytes());
            let [key, rate, capacity, items, lines, a] =
                ["key", "0.01", "100", "ITEMS", "LINES", "a"].map(|word| Word(word.as_bytes()));
            let reserved = [key, rate, capacity, bundle];
            assert_eq!(obey_reserve(&reserved, &config, release), unknown());
            let inserted = [key, bundle, items, a];
            let made = obey_insert(&inserted, &config, release).map(drop);
            assert_eq!(made, unknown().map(drop));
            let made = obey_add_packed(&[key, bundle, lines, a], &config).map(drop);
            assert_eq!(made, unknown().map(drop));
        }
        let expiring = "key 0.01 100 EXPANSION 2 LAYOUT CLASSIC LATER PXAT 5";
        assert_eq!(obey_reserve(&words(expiring), &config, release), unknown());
        // RedisBloom ignores such words of its clients.
        for ignored in [
            "LATER",
            "EXPANSION 2 SEED",
            "LAYOUT BLOCKED LATER",
            "LAYOUT BLOCKED SEED 9 GROWING",
        ] {
            let made = obey_reserve(&words(&format!("key 0.01 100 {ignored}")), &config, release).unwrap();
            assert!(matches!(made.filter, Spec::Classic(_)), "{made:?}");
        }
    }
}

/// A server would hang or end on a bundle that somebody made up, or take half of it.
#[test]
fn bundles_of_any_kind_are_read_or_refused() {
    let config = Config::new(Seed(7));
    let made = |bundle: &str| {
        let arguments = ["key", bundle, "a"].map(|word| Word(word.as_bytes()));
        let made = obey_insert(&arguments, &config, Release::Eight)?;
        made.1
    };
    let plain = made("LAYOUT BLOCKED SEED 9 ITEMS");
    assert!(plain.is_ok());
    assert_eq!(made("LAYOUT BLOCKED ERROR 0.01 EXPANSION 2 SEED 9 ITEMS"), plain);
    let many = format!("LAYOUT BLOCKED{} ITEMS", " ".repeat(1 << 20));
    for (bundle, error) in [
        ("LAYOUT ", "ERR bad layout: it is BLOCKED, CLASSIC or VALKEY"),
        ("LAYOUT BLOCKED", "ERR Unknown argument received: a"),
        ("LAYOUT BLOCKED SEED", "ERR no value for SEED"),
        ("LAYOUT BLOCKED SEED 9 SEED 9 ITEMS", "ERR SEED was given twice"),
        (
            "LAYOUT BLOCKED SEED 9 ITEMS b",
            "ERR Unknown argument received: ITEMS",
        ),
        ("LAYOUT BLOCKED ERROR nan ITEMS", "Bad error rate"),
        ("LAYOUT BLOCKED CAPACITY 0 ITEMS", "Bad capacity"),
        (
            "LAYOUT BLOCKED NONSCALING GROWING ITEMS",
            "ERR NONSCALING and GROWING exclude each other",
        ),
        (&many, "ERR Unknown argument received: ''"),
    ] {
        assert_eq!(made(bundle).unwrap_err().to_string(), error, "{bundle:.99}");
    }
}

/// The pages of the commands, which show their options.
const PAGES: [(Verb, &str, &str, &str); 2] = [
    (
        Verb::Reserve,
        "BF.RESERVE _ _ _",
        "",
        include_str!("../../../docs/commands/bf.reserve.md"),
    ),
    (
        Verb::Insert,
        "BF.INSERT _",
        "[ITEMS _ [_ ...]]",
        include_str!("../../../docs/commands/bf.insert.md"),
    ),
];

/// The options of a command as its page shows them, with `_` for values.
fn usage(verb: Verb) -> String {
    let mut usage = String::new();
    for row in ROWS.iter().filter(|row| verb.has(row)) {
        let shown = |(token, kind): (&'static CStr, Kind)| match kind {
            Kind::Word => text(token).to_owned(),
            Kind::OneOf(choices) => {
                let choices: Vec<_> = choices.iter().flat_map(Parameter::tokens).collect();
                let choices: Vec<_> = choices.into_iter().map(|(choice, _)| text(choice)).collect();
                format!("{} {}", text(token), choices.join(" | "))
            }
            _ => format!("{} _", text(token)),
        };
        let words: Vec<_> = row.parameter.tokens().map(shown).collect();
        let words = format!(" [{}]", words.join(" | "));
        match usage.strip_suffix(']') {
            Some(window) if row.of_window => usage = format!("{window}{words}]"),
            _ => usage += &words,
        }
    }
    usage
}

/// A reader of the page would miss an option, or be refused one that it shows.
#[test]
fn pages_show_the_words_of_the_table() {
    for (verb, before, after, page) in PAGES {
        let shown = page.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
        let (shown, _facts) = shown.split_once("\n\n").unwrap();
        let shown = shown.replace('[', "[ ").replace(']', " ]");
        let words = shown.split_whitespace().map(|word| {
            if word.starts_with(|letter: char| letter.is_ascii_lowercase()) {
                "_"
            } else {
                word
            }
        });
        let shown = words.collect::<Vec<_>>().join(" ");
        let shown = shown.replace("[ ", "[").replace(" ]", "]");
        let expected = format!("{before}{} {after}", usage(verb));
        assert_eq!(shown, expected.trim_end());
    }
    let options = include_str!("../../../docs/commands/options.md");
    let (plan, reserve) = (usage(Verb::Plan), usage(Verb::Reserve));
    assert_eq!(usage(Verb::AddPacked), usage(Verb::Insert));
    assert_eq!(reserve.split_once(" [NX]").unwrap().0, plan);
    for row in ROWS.iter().filter(|row| Verb::Plan.has(row)) {
        assert!(options.contains(&format!("`{}", row.word)), "{}", row.word);
    }
}

/// A user of an earlier version would try an option that it does not have.
#[test]
fn pages_tell_the_version_that_had_a_word_first() {
    for (verb, _, _, page) in &PAGES[..2] {
        let rows = ROWS.iter().filter(|row| verb.has(row));
        let own = rows.filter(|row| row.word == "PXAT" || row.parameter.version() == Some(SINCE_OWN));
        let own = own.flat_map(|row| row.parameter.tokens());
        let words: Vec<_> = own.map(|(token, _)| text(token)).collect();
        let (last, words) = words.split_last().unwrap();
        let since = format!("; {} and {last} 0.3.0 of this module ```", words.join(", "));
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&since), "{since}");
    }
}

/// An option would be accepted together with one that it excludes.
#[test]
fn rules_name_words_of_the_table() {
    let is_word = |word: &str| word == FIXED || ROWS.iter().any(|row| row.word == word);
    for (one, other) in EXCLUSIVE {
        assert!(is_word(one) && is_word(other), "{one} {other}");
    }
}
