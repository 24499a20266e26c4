//! What the server tells others about the commands.

use crate::client::Reply;
use crate::server::Server;

/// Cluster clients would send a command to the wrong node, replicas would refuse questions, and a server short
/// of memory would go on filling itself.
#[test]
fn the_server_knows_keys_and_flags_of_every_command() {
    let server = Server::start();
    let mut client = server.client();
    let all = ["write", "readonly", "denyoom", "fast", "module"];
    for (name, flags) in [
        ("bf.reserve", &["write", "denyoom"][..]),
        ("bf.add", &["write", "denyoom"]),
        ("bf.madd", &["write", "denyoom"]),
        ("bf.insert", &["write", "denyoom"]),
        ("bf.exists", &["readonly", "fast"]),
        ("bf.mexists", &["readonly"]),
        ("bf.info", &["readonly", "fast"]),
        ("bf.card", &["readonly", "fast"]),
    ] {
        let info = client.call(&["COMMAND", "INFO", name]).elements()[0].clone();
        let given: Vec<_> = info.elements()[2].elements().iter().map(Reply::text).collect();
        for flag in all {
            let expected = if flag == "module" {
                // Redis 6.2 marks no commands of modules.
                Server::version().at_least(7, 0)
            } else {
                flags.contains(&flag)
            };
            assert_eq!(
                given.iter().any(|given| given == flag),
                expected,
                "{name} {flag}: {given:?}"
            );
        }
        let keys: Vec<_> = info.elements()[3..6].iter().map(Reply::int).collect();
        assert_eq!(keys, [1, 1, 1], "first, last and step of the keys of {name}");
    }
}
