//! The options: as load arguments, and by CONFIG where the server has configurations of modules.

use crate::client::{Client, Reply, array, error, ok};
use crate::server::{Server, skip};

/// The options with their defaults, but for the seed.
const DEFAULTS: [(&str, &str); 6] = [
    ("error-rate", "0.01"),
    ("initial-size", "100"),
    ("expansion-factor", "2"),
    ("layout", "blocked"),
    ("max-filter-bytes", "0"),
    ("missing-key", "empty"),
];

/// Rate, capacity and expansion of a filter that is made by default.
fn made_by_default(client: &mut Client) -> (f64, i64, Reply) {
    client.run("DEL new");
    client.run("BF.ADD new item");
    let info = client.run("BF.INFO new FULL");
    (
        info.field("Error rate").number(),
        info.field("Capacity").int(),
        info.field("Expansion rate"),
    )
}

fn layout(client: &mut Client, key: &str) -> String {
    client.call(&["BF.INFO", key, "FULL"]).field("Layout").text()
}

fn seed(server: &Server, key: &str) -> String {
    let mut client = server.client();
    client.call(&["BF.ADD", key, "item"]);
    client.call(&["BF.INFO", key, "FULL"]).field("Seed").text()
}

fn get(client: &mut Client, name: &str) -> String {
    let reply = client.call(&["CONFIG", "GET", &Server::option(name)]);
    assert_eq!(reply.elements().len(), 2, "{name}: {reply:?}");
    reply.elements()[1].text()
}

/// A configuration file that works with other modules of this kind would be refused, or ignored.
#[test]
fn load_arguments_in_every_form_decide_what_a_new_filter_is() {
    for (line, rate, capacity, expansion) in [
        ("", 0.01, 100, 2.into()),
        ("''", 0.01, 100, 2.into()),
        ("ERROR_RATE 0.02 INITIAL_SIZE 200", 0.02, 200, 2.into()),
        ("error_rate 0.02 initial_size 200", 0.02, 200, 2.into()),
        ("bf.error-rate 0.02 EXPANSION 4", 0.02, 100, 4.into()),
        (
            "bf-error-rate 0.02 bf-initial-size 200 bf-expansion-factor 4",
            0.02,
            200,
            4.into(),
        ),
        ("BF-EXPANSION-FACTOR 1 Bf-Initial-Size 1", 0.01, 1, 1.into()),
        ("bf-expansion-factor 0", 0.01, 100, Reply::Null),
        ("bf-error-rate 0.5", 0.25, 100, 2.into()),
        ("bf-layout CLASSIC bf-error-rate 0.03", 0.03, 100, 2.into()),
        (
            "bf-layout blocked bf-max-filter-bytes 1000000 bf-seed 3",
            0.01,
            100,
            2.into(),
        ),
    ] {
        let server = Server::with().module_args(line).start();
        let made = made_by_default(&mut server.client());
        assert_eq!(made, (rate, capacity, expansion), "{line}");
        let is_classic = line.contains("layout CLASSIC");
        let layout = layout(&mut server.client(), "new");
        assert_eq!(layout, if is_classic { "classic" } else { "blocked" }, "{line}");
    }
}

/// Who has RedisBloom's arguments in the configuration could not start the server with this module, or would not learn
/// which of them are of no use.
#[test]
fn load_arguments_of_other_filters_are_named_and_ignored() {
    let line = "CF_MAX_EXPANSIONS 16 ERROR_RATE 0.02 cf-Bucket-size 4 INITIAL_SIZE 200 cf_initial_size many";
    let server = Server::with().module_args(line).start();
    assert_eq!(made_by_default(&mut server.client()), (0.02, 200, 2.into()));
    for ignored in [
        "'CF_MAX_EXPANSIONS' '16'",
        "'cf-Bucket-size' '4'",
        "'cf_initial_size' 'many'",
    ] {
        let line = format!("load argument {ignored} is ignored");
        assert_eq!(server.log().matches(&line).count(), 1, "{}", server.log());
    }
}

/// The module could only be tried out by restarting a server in use.
#[test]
fn loads_into_a_running_server() {
    let server = Server::with().without_module().start();
    let mut client = server.client();
    let path = Server::module().to_str().unwrap();
    assert_eq!(
        client.call(&["MODULE", "LOAD", path, "INITIAL_SIZE", "200"]),
        ok()
    );
    assert_eq!(made_by_default(&mut client), (0.01, 200, 2.into()));
    // Valkey 9 lists a module of its own beside it.
    let modules = client.run("MODULE LIST");
    let names = modules
        .elements()
        .iter()
        .map(|module| module.field("name").text());
    assert_eq!(names.filter(|name| name == "bf").count(), 1, "{modules:?}");
    assert!(server.is_alive());
}

