#!/usr/bin/env python3
"""One logical Bloom filter over many keys of a cluster.

Each item belongs to one shard, a filter of its own under a key like "seen:{17}": the first 8 bytes of the
item's BLAKE2b, modulo the number of shards. That hash has nothing to do with the filters' own, so that what a
shard gets is a fair sample of all items. docs/sharding.md has the arithmetic.

    sharded.py --url redis://127.0.0.1:7000 plan NAME --items 100000000000
    sharded.py --url redis://127.0.0.1:7000 create NAME --items 1000000 --shards 64
    zcat urls.gz | sharded.py --url redis://127.0.0.1:7000 add NAME --shards 64
    zcat urls.gz | sharded.py --url redis://127.0.0.1:7000 check NAME --shards 64

The number of shards is part of the filter, as its error rate is: give the same one each time.
"""

import argparse
import math
import sys
from hashlib import blake2b
from itertools import islice

import redis
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException

# How many standard deviations above the mean a shard has room for. The fullest of 4096 shards is above six of
# them four times in a million.
SIGMAS = 6
# Items to a pipeline. It is cut by shards, and goes to all nodes at once.
BATCH = 50_000


class Trouble(Exception):
    """Something that keeps the script from doing what it was asked for."""


class ShardedFilter:
    """A filter that is spread over `shards` keys."""

    def __init__(self, client, name, shards):
        self.client = client
        self.name = name
        self.shards = shards

    def key(self, shard):
        # What stands in braces decides about the slot, and nothing else does.
        return f"{self.name}:{{{shard}}}"

    def shard(self, item):
        return int.from_bytes(blake2b(item, digest_size=8).digest(), "big") % self.shards

    def create(self, items, error_rate):
        """Reserves every shard for its part of `items`, and for chance."""
        capacity = shard_capacity(items, self.shards)
        self.pipeline(
            ("BF.RESERVE", self.key(shard), error_rate, capacity) for shard in range(self.shards)
        )

    def add(self, items):
        """Adds items; for each, whether it was new."""
        return self.over_shards("BF.INSERT", ("NOCREATE", "ITEMS"), items)

    def contains(self, items):
        """For each item, whether it is (probably) there."""
        return self.over_shards("BF.MEXISTS", (), items)

    def over_shards(self, command, options, items):
        """One command for each shard that has some of the items, and the answers in the items' order."""
        places = {}
        for place, item in enumerate(items):
            places.setdefault(self.shard(item), []).append(place)
        replies = self.pipeline(
            (command, self.key(shard), *options, *(items[place] for place in some))
            for shard, some in places.items()
        )
        answers = [False] * len(items)
        for (shard, some), reply in zip(places.items(), replies):
            # The answers of a full shard that does not grow end with an error.
            errors = [answer for answer in reply if isinstance(answer, Exception)]
            if errors:
                raise Trouble(f"{self.key(shard)}: {errors[0]}")
            for place, answer in zip(some, reply):
                answers[place] = bool(answer)
        return answers

    def pipeline(self, commands):
        """Runs commands on their nodes; follows slots that move."""
        pipeline = self.client.pipeline()
        for command in commands:
            pipeline.execute_command(*command)
        return pipeline.execute()

    def figures(self):
        """(items, capacity, bytes, layers) of each shard."""
        replies = self.pipeline(("BF.INFO", self.key(shard)) for shard in range(self.shards))
        names = ["Number of items inserted", "Capacity", "Size", "Number of filters"]
        return [tuple(fields(reply)[name] for name in names) for reply in replies]


def deviation(items, shards):
    """The standard deviation of a shard's number of items, which is binomial."""
    return math.sqrt(items / shards * (1 - 1 / shards))


def shard_capacity(items, shards):
    """What one shard is reserved for."""
    return max(1, math.ceil(items / shards + SIGMAS * deviation(items, shards)))


