"""What the examples share: lists of URLs, a server of their own, and promises that are kept or broken."""

import argparse
import gzip
import math
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

PROJECT = Path(__file__).resolve().parent.parent
URLS = PROJECT / "tests/fixtures/urls.txt.gz"
# In the source when it is built, and in the archive; installed by the .deb.
MODULES = [PROJECT / "libbloom.so", Path("/usr/lib/redis/modules/libbloom.so")]
GZIP_MAGIC = b"\x1f\x8b"
# Items in a command.
BATCH = 1000
# Counts of false positives scatter; this many standard deviations above the promise are chance.
SLACK = 4.0


def add_urls_argument(parser, what):
    parser.add_argument(
        "urls",
        nargs="?",
        default=URLS,
        help=f"a file of {what}, one a line, plain or gzip; - for standard input (default: %(default)s)",
    )


def add_server_arguments(parser):
    module = next((path for path in MODULES if path.exists()), MODULES[0])
    parser.add_argument("--server", default="redis-server", help="server to start (default: %(default)s)")
    parser.add_argument("--module", type=Path, default=module, help="module to load (default: %(default)s)")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


class Trouble(Exception):
    """Something that keeps the script from running; no promise of the filter's."""


def read_urls(source):
    """The lines of a plain or gzip file, or of standard input for "-", as bytes and without blank ones."""
    if str(source) != "-":
        raw = Path(source).read_bytes()
    elif sys.stdin is not None:
        raw = sys.stdin.buffer.read()
    else:
        raise Trouble("there is no standard input")
    if raw.startswith(GZIP_MAGIC):
        try:
            raw = gzip.decompress(raw)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Trouble(f"{source} is cut off, or no gzip file: {error}") from None
    return [line for line in (part.strip(b"\r") for part in raw.split(b"\n")) if line]


def connect(url, **options):
    try:
        return redis.Redis.from_url(url, **options)
    except ValueError:
        # redis-py's own text may show a part of the password.
        raise Trouble("--url: the URL must specify redis://user:password@host:port, the password percent-encoded") from None


def require_filters(client, key):
    """Refuses a server without the module, and a key that holds something else than a filter."""
    try:
        client.execute_command("BF.EXISTS", key, "")
    except redis.ResponseError as error:
        if str(error).lower().startswith("unknown command "):
            raise Trouble("the server has no BF.EXISTS: load the module there") from None
        raise Trouble(f"{key}: {error}") from None


def check_members(client, key, exact, promises, when):
    """A filter has no false negatives: BF.MEXISTS must find everything that was added."""
    found = count_found(client, key, exact)
    promises.add(found == len(exact), f"added URLs found {when}: {found:,} of {len(exact):,}")


def check_strangers(client, key, exact, error_rate, promises):
    """Asks the full filter for as many URLs that were never added."""
    strangers = {url + b"#never-added" for url in exact} - exact
    found = count_found(client, key, strangers)
    promises.add_rate("URLs never added but found", found, len(strangers), error_rate)


def count_found(client, key, urls):
    some = batches(list(urls), BATCH)
    return sum(sum(map(bool, client.execute_command("BF.MEXISTS", key, *part))) for part in some)


def batches(items, size):
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Promises:
    """What the filter promised, and whether it held."""

    def __init__(self):
        self.kept = []

    def add(self, held, text):
        self.kept.append(held)
        print(f"{'ok    ' if held else 'BROKEN'}  {text}")

    def add_rate(self, what, count, total, rate):
        chance = SLACK * math.sqrt(rate * (1 - rate) * total)
        text = f"{what}: {count:,} of {total:,} ({count / total:.3%}), promised at most {rate:.3%}"
        self.add(count <= rate * total + chance, text)

    def report(self):
        """The exit code."""
        broken = self.kept.count(False)
        print(f"{len(self.kept) - broken} promises kept, {broken} broken")
        return 1 if broken else 0


class Server:
    """A server with the module, on a free port of the loopback interface, in a directory of its own."""

    ATTEMPTS = 5
    PATIENCE = 60.0
    # What else the server is started with.
    ARGUMENTS = ()

    def __init__(self, program, module):
        if not module.exists():
            raise Trouble(f"there is no {module}; `make build` makes it, --module names another")
        if shutil.which(program) is None:
            raise Trouble(f"there is no {program}; --server names another, --url a running one")
        self.program = program
        self.module = module.resolve()
        self.process = None
        self.port = None
        # What keeps the port for this server, also while it does not run.
        self.kept = ExitStack()

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="crawl-"))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.kept.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def client(self):
        # No time limit on an answer: SAVE of a large filter may take longer than the client's default.
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=None)

    def restart(self):
        self.stop()
        self.start()

    def start(self):
        """Where a port is not kept, another process may take it first; then another is tried, but for a restart."""
        attempts = self.ATTEMPTS if self.port is None else 1
        for _ in range(attempts):
            port = self.port or self.take_port()
            if self.launch(port):
                self.port = port
                return
            self.stop()
            if "already in use" not in self.log():
                break
        raise Trouble(f"{self.program} did not start:\n{self.log()}")

    def take_port(self):
        self.kept.close()
        return self.kept.enter_context(kept_port())

    def launch(self, port):
        """Whether the server runs and has loaded its data."""
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen(self.command(port), stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + self.PATIENCE
        with redis.Redis(host="127.0.0.1", port=port) as client:
            while self.process.poll() is None and time.monotonic() < deadline:
                try:
                    client.ping()
                    # Another program's server may have taken the port since it was found to be free.
                    if client.info("server")["process_id"] == self.process.pid:
                        return True
                except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
                    pass
                time.sleep(0.02)
        return False

    def command(self, port):
        words = [self.program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(self.home)]
        return [*words, "--save", "", "--appendonly", "no", "--loadmodule", str(self.module), *self.ARGUMENTS]

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(self.PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def log(self):
        return (self.home / "log").read_text(errors="replace")


@contextmanager
def kept_port(port=0):
    """A port where nobody listens, a free one unless it is named. Meanwhile no other program is given it.

    On Linux a server can listen there nevertheless, since it allows that as this does; elsewhere it is only found to be
    free.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", port))
        port = keeper.getsockname()[1]
        if sys.platform != "linux":
            keeper.close()
        yield port
