"""`libbloom migrate`, tried as its users would: real servers, its command line, its exit codes."""

import base64
import contextlib
import functools
import gzip
import io
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from unittest import mock

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "tests/examples")]

import redis  # noqa: E402
import support  # noqa: E402
import servers  # noqa: E402
from redis.crc import key_slot  # noqa: E402
from servers import PATIENCE, URLS, BareServer, Cluster, Node, Server, unused_port  # noqa: E402

from libbloom import Filter, _load, _program, _server, _words  # noqa: E402
from libbloom._migrate import TEMPORARY  # noqa: E402

STORED = PROJECT / "tests/fixtures/redisbloom"
RIVAL = PROJECT / "tests/fixtures/valkey-bloom"
# In RDB format 11, which Redis 7.2 introduced, and 10, of Redis 7.0.
FILES = ["redisbloom-2.8.rdb", "redisbloom-2.6.rdb"]


@functools.cache
def stored_file():
    """The newest stored file that this server can load, or None."""
    for name in FILES:
        try:
            with Server(STORED / name):
                return STORED / name
        except support.Trouble as trouble:
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


class Case(servers.Case):
    def start_stored(self):
        if stored_file() is None:
            self.skipTest("this server is older than the stored RDB files")
        return self.start(Server(stored_file()))

    def migrate(self, *arguments, exit_code=0, **named):
        """Runs the program; gives what it printed."""
        done = subprocess.run(command("migrate", *arguments), capture_output=True, timeout=PATIENCE, **named)
        text = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, exit_code, text)
        self.assertNotIn("Traceback", text)
        return text

    def begin(self, *arguments):
        """The program in the background, killed at the end of the test if it still runs."""
        process = subprocess.Popen(
            command("migrate", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A shell that runs the tests in the background has told them to ignore it.
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_same(self, source, target, key):
        """The copy has the same bytes, figures and remaining time."""
        self.assertEqual(source.dump(key), target.dump(key), key)
        self.assertEqual(source.execute_command("BF.DEBUG", key), target.execute_command("BF.DEBUG", key), key)
        left = source.pttl(key)
        if left < 0:
            self.assertEqual(target.pttl(key), left)
        else:
            self.assertAlmostEqual(target.pttl(key), left, delta=20_000)

    def assert_same_chunks(self, source, target, key):
        """The copy has the same bits and figures, if not the same DUMP: servers compress it in their ways."""
        chunks, position = [], 0
        while not chunks or position:
            answers = [client.execute_command("BF.SCANDUMP", key, position) for client in (source, target)]
            self.assertEqual(*answers, key)
            position = answers[0][0]
            chunks.append(position)
        self.assertEqual(source.execute_command("BF.DEBUG", key), target.execute_command("BF.DEBUG", key), key)

    def has_begun(self):
        """Whether a load has saved a place in its input."""
        return self.state.exists() and json.loads(self.state.read_text())["lines"] > 0

    def assert_clean(self, client):
        self.assertEqual([key for key in client.keys() if key.endswith(TEMPORARY)], [])


def command(*arguments):
    return [sys.executable, "-m", "libbloom._program", *map(os.fspath, arguments)]


class FewDatabases(Server):
    ARGUMENTS = ("--databases", "4")


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

    def test_a_later_run_carries_expiries_over(self):
        """A filter would expire at the new server long before it does at the old one, or never."""
        source, old = self.start()
        target, new = self.start()
        hours = 3_600_000
        expiries = {"prolonged": 10, "shortened": 24, "set": None, "removed": 10, "same": 10}
        for key, expiry in expiries.items():
            old.execute_command("BF.ADD", key, "a")
            if expiry:
                old.pexpire(key, expiry * hours)
        copy = ["copy", source.url, target.url, "--state", self.state]
        self.migrate(*copy)
        old.pexpire("prolonged", 24 * hours)
        old.pexpire("shortened", 9 * hours)
        old.pexpire("set", 12 * hours)
        old.persist("removed")

        text = self.migrate(*copy, exit_code=1)
        self.assertIn("by an earlier run: 1, not copied: 4;", text)
        self.assertRegex(text, r"not copied: prolonged: it expires in 8[56],\d+ s now, the copy expires in 3[56],\d+ s; --rep")
        self.assertRegex(text, r"not copied: set: it expires in 4[23],\d+ s now, the copy never expires; --replace changes that")
        self.assertRegex(text, r"not copied: removed: it never expires now, the copy expires in 3[56],\d+ s; --replace")
        self.assertEqual(new.pttl("set"), -1)
        text = self.migrate(*copy, "--replace")
        self.assertIn("copied: 0, by an earlier run: 5 (4 with another expiry now), not copied: 0;", text)
        for key in expiries:
            self.assert_same(old, new, key)
        self.assertIn("copied: 0, by an earlier run: 5, not copied: 0;", self.migrate(*copy, "--replace"))

        # A copy that expired before its expiry was prolonged is made again.
        new.delete("prolonged")
        self.assertIn("copied: 1, by an earlier run: 4, not copied: 0;", self.migrate(*copy))
        self.assertGreater(new.pttl("prolonged"), 10 * hours)

    def test_a_later_run_carries_deletions_over(self):
        """What was deleted at the old server would go on answering at the new one."""
        source, old = self.start()
        target, new = self.start()
        for key in ("stays", "goes", "goes too", "is used", "becomes text", "expires"):
            old.execute_command("BF.ADD", key, "a")
        copy = ["copy", source.url, target.url, "--state", self.state]
        self.migrate(*copy)
        new.execute_command("BF.ADD", "strangers", "a")
        for key in ("goes", "goes too", "is used", "becomes text", "expires"):
            old.delete(key)
        old.set("becomes text", "x")
        new.execute_command("BF.ADD", "is used", "b")
        new.delete("expires")

        text = self.migrate(*copy, "--replace", exit_code=1)
        self.assertIn("copied: 0, by an earlier run: 1, not copied: 4;", text)
        for key in ("goes", "goes too", "is used"):
            self.assertIn(f"not copied: {key}: the source no longer has it, and the target has the copy; --delete", text)
        self.assertRegex(text, "not copied: becomes text: WRONGTYPE")
        # A selection looks at what is gone, too.
        (self.folder / "keys").write_text("stays\ngoes\n")
        text = self.migrate(*copy, "--keys", self.folder / "keys", exit_code=1)
        self.assertEqual(text.count("not copied: goes: the source no longer has it"), 1)
        text = self.migrate(*copy, "--delete", exit_code=1)
        self.assertIn("by an earlier run: 1, deleted: 2, not copied: 2;", text)
        self.assertIn("not copied: is used: the source no longer has it, and the target's has changed since", text)
        self.assertEqual(set(new.keys()), {b"stays", b"strangers", b"is used", b"becomes text"})
        self.assert_members(new, "is used", ["a", "b"])

        # Nothing is deleted that this copy has not made.
        new.delete("is used", "becomes text")
        old.delete("becomes text", "stays")
        other = ["copy", source.url, target.url, "--state", self.folder / "other", "--delete"]
        self.assertIn("no filters found", self.migrate(*other))
        self.assertEqual(set(new.keys()), {b"stays", b"strangers"})
        self.assertIn("deleted: 1, not copied: 0;", self.migrate(*copy, "--delete"))
        self.assertEqual(new.keys(), [b"strangers"])

    def test_a_copy_that_is_used_is_left_alone(self):
        """Who starts the copy once more after the switch would lose what clients have added since."""
        source, old = self.start()
        target, new = self.start()
        for key in ("one", "two"):
            old.execute_command("BF.ADD", key, "a")
        old.execute_command("BF.RESERVE", "classic", 0.01, 1000, "LAYOUT", "CLASSIC")
        copy = ["copy", source.url, target.url, "--state", self.state, "--replace"]
        self.migrate(*copy)
        new.execute_command("BF.ADD", "one", "b")
        text = self.migrate(*copy, exit_code=1)
        self.assertIn("not copied: one: the target's has changed since it was copied; delete it there to have it", text)
        self.assertIn("copied: 0, by an earlier run: 2, not copied: 1;", text)
        self.assert_members(new, "one", ["a", "b"])

    def test_a_cluster_is_copied_through_any_of_its_servers(self):
        """The filters of the other nodes would be missing, and every key with braces refused."""
        source, old = self.start()
        cluster = Cluster(type(self))
        names = [b"a}b", b"{tag}x", b"{", *(b"filter %d" % number for number in range(20))]
        for name in names:
            old.execute_command("BF.ADD", name, b"item of " + name)
        copy = ["copy", source.url, cluster.url, "--state", self.state, "--verify"]
        self.assertIn("copied: 23 (23 read back), by an earlier run: 0, not copied: 0;", self.migrate(*copy))
        self.assertTrue(all(client.dbsize() for client in cluster.clients))
        back, new = self.start()
        self.assertIn("copied: 23, ", self.migrate("copy", cluster.url, back.url))
        for name in names:
            self.assert_same(old, new, name)
        text = self.migrate("load", cluster.url, "{list}", "--error-rate", "0.01", "--capacity", "100", input=b"a\nb\n")
        self.assertIn("{list} has 2 items", text)
        here, there = self.folder / "here.bloom", self.folder / "there.bloom"
        Filter(1000, seed=7).save(here)
        for key in ("a}b", "pushed"):
            for words in (["push", here, key], ["pull", key, "-o", there]):
                words = command(*words, "--url", cluster.url)
                done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(Filter.load(there), Filter.load(here))

    def test_a_cluster_with_one_primary_tells_its_databases(self):
        """Filters of the others would be left out, and nobody be told."""
        node = servers.Node()
        _, client = self.start(node)
        client.execute_command("CLUSTER ADDSLOTS", *range(servers.SLOTS))
        self.wait_until(lambda: re.search(r"cluster_state\W+ok", str(client.execute_command("CLUSTER INFO"))))
        client.set("key", "x")
        self.assertEqual(_server.Server("source", f"redis://127.0.0.1:{node.port}").databases(), {0})

    def test_filters_of_all_databases_are_copied(self):
        """Whoever switches after exit code 0 would have lost those of every database but one."""
        source, old = self.start()
        target, new = self.start()
        here, there = (server.url.removesuffix("/0") for server in (source, target))

        def of(client, number):
            return self.of_database(client, number)

        for number, key in [(0, "zero"), (1, "one"), (1, "same"), (9, "same"), (9, "nine")]:
            of(old, number).execute_command("BF.ADD", key, f"item of {number}")
        of(old, 5).set("no filter", "x")
        copy = ["copy", here, there, "--state", self.state]
        self.assertIn("copied: 5 (5 read back), by an earlier run: 0, not copied: 0;", self.migrate(*copy, "--verify"))
        for number, keys in [(0, ["zero"]), (1, ["one", "same"]), (9, ["same", "nine"])]:
            self.assertEqual(set(of(new, number).keys()), {key.encode() for key in keys})
            for key in keys:
                self.assert_same(of(old, number), of(new, number), key)
                self.assert_members(of(new, number), key, [f"item of {number}"])
        self.assertEqual(of(new, 5).dbsize(), 0)
        # A later run knows each by its database, also in one that is empty by then.
        of(old, 1).execute_command("BF.ADD", "same", "more")
        of(old, 9).flushdb()
        text = self.migrate(*copy, "--replace", exit_code=1)
        self.assertIn("copied: 1, by an earlier run: 2, not copied: 2;", text)
        text = self.migrate(*copy, "--replace", "--delete")
        self.assertIn("copied: 0, by an earlier run: 3, deleted: 2, not copied: 0;", text)
        self.assertEqual((of(new, 9).dbsize(), of(new, 1).dbsize()), (0, 2))

    def test_databases_that_are_left_out_are_named(self):
        """Whoever switches after exit code 0 would have lost their filters."""
        source, old = self.start()
        target, new = self.start(FewDatabases())
        here, there = (server.url.removesuffix("/0") for server in (source, target))
        for number in (0, 1, 1, 9):
            self.of_database(old, number).execute_command("BF.ADD", f"key {self.of_database(old, number).dbsize()}", "a")
        self.of_database(old, 7).set("no filter", "x")
        text = self.migrate("copy", here, there, exit_code=1)
        self.assertRegex(text, r"not copied: database 9 \(1 filters\): target 127.0.0.1:\d+/9: DB index is out of range")
        self.assertIn("filters copied: 3, by an earlier run: 0, not copied: 1;", text)
        new.flushall()
        # A URL with a number means that database, and the others are named as well.
        text = self.migrate("copy", source.url, there, exit_code=1)
        self.assertIn("not copied: database 1 (2 filters): the source's URL names 0; without a number all are copied", text)
        self.assertIn("filters copied: 1, by an earlier run: 0, not copied: 3;", text)
        self.assertNotIn("database 7", text)
        # Who says so copies one, to its number or to the one of the target's URL.
        self.assertIn("filters copied: 2,", self.migrate("copy", here, there, "--db", "1"))
        self.assertIn("filters copied: 1,", self.migrate("copy", here, f"{there}/2", "--db", "9"))
        self.assertEqual([self.of_database(new, number).dbsize() for number in range(4)], [1, 2, 1, 0])
        text = self.migrate("copy", here, target.url, "--replace", exit_code=1)
        self.assertIn("not copied: database 1 (2 filters): the target's URL names 0; without a number each goes to its", text)
        # A cluster has one database; a user who may not ask does not know.
        cluster = Cluster(type(self))
        text = self.migrate("copy", here, cluster.url, exit_code=1)
        self.assertIn("not copied: database 1 (2 filters): the target is a cluster, where only database 0 is", text)
        self.assertIn("filters copied: 1, by an earlier run: 0, not copied: 3;", text)
        old.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~*", "+@all", "-info")
        text = self.migrate("copy", here.replace("//", "//few:pw@"), there, "--replace", exit_code=1)
        self.assertIn("not copied: other databases: the user may not run INFO", text)
        self.migrate("copy", here.replace("//", "//few:pw@"), there, "--replace", "--db", "0")

    def of_database(self, client, number):
        """A client of another database of its server."""
        options = client.connection_pool.connection_kwargs
        other = redis.Redis(host=options["host"], port=options["port"], db=number)
        self.addCleanup(other.close)
        return other

    def test_what_is_excepted_or_merged_or_made_anew_has_changed(self):
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
        old.execute_command("BF.MADD", "classic", *range(300))
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

        old.execute_command("BF.MERGE", "blocked", 1, "part")
        check("blocked")
        self.assertEqual([*map(int, new.execute_command("BF.MEXISTS", "blocked", "a", "b", "x"))], [1, 0, 1])

        header = old.execute_command("BF.SCANDUMP", "classic", 0)
        old.execute_command("BF.RESET", "classic")
        old.execute_command("BF.MADD", "classic", *range(1000, 1300))
        self.assertEqual(old.execute_command("BF.SCANDUMP", "classic", 0), header, "as many items as before")
        check("classic")
        self.assertEqual([*map(int, new.execute_command("BF.MEXISTS", "classic", 0, 1000))], [0, 1])
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
        filter = _server.filter_of(payload)
        self.assertEqual((filter.layers, sum(filter.contains_many([b"%d" % number for number in range(100)]))), (3, 100))
        # A server that is newer than this package.
        with self.assertRaisesRegex(_server.NotCopied, "RDB version 65535 is not known"):
            _server.filter_of(payload[:-10] + b"\xff\xff" + payload[-8:])
        for length in range(len(payload)):
            with self.assertRaises(_server.NotCopied):
                _server.filter_of(payload[:length])
        with self.assertRaisesRegex(_server.NotCopied, "DUMP gives what is no filter of valkey-bloom 1"):
            _server.filter_of(client.dump("text"))

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

        def write(block):
            """An item comes whenever the copy asks for a chunk."""
            if b"BF.SCANDUMP" in block and not stop.is_set():
                added.append(b"item %d" % len(added))
                old.execute_command("BF.ADD", "busy", added[-1])
            return block

        busy = self.open(source, write)
        text = self.migrate("copy", busy.url, target.url, "--attempts", "2", exit_code=1)
        self.assertIn("again: busy: it changed while it was copied, and has", text)
        self.assertIn("items now, 2 times; stop its writers, or try when there are fewer", text)
        self.assertEqual(new.keys(), [])

        process = self.begin("copy", busy.url, target.url, "--attempts", "100", "--verify")
        self.assertIn(b"again: busy", process.stderr.readline())
        stop.set()
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
        # Several chunks. Most of it is never written, and so takes no memory here.
        old.execute_command("BF.RESERVE", "large", "0.01", 40_000_000, "NONSCALING")
        old.execute_command("BF.MADD", "large", *range(1000))
        old.execute_command("BF.MADD", "z", *range(100))
        temporary = _words.beside(b"large", TEMPORARY)
        held, release = self.hold(target, lambda: new.exists(temporary))
        copy = ["copy", source.url, held.url, "--state", self.state]

        process = self.begin(*copy)
        self.wait_until(lambda: new.exists(temporary))
        process.kill()
        process.wait()
        release()
        self.assertEqual(set(new.keys()), {b"a", b"b", temporary}, "nobody meets half a filter")

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
        new.rename("not renamed", _words.beside(b"not renamed", TEMPORARY))
        self.assertIn("copied: 1, by an earlier run: 1, not copied: 0;", self.migrate(*copy))
        self.assert_same(old, new, "not renamed")
        self.assert_clean(new)

    def test_a_filter_with_the_name_of_an_unfinished_copy_is_named(self):
        """It would be missing in the target, and nobody would know: its name is left to the copy of another filter."""
        source, old = self.start()
        target, new = self.start()
        for key in ("x", "x:bloom-migrate", "{x}:bloom-migrate"):
            old.execute_command("BF.ADD", key, "item")
        keys = self.folder / "keys"
        keys.write_text("x\nx:bloom-migrate\n{x}:bloom-migrate\n")
        for words in ([], ["--keys", keys, "--replace"]):
            text = self.migrate("copy", source.url, target.url, *words, exit_code=1)
            for key in ("x:bloom-migrate", "{x}:bloom-migrate"):
                self.assertIn(f"not copied: {key}: this is the name of an unfinished copy: delete what a killed run left", text)
            self.assertIn("copied: 1, by an earlier run: 0, not copied: 2;", text)
        self.assertEqual(new.keys(), [b"x"])

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
        nowhere = f"redis://127.0.0.1:{unused_port(self)}/0"

        def says(text, *arguments):
            self.assertIn(text, self.migrate("copy", *arguments, exit_code=2))

        says("has no BF.SCANDUMP", bare.url, target.url)
        says("has no BF.LOADCHUNK", source.url, bare.url)
        says("source 127.0.0.1:", nowhere, target.url)
        says("target 127.0.0.1:", source.url, nowhere)
        says("URL must specify", "localhost", target.url)
        says("are the same database", source.url, source.url.replace("127.0.0.1", "127.1"))
        says("No such file", source.url, target.url, "--keys", self.folder / "missing")
        self.migrate("copy", source.url, target.url, "--state", self.state)
        says("is the state of another copy", target.url, source.url, "--state", self.state)
        self.state.write_text("something else\n")
        says("is no state file of a copy", source.url, target.url, "--state", self.state)

    def test_temporary_names_stay_in_their_slot(self):
        names = [b"", b"a", b"{a}b", b"a{b}c", b"{", b"}", b"{}", b"{}a", b"a}b", b"a{b", b"}{", b"{{a}}", b"\xff{"]
        for name in names:
            temporary = _words.beside(name, TEMPORARY)
            self.assertEqual(key_slot(temporary), key_slot(name), name)
            self.assertTrue(temporary.endswith(TEMPORARY))
        self.assertEqual(len({_words.beside(name, TEMPORARY) for name in names}), len(names))


class LoadTest(Case):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()

    def load(self, *arguments, **named):
        return self.migrate("load", self.server.url, *arguments, **named)

    def test_a_gzip_file_is_loaded(self):
        text = self.load("urls", "--error-rate", "0.001", "--capacity", "20000", "--file", URLS)
        urls = stored_filters()[b"rb:urls"]
        self.assert_members(self.client, "urls", urls)
        items = self.client.execute_command("BF.CARD", "urls")
        self.assertLess(0.998 * len(urls), items)
        self.assertIn(f"59,226 items, {items:,} new and {59_226 - items:,} known", text)
        self.assertIn(f"urls has {items:,} items", text)

    def test_a_filter_of_a_list_of_unknown_length_is_as_small_as_its_items(self):
        """The server would keep 256 MB for a list of some lines."""
        items = b"".join(b"item %d\n" % number for number in range(50_000))
        shape = ["--error-rate", "0.01"]
        for layout in ("blocked", "classic"):
            self.load(layout, *shape, "--layout", layout, input=items)
            self.assert_members(self.client, layout, items.split(b"\n")[:-1])
            full = _words.fields(self.client.execute_command("BF.INFO", layout, "FULL"))
            self.assertLess(full["Size"], 1.4 * 50_000 * 11 / 8)
        needed = "libbloom: --capacity is needed: "
        valkey = f"{needed}a filter of valkey-bloom's layout cannot be shrunk afterwards\n"
        self.assertEqual(self.load("x", *shape, "--layout", "valkey", input=items, exit_code=2), valkey)
        self.assertEqual(self.client.exists("x"), 0)

    def test_a_list_of_unknown_length_fits_the_server_s_configuration(self):
        """The filter would stay at 256 MB, for it could not be divided or not be shrunk at all."""
        items = b"".join(b"item %d\n" % number for number in range(50_000))

        def begin(*arguments):
            return self.start(type("Configured", (Server,), {"ARGUMENTS": arguments})())

        def load(server, exit_code=2):
            return self.migrate("load", server.url, "key", "--error-rate", "0.01", input=items, exit_code=exit_code)

        for options in (["bf-layout", "classic"], ["bf-expansion-factor", "0"], ["bf-layout", "classic", "bf-expansion-factor", "0"]):
            server, client = begin(*options)
            load(server, 0)
            full = _words.fields(client.execute_command("BF.INFO", "key", "FULL"))
            self.assertLess(full["Size"], 1.4 * 50_000 * 11 / 8, options)
        needed = "libbloom: --capacity is needed: "
        server, client = begin("bf-layout", "valkey")
        self.assertEqual(load(server), f"{needed}a filter of valkey-bloom's layout cannot be shrunk afterwards\n")
        self.assertEqual(client.exists("key"), 0)
        server, client = begin("bf-max-filter-bytes", "1mb")
        hint = " (for a list of unknown length, 256 MiB are needed: --capacity takes less)\n"
        self.assertTrue(load(server).endswith(hint))
        self.assertEqual(client.exists("key"), 0)
        for command in ("bf.shrink", "bf.plan"):
            server, client = begin()
            client.execute_command("ACL", "SETUSER", "default", f"-{command}")
            said = f"{needed}the server has no BF.SHRINK and BF.PLAN, or forbids them\n"
            self.assertEqual(load(server), said)

    def test_a_load_that_is_refused_changes_nothing(self):
        """A filter that is there already would be shrunk."""
        for number, capacity in enumerate((1_000_000, 2_000_000)):
            self.client.execute_command("BF.RESERVE", f"part{number}", 0.01, capacity, "SEED", 5)
            self.client.execute_command("BF.ADD", f"part{number}", number)
        self.client.execute_command("BF.MERGE", "both", 2, "part0", "part1", "ERROR", 0.02)
        before = self.client.dump("both")
        self.assertIn("both exists", self.load("both", "--error-rate", "0.01", input=b"a\n", exit_code=2))
        self.assertEqual(self.client.dump("both"), before)

    def test_items_are_bytes(self):
        shape = ["--error-rate", "0.0001", "--capacity", "100"]
        self.load("lines", *shape, input=b"a\xff\n\n b\r\nc")
        self.assert_members(self.client, "lines", [b"a\xff", b"", b" b", b"c"])
        self.assertEqual(self.client.execute_command("BF.CARD", "lines"), 4)
        self.load("nul", *shape, "--null", input=b"a\r\n\0\0b\r\0")
        self.assert_members(self.client, "nul", [b"a\r\n", b"", b"b\r"])
        self.assertEqual(self.client.execute_command("BF.CARD", "nul"), 3)
        self.load(b"\xff key", *shape, input=b"a")
        self.assertTrue(self.client.exists(b"\xff key"))

    def test_a_killed_load_is_resumed(self):
        count = 300_000
        items = self.folder / "items"
        items.write_bytes(b"".join(b"item %d\n" % number for number in range(count)))
        shape = ["big", "--error-rate", "0.001", "--capacity", str(count), "--state", self.state, "--batch", "100"]
        held, release = self.hold(self.server, self.has_begun)
        load = functools.partial(self.migrate, "load", held.url, *shape, "--file", items)
        process = self.begin("load", held.url, *shape, "--file", items)
        self.wait_until(self.has_begun)
        process.kill()
        process.wait()
        release()
        self.assertLess(self.client.execute_command("BF.CARD", "big"), count, "it was killed too late")

        load()
        self.assert_members(self.client, "big", [b"item %d" % number for number in range(count)])
        state = json.loads(self.state.read_text())
        self.assertEqual(state["lines"], count)

        # Lines that were added to the file are loaded, and another file is noticed.
        with open(items, "ab") as file:
            file.write(b"one more\n")
        self.assertIn("1 items,", load())
        items.write_bytes(b"other\n" + items.read_bytes())
        self.assertIn("are not those that", load(exit_code=2))
        items.write_bytes(b"short\n")
        self.assertIn("the input ends", load(exit_code=2))
        self.client.delete("big")
        self.assertIn("there is no big; without", load(exit_code=2))

    def test_items_that_the_server_lost_are_noticed(self):
        """A server that came back from an old file, or a filter that somebody made anew, would deny the first lines."""
        items = b"".join(b"item %d\n" % number for number in range(1000))
        shape = ["key", "--error-rate", "0.001", "--capacity", "2000", "--state", self.state]
        self.load(*shape, input=items)
        more = items + b"more\n"
        self.assertIn("1 items,", self.load(*shape, input=more))
        self.client.delete("key")
        self.client.execute_command("BF.ADD", "key", "item 0")
        text = self.load(*shape, input=more + b"and more\n", exit_code=2)
        self.assertRegex(text, "^libbloom: key has 1 items, and had (1,00[01]|99[0-9]) when .* was saved: it was replaced, or")
        self.assertEqual(self.client.execute_command("BF.CARD", "key"), 1)
        # One that forgets may have fewer.
        self.client.delete("key")
        self.client.execute_command("BF.RESERVE", "key", "0.001", 2000, "WINDOW", 3600)
        self.assertIn("2 items,", self.load(*shape, input=more + b"1\n2\n"))

    def test_a_full_filter_ends_the_load(self):
        items = b"".join(b"%d\n" % number for number in range(1000))
        text = self.load("full", "--error-rate", "0.01", "--capacity", "500", "--fixed", input=items, exit_code=1)
        self.assertIn("non scaling filter is full", text)
        self.assertEqual(self.client.execute_command("BF.CARD", "full"), 500)

    def test_only_an_item_that_does_not_fit_is_a_no(self):
        """A script that makes a larger filter on exit code 1 would do so when the server refuses any writes."""
        items = b"".join(b"%d\n" % number for number in range(1000))
        for way in (self.server, self.start_older(self.server)):
            self.client.flushall()
            self.client.execute_command("BF.RESERVE", "key", "0.01", 100_000)
            self.client.config_set("min-replicas-to-write", 1)
            try:
                text = self.migrate("load", way.url, "key", "--add", input=items, exit_code=2)
            finally:
                self.client.config_set("min-replicas-to-write", 0)
            self.assertIn("NOREPLICAS", text)
            self.client.config_set("maxmemory", 1)
            try:
                text = self.migrate("load", way.url, "key", "--add", input=items, exit_code=1)
            finally:
                self.client.config_set("maxmemory", 0)
            self.assertRegex(text, "maxmemory|Insufficient memory")

    def test_a_filter_gets_the_layout_that_is_asked_for(self):
        shape = ["--error-rate", "0.01", "--capacity", "100", "--expansion", "4"]
        for layout in ("classic", "valkey", "blocked"):
            self.load(layout, *shape, "--layout", layout, input=b"a\n")
            full = _words.fields(self.client.execute_command("BF.INFO", layout, "FULL"))
            self.assertEqual(full["Layout"].decode(), layout)
            info = _words.fields(self.client.execute_command("BF.INFO", layout))
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
            (["--capacity", "300", "--fixed", "--batch", "70"], {"input": repeated}, 1),
            (["--capacity", "1", "--fixed", "--batch", "1"], {"input": b"a\na\nb\na\nc\n"}, 1),
            (["--capacity", "50", "--null", "--batch", "7"], {"input": mixed}, 0),
        ]
        for number, (words, named, exit_code) in enumerate(loads):
            with self.subTest(words):
                dumps, texts, states = [], [], []
                for way, url in enumerate(ways):
                    state = self.folder / f"state-{number}-{way}"
                    shape = ["--error-rate", "0.01", "--state", state, *words]
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
            shape = ["--error-rate", "0.01", "--capacity", "100", "--layout", layout]
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
        self.load("large", "--error-rate", "0.001", "--capacity", "1000", input=b"\n".join(items))
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
            ([b"\ra", b"\0b", b" "], lines),
            ([b"a", b"bc\r"], prefixed),
            ([b"\n", b""], prefixed),
            ([b"ab", b"c\nd"], prefixed),
            ([b"ab", b"x" * 70_000 + b"\n"], prefixed),
        ]
        for items, form in forms:
            words, data = _load.packed(items)
            self.assertEqual(words, form, items)
            self.client.delete("packed")
            self.client.execute_command("BF.ADDPACKED", "packed", "ERROR", "1e-9", *words, "COUNT", data)
            self.assertEqual(self.client.execute_command("BF.CARD", "packed"), len(set(items)))
            self.assert_members(self.client, "packed", items)

    def test_batches_have_as_many_items_and_bytes_as_they_may(self):
        items = [b"a" * length for length in (1, 1, 1, 9, 1, 1, 1, 1)]
        for size in range(1, 10):
            for most_bytes in range(1, 20):
                parts = list(_load.batches(items, size, most_bytes))
                self.assertEqual([item for part in parts for item in part], items)
                for part in parts:
                    self.assertTrue(len(part) <= size and (len(part) == 1 or sum(map(len, part)) <= most_bytes))
        self.assertEqual(list(map(len, _load.batches(items, 3))), [3, 3, 2])

    def test_what_cannot_run_says_why(self):
        self.client.set("text", "x")
        self.client.execute_command("BF.ADD", "there", "a")
        shape = ["--error-rate", "0.01", "--capacity", "100"]

        def says(text, *arguments):
            self.assertIn(text, self.load(*arguments, input=b"a\n", exit_code=2))

        says("there exists; --add adds to it", "there", *shape)
        says("text exists", "text", *shape)
        says("WRONGTYPE", "text", "--add")
        says("there is no missing", "missing", "--add")
        says("--error-rate is needed", "missing")
        says("--add takes the filter as it is", "there", "--add", *shape)
        says("error rate must be in the range", "bad", "--error-rate", "2", "--capacity", "1", "--state", self.state)
        self.assertFalse(self.state.exists())
        self.load("there", "--add", input=b"b\n")
        self.assert_members(self.client, "there", ["a", "b"])
        whole = gzip.compress(b"a\n" * 1000)
        self.assertIn("is cut off", self.load("cut", *shape, input=whole[:-4], exit_code=2))


