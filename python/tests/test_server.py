"""Filters between a program and servers: push and pull, `Bloom` and `AsyncBloom`, on real servers.

BLOOM_TEST_SERVER and BLOOM_TEST_MODULE name other ones than redis-server and ./libbloom.so.
"""

import asyncio
import importlib
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from unittest import mock

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "tests/examples")]

import support  # noqa: E402
import numpy  # noqa: E402
import redis  # noqa: E402
import redis.asyncio  # noqa: E402
import valkey  # noqa: E402
import valkey.asyncio  # noqa: E402
from redis.crc import key_slot  # noqa: E402
import servers  # noqa: E402
from servers import PATIENCE, BareServer, Cluster, before  # noqa: E402

from libbloom import (  # noqa: E402
    MAYBE_NEW,
    AsyncBloom,
    AsyncShardedBloom,
    Bloom,
    Filter,
    FormatError,
    FullError,
    MissingError,
    ShardedBloom,
    UnsureError,
    _client,
    _words,
)
from libbloom._cluster import AsyncLinks, Links, connection_of, run  # noqa: E402

PROGRAM = os.environ.get("BLOOM_TEST_SERVER", "redis-server")
MODULE = Path(os.environ.get("BLOOM_TEST_MODULE", PROJECT / "libbloom.so"))
# Keys whose tags are all that decides about the slot, are empty, are not closed, or hold the other brace.
KEYS = ["seen", "{seen}:1", "a{b}c{d}", "{}empty", "{open", "clo}se", "a}b{c", "", "}{", b"\xff\0{x"]


def words(count, prefix="item "):
    return [f"{prefix}{number}" for number in range(count)]


def setUpModule():
    global server
    server = support.Server(PROGRAM, MODULE)
    unittest.addModuleCleanup(server.__exit__)
    server.__enter__()


def clients():
    """Every kind of client of one server."""
    for library, name in [(redis, "Redis"), (valkey, "Valkey")]:
        for protocol in (2, 3):
            for decode in (False, True):
                options = dict(port=server.port, protocol=protocol, decode_responses=decode, socket_timeout=None)
                yield getattr(library, name)(host="127.0.0.1", **options)


class ServerCase(unittest.TestCase):
    def setUp(self):
        self.client = server.client()
        self.addCleanup(self.client.close)
        self.client.flushall()

    def no_other_keys(self, *keys):
        self.assertEqual(sorted(self.client.keys()), sorted(key.encode() for key in keys))


class NamesTest(unittest.TestCase):
    def test_temporary_names_are_in_the_slot_of_the_key(self):
        """A push to a cluster would end with CROSSSLOT, for some keys."""
        for key in KEYS:
            key = key.encode() if isinstance(key, str) else key
            self.assertEqual(_words.slot(key), key_slot(key))
            other = _words.temporary(key)
            self.assertEqual(key_slot(other), key_slot(key), (key, other))
            self.assertNotEqual(other, _words.temporary(key))


class SoftLimit(Exception):
    """What a task queue's signal handler raises in a task that takes too long."""


class SignalTest(ServerCase):
    def test_the_error_of_a_signal_handler_reaches_the_program(self):
        """A task would not learn that its time is over, send its items again, and be killed."""

        def over(*_):
            raise SoftLimit

        seen = Bloom(self.client, "seen")
        seen.add("before")
        here = Filter(100, seed=7)
        before = signal.signal(signal.SIGALRM, over)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        other = server.client()
        self.addCleanup(other.close)
        for what in (
            lambda: seen.add("x"),
            lambda: "before" in seen,
            lambda: seen.update(words(10)),
            lambda: here.push(self.client, "pushed"),
            lambda: Filter.pull(self.client, "seen"),
        ):
            other.client_pause(3000)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with self.assertRaises(SoftLimit):
                what()
            other.client_unpause()
            self.assertIn("before", seen)


