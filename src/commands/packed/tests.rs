use super::super::requests::exists_packed;
use super::super::requests::trying::{add_packed, words};
use super::*;
use crate::options::values::Config;
use libbloom::params::Seed;

/// Users would be told of another mistake than the one that they made; and what is refused must change nothing.
#[test]
fn packed_commands_say_what_is_wrong() {
    let config = Config::new(Seed(7));
    for (line, error) in [
        ("key data", CommandError::OneForm),
        ("key COUNT data", CommandError::OneForm),
        ("key LINES PREFIXED data", CommandError::OneForm),
        ("key WIDTH 1 WIDTH 2 data", CommandError::OneForm),
        ("key WIDTH data", CommandError::NoValue("WIDTH")),
        ("key WIDTH one data", CommandError::BadWidth),
        ("key WIDTH 01 data", CommandError::BadWidth),
        ("key WIDTH 0 data", CommandError::WidthRange),
        ("key WIDTH -1 data", CommandError::WidthRange),
        ("key WIDTH 4294967296 data", CommandError::WidthRange),
        ("key WIDTH 99999999999999999999 data", CommandError::WidthRange),
        ("key LINES COUNT COUNT data", CommandError::Twice("COUNT")),
        ("key LINES ITEMS data", CommandError::Unknown("ITEMS".to_owned())),
        ("key", CommandError::Arity),
    ] {
        let arguments = words(line);
        assert_eq!(
            exists_packed(&arguments).map(|_| ()),
            Err(error.clone()),
            "{line}"
        );
        assert_eq!(add_packed(&arguments, &config).map(|_| ()), Err(error), "{line}");
    }
    for (line, error) in [
        (
            "key WIDTH 3 data",
            "ERR 4 bytes of data are no multiple of WIDTH 3",
        ),
        (
            "key WIDTH 4294967295 data",
            "ERR 4 bytes of data are no multiple of WIDTH 4294967295",
        ),
        (
            "key PREFIXED data",
            "ERR there is no whole item at byte 0 of the data",
        ),
        (
            "key PREFIXED \x01\0\0\0aone",
            "ERR there is no whole item at byte 5 of the data",
        ),
    ] {
        let arguments = words(line);
        assert_eq!(
            exists_packed(&arguments).unwrap_err().to_string(),
            error,
            "{line}"
        );
        assert_eq!(
            add_packed(&arguments, &config).unwrap_err().to_string(),
            error,
            "{line}"
        );
    }
    for option in ["CAPACITY", "ERROR", "EXPANSION", "SEED", "LAYOUT"] {
        let line = format!("key LINES {option} data");
        let no_value = add_packed(&words(&line), &config).map(|_| ());
        assert_eq!(no_value, Err(CommandError::NoValue(option)), "{line}");
    }
    let arguments = words("key GROWING lines NonScaling data");
    let excluded = add_packed(&arguments, &config).map(|_| ());
    assert_eq!(excluded, Err(CommandError::Exclusive("NONSCALING", "GROWING")));
    let arguments = words("key count NOCREATE width 2 CAPACITY 7 data");
    let (items, creation) = add_packed(&arguments, &config).unwrap();
    assert_eq!((items.count(), creation), (2, Err(CommandError::NotFound)));
}
