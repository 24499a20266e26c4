#!/usr/bin/env python3
"""A crawler's memory of the URLs it has seen, in a Bloom filter, held against an exact set.

Every line of the input is a URL that a crawler met. Each goes through BF.ADD, whose answer says whether
the crawler should fetch it: 1 for a URL that is new, 0 for one that it has (probably) seen. A filter may
take a new URL for a seen one, at no more than the rate it was made with; it never forgets one. The script
checks both, and its exit code is 1 when either promise is broken (2 when it could not run at all).

Without --url it starts a server of its own on a free port of the loopback interface, with its data in a
temporary directory, and stops it at the end.
"""

import argparse
import gzip
import math
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis
from tqdm import tqdm

PROJECT = Path(__file__).resolve().parent.parent
GZIP_MAGIC = b"\x1f\x8b"
CHECK_BATCH = 1000
# Counts of false positives scatter; this many standard deviations above the promise are chance.
SLACK = 4.0


def main():
    options = parse_arguments()
    try:
        urls = read_urls(options.urls)
        if not urls:
            raise Trouble(f"no URLs in {options.urls}")
        if options.url:
            promises = crawl(connect(options.url), None, urls, options)
        else:
            with Server(options.server, options.module) as server:
                promises = crawl(server.client(), server, urls, options)
    except (Trouble, OSError, redis.RedisError) as trouble:
        print(f"crawl.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return promises.report()


def connect(url):
    try:
        return redis.Redis.from_url(url)
    except ValueError as error:
        raise Trouble(f"--url: {error}") from None


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "urls",
        nargs="?",
        default=PROJECT / "tests/fixtures/urls.txt.gz",
        help="a file of URLs, one a line, plain or gzip; - for standard input (default: %(default)s)",
    )
    parser.add_argument("--error", type=float, default=0.01, help="error rate (default: %(default)s)")
    parser.add_argument(
        "--capacity", type=positive, default=10_000, help="first capacity; it grows (default: %(default)s)"
    )
    parser.add_argument(
        "--pipeline",
        type=positive,
        default=1,
        metavar="N",
        help="BF.ADD commands on the way at once (default: %(default)s, each waits for its answer)",
    )
    parser.add_argument("--key", default="crawl:seen", help="where the filter goes (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="with --url: leave the filter there at the end")
    parser.add_argument("--url", help="a running server with the module, e.g. redis://127.0.0.1:6379/0")
    parser.add_argument(
        "--restart", action="store_true", help="SAVE, restart the server from the RDB file, check again"
    )
    parser.add_argument("--server", default="redis-server", help="server to start (default: %(default)s)")
    parser.add_argument(
        "--module", type=Path, default=PROJECT / "libbloom.so", help="module to load (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.url and options.restart:
        parser.error("--restart needs a server of the script's own, so it does not go with --url")
    return options


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


class Trouble(Exception):
    """Something that keeps the script from running; no promise of the filter's."""


def read_urls(source):
    """The lines of a plain or gzip file, or of standard input for "-", as bytes and without blank ones."""
    raw = sys.stdin.buffer.read() if str(source) == "-" else Path(source).read_bytes()
    if raw.startswith(GZIP_MAGIC):
        raw = gzip.decompress(raw)
    return [line for line in (part.strip(b"\r") for part in raw.split(b"\n")) if line]


def crawl(client, server, urls, options):
    """Fills a filter, checks it, and checks it again after a restart where one was asked for."""
    bloom = client.bf()
    try:
        bloom.reserve(options.key, options.error, options.capacity)
    except redis.ResponseError as error:
        raise Trouble(f"BF.RESERVE {options.key}: {error}") from error
    try:
        promises = Promises()
        exact, reported = fill(client, urls, options, promises)

        check_members(bloom, exact, options, promises, "after the crawl")
        check_strangers(bloom, exact, options, promises)
        describe_filter(bloom, exact, options)

        if options.restart:
            client.save()
            server.restart()
            check_members(bloom, exact, options, promises, "after the restart")
        items = bloom.card(options.key)
        promises.add(items == reported, f"BF.CARD is {items:,}, and {reported:,} URLs were reported new")
        return promises
    finally:
        if options.url and not options.keep:
            client.unlink(options.key)


def fill(client, urls, options, promises):
    """Puts every URL through BF.ADD; gives the exact set and how many were reported new."""
    exact = set()
    reported = false_positives = repeated = 0
    for url, is_new in add_all(client, urls, options):
        reported += is_new
        false_positives += not is_new and url not in exact
        repeated += is_new and url in exact
        exact.add(url)

    print(f"{len(urls):,} lines, {len(exact):,} distinct URLs, {reported:,} reported new")
    promises.add(repeated == 0, f"URLs reported new a second time: {repeated:,}")
    promises.add_rate("new URLs taken for seen ones", false_positives, len(exact), options.error)
    return exact, reported


def add_all(client, urls, options):
    """Yields each URL with BF.ADD's answer."""
    with tqdm(total=len(urls), unit=" URLs", desc="BF.ADD", disable=None) as bar:
        for some in batches(urls, options.pipeline):
            if len(some) == 1:
                answers = [client.bf().add(options.key, some[0])]
            else:
                pipeline = client.pipeline(transaction=False)
                for url in some:
                    pipeline.bf().add(options.key, url)
                answers = pipeline.execute()
            yield from zip(some, map(bool, answers))
            bar.update(len(some))


def check_members(bloom, exact, options, promises, when):
    """A filter has no false negatives: BF.MEXISTS must find everything that was added."""
    found = count_found(bloom, exact, options, "BF.MEXISTS, seen")
    promises.add(found == len(exact), f"added URLs found {when}: {found:,} of {len(exact):,}")


def check_strangers(bloom, exact, options, promises):
    """Asks the full filter for as many URLs that were never added."""
    strangers = {url + b"#never-added" for url in exact} - exact
    found = count_found(bloom, strangers, options, "BF.MEXISTS, unseen")
    promises.add_rate("URLs never added but found", found, len(strangers), options.error)


def count_found(bloom, urls, options, label):
    found = 0
    with tqdm(total=len(urls), unit=" URLs", desc=label, disable=None) as bar:
        for some in batches(list(urls), CHECK_BATCH):
            found += sum(map(bool, bloom.mexists(options.key, *some)))
            bar.update(len(some))
    return found


def batches(items, size):
    for start in range(0, len(items), size):
        yield items[start : start + size]


def describe_filter(bloom, exact, options):
    info = bloom.info(options.key)
    print(
        f"BF.INFO: capacity {info.capacity:,}, {info.insertedNum:,} items, {info.filterNum} layer(s), "
        f"{info.size:,} bytes"
    )
    print(
        f"a URL takes {8 * info.size / len(exact):.1f} bits in the filter; "
        f"the URLs themselves have {sum(map(len, exact)):,} bytes"
    )


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
    PATIENCE = 30.0
    # What else the server is started with.
    ARGUMENTS = ()

    def __init__(self, program, module):
        if not module.exists():
            raise Trouble(f"there is no {module}; `make build` makes it")
        if shutil.which(program) is None:
            raise Trouble(f"there is no {program}; --server names another, --url a running one")
        self.program = program
        self.module = module.resolve()
        self.process = None
        self.port = None

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
        shutil.rmtree(self.home, ignore_errors=True)

    def client(self):
        # No time limit on an answer: SAVE of a large filter may take longer than the client's default.
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=None)

    def restart(self):
        self.stop()
        self.start()

    def start(self):
        """Another process may take a free port first; then the next one is tried, but for a restart."""
        attempts = self.ATTEMPTS if self.port is None else 1
        for _ in range(attempts):
            port = self.port or free_port()
            if self.launch(port):
                self.port = port
                return
            self.stop()
            if "already in use" not in self.log():
                break
        raise Trouble(f"{self.program} did not start:\n{self.log()}")

    def launch(self, port):
        """Whether the server runs and has loaded its data."""
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen(self.command(port), stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + self.PATIENCE
        with redis.Redis(host="127.0.0.1", port=port) as client:
            while self.process.poll() is None and time.monotonic() < deadline:
                try:
                    return client.ping()
                except (redis.ConnectionError, redis.BusyLoadingError):
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    sys.exit(main())
