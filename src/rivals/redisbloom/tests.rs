use serde_json::{Value as Json, json};

use super::*;
use crate::call::args::Word;
use crate::call::error::CommandError;
use crate::call::given::Verb;
use crate::call::target::Creation;
use crate::commands::debug;
use crate::options::values::ConfigOption;
use crate::tests::{NOW, elsewhere, is_propagated, is_propagated_with_items, listed, obeyed, relayed, words};
use libbloom::params::Seed;
use libbloom::{Filter, UNLIMITED};

/// What each version of RedisBloom made of a command, as `tests/fixtures/redisbloom/record.py` recorded it.
fn recorded() -> Vec<(String, Release, String, Json)> {
    let json = include_str!("../../../tests/fixtures/redisbloom/grammar.json");
    let json: Json = serde_json::from_str(json).unwrap();
    let versions = json.as_object().unwrap();
    assert_eq!(versions.keys().collect::<Vec<_>>(), ["2.6.28", "2.8.20", "8"]);
    let cases = versions.iter().flat_map(|(version, made)| {
        let release = if version == "8" {
            Release::Eight
        } else {
            Release::Two
        };
        let made = made.as_object().unwrap().iter();
        made.map(move |(line, made)| (version.clone(), release, line.clone(), made.clone()))
    });
    cases.collect()
}

