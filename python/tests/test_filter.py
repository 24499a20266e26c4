"""The class Filter.

Run it with `make test-python`, or after `pip install ./python` with `python -m unittest discover -s python/tests`.
"""

import base64
import copy
import gzip
import io
import json
import math
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import libbloom
import numpy
import pandas
import polars
import pyarrow
import redis
from libbloom import Bloom, Filter, FormatError, FullError, SeedError, _native, _words, plan

PACKAGE = Path(libbloom.__file__).parent
FIXTURES = Path(__file__).resolve().parents[2] / "tests/fixtures"


def words(count, prefix="item "):
    return [f"{prefix}{number}" for number in range(count)]


def filled(items=500, **options):
    seed = {} if options.get("layout") == "classic" else {"seed": 7}
    made = Filter(100, 0.01, **{**seed, **options})
    made.update(words(items))
    return made


KINDS = {
    "blocked": {},
    "fixed": {"fixed": True, "items": 90},
    "growing": {"growing": True},
    "window": {"window": 3600},
    "classic": {"layout": "classic"},
    "valkey": {"layout": "valkey"},
}


class ItemsTest(unittest.TestCase):
    def test_a_str_and_its_bytes_are_one_item(self):
        """A program that reads a file as bytes would miss what another one added as text."""
        seen = Filter(100, 1e-9)
        for text in ["", "a", "Zürich", "日本", "\0", "😀", "x" * 100_000]:
            self.assertTrue(seen.add(text))
            self.assertFalse(seen.add(text.encode()))
            self.assertIn(text.encode(), seen)
        self.assertEqual(len(seen), 7)

    def test_what_is_no_item_is_refused_and_nothing_changes(self):
        """An item that was mixed up with another one would be lost, or found for ever."""
        seen = filled()
        before = bytes(seen)
        for item in [None, 17, 1.5, ["a"], ("a",), object()]:
            name = type(item).__name__
            for call in [seen.add, seen.__contains__, lambda item: seen.update([item]), lambda item: seen.contains_many([item])]:
                with self.assertRaisesRegex(TypeError, f"items are str or bytes, not {name}"):
                    call(item)
        for call in [seen.add, seen.__contains__, lambda item: seen.update([item])]:
            with self.assertRaises(UnicodeEncodeError):
                call("\ud800")
        for one in ["item", b"item", bytearray(b"item"), memoryview(b"item")]:
            for call in [seen.update, seen.contains_many]:
                with self.assertRaisesRegex(TypeError, re.escape("for one item there is add()")):
                    call(one)
        with self.assertRaisesRegex(TypeError, "not iterable"):
            seen.update(17)
        self.assertEqual(bytes(seen), before)

    def test_a_generator_that_raises_leaves_what_came_before(self):
        """Items would be missing that were handled already."""

        def broken(count):
            yield from words(count)
            raise KeyError("the source")

        for threads in (1, 2):
            for count in (0, 5, 2048, 2049, 40_000):
                seen = Filter(100_000, 1e-6, seed=7)
                with self.assertRaisesRegex(KeyError, "the source"):
                    seen.update(broken(count), threads=threads)
                self.assertEqual(len(seen), count, (threads, count))

    def test_what_came_before_a_wrong_item_is_in(self):
        """Whoever goes on after the error would skip items that were never added."""
        for threads in (1, 2):
            for items, at in [
                ([*words(5000), None, "more"], 5000),
                (iter([*words(5000), None]), 5000),
                (numpy.array(["item 0", 5], dtype=object), 1),
                (pandas.Series(["item 0", 5]), 1),
            ]:
                seen = Filter(10_000, 1e-6, seed=7)
                with self.assertRaisesRegex(TypeError, rf"items are str or bytes, not (NoneType|int) \(at position {at}\)"):
                    seen.update(items, threads=threads)
                self.assertEqual(len(seen), at)

    def test_a_list_may_change_meanwhile(self):
        """Another thread that appends to the list would crash the program."""
        items = words(200_000)
        stop = threading.Event()

        def change():
            while not stop.is_set():
                items.extend(["more"] * 3)
                del items[-3:]
                items[0] = "".join(["item ", "0"])

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for threads in (1, 2):
                seen = Filter(300_000, 1e-6)
                seen.update(items, threads=threads)
                self.assertTrue(all(seen.contains_many(words(100_000))))
        finally:
            stop.set()
            thread.join()

    def test_numpy_arrays_have_the_items_of_their_elements(self):
        """An array would be filled in as other items than those that are asked for."""
        cases = [
            (numpy.array([b"a", b"bcd", b"", b"x\0y"]), [b"a", b"bcd", b"", b"x\0y"]),
            (numpy.array(["a", "Zürich", ""]), ["a", "Zürich", ""]),
            (numpy.array(["a", b"b"], dtype=object), ["a", b"b"]),
            (numpy.array([1, -2, 2**62]), [number.to_bytes(8, "little", signed=True) for number in (1, -2, 2**62)]),
            (numpy.array([1.5, math.inf]), [numpy.float64(1.5).tobytes(), numpy.float64(math.inf).tobytes()]),
            (numpy.array([b"ab\0", b"\0\0\0"], dtype="V3"), [b"ab\0", b"\0\0\0"]),
            (numpy.array([[1, 2], [3, 4]], dtype="u1"), [b"\1", b"\2", b"\3", b"\4"]),
            (numpy.arange(10, dtype="u1")[::3], [b"\0", b"\3", b"\6", b"\x09"]),
            (numpy.arange(6, dtype="<u2").reshape(2, 3).T, [b"\0\0", b"\3\0", b"\1\0", b"\4\0", b"\2\0", b"\5\0"]),
            (numpy.array([[1, 2, 3], [4, 5, 6]], dtype="u1").view(numpy.matrix), [b"\1", b"\2", b"\3", b"\4", b"\5", b"\6"]),
            (numpy.arange(3, dtype=">u4"), [b"\0\0\0\0", b"\1\0\0\0", b"\2\0\0\0"]),
            (numpy.array([0.0, -0.0], dtype=">f4"), [b"\0\0\0\0", b"\0\0\0\x80"]),
            (numpy.array([complex(-0.0, 1)], dtype="c8"), [b"\0\0\0\x80\0\0\x80?"]),
            # Zeros at the end are no part of an element of numpy's type S; of type V they are.
            (numpy.array([b"ab\0"], dtype="S3"), [b"ab"]),
            (pandas.Series(["a", "Zürich"]), ["a", "Zürich"]),
            (pandas.Series(["a", "b"], dtype="category"), ["a", "b"]),
            (pandas.Series([1, 2], dtype="i8", index=[7, 7]), numpy.array([1, 2])),
            (pandas.Series([1, 2], dtype="Int32"), numpy.array([1, 2], dtype="i4")),
            (pandas.Index([1.5, -0.0]), numpy.array([1.5, -0.0])),
            (polars.Series(["a", "Zürich", ""]), ["a", "Zürich", ""]),
            (polars.Series([b"a", b"\0"]), [b"a", b"\0"]),
            (polars.Series([1, 2], dtype=polars.UInt16), numpy.array([1, 2], dtype="u2")),
            (pyarrow.array(["a", "Zürich"]), ["a", "Zürich"]),
            (pyarrow.chunked_array([[1, 2], [3]]), numpy.array([1, 2, 3])),
            (numpy.array([True, False]), [b"\1", b"\0"]),
            (numpy.ma.array([1, 2], mask=[False, False], dtype="u1"), [b"\1", b"\2"]),
            (numpy.array([], dtype="i8"), []),
            (numpy.array([], dtype="U5"), []),
        ]
        for array, items in cases:
            with self.subTest(repr(array)):
                one, other = Filter(100, 1e-9, seed=1), Filter(100, 1e-9, seed=1)
                self.assertEqual(one.update(array), other.update(items))
                self.assertEqual(one, other)
                answers = one.contains_many(array)
                self.assertTrue(all(answers))
                self.assertEqual(len(answers), len(items))

    def test_arrays_without_items_are_refused(self):
        """What is masked, or bytes that nobody set, would come into the filter; equal times would be other items."""
        seen = filled()
        before = bytes(seen)
        for array, error, text in [
            (numpy.ma.array([1, 2, 3], mask=[0, 1, 0]), ValueError, "masked: pass array.compressed()"),
            (numpy.ma.array(["a", "b"], mask=[0, 1]), ValueError, "masked"),
            # It takes no memory, but its answers would take a terabyte.
            (numpy.empty(10**12, "V0"), ValueError, "of type |V0, have no bytes"),
            (numpy.array(5), TypeError, "for one item there is add()"),
            (numpy.int64(5), TypeError, "for one item there is add()"),
            (numpy.array(["2026-01-01"], dtype="M8[D]"), TypeError, "type datetime64[D] are no items"),
            (numpy.array([1], dtype="m8[s]"), TypeError, "type timedelta64[s] are no items"),
            (numpy.array([(1, 2.0)], dtype="i4,f8"), TypeError, "are no items"),
            (numpy.array([(1, 2.0)], dtype="i4,f8").view(numpy.recarray), TypeError, "are no items"),
            (numpy.array([1.5], dtype=numpy.longdouble), TypeError, "are no items"),
            (numpy.array(["a", None], dtype=object)[1:], TypeError, "not NoneType"),
            (memoryview(numpy.arange(3)), TypeError, "for one item there is add()"),
            (pandas.DataFrame({"a": [1]}), TypeError, "a table has no items"),
            (polars.DataFrame({"a": [1]}), TypeError, "a table has no items"),
            (pyarrow.table({"a": [1]}), TypeError, "a table has no items"),
            # What these make an array of has other values in place of missing ones.
            (pandas.Series(["a", None, "b"]), ValueError, "no value at position 1: drop such elements"),
            (pandas.Series([1.5, 2.5, math.nan]), ValueError, "no value at position 2"),
            (pandas.Series([1, None], dtype="Int64"), ValueError, "no value at position 1"),
            (polars.Series([1, 2, None]), ValueError, "no value at position 2"),
            (pyarrow.array([None, 1]), ValueError, "no value at position 0"),
            (pyarrow.chunked_array([["a"], [None]]), ValueError, "no value at position 1"),
            (pandas.Series(pandas.to_datetime(["2026-01-01"])), TypeError, "are no items"),
        ]:
            for call in (seen.update, seen.contains_many, seen.except_, lambda items: [*_words.pieces(items, 1 << 20)]):
                with self.subTest(repr(array)), self.assertRaises(error) as raised:
                    call(array)
                self.assertIn(text, str(raised.exception))
        self.assertEqual(bytes(seen), before)

    def test_bytes_that_may_change_are_items(self):
        """A program that reads into a buffer would have to copy each item."""
        for call in (Filter.add, lambda seen, item: seen.update([item]), lambda seen, item: seen.update(["x", item], threads=2)):
            seen = Filter(100, 1e-9)
            item = bytearray(b"item")
            call(seen, item)
            item[0] = 0
            self.assertTrue(b"item" in seen and item not in seen)
            call(seen, memoryview(b"two items")[4:])
            call(seen, memoryview(b"t_h_r_e_e")[::2])
            self.assertEqual(seen.contains_many(["items", bytearray(b"three"), memoryview(b"four")]), [True, True, False])
        for call in (seen.add, seen.__contains__, lambda item: seen.update([item])):
            with self.assertRaisesRegex(TypeError, "must be of bytes"):
                call(memoryview(numpy.arange(3)))

    def test_a_buffer_that_an_iterator_uses_again_is_many_items(self):
        """A program that reads into one buffer would lose all items but the last of each thousand."""

        def lines():
            buffer = bytearray()
            for number in range(5000):
                buffer[:] = b"item %05d" % number
                yield buffer

        def views():
            buffer = bytearray(10)
            for number in range(5000):
                buffer[:] = b"item %05d" % number
                yield memoryview(buffer)[:10]

        whole = [b"item %05d" % number for number in range(5000)]
        for items in (lines, views):
            for threads in (1, 2):
                seen = Filter(10_000, 1e-9)
                self.assertEqual(seen.update(items(), threads=threads), 5000)
                self.assertTrue(all(seen.contains_many(whole)))
                self.assertTrue(all(seen.contains_many(items(), threads=threads)))

    def test_an_addition_of_long_ago_makes_a_window_forget_nothing(self):
        """One late event would make all others count as new."""
        for add in (Filter.add, lambda seen, item, now: seen.update([item], now=now)):
            seen = Filter(1000, 1e-6, window=3600)
            seen.update(["a", "b"], now=1_700_000_000)
            for late in (1_700_000_000 - 7200, 0):
                add(seen, f"late {late}", now=late)
                self.assertEqual(seen.contains_many(["a", "b", f"late {late}"], now=1_700_000_000), [True] * 3)
                self.assertFalse(seen.add("a", now=1_700_000_000))
            # A clock that was a year ahead is corrected by the present one.
            ahead = Filter(1000, 1e-6, window=3600)
            ahead.add("a", now=time.time() + 365 * 86400)
            ahead.add("b")
            self.assertTrue("a" in ahead and "b" in ahead)
            self.assertEqual(ahead.contains_many(["a", "b"], now=time.time() + 5 * 3600), [False, False])

    def test_arrays_are_answered_by_arrays(self):
        """Code that selects with the answers would fail, or change them without a copy."""
        numbers = numpy.arange(10_000)
        seen = Filter(10_000, 1e-9)
        self.assertEqual(seen.update(numbers[::2]), 5000)
        for threads in (1, 2, 3):
            answers = seen.contains_many(numbers, threads=threads)
            self.assertEqual(answers.dtype, bool)
            self.assertTrue((numbers[answers] == numbers[::2]).all())
            answers[0] = False
        with self.assertRaises(TypeError):
            seen.update(numpy.array([1, None], dtype=object))

    def test_the_number_of_threads_changes_no_bit(self):
        """A filter would depend on the machine that built it."""
        items = words(50_000)
        for options in ({}, {"growing": True}, {"window": 60}, {"layout": "classic"}):
            options = {**options, **({} if "layout" in options else {"seed": 7})}
            one = Filter(1000, 0.01, **options)
            new = one.update(items, now=1000.0)
            answers = one.contains_many(items + words(20_000, "other "), now=1000.0)
            for threads in (2, 3, 64):
                other = Filter(1000, 0.01, **options)
                self.assertEqual(other.update(iter(items), threads=threads, now=1000.0), new)
                self.assertEqual(bytes(one), bytes(other))
                again = other.contains_many(items + words(20_000, "other "), threads=threads, now=1000.0)
                self.assertEqual(again, answers)
        for call in (one.update, one.contains_many):
            with self.assertRaisesRegex(ValueError, "threads must be 1 or more"):
                call(items, threads=0)


