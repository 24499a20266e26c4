#!/usr/bin/env python3
"""Ways to get many items into a filter of a server: built in this program and pushed, or sent with BF.ADDPACKED.

    pip install ./python numpy redis
    python benches/push.py [--items 100000000] [--rounds 3] [--url redis://127.0.0.1:6379] [--key bench:push]

The server needs the module, and the key is deleted. The items are an array of 64-bit integers. Each round measures all
ways in turn; shown are medians, in seconds: of the clock, and of the processor in this program and in the server.
"""

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import redis
from libbloom import Bloom, Filter

RATE = 0.01


def server_time(client):
    """Seconds of the processor that the server has used."""
    used = client.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]


def pushed(made, client, key):
    begin = time.perf_counter()
    made.push(client, key)
    return time.perf_counter() - begin


def built(client, key, items):
    made = Filter(len(items), RATE)
    made.update(items)
    return pushed(made, client, key)


def united(client, key, items):
    """A filter a thread, of one size and seed: united they are no larger than one."""
    made = Filter(len(items), RATE)
    other = Filter(len(items), RATE)
    with ThreadPoolExecutor() as pool:
        list(pool.map(Filter.update, [made, other], numpy.array_split(items, 2)))
    made |= other
    return pushed(made, client, key)


def sent(client, key, items):
    Bloom(client, key, capacity=len(items), error_rate=RATE).update(items, progress=lambda count: None)


WAYS = {
    "one Filter, push": built,
    "two Filters in two threads, united, push": united,
    "Bloom.update, which sends BF.ADDPACKED": sent,
}


def timed(way, client, key, items):
    client.delete(key)
    begin = time.perf_counter(), time.process_time(), server_time(client)
    pushed = way(client, key, items)
    end = time.perf_counter(), time.process_time(), server_time(client)
    found = Bloom(client, key).contains_many(items[-1000:])
    assert all(found), "items are missing"
    return [after - before for before, after in zip(begin, end)] + [pushed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", default="redis://127.0.0.1:6379")
    parser.add_argument("--key", default="bench:push")
    words = parser.parse_args()
    items = numpy.random.default_rng(1).integers(0, 2**62, words.items)
    with redis.Redis.from_url(words.url) as client:
        rounds = [
            {name: timed(way, client, words.key, items) for name, way in WAYS.items()} for _ in range(words.rounds)
        ]
        client.delete(words.key)
    print(f"{words.items:,} items\n")
    print("| way | s | program's processor | server's processor | of it the push, s |")
    print("|---|---|---|---|---|")
    for name in WAYS:
        columns = zip(*(one[name] for one in rounds))
        cells = ["" if None in column else f"{statistics.median(column):.2f}" for column in columns]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