/// A typing error in the configuration would leave a server running with another one.
#[test]
fn bad_load_arguments_stop_the_start_and_say_why() {
    for (line, words) in [
        ("bf-error-rate 0", "must be in the range"),
        ("bf-error-rate 1", "must be in the range"),
        ("ERROR_RATE 1.5", "must be in the range"),
        ("bf-initial-size 0", "must be in the range"),
        ("INITIAL_SIZE 1099511627777", "must be in the range"),
        ("bf-expansion-factor 32769", "must be in the range"),
        ("bf-expansion-factor -1", "must be in the range"),
        ("bf-layout round", "layout must be blocked, classic or valkey"),
        ("bf-missing-key none", "missing-key must be empty or error"),
        ("bf-no-such-option 1", "unknown load argument 'bf-no-such-option'"),
        ("0.02 100", "unknown load argument '0.02'"),
        ("bf-error-rate", "'bf-error-rate' has no value"),
        ("CF_MAX_EXPANSIONS", "'CF_MAX_EXPANSIONS' has no value"),
        ("cf-buckets 4", "unknown load argument 'cf-buckets'"),
        (
            "bf-error-rate many",
            "error-rate must be a number in the range (0, 1)",
        ),
        (
            "bf-error-rate 1e-400",
            "load argument 'bf-error-rate': error-rate must be in the range (0, 1)",
        ),
        (
            "bf-initial-size 1e3",
            "initial-size must be a whole number in the range [1, 1099511627776]",
        ),
        (
            "bf-seed never",
            "seed must be random, or a whole number in the range [0, 18446744073709551615]",
        ),
        (
            "bf-error-rate 0.02 bf-seed 1 ERROR_RATE 0.02",
            "load argument 'ERROR_RATE': error-rate was given twice",
        ),
        (
            "bf-seed random bf-seed 1",
            "load argument 'bf-seed': seed was given twice",
        ),
        (
            "bf-seed 18446744073709551616",
            "seed must be in the range [0, 18446744073709551615]",
        ),
    ] {
        let log = Server::with().module_args(line).try_start().err();
        let log = log.unwrap_or_else(|| panic!("the server starts with {line}"));
        assert!(log.contains(words), "{line}: {log}");
    }
}

/// The people who run the server could not see what it does.
#[test]
fn config_get_shows_defaults_and_load_arguments() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let server = Server::start();
    let mut client = server.client();
    for (name, default) in DEFAULTS {
        assert_eq!(get(&mut client, name), default, "{name}");
    }
    let drawn = format!("random:{}", seed(&server, "key"));
    assert_eq!(get(&mut client, "seed"), drawn);

    let server = Server::with()
        .module_args("ERROR_RATE 0.02 bf-initial-size 200 bf-seed 7")
        .start();
    let mut client = server.client();
    for (name, value) in [
        ("error-rate", "0.02"),
        ("initial-size", "200"),
        ("seed", "7"),
        ("expansion-factor", "2"),
    ] {
        assert_eq!(get(&mut client, name), value, "{name}");
    }
}

/// A setting could only be changed by a restart, or would be lost by the next one.
#[test]
fn config_set_works_at_once_and_config_rewrite_keeps_it() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let mut server = Server::start();
    let mut client = server.client();
    client.run("BF.ADD old item");
    let old = client.dump("old");
    let values = [
        ("error-rate", "0.125"),
        ("initial-size", "1099511627776"),
        ("initial-size", "300"),
        ("expansion-factor", "5"),
        ("seed", "18446744073709551615"),
        ("seed", "9"),
        ("layout", "classic"),
        ("layout", "valkey"),
        ("layout", "blocked"),
        ("max-filter-bytes", "5000"),
        ("missing-key", "error"),
        ("missing-key", "empty"),
    ];
    for (name, value) in values {
        client.answers(&[(&format!("CONFIG SET {} {value}", Server::option(name)), ok())]);
        assert_eq!(get(&mut client, name), value, "{name}");
        if name == "layout" {
            client.answers(&[(&format!("BF.ADD {value} item"), 1.into())]);
            assert_eq!(layout(&mut client, value), value);
        }
    }
    assert_eq!(made_by_default(&mut client), (0.125, 300, 5.into()));
    assert_eq!(
        client.dump("old"),
        old,
        "a filter in use keeps what it was made with"
    );
    let made = client.dump("new");
    let kept = values.map(|(name, _)| get(&mut client, name));
    client.answers(&[("CONFIG REWRITE", ok())]);
    server.restart();
    let mut client = server.client();
    assert_eq!(made_by_default(&mut client), (0.125, 300, 5.into()));
    assert_eq!(client.dump("new"), made);
    assert_eq!(values.map(|(name, _)| get(&mut client, name)), kept);
}