class FilterTest(unittest.TestCase):
    def test_the_rate_is_kept_however_far_it_grows(self):
        """A program would skip more new items than it was promised."""
        for options in KINDS.values():
            options = {**options}
            if "window" in options or options.get("layout") == "valkey":
                continue
            seen = filled(**{"items": 20_000, **options})
            wrong = sum(seen.contains_many(words(100_000, "absent ")))
            self.assertLess(wrong, 1000 + 5 * 1000**0.5)
            self.assertGreaterEqual(seen.error_rate, seen.estimated_error_rate)

    def test_a_full_filter_keeps_what_fitted(self):
        """Items before the error would be lost, or those after it silently missing."""
        for threads in (1, 2):
            seen = Filter(100, 0.001, fixed=True)
            with self.assertRaisesRegex(FullError, "100"):
                seen.update(words(1000), threads=threads)
            self.assertEqual(len(seen), 100)
            self.assertTrue(all(seen.contains_many(words(100))))
            self.assertFalse(seen.add("item 0"))
            with self.assertRaises(FullError):
                for word in words(1000, "more "):
                    seen.add(word)
            self.assertEqual(len(seen), 100)

    def test_parameters_that_cannot_be_are_refused(self):
        """A filter of other parameters would be noticed when it is full."""
        for options in [
            {"capacity": 0},
            {"error_rate": 0.0},
            {"error_rate": 1.0},
            {"error_rate": math.nan},
            {"expansion": 0},
            {"layout": "other"},
            {"fixed": True, "growing": True},
            {"fixed": True, "window": 5},
            {"layout": "classic", "window": 5},
            {"window": 5, "slices": 1},
            {"slices": 4},
            {"refresh": True},
            {"window": 2**32},
            # What would say nothing, a server refuses too.
            {"fixed": True, "expansion": 4},
            {"growing": True, "window": 5},
            {"layout": "classic", "seed": 7},
        ]:
            with self.subTest(str(options)), self.assertRaisesRegex(ValueError, "."):
                Filter(**{"capacity": 100, **options})
            if not options.keys() & {"seed", "refresh"}:
                with self.subTest(f"plan {options}"), self.assertRaisesRegex(ValueError, "."):
                    plan(**{"capacity": 100, **options})
        for options in [{"capacity": -1}, {"seed": -1}, {"seed": 2**64}, {"slices": 300, "window": 1}]:
            [number, *_] = options.values()
            with self.assertRaisesRegex(ValueError, f"{number} is out of range"):
                Filter(**{"capacity": 100, **options})

    def test_figures_are_those_that_it_was_made_with(self):
        """A program could not tell how a filter was made that it got."""
        made = Filter(1000, 0.001, expansion=4, seed=9)
        figures = (made.capacity, made.error_rate, made.expansion, made.seed, made.layout, made.window)
        self.assertEqual(figures, (1000, 0.001, 4, 9, "blocked", None))
        self.assertEqual((made.layers, made.exceptions, made.fixed, made.growing), (1, 0, False, False))
        self.assertEqual((len(made), bool(made), made.fill_ratio, made.estimated_error_rate), (0, False, 0.0, 0.0))
        self.assertTrue(1000 * 10 / 8 < made.size_in_bytes < 1000 * 20 / 8 + 600, made.size_in_bytes)
        self.assertRegex(repr(made), r"^<libbloom.Filter: 0 items, capacity 1000, error rate 0.001, \d+ bytes>$")
        made.update(words(3000))
        self.assertEqual((made.layers, made.capacity), (2, 5000))
        self.assertTrue(0 < made.fill_ratio < 0.6 and bool(made))
        fixed, growing = Filter(10, fixed=True), Filter(10, growing=True)
        self.assertEqual((fixed.fixed, fixed.expansion, growing.growing), (True, None, True))
        self.assertEqual(Filter(10, window=60).window, 60)
        self.assertEqual([Filter(10, layout=name).layout for name in ("classic", "valkey")], ["classic", "valkey"])
        self.assertIsNone(Filter(10, layout="classic").seed)
        self.assertEqual(Filter(10).seed, Filter(20).seed)
        with self.assertRaises(AttributeError):
            made.capacity = 5

    def test_whole_numbers_may_be_floats(self):
        """Who writes 1e6 for a million would get an error."""
        client = redis.Redis()
        self.assertEqual((Filter(1e6).capacity, Filter(numpy.float32(100)).capacity, plan(1e6)), (10**6, 100, plan(10**6)))
        windowed = Filter(10, window=60.0, slices=4.0, expansion=2.0, seed=7.0)
        self.assertEqual((windowed.window, windowed.seed), (60, 7))
        for number in (1.5, math.nan, math.inf):
            for call in (Filter, plan, lambda number: Bloom(client, "key", capacity=number), lambda n: Bloom(client, "k", window=n)):
                with self.assertRaisesRegex(ValueError, f"^{number} is no whole number$"):
                    call(number)
        for number in (-1.0, 1e300):
            with self.assertRaisesRegex(ValueError, "is out of range"):
                Filter(number)

    def test_sets(self):
        """Parts that were filled apart would not be the whole."""
        one, two = Filter(1000, 1e-6, seed=3), Filter(1000, 1e-6, seed=3)
        one.update(words(200))
        two.update(words(300, "item 1"))
        both = one | two
        self.assertTrue(all(both.contains_many(words(200) + words(300, "item 1"))))
        self.assertNotIn("item 1250", one)
        whole = Filter(1000, 1e-6, seed=3)
        whole.update(words(200) + words(300, "item 1"))
        self.assertEqual(both.chunks()[1:], whole.chunks()[1:])
        common = one & two
        self.assertTrue("item 10" in common and "item 0" not in common and "item 1299" not in common)
        same = one
        one |= two
        self.assertIs(one, same)
        self.assertEqual(one, both)
        self.assertFalse(one.merge(two, one))
        for sizes in ((100, 1000), (1000, 100)):
            parts = [Filter(size, 0.01, seed=3) for size in sizes]
            for part, size in zip(parts, sizes):
                part.update(words(size, f"{size} "))
            union = parts[0] | parts[1]
            self.assertTrue(0.01 < union.error_rate < 0.02, union.error_rate)
            self.assertEqual(parts[0].error_rate, 0.01)
            with self.assertRaisesRegex(ValueError, f"use an error rate of {union.error_rate} or more"):
                parts[0].merge(parts[1], error_rate=0.01)
            parts[0] |= parts[1]
            self.assertEqual(parts[0], union)
            for size in sizes:
                self.assertTrue(all(union.contains_many(words(size, f"{size} "))))
        for other in (Filter(1000, 1e-6, seed=4),):
            for call in (one.merge, one.__or__, one.__ior__, one.__and__):
                with self.assertRaisesRegex(SeedError, "seeds"):
                    call(other)
        with self.assertRaises(ValueError):
            one.merge(Filter(10, layout="classic"))
        with self.assertRaises(TypeError):
            one | {"item"}

    def test_items_can_be_taken_out(self):
        """A wrong yes would stay for ever."""
        seen = filled()
        self.assertEqual(seen.except_(["item 1", "item 2", "absent from it"]), 2)
        self.assertEqual((seen.exceptions, "item 1" in seen, "item 3" in seen), (2, False, True))
        self.assertEqual(Filter.from_bytes(bytes(seen)), seen)
        self.assertTrue(seen.add("item 1"))
        self.assertEqual((seen.exceptions, "item 1" in seen), (1, True))
        with self.assertRaisesRegex(ValueError, "layout"):
            filled(layout="valkey").except_(["item 1"])
        seen.clear()
        self.assertEqual((len(seen), seen.exceptions, seen.layers, seen.capacity), (0, 0, 1, 100))

    def test_a_window_forgets_at_the_time_that_is_given(self):
        """An event would be handled twice within its window, or never again."""
        seen = Filter(1000, 1e-6, window=3600, slices=4)
        self.assertTrue(seen.add("a", now=1000.0))
        self.assertFalse(seen.add("a", now=1000.0 + 3600))
        self.assertEqual(seen.update(["a", "b"], now=1000.0 + 3600), 1)
        self.assertEqual(seen.contains_many(["a", "b"], now=1000.0 + 3600), [True, True])
        self.assertEqual(seen.contains_many(["a", "b"], now=1000.0 + 4501), [False, True])
        self.assertTrue(seen.add("a", now=1000.0 + 4501))
        # Decades later nothing is there.
        self.assertEqual(("b" in seen, len(seen)), (False, 0))
        for now in (-1.0, math.nan, math.inf, 1e300):
            with self.assertRaisesRegex(ValueError, "now must be seconds"):
                seen.add("c", now=now)
        lives = Filter(1000, 1e-6, window=3600, slices=4, refresh=True)
        for now in (0.0, 3000.0, 6000.0):
            lives.add("a", now=now)
        self.assertEqual(lives.contains_many(["a"], now=9000.0), [True])

    def test_threads_share_a_filter(self):
        """Items that one thread adds would be lost, or the program would crash or wait for ever."""
        seen, other = Filter(1000, 1e-6, seed=1), Filter(1000, 1e-6, seed=1)
        failures = []

        def work(number):
            try:
                mine = words(3000, f"{number} ")
                seen.update(mine)
                for word in mine[:300]:
                    seen.add(word + "!")
                    if word not in seen:
                        failures.append(word)
                if not all(seen.contains_many(mine, threads=2)):
                    failures.append(number)
                other.merge(seen)
                seen.merge(other)
                seen == other, len(seen), bytes(seen), seen.copy()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        self.assertEqual(failures, [])
        for number in range(6):
            self.assertTrue(all(seen.contains_many(words(3000, f"{number} "))))

    def test_an_empty_filter_takes_only_the_pages_that_were_touched(self):
        """A filter for a billion items would need its gigabyte at once, and again for a copy, for the next one, and when it
        is loaded; its file would fill the disk."""
        script = """
import os, sys
from libbloom import Filter
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
begin = resident()
seen = Filter(1_000_000_000, 0.01)
for number in range(10):
    seen.add(str(number))
copy = seen.copy()
assert sum(len(data) for _, data in Filter(1_000_000_000, 0.01).chunks()) < 1000
assert "7" in copy and seen.size_in_bytes > 1 << 30
print(resident() - begin)
# What was given back is not written to when it is used again.
del seen
again = Filter(1_000_000_000, 0.01)
assert "7" not in again
del again
print(resident() - begin)
copy.save(sys.argv[1])
there = os.stat(sys.argv[1])
assert there.st_size > 1 << 30 and there.st_blocks * 512 < 10 << 20
del copy
for read in (Filter.load, Filter.open):
    loaded = read(sys.argv[1])
    assert "7" in loaded and "70" not in loaded
    print(resident() - begin)
"""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", script, f"{folder}/seen"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # Two times 10 items with a page for each of two lines, of 2 MiB where the system has huge ones.
        for kilobytes in done.stdout.split():
            self.assertLess(int(kilobytes), 150_000)


