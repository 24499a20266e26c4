"""`ShardedBloom` and `AsyncShardedBloom`: the layout by its vectors, delivery without a server, and all of it on clusters.

BLOOM_TEST_SERVER and BLOOM_TEST_MODULE name other ones than redis-server and ./libbloom.so.
"""

import array
import asyncio
import contextlib
import hashlib
import importlib
import itertools
import json
import math
import os
import struct
import sys
import threading
import time
import unittest
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from unittest import mock

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "tests/examples")]

import numpy  # noqa: E402
import redis  # noqa: E402
import redis.asyncio  # noqa: E402
import sharded_vectors  # noqa: E402
import valkey  # noqa: E402
import valkey.asyncio  # noqa: E402
from redis.cluster import RedisCluster  # noqa: E402
from servers import LATE, PATIENCE, PRIMARIES, SLOTS, SOON, Cluster, before  # noqa: E402

from libbloom import (  # noqa: E402
    MAYBE_NEW,
    AsyncShardedBloom,
    FullError,
    MissingError,
    ShardedBloom,
    UnsureError,
    plan,
)
from libbloom._cluster import ASKING, Call, Links, Lost, Unsent, delivered, run  # noqa: E402
from libbloom._native import divide  # noqa: E402
from libbloom._words import slot  # noqa: E402


def words(count, prefix="item "):
    return [f"{prefix}{number}" for number in range(count)]


class LayoutTest(unittest.TestCase):
    def test_the_files_are_what_the_generator_writes(self):
        """Another version would look for items in other shards, and deny them."""
        folder = sharded_vectors.FOLDER
        self.assertEqual({path.stem for path in folder.glob("*.json")}, set(sharded_vectors.FILTERS))
        for name in sharded_vectors.FILTERS:
            with self.subTest(name):
                self.assertEqual((folder / f"{name}.json").read_text(), sharded_vectors.text(name))

    def test_the_vectors_say_what_the_page_says(self):
        """A client in another language that follows the page would deny what this one added."""
        for path in sharded_vectors.FOLDER.glob("*.json"):
            vector = json.loads(path.read_text())
            meta, name = vector["meta"], vector["name"]
            shards, items = int(meta["shards"]), int(meta["capacity"])
            with self.subTest(name):
                self.assertEqual((vector["meta_key"], meta["version"], meta["hash"]), (f"{name}:{{meta}}", "1", "BLAKE2b-512"))
                mean = items / shards
                room = math.ceil(mean + 6 * math.sqrt(mean * (1 - 1 / shards)))
                self.assertEqual(vector["reserve"][:2], [meta["error_rate"], str(room)])
                self.assertEqual(meta["shard_capacity"], str(room))
                for entry in vector["items"]:
                    digest = hashlib.new("blake2b512", bytes.fromhex(entry["item"])).digest()
                    self.assertEqual(entry["shard"], struct.unpack_from(">Q", digest)[0] % shards)
                    self.assertEqual(entry["key"], f"{name}:{{{entry['shard']}}}:{shards}")

    def test_many_items_go_where_each_of_them_goes(self):
        """What was added by update would not be found one by one."""
        items = [os.urandom(length) for length in [*range(1, 300), 1000, 5000]]
        shard = [int.from_bytes(hashlib.blake2b(item).digest()[:8], "big") % 37 for item in items]
        prefixed = b"".join(struct.pack("<I", len(item)) + item for item in items)
        lines = [b"%d" % number for number in range(1000)]
        numbers = struct.pack("<500Q", *range(500))
        each = {
            ("PREFIXED", prefixed): shard,
            ("LINES", b"\n\r\n\r\r\n" + b"\r\n".join(lines) + b"\n7\r"): [
                self.shard(line) for line in [b"", b"", b"\r", *lines, b"7"]
            ],
            ("WIDTH", 8, numbers): [self.shard(numbers[at : at + 8]) for at in range(0, 4000, 8)],
        }
        for packed, expected in each.items():
            shares, places = divide(37, *packed)
            self.assertEqual(list(array.array("I", places)), expected)
            self.assertEqual([(at, count) for at, count, _ in shares], sorted((at, expected.count(at)) for at in set(expected)))
            # Each share is divided like the whole: all of it to one shard, as it is.
            for at, count, data in shares:
                self.assertEqual(divide(37, *packed[:-1], data)[0], [(at, count, data)])
        self.assertEqual(divide(37, "LINES", b""), ([], b""))
        for bad in [("PREFIXED", b"\5\0\0\0abc"), ("WIDTH", 3, b"abcd"), ("WIDTH", 0, b""), ("TEXT", b"a"), ()]:
            with self.assertRaises((ValueError, TypeError)):
                divide(37, *bad)

    @staticmethod
    def shard(item):
        return int.from_bytes(hashlib.blake2b(item).digest()[:8], "big") % 37

    def test_bad_figures_are_refused_before_anything_is_made(self):
        """A filter that nobody can use would be half made."""
        for problem in [
            dict(items=0),
            dict(items=10, shards=0),
            dict(items=10, shards=65537),
            dict(items=10, shards=2.5),
            dict(items=1e30, shards=4),
            dict(items=2**64 - 1, shards=1),
            dict(items=10, error_rate=0),
            dict(items=10, layout="flat"),
        ]:
            with self.subTest(problem), self.assertRaises(ValueError):
                ShardedBloom.create(redis.Redis(), "seen", **problem)
        with self.assertRaisesRegex(ValueError, "has no brace"):
            ShardedBloom(redis.Redis(), "a{b")