/// A bad value would be taken, and the next filter be made with it.
#[test]
fn config_set_refuses_what_is_out_of_range() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let server = Server::start();
    let mut client = server.client();
    for (name, bad, range) in [
        ("error-rate", "0", "in the range (0, 1)"),
        ("error-rate", "1", "in the range (0, 1)"),
        ("error-rate", "nan", "in the range (0, 1)"),
        ("error-rate", "1e-400", "in the range (0, 1)"),
        ("error-rate", "many", "a number in the range (0, 1)"),
        ("initial-size", "0", "in the range [1, 1099511627776]"),
        ("initial-size", "1099511627777", "in the range [1, 1099511627776]"),
        (
            "initial-size",
            "9223372036854775808",
            "in the range [1, 1099511627776]",
        ),
        (
            "initial-size",
            "1e3",
            "a whole number in the range [1, 1099511627776]",
        ),
        ("expansion-factor", "-1", "in the range [0, 32768]"),
        ("expansion-factor", "32769", "in the range [0, 32768]"),
        ("seed", "-1", "in the range [0, 18446744073709551615]"),
        (
            "seed",
            "18446744073709551616",
            "in the range [0, 18446744073709551615]",
        ),
        (
            "seed",
            "1e3",
            "random, or a whole number in the range [0, 18446744073709551615]",
        ),
        ("layout", "round", "blocked, classic or valkey"),
        ("missing-key", "1", "empty or error"),
        ("max-filter-bytes", "-1", "in the range [0, 9223372036854775807]"),
    ] {
        let before = get(&mut client, name);
        let option = Server::option(name);
        let text = format!(
            "ERR CONFIG SET failed (possibly related to argument '{option}') - {name} must be {range}"
        );
        assert_eq!(client.call(&["CONFIG", "SET", &option, bad]), error(&text));
        assert_eq!(get(&mut client, name), before, "{name} {bad}");
    }
}

/// An operator would look for the mistake in every line of the file, or take the server's start for a fault of the
/// module.
#[test]
fn a_bad_value_in_the_file_is_named_with_its_reason() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    for (name, value, why) in [
        ("error-rate", "2", "error-rate must be in the range (0, 1)"),
        (
            "expansion-factor",
            "two",
            "expansion-factor must be a whole number in the range [0, 32768]",
        ),
    ] {
        let option = Server::option(name);
        let log = Server::with().config(&option, value).try_start().err();
        let log = log.unwrap_or_else(|| panic!("the server starts with {option} {value}"));
        let line = format!("the module for Bloom filters is not loaded: option {option} '{value}': {why}\n");
        assert_eq!(log.matches(&line).count(), 1, "{log}");
    }
}

/// Who asks for a rate that filters cannot have would not learn which they get; or find the same line in the log again
/// and again, and look for what it means.
#[test]
fn a_rate_that_is_used_as_another_is_logged_once() {
    let logged = |server: &Server| -> Vec<String> {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("is used as"));
        // Before it stand the time and the name of whoever says it.
        lines
            .map(|line| line[line.rfind("> ").unwrap() + 2..].to_owned())
            .collect()
    };
    // (as it is given, what is said of it)
    let rates = [
        ("0.5", Some("error-rate 0.5 is used as 0.25")),
        ("0.2500001", Some("error-rate 0.2500001 is used as 0.25")),
        ("0.25", None),
        ("1e-30", None),
        ("9e-31", Some("error-rate 9e-31 is used as 1e-30")),
        ("1e-40", Some("error-rate 1e-40 is used as 1e-30")),
        ("1e-320", Some("error-rate 1e-320 is used as 1e-30")),
    ];
    let has_options = Server::version().at_least(7, 0);
    for (rate, line) in rates {
        let expected: Vec<_> = line.into_iter().map(str::to_owned).collect();
        let server = Server::with()
            .module_args(&format!("bf-error-rate {rate}"))
            .start();
        assert_eq!(logged(&server), expected, "as a load argument");
        // A filter of that rate says nothing more: the option did.
        server.client().answers(&[("BF.ADD key item", 1.into())]);
        assert_eq!(logged(&server), expected, "{rate}: after a filter");
        if !has_options {
            continue;
        }
        let option = Server::option("error-rate");
        let in_file = Server::with().config(&option, rate).start();
        assert_eq!(logged(&in_file), expected, "in the configuration file");
        let later = Server::start();
        let mut client = later.client();
        let set = format!("CONFIG SET {option} {rate}");
        client.answers(&[(&set, ok())]);
        assert_eq!(logged(&later), expected, "by CONFIG SET");
        assert_eq!(get(&mut client, "error-rate"), rate);
        // Setting the same value again is no change; nor is an option that has nothing to do with it.
        client.answers(&[
            (&set, ok()),
            (
                &format!("CONFIG SET {} 300", Server::option("initial-size")),
                ok(),
            ),
        ]);
        assert_eq!(logged(&later), expected, "{rate} twice");
    }
}

