#!/usr/bin/env python3
"""The Python package beside rbloom and pybloom-live, in one run.

    pip install ./python rbloom pybloom-live numpy
    python benches/python.py [--items 1000000 10000000] [--rounds 5]

Each round makes new str objects, since Python keeps the hash of a str, which rbloom uses. Shown are medians of processor
time: nanoseconds an item, and the ratio to libbloom within a round. Items one by one include the loop around them.
"""

import argparse
import gc
import statistics
import time

import numpy
import pybloom_live
import rbloom
from libbloom import Filter

RATE = 0.01
# Items that are asked for one by one.
ASKED = 500_000


def fresh(begin, count):
    return [f"https://example.com/{number}" for number in range(begin, begin + count)]


def timed(call, count):
    gc.collect()
    gc.disable()
    begin = time.process_time()
    call()
    spent = time.process_time() - begin
    gc.enable()
    return 1e9 * spent / count


def ask(made, items):
    for item in items:
        item in made


def add_each(made, items):
    for item in items:
        made.add(item)


MAKERS = {
    "libbloom": lambda count: Filter(count, RATE),
    "rbloom": lambda count: rbloom.Bloom(count, RATE),
    "pybloom-live": lambda count: pybloom_live.BloomFilter(count, RATE),
}
UPDATE = {
    "libbloom": lambda made, items: made.update(items),
    "rbloom": lambda made, items: made.update(items),
    "pybloom-live": add_each,
}


def round_of(count, names):
    figures = {}
    array = numpy.random.default_rng(1).integers(0, 2**62, count)
    for name in names:
        made = MAKERS[name](count)
        items = fresh(0, count)
        figures["update of a list of str", name] = timed(lambda: UPDATE[name](made, items), count)
        asked = min(ASKED, count)
        present, absent = fresh(count // 3, asked), fresh(2 * count, asked)
        figures["in, present", name] = timed(lambda: ask(made, present), asked)
        figures["in, absent", name] = timed(lambda: ask(made, absent), asked)
        del items, made
        made = MAKERS[name](count)
        # The others have no arrays: the shortest way there is to their items.
        of = array if name == "libbloom" else None
        figures["update of an array", name] = timed(
            lambda: UPDATE[name](made, array.tolist() if of is None else of), count
        )
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    words = parser.parse_args()
    print("| items | what | " + " | ".join(f"{name}, ns" for name in MAKERS) + " | rbloom's time | pybloom-live's |")
    print("|---|---|" + "---|" * (len(MAKERS) + 2))
    for count in words.items:
        # pybloom-live needs a minute for ten million items.
        names = list(MAKERS) if count <= 1_000_000 else list(MAKERS)[:2]
        rounds = [round_of(count, names) for _ in range(words.rounds)]
        for what in dict.fromkeys(what for what, _ in rounds[0]):
            times, ratios = [], []
            for name in MAKERS:
                known = [figures[what, name] for figures in rounds if (what, name) in figures]
                times.append(f"{statistics.median(known):.0f}" if known else "")
                if name != "libbloom":
                    own = [figures[what, "libbloom"] for figures in rounds]
                    ratios.append(f"{statistics.median(a / b for a, b in zip(known, own)):.2f}" if known else "")
            print(f"| {count:,} | {what} | {' | '.join(times)} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