class Moved(Exception):
    """The base of errors that are named as the clients name theirs."""

    def __init__(self, host, port):
        self.host, self.port = host, port


MovedError = type("MovedError", (Moved,), {})
AskError = type("AskError", (Moved,), {})
TryAgainError = type("TryAgainError", (Exception,), {})


class Node:
    def __init__(self, name):
        self.name = name


class FakeClient:
    """A client of a cluster whose every slot is in one node."""

    def __init__(self):
        self.nodes = {name: Node(name) for name in ("one:1", "two:2")}
        self.nodes_manager = self

    def get_node(self, host, port):
        return self.nodes.get(f"{host}:{port}")

    def get_node_from_key(self, key):
        return self.nodes["one:1"]


class FakeLinks(Links):
    """Its connections. `exchanges` are the node, what comes to it, and what it answers; `others` is what else was done."""

    def __init__(self, case, exchanges):
        super().__init__(FakeClient())
        self.case, self.exchanges, self.others = case, iter(exchanges), []

    async def exchange(self, parts):
        [(node, sent)] = parts
        expected, commands, replies = next(self.exchanges)
        self.case.assertEqual((node.name, sent), (expected, commands))
        return [replies]

    async def pause(self, seconds):
        self.others.append("pause")

    async def refresh(self):
        self.others.append("refresh")


class DeliveryTest(unittest.TestCase):
    """Each is what a node answered, and what must be sent next."""

    def deliver(self, exchanges, *, patience=60.0, adds=False, replicas=0, commands=1):
        """Delivers commands. Returns them, and what else was done."""
        calls, links = [Call(b"{%d}" % number, "ADD", number) for number in range(commands)], FakeLinks(self, exchanges)
        run(delivered(links, calls, patience, adds=adds, replicas=replicas))
        self.assertEqual(list(links.exchanges), [])
        return calls, links.others

    ADD = ("ADD", 0)

    def test_an_answer_is_the_answer(self):
        """A batch would be sent twice."""
        [call, other], others = self.deliver([("one:1", [self.ADD, ("ADD", 1)], [5, None])], commands=2)
        self.assertEqual((call.reply, other.reply, call.is_unsure, others), (5, None, False, []))

    def test_redirections_are_followed_at_once(self):
        """Items of a slot that moves would be refused."""
        moved = [("one:1", [self.ADD], [MovedError("two", 2)]), ("two:2", [self.ADD], [1])]
        [call], others = self.deliver(moved, adds=True)
        self.assertEqual((call.reply, call.is_unsure, others), (1, False, ["refresh"]))
        asked = [("one:1", [self.ADD], [AskError("two", 2)]), ("two:2", [ASKING, self.ADD], ["OK", 1])]
        [call], others = self.deliver(asked, adds=True)
        self.assertEqual((call.reply, call.is_unsure, others), (1, False, []))
        # A node that nobody has heard of, yet.
        lost = [("one:1", [self.ADD], [MovedError("three", 3)]), ("one:1", [self.ADD], [1])]
        self.assertEqual(self.deliver(lost)[0][0].reply, 1)

    def test_what_was_not_done_is_done_later(self):
        """A failover would end a load, or add to what is called unsure."""
        too_few = redis.ResponseError("NOREPLICAS Not enough good replicas to write.")
        for error in (TryAgainError(), Unsent(OSError("refused")), too_few):
            [call], others = self.deliver([("one:1", [self.ADD], [error])] * 2 + [("one:1", [self.ADD], [0])], adds=True)
            self.assertEqual((call.reply, call.is_unsure, others), (0, False, ["pause", "refresh"] * 2))

    def test_a_lost_answer_makes_an_add_unsure(self):
        """An item that was new would be called known, and left out."""
        first = ("one:1", [self.ADD, ("ADD", 1)], [1, Lost(OSError("cut"))])
        [answered, call], _ = self.deliver([first, ("one:1", [("ADD", 1)], [0])], adds=True, commands=2)
        self.assertEqual((answered.reply, answered.is_unsure, call.reply, call.is_unsure), (1, False, 0, True))

    def test_other_errors_are_final(self):
        """A full shard would be tried for a minute."""
        error = redis.ResponseError("non scaling filter is full")
        [call, other], others = self.deliver([("one:1", [self.ADD, ("ADD", 1)], [error, 1])], commands=2)
        self.assertEqual((call.error, other.reply, others), (error, 1, []))

    def test_adds_are_confirmed_by_a_write(self):
        """WAIT would answer for another connection's past, and a failover lose what it confirmed."""
        words = [self.ADD, ("SET", b"{0}:wait", b"", "PX", 2000), ("WAIT", 1, 2000)]
        few, enough = ("one:1", words, [1, b"OK", 0]), ("one:1", words, [0, b"OK", 1])
        [call], _ = self.deliver([few, enough], adds=True, replicas=1)
        # The first answer counts: it was new then.
        self.assertEqual((call.reply, call.is_unsure), (1, False))
        # Queries need no confirmation.
        self.deliver([("one:1", [self.ADD], [1])], replicas=1)
        # The write follows a slot that moves.
        asked = ("two:2", [ASKING, words[0], ASKING, *words[1:]], ["OK", 1, "OK", b"OK", 1])
        moving = ("one:1", words, [AskError("two", 2), AskError("two", 2), 1])
        [call], _ = self.deliver([moving, asked], adds=True, replicas=1)
        self.assertEqual(call.reply, 1)
        # The write was sent elsewhere, the item was not.
        elsewhere = ("one:1", words, [1, MovedError("two", 2), 1])
        [call], _ = self.deliver([elsewhere, enough], adds=True, replicas=1)
        self.assertEqual((call.reply, call.is_unsure), (1, False))
        # The primary became a replica while it waited.
        demoted = ("one:1", words, [1, b"OK", redis.ResponseError("UNBLOCKED force unblock from blocking operation")])
        [call], _ = self.deliver([demoted, enough], adds=True, replicas=1)
        self.assertEqual((call.reply, call.is_unsure), (1, False))
        # What went wrong with the confirmation is told.
        [call], _ = self.deliver([("one:1", words, [1, redis.ResponseError("OOM"), 0])], adds=True, replicas=1)
        self.assertEqual(str(call.error), "OOM")

    def test_what_a_dead_primary_counted_is_not_counted(self):
        """A load that ended well would be told of lost items: the next primary took some of them for known."""
        words = [self.ADD, ("SET", b"{0}:wait", b"", "PX", 2000), ("WAIT", 1, 2000)]
        dead = ("one:1", words, [9, b"OK", 0])
        cut = ("one:1", words, [Lost(OSError("cut"))] * 3)
        for name, after, count, maybe in [
            ("the next one lacks them", [9, 0, 8], 8, 2),
            ("it knows them", [9, 0, 0], 0, 10),
            ("the same one has them", [9, 0], 9, 0),
        ]:
            exchanges = [dead]
            if len(after) == 3:
                moved = ("one:1", words, [MovedError("two", 2), MovedError("two", 2), 0])
                exchanges += [cut, moved, ("two:2", words, [after[2], b"OK", 1])]
            else:
                exchanges += [("one:1", words, [0, b"OK", 1])]
            with self.subTest(name):
                [call], _ = self.deliver(exchanges, adds=True, replicas=1)
                new = call.counted(10)
                self.assertEqual((call.reply, call.is_unsure, new, new.maybe), (9, False, count, maybe))
        # One that came back without what it had.
        [call], _ = self.deliver([dead, ("one:1", words, [7, b"OK", 1])], adds=True, replicas=1)
        self.assertEqual((call.reply, call.counted(10), call.counted(10).maybe), (9, 7, 3))

    def test_patience_ends(self):
        """A program would hang for ever, or be told that nothing was added."""
        lost = ("one:1", [self.ADD], [Lost(OSError("cut"))])
        with self.assertRaisesRegex(UnsureError, "cut.*adding them again is safe"):
            self.deliver([lost], adds=True, patience=0)
        with self.assertRaisesRegex(OSError, "cut"):
            self.deliver([lost], patience=0)
        with self.assertRaisesRegex(OSError, "refused"):
            self.deliver([("one:1", [self.ADD], [Unsent(OSError("refused"))])], adds=True, patience=0)
        words = [self.ADD, ("SET", b"{0}:wait", b"", "PX", 2000), ("WAIT", 2, 2000)]
        with self.assertRaisesRegex(UnsureError, "1 of 2 replicas"):
            self.deliver([("one:1", words, [1, b"OK", 1])], adds=True, patience=0, replicas=2)