class Alone(Node):
    """A node of a cluster that has no slots."""

    url = Server.url


class Page(socketserver.BaseRequestHandler):
    """Answers as a program for the web does."""

    def handle(self):
        self.request.recv(1 << 16)
        self.request.sendall(b"<html>400 Bad Request</html>\r\n")


class TroubleTest(Case):
    """A stranger's first try is often without a server: a trace of Python's tells nothing of what to do, and its exit
    code 1 would say that a password is leaked."""

    COMMANDS = {
        "migrate copy": "{url} {url}",
        "migrate load": "{url} key --error-rate 0.01 --capacity 100",
        "passwords load": "{url} key --error-rate 0.01 --capacity 100",
        "passwords check": "{url} key --stdin",
        "pull": "key -o x.bloom --url {url}",
    }
    LOADS = ("migrate load", "passwords load")

    def complaint(self, words, arguments, url, **named):
        """The one line that the program ends with."""
        words = command(*words.split(), *arguments.format(url=url, folder=self.folder).split())
        named = {"stdin": subprocess.DEVNULL, **named}
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder, **named)
        self.assertEqual((done.returncode, done.stdout), (2, ""), f"{words}: {done.stdout}{done.stderr}")
        [line] = done.stderr.splitlines()
        self.assertRegex(line, "^libbloom( [a-z]+)*: ")
        return line

    def test_without_a_server_or_the_module(self):
        bare, _ = self.start(BareServer())
        alone, _ = self.start(Alone())
        nowhere = f"redis://127.0.0.1:{unused_port(self)}"
        for words, arguments in self.COMMANDS.items():
            with self.subTest(words):
                self.assertIn("Connection refused", self.complaint(words, arguments, nowhere))
                self.assertIn("URL must specify", self.complaint(words, arguments, "localhost"))
                self.assertRegex(self.complaint(words, arguments, bare.url), "load the module there|unknown command")
                self.assertRegex(self.complaint(words, arguments, alone.url), "(?i)cluster|slot")

    def test_a_server_that_is_silent(self):
        """A port for other things, or without TLS, would hold the program up for minutes, without a word."""
        server, _ = self.start()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            for url, hint in [
                (f"redis://127.0.0.1:{port}", ""),
                (f"rediss://127.0.0.1:{port}", ", or its port is not for TLS, then it is redis://"),
                (server.url.replace("redis:", "rediss:"), ", or its port is not for TLS, then it is redis://"),
            ]:
                with self.subTest(url), mock.patch.object(_server, "CONNECT_TIMEOUT", 1):
                    with self.assertRaises(_server.Trouble) as raised:
                        _server.Server("server", url)
                    place = url.partition("//")[2].removesuffix("/0")
                    said = f"server {place}/0: no answer for 1 seconds: the address is wrong or it hangs{hint}"
                    self.assertEqual(str(raised.exception), said)
        # Each answer may take longer.
        place = _server.Server("server", server.url).client.connection_pool.connection_kwargs
        self.assertEqual(place["socket_timeout"], _server.ANSWER_TIMEOUT)

    def test_a_port_of_another_program(self):
        """Who mistypes a port would look for damage, and not know at which of the servers."""
        server, _ = self.start()
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Page) as other:
            threading.Thread(target=other.serve_forever, args=(0.05,)).start()
            self.addCleanup(other.shutdown)
            place = f"127.0.0.1:{other.server_address[1]}"
            for words, arguments, role in [
                ("pull", "key -o x.bloom --url {url}", "server"),
                ("migrate copy", f"{server.url} {{url}}", "target"),
            ]:
                said = "this is no server of Redis or Valkey, or its port is for TLS, then it is rediss:// ("
                line = self.complaint(words, arguments, f"redis://{place}")
                self.assertTrue(line.startswith(f"libbloom: {role} {place}/0: {said}"), line)
            other.shutdown()

    def test_what_names_no_database_is_refused(self):
        """A push would replace the filter of another database, and a copy read another one, with exit code 0."""
        server, client = self.start()
        other, new = self.start()
        said = ": the database of the URL is not one number: write redis://host:6379/3 or unix:///path?db=3 for database 3\n"
        client.execute_command("BF.ADD", "key", "a")
        before = client.dump("key")
        here, there = (one.url.removesuffix("/0") for one in (server, other))
        for end in (
            *("/db1", "/0x1", "/1/2", "/-1", "/+1", "/ 1", "/1;2", "/1_2", "/\u0663", "//1", "/1/", "/%31", "/1\n2"),
            *("?db=x", "?db=", "?db=1_2", "?db=-1", "/1?db=2", "?db=1&db=2", "/" + "9" * 5000),
        ):
            for words in [
                ["push", self.filter(), "key", "--url", here + end],
                ["migrate", "copy", here + end, f"{there}/3"],
                ["migrate", "copy", here, there + end],
                ["shard", "status", "key", "--url", here + end],
            ]:
                with self.subTest(words):
                    code, line = self.said(words)
                    self.assertEqual(code, 2)
                    self.assertRegex(line, f"^libbloom: (server|source|target){re.escape(said)}$")
        for end in ("#1", "/#1", "/1#x", "?db=1#x"):
            _, line = self.said(["push", self.filter(), "key", "--url", here + end])
            self.assertIn("the URL has a #, and what follows it would be left out", line)
        self.assertEqual((client.dump("key"), list(client.info("keyspace")), new.dbsize()), (before, ["db0"], 0))
        self.assertEqual(new.info("keyspace"), {})
        # What is a number.
        path = self.folder / "socket"
        for url, number in {
            **{here + end: 0 for end in ("", "/", "/0", "/00", "?db=0", "/0?db=0")},
            **{here + end: 3 for end in ("/3", "?db=3", "/?db=3", "/3?db=3", "/03")},
            f"unix://{path}": 0,
            f"unix://{path}?db=3": 3,
        }.items():
            _server.check_url("server", url)
            self.assertEqual(redis.Redis.from_url(url).connection_pool.connection_kwargs.get("db", 0), number, url)

    def test_a_port_that_cannot_be_is_named(self):
        """Somebody would look for what is wrong with the password, or reach the server of the usual port."""
        for port in ("99999", "x", "0", "-1"):
            for place in ("127.0.0.1", "user:s%40ret@127.0.0.1"):
                with self.subTest(port, place=place):
                    code, line = self.said(["pull", "key", "-o", "x", "--url", f"redis://{place}:{port}/0"])
                    self.assertEqual((code, line), (2, "libbloom: server: the port of the URL is no number from 1 to 65535\n"))

    def test_a_long_message_is_shown_at_once(self):
        """Whoever may choose an argument could keep the program busy for hours."""
        for text in ("://" * 40_000, "a:" * 60_000, ":@" * 60_000, "a" * 120_000, "://" * 40_000 + "@"):
            code, line = self.said(["plan", text])
            self.assertEqual((code, line.count("\n")), (2, 1))

    def test_no_password_is_shown(self):
        """It would stand in logs and on screens, for the one character that was not escaped."""
        server, client = self.start()
        port = server.url.partition("127.0.0.1:")[2].removesuffix("/0")
        for password in ["sec#ret", "sec/ret", "sec?ret", "sec[ret", "12/ret", "sec]/ret", "sec\u2100ret", "sec%ret", "sec@ret", "s%40ret"]:
            url = f"redis://user:{password}@127.0.0.1:{port}/0"
            for words in [
                ["pull", "key", "-o", "x.bloom", "--url", url],
                ["migrate", "copy", url, server.url],
                ["migrate", "copy", server.url, url],
                ["migrate", "load", url, "key", "--add"],
                ["shard", "status", "seen", "--url", url],
                # Where no URL belongs.
                ["migrate", url],
                ["push", "a", "b", url],
                ["migrate", "load", server.url, "key", "--batch", url],
                ["plan", url],
                # A mistake in its first word.
                ["plan", url.replace("redis://", "redis:/")],
                ["push", "a", "b", url.removeprefix("redis://")],
            ]:
                with self.subTest(words):
                    code, line = self.said(words)
                    self.assertEqual(code, 2)
                    self.assertRegex(line, "^libbloom[^\n]*\n$")
                    for part in (password, *re.split(r"[#/?\[\]%@\u2100]", password)):
                        if len(part) > 2:
                            self.assertNotIn(part, line)
        client.config_set("requirepass", "p/w#")
        self.addCleanup(client.config_set, "requirepass", "")
        for password, said in [("p/w#", "the URL is not understood: in a user and a password write"), ("p%2Fw%23", "no filter 'key'")]:
            line = self.complaint("pull", "key -o x.bloom --url {url}", f"redis://:{password}@127.0.0.1:{port}")
            self.assertIn(said, line)

    def said(self, words):
        """The program's exit code, and what it says on standard error."""
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            try:
                code = _program.main([os.fspath(word) for word in words])
            except SystemExit as end:
                code = end.code
        return code, text.getvalue()

    def test_without_redis_py(self):
        """The package alone does not bring it."""
        (self.folder / "redis").mkdir()
        (self.folder / "redis/__init__.py").write_text("raise ImportError\n")
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        for words, arguments in self.COMMANDS.items():
            line = self.complaint(words, arguments, "redis://127.0.0.1", env=environment)
            self.assertEqual(line, "libbloom: redis-py is missing: pip install 'libbloom[redis]'")

    def test_a_key_that_holds_something_else_is_left_alone(self):
        """Whoever mistypes a key would lose what it holds."""
        server, client = self.start()
        client.set("text", "no filter")
        for words, arguments in {
            "migrate load": "{url} text --add",
            "migrate load --error-rate 0.01 --capacity 9": "{url} text",
            "passwords check": "{url} text --stdin",
            "passwords load": "{url} text --error-rate 0.01 --capacity 100",
            "pull": "text -o x.bloom --url {url}",
            "push": f"{self.filter()} text --url {{url}}",
        }.items():
            with self.subTest(words):
                line = self.complaint(words, arguments, server.url)
                self.assertNotIn("b'", line)
                self.assertRegex(line, "wrong kind of value|exists|no filter")
                self.assertEqual((client.get("text"), client.dbsize()), (b"no filter", 1))

    def test_files_that_are_cut_or_damaged_or_missing(self):
        """A list that was not copied to its end would be taken for a whole one."""
        server, client = self.start()
        whole = gzip.compress(b"".join(b"%040x\n" % number for number in range(10_000)))
        (self.folder / "cut.gz").write_bytes(whole[:-100])
        (self.folder / "damaged.gz").write_bytes(whole[:500] + b"\xff" * 500 + whole[1000:])
        (self.folder / "sum.gz").write_bytes(whole[:-8] + bytes(8))
        said = {"cut.gz": "cut off", "none": "No such file", ".": "Is a directory"}
        said |= {name: "this gzip data cannot be unpacked" for name in ("damaged.gz", "sum.gz")}
        for name, reason in said.items():
            file = self.folder / name
            for words in self.LOADS:
                with self.subTest(words, file=name):
                    client.unlink("key")
                    line = self.complaint(words, f"{self.COMMANDS[words]} --file {file}", server.url)
                    self.assertRegex(line, f"^libbloom: {re.escape(str(file))}: .*({reason})")
            self.assertRegex(self.complaint("build", f"{file} -o x.bloom", server.url), reason)
        other, _ = self.start()
        copy = ("migrate copy", f"{{url}} {other.url}")
        load = ("migrate load", self.COMMANDS["migrate load"])
        client.unlink("key")
        for words, arguments in (copy, load):
            for state, reason in ("missing/state", "No such file"), (".", "Is a directory"):
                line = self.complaint(words, f"{arguments} --state {{folder}}/{state}", server.url)
                self.assertIn(f"{state.rstrip('.')}", line)
                self.assertIn(reason, line)
            for text in ("[]\n", '{"lines": "a"}\n', "not JSON\n"):
                self.state.write_text(text)
                line = self.complaint(words, f"{arguments} --state {self.state}", server.url)
                self.assertRegex(line, "state is no state file of a|state is the state of another")
                self.assertEqual((client.exists("key"), self.state.read_text()), (0, text))

    def test_without_a_terminal_or_an_input(self):
        """A service or a cron job has neither."""
        server, client = self.start()
        other, _ = self.start()
        client.execute_command("BF.ADD", "key", "a")
        line = self.complaint("passwords check", "{url} key", server.url, start_new_session=True)
        self.assertIn("no password was typed in; --stdin", line)
        # The program has no standard input at all, as after <&- of a shell.
        for words, arguments in {
            "migrate copy": f"{{url}} {other.url} --keys -",
            "migrate load": "{url} key --add",
            "passwords load": "{url} key --add",
            "passwords check": "{url} key --stdin",
            "build": "- --capacity 9 -o x.bloom",
            "query": f"{self.filter()}",
        }.items():
            with self.subTest(words):
                line = self.complaint(words, arguments, server.url, preexec_fn=lambda: os.close(0))
                self.assertIn("there is no standard input", line)

    def filter(self):
        path = self.folder / "some.bloom"
        Filter(10).save(path)
        return path

    def test_wrong_arguments_are_one_line(self):
        for words, said in {
            "": "libbloom: the following arguments are required: COMMAND; see libbloom --help",
            "migrate": "{copy,load}",
            "migrate copy redis://a": "TARGET_URL",
            "migrate load redis://a key --batch 0": "'0' is no whole number from 1 to 2^64 - 1, such as 1000000, 1e6 or 1M; see libbloom migrate load --help",
            "passwords load redis://a key --layout odd": "invalid choice: 'odd'",
            "migrate load redis://a key": "--error-rate is needed",
        }.items():
            with self.subTest(words):
                self.assertIn(said, self.complaint(words.replace("{", "{{"), "", ""))

    def test_help_says_what_exit_codes_mean(self):
        """A script has nothing else to go by."""
        for words in ("", "migrate", "migrate copy", "migrate load", "passwords load", "passwords check", "query"):
            done = subprocess.run(command(*words.split(), "--help"), capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, r"(?s)exit codes:\n  0 .*\n  1 .*\n  2 .*\n  130 ")


