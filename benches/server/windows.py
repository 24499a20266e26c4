#!/usr/bin/env python3
"""Measures ways to tell what came in the last so many seconds, each on a server of its own, one after the
other.

    windows.py [--server redis-server] [--module libbloom.so] [--items N] [--window SECONDS]

For two windows items of 30 bytes come evenly, --items in each, in pipelines of 1,000. In the second window
as many are forgotten as come: what the server's processor does in that time, for whatever reason, is
divided by its items. Then the same is measured of items that are there and come again, and of questions for
items that are not there; keys do not expire meanwhile.

With --beside a full window and a reserved filter of the same items are asked and added to in turns, on one
server. Nothing is asserted: this measures. benches/server/results.md has such a table.
"""

import argparse
import random
import statistics
import sys
import time

import tables
from load import DRAWN, SHORT_ITEM
from servers import KEY, Server, machine

ERROR_RATE = 0.01
BATCH = 1000
# Batches of the questions, and of the items that come again.
FEW = 300
# Beside a filter without a window: rounds, and batches of each kind in a round.
ROUNDS, TURN = 9, 20
SLICES = 8
WEEK = 7 * 24 * 3600
QUESTIONS = {"absent": "BF.MEXISTS", "present": "BF.MEXISTS", "new": "BF.MADD"}
# Of a window: more than this much late, and the items did not come evenly.
LATE = 0.05


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--module", default="libbloom.so")
    parser.add_argument("--items", type=int, default=1_000_000, help="in a window (default: %(default)s)")
    parser.add_argument("--window", type=int, default=40, help="seconds (default: %(default)s)")
    parser.add_argument("--beside", action="store_true", help="measure beside a filter without a window")
    options = parser.parse_args()
    print(f"{machine(options.server)}\n")
    if options.beside:
        return beside(options)
    print(tables.windows(ways(options)))


def ways(options):
    """What each way keeps and costs, by its name. It gets more time where the items do not come in time."""
    results = {}
    for way in [Windowed(8), Windowed(32), TwoFilters(), SortedSet(), Keys()]:
        window = options.window
        while True:
            try:
                used, new, again, asked = measure(way, argparse.Namespace(**{**vars(options), "window": window}))
                break
            except TooLate as late:
                window *= 2
                print(f"{late}; now in {window} s", file=sys.stderr, flush=True)
        keeps, false = way.keeps
        results[way.name] = {"keeps": keeps, "false positives": false, "bytes": used, "new": new, "again": again, "asked": asked}
        print(way.name, results[way.name], file=sys.stderr, flush=True)
    return results


class TooLate(Exception):
    """The items did not come evenly."""


