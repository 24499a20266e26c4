"""examples/migrate.py, tried as its users would: real servers, its command line, its exit codes.

Run it with `make test-examples`; after `make build` by hand:

    .build/venv/bin/python -m unittest discover -s tests/examples

BLOOM_TEST_SERVER names another server than redis-server, BLOOM_TEST_MODULE another module. Every server is on
a free port of the loopback interface, with a directory of its own, and is stopped in any case.
"""

import base64
import functools
import gzip
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT / "examples"))

import crawl  # noqa: E402
import migrate  # noqa: E402
from redis.crc import key_slot  # noqa: E402

PROGRAM = os.environ.get("BLOOM_TEST_SERVER", "redis-server")
MODULE = Path(os.environ.get("BLOOM_TEST_MODULE", PROJECT / "libbloom.so"))
STORED = PROJECT / "tests/fixtures/redisbloom"
RIVAL = PROJECT / "tests/fixtures/valkey-bloom"
URLS = PROJECT / "tests/fixtures/urls.txt.gz"
# Seconds until something that must happen has failed. Nothing is measured by it.
PATIENCE = 30

# In RDB format 11, which Redis 7.2 introduced, and 10, of Redis 7.0.
FILES = ["redisbloom-2.8.rdb", "redisbloom-2.6.rdb"]


class Server(crawl.Server):
    """A server with the module, empty or with a stored RDB file."""

    def __init__(self, file=None):
        super().__init__(PROGRAM, MODULE)
        self.file = file

    def launch(self, port):
        if self.file is not None:
            shutil.copy(self.file, self.home / "dump.rdb")
        return super().launch(port)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"


class BareServer(Server):
    """A server without the module."""

    def launch(self, port):
        words = [PROGRAM, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(self.home), "--save", ""]
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if "eady to accept connections" in self.log():
                return True
            time.sleep(0.02)
        return False


class PoorerServer(socketserver.ThreadingTCPServer):
    """What a server looks like whose module lacks commands: a way to it on which they lose their names."""

    daemon_threads = True

    def __init__(self, server, lacks):
        super().__init__(("127.0.0.1", 0), Relay)
        self.behind = server
        self.lacks = lacks

    def without(self, block):
        return re.sub(self.lacks, lambda name: b"x" * len(name[0]), block)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.server_address[1]}/0"


class Relay(socketserver.BaseRequestHandler):
    """A connection to a PoorerServer."""

    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.behind.port)) as server:
            back = threading.Thread(target=self.pass_on, args=(server, self.request))
            back.start()
            self.pass_on(self.request, server, self.server.without)
            server.shutdown(socket.SHUT_WR)
            back.join()

    def pass_on(self, source, target, change=bytes):
        try:
            while block := source.recv(1 << 16):
                target.sendall(change(block))
        except OSError:
            pass  # Either end may go first.


@functools.cache
def stored_file():
    """The newest stored file that this server can load, or None."""
    for name in FILES:
        try:
            with Server(STORED / name):
                return STORED / name
        except crawl.Trouble as trouble:
            if "RDB format version" not in str(trouble):
                raise
    return None


def stored_filters():
    """Names of the filters in the RDB files, and the items of each."""
    with gzip.open(URLS) as lines:
        urls = [line.rstrip(b"\n") for line in lines]
    numbered = lambda prefix, count: [b"%s%d" % (prefix, number) for number in range(count)]  # noqa: E731
    return {
        b"rb:default": numbered(b"item:", 60),
        b"rb:chain": numbered(b"", 4000),
        b"rb:expansion4": numbered(b"x", 500),
        b"rb:expansion1": numbered(b"y", 300),
        b"rb:nonscaling": numbered(b"n", 200),
        b"rb:tight": numbered(b"t", 1000),
        b"rb:empty": [],
        b"rb:bytes": [b"", b"\0", b"a\0b", b"\xff\xfe", b" " * 300, "ü€".encode()],
        b"rb:urls": list(dict.fromkeys(urls)),
    }


