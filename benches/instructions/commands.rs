//! Instructions per call of commands, counted in a server that runs under callgrind: between the server's call of a
//! command of the module and the return, in the server and its allocator as in the module.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Calls of each command. The fewest instructions are told: others have the server's own growing tables in them, or keys
/// that fall into one place of these.
const CALLS: usize = 15;

/// Makes the filter that commands of an existing key use, with two items.
const FILTER: &str = "BF.INSERT filter ERROR 0.01 CAPACITY 100000 LAYOUT BLOCKED ITEMS x y";

/// Each command's name, the line that comes before its calls, if any, and the line of a call, in which `#` is another
/// number each time.
const COMMANDS: [(&str, &str, &str); 17] = [
    ("BF.ADD, new key", "", "BF.ADD add:# x"),
    ("BF.MADD of 2, new key", "", "BF.MADD madd:# x y"),
    (
        "BF.INSERT, new key",
        "",
        "BF.INSERT insert:# CAPACITY 1000 ITEMS x",
    ),
    ("BF.RESERVE, new key", "", "BF.RESERVE reserve:# 0.01 1000"),
    (
        "BF.RESERVE EX, new key",
        "",
        "BF.RESERVE expiring:# 0.01 1000 EX 10#",
    ),
    (
        "BF.RESERVE LAYOUT CLASSIC, new key",
        "",
        "BF.RESERVE classic:# 0.01 1000 LAYOUT CLASSIC",
    ),
    (
        "BF.RESERVE LAYOUT VALKEY, new key",
        "",
        "BF.RESERVE valkey:# 0.01 1000 LAYOUT VALKEY",
    ),
    (
        "BF.ADD, new key, bf-layout classic",
        "CONFIG SET bf.layout classic",
        "BF.ADD add-classic:# x",
    ),
    (
        "BF.ADD, new key, bf-layout valkey",
        "CONFIG SET bf.layout valkey",
        "BF.ADD add-valkey:# x",
    ),
    ("BF.ADD, new item", FILTER, "BF.ADD filter a:#"),
    ("BF.ADD, again", FILTER, "BF.ADD filter x"),
    ("BF.EXISTS", FILTER, "BF.EXISTS filter x"),
    ("BF.MADD of 2", FILTER, "BF.MADD filter b:# c:#"),
    ("BF.MADD of 2, again", FILTER, "BF.MADD filter x y"),
    ("BF.MEXISTS of 2", FILTER, "BF.MEXISTS filter x y"),
    ("BF.INSERT", FILTER, "BF.INSERT filter ITEMS d:#"),
    ("BF.INSERT, again", FILTER, "BF.INSERT filter ITEMS x"),
];

/// The program of the server.
pub fn server() -> String {
    std::env::var("SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Counts each command, and passes its name and its instructions to `counted`.
pub fn count(mut counted: impl FnMut(&str, u64)) {
    let mut server = Server::start();
    for (name, before, line) in COMMANDS {
        server.run("FLUSHALL SYNC");
        if !before.is_empty() {
            server.run(before);
        }
        let call = |call: usize| line.replace('#', &(100 + call).to_string());
        // The first call may do what is done once, such as sizing a layer.
        server.run(&call(CALLS));
        let counts = (0..CALLS).map(|at| server.run(&call(at)));
        counted(name, counts.min().expect("a call"));
    }
}

/// A server that is ended when this is dropped.
struct Server {
    process: Child,
    connection: TcpStream,
    folder: PathBuf,
}

impl Server {
    fn start() -> Self {
        let program = std::env::current_exe().expect("this program");
        let built = program.parent().expect("its folder");
        let folder = built.join(format!("counts-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the counts");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let function = "*ModuleCommandDispatcher";
        let process = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
            .args([
                format!("--toggle-collect={function}"),
                format!("--dump-after={function}"),
            ])
            .arg(server())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--hz", "1", "--loadmodule"])
            .arg(
                std::env::var_os("BLOOM_TEST_MODULE")
                    .map_or_else(|| built.join("libbloom.so"), PathBuf::from),
            )
            .args(["bf-seed", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("valgrind is needed to count instructions");
        let connection = connect(port);
        Self {
            process,
            connection,
            folder,
        }
    }

    /// Runs a command that must be no error, and gives its instructions.
    fn run(&mut self, line: &str) -> u64 {
        // The count is written before the reply, and the reply is complete when the next one comes.
        let lines = format!("{line}\r\nPING\r\n");
        self.connection.write_all(lines.as_bytes()).expect("a connection");
        let mut reply = Vec::new();
        while !reply.ends_with(b"+PONG\r\n") {
            let mut some = [0; 1024];
            let read = self.connection.read(&mut some).expect("a reply");
            assert!(read > 0, "the server has closed the connection");
            reply.extend_from_slice(&some[..read]);
        }
        assert!(!reply.starts_with(b"-"), "{line}: {}", reply.escape_ascii());
        let files = fs::read_dir(&self.folder).expect("the counts");
        let counts = files.map(|file| take_count(&file.expect("a count").path()));
        counts.sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Connects to a server that is starting.
fn connect(port: u16) -> TcpStream {
    for _ in 0..600 {
        if let Ok(connection) = TcpStream::connect(("127.0.0.1", port)) {
            return connection;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no server has started under valgrind within a minute");
}

/// Reads a file of callgrind, and removes it. The first, which is made at the start, is empty.
fn take_count(file: &Path) -> u64 {
    let text = fs::read_to_string(file).expect("a count");
    fs::remove_file(file).expect("a file to remove");
    let total = text.lines().find_map(|line| line.strip_prefix("summary: "));
    total.map_or(0, |total| total.trim().parse().expect("a number"))
}