class ClusterCase(unittest.TestCase):
    REPLICAS = 0

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls, cls.REPLICAS)
        cls.client = RedisCluster.from_url(cls.cluster.url, socket_timeout=None)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.client.flushall()


class ShardedTest(ClusterCase):
    def test_every_method_with_every_client(self):
        """A program with another client, or another protocol, could not use the filter, or would find other items."""
        port = self.cluster.nodes[0].port
        made = ShardedBloom.create(self.client, "seen", 20_000, 1e-9, shards=20)
        made.update(["a", *words(5000)])
        for library, name in [(redis, "RedisCluster"), (valkey, "ValkeyCluster")]:
            module = importlib.import_module(f"{library.__name__}.cluster")
            for protocol, decode in itertools.product((2, 3), (False, True)):
                options = dict(port=port, protocol=protocol, decode_responses=decode, socket_timeout=None)
                with self.subTest(f"{name} {options}"), getattr(module, name)(host="127.0.0.1", **options) as client:
                    seen = ShardedBloom(client, b"seen")
                    self.assertEqual(("a" in seen, seen.contains(b"a"), "b" in seen, seen.add("a")), (True, True, False, False))
                    self.assertEqual(seen.contains_many(["x", "a", b"item 4999", ""]), [False, True, True, False])
                    self.assertEqual((len(seen), seen.card(), bool(seen)), (5001, 5001, True))
                    other = ShardedBloom.create(client, "other", 1000, 1e-9, shards=7, window=3600, refresh=True, slices=4)
                    self.assertEqual(other.add_many(["b", "a", "b", ""]), [True, True, False, True])
                    self.assertEqual((other.update(words(100)), other.add("c")), (100, True))
                    self.assertEqual(other.info().options["window"], 3600)
                    other.drop()
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 21)

    def test_asyncio(self):
        """A service with asyncio could not use the filter."""
        port = self.cluster.nodes[0].port

        async def use(client):
            async with client:
                made = await AsyncShardedBloom.create(client, "seen", 10_000, 1e-9, shards=12)
                self.assertEqual((await made.add("a"), await made.add("a"), await made.contains("a")), (True, False, True))
                self.assertEqual(await made.update(words(5000)), 5000)
                seen = AsyncShardedBloom(client, "seen")
                self.assertEqual(await seen.add_many(["b", "a"]), [True, False])
                answers = await seen.contains_many([*words(5000), *words(5000, "absent ")])
                self.assertEqual(answers, [True] * 5000 + [False] * 5000)
                self.assertEqual((await seen.contains("absent"), await seen.card()), (False, 5002))
                self.assertEqual((await seen.info()).items, 5002)
                await seen.drop()
                with self.assertRaises(MissingError):
                    await made.contains("absent")

        for library, name in [(redis, "RedisCluster"), (valkey, "ValkeyCluster")]:
            module = importlib.import_module(f"{library.__name__}.asyncio.cluster")
            for protocol, decode in itertools.product((2, 3), (False, True)):
                with self.subTest(f"{name} {protocol} {decode}"):
                    options = dict(port=port, protocol=protocol, decode_responses=decode, socket_timeout=None)
                    asyncio.run(use(getattr(module, name)(host="127.0.0.1", **options)))

    def test_a_cut_connection_of_asyncio(self):
        """A service with asyncio would be told that a new item is known, or read another's answer."""

        async def use():
            options = dict(port=self.cluster.nodes[0].port, socket_timeout=None)
            async with redis.asyncio.RedisCluster(host="127.0.0.1", **options) as client:
                seen = await AsyncShardedBloom.create(client, "seen", 1000, 1e-9, shards=4)
                connection = redis.asyncio.connection.AbstractConnection
                read, calls = connection.read_response, itertools.count()

                async def broken(self, *arguments, **options):
                    reply = await read(self, *arguments, **options)
                    if options.get("disable_decoding") and next(calls) == 0:
                        await self.disconnect()
                        raise redis.ConnectionError("cut")
                    return reply

                with mock.patch.object(connection, "read_response", broken):
                    self.assertIs(await seen.add("a"), MAYBE_NEW)
                # Whoever is stopped while it waits leaves no answer behind.
                tasks = [asyncio.create_task(seen.contains_many(words(5000))) for _ in range(5)]
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self.assertEqual((await seen.contains("a"), await seen.add("b"), await seen.card()), (True, True, 2))

        asyncio.run(use())

    def test_the_answers_are_those_of_one_large_filter(self):
        """The whole would be wrong more often than a shard is, or need more memory than was planned."""
        count, rate = 200_000, 0.01
        seen = ShardedBloom.create(self.client, "seen", count, rate, shards=50, seed=7)
        numbers = numpy.arange(2 * count, dtype="<u8")
        # An item is taken for known by the errors of what is there before it: the rate of a filter that fills.
        new = seen.update(numbers[:count])
        self.assertTrue(all(seen.contains_many(numbers[:count])))
        self.assertEqual(len(seen), new)
        info = seen.info()
        self.assertEqual([shard.layers for shard in info.shards], [1] * 50)
        self.assertGreater(min(shard.items for shard in info.shards), 0)
        [size, *_] = plan(count, rate)
        self.assertLess(info.size_in_bytes, 1.2 * size)
        # One filter of the same items, of which each shard is a sample.
        key = "{one}"
        self.client.execute_command("BF.RESERVE", key, rate, info.shards[0].capacity * 50, "SEED", 7)
        one = importlib.import_module("libbloom").Bloom(self.client, key)
        once = one.update(numbers[:count])
        self.assertLess(abs(int(new) - once), 3 * math.sqrt(2 * (count - once + 1)))
        strangers = numbers[count:]
        found, by_one = sum(seen.contains_many(strangers)), sum(one.contains_many(strangers))
        self.assertLess(abs(int(found) - int(by_one)), 3 * math.sqrt(found + by_one))
        self.assertLess(found, rate * count)

    def test_a_name_is_made_once(self):
        """Another number of shards would deny four items of five, and say nothing."""
        made = ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        made.add("a")
        with self.assertRaisesRegex(ValueError, "exists"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        for other in [dict(shards=9), dict(shards=8, error_rate=0.02), dict(shards=8, items=1001), dict(shards=8, window=5)]:
            figures = {"items": 1000, "error_rate": 0.01, **other}
            with self.assertRaisesRegex(ValueError, "exists with another "):
                ShardedBloom.create(self.client, "seen", exist_ok=True, **figures)
        again = ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8, exist_ok=True)
        self.assertIn("a", again)
        # What servers refuse leaves nothing.
        with self.assertRaisesRegex(redis.ResponseError, "."):
            ShardedBloom.create(self.client, "refused", 10**12, 0.01, shards=1)
        self.assertFalse(self.client.exists("refused:{meta}"))
        # Others' keys are not taken over.
        self.client.set("mine:{3}:8", "precious")
        with self.assertRaisesRegex(ValueError, r"there is a key mine:\{3\}:8"):
            ShardedBloom.create(self.client, "mine", 1000, 0.01, shards=8)
        self.assertFalse(self.client.exists("mine:{meta}"))
        with self.assertRaisesRegex(ValueError, "no sharded filter of version 1"):
            self.client.hset("later:{meta}", "version", "2")
            "a" in ShardedBloom(self.client, "later")

    def test_a_damaged_description_is_an_error(self):
        """A program would end without memory, or look for items in shards that are not there, and call all of them new."""
        ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        whole = self.client.hgetall("seen:{meta}")
        for field, value, why in [
            ("shards", "0", "shards must be 1 to 65,536, not 0"),
            ("shards", "-1", "-1 is out of range"),
            ("shards", "999999999", "1 to 65,536, not 999,999,999"),
            ("shards", "8.0", "'8.0'"),
            ("capacity", "1" + 30 * "0", "is out of range"),
            ("shard_capacity", None, "it has no shard_capacity"),
            ("error_rate", "nan", "the error rate must be"),
            ("error_rate", b"\xff", "float"),
            ("expansion", "-1", "-1 is out of range"),
            ("layout", "odd", "layout must be"),
            ("refresh", "1", "window"),
            ("odd", "1", "it has a field odd, which this version does not know"),
        ]:
            self.client.delete("seen:{meta}")
            self.client.hset("seen:{meta}", mapping=whole)
            if value is None:
                self.client.hdel("seen:{meta}", field)
            else:
                self.client.hset("seen:{meta}", field, value)
            with self.subTest(field=field, value=value), self.assertRaisesRegex(ValueError, "damaged: .*" + why):
                ShardedBloom(self.client, "seen").contains("a")
        self.client.delete("seen:{meta}")
        self.client.hset("seen:{meta}", mapping={**whole, b"state": "odd"})
        with self.assertRaisesRegex(ValueError, "'seen' is odd; drop it first"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8, exist_ok=True)

    def test_numbers_may_have_any_type(self):
        """A description would be stored that nothing can read or drop, or a minute pass before an error that says nothing."""
        figures = dict(items=1000, error_rate=0.25, shards=4, expansion=4, seed=1000, window=86400, slices=4, refresh=True)
        plain = ShardedBloom.create(self.client, "seen", **figures).info()
        exact = dict(figures, items=numpy.float64(1000), error_rate=numpy.float32(0.25), shards=numpy.int64(4))
        whole = {word: (float, numpy.float64, numpy.int64, numpy.uint32) for word in ("expansion", "seed", "window", "slices")}
        kinds = {
            **whole,
            "shards": whole["seed"],
            "items": (float, numpy.float32, numpy.int64, Fraction, Decimal),
            "error_rate": (numpy.float32, numpy.float64, Fraction, Decimal),
            "refresh": (numpy.bool_,),
        }
        for others in [exact, *({word: kind(figures[word])} for word in kinds for kind in kinds[word])]:
            with self.subTest(others):
                again = ShardedBloom.create(self.client, "seen", **{**figures, **others}, exist_ok=True)
                self.assertEqual(again.info(), plain)
                again.drop()
                made = ShardedBloom.create(self.client, "seen", **{**figures, **others}, patience=0)
                self.assertEqual((made.add("a"), "a" in ShardedBloom(self.client, "seen")), (True, True))
                self.assertEqual(ShardedBloom(self.client, "seen").info().options, plain.options)
                made.drop()
                self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)
                ShardedBloom.create(self.client, "seen", **figures)
        made = ShardedBloom.create(self.client, "true", 1000, shards=True, fixed=numpy.True_, growing=numpy.False_)
        self.assertEqual((len(made.info().shards), made.info().options), (1, {"layout": "blocked", "fixed": True}))
        no_replica = ShardedBloom(self.client, "true", patience=0, replicas=numpy.int64(1))
        with self.assertRaisesRegex(UnsureError, "0 of 1 replicas"):
            no_replica.add("a")

    def test_a_damaged_description_is_dropped(self):
        """Nobody could use the name again, nor free the memory of its shards."""
        for field, value in [
            ("window", "86400.0"),
            ("capacity", "1" + 30 * "0"),
            ("shard_capacity", None),
            ("error_rate", b"\xff"),
            ("layout", "odd"),
            ("odd", "1"),
            (b"\xff", "1"),
            ("id", b"\xff"),
            ("id", None),
            ("state", b"\xff"),
        ]:
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
            if value is None:
                self.client.hdel("seen:{meta}", field)
            else:
                self.client.hset("seen:{meta}", field, value)
            with self.subTest(field=field, value=value):
                ShardedBloom(self.client, "seen").drop()
                self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)
        ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        for shards in ("8.0", "0", "65537", None):
            self.client.hset("seen:{meta}", "shards", shards) if shards else self.client.hdel("seen:{meta}", "shards")
            with self.assertRaisesRegex(ValueError, r"not say how many shards.*seen:\{0\}:N .*by hand, then seen:\{meta\}"):
                ShardedBloom(self.client, "seen").drop()
        # What another version, or another program, stored is left alone.
        self.client.hset("seen:{meta}", mapping={"shards": 8, "version": 2})
        with self.assertRaisesRegex(ValueError, "no sharded filter of version 1"):
            ShardedBloom(self.client, "seen").drop()
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 9)

    def test_what_was_interrupted_goes_on(self):
        """A killed program would leave half a filter, which denies items, or cannot be made or dropped any more."""
        for last in range(1, 5):
            with self.subTest(last), self.interrupted(last):
                ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
            with contextlib.suppress(MissingError):
                self.assertNotIn("a", ShardedBloom(self.client, "seen"))
                self.fail("half a filter was opened")
            seen = ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
            seen.update(words(100))
            for step in range(1, 4):
                with self.interrupted(step):
                    seen.drop()
            with self.assertRaisesRegex(MissingError, "it is being dropped"):
                "a" in ShardedBloom(self.client, "seen")
            with self.assertRaisesRegex(ValueError, "is being dropped; drop it first"):
                ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
            seen.drop()
            self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)
            with self.assertRaises(MissingError):
                seen.drop()

    @contextlib.contextmanager
    def interrupted(self, last):
        """Ctrl-C when so many exchanges have been made."""
        exchange, calls = Links.exchange, itertools.count()

        async def stopped(links, parts):
            if next(calls) >= last:
                raise KeyboardInterrupt
            return await exchange(links, parts)

        with mock.patch.object(Links, "exchange", stopped), self.assertRaises(KeyboardInterrupt):
            yield

    def test_who_fails_to_create_deletes_nothing_of_others(self):
        """A filter that another program made and filled at the same time would be gone."""

        def made_by_another():
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8).add("a")
            for client in self.cluster.clients:
                self.addCleanup(client.config_set, "maxmemory", 0)
                client.config_set("maxmemory", 1)

        with before("BF.RESERVE", made_by_another), self.assertRaisesRegex(redis.ResponseError, "maxmemory"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        self.assertIn("a", ShardedBloom(self.client, "seen"))

    def test_a_creation_that_fails_leaves_nothing(self):
        """The name could not be used again before somebody dropped what nobody made."""

        def full():
            for client in self.cluster.clients:
                self.addCleanup(client.config_set, "maxmemory", 0)
                client.config_set("maxmemory", 1)

        with before("BF.RESERVE", full), self.assertRaisesRegex(redis.ResponseError, "maxmemory"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)

    def test_a_creation_notices_a_drop(self):
        """The name would have a description without figures, or shards without one, which nothing but a DEL by hand
        removes."""

        def dropped():
            ShardedBloom(self.client, "seen").drop()

        def full():
            dropped()
            for client in self.cluster.clients:
                self.addCleanup(client.config_set, "maxmemory", 0)
            self.cluster.clients[0].config_set("maxmemory", 1)

        def full_everywhere():
            full()
            for client in self.cluster.clients:
                client.config_set("maxmemory", 1)

        for step, act, error, text in [
            ("ready", dropped, MissingError, "dropped while it was created"),
            ("BF.RESERVE", dropped, MissingError, "dropped while it was created"),
            ("BF.RESERVE", full, redis.ResponseError, "maxmemory"),
            ("BF.RESERVE", full_everywhere, redis.ResponseError, "maxmemory"),
        ]:
            with self.subTest(f"{step} {act.__name__}"):
                with before(step, act), self.assertRaisesRegex(error, text):
                    ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
                self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)
                for client in self.cluster.clients:
                    client.config_set("maxmemory", 0)

    def test_a_creation_that_was_dropped_spares_what_others_have_made(self):
        """Another program's filter of the same name, or another's key, would be deleted."""

        def made_anew():
            ShardedBloom(self.client, "seen").drop()
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8).add("a")

        for step in ("BF.RESERVE", "ready"):
            with before(step, made_anew), self.assertRaisesRegex(MissingError, "dropped while it was created"):
                ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
            with self.subTest(step):
                self.assertIn("a", ShardedBloom(self.client, "seen"))
                self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 9)
                ShardedBloom(self.client, "seen").drop()

        def taken():
            ShardedBloom(self.client, "seen").drop()
            self.client.execute_command("BF.ADD", "seen:{3}:8", "precious")

        with before("BF.RESERVE", taken), self.assertRaisesRegex(MissingError, "dropped while it was created"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 1)
        self.assertTrue(self.client.execute_command("BF.EXISTS", "seen:{3}:8", "precious"))

    def test_a_drop_that_is_not_done_is_left_to_its_program(self):
        """What a drop that was killed left would have no description any more by which another drop finds it."""

        def begun():
            with self.interrupted(3):
                ShardedBloom(self.client, "seen").drop()

        with before("BF.RESERVE", begun), self.assertRaisesRegex(MissingError, "dropped while it was created"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        self.assertTrue(self.client.exists("seen:{meta}"))
        ShardedBloom(self.client, "seen").drop()
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)

    def test_a_drop_that_is_sent_again_spares_what_was_made_since(self):
        """A filter that another program made of the same name would lose its shards, or could not be opened any more."""
        exchange = Links.exchange
        for step in ("dropped", "gone"):
            ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
            is_first = [True]

            async def repeated(links, parts):
                replies = await exchange(links, parts)
                if not is_first or not any(step in command for _, commands in parts for command in commands):
                    return replies
                # The answer is lost; others are faster.
                is_first.clear()
                if step == "dropped":
                    ShardedBloom(self.client, "seen").drop()
                ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8).add("a")
                return await exchange(links, parts)

            with self.subTest(step), mock.patch.object(Links, "exchange", repeated):
                if step == "dropped":
                    # It is one that is being dropped, for the other one, too.
                    with contextlib.suppress(MissingError):
                        ShardedBloom(self.client, "seen").drop()
                else:
                    ShardedBloom(self.client, "seen").drop()
            self.assertEqual(is_first, [])
            self.assertIn("a", ShardedBloom(self.client, "seen"))
            ShardedBloom(self.client, "seen").drop()

    def test_an_error_is_known_by_its_whole_text(self):
        """A program would take a user's or a filter's name for the news that a filter is full, or lost."""
        seen = ShardedBloom.create(self.client, "not found", 20, 0.01, shards=1)
        for name in ("fullaccess", "lost"):
            for client in self.cluster.clients:
                client.execute_command("ACL", "SETUSER", name, "on", ">pw", "~*", "+@all", "-bf.insert", "-bf.exists")
                self.addCleanup(client.execute_command, "ACL", "DELUSER", name)
            for library, kind in [(redis, "RedisCluster"), (valkey, "ValkeyCluster")]:
                module = importlib.import_module(f"{library.__name__}.cluster")
                options = dict(port=self.cluster.nodes[0].port, username=name, password="pw", socket_timeout=None)
                with getattr(module, kind)(host="127.0.0.1", **options) as client:
                    for call in (ShardedBloom(client, "not found").add, ShardedBloom(client, "not found").contains):
                        with self.assertRaisesRegex(library.exceptions.NoPermissionError, r"^not found:\{0\}:1: .*permission"):
                            call("a")
        self.client.set("not found:{0}:1", "a text")
        with self.assertRaisesRegex(redis.ResponseError, r"^not found:\{0\}:1: WRONGTYPE"):
            seen.add("a")

    def test_a_filter_is_dropped_where_memory_is_short(self):
        """Nobody could make room on a server that is full of it."""
        seen = ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        seen.add("a")
        for client in self.cluster.clients:
            self.addCleanup(client.config_set, "maxmemory", 0)
            client.config_set("maxmemory", 1)
        with self.assertRaisesRegex(redis.ResponseError, "other.*maxmemory"):
            ShardedBloom.create(self.client, "other", 1000, 0.01, shards=8)
        seen.drop()
        self.assertEqual(sum(client.dbsize() for client in self.cluster.clients), 0)

    def test_a_lost_shard_is_an_error(self):
        """An evicted shard would call everything new, or be filled again as a small filter."""
        seen = ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        seen.update(words(1000))
        lost = seen._known.key(seen._known.shard(b"item 7"))
        self.client.delete(lost)
        calls = [
            lambda: "item 7" in seen,
            lambda: seen.add("item 7"),
            lambda: seen.update(["item 7"]),
            lambda: seen.add_many(words(20)),
            lambda: seen.contains_many(words(20)),
            lambda: len(seen),
        ]
        # Redis 6.2 has no CONFIG for a module's options.
        names = list(self.cluster.clients[0].config_get("bf?missing-key"))
        for option in ["empty", "error"] if names else ["empty"]:
            for client in self.cluster.clients if names else []:
                client.config_set(names[0], option)
                self.addCleanup(client.config_set, names[0], "empty")
            for call in calls:
                with self.assertRaisesRegex(MissingError, f"there is no {lost.decode()}".replace("{", r"\{")):
                    call()
        self.assertFalse(self.client.exists(lost))
        with self.assertRaisesRegex(MissingError, "no sharded filter 'unseen'"):
            "a" in ShardedBloom(self.client, "unseen")

    def test_who_knows_an_older_filter_of_the_name_is_told(self):
        """A program that runs on while a filter is made anew would look for items in the wrong shards."""
        old = ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=8)
        old.add("a")
        new = ShardedBloom(self.client, "seen")
        new.drop()
        ShardedBloom.create(self.client, "seen", 1000, 0.01, shards=9).add("a")
        with self.assertRaises(MissingError):
            "a" in old
        self.assertTrue(("a" in old, "a" in new), (True, True))

    def test_a_full_shard_says_so(self):
        """Items that did not fit would look like those that were there."""
        seen = ShardedBloom.create(self.client, "seen", 20, 0.01, shards=3, fixed=True)
        with self.assertRaisesRegex(FullError, r"seen:\{\d\}:3: non scaling filter is full"):
            seen.update(words(200))
        with self.assertRaisesRegex(FullError, r"seen:\{\d\}:3: non scaling filter is full"):
            for word in words(200, "more "):
                seen.add(word)
        for bad in (None, 5, ["a"]):
            with self.assertRaises(TypeError):
                seen.add(bad)
        for call in (seen.update, seen.contains_many, seen.add_many):
            with self.assertRaises(TypeError):
                call("text")

    def test_a_cut_connection_makes_no_wrong_answer(self):
        """An item whose first answer was lost would be called known, and its page never fetched."""
        seen = ShardedBloom.create(self.client, "seen", 1000, 1e-9, shards=4)
        with self.cut():
            self.assertIs(seen.add("a"), MAYBE_NEW)
        self.assertTrue(MAYBE_NEW)
        self.assertEqual(repr(MAYBE_NEW), "MAYBE_NEW")
        seen.add("b")
        with self.cut():
            # Each node's first command was carried out, and its answer is lost.
            answers = seen.add_many(words(50))
        self.assertEqual(set(answers), {True, MAYBE_NEW})
        with self.cut():
            count = seen.update([*words(50, "more "), *words(50)])
        self.assertGreater(count.maybe, 0)
        self.assertEqual(seen.update(words(50, "more ")), 0)
        self.assertTrue(int(count) <= 50 <= count + count.maybe <= 100)
        with self.cut():
            self.assertEqual(seen.contains_many(["a", "absent", "more 1"]), [True, False, True])

    @contextlib.contextmanager
    def cut(self):
        """The first answer that comes to a connection is not read: it breaks."""
        connection = redis.connection.AbstractConnection
        read, calls = connection.read_response, itertools.count()

        def broken(self, *arguments, **options):
            reply = read(self, *arguments, **options)
            if options.get("disable_decoding") and next(calls) == 0:
                self.disconnect()
                raise redis.ConnectionError("cut")
            return reply

        with mock.patch.object(connection, "read_response", broken):
            yield

    def test_slots_that_move_lose_nothing(self):
        """Who adds a node would lose what is added meanwhile."""
        shards = 20
        seen = ShardedBloom.create(self.client, "moving", 4000, 1e-9, shards=shards)
        before, during = words(1000, "before "), words(1000, "during ")
        seen.update(before)
        for shard in range(4):
            at = slot(seen._known.key(shard))
            source = at * PRIMARIES // SLOTS
            some = during[250 * shard : 250 * (shard + 1)]

            def use():
                self.assertEqual(seen.update(some), 250)
                self.assertTrue(all(seen.contains_many(before)))
                for word in some:
                    self.assertIn(word, seen)

            self.cluster.move_slot(at, source, (source + 1) % PRIMARIES, use)
        for client in (self.client, RedisCluster.from_url(self.cluster.url, socket_timeout=None)):
            self.assertTrue(all(ShardedBloom(client, "moving").contains_many(before + during)))
        self.assertEqual(len(seen), 2000)


    def test_slots_that_move_lose_nothing_with_asyncio(self):
        """A service with asyncio would end when a node is added."""

        async def use(library, name):
            module = importlib.import_module(f"{library.__name__}.asyncio.cluster")
            options = dict(port=self.cluster.nodes[0].port, socket_timeout=None)
            async with getattr(module, name)(host="127.0.0.1", **options) as client:
                seen = await AsyncShardedBloom.create(client, "moving", 1000, 1e-9, shards=6)
                self.assertEqual(await seen.update(words(100)), 100)
                at = slot(b"moving:{0}:6")
                [source] = [place for place, node in enumerate(self.cluster.clients) if self.owns(node)]
                loop = asyncio.get_running_loop()

                def half_way():
                    # Some keys of the slot are here, some there.
                    asked = asyncio.run_coroutine_threadsafe(seen.add_many(words(200)), loop)
                    self.assertEqual(asked.result(PATIENCE), [False] * 100 + [True] * 100)

                target = (source + 1) % PRIMARIES
                await asyncio.to_thread(self.cluster.move_slot, at, source, target, half_way)
                self.assertEqual(await seen.contains_many(words(300)), [True] * 200 + [False] * 100)
                self.assertTrue(await seen.add("item 200"))
                await seen.drop()

        for library, name in [(redis, "RedisCluster"), (valkey, "ValkeyCluster")]:
            with self.subTest(name):
                asyncio.run(use(library, name))

    @staticmethod
    def owns(node):
        """Whether a node has the slot that moves."""
        try:
            node.execute_command("EXISTS", "moving:{0}:6")
        except redis.ResponseError as error:
            return "MOVED" not in f"{type(error).__name__} {error}".upper()
        return True