def rival_filters():
    """Names of filters that a valkey-bloom made, and of each what BF.LOAD takes and its items."""
    with open(RIVAL / "filters.json") as file:
        filters = json.load(file)["filters"]
    for name, made in filters.items():
        items = made["items"]
        listed = items.get("list") or [f"{items['prefix']}{number}" for number in range(items.get("count", 0))]
        yield name, base64.b64decode(made["load"]), [item.encode("latin-1") for item in listed]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="migrate-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.state = self.folder / "state"

    def start(self, server=None):
        """Starts a server that is stopped when the test ends; gives it and a client of it."""
        server = server or Server()
        server.__enter__()
        self.addCleanup(server.__exit__)
        client = server.client()
        self.addCleanup(client.close)
        return server, client

    def start_older(self, server):
        """A way to the server on which it has no packed commands."""
        return self.start_poorer(server, rb"BF\.\w+PACKED")

    def start_poorer(self, server, lacks):
        """A way to the server on which it has no such commands."""
        poorer = PoorerServer(server, lacks)
        serve = threading.Thread(target=functools.partial(poorer.serve_forever, poll_interval=0.05))
        serve.start()
        self.addCleanup(serve.join)
        self.addCleanup(poorer.server_close)
        self.addCleanup(poorer.shutdown)
        return poorer

    def calls(self, client, commands):
        """How often each of these commands was called, and forgets it."""
        stats = client.info("commandstats")
        client.config_resetstat()
        return {name: stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in commands}

    def start_stored(self):
        if stored_file() is None:
            self.skipTest("this server is older than the stored RDB files")
        return self.start(Server(stored_file()))

    def migrate(self, *arguments, exit_code=0, **named):
        """Runs the script; gives what it printed."""
        done = subprocess.run(command(arguments), capture_output=True, timeout=PATIENCE, **named)
        text = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, exit_code, text)
        self.assertNotIn("Traceback", text)
        return text

    def begin(self, *arguments):
        """The script in the background, killed at the end of the test if it still runs."""
        process = subprocess.Popen(command(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")

    def assert_members(self, client, key, items):
        for some in crawl.batches(items, 1000):
            self.assertEqual(sum(client.execute_command("BF.MEXISTS", key, *some)), len(some), key)

    def assert_same(self, source, target, key):
        """The copy has the same bytes, figures and remaining time."""
        self.assertEqual(source.dump(key), target.dump(key), key)
        self.assertEqual(source.execute_command("BF.DEBUG", key), target.execute_command("BF.DEBUG", key), key)
        left = source.pttl(key)
        if left < 0:
            self.assertEqual(target.pttl(key), left)
        else:
            self.assertAlmostEqual(target.pttl(key), left, delta=PATIENCE * 1000)

    def assert_same_chunks(self, source, target, key):
        """The copy has the same bits and figures, if not the same DUMP: servers compress it in their ways."""
        chunks, position = [], 0
        while not chunks or position:
            answers = [client.execute_command("BF.SCANDUMP", key, position) for client in (source, target)]
            self.assertEqual(*answers, key)
            position = answers[0][0]
            chunks.append(position)
        self.assertEqual(source.execute_command("BF.DEBUG", key), target.execute_command("BF.DEBUG", key), key)

    def assert_clean(self, client):
        self.assertEqual([key for key in client.keys() if key.endswith(migrate.TEMPORARY)], [])


def command(arguments):
    return [sys.executable, str(PROJECT / "examples/migrate.py"), *map(os.fspath, arguments)]


class CopyTest(Case):
    def test_stored_filters_are_copied_bit_for_bit(self):
        source, old = self.start_stored()
        target, new = self.start()
        old.pexpire("rb:tight", 3_600_000)
        old.execute_command("BF.RESERVE", "own", "0.001", "1000")
        old.execute_command("BF.MADD", "own", *range(2000))
        old.set("no filter", "x")

        text = self.migrate("copy", source.url, target.url, "--verify", "--state", self.state)

        self.assertIn("filters copied: 10 (10 read back), by an earlier run: 0, not copied: 0;", text)
        filters = {**stored_filters(), b"own": [b"%d" % number for number in range(2000)]}
        self.assertEqual(set(new.keys()), set(filters))
        for key, items in filters.items():
            self.assert_same(old, new, key)
            self.assert_members(new, key, items)
        self.assertGreater(new.pttl("rb:tight"), 0)

        # Both go on growing in the same way.
        for client in (old, new):
            client.execute_command("BF.MADD", "rb:chain", *range(10_000, 15_000))
        self.assert_same(old, new, "rb:chain")

    def test_a_later_run_copies_what_has_changed(self):
        source, old = self.start()
        target, new = self.start()
        for key in ("one", "two"):
            old.execute_command("BF.MADD", key, "a", "b")
        copy = ["copy", source.url, target.url, "--state", self.state]
        self.migrate(*copy)
        self.assertIn("copied: 0, by an earlier run: 2, not copied: 0;", self.migrate(*copy))

        old.execute_command("BF.ADD", "two", "c")
        text = self.migrate(*copy, exit_code=1)
        self.assertIn("not copied: two: the target has a filter under this name, an older state of it", text)
        text = self.migrate(*copy, "--replace")
        self.assertIn("copied: 1, by an earlier run: 1, not copied: 0;", text)
        self.assert_same(old, new, "two")

        # And what the target has lost.
        new.delete("one")
        self.assertIn("copied: 1, by an earlier run: 1, not copied: 0;", self.migrate(*copy))
        self.assert_same(old, new, "one")

    def test_what_is_excepted_or_merged_has_changed(self):
        """A copy that is taken for finished would find what has to go, or miss what was merged in."""
        source, old = self.start()
        target, new = self.start()
        copy = ["copy", source.url, target.url, "--state", self.state, "--replace", "--verify"]

        def check(key):
            """This filter alone is copied again."""
            self.assertIn("copied: 1 (1 read back), by an earlier run: 2, not copied: 0;", self.migrate(*copy))
            self.assert_same(old, new, key)

        old.execute_command("BF.MADD", "blocked", "a", "b", "c")
        old.execute_command("BF.RESERVE", "classic", 0.01, 1000, "LAYOUT", "CLASSIC")
        old.execute_command("BF.RESERVE", "part", 0.01, 1000, "LAYOUT", "CLASSIC")
        old.execute_command("BF.MADD", "classic", *range(600))
        old.execute_command("BF.ADD", "part", "x")
        self.assertIn("copied: 3 (3 read back)", self.migrate(*copy))
        old.execute_command("BF.EXCEPT", "blocked", "a")
        check("blocked")
        self.assertEqual([*map(int, new.execute_command("BF.MEXISTS", "blocked", "a", "b"))], [0, 1])
        # As many exceptions as before.
        old.execute_command("BF.ADD", "blocked", "a")
        old.execute_command("BF.EXCEPT", "blocked", "b")
        check("blocked")
        self.assertEqual([*map(int, new.execute_command("BF.MEXISTS", "blocked", "a", "b"))], [1, 0])

        header = old.execute_command("BF.SCANDUMP", "classic", 0)
        old.execute_command("BF.MERGE", "classic", 1, "part")
        self.assertEqual(old.execute_command("BF.SCANDUMP", "classic", 0), header, "its count is estimated")
        check("classic")
        self.assertEqual(int(new.execute_command("BF.EXISTS", "classic", "x")), 1)
        self.assertIn("copied: 0 (0 read back), by an earlier run: 3, not copied: 0;", self.migrate(*copy))

    def test_filters_of_valkey_bloom_are_copied_bit_for_bit(self):
        """valkey-bloom gives no chunks. Its filters come out of DUMP, whose bytes the new server might refuse."""
        behind, old = self.start()
        source = self.start_poorer(behind, rb"BF\.SCANDUMP")
        target, new = self.start()
        filters = {name: items for name, _, items in rival_filters()}
        for name, data, _ in rival_filters():
            old.execute_command("BF.LOAD", name, data)
        old.pexpire("chain", 3_600_000)
        old.execute_command("BF.RESERVE", "large", "0.01", 30_000_000, "LAYOUT", "VALKEY")
        old.set("no filter", "x")
        copy = ["copy", source.url, target.url, "--state", self.state, "--verify"]

        # Compressed as they are stored, and not.
        for compression, few in (("yes", []), ("no", ["chain"])):
            old.config_set("rdbcompression", compression)
            for name in few:
                old.execute_command("BF.ADD", name, "one more")
                filters[name].append(b"one more")
            text = self.migrate(*copy, *["--replace"] * len(few))
            count, earlier = (len(few), len(filters)) if few else (len(filters) + 1, 0)
            counts = f"copied: {count} ({count} read back), by an earlier run: {earlier}, not copied: 0;"
            self.assertIn(counts, text)
            self.assertEqual(set(new.keys()), {name.encode() for name in [*filters, "large"]})
            for name, items in filters.items():
                self.assertEqual(new.type(name), b"bloomfltr")
                self.assert_same_chunks(old, new, name)
                self.assert_members(new, name, items)
            self.assert_same_chunks(old, new, "large")
        self.assertGreater(new.pttl("chain"), 0)

        # Both go on growing in the same way.
        for client in (old, new):
            client.execute_command("BF.MADD", "chain", *range(10_000, 15_000))
        self.assert_same_chunks(old, new, "chain")
        (self.folder / "keys").write_text("no filter\n")
        text = self.migrate("copy", source.url, target.url, "--keys", self.folder / "keys", exit_code=1)
        self.assertIn("not copied: no filter: WRONGTYPE", text)

    def test_payloads_that_are_no_filter_are_refused(self):
        """What is cut off must not become a filter that has forgotten items."""
        _, client = self.start()
        client.execute_command("BF.INSERT", "seen", "LAYOUT", "VALKEY", "CAPACITY", 20, "ITEMS", *range(100))
        client.set("text", "x")
        payload = client.dump("seen")
        self.assertEqual(len(list(migrate.valkey_chunks(payload))), 4)
        for length in range(len(payload) - 11):
            with self.assertRaisesRegex(migrate.NotCopied, "DUMP gives what is no filter of valkey-bloom 1"):
                list(migrate.valkey_chunks(payload[:length]))
        with self.assertRaisesRegex(migrate.NotCopied, "a value of type 0"):
            list(migrate.valkey_chunks(client.dump("text")))

    def test_keys_are_chosen_and_are_bytes(self):
        source, old = self.start()
        target, new = self.start()
        names = [b"", b"\xff\n\xfe", b"nul\0", b"{tag}x", b"a}b", b"{", b"plain"]
        for name in names:
            old.execute_command("BF.MADD", name, b"item of " + name)
        chosen = self.folder / "keys"
        chosen.write_bytes(b"\xff\n\xfe\0a}b\0\0missing\0a}b\0")
        text = self.migrate("copy", source.url, target.url, "--keys", chosen, "--null", exit_code=1)
        self.assertEqual(set(new.keys()), {b"\xff\n\xfe", b"a}b", b""})
        self.assertIn("copied: 3, by an earlier run: 0, not copied: 1;", text)
        self.assertIn("not copied: missing: the source has no key of this name", text)

        self.migrate("copy", source.url, target.url, "--match", "{*")
        self.assertEqual(set(new.keys()), {b"\xff\n\xfe", b"a}b", b"", b"{", b"{tag}x"})
        self.migrate("copy", source.url, target.url, "--replace")
        self.assertEqual(set(new.keys()), set(names))
        for name in names:
            self.assert_same(old, new, name)
            self.assert_members(new, name, [b"item of " + name])

    def test_a_filter_that_changes_is_copied_again(self):
        source, old = self.start()
        target, new = self.start()
        old.execute_command("BF.RESERVE", "busy", "0.01", 40_000_000)
        added = []
        stop = threading.Event()
        client = source.client()
        self.addCleanup(client.close)

        def write():
            while not stop.is_set():
                item = b"item %d" % len(added)
                client.execute_command("BF.ADD", "busy", item)
                added.append(item)

        writer = threading.Thread(target=write)
        writer.start()
        self.addCleanup(writer.join)
        self.addCleanup(stop.set)

        text = self.migrate("copy", source.url, target.url, "--attempts", "2", exit_code=1)
        self.assertIn("again: busy: it changed while it was copied, and has", text)
        self.assertIn("items now, 2 times; stop its writers, or try when there are fewer", text)
        self.assertEqual(new.keys(), [])

        process = self.begin("copy", source.url, target.url, "--attempts", "100", "--verify")
        self.assertIn(b"again: busy", process.stderr.readline())
        stop.set()
        writer.join()
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(len(added), 0)
        self.assert_members(new, "busy", added)
        self.assertEqual(old.execute_command("BF.INFO", "busy"), new.execute_command("BF.INFO", "busy"))
        self.assert_clean(new)

    def test_a_killed_run_is_resumed(self):
        source, old = self.start()
        target, new = self.start()
        for key in ("a", "b"):
            old.execute_command("BF.MADD", key, *range(100))
        # 125 MiB: time enough to be met half-way. Most of it is never written, and so takes no memory here.
        old.execute_command("BF.RESERVE", "large", "0.01", 100_000_000, "NONSCALING")
        old.execute_command("BF.MADD", "large", *range(1000))
        old.execute_command("BF.MADD", "z", *range(100))
        copy = ["copy", source.url, target.url, "--state", self.state]

        process = self.begin(*copy)
        temporary = migrate.temporary_name(b"large")
        self.wait_until(lambda: new.exists(temporary))
        process.kill()
        process.wait()
        self.assertEqual(set(new.keys()), {b"a", b"b", temporary}, "nobody meets half a filter")
        with open(self.state, "ab") as file:
            file.write(b'{"key": "z", "hea')

        text = self.migrate(*copy, "--verify")
        self.assertIn("copied: 2 (2 read back), by an earlier run: 2, not copied: 0;", text)
        self.assertEqual(set(new.keys()), {b"a", b"b", b"large", b"z"})
        self.assert_members(new, "large", list(range(1000)))
        self.assertEqual(old.execute_command("BF.INFO", "large"), new.execute_command("BF.INFO", "large"))
        for key in ("a", "b", "z"):
            self.assert_same(old, new, key)
        self.assertIn("by an earlier run: 4,", self.migrate(*copy))

    def test_a_run_that_was_killed_around_the_renaming_is_resumed(self):
        source, old = self.start()
        target, new = self.start()
        for key in ("renamed", "not renamed"):
            old.execute_command("BF.MADD", key, *range(100))
        copy = ["copy", source.url, target.url, "--state", self.state]
        self.migrate(*copy)
        # Both are noted, and one has not got its name.
        new.rename("not renamed", migrate.temporary_name(b"not renamed"))
        self.assertIn("copied: 1, by an earlier run: 1, not copied: 0;", self.migrate(*copy))
        self.assert_same(old, new, "not renamed")
        self.assert_clean(new)

    def test_what_the_target_has_is_not_overwritten(self):
        source, old = self.start()
        target, new = self.start()
        for key in ("filter", "text", "free"):
            old.execute_command("BF.MADD", key, "old")
        new.execute_command("BF.MADD", "filter", "new")
        new.set("text", "new")

        text = self.migrate("copy", source.url, target.url, exit_code=1)
        self.assertIn("not copied: filter: the target has a filter under this name; --replace replaces it", text)
        self.assertIn("not copied: text: the target has a string under this name", text)
        self.assert_members(new, "filter", ["new"])
        self.assert_same(old, new, "free")

        self.migrate("copy", source.url, target.url, "--replace", exit_code=1)
        self.assertEqual(new.get("text"), b"new")
        self.assert_same(old, new, "filter")
        self.assert_clean(new)

    def test_what_cannot_run_says_why(self):
        source, _ = self.start()
        target, _ = self.start()
        bare, _ = self.start(BareServer())
        nowhere = f"redis://127.0.0.1:{crawl.free_port()}/0"

        def says(text, *arguments):
            self.assertIn(text, self.migrate("copy", *arguments, exit_code=2))

        says("has no BF.SCANDUMP", bare.url, target.url)
        says("has no BF.LOADCHUNK", source.url, bare.url)
        says("source 127.0.0.1:", nowhere, target.url)
        says("target 127.0.0.1:", source.url, nowhere)
        says("URL must specify", "localhost", target.url)
        says("are the same database", source.url, source.url.replace("127.0.0.1", "localhost"))
        says("No such file", source.url, target.url, "--keys", self.folder / "missing")
        self.migrate("copy", source.url, target.url, "--state", self.state)
        says("is the state of another copy", target.url, source.url, "--state", self.state)
        self.state.write_text("something else\n")
        says("is no state file of a copy", source.url, target.url, "--state", self.state)

    def test_temporary_names_stay_in_their_slot(self):
        names = [b"", b"a", b"{a}b", b"a{b}c", b"{", b"}", b"{}", b"{}a", b"a}b", b"a{b", b"}{", b"{{a}}", b"\xff{"]
        for name in names:
            temporary = migrate.temporary_name(name)
            self.assertEqual(key_slot(temporary), key_slot(name), name)
            self.assertTrue(temporary.endswith(migrate.TEMPORARY))
        self.assertEqual(len({migrate.temporary_name(name) for name in names}), len(names))


class LoadTest(Case):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()

    def load(self, *arguments, **named):
        return self.migrate("load", self.server.url, *arguments, **named)

    def test_a_gzip_file_is_loaded(self):
        text = self.load("urls", "--error", "0.001", "--capacity", "20000", "--file", URLS)
        urls = stored_filters()[b"rb:urls"]
        self.assert_members(self.client, "urls", urls)
        items = self.client.execute_command("BF.CARD", "urls")
        self.assertLess(0.998 * len(urls), items)
        self.assertIn(f"59,226 items, {items:,} new and {59_226 - items:,} known", text)
        self.assertIn(f"urls has {items:,} items", text)

    def test_items_are_bytes(self):
        shape = ["--error", "0.0001", "--capacity", "100"]
        self.load("lines", *shape, input=b"a\xff\n\n b\r\nc")
        self.assert_members(self.client, "lines", [b"a\xff", b" b\r", b"c"])
        self.assertEqual(self.client.execute_command("BF.CARD", "lines"), 3)
        self.load("nul", *shape, "--null", input=b"a\n\0\0b\0")
        self.assert_members(self.client, "nul", [b"a\n", b"", b"b"])
        self.assertEqual(self.client.execute_command("BF.CARD", "nul"), 3)
        self.load(b"\xff key", *shape, input=b"a")
        self.assertTrue(self.client.exists(b"\xff key"))

    def test_a_killed_load_is_resumed(self):
        count = 300_000
        items = self.folder / "items"
        items.write_bytes(b"".join(b"item %d\n" % number for number in range(count)))
        shape = ["big", "--error", "0.001", "--capacity", str(count), "--state", self.state, "--batch", "100"]
        process = self.begin("load", self.server.url, *shape, "--file", items)
        self.wait_until(lambda: self.state.exists() and json.loads(self.state.read_text())["lines"] > 0)
        process.kill()
        process.wait()
        self.assertLess(self.client.execute_command("BF.CARD", "big"), count, "it was killed too late")

        self.load(*shape, "--file", items)
        self.assert_members(self.client, "big", [b"item %d" % number for number in range(count)])
        state = json.loads(self.state.read_text())
        self.assertEqual(state["lines"], count)

        # Lines that were added to the file are loaded, and another file is noticed.
        with open(items, "ab") as file:
            file.write(b"one more\n")
        self.assertIn("1 items,", self.load(*shape, "--file", items))
        items.write_bytes(b"other\n" + items.read_bytes())
        self.assertIn("are not those that", self.load(*shape, "--file", items, exit_code=2))
        items.write_bytes(b"short\n")
        self.assertIn("the input ends", self.load(*shape, "--file", items, exit_code=2))
        self.client.delete("big")
        self.assertIn("there is no big; without", self.load(*shape, "--file", items, exit_code=2))

    def test_a_full_filter_ends_the_load(self):
        items = b"".join(b"%d\n" % number for number in range(1000))
        text = self.load("full", "--error", "0.01", "--capacity", "500", "--nonscaling", input=items, exit_code=1)
        self.assertIn("non scaling filter is full", text)
        self.assertEqual(self.client.execute_command("BF.CARD", "full"), 500)

    def test_a_filter_gets_the_layout_that_is_asked_for(self):
        shape = ["--error", "0.01", "--capacity", "100", "--expansion", "4"]
        for layout in ("classic", "valkey", "blocked"):
            self.load(layout, *shape, "--layout", layout, input=b"a\n")
            full = migrate.pairs(self.client.execute_command("BF.INFO", layout, "FULL"))
            self.assertEqual(full["Layout"].decode(), layout)
            info = migrate.pairs(self.client.execute_command("BF.INFO", layout))
            self.assertEqual(info["Expansion rate"], 4)

    def test_packed_or_not_a_load_is_the_same(self):
        """RedisBloom and earlier versions have no packed commands; a user may not be allowed to send them."""
        older = self.start_older(self.server)
        self.client.execute_command("ACL", "SETUSER", "old", "on", ">pw", "~*", "+@all", "-bf.addpacked")
        ways = [self.server.url, older.url, self.server.url.replace("//", "//old:pw@")]
        repeated = b"".join(b"%d\n" % (number * number % 1009) for number in range(3000))
        mixed = b"\0\0a\0a\nb\0" + b"".join(b"%04d\0" % number for number in range(100)) + b"a\n"
        loads = [
            (["--capacity", "20000", "--file", URLS], {}, 0),
            (["--capacity", "100"], {"input": b""}, 0),
            # It is full in the middle of a command, of a pipeline, and of items that come again.
            (["--capacity", "300", "--nonscaling", "--batch", "70"], {"input": repeated}, 1),
            (["--capacity", "1", "--nonscaling", "--batch", "1"], {"input": b"a\na\nb\na\nc\n"}, 1),
            (["--capacity", "50", "--null", "--batch", "7"], {"input": mixed}, 0),
        ]
        for number, (words, named, exit_code) in enumerate(loads):
            with self.subTest(words):
                dumps, texts, states = [], [], []
                for way, url in enumerate(ways):
                    state = self.folder / f"state-{number}-{way}"
                    shape = ["--error", "0.01", "--state", state, *words]
                    self.client.config_resetstat()
                    text = self.migrate("load", url, f"key {number}", *shape, exit_code=exit_code, **named)
                    calls = self.calls(self.client, ["bf.addpacked", "bf.madd"])
                    if named.get("input") != b"":
                        # The first one only asks whether there is such a command.
                        self.assertEqual([calls["bf.addpacked"] > 1, calls["bf.madd"] > 1], [way == 0, way > 0])
                    texts.append(re.sub(r"in [0-9.]+ s, [0-9,]+ items/s", "", text))
                    dumps.append(self.client.dump(f"key {number}"))
                    states.append(json.loads(state.read_text()))
                    states[-1].pop("target")
                    self.client.delete(f"key {number}")
                for what in (texts, dumps, states):
                    self.assertEqual(what, what[:1] * len(ways))

    def test_a_filter_of_another_is_loaded_in_words_that_it_knows(self):
        """One that follows would refuse the others, and silently be another filter from then on."""
        for layout, is_packed in (("classic", False), ("valkey", False), ("blocked", True)):
            shape = ["--error", "0.01", "--capacity", "100", "--layout", layout]
            for words in (shape, ["--add"]):
                self.client.config_resetstat()
                self.load(layout, *words, "--batch", "1", input=b"a\nb\nc\n")
                calls = self.calls(self.client, ["bf.addpacked", "bf.madd"])
                # The first one only asks whether there is such a command.
                self.assertEqual([calls["bf.addpacked"] > 1, calls["bf.madd"] > 1], [is_packed, not is_packed])
            self.assert_members(self.client, layout, ["a", "b", "c"])

    def test_large_items_go_in_commands_that_the_server_takes(self):
        self.client.config_set("proto-max-bulk-len", "2mb")
        items = [b"%d" % number * 60_000 for number in range(10, 100)] + [b"large" * 300_000, b"small"]
        self.load("large", "--error", "0.001", "--capacity", "1000", input=b"\n".join(items))
        self.assertEqual(self.client.execute_command("BF.CARD", "large"), len(items))
        for item in items:
            self.assertEqual(self.client.execute_command("BF.EXISTS", "large", item), 1)

    def test_items_are_packed_in_a_form_that_holds_them(self):
        width, lines, prefixed = ("WIDTH", 2), ("LINES",), ("PREFIXED",)
        forms = [
            ([b"ab", b"c\n"], width),
            ([b"ab"], width),
            ([b"ab", b""], lines),
            ([b"", b""], lines),
            ([b""], lines),
            ([b"\r", b"\0b", b" "], lines),
            ([b"\n", b""], prefixed),
            ([b"ab", b"c\nd"], prefixed),
            ([b"ab", b"x" * 70_000 + b"\n"], prefixed),
        ]
        for items, form in forms:
            words, data = migrate.packed(items)
            self.assertEqual(words, form, items)
            self.client.delete("packed")
            self.client.execute_command("BF.ADDPACKED", "packed", "ERROR", "1e-9", *words, "COUNT", data)
            self.assertEqual(self.client.execute_command("BF.CARD", "packed"), len(set(items)))
            self.assert_members(self.client, "packed", items)

    def test_batches_have_as_many_items_and_bytes_as_they_may(self):
        items = [b"a" * length for length in (1, 1, 1, 9, 1, 1, 1, 1)]
        for size in range(1, 10):
            for most_bytes in range(1, 20):
                parts = list(migrate.batches(items, size, most_bytes))
                self.assertEqual([item for part in parts for item in part], items)
                for part in parts:
                    self.assertTrue(len(part) <= size and (len(part) == 1 or sum(map(len, part)) <= most_bytes))
        self.assertEqual(list(map(len, migrate.batches(items, 3))), [3, 3, 2])

    def test_what_cannot_run_says_why(self):
        self.client.set("text", "x")
        self.client.execute_command("BF.ADD", "there", "a")
        shape = ["--error", "0.01", "--capacity", "100"]

        def says(text, *arguments):
            self.assertIn(text, self.load(*arguments, input=b"a\n", exit_code=2))

        says("there exists; --add adds to it", "there", *shape)
        says("text exists", "text", *shape)
        says("WRONGTYPE", "text", "--add")
        says("there is no missing", "missing", "--add")
        says("--error and --capacity are needed", "missing")
        says("--add takes the filter as it is", "there", "--add", *shape)
        says("error rate must be in the range", "bad", "--error", "2", "--capacity", "1", "--state", self.state)
        self.assertFalse(self.state.exists())
        self.load("there", "--add", input=b"b\n")
        self.assert_members(self.client, "there", ["a", "b"])
        whole = gzip.compress(b"a\n" * 1000)
        self.assertIn("is cut off", self.load("cut", *shape, input=whole[:-4], exit_code=2))


if __name__ == "__main__":
    unittest.main()