/// Who fears that the seed is known could not get another one without a restart.
#[test]
fn a_new_seed_can_be_drawn_at_any_time() {
    let server = Server::with().module_args("bf-seed random").start();
    let other = Server::with().module_args("bf-seed random:5").start();
    assert_ne!(seed(&server, "key"), seed(&other, "key"));
    assert_ne!(seed(&other, "key"), "5", "what an earlier run drew is no choice");
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules: only load arguments were tried");
    }
    let mut client = server.client();
    let option = Server::option("seed");
    let draw = format!("CONFIG SET {option} random");
    let mut seen = vec![get(&mut client, "seed")];
    for key in ["one", "two"] {
        client.answers(&[(&draw, ok())]);
        let shown = get(&mut client, "seed");
        assert!(!seen.contains(&shown), "{shown} again: {seen:?}");
        assert_eq!(shown, format!("random:{}", seed(&server, key)));
        seen.push(shown);
    }
    // A change that is taken back takes back this one too.
    let rate = Server::option("error-rate");
    let both = client.run(&format!("CONFIG SET {option} 7 {rate} 7"));
    assert!(matches!(both, Reply::Error(_)), "{both:?}");
    assert_eq!(get(&mut client, "seed"), seen[2]);
    assert_eq!(format!("random:{}", seed(&server, "three")), seen[2]);
    client.answers(&[(&format!("CONFIG SET {option} 7"), ok())]);
    assert_eq!(get(&mut client, "seed"), "7");
    assert_eq!(seed(&server, "four"), "7");
}

/// CONFIG REWRITE would fix for ever what was drawn for a run, and publish it with the file.
#[test]
fn a_random_seed_stays_random_in_a_file() {
    if !Server::version().at_least(7, 0) {
        skip!("this server has no configurations of modules");
    }
    let option = Server::option("seed");
    let mut server = Server::with().config(&option, 5).start();
    assert_eq!(seed(&server, "chosen"), "5");
    let mut client = server.client();
    client.answers(&[
        (&format!("CONFIG SET {option} random"), ok()),
        ("CONFIG REWRITE", ok()),
    ]);
    let before = get(&mut client, "seed");
    for _ in 0..2 {
        server.restart();
        let mut client = server.client();
        let after = get(&mut client, "seed");
        assert!(
            after.starts_with("random:") && after != before,
            "{before} {after}"
        );
        assert_eq!(format!("random:{}", seed(&server, "drawn")), after);
        client.answers(&[("DEL drawn", 1.into()), ("CONFIG REWRITE", ok())]);
    }
    // A drawn seed can be kept: its number can be set as a chosen seed.
    let drawn = get(&mut server.client(), "seed")["random:".len()..].to_owned();
    server.client().answers(&[
        (&format!("CONFIG SET {option} {drawn}"), ok()),
        ("CONFIG REWRITE", ok()),
    ]);
    server.restart();
    assert_eq!(get(&mut server.client(), "seed"), drawn);
}

/// A chosen seed would not make equal filters on two servers, or all servers would share a known one.
#[test]
fn the_seed_is_random_unless_it_is_chosen() {
    let (one, other) = (Server::start(), Server::start());
    assert_ne!(seed(&one, "key"), seed(&other, "key"));
    assert_eq!(seed(&one, "key"), seed(&one, "another"));
    let chosen = Server::with().module_args("bf-seed 12345").start();
    assert_eq!(seed(&chosen, "key"), "12345");
    let mut client = chosen.client();
    // What is made of the seed is not held by each filter.
    let memory = "MEMORY USAGE key";
    assert_eq!(client.run(memory), one.client().run(memory));
    client.answers(&[
        ("BF.INSERT own SEED 6 ITEMS item", array([1])),
        ("BF.RESERVE reserved 0.01 100", ok()),
    ]);
    assert_eq!(client.run("BF.INFO own FULL").field("Seed").text(), "6");
    assert_eq!(client.run("BF.INFO reserved FULL").field("Seed").text(), "12345");
}