class PushTest(ServerCase):
    KINDS = {
        "blocked": ({}, ["0.01", 100, "SEED", 7]),
        "expansion": ({"expansion": 4}, ["0.01", 100, "SEED", 7, "EXPANSION", 4]),
        "growing": ({"growing": True}, ["0.01", 100, "SEED", 7, "GROWING"]),
        "fixed": ({"fixed": True}, ["0.01", 100, "SEED", 7, "NONSCALING"]),
        "classic": ({"layout": "classic", "seed": None}, ["0.01", 100, "LAYOUT", "CLASSIC"]),
        "window": ({"window": 10**9}, ["0.01", 100, "SEED", 7, "WINDOW", 10**9]),
    }

    def test_a_filter_grown_here_and_there_has_the_same_bytes(self):
        """Items that a program and a server add to a filter would be lost by one of them."""
        for name, (options, reserve) in self.KINDS.items():
            with self.subTest(name):
                here = Filter(100, 0.01, **{"seed": 7, **options})
                self.client.delete("there", "pushed")
                self.client.execute_command("BF.RESERVE", "there", *reserve)
                some = words(90 if name == "fixed" else 3000)
                if name == "window":
                    # The time of an item is part of the bytes.
                    self.client.execute_command("BF.INSERT", "there", "NOCREATE", "AT", 1_000_000_000_000, "ITEMS", *some)
                    here.update(some, now=1e9)
                else:
                    self.client.execute_command("BF.MADD", "there", *some)
                    here.update(some)
                here.push(self.client, "pushed")
                self.assertEqual(self.client.dump("there"), self.client.dump("pushed"))
                self.assertEqual(Filter.pull(self.client, "there"), here)
                # Both grow on alike.
                if name in ("window", "fixed"):
                    continue
                here.update(words(3000, "more "))
                self.client.execute_command("BF.MADD", "pushed", *words(3000, "more "))
                self.assertEqual(Filter.pull(self.client, "pushed"), here)

    def test_every_client_and_every_name_of_a_key(self):
        """A program with another client, or another key, could not take its filter along."""
        seen = Filter(1000, seed=7)
        seen.update(words(2500))
        for client in clients():
            with client:
                if client.connection_pool.connection_kwargs["protocol"] == 3:
                    # It gives the client callbacks that read replies in another way.
                    getattr(client, "bf", lambda: None)()
                for key in KEYS:
                    seen.push(client, key)
                    self.assertEqual(Filter.pull(client, key), seen)
        self.assertEqual(self.client.dbsize(), len(KEYS))

    def test_large_filters_go_in_many_chunks(self):
        """Filters above 16 MiB would be cut."""
        seen = Filter(15_000_000, 0.001, seed=7)
        seen.update(numpy.arange(20_000))
        self.assertGreater(len(seen.chunks()), 2)
        seen.push(self.client, "seen")
        self.assertEqual(Filter.pull(self.client, "seen"), seen)
        self.no_other_keys("seen")

    def test_the_key_keeps_its_expiry_and_its_type(self):
        """A filter would stay for ever, or vanish at once, or take the place of other data."""
        seen = Filter(100)
        seen.add("a")
        for expiry in (None, 5_000_000):
            Bloom(self.client, "seen").add("b")
            if expiry:
                self.client.pexpire("seen", expiry)
            seen.push(self.client, "seen")
            left = self.client.pttl("seen")
            self.assertTrue(left == -1 if expiry is None else 4_900_000 < left <= expiry, left)
            self.assertEqual(Filter.pull(self.client, "seen"), seen)
        self.client.set("text", "precious")
        with self.assertRaisesRegex(ValueError, "the key 'text' holds string, which is no filter"):
            seen.push(self.client, "text")
        # It became another type while the chunks were on their way.
        with before(_client.FINISH, lambda: self.client.rpush("late", "precious")):
            with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE the key holds list, which is no filter"):
                seen.push(self.client, "late")
        self.assertEqual((self.client.get("text"), self.client.lrange("late", 0, -1)), (b"precious", [b"precious"]))

    def test_an_interrupted_push_harms_nothing(self):
        """The key would be missing or half, or the rest of a filter stay in the server."""
        old, new = Filter(100), Filter(15_000_000, 0.001)
        old.add("old")
        new.update(numpy.arange(20_000))
        old.push(self.client, "seen")
        for last in itertools.count(1):
            # The connection breaks, and nothing more can be sent.
            client = server.client()
            calls = iter(range(10**6))
            send = redis.Connection.send_packed_command

            def broken(connection, command, check_health=True):
                if next(calls) >= last:
                    raise redis.ConnectionError("cut")
                return send(connection, command, check_health)

            try:
                with mock.patch.object(redis.Connection, "send_packed_command", broken):
                    Bloom(client, "seen", patience=0).push(new)
                break
            except (redis.ConnectionError, UnsureError) as error:
                self.assertIn("cut", str(error))
            finally:
                client.close()
            self.assertEqual(Filter.pull(self.client, "seen"), old)
            for key in self.client.keys():
                if key != b"seen":
                    self.assertTrue(0 < self.client.pttl(key) <= _client.LEFT_OVER)
                    self.client.delete(key)
        self.assertGreater(last, 4)
        old.push(self.client, "seen")
        # An error of the server, such as a limit: the rest is removed at once.
        self.client.config_set("maxmemory", self.client.info("memory")["used_memory"] + (8 << 20))
        try:
            with self.assertRaises(redis.RedisError):
                new.push(self.client, "seen")
        finally:
            self.client.config_set("maxmemory", 0)
        self.no_other_keys("seen")
        self.assertEqual(Filter.pull(self.client, "seen"), old)

    def test_a_filter_that_changes_meanwhile_is_pulled_whole(self):
        """Items would be missing in what was pulled while others added to it."""
        seen = Bloom(self.client, "seen", capacity=1000, error_rate=0.001)
        seen.update(words(5000))
        last = seen.pull().chunks()[0][0]
        with before(last, lambda: self.client.execute_command("BF.MADD", "seen", *words(9000, "more "))):
            pulled = seen.pull()
        self.assertTrue(all(pulled.contains_many(words(5000) + words(9000, "more "))))
        self.assertEqual(pulled, Filter.pull(self.client, "seen"))
        self.no_other_keys("seen")

    def test_a_classic_filter_that_is_made_anew_meanwhile_is_pulled_whole(self):
        """What was pulled would be half of the old filter and half of the new one, since both have as many items."""
        old, new = words(20_000, "old "), words(20_000, "new ")
        add = ("BF.INSERT", "seen", "CAPACITY", 9_500_000, "ERROR", 0.001, "LAYOUT", "CLASSIC", "ITEMS")
        self.client.execute_command(*add, *old)
        first = Filter.pull(self.client, "seen").chunks()[1][0]

        def made_anew():
            self.client.execute_command("BF.RESET", "seen")
            self.client.execute_command(*add, *new)

        with before(first, made_anew):
            pulled = Filter.pull(self.client, "seen")
        self.assertEqual((len(pulled), all(pulled.contains_many(new))), (20_000, True))

    def test_a_dump_without_end_is_refused(self):
        """A program would fill the memory of its machine with what a broken server, or a false one, sends."""
        seen = Filter(100)
        seen.add("one")
        [header, (end, data)] = seen.chunks()
        for endless in (
            lambda iterator: (iterator + 64, bytes(64)),
            lambda iterator: (end, data),
            lambda iterator: (iterator + 1, b""),
        ):
            asked = []

            async def deliver(self, calls, **_):
                [call] = calls
                asked.append(call)
                if len(asked) > 100:
                    raise AssertionError("it does not end")
                [_, _, iterator] = call.command
                return [header if iterator == 0 else endless(iterator)]

            async def tried(self, *calls, **_):
                calls[0].error = redis.ResponseError("ERR")

            with mock.patch.object(Bloom, "_deliver", deliver), mock.patch.object(Bloom, "_tried", tried):
                with self.assertRaises(FormatError):
                    Filter.pull(self.client, "seen")
            self.assertLess(len(asked), 10)

    def test_what_is_no_filter_cannot_be_pulled(self):
        """A program would go on with an empty filter, in which nothing is found."""
        self.client.set("text", "a")
        with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
            Filter.pull(self.client, "text")
        with self.assertRaisesRegex(redis.ResponseError, "not found"):
            Filter.pull(self.client, "missing")