class FewBytes(io.RawIOBase):
    """A file that takes and gives fewer bytes than it could."""

    def __init__(self, data=b""):
        self.data = data

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data[:1000])
        return len(data[:1000])

    def read(self, size):
        part, self.data = self.data[: min(size, 7)], self.data[min(size, 7) :]
        return bytearray(part)


class StoredTest(unittest.TestCase):
    def test_file_objects(self):
        """A filter for an object store, an archive or a pipe would have to go through a file first."""
        seen = filled(items=5000)
        for file in (io.BytesIO(), FewBytes(), tempfile.TemporaryFile()):
            with file:
                seen.save(file)
                if not isinstance(file, FewBytes):
                    self.assertEqual(file.seek(0), 0)
                self.assertEqual(Filter.load(file), seen)
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="w") as file:
            seen.save(file)
        whole = packed.getvalue()
        with gzip.GzipFile(fileobj=io.BytesIO(whole)) as file:
            self.assertEqual(Filter.load(file), seen)
        with gzip.GzipFile(fileobj=io.BytesIO(whole[:-9])) as file, self.assertRaises(EOFError):
            Filter.load(file)
        data = bytes(seen)
        for wrong in (b"", data[:-1], data + b"\0", b"nonsense" * 10):
            with self.assertRaises(FormatError):
                Filter.load(io.BytesIO(wrong))
        with self.assertRaises(MemoryError):
            Filter.load(io.BytesIO(data), max_bytes=100)
        for changing in (bytearray(data), memoryview(data)):
            self.assertEqual(Filter.from_bytes(changing), seen)

    def test_what_is_no_file_of_bytes_is_refused(self):
        """An error of the file would be told as one of the filter, or a filter would be written in part."""

        class Broken:
            def write(self, data):
                raise KeyError("of the file")

            read = write

        class Wrong:
            def write(self, data):
                return len(data) + 1

            def read(self, size):
                return b"x" * (size + 1)

        class Texts:
            def read(self, size):
                return "text"

        seen = filled()
        with tempfile.TemporaryDirectory() as folder, open(Path(folder, "text"), "w+") as text:
            for file in (io.StringIO(), text):
                for call in (seen.save, Filter.load):
                    with self.assertRaisesRegex(TypeError, "open for text: open it in binary mode"):
                        call(file)
        for call in (seen.save, Filter.load):
            with self.assertRaisesRegex(KeyError, "of the file"):
                call(Broken())
            with self.assertRaisesRegex(ValueError, "more bytes than"):
                call(Wrong())
            with self.assertRaisesRegex(TypeError, "not int"):
                call(5)
        with self.assertRaisesRegex(TypeError, "gave str, not bytes"):
            Filter.load(Texts())

    def test_copies_of_every_kind_are_equal_and_apart(self):
        """A filter that goes to another process, or to a file, would be another one there."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "seen.bloom")
            for name, options in KINDS.items():
                seen = filled(**options)
                seen.save(path)
                self.assertEqual(path.read_bytes(), bytes(seen))
                for other in [
                    seen.copy(),
                    copy.copy(seen),
                    copy.deepcopy(seen),
                    pickle.loads(pickle.dumps(seen)),
                    Filter.from_bytes(bytes(seen)),
                    Filter.load(path),
                    Filter.load(str(path)),
                    Filter.from_chunks(seen.chunks()),
                ]:
                    with self.subTest(name):
                        self.assertEqual(other, seen)
                        self.assertEqual(bytes(other), bytes(seen))
                        other.clear()
                        self.assertNotEqual(other, seen)
                        self.assertIn("item 3", seen)
            self.assertEqual([entry.name for entry in Path(folder).iterdir()], ["seen.bloom"])
        self.assertNotEqual(seen, 17)
        with self.assertRaises(TypeError):
            hash(seen)

    def test_each_thread_is_answered_for_its_own_time(self):
        """A thread that asks about a later time would have live items denied to all others."""
        seen = Filter(1000, 1e-9, window=8, slices=8)
        items = [f"item {number}" for number in range(16)]
        for number, item in enumerate(items):
            self.assertTrue(seen.add(item, now=1_700_000_000 + number))
        wrong = []

        def ask(second):
            # The slice of an item is open for a second, and expires eight seconds after that.
            expected = [number + 9 > second for number in range(16)]
            for _ in range(500):
                if seen.contains_many(items, now=1_700_000_000 + second) != expected:
                    wrong.append(second)

        threads = [threading.Thread(target=ask, args=(second,)) for second in (15, 16, 18, 20, 23, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_damaged_file_is_refused(self):
        """A damaged filter would deny items, or crash the program."""
        generator = random.Random(1)
        for name, options in KINDS.items():
            data = bytes(filled(**options))
            for cut in [*range(0, 120), *(generator.randrange(len(data)) for _ in range(100)), len(data) - 1]:
                with self.assertRaisesRegex(FormatError, "."):
                    Filter.from_bytes(data[:cut])
            for place in [*range(0, 120), *(generator.randrange(len(data)) for _ in range(300))]:
                damaged = bytearray(data)
                damaged[place] ^= 1 << generator.randrange(8)
                with self.subTest(f"{name}, byte {place}"), self.assertRaisesRegex(FormatError, "."):
                    Filter.from_bytes(bytes(damaged))
            for more in (data + b"\0", data + data, b"\0" + data):
                with self.assertRaises(FormatError):
                    Filter.from_bytes(more)

    def test_chunks_of_others_are_checked(self):
        """What a server sent half would crash the program, or deny the items of the other half."""
        chunks = filled().chunks()
        for wrong in [[], chunks[1:], [(1, b"nonsense")], [chunks[0], (10**12, chunks[1][1])], [chunks[0], chunks[0]]]:
            with self.assertRaisesRegex(FormatError, "."):
                Filter.from_chunks(wrong)
        for name, options in KINDS.items():
            chunks = filled(**options).chunks()
            for place in range(1, len(chunks)):
                with self.subTest(f"{name}, without chunk {place}"), self.assertRaisesRegex(FormatError, "missing"):
                    Filter.from_chunks(chunks[:place] + chunks[place + 1 :])

    def test_a_long_call_lets_other_threads_run(self):
        """A server of one process would answer nobody while it copies or compares a large filter."""
        # It takes some hundredths of a second to read.
        one, two = Filter(40_000_000, seed=7), Filter(40_000_000, seed=7)
        for each in (one, two):
            each.update(numpy.arange(2_000_000))
        data, chunks = bytes(one), one.chunks()
        count, stop = [0], threading.Event()

        def run():
            while not stop.is_set():
                count[0] += 1
                stop.wait(1e-4)

        def is_let(call):
            before = count[0]
            call()
            return count[0] > before

        calls = {
            "copy": one.copy,
            "merge": lambda: one.merge(two),
            "|": lambda: one | two,
            "&": lambda: one & two,
            "==": lambda: one == two,
            "bytes": lambda: bytes(one),
            "from_bytes": lambda: Filter.from_bytes(data),
            "from_chunks": lambda: Filter.from_chunks(chunks),
            "pickle": lambda: pickle.dumps(one),
        }
        # No thread takes the interpreter's lock from another that does not let go of it.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            for name, call in calls.items():
                self.assertTrue(any(is_let(call) for _ in range(50)), name)
        finally:
            stop.set()
            sys.setswitchinterval(interval)
            thread.join()

    def test_threads_that_combine_filters_with_each_other_do_not_wait_for_ever(self):
        """A program would hang where two threads bring two filters up to date with each other."""
        one, two = Filter(10_000, seed=7), Filter(10_000, seed=7)
        one.update(words(500))
        two.update(words(900, "other "))

        def work(first, second):
            for _ in range(300):
                first.merge(second)
                _ = first == second, first & second, first & first, first | second

        threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((one, two), (two, one)) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        self.assertEqual(one, two)

    def test_an_opened_file_answers_and_is_not_changed(self):
        seen = Filter(1000, 1e-9)
        seen.update(["ann", "bob"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "seen.bloom")
            seen.save(path)
            opened = Filter.open(path)
            self.assertEqual(opened.contains_many(["ann", "eve"]), [True, False])
            self.assertEqual(opened, seen)
            for change in [lambda: opened.add("eve"), lambda: opened.update(["eve"]), opened.clear, opened.shrink]:
                with self.assertRaisesRegex(ValueError, "opened"):
                    change()
            copy = opened.copy()
            copy.add("eve")
            copy.save(path)  # replaces the file
            self.assertNotIn("eve", opened)
            (link := Path(folder, "link")).symlink_to(path)
            self.assertIn("eve", Filter.open(link))
            path.write_bytes(path.read_bytes()[:-1])
            with self.assertRaises(FormatError):
                Filter.open(path)
            with self.assertRaises(FileNotFoundError):
                Filter.open(Path(folder, "no such file"))
            # It would wait for a writer, and not end with Ctrl-C.
            os.mkfifo(pipe := Path(folder, "pipe"))
            errors = []

            def attempt():
                try:
                    Filter.open(pipe)
                except OSError as error:
                    errors.append(str(error))

            thread = threading.Thread(target=attempt, daemon=True)
            thread.start()
            thread.join(60)
            self.assertEqual(errors, [f"{pipe}: only a file can be mapped"])

    def test_a_save_is_exclusive_and_keeps_what_was_there(self):
        """Who can list the folder could read the seed; a device would become a file."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / "seen.bloom"
            filled().save(path)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            path.chmod(0o640)
            (folder / "link").symlink_to("seen.bloom")
            filled(600).save(folder / "link")
            self.assertEqual((path.stat().st_mode & 0o777, (folder / "link").is_symlink()), (0o640, True))
            self.assertEqual(Filter.load(path), filled(600))
            with self.assertRaisesRegex(IsADirectoryError, re.escape(name)):
                filled().save(folder)
            with self.assertRaisesRegex(IsADirectoryError, re.escape(name)):
                Filter.load(folder)
            self.assertEqual({entry.name for entry in folder.iterdir()}, {"seen.bloom", "link"})

    def test_more_threads_than_the_system_has_are_no_error(self):
        """A program in a small container would end with an error that it cannot catch."""
        script = """
import resource, sys
from libbloom import Filter
items = [str(number) for number in range(300_000)]
seen = Filter(len(items))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20),) * 2)
try:
    seen.update(items, threads=1000)
    assert all(seen.contains_many(items, threads=1000))
except MemoryError:
    pass
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_payloads_of_servers_are_read(self):
        """Filters of a RedisBloom could be fetched in chunks only, and a backup of payloads could not be read."""
        recorded = json.loads((FIXTURES / "redisbloom/redisbloom-2.8.json").read_text())
        payload = base64.b64decode(recorded["filters"]["rb:chain"]["dump_base64"])
        chain = Filter.from_bytes(payload)
        self.assertEqual((chain.layout, chain.layers > 1), ("classic", True))
        self.assertTrue(all(str(number) in chain for number in range(4000)))
        with self.assertRaisesRegex(FormatError, "the checksum is wrong"):
            Filter.from_bytes(payload[:-1] + bytes([payload[-1] ^ 1]))
        with self.assertRaisesRegex(FormatError, "no payload of a filter"):
            Filter.from_bytes(b"\7")
        with self.assertRaises(MemoryError):
            Filter.from_bytes(payload, max_bytes=1000)

    def test_a_save_can_be_interrupted(self):
        """A program that is told to end would write on, for as long as a large filter takes on a slow disk."""
        class Over(Exception):
            pass

        def over(*_):
            raise Over

        before = signal.signal(signal.SIGALRM, over)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        f = Filter(200_000_000, 0.01)
        f.update(numpy.arange(500_000))
        with tempfile.TemporaryDirectory() as folder:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            with self.assertRaises(Over):
                f.save(Path(folder) / "seen.bloom")
            self.assertEqual(os.listdir(folder), [])

    def test_a_save_holds_nobody_up(self):
        """All threads that add would wait for a slow disk, or for a reader that never comes; and a file object that adds
        to the filter would wait for itself. What is added meanwhile would be half in the file."""
        for name, options in KINDS.items():
            seen = filled(**options)
            before = bytes(seen)
            changes = [lambda: seen.add("added"), lambda: seen.update(["more"], threads=2), seen.clear]
            changes += [] if name in ("window", "valkey", "classic") else [seen.shrink, lambda: seen.merge(filled(**options))]
            changes += [lambda: seen.add("last")]

            class File(io.BytesIO):
                def write(self, data):
                    if changes:
                        changes.pop(0)()
                    return super().write(data)

            file = File()
            thread = threading.Thread(target=seen.save, args=(file,), daemon=True)
            thread.start()
            thread.join(60)
            with self.subTest(name):
                self.assertFalse(thread.is_alive())
                self.assertEqual((file.getvalue(), changes), (before, []))
                self.assertNotEqual(bytes(seen), before)
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            thread = threading.Thread(target=seen.save, args=(pipe,), daemon=True)
            thread.start()
            seen.update(words(10, "while it waits "))
            self.assertIn("while it waits 9", seen)
            self.assertEqual(Filter.load(pipe).layout, seen.layout)
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def test_a_copy_for_a_save_that_has_no_memory_is_an_error(self):
        """A program that adds while it saves would be ended by the system, or lose what it adds."""
        script = """
