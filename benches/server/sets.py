#!/usr/bin/env python3
"""Measures what filters cost as sets: unions, intersections, resets and exceptions, each on a server of its own.

    sets.py [--server redis-server] [--module libbloom.so] [--sources N] [--megabytes N] [--items N] [--rounds N]

Merging: --sources filters of --megabytes (10^6 bytes) each, of one shape, none of whose pages is empty. Where they
count more items than one has room for, although their union fits, the bits are read twice. The time is the server's
own for the command (INFO commandstats). It is held against memcpy: this program copies as many bytes, from buffers of
that size in turn into one of them, between the server's commands. The peak is of the server's resident memory while
the command runs (VmHWM).

Questions: BF.MEXISTS of 1,000 items in filters of --items items, of which none, 1 % and 10 % are excepted, in
turns; what the server's processor does in that time is divided by the items. Then the bytes of an exception by
MEMORY USAGE, and what BF.EXCEPT takes.

Times are medians over --rounds rounds. Nothing is asserted: this measures. benches/server/results.md has such a table.
"""

import argparse
import os
import random
import statistics
import sys
import time
from pathlib import Path

import tables
from load import DRAWN, SHORT_ITEM
from servers import Server, machine
from windows import BATCH, ERROR_RATE, at_once, batches

# Items that only one of the sources has: bits of their own for it.
OWN = 1000
# Items in a packed command.
PACK = 100_000
# Buffers that the copies are made from, so that no cache has them.
BUFFERS = 4
# Batches of a kind in a round of questions.
TURN = 100
# Of the items, in per cent.
SHARES = [0, 1, 10]
EXCEPTIONS = [1000, 100_000, 1_000_000]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--module", default="libbloom.so")
    parser.add_argument("--sources", type=int, default=16, help="filters that are merged (default: %(default)s)")
    parser.add_argument("--megabytes", type=int, default=100, help="of each of them (default: %(default)s)")
    parser.add_argument("--items", type=int, default=10_000_000, help="to ask for (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    options = parser.parse_args()
    print(f"{machine(options.server)}, load {os.getloadavg()[0]:.1f}")
    print("\n" + tables.unions(combinations(options)))
    for part in (questions, exceptions):
        print(flush=True)
        part(options)


# ---- Filters with filters ------------------------------------------------------------------------


def combinations(options):
    """What unions and their like take, each by what it is."""
    results = {}
    server = Server(options, options.module)
    try:
        capacity = capacity_of(server, options.megabytes * 1_000_000)
        few = capacity // (options.sources + 2)
        make_sources(server, options.sources, capacity, few)
        size = size_of(server, source(0))
        copying = Copying(size)

        def row(name, count, command, prepare):
            seconds, copied, memory = [], [], None
            for _ in range(options.rounds):
                prepare()
                taken, memory = measured(server, command)
                seconds.append(taken)
                copied.append(copying.rate(count))
            taken = statistics.median(seconds)
            rates = [count * size / taken, statistics.median(copied)] if count else [None, None]
            results[name] = dict(zip(["filter, bytes", "s", "bytes/s", "memcpy, bytes/s"], [size, taken, *rates]))
            results[name] |= dict(zip(["before, bytes", "at most, bytes", "then, bytes"], memory))
            print(name, results[name], file=sys.stderr, flush=True)

        def merging(names, *words):
            return ["BF.MERGE", "union", len(names), *names, *words]

        def none():
            server("DEL", "union")

        def one():
            # Its own bits, so that something changes.
            server("COPY", source(0), "union", "REPLACE")

        some = [source(number) for number in range(options.sources)]
        two = some[:2]
        row("`BF.MERGE` of 2 into a new key", 2, merging(two), none)
        row(f"`BF.MERGE` of {len(some)} into a new key", len(some), merging(some), none)
        row("`BF.MERGE` of 1 into one that is there", 2, merging(two[1:]), one)
        row(f"`BF.MERGE` of {len(some) - 1} into one that is there", len(some), merging(some[1:]), one)
        row("`BF.INTERSECT` of 2 into a new key", 2, ["BF.INTERSECT", "union", 2, *two], none)
        row("`BF.RESET`", 0, ["BF.RESET", "union"], one)

        # Now they count more items than one has room for, and their union has to be estimated from the bits.
        add(server, source(0), range(few, few + 3 * few // options.sources))
        share(server, options.sources)
        full = "that count too many"
        row(f"`BF.MERGE` of {len(some)} {full} into a new key", len(some), merging(some), none)
        row(f"`BF.MERGE` of {len(some) - 1} {full} into one that is there", len(some), merging(some[1:]), one)
        return results
    finally:
        server.remove()


def source(number):
    return f"source:{number}"


def capacity_of(server, size):
    """The capacity of a filter that takes about so many bytes."""
    capacity = size
    # A layer's size is rounded, so the first guess is a little off.
    for _ in range(2):
        server("BF.RESERVE", "probe", ERROR_RATE, capacity, "NONSCALING")
        capacity = capacity * size // size_of(server, "probe")
        server("DEL", "probe")
    return capacity


def size_of(server, key):
    """Bytes, as BF.INFO counts them."""
    answer = server("BF.INFO", key, "SIZE")
    return int((answer if isinstance(answer, list) else list(answer.values()))[0])


def make_sources(server, count, capacity, items):
    """Filters that have so many items in common, and a few of their own."""
    server("BF.RESERVE", source(0), ERROR_RATE, capacity, "NONSCALING")
    add(server, source(0), range(items))
    share(server, count)


def share(server, count):
    for number in range(1, count):
        server("COPY", source(0), source(number), "REPLACE")
        own = 10**11 + number * OWN
        add(server, source(number), range(own, own + OWN))


def add(server, key, numbers):
    for start in range(numbers.start, numbers.stop, PACK):
        some = range(start, min(start + PACK, numbers.stop))
        data = b"".join(map(item, some))
        server("BF.ADDPACKED", key, "NOCREATE", "WIDTH", len(SHORT_ITEM), "COUNT", data)


def item(number):
    return SHORT_ITEM.replace(DRAWN, b"%012d" % number)


def measured(server, command):
    """The seconds that the server takes for a command, and its memory: before, at most, and when all is freed."""
    settle(server)
    before = server.info("memory", "used_memory")
    process = Path(f"/proc/{server.process.pid}")
    resident = kilobytes(process, "VmRSS")
    # The peak begins anew.
    (process / "clear_refs").write_text("5")
    server("CONFIG", "RESETSTAT")
    server(*command)
    stats = server.client.info("commandstats")[f"cmdstat_{command[0].lower()}"]
    peak = kilobytes(process, "VmHWM")
    settle(server)
    most = before + max(peak - resident, 0) * 1024
    return stats["usec"] / 1e6, (before, most, server.info("memory", "used_memory"))


def settle(server):
    """Waits until nothing is freed in the background."""
    last = None
    while (used := server.info("memory", "used_memory")) != last:
        last = used
        time.sleep(0.05)


def kilobytes(process, name):
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


class Copying:
    """memcpy, as Python does it for a slice of bytes."""

    def __init__(self, size):
        self.size = size
        # Written once, so that they are in memory.
        self.sources = [bytearray(b"x") * size for _ in range(BUFFERS)]
        self.target = memoryview(bytearray(b"y") * size)

    def rate(self, count):
        """Bytes a second, for so many times the size."""
        begin = time.perf_counter()
        for number in range(count):
            self.target[:] = self.sources[number % BUFFERS]
        return count * self.size / (time.perf_counter() - begin)


# ---- Questions -----------------------------------------------------------------------------------


def questions(options):
    server = Server(options, options.module)
    try:
        keys = {share: f"filter:{share}" for share in SHARES}
        server("BF.RESERVE", "filter", ERROR_RATE, options.items)
        add(server, "filter", range(options.items))
        for share, key in keys.items():
            # All are copies, so that none lies in memory otherwise.
            server("COPY", "filter", key)
            excepted = range(0, options.items, 100 // share) if share else range(0)
            for some in batches(range(len(excepted))):
                server("BF.EXCEPT", key, *(item(excepted[at]) for at in some))
        spent = {}
        turns = list(keys.values())
        for _ in range(options.rounds):
            for what, begin in {"absent": 10**11, "present": 0}.items():
                start = begin + random.randrange(options.items - TURN * BATCH)
                random.shuffle(turns)
                for key in turns:
                    spent.setdefault((what, key), []).append(asked(server, key, start))
        print(f"| {options.items:,} items, `BF.MEXISTS` of {BATCH:,} | no exceptions, µs an item |", end="")
        print("".join(f" {share} % excepted | ratio |" for share in SHARES[1:]))
        print("|---|---|" + "---|---|" * len(SHARES[1:]))
        for what in ("absent", "present"):
            times = [statistics.median(spent[what, key]) for key in keys.values()]
            print(f"| {what} | {times[0]:.3f} |", end="")
            print("".join(f" {one:.3f} | {one / times[0]:.2f} |" for one in times[1:]))
    finally:
        server.remove()


def asked(server, key, start):
    """The microseconds that the server takes for each of so many items from the `start`-th one."""
    numbers = range(start, start + TURN * BATCH)
    return at_once(server, lambda pipeline, items: pipeline.execute_command("BF.MEXISTS", key, *items), numbers)


def exceptions(options):
    server = Server(options, options.module)
    try:
        items = max(options.items, EXCEPTIONS[-1])
        server("BF.RESERVE", "filter", ERROR_RATE, items)
        add(server, "filter", range(items))
        empty, before = server.client.memory_usage("filter"), 0
        print("| exceptions | bytes each | `BF.EXCEPT` of 1,000, µs an item |\n|---|---|---|")
        for count in EXCEPTIONS:
            spent = server.processor_seconds()
            for some in batches(range(before, count)):
                server("BF.EXCEPT", "filter", *map(item, some))
            spent = (server.processor_seconds() - spent) / (count - before) * 1e6
            used = (server.client.memory_usage("filter") - empty) / count
            print(f"| {count:,} | {used:.1f} | {spent:.2f} |", flush=True)
            before = count
    finally:
        server.remove()


if __name__ == "__main__":
    main()