class BloomTest(ServerCase):
    def test_every_method_with_every_client(self):
        """A program would get bytes for numbers, or None for answers, with the other client or protocol."""
        for client in clients():
            options = client.connection_pool.connection_kwargs
            with self.subTest(f"{type(client).__module__} {options['protocol']} {options['decode_responses']}"), client:
                self.client.flushall()
                getattr(client, "bf", lambda: None)()
                seen = Bloom(client, "seen", capacity=1000, error_rate=1e-6, expansion=4, seed=7)
                self.assertEqual(("a" in seen, seen.contains_many(["a"])), (False, [False]))
                self.assertEqual((seen.add("a"), seen.add(b"a"), "a" in seen, seen.contains("b")), (True, False, True, False))
                self.assertEqual(seen.update(words(3000)), 3000)
                here = Filter(1000, 1e-6, expansion=4, seed=7)
                here.update(["a", *words(3000)])
                self.assertEqual(seen.pull(), here)
                answers = seen.contains_many([*words(3000), *words(3000, "absent ")])
                self.assertEqual(answers, here.contains_many([*words(3000), *words(3000, "absent ")]))
                self.assertEqual((len(seen), seen.card(), bool(seen)), (3001, 3001, True))
                self.assertEqual(seen.except_(["a", "item 1", "absent from it"]), 2)
                info = seen.info()
                self.assertEqual((info.capacity, info.layers, info.expansion, info.error_rate), (5000, 2, 4, 1e-6))
                self.assertEqual((info.layout, info.seed, info.exceptions, info.window), ("blocked", "7", 2, None))
                self.assertTrue(0 < info.fill_ratio < 1 and 0 < info.estimated_error_rate <= 1e-6)
                self.assertEqual([layer.capacity for layer in info.newest_layers], [1000, 4000])
                self.assertEqual(info.newest_layers[0].items, 1000)
                other = Bloom(client, "other", seed=7)
                other.add("z")
                seen.merge(other, "other", error_rate=0.01)
                self.assertIn("z", seen)
                large = Bloom(client, "large", capacity=1_000_000, error_rate=0.01)
                large.update(words(300))
                before = large.info().size_in_bytes
                self.assertEqual(large.shrink(1e6), 0)
                self.assertEqual(before - large.shrink(), large.info().size_in_bytes)
                self.assertLess(large.info().size_in_bytes, before)
                self.assertTrue(all(large.contains_many(words(300))))
                seen.reset()
                self.assertEqual(len(seen), 0)
                seen.push(here)
                self.assertEqual(seen.pull(), here)
                timed = Bloom(client, "timed", capacity=100, window=3600, slices=4, refresh=True)
                timed.add("a")
                info = timed.info()
                self.assertEqual((info.window, info.slices, info.refresh, info.layers), (3600, 4, True, 1))
                [slice] = info.newest_layers
                self.assertLess(1_700_000_000_000, slice.opens)
                self.assertEqual(slice.closes, slice.opens + 900_000)
                for layout in ("CLASSIC", "VALKEY"):
                    with_layout = Bloom(client, layout, capacity=100, layout=layout)
                    with_layout.update(words(300))
                    info = with_layout.info()
                    self.assertEqual((info.layout, info.items > 250), (layout.lower(), True))

    def test_each_of_many_items_is_answered(self):
        """A crawler would fetch what it has seen, or leave out what it has not."""
        seen = Bloom(self.client, "seen", capacity=100_000, error_rate=1e-9, seed=7)
        seen.add("item 1")
        self.assertEqual(seen.add_many(["item 0", "item 1", b"item 2", "item 0", ""]), [True, False, True, False, True])
        self.assertEqual(seen.add_many(words(70_000)), [False] * 3 + [True] * 69_997)
        answers = seen.add_many(numpy.arange(5))
        self.assertEqual((answers.dtype, all(answers), len(seen)), (bool, True, 70_006))
        self.assertFalse(any(seen.add_many(numpy.arange(5))))

        async def use():
            async with redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None) as client:
                return await AsyncBloom(client, "seen").add_many(["item 0", "new"])

        self.assertEqual(asyncio.run(use()), [False, True])

    def test_a_filter_that_is_gone_is_an_error(self):
        """An evicted filter, or a mistyped name, would call everything new."""
        seen = Bloom(self.client, "seen", create=False)
        for call, items in ((seen.add, "a"), (seen.update, ["a"]), (seen.add_many, ["a"])):
            with self.assertRaisesRegex(redis.ResponseError, "not found"):
                call(items)
        self.no_other_keys()
        Bloom(self.client, "seen", capacity=100, error_rate=0.01).reserve()
        self.assertEqual((seen.add("a"), seen.update(["a", "b"]), seen.add_many(["b", "c"])), (True, 1, [False, True]))

    def test_a_filter_is_made_before_its_items_come(self):
        """The first item would make another filter than the one that was planned."""
        options = dict(capacity=1000, error_rate=0.001, seed=7, expansion=4, window=60, slices=4, refresh=True)
        planned = Bloom(self.client, "planned", **options)
        planned.reserve()
        by_item = Bloom(self.client, "by item", **options)
        by_item.add("a")
        self.assertEqual((len(planned), planned.info().capacity), (0, by_item.info().capacity))
        self.assertEqual((planned.info().window, planned.info().refresh, planned.info().seed), (60, True, "7"))
        with self.assertRaisesRegex(redis.ResponseError, "exists"):
            planned.reserve()
        planned.add("a")
        planned.reserve(exist_ok=True)
        self.assertIn("a", planned)
        for options in ({}, {"capacity": 9}, {"error_rate": 0.1}):
            with self.assertRaisesRegex(ValueError, "a filter is made for a capacity and an error_rate"):
                Bloom(self.client, "other", **options).reserve()

        async def use():
            async with redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None) as client:
                made = AsyncBloom(client, "made", capacity=9, error_rate=0.1)
                await made.reserve()
                await made.reserve(exist_ok=True)
                return await made.card()

        self.assertEqual(asyncio.run(use()), 0)

    def test_numbers_may_have_any_type(self):
        """A program that takes its figures from an array would be told after seconds that an item was perhaps added."""
        for options in [
            dict(capacity=True),
            dict(capacity=numpy.int64(100)),
            dict(capacity=numpy.float32(100)),
            dict(capacity="100", error_rate="0.25"),
            dict(error_rate=numpy.float32(0.25)),
            dict(error_rate=numpy.float64(0.25)),
            dict(error_rate=Fraction(1, 4)),
            dict(error_rate=Decimal("0.25")),
            dict(seed=True),
            dict(seed=numpy.uint64(2**64 - 1)),
            dict(expansion=numpy.int8(4), fixed=numpy.False_),
            dict(window=numpy.int64(86400), slices=numpy.float64(4), refresh=numpy.True_),
        ]:
            options = {"capacity": 100, "error_rate": 0.25, "seed": 7, **options}
            with self.subTest(options):
                self.client.flushall()
                for name in ("by item", "reserved"):
                    made = Bloom(self.client, name, **options, patience=0)
                    if name == "reserved":
                        made.reserve()
                    self.assertTrue(made.add("a"))
                    sizes = dict(capacity=int(options["capacity"]), error_rate=float(options["error_rate"]))
                    here, info = Filter(**{**options, **sizes}), made.info()
                    self.assertEqual((info.capacity, info.error_rate, info.seed), (here.capacity, 0.25, str(here.seed)))
                    self.assertEqual((info.expansion, info.window), (here.expansion, here.window))
                    self.assertEqual(info.slices, options.get("slices"))
        plain, other = (Bloom(self.client, name, capacity=100, seed=7, patience=0) for name in ("plain", "other"))
        plain.add("a")
        other.add("b")
        for rate in (numpy.float64(0.25), numpy.float32(0.25), Fraction(1, 4)):
            plain.merge(other, error_rate=rate)
        self.assertGreaterEqual(plain.shrink(numpy.int64(1000)), 0)
        for problem in (dict(capacity=2.5), dict(error_rate="much"), dict(seed=numpy.float64("nan"))):
            with self.subTest(problem), self.assertRaises(ValueError):
                Bloom(self.client, "seen", **problem)

    def test_what_cannot_be_sent_is_no_lost_answer(self):
        """A program would try again for its whole patience, and then be told that its items may be there."""
        for number, client in enumerate(clients()):
            with client:
                seen = Bloom(client, f"{number}", patience=PATIENCE)
                with mock.patch.object(Links, "pause", side_effect=AssertionError("it is tried again")):
                    with self.assertRaisesRegex(Exception, "^(Invalid input of type|A tuple item must be)") as raised:
                        run(seen._added(seen._call("BF.INSERT", "ITEMS", None)))
                    self.assertEqual(type(raised.exception).__name__, "DataError")
                self.assertTrue(seen.add("a"))
        for library in (redis, valkey):
            Client = getattr(library, library.__name__.capitalize())
            with Client(host="127.0.0.1", port=server.port, client_name=object()) as client:
                with mock.patch.object(Links, "pause", side_effect=AssertionError("it is tried again")):
                    with self.assertRaises(library.exceptions.DataError):
                        Bloom(client, "seen", patience=PATIENCE).add("a")

        async def use(library, name):
            async with getattr(library, name)(host="127.0.0.1", port=server.port, socket_timeout=None) as client:
                seen = AsyncBloom(client, name, patience=PATIENCE)
                with self.assertRaises(Exception) as raised:
                    await seen._added(seen._call("BF.INSERT", "ITEMS", None))
                self.assertEqual(type(raised.exception).__name__, "DataError")
                self.assertTrue(await seen.add("a"))

        for library, name in [(redis.asyncio, "Redis"), (valkey.asyncio, "Valkey")]:
            asyncio.run(use(library, name))

    def test_a_merge_can_replace(self):
        """What is no longer in a list would be found for ever."""
        for name, items in (("all", ["old"]), ("one", ["a"]), ("two", ["b"])):
            Bloom(self.client, name, capacity=100, error_rate=1e-6, seed=7).update(items)
        whole = Bloom(self.client, "all")
        whole.merge("one", Bloom(self.client, "two"), replace=True)
        self.assertEqual(whole.contains_many(["a", "b", "old"]), [True, True, False])
        whole.merge("one", error_rate=0.01)
        self.assertEqual(len(whole), 2)

        async def use():
            async with redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None) as client:
                await AsyncBloom(client, "all").merge("one", replace=True)

        asyncio.run(use())
        self.assertEqual(whole.contains_many(["a", "b", "old"]), [True, False, False])

    def test_arrays_are_the_items_that_they_are_in_a_program(self):
        """A filter that was filled from an array in the server would deny the items in the program."""
        for number, array in enumerate(
            [
                numpy.arange(300_000),
                numpy.array([b"a", b"bc", b""]),
                numpy.array(["a", "Zürich"]),
                numpy.array([["x", b"y"]], dtype=object),
                numpy.arange(12, dtype="u2").reshape(3, 4)[:, ::2],
                numpy.array([[1, 2, 3], [4, 5, 6]]).view(numpy.matrix),
                numpy.arange(6, dtype=">i8"),
                numpy.array([0.0, 1.5]),
                numpy.array([b"abc"], dtype="V3"),
                numpy.ma.array([1, 2]),
                numpy.array([], dtype="i8"),
            ]
        ):
            there = Bloom(self.client, f"{number}", capacity=1_000_000, error_rate=1e-6, seed=3)
            here = Filter(1_000_000, 1e-6, seed=3)
            sent = []
            self.assertEqual(there.update(array, progress=sent.append), here.update(array))
            self.assertEqual(sent[-1:], [array.size] if array.size else [])
            answers = there.contains_many(array)
            self.assertEqual((len(answers), all(answers)), (array.size, True))
            if array.size:
                self.assertEqual(there.pull(), here)
        self.assertEqual(there.contains_many(numpy.arange(5)).dtype, bool)

    def test_a_terminal_shows_how_far_it_is(self):
        """A load of an hour would look like one that hangs; a log would be full of bars."""
        for is_terminal in (True, False):
            stream = io.StringIO()
            stream.isatty = lambda: is_terminal
            with mock.patch("sys.stderr", stream):
                Bloom(self.client, "seen", capacity=100_000).update(words(100_000))
            if is_terminal:
                self.assertRegex(stream.getvalue(), r"\r100,000 of 100,000 \(100 %\), [\d,]+ items a second\x1b\[K\n$")
            else:
                self.assertEqual(stream.getvalue(), "")

    def test_errors_say_what_is_wrong(self):
        """A full filter would look like items that were there, and bad items would be others."""
        full = Bloom(self.client, "full", capacity=10, fixed=True)
        with self.assertRaisesRegex(FullError, "full"):
            full.update(words(20))
        with self.assertRaisesRegex(FullError, "full"):
            for word in words(20, "more "):
                full.add(word)
        self.assertEqual(len(full), 10)
        self.client.set("text", "a")
        for call in ("add", "contains", "except_"):
            with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
                getattr(Bloom(self.client, "text"), call)(["a"] if call == "except_" else "a")
        for item in (None, 5, ["a"]):
            for call in ("add", "contains"):
                with self.assertRaisesRegex(TypeError, "items and keys are str or bytes"):
                    getattr(full, call)(item)
            with self.assertRaises(TypeError):
                full.update([item])
        for call in (full.update, full.contains_many, full.except_):
            with self.assertRaises(TypeError):
                call("text")

    def test_an_error_is_known_by_its_whole_text(self):
        """A program that makes room for more when it is told that a filter is full would do so for ever."""
        self.client.execute_command("ACL", "SETUSER", "fullaccess", "on", "nopass", "~*", "+@all", "-bf.addpacked")
        self.addCleanup(self.client.execute_command, "ACL", "DELUSER", "fullaccess")
        with tempfile.TemporaryDirectory() as folder:
            for library in (redis, valkey):
                kinds = importlib.import_module(f"{library.__name__}.exceptions")
                Client = getattr(library, library.__name__.capitalize())
                options = {"retry": None, "socket_timeout": None}
                by_socket = Client(unix_socket_path=f"{folder}/non scaling filter is full", **options)
                by_user = Client(host="127.0.0.1", port=server.port, username="fullaccess", password="x", **options)
                client = Client(host="127.0.0.1", port=server.port, **options)
                with by_socket, by_user, client:
                    for kind, text, call in [
                        (kinds.ConnectionError, "filter is full", lambda: Bloom(by_socket, "seen", patience=0).add("a")),
                        (kinds.NoPermissionError, "fullaccess|no permission", lambda: Bloom(by_user, "seen").update(["a"])),
                        (kinds.ResponseError, "source fullmoon not found", lambda: Bloom(client, "seen").merge("fullmoon")),
                        (kinds.ResponseError, "not found: there is no filter 'full'", lambda: Bloom(client, "full").pull()),
                    ]:
                        with self.assertRaisesRegex(kind, text) as raised:
                            call()
                        self.assertNotIsInstance(raised.exception, FullError)

    def test_each_error_of_a_server_keeps_its_class_and_says_the_cause(self):
        """A program cannot do what helps if it is told of something else, or of nothing."""
        seen = Bloom(self.client, "seen", patience=0)
        seen.add("a")
        for library in (redis, valkey):
            kinds = importlib.import_module(f"{library.__name__}.exceptions")
            for answer, name, text in [
                ("LOADING Redis is loading the dataset in memory", "BusyLoadingError", "is loading"),
                ("READONLY You can't write against a read only replica.", "ReadOnlyError", "read only replica"),
                ("MASTERDOWN Link with MASTER is down", "MasterDownError", "is down"),
                ("MOVED 1234 127.0.0.1:7001", "MovedError", "in another node of a cluster .*RedisCluster"),
                ("OOM command not allowed when used memory > 'maxmemory'.", "OutOfMemoryError", "maxmemory"),
                ("NOPERM No permissions to access a key", "NoPermissionError", "No permissions"),
                ("NOAUTH Authentication required.", "AuthenticationError", "required"),
                ("BUSY Redis is busy running a script.", "ResponseError", "^BUSY"),
                ("NOREPLICAS Not enough good replicas to write.", "ResponseError", "^NOREPLICAS"),
                ("TRYAGAIN the key is being saved", "TryAgainError", "is being saved"),
                ("MISCONF Errors writing to the AOF file", "ResponseError", "^MISCONF"),
                ("WRONGTYPE Operation against a key", "ResponseError", "^WRONGTYPE"),
                ("ERR unknown command 'BF.ADDPACKED', with args beginning with: ", "ResponseError", "no BF.ADDPACKED: load the"),
            ]:
                way = self.answering(answer)
                with getattr(library, library.__name__.capitalize())(host="127.0.0.1", port=way.port) as client:
                    seen = Bloom(client, "seen", patience=0)
                    for call in (seen.update, seen.add_many):
                        with self.subTest(f"{library.__name__} {answer}"), self.assertRaisesRegex(Exception, text) as raised:
                            call(["a"])
                        # valkey-py has no class for some codes.
                        kind = kinds.ResponseError if answer in str(raised.exception) else getattr(kinds, name)
                        self.assertIs(type(raised.exception), kind)

    def answering(self, answer):
        """A way to the server on which packed commands get this answer."""
        is_due = threading.Event()

        def passed(block):
            if b"PACKED" in block:
                is_due.set()
            return block

        def answered(block):
            return f"-{answer}\r\n".encode() if is_due.is_set() and not is_due.clear() else block

        return servers.Case.open(self, server, passed, answered)

    def test_a_push_says_why_it_cannot_be(self):
        """A user would be told of the hash of a script."""
        bare = BareServer()
        bare.__enter__()
        self.addCleanup(bare.__exit__)
        older = servers.Case.open(self, server, lambda block: block.replace(b"BLOOM\0\0", b"BL00M\0\0"))
        filters = {"blocked": Filter(100), "valkey": Filter(100, layout="valkey"), "classic": Filter(100, layout="classic")}
        for library in (redis, valkey):
            Client = getattr(library, library.__name__.capitalize())
            with bare.client() as client, Client(host="127.0.0.1", port=older.port) as rival:
                for layout, filter in filters.items():
                    with self.assertRaisesRegex(Exception, "^the server has no BF.LOADCHUNK: load the module there$"):
                        filter.push(client, "seen")
                    if layout == "classic":
                        filter.push(rival, layout)
                        continue
                    text = rf"^the server cannot read the {layout} layout: only classic filters can go to RedisBloom. \(received"
                    with self.assertRaisesRegex(Exception, text):
                        filter.push(rival, layout)
                with self.assertRaisesRegex(Exception, "^the server has no BF.SCANDUMP: load the module there$"):
                    Filter.pull(client, "seen")
                with self.assertRaisesRegex(Exception, "^the server has no BF.INSERT: load the module there$"):
                    Bloom(client, "seen").add("a")
        self.no_other_keys("classic")

    def test_what_is_no_client_of_its_kind_is_refused(self):
        """A call would run outside of its transaction, return a coroutine that nobody awaits, or wait for ever."""
        kinds = [(redis, "Redis"), (valkey, "Valkey")]
        cluster = redis.asyncio.RedisCluster(host="127.0.0.1", port=server.port)
        for kind in (Bloom, ShardedBloom):
            other = {Bloom: AsyncBloom, ShardedBloom: AsyncShardedBloom}[kind]
            for library, name in kinds:
                client, waiting = getattr(library, name)(), getattr(library.asyncio, name)()
                for refused, by, why in [
                    (waiting, kind, "is one for asyncio: use Async"),
                    (client, other, "is not one for asyncio: use Bloom"),
                    (client.pipeline(), kind, "a pipeline answers nothing until it is executed"),
                    (waiting.pipeline(), other, "a pipeline answers nothing until it is executed"),
                    (client.connection_pool, kind, "the client is one of redis-py or valkey-py, not ConnectionPool"),
                    (None, other, "the client is one of redis-py or valkey-py, not NoneType"),
                    (cluster, kind, "is one for asyncio: use Async"),
                    (cluster.pipeline(), other, "a pipeline answers nothing until it is executed"),
                ]:
                    with self.subTest(f"{by.__name__}({type(refused)})"), self.assertRaisesRegex(TypeError, why):
                        by(refused, "seen")
                with self.assertRaisesRegex(TypeError, "is one for asyncio"):
                    Filter(9).push(waiting, "seen")

    def test_an_exhausted_pool_is_told_at_once(self):
        """A program that has too few connections would wait for its whole patience, and be told of the network."""

        async def use(library, name):
            pool = library.asyncio.ConnectionPool(host="127.0.0.1", port=server.port, max_connections=1)
            client = getattr(library.asyncio, name)(connection_pool=pool)
            taken = await connection_of(pool)
            with self.assertRaisesRegex(library.exceptions.ConnectionError, "Too many connections"):
                await AsyncBloom(client, "seen", patience=PATIENCE).add("a")
            await pool.release(taken)
            self.assertTrue(await AsyncBloom(client, name).add("a"))
            await client.aclose()

        with mock.patch.object(Links, "pause", side_effect=AssertionError("it is tried again")):
            with mock.patch.object(AsyncLinks, "pause", side_effect=AssertionError("it is tried again")):
                for library, name in [(redis, "Redis"), (valkey, "Valkey")]:
                    for kind, options in [("ConnectionPool", {}), ("BlockingConnectionPool", {"timeout": 0.01})]:
                        pool = getattr(library, kind)(host="127.0.0.1", port=server.port, max_connections=1, **options)
                        with getattr(library, name)(connection_pool=pool) as client:
                            taken = connection_of(pool)
                            with self.assertRaisesRegex(library.exceptions.ConnectionError, "Too many|No connection available"):
                                Bloom(client, "seen", patience=PATIENCE).add("a")
                            pool.release(taken)
                            self.assertTrue(Bloom(client, kind + name).add("a"))
                    asyncio.run(use(library, name))

    def test_other_tasks_run_during_a_long_call(self):
        """A service would answer nobody while it adds many items."""
        some, more = words(100_000), words(100_000, "absent ")

        async def turns(call):
            """How often another task ran meanwhile."""
            task, count = asyncio.ensure_future(call), 0
            while not task.done():
                await asyncio.sleep(0)
                count += 1
            return count, task.result()

        async def each():
            for item in some:
                yield item

        async def use():
            async with redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None) as client:
                plain = AsyncBloom(client, "seen", capacity=200_000, error_rate=1e-6)
                sharded = await AsyncShardedBloom.create(client, "sharded", 200_000, 1e-6, shards=3)
                for seen in (plain, sharded):
                    # The packed items are 1.5 million bytes, which are packed in pieces of 65,536.
                    for items in (each(), some, iter(some), numpy.array(some)):
                        count, new = await turns(seen.update(items))
                        self.assertGreater(count, 20)
                    count, answers = await turns(seen.contains_many(some + more))
                    self.assertEqual((answers, new), ([True] * len(some) + [False] * len(more), 0))
                    self.assertGreater(count, 40)
                    self.assertEqual(await seen.card(), len(some))
                    self.assertEqual(await seen.add_many(each()), [False] * len(some))
                    with self.assertRaisesRegex(TypeError, r"not int \(at position 1500\)"):
                        await seen.update(item async for item in mixed())
                self.assertEqual(await plain.except_(each()), len(some))

        async def mixed():
            for number in range(2000):
                yield "item" if number != 1500 else number

        asyncio.run(use())

    def test_a_buffer_that_an_asynchronous_iterable_uses_again_is_many_items(self):
        """A service that reads into one buffer would lose all items but the last of each thousand."""
        whole = [b"item %05d" % number for number in range(2500)]

        async def lines():
            buffer = bytearray(10)
            for item in whole:
                buffer[:] = item
                yield buffer

        async def use():
            async with redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None) as client:
                seen = AsyncBloom(client, "seen", capacity=10_000, error_rate=1e-9)
                self.assertEqual(await seen.update(lines()), len(whole))
                self.assertEqual(await seen.contains_many(whole), [True] * len(whole))
                self.assertEqual(await seen.contains_many(lines()), [True] * len(whole))
                self.assertEqual(await seen.except_(lines()), len(whole))

        asyncio.run(use())

    def test_no_seed_is_shown(self):
        """A log would have the seed, with which items can be made that collide."""
        seen = Bloom(self.client, "seen", capacity=100, seed=123456789)
        seen.add("a")
        sharded = ShardedBloom.create(self.client, "sharded", 100, shards=2, seed=123456789)
        for shown in (seen, seen.info(), sharded, sharded.info(), Filter(9, seed=123456789)):
            self.assertNotIn("123456789", repr(shown))

    def test_asyncio(self):
        """A service with asyncio would have to stop for every command."""

        async def use(client):
            seen = AsyncBloom(client, "seen", capacity=1000, error_rate=0.01, seed=7)
            self.assertEqual((await seen.add("a"), await seen.contains("a"), await seen.contains("b")), (True, True, False))
            # What a filter in the program says too: a few of so many are found before they are there.
            here = Filter(1000, seed=7)
            here.add("a")
            self.assertEqual(await seen.update(words(50_000)), here.update(words(50_000)))
            self.assertTrue(all(await seen.contains_many(words(50_000))))
            pulled = await seen.pull()
            self.assertEqual(len(pulled), await seen.card())
            self.assertEqual((await seen.info()).items, await seen.card())
            self.assertEqual(await seen.except_(["a"]), 1)
            other = AsyncBloom(client, "other", seed=7)
            await other.push(pulled)
            await seen.merge(other, error_rate=0.1)
            self.assertEqual(await seen.shrink(1e9), 0)
            await seen.reset()
            self.assertEqual(await seen.card(), 0)
            timed = AsyncBloom(client, "timed", capacity=10, window=60)
            await timed.add("a")
            with self.assertRaisesRegex(Exception, "WRONGTYPE"):
                await AsyncBloom(client, "text").add("a")
            await client.aclose()

        for library, name in [(redis.asyncio, "Redis"), (valkey.asyncio, "Valkey")]:
            for protocol in (2, 3):
                for decode in (False, True):
                    self.client.flushall()
                    self.client.set("text", "a")
                    options = dict(port=server.port, protocol=protocol, decode_responses=decode, socket_timeout=None)
                    asyncio.run(use(getattr(library, name)(host="127.0.0.1", **options)))