def measure(way, options):
    """The bytes that an item takes, and the microseconds of the server when it is new, when it comes again,
    and when it is asked for in vain."""
    server = Server(options, options.module, "--enable-debug-command", "yes")
    try:
        empty = server.info("memory", "used_memory")
        way.begin(server, options)
        come(server, way, options, range(options.items))
        way.turn(server)
        before = server.processor_seconds()
        come(server, way, options, range(options.items, 2 * options.items))
        new = (server.processor_seconds() - before) / options.items
        used = (server.info("memory", "used_memory") - empty) / options.items

        server("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        few = min(FEW * BATCH, options.items // 4)
        again = at_once(server, way.add, range(2 * options.items - few, 2 * options.items))
        asked = at_once(server, way.ask, range(2 * options.items, 2 * options.items + few))
        return used, new * 1e6, again, asked
    finally:
        server.remove()


def beside(options):
    """Tells what a batch of 1,000 takes in a window of 8 slices and in a filter without one."""
    server = Server(options, options.module)
    try:
        filters = {"reserved": [], "window": ["WINDOW", WEEK]}
        for key, words in filters.items():
            server("BF.RESERVE", key, ERROR_RATE, options.items, *words)
        fill(server, options.items)
        spent = {}
        fresh = options.items
        for _ in range(ROUNDS):
            for what, command in QUESTIONS.items():
                for key in filters:
                    numbers = range(TURN * BATCH)
                    if what == "present":
                        start = random.randrange(options.items - len(numbers))
                    elif what == "absent":
                        start = 10 * options.items + random.randrange(options.items)
                    else:
                        start, fresh = fresh, fresh + len(numbers)
                    spent.setdefault((what, key), []).append(
                        at_once(
                            server,
                            lambda pipeline, items, key=key: pipeline.execute_command(command, key, *items),
                            range(start, start + len(numbers)),
                        )
                    )
        print(f"| {options.items:,} items, batches of {BATCH:,} | reserved, µs | window, µs | ratio |\n|---|---|---|---|")
        for what, command in QUESTIONS.items():
            reserved, window = (statistics.median(spent[what, key]) for key in filters)
            print(f"| {command}, {what} | {reserved:.3f} | {window:.3f} | {window / reserved:.2f} |")
    finally:
        server.remove()


def fill(server, items):
    """Puts the items into both filters: into the window as if they had come evenly, a slice each, the oldest
    of which is not over yet."""
    slice_time = WEEK * 1000 // SLICES
    begin = int(time.time() * 1000) - slice_time * SLICES - slice_time // 2
    for batch in batches(range(items)):
        data = b"\n".join(SHORT_ITEM.replace(DRAWN, b"%012d" % number) for number in batch)
        at = begin + batch.start * SLICES // items * (slice_time + 1) + 1
        server("BF.ADDPACKED", "reserved", "LINES", "COUNT", data)
        server("BF.ADDPACKED", "window", "AT", at, "LINES", "COUNT", data)


def come(server, way, options, numbers):
    """Adds these items within a window's time."""
    begin = time.monotonic()
    for batch in batches(numbers):
        due = begin + options.window * (batch.start - numbers.start) / len(numbers)
        time.sleep(max(0, due - time.monotonic()))
        send(server, way.add, batch)
    if time.monotonic() - begin > options.window * (1 + LATE):
        raise TooLate(f"{way.name}: the items did not come in {options.window} s")
    time.sleep(max(0, begin + options.window - time.monotonic()))


def at_once(server, command, numbers):
    """The microseconds that each of these items takes the server."""
    before = server.processor_seconds()
    for batch in batches(numbers):
        send(server, command, batch)
    return (server.processor_seconds() - before) / len(numbers) * 1e6


def batches(numbers):
    for start in range(numbers.start, numbers.stop, BATCH):
        yield range(start, min(start + BATCH, numbers.stop))


def send(server, command, batch):
    pipeline = server.client.pipeline(transaction=False)
    command(pipeline, [SHORT_ITEM.replace(DRAWN, b"%012d" % number) for number in batch])
    pipeline.execute()


# ---- The ways ------------------------------------------------------------------------------------


class Windowed:
    """One filter with a window."""

    def __init__(self, slices):
        self.slices = slices
        self.name = f"`WINDOW`, {slices} slices"
        self.keeps = f"1 to {1 + 1 / slices:.4g} windows", f"{ERROR_RATE:.0%}"

    def begin(self, server, options):
        server("BF.RESERVE", KEY, ERROR_RATE, options.items, "WINDOW", options.window, "SLICES", self.slices)

    def turn(self, server):
        """A window is over: nothing has to be done."""

    def add(self, pipeline, items):
        pipeline.execute_command("BF.MADD", KEY, *items)

    def ask(self, pipeline, items):
        pipeline.execute_command("BF.MEXISTS", KEY, *items)


class TwoFilters:
    """Two plain filters: items are added to the newer one, and both are asked. Each has half of the rate."""

    name = "two filters in turn"
    keeps = "1 to 2 windows", f"{ERROR_RATE:.0%}"
    NEWER, OLDER = f"{{{KEY}}}:newer", f"{{{KEY}}}:older"

    def begin(self, server, options):
        self.items = options.items
        for key in (self.OLDER, self.NEWER):
            self.make(server, key)

    def make(self, server, key):
        server("BF.RESERVE", key, ERROR_RATE / 2, self.items)

    def turn(self, server):
        server("RENAME", self.NEWER, self.OLDER)
        self.make(server, self.NEWER)

    def add(self, pipeline, items):
        pipeline.execute_command("BF.MADD", self.NEWER, *items)
        pipeline.execute_command("BF.MEXISTS", self.OLDER, *items)

    def ask(self, pipeline, items):
        for key in (self.NEWER, self.OLDER):
            pipeline.execute_command("BF.MEXISTS", key, *items)


class SortedSet:
    """A sorted set of the items by their time."""

    name = "a sorted set, `ZADD NX`"
    keeps = "1 window", "none"

    def begin(self, _server, options):
        self.window = options.window

    def turn(self, server):
        pass

    def add(self, pipeline, items):
        now = time.time()
        pipeline.execute_command("ZREMRANGEBYSCORE", KEY, "-inf", now - self.window)
        # One ZADD of all would not tell which of them were new.
        for item in items:
            pipeline.execute_command("ZADD", KEY, "NX", now, item)

    def ask(self, pipeline, items):
        pipeline.execute_command("ZMSCORE", KEY, *items)


class Keys:
    """A key for each item, which expires."""

    name = "a key an item, `SET NX EX`"
    keeps = "1 window", "none"

    def begin(self, _server, options):
        self.window = options.window

    def turn(self, server):
        pass

    def add(self, pipeline, items):
        for item in items:
            pipeline.execute_command("SET", item, 1, "NX", "EX", self.window)

    def ask(self, pipeline, items):
        pipeline.execute_command("MGET", *items)


if __name__ == "__main__":
    main()
