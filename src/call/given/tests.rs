use super::*;
use crate::call::args::Word;
use crate::rivals::redisbloom::Release;
use crate::tests::{NOW, asked, elsewhere, is_propagated, obeyed, relayed, words};
use proptest::prelude::*;

/// An option of a filter with its value, if it has one.
fn option() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("NONSCALING".to_owned()),
        Just("GROWING".to_owned()),
        Just("REFRESH".to_owned()),
        (0..=Expansion::MAX).prop_map(|factor| format!("EXPANSION {factor}")),
        any::<u64>().prop_map(|seed| format!("SEED {seed}")),
        prop_oneof!["BLOCKED", "CLASSIC", "VALKEY"].prop_map(|layout| format!("LAYOUT {layout}")),
        (1e-9..1.0).prop_map(|ratio| format!("TIGHTENING {ratio}")),
        any::<u32>().prop_map(|seconds| format!("WINDOW {seconds}")),
        Window::SLICES.prop_map(|slices| format!("SLICES {slices}")),
        (1..i64::MAX).prop_map(|time| format!("PXAT {time}")),
    ]
}

proptest! {
    /// A replica has the filters of its primary, although its own options are others; and its file gives them again.
    #[test]
    fn what_a_client_makes_is_made_again_under_any_configuration(
        key in prop_oneof!["key", "NONSCALING", "EXPANSION", "ITEMS"],
        rate in prop_oneof![1e-300..1.0, 1e-9..0.25, Just(0.01)],
        capacity in prop_oneof![1..=Capacity::MAX, Just(100)],
        options in prop::collection::vec(option(), 0..4),
        classic: bool,
    ) {
        let mut here = Config::new(Seed(7));
        if classic {
            here = elsewhere();
        }
        let line = format!("{key} {rate:e} {capacity} {}", options.join(" "));
        // Options that exclude each other make nothing.
        if let Ok(made) = asked(Verb::Reserve, &words(line.trim_end()), &here) {
            is_propagated(&key, made, &elsewhere());
            is_propagated(&key, made, &Config::new(Seed(9)));
        }
    }
}

/// What a BF.RESERVE, a BF.INSERT and a BF.ADDPACKED create from these options.
fn created(options: &str, config: &Config) -> [Result<Creation, CommandError>; 3] {
    let line = |line: String| line.replace("  ", " ");
    let reserved = line(format!("key 0.01 100 {options}"));
    let inserted = line(format!("key {options} ITEMS a"));
    let packed = line(format!("key {options} LINES a"));
    [
        asked(Verb::Reserve, &words(reserved.trim_end()), config),
        asked(Verb::Insert, &words(&inserted), config),
        asked(Verb::AddPacked, &words(&packed), config),
    ]
}

/// A filter neither stays for ever nor is gone at once.
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
        for made in created(words, &config) {
            assert_eq!(made.unwrap().expires, expires, "{words}");
        }
    }
}

/// A filter that RedisBloom propagates does not expire: RedisBloom reads letters, and ignores words.
#[test]
fn a_primary_s_words_are_no_times() {
    let config = Config::new(Seed(7));
    for (line, expansion, grows) in [
        ("key EX 9 ITEMS a", 9, true),
        ("key EXAT 5 ITEMS a", 5, true),
        ("key NX ITEMS a", 2, false),
    ] {
        let made = obeyed(Verb::Insert, &words(line), &config, Release::Eight).unwrap();
        let Spec::Classic(spec) = made.filter else {
            panic!("{made:?}")
        };
        let rules = spec.rules();
        assert_eq!(
            (rules.expansion(), rules.scales(), made.expires),
            (expansion, grows, None)
        );
    }
    for line in [
        "key 0.01 100 EX 9",
        "key 0.01 100 NX",
        "key 0.01 100 PXAT 9",
        "key 0.01 100 LATER",
    ] {
        let made = obeyed(Verb::Reserve, &words(line), &config, Release::Eight).unwrap();
        assert!(matches!(made.filter, Spec::Classic(_)), "{made:?}");
        assert_eq!(made.expires, None, "{line}");
    }
}

/// A replica that is older than its primary says so, and makes no other filter.
#[test]
fn a_token_that_this_version_does_not_know_is_refused() {
    let config = Config::new(Seed(7));
    for token in [
        "SPEC2:g:1e-2:100:2:7:0",
        "SPEC1:z:1e-2:100:2:7:0",
        "SPEC",
        "SPECIAL",
    ] {
        for (verb, line) in [
            (Verb::Insert, format!("key {token} a")),
            (Verb::Insert, format!("key {token}")),
            (Verb::AddPacked, format!("key {token} LINES a")),
        ] {
            assert_eq!(
                asked(verb, &words(&line), &config),
                Err(CommandError::BAD_SPEC),
                "{line}"
            );
            let obeyed = obeyed(verb, &words(&line), &config, Release::Eight);
            assert_eq!(obeyed, Err(CommandError::BAD_SPEC), "{line}");
        }
    }
}

/// A token is read directly after the key only, and nothing but items comes after it: no word is left over that means
/// something else.
#[test]
fn a_token_stands_alone() {
    let config = Config::new(Seed(7));
    let token = "SPEC1:g:1e-2:100:2:7:0";
    let unknown = |word: &str| Err(CommandError::Unknown(word.to_owned()));
    for (verb, line, error) in [
        (Verb::Insert, format!("key NONSCALING {token} a"), unknown(token)),
        (
            Verb::Insert,
            format!("key CAPACITY 5 {token} ITEMS a"),
            unknown(token),
        ),
        (Verb::AddPacked, format!("key LINES {token} a"), unknown(token)),
        (
            Verb::AddPacked,
            format!("key {token} CAPACITY 5 LINES a"),
            unknown("CAPACITY"),
        ),
        (Verb::AddPacked, format!("key {token} NX LINES a"), unknown("NX")),
        (
            Verb::Reserve,
            format!("key {token} 100"),
            Err(CommandError::Bad("error rate")),
        ),
        (Verb::Reserve, format!("key 0.01 100 {token}"), unknown(token)),
    ] {
        assert_eq!(asked(verb, &words(&line), &config), error, "{line}");
    }
    let line = format!("key {token} CAPACITY 5 ITEMS {token}");
    let arguments = words(&line);
    let request = relayed(Verb::Insert, &arguments, &config, Release::Two).unwrap();
    assert_eq!(crate::tests::listed(&request), Some(&arguments[2..]));
    let reserved = [
        Word(b"key"),
        Word(b"0.01"),
        Word(b"100"),
        Word(b"CAPACITY 5 ERROR 0.2"),
    ];
    assert_eq!(
        asked(Verb::Reserve, &reserved, &config),
        unknown("CAPACITY 5 ERROR 0.2")
    );
}