class LostAnswersTest(servers.Case):
    """The connection is cut when the server has carried a command out: the clients of redis-py and valkey-py would send it
    again, and show the second answer."""

    def setUp(self):
        super().setUp()
        self.client = server.client()
        self.addCleanup(self.client.close)
        self.client.flushall()
        self.when_cut = lambda: None
        self.way, self.cuts = self.open_cutting(server, lambda: self.when_cut())

    def each(self, use):
        """Runs `use` with a client of each kind. All methods are awaited."""

        async def with_asyncio(library, name):
            async with getattr(library, name)(host="127.0.0.1", port=self.way.port, socket_timeout=None) as client:
                await use(lambda key, **options: AsyncBloom(client, key, **options))

        for library, asyncio_library, name in [(redis, redis.asyncio, "Redis"), (valkey, valkey.asyncio, "Valkey")]:
            for is_asyncio in (False, True):
                with self.subTest(f"{name} asyncio={is_asyncio}"):
                    self.client.flushall()
                    self.client.config_resetstat()
                    if is_asyncio:
                        asyncio.run(with_asyncio(asyncio_library, name))
                    else:
                        with getattr(library, name)(host="127.0.0.1", port=self.way.port, socket_timeout=None) as client:
                            asyncio.run(use(lambda key, **options: Awaited(Bloom(client, key, **options))))
                self.assertEqual(self.cuts, [])

    def test_a_new_item_is_not_called_known(self):
        """A consumer would drop an event that nobody has handled."""

        async def use(bloom):
            seen = bloom("seen", capacity=10_000, error_rate=1e-9)
            self.cuts.append(b"BF.INSERT")
            self.assertIs(await seen.add("a"), MAYBE_NEW)
            self.assertIs(await seen.add("a"), False)
            self.assertIs(await seen.add("b"), True)
            self.cuts.append(b"BF.ADDPACKED")
            self.assertEqual(await seen.add_many(["a", "c"]), [MAYBE_NEW, MAYBE_NEW])
            self.cuts.append(b"BF.ADDPACKED")
            count = await seen.update(["a", "b", "d"])
            self.assertEqual((count, count.maybe), (0, 3))
            count = await seen.update(["a", "e"])
            self.assertEqual((count, count.maybe), (1, 0))
            self.cuts.append(b"BF.EXCEPT")
            count = await seen.except_(["a", "b", "absent"])
            self.assertEqual((count, count.maybe), (0, 3))
            self.cuts.append(b"BF.EXISTS")
            self.assertEqual([await seen.contains(item) for item in "abcde"], [False, False, True, True, True])

        self.each(use)

    def test_who_has_no_patience_is_told(self):
        """The item is there, and a program that adds it again would leave it out."""

        async def use(bloom):
            seen = bloom("seen", capacity=1000, error_rate=1e-9, patience=0)
            for call, words in ((seen.add, "a"), (seen.update, ["b"]), (seen.add_many, ["c"])):
                self.cuts.append(b"BF.")
                with self.assertRaisesRegex(UnsureError, "may have been added or not; adding them again is safe"):
                    await call(words)
            self.assertEqual(await seen.contains_many(["a", "b", "c"]), [True] * 3)

        self.each(use)

    def test_what_would_destroy_later_items_is_sent_once(self):
        """Items that others added in between, and were told of as new, would be gone."""

        async def use(bloom):
            one, seen = bloom("one", seed=7), bloom("seen", capacity=1000, error_rate=1e-9, seed=7)
            await one.add("a")
            await seen.add("b")
            self.cuts.append(b"BF.RESET")
            with self.assertRaisesRegex(UnsureError, "BF.RESET may have been carried out or not"):
                await seen.reset()
            self.assertEqual(await seen.card(), 0)
            self.cuts.append(b"BF.MERGE")
            with self.assertRaisesRegex(UnsureError, "BF.MERGE may have been carried out or not"):
                await seen.merge("one", replace=True)
            self.assertEqual(await seen.contains("a"), True)
            calls = self.client.info("commandstats")
            self.assertEqual([calls[f"cmdstat_bf.{name}"]["calls"] for name in ("reset", "merge")], [1, 1])
            self.cuts.append(b"BF.MERGE")
            await seen.merge("one", error_rate=0.1)
            self.cuts.append(b"BF.RESERVE")
            made = bloom("made", capacity=10, error_rate=0.01)
            with self.assertRaisesRegex(UnsureError, "'made' exists, and the first answer was lost"):
                await made.reserve()
            with self.assertRaisesRegex(Exception, "^item exists$"):
                await made.reserve()

        self.each(use)

    def test_filters_are_pushed_and_pulled_whole(self):
        """The key would have the old filter or a part of the new one, or the caller hear of an error where there was none."""
        new = Filter(1000, seed=7)
        new.update(words(3000))
        self.assertGreater(len(new.chunks()), 2)

        async def use(bloom):
            seen = bloom("seen", patience=PATIENCE)
            await seen.add("old")
            # A cut inside of the script that makes the draft, at a chunk, and in the script that renames it.
            for cuts in ([b"PEXPIRE"], [b"BF.LOADCHUNK\r\n"] * 3, [b"RENAME"], [b"EVAL", b"RENAME"]):
                self.cuts += cuts
                await seen.push(new)
                self.assertEqual(self.cuts, [])
                self.assertEqual(self.client.keys(), [b"seen"])
                self.cuts += [b"BF.SCANDUMP", b"BF.SCANDUMP"]
                self.assertEqual(await seen.pull(), new)
                await seen.add("old")

        self.each(use)

    def test_a_push_that_others_changed_since_is_unsure(self):
        """The caller would believe that the key has the filter, or that it has not."""
        self.when_cut = lambda: self.client.execute_command("BF.ADD", "seen", "of another")

        async def use(bloom):
            self.cuts.append(b"RENAME")
            with self.assertRaisesRegex(UnsureError, "'seen' may have been replaced, and has changed since; push it again"):
                await bloom("seen").push(Filter(1000, seed=7))
            self.assertTrue(await bloom("seen").contains("of another"))

        self.each(use)

    def test_a_draft_that_is_gone_is_an_error(self):
        """The key would keep the old filter, or get what is no more."""
        new = Filter(15_000_000, 0.001, seed=7)
        new.update(numpy.arange(20_000))
        old = Bloom(self.client, "seen")
        old.add("old")
        kept = old.pull()

        def flush():
            self.client.delete(*[key for key in self.client.keys() if b":libbloom:" in key])

        for word in ("BF.LOADCHUNK", _client.FINISH):
            with before(word, flush), self.assertRaisesRegex(MissingError, "what was pushed of 'seen' is gone"):
                old.push(new)
            self.assertEqual((old.pull(), self.client.keys()), (kept, [b"seen"]))


