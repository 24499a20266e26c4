"""`libbloom shard`, as its users run it, on a cluster of three primaries.

BLOOM_TEST_SERVER and BLOOM_TEST_MODULE name other ones than redis-server and ./libbloom.so.
"""

import functools
import gzip
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "tests/examples")]

import redis  # noqa: E402
from redis.cluster import RedisCluster  # noqa: E402
from servers import PATIENCE, SLOTS, Cluster, Node, unused_port  # noqa: E402

from libbloom import ShardedBloom, _server, plan  # noqa: E402

PROGRAM = [sys.executable, "-m", "libbloom._program", "shard"]


class ShardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls)
        cls.client = RedisCluster.from_url(cls.cluster.url, socket_timeout=None)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.client.flushall()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def words(self, way, *words):
        url = [] if way == "plan" else ["--url", self.cluster.url]
        return [*PROGRAM, way, *map(str, words), *url]

    def run_program(self, *words, items=None, exit_code=0):
        done = subprocess.run(
            self.words(*words),
            input=None if items is None else b"".join(item + b"\n" for item in items),
            stdin=subprocess.DEVNULL if items is None else None,
            capture_output=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        self.assertNotIn(b"Traceback", done.stderr)
        return done.stdout.decode() + done.stderr.decode()

    def file(self, name, items, opener=open):
        path = self.folder / name
        with opener(path, "wb") as file:
            file.write(b"".join(item + b"\n" for item in items))
        return path

    def test_a_filter_is_made_loaded_asked_and_dropped(self):
        """Nobody could use a filter over many keys without writing a program."""
        items = [b"item %d" % number for number in range(60_000)]
        text = self.run_program("create", "seen", "--items", 60_000, "--error-rate", 0.001, "--shards", 50, "--seed", 7)
        self.assertRegex(text, r"^seen: 50 shards for 60,000 items, \d+,\d+ bytes\n$")
        # Lines of Windows, empty ones, and a last one without its end; a packed file; the standard input.
        first = self.folder / "first"
        first.write_bytes(b"\r\n".join(items[:20_000]) + b"\n\n\r\n" + items[20_000])
        second = self.file("second.gz", items[20_000:40_000], gzip.open)
        text = self.run_program("load", "seen", first, second, "--processes", 3)
        self.assertRegex(text, r"^40,003 items, (39,9\d\d|40,00\d) new\n40,003 items in [\d.]+ s, [\d,]+ a second\nseen has \1 items\n$")
        text = self.run_program("load", "seen", "-", "--processes", 1, items=items[40_000:])
        self.assertRegex(text, r"^20,000 items, (19,9\d\d|20,000) new\n")
        self.assertTrue(all(ShardedBloom(self.client, "seen").contains_many(items)))
        # An answer to each item.
        self.assertEqual(self.run_program("query", "seen", "item 1", "item 59999"), "item 1\nitem 59999\n")
        strange = [b"item 7", b"strange", b"item 8"]
        self.assertEqual(self.run_program("query", "seen", "-v", items=strange, exit_code=1), "strange\n")
        self.assertEqual(self.run_program("query", "seen", "-q", items=items), "")
        text = self.run_program("status", "seen")
        self.assertRegex(text, r"^seen: (59,9\d\d|60,00\d) items in 50 shards, made for 60,000 at 0.001; \d+ KiB\n")
        nodes = re.findall(r"^127\.0\.0\.1:\d+ +(\d+) +([\d,]+) +\d+ KiB +[\d.]+ MiB +no limit +0$", text, re.M)
        self.assertEqual((len(nodes), sum(int(shards) for shards, _ in nodes)), (3, 50))
        self.assertEqual(text.count("has no replica: its shards are lost with it"), 3)
        self.run_program("drop", "seen")
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)
        for way in ("status", "drop", "query"):
            text = self.run_program(way, "seen", *["a"] * (way == "query"), exit_code=2)
            self.assertEqual(text, "libbloom: there is no sharded filter 'seen'\n")

    def test_the_commands_and_the_program_of_the_page_run(self):
        """Who copies from the page would be met by an error."""
        page = (PROJECT / "docs/sharding.md").read_text().replace("redis://127.0.0.1:7000", self.cluster.url)
        [commands] = re.findall(r"^```\n(libbloom shard create .*?)^```$", page, re.M | re.S)
        for number in (1, 2):
            self.file(f"urls-{number}.gz", [b"https://example.com/", b"%d" % number], gzip.open)
        # As many as the machine has room for.
        for command in commands.replace("1e9", "1e5").splitlines():
            words = [*PROGRAM, *command.split()[2:]]
            done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "https://example.com/\n")
        [program] = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
        shown, promised = [], []
        for line in program.splitlines():
            code, comment, answer = line.partition("  #")
            promised += [answer.strip().split(":")[0]] if re.match(r" *(True|\[|\d)", answer) else []
            shown.append(f"print({code.strip()})" if re.match(r" *(True|\[|\d)", answer) else line)
        # The program begins with an empty one.
        ShardedBloom(self.client, "seen").drop()
        ShardedBloom.create(self.client, "seen", 1000, 1e-9)
        done = subprocess.run([sys.executable, "-c", "\n".join(shown)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.stderr, done.stdout.splitlines()), ("", promised))
        self.assertEqual(len(promised), 6)

    def test_all_options_of_a_filter(self):
        """A window over a cluster would have to be made by hand."""
        options = ["--window", 3600, "--slices", 4, "--refresh", "--seed", 7]
        self.run_program("create", "recent", "--items", 1000, "--shards", 4, *options)
        figures = ShardedBloom(self.client, "recent").info().options
        expected = {"layout": "blocked", "expansion": 2, "window": 3600, "slices": 4, "seed": 7, "refresh": True}
        self.assertEqual(figures, expected)
        self.run_program("create", "fixed", "--items", 30, "--shards", 2, "--fixed")
        items = [b"%d" % number for number in range(500)]
        text = self.run_program("load", "fixed", self.file("many", items), exit_code=2)
        self.assertRegex(text, r"libbloom: fixed:\{[01]\}:2: non scaling filter is full after \d+ items\n$")
        text = self.run_program("create", "fixed", "--items", 31, "--shards", 2, "--fixed", exit_code=2)
        self.assertIn("'fixed' exists with another ", text)

    def test_what_is_wrong_is_shown(self):
        """A filter would grow, or a node run full, before anybody knew."""
        self.run_program("create", "small", "--items", 100, "--shards", 2, "--seed", 7)
        items = [b"%d" % number for number in range(75)]
        self.run_program("load", "small", self.file("some", items))
        self.assertNotIn("grow", self.run_program("status", "small"))
        text = self.run_program("load", "small", self.file("more", [b"more " + item for item in items]))
        self.assertRegex(text, r"warning: [12] shards (have grown|are nearly full)")
        # One node has two of the shards, the two others have one each.
        self.run_program("create", "four", "--items", 10**6, "--shards", 4)
        text = self.run_program("status", "four")
        self.assertRegex(text, r"warning: 127\.0\.0\.1:\d+ has 1.5 times the average: move slots")

    def test_a_killed_load_goes_on(self):
        """Hours would be lost, or items that were thought to be in."""
        count = 400_000
        items = [b"item %d" % number for number in range(count)]
        files = [self.file("one", items[: count // 2]), self.file("two.gz", items[count // 2 :], gzip.open)]
        self.run_program("create", "seen", "--items", count, "--error-rate", 1e-6, "--shards", 128, "--seed", 7)
        state = self.folder / "state"
        load = self.words("load", "seen", *files, "--processes", 2, "--state", state)
        offsets = []
        for signal_number in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
            process = subprocess.Popen(
                load,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A shell that runs the tests in the background has told them to ignore it.
                preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
            begin, deadline = self.offset(state), time.monotonic() + PATIENCE
            while process.poll() is None and self.offset(state) == begin and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal_number)
            process.communicate(timeout=PATIENCE)
            offsets.append(self.offset(state))
        self.assertEqual(offsets, sorted(offsets))
        self.assertGreater(offsets[0], (0, 0))
        text = self.run_program("load", "seen", *files, "--processes", 2, "--state", state)
        self.assertIn(f"{count:,} items, ", text)
        self.assertTrue(all(ShardedBloom(self.client, "seen").contains_many(items)))
        self.assertGreaterEqual(len(ShardedBloom(self.client, "seen")), count - 5)
        # Once more: all is in, and nothing is read again.
        text = self.run_program("load", "seen", *files, "--processes", 2, "--state", state)
        self.assertIn("\n0 items in ", text)
        # A changed file, another filter, lost items, and what is no state are told apart.
        text = self.run_program("load", "seen", files[0], "--state", state, exit_code=2)
        self.assertIn("is the state of another load, or a file has changed", text)
        files[0].write_bytes(b"another\n")
        text = self.run_program("load", "seen", *files, "--state", state, exit_code=2)
        self.assertIn("is the state of another load, or a file has changed", text)
        state.write_text("{}")
        self.assertIn("is no state file of a load", self.run_program("load", "seen", *files, "--state", state, exit_code=2))
        text = self.run_program("load", "seen", "-", "--state", state, exit_code=2)
        self.assertIn("the standard input cannot be read again: --state needs files", text)

    @staticmethod
    def offset(state):
        try:
            kept = json.loads(state.read_text())
            return kept["file"], kept["offset"]
        except FileNotFoundError:
            return 0, 0

    def test_a_filter_that_lost_items_is_not_gone_on_with(self):
        """The items of the first part would be missing."""
        path, state = self.file("items", [b"%d" % number for number in range(1000)]), self.folder / "state"
        make = ["create", "seen", "--items", 1000, "--error-rate", 1e-6, "--shards", 8, "--seed", 7]
        self.run_program(*make)
        self.run_program("load", "seen", path, "--state", state)
        for shard in range(8):
            self.client.execute_command("BF.RESET", f"seen:{{{shard}}}:8")
        text = self.run_program("load", "seen", path, "--state", state, exit_code=2)
        self.assertRegex(text, "seen has 0 items, and got 1,000 before .* was saved")
        # Another filter of the name, with as many items.
        self.run_program("drop", "seen")
        self.run_program(*make)
        self.run_program("load", "seen", self.file("others", [b"other %d" % number for number in range(1000)]))
        text = self.run_program("load", "seen", path, "--state", state, exit_code=2)
        self.assertIn("is the state of another load", text)

    def test_a_state_with_impossible_figures_is_refused(self):
        """Items would be left out, or counted twice."""
        path, state = self.file("items", [b"a", b"b"]), self.folder / "state"
        self.run_program("create", "seen", "--items", 1000, "--shards", 8, "--seed", 7)
        self.run_program("load", "seen", path, "--state", state)
        whole = json.loads(state.read_text())
        for word, value in [("file", 1), ("file", 1e300), ("file", "x"), ("offset", -1), ("items", 1.5), ("maybe", -1)]:
            state.write_text(json.dumps({**whole, word: value}))
            with self.subTest(word=word, value=value):
                text = self.run_program("load", "seen", path, "--state", state, exit_code=2)
                self.assertIn("is no state file of a load", text)

    def test_a_cluster_is_waited_for_while_a_node_fails_over(self):
        """A load that is started again after a failure would end at once."""
        answers = [redis.ConnectionError("refused"), redis.TimeoutError("no answer"), "client"]
        with mock.patch.object(_server, "PAUSE", 0), mock.patch.object(_server, "RedisCluster") as made:
            made.from_url.side_effect = answers
            self.assertEqual(_server.cluster("url", {}, time.monotonic() + PATIENCE), "client")
            made.from_url.side_effect = answers
            with self.assertRaisesRegex(redis.ConnectionError, "refused"):
                _server.cluster("url", {}, time.monotonic())

    def test_the_server_of_the_url_is_waited_for(self):
        """A load would end at once if it is started again while this server fails over, and others have its place."""
        with Node() as server:
            with server.client() as client:
                client.execute_command("CLUSTER ADDSLOTS", *range(SLOTS))
            server.process.kill()
            server.process.wait()
            status = [*PROGRAM, "status", "seen", "--url", f"redis://127.0.0.1:{server.port}"]
            with subprocess.Popen(status, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                time.sleep(2)
                self.assertIsNone(process.poll())
                server.start()
                self.assertEqual(process.communicate(timeout=PATIENCE)[1], "libbloom: there is no sharded filter 'seen'\n")
        url = f"redis://127.0.0.1:{unused_port(self)}"
        said = r"server 127.0.0.1:\d+/0: no answer for 1 seconds \(.*refused.*\): --url may name any other server of the cluster"
        begin = time.monotonic()
        with self.assertRaisesRegex(_server.Trouble, said):
            _server.Server("server", url, 1)
        self.assertGreaterEqual(time.monotonic() - begin, 1)

    def test_a_refusal_is_not_waited_for(self):
        """Who mistypes a password would be told a minute later."""
        url = self.cluster.url.replace("//", "//nobody:pw@")
        begin = time.monotonic()
        with self.assertRaisesRegex(_server.Trouble, "(?i)password"):
            _server.Server("server", url, PATIENCE)
        self.assertLess(time.monotonic() - begin, PATIENCE / 2)

    def test_the_last_line_of_a_file_of_windows_has_no_end(self):
        """The item would be loaded with a character that no query has."""
        self.run_program("create", "seen", "--items", 1000, "--shards", 8, "--seed", 7)
        path = self.folder / "lines"
        path.write_bytes(b"a\r\nb\r")
        self.run_program("load", "seen", path)
        self.run_program("query", "seen", "a", "b")

    def test_no_process_is_left(self):
        """Killed loads would go on for hours, one beside the other."""
        self.run_program("create", "seen", "--items", 10**6, "--shards", 8)
        process = subprocess.Popen(
            [*self.words("load", "seen", "-", "--processes", 3)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        process.stdin.write(b"".join(b"%d\n" % number for number in range(10**6)))
        process.stdin.flush()
        self.wait_until(lambda: len(self.children(process.pid)) >= 3)
        children = self.children(process.pid)
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.wait_until(lambda: not any(self.runs(child) for child in children))

    def children(self, parent):
        processes = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [process for process in processes if self.state(process)[1:2] == [str(parent)]]

    def runs(self, process):
        # One that nobody waited for has ended, too.
        return self.state(process)[:1] not in ([], ["Z"])

    @staticmethod
    def state(process):
        """A process's state, its parent and so on; nothing if there is no such process."""
        try:
            return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return []

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.02)


class PlanTest(unittest.TestCase):
    def test_the_page_has_the_figures(self):
        """Who buys machines by the page would buy too few."""
        page = (PROJECT / "docs/sharding.md").read_text()
        shown = re.findall(r"^\$ (libbloom shard plan .*)\n((?:[^`\n$].*\n)+)", page, re.M)
        self.assertGreater(len(shown), 1)
        for command, output in shown:
            done = subprocess.run([*PROGRAM, *command.split()[2:]], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.stdout, done.stderr), (output, ""))

    def test_the_growth_of_the_page(self):
        """A shard that grows would need more than was said."""
        page = (PROJECT / "docs/sharding.md").read_text()
        [small, *_] = plan(38_000, 0.001)
        for expansion in (2, 1):
            [grown, *_] = plan(38_000, 0.001, items=39_000, expansion=expansion)
            self.assertIn(f"{grown / small:.1f} times", page)


if __name__ == "__main__":
    unittest.main()