/// The stored form of a filter with these items, in the form of the recording.
fn described(creation: Creation, items: Option<&[Word<'_>]>) -> Json {
    let Spec::Classic(spec) = creation.filter else {
        panic!("not RedisBloom's: {creation:?}")
    };
    let mut filter = Filter::new(creation.filter, UNLIMITED).unwrap();
    let items = items.unwrap_or_default().iter().map(|item| item.0);
    filter.add_all(items, 0, UNLIMITED, |_| ()).unwrap();
    let layers = filter.layer_stats().map(|layer| debug::line(&layer));
    let lines: Vec<_> = std::iter::once(format!("size:{}", filter.items()))
        .chain(layers)
        .collect();
    let options = if spec.rules().scales() { 5 } else { 13 };
    json!({"options": options, "expansion": spec.rules().expansion(), "debug": lines})
}

/// Items that look like this module's words do not change what a command of RedisBloom makes.
#[test]
fn items_are_no_options() {
    let config = Config::new(Seed(7));
    for line in [
        "LAYOUT ERROR 0.1 ITEMS LAYOUT BLOCKED",
        "BLOCKED i LAYOUT BLOCKED SEED 1",
        "key ITEMS x ITEMS LAYOUT BLOCKED",
    ] {
        let made = obeyed(Verb::Insert, &words(line), &config, Release::Two).unwrap();
        assert!(matches!(made.filter, Spec::Classic(_)), "{line}");
    }
}

/// The command of this name, if it can create a filter by its words.
fn verb(command: &str) -> Option<Verb> {
    match command {
        "BF.RESERVE" => Some(Verb::Reserve),
        "BF.INSERT" => Some(Verb::Insert),
        _ => None,
    }
}

/// A replica of RedisBloom, and a server that is started on its file, have its filters.
#[test]
fn what_redisbloom_made_of_a_command_is_made_of_it_here() {
    let config = Config::new(Seed(7));
    let mut made_of = 0;
    for (version, release, line, made) in recorded() {
        let (command, rest) = line.split_once(' ').unwrap();
        let Some(verb) = verb(command) else { continue };
        let arguments = words(rest);
        let request = relayed(verb, &arguments, &config, release);
        let creation = obeyed(verb, &arguments, &config, release);
        if made.get("error").is_none() {
            made_of += 1;
            let items = listed(&request.unwrap());
            assert_eq!(described(creation.unwrap(), items), made, "{version}: {line}");
        } else if made["error"] == "ERR not found" {
            assert_eq!(creation, Err(CommandError::NOT_FOUND), "{version}: {line}");
        }
    }
    assert_eq!(made_of, 196, "the recording is another one");
}

/// A replica does not mistake an unknown word for one of this module's.
#[test]
fn only_the_whole_word_is_layout() {
    let config = Config::new(Seed(7));
    for word in ["LAYOU", "LAYOUTS", "L"] {
        let line = format!("key {word} CLASSIC ITEMS a");
        let made = obeyed(Verb::Insert, &words(&line), &config, Release::Two);
        assert_eq!(made, Err(CommandError::unknown(word.as_bytes())));
    }
}

/// A client of RedisBloom that moves here gets the filters of RedisBloom's layout that it had.
#[test]
fn what_a_client_may_say_here_means_the_same_there() {
    let mut config = Config::new(Seed(7));
    config.set(ConfigOption::Layout, "classic").unwrap();
    let (mut same, mut refused) = (0, Vec::new());
    for (version, _, line, made) in recorded() {
        let (command, rest) = line.split_once(' ').unwrap();
        let Some(verb) = verb(command) else { continue };
        let arguments = words(rest);
        let request = Request::parse(verb, &arguments);
        let asked = request.map(|request| (listed(&request), request.given.creation(&config, || NOW)));
        // A key named like an option, an option whose letters mean another one there, or a rate too low to be told
        // from lower ones: see the documentation.
        let is_other = rest.contains(" EX ")
            || rest.to_uppercase().starts_with("NONSCALING 0")
            || rest.contains("e-40")
            || rest.contains("e-324");
        if version != "8" || is_other {
            continue;
        }
        match (asked, made.get("error")) {
            (Ok((items, Ok(creation))), None) => {
                same += 1;
                assert_eq!(described(creation, items), made, "{line}");
            }
            (_, None) => refused.push(line),
            (_, Some(_)) => {}
        }
    }
    assert_eq!(same, 27);
    // All of these are typing errors.
    let mistakes = [
        "BF.INSERT key CAP 77 ITEMS a",
        "BF.INSERT key CAPACITY 77 CAPACITY 78 ITEMS a",
        "BF.INSERT key CREATE 77 ITEMS a",
        "BF.INSERT key E 3 ITEMS a",
        "BF.INSERT key EQUAL 3 ITEMS a",
        "BF.INSERT key ERR 0.001 ITEMS a",
        "BF.INSERT key ERROR 0.001 ERROR 0.002 ITEMS a",
        "BF.INSERT key EXPANSION 0 EXPANSION 4 ITEMS a",
        "BF.INSERT key EXPANSION 3 EXPANSION 4 ITEMS a",
        "BF.INSERT key EXPANSION 4 EXPANSION 0 ITEMS a",
        "BF.INSERT key I a",
        "BF.INSERT key ITEM a",
        "BF.INSERT key Indeed a ITEMS",
        "BF.INSERT key N CAP 5 ER 0.1 E 7 I I N",
        "BF.INSERT key NO ITEMS a",
        "BF.INSERT key NONSENSE ITEMS a",
        "BF.INSERT key NOSCALE ITEMS a",
        "BF.INSERT key c 77 ITEMS a",
        "BF.INSERT key er 0.001 ITEMS a",
        "BF.RESERVE key 0.01 100 CAPACITY 7",
        "BF.RESERVE key 0.01 100 EXP 3",
        "BF.RESERVE key 0.01 100 EXPANSION 3 EXPANSION",
        "BF.RESERVE key 0.01 100 EXPANSION 3 X",
        "BF.RESERVE key 0.01 100 EXPANSIONS 3",
        "BF.RESERVE key 0.01 100 NONSCALE",
        "BF.RESERVE key 0.01 100 NONSCALING NONSCALING NONSCALING",
        "BF.RESERVE key 0.01 100 SCALING",
        "BF.RESERVE key 0.01 100 X",
        "BF.RESERVE key 0.01 100 X EXPANSION 3",
        "BF.RESERVE key 0.01 100 X Y Z",
    ];
    assert_eq!(refused, mistakes);
}

/// A replica writes RedisBloom's commands into its own file, and a server that reads it under other options has the same
/// filters.
#[test]
fn what_redisbloom_takes_is_written_so_that_it_means_the_same_again() {
    let here = Config::new(Seed(7));
    for release in [Release::Two, Release::Eight] {
        for (verb, line) in [
            (Verb::Insert, "key ITEMS a"),
            (Verb::Insert, "key C 7 ITEMS a"),
            (Verb::Insert, "key ER 0.9 ITEMS a"),
            (Verb::Insert, "key ERR 1e-40 N ITEMS a"),
            (Verb::Insert, "key E 40000 ITEMS a"),
            (Verb::Insert, "key E 4294967296 ITEMS a"),
            (Verb::Insert, "key E 4294967296 N ITEMS a"),
            (Verb::Insert, "key EXP 0 ITEMS a"),
            (Verb::Insert, "key EX 0 NONS ITEMS a"),
            (Verb::Insert, "key NO CAP 9223372036854775807 EXP 5 ITEMS a"),
            (Verb::Insert, "key ER 0.26 E 65536 CAP 3 ITEMS a"),
            (Verb::Reserve, "key 0.9 5"),
            (Verb::Reserve, "key 1e-40 9223372036854775807 EXP 3"),
            (Verb::Reserve, "key 0.5 7 X EXPANSION 4294967296"),
            (Verb::Reserve, "key 0.4 1 NONSCALING"),
        ] {
            let made = obeyed(verb, &words(line), &here, release).unwrap();
            match verb {
                Verb::Reserve => is_propagated("key", made, &elsewhere()),
                _ => is_propagated_with_items("key", made, &elsewhere()),
            }
        }
    }
}
