use super::*;
use crate::call::args::Word;
use crate::call::error::CommandError;
use crate::call::given::Verb;
use crate::call::target::Creation;
use crate::options::values::ConfigOption;
use crate::rivals::redisbloom::Release;
use crate::tests::{
    SEEDS, asked, elsewhere, is_propagated, listed, obeyed, relayed, valkey, words as line_of,
};
use crate::work::propagation;
use libbloom::params::Seed;

/// A replica's filter in valkey-bloom's layout has the bits of its primary's.
#[test]
fn every_filter_of_valkey_bloom_is_replicated_as_it_is() {
    let there = elsewhere();
    let rates = [
        5e-324,
        1e-310,
        1e-300,
        1e-17,
        0.01,
        0.3333333333333333,
        0.9999,
        1.0 - f64::EPSILON / 2.0,
    ];
    let mut tried = 0;
    for (rate, ratio) in rates.iter().zip(rates.iter().rev()) {
        for (capacity, expansion) in [(1, 0), (100, 2), (i64::MAX as u64, u32::MAX), (1 << 41, 32_769)] {
            for (seed, expires) in SEEDS
                .iter()
                .zip([None, Some(1), Some(i64::MAX)].into_iter().cycle())
            {
                let filter = valkey(*rate, capacity, expansion, *ratio, **seed).unwrap();
                let made = Creation { filter, expires };
                is_propagated("key", made, &there);
                is_propagated("ITEMS", made, &there);
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 8 * 4 * 6);
}

/// A valkey-bloom that follows this server understands it, unless the key has an expiry.
#[test]
fn what_valkey_bloom_gets_is_in_its_own_words() {
    let seed = SEEDS[3];
    let said = |rate, expansion, expires| {
        let filter = valkey(rate, 100, expansion, 0.5, *seed).unwrap();
        let said = propagation::command(Creation { filter, expires }.into(), false);
        assert_eq!(said.command, c"BF.INSERT");
        let words = said.list().map(|word| str::from_utf8(word.bytes()).unwrap());
        let words: Vec<_> = words.collect();
        words.join(" ").replace(str::from_utf8(seed).unwrap(), "(seed)")
    };
    assert_eq!(
        said(0.01, 2, None),
        "CAPACITY 100 ERROR 0.01 TIGHTENING 0.5 SEED (seed) EXPANSION 2"
    );
    assert_eq!(
        said(1e-7, 0, None),
        "CAPACITY 100 ERROR 0.0000001 TIGHTENING 0.5 SEED (seed) NONSCALING"
    );
    assert_eq!(
        said(0.9, 7, Some(5)),
        "SPEC1:v:9e-1:100:7:3030303030303030303030303030303030303030303030303030303030303037:5:5e-1"
    );
}

/// A replica makes the filter of valkey-bloom's layout that a client requested.
#[test]
fn what_a_client_makes_in_valkey_bloom_s_layout_is_replicated_as_it_is() {
    let here = Config::new(Seed(7));
    let mut by_option = here.clone();
    by_option.set(ConfigOption::Layout, "valkey").unwrap();
    by_option.set(ConfigOption::ErrorRate, "0.7").unwrap();
    let there = elsewhere();
    let made_of = |line: &str, config: &Config| {
        let reserved = format!("0.9 1000 {line}");
        let inserted = format!("ERROR 0.9 CAPACITY 1000 {line} ITEMS a");
        let packed = format!("ERROR 0.9 CAPACITY 1000 {line} LINES a");
        let key = [Word(b"key")];
        let arguments = |line| [&key[..], &line_of(line)].concat();
        let made = asked(Verb::Reserve, &arguments(&reserved), config).unwrap();
        assert_eq!(
            asked(Verb::Insert, &arguments(&inserted), config),
            Ok(made),
            "{line}"
        );
        assert_eq!(
            asked(Verb::AddPacked, &arguments(&packed), config),
            Ok(made),
            "{line}"
        );
        is_propagated("key", made, &there);
        made
    };
    let numbered = SipSeed::from(Seed(7)).0;
    let usual = valkey(0.9, 1000, 2, 0.5, numbered).unwrap().into();
    for line in [
        "LAYOUT VALKEY",
        "layout valkey Seed 7",
        "VALIDATESCALETO 1000000",
        "TIGHTENING 0.5",
        "TightenING 5e-1 SEED 7 EXPANSION 2",
    ] {
        assert_eq!(made_of(line, &here), usual, "{line}");
    }
    assert_eq!(made_of("EXPANSION 2", &by_option), usual);
    let other = valkey(0.9, 1000, 32_768, 1e-300, SipSeed::from(Seed(u64::MAX)).0).unwrap();
    assert_eq!(
        made_of(
            "TIGHTENING 1e-300 EXPANSION 32768 SEED 18446744073709551615",
            &here
        ),
        other.into()
    );
    let fixed = valkey(0.9, 1000, 0, 0.25, numbered).unwrap();
    for line in [
        "NONSCALING TIGHTENING 0.25",
        "EXPANSION 0 TIGHTENING 0.25 LAYOUT VALKEY",
    ] {
        assert_eq!(made_of(line, &here), fixed.into(), "{line}");
    }
    for seed in SEEDS {
        let arguments = [&b"key"[..], b"0.01", b"100", b"SEED", seed].map(Word);
        let made = asked(Verb::Reserve, &arguments, &here).unwrap();
        assert_eq!(made, valkey(0.01, 100, 2, 0.5, *seed).unwrap().into());
        is_propagated("key", made, &there);
    }
    // Without words the options decide, and the rate is the requested one.
    let default = valkey(0.7, 100, 2, 0.5, numbered).unwrap();
    for line in ["key ITEMS a", "key"] {
        let made = asked(Verb::Insert, &line_of(line), &by_option);
        assert_eq!(made, Ok(default.into()), "{line}");
    }
}

/// Replicas of valkey-bloom and of RedisBloom have the filters of their primaries.
#[test]
fn a_primary_s_words_are_taken_for_those_of_who_may_have_said_them() {
    let config = Config::new(Seed(7));
    let numbered = SipSeed::from(Seed(7)).0;
    let made_of = |line: &str| {
        let arguments = line_of(line);
        let [one, other] = [Release::Two, Release::Eight].map(|release| {
            let items = relayed(Verb::Insert, &arguments, &config, release)?;
            let made = obeyed(Verb::Insert, &arguments, &config, release);
            Ok((listed(&items).map(<[_]>::len), made))
        });
        assert_eq!(one, other, "{line}");
        one
    };
    let seeded =
        |rate, capacity, expansion, ratio| valkey(rate, capacity, expansion, ratio, numbered).unwrap();
    let seed = *b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for (line, items, filter) in [
        ("key", None, seeded(0.01, 100, 2, 0.5)),
        ("key CAPACITY 7", None, seeded(0.01, 7, 2, 0.5)),
        (
            "key capacity 7 CAPACITY +8 Error 0.5",
            None,
            seeded(0.5, 8, 2, 0.5),
        ),
        (
            "key NONSCALING EXPANSION 4294967295",
            None,
            seeded(0.01, 100, u32::MAX, 0.5),
        ),
        (
            "key EXPANSION 7 NONSCALING TIGHTENING .25 ITEMS a",
            Some(1),
            seeded(0.01, 100, 0, 0.25),
        ),
        (
            "key VALIDATESCALETO 9223372036854775807 ITEMS a b",
            Some(2),
            seeded(0.01, 100, 2, 0.5),
        ),
        (
            "key layout Valkey ITEMS ITEMS",
            Some(1),
            seeded(0.01, 100, 2, 0.5),
        ),
        (
            "key CAPACITY 9223372036854775807 SEED aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ITEMS a",
            Some(1),
            valkey(0.01, i64::MAX as u64, 2, 0.5, seed).unwrap(),
        ),
        // RedisBloom reads no plus sign, and no other layout has such an expansion.
        ("key CAPACITY +5 ITEMS a", Some(1), seeded(0.01, 5, 2, 0.5)),
        ("key EXPANSION +5 ITEMS a", Some(1), seeded(0.01, 100, 5, 0.5)),
    ] {
        assert_eq!(made_of(line), Ok((items, Ok(filter.into()))), "{line}");
    }
    for line in [
        "key CAPACITY 7 ITEMS a",
        "key NONSCALING EXPANSION 5 ITEMS a",
        "key I TIGHTENING 0.5",
        "key I LAYOUT VALKEY",
        "key C 7 I ITEMS",
        "key LAYOUT CLASSIC ITEMS a",
    ] {
        let made = made_of(line).unwrap().1;
        assert!(
            matches!(made.map(|made| made.filter), Ok(Spec::Classic(_))),
            "{line}"
        );
    }
    for line in [
        "key LAYOUT BLOCKED SEED 1 ITEMS a",
        "key GROWING ITEMS a",
        "key SEED 1 ITEMS a",
    ] {
        let made = made_of(line).unwrap().1;
        assert!(
            matches!(made.map(|made| made.filter), Ok(Spec::Blocked(_))),
            "{line}"
        );
    }
    let not_found = Err(CommandError::NOT_FOUND);
    assert_eq!(made_of("key NOCREATE"), Ok((None, not_found.clone())));
    assert_eq!(
        made_of("key NOCREATE TIGHTENING 0.5 ITEMS a"),
        Ok((Some(1), not_found))
    );
    for (line, error) in [
        ("key LAYOUT VALKEY ITEMS", CommandError::Arity),
        ("key ERROR 1 TIGHTENING 0.5", CommandError::BAD_INSERT_ERROR_RATE),
        ("key TIGHTENING 1", CommandError::TIGHTENING_RANGE),
        ("key CAPACITY 0 TIGHTENING 0.5", CommandError::BAD_INSERT_CAPACITY),
        (
            "key EXPANSION 4294967296 LAYOUT VALKEY",
            CommandError::BAD_INSERT_EXPANSION,
        ),
        ("key CAPACITY +0 ITEMS a", CommandError::BAD_INSERT_CAPACITY),
        (
            "key TIGHTENING 0.5 PXAT 0",
            CommandError::ExpireTime(c"bf.insert"),
        ),
    ] {
        assert_eq!(made_of(line), Err(error), "{line}");
    }
}