class InterruptTest(Case):
    def test_an_interrupted_copy_leaves_nothing_half(self):
        """What Ctrl-C leaves would be met by clients, or be in the way of the next run."""
        source, old = self.start()
        target, new = self.start()
        old.execute_command("BF.RESERVE", "large", "0.01", 40_000_000)
        old.execute_command("BF.ADD", "large", "a")
        temporary = _words.beside(b"large", TEMPORARY)
        held, release = self.hold(target, lambda: new.exists(temporary))
        copy = ["copy", source.url, held.url, "--state", self.state]
        process = self.begin(*copy)
        self.wait_until(lambda: new.exists(temporary))
        process.send_signal(signal.SIGINT)
        release()
        _, text = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, text.splitlines()[-1]), (130, b"libbloom: interrupted"))
        self.wait_until(lambda: not new.keys())
        self.migrate(*copy)
        self.assert_members(new, "large", ["a"])

    def test_a_server_that_dies_meanwhile(self):
        """The next run would take a half for whole, or not go on."""
        source, old = self.start()
        target, new = self.start()
        old.execute_command("BF.ADD", "a", "a")
        old.execute_command("BF.RESERVE", "large", "0.01", 40_000_000)
        temporary = _words.beside(b"large", TEMPORARY)
        held, release = self.hold(target, lambda: new.exists(temporary))
        copy = ["copy", source.url, held.url, "--state", self.state]
        process = self.begin(*copy)
        self.wait_until(lambda: new.exists(temporary))
        target.process.kill()
        release()
        _, text = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 2)
        self.assertRegex(text.decode().splitlines()[-1], "^libbloom: target 127.0.0.1:[0-9]+/0: ")
        # It comes back empty.
        target.restart()
        self.assertIn("copied: 2, by an earlier run: 0, not copied: 0;", self.migrate(*copy))


if __name__ == "__main__":
    unittest.main()