import resource
from libbloom import Filter

seen = Filter(400_000_000)
seen.add("before")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

class File:
    def write(self, data):
        try:
            seen.add("meanwhile")
        except MemoryError:
            return
        raise AssertionError

resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20),) * 2)
seen.save(File())
assert "before" in seen and "meanwhile" not in seen
assert seen.add("after")
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_path_may_be_bytes(self):
        """What os.listdir gives for bytes could not be opened."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.fsencode(folder) + b"/\xffseen"
            filled().save(path)
            self.assertEqual(Filter.load(path), filled())
            with self.assertRaisesRegex(FormatError, "this is no RDB file"):
                Filter.from_rdb(path)
        for wrong in (7, None, ["seen"]):
            with self.assertRaisesRegex(TypeError, "expected str, bytes or os.PathLike object"):
                Filter.load(wrong)

    def test_the_time_says_something_to_a_window_only(self):
        """A call would be refused for one filter, and not for another, or one item at a time only."""
        for now in (-5, math.nan, 1e300):
            seen = filled()
            self.assertTrue(seen.add("one", now=now))
            self.assertEqual(seen.update(["one", "two"], now=now), 1)
            self.assertEqual(seen.update(["three"], threads=2, now=now), 1)
            self.assertEqual(seen.contains_many(["one", "two"], now=now), [True, True])
            timed = filled(window=60)
            for call in (lambda: timed.add("one", now=now), lambda: timed.update(["two"], now=now), lambda: timed.contains_many(["one"], now=now)):
                with self.assertRaisesRegex(ValueError, "now must be seconds of the Unix clock"):
                    call()

    def test_errors_name_the_file(self):
        """A program that reads many files could not say which one is wrong."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "wrong.bloom")
            with self.assertRaisesRegex(FileNotFoundError, "wrong.bloom") as raised:
                Filter.load(path)
            self.assertEqual((raised.exception.errno, raised.exception.strerror), (2, "No such file or directory"))
            path.write_bytes(b"no filter at all, but long enough")
            with self.assertRaisesRegex(FormatError, "wrong.bloom: this is not a filter's file"):
                Filter.load(path)
            with self.assertRaisesRegex(FileNotFoundError, "seen.bloom"):
                filled().save(Path(folder, "missing", "seen.bloom"))
            large = Filter(10_000_000)
            large.save(path)
            with self.assertRaisesRegex(MemoryError, "wrong.bloom: .*bytes of memory"):
                Filter.load(path, max_bytes=1_000_000)
            self.assertIsInstance(FormatError(), ValueError)
        with self.assertRaises(MemoryError):
            Filter.from_bytes(bytes(large), max_bytes=1_000_000)


class PagesTest(unittest.TestCase):
    def test_help_shows_what_the_types_say(self):
        """Whoever asks the interpreter for help would learn something else than who reads the types, or nothing."""
        stub = (PACKAGE / "_native.pyi").read_text()
        found = re.findall(r"def (\w+)\((?:(?!\.\.\.)[^\"])*?\"\"\"(.*?)\"\"\"", stub, re.DOTALL)
        found.append(("", re.search(r"class Filter:\s*\"\"\"(.*?)\"\"\"", stub, re.DOTALL)[1]))
        self.assertGreater(len(found), 20)
        for name, text in found:
            with self.subTest(name or "Filter"):
                shown = getattr(Filter if hasattr(Filter, name) else _native, name) if name else Filter
                self.assertEqual((shown.__doc__ or "").split(), text.split())

    def test_every_public_name_has_types(self):
        """An editor would underline what works."""
        stub = (PACKAGE / "_native.pyi").read_text()
        for name in vars(Filter):
            if not name.startswith("__"):
                self.assertIn(f"def {name}(", stub)
        self.assertTrue((PACKAGE / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