def fields(info):
    """BF.INFO as a dictionary: of RESP2's flat list, or of RESP3's map."""
    pairs = info.items() if isinstance(info, dict) else zip(info[::2], info[1::2])
    return {name.decode() if isinstance(name, bytes) else name: value for name, value in pairs}


def plan(sharded, items, error_rate):
    """The sizes, from the server's own mouth: a reserved filter takes no memory until it is written to."""
    capacity = shard_capacity(items, sharded.shards)
    probe = f"{sharded.name}:plan"
    sharded.client.execute_command("BF.RESERVE", probe, error_rate, capacity)
    try:
        size = fields(sharded.client.execute_command("BF.INFO", probe))["Size"]
    finally:
        sharded.client.unlink(probe)
    total = size * sharded.shards
    mean = items / sharded.shards
    sigma = deviation(items, sharded.shards)
    nodes = len(sharded.client.get_primaries())
    print(f"items in a shard: {mean:,.0f} on average, deviation {sigma:,.0f}, reserved for {capacity:,}")
    print(f"bytes of a shard: {size:,}")
    print(f"bytes of all {sharded.shards:,}: {total:,}, {8 * total / items:.2f} bits an item")
    print(f"bytes of each of {nodes} nodes: {total // nodes:,} on average")


def batches(lines):
    while some := list(islice(lines, BATCH)):
        yield some


def add_lines(sharded, lines):
    total = new = 0
    for some in batches(lines):
        answers = sharded.add(some)
        total += len(answers)
        new += sum(answers)
    print(f"{total:,} items, {new:,} new")
    report(sharded)


def report(sharded):
    figures = sharded.figures()
    items = [row[0] for row in figures]
    print(f"items in {sharded.shards:,} shards: {sum(items):,}, least {min(items):,}, most {max(items):,}")
    print(f"bytes: {sum(row[2] for row in figures):,}, shards that grew: {sum(row[3] > 1 for row in figures):,}")


def check_lines(sharded, lines):
    total = found = 0
    for some in batches(lines):
        answers = sharded.contains(some)
        total += len(answers)
        found += sum(answers)
    print(f"{total:,} items, {found:,} found")


def main():
    options = parse_arguments()
    try:
        sharded = ShardedFilter(connect(options.url), options.name, options.shards)
        lines = (line.rstrip(b"\n") for line in sys.stdin.buffer)
        if options.command == "plan":
            plan(sharded, options.items, options.error)
        elif options.command == "create":
            sharded.create(options.items, options.error)
            report(sharded)
        elif options.command == "add":
            add_lines(sharded, lines)
        else:
            check_lines(sharded, lines)
    except (Trouble, OSError, redis.RedisError, RedisClusterException) as trouble:
        print(f"sharded.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def connect(url):
    try:
        # No time limit on an answer: a node that saves or moves a large filter may be busy.
        return RedisCluster.from_url(url, socket_timeout=None)
    except ValueError as error:
        raise Trouble(f"--url: {error}") from None


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True, help="a node of the cluster, e.g. redis://127.0.0.1:7000")
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "plan": "tell the sizes, and keep nothing",
        "create": "reserve all shards",
        "add": "add the lines of standard input",
        "check": "count the lines of standard input that are there",
    }
    for command, text in helps.items():
        sub = commands.add_parser(command, help=text)
        sub.add_argument("name", help="of the filter; its keys are NAME:{0}, NAME:{1} and so on")
        sub.add_argument("--shards", type=positive(int), default=4096, help="number of keys (default: %(default)s)")
        if command in ("plan", "create"):
            sub.add_argument("--items", type=positive(float), required=True, help="how many different ones will come")
            sub.add_argument("--error", type=float, default=0.001, help="error rate (default: %(default)s)")
    return parser.parse_args()


def positive(kind):
    """For arguments: a number of that kind, above 0."""

    def parse(text):
        number = kind(text)
        if not 0 < number < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a positive number")
        return number

    return parse


if __name__ == "__main__":
    sys.exit(main())
