#!/usr/bin/env python3
"""One filter of a list, filled by many workers, each into a filter of its own; BF.MERGE makes them one.

Each worker is a process with a part of the list: it brings its URLs into one form, which takes most of the time,
and adds them to its own filter. When all are done their filters are merged under the name that everybody asks,
and deleted. Until then nobody meets half of a list, and a worker that died can begin again.

The script does the same with a single worker, prints both times, and checks that it does not matter: the bits
are the same, every URL is found, and others at no more than the error rate. Its exit code is 1 when one of that
is not so (2 when it could not run at all). It starts a server of its own on a free port of the loopback
interface, and stops it at the end.
"""

import argparse
import itertools
import math
import multiprocessing
import os
import secrets
import sys
import threading
import time
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis
import support
from libbloom import Bloom
from support import Trouble

# Seconds until all workers must have begun. Their work may take as long as it takes.
PATIENCE = 60
# Room beyond the list: a filter's items are estimated from its bits where it is merged.
SPARE = 1.02


def main():
    options = parse_arguments()
    try:
        urls = support.read_urls(options.urls)
        if not urls:
            raise Trouble(f"no URLs in {options.urls}")
        with support.Server(options.server, options.module) as server:
            promises = compare(server, urls, options)
    except (Trouble, OSError, redis.RedisError) as trouble:
        print(f"parallel.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return promises.report()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    support.add_urls_argument(parser, "URLs")
    parser.add_argument("--workers", type=support.positive, default=8, help="processes (default: %(default)s)")
    parser.add_argument("--error", type=float, default=0.001, help="error rate (default: %(default)s)")
    parser.add_argument("--key", default="urls", help="of the filter (default: %(default)s)")
    support.add_server_arguments(parser)
    return parser.parse_args()


# ---- What a program of your own would use --------------------------------------------------------


class Parts:
    """A filter that is made of parts, one for each worker."""

    def __init__(self, client, key, error_rate, capacity, seed):
        self.client = client
        self.key = key
        # Parts can be merged if they hash alike and have one shape. So each is made for the whole list.
        self.shape = {"error_rate": error_rate, "capacity": capacity, "seed": seed}

    def name(self, part):
        """In the same slot of a cluster as the filter, so that they can be merged."""
        return f"{{{self.key}}}:part:{part}"

    def begin(self, part):
        """An empty filter for a worker, also where one that died has left something."""
        own = Bloom(self.client, self.name(part), **self.shape)
        own.reserve(exist_ok=True)
        own.reset()

    def add(self, part, items):
        """A filter that was lost would come back without the items before; create=False makes an error of it."""
        Bloom(self.client, self.name(part), create=False).update(items, progress=lambda done: None)

    def merge(self, count):
        """The filter of all parts takes the place of what the key held, in one moment; a part that is lost is an error.

        The parts go afterwards. In one transaction they would be deleted as well if they could not be merged.
        """
        names = [self.name(part) for part in range(count)]
        Bloom(self.client, self.key).merge(*names, replace=True)
        self.client.unlink(*names)


def canonical(url):
    """One form of all that name the same page: no fragment, host in small letters, the query in order."""
    try:
        parts = urlsplit(url.decode("latin-1"))
        query = urlencode(sorted(parse_qsl(parts.query, True, encoding="latin-1")), encoding="latin-1")
        return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path or "/", query, "")).encode("latin-1")
    except ValueError:
        return url


# ---- The workers ---------------------------------------------------------------------------------


def fill(port, parts, urls, count):
    """Fills a filter by so many workers; gives the seconds that it took, and how many of them the merge took.

    The clock runs when all of the processes are there. On a long list their start takes no time to speak of.
    """
    start = multiprocessing.Barrier(count + 1)
    shares = [(port, parts.key, parts.shape, part, urls[part::count], start) for part in range(count)]
    workers = [multiprocessing.Process(target=work, args=share, daemon=True) for share in shares]
    try:
        for worker in workers:
            worker.start()
        try:
            start.wait(PATIENCE)
        except threading.BrokenBarrierError:
            raise Trouble("a worker did not begin") from None
        began = time.monotonic()
        for part, worker in enumerate(workers):
            worker.join()
            if worker.exitcode != 0:
                raise Trouble(f"worker {part} ended with {worker.exitcode}")
        worked = time.monotonic()
        parts.merge(count)
        return time.monotonic() - began, time.monotonic() - worked
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()


def work(port, key, shape, part, urls, start):
    """One worker, in a process of its own."""
    try:
        with redis.Redis(host="127.0.0.1", port=port, socket_timeout=None) as client:
            parts = Parts(client, key, **shape)
            parts.begin(part)
            start.wait(PATIENCE)
            parts.add(part, map(canonical, urls))
    except (redis.RedisError, threading.BrokenBarrierError) as error:
        print(f"worker {part}: {error}", file=sys.stderr, flush=True)
        start.abort()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


# ---- What is compared ----------------------------------------------------------------------------


def compare(server, urls, options):
    client = server.client()
    capacity = int(len(urls) * SPARE) + 100
    seed = secrets.randbits(64)
    promises = support.Promises()

    alone = Parts(client, f"{options.key}:alone", options.error, capacity, seed)
    seconds, _ = fill(server.port, alone, urls, 1)
    print(f"{len(urls):,} URLs by one worker: {seconds:.2f} s")
    parts = Parts(client, options.key, options.error, capacity, seed)
    seconds, merged = fill(server.port, parts, urls, options.workers)
    print(
        f"the same by {options.workers}, on {os.cpu_count()} processors: {seconds:.2f} s, "
        f"{1000 * merged:.1f} ms of it to merge their filters"
    )
    size = client.bf().info(options.key).size
    print(f"each filter takes {size:,} bytes, while they work {options.workers} of them")

    pairs = itertools.zip_longest(bits(client, parts.key), bits(client, alone.key))
    promises.add(all(one == other for one, other in pairs), "the bits are those that one worker alone has set")
    left = client.dbsize()
    promises.add(left == 2, f"filters that are left: {left}, one worker's and this one")
    exact = set(map(canonical, urls))
    support.check_members(client, options.key, exact, promises, "in the merged filter")
    support.check_strangers(client, options.key, exact, options.error, promises)
    items = client.bf().card(options.key)
    promises.add(
        abs(items - len(exact)) <= 0.01 * len(exact) + math.sqrt(len(exact)),
        f"BF.CARD, estimated from the bits, is {items:,} for {len(exact):,} different URLs",
    )
    return promises


def bits(client, key):
    """Yields the chunks of a filter's bits. The header, which comes before them, has the counts too."""
    iterator, _ = client.execute_command("BF.SCANDUMP", key, 0)
    while True:
        iterator, chunk = client.execute_command("BF.SCANDUMP", key, iterator)
        if iterator == 0:
            return
        yield iterator, chunk


if __name__ == "__main__":
    sys.exit(main())
