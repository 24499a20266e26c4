//! A real server for each test, on a free port of the loopback interface and in a directory of its own. It is stopped
//! when the value is dropped, also when the test panics.
//!
//! `BLOOM_TEST_SERVER` names another server to run (`valkey-server`), `BLOOM_TEST_MODULE` a module to load
//! instead of the one that is built here. `BLOOM_TEST_OTHER_SERVER` and `BLOOM_TEST_OTHER_MODULE` are those of another
//! machine, of the same version, which filters are moved to ([`Server::elsewhere`]). `BLOOM_TEST_SANITIZER` says that
//! both are built with sanitizers: then a server is asked to end and given time for a last look at what it never
//! freed, and a report of a sanitizer fails the test that the server was for. `BLOOM_TEST_EMULATOR` says that both run in
//! an emulator of their processor.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, words};

/// How often a new port is tried if another process took the first.
pub const PORTS: usize = 10;

/// How long an event may take before a test gives up. Nothing is measured with it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much longer everything takes in a sanitizer or in an emulator.
const SLOWNESS: u32 = 4;

/// The beginnings of a sanitizer's reports in a server's log. The last is of a run that could not look for leaks.
const REPORTS: [&str; 5] = [
    "ERROR: AddressSanitizer:",
    ": runtime error: ",
    "WARNING: ThreadSanitizer:",
    "ERROR: LeakSanitizer:",
    "LeakSanitizer has encountered a fatal error",
];

/// Skips a test that this server cannot run, and prints why.
macro_rules! skip {
    ($($why:tt)*) => {{
        eprintln!("skipped: {}", format_args!($($why)*));
        return;
    }};
}
pub(crate) use skip;

/// The server program.
static PROGRAM: LazyLock<OsString> =
    LazyLock::new(|| std::env::var_os("BLOOM_TEST_SERVER").unwrap_or_else(|| "redis-server".into()));

/// The module. `cargo test` leaves none that a server could load, so it is built once per process.
static MODULE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::var_os("BLOOM_TEST_MODULE").map_or_else(build, |path| {
        fs::canonicalize(&path).unwrap_or_else(|why| panic!("BLOOM_TEST_MODULE {}: {why}", path.display()))
    })
});

/// The server program and the module of another machine; without one, those of this one.
static OTHER: LazyLock<(OsString, PathBuf)> = LazyLock::new(|| {
    let program = std::env::var_os("BLOOM_TEST_OTHER_SERVER").unwrap_or_else(|| PROGRAM.clone());
    let module = std::env::var_os("BLOOM_TEST_OTHER_MODULE").map_or_else(|| MODULE.clone(), PathBuf::from);
    (program, module)
});

/// The sanitizer that the server and the module are built with.
static SANITIZER: LazyLock<Option<OsString>> = LazyLock::new(|| std::env::var_os("BLOOM_TEST_SANITIZER"));

/// Whether the processes of servers are those of an emulator.
static IS_EMULATED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("BLOOM_TEST_EMULATOR").is_some());

