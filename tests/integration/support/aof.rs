//! Rewrites and reads the append-only file of a server.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::client::{Client, Reply};
use crate::server::{Server, Setup, until};

/// A server whose append-only file contains only commands.
pub fn as_commands() -> Setup {
    Server::with().append_only().config("aof-use-rdb-preamble", "no")
}

/// Rewrites the append-only file, and waits until that is done.
pub fn rewrite(client: &mut Client) {
    until("the rewrite begins", || {
        matches!(client.run("BGREWRITEAOF"), Reply::Simple(_))
    });
    until("the rewrite ends", || is_idle(client));
    assert_eq!(client.stat("persistence", "aof_last_bgrewrite_status"), "ok");
}

/// The append-only files' names. A server keeps them in a directory of their own, or has a single one.
pub fn paths(server: &Server) -> Vec<PathBuf> {
    let own = server.dir().join("appendonlydir");
    let dir = if own.exists() {
        own
    } else {
        server.dir().to_owned()
    };
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let is_one = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "aof");
    files.filter(is_one).collect()
}

/// The commands of the module in the append-only file.
pub fn propagated(server: &Server) -> Vec<Vec<String>> {
    let dir = server.dir();
    let files = fs::read_dir(dir.join("appendonlydir"))
        .or_else(|_| fs::read_dir(dir))
        .unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".incr.aof") || name.ends_with("/appendonly.aof")
    });
    assert_eq!(files.len(), 1, "{files:?}");
    let mut stream = BufReader::new(File::open(&files[0]).unwrap());
    let commands = std::iter::from_fn(|| Reply::read(&mut stream).unwrap());
    let words = commands.map(|command| command.elements().iter().map(Reply::text).collect::<Vec<_>>());
    words
        .filter(|command| command[0].to_uppercase().starts_with("BF."))
        .collect()
}

/// Waits until the link is up and the replica has written its first file.
pub fn settled(server: &Server) {
    let mut client = server.client();
    until("the replica has a file", || is_idle(&mut client));
}

/// Whether no child of the server is at work, or about to be. What is scheduled may begin between two questions, so that
/// it is asked for first.
pub fn is_idle(client: &mut Client) -> bool {
    let fields = [
        "aof_rewrite_scheduled",
        "aof_rewrite_in_progress",
        "rdb_bgsave_in_progress",
    ];
    fields
        .into_iter()
        .all(|field| client.stat("persistence", field) == "0")
}

/// A server that finds the commands as its append-only file.
pub fn started_on_commands(commands: &[u8], setup: Setup) -> (Server, TempDir) {
    let dir = TempDir::new().unwrap();
    if Server::version().at_least(7, 0) {
        let files = dir.path().join("appendonlydir");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("appendonly.aof.1.incr.aof"), commands).unwrap();
        let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
        fs::write(files.join("appendonly.aof.manifest"), manifest).unwrap();
    } else {
        fs::write(dir.path().join("appendonly.aof"), commands).unwrap();
    }
    (setup.append_only().dir(dir.path()).start(), dir)
}

/// A directory with an append-only file in it, for another server.
pub fn copied(server: &Server) -> TempDir {
    let copy = TempDir::new().unwrap();
    let files = server.dir().join("appendonlydir");
    fs::create_dir(copy.path().join("appendonlydir")).unwrap();
    for file in fs::read_dir(files).unwrap() {
        let path = file.unwrap().path();
        let to = copy.path().join("appendonlydir").join(path.file_name().unwrap());
        fs::copy(&path, to).unwrap();
    }
    copy
}