class Awaited:
    """A `Bloom` whose methods are awaited."""

    def __init__(self, bloom):
        self.bloom = bloom

    def __getattr__(self, name):
        async def call(*words, **options):
            return getattr(self.bloom, name)(*words, **options)

        return call


class PageTest(ServerCase):
    def test_the_programs_of_the_page_run(self):
        """Who copies from the page would be met by an error."""
        page = (PROJECT / "python/README.md").read_text()
        program = "".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
        self.assertIn("redis.Redis()", program)
        program = program.replace("redis.Redis()", f"redis.Redis('127.0.0.1', {server.port}, socket_timeout=None)")
        shown = ["seen.add", "in seen", "seen.update", "events.add(", "events.add_many", "events.update"]
        for call in shown:
            # What the lines answer is printed.
            program = re.sub(rf"^( *)(.*{re.escape(call)}.*?)(  +#.*)?$", r"\1print(\2)", program, count=1, flags=re.M)
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-c", program]
            done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split("\n"), ["True", "True", "3", "True", "[False, True]", "1", ""])


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls)

    def test_clusters(self):
        """Users of clusters could not push at all, or only keys with tags."""
        port = self.cluster.nodes[0].port
        seen = Filter(1000, seed=7)
        seen.update(words(5000))
        for library, name in [(redis, "RedisCluster"), (valkey, "ValkeyCluster")]:
            module = importlib.import_module(f"{library.__name__}.cluster")
            for protocol, decode in itertools.product((2, 3), (False, True)):
                options = dict(port=port, protocol=protocol, decode_responses=decode, socket_timeout=None)
                with self.subTest(f"{name} {options}"), getattr(module, name)(host="127.0.0.1", **options) as client:
                    getattr(client, "bf", lambda: None)()
                    for key in KEYS:
                        seen.push(client, key)
                        self.assertEqual(Filter.pull(client, key), seen)
                        bloom = Bloom(client, key)
                        self.assertEqual((bloom.add("new"), "new" in bloom, len(bloom)), (True, True, len(seen) + 1))
                        self.assertTrue(all(bloom.contains_many(words(5000))))
                        info = bloom.info()
                        self.assertEqual((info.capacity, info.seed, info.layout), (seen.capacity, "7", "blocked"))
                        self.assertEqual(sum(layer.items for layer in info.newest_layers), info.items)

    def test_clusters_with_asyncio(self):
        """A service with asyncio could not use a cluster, or would be told other figures there."""
        port = self.cluster.nodes[0].port
        seen = Filter(1000, 0.001, seed=7)
        seen.update(words(5000))

        async def use(client):
            async with client:
                if hasattr(client, "bf"):
                    # It gives the client callbacks that read replies in another way.
                    client.bf()
                for key in KEYS:
                    bloom = AsyncBloom(client, key, capacity=1000, error_rate=0.001, seed=7)
                    self.assertEqual((await bloom.add("a"), await bloom.add("a"), await bloom.contains("a")), (True, False, True))
                    await bloom.push(seen)
                    self.assertEqual(await bloom.pull(), seen)
                    self.assertEqual((await bloom.add("new"), await bloom.contains("new")), (True, True))
                    # Enough for several commands, some of them at once.
                    more = words(300_000 if key == "seen" else 3000, "more ")
                    here = seen.copy()
                    here.update(["new", *more])
                    new = await bloom.update(more)
                    self.assertEqual((await bloom.card(), await bloom.pull()), (len(here), here))
                    self.assertEqual(new, len(here) - len(seen) - 1)
                    answers = await bloom.contains_many([*more, "absent"])
                    self.assertEqual(answers, here.contains_many([*more, "absent"]))
                    info = await bloom.info()
                    self.assertEqual((info.items, info.capacity, info.seed), (len(here), here.capacity, "7"))
                    self.assertEqual([layer.layout for layer in info.newest_layers], ["blocked"] * info.layers)
                    self.assertEqual(await bloom.except_(["new"]), 1)
                    await bloom.reset()
                    self.assertEqual(await bloom.card(), 0)
                one, other = (AsyncBloom(client, name, seed=7) for name in ("{tag}1", "{tag}2"))
                await one.add("a")
                await other.add("b")
                await one.merge(other)
                self.assertEqual(await one.contains_many(["a", "b", "c"]), [True, True, False])
                full = AsyncBloom(client, "full", capacity=10, fixed=True)
                with self.assertRaisesRegex(FullError, "full"):
                    await full.update(words(20))

        for library, name in [(redis, "RedisCluster"), (valkey, "ValkeyCluster")]:
            module = importlib.import_module(f"{library.__name__}.asyncio.cluster")
            for protocol in (2, 3):
                for decode in (False, True):
                    with self.subTest(f"{name} {protocol} {decode}"):
                        for client in self.cluster.clients:
                            client.flushall()
                        options = dict(port=port, protocol=protocol, decode_responses=decode, socket_timeout=None)
                        asyncio.run(use(getattr(module, name)(host="127.0.0.1", **options)))


if __name__ == "__main__":
    unittest.main()