/// The server's version as it prints it: `Redis server v=7.0.15 …`, `Valkey server v=8.0.1 …`.
static VERSION: LazyLock<Version> = LazyLock::new(|| {
    let output = Command::new(&*PROGRAM).arg("--version").output();
    let output = output.unwrap_or_else(|why| panic!("{}: {why}", PROGRAM.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text
        .split_once("v=")
        .map(|(_, rest)| rest.split('.').map_while(|part| part.parse().ok()));
    let number: Vec<u32> = number.map(Iterator::collect).unwrap_or_default();
    assert!(number.len() >= 2, "no version in {text:?}");
    Version {
        valkey: !text.starts_with("Redis"),
        major: number[0],
        minor: number[1],
        patch: number.get(2).copied().unwrap_or(0),
    }
});

/// Builds the module as the tests are built: with the same checks, or as it is shipped.
fn build() -> PathBuf {
    // The profile of the test program itself, whose crates are built already.
    let profile = if cfg!(debug_assertions) { "dev" } else { "tested" };
    let output = Command::new(env!("CARGO"))
        .args(["build", "--profile", profile, "--lib", "--package", "bloom"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the module does not build");
    let name = format!(
        "{}bloom{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let messages = String::from_utf8(output.stdout).unwrap();
    let path = messages
        .split('"')
        .find(|text| Path::new(text).file_name().is_some_and(|file| *file == *name));
    path.unwrap_or_else(|| panic!("cargo names no {name}")).into()
}

/// A server's family and version.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub valkey: bool,
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    /// Whether the server has the features of this version of Redis. Every Valkey has those of Redis 7.2.
    pub fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor) && (!self.valkey || (major, minor) <= (7, 2))
    }

    /// Whether modules can make ACL categories of their own.
    pub fn modules_make_categories(self) -> bool {
        self.at_least(7, 4) || self.valkey && self.major >= 8
    }

    /// Whether modules can answer with booleans and maps. Redis 6.2 speaks RESP3 and has no calls for them, so
    /// there a client gets the forms of RESP2 in either protocol.
    pub fn modules_have_resp3(self) -> bool {
        self.at_least(7, 0)
    }
}

/// A server to be started.
#[derive(Clone, Default)]
pub struct Setup {
    config: String,
    module_args: Vec<String>,
    /// Another program than the tests' server.
    program: Option<OsString>,
    /// Another module than this project's.
    module: Option<PathBuf>,
    without_module: bool,
    dir: Option<PathBuf>,
    cluster_node: bool,
    /// A program that runs the server, and its arguments.
    under: Vec<String>,
    /// Variables of the process' environment.
    env: Vec<(String, String)>,
    /// Files that its directory contains before it starts, with their contents.
    files: Vec<(String, String)>,
}

impl Setup {
    /// A line of the configuration file.
    pub fn config(mut self, name: &str, value: impl ToString) -> Self {
        writeln!(self.config, "{name} {}", value.to_string()).unwrap();
        self
    }

    /// The arguments that the module is loaded with, as a line of [`words`].
    pub fn module_args(mut self, line: &str) -> Self {
        self.module_args = words(line).into_iter().map(str::to_owned).collect();
        self
    }

    /// Loads another module.
    pub fn module_at(mut self, path: &Path) -> Self {
        self.module = Some(path.into());
        self
    }

    /// Runs it in a directory that another server left.
    pub fn dir(mut self, path: &Path) -> Self {
        self.dir = Some(path.into());
        self
    }

    /// Starts it without the module.
    pub fn without_module(mut self) -> Self {
        self.without_module = true;
        self
    }

    /// Writes every change to the append-only file, and to the disk, before the reply.
    pub fn append_only(self) -> Self {
        self.config("appendonly", "yes").config("appendfsync", "always")
    }

    /// Sets a variable of its environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a file into its directory before it starts.
    pub fn file(mut self, name: &str, text: String) -> Self {
        self.files.push((name.to_owned(), text));
        self
    }

    /// Runs it by another program, which gets it as its last arguments and becomes its process.
    pub fn under(mut self, words: &[&str]) -> Self {
        self.under = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Makes it a replica of a primary.
    pub fn replica_of(self, primary: &Server) -> Self {
        self.config("replicaof", format!("127.0.0.1 {}", primary.port))
    }

    /// Makes it a node for a cluster.
    pub fn cluster_node(mut self) -> Self {
        self.cluster_node = true;
        self.config("cluster-enabled", "yes")
    }

    /// Starts the server, which must succeed.
    pub fn start(self) -> Server {
        self.try_start()
            .unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    /// Starts the server, or returns the log if it does not start.
    pub fn try_start(self) -> Result<Server, String> {
        let (home, own) = match &self.dir {
            Some(path) => (path.clone(), None),
            None => {
                let own = TempDir::new().unwrap();
                (own.path().to_owned(), Some(own))
            }
        };
        let mut server = Server {
            process: None,
            program: self.program.clone().unwrap_or_else(|| PROGRAM.clone()),
            port: 0,
            has_bus: self.cluster_node,
            home,
            under: self.under.clone(),
            env: self.env.clone(),
            _own: own,
        };
        server.write_config(&self);
        for (name, text) in &self.files {
            fs::write(server.home.join(name), text).unwrap();
        }
        server.launch().map(|()| server)
    }
}

/// A running server.
pub struct Server {
    process: Option<Child>,
    program: OsString,
    port: u16,
    has_bus: bool,
    home: PathBuf,
    under: Vec<String>,
    env: Vec<(String, String)>,
    _own: Option<TempDir>,
}

impl Server {
    /// A server with the module and no further settings.
    pub fn start() -> Self {
        Self::with().start()
    }

    /// A server to be set up.
    pub fn with() -> Setup {
        Setup::default()
    }

    /// A server of the other machine, to be set up; of this one if there is no other.
    pub fn elsewhere() -> Setup {
        let (program, module) = OTHER.clone();
        Setup {
            program: Some(program),
            module: Some(module),
            ..Setup::default()
        }
    }

    /// The file that MODULE LOAD takes.
    pub fn module() -> &'static Path {
        &MODULE
    }

    /// The server program.
    pub fn program() -> &'static OsString {
        &PROGRAM
    }

    /// The sanitizer that the server and the module are built with: `address` or `thread`.
    pub fn sanitizer() -> Option<&'static str> {
        SANITIZER.as_ref().map(|name| name.to_str().unwrap())
    }

    /// The version of all servers of this run.
    pub fn version() -> Version {
        *VERSION
    }

    /// The name under which CONFIG knows an option of the module: Redis 8 has names without a prefix.
    pub fn option(name: &str) -> String {
        if Self::version().at_least(8, 0) {
            format!("bf-{name}")
        } else {
            format!("bf.{name}")
        }
    }

    /// The directory that it runs in.
    pub fn dir(&self) -> &Path {
        &self.home
    }

    /// A connection that speaks RESP2.
    pub fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// A connection that speaks RESP3.
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        client.run("HELLO 3").field("server");
        client
    }

    /// The port that it listens on, until it is started again.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for a client library.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Everything that it has logged since its directory was made. A server may log bytes of a damaged file
    /// unchanged.
    pub fn log(&self) -> String {
        let log = fs::read(self.home.join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Stops it cleanly and starts it on the files that it left. A server that writes its first append-only file, as
    /// a replica does that has just connected, refuses to stop until that is done.
    pub fn restart(&mut self) {
        until("the server stops", || {
            let mut client = self.client();
            client.send(&["SHUTDOWN"]).unwrap();
            // A reply is only sent if it refuses.
            client.receive().is_err()
        });
        self.process.as_mut().unwrap().wait().unwrap();
        self.revive();
    }

    /// Whether the process has memory and work that are not the server's: those of a sanitizer or of an emulator.
    pub fn has_overhead() -> bool {
        SANITIZER.is_some() || *IS_EMULATED
    }

    /// Resident bytes of the process on Linux; 0 elsewhere, and if [`Self::has_overhead`].
    pub fn resident(&self) -> u64 {
        if Self::has_overhead() {
            return 0;
        }
        let id = self.process.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        kilobytes.map_or(0, |number| 1024 * number.trim().parse::<u64>().unwrap())
    }

    /// Limits the address space of the process to `bytes` more than it has, as `ulimit -v` does before a start.
    /// `None` where a running process cannot be limited, or if [`Self::has_overhead`].
    pub fn limit_addresses(&self, bytes: u64) -> Option<()> {
        if Self::has_overhead() {
            return None;
        }
        let id = self.process.as_ref().unwrap().id();
        let figures = || {
            let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let figure = |name: &str| {
                let found = status.lines().find_map(|line| line.strip_prefix(name));
                found.map(|text| text.trim_end_matches("kB").trim().parse::<u64>().unwrap())
            };
            Some([figure("VmSize:")?, figure("Threads:")?])
        };
        // Each thread takes addresses once it begins.
        let mut known = figures()?;
        until("the server has all of its threads", || {
            thread::sleep(Duration::from_millis(50));
            figures().is_some_and(|now| std::mem::replace(&mut known, now) == now)
        });
        let limit = 1024 * known[0] + bytes;
        let line = [format!("--pid={id}"), format!("--as={limit}")];
        let limited = Command::new("prlimit").args(line).status().ok()?;
        limited.success().then_some(())
    }

    /// Kills the process.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// The first line of what a sanitizer found in this server's processes, if anything.
    fn report(&self) -> Option<String> {
        let log = self.log();
        let is_report = |line: &&str| REPORTS.iter().any(|report| line.contains(report));
        log.lines().find(is_report).map(str::to_owned)
    }

    /// Asks the process to end, so that its sanitizer looks for leaks; then nothing is left to kill.
    fn ask_to_end(&mut self) {
        let Some(process) = &mut self.process else { return };
        if process.try_wait().unwrap().is_some() {
            return;
        }
        // A paused process gets no signal before it is resumed.
        let line = format!("kill -CONT {0}; kill -TERM {0}", process.id());
        Command::new("sh").args(["-c", &line]).status().unwrap();
        let start = Instant::now();
        while process.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE / 4 {
                eprintln!("not searched for leaks: the server did not stop");
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The exit status of a process that a command ended.
    pub fn end(&mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        let mut status = None;
        until("the process ends", || {
            status = process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Starts again on the files that the last process left.
    pub fn revive(&mut self) {
        self.launch()
            .unwrap_or_else(|log| panic!("the server does not start again:\n{log}"));
    }

    /// Asserts that the process is still the one that was started, has its data, and answers.
    pub fn is_alive(&self) -> bool {
        self.introduction().is_ok_and(|text| {
            let id = self
                .process
                .as_ref()
                .map(|process| format!("process_id:{}\r\n", process.id()));
            id.is_some_and(|id| text.contains(&id)) && text.contains("\nloading:0\r\n")
        })
    }

    fn introduction(&self) -> io::Result<String> {
        let mut client = Client::connect(self.port)?;
        client.send(&["INFO"])?;
        client.receive().map(|reply| reply.text())
    }

    fn write_config(&self, setup: &Setup) {
        let mut config = "bind 127.0.0.1\nsave \"\"\nrepl-diskless-sync-delay 0\n".to_owned();
        if Self::version().at_least(7, 0) {
            config += "enable-module-command yes\nenable-debug-command yes\n";
        }
        if !setup.without_module {
            let module = setup.module.as_ref().unwrap_or_else(|| &MODULE);
            write!(config, "loadmodule \"{}\"", module.display()).unwrap();
            setup
                .module_args
                .iter()
                .for_each(|word| write!(config, " \"{word}\"").unwrap());
        }
        fs::write(self.home.join("server.conf"), config + "\n" + &setup.config).unwrap();
    }

    /// Starts the process, on another port if the first is in use. Returns the log if it ends at once.
    fn launch(&mut self) -> Result<(), String> {
        for _ in 0..PORTS {
            self.port = free_port(self.has_bus);
            let earlier = self.log().len();
            let log = File::options()
                .create(true)
                .append(true)
                .open(self.home.join("server.log"))
                .unwrap();
            let mut words = self
                .under
                .iter()
                .map(OsString::from)
                .chain([self.program.clone()]);
            let process = Command::new(words.next().unwrap())
                .args(words)
                .args(["server.conf", "--port", &self.port.to_string(), "--dir", "."])
                .current_dir(&self.home)
                .envs(self.env.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::null())
                .stderr(log.try_clone().unwrap())
                .stdout(log)
                .spawn();
            self.process = Some(process.unwrap_or_else(|why| panic!("{}: {why}", self.program.display())));
            let mut ended = false;
            until("the server answers or ends", || {
                ended = self.process.as_mut().unwrap().try_wait().unwrap().is_some();
                ended || self.is_alive()
            });
            if !ended {
                return Ok(());
            }
            let log = self.log().split_off(earlier);
            if !log.contains("Address already in use") {
                return Err(log);
            }
        }
        Err(format!("no free port in {PORTS} attempts"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if SANITIZER.is_some() {
            self.ask_to_end();
        }
        self.kill9();
        if thread::panicking() {
            eprintln!("the log of the server:\n{}", self.log());
        } else if SANITIZER.is_some()
            && let Some(report) = self.report()
        {
            panic!("{report}\nthe log of the server:\n{}", self.log());
        }
    }
}

/// A free port. The nodes of a cluster talk to each other on another port, 10000 above.
pub fn free_port(with_bus: bool) -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bus = || {
            port.checked_add(10_000)
                .map(|bus| TcpListener::bind(("127.0.0.1", bus)))
        };
        if !with_bus || bus().is_some_and(|bound| bound.is_ok()) {
            return port;
        }
    }
}

/// The seed of this run's randomness, which a test prints: `BLOOM_TEST_SEED` repeats a run that failed.
pub fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        std::env::var("BLOOM_TEST_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap())
    });
    eprintln!("BLOOM_TEST_SEED={}", *SEED);
    *SEED
}

/// The size of a sample: `usual`, or ten times that in a long run (`BLOOM_TEST_LONG`).
pub fn sample(usual: usize) -> usize {
    if std::env::var_os("BLOOM_TEST_LONG").is_some() {
        10 * usual
    } else {
        usual
    }
}

/// A time limit, longer if [`Server::has_overhead`].
pub fn or_slower(time: Duration) -> Duration {
    if Server::has_overhead() {
        SLOWNESS * time
    } else {
        time
    }
}

/// Waits until something happens.
pub fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let patience = or_slower(PATIENCE);
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < patience, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