class ChangingTest(ClusterCase):
    """A cluster that changes while it is loaded."""

    REPLICAS = 1

    def test_what_was_confirmed_is_found(self):
        """A node that is added, slots that move, or a primary that dies would cost items that were confirmed."""
        client = RedisCluster.from_url(self.cluster.url, socket_timeout=30)
        seen = ShardedBloom.create(client, "seen", 2_000_000, 0.001, shards=32, patience=100, replicas=1)
        confirmed, stop, failed, counted = [], threading.Event(), [], []

        def load():
            try:
                for number in itertools.count():
                    if stop.is_set():
                        return
                    some = numpy.arange(1000 * number, 1000 * (number + 1), dtype="<u8")
                    counted.append(seen.update(some))
                    confirmed.append(some)
            except BaseException as error:
                failed.append(error)
                raise

        loader = threading.Thread(target=load)
        loader.start()
        try:
            self.grows(confirmed, failed, 5)
            added = self.cluster.add_primary()
            for shard in range(0, 32, 4):
                at = slot(b"seen:{%d}:32" % shard)
                self.cluster.move_slot(at, at * PRIMARIES // SLOTS, added, lambda: time.sleep(0.02))
            self.grows(confirmed, failed, 5)
            for shard in range(1, 32, 4):
                at = slot(b"seen:{%d}:32" % shard)
                self.cluster.migrate_slot(at, at * PRIMARIES // SLOTS, added)
            self.grows(confirmed, failed, 5)
            # A primary with shards dies at once, and its replica takes over.
            self.cluster.take_for_dead_after(SOON)
            victim = self.cluster.nodes[1]
            victim.process.kill()
            victim.process.wait()
            replica = self.cluster.clients[PRIMARIES + 1]
            self.cluster.wait_until(lambda: replica.info("replication")["role"] == "master")
            # It comes back empty, as a replica, without which nothing can be confirmed.
            victim.start()
            self.cluster.take_for_dead_after(LATE)
            self.grows(confirmed, failed, 5)
        finally:
            stop.set()
            loader.join()
        self.assertEqual(failed, [])
        asking = ShardedBloom(RedisCluster.from_url(self.cluster.url, socket_timeout=30), "seen")
        for some in confirmed:
            self.assertTrue(all(asking.contains_many(some)))
        # Nothing is missing: a load that goes on would else say that a server has lost items.
        items = len(asking)
        self.assertTrue(sum(counted) <= items <= sum(count + count.maybe for count in counted), (items, counted))

    def grows(self, confirmed, failed, batches):
        """Waits until so many more batches are confirmed."""
        wanted = len(confirmed) + batches
        self.cluster.wait_until(lambda: failed or len(confirmed) >= wanted)
        self.assertEqual(failed, [])


if __name__ == "__main__":
    unittest.main()
