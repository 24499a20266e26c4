"""examples/sharded.py, tried as its users would, on a cluster of three primaries of its own.

Run it with `make test-examples`; test_migrate.py tells how to run it by hand.
"""

import subprocess
import sys
import time
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT / "examples"))
sys.path.insert(0, str(PROJECT / "tests/examples"))

import crawl  # noqa: E402
import redis  # noqa: E402
import sharded  # noqa: E402
from redis.cluster import RedisCluster  # noqa: E402
from test_migrate import MODULE, PROGRAM  # noqa: E402

SLOTS = 16384
PRIMARIES = 3
# The nodes of a cluster talk to each other on another port, so far above their own.
BUS = 10_000
# Seconds until something that must happen has failed. Nothing is measured by it.
PATIENCE = 120


class Node(crawl.Server):
    """A server that can be part of a cluster."""

    ARGUMENTS = ("--cluster-enabled", "yes")
    ATTEMPTS = 20
    PATIENCE = PATIENCE

    def __init__(self):
        super().__init__(PROGRAM, MODULE)

    def launch(self, port):
        # A port without another one for the bus is as good as a taken one.
        if port + BUS > 65535:
            (self.home / "log").write_text("already in use")
            return False
        return super().launch(port)


class Cluster:
    """Three primaries with a third of the slots each, stopped when the tests end."""

    def __init__(self, case):
        self.nodes = []
        for _ in range(PRIMARIES):
            node = Node()
            node.__enter__()
            case.addClassCleanup(node.__exit__)
            self.nodes.append(node)
        self.clients = [node.client() for node in self.nodes]
        for client in self.clients:
            case.addClassCleanup(client.close)
        self.join()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.nodes[0].port}"

    def join(self):
        for at, client in enumerate(self.clients):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", at + 1)
            slots = [slot for slot in range(SLOTS) if slot * PRIMARIES // SLOTS == at]
            client.execute_command("CLUSTER ADDSLOTS", *slots)
        for node in self.nodes[1:]:
            self.clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port)
        deadline = time.monotonic() + PATIENCE
        while not all(self.serves(client) for client in self.clients):
            if time.monotonic() > deadline:
                raise crawl.Trouble("the nodes do not make a cluster")
            time.sleep(0.02)

    def serves(self, client):
        info = client.execute_command("CLUSTER INFO")
        info = info if isinstance(info, dict) else dict(line.split(":") for line in info.decode().split())
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == PRIMARIES

    def move_slot(self, slot, source, target, half_way):
        """Moves a slot with its keys; `half_way` is called when the keys have moved and the slot has not."""
        names = [client.execute_command("CLUSTER MYID").decode() for client in self.clients]
        old, new = self.clients[source], self.clients[target]
        new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[source])
        old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[target])
        for key in old.execute_command("CLUSTER GETKEYSINSLOT", slot, 1000):
            moved = old.migrate("127.0.0.1", self.nodes[target].port, key, 0, PATIENCE * 1000)
            assert moved in (b"OK", "OK", True), moved
        half_way()
        for client in [new, old, *self.clients]:
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[target])


class ShardedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls)
        cls.client = RedisCluster.from_url(cls.cluster.url, socket_timeout=None)
        cls.addClassCleanup(cls.client.close)

    def run_script(self, *arguments, items=(), exit_code=0):
        command = [sys.executable, str(PROJECT / "examples/sharded.py"), "--url", self.cluster.url]
        done = subprocess.run(
            [*command, *map(str, arguments)],
            input=b"".join(item + b"\n" for item in items),
            capture_output=True,
            timeout=PATIENCE,
        )
        text = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, exit_code, text)
        self.assertNotIn("Traceback", text)
        return text

    def test_items_are_spread_and_found(self):
        count, shards, rate = 60_000, 50, 0.01
        items = [b"item %d" % number for number in range(count)]
        strangers = [b"stranger %d" % number for number in range(count)]
        self.run_script("create", "seen", "--shards", shards, "--items", count, "--error", rate)
        text = self.run_script("add", "seen", "--shards", shards, items=items)
        self.assertIn("60,000 items, ", text)
        self.assertIn("shards that grew: 0", text)
        text = self.run_script("check", "seen", "--shards", shards, items=items)
        self.assertIn("60,000 items, 60,000 found", text)

        # An item asks one shard only, so the whole has the rate of a part.
        seen = sharded.ShardedFilter(self.client, "seen", shards)
        found = sum(seen.contains(strangers))
        self.assertLessEqual(found, rate * count + crawl.SLACK * (rate * count) ** 0.5)
        self.assertGreater(found, 0)
        # All nodes have some of the keys, and every key has the items that the hash gives it.
        for client in self.cluster.clients:
            self.assertGreater(client.dbsize(), 0)
        for shard, (new, *_) in enumerate(seen.figures()):
            given = sum(seen.shard(item) == shard for item in items)
            self.assertLessEqual(new, given)
            self.assertGreater(new, given * (1 - 2 * rate) - 10)

    def test_answers_keep_the_order_of_the_items(self):
        seen = sharded.ShardedFilter(self.client, "order", 7)
        seen.create(1000, 1e-9)
        self.assertEqual(seen.add([b"a", b"b", b"a", b"c", b""]), [True, True, False, True, True])
        self.assertEqual(seen.contains([b"x", b"c", b"", b"y", b"a"]), [False, True, True, False, True])
        self.assertEqual(seen.add([]), [])

    def test_shards_that_move_lose_nothing(self):
        shards = 20
        seen = sharded.ShardedFilter(self.client, "moving", shards)
        seen.create(2000, 0.001)
        before = [b"before %d" % number for number in range(1000)]
        during = [b"during %d" % number for number in range(1000)]
        seen.add(before)
        for shard in range(4):
            slot = self.client.keyslot(seen.key(shard))
            source = slot * PRIMARIES // SLOTS
            some = during[250 * shard : 250 * (shard + 1)]
            self.cluster.move_slot(slot, source, (source + 1) % PRIMARIES, lambda: seen.add(some))
        for client in (seen, sharded.ShardedFilter(RedisCluster.from_url(self.cluster.url), "moving", shards)):
            self.assertTrue(all(client.contains(before + during)))

    def test_a_full_shard_says_so(self):
        seen = sharded.ShardedFilter(self.client, "full", 3)
        for shard in range(3):
            self.client.execute_command("BF.RESERVE", seen.key(shard), 0.01, 5, "NONSCALING")
        items = [b"%d" % number for number in range(100)]
        text = self.run_script("add", "full", "--shards", 3, items=items, exit_code=2)
        self.assertRegex(text, r"sharded.py: full:\{[012]\}: non scaling filter is full")

    def test_the_growth_of_the_guide(self):
        guide = (PROJECT / "docs/sharding.md").read_text()
        small, *grown = [72_176, 260_144, 166_192]
        items = [b"%d" % number for number in range(39_000)]
        for expansion, size in zip((2, 1), grown):
            key = f"growing:{expansion}"
            self.client.execute_command("BF.RESERVE", key, 0.001, 38_000, "EXPANSION", expansion)
            figures = sharded.fields(self.client.execute_command("BF.INFO", key))
            self.assertEqual(figures["Size"], small)
            self.client.execute_command("BF.MADD", key, *items)
            figures = sharded.fields(self.client.execute_command("BF.INFO", key))
            self.assertEqual((figures["Size"], figures["Number of filters"]), (size, 2))
            self.assertIn(f"{size:,}", guide)
            self.assertIn(f"{size / small:.1f} times", guide)
        self.assertIn(f"{small:,} bytes", guide)

    def test_what_cannot_run_says_why(self):
        text = self.run_script("add", "missing", "--shards", 3, items=[b"a"], exit_code=2)
        self.assertIn("not found", text)
        self.run_script("create", "twice", "--shards", 3, "--items", 100)
        text = self.run_script("create", "twice", "--shards", 3, "--items", 100, exit_code=2)
        self.assertIn("item exists", text)

    def test_the_plan_of_the_guide(self):
        text = self.run_script("plan", "seen", "--items", "1e11")
        for line in GUIDE:
            self.assertIn(line, text)
            self.assertIn(line.split(": ")[1], (PROJECT / "docs/sharding.md").read_text())
        self.assertFalse(self.client.exists("seen:plan"))


# What docs/sharding.md says of 100 billion items at 0.1 % on 4096 keys.
GUIDE = [
    "items in a shard: 24,414,062 on average, deviation 4,940, reserved for 24,443,706",
    "bytes of a shard: 46,289,392",
    "bytes of all 4,096: 189,601,349,632, 15.17 bits an item",
]


class CapacityTest(unittest.TestCase):
    def test_a_shard_has_room_for_chance(self):
        self.assertEqual(sharded.shard_capacity(1000, 1), 1000)
        self.assertEqual(sharded.shard_capacity(1, 1000), 1)
        self.assertEqual(sharded.shard_capacity(10**11, 4096), 24_443_706)


if __name__ == "__main__":
    unittest.main()
