use super::*;
use crate::commands::intersect::parse as intersect;
use crate::commands::merge::MergeRequest;
use crate::tests::words;
use libbloom::params::ErrorRate;

/// No other keys are read or written: a misread number turns an option into a key, or a key into an option.
#[test]
fn sources_are_as_many_as_their_number_says() {
    for (line, keys, rate, overrides) in [
        ("to 1 a", "to a", None, false),
        ("to 2 a to", "to a to", None, false),
        ("to 3 a a ERROR", "to a a ERROR", None, false),
        ("1 1 1", "1 1", None, false),
        ("to 1 OVERRIDE override", "to OVERRIDE", None, true),
        ("to 1 a error 0.001", "to a", Some(0.001), false),
        ("to 1 a ERROR 0.9 OverRide", "to a", Some(0.25), true),
        ("to 1 a OVERRIDE ERROR 1e-300", "to a", Some(1e-30), true),
    ] {
        let arguments = words(line);
        let request = MergeRequest::parse(&arguments).unwrap();
        let combination = request.keys;
        let named: Vec<_> = combination
            .positions()
            .map(|place| arguments[place - 1].0)
            .collect();
        let keys: Vec<_> = words(keys).iter().map(|word| word.0).collect();
        assert_eq!(named, keys, "{line}");
        let read: Vec<_> = std::iter::once(&combination.destination)
            .chain(combination.sources)
            .map(|word| word.0)
            .collect();
        assert_eq!(read, keys, "{line}");
        assert_eq!(
            (request.used_rate().map(ErrorRate::value), request.overrides),
            (rate, overrides),
            "{line}"
        );
        if rate.is_none() && !overrides {
            let same = intersect(&arguments).unwrap();
            assert!(same.positions().eq(combination.positions()), "{line}");
        }
    }
}

/// A user learns where the mistake is, and a huge number costs no memory.
#[test]
fn numbers_of_sources_and_words_that_are_wrong_are_named() {
    let range = CommandError::NUMKEYS_RANGE;
    let (few, bad) = (CommandError::FEWER_SOURCES, CommandError::Bad("numkeys"));
    for (line, error) in [
        ("to", CommandError::Arity),
        ("to 0 a", range.clone()),
        ("to -1 a", range.clone()),
        ("to -9223372036854775809 a", range.clone()),
        ("to -99999999999999999999999999999999999999999 a", range),
        ("to x a", bad.clone()),
        ("to 1.0 a", bad.clone()),
        ("to 01 a", bad.clone()),
        ("to +1 a", bad.clone()),
        ("to -0 a", bad.clone()),
        ("to  a", bad),
        ("to 1", few.clone()),
        ("to 2 a", few.clone()),
        ("to 2147483647 a", few.clone()),
        ("to 4294967297 a", few.clone()),
        ("to 9223372036854775807 a b", few.clone()),
        ("to 18446744073709551617 a", few.clone()),
        ("to 340282366920938463463374607431768211457 a", few),
        ("to 1 a b", CommandError::Unknown("b".to_owned())),
        ("to 1 a ", CommandError::Unknown("''".to_owned())),
    ] {
        let arguments = words(line);
        assert_eq!(
            MergeRequest::parse(&arguments).map(|_| ()),
            Err(error.clone()),
            "{line}"
        );
        assert_eq!(intersect(&arguments).map(|_| ()), Err(error), "{line}");
    }
    let unknown = |word: &str| CommandError::Unknown(word.to_owned());
    for (line, error) in [
        ("to 1 a ERROR", CommandError::NoValue("ERROR")),
        ("to 1 a ERROR low", CommandError::BAD_INSERT_ERROR_RATE),
        ("to 1 a ERROR 0", CommandError::BAD_INSERT_ERROR_RATE),
        ("to 1 a ERROR 1", CommandError::BAD_INSERT_ERROR_RATE),
        ("to 1 a ERROR 1e-400", CommandError::BAD_INSERT_ERROR_RATE),
        ("to 1 a ERROR nan", CommandError::BAD_INSERT_ERROR_RATE),
        ("to 1 a ERROR OVERRIDE", CommandError::BAD_INSERT_ERROR_RATE),
        ("to 1 a ERROR 0.1 ERROR 0.1", CommandError::Twice("ERROR")),
        ("to 1 a OVERRIDE OVERRIDE", CommandError::Twice("OVERRIDE")),
        ("to 1 a OVERRIDE b", unknown("b")),
        ("to 1 a CAPACITY 10", unknown("CAPACITY")),
    ] {
        assert_eq!(
            MergeRequest::parse(&words(line)).map(|_| ()),
            Err(error),
            "{line}"
        );
    }
    for line in ["to 1 a ERROR 0.1", "to 1 a OVERRIDE"] {
        let word = line.split(' ').nth(3).unwrap();
        assert_eq!(intersect(&words(line)).map(|_| ()), Err(unknown(word)), "{line}");
    }
}
